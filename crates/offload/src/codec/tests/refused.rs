//! What is refused, by name, value and bound: octets with one field that is out of its bound, and values without
//! octets.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use flow::contract::*;
use flow::meter::{MeterSpec, Rate};
use flow::*;

use crate::codec::{Bound, CodecError, Message, decode, encode};

fn request(object: Object) -> Message {
    Message::Request(Request {
        id: OpId(1),
        epoch: Epoch(2),
        subject: Subject::Session(SessionIndex(3)),
        op: FlowOp::Put(object),
    })
}

fn octets(message: &Message) -> Vec<u8> {
    let mut octets = Vec::new();
    encode(message, &mut octets).unwrap();
    octets
}

/// What is said of the message with this octet in this place.
fn with(message: &Message, at: usize, octet: u8) -> String {
    let mut octets = octets(message);
    octets[at] = octet;
    decode(&octets).unwrap_err().to_string()
}

fn key() -> FlowKey4 {
    FlowKey4 {
        scope: Scope::tunnel(LocalId(1)),
        teid: 7,
        fields: KeyFields::ADDRESS | KeyFields::QFI,
        source: [10, 45, 0, 1],
        qfi: 9,
        ..FlowKey4::default()
    }
}

fn flow(key: FlowKey4) -> Flow {
    Flow {
        key: AnyKey::V4(key),
        qers: 1,
        urrs: 1,
        idle: 10,
        flags: FlowFlags::NONE,
        forward: 0,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 0,
    }
}

fn instance() -> Instance {
    Instance {
        port: PortId(1),
        vlans: [None, None],
        tpid: 0x8100,
        vrf: VrfId(0),
        mac: [2, 0, 0, 0, 0, 1],
        mtu: 1500,
        ipv4: None,
        ipv6: None,
        uses: InstanceUses::PLAIN,
        too_long: TooLong::Trap,
        mss: Mss::Off,
        marks: Vec::new(),
    }
}

fn instance_object(instance: Instance) -> Message {
    request(Object::Instance {
        id: InstanceId(1),
        instance: Box::new(instance),
    })
}

#[test]
fn a_header_says_what_it_can_be() {
    let fence = Message::Request(Request {
        id: OpId(1),
        epoch: Epoch(2),
        subject: Subject::Node,
        op: FlowOp::Fence,
    });
    assert_eq!(with(&fence, 0, 2), "version is 2, not 1");
    assert!(with(&fence, 1, 0x16).starts_with("message type is 22, not one of [16, 17,"));
    assert_eq!(with(&fence, 2, 1), "object kind is 1, not 0");
    assert_eq!(with(&fence, 3, 3), "request flags is 3, not within the bits 0x1");
    assert_eq!(with(&fence, 19, 1), "session is 1, not 0");
    assert_eq!(decode(&[]), Err(CodecError::Short { field: "version" }));
    let most = crate::codec::MAX_MESSAGE;
    let octets = most + 1;
    assert_eq!(
        decode(&vec![1; octets]),
        Err(CodecError::TooLong { octets, most })
    );
}

