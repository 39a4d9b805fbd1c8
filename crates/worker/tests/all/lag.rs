//! N6 on a LAG: which member packets leave by, what members take, LACP and markers.

use crate::common;

use std::collections::BTreeMap;

use flow::PortId;
use packet::{DropReason, MacAddr, Teid};
use rules::image::ImmediateActions;
use rules::model::{FarId, OuterHeaderCreation};
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, tunnelled};
use transport::lag::{End, Lacpdu, LagShare, SLOW_PROTOCOLS};
use worker::{Command, Event, LagHash, LagPorts};

use common::one_session::{REMOTE, TEID, events, hand_over, session, to_ue, uplink};
use common::{PEER_MAC, World, frame, our_mac};

pub(crate) const LAG: PortId = PortId(1);
pub(crate) const MEMBERS: [u16; 2] = [7, 8];

/// A world with N6 on a LAG, and a port behind its members that makes room for them.
pub(crate) fn world(share: u8) -> World {
    world_with_backlog(share, 0)
}

/// The same, where packets of a port may wait.
pub(crate) fn world_with_backlog(share: u8, backlog: usize) -> World {
    let mut world = world_on(LAG, backlog);
    world.install(1, session());
    carry(&mut world, LAG, share);
    world
}

/// The instances of a port are on a LAG.
fn world_on(lag: PortId, backlog: usize) -> World {
    let mut instances = testing::network().instances().to_vec();
    if let Some(last) = instances.last_mut() {
        last.port = PortId(9);
    }
    let network = rules::Network::new(instances).expect("a network");
    World::with(network, 1, |config| {
        config.slow_protocols = 5;
        config.backlog = backlog;
        config.lags = vec![LagPorts {
            port: lag,
            members: MEMBERS.map(PortId).into(),
            lacp: true,
            hash: LagHash::L34,
        }];
    })
}

fn carry(world: &mut World, port: PortId, mask: u8) {
    let share = LagShare {
        collecting: mask,
        distributing: mask,
    };
    world.tell_all(|| Command::Lag { port, share });
}

/// A frame of the LAG's link that comes by a member.
fn receive(world: &mut World, member: u16, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
    world.send_frame(0, member, frame)
}

fn slow(kind: u8) -> Vec<u8> {
    let mut frame = [&SLOW_PROTOCOLS.0[..], &PEER_MAC.0, &[0x88, 0x09, kind, 1, 1, 16]].concat();
    frame.resize(124, 0);
    frame
}

#[test]
fn flows_leave_by_members_that_carry() {
    let mut world = world(3);
    let mut sent = BTreeMap::<PortId, usize>::new();
    for port in 0..64 {
        let inner = UserPacket::udp(UE, REMOTE, 4_000 + port, 53);
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &inner.bytes());
        for (by, frame) in world.send(0, &packet) {
            assert_eq!(frame[6..12], our_mac(LAG.0).0, "from the LAG's address");
            *sent.entry(by).or_default() += 1;
        }
    }
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), MEMBERS.map(PortId));
    assert!(sent.values().all(|count| *count > 16), "{sent:?}");
    carry(&mut world, LAG, 2);
    assert_eq!(world.send(0, &uplink())[0].0, PortId(MEMBERS[1]));
    world.assert_conserved();
}

#[test]
fn without_a_member_packets_are_dropped_and_not_counted() {
    let mut world = world(0);
    let before = world.drops();
    assert!(world.send(0, &uplink()).is_empty());
    assert_eq!(world.dropped_since(&before), Some(DropReason::PortDown));
    let counts = world.query(0, flow::SessionIndex(1)).counters;
    assert!(
        counts.iter().all(|(_, count)| count.ul_packets == 0),
        "{counts:?}"
    );
    world.assert_conserved();
}

#[test]
fn what_comes_by_members_is_the_lags() {
    let mut world = world(1);
    let downlink = frame(LAG.0, &to_ue());
    let out = receive(&mut world, MEMBERS[0], &downlink);
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].0, PortId(0));
    let before = world.drops();
    assert!(receive(&mut world, MEMBERS[1], &downlink).is_empty());
    assert_eq!(
        world.dropped_since(&before),
        Some(DropReason::MemberNotCollecting)
    );
    // A question to our address on the link is answered by a member, from the LAG's address.
    let mut question = [&[0xff; 6][..], &PEER_MAC.0, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
    question.extend(PEER_MAC.0);
    question.extend([10, 0, 6, 254, 0, 0, 0, 0, 0, 0, 10, 0, 6, 1]);
    question.resize(60, 0);
    let out = receive(&mut world, MEMBERS[0], &question);
    assert_eq!(out.len(), 1);
    assert_eq!(
        (out[0].0, &out[0].1[6..12]),
        (PortId(MEMBERS[0]), &our_mac(LAG.0).0[..])
    );
    world.assert_conserved();
}

