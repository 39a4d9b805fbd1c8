//! Paths to GTP-U peers that are narrower than the link: what routers report, and what becomes of packets then.

use std::net::IpAddr;

use packet::build::packet::{self as build, IpOptions};
use packet::icmp::IcmpError;
use packet::tcp::flags::SYN;
use packet::too_big::TooBig;
use packet::{DropReason, IpTuple, Teid, checksum, tcp};
use rules::SessionRules;
use rules::model::{OuterHeaderCreation, OuterHeaderKind};
use rules::network::{Fragmentation, Mss};
use rules::testing::{self, GNB, N3_ADDRESS, UE, pdu_session, tunnelled};
use worker::{Command, Event};

use crate::common::World;
use crate::common::one_session::{GNB_TEID, REMOTE, TEID, events, session};

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
const ROUTER: [u8; 4] = [192, 0, 2, 254];
const GNB_V6: &str = "2001:db8:200::1";

fn over_ipv6() -> SessionRules {
    pdu_session(
        TEID,
        OuterHeaderCreation {
            kind: OuterHeaderKind::GTPU_IPV6,
            teid: Teid(GNB_TEID),
            ipv4: None,
            ipv6: Some(GNB_V6.parse().expect("an address")),
            port: None,
        },
    )
}

pub(crate) fn world(rules: SessionRules, how: Fragmentation) -> World {
    let network = testing::network_with(|instance| {
        instance.fragmentation = how;
        instance.mss = Mss::Auto;
    });
    let mut world = World::with(network, 1, |_| {});
    world.install(1, rules);
    world
}

/// The worker receives a path's MTU.
pub(crate) fn announce_mtu(world: &mut World, (local, peer): (IpAddr, IpAddr), mtu: Option<u16>) {
    let command = Command::PathMtu { local, peer, mtu };
    world.controls[0].commands.push(command).expect("there is room");
    world.poll();
}

pub(crate) fn to_gnb() -> (IpAddr, IpAddr) {
    (N3_ADDRESS.into(), GNB.into())
}

