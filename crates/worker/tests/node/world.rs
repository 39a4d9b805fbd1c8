//! A node on wires of memory, and the host that drives it by hand, on one thread and simulated time.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::contract::{
    Adjacency, AnyKey, Backend, Event, Flow, FlowOp, Instance, InstanceUses, Mss, Notice, Object, Outcome,
    OwnAddress, Refusal, Request, Route, RoutePrefix, RouteTarget, Subject, TooLong,
};
use flow::{
    AdjacencyId, Bounds, ContentId, FlowFlags, FlowKey4, Forward, ForwardKind, InstanceId, KeyFields,
    LocalId, Nanos, OpId, PortId, Scope, Seed, SessionIndex, VrfId, WorkerId,
};
use offload::channel::{self, Channel, ChannelConfig, Key, Role};
use offload::codec::HostCapabilities;
use offload::exception::{
    self, Answer, AnswersHeader, AnswersWriter, Exception, FromAccelerator, Marker, Send, Steered, Through,
};
use offload::in_band::{InBand, host_greeting};
use packet::{MacAddr, VlanId};
use rules::testing::{UE, UserPacket, tunnelled};
use worker::accelerator::{EngineConfig, Node, NodeConfig};
use worker::mem::{MemBuf, MemIo, Wires};

pub const ACCESS: PortId = PortId(0);
pub const CORE: PortId = PortId(1);
pub const HOST: PortId = PortId(2);
pub const SESSION: SessionIndex = SessionIndex(5);
pub const TEID: u32 = 0x1001;
pub const N3_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);
pub const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
pub const ROUTER: MacAddr = MacAddr([2, 0, 0, 0, 9, 9]);
pub const HOST_MAC: MacAddr = MacAddr([2, 0, 0, 0, 7, 1]);
pub const NODE_MAC: MacAddr = MacAddr([2, 0, 0, 0, 7, 2]);
const STEP: Duration = Duration::from_micros(20);

pub fn mac(port: PortId) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port.0 as u8])
}

/// A frame for the node.
pub fn to(port: PortId, ether_type: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&mac(port).0[..], &[2, 0, 0, 0, 8, 8], &ether_type, packet].concat()
}

/// An uplink packet from this port of the UE.
pub fn user_packet(source_port: u16) -> Vec<u8> {
    UserPacket::udp(UE, REMOTE, source_port, 53).bytes()
}

/// The same in its tunnel, as N3 receives it.
pub fn uplink(source_port: u16) -> Vec<u8> {
    in_tunnel(&user_packet(source_port))
}

/// The same of a packet that ends with a number.
pub fn uplink_numbered(source_port: u16, number: u32) -> Vec<u8> {
    let packet = UserPacket {
        payload: [vec![0; 40], number.to_be_bytes().to_vec()].concat(),
        ..UserPacket::udp(UE, REMOTE, source_port, 53)
    };
    in_tunnel(&packet.bytes())
}

/// One to another host of the data network.
pub fn uplink_to(remote: Ipv4Addr) -> Vec<u8> {
    in_tunnel(&UserPacket::udp(UE, remote, 1, 53).bytes())
}

fn in_tunnel(user_packet: &[u8]) -> Vec<u8> {
    let packet = tunnelled(N3_ADDRESS, TEID, 255, None, &[], user_packet);
    [&mac(ACCESS).0[..], &[2, 0, 0, 0, 8, 8], &[8, 0], &packet].concat()
}

/// As it leaves by N6.
pub fn as_sent(source_port: u16) -> Vec<u8> {
    let mut packet = user_packet(source_port);
    packet[8] -= 1;
    packet[10..12].fill(0);
    let checksum = packet::checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    [&ROUTER.0[..], &mac(CORE).0, &[8, 0], &packet].concat()
}

/// The flow of packets from this port of the UE.
pub fn flow(source_port: u16) -> Flow {
    Flow {
        key: AnyKey::V4(FlowKey4 {
            scope: Scope::tunnel(LocalId(7)),
            teid: TEID,
            source: UE.octets(),
            destination: REMOTE.octets(),
            ports: [source_port, 53],
            protocol: 17,
            fields: KeyFields::TUPLE,
            ..FlowKey4::default()
        }),
        qers: 0,
        urrs: 1,
        idle: 1000,
        flags: FlowFlags::REMOVES_OUTER,
        forward: 0,
        marking: None,
        nat: None,
        content: ContentId::NONE,
        generation: 1,
    }
}

