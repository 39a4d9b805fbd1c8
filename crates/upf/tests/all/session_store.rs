//! A store keeps sessions beyond the process: peers receive nothing of what is not durable, and after a crash all of it
//! is there again.

use crate::support;

use std::time::Duration;

use session::Seid;
use sim::report::{Report, Totals};
use sim::smf::State;
use upf::Restored;

use crate::store::MemoryStore;
use support::*;

const SESSIONS: u32 = 40;
const TRAFFIC: Duration = Duration::from_millis(50);

fn assert_lossless(totals: &Totals) {
    let report = Report::new(SESSIONS, TRAFFIC, totals);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.sent > 1_000 && direction.lost == 0, "{report}");
    }
}

trait Keeping {
    fn keep_in(&mut self, store: &MemoryStore);
    fn restored(&mut self) -> (usize, Restored);
}

impl Keeping for World {
    fn keep_in(&mut self, store: &MemoryStore) {
        let mut keeping = self.control.session_keeping(self.now);
        keeping.begin(Box::new(store.clone()));
    }

    fn restored(&mut self) -> (usize, Restored) {
        self.control.session_keeping(self.now).restored()
    }
}

fn seids(world: &World) -> Vec<Seid> {
    let sessions = world.control.endpoint().sessions();
    sessions.page(None).map(|one| one.seid()).collect()
}

/// A new process with what the store has, as it is before its first poll.
fn crash(world: &mut World, store: &MemoryStore, workers: u16, seed: u64) {
    restart(world, store, workers, seed);
    let absent = store.absent(world.control.network(), seed);
    let mut keeping = world.control.session_keeping(world.now);
    keeping.restore(absent, 0);
    keeping.restore_responses(store.responses());
    keeping.restore_last_usage(store.last_usage());
}

/// A new process that knows of no session yet.
fn restart(world: &mut World, store: &MemoryStore, workers: u16, seed: u64) {
    store.crash();
    world.restart(workers, seed);
    let now = world.now;
    if let Some(wall) = store.wall() {
        world.control.session_keeping(now).resume_wall(wall);
    }
    let records = store.records();
    let mut failed = Vec::new();
    world
        .control
        .session_transfer(now)
        .import_all(&records, |error| failed.push(error));
    assert_eq!(failed, []);
    world.keep_in(store);
}

/// A new process that has listed the sessions at even places, and is listing the others.
fn crash_and_list_half(world: &mut World, store: &MemoryStore, seed: u64) {
    restart(world, store, 2, seed);
    let first = store.absent_of(world.control.network(), seed, |place| place % 2 == 0);
    let unlisted = SESSIONS as usize - first.len();
    assert!(unlisted > 0 && !first.is_empty());
    let mut keeping = world.control.session_keeping(world.now);
    keeping.restore(first, unlisted);
}

fn list_the_rest(world: &mut World, store: &MemoryStore, seed: u64) {
    let rest = store.absent_of(world.control.network(), seed, |place| place % 2 == 1);
    let mut keeping = world.control.session_keeping(world.now);
    keeping.restore_rest(rest);
    keeping.restore_responses(store.responses());
    keeping.restore_last_usage(store.last_usage());
}

fn until_restored(world: &mut World) {
    for _ in 0..10_000 {
        world.step();
        let (absent, restored) = world.restored();
        assert_eq!(
            restored.failed,
            0,
            "{:?}",
            world.control.session_keeping(world.now).poll_failure()
        );
        if absent == 0 && world.control.endpoint().sessions().count().ops == 0 {
            return;
        }
    }
    panic!("{:?}", world.restored());
}

#[test]
fn a_peer_receives_nothing_of_what_is_not_durable() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 61);
    world.keep_in(&store);
    store.state().is_stuck = true;
    world.smf.start(world.now);
    for _ in 0..2_000 {
        world.step();
    }
    assert!(world.control.endpoint().held() > 0);
    assert_eq!(world.control.endpoint().sessions().count().sessions, 0);
    {
        let mut state = store.state();
        state.is_stuck = false;
        state.sync();
    }
    world.until(State::Established);
    assert_eq!(world.control.endpoint().held(), 0);
    assert_eq!(store.sessions(), SESSIONS as usize);

    store.state().is_stuck = true;
    world.smf.release(world.now);
    for _ in 0..2_000 {
        world.step();
    }
    let left = world.control.endpoint().sessions().count().sessions;
    assert!(
        left < SESSIONS as usize,
        "as many are deleted as the SMF asks for at a time"
    );
    assert!(
        world.control.endpoint().held() > 0,
        "and none of the responses is sent"
    );
    assert_eq!(store.sessions(), SESSIONS as usize);
    {
        let mut state = store.state();
        state.is_stuck = false;
        state.sync();
    }
    world.until(State::Released);
    assert_eq!(store.sessions(), 0, "no deleted session returns");
}

