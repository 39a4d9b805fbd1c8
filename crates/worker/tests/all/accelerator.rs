//! An accelerator by itself: what passes, what is the host's and why, and what the host does to it.

use crate::common;

use std::net::Ipv4Addr;

use flow::contract::AnyKey;
use flow::{FlowFlags, Forward, ForwardFlags, ForwardKind, InstanceId, KeyFields, PortId};
use packet::{DropReason, MacAddr, VlanId, tcp};
use rules::model::{Gate, QerId, QerUpdate};
use rules::network::{Fragmentation, Mss, Network};
use rules::testing::{self, N3_ADDRESS, UE, UserPacket, tunnelled};
use transport::lag::LagShare;
use worker::accelerator::{EngineConfig, PutError, Reason};
use worker::mem::MemBuf;
use worker::{Batch, LagHash, LagPorts, PacketMetadata};

use common::beside::{Accelerator, both, dropped, limited, reason, reason_of_frame, with};
use common::one_session::{REMOTE, TEID, fix_lengths, from_ue, ip, session, to_ue, uplink, world};
use common::{World, frame, mac_of};

use super::mss_clamping::user;
use super::world::arp;

#[test]
fn what_hits_leaves_as_a_worker_sends_it_and_counts_here() {
    let (mut world, mut beside, guest) = both();
    assert_eq!(beside.send(0, &uplink()), world.send(0, &uplink()));
    assert_eq!(beside.send(1, &to_ue()), world.send(1, &to_ue()));
    let count = beside.count(&guest, 0);
    assert_eq!((count.ul_packets, count.dl_packets), (1, 1));
    assert_eq!(count.ul_octets, from_ue().len() as u64);
    assert_eq!(beside.exception(), None);
    let stats = beside.engine.stats();
    assert_eq!((stats.path.hits, stats.path.misses, stats.flows), (2, 0, 2));
    beside.assert_conserved();
}

#[test]
fn what_has_no_flow_is_the_hosts_and_passes_when_that_gives_it_back() {
    let world = world();
    let mut beside = Accelerator::beside(&world);
    let image = { world }.image(1, &session().into(), None).expect("it compiles");
    let guest = beside.install(&image);
    let reasons = [
        reason(&mut beside, &guest, 0, &uplink()),
        reason(&mut beside, &guest, 1, &to_ue()),
    ];
    assert_eq!(reasons, [Some(Reason::NoFlow); 2]);
    beside.arrive(1, &frame(1, &to_ue()));
    beside.poll();
    let exception = beside.engine.next_exception().expect("it has no flow");
    assert!(!exception.is_urgent);
    beside.give(&guest, 1, &to_ue());
    beside.engine.reinject(exception.packet, 0, beside.now);
    beside.poll();
    assert_eq!(beside.take().len(), 1);
    assert_eq!(beside.count(&guest, 0).dl_packets, 1);
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    beside
        .engine
        .reinject(MemBuf::new(&frame(0, &stray)), 0, beside.now);
    beside.poll();
    let (reason, ..) = beside.exception().expect("there is no flow still");
    assert_eq!(reason, Reason::NoFlow);
    beside.assert_conserved();
}

#[test]
fn a_revoked_block_leaves_stale_entries_that_are_replaced_or_reaped() {
    let (_, mut beside, mut guest) = both();
    guest.installed = beside
        .engine
        .blocks_mut()
        .revoke(guest.installed.block)
        .expect("it is there");
    beside.engine.revoked(guest.image.session);
    assert_eq!(beside.engine.stats().dead_flows, 2);
    assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Stale));
    assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::NoFlow));
    beside.give(&guest, 0, &uplink());
    beside.give(&guest, 1, &to_ue());
    assert_eq!(
        (beside.engine.stats().dead_flows, beside.engine.stats().flows),
        (0, 2)
    );
    assert_eq!(reason(&mut beside, &guest, 0, &uplink()), None);
    let mut old = beside.entry_of(&guest, 1, &to_ue());
    old.verdict.generation ^= 1;
    assert_eq!(beside.engine.put(&old, beside.now), Err(PutError::NoBlock));
    old = beside.entry_of(&guest, 1, &to_ue());
    old.verdict.forward = 9;
    assert_eq!(beside.engine.put(&old, beside.now), Err(PutError::NoForward));
    assert!(beside.engine.blocks_mut().remove(guest.installed.block));
    let sent = beside.send(1, &to_ue());
    assert_eq!(
        (sent.len(), beside.exception().map(|(reason, ..)| reason)),
        (0, Some(Reason::Stale))
    );
}