fn instance(port: PortId, address: Ipv4Addr, local: u16, uses: InstanceUses) -> Box<Instance> {
    Box::new(Instance {
        port,
        vlans: [None; 2],
        tpid: 0x8100,
        vrf: VrfId(0),
        mac: mac(port).0,
        mtu: 1500,
        ipv4: Some(OwnAddress {
            address,
            length: 24,
            local: LocalId(local),
        }),
        ipv6: None,
        uses,
        too_long: TooLong::FragmentInner,
        mss: Mss::Off,
        marks: Vec::new(),
    })
}

/// N3 and N6, whose own addresses have other numbers than their places say.
pub fn instances() -> [Object; 2] {
    let n6 = Ipv4Addr::new(10, 0, 6, 1);
    [
        Object::Instance {
            id: InstanceId(0),
            instance: instance(ACCESS, N3_ADDRESS, 7, InstanceUses::TUNNELS),
        },
        Object::Instance {
            id: InstanceId(2),
            instance: instance(CORE, n6, 3, InstanceUses::PLAIN),
        },
    ]
}

pub fn route(target: RouteTarget) -> Object {
    Object::Route(Route {
        prefix: RoutePrefix {
            vrf: VrfId(0),
            prefix: Ipv4Addr::UNSPECIFIED.into(),
            length: 0,
        },
        target,
    })
}

pub fn router(mac: Option<MacAddr>) -> Object {
    Object::Adjacency {
        id: AdjacencyId(5),
        adjacency: Adjacency {
            instance: InstanceId(2),
            address: Some(Ipv4Addr::new(10, 0, 6, 254).into()),
            mac: mac.map(|mac| mac.0),
        },
    }
}

pub fn session_objects(bounds: Bounds) -> [Object; 3] {
    let forward = Forward {
        kind: ForwardKind::Plain,
        egress: InstanceId(2),
        ..Forward::DROP
    };
    let kind = Default::default();
    [
        Object::Forward { slot: 0, forward },
        Object::Counter {
            slot: 0,
            kind,
            bounds,
        },
        Object::Generation(1),
    ]
}

fn random(mut state: u64) -> channel::Random {
    Box::new(move |octets| {
        for octet in octets {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *octet = state as u8;
        }
    })
}

fn channel_config(role: Role, vlan: Option<u16>, boot: u64) -> ChannelConfig {
    let own = if role == Role::Host { HOST_MAC } else { NODE_MAC };
    let key = Key::new((0..32).collect()).expect("32 octets");
    ChannelConfig {
        vlan: vlan.and_then(VlanId::new),
        ..ChannelConfig::new(role, 3, own, key, boot)
    }
}

pub struct World {
    pub wires: Wires,
    pub node: Node<MemIo>,
    pub host: InBand,
    pub now: Nanos,
    pub exceptions: Vec<(Exception, Vec<u8>)>,
    /// Those with a bucket, which come in between.
    pub steered: Vec<(Steered, Vec<u8>)>,
    /// Markers that came and were not echoed.
    pub markers: Vec<u64>,
    pub holds_markers: bool,
    pub events: Vec<Event>,
    pub is_cut: bool,
    /// Questions: their numbers, and the octets that they show.
    pub questions: Vec<(u32, Vec<u8>)>,
    answers: bool,
    vlan: Option<u16>,
    counter: u64,
    ops: u64,
    replies: HashMap<OpId, Result<Outcome, Refusal>>,
}

impl World {
    pub fn with(vlan: Option<u16>, configure: impl FnOnce(&mut NodeConfig)) -> Self {
        let (wires, mut ios) = Wires::new(1, 3, 256);
        let macs = (0..3).map(|port| mac(PortId(port))).collect();
        let engine = EngineConfig::new(Arc::default(), macs, HOST, Seed([1, 2]));
        let mut config = NodeConfig::new(engine, channel_config(Role::Accelerator, vlan, 77));
        config.engine.max_sessions = 64;
        config.engine.max_flows_v4 = 1024;
        config.engine.max_flows_v6 = 1024;
        config.counts_every = Duration::from_millis(1);
        configure(&mut config);
        let node = Node::new(config, ios.remove(0), random(9)).expect("a node");
        Self {
            wires,
            node,
            host: host(vlan, 1, false),
            now: Nanos::from_secs(1),
            exceptions: Vec::new(),
            steered: Vec::new(),
            markers: Vec::new(),
            holds_markers: false,
            events: Vec::new(),
            is_cut: false,
            questions: Vec::new(),
            answers: false,
            vlan,
            counter: 0,
            ops: 0,
            replies: HashMap::new(),
        }
    }

