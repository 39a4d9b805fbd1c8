//! The messages of the vectors in `docs/inband.md`. No two fields of one are alike by chance.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use flow::contract::*;
use flow::meter::{
    MeterSpec, MeterState, PacketRate, PacketState, PacketsPer, Rate, SharedId, TimeUnit, Window,
};
use flow::*;

use super::document;
use crate::codec::{HostCapabilities, Message, decode, encode};

const SESSION: Subject = Subject::Session(SessionIndex(0x0000_0105));

fn request(subject: Subject, op: FlowOp) -> Message {
    Message::Request(Request {
        id: OpId(0x0102),
        epoch: Epoch(3),
        subject,
        op,
    })
}

fn of_session(op: FlowOp) -> Message {
    request(SESSION, op)
}

fn of_node(op: FlowOp) -> Message {
    request(Subject::Node, op)
}

/// 10.45.0.1:40000 to 198.51.100.7:443, TCP, in tunnel 0x00c0ffee to the own address 2.
pub fn flow_ipv4() -> Flow {
    Flow {
        key: AnyKey::V4(FlowKey4 {
            scope: Scope::tunnel(LocalId(2)),
            teid: 0x00c0_ffee,
            source: [10, 45, 0, 1],
            destination: [198, 51, 100, 7],
            ports: [40_000, 443],
            protocol: 6,
            fields: KeyFields::TUPLE | KeyFields::QFI,
            tos: 0,
            qfi: 9,
        }),
        qers: 0b11,
        urrs: 0b101,
        idle: 112,
        flags: FlowFlags::REMOVES_OUTER,
        forward: 1,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 7,
    }
}

fn prefix_of_ue() -> [u8; 16] {
    Ipv6Addr::new(0x2001, 0xdb8, 0x45, 1, 0, 0, 0, 0).octets()
}

fn flow_prefix() -> Flow {
    Flow {
        key: AnyKey::V6(FlowKey6::address(Scope::plain(VrfId(1)), prefix_of_ue())),
        flags: FlowFlags::DOWNLINK,
        forward: 2,
        marking: Some(4),
        ..flow_ipv4()
    }
}

fn flow_nat() -> Flow {
    Flow {
        qers: 1 << 16 | 1,
        urrs: 1 << 32 | 2,
        flags: FlowFlags::REMOVES_OUTER | FlowFlags::NAT,
        nat: Some(Nat {
            source: [192, 0, 2, 1],
            destination: [0; 4],
            source_port: 1024,
            destination_port: 0,
            addresses_add: 0x1234,
            ports_add: 0x5678,
            changes: NatFlags::SOURCE | NatFlags::SOURCE_PORT,
        }),
        content: ContentId(77),
        ..flow_ipv4()
    }
}

fn key_ipv6() -> AnyKey {
    let mut source = prefix_of_ue();
    source[15] = 0xab;
    AnyKey::V6(FlowKey6 {
        scope: Scope::tunnel(LocalId(3)),
        teid: 0x0bad_cafe,
        source,
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 0x53).octets(),
        ports: [50_000, 53],
        protocol: 17,
        fields: KeyFields::TUPLE | KeyFields::QFI | KeyFields::TOS | KeyFields::FLOW_LABEL,
        tos: 0xb8,
        qfi: 255,
        flow_label: 0xabcde,
        reserved: 0,
    })
}

fn sessions_flows() -> Vec<(&'static str, Message)> {
    let flow = |flow| Object::Flow(flow);
    vec![
        ("fence-node", of_node(FlowOp::Fence)),
        (
            "fence-session",
            request(Subject::Session(SessionIndex(5)), FlowOp::Fence),
        ),
        (
            "install-flow-ipv4",
            of_session(FlowOp::Install(flow(flow_ipv4()))),
        ),
        ("put-flow-prefix", of_session(FlowOp::Put(flow(flow_prefix())))),
        ("install-flow-nat", of_session(FlowOp::Install(flow(flow_nat())))),
        (
            "remove-flow-ipv6",
            of_session(FlowOp::Remove(ObjectId::Flow(key_ipv6()))),
        ),
    ]
}

