//! Sessions that an accelerator passes: how they leave and come home, what goes to and fro, and that each packet counts
//! once. The accelerator is a backend of the FlowOp contract that the test drives.

mod answers;

use crate::common;

use std::sync::Arc;
use std::time::Duration;

use flow::contract::{AnyKey, Backend, Fate, FlowOp, Object, PacketPath, Request, Subject};
use flow::local_backend::LocalBackend;
use flow::meter::{MeterSpec, Rate};
use flow::{
    Bounds, CounterLimit, InstanceId, LimitAction, Nanos, OpId, PortId, Seed, SessionIndex, Volumes, WorkerId,
};
use offload::channel::{Channel, ChannelConfig, Key, Role};
use offload::codec::HostCapabilities;
use offload::exception::{Answer, Class, Exception, FromHost, Marker, Reason, Through};
use offload::in_band::{Agent, InBand, greeting, host_greeting};
use packet::{DropReason, MacAddr, Teid};
use rules::SessionRules;
use rules::image::{ImmediateActions, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{ApplyAction, FarId, FarUpdate, OuterHeaderCreation, UrrId};
use rules::network::{Egress, Mss, Network};
use rules::testing::{self, GNB};
use worker::behind_accelerator::{AcceleratorPort, BehindAccelerator};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{
    BufferLimits, Command, ControlEnd, Event, OffloadPolicy, Stays, Worker, WorkerConfig, control_channel,
};

use common::one_session::{from_ue, hand_over, session, to_ue, uplink};
use common::{frame, our_mac};

pub const HOST: MacAddr = MacAddr([2, 0, 0, 0, 2, 1]);
pub const ACCELERATOR: MacAddr = MacAddr([2, 0, 0, 0, 2, 2]);
const SESSION: SessionIndex = SessionIndex(1);
/// The port of this node towards the accelerator.
pub const TOWARDS: PortId = PortId(0);

pub fn random(mut state: u64) -> offload::channel::Random {
    Box::new(move |octets: &mut [u8]| {
        for octet in octets {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *octet = (state >> 33) as u8;
        }
    })
}

fn channel(role: Role, boot: u64, capabilities: Vec<u8>) -> Channel {
    let mac = if role == Role::Host { HOST } else { ACCELERATOR };
    let key = Key::new(vec![7; 32]).expect("32 octets");
    let config = ChannelConfig {
        capabilities,
        ..ChannelConfig::new(role, 0, mac, key, boot)
    };
    Channel::new(config, random(boot)).expect("a valid configuration")
}

fn accelerator(boot: u64) -> Agent<LocalBackend> {
    let backend = LocalBackend::local(1024, 1024, 64, Seed([boot, 1])).expect("memory");
    let backend = backend.with_counts_every(Duration::from_millis(1));
    let greeting = greeting(&backend).expect("it has a form");
    Agent::new(channel(Role::Accelerator, boot, greeting), backend)
}

/// A network behind the accelerator: each port is one further.
pub fn behind(network: &Network) -> Network {
    let mut instances = network.instances().to_vec();
    for instance in &mut instances {
        instance.port.0 += 1;
    }
    let egress = network.egress().map(|egress| Egress {
        ports: [Rate::UNLIMITED]
            .into_iter()
            .chain(egress.ports.iter().copied())
            .collect(),
        ..egress.clone()
    });
    let behind = Network::new(instances).expect("it was one before");
    behind.with_egress(egress)
}

/// A frame that the host sent, as the accelerator takes it.
#[derive(Debug, PartialEq)]
enum Sent {
    By(u16, Vec<u8>),
    Through(Box<Through>, Vec<u8>),
    Marker(u64),
    Answers(Vec<(u32, Answer)>),
}

struct Case {
    network: Arc<Network>,
    worker: Worker<BehindAccelerator<MemIo>>,
    control: ControlEnd,
    wires: Wires,
    agent: Agent<LocalBackend>,
    now: Nanos,
    next_op: u64,
}

/// A worker whose ports are an accelerator's, and what it is on.
pub struct HostParts {
    pub network: Arc<Network>,
    pub worker: Worker<BehindAccelerator<MemIo>>,
    pub control: ControlEnd,
    pub wires: Wires,
}

/// What a worker may keep of packets whose next hop does not answer.
pub const BUFFERS: BufferLimits = BufferLimits {
    queues: 64,
    packets: 1024,
    octets: 1 << 20,
    per_queue: 64,
    per_session: 128,
    per_session_octets: 1 << 18,
    timeout: Duration::from_secs(10),
};

/// The worker, in the network of `rules::testing` behind an accelerator.
pub fn host(policy: OffloadPolicy) -> HostParts {
    host_in(&testing::network(), policy)
}

/// The same in this network.
pub fn host_in(network: &Network, policy: OffloadPolicy) -> HostParts {
    host_that(network, policy, host_greeting(HostCapabilities::new(true)))
}

/// The same that says this of itself.
pub fn host_that(network: &Network, policy: OffloadPolicy, greeting: Vec<u8>) -> HostParts {
    let network = Arc::new(behind(network));
    let ports = network.instances().iter().map(|instance| instance.port.0).max();
    let ports = ports.expect("there are instances");
    let (wires, mut ios) = Wires::new(1, 1, 1024);
    let config = AcceleratorPort {
        port: TOWARDS,
        ports,
        mac: HOST,
        vlan: None,
        mtu: 9000,
    };
    let host = InBand::new(channel(Role::Host, 5, greeting));
    let io = BehindAccelerator::new(ios.remove(0), config, host);
    let macs = (0..=ports).map(our_mac).collect();
    let mut config = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), macs, Seed([7, 9]));
    (config.max_sessions, config.own_sessions) = (4096, 4096);
    (config.max_flows_v4, config.max_flows_v6) = (8192, 8192);
    config.max_adjacencies = 1024;
    config.buffers = BUFFERS;
    config.offload = Some(policy);
    let (control, end) = control_channel(256, 256);
    HostParts {
        network,
        worker: Worker::new(config, io, end).expect("there is memory"),
        control,
        wires,
    }
}