#[test]
fn all_sessions_are_there_after_a_crash_and_their_smf_sees_no_restart() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 62);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let before = seids(&world);
    let recovery = world.control.endpoint().config().recovery_unix;
    let put = store.state().sessions_put;

    crash(&mut world, &store, 3, 63);
    assert_eq!(world.restored().0, SESSIONS as usize);
    until_restored(&mut world);
    assert_eq!(seids(&world), before);
    assert_eq!(world.control.endpoint().config().recovery_unix, recovery);
    assert_eq!(store.state().sessions_put, put, "the store has them already");
    let shards = world.shards();
    assert_lossless(&world.traffic(shards, TRAFFIC));
    world.smf.release(world.now);
    world.until(State::Released);
    let left = world.control.endpoint().sessions().count();
    assert_eq!(
        (left.sessions, left.tunnels, left.addresses, left.ops),
        (0, 0, 0, 0)
    );
    assert_eq!(store.sessions(), 0);
}

#[test]
fn a_session_comes_at_the_request_that_is_about_it() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 64);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);

    crash(&mut world, &store, 2, 65);
    // The first messages that the new process receives are deletions of all of them.
    world.smf.release(world.now);
    world.until(State::Released);
    let left = world.control.endpoint().sessions().count();
    assert_eq!((left.sessions, left.tunnels, left.addresses), (0, 0, 0));
    assert_eq!(store.sessions(), 0);
}

#[test]
fn requests_that_would_change_something_are_rejected_while_the_store_fails() {
    let store = MemoryStore::default();
    let mut world = World::keeping(1, SESSIONS, 66);
    world.keep_in(&store);
    store.state().fails = true;
    world.smf.start(world.now);
    for _ in 0..5_000 {
        world.step();
    }
    assert_eq!(world.control.endpoint().sessions().count().sessions, 0);
    assert_eq!(store.sessions(), 0);
    assert!(world.control.endpoint().counters().rejected > 0);
}

/// Octets that were reported to the SMF, uplink and downlink, and those that the data network and the gNBs have
/// received.
fn octets(world: &World, traffic: &[&Totals]) -> ([u64; 2], [u64; 2]) {
    let usage = world.smf.progress().usage;
    let sum = |read: fn(&Totals) -> u64| traffic.iter().map(|totals| read(totals)).sum();
    (
        [usage.uplink_octets, usage.downlink_octets],
        [
            sum(|totals| totals.uplink.received_octets),
            sum(|totals| totals.downlink.received_octets),
        ],
    )
}

#[test]
fn what_was_counted_before_a_checkpoint_is_reported_after_a_crash() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 67);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let shards = world.shards();
    let first = world.traffic(shards, TRAFFIC);
    assert_lossless(&first);
    // Each session's turn comes in a second.
    for _ in 0..25_000 {
        world.step();
    }
    store.state().sync();
    crash(&mut world, &store, 2, 68);
    until_restored(&mut world);
    let shards = world.shards();
    let second = world.traffic(shards, TRAFFIC);
    assert_lossless(&second);
    world.smf.release(world.now);
    world.until(State::Released);
    let (reported, received) = octets(&world, &[&first, &second]);
    assert_eq!(reported, received);
}

