//! Usage to the byte over a long time: random rules and changes, real workers on simulated time, and a model that adds
//! up every packet that left.
//!
//! Sessions have QERs and URRs of all kinds: thresholds, quotas, periods, times, links, starts and stops. Their PDRs
//! distinguish packets by port, and each counts in URRs of its own. Quotas are granted, URRs paused, removed and made
//! anew, buckets move, sessions leave as records and come back, flows age, slices change. At any moment of rest the sum
//! of all reports of a URR is what the model has added up, and what workers have forwarded of each slice and data
//! network is what left. Everything follows from the seed.

#[path = "support/in_steps.rs"]
mod in_steps;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use flow::{SessionGroupTotal, UrrCount, WorkerId, bucket};
use packet::Teid;
use rules::Predefined;
use rules::model::*;
use rules::network::Network;
use rules::testing::{GNB, N3_ADDRESS, UserPacket, f_teid, pdu_session, tunnelled};
use session::{
    Changes, Config, Export, Frame, Outcome, Query, Record, Seid, SessionGroup, Subscriber, Ticket, WallClock,
};

use in_steps::{ACCESS, CORE, Room, SMF, Upf, add, cp_f_seid, one_packet, user_packet};

const WORKERS: u16 = 2;
const UES: usize = 12;
const URRS: usize = 5;
/// Kinds of packets that PDRs of their own look for, by port; and what is left.
const KINDS: usize = 4;
/// Slices and data networks; sessions of the first name neither.
const GROUPS: usize = 4;
/// The most octets that a URR is granted at once.
const MOST_GRANTED: usize = 1_000_000;
/// Octets behind the headers.
const SIZES: [usize; 3] = [0, 500, 1300];
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const CLOCK: u64 = 1_700_000_000;

/// xorshift64*.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((self.next() >> 33) % bound as u64) as usize
    }

    fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }

    /// One of these, or as often none.
    fn maybe(&mut self, bound: usize) -> Option<u32> {
        self.one_in(2).then(|| 1 + self.below(bound) as u32)
    }
}

/// The test's state of a UE.
struct Ue {
    seid: Option<Seid>,
    group: usize,
    /// The URRs of each kind of packets, up and down: bit n is the URR n + 1.
    counts_in: [[u8; KINDS]; 2],
    paused: u8,
    /// What left in the packets of each URR, and what was reported of it.
    passed: [UrrCount; URRS],
    reported: [UrrCount; URRS],
    /// Frames to it, by direction, kind and size.
    frames: [[Vec<Vec<u8>>; KINDS]; 2],
}

struct World {
    dice: Dice,
    upf: Upf,
    ues: Vec<Ue>,
    asked: BTreeMap<Ticket, usize>,
    seids: BTreeMap<Seid, usize>,
    /// A session on its way.
    record: Option<Vec<u8>>,
    /// What left of each group.
    groups: [UrrCount; GROUPS],
    /// Counts of each, so that a run without them fails.
    sent: u64,
    received: u64,
    reports: BTreeMap<&'static str, u64>,
    moves: u64,
    transfers: u64,
}

/// Whom a session of a group is for: two slices with one DNN, and a DNN without a slice.
fn subscriber(group: usize) -> Option<Arc<Subscriber>> {
    let sst = [0, 1, 2, 0][group];
    let subscriber = Subscriber {
        dnn: Some(if group == 3 { "ims" } else { "internet" }.into()),
        s_nssai: (sst > 0).then_some(SNssai { sst, sd: [0, 0, 1] }),
        ..Subscriber::default()
    };
    (group > 0).then(|| Arc::new(subscriber))
}

fn address(ue: usize) -> Ipv4Addr {
    Ipv4Addr::from_bits(0x0a2d_0000 + 2 + ue as u32)
}

fn teid(ue: usize) -> u32 {
    0x5000 + ue as u32
}

const fn port_of(kind: usize) -> u16 {
    53 + kind as u16
}

fn pdr_of(direction: usize, kind: usize) -> PdrId {
    PdrId((1 + kind * 2 + direction) as u16)
}

fn urr_of(place: usize) -> UrrId {
    UrrId(place as u32 + 1)
}

fn total(octets: usize) -> Option<Box<Volume>> {
    Some(Box::new(Volume {
        total: Some(octets as u64),
        ..Volume::default()
    }))
}

