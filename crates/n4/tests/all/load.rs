//! Load and overload: the metrics that peers receive, which requests are rejected, how peers share; several messages in
//! a datagram.

use crate::support;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::{Config, SessionEvent};
use pfcp::Frames;
use pfcp::ie::{Cause, OciFlags, ReportType};
use pfcp::message::{Message, SessionEstablishmentResponse};

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const LOAD: u8 = 0x01;
const OVRL: u8 = 0x02;
const BUNDL: u8 = 0x10;

fn ue(cp: u64) -> Ipv4Addr {
    Ipv4Addr::new(10, 45, 1, cp as u8)
}

fn associated(config: Config, features: u8) -> World {
    let mut world = World::with(config);
    let setup = [node_v4(SMF_ADDRESS), recovery(100), cp_features(features)];
    world.ask(5, None, &setup).assert_accepted();
    world
}

fn establishment(cp: u64, sequence: u32, priority: Option<u8>) -> Octets {
    let mut octets = message(50, Some(0), sequence, &plain_session(cp, ue(cp)));
    if let Some(priority) = priority {
        octets[0] |= 0x02;
        octets[15] = priority << 4;
    }
    octets
}

fn establish(world: &mut World, cp: u64, priority: Option<u8>) -> Reply {
    let sequence = world.next_sequence();
    world.datagram(&establishment(cp, sequence, priority))
}

#[track_caller]
fn response(reply: &Reply) -> SessionEstablishmentResponse<'_> {
    match reply.message() {
        Message::SessionEstablishmentResponse(response) => response,
        other => panic!("{other:?}"),
    }
}

/// The load metric and the overload reduction metric in a response.
fn reported(reply: &Reply) -> (Option<u8>, Option<u8>) {
    let response = response(reply);
    (
        response.load_control_information.map(|load| load.load_metric.0),
        response
            .overload_control_information
            .map(|overload| overload.overload_reduction_metric.0),
    )
}

#[test]
fn load_is_sent_once_to_peers_that_support_it_and_again_when_it_has_changed() {
    let mut world = associated(World::config(1), LOAD | OVRL);
    assert_eq!(reported(&establish(&mut world, 1, None)), (Some(0), None));
    assert_eq!(reported(&establish(&mut world, 2, None)), (None, None));
    world.n4.set_load(50);
    let reply = establish(&mut world, 3, None);
    assert_eq!(reported(&reply), (Some(50), None));
    let first = response(&reply)
        .load_control_information
        .unwrap()
        .load_control_sequence_number;
    world.n4.set_load(54);
    assert_eq!(
        reported(&establish(&mut world, 4, None)),
        (None, None),
        "too small a change"
    );
    world.n4.set_load(60);
    let reply = establish(&mut world, 5, None);
    assert_eq!(reported(&reply), (Some(60), None));
    let second = response(&reply)
        .load_control_information
        .unwrap()
        .load_control_sequence_number;
    assert_eq!(second.0, first.0 + 1);
}

#[test]
fn a_peer_that_does_not_support_it_gets_nothing() {
    let mut world = associated(World::config(1), 0);
    world.n4.set_load(95);
    assert_eq!(reported(&establish(&mut world, 1, Some(0))), (None, None));
}

#[test]
fn overload_is_announced_renewed_while_it_lasts_and_taken_back() {
    let mut world = associated(World::config(1), OVRL);
    world.n4.set_load(90);
    let reply = establish(&mut world, 1, Some(0));
    let overload = response(&reply).overload_control_information.unwrap();
    assert_eq!(overload.overload_reduction_metric.0, 50);
    assert_eq!(overload.period_of_validity.seconds(), Some(60));
    assert_eq!(overload.overload_control_information_flags, Some(OciFlags::AOCI));
    assert_eq!(reported(&establish(&mut world, 2, Some(0))), (None, None));
    world.pass(31 * SECOND);
    let reply = establish(&mut world, 3, Some(0));
    let again = response(&reply).overload_control_information.unwrap();
    assert_eq!(
        again.overload_reduction_metric,
        overload.overload_reduction_metric
    );
    assert_ne!(
        again.overload_control_sequence_number,
        overload.overload_control_sequence_number
    );
    world.n4.set_load(10);
    assert_eq!(reported(&establish(&mut world, 4, Some(0))), (None, Some(0)));
    assert_eq!(reported(&establish(&mut world, 5, Some(0))), (None, None));
}

