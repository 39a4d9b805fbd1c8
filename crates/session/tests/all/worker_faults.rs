//! Workers that are full, late or silent: what was refused has not happened, and nothing is left behind.

use crate::support;

use std::time::Duration;

use rules::model::*;
use session::*;

use support::*;

/// Requests a change; the worker has received it, and has not applied it.
fn begin(world: &mut World, seid: Seid, changes: Changes) -> Ticket {
    let ticket = world.ticket();
    world.sessions.modify(world.now, ticket, seid, None, changes);
    world.hand_over();
    ticket
}

fn too_late(ticket: Ticket) -> Outcome {
    let result = Err(Refusal::TooLate);
    Outcome { ticket, result }
}

#[test]
fn a_worker_without_room_refuses_whole() {
    let mut world = World::new(1);
    world.fleet.workers[0].room = Some(0);
    assert_eq!(world.establish(1, chosen_session(UE)), Err(Refusal::NoResources));
    world.assert_clean();
    world.fleet.workers[0].room = None;
    let done = world.establish(1, chosen_session(UE)).unwrap();
    world.fleet.workers[0].refuses_replace = true;
    let changes = added_pdr(choose(PdrId(3), None));
    assert_eq!(world.modify(done.seid, changes), Err(Refusal::NoResources));
    assert_eq!(world.sessions.count().tunnels, 1);
    assert!(
        world
            .sessions
            .session(done.seid)
            .unwrap()
            .rules()
            .pdr(PdrId(3))
            .is_none()
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_late_install_leaves_no_ghost() {
    let mut world = World::new(1);
    let ticket = world.ticket();
    world
        .sessions
        .establish(world.now, ticket, SMF, cp_f_seid(1), chosen_session(UE));
    world.hand_over();
    assert_eq!(
        world.sessions.poll_timeout(),
        Some(world.now + Duration::from_secs(1))
    );
    world.pass(Duration::from_secs(1));
    world.assert_too_late(ticket);
    assert_eq!(world.run(), [], "the install was done late, and undone");
    world.assert_clean();
}

#[test]
fn a_late_replace_is_rolled_back_and_its_usage_kept() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(5));
    let changes = Changes {
        remove_urrs: vec![UrrId(1)],
        create_pdrs: vec![{
            let mut extra = pdr(PdrId(3), SourceInterface::Access, FarId(1));
            extra.urrs.clear();
            extra
        }],
        choose: vec![choose(PdrId(3), None)],
        ..Changes::default()
    };
    let ticket = begin(&mut world, done.seid, changes);
    world.pass(Duration::from_secs(1));
    world.assert_too_late(ticket);
    assert_eq!(world.run(), []);
    let images = world.fleet.images();
    assert_eq!(
        *images[0].rules,
        *world.sessions.session(done.seid).unwrap().rules()
    );
    assert_eq!(images[0].rules.urrs().len(), 1);
    assert_eq!(
        world.sessions.count().tunnels,
        1,
        "the TEID of the late change is free again"
    );
    world.fleet.count(index, UrrId(1), uplink_count(2));
    let deleted = world.delete(done.seid).unwrap();
    assert_eq!(deleted.usage[0].count, uplink_count(7), "nothing is lost");
    world.assert_clean();
}

