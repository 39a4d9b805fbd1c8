//! User packets that are longer than their way out allows, and leave in fragments.

use std::net::{Ipv6Addr, SocketAddr};

use flow::{PortId, SessionIndex, WorkerId};
use packet::build::packet as build;
use packet::{DropReason, IpTuple, PacketBuf, Teid, checksum};
use proptest::prelude::*;
use rules::SessionRules;
use rules::model::{
    ApplyAction, BitRates, BitsPerSecond, DestinationInterface, Edit, FarId, FarUpdate,
    ForwardingParametersUpdate, OuterHeaderCreation, OuterHeaderKind, PdrUpdate, Qer, QerId,
};
use rules::network::Fragmentation;
use rules::testing::{self, N3_ADDRESS, UE, pdu_session, tunnelled};
use worker::mem::MemBuf;

#[path = "../../../packet/tests/common/reassembled.rs"]
mod reassembled;

use self::reassembled::reassembled;
use crate::common::one_session::{REMOTE, TEID, session};
use crate::common::{World, frame};

const N3_PORT: u16 = 0;
const N6_PORT: u16 = 1;
const MTU: u16 = 1500;

fn world_of(how: Fragmentation, rules: SessionRules) -> World {
    let network = testing::network_with(|instance| instance.fragmentation = how);
    let mut world = World::with(network, 1, |_| {});
    world.install(1, rules);
    world
}

fn world(how: Fragmentation) -> World {
    world_of(how, session())
}

/// A tunnel over IPv6.
fn tunnel_over_ipv6(teid: u32) -> OuterHeaderCreation {
    let peer: Ipv6Addr = "2001:db8:200::1".parse().expect("an address");
    OuterHeaderCreation {
        kind: OuterHeaderKind::GTPU_IPV6,
        teid: Teid(teid),
        ipv4: None,
        ipv6: Some(peer),
        port: None,
    }
}

/// A session whose gNB is reached over IPv6.
fn over_ipv6() -> SessionRules {
    pdu_session(TEID, tunnel_over_ipv6(77))
}