#[test]
fn a_key_has_nothing_of_what_does_not_take_part() {
    let message = request(Object::Flow(flow(key())));
    assert_eq!(
        with(&message, 20, 0x15),
        "key fields is 21, not within the bits 0x2f"
    );
    assert_eq!(with(&message, 21, 6), "key kind is 6, not within the bits 0x3");
    // As plain IP it has no TEID.
    assert_eq!(with(&message, 21, 0), "TEID is 7, not 0");
    assert_eq!(with(&message, 32, 6), "protocol is 6, not 0");
    assert_eq!(with(&message, 33, 1), "TOS is 1, not 0");
    assert_eq!(with(&message, 34, 64), "QFI is 64, not in 0..=63 or 255");
    assert_eq!(with(&message, 35, 1), "reserved is 1, not 0");
    let whole = key();
    for other in [
        FlowKey4 { tos: 1, ..whole },
        FlowKey4 { protocol: 6, ..whole },
        FlowKey4 {
            ports: [0, 1],
            ..whole
        },
        FlowKey4 {
            destination: [0, 0, 0, 1],
            ..whole
        },
        FlowKey4 {
            fields: KeyFields::QFI,
            ..whole
        },
        FlowKey4 {
            fields: KeyFields::ADDRESS,
            ..whole
        },
        FlowKey4 {
            scope: Scope::plain(VrfId(1)),
            ..whole
        },
        FlowKey4 {
            fields: KeyFields::WHOLE,
            ..whole
        },
        FlowKey4 { qfi: 64, ..whole },
    ] {
        let fault = encode(&request(Object::Flow(flow(other))), &mut Vec::new());
        assert!(
            matches!(fault, Err(CodecError::Value { .. })),
            "{other:?}: {fault:?}"
        );
    }
}

#[test]
fn a_key_of_ipv6_has_a_prefix_and_twenty_bits_of_flow_label() {
    let six = FlowKey6 {
        fields: KeyFields::ADDRESS,
        destination: [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 9],
        ..FlowKey6::default()
    };
    for (other, field) in [
        (six, "address behind the prefix"),
        (
            FlowKey6 {
                flow_label: 1,
                ..FlowKey6::default()
            },
            "flow label",
        ),
        (
            FlowKey6 {
                fields: KeyFields::FLOW_LABEL,
                flow_label: 1 << 20,
                ..FlowKey6::default()
            },
            "flow label",
        ),
        (
            FlowKey6 {
                reserved: 1,
                ..FlowKey6::default()
            },
            "key's reserved",
        ),
    ] {
        let message = Message::Event(Event::Miss {
            key: AnyKey::V6(other),
        });
        let fault = encode(&message, &mut Vec::new()).unwrap_err();
        assert!(fault.to_string().starts_with(field), "{fault}");
    }
}

#[test]
fn a_flow_names_slots_that_there_can_be() {
    let plain = flow(key());
    let message = request(Object::Flow(plain));
    assert_eq!(
        with(&message, 44, 0x80),
        "flow flags is 128, not within the bits 0x7f"
    );
    assert_eq!(with(&message, 45, 250), "forward slot is 250, not in 0..=249");
    assert_eq!(with(&message, 46, 64), "marking is 64, not in 0..=63 or 255");
    assert_eq!(with(&message, 47, 8), "flow parts is 8, not within the bits 0x7");
    let high = octets(&request(Object::Flow(Flow {
        qers: 1 << 16,
        ..plain
    })));
    let mut none = high.clone();
    assert_eq!(none[59], 1);
    none[59] = 0;
    assert_eq!(
        decode(&none).unwrap_err().to_string(),
        "flow parts is 4, not 0",
        "higher slots are there, and none of them is set"
    );
    let with_content = request(Object::Flow(Flow {
        content: ContentId(1),
        ..plain
    }));
    assert!(with(&with_content, 55, 0).starts_with("content is 0, not in 1"));
    for other in [
        Flow {
            forward: 250,
            ..plain
        },
        Flow {
            marking: Some(64),
            ..plain
        },
        Flow {
            marking: Some(255),
            ..plain
        },
    ] {
        encode(&request(Object::Flow(other)), &mut Vec::new()).unwrap_err();
    }
}