/// A packet for the UE, with its length in octets.
fn to_ue(octets: usize, may_fragment: bool) -> Vec<u8> {
    let (from, to) = ((REMOTE, 5000).into(), (UE, 4000).into());
    let mut packet = build::udp(from, to, &vec![7; octets - 28]).expect("a packet");
    packet[6] = if may_fragment { 0 } else { 0x40 };
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// What leaves for a packet from the data network, without Ethernet.
fn sent(world: &mut World, packet: &[u8]) -> Vec<Vec<u8>> {
    let out = world.send(N6_PORT, packet);
    world.assert_conserved();
    out.into_iter().map(|(_, frame)| frame[14..].to_vec()).collect()
}

#[test]
fn a_narrow_path_has_its_own_mtu_and_others_keep_theirs() {
    for how in [Fragmentation::Inner, Fragmentation::Outer] {
        let mut world = world(session(), how);
        assert_eq!(sent(&mut world, &to_ue(1456, true)).len(), 1);
        announce_mtu(&mut world, to_gnb(), Some(1400));
        let sizes = |world: &mut World, octets| {
            let out = sent(world, &to_ue(octets, true));
            out.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(sizes(&mut world, 1356), [1400]);
        let cut = sizes(&mut world, 1357);
        assert!(
            cut.len() == 2 && cut.iter().all(|octets| *octets <= 1400),
            "{cut:?}"
        );
        // Another path lowers the bound, and not this path's MTU.
        announce_mtu(
            &mut world,
            (N3_ADDRESS.into(), [10, 200, 9, 9].into()),
            Some(1300),
        );
        assert_eq!(sizes(&mut world, 1356), [1400]);
        assert_eq!(sizes(&mut world, 1357).len(), 2);
        announce_mtu(&mut world, to_gnb(), None);
        assert_eq!(sizes(&mut world, 1456), [1500]);
    }
}

#[test]
fn a_sender_learns_the_mtu_of_the_path() {
    let mut world = world(session(), Fragmentation::Inner);
    announce_mtu(&mut world, to_gnb(), Some(1400));
    let reported = sent(&mut world, &to_ue(1357, false));
    assert_eq!(reported.len(), 1);
    let reported = &reported[0];
    assert_eq!(reported[16..20], REMOTE.octets(), "to the sender");
    assert_eq!((reported[20], reported[21]), (3, 4));
    assert_eq!(reported[26..28], 1356u16.to_be_bytes());
    assert_eq!(world.workers[0].stats().dropped(DropReason::TooBig), 1);
    // What leaves without a tunnel is not affected.
    let plain = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &from_ue(1450));
    assert_eq!(world.send(N3_PORT, &plain).len(), 1);
}

fn from_ue(octets: usize) -> Vec<u8> {
    let (from, to) = ((UE, 4000).into(), (REMOTE, 5000).into());
    build::udp(from, to, &vec![7; octets - 28]).expect("a packet")
}

#[test]
fn paths_over_ipv6_are_narrow_as_well() {
    let mut world = world(over_ipv6(), Fragmentation::Inner);
    let local = "2001:db8:3::1".parse().expect("an address");
    announce_mtu(
        &mut world,
        (local, GNB_V6.parse().expect("an address")),
        Some(1400),
    );
    assert_eq!(sent(&mut world, &to_ue(1336, true)).len(), 1);
    assert_eq!(sent(&mut world, &to_ue(1337, true)).len(), 2);
}

/// A SYN with a size of 1,460.
pub(crate) fn syn(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Vec<u8> {
    let mut packet = build::tcp(from.into(), to.into(), 7, SYN, &[2, 4, 0x05, 0xb4]).expect("a packet");
    let tuple = IpTuple::parse(&packet, packet.len()).expect("a packet");
    packet[20 + 12] = 0x60;
    tcp::fill_checksum(&tuple.addrs, &mut packet[20..]).expect("a segment");
    packet
}

#[test]
fn tcp_connections_reckon_with_the_path_in_both_directions() {
    let mut world = world(session(), Fragmentation::Inner);
    announce_mtu(&mut world, to_gnb(), Some(1400));
    let (ue, remote) = ((UE.octets(), 40_000), (REMOTE.octets(), 443));
    let down = &sent(&mut world, &syn(remote, ue))[0];
    assert_eq!(down[down.len() - 2..], 1316u16.to_be_bytes());
    let up = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &syn(ue, remote));
    let up = &world.send(N3_PORT, &up)[0].1;
    assert_eq!(up[up.len() - 2..], 1316u16.to_be_bytes());
}

/// A router's ICMP error about a packet to the gNB.
fn router_error(outer: &[u8], error: IcmpError, router: IpAddr) -> Vec<u8> {
    let tuple = IpTuple::parse(outer, outer.len()).expect("a packet");
    let mut out = vec![0; 1500];
    let len = error
        .write(&mut out, router, outer, &tuple)
        .expect("there is room");
    out.truncate(len);
    out
}

fn too_big(world: &mut World) -> Vec<TooBig> {
    let reported = events(world);
    let reported = reported.into_iter().filter_map(|event| match event {
        Event::TooBig(reported) => Some(reported),
        _ => None,
    });
    reported.collect()
}

#[test]
fn control_gets_icmp_errors_about_own_packets() {
    for (rules, router, error) in [
        (
            session(),
            IpAddr::from(ROUTER),
            IcmpError::fragmentation_needed_v4(1300),
        ),
        (
            over_ipv6(),
            "2001:db8:9::9".parse().expect("an address"),
            IcmpError::packet_too_big_v6(1300),
        ),
    ] {
        let mut world = world(rules, Fragmentation::Inner);
        let outer = sent(&mut world, &to_ue(1400, true)).remove(0);
        let tuple = IpTuple::parse(&outer, outer.len()).expect("a packet");
        let reported = router_error(&outer, error, router);
        events(&mut world);
        assert_eq!(world.send(N3_PORT, &reported), []);
        let expected = TooBig {
            local: tuple.addrs.src(),
            peer: tuple.addrs.dst(),
            teid: Teid(GNB_TEID),
            mtu: 1300,
        };
        assert_eq!(too_big(&mut world), [expected]);
        world.assert_conserved();
        // A limited number in a time, and none that is damaged.
        for _ in 0..100 {
            world.send(N3_PORT, &reported);
        }
        assert!(too_big(&mut world).len() <= 32);
        let mut damaged = reported;
        *damaged.last_mut().expect("octets") ^= 1;
        world.send(N3_PORT, &damaged);
        assert_eq!(too_big(&mut world), []);
        assert_eq!(world.workers[0].stats().dropped(DropReason::BadIcmp), 1);
        world.assert_conserved();
    }
}

#[test]
fn other_sources_are_not_heeded() {
    let mut world = world(session(), Fragmentation::Inner);
    let outer = sent(&mut world, &to_ue(1400, true)).remove(0);
    let reported = router_error(&outer, IcmpError::fragmentation_needed_v4(1300), ROUTER.into());
    events(&mut world);
    // From the data network: tunnels do not end there.
    world.send(N6_PORT, &reported);
    // By a UE, through its tunnel.
    let inside = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &reported);
    world.send(N3_PORT, &inside);
    // About what is no GTP-U.
    let addrs = build::addrs(N3_ADDRESS.into(), GNB.into()).expect("one family");
    let other = build::ip(&addrs, 17, &IpOptions::default(), &[0; 1400]).expect("short");
    let reported = router_error(&other, IcmpError::fragmentation_needed_v4(1300), ROUTER.into());
    world.send(N3_PORT, &reported);
    assert_eq!(too_big(&mut world), []);
    world.assert_conserved();
}
