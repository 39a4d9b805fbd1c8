//! Several workers and the accelerator's node that they drive, on a wire of memory: together they forward what one
//! worker does alone, each flow in order, and count the same; also while sessions move between the workers.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, LocalId, Nanos, OpId, PortId, Seed, SessionIndex, WorkerId, bucket};
use offload::channel::{Channel, ChannelConfig, Key, Role};
use offload::codec::HostCapabilities;
use offload::in_band::{InBand, host_greeting};
use packet::Teid;
use proptest::prelude::*;
use rules::image::{ImmediateActions, SessionChange, SessionImage, UsageSnapshot};
use rules::network::Network;
use rules::testing;
use rules::{SessionRules, compile};
use worker::accelerator::{EngineConfig, Node, NodeConfig};
use worker::behind_accelerator::{AcceleratorPort, BehindAccelerator, LinkEnds};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{
    Command, ControlEnd, Event, OffloadPolicy, PollReport, Worker, WorkerConfig, WorkerSelectionChange,
    WorkerSelectionKey, control_channel,
};

use crate::accelerated::{by_flow, counts, of, packet, with_option};
use crate::common::{World, frame, next_hops, our_mac};
use crate::offload::{ACCELERATOR, BUFFERS, HOST, TOWARDS, behind, random};
use crate::partial_mode::Mode;

/// Ports of the network, from 0 on; behind them the node's port towards its host.
const PORTS: u16 = 4;
const STEP: Duration = Duration::from_micros(20);
/// Their addresses are in buckets of all workers.
pub const UES: u32 = 6;
/// The first channel.
const FIRST: u8 = 3;

/// Of this number of frames of the link one is lost, each way.
#[derive(Clone, Copy, Debug)]
pub enum Lossy {
    None,
    Control(u32),
    Markers(u32),
    Questions(u32),
}

pub struct Team {
    pub hosts: Vec<Worker<BehindAccelerator<MemIo>>>,
    controls: Vec<ControlEnd>,
    network: Arc<Network>,
    host_wires: Wires,
    pub node: Node<MemIo>,
    node_wires: Wires,
    /// What the last polls of the workers did.
    reports: Vec<PollReport>,
    now: Nanos,
    next_op: u64,
    lossy: Lossy,
    /// Where frames of the link come in that no program has sorted: the queue of this worker.
    pub receives: u16,
    draws: u32,
    /// Whether frames of the host are kept, and those that were.
    keeps: bool,
    kept: Vec<Vec<u8>>,
    pub owners: Vec<WorkerId>,
    /// Final counts of sessions that have moved, by session.
    before: BTreeMap<u32, Vec<[u64; 4]>>,
}

fn channel(role: Role, number: u8, greeting: Vec<u8>) -> ChannelConfig {
    let (mac, boot) = match role {
        Role::Host => (HOST, 5),
        Role::Accelerator => (ACCELERATOR, 9),
    };
    let key = Key::new(vec![7; 32]).expect("32 octets");
    ChannelConfig {
        capabilities: greeting,
        ..ChannelConfig::new(role, number, mac, key, boot)
    }
}

fn node(io: MemIo, mode: Mode, flows: usize) -> Node<MemIo> {
    let macs = (0..=PORTS).map(our_mac).collect();
    let engine = EngineConfig::new(Default::default(), macs, PortId(PORTS), Seed([3, 4]));
    let mut config = NodeConfig::new(engine, channel(Role::Accelerator, FIRST, Vec::new()));
    config.engine.max_sessions = 64;
    (config.engine.max_flows_v4, config.engine.max_flows_v6) = (flows, flows);
    config.counts_every = Duration::from_millis(1);
    config.is_partial = mode.is_of_accelerator();
    let node = Node::new(config, io, random(9)).expect("a node");
    node.with_channels((10..14).map(random)).expect("channels")
}

impl Team {
    fn new(workers: usize, lossy: Lossy) -> Self {
        Self::in_mode(workers, lossy, Mode::Full)
    }

    pub fn in_mode(workers: usize, lossy: Lossy, mode: Mode) -> Self {
        Self::with_flows(workers, lossy, mode, 1024)
    }

