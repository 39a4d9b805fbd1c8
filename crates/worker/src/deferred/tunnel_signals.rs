//! GTP-U messages of our own in the tunnels of sessions, End Markers and Tunnel Status, which wait for unresolved next
//! hops.

use std::collections::VecDeque;
use std::time::Duration;

use flow::{Forward, ForwardKind, Nanos, PackedForward, SessionIndex};
use packet::gtpu::{Ies, MessageType};
use packet::{DropReason, PacketBuf};
use rules::SessionRules;
use rules::model::Far;
use transport::{Adjacencies, AdjacencyChange};

use crate::apply_rules::encap::{Chain, Cut, Hop, Message, Optional, addresses_v6};
use crate::egress::checksum_offload::UdpChecksum;
use crate::egress::ports::{OwnPacket, Ports};
use crate::io::Io;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// Messages that wait for their next hops, at most. More are dropped.
const MOST: usize = 256;
/// How long a message waits for its next hop.
const TIMEOUT: Duration = Duration::from_secs(4);

/// A message of our own in a tunnel.
#[derive(Clone, Copy)]
pub(crate) enum Signal {
    /// An End Marker (TS 29.281 §7.3.2).
    EndMarker,
    /// A Tunnel Status that starts a Pause of Charging (TS 29.281 §7.3.3).
    StartPause,
}

impl Signal {
    const fn message_type(self) -> MessageType {
        match self {
            Self::EndMarker => MessageType::END_MARKER,
            Self::StartPause => MessageType::TUNNEL_STATUS,
        }
    }

    /// Its information elements.
    const fn elements(self) -> &'static [u8] {
        match self {
            Self::EndMarker => &[],
            Self::StartPause => &Ies::START_PAUSE_OF_CHARGING,
        }
    }
}

/// A message whose next hop is not resolved.
#[derive(Clone, Copy)]
struct Waiting {
    forward: Forward,
    signal: Signal,
    until: Nanos,
}

/// The messages that wait. End Markers are made after the packets that a change releases are on their new path, so
/// nothing has to wait behind them.
pub(crate) struct TunnelSignals {
    waiting: VecDeque<Waiting>,
}

/// What a message is made and sent with.
pub(crate) struct SignalSender<'a, I: Io> {
    pub ports: &'a mut Ports<I>,
    pub adjacencies: &'a Adjacencies,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

impl TunnelSignals {
    /// None waits.
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(MOST),
        }
    }

    /// Whether any waits.
    pub fn has_any(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Makes a message into the tunnel of `forward`; `None` for one that waits or is dropped.
    pub fn make<I: Io>(
        &mut self,
        sender: &mut SignalSender<'_, I>,
        forward: &Forward,
        signal: Signal,
    ) -> Option<OwnPacket<I::Buf>> {
        let adjacency = sender.adjacencies.resolved(forward.adjacency);
        if adjacency.is_none() && self.waiting.len() < MOST {
            self.waiting.push_back(Waiting {
                forward: *forward,
                signal,
                until: sender.now + TIMEOUT,
            });
            return None;
        }
        sender.stats.originated += 1;
        let made = match (adjacency, sender.ports.io.alloc()) {
            (None, _) => Err(DropReason::NoNeighbour),
            (_, None) => Err(DropReason::NoBuffer),
            (Some(adjacency), Some(mut packet)) => {
                let elements = signal.elements();
                let message = Message {
                    forward: &PackedForward::from(forward),
                    adjacency,
                    message_type: signal.message_type(),
                    cut: Cut {
                        offset: 0,
                        octets: elements.len(),
                        hop: Hop::None,
                    },
                    sum: UdpChecksum::Software,
                };
                let port = adjacency.port();
                fill(&mut packet, elements)
                    .and_then(|()| {
                        let addresses = || addresses_v6(forward);
                        message.put_on(&mut packet, Optional::None, &Chain::EMPTY, addresses)
                    })
                    .map(|()| OwnPacket { port, packet })
            }
        };
        made.map_err(|reason| sender.stats.drop(reason)).ok()
    }

    /// Sends a message into the tunnel of `forward`, now or when its next hop is resolved.
    pub fn send<I: Io>(&mut self, sender: &mut SignalSender<'_, I>, forward: &Forward, signal: Signal) {
        if let Some(packet) = self.make(sender, forward, signal) {
            sender.ports.send_own(sender.stats, packet);
        }
    }

    /// Sends or drops the messages that wait for a next hop that has changed.
    pub fn next_hop_changed<I: Io>(&mut self, sender: &mut SignalSender<'_, I>, change: &AdjacencyChange) {
        let is_gone = change.adjacency.is_none();
        if !self.has_any() || !(is_gone || sender.adjacencies.resolved(change.id).is_some()) {
            return;
        }
        for _ in 0..self.waiting.len() {
            let Some(waiting) = self.waiting.pop_front() else {
                return;
            };
            if waiting.forward.adjacency != change.id {
                self.waiting.push_back(waiting);
            } else if is_gone {
                drop_unresolved(sender.stats);
            } else {
                self.send(sender, &waiting.forward, waiting.signal);
            }
        }
    }

    /// Drops messages that have waited for too long.
    #[cold]
    pub fn expire(&mut self, stats: &mut Stats, now: Nanos) {
        while self.waiting.front().is_some_and(|waiting| waiting.until <= now) {
            self.waiting.pop_front();
            drop_unresolved(stats);
        }
    }
}

fn drop_unresolved(stats: &mut Stats) {
    stats.originated += 1;
    stats.drop(DropReason::NoNeighbour);
}

/// The tunnels that those FARs of a session which are `wanted` send into now, each once.
pub(crate) fn tunnels(
    sessions: &Sessions,
    session: SessionIndex,
    wanted: impl Fn(&Far, &SessionRules) -> bool,
) -> Vec<Forward> {
    let mut tunnels: Vec<Forward> = Vec::new();
    let Some(slot) = sessions.at(session) else {
        return tunnels;
    };
    let Some(block) = sessions.blocks.get(slot.installed.block) else {
        return tunnels;
    };
    let rules = &slot.image.rules;
    let fars = rules.fars().iter().zip(0..);
    for (_, slot) in fars.filter(|(far, _)| wanted(far, rules)) {
        let forward = block.forward(slot);
        if forward.kind == ForwardKind::Tunnel && !tunnels.contains(&forward) {
            tunnels.push(forward);
        }
    }
    tunnels
}

/// Puts octets into a buffer that has none.
fn fill<B: PacketBuf>(buf: &mut B, octets: &[u8]) -> Result<(), DropReason> {
    let room = buf.append(octets.len()).ok_or(DropReason::NoBuffer)?;
    room.copy_from_slice(octets);
    Ok(())
}
