//! Rules that cannot be run: which rule is named, and why.

use super::*;

#[test]
fn a_missing_reference_names_the_rule_and_what_it_misses() {
    let mut rules = session();
    rules.remove_far(FarId(2)).unwrap();
    assert_eq!(
        refusal(&rules),
        (PdrId(2).into(), CompileFault::Missing(FarId(2).into()))
    );
    let update = |change: fn(&mut PdrUpdate)| {
        let mut rules = session();
        let mut update = PdrUpdate::new(PdrId(1));
        change(&mut update);
        rules.update_pdr(update).unwrap();
        refusal(&rules)
    };
    let pdr = RuleRef::Pdr(PdrId(1));
    assert_eq!(
        update(|pdr| pdr.qers = Some(vec![QerId(8)])),
        (pdr, CompileFault::Missing(QerId(8).into()))
    );
    assert_eq!(
        update(|pdr| pdr.urrs = Some(vec![UrrId(8)])),
        (pdr, CompileFault::Missing(UrrId(8).into()))
    );
    let mut rules = session();
    let mut far = FarUpdate::new(FarId(1));
    far.bar = Edit::Set(BarId(3));
    rules.update_far(far).unwrap();
    assert_eq!(
        refusal(&rules),
        (FarId(1).into(), CompileFault::Missing(BarId(3).into()))
    );
    rules
        .create_bar(Bar {
            id: BarId(3),
            notification_delay: Some(2),
            suggested_packets: None,
            extended_packets: None,
        })
        .unwrap();
    assert!(compiled(&rules).is_ok());
    rules.remove_bar(BarId(3)).unwrap();
    assert!(compiled(&rules).is_ok());
}

#[test]
fn a_pdr_must_have_a_far_and_some_pdr_must_identify_the_session() {
    let mut rules = session();
    let mut pdr = testing::pdr(9, 1, Pdi::new(SourceInterface::Core), 1);
    pdr.far = None;
    rules.create_pdr(pdr.clone()).unwrap();
    assert_eq!(refusal(&rules), (PdrId(9).into(), CompileFault::NoFar));
    let mut rules = SessionRules::new();
    assert_eq!(compiled(&rules).map(|image| decisions(&image).len()), Ok(0));
    pdr.far = Some(FarId(1));
    rules.create_pdr(pdr).unwrap();
    assert_eq!(refusal(&rules), (PdrId(9).into(), CompileFault::Unreachable));
}

#[test]
fn tunnels_must_be_whole_and_ours() {
    let with_f_teid = |f_teid| {
        let mut rules = session();
        let mut update = PdrUpdate::new(PdrId(1));
        update.pdi = Some(PdiUpdate {
            f_teid: Edit::Set(f_teid),
            ..PdiUpdate::default()
        });
        rules.update_pdr(update).unwrap();
        refusal(&rules)
    };
    let f_teid = |teid, ipv4| FTeid {
        teid: Teid(teid),
        ipv4,
        ipv6: None,
    };
    let pdr = RuleRef::Pdr(PdrId(1));
    let n6 = Ipv4Addr::new(10, 0, 6, 1);
    assert_eq!(with_f_teid(f_teid(7, None)), (pdr, CompileFault::FTeidIncomplete));
    assert_eq!(
        with_f_teid(f_teid(0, Some(testing::N3_ADDRESS))),
        (pdr, CompileFault::FTeidIncomplete)
    );
    assert_eq!(
        with_f_teid(f_teid(7, Some(GNB))),
        (pdr, CompileFault::NotLocal(GNB.into()))
    );
    assert_eq!(
        with_f_teid(f_teid(7, Some(n6))),
        (pdr, CompileFault::NotLocal(n6.into()))
    );
}