impl Case {
    fn new(policy: OffloadPolicy) -> Self {
        Self::on(host(policy))
    }

    fn on(host: HostParts) -> Self {
        let mut case = Self {
            network: host.network,
            worker: host.worker,
            control: host.control,
            wires: host.wires,
            agent: accelerator(9),
            now: Nanos::from_secs(100),
            next_op: 0,
        };
        case.meet_next_hops();
        case.settle();
        case
    }

    fn meet_next_hops(&mut self) {
        for change in common::next_hops(&self.network) {
            let command = Command::Adjacency(change);
            self.control.commands.push(command).expect("there is room");
        }
    }

    /// Lets a moment pass at both ends; gives the packets that the host sent.
    fn step(&mut self) -> Vec<Sent> {
        self.now = self.now + Duration::from_micros(50);
        self.agent.poll(self.now);
        let mut frame = Vec::new();
        while self.agent.channel_mut().poll_transmit(self.now, &mut frame) {
            self.push(&frame);
        }
        self.worker.poll(self.now);
        let mut sent = Vec::new();
        while let Some(buf) = self.wires.from(TOWARDS).pop() {
            let octets = buf.bytes();
            match octets.get(12..14) {
                Some([0x88, 0xb5]) => drop(self.agent.channel_mut().receive(octets, self.now)),
                Some([0x88, 0xb6]) => sent.push(self.read(&octets[14..])),
                _ => panic!("a foreign frame"),
            }
        }
        sent
    }

    fn read(&self, octets: &[u8]) -> Sent {
        match FromHost::read(octets).expect("a frame of the host") {
            FromHost::Send(header, frame) => Sent::By(header.port.0, frame.to_vec()),
            FromHost::Marker(Marker { number, .. }) => Sent::Marker(number),
            FromHost::Answers(sealed) => self.read_answers(&sealed),
            FromHost::Through(sealed) => {
                let verifies = |octets: &[u8], mac: &[u8; 16]| self.agent.channel().verifies(octets, mac);
                let (header, frame) = sealed.open(verifies).expect("it is authentic");
                Sent::Through(Box::new(header), frame.to_vec())
            }
        }
    }

    fn push(&mut self, frame: &[u8]) {
        let queue = self.wires.to(WorkerId(0), TOWARDS);
        queue.push(MemBuf::new(frame)).expect("there is room on the wire");
    }

    fn settle(&mut self) {
        for _ in 0..400 {
            let sent = self.step();
            assert_eq!(sent, []);
        }
    }

    /// The same, whatever is sent.
    fn settle_anyhow(&mut self) {
        for _ in 0..400 {
            self.step();
        }
    }

