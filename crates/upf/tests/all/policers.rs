//! Rates that the sessions of several workers share: together they pass what is configured, however uneven their load.

use crate::support;

use std::cell::RefCell;
use std::time::Duration;

use flow::meter::Rate;
use flow::{Direction, SessionIndex, WorkerId};
use sim::smf::State;
use upf::EgressPart;

use support::*;

/// Most of the sessions at the first worker, by moves of buckets.
fn crowd(world: &mut World) {
    let sessions = world.control.endpoint().sessions();
    let buckets: Vec<_> = sessions.iter().map(|session| session.bucket()).collect();
    for bucket in buckets.iter().skip(buckets.len() / 8) {
        while world.control.owner(*bucket) != WorkerId(0) {
            let _ = world.control.move_bucket(world.now, *bucket, WorkerId(0));
            world.step();
        }
    }
}

/// Octets that each worker has forwarded, by direction.
fn forwarded(world: &World) -> Vec<[u64; 2]> {
    let of = |stats: &worker::Stats| Direction::BOTH.map(|way| stats.direction(way).forwarded.octets);
    world.workers.iter().map(|worker| of(worker.stats())).collect()
}

#[test]
fn workers_keep_a_common_rate_to_a_hundredth_with_uneven_load() {
    const SESSIONS: u32 = 48;
    // About half of what is offered.
    let rates = [500_000_u64, 1_400_000];
    let policers = format!(
        "}}\npolicers: [{{name: all, dnn: internet, uplink_kbit: {}, downlink_kbit: {}}}]\ngtpu: {{",
        rates[0], rates[1]
    );
    let mut world = World::with(3, SESSIONS, 45, &policers);
    world.smf.start(world.now);
    world.until(State::Established);
    crowd(&mut world);
    let counts: Vec<usize> = world.workers.iter().map(worker::Worker::sessions).collect();
    assert!(
        counts[0] > 4 * counts[1] && counts[1] + counts[2] > 0,
        "{counts:?}"
    );

    let [settle, window] = [500, 500].map(Duration::from_millis);
    let (begin, mut samples) = (world.now, Vec::new());
    let shards = world.shards();
    world.traffic_with(shards, settle + window, |world| {
        let after = [settle, settle + window][samples.len().min(1)];
        if samples.len() < 2 && world.now >= begin + after {
            samples.push(forwarded(world));
        }
    });
    let [before, after] = &samples[..] else {
        panic!("two samples")
    };
    for (direction, kbit) in Direction::BOTH.into_iter().zip(rates) {
        let way = direction as usize;
        let passed: Vec<u64> = before.iter().zip(after).map(|(a, b)| b[way] - a[way]).collect();
        let allowed = kbit * window.as_millis() as u64 / 8;
        let sum: u64 = passed.iter().sum();
        assert!(
            sum * 100 >= allowed * 99 && sum * 100 <= allowed * 101,
            "{sum} of {allowed}: {passed:?}"
        );
        assert!(passed[0] > 2 * (passed[1] + passed[2]), "{passed:?}");
    }
    assert!(world.sum(|stats| stats.dropped(packet::DropReason::MeterRed)) > 0);
}

/// Octets of IP packets that have left the queues of each worker.
fn left(world: &World) -> Vec<u64> {
    let of = |worker: &worker::Worker<_>| {
        let counts = worker.egress_counts();
        counts.priorities.iter().map(|class| class.departed_octets).sum()
    };
    world.workers.iter().map(of).collect()
}

/// What `count` says of half a second, half a second after traffic has begun: most of it to sessions of the first
/// worker, about twice as much as the rates here allow.
fn counted_of_uneven_load(world: &mut World, count: impl Fn(&World) -> Vec<u64>) -> Vec<u64> {
    world.smf.start(world.now);
    world.until(State::Established);
    if world.workers.len() > 1 {
        crowd(world);
    }
    let half = Duration::from_millis(500);
    let (begin, mut samples) = (world.now, Vec::new());
    let shards = world.shards_at(&[600_000 / world.workers.len() as u64]);
    world.traffic_with(shards, 2 * half, |world| {
        let after = half * (1 + samples.len() as u32);
        if samples.len() < 2 && world.now >= begin + after {
            samples.push(count(world));
        }
    });
    let passed = samples[0].iter().zip(&samples[1]).map(|(a, b)| b - a);
    passed.collect()
}

/// Holds what workers have sent in half a second against a rate, to a hundredth, and the first to most of it.
fn assert_kept(passed: &[u64], kbit: u64) {
    let (sum, allowed) = (passed.iter().sum::<u64>(), kbit * 500 / 8);
    assert!(
        sum * 100 >= allowed * 99 && sum * 100 <= allowed * 101,
        "{sum} of {allowed}: {passed:?}"
    );
    assert!(passed[0] > 2 * passed[1..].iter().sum::<u64>(), "{passed:?}");
}

#[test]
fn queues_of_workers_keep_a_common_rate_to_a_hundredth_with_uneven_load() {
    // What one direction does not keep would be above the sum of both.
    let policers =
        "policers: [{name: all, dnn: internet, uplink_kbit: 500000, downlink_kbit: 1400000, shape: true}]\n";
    for (workers, seed) in [(3, 48), (1, 49)] {
        let mut world = World::queueing(workers, 48, seed, ("{}", policers));
        assert_kept(&counted_of_uneven_load(&mut world, left), 1_900_000);
        assert_eq!(world.sum(|stats| stats.dropped(packet::DropReason::MeterRed)), 0);
        assert!(world.sum(|stats| stats.dropped(packet::DropReason::EgressQueueFull)) > 0);
    }
}

