//! An establishment under the F-SEID of a live session: the new session takes its place, or it lives on untouched.

use crate::support;

use std::net::Ipv4Addr;
use std::time::Duration;

use rules::model::*;
use session::*;

use support::*;

/// With a TEID of the peer's choice, in a bucket other than the UE's.
fn given_session(ue: Ipv4Addr) -> Changes {
    let mut changes = session(ue);
    changes.create_pdrs[0].pdi.f_teid = Some(given(stray_teid(ue)));
    changes
}

fn broken(mut changes: Changes) -> Changes {
    changes.create_pdrs[1].far = Some(FarId(99));
    changes
}

/// A world with one session that has counted three packets.
fn living() -> (World, Done) {
    let mut world = World::new(4);
    let done = world.establish(1, given_session(UE)).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(3));
    (world, done)
}

/// That the session of [`living`] is as it was, can be changed, and that all it counted is reported.
fn assert_lives(mut world: World, done: &Done) {
    let view = world.sessions.session(done.seid).expect("lives on");
    assert_eq!(*world.fleet.images()[0].rules, *view.rules());
    assert_eq!(world.fleet.images()[0].seid, done.seid.0);
    assert_eq!(world.sessions.count().tunnels, 1);
    assert!(
        world
            .fleet
            .workers
            .iter()
            .all(|worker| worker.exceptions.len() == 1)
    );
    world.modify(done.seid, drop_downlink()).unwrap();
    let deleted = world.delete(done.seid).unwrap();
    assert_eq!(deleted.usage[0].count, uplink_count(3));
    world.assert_clean();
}

#[test]
fn refused_for_its_rules_it_leaves_the_live_session_alone() {
    let (mut world, done) = living();
    for refused in [broken(given_session(UE)), broken(chosen_session(UE2))] {
        let ticket = world.ticket();
        world
            .sessions
            .establish(world.now, ticket, SMF, cp_f_seid(1), refused);
        assert!(world.sessions.poll_effect().is_none(), "no worker receives it");
        let outcome = world.sessions.poll_outcome().unwrap();
        assert!(matches!(outcome.result, Err(Refusal::Rule { .. })), "{outcome:?}");
    }
    assert_lives(world, &done);
}

#[test]
fn refused_for_what_others_hold_it_leaves_the_live_session_alone() {
    let (mut world, done) = living();
    let other = world.establish(2, chosen_session(UE2)).unwrap();
    let taken = Err(Refusal::Rule {
        rule: DL.into(),
        fault: RuleFault::AddressTaken,
    });
    assert_eq!(world.establish(1, chosen_session(UE2)), taken);
    world.delete(other.seid).unwrap();
    assert_lives(world, &done);
}

#[test]
fn refused_by_the_worker_it_leaves_the_live_session_alone() {
    let (mut world, done) = living();
    let trouble = |world: &mut World, refuses| {
        let workers = world.fleet.workers.iter_mut();
        workers.for_each(|worker| worker.refuses_replace = refuses);
    };
    trouble(&mut world, true);
    assert_eq!(world.establish(1, chosen_session(UE2)), Err(Refusal::NoResources));
    trouble(&mut world, false);
    assert_lives(world, &done);
}

#[test]
fn too_late_it_is_undone_and_the_live_session_comes_back() {
    for steps in [0, 1, 8] {
        let (mut world, done) = living();
        let owner = world.sessions.session(done.seid).unwrap().bucket().index() % 4;
        let ticket = world.ticket();
        world
            .sessions
            .establish(world.now, ticket, SMF, cp_f_seid(1), chosen_session(UE2));
        world.hand_over();
        let done_already = (0..steps).filter_map(|_| world.fleet.workers[owner].step().flatten());
        let on_their_way: Vec<_> = done_already.collect();
        world.pass(Duration::from_secs(1));
        world.assert_too_late(ticket);
        for (op, answer) in on_their_way {
            world.sessions.applied(world.now, op, answer);
        }
        assert_eq!(world.run(), []);
        assert_lives(world, &done);
    }
}

#[test]
fn accepted_it_has_the_tunnel_the_address_and_a_seid_and_a_count_of_its_own() {
    let (mut world, old) = living();
    let new = world.establish(1, given_session(UE)).unwrap();
    assert_ne!(new.seid, old.seid);
    assert!(world.sessions.session(old.seid).is_none());
    assert_eq!(world.delete(old.seid), Err(Refusal::NotFound));
    let images = world.fleet.images();
    assert_eq!((images.len(), images[0].seid), (1, new.seid.0));
    let index = images[0].session;
    let generations: Vec<u32> = world
        .fleet
        .workers
        .iter()
        .flat_map(|worker| worker.generations.clone())
        .collect();
    assert_ne!(
        generations[0], generations[1],
        "no flow of the old one is the new one's"
    );
    world.fleet.count(index, UrrId(1), uplink_count(2));
    let deleted = world.delete(new.seid).unwrap();
    assert_eq!(
        (deleted.usage[0].sequence, deleted.usage[0].count),
        (0, uplink_count(2))
    );
    world.assert_clean();
}

