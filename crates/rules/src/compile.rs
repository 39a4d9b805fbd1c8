//! From a session's rules to what a worker runs, or to the first rule that cannot be run.
//!
//! Everything that can be refused is refused here: references to rules that do not exist, F-TEIDs that are not local,
//! peers that no route leads to. A session either compiles whole or stays as it was (TS 29.244 §6.3.3).

mod check;
mod egress;
mod egress_queues;
mod next_hops;

use std::cell::{Cell, RefCell};
use std::net::IpAddr;
use std::sync::Arc;

use flow::meter::{MeterSpec, Rate, SharedId};
use flow::{
    AdjacencyId, BlockImage, Bucket, ContentId, Direction, Forward, ForwardKind, Mark, SessionIndex, Weight,
};
use smallvec::SmallVec;

pub use self::check::{MAX_PDRS, MAX_UE_PREFIXES};
use self::check::{check_identity, check_limits, check_qers, check_urrs};
use self::next_hops::NextHops;
use crate::adjacencies::Adjacencies;
use crate::boxed_option::BoxedOption;
use crate::classifier::{self, Classifier, Decision, Exemption, Tunnel, have_same_directions, source_check};
use crate::compile_error::{CompileError, CompileFault};
use crate::counter_slots::{CounterSlots, PoolSlots};
use crate::image::{
    Copies, Dropped, EgressQueues, EventCounters, ForwardExtensions, Inactivity, MeterShare, PdrEvents,
    QuotaAction, ReportedStatuses, SessionImage,
};
use crate::model::{
    ApplyAction, BitRates, BitsPerSecond, Far, Gate, Pdr, Qer, QerId, Redirect, RuleRef, SessionRules, Urr,
};
use crate::network::multipath::{GroupId, NextHop};
use crate::network::{InstanceId, Network, VrfId};
use crate::prefix::IpPrefix;

/// Flows and SDF filters, and ranges of ports in them, that all URRs of one session together exempt from their quotas:
/// what a packet is compared with at most.
pub const MAX_EXEMPT_FLOWS: usize = 256;

/// Records the next hop that is resolved.
#[derive(Default)]
struct NextHopRecorder(Cell<Option<IpAddr>>);

impl Adjacencies for NextHopRecorder {
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
    let recorder = NextHopRecorder::default();
    let mut next_hops = NextHops::new(&recorder);
    let forward = egress::forward(far, rules, network, &mut next_hops).ok()?;
    match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged => {
            Some((forward.egress, recorder.0.get()))
        }
        ForwardKind::Drop | ForwardKind::Buffer | ForwardKind::Punt | ForwardKind::Redirect => None,
    }
}

/// What was compiled of a session before: parts of it may be kept.
#[derive(Clone, Copy, Debug)]
pub struct Previous<'a> {
    /// The rules.
    pub rules: &'a SessionRules,
    /// What was made of their PDRs, with the same network or one that this one [succeeds](Network::succeeding).
    pub classifier: &'a Classifier,
}

/// Records the next hops that are resolved, and numbers them in their order.
#[derive(Default)]
struct NextHopList(RefCell<Vec<NextHop>>);

impl NextHopList {
    fn record(&self, next_hop: NextHop) -> Option<AdjacencyId> {
        let mut all = self.0.borrow_mut();
        all.push(next_hop);
        Some(AdjacencyId(all.len() as u32))
    }
}

impl Adjacencies for NextHopList {
    fn resolve(&self, instance: InstanceId, next_hop: IpAddr) -> Option<AdjacencyId> {
        self.record(NextHop::Neighbour(instance, next_hop))
    }

    fn path(&self, group: GroupId, _: u8) -> Option<AdjacencyId> {
        self.record(NextHop::Group(group))
    }
}

/// Whether a session's FARs lead the same way in `newer` as in `older`, which it succeeds: the session's image is the
/// same then.
pub fn leads_alike(rules: &SessionRules, older: &Network, newer: &Network) -> bool {
    let way = |far, network| {
        let list = NextHopList::default();
        let mut next_hops = NextHops::new(&list);
        let forward = egress::forward(far, rules, network, &mut next_hops);
        let duplicate = egress::duplicate(far, rules, network, &mut next_hops);
        (forward, duplicate, list.0.into_inner())
    };
    let mut fars = rules.fars().iter();
    fars.all(|far| way(far, older) == way(far, newer))
}

/// Compiles a session's rules. The caller fills in what the rules do not have: the image's `session`, `seid` and
/// `bucket`, the meters of correlated QERs ([`share_rates`](SessionImage::share_rates)), and its
/// `classification_generation`, which changes unless [`is_classified_like`](SessionImage::is_classified_like).
///
/// # Errors
/// The first rule that cannot be run, and why.
pub fn compile(
    rules: &Arc<SessionRules>,
    network: &Network,
    adjacencies: &dyn Adjacencies,
) -> Result<SessionImage, CompileError> {
    let nothing = Previous {
        rules: &SessionRules::new(),
        classifier: &Classifier::default(),
    };
    compile_after(nothing, rules, network, adjacencies)
}

