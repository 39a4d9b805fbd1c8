//! A worker and the accelerator's node that it drives, on a wire of memory: together they forward what one worker does
//! alone, octet by octet, each flow in order, and count the same.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{
    Bounds, CounterLimit, InstanceId, LimitAction, Nanos, OpId, PortId, Seed, SessionGroupId,
    SessionGroupTotal, SessionIndex, Volumes, WorkerId,
};
use offload::channel::{ChannelConfig, Key, Role};
use offload::codec::HostCapabilities;
use offload::in_band::host_greeting;
use packet::tcp;
use proptest::prelude::*;
use rules::image::{ImmediateActions, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{Precedence, PredefinedRule};
use rules::network::{Mss, Network};
use rules::testing::{self, N3_ADDRESS, UserPacket, tunnelled};
use rules::{Predefined, SessionRules};
use transport::AdjacencyChange;
use worker::accelerator::{EngineConfig, Node, NodeConfig, QueueLimits};
use worker::behind_accelerator::BehindAccelerator;
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Command, ControlEnd, Event, OffloadPolicy, Worker};

use crate::common::one_session::{REMOTE, TEID, from_ue, of_ue, session, with_rulebase};
use crate::common::{NEXT_HOPS, World, frame, next_hops, our_mac, unresolved};
use crate::mss_clamping;
use crate::offload::{ACCELERATOR, BUFFERS, HostParts, TOWARDS, host, host_in, host_that, random};
use crate::partial_mode::Mode;
use crate::path_mtu::{announce_mtu, to_gnb};

/// Ports of the network, from 0 on; behind them the node's port towards its host.
const PORTS: u16 = 4;
const STEP: Duration = Duration::from_micros(20);
const UES: u32 = 3;
/// Meters of the node that sessions share.
pub const SHARED_METERS: u16 = 8;

/// The UE of a session, its tunnel, and its rules.
pub fn of(session_index: u32) -> (Ipv4Addr, u32, SessionRules) {
    let ue = Ipv4Addr::new(10, 45, 0, 10 + session_index as u8);
    let teid = 0x2000 + session_index;
    let mut rules = session();
    of_ue(&mut rules, teid, ue);
    (ue, teid, rules)
}

/// Which packets of the link between the two are lost.
#[derive(Clone, Copy, Debug)]
pub enum Link {
    Whole,
    /// One control frame of this number, each way. Packets are never lost: they would be with any network.
    LosesControl(u32),
    /// One marker of this number, each way.
    LosesMarkers(u32),
    /// One frame of this number with questions or answers.
    LosesQuestions(u32),
    /// Of this number of frames with questions or answers one comes twice, and one behind others.
    Disorders(u32),
    /// The host answers no questions.
    OldHost,
    /// The accelerator asks none.
    OldAccelerator,
    /// Of one in partial mode, or both; this number of control frames is lost as above.
    Partial(Mode, u32),
}

pub struct Pair {
    pub host: Worker<BehindAccelerator<MemIo>>,
    network: Arc<Network>,
    pub control: ControlEnd,
    pub host_wires: Wires,
    pub node: Node<MemIo>,
    pub node_wires: Wires,
    pub now: Nanos,
    next_op: u64,
    link: Link,
    draws: u32,
    /// Frames that others overtake, each with the step in which it arrives, and whether at the host.
    late: Vec<(u64, bool, Vec<u8>)>,
    steps: u64,
}

impl Pair {
    pub fn new(link: Link) -> Self {
        let host = match link {
            Link::OldHost => host_that(&testing::network(), OffloadPolicy::default(), Vec::new()),
            Link::Partial(mode, _) => host_that(
                &testing::network(),
                mode.policy(),
                host_greeting(mode.host(HostCapabilities::new(true))),
            ),
            _ => host(OffloadPolicy::default()),
        };
        Self::on(host, link)
    }

    fn on(host: HostParts, link: Link) -> Self {
        Self::with_queues(host, link, None)
    }

