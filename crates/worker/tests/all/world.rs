//! Packets, commands and events of whole workers on one thread.

use crate::common;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use flow::{InstanceId, Nanos, PortId, SessionIndex};
use packet::{DropReason, MacAddr, Teid, VlanId, checksum};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{
    Edit, FarId, FarUpdate, ForwardingParametersUpdate, Gate, OuterHeaderCreation, QerId, QerUpdate, UrrId,
};
use rules::network::Fragmentation;
use rules::testing::{self, GNB, N3_ADDRESS, UE, UE_V6, UserPacket, pdu_session, tunnelled};
use transport::NeighbourMessage;
use worker::{ApplyError, Budgets, Command, Event, IdleTimes};

use common::one_session::{
    GNB_TEID, REMOTE, TEID, error_indication, events, fix_lengths, from_ue, hand_over, ip, reason,
    reason_of_frame, session, to_ue, uplink, world,
};
use common::{PEER_MAC, World, frame, mac_of, our_mac};

#[test]
fn uplink_comes_out_plain_and_downlink_in_its_tunnel() {
    let mut world = world();
    let out = world.send(0, &uplink());
    let [(port, frame)] = &out[..] else {
        panic!("one packet goes out")
    };
    assert_eq!(*port, PortId(1));
    assert_eq!(frame[..6], mac_of(InstanceId(1), ip("10.0.6.254")).0);
    assert_eq!(frame[6..14], [&our_mac(1).0[..], &[8, 0]].concat());
    let mut expected = from_ue();
    packet::ipv4::decrement_ttl(&mut expected).expect("it has a TTL");
    assert_eq!(frame[14..], expected);

    let out = world.send(1, &to_ue());
    let [(port, frame)] = &out[..] else {
        panic!("one packet goes out")
    };
    assert_eq!(*port, PortId(0));
    assert!(checksum::is_right(&frame[14..34]));
    assert_eq!(frame[26..34], [N3_ADDRESS.octets(), GNB.octets()].concat());
    assert_eq!(
        frame[42..58],
        [0x34, 255, 0, 68, 0, 0, 0, 77, 0, 0, 0, 0x85, 1, 0, 9, 0]
    );
    assert_eq!(frame.len(), 58 + to_ue().len());
    let usage = world.query(0, SessionIndex(1));
    let octets = from_ue().len() as u64;
    let [(UrrId(1), count)] = usage.counters[..] else {
        panic!("one URR")
    };
    assert_eq!(
        (
            count.ul_packets,
            count.ul_octets,
            count.dl_packets,
            count.dl_octets
        ),
        (1, octets, 1, octets)
    );
    world.assert_conserved();
}

#[test]
fn tags_are_those_of_the_instances() {
    let mut network = testing::network().instances().to_vec();
    network[1].vlan = VlanId::new(300).map(packet::VlanTags::from);
    let network = rules::Network::new(network).expect("a network");
    let mut world = World::with(network, 1, |_| {});
    world.install(1, session());
    let out = world.send(0, &uplink());
    assert_eq!(out[0].1[12..18], [0x81, 0, 1, 44, 8, 0]);
    assert_eq!(
        reason(&mut world, 1, &to_ue()),
        Some(DropReason::VlanNotConfigured)
    );
    let mut tagged = frame(1, &to_ue());
    tagged.splice(12..12, [0x81, 0, 1, 44]);
    assert_eq!(world.send_frame(0, 1, &tagged).len(), 1);
}

/// Changes session 1 and says whether flows had to be found again.
fn change(world: &mut World, edit: impl FnOnce(&mut SessionRules)) -> bool {
    let before = world.image(1, &Arc::new(session()), None).expect("it compiles");
    world
        .apply(
            0,
            SessionChange::Replace(before.clone(), ImmediateActions::default()),
        )
        .expect("it is there");
    world.send(0, &uplink());
    world.send(1, &to_ue());
    let mut rules = session();
    edit(&mut rules);
    let image = world
        .image(1, &Arc::new(rules), Some(&before))
        .expect("it compiles");
    let stale = world.workers[0].stats().stale;
    world
        .apply(0, SessionChange::Replace(image, ImmediateActions::default()))
        .expect("it is there");
    world.send(0, &uplink());
    world.send(1, &to_ue());
    world.workers[0].stats().stale > stale
}