/// The same of rules that were made of others by some change, in less time: the image is the same. But a FAR that was
/// accepted before and has not changed is not at fault when routes have gone since: its packets are dropped because
/// there is no route ([`ForwardFlags::NO_ROUTE`](flow::ForwardFlags::NO_ROUTE)).
///
/// # Errors
/// As of [`compile`].
pub fn compile_after(
    previous: Previous<'_>,
    rules: &Arc<SessionRules>,
    network: &Network,
    adjacencies: &dyn Adjacencies,
) -> Result<SessionImage, CompileError> {
    check_qers(rules)?;
    check_urrs(rules)?;
    let slots = CounterSlots::of(rules);
    let (decisions, classifier) = classify(previous, rules, slots, network)?;
    let mut next_hops = NextHops::new(adjacencies);
    let Forwards { forwards, copies } = forwards(previous, rules, network, &mut next_hops)?;
    let quota_actions = quota_actions(rules)?;
    let events = events(rules, network)?;
    let pools = slots.pools();
    let egress_queues = egress_queues::egress_queues(rules, &decisions, &forwards, network);
    let block = BlockImage {
        inline: inline_forwards(rules, &decisions),
        forwards,
        marks: rules.qers().iter().map(mark).collect(),
        meters: all_meters(rules, &egress_queues),
        closed_ul: gates(rules.qers(), |qer| qer.gate_ul),
        closed_dl: gates(rules.qers(), |qer| qer.gate_dl),
        urrs: (rules.urrs().len() + slots.extra()) as u8,
        before_qos: (slots.before_qos().count()
            + usize::from(slots.event_mark().is_some())
            + weights(&pools).count()) as u8,
        units: mask(slots.events().map(|one| one.slot.into())),
        weights: weights(&pools).collect(),
        shared: network.policers().metered_of(rules.policers()),
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
        inactivity: rules.inactivity_timer().map(|timer| Inactivity {
            timer,
            counter: slots.urr_counters() as u8,
        }),
        ue_addresses: ue_addresses(rules, network),
        rules: Arc::clone(rules),
        classification_generation: 0,
        meter_share: MeterShare::Whole,
        forward_extensions: ForwardExtensions {
            copies,
            redirects: redirects(rules),
            egress_queues,
        }
        .into(),
        quota_actions: quota_actions.into(),
        next_hops: next_hops.into_held(),
        reported_statuses: reported_statuses(rules).into(),
        dropped: dropped(rules).into(),
        awaits_pause: rules.is_charging(),
        installation: BoxedOption::NONE,
    })
}

/// The forwards of the FARs, and of those that duplicate packets the copies, by slot.
struct Forwards {
    forwards: Vec<Forward>,
    copies: Vec<(u8, Copies)>,
}

fn forwards(
    previous: Previous<'_>,
    rules: &SessionRules,
    network: &Network,
    next_hops: &mut NextHops<'_>,
) -> Result<Forwards, CompileError> {
    let mut copies = Vec::new();
    let mut forwards = Vec::with_capacity(rules.fars().len());
    for (slot, far) in rules.fars().iter().enumerate() {
        let failed = |reason| CompileError {
            rule: far.id.into(),
            reason,
        };
        let keeps = |fault: &CompileFault| {
            matches!(fault, CompileFault::NoRoute(_) | CompileFault::NoAdjacency(_))
                && previous.rules.far(far.id) == Some(far)
        };
        let forward = egress::forward(far, rules, network, next_hops);
        let mut forward = match forward {
            Err(fault) if keeps(&fault) => egress::NO_ROUTE,
            forward => forward.map_err(failed)?,
        };
        let duplicate = match egress::duplicate(far, rules, network, next_hops) {
            Err(fault) if keeps(&fault) => None,
            duplicate => duplicate.map_err(failed)?,
        };
        if let Some(duplicate) = duplicate {
            let mirror = forward.mirror.replace(Forward::COPIES);
            copies.push((slot as u8, Copies { mirror, duplicate }));
        }
        forwards.push(forward);
    }
    Ok(Forwards { forwards, copies })
}

/// What each PDR leads to, by its slot.
type Decisions = SmallVec<[Decision; 8]>;

