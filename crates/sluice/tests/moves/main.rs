//! Buckets on the move under random interleavings of workers, control, packets and requests: every packet arrives, every
//! octet is reported once, and no more of them pass than the rate allows, whoever served them.
//!
//! Real workers and real sessions, tied together as `sluice::upf::Control` does it, but in steps that the test chooses.

mod ue;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use flow::{InstanceId, Nanos, OpId, PortId, Seed, UrrCount, WorkerId};
use packet::frame::{self, Frame};
use packet::{DropReason, MacAddr, Teid};
use proptest::prelude::*;
use rules::compile::Adjacencies;
use rules::model::{
    Edit, FTeid, FarId, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation, PdrId, PdrUpdate,
    Precedence, UrrId, UrrUpdate, Volume,
};
use rules::network::Network;
use rules::testing::{self, GNB, N3_ADDRESS, NumberedHops, UserPacket, tunnelled};
use session::{
    AssociationId, Changes, Config, CpFSeid, KeepNothing, LedgerEvent, Moved, Outcome, Query, Random, Seid,
    Sessions, Ticket,
};
use sluice::upf::command;
use transport::{Adjacency, AdjacencyChange};
use worker::mem::{MemBuf, MemIo, Wires};
use worker::{Command, ControlLink, Event, Worker, WorkerConfig, interface, link};

use ue::*;

const WORKERS: u16 = 3;
const UES: u8 = 6;
const SMF: AssociationId = AssociationId(1);
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
const ACCESS: PortId = PortId(0);
const CORE: PortId = PortId(1);

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Worker(u16),
    /// Control takes so many events from each worker, and lets the links have what fits.
    Control(u8),
    /// So many packets of a UE, up or down, IPv4 or IPv6, come in at a worker.
    Packets {
        ue: u8,
        up: bool,
        v6: bool,
        via: u16,
        count: u8,
        size: u16,
    },
    /// The bucket of a UE moves.
    Move(u8, u16),
    Establish(u8),
    Modify(u8, Modified),
    Delete(u8),
    /// So many milliseconds pass.
    Wait(u8),
}

/// What a request asks for; where that has a quota, which.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Establishment(u64),
    Grant(u64),
    Other,
}

