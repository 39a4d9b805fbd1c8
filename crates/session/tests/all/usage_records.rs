//! The ledger: every packet that a session's URRs count is in one entry, however the session ends.

use crate::support;

use flow::UrrCount;
use session::*;
use std::sync::Arc;

use rules::model::*;

use support::*;

fn world(workers: u16) -> World {
    World::with(Config {
        usage_records: true,
        ..Config::for_workers(workers)
    })
}

fn subscriber() -> Arc<Subscriber> {
    Arc::new(Subscriber {
        imsi: Some("001010000000001".into()),
        dnn: Some("internet".into()),
        s_nssai: Some(SNssai {
            sst: 1,
            sd: SNssai::NO_SD,
        }),
        ..Subscriber::default()
    })
}

fn subscribed() -> Changes {
    Changes {
        subscriber: Some(subscriber()),
        ..chosen_session(UE)
    }
}

fn all_entries(world: &mut World) -> Vec<UsageRecordEntry> {
    std::iter::from_fn(|| world.sessions.poll_usage_record_entry()).collect()
}

/// All but those of starts.
fn entries(world: &mut World) -> Vec<UsageRecordEntry> {
    let mut entries = all_entries(world);
    entries.retain(|entry| !matches!(entry.event, UsageRecordEvent::Start { .. }));
    entries
}

