//! Traces of single packets by a worker.

use crate::{common, path_mtu};

use std::sync::Arc;
use std::time::Duration;

use flow::{Direction, KeyFields, PortId};
use packet::overlay::Overlay;
use packet::{DropReason, Teid};
use proptest::prelude::*;
use rtrb::Consumer;
use rules::image::ImmediateActions;
use rules::model::{ApplyAction, FarId, FarUpdate, PdrId, PdrUpdate, Precedence};
use rules::network::Fragmentation;
use rules::testing::{N3_ADDRESS, UE, UserPacket, tunnelled};
use worker::{
    Command, CopyTerms, CopyTo, Event, MAX_TRACES, TraceEnd, TraceFilter, TraceFlow, TraceItem, TraceSource,
    TraceTerms, Traced, TracedEnd, TracedLookup, mirror, trace,
};

use common::World;
use common::one_session::{GNB_TEID, REMOTE, TEID, events, from_ue, ip, session, to_ue, uplink, world};

pub const TERMS: TraceTerms = TraceTerms {
    filter: TraceFilter {
        ue: None,
        teid: None,
        seid: None,
        flow: None,
        port: None,
    },
    snap: 2_000,
    rate: 1_000_000,
    count: 1_000_000,
    lasts: Duration::from_secs(3_600),
};

pub fn order(world: &mut World, terms: TraceTerms, room: usize) -> Consumer<TraceItem> {
    let (order, reported) = trace(terms, room);
    let order = Command::Trace(Box::new(order));
    assert!(world.controls[0].commands.push(order).is_ok());
    world.poll();
    reported
}

pub fn filtered(world: &mut World, filter: TraceFilter) -> Consumer<TraceItem> {
    order(world, TraceTerms { filter, ..TERMS }, 64)
}

fn packets(reported: &mut Consumer<TraceItem>) -> Vec<Traced> {
    let mut packets = Vec::new();
    while let Ok(item) = reported.pop() {
        match item {
            TraceItem::Packet(traced) => packets.push(*traced),
            TraceItem::End(end) => panic!("it ended: {end:?}"),
        }
    }
    packets
}

pub fn one(reported: &mut Consumer<TraceItem>) -> Traced {
    let mut packets = packets(reported);
    assert_eq!(packets.len(), 1);
    packets.remove(0)
}

#[test]
fn a_packet_is_traced_as_it_came_and_as_it_left() {
    let mut world = world();
    let mut reported = filtered(&mut world, TraceFilter::default());
    let out = world.send(0, &uplink());
    let traced = one(&mut reported);
    assert_eq!(traced.received.octets, common::frame(0, &uplink()));
    assert_eq!((traced.number, traced.source), (1, TraceSource::Port));
    let decision = traced.decision.expect("a decision");
    assert_eq!((decision.pdr, decision.direction), (PdrId(1), Direction::Uplink));
    assert_eq!(traced.flow.lookup, TracedLookup::Miss);
    assert_eq!(traced.flow.entry, Some((KeyFields::ADDRESS, Direction::Uplink)));
    assert_eq!(traced.session.expect("a session").seid, 2);
    let TracedEnd::Sent {
        frame, recirculates, ..
    } = traced.end
    else {
        panic!("it is sent: {:?}", traced.end)
    };
    assert_eq!((frame.port, frame.octets), out[0]);
    assert!(!recirculates);
    // The next one hits; one in an unknown tunnel ends for its reason.
    world.send(0, &uplink());
    let hit = one(&mut reported);
    assert_eq!(hit.flow.lookup, TracedLookup::Hit { outdated: false });
    world.send(0, &tunnelled(N3_ADDRESS, TEID + 1, 255, None, &[], &from_ue()));
    let unknown = one(&mut reported);
    assert_eq!(unknown.end, TracedEnd::Dropped(DropReason::UnknownTeid));
    assert!(unknown.session.is_none() && unknown.decision.is_none());
}

#[test]
fn a_change_of_rules_shows_as_a_stale_entry() {
    let mut world = World::new();
    let image = world.install(1, session());
    let mut reported = filtered(&mut world, TraceFilter::default());
    world.send(1, &to_ue());
    assert_eq!(one(&mut reported).flow.lookup, TracedLookup::Miss);
    let image = world.change(&image, ImmediateActions::default(), |rules| {
        let mut update = PdrUpdate::new(PdrId(2));
        update.precedence = Some(Precedence(7));
        rules.update_pdr(update).expect("it is there");
    });
    world.send(1, &to_ue());
    assert_eq!(one(&mut reported).flow.lookup, TracedLookup::Stale);
    // A FAR that drops changes no flow.
    world.change(&image, ImmediateActions::default(), |rules| {
        let mut update = FarUpdate::new(FarId(2));
        update.action = Some(ApplyAction::DROP);
        rules.update_far(update).expect("it is there");
    });
    world.send(1, &to_ue());
    let dropped = one(&mut reported);
    assert_eq!(dropped.flow.lookup, TracedLookup::Hit { outdated: false });
    assert_eq!(dropped.end, TracedEnd::Dropped(DropReason::FarDrop));
}