    /// The same, where the accelerator has room for this number of flows.
    pub fn with_flows(workers: usize, lossy: Lossy, mode: Mode, flows: usize) -> Self {
        let network = Arc::new(behind(&testing::network()));
        let (host_wires, ios) = Wires::new(workers, 1, 4096);
        let (node_wires, mut node_ios) = Wires::new(1, usize::from(PORTS) + 1, 4096);
        let (mut hosts, mut controls) = (Vec::new(), Vec::new());
        for ((number, io), ends) in (0..).zip(ios).zip(LinkEnds::between(workers)) {
            let host = HostCapabilities::new(true).with_channels(workers as u8);
            let greeting = host_greeting(mode.host(host));
            let channel = channel(Role::Host, FIRST + number as u8, greeting);
            let channel = Channel::new(channel, random(20 + u64::from(number))).expect("it is right");
            let towards = AcceleratorPort {
                port: TOWARDS,
                ports: PORTS,
                mac: HOST,
                vlan: None,
                mtu: 9000,
            };
            let io = BehindAccelerator::new(io, towards, InBand::new(channel)).with_ends(ends);
            let macs = (0..=PORTS).map(our_mac).collect();
            let id = WorkerId(number);
            let mut config = WorkerConfig::new(id, workers as u16, Arc::clone(&network), macs, Seed([7, 9]));
            (config.max_sessions, config.own_sessions) = (4096, 4096);
            (config.max_flows_v4, config.max_flows_v6) = (8192, 8192);
            config.max_adjacencies = 1024;
            config.buffers = BUFFERS;
            config.offload = Some(OffloadPolicy {
                stays_for: Duration::from_secs(2),
                ..mode.policy()
            });
            let (control, end) = control_channel(512, 512);
            hosts.push(Worker::new(config, io, end).expect("there is memory"));
            controls.push(control);
        }
        let mut team = Self {
            hosts,
            controls,
            network,
            host_wires,
            node: node(node_ios.remove(0), mode, flows),
            node_wires,
            reports: Vec::new(),
            now: Nanos::from_secs(100),
            next_op: 0,
            lossy,
            receives: 0,
            draws: 0,
            keeps: false,
            kept: Vec::new(),
            owners: Vec::new(),
            before: BTreeMap::new(),
        };
        team.meet_next_hops();
        team.make_contact();
        for index in 0..UES {
            team.settle_ue(index, WorkerId((index as usize % workers) as u16));
        }
        team.rest();
        team
    }

    /// Until there is contact by all channels, and the accelerator knows the network.
    fn make_contact(&mut self) {
        let is_ready = |host: &Worker<BehindAccelerator<MemIo>>| {
            host.accelerator_view().is_some_and(|view| view.is_ready)
        };
        for _ in 0..200_000 {
            self.step();
            if self.hosts.iter().all(is_ready) {
                return self.rest();
            }
        }
        panic!("no contact");
    }

    fn tell_all(&mut self, command: impl Fn() -> Command) {
        for control in &mut self.controls {
            control.commands.push(command()).expect("there is room");
        }
        (0..3).for_each(|_| self.step());
    }

    fn meet_next_hops(&mut self) {
        let all = next_hops(&self.network);
        let is_ipv4 = |change: &&transport::AdjacencyChange| {
            change.neighbour.is_some_and(|(_, address)| address.is_ipv4())
        };
        for change in all.iter().filter(is_ipv4) {
            self.tell_all(|| Command::Adjacency(*change));
        }
    }

    /// The bucket of a session: that of its address.
    fn bucket_of(index: u32) -> Bucket {
        bucket::of_address(IpAddr::from(of(index).0))
    }

