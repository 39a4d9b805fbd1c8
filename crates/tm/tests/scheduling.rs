//! Rates, shares and priorities over time, on simulated time.

use flow::Nanos;
use flow::meter::{Colour, Rate};
use proptest::prelude::*;
use tm::{
    Arrival, Class, Departure, Ecn, Limits, LossReason, Manager, NodeId, NodeSpec, QueueId, QueueLine,
    QueueRates, QueueSpec, Shaper, Slot, TmError, UeId, UeSpec,
};

const LARGEST: u32 = 1_518;

/// One manager, its port, and the octets that left by queue.
struct Bench {
    manager: Manager,
    port: NodeId,
    now: u64,
}

fn shaper(kbit: u64, burst: u32) -> Shaper {
    Shaper {
        rate: Rate::from_kbit(kbit),
        burst,
    }
}

fn node(parent: Option<NodeId>, shaper: Shaper, weight: u8) -> NodeSpec {
    NodeSpec {
        parent,
        shaper,
        weight,
        overhead: 0,
    }
}

impl Bench {
    fn new(limits: Limits, port: Shaper) -> Self {
        let mut manager = Manager::new(limits).unwrap();
        let port = manager.add_node(node(None, port, 1)).unwrap();
        Self {
            manager,
            port,
            now: 0,
        }
    }

    fn ue(&mut self, node: NodeId, shaper: Shaper, queues: &[QueueSpec]) -> UeId {
        let ue = self.manager.add_ue(UeSpec { node, shaper }).unwrap();
        for queue in queues {
            self.manager.add_queue(ue, queue).unwrap();
        }
        ue
    }

    fn send(&mut self, queue: QueueId, octets: u32) -> Result<Slot, LossReason> {
        let arrival = Arrival {
            queue,
            octets: octets as u16,
            colour: Colour::Green,
            ecn: Ecn::NotEct,
        };
        self.manager.enqueue(&arrival, Nanos(self.now))
    }

    fn send_at(&mut self, queue: QueueLine, octets: u32) -> Result<(), LossReason> {
        let arrival = Arrival {
            queue,
            octets: octets as u16,
            colour: Colour::Green,
            ecn: Ecn::NotEct,
        };
        self.manager.enqueue_at(&arrival, Nanos(self.now)).map(drop)
    }

    fn fill(&mut self, queue: QueueId, packets: usize, octets: u32) {
        for _ in 0..packets {
            self.send(queue, octets).unwrap();
        }
    }

    fn next(&mut self) -> Option<Departure> {
        let nothing = QueueId {
            ue: UeId(0),
            place: 0,
        };
        let mut out = [Departure {
            slot: Slot(0),
            queue: nothing,
            octets: 0,
            marks_ce: false,
            sojourn: 0,
        }];
        let count = self.manager.dequeue(self.port, Nanos(self.now), &mut out);
        (count == 1).then_some(out[0])
    }

    /// Lets time pass until `end`, in steps of `step`, and hands over all that leaves; the same is queued again at
    /// once, so that queues never are empty.
    fn pass(&mut self, end: u64, step: u64, mut each: impl FnMut(u64, &Departure)) {
        while self.now < end {
            self.now += step;
            while let Some(departure) = self.next() {
                each(self.now, &departure);
                self.send(departure.queue, u32::from(departure.octets)).unwrap();
            }
        }
    }
}