#[test]
fn a_handover_touches_no_flow() {
    let mut world = world();
    let target = OuterHeaderCreation::gtpu_ipv4(Teid(99), Ipv4Addr::new(10, 200, 1, 1));
    let stale = change(&mut world, |rules| hand_over(rules, target));
    assert!(!stale);
    let out = world.send(1, &to_ue());
    assert_eq!(out[0].1[..6], mac_of(InstanceId(0), ip("10.0.3.254")).0);
    assert_eq!(out[0].1[30..34], [10, 200, 1, 1]);
    assert_eq!(out[0].1[46..50], [0, 0, 0, 99]);
}

#[test]
fn a_gate_closes_at_the_next_packet_and_touches_no_flow() {
    let mut world = world();
    let stale = change(&mut world, |rules| {
        let gates = Some((Gate::Open, Gate::Closed));
        rules
            .update_qer(QerUpdate {
                gates,
                ..QerUpdate::new(QerId(1))
            })
            .expect("it is there");
    });
    assert!(!stale);
    assert_eq!(reason(&mut world, 1, &to_ue()), Some(DropReason::GateClosed));
    assert_eq!(reason(&mut world, 0, &uplink()), None);
}

#[test]
fn a_removed_session_is_gone_at_the_next_packet() {
    let mut world = world();
    world.send(0, &uplink());
    world.send(1, &to_ue());
    let usage = world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    assert_eq!(usage.map(|usage| usage.counters[0].1.ul_packets), Some(1));
    assert_eq!(reason(&mut world, 0, &uplink()), Some(DropReason::UnknownTeid));
    assert_eq!(
        reason(&mut world, 1, &to_ue()),
        Some(DropReason::UnknownUeAddress)
    );
    assert_eq!(world.workers[0].flows(), 0);
    assert_eq!(
        world.apply(0, SessionChange::Remove(SessionIndex(1))),
        Err(ApplyError::NotFound)
    );
}

#[test]
fn session_changes_that_contradict_the_worker_are_refused_whole() {
    let mut world = world();
    let image = world.image(1, &Arc::new(session()), None).expect("it compiles");
    assert_eq!(
        world.apply(0, SessionChange::Install(image.clone())),
        Err(ApplyError::Exists)
    );
    let mut other = image.clone();
    other.session = SessionIndex(2);
    assert_eq!(
        world.apply(0, SessionChange::Install(other.clone())),
        Err(ApplyError::Taken)
    );
    assert_eq!(
        world.apply(
            0,
            SessionChange::Replace(other.clone(), ImmediateActions::default())
        ),
        Err(ApplyError::NotFound)
    );
    other.session = SessionIndex(1_000_000);
    assert_eq!(
        world.apply(0, SessionChange::Install(other)),
        Err(ApplyError::NoSuchSlot)
    );
    assert_eq!(reason(&mut world, 0, &uplink()), None);
}

#[test]
fn blocks_come_back_from_removed_sessions() {
    let mut world = World::with(testing::network(), 1, |config| config.own_sessions = 8);
    let image = world.image(1, &Arc::new(session()), None).expect("it compiles");
    for _ in 0..20_000 {
        world
            .apply(0, SessionChange::Install(image.clone()))
            .expect("there is room");
        world
            .apply(0, SessionChange::Remove(SessionIndex(1)))
            .expect("it is there");
    }
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    assert_eq!(reason(&mut world, 0, &uplink()), None);
}

