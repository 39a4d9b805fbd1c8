//! Golden cases of what few packets get: DSCP by QoS flow and colour, mirrors.

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::PortId;
use flow::meter::{MeterSpec, Rate};
use packet::{DropReason, Dscp, Ppi, Qfi, VlanId, VlanTags, checksum};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange};
use rules::model::{Edit, FarId, FarUpdate, ForwardingParametersUpdate, QerId, QerUpdate, TosTrafficClass};
use rules::network::{DscpMark, DscpTable};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};

use common::one_session::{REMOTE, TEID, reason, session, to_ue, uplink};
use common::{World, frame};

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
