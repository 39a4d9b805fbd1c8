//! Sessions from establishment to deletion, with workers that do as they are told, late, or not at all.

mod support;

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::{Bucket, SessionIndex, WorkerId, bucket};
use packet::Teid;
use rules::model::*;
use session::*;

use support::*;

const UE: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 2);
const UE2: Ipv4Addr = Ipv4Addr::new(10, 45, 0, 3);

fn home(ue: Ipv4Addr) -> Bucket {
    bucket::of_ipv4(ue.octets())
}

#[test]
fn a_session_lives_in_the_worker_of_its_ues_bucket_and_leaves_nothing_behind() {
    let mut world = World::new(4);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    assert_ne!(done.seid.0, 0);
    let [(UL, f_teid)] = done.created[..] else {
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
            .all(|worker| worker.steering.is_empty())
    );
    world.delete(done.seid).unwrap();
    assert_eq!(world.delete(done.seid), Err(Refusal::NotFound));
    world.assert_clean();
}

#[test]
fn a_teid_of_the_peers_choice_is_steered_by_exception() {
    let mut world = World::new(4);
    let teid = (1..).find(|teid| bucket::of_teid(*teid) != home(UE)).unwrap();
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(teid));
    let done = world.establish(1, changes).unwrap();
    assert_eq!(done.created, []);
    for worker in &world.fleet.workers {
        assert_eq!(worker.steering.values().copied().collect::<Vec<_>>(), [home(UE)]);
    }
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn accepted_means_that_every_worker_steers() {
    let mut world = World::new(2);
    let teid = (1..).find(|teid| bucket::of_teid(*teid) != home(UE)).unwrap();
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(teid));
    let ticket = world.ticket();
    world
        .sessions
        .establish(world.now, ticket, SMF, cp_f_seid(1), changes);
    world.hand_over();
    let owner = WorkerId((home(UE).index() % 2) as u16);
    let answers: Vec<_> = std::iter::from_fn(|| world.fleet.worker(owner).step())
        .flatten()
        .collect();
    for (op, result) in answers {
        world.sessions.applied(world.now, op, result);
    }
    assert_eq!(
        world.sessions.poll_outcome(),
        None,
        "the other worker does not steer yet"
    );
    assert_eq!(world.run().len(), 1);
}