fn forwards() -> Vec<(&'static str, Message)> {
    let tunnel = Forward {
        kind: ForwardKind::Tunnel,
        flags: ForwardFlags::NEEDS_MARKING,
        egress: InstanceId(3),
        adjacency: AdjacencyId(42),
        template: Some(Template {
            tos: 0xb8,
            ..Template::ipv4(0xdead_0001, [192, 0, 2, 10], [192, 0, 2, 20])
        }),
        dscp: None,
        mirror: None,
    };
    let [own, peer] = [0x10, 0x20].map(|last| Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, last).octets());
    let over_ipv6 = Forward {
        adjacency: AdjacencyId::BY_DESTINATION,
        template: Some(Template::ipv6(0xdead_0002, own, peer)),
        mirror: Some(Forward::COPIES),
        ..tunnel
    };
    let plain = Forward {
        kind: ForwardKind::Plain,
        flags: ForwardFlags::NONE,
        egress: InstanceId(4),
        template: None,
        dscp: Some(46),
        mirror: Some(PortId(7)),
        ..tunnel
    };
    let object = |slot, forward| Object::Forward { slot, forward };
    vec![
        (
            "update-forward-tunnel-ipv4",
            of_session(FlowOp::Update(object(1, tunnel))),
        ),
        (
            "put-forward-tunnel-ipv6",
            of_session(FlowOp::Put(object(2, over_ipv6))),
        ),
        ("put-forward-plain", of_session(FlowOp::Put(object(249, plain)))),
        ("remove-forward", of_session(FlowOp::Remove(ObjectId::Forward(1)))),
    ]
}

fn qers() -> Vec<(&'static str, Message)> {
    let qer = |mark| Object::Qer {
        slot: 4,
        mark,
        closed: [false, true],
        metered: [true, false],
    };
    vec![
        (
            "put-qer",
            of_session(FlowOp::Put(qer(Mark::qfi_only(9).with_rqi(true).with_ppi(5)))),
        ),
        (
            "put-qer-service-class",
            of_session(FlowOp::Put(qer(Mark::with_sci_only(0xc3)))),
        ),
        ("remove-qer", of_session(FlowOp::Remove(ObjectId::Qer(4)))),
    ]
}

fn meter_state() -> MeterState {
    let window = |left, ends| Window {
        left,
        ends: Nanos(ends),
    };
    MeterState {
        tokens: [80_000_000, 160_000_000],
        at: Nanos(1_000_000_007),
        packets: PacketState {
            base: window(11, 60_000_000_000),
            additional: window(12, 61_000_000_000),
        },
    }
}

fn meters() -> Vec<(&'static str, Message)> {
    let meter = |spec, state| Object::Meter {
        qer: 4,
        direction: Direction::Downlink,
        spec,
        state,
    };
    let rate = Rate::from_kbit;
    let per = |packets, unit| PacketsPer { packets, unit };
    let single = MeterSpec::Single {
        rate: rate(50_000),
        burst: 312_500,
    };
    let srtcm = MeterSpec::SrTcm {
        cir: rate(1_000),
        cbs: 10_000,
        ebs: 20_000,
        aware: true,
    };
    let trtcm = MeterSpec::TrTcm {
        cir: rate(1_000),
        cbs: 10_000,
        pir: Rate::UNLIMITED,
        pbs: 30_000,
        aware: false,
    };
    let packets = MeterSpec::Packets {
        rate: PacketRate {
            base: per(100, TimeUnit::Hour),
            additional: Some(per(7, TimeUnit::Week)),
        },
        renews: true,
    };
    let shared = MeterSpec::Shared(SharedId(12));
    vec![
        (
            "install-meter-single",
            of_session(FlowOp::Install(meter(single, None))),
        ),
        (
            "install-meter-srtcm",
            of_session(FlowOp::Install(meter(srtcm, None))),
        ),
        (
            "install-meter-trtcm-state",
            of_session(FlowOp::Install(meter(trtcm, Some(meter_state())))),
        ),
        ("put-meter-packets", of_session(FlowOp::Put(meter(packets, None)))),
        ("put-meter-shared", of_session(FlowOp::Put(meter(shared, None)))),
        (
            "remove-meter",
            of_session(FlowOp::Remove(ObjectId::Meter(4, Direction::Uplink))),
        ),
    ]
}

