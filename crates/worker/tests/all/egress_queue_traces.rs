//! Traces of packets that wait in queues before ports: a packet is reported when it has left its queue.

use crate::common;

use std::time::Duration;

use flow::WorkerId;
use packet::DropReason;
use rtrb::Consumer;
use rules::image::SessionChange;
use rules::network::QueueManagement;
use worker::{
    EgressLimits, QueueEnd, TraceEnd, TraceFilter, TraceItem, TraceTerms, Traced, TracedEnd, TracedQueueing,
};

use super::egress_queue_moves::{begin, two_workers};
use super::egress_queues::{Case, DEFAULT, FREE, SESSION, VOICE, network, offer, packet, rules, waiting};
use super::tracing::{TERMS, order};
use common::World;
use common::one_session::uplink;

/// A session whose Session-AMBR is 1 Mbit/s: a packet of 1,000 octets in 8 ms.
fn world(case: &Case) -> World {
    let mut world = World::with(network(case), 1, |config| {
        config.egress = EgressLimits {
            packets: 1_024,
            octets: 1 << 20,
            queues: 64,
        };
    });
    world.install(1, rules(1_000, None));
    world
}

/// What was reported since the last call, and the end of the request.
fn reported(from: &mut Consumer<TraceItem>) -> (Vec<Traced>, Option<TraceEnd>) {
    let (mut packets, mut end) = (Vec::new(), None);
    while let Ok(item) = from.pop() {
        match item {
            TraceItem::Packet(traced) => packets.push(*traced),
            TraceItem::End(of) => end = Some(of),
        }
    }
    (packets, end)
}

fn pass(world: &mut World, millis: u64) {
    let end = world.now + Duration::from_millis(millis);
    while world.now < end {
        world.poll();
    }
}

fn queueing(traced: &Traced) -> TracedQueueing {
    traced.queueing.expect("it waited")
}

fn is_sent(traced: &Traced) -> bool {
    matches!(traced.end, TracedEnd::Sent { .. })
}

#[test]
fn a_packet_is_reported_when_it_leaves_its_queue() {
    let mut world = world(&FREE);
    let mut from = order(&mut world, TERMS, 64);
    offer(&mut world, (0..8).map(|_| packet(DEFAULT, 972)));
    // Those of the burst leave at once.
    let (at_once, _) = reported(&mut from);
    assert_eq!(at_once.len(), 5);
    assert!(at_once.iter().all(is_sent));
    assert_eq!(queueing(&at_once[0]).end, QueueEnd::Left { is_marked: false });
    assert_eq!((waiting(&world), queueing(&at_once[0]).before), (3, 0));
    pass(&mut world, 30);
    let (later, _) = reported(&mut from);
    let waits: Vec<_> = later.iter().map(queueing).collect();
    assert_eq!(
        waits.iter().map(|of| of.before).collect::<Vec<_>>(),
        [5_000, 6_000, 7_000]
    );
    // One every 8 ms.
    for pair in waits.windows(2) {
        let between = pair[1].waited - pair[0].waited;
        assert!(between.as_micros().abs_diff(8_000) < 100, "{waits:?}");
    }
    let left = (Some(1), QueueEnd::Left { is_marked: false });
    assert!(waits.iter().all(|of| (of.class, of.end) == left), "{waits:?}");
    assert!((1..8).contains(&waits[0].waited.as_millis()), "{waits:?}");
    // A packet of another class, and one that does not wait.
    offer(&mut world, [packet(VOICE, 972)]);
    let (voice, _) = reported(&mut from);
    assert_eq!(queueing(&voice[0]).class, Some(0));
    world.send(0, &uplink());
    let (uplink, _) = reported(&mut from);
    assert!(uplink[0].queueing.is_none() && is_sent(&uplink[0]));
    world.assert_conserved();
}

#[test]
fn what_is_lost_in_a_queue_is_reported_with_its_reason() {
    let case = Case {
        octets: 7_000,
        ..FREE
    };
    let mut world = world(&case);
    let mut from = order(&mut world, TERMS, 64);
    offer(&mut world, (0..16).map(|_| packet(DEFAULT, 972)));
    let ends = |packets: &[Traced]| packets.iter().map(|one| queueing(one).end).collect::<Vec<_>>();
    let (at_once, _) = reported(&mut from);
    let full = QueueEnd::Lost(DropReason::EgressQueueFull);
    assert_eq!(ends(&at_once).iter().filter(|end| **end == full).count(), 9);
    assert_eq!(world.drops()[DropReason::EgressQueueFull.index()], 9);
    // The session ends.
    world
        .apply(0, SessionChange::Remove(SESSION))
        .expect("it is there");
    world.poll();
    let (rest, _) = reported(&mut from);
    assert_eq!(ends(&rest), [QueueEnd::Lost(DropReason::EgressReleased); 2]);
    world.assert_conserved();
}

