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
use rules::image::{Buffering, DataStatus, Farewell, SessionChange, SessionImage};
use rules::model::{FarId, Pdr, SourceInterface};
use transport::AdjacencyChange;

use crate::act::NextHop;
use crate::buffers::Flow;
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
        self.sessions.watches.used(session, now);
        let image = self.sessions.image_mut(session)?;
        let Buffering { far, notifies, most } = image.buffering(verdict.forward)?;
        let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?.id;
        let is_downlink = verdict.direction() == Direction::Downlink;
        let flow = qfi.map_or(0, Qfi::get);
        let packet = (pdr, descriptor.octets);
        let is_first = self
            .buffers
            .expect(place, ((session, far), packet), most, flow, now);
        let is_news =
            is_downlink && self.buffers.may_store(place) && image.is_news(verdict.pdr, DataStatus::Buffered);
        let notifies = is_first && notifies && is_downlink;
        if notifies || is_news {
            let bytes = self.burst[place].data();
            let event = Event::DownlinkData {
                session,
                pdr,
                far,
                qfi,
                dscp: Some(descriptor.tuple(bytes).map_or(0, |tuple| tuple.tos >> 2)),
                notifies,
                status: is_news.then_some(DataStatus::Buffered),
            };
            if !self.notices.tell(&mut self.stats, event) {
                if notifies {
                    self.buffers.untell((session, far), flow);
                }
                if is_news {
                    self.forget_status((session, verdict.pdr), DataStatus::Buffered);
                }
            }
        }
        Some(())
    }

    /// Tells Control of the packets of this burst that FARs drop which tell of it.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_of_dropped(&mut self) {
        for number in 0..self.discarded.len() {
            let place = usize::from(self.discarded[number]);
            let (verdict, _) = self
                .flows
                .extended()
                .whole(&self.descriptors[place].verdict, place);
            let session = self
                .sessions
                .blocks
                .get(verdict.block)
                .map(|block| block.session());
            let image = session.and_then(|session| Some((session, &self.sessions.at(session)?.image)));
            let flow = image.and_then(|(session, image)| {
                let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?.id;
                Some((session, pdr, self.descriptors[place].octets))
            });
            if let Some(flow) = flow {
                self.lose(flow);
            }
        }
        self.discarded.clear();
    }

    /// Tells Control of the packets of this burst for which there was no room.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_of_refused(&mut self) {
        while let Some(flow) = self.buffers.take_refused() {
            self.lose(flow);
        }
    }

    /// A packet of this flow is dropped by its FAR, or waited in vain: Control is told if it asks for it.
    #[cold]
    fn lose(&mut self, flow: Flow) {
        self.tell_status(flow, DataStatus::Discarded);
        self.count_dropped(flow);
    }

    /// Counts a downlink packet that is dropped in its URRs that are to tell of that.
    #[cold]
    fn count_dropped(&mut self, (session, id, octets): Flow) {
        let Some(image) = self.sessions.image_mut(session) else {
            return;
        };
        if image.dropped.is_empty() {
            return;
        }
        let mut pdrs = image.rules.pdrs().iter();
        let is_downlink = |pdr: &&Pdr| pdr.id == id && pdr.pdi.source_interface != SourceInterface::Access;
        let Some(pdr) = pdrs.find(is_downlink) else {
            return;
        };
        let dropped = image.dropped.there().into_iter().flatten();
        for one in dropped.filter(|one| pdr.urrs.contains(&one.urr)) {
            one.count(octets);
        }
        self.tell_dropped(session);
    }

    /// Tells Control of thresholds of dropped packets that are reached. What it cannot be told now is told with the
    /// next packet.
    fn tell_dropped(&mut self, session: SessionIndex) {
        let Some(image) = self.sessions.image_mut(session) else {
            return;
        };
        let dropped = image.dropped.there().into_iter().flatten();
        for one in dropped.filter(|one| one.is_reached()) {
            let event = Event::DroppedReached {
                session,
                urr: one.urr,
            };
            if self.notices.tell(&mut self.stats, event) {
                one.start_again();
            }
        }
    }

    /// Tells Control what became of a packet of this flow, if it asks for it and the packet is the first.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_status(&mut self, (session, id, _): Flow, status: DataStatus) {
        let Some(image) = self.sessions.image_mut(session) else {
            return;
        };
        let pdrs = image.rules.pdrs();
        let is_downlink = |pdr: &Pdr| pdr.id == id && pdr.pdi.source_interface != SourceInterface::Access;
        let Some(slot) = pdrs.iter().position(is_downlink) else {
            return;
        };
        let (slot, far) = (slot as u16, pdrs[slot].far);
        let Some(far) = far.filter(|_| image.is_news(slot, status)) else {
            return;
        };
        let event = Event::DownlinkData {
            session,
            pdr: id,
            far,
            qfi: None,
            dscp: None,
            notifies: false,
            status: Some(status),
        };
        if !self.notices.tell(&mut self.stats, event) {
            self.forget_status((session, slot), status);
        }
    }

    /// Control could not be told: the next packet is as the first.
    fn forget_status(&mut self, (session, slot): (SessionIndex, u16), status: DataStatus) {
        let image = self.sessions.image_mut(session);
        let told = image.and_then(|image| image.told.there()?.get_mut(usize::from(slot)));
        if let Some(told) = told {
            told.forget(status);
        }
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
        if let NextHop::Address(instance, address) = hop
            && !self
                .places
                .at(instance)
                .is_some_and(|home| home.may_answer(address))
        {
            // Nobody will be found there.
            return None;
        }
        let block = self.sessions.blocks.get(verdict.block)?;
        let (session, direction) = (block.session(), verdict.direction());
        let is_named = block.forward(verdict.forward).adjacency != AdjacencyId::BY_DESTINATION;
        let rules = &self.sessions.at(session)?.image.rules;
        let far = rules.fars().get(usize::from(verdict.forward))?.id;
        let pdr = rules.pdrs().get(usize::from(verdict.pdr))?.id;
        if !self.buffers.park(
            place,
            ((session, far), (pdr, descriptor.octets)),
            (hop, is_named),
            now,
        ) {
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
        let sets_bounds = matches!(change, SessionChange::Bound(..) | SessionChange::Replace(..));
        let markers = self.end_markers(session, &farewell.end_markers, now);
        let applied = self.sessions.apply(change, now);
        self.flows.bury(self.sessions.take_revoked());
        if sets_bounds && self.sessions.reached(session, 0).is_some() {
            self.notices.counters_reached(session);
        }
        if applied.outcome.is_ok() {
            self.send_end_markers(markers);
            if let Some(old) = &applied.retired {
                self.settle_buffered(old, &farewell);
            }
            self.tell_dropped(session);
            if sets_bounds {
                self.release_granted(session);
            }
        }
        Event::Applied {
            op,
            outcome: applied.outcome,
            retired: applied.retired,
            spent: applied.spent,
        }
    }

    /// What waits since a quota was used up goes on, if there may be a new one (TS 29.244 §5.2.2.3.1); what there is
    /// none for waits again.
    fn release_granted(&mut self, session: SessionIndex) {
        let Some(slot) = self.sessions.at(session) else {
            return;
        };
        let Some(block) = self.sessions.blocks.get(slot.installed.block) else {
            return;
        };
        let image = &slot.image;
        for action in image.quota_actions.iter() {
            let events = image.event_slots().filter(|(_, urr)| *urr == action.urr);
            let counters = events.fold(1u64 << action.urr, |all, (slot, _)| all | 1 << slot);
            let is_stopped = |direction| block.stopped(direction) & counters != 0;
            let waiting = action.forward.and_then(|forward| image.buffering(forward));
            if let Some(Buffering { far, .. }) = waiting
                && !Direction::BOTH.into_iter().all(is_stopped)
                && !image.rules.pdrs().iter().any(|pdr| pdr.may_follow(far))
            {
                self.buffers.flush((session, far));
            }
        }
    }

    /// What waits for a FAR that buffers no longer, or for a next hop, goes on, unless it is to be thrown away; what
    /// waits for one of a session that has moved goes to the worker that it has moved to.
    fn settle_buffered(&mut self, old: &SessionImage, farewell: &Farewell) {
        let discards = farewell.discards_buffered;
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
        self.give_up_buffered(farewell.tells_discarded);
    }

    /// Drops and counts buffered packets that will never go on. Control is told of those that have waited for too long,
    /// and if it `tells` so of those that were thrown away, where FARs ask for it.
    pub(super) fn give_up_buffered(&mut self, tells: bool) {
        while let Some((packet, flow)) = self.buffers.take_discarded() {
            self.give_up_packet(packet, DropReason::BufferDiscarded);
            if tells {
                self.tell_status(flow, DataStatus::Discarded);
            }
            self.count_dropped(flow);
        }
        while let Some((packet, flow)) = self.buffers.take_expired() {
            self.give_up_packet(packet, DropReason::BufferExpired);
            self.lose(flow);
        }
        self.count_waiting();
    }

    fn give_up_packet(&mut self, packet: I::Buf, reason: DropReason) {
        self.outgoing
            .give_up_one(&mut self.io, &mut self.stats, packet, reason);
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
