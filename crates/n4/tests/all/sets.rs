//! SMF sets: one association for the set, or one for each member; sessions that change hands; sets of sessions.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::{Peers, SessionEvent};
use pfcp::ie::{Cause, FSeid, UpFunctionFeatures};
use pfcp::message::{Message, SessionReportRequest};
use rules::model::OuterHeaderCreation;
use rules::prefix::IpPrefix;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const SSET: u8 = 0x08;
const MPAS: u8 = 0x20;
const SECOND_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 3);
const THIRD_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 4);
const OTHER_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 99);

fn at(address: Ipv4Addr) -> SocketAddr {
    SocketAddr::new(address.into(), 8805)
}

fn alternative(address: Ipv4Addr, is_preferred: bool) -> Octets {
    let flags = 2 | u8::from(is_preferred) << 2;
    ie(178, [&[flags], &address.octets()[..]].concat())
}

fn set_id(name: &str) -> Octets {
    ie(180, [&[0], &labels(name)[..]].concat())
}

fn csid(number: u16) -> Octets {
    let node = SMF_ADDRESS.octets();
    ie(65, [&[0x01], &node[..], &number.to_be_bytes(), &[2]].concat())
}

fn group_id(name: &str) -> Octets {
    ie(291, name)
}

/// An SMF set with one association.
fn with_one_association() -> World {
    let mut world = World::new();
    let setup = [
        node_name(&labels("set.example")),
        recovery(100),
        cp_features(SSET),
        alternative(THIRD_SMF, false),
        alternative(SECOND_SMF, true),
    ];
    world.ask(5, None, &setup).assert_accepted();
    world
}

/// Two members of a set, and another SMF.
fn with_one_each() -> World {
    members_in(World::new())
}

fn members_in(mut world: World) -> World {
    for (address, set) in [(SMF_ADDRESS, "set"), (SECOND_SMF, "SET"), (OTHER_SMF, "other")] {
        let setup = [node_v4(address), recovery(100), cp_features(MPAS), set_id(set)];
        let sequence = world.next_sequence();
        let reply = world.send(at(address), &message(5, None, sequence, &setup));
        reply[0].assert_accepted();
    }
    world
}

fn set_session(world: &mut World, cp: u64, more: &[Octets]) -> u64 {
    let node = match world.n4.associations().next().unwrap().node.to_string().as_str() {
        "set.example" => node_name(&labels("set.example")),
        _ => node_v4(SMF_ADDRESS),
    };
    let mut ies = plain_session(cp, Ipv4Addr::new(10, 45, 0, cp as u8));
    ies[0] = node;
    ies.extend_from_slice(more);
    world.ask(50, Some(0), &ies).up_seid()
}

fn happens(world: &mut World, seid: u64) -> Reply {
    let session = world.n4.sessions().session(session::Seid(seid)).unwrap().index();
    world
        .n4
        .handle_session_event(world.now, session, SessionEvent::Inactivity);
    let mut sent = world.transmits();
    assert_eq!(sent.len(), 1);
    sent.remove(0)
}

#[track_caller]
fn report(reply: &Reply) -> SessionReportRequest<'_> {
    match reply.message() {
        Message::SessionReportRequest(report) => report,
        other => panic!("{other:?}"),
    }
}

fn answer(world: &mut World, sent: &Reply, cause: Cause, more: &[Octets]) -> Vec<Reply> {
    let mut ies = vec![ie(19, [cause.value()])];
    ies.extend_from_slice(more);
    let sequence = sent.header().sequence.get();
    let to = sent.0.to;
    world.send(to, &message(57, Some(0), sequence, &ies))
}

fn old(seid: u64) -> Option<FSeid> {
    Some(FSeid {
        seid: pfcp::Seid(seid),
        ipv4: Some(SMF_ADDRESS),
        ipv6: None,
    })
}

/// Where a report went, under which SEID, and whose it was.
fn route(reply: &Reply) -> (SocketAddr, Option<u64>, Option<FSeid>) {
    let seid = reply.header().seid.map(|seid| seid.0);
    (reply.0.to, seid, report(reply).old_cp_f_seid)
}