/// A UDP packet of `octets` in all that may be fragmented.
fn user(is_uplink: bool, octets: usize) -> Vec<u8> {
    let (ue, host) = (
        SocketAddr::new(UE.into(), 4000),
        SocketAddr::new(REMOTE.into(), 5000),
    );
    let (from, to) = if is_uplink { (ue, host) } else { (host, ue) };
    let payload: Vec<u8> = (0..octets - 28).map(|at| (at * 7 + at / 256) as u8).collect();
    let mut packet = build::udp(from, to, &payload).expect("a packet");
    packet[4..6].copy_from_slice(&[0x12, 0x34]);
    packet[6..8].fill(0);
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// What is left of a packet whose TTL is one less.
fn routed(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet::ipv4::decrement_ttl(&mut packet).expect("it has a TTL");
    packet
}

/// The IP packets that left for one that came in by `port`, all of which fit.
fn sent(world: &mut World, port: u16, packet: &[u8]) -> Vec<Vec<u8>> {
    let out = world.send(port, packet);
    let to = PortId(N6_PORT - port);
    let packets: Vec<_> = out
        .into_iter()
        .map(|(port, frame)| {
            assert_eq!(port, to);
            assert!(frame.len() <= 14 + usize::from(MTU), "{} octets", frame.len());
            frame[14..].to_vec()
        })
        .collect();
    world.assert_conserved();
    packets
}

/// What is in the tunnel of a packet, and in how many octets of headers.
fn inner(packet: &[u8]) -> (usize, Vec<u8>) {
    let outer = IpTuple::parse(packet, packet.len()).expect("an IP packet");
    let gtpu = usize::from(outer.l4_offset) + 8;
    let sum = checksum::Sum::default();
    packet::udp::verify_checksum(&outer.addrs, &packet[gtpu - 8..], sum, false).expect("a UDP checksum");
    let optional = if packet[gtpu] & 7 == 0 { 0 } else { 8 };
    let length = usize::from(u16::from_be_bytes([packet[gtpu + 2], packet[gtpu + 3]]));
    assert_eq!(gtpu + 8 + length, packet.len());
    (gtpu + 8 + optional, packet[gtpu + 8 + optional..].to_vec())
}

fn counted(world: &mut World) -> (u64, u64) {
    let count = world.query(0, SessionIndex(1)).counters[0].1;
    (
        count.ul_packets + count.dl_packets,
        count.ul_octets + count.dl_octets,
    )
}

#[test]
fn each_fragment_of_a_user_packet_has_a_tunnel_header() {
    for (rules, headers) in [(session(), 44), (over_ipv6(), 64)] {
        let mut world = world_of(Fragmentation::Inner, rules);
        let packet = user(false, 4000);
        let out = sent(&mut world, N6_PORT, &packet);
        assert_eq!(out.len(), 3);
        let inners: Vec<_> = out.iter().map(|packet| inner(packet)).collect();
        assert!(inners.iter().all(|(octets, _)| *octets == headers));
        let users: Vec<_> = inners.into_iter().map(|(_, user)| user).collect();
        let mut expected = routed(&packet);
        expected[4..6].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(reassembled(&users), expected);
        let stats = world.workers[0].stats();
        assert_eq!((stats.fragmented, stats.fragments_made), (1, 2));
        assert_eq!(counted(&mut world), (1, 4000), "it counts once, as it came");
    }
}

#[test]
fn the_packet_around_it_is_fragmented_where_that_is_wanted() {
    for (rules, headers, fragments) in [(session(), 44, 3), (over_ipv6(), 64, 3)] {
        let mut world = world_of(Fragmentation::Outer, rules);
        let packet = user(false, 4000);
        let first = sent(&mut world, N6_PORT, &packet);
        assert_eq!(first.len(), fragments);
        let (octets, user) = inner(&reassembled(&first));
        assert_eq!((octets, user), (headers, routed(&packet)));
        let second = sent(&mut world, N6_PORT, &packet);
        assert_ne!(
            IpTuple::fragment_id(&first[0]),
            IpTuple::fragment_id(&second[0]),
            "each has an identification of its own"
        );
        assert_eq!(counted(&mut world), (2, 8000));
    }
}

#[test]
fn what_leaves_tunnels_is_fragmented_too() {
    for how in [Fragmentation::Inner, Fragmentation::Outer] {
        let mut world = world(how);
        let packet = user(true, 4000);
        let out = sent(
            &mut world,
            N3_PORT,
            &tunnelled(N3_ADDRESS, TEID, 255, None, &[], &packet),
        );
        assert_eq!(out.len(), 3);
        assert_eq!(reassembled(&out), routed(&packet));
        assert_eq!(counted(&mut world), (1, 4000));
    }
}

#[test]
fn nothing_is_fragmented_that_may_not_be() {
    let mut world = world(Fragmentation::Never);
    assert!(sent(&mut world, N6_PORT, &user(false, 4000)).is_empty());
    assert_eq!(world.workers[0].stats().dropped(DropReason::TooBig), 1);
    let mut world = self::world(Fragmentation::Inner);
    let out = world.send(N6_PORT, &unfragmentable(user(false, 1457)));
    assert!(
        out.iter().all(|(port, _)| *port == PortId(N6_PORT)),
        "an ICMP error"
    );
    assert_eq!(counted(&mut world), (0, 0));
}

/// A packet that may not be fragmented.
fn unfragmentable(mut packet: Vec<u8>) -> Vec<u8> {
    packet[6] = 0x40;
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// The session, of which downlink packets are duplicated into a tunnel, and do with them what `action` says.
fn duplicating(action: ApplyAction, into: OuterHeaderCreation) -> SessionRules {
    let mut rules = session();
    let parameters = ForwardingParametersUpdate {
        destination: Some(match into.ipv4 {
            Some(_) => DestinationInterface::Core,
            None => DestinationInterface::Access,
        }),
        outer_header_creation: Edit::Set(into),
        ..ForwardingParametersUpdate::default()
    };
    let update = FarUpdate {
        action: Some(action.with(ApplyAction::DUPL)),
        duplicating: Edit::Set(parameters),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    rules
}

/// A duplicate that is too long leaves in fragments of the tunnel's packet, whatever the user packet says: no sender
/// could be notified, and the receiver gets the user packet whole.
#[test]
fn duplicates_leave_in_fragments_too() {
    let over_ipv4 = OuterHeaderCreation::gtpu_ipv4(Teid(7), [10, 209, 1, 1].into());
    for how in [Fragmentation::Inner, Fragmentation::Outer] {
        for (into, headers, port) in [(over_ipv4, 36, 2), (tunnel_over_ipv6(7), 56, N3_PORT)] {
            for packet in [user(false, 4000), unfragmentable(user(false, 1470))] {
                let mut world = world_of(how, duplicating(ApplyAction::DROP, into));
                let out = world.send(N6_PORT, &packet);
                assert!(
                    out.iter()
                        .all(|(to, frame)| *to == PortId(port) && frame.len() <= 1514)
                );
                let fragments: Vec<_> = out.into_iter().map(|(_, frame)| frame[14..].to_vec()).collect();
                assert_eq!(fragments.len(), packet.len() / 1470 + 1);
                assert_eq!(inner(&reassembled(&fragments)), (headers, packet.clone()));
                let stats = world.workers[0].stats();
                let counts = (stats.duplicated, stats.duplicates_lost, stats.fragmented);
                assert_eq!(
                    (counts, stats.fragments_made),
                    ((1, 0, 1), packet.len() as u64 / 1470)
                );
                world.assert_conserved();
            }
        }
    }
}

/// The packet and its duplicate are both too long: each goes its own way, in fragments of its own.
#[test]
fn a_long_packet_and_its_duplicate_leave_whole() {
    let into = OuterHeaderCreation::gtpu_ipv4(Teid(7), [10, 209, 1, 1].into());
    let mut world = world_of(Fragmentation::Inner, duplicating(ApplyAction::FORW, into));
    let packet = user(false, 4000);
    let out = world.send(N6_PORT, &packet);
    let by = |port| {
        let frames = out.iter().filter(|(by, _)| *by == PortId(port));
        frames.map(|(_, frame)| frame[14..].to_vec()).collect::<Vec<_>>()
    };
    let users: Vec<_> = by(N3_PORT).iter().map(|packet| inner(packet).1).collect();
    assert_eq!(reassembled(&users), routed(&packet));
    assert_eq!(inner(&reassembled(&by(2))), (36, routed(&packet)));
    assert_eq!(counted(&mut world), (1, 4000));
    world.assert_conserved();
}

#[test]
fn a_duplicate_that_may_not_leave_in_fragments_is_lost() {
    let into = OuterHeaderCreation::gtpu_ipv4(Teid(7), [10, 209, 1, 1].into());
    let mut world = world_of(Fragmentation::Never, duplicating(ApplyAction::DROP, into));
    assert_eq!(world.send(N6_PORT, &user(false, 4000)), []);
    let stats = world.workers[0].stats();
    assert_eq!((stats.duplicated, stats.duplicates_lost), (0, 1));
    world.assert_conserved();
}

/// The mirror of an instance gets the fragments that leave, to the octet.
#[test]
fn a_mirror_gets_what_leaves_in_fragments() {
    const MIRROR: PortId = PortId(9);
    let ways = [Fragmentation::Inner, Fragmentation::Outer];
    for (how, rules) in ways
        .iter()
        .flat_map(|how| [(*how, session()), (*how, over_ipv6())])
    {
        let network = testing::network_with(|instance| {
            instance.fragmentation = how;
            instance.mirror = (instance.port == PortId(N3_PORT)).then_some(MIRROR);
        });
        let mut world = World::with(network, 1, |_| {});
        world.install(1, rules);
        for packet in [user(false, 4000), user(false, 1200)] {
            let (sent, copies): (Vec<_>, Vec<_>) = world
                .send(N6_PORT, &packet)
                .into_iter()
                .partition(|(port, _)| *port == PortId(N3_PORT));
            let frames = |packets: Vec<(PortId, Vec<u8>)>| packets.into_iter().map(|(_, frame)| frame);
            assert_eq!(sent.len(), if packet.len() == 4000 { 3 } else { 1 });
            assert!(copies.iter().all(|(port, _)| *port == MIRROR));
            assert!(frames(sent).eq(frames(copies)));
        }
        let stats = world.workers[0].stats();
        assert_eq!(
            (stats.mirrored, stats.fragmented, stats.fragments_made),
            (2, 2, 4)
        );
        assert_eq!(counted(&mut world), (2, 5200));
        world.assert_conserved();
    }
}

/// 40 fragmented packets in one burst: more fragments than a burst holds, in order, and other packets among them.
#[test]
fn a_burst_of_long_packets_leaves_in_order() {
    let mut world = world(Fragmentation::Inner);
    let queue = world.wires.to(WorkerId(0), PortId(N6_PORT)).clone();
    let octets = |number: usize| {
        if number.is_multiple_of(3) {
            100 + number
        } else {
            4000 + number
        }
    };
    for number in 0..60_usize {
        let frame = frame(N6_PORT, &user(false, octets(number)));
        queue.push(MemBuf::new(&frame)).expect("there is room");
    }
    world.poll();
    world.poll();
    let out = world.take();
    assert_eq!(out.len(), 20 + 40 * 3);
    let mut next = out.iter().map(|(_, frame)| inner(&frame[14..]).1);
    for number in 0..60_usize {
        let count = if number.is_multiple_of(3) { 1 } else { 3 };
        let packets: Vec<_> = next.by_ref().take(count).collect();
        assert_eq!(reassembled(&packets), routed(&user(false, octets(number))));
    }
    world.assert_conserved();
}

/// A packet of which a fragment is lost has not arrived.
#[test]
fn a_packet_that_finds_no_room_does_not_count() {
    let mut world = world(Fragmentation::Inner);
    let queue = world.wires.to(WorkerId(0), PortId(N6_PORT)).clone();
    for _ in 0..600 {
        let frame = frame(N6_PORT, &user(false, 4000));
        queue.push(MemBuf::new(&frame)).expect("there is room");
        if queue.len() > 60 {
            world.poll();
        }
    }
    world.poll();
    world.poll();
    // 1,024 fit on the wire: 341 packets and a fragment.
    let out = world.take();
    assert_eq!(out.len(), 1024);
    assert_eq!(counted(&mut world), (341, 341 * 4000));
    assert!(world.workers[0].stats().dropped(DropReason::TxFull) > 0);
    world.assert_conserved();
}

/// A meter takes the packet's octets, not those of its fragments.
#[test]
fn a_qer_meters_the_packet_once() {
    let mut rules = session();
    let rate = BitsPerSecond(8_000_000);
    let qer = Qer {
        mbr: Some(BitRates { ul: rate, dl: rate }),
        ..Qer::new(QerId(7))
    };
    rules.create_qer(qer).expect("it is new");
    let ids: Vec<_> = rules.pdrs().iter().map(|pdr| pdr.id).collect();
    for id in ids {
        let update = PdrUpdate {
            qers: Some(vec![QerId(7)]),
            ..PdrUpdate::new(id)
        };
        rules.update_pdr(update).expect("it is there");
    }
    let passed = |how| {
        let mut world = world_of(how, rules.clone());
        let queue = world.wires.to(WorkerId(0), PortId(N6_PORT)).clone();
        for _ in 0..60 {
            queue
                .push(MemBuf::new(&frame(N6_PORT, &user(false, 4000))))
                .expect("there is room");
        }
        world.poll();
        world.poll();
        let red = world.workers[0].stats().dropped(DropReason::MeterRed);
        assert_eq!(counted(&mut world).0 + red, 60);
        red
    };
    let red = passed(Fragmentation::Inner);
    assert!(red > 0 && red < 60, "{red}");
    assert_eq!(red, passed(Fragmentation::Outer));
}

proptest! {
    /// Whatever its length, and in whatever parts its octets lie, what is put together again is what was sent.
    #[test]
    fn any_packet_arrives_whole(
        octets in 28usize..30_000, part in 100usize..3_000, outer: bool, is_v6: bool, is_uplink: bool
    ) {
        let how = if outer { Fragmentation::Outer } else { Fragmentation::Inner };
        let mut world = world_of(how, if is_v6 { over_ipv6() } else { session() });
        let packet = user(is_uplink, octets);
        let (port, arriving) = match is_uplink {
            true => (N3_PORT, tunnelled(N3_ADDRESS, TEID, 255, None, &[], &packet)),
            false => (N6_PORT, packet.clone()),
        };
        let chained = MemBuf::chained(&frame(port, &arriving), part);
        prop_assert_eq!(chained.len(), frame(port, &arriving).len());
        world.wires.to(WorkerId(0), PortId(port)).push(chained).expect("there is room");
        world.poll();
        world.poll();
        let out: Vec<_> = world.take().into_iter().map(|(_, frame)| frame[14..].to_vec()).collect();
        prop_assert!(out.iter().all(|packet| packet.len() <= MTU.into()));
        let whole = match (is_uplink, outer || out.len() == 1) {
            (true, _) if out.len() == 1 => out[0].clone(),
            (true, _) => reassembled(&out),
            (false, _) if out.len() == 1 => inner(&out[0]).1,
            (false, true) => inner(&reassembled(&out)).1,
            (false, false) => reassembled(&out.iter().map(|packet| inner(packet).1).collect::<Vec<_>>()),
        };
        prop_assert_eq!(whole, routed(&packet));
        prop_assert_eq!(counted(&mut world), (1, octets as u64));
        world.assert_conserved();
    }
}
