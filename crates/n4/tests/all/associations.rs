//! The node procedures of TS 29.244 §6.2 against a scripted control plane function, on simulated time: associations and
//! heartbeats.

use crate::support;

use std::net::Ipv4Addr;
use std::time::Duration;

use n4::{Config, NodeName, Peers};
use pfcp::ie::{self, Cause, NodeId, UpFunctionFeatures};
use pfcp::message::Message;
use rules::prefix::IpPrefix;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);

/// What is announced where no pools are configured.
const FEATURES: UpFunctionFeatures = UpFunctionFeatures::FTUP
    .union(UpFunctionFeatures::PDIU)
    .union(UpFunctionFeatures::FRRT)
    .union(UpFunctionFeatures::IP6PL)
    .union(UpFunctionFeatures::EMPU)
    .union(UpFunctionFeatures::DDND)
    .union(UpFunctionFeatures::DLBD)
    .union(UpFunctionFeatures::UDBC)
    .union(UpFunctionFeatures::DDDS)
    .union(UpFunctionFeatures::RESPS)
    .union(UpFunctionFeatures::BUNDL)
    .union(UpFunctionFeatures::EPFAR)
    .union(UpFunctionFeatures::MNOP)
    .union(UpFunctionFeatures::VTIME)
    .union(UpFunctionFeatures::CIOT)
    .union(UpFunctionFeatures::PFDM)
    .union(UpFunctionFeatures::PFDE)
    .union(UpFunctionFeatures::TREU)
    .union(UpFunctionFeatures::QUOAC)
    .union(UpFunctionFeatures::QUASF)
    .union(UpFunctionFeatures::NSPOC)
    .union(UpFunctionFeatures::BUCP)
    .union(UpFunctionFeatures::EML4S);

#[test]
fn an_association_setup_response_has_the_node_and_its_features() {
    let mut world = World::new();
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100), cp_features(0)]);
    assert_eq!((reply.0.from, reply.0.to), (upf(), smf()));
    assert_eq!(reply.header().seid, None);
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(response.node_id, NodeId::Ipv4(UPF_ADDRESS));
    assert_eq!(response.cause, Cause::REQUEST_ACCEPTED);
    assert_eq!(response.recovery_time_stamp.unwrap().unix(), UPF_START);
    assert_eq!(response.up_function_features, Some(FEATURES));
    assert_eq!(world.n4.associations().count(), 1);
}

#[test]
fn a_heartbeat_of_an_unknown_peer_is_answered() {
    let mut world = World::new();
    for heartbeat in [message(1, None, 7, &[recovery(1)]), message(1, None, 7, &[])] {
        let reply = world.datagram(&heartbeat);
        let Message::HeartbeatResponse(response) = reply.message() else {
            panic!()
        };
        assert_eq!(response.recovery_time_stamp.unix(), UPF_START);
        assert_eq!(reply.header().sequence.get(), 7);
    }
}

#[test]
fn association_setup_again_deletes_the_sessions_unless_they_are_to_be_retained() {
    let mut world = World::associated();
    world.establish(1, UE);
    let retention = group(183, &[]);
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100), retention]);
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(response.pfcpasrsp_flags, Some(ie::PfcpAsRspFlags::PSREI));
    assert_eq!(world.sessions(), 1);

    let of_others = group(183, &[ie(185, [2, 10, 9, 9, 9])]);
    world
        .ask(5, None, &[node_v4(SMF_ADDRESS), recovery(100), of_others])
        .assert_accepted();
    assert_eq!(
        world.sessions(),
        0,
        "only sessions of 10.9.9.9 were to be retained"
    );

    world.establish(1, UE);
    world.associate();
    assert_eq!(world.n4.associations().count(), 1);
    world.assert_clean();
}

