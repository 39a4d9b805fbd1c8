//! The one-thread world: Control, workers, SMF, gNBs and data network polled in turn on simulated time. What threads
//! and DPDK add in the daemon is only a shell around this.

use crate::support;

use std::time::Duration;

use flow::WorkerId;
use session::Random;
use sim::Shard;
use sim::report::{Report, Totals};
use sim::smf::State;
use worker::{Stats, Worker};

use support::*;

/// Every packet arrives where it belongs, and the URRs report every octet of them.
fn crosses(workers: u16) -> World {
    const SESSIONS: u32 = 50;
    let mut world = World::new(workers, SESSIONS, 42);
    world.smf.start(world.now);
    world.until(State::Established);
    assert_eq!(world.smf.progress().up, SESSIONS);

    let shards = world.shards();
    let totals = world.traffic(shards, Duration::from_millis(100));
    let report = Report::new(SESSIONS, Duration::from_millis(100), &totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000, "{report}");
        assert_eq!((direction.lost, direction.counts.reordered), (0, 0), "{report}");
    }
    assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    assert_eq!(
        world
            .workers
            .iter()
            .map(|worker| worker.stats().unaccounted())
            .sum::<i64>(),
        0
    );

    assert_exact_end(&mut world, &totals);
    world
}

#[test]
fn packets_cross_one_worker_both_ways() {
    let world = crosses(1);
    assert_eq!(world.sum(|stats| stats.handed_over), 0);
    assert!(
        world.sum(|stats| stats.hits) > 50 * world.sum(|stats| stats.misses),
        "flows are decided once"
    );
}

#[test]
fn packets_that_land_at_the_wrong_worker_are_handed_over() {
    let world = crosses(2);
    let (handed_over, received) = (world.sum(|stats| stats.handed_over), world.sum(Stats::rx));
    assert!(
        handed_over * 3 > received && handed_over * 3 < received * 2,
        "{handed_over} of {received}"
    );
}

/// Sessions of each worker.
fn owned(world: &World) -> Vec<usize> {
    world.workers.iter().map(Worker::sessions).collect()
}

/// Deletes all sessions: the URRs report every octet that arrived, and nothing is left.
fn assert_exact_end(world: &mut World, totals: &Totals) {
    assert_eq!(world.sum(|stats| stats.drops.iter().sum()), 0);
    world.smf.release(world.now);
    world.until(State::Released);
    let usage = world.smf.progress().usage;
    assert_eq!(usage.uplink_octets, totals.uplink.received_octets);
    assert_eq!(usage.downlink_octets, totals.downlink.received_octets);
    let left = world.control.endpoint().sessions().count();
    assert_eq!(
        (left.sessions, left.tunnels, left.addresses, left.ops),
        (0, 0, 0, 0)
    );
    assert_eq!(owned(world).iter().sum::<usize>(), 0);
}

#[test]
fn buckets_move_under_traffic_and_nothing_is_lost() {
    const SESSIONS: u32 = 50;
    let mut world = World::new(3, SESSIONS, 43);
    world.smf.start(world.now);
    world.until(State::Established);
    let sessions = world.control.endpoint().sessions();
    let buckets: Vec<_> = sessions.iter().map(|session| session.bucket()).collect();
    let (mut random, mut moved) = (Random::from_number(9), Vec::new());
    let time = Duration::from_millis(100);
    let shards = world.shards();
    let totals = world.traffic_with(shards, time, |world| {
        let bucket = buckets[random.next_u32() as usize % buckets.len()];
        let to = WorkerId((random.next_u32() % 3) as u16);
        // Refused while another one is on its way.
        let _ = world.control.move_bucket(world.now, bucket, to);
        moved.extend(std::iter::from_fn(|| world.control.poll_moved()));
    });
    assert!(moved.len() > 100 && moved.iter().all(|moved| moved.result.is_ok()));
    let report = Report::new(SESSIONS, time, &totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000 && direction.lost == 0, "{report}");
    }
    assert_exact_end(&mut world, &totals);
}

#[test]
fn the_balancer_evens_out_the_workers_under_traffic() {
    let rebalance = ", rebalance: {ratio_percent: 110, after_s: 0}";
    let mut world = World::with(3, 60, 44, rebalance);
    world.smf.start(world.now);
    world.until(State::Established);
    // An operator has emptied the first worker.
    let sessions = world.control.endpoint().sessions();
    let buckets: Vec<_> = sessions.iter().map(|session| session.bucket()).collect();
    for bucket in buckets {
        while world.control.owner(bucket) == WorkerId(0) {
            let _ = world.control.move_bucket(world.now, bucket, WorkerId(1));
            world.step();
        }
    }
    let uneven = owned(&world);
    let shards = world.shards();
    let totals = world.traffic(shards, Duration::from_millis(2_500));
    let even = owned(&world);
    assert!(
        uneven[0] < 5 && even.iter().all(|owned| (18..=22).contains(owned)),
        "{uneven:?} {even:?}"
    );
    assert_exact_end(&mut world, &totals);
}

#[test]
fn the_same_seed_makes_the_same_world() {
    let run = || {
        let mut world = World::new(2, 10, 7);
        world.smf.start(world.now);
        world.until(State::Established);
        world
            .smf
            .sessions()
            .iter()
            .map(|session| (session.up_seid, session.uplink_teid))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

/// The neighbour entry of a gNB that no session sends to any more is freed; that of the configured gateway stays.
#[test]
fn next_hops_go_with_the_sessions_that_named_them() {
    let mut world = World::new(2, 20, 11);
    let leap = |world: &mut World| {
        for _ in 0..4 {
            world.now = world.now + Duration::from_secs(5);
            world.control.poll(world.now);
            world.step();
        }
        world.control.neighbours(world.now)
    };
    world.smf.start(world.now);
    world.until(State::Established);
    assert_eq!(leap(&mut world), 2, "the gateway and the gNB");
    world.smf.release(world.now);
    world.until(State::Released);
    assert_eq!(leap(&mut world), 1, "the gateway");
}

/// Peers that sessions send to are supervised by Echo Requests; when one does not respond, its SMF receives a report.
#[test]
fn paths_are_asked_by_echo_and_a_silent_one_is_reported() {
    let mut world = World::with(1, 4, 44, "}\ngtpu: {echo: {interval_s: 60, t3_s: 1, n3: 2}");
    world.smf.start(world.now);
    world.until(State::Established);
    let mut shards = world.shards();
    let answering = |world: &mut World, shards: &mut Vec<Shard>| {
        for _ in 0..2_000 {
            world.step();
            let mut port = Port {
                wires: &world.wires,
                worker: WorkerId(0),
                routers: &mut world.routers,
                now: world.now,
            };
            shards
                .iter_mut()
                .for_each(|shard| shard.poll(world.now, &mut port));
        }
    };
    answering(&mut world, &mut shards);
    for round in 1..=2 {
        world.now = world.now + Duration::from_secs(60);
        answering(&mut world, &mut shards);
        let asked: u64 = shards
            .iter()
            .map(|shard| shard.totals().events.echo_requests)
            .sum();
        assert_eq!(asked, round);
    }
    assert_eq!(world.control.endpoint().counters().node_reports, 0);
    world.now = world.now + Duration::from_secs(60);
    for _ in 0..3 {
        world.step();
        world.now = world.now + Duration::from_secs(1);
    }
    world.step();
    assert_eq!(world.control.endpoint().counters().node_reports, 1);
}