fn ids(mask: u8) -> Vec<UrrId> {
    (0..URRS)
        .filter(|place| mask >> place & 1 == 1)
        .map(urr_of)
        .collect()
}

fn frames(ue: usize) -> [[Vec<Vec<u8>>; KINDS]; 2] {
    [0, 1].map(|direction| {
        std::array::from_fn(|kind| {
            SIZES
                .iter()
                .map(|size| frame_of(ue, direction, kind, *size))
                .collect()
        })
    })
}

fn frame_of(ue: usize, direction: usize, kind: usize, size: usize) -> Vec<u8> {
    let (inner, port) = (address(ue), port_of(kind));
    let mut user = match direction {
        0 => UserPacket::udp(inner, REMOTE, 1000, port),
        _ => UserPacket::udp(REMOTE, inner, port, 1000),
    };
    user.payload = vec![0xcd; size];
    let user = user.bytes();
    let (port, packet) = match direction {
        0 => (
            ACCESS,
            tunnelled(N3_ADDRESS, teid(ue), 255, Some([0x10, 9]), &[], &user),
        ),
        _ => (CORE, user),
    };
    in_steps::frame_of(port, &packet)
}

/// A URR of any kind.
fn urr(dice: &mut Dice, place: usize) -> Urr {
    let has_time = dice.one_in(2);
    let linked = dice.one_in(4).then(|| urr_of(dice.below(URRS)));
    let quota = dice
        .one_in(2)
        .then(|| total(5_000 + dice.below(MOST_GRANTED)))
        .flatten();
    let terms = UrrTerms {
        quota_holding_time: (quota.is_some() && dice.one_in(3)).then_some(20),
        quota_validity_time: (quota.is_some() && dice.one_in(4)).then_some(40),
        inactivity_detection_time: dice.one_in(3).then_some(5),
        linked: linked.into_iter().filter(|id| *id != urr_of(place)).collect(),
        ..UrrTerms::NONE
    };
    Urr {
        id: urr_of(place),
        method: MeasurementMethod(if has_time { 3 } else { 2 }),
        information: MeasurementInformation(if dice.one_in(3) { 0x18 } else { 0 }),
        triggers: ReportingTriggers(dice.next() as u32 & 0x83bf),
        measurement_period: dice.maybe(60),
        volume_threshold: dice.maybe(400_000).and_then(|octets| total(octets as usize)),
        volume_quota: quota,
        time_threshold: dice.maybe(50).filter(|_| has_time),
        time_quota: dice.maybe(1_000).filter(|_| has_time && place == 0),
        terms: Some(Box::new(terms)).filter(|terms| **terms != UrrTerms::NONE),
    }
}

