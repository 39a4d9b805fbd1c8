//! An accelerator's node and its host: what passes, what goes to the host and comes back, and what changes nothing.

mod conformance;
mod partial_mode;
mod paths;
mod questions;
mod world;

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::contract::{
    Adjacency, AnyKey, Event, Flow, FlowOp, Object, ObjectId, Outcome, Refusal, RouteTarget, Subject,
};
use flow::{
    AdjacencyId, Bounds, CounterLimit, Direction, FlowFlags, FlowKey4, Forward, ForwardKind, InstanceId,
    KeyFields, LimitAction, PortId, Scope, Template, UrrCount, Volumes, VrfId, WorkerId,
};
use offload::exception::{Class, Reason};
use packet::MacAddr;
use proptest::prelude::*;
use rules::testing::{UE, UserPacket};
use worker::mem::MemBuf;

use world::*;

/// What a counter has counted of packets by `flow`.
fn counted(packets: u64) -> UrrCount {
    UrrCount {
        ul_octets: packets * user_packet(1).len() as u64,
        ul_packets: packets,
        ..UrrCount::default()
    }
}

#[test]
fn the_first_packet_comes_to_the_host_and_its_flow_passes_the_others() {
    let mut world = World::new();
    world.arrive(&uplink(1000));
    world.step();
    let taken = world.take_exceptions();
    let [(header, packet)] = &taken[..] else {
        panic!("one exception");
    };
    assert_eq!(packet, &uplink(1000));
    assert_eq!((header.reason, header.class), (Reason::NoFlow, Class::Normal));
    assert_eq!((header.port, header.hops, header.tags), (ACCESS, 0, 0));
    assert_eq!(
        (header.user_packet, header.layer4),
        (Some(14 + 36), Some(14 + 36 + 20))
    );
    assert!(world.sent().is_empty());
    world.give_back(1000);
    world.step();
    assert_eq!(world.sent(), [as_sent(1000)]);
    world.steps(Duration::from_millis(1));
    for _ in 0..3 {
        world.arrive(&uplink(1000));
    }
    world.step();
    assert_eq!(world.sent(), [as_sent(1000), as_sent(1000), as_sent(1000)]);
    assert!(world.take_exceptions().is_empty());
    world.steps(Duration::from_millis(5));
    let counts = Event::Counts {
        session: SESSION,
        counts: vec![(0, counted(4))],
    };
    assert!(world.events.contains(&counts), "{:?}", world.events);
    let session = Subject::Session(SESSION);
    assert_eq!(
        world.ask(session, FlowOp::Remove(ObjectId::Session)),
        Ok(Outcome::Counts(vec![(0, counted(4))]))
    );
    world.arrive(&uplink(1000));
    world.step();
    assert!(world.sent().is_empty());
    assert_eq!(world.take_exceptions()[0].0.reason, Reason::Stale);
    let stats = world.node.stats();
    assert_eq!((stats.through, stats.markers, stats.echoes), (1, 1, 1));
}

#[test]
fn packets_leave_in_their_order_while_a_flow_moves() {
    let mut world = World::new();
    world.holds_markers = true;
    world.arrive(&uplink(1));
    world.arrive(&uplink(1));
    world.step();
    assert_eq!(world.take_exceptions().len(), 2);
    world.give_back(1);
    world.step();
    assert_eq!(world.sent().len(), 1);
    // One that comes now waits, since another is at the host.
    world.arrive(&uplink(1));
    world.step();
    assert!(world.sent().is_empty() && world.take_exceptions().is_empty());
    world.give_back(1);
    world.step();
    assert_eq!(world.sent().len(), 1, "that of the host alone");
    world.step();
    assert_eq!(world.markers, [1, 2]);
    // This one was not sent.
    world.echo(9);
    world.step();
    assert!(world.sent().is_empty());
    world.echo(2);
    world.step();
    assert_eq!(world.sent().len(), 1);
    world.arrive(&uplink(1));
    world.step();
    assert_eq!(world.sent().len(), 1);
}

