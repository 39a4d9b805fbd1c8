//! Queues before ports that move with their session from worker to worker: order, rates and counts, and what becomes of
//! them where a session ends on the way.

use crate::common;

use std::time::Duration;

use flow::{Bucket, PortId, WorkerId};
use packet::{DropReason, Teid};
use rules::Predefined;
use rules::image::{ImmediateActions, MeterShare, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{Content, FarId, OuterHeaderCreation, PdrId, PdrUpdate, Precedence, PredefinedRule};
use rules::testing::GNB;
use worker::mem::MemBuf;
use worker::{Command, EgressLimits, WorkerSelectionChange};

use super::egress_queues::{Case, DEFAULT, FREE, SESSION, network, offer, packet, rules};
use common::one_session::hand_over;
use common::{World, frame};

/// Two workers, of which the first has a session whose Session-AMBR is 100 kbit/s: a packet of 1,000 octets in 80 ms.
pub fn two_workers() -> (World, Box<SessionImage>) {
    two_workers_with(&FREE)
}

fn two_workers_with(case: &Case) -> (World, Box<SessionImage>) {
    let mut world = World::with(network(case), 2, |config| {
        config.egress = EgressLimits {
            packets: 100,
            octets: 1 << 20,
            queues: 64,
        };
    });
    select(&mut world, WorkerId(0));
    let image = world.install(1, rules(100, None));
    (world, image)
}

/// All buckets are this worker's from now on.
pub fn select(world: &mut World, owner: WorkerId) {
    for bucket in Bucket::all() {
        world.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
    }
}

/// The image of a session that moves.
pub fn shared(image: &SessionImage, share: MeterShare) -> Box<SessionImage> {
    Box::new(image.clone().with_share(share))
}

/// A worker has this image of the session from now on.
pub fn replace(world: &mut World, worker: usize, image: Box<SessionImage>) {
    let change = SessionChange::Replace(image, ImmediateActions::default());
    world.apply(worker, change).expect("it is there");
}

/// The second worker has the session, too, and gets its packets.
pub fn begin(world: &mut World, image: &SessionImage) {
    replace(world, 0, shared(image, MeterShare::Leaving));
    let arriving = SessionChange::Install(shared(image, MeterShare::Arriving));
    world.apply(1, arriving).expect("there is room");
    select(world, WorkerId(1));
}

/// A worker has the session no more.
pub fn remove(world: &mut World, worker: usize) -> UsageSnapshot {
    let usage = world
        .apply(worker, SessionChange::Remove(SESSION))
        .expect("it is there");
    usage.unwrap_or_default()
}

fn queued(world: &World) -> [u64; 2] {
    [0, 1].map(|worker| world.workers[worker].stats().queued)
}

/// Numbered packets: by their length.
fn numbered(numbers: std::ops::Range<usize>) -> impl Iterator<Item = Vec<u8>> {
    numbers.map(|number| packet(DEFAULT, 900 + number))
}

/// The numbers of packets that leave.
fn numbers(out: &[(PortId, Vec<u8>)]) -> Vec<usize> {
    out.iter().map(|(_, frame)| frame.len() - 58 - 28 - 900).collect()
}

fn pass(world: &mut World, time: Duration) -> Vec<usize> {
    let end = world.now + time;
    while world.now < end {
        world.poll();
    }
    numbers(&world.take())
}

#[test]
fn what_waits_moves_in_order_before_what_came_to_the_new_worker() {
    let (mut world, image) = two_workers();
    offer(&mut world, numbered(0..10));
    let mut left = numbers(&world.take());
    begin(&mut world, &image);
    offer(&mut world, numbered(10..20));
    left.extend(pass(&mut world, Duration::from_millis(200)));
    assert!(queued(&world)[0] > 5, "the old worker lets packets leave alone");
    assert_eq!(queued(&world)[1], 10);
    assert_eq!(
        world.forwarded_of(1).packets,
        [0, left.len() as u64],
        "what waits has not left"
    );
    let first = remove(&mut world, 0);
    assert_eq!(queued(&world)[0], 0);
    assert_eq!(
        first.counters[0].1.dl_packets,
        left.len() as u64,
        "what waits is not counted here"
    );
    replace(&mut world, 1, image);
    assert_eq!(
        world.query(1, SESSION).counters[0].1.dl_packets,
        20 - left.len() as u64
    );
    // The level stays: no second burst of 5 packets.
    let more = pass(&mut world, Duration::from_millis(400));
    assert!((4..=6).contains(&more.len()), "{more:?}");
    left.extend(more);
    assert_eq!(world.forwarded_of(1).packets, [0, left.len() as u64]);
    left.extend(pass(&mut world, Duration::from_secs(2)));
    assert_eq!(left, (0..20).collect::<Vec<_>>());
    world.assert_conserved();
    let octets = left.iter().map(|number| 28 + 900 + *number as u64).sum();
    let all = world.forwarded_of(1);
    assert_eq!(
        (all.packets, all.octets),
        ([0, 20], [0, octets]),
        "where they left"
    );
    let there = world.workers[1].group_totals()[1].packets[1];
    assert!((10..20).contains(&there), "{there}");
}

/// The session, whose downlink is billed as a content. Its port has a rate.
fn two_workers_that_bill(counters: [usize; 2]) -> (World, Box<SessionImage>) {
    let case = Case { port: 800, ..FREE };
    let mut world = World::with(network(&case), 2, |config| {
        config.egress = EgressLimits {
            packets: 100,
            octets: 1 << 20,
            queues: 64,
        };
        config.content_counters = counters[config.id.index()];
    });
    select(&mut world, WorkerId(0));
    let rule = PredefinedRule {
        precedence: Precedence(1),
        filters: Vec::new(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: Some(Content {
            name: "all".into(),
            rating_group: None,
            service_id: None,
        }),
    };
    let mut predefined = Predefined::default();
    predefined.add(b"billed", vec![rule]).expect("its name is new");
    let mut rules = rules(0, None);
    let update = PdrUpdate {
        activate: predefined.rulebase(b"billed").cloned().into_iter().collect(),
        ..PdrUpdate::new(PdrId(2))
    };
    rules.update_pdr(update).expect("it is there");
    rules.instantiate(&predefined);
    let image = world.install(1, rules);
    (world, image)
}

/// What a content's counter has counted of what waits goes along. So what is lost at the new worker is not billed, and
/// what has left is billed once.
#[test]
fn what_contents_have_counted_moves_with_what_waits() {
    let (mut world, image) = two_workers_that_bill([16, 16]);
    offer(&mut world, numbered(0..20));
    begin(&mut world, &image);
    let left = numbers(&world.take()).len() as u64;
    assert!((1..20).contains(&left), "{left}");
    assert_eq!(billed(remove(&mut world, 0)), left);
    replace(&mut world, 1, image);
    let more = pass(&mut world, Duration::from_millis(40)).len() as u64;
    assert!(more > 0 && left + more < 20, "{left} {more}");
    assert_eq!(queued(&world)[1], 20 - left - more);
    assert_eq!(billed(remove(&mut world, 1)), more);
    let sum = |worker: usize| {
        let totals = world.workers[worker].content_totals().iter();
        totals.map(|total| total.packets[1]).sum::<u64>()
    };
    assert_eq!([sum(0), sum(1)], [left, more]);
    world.assert_conserved();
}

/// A worker that has no counter for a content bills what comes with what else has none, at once.
#[test]
fn contents_without_a_counter_at_the_new_worker_are_billed_together() {
    let (mut world, image) = two_workers_that_bill([16, 0]);
    offer(&mut world, numbered(0..20));
    begin(&mut world, &image);
    let left = numbers(&world.take()).len() as u64;
    assert_eq!(billed(remove(&mut world, 0)), left);
    let whole = SessionChange::Replace(image, ImmediateActions::default());
    let usage = world.apply(1, whole).expect("it is there");
    assert_eq!(billed(usage.expect("something is billed")), 20 - left);
    pass(&mut world, Duration::from_secs(2));
    assert_eq!(billed(remove(&mut world, 1)), 0);
    world.assert_conserved();
}

/// Downlink packets of contents.
fn billed(usage: UsageSnapshot) -> u64 {
    usage.contents.iter().map(|one| one.count.dl_packets).sum()
}

#[test]
fn what_is_held_back_has_room_for_one_queue_and_all_have_the_room_together() {
    for (octets, most) in [(10_000, 10), (1 << 20, 100)] {
        let (mut world, image) = two_workers_with(&Case { octets, ..FREE });
        begin(&mut world, &image);
        for _ in 0..5 {
            offer(&mut world, (0..40).map(|_| packet(DEFAULT, 972)));
        }
        assert_eq!(queued(&world), [0, most]);
        assert_eq!(world.drops()[DropReason::EgressQueueFull.index()], 200 - most);
        remove(&mut world, 0);
        replace(&mut world, 1, image);
        let left = pass(&mut world, Duration::from_secs(10));
        assert_eq!(left.len() as u64, most);
        assert_eq!(world.query(1, SESSION).counters[0].1.dl_packets, most);
        world.assert_conserved();
    }
}

#[test]
fn what_is_lost_after_a_move_is_credited_back_there() {
    let (mut world, image) = two_workers();
    offer(&mut world, numbered(0..60));
    let left = world.take().len() as u64;
    begin(&mut world, &image);
    // Both workers have room for 100 packets.
    offer(&mut world, numbered(0..60));
    let first = remove(&mut world, 0).counters[0].1.dl_packets;
    replace(&mut world, 1, image);
    let lost = world.drops()[DropReason::EgressQueueFull.index()];
    assert_eq!(lost, 120 - left - 100);
    assert_eq!(
        first + world.query(1, SESSION).counters[0].1.dl_packets,
        120 - lost
    );
    let last = remove(&mut world, 1).counters[0].1.dl_packets;
    assert_eq!(first + last, left + world.take().len() as u64);
    world.assert_conserved();
}

#[test]
fn a_session_that_ends_on_the_way_loses_what_waits() {
    for ends_first in [0, 1] {
        let (mut world, image) = two_workers();
        offer(&mut world, numbered(0..20));
        let left = world.take().len() as u64;
        begin(&mut world, &image);
        offer(&mut world, numbered(20..30));
        let mut counted = remove(&mut world, ends_first).counters[0].1.dl_packets;
        counted += remove(&mut world, 1 - ends_first)
            .counters
            .first()
            .map_or(0, |one| one.1.dl_packets);
        world.poll();
        assert_eq!(counted, left + world.take().len() as u64);
        assert_eq!(queued(&world), [0, 0]);
        assert_eq!(world.drops()[DropReason::EgressReleased.index()], 30 - counted);
        assert!(
            world
                .workers
                .iter()
                .all(|worker| worker.egress_counts().queues == 0)
        );
        world.assert_conserved();
    }
}

#[test]
fn a_move_that_fails_brings_back_what_was_held() {
    let (mut world, image) = two_workers();
    offer(&mut world, numbered(0..10));
    let mut left = numbers(&world.take());
    begin(&mut world, &image);
    offer(&mut world, numbered(10..15));
    assert_eq!(queued(&world)[1], 5);
    select(&mut world, WorkerId(0));
    remove(&mut world, 1);
    replace(&mut world, 0, image);
    assert_eq!(queued(&world)[1], 0);
    left.extend(pass(&mut world, Duration::from_secs(2)));
    assert_eq!(left, (0..15).collect::<Vec<_>>());
    assert_eq!(world.query(0, SESSION).counters[0].1.dl_packets, 15);
    world.assert_conserved();
}

/// What has left its queue before its port takes it is in one line with the End Marker of its tunnel, which it leaves
/// before also at another worker.
#[test]
fn what_stands_before_a_port_moves_with_its_end_marker() {
    let (mut world, image) = two_workers();
    let wire = world.wires.from(PortId(0)).clone();
    while wire.push(MemBuf::new(&frame(0, &[0; 40]))).is_ok() {}
    offer(&mut world, numbered(0..10));
    let immediate = ImmediateActions {
        end_markers: vec![FarId(2)],
        ..ImmediateActions::default()
    };
    let image = world.change(&image, immediate, |rules| {
        hand_over(rules, OuterHeaderCreation::gtpu_ipv4(Teid(99), GNB));
    });
    begin(&mut world, &image);
    offer(&mut world, numbered(10..12));
    remove(&mut world, 0);
    assert_eq!(queued(&world), [0, 13], "the End Marker, too");
    replace(&mut world, 1, image);
    world.take();
    (0..10_000).for_each(|_| world.poll());
    let out = world.take();
    let kinds: Vec<u8> = out.iter().map(|(_, frame)| frame[43]).collect();
    assert_eq!(kinds[..11], [&[255; 10][..], &[254]].concat());
    let data: Vec<_> = out
        .iter()
        .filter(|(_, frame)| frame[43] == 255)
        .cloned()
        .collect();
    assert_eq!(numbers(&data), (0..12).collect::<Vec<_>>());
    world.assert_conserved();
}
