//! The packet path against the interpreter: random rules, random packets, with the cache cold, warm and stale.

mod marks;

use crate::begun_connections::BegunConnections;
use crate::common;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::meter::Colour;
use flow::{
    Bounds, ContentUsage, CounterLimit, Direction, InstanceId, LimitAction, Nanos, PortId, SessionIndex,
    UrrCount, Volumes,
};
use packet::{DropReason, IpTuple};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::image::{Counter, ImmediateActions, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{AccessAction, AccessList, Content, EditError, UrrId};
use rules::network::{BoundAccessList, Network, SessionScope};
use rules::reference_interpreter::{
    Billed, Conditions, CongestionMarks, Counted, Duplicate, Metering, Outcome, Quotas, ReferenceCongestion,
    ReferenceMeters, Verdict, evaluate_access, interpret_with,
};
use rules::testing::{
    Activation, Edited, Sent, any_activation, any_edit, any_network, any_sent, runnable_rules,
    runnable_rules_with,
};
use rules::{Predefined, SessionRules};
use worker::WorkerConfig;

use common::{World, mac_of};

/// Recirculations that a packet may make.
const MAX_LAPS: u32 = 7;

/// How long a report of the RAN holds.
const REPORTS_HOLD: Duration = Duration::from_secs(1);

/// What happens to the session and its packets.
#[derive(Clone, Debug)]
enum Step {
    /// The packet with this number (of those drawn) comes in.
    Packet(prop::sample::Index),
    /// It comes in again and again, until the smallest bucket of a meter is empty if it is a long one.
    Flood(prop::sample::Index),
    /// A base station reports for the QoS flow and in the tunnel of this packet, in 0.01 percent; with it, or without a
    /// user packet.
    Report {
        packet: prop::sample::Index,
        parts: [Option<u16>; 2],
        is_alone: bool,
        /// For the packet's own QoS flow, else for one that is marked.
        is_of_packet: bool,
    },
    /// The rules change.
    Edit(Box<Edited>),
    /// Predefined rules come and go.
    Activate(Activation),
    /// Time passes, in microseconds.
    Wait(u64),
    /// The quotas of these URRs are used up, and no others: bit n is the URR in slot n.
    Exhaust(u16),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        16 => any::<prop::sample::Index>().prop_map(Step::Packet),
        3 => any::<prop::sample::Index>().prop_map(Step::Flood),
        2 => any_edit().prop_map(|edit| Step::Edit(Box::new(edit))),
        2 => (0..20_000u64).prop_map(Step::Wait),
        1 => (20_000_000..600_000_000u64).prop_map(Step::Wait),
        1 => (0..64u16).prop_map(Step::Exhaust),
    ]
}

/// Where there are predefined rules.
fn any_step_with() -> impl Strategy<Value = Step> {
    prop_oneof![8 => any_step(), 1 => any_activation().prop_map(Step::Activate)]
}

/// What the interpreter says of a packet.
struct Expected {
    /// Where it goes by and to whom, and how it looks then; or why it does not. `None`: it has done its work.
    end: Result<Option<(InstanceId, IpAddr, Vec<u8>)>, DropReason>,
    /// What mirrors get.
    copies: Vec<(PortId, Vec<u8>)>,
    duplicates: Vec<Duplicate>,
}

/// The session in the packet path, and what the interpreter says that it has counted.
struct Trial {
    world: World,
    rules: Arc<SessionRules>,
    predefined: Predefined,
    image: Box<SessionImage>,
    counts: BTreeMap<UrrId, UrrCount>,
    /// What came before QoS enforcement.
    before_qos: BTreeMap<UrrId, UrrCount>,
    /// The same, as the worker has reported.
    reported_before_qos: BTreeMap<UrrId, UrrCount>,
    /// The URRs whose quotas are used up.
    exhausted: Vec<UrrId>,
    /// Packets that went another way for that.
    substituted: u64,
    /// By content; all together, where the worker has no counters for them.
    billed: BTreeMap<Option<Content>, UrrCount>,
    /// What the worker has reported of that.
    reported: BTreeMap<Option<Content>, UrrCount>,
    has_contents: bool,
    meters: ReferenceMeters,
    congestion: ReferenceCongestion,
    /// Packets that are there for what they report.
    consumed: u64,
    begun: BegunConnections,
    /// Packets that would look otherwise if they were green.
    yellow: u64,
}