#[derive(Clone, Copy, Debug)]
enum Modified {
    /// Another tunnel of the gNB: no flow is touched.
    Tunnel(u32),
    /// Another precedence: flows are decided anew.
    Precedence(u32),
    Query,
    /// A new quota, of so many octets.
    Grant(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let modified = prop_oneof![
        (1_u32..99).prop_map(Modified::Tunnel),
        (1_u32..99).prop_map(Modified::Precedence),
        Just(Modified::Query),
        (0_u64..100_000).prop_map(Modified::Grant),
    ];
    let packets = (
        0..UES,
        any::<bool>(),
        any::<bool>(),
        0..WORKERS,
        1_u8..200,
        0_u16..1000,
    );
    prop_oneof![
        12 => (0..WORKERS).prop_map(Step::Worker),
        8 => (1_u8..9).prop_map(Step::Control),
        8 => packets.prop_map(|(ue, up, v6, via, count, size)| Step::Packets { ue, up, v6, via, count, size }),
        3 => (0..UES, 0..WORKERS).prop_map(|(ue, to)| Step::Move(ue, to)),
        2 => (0..UES).prop_map(Step::Establish),
        2 => (0..UES, modified).prop_map(|(ue, modified)| Step::Modify(ue, modified)),
        1 => (0..UES).prop_map(Step::Delete),
        1 => (1_u8..60).prop_map(Step::Wait),
    ]
}

struct World {
    now: Nanos,
    sessions: Sessions,
    workers: Vec<Worker<MemIo>>,
    links: Vec<ControlLink>,
    waiting: Vec<VecDeque<Command>>,
    wires: Wires,
    ues: [Ue; UES as usize],
    addresses: Vec<(Ipv4Addr, Ipv6Addr)>,
    /// Requests under way, and whose they are.
    asked: BTreeMap<Ticket, (u8, Asked)>,
    /// Whose sessions there have been.
    seids: BTreeMap<Seid, u8>,
    tickets: u64,
    moved: Vec<Moved>,
    moves: usize,
    sent: u64,
    received: u64,
}

impl World {
    fn new() -> Self {
        let network = Arc::new(testing::network());
        let config = Config {
            accept_cp_f_teids: true,
            deadline: Duration::from_secs(1_000),
            move_deadline: Duration::from_secs(1_000),
            quarantine: Duration::ZERO,
            predefined: Arc::new(predefined()),
            ledger: true,
            ..Config::for_workers(WORKERS)
        };
        let sessions = Sessions::new(
            config,
            Arc::clone(&network),
            Box::new(NumberedHops),
            Box::new(KeepNothing),
            Random::from_number(5),
        );
        let macs: Vec<MacAddr> = (0..4).map(mac).collect();
        let (wires, ios) = Wires::new(WORKERS.into(), macs.len(), 1 << 16);
        let mut world = Self {
            now: Nanos::from_secs(1),
            sessions,
            workers: Vec::new(),
            links: Vec::new(),
            waiting: (0..WORKERS).map(|_| VecDeque::new()).collect(),
            wires,
            ues: Default::default(),
            addresses: (0..UES).map(addresses).collect(),
            asked: BTreeMap::new(),
            seids: BTreeMap::new(),
            tickets: 0,
            moved: Vec::new(),
            moves: 0,
            sent: 0,
            received: 0,
        };
        for (id, io) in (0..).map(WorkerId).zip(ios) {
            let mut config = WorkerConfig::new(id, WORKERS, Arc::clone(&network), macs.clone(), Seed([1, 2]));
            (config.max_sessions, config.own_sessions, config.max_exceptions) = (64, 64, 64);
            (config.max_flows_v4, config.max_flows_v6, config.max_adjacencies) = (1024, 1024, 1024);
            (config.content_counters, config.content_interval) = (64, Duration::from_millis(20));
            // Slow, so that workers are at different points of what control tells them.
            config.commands_per_poll = 2;
            let (control, end) = link(16, 16);
            world.links.push(control);
            world.workers.push(Worker::new(config, io, end).expect("memory"));
        }
        for (instance, hop) in [
            (0, GNB.into()),
            (1, "10.0.6.254".parse().unwrap()),
            (1, "2001:db8:6::fe".parse().unwrap()),
        ] {
            world.meet(&network, InstanceId(instance), hop, &macs);
        }
        world
    }

    /// Tells all workers where a next hop is.
    fn meet(&mut self, network: &Network, instance: InstanceId, address: IpAddr, macs: &[MacAddr]) {
        let look = interface(network.instance(instance).unwrap(), macs);
        let change = AdjacencyChange {
            id: NumberedHops.resolve(instance, address).unwrap(),
            instance,
            address,
            adjacency: Some(Adjacency::resolved(&look, MacAddr([2, 9, 9, 9, 9, 9]))),
        };
        self.waiting
            .iter_mut()
            .for_each(|waiting| waiting.push_back(Command::Adjacency(change)));
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Worker(worker) => _ = self.poll_worker(worker),
            Step::Control(events) => self.poll_control(events.into()),
            Step::Packets {
                ue,
                up,
                v6,
                via,
                count,
                size,
            } => (0..count).for_each(|_| self.send(ue, up, v6, via, size)),
            Step::Move(ue, to) => {
                let begun = self.sessions.move_bucket(self.now, home(ue), WorkerId(to));
                self.moves += usize::from(begun.is_ok());
            }
            Step::Establish(ue) => self.establish(ue),
            Step::Modify(ue, modified) => self.modify(ue, modified),
            Step::Delete(ue) => self.delete(ue),
            Step::Wait(millis) => self.now = self.now + Duration::from_millis(millis.into()),
        }
    }

    /// Answers whether it had packets.
    fn poll_worker(&mut self, worker: u16) -> bool {
        self.now = self.now + Duration::from_micros(10);
        let report = self.workers[usize::from(worker)].poll(self.now);
        for port in [ACCESS, CORE] {
            while let Some(buf) = self.wires.from(port).pop() {
                self.received += 1;
                self.arrived(buf.bytes());
            }
        }
        report.rx > 0
    }

