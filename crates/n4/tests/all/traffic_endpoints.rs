//! Traffic Endpoints, UE addresses from pools and framed routes, as an SMF asks for them.

use crate::support;

use std::net::Ipv4Addr;

use flow::InstanceId;
use pfcp::IeType;
use pfcp::group::CreatedTrafficEndpoint;
use pfcp::ie::{self, Cause, FTeid, FailedRuleId, UeIpAddress, UpFunctionFeatures};
use pfcp::message::Message;
use session::{Pool, PoolRange};

use support::traffic::{Fate, downlink, uplink};
use support::wire::*;
use support::*;

const SERVER: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 53);
const BEHIND: Ipv4Addr = Ipv4Addr::new(10, 60, 7, 7);

fn endpoint_id(id: u8) -> Octets {
    ie(131, [id])
}

fn create_endpoint(ies: &[Octets]) -> Octets {
    group(127, ies)
}

/// A session whose uplink PDR and downlink PDR name a Traffic Endpoint each.
fn session_of_endpoints(cp: u64, uplink_endpoint: &[Octets], downlink_endpoint: &[Octets]) -> Vec<Octets> {
    let mut ies = plain_session(cp, UE);
    let rule = |id, side, endpoint: u8, far, rest: &[Octets]| {
        let head = [
            pdr_id(id),
            precedence(100),
            pdi(&[source_if(side), endpoint_id(endpoint)]),
            far_id(far),
        ];
        create_pdr(&[&head[..], rest].concat())
    };
    ies[2] = rule(1, ACCESS, 1, 1, &[outer_header_removal(0)]);
    ies[3] = rule(2, CORE, 2, 2, &[]);
    ies.push(create_endpoint(&[&[endpoint_id(1)], uplink_endpoint].concat()));
    ies.push(create_endpoint(&[&[endpoint_id(2)], downlink_endpoint].concat()));
    ies
}

/// Number, TEID and UE addresses of every Created Traffic Endpoint.
fn endpoints(reply: &Reply) -> Vec<(u8, Option<u32>, Vec<UeIpAddress>)> {
    let reported = |endpoint: CreatedTrafficEndpoint<'_>| {
        let teid = endpoint.local_f_teid.map(|own| match own {
            FTeid::Endpoint { teid, .. } => teid.0,
            FTeid::Choose { .. } => panic!("{own:?}"),
        });
        (
            endpoint.traffic_endpoint_id.0,
            teid,
            endpoint.ue_ip_address.iter().collect(),
        )
    };
    match reply.message() {
        Message::SessionEstablishmentResponse(response) => {
            response.created_traffic_endpoint.iter().map(reported).collect()
        }
        Message::SessionModificationResponse(response) => {
            response.created_traffic_endpoint.iter().map(reported).collect()
        }
        other => panic!("{other:?}"),
    }
}

fn world_with_pools() -> World {
    let mut config = World::config(2);
    let last = Ipv4Addr::new(10, 46, 0, 2);
    config.sessions.pools = vec![
        Pool {
            name: "internet".into(),
            instance: InstanceId(1),
            ranges: vec![
                PoolRange::ipv4(Ipv4Addr::new(10, 45, 1, 1), Ipv4Addr::new(10, 45, 1, 254)).unwrap(),
                PoolRange::ipv6("2001:db8:1000::/36".parse().unwrap(), 64).unwrap(),
                PoolRange::ipv6("2001:db8:2000::/36".parse().unwrap(), 56).unwrap(),
            ],
        },
        Pool {
            name: "ims".into(),
            instance: InstanceId(2),
            ranges: vec![PoolRange::ipv4(last, last).unwrap()],
        },
    ];
    let mut world = World::with(config);
    world.associate();
    world
}

const CHV4: u8 = 0x10;
const CHV6: u8 = 0x20;

/// CHOOSE, with what follows the flags.
fn choose_ue_ip(flags: u8, rest: &[u8]) -> Octets {
    ie(93, [&[flags], rest].concat())
}