fn counters() -> Vec<(&'static str, Message)> {
    let limited = Object::Counter {
        slot: 2,
        kind: CounterKind::default(),
        bounds: Bounds {
            watermarks: Volumes {
                total: Some(800_000),
                uplink: None,
                downlink: Some(700_000),
            },
            limit: Some(CounterLimit {
                octets: Volumes::of_total(1_000_000),
                action: LimitAction::Trap,
            }),
        },
    };
    let weighs = Object::Counter {
        slot: 63,
        kind: CounterKind {
            before_qos: true,
            events: false,
            weight: Some(CounterWeight { of: 2, times: 300 }),
        },
        bounds: Bounds::NONE,
    };
    vec![
        ("install-counter", of_session(FlowOp::Install(limited))),
        ("put-counter-weight", of_session(FlowOp::Put(weighs))),
        ("query-counter", of_session(FlowOp::Query(ObjectId::Counter(2)))),
        ("put-share", of_session(FlowOp::Put(Object::Share(SharedId(12))))),
        ("remove-share", of_session(FlowOp::Remove(ObjectId::Share))),
        ("remove-flows", of_session(FlowOp::Remove(ObjectId::Flows))),
        ("query-contents", of_session(FlowOp::Query(ObjectId::Contents))),
        ("remove-session", of_session(FlowOp::Remove(ObjectId::Session))),
        ("put-generation", of_session(FlowOp::Put(Object::Generation(7)))),
        (
            "remove-generation",
            of_session(FlowOp::Remove(ObjectId::Generation)),
        ),
    ]
}

fn instance() -> Instance {
    let mark = |qfi, green, yellow, pcp| QfiMark {
        qfi,
        green,
        yellow,
        pcp,
    };
    Instance {
        port: PortId(6),
        vlans: [Some(100), Some(200)],
        tpid: 0x88a8,
        vrf: VrfId(1),
        mac: [2, 0, 0, 0, 0, 0x16],
        mtu: 1500,
        ipv4: Some(OwnAddress {
            address: Ipv4Addr::new(192, 0, 2, 10),
            length: 24,
            local: LocalId(2),
        }),
        ipv6: Some(OwnAddress {
            address: Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0x10),
            length: 64,
            local: LocalId(3),
        }),
        uses: InstanceUses::TUNNELS,
        too_long: TooLong::FragmentOuter,
        mss: Mss::Off,
        marks: vec![mark(9, 46, 40, 5), mark(1, 10, 12, 1)],
    }
}

fn instances() -> Vec<(&'static str, Message)> {
    let untagged = Instance {
        vlans: [None; 2],
        tpid: 0x8100,
        ipv4: None,
        ipv6: None,
        uses: InstanceUses::PLAIN,
        too_long: TooLong::Trap,
        marks: Vec::new(),
        ..instance()
    };
    let clamps = |mss| Instance {
        mss,
        ..untagged.clone()
    };
    let object = |id, instance| Object::Instance {
        id: InstanceId(id),
        instance: Box::new(instance),
    };
    vec![
        (
            "install-instance",
            of_node(FlowOp::Install(object(3, instance()))),
        ),
        (
            "put-instance-untagged",
            of_node(FlowOp::Put(object(4, untagged.clone()))),
        ),
        (
            "put-instance-mss-auto",
            of_node(FlowOp::Put(object(4, clamps(Mss::Auto)))),
        ),
        (
            "put-instance-mss",
            of_node(FlowOp::Put(object(4, clamps(Mss::AtMost(1_360))))),
        ),
        (
            "remove-instance",
            of_node(FlowOp::Remove(ObjectId::Instance(InstanceId(3)))),
        ),
    ]
}