fn queue(ue: UeId, place: u8) -> QueueId {
    QueueId { ue, place }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_queue_that_is_never_empty_gets_its_rate(
        kbits in prop::collection::vec(100_u64..2_000_000, 1..12), step in 200_u64..2_000, octets in 64_u32..=LARGEST,
    ) {
        let mut bench = Bench::new(Limits::new(16, 16, 64), Shaper::UNLIMITED);
        let port = bench.port;
        let mut sent = Vec::new();
        for kbit in &kbits {
            // What it earns between two looks at it is kept.
            let burst = LARGEST + 1 + (kbit * (step + 2_048)).div_ceil(8_000_000) as u32;
            let ue = bench.ue(port, shaper(*kbit, burst), &[QueueSpec::new(Class::new(3), 1 << 20)]);
            bench.fill(queue(ue, 0), 3, octets);
            sent.push(0_u64);
        }
        let end = 30_000_000;
        bench.pass(end, step, |_, departure| {
            sent[departure.queue.ue.0 as usize] += u64::from(departure.octets);
        });
        for (kbit, sent) in kbits.iter().zip(sent) {
            let earned = kbit * bench.now / 8_000_000;
            // One packet, and what it earns while a wheel or the next look is late.
            let late = kbit * (step + 1_024) / 8_000_000 + 1;
            prop_assert!(sent + u64::from(octets) + late >= earned, "{kbit} kbit/s: {sent} of {earned}");
        }
    }

    #[test]
    fn queues_of_a_class_share_by_their_weights(
        weights in prop::collection::vec((1_u8..8, 64_u32..=LARGEST), 2..6), quantum in 64_u16..3_000,
    ) {
        let mut bench = Bench::new(Limits { quantum, ..Limits::new(2, 8, 64) }, shaper(1_000_000, 0));
        let port = bench.port;
        let specs: Vec<_> = weights
            .iter()
            .map(|(weight, _)| QueueSpec { weight: *weight, ..QueueSpec::new(Class::new(3), 1 << 20) })
            .collect();
        let ue = bench.ue(port, Shaper::UNLIMITED, &specs);
        for (place, (_, octets)) in weights.iter().enumerate() {
            bench.fill(queue(ue, place as u8), 3, *octets);
        }
        let mut sent = vec![0_u32; weights.len()];
        let mut worst = 0.0_f64;
        bench.pass(5_000_000, 1_000, |_, departure| {
            sent[usize::from(departure.queue.place)] += u32::from(departure.octets);
            let shares = sent.iter().zip(&weights).map(|(sent, (weight, _))| f64::from(*sent) / f64::from(*weight));
            let (least, most) = shares.fold((f64::MAX, 0.0_f64), |(least, most), of| (least.min(of), most.max(of)));
            worst = worst.max(most - least);
        });
        // A turn, and a packet beyond the turn of each (Shreedhar and Varghese).
        let bound = f64::from(quantum) + 2.0 * f64::from(LARGEST);
        prop_assert!(worst <= bound, "{worst} octets apart, at most {bound}");
    }

    #[test]
    fn ues_share_a_port_equally_and_nodes_by_their_weights(
        sizes in prop::collection::vec((0_usize..3, 64_u32..=LARGEST), 3..9), weights in prop::array::uniform2(1_u8..6),
    ) {
        let mut bench = Bench::new(Limits::new(16, 16, 64), shaper(1_000_000, 0));
        let port = bench.port;
        let slices = weights.map(|weight| bench.manager.add_node(node(Some(port), Shaper::UNLIMITED, weight)).unwrap());
        let mut of_ue = Vec::new();
        for (place, octets) in &sizes {
            // Two in a slice each, the third directly below the port.
            let parent = slices.get(*place).copied().unwrap_or(port);
            let ue = bench.ue(parent, Shaper::UNLIMITED, &[QueueSpec::new(Class::new(3), 1 << 20)]);
            bench.fill(queue(ue, 0), 3, *octets);
            of_ue.push(*place);
        }
        let mut sent = vec![0_u64; sizes.len()];
        bench.pass(20_000_000, 1_000, |_, departure| {
            sent[departure.queue.ue.0 as usize] += u64::from(departure.octets);
        });
        let quantum = u64::from(LARGEST);
        for slice in 0..2 {
            let within: Vec<u64> = (0..sizes.len()).filter(|ue| of_ue[*ue] == slice).map(|ue| sent[ue]).collect();
            if let (Some(least), Some(most)) = (within.iter().min(), within.iter().max()) {
                prop_assert!(most - least <= 3 * quantum);
            }
        }
        // Each share of the port per weight, as far as there is one.
        let mut shares = Vec::new();
        for (slice, weight) in weights.iter().enumerate() {
            let within: Vec<u64> = (0..sizes.len()).filter(|ue| of_ue[*ue] == slice).map(|ue| sent[ue]).collect();
            if !within.is_empty() {
                shares.push(within.iter().sum::<u64>() / u64::from(*weight));
            }
        }
        shares.extend((0..sizes.len()).filter(|ue| of_ue[*ue] == 2).map(|ue| sent[ue]));
        let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
        prop_assert!(most - least <= 4 * quantum, "{shares:?}");
    }
}

