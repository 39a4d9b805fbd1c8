//! What control hands to a worker: a session, compiled; and what the worker hands back: its final counts.
//!
//! Values only. Control makes a [`SessionImage`] with [`compile`](crate::compile::compile) and sends it in a
//! [`SessionChange`], which the worker applies whole or not at all.

use core::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use flow::meter::{MeterSpec, PacketState, SharedId, Tokens};
use flow::{BlockImage, Bounds, Bucket, ContentUsage, Forward, PortId};
pub use flow::{ContentId, Direction, PacketTimes, SessionIndex, UrrCount};
use packet::Teid;
use smallvec::SmallVec;

use crate::AdjacencyRef;
use crate::boxed_option::{Absent, BoxedOption};
use crate::classifier::{Classifier, Exemption};
use crate::model::{
    ApplyAction, CorrelationId, DroppedDlThreshold, FarId, InactivityTimer, PdrId, PoolFault, PoolSlots,
    QerId, Redirect, RuleRef, SdfFilterId, SessionRules, Urr, UrrId, UrrIds, Verb,
};
use crate::network::{EventLogic, InstanceId, LocalId, VrfId};
use crate::prefix::IpPrefix;

/// What happens to packets that a PDR detects: slots of the session's block. The flow key that it may be kept under
/// is told with each match: [`Match::key`](crate::Match::key).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Decision {
    /// The slot of the PDR, its place in [`SessionRules::pdrs`].
    pub pdr: u16,
    /// The slot of the forward, its place in [`BlockImage::forwards`].
    pub forward: u8,
    /// The QERs that a packet must pass: bit n is slot n.
    pub qers: u64,
    /// The URRs that a packet counts in: bit n is slot n.
    pub urrs: u64,
    /// What it is billed as, if it is of a predefined rule that says so.
    pub content: ContentId,
    /// The slot of the QER whose mark packets get, or [`Decision::NO_MARK`].
    pub marking: u8,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
    /// Whether the tunnel that the packet came in comes off.
    pub removes_outer: bool,
    /// Whether the received PDU Session Container is *not* to be put into a next tunnel.
    pub deletes_psc: bool,
    /// Whose addresses the inner source may have; anything else is [`packet::DropReason::SpoofedSource`].
    pub source_check: SourceCheck,
}

impl Decision {
    /// In [`marking`](Self::marking): no QER marks.
    pub const NO_MARK: u8 = 0xff;
}

/// Whose addresses an inner packet's source may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SourceCheck {
    /// Anyone's: downlink, or relayed between gNBs, or a session without UE addresses.
    Anyone,
    /// The UE's: uplink.
    Ue,
    /// The UE's or an IPv6 link-local one: uplink to the control plane function, which hears router solicitations.
    UeOrLinkLocal,
}

/// What the meters of a session, and the limits of its counters, may admit in the worker that has it. While a session
/// moves, two workers have it, and together they may admit what one may: each has half of the bursts; one earns, the
/// other spends what it has left.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum MeterShare {
    /// All of it.
    #[default]
    Whole,
    /// It spends what is left, and earns nothing; of what limits still allow, it has half.
    Leaving,
    /// It starts with nothing, and earns.
    Arriving,
}