#[test]
fn a_forward_has_a_tunnel_if_it_is_one() {
    let drop = Object::Forward {
        slot: 1,
        forward: Forward::DROP,
    };
    let message = request(drop);
    assert_eq!(with(&message, 20, 250), "forward slot is 250, not in 0..=249");
    assert_eq!(with(&message, 21, 7), "forward kind is 7, not in 0..=6");
    assert_eq!(with(&message, 21, 2), "outer header is 0, not one of [4, 6]");
    assert_eq!(
        with(&message, 22, 0x40),
        "forward flags is 64, not within the bits 0xbf"
    );
    assert_eq!(with(&message, 23, 4), "outer header is 4, not 0");
    assert_eq!(with(&message, 31, 1), "mirror is 1, not 0");
    assert_eq!(with(&message, 30, 4), "mirror is 1024, not in 0..=1023 or 65535");
    assert_eq!(with(&message, 33, 64), "DSCP is 64, not in 0..=63 or 255");
    let template = Some(Template::ipv4(1, [0; 4], [0; 4]));
    for forward in [
        Forward {
            template,
            ..Forward::DROP
        },
        Forward {
            kind: ForwardKind::Tunnel,
            ..Forward::DROP
        },
        Forward {
            dscp: Some(64),
            ..Forward::DROP
        },
        Forward {
            dscp: Some(255),
            ..Forward::DROP
        },
        Forward {
            flags: ForwardFlags::MIRROR,
            ..Forward::DROP
        },
        Forward {
            mirror: Some(PortId(1024)),
            ..Forward::DROP
        },
    ] {
        encode(&request(Object::Forward { slot: 1, forward }), &mut Vec::new()).unwrap_err();
    }
}

#[test]
fn a_qer_marks_with_what_it_has() {
    let qer = |mark| {
        request(Object::Qer {
            slot: 1,
            mark,
            closed: [true, false],
            metered: [false, true],
        })
    };
    let message = qer(Mark::NONE);
    assert_eq!(with(&message, 20, 64), "QER slot is 64, not in 0..=63");
    assert_eq!(
        with(&message, 21, 16),
        "gates and meters is 16, not within the bits 0xf"
    );
    assert_eq!(
        with(&message, 23, 1),
        "mark is 1, not within the bits 0x0",
        "a QFI that is not there"
    );
    assert_eq!(
        with(&message, 22, 1),
        "mark is 256, not within the bits 0x0",
        "a PPI that is not there"
    );
    assert_eq!(with(&message, 22, 0x20), "mark is 8192, not within the bits 0x0");
    let service = with(&qer(Mark::with_sci_only(1)), 23, 0x80);
    assert_eq!(
        service, "mark is 4224, not within the bits 0x1000",
        "an RQI beside a service class"
    );
    encode(&qer(Mark::from_bits(1)), &mut Vec::new()).unwrap_err();
}

#[test]
fn a_meter_has_a_rate() {
    let meter = |spec| {
        request(Object::Meter {
            qer: 1,
            direction: Direction::Downlink,
            spec,
            state: None,
        })
    };
    let rate = Rate::from_kbit(1);
    let message = meter(MeterSpec::Single { rate, burst: 1 });
    assert_eq!(with(&message, 21, 2), "direction is 2, not in 0..=1");
    assert_eq!(with(&message, 22, 2), "meter state is 2, not in 0..=1");
    assert_eq!(with(&message, 24, 5), "meter kind is 5, not in 0..=4");
    assert_eq!(with(&message, 25, 1), "meter flags is 1, not within the bits 0x0");
    assert_eq!(
        with(&message, 28, 1),
        "rate is 72057594037927937, not in 0..=1099511627775 or 18446744073709551615"
    );
    let per = meter::PacketsPer {
        packets: 1,
        unit: meter::TimeUnit::Week,
    };
    let rate = meter::PacketRate {
        base: per,
        additional: None,
    };
    let packets = meter(MeterSpec::Packets { rate, renews: true });
    assert_eq!(with(&packets, 30, 5), "unit of time is 5, not in 0..=4");
    assert_eq!(with(&packets, 33, 1), "packets is 1, not 0");
    assert_eq!(with(&packets, 34, 1), "unit of time is 1, not 0");
}