#[test]
fn entries_are_found_and_removed_by_their_keys() {
    let (_, mut beside, guest) = both();
    let given = beside.entry_of(&guest, 1, &to_ue());
    let found = beside.engine.entry(&given.key).expect("it was given");
    assert_eq!(
        (found.key, found.verdict, found.idle),
        (given.key, given.verdict, given.idle)
    );
    assert!(beside.engine.remove(&given.key, beside.now));
    assert!(!beside.engine.remove(&given.key, beside.now));
    assert_eq!(beside.engine.entry(&given.key), None);
    assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::NoFlow));
    assert_eq!(beside.engine.stats().flows, 1);
}

#[test]
fn closed_gates_drop_here() {
    let (_, mut beside, guest) = both();
    let block = guest.installed.block;
    assert!(beside.engine.blocks_mut().set_closed(block, 0, 1));
    assert_eq!(dropped(&mut beside, 1, &to_ue()), Some(DropReason::GateClosed));
    assert_eq!(reason(&mut beside, &guest, 0, &uplink()), None);
    let slot = beside.entry_of(&guest, 1, &to_ue()).verdict.forward;
    let forward = beside
        .engine
        .session_block(block)
        .expect("it is there")
        .forward(slot);
    let kind = ForwardKind::Buffer;
    let buffers = Forward { kind, ..forward };
    assert!(beside.engine.blocks_mut().set_forward(block, slot, &buffers));
    let before_action = dropped(&mut beside, 1, &to_ue());
    assert_eq!(before_action, Some(DropReason::GateClosed), "gates come first");
    assert!(beside.engine.blocks_mut().set_forward(block, slot, &forward));
    assert!(beside.engine.blocks_mut().set_closed(block, 0, 0));
    assert_eq!(dropped(&mut beside, 1, &to_ue()), None);
    assert_eq!(beside.count(&guest, 0).dl_packets, 1);
    let mut rules = session();
    let update = QerUpdate {
        gates: Some((Gate::Closed, Gate::Open)),
        ..QerUpdate::new(QerId(1))
    };
    rules.update_qer(update).expect("it is there");
    let (_, mut beside, _) = with(rules, testing::network(), |_| {});
    assert_eq!(dropped(&mut beside, 0, &uplink()), Some(DropReason::GateClosed));
}

#[test]
fn a_next_hop_that_does_not_answer_takes_no_tokens() {
    let (mut world, mut beside, guest) = with(limited(1_000), testing::network(), |_| {});
    for (instance, address) in [(InstanceId(0), ip("10.0.3.7")), (InstanceId(1), ip("10.0.6.254"))] {
        world.lose(instance, address);
        let change = *world.adjacencies.last().expect("there is one");
        assert!(beside.engine.change_adjacency(&change));
    }
    for _ in 0..50 {
        assert_eq!(reason(&mut beside, &guest, 0, &uplink()), Some(Reason::Adjacency));
        assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Adjacency));
    }
    world.meet(InstanceId(1), ip("10.0.6.254"));
    let change = *world.adjacencies.last().expect("there is one");
    assert!(beside.engine.change_adjacency(&change));
    let out = beside.send(0, &uplink());
    assert_eq!(out[0].1[..6], mac_of(InstanceId(1), ip("10.0.6.254")).0);
}