    /// The same, where the node has this room for queues.
    pub fn with_queues(host: HostParts, link: Link, queues: Option<QueueLimits>) -> Self {
        let HostParts {
            network,
            worker,
            control,
            wires: host_wires,
        } = host;
        let (node_wires, node) = node_on(link, queues, 9);
        let mut pair = Self {
            host: worker,
            network,
            control,
            host_wires,
            node,
            node_wires,
            now: Nanos::from_secs(100),
            next_op: 0,
            link,
            draws: 0,
            late: Vec::new(),
            steps: 0,
        };
        pair.set_next_hops(true);
        pair.rest();
        assert!(pair.node.is_served());
        pair
    }

    /// Another process takes the accelerator's place: what is on its wires and in it is lost.
    pub fn restart_node(&mut self, boot: u64) {
        (self.node_wires, self.node) = node_on(self.link, None, boot);
    }

    /// Next hops answer, or do not, from the host's next poll on.
    fn set_next_hops(&mut self, do_answer: bool) {
        // The numbers of tests mean a router by its address of either family.
        let is_ipv4 =
            |change: &AdjacencyChange| change.neighbour.is_some_and(|(_, address)| address.is_ipv4());
        for change in next_hops(&self.network).into_iter().filter(is_ipv4) {
            let command = Command::Adjacency(match do_answer {
                true => change,
                false => unresolved(&self.network, change),
            });
            self.control.commands.push(command).expect("there is room");
        }
    }

    fn is_lost(&mut self, octets: &[u8]) -> bool {
        let is_control = octets.get(12..14) == Some(&[0x88, 0xb5]);
        let is_marker = octets.get(12..14) == Some(&[0x88, 0xb6]) && matches!(octets[15], 2 | 0x83);
        let of = match self.link {
            Link::LosesControl(of) | Link::Partial(_, of) if is_control => of,
            Link::LosesMarkers(of) if is_marker => of,
            Link::LosesQuestions(of) if is_question(octets) => of,
            _ => return false,
        };
        self.draw().is_multiple_of(of)
    }

    fn draw(&mut self) -> u32 {
        self.draws = self.draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.draws >> 8
    }

    /// A frame arrives, once, twice or later, unless it is lost.
    fn carry(&mut self, octets: &[u8], is_to_host: bool) {
        if self.is_lost(octets) {
            return;
        }
        if let Link::Disorders(of) = self.link
            && is_question(octets)
        {
            match self.draw() % of {
                0 => self.deliver(octets, is_to_host),
                1 => {
                    let wait = u64::from(self.draw() % 400);
                    self.late.push((self.steps + wait, is_to_host, octets.to_vec()));
                    return;
                }
                _ => {}
            }
        }
        self.deliver(octets, is_to_host);
    }

    fn deliver(&mut self, octets: &[u8], is_to_host: bool) {
        let queue = match is_to_host {
            true => self.host_wires.to(WorkerId(0), TOWARDS),
            false => self.node_wires.to(WorkerId(0), PortId(PORTS)),
        };
        queue.push(MemBuf::new(octets)).expect("there is room");
    }

    fn deliver_late(&mut self) {
        self.steps += 1;
        let steps = self.steps;
        let due: Vec<_> = self.late.extract_if(.., |(at, ..)| *at <= steps).collect();
        for (_, is_to_host, octets) in due {
            self.deliver(&octets, is_to_host);
        }
    }

    pub fn step(&mut self) {
        self.now = self.now + STEP;
        self.host.poll(self.now);
        while let Some(buf) = self.host_wires.from(TOWARDS).pop() {
            self.carry(buf.bytes(), false);
        }
        self.node.poll(self.now);
        while let Some(buf) = self.node_wires.from(PortId(PORTS)).pop() {
            self.carry(buf.bytes(), true);
        }
        self.deliver_late();
    }

    /// Until nothing is on the way.
    pub fn rest(&mut self) {
        (0..1_000).for_each(|_| self.step());
        // What waits for a marker that was lost, for another one.
        let mut more = 0..100_000;
        while self.node.engine().stats().settling.held > 0 && more.next().is_some() {
            self.step();
        }
    }