    /// A user packet has left towards the data network, or in the gNB's tunnel.
    fn arrived(&mut self, bytes: &[u8]) {
        let (up, tuple) = match frame::parse(bytes, bytes.len(), |_| true) {
            Ok(Frame::Gtpu(gtpu)) => (false, frame::parse_inner(bytes, &gtpu).expect("a user packet")),
            Ok(Frame::Ip(ip)) => (true, ip.tuple),
            other => panic!("{other:?}"),
        };
        let address = if up { tuple.addrs.src() } else { tuple.addrs.dst() };
        let number = self.ue_of(std::iter::once(address));
        let (ue, octets) = (&mut self.ues[number], tuple.total_len.into());
        add(&mut ue.passed, one_packet(up, octets));
        ue.passes(self.now);
        if is_policed(number as u8) {
            ue.policed[usize::from(up)].pass(self.now, octets);
        }
    }

    /// Whose address one of these is.
    fn ue_of(&self, mut addresses: impl Iterator<Item = IpAddr>) -> usize {
        let address = addresses.next().expect("an address");
        let is_its = |(v4, v6): &(Ipv4Addr, Ipv6Addr)| match address {
            IpAddr::V4(address) => address == *v4,
            IpAddr::V6(address) => address.to_bits() >> 64 == v6.to_bits() >> 64,
        };
        self.addresses.iter().position(is_its).expect("a UE's")
    }

    /// After some time, a policed UE's whole burst passes.
    fn check_bursts(&mut self) {
        self.now = self.now + Duration::from_secs(1);
        for ue in (0..UES).filter(|ue| is_policed(*ue)) {
            let before = self.ues[usize::from(ue)].passed;
            (0..9).for_each(|_| self.send(ue, true, false, 0, 1000));
            self.settle();
            let Ue { session, passed, .. } = self.ues[usize::from(ue)];
            let expected = if session.is_some() { 9 } else { 0 };
            assert_eq!(passed.ul_packets - before.ul_packets, expected);
        }
    }

    /// Whatever a charged UE's session has used, less than a threshold of it is not reported.
    fn check_thresholds(&self) {
        for number in (0..UES).filter(|number| is_charged(*number)) {
            let ue = &self.ues[usize::from(number)];
            let octets = |count: UrrCount| count.ul_octets + count.dl_octets;
            let left = octets(ue.passed) - octets(ue.reported);
            assert!(ue.session.is_none() || left < THRESHOLD, "UE {number}: {ue:?}");
        }
    }

