//! From a session's rules to what a worker runs, or to the first rule that cannot be run.
//!
//! Everything that can be refused is refused here: references to rules that do not exist, tunnels that are not ours,
//! peers that no route leads to. A session either compiles whole or stays as it was (TS 29.244 §6.3.3).

mod forward;

pub(crate) use self::forward::plain_instance;
use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;

use flow::meter::{MeterSpec, Rate, SharedId};
use packet::Teid;
use smallvec::SmallVec;

use flow::{
    AdjacencyId, BlockImage, Bucket, ContentId, Direction, Forward, ForwardKind, Mark, SessionIndex, Weight,
};

use crate::adjacencies::{Adjacencies, AdjacencyRef};
use crate::boxed_option::BoxedOption;
use crate::classifier::{self, Classifier, Exemption};
use crate::image::{
    CompileError, CompileFault, Copies, Decision, Dropped, EventCounters, Inactivity, MeterShare,
    QuotaAction, ReportedStatuses, SessionImage,
};
use crate::model::{
    ApplyAction, BitRates, BitsPerSecond, Far, Gate, Pdr, PdrId, PoolSlots, Qer, QerId, Redirect, RuleRef,
    SessionRules, SourceInterface, Urr,
};
use crate::network::multipath::{GroupId, NextHop, Spread};
use crate::network::{InstanceId, LocalId, Network, VrfId};
use crate::prefix::IpPrefix;
use crate::ue;

/// PDRs of one session.
pub const MAX_PDRS: usize = 1000;

/// Flows and SDF filters, and ranges of ports in them, that all URRs of one session together exempt from their quotas:
/// what a packet is compared with at most.
pub const MAX_EXEMPT_FLOWS: usize = 256;

/// UE addresses and framed routes of one session.
pub const MAX_UE_PREFIXES: usize = 256;

/// The next hops of one image.
struct NextHops<'a> {
    adjacencies: &'a dyn Adjacencies,
    held: SmallVec<[AdjacencyRef; 2]>,
    /// Where packets to the last peer go: a session's tunnels lead to one peer as a rule.
    last: Option<((VrfId, IpAddr), Option<NextHop>)>,
}

impl NextHops<'_> {
    /// Where packets to a peer go.
    fn way(&mut self, network: &Network, to: (VrfId, IpAddr)) -> Option<NextHop> {
        if let Some((_, way)) = self.last.filter(|(known, _)| *known == to) {
            return way;
        }
        let way = network.next_hop(to.0, to.1);
        self.last = Some((to, way));
        way
    }

    /// The number of a next hop, held before another one is resolved.
    fn resolve(&mut self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        let id = self.adjacencies.resolve(instance, next_hop)?;
        self.held.push(self.adjacencies.hold(id));
        Some(id)
    }

    /// The number of a path of a group.
    fn path(&self, group: GroupId, spread: Spread) -> Option<AdjacencyId> {
        self.adjacencies.path(group, spread.path())
    }
}

/// Remembers the next hop that a FAR leads to.
#[derive(Default)]
struct Noted(Cell<Option<IpAddr>>);

impl Adjacencies for Noted {
    fn resolve(&self, _: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.0.set(Some(next_hop));
        Some(AdjacencyId(0))
    }

    fn path(&self, _: GroupId, _: u8) -> Option<AdjacencyId> {
        Some(AdjacencyId(0))
    }
}

/// The way out of a FAR that forwards, while all next hops answer: the instance that its packets leave by, whatever the
/// FAR names, and the next hop if there is one for all of them. `None` for a FAR that forwards nothing.
pub fn egress_of(far: &Far, rules: &SessionRules, network: &Network) -> Option<(InstanceId, Option<IpAddr>)> {
    let noted = Noted::default();
    let mut next_hops = NextHops {
        adjacencies: &noted,
        held: SmallVec::new(),
        last: None,
    };
    let forward = forward::forward(far, rules, network, &mut next_hops).ok()?;
    match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged => {
            Some((forward.egress, noted.0.get()))
        }
        ForwardKind::Drop | ForwardKind::Buffer | ForwardKind::Punt | ForwardKind::Redirect => None,
    }
}

/// What was compiled of a session before, of which some may be right still.
#[derive(Clone, Copy, Debug)]
pub struct Before<'a> {
    /// The rules.
    pub rules: &'a SessionRules,
    /// What was made of their PDRs, with the same network.
    pub classifier: &'a Classifier,
}