#[test]
fn headers_that_are_not_made_here_are_refused() {
    let header = |kind, ipv4| OuterHeaderCreation {
        kind,
        ipv4,
        ..OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB)
    };
    let fault = |header| refusal(&forwarding(DestinationInterface::Core, Some(header)));
    let far = RuleRef::Far(FarId(2));
    let udp = header(OuterHeaderKind::UDP_IPV4, Some(GNB));
    assert_eq!(fault(udp), (far, CompileFault::UnsupportedHeader));
    assert_eq!(
        fault(header(OuterHeaderKind::default(), Some(GNB))),
        (far, CompileFault::UnsupportedHeader)
    );
    assert_eq!(
        fault(header(OuterHeaderKind::GTPU_IPV4, None)),
        (far, CompileFault::HeaderIncomplete)
    );
    let v6 = OuterHeaderCreation {
        ipv6: "2001:db8::1".parse().ok(),
        ..header(OuterHeaderKind::GTPU_IPV6, None)
    };
    let mut instances = testing::network().instances().to_vec();
    instances
        .iter_mut()
        .for_each(|instance| (instance.ipv6, instance.routes) = (None, Vec::new()));
    let ipv4_only = Network::new(instances).unwrap();
    let rules = Arc::new(forwarding(DestinationInterface::Core, Some(v6)));
    let error = compile(&rules, &ipv4_only, &NumberedHops).unwrap_err();
    assert_eq!((error.rule, error.reason), (far, CompileFault::NoEgress));
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(1));
    let removal = OuterHeaderRemoval {
        header: OuterHeader::UdpIpv4,
        deletes_psc: false,
    };
    update.outer_header_removal = Edit::Set(removal);
    rules.update_pdr(update).unwrap();
    assert_eq!(
        refusal(&rules),
        (PdrId(1).into(), CompileFault::UnsupportedRemoval)
    );
}

#[test]
fn a_peer_must_be_another_node() {
    let peer = |address: &str| match address.parse().unwrap() {
        IpAddr::V4(v4) => OuterHeaderCreation::gtpu_ipv4(Teid(7), v4),
        IpAddr::V6(v6) => OuterHeaderCreation {
            kind: OuterHeaderKind::GTPU_IPV6,
            ipv4: None,
            ipv6: Some(v6),
            ..OuterHeaderCreation::gtpu_ipv4(Teid(7), GNB)
        },
    };
    // No node's; this node's where no tunnels end; everyone's on N3.
    for address in [
        "0.0.0.1",
        "127.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::ffff:10.0.3.7",
        "ff02::1",
        "10.0.6.1",
        "2001:db8:6::1",
        "10.0.3.255",
    ] {
        let rules = forwarding(DestinationInterface::Access, Some(peer(address)));
        let expected = (FarId(2).into(), CompileFault::NoPeer(address.parse().unwrap()));
        assert_eq!(refusal(&rules), expected);
    }
    for address in ["10.0.3.0", "10.0.3.254", "10.200.0.255", "2001:db8:3::2"] {
        let rules = forwarding(DestinationInterface::Access, Some(peer(address)));
        assert!(compiled(&rules).is_ok(), "{address}");
    }
}

#[test]
fn an_action_must_be_one() {
    let far = RuleRef::Far(FarId(2));
    let both = ApplyAction::DROP.with(ApplyAction::FORW);
    assert_eq!(refusal(&with_far(both, None)), (far, CompileFault::ApplyAction));
    assert_eq!(
        refusal(&with_far(ApplyAction::default(), None)),
        (far, CompileFault::ApplyAction)
    );
}

#[test]
fn unknown_instances_are_named() {
    let unknown = InstanceId(77);
    let mut parameters = ForwardingParameters::new(DestinationInterface::Core);
    parameters.instance = Some(unknown);
    let rules = with_far(ApplyAction::DROP, Some(parameters));
    assert_eq!(
        refusal(&rules),
        (FarId(2).into(), CompileFault::UnknownInstance(unknown))
    );
    let mut rules = session();
    let mut update = PdrUpdate::new(PdrId(2));
    update.pdi = Some(PdiUpdate {
        instance: Edit::Set(unknown),
        ..PdiUpdate::default()
    });
    rules.update_pdr(update).unwrap();
    assert_eq!(
        refusal(&rules),
        (PdrId(2).into(), CompileFault::UnknownInstance(unknown))
    );
}