/// A packet to the UE of this many octets, which may be fragmented or not.
fn long(octets: usize, may_be_fragmented: bool) -> Vec<u8> {
    let mut packet = UserPacket::udp(REMOTE, UE, 53, 1000).bytes();
    packet.resize(octets, 7);
    packet[2..4].copy_from_slice(&(octets as u16).to_be_bytes());
    packet[24..26].copy_from_slice(&(octets as u16 - 20).to_be_bytes());
    packet[26..28].fill(0);
    packet[6] = if may_be_fragmented { 0 } else { 0x40 };
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn what_is_too_long_leaves_in_fragments_or_is_the_hosts() {
    for how in [Fragmentation::Outer, Fragmentation::Inner, Fragmentation::Never] {
        let network = testing::network_with(|instance| instance.fragmentation = how);
        let (mut world, mut beside, guest) = with(limited(100_000), network, |_| {});
        for octets in [1_400, 1_480, 9_000] {
            let free = long(octets, true);
            let expected = world.send(1, &free);
            match expected.is_empty() {
                true => assert_eq!(reason(&mut beside, &guest, 1, &free), Some(Reason::TooLong)),
                false => assert_eq!(beside.send(1, &free), expected),
            }
        }
        assert_eq!(
            reason(&mut beside, &guest, 1, &long(1_480, false)),
            Some(Reason::TooLong)
        );
        beside
            .engine
            .set_path_mtu(N3_ADDRESS.into(), testing::GNB.into(), Some(1_000));
        assert_eq!(
            reason(&mut beside, &guest, 1, &long(1_200, false)),
            Some(Reason::TooLong)
        );
        assert_eq!(reason(&mut beside, &guest, 1, &long(900, false)), None);
        beside.assert_conserved();
    }
}

#[test]
fn a_ttl_that_runs_out_is_the_hosts() {
    let (_, mut beside, guest) = both();
    let mut packet = to_ue();
    packet[8] = 1;
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(reason(&mut beside, &guest, 1, &packet), Some(Reason::Ttl));
}

#[test]
fn meters_drop_here() {
    let (mut world, mut beside, _) = with(limited(100), testing::network(), |_| {});
    let mut reds = 0;
    for _ in 0..2_000 {
        beside.now = world.next_poll();
        let expected = world.send(1, &to_ue());
        beside.arrive(1, &frame(1, &to_ue()));
        beside.engine.poll(beside.now);
        assert_eq!(beside.take(), expected);
        reds += u64::from(expected.is_empty());
    }
    assert!(reds > 100);
    assert_eq!(beside.engine.stats().path.dropped(DropReason::MeterRed), reds);
    assert_eq!(beside.exception(), None);
}

/// The first fragment of a packet or a later one.
fn fragment(packet: &[u8], is_first: bool) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet[6..8].copy_from_slice(if is_first { &[0x20, 0] } else { &[0, 5] });
    packet[10..12].fill(0);
    let sum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

#[test]
fn fragments_pass_where_ports_decide_nothing() {
    let (_, mut beside, guest) = both();
    for is_first in [true, false] {
        assert_eq!(
            reason(&mut beside, &guest, 1, &fragment(&to_ue(), is_first)),
            None
        );
        let outer = fragment(&uplink(), is_first);
        assert_eq!(
            reason(&mut beside, &guest, 0, &outer),
            Some(Reason::NeedsReassembly)
        );
    }
    let mut entry = beside.entry_of(&guest, 1, &to_ue());
    assert!(beside.engine.remove(&entry.key, beside.now));
    if let AnyKey::V4(key) = &mut entry.key {
        key.fields |= KeyFields::TUPLE;
        (key.source, key.destination) = (REMOTE.octets(), UE.octets());
        (key.ports, key.protocol) = ([53, 1000], 17);
    }
    beside.engine.put(&entry, beside.now).expect("there is room");
    assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), None);
    for is_first in [true, false] {
        let packet = fragment(&to_ue(), is_first);
        assert_eq!(
            reason(&mut beside, &guest, 1, &packet),
            Some(Reason::NeedsReassembly)
        );
    }
}