#[test]
fn a_silent_smf_of_a_set_is_passed_over_for_the_preferred_one() {
    let mut world = with_one_association();
    let seid = set_session(&mut world, 7, &[]);
    let sent = happens(&mut world, seid);
    assert_eq!(route(&sent), (smf(), Some(7), None));
    for _ in 0..3 {
        assert_eq!(world.pass(SECOND), std::slice::from_ref(&sent));
    }
    let sent = world.pass(SECOND).remove(0);
    assert_eq!(route(&sent), (at(SECOND_SMF), Some(0), old(7)));
    for _ in 0..3 {
        world.pass(SECOND);
    }
    let sent = world.pass(SECOND).remove(0);
    assert_eq!(route(&sent), (at(THIRD_SMF), Some(0), old(7)));
    // It takes the session over, under a name of its own.
    let taken = f_seid(0x99, THIRD_SMF.into());
    assert!(answer(&mut world, &sent, Cause::REQUEST_ACCEPTED, &[taken]).is_empty());
    world.pass(SECOND);
    let sent = happens(&mut world, seid);
    assert_eq!(route(&sent), (at(THIRD_SMF), Some(0x99), None));
}

#[test]
fn after_the_last_of_a_set_the_first_is_tried_again_later() {
    let mut world = with_one_association();
    let seid = set_session(&mut world, 7, &[]);
    happens(&mut world, seid);
    for _ in 0..12 {
        world.pass(SECOND);
    }
    assert_eq!(world.n4.outstanding(), (0, 0));
    let sent = world.pass(10 * SECOND).remove(0);
    assert_eq!(route(&sent), (smf(), Some(7), None));
}

#[test]
fn a_redirected_report_goes_where_it_is_sent_and_not_in_circles() {
    let mut world = with_one_association();
    let seid = set_session(&mut world, 7, &[]);
    let mut sent = happens(&mut world, seid);
    let mut ways = Vec::new();
    loop {
        ways.push(route(&sent));
        let to = if ways.len() % 2 == 0 {
            SECOND_SMF
        } else {
            THIRD_SMF
        };
        let redirect = alternative(to, false);
        let mut next = answer(&mut world, &sent, Cause::REDIRECTION_REQUESTED, &[redirect]);
        match next.pop() {
            Some(next) => sent = next,
            None => break,
        }
        world.pass(SECOND / 10);
    }
    assert_eq!(ways[0], (smf(), Some(7), None));
    assert_eq!(ways[1], (at(THIRD_SMF), Some(0), old(7)));
    assert_eq!(ways[2], (at(SECOND_SMF), Some(0), old(7)));
    assert_eq!(world.n4.counters().reports_refused, 1);
}

#[test]
fn only_members_may_modify_and_delete() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    let modify = message(52, Some(seid), 50, &[f_seid(0x99, SECOND_SMF.into())]);
    let refused = world.send(at(OTHER_SMF), &modify);
    assert_eq!(refused[0].cause(), Some(Cause::SESSION_CONTEXT_NOT_FOUND));
    world.send(at(SECOND_SMF), &modify)[0].assert_accepted();
    let sent = happens(&mut world, seid);
    assert_eq!(route(&sent), (at(SECOND_SMF), Some(0x99), None));
    world.send(at(SECOND_SMF), &message(54, Some(seid), 51, &[]))[0].assert_accepted();
    assert_eq!(world.sessions(), 0);
}

#[test]
fn a_peer_that_takes_a_session_over_names_itself_and_owns_it() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    let take = |node: Ipv4Addr| [node_v4(node), f_seid(0x99, node.into())];
    let reply = world.send(at(OTHER_SMF), &message(52, Some(seid), 50, &take(OTHER_SMF)));
    assert_eq!(reply[0].cause(), Some(Cause::SESSION_CONTEXT_NOT_FOUND));
    world.send(at(SECOND_SMF), &message(52, Some(seid), 51, &take(SECOND_SMF)))[0].assert_accepted();
    // The first one goes; the session stays.
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.sessions(), 1);
    let sent = happens(&mut world, seid);
    assert_eq!(route(&sent), (at(SECOND_SMF), Some(0x99), None));
    world.send(at(SECOND_SMF), &message(9, None, 52, &[node_v4(SECOND_SMF)]))[0].assert_accepted();
    world.run();
    world.assert_clean();
}

