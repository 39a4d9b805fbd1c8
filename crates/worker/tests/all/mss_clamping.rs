//! MSS clamping: the segment sizes of users' SYNs are lowered.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use packet::tcp::flags::{ACK, SYN};
use packet::{IpTuple, checksum, mss, tcp};
use rules::network::{Mss, Network};
use rules::testing::{self, N3, N3_ADDRESS, N6, UE, UE_V6, UserPacket, tunnelled};

use crate::common::World;
use crate::common::one_session::{REMOTE, TEID, session};

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
/// The options of a SYN as Linux sends it, with a size of 1,460.
const OPTIONS: [u8; 20] = [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 1, 2, 3, 0, 0, 0, 0, 1, 3, 3, 7];

pub fn network(n3: Mss, n6: Mss) -> Network {
    testing::network_with(|instance| match instance.id {
        N3 => instance.mss = n3,
        N6 => instance.mss = n6,
        _ => {}
    })
}

fn world(n3: Mss, n6: Mss) -> World {
    let mut world = World::with(network(n3, n6), 1, |_| {});
    world.install(1, session());
    world
}

/// A TCP segment of these flags and options, to or from the UE.
pub fn user(is_uplink: bool, is_v4: bool, flags: u8, options: &[u8]) -> Vec<u8> {
    let remote: IpAddr = match is_v4 {
        true => REMOTE.into(),
        false => "2001:db8:5::1".parse::<Ipv6Addr>().expect("an address").into(),
    };
    let ue: IpAddr = if is_v4 { UE.into() } else { UE_V6.into() };
    let (ue, remote) = (SocketAddr::new(ue, 40_000), SocketAddr::new(remote, 443));
    let (from, to) = if is_uplink { (ue, remote) } else { (remote, ue) };
    let mut packet = packet::build::packet::tcp(from, to, 7, flags, options).expect("a packet");
    let tuple = IpTuple::parse(&packet, packet.len()).expect("a packet");
    let segment = &mut packet[tuple.l4_offset.into()..];
    segment[12] = ((20 + options.len()) as u8 / 4) << 4;
    tcp::fill_checksum(&tuple.addrs, segment).expect("a segment");
    packet
}

/// Sends it; gives what leaves, without the headers of a tunnel.
fn pass(world: &mut World, is_uplink: bool, packet: &[u8]) -> Vec<u8> {
    let out = match is_uplink {
        true => {
            let frame = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], packet);
            world.send(N3_PORT, &frame)
        }
        false => world.send(N6_PORT, packet),
    };
    world.assert_conserved();
    assert_eq!(out.len(), 1);
    let frame = &out[0].1;
    frame[frame.len() - packet.len()..].to_vec()
}

/// The MSS option of a segment that left; checks its checksum.
fn reported(packet: &[u8]) -> Option<u16> {
    let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
    let segment = &packet[tuple.l4_offset.into()..];
    assert!(tcp::checksum_is_right(&tuple.addrs, segment));
    let end = usize::from(segment[12] >> 4) * 4;
    let mut options = tcp::Options::new(&segment[20..end]).filter_map(Result::ok);
    let size = options.find(|option| option.kind == tcp::Options::MSS)?.data;
    Some(u16::from_be_bytes([size[0], size[1]]))
}

#[test]
fn both_directions_are_bounded_by_both_sides() {
    for (n3, n6, v4, v6) in [
        (Mss::Off, Mss::Off, 1460, 1460),
        (Mss::Auto, Mss::Off, 1416, 1396),
        (Mss::Off, Mss::Auto, 1416, 1396),
        (Mss::AtMost(1300), Mss::Auto, 1300, 1300),
        (Mss::Off, Mss::AtMost(1400), 1400, 1400),
    ] {
        let mut world = world(n3, n6);
        let mut clamped = 0;
        for is_uplink in [true, false] {
            for (is_v4, expected) in [(true, v4), (false, v6)] {
                // The second finds the flow's entry.
                for flags in [SYN, SYN | ACK] {
                    let out = pass(&mut world, is_uplink, &user(is_uplink, is_v4, flags, &OPTIONS));
                    assert_eq!(reported(&out), Some(expected), "{n3:?} {n6:?} {is_uplink}");
                    clamped += u64::from(expected < 1460);
                }
                let later = pass(&mut world, is_uplink, &user(is_uplink, is_v4, ACK, &OPTIONS));
                assert_eq!(reported(&later), Some(1460), "no SYN");
            }
        }
        assert_eq!(world.workers[0].stats().mss_clamped, clamped);
    }
}