#[test]
fn a_counter_has_bounds() {
    let kind = CounterKind::default();
    let bounds = Bounds::NONE;
    let message = request(Object::Counter {
        slot: 1,
        kind,
        bounds,
    });
    assert_eq!(with(&message, 20, 64), "counter slot is 64, not in 0..=63");
    assert_eq!(
        with(&message, 21, 16),
        "counter flags is 16, not within the bits 0xf"
    );
    assert_eq!(with(&message, 22, 1), "counter slot is 1, not 0");
    assert_eq!(with(&message, 23, 1), "limit action is 1, not 0");
    assert_eq!(with(&message, 25, 1), "times is 1, not 0");
    assert_eq!(with(&message, 26, 8), "volumes is 8, not within the bits 0x7");
    let weight = Some(CounterWeight { of: 64, times: 1 });
    let kind = CounterKind { weight, ..kind };
    encode(
        &request(Object::Counter {
            slot: 1,
            kind,
            bounds,
        }),
        &mut Vec::new(),
    )
    .unwrap_err();
}

#[test]
fn an_instance_has_a_port_and_tags_from_outside_in() {
    let message = instance_object(instance());
    assert_eq!(with(&message, 22, 4), "port is 1025, not in 0..=1023");
    assert_eq!(with(&message, 24, 0x10), "VLAN is 4096, not in 0..=4094");
    assert_eq!(
        with(&message, 27, 1),
        "VLAN is 1, not 0",
        "an inner tag without an outer one"
    );
    assert_eq!(
        with(&message, 28, 0x91),
        "TPID is 37120, not one of [33024, 34984]"
    );
    assert_eq!(
        with(&message, 40, 8),
        "instance uses is 8, not within the bits 0x7"
    );
    assert_eq!(with(&message, 41, 3), "too long is 3, not in 0..=2");
    assert_eq!(
        with(&message, 42, 8),
        "parts of the instance is 8, not within the bits 0x7"
    );
    assert_eq!(with(&message, 43, 65), "marks is 65, not in 0..=64");
    let clamps = instance_object(Instance {
        mss: Mss::AtMost(1_400),
        ..instance()
    });
    assert_eq!(with(&clamps, 46, 1), "reserved is 1, not 0");
    let mark = QfiMark {
        qfi: 1,
        green: 1,
        yellow: 2,
        pcp: 3,
    };
    let marks = vec![mark, QfiMark { qfi: 2, ..mark }];
    let marked = instance_object(Instance {
        marks: marks.clone(),
        ..instance()
    });
    assert_eq!(with(&marked, 48, 1), "QFI 1 is there twice");
    assert_eq!(with(&marked, 44, 64), "QFI is 64, not in 0..=63");
    assert_eq!(with(&marked, 45, 64), "DSCP is 64, not in 0..=63");
    assert_eq!(with(&marked, 47, 8), "PCP is 8, not in 0..=7");
    let own = OwnAddress {
        address: Ipv4Addr::LOCALHOST,
        length: 33,
        local: LocalId(1),
    };
    for other in [
        Instance {
            vlans: [None, Some(1)],
            ..instance()
        },
        Instance {
            vlans: [Some(0), None],
            ..instance()
        },
        Instance {
            vlans: [Some(4095), None],
            ..instance()
        },
        Instance {
            mss: Mss::AtMost(0),
            ..instance()
        },
        Instance {
            ipv4: Some(own),
            ..instance()
        },
        Instance {
            marks: vec![mark; 2],
            ..instance()
        },
        Instance {
            marks: vec![mark; 300],
            ..instance()
        },
    ] {
        encode(&instance_object(other), &mut Vec::new()).unwrap_err();
    }
}

