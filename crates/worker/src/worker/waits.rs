//! Between FARs that buffer and Control: what is told of packets that come, and what a change does to those that wait.
//! And what waits for a next hop: user packets, and End Markers of our own.

use std::collections::VecDeque;
use std::time::Duration;

use flow::{
    AdjacencyId, Direction, ExtensionId, Forward, ForwardKind, LiveBlock, Nanos, OpId, PackedForward, PortId,
    SessionIndex,
};
use packet::gtpu::MessageType;
use packet::{DropReason, PacketBuf, Qfi};
use rules::image::{Buffering, Farewell, SessionChange, SessionImage};
use rules::model::FarId;
use transport::AdjacencyChange;

use crate::act::NextHop;
use crate::descriptor::{Fate, Kind};
use crate::encap::{Cut, Hop, Message, Optional};
use crate::io::Io;
use crate::{Event, Worker, act};

/// End Markers that wait for their next hops. More are dropped.
const MARKERS: usize = 256;
/// How long an End Marker waits for its next hop.
const MARKER_TIMEOUT: Duration = Duration::from_secs(4);

/// The End Markers whose next hops are not known yet: the forwards that they go by, and until when. They come after all
/// that a change let go on its new way, so nothing has to wait behind them.
pub(super) struct LateMarkers(VecDeque<(Forward, Nanos)>);

impl LateMarkers {
    /// None yet.
    pub(super) fn new() -> Self {
        Self(VecDeque::with_capacity(MARKERS))
    }

    /// Whether any wait.
    pub(super) fn has_any(&self) -> bool {
        !self.0.is_empty()
    }
}

impl<I: Io> Worker<I> {
    /// Finds the queues of the packets of this burst that are to be buffered, and tells Control of the first ones.
    #[cold]
    #[inline(never)]
    pub(super) fn expect_buffered(&mut self, packets: usize, now: Nanos) {
        for place in 0..packets {
            if self.descriptors[place].fate == Fate::Buffer && self.expect(place, now).is_none() {
                self.descriptors[place].fate = Fate::Drop(DropReason::FarBuffer);
            }
        }
    }

    fn expect(&mut self, place: usize, now: Nanos) -> Option<()> {
        let descriptor = &self.descriptors[place];
        let (verdict, _) = self.flows.extended().whole(&descriptor.verdict, place);
        let block = self.sessions.blocks.get(verdict.block)?;
        let session = block.session();
        let qfi = block.mark(verdict.marking).qfi().and_then(Qfi::new);
        let image = &self.sessions.at(session)?.image;
        let Buffering { far, notifies, most } = image.buffering(verdict.forward)?;
        let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?.id;
        let flow = qfi.map_or(0, Qfi::get);
        let is_first = self.buffers.expect(place, (session, far), most, flow, now);
        if is_first && notifies && verdict.direction() == Direction::Downlink {
            let bytes = self.burst[place].data();
            let dscp = descriptor.tuple(bytes).map_or(0, |tuple| tuple.tos >> 2);
            let event = Event::DownlinkData {
                session,
                pdr,
                far,
                qfi,
                dscp,
            };
            if !self.notices.tell(&mut self.stats, event) {
                self.buffers.untell((session, far), flow);
            }
        }
        Some(())
    }

    /// Finds the queues of the packets of this burst that lack a link layer address. Those that get none are dropped as
    /// they are. Meters and counts are as if a packet that waits had not come yet.
    #[cold]
    #[inline(never)]
    pub(super) fn expect_neighbours(&mut self, packets: usize, now: Nanos) {
        let mut missing = 0;
        for place in 0..packets {
            if self.descriptors[place].fate == Fate::Drop(DropReason::NoNeighbour) {
                let hop = self.missing.get(missing).copied();
                missing += 1;
                if hop.and_then(|hop| self.park(place, hop, now)).is_some() {
                    self.descriptors[place].fate = Fate::Buffer;
                }
            }
        }
        self.missing.clear();
    }

