//! Between FARs that buffer and Control: what is told of packets that come, and what a change does to those that wait.
//! And what waits for a next hop: user packets, and End Markers of our own.

use std::collections::VecDeque;
use std::time::Duration;

use flow::{
    AdjacencyId, Direction, ExtensionId, Forward, ForwardKind, LiveBlock, Nanos, OpId, PackedForward, PortId,
    SessionIndex,
};
use packet::gtpu::{Ies, MessageType};
use packet::{DropReason, PacketBuf, Qfi};
use rules::SessionRules;
use rules::image::{Buffering, DataStatus, ImmediateActions, SessionChange, SessionImage};
use rules::model::{DestinationInterface, Far, FarId, Pdr, PdrId, SourceInterface, UrrId};
use transport::AdjacencyChange;

use crate::act::NextHop;
use crate::act::encap::{Cut, Hop, Message, Optional};
use crate::burst::descriptor::{Fate, Kind, Verdict};
use crate::deferred::buffers::Flow;
use crate::egress::checksum_offload::UdpChecksum;
use crate::io::Io;
use crate::{Event, Worker, act};

/// Messages of our own that wait for their next hops. More are dropped.
const MARKERS: usize = 256;
/// How long such a message waits for its next hop.
const MARKER_TIMEOUT: Duration = Duration::from_secs(4);

/// A message of our own in a tunnel.
#[derive(Clone, Copy)]
enum Signal {
    /// An End Marker (TS 29.281 §7.3.2).
    EndMarker,
    /// A Tunnel Status that starts a Pause of Charging (§7.3.3).
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

/// The messages whose next hops are not known yet: the forwards that they go by, and until when. End Markers come after
/// all that a change let go on its new way, so nothing has to wait behind them.
pub(super) struct LateMarkers(VecDeque<(Forward, Signal, Nanos)>);

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
        self.sessions.inactivity_timers.used(session, now);
        let image = self.sessions.image_mut(session)?;
        let Buffering { far, notifies, most } = image.buffering(verdict.forward)?;
        let pdr = image.rules.pdrs().get(usize::from(verdict.pdr))?.id;
        let is_downlink = verdict.direction() == Direction::Downlink;
        let packet = flow(session, pdr, descriptor.octets, &verdict);
        let flow = qfi.map_or(0, Qfi::get);
        let is_first = self
            .buffers
            .expect(place, ((session, far), packet), most, flow, now);
        let may_store = self.buffers.may_store(place, self.burst[place].len());
        let is_news = is_downlink && may_store && image.record_status(verdict.pdr, DataStatus::Buffered);
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
            if !self.events.push(&mut self.stats, event) {
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
    pub(super) fn tell_of_dropped(&mut self, now: Nanos) {
        for number in 0..self.discarded.len() {
            let place = usize::from(self.discarded[number]);
            let descriptor = &self.descriptors[place];
            let (verdict, _) = self.flows.extended().whole(&descriptor.verdict, place);
            let session = self.sessions.of(&verdict);
            let found = session.and_then(|session| {
                let rules = &self.sessions.at(session)?.image.rules;
                let pdr = rules.pdrs().get(usize::from(verdict.pdr))?.id;
                Some(flow(session, pdr, descriptor.octets, &verdict))
            });
            if let Some(flow) = found {
                self.lose(flow, now);
            }
        }
        self.discarded.clear();
    }

    /// Tells Control of the packets of this burst for which there was no room.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_of_refused(&mut self, now: Nanos) {
        while let Some(flow) = self.buffers.take_refused() {
            self.lose(flow, now);
        }
    }

    /// A packet of this flow is dropped by its FAR, or waited in vain: Control is told if it asks for it.
    #[cold]
    fn lose(&mut self, flow: Flow, now: Nanos) {
        self.tell_status(&flow, DataStatus::Discarded);
        self.count_dropped(&flow, now);
    }

    /// Counts a downlink packet that is dropped in its URRs that are to tell of that: those of its PDR, and those of
    /// the predefined rule that it was of, if the rules are still those by which that is known.
    #[cold]
    fn count_dropped(&mut self, flow: &Flow, now: Nanos) {
        let Some(slot) = self.sessions.at(flow.session) else {
            return;
        };
        if slot.image.dropped.is_empty() {
            return;
        }
        let block = self.sessions.blocks.get(slot.installed.block);
        let is_known = block.is_some_and(|block| block.generation() == flow.generation);
        let counted = if is_known { flow.urrs } else { 0 };
        let Some(image) = self.sessions.image_mut(flow.session) else {
            return;
        };
        let SessionImage { rules, dropped, .. } = image;
        let mut pdrs = rules.pdrs().iter();
        let is_downlink =
            |pdr: &&Pdr| pdr.id == flow.pdr && pdr.pdi.source_interface != SourceInterface::Access;
        let Some(pdr) = pdrs.find(is_downlink) else {
            return;
        };
        let counts = |urr: UrrId| {
            let slot = rules.urrs().iter().position(|one| one.id == urr);
            pdr.urrs.contains(&urr) || slot.is_some_and(|slot| counted >> slot & 1 == 1)
        };
        let dropped = dropped.as_mut().into_iter().flatten();
        for one in dropped.filter(|one| counts(one.urr)) {
            one.add(flow.octets);
        }
        self.tell_dropped(flow.session, now);
    }

