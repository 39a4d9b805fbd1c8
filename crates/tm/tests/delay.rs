//! What buffers do to delay: yellow before green, CoDel and dual queues with senders that react to them, services of
//! one UE beside each other. On simulated time.

use std::collections::VecDeque;

use flow::Nanos;
use flow::meter::{Colour, Rate};
use proptest::prelude::*;
use tm::{
    Aqm, Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, NodeId, NodeSpec, QueueId, QueueSpec,
    QueueView, Shaper, Slot, UeId, UeSpec,
};

const OCTETS: u16 = 1_500;

struct World {
    manager: Manager,
    port: NodeId,
    ue: UeId,
    now: u64,
}

impl World {
    fn new(kbit: u64, queues: &[QueueSpec]) -> Self {
        let mut manager = Manager::new(Limits {
            losses: 64,
            ..Limits::new(4, 8, 4_096)
        })
        .unwrap();
        let shaper = Shaper {
            rate: Rate::from_kbit(kbit),
            burst: 3_100,
        };
        let node = NodeSpec {
            parent: None,
            shaper: Shaper::UNLIMITED,
            weight: 1,
            overhead: 0,
        };
        let port = manager.add_node(node).unwrap();
        let ue = manager.add_ue(UeSpec { node: port, shaper }).unwrap();
        for queue in queues {
            manager.add_queue(ue, queue).unwrap();
        }
        Self {
            manager,
            port,
            ue,
            now: 0,
        }
    }

    fn send(&mut self, place: u8, octets: u16, colour: Colour, ecn: Ecn) -> Result<Slot, LossReason> {
        let arrival = Arrival {
            queue: self.queue(place),
            octets,
            colour,
            ecn,
        };
        self.manager.enqueue(&arrival, Nanos(self.now))
    }

    const fn queue(&self, place: u8) -> QueueId {
        QueueId { ue: self.ue, place }
    }

    fn next(&mut self) -> Option<Departure> {
        let none = QueueId {
            ue: self.ue,
            place: 0,
        };
        let mut out = [Departure {
            slot: Slot(0),
            queue: none,
            octets: 0,
            marks_ce: false,
            sojourn: 0,
        }];
        (self.manager.dequeue(self.port, Nanos(self.now), &mut out) == 1).then_some(out[0])
    }

    fn view(&self, place: u8) -> QueueView {
        self.manager.queue(self.queue(place), Nanos(self.now)).unwrap()
    }
}

fn queue(aqm: Aqm, cap: u32) -> QueueSpec {
    QueueSpec {
        aqm,
        ..QueueSpec::new(Class::new(4), cap)
    }
}

#[test]
fn yellow_packets_make_room_for_green_ones_and_only_for_these() {
    let mut world = World::new(1_000, &[queue(Aqm::TailDrop, 400), queue(Aqm::TailDrop, 400)]);
    let colours = [Colour::Green, Colour::Yellow, Colour::Green, Colour::Yellow];
    let slots = colours.map(|colour| world.send(0, 100, colour, Ecn::NotEct).unwrap());
    assert_eq!(
        world.send(0, 100, Colour::Yellow, Ecn::NotEct),
        Err(LossReason::QueueFull)
    );
    assert_eq!(
        world.send(0, 301, Colour::Green, Ecn::NotEct),
        Err(LossReason::QueueFull)
    );
    assert_eq!(
        world.manager.pop_loss(),
        None,
        "two yellow ones are not enough: they stay"
    );
    world.send(0, 150, Colour::Green, Ecn::NotEct).unwrap();
    let lost: Vec<_> = std::iter::from_fn(|| world.manager.pop_loss())
        .map(|of| (of.slot, of.reason))
        .collect();
    assert_eq!(
        lost,
        [
            (slots[1], LossReason::PushedOut),
            (slots[3], LossReason::PushedOut)
        ]
    );
    let left: Vec<_> = std::iter::from_fn(|| world.next()).map(|of| of.octets).collect();
    assert_eq!(left, [100, 100, 150]);
    let drops = world.view(0).drops;
    assert_eq!(
        (
            drops[LossReason::QueueFull as usize],
            drops[LossReason::PushedOut as usize]
        ),
        (2, 2)
    );
    assert_eq!(
        world.manager.class(Class::new(4)).drops.map(|of| of as u32),
        drops
    );
}