    /// The addresses of ports are those that the host has for them.
    pub fn arrive(&mut self, port: u16, packet: &[u8]) {
        let queue = self.node_wires.to(WorkerId(0), PortId(port));
        let frame = MemBuf::new(&frame(port + 1, packet));
        queue.push(frame).expect("there is room on the wire");
    }

    /// What has left, as by ports of the worker that is alone.
    pub fn take(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let mut out = Vec::new();
        for port in 0..PORTS {
            while let Some(buf) = self.node_wires.from(PortId(port)).pop() {
                let mut frame = buf.bytes().to_vec();
                assert_eq!(frame[6..12], our_mac(port + 1).0);
                frame[6..12].copy_from_slice(&our_mac(port).0);
                out.push((PortId(port), frame));
            }
        }
        out
    }

    pub fn ask(&mut self, command: impl FnOnce(OpId) -> Command) -> Event {
        self.next_op += 1;
        let command = command(OpId(self.next_op));
        self.control.commands.push(command).expect("there is room");
        for _ in 0..200_000 {
            self.step();
            while let Ok(event) = self.control.events.pop() {
                if matches!(event, Event::Applied { .. } | Event::Queried { .. }) {
                    return event;
                }
            }
        }
        panic!("no answer")
    }

    pub fn image(&self, index: u32, rules: SessionRules) -> Box<SessionImage> {
        let image = rules::compile::compile(&rules.into(), &self.network, &testing::NumberedHops);
        let mut image = image.expect("it compiles");
        (image.session, image.seid) = (SessionIndex(index), u64::from(index) + 1);
        image.block.get_or_insert_default().group = SessionGroupId::new(index as u16).expect("a number");
        Box::new(image)
    }

    pub fn apply(&mut self, change: SessionChange) -> Option<UsageSnapshot> {
        match self.ask(|op| Command::Session { op, change }) {
            Event::Applied { outcome, .. } => outcome.expect("it is applied"),
            other => panic!("{other:?}"),
        }
    }

    /// What the host and its accelerator have forwarded of a session group, as the host knows it.
    pub fn forwarded_of(&self, group: u32) -> SessionGroupTotal {
        self.host.group_totals()[group as usize]
    }

    pub fn query(&mut self, index: u32) -> UsageSnapshot {
        let session = SessionIndex(index);
        match self.ask(|op| Command::Query { op, session }) {
            Event::Queried { outcome, .. } => outcome.expect("it is there"),
            other => panic!("{other:?}"),
        }
    }
}

/// A node, started anew.
fn node_on(link: Link, queues: Option<QueueLimits>, boot: u64) -> (Wires, Node<MemIo>) {
    let (wires, mut ios) = Wires::new(1, usize::from(PORTS) + 1, 1024);
    let macs = (0..=PORTS).map(our_mac).collect();
    let engine = EngineConfig::new(Default::default(), macs, PortId(PORTS), Seed([3, 4]));
    let key = Key::new(vec![7; 32]).expect("32 octets");
    let channel = ChannelConfig::new(Role::Accelerator, 0, ACCELERATOR, key, boot);
    let mut config = NodeConfig::new(engine, channel);
    config.engine.max_sessions = 64;
    (config.engine.max_flows_v4, config.engine.max_flows_v6) = (1024, 1024);
    (config.engine.queues, config.engine.shared_meters) = (queues, SHARED_METERS);
    match link {
        Link::OldAccelerator => config.engine.max_asking = 0,
        Link::Partial(mode, _) => config.is_partial = mode.is_of_accelerator(),
        _ => {}
    }
    config.counts_every = Duration::from_millis(1);
    let node = Node::new(config, ios.remove(0), random(boot)).expect("a node");
    (wires, node)
}

/// Whether a frame has questions, or answers.
fn is_question(octets: &[u8]) -> bool {
    octets.get(12..14) == Some(&[0x88, 0xb6]) && matches!(octets.get(15), Some(3 | 0x84))
}