fn classify(
    previous: Previous<'_>,
    rules: &SessionRules,
    slots: CounterSlots<'_>,
    network: &Network,
) -> Result<(Decisions, Classifier), CompileError> {
    check_limits(rules, slots)?;
    check_identity(rules)?;
    let common = Common::of(rules, slots);
    let mut decisions = Decisions::with_capacity(rules.pdrs().len());
    for (slot, pdr) in rules.pdrs().iter().enumerate() {
        decisions.push(decision(slot, pdr, rules, &common)?);
    }
    let is_same = rules.shares_all_but_fars_with(previous.rules)
        && have_same_directions(rules, previous.rules)
        && previous.classifier.is_of(&decisions, rules.nat().is_some());
    let classifier = if is_same {
        previous.classifier.clone()
    } else {
        Classifier::new(rules, &decisions, network)?
    };
    Ok((decisions, classifier))
}

/// What is the same for all PDRs of a session.
struct Common {
    /// Whether any PDR names an address of the UE.
    knows_ue: bool,
    /// The counters of each URR, by its slot ([`CounterSlots::masks`]).
    counters: SmallVec<[u64; 8]>,
    /// The slot behind those of URRs, where all packets count of a session that has an inactivity timer.
    activity: u64,
}

impl Common {
    fn of(rules: &SessionRules, slots: CounterSlots<'_>) -> Self {
        let timer = rules.inactivity_timer();
        Self {
            knows_ue: knows_ue(rules),
            counters: slots.masks(),
            activity: timer.map_or(0, |_| mask([slots.urr_counters()])),
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

/// The URRs that report dropped downlink packets.
fn dropped(rules: &SessionRules) -> Vec<Dropped> {
    rules.urrs().iter().filter_map(Dropped::of).collect()
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
    Ok(Decision {
        pdr: slot as u16,
        forward: forward as u8,
        qers: qers | packet_slots(rules, &pdr.qers),
        urrs: urrs | common.activity,
        content: ContentId::NONE,
        marking: marking.unwrap_or(Decision::NO_MARK),
        direction: pdr.pdi.source_interface.direction(),
        removes_outer: pdr.pdi.f_teid.is_some() || pdr.outer_header_removal.is_some(),
        deletes_psc: pdr
            .outer_header_removal
            .is_some_and(|removal| removal.deletes_psc),
        source_check: source_check(rules, pdr, Some(far), common.knows_ue),
    })
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
        flows += exemption.as_ref().map_or(0, Exemption::size);
        if flows > MAX_EXEMPT_FLOWS {
            return Err(failed(CompileFault::TooManyExempt {
                max: MAX_EXEMPT_FLOWS as u16,
            }));
        }
        actions.push(QuotaAction {
            urr: slot,
            forward,
            exemption,
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
        let application = pdr.pdi.optional.application.as_ref();
        let logic = application.and_then(|application| network.events(&application.id));
        let logic = logic.ok_or(CompileError {
            rule: urr.id.into(),
            reason: CompileFault::NoEvents(pdr.id),
        })?;
        counters.logic.push(PdrEvents { pdr: slot, logic });
    }
    Ok(counters)
}

/// How much packets of members count in the counters of their pools, where they do not all count alike.
fn weights(pools: &[PoolSlots]) -> impl Iterator<Item = Weight> + '_ {
    pools.iter().flat_map(|pool| {
        pool.members.iter().filter_map(|member| {
            Some(Weight {
                slot: member.weight_slot?,
                of: pool.pool,
                times: member.weight,
            })
        })
    })
}

/// Where the FARs that redirect do so.
fn redirects(rules: &SessionRules) -> Vec<(u8, Redirect)> {
    let fars = (0..).zip(rules.fars());
    fars.filter_map(|(slot, far)| Some((slot, far.optional.redirect.clone()?)))
        .collect()
}

fn mask(slots: impl IntoIterator<Item = usize>) -> u64 {
    slots.into_iter().fold(0, |mask, slot| mask | 1 << slot)
}

/// The meters of all QERs by slot, but for rates that queues keep; [`SessionImage::share_rates`] sets which one a
/// correlated QER has. Packet rates have slots behind them.
fn all_meters(rules: &SessionRules, queues: &[Option<EgressQueues>; 2]) -> Vec<[Option<MeterSpec>; 2]> {
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
    for (direction, queues) in queues.iter().enumerate() {
        let shaped = queues.as_ref().map_or(0, egress_queues::shaped_slots);
        for (_, meters) in (0..).zip(&mut all).filter(|(slot, _)| shaped >> slot & 1 == 1) {
            meters[direction] = None;
        }
    }
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
    let gbr = qer.optional.gbr.map_or([Rate::ZERO; 2], rates);
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
fn inline_forwards(rules: &SessionRules, decisions: &[Decision]) -> [u8; 2] {
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
) -> Result<SmallVec<[Tunnel; 2]>, CompileError> {
    let mut all: SmallVec<[Tunnel; 2]> = classifier.tunnels().collect();
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
        .filter(|pdr| pdr.pdi.f_teid.is_none() && pdr.pdi.source_interface.is_data_network())
    {
        let Some(instance) = network.data_network_instance(pdr.pdi.instance) else {
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

#[cfg(test)]
mod tests;