#[test]
fn a_packet_of_the_highest_class_is_the_next_to_leave_a_port_in_overload() {
    let mut bench = Bench::new(Limits::new(64, 128, 512), shaper(8_000, 0));
    let port = bench.port;
    let slice = bench
        .manager
        .add_node(node(Some(port), Shaper::UNLIMITED, 1))
        .unwrap();
    let both = [
        QueueSpec::new(Class::new(0), 9_000),
        QueueSpec::new(Class::new(5), 9_000),
    ];
    let ues: Vec<UeId> = (0..64)
        .map(|number| bench.ue([port, slice][number % 2], Shaper::UNLIMITED, &both))
        .collect();
    for ue in &ues {
        bench.fill(queue(*ue, 1), 3, 1_000);
    }
    for ue in ues {
        // A packet takes a millisecond, and a wheel is up to 1.024 us late.
        bench.now += 1_001_024;
        assert_eq!(bench.next().unwrap().queue.place, 1);
        assert!(bench.next().is_none());
        bench.send(queue(ue, 0), 100).unwrap();
        assert!(bench.next().is_none());
        bench.now += 1_001_024;
        assert_eq!(bench.next().unwrap().queue, queue(ue, 0));
    }
}

#[test]
fn a_guaranteed_rate_is_kept_in_overload_and_what_is_above_it_comes_behind() {
    let mut bench = Bench::new(Limits::new(4, 8, 64), shaper(10_000, 0));
    let port = bench.port;
    let voice = QueueSpec {
        rates: Some(QueueRates {
            guaranteed: Some(shaper(2_000, 3_000)),
            excess_class: Class::new(6),
            maximum: shaper(5_000, 3_000),
        }),
        is_exempt: true,
        ..QueueSpec::new(Class::new(1), 1 << 20)
    };
    let web = QueueSpec::new(Class::new(4), 1 << 20);
    let first = bench.ue(port, shaper(100_000, 3_000), &[voice, web]);
    for place in 0..2 {
        bench.fill(queue(first, place), 3, 500);
    }
    let mut sent = [0_u64; 2];
    bench.pass(1_000_000_000, 10_000, |_, of| {
        sent[usize::from(of.queue.place)] += u64::from(of.octets)
    });
    // 2 of 10 Mbit/s over a second, and no more while the other queue has packets.
    assert!((249_000..=253_000).contains(&sent[0]), "{sent:?}");
    assert!((990_000..=1_005_000).contains(&sent[1]), "{sent:?}");
    // Alone it gets its maximum.
    bench
        .manager
        .remove_queue(queue(first, 1), Nanos(bench.now), |_, _| ())
        .unwrap();
    let mut alone = 0_u64;
    bench.pass(2_000_000_000, 10_000, |_, of| alone += u64::from(of.octets));
    assert!((620_000..=628_000).contains(&alone), "{alone}");
}

#[test]
fn a_shaper_of_a_ue_does_not_delay_another_and_slow_ones_are_exact_beside_fast_ones() {
    let mut bench = Bench::new(Limits::new(8, 8, 64), Shaper::UNLIMITED);
    let port = bench.port;
    let kbits = [3, 50, 610, 10_000, 400_000];
    for kbit in kbits {
        let ue = bench.ue(
            port,
            shaper(kbit, 5_000),
            &[QueueSpec::new(Class::new(3), 1 << 20)],
        );
        bench.fill(queue(ue, 0), 8, 1_000);
    }
    let mut sent = [0_u64; 5];
    // The bursts pass first.
    bench.pass(20_000_000_000, 20_000, |_, _| ());
    bench.pass(60_000_000_000, 20_000, |_, of| {
        sent[of.queue.ue.0 as usize] += u64::from(of.octets)
    });
    for (kbit, sent) in kbits.into_iter().zip(sent) {
        let earned = kbit * 40_000_000_000 / 8_000_000;
        assert!(
            sent.abs_diff(earned) <= 1_100 + earned / 1_000,
            "{kbit} kbit/s: {sent} of {earned}"
        );
    }
}

