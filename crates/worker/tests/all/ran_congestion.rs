//! ECN marks for L4S on behalf of the RAN: what a base station reports in uplink packets is what leaves marked.

use crate::common;

use std::time::Duration;

use flow::{SessionIndex, WorkerId};
use packet::psc::{NewIes, PduSessionContainer, Uplink};
use packet::{DropReason, Qfi, Teid, checksum};
use rules::SessionRules;
use rules::image::{ImmediateActions, MeterShare, SessionChange};
use rules::model::{Gate, OuterHeaderCreation, Pdi, QerId, QerUpdate, SourceInterface};
use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, f_teid, pdr, tunnelled};
use worker::{TraceItem, TracedEnd};

use super::egress_queue_moves::{select, shared};
use super::tracing::{TERMS, order};
use common::one_session::{REMOTE, TEID, hand_over, reason, session, to_ue, uplink};
use common::{World, frame};

/// The QFI of the session's QER.
const QFI: u8 = 9;

/// Of a tunnel from another UPF, towards the UE.
const DOWNLINK_TEID: u32 = 0x5150;

/// The ECN field (RFC 3168 §5).
const NOT_ECT: u8 = 0;
const ECT_1: u8 = 1;
const ECT_0: u8 = 2;
const CE: u8 = 3;

/// The session, whose QER marks packets on behalf of the RAN or does not.
fn rules(marks_l4s: bool) -> SessionRules {
    let mut rules = session();
    let update = QerUpdate {
        marks_l4s: Some(marks_l4s),
        ..QerUpdate::new(QerId(1))
    };
    rules.update_qer(update).expect("it is there");
    rules
}

fn world(marks_l4s: bool) -> World {
    let mut world = World::new();
    world.install(1, rules(marks_l4s));
    world
}

fn replace(world: &mut World, rules: SessionRules) {
    let image = world.image(1, &rules.into(), None).expect("it compiles");
    world
        .apply(0, SessionChange::Replace(image, ImmediateActions::default()))
        .expect("it is there");
}

/// The packet of a gNB that reports these parts of a QoS flow's packets, in 0.01 percent, with this user packet.
fn report(qfi: u8, parts: [Option<u16>; 2], payload: &[u8]) -> Vec<u8> {
    report_into(TEID, qfi, parts, payload)
}

/// The same into a tunnel.
fn report_into(teid: u32, qfi: u8, [ul, dl]: [Option<u16>; 2], payload: &[u8]) -> Vec<u8> {
    let container = PduSessionContainer::Uplink(Uplink {
        qfi: Qfi::from_low_bits(qfi),
        new: NewIes {
            ul_congestion: ul,
            dl_congestion: dl,
            ..NewIes::default()
        },
        ..Uplink::default()
    });
    let mut octets = [0; 64];
    let len = container.write(&mut octets).expect("there is room");
    tunnelled(
        N3_ADDRESS,
        teid,
        255,
        None,
        &[(0x85, octets[..len].to_vec())],
        payload,
    )
}

fn from_ue(ecn: u8) -> Vec<u8> {
    let mut inner = UserPacket::udp(UE, REMOTE, 1000, 53);
    inner.tos = 0xb8 | ecn;
    tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, QFI]), &[], &inner.bytes())
}

fn towards_ue(ecn: u8) -> Vec<u8> {
    let mut inner = UserPacket::udp(REMOTE, UE, 53, 1000);
    inner.tos = 0xb8 | ecn;
    inner.bytes()
}

/// The ECN field of the user packet that leaves for one that comes in by a port. All else of its TOS, and its checksum,
/// are right.
fn ecn_of(world: &mut World, port: u16, packet: &[u8]) -> u8 {
    ecn_at(world, 0, port, packet)
}

/// The same at a worker.
fn ecn_at(world: &mut World, worker: u16, port: u16, packet: &[u8]) -> u8 {
    let out = world.send_frame(worker, port, &frame(port, packet));
    let [(_, frame)] = &out[..] else {
        panic!("one packet in, {} out", out.len())
    };
    // The user packet is the last of the IP packets in the frame.
    let is_last = |at: &usize| {
        let len = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
        frame[*at] == 0x45 && *at + usize::from(len) == frame.len()
    };
    let start = (14..frame.len() - 20).rev().find(is_last).expect("a user packet");
    let header = &frame[start..start + 20];
    assert_eq!(header[1] >> 2, 0xb8 >> 2);
    assert!(checksum::is_right(header), "{header:x?}");
    header[1] & 3
}

fn ecns(world: &mut World, port: u16, packet: &[u8], count: usize) -> Vec<u8> {
    (0..count).map(|_| ecn_of(world, port, packet)).collect()
}