fn routes() -> Vec<(&'static str, Message)> {
    let prefix = |prefix, length| RoutePrefix {
        vrf: VrfId(1),
        prefix,
        length,
    };
    let four = prefix(IpAddr::from([10, 45, 0, 0]), 16);
    let six = prefix(IpAddr::from(prefix_of_ue()), 64);
    let route = |prefix, target| Object::Route(Route { prefix, target });
    let (instance, hop) = (InstanceId(3), AdjacencyId(42));
    vec![
        (
            "install-route-router",
            of_node(FlowOp::Install(route(
                four,
                RouteTarget::Router(instance, Some(hop)),
            ))),
        ),
        (
            "put-route-paths",
            of_node(FlowOp::Put(route(six, RouteTarget::Paths(instance, hop)))),
        ),
        (
            "put-route-link",
            of_node(FlowOp::Put(route(four, RouteTarget::Link(instance)))),
        ),
        (
            "put-route-host",
            of_node(FlowOp::Put(route(
                prefix(IpAddr::from([0; 4]), 0),
                RouteTarget::Host,
            ))),
        ),
        ("remove-route", of_node(FlowOp::Remove(ObjectId::Route(six)))),
    ]
}

fn neighbours() -> Vec<(&'static str, Message)> {
    let adjacency = |address, mac| Object::Adjacency {
        id: AdjacencyId(42),
        adjacency: Adjacency {
            instance: InstanceId(3),
            address,
            mac,
        },
    };
    let neighbour = adjacency(Some(IpAddr::from([192, 0, 2, 20])), Some([2, 0, 0, 0, 0, 0x20]));
    let [local, peer] = [10, 20].map(|last| IpAddr::from([192, 0, 2, last]));
    let path = PathMtu {
        local,
        peer,
        mtu: 1400,
    };
    let meter = Object::SharedMeter {
        id: SharedId(12),
        rates: [Rate::from_kbit(100_000), Rate::from_kbit(200_000)],
        bursts: [625_000, 1_250_000],
    };
    let chain = Object::SharedChain {
        id: SharedId(13),
        chain: [12, 14, 0, 0].map(SharedId),
    };
    vec![
        ("put-adjacency", of_node(FlowOp::Put(neighbour))),
        ("put-adjacency-path", of_node(FlowOp::Put(adjacency(None, None)))),
        (
            "remove-adjacency",
            of_node(FlowOp::Remove(ObjectId::Adjacency(AdjacencyId(42)))),
        ),
        ("put-path-mtu", of_node(FlowOp::Put(Object::PathMtu(path)))),
        (
            "remove-path-mtu",
            of_node(FlowOp::Remove(ObjectId::PathMtu(local, peer))),
        ),
        ("install-shared-meter", of_node(FlowOp::Install(meter))),
        (
            "query-shared-meter",
            of_node(FlowOp::Query(ObjectId::SharedMeter(SharedId(12)))),
        ),
        ("put-shared-chain", of_node(FlowOp::Put(chain))),
        (
            "remove-shared-chain",
            of_node(FlowOp::Remove(ObjectId::SharedChain(SharedId(13)))),
        ),
    ]
}

fn tokens() -> QueueTokens {
    QueueTokens {
        at: Nanos(1_000_000_007),
        shapers: vec![-80_000_000],
        queues: vec![[1, 2], [3, -4]],
    }
}

