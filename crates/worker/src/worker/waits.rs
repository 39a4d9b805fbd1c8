//! Between FARs that buffer and Control: what is told of packets that come, and what a change does to those that wait.

use flow::{Direction, Forward, ForwardKind, Nanos, OpId, PackedForward, PortId, SessionIndex};
use packet::gtpu::MessageType;
use packet::{DropReason, PacketBuf, Qfi};
use rules::image::{Buffering, Farewell, SessionChange, SessionImage};
use rules::model::FarId;

use crate::descriptor::Fate;
use crate::encap::{Cut, Hop, Message, Optional};
use crate::io::Io;
use crate::{Event, Worker, act};

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
        self.sessions.watches.used(session, now);
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

    /// Changes a session, sends the End Markers of the tunnels that it leaves, and settles what waits for its FARs.
    pub(super) fn change(&mut self, op: OpId, change: SessionChange, now: Nanos) -> Event {
        let session = change.session();
        let farewell = match &change {
            SessionChange::Replace(_, farewell) => farewell.clone(),
            _ => Farewell::default(),
        };
        let markers = self.end_markers(session, &farewell.end_markers);
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

    /// What waits for a FAR that buffers no longer goes on, unless it is to be thrown away; what waits for one of a
    /// session that has moved goes to the worker that it has moved to.
    fn settle_buffered(&mut self, old: &SessionImage, discards: bool) {
        let new = self.sessions.at(old.session).map(|slot| &slot.image);
        let has_moved = new.is_none() && self.steering.of_bucket(old.bucket) != self.config.id;
        for slot in 0..old.rules.fars().len() as u8 {
            let Some(Buffering { far, .. }) = old.buffering(slot) else {
                continue;
            };
            let owner = (old.session, far);
            let still = new.and_then(|new| {
                let slot = new.rules.fars().iter().position(|other| other.id == far)?;
                new.buffering(slot as u8).map(|_| new.rules.fars().get(slot))
            });
            match still {
                _ if discards => self.buffers.discard(owner),
                Some(far) if far == old.rules.fars().get(usize::from(slot)) => {}
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
    fn end_markers(&mut self, session: SessionIndex, fars: &[FarId]) -> Vec<(PortId, I::Buf)> {
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
            .filter_map(|forward| self.end_marker(forward))
            .collect()
    }

    fn end_marker(&mut self, forward: &Forward) -> Option<(PortId, I::Buf)> {
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