/// The packets of UE and port, which end with a number.
type FlowName = (u16, Vec<u8>);

/// What left, by port and all octets of addresses and ports: the numbers in order.
pub fn by_flow(frames: &[(PortId, Vec<u8>)]) -> BTreeMap<FlowName, Vec<u32>> {
    let mut flows = BTreeMap::new();
    for (port, frame) in frames {
        let tail = frame.len() - 4;
        // Those from UEs leave as they are, with or without options.
        let inner = match port {
            PortId(1) => 14,
            _ => frame.len() - PAYLOAD - HEADERS,
        };
        let name = frame[inner + 12..inner + 24].to_vec();
        let number = u32::from_be_bytes(frame[tail..].try_into().expect("4 octets"));
        flows.entry((port.0, name)).or_insert_with(Vec::new).push(number);
    }
    flows
}

const PAYLOAD: usize = 44;
/// IPv4's, and 24 octets of the transport.
const HEADERS: usize = 44;

/// A packet of a UE, or to it, with a number behind.
pub fn packet(ue_index: u32, flow: u16, is_uplink: bool, number: u32) -> (u16, Vec<u8>) {
    let (ue, teid, _) = of(ue_index);
    let payload = [vec![0; PAYLOAD - 4], number.to_be_bytes().to_vec()].concat();
    if is_uplink {
        let inner = UserPacket {
            payload,
            ..UserPacket::udp(ue, REMOTE, 1000 + flow, 53)
        };
        let packet = tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], &inner.bytes());
        (0, packet)
    } else {
        let inner = UserPacket {
            payload,
            ..UserPacket::udp(REMOTE, ue, 53, 1000 + flow)
        };
        (1, inner.bytes())
    }
}

/// A packet of a UE with an IPv4 option.
pub fn with_option(ue_index: u32, number: u32) -> Vec<u8> {
    let (ue, teid, _) = of(ue_index);
    let inner = UserPacket {
        payload: [vec![0; PAYLOAD - 4], number.to_be_bytes().to_vec()].concat(),
        ..UserPacket::udp(ue, REMOTE, 1000, 53)
    };
    let mut inner = inner.bytes();
    // No operation, four times.
    inner.splice(20..20, [1; 4]);
    inner[0] = 0x46;
    let length = inner.len() as u16;
    inner[2..4].copy_from_slice(&length.to_be_bytes());
    inner[10..12].fill(0);
    let checksum = packet::checksum::of(&inner[..24]);
    inner[10..12].copy_from_slice(&checksum.to_be_bytes());
    tunnelled(N3_ADDRESS, teid, 255, Some([0x10, 9]), &[], &inner)
}

pub fn counts(usage: &UsageSnapshot) -> Vec<[u64; 4]> {
    let counters = usage.counters.iter();
    counters
        .map(|(_, count)| {
            [
                count.ul_octets,
                count.dl_octets,
                count.ul_packets,
                count.dl_packets,
            ]
        })
        .collect()
}

#[derive(Clone, Debug)]
pub enum Step {
    Packet {
        ue: u32,
        flow: u16,
        is_uplink: bool,
    },
    /// One with an option, which the accelerator does not read: the session comes home.
    WithOption(u32),
    Polls(u16),
    /// Usage is asked for.
    Query(u32),
    /// The session comes home and may leave again, while packets are on the way: it gets the rules that it has.
    Replace(u32),
    /// Next hops answer, or do not: packets wait for them.
    NextHops(bool),
}

/// Packets that arrive while next hops do not answer: more do not wait.
const WAITING: u32 = 12;

pub fn steps() -> impl Strategy<Value = Vec<Step>> {
    let packet = (0..UES, 0..3_u16, any::<bool>());
    let packet = packet.prop_map(|(ue, flow, is_uplink)| Step::Packet { ue, flow, is_uplink });
    let step = prop_oneof![
        12 => packet,
        4 => (1..400_u16).prop_map(Step::Polls),
        1 => (0..UES).prop_map(Step::WithOption),
        1 => (0..UES).prop_map(Step::Query),
        1 => (0..UES).prop_map(Step::Replace),
        1 => any::<bool>().prop_map(Step::NextHops),
    ];
    prop::collection::vec(step, 1..300)
}