/// Compiles a session's rules. Who calls it fills in what the rules do not say: the image's `session`, `seid` and
/// `bucket`, the meters of correlated QERs ([`share_rates`](SessionImage::share_rates)), and its
/// `classification_generation`, which [`is_classified_like`](SessionImage::is_classified_like) tells whether to change.
///
/// # Errors
/// The first rule that cannot be run, and why.
pub fn compile(
    rules: &Arc<SessionRules>,
    network: &Network,
    adjacencies: &dyn Adjacencies,
) -> Result<SessionImage, CompileError> {
    let nothing = Before {
        rules: &SessionRules::new(),
        classifier: &Classifier::default(),
    };
    compile_after(nothing, rules, network, adjacencies)
}

/// The same of rules that were made of others by some change, in less time: the image is the same.
///
/// # Errors
/// As of [`compile`].
pub fn compile_after(
    before: Before<'_>,
    rules: &Arc<SessionRules>,
    network: &Network,
    adjacencies: &dyn Adjacencies,
) -> Result<SessionImage, CompileError> {
    check_qers(rules)?;
    check_urrs(rules)?;
    let (decisions, classifier) = classify(before, rules, network)?;
    let mut next_hops = NextHops {
        adjacencies,
        held: SmallVec::new(),
        last: None,
    };
    let mut copies = Vec::new();
    let mut forwards = Vec::with_capacity(rules.fars().len());
    for (slot, far) in rules.fars().iter().enumerate() {
        let failed = |reason| CompileError {
            rule: far.id.into(),
            reason,
        };
        let mut forward = forward::forward(far, rules, network, &mut next_hops).map_err(failed)?;
        let duplicate = forward::duplicate(far, rules, network, &mut next_hops).map_err(failed)?;
        if let Some(duplicate) = duplicate {
            let mirror = forward.mirror.replace(Forward::COPIES);
            copies.push((slot as u8, Copies { mirror, duplicate }));
        }
        forwards.push(forward);
    }
    let quota_actions = quota_actions(rules)?;
    let events = events(rules, network)?;
    let pools = rules.pools();
    let block = BlockImage {
        near: near(rules, &decisions),
        forwards,
        marks: rules.qers().iter().map(mark).collect(),
        meters: all_meters(rules),
        closed_ul: gates(rules.qers(), |qer| qer.gate_ul),
        closed_dl: gates(rules.qers(), |qer| qer.gate_dl),
        urrs: (rules.urrs().len() + own_counters(rules)) as u8,
        before_qos: (rules.before_qos_slots().count()
            + usize::from(rules.event_mark().is_some())
            + weights(&pools).count()) as u8,
        units: mask(rules.event_slots().map(|(slot, _)| slot.into())),
        weights: weights(&pools).collect(),
        shared: rules.policers(),
        ..BlockImage::default()
    };
    Ok(SessionImage {
        session: SessionIndex::default(),
        seid: 0,
        bucket: Bucket::default(),
        tunnels: tunnels(rules, &classifier, network)?,
        classifier,
        block: block.into(),
        urr_ids: rules.urrs().iter().map(|urr| urr.id).collect(),
        events: events.into(),
        pools: pools.into(),
        fresh_urrs: BoxedOption::NONE,
        inactivity: rules.inactivity_timer().map(|timer| Inactivity {
            timer,
            counter: rules.urr_counters() as u8,
        }),
        content_rest: rules.content_rest(),
        ue_addresses: ue_addresses(rules, network),
        rules: Arc::clone(rules),
        classification_generation: 0,
        meter_share: MeterShare::Whole,
        copies: copies.into(),
        redirects: redirects(rules).into(),
        quota_actions: quota_actions.into(),
        next_hops: next_hops.held,
        reported_statuses: reported_statuses(rules).into(),
        dropped: dropped(rules).into(),
        awaits_pause: rules.is_charging(),
        packets: BoxedOption::NONE,
        tokens: BoxedOption::NONE,
    })
}

/// What each PDR leads to, by its slot.
type Decisions = SmallVec<[Decision; 8]>;