#[test]
fn a_flow_that_was_asked_for_passes_at_once_and_can_be_removed() {
    let mut world = World::new();
    let session = Subject::Session(SESSION);
    world.give(session, Object::Flow(flow(7)));
    world.arrive(&uplink(7));
    world.step();
    assert_eq!(world.sent(), [as_sent(7)]);
    let forward = FlowOp::Remove(ObjectId::Forward(0));
    assert_eq!(world.ask(session, forward.clone()), Err(Refusal::InUse));
    let key = FlowOp::Remove(ObjectId::Flow(flow(7).key));
    assert_eq!(world.ask(session, key.clone()), Ok(Outcome::Done));
    assert_eq!(world.ask(session, key), Err(Refusal::Missing));
    assert_eq!(world.ask(session, forward), Ok(Outcome::Done));
    world.arrive(&uplink(7));
    world.step();
    assert!(world.sent().is_empty());
    assert_eq!(world.take_exceptions()[0].0.reason, Reason::NoFlow);
}

#[test]
fn what_is_forged_replayed_or_stale_changes_nothing() {
    let mut world = World::new();
    let genuine = world.through(0, &uplink(1), flow(1));
    for octet in [3, 8, 20, 30, 60] {
        let mut forged = genuine.clone();
        forged[octet] ^= 1;
        world.say(&forged);
        world.step();
    }
    let stats = *world.node.stats();
    assert_eq!(stats.forged + stats.malformed, 5);
    assert!(stats.forged >= 3, "{stats:?}");
    assert!(world.sent().is_empty());
    world.say(&genuine);
    world.step();
    world.say(&genuine);
    world.step();
    assert_eq!((world.sent().len(), world.node.stats().replayed), (1, 1));
    let stale = Flow {
        generation: 2,
        ..flow(2)
    };
    let said = world.through(0, &uplink(2), stale);
    world.say(&said);
    world.step();
    let taken = world.take_exceptions();
    let [(header, packet)] = &taken[..] else {
        panic!("it goes to the host again");
    };
    assert_eq!((header.reason, header.hops), (Reason::NoSession, 1));
    assert_eq!(packet, &uplink(2));
    assert!(world.sent().is_empty());
    let said = world.through(7, &uplink(2), stale);
    world.say(&said);
    world.step();
    assert!(world.take_exceptions().is_empty());
    assert_eq!(world.node.stats().too_many_hops, 1);
    assert_eq!(world.node.engine().stats().flows, 1, "that of the genuine one");
}

#[test]
fn a_packet_that_comes_back_and_cannot_leave_keeps_its_hops() {
    let mut world = World::new();
    world.give(Subject::Node, router(None));
    let said = world.through(2, &uplink(1), flow(1));
    world.say(&said);
    world.step();
    let (header, _) = world.take_exceptions()[0];
    assert_eq!((header.reason, header.hops), (Reason::Adjacency, 3));
    world.steps(Duration::from_millis(1));
    world.arrive(&uplink(1));
    world.step();
    let (header, _) = world.take_exceptions()[0];
    assert_eq!((header.reason, header.hops), (Reason::Adjacency, 0));
    world.give(Subject::Node, router(Some(ROUTER)));
    world.arrive(&uplink(1));
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
}

#[test]
fn where_there_is_no_room_packets_go_by_the_host() {
    let mut world = World::with(None, |config| config.engine.max_settling = 1);
    world.give_all();
    world.holds_markers = true;
    world.give_back(1);
    world.give_back(2);
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
    let (header, packet) = world.take_exceptions().remove(0);
    assert_eq!((header.reason, header.hops), (Reason::NoFlow, 1));
    assert_eq!(packet, uplink(2));
    assert_eq!((world.node.stats().through, world.node.stats().refused), (1, 1));
}