    /// A session's bucket is a worker's; its TEID is an exception that names it.
    fn settle_ue(&mut self, index: u32, owner: WorkerId) {
        let bucket = Self::bucket_of(index);
        self.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
        let key = WorkerSelectionKey::Tunnel(LocalId(0), Teid(of(index).1));
        let bucket = Some(bucket);
        self.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Exception { key, bucket }));
        self.owners.push(owner);
        let image = self.image(index, of(index).2);
        self.apply(owner, SessionChange::Install(image));
    }

    fn image(&self, index: u32, rules: SessionRules) -> Box<SessionImage> {
        let image = compile::compile(&rules.into(), &self.network, &testing::NumberedHops);
        let mut image = image.expect("it compiles");
        (image.session, image.seid) = (SessionIndex(index), u64::from(index) + 1);
        Box::new(image)
    }

    fn is_lost(&mut self, octets: &[u8]) -> bool {
        let is_control = octets.get(12..14) == Some(&[0x88, 0xb5]);
        let kind = octets.get(15).copied().unwrap_or_default();
        let of = match self.lossy {
            Lossy::Control(of) if is_control => of,
            Lossy::Markers(of) if !is_control && matches!(kind, 2 | 0x83) => of,
            Lossy::Questions(of) if !is_control && matches!(kind, 3 | 0x84) => of,
            _ => return false,
        };
        self.draws = self.draws.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (self.draws >> 8).is_multiple_of(of)
    }

    pub fn step(&mut self) {
        self.now = self.now + STEP;
        let now = self.now;
        self.reports = self.hosts.iter_mut().map(|host| host.poll(now)).collect();
        while let Some(buf) = self.host_wires.from(TOWARDS).pop() {
            if self.keeps {
                self.kept.push(buf.bytes().to_vec());
            }
            if !self.is_lost(buf.bytes()) {
                let queue = self.node_wires.to(WorkerId(0), PortId(PORTS));
                queue.push(MemBuf::new(buf.bytes())).expect("there is room");
            }
        }
        self.node.poll(self.now);
        while let Some(buf) = self.node_wires.from(PortId(PORTS)).pop() {
            if !self.is_lost(buf.bytes()) {
                let queue = self.host_wires.to(WorkerId(self.receives), TOWARDS);
                queue.push(MemBuf::new(buf.bytes())).expect("there is room");
            }
        }
    }

    pub fn rest(&mut self) {
        (0..1_000).for_each(|_| self.step());
        let mut more = 0..100_000;
        while self.node.engine().stats().settling.held > 0 && more.next().is_some() {
            self.step();
        }
    }

    pub fn arrive(&mut self, port: u16, packet: &[u8]) {
        let queue = self.node_wires.to(WorkerId(0), PortId(port));
        let frame = MemBuf::new(&frame(port + 1, packet));
        queue.push(frame).expect("there is room on the wire");
    }

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

    fn ask(&mut self, worker: WorkerId, command: impl FnOnce(OpId) -> Command) -> Event {
        self.next_op += 1;
        let place = worker.index();
        let command = command(OpId(self.next_op));
        self.controls[place]
            .commands
            .push(command)
            .expect("there is room");
        for _ in 0..200_000 {
            self.step();
            while let Ok(event) = self.controls[place].events.pop() {
                if matches!(
                    event,
                    Event::Applied { .. } | Event::Queried { .. } | Event::Fenced { .. }
                ) {
                    return event;
                }
            }
        }
        panic!("no answer")
    }

    fn apply(&mut self, worker: WorkerId, change: SessionChange) -> Option<UsageSnapshot> {
        match self.ask(worker, |op| Command::Session { op, change }) {
            Event::Applied { outcome, .. } => outcome.expect("it is applied"),
            other => panic!("{other:?}"),
        }
    }

    /// What is counted of a session, where it is and where it was.
    pub fn query(&mut self, index: u32) -> Vec<[u64; 4]> {
        let session = SessionIndex(index);
        let owner = self.owners[index as usize];
        match self.ask(owner, |op| Command::Query { op, session }) {
            Event::Queried { outcome, .. } => self.in_all(index, &counts(&outcome.expect("it is there"))),
            other => panic!("{other:?}"),
        }
    }

    fn in_all(&self, index: u32, now: &[[u64; 4]]) -> Vec<[u64; 4]> {
        match self.before.get(&index) {
            None => now.to_vec(),
            Some(before) => sum(before, now),
        }
    }

    /// Moves the bucket of a session to another worker, as control does.
    pub fn move_session(&mut self, index: u32, to: WorkerId) {
        let from = self.owners[index as usize];
        if from == to {
            return;
        }
        let image = self.image(index, of(index).2);
        self.apply(to, SessionChange::Install(image));
        let bucket = Self::bucket_of(index);
        let owner = to;
        self.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
        let drained = self.ask(from, |op| Command::Drain { op });
        assert!(matches!(drained, Event::Fenced { outcome: Ok(()), .. }));
        let last = self.apply(from, SessionChange::Remove(SessionIndex(index)));
        let last = counts(&last.expect("it has counted"));
        let all = self.in_all(index, &last);
        self.before.insert(index, all);
        self.owners[index as usize] = to;
    }

    pub fn away(&self) -> u64 {
        self.hosts.iter().map(|host| host.offload_stats().away).sum()
    }
}

