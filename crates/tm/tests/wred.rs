//! WRED in queues of a manager: who is dropped or marked, by the length of the queue on average.

use flow::Nanos;
use flow::meter::{Colour, Rate};
use proptest::prelude::*;
use tm::{
    Aqm, Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, NodeId, NodeSpec, QueueId, QueueSpec,
    RedCurve, Shaper, TmError, UeId, UeSpec, WredId, WredProfile,
};

const OCTETS: u16 = 1_000;

const PROFILE: WredProfile = WredProfile {
    green: RedCurve {
        min: 40_000,
        max: 80_000,
        one_in: 10,
    },
    yellow: RedCurve {
        min: 10_000,
        max: 20_000,
        one_in: 10,
    },
    weight_log2: 2,
};

struct World {
    manager: Manager,
    port: NodeId,
    queue: QueueId,
}

impl World {
    fn new(profile: &WredProfile) -> Self {
        let mut manager = Manager::new(Limits::new(1, 8, 1_024)).unwrap();
        let node = NodeSpec {
            parent: None,
            shaper: Shaper {
                rate: Rate::from_kbit(1_000_000),
                burst: 0,
            },
            weight: 1,
            overhead: 0,
        };
        let port = manager.add_node(node).unwrap();
        let ue = manager.add_ue(UeSpec {
            node: port,
            shaper: Shaper::UNLIMITED,
        });
        let profile = manager.add_wred(profile).unwrap();
        let spec = QueueSpec {
            aqm: Aqm::Wred(profile),
            ..QueueSpec::new(Class::new(3), 500_000)
        };
        let queue = manager.add_queue(ue.unwrap(), &spec).unwrap();
        Self { manager, port, queue }
    }

    fn arrive(&mut self, colour: Colour, ecn: Ecn, now: u64) -> Result<(), LossReason> {
        let arrival = Arrival {
            queue: self.queue,
            octets: OCTETS,
            colour,
            ecn,
        };
        self.manager.enqueue(&arrival, Nanos(now)).map(|_| ())
    }

    fn depart(&mut self, now: u64) -> Option<Departure> {
        let mut out = [Departure::NONE];
        (self.manager.dequeue(self.port, Nanos(now), &mut out) == 1).then(|| out[0])
    }

    fn octets(&self) -> u32 {
        self.manager
            .queue(self.queue, Nanos(0))
            .map_or(0, |view| view.octets)
    }

    /// Holds this many octets in the queue, while packets come; whether each was taken, and how many left with a mark.
    fn hold(&mut self, octets: u32, colour: Colour, ecn: Ecn, packets: usize) -> (Vec<bool>, usize) {
        let (mut now, mut marks, mut taken) = (0, 0, Vec::new());
        for _ in 0..packets {
            now += 8_000;
            let answer = self.arrive(colour, ecn, now);
            assert!(answer.is_ok() || answer == Err(LossReason::Aqm), "{answer:?}");
            taken.push(answer.is_ok());
            if self.octets() > octets {
                marks += usize::from(self.depart(now).is_some_and(|of| of.marks_ce));
            }
        }
        (taken, marks)
    }
}

#[test]
fn below_the_lower_threshold_none_is_hit_and_from_the_upper_one_on_all_are() {
    let (taken, marks) = World::new(&PROFILE).hold(39_000, Colour::Green, Ecn::NotEct, 5_000);
    assert!(taken.iter().all(|is_taken| *is_taken) && marks == 0);
    // Nothing leaves: the average follows, and from the upper threshold on none is taken.
    for ecn in [Ecn::NotEct, Ecn::Ect0] {
        let mut world = World::new(&PROFILE);
        let (taken, _) = world.hold(u32::MAX, Colour::Green, ecn, 5_000);
        assert!(
            taken.iter().rev().take(4_500).all(|is_taken| !is_taken),
            "{ecn:?}"
        );
        assert!((80_000..100_000).contains(&world.octets()), "{}", world.octets());
    }
}

#[test]
fn between_them_senders_that_heed_ecn_are_marked_and_others_lose_packets() {
    let (taken, marks) = World::new(&PROFILE).hold(60_000, Colour::Green, Ecn::NotEct, 10_000);
    let lost = taken.iter().filter(|is_taken| !**is_taken).count();
    // Half way, one of twenty.
    assert!((400..600).contains(&lost) && marks == 0, "{lost}");
    for ecn in [Ecn::Ect0, Ecn::Ect1, Ecn::Ce] {
        let mut world = World::new(&PROFILE);
        let (taken, marks) = world.hold(60_000, Colour::Green, ecn, 10_000);
        assert!(taken.iter().all(|is_taken| *is_taken));
        assert!((400..600).contains(&marks), "{marks}");
        let view = world.manager.queue(world.queue, Nanos(0)).unwrap();
        assert_eq!((view.marks as usize, view.drops), (marks, [0; LossReason::COUNT]));
        assert_eq!(world.manager.class(Class::new(3)).marks as usize, marks);
    }
}