#[test]
fn error_indications_for_unknown_teids_have_a_bounded_rate() {
    let mut world = World::with(testing::network(), 1, |config| config.error_indications = 3);
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    let mut answers = Vec::new();
    for _ in 0..10 {
        answers.extend(world.send(0, &stray));
    }
    assert_eq!(answers.len(), 3);
    let (port, frame) = &answers[0];
    assert_eq!((*port, &frame[..6]), (PortId(0), &PEER_MAC.0[..]));
    assert_eq!(frame[26..34], [N3_ADDRESS.octets(), GNB.octets()].concat());
    assert_eq!(frame[36..38], [8, 0x68]);
    assert_eq!(
        frame[42..],
        [
            0x36, 26, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0x40, 1, 8, 0x68, 0, // header, UDP port 2152
            16, 0, 0, 0xde, 0xad, 133, 0, 4, 10, 0, 3, 1
        ]
    );
    assert_eq!(world.workers[0].stats().dropped(DropReason::UnknownTeid), 10);
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(world.send(0, &stray).len(), 1);
    for silent in [
        tunnelled(N3_ADDRESS, 0, 255, None, &[], &from_ue()),
        tunnelled(N3_ADDRESS, 0xdead, 254, None, &[], &[]),
    ] {
        assert!(world.send(0, &silent).is_empty());
    }
    world.assert_conserved();
}

#[test]
fn after_a_restart_no_error_indications_are_sent_for_a_while() {
    let mut world = World::with(testing::network(), 1, |config| {
        config.error_indications_from = Nanos::from_secs(60);
    });
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    world.now = Nanos::from_secs(50);
    assert!(world.send(0, &stray).is_empty());
    assert_eq!(world.workers[0].stats().dropped(DropReason::UnknownTeid), 1);
    world.now = Nanos::from_secs(60);
    assert_eq!(world.send(0, &stray).len(), 1);
}

#[test]
fn extension_headers_that_must_be_understood_are_answered_with_what_is() {
    let mut world = world();
    let unknown = tunnelled(N3_ADDRESS, TEID, 255, None, &[(0x9f, vec![0, 0])], &from_ue());
    let out = world.send(0, &unknown);
    assert_eq!(out[0].1[43], 31);
    assert_eq!(
        world.workers[0].stats().dropped(DropReason::UnknownGtpuExtension),
        1
    );
    assert_eq!(reason(&mut world, 0, &uplink()), None);
}