/// A plain session whose PDRs both want such an address; `more` goes into the Create PDRs.
fn session_to_address(cp: u64, dnn: &str, ue_ip: &Octets, more: &[Octets]) -> Vec<Octets> {
    let mut ies = plain_session(cp, UE);
    let rule = |id, side, far, what: &[Octets]| {
        let detection = [&[source_if(side), ue_ip.clone()], what].concat();
        let head = [
            pdr_id(id),
            precedence(100),
            pdi(&detection),
            outer_header_removal(0),
            far_id(far),
        ];
        create_pdr(&[&head[..], more].concat())
    };
    ies[2] = rule(1, ACCESS, 1, &[network_instance("access"), choose(V4, None)]);
    ies[3] = rule(2, CORE, 2, &[network_instance(dnn)]);
    ies
}

/// The UE addresses of every Created PDR.
fn created_ue_ips(reply: &Reply) -> Vec<UeIpAddress> {
    let Message::SessionEstablishmentResponse(response) = reply.message() else {
        panic!("{:?}", reply.message())
    };
    reply.assert_accepted();
    response
        .created_pdr
        .iter()
        .flat_map(|pdr| pdr.ue_ip_address.iter())
        .collect()
}

#[test]
fn a_session_of_traffic_endpoints_forwards_and_goes_with_them() {
    let mut world = World::associated();
    let ies = session_of_endpoints(1, &[choose(V4, None), ue_ip(false, UE)], &[ue_ip(true, UE)]);
    let reply = world.ask(50, Some(0), &ies);
    let seid = reply.up_seid();
    let [(1, Some(teid), no_ue_ip)] = &endpoints(&reply)[..] else {
        panic!("{:?}", reply.message())
    };
    assert!(no_ue_ip.is_empty() && reply.created().is_empty());
    let rules = world.only_session().rules().clone();
    assert_eq!(uplink(&rules, *teid, UE, SERVER, 9), Fate::Plain(InstanceId(1)));
    assert_eq!(
        uplink(&rules, *teid, BEHIND, SERVER, 9),
        Fate::Dropped,
        "another's address"
    );
    assert!(matches!(downlink(&rules, UE, SERVER), Fate::Tunnel(..)));

    let update = group(129, &[endpoint_id(1), choose(V4, None)]);
    let reply = world.ask(52, Some(seid), &[update]);
    reply.assert_accepted();
    let [(1, Some(other), _)] = &endpoints(&reply)[..] else {
        panic!("{:?}", reply.message())
    };
    let rules = world.only_session().rules().clone();
    assert_eq!(uplink(&rules, *teid, UE, SERVER, 9), Fate::Dropped);
    assert_eq!(uplink(&rules, *other, UE, SERVER, 9), Fate::Plain(InstanceId(1)));

    world
        .ask(52, Some(seid), &[group(130, &[endpoint_id(1)])])
        .assert_accepted();
    assert_eq!(world.only_session().rules().pdrs().len(), 1);
    assert_eq!(world.n4.sessions().count().tunnels, 0);
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn traffic_endpoints_that_cannot_be_had_change_nothing() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let unknown = because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::TRAFFIC_ENDPOINT_ID));
    let good = update_far(&[far_id(2), apply_action(&[DROP])]);
    for ies in [group(129, &[endpoint_id(9)]), group(130, &[endpoint_id(9)])] {
        assert_eq!(world.ask(52, Some(seid), &[good.clone(), ies]).verdict(), unknown);
    }
    let named = |ies: &[Octets]| {
        create_pdr(&[
            pdr_id(7),
            precedence(1),
            pdi(&[&[source_if(ACCESS)], ies].concat()),
            far_id(1),
        ])
    };
    let failure = because(
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        Some(IeType::TRAFFIC_ENDPOINT_ID),
    );
    let two = [
        create_endpoint(&[endpoint_id(1)]),
        create_endpoint(&[endpoint_id(2)]),
    ]
    .concat();
    for ies in [
        named(&[endpoint_id(9)]),
        [two.clone(), named(&[endpoint_id(1), endpoint_id(2)])].concat(),
        [two.clone(), named(&[endpoint_id(1), choose(V4, None)])].concat(),
    ] {
        let reply = world.ask(52, Some(seid), &[good.clone(), ies]);
        assert_eq!(
            (reply.verdict(), reply.failed_rule()),
            (failure, Some(FailedRuleId::Pdr(ie::PdrId(7))))
        );
    }
    let twice = world.ask(
        52,
        Some(seid),
        &[
            create_endpoint(&[endpoint_id(1)]),
            create_endpoint(&[endpoint_id(1)]),
        ],
    );
    assert_eq!(twice.verdict(), unknown);
    let far = world.only_session().rules().far(rules::model::FarId(2)).unwrap();
    assert_eq!(far.action, rules::model::ApplyAction::FORW);
    assert!(world.only_session().rules().endpoints().is_empty());
}