#[test]
fn a_full_pool_leaves_room_for_queues_that_hold_little() {
    let limits = Limits {
        pool: 100_000,
        ..Limits::new(4, 8, 4_096)
    };
    let mut manager = Manager::new(limits).unwrap();
    let node = NodeSpec {
        parent: None,
        shaper: Shaper::UNLIMITED,
        weight: 1,
        overhead: 0,
    };
    let node = manager.add_node(node).unwrap();
    let mut ue = || {
        let ue = manager
            .add_ue(UeSpec {
                node,
                shaper: Shaper::UNLIMITED,
            })
            .unwrap();
        manager.add_queue(ue, &queue(Aqm::TailDrop, 1 << 20)).unwrap()
    };
    let (greedy, modest) = (ue(), ue());
    let arrival = |queue| Arrival {
        queue,
        octets: 1_000,
        colour: Colour::Green,
        ecn: Ecn::NotEct,
    };
    let held = (0..100)
        .filter(|_| manager.enqueue(&arrival(greedy), Nanos::ZERO).is_ok())
        .count();
    // As much as it leaves to others.
    assert_eq!(held, 50);
    assert_eq!(
        manager.enqueue(&arrival(greedy), Nanos::ZERO),
        Err(LossReason::PoolShare)
    );
    let held = (0..100)
        .filter(|_| manager.enqueue(&arrival(modest), Nanos::ZERO).is_ok())
        .count();
    assert_eq!(held, 25);
}

/// A sender with a window: it halves it for a loss or a mark once in a round trip, or, where it is scalable, takes as
/// much from it as packets were marked, and adds a packet in each round trip.
struct Sender {
    ecn: Ecn,
    window: f64,
    in_flight: u32,
    /// When acknowledgements arrive, and whether they say that there was congestion.
    answers: VecDeque<(u64, bool)>,
    round: (u64, f64, f64),
    share: f64,
    passed: u64,
    delays: Vec<u64>,
}

impl Sender {
    fn new(ecn: Ecn) -> Self {
        let answers = VecDeque::new();
        Self {
            ecn,
            window: 10.0,
            in_flight: 0,
            answers,
            round: (0, 0.0, 0.0),
            share: 0.0,
            passed: 0,
            delays: Vec::new(),
        }
    }

    fn hear(&mut self, now: u64, round_trip: u64) {
        while self.answers.front().is_some_and(|(at, _)| *at <= now) {
            let congested = self.answers.pop_front().is_some_and(|of| of.1);
            self.in_flight -= 1;
            self.window += 1.0 / self.window;
            (self.round.1, self.round.2) =
                (self.round.1 + 1.0, self.round.2 + f64::from(u8::from(congested)));
            if now < self.round.0 || (self.ecn != Ecn::Ect1 && !congested) {
                continue;
            }
            // DCTCP's gain (RFC 8257 §3.3).
            self.share += (self.round.2 / self.round.1 - self.share) / 16.0;
            let cut = if self.ecn == Ecn::Ect1 {
                self.share / 2.0
            } else {
                0.5
            };
            if self.round.2 > 0.0 {
                self.window = (self.window * (1.0 - cut)).max(2.0);
            }
            self.round = (now + round_trip, 0.0, 0.0);
        }
    }
}

