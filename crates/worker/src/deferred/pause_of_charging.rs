//! Pause of Charging towards the nodes upstream, when downlink packets are dropped (TS 29.244 §5.30).

use flow::SessionIndex;
use packet::DropReason;
use rules::SessionRules;
use rules::model::{DestinationInterface, Far, Pdr, SourceInterface};

use crate::deferred::context::Context;
use crate::deferred::tunnel_signals::{Signal, tunnels};
use crate::io::Io;

/// Sends a Tunnel Status that starts a Pause of Charging into the upstream tunnels of a session, at the rate of relayed
/// messages of tunnels.
#[cold]
pub(crate) fn send<I: Io>(context: &mut Context<'_, I>, session: SessionIndex) {
    let tunnels = tunnels(context.sessions, session, leads_upstream);
    if tunnels.is_empty() {
        return;
    }
    if !context.relays.take(session, context.now) {
        context.stats.originated += 1;
        return context.stats.drop(DropReason::RelayLimit);
    }
    let (signals, mut sender) = context.signals();
    for forward in &tunnels {
        signals.send(&mut sender, forward, Signal::StartPause);
    }
}

/// Whether a FAR sends packets of the UE on to the next node (N9, S5/S8-U).
fn leads_upstream(far: &Far, rules: &SessionRules) -> bool {
    let is_uplink = |pdr: &Pdr| pdr.pdi.source_interface == SourceInterface::Access;
    let mut pdrs = rules.pdrs().iter();
    far.forwarding
        .is_some_and(|to| to.destination == DestinationInterface::Core)
        && pdrs.any(|pdr| is_uplink(pdr) && pdr.may_follow(far.id))
}