/// The network with an access list, since sessions have some: the list of others.
fn with_a_list(network: Network) -> Network {
    let list = AccessList::new("others", Vec::new(), AccessAction::Permit).expect("few");
    let bound = BoundAccessList {
        list: Arc::new(list),
        scope: SessionScope {
            dnn: Some("others".into()),
            ..SessionScope::default()
        },
    };
    network.with_access_lists(vec![bound]).expect("one list")
}

/// What becomes of a packet if no rate is enforced and no quota used up.
fn interpret_green(
    rules: &SessionRules,
    network: &Network,
    (ingress, packet): (InstanceId, &[u8]),
    is_solicited: bool,
) -> Verdict {
    let conditions = Conditions {
        metering: Metering::Colour(Colour::Green),
        congestion: CongestionMarks::Turn(false),
        quotas: Quotas::default(),
        detection: rules::Detection::Undetected,
        is_solicited,
    };
    interpret_with(rules, network, ingress, packet, conditions)
}

impl Trial {
    fn start(rules: SessionRules, network: Network, (force_five_tuple, fills): (bool, bool)) -> Option<Self> {
        Self::start_with(
            (rules, Predefined::default()),
            network,
            (force_five_tuple, false, fills),
        )
    }

    /// With `fills`, ports fill in UDP checksums.
    fn start_with(
        (rules, predefined): (SessionRules, Predefined),
        network: Network,
        (force_five_tuple, has_contents, fills): (bool, bool, bool),
    ) -> Option<Self> {
        let configure = |config: &mut WorkerConfig| {
            (config.error_indications, config.notifications) = (0, 0);
            config.icmp_errors = worker::PacketRates::new(0, 0);
            let unlimited = worker::PacketRates::new(u32::MAX, u32::MAX);
            (config.redirects, config.relays) = (unlimited, unlimited);
            config.force_five_tuple = force_five_tuple;
            // Flow entries age meanwhile.
            config.connections.lifetimes = worker::IdleTimes::all(Duration::from_secs(1 << 30));
            config.content_counters = if has_contents { 100 } else { 0 };
            config.content_interval = Duration::from_millis(5);
            config.ran_congestion_age = Some(REPORTS_HOLD);
        };
        let mut world = World::over(with_a_list(network), 1, configure, |io| {
            (0..5)
                .filter(|_| fills)
                .for_each(|port| io.fill_udp_checksums(PortId(port)));
        });
        let rules = Arc::new(rules);
        let image = bounded(world.image(3, &rules, None).ok()?, &[]);
        world
            .apply(0, SessionChange::Install(image.clone()))
            .expect("there is room");
        Some(Self {
            world,
            rules,
            predefined,
            image,
            counts: BTreeMap::new(),
            before_qos: BTreeMap::new(),
            reported_before_qos: BTreeMap::new(),
            exhausted: Vec::new(),
            substituted: 0,
            billed: BTreeMap::new(),
            reported: BTreeMap::new(),
            has_contents,
            meters: ReferenceMeters::default(),
            congestion: ReferenceCongestion::new(Some(REPORTS_HOLD)),
            consumed: 0,
            begun: BegunConnections::default(),
            yellow: 0,
        })
    }

    /// The packets that concern the session, and a few that do not.
    fn choose(&self, drawn: Vec<Sent>) -> Vec<Sent> {
        let concerns = |sent: &Sent| {
            let network = &self.world.network;
            interpret_green(&self.rules, network, (sent.ingress, &sent.bytes), true)
                .pdr
                .is_some()
        };
        let (mut chosen, mut others): (Vec<_>, Vec<_>) = drawn.into_iter().partition(concerns);
        others.truncate(2);
        chosen.truncate(8);
        chosen.append(&mut others);
        chosen
    }