#[test]
fn an_echo_request_is_answered_from_the_address_it_was_sent_to() {
    let mut world = world();
    let mut request = tunnelled(testing::N9_ADDRESS, 0, 1, None, &[], &[]);
    request.splice(28.., [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
    fix_lengths(&mut request);
    request[20..22].copy_from_slice(&3333_u16.to_be_bytes());
    let out = world.send(0, &request);
    let (port, frame) = &out[0];
    assert_eq!(*port, PortId(0));
    assert_eq!(
        frame[26..34],
        [testing::N9_ADDRESS.octets(), GNB.octets()].concat()
    );
    assert_eq!(frame[34..38], [[8, 0x68], 3333_u16.to_be_bytes()].concat());
    assert_eq!(
        frame[42..56],
        [0x32, 2, 0, 6, 0, 0, 0, 0, 0x12, 0x34, 0, 0, 14, 0]
    );
    assert_eq!(world.workers[0].stats().answered, 1);
    world.assert_conserved();
}

#[test]
fn what_peers_signal_is_reported_to_control() {
    let mut world = world();
    let indication = error_indication();
    assert_eq!(reason(&mut world, 0, &indication), None);
    let mut response = tunnelled(N3_ADDRESS, 0, 2, None, &[], &[]);
    response.splice(28.., [0x32, 2, 0, 6, 0, 0, 0, 0, 0, 9, 0, 0, 14, 0]);
    fix_lengths(&mut response);
    assert_eq!(reason(&mut world, 0, &response), None);
    match &events(&mut world)[..] {
        [
            Event::ErrorIndication {
                peer,
                teid: Teid(GNB_TEID),
            },
            Event::EchoResponse {
                peer: responder,
                local,
                sequence: 9,
            },
        ] => assert_eq!((*peer, *responder, local.0), (GNB.into(), GNB.into(), 0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.workers[0].stats().consumed, 2);
    let unheard = tunnelled(N3_ADDRESS, 0, 99, None, &[], &[]);
    assert_eq!(
        reason(&mut world, 0, &unheard),
        Some(DropReason::UnsupportedGtpuMessage)
    );
}

pub fn arp(operation: u8, from: [u8; 4], about: [u8; 4]) -> Vec<u8> {
    let mut frame = [[0xff; 6], PEER_MAC.0].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(PEER_MAC.0);
    frame.extend(from);
    frame.extend([0; 6]);
    frame.extend(about);
    frame.resize(60, 0);
    frame
}

#[test]
fn arp_is_answered_and_reported() {
    let mut world = world();
    let out = world.send_frame(0, 0, &arp(1, [10, 0, 3, 9], N3_ADDRESS.octets()));
    assert_eq!(
        (out[0].0, &out[0].1[..6], &out[0].1[20..22]),
        (PortId(0), &PEER_MAC.0[..], &[0, 2][..])
    );
    assert!(
        world
            .send_frame(0, 0, &arp(2, [10, 0, 3, 9], N3_ADDRESS.octets()))
            .is_empty()
    );
    match &events(&mut world)[..] {
        [
            Event::Neighbour {
                message: NeighbourMessage::Request,
                ..
            },
            Event::Neighbour {
                instance,
                address,
                mac,
                message: NeighbourMessage::Reply,
            },
        ] => {
            assert_eq!(
                (*instance, *address, *mac),
                (InstanceId(0), ip("10.0.3.9"), PEER_MAC)
            );
        }
        other => panic!("{other:?}"),
    }
    let other = arp(1, [10, 0, 3, 9], [10, 0, 3, 200]);
    assert_eq!(reason_of_frame(&mut world, 0, &other), Some(DropReason::NotForUs));
    assert_eq!(
        reason_of_frame(&mut world, 0, &other[..30]),
        Some(DropReason::TruncatedArp)
    );
    world.assert_conserved();
}

pub fn solicitation(about: Ipv6Addr) -> Vec<u8> {
    let from: Ipv6Addr = "2001:db8:3::9".parse().expect("an address");
    let [.., x, y, z] = about.octets();
    let group = Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, x, y, z]);
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(about.octets());
    message.extend([1, 1]);
    message.extend(PEER_MAC.0);
    let sum = checksum::Sum::default()
        .pseudo_v6(from.octets(), group.octets(), 58, 32)
        .bytes(&message)
        .checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut frame = vec![0x33, 0x33, 0xff, x, y, z];
    frame.extend(PEER_MAC.0);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
    frame.extend(from.octets());
    frame.extend(group.octets());
    frame.extend(message);
    frame
}

#[test]
fn ipv6_neighbours_are_answered_and_other_groups_ignored() {
    let mut world = world();
    let out = world.send_frame(0, 0, &solicitation("2001:db8:3::1".parse().expect("an address")));
    assert_eq!(
        (out[0].0, out[0].1[54], &out[0].1[..6]),
        (PortId(0), 136, &PEER_MAC.0[..])
    );
    let other = solicitation("2001:db8:3::77".parse().expect("an address"));
    assert_eq!(reason_of_frame(&mut world, 0, &other), Some(DropReason::NotForUs));
    let mut router = other.clone();
    router[54] = 134;
    assert_eq!(
        reason_of_frame(&mut world, 0, &router),
        Some(DropReason::NotForUs)
    );
    world.assert_conserved();
}

#[test]
fn pings_of_our_own_addresses_are_answered() {
    let mut world = world();
    for (port, ours, from) in [
        (0, "10.0.3.1", "10.0.3.9"),
        (1, "2001:db8:6::1", "2001:db8:6::9"),
        (1, "10.0.9.1", "10.0.6.9"),
    ] {
        let ping =
            packet::build::packet::echo_request(ip(from), ip(ours), 7, 1, b"hello").expect("one family");
        let out = world.send(port, &ping);
        let [(out_port, frame)] = &out[..] else {
            panic!("{ours} answers")
        };
        assert_eq!((out_port.0, &frame[..6]), (port, &PEER_MAC.0[..]));
        let tuple = packet::IpTuple::parse(&frame[14..], frame.len() - 14).expect("an IP packet");
        assert_eq!((tuple.addrs.src(), tuple.addrs.dst()), (ip(ours), ip(from)));
    }
    world.assert_conserved();
}

#[test]
fn what_is_not_for_us_goes_no_further() {
    let mut world = world();
    let udp = |dst: &str, port| UserPacket::udp(Ipv4Addr::new(10, 0, 3, 9), ip(dst), 5, port).bytes();
    assert_eq!(
        reason(&mut world, 1, &udp("10.0.6.1", 2152)),
        Some(DropReason::NotForUs)
    );
    assert_eq!(
        reason(&mut world, 0, &udp("10.0.3.1", 99)),
        Some(DropReason::NotForUs)
    );
    assert_eq!(
        reason(&mut world, 0, &udp("10.45.0.2", 99)),
        Some(DropReason::NotForUs)
    );
    assert_eq!(
        reason(&mut world, 1, &udp("239.1.1.1", 99)),
        Some(DropReason::UnknownUeAddress)
    );
    let mut fragment = uplink();
    fragment[6] = 0x20;
    fragment[10..12].fill(0);
    let sum = checksum::of(&fragment[..20]);
    fragment[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(reason(&mut world, 0, &fragment), Some(DropReason::Fragment));
    let mut elsewhere = frame(0, &uplink());
    elsewhere[5] ^= 1;
    assert_eq!(
        reason_of_frame(&mut world, 0, &elsewhere),
        Some(DropReason::NotForUs)
    );
    let mut group = frame(1, &to_ue());
    group[0] |= 1;
    assert_eq!(reason_of_frame(&mut world, 1, &group), Some(DropReason::NotForUs));
    let mut lldp = frame(1, &to_ue());
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(
        reason_of_frame(&mut world, 1, &lldp),
        Some(DropReason::UnknownEtherType)
    );
    let spoofed = UserPacket::udp(Ipv4Addr::new(10, 45, 0, 99), REMOTE, 1, 2).bytes();
    let spoofed = tunnelled(N3_ADDRESS, TEID, 255, None, &[], &spoofed);
    assert_eq!(reason(&mut world, 0, &uplink()), None);
    assert_eq!(reason(&mut world, 0, &spoofed), Some(DropReason::SpoofedSource));
    world.assert_conserved();
}

#[test]
fn an_unknown_neighbour_is_asked_for_once_and_then_used() {
    let mut world = world();
    let host = ip("10.0.6.200");
    let user = UserPacket::udp(UE, host, 1, 2).bytes();
    let packet = tunnelled(N3_ADDRESS, TEID, 255, None, &[], &user);
    for _ in 0..5 {
        assert_eq!(reason(&mut world, 0, &packet), Some(DropReason::NoNeighbour));
    }
    match &events(&mut world)[..] {
        [Event::Resolve { instance, address }] => assert_eq!((*instance, *address), (InstanceId(1), host)),
        other => panic!("{other:?}"),
    }
    assert_eq!(world.query(0, SessionIndex(1)).counters[0].1.ul_packets, 0);
    world.meet(InstanceId(1), host);
    let out = world.send(0, &packet);
    assert_eq!(out[0].1[..6], mac_of(InstanceId(1), host).0);
}

#[test]
fn new_flows_have_a_budget_and_known_ones_do_not() {
    let mut world = World::with(testing::network(), 1, |config| {
        (config.budgets, config.force_five_tuple) = (Budgets::all(4), true);
    });
    world.install(1, session());
    assert_eq!(reason(&mut world, 0, &uplink()), None);
    let queue = world.wires.to(flow::WorkerId(0), PortId(0)).clone();
    for port in 0..10 {
        let user = UserPacket::udp(UE, REMOTE, 2000 + port, 53).bytes();
        let new = tunnelled(N3_ADDRESS, TEID, 255, None, &[], &user);
        queue
            .push(worker::mem::MemBuf::new(&frame(0, &new)))
            .expect("there is room");
        queue
            .push(worker::mem::MemBuf::new(&frame(0, &uplink())))
            .expect("there is room");
    }
    world.poll();
    assert_eq!(world.take().len(), 14);
    let stats = world.workers[0].stats();
    assert_eq!(
        (stats.dropped(DropReason::SlowPathBudget), stats.installed),
        (6, 5)
    );
    world.assert_conserved();
}

#[test]
fn idle_flows_age() {
    let mut world = World::with(testing::network(), 1, |config| {
        (config.idle, config.aging_per_poll) = (IdleTimes::all(Duration::from_secs(10)), 100_000);
    });
    world.install(1, session());
    world.send(0, &uplink());
    assert_eq!(world.workers[0].flows(), 1);
    world.now = world.now + Duration::from_secs(9);
    world.send(0, &uplink());
    world.now = world.now + Duration::from_secs(9);
    world.poll();
    assert_eq!(world.workers[0].flows(), 1);
    world.now = world.now + Duration::from_secs(9);
    world.poll();
    assert_eq!((world.workers[0].flows(), world.workers[0].stats().aged), (0, 1));
    assert_eq!(reason(&mut world, 0, &uplink()), None);
}

#[test]
fn commands_are_bounded_and_answers_wait_for_room() {
    let mut world = World::with(testing::network(), 1, |config| config.commands_per_poll = 3);
    for op in 0..7 {
        world.controls[0]
            .commands
            .push(Command::Fence { op: flow::OpId(op) })
            .expect("there is room");
    }
    for fences in [3, 3, 1, 0] {
        world.poll();
        assert_eq!(events(&mut world).len(), fences);
    }
    let (mut control, link) = worker::control_channel(8, 2);
    let (_, mut ios) = worker::mem::Wires::new(1, 1, 8);
    let config = worker::WorkerConfig::new(
        flow::WorkerId(0),
        1,
        Arc::new(testing::network()),
        vec![MacAddr([2; 6])],
        flow::Seed([1, 2]),
    );
    let mut worker = worker::Worker::new(config, ios.remove(0), link).expect("there is memory");
    for op in 0..5 {
        control
            .commands
            .push(Command::Fence { op: flow::OpId(op) })
            .expect("there is room");
    }
    let taken: Vec<usize> = (0..2).map(|_| worker.poll(world.now).commands).collect();
    assert_eq!(taken, [2, 0]);
    assert_eq!(std::iter::from_fn(|| control.events.pop().ok()).count(), 2);
    assert_eq!(worker.poll(world.now).commands, 2);
}

#[test]
fn control_sends_frames_through_a_worker() {
    let mut world = world();
    let bytes: Box<[u8]> = frame(0, b"hello").into();
    world.tell_all(|| Command::Transmit {
        port: PortId(2),
        bytes: bytes.clone(),
    });
    assert_eq!(world.take(), [(PortId(2), bytes.to_vec())]);
    world.tell_all(|| Command::Transmit {
        port: PortId(99),
        bytes: bytes.clone(),
    });
    assert_eq!(world.workers[0].stats().dropped(DropReason::PortDown), 1);
    world.assert_conserved();
}

#[test]
fn a_full_port_drops_what_does_not_fit() {
    let mut world = world();
    let queue = world.wires.to(flow::WorkerId(0), PortId(0)).clone();
    for _ in 0..20 {
        for _ in 0..64 {
            queue
                .push(worker::mem::MemBuf::new(&frame(0, &uplink())))
                .expect("there is room");
        }
        world.poll();
    }
    assert_eq!(world.wires.from(PortId(1)).len(), 1024);
    assert_eq!(world.workers[0].stats().dropped(DropReason::TxFull), 1280 - 1024);
    let counted = world.query(0, SessionIndex(1)).counters[0].1;
    assert_eq!(
        (counted.ul_packets, counted.ul_octets),
        (1024, 1024 * from_ue().len() as u64)
    );
    world.assert_conserved();
}

#[test]
fn an_address_inside_another_sessions_prefix_is_taken_from_it() {
    let mut world = world();
    let inside = Ipv6Addr::from_bits(UE_V6.to_bits() | 5);
    let remote: Ipv6Addr = "2001:db8:ffff::1".parse().expect("an address");
    let packet = UserPacket::udp(remote, inside, 1, 2).bytes();
    let teid = |out: &[(PortId, Vec<u8>)]| out[0].1[49];
    let out = world.send(1, &packet);
    assert_eq!(teid(&out), GNB_TEID as u8);
    let other = OuterHeaderCreation::gtpu_ipv4(Teid(88), GNB);
    let mut rules = pdu_session(0x1002, other);
    let mut change = rules::model::PdrUpdate::new(rules::model::PdrId(2));
    let ue_ip = rules::model::UeIpAddress {
        ipv4: None,
        ipv6: Some((inside, 128)),
        is_destination: true,
    };
    change.pdi = Some(rules::model::PdiUpdate {
        ue_ip: Some(vec![ue_ip]),
        ..Default::default()
    });
    rules.update_pdr(change).expect("it is there");
    world.install(2, rules);
    let out = world.send(1, &packet);
    assert_eq!(teid(&out), 88);
}

/// The charging point is behind all that may drop a packet.
#[test]
fn packets_that_are_dropped_are_not_charged() {
    let network = testing::network_with(|instance| instance.fragmentation = Fragmentation::Never);
    let mut world = World::with(network, 1, |_| {});
    world.install(1, session());
    let to = |host: &str, payload: usize| {
        let mut user = UserPacket::udp(UE, ip(host), 1, 2);
        user.payload = vec![0; payload];
        tunnelled(N3_ADDRESS, TEID, 255, None, &[], &user.bytes())
    };
    for (packet, expected) in [
        // Of the link of the gNBs, where no UE's packets go.
        (to("10.200.0.5", 10), DropReason::NoRoute),
        (to("10.0.6.200", 10), DropReason::NoNeighbour),
        (to("192.0.2.1", 1500), DropReason::TooBig),
    ] {
        assert_eq!(reason(&mut world, 0, &packet), Some(expected));
    }
    let before = world.drops();
    let no_headroom = packet::VecBuf::with_headroom(&frame(1, &to_ue()), 0);
    let queue = world.wires.to(flow::WorkerId(0), PortId(1)).clone();
    queue.push(no_headroom.into()).expect("there is room");
    world.poll();
    assert_eq!(world.dropped_since(&before), Some(DropReason::NoHeadroom));
    let counted = world.query(0, SessionIndex(1)).counters[0].1;
    assert_eq!(counted, flow::UrrCount::default());
    world.assert_conserved();
}

/// Whatever else leaves by a full port, a session counts the packets that left.
#[test]
fn packets_lost_at_a_full_port_are_not_counted() {
    let mut world = World::with(testing::network(), 1, |config| {
        config.error_indications = 1_000_000;
        config.echoes = worker::PacketRates::new(1_000_000, 1_000_000);
    });
    let mut rules = session();
    let forwarding = Edit::Set(ForwardingParametersUpdate {
        destination: Some(rules::model::DestinationInterface::Access),
        outer_header_creation: Edit::Set(OuterHeaderCreation::gtpu_ipv4(Teid(GNB_TEID), GNB)),
        ..ForwardingParametersUpdate::default()
    });
    rules
        .update_far(FarUpdate {
            forwarding,
            ..FarUpdate::new(FarId(1))
        })
        .expect("it is there");
    world.install(1, rules);
    let mut echo = tunnelled(N3_ADDRESS, 0, 1, None, &[], &[]);
    echo.splice(28.., [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
    fix_lengths(&mut echo);
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    let end_marker = tunnelled(N3_ADDRESS, TEID, 254, None, &[], &[]);
    let queue = world.wires.to(flow::WorkerId(0), PortId(0)).clone();
    let mut sent = 0;
    for number in 0..1500_usize {
        let packet = match number * number % 7 {
            0 => &echo,
            1 => &stray,
            2 => &end_marker,
            _ => &uplink(),
        };
        sent += usize::from(number * number % 7 > 2);
        queue
            .push(worker::mem::MemBuf::new(&frame(0, packet)))
            .expect("there is room");
        if number % 61 == 0 {
            world.poll();
        }
    }
    world.poll();
    let out = world.take();
    let left = out.iter().filter(|(_, frame)| frame[43] == 255).count();
    assert!(left > 100 && left < sent, "{left} of {sent}");
    assert_eq!(
        world.query(0, SessionIndex(1)).counters[0].1.ul_packets,
        left as u64
    );
    world.assert_conserved();
}
