//! Golden cases of what few packets get: NAT, DSCP by QoS flow and colour, mirrors.

use crate::common;

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::meter::{MeterSpec, Rate};
use flow::{FlowKey4, KeyFields, PortId, VrfId};
use packet::build::packet as make;
use packet::rewrite::{Ends, Rewrite};
use packet::tuple::proto;
use packet::{DropReason, Dscp, IpTuple, Ppi, Qfi, Teid, VlanId, VlanTags, checksum, icmp, tcp, udp};
use rules::SessionRules;
use rules::classifier::{Key, Side, whole_key};
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{Edit, FarId, FarUpdate, ForwardingParametersUpdate, QerId, QerUpdate, TosTrafficClass};
use rules::network::{DscpMark, DscpTable, LocalId};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};

use common::one_session::{REMOTE, TEID, reason, session, to_ue, uplink};
use common::{World, frame};
use worker::IdleTimes;

/// What the data network sees of the UE.
const PUBLIC: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const PUBLIC_PORT: u16 = 40_000;
/// The QFI of the session's QER.
const QFI: u8 = 9;
/// A port without anything else on it.
const MIRROR: PortId = PortId(2);

/// A world whose instances mark the session's QoS flow.
fn marking_world(rules: SessionRules) -> World {
    marking_world_on(None, rules)
}

/// The same on a VLAN.
fn marking_world_on(vlan: Option<VlanTags>, rules: SessionRules) -> World {
    let mut instances = testing::network().instances().to_vec();
    for (instance, (green, yellow)) in instances.iter_mut().zip([(46, 40), (10, 12)]) {
        let mut table = DscpTable::new();
        let mark = DscpMark {
            green: Dscp::from_low_bits(green),
            yellow: Dscp::from_low_bits(yellow),
            pcp: 5,
        };
        table.set(Qfi::from_low_bits(QFI), mark);
        instance.dscp = Some(table);
        instance.vlan = vlan;
    }
    let network = rules::Network::new(instances).expect("a network");
    let mut world = World::with(network, 1, |_| {});
    world.install(1, rules);
    world
}

/// The only packet that leaves for one that comes in, behind its Ethernet header.
fn only(world: &mut World, port: u16, packet: &[u8]) -> Vec<u8> {
    let out = world.send(port, packet);
    let [(_, frame)] = &out[..] else {
        panic!("one packet in, {} out", out.len())
    };
    frame[14..].to_vec()
}

#[test]
fn a_qos_flow_is_marked_where_it_leaves() {
    let mut world = marking_world(session());
    let plain = only(&mut world, 0, &uplink());
    assert_eq!(plain[1], 10 << 2);
    assert!(checksum::is_right(&plain[..20]));
    let tunnelled = only(&mut world, 1, &to_ue());
    assert_eq!((tunnelled[1], tunnelled[44 + 1]), (46 << 2, 0));
    assert!(checksum::is_right(&tunnelled[..20]));
    world.assert_conserved();
}