    fn run(&mut self, packets: &[Sent], steps: &[Step]) {
        for step in steps {
            match step {
                Step::Packet(index) => self.packet(index.get(packets)),
                Step::Flood(index) => (0..12).for_each(|_| self.packet(index.get(packets))),
                Step::Report {
                    packet,
                    parts,
                    is_alone,
                    is_of_packet,
                } => {
                    let mut marked = self.rules.qers().iter().filter(|qer| qer.optional.marks_l4s);
                    let qfi = marked.find_map(|qer| qer.qfi).filter(|_| !is_of_packet);
                    let sent = marks::reporting(packet.get(packets), *parts, *is_alone, qfi);
                    sent.iter().for_each(|sent| self.packet(sent));
                }
                Step::Edit(edit) => self.edit(|rules, _| edit.apply(rules)),
                Step::Activate(activation) => self.edit(|rules, all| activation.apply(rules, all)),
                Step::Exhaust(slots) => self.exhaust(*slots),
                Step::Wait(micros) => self.world.now = self.world.now + Duration::from_micros(*micros),
            }
        }
    }

    fn packet(&mut self, sent: &Sent) {
        let before = self.world.drops();
        let taken = self.world.next_poll();
        let mut out = self.world.send(sent.ingress.0, &sent.bytes);
        let expected = self.expect(sent, taken);
        for duplicate in &expected.duplicates {
            let is_it = |(port, frame): &(PortId, Vec<u8>)| {
                let mac = mac_of(duplicate.egress, duplicate.next_hop).0;
                port.0 == duplicate.egress.0 && frame[..6] == mac && frame[14..] == duplicate.bytes
            };
            let place = out.iter().position(is_it).expect("a duplicate");
            out.remove(place);
        }
        if let Ok(Some((egress, next_hop, bytes))) = &expected.end {
            // The mirror's port comes behind those of all instances.
            let (port, frame) = out.remove(0);
            assert_eq!(port.0, egress.0, "each instance has its own port");
            let mac = mac_of(*egress, *next_hop).0;
            assert_eq!(frame[..6], mac, "the next hop is {next_hop}");
            assert_eq!(hex(&frame[14..]), hex(bytes));
        }
        assert_eq!(self.world.dropped_since(&before), expected.end.err());
        assert_eq!(packets_of(&out), expected.copies);
    }

    /// The expected result of a packet, recirculation by recirculation, and what it counts in.
    fn expect(&mut self, sent: &Sent, now: Nanos) -> Expected {
        let (mut copies, mut duplicates) = (Vec::new(), Vec::new());
        let (mut ingress, mut packet) = (sent.ingress, sent.bytes.clone());
        let (mut lap, mut is_answer) = (0, false);
        let end = loop {
            if let Some(reason) = not_for_rules(&packet) {
                break Err(reason);
            }
            let verdict = self.interpret(ingress, &packet, (now, is_answer));
            for counted in &verdict.counted_before_qos {
                let count = self.before_qos.entry(counted.urr).or_default();
                add(count, counted.direction, counted.octets);
            }
            duplicates.extend(verdict.duplicate);
            match verdict.outcome {
                Outcome::Forwarded {
                    bytes,
                    egress,
                    next_hop,
                    mirror,
                } => {
                    copies.extend(mirror.map(|port| (port, bytes.clone())));
                    self.count_all(verdict.counted, &verdict.events);
                    self.bill(verdict.billed);
                    break Ok(Some((egress, next_hop, bytes)));
                }
                Outcome::Recirculated {
                    bytes,
                    ingress: again,
                    mirror,
                    is_answer: answers,
                } => {
                    copies.extend(mirror.map(|port| (port, bytes.clone())));
                    if lap == MAX_LAPS {
                        break Err(DropReason::RecirculationLimit);
                    }
                    self.count_all(verdict.counted, &verdict.events);
                    self.bill(verdict.billed);
                    (ingress, packet, lap) = (again, bytes, lap + 1);
                    is_answer |= answers;
                }
                Outcome::Consumed => {
                    self.consumed += 1;
                    break Ok(None);
                }
                Outcome::Dropped(reason) => break Err(reason),
            }
        };
        Expected {
            end,
            copies,
            duplicates,
        }
    }