#[test]
fn only_what_the_filter_matches_is_traced() {
    let mut world = world();
    let other = UserPacket::udp([10, 45, 9, 9], REMOTE, 1, 2).bytes();
    let other = tunnelled(N3_ADDRESS, TEID + 7, 255, None, &[], &other);
    let ends = [(ip("192.0.2.1"), 53), (UE.into(), 1000)];
    let with = |set: &dyn Fn(&mut TraceFilter)| {
        let mut filter = TERMS.filter;
        set(&mut filter);
        filter
    };
    let (ue, teid, none) = (Some(UE.into()), Some(Teid(TEID)), [false; 3]);
    let flow = |proto| Some(TraceFlow { proto, ends });
    let cases = [
        (with(&|filter| filter.ue = ue), [true, true, false]),
        (
            with(&|filter| filter.ue = Some(ip("10.45.9.9"))),
            [false, false, true],
        ),
        (with(&|filter| filter.teid = teid), [true, false, false]),
        (
            with(&|filter| filter.teid = Some(Teid(GNB_TEID))),
            [false, true, false],
        ),
        (with(&|filter| filter.seid = Some(2)), [true, true, false]),
        (with(&|filter| filter.seid = Some(3)), none),
        (with(&|filter| filter.flow = flow(17)), [true, true, false]),
        (with(&|filter| filter.flow = flow(6)), none),
        (with(&|filter| filter.port = Some(PortId(0))), [true, true, true]),
        (with(&|filter| filter.port = Some(PortId(2))), none),
        (
            with(&|filter| (filter.ue, filter.teid) = (ue, teid)),
            [true, false, false],
        ),
    ];
    for (filter, wanted) in cases {
        let mut reported = filtered(&mut world, filter);
        let sent = [(0, uplink()), (1, to_ue()), (0, other.clone())];
        for ((port, packet), wanted) in sent.into_iter().zip(wanted) {
            world.send(port, &packet);
            assert_eq!(packets(&mut reported).len(), usize::from(wanted), "{filter:?}");
        }
        drop(reported);
        world.poll();
    }
}

#[test]
fn commands_with_unknown_paths_report_it() {
    let mut world = path_mtu::world(session(), Fragmentation::Inner);
    let mut reported = filtered(&mut world, TraceFilter::default());
    let opening = path_mtu::syn((REMOTE.octets(), 443), (UE.octets(), 40_000));
    let mut uses_path_mtus = |world: &mut World, packet: &[u8]| {
        world.send(1, packet);
        one(&mut reported).uses_path_mtus
    };
    assert!(!uses_path_mtus(&mut world, &opening), "no path is known");
    path_mtu::announce_mtu(&mut world, path_mtu::to_gnb(), Some(1400));
    assert!(uses_path_mtus(&mut world, &opening));
    assert!(!uses_path_mtus(&mut world, &to_ue()), "it opens nothing");
}

fn end_of(reported: &mut Consumer<TraceItem>) -> (usize, Option<TraceEnd>) {
    let mut packets = 0;
    while let Ok(item) = reported.pop() {
        match item {
            TraceItem::Packet(_) => packets += 1,
            TraceItem::End(end) => return (packets, Some(end)),
        }
    }
    (packets, None)
}

