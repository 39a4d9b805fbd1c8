//! Buckets on the move under random interleavings of workers, control, packets and requests: every packet arrives,
//! every octet is reported once, and no more of them pass than the rate allows, on any worker; where slices have
//! workers of their own, no other passes them.
//!
//! Real workers and real sessions, tied together as `upf::Control` does it, but in steps that the test chooses.

#[path = "../support/in_steps.rs"]
mod in_steps;
mod queues;
mod ue;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use flow::{Bucket, UrrCount, WorkerId};
use packet::{DropReason, Teid};
use proptest::prelude::*;
use rules::model::{
    Edit, FTeid, FarId, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation, PdrId, PdrUpdate,
    Precedence, UrrId, UrrUpdate, Volume,
};
use rules::testing::{GNB, N3_ADDRESS, UserPacket, tunnelled};
use session::{Changes, Config, Moved, Outcome, Query, Seid, SliceWorkers, Ticket, UsageRecordEvent};
use worker::Worker;

use in_steps::{ACCESS, CORE, Room, SMF, Upf, add, cp_f_seid, frame_of, one_packet, user_packet};
use ue::*;

const WORKERS: u16 = 3;
const UES: u8 = 6;
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Worker(u16),
    /// Control takes a number of events from each worker, and sends the commands that fit.
    Control(u8),
    /// A number of packets of a UE, up or down, IPv4 or IPv6, come in at a worker.
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
    /// Time passes, in milliseconds.
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
    /// A new quota, in octets.
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
    upf: Upf,
    ues: [Ue; UES as usize],
    addresses: Vec<(Ipv4Addr, Ipv6Addr)>,
    /// Requests under way, and whose they are.
    asked: BTreeMap<Ticket, (u8, Asked)>,
    /// Whose sessions there have been.
    seids: BTreeMap<Seid, u8>,
    moved: Vec<Moved>,
    moves: usize,
    sent: u64,
    received: u64,
}

impl World {
    fn new() -> Self {
        Self::with(SliceWorkers::default())
    }

