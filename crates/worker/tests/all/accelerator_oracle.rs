//! An accelerator against a worker: random rules and packets, with the same session blocks and flow entries.

use crate::common;

use std::time::Duration;

use flow::{Bounds, CounterLimit, InstanceId, LimitAction, UrrCount, Volumes};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use rules::SessionRules;
use rules::image::{SessionChange, SessionImage};
use rules::network::Network;
use rules::testing::{Sent, any_network, any_sent, runnable_rules};
use worker::accelerator::Reason;
use worker::{DirectionStats, PacketRates, WorkerConfig};

use common::beside::{Accelerator, Guest};
use common::{NEXT_HOPS, World, frame};

/// How a trial is made.
#[derive(Clone, Copy, Debug)]
struct Setup {
    /// Ports fill in UDP checksums.
    fills: bool,
    /// Octets after which every counter stops, and whether that traps. `None`: none stops.
    limit: Option<(u64, bool)>,
}

fn any_setup() -> impl Strategy<Value = Setup> {
    let limit = prop::option::weighted(0.3, (0..4_000u64, any::<bool>()));
    (any::<bool>(), limit).prop_map(|(fills, limit)| Setup { fills, limit })
}

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// The packet with this number (of those drawn) comes in.
    Packet(prop::sample::Index),
    /// It comes in again and again.
    Flood(prop::sample::Index),
    /// Time passes, in microseconds.
    Wait(u64),
    /// This next hop answers from now on, or does not.
    Hop(prop::sample::Index, bool),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any::<prop::sample::Index>().prop_map(Step::Packet),
        2 => any::<prop::sample::Index>().prop_map(Step::Flood),
        1 => (0..20_000u64).prop_map(Step::Wait),
        1 => (any::<prop::sample::Index>(), any::<bool>()).prop_map(|(hop, answers)| Step::Hop(hop, answers)),
    ]
}

/// What an accelerator and a worker make of the same packets.
struct Trial {
    world: World,
    beside: Accelerator,
    guest: Guest,
    /// What the accelerator must have counted, by URR.
    counts: Vec<UrrCount>,
    directions: [DirectionStats; 2],
    /// Meters and limits hold less at the worker, which has had the exceptions: no more is compared.
    is_over: bool,
    has_state: bool,
    sums: Sums,
}

/// What trials are worth.
#[derive(Debug, Default)]
struct Sums {
    passed: u64,
    dropped: u64,
    recirculated: u64,
    mirrored: u64,
    fragmented: u64,
    metered: u64,
    exceptions: [u64; Reason::COUNT],
}

impl Trial {
    fn start(rules: SessionRules, network: Network, setup: Setup) -> Option<Self> {
        let configure = |config: &mut WorkerConfig| {
            (config.error_indications, config.notifications) = (0, 0);
            config.icmp_errors = PacketRates::new(0, 0);
            config.redirects = PacketRates::new(0, 0);
        };
        let mut world = World::over(network, 1, configure, |io| fill(io, setup.fills));
        let mut image = world.image(3, &rules.into(), None).ok()?;
        bound(&mut image, setup.limit);
        let has_meters = image.block.meters.iter().flatten().any(Option::is_some);
        let has_meters = has_meters || image.block.shared != flow::meter::SharedId::NONE;
        let change = SessionChange::Install(image.clone());
        world.apply(0, change).expect("there is room");
        let mut beside = Accelerator::with(&world, |_| {}, |io| fill(io, setup.fills));
        let guest = beside.install(&image);
        Some(Self {
            counts: beside.counts(&guest),
            world,
            beside,
            guest,
            directions: Default::default(),
            is_over: false,
            has_state: has_meters || setup.limit.is_some(),
            sums: Sums::default(),
        })
    }

    fn run(&mut self, packets: &[Sent], steps: &[Step]) {
        for step in steps.iter().take_while(|_| !packets.is_empty()) {
            match step {
                Step::Packet(index) => self.packet(index.get(packets)),
                Step::Flood(index) => (0..8).for_each(|_| self.packet(index.get(packets))),
                Step::Wait(micros) => self.world.now = self.world.now + Duration::from_micros(*micros),
                Step::Hop(hop, answers) => self.hop(*hop.get(&NEXT_HOPS), *answers),
            }
            if self.is_over {
                return;
            }
        }
    }