#[test]
fn a_credit_pool_keeps_what_it_counted_under_multipliers_that_were_taken_back() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    let members = |digits, exponent| {
        vec![Aggregated {
            urr: UrrId(1),
            multiplier: Multiplier::new(digits, exponent).unwrap(),
        }]
    };
    let terms = UrrTerms {
        pool: Some(members(2, 0)),
        ..UrrTerms::NONE
    };
    changes.create_urrs.push(Urr {
        terms: Some(Box::new(terms)),
        ..Urr::volume(UrrId(9))
    });
    let done = world.establish(1, changes).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(9), uplink_count(5));
    let reweighed = |digits, exponent| {
        let terms = UrrTermsUpdate {
            pool: Edit::Set(members(digits, exponent)),
            ..UrrTermsUpdate::default()
        };
        Changes {
            update_urrs: vec![UrrUpdate {
                terms: Some(Box::new(terms)),
                ..UrrUpdate::new(UrrId(9))
            }],
            ..Changes::default()
        }
    };
    let ticket = begin(&mut world, done.seid, reweighed(5, -1));
    world.pass(Duration::from_secs(1));
    world.assert_too_late(ticket);
    assert_eq!(world.run(), []);
    let octets = |reports: &[UsageReport]| {
        let of = reports.iter().find(|report| report.urr == UrrId(9));
        of.map(|report| report.count.ul_octets).unwrap()
    };
    world.fleet.count(index, UrrId(9), uplink_count(2));
    // Now in time: halves from here on.
    world.modify(done.seid, reweighed(5, -1)).unwrap();
    world.fleet.count(index, UrrId(9), uplink_count(3));
    let one = uplink_count(1).ul_octets;
    let deleted = world.delete(done.seid).unwrap();
    assert_eq!(octets(&deleted.usage), 2 * 7 * one + 3 * one / 2);
    world.assert_clean();
}

#[test]
fn a_late_removal_is_answered_late_with_all_usage() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(7));
    let ticket = world.ticket();
    world.sessions.delete(world.now, ticket, done.seid);
    world.hand_over();
    world.pass(Duration::from_secs(10));
    assert_eq!(world.sessions.poll_outcome(), None);
    let outcomes = world.run();
    let [
        Outcome {
            ticket: of,
            result: Ok(deleted),
        },
    ] = outcomes.as_slice()
    else {
        panic!("{outcomes:?}");
    };
    assert_eq!((*of, deleted.usage[0].count), (ticket, uplink_count(7)));
    assert_eq!(world.delete(done.seid), Err(Refusal::NotFound));
    world.assert_clean();
}

#[test]
fn what_waits_is_bounded_and_expires() {
    let mut world = World::with(Config {
        max_waiting: 1,
        ..Config::for_workers(1)
    });
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let changes = drop_downlink();
    let tickets: Vec<Ticket> = (0..3).map(|_| world.ticket()).collect();
    for ticket in &tickets {
        world
            .sessions
            .modify(world.now, *ticket, done.seid, None, changes.clone());
    }
    assert_eq!(world.sessions.poll_outcome().unwrap().result, Err(Refusal::Busy));
    world.hand_over();
    world.pass(Duration::from_secs(1));
    let refused: Vec<_> = std::iter::from_fn(|| world.sessions.poll_outcome()).collect();
    assert_eq!(refused.len(), 2);
    assert!(
        refused
            .iter()
            .all(|outcome| outcome.result == Err(Refusal::TooLate))
    );
    assert_eq!(world.run(), []);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_hung_workers_session_can_still_be_given_up() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ticket = begin(&mut world, done.seid, drop_downlink());
    world.pass(Duration::from_secs(2));
    world.hand_over();
    assert_eq!(world.end_association(), 1);
    assert_eq!(world.run(), [too_late(ticket)]);
    world.assert_clean();
}

#[test]
fn a_session_that_cannot_be_rolled_back_is_removed() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ticket = begin(&mut world, done.seid, drop_downlink());
    world.pass(Duration::from_secs(1));
    let (op, result) = world.fleet.workers[0].step().unwrap().unwrap();
    world.sessions.applied(world.now, op, result);
    world.fleet.workers[0].refuses_replace = true;
    assert_eq!(world.run(), [too_late(ticket)]);
    assert!(world.sessions.session(done.seid).is_none());
    world.assert_clean();
}

#[test]
fn unknown_operations_are_ignored() {
    let mut world = World::new(1);
    world.sessions.applied(world.now, flow::OpId(77), Ok(None));
    assert_eq!(world.run(), []);
}