fn classify(
    before: Before<'_>,
    rules: &SessionRules,
    network: &Network,
) -> Result<(Decisions, Classifier), CompileError> {
    check_limits(rules)?;
    check_identity(rules)?;
    let common = Common::of(rules);
    let mut decisions = Decisions::with_capacity(rules.pdrs().len());
    for (slot, pdr) in rules.pdrs().iter().enumerate() {
        decisions.push(decision(slot, pdr, rules, &common)?);
    }
    let is_same = rules.shares_rest_with(before.rules) && before.classifier.is_of(&decisions);
    let classifier = if is_same {
        before.classifier.clone()
    } else {
        Classifier::new(rules, &decisions, network)?
    };
    Ok((decisions, classifier))
}

/// What is the same for all PDRs of a session.
struct Common {
    /// Whether any PDR names an address of the UE.
    knows_ue: bool,
    /// The counters of each URR, by its slot ([`SessionRules::counter_slots`]).
    counters: SmallVec<[u64; 8]>,
}

impl Common {
    fn of(rules: &SessionRules) -> Self {
        Self {
            knows_ue: knows_ue(rules),
            counters: rules.counter_slots(),
        }
    }
}

/// Whether any PDR names an address of the UE.
fn knows_ue(rules: &SessionRules) -> bool {
    rules.pdrs().iter().any(|pdr| pdr.pdi.ue_prefix_count() > 0)
}

/// No delivery status was notified yet: one entry for each PDR if any FAR requests notifications, else none.
fn reported_statuses(rules: &SessionRules) -> Vec<ReportedStatuses> {
    let asks = |action: ApplyAction| action.contains(ApplyAction::BDPN) || action.contains(ApplyAction::DDPN);
    match rules.fars().iter().any(|far| asks(far.action)) {
        true => vec![ReportedStatuses::default(); rules.pdrs().len()],
        false => Vec::new(),
    }
}

/// The URRs that are to tell of dropped downlink packets.
fn dropped(rules: &SessionRules) -> Vec<Dropped> {
    rules.urrs().iter().filter_map(Dropped::of).collect()
}

fn check_limits(rules: &SessionRules) -> Result<(), CompileError> {
    limit(rules.pdrs(), MAX_PDRS, |pdr| pdr.id.into())?;
    limit(rules.fars(), BlockImage::MAX_FORWARDS, |far| far.id.into())?;
    let rated = rules.packet_rated().count();
    limit(rules.qers(), BlockImage::MAX_QERS.saturating_sub(rated), |qer| {
        qer.id.into()
    })?;
    let urrs = BlockImage::MAX_URRS.saturating_sub(own_counters(rules));
    limit(rules.urrs(), urrs, |urr| urr.id.into())?;
    limit_prefixes(rules)
}

fn limit_prefixes(rules: &SessionRules) -> Result<(), CompileError> {
    let max = MAX_UE_PREFIXES;
    let named: usize = rules.pdrs().iter().map(|pdr| pdr.pdi.ue_prefix_count()).sum();
    if named <= max || rules.ue_prefixes().len() <= max {
        return Ok(());
    }
    let most = rules.pdrs().iter().max_by_key(|pdr| pdr.pdi.ue_prefix_count());
    Err(CompileError {
        rule: most.map_or(PdrId(0), |pdr| pdr.id).into(),
        reason: CompileFault::TooMany { max: max as u16 },
    })
}

fn limit<R>(rules: &[R], max: usize, id: impl Fn(&R) -> RuleRef) -> Result<(), CompileError> {
    match rules.get(max) {
        Some(surplus) => {
            let reason = CompileFault::TooMany { max: max as u16 };
            Err(CompileError {
                rule: id(surplus),
                reason,
            })
        }
        None => Ok(()),
    }
}

/// PDRs are there, and none of them tells the session: no packet could ever reach it (TS 29.244 §5.2.1).
fn check_identity(rules: &SessionRules) -> Result<(), CompileError> {
    let tells = |pdr: &Pdr| pdr.pdi.f_teid.is_some() || pdr.pdi.ue_prefix_count() > 0;
    match rules.pdrs().first() {
        Some(first) if !rules.pdrs().iter().any(tells) => Err(CompileError {
            rule: first.id.into(),
            reason: CompileFault::Unreachable,
        }),
        _ => Ok(()),
    }
}