#[test]
fn the_part_that_is_reported_leaves_marked_evenly() {
    let mut world = world(true);
    assert_eq!(ecns(&mut world, 1, &towards_ue(ECT_1), 4), [ECT_1; 4]);
    // A quarter of the uplink, half of the downlink; the octets of the container are in `docs/compliance/ts38415.md`.
    let told = report(
        QFI,
        [Some(2_500), Some(5_000)],
        &UserPacket::udp(UE, REMOTE, 1000, 53).bytes(),
    );
    assert_eq!(told[41..51], [0x10, 0x49, 0x06, 0x09, 0xc4, 0x13, 0x88, 0, 0, 0]);
    assert_eq!(world.send(0, &told).len(), 1);
    let half = [ECT_1, CE].repeat(4);
    assert_eq!(ecns(&mut world, 1, &towards_ue(ECT_1), 8), half);
    let quarter = [ECT_1, ECT_1, ECT_1, CE].repeat(2);
    assert_eq!(ecns(&mut world, 0, &from_ue(ECT_1), 8), quarter);
    // One direction changes, the other stays.
    world.send(
        0,
        &report(
            QFI,
            [Some(0), None],
            &UserPacket::udp(UE, REMOTE, 1000, 53).bytes(),
        ),
    );
    assert_eq!(ecns(&mut world, 0, &from_ue(ECT_1), 4), [ECT_1; 4]);
    assert_eq!(ecns(&mut world, 1, &towards_ue(ECT_1), 4), half[..4]);
    let stats = world.workers[0].stats();
    assert_eq!((stats.congestion_reports, stats.congestion_marks), (2, 4 + 2 + 2));
    world.assert_conserved();
}

#[test]
fn only_packets_of_scalable_senders_are_marked() {
    let mut world = world(true);
    world.send(0, &report(QFI, [Some(10_000), Some(10_000)], &[]));
    for (ecn, leaves) in [(NOT_ECT, NOT_ECT), (ECT_0, ECT_0), (ECT_1, CE), (CE, CE)] {
        assert_eq!(ecns(&mut world, 1, &towards_ue(ecn), 2), [leaves; 2]);
        assert_eq!(ecns(&mut world, 0, &from_ue(ecn), 2), [leaves; 2]);
    }
    assert_eq!(world.workers[0].stats().congestion_marks, 4);
}

#[test]
fn a_packet_that_is_there_for_its_report_alone_is_consumed() {
    let mut world = world(true);
    let before = world.drops();
    let consumed = world.workers[0].stats().consumed;
    assert!(world.send(0, &report(QFI, [None, Some(10_000)], &[])).is_empty());
    assert_eq!(
        (world.dropped_since(&before), world.workers[0].stats().consumed),
        (None, consumed + 1)
    );
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
    // One without a report is what it was before, as is any of them where no QER asks for marks.
    let empty = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, QFI]), &[], &[]);
    assert_eq!(
        reason(&mut world, 0, &empty),
        Some(DropReason::EmptyTunnelPayload)
    );
    let mut other = self::world(false);
    let told = report(QFI, [None, Some(10_000)], &[]);
    assert_eq!(reason(&mut other, 0, &told), Some(DropReason::EmptyTunnelPayload));
    assert_eq!(ecn_of(&mut other, 1, &towards_ue(ECT_1)), ECT_1);
    assert_eq!(other.workers[0].stats().congestion_reports, 0);
    world.assert_conserved();
}

#[test]
fn another_qos_flow_s_report_is_not_heeded() {
    let mut world = world(true);
    world.send(0, &report(QFI + 1, [Some(10_000), Some(10_000)], &[]));
    assert_eq!(ecns(&mut world, 1, &towards_ue(ECT_1), 3), [ECT_1; 3]);
}

#[test]
fn marks_begin_and_end_with_the_smf_s_request() {
    let mut world = world(false);
    let told = report(QFI, [None, Some(10_000)], &[]);
    world.send(0, &told);
    replace(&mut world, rules(true));
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), ECT_1);
    world.send(0, &told);
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
    // A change of something else leaves what was reported.
    let mut changed = rules(true);
    let update = QerUpdate {
        gates: Some((Gate::Closed, Gate::Open)),
        ..QerUpdate::new(QerId(1))
    };
    changed.update_qer(update).expect("it is there");
    replace(&mut world, changed);
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
    replace(&mut world, rules(false));
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), ECT_1);
    replace(&mut world, rules(true));
    assert_eq!(
        ecn_of(&mut world, 1, &towards_ue(ECT_1)),
        ECT_1,
        "it was forgotten"
    );
}

#[test]
fn what_one_base_station_said_does_not_hold_for_another_one() {
    let mut world = world(true);
    world.send(0, &report(QFI, [Some(10_000), Some(10_000)], &[]));
    assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
    let mut moved = rules(true);
    hand_over(&mut moved, OuterHeaderCreation::gtpu_ipv4(Teid(0x7777), GNB));
    replace(&mut world, moved);
    assert_eq!(ecn_of(&mut world, 0, &from_ue(ECT_1)), ECT_1);
}