    fn park(&mut self, place: usize, hop: NextHop, now: Nanos) -> Option<()> {
        let descriptor = &self.descriptors[place];
        let (verdict, extension) = self.flows.extended().whole(&descriptor.verdict, place);
        if extension != ExtensionId::NONE {
            // It is translated already, and would be once more.
            return None;
        }
        let block = self.sessions.blocks.get(verdict.block)?;
        let (session, direction) = (block.session(), verdict.direction());
        let is_named = block.forward(verdict.forward).adjacency != AdjacencyId::BY_DESTINATION;
        let fars = self.sessions.at(session)?.image.rules.fars();
        let far = fars.get(usize::from(verdict.forward))?.id;
        if !self.buffers.park(place, (session, far), (hop, is_named), now) {
            return None;
        }
        if descriptor.kind != Kind::Relayed {
            let octets = u32::from(descriptor.octets);
            self.stats.directions[direction as usize]
                .matched
                .take_back(u64::from(octets));
            let block = self
                .sessions
                .blocks
                .live_at(verdict.block, verdict.generation, direction);
            if let Some(mut block) = block.filter(LiveBlock::is_metered) {
                block.unmeter(verdict.qers, octets, &mut self.shared);
            }
        }
        Some(())
    }

    /// Lets go on what waits for a next hop that has changed.
    #[cold]
    #[inline(never)]
    pub(super) fn meet(&mut self, change: &AdjacencyChange, now: Nanos) {
        self.buffers.meet(change);
        let is_gone = change.adjacency.is_none();
        if !self.late_markers.has_any() || !(is_gone || self.adjacencies.resolved(change.id).is_some()) {
            return;
        }
        for _ in 0..self.late_markers.0.len() {
            let Some((forward, until)) = self.late_markers.0.pop_front() else {
                return;
            };
            if forward.adjacency != change.id {
                self.late_markers.0.push_back((forward, until));
            } else if is_gone {
                self.lose_marker();
            } else if let Some((port, buf)) = self.end_marker(&forward, now) {
                self.outgoing.send(&mut self.io, &mut self.stats, port, buf);
            }
        }
    }

    /// Drops End Markers that have waited for too long.
    #[cold]
    pub(super) fn give_up_markers(&mut self, now: Nanos) {
        while self
            .late_markers
            .0
            .front()
            .is_some_and(|(_, until)| *until <= now)
        {
            self.late_markers.0.pop_front();
            self.lose_marker();
        }
    }

    fn lose_marker(&mut self) {
        self.stats.originated += 1;
        self.stats.drop(DropReason::NoNeighbour);
    }

    /// Changes a session, sends the End Markers of the tunnels that it leaves, and settles what waits for its FARs.
    pub(super) fn change(&mut self, op: OpId, change: SessionChange, now: Nanos) -> Event {
        let session = change.session();
        let farewell = match &change {
            SessionChange::Replace(_, farewell) => farewell.clone(),
            _ => Farewell::default(),
        };
        let markers = self.end_markers(session, &farewell.end_markers, now);
        let applied = self.sessions.apply(change, now);
        self.flows.bury(self.sessions.take_revoked());
        if applied.outcome.is_ok() {
            self.send_end_markers(markers);
            if let Some(old) = &applied.retired {
                self.settle_buffered(old, farewell.discards_buffered);
            }
        }
        Event::Applied {
            op,
            outcome: applied.outcome,
            retired: applied.retired,
            spent: applied.spent,
        }
    }