    /// In contact with a host that answers questions, with network and session.
    pub fn answering(configure: impl FnOnce(&mut NodeConfig)) -> Self {
        let mut world = Self::with(None, configure);
        world.answers = true;
        world.host = host(None, 1, true);
        world.give_all();
        world
    }

    /// In contact with a host that says this of itself, and has given instances.
    pub fn partial(capabilities: HostCapabilities, configure: impl FnOnce(&mut NodeConfig)) -> Self {
        let mut world = Self::with(None, configure);
        world.host = host_that(None, 1, host_greeting(capabilities));
        world.until(|world| world.host.is_ready());
        for object in instances() {
            world.give(Subject::Node, object);
        }
        assert_eq!(world.ask(Subject::Node, FlowOp::Fence), Ok(Outcome::Done));
        world
    }

    /// In contact, with network and session.
    pub fn new() -> Self {
        let mut world = Self::with(None, |_| {});
        world.give_all();
        world
    }

    pub fn give_all(&mut self) {
        self.until(|world| world.host.is_ready());
        self.give_network();
        for object in session_objects(Bounds::NONE) {
            self.give(Subject::Session(SESSION), object);
        }
    }

    pub fn give_network(&mut self) {
        for object in instances() {
            self.give(Subject::Node, object);
        }
        self.give(Subject::Node, router(Some(ROUTER)));
        let target = RouteTarget::Router(InstanceId(2), Some(AdjacencyId(5)));
        self.give(Subject::Node, route(target));
        assert_eq!(self.ask(Subject::Node, FlowOp::Fence), Ok(Outcome::Done));
    }

    pub fn give(&mut self, subject: Subject, object: Object) {
        let outcome = self.ask(subject, FlowOp::Put(object.clone()));
        assert!(outcome.is_ok(), "{object:?}: {outcome:?}");
    }

    pub fn ask(&mut self, subject: Subject, op: FlowOp) -> Result<Outcome, Refusal> {
        self.ops += 1;
        let id = OpId(self.ops);
        let epoch = self.host.epoch();
        self.host.submit(Request {
            id,
            epoch,
            subject,
            op,
        });
        self.until(|world| world.replies.contains_key(&id));
        self.replies.remove(&id).expect("it is there")
    }

