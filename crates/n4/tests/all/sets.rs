//! SMF sets: one association for the set, or one for each member; sessions that change hands; sets of sessions.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::{Peers, SessionEvent};
use pfcp::ie::{Cause, FSeid, UpFunctionFeatures};
use pfcp::message::{Message, SessionReportRequest};
use rules::prefix::IpPrefix;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const SSET: u8 = 0x08;
const MPAS: u8 = 0x20;
const SECOND_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 3);
const THIRD_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 4);
const STRANGER: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 99);

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

/// Two members of a set, and somebody else.
fn with_one_each() -> World {
    members_in(World::new())
}

fn members_in(mut world: World) -> World {
    for (address, set) in [(SMF_ADDRESS, "set"), (SECOND_SMF, "SET"), (STRANGER, "other")] {
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
fn any_member_may_modify_and_delete_and_nobody_else() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    let modify = message(52, Some(seid), 50, &[f_seid(0x99, SECOND_SMF.into())]);
    let refused = world.send(at(STRANGER), &modify);
    assert_eq!(refused[0].cause(), Some(Cause::SESSION_CONTEXT_NOT_FOUND));
    world.send(at(SECOND_SMF), &modify)[0].assert_accepted();
    let sent = happens(&mut world, seid);
    assert_eq!(route(&sent), (at(SECOND_SMF), Some(0x99), None));
    world.send(at(SECOND_SMF), &message(54, Some(seid), 51, &[]))[0].assert_accepted();
    assert_eq!(world.sessions(), 0);
}

#[test]
fn who_takes_a_session_over_names_itself_and_owns_it_from_then_on() {
    let mut world = with_one_each();
    let seid = set_session(&mut world, 7, &[]);
    let take = |node: Ipv4Addr| [node_v4(node), f_seid(0x99, node.into())];
    let reply = world.send(at(STRANGER), &message(52, Some(seid), 50, &take(STRANGER)));
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
    let reply = world.send(at(STRANGER), &message(14, None, 1, &[node_v4(STRANGER), csid(1)]));
    assert_eq!(reply[0].cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
}

#[test]
fn one_smf_cannot_delete_or_move_anothers_sets() {
    let mut world = with_one_each();
    set_session(&mut world, 7, &[csid(1)]);
    let sent = [node_v4(STRANGER), csid(1)];
    world.send(at(STRANGER), &message(14, None, 1, &sent))[0].assert_accepted();
    assert_eq!(world.sessions(), 1);
    let change = group(290, &[csid(1), alternative(STRANGER, false)]);
    world.send(at(STRANGER), &message(16, None, 2, &[node_v4(STRANGER), change]))[0].assert_accepted();
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

#[test]
fn sets_are_among_our_features() {
    let mut world = World::new();
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(1)]);
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    let features = response.up_function_features.unwrap();
    for feature in [
        UpFunctionFeatures::SSET,
        UpFunctionFeatures::MPAS,
        UpFunctionFeatures::RESPS,
    ] {
        assert!(features.contains(feature), "{features:?}");
    }
}

#[test]
fn where_peers_are_known_a_set_is_of_one_party() {
    let peers = |prefixes: [&str; 2]| {
        let parsed = prefixes.map(|prefix| prefix.parse::<IpPrefix>().expect("a prefix"));
        parsed.map(Peers::from).to_vec()
    };
    let one_party = || peers(["10.100.0.2/31", "10.100.0.0/16"]);
    let each_its_own = || peers(["10.100.0.2/32", "10.100.0.3/32"]);
    for (peers, may) in [(one_party(), true), (each_its_own(), false)] {
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
