//! Sessions from establishment to deletion: what they hold, what is refused, what is reported.

use crate::support;

use std::net::Ipv4Addr;

use flow::{SessionIndex, WorkerId, bucket};
use packet::Teid;
use rules::model::*;
use session::*;

use support::*;

#[test]
fn a_session_lives_in_the_worker_of_its_ues_bucket_and_leaves_nothing_behind() {
    let mut world = World::new(4);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    assert_ne!(done.seid.0, 0);
    let [(Recipient::Pdr(UL), f_teid)] = done.created[..] else {
        panic!("{:?}", done.created)
    };
    assert_eq!(f_teid.ipv4, Some(Ipv4Addr::new(192, 0, 2, 10)));
    assert_eq!(f_teid.ipv6, None);
    assert_eq!(
        bucket::of_teid(f_teid.teid.0),
        home(UE),
        "the TEID leads to the session's worker by itself"
    );
    let owner = WorkerId((home(UE).index() % 4) as u16);
    assert_eq!(world.fleet.worker(owner).sessions.len(), 1);
    assert!(
        world
            .fleet
            .workers
            .iter()
            .all(|worker| worker.exceptions.is_empty())
    );
    world.delete(done.seid).unwrap();
    assert_eq!(world.delete(done.seid), Err(Refusal::NotFound));
    world.assert_clean();
}

#[test]
fn a_refused_establishment_leaves_nothing() {
    let mut world = World::new(2);
    let mut changes = chosen_session(UE);
    changes.create_pdrs[1].far = Some(FarId(99));
    let refused = world.establish(1, changes).unwrap_err();
    assert!(
        matches!(
            refused,
            Refusal::Rule {
                rule: RuleRef::Pdr(DL),
                ..
            }
        ),
        "{refused}"
    );
    assert_eq!(world.sessions.poll_timeout(), None);
    world.assert_clean();
}

#[test]
fn a_modification_changes_the_rules_and_touches_flows_only_if_it_must() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    world.modify(done.seid, drop_downlink()).unwrap();
    let pdr = PdrUpdate {
        precedence: Some(Precedence(7)),
        ..PdrUpdate::new(DL)
    };
    world
        .modify(
            done.seid,
            Changes {
                update_pdrs: vec![pdr],
                ..Changes::default()
            },
        )
        .unwrap();
    assert_eq!(world.fleet.workers[0].generations, [1, 1, 2]);
    let rules = world.sessions.session(done.seid).unwrap().rules();
    assert_eq!(rules.far(FarId(2)).unwrap().action, ApplyAction::DROP);
    assert_eq!(rules.pdr(DL).unwrap().precedence, Precedence(7));
}

#[test]
fn a_refused_modification_changes_nothing() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let before = world.sessions.session(done.seid).unwrap().rules().clone();
    let drop = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    for changes in [
        Changes {
            update_fars: vec![drop, FarUpdate::new(FarId(9))],
            ..Changes::default()
        },
        Changes {
            remove_pdrs: vec![DL],
            remove_urrs: vec![UrrId(9)],
            ..Changes::default()
        },
        Changes {
            remove_fars: vec![FarId(1)],
            ..Changes::default()
        },
        Changes {
            update_pdrs: vec![PdrUpdate::new(PdrId(9))],
            ..Changes::default()
        },
        Changes {
            query: Query::These(vec![UrrId(9)]),
            ..Changes::default()
        },
    ] {
        assert!(matches!(
            world.modify(done.seid, changes),
            Err(Refusal::Rule { .. })
        ));
        assert_eq!(*world.sessions.session(done.seid).unwrap().rules(), before);
    }
    assert_eq!(*world.fleet.images()[0].rules, before);
}