/// Next hops of both answer, or do not. What the worker that is alone sends then.
fn set_next_hops(pair: &mut Pair, alone: &mut World, do_answer: bool) -> Vec<(PortId, Vec<u8>)> {
    pair.set_next_hops(do_answer);
    let next_hops = NEXT_HOPS
        .into_iter()
        .filter(|(_, address)| !address.contains(':'));
    for (instance, address) in next_hops {
        let change = if do_answer { World::meet } else { World::lose };
        change(alone, InstanceId(instance), address.parse().expect("an address"));
    }
    alone.poll();
    alone.take()
}

/// Runs steps through a worker with its node, and through a worker alone.
pub fn compare(link: Link, all: &[Step]) -> Result<(), TestCaseError> {
    let mut pair = Pair::new(link);
    let mut alone = World::with(testing::network(), 1, |config| config.buffers = BUFFERS);
    for index in 0..UES {
        let (_, _, rules) = of(index);
        alone.install(index, rules.clone());
        let image = pair.image(index, rules);
        pair.apply(SessionChange::Install(image));
    }
    alone.poll();
    alone.take();
    pair.take();
    let (mut expected, mut sent) = (Vec::new(), Vec::new());
    let mut waiting = None;
    for (number, step) in (0..).zip(all) {
        if waiting == Some(WAITING) {
            waiting = None;
            expected.extend(set_next_hops(&mut pair, &mut alone, true));
        }
        match *step {
            Step::Packet { ue, flow, is_uplink } => {
                waiting = waiting.map(|packets| packets + 1);
                let (port, packet) = packet(ue, flow, is_uplink, number);
                expected.extend(alone.send(port, &packet));
                pair.arrive(port, &packet);
            }
            Step::WithOption(ue) => {
                waiting = waiting.map(|packets| packets + 1);
                let packet = with_option(ue, number);
                expected.extend(alone.send(0, &packet));
                pair.arrive(0, &packet);
            }
            Step::Replace(ue) => {
                let image = pair.image(ue, of(ue).2);
                pair.apply(SessionChange::Replace(image, ImmediateActions::default()));
            }
            Step::NextHops(do_answer) => {
                waiting = if do_answer { None } else { waiting.or(Some(0)) };
                expected.extend(set_next_hops(&mut pair, &mut alone, do_answer));
            }
            Step::Polls(polls) => (0..polls).for_each(|_| pair.step()),
            Step::Query(ue) => {
                // What waits is not counted, and which packets do is a matter of time.
                waiting = None;
                expected.extend(set_next_hops(&mut pair, &mut alone, true));
                pair.rest();
                let usage = [pair.query(ue), alone.query(0, SessionIndex(ue))];
                let [both, one] = usage.map(|usage| counts(&usage));
                prop_assert_eq!(both, one, "at step {}", number);
                prop_assert_eq!(pair.forwarded_of(ue), alone.forwarded_of(ue as u16));
            }
        }
        sent.extend(pair.take());
    }
    expected.extend(set_next_hops(&mut pair, &mut alone, true));
    pair.rest();
    sent.extend(pair.take());
    prop_assert_eq!(by_flow(&sent), by_flow(&expected));
    let sorted = |frames: &[(PortId, Vec<u8>)]| {
        let mut frames = frames.to_vec();
        frames.sort();
        frames
    };
    prop_assert_eq!(sorted(&sent), sorted(&expected), "octet by octet");
    for index in 0..UES {
        let usage = [
            pair.apply(SessionChange::Remove(SessionIndex(index))),
            alone
                .apply(0, SessionChange::Remove(SessionIndex(index)))
                .expect("it is there"),
        ];
        let [both, one] = usage.map(|usage| counts(&usage.expect("it has counted")));
        prop_assert_eq!(both, one);
        prop_assert_eq!(pair.forwarded_of(index), alone.forwarded_of(index as u16));
    }
    Ok(())
}