#[test]
fn lacpdus_are_reported_and_markers_answered() {
    let mut world = world(1);
    events(&mut world);
    let end = |system| End {
        system: MacAddr([2, 0, 0, 0, 0, system]),
        key: 7,
        ..End::default()
    };
    let pdu = Lacpdu {
        actor: end(1),
        partner: end(2),
    };
    // By a member that carries nothing, too.
    assert!(receive(&mut world, MEMBERS[1], &pdu.frame(PEER_MAC)).is_empty());
    let reported = events(&mut world);
    assert!(
        matches!(reported[..], [Event::Lacp { member: PortId(8), pdu: received }] if received == pdu),
        "{reported:?}"
    );
    let out = receive(&mut world, MEMBERS[0], &slow(2));
    let [(PortId(7), answer)] = &out[..] else {
        panic!("{out:?}")
    };
    assert_eq!(
        (&answer[..6], &answer[6..12]),
        (&SLOW_PROTOCOLS.0[..], &our_mac(7).0[..])
    );
    assert_eq!(answer[14..18], [2, 1, 2, 16]);
    let before = world.drops();
    assert!(receive(&mut world, MEMBERS[0], &slow(9)).is_empty());
    assert_eq!(world.dropped_since(&before), Some(DropReason::BadSlowProtocol));
    let before = world.drops();
    assert!(receive(&mut world, 0, &slow(2)).is_empty());
    assert_eq!(
        world.dropped_since(&before),
        Some(DropReason::UnknownEtherType),
        "not at a port that is no member"
    );
    world.assert_conserved();
}

#[test]
fn a_flood_of_lacpdus_is_cut_off() {
    let mut world = world(1);
    events(&mut world);
    let pdu = Lacpdu {
        actor: End::default(),
        partner: End::default(),
    };
    for _ in 0..100 {
        receive(&mut world, MEMBERS[0], &pdu.frame(PEER_MAC));
    }
    assert_eq!(events(&mut world).len(), 5);
    world.assert_conserved();
}

#[test]
fn frames_of_our_own_to_a_lag_leave_by_a_member() {
    let mut world = world(2);
    let bytes: Box<[u8]> = frame(1, b"hello").into();
    let transmit = |port: u16| {
        let bytes = bytes.clone();
        move || Command::Transmit {
            port: PortId(port),
            bytes: bytes.clone(),
        }
    };
    world.tell_all(transmit(LAG.0));
    assert_eq!(world.take(), [(PortId(MEMBERS[1]), bytes.to_vec())]);
    // An LACPDU goes by its own member, whether that carries or not.
    world.tell_all(transmit(MEMBERS[0]));
    assert_eq!(world.take(), [(PortId(MEMBERS[0]), bytes.to_vec())]);
    carry(&mut world, LAG, 0);
    world.tell_all(transmit(LAG.0));
    assert!(world.take().is_empty());
    world.assert_conserved();
}

/// The members that End Markers leave by when a session leaves these tunnels one after the other, with a number sent to
/// each.
fn end_markers(share: u8, tunnels: std::ops::Range<u32>) -> BTreeMap<PortId, usize> {
    const N3_LAG: PortId = PortId(0);
    let mut world = world_on(N3_LAG, 0);
    let mut image = world.install(1, session());
    carry(&mut world, N3_LAG, share);
    let mut sent = BTreeMap::<PortId, usize>::new();
    for teid in tunnels {
        let immediate = ImmediateActions {
            end_markers: vec![FarId(2)],
            ..ImmediateActions::default()
        };
        let next = OuterHeaderCreation::gtpu_ipv4(Teid(teid), GNB);
        image = world.change(&image, immediate, |rules| hand_over(rules, next));
        let out = world.take();
        let [(port, marker)] = &out[..] else {
            panic!("{out:?}")
        };
        assert_eq!(marker[42..44], [0x30, 254], "an End Marker");
        *sent.entry(*port).or_default() += 1;
    }
    world.assert_conserved();
    sent
}

#[test]
fn end_markers_of_many_tunnels_leave_by_all_members() {
    let sent = end_markers(3, 100..164);
    assert_eq!(sent.keys().copied().collect::<Vec<_>>(), MEMBERS.map(PortId));
    assert!(sent.values().all(|count| *count > 16), "{sent:?}");
    assert_eq!(end_markers(2, 100..108), [(PortId(MEMBERS[1]), 8)].into());
}