/// Nothing is guaranteed that may not pass (TS 29.244 §5.4.4): a GBR is no higher than the MBR of its direction. What
/// sessions have in common is an MBR, which packets pass once. And a packet is of a QoS flow or of a service class, of
/// 5G or of GERAN.
fn check_qers(rules: &SessionRules) -> Result<(), CompileError> {
    let qers = rules.qers();
    let is_correlated_twice = |slot: usize, qer: &Qer| {
        let mut before = qers.iter().take(slot);
        before.any(|other| other.correlation == qer.correlation)
    };
    let fault = |(slot, qer): (usize, &Qer)| {
        let is_more = qer.gbr.is_some() || qer.packet_rates.is_some() || is_correlated_twice(slot, qer);
        let faults = [
            (qer.guarantees_too_much(), CompileFault::GbrAboveMbr),
            (qer.qfi.is_some() && qer.sci.is_some(), CompileFault::TwoMarks),
            (qer.correlation.is_some() && is_more, CompileFault::Correlated),
        ];
        let reason = faults.into_iter().find(|(is_there, _)| *is_there)?.1;
        let rule = qer.id.into();
        Some(CompileError { rule, reason })
    };
    qers.iter().enumerate().find_map(fault).map_or(Ok(()), Err)
}

fn decision(slot: usize, pdr: &Pdr, rules: &SessionRules, common: &Common) -> Result<Decision, CompileError> {
    let failed = |reason| CompileError {
        rule: pdr.id.into(),
        reason,
    };
    let missing = |rule: RuleRef| failed(CompileFault::Missing(rule));
    if pdr
        .outer_header_removal
        .is_some_and(|removal| !removal.header.is_gtpu())
    {
        return Err(failed(CompileFault::UnsupportedRemoval));
    }
    let far = pdr.first_far().ok_or(failed(CompileFault::NoFar))?;
    let forward = rules
        .fars()
        .iter()
        .position(|rule| rule.id == far)
        .ok_or(missing(far.into()))?;
    let (mut qers, mut urrs, mut marking) = (0, 0, None);
    for &id in &pdr.qers {
        let mut all = rules.qers().iter().enumerate();
        let (slot, qer) = all.find(|(_, qer)| qer.id == id).ok_or(missing(id.into()))?;
        qers |= 1 << slot;
        marking = marking.or(qer.marks().then_some(slot as u8));
    }
    for &id in &pdr.urrs {
        let slot = rules.urrs().iter().position(|urr| urr.id == id);
        let counters = slot.and_then(|slot| common.counters.get(slot));
        urrs |= counters.ok_or(missing(id.into()))?;
    }
    let is_uplink = pdr.pdi.source_interface == SourceInterface::Access;
    Ok(Decision {
        pdr: slot as u16,
        forward: forward as u8,
        qers: qers | packet_slots(rules, &pdr.qers),
        urrs: urrs | activity(rules),
        content: ContentId::NONE,
        marking: marking.unwrap_or(Decision::NO_MARK),
        direction: if is_uplink {
            Direction::Uplink
        } else {
            Direction::Downlink
        },
        removes_outer: pdr.pdi.f_teid.is_some() || pdr.outer_header_removal.is_some(),
        deletes_psc: pdr
            .outer_header_removal
            .is_some_and(|removal| removal.deletes_psc),
        source_check: ue::source_check(rules, pdr, Some(far), common.knows_ue),
    })
}

/// What URRs name must be there (TS 29.244 Table 7.5.2.4-1).
fn check_urrs(rules: &SessionRules) -> Result<(), CompileError> {
    for urr in rules.urrs() {
        let failed = |reason| CompileError {
            rule: urr.id.into(),
            reason,
        };
        let terms = urr.terms();
        if let Some(missing) = terms.linked.iter().find(|linked| rules.urr(**linked).is_none()) {
            return Err(failed(CompileFault::NoLinkedUrr(*missing)));
        }
        if let Some(missing) = terms.quota_action.filter(|far| rules.far(*far).is_none()) {
            return Err(failed(CompileFault::NoQuotaAction(missing)));
        }
        if let Some(fault) = urr.pool_fault(rules) {
            return Err(failed(CompileFault::Pool(fault)));
        }
    }
    Ok(())
}