    /// What waits for a FAR that buffers no longer, or for a next hop, goes on, unless it is to be thrown away; what waits
    /// for one of a session that has moved goes to the worker that it has moved to.
    fn settle_buffered(&mut self, old: &SessionImage, discards: bool) {
        let new = self.sessions.at(old.session).map(|slot| &slot.image);
        let has_moved = new.is_none() && self.steering.of_bucket(old.bucket) != self.config.id;
        for (slot, far) in (0..).zip(old.rules.fars()) {
            let owner = (old.session, far.id);
            if self.buffers.has_parked() && self.buffers.is_parked(owner) {
                match new {
                    _ if discards => self.buffers.discard(owner),
                    None if !has_moved => self.buffers.discard(owner),
                    _ => self.buffers.flush(owner),
                }
                continue;
            }
            let Some(Buffering { far, .. }) = old.buffering(slot) else {
                continue;
            };
            let still = new.and_then(|new| {
                let slot = new.rules.fars().iter().position(|other| other.id == far)?;
                new.buffering(slot as u8).map(|_| new.rules.fars().get(slot))
            });
            match still {
                _ if discards => self.buffers.discard(owner),
                Some(new) if new == old.rules.fars().get(usize::from(slot)) => {}
                Some(_) => self.buffers.tell_again(owner),
                None if new.is_some() || has_moved => self.buffers.flush(owner),
                None => self.buffers.discard(owner),
            }
        }
        self.give_up_buffered();
    }

    /// Drops and counts buffered packets that will never go on.
    pub(super) fn give_up_buffered(&mut self) {
        let Self {
            buffers,
            burst,
            io,
            stats,
            outgoing,
            ..
        } = self;
        buffers.take_discarded(burst);
        while !burst.is_empty() {
            outgoing.give_up(io, stats, burst, DropReason::BufferDiscarded);
            buffers.take_discarded(burst);
        }
        buffers.take_expired(burst);
        while !burst.is_empty() {
            outgoing.give_up(io, stats, burst, DropReason::BufferExpired);
            buffers.take_expired(burst);
        }
        self.count_waiting();
    }

    /// An End Marker for each of the tunnels that these FARs send into now (TS 29.281 §7.3.2), made but not sent.
    fn end_markers(&mut self, session: SessionIndex, fars: &[FarId], now: Nanos) -> Vec<(PortId, I::Buf)> {
        let mut tunnels: Vec<Forward> = Vec::new();
        if let Some(slot) = self.sessions.at(session) {
            let all = slot.image.rules.fars();
            let places = fars
                .iter()
                .filter_map(|id| all.iter().position(|far| far.id == *id));
            let block = self.sessions.blocks.get(slot.installed.block);
            let forwards = places.filter_map(|place| Some(block.as_ref()?.forward(place as u8)));
            for forward in forwards.filter(|forward| forward.kind == ForwardKind::Tunnel) {
                if !tunnels.contains(&forward) {
                    tunnels.push(forward);
                }
            }
        }
        tunnels
            .iter()
            .filter_map(|forward| self.end_marker(forward, now))
            .collect()
    }

    /// An End Marker; `None` for one that waits or is lost.
    fn end_marker(&mut self, forward: &Forward, now: Nanos) -> Option<(PortId, I::Buf)> {
        if self.adjacencies.resolved(forward.adjacency).is_none() && self.late_markers.0.len() < MARKERS {
            self.late_markers.0.push_back((*forward, now + MARKER_TIMEOUT));
            return None;
        }
        self.stats.originated += 1;
        let made = match (self.adjacencies.resolved(forward.adjacency), self.io.alloc()) {
            (None, _) => Err(DropReason::NoNeighbour),
            (_, None) => Err(DropReason::NoBuffer),
            (Some(adjacency), Some(mut buf)) => {
                let message = Message {
                    forward: &PackedForward::from(forward),
                    adjacency,
                    message_type: MessageType::END_MARKER,
                    cut: Cut {
                        offset: 0,
                        octets: 0,
                        hop: Hop::None,
                    },
                };
                let addresses = || act::addresses_v6(forward);
                let done = message.put_on(&mut buf, Optional::None, &self.chain, addresses);
                done.map(|()| (adjacency.port(), buf))
            }
        };
        made.map_err(|reason| self.stats.drop(reason)).ok()
    }

    fn send_end_markers(&mut self, markers: Vec<(PortId, I::Buf)>) {
        for (port, buf) in markers {
            self.outgoing.send(&mut self.io, &mut self.stats, port, buf);
        }
    }
}