    fn hop(&mut self, (instance, address): (u16, &str), answers: bool) {
        let (instance, address) = (InstanceId(instance), address.parse().expect("an address"));
        if self.world.network.instance(instance).is_none() {
            return;
        }
        match answers {
            true => self.world.meet(instance, address),
            false => self.world.lose(instance, address),
        }
        let change = self.world.adjacencies.last().expect("there is one");
        assert!(self.beside.engine.change_adjacency(change));
    }

    /// Lets a packet come in at both.
    fn packet(&mut self, sent: &Sent) {
        if self.is_over {
            return;
        }
        let frame = frame(sent.ingress.0, &sent.bytes);
        if let Some(entry) = self.beside.entry(&self.guest, sent.ingress, &frame) {
            self.beside
                .engine
                .put(&entry, self.world.now)
                .expect("there is room");
        }
        let before = (self.worker_counts(), self.world.drops(), self.worker_directions());
        let (engine_before, engine_drops) = (self.beside.counts(&self.guest), self.beside.drops());
        let now = self.world.next_poll();
        let expected = self.world.send(sent.ingress.0, &sent.bytes);
        self.beside.arrive(sent.ingress.0, &frame);
        self.beside.engine.poll(now);
        self.beside.now = now;
        let (out, exception) = (self.beside.take(), self.beside.exception());
        let counted = (self.worker_counts(), self.worker_directions());
        // What the worker has taken of meters and limits, the accelerator has not.
        let diverges = self.has_state && counted.1 != before.2;
        match exception {
            None => {
                assert_eq!(out, expected, "what leaves");
                assert_eq!(
                    difference(&engine_drops, &self.beside.drops()),
                    difference(&before.1, &self.world.drops())
                );
                self.sums.passed += u64::from(!out.is_empty());
                self.sums.dropped += u64::from(out.is_empty());
                for (sum, (before, after)) in self.counts.iter_mut().zip(before.0.iter().zip(&counted.0)) {
                    add(sum, before, after);
                }
                for (sum, (before, after)) in self.directions.iter_mut().zip(before.2.iter().zip(&counted.1))
                {
                    add_directions(sum, before, after);
                }
                assert_eq!(self.beside.counts(&self.guest), self.counts, "what is counted");
                assert_eq!(self.beside.engine.stats().path.directions, self.directions);
            }
            Some((reason, port, octets)) => {
                self.sums.exceptions[reason.index()] += 1;
                if port.recirculations() > 0 {
                    // It was counted before it recirculated, and has its flow the next time.
                    self.is_over = diverges;
                    self.give_recirculated(port.with_recirculations(0).0, &octets);
                    self.counts = self.beside.counts(&self.guest);
                    self.directions = self.beside.engine.stats().path.directions;
                    return;
                }
                assert_eq!((port.0, &octets), (sent.ingress.0, &frame), "as it was received");
                assert!(out.is_empty(), "{reason:?}: {out:?}");
                assert_eq!(self.beside.counts(&self.guest), engine_before, "{reason:?}");
                assert_eq!(
                    self.beside.engine.stats().path.directions,
                    self.directions,
                    "{reason:?}"
                );
                assert_eq!(engine_drops, self.beside.drops(), "{reason:?}");
                self.is_over = diverges;
            }
        }
    }

    /// The host gives the flow of a packet that was an exception when it recirculated.
    fn give_recirculated(&mut self, port: u16, frame: &[u8]) {
        // Each instance has its own port.
        if let Some(entry) = self.beside.entry(&self.guest, InstanceId(port), frame) {
            self.beside
                .engine
                .put(&entry, self.world.now)
                .expect("there is room");
        }
    }

    fn worker_counts(&mut self) -> Vec<UrrCount> {
        let usage = self.world.query(0, self.guest.image.session);
        usage.counters.into_iter().map(|(_, count)| count).collect()
    }

    fn worker_directions(&self) -> [DirectionStats; 2] {
        self.world.workers[0].stats().directions
    }

    fn finish(mut self) -> Sums {
        self.beside.assert_conserved();
        let path = self.beside.engine.stats().path;
        self.sums.recirculated = path.recirculated;
        self.sums.mirrored = path.mirrored;
        self.sums.fragmented = path.fragmented;
        self.sums.metered = path.dropped(packet::DropReason::MeterRed);
        self.sums
    }
}

fn fill(io: &mut worker::mem::MemIo, fills: bool) {
    (0..5)
        .filter(|_| fills)
        .for_each(|port| io.fill_udp_checksums(flow::PortId(port)));
}