#[test]
fn a_full_flow_table_leaves_packets_to_the_host() {
    let mut world = World::with(None, |config| config.engine.max_flows_v4 = 64);
    world.give_all();
    let session = Subject::Session(SESSION);
    let put = |world: &mut World, port| world.ask(session, FlowOp::Put(Object::Flow(flow(port))));
    let refused = (1..10_000).find(|port| put(&mut world, *port) != Ok(Outcome::Done));
    let refused = refused.expect("the table is bounded");
    assert_eq!(put(&mut world, refused), Err(Refusal::Full));
    // While it settles it needs no room in the table.
    world.holds_markers = true;
    world.give_back(refused);
    world.step();
    assert_eq!(world.sent(), [as_sent(refused)]);
    world.arrive(&uplink(refused));
    world.step();
    world.echo(1);
    world.step();
    world.arrive(&uplink(refused));
    world.step();
    assert!(world.sent().is_empty());
    let reasons: Vec<_> = world
        .take_exceptions()
        .iter()
        .map(|(header, packet)| (header.reason, packet.clone()))
        .collect();
    let expected = (Reason::NoFlow, uplink(refused));
    assert_eq!(reasons, [expected.clone(), expected]);
    // The others pass.
    world.arrive(&uplink(1));
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
}

#[test]
fn what_keeps_the_network_up_comes_first() {
    let mut world = World::new();
    let mut high = uplink(1);
    high[15] = 46 << 2;
    high[24..26].fill(0);
    let checksum = packet::checksum::of(&high[14..34]);
    high[24..26].copy_from_slice(&checksum.to_be_bytes());
    let mut arp = [&[0xff; 6][..], &[2, 0, 0, 0, 8, 8], &[8, 6]].concat();
    arp.extend([0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend([2, 0, 0, 0, 8, 8, 10, 0, 3, 7, 0, 0, 0, 0, 0, 0, 10, 0, 3, 1]);
    arp.resize(60, 0);
    for frame in [&uplink(1), &high, &arp] {
        world.arrive(frame);
    }
    world.step();
    let classes: Vec<_> = world
        .take_exceptions()
        .iter()
        .map(|(header, _)| (header.class, header.reason))
        .collect();
    let expected = [
        (Class::Urgent, Reason::NotUserPacket),
        (Class::Normal, Reason::NoFlow),
        (Class::High, Reason::NoFlow),
    ];
    assert_eq!(classes, expected);
    assert_eq!(world.node.stats().exceptions, [1, 1, 1]);
}

#[test]
fn packets_that_find_no_room_towards_the_host_are_counted() {
    let mut world = World::with(None, |config| config.host_mtu = 200);
    world.give_all();
    let tagged: Vec<u8> = [&uplink(1)[..], &[0; 100]].concat();
    world.arrive(&tagged);
    world.step();
    assert!(world.take_exceptions().is_empty());
    assert_eq!(world.node.stats().too_long, 1);
    // The host takes nothing: its queue has room for 256 frames.
    for _ in 0..6 {
        for _ in 0..64 {
            world.arrive(&uplink(1));
        }
        world.node.poll(world.now);
    }
    let stats = *world.node.stats();
    let normal = Class::Normal as usize;
    assert_eq!(stats.exceptions[normal] + stats.lost[normal], 6 * 64);
    assert!(stats.lost[normal] >= 128, "{stats:?}");
}

#[test]
fn a_marker_without_room_is_sent_later_with_the_same_number() {
    let mut world = World::new();
    world.holds_markers = true;
    while world.wires.from(HOST).push(MemBuf::new(&[0; 60])).is_ok() {}
    world.give_back(1);
    world.node.poll(world.now);
    assert_eq!(world.node.stats().markers, 0);
    while world.wires.from(HOST).pop().is_some() {}
    world.step();
    assert_eq!((world.markers.clone(), world.node.stats().markers), (vec![1], 1));
}

#[test]
fn frames_of_others_are_ignored() {
    let mut world = World::with(Some(100), |_| {});
    world.give_all();
    let said = world.through(0, &uplink(1), flow(1));
    let stranger = MacAddr([2, 0, 0, 0, 6, 6]);
    for (source, vlan) in [(HOST_MAC, None), (HOST_MAC, Some(101)), (stranger, Some(100))] {
        let frame = world.frame_of(source, vlan, &said);
        world.deliver(&frame);
    }
    let mut other = world.frame_of(HOST_MAC, Some(100), &said);
    other[17] = 0xb7;
    world.deliver(&other);
    let before = world.node.stats().ignored;
    world.step();
    assert_eq!(world.node.stats().ignored - before, 4);
    assert!(world.sent().is_empty());
    world.say(&said);
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
}

#[test]
fn the_host_sends_by_ports_of_the_network_alone() {
    let mut world = World::new();
    let frame = uplink(3);
    world.send(CORE, &frame);
    world.send(HOST, &frame);
    world.send(PortId(9), &frame);
    world.step();
    world.step();
    assert_eq!(world.sent(), [frame]);
    assert_eq!((world.node.stats().sent, world.node.stats().malformed), (1, 2));
}

#[test]
fn without_contact_nothing_passes_and_a_new_one_begins_with_nothing() {
    let mut world = World::new();
    world.give(Subject::Session(SESSION), Object::Flow(flow(1)));
    let old = world.through(0, &uplink(1), flow(1));
    world.is_cut = true;
    world.steps(Duration::from_millis(60));
    assert!(!world.node.is_served());
    world.arrive(&uplink(1));
    world.step();
    assert!(world.sent().is_empty());
    assert!(world.node.stats().lost.iter().sum::<u64>() >= 1);
    world.is_cut = false;
    world.events.clear();
    world.until(|world| world.host.is_ready());
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, Event::BackendReset { .. }))
    );
    world.give_network();
    for object in session_objects(Bounds::NONE) {
        world.give(Subject::Session(SESSION), object);
    }
    world.say(&old);
    world.step();
    assert_eq!(world.node.stats().forged, 1, "of another contact");
    world.arrive(&uplink(1));
    world.step();
    assert!(world.sent().is_empty());
    world.give_back(1);
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
}