    /// What becomes of a packet, and whether it would look the same if it were green.
    fn interpret(&mut self, ingress: InstanceId, packet: &[u8], (now, is_answer): (Nanos, bool)) -> Verdict {
        let quotas = Quotas {
            exhausted: &self.exhausted,
            is_answer,
        };
        let network = &self.world.network;
        let access = evaluate_access(
            &self.rules,
            network,
            ingress,
            packet,
            rules::Detection::Undetected,
        );
        let is_solicited = access.is_some_and(|access| self.begun.have(&access, packet));
        let conditions = Conditions {
            metering: Metering::Meters(&mut self.meters, now),
            congestion: CongestionMarks::Reports(&mut self.congestion, now),
            quotas,
            detection: rules::Detection::Undetected,
            is_solicited,
        };
        let verdict = interpret_with(&self.rules, network, ingress, packet, conditions);
        if let Some(access) = access.filter(|_| !is_answer) {
            self.begun.note(&access, packet, &verdict);
        }
        if !self.exhausted.is_empty() {
            let free = interpret_green(&self.rules, network, (ingress, packet), is_solicited);
            let goes = |verdict: &Verdict| !matches!(verdict.outcome, Outcome::Dropped(_));
            self.substituted += u64::from(goes(&verdict) && verdict.counted != free.counted);
            return verdict;
        }
        let green = interpret_green(&self.rules, network, (ingress, packet), is_solicited).outcome;
        if !matches!(verdict.outcome, Outcome::Dropped(_)) {
            self.yellow += u64::from(verdict.outcome != green);
        }
        verdict
    }

    /// These quotas are used up, and no others.
    fn exhaust(&mut self, slots: u16) {
        let ids = self.image.urr_ids.iter().enumerate();
        let named = ids.filter(|(slot, _)| slots >> slot & 1 == 1);
        self.exhausted = named.map(|(_, id)| *id).collect();
        let counters = self.image.counters();
        let bounds = bounds_of(&counters, &self.exhausted);
        let bounds = counters.into_iter().zip(bounds).collect();
        self.world
            .apply(0, SessionChange::Bound(self.image.session, bounds))
            .expect("it is there");
    }

    /// Adds what the worker has reported of usage before QoS enforcement.
    fn tell_before_qos(&mut self, usage: Option<&UsageSnapshot>) {
        for (urr, count) in usage.iter().flat_map(|usage| &usage.before_qos) {
            let sum = self.reported_before_qos.entry(*urr).or_default();
            sum.ul_packets += count.ul_packets;
            sum.ul_octets += count.ul_octets;
            sum.dl_packets += count.dl_packets;
            sum.dl_octets += count.dl_octets;
        }
    }

    fn count_all(&mut self, all: Vec<Counted>, events: &[UrrId]) {
        for urr in events {
            self.counts.entry(*urr).or_default().events += 1;
        }
        for counted in all {
            let count = self.counts.entry(counted.urr).or_default();
            add(count, counted.direction, counted.octets);
        }
    }

    fn bill(&mut self, billed: Option<Billed>) {
        if let Some(billed) = billed {
            let content = Some(billed.content).filter(|_| self.has_contents);
            let count = self.billed.entry(content).or_default();
            add(count, billed.direction, billed.octets);
        }
    }

    /// Adds what the worker has reported of contents.
    fn record_contents(&mut self, usage: impl IntoIterator<Item = ContentUsage>) {
        for one in usage {
            assert!(
                !one.is_nothing() && one.first <= one.last && one.last <= self.world.now,
                "{one:?}"
            );
            let content = self.predefined.content(one.content).cloned();
            assert_eq!(content.is_some(), one.content.is_some());
            let sum = self.reported.entry(content).or_default();
            sum.ul_packets += one.count.ul_packets;
            sum.ul_octets += one.count.ul_octets;
            sum.dl_packets += one.count.dl_packets;
            sum.dl_octets += one.count.dl_octets;
        }
    }

