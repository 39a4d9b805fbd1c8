//! ICMP errors to the senders of user packets that are not forwarded, as from a router on the data network's link.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use flow::PortId;
use packet::DropReason;
use packet::build::packet::{self as build, IpOptions};
use rules::network::Fragmentation;
use rules::testing::{self, N3_ADDRESS, UE, tunnelled};
use worker::WorkerConfig;

use crate::common::one_session::{REMOTE, TEID, ip, session};
use crate::common::{PEER_MAC, World, our_mac};

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
/// Our addresses on the data network's link.
const OURS: &str = "10.0.6.1";
const OURS_6: &str = "2001:db8:6::1";
const REMOTE_6: &str = "2001:db8:99::1";
/// What a packet for the UE has before it on N3: IPv4, UDP, GTP-U and a PDU Session Container.
const OUTER: u16 = 20 + 8 + 8 + 8;

fn world(configure: impl Fn(&mut WorkerConfig)) -> World {
    let mut world = World::with(testing::network(), 1, configure);
    world.install(1, session());
    world
}

fn ue_6() -> IpAddr {
    ip("2001:db8:45:2::1")
}

/// A UDP packet of `octets` in all that may not be fragmented.
fn udp(from: IpAddr, to: IpAddr, octets: usize, ttl: u8) -> Vec<u8> {
    let header = if from.is_ipv4() { 28 } else { 48 };
    let options = IpOptions {
        ttl,
        ..IpOptions::default()
    };
    let (from, to) = (SocketAddr::new(from, 4000), SocketAddr::new(to, 5000));
    let mut packet = build::udp_with(from, to, &options, &vec![7; octets - header]).expect("a packet");
    if header == 28 {
        set_flags(&mut packet, 0x40);
    }
    packet
}

/// Gives an IPv4 packet these flags, and the checksum for them.
fn set_flags(packet: &mut [u8], flags: u8) {
    packet[6] = flags;
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
}

fn uplink(inner: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], inner)
}

/// An ICMP error: from, to, type, code, the last 32 bits of its header, what it quotes.
type IcmpError = (IpAddr, IpAddr, u8, u8, u32, Vec<u8>);

fn parsed(packet: &[u8]) -> IcmpError {
    let (from, to, icmp): (IpAddr, IpAddr, &[u8]) = if packet[0] >> 4 == 4 {
        let address =
            |at: usize| IpAddr::from(<[u8; 4]>::try_from(&packet[at..at + 4]).expect("four octets"));
        (address(12), address(16), &packet[20..])
    } else {
        let address =
            |at: usize| IpAddr::from(<[u8; 16]>::try_from(&packet[at..at + 16]).expect("16 octets"));
        (address(8), address(24), &packet[40..])
    };
    let rest = u32::from_be_bytes(icmp[4..8].try_into().expect("four octets"));
    (from, to, icmp[0], icmp[1], rest, icmp[8..].to_vec())
}

/// The ICMP error to the UE about a packet of its own.
fn error_to_ue(world: &mut World, inner: &[u8]) -> Option<IcmpError> {
    let mut out = world.send(N3_PORT, &uplink(inner));
    let (port, frame) = out.pop()?;
    assert!(
        out.is_empty() && port == PortId(N3_PORT),
        "one packet, to the gNB"
    );
    Some(parsed(&frame[14 + usize::from(OUTER)..]))
}

/// The ICMP error to a host of the data network about a packet for the UE.
fn error_to_host(world: &mut World, packet: &[u8]) -> Option<IcmpError> {
    let mut out = world.send(N6_PORT, packet);
    let (port, frame) = out.pop()?;
    assert!(
        out.is_empty() && port == PortId(N6_PORT),
        "one packet, to the data network"
    );
    assert_eq!(
        (&frame[..6], &frame[6..12]),
        (&PEER_MAC.0[..], &our_mac(N6_PORT).0[..])
    );
    Some(parsed(&frame[14..]))
}

#[test]
fn a_ue_learns_that_the_ttl_of_its_packet_ran_out() {
    let mut world = world(|_| {});
    let packet = udp(UE.into(), REMOTE.into(), 100, 1);
    let expected = (ip(OURS), UE.into(), 11, 0, 0, packet.clone());
    assert_eq!(error_to_ue(&mut world, &packet), Some(expected));
    let packet = udp(ue_6(), ip(REMOTE_6), 100, 1);
    let expected = (ip(OURS_6), ue_6(), 3, 0, 0, packet.clone());
    assert_eq!(error_to_ue(&mut world, &packet), Some(expected));
    let stats = world.workers[0].stats();
    assert_eq!((stats.dropped(DropReason::TtlExpired), stats.icmp_errors), (2, 2));
    assert_eq!(stats.unaccounted(), 0);
}