    /// The same with slices that have workers of their own.
    fn with(slice_workers: SliceWorkers) -> Self {
        let config = Config {
            slice_workers,
            accept_cp_f_teids: true,
            deadline: Duration::from_secs(1_000),
            move_deadline: Duration::from_secs(1_000),
            quarantine: Duration::ZERO,
            predefined: predefined().into(),
            usage_records: true,
            ..Config::for_workers(WORKERS)
        };
        let room = Room {
            link: 16,
            wire: 1 << 16,
        };
        let upf = Upf::new(WORKERS, config, 5, room, |config| {
            (config.content_counters, config.content_interval) = (64, Duration::from_millis(20));
            // Slow, so that workers have applied different parts of control's commands.
            config.commands_per_poll = 2;
        });
        Self {
            upf,
            ues: Default::default(),
            addresses: (0..UES).map(addresses).collect(),
            asked: BTreeMap::new(),
            seids: BTreeMap::new(),
            moved: Vec::new(),
            moves: 0,
            sent: 0,
            received: 0,
        }
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
                let bucket = self.bucket_of(ue);
                let sessions = &mut self.upf.sessions;
                let begun = sessions.move_bucket(self.upf.now, bucket, WorkerId(to));
                self.moves += usize::from(begun.is_ok());
            }
            Step::Establish(ue) => self.establish(ue),
            Step::Modify(ue, modified) => self.modify(ue, modified),
            Step::Delete(ue) => self.delete(ue),
            Step::Wait(millis) => self.upf.now = self.upf.now + Duration::from_millis(millis.into()),
        }
    }

    /// Answers whether it had packets.
    fn poll_worker(&mut self, worker: u16) -> bool {
        let had = self.upf.poll_worker(WorkerId(worker), Duration::from_micros(10));
        while let Some(frame) = self.upf.next_left() {
            self.received += 1;
            self.arrived(WorkerId(worker), frame.bytes());
        }
        had
    }

    /// The bucket of a UE's session, or the one that it would be in by its address.
    fn bucket_of(&self, ue: u8) -> Bucket {
        let session = self.ues[usize::from(ue)].session;
        let known = session.and_then(|seid| self.upf.sessions.session(seid));
        known.map_or_else(|| home(ue), |session| session.bucket())
    }

    /// A worker has sent a user packet towards the data network, or in the gNB's tunnel.
    fn arrived(&mut self, worker: WorkerId, bytes: &[u8]) {
        let (up, tuple) = user_packet(bytes);
        let address = if up { tuple.addrs.src() } else { tuple.addrs.dst() };
        let number = self.ue_of(std::iter::once(address));
        let slice = slice_of(number as u8);
        assert!(self.upf.sessions.slice_workers().serves(worker, slice));
        let (ue, octets) = (&mut self.ues[number], tuple.total_len.into());
        add(&mut ue.passed, one_packet(up, octets));
        ue.passes(self.upf.now);
        if is_policed(number as u8) {
            ue.policed[usize::from(up)].pass(self.upf.now, octets);
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
        self.upf.now = self.upf.now + Duration::from_secs(1);
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

    fn poll_control(&mut self, events: usize) {
        self.upf.poll_control(events);
        while let Some((seid, report)) = self.upf.sessions.poll_usage() {
            let ue = self.seids[&seid];
            assert!(is_charged(ue) || report.urr == POOL, "{report:?}");
            self.ues[usize::from(ue)].reports(&report);
        }
        while let Some(outcome) = self.upf.sessions.poll_outcome() {
            self.outcome(outcome);
        }
        while let Some(entry) = self.upf.sessions.poll_usage_record_entry() {
            if let UsageRecordEvent::Content(usage) = entry.event {
                let ue = self.ue_of(entry.ue_addresses.iter().map(|(_, prefix)| prefix.address()));
                let content = self.upf.sessions.predefined().content(usage.content).unwrap();
                assert!(is_billed(ue as u8) && !usage.is_nothing() && usage.first <= usage.last);
                let place = usize::from(&*content.name == "six");
                add(&mut self.ues[ue].billed[place], usage.count);
            }
        }
        self.check_quotas();
        self.moved
            .extend(std::iter::from_fn(|| self.upf.sessions.poll_moved()));
    }

    fn outcome(&mut self, outcome: Outcome) {
        let (number, asked) = self.asked.remove(&outcome.ticket).expect("it was asked for");
        let done = outcome.result.expect("nothing is refused here");
        let ue = &mut self.ues[usize::from(number)];
        for report in &done.usage {
            ue.reports(report);
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
        let ticket = self.upf.ticket();
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
        let now = self.upf.now;
        self.upf
            .sessions
            .establish(now, ticket, SMF, cp_f_seid(ticket), establishment(ue));
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
        self.upf
            .sessions
            .modify(self.upf.now, ticket, seid, None, changes);
    }

    /// The last packets arrive first: what comes for a session that is gone is rightly dropped.
    fn delete(&mut self, ue: u8) {
        let Some(seid) = self.ues[usize::from(ue)].session.take() else {
            return;
        };
        while (0..WORKERS).filter(|worker| self.poll_worker(*worker)).count() > 0 {}
        let ticket = self.ask(ue, Asked::Other);
        self.upf.sessions.delete(self.upf.now, ticket, seid);
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
        self.upf.push(WorkerId(via), port, &frame_of(port, &packet));
        self.sent += 1;
    }

    /// All pending work is done.
    fn settle(&mut self) {
        for _ in 0..400 {
            for worker in 0..WORKERS {
                self.poll_worker(worker);
            }
            self.poll_control(16);
        }
        assert!(self.asked.is_empty(), "without outcome: {:?}", self.asked);
        assert_eq!(self.upf.sessions.count().ops, 0);
    }

    fn finish(mut self) {
        self.settle();
        assert!(
            self.moved.iter().all(|moved| moved.result.is_ok()),
            "{:?}",
            self.moved
        );
        assert_eq!(self.moved.len(), self.moves);
        let owned: usize = self.upf.workers.iter().map(Worker::sessions).sum();
        assert_eq!(owned, self.upf.sessions.count().sessions);
        self.check_bursts();
        self.check_thresholds();
        (0..UES).for_each(|ue| self.delete(ue));
        self.settle();
        for (number, ue) in self.ues.iter().enumerate() {
            assert_eq!(ue.passed, ue.reported, "UE {number}");
            assert_eq!(ue.came, ue.traffic_times, "UE {number}");
            // To the octet, whatever moves cut it into; a session that ends leaves less than one of each.
            let pooled = UrrCount {
                ul_octets: ue.passed.ul_octets * 3 / 10,
                ..ue.passed
            };
            let pooled = if is_pooled(number as u8) {
                pooled
            } else {
                UrrCount::default()
            };
            let unreported = pooled.ul_octets - ue.pooled.ul_octets;
            assert!(
                unreported <= ue.ended,
                "UE {number}: {unreported} of {}",
                ue.ended
            );
            let complete = UrrCount {
                ul_octets: ue.pooled.ul_octets + unreported,
                ..ue.pooled
            };
            assert_eq!(complete, pooled, "UE {number}");
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
        const RED: [DropReason; 2] = [DropReason::MeterRed, DropReason::QuotaExhausted];
        let red: u64 = RED.map(|reason| self.upf.dropped(reason)).iter().sum();
        assert_eq!(self.received + red, self.sent);
        for worker in &self.upf.workers {
            let stats = worker.stats();
            let red: u64 = RED.map(|reason| stats.dropped(reason)).iter().sum();
            let others = stats.drops.iter().sum::<u64>() - red;
            assert_eq!((others, stats.unaccounted()), (0, 0), "{stats:?}");
            assert_eq!((worker.sessions(), stats.exceptions_lost), (0, 0));
            assert_eq!((worker.holdings().contents, stats.contents_together), (0, 0));
        }
        let left = self.upf.sessions.count();
        assert_eq!((left.indexes, left.tunnels, left.addresses), (0, 0, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// As below, where slices have workers of their own: each packet is passed by a worker of its session's slice.
    #[test]
    fn no_worker_passes_packets_of_a_slice_that_it_does_not_serve(
        steps in prop::collection::vec(step(), 50..400),
        first in prop::collection::vec(1..WORKERS, 1..3),
        second in prop::option::of(prop::collection::vec(1..WORKERS, 1..3)),
    ) {
        let list = |ue: u8, own: Vec<u16>| {
            let workers = own.into_iter().map(WorkerId).collect();
            Some((slice_of(ue)?, workers))
        };
        let second = second.and_then(|own| list(2, own));
        let mut world = World::with(SliceWorkers::new(list(1, first).into_iter().chain(second)));
        (0..UES).for_each(|ue| world.establish(ue));
        world.settle();
        steps.iter().for_each(|step| world.act(step));
        world.finish();
    }

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
        .upf
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
    let old = world.upf.sessions.owner(home(0)).0;
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
    let owner = world.upf.sessions.owner(home(UE)).0;
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
        assert_eq!(world.upf.sessions.owner(home(UE)).0, to);
    }
    world.finish();
}