#[test]
fn what_a_change_of_a_rate_allows_leaves_at_once() {
    let mut bench = Bench::new(Limits::new(2, 4, 16), Shaper::UNLIMITED);
    let port = bench.port;
    let ue = bench.ue(port, shaper(1, 0), &[QueueSpec::new(Class::new(3), 1 << 20)]);
    bench.fill(queue(ue, 0), 6, 1_000);
    assert!(bench.next().is_some() && bench.next().is_none());
    bench
        .manager
        .set_ue_rate(ue, shaper(8_000_000, 0), Nanos(bench.now))
        .unwrap();
    bench.now += 1_024;
    assert!(
        bench.next().is_some(),
        "1,000 octets take 1 us at 8 Gbit/s, and a wheel is up to 1.024 us late"
    );
    assert!(bench.next().is_none());
    bench
        .manager
        .set_ue_rate(ue, Shaper::UNLIMITED, Nanos(bench.now))
        .unwrap();
    bench
        .manager
        .set_node_rate(port, shaper(0, 0), Nanos(bench.now))
        .unwrap();
    assert!(
        bench.next().is_some() && bench.next().is_none(),
        "a full bucket lets one pass"
    );
    bench.now += 40_000_000_000;
    assert!(bench.next().is_none());
    bench
        .manager
        .set_node_rate(port, Shaper::UNLIMITED, Nanos(bench.now))
        .unwrap();
    assert!(
        bench.next().is_some() && bench.next().is_some() && bench.next().is_some() && bench.next().is_none()
    );
}

#[test]
fn numbers_of_ues_that_wait_behind_a_closed_node_are_used_again() {
    let mut bench = Bench::new(Limits::new(16, 16, 64), shaper(0, 0));
    let port = bench.port;
    let web = [QueueSpec::new(Class::new(3), 1 << 20)];
    let first = bench.ue(port, Shaper::UNLIMITED, &web);
    bench.fill(queue(first, 0), 2, 1_000);
    assert!(bench.next().is_some() && bench.next().is_none());
    for _ in 0..1_000 {
        let ue = bench.ue(port, Shaper::UNLIMITED, &web);
        bench.send(queue(ue, 0), 1_000).unwrap();
        let mut given = 0;
        bench
            .manager
            .remove_ue(ue, Nanos(bench.now), |_, _| given += 1)
            .unwrap();
        assert_eq!(given, 1);
        assert_eq!(bench.send(queue(ue, 0), 1_000), Err(LossReason::NoQueue));
    }
    bench
        .manager
        .set_node_rate(port, Shaper::UNLIMITED, Nanos(bench.now))
        .unwrap();
    assert_eq!(bench.next().map(|of| of.queue), Some(queue(first, 0)));
    assert!(bench.next().is_none());
    bench
        .manager
        .remove_ue(first, Nanos(bench.now), |_, _| ())
        .unwrap();
    bench.manager.remove_node(port).unwrap();
}

#[test]
fn what_there_is_no_room_for_is_refused_and_leaves_all_as_it_was() {
    let limits = Limits {
        shapers: 1,
        nodes: 2,
        ..Limits::new(2, 4, 4)
    };
    let mut bench = Bench::new(limits, Shaper::UNLIMITED);
    let (port, web) = (bench.port, QueueSpec::new(Class::new(3), 1 << 20));
    let ue = bench.ue(port, Shaper::UNLIMITED, &[web, web]);
    let other = bench.ue(port, Shaper::UNLIMITED, &[web]);
    let of_ue = UeSpec {
        node: port,
        shaper: Shaper::UNLIMITED,
    };
    assert_eq!(bench.manager.add_ue(of_ue), Err(TmError::UesFull));
    assert_eq!(bench.manager.add_queue(ue, &web), Err(TmError::QueuesFull));
    let rates = QueueRates {
        guaranteed: None,
        excess_class: Class::new(7),
        maximum: shaper(1, 0),
    };
    let own = QueueSpec {
        rates: Some(rates),
        ..web
    };
    assert_eq!(bench.manager.add_queue(other, &own).map(|of| of.place), Ok(1));
    bench
        .manager
        .remove_queue(queue(ue, 1), Nanos(0), |_, _| ())
        .unwrap();
    assert_eq!(bench.manager.add_queue(ue, &own), Err(TmError::ShapersFull));
    assert_eq!(
        bench
            .manager
            .add_node(node(Some(NodeId(5)), Shaper::UNLIMITED, 1)),
        Err(TmError::NoNode(NodeId(5)))
    );
    assert_eq!(bench.manager.remove_node(port), Err(TmError::InUse(port)));
    bench
        .manager
        .add_node(node(Some(port), Shaper::UNLIMITED, 1))
        .unwrap();
    assert_eq!(
        bench.manager.add_node(node(None, Shaper::UNLIMITED, 1)),
        Err(TmError::NodesFull)
    );
    for _ in 0..4 {
        bench.send(queue(ue, 0), 100).unwrap();
    }
    assert_eq!(bench.send(queue(other, 0), 100), Err(LossReason::PoolFull));
    assert_eq!(bench.send(queue(ue, 1), 100), Err(LossReason::NoQueue));
    assert_eq!(bench.send(queue(ue, 0), 0), Err(LossReason::Length));
    assert_eq!(bench.send(queue(ue, 0), LARGEST + 1), Err(LossReason::Length));
    let error = Manager::new(Limits { ues: 0, ..limits }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "ues of a traffic manager is 0: 1 to 16777216 are allowed"
    );
}