#[test]
fn number_rate_room_and_time_bound_a_request_and_losses_are_reported() {
    let mut world = world();
    let burst = |world: &mut World, count: usize| (0..count).for_each(|_| drop(world.send(0, &uplink())));
    let end = |wanted, over_rate, lost| {
        Some(TraceEnd {
            wanted,
            over_rate,
            lost,
        })
    };
    let mut reported = order(&mut world, TraceTerms { count: 3, ..TERMS }, 64);
    burst(&mut world, 5);
    assert_eq!(end_of(&mut reported), (3, end(3, 0, 0)));
    let rest = events(&mut world);
    assert!(matches!(rest[..], [Event::TraceOver { .. }]), "{rest:?}");
    drop(rest);
    assert!(reported.is_abandoned());

    let mut reported = order(
        &mut world,
        TraceTerms {
            rate: 2,
            lasts: Duration::from_millis(1),
            ..TERMS
        },
        64,
    );
    burst(&mut world, 5);
    world.now = world.now + Duration::from_millis(2);
    world.poll();
    assert_eq!(end_of(&mut reported), (2, end(5, 3, 0)));

    let mut reported = order(
        &mut world,
        TraceTerms {
            lasts: Duration::from_millis(1),
            ..TERMS
        },
        4,
    );
    burst(&mut world, 9);
    world.now = world.now + Duration::from_millis(2);
    world.poll();
    // The end waits for room.
    assert_eq!(end_of(&mut reported), (4, None));
    world.poll();
    assert_eq!(end_of(&mut reported), (0, end(9, 0, 5)));
}

#[test]
fn a_trace_request_ends_without_a_reader_and_one_too_many_is_given_up() {
    let mut world = world();
    let mut all: Vec<_> = (0..MAX_TRACES)
        .map(|_| filtered(&mut world, TERMS.filter))
        .collect();
    let mut refused = filtered(&mut world, TERMS.filter);
    assert!(refused.is_abandoned() && refused.pop().is_err());
    world.send(0, &uplink());
    for reported in &mut all {
        assert_eq!(packets(reported).len(), 1);
    }
    drop(all);
    world.poll();
    let mut reported = filtered(&mut world, TERMS.filter);
    world.send(0, &uplink());
    one(&mut reported);
    assert!(!reported.is_abandoned());
}

/// Traces that are not read when their reader goes are not freed by the worker: they go to control, as the session's
/// rules show, which every packet holds.
#[test]
fn control_frees_what_was_not_read() {
    let mut world = World::new();
    let image = world.install(1, session());
    let holders = |rules: &Arc<_>| Arc::strong_count(rules);
    let before = holders(&image.rules);
    let reported = order(&mut world, TERMS, 256);
    for _ in 0..200 {
        world.send(0, &uplink());
    }
    assert_eq!(holders(&image.rules), before + 200);
    drop(reported);
    world.poll();
    assert_eq!(holders(&image.rules), before + 200);
    let rest = events(&mut world);
    assert!(matches!(rest[..], [Event::TraceOver { .. }]), "{rest:?}");
    drop(rest);
    assert_eq!(holders(&image.rules), before);
    world.send(0, &uplink());
    assert_eq!(holders(&image.rules), before);
}

/// While control is behind, the trace request waits, and reports nothing any more.
#[test]
fn what_was_not_read_waits_until_control_has_room() {
    let mut world = world();
    let ue = TraceFilter {
        ue: Some(UE.into()),
        ..TERMS.filter
    };
    let reported = order(&mut world, TraceTerms { filter: ue, ..TERMS }, 64);
    world.send(0, &uplink());
    fill(&mut world);
    drop(reported);
    world.poll();
    world.send(0, &uplink());
    let all = events(&mut world);
    assert!(!all.iter().any(|event| matches!(event, Event::TraceOver { .. })));
    world.poll();
    let rest = events(&mut world);
    let [Event::TraceOver { ring }] = &rest[..] else {
        panic!("{rest:?}")
    };
    assert_eq!(ring.slots(), 63, "one packet is there");
}

/// Events until there is room for answers alone.
fn fill(world: &mut World) {
    for number in 0..200 {
        let received = [
            &[0xff; 6][..],
            &common::PEER_MAC.0,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1],
        ]
        .concat();
        let ends = [
            &common::PEER_MAC.0[..],
            &[10, 0, 6, 100 + number / 2],
            &[0; 6],
            &[10, 0, 6, 1],
        ]
        .concat();
        let mut question = [received, ends].concat();
        question.resize(60, 0);
        world.send_frame(0, 1, &question);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each packet is traced once, and tracing changes nothing of its result.
    #[test]
    fn every_packet_is_traced_and_none_is_changed(
        sent in prop::collection::vec((0..3u16, prop::collection::vec(any::<u8>(), 0..90), any::<u8>()), 1..12),
    ) {
        let (mut traced, mut plain) = (world(), world());
        let mut reported = filtered(&mut traced, TERMS.filter);
        for (port, octets, kind) in sent {
            let packet = match kind % 4 {
                0 => uplink(),
                1 => to_ue(),
                2 => tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &octets),
                _ => octets,
            };
            let frame = common::frame(port, &packet);
            prop_assert_eq!(traced.send_frame(0, port, &frame), plain.send_frame(0, port, &frame));
            let packets = packets(&mut reported);
            let from_wire = packets.iter().filter(|one| one.source == TraceSource::Port);
            prop_assert_eq!(from_wire.count(), 1);
        }
        prop_assert_eq!(traced.drops(), plain.drops());
    }
}

