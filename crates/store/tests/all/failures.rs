//! The disk fails, and works again.

use std::io::ErrorKind;

use proptest::prelude::*;

use crate::fake_disk::Failure;
use crate::world::{World, key, settings};

/// Operations from this one on fail, a number of them; then all is well in the end, also for the next process.
fn fail_at(seed: u64, from: u32, operations: u32, kind: ErrorKind) -> bool {
    let mut world = World::new(seed);
    world.keys = 14;
    world.disk.state().shortens_one_in = 4;
    world.disk.state().failure = Some(Failure {
        from,
        operations,
        kind,
    });
    world.steps(60);
    let has_failed = world.disk.state().operations > from;
    world.settle();
    assert!(world.store.fault().is_none());
    assert_eq!(world.store.take_unreadable(), []);
    let mut next = world.after_end(true).expect("a disk that works");
    next.steps(3);
    next.settle();
    next.assert_exact();
    has_failed
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2, ..ProptestConfig::default() })]

    #[test]
    fn any_operation_may_fail(seed: u64) {
        let cases = [(ErrorKind::Other, 1), (ErrorKind::Other, 3), (ErrorKind::StorageFull, 2), (ErrorKind::Interrupted, 1)];
        for (kind, operations) in cases {
            let mut from = 4;
            while fail_at(seed, from, operations, kind) {
                from += 1;
            }
            prop_assert!(from > 100);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Nothing that was acknowledged is lost by a power cut while the disk fails.
    #[test]
    fn a_disk_that_fails_often_loses_nothing(seed: u64, fails_one_in in 2..30usize, steps in 1..80usize) {
        let mut world = World::new(seed);
        world.disk.state().fails_one_in = fails_one_in;
        world.steps(steps);
        let mut next = world.after_end(true).expect("a disk that works");
        next.settle();
        next.assert_exact();
    }
}

#[test]
fn a_failed_sync_is_not_tried_on_the_same_segment() {
    let mut world = World::new(1);
    world.put(key(8));
    world.poll();
    assert_eq!(world.disk.segments(), ["store-00000000000000000001.log"]);
    world.put(key(10));
    let from = world.disk.state().operations + 1;
    world.disk.state().failure = Some(Failure {
        from,
        operations: 1,
        kind: ErrorKind::Other,
    });
    world.poll();
    assert!(world.store.durable() < world.store.last());
    assert!(world.store.fault().is_some());
    world.settle();
    assert_eq!(world.store.durable(), world.store.last());
    assert_eq!(world.disk.segments().len(), 2);
    world.assert_exact();
}

#[test]
fn a_fault_is_reported_and_tried_again_later() {
    let mut world = World::new(1);
    world.put(key(8));
    let from = world.disk.state().operations;
    world.disk.state().failure = Some(Failure {
        from,
        operations: u32::MAX,
        kind: ErrorKind::PermissionDenied,
    });
    world.poll();
    let fault = world.store.fault().map(std::io::Error::kind);
    assert_eq!(fault, Some(ErrorKind::PermissionDenied));
    let tried = world.disk.state().operations;
    let at = world.store.poll_timeout().expect("a time");
    assert!(at > world.now);
    world.poll();
    assert_eq!(world.disk.state().operations, tried, "not before its time");
    assert!(!world.store.close(world.now));
    world.disk.state().failure = None;
    world.now = at + at;
    world.poll();
    assert!(world.store.fault().is_none());
    assert_eq!(world.store.durable(), world.store.last());
}

/// The segments of attempts that failed do not pile up.
#[test]
fn a_disk_that_never_syncs_is_not_filled() {
    let mut world = World::new(1);
    world.put(key(8));
    for _ in 0..50 {
        let from = world.disk.state().operations + 4;
        // A new segment: creation, header, batch, zeros, and then the sync.
        world.disk.state().failure = Some(Failure {
            from,
            operations: 1,
            kind: ErrorKind::Other,
        });
        world.now += settings().retry;
        world.poll();
    }
    assert_eq!(world.store.progress().syncs, 50);
    assert!(world.disk.segments().len() <= 1, "{:?}", world.disk.segments());
}