/// A session as a worker runs it.
///
/// There are very many: what few sessions have is behind a pointer each ([`BoxedOption`]), and so is the block, which the
/// worker gives back once it is in its slab.
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
    pub urr_ids: UrrIds,
    /// Where and what events are counted.
    pub events: BoxedOption<EventCounters>,
    /// The counters of credit pools.
    pub pools: BoxedOption<Vec<PoolSlots>>,
    /// Of them, those that are not what had their number in the image before: it ends, and they count from 0.
    pub fresh_urrs: BoxedOption<Vec<UrrId>>,
    /// The session's inactivity timer, and the counter slot that it is told by.
    pub inactivity: Option<Inactivity>,
    /// The counter slot of packets whose content finds no room for a counter of its own; `None` where no rule is of
    /// one.
    pub content_rest: Option<u8>,
    /// The tunnels that lead to the session, each once.
    pub tunnels: SmallVec<[(LocalId, Teid); 2]>,
    /// The UE's addresses that plain packets reach the session by, each once.
    pub ue_addresses: SmallVec<[(VrfId, IpPrefix); 1]>,
    /// Another number than the image before means that decisions made by that one are no longer valid: the PDRs,
    /// or what they refer to, changed. The same number means that no flow needs to be touched.
    pub classification_generation: u32,
    /// Which part of its rates the block's meters have.
    pub meter_share: MeterShare,
    /// Of the forwards whose mirror is [`Forward::COPIES`], by slot in rising order: what they stand for.
    pub copies: BoxedOption<Vec<(u8, Copies)>>,
    /// Where the packets of forwards that redirect are redirected to, by slot in rising order.
    pub redirects: BoxedOption<Vec<(u8, Redirect)>>,
    /// Keeps the next hops that forwards lead over.
    pub next_hops: SmallVec<[AdjacencyRef; 2]>,
    /// What becomes of packets that a used-up quota does not allow, where they are not dropped: by the slot of the URR,
    /// in rising order.
    pub quota_actions: BoxedOption<Vec<QuotaAction>>,
    /// The delivery statuses that Control was notified of, by PDR slot; empty where no FAR requests any. Written by the
    /// worker that has the image.
    pub reported_statuses: BoxedOption<Vec<ReportedStatuses>>,
    /// What is dropped of each URR that is to tell of that. The worker that has the image writes it.
    pub dropped: BoxedOption<Vec<Dropped>>,
    /// Whether a URR counts which a Pause of Charging is for, and Control was not told of one (TS 29.244 §5.30). The
    /// worker that has the image writes it.
    pub awaits_pause: bool,
    /// What is left of packet rates, where that is not what the worker has: of a session that comes from elsewhere, and
    /// of QERs that begin with it (TS 29.244 §5.4.15.2). The worker takes it out.
    pub packets: BoxedOption<Vec<PacketsLeft>>,
    /// What the meters of bit rates held in the process that the session comes from. The worker takes it out.
    pub tokens: BoxedOption<Vec<TokensLeft>>,
}

const _: () = assert!(size_of::<SessionImage>() <= 256, "there are very many");

/// The counters of events, of which a packet is one or none in each, and what is an event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventCounters {
    /// The slot of each URR that counts events, in the order of their counters: those lie behind the counters of all
    /// URRs.
    pub urrs: Vec<u8>,
    /// By the slot of a PDR, in rising order: what is an event among its packets, where they count as such.
    pub logic: Vec<(u16, EventLogic)>,
}

impl Absent for EventCounters {
    const ABSENT: &'static Self = &Self {
        urrs: Vec::new(),
        logic: Vec::new(),
    };
}

impl From<EventCounters> for BoxedOption<EventCounters> {
    /// Those of nothing are not there.
    fn from(counters: EventCounters) -> Self {
        match counters.urrs.is_empty() && counters.logic.is_empty() {
            true => Self::NONE,
            false => Self::some(counters),
        }
    }
}

impl EventCounters {
    /// What is an event among the packets of the PDR in this slot; nothing of most.
    pub fn of(&self, pdr: u16) -> EventLogic {
        let place = self.logic.binary_search_by_key(&pdr, |(slot, _)| *slot);
        let logic = place.ok().and_then(|place| self.logic.get(place));
        logic.map_or(EventLogic::default(), |(_, logic)| *logic)
    }
}

/// What is left of a QER's packet rates, by [`Direction`].
pub type PacketsLeft = (QerId, [PacketState; 2]);

/// What the meters of a QER's bit rates hold, by [`Direction`]; nothing where there is no rate, and of rates that
/// sessions share.
pub type TokensLeft = (QerId, [Option<Tokens>; 2]);