    pub fn until(&mut self, is_so: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            if is_so(self) {
                return;
            }
            self.step();
        }
        panic!("it does not happen");
    }

    pub fn steps(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            self.step();
        }
    }

    /// Another process takes the host's place.
    pub fn restart_host(&mut self) {
        let boot = self.host.channel().config().boot + 1;
        self.host = host(self.vlan, boot, self.answers);
    }

    pub fn step(&mut self) {
        self.now = self.now + STEP;
        let mut frame = Vec::new();
        while self.host.channel_mut().poll_transmit(self.now, &mut frame) {
            self.deliver(&frame);
        }
        self.node.poll(self.now);
        while let Some(frame) = self.wires.from(HOST).pop() {
            if !self.is_cut {
                self.receive(frame.bytes());
            }
        }
        while let Some(notice) = self.host.poll(self.now) {
            match notice {
                Notice::Reply(reply) => drop(self.replies.insert(reply.id, reply.outcome)),
                Notice::Event(event) => self.events.push(event),
            }
        }
    }

    fn receive(&mut self, frame: &[u8]) {
        let tag = if self.vlan.is_some() { 4 } else { 0 };
        let ether_type = u16::from_be_bytes([frame[12 + tag], frame[13 + tag]]);
        if ether_type == channel::ETHER_TYPE {
            let _ = self.host.channel_mut().receive(frame, self.now);
            return;
        }
        assert_eq!(ether_type, exception::ETHER_TYPE);
        assert_eq!((&frame[..6], &frame[6..12]), (&HOST_MAC.0[..], &NODE_MAC.0[..]));
        match FromAccelerator::read(&frame[14 + tag..]).expect("a frame of the node") {
            FromAccelerator::Exception(header, packet) => self.exceptions.push((header, packet.to_vec())),
            FromAccelerator::Steered(steered, packet) => self.steered.push((steered, packet.to_vec())),
            FromAccelerator::Marker(marker) if self.holds_markers => self.markers.push(marker.number),
            FromAccelerator::Marker(marker) => self.echo(marker.number),
            FromAccelerator::Questions(questions) => {
                assert_eq!(questions.channel, 3);
                for question in questions {
                    let question = question.expect("a question");
                    let begin = if question.port == ACCESS { 14 + 36 } else { 14 };
                    assert_eq!(question.user_packet, begin);
                    self.questions.push((question.number, question.head.to_vec()));
                }
            }
        }
    }

    pub fn deliver(&mut self, frame: &[u8]) {
        if !self.is_cut {
            let _ = self.wires.to(WorkerId(0), HOST).push(MemBuf::new(frame));
        }
    }

    /// An exception frame of the host with this behind its EtherType.
    pub fn frame_of(&self, source: MacAddr, vlan: Option<u16>, behind: &[u8]) -> Vec<u8> {
        let mut frame = [&NODE_MAC.0[..], &source.0].concat();
        if let Some(vlan) = vlan {
            frame.extend([0x81, 0]);
            frame.extend(vlan.to_be_bytes());
        }
        frame.extend(exception::ETHER_TYPE.to_be_bytes());
        frame.extend(behind);
        frame
    }

    pub fn say(&mut self, behind: &[u8]) {
        let frame = self.frame_of(HOST_MAC, self.vlan, behind);
        self.deliver(&frame);
    }

    pub fn echo(&mut self, number: u64) {
        let mut octets = [0; Marker::LEN];
        Marker { channel: 3, number }
            .write_back(&mut octets)
            .expect("room");
        self.say(&octets);
    }

    pub fn send(&mut self, port: PortId, frame: &[u8]) {
        let header = Send {
            channel: 3,
            port,
            length: frame.len() as u16,
        };
        let mut octets = [0; Send::LEN];
        header.write(&mut octets).expect("room");
        self.say(&[&octets[..], frame].concat());
    }

    /// What gives an exception back with a flow of the session.
    pub fn through(&mut self, hops: u8, packet: &[u8], flow: Flow) -> Vec<u8> {
        self.counter += 1;
        let header = Through {
            channel: 3,
            hops,
            session: SESSION,
            counter: self.counter,
            port: ACCESS,
            length: packet.len() as u16,
            flow,
        };
        let mut octets = vec![0; Through::MAX_LEN];
        let seal = |sealed: &[u8]| self.host.channel().seal(sealed).unwrap_or_default();
        let length = header.write(&mut octets, seal).expect("in its bounds");
        [&octets[..length], packet].concat()
    }

    /// What answers questions.
    pub fn answers(&mut self, answers: &[(u32, Answer)]) -> Vec<u8> {
        self.counter += 1;
        let header = AnswersHeader {
            channel: 3,
            counter: self.counter,
        };
        let mut writer = AnswersWriter::default();
        for (number, answer) in answers {
            assert_eq!(writer.add(*number, answer, 9_000), Ok(true));
        }
        let mut octets = Vec::new();
        let seal = |sealed: &[u8]| self.host.channel().seal(sealed).unwrap_or_default();
        writer.finish(&header, seal, &mut octets).expect("in its bounds");
        octets
    }

    /// A packet comes in by the access port.
    pub fn arrive(&mut self, frame: &[u8]) {
        let _ = self.wires.to(WorkerId(0), ACCESS).push(MemBuf::new(frame));
    }

    pub fn arrive_by(&mut self, port: PortId, frame: &[u8]) {
        let queue = self.wires.to(WorkerId(0), port);
        queue.push(MemBuf::new(frame)).expect("there is room");
    }

    /// The frames that left by N6.
    pub fn sent(&self) -> Vec<Vec<u8>> {
        let next = || self.wires.from(CORE).pop();
        std::iter::from_fn(next)
            .map(|frame| frame.bytes().to_vec())
            .collect()
    }

    pub fn take_exceptions(&mut self) -> Vec<(Exception, Vec<u8>)> {
        std::mem::take(&mut self.exceptions)
    }

    /// A packet that is an exception comes back with its flow.
    pub fn give_back(&mut self, source_port: u16) {
        let said = self.through(0, &uplink(source_port), flow(source_port));
        self.say(&said);
    }
}

fn host(vlan: Option<u16>, boot: u64, answers: bool) -> InBand {
    let greeting = match answers {
        true => host_greeting(HostCapabilities::new(true)),
        false => Vec::new(),
    };
    host_that(vlan, boot, greeting)
}

fn host_that(vlan: Option<u16>, boot: u64, capabilities: Vec<u8>) -> InBand {
    let config = ChannelConfig {
        capabilities,
        ..channel_config(Role::Host, vlan, boot)
    };
    InBand::new(Channel::new(config, random(boot + 40)).expect("a valid configuration"))
}