    /// What was reported to control that counters have reached: what they have counted.
    fn reached(&mut self) -> Vec<u64> {
        let mut reached = Vec::new();
        while let Ok(event) = self.control.events.pop() {
            if let Event::CounterReached { count, .. } = event {
                reached.push(count.ul_octets + count.dl_octets);
            }
        }
        reached
    }

    /// Lets a frame come to the host that the accelerator has received by its port.
    fn except(&mut self, port: u16, reason: Reason, hops: u8, frame: &[u8]) {
        let header = Exception {
            channel: 0,
            class: Class::Normal,
            reason,
            tags: 0,
            hops,
            port: PortId(port),
            length: frame.len() as u16,
            user_packet: None,
            layer4: None,
            hint: 0,
            received: self.now,
        };
        let mut octets = [&HOST.0[..], &ACCELERATOR.0, &[0x88, 0xb6], &[0; Exception::LEN]].concat();
        header.write(&mut octets[14..]).expect("a header");
        octets.extend_from_slice(frame);
        self.push(&octets);
    }

    /// The same of one that no flow there has; all that the host sends for it.
    fn miss(&mut self, port: u16, frame: &[u8]) -> Vec<Sent> {
        self.except(port, Reason::NoFlow, 0, frame);
        let mut sent = self.step();
        sent.extend(self.step());
        sent
    }

    /// The accelerator puts the flow of a packet, and passes it.
    fn pass_through(&mut self, header: &Through, octets: u32) -> Fate {
        let backend = self.agent.backend_mut();
        let epoch = backend.epoch();
        backend.submit(Request {
            id: OpId(u64::MAX),
            epoch,
            subject: Subject::Session(header.session),
            op: FlowOp::Put(Object::Flow(header.flow)),
        });
        let Some(flow::contract::Notice::Reply(reply)) = backend.poll(self.now) else {
            panic!("no reply")
        };
        assert!(reply.outcome.is_ok(), "{reply:?}");
        self.pass(&header.flow.key, octets)
    }

    fn pass(&mut self, key: &AnyKey, octets: u32) -> Fate {
        self.agent.backend_mut().process(key, octets, self.now)
    }

    fn ask(&mut self, command: impl FnOnce(OpId) -> Command) -> Event {
        self.next_op += 1;
        let command = command(OpId(self.next_op));
        self.control.commands.push(command).expect("there is room");
        for _ in 0..400 {
            let sent = self.step();
            assert_eq!(sent, []);
            while let Ok(event) = self.control.events.pop() {
                if matches!(event, Event::Applied { .. } | Event::Queried { .. }) {
                    return event;
                }
            }
        }
        panic!("no answer")
    }

    fn image(&self, rules: &SessionRules, generation: u32) -> Box<SessionImage> {
        let rules = Arc::new(rules.clone());
        let image = rules::compile::compile(&rules, &self.network, &testing::NumberedHops);
        let mut image = image.expect("it compiles");
        (image.session, image.seid) = (SESSION, 2);
        image.classification_generation = generation;
        Box::new(image)
    }

    fn install(&mut self, rules: SessionRules) {
        let change = SessionChange::Install(self.image(&rules, 1));
        match self.ask(|op| Command::Session { op, change }) {
            Event::Applied { outcome, .. } => outcome.expect("it is installed"),
            other => panic!("{other:?}"),
        };
    }

    fn remove(&mut self) -> UsageSnapshot {
        let change = SessionChange::Remove(SESSION);
        match self.ask(|op| Command::Session { op, change }) {
            Event::Applied { outcome, .. } => outcome.expect("it is there").expect("it has counted"),
            other => panic!("{other:?}"),
        }
    }

    fn query(&mut self) -> UsageSnapshot {
        match self.ask(|op| Command::Query { op, session: SESSION }) {
            Event::Queried { outcome, .. } => outcome.expect("it is there"),
            other => panic!("{other:?}"),
        }
    }
}

fn octets(usage: &UsageSnapshot) -> [u64; 2] {
    let [(_, count)] = usage.counters[..] else {
        panic!("one URR, and not {usage:?}")
    };
    [count.ul_octets, count.dl_octets]
}

fn one_through(sent: Vec<Sent>) -> (Box<Through>, Vec<u8>) {
    match <[Sent; 1]>::try_from(sent) {
        Ok([Sent::Through(header, frame)]) => (header, frame),
        other => panic!("one packet with its flow, and not {other:?}"),
    }
}

