//! GTP-U paths: asked by echo, reported when they fail and when they recover, to those whose sessions use them.

use crate::support;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use n4::{Config, Echo, PathSupervision};
use pfcp::ie::{Cause, NodeReportType};
use pfcp::message::{Message, NodeReportRequest};
use session::GtpuPath;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const PATH: GtpuPath = GtpuPath {
    local: IpAddr::V4(N3),
    peer: IpAddr::V4(GNB),
};
const OTHER_SMF: Ipv4Addr = Ipv4Addr::new(10, 100, 0, 3);

fn supervised(most: usize) -> World {
    let mut world = World::with(Config {
        paths: Some(PathSupervision {
            interval: 60 * SECOND,
            t3: 3 * SECOND,
            n3: 3,
            most,
        }),
        ..World::config(1)
    });
    world.associate();
    world
}

fn echoes(world: &mut World) -> Vec<Echo> {
    std::iter::from_fn(|| world.n4.poll_echo()).collect()
}

#[track_caller]
fn node_report(reply: &Reply) -> NodeReportRequest<'_> {
    match reply.message() {
        Message::NodeReportRequest(report) => report,
        other => panic!("{other:?}"),
    }
}

fn failed(reply: &Reply) -> Vec<Option<Ipv4Addr>> {
    let report = node_report(reply).user_plane_path_failure_report;
    report.map_or(vec![], |report| {
        report.remote_gtp_u_peer.iter().map(|peer| peer.ipv4).collect()
    })
}

fn recovered(reply: &Reply) -> Vec<Option<Ipv4Addr>> {
    let report = node_report(reply).user_plane_path_recovery_report;
    report.map_or(vec![], |report| {
        report.remote_gtp_u_peer.iter().map(|peer| peer.ipv4).collect()
    })
}

fn acknowledge(world: &mut World, sent: &Reply) -> Vec<Reply> {
    let sequence = sent.header().sequence.get();
    let cause = ie(19, [Cause::REQUEST_ACCEPTED.value()]);
    let answer = message(13, None, sequence, &[node_v4(SMF_ADDRESS), cause]);
    world.send(sent.0.to, &answer)
}

/// Lets a round go by without an answer; answers what is sent to the control planes in the end.
fn silence(world: &mut World) -> Vec<Reply> {
    assert!(world.pass(60 * SECOND).is_empty());
    assert!(world.pass(3 * SECOND).is_empty());
    assert!(world.pass(3 * SECOND).is_empty());
    world.pass(3 * SECOND)
}

#[test]
fn a_path_in_use_is_asked_and_an_answer_ends_the_round() {
    let mut world = supervised(10);
    world.pass(600 * SECOND);
    assert!(echoes(&mut world).is_empty(), "no session, no path");
    let seid = world.establish(1, UE);
    assert_eq!(world.n4.sessions().count().paths, 1);
    world.pass(59 * SECOND);
    assert!(echoes(&mut world).is_empty());
    world.pass(SECOND);
    let [first] = echoes(&mut world)[..] else { panic!() };
    assert_eq!(first.path, PATH);
    world.pass(3 * SECOND);
    assert_eq!(echoes(&mut world), [first], "again, with the same number");
    world.n4.handle_echo_response(world.now, PATH, first.sequence);
    world.pass(59 * SECOND);
    assert!(echoes(&mut world).is_empty());
    world.pass(SECOND);
    let [second] = echoes(&mut world)[..] else {
        panic!()
    };
    assert_ne!(second.sequence, first.sequence);
    world.n4.handle_echo_response(world.now, PATH, second.sequence);
    world.ask(54, Some(seid), &[]);
    world.pass(600 * SECOND);
    assert!(echoes(&mut world).is_empty());
    world.assert_clean();
}