/// Sends for some seconds and returns the senders, with the delays of the second half of the time.
fn transmit(world: &mut World, kinds: &[Ecn], seconds: u64) -> Vec<Sender> {
    const ROUND_TRIP: u64 = 10_000_000;
    let mut senders: Vec<Sender> = kinds.iter().map(|ecn| Sender::new(*ecn)).collect();
    let mut owners = vec![0; 4_096];
    while world.now < seconds * 1_000_000_000 {
        world.now += 50_000;
        for (number, sender) in senders.iter_mut().enumerate() {
            sender.hear(world.now, ROUND_TRIP);
            while f64::from(sender.in_flight) < sender.window {
                sender.in_flight += 1;
                match world.send(0, OCTETS, Colour::Green, sender.ecn) {
                    Ok(slot) => owners[slot.index()] = number,
                    Err(_) => sender.answers.push_back((world.now + ROUND_TRIP, true)),
                }
            }
        }
        while let Some(of) = world.next() {
            let sender = &mut senders[owners[of.slot.index()]];
            sender.answers.push_back((world.now + ROUND_TRIP, of.marks_ce));
            if world.now > seconds * 500_000_000 {
                sender.passed += 1;
                sender.delays.push(of.sojourn);
            }
            while let Some(loss) = world.manager.pop_loss() {
                senders[owners[loss.slot.index()]]
                    .answers
                    .push_back((world.now + ROUND_TRIP, true));
            }
        }
    }
    senders
        .iter_mut()
        .for_each(|sender| sender.delays.sort_unstable());
    senders
}

fn part(delays: &[u64], part: f64) -> f64 {
    delays[((delays.len() - 1) as f64 * part) as usize] as f64 / 1e6
}

#[test]
fn codel_keeps_the_standing_delay_near_its_target_and_marks_before_it_drops() {
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut tail = World::new(20_000, &[queue(Aqm::TailDrop, 1 << 20)]);
        let bloated = transmit(&mut tail, &[ecn; 2], 20);
        let mut world = World::new(20_000, &[queue(Aqm::CoDel, 1 << 20)]);
        let senders = transmit(&mut world, &[ecn; 2], 20);
        let (before, after) = (part(&bloated[0].delays, 0.5), part(&senders[0].delays, 0.5));
        assert!(before > 50.0 && after < 12.0, "{before} ms, {after} ms");
        let sent: u64 = senders.iter().map(|sender| sender.passed).sum();
        assert!(
            sent * 12_000 > 180_000_000,
            "90% of 20 Mbit/s over 10 s: {sent} packets"
        );
        let view = world.view(0);
        let drops = view.drops[LossReason::Aqm as usize];
        assert_eq!(
            (drops > 0, view.marks > 0),
            (ecn == Ecn::NotEct, ecn == Ecn::Ect0)
        );
    }
}

#[test]
fn a_scalable_sender_has_little_delay_beside_a_classic_one_and_a_like_rate() {
    let mut world = World::new(40_000, &[queue(Aqm::DualQueue, 1 << 20)]);
    let senders = transmit(&mut world, &[Ecn::Ect0, Ecn::Ect1], 30);
    let [classic, scalable] = [&senders[0], &senders[1]];
    assert!(
        (3.0..25.0).contains(&part(&classic.delays, 0.5)),
        "{} ms",
        part(&classic.delays, 0.5)
    );
    assert!(
        part(&scalable.delays, 0.5) < 1.5,
        "{} ms",
        part(&scalable.delays, 0.5)
    );
    assert!(
        part(&scalable.delays, 0.99) < 4.0,
        "{} ms",
        part(&scalable.delays, 0.99)
    );
    let ratio = scalable.passed as f64 / classic.passed as f64;
    assert!((0.4..2.5).contains(&ratio), "{ratio}");
    let sent = classic.passed + scalable.passed;
    assert!(
        sent * 12_000 > 15 * 36_000_000,
        "90% of 40 Mbit/s over 15 s: {sent} packets"
    );
    assert_eq!(world.view(0).drops, [0; LossReason::COUNT]);
}

