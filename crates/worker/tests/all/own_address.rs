//! Own IPv6 addresses that are tentative or duplicates (RFC 4862 §5.4): neither answered for nor used.

use std::net::Ipv6Addr;

use flow::{InstanceId, PortId};
use packet::{DropReason, checksum};
use rules::testing;
use transport::NeighbourMessage;
use worker::{Command, Event, HostRates};

use crate::common::one_session::{events, ip, reason, reason_of_frame};
use crate::common::{PEER_MAC, World, our_mac};
use crate::reassembly::{session, uplink};
use crate::world::solicitation;

const N3_PORT: u16 = 0;
const OURS: &str = "2001:db8:3::1";
const PEER: &str = "2001:db8:3::9";
const N3: InstanceId = InstanceId(0);

fn world() -> World {
    let rates = HostRates {
        urgent: 100,
        usual: 100,
    };
    let mut world = World::with(testing::network(), 1, |config| {
        config.host = vec![Some(rates)];
    });
    world.install(1, session());
    world
}

fn ours() -> Ipv6Addr {
    OURS.parse().expect("an address")
}

fn set_usable(world: &mut World, is_usable: bool) {
    world.tell_all(|| Command::OwnAddress {
        instance: N3,
        address: ours(),
        is_usable,
    });
}

fn ping() -> Vec<u8> {
    packet::build::packet::echo_request(ip(PEER), ip(OURS), 7, 1, b"hello").expect("one family")
}

/// A discovery message about the own address to a group, from `station`.
fn discovery(kind: u8, (source, group): (Ipv6Addr, Ipv6Addr), station: [u8; 6], options: &[u8]) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0x20 * u8::from(kind == 136), 0, 0, 0];
    message.extend(ours().octets());
    message.extend(options);
    let sum = checksum::Sum::default()
        .pseudo_v6(source.octets(), group.octets(), 58, message.len() as u16)
        .bytes(&message)
        .checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let [.., a, b, c, d] = group.octets();
    let mut frame = vec![0x33, 0x33, a, b, c, d];
    frame.extend(station);
    frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, message.len() as u8, 58, 255]);
    frame.extend(source.octets());
    frame.extend(group.octets());
    frame.extend(message);
    frame
}

fn probe(station: [u8; 6]) -> Vec<u8> {
    let group = "ff02::1:ff00:1".parse().expect("an address");
    discovery(135, (Ipv6Addr::UNSPECIFIED, group), station, &[])
}

fn advertisement(station: [u8; 6]) -> Vec<u8> {
    let all_nodes = "ff02::1".parse().expect("an address");
    let option = [&[2, 1][..], &station].concat();
    discovery(136, (ours(), all_nodes), station, &option)
}

#[test]
fn an_unusable_address_is_not_answered_for_and_its_packets_are_discarded() {
    let mut world = world();
    set_usable(&mut world, false);
    // A G-PDU over IPv6: no user packet, no Error Indication.
    for teid_of_nobody in [false, true] {
        let mut gpdu = uplink(false, 64);
        if teid_of_nobody {
            gpdu[52] ^= 0x55;
        }
        assert_eq!(reason(&mut world, N3_PORT, &gpdu), Some(DropReason::NotForUs));
    }
    assert_eq!(reason(&mut world, N3_PORT, &ping()), Some(DropReason::NotForUs));
    // Neither Sluice nor the host's network stack answers a question.
    assert!(world.send_frame(0, N3_PORT, &solicitation(ours())).is_empty());
    assert!(events(&mut world).is_empty());
    assert_eq!(world.workers[0].stats().consumed, 1);
    assert_eq!(world.workers[0].stats().originated, 0);
    // IPv4 is not affected.
    assert_eq!(reason(&mut world, N3_PORT, &uplink(true, 64)), None);
    set_usable(&mut world, true);
    assert_eq!(reason(&mut world, N3_PORT, &uplink(false, 64)), None);
    assert_eq!(world.send(N3_PORT, &ping()).len(), 1);
    let out = world.send_frame(0, N3_PORT, &solicitation(ours()));
    assert_eq!((out[0].0, out[0].1[54]), (PortId(N3_PORT), 136));
    world.assert_conserved();
}

fn claims(world: &mut World) -> usize {
    let events = events(world);
    let is_claim = |event: &&Event| match event {
        Event::Neighbour {
            instance: N3,
            address,
            mac: PEER_MAC,
            message: NeighbourMessage::Claim,
        } => *address == ip(OURS),
        _ => false,
    };
    let claims = events.iter().filter(is_claim).count();
    assert_eq!(claims, events.len(), "{events:?}");
    claims
}

#[test]
fn claims_of_other_stations_are_reported() {
    let mut world = world();
    set_usable(&mut world, false);
    assert!(world.send_frame(0, N3_PORT, &probe(PEER_MAC.0)).is_empty());
    assert_eq!(claims(&mut world), 1);
    assert!(
        world
            .send_frame(0, N3_PORT, &advertisement(PEER_MAC.0))
            .is_empty()
    );
    assert_eq!(claims(&mut world), 1);
    // What a switch sends back to us claims nothing.
    for frame in [probe(our_mac(N3_PORT).0), advertisement(our_mac(N3_PORT).0)] {
        assert!(world.send_frame(0, N3_PORT, &frame).is_empty());
        assert_eq!(claims(&mut world), 0);
    }
    set_usable(&mut world, true);
    // In use, a probe is answered (RFC 4862 §5.4.3), and an advertisement is still a claim.
    let out = world.send_frame(0, N3_PORT, &probe(PEER_MAC.0));
    assert_eq!((out[0].1[54], &out[0].1[..2]), (136, &[0x33, 0x33][..]));
    assert_eq!(claims(&mut world), 0);
    world.send_frame(0, N3_PORT, &advertisement(PEER_MAC.0));
    assert_eq!(claims(&mut world), 1);
    let mut with_option = probe(PEER_MAC.0);
    with_option[18 + 1] = 32;
    with_option.extend([1, 1, 2, 0, 0, 0, 0, 9]);
    assert!(reason_of_frame(&mut world, N3_PORT, &with_option).is_some());
    world.assert_conserved();
}
