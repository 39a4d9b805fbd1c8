//! A session as a worker runs it.

use std::sync::Arc;

use flow::meter::{MeterSpec, SharedId};
use flow::{BlockImage, Bucket, Direction, Forward, PortId, SessionIndex};
use nat::mappings::MovedMapping;
use nat::pools::BlockId;
use packet::Teid;
use smallvec::SmallVec;

use super::counters::{Counter, EventCounters};
use super::delivery_status::{DataStatus, ReportedStatuses};
use super::dropped::{Dropped, DroppedCount};
use super::egress_queues::EgressQueues;
use super::meter_state::{MeterShare, PacketsLeft, TokensLeft};
use super::ran_congestion::ReportedCongestion;
use crate::adjacencies::AdjacencyRef;
use crate::boxed_option::{Absent, BoxedOption};
use crate::classifier::{Classifier, Exemption};
use crate::counter_slots::{CounterSlots, PoolSlots};
use crate::model::{
    ApplyAction, CorrelationId, FarId, InactivityTimer, QerId, Redirect, RuleIds, SessionRules, UrrId, Verb,
};
use crate::network::{LocalId, VrfId};
use crate::prefix::IpPrefix;

/// A session as a worker runs it.
///
/// There are very many: what few sessions have is behind a pointer each ([`BoxedOption`]), and so is the block, which
/// the worker gives back once it is in its slab.
#[derive(Clone, PartialEq, Debug)]
pub struct SessionImage {
    /// The session's dense number.
    pub session: SessionIndex,
    /// The session's local SEID.
    pub seid: u64,
    /// The bucket that the session belongs to.
    pub bucket: Bucket,
    /// What it was compiled from.
    pub rules: Arc<SessionRules>,
    /// Finds the PDR of a packet, and what it leads to.
    pub classifier: Classifier,
    /// The block: forwards by FAR slot, marks and gates by QER slot.
    pub block: BoxedOption<BlockImage>,
    /// The URR of each counter slot; behind them are those of [`events`](Self::events).
    pub urr_ids: RuleIds<UrrId>,
    /// Where and what events are counted.
    pub events: BoxedOption<EventCounters>,
    /// The counters of credit pools.
    pub pools: BoxedOption<Vec<PoolSlots>>,
    /// The session's inactivity timer, and the counter slot that detects activity.
    pub inactivity: Option<Inactivity>,
    /// The tunnels that lead to the session, each once.
    pub tunnels: SmallVec<[(LocalId, Teid); 2]>,
    /// The UE's addresses that plain packets reach the session by, each once.
    pub ue_addresses: SmallVec<[(VrfId, IpPrefix); 1]>,
    /// Another number than the image before means that decisions made by that one are no longer valid: the PDRs,
    /// or what they refer to, changed. The same number means that no flow needs to be touched.
    pub classification_generation: u32,
    /// Which part of its rates the block's meters have.
    pub meter_share: MeterShare,
    /// What few forwards do.
    pub forward_extensions: BoxedOption<ForwardExtensions>,
    /// Keeps the next hops that forwards lead over.
    pub next_hops: SmallVec<[AdjacencyRef; 2]>,
    /// What becomes of packets that a used-up quota does not allow, where they are not dropped: by the slot of the URR,
    /// in rising order.
    pub quota_actions: BoxedOption<Vec<QuotaAction>>,
    /// The delivery statuses that Control was notified of, by PDR slot; empty where no FAR requests any. Written by the
    /// worker that has the image.
    pub reported_statuses: BoxedOption<Vec<ReportedStatuses>>,
    /// What is dropped of each URR that reports it. Written by the worker that has the image.
    pub dropped: BoxedOption<Vec<Dropped>>,
    /// Whether a URR counts which a Pause of Charging is for, and Control was not notified of one (TS 29.244 §5.30).
    /// The worker that has the image writes it.
    pub awaits_pause: bool,
    /// What matters when the image is installed, and not afterwards.
    pub installation: BoxedOption<Installation>,
}

const _: () = assert!(size_of::<SessionImage>() <= 224, "there are very many");