fn usage(entries: &[UsageRecordEntry]) -> Vec<(Seid, u32, UrrCount)> {
    let of = |entry: &UsageRecordEntry| match entry.event {
        UsageRecordEvent::Usage(report) if report.urr == UrrId(1) => {
            Some((entry.seid, report.sequence, report.count))
        }
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

fn ends(entries: &[UsageRecordEntry]) -> Vec<(Seid, EndCause, u64)> {
    let of = |entry: &UsageRecordEntry| match entry.event {
        UsageRecordEvent::End { cause, reports, .. } => Some((entry.seid, cause, reports)),
        _ => None,
    };
    entries.iter().filter_map(of).collect()
}

/// A world with one session whose first URR has counted three packets.
fn living(workers: u16) -> (World, Done) {
    let mut world = world(workers);
    let done = world.establish(1, subscribed()).unwrap();
    count(&mut world, done.seid, 3);
    (world, done)
}

fn count(world: &mut World, seid: Seid, packets: u64) {
    let index = world.sessions.session(seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(packets));
}

fn query() -> Changes {
    Changes {
        query: Query::These(vec![UrrId(1)]),
        ..Changes::default()
    }
}

#[test]
fn a_report_that_is_asked_for_and_the_last_one_are_entered_once() {
    let (mut world, done) = living(2);
    let asked = world.modify(done.seid, query()).unwrap();
    count(&mut world, done.seid, 4);
    let deleted = world.delete(done.seid).unwrap();
    let entries = entries(&mut world);
    assert_eq!(
        usage(&entries),
        [(done.seid, 0, uplink_count(3)), (done.seid, 1, uplink_count(4))]
    );
    let reported = asked.usage.len() + deleted.usage.len();
    assert_eq!(ends(&entries), [(done.seid, EndCause::Deleted, reported as u64)]);
    assert_eq!(entries.len(), reported + 1);
    for entry in &entries {
        assert_eq!(entry.subscriber, Some(subscriber()));
        assert_eq!((entry.association, entry.cp), (SMF, cp_f_seid(1)));
        assert!(!entry.ue_addresses.is_empty() && !entry.rules.urrs().is_empty());
    }
    world.assert_clean();
}

#[test]
fn what_a_session_used_that_is_removed_behind_its_owners_back_is_entered() {
    let (mut world, done) = living(2);
    world.sessions.remove(done.seid, EndCause::SetDeleted);
    assert!(entries(&mut world).is_empty(), "the worker has not said it yet");
    assert_eq!(world.run(), []);
    let entries = entries(&mut world);
    assert_eq!(usage(&entries), [(done.seid, 0, uplink_count(3))]);
    assert_eq!(ends(&entries).len(), 1);
    assert_eq!(ends(&entries)[0].1, EndCause::SetDeleted);
    world.assert_clean();
}

#[test]
fn what_a_session_used_whose_deletion_is_overtaken_is_entered_once() {
    let (mut world, done) = living(2);
    let ticket = world.ticket();
    world.sessions.delete(world.now, ticket, done.seid);
    world.hand_over();
    world.end_association();
    world.run();
    let entries = entries(&mut world);
    assert_eq!(usage(&entries), [(done.seid, 0, uplink_count(3))]);
    assert_eq!(ends(&entries)[0].1, EndCause::AssociationEnded);
    world.assert_clean();
}

#[test]
fn what_a_session_used_that_is_superseded_is_entered_as_its_own() {
    let (mut world, done) = living(2);
    let next = world.establish(1, chosen_session(UE)).unwrap();
    let first = entries(&mut world);
    assert_eq!(usage(&first), [(done.seid, 0, uplink_count(3))]);
    assert_eq!(ends(&first)[0].1, EndCause::Superseded);
    count(&mut world, next.seid, 5);
    world.delete(next.seid).unwrap();
    let second = entries(&mut world);
    assert_eq!(usage(&second), [(next.seid, 0, uplink_count(5))]);
    assert!(second.iter().all(|entry| entry.subscriber.is_none()));
}

#[test]
fn a_session_that_was_never_live_leaves_nothing() {
    let mut world = world(2);
    let ticket = world.ticket();
    world
        .sessions
        .establish(world.now, ticket, SMF, cp_f_seid(1), subscribed());
    world.end_association();
    world.run();
    assert!(entries(&mut world).is_empty());
    world.assert_clean();
}

#[test]
fn a_session_that_goes_to_another_process_keeps_its_account() {
    let (mut world, done) = living(2);
    world.modify(done.seid, query()).unwrap();
    let before = entries(&mut world);
    assert_eq!(before.len(), 1);
    count(&mut world, done.seid, 2);
    let ticket = world.ticket();
    world.sessions.export(world.now, ticket, done.seid, Export::Take);
    let outcome = world.run().pop().unwrap();
    let (_, mut record) = outcome.result.unwrap().record.unwrap();
    let left = entries(&mut world);
    let [
        UsageRecordEntry {
            event: UsageRecordEvent::Left {
                reports: 1, count, ..
            },
            ..
        },
    ] = left[..]
    else {
        panic!("it has left, and not ended: {left:?}");
    };
    assert_eq!(count, uplink_count(3));
    record.association = vec![0, 1, 2, 3, 4];

    let mut second = self::world(2);
    let ticket = second.ticket();
    second.sessions.import(second.now, ticket, SMF, &record).unwrap();
    second.run();
    let arrived = all_entries(&mut second);
    assert!(
        matches!(
            arrived[..],
            [UsageRecordEntry {
                event: UsageRecordEvent::Start {
                    is_imported: true,
                    ..
                },
                ..
            }]
        ),
        "{arrived:?}"
    );
    second.delete(done.seid).unwrap();
    let after = entries(&mut second);
    assert_eq!(usage(&after), [(done.seid, 1, uplink_count(2))]);
    let all = (before.len() + after.len() - 1) as u64;
    assert_eq!(ends(&after), [(done.seid, EndCause::Deleted, all)]);
    assert!(after.iter().all(|entry| entry.subscriber == Some(subscriber())));
}

#[test]
fn every_session_that_becomes_live_has_a_start_with_what_is_known_of_it() {
    let (mut world, done) = living(2);
    let first = all_entries(&mut world);
    assert_eq!(first.len(), 1);
    let one = &first[0];
    assert_eq!(
        (one.seid, one.subscriber.clone()),
        (done.seid, Some(subscriber()))
    );
    assert!(!one.ue_addresses.is_empty() && !one.rules.urrs().is_empty());
    let UsageRecordEvent::Start {
        start,
        at,
        is_imported: false,
    } = one.event
    else {
        panic!("{one:?}");
    };
    assert_eq!((start, at), (world.now.into(), world.now.into()));
    world.modify(done.seid, query()).unwrap();
    // One in its place is another.
    let next = world.establish(1, chosen_session(UE)).unwrap();
    let all = all_entries(&mut world);
    let is_start = |entry: &&UsageRecordEntry| matches!(entry.event, UsageRecordEvent::Start { .. });
    let starts: Vec<Seid> = all.iter().filter(is_start).map(|entry| entry.seid).collect();
    assert_eq!(starts, [next.seid]);
    assert!(is_start(&all.last().unwrap()), "behind the end of the one before");
}

#[test]
fn without_configuration_nothing_is_entered() {
    let mut world = World::new(2);
    let done = world.establish(1, subscribed()).unwrap();
    world.delete(done.seid).unwrap();
    assert!(entries(&mut world).is_empty());
}
