//! F-TEIDs that the user plane or the peer chooses, and which session may have which.

use crate::support;

use std::net::Ipv4Addr;

use rules::model::*;
use session::*;

use support::*;

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
        choose(PdrId(5), None),
    ];
    let done = world.establish(1, changes).unwrap();
    let of = |created: &[(Recipient, FTeid)], id: PdrId| {
        created.iter().find(|(to, _)| *to == id.into()).unwrap().1
    };
    let shared = of(&done.created, UL);
    assert_eq!(of(&done.created, PdrId(3)), shared);
    assert_ne!(of(&done.created, PdrId(4)), shared);
    assert_eq!(
        of(&done.created, PdrId(5)).ipv4,
        Some(Ipv4Addr::new(203, 0, 114, 10)),
        "N4-u"
    );
    let later = added_pdr(choose(PdrId(6), Some(5)));
    assert_eq!(
        world.modify(done.seid, later).unwrap().created,
        [(PdrId(6).into(), shared)]
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
}

/// TS 29.244 §8.2.3: the same CHOOSE ID in a request is the same F-TEID.
#[test]
fn equal_choose_ids_have_one_f_teid_across_network_instances() {
    let named = |instances: [Option<u16>; 2]| {
        let mut changes = chosen_session(UE);
        changes
            .create_pdrs
            .push(pdr(PdrId(3), SourceInterface::Access, FarId(1)));
        for (id, instance) in [UL, PdrId(3)].into_iter().zip(instances) {
            let mut pdrs = changes.create_pdrs.iter_mut();
            let pdr = pdrs.find(|pdr| pdr.id == id).unwrap();
            pdr.pdi.instance = instance.map(flow::InstanceId);
        }
        changes.choose = vec![choose(UL, Some(5)), choose(PdrId(3), Some(5))];
        changes
    };
    // The data network, the access network, none: all of them mean the one access address.
    for instances in [[Some(1), Some(0)], [Some(0), None], [None, Some(1)]] {
        let mut world = World::new(1);
        let done = world.establish(1, named(instances)).unwrap();
        assert_eq!(done.created.len(), 2);
        assert_eq!(done.created[0].1, done.created[1].1, "{instances:?}");
        assert_eq!(world.sessions.count().tunnels, 1);
        // Either name is valid for it in a later message.
        let mut later = added_pdr(choose(PdrId(6), Some(5)));
        later.create_pdrs[0].pdi.instance = instances[1].map(flow::InstanceId);
        let modified = world.modify(done.seid, later).unwrap();
        assert_eq!(modified.created, [(PdrId(6).into(), done.created[0].1)]);
        world.delete(done.seid).unwrap();
        world.assert_clean();
    }
}

#[test]
fn an_f_teid_is_not_at_the_addresses_of_two_network_instances() {
    let mut world = World::new(1);
    let mut changes = chosen_session(UE);
    let from_cp = pdr(PdrId(5), SourceInterface::CpFunction, FarId(2));
    changes.create_pdrs.push(from_cp);
    changes.choose = vec![choose(UL, Some(5)), choose(PdrId(5), Some(5))];
    let refused = Refusal::Rule {
        rule: PdrId(5).into(),
        fault: RuleFault::ChosenElsewhere,
    };
    assert_eq!(world.establish(1, changes), Err(refused));
    assert_eq!(world.sessions.count().tunnels, 0);
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
    let later = added_pdr(choose(PdrId(6), Some(5)));
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
            to: UL.into(),
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
            to: UL.into(),
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
    // The Network Instance relates to the address of the F-TEID (TS 29.244 Table 7.5.2.2-2, NOTE 2): one of another
    // instance is none.
    let refused = Refusal::Rule {
        rule: UL.into(),
        fault: RuleFault::NoLocalAddress,
    };
    assert_eq!(world.establish(1, on_n9(false, true)).unwrap_err(), refused);
    let mut unnamed = on_n9(false, true);
    unnamed.create_pdrs[0].pdi.instance = None;
    let done = world.establish(1, unnamed).unwrap();
    assert_eq!(
        done.created[0].1.ipv6,
        Some("2001:db8:3::10".parse().unwrap()),
        "without a name, of the next instance that has one"
    );
    world.delete(done.seid).unwrap();
    world.assert_clean();
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
fn what_a_request_draws_and_then_does_without_is_free_again() {
    let mut world = World::new(1);
    let done = world.establish(1, chosen_session(UE)).unwrap();
    let before = world.sessions.count().tunnels;
    let own = world
        .sessions
        .session(done.seid)
        .unwrap()
        .rules()
        .f_teids()
        .next()
        .unwrap();
    let mut changes = added_pdr(choose(PdrId(3), None));
    let pdi = PdiUpdate {
        source_interface: Some(SourceInterface::Access),
        f_teid: Edit::Set(own),
        ..PdiUpdate::default()
    };
    changes.update_pdrs = vec![PdrUpdate {
        pdi: Some(pdi),
        ..PdrUpdate::new(PdrId(3))
    }];
    let modified = world.modify(done.seid, changes).unwrap();
    assert_eq!(modified.created, [], "nothing is reported that is not so");
    assert_eq!(world.sessions.count().tunnels, before);
    world.delete(done.seid).unwrap();
    world.assert_clean();
}