#[test]
fn what_is_no_user_packet_is_urgent_and_end_markers_keep_their_place() {
    let (_, mut beside, guest) = both();
    let stray = tunnelled(N3_ADDRESS, 0xdead, 255, None, &[], &from_ue());
    let end_marker = tunnelled(N3_ADDRESS, TEID, 254, None, &[], &[]);
    let ping = packet::build::packet::echo_request(ip("10.0.3.9"), ip("10.0.3.1"), 7, 1, b"hello");
    let mut echo = tunnelled(N3_ADDRESS, 0, 1, None, &[], &[]);
    echo.splice(28.., [0x32, 1, 0, 4, 0, 0, 0, 0, 0x12, 0x34, 0, 0]);
    fix_lengths(&mut echo);
    let request = arp(1, [10, 0, 3, 9], N3_ADDRESS.octets());
    for received in [frame(0, &stray), frame(0, &end_marker), request.clone()] {
        beside.arrive(0, &received);
    }
    beside.poll();
    let taken = beside.exceptions();
    let order: Vec<_> = taken
        .iter()
        .map(|taken| (taken.reason, taken.is_urgent))
        .collect();
    let expected = [
        (Reason::NotUserPacket, true),
        (Reason::NoFlow, false),
        (Reason::OtherHeaders, false),
    ];
    assert_eq!(order, expected);
    assert_eq!(taken[0].packet.bytes(), request);
    for packet in [ping.expect("one family"), echo] {
        assert_eq!(
            reason(&mut beside, &guest, 0, &packet),
            Some(Reason::NotUserPacket)
        );
    }
}

#[test]
fn what_others_decide_is_the_hosts() {
    let (_, mut beside, guest) = both();
    for flags in [FlowFlags::NAT, FlowFlags::DENIED] {
        let mut entry = beside.entry_of(&guest, 1, &to_ue());
        entry.verdict.flags |= flags;
        beside.engine.put(&entry, beside.now).expect("there is room");
        assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Action));
    }
    beside.give(&guest, 1, &to_ue());
    let block = guest.installed.block;
    let slot = beside.entry_of(&guest, 1, &to_ue()).verdict.forward;
    let forwards = beside.engine.session_block(block).expect("it is there");
    let forward = forwards.forward(slot);
    for kind in [ForwardKind::Buffer, ForwardKind::Punt, ForwardKind::Redirect] {
        assert!(
            beside
                .engine
                .blocks_mut()
                .set_forward(block, slot, &Forward { kind, ..forward })
        );
        assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Action));
    }
    for (flags, is_hosts) in [(ForwardFlags::NONE, false), (ForwardFlags::NOTIFY, true)] {
        let kind = ForwardKind::Drop;
        let forward = Forward {
            kind,
            flags,
            ..forward
        };
        assert!(beside.engine.blocks_mut().set_forward(block, slot, &forward));
        match is_hosts {
            true => assert_eq!(reason(&mut beside, &guest, 1, &to_ue()), Some(Reason::Action)),
            false => assert_eq!(dropped(&mut beside, 1, &to_ue()), Some(DropReason::FarDrop)),
        }
    }
    let unknown = tunnelled(N3_ADDRESS, TEID, 255, None, &[(0xdf, vec![0, 0])], &from_ue());
    assert_eq!(
        reason(&mut beside, &guest, 0, &unknown),
        Some(Reason::OtherHeaders)
    );
}