/// Open5GS sets up its association again after a silence of some seconds, and does not restore its sessions (seen with
/// 2.7.7: nine seconds without N4).
#[test]
fn sessions_of_a_peer_that_has_not_restarted_stay_where_it_is_known_not_to_restore_them() {
    let peers = Peers {
        retain_sessions: true,
        ..Peers::from(IpPrefix::host(SMF_ADDRESS.into()))
    };
    let config = Config {
        peers: vec![peers],
        ..World::config(2)
    };
    let mut world = World::with(config);
    world.associate();
    world.establish(1, UE);
    let setup = |recovered| [node_v4(SMF_ADDRESS), recovery(recovered)];
    let reply = world.ask(5, None, &setup(100));
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(
        (response.cause, response.pfcpasrsp_flags),
        (Cause::REQUEST_ACCEPTED, None)
    );
    assert_eq!(world.sessions(), 1);
    world.ask(5, None, &setup(101)).assert_accepted();
    assert_eq!(world.sessions(), 0, "it has restarted");
    world.assert_clean();
}

#[test]
fn association_update_and_release() {
    let mut world = World::associated();
    world.establish(1, UE);
    let reply = world.ask(7, None, &[node_v4(SMF_ADDRESS), cp_features(0x01)]);
    reply.assert_accepted();
    let Message::AssociationUpdateResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(response.up_function_features, Some(FEATURES));
    assert_eq!(world.n4.associations().next().unwrap().features.bits(), 1);
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.n4.associations().count(), 0);
    world.assert_clean();
    let reply = world.ask(9, None, &[node_v4(SMF_ADDRESS)]);
    assert_eq!(reply.cause(), Some(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION));
}

/// TS 29.244 Table 7.4.4.3-1: Alternative SMF IP Addresses and the SMF Set ID take the place of those before; what the
/// request does not have stays.
#[test]
fn an_update_names_other_addresses_and_another_set_of_the_peer() {
    let alternative = |address: Ipv4Addr| ie(178, [&[2], &address.octets()[..]].concat());
    let set_id = |name: &str| ie(180, [&[0], &labels(name)[..]].concat());
    let (first, second) = (Ipv4Addr::new(10, 100, 0, 7), Ipv4Addr::new(10, 100, 0, 8));
    let mut world = World::new();
    let setup = [
        node_v4(SMF_ADDRESS),
        recovery(100),
        alternative(first),
        set_id("set.a"),
    ];
    world.ask(5, None, &setup).assert_accepted();
    let known = |world: &World| {
        let association = world.n4.associations().next().unwrap();
        (association.others.clone(), association.set.clone())
    };
    let before = (vec![SMF_ADDRESS.into(), first.into()], Some(labels("set.a")));
    assert_eq!(known(&world), before);
    let update = |world: &mut World, more: &[Octets]| {
        let ies = [&[node_v4(SMF_ADDRESS)], more].concat();
        world.ask(7, None, &ies).assert_accepted();
    };
    update(&mut world, &[cp_features(1)]);
    assert_eq!(known(&world), before);
    update(&mut world, &[alternative(second)]);
    assert_eq!(
        known(&world),
        (vec![SMF_ADDRESS.into(), second.into()], Some(labels("set.a")))
    );
    update(&mut world, &[set_id("set.b")]);
    assert_eq!(
        known(&world),
        (vec![SMF_ADDRESS.into(), second.into()], Some(labels("set.b")))
    );
    // Messages from there are accepted, too.
    let seid = world.establish(1, UE);
    let sequence = world.next_sequence();
    let from = std::net::SocketAddr::new(second.into(), 8805);
    let replies = world.send(from, &message(54, Some(seid), sequence, &[]));
    replies[0].assert_accepted();
}

/// The release of an association with a session, before any worker has applied it.
fn released(world: &mut World) -> Vec<u8> {
    world.establish(1, UE);
    let sequence = world.next_sequence();
    let release = message(9, None, sequence, &[node_v4(SMF_ADDRESS)]);
    world.n4.handle_datagram(world.now, smf(), upf(), &release);
    assert_eq!(world.n4.associations().count(), 0);
    assert!(world.transmits().is_empty(), "a worker has the session");
    release
}

#[test]
fn a_release_is_answered_when_no_worker_has_the_sessions_any_more() {
    let mut world = World::associated();
    let release = released(&mut world);
    world.n4.handle_datagram(world.now, smf(), upf(), &release);
    assert!(world.transmits().is_empty(), "a retransmission waits, too");
    let answers = world.run();
    assert_eq!(answers.len(), 1);
    answers[0].assert_accepted();
    assert_eq!(world.datagram(&release), answers[0]);
    world.assert_clean();
}