    fn edit(&mut self, edit: impl FnOnce(&mut SessionRules, &Predefined) -> Result<(), EditError>) {
        let mut rules = SessionRules::clone(&self.rules);
        if edit(&mut rules, &self.predefined).is_err() {
            return;
        }
        rules.instantiate(&self.predefined);
        let rules = Arc::new(rules);
        let Ok(image) = self.world.image(3, &rules, Some(&self.image)) else {
            return;
        };
        self.exhausted.retain(|id| image.urr_ids.contains(id));
        let image = bounded(image, &self.exhausted);
        let last = self
            .world
            .apply(
                0,
                SessionChange::Replace(image.clone(), ImmediateActions::default()),
            )
            .expect("there is room");
        // A credit pool whose multipliers are others counts in other units, from nothing.
        let unit = |rules: &SessionRules, id| rules.urr(id).map(rules::model::Urr::unit);
        let before = Arc::clone(&self.rules);
        let gone = |id: &UrrId| !image.urr_ids.contains(id) || unit(&before, *id) != unit(&rules, *id);
        // Where events are not counted any more, none are.
        let counts_events = |urr: &&rules::model::Urr| urr.counts_events();
        let counting: Vec<_> = rules
            .urrs()
            .iter()
            .filter(counts_events)
            .map(|urr| urr.id)
            .collect();
        let expected: BTreeMap<_, _> = self
            .image
            .urr_ids
            .iter()
            .filter(|id| gone(id))
            .map(|id| (*id, self.count(*id)))
            .collect();
        self.record_contents(last.iter().flat_map(|last| last.contents.iter().copied()));
        self.tell_before_qos(last.as_ref());
        assert_eq!(counters(last), expected);
        self.counts.retain(|id, _| !gone(id));
        for (id, count) in &mut self.counts {
            count.events *= u64::from(counting.contains(id));
        }
        self.meters.change(&rules);
        self.congestion.change(&self.rules, &rules);
        (self.rules, self.image) = (rules, image);
    }

    fn count(&self, id: UrrId) -> UrrCount {
        self.counts.get(&id).copied().unwrap_or_default()
    }

    fn finish(mut self) {
        let expected: BTreeMap<_, _> = self
            .image
            .urr_ids
            .iter()
            .map(|id| (*id, self.count(*id)))
            .collect();
        let counted = self.world.query(0, SessionIndex(3));
        self.tell_before_qos(Some(&counted));
        assert_eq!(counters(Some(counted)), expected);
        let last = self
            .world
            .apply(0, SessionChange::Remove(SessionIndex(3)))
            .expect("it is there");
        self.record_contents(last.iter().flat_map(|last| last.contents.iter().copied()));
        self.tell_before_qos(last.as_ref());
        assert_eq!(counters(last), expected);
        assert_eq!(self.reported_before_qos, self.before_qos);
        let reported = self.world.take_contents();
        self.record_contents(reported);
        assert_eq!(self.reported, self.billed);
        assert_eq!(self.world.workers[0].holdings().contents, 0);
        self.world.assert_conserved();
    }
}

/// An image whose counters stop at nothing, but for those of URRs whose quotas are used up.
fn bounded(mut image: Box<SessionImage>, exhausted: &[UrrId]) -> Box<SessionImage> {
    let counters = image.counters();
    image.block.get_or_insert_default().bounds = bounds_of(&counters, exhausted);
    image
}

/// The bounds of these counters. Of a URR that counts events and whose quotas are used up, it is that of events, if it
/// is the only one.
fn bounds_of(counters: &[Counter], exhausted: &[UrrId]) -> Vec<Bounds> {
    let is_exhausted = |counter: &Counter| {
        let urr = counter.urr();
        let by_events = exhausted.len() == 1 && counters.contains(&Counter::Events(urr));
        exhausted.contains(&urr) && (by_events == matches!(counter, Counter::Events(_)))
    };
    let bounds = |counter: &Counter| Bounds {
        watermarks: Volumes::of_total(1 << 50),
        limit: is_exhausted(counter).then_some(CounterLimit {
            octets: Volumes::of_total(0),
            action: LimitAction::Drop,
        }),
    };
    counters.iter().map(bounds).collect()
}