#[test]
fn what_an_association_leaves_is_removed_and_can_be_taken_over_at_once() {
    let mut world = World::new(2);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1235));
    world.establish(1, changes.clone()).unwrap();
    world.establish(2, chosen_session(UE2)).unwrap();
    assert_eq!(world.end_association(), 2);
    assert_eq!(world.sessions.count().sessions, 0);
    assert_eq!(
        world.sessions.count().indexes,
        2,
        "the workers have yet to confirm"
    );
    let done = world.establish(1, changes).expect("the same tunnel and address");
    assert_eq!(world.fleet.images().len(), 1);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn the_limit_of_sessions_is_kept_and_room_comes_back() {
    let mut world = World::with(Config {
        max_sessions: 1,
        ..Config::for_workers(1)
    });
    let done = world.establish(1, chosen_session(UE)).unwrap();
    assert_eq!(world.establish(2, chosen_session(UE2)), Err(Refusal::NoResources));
    world.delete(done.seid).unwrap();
    assert_eq!(world.establish(2, chosen_session(UE2)).map(drop), Ok(()));
}

#[test]
fn changes_of_one_session_are_served_in_turn_and_those_of_others_meanwhile() {
    let mut world = World::new(1);
    let one = world.establish(1, chosen_session(UE)).unwrap();
    let two = world.establish(2, chosen_session(UE2)).unwrap();
    let drop = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    let forward = FarUpdate {
        action: Some(ApplyAction::FORW),
        ..FarUpdate::new(FarId(2))
    };
    let tickets: Vec<Ticket> = (0..4).map(|_| world.ticket()).collect();
    let change = |update| Changes {
        update_fars: vec![update],
        ..Changes::default()
    };
    world
        .sessions
        .modify(world.now, tickets[0], one.seid, None, change(drop.clone()));
    world
        .sessions
        .modify(world.now, tickets[1], one.seid, None, change(forward));
    world
        .sessions
        .modify(world.now, tickets[2], two.seid, None, change(drop));
    world.sessions.delete(world.now, tickets[3], one.seid);
    world.hand_over();
    let waiting: Vec<SessionIndex> = world.fleet.workers[0]
        .queue
        .iter()
        .filter_map(|effect| match effect {
            Effect::Apply { change, .. } => Some(change.session()),
            _ => None,
        })
        .collect();
    assert_eq!(
        waiting,
        [SessionIndex(0), SessionIndex(1)],
        "one change per session at a time"
    );
    let outcomes = world.run();
    let order: Vec<Ticket> = outcomes.iter().map(|outcome| outcome.ticket).collect();
    assert_eq!(order, [tickets[0], tickets[2], tickets[1], tickets[3]]);
    assert!(outcomes.iter().all(|outcome| outcome.result.is_ok()));
}

#[test]
fn usage_is_reported_once_at_query_removal_dissociation_and_deletion() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    changes.create_urrs = (1..=3).map(|id| Urr::volume(UrrId(id))).collect();
    changes.create_pdrs[0].urrs = vec![UrrId(1), UrrId(2), UrrId(3)].into();
    let done = world.establish(1, changes).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    let count =
        |world: &mut World| (1..=3).for_each(|id| world.fleet.count(index, UrrId(id), uplink_count(1)));
    let reported = |done: &Done| {
        let reports = done.usage.iter();
        reports
            .map(|report| {
                (
                    report.urr.0,
                    report.sequence,
                    report.triggers,
                    report.count.ul_packets,
                )
            })
            .collect::<Vec<_>>()
    };
    const TERMINATION: UsageTriggers = UsageTriggers::TERMR;
    const IMMEDIATE: UsageTriggers = UsageTriggers::IMMER;

    count(&mut world);
    let asked = Changes {
        query: Query::These(vec![UrrId(1)]),
        ..Changes::default()
    };
    assert_eq!(
        reported(&world.modify(done.seid, asked.clone()).unwrap()),
        [(1, 0, IMMEDIATE, 1)]
    );
    assert_eq!(
        reported(&world.modify(done.seid, asked).unwrap()),
        [],
        "nothing since"
    );

    count(&mut world);
    let removed = Changes {
        remove_urrs: vec![UrrId(2)],
        ..Changes::default()
    };
    assert_eq!(
        reported(&world.modify(done.seid, removed).unwrap()),
        [(2, 0, TERMINATION, 2)]
    );

    let unlinked = PdrUpdate {
        urrs: Some(vec![UrrId(1)]),
        ..PdrUpdate::new(UL)
    };
    let dissociated = Changes {
        update_pdrs: vec![unlinked],
        ..Changes::default()
    };
    assert_eq!(
        reported(&world.modify(done.seid, dissociated).unwrap()),
        [(3, 0, TERMINATION, 2)]
    );

    let all = Changes {
        query: Query::All(Vec::new()),
        ..Changes::default()
    };
    assert_eq!(
        reported(&world.modify(done.seid, all).unwrap()),
        [(1, 1, IMMEDIATE, 1)]
    );
    let deleted = world.delete(done.seid).unwrap();
    assert_eq!(
        reported(&deleted),
        [(1, 2, TERMINATION, 0), (3, 1, TERMINATION, 0)]
    );
    world.assert_clean();
}