#[test]
fn a_session_leaves_with_its_first_packet_and_later_ones_go_back_with_their_flow() {
    let mut case = Case::new(OffloadPolicy::default());
    case.install(session());
    let [up, down] = [frame(1, &uplink()), frame(2, &to_ue())];
    let length = from_ue().len() as u64;
    // The first passes here: by a port of the accelerator's.
    let sent = case.miss(0, &up);
    let drops = case.worker.stats().drops;
    assert!(matches!(&sent[..], [Sent::By(1, _)]), "{sent:?} {drops:?}");
    case.settle();
    assert_eq!(case.worker.offload_stats().left, 1);
    // The next ones are decided here, and pass there.
    let (header, whole) = one_through(case.miss(0, &up));
    assert_eq!(
        (header.session, header.port, whole),
        (SESSION, PortId(0), up.clone())
    );
    assert!(matches!(
        case.pass_through(&header, length as u32),
        Fate::Passed { .. }
    ));
    let (header, whole) = one_through(case.miss(1, &down));
    assert_eq!((header.port, whole), (PortId(1), down));
    assert!(matches!(
        case.pass_through(&header, length as u32),
        Fate::Passed { .. }
    ));
    let key = header.flow.key;
    case.pass(&key, 1000);
    // What was counted there is part of what is asked for, and of what is left in the end.
    assert_eq!(octets(&case.query()), [2 * length, length + 1000]);
    assert_eq!(case.worker.offload_stats().away, 1, "it stays away");
    case.pass(&key, 500);
    assert_eq!(octets(&case.remove()), [2 * length, length + 1500]);
    let stats = case.worker.offload_stats();
    assert_eq!((stats.away, stats.returned, stats.lost), (0, 1, 0));
    assert_eq!(case.agent.backend().sessions(), 0);
    assert_eq!(case.worker.stats().unaccounted(), 0);
}

/// Has the session of `rules` leave, and its uplink flow be there; gives the flow's key.
fn away(case: &mut Case, rules: SessionRules) -> AnyKey {
    case.install(rules);
    let up = frame(1, &uplink());
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    case.settle();
    let (header, _) = one_through(case.miss(0, &up));
    assert!(matches!(case.pass_through(&header, 100), Fate::Passed { .. }));
    header.flow.key
}

#[test]
fn a_change_finds_the_session_at_home_and_all_that_was_counted() {
    let mut case = Case::new(OffloadPolicy::default());
    let key = away(&mut case, session());
    case.pass(&key, 900);
    // A handover: the session comes home for it, and leaves again with the next packet.
    let mut rules = session();
    let mut image = |case: &Case, generation| {
        hand_over(&mut rules, OuterHeaderCreation::gtpu_ipv4(Teid(99), GNB));
        case.image(&rules, generation)
    };
    let change = SessionChange::Replace(image(&case, 1), ImmediateActions::default());
    match case.ask(|op| Command::Session { op, change }) {
        Event::Applied { outcome, .. } => outcome.expect("it is there"),
        other => panic!("{other:?}"),
    };
    assert_eq!(case.pass(&key, 5), Fate::Missed, "nothing is left there");
    let own = from_ue().len() as u64;
    assert_eq!(octets(&case.query()), [own + 1000, 0]);
    let down = frame(2, &to_ue());
    assert!(matches!(&case.miss(1, &down)[..], [Sent::By(0, _)]));
    case.settle();
    let (header, _) = one_through(case.miss(1, &down));
    let Fate::Passed { forward, .. } = case.pass_through(&header, 50) else {
        panic!("it passes")
    };
    assert_eq!(forward.template.map(|template| template.teid), Some(99));
    assert_eq!(octets(&case.remove()), [own + 1000, own + 50]);
}