#[test]
fn what_a_queue_has_counted_stays_when_its_ue_gets_more() {
    let mut bench = Bench::new(Limits::new(4, 32, 16), Shaper::UNLIMITED);
    let queue = QueueSpec::new(Class::new(0), 1_000);
    // Another's queue is beside the first one: it cannot grow where it is.
    let [first, _] = [0, 1].map(|_| bench.ue(bench.port, Shaper::UNLIMITED, &[queue]));
    let id = QueueId { ue: first, place: 0 };
    for expected in [Ok(()), Err(LossReason::QueueFull)] {
        assert_eq!(bench.send(id, 900).map(drop), expected);
    }
    for _ in 1..8 {
        bench.manager.add_queue(first, &queue).unwrap();
    }
    let view = bench.manager.queue(id, Nanos(bench.now)).unwrap();
    assert_eq!((view.packets, view.drops[LossReason::QueueFull as usize]), (1, 1));
}

#[test]
fn a_queue_is_where_its_line_says_until_its_ue_gets_more() {
    let mut bench = Bench::new(Limits::new(4, 32, 16), Shaper::UNLIMITED);
    let spec = QueueSpec::new(Class::new(0), 5_000);
    // Another's queue is beside the first one: it cannot grow where it is.
    let [first, _] = [0, 1].map(|_| bench.ue(bench.port, Shaper::UNLIMITED, &[spec]));
    let id = queue(first, 0);
    let before = bench.manager.line_of(id).unwrap();
    assert_eq!(bench.manager.queue_at(before), Some(id));
    assert_eq!(bench.send_at(before, 100), Ok(()));
    bench.manager.add_queue(first, &spec).unwrap();
    let after = bench.manager.line_of(id).unwrap();
    assert_eq!(bench.send_at(before, 101), Err(LossReason::NoQueue));
    assert_eq!(bench.manager.queue_at(before), None);
    assert_eq!(bench.send_at(after, 102), Ok(()));
    assert_eq!(bench.send_at(after, LARGEST + 1), Err(LossReason::Length));
    let left = [0; 3].map(|_| bench.next().map(|of| (of.queue, of.octets)));
    assert_eq!(left, [Some((id, 100)), Some((id, 102)), None]);
    bench
        .manager
        .remove_ue(first, Nanos(bench.now), |_, _| ())
        .unwrap();
    for line in [after, QueueLine(u32::MAX)] {
        assert_eq!(bench.send_at(line, 100), Err(LossReason::NoQueue));
        assert_eq!(bench.manager.queue_at(line), None);
    }
}

#[test]
fn a_ue_is_served_in_all_of_its_classes_one_after_another() {
    let mut bench = Bench::new(Limits::new(4, 8, 64), Shaper::UNLIMITED);
    let specs = [5, 1, 3].map(|class| QueueSpec::new(Class::new(class), 1 << 16));
    let ues = [0; 2].map(|_| bench.ue(bench.port, Shaper::UNLIMITED, &specs));
    for ue in ues {
        (0..3).for_each(|place| bench.fill(queue(ue, place), 2, LARGEST));
    }
    let left: Vec<_> = std::iter::from_fn(|| bench.next()).collect();
    let places: Vec<_> = left.iter().map(|of| of.queue.place).collect();
    assert_eq!(places, [1, 1, 1, 1, 2, 2, 2, 2, 0, 0, 0, 0]);
    let of_first = left
        .chunks(2)
        .map(|pair| pair.iter().filter(|of| of.queue.ue == ues[0]).count());
    assert!(of_first.eq([1; 6]), "UEs take turns in each class");
}