/// What few forwards do, beside what is in their block.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ForwardExtensions {
    /// Of the forwards whose mirror is [`Forward::COPIES`], by slot in rising order: the copies that are made.
    pub copies: Vec<(u8, Copies)>,
    /// Where the packets of forwards that redirect are redirected to, by slot in rising order.
    pub redirects: Vec<(u8, Redirect)>,
    /// The queues in which packets of each [`Direction`] wait before they leave.
    pub egress_queues: [Option<EgressQueues>; 2],
}

impl Absent for ForwardExtensions {
    const ABSENT: &'static Self = &Self {
        copies: Vec::new(),
        redirects: Vec::new(),
        egress_queues: [None, None],
    };
}

impl From<ForwardExtensions> for BoxedOption<ForwardExtensions> {
    /// Nothing is absent.
    fn from(forwards: ForwardExtensions) -> Self {
        let mut boxed = Self::NONE;
        if forwards != *ForwardExtensions::ABSENT {
            *boxed.get_or_insert_default() = forwards;
        }
        boxed
    }
}

/// What an image says of counters and meters as they are when it is installed.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Installation {
    /// The URRs that are not what had their number in the image before: it ends, and they count from 0.
    pub fresh_urrs: Vec<UrrId>,
    /// What is left of packet rates, where that is not what the worker has: of a session that comes from elsewhere, and
    /// of QERs that begin with it (TS 29.244 §5.4.15.2). The worker takes it out.
    pub packets: Vec<PacketsLeft>,
    /// What the meters of bit rates held in the process that the session comes from. The worker takes it out.
    pub tokens: Vec<TokensLeft>,
    /// The session was another worker's or another process's: its UE may have connections of which this worker knows
    /// nothing, and its access list asks for them.
    pub may_have_connections: bool,
    /// What it has of its pool of public addresses, where it comes from elsewhere.
    pub nat: BoxedOption<InstalledNat>,
    /// What the RAN has reported to the worker that the session comes from. The worker takes it out.
    pub congestion: Vec<ReportedCongestion>,
}

/// What a session that comes from elsewhere has of its pool of public addresses.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct InstalledNat {
    /// Its port blocks, in the order in which it got them.
    pub blocks: Vec<BlockId>,
    /// The mappings that it had, if they are known.
    pub mappings: Vec<MovedMapping>,
}

impl Absent for InstalledNat {
    const ABSENT: &'static Self = &Self {
        blocks: Vec::new(),
        mappings: Vec::new(),
    };
}

impl Absent for Installation {
    const ABSENT: &'static Self = &Self {
        fresh_urrs: Vec::new(),
        packets: Vec::new(),
        tokens: Vec::new(),
        may_have_connections: false,
        nat: BoxedOption::NONE,
        congestion: Vec::new(),
    };
}

/// How the worker detects that a session is inactive: no packet counts in a counter that belongs to no URR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Inactivity {
    /// The timer.
    pub timer: InactivityTimer,
    /// The counter's slot, behind those of the URRs.
    pub counter: u8,
}

/// The copies of a packet that a FAR duplicates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Copies {
    /// The port that gets a copy of the packet as it is sent.
    pub mirror: Option<PortId>,
    /// Where its duplicate goes: into a tunnel, by a next hop that is known.
    pub duplicate: Forward,
}

/// What becomes of packets that a URR's quota does not allow any more (TS 29.244 §5.2.2.2.1).
#[derive(Clone, PartialEq, Debug)]
pub struct QuotaAction {
    /// The slot of the URR.
    pub urr: u8,
    /// The slot of the forward that is applied to them instead of their own; `None`: they are dropped.
    pub forward: Option<u8>,
    /// The packets that the quota does not stop.
    pub exemption: Option<Exemption>,
}

/// How the packets of a FAR wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffering {
    /// The FAR.
    pub far: FarId,
    /// Control wants to know of the first downlink packet of each QoS flow (NOCP, TS 29.244 §5.2.3.1).
    pub notifies: bool,
    /// How many packets the BAR says are enough (TS 29.244 §8.2.30, §8.2.100).
    pub most: Option<u16>,
}