#[test]
fn a_tunnel_over_ipv6_keeps_its_checksum() {
    let rules = testing::pdu_session(
        TEID,
        rules::model::OuterHeaderCreation {
            kind: rules::model::OuterHeaderKind::GTPU_IPV6,
            teid: packet::Teid(77),
            ipv4: None,
            ipv6: Some("2001:db8:200::1".parse().expect("an address")),
            port: None,
        },
    );
    let mut world = World::with(network(Mss::Auto, Mss::Off), 1, |_| {});
    world.install(1, rules);
    for (is_v4, expected) in [(true, 1396), (false, 1376)] {
        let packet = user(false, is_v4, SYN, &OPTIONS);
        let out = world.send(N6_PORT, &packet);
        let outer = &out[0].1[14..];
        let tuple = IpTuple::parse(outer, outer.len()).expect("a packet");
        let sum = checksum::Sum::default();
        packet::udp::verify_checksum(&tuple.addrs, &outer[40..], sum, true).expect("a checksum");
        assert_eq!(reported(&outer[outer.len() - packet.len()..]), Some(expected));
    }
}

#[test]
fn extension_headers_and_options_stand_before_the_segment() {
    let mut world = world(Mss::Auto, Mss::Auto);
    // IPv4 with a Router Alert.
    let plain = user(true, true, SYN, &OPTIONS);
    let mut with_option = plain.clone();
    with_option.splice(20..20, [0x94, 4, 0, 0]);
    with_option[0] = 0x46;
    let total = with_option.len() as u16;
    with_option[2..4].copy_from_slice(&total.to_be_bytes());
    with_option[10..12].fill(0);
    let sum = checksum::of(&with_option[..24]);
    with_option[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(reported(&pass(&mut world, true, &with_option)), Some(1416));
    // IPv6 with Hop-by-Hop and Destination Options.
    let mut with_headers = user(false, false, SYN, &OPTIONS);
    with_headers.splice(40..40, [60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
    with_headers[6] = 0;
    let payload = with_headers.len() as u16 - 40;
    with_headers[4..6].copy_from_slice(&payload.to_be_bytes());
    assert_eq!(reported(&pass(&mut world, false, &with_headers)), Some(1396));
}

#[test]
fn what_is_no_segment_with_a_size_is_left_alone() {
    let mut world = world(Mss::AtMost(536), Mss::Off);
    let bad: [&[u8]; 4] = [&[], &[2, 4, 2, 0x18], &[2, 3, 9, 1], &[2, 4, 9, 9, 3, 0, 0, 0]];
    for options in bad {
        let packet = user(false, true, SYN, options);
        let mut expected = packet.clone();
        packet::ipv4::decrement_ttl(&mut expected).expect("it has a TTL");
        assert_eq!(pass(&mut world, false, &packet), expected, "{options:?}");
    }
    // An offset that points behind the segment, and UDP whose octets look like a SYN.
    let mut short = user(false, true, SYN, &OPTIONS);
    short[20 + 12] = 0xf0;
    let mut expected = short.clone();
    packet::ipv4::decrement_ttl(&mut expected).expect("it has a TTL");
    assert_eq!(pass(&mut world, false, &short), expected);
    let udp = UserPacket::udp(REMOTE, UE, 53, 1000).bytes();
    pass(&mut world, false, &udp);
    assert_eq!(world.workers[0].stats().mss_clamped, 0);
    assert!(!mss::clamp(&mut [], 536));
}