fn add(count: &mut UrrCount, direction: Direction, of: u64) {
    let (packets, octets) = match direction {
        Direction::Uplink => (&mut count.ul_packets, &mut count.ul_octets),
        Direction::Downlink => (&mut count.dl_packets, &mut count.dl_octets),
    };
    *packets += 1;
    *octets += of;
}

/// What ports got, from the IP headers on.
fn packets_of(frames: &[(PortId, Vec<u8>)]) -> Vec<(PortId, Vec<u8>)> {
    let packet = |(port, frame): &(PortId, Vec<u8>)| (*port, frame[14..].to_vec());
    frames.iter().map(packet).collect()
}

/// Why a packet is dropped before any session is asked; the interpreter does not look at that.
fn not_for_rules(packet: &[u8]) -> Option<DropReason> {
    let tuple = IpTuple::parse(packet, packet.len()).ok()?;
    tuple
        .addrs
        .has_unforwardable_source()
        .then_some(DropReason::MartianSource)
}

fn counters(usage: Option<UsageSnapshot>) -> BTreeMap<UrrId, UrrCount> {
    usage.into_iter().flat_map(|usage| usage.counters).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|octet| format!("{octet:02x}")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_packet_path_does_what_the_interpreter_says(
        rules in runnable_rules(),
        network in any_network(),
        packets in vec(any_sent(), 40),
        steps in vec(any_step(), 1..40),
        how: (bool, bool),
    ) {
        let Some(mut trial) = Trial::start(rules, network, how) else { return Ok(()) };
        let packets = trial.choose(packets);
        trial.run(&packets, &steps);
        trial.finish();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_packet_path_does_what_the_interpreter_says_of_predefined_rules(
        (rules, predefined) in runnable_rules_with(),
        packets in vec(any_sent(), 40),
        steps in vec(any_step_with(), 1..40),
        how: (bool, bool, bool),
    ) {
        let network = rules::testing::network();
        let Some(mut trial) = Trial::start_with((rules, predefined), network, how) else { return Ok(()) };
        let packets = trial.choose(packets);
        trial.run(&packets, &steps);
        trial.finish();
    }
}

/// What random sessions with predefined rules are worth: they forward, hit, and count in predefined URRs.
#[test]
fn random_predefined_rules_are_met() {
    let mut runner = TestRunner::deterministic();
    let (mut sums, mut counted, mut billed) = (Sums::default(), 0, BTreeMap::new());
    for _ in 0..400 {
        let drawn = (
            runnable_rules_with(),
            vec(any_sent(), 40),
            vec(any_step_with(), 60),
        )
            .new_tree(&mut runner);
        let ((rules, predefined), packets, steps) =
            drawn.expect("they are drawn without conditions").current();
        let network = rules::testing::network();
        let Some(mut trial) = Trial::start_with((rules, predefined), network, (false, true, false)) else {
            continue;
        };
        let packets = trial.choose(packets);
        trial.run(&packets, &steps);
        sums.add(trial.world.workers[0].stats());
        let predefined = trial.counts.iter().filter(|(urr, _)| urr.0 >> 31 != 0);
        counted += predefined
            .map(|(_, count)| count.ul_packets + count.dl_packets)
            .sum::<u64>();
        for (content, count) in &trial.billed {
            *billed.entry(content.clone()).or_insert(0) += count.ul_packets + count.dl_packets;
        }
    }
    assert!(
        billed.len() > 5 && billed.values().sum::<u64>() > 100,
        "{billed:?}"
    );
    assert!(sums.forwarded.iter().all(|count| *count > 100), "{sums:?}");
    assert!(
        sums.hits > 300 && sums.stale > 20 && counted > 100,
        "{counted} {sums:?}"
    );
}

/// What the random worlds are worth: they forward, hit, go stale and drop for every reason that rules can give.
#[test]
fn random_worlds_reach_every_way() {
    let mut runner = TestRunner::deterministic();
    let mut draw = |count: usize| {
        let steps = vec(any_step(), 60);
        (runnable_rules(), any_network(), vec(any_sent(), count), steps).new_tree(&mut runner)
    };
    let (mut sums, mut yellow, mut substituted, mut before_qos) = (Sums::default(), 0, 0, 0);
    let (mut events, mut no_events, mut pooled) = (0, 0, [0; 2]);
    let (mut filled, mut solicited, mut unsolicited) = (0, 0, 0);
    for number in 0..1_200 {
        let (rules, network, packets, steps) = draw(40).expect("they are drawn without conditions").current();
        let Some(mut trial) = Trial::start(rules, network, (false, number % 2 == 0)) else {
            continue;
        };
        let packets = trial.choose(packets);
        trial.run(&packets, &steps);
        sums.add(trial.world.workers[0].stats());
        filled += trial.world.workers[0].io_mut().filled_udp_checksums();
        (solicited, unsolicited) = (
            solicited + trial.begun.solicited,
            unsolicited + trial.begun.unsolicited,
        );
        yellow += trial.yellow;
        substituted += trial.substituted;
        let counting = trial.rules.urrs().iter().filter(|urr| urr.counts_events());
        for count in counting.map(|urr| trial.count(urr.id)) {
            events += count.events;
            no_events += count.ul_packets + count.dl_packets - count.events;
        }
        for pool in trial.image.pools.iter() {
            let count = trial.count(trial.image.urr_ids[usize::from(pool.pool)]);
            pooled[usize::from(pool.is_weighted())] += count.ul_packets + count.dl_packets;
        }
        before_qos += trial
            .before_qos
            .values()
            .map(|count| count.ul_packets + count.dl_packets)
            .sum::<u64>();
    }
    assert!(filled > 100, "{filled}");
    assert!(solicited > 50 && unsolicited > 50, "{solicited} {unsolicited}");
    assert!(events > 50 && no_events > 50, "{events} {no_events}");
    assert!(pooled.iter().all(|packets| *packets > 200), "{pooled:?}");
    assert!(substituted > 50 && before_qos > 500, "{substituted} {before_qos}");
    assert!(sums.mirrored > 200 && yellow > 5, "{yellow} {sums:?}");
    assert!(sums.recirculated > 100 && sums.duplicated > 500, "{sums:?}");
    assert!(sums.forwarded.iter().all(|count| *count > 500), "{sums:?}");
    assert!(
        sums.hits > 1000 && sums.stale > 50 && sums.bypassed > 20,
        "{sums:?}"
    );
    for reason in [
        DropReason::AccessList,
        DropReason::FarBuffer,
        DropReason::FarDrop,
        DropReason::FarNoTunnel,
        DropReason::GateClosed,
        DropReason::MartianDestination,
        DropReason::NoMatchingPdr,
        DropReason::MeterRed,
        DropReason::QuotaExhausted,
        DropReason::RecirculationLimit,
        DropReason::SpoofedSource,
        DropReason::TtlExpired,
        DropReason::UeToUe,
        DropReason::UnknownGtpuExtension,
        DropReason::UnknownTeid,
        DropReason::UnknownUeAddress,
        DropReason::UnsupportedAction,
    ] {
        assert!(sums.drops[reason.index()] > 5, "{reason}: {sums:?}");
    }
}

#[derive(Debug)]
struct Sums {
    forwarded: [u64; 2],
    hits: u64,
    stale: u64,
    bypassed: u64,
    mirrored: u64,
    recirculated: u64,
    duplicated: u64,
    drops: Vec<u64>,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            forwarded: [0; 2],
            hits: 0,
            stale: 0,
            bypassed: 0,
            mirrored: 0,
            recirculated: 0,
            duplicated: 0,
            drops: vec![0; DropReason::COUNT],
        }
    }
}

impl Sums {
    fn add(&mut self, stats: &worker::Stats) {
        for (sum, direction) in self.forwarded.iter_mut().zip(&stats.directions) {
            *sum += direction.forwarded.packets;
        }
        (self.hits, self.stale, self.bypassed) = (
            self.hits + stats.hits,
            self.stale + stats.stale,
            self.bypassed + stats.bypassed,
        );
        self.mirrored += stats.mirrored;
        self.recirculated += stats.recirculated;
        self.duplicated += stats.duplicated;
        assert_eq!(stats.duplicates_lost, 0);
        self.drops
            .iter_mut()
            .zip(stats.drops)
            .for_each(|(sum, count)| *sum += count);
    }
}