#[test]
fn accepted_with_another_ue_it_frees_what_the_old_one_held() {
    let (mut world, _) = living();
    let new = world.establish(1, chosen_session(UE2)).unwrap();
    assert_eq!(world.sessions.count().tunnels, 1);
    let second = world.establish(2, given_session(UE)).expect("free again");
    world.delete(second.seid).unwrap();
    world.delete(new.seid).unwrap();
    world.assert_clean();
}

#[test]
fn it_needs_no_second_place() {
    let mut world = World::with(Config {
        max_sessions: 1,
        ..Config::for_workers(1)
    });
    world.fleet.workers[0].room = Some(1);
    let old = world.establish(1, chosen_session(UE)).unwrap();
    let new = world.establish(1, chosen_session(UE)).unwrap();
    assert_ne!(old.seid, new.seid);
    world.delete(new.seid).unwrap();
    world.assert_clean();
}

#[test]
fn it_waits_its_turn_and_what_is_behind_it_meant_the_old_session() {
    let (mut world, old) = living();
    let tickets: Vec<Ticket> = (0..4).map(|_| world.ticket()).collect();
    let (now, sessions) = (world.now, &mut world.sessions);
    sessions.modify(now, tickets[0], old.seid, None, drop_downlink());
    sessions.establish(now, tickets[1], SMF, cp_f_seid(1), given_session(UE));
    sessions.modify(now, tickets[2], old.seid, None, drop_downlink());
    sessions.establish(now, tickets[3], SMF, cp_f_seid(1), given_session(UE));
    let outcomes = world.run();
    let seid = |place: usize| outcomes[place].result.as_ref().map(|done| done.seid);
    let order: Vec<Ticket> = outcomes.iter().map(|outcome| outcome.ticket).collect();
    assert_eq!(order, [tickets[0], tickets[2], tickets[1], tickets[3]]);
    assert_eq!(seid(0), Ok(old.seid));
    assert_eq!(seid(1), Err(&Refusal::NotFound));
    assert_ne!(seid(2), seid(3));
    world.delete(seid(3).unwrap()).unwrap();
    world.assert_clean();
}

#[test]
fn it_is_a_session_of_its_own_when_the_old_one_goes_first() {
    let (mut world, old) = living();
    let tickets = [world.ticket(), world.ticket()];
    world.sessions.delete(world.now, tickets[0], old.seid);
    world
        .sessions
        .establish(world.now, tickets[1], SMF, cp_f_seid(1), given_session(UE));
    let outcomes = world.run();
    let done: Vec<&Done> = outcomes
        .iter()
        .map(|outcome| outcome.result.as_ref().unwrap())
        .collect();
    assert_eq!(done[0].usage[0].count, uplink_count(3));
    world.delete(done[1].seid).unwrap();
    world.assert_clean();
}

#[test]
fn it_is_served_when_the_worker_refuses_the_one_before() {
    let mut world = World::new(1);
    world.fleet.workers[0].room = Some(0);
    let tickets = [world.ticket(), world.ticket()];
    for ticket in tickets {
        world
            .sessions
            .establish(world.now, ticket, SMF, cp_f_seid(1), chosen_session(UE));
    }
    world.hand_over();
    let (op, result) = world.fleet.workers[0].step().unwrap().unwrap();
    world.fleet.workers[0].room = None;
    world.sessions.applied(world.now, op, result);
    let outcomes = world.run();
    assert_eq!(outcomes[0].result, Err(Refusal::NoResources));
    assert_eq!(outcomes[1].ticket, tickets[1]);
    world.delete(outcomes[1].result.as_ref().unwrap().seid).unwrap();
    world.assert_clean();
}

#[test]
fn it_leaves_a_session_alone_that_has_got_another_name_meanwhile() {
    let (mut world, old) = living();
    let tickets = [world.ticket(), world.ticket()];
    let (now, sessions) = (world.now, &mut world.sessions);
    sessions.modify(now, tickets[0], old.seid, Some(cp_f_seid(8)), Changes::default());
    sessions.establish(now, tickets[1], SMF, cp_f_seid(1), chosen_session(UE2));
    let outcomes = world.run();
    let new = outcomes[1].result.as_ref().unwrap().seid;
    assert!(world.sessions.session(old.seid).is_some());
    world.delete(old.seid).unwrap();
    world.delete(new).unwrap();
    world.assert_clean();
}