#[test]
fn a_ue_learns_how_long_its_packets_may_be() {
    let mut world = world(|_| {});
    let packet = udp(UE.into(), REMOTE.into(), 1501, 64);
    let (from, to, kind, code, mtu, quoted) = error_to_ue(&mut world, &packet).expect("an ICMP error");
    assert_eq!((from, to, kind, code, mtu), (ip(OURS), UE.into(), 3, 4, 1500));
    assert!(
        packet.starts_with(&quoted) && quoted.len() == 576 - 28,
        "{}",
        quoted.len()
    );
    let packet = udp(ue_6(), ip(REMOTE_6), 1501, 64);
    let (from, to, kind, code, mtu, quoted) = error_to_ue(&mut world, &packet).expect("an ICMP error");
    assert_eq!((from, to, kind, code, mtu), (ip(OURS_6), ue_6(), 2, 0, 1500));
    assert!(
        packet.starts_with(&quoted) && quoted.len() == 1280 - 48,
        "{}",
        quoted.len()
    );
    assert_eq!(world.workers[0].stats().dropped(DropReason::TooBig), 2);
}

#[test]
fn a_host_learns_what_fits_into_the_tunnel() {
    let mut world = world(|_| {});
    let fits = 1500 - OUTER;
    let packet = udp(REMOTE.into(), UE.into(), usize::from(fits) + 1, 64);
    let (from, to, kind, code, mtu, quoted) = error_to_host(&mut world, &packet).expect("an ICMP error");
    assert_eq!(
        (from, to, kind, code, mtu),
        (ip(OURS), REMOTE.into(), 3, 4, fits.into())
    );
    assert!(packet.starts_with(&quoted));
    let packet = udp(ip(REMOTE_6), ue_6(), usize::from(fits) + 1, 64);
    let (from, to, kind, _, mtu, _) = error_to_host(&mut world, &packet).expect("an ICMP error");
    assert_eq!((from, to, kind, mtu), (ip(OURS_6), ip(REMOTE_6), 2, fits.into()));
    let packet = udp(REMOTE.into(), UE.into(), 100, 1);
    let (_, _, kind, code, _, quoted) = error_to_host(&mut world, &packet).expect("an ICMP error");
    assert_eq!((kind, code, quoted), (11, 0, packet));
}

#[test]
fn what_fits_is_forwarded() {
    let mut world = world(|_| {});
    let longest = udp(REMOTE.into(), UE.into(), usize::from(1500 - OUTER), 2);
    let out = world.send(N6_PORT, &longest);
    assert_eq!(out.len(), 1);
    assert_eq!((out[0].0, out[0].1.len()), (PortId(N3_PORT), 14 + 1500));
    assert_eq!(world.workers[0].stats().icmp_errors, 0);
}

#[test]
fn no_error_is_sent_about_errors_and_multicasts() {
    let network = testing::network_with(|instance| instance.fragmentation = Fragmentation::Never);
    let mut world = World::with(network, 1, |_| {});
    world.install(1, session());
    // It might have been fragmented.
    let mut fragmentable = udp(REMOTE.into(), UE.into(), 1500, 64);
    set_flags(&mut fragmentable, 0);
    assert_eq!(error_to_host(&mut world, &fragmentable), None);
    assert_eq!(world.workers[0].stats().dropped(DropReason::TooBig), 1);
    // An error itself.
    let about = udp(UE.into(), REMOTE.into(), 100, 1);
    let error = error_to_ue(&mut world, &about).expect("an ICMP error").5;
    let message = [&[11, 0, 0, 0, 0, 0, 0, 0][..], &error].concat();
    let options = IpOptions {
        ttl: 1,
        ..IpOptions::default()
    };
    let addrs = build::addrs(UE.into(), REMOTE.into()).expect("of one family");
    let error = build::ip(&addrs, 1, &options, &message).expect("a packet");
    assert_eq!(error_to_ue(&mut world, &error), None);
    assert_eq!(world.workers[0].stats().dropped(DropReason::TtlExpired), 2);
}

#[test]
fn a_session_gets_so_many_a_second() {
    let mut world = world(|config| config.icmp_errors = worker::PacketRates::new(100, 2));
    let packet = udp(UE.into(), REMOTE.into(), 100, 1);
    let mut reported = |count: usize| {
        (0..count)
            .filter(|_| error_to_ue(&mut world, &packet).is_some())
            .count()
    };
    let at_once = reported(20);
    assert!((1..=2).contains(&at_once), "{at_once}");
    world.now = world.now + Duration::from_secs(1);
    let mut reported = |count: usize| {
        (0..count)
            .filter(|_| error_to_ue(&mut world, &packet).is_some())
            .count()
    };
    assert!((1..=2).contains(&reported(20)));
    assert!(world.workers[0].stats().dropped(DropReason::TtlExpired) == 40);
}
