//! A world on one thread for the tests of the packet path: workers over memory, and the least of a Control.

#![allow(dead_code, reason = "each test uses its part")]

pub mod beside;
pub mod buffering;
pub mod first_payloads;
pub mod one_session;

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::{
    AdjacencyId, ContentUsage, InstanceId, Nanos, OpId, PortId, Seed, SessionGroupId, SessionGroupTotal,
    SessionIndex, WorkerId,
};
use packet::MacAddr;
use rules::Adjacencies;
use rules::compile::compile;
use rules::image::{ImmediateActions, SessionChange, SessionImage, UsageSnapshot};
use rules::network::multipath::{GroupId, PATHS, next_of};
use rules::network::{Instance, Network};
use rules::testing::{self, NumberedHops};
use rules::{CompileError, SessionRules};
use transport::{Adjacency, AdjacencyChange};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{ApplyError, Command, ControlEnd, Event, Worker, WorkerConfig, control_channel, interface};

/// The station at the other end of every link that sends to us.
pub const PEER_MAC: MacAddr = MacAddr([2, 0xee, 0, 0, 0, 0x99]);

/// Every next hop that a packet in the test network may take.
pub const NEXT_HOPS: [(u16, &str); 9] = [
    (0, "10.0.3.254"),
    (0, "2001:db8:3::fe"),
    (0, "10.0.3.7"),
    (1, "10.0.6.254"),
    (1, "2001:db8:6::fe"),
    (1, "10.0.6.9"),
    (2, "10.0.9.254"),
    (3, "10.1.6.254"),
    (3, "10.1.6.9"),
];

/// Our address on a port.
pub fn our_mac(port: u16) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port as u8])
}

/// The station that the tests put at a next hop.
pub fn mac_of(instance: InstanceId, next_hop: IpAddr) -> MacAddr {
    let id = NumberedHops
        .resolve(instance, next_hop)
        .expect("it numbers every next hop");
    MacAddr([2, 0, 0, 1, (id.0 >> 8) as u8, id.0 as u8])
}