#[test]
fn a_limit_holds_wherever_packets_are_counted() {
    let mut case = Case::new(OffloadPolicy::default());
    let limit = CounterLimit {
        octets: Volumes::of_total(2000),
        action: LimitAction::Drop,
    };
    let bounds = Bounds {
        watermarks: Volumes::of_total(1500),
        limit: Some(limit),
    };
    let mut image = case.image(&session(), 1);
    image.block.get_or_insert_default().bounds = vec![bounds];
    let change = SessionChange::Install(image);
    case.ask(|op| Command::Session { op, change });
    let up = frame(1, &uplink());
    case.miss(0, &up);
    case.settle();
    let own = from_ue().len() as u32;
    let (header, _) = one_through(case.miss(0, &up));
    let key = header.flow.key;
    assert!(matches!(case.pass_through(&header, 1000), Fate::Passed { .. }));
    assert!(case.reached().is_empty());
    assert!(matches!(case.pass(&key, 600), Fate::Passed { .. }));
    case.settle();
    assert_eq!(case.reached(), [u64::from(own) + 1600], "the watermark");
    assert!(
        matches!(case.pass(&key, 400 - own), Fate::Passed { .. }),
        "all that is left"
    );
    assert!(matches!(case.pass(&key, 1), Fate::Dropped(_)));
    case.settle();
    assert_eq!(case.reached(), [2000], "the limit");
    // More is granted: the session comes home for that.
    let more = Bounds {
        watermarks: Volumes::NONE,
        limit: Some(CounterLimit {
            octets: Volumes::of_total(5000),
            ..limit
        }),
    };
    let change = SessionChange::Bound(SESSION, vec![(UrrId(1).into(), more)]);
    case.ask(|op| Command::Session { op, change });
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    assert_eq!(case.worker.offload_stats().away, 0, "it stays for a while");
    case.now = case.now + Duration::from_secs(12);
    case.settle_anyhow();
    case.settle_anyhow();
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    case.settle();
    let (header, _) = one_through(case.miss(0, &up));
    let left = 3000 - 2 * own;
    assert!(matches!(case.pass_through(&header, left), Fate::Passed { .. }));
    assert!(matches!(case.pass(&key, 1), Fate::Dropped(_)));
    assert_eq!(octets(&case.remove()), [5000, 0]);
}

#[test]
fn a_packet_that_does_not_fit_under_a_limit_there_is_reported_at_home() {
    let mut case = Case::new(OffloadPolicy::default());
    let own = from_ue().len() as u64;
    let limit = CounterLimit {
        octets: Volumes::of_total(2 * own + 100),
        action: LimitAction::Drop,
    };
    let bounds = Bounds {
        watermarks: Volumes::NONE,
        limit: Some(limit),
    };
    let mut image = case.image(&session(), 1);
    image.block.get_or_insert_default().bounds = vec![bounds];
    let change = SessionChange::Install(image);
    case.ask(|op| Command::Session { op, change });
    let up = frame(1, &uplink());
    case.miss(0, &up);
    case.settle();
    let (header, _) = one_through(case.miss(0, &up));
    assert!(matches!(case.pass_through(&header, 90), Fate::Passed { .. }));
    assert!(matches!(case.pass(&header.flow.key, 1500), Fate::Dropped(_)));
    case.settle();
    assert_eq!(case.worker.offload_stats().away, 0);
    assert!(case.reached().is_empty(), "nothing has passed");
    // What fits passes, and what does not is reported.
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    assert_eq!(case.miss(0, &up), []);
    assert_eq!(case.reached(), [2 * own + 90]);
    assert_eq!(octets(&case.remove()), [2 * own + 90, 0]);
}

#[test]
fn what_the_accelerator_has_no_room_for_is_this_nodes() {
    let mut case = Case::new(OffloadPolicy::default());
    away(&mut case, session());
    let up = frame(1, &uplink());
    for hops in 0..2 {
        case.except(0, Reason::NoFlow, hops, &up);
        one_through(case.step());
    }
    case.except(0, Reason::NoFlow, 2, &up);
    case.settle_anyhow();
    let stats = case.worker.offload_stats();
    assert_eq!((stats.away, stats.recalled), (0, 1));
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    // The same where a next hop is not known there: it is resolved here.
    case.now = case.now + Duration::from_secs(12);
    case.settle_anyhow();
    case.settle_anyhow();
    case.miss(0, &up);
    case.settle();
    assert_eq!(case.worker.offload_stats().away, 1);
    case.except(0, Reason::Adjacency, 0, &up);
    case.settle_anyhow();
    assert_eq!(case.worker.offload_stats().away, 0);
}