#[test]
fn a_session_is_bounded() {
    let mut rules = session();
    for id in 2..=64 {
        rules.create_qer(Qer::new(QerId(id))).unwrap();
        rules.create_urr(Urr::volume(UrrId(id))).unwrap();
    }
    assert!(compiled(&rules).is_ok());
    rules.create_urr(Urr::volume(UrrId(65))).unwrap();
    assert_eq!(
        refusal(&rules),
        (UrrId(65).into(), CompileFault::TooMany { max: 64 })
    );
    rules.create_qer(Qer::new(QerId(65))).unwrap();
    assert_eq!(
        refusal(&rules),
        (QerId(65).into(), CompileFault::TooMany { max: 64 })
    );
    for id in 3..=251 {
        let drop = Far {
            id: FarId(id),
            action: ApplyAction::DROP,
            forwarding: None,
            optional: Default::default(),
            bar: None,
        };
        rules.create_far(drop).unwrap();
    }
    assert_eq!(
        refusal(&rules),
        (FarId(251).into(), CompileFault::TooMany { max: 250 })
    );
    for id in 3..=1001 {
        rules
            .create_pdr(testing::pdr(id, 1, Pdi::new(SourceInterface::Core), 1))
            .unwrap();
    }
    assert_eq!(
        refusal(&rules),
        (PdrId(1001).into(), CompileFault::TooMany { max: 1000 })
    );
    assert!(CompileFault::TooMany { max: 1 }.is_resource());
}

#[test]
fn no_room_for_a_next_hop_is_a_lack_of_resources() {
    struct Full;
    impl Adjacencies for Full {
        fn resolve(&self, _: InstanceId, _: IpAddr) -> Option<AdjacencyId> {
            None
        }
    }
    let error = compile(&Arc::new(session()), &testing::network(), &Full).unwrap_err();
    assert_eq!(
        (error.rule, error.reason),
        (FarId(2).into(), CompileFault::NoAdjacency(GNB.into()))
    );
    assert!(error.reason.is_resource());
}

#[test]
fn what_a_urr_names_must_be_there() {
    let with = |terms: UrrTerms| {
        let mut rules = session();
        let urr = Urr {
            terms: Some(Box::new(terms)),
            ..Urr::volume(UrrId(2))
        };
        rules.create_urr(urr).unwrap();
        rules
    };
    let linked = |id| UrrTerms {
        linked: vec![UrrId(1), id],
        ..UrrTerms::NONE
    };
    let stopped = |id| UrrTerms {
        quota_action: Some(id),
        ..UrrTerms::NONE
    };
    let urr = RuleRef::Urr(UrrId(2));
    assert_eq!(
        refusal(&with(linked(UrrId(8)))),
        (urr, CompileFault::NoLinkedUrr(UrrId(8)))
    );
    assert_eq!(
        refusal(&with(stopped(FarId(8)))),
        (urr, CompileFault::NoQuotaAction(FarId(8)))
    );
    for terms in [linked(UrrId(2)), stopped(FarId(2))] {
        assert!(compiled(&with(terms)).is_ok());
    }
}

#[test]
fn a_credit_pool_is_of_urrs_that_are_there_once_and_weigh_alike_within_bounds() {
    let member = |urr, digits, exponent| Aggregated {
        urr: UrrId(urr),
        multiplier: Multiplier::new(digits, exponent).unwrap(),
    };
    let with = |pool: Vec<Aggregated>| {
        let mut rules = session();
        let urr = |id, pool| Urr {
            terms: Some(Box::new(UrrTerms {
                pool,
                ..UrrTerms::NONE
            })),
            ..Urr::volume(UrrId(id))
        };
        rules.create_urr(urr(2, None)).unwrap();
        rules.create_urr(urr(3, Some(Vec::new()))).unwrap();
        rules.create_urr(urr(4, Some(pool))).unwrap();
        rules
    };
    let one = member(1, 1, 0);
    let cases = [
        (vec![one, member(8, 1, 0)], PoolFault::NoUrr(UrrId(8))),
        (vec![one, member(2, 1, 0), one], PoolFault::Twice(UrrId(1))),
        (vec![member(3, 1, 0)], PoolFault::Nested(UrrId(3))),
        (vec![member(4, 1, 0)], PoolFault::Nested(UrrId(4))),
        (vec![one, member(2, 1001, 0)], PoolFault::Uneven(UrrId(2))),
        (
            vec![member(1, 1001, -3), member(2, 1, 0)],
            PoolFault::Uneven(UrrId(1)),
        ),
    ];
    for (pool, fault) in cases {
        let expected = (RuleRef::Urr(UrrId(4)), CompileFault::Pool(fault));
        assert_eq!(refusal(&with(pool)), expected);
    }
    for pool in [
        vec![],
        vec![one],
        vec![one, member(2, 1000, 0)],
        vec![member(1, 7, 9)],
    ] {
        image(&with(pool));
    }
}