#[test]
fn a_second_address_is_steered_too() {
    let mut world = World::new(4);
    let mut changes = chosen_session(UE);
    for pdr in &mut changes.create_pdrs {
        pdr.pdi.ue_ip[0].ipv6 = Some(("2001:db8:45::".parse().unwrap(), 64));
    }
    let done = world.establish(1, changes).unwrap();
    let keys: Vec<SteerKey> = world.fleet.workers[0].steering.keys().copied().collect();
    assert!(
        matches!(keys[..], [SteerKey::Address(_, prefix)] if !prefix.is_ipv4()),
        "{keys:?}"
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn a_session_without_addresses_lives_where_its_first_tunnel_does() {
    let mut world = World::new(4);
    let mut changes = chosen_session(UE);
    changes
        .create_pdrs
        .iter_mut()
        .for_each(|pdr| pdr.pdi.ue_ip.clear());
    changes.choose = vec![choose(UL, None), choose(DL, None)];
    let done = world.establish(1, changes).unwrap();
    let buckets: Vec<Bucket> = done
        .created
        .iter()
        .map(|(_, f_teid)| bucket::of_teid(f_teid.teid.0))
        .collect();
    assert_eq!(buckets[0], buckets[1]);
    assert_eq!(world.sessions.session(done.seid).unwrap().bucket(), buckets[0]);
    assert_eq!(
        done.created[1].1.ipv4,
        Some(Ipv4Addr::new(203, 0, 113, 10)),
        "the core side is N9"
    );
    world.delete(done.seid).unwrap();
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
    let far = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    world
        .modify(
            done.seid,
            Changes {
                update_fars: vec![far],
                ..Changes::default()
            },
        )
        .unwrap();
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
fn a_removed_pdr_frees_its_tunnel_after_the_quarantine() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let mut extra = pdr(PdrId(3), SourceInterface::Access, FarId(1));
    extra.precedence = Precedence(50);
    let changes = Changes {
        create_pdrs: vec![extra],
        choose: vec![choose(PdrId(3), None)],
        ..Changes::default()
    };
    let modified = world.modify(done.seid, changes).unwrap();
    assert_eq!(world.sessions.count().tunnels, 2);
    assert_ne!(modified.created[0].1, done.created[0].1);
    world
        .modify(
            done.seid,
            Changes {
                remove_pdrs: vec![PdrId(3)],
                ..Changes::default()
            },
        )
        .unwrap();
    assert_eq!(world.sessions.count().tunnels, 1);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn choose_ids_share_within_a_message_and_across_the_session() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    changes
        .create_pdrs
        .push(pdr(PdrId(3), SourceInterface::Access, FarId(1)));
    changes
        .create_pdrs
        .push(pdr(PdrId(4), SourceInterface::Access, FarId(1)));
    changes
        .create_pdrs
        .push(pdr(PdrId(5), SourceInterface::CpFunction, FarId(2)));
    changes.choose = vec![
        choose(UL, Some(5)),
        choose(PdrId(3), Some(5)),
        choose(PdrId(4), None),
        choose(PdrId(5), Some(5)),
    ];
    let done = world.establish(1, changes).unwrap();
    let of = |created: &[(PdrId, FTeid)], id| created.iter().find(|(pdr, _)| *pdr == id).unwrap().1;
    let shared = of(&done.created, UL);
    assert_eq!(of(&done.created, PdrId(3)), shared);
    assert_ne!(of(&done.created, PdrId(4)), shared);
    assert_ne!(
        of(&done.created, PdrId(5)),
        shared,
        "another side is another tunnel"
    );
    assert_eq!(
        of(&done.created, PdrId(5)).ipv4,
        Some(Ipv4Addr::new(203, 0, 114, 10)),
        "N4-u"
    );
    let later = Changes {
        create_pdrs: vec![pdr(PdrId(6), SourceInterface::Access, FarId(1))],
        choose: vec![choose(PdrId(6), Some(5))],
        ..Changes::default()
    };
    assert_eq!(
        world.modify(done.seid, later).unwrap().created,
        [(PdrId(6), shared)]
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn choose_ids_are_of_one_message_if_so_configured() {
    let config = Config {
        choose_id_spans_session: false,
        ..Config::for_workers(1)
    };
    let mut world = World::with(config);
    let changes = Changes {
        choose: vec![choose(UL, Some(5))],
        ..session(UE)
    };
    let done = world.establish(1, changes).unwrap();
    let later = Changes {
        create_pdrs: vec![pdr(PdrId(6), SourceInterface::Access, FarId(1))],
        choose: vec![choose(PdrId(6), Some(5))],
        ..Changes::default()
    };
    assert_ne!(
        world.modify(done.seid, later).unwrap().created[0].1,
        done.created[0].1
    );
}

#[test]
fn every_spelling_of_choose_gets_what_there_is() {
    let v4 = Some(Ipv4Addr::new(192, 0, 2, 10));
    let v6 = Some("2001:db8:3::10".parse().unwrap());
    for (ipv4, ipv6, expected) in [
        (true, false, (v4, None)),
        (false, true, (None, v6)),
        (true, true, (v4, v6)),
        (false, false, (v4, None)),
    ] {
        let mut world = World::new(1);
        let choose = Choose {
            pdr: UL,
            ipv4,
            ipv6,
            id: None,
        };
        let done = world
            .establish(
                1,
                Changes {
                    choose: vec![choose],
                    ..session(UE)
                },
            )
            .unwrap();
        let f_teid = done.created[0].1;
        assert_eq!((f_teid.ipv4, f_teid.ipv6), expected);
        world.delete(done.seid).unwrap();
        world.assert_clean();
    }
}

#[test]
fn a_family_that_no_address_has_is_refused_and_both_get_what_there_is() {
    let mut world = World::new(1);
    let on_n9 = |ipv4, ipv6| {
        let mut changes = session(UE);
        changes.create_pdrs[0].pdi.instance = Some(flow::InstanceId(3));
        changes.create_pdrs[0].pdi.source_interface = SourceInterface::CpFunction;
        changes.choose = vec![Choose {
            pdr: UL,
            ipv4,
            ipv6,
            id: None,
        }];
        changes
    };
    let done = world.establish(1, on_n9(true, true)).unwrap();
    assert_eq!(
        (done.created[0].1.ipv4.is_some(), done.created[0].1.ipv6),
        (true, None)
    );
    world.delete(done.seid).unwrap();
    let done = world.establish(1, on_n9(false, true)).unwrap();
    assert_eq!(
        done.created[0].1.ipv6,
        Some("2001:db8:3::10".parse().unwrap()),
        "from the next best instance"
    );
}

#[test]
fn the_data_networks_instance_on_an_access_pdr_gets_the_access_address() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    changes
        .create_pdrs
        .iter_mut()
        .for_each(|pdr| pdr.pdi.instance = Some(flow::InstanceId(1)));
    let done = world.establish(1, changes).unwrap();
    assert_eq!(done.created[0].1.ipv4, Some(Ipv4Addr::new(192, 0, 2, 10)));
}

#[test]
fn a_teid_of_the_peers_choice_is_refused_unless_allowed_known_or_restored() {
    let mut world = World::with(Config::for_workers(1));
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let refused = Err(Refusal::Rule {
        rule: UL.into(),
        fault: RuleFault::ChosenByPeer,
    });
    assert_eq!(world.establish(1, changes.clone()), refused);
    let restored = Changes {
        restores: true,
        ..changes
    };
    let done = world.establish(1, restored).unwrap();
    let mut again = pdr(PdrId(3), SourceInterface::Access, FarId(1));
    again.pdi.f_teid = Some(given(0x1234));
    world
        .modify(
            done.seid,
            Changes {
                create_pdrs: vec![again],
                ..Changes::default()
            },
        )
        .unwrap();
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn two_sessions_never_have_the_same_tunnel_or_address() {
    let mut world = World::new(2);
    let mut first = session(UE);
    first.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let done = world.establish(1, first).unwrap();
    let mut second = session(UE2);
    second.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let taken = |rule: PdrId, fault| {
        Err(Refusal::Rule {
            rule: rule.into(),
            fault,
        })
    };
    assert_eq!(
        world.establish(2, second.clone()),
        taken(UL, RuleFault::TunnelTaken)
    );
    assert_eq!(
        world.establish(2, chosen_session(UE)),
        taken(DL, RuleFault::AddressTaken)
    );
    assert_eq!(world.sessions.count().tunnels, 1);
    world.delete(done.seid).unwrap();
    let done = world.establish(2, second).expect("free again");
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

#[test]
fn an_update_that_says_choose_keeps_the_f_teid() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ue = UeIpAddress {
        ipv4: Some(UE),
        ipv6: None,
        is_destination: false,
    };
    let pdi = PdiUpdate {
        ue_ip: Some(vec![ue]),
        ..PdiUpdate::default()
    };
    let update = PdrUpdate {
        pdi: Some(pdi),
        ..PdrUpdate::new(UL)
    };
    let changes = Changes {
        update_pdrs: vec![update],
        choose: vec![choose(UL, None)],
        ..Changes::default()
    };
    world.modify(done.seid, changes).unwrap();
    let rules = world.sessions.session(done.seid).unwrap().rules();
    assert_eq!(rules.pdr(UL).unwrap().pdi.f_teid, Some(done.created[0].1));
}

#[test]
fn an_establishment_under_the_same_f_seid_replaces_the_lost_session() {
    let mut world = World::new(2);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1234));
    let first = world.establish(1, changes.clone()).unwrap();
    let second = world.establish(1, changes).unwrap();
    assert_ne!(first.seid, second.seid);
    assert!(world.sessions.session(first.seid).is_none());
    assert_eq!(world.fleet.images().len(), 1);
    world.delete(second.seid).unwrap();
    world.assert_clean();
}

#[test]
fn what_an_association_leaves_is_removed_and_can_be_taken_over_at_once() {
    let mut world = World::new(2);
    let mut changes = session(UE);
    changes.create_pdrs[0].pdi.f_teid = Some(given(0x1235));
    world.establish(1, changes.clone()).unwrap();
    world.establish(2, chosen_session(UE2)).unwrap();
    assert_eq!(world.sessions.remove_association(SMF, |_| true), 2);
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
fn a_worker_without_room_refuses_whole() {
    let mut world = World::new(1);
    world.fleet.workers[0].room = Some(0);
    assert_eq!(world.establish(1, chosen_session(UE)), Err(Refusal::NoResources));
    world.assert_clean();
    world.fleet.workers[0].room = None;
    let done = world.establish(1, chosen_session(UE)).unwrap();
    world.fleet.workers[0].refuses_replace = true;
    let changes = Changes {
        create_pdrs: vec![pdr(PdrId(3), SourceInterface::Access, FarId(1))],
        choose: vec![choose(PdrId(3), None)],
        ..Changes::default()
    };
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
    assert_eq!(
        world.sessions.poll_outcome(),
        Some(Outcome {
            ticket,
            result: Err(Refusal::TooLate)
        })
    );
    assert_eq!(world.run(), [], "the install was done late, and undone");
    world.assert_clean();
}

#[test]
fn a_late_replace_is_rolled_back_and_its_usage_kept() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    world.fleet.count(index, UrrId(1), uplink_count(5));
    let ticket = world.ticket();
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
    world.sessions.modify(world.now, ticket, done.seid, None, changes);
    world.hand_over();
    world.pass(Duration::from_secs(1));
    assert_eq!(
        world.sessions.poll_outcome(),
        Some(Outcome {
            ticket,
            result: Err(Refusal::TooLate)
        })
    );
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
fn a_late_removal_is_a_removal() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ticket = world.ticket();
    world.sessions.delete(world.now, ticket, done.seid);
    world.hand_over();
    world.pass(Duration::from_secs(1));
    assert_eq!(
        world.sessions.poll_outcome(),
        Some(Outcome {
            ticket,
            result: Err(Refusal::TooLate)
        })
    );
    assert_eq!(world.delete(done.seid), Err(Refusal::NotFound));
    world.assert_clean();
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
        .modify(world.now, tickets[0], one.seid, None, change(drop));
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
fn what_waits_is_bounded_and_expires() {
    let mut world = World::with(Config {
        max_waiting: 1,
        ..Config::for_workers(1)
    });
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let drop = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    let changes = Changes {
        update_fars: vec![drop],
        ..Changes::default()
    };
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
    let drop = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    let ticket = world.ticket();
    let changes = Changes {
        update_fars: vec![drop],
        ..Changes::default()
    };
    world.sessions.modify(world.now, ticket, done.seid, None, changes);
    world.hand_over();
    world.pass(Duration::from_secs(2));
    world.hand_over();
    assert_eq!(world.sessions.remove_association(SMF, |_| true), 1);
    let late = world.run();
    assert_eq!(
        late,
        [Outcome {
            ticket,
            result: Err(Refusal::TooLate)
        }]
    );
    world.assert_clean();
}

#[test]
fn usage_is_reported_once_at_query_removal_dissociation_and_deletion() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    changes.create_urrs = (1..=3).map(|id| Urr::volume(UrrId(id))).collect();
    changes.create_pdrs[0].urrs = vec![UrrId(1), UrrId(2), UrrId(3)];
    let done = world.establish(1, changes).unwrap();
    let index = world.sessions.session(done.seid).unwrap().index();
    let count =
        |world: &mut World| (1..=3).for_each(|id| world.fleet.count(index, UrrId(id), uplink_count(1)));
    let told = |done: &Done| {
        let reports = done.usage.iter();
        reports
            .map(|report| {
                (
                    report.urr.0,
                    report.sequence,
                    report.cause,
                    report.count.ul_packets,
                )
            })
            .collect::<Vec<_>>()
    };
    use ReportCause::{Immediate, Termination};

    count(&mut world);
    let asked = Changes {
        query: Query::These(vec![UrrId(1)]),
        ..Changes::default()
    };
    assert_eq!(
        told(&world.modify(done.seid, asked.clone()).unwrap()),
        [(1, 0, Immediate, 1)]
    );
    assert_eq!(
        told(&world.modify(done.seid, asked).unwrap()),
        [],
        "nothing since"
    );

    count(&mut world);
    let removed = Changes {
        remove_urrs: vec![UrrId(2)],
        ..Changes::default()
    };
    assert_eq!(
        told(&world.modify(done.seid, removed).unwrap()),
        [(2, 0, Termination, 2)]
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
        told(&world.modify(done.seid, dissociated).unwrap()),
        [(3, 0, Termination, 2)]
    );

    let all = Changes {
        query: Query::All,
        ..Changes::default()
    };
    assert_eq!(
        told(&world.modify(done.seid, all).unwrap()),
        [(1, 1, Immediate, 1)]
    );
    let deleted = world.delete(done.seid).unwrap();
    assert_eq!(told(&deleted), [(1, 2, Termination, 0), (3, 1, Termination, 0)]);
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
fn unknown_operations_are_ignored() {
    let mut world = World::new(1);
    world.sessions.applied(world.now, flow::OpId(77), Ok(None));
    assert_eq!(world.run(), []);
}

#[test]
fn a_session_that_cannot_be_rolled_back_is_removed() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let ticket = world.ticket();
    let drop = FarUpdate {
        action: Some(ApplyAction::DROP),
        ..FarUpdate::new(FarId(2))
    };
    let changes = Changes {
        update_fars: vec![drop],
        ..Changes::default()
    };
    world.sessions.modify(world.now, ticket, done.seid, None, changes);
    world.hand_over();
    world.pass(Duration::from_secs(1));
    let (op, result) = world.fleet.workers[0].step().unwrap().unwrap();
    world.sessions.applied(world.now, op, result);
    world.fleet.workers[0].refuses_replace = true;
    assert_eq!(
        world.run(),
        [Outcome {
            ticket,
            result: Err(Refusal::TooLate)
        }]
    );
    assert!(world.sessions.session(done.seid).is_none());
    world.assert_clean();
}