#[test]
fn syns_are_clamped_alike_wherever_they_pass() {
    for (n3, n6) in [
        (Mss::Auto, Mss::Off),
        (Mss::Off, Mss::Auto),
        (Mss::AtMost(1_300), Mss::Auto),
        (Mss::Off, Mss::AtMost(1_400)),
    ] {
        let network = mss_clamping::network(n3, n6);
        let mut pair = Pair::on(host_in(&network, OffloadPolicy::default()), Link::Whole);
        let mut alone = World::with(network, 1, |_| {});
        alone.install(1, session());
        let image = pair.image(1, session());
        pair.apply(SessionChange::Install(image));
        for mtu in [None, Some(1_400)] {
            let (local, peer) = to_gnb();
            announce_mtu(&mut alone, (local, peer), mtu);
            let command = Command::PathMtu { local, peer, mtu };
            pair.control.commands.push(command).expect("there is room");
            pair.rest();
            // The first has the session leave, and its flow follows with the second.
            for is_uplink in [true, false].repeat(4) {
                let syn = mss_clamping::user(is_uplink, true, tcp::flags::SYN, &[2, 4, 5, 180]);
                let (port, packet) = match is_uplink {
                    true => (0, tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &syn)),
                    false => (1, syn),
                };
                pair.arrive(port, &packet);
                pair.rest();
                assert_eq!(pair.take(), alone.send(port, &packet), "{n3:?} {n6:?}");
            }
        }
        assert_eq!(pair.host.offload_stats().away, 1, "{n3:?} {n6:?}");
        let there = pair.node.engine().stats().path.mss_clamped;
        let clamped = there + pair.host.stats().mss_clamped;
        assert_eq!(clamped, alone.workers[0].stats().mss_clamped);
        assert!(there >= 12, "{there}");
    }
}

#[test]
fn a_session_leaves_if_it_activates_a_rulebase_that_the_policy_names() {
    let every_packet = PredefinedRule {
        precedence: Precedence(1),
        filters: Vec::new(),
        detection: Default::default(),
        far: None,
        qers: Vec::new(),
        urrs: Vec::new(),
        content: None,
    };
    let mut predefined = Predefined::new([], [], []).expect("there is nothing to refuse");
    for name in [b"heavy", b"light"] {
        let rules = vec![every_packet.clone()];
        predefined.add(name, rules).expect("all is there");
    }
    let policy = OffloadPolicy {
        rulebases: Some(vec![Box::from(*b"heavy"), Box::from(*b"other")]),
        ..OffloadPolicy::default()
    };
    let mut pair = Pair::on(host_in(&testing::network(), policy), Link::Whole);
    for (rules, leaves) in [
        (session(), 0),
        (with_rulebase(&predefined, b"light"), 0),
        (with_rulebase(&predefined, b"heavy"), 1),
        (with_rulebase(&predefined, b"light"), 0),
    ] {
        let image = pair.image(1, rules);
        pair.apply(SessionChange::Install(image));
        for _ in 0..3 {
            let up = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &from_ue());
            pair.arrive(0, &up);
            pair.rest();
            assert_eq!(pair.take().len(), 1);
        }
        assert_eq!(pair.host.offload_stats().away, leaves);
        assert_eq!(pair.host.offload_stats().stays.iter().sum::<u64>(), 0);
        pair.apply(SessionChange::Remove(SessionIndex(1)));
    }
}