#[test]
fn a_release_is_answered_in_time_though_a_worker_is_not() {
    let mut world = World::associated();
    released(&mut world);
    let deadline = World::config(1).sessions.deadline;
    assert_eq!(world.n4.poll_timeout(), Some(world.now + deadline));
    world.now = world.now + deadline;
    world.n4.handle_timeout(world.now);
    let answers = world.transmits();
    assert_eq!(answers.len(), 1);
    answers[0].assert_accepted();
    assert!(world.run().is_empty());
    world.assert_clean();
}

#[test]
fn our_heartbeats_are_sent_again_the_same_by_t1_and_n1_and_sessions_outlive_a_silent_peer() {
    let mut world = World::with(Config {
        heartbeat_interval: Some(SECOND * 10),
        ..World::config(1)
    });
    world.associate();
    world.establish(1, UE);
    assert_eq!(
        world.n4.poll_timeout(),
        Some(world.now + SECOND),
        "the session's deadline"
    );
    let sent = world.pass(SECOND * 10);
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].0.from, sent[0].0.to), (upf(), smf()));
    assert!(matches!(sent[0].message(), Message::HeartbeatRequest(_)));
    for _ in 0..3 {
        assert_eq!(world.pass(SECOND), sent, "byte for byte");
    }
    assert!(world.pass(SECOND).is_empty());
    assert!(!world.n4.associations().next().unwrap().reachable);
    assert_eq!(world.sessions(), 1);

    let next = world.pass(SECOND * 6);
    let sequence = next[0].header().sequence;
    assert_ne!(sequence, sent[0].header().sequence);
    let answer = message(2, None, sequence.get(), &[recovery(100)]);
    assert!(world.send(smf(), &answer).is_empty());
    assert!(world.n4.associations().next().unwrap().reachable);
    assert!(world.send(smf(), &answer).is_empty());
    assert_eq!(
        world.n4.counters().unmatched_responses,
        1,
        "the second response matches no request"
    );
}

#[test]
fn a_peer_that_has_restarted_has_lost_its_sessions() {
    let mut world = World::with(Config {
        heartbeat_interval: Some(SECOND * 10),
        ..World::config(1)
    });
    world.associate();
    world.establish(1, UE);
    let sent = world.pass(SECOND * 10);
    world.send(
        smf(),
        &message(2, None, sent[0].header().sequence.get(), &[recovery(99)]),
    );
    assert_eq!(world.sessions(), 1, "an old datagram");
    let sent = world.pass(SECOND * 10);
    world.send(
        smf(),
        &message(2, None, sent[0].header().sequence.get(), &[recovery(102)]),
    );
    assert_eq!(world.sessions(), 0, "reported by its response to ours");

    world.establish(1, UE);
    let mut ies = plain_session(2, Ipv4Addr::new(10, 45, 0, 9));
    ies.push(recovery(103));
    world.ask(50, Some(0), &ies).assert_accepted();
    assert_eq!(
        world.sessions(),
        1,
        "learned from an establishment, which is itself of the new life"
    );
    assert_eq!(world.n4.counters().peer_restarts, 2);
    assert_eq!(world.n4.counters().doubted_recoveries, 1);
}

#[test]
fn associations_are_bounded() {
    let mut world = World::with(Config {
        max_associations: 1,
        ..World::config(1)
    });
    world.associate();
    let reply = world.ask(5, None, &[node_name(&labels("other")), recovery(1)]);
    assert_eq!(reply.cause(), Some(Cause::NO_RESOURCES_AVAILABLE));
    world.associate();
}

#[test]
fn a_named_node_names_itself() {
    let config = Config {
        node: NodeName::fqdn("upf.example").unwrap(),
        ..World::config(1)
    };
    let mut world = World::with(config);
    let reply = world.ask(5, None, &[node_v4(SMF_ADDRESS), recovery(1)]);
    let Message::AssociationSetupResponse(response) = reply.message() else {
        panic!()
    };
    assert_eq!(response.node_id, NodeId::Fqdn(b"\x03upf\x07example"));
}
