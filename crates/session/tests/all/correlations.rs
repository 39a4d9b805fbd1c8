//! QERs of several sessions with one correlation id: which QERs share a rate, what it is, and which workers receive it.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use flow::meter::{MeterSpec, PacketRate, PacketsPer, Rate, SharedId, TimeUnit};
use flow::{Bucket, WorkerId};
use packet::Qfi;
use proptest::prelude::*;
use rules::image::CompileFault;
use rules::model::*;
use session::*;

use support::*;

const OTHER: AssociationId = AssociationId(2);
const ID: CorrelationId = CorrelationId(7);

/// A UE that lives in a bucket of this worker of three; of each worker there are many.
fn ue_at(worker: u16, number: u32) -> Ipv4Addr {
    let mut buckets = Bucket::all().filter(|bucket| bucket.index() % 3 == usize::from(worker));
    ue_in(buckets.next().expect("it has some"), number)
}

fn rates(ul: u64, dl: u64) -> BitRates {
    BitRates {
        ul: BitsPerSecond::from_kbit(ul),
        dl: BitsPerSecond::from_kbit(dl),
    }
}

/// A session whose QER is correlated and has this rate in both directions, in kbit/s.
fn correlated(ue: Ipv4Addr, correlation: CorrelationId, kbit: u64) -> Changes {
    let mut changes = chosen_session(ue);
    changes.create_qers[0].qfi = None;
    changes.create_qers[0].correlation = Some(correlation);
    changes.create_qers[0].mbr = Some(rates(kbit, kbit));
    changes
}

fn update(change: impl FnOnce(&mut QerUpdate)) -> Changes {
    let mut update = QerUpdate::new(QerId(1));
    change(&mut update);
    Changes {
        update_qers: vec![update],
        ..Changes::default()
    }
}

fn establish(
    world: &mut World,
    association: AssociationId,
    cp: u64,
    changes: Changes,
) -> Result<Done, Refusal> {
    let ticket = world.ticket();
    world
        .sessions
        .establish(world.now, ticket, association, cp_f_seid(cp), changes);
    let outcomes = world.run();
    let found = outcomes.into_iter().find(|outcome| outcome.ticket == ticket);
    found.expect("an outcome").result
}

fn established(world: &mut World, cp: u64, changes: Changes) -> Seid {
    world.establish(cp, changes).unwrap().seid
}

/// What is distributed: the number, the uplink rate in kbit/s, the workers.
fn reported(world: &mut World) -> Vec<(u16, u64, Vec<u16>)> {
    let changed = std::iter::from_fn(|| world.sessions.poll_shared_rate());
    let words = |rate: SharedRate| {
        let workers = rate.workers.iter().map(|worker| worker.0).collect();
        (rate.id.0, rate.rates[0].kbit(), workers)
    };
    changed.map(words).collect()
}

/// The shared meter of a session's first QER in its worker.
fn meter(world: &World, seid: Seid) -> Option<SharedId> {
    let index = world.sessions.session(seid)?.index();
    let images = world.fleet.images();
    let image = images.iter().find(|image| image.session == index)?;
    match image.block.meters[0] {
        [Some(MeterSpec::Shared(ul)), Some(MeterSpec::Shared(dl))] if ul == dl => Some(ul),
        _ => None,
    }
}

#[test]
fn the_lowest_rate_that_any_of_the_qers_says_holds_for_all() {
    let mut world = World::new(3);
    let first = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0])]);
    let second = established(&mut world, 2, correlated(ue_at(2, 0), ID, 4_000));
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0, 2])]);
    assert_eq!(
        (meter(&world, first), meter(&world, second)),
        (Some(SharedId(1)), Some(SharedId(1)))
    );
    let index = world.sessions.session(first).unwrap().index();
    assert_eq!(world.sessions.correlated(index, ID), 2);
    world
        .modify(first, update(|qer| qer.mbr = Edit::Set(rates(9_000, 2_000))))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 4_000, vec![0, 2])]);
    world.modify(second, update(|qer| qer.mbr = Edit::Clear)).unwrap();
    assert_eq!(reported(&mut world), [(1, 9_000, vec![0, 2])]);
    world.delete(first).unwrap();
    assert_eq!(reported(&mut world), [(1, Rate::UNLIMITED.kbit(), vec![2])]);
    world.delete(second).unwrap();
    assert_eq!(reported(&mut world), [(1, Rate::UNLIMITED.kbit(), vec![])]);
    world.assert_clean();
}