#[test]
fn queues_of_workers_keep_the_rate_of_an_instance_with_uneven_load() {
    let mut world = World::queueing(3, 48, 50, ("{kbit: 1400000}", ""));
    let shown = RefCell::new(Vec::new());
    // Frames have the headers that the rate counts.
    let frames = |world: &World| {
        *shown.borrow_mut() = world.control.egress_shapers();
        let sent = |worker: &worker::Worker<_>| worker.stats().ports[0].tx.octets;
        world.workers.iter().map(sent).collect()
    };
    assert_kept(&counted_of_uneven_load(&mut world, frames), 1_400_000);
    // What is shown: nearly the whole rate is sent, by workers whose parts are the whole.
    let shown = shown.into_inner();
    let instance = shown.iter().find(|one| one.rate == Rate::from_kbit(1_400_000));
    let parts = &instance.expect("it is shown").parts;
    let sum = |of: fn(&EgressPart) -> u64| parts.iter().map(of).sum::<u64>();
    assert_eq!(sum(|part| part.kbit), 1_400_000);
    assert!(
        (1_300_000..1_500_000).contains(&sum(|part| part.sends)),
        "{parts:?}"
    );
    assert!(sum(|part| part.waiting) > 0, "{parts:?}");
}

#[test]
fn one_worker_keeps_the_whole_rate() {
    let policers = "}\npolicers: [{name: all, dnn: internet, downlink_kbit: 400000}]\ngtpu: {".to_owned();
    let mut world = World::with(1, 8, 46, &policers);
    world.smf.start(world.now);
    world.until(State::Established);
    let (begin, mut samples) = (world.now, Vec::new());
    let [settle, window] = [200, 300].map(Duration::from_millis);
    let shards = world.shards();
    world.traffic_with(shards, settle + window, |world| {
        let after = [settle, settle + window][samples.len().min(1)];
        if samples.len() < 2 && world.now >= begin + after {
            samples.push(forwarded(world)[0][1]);
        }
    });
    let passed = samples[1] - samples[0];
    let allowed = 400_000 * window.as_millis() as u64 / 8;
    assert!(
        passed * 1_000 >= allowed * 995 && passed * 1_000 <= allowed * 1_005,
        "{passed} of {allowed}"
    );
}

/// Brings a session to a worker.
fn bring(world: &mut World, session: u32, to: u16) {
    let sessions = world.control.endpoint().sessions();
    let session = sessions.view(SessionIndex(session)).expect("it is there");
    let bucket = session.bucket();
    while world.control.owner(bucket) != WorkerId(to)
        || world.control.endpoint().sessions().moving_bucket().is_some()
    {
        let _ = world.control.move_bucket(world.now, bucket, WorkerId(to));
        world.step();
    }
}

/// What all workers forward in ten seconds, by direction, a second after the traffic has begun; at this number of
/// packets a second of each session.
fn forwarded_in_ten_seconds(world: &mut World, packets: &[u64]) -> [u64; 2] {
    let [settle, window] = [1, 10].map(Duration::from_secs);
    let (begin, mut samples) = (world.now, Vec::new());
    let shards = world.shards_at(packets);
    world.traffic_with(shards, settle + window, |world| {
        let after = [settle, settle + window][samples.len().min(1)];
        if samples.len() < 2 && world.now >= begin + after {
            let all = forwarded(world);
            samples.push([0, 1].map(|way| all.iter().map(|one| one[way]).sum::<u64>()));
        }
    });
    [0, 1].map(|way| samples[1][way] - samples[0][way])
}

/// The APN-AMBR of a UE with two connections to an APN (QER Correlation ID, TS 29.244 §8.2.10).
#[test]
fn correlated_sessions_keep_one_rate_in_two_workers_to_a_hundredth_and_in_one_to_a_thousandth() {
    const KBIT: [u64; 2] = [8_000, 16_000];
    let mut world = World::profiled(2, 2, 47, |profile| {
        profile.mbr = Some((KBIT[0], KBIT[1]));
        profile.correlation = Some(7);
    });
    world.smf.start(world.now);
    world.until(State::Established);
    for (workers, thousandths, packets) in [
        ([0, 1], 10, [3_400, 3_400]),
        ([0, 1], 10, [6_000, 800]),
        ([1, 1], 1, [5_000, 1_800]),
    ] {
        bring(&mut world, 0, workers[0]);
        bring(&mut world, 1, workers[1]);
        let passed = forwarded_in_ten_seconds(&mut world, &packets);
        for (passed, kbit) in passed.into_iter().zip(KBIT) {
            let allowed = kbit * 10_000 / 8;
            // Beyond it there is what a packet of each worker waits for.
            assert!(
                passed * 1_000 >= allowed * (1_000 - thousandths)
                    && passed * 1_000 <= allowed * (1_000 + thousandths),
                "{passed} of {allowed} octets at workers {workers:?}"
            );
        }
    }
    assert!(world.sum(|stats| stats.dropped(packet::DropReason::MeterRed)) > 0);
}