fn queues() -> Vec<(&'static str, Message)> {
    let shaper = Shaper {
        qer: 4,
        maximum: Rate::from_kbit(50_000),
        burst_millis: 20,
    };
    let shared = Queue {
        marking: Some(3),
        shaper: Some(0),
        class: 2,
        guaranteed: Rate::ZERO,
        maximum: Rate::UNLIMITED,
        burst_millis: 10,
    };
    let guaranteed = Queue {
        marking: None,
        shaper: None,
        class: 1,
        guaranteed: Rate::from_kbit(1_000),
        maximum: Rate::from_kbit(2_000),
        burst_millis: 30,
    };
    let object = |queues, tokens: Option<QueueTokens>| Object::Queues {
        direction: Direction::Downlink,
        queues: Box::new(Queues {
            node: SharedNodeId(5),
            shapers: vec![shaper],
            queues,
        }),
        tokens: tokens.map(Box::new),
    };
    vec![
        (
            "install-queues",
            of_session(FlowOp::Install(object(vec![shared], None))),
        ),
        (
            "put-queues-tokens",
            of_session(FlowOp::Put(object(vec![shared, guaranteed], Some(tokens())))),
        ),
        (
            "remove-queues",
            of_session(FlowOp::Remove(ObjectId::Queues(Direction::Downlink))),
        ),
    ]
}

fn queue_nodes() -> Vec<(&'static str, Message)> {
    let class = |management| Object::QueueClass {
        id: 2,
        class: QueueClass {
            priority: 3,
            weight: 4,
            octets: 200_000,
            management,
        },
    };
    let curve = |min, max, one_in| RedCurve { min, max, one_in };
    let wred = Management::Wred {
        green: curve(50_000, 150_000, 10),
        yellow: curve(25_000, 75_000, 20),
        weight_log2: 9,
    };
    let node = |parent, rate| Object::SharedNode {
        id: SharedNodeId(5),
        node: SharedNode {
            parent,
            rate,
            burst: 25_000,
            weight: 6,
            overhead: 38,
        },
    };
    vec![
        ("put-queue-class", of_node(FlowOp::Put(class(Management::CoDel)))),
        ("put-queue-class-wred", of_node(FlowOp::Put(class(wred)))),
        (
            "remove-queue-class",
            of_node(FlowOp::Remove(ObjectId::QueueClass(2))),
        ),
        (
            "put-shared-node-port",
            of_node(FlowOp::Put(node(None, Rate::UNLIMITED))),
        ),
        (
            "put-shared-node",
            of_node(FlowOp::Put(node(Some(SharedNodeId(1)), Rate::from_kbit(100_000)))),
        ),
        (
            "remove-shared-node",
            of_node(FlowOp::Remove(ObjectId::SharedNode(SharedNodeId(5)))),
        ),
    ]
}

fn count(first: u64) -> UrrCount {
    UrrCount {
        ul_packets: first,
        ul_octets: 100 * first,
        dl_packets: 2 * first,
        dl_octets: 3_000 * first,
        events: first + 1,
    }
}

fn replies() -> Vec<(&'static str, Message)> {
    let reply = |outcome| Reply {
        id: OpId(0x0102),
        outcome,
    };
    let counts = vec![(2, count(5)), (63, count(6))];
    let usage = ContentUsage {
        content: ContentId(77),
        count: count(9),
        first: Nanos(1_000_000_007),
        last: Nanos(2_000_000_011),
    };
    let more = Notice::Reply(reply(Ok(Outcome::Counts(vec![(1, count(7))]))));
    vec![
        ("reply-done", Message::Reply(reply(Ok(Outcome::Done)))),
        ("reply-counts", Message::Reply(reply(Ok(Outcome::Counts(counts))))),
        ("reply-counts-more", Message::Part(more)),
        (
            "reply-meter",
            Message::Reply(reply(Ok(Outcome::Meter(meter_state())))),
        ),
        (
            "reply-contents",
            Message::Reply(reply(Ok(Outcome::Contents(vec![usage])))),
        ),
        (
            "reply-demand",
            Message::Reply(reply(Ok(Outcome::Demand([123_456, 654_321])))),
        ),
        (
            "reply-tokens",
            Message::Reply(reply(Ok(Outcome::Tokens(tokens())))),
        ),
        ("reply-refused", Message::Reply(reply(Err(Refusal::Missing)))),
    ]
}