#[test]
fn a_rejection_for_congestion_reports_the_overload() {
    let mut world = associated(World::config(1), OVRL);
    world.n4.set_load(100);
    let reply = establish(&mut world, 1, None);
    assert_eq!(reply.cause(), Some(Cause::PFCP_ENTITY_IN_CONGESTION));
    assert_eq!(reported(&reply), (None, Some(100)));
}

#[test]
fn reports_have_load_control_information_too() {
    let mut world = associated(World::config(1), LOAD);
    establish(&mut world, 1, None);
    world.n4.set_load(70);
    let session = world.only_session().index();
    world
        .n4
        .handle_session_event(world.now, session, SessionEvent::Inactivity);
    let sent = world.transmits();
    let report = sent[0].session_report();
    assert_eq!(report.report_type, ReportType::UPIR);
    assert_eq!(report.load_control_information.unwrap().load_metric.0, 70);
}

#[test]
fn the_busier_we_are_the_higher_a_new_sessions_priority_must_be() {
    for (load, last_admitted) in [(0, 15), (80, 15), (85, 12), (90, 8), (95, 4), (100, 0)] {
        let mut world = associated(World::config(1), 0);
        world.n4.set_load(load);
        for priority in 0..16u8 {
            let reply = establish(&mut world, u64::from(priority) + 1, Some(priority));
            let admitted = reply.cause() == Some(Cause::REQUEST_ACCEPTED);
            assert_eq!(
                admitted,
                priority <= last_admitted,
                "load {load}, priority {priority}"
            );
            assert_eq!(reply.header().priority, Some(priority), "the request's own");
        }
        let refused = 15 - u64::from(last_admitted);
        assert_eq!(world.n4.counters().throttled, refused);
    }
}

#[test]
fn a_rejected_request_is_rejected_again_when_retransmitted() {
    let mut world = associated(World::config(1), 0);
    world.n4.set_load(100);
    let sequence = world.next_sequence();
    let request = establishment(1, sequence, None);
    let refused = world.datagram(&request);
    assert_eq!(refused.cause(), Some(Cause::PFCP_ENTITY_IN_CONGESTION));
    world.n4.set_load(0);
    // The SMF has given the session up, or will when this answer comes: it must not be there without its knowledge.
    assert_eq!(world.datagram(&request), refused);
    assert_eq!(world.sessions(), 0);
    establish(&mut world, 1, None).assert_accepted();
    // The same number with another content is another request.
    world
        .datagram(&establishment(2, sequence, None))
        .assert_accepted();
}

#[test]
fn under_overload_modifications_deletions_and_heartbeats_go_through() {
    let mut world = associated(World::config(1), 0);
    let seid = establish(&mut world, 1, None).up_seid();
    world.n4.set_load(100);
    world.ask(52, Some(seid), &[]).assert_accepted();
    world.ask(54, Some(seid), &[]).assert_accepted();
    world.ask(1, None, &[recovery(100)]);
    world.assert_clean();
}