/// What each node has sent and who waits for it, by node.
fn demands(manager: &mut Manager) -> Vec<(NodeId, u64, Option<u32>)> {
    let mut all = Vec::new();
    manager.take_demands(|node, demand| all.push((node, demand.octets, demand.waiting)));
    all
}

/// In whatever order packets of several classes come, a UE that waits counts once.
#[test]
fn a_ue_that_waits_counts_once_for_all_of_its_classes() {
    let mut bench = Bench::new(Limits::new(16, 16, 1_024), Shaper::UNLIMITED);
    let slow = bench
        .manager
        .add_node(node(Some(bench.port), shaper(8, 3_000), 1))
        .unwrap();
    let specs = [1, 5].map(|class| QueueSpec::new(Class::new(class), 1 << 20));
    let ues = [(); 3].map(|()| bench.ue(slow, Shaper::UNLIMITED, &specs));
    bench.fill(queue(ues[0], 0), 20, 1_000);
    while bench.next().is_some() {}
    for (ue, places) in [(ues[1], [0, 1]), (ues[2], [1, 0])] {
        places
            .into_iter()
            .for_each(|place| bench.fill(queue(ue, place), 2, 1_000));
    }
    let waiting = |bench: &mut Bench| demands(&mut bench.manager)[usize::from(slow.0)].2;
    assert_eq!(waiting(&mut bench), Some(3));
    // One that is removed is forgotten; what all others have leaves.
    bench
        .manager
        .remove_ue(ues[0], Nanos(bench.now), |_, _| ())
        .unwrap();
    bench
        .manager
        .set_node_rate(slow, Shaper::UNLIMITED, Nanos(bench.now))
        .unwrap();
    bench.now += 1_000_000_000;
    while bench.next().is_some() {}
    let twice = [(); 2].map(|()| waiting(&mut bench));
    assert!(twice[1].is_none_or(|ues| ues == 0), "{twice:?}");
}

#[test]
fn a_node_tells_what_it_has_sent_and_how_many_ues_its_shaper_keeps_waiting() {
    let mut bench = Bench::new(Limits::new(16, 16, 1_024), Shaper::UNLIMITED);
    let port = bench.port;
    let slow = bench
        .manager
        .add_node(node(Some(port), shaper(8_000, 3_000), 1))
        .unwrap();
    let below = bench
        .manager
        .add_node(node(Some(slow), Shaper::UNLIMITED, 1))
        .unwrap();
    let free = bench
        .manager
        .add_node(node(Some(port), Shaper::UNLIMITED, 1))
        .unwrap();
    let spec = [QueueSpec::new(Class::new(3), 1 << 20)];
    let ues = [slow, below, below, free].map(|node| bench.ue(node, Shaper::UNLIMITED, &spec));
    // One that its own shaper keeps waiting asks nothing of the node.
    let slower = bench.ue(below, shaper(8, 1_518), &spec);
    for ue in ues.into_iter().chain([slower]) {
        bench.fill(queue(ue, 0), 20, 1_000);
    }
    let mut left = std::collections::HashMap::new();
    for _ in 0..10 {
        bench.now += 1_000_000;
        while let Some(departure) = bench.next() {
            *left.entry(departure.queue.ue).or_insert(0) += u64::from(departure.octets);
        }
    }
    let of = |ues: &[UeId]| {
        ues.iter()
            .map(|ue| left.get(ue).copied().unwrap_or(0))
            .sum::<u64>()
    };
    let all = [ues[0], ues[1], ues[2], ues[3], slower];
    assert_eq!(of(&[ues[3]]), 20_000, "nothing held it");
    assert_eq!(of(&[slower]), 1_000);
    assert_eq!(
        demands(&mut bench.manager),
        [
            (port, of(&all), None),
            (slow, of(&[ues[0], ues[1], ues[2], slower]), Some(3)),
            (below, of(&[ues[1], ues[2], slower]), None),
            (free, 20_000, None),
        ]
    );
    let taken = [
        (port, 0, None),
        (slow, 0, Some(3)),
        (below, 0, None),
        (free, 0, None),
    ];
    assert_eq!(
        demands(&mut bench.manager),
        taken,
        "it waits, whatever it has sent"
    );
}
