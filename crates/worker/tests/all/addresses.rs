//! Packets from and to addresses that no other node has: none is routed, answered or heeded.

use crate::common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::{DropReason, checksum};
use rules::testing::{N3_ADDRESS, UE, UE_V6, UserPacket, tunnelled};

use common::one_session::{TEID, error_indication, events, fix_lengths, from_ue, ip, reason, uplink, world};

#[test]
fn packets_to_no_station_are_not_routed_with_the_tunnels_flow_warm() {
    let mut world = world();
    assert_eq!(reason(&mut world, 0, &uplink()), None);
    let from_ue_to = |remote: &str| {
        let remote = ip(remote);
        let ue = if remote.is_ipv4() {
            IpAddr::V4(UE)
        } else {
            Ipv6Addr::from_bits(UE_V6.to_bits() | 1).into()
        };
        tunnelled(
            N3_ADDRESS,
            TEID,
            255,
            None,
            &[],
            &UserPacket::udp(ue, remote, 1, 2).bytes(),
        )
    };
    assert_eq!(reason(&mut world, 0, &from_ue_to("2001:db8:ffff::1")), None);
    let martians = [
        "0.0.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "224.0.0.5",
        "239.1.1.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:10.0.6.9",
        "fe80::1",
        "ff02::2",
        "ff0e::1",
    ];
    for remote in martians {
        let dropped = reason(&mut world, 0, &from_ue_to(remote));
        assert_eq!(dropped, Some(DropReason::MartianDestination), "{remote}");
    }
    let stats = world.workers[0].stats();
    assert_eq!((stats.hits, stats.installed), (0, 2));
    assert_eq!(reason(&mut world, 0, &uplink()), None);
    assert_eq!(world.workers[0].stats().hits, 1);
    world.assert_conserved();
}

#[test]
fn packets_from_no_station_do_not_reach_a_ue() {
    let mut world = world();
    for source in ["0.0.0.1", "127.0.0.1", "169.254.1.1", "224.0.0.5", "240.0.0.1"] {
        let packet = UserPacket::udp(ip(source), UE, 1, 2).bytes();
        assert_eq!(
            reason(&mut world, 1, &packet),
            Some(DropReason::MartianSource),
            "{source}"
        );
    }
    let ue = Ipv6Addr::from_bits(UE_V6.to_bits() | 1);
    for source in ["::", "::1", "fe80::1", "ff02::1"] {
        let packet = UserPacket::udp(ip(source), ue, 1, 2).bytes();
        assert_eq!(
            reason(&mut world, 1, &packet),
            Some(DropReason::MartianSource),
            "{source}"
        );
    }
}

/// The same packet from another outer source.
fn from(mut packet: Vec<u8>, source: &str) -> Vec<u8> {
    let source: Ipv4Addr = source.parse().expect("an address");
    packet[12..16].copy_from_slice(&source.octets());
    packet[26..28].fill(0);
    fix_lengths(&mut packet);
    packet
}

#[test]
fn only_other_nodes_are_answered() {
    let mut world = world();
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    let unknown = tunnelled(N3_ADDRESS, TEID, 255, None, &[(0x9f, vec![0, 0])], &from_ue());
    let mut echo = tunnelled(N3_ADDRESS, 0, 1, None, &[], &[]);
    echo.splice(28.., [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
    let ping = packet::build::packet::echo_request(ip("10.0.3.9"), ip("10.0.3.1"), 7, 1, b"hello")
        .expect("one family");
    let sources = [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "10.0.3.255",
        "10.0.3.1",
        "10.0.9.1",
    ];
    for source in sources {
        for packet in [&stray, &unknown, &echo] {
            let dropped = reason(&mut world, 0, &from(packet.clone(), source));
            assert_eq!(dropped, Some(DropReason::MartianSource), "{source}");
        }
        let mut ping = ping.clone();
        ping[12..16].copy_from_slice(&source.parse::<Ipv4Addr>().expect("an address").octets());
        ping[10..12].fill(0);
        let sum = checksum::of(&ping[..20]);
        ping[10..12].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(
            reason(&mut world, 0, &ping),
            Some(DropReason::MartianSource),
            "{source}"
        );
    }
    let stats = world.workers[0].stats();
    assert_eq!((stats.originated, stats.answered, stats.tx()), (0, 0, 0));
    for packet in [&stray, &unknown, &echo] {
        assert_eq!(world.send(0, &from(packet.clone(), "10.200.0.9")).len(), 1);
    }
    world.assert_conserved();
}

#[test]
fn an_error_indication_is_believed_from_the_tunnels_peer_alone() {
    let mut world = world();
    let indication = error_indication();
    for unknown in ["10.0.3.9", "10.200.0.7"] {
        let dropped = reason(&mut world, 0, &from(indication.clone(), unknown));
        assert_eq!(dropped, Some(DropReason::ForeignErrorIndication));
    }
    assert!(events(&mut world).is_empty());
    assert_eq!(reason(&mut world, 0, &indication), None);
    assert_eq!(events(&mut world).len(), 1);
}