#[test]
fn a_peers_tunnel_leads_back_to_its_session() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let peer = "192.0.2.20".parse().unwrap();
    assert_eq!(
        world
            .sessions
            .session_by_remote(peer, Teid(0x100))
            .unwrap()
            .seid(),
        done.seid
    );
    let moved = ForwardingParametersUpdate {
        outer_header_creation: Edit::Set(OuterHeaderCreation::gtpu_ipv4(
            Teid(0x200),
            Ipv4Addr::new(192, 0, 2, 21),
        )),
        ..ForwardingParametersUpdate::default()
    };
    let update = FarUpdate {
        forwarding: Edit::Set(moved),
        ..FarUpdate::new(FarId(2))
    };
    world
        .modify(
            done.seid,
            Changes {
                update_fars: vec![update],
                ..Changes::default()
            },
        )
        .unwrap();
    assert!(world.sessions.session_by_remote(peer, Teid(0x100)).is_none());
    assert!(
        world
            .sessions
            .session_by_remote("192.0.2.21".parse().unwrap(), Teid(0x200))
            .is_some()
    );
    world.delete(done.seid).unwrap();
    assert!(
        world
            .sessions
            .session_by_remote("192.0.2.21".parse().unwrap(), Teid(0x200))
            .is_none()
    );
}

#[test]
fn a_new_cp_f_seid_is_the_sessions_name_from_then_on() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ticket = world.ticket();
    world.sessions.modify(
        world.now,
        ticket,
        done.seid,
        Some(cp_f_seid(8)),
        Changes::default(),
    );
    assert_eq!(world.run()[0].result.as_ref().unwrap().cp, cp_f_seid(8));
    world
        .establish(8, chosen_session(UE))
        .expect("takes the place of the session that is called so now");
    assert!(world.sessions.session(done.seid).is_none());
}

#[test]
fn two_sessions_that_send_to_one_tunnel_are_both_found_by_it() {
    let mut world = World::new(1);
    let peer: std::net::IpAddr = [192, 0, 2, 20].into();
    let first = world.establish(1, chosen_session(UE)).expect("a session").seid;
    let second = world.establish(2, chosen_session(UE2)).expect("another").seid;
    let found = |world: &World| {
        let all = world.sessions.sessions_by_remote(peer, Teid(0x100));
        let mut all: Vec<Seid> = all.map(|view| view.seid()).collect();
        all.sort_unstable();
        all
    };
    let mut both = [first, second];
    both.sort_unstable();
    assert_eq!(found(&world), both);
    world.modify(first, drop_downlink()).expect("it can");
    assert_eq!(found(&world), both);
    world.delete(first).expect("it goes");
    assert_eq!(found(&world), [second]);
    world.delete(second).expect("it goes");
    assert_eq!(found(&world), []);
    world.assert_clean();
}