/// `packet` in an Ethernet frame to our port, padded as Ethernet asks for.
pub fn frame(port: u16, packet: &[u8]) -> Vec<u8> {
    let ether_type: [u8; 2] = if packet.first().is_some_and(|first| first >> 4 == 6) {
        [0x86, 0xdd]
    } else {
        [8, 0]
    };
    let mut frame = [&our_mac(port).0[..], &PEER_MAC.0, &ether_type, packet].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The adjacencies of all next hops in a network, as control reports them to workers.
pub fn next_hops(network: &Network) -> Vec<AdjacencyChange> {
    let macs: Vec<MacAddr> = (0..16).map(our_mac).collect();
    let known = |(instance, address): (u16, &str)| {
        let (instance, address) = (InstanceId(instance), address.parse().expect("an address"));
        let interface = interface(network.instance(instance)?, &macs);
        Some(AdjacencyChange {
            id: NumberedHops
                .resolve(instance, address)
                .expect("it numbers every next hop"),
            neighbour: Some((instance, address)),
            adjacency: Some(Adjacency::resolved(&interface, mac_of(instance, address))),
        })
    };
    NEXT_HOPS.into_iter().filter_map(known).collect()
}

/// The same next hop while no station answers for it.
pub fn unresolved(network: &Network, change: AdjacencyChange) -> AdjacencyChange {
    let macs: Vec<MacAddr> = (0..16).map(our_mac).collect();
    let (instance, _) = change.neighbour.expect("a next hop");
    let configured = network.instance(instance).expect("an instance");
    AdjacencyChange {
        adjacency: Some(Adjacency::unresolved(&interface(configured, &macs))),
        ..change
    }
}

/// The adjacencies of the paths of all groups, as control reports them to workers while these next hops answer.
pub fn paths(network: &Network, does_answer: impl Fn(IpAddr) -> bool) -> Vec<AdjacencyChange> {
    let macs: Vec<MacAddr> = (0..16).map(our_mac).collect();
    let of_path = |group: GroupId, path| {
        let hops = &network.groups()[usize::from(group.0)];
        let known = next_of(path, hops.len(), |place| does_answer(hops[place].1));
        let place = known.or_else(|| next_of(path, hops.len(), |_| true));
        let (instance, address) = hops[place.expect("a path leads somewhere")];
        let configured = network.instance(instance).expect("an instance");
        let interface = interface(configured, &macs);
        AdjacencyChange {
            id: NumberedHops.path(group, path).expect("it numbers every path"),
            neighbour: None,
            adjacency: Some(match known {
                Some(_) => Adjacency::resolved(&interface, mac_of(instance, address)),
                None => Adjacency::unresolved(&interface),
            }),
        }
    };
    let groups = (0..network.groups().len() as u16).map(GroupId);
    groups
        .flat_map(|group| (0..PATHS).map(move |path| (group, path)))
        .map(|(group, path)| of_path(group, path))
        .collect()
}

/// Workers, their links and wires.
pub struct World {
    pub network: Arc<Network>,
    pub workers: Vec<Worker<MemIo>>,
    pub controls: Vec<ControlEnd>,
    pub wires: Wires,
    pub now: Nanos,
    next_op: u64,
    contents: Vec<ContentUsage>,
    generation: u32,
    /// The group of sessions that change from now on; `None`: that with the session's number.
    pub group: Option<SessionGroupId>,
    /// The changes of next hops that all workers have had.
    pub adjacencies: Vec<AdjacencyChange>,
}

/// How many ports a network's instances and mirrors need.
pub fn ports(network: &Network) -> u16 {
    let ports = |instance: &Instance| [Some(instance.port), instance.mirror];
    let all = network.instances().iter().flat_map(ports).flatten();
    all.map(|port| port.0 + 1).max().unwrap_or(0)
}

impl World {
    /// One worker in the network of `rules::testing`, with every next hop known.
    pub fn new() -> Self {
        Self::with(testing::network(), 1, |_| {})
    }

    /// `workers` workers in `network`, configured by `configure`.
    pub fn with(network: Network, workers: u16, configure: impl Fn(&mut WorkerConfig)) -> Self {
        Self::over(network, workers, configure, |_| {})
    }

    /// The same over ports of which `able` says what they can do.
    pub fn over(
        network: Network,
        workers: u16,
        configure: impl Fn(&mut WorkerConfig),
        able: impl Fn(&mut MemIo),
    ) -> Self {
        let network = Arc::new(network);
        let ports = ports(&network);
        let (wires, ios) = Wires::new(workers.into(), ports.into(), 1024);
        let macs: Vec<MacAddr> = (0..ports).map(our_mac).collect();
        let mut world = Self {
            network: Arc::clone(&network),
            workers: Vec::new(),
            controls: Vec::new(),
            wires,
            now: Nanos::from_secs(1),
            next_op: 0,
            contents: Vec::new(),
            generation: 0,
            group: None,
            adjacencies: Vec::new(),
        };
        for (id, mut io) in ios.into_iter().enumerate() {
            able(&mut io);
            let mut config = WorkerConfig::new(
                WorkerId(id as u16),
                workers,
                Arc::clone(&network),
                macs.clone(),
                Seed([7, 9]),
            );
            (config.max_sessions, config.own_sessions) = (4096, 4096);
            (config.max_flows_v4, config.max_flows_v6) = (8192, 8192);
            (config.max_adjacencies, config.max_exceptions) = (1024, 64);
            configure(&mut config);
            let (control, end) = control_channel(256, 256);
            world
                .workers
                .push(Worker::new(config, io, end).expect("there is memory"));
            world.controls.push(control);
        }
        for (instance, address) in NEXT_HOPS {
            world.meet(InstanceId(instance), address.parse().expect("an address"));
        }
        for &(instance, address) in Arc::clone(&world.network).local_addresses() {
            world.meet(instance, address);
        }
        for change in paths(&world.network, |_| true) {
            world.tell_adjacency(change);
        }
        world
    }

    /// Sends all workers the adjacency of a next hop, if its instance exists: an own address is on this node.
    pub fn meet(&mut self, instance: InstanceId, address: IpAddr) {
        let macs: Vec<MacAddr> = (0..16).map(our_mac).collect();
        let Some(configured) = self.network.instance(instance) else {
            return;
        };
        let interface = interface(configured, &macs);
        let adjacency = if interface.has(address) {
            Adjacency::to_ourselves(&interface)
        } else {
            Adjacency::resolved(&interface, mac_of(instance, address))
        };
        let id = NumberedHops
            .resolve(instance, address)
            .expect("it numbers every next hop");
        self.tell_adjacency(AdjacencyChange {
            id,
            neighbour: Some((instance, address)),
            adjacency: Some(adjacency),
        });
    }

    /// Sends all workers a change of a next hop or path.
    pub fn tell_adjacency(&mut self, change: AdjacencyChange) {
        self.adjacencies.push(change);
        self.tell_all(|| Command::Adjacency(change));
    }

    /// Sends all workers that a next hop does not answer any more.
    pub fn lose(&mut self, instance: InstanceId, address: IpAddr) {
        let macs: Vec<MacAddr> = (0..16).map(our_mac).collect();
        let configured = self.network.instance(instance).expect("an instance");
        let adjacency = Adjacency::unresolved(&interface(configured, &macs));
        let id = NumberedHops.resolve(instance, address);
        self.tell_adjacency(AdjacencyChange {
            id: id.expect("it numbers every next hop"),
            neighbour: Some((instance, address)),
            adjacency: Some(adjacency),
        });
    }

    /// Sends all workers a command, and lets them apply it.
    pub fn tell_all(&mut self, command: impl Fn() -> Command) {
        for control in &mut self.controls {
            control
                .commands
                .push(command())
                .expect("there is room for commands");
        }
        self.poll();
    }

    /// When the next poll is: packets that were sent are taken then.
    pub fn next_poll(&self) -> Nanos {
        self.now + Duration::from_micros(10)
    }

    /// Polls every worker once; time passes.
    pub fn poll(&mut self) {
        self.now = self.next_poll();
        for worker in &mut self.workers {
            worker.poll(self.now);
        }
    }

    /// Sends one worker a command with a result, and lets it apply it.
    pub fn ask(&mut self, worker: usize, command: impl FnOnce(OpId) -> Command) -> Event {
        self.next_op += 1;
        let command = command(OpId(self.next_op));
        self.controls[worker]
            .commands
            .push(command)
            .expect("there is room for commands");
        self.poll();
        loop {
            let event = self.controls[worker].events.pop().expect("an answer");
            match event {
                Event::Applied { op, .. } | Event::Fenced { op, .. } | Event::Queried { op, .. } => {
                    assert_eq!(op, OpId(self.next_op));
                    return event;
                }
                Event::Content { usage, .. } => self.contents.push(usage),
                _ => {}
            }
        }
    }

    /// What workers have reported of contents by themselves.
    pub fn take_contents(&mut self) -> Vec<ContentUsage> {
        for control in &mut self.controls {
            while let Ok(event) = control.events.pop() {
                if let Event::Content { usage, .. } = event {
                    self.contents.push(usage);
                }
            }
        }
        std::mem::take(&mut self.contents)
    }

    /// Applies a session change on one worker.
    pub fn apply(
        &mut self,
        worker: usize,
        change: SessionChange,
    ) -> Result<Option<UsageSnapshot>, ApplyError> {
        match self.ask(worker, |op| Command::Session { op, change }) {
            Event::Applied { outcome, .. } => outcome,
            other => panic!("not an answer to a session change: {other:?}"),
        }
    }

    /// What a session has counted.
    pub fn query(&mut self, worker: usize, session: SessionIndex) -> UsageSnapshot {
        match self.ask(worker, |op| Command::Query { op, session }) {
            Event::Queried { outcome, .. } => outcome.expect("the session is there"),
            other => panic!("not an answer to a query: {other:?}"),
        }
    }

    /// Compiles `rules` as session `session`, following `before`.
    pub fn image(
        &mut self,
        session: u32,
        rules: &Arc<SessionRules>,
        before: Option<&SessionImage>,
    ) -> Result<Box<SessionImage>, CompileError> {
        let mut image = compile(rules, &self.network, &NumberedHops)?;
        image.session = SessionIndex(session);
        image.seid = u64::from(session) + 1;
        let of_its_own = SessionGroupId::new((session % 256) as u16);
        image.block.get_or_insert_default().group = self.group.or(of_its_own).expect("a number");
        image.classification_generation = match before {
            Some(before) if before.is_classified_like(&image.rules, &image.classifier) => {
                before.classification_generation
            }
            _ => {
                self.generation += 1;
                self.generation
            }
        };
        Ok(Box::new(image))
    }

    /// Compiles and installs a session on worker 0.
    pub fn install(&mut self, session: u32, rules: SessionRules) -> Box<SessionImage> {
        let image = self.image(session, &Arc::new(rules), None).expect("it compiles");
        self.apply(0, SessionChange::Install(image.clone()))
            .expect("it is installed");
        image
    }

    /// Session 1 on worker 0, which has `before`, gets the rules that `edit` makes of its own.
    pub fn change(
        &mut self,
        before: &SessionImage,
        immediate: ImmediateActions,
        edit: impl FnOnce(&mut SessionRules),
    ) -> Box<SessionImage> {
        let mut rules = (*before.rules).clone();
        edit(&mut rules);
        let image = self.image(1, &Arc::new(rules), Some(before));
        let image = image.expect("it compiles");
        let change = SessionChange::Replace(image.clone(), immediate);
        self.apply(0, change).expect("it is there");
        image
    }

    /// Lets `packet`, from its IP header on, come in by `port` at worker 0, and what goes out for it.
    pub fn send(&mut self, port: u16, packet: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        self.send_frame(0, port, &frame(port, packet))
    }

    /// Lets a frame come in at a worker, and what goes out for it.
    pub fn send_frame(&mut self, worker: u16, port: u16, frame: &[u8]) -> Vec<(PortId, Vec<u8>)> {
        let queue = self.wires.to(WorkerId(worker), PortId(port));
        queue.push(MemBuf::new(frame)).expect("there is room on the wire");
        self.poll();
        self.poll();
        self.take()
    }

    /// Whatever has gone out since.
    pub fn take(&mut self) -> Vec<(PortId, Vec<u8>)> {
        let mut out = Vec::new();
        for port in (0..ports(&self.network)).map(PortId) {
            while let Some(buf) = self.wires.from(port).pop() {
                out.push((port, buf.bytes().to_vec()));
            }
        }
        out
    }

    /// What all workers have forwarded of a session group.
    pub fn forwarded_of(&self, group: u16) -> SessionGroupTotal {
        let mut sum = SessionGroupTotal::default();
        for worker in &self.workers {
            let total = worker.group_totals()[usize::from(group)];
            for way in [0, 1] {
                sum.packets[way] += total.packets[way];
                sum.octets[way] += total.octets[way];
            }
        }
        sum
    }

    /// Sums of a count over all workers' drops.
    pub fn drops(&self) -> Vec<u64> {
        let mut drops = vec![0; packet::DropReason::COUNT];
        for worker in &self.workers {
            drops
                .iter_mut()
                .zip(worker.stats().drops)
                .for_each(|(sum, count)| *sum += count);
        }
        drops
    }

    /// The one reason for which a packet was dropped since `before`.
    pub fn dropped_since(&self, before: &[u64]) -> Option<packet::DropReason> {
        let reasons = packet::DropReason::ALL.into_iter();
        let more: Vec<_> = reasons
            .filter(|reason| self.drops()[reason.index()] > before[reason.index()])
            .collect();
        assert!(more.len() < 2, "one packet, several reasons: {more:?}");
        more.first().copied()
    }

    /// Asserts that every packet that came in is accounted exactly once.
    pub fn assert_conserved(&self) {
        for worker in &self.workers {
            assert_eq!(worker.stats().unaccounted(), 0, "{:?}", worker.stats());
        }
    }
}

/// An adjacency id of the numbered next hops.
pub fn hop(instance: u16, last: u8) -> AdjacencyId {
    AdjacencyId(u32::from(instance) << 8 | u32::from(last))
}