#[test]
fn tags_are_those_of_the_instances() {
    let mut network = testing::network().instances().to_vec();
    network[1].vlan = VlanId::new(300).map(packet::VlanTags::from);
    let network = Network::new(network).expect("a network");
    let (_, mut beside, guest) = with(session(), network, |_| {});
    assert_eq!(beside.send(0, &uplink())[0].1[12..18], [0x81, 0, 1, 44, 8, 0]);
    assert_eq!(
        dropped(&mut beside, 1, &to_ue()),
        Some(DropReason::VlanNotConfigured)
    );
    let mut tagged = frame(1, &to_ue());
    tagged.splice(12..12, [0x81, 0, 1, 44]);
    assert_eq!(beside.send_frame(1, &tagged).len(), 1);
    let stray = UserPacket::udp(REMOTE, Ipv4Addr::new(10, 45, 0, 99), 53, 1000).bytes();
    let mut tagged = frame(1, &stray);
    tagged.splice(12..12, [0x81, 0, 1, 44]);
    assert_eq!(
        reason_of_frame(&mut beside, &guest, 1, &tagged),
        Some(Reason::NoFlow)
    );
}

#[test]
fn members_of_a_lag_are_its_ports() {
    let lag = PortId(1);
    let mut instances = testing::network().instances().to_vec();
    if let Some(last) = instances.last_mut() {
        last.port = PortId(9);
    }
    let network = Network::new(instances).expect("a network");
    let lags = vec![LagPorts {
        port: lag,
        members: vec![PortId(7), PortId(8)],
        lacp: false,
        hash: LagHash::L34,
    }];
    let mut world = World::with(network, 1, |_| {});
    let image = world.install(1, session());
    let configure = |config: &mut EngineConfig| config.lags = lags.clone();
    let mut beside = Accelerator::with(&world, configure, |_| {});
    let guest = beside.install(&image);
    beside.give(&guest, 0, &uplink());
    let share = LagShare {
        collecting: 3,
        distributing: 3,
    };
    beside.engine.change_lag(lag, share);
    let out = beside.send(0, &uplink());
    assert!(matches!(out[..], [(PortId(7 | 8), _)]), "{out:?}");
    beside.arrive(7, &frame(1, &to_ue()));
    beside.poll();
    let exception = beside.engine.next_exception().expect("it has no flow");
    assert_eq!(exception.packet.ingress(), lag);
    beside.give(&guest, 1, &to_ue());
    beside.engine.reinject(exception.packet, 0, beside.now);
    beside.poll();
    assert_eq!(beside.take().len(), 1);
    beside
        .engine
        .send(lag, MemBuf::new(&frame(1, &to_ue())), beside.now);
    beside.poll();
    assert!(matches!(beside.take()[..], [(PortId(7 | 8), _)]));
    beside.assert_conserved();
}

#[test]
fn the_host_sends_behind_what_passes_and_before_what_follows() {
    let (_, mut beside, _) = both();
    let numbered = |number: u8| {
        let mut packet = to_ue();
        let end = packet.len() - 1;
        packet[end] = number;
        packet[26..28].fill(0);
        packet
    };
    let received = |number: u8| {
        let mut packet = MemBuf::new(&frame(1, &numbered(number)));
        packet.set_ingress(PortId(1));
        packet
    };
    let (now, sent) = (beside.now, MemBuf::new(&frame(0, &numbered(2))));
    beside.engine.reinject(received(1), 0, now);
    beside.engine.send(PortId(0), sent, now);
    beside.engine.reinject(received(3), 0, now);
    beside.arrive(1, &frame(1, &numbered(4)));
    beside.poll();
    let last = |(_, frame): (PortId, Vec<u8>)| *frame.last().expect("it has octets");
    assert_eq!(
        beside.take().into_iter().map(last).collect::<Vec<_>>(),
        [1, 2, 3, 4]
    );
    beside.assert_conserved();
}

#[test]
fn frames_of_the_hosts_port_pass_no_stage() {
    let (_, mut beside, _) = both();
    let port = beside.host_port();
    beside.arrive(port, &frame(0, &uplink()));
    beside.poll();
    assert_eq!((beside.take(), beside.exception()), (Vec::new(), None));
    let mut frames = Batch::new();
    beside.engine.host_rx(&mut frames);
    assert_eq!(frames.len(), 1);
    beside.engine.host_tx(&mut frames);
    assert_eq!(
        beside
            .wires
            .from(PortId(port))
            .pop()
            .map(|buf| buf.bytes().to_vec()),
        Some(frame(0, &uplink()))
    );
    let host = beside.engine.stats().host;
    assert_eq!(
        (host.rx.packets, host.tx.packets, host.rx.octets),
        (1, 1, host.tx.octets)
    );
}