fn sum(one: &[[u64; 4]], other: &[[u64; 4]]) -> Vec<[u64; 4]> {
    let both = one.iter().zip(other);
    both.map(|(one, other)| std::array::from_fn(|at| one[at] + other[at]))
        .collect()
}

#[derive(Clone, Debug)]
pub enum Step {
    Packet {
        ue: u32,
        flow: u16,
        is_uplink: bool,
    },
    WithOption(u32),
    Polls(u16),
    Query(u32),
    Replace(u32),
    /// To the worker of this number behind its own.
    Move(u32, u16),
}

pub fn steps(moves: u32) -> impl Strategy<Value = Vec<Step>> {
    let packet = (0..UES, 0..3_u16, any::<bool>());
    let packet = packet.prop_map(|(ue, flow, is_uplink)| Step::Packet { ue, flow, is_uplink });
    let step = prop_oneof![
        24 => packet,
        8 => (1..400_u16).prop_map(Step::Polls),
        2 => (0..UES).prop_map(Step::WithOption),
        2 => (0..UES).prop_map(Step::Query),
        2 => (0..UES).prop_map(Step::Replace),
        moves => (0..UES, 1..3_u16).prop_map(|(ue, by)| Step::Move(ue, by)),
    ];
    prop::collection::vec(step, 1..250)
}

/// Runs steps through workers with their node, and through a worker alone.
pub fn compare(mut team: Team, receives: u16, all: &[Step]) -> Result<(), TestCaseError> {
    let workers = team.hosts.len();
    team.receives = receives;
    let mut alone = World::with(testing::network(), 1, |config| config.buffers = BUFFERS);
    for index in 0..UES {
        alone.install(index, of(index).2);
    }
    alone.poll();
    alone.take();
    team.take();
    let (mut expected, mut sent, mut is_moved) = (Vec::new(), Vec::new(), false);
    for (number, step) in (0..).zip(all) {
        match *step {
            Step::Packet { ue, flow, is_uplink } => {
                let (port, packet) = packet(ue, flow, is_uplink, number);
                expected.extend(alone.send(port, &packet));
                team.arrive(port, &packet);
            }
            Step::WithOption(ue) => {
                let packet = with_option(ue, number);
                expected.extend(alone.send(0, &packet));
                team.arrive(0, &packet);
            }
            Step::Replace(ue) => {
                let image = team.image(ue, of(ue).2);
                let owner = team.owners[ue as usize];
                team.apply(owner, SessionChange::Replace(image, ImmediateActions::default()));
            }
            Step::Polls(polls) => (0..polls).for_each(|_| team.step()),
            Step::Move(ue, by) => {
                is_moved = true;
                let owner = team.owners[ue as usize];
                team.move_session(ue, WorkerId((owner.0 + by) % workers as u16));
            }
            Step::Query(ue) => {
                team.rest();
                let both = team.query(ue);
                let one = counts(&alone.query(0, SessionIndex(ue)));
                prop_assert_eq!(both, one, "at step {}", number);
            }
        }
        sent.extend(team.take());
    }
    team.rest();
    sent.extend(team.take());
    let sorted = |frames: &[(PortId, Vec<u8>)]| {
        let mut frames = frames.to_vec();
        frames.sort();
        frames
    };
    if !is_moved {
        prop_assert_eq!(by_flow(&sent), by_flow(&expected));
    }
    prop_assert_eq!(sorted(&sent), sorted(&expected), "octet by octet");
    for index in 0..UES {
        let owner = team.owners[index as usize];
        let last = team.apply(owner, SessionChange::Remove(SessionIndex(index)));
        let both = team.in_all(index, &counts(&last.expect("it has counted")));
        let alone = alone.apply(0, SessionChange::Remove(SessionIndex(index)));
        let one = alone.expect("it is there").expect("it has counted");
        prop_assert_eq!(both, counts(&one));
    }
    let lost: u64 = team.hosts.iter().map(|host| host.offload_stats().lost).sum();
    prop_assert_eq!(lost, 0, "contact was there all the time");
    let foreign: u64 = team
        .hosts
        .iter()
        .filter_map(|host| Some(host.accelerator_view()?.port.foreign))
        .sum();
    prop_assert_eq!(foreign, 0);
    Ok(())
}