#[test]
fn services_of_a_ue_do_not_harm_each_other() {
    let specs = [0, 2, 3, 6].map(|class| QueueSpec::new(Class::new(class), 100_000));
    let mut world = World::new(20_000, &specs);
    // URLLC, voice and video as they come, and as much of the rest as fits: 1.5 times what the UE may.
    let services = [
        (200_u16, 5_000_000_u64),
        (160, 20_000_000),
        (1_300, 1_300_000),
        (1_500, 550_000),
    ];
    let mut worst = [0_u64; 4];
    let mut passed = [0_u64; 4];
    for tick in 1..200_000_u64 {
        world.now = tick * 20_000;
        for (place, (octets, period)) in services.into_iter().enumerate() {
            if world.now % period < 20_000 {
                let answer = world.send(place as u8, octets, Colour::Green, Ecn::NotEct);
                assert!(answer.is_ok() || place == 3, "a loss of service {place}");
            }
        }
        while let Some(of) = world.next() {
            let place = usize::from(of.queue.place);
            worst[place] = worst[place].max(of.sojourn);
            passed[place] += 1;
        }
    }
    // A packet of 1,500 octets takes 600 us at 20 Mbit/s.
    assert!(worst[0] <= 640_000, "URLLC waits {} ns", worst[0]);
    assert!(worst[1] <= 740_000, "voice waits {} ns", worst[1]);
    assert!(worst[2] <= 1_300_000, "video waits {} ns", worst[2]);
    assert_eq!(
        passed[..3],
        [800, 200, 3_076].map(|of: u64| of - u64::from(of == 800) - u64::from(of == 200))
    );
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_dual_queue_keeps_the_order_of_both_and_loses_nothing_unseen(
        steps in prop::collection::vec((0_u8..4, 64_u16..=1_500, 0_u64..3_000_000, any::<bool>()), 1..400),
    ) {
        let mut world = World::new(3_000, &[queue(Aqm::DualQueue, 60_000)]);
        let mut model: [VecDeque<Slot>; 2] = Default::default();
        let (mut arrived, mut left, mut lost) = (0, 0, 0);
        for (ecn, octets, pause, is_yellow) in steps {
            world.now += pause;
            let ecn = Ecn::from_bits(ecn);
            let is_low_latency = matches!(ecn, Ecn::Ect1 | Ecn::Ce);
            let colour = if is_yellow { Colour::Yellow } else { Colour::Green };
            for _ in 0..3 {
                arrived += 1;
                let answer = world.send(0, octets, colour, ecn);
                while let Some(loss) = world.manager.pop_loss() {
                    prop_assert_eq!(loss.reason, LossReason::PushedOut);
                    model[usize::from(is_low_latency)].retain(|slot| *slot != loss.slot);
                    lost += 1;
                }
                match answer {
                    Ok(slot) => model[usize::from(is_low_latency)].push_back(slot),
                    Err(_) => lost += 1,
                }
            }
            let departure = world.next();
            while let Some(loss) = world.manager.pop_loss() {
                for of in &mut model {
                    of.retain(|slot| *slot != loss.slot);
                }
                lost += 1;
            }
            if let Some(of) = departure {
                let is_first = model.iter_mut().any(|queue| {
                    let is_first = queue.front() == Some(&of.slot);
                    is_first.then(|| queue.pop_front()).is_some()
                });
                prop_assert!(is_first);
                left += 1;
            }
            let held = model.iter().map(VecDeque::len).sum::<usize>();
            let view = world.view(0);
            prop_assert_eq!((view.packets as usize, view.low_latency as usize), (held, model[1].len()));
            prop_assert_eq!(arrived, left + lost + held);
            prop_assert_eq!(u64::from(view.octets), world.manager.octets());
        }
        let (mut given, ue) = (0, world.ue);
        world.manager.remove_ue(ue, Nanos(world.now), |_, _| given += 1).unwrap();
        prop_assert_eq!(arrived, left + lost + given);
        prop_assert_eq!(world.manager.class(Class::new(4)).packets, 0);
    }
}