#[test]
fn a_route_has_no_host_bits() {
    let route = |prefix, target| {
        let prefix = RoutePrefix {
            vrf: VrfId(0),
            prefix,
            length: 24,
        };
        request(Object::Route(Route { prefix, target }))
    };
    let prefix = IpAddr::from([10, 0, 1, 0]);
    let message = route(prefix, RouteTarget::Host);
    assert_eq!(with(&message, 22, 5), "address family is 5, not one of [4, 6]");
    assert_eq!(with(&message, 23, 33), "prefix length is 33, not in 0..=32");
    assert_eq!(with(&message, 27, 1), "prefix behind its length is 1, not 0");
    assert_eq!(with(&message, 28, 4), "route target is 4, not in 0..=3");
    assert_eq!(
        with(&message, 28, 2),
        "route flags is 0, not 1",
        "paths without the first one"
    );
    assert_eq!(with(&message, 31, 1), "instance is 1, not 0");
    assert_eq!(with(&message, 35, 1), "adjacency is 1, not 0");
    let with_host = route(IpAddr::from([10, 0, 1, 1]), RouteTarget::Host);
    encode(&with_host, &mut Vec::new()).unwrap_err();
    let path = Object::PathMtu(PathMtu {
        local: prefix,
        peer: IpAddr::from([0; 16]),
        mtu: 1400,
    });
    let fault = encode(&request(path), &mut Vec::new()).unwrap_err();
    assert_eq!(fault.to_string(), "peer's address family is 6, not 4");
    let adjacency = request(Object::Adjacency {
        id: AdjacencyId(1),
        adjacency: Adjacency {
            instance: InstanceId(1),
            address: None,
            mac: None,
        },
    });
    assert_eq!(
        with(&adjacency, 26, 1),
        "address family is 1, not one of [0, 4, 6]"
    );
    assert_eq!(with(&adjacency, 28, 1), "reserved is 1, not 0");
}

#[test]
fn a_reply_has_one_outcome() {
    let reply = |outcome| Message::Reply(Reply { id: OpId(1), outcome });
    assert_eq!(
        with(&reply(Err(Refusal::Full)), 2, 7),
        "refusal is 7, not in 0..=6"
    );
    assert_eq!(with(&reply(Ok(Outcome::Done)), 3, 1), "reserved is 1, not 0");
    let counts = reply(Ok(Outcome::Counts(vec![])));
    assert_eq!(with(&counts, 2, 32), "entries is 32, not in 0..=31");
    assert_eq!(
        with(&counts, 3, 1),
        "entries is 0, not in 1..=31",
        "a part of nothing"
    );
    assert_eq!(with(&counts, 3, 2), "more is 2, not in 0..=1");
    let part = Message::Part(Notice::Event(Event::BackendReset { epoch: Epoch(1) }));
    let fault = encode(&part, &mut Vec::new()).unwrap_err();
    let (field, value, bound) = ("reserved", 1, Bound::Range(0, 0));
    assert_eq!(fault, CodecError::Value { field, value, bound });
    let limit = Notice::Event(Event::Limit {
        session: SessionIndex(1),
        counter: 1,
        direction: Direction::Uplink,
    });
    encode(&Message::Part(limit), &mut Vec::new()).unwrap_err();
}

#[test]
fn a_backend_can_do_what_there_is() {
    let local = Capabilities {
        key_fields: KeyFields::TUPLE,
        ..Capabilities::local(1, 2, 3)
    };
    let message = Message::Capabilities(local);
    assert_eq!(
        with(&message, 2, 0x10),
        "key fields is 16, not within the bits 0x2f"
    );
    assert_eq!(
        with(&message, 3, 0x40),
        "capability flags is 64, not within the bits 0x3f"
    );
    assert_eq!(
        with(&message, 4, 0x40),
        "actions is 16639, not within the bits 0x3fff"
    );
    assert_eq!(
        with(&message, 6, 65),
        "counters or QERs of a flow is 65, not in 0..=64"
    );
    assert_eq!(with(&message, 35, 1), "loss is 1, not 0");
    assert_eq!(with(&message, 43, 1), "interval of counts is 1, not 0");
    let queues = QueueRoom {
        queues: 1,
        nodes: 1,
        packets: 1,
        octets: 1,
        managements: Managements::NONE,
    };
    let queues = Message::Capabilities(Capabilities {
        queues: Some(queues),
        ..local
    });
    assert_eq!(
        with(&queues, 62, 8),
        "queue managements is 8, not within the bits 0x7"
    );
    for every in [Duration::ZERO, Duration::from_secs(u64::MAX)] {
        let counts_every = Some(every);
        let message = Message::Capabilities(Capabilities {
            counts_every,
            ..local
        });
        encode(&message, &mut Vec::new()).unwrap_err();
    }
}