/// A counter of events: its slot in the session block, and the slot of the URR that it belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EventSlot {
    /// The slot of the counter.
    pub slot: u8,
    /// The slot of the URR.
    pub urr: u8,
}

impl SessionImage {
    /// The counter slots of its rules.
    pub fn counter_slots(&self) -> CounterSlots<'_> {
        CounterSlots::of(&self.rules)
    }

    /// How the packets of the FAR in this slot wait; `None` when it does not buffer.
    pub fn buffering(&self, forward: u8) -> Option<Buffering> {
        let far = self.rules.fars().get(usize::from(forward))?;
        let bar = far.bar.and_then(|bar| self.rules.bar(bar));
        (far.action.verb() == Some(Verb::Buffer)).then(|| Buffering {
            far: far.id,
            notifies: far.action.contains(ApplyAction::NOCP),
            most: bar.and_then(|bar| bar.extended_packets.or(bar.suggested_packets.map(u16::from))),
        })
    }

    /// Records that a packet of the PDR in this slot has this status. Returns whether its FAR requests a notification
    /// of it (BDPN, DDPN; TS 29.244 §5.28.1) and the packet is the first one.
    pub fn record_status(&mut self, pdr: u16, status: DataStatus) -> bool {
        let wanted = match status {
            DataStatus::Buffered => ApplyAction::BDPN,
            DataStatus::Discarded => ApplyAction::DDPN,
        };
        let far = self.rules.pdrs().get(usize::from(pdr)).and_then(|pdr| pdr.far);
        let far = far.and_then(|far| self.rules.far(far));
        far.is_some_and(|far| far.action.contains(wanted))
            && self
                .reported_statuses
                .as_mut()
                .and_then(|reported| reported.get_mut(usize::from(pdr)))
                .is_some_and(|reported| reported.insert(status))
    }

    /// Takes over from the image before it what was notified and counted: of PDRs whose FARs have not changed, and of
    /// URRs that stay.
    pub fn inherit(&mut self, older: &Self) {
        // A session in the place of another counts from nothing.
        if self.seid == older.seid {
            self.inherit_dropped(older);
        }
        self.inherit_statuses(older);
    }

    fn inherit_dropped(&mut self, older: &Self) {
        let fresh = &self.installation.fresh_urrs;
        let dropped = self.dropped.as_mut().into_iter().flatten();
        for one in dropped.filter(|one| !fresh.contains(&one.urr)) {
            if let Some(old) = older.dropped.iter().find(|old| old.urr == one.urr) {
                one.add_count(old.count());
            }
        }
    }

    /// Adds the dropped packets that another worker counted.
    pub fn add_dropped(&mut self, counts: &[DroppedCount]) {
        for count in counts {
            let mut dropped = self.dropped.as_mut().into_iter().flatten();
            if let Some(one) = dropped.find(|one| one.urr == count.urr) {
                one.add_count(*count);
            }
        }
    }

    /// This is left of packet rates when it is installed.
    pub fn bring_packets(&mut self, left: Vec<PacketsLeft>) {
        if !left.is_empty() {
            self.installation.get_or_insert_default().packets = left;
        }
    }

    /// The meters of bit rates hold this when it is installed.
    pub fn bring_tokens(&mut self, left: Vec<TokensLeft>) {
        if !left.is_empty() {
            self.installation.get_or_insert_default().tokens = left;
        }
    }

    /// The RAN has reported this to the worker that the session comes from.
    pub fn bring_congestion(&mut self, reported: Vec<ReportedCongestion>) {
        if !reported.is_empty() {
            self.installation.get_or_insert_default().congestion = reported;
        }
    }

    /// Takes out what the RAN has reported to the worker that the session comes from.
    pub fn take_congestion(&mut self) -> Vec<ReportedCongestion> {
        let installation = self.installation.as_mut();
        installation.map_or_else(Vec::new, |installation| {
            std::mem::take(&mut installation.congestion)
        })
    }

    /// The session was another worker's or another process's until now.
    pub fn comes_from_elsewhere(&mut self) {
        if self.classifier.connections().is_some() {
            self.installation.get_or_insert_default().may_have_connections = true;
        }
    }

    /// The session has these port blocks, and these mappings to them, from before.
    pub fn bring_port_blocks(&mut self, blocks: &[BlockId], mappings: Vec<MovedMapping>) {
        if !blocks.is_empty() {
            let blocks = blocks.to_vec();
            *self
                .installation
                .get_or_insert_default()
                .nat
                .get_or_insert_default() = InstalledNat { blocks, mappings };
        }
    }

    /// What is dropped of URRs that report it, and not reported yet.
    pub fn dropped_counts(&self) -> impl Iterator<Item = DroppedCount> + '_ {
        let counts = self.dropped.iter().map(Dropped::count);
        counts.filter(|count| (count.packets, count.octets) != (0, 0))
    }

    fn inherit_statuses(&mut self, older: &Self) {
        let Some(statuses) = self
            .reported_statuses
            .as_mut()
            .filter(|_| !older.reported_statuses.is_empty())
        else {
            return;
        };
        let (pdrs, old_pdrs) = (self.rules.pdrs(), older.rules.pdrs());
        for (slot, (pdr, reported)) in pdrs.iter().zip(statuses).enumerate() {
            let same_slot = old_pdrs
                .get(slot)
                .is_some_and(|old| old.id == pdr.id)
                .then_some(slot);
            let old = same_slot.or_else(|| old_pdrs.iter().position(|old| old.id == pdr.id));
            if let Some(old) = old
                && pdr.far.and_then(|id| self.rules.far(id))
                    == old_pdrs[old].far.and_then(|id| older.rules.far(id))
            {
                *reported = older.reported_statuses[old];
            }
        }
    }

    /// The copies of the packets of the FAR in this slot, if it duplicates them.
    pub fn copies(&self, forward: u8) -> Option<Copies> {
        let copies = &self.forward_extensions.copies;
        let place = copies.binary_search_by_key(&forward, |(slot, _)| *slot).ok()?;
        copies.get(place).map(|(_, copies)| *copies)
    }

    /// The counters of events.
    pub fn event_slots(&self) -> impl Iterator<Item = EventSlot> + '_ {
        let slots = (self.urr_ids.len() as u8..).zip(self.events.urrs.iter().copied());
        slots.map(|(slot, urr)| EventSlot { slot, urr })
    }

    /// The slots that events count in: bit n is slot n.
    pub fn event_mask(&self) -> u64 {
        self.event_slots()
            .fold(0, |mask, event| mask | 1 << (event.slot & 63))
    }

    /// The slots of credit pools whose packets count by weight: bit n is slot n.
    pub fn weighted_mask(&self) -> u64 {
        let weighted = self.pools.iter().filter(|pool| pool.is_weighted());
        weighted.fold(0, |mask, pool| mask | 1 << (pool.pool & 63))
    }

    /// These counters without those of credit pools of which they have no member.
    #[must_use]
    pub fn without_empty_pools(&self, counters: u64) -> u64 {
        let empty = self
            .pools
            .iter()
            .filter(|pool| pool.member_mask() & counters == 0);
        empty.fold(counters, |left, pool| left & !(1 << (pool.pool & 63)))
    }

    /// The counters of its URRs, by slot.
    pub fn counters(&self) -> Vec<Counter> {
        let own = self.urr_ids.iter().copied().map(Counter::Volume);
        let id = |event: EventSlot| {
            let urr = self.urr_ids.get(usize::from(event.urr)).copied();
            urr.map(Counter::Events)
        };
        own.chain(self.event_slots().filter_map(id)).collect()
    }

    /// The slot of a counter of a URR.
    pub fn slot_of(&self, counter: Counter) -> Option<u8> {
        let urr = self.urr_ids.iter().position(|id| *id == counter.urr())? as u8;
        match counter {
            Counter::Volume(_) => Some(urr),
            Counter::Events(_) => {
                let mut events = self.event_slots();
                events.find(|event| event.urr == urr).map(|event| event.slot)
            }
        }
    }

    /// The slots of packet rates, behind those of the QERs.
    pub fn packet_slots(&self) -> impl Iterator<Item = (u8, QerId)> + '_ {
        let first = self.rules.qers().len() as u8;
        (first..).zip(self.rules.packet_rated().map(|(id, _)| id))
    }

    /// What becomes of packets that the quota of the URR in this slot does not allow; `None`: they are dropped.
    pub fn quota_action(&self, urr: u8) -> Option<&QuotaAction> {
        let place = self.quota_actions.binary_search_by_key(&urr, |action| action.urr);
        self.quota_actions.get(place.ok()?)
    }

    /// The queues in which packets of a direction wait before they leave; `None`: they do not.
    pub fn egress_queues(&self, direction: Direction) -> Option<&EgressQueues> {
        self.forward_extensions.egress_queues[direction as usize].as_ref()
    }

    /// Where packets of the FAR in this slot are redirected to.
    pub fn redirect(&self, forward: u8) -> Option<&Redirect> {
        let redirects = &self.forward_extensions.redirects;
        let place = redirects.binary_search_by_key(&forward, |(slot, _)| *slot);
        redirects.get(place.ok()?).map(|(_, redirect)| redirect)
    }

    /// Whether any of its meters is limited.
    pub fn is_metered(&self) -> bool {
        self.block.meters.iter().flatten().any(Option::is_some)
    }

    /// Whether any of its counters has a limit.
    pub fn is_limited(&self) -> bool {
        self.block.bounds.iter().any(|bounds| bounds.limit.is_some())
    }

    /// Whether a worker that shares the session with another, while it moves, has to know.
    pub fn is_shared_knowingly(&self) -> bool {
        let has_queues = self.forward_extensions.egress_queues.iter().any(Option::is_some);
        self.is_metered() || self.is_limited() || self.inactivity.is_some() || has_queues
    }

    /// Which shared meters its QERs have that are correlated with those of other sessions.
    pub fn share_rates(&mut self, meter_of: impl Fn(CorrelationId) -> SharedId) {
        for (qer, meters) in self
            .rules
            .qers()
            .iter()
            .zip(&mut self.block.get_or_insert_default().meters)
        {
            if let Some(correlation) = self.rules.correlation(qer) {
                *meters = [Some(MeterSpec::Shared(meter_of(correlation))); 2];
            }
        }
    }

    /// The same with this share of its meters, of which it has all.
    #[must_use]
    pub fn with_share(mut self, share: MeterShare) -> Self {
        self.meter_share = share;
        if share != MeterShare::Whole {
            for meter in self.block.get_or_insert_default().meters.iter_mut().flatten() {
                *meter = meter.map(|meter| meter.half(share == MeterShare::Arriving));
            }
        }
        self
    }

    /// Whether every decision still holds that was made by `older` rules with their `classifier`: the image has the
    /// same generation then, and no flow is touched. Rules that changed without moving slots (a FAR, a gate, a mark) do
    /// not matter; those are read in the block. Of which pool the session has public addresses does: flows say
    /// whether it has one.
    pub fn is_classified_like(&self, older: &SessionRules, classifier: &Classifier) -> bool {
        self.classifier == *classifier && self.keeps_slots(older) && self.rules.nat() == older.nat()
    }

    /// Whether every slot that both have belongs to the same rule.
    pub(crate) fn keeps_slots(&self, older: &SessionRules) -> bool {
        slots_keep(self.rules.pdrs(), older.pdrs(), |pdr| pdr.id)
            && slots_keep(self.rules.fars(), older.fars(), |far| far.id)
            && slots_keep(self.rules.qers(), older.qers(), |qer| qer.id)
            && slots_keep(self.rules.urrs(), older.urrs(), |urr| urr.id)
    }
}

/// Whether every slot that both have belongs to the same rule.
fn slots_keep<R, I: PartialEq>(new: &[R], old: &[R], id: impl Fn(&R) -> I) -> bool {
    new.iter().zip(old).all(|(new, old)| id(new) == id(old))
}
