//! Sessions and real workers on simulated time, tied together as `upf::Control` does it, but in steps that the
//! test chooses.

#![allow(dead_code, reason = "each test uses its part")]

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use flow::{InstanceId, Nanos, OpId, PortId, Seed, UrrCount, WorkerId};
use packet::frame::{self, Frame};
use packet::{DropReason, IpTuple, MacAddr};
use rules::Adjacencies;
use rules::image::UsageSnapshot;
use rules::network::Network;
use rules::testing::{self, NumberedHops};
use session::{AssociationId, Config, CounterReached, CpFSeid, Random, Sessions, Ticket, WorkerFault};
use transport::{Adjacency, AdjacencyChange};
use upf::command;
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{ApplyError, Command, ControlEnd, Event, Worker, WorkerConfig, control_channel, interface};

pub const SMF: AssociationId = AssociationId(1);
pub const ACCESS: PortId = PortId(0);
pub const CORE: PortId = PortId(1);
const PORTS: u8 = 4;

/// The sessions, the workers that have their rules, and the links between them.
pub struct Upf {
    pub now: Nanos,
    pub sessions: Sessions,
    pub workers: Vec<Worker<MemIo>>,
    network: Arc<Network>,
    links: Vec<ControlEnd>,
    /// Commands that a worker's link has no room for yet.
    waiting: Vec<VecDeque<Command>>,
    wires: Wires,
    tickets: u64,
    /// Whether a worker may not find a session: one that has ended twice.
    pub may_refuse: bool,
}

/// The distance between the parts.
#[derive(Clone, Copy)]
pub struct Room {
    /// Commands and events of a link.
    pub link: usize,
    /// Packets on a wire.
    pub wire: usize,
}

impl Upf {
    /// `workers` workers, with tables for `size`, on the testing network; all know its next hops.
    pub fn new(
        workers: u16,
        config: Config,
        seed: u64,
        room: Room,
        size: impl Fn(&mut WorkerConfig),
    ) -> Self {
        Self::on(testing::network(), workers, config, seed, room, size)
    }

    /// The same on another network, whose instances are those of the testing network.
    pub fn on(
        network: Network,
        workers: u16,
        config: Config,
        seed: u64,
        room: Room,
        size: impl Fn(&mut WorkerConfig),
    ) -> Self {
        let network = Arc::new(network);
        let sessions = Sessions::new(
            config,
            Arc::clone(&network),
            Box::new(NumberedHops),
            Random::from_number(seed),
        );
        let macs: Vec<MacAddr> = (0..PORTS).map(mac).collect();
        let (wires, ios) = Wires::new(workers.into(), macs.len(), room.wire);
        let mut upf = Self {
            now: Nanos::from_secs(1),
            sessions,
            workers: Vec::new(),
            network: Arc::clone(&network),
            links: Vec::new(),
            waiting: (0..workers).map(|_| VecDeque::new()).collect(),
            wires,
            tickets: 0,
            may_refuse: false,
        };
        for (id, io) in (0..).map(WorkerId).zip(ios) {
            let mut config = WorkerConfig::new(id, workers, Arc::clone(&network), macs.clone(), Seed([1, 2]));
            (config.max_sessions, config.own_sessions, config.max_exceptions) = (64, 64, 64);
            (config.max_flows_v4, config.max_flows_v6, config.max_adjacencies) = (1024, 1024, 1024);
            size(&mut config);
            let (control, end) = control_channel(room.link, room.link);
            upf.links.push(control);
            upf.workers.push(Worker::new(config, io, end).expect("memory"));
        }
        for (instance, hop) in [
            (0, testing::GNB.into()),
            (1, "10.0.6.254".parse().expect("an address")),
            (1, "2001:db8:6::fe".parse().expect("an address")),
        ] {
            upf.meet(InstanceId(instance), hop, &macs);
        }
        upf
    }

    /// Sends a next hop's address to all workers.
    fn meet(&mut self, instance: InstanceId, address: IpAddr, macs: &[MacAddr]) {
        let look = interface(self.network.instance(instance).expect("it is there"), macs);
        let change = AdjacencyChange {
            id: NumberedHops.resolve(instance, address).expect("a number"),
            neighbour: Some((instance, address)),
            adjacency: Some(Adjacency::resolved(&look, MacAddr([2, 9, 9, 9, 9, 9]))),
        };
        for waiting in &mut self.waiting {
            waiting.push_back(Command::Adjacency(change));
        }
    }

    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A ticket that was never issued.
    pub fn ticket(&mut self) -> Ticket {
        self.tickets += 1;
        Ticket(self.tickets)
    }

    /// A frame comes in at a worker.
    pub fn push(&self, via: WorkerId, port: PortId, frame: &[u8]) {
        let wire = self.wires.to(via, port);
        wire.push(MemBuf::new(frame)).expect("room on the wire");
    }