#[test]
fn a_host_that_restarts_finds_nothing() {
    let mut world = World::new();
    world.give(Subject::Session(SESSION), Object::Flow(flow(1)));
    world.restart_host();
    world.until(|world| world.host.is_ready());
    world.give_all();
    world.arrive(&uplink(1));
    world.step();
    assert!(world.sent().is_empty());
    assert_eq!(world.take_exceptions().len(), 1);
    world.give_back(1);
    world.step();
    assert_eq!(world.sent(), [as_sent(1)]);
}

#[test]
fn routes_of_the_host_lead_to_it() {
    let mut world = World::new();
    world.give(Subject::Session(SESSION), Object::Flow(flow(1)));
    let mut lead = |target: Option<RouteTarget>| {
        match target {
            Some(target) => world.give(Subject::Node, route(target)),
            None => {
                let id = route(RouteTarget::Host).id();
                assert!(world.ask(Subject::Node, FlowOp::Remove(id)).is_ok());
            }
        }
        assert!(world.ask(Subject::Node, FlowOp::Fence).is_ok());
        world.arrive(&uplink(1));
        world.step();
        let reasons: Vec<_> = world
            .take_exceptions()
            .iter()
            .map(|(header, _)| header.reason)
            .collect();
        (world.sent().len(), reasons)
    };
    let (n6, router) = (InstanceId(2), AdjacencyId(5));
    let trapped = (0, vec![Reason::Adjacency]);
    assert_eq!(lead(Some(RouteTarget::Host)), trapped);
    assert_eq!(lead(Some(RouteTarget::Router(n6, Some(router)))), (1, vec![]));
    assert_eq!(lead(None), trapped);
    assert_eq!(lead(Some(RouteTarget::Router(n6, None))), trapped);
    assert_eq!(lead(Some(RouteTarget::Link(n6))), trapped, "no such neighbour");
    let queried = world.ask(Subject::Session(SESSION), FlowOp::Query(ObjectId::Counter(0)));
    assert_eq!(queried, Ok(Outcome::Counts(vec![(0, counted(1))])));
}