#[test]
fn a_meter_has_one_home() {
    let mut case = Case::new(OffloadPolicy::default());
    let spec = MeterSpec::Single {
        rate: Rate::ZERO,
        burst: 1000,
    };
    let mut image = case.image(&session(), 1);
    image.block.get_or_insert_default().meters = vec![[Some(spec), None]];
    let change = SessionChange::Install(image);
    case.ask(|op| Command::Session { op, change });
    let up = frame(1, &uplink());
    let own = from_ue().len() as u32;
    // On its way it still passes here.
    case.except(0, Reason::NoFlow, 0, &up);
    case.except(0, Reason::NoFlow, 0, &up);
    case.settle_anyhow();
    let (header, _) = one_through(case.miss(0, &up));
    let key = header.flow.key;
    assert!(matches!(case.pass_through(&header, 500), Fate::Passed { .. }));
    assert!(matches!(case.pass(&key, 501 - 2 * own), Fate::Dropped(_)));
    assert!(matches!(case.pass(&key, 450 - 2 * own), Fate::Passed { .. }));
    // It needs this node, and comes home with what is left.
    case.except(0, Reason::OtherHeaders, 0, &up);
    case.settle_anyhow();
    assert_eq!(case.worker.offload_stats().away, 0);
    let left = 50 / own;
    for _ in 0..left {
        assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    }
    let before = case.worker.stats().dropped(DropReason::MeterRed);
    assert_eq!(case.miss(0, &up), []);
    assert_eq!(case.worker.stats().dropped(DropReason::MeterRed), before + 1);
    assert_eq!(octets(&case.remove()), [u64::from(950 + left * own), 0]);
}

#[test]
fn when_the_accelerator_is_lost_sessions_are_here_at_once() {
    let mut case = Case::new(OffloadPolicy::default());
    let key = away(&mut case, session());
    case.pass(&key, 900);
    case.settle();
    // What was not reported is lost, and no more.
    case.pass(&key, 40);
    case.agent = accelerator(77);
    for _ in 0..4000 {
        case.step();
        if case.worker.offload_stats().lost == 1 {
            break;
        }
    }
    let stats = case.worker.offload_stats();
    assert_eq!((stats.lost, stats.away), (1, 0));
    let own = from_ue().len() as u64;
    assert_eq!(octets(&case.query()), [own + 1000, 0]);
    for _ in 0..20_000 {
        case.step();
    }
    let up = frame(1, &uplink());
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    case.settle();
    let (header, _) = one_through(case.miss(0, &up));
    assert!(
        matches!(case.pass_through(&header, 10), Fate::Passed { .. }),
        "a new one takes it"
    );
    assert_eq!(octets(&case.remove()), [2 * own + 1010, 0]);
}

#[test]
fn a_packet_goes_to_and_fro_no_more_often_than_it_may_and_then_its_session_comes() {
    let mut case = Case::new(OffloadPolicy::default());
    away(&mut case, session());
    let up = frame(1, &uplink());
    for hops in 0..7 {
        case.except(0, Reason::NoSession, hops, &up);
        let (header, _) = one_through(case.step());
        assert_eq!(header.hops, hops);
    }
    // It waits until its session is here, and passes.
    case.except(0, Reason::NoSession, 7, &up);
    assert_eq!(case.step(), []);
    assert_eq!(case.worker.offload_stats().recalled, 1);
    let sent: Vec<_> = (0..400).flat_map(|_| case.step()).collect();
    assert!(matches!(&sent[..], [Sent::By(1, _)]), "{sent:?}");
    assert_eq!(case.worker.stats().dropped(DropReason::Away), 0);
}

#[test]
fn packets_wait_in_order_for_a_session_that_comes_home_those_first_that_were_there() {
    let mut case = Case::new(OffloadPolicy::default());
    away(&mut case, session());
    let numbered = |number: u8| {
        let mut up = frame(1, &uplink());
        *up.last_mut().expect("octets") = number;
        up
    };
    case.except(0, Reason::Action, 0, &numbered(2));
    case.except(0, Reason::NoFlow, 0, &numbered(3));
    case.except(0, Reason::Stale, 1, &numbered(0));
    case.except(0, Reason::NoSession, 2, &numbered(1));
    let sent: Vec<_> = (0..400).flat_map(|_| case.step()).collect();
    let numbers = sent.iter().map(|sent| match sent {
        Sent::By(1, frame) => *frame.last().expect("octets"),
        other => panic!("{other:?}"),
    });
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(case.worker.offload_stats().returned, 1);
}