/// What became of a downlink packet, for the delivery status (TS 29.244 §5.28, §8.2.179).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DataStatus {
    /// The first one since its FAR was told what to do is buffered.
    Buffered,
    /// The first one is discarded.
    Discarded,
}

/// The statuses of one PDR that Control was notified of: bit n is the [`DataStatus`] n.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReportedStatuses(u8);

impl ReportedStatuses {
    /// Adds a status; whether it was absent.
    pub fn insert(&mut self, status: DataStatus) -> bool {
        let before = self.0;
        self.0 |= 1 << status as u8;
        self.0 != before
    }

    /// Takes a status away: the notification could not be sent.
    pub fn remove(&mut self, status: DataStatus) {
        self.0 &= !(1 << status as u8);
    }
}

/// The downlink packets of a URR that were dropped since it told of that (TS 29.244 §5.2.2.2.1): those that FARs drop,
/// and those that wait for Control in vain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// The URR.
    pub urr: UrrId,
    /// When it tells.
    pub threshold: DroppedDlThreshold,
    /// Whether it tells Control (DROTH).
    pub reports: bool,
    /// Whether it tells the nodes upstream to pause charging (SSPOC).
    pub sends_pause: bool,
    /// Packets.
    pub packets: u64,
    /// Their octets, of inner IP packets.
    pub octets: u64,
}

impl Dropped {
    /// None yet, of a URR that is to tell of them.
    pub fn of(urr: &Urr) -> Option<Self> {
        let threshold = urr.dropped_threshold()?;
        Some(Self {
            urr: urr.id,
            threshold,
            reports: urr.reports_dropped(),
            sends_pause: urr.sends_pause(),
            packets: 0,
            octets: 0,
        })
    }

    /// What is counted, for who goes on with it.
    pub const fn count(&self) -> DroppedCount {
        DroppedCount {
            urr: self.urr,
            packets: self.packets,
            octets: self.octets,
        }
    }

    fn add_count(&mut self, count: DroppedCount) {
        self.packets = self.packets.saturating_add(count.packets);
        self.octets = self.octets.saturating_add(count.octets);
    }

    /// One packet more.
    pub fn add(&mut self, octets: u16) {
        self.packets = self.packets.saturating_add(1);
        self.octets = self.octets.saturating_add(octets.into());
    }

    /// Whether the threshold of packets or that of octets is reached.
    pub fn is_reached(&self) -> bool {
        let reached = |bound: Option<u64>, count| bound.is_some_and(|bound| count >= bound);
        reached(self.threshold.packets, self.packets) || reached(self.threshold.octets, self.octets)
    }

    /// It is told: the threshold starts again.
    pub fn reset(&mut self) {
        (self.packets, self.octets) = (0, 0);
    }
}

/// How much was dropped of a URR since it told of that, where the session goes on in another worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DroppedCount {
    /// The URR.
    pub urr: UrrId,
    /// Packets.
    pub packets: u64,
    /// Their octets, of inner IP packets.
    pub octets: u64,
}

/// How the worker tells that a session is inactive: no packet counts in a counter that is nobody's URR.
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
    /// Those that go on as if there was no quota.
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

impl SessionImage {
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

    /// Records that a packet of the PDR in this slot has this status. Returns whether its FAR requests a notification of
    /// it (BDPN, DDPN; TS 29.244 §5.28.1) and the packet is the first one.
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
        let fresh = &self.fresh_urrs;
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