#[test]
fn one_peers_flood_leaves_room_for_another() {
    let mut world = associated(
        Config {
            max_in_work: 10,
            ..World::config(1)
        },
        0,
    );
    let other: SocketAddr = "10.100.0.3:8805".parse().unwrap();
    let setup = message(5, None, 1, &[node_name(&labels("other")), recovery(1)]);
    world.send(other, &setup);
    for cp in 1..=20 {
        let octets = establishment(cp, 100 + cp as u32, None);
        world.n4.handle_datagram(world.now, smf(), upf(), &octets);
    }
    let refused = world.transmits().len();
    assert_eq!(refused, 15, "half of ten are in work");
    let mut theirs = plain_session(30, ue(30));
    theirs[0] = node_name(&labels("other"));
    theirs[1] = f_seid(30, other.ip());
    let octets = message(50, Some(0), 7, &theirs);
    world.n4.handle_datagram(world.now, other, upf(), &octets);
    assert!(world.transmits().is_empty(), "in work, not refused");
    let done = world.run();
    assert_eq!(done.len(), 6);
    assert!(
        done.iter()
            .all(|reply| reply.cause() == Some(Cause::REQUEST_ACCEPTED))
    );
    assert_eq!(
        establish(&mut world, 40, None).cause(),
        Some(Cause::REQUEST_ACCEPTED)
    );
}

/// The messages of a datagram: type, sequence number, whether another follows.
fn messages(reply: &Reply) -> Vec<(u8, u32, bool)> {
    let frames = Frames::new(&reply.0.bytes).map(|frame| frame.unwrap().header);
    frames
        .map(|header| (header.message_type.0, header.sequence.get(), header.follow_on))
        .collect()
}

#[test]
fn answers_go_together_to_a_peer_that_takes_them_so() {
    let mut world = associated(World::config(1), BUNDL);
    let mut datagram = Vec::new();
    for cp in 1..=3 {
        let mut octets = establishment(cp, 20 + cp as u32, None);
        octets[0] |= if cp < 3 { 0x04 } else { 0 };
        datagram.extend(octets);
    }
    let replies = world.send(smf(), &datagram);
    assert_eq!(replies.len(), 1);
    assert_eq!(
        messages(&replies[0]),
        [(51, 21, true), (51, 22, true), (51, 23, false)]
    );
    assert_eq!(world.n4.counters().bundles, 1);
    // What is sent again is the same message, alone.
    let again = world.send(smf(), &establishment(2, 22, None));
    assert_eq!(messages(&again[0]), [(51, 22, false)]);
}

#[test]
fn answers_about_the_node_go_alone_and_a_datagram_is_bounded() {
    let mut world = associated(World::config(1), BUNDL);
    for cp in 1..=60 {
        world
            .n4
            .handle_datagram(world.now, smf(), upf(), &establishment(cp, 100 + cp as u32, None));
    }
    let heartbeat = message(1, None, 7, &[recovery(100)]);
    world.n4.handle_datagram(world.now, smf(), upf(), &heartbeat);
    let replies = world.run();
    assert!(replies.iter().all(|reply| reply.0.bytes.len() <= 1_400));
    let all: Vec<_> = replies.iter().map(messages).collect();
    assert!(all.contains(&vec![(2, 7, false)]));
    assert!(all.len() < 15, "{}", all.len());
    assert_eq!(all.concat().len(), 61);
}

#[test]
fn a_peer_without_bundling_gets_each_message_alone() {
    let mut world = associated(World::config(1), 0);
    for cp in 1..=5 {
        world
            .n4
            .handle_datagram(world.now, smf(), upf(), &establishment(cp, 100 + cp as u32, None));
    }
    assert_eq!(world.run().len(), 5);
    // Nor does an address that one of its peers shares with such a one.
    let bundling = [node_v4(SMF_ADDRESS), cp_features(BUNDL)];
    world.ask(7, None, &bundling).assert_accepted();
    world
        .ask(5, None, &[node_name(&labels("other")), recovery(1)])
        .assert_accepted();
    for cp in 6..=10 {
        world
            .n4
            .handle_datagram(world.now, smf(), upf(), &establishment(cp, 100 + cp as u32, None));
    }
    assert_eq!(world.run().len(), 5);
}