#[test]
fn marks_and_delays_of_active_queue_management_are_reported() {
    for (ecn, wanted) in [
        (2, QueueEnd::Left { is_marked: true }),
        (0, QueueEnd::Lost(DropReason::EgressDelay)),
    ] {
        let case = Case {
            management: QueueManagement::CoDel,
            ..FREE
        };
        let mut world = world(&case);
        let mut from = order(&mut world, TERMS, 4_096);
        let mut all = Vec::new();
        for _ in 0..200 {
            let mut packet = packet(DEFAULT, 972);
            packet::ipv4::set_ecn(&mut packet, ecn).expect("a header");
            offer(&mut world, [packet.clone(), packet]);
            pass(&mut world, 10);
            all.extend(reported(&mut from).0);
        }
        let found = all.iter().filter(|one| queueing(one).end == wanted);
        let found: Vec<_> = found.collect();
        assert!(found.len() > 3, "ECN {ecn}: {}", found.len());
        assert!(
            found
                .iter()
                .all(|one| queueing(one).waited > Duration::from_millis(5))
        );
        let dropped = world.drops()[DropReason::EgressDelay.index()];
        let reported = all.iter().map(|one| queueing(one).end);
        let lost = reported.filter(|end| *end == QueueEnd::Lost(DropReason::EgressDelay));
        assert_eq!(lost.count() as u64, dropped);
    }
}

#[test]
fn a_request_ends_when_its_packets_have_left_or_its_time_is_over() {
    // By the number of packets.
    let mut world = world(&FREE);
    let mut from = order(&mut world, TraceTerms { count: 8, ..TERMS }, 64);
    offer(&mut world, (0..20).map(|_| packet(DEFAULT, 972)));
    let (at_once, end) = reported(&mut from);
    assert_eq!((at_once.len(), end), (5, None));
    pass(&mut world, 30);
    let (later, end) = reported(&mut from);
    assert_eq!((later.len(), end.map(|end| end.wanted)), (3, Some(8)));
    assert!(
        later
            .iter()
            .all(|one| queueing(one).end == QueueEnd::Left { is_marked: false })
    );
    pass(&mut world, 200);
    // By time: what waits still is said to.
    let lasts = Duration::from_millis(5);
    let mut from = order(&mut world, TraceTerms { lasts, ..TERMS }, 64);
    offer(&mut world, (0..8).map(|_| packet(DEFAULT, 972)));
    pass(&mut world, 7);
    let (all, end) = reported(&mut from);
    let waits = all.iter().filter(|one| queueing(one).end == QueueEnd::Waits);
    assert_eq!(
        (all.len(), waits.count(), end.map(|end| end.wanted)),
        (8, 2, Some(8))
    );
    assert!(queueing(&all[7]).waited >= lasts);
    // Who asked has gone.
    let from = order(&mut world, TERMS, 64);
    offer(&mut world, (0..8).map(|_| packet(DEFAULT, 972)));
    drop(from);
    pass(&mut world, 200);
    assert_eq!(waiting(&world), 0);
    world.assert_conserved();
}

#[test]
fn who_asks_next_has_nothing_of_one_that_has_gone() {
    let mut world = world(&FREE);
    let from = order(&mut world, TERMS, 64);
    offer(&mut world, (0..8).map(|_| packet(DEFAULT, 972)));
    drop(from);
    world.poll();
    let mut next = order(&mut world, TraceTerms { count: 2, ..TERMS }, 64);
    pass(&mut world, 60);
    let (packets, end) = reported(&mut next);
    assert!(packets.is_empty() && end.is_none());
    offer(&mut world, (0..3).map(|_| packet(DEFAULT, 972)));
    pass(&mut world, 60);
    let (packets, end) = reported(&mut next);
    assert_eq!((packets.len(), end.map(|end| end.wanted)), (2, Some(2)));
}

#[test]
fn packets_that_wait_have_room_kept_for_their_reports() {
    let mut world = world(&FREE);
    let mut from = order(&mut world, TERMS, 8);
    offer(&mut world, (0..6).map(|_| packet(DEFAULT, 972)));
    offer(&mut world, (0..30).map(|_| packet(DEFAULT, 972)));
    offer(&mut world, (0..30).map(|_| packet(DEFAULT, 972)));
    pass(&mut world, 1_000);
    assert!(reported(&mut from).0.len() >= 8);
    offer(&mut world, [packet(DEFAULT, 972)]);
    pass(&mut world, 20);
    assert_eq!(
        reported(&mut from).0.len(),
        1,
        "they have left, and there is room"
    );
}

#[test]
fn a_packet_that_several_ask_for_is_reported_to_each() {
    let mut world = world(&FREE);
    let filter = TraceFilter {
        seid: Some(2),
        ..TERMS.filter
    };
    let mut all = [TERMS, TraceTerms { filter, ..TERMS }].map(|terms| order(&mut world, terms, 64));
    offer(&mut world, (0..8).map(|_| packet(DEFAULT, 972)));
    pass(&mut world, 40);
    for from in &mut all {
        assert_eq!(reported(from).0.len(), 8);
    }
}

#[test]
fn a_packet_that_moves_with_its_session_is_said_to() {
    let (mut world, image) = two_workers();
    let mut from = order(&mut world, TERMS, 64);
    offer(&mut world, (0..10).map(|_| packet(DEFAULT, 972)));
    let (at_once, _) = reported(&mut from);
    begin(&mut world, &image);
    world
        .apply(0, SessionChange::Remove(SESSION))
        .expect("it is there");
    world.poll();
    let (moved, _) = reported(&mut from);
    assert!(at_once.len() < 10 && moved.len() == 10 - at_once.len());
    assert!(moved.iter().all(|one| queueing(one).end == QueueEnd::Moved));
    assert!(moved.iter().all(|one| one.worker == WorkerId(0)));
}