    /// One turn of a worker, after so much time. Returns whether packets had come.
    pub fn poll_worker(&mut self, worker: WorkerId, after: Duration) -> bool {
        self.now = self.now + after;
        self.workers[worker.index()].poll(self.now).rx > 0
    }

    /// A frame that has left.
    pub fn next_left(&self) -> Option<MemBuf> {
        [ACCESS, CORE]
            .into_iter()
            .find_map(|port| self.wires.from(port).pop())
    }

    /// One turn of control, as `Control::poll`: timeouts, at most a number of events of each worker, and the commands
    /// that fit into the links.
    pub fn poll_control(&mut self, events: usize) {
        if self.sessions.poll_timeout().is_some_and(|at| at <= self.now) {
            self.sessions.handle_timeout(self.now);
        }
        for place in 0..self.links.len() {
            for _ in 0..events {
                let Ok(event) = self.links[place].events.pop() else {
                    break;
                };
                self.happened(event);
            }
        }
        while let Some(effect) = self.sessions.poll_effect() {
            self.waiting[effect.worker().index()].push_back(command(effect));
        }
        for (link, waiting) in self.links.iter_mut().zip(&mut self.waiting) {
            while link.commands.slots() > 0
                && let Some(command) = waiting.pop_front()
            {
                link.commands.push(command).expect("there is a slot");
            }
        }
    }

    fn happened(&mut self, event: Event) {
        match event {
            Event::Applied { op, outcome, .. } => self.applied(op, outcome),
            Event::Queried { op, outcome } => self.applied(op, outcome.map(Some)),
            Event::Fenced { op, outcome } => self.applied(op, outcome.map(|()| None)),
            Event::CounterReached {
                session,
                urr,
                count,
                times,
                reached,
            } => {
                let event = CounterReached {
                    urr,
                    count,
                    times,
                    reached,
                };
                self.sessions.counter_reached(self.now, session, event);
            }
            Event::Content { session, usage } => self.sessions.content_counted(session, usage),
            Event::PauseOfCharging { session } => {
                let ticket = self.ticket();
                self.sessions.pause_charging(self.now, ticket, session);
            }
            // Before the next hops were sent.
            Event::Resolve { .. } | Event::Neighbour { .. } => {}
            other => panic!("{other:?}"),
        }
    }

    fn applied(&mut self, op: OpId, outcome: Result<Option<UsageSnapshot>, ApplyError>) {
        if let Err(error) = &outcome {
            assert!(self.may_refuse && *error == ApplyError::NotFound, "{error:?}");
        }
        let outcome = outcome.map_err(|_| WorkerFault::Failed);
        self.sessions.applied(self.now, op, outcome);
    }

    /// Whether no command waits for room, and no answer of a worker is due.
    pub fn is_done(&self) -> bool {
        self.waiting.iter().all(VecDeque::is_empty) && self.sessions.count().ops == 0
    }

    /// What all workers dropped for a reason.
    pub fn dropped(&self, reason: DropReason) -> u64 {
        self.workers
            .iter()
            .map(|worker| worker.stats().dropped(reason))
            .sum()
    }
}

/// The F-SEID of the CP function for a session that is asked for by a ticket.
pub fn cp_f_seid(ticket: Ticket) -> CpFSeid {
    CpFSeid {
        seid: ticket.0,
        ipv4: Some([10, 0, 0, 1].into()),
        ipv6: None,
    }
}

fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port])
}

/// An Ethernet frame to a port.
pub fn frame_of(port: PortId, packet: &[u8]) -> Vec<u8> {
    let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
    let ether_type: [u8; 2] = if is_v6 { [0x86, 0xdd] } else { [8, 0] };
    let mut frame = [
        &mac(port.0 as u8).0[..],
        &[2, 0xee, 0, 0, 0, 9],
        &ether_type,
        packet,
    ]
    .concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The user packet of a frame that left, and whether it went up.
pub fn user_packet(frame: &[u8]) -> (bool, IpTuple) {
    match frame::parse(frame, frame.len(), |_| true) {
        Ok(Frame::Gtpu(gtpu)) => (false, frame::parse_inner(frame, &gtpu).expect("a user packet")),
        Ok(Frame::Ip(ip)) => (true, ip.tuple),
        other => panic!("{other:?}"),
    }
}

pub fn one_packet(up: bool, octets: u64) -> UrrCount {
    let mut count = UrrCount::default();
    match up {
        true => (count.ul_packets, count.ul_octets) = (1, octets),
        false => (count.dl_packets, count.dl_octets) = (1, octets),
    }
    count
}

pub fn add(sum: &mut UrrCount, count: UrrCount) {
    sum.ul_packets += count.ul_packets;
    sum.ul_octets += count.ul_octets;
    sum.dl_packets += count.dl_packets;
    sum.dl_octets += count.dl_octets;
}