#[test]
fn ue_addresses_are_allocated_reported_and_forwarded_to() {
    let mut world = world_with_pools();
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100)]);
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    assert!(
        response
            .up_function_features
            .unwrap()
            .contains(UpFunctionFeatures::UEIP)
    );
    let reply = world.ask(
        50,
        Some(0),
        &session_to_address(1, "internet", &choose_ue_ip(CHV4 | CHV6, &[]), &[]),
    );
    let reported = created_ue_ips(&reply);
    let (v4, v6) = (reported[0].ipv4.unwrap(), reported[0].ipv6.unwrap());
    assert_eq!((reported.len(), reported[0]), (2, reported[1]));
    assert_eq!(reported[0].ipv6_prefix_length, None);
    assert!(v4.octets()[..3] == [10, 45, 1] && v6.segments()[2] >> 12 == 1);
    let rules = world.only_session().rules().clone();
    let teid = reply.created_teid();
    assert_eq!(uplink(&rules, teid, v4, SERVER, 9), Fate::Plain(InstanceId(1)));
    assert!(matches!(downlink(&rules, v4, SERVER), Fate::Tunnel(..)));
    world.ask(54, Some(reply.up_seid()), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn lengths_and_pools_are_the_requests_and_a_pool_ends_with_cause_79() {
    let mut world = world_with_pools();
    let ask = |world: &mut World, cp, dnn, ue_ip: Octets, more: &[Octets]| {
        world.ask(50, Some(0), &session_to_address(cp, dnn, &ue_ip, more))
    };
    let internet = |world: &mut World, cp, flags, length: &[u8], more: &[Octets]| {
        created_ue_ips(&ask(world, cp, "internet", choose_ue_ip(flags, length), more))
    };
    let delegated = internet(&mut world, 1, CHV6 | 0x08, &[8], &[]);
    let lengths = |ue_ip: &UeIpAddress| (ue_ip.ipv6_prefix_delegation_bits, ue_ip.ipv6_prefix_length);
    assert_eq!(lengths(&delegated[0]), (Some(8), None));
    let long = internet(&mut world, 2, CHV6 | 0x40, &[56], &[]);
    assert_eq!(lengths(&long[0]), (None, Some(56)));
    let as_configured = internet(&mut world, 3, CHV6 | 0x40, &[0], &[]);
    assert_eq!(
        as_configured[0].ipv6_prefix_length, None,
        "64, of the first range"
    );

    let pool = |name: &str| {
        ie(
            177,
            [&(name.len() as u16).to_be_bytes()[..], name.as_bytes()].concat(),
        )
    };
    let of_pool = internet(&mut world, 4, CHV4, &[], &[pool("ims")]);
    assert_eq!(of_pool[0].ipv4, Some(Ipv4Addr::new(10, 46, 0, 2)));
    let both = [pool("internet"), pool("internet")];
    assert_eq!(
        created_ue_ips(&ask(&mut world, 5, "ims", choose_ue_ip(CHV4 | CHV6, &[]), &both)).len(),
        2
    );
    let before = world.n4.sessions().count();
    let refusals = [
        (
            choose_ue_ip(CHV4, &[]),
            vec![],
            because(Cause::ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED, None),
        ),
        (choose_ue_ip(CHV6, &[]), vec![], failure(IeType::UE_IP_ADDRESS)),
        (
            choose_ue_ip(CHV4, &[]),
            vec![pool("nowhere")],
            failure(IeType::UE_IP_ADDRESS_POOL_IDENTITY),
        ),
        (
            choose_ue_ip(CHV6 | 0x40, &[129]),
            vec![],
            because(Cause::MANDATORY_IE_INCORRECT, Some(IeType::UE_IP_ADDRESS)),
        ),
    ];
    for (ue_ip, more, verdict) in refusals {
        assert_eq!(ask(&mut world, 6, "ims", ue_ip, &more).verdict(), verdict);
    }
    assert_eq!(world.n4.sessions().count(), before);
    let mut without = World::associated();
    let unsupported = because(Cause::SERVICE_NOT_SUPPORTED, Some(IeType::UE_IP_ADDRESS));
    assert_eq!(
        ask(&mut without, 1, "internet", choose_ue_ip(CHV4, &[]), &[]).verdict(),
        unsupported
    );
}

fn failure(offending: IeType) -> (u8, Option<u16>) {
    because(Cause::RULE_CREATION_MODIFICATION_FAILURE, Some(offending))
}

#[test]
fn an_endpoint_and_an_update_are_given_addresses() {
    let mut world = world_with_pools();
    let of_core = [network_instance("internet"), choose_ue_ip(CHV4, &[])];
    let reply = world.ask(
        50,
        Some(0),
        &session_of_endpoints(1, &[choose(V4, None)], &of_core),
    );
    let reported = endpoints(&reply);
    assert_eq!((reported.len(), reported[1].0, reported[1].2.len()), (2, 2, 1));
    let v4 = reported[1].2[0].ipv4.unwrap();
    assert!(matches!(
        downlink(world.only_session().rules(), v4, SERVER),
        Fate::Tunnel(..)
    ));
    let seid = reply.up_seid();
    let more = group(129, &[endpoint_id(2), choose_ue_ip(CHV6, &[])]);
    let reply = world.ask(52, Some(seid), &[more]);
    let reported = endpoints(&reply);
    assert_eq!(
        (reported[0].2.len(), reported[0].2[0].ipv4),
        (2, Some(v4)),
        "all that it has"
    );
    let pdi_update = pdi(&[
        source_if(CORE),
        network_instance("internet"),
        choose_ue_ip(CHV6, &[]),
    ]);
    let reply = world.ask(52, Some(seid), &[update_pdr(&[pdr_id(2), pdi_update])]);
    let Message::SessionModificationResponse(response) = reply.message() else {
        panic!()
    };
    let updated: Vec<_> = response.updated_pdr.iter().collect();
    assert_eq!((updated.len(), updated[0].ue_ip_address.iter().count()), (1, 3));
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn framed_routes_of_a_traffic_endpoint_lead_to_the_ue_and_from_it() {
    let mut world = World::associated();
    let route = || ie(153, "10.60.0.0/16 10.45.0.2 1");
    let v6 = || ie(155, "2001:db8:60::/48 :: 1");
    let ies = session_of_endpoints(
        1,
        &[choose(V4, None), ue_ip(false, UE), route()],
        &[ue_ip(true, UE), route(), v6()],
    );
    let reply = world.ask(50, Some(0), &ies);
    let seid = reply.up_seid();
    let [(1, Some(teid), _)] = &endpoints(&reply)[..] else {
        panic!("{:?}", reply.message())
    };
    let rules = world.only_session().rules().clone();
    for ue in [UE, BEHIND] {
        assert_eq!(
            uplink(&rules, *teid, ue, SERVER, 9),
            Fate::Plain(InstanceId(1)),
            "{ue}"
        );
        assert!(matches!(downlink(&rules, ue, SERVER), Fate::Tunnel(..)), "{ue}");
    }
    let other = Ipv4Addr::new(10, 61, 7, 7);
    assert_eq!(uplink(&rules, *teid, other, SERVER, 9), Fate::Dropped);
    assert_eq!(downlink(&rules, other, SERVER), Fate::Dropped);

    // Another route for the one; none for the other.
    let moved = group(129, &[endpoint_id(1), ie(153, "10.61.0.0/16")]);
    let none = group(129, &[endpoint_id(2), ie(153, []), ie(155, [])]);
    world.ask(52, Some(seid), &[moved, none]).assert_accepted();
    let rules = world.only_session().rules().clone();
    assert_eq!(
        uplink(&rules, *teid, other, SERVER, 9),
        Fate::Plain(InstanceId(1))
    );
    assert_eq!(uplink(&rules, *teid, BEHIND, SERVER, 9), Fate::Dropped);
    assert_eq!(downlink(&rules, BEHIND, SERVER), Fate::Dropped);
    assert!(matches!(downlink(&rules, UE, SERVER), Fate::Tunnel(..)));
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn framed_routes_lead_to_the_ue_and_from_it() {
    let mut world = World::associated();
    let route = ie(153, "10.60.0.0/16 10.45.0.2 1");
    let mut ies = plain_session(1, UE);
    let with_route = |id, side, far, f_teid: &[Octets]| {
        let what = [
            &[
                source_if(side),
                ue_ip(side == CORE, UE),
                route.clone(),
                ie(154, 1u32.to_be_bytes()),
            ],
            f_teid,
        ]
        .concat();
        create_pdr(&[
            pdr_id(id),
            precedence(100),
            pdi(&what),
            outer_header_removal(0),
            far_id(far),
        ])
    };
    ies[2] = with_route(1, ACCESS, 1, &[choose(V4, None)]);
    ies[3] = with_route(2, CORE, 2, &[]);
    let reply = world.ask(50, Some(0), &ies);
    let (seid, teid) = (reply.up_seid(), reply.created_teid());
    let rules = world.only_session().rules().clone();
    for ue in [UE, BEHIND] {
        assert_eq!(
            uplink(&rules, teid, ue, SERVER, 9),
            Fate::Plain(InstanceId(1)),
            "{ue}"
        );
        assert!(matches!(downlink(&rules, ue, SERVER), Fate::Tunnel(..)), "{ue}");
    }
    let other = Ipv4Addr::new(10, 61, 7, 7);
    assert_eq!(uplink(&rules, teid, other, SERVER, 9), Fate::Dropped);
    assert_eq!(downlink(&rules, other, SERVER), Fate::Dropped);

    let v6 = ie(155, "2001:db8:60::/48 :: 1");
    world
        .ask(
            52,
            Some(seid),
            &[update_pdr(&[pdr_id(2), pdi(&[source_if(CORE), v6])])],
        )
        .assert_accepted();
    let routes = &world
        .only_session()
        .rules()
        .pdr(rules::model::PdrId(2))
        .unwrap()
        .pdi
        .optional
        .framed_routes;
    assert_eq!(routes.len(), 2, "a part of a PDI leaves the rest");
    let none = pdi(&[source_if(CORE), ie(153, []), ie(155, [])]);
    world
        .ask(52, Some(seid), &[update_pdr(&[pdr_id(2), none])])
        .assert_accepted();
    assert_eq!(
        downlink(world.only_session().rules(), BEHIND, SERVER),
        Fate::Dropped
    );
    let bad = pdi(&[source_if(CORE), ie(153, "10.60.0.0/33")]);
    let reply = world.ask(52, Some(seid), &[update_pdr(&[pdr_id(2), bad])]);
    assert_eq!(reply.verdict(), failure(IeType::FRAMED_ROUTE));
    let foreign = plain_session(2, BEHIND);
    let with_taken = update_pdr(&[pdr_id(2), pdi(&[source_if(CORE), route.clone()])]);
    world.ask(52, Some(seid), &[with_taken]).assert_accepted();
    assert_eq!(
        world.ask(50, Some(0), &foreign).verdict(),
        because(Cause::RULE_CREATION_MODIFICATION_FAILURE, None)
    );
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.assert_clean();
}

#[test]
fn a_null_length_and_an_absent_ie_differ_in_an_update_of_a_bar() {
    let mut world = World::associated();
    let seid = world.establish(1, UE);
    let (delay, count) = (ie(46, [4]), ie(140, [7]));
    world
        .ask(52, Some(seid), &[create_bar(&[bar_id(1), delay, count])])
        .assert_accepted();
    let bar = |world: &World| *world.only_session().rules().bar(rules::model::BarId(1)).unwrap();
    world
        .ask(52, Some(seid), &[group(86, &[bar_id(1), ie(46, [5])])])
        .assert_accepted();
    assert_eq!(
        (bar(&world).notification_delay, bar(&world).suggested_packets),
        (Some(5), Some(7))
    );
    world
        .ask(
            52,
            Some(seid),
            &[group(86, &[bar_id(1), ie(46, []), ie(140, [])])],
        )
        .assert_accepted();
    assert_eq!(
        (bar(&world).notification_delay, bar(&world).suggested_packets),
        (None, None)
    );
}
