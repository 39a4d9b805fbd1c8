//! What the host's own network stack gets of the packets for our addresses, and what it sends.

use std::net::{Ipv4Addr, SocketAddr};

use flow::PortId;
use packet::build::packet as build;
use packet::{DropReason, checksum};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};
use transport::NeighbourMessage;
use worker::mem::MemBuf;
use worker::{Event, HostRates, Urgency};

use crate::common::one_session::{REMOTE, TEID, events, ip, reason, reason_of_frame, session, to_ue};
use crate::common::{PEER_MAC, World, frame, our_mac};

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
const OURS: &str = "10.0.6.1";
const ROUTER: &str = "10.0.6.9";

/// N3 and N6 have a host; the rest has none.
fn world_with(rates: HostRates) -> World {
    let mut world = World::with(testing::network(), 1, |config| {
        config.host = vec![Some(rates), Some(rates)];
    });
    world.install(1, session());
    world
}

fn world() -> World {
    world_with(HostRates {
        urgent: 100,
        usual: 100,
    })
}

fn socket(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(ip(address), port)
}

fn tcp(from: &str, to: &str, port: u16) -> Vec<u8> {
    build::tcp(socket(from, 40_000), socket(to, port), 1, 2, &[]).expect("one family")
}

fn udp(from: &str, to: &str, port: u16) -> Vec<u8> {
    build::udp(socket(from, 40_000), socket(to, port), b"hello").expect("one family")
}

/// What the host got since, of each queue.
fn given(world: &World) -> [Vec<Vec<u8>>; 2] {
    Urgency::ALL.map(|urgency| {
        let queue = world.wires.host_gets(urgency);
        std::iter::from_fn(|| queue.pop().map(|buf| buf.bytes().to_vec())).collect()
    })
}

/// Which queue a frame came to, as it was sent.
fn queue_of(world: &mut World, port: u16, frame: &[u8]) -> Option<Urgency> {
    let out = world.send_frame(0, port, frame);
    assert_eq!(out, [], "it goes nowhere else");
    let given = given(world);
    let has = |urgency: &Urgency| !given[*urgency as usize].is_empty();
    let queue = Urgency::ALL.into_iter().find(has)?;
    assert_eq!(given[queue as usize], [frame]);
    Some(queue)
}

fn to_group(mut frame: Vec<u8>, mac: [u8; 6]) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac);
    frame
}

/// An IPv4 packet of another protocol, OSPF say.
fn of_protocol(protocol: u8, to: &str) -> Vec<u8> {
    let addrs = build::addrs(ip(ROUTER), ip(to)).expect("one family");
    build::ip(&addrs, protocol, &build::IpOptions::default(), &[2, 1, 0, 44]).expect("a packet")
}