#[test]
fn sessions_that_need_this_node_stay_and_why_is_counted() {
    let mut case = Case::new(OffloadPolicy {
        after_packets: 2,
        ..OffloadPolicy::default()
    });
    let mut rules = session();
    let update = FarUpdate {
        action: Some(ApplyAction::BUFF),
        ..FarUpdate::new(FarId(2))
    };
    rules.update_far(update).expect("it is there");
    case.install(rules);
    let up = frame(1, &uplink());
    for _ in 0..2 {
        assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    }
    assert_eq!(
        case.worker.offload_stats().stays,
        [0; Stays::ALL.len()],
        "not yet"
    );
    for _ in 0..3 {
        assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    }
    let stays = case.worker.offload_stats().stays;
    assert_eq!((stays[Stays::Action as usize], stays.iter().sum::<u64>()), (3, 3));
    assert_eq!(case.agent.backend().sessions(), 0);
    // This accelerator clamps no segment sizes.
    let network = testing::network_with(|instance| instance.mss = Mss::Auto);
    let mut case = Case::on(host_in(&network, OffloadPolicy::default()));
    case.install(session());
    assert!(matches!(&case.miss(0, &up)[..], [Sent::By(1, _)]));
    assert_eq!(case.worker.offload_stats().stays[Stays::Capability as usize], 1);
    assert_eq!(case.agent.backend().sessions(), 0);
}

#[test]
fn a_session_leaves_when_enough_packets_have_passed_that_the_policy_names() {
    let length = from_ue().len() as u32;
    let instance = testing::network().instances()[0].id;
    let with = |change: &dyn Fn(&mut OffloadPolicy)| {
        let mut policy = OffloadPolicy::default();
        change(&mut policy);
        policy
    };
    let named = |policy: &mut OffloadPolicy| {
        (policy.qfis, policy.instances) = (Some(1 << 9), Some(vec![instance]));
    };
    for (policy, packets) in [
        (with(&|_| {}), Some(1)),
        (with(&|policy| policy.after_octets = 2 * length), Some(3)),
        (with(&named), Some(1)),
        (with(&|policy| policy.qfis = Some(!(1 << 9))), None),
        (
            with(&|policy| policy.instances = Some(vec![InstanceId(99)])),
            None,
        ),
    ] {
        let mut case = Case::new(policy.clone());
        case.install(session());
        let left = (1..=5).find(|_| {
            case.miss(0, &frame(1, &uplink()));
            case.settle_anyhow();
            case.worker.offload_stats().left == 1
        });
        assert_eq!(left, packets, "{policy:?}");
    }
}

#[test]
fn a_marker_comes_back_behind_what_came_before_it() {
    let mut case = Case::new(OffloadPolicy::default());
    case.install(session());
    let up = frame(1, &uplink());
    for number in 1..4 {
        case.except(0, Reason::NoFlow, 0, &up);
        case.except(0, Reason::NoFlow, 0, &up);
        case.marker(number);
        case.except(0, Reason::NoFlow, 0, &up);
        let mut sent = Vec::new();
        for _ in 0..4 {
            sent.extend(case.step());
        }
        let place = sent.iter().position(|sent| *sent == Sent::Marker(number));
        assert!(place.is_some_and(|place| place >= 2), "{sent:?}");
        assert_eq!(sent.len(), 4);
    }
}

#[test]
fn frames_of_others_are_none_of_the_accelerators() {
    let mut case = Case::new(OffloadPolicy::default());
    case.install(session());
    let up = frame(1, &uplink());
    let mut forged = Vec::new();
    // Of another station; by a port that it has not; of octets that are no header.
    case.except(0, Reason::NoFlow, 0, &up);
    let queue = case.wires.to(WorkerId(0), TOWARDS);
    let mut octets = queue.pop().expect("it is there").bytes().to_vec();
    let good = octets.clone();
    octets[11] ^= 1;
    forged.push(octets.clone());
    case.except(900, Reason::NoFlow, 0, &up);
    let queue = case.wires.to(WorkerId(0), TOWARDS);
    forged.push(queue.pop().expect("it is there").bytes().to_vec());
    for length in 0..good.len() {
        forged.push(good[..length].to_vec());
    }
    for at in 14..14 + Exception::LEN {
        let mut changed = good.clone();
        changed[at] = 0xff;
        forged.push(changed);
    }
    for octets in forged {
        if !octets.is_empty() {
            case.push(&octets);
        }
        // What is changed may still be a header, and then it is that of a packet; nothing else comes of it.
        for sent in case.step() {
            assert!(matches!(sent, Sent::By(..) | Sent::Through(..)), "{sent:?}");
        }
    }
    assert_eq!(case.worker.stats().unaccounted(), 0);
}