#[test]
fn sessions_of_all_workers_pass_at_the_accelerator() {
    for (workers, receives) in [(2, 0), (2, 1), (3, 0)] {
        let mut team = Team::new(workers, Lossy::None);
        team.receives = receives;
        assert_eq!(team.node.agent().channels(), workers);
        let mut number = 0;
        let mut send = |team: &mut Team, rounds: u32| {
            for _ in 0..rounds {
                for ue in 0..UES {
                    let (port, packet) = packet(ue, 1, number % 2 == 0, number);
                    team.arrive(port, &packet);
                    number += 1;
                }
                (0..20).for_each(|_| team.step());
            }
            team.rest();
        };
        send(&mut team, 6);
        assert_eq!(team.away(), u64::from(UES));
        for (place, host) in team.hosts.iter().enumerate() {
            let away = host.offload_stats().away;
            let owned = team.owners.iter().filter(|owner| owner.index() == place).count();
            assert_eq!(away, owned as u64, "worker {place}");
            let view = &team.node.view().channels[place];
            assert_eq!((view.channel, view.sessions), (FIRST + place as u8, owned));
        }
        let exceptions = |team: &Team| team.node.view().exceptions.iter().sum::<u64>();
        let before = exceptions(&team);
        team.take();
        send(&mut team, 100);
        assert_eq!(exceptions(&team), before, "none is a host's");
        assert_eq!(team.take().len(), 100 * UES as usize);
        for ue in 0..UES {
            let counted = team.query(ue);
            assert_eq!(counted[0][2] + counted[0][3], 106, "each is counted once");
        }
        let handed: u64 = team.hosts.iter().map(|host| host.stats().handed_over).sum();
        assert_eq!(handed, 0, "packets came to their workers at once");
    }
}

#[test]
fn first_packets_of_all_workers_sessions_are_answered() {
    let mut team = Team::new(3, Lossy::None);
    for round in 0..2_u32 {
        for ue in 0..UES {
            let (port, packet) = packet(ue, 0, true, round * UES + ue);
            team.arrive(port, &packet);
        }
        team.rest();
    }
    assert_eq!(team.away(), u64::from(UES));
    let before: Vec<u64> = team.hosts.iter().map(answered).collect();
    // Those of the other direction have another flow.
    for ue in 0..UES {
        let (port, packet) = packet(ue, 0, false, 100 + ue);
        team.arrive(port, &packet);
    }
    team.rest();
    for (place, host) in team.hosts.iter().enumerate() {
        assert_eq!(
            answered(host) - before[place],
            2,
            "two sessions of worker {place}"
        );
    }
    assert_eq!(team.take().len(), 3 * UES as usize);
}

fn answered(host: &Worker<BehindAccelerator<MemIo>>) -> u64 {
    host.accelerator_view().map_or(0, |view| view.port.answered)
}

#[test]
fn what_one_worker_has_sent_is_not_taken_as_anothers() {
    let mut team = Team::new(2, Lossy::None);
    team.keeps = true;
    for round in 0..4_u32 {
        for ue in 0..UES {
            for flow in 0..2_u16 {
                let (port, packet) = packet(ue, flow, true, round * 100 + ue * 2 + u32::from(flow));
                team.arrive(port, &packet);
            }
        }
        team.rest();
    }
    team.keeps = false;
    team.take();
    let flows = team.node.engine().stats().flows;
    let before = *team.node.stats();
    let discarded = team.node.view().discarded;
    let kept = std::mem::take(&mut team.kept);
    let is_authentic = |frame: &&Vec<u8>| frame[12..14] == [0x88, 0xb6] && matches!(frame[15], 0x82 | 0x84);
    let (mut sealed, mut control) = (0, 0);
    for frame in &kept {
        let mut relabelled = frame.clone();
        match is_authentic(&frame) {
            true => sealed += 1,
            false if frame[12..14] == [0x88, 0xb5] => control += 1,
            false => continue,
        }
        // Version and type, or version and kind, are in front of the channel's number.
        relabelled[16] = 2 * FIRST + 1 - relabelled[16];
        let queue = team.node_wires.to(WorkerId(0), PortId(PORTS));
        queue.push(MemBuf::new(&relabelled)).expect("there is room");
        team.step();
    }
    assert!(sealed >= 4 && control > 10, "{sealed} {control}");
    let after = *team.node.stats();
    assert_eq!(after.forged - before.forged, sealed);
    assert_eq!((after.through, after.answers), (before.through, before.answers));
    assert!(team.node.view().discarded - discarded >= control);
    assert_eq!(team.node.engine().stats().flows, flows);
    assert!(team.take().is_empty(), "no packet has passed by it");
    // The same as it was is a repetition.
    for frame in kept.iter().filter(is_authentic) {
        let queue = team.node_wires.to(WorkerId(0), PortId(PORTS));
        queue.push(MemBuf::new(frame)).expect("there is room");
        team.step();
    }
    assert_eq!(team.node.stats().replayed - before.replayed, sealed);
    assert!(team.take().is_empty());
    assert_eq!(team.away(), u64::from(UES));
}