/// A worker that gets the session from another one marks by the reports to that one, and by those to itself meanwhile,
/// whichever is later.
#[test]
fn what_was_reported_moves_with_the_session() {
    let mut world = World::with(testing::network(), 2, |_| {});
    select(&mut world, WorkerId(0));
    let image = world.install(1, rules(true));
    let tell = |world: &mut World, worker, parts| {
        let told = world.send_frame(worker, 0, &frame(0, &report(QFI, parts, &[])));
        assert!(told.is_empty());
    };
    let down = |world: &mut World, worker| ecn_at(world, worker, 1, &towards_ue(ECT_1));
    let up = |world: &mut World, worker| ecn_at(world, worker, 0, &from_ue(ECT_1));
    tell(&mut world, 0, [Some(10_000), Some(5_000)]);
    assert_eq!(down(&mut world, 0), ECT_1);

    let leaving = SessionChange::Replace(shared(&image, MeterShare::Leaving), ImmediateActions::default());
    let left = world.apply(0, leaving).expect("it is there").expect("a report");
    let mut arriving = shared(&image, MeterShare::Arriving);
    arriving.bring_congestion(left.congestion);
    world
        .apply(1, SessionChange::Install(arriving))
        .expect("there is room");
    select(&mut world, WorkerId(1));
    // The half continues where it was.
    assert_eq!(
        [down(&mut world, 1), down(&mut world, 1), up(&mut world, 1)],
        [CE, ECT_1, CE]
    );

    // What still comes to the old one is of the uplink, what comes to the new one of the downlink.
    select(&mut world, WorkerId(0));
    tell(&mut world, 0, [Some(0), Some(0)]);
    select(&mut world, WorkerId(1));
    tell(&mut world, 1, [None, Some(10_000)]);
    let last = world
        .apply(0, SessionChange::Remove(image.session))
        .expect("it is there");
    let mut whole = image;
    whole.bring_congestion(last.expect("a report").congestion);
    let whole = SessionChange::Replace(whole, ImmediateActions::default());
    world.apply(1, whole).expect("it is there");
    assert_eq!(
        [down(&mut world, 1), down(&mut world, 1), up(&mut world, 1)],
        [CE, CE, ECT_1]
    );
    world.assert_conserved();
}

/// Reports of a session that has ended are not those of one that gets its number.
#[test]
fn a_session_that_ends_leaves_no_report() {
    let mut world = world(true);
    world.send(0, &report(QFI, [Some(10_000), None], &[]));
    let ended = world
        .apply(0, SessionChange::Remove(SessionIndex(1)))
        .expect("it is there");
    assert_eq!(ended.map(|usage| usage.congestion.len()), Some(1));
    world.install(1, rules(true));
    assert_eq!(ecn_of(&mut world, 0, &from_ue(ECT_1)), ECT_1);
}

/// A base station that reports no longer does not have packets marked for good; each report begins the time anew, for
/// the direction that it is of.
#[test]
fn a_report_holds_for_a_time() {
    let age = Duration::from_secs(10);
    for is_limited in [true, false] {
        let mut world = World::with(testing::network(), 1, |config| {
            config.ran_congestion_age = is_limited.then_some(age);
        });
        world.install(1, rules(true));
        world.send(0, &report(QFI, [Some(10_000), Some(10_000)], &[]));
        world.now = world.now + age - Duration::from_secs(1);
        assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
        world.send(0, &report(QFI, [None, Some(10_000)], &[]));
        world.now = world.now + Duration::from_secs(2);
        let last = if is_limited { ECT_1 } else { CE };
        assert_eq!(ecn_of(&mut world, 0, &from_ue(ECT_1)), last);
        assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
        world.now = world.now + age;
        assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), last);
        world.send(0, &report(QFI, [None, Some(10_000)], &[]));
        assert_eq!(ecn_of(&mut world, 1, &towards_ue(ECT_1)), CE);
    }
}

#[test]
fn a_peer_of_a_downlink_tunnel_reports_nothing() {
    let mut rules = rules(true);
    let mut from_peer = Pdi::new(SourceInterface::Core);
    from_peer.f_teid = Some(f_teid(DOWNLINK_TEID));
    let mut pdr = pdr(3, 100, from_peer, 2);
    pdr.qers.push(QerId(1));
    rules.create_pdr(pdr).expect("its number is free");
    let mut world = World::new();
    world.install(1, rules);
    let payload = UserPacket::udp(REMOTE, UE, 53, 1000).bytes();
    for payload in [&payload[..], &[]] {
        world.send(0, &report_into(DOWNLINK_TEID, QFI, [None, Some(10_000)], payload));
    }
    assert_eq!(world.workers[0].stats().congestion_reports, 0);
    world.send(0, &report_into(TEID, QFI, [None, Some(10_000)], &[]));
    assert_eq!(world.workers[0].stats().congestion_reports, 1);
}

#[test]
fn a_trace_says_which_packets_are_marked() {
    let mut world = world(true);
    world.send(0, &report(QFI, [None, Some(5_000)], &[]));
    let mut from = order(&mut world, TERMS, 64);
    assert_eq!(ecns(&mut world, 1, &towards_ue(ECT_1), 2), [ECT_1, CE]);
    world.send(0, &uplink());
    world.send(1, &to_ue());
    let mut told = Vec::new();
    while let Ok(item) = from.pop() {
        if let TraceItem::Packet(traced) = item {
            assert!(matches!(traced.end, TracedEnd::Sent { .. }));
            told.push(traced.is_congested);
        }
    }
    assert_eq!(told, [false, true, false, false]);
}