#[test]
fn another_network_finds_the_next_hops_that_there_are() {
    let (_, mut beside, guest) = both();
    beside.engine.change_network(testing::network().into());
    assert_eq!(beside.send(0, &uplink()).len(), 1);
    let mut instances = testing::network().instances().to_vec();
    instances[1].vlan = VlanId::new(300).map(packet::VlanTags::from);
    beside
        .engine
        .change_network(Network::new(instances).expect("a network").into());
    assert_eq!(
        dropped(&mut beside, 1, &to_ue()),
        Some(DropReason::VlanNotConfigured)
    );
    assert_eq!(reason(&mut beside, &guest, 0, &uplink()), None);
}

#[test]
fn a_connection_that_ends_idles_for_less_long() {
    let (_, mut beside, guest) = both();
    let segment = |flags: u8| {
        let from = std::net::SocketAddr::new(REMOTE.into(), 80);
        let to = std::net::SocketAddr::new(UE.into(), 1000);
        let mut packet = UserPacket::udp(from.ip(), to.ip(), 80, 1000).bytes();
        packet.truncate(20);
        packet.extend([
            0, 80, 3, 232, 0, 0, 0, 1, 0, 0, 0, 1, 0x50, flags, 0x10, 0, 0, 0, 0, 0,
        ]);
        packet[2..4].copy_from_slice(&40_u16.to_be_bytes());
        packet[9] = 6;
        packet[10..12].fill(0);
        let sum = packet::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet
    };
    let mut entry = beside.entry_of(&guest, 1, &segment(0x10));
    assert!(beside.engine.remove(&entry.key, beside.now));
    if let AnyKey::V4(key) = &mut entry.key {
        key.fields |= KeyFields::TUPLE;
        (key.source, key.destination) = (REMOTE.octets(), UE.octets());
        (key.ports, key.protocol) = ([80, 1000], 6);
    }
    beside.engine.put(&entry, beside.now).expect("there is room");
    for (flags, closed) in [(0x10, 0), (0x11, 1)] {
        assert_eq!(beside.send(1, &segment(flags)).len(), 1);
        assert_eq!(beside.engine.stats().path.closed, closed);
    }
    assert!(beside.engine.entry(&entry.key).expect("it is there").idle < 1000);
}

#[test]
fn segments_that_open_connections_are_clamped_as_a_worker_does() {
    let network = testing::network_with(|instance| instance.mss = Mss::AtMost(1_300));
    let (mut world, mut beside, guest) = with(session(), network, |_| {});
    for is_v4 in [true, false] {
        let options = [2, 4, 5, 180];
        let syn = user(false, is_v4, tcp::flags::SYN, &options);
        beside.give(&guest, 1, &syn);
        assert_eq!(beside.send(1, &syn), world.send(1, &syn));
    }
    assert_eq!(beside.engine.stats().path.mss_clamped, 2);
}

#[test]
fn what_is_for_others_or_malformed_is_dropped_here() {
    let (_, mut beside, _) = both();
    let mut elsewhere = frame(0, &uplink());
    elsewhere[..6].copy_from_slice(&MacAddr([2, 9, 9, 9, 9, 9]).0);
    beside.send_frame(0, &elsewhere);
    let mut damaged = frame(0, &uplink());
    damaged[24] ^= 1;
    beside.send_frame(0, &damaged);
    beside.send_frame(0, &[1, 2, 3]);
    assert_eq!(beside.exception(), None);
    let stats = beside.engine.stats().path;
    for reason in [
        DropReason::NotForUs,
        DropReason::BadIpv4Checksum,
        DropReason::TruncatedEthernet,
    ] {
        assert_eq!(stats.dropped(reason), 1, "{reason}");
    }
    beside.assert_conserved();
}