fn copy(world: &mut World, terms: TraceTerms, copies: CopyTerms) -> Consumer<TraceItem> {
    let (order, reported) = mirror(terms, copies);
    let order = Command::Trace(Box::new(order));
    assert!(world.controls[0].commands.push(order).is_ok());
    world.poll();
    reported
}

#[test]
fn copies_go_to_a_port_as_packets_came_and_as_they_leave() {
    let mut world = world();
    let ue = TraceFilter {
        ue: Some(UE.into()),
        ..TERMS.filter
    };
    let terms = TraceTerms { filter: ue, ..TERMS };
    let to = CopyTo::Port(PortId(2));
    let copies = CopyTerms {
        to,
        received: true,
        sent: true,
    };
    let mut reported = copy(&mut world, terms, copies);
    let mut out = world.send(0, &uplink());
    out.sort();
    let sent = out[0].1.clone();
    assert_eq!(out[0].0, PortId(1));
    assert_eq!(out[1..].len(), 2, "{out:?}");
    assert!(out[1..].contains(&(PortId(2), common::frame(0, &uplink()))));
    assert!(out[1..].contains(&(PortId(2), sent)));
    // One that is dropped has come in, and does not leave; others are not meant.
    world.send(
        0,
        &tunnelled(
            N3_ADDRESS,
            TEID + 1,
            255,
            None,
            &[],
            &UserPacket::udp(ip4("10.45.9.9"), REMOTE, 1, 2).bytes(),
        ),
    );
    world.assert_conserved();
    assert!(reported.pop().is_err());
    let stats = world.workers[0].stats();
    assert_eq!((stats.mirrored, stats.mirrors_lost), (2, 0));
}

#[test]
fn copies_go_into_a_tunnel_as_long_as_they_are_requested() {
    let mut world = world();
    let tunnel = |mtu, last| CopyTo::Tunnel {
        overlay: Overlay::Vxlan { vni: 7 },
        addrs: (ip4("10.0.6.1"), ip4("203.0.113.9")).into(),
        next_hop: common::hop(1, last),
        mtu,
    };
    let copies = |mtu, last| CopyTerms {
        to: tunnel(mtu, last),
        received: true,
        sent: false,
    };
    let reported = copy(&mut world, TERMS, copies(1_500, 254));
    let came = common::frame(0, &uplink());
    let out = world.send(0, &uplink());
    let copied = |out: &[(PortId, Vec<u8>)]| {
        let is_copy =
            |(port, frame): &&(PortId, Vec<u8>)| *port == PortId(1) && frame[36..38] == [0x12, 0xb5];
        out.iter().find(is_copy).map(|(_, frame)| frame.clone())
    };
    let copy_of = copied(&out).expect("a copy");
    assert_eq!(
        copy_of[..6],
        common::mac_of(rules::testing::N6, ip("10.0.6.254")).0
    );
    assert_eq!(copy_of[42..50], [8, 0, 0, 0, 0, 0, 7, 0]);
    assert_eq!(copy_of[50..], came);
    // What comes from the far end itself is not copied to it.
    let answer = UserPacket::udp(ip4("203.0.113.9"), UE, 53, 1000).bytes();
    assert_eq!(copied(&world.send(1, &answer)), None);
    // Too long for its way: cut.
    drop(reported);
    world.poll();
    let mut reported = copy(&mut world, TraceTerms { count: 1, ..TERMS }, copies(96, 254));
    let cut = copied(&world.send(0, &uplink())).expect("a copy");
    assert_eq!((cut.len(), &cut[50..]), (14 + 96, &came[..60]));
    // The first request was over when its far end was dropped; the second has had its number, and says so.
    assert_eq!(copied(&world.send(0, &uplink())), None);
    world.poll();
    let Ok(TraceItem::End(end)) = reported.pop() else {
        panic!("it has ended")
    };
    assert_eq!((end.wanted, end.lost), (1, 0));
    // That next hop does not respond.
    let _told = copy(&mut world, TERMS, copies(1_500, 77));
    assert_eq!(copied(&world.send(0, &uplink())), None);
    assert_eq!(world.workers[0].stats().mirrors_lost, 1);
    world.assert_conserved();
}

fn ip4(text: &str) -> std::net::Ipv4Addr {
    text.parse().expect("an address")
}