#[test]
fn a_refused_take_over_changes_nothing() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    let bad = [node_v4(SECOND_SMF), csid(5), group(16, &[far_id(77)])];
    let reply = world.send(at(SECOND_SMF), &message(52, Some(seid), 50, &bad));
    assert!(!reply[0].cause().unwrap().is_accepted());
    let session = world.only_session();
    assert!(session.sets().ids.is_empty());
    assert_eq!(session.cp().seid, 7);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.sessions(), 0, "it was still the first one's");
}

#[test]
fn a_report_goes_to_another_association_of_the_set() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    happens(&mut world, seid);
    for _ in 0..3 {
        world.pass(SECOND);
    }
    let sent = world.pass(SECOND).remove(0);
    assert_eq!(route(&sent), (at(SECOND_SMF), Some(0), old(7)));
    let taken = [f_seid(0x99, SECOND_SMF.into()), node_v4(SECOND_SMF)];
    answer(&mut world, &sent, Cause::REQUEST_ACCEPTED, &taken);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.sessions(), 1, "it is the second one's");
}

#[test]
fn the_restart_of_a_member_ends_no_session_of_the_set() {
    for (mut world, node) in [
        (with_one_association(), node_name(&labels("set.example"))),
        (with_one_each(), node_v4(SMF_ADDRESS)),
    ] {
        set_session(&mut world, 7, &[]);
        let mut ies = plain_session(8, Ipv4Addr::new(10, 45, 0, 8));
        ies[0] = node;
        ies.push(recovery(200));
        world.ask(50, Some(0), &ies).up_seid();
        assert_eq!((world.n4.counters().peer_restarts, world.sessions()), (1, 2));
    }
}