    /// As `Control::poll`.
    fn poll_control(&mut self, events: usize) {
        for place in 0..self.links.len() {
            for _ in 0..events {
                match self.links[place].events.pop() {
                    Ok(Event::Applied { op, outcome, .. }) => self.applied(op, outcome),
                    Ok(Event::Queried { op, outcome }) => self.applied(op, outcome.map(Some)),
                    Ok(Event::Fenced { op, outcome }) => self.applied(op, outcome.map(|()| None)),
                    Ok(Event::CounterReached {
                        session,
                        urr,
                        count,
                        times,
                        reached,
                    }) => {
                        self.sessions
                            .packets_heard(session, times.map(|times| (urr, times)));
                        self.sessions
                            .counter_reached(self.now, session, (urr, count), reached);
                    }
                    Ok(Event::Content { session, usage }) => self.sessions.content_counted(session, usage),
                    Ok(other) => panic!("{other:?}"),
                    Err(_) => break,
                }
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
        while let Some((seid, report)) = self.sessions.poll_usage() {
            let ue = self.seids[&seid];
            assert!(is_charged(ue), "{report:?}");
            let ue = &mut self.ues[usize::from(ue)];
            ue.reports(&report);
            add(&mut ue.reported, report.count);
        }
        while let Some(outcome) = self.sessions.poll_outcome() {
            self.outcome(outcome);
        }
        while let Some(entry) = self.sessions.poll_ledger() {
            if let LedgerEvent::Content(usage) = entry.event {
                let ue = self.ue_of(entry.ue_addresses.iter().map(|(_, prefix)| prefix.address()));
                let content = self.sessions.predefined().content(usage.content).unwrap();
                assert!(is_billed(ue as u8) && !usage.is_nothing() && usage.first <= usage.last);
                let place = usize::from(&*content.name == "six");
                add(&mut self.ues[ue].billed[place], usage.count);
            }
        }
        self.check_quotas();
        self.moved
            .extend(std::iter::from_fn(|| self.sessions.poll_moved()));
    }

    fn applied(
        &mut self,
        op: OpId,
        outcome: Result<Option<rules::image::UsageSnapshot>, worker::ApplyError>,
    ) {
        let outcome = outcome.expect("nothing is refused here");
        self.sessions.applied(self.now, op, Ok(outcome));
    }

    fn outcome(&mut self, outcome: Outcome) {
        let (number, asked) = self.asked.remove(&outcome.ticket).expect("it was asked for");
        let done = outcome.result.expect("nothing is refused here");
        let ue = &mut self.ues[usize::from(number)];
        for report in &done.usage {
            ue.reports(report);
            add(&mut ue.reported, report.count);
        }
        let octets = |count: UrrCount| count.ul_octets + count.dl_octets;
        if let Asked::Establishment(quota) | Asked::Grant(quota) = asked {
            // What it has used under the quota before it keeps.
            ue.allowed = octets(ue.passed).max(octets(ue.reported) + quota);
        }
        if let Asked::Establishment(_) = asked {
            self.seids.insert(done.seid, number);
            ue.session = Some(done.seid);
            let created: Option<FTeid> = done.created.first().map(|(_, f_teid)| *f_teid);
            ue.teid = created.map_or_else(|| chosen_teid(number).unwrap(), |f_teid| f_teid.teid.0);
        }
    }

    fn is_asking(&self, ue: u8) -> bool {
        self.asked.values().any(|(asking, _)| *asking == ue)
    }

    /// No octet has passed beyond the quotas.
    fn check_quotas(&self) {
        for number in (0..UES).filter(|number| is_charged(*number)) {
            let is_grant = |(ue, asked): &(u8, Asked)| *ue == number && matches!(asked, Asked::Grant(_));
            let ue = &self.ues[usize::from(number)];
            let passed = ue.passed.ul_octets + ue.passed.dl_octets;
            assert!(
                self.asked.values().any(is_grant) || passed <= ue.allowed,
                "{ue:?}"
            );
        }
    }

    fn ask(&mut self, ue: u8, asked: Asked) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.asked.insert(ticket, (ue, asked));
        ticket
    }

    fn establish(&mut self, ue: u8) {
        let policed = &mut self.ues[usize::from(ue)].policed;
        policed.iter_mut().for_each(|allowed| allowed.sessions += 1);
        if self.ues[usize::from(ue)].session.is_some() || self.is_asking(ue) {
            return;
        }
        let ticket = self.ask(ue, Asked::Establishment(QUOTA));
        let cp = CpFSeid {
            seid: ticket.0,
            ipv4: Some(Ipv4Addr::new(10, 0, 0, 1)),
            ipv6: None,
        };
        self.sessions
            .establish(self.now, ticket, SMF, cp, establishment(ue));
    }

    fn modify(&mut self, ue: u8, modified: Modified) {
        let Some(seid) = self.ues[usize::from(ue)].session else {
            return;
        };
        // More than wait for one session are refused.
        if self.asked.values().filter(|(asking, _)| *asking == ue).count() > 4 {
            return;
        }
        let (mut changes, mut asked) = (Changes::default(), Asked::Other);
        match modified {
            Modified::Tunnel(teid) => {
                let header = OuterHeaderCreation::gtpu_ipv4(Teid(teid), GNB);
                let forwarding = ForwardingParametersUpdate {
                    outer_header_creation: Edit::Set(header),
                    ..ForwardingParametersUpdate::default()
                };
                changes.update_fars = vec![FarUpdate {
                    forwarding: Edit::Set(forwarding),
                    ..FarUpdate::new(FarId(2))
                }];
            }
            Modified::Precedence(precedence) => {
                changes.update_pdrs = vec![PdrUpdate {
                    precedence: Some(Precedence(precedence)),
                    ..PdrUpdate::new(PdrId(1))
                }];
            }
            Modified::Query => changes.query = Query::All(Vec::new()),
            Modified::Grant(octets) if is_charged(ue) => {
                asked = Asked::Grant(octets);
                let quota = Box::new(Volume {
                    total: Some(octets),
                    ..Volume::default()
                });
                changes.update_urrs = vec![UrrUpdate {
                    volume_quota: Edit::Set(quota),
                    ..UrrUpdate::new(UrrId(1))
                }];
            }
            Modified::Grant(_) => return,
        }
        let ticket = self.ask(ue, asked);
        self.sessions.modify(self.now, ticket, seid, None, changes);
    }

    /// The last packets arrive first: what comes for a session that is gone is rightly dropped.
    fn delete(&mut self, ue: u8) {
        let Some(seid) = self.ues[usize::from(ue)].session.take() else {
            return;
        };
        while (0..WORKERS).filter(|worker| self.poll_worker(*worker)).count() > 0 {}
        let ticket = self.ask(ue, Asked::Other);
        self.sessions.delete(self.now, ticket, seid);
    }

    fn send(&mut self, number: u8, up: bool, v6: bool, via: u16, size: u16) {
        let ue = &mut self.ues[usize::from(number)];
        if ue.session.is_none() {
            return;
        }
        let (v4_address, v6_address) = addresses(number);
        let (inner, remote): (IpAddr, IpAddr) = match v6 {
            false => (v4_address.into(), REMOTE.into()),
            true => (
                Ipv6Addr::from_bits(v6_address.to_bits() | 7).into(),
                REMOTE_V6.into(),
            ),
        };
        let mut user = match up {
            true => UserPacket::udp(inner, remote, 1000, 53),
            false => UserPacket::udp(remote, inner, 53, 1000),
        };
        user.payload = vec![0xcd; size.into()];
        let user = user.bytes();
        let octets = user.len() as u64;
        let (port, packet) = match up {
            true => (
                ACCESS,
                tunnelled(N3_ADDRESS, ue.teid, 255, Some([0x10, 9]), &[], &user),
            ),
            false => (CORE, user),
        };
        add(&mut ue.sent, one_packet(up, octets));
        let frame = MemBuf::new(&frame_of(port, &packet));
        self.wires
            .to(WorkerId(via), port)
            .push(frame)
            .expect("room on the wire");
        self.sent += 1;
    }

    /// Everybody does what is left.
    fn settle(&mut self) {
        for _ in 0..400 {
            for worker in 0..WORKERS {
                self.poll_worker(worker);
            }
            self.poll_control(16);
        }
        assert!(self.asked.is_empty(), "without outcome: {:?}", self.asked);
        assert_eq!(self.sessions.count().ops, 0);
    }

    fn finish(mut self) {
        self.settle();
        assert!(
            self.moved.iter().all(|moved| moved.result.is_ok()),
            "{:?}",
            self.moved
        );
        assert_eq!(self.moved.len(), self.moves);
        let owned: usize = self.workers.iter().map(Worker::sessions).sum();
        assert_eq!(owned, self.sessions.count().sessions);
        self.check_bursts();
        self.check_thresholds();
        (0..UES).for_each(|ue| self.delete(ue));
        self.settle();
        for (number, ue) in self.ues.iter().enumerate() {
            assert_eq!(ue.passed, ue.reported, "UE {number}");
            assert_eq!(ue.came, ue.told, "UE {number}");
            let mut billed = ue.billed[0];
            add(&mut billed, ue.billed[1]);
            let wanted = if is_billed(number as u8) {
                ue.passed
            } else {
                UrrCount::default()
            };
            assert_eq!(billed, wanted, "UE {number}");
            let passes = !is_policed(number as u8) && !is_charged(number as u8);
            assert!(!passes || ue.sent == ue.passed, "UE {number}");
        }
        let red = |worker: &Worker<MemIo>| {
            let stats = worker.stats();
            stats.dropped(DropReason::MeterRed) + stats.dropped(DropReason::QuotaExhausted)
        };
        assert_eq!(
            self.received + self.workers.iter().map(red).sum::<u64>(),
            self.sent
        );
        for worker in &self.workers {
            let stats = worker.stats();
            assert_eq!(
                (stats.drops.iter().sum::<u64>() - red(worker), stats.unaccounted()),
                (0, 0),
                "{stats:?}"
            );
            assert_eq!((worker.sessions(), stats.exceptions_lost), (0, 0));
            assert_eq!((worker.holdings().contents, stats.contents_together), (0, 0));
        }
        let left = self.sessions.count();
        assert_eq!((left.indexes, left.tunnels, left.addresses), (0, 0, 0));
    }
}

fn one_packet(up: bool, octets: u64) -> UrrCount {
    match up {
        true => UrrCount {
            ul_packets: 1,
            ul_octets: octets,
            ..UrrCount::default()
        },
        false => UrrCount {
            dl_packets: 1,
            dl_octets: octets,
            ..UrrCount::default()
        },
    }
}

fn add(sum: &mut UrrCount, count: UrrCount) {
    sum.ul_packets += count.ul_packets;
    sum.ul_octets += count.ul_octets;
    sum.dl_packets += count.dl_packets;
    sum.dl_octets += count.dl_octets;
}

fn mac(port: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 1, port])
}