#[test]
fn downlink_packets_leave_by_the_path_that_the_host_says() {
    let mut world = World::new();
    let session = Subject::Session(SESSION);
    let (path, gnb) = (AdjacencyId(9), Ipv4Addr::new(10, 0, 3, 7));
    let tunnel = Forward {
        kind: ForwardKind::Tunnel,
        egress: InstanceId(0),
        adjacency: path,
        template: Some(Template::ipv4(77, N3_ADDRESS.octets(), gnb.octets())),
        ..Forward::DROP
    };
    let forward = Object::Forward {
        slot: 1,
        forward: tunnel,
    };
    world.give(session, forward);
    let downlink = Flow {
        key: AnyKey::V4(FlowKey4 {
            scope: Scope::plain(VrfId(0)),
            destination: UE.octets(),
            fields: KeyFields::ADDRESS,
            ..FlowKey4::default()
        }),
        flags: FlowFlags::DOWNLINK,
        forward: 1,
        ..flow(1)
    };
    world.give(session, Object::Flow(downlink));
    let packet = UserPacket::udp(REMOTE, UE, 53, 1).bytes();
    let frame = [&mac(CORE).0[..], &ROUTER.0, &[8, 0], &packet].concat();
    let mut pass = |station: Option<MacAddr>| {
        let adjacency = Adjacency {
            instance: InstanceId(0),
            address: None,
            mac: station.map(|station| station.0),
        };
        world.give(Subject::Node, Object::Adjacency { id: path, adjacency });
        let _ = world.wires.to(WorkerId(0), CORE).push(MemBuf::new(&frame));
        world.step();
        let reasons: Vec<_> = world
            .take_exceptions()
            .iter()
            .map(|(header, _)| header.reason)
            .collect();
        let sent = world.wires.from(ACCESS).pop();
        (sent.map(|frame| frame.bytes().to_vec()), reasons)
    };
    assert_eq!(pass(None), (None, vec![Reason::Adjacency]));
    for station in [MacAddr([2, 0, 0, 0, 8, 8]), MacAddr([2, 0, 0, 0, 8, 9])] {
        let (sent, reasons) = pass(Some(station));
        assert!(reasons.is_empty());
        let sent = sent.expect("it leaves");
        assert_eq!((&sent[..6], &sent[6..12]), (&station.0[..], &mac(ACCESS).0[..]));
        assert_eq!(
            (&sent[26..30], &sent[30..34]),
            (&N3_ADDRESS.octets()[..], &gnb.octets()[..])
        );
        assert_eq!(sent[42..50], [0x30, 255, 0, packet.len() as u8, 0, 0, 0, 77]);
        assert_eq!((sent[50 + 8], &sent[70..]), (63, &packet[20..]));
    }
    assert_eq!(pass(None), (None, vec![Reason::Adjacency]));
}

#[test]
fn instances_that_contradict_themselves_or_others_are_refused() {
    let mut world = World::new();
    let edits: [fn(&mut flow::contract::Instance); 5] = [
        |instance| instance.port = HOST,
        |instance| instance.port = PortId(3),
        |instance| instance.vlans = [None, Some(4)],
        |instance| {
            instance.uses = flow::contract::InstanceUses::TUNNELS | flow::contract::InstanceUses::PLAIN
        },
        |_| {},
    ];
    for (place, edit) in edits.into_iter().enumerate() {
        let [Object::Instance { mut instance, .. }, _] = instances() else {
            panic!("an instance");
        };
        edit(&mut instance);
        let id = InstanceId(if place == 4 { 9 } else { 0 });
        let object = Object::Instance { id, instance };
        assert_eq!(
            world.ask(Subject::Node, FlowOp::Put(object)),
            Err(Refusal::Unsupported),
            "edit {place}"
        );
    }
}