    /// What is dropped of URRs that tell of it, and not told yet.
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
        let place = self
            .copies
            .binary_search_by_key(&forward, |(slot, _)| *slot)
            .ok()?;
        self.copies.get(place).map(|(_, copies)| *copies)
    }

    /// The slots of URRs' counters of events, with the slot of the URR that each is of.
    pub fn event_slots(&self) -> impl Iterator<Item = (u8, u8)> + '_ {
        (self.urr_ids.len() as u8..).zip(self.events.urrs.iter().copied())
    }

    /// The slots that events count in: bit n is slot n.
    pub fn event_mask(&self) -> u64 {
        self.event_slots()
            .fold(0, |mask, (slot, _)| mask | 1 << (slot & 63))
    }

    /// The slots of credit pools whose packets count by weight: bit n is slot n.
    pub fn weighted_mask(&self) -> u64 {
        let weighted = self.pools.iter().filter(|pool| pool.is_weighted());
        weighted.fold(0, |mask, pool| mask | 1 << (pool.pool & 63))
    }

    /// These counters without those of credit pools of which they have no member.
    #[must_use]
    pub fn without_empty_pools(&self, counters: u64) -> u64 {
        let empty = self.pools.iter().filter(|pool| pool.shares() & counters == 0);
        empty.fold(counters, |left, pool| left & !(1 << (pool.pool & 63)))
    }

    /// The counters of its URRs, by slot.
    pub fn counters(&self) -> Vec<Counter> {
        let own = self.urr_ids.iter().copied().map(Counter::Volume);
        let id = |(_, urr): (u8, u8)| self.urr_ids.get(usize::from(urr)).copied().map(Counter::Events);
        own.chain(self.event_slots().filter_map(id)).collect()
    }

    /// The slot of a counter of a URR.
    pub fn slot_of(&self, counter: Counter) -> Option<u8> {
        let urr = self.urr_ids.iter().position(|id| *id == counter.urr())? as u8;
        match counter {
            Counter::Volume(_) => Some(urr),
            Counter::Events(_) => {
                let mut events = self.event_slots();
                events.find(|(_, of)| *of == urr).map(|(slot, _)| slot)
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

    /// Where packets of the FAR in this slot are redirected to.
    pub fn redirect(&self, forward: u8) -> Option<&Redirect> {
        let place = self.redirects.binary_search_by_key(&forward, |(slot, _)| *slot);
        self.redirects.get(place.ok()?).map(|(_, redirect)| redirect)
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
        self.is_metered() || self.is_limited() || self.inactivity.is_some()
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
    /// not matter; those are read in the block.
    pub fn is_classified_like(&self, older: &SessionRules, classifier: &Classifier) -> bool {
        self.classifier == *classifier && self.keeps_slots(older)
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

/// A counter of a URR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counter {
    /// That of octets and packets, which every URR has.
    Volume(UrrId),
    /// That of events.
    Events(UrrId),
}

impl Counter {
    /// The URR.
    pub const fn urr(self) -> UrrId {
        match self {
            Self::Volume(urr) | Self::Events(urr) => urr,
        }
    }
}

impl From<UrrId> for Counter {
    fn from(urr: UrrId) -> Self {
        Self::Volume(urr)
    }
}

/// One operation on a worker's sessions.
#[derive(Clone, Debug)]
pub enum SessionChange {
    /// A session that the worker does not have.
    Install(Box<SessionImage>),
    /// A session that the worker has, by its index.
    Replace(Box<SessionImage>, ImmediateActions),
    /// These counters of URRs get other watermarks and limits, compared with what they have counted in all; those
    /// that were stopped go on, unless they are beyond their limit. No flow is touched.
    Bound(SessionIndex, Vec<(Counter, Bounds)>),
    /// The session goes.
    Remove(SessionIndex),
}

/// What the worker does for the rules that a change replaces, at the moment of the change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ImmediateActions {
    /// The FARs into whose old tunnels an End Marker is sent, behind the last packet (SNDEM, TS 29.244 §5.3.2).
    pub end_markers: Vec<FarId>,
    /// Packets that wait are thrown away and not sent (DROBU, TS 29.244 §8.2.31).
    pub discards_buffered: bool,
    /// They are since the DL Buffering Duration is over: Control is told of them where FARs ask for it (DDPN, §5.28.1).
    pub tells_discarded: bool,
}

impl SessionChange {
    /// The session that changes.
    pub fn session(&self) -> SessionIndex {
        match self {
            Self::Install(image) | Self::Replace(image, _) => image.session,
            Self::Bound(session, _) | Self::Remove(session) => *session,
        }
    }
}

/// Final counts: of the URRs that a Replace took away, or of all of them after a Remove. After a Replace by an image
/// that is [`Leaving`](MeterShare::Leaving): of all of them at that moment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UsageSnapshot {
    /// The session.
    pub session: SessionIndex,
    /// What each URR counted.
    pub counters: Vec<(UrrId, UrrCount)>,
    /// When the packets came that URRs have counted since that was told last: it is told once, whatever is counted.
    pub times: Vec<(UrrId, PacketTimes)>,
    /// What was counted before QoS enforcement since that was told last, of URRs that tell of it: it is told once.
    pub before_qos: Vec<(UrrId, UrrCount)>,
    /// What was counted of contents since it was told last, and is not there any more: of all after a Remove or a
    /// Replace by another session, else of those that a Replace took away.
    pub contents: Vec<ContentUsage>,
    /// What is left of each packet rate, or what was taken away of it for the worker that the session goes to.
    pub packets: Vec<PacketsLeft>,
    /// What the meters of bit rates hold: after a Remove, and to a query.
    pub tokens: Vec<TokensLeft>,
    /// After a Remove: what was dropped of URRs that tell of it, and not told yet.
    pub dropped: Vec<DroppedCount>,
}

/// Rules that cannot be compiled: the rule to name in a Failed Rule ID, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CompileError {
    /// The rule at fault.
    pub rule: RuleRef,
    /// What is wrong with it.
    pub reason: CompileFault,
}

/// Why rules cannot be compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompileFault {
    /// A PDR names no FAR (TS 29.244 Table 7.5.2.2-1).
    NoFar,
    /// A PDR names a rule that does not exist.
    Missing(RuleRef),
    /// A URR is linked to one that does not exist.
    NoLinkedUrr(UrrId),
    /// A URR's FAR ID for Quota Action names a FAR that does not exist.
    NoQuotaAction(FarId),
    /// A credit pool asks for what it cannot have.
    Pool(PoolFault),
    /// A URR counts events, and a PDR that names it looks for no application of which any are configured.
    NoEvents(PdrId),
    /// URRs exempt more flows from their quotas than `max` in all.
    TooManyExempt {
        /// The most there may be.
        max: u16,
    },
    /// A FAR has not exactly one of DROP, FORW, BUFF, IPMA and IPMD (TS 29.244 §8.2.26).
    ApplyAction,
    /// An SDF filter has only an id, which nothing defines (TS 29.244 §8.2.5).
    UndefinedFilter(SdfFilterId),
    /// A PDR's F-TEID has TEID 0 or no address.
    FTeidIncomplete,
    /// A PDR's F-TEID has an address that is no GTP-U address of this node.
    NotLocal(IpAddr),
    /// A PDR or FAR names a network instance that is not configured.
    UnknownInstance(InstanceId),
    /// No PDR of the session has an F-TEID or a UE address (TS 29.244 §5.2.1): nothing can lead to it.
    Unreachable,
    /// A FAR says DUPL, and has no Duplicating Parameters, or none that lead into a tunnel.
    NoDuplicate,
    /// A FAR that redirects says DUPL: what would be duplicated is not said.
    RedirectedDuplicate,
    /// A FAR's Outer Header Creation asks for a header that this node does not make.
    UnsupportedHeader,
    /// A FAR's Outer Header Creation lacks the address or the TEID that its description announces.
    HeaderIncomplete,
    /// A FAR's peer is an address that no other node has: a martian, a broadcast address, or one of this node's where
    /// no tunnels end.
    NoPeer(IpAddr),
    /// A PDR's Outer Header Removal removes a header that this node does not handle.
    UnsupportedRemoval,
    /// No network instance fits the FAR's destination interface, or none has an address of the peer's family.
    NoEgress,
    /// No route leads to the FAR's peer.
    NoRoute(IpAddr),
    /// There is no room for another next hop, this one.
    NoAdjacency(IpAddr),
    /// A QER guarantees more than it lets pass.
    GbrAboveMbr,
    /// A QER that is correlated with those of other sessions has a guaranteed bit rate, a packet rate, or the
    /// correlation of another QER of its session.
    Correlated,
    /// A QER marks packets with a QFI and with a Service Class Indicator.
    TwoMarks,
    /// The session has more rules of this kind than `max`.
    TooMany {
        /// The most there may be.
        max: u16,
    },
}