#[test]
fn a_worker_is_notified_before_it_gets_the_session() {
    let mut world = World::new(3);
    let ticket = world.ticket();
    let changes = correlated(ue_at(1, 0), ID, 1_000);
    world
        .sessions
        .establish(world.now, ticket, SMF, cp_f_seid(1), changes);
    assert_eq!(reported(&mut world), [(1, 1_000, vec![1])]);
    assert!(
        world.sessions.poll_effect().is_some(),
        "what needs it comes after it"
    );
}

#[test]
fn other_control_plane_functions_mean_something_else_by_the_same_id() {
    let mut world = World::new(3);
    let ours = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    let theirs = establish(&mut world, OTHER, 2, correlated(ue_at(0, 1), ID, 10))
        .unwrap()
        .seid;
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0]), (2, 10, vec![0])]);
    assert_ne!(meter(&world, ours), meter(&world, theirs));
}

#[test]
fn what_another_of_the_set_takes_over_continues_and_what_it_adds_is_with_it() {
    let mut world = World::new(3);
    let first = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    world.sessions.hand_over(first, OTHER);
    let second = establish(&mut world, OTHER, 2, correlated(ue_at(1, 0), ID, 2_000))
        .unwrap()
        .seid;
    assert_eq!(meter(&world, first), meter(&world, second));
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0, 1])]);
    world.delete(first).unwrap();
    world.delete(second).unwrap();
    assert_eq!(world.sessions.count(), Count::default());
}

#[test]
fn what_an_association_had_in_common_means_nothing_once_it_has_no_session_of_it() {
    let mut world = World::new(3);
    let first = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    let second = established(&mut world, 2, correlated(ue_at(0, 1), ID, 1_000));
    world.sessions.hand_over(second, OTHER);
    let with_them = establish(&mut world, OTHER, 3, correlated(ue_at(0, 2), ID, 10)).unwrap();
    assert_eq!(meter(&world, with_them.seid), meter(&world, first));
    world.delete(second).unwrap();
    world.delete(with_them.seid).unwrap();
    // Another subscriber of theirs: not that of ours.
    let theirs = establish(&mut world, OTHER, 4, correlated(ue_at(0, 3), ID, 10)).unwrap();
    assert_ne!(meter(&world, theirs.seid), meter(&world, first));
    // And one of this node that is handed over leaves the name to the next session.
    world.sessions.hand_over(first, OTHER);
    let new = established(&mut world, 5, correlated(ue_at(0, 4), ID, 5));
    assert!(
        ![first, theirs.seid]
            .map(|seid| meter(&world, seid))
            .contains(&meter(&world, new))
    );
    for seid in [first, theirs.seid, new] {
        world.delete(seid).unwrap();
    }
    assert_eq!(world.sessions.count(), Count::default());
}

#[test]
fn a_qer_may_get_and_lose_its_correlation() {
    let mut world = World::new(3);
    let first = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    let mut alone = chosen_session(ue_at(1, 0));
    alone.create_qers[0].qfi = None;
    alone.create_qers[0].mbr = Some(rates(500, 500));
    let second = established(&mut world, 2, alone);
    assert_eq!(meter(&world, second), None);
    reported(&mut world);
    world
        .modify(second, update(|qer| qer.correlation = Edit::Set(ID)))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 500, vec![0, 1])]);
    assert_eq!(meter(&world, second), Some(SharedId(1)));
    world
        .modify(first, update(|qer| qer.correlation = Edit::Clear))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 500, vec![1])]);
    assert_eq!(meter(&world, first), None);
    world
        .modify(
            second,
            update(|qer| qer.correlation = Edit::Set(CorrelationId(8))),
        )
        .unwrap();
    assert_eq!(
        reported(&mut world),
        [(1, Rate::UNLIMITED.kbit(), vec![]), (2, 500, vec![1])]
    );
    assert_eq!(meter(&world, second), Some(SharedId(2)));
    world
        .modify(first, update(|qer| qer.correlation = Edit::Set(ID)))
        .unwrap();
    assert_eq!(
        reported(&mut world),
        [(1, 1_000, vec![0])],
        "the number is given again"
    );
}

/// TS 29.244 §5.2.1.
#[test]
fn in_5gc_sessions_have_nothing_in_common_and_when_the_ue_goes_to_epc_they_have() {
    let mut world = World::new(3);
    let there = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    reported(&mut world);
    let mut changes = correlated(ue_at(1, 0), ID, 500);
    changes.create_qers[0].qfi = Qfi::new(9);
    let seid = established(&mut world, 2, changes);
    assert_eq!((reported(&mut world), meter(&world, seid)), (vec![], None));
    world.modify(seid, update(|qer| qer.qfi = Edit::Clear)).unwrap();
    assert_eq!(reported(&mut world), [(1, 500, vec![0, 1])]);
    assert_eq!(meter(&world, seid), meter(&world, there));
    world
        .modify(seid, update(|qer| qer.qfi = Edit::Set(Qfi::from_low_bits(9))))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0])]);
    assert_eq!(meter(&world, seid), None);
}

