//! End Markers: the tunnels that a change of a session leaves (TS 29.281 §7.3.2, TS 29.244 §5.3.2).

use flow::SessionIndex;
use rules::model::FarId;

use crate::deferred::context::Context;
use crate::deferred::tunnel_signals::{Signal, tunnels};
use crate::egress::ports::OwnPacket;
use crate::io::Io;

/// Makes an End Marker for each of the tunnels that these FARs send into now. They are sent when the change is applied.
pub(crate) fn make<I: Io>(
    context: &mut Context<'_, I>,
    session: SessionIndex,
    fars: &[FarId],
) -> Vec<OwnPacket<I::Buf>> {
    let tunnels = tunnels(context.sessions, session, |far, _| fars.contains(&far.id));
    let (signals, mut sender) = context.signals();
    let made = |forward| signals.make(&mut sender, forward, Signal::EndMarker);
    tunnels.iter().filter_map(made).collect()
}