/// Has every counter of a session stop where `limit` says.
fn bound(image: &mut SessionImage, limit: Option<(u64, bool)>) {
    let traps = !image.quota_actions.is_empty();
    let bounds = Bounds {
        watermarks: Volumes::of_total(1 << 50),
        limit: limit.map(|(octets, may_trap)| CounterLimit {
            octets: Volumes::of_total(octets),
            action: match traps || may_trap {
                true => LimitAction::Trap,
                false => LimitAction::Drop,
            },
        }),
    };
    let counters = image.counters().len();
    image.block.get_or_insert_default().bounds = vec![bounds; counters];
}

fn difference(before: &[u64], after: &[u64]) -> Vec<u64> {
    before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before)
        .collect()
}

fn add(sum: &mut UrrCount, before: &UrrCount, after: &UrrCount) {
    sum.ul_packets += after.ul_packets - before.ul_packets;
    sum.ul_octets += after.ul_octets - before.ul_octets;
    sum.dl_packets += after.dl_packets - before.dl_packets;
    sum.dl_octets += after.dl_octets - before.dl_octets;
}

fn add_directions(sum: &mut DirectionStats, before: &DirectionStats, after: &DirectionStats) {
    sum.matched.packets += after.matched.packets - before.matched.packets;
    sum.matched.octets += after.matched.octets - before.matched.octets;
    sum.forwarded.packets += after.forwarded.packets - before.forwarded.packets;
    sum.forwarded.octets += after.forwarded.octets - before.forwarded.octets;
}

/// The packets that a session has entries for, and a few others.
fn chosen(trial: &Trial, packets: Vec<Sent>) -> Vec<Sent> {
    let concerns = |sent: &Sent| {
        let frame = frame(sent.ingress.0, &sent.bytes);
        trial.beside.entry(&trial.guest, sent.ingress, &frame).is_some()
    };
    let (mut chosen, mut others): (Vec<_>, Vec<_>) = packets.into_iter().partition(concerns);
    others.truncate(2);
    chosen.truncate(8);
    chosen.append(&mut others);
    chosen
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_passes_passes_as_through_a_worker_and_all_else_is_the_hosts(
        rules in runnable_rules(),
        network in any_network(),
        packets in vec(any_sent(), 40),
        steps in vec(any_step(), 1..40),
        setup in any_setup(),
    ) {
        let Some(mut trial) = Trial::start(rules, network, setup) else { return Ok(()) };
        let packets = chosen(&trial, packets);
        trial.run(&packets, &steps);
        trial.finish();
    }
}

/// What the random trials are worth: packets pass, are dropped, and are exceptions for every reason that rules give.
#[test]
fn random_trials_reach_every_way() {
    let mut runner = TestRunner::deterministic();
    let mut sums = Sums::default();
    for _ in 0..1_200 {
        let drawn = (
            runnable_rules(),
            any_network(),
            vec(any_sent(), 40),
            vec(any_step(), 40),
            any_setup(),
        )
            .new_tree(&mut runner);
        let (rules, network, packets, steps, setup) =
            drawn.expect("they are drawn without conditions").current();
        let Some(mut trial) = Trial::start(rules, network, setup) else {
            continue;
        };
        let packets = chosen(&trial, packets);
        trial.run(&packets, &steps);
        let of = trial.finish();
        sums.passed += of.passed;
        sums.dropped += of.dropped;
        sums.recirculated += of.recirculated;
        sums.mirrored += of.mirrored;
        sums.metered += of.metered;
        sums.fragmented += of.fragmented;
        for (sum, count) in sums.exceptions.iter_mut().zip(of.exceptions) {
            *sum += count;
        }
    }
    assert!(sums.passed > 800 && sums.dropped > 2_000, "{sums:?}");
    assert!(
        sums.recirculated > 100 && sums.mirrored > 200 && sums.metered > 50,
        "{sums:?}"
    );
    for (reason, least) in [
        (Reason::NoFlow, 1_000),
        (Reason::Action, 200),
        (Reason::Limit, 1),
        (Reason::Adjacency, 5),
        (Reason::Ttl, 5),
        (Reason::NeedsReassembly, 200),
        (Reason::OtherHeaders, 500),
    ] {
        assert!(sums.exceptions[reason.index()] >= least, "{reason:?}: {sums:?}");
    }
}