#[test]
fn a_change_that_is_refused_leaves_the_rate_and_its_sessions() {
    let mut world = World::new(3);
    let first = established(&mut world, 1, correlated(ue_at(0, 0), ID, 1_000));
    let mut alone = chosen_session(ue_at(1, 0));
    alone.create_qers[0].qfi = None;
    alone.create_qers[0].mbr = Some(rates(500, 500));
    let second = established(&mut world, 2, alone);
    reported(&mut world);
    let before = world.sessions.count();
    // Refused by the worker: at first lowered, then as it was.
    world.fleet.worker(WorkerId(0)).refuses_replace = true;
    world.fleet.worker(WorkerId(1)).refuses_replace = true;
    let lower = update(|qer| qer.mbr = Edit::Set(rates(1, 1)));
    assert!(world.modify(first, lower).is_err());
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0])]);
    let join = update(|qer| qer.correlation = Edit::Set(ID));
    assert!(world.modify(second, join).is_err());
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0])]);
    // Refused before any worker receives it.
    let mut unknown = update(|qer| qer.correlation = Edit::Set(CorrelationId(8)));
    unknown.remove_urrs.push(UrrId(99));
    assert!(world.modify(second, unknown).is_err());
    // By the worker that has no room.
    world.fleet.worker(WorkerId(2)).room = Some(0);
    let refused = world.establish(3, correlated(ue_at(2, 0), CorrelationId(9), 5));
    assert_eq!(refused, Err(Refusal::NoResources));
    reported(&mut world);
    assert_eq!(world.sessions.count(), before);
}

#[test]
fn only_maximum_rates_are_shared_and_a_session_has_one_qer_of_a_correlation() {
    let mut world = World::new(1);
    let fault = |rule: u32| Err(Refusal::rule_of(QerId(rule)));
    let per = PacketsPer {
        packets: 1,
        unit: TimeUnit::Minute,
    };
    let rate = PacketRate {
        base: per,
        additional: None,
    };
    let mut guaranteed = correlated(UE, ID, 1_000);
    guaranteed.create_qers[0].optional.get_or_insert_default().gbr = Some(rates(1, 1));
    let mut counted = correlated(UE, ID, 1_000);
    let optional = counted.create_qers[0].optional.get_or_insert_default();
    optional.packet_rates = Some(PacketRates {
        ul: Some(rate),
        dl: None,
    });
    let mut twice = correlated(UE, ID, 1_000);
    let second = Qer {
        id: QerId(2),
        ..twice.create_qers[0].clone()
    };
    twice.create_qers.push(second);
    for (changes, rule) in [(guaranteed, 1), (counted, 1), (twice, 2)] {
        assert_eq!(world.establish(1, changes).map(drop), fault(rule));
    }
    let seid = established(&mut world, 1, correlated(UE, ID, 1_000));
    let guarantee = update(|qer| qer.gbr = Edit::Set(rates(1, 1)));
    assert_eq!(world.modify(seid, guarantee).map(drop), fault(1));
    world.delete(seid).unwrap();
    world.assert_clean();
}

trait Correlated {
    fn rule_of(qer: QerId) -> Refusal;
}

impl Correlated for Refusal {
    fn rule_of(qer: QerId) -> Refusal {
        Refusal::Rule {
            rule: qer.into(),
            fault: RuleFault::Compile(CompileFault::Correlated),
        }
    }
}