#[test]
fn a_qos_flow_has_a_priority_on_vlans() {
    let vlan = VlanId::from_low_bits(300);
    let tags_of = |tags: VlanTags, rules: SessionRules, port: u16, packet: &[u8]| {
        let mut world = marking_world_on(Some(tags), rules);
        let mut tagged = frame(port, packet);
        let (octets, len) = tags.octets();
        tagged.splice(12..12, octets[..len].iter().copied());
        let out = world.send_frame(0, port, &tagged);
        let [(_, frame)] = &out[..] else {
            panic!("one packet in, {} out", out.len())
        };
        frame[12..12 + len].to_vec()
    };
    let tag_of = |rules, port, packet: &[u8]| tags_of(vlan.into(), rules, port, packet);
    let with_ppi = || {
        let mut rules = session();
        let update = QerUpdate {
            ppi: Edit::Set(Ppi::from_low_bits(3)),
            ..QerUpdate::new(QerId(1))
        };
        rules.update_qer(update).expect("it is there");
        rules
    };
    let prioritised = [0x81, 0, 0xa1, 44];
    assert_eq!(tag_of(session(), 0, &uplink()), prioritised);
    assert_eq!(tag_of(session(), 1, &to_ue()), prioritised);
    assert_eq!(tag_of(with_ppi(), 1, &to_ue()), prioritised);
    let stacked = VlanTags::stacked(vlan, VlanId::from_low_bits(30));
    for (port, packet) in [(0, uplink()), (1, to_ue())] {
        let tags = tags_of(stacked, session(), port, &packet);
        assert_eq!(tags, [0x88, 0xa8, 0xa1, 44, 0x81, 0, 0xa0, 30]);
    }
    let other_flow = || {
        let mut rules = session();
        let update = QerUpdate {
            qfi: Edit::Set(Qfi::from_low_bits(QFI + 1)),
            ..QerUpdate::new(QerId(1))
        };
        rules.update_qer(update).expect("it is there");
        rules
    };
    assert_eq!(tag_of(other_flow(), 1, &to_ue()), [0x81, 0, 1, 44]);
}

#[test]
fn ecn_stays_where_a_plain_packet_is_marked() {
    let mut world = marking_world(session());
    let mut inner = UserPacket::udp(UE, REMOTE, 1000, 53);
    inner.tos = 0x2b;
    let sent = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, QFI]), &[], &inner.bytes());
    assert_eq!(only(&mut world, 0, &sent)[1], 10 << 2 | 3);
}

#[test]
fn what_the_far_says_wins() {
    let mut rules = session();
    let forwarding = Edit::Set(ForwardingParametersUpdate {
        transport_level_marking: Edit::Set(TosTrafficClass {
            value: 0x28,
            mask: 0xfc,
        }),
        ..ForwardingParametersUpdate::default()
    });
    let update = FarUpdate {
        forwarding,
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    let mut world = marking_world(rules);
    assert_eq!(only(&mut world, 1, &to_ue())[1], 0x28);
    assert_eq!(only(&mut world, 0, &uplink())[1], 10 << 2);
}

#[test]
fn packets_above_the_committed_rate_are_marked_yellow() {
    let mut world = marking_world(session());
    let mut image = world.image(1, &Arc::new(session()), None).expect("it compiles");
    // Room for one packet of this length in a while, and any number of yellow ones.
    let spec = MeterSpec::SrTcm {
        cir: Rate::from_kbit(1),
        cbs: to_ue().len() as u64,
        ebs: 10_000,
        aware: false,
    };
    image.block.get_or_insert_default().meters = vec![[None, Some(spec)]];
    world
        .apply(0, SessionChange::Replace(image, ImmediateActions::default()))
        .expect("it is there");
    let tos = [(); 3].map(|()| only(&mut world, 1, &to_ue())[1]);
    assert_eq!(tos, [46 << 2, 40 << 2, 40 << 2]);
    world.now = world.now + Duration::from_secs(10);
    assert_eq!(only(&mut world, 1, &to_ue())[1], 46 << 2);
}

/// A world whose worker has room for lines, and an entry for each 5-tuple.
fn nat_world() -> World {
    let mut world = World::with(testing::network(), 1, |config| {
        config.max_extensions = 4;
        config.force_five_tuple = true;
        config.idle = IdleTimes::all(Duration::from_secs(20));
    });
    world.install(1, session());
    world
}

/// The key of a packet on its side.
fn key(side: Side, packet: &[u8]) -> FlowKey4 {
    let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
    let Key::V4(mut key) = whole_key(side, &tuple) else {
        panic!("an IPv4 packet")
    };
    key.fields = KeyFields::TUPLE;
    flow::Shape::new(key.fields, key.scope.is_tunnel()).cut(&key)
}

fn from_access() -> Side {
    let qfi = Qfi::new(QFI);
    let teid = Teid(TEID);
    let local = LocalId(0);
    Side::Tunnel { local, teid, qfi }
}

const FROM_DN: Side = Side::Plain { vrf: VrfId(0) };

fn in_tunnel(packet: &[u8]) -> Vec<u8> {
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, QFI]), &[], packet)
}