#[test]
fn watermarks_and_limits_are_reported_once() {
    let mut world = World::with(None, |_| {});
    world.until(|world| world.host.is_ready());
    world.give_network();
    let octets = |packets| counted(packets).ul_octets;
    let bounds = Bounds {
        watermarks: Volumes {
            total: Some(octets(2)),
            ..Volumes::NONE
        },
        limit: Some(CounterLimit {
            octets: Volumes {
                uplink: Some(octets(3)),
                ..Volumes::NONE
            },
            action: LimitAction::Trap,
        }),
    };
    for object in session_objects(bounds) {
        world.give(Subject::Session(SESSION), object);
    }
    world.give(Subject::Session(SESSION), Object::Flow(flow(1)));
    world.events.clear();
    for _ in 0..6 {
        world.arrive(&uplink(1));
        world.steps(Duration::from_micros(500));
    }
    assert_eq!(world.sent().len(), 3);
    let reasons: Vec<_> = world
        .take_exceptions()
        .iter()
        .map(|(header, _)| header.reason)
        .collect();
    assert_eq!(reasons, [Reason::Limit; 3]);
    let (session, counter) = (SESSION, 0);
    world
        .events
        .retain(|event| !matches!(event, Event::Counts { .. }));
    assert_eq!(
        world.events,
        [
            Event::Watermark { session, counter },
            Event::Limit {
                session,
                counter,
                direction: Direction::Uplink
            }
        ]
    );
}

/// What waits at the host, in its order.
enum AtHost {
    Packet(Vec<u8>),
    Marker(u64),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_host_does_when_each_flow_keeps_its_order(
        steps in prop::collection::vec((1..4_u16, 0..4_usize, 0..4_usize), 1..150),
    ) {
        let mut world = World::new();
        world.holds_markers = true;
        let mut at_host = VecDeque::new();
        let (mut arrived, mut sent) = ([0_u32; 4], [const { Vec::<u32>::new() }; 4]);
        let until_all_is_done = std::iter::repeat_n((1, 0, 4), 400);
        for (port, arrivals, handled) in steps.into_iter().chain(until_all_is_done) {
            for _ in 0..arrivals {
                arrived[usize::from(port)] += 1;
                world.arrive(&uplink_numbered(port, arrived[usize::from(port)]));
            }
            for item in at_host.drain(..handled.min(at_host.len())) {
                match item {
                    AtHost::Packet(packet) => {
                        let said = world.through(0, &packet, flow(u16::from(packet[71])));
                        world.say(&said);
                    }
                    AtHost::Marker(number) => world.echo(number),
                }
            }
            world.step();
            at_host.extend(world.take_exceptions().into_iter().map(|(_, packet)| AtHost::Packet(packet)));
            at_host.extend(world.markers.drain(..).map(AtHost::Marker));
            for frame in world.sent() {
                let number = frame.last_chunk().expect("it ends with a number");
                sent[usize::from(frame[35])].push(u32::from_be_bytes(*number));
            }
        }
        for (sent, arrived) in sent.iter().zip(arrived) {
            prop_assert_eq!(sent, &(1..=arrived).collect::<Vec<_>>());
        }
        prop_assert_eq!(world.node.stats().too_many_hops, 0);
    }

    #[test]
    fn octets_of_the_hosts_port_do_no_harm(
        frames in prop::collection::vec(
            (0..4_usize, prop::collection::vec(any::<u8>(), 0..200), any::<(u8, u8)>()),
            1..40,
        ),
    ) {
        let mut world = World::answering(|_| {});
        let genuine = world.through(0, &uplink(1), flow(1));
        for (kind, octets, (place, value)) in frames {
            let frame = match kind {
                0 => octets,
                1 => world.frame_of(HOST_MAC, None, &octets),
                2 => {
                    // A type that there is.
                    let said = [&[1, 0x81 + value % 4, 3, 0][..], &octets].concat();
                    world.frame_of(HOST_MAC, None, &said)
                }
                _ => {
                    let mut said = genuine.clone();
                    let at = usize::from(place) % said.len();
                    // One octet, of header, flow or code: not of the frame.
                    said[at.min(60)] ^= value | 1;
                    world.frame_of(HOST_MAC, None, &said)
                }
            };
            let _ = world.wires.to(WorkerId(0), HOST).push(MemBuf::new(&frame));
            world.step();
        }
        prop_assert_eq!(world.node.stats().through, 0);
        world.say(&genuine);
        world.step();
        prop_assert_eq!(world.node.stats().through, 1);
        prop_assert_eq!(world.sent().pop(), Some(as_sent(1)));
    }
}