#[test]
fn there_are_no_more_than_configured_and_among_others_an_association_has_its_share() {
    let mut world = World::with(Config {
        max_correlations: 4,
        association_percent: 50,
        ..Config::for_workers(1)
    });
    let mut host = 0;
    let mut ask = |world: &mut World, association, correlation| {
        host += 1;
        let ue = Ipv4Addr::new(10, 45, 1, host);
        let changes = correlated(ue, CorrelationId(correlation), 1);
        establish(world, association, u64::from(host), changes).map(|done| done.seid)
    };
    world.sessions.share_among(2);
    ask(&mut world, SMF, 1).unwrap();
    let second = ask(&mut world, SMF, 2).unwrap();
    assert_eq!(ask(&mut world, SMF, 3), Err(Refusal::NoResources));
    ask(&mut world, SMF, 2).expect("not another one");
    ask(&mut world, OTHER, 3).unwrap();
    world.sessions.share_among(1);
    ask(&mut world, SMF, 3).expect("alone it may have all");
    assert_eq!(ask(&mut world, SMF, 4), Err(Refusal::NoResources));
    assert_eq!(world.sessions.count().correlations, 4);
    world.sessions.share_among(2);
    world.sessions.unite([vec![SMF, AssociationId(3)]].into_iter());
    let united = ask(&mut world, AssociationId(3), 9);
    assert_eq!(united, Err(Refusal::NoResources), "it holds what its group holds");
    world.sessions.share_among(1);
    world.delete(second).unwrap();
    assert_eq!(
        ask(&mut world, SMF, 4),
        Err(Refusal::NoResources),
        "another still has it"
    );

    let mut none = World::with(Config {
        max_correlations: 0,
        ..Config::for_workers(1)
    });
    assert_eq!(ask(&mut none, SMF, 1), Err(Refusal::NoResources));
}

#[test]
fn so_many_sessions_as_a_ue_may_have_share_a_rate() {
    let mut world = World::new(1);
    for host in 0..64 {
        let ue = Ipv4Addr::new(10, 45, 1, host);
        world
            .establish(u64::from(host) + 1, correlated(ue, ID, 1))
            .unwrap();
    }
    let refused = world.establish(99, correlated(UE, ID, 1));
    assert_eq!(refused, Err(Refusal::NoResources));
}

#[test]
fn while_a_bucket_moves_both_workers_have_their_shares() {
    let mut world = World::new(3);
    let ue = ue_at(0, 0);
    let seid = established(&mut world, 1, correlated(ue, ID, 1_000));
    reported(&mut world);
    world
        .sessions
        .move_bucket(world.now, home(ue), WorkerId(1))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 1_000, vec![0, 1])]);
    world.run();
    assert_eq!(world.sessions.poll_moved().map(|moved| moved.result), Some(Ok(1)));
    assert_eq!(reported(&mut world), [(1, 1_000, vec![1])]);
    assert_eq!(meter(&world, seid), Some(SharedId(1)));
    // The new owner has no room: the worker that has it all the time has the whole again.
    world.fleet.worker(WorkerId(2)).room = Some(0);
    world
        .sessions
        .move_bucket(world.now, home(ue), WorkerId(2))
        .unwrap();
    assert_eq!(reported(&mut world), [(1, 1_000, vec![1, 2])]);
    world.run();
    assert_eq!(
        world.sessions.poll_moved().map(|moved| moved.result),
        Some(Err(MoveFault::NoResources))
    );
    assert_eq!(reported(&mut world), [(1, 1_000, vec![1])]);
}

#[test]
fn sessions_that_go_to_another_process_keep_their_rate_together_there() {
    let mut world = World::new(3);
    let mut records = Vec::new();
    for (cp, worker) in [(1, 0), (2, 2)] {
        let changes = correlated(ue_at(worker, 0), ID, 1_000 * cp);
        let seid = established(&mut world, cp, changes);
        let ticket = world.ticket();
        world.sessions.export(world.now, ticket, seid, Export::Take);
        records.push(world.run().remove(0).result.unwrap().record.unwrap().1);
    }
    world.assert_clean();
    let mut there = World::new(2);
    for record in &records {
        let ticket = there.ticket();
        let taken = there.sessions.import(there.now, ticket, OTHER, record);
        taken.expect("no other session has what it has");
        there.run().remove(0).result.unwrap();
    }
    let all = reported(&mut there);
    assert_eq!((all.len(), all[0].0, all[0].1), (1, 1, 1_000));
    assert_eq!(there.sessions.count().correlations, 1);
    // Among others it has no share that this fits into, and it is taken in all the same.
    let mut full = World::with(Config {
        max_correlations: 1,
        association_percent: 50,
        ..Config::for_workers(1)
    });
    full.sessions.share_among(2);
    let ticket = full.ticket();
    let taken = full.sessions.import(full.now, ticket, OTHER, &records[0]);
    taken.expect("it held it before");
    let mut none = World::with(Config {
        max_correlations: 0,
        ..Config::for_workers(1)
    });
    let ticket = none.ticket();
    let refused = none.sessions.import(none.now, ticket, OTHER, &records[0]);
    assert_eq!(refused, Err(ImportError::Refused(Refusal::NoResources)));
    none.assert_clean();
}