/// What becomes of packets that quotas do not allow, where URRs say that.
fn quota_actions(rules: &SessionRules) -> Result<Vec<QuotaAction>, CompileError> {
    let (mut actions, mut flows) = (Vec::new(), 0);
    for (slot, urr) in (0..).zip(rules.urrs()) {
        let failed = |reason| CompileError {
            rule: urr.id.into(),
            reason,
        };
        let forward = urr.terms().quota_action.and_then(|id| {
            let place = rules.fars().iter().position(|far| far.id == id);
            place.map(|place| place as u8)
        });
        let exemption = Exemption::new(urr, rules).map_err(failed)?;
        if forward.is_none() && exemption.is_none() {
            continue;
        }
        flows += exemption.as_ref().map_or(0, |(_, flows)| *flows);
        if flows > MAX_EXEMPT_FLOWS {
            return Err(failed(CompileFault::TooManyExempt {
                max: MAX_EXEMPT_FLOWS as u16,
            }));
        }
        actions.push(QuotaAction {
            urr: slot,
            forward,
            exemption: exemption.map(|(exemption, _)| exemption),
        });
    }
    Ok(actions)
}

/// What is counted as an event: of each PDR that a URR counts events of, by its application (TS 29.244 §5.2.2.2.1,
/// NOTE 7).
fn events(rules: &SessionRules, network: &Network) -> Result<EventCounters, CompileError> {
    let slots = (0..).zip(rules.urrs());
    let counting = slots.filter(|(_, urr)| urr.counts_events());
    let mut counters = EventCounters {
        urrs: counting.map(|(slot, _)| slot).collect(),
        logic: Vec::new(),
    };
    if counters.urrs.is_empty() {
        return Ok(counters);
    }
    for (slot, pdr) in (0..).zip(rules.pdrs()) {
        let counts = |urr: &&Urr| urr.counts_events() && pdr.may_count_in(urr.id);
        let Some(urr) = rules.urrs().iter().find(counts) else {
            continue;
        };
        let application = pdr.pdi.application.as_ref();
        let logic = application.and_then(|application| network.events(&application.id));
        let logic = logic.ok_or(CompileError {
            rule: urr.id.into(),
            reason: CompileFault::NoEvents(pdr.id),
        })?;
        counters.logic.push((slot, logic));
    }
    Ok(counters)
}

/// Counters beside one for each URR.
fn own_counters(rules: &SessionRules) -> usize {
    let own = usize::from(rules.inactivity_timer().is_some()) + usize::from(rules.content_rest().is_some());
    let events = rules.event_slots().count() + usize::from(rules.event_mark().is_some());
    own + events + rules.before_qos_slots().count() + weights(&rules.pools()).count()
}

/// How much packets of members count in the counters of their pools, where they do not all count alike.
fn weights(pools: &[PoolSlots]) -> impl Iterator<Item = Weight> + '_ {
    let weight = |pool: &PoolSlots, (_, times, slot): (u8, u16, Option<u8>)| {
        let of = pool.pool;
        slot.map(|slot| Weight { slot, of, times })
    };
    pools.iter().flat_map(move |pool| {
        pool.members
            .iter()
            .filter_map(move |member| weight(pool, *member))
    })
}

/// The slot behind those of URRs, where all packets count of a session that has an inactivity timer.
fn activity(rules: &SessionRules) -> u64 {
    rules
        .inactivity_timer()
        .map_or(0, |_| mask([rules.urr_counters()]))
}

/// Where the FARs that redirect do so.
fn redirects(rules: &SessionRules) -> Vec<(u8, Redirect)> {
    let fars = (0..).zip(rules.fars());
    fars.filter_map(|(slot, far)| Some((slot, far.redirect.clone()?)))
        .collect()
}

fn mask(slots: impl IntoIterator<Item = usize>) -> u64 {
    slots.into_iter().fold(0, |mask, slot| mask | 1 << slot)
}

/// The meters of all QERs by slot; which one a correlated QER has, [`SessionImage::share_rates`] tells. Packet rates
/// have slots behind them.
fn all_meters(rules: &SessionRules) -> Vec<[Option<MeterSpec>; 2]> {
    let packets = rules.packet_rated().map(|(_, rates)| {
        let spec = |rate| MeterSpec::Packets { rate, renews: true };
        Direction::BOTH.map(|direction| rates.of(direction).map(spec))
    });
    let own = rules.qers().iter().map(|qer| match rules.correlation(qer) {
        Some(_) => [Some(MeterSpec::Shared(SharedId::NONE)); 2],
        None => meters(qer),
    });
    let mut all = Vec::with_capacity(rules.qers().len() + rules.packet_rated().count());
    all.extend(own.chain(packets));
    all
}