#[test]
fn a_crash_between_checkpoints_loses_what_was_counted_since_and_reports_nothing_twice() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 69);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let mut all = Vec::new();
    for seed in 70..74 {
        let shards = world.shards();
        all.push(world.traffic(shards, TRAFFIC));
        store.state().sync();
        crash(&mut world, &store, 2, seed);
        until_restored(&mut world);
    }
    let shards = world.shards();
    let last = world.traffic(shards, TRAFFIC);
    assert_lossless(&last);
    world.smf.release(world.now);
    world.until(State::Released);
    let (reported, received) = octets(&world, &all.iter().chain([&last]).collect::<Vec<_>>());
    let (_, of_last) = octets(&world, &[&last]);
    for direction in 0..2 {
        assert!(
            reported[direction] >= of_last[direction],
            "{reported:?} {of_last:?}"
        );
        assert!(
            reported[direction] <= received[direction],
            "{reported:?} {received:?}"
        );
    }
}

/// The store has the end of sessions, and the process ends before it responds: the SMF asks again, and there is no
/// session any more.
#[test]
fn the_last_usage_of_a_session_outlives_a_crash_between_its_end_and_its_response() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 81);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let shards = world.shards();
    let traffic = world.traffic(shards, TRAFFIC);
    assert_lossless(&traffic);
    for _ in 0..25_000 {
        world.step();
    }
    store.state().sync();
    world.smf.release(world.now);
    let mut unsent = 0;
    for seed in 82..86 {
        store.state().is_stuck = true;
        for _ in 0..500 {
            world.step();
        }
        unsent += world.control.endpoint().held();
        store.state().sync();
        crash(&mut world, &store, 2, seed);
        until_restored(&mut world);
    }
    assert!(unsent > 0);
    world.until(State::Released);
    let (reported, received) = octets(&world, &[&traffic]);
    assert_eq!(reported, received);
}

/// The store has the response to a deletion, and not the end of its session: the session counts, whether it has come
/// before the response is looked at or is yet to come. Else its SMF would be notified that it is gone, and it would
/// stay.
#[test]
fn the_response_to_a_deletion_counts_only_where_its_session_is_gone() {
    for comes_before in [false, true] {
        let store = MemoryStore::default();
        let mut world = World::keeping(2, SESSIONS, 87);
        world.keep_in(&store);
        world.smf.start(world.now);
        world.until(State::Established);
        let before = store.copy();
        world.smf.release(world.now);
        world.until(State::Released);
        assert_eq!(
            (store.sessions(), store.responses().len()),
            (0, SESSIONS as usize)
        );
        store.put_back(before);
        restart(&mut world, &store, 2, 88);
        let absent = store.absent(world.control.network(), 88);
        world.control.session_keeping(world.now).restore(absent, 0);
        if comes_before {
            until_restored(&mut world);
        }
        let mut keeping = world.control.session_keeping(world.now);
        keeping.restore_responses(store.responses());
        keeping.restore_last_usage(store.last_usage());
        until_restored(&mut world);
        for _ in 0..10 {
            world.step();
        }
        assert_eq!(store.sessions(), SESSIONS as usize);
        assert_eq!(store.responses().len(), 0, "comes before: {comes_before}");
    }
}

#[test]
fn sessions_of_the_build_before_come_back_and_are_written_anew() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 71);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    store.downgrade();
    let before = store.revisions();
    crash(&mut world, &store, 2, 3);
    until_restored(&mut world);
    for _ in 0..100 {
        world.step();
    }
    let after = store.revisions();
    assert_eq!(
        (before.len(), after.len()),
        (SESSIONS as usize, SESSIONS as usize)
    );
    assert!(
        before.iter().zip(&after).all(|(old, new)| old + 1 == *new),
        "{before:?} {after:?}"
    );
}

/// A worker that learns that answers packets of unknown tunnels with Error Indications.
#[test]
fn restoration_is_over_when_workers_have_all_sessions() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 91);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    crash(&mut world, &store, 2, 92);
    for _ in 0..1_000 {
        world.control.poll(world.now);
    }
    assert_eq!(world.restored().0, 0);
    assert!(!store.state().has_restored_all);
    until_restored(&mut world);
    world.step();
    assert!(store.state().has_restored_all);
}

#[test]
fn a_packet_has_its_session_come_and_waits_for_it() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 75);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    crash(&mut world, &store, 2, 76);
    // Before the first poll: the packets are there before any session is.
    let shards = world.shards();
    let totals = world.traffic(shards, TRAFFIC);
    let (absent, restored) = world.restored();
    assert_eq!(
        (absent, restored.sessions, restored.failed),
        (0, u64::from(SESSIONS), 0)
    );
    assert!(totals.uplink.received_octets > 0 && totals.downlink.received_octets > 0);
    let report = Report::new(SESSIONS, TRAFFIC, &totals);
    assert!(
        report.uplink.lost + report.downlink.lost < u64::from(SESSIONS) * 10,
        "{report}"
    );
}