/// What may happen to one of eight UEs' sessions.
#[derive(Clone, Debug)]
enum Happens {
    Comes {
        smf: bool,
        correlation: Option<u32>,
        kbit: u64,
    },
    Changes {
        correlation: Option<u32>,
        kbit: u64,
    },
    Goes,
    /// Behind its owner's back.
    IsKilled,
    Moves {
        to: u16,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    let correlation = || prop::option::weighted(0.8, 0..3u32);
    let kbit = || 1..5u64;
    prop_oneof![
        4 => (any::<bool>(), correlation(), kbit())
            .prop_map(|(smf, correlation, kbit)| Happens::Comes { smf, correlation, kbit }),
        3 => (correlation(), kbit()).prop_map(|(correlation, kbit)| Happens::Changes { correlation, kbit }),
        2 => Just(Happens::Goes),
        1 => Just(Happens::IsKilled),
        1 => (0..3u16).prop_map(|to| Happens::Moves { to }),
    ]
}

/// What the sessions' rules say: by association and correlation, the lowest rate and the workers.
fn model(world: &World) -> BTreeMap<(AssociationId, CorrelationId), (u64, Vec<u16>)> {
    let mut all: BTreeMap<_, (u64, Vec<u16>)> = BTreeMap::new();
    for session in world.sessions.iter() {
        for qer in session.rules().qers() {
            let Some(correlation) = qer.correlation else {
                continue;
            };
            let said = qer.mbr.map_or(u64::MAX, |mbr| mbr.ul.0 / 1000);
            let (rate, workers) = all
                .entry((session.association(), correlation))
                .or_insert((u64::MAX, Vec::new()));
            *rate = said.min(*rate);
            workers.push(world.sessions.owner(session.bucket()).0);
        }
    }
    for (_, workers) in all.values_mut() {
        workers.sort_unstable();
        workers.dedup();
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn what_workers_received_last_is_what_the_rules_of_live_sessions_say(
        all in prop::collection::vec((0..8u32, happens(), prop::bool::weighted(0.2)), 1..60),
    ) {
        let mut world = World::new(3);
        let mut known: BTreeMap<u16, (u64, Vec<u16>)> = BTreeMap::new();
        let mut seids: BTreeMap<u32, Seid> = BTreeMap::new();
        for (number, what, fails) in all {
            let ue = ue_at((number % 3) as u16, number / 3);
            for worker in 0..3 {
                world.fleet.worker(WorkerId(worker)).refuses_replace = fails;
                world.fleet.worker(WorkerId(worker)).room = fails.then_some(0);
            }
            match (what, seids.get(&number).copied()) {
                (Happens::Comes { smf, correlation, kbit }, None) => {
                    let mut changes = correlated(ue, CorrelationId(0), kbit);
                    changes.create_qers[0].correlation = correlation.map(CorrelationId);
                    let whose = if smf { SMF } else { OTHER };
                    if let Ok(done) = establish(&mut world, whose, u64::from(number) + 1, changes) {
                        seids.insert(number, done.seid);
                    }
                }
                (Happens::Changes { correlation, kbit }, Some(seid)) => {
                    let changes = update(|qer| {
                        qer.correlation = correlation.map_or(Edit::Clear, |id| Edit::Set(CorrelationId(id)));
                        qer.mbr = Edit::Set(rates(kbit, kbit));
                    });
                    let _ = world.modify(seid, changes);
                }
                (Happens::Goes, Some(seid)) => {
                    world.delete(seid).unwrap();
                }
                (Happens::IsKilled, Some(seid)) => {
                    world.sessions.remove(seid, EndCause::Fault);
                    world.run();
                }
                (Happens::Moves { to }, _) => {
                    let begun = world.sessions.move_bucket(world.now, home(ue), WorkerId(to));
                    if begun.is_ok() {
                        world.run();
                        world.sessions.poll_moved().unwrap();
                    }
                }
                _ => {}
            }
            seids.retain(|_, seid| world.sessions.session(*seid).is_some());
            for (id, kbit, workers) in reported(&mut world) {
                if workers.is_empty() {
                    known.remove(&id);
                } else {
                    known.insert(id, (kbit, workers));
                }
            }
            let want = model(&world);
            prop_assert_eq!(world.sessions.count().correlations, want.len());
            prop_assert_eq!(known.len(), want.len());
            for session in world.sessions.iter() {
                let correlation = session.rules().qers()[0].correlation;
                let meter = meter(&world, session.seid());
                prop_assert_eq!(meter.is_some(), correlation.is_some());
                if let (Some(meter), Some(correlation)) = (meter, correlation) {
                    prop_assert_eq!(known.get(&meter.0), want.get(&(session.association(), correlation)));
                }
            }
        }
    }
}