impl CompileFault {
    /// Whether the node's limits are at fault, not the request (TS 29.244 §8.2.1: cause 75).
    pub const fn is_resource(self) -> bool {
        matches!(
            self,
            Self::TooMany { .. } | Self::TooManyExempt { .. } | Self::NoAdjacency(_)
        )
    }
}

impl fmt::Display for CompileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoFar => f.write_str("names no FAR"),
            Self::Missing(rule) => write!(f, "names {rule}, which does not exist"),
            Self::NoLinkedUrr(urr) => write!(f, "is linked to URR {urr}, which does not exist"),
            Self::NoQuotaAction(far) => write!(f, "has FAR {far} for Quota Action, which does not exist"),
            Self::Pool(fault) => write!(f, "is a credit pool {fault}"),
            Self::NoEvents(pdr) => write!(
                f,
                "counts events, and {pdr} looks for no application of which events are configured"
            ),
            Self::TooManyExempt { max } => write!(
                f,
                "exempts more from its quota than the {max} flows that a session may exempt"
            ),
            Self::ApplyAction => f.write_str("must have exactly one of DROP, FORW, BUFF, IPMA, IPMD"),
            Self::UndefinedFilter(id) => write!(f, "uses SDF filter {id}, which nothing defines"),
            Self::FTeidIncomplete => f.write_str("has an F-TEID with TEID 0 or without an address"),
            Self::NotLocal(address) => {
                write!(f, "has an F-TEID at {address}, which is not a GTP-U address here")
            }
            Self::UnknownInstance(id) => write!(f, "names network instance {id}, which is not configured"),
            Self::Unreachable => {
                f.write_str("identifies no session, nor does any other PDR: no F-TEID, no UE address")
            }
            Self::NoDuplicate => f.write_str("duplicates packets, and does not say into which tunnel"),
            Self::RedirectedDuplicate => f.write_str("redirects packets, and duplicates them"),
            Self::UnsupportedHeader => f.write_str("asks for an outer header other than GTP-U"),
            Self::HeaderIncomplete => f.write_str("asks for an outer header without its address or TEID"),
            Self::NoPeer(peer) => write!(f, "has the peer {peer}, which is no other node's address"),
            Self::UnsupportedRemoval => f.write_str("removes an outer header other than GTP-U"),
            Self::NoEgress => f.write_str("leaves by no configured network instance"),
            Self::NoRoute(peer) => write!(f, "has the peer {peer}, to which no route leads"),
            Self::NoAdjacency(hop) => write!(f, "has the next hop {hop}, for which there is no room"),
            Self::TwoMarks => f.write_str("has a QFI beside a service class"),
            Self::GbrAboveMbr => f.write_str("has a guaranteed above its maximum bit rate"),
            Self::Correlated => f.write_str(
                "is correlated with other sessions' and has a guaranteed bit rate, a packet rate, or another's correlation",
            ),
            Self::TooMany { max } => write!(
                f,
                "is one more than the {max} of its kind that a session may have"
            ),
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.rule, self.reason)
    }
}

impl core::error::Error for CompileError {}