#[test]
fn yellow_packets_are_hit_where_green_ones_are_not() {
    for (colour, is_lost) in [
        (Colour::Green, false),
        (Colour::Yellow, true),
        (Colour::Red, true),
    ] {
        let mut world = World::new(&PROFILE);
        let (taken, _) = world.hold(30_000, colour, Ecn::NotEct, 5_000);
        assert_eq!(taken.contains(&false), is_lost, "{colour:?}");
        let drops = world.manager.queue(world.queue, Nanos(0)).unwrap().drops;
        assert_eq!(drops[LossReason::Aqm as usize] > 0, is_lost);
    }
}

#[test]
fn packets_that_are_given_out_say_whether_they_were_to_be_marked() {
    let mut world = World::new(&PROFILE);
    world.hold(u32::MAX, Colour::Green, Ecn::Ect0, 75);
    let mut held = Vec::new();
    world
        .manager
        .remove_ue(world.queue.ue, Nanos(0), |of, _| held.push(of))
        .unwrap();
    let marks = held.iter().filter(|of| of.marks_ce).count();
    assert!(marks > 0 && marks < held.len() / 2, "{marks} of {}", held.len());
    assert!(held.iter().all(|of| of.ecn == Ecn::Ect0));
    // A packet that was to be marked is, where it waits further.
    let mut other = World::new(&PROFILE);
    for of in held.iter().filter(|of| of.marks_ce).take(2) {
        other.manager.enqueue_held(other.queue, of, Nanos(0)).unwrap();
    }
    let left = [10_000, 20_000].map(|now| other.depart(now).map(|of| of.marks_ce));
    assert_eq!(left, [Some(true); 2]);
}

#[test]
fn a_profile_has_to_be_there_and_within_its_bounds() {
    let mut world = World::new(&PROFILE);
    let spec = |profile| QueueSpec {
        aqm: Aqm::Wred(WredId(profile)),
        ..QueueSpec::new(Class::new(3), 500_000)
    };
    let UeId(ue) = world.queue.ue;
    assert_eq!(
        world.manager.add_queue(UeId(ue), &spec(1)),
        Err(TmError::NoWred(WredId(1)))
    );
    assert!(world.manager.add_queue(UeId(ue), &spec(0)).is_ok());
    let bad = WredProfile {
        weight_log2: 0,
        ..PROFILE
    };
    assert_eq!(world.manager.add_wred(&bad), Err(TmError::WredBounds));
    for _ in 1..16 {
        world.manager.add_wred(&PROFILE).unwrap();
    }
    assert_eq!(world.manager.add_wred(&PROFILE), Err(TmError::WredFull));
}

proptest! {
    #[test]
    fn no_packet_is_lost_that_the_model_takes_for_sure(
        min in 1_000_u32..50_000, more in 1_000_u32..50_000, one_in in 1_u8.., weight_log2 in 1_u8..=12,
        steps in prop::collection::vec((0_u8..3, any::<bool>()), 1..800),
    ) {
        let green = RedCurve { min, max: min + more, one_in };
        let yellow = RedCurve { min: min / 2, max: (min + more) / 2, one_in };
        let mut world = World::new(&WredProfile { green, yellow, weight_log2 });
        let (mut now, mut average) = (0_u64, 0.0_f64);
        for (what, is_green) in steps {
            // An empty queue forgets by the millisecond.
            if what == 0 {
                now += 8_000;
                world.depart(now);
                continue;
            }
            let octets = world.octets();
            if octets > 0 {
                average += (f64::from(octets) - average) / f64::from(1_u32 << weight_log2);
            }
            let colour = if is_green { Colour::Green } else { Colour::Yellow };
            let curve = if is_green { green } else { yellow };
            let answer = world.arrive(colour, Ecn::NotEct, now);
            if octets == 0 || average < f64::from(curve.min) - 8.0 {
                prop_assert_eq!(answer, Ok(()));
            } else if average > f64::from(curve.max) + 8.0 {
                prop_assert_eq!(answer, Err(LossReason::Aqm));
            }
        }
    }
}

#[test]
fn a_queue_that_was_idle_begins_anew_however_long_it_was() {
    // The last are whole rounds of the stamps that packets have, and a day.
    let round = 64_u64 << 32;
    let slow = WredProfile {
        weight_log2: 9,
        ..PROFILE
    };
    for idle in [
        1_000_000_000,
        round,
        round + 1_000_000,
        314 * round,
        86_400_000_000_000,
    ] {
        let mut world = World::new(&slow);
        let (taken, _) = world.hold(u32::MAX, Colour::Green, Ecn::NotEct, 5_000);
        assert_eq!(
            taken.last(),
            Some(&false),
            "the average is above the upper threshold"
        );
        let mut empty = 5_000 * 8_000;
        while world.octets() > 0 {
            empty += 8_000;
            world.depart(empty);
        }
        for _ in 0..10 {
            assert_eq!(
                world.arrive(Colour::Green, Ecn::NotEct, empty + idle),
                Ok(()),
                "{idle} ns"
            );
        }
    }
}