fn events() -> Vec<(&'static str, Message)> {
    let session = SessionIndex(0x0105);
    let aged = Event::Aged {
        session,
        key: flow_ipv4().key,
        counts: vec![(2, count(5))],
    };
    let limit = Event::Limit {
        session,
        counter: 2,
        direction: Direction::Downlink,
    };
    let counts = |slot| Event::Counts {
        session,
        counts: vec![(slot, count(8))],
    };
    let miss = Event::Miss { key: key_ipv6() };
    vec![
        ("event-aged", Message::Event(aged)),
        (
            "event-watermark",
            Message::Event(Event::Watermark { session, counter: 2 }),
        ),
        ("event-limit", Message::Event(limit)),
        ("event-counts", Message::Event(counts(2))),
        ("event-counts-more", Message::Part(Notice::Event(counts(1)))),
        ("event-miss", Message::Event(miss)),
        (
            "event-backend-reset",
            Message::Event(Event::BackendReset { epoch: Epoch(4) }),
        ),
        ("event-unreachable", Message::Event(Event::Unreachable)),
        ("event-links", Message::Event(Event::Links { down: 0b1001 })),
    ]
}

fn capabilities() -> Vec<(&'static str, Message)> {
    let card = Capabilities {
        key_fields: KeyFields::ADDRESS | KeyFields::TUPLE | KeyFields::QFI,
        actions: Actions::DECAPSULATE | Actions::ENCAPSULATE_V4 | Actions::MARK | Actions::METER,
        ipv4_flows: 16_000_000,
        ipv6_flows: 1_000_000,
        sessions: 500_000,
        counters_per_flow: 2,
        qers_per_flow: 3,
        shared_meters: 0,
        instances: 16,
        routes: 1_024,
        adjacencies: 4_096,
        byte_basis: ByteBasis::Frame,
        limits: false,
        fence: true,
        exactness: Exactness::Bounded { loss: 10_000 },
        counts_every: Some(Duration::from_millis(100)),
        queues: None,
    };
    let room = QueueRoom {
        queues: 131_072,
        nodes: 64,
        packets: 65_536,
        octets: 67_108_864,
        managements: Managements::CODEL | Managements::WRED,
    };
    let with_queues = Capabilities {
        queues: Some(room),
        ..card
    };
    vec![
        ("capabilities", Message::Capabilities(card)),
        ("capabilities-queues", Message::Capabilities(with_queues)),
        (
            "capabilities-local",
            Message::Capabilities(Capabilities::local(1_000, 2_000, 300)),
        ),
        (
            "capabilities-partial",
            Message::Capabilities(Capabilities::partial(256, 4_096, 16_384)),
        ),
        (
            "host-capabilities",
            Message::HostCapabilities(HostCapabilities::new(true)),
        ),
        (
            "host-capabilities-channels",
            Message::HostCapabilities(HostCapabilities::new(true).with_channels(4)),
        ),
        (
            "host-capabilities-partial",
            Message::HostCapabilities(
                HostCapabilities::new(true)
                    .with_links()
                    .with_channels(4)
                    .with_steered()
                    .in_partial_mode(),
            ),
        ),
    ]
}

#[test]
fn the_document_has_the_vectors() {
    let all = [
        sessions_flows(),
        forwards(),
        qers(),
        meters(),
        counters(),
        queues(),
        instances(),
        routes(),
        neighbours(),
        queue_nodes(),
        replies(),
        events(),
        capabilities(),
    ];
    let mut vectors = Vec::new();
    for (name, message) in all.into_iter().flatten() {
        let mut octets = Vec::new();
        encode(&message, &mut octets).unwrap();
        assert_eq!(decode(&octets), Ok(message), "{name}");
        vectors.push((name, octets));
    }
    document::check("Messages", &vectors);
}