#[test]
fn failure_and_recovery_are_reported_once_to_those_with_sessions_on_the_path() {
    let mut world = supervised(10);
    let other = SocketAddr::new(OTHER_SMF.into(), 8805);
    world.send(other, &message(5, None, 1, &[node_v4(OTHER_SMF), recovery(1)]));
    world.establish(1, UE);
    world.establish(2, Ipv4Addr::new(10, 45, 0, 3));
    let sent = silence(&mut world);
    assert_eq!(echoes(&mut world).len(), 3, "N3 in all");
    assert_eq!(sent.len(), 1, "the other has no session there");
    assert_eq!(sent[0].0.to, smf());
    assert_eq!(node_report(&sent[0]).node_report_type, NodeReportType::UPFR);
    assert_eq!(node_report(&sent[0]).node_id, pfcp::ie::NodeId::Ipv4(UPF_ADDRESS));
    assert_eq!(failed(&sent[0]), [Some(GNB)]);
    assert_eq!(world.pass(SECOND), sent, "until it is acknowledged");
    assert!(acknowledge(&mut world, &sent[0]).is_empty());
    world.pass(59 * SECOND);
    for _ in 0..3 {
        assert!(world.pass(3 * SECOND).is_empty(), "it is known to have failed");
    }
    world.pass(60 * SECOND);
    let echo = echoes(&mut world).pop().unwrap();
    world
        .n4
        .handle_echo_response(world.now, PATH, echo.sequence.wrapping_add(1));
    assert!(world.run().is_empty(), "no request for that");
    world.n4.handle_echo_response(world.now, PATH, echo.sequence);
    let sent = world.run();
    assert_eq!(node_report(&sent[0]).node_report_type, NodeReportType::UPRR);
    assert_eq!((failed(&sent[0]), recovered(&sent[0])), (vec![], vec![Some(GNB)]));
    world.n4.handle_echo_response(world.now, PATH, echo.sequence);
    assert!(acknowledge(&mut world, &sent[0]).is_empty());
    assert_eq!(world.n4.outstanding(), (0, 0));
}

#[test]
fn a_session_that_comes_to_a_failed_path_is_reported_after_the_next_round() {
    let mut world = supervised(10);
    world.establish(1, UE);
    let sent = silence(&mut world);
    acknowledge(&mut world, &sent[0]);
    let other = SocketAddr::new(OTHER_SMF.into(), 8805);
    world.send(other, &message(5, None, 1, &[node_v4(OTHER_SMF), recovery(1)]));
    let mut theirs = plain_session(9, Ipv4Addr::new(10, 45, 0, 9));
    theirs[0] = node_v4(OTHER_SMF);
    theirs[1] = f_seid(9, other.ip());
    world.send(other, &message(50, Some(0), 2, &theirs));
    let sent = silence(&mut world);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.to, other);
}

#[test]
fn an_unacknowledged_report_is_sent_anew_unless_it_has_become_untrue() {
    let mut world = supervised(10);
    world.establish(1, UE);
    let sent = silence(&mut world);
    for _ in 0..4 {
        world.pass(SECOND);
    }
    assert_eq!(world.n4.outstanding(), (0, 0), "given up for now");
    let again = world.pass(10 * SECOND);
    assert_eq!(failed(&again[0]), failed(&sent[0]));
    assert_ne!(again[0].header().sequence, sent[0].header().sequence);
    echoes(&mut world);
    let mut echo = None;
    while echo.is_none() {
        world.pass(SECOND);
        echo = echoes(&mut world).pop();
    }
    world
        .n4
        .handle_echo_response(world.now, PATH, echo.unwrap().sequence);
    let mut said = world.run();
    for _ in 0..20 {
        said.extend(world.pass(SECOND));
    }
    let last = said.last().unwrap();
    assert_eq!(
        (failed(last), recovered(last)),
        (vec![], vec![Some(GNB)]),
        "the failure may have been received"
    );
    acknowledge(&mut world, last);
    assert_eq!(world.n4.outstanding(), (0, 0));
}

#[test]
fn paths_are_bounded_and_those_beyond_are_counted() {
    let mut world = supervised(0);
    world.establish(1, UE);
    assert_eq!(world.n4.counters().paths_unsupervised, 1);
    world.pass(600 * SECOND);
    assert!(echoes(&mut world).is_empty());
}

#[test]
fn without_supervision_no_echo_request_is_sent() {
    let mut world = World::associated();
    world.establish(1, UE);
    world.pass(600 * SECOND);
    assert!(echoes(&mut world).is_empty());
    assert_eq!(world.n4.counters().paths_unsupervised, 0);
}