const INSIDE: Ends = Ends {
    source: UE.octets(),
    destination: REMOTE.octets(),
    source_port: 1000,
    destination_port: 53,
};
const OUTSIDE: Ends = Ends {
    source: PUBLIC.octets(),
    source_port: PUBLIC_PORT,
    ..INSIDE
};

fn back(ends: Ends) -> Ends {
    Ends {
        source: ends.destination,
        destination: ends.source,
        source_port: ends.destination_port,
        destination_port: ends.source_port,
    }
}

/// A packet of each protocol that a NAT knows, with these ends; of ICMP the identifier is the UE's port.
fn packet(protocol: u8, ends: &Ends, uplink: bool) -> Vec<u8> {
    let (from, to) = (
        (Ipv4Addr::from(ends.source), ends.source_port).into(),
        (Ipv4Addr::from(ends.destination), ends.destination_port).into(),
    );
    let made = match protocol {
        proto::TCP => make::tcp(from, to, 7, 0x10, b"some payload"),
        proto::UDP => make::udp(from, to, b"some payload"),
        _ => {
            let id = if uplink {
                ends.source_port
            } else {
                ends.destination_port
            };
            make::echo_request(from.ip(), to.ip(), id, 3, b"some payload")
        }
    };
    made.expect("short, and of one family")
}

/// Whether a packet's checksums are right, computed anew.
fn assert_sums(packet: &[u8]) {
    let tuple = IpTuple::parse(packet, packet.len()).expect("a packet");
    assert!(checksum::is_right(&packet[..20]));
    let transport = &packet[20..];
    match tuple.proto {
        proto::TCP => assert!(tcp::checksum_is_right(&tuple.addrs, transport)),
        proto::UDP => {
            let verified = udp::verify_checksum(&tuple.addrs, transport, checksum::Sum::default(), false);
            assert_eq!(verified, Ok(()));
        }
        _ => assert!(icmp::Header::parse(&tuple.addrs, transport).is_ok()),
    }
}

fn routed(mut packet: Vec<u8>) -> Vec<u8> {
    packet::ipv4::decrement_ttl(&mut packet).expect("it has a TTL");
    packet
}

/// Lets a flow through a NAT in both directions: the entries are there after the first packets.
fn translate(world: &mut World, protocol: u8) {
    let [out, answer] = [
        packet(protocol, &INSIDE, true),
        packet(protocol, &back(INSIDE), false),
    ];
    only(world, 0, &in_tunnel(&out));
    only(world, 1, &answer);
    let outside = packet(protocol, &back(OUTSIDE), false);
    let (uplink, downlink) = (key(from_access(), &out), key(FROM_DN, &answer));
    let now = world.now;
    let worker = &mut world.workers[0];
    assert!(worker.translate(&uplink, uplink, &Rewrite::new(&INSIDE, &OUTSIDE), now));
    let rewrite = Rewrite::new(&back(OUTSIDE), &back(INSIDE));
    assert!(worker.translate(&downlink, key(FROM_DN, &outside), &rewrite, now));
    assert_eq!(worker.translated_flows(), 2);
}

#[test]
fn a_nat_translates_both_ways() {
    for protocol in [proto::TCP, proto::UDP, proto::ICMP] {
        let mut world = nat_world();
        translate(&mut world, protocol);
        let sent = only(&mut world, 0, &in_tunnel(&packet(protocol, &INSIDE, true)));
        assert_sums(&sent);
        assert_eq!(sent, routed(packet(protocol, &OUTSIDE, true)), "{protocol}");
        let answer = packet(protocol, &back(OUTSIDE), false);
        let received = only(&mut world, 1, &answer);
        assert_sums(&received[44..]);
        assert_eq!(
            received[44..],
            routed(packet(protocol, &back(INSIDE), false)),
            "{protocol}"
        );
        world.assert_conserved();
    }
}

