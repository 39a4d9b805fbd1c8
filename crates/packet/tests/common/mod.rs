//! Strategies for packets: valid ones of every kind, and what becomes of them on a bad wire.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::net::{IpAddr, SocketAddr};

use packet::build::{GtpuEncap, Marking, packet as make};
use packet::eth::{Encap, Tci, Vlan, ether_type};
use packet::{Addrs, MacAddr, Ppi, Qfi, Teid};
use proptest::prelude::*;

/// A failing input is printed and becomes a named case by hand: no files of seeds.
pub fn config(cases: u32) -> ProptestConfig {
    let default = ProptestConfig::default();
    // PROPTEST_CASES asks for more.
    ProptestConfig {
        cases: default.cases.max(cases),
        failure_persistence: None,
        ..default
    }
}

pub fn qfi() -> BoxedStrategy<Qfi> {
    any::<u8>().prop_map(Qfi::from_low_bits).boxed()
}

pub fn marking() -> BoxedStrategy<Marking> {
    (any::<bool>(), qfi(), any::<bool>(), prop::option::of(0..8u8))
        .prop_map(|(uplink, qfi, rqi, ppi)| {
            let ppi = ppi.and_then(Ppi::new);
            if uplink {
                Marking::uplink(qfi)
            } else {
                Marking {
                    rqi,
                    ppi,
                    ..Marking::downlink(qfi)
                }
            }
        })
        .boxed()
}

pub fn vlan() -> BoxedStrategy<Option<Vlan>> {
    prop::option::of((any::<u16>(), prop::option::of(any::<u16>())))
        .prop_map(|tags| {
            tags.map(|(outer, inner)| Vlan {
                outer: Tci(outer),
                inner: inner.map(Tci),
            })
        })
        .boxed()
}

/// A pair of addresses of one family.
pub fn addrs() -> BoxedStrategy<Addrs> {
    prop_oneof![
        (any::<[u8; 4]>(), any::<[u8; 4]>()).prop_map(|(src, dst)| Addrs::V4 { src, dst }),
        (any::<[u8; 16]>(), any::<[u8; 16]>()).prop_map(|(src, dst)| Addrs::V6 { src, dst }),
    ]
    .boxed()
}

/// What is behind the IP header: protocol and octets. Options and extension headers are put in by [`user_packet`].
fn transport(src: IpAddr, dst: IpAddr) -> BoxedStrategy<Vec<u8>> {
    let payload = prop::collection::vec(any::<u8>(), 0..100);
    (payload, any::<u16>(), any::<u16>(), 0..4u8)
        .prop_map(move |(payload, sport, dport, kind)| {
            let (from, to) = (SocketAddr::new(src, sport), SocketAddr::new(dst, dport));
            match kind {
                0 => make::udp(from, to, &payload),
                1 => make::tcp(from, to, 7, 0x10, &payload),
                2 => make::echo_request(src, dst, sport, dport, &payload),
                _ => {
                    let addrs = make::addrs(src, dst).expect("one family");
                    let proto = [2, 41, 47, 50, 89, 132, 136, 33][usize::from(dport % 8)];
                    make::ip(
                        &addrs,
                        proto,
                        &make::IpOptions::default(),
                        &[&[0; 12][..], &payload].concat(),
                    )
                }
            }
            .expect("short, and of one family")
        })
        .boxed()
}

/// An IPv6 packet with extension headers put in behind its fixed header: hop-by-hop only first, AH only last.
fn with_extensions(mut packet: Vec<u8>, kinds: &[u8]) -> Vec<u8> {
    if packet[0] >> 4 == 6 {
        for (place, &kind) in kinds.iter().enumerate().rev() {
            let first = if place == 0 { 0 } else { 60 };
            let last = if place + 1 == kinds.len() { 51 } else { 60 };
            let kind = [43, 44, 60, first, last][usize::from(kind % 5)];
            let next = std::mem::replace(&mut packet[6], kind);
            let rest: &[u8] = if kind == 51 {
                &[2, 0, 0, 1, 2, 3, 4, 0, 0, 0, 9, 0, 0, 0, 0]
            } else {
                &[0, 0, 0, 0, 0, 0, 1]
            };
            packet.splice(40..40, [&[next], rest].concat());
        }
        let len = (packet.len() - 40) as u16;
        packet[4..6].copy_from_slice(&len.to_be_bytes());
    }
    packet
}

/// An IP packet of a user.
pub fn user_packet() -> BoxedStrategy<Vec<u8>> {
    let packet = addrs().prop_flat_map(|addrs| transport(addrs.src(), addrs.dst()));
    (packet, prop::collection::vec(any::<u8>(), 0..3))
        .prop_map(|(packet, kinds)| with_extensions(packet, &kinds))
        .boxed()
}

/// A G-PDU, from the outer IP header on.
pub fn g_pdu() -> BoxedStrategy<Vec<u8>> {
    (addrs(), any::<u32>(), prop::option::of(marking()), user_packet())
        .prop_map(|(addrs, teid, marking, inner)| {
            make::g_pdu(&GtpuEncap::new(addrs, Teid(teid)), marking, &inner).expect("short")
        })
        .boxed()
}

pub fn frame_around(vlan: Option<Vlan>, ip: &[u8]) -> Vec<u8> {
    let ether_type = if ip.first().is_some_and(|first| first >> 4 == 6) {
        ether_type::IPV6
    } else {
        ether_type::IPV4
    };
    let (dst, src) = (MacAddr([2, 0, 0, 0, 0, 1]), MacAddr([2, 0, 0, 0, 0, 2]));
    make::ethernet(
        &Encap {
            dst,
            src,
            vlan,
            ether_type,
        },
        ip,
    )
}

/// A frame, as it should be.
pub fn good_frame() -> BoxedStrategy<Vec<u8>> {
    (vlan(), prop_oneof![user_packet(), g_pdu(), g_pdu()])
        .prop_map(|(vlan, ip)| frame_around(vlan, &ip))
        .boxed()
}

/// Octets after a few changes, cut off somewhere or not.
pub fn damaged(good: impl Strategy<Value = Vec<u8>> + 'static) -> BoxedStrategy<Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5);
    let early = prop::collection::vec((0..80usize, any::<u8>()), 0..3);
    (
        good,
        changes,
        early,
        prop::option::of(any::<prop::sample::Index>()),
    )
        .prop_map(|(mut octets, changes, early, cut)| {
            for (at, value) in changes {
                let at = at.index(octets.len());
                octets[at] = value;
            }
            for (at, value) in early {
                if let Some(octet) = octets.get_mut(at) {
                    *octet = value;
                }
            }
            octets.truncate(cut.map_or(octets.len(), |cut| cut.index(octets.len())));
            octets
        })
        .boxed()
}

/// Anything at all that could be received.
pub fn any_frame() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        1 => prop::collection::vec(any::<u8>(), 0..200),
        4 => damaged(good_frame()),
        1 => good_frame(),
    ]
    .boxed()
}

pub fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .map(|digit| digit as u8)
        .collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}