fn queue() -> Queue {
    Queue {
        marking: Some(1),
        shaper: None,
        class: 2,
        guaranteed: Rate::ZERO,
        maximum: Rate::UNLIMITED,
        burst_millis: 3,
    }
}

fn queues(queues: Vec<Queue>, tokens: Option<QueueTokens>) -> Message {
    let queues = Queues {
        node: SharedNodeId(1),
        shapers: Vec::new(),
        queues,
    };
    request(Object::Queues {
        direction: Direction::Uplink,
        queues: Box::new(queues),
        tokens: tokens.map(Box::new),
    })
}

#[test]
fn queues_name_what_there_is() {
    let message = queues(vec![queue()], None);
    assert_eq!(with(&message, 21, 9), "shapers is 9, not in 0..=8");
    assert_eq!(with(&message, 22, 0), "queues is 0, not in 1..=8");
    assert_eq!(with(&message, 23, 2), "queue flags is 2, not within the bits 0x1");
    assert_eq!(with(&message, 28, 64), "marking is 64, not in 0..=63 or 255");
    assert_eq!(with(&message, 29, 0), "shaper is 0, not 255");
    assert_eq!(with(&message, 30, 8), "queue class is 8, not in 0..=7");
    let tokens = QueueTokens {
        queues: vec![[0; 2]; 2],
        ..QueueTokens::default()
    };
    let of_none = Queue {
        marking: Some(255),
        ..queue()
    };
    for refused in [
        queues(vec![], None),
        queues(vec![queue(); 9], None),
        queues(vec![queue()], Some(tokens)),
        queues(vec![of_none], None),
        queues(
            vec![Queue {
                shaper: Some(0),
                ..queue()
            }],
            None,
        ),
    ] {
        encode(&refused, &mut Vec::new()).unwrap_err();
    }
}

#[test]
fn queue_classes_and_shared_nodes_have_bounds() {
    let curve = RedCurve {
        min: 1,
        max: 2,
        one_in: 3,
    };
    let class = QueueClass {
        priority: 1,
        weight: 1,
        octets: 1000,
        management: Management::Wred {
            green: curve,
            yellow: curve,
            weight_log2: 9,
        },
    };
    let message = request(Object::QueueClass { id: 1, class });
    assert_eq!(with(&message, 20, 8), "queue class is 8, not in 0..=7");
    assert_eq!(with(&message, 24, 8), "priority is 8, not in 0..=7");
    assert_eq!(with(&message, 25, 0), "weight is 0, not in 1..=255");
    assert_eq!(with(&message, 26, 4), "queue management is 4, not in 0..=3");
    assert_eq!(with(&message, 27, 13), "WRED weight is 13, not in 1..=12");
    assert_eq!(
        with(&message, 35, 2),
        "WRED thresholds that do not rise is 1, not 0"
    );
    assert_eq!(with(&message, 40, 0), "WRED one in is 0, not in 1..=255");
    let node = SharedNode {
        parent: None,
        rate: Rate::UNLIMITED,
        burst: 0,
        weight: 1,
        overhead: 0,
    };
    let message = request(Object::SharedNode {
        id: SharedNodeId(1),
        node,
    });
    assert_eq!(
        with(&message, 24, 2),
        "shared node flags is 2, not within the bits 0x1"
    );
    assert_eq!(with(&message, 25, 0), "weight is 0, not in 1..=255");
    assert_eq!(with(&message, 29, 1), "shared node is 1, not 0");
}