fn frame_of(port: PortId, packet: &[u8]) -> Vec<u8> {
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_packet_is_lost_and_no_octet_counted_twice(steps in prop::collection::vec(step(), 50..400)) {
        let mut world = World::new();
        for ue in 0..UES / 2 {
            world.establish(ue);
        }
        world.settle();
        steps.iter().for_each(|step| world.act(step));
        world.finish();
    }
}

#[test]
fn traffic_that_never_stops_does_not_keep_a_bucket_from_moving() {
    let mut world = World::new();
    (0..UES).for_each(|ue| world.establish(ue));
    world.settle();
    for round in 0..3_000_u32 {
        let ue = (round % u32::from(UES)) as u8;
        let via = (round / 7 % u32::from(WORKERS)) as u16;
        for up in [true, false] {
            world.act(&Step::Packets {
                ue,
                up,
                v6: round % 5 == 0,
                via,
                count: 8,
                size: 100,
            });
        }
        if round % 10 == 0 {
            world.act(&Step::Move(ue, (round / 10 % u32::from(WORKERS)) as u16));
        }
        world.poll_worker((round % u32::from(WORKERS)) as u16);
        world.poll_control(8);
    }
    assert!(world.moves > 30, "{}", world.moves);
    let handed: u64 = world
        .workers
        .iter()
        .map(|worker| worker.stats().handed_over)
        .sum();
    assert!(handed > 10_000, "{handed}");
    world.finish();
}