#[test]
fn when_a_worker_is_not_heard_of_its_sessions_are_at_home_and_leave_again() {
    let mut team = Team::new(2, Lossy::None);
    let mut number = 0;
    let mut round = |team: &mut Team| {
        for ue in 0..UES {
            let (port, packet) = packet(ue, 1, true, number);
            team.arrive(port, &packet);
            number += 1;
        }
        team.rest();
    };
    (0..3).for_each(|_| round(&mut team));
    assert_eq!(team.away(), u64::from(UES));
    let lost = |team: &Team| {
        team.hosts
            .iter()
            .map(|host| host.offload_stats().lost)
            .sum::<u64>()
    };
    // The second worker stands still for longer than contact lasts.
    let mut second = team.hosts.remove(1);
    let end = team.now + Duration::from_millis(120);
    while team.now < end {
        team.step();
    }
    assert_eq!(
        (
            team.hosts[0].offload_stats().lost,
            team.hosts[0].offload_stats().away
        ),
        (0, 3),
        "the first one's stay away"
    );
    second.poll(team.now);
    team.hosts.push(second);
    // It notices that, and makes contact anew.
    (0..10).for_each(|_| team.rest());
    team.make_contact();
    team.take();
    (0..4).for_each(|_| round(&mut team));
    assert_eq!(team.away(), u64::from(UES));
    assert_eq!(lost(&team), u64::from(UES) - 3);
    assert_eq!(team.take().len(), 4 * UES as usize, "none is lost");
}

#[test]
fn a_poll_that_only_passes_on_is_not_idle() {
    let mut team = Team::new(2, Lossy::None);
    let (port, packet) = packet(1, 1, true, 0);
    team.arrive(port, &packet);
    let (mut polls, received) = (0, team.hosts[0].stats().rx());
    for _ in 0..2_000 {
        let before = team.hosts[0].passed_on();
        team.step();
        if team.hosts[0].passed_on() > before {
            polls += 1;
            assert!(!team.reports[0].is_idle());
        }
    }
    assert!(polls > 1);
    assert_eq!(team.hosts[0].stats().rx(), received, "none was its own");
    assert_eq!(team.take().len(), 1);
}

/// An exception frame about a packet of a session, on its way to the host.
fn exception_of(team: &mut Team, ue: u32) -> Vec<u8> {
    team.arrive(0, &with_option(ue, 0));
    for _ in 0..50 {
        team.now = team.now + STEP;
        team.node.poll(team.now);
        while let Some(buf) = team.node_wires.from(PortId(PORTS)).pop() {
            let frame = buf.bytes();
            if frame[12..14] == [0x88, 0xb6] && frame[15] == 1 {
                return frame.to_vec();
            }
        }
    }
    panic!("no exception")
}