/// A session whose links name URRs that there are: those of numbers up to its own come first.
fn establishment(ue: &Ue, number: usize, dice: &mut Dice) -> Changes {
    let rules = pdu_session(1, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
    let mut pdrs = Vec::new();
    for (direction, like) in rules.pdrs().iter().enumerate() {
        for kind in 0..KINDS {
            let mut pdr = like.clone();
            pdr.id = pdr_of(direction, kind);
            pdr.urrs = ids(ue.counts_in[direction][kind]).into();
            match direction {
                0 => pdr.pdi.f_teid = Some(f_teid(teid(number))),
                _ => pdr.pdi.ue_ip.iter_mut().for_each(|ip| {
                    (ip.ipv4, ip.ipv6) = (Some(address(number)), None);
                }),
            }
            if kind > 0 {
                pdr.precedence = Precedence(10 + kind as u32);
                let text = format!("permit out 17 from any {} to assigned", port_of(kind));
                pdr.pdi.sdf_filters = [SdfFilter {
                    flow_description: Some(text.parse().expect("a flow description")),
                    tos_traffic_class: None,
                    spi: None,
                    flow_label: None,
                    filter_id: None,
                }]
                .into();
            }
            pdrs.push(pdr);
        }
    }
    let mut qers = rules.qers().to_vec();
    if number % 4 == 3 {
        let rate = BitsPerSecond(400_000_000);
        qers[0].mbr = Some(BitRates { ul: rate, dl: rate });
    }
    Changes {
        create_pdrs: pdrs,
        create_fars: rules.fars().to_vec(),
        create_qers: qers,
        create_urrs: (0..URRS).map(|place| urr(dice, place)).collect(),
        subscriber: subscriber(ue.group),
        ..Changes::default()
    }
}

impl World {
    fn new(seed: u64) -> Self {
        let never = Duration::from_secs(1 << 30);
        let config = Config {
            accept_cp_f_teids: true,
            deadline: never,
            move_deadline: never,
            quarantine: Duration::ZERO,
            clock_unix: CLOCK,
            traffic_silence: Duration::from_secs(7),
            ..Config::for_workers(WORKERS)
        };
        let room = Room {
            link: 64,
            wire: 1 << 14,
        };
        let upf = Upf::new(WORKERS, config, seed, room, |_| ());
        let mut dice = Dice(seed | 1);
        let ue = |number| Ue {
            seid: None,
            group: number % GROUPS,
            counts_in: Default::default(),
            paused: 0,
            passed: Default::default(),
            reported: Default::default(),
            frames: frames(number),
        };
        let mut ues: Vec<Ue> = (0..UES).map(ue).collect();
        ues.iter_mut()
            .flat_map(|ue| ue.counts_in.iter_mut().flatten())
            .for_each(|mask| {
                *mask = dice.below(1 << URRS) as u8;
            });
        let mut world = Self {
            dice,
            upf,
            ues,
            asked: BTreeMap::new(),
            seids: BTreeMap::new(),
            record: None,
            groups: Default::default(),
            sent: 0,
            received: 0,
            reports: BTreeMap::new(),
            moves: 0,
            transfers: 0,
        };
        (0..UES).for_each(|ue| world.establish(ue));
        world.rest();
        world
    }

    fn ticket(&mut self, ue: usize) -> Ticket {
        let ticket = self.upf.ticket();
        self.asked.insert(ticket, ue);
        ticket
    }

    fn establish(&mut self, ue: usize) {
        let ticket = self.ticket(ue);
        let changes = establishment(&self.ues[ue], ue, &mut self.dice);
        self.ues[ue].paused = 0;
        let now = self.upf.now;
        self.upf
            .sessions
            .establish(now, ticket, SMF, cp_f_seid(ticket), changes);
    }

    fn modify(&mut self, ue: usize, changes: Changes) {
        if let Some(seid) = self.ues[ue].seid {
            let ticket = self.ticket(ue);
            let now = self.upf.now;
            self.upf.sessions.modify(now, ticket, seid, None, changes);
        }
    }

    /// What happens to the model when a packet has left.
    fn left(&mut self, bytes: &[u8]) {
        let (up, tuple) = user_packet(bytes);
        let (direction, address, port) = match up {
            true => (0, tuple.addrs.src(), tuple.dst_port),
            false => (1, tuple.addrs.dst(), tuple.src_port),
        };
        let IpAddr::V4(address) = address else {
            panic!("{address}")
        };
        let ue = &mut self.ues[(address.to_bits() - 0x0a2d_0002) as usize];
        let mask = ue.counts_in[direction][usize::from(port - port_of(0))] & !ue.paused;
        let octets = u64::from(tuple.total_len);
        add(&mut self.groups[ue.group], one_packet(up, octets));
        for place in (0..URRS).filter(|place| mask >> place & 1 == 1) {
            add(&mut ue.passed[place], one_packet(up, octets));
        }
        self.received += 1;
    }

    /// Whether it had packets.
    fn poll_worker(&mut self, worker: usize) -> bool {
        let worker = WorkerId(worker as u16);
        let had = self.upf.poll_worker(worker, Duration::from_micros(20));
        while let Some(frame) = self.upf.next_left() {
            self.left(frame.bytes());
        }
        had
    }

    fn poll_control(&mut self) {
        self.upf.poll_control(usize::MAX);
        while let Some((seid, report)) = self.upf.sessions.poll_usage() {
            self.reported(self.seids[&seid], &report);
        }
        while let Some(outcome) = self.upf.sessions.poll_outcome() {
            self.outcome(outcome);
        }
        while let Some(moved) = self.upf.sessions.poll_moved() {
            assert!(moved.result.is_ok(), "{moved:?}");
            self.moves += 1;
        }
    }

    fn reported(&mut self, ue: usize, report: &session::UsageReport) {
        for name in report.triggers.names() {
            *self.reports.entry(name).or_default() += 1;
        }
        let sum = &mut self.ues[ue].reported[report.urr.0 as usize - 1];
        add(sum, report.count);
    }

    fn outcome(&mut self, outcome: Outcome) {
        let ue = self.asked.remove(&outcome.ticket).expect("it was asked for");
        let done = outcome.result.expect("nothing is refused here");
        for report in &done.usage {
            self.reported(ue, report);
        }
        if let Some((_, record)) = done.record {
            let frame = frame(self.upf.network());
            self.record = Some(record.encode(frame).expect("a record"));
            return;
        }
        self.seids.insert(done.seid, ue);
        if self.upf.sessions.session(done.seid).is_some() {
            self.ues[ue].seid = Some(done.seid);
        }
    }

    /// All packets leave, and all pending work is done.
    fn rest(&mut self) {
        loop {
            let mut is_busy = false;
            for worker in 0..usize::from(WORKERS) {
                is_busy |= self.poll_worker(worker);
            }
            self.poll_control();
            if !is_busy && self.upf.is_done() && self.asked.is_empty() {
                return;
            }
        }
    }

    /// Packets of any UE, and concurrent events.
    fn bustle(&mut self, packets: u64) {
        let until = self.sent + packets;
        while self.sent < until {
            for _ in 0..4 {
                let ue = self.dice.below(UES);
                let (direction, kind) = (self.dice.below(2), self.dice.below(KINDS));
                let (size, via) = (self.dice.below(SIZES.len()), self.dice.below(WORKERS.into()));
                let frame = &self.ues[ue].frames[direction][kind][size];
                let port = [ACCESS, CORE][direction];
                let count = 1 + self.dice.below(24);
                for _ in 0..count {
                    self.upf.push(WorkerId(via as u16), port, frame);
                }
                self.sent += count as u64;
            }
            for worker in 0..usize::from(WORKERS) {
                self.poll_worker(worker);
            }
            self.poll_control();
            if self.dice.one_in(8) {
                self.request();
            }
        }
    }

    /// Something that may happen while packets are on their way.
    fn request(&mut self) {
        let ue = self.dice.below(UES);
        if self.asked.values().any(|asking| *asking == ue) {
            return;
        }
        match self.dice.below(4) {
            0 => self.modify(
                ue,
                Changes {
                    query: Query::All(Vec::new()),
                    ..Changes::default()
                },
            ),
            1 => {
                let home = bucket::of_ipv4(address(ue).octets());
                let to = WorkerId(self.dice.below(WORKERS.into()) as u16);
                // Not while another one moves, nor to where it is.
                let _ = self.upf.sessions.move_bucket(self.upf.now, home, to);
            }
            _ => self.grant(ue),
        }
    }

    /// New thresholds and quotas, of what is measured.
    fn grant(&mut self, ue: usize) {
        let Some(session) = self.ues[ue].seid.and_then(|seid| self.upf.sessions.session(seid)) else {
            return;
        };
        let dice = &mut self.dice;
        let mut grant = |urr: &Urr| {
            let mut update = UrrUpdate::new(urr.id);
            if urr.volume_quota.is_some() {
                update.volume_quota = Edit::Set(total(dice.below(MOST_GRANTED)).expect("octets"));
            }
            if urr.time_quota.is_some() {
                update.time_quota = Edit::Set(1 + dice.below(1_000) as u32);
            }
            if dice.one_in(3) {
                update.volume_threshold = Edit::Set(total(1 + dice.below(400_000)).expect("octets"));
            }
            update
        };
        let update_urrs = session.rules().urrs().iter().map(&mut grant).collect();
        self.modify(
            ue,
            Changes {
                update_urrs,
                ..Changes::default()
            },
        );
    }

    /// At a moment of rest: PDRs count elsewhere, URRs pause or are made anew, sessions come and go, time leaps.
    fn change(&mut self) {
        let ue = self.dice.below(UES);
        let place = self.dice.below(URRS);
        match self.dice.below(8) {
            0 | 1 => self.count_elsewhere(ue),
            2 => self.pause(ue, place),
            3 => self.make_anew(ue, place),
            4 => self.transfer(ue),
            6 => self.join_another_group(ue),
            5 => {
                let seid = self.ues[ue].seid.take().expect("a session");
                let ticket = self.ticket(ue);
                self.upf.sessions.delete(self.upf.now, ticket, seid);
                self.rest();
                self.check(ue);
                self.establish(ue);
            }
            _ => self.leap(),
        }
        self.rest();
    }

    fn count_elsewhere(&mut self, ue: usize) {
        let (direction, kind) = (self.dice.below(2), self.dice.below(KINDS));
        let there = self.ues[ue].seid.and_then(|seid| self.upf.sessions.session(seid));
        let there = there.map_or(0, |session| {
            let urrs = session.rules().urrs().iter();
            urrs.fold(0, |mask, urr| mask | 1 << (urr.id.0 - 1))
        });
        let mask = self.dice.below(1 << URRS) as u8 & there;
        self.ues[ue].counts_in[direction][kind] = mask;
        let update = PdrUpdate {
            urrs: Some(ids(mask)),
            ..PdrUpdate::new(pdr_of(direction, kind))
        };
        self.modify(
            ue,
            Changes {
                update_pdrs: vec![update],
                ..Changes::default()
            },
        );
    }

    fn join_another_group(&mut self, ue: usize) {
        let group = 1 + self.dice.below(GROUPS - 1);
        self.ues[ue].group = group;
        let changes = Changes {
            subscriber: subscriber(group),
            ..Changes::default()
        };
        self.modify(ue, changes);
    }

    /// What all workers have forwarded of each group is what left.
    fn check_groups(&self) {
        let mut found = [false; GROUPS];
        for of in self.upf.sessions.groups() {
            let SessionGroup::Of { s_nssai, dnn } = of.group else {
                panic!("there is room for all")
            };
            let is_it = |group: &usize| {
                let known = subscriber(*group).unwrap_or_default();
                known.s_nssai == s_nssai && known.dnn == dnn
            };
            let group = (0..GROUPS).find(is_it).expect("one of ours");
            found[group] = true;
            let mut sum = UrrCount::default();
            for worker in &self.upf.workers {
                let SessionGroupTotal { packets, octets } = worker.group_totals()[of.number.index()];
                let total = UrrCount {
                    ul_packets: packets[0],
                    ul_octets: octets[0],
                    dl_packets: packets[1],
                    dl_octets: octets[1],
                    events: 0,
                };
                add(&mut sum, total);
            }
            assert_eq!(sum, self.groups[group], "group {group}");
        }
        let mut counted = self.groups.iter().map(|of| *of != UrrCount::default());
        let is_there = |there: bool| counted.next() != Some(true) || there;
        assert!(found.into_iter().all(is_there), "each group is there: {found:?}");
    }

    fn pause(&mut self, ue: usize, place: usize) {
        let paused = self.ues[ue].paused ^ 1 << place;
        let information = match paused >> place & 1 {
            1 => MeasurementInformation::INAM,
            _ => MeasurementInformation(0),
        };
        self.ues[ue].paused = paused;
        let update = UrrUpdate {
            information: Some(information),
            ..UrrUpdate::new(urr_of(place))
        };
        self.modify(
            ue,
            Changes {
                update_urrs: vec![update],
                ..Changes::default()
            },
        );
    }

    /// A URR goes, with its last report, and one of the same number comes.
    fn make_anew(&mut self, ue: usize, place: usize) {
        let gone = Changes {
            remove_urrs: vec![urr_of(place)],
            ..Changes::default()
        };
        self.modify(ue, gone);
        self.rest();
        self.check_one(ue, place);
        let there = !(1 << place);
        self.ues[ue].paused &= there;
        let mut made = urr(&mut self.dice, place);
        // What others linked to it is gone with it.
        made.terms = None;
        let masks = &mut self.ues[ue].counts_in;
        let mut update_pdrs = Vec::new();
        for (direction, kinds) in masks.iter().enumerate() {
            for (kind, mask) in kinds.iter().enumerate() {
                update_pdrs.push(PdrUpdate {
                    urrs: Some(ids(*mask)),
                    ..PdrUpdate::new(pdr_of(direction, kind))
                });
            }
        }
        let created = Changes {
            create_urrs: vec![made],
            update_pdrs,
            ..Changes::default()
        };
        self.modify(ue, created);
    }

    /// A session leaves as a record, and comes back.
    fn transfer(&mut self, ue: usize) {
        let seid = self.ues[ue].seid.take().expect("a session");
        let ticket = self.ticket(ue);
        self.upf.sessions.export(self.upf.now, ticket, seid, Export::Take);
        self.rest();
        let octets = self.record.take().expect("a record");
        let (record, rest) = Record::decode(&octets, frame(self.upf.network())).expect("a record");
        assert!(rest.is_empty());
        let Record::Session(record) = record else {
            panic!("{record:?}")
        };
        let ticket = self.ticket(ue);
        let taken = self.upf.sessions.import(self.upf.now, ticket, SMF, &record);
        taken.expect("there is room");
        self.transfers += 1;
    }

    /// So much time that flows age and quotas lose their validity.
    fn leap(&mut self) {
        let seconds = 1 + self.dice.below(400);
        for _ in 0..seconds {
            self.upf.now = self.upf.now + Duration::from_secs(1);
            self.poll_control();
            self.rest();
        }
    }

    /// The reported usage of a UE's URRs is what left.
    fn check(&self, ue: usize) {
        (0..URRS).for_each(|place| self.check_one(ue, place));
    }

    fn check_one(&self, ue: usize, place: usize) {
        let Ue { passed, reported, .. } = &self.ues[ue];
        assert_eq!(reported[place], passed[place], "UE {ue}, URR {}", place + 1);
    }

    fn ask_all(&mut self, ue: usize) {
        let query = Changes {
            query: Query::All(Vec::new()),
            ..Changes::default()
        };
        self.modify(ue, query);
        self.rest();
        self.check(ue);
    }

    fn run(mut self, packets: u64) {
        while self.sent < packets {
            self.bustle(2_000);
            self.rest();
            let ue = self.dice.below(UES);
            self.ask_all(ue);
            self.check_groups();
            self.change();
            // What has used up its quotas continues.
            (0..UES).for_each(|ue| self.grant(ue));
        }
        self.rest();
        (0..UES).for_each(|ue| self.ask_all(ue));
        for ue in 0..UES {
            let seid = self.ues[ue].seid.take().expect("a session");
            let ticket = self.ticket(ue);
            self.upf.sessions.delete(self.upf.now, ticket, seid);
        }
        self.rest();
        (0..UES).for_each(|ue| self.check(ue));
        self.check_groups();
        assert!(
            self.groups.iter().all(|group| group.dl_packets > 0),
            "{:?}",
            self.groups
        );
        let left = self.upf.sessions.count();
        assert_eq!((left.sessions, left.tunnels, left.addresses), (0, 0, 0));
        for worker in &self.upf.workers {
            assert_eq!(worker.stats().unaccounted(), 0);
        }
        println!(
            "{} of {} packets left; {} moves, {} transfers; {:?}",
            self.received, self.sent, self.moves, self.transfers, self.reports
        );
        assert!(self.received * 4 > self.sent, "most were stopped");
        assert!(self.moves > 0 && self.transfers > 0);
        for name in [
            "PERIO", "VOLTH", "TIMTH", "VOLQU", "TIMQU", "LIUSA", "START", "STOPT", "TERMR", "IMMER",
        ] {
            assert!(self.reports.contains_key(name), "{name}: {:?}", self.reports);
        }
    }
}

fn frame(network: &Network) -> Frame<'_> {
    static NONE: std::sync::LazyLock<Predefined> = std::sync::LazyLock::new(Predefined::default);
    static WALL: std::sync::LazyLock<WallClock> = std::sync::LazyLock::new(|| WallClock::starting(CLOCK));
    Frame {
        network,
        predefined: &NONE,
        wall: &WALL,
    }
}

/// The seed of `SLUICE_SEED`, else the same every time.
fn seed() -> u64 {
    let given = std::env::var("SLUICE_SEED").ok();
    let seed = given.map_or(20, |text| text.parse().expect("SLUICE_SEED is a number"));
    println!("SLUICE_SEED={seed}");
    seed
}

#[test]
fn every_octet_of_many_is_reported_once() {
    World::new(seed()).run(150_000);
}

/// The same for ten million packets.
#[test]
fn every_octet_of_ten_million_packets_is_reported_once() {
    World::new(seed()).run(10_000_000);
}