#[test]
fn a_translated_destination_is_routed_where_it_now_is() {
    let mut world = nat_world();
    translate(&mut world, proto::UDP);
    let to_link = Ends {
        destination: [10, 0, 6, 9],
        ..OUTSIDE
    };
    let uplink = key(from_access(), &packet(proto::UDP, &INSIDE, true));
    let now = world.now;
    assert!(world.workers[0].translate(&uplink, uplink, &Rewrite::new(&INSIDE, &to_link), now));
    assert_eq!(
        world.workers[0].translated_flows(),
        2,
        "the line of the entry before is given back"
    );
    let out = world.send(0, &in_tunnel(&packet(proto::UDP, &INSIDE, true)));
    assert_eq!(
        out[0].1[..6],
        common::mac_of(flow::InstanceId(1), [10, 0, 6, 9].into()).0
    );
    assert_eq!(out[0].1[30..34], [10, 0, 6, 9]);
}

#[test]
fn lines_go_with_their_entries() {
    let mut world = nat_world();
    translate(&mut world, proto::UDP);
    for _ in 0..400 {
        world.now = world.now + Duration::from_secs(1);
        world.poll();
    }
    let _ = (0..3000).map(|_| world.poll()).count();
    assert_eq!(
        (world.workers[0].flows(), world.workers[0].translated_flows()),
        (0, 0)
    );
    translate(&mut world, proto::UDP);
    world
        .apply(0, SessionChange::Remove(flow::SessionIndex(1)))
        .expect("it is there");
    let sent = in_tunnel(&packet(proto::UDP, &INSIDE, true));
    assert_eq!(reason(&mut world, 0, &sent), Some(DropReason::UnknownTeid));
    assert_eq!(
        world.workers[0].translated_flows(),
        1,
        "the stale entry that the packet met is gone"
    );
}

/// A world whose access instance has a mirror.
fn mirrored_world() -> World {
    let mut instances = testing::network().instances().to_vec();
    instances[0].mirror = Some(MIRROR);
    let mut world = World::with(rules::Network::new(instances).expect("a network"), 1, |_| {});
    world.install(1, session());
    world
}

#[test]
fn a_mirror_gets_what_the_peer_gets() {
    let mut world = mirrored_world();
    let mut usual = common::one_session::world();
    let expected = usual.send(1, &to_ue());
    let mut out = world.send(1, &to_ue());
    out.sort_by_key(|(port, _)| *port);
    let [(PortId(0), sent), (MIRROR, copy)] = &out[..] else {
        panic!("two packets go out: {}", out.len())
    };
    assert_eq!((sent, copy), (&expected[0].1, &expected[0].1));
    // Uplink has none.
    assert_eq!(world.send(0, &uplink()).len(), 1);
    let stats = world.workers[0].stats();
    assert_eq!((stats.mirrored, stats.mirrors_lost, stats.originated), (1, 0, 1));
    assert_eq!(stats.directions[1].forwarded.packets, 1);
    world.assert_conserved();
}

#[test]
fn a_mirror_that_is_not_there_costs_the_copy_alone() {
    let mut world = World::new();
    let mut image = world.image(1, &Arc::new(session()), None).expect("it compiles");
    for forward in &mut image.block.get_or_insert_default().forwards {
        forward.mirror = Some(PortId(99));
    }
    world
        .apply(0, SessionChange::Install(image))
        .expect("there is room");
    let before = world.drops();
    assert_eq!(world.send(1, &to_ue()).len(), 1);
    assert_eq!(world.dropped_since(&before), Some(DropReason::PortDown));
    world.assert_conserved();
}

#[test]
fn what_is_dropped_is_not_mirrored() {
    let mut world = mirrored_world();
    let mut last_hop = to_ue();
    last_hop[8] = 1;
    last_hop[10..12].fill(0);
    let sum = checksum::of(&last_hop[..20]);
    last_hop[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(reason(&mut world, 1, &last_hop), Some(DropReason::TtlExpired));
    assert_eq!(world.workers[0].stats().mirrored, 0);
}