#[test]
fn the_first_worker_sorts_some_at_a_time_and_fills_no_ring() {
    let mut team = Team::new(2, Lossy::None);
    let frame = exception_of(&mut team, 1);
    let lost = |team: &Team| team.hosts[0].accelerator_view().map_or(0, |view| view.port.lost);
    // The second worker takes nothing meanwhile.
    let flood = |team: &mut Team, packets: u32| {
        let before = (team.hosts[0].passed_on(), lost(team));
        for _ in 0..packets {
            let queue = team.host_wires.to(WorkerId(0), TOWARDS);
            queue.push(MemBuf::new(&frame)).expect("there is room");
        }
        for _ in 0..10 {
            let passed = team.hosts[0].passed_on();
            let report = team.hosts[0].poll(team.now);
            let passed = team.hosts[0].passed_on() - passed;
            assert!(passed <= 8 * 64, "bursts of a poll");
            assert!(passed == 0 || !report.is_idle());
        }
        (team.hosts[0].passed_on() - before.0, lost(team) - before.1)
    };
    assert_eq!(flood(&mut team, 1_500), (1_500, 0));
    assert_eq!(flood(&mut team, 600), (292, 308), "256 places are left");
    assert_eq!(flood(&mut team, 3_000), (0, 3_000));
    // What waits there is taken, and all continues.
    team.rest();
    team.take();
    let (port, packet) = packet(1, 1, true, 9);
    team.arrive(port, &packet);
    team.rest();
    assert_eq!(team.take().len(), 1);
    let lives: Vec<u64> = team.hosts.iter().map(|host| host.offload_stats().lost).collect();
    assert_eq!(lives, [0, 0]);
}

#[test]
fn a_bucket_moves_while_its_session_is_away() {
    let mut team = Team::new(2, Lossy::None);
    let mut number = 0;
    let mut some = |team: &mut Team, rounds: u32| {
        for _ in 0..rounds {
            let (port, packet) = packet(0, 1, true, number);
            team.arrive(port, &packet);
            number += 1;
            (0..5).for_each(|_| team.step());
        }
    };
    some(&mut team, 50);
    team.rest();
    assert_eq!(team.hosts[0].offload_stats().away, 1);
    let image = team.image(0, of(0).2);
    team.apply(WorkerId(1), SessionChange::Install(image));
    let bucket = Team::bucket_of(0);
    let owner = WorkerId(1);
    team.tell_all(|| Command::SelectWorker(WorkerSelectionChange::Bucket { bucket, owner }));
    // The known flow, and that of the other direction: the new worker may not give the session, which the old one has
    // there.
    for is_uplink in [true, false] {
        let (port, packet) = packet(0, 1, is_uplink, 1_000);
        team.arrive(port, &packet);
        team.rest();
    }
    assert!(team.node.agent().stats().of_others > 0);
    assert_eq!(team.hosts[1].offload_stats().refused, 1);
    let last = team.apply(WorkerId(0), SessionChange::Remove(SessionIndex(0)));
    let last = counts(&last.expect("it has counted"));
    team.before.insert(0, last.clone());
    team.owners[0] = WorkerId(1);
    assert_eq!(
        last[0][2] + last[0][3],
        51,
        "what passed there was the old worker's"
    );
    assert_eq!(team.hosts[0].offload_stats().away, 0);
    // Those that stay for a while may leave again.
    team.now = team.now + Duration::from_secs(3);
    team.rest();
    some(&mut team, 50);
    team.rest();
    assert_eq!(team.hosts[1].offload_stats().away, 1);
    let counted = team.query(0);
    assert_eq!(counted[0][2] + counted[0][3], 102);
    assert_eq!(team.take().len(), 102);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn workers_forward_what_one_does_alone(all in steps(0), workers in 2..4_usize, receives in 0..2_u16) {
        compare(Team::new(workers, Lossy::None), receives, &all)?;
    }

    #[test]
    fn they_do_so_when_frames_are_lost(all in steps(0), workers in 2..4_usize, kind in 0..3_u8, of in 3..8_u32) {
        let lossy = match kind {
            0 => Lossy::Control(of),
            1 => Lossy::Markers(of),
            _ => Lossy::Questions(of),
        };
        compare(Team::new(workers, lossy), 0, &all)?;
    }

    #[test]
    fn no_packet_is_lost_or_counted_twice_while_buckets_move(all in steps(3), workers in 2..4_usize) {
        compare(Team::new(workers, Lossy::None), 0, &all)?;
    }

    #[test]
    fn nor_when_control_frames_are_lost(all in steps(3), workers in 2..4_usize, of in 3..20_u32) {
        compare(Team::new(workers, Lossy::Control(of)), 0, &all)?;
    }
}