/// The slots of the packet rates of these QERs.
fn packet_slots(rules: &SessionRules, qers: &[QerId]) -> u64 {
    mask(qers.iter().filter_map(|qer| rules.packet_slot(*qer)))
}

fn mark(qer: &Qer) -> Mark {
    if let Some(sci) = qer.sci {
        return Mark::with_sci_only(sci);
    }
    let mark = Mark::NONE.with_rqi(qer.rqi);
    let mark = qer.qfi.map_or(mark, |qfi| mark.with_qfi(qfi.get()));
    qer.ppi.map_or(mark, |ppi| mark.with_ppi(ppi.get()))
}

/// The meters of both directions: within a GBR packets are green, within the MBR they pass (TS 29.244 §5.4.4). A
/// GBR without an MBR limits nothing.
fn meters(qer: &Qer) -> [Option<MeterSpec>; 2] {
    let rate = |rate: BitsPerSecond| Rate::from_bits_per_second(rate.0);
    let rates = |rates: BitRates| [rate(rates.ul), rate(rates.dl)];
    let gbr = qer.gbr.map_or([Rate::ZERO; 2], rates);
    let mbr = qer.mbr.map_or([Rate::UNLIMITED; 2], rates);
    let millis = qer.burst_millis();
    Direction::BOTH
        .map(|direction| MeterSpec::gbr_mbr_over(gbr[direction as usize], mbr[direction as usize], millis))
}

fn gates(qers: &[Qer], gate: impl Fn(&Qer) -> Gate) -> u64 {
    let closed = (0..).zip(qers).filter(|(_, qer)| gate(qer).is_closed());
    mask(closed.map(|(slot, _)| slot))
}

/// The forward of the last PDR to be tried in each direction: the default one, which most packets come to.
fn near(rules: &SessionRules, decisions: &[Decision]) -> [u8; 2] {
    Direction::BOTH.map(|direction| {
        let pdrs = rules
            .pdrs()
            .iter()
            .zip(decisions)
            .filter(|(_, decision)| decision.direction == direction);
        pdrs.max_by_key(|(pdr, _)| pdr.precedence)
            .map_or(0, |(_, decision)| decision.forward)
    })
}

/// The tunnels that lead to the session: those of its PDRs, and of Traffic Endpoints that no PDR names yet.
fn tunnels(
    rules: &SessionRules,
    classifier: &Classifier,
    network: &Network,
) -> Result<SmallVec<[(LocalId, Teid); 2]>, CompileError> {
    let mut all: SmallVec<[(LocalId, Teid); 2]> = classifier.tunnels().collect();
    for endpoint in rules.endpoints() {
        let failed = |reason| CompileError {
            rule: endpoint.id.into(),
            reason,
        };
        let own = endpoint.f_teid.map(|own| classifier::tunnels(own, network));
        for tunnel in own.transpose().map_err(failed)?.unwrap_or_default() {
            if !all.contains(&tunnel) {
                all.push(tunnel);
            }
        }
    }
    Ok(all)
}

/// The addresses that plain packets reach the session by: those of PDRs for the data network's side. Where no such
/// PDR names its network instance, they are valid in the address space of every instance towards a data network that
/// comes first there.
fn ue_addresses(rules: &SessionRules, network: &Network) -> SmallVec<[(VrfId, IpPrefix); 1]> {
    let mut addresses = SmallVec::new();
    for pdr in rules
        .pdrs()
        .iter()
        .filter(|pdr| pdr.pdi.f_teid.is_none() && is_plain(pdr))
    {
        let Some(instance) = plain_instance(pdr.pdi.instance, network) else {
            continue;
        };
        for prefix in pdr.pdi.ue_prefixes() {
            let address = (instance.vrf, prefix);
            if addresses.last() != Some(&address) {
                addresses.push(address);
            }
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

fn is_plain(pdr: &Pdr) -> bool {
    matches!(
        pdr.pdi.source_interface,
        SourceInterface::Core | SourceInterface::SgiLan
    )
}

#[cfg(test)]
mod tests;