#[test]
fn a_full_inbox_is_served_before_its_sessions_go() {
    let mut world = World::new();
    (0..UES).for_each(|ue| world.establish(ue));
    world.settle();
    let old = world.sessions.owner(home(0)).0;
    let (via, to) = ((old + 1) % WORKERS, (old + 2) % WORKERS);
    for _ in 0..30 {
        world.act(&Step::Packets {
            ue: 0,
            up: false,
            v6: false,
            via,
            count: 64,
            size: 100,
        });
        world.poll_worker(via);
    }
    world.act(&Step::Move(0, to));
    world.finish();
}

#[test]
fn a_bucket_that_moves_brings_no_second_burst() {
    const UE: u8 = 2;
    let mut world = World::new();
    world.establish(UE);
    world.settle();
    let owner = world.sessions.owner(home(UE)).0;
    let packets = |world: &mut World, via| {
        for up in [true, false] {
            world.act(&Step::Packets {
                ue: UE,
                up,
                v6: false,
                via,
                count: 40,
                size: 500,
            });
        }
    };
    for to in [(owner + 1) % WORKERS, (owner + 2) % WORKERS, owner] {
        packets(&mut world, to);
        world.act(&Step::Move(UE, to));
        for round in 0..300 {
            world.poll_worker(round % WORKERS);
            world.poll_control(2);
            if round % 20 == 0 {
                packets(&mut world, round / 20 % WORKERS);
            }
        }
        world.settle();
        assert_eq!(world.sessions.owner(home(UE)).0, to);
    }
    world.finish();
}