#[test]
fn sessions_of_a_set_are_deleted_together() {
    let mut world = World::associated();
    for cp in 1..=6 {
        set_session(&mut world, cp, &[csid(cp as u16 % 3)]);
    }
    let other = [node_v4(SMF_ADDRESS), csid(9)];
    world.ask(14, None, &other).assert_accepted();
    assert_eq!(world.sessions(), 6);
    world
        .ask(14, None, &[node_v4(SMF_ADDRESS), csid(0), csid(2)])
        .assert_accepted();
    let left: Vec<u64> = world.n4.sessions().iter().map(|one| one.cp().seid).collect();
    assert_eq!(left, [1, 4]);
    let reply = world.ask(14, None, &[node_v4(SMF_ADDRESS)]);
    assert_eq!(reply.cause(), Some(Cause::CONDITIONAL_IE_MISSING));
    let reply = world.send(
        at(OTHER_SMF),
        &message(14, None, 1, &[node_v4(OTHER_SMF), csid(1)]),
    );
    assert_eq!(reply[0].cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
}

#[test]
fn one_smf_cannot_delete_or_move_anothers_sets() {
    let mut world = with_one_each();
    set_session(&mut world, 7, &[csid(1)]);
    let sent = [node_v4(OTHER_SMF), csid(1)];
    world.send(at(OTHER_SMF), &message(14, None, 1, &sent))[0].assert_accepted();
    assert_eq!(world.sessions(), 1);
    let change = group(290, &[csid(1), alternative(OTHER_SMF, false)]);
    world.send(
        at(OTHER_SMF),
        &message(16, None, 2, &[node_v4(OTHER_SMF), change]),
    )[0]
    .assert_accepted();
    assert_eq!(world.only_session().sets().reports_to, None);
}

#[test]
fn reports_of_a_set_of_sessions_go_where_a_set_modification_says() {
    let by_address = ie(292, [&[2], &SMF_ADDRESS.octets()[..]].concat());
    for named in [csid(1), group_id("blue"), by_address] {
        let mut world = with_one_each();
        let seid = set_session(&mut world, 7, &[csid(1), group_id("blue")]);
        let change = group(290, &[named, alternative(SECOND_SMF, false)]);
        world
            .ask(16, None, &[node_v4(SMF_ADDRESS), change])
            .assert_accepted();
        let sent = happens(&mut world, seid);
        assert_eq!(route(&sent), (at(SECOND_SMF), Some(0), old(7)));
        let taken = [
            f_seid(0x99, SECOND_SMF.into()),
            node_v4(SECOND_SMF),
            csid(4),
            group_id("red"),
        ];
        answer(&mut world, &sent, Cause::REQUEST_ACCEPTED, &taken);
        let session = world.only_session();
        assert_eq!(session.sets().group.as_deref(), Some(&b"red"[..]));
        assert_eq!(
            session.sets().ids.iter().map(|id| id.number).collect::<Vec<_>>(),
            [4]
        );
        assert_eq!((session.cp().seid, session.sets().reports_to), (0x99, None));
    }
}

#[test]
fn a_modification_gives_a_session_other_sets() {
    let mut world = World::associated();
    let seid = set_session(&mut world, 7, &[csid(1), group_id("blue")]);
    world.ask(52, Some(seid), &[csid(2)]).assert_accepted();
    let session = world.only_session();
    assert_eq!(
        session.sets().ids.iter().map(|id| id.number).collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(session.sets().group.as_deref(), Some(&b"blue"[..]));
}

/// TS 29.244 §8.2.43: an FQ-CSID without a CSID removes that of its kind of node, one with a null length all of them;
/// §5.6.3 for the Group Id.
#[test]
fn a_modification_takes_a_session_out_of_its_sets() {
    let of_kind = |kind: u8, csids: &[u8]| {
        let count = csids.len() as u8 / 2;
        let node = if count == 0 { [0; 4] } else { SMF_ADDRESS.octets() };
        ie(65, [&[count], &node[..], csids, &[kind]].concat())
    };
    let mut world = World::associated();
    let sets = [
        of_kind(0, &[0, 1]),
        of_kind(2, &[0, 2]),
        of_kind(1, &[0, 3]),
        group_id("blue"),
    ];
    let seid = set_session(&mut world, 7, &sets);
    let known = |world: &World| {
        let session = world.only_session();
        let ids: Vec<_> = session.sets().ids.iter().map(|id| (id.kind, id.number)).collect();
        (ids, session.sets().group.clone())
    };
    let blue = Some(Box::from(&b"blue"[..]));
    let all = vec![(Some(0), 1), (Some(2), 2), (Some(1), 3)];
    assert_eq!(known(&world), (all, blue.clone()));
    world.ask(52, Some(seid), &[of_kind(2, &[])]).assert_accepted();
    assert_eq!(known(&world), (vec![(Some(0), 1), (Some(1), 3)], blue.clone()));
    world.ask(52, Some(seid), &[ie(65, [])]).assert_accepted();
    assert_eq!(known(&world), (vec![], blue));
    world.ask(52, Some(seid), &[ie(291, [])]).assert_accepted();
    assert_eq!(known(&world), (vec![], None));
    // Nothing of that kind is named any more: a deletion of the set meets no session.
    world
        .ask(14, None, &[node_v4(SMF_ADDRESS), of_kind(0, &[0, 1])])
        .assert_accepted();
    assert_eq!(world.sessions(), 1);
}

/// A UP function with SSET or MPAS gives UE addresses (TS 29.244 §5.22.2 item 8, §5.22.3 item 9).
#[test]
fn sets_are_among_our_features_where_there_are_pools() {
    let pool = session::Pool {
        name: "pool".into(),
        instance: flow::InstanceId(1),
        ranges: Vec::new(),
    };
    for pools in [Vec::new(), vec![pool]] {
        let has_pools = !pools.is_empty();
        let mut config = World::config(2);
        config.sessions.pools = pools;
        let mut world = World::with(config);
        let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(1)]);
        let Message::AssociationSetupResponse(response) = reply.message() else {
            panic!()
        };
        let features = response.up_function_features.unwrap();
        for feature in [
            UpFunctionFeatures::UEIP,
            UpFunctionFeatures::SSET,
            UpFunctionFeatures::MPAS,
        ] {
            assert_eq!(features.contains(feature), has_pools, "{features:?}");
        }
        assert!(features.contains(UpFunctionFeatures::RESPS));
    }
}