#[test]
fn what_is_unused_here_goes_to_the_host_as_it_came() {
    let mut world = world();
    let ospf = to_group(
        frame(N6_PORT, &of_protocol(89, "224.0.0.5")),
        [1, 0, 0x5e, 0, 0, 5],
    );
    let mut lldp = to_group(frame(N6_PORT, &to_ue()), [1, 0x80, 0xc2, 0, 0, 0xe]);
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    let mut marked = udp(ROUTER, OURS, 5000);
    marked[1] = 48 << 2;
    marked[10..12].fill(0);
    let sum = checksum::of(&marked[..20]);
    marked[10..12].copy_from_slice(&sum.to_be_bytes());
    let reply = build::echo_request(ip(ROUTER), ip(OURS), 7, 1, b"hello").map(|mut packet| {
        packet[20] = 0;
        packet[22..24].fill(0);
        let sum = checksum::of(&packet[20..]);
        packet[22..24].copy_from_slice(&sum.to_be_bytes());
        packet
    });
    for (frame, queue) in [
        (frame(N6_PORT, &tcp(ROUTER, OURS, 179)), Urgency::Urgent),
        (frame(N6_PORT, &tcp(ROUTER, OURS, 22)), Urgency::Usual),
        (frame(N6_PORT, &udp(ROUTER, OURS, 3784)), Urgency::Urgent),
        (frame(N6_PORT, &udp(ROUTER, OURS, 8805)), Urgency::Urgent),
        (
            frame(N6_PORT, &udp("2001:db8:6::9", "2001:db8:6::1", 4784)),
            Urgency::Urgent,
        ),
        (
            frame(N6_PORT, &udp("2001:db8:6::9", "2001:db8:6::1", 53)),
            Urgency::Usual,
        ),
        (frame(N6_PORT, &udp(ROUTER, OURS, 5000)), Urgency::Usual),
        (frame(N6_PORT, &marked), Urgency::Urgent),
        (frame(N6_PORT, &reply.expect("one family")), Urgency::Usual),
        (ospf, Urgency::Urgent),
        (lldp, Urgency::Usual),
    ] {
        assert_eq!(queue_of(&mut world, N6_PORT, &frame), Some(queue), "{frame:02x?}");
    }
    let ping = build::echo_request(ip(ROUTER), ip(OURS), 7, 1, b"hello").expect("one family");
    assert_eq!(world.send(N6_PORT, &ping).len(), 1, "we answer these ourselves");
    assert_eq!(given(&world), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    let stats = world.workers[0].stats();
    assert_eq!((stats.to_host, stats.answered), (11, 1));
    world.assert_conserved();
}

#[test]
fn it_gets_what_neighbours_answer_and_no_question() {
    let mut world = world();
    let arp = |operation: u8| {
        let mut frame = [
            &our_mac(N6_PORT).0[..],
            &PEER_MAC.0,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
        ]
        .concat();
        frame.extend(
            [
                &PEER_MAC.0[..],
                &[10, 0, 6, 9],
                &our_mac(N6_PORT).0,
                &[10, 0, 6, 1],
            ]
            .concat(),
        );
        frame
    };
    let queue = queue_of(&mut world, N6_PORT, &arp(2));
    assert_eq!(queue, Some(Urgency::Urgent));
    let reported = events(&mut world);
    assert!(
        matches!(
            reported[..],
            [Event::Neighbour {
                message: NeighbourMessage::Reply,
                ..
            }]
        ),
        "{reported:?}"
    );
    assert_eq!(world.send_frame(0, N6_PORT, &arp(1)).len(), 1, "answered");
    assert_eq!(given(&world), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    world.assert_conserved();
}

#[test]
fn no_ue_reaches_the_host() {
    let mut world = world();
    let inner = UserPacket::udp(UE, ip(OURS), 1000, 22).bytes();
    let uplink = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner);
    assert_eq!(
        reason(&mut world, N3_PORT, &uplink),
        Some(DropReason::NoNeighbour)
    );
    let inner = UserPacket::udp(UE, REMOTE, 1000, 22).bytes();
    let uplink = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner);
    assert_eq!(world.send(N3_PORT, &uplink).len(), 1);
    assert_eq!(given(&world), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    world.assert_conserved();
}

#[test]
fn what_no_host_wants_or_can_have_sent_is_dropped() {
    let mut world = world();
    let from_us = udp("10.0.6.1", OURS, 99);
    assert_eq!(
        reason(&mut world, N6_PORT, &from_us),
        Some(DropReason::MartianSource)
    );
    let of_others = udp(ROUTER, "10.0.6.77", 99);
    assert_eq!(
        reason(&mut world, N6_PORT, &of_others),
        Some(DropReason::UnknownUeAddress)
    );
    let broadcast = to_group(frame(N6_PORT, &udp(ROUTER, "255.255.255.255", 67)), [0xff; 6]);
    assert_eq!(
        reason_of_frame(&mut world, N6_PORT, &broadcast),
        Some(DropReason::NotForUs)
    );
    let group = to_group(
        frame(N6_PORT, &udp(ROUTER, "239.1.1.1", 67)),
        [1, 0, 0x5e, 1, 1, 1],
    );
    assert_eq!(
        reason_of_frame(&mut world, N6_PORT, &group),
        Some(DropReason::NotForUs)
    );
    let mut elsewhere = frame(N6_PORT, &udp(ROUTER, OURS, 99));
    elsewhere[5] ^= 0xff;
    assert_eq!(
        reason_of_frame(&mut world, N6_PORT, &elsewhere),
        Some(DropReason::NotForUs)
    );
    assert_eq!(given(&world), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
    world.assert_conserved();
}

#[test]
fn a_flood_at_one_instance_leaves_the_urgent_and_the_others_theirs() {
    let mut world = world_with(HostRates { urgent: 3, usual: 2 });
    let mut counts = [0; 3];
    for _ in 0..10 {
        counts[0] += usize::from(reason(&mut world, N6_PORT, &tcp(ROUTER, OURS, 22)).is_none());
        counts[1] += usize::from(reason(&mut world, N6_PORT, &tcp(ROUTER, OURS, 179)).is_none());
        let other = tcp("10.0.3.9", "10.0.3.1", 22);
        counts[2] += usize::from(reason(&mut world, N3_PORT, &other).is_none());
    }
    assert_eq!(counts, [2, 3, 2]);
    assert_eq!(world.workers[0].stats().dropped(DropReason::HostRate), 8 + 7 + 8);
    world.assert_conserved();
}

#[test]
fn a_host_that_takes_nothing_loses_what_finds_no_room() {
    let mut world = world_with(HostRates {
        urgent: 5_000,
        usual: 5_000,
    });
    for _ in 0..1_100 {
        world.send(N6_PORT, &tcp(ROUTER, OURS, 22));
    }
    let stats = world.workers[0].stats();
    assert_eq!(
        (stats.to_host, stats.dropped(DropReason::HostQueueFull)),
        (1_024, 76)
    );
    world.assert_conserved();
}

#[test]
fn what_the_host_sends_leaves_as_it_is() {
    let mut world = world();
    let sent = frame(N3_PORT, &tcp(OURS, ROUTER, 179));
    let mut buf = MemBuf::new(&sent);
    worker::PacketMetadata::set_ingress(&mut buf, PortId(N6_PORT));
    world.wires.host_sends().push(buf).expect("there is room");
    world.poll();
    assert_eq!(world.take(), [(PortId(N6_PORT), sent)]);
    assert_eq!(world.workers[0].stats().from_host, 1);
    world.assert_conserved();
}

#[test]
fn without_a_host_nothing_is_given() {
    let mut world = World::new();
    let router: Ipv4Addr = ROUTER.parse().expect("an address");
    let packet = UserPacket::udp(router, ip(OURS), 5, 179).bytes();
    assert_eq!(reason(&mut world, N6_PORT, &packet), Some(DropReason::NotForUs));
    assert_eq!(given(&world), [vec![], vec![]] as [Vec<Vec<u8>>; 2]);
}