#[test]
fn later_packets_pass_at_the_accelerator_alone() {
    let mut pair = Pair::new(Link::Whole);
    let image = pair.image(0, of(0).2);
    pair.apply(SessionChange::Install(image));
    for number in 0..3 {
        let (port, packet) = packet(0, 1, true, number);
        pair.arrive(port, &packet);
        pair.rest();
    }
    pair.take();
    let before = pair.host.stats().ports.clone();
    for number in 3..1_000 {
        let (port, packet) = packet(0, 1, true, number);
        pair.arrive(port, &packet);
        pair.step();
    }
    pair.rest();
    let flows = by_flow(&pair.take());
    let numbers: Vec<_> = flows.into_values().flatten().collect();
    assert_eq!(numbers, (3..1_000).collect::<Vec<_>>());
    assert_eq!(pair.host.offload_stats().left, 1);
    assert_eq!(pair.host.stats().ports, before, "none is the host's");
    let usage = pair.query(0);
    assert_eq!(counts(&usage)[0][2], 1_000);
}

/// Runs packets of one flow, with polls before each, into a limit. Gives the numbers of those that passed, and what was
/// counted, of a worker with its node and of one that is alone.
fn to_a_limit(link: Link, octets: u64, polls: &[u16]) -> [(Vec<u32>, Vec<[u64; 4]>); 2] {
    let bounds = Bounds {
        watermarks: Volumes::of_total(octets / 2),
        limit: Some(CounterLimit {
            octets: Volumes::of_total(octets),
            action: LimitAction::Drop,
        }),
    };
    let mut pair = Pair::new(link);
    let mut alone = World::new();
    let rules = of(0).2;
    let mut image = alone
        .image(0, &Arc::new(rules.clone()), None)
        .expect("it compiles");
    image.block.get_or_insert_default().bounds = vec![bounds];
    alone
        .apply(0, SessionChange::Install(image))
        .expect("it is installed");
    let mut image = pair.image(0, rules);
    image.block.get_or_insert_default().bounds = vec![bounds];
    pair.apply(SessionChange::Install(image));
    alone.poll();
    alone.take();
    pair.take();
    let mut expected = Vec::new();
    for (number, polls) in (0..).zip(polls) {
        (0..*polls).for_each(|_| pair.step());
        let (port, packet) = packet(0, 1, true, number);
        expected.extend(alone.send(port, &packet));
        pair.arrive(port, &packet);
    }
    pair.rest();
    let numbers = |frames: &[_]| by_flow(frames).into_values().flatten().collect();
    let removal = SessionChange::Remove(SessionIndex(0));
    let both = pair.apply(removal.clone()).expect("it has counted");
    let one = alone
        .apply(0, removal)
        .expect("it is there")
        .expect("it has counted");
    [
        (numbers(&pair.take()), counts(&both)),
        (numbers(&expected), counts(&one)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_limit_stops_the_same_packet_wherever_the_session_is(
        octets in 100..5_000_u64,
        polls in prop::collection::vec(0..30_u16, 1..80),
        loses in any::<bool>(),
    ) {
        let link = if loses { Link::LosesControl(5) } else { Link::Whole };
        let [both, alone] = to_a_limit(link, octets, &polls);
        prop_assert_eq!(both, alone);
    }

    #[test]
    fn both_forward_what_one_does_alone(all in steps()) {
        compare(Link::Whole, &all)?;
    }

    #[test]
    fn both_do_so_when_markers_are_lost(all in steps(), of in 2..5_u32) {
        compare(Link::LosesMarkers(of), &all)?;
    }

    #[test]
    fn both_do_so_when_questions_and_answers_are_lost(all in steps(), of in 2..5_u32) {
        compare(Link::LosesQuestions(of), &all)?;
    }

    #[test]
    fn both_do_so_when_they_come_twice_and_late(all in steps(), of in 2..5_u32) {
        compare(Link::Disorders(of), &all)?;
    }

    #[test]
    fn both_do_so_where_one_end_knows_of_no_questions(all in steps(), is_host in any::<bool>()) {
        compare(if is_host { Link::OldHost } else { Link::OldAccelerator }, &all)?;
    }

    #[test]
    fn both_do_so_when_control_frames_are_lost(all in steps(), of in 3..20_u32) {
        compare(Link::LosesControl(of), &all)?;
    }
}