/// A peer that takes a report over may name the tunnel of its packets (N4-u F-TEID, TS 29.244 §7.5.9.1).
#[test]
fn the_answer_to_a_report_leads_packets_for_the_control_plane_into_another_tunnel() {
    let n4u = |teid: u32, address: Ipv4Addr| OuterHeaderCreation::gtpu_ipv4(packet::Teid(teid), address);
    let (first, second) = (Ipv4Addr::new(203, 0, 114, 20), Ipv4Addr::new(203, 0, 114, 21));
    let mut world = with_one_each();
    let up_to_cp = create_pdr(&[
        pdr_id(3),
        precedence(9),
        pdi(&[source_if(ACCESS), choose(V4, None)]),
        far_id(3),
    ]);
    let to_cp = |id: u32, action: u8| {
        let parameters = [destination_if(CP), outer_header_creation(0x400 + id, first)];
        create_far(&[far_id(id), apply_action(&[action]), forwarding(&parameters)])
    };
    let more = [up_to_cp, to_cp(3, FORW), to_cp(4, BUFF)];
    let seid = set_session(&mut world, 7, &more);
    let headers = |world: &World| -> Vec<_> {
        let session = world.only_session();
        let fars = session.rules().fars().iter();
        let mut all: Vec<_> = fars
            .map(|far| (far.id.0, far.forwarding.and_then(|to| to.outer_header_creation)))
            .collect();
        all.sort_unstable_by_key(|(id, _)| *id);
        all
    };
    let before = headers(&world);
    assert_eq!(
        before[2..],
        [(3, Some(n4u(0x403, first))), (4, Some(n4u(0x404, first)))]
    );
    // Of a refusal nothing is taken, nor a wish for an F-TEID of ours.
    let tunnel = f_teid(0x555, second);
    for (cause, tunnel) in [
        (Cause::REQUEST_REJECTED, tunnel.clone()),
        (Cause::REQUEST_ACCEPTED, choose(V4, None)),
    ] {
        let sent = happens(&mut world, seid);
        answer(&mut world, &sent, cause, &[tunnel]);
        assert_eq!(headers(&world), before);
        world.pass(SECOND);
    }
    let sent = happens(&mut world, seid);
    let taken = [f_seid(0x99, SECOND_SMF.into()), node_v4(SECOND_SMF), tunnel];
    answer(&mut world, &sent, Cause::REQUEST_ACCEPTED, &taken);
    let to = Some(n4u(0x555, second));
    let after = headers(&world);
    assert_eq!(after[2..], [(3, to), (4, to)]);
    assert_eq!(after[..2], before[..2], "what leads elsewhere stays");
    assert_eq!(
        world
            .fleet
            .workers
            .iter()
            .map(|worker| worker.immediate_actions.len())
            .sum::<usize>(),
        1
    );
}

#[test]
fn where_peers_are_known_a_set_is_of_one_group() {
    let peers = |prefixes: [&str; 2]| {
        let parsed = prefixes.map(|prefix| prefix.parse::<IpPrefix>().expect("a prefix"));
        parsed.map(Peers::from).to_vec()
    };
    let one_group = || peers(["10.100.0.2/31", "10.100.0.0/16"]);
    let each_its_own = || peers(["10.100.0.2/32", "10.100.0.3/32"]);
    for (peers, may) in [(one_group(), true), (each_its_own(), false)] {
        let config = n4::Config {
            peers,
            ..World::config(2)
        };
        let mut world = members_in(World::with(config));
        let seid = set_session(&mut world, 7, &[]);
        let take = [node_v4(SECOND_SMF), f_seid(0x99, SECOND_SMF.into())];
        let reply = world.send(at(SECOND_SMF), &message(52, Some(seid), 50, &take));
        assert_eq!(reply[0].cause() == Some(Cause::REQUEST_ACCEPTED), may);
        assert_eq!(world.only_session().cp().seid, if may { 0x99 } else { 7 });
    }
}

#[test]
fn what_a_session_has_to_report_moves_with_it() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    // On its way to the first one while the second takes the session over.
    let sent = happens(&mut world, seid);
    let take = [node_v4(SECOND_SMF), f_seid(0x99, SECOND_SMF.into())];
    world.send(at(SECOND_SMF), &message(52, Some(seid), 50, &take))[0].assert_accepted();
    let index = world.only_session().index();
    let more = SessionEvent::ErrorIndication {
        peer: GNB.into(),
        teid: packet::Teid(9),
    };
    world.n4.handle_session_event(world.now, index, more);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.sessions(), 1);
    let mut after = answer(&mut world, &sent, Cause::REQUEST_ACCEPTED, &[]);
    after.extend(world.pass(SECOND / 2));
    let routes: Vec<_> = after.iter().map(route).collect();
    assert_eq!(
        routes,
        [(at(SECOND_SMF), Some(0x99), None)],
        "nothing is forgotten"
    );
}