    /// Tells Control of thresholds of dropped packets that are reached, and nodes upstream where they are to pause
    /// charging then. What Control cannot be told now is told with the next packet.
    fn tell_dropped(&mut self, session: SessionIndex, now: Nanos) {
        let Some(image) = self.sessions.image_mut(session) else {
            return;
        };
        let mut sends_pause = false;
        let dropped = image.dropped.as_mut().into_iter().flatten();
        for one in dropped.filter(|one| one.is_reached()) {
            let event = Event::DroppedReached {
                session,
                urr: one.urr,
            };
            if !one.reports || self.events.push(&mut self.stats, event) {
                one.reset();
                sends_pause |= one.sends_pause;
            }
        }
        if sends_pause {
            self.send_pause(session, now);
        }
    }

    /// Tells the nodes upstream of a session to pause charging (TS 29.244 §5.30), so many times a second as any message
    /// of a tunnel goes on.
    #[cold]
    fn send_pause(&mut self, session: SessionIndex, now: Nanos) {
        let tunnels = self.tunnels(session, leads_upstream);
        if tunnels.is_empty() {
            return;
        }
        if !self.relays.take(session, now) {
            self.stats.originated += 1;
            return self.stats.drop(DropReason::RelayLimit);
        }
        for forward in tunnels {
            if let Some((port, buf)) = self.signal(&forward, Signal::StartPause, now) {
                self.send_own(port, buf);
            }
        }
    }