/// The host's clock is stepped while sessions are used, and again between a crash and the next process: forward, back.
/// The first sessions come while the others are being listed: packets of these wait for that, and so do requests.
#[test]
fn sessions_come_while_others_are_being_listed() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 95);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let before = seids(&world);

    crash_and_list_half(&mut world, &store, 96);
    for _ in 0..1_000 {
        world.step();
    }
    let came = world.control.endpoint().sessions().count().sessions;
    assert!(came > 0 && came < SESSIONS as usize, "{came}");
    assert_eq!(world.restored().0, SESSIONS as usize - came);
    assert!(!store.state().has_restored_all);
    let shards = world.shards();
    let traffic = world.traffic(shards, TRAFFIC);
    let report = Report::new(SESSIONS, TRAFFIC, &traffic);
    for direction in [&report.uplink, &report.downlink] {
        assert!(direction.counts.received > 0 && direction.lost > 0, "{report}");
    }
    assert_eq!(
        traffic.events.error_indications, 0,
        "it is not known yet that there are no such tunnels"
    );

    list_the_rest(&mut world, &store, 96);
    let on_demand = world.restored().1.on_demand;
    assert!(on_demand > 0, "packets have come for them");
    until_restored(&mut world);
    assert!(store.state().has_restored_all);
    assert_eq!(seids(&world), before);
    let shards = world.shards();
    assert_lossless(&world.traffic(shards, TRAFFIC));
    world.smf.release(world.now);
    world.until(State::Released);
    let left = world.control.endpoint().sessions().count();
    assert_eq!((left.sessions, left.tunnels, left.addresses), (0, 0, 0));
}

/// It would be answered that there is no such session, and its tunnels could be given to another.
#[test]
fn requests_wait_until_all_sessions_are_listed() {
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 97);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);

    crash_and_list_half(&mut world, &store, 98);
    world.smf.release(world.now);
    for _ in 0..5_000 {
        world.step();
    }
    assert_eq!(store.sessions(), SESSIONS as usize, "none is deleted");
    list_the_rest(&mut world, &store, 98);
    world.until(State::Released);
    assert_eq!(store.sessions(), 0);
    let left = world.control.endpoint().sessions().count();
    assert_eq!((left.sessions, left.tunnels, left.addresses), (0, 0, 0));
}

#[test]
fn steps_of_the_clock_lose_nothing_and_report_nothing_twice() {
    const HOUR: i64 = 3_600_000_000_000;
    let store = MemoryStore::default();
    let mut world = World::keeping(2, SESSIONS, 77);
    world.keep_in(&store);
    world.smf.start(world.now);
    world.until(State::Established);
    let mut host = 1_700_000_000_000_000_000_u64;
    let mut all = Vec::new();
    for (seed, step, meanwhile) in [(78, HOUR, -2 * HOUR), (79, -HOUR, 5 * HOUR), (80, HOUR, HOUR)] {
        let shards = world.shards();
        all.push(world.traffic(shards, TRAFFIC));
        host = host.wrapping_add_signed(step);
        assert!(
            world
                .control
                .follow_wall(world.now, host + world.now.0, 0)
                .is_some()
        );
        let shards = world.shards();
        all.push(world.traffic(shards, TRAFFIC));
        // Each session's turn comes in a second.
        for _ in 0..25_000 {
            world.step();
        }
        store.state().sync();
        host = host.wrapping_add_signed(meanwhile);
        crash(&mut world, &store, 2, seed);
        assert!(
            world
                .control
                .follow_wall(world.now, host + world.now.0, 0)
                .is_some()
        );
        until_restored(&mut world);
    }
    let shards = world.shards();
    all.push(world.traffic(shards, TRAFFIC));
    all.iter().for_each(assert_lossless);
    world.smf.release(world.now);
    world.until(State::Released);
    let (reported, received) = octets(&world, &all.iter().collect::<Vec<_>>());
    assert_eq!(reported, received);
}