    /// Tells Control what became of a packet of this flow, if it asks for it and the packet is the first.
    #[cold]
    #[inline(never)]
    pub(super) fn tell_status(&mut self, flow: &Flow, status: DataStatus) {
        let (session, id) = (flow.session, flow.pdr);
        let Some(image) = self.sessions.image_mut(session) else {
            return;
        };
        let pdrs = image.rules.pdrs();
        let is_downlink = |pdr: &Pdr| pdr.id == id && pdr.pdi.source_interface != SourceInterface::Access;
        let Some(slot) = pdrs.iter().position(is_downlink) else {
            return;
        };
        let (slot, far) = (slot as u16, pdrs[slot].far);
        let Some(far) = far.filter(|_| image.record_status(slot, status)) else {
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
        if !self.events.push(&mut self.stats, event) {
            self.forget_status((session, slot), status);
        }
    }

    /// Control could not be told: the next packet is as the first.
    fn forget_status(&mut self, (session, slot): (SessionIndex, u16), status: DataStatus) {
        let image = self.sessions.image_mut(session);
        let reported = image.and_then(|image| image.reported_statuses.as_mut()?.get_mut(usize::from(slot)));
        if let Some(reported) = reported {
            reported.remove(status);
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
                .interfaces
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
        let packet = flow(session, pdr, descriptor.octets, &verdict);
        if !self
            .buffers
            .park(place, ((session, far), packet), (hop, is_named), now)
        {
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
            let Some((forward, signal, until)) = self.late_markers.0.pop_front() else {
                return;
            };
            if forward.adjacency != change.id {
                self.late_markers.0.push_back((forward, signal, until));
            } else if is_gone {
                self.lose_marker();
            } else if let Some((port, buf)) = self.signal(&forward, signal, now) {
                self.send_own(port, buf);
            }
        }
    }

    /// Drops messages of our own that have waited for too long.
    #[cold]
    pub(super) fn give_up_markers(&mut self, now: Nanos) {
        while self
            .late_markers
            .0
            .front()
            .is_some_and(|(.., until)| *until <= now)
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
        let immediate = match &change {
            SessionChange::Replace(_, immediate) => immediate.clone(),
            _ => ImmediateActions::default(),
        };
        let sets_bounds = matches!(change, SessionChange::Bound(..) | SessionChange::Replace(..));
        let markers = self.end_markers(session, &immediate.end_markers, now);
        let applied = self.sessions.apply(change, now);
        self.flows.bury(self.sessions.take_revoked());
        if sets_bounds && self.sessions.reached(session, 0).is_some() {
            self.events.mark_reached(session);
        }
        if applied.outcome.is_ok() {
            self.send_end_markers(markers);
            if let Some(old) = &applied.retired {
                self.settle_buffered(old, &immediate, now);
            }
            self.tell_dropped(session, now);
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
    fn settle_buffered(&mut self, old: &SessionImage, immediate: &ImmediateActions, now: Nanos) {
        let discards = immediate.discards_buffered;
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
        self.give_up_buffered(immediate.tells_discarded, now);
    }

    /// Drops and counts buffered packets that will never go on. Control is told of those that have waited for too long,
    /// and if it `tells` so of those that were thrown away, where FARs ask for it.
    pub(super) fn give_up_buffered(&mut self, tells: bool, now: Nanos) {
        while let Some((packet, flow)) = self.buffers.take_discarded() {
            self.give_up_packet(packet, DropReason::BufferDiscarded);
            if tells {
                self.tell_status(&flow, DataStatus::Discarded);
            }
            self.count_dropped(&flow, now);
        }
        while let Some((packet, flow)) = self.buffers.take_expired() {
            self.give_up_packet(packet, DropReason::BufferExpired);
            self.lose(flow, now);
        }
        self.count_waiting();
    }

    fn give_up_packet(&mut self, packet: I::Buf, reason: DropReason) {
        self.tx.give_up_one(&mut self.io, &mut self.stats, packet, reason);
    }

    /// An End Marker for each of the tunnels that these FARs send into now (TS 29.281 §7.3.2), made but not sent.
    fn end_markers(&mut self, session: SessionIndex, fars: &[FarId], now: Nanos) -> Vec<(PortId, I::Buf)> {
        let tunnels = self.tunnels(session, |far, _| fars.contains(&far.id));
        let markers = tunnels.iter();
        markers
            .filter_map(|forward| self.signal(forward, Signal::EndMarker, now))
            .collect()
    }

    /// The tunnels that those FARs of a session which are `wanted` send into now, each once.
    fn tunnels(&self, session: SessionIndex, wanted: impl Fn(&Far, &SessionRules) -> bool) -> Vec<Forward> {
        let mut tunnels: Vec<Forward> = Vec::new();
        let Some(slot) = self.sessions.at(session) else {
            return tunnels;
        };
        let Some(block) = self.sessions.blocks.get(slot.installed.block) else {
            return tunnels;
        };
        let rules = &slot.image.rules;
        let fars = rules.fars().iter().zip(0..);
        for (_, place) in fars.filter(|(far, _)| wanted(far, rules)) {
            let forward = block.forward(place);
            if forward.kind == ForwardKind::Tunnel && !tunnels.contains(&forward) {
                tunnels.push(forward);
            }
        }
        tunnels
    }

    /// A message of our own; `None` for one that waits or is lost.
    fn signal(&mut self, forward: &Forward, signal: Signal, now: Nanos) -> Option<(PortId, I::Buf)> {
        if self.adjacencies.resolved(forward.adjacency).is_none() && self.late_markers.0.len() < MARKERS {
            self.late_markers
                .0
                .push_back((*forward, signal, now + MARKER_TIMEOUT));
            return None;
        }
        self.stats.originated += 1;
        let made = match (self.adjacencies.resolved(forward.adjacency), self.io.alloc()) {
            (None, _) => Err(DropReason::NoNeighbour),
            (_, None) => Err(DropReason::NoBuffer),
            (Some(adjacency), Some(mut buf)) => {
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
                let addresses = || act::addresses_v6(forward);
                fill(&mut buf, elements)
                    .and_then(|()| message.put_on(&mut buf, Optional::None, &self.chain, addresses))
                    .map(|()| (adjacency.port(), buf))
            }
        };
        made.map_err(|reason| self.stats.drop(reason)).ok()
    }

    fn send_end_markers(&mut self, markers: Vec<(PortId, I::Buf)>) {
        for (port, buf) in markers {
            self.send_own(port, buf);
        }
    }
}

/// A packet of a PDR as what its drop would count as.
fn flow(session: SessionIndex, pdr: PdrId, octets: u16, verdict: &Verdict) -> Flow {
    Flow {
        session,
        pdr,
        octets,
        urrs: verdict.urrs,
        generation: verdict.generation,
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

/// Puts octets into a buffer that has none.
fn fill<B: PacketBuf>(buf: &mut B, octets: &[u8]) -> Result<(), DropReason> {
    let room = buf.append(octets.len()).ok_or(DropReason::NoBuffer)?;
    room.copy_from_slice(octets);
    Ok(())
}
