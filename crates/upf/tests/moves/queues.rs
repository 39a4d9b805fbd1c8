//! Queues before ports on the move, under random interleavings: packets of a queue leave in order, at its rate, and
//! each that leaves is charged once, whatever worker it waited at.

use std::collections::BTreeMap;
use std::time::Duration;

use flow::meter::Rate;
use flow::{Nanos, WorkerId};
use packet::{DropReason, Qfi, Teid};
use proptest::prelude::*;
use rules::image::ImmediateActions;
use rules::model::{
    BitRates, BitsPerSecond, DestinationInterface, Edit, FarId, FarUpdate, ForwardingParametersUpdate,
    OuterHeaderCreation, Pdi, Qer, QerId, QerUpdate, SdfFilter, SourceInterface,
};
use rules::network::{Egress, EgressClass, EgressClasses, InstanceEgress, Network, QueueManagement};
use rules::testing::{self, GNB, UserPacket, pdu_session, ue_ip};
use session::{Changes, Config, EndCause, Seid, Ticket};
use worker::EgressLimits;

use crate::in_steps::{CORE, Room, SMF, Upf, cp_f_seid, frame_of};
use crate::ue::{addresses, home};
use crate::{REMOTE, WORKERS};

const UES: u8 = 3;
/// The remote ports of a session's two flows: that which shares the Session-AMBR, and that of QFI 1, which has a rate
/// of its own.
const PORTS: [u16; 2] = [53, 80];
/// The QERs of their rates.
const RATES: [QerId; 2] = [QerId(10), QerId(2)];
/// The first rate of each, in kbit/s.
const FIRST: u64 = 1_000;
/// Octets that wait in a queue at most.
const CAP: u32 = 20_000;

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Worker(u16),
    Control(u8),
    Packets {
        ue: u8,
        flow: usize,
        count: u8,
        size: u16,
    },
    Move(u8, u16),
    Establish(u8),
    Delete(u8),
    /// The rate of a flow is another from now on, in kbit/s.
    Rate(u8, usize, u16),
    /// A UE is handed over to another tunnel, with an End Marker; of one UE.
    Handover,
    /// The user plane ends the session of that UE.
    Kill,
    /// Microseconds pass.
    Wait(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let packets = (0..UES, 0..2usize, 1_u8..20, 4_u16..1_000);
    prop_oneof![
        14 => (0..WORKERS).prop_map(Step::Worker),
        8 => (1_u8..9).prop_map(Step::Control),
        8 => packets.prop_map(|(ue, flow, count, size)| Step::Packets { ue, flow, count, size }),
        3 => (0..UES, 0..WORKERS).prop_map(|(ue, to)| Step::Move(ue, to)),
        1 => (0..UES).prop_map(Step::Establish),
        1 => (0..UES).prop_map(Step::Delete),
        1 => (0..UES, 0..2usize, 800_u16..4_000).prop_map(|(ue, flow, kbit)| Step::Rate(ue, flow, kbit)),
        1 => Just(Step::Handover),
        1 => Just(Step::Kill),
        4 => (1_u16..20_000).prop_map(Step::Wait),
    ]
}

/// The UE that is handed over and whose sessions the user plane ends: its packets leave at no rate at times, and not
/// all of its usage is reported.
const UNSTEADY: u8 = UES - 1;

/// A slow model of a rate: what may leave, at most.
#[derive(Clone, Copy, Debug, Default)]
struct Allowed {
    /// The rate that is known to hold, and the highest that may, in kbit/s.
    rate: u64,
    highest: u64,
    /// Millionths of a bit.
    level: i128,
    at: Nanos,
}

impl Allowed {
    /// What 50 ms of a rate are.
    fn depth(kbit: u64) -> i128 {
        i128::from(kbit) * 50_000_000
    }

    fn begin(kbit: u64, now: Nanos) -> Self {
        Self {
            rate: kbit,
            highest: kbit,
            level: Self::depth(kbit),
            at: now,
        }
    }

    fn earn(&mut self, now: Nanos) {
        let earned = i128::from(now.0 - self.at.0) * i128::from(self.highest);
        self.level = (self.level + earned).min(Self::depth(self.highest));
        self.at = now;
    }

    fn pass(&mut self, now: Nanos, octets: u64) {
        self.earn(now);
        self.level -= i128::from(octets) * 8_000_000;
        assert!(self.level >= 0, "{self:?}");
    }

    /// Another rate is asked for: it may hold from now on.
    fn ask(&mut self, now: Nanos, kbit: u64) {
        self.earn(now);
        self.highest = self.highest.max(kbit);
    }

    /// It does hold.
    fn settle(&mut self, now: Nanos, kbit: u64) {
        self.earn(now);
        (self.rate, self.highest) = (kbit, kbit);
        self.level = self.level.min(Self::depth(kbit));
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Ue {
    session: Option<Seid>,
    /// By flow: packets sent, and the last one that left.
    sent: [u32; 2],
    last: [u32; 2],
    allowed: [Allowed; 2],
    passed: (u64, u64),
    reported: (u64, u64),
}

/// What a request asks for.
#[derive(Clone, Copy, Debug)]
enum Asked {
    Establishment,
    Rate(usize, u64),
    Other,
}

struct World {
    upf: Upf,
    ues: [Ue; UES as usize],
    asked: BTreeMap<Ticket, (u8, Asked)>,
    seids: BTreeMap<Seid, u8>,
    tunnel: u32,
    /// Tunnels whose End Marker has left.
    ended: Vec<u32>,
    /// Whether moves may fail.
    fails: bool,
    sent: u64,
    left: u64,
}

fn network(management: QueueManagement) -> Network {
    let class = |name: &str, qfis: &[u8], priority| EgressClass {
        name: name.into(),
        qfis: qfis.iter().map(|qfi| Qfi::new(*qfi).expect("a QFI")).collect(),
        priority,
        weight: 1,
        octets: CAP,
        management,
    };
    let classes = vec![class("voice", &[1], 0), class("rest", &[], 1)];
    let network = testing::network_with(|instance| {
        if instance.id.0 == 0 {
            instance.egress = Some(InstanceEgress {
                rate: Rate::UNLIMITED,
            });
        }
    });
    network.with_egress(Some(Egress {
        classes: EgressClasses::new(classes).expect("two classes"),
        ports: Vec::new(),
    }))
}

fn mbr(kbit: u64) -> BitRates {
    let rate = BitsPerSecond::from_kbit(kbit);
    BitRates { ul: rate, dl: rate }
}

/// A session with a default flow and one of QFI 1.
fn establishment(ue: u8, tunnel: u32) -> Changes {
    let header = OuterHeaderCreation::gtpu_ipv4(Teid(tunnel), GNB);
    let rules = pdu_session(0x5000 + u32::from(ue), header);
    let mut pdrs = rules.pdrs().to_vec();
    pdrs.iter_mut().for_each(|pdr| pdr.qers.push(RATES[0]));
    let mut pdi = Pdi::new(SourceInterface::Core);
    pdi.ue_ip = vec![ue_ip()].into();
    let description = format!("permit out 17 from any {} to assigned", PORTS[1]);
    pdi.sdf_filters = [SdfFilter {
        flow_description: Some(description.parse().expect("a description")),
        ..SdfFilter::default()
    }]
    .into_iter()
    .collect();
    let mut voice = testing::pdr(12, 10, pdi, 2);
    voice.qers = [RATES[1]].into_iter().collect();
    voice.urrs = pdrs[1].urrs.clone();
    pdrs.push(voice);
    let (v4, v6) = addresses(ue);
    for address in pdrs.iter_mut().flat_map(|pdr| &mut pdr.pdi.ue_ip) {
        (address.ipv4, address.ipv6) = (Some(v4), Some((v6, 64)));
    }
    let mut qers = rules.qers().to_vec();
    let limited = |id, qfi| Qer {
        qfi,
        mbr: Some(mbr(FIRST)),
        ..Qer::new(id)
    };
    qers.extend([limited(RATES[0], None), limited(RATES[1], Qfi::new(1))]);
    Changes {
        create_pdrs: pdrs,
        create_fars: rules.fars().to_vec(),
        create_qers: qers,
        create_urrs: rules.urrs().to_vec(),
        ..Changes::default()
    }
}

impl World {
    fn new(management: QueueManagement, fails: bool) -> Self {
        let config = Config {
            accept_cp_f_teids: true,
            deadline: Duration::from_secs(1_000),
            move_deadline: if fails {
                Duration::from_millis(5)
            } else {
                Duration::from_secs(1_000)
            },
            quarantine: Duration::ZERO,
            ..Config::for_workers(WORKERS)
        };
        let room = Room {
            link: 16,
            wire: 1 << 16,
        };
        let mut upf = Upf::on(network(management), WORKERS, config, 5, room, |config| {
            config.commands_per_poll = 2;
            config.egress = EgressLimits {
                packets: 200,
                octets: 100_000,
                queues: 64,
            };
        });
        upf.may_refuse = true;
        Self {
            upf,
            ues: Default::default(),
            asked: BTreeMap::new(),
            seids: BTreeMap::new(),
            tunnel: 1_000,
            ended: Vec::new(),
            fails,
            sent: 0,
            left: 0,
        }
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Worker(worker) => self.poll_worker(worker, Duration::from_micros(10)),
            Step::Control(events) => self.poll_control(events.into()),
            Step::Packets {
                ue,
                flow,
                count,
                size,
            } => (0..count).for_each(|_| self.send(ue, flow, size)),
            Step::Move(ue, to) => {
                _ = self
                    .upf
                    .sessions
                    .move_bucket(self.upf.now, home(ue), WorkerId(to))
            }
            Step::Establish(ue) => self.establish(ue),
            Step::Delete(ue) => self.delete(ue),
            Step::Rate(ue, flow, kbit) => self.set_rate(ue, flow, kbit.into()),
            Step::Handover => self.hand_over(),
            Step::Kill => {
                if let Some(seid) = self.ues[usize::from(UNSTEADY)].session.take() {
                    self.asked.retain(|_, (ue, _)| *ue != UNSTEADY);
                    self.upf.sessions.remove(seid, EndCause::Fault);
                }
            }
            Step::Wait(micros) => self.upf.now = self.upf.now + Duration::from_micros(micros.into()),
        }
    }

    fn poll_worker(&mut self, worker: u16, after: Duration) {
        self.upf.poll_worker(WorkerId(worker), after);
        while let Some(frame) = self.upf.next_left() {
            self.arrived(frame.bytes());
        }
        let stats = self.upf.workers[usize::from(worker)].stats();
        assert_eq!(stats.unaccounted(), 0, "{stats:?}");
    }

    /// A packet of a tunnel has left.
    fn arrived(&mut self, bytes: &[u8]) {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("4 octets"));
        let teid = word(46);
        if bytes[43] == 254 {
            return self.ended.push(teid);
        }
        assert!(!self.ended.contains(&teid), "behind the End Marker of {teid}");
        let octets = u64::from(word(60) >> 16);
        let (source, number, ue) = (word(78) >> 16, word(102), bytes[106]);
        let flow = usize::from(source == u32::from(PORTS[1]));
        let of = &mut self.ues[usize::from(ue)];
        assert!(
            self.fails || number > of.last[flow],
            "{number} of flow {flow}: {of:?}"
        );
        of.last[flow] = number;
        of.passed.0 += 1;
        of.passed.1 += octets;
        self.left += 1;
        if ue != UNSTEADY {
            of.allowed[flow].pass(self.upf.now, octets);
        }
    }

    fn poll_control(&mut self, events: usize) {
        self.upf.poll_control(events);
        while let Some((seid, report)) = self.upf.sessions.poll_usage() {
            self.reported(self.seids[&seid], &report);
        }
        while let Some(outcome) = self.upf.sessions.poll_outcome() {
            let Some((ue, asked)) = self.asked.remove(&outcome.ticket) else {
                continue;
            };
            let done = outcome.result.expect("nothing is refused here");
            done.usage.iter().for_each(|report| self.reported(ue, report));
            let (now, of) = (self.upf.now, &mut self.ues[usize::from(ue)]);
            match asked {
                Asked::Establishment => {
                    self.seids.insert(done.seid, ue);
                    of.session = Some(done.seid);
                }
                Asked::Rate(flow, kbit) => of.allowed[flow].settle(now, kbit),
                Asked::Other => {}
            }
        }
        while self.upf.sessions.poll_moved().is_some() {}
    }

    fn reported(&mut self, ue: u8, report: &session::UsageReport) {
        let sum = &mut self.ues[usize::from(ue)].reported;
        sum.0 += report.count.dl_packets;
        sum.1 += report.count.dl_octets;
    }

    fn is_asking(&self, ue: u8) -> bool {
        self.asked.values().any(|(asking, _)| *asking == ue)
    }

    fn ask(&mut self, ue: u8, asked: Asked) -> Ticket {
        let ticket = self.upf.ticket();
        self.asked.insert(ticket, (ue, asked));
        ticket
    }

    fn establish(&mut self, ue: u8) {
        let (now, of) = (self.upf.now, &self.ues[usize::from(ue)]);
        if of.session.is_some() || self.is_asking(ue) {
            return;
        }
        self.ues[usize::from(ue)].allowed = [Allowed::begin(FIRST, now); 2];
        let ticket = self.ask(ue, Asked::Establishment);
        self.tunnel += 1;
        let changes = establishment(ue, self.tunnel);
        self.upf
            .sessions
            .establish(now, ticket, SMF, cp_f_seid(ticket), changes);
    }

    fn delete(&mut self, ue: u8) {
        if self.is_asking(ue) {
            return;
        }
        if let Some(seid) = self.ues[usize::from(ue)].session.take() {
            let ticket = self.ask(ue, Asked::Other);
            self.upf.sessions.delete(self.upf.now, ticket, seid);
        }
    }

    fn modify(&mut self, ue: u8, asked: Asked, changes: Changes) {
        if let (Some(seid), false) = (self.ues[usize::from(ue)].session, self.is_asking(ue)) {
            if let Asked::Rate(flow, kbit) = asked {
                self.ues[usize::from(ue)].allowed[flow].ask(self.upf.now, kbit);
            }
            let ticket = self.ask(ue, asked);
            self.upf
                .sessions
                .modify(self.upf.now, ticket, seid, None, changes);
        }
    }

    fn set_rate(&mut self, ue: u8, flow: usize, kbit: u64) {
        let update = QerUpdate {
            mbr: Edit::Set(mbr(kbit)),
            ..QerUpdate::new(RATES[flow])
        };
        let changes = Changes {
            update_qers: vec![update],
            ..Changes::default()
        };
        self.modify(ue, Asked::Rate(flow, kbit), changes);
    }

    fn hand_over(&mut self) {
        self.tunnel += 1;
        let header = OuterHeaderCreation::gtpu_ipv4(Teid(self.tunnel), GNB);
        let forwarding = ForwardingParametersUpdate {
            destination: Some(DestinationInterface::Access),
            outer_header_creation: Edit::Set(header),
            ..ForwardingParametersUpdate::default()
        };
        let update = FarUpdate {
            forwarding: Edit::Set(forwarding),
            ..FarUpdate::new(FarId(2))
        };
        let changes = Changes {
            update_fars: vec![update],
            immediate: ImmediateActions {
                end_markers: vec![FarId(2)],
                ..ImmediateActions::default()
            },
            ..Changes::default()
        };
        self.modify(UNSTEADY, Asked::Other, changes);
    }

    /// A packet of a flow comes in, always at the same worker.
    fn send(&mut self, ue: u8, flow: usize, size: u16) {
        let number = &mut self.ues[usize::from(ue)].sent[flow];
        *number += 1;
        let mut user = UserPacket::udp(REMOTE, addresses(ue).0, PORTS[flow], 1_000);
        user.payload = vec![0xcd; usize::from(size) + 5];
        user.payload[..4].copy_from_slice(&number.to_be_bytes());
        user.payload[4] = ue;
        let via = WorkerId((u16::from(ue) + flow as u16) % WORKERS);
        self.upf.push(via, CORE, &frame_of(CORE, &user.bytes()));
        self.sent += 1;
    }

    fn settle(&mut self) {
        for _ in 0..600 {
            (0..WORKERS).for_each(|worker| self.poll_worker(worker, Duration::from_micros(400)));
            self.poll_control(16);
        }
        assert!(self.asked.is_empty(), "without outcome: {:?}", self.asked);
    }

    fn finish(mut self) {
        self.settle();
        (0..UES).for_each(|ue| self.delete(ue));
        self.settle();
        for (ue, of) in self.ues.iter().enumerate().take(UNSTEADY.into()) {
            assert_eq!(of.passed, of.reported, "UE {ue}");
        }
        let workers = || self.upf.workers.iter();
        let dropped: u64 = workers()
            .map(|worker| worker.stats().drops.iter().sum::<u64>())
            .sum();
        assert_eq!(self.left + dropped, self.sent);
        let moved = workers().fold((0, 0), |(into, out), worker| {
            (into + worker.stats().moved_in, out + worker.stats().moved_out)
        });
        assert_eq!(moved.0, moved.1);
        for worker in workers() {
            assert_eq!((worker.stats().held, worker.egress_counts().queues), (0, 0));
            assert_eq!(worker.stats().dropped(DropReason::InboxFull), 0);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    /// In every order of things: what leaves a queue leaves in order (where no move fails), no more of it leaves than
    /// its rate and burst allow, it leaves before the End Marker of its tunnel, and is charged; what does not leave is
    /// not; and nothing is held when the sessions are gone.
    #[test]
    fn queues_move_with_their_sessions(
        steps in prop::collection::vec(step(), 50..400),
        (fails, codel) in any::<(bool, bool)>(),
    ) {
        let management = if codel { QueueManagement::CoDel } else { QueueManagement::TailDrop };
        let mut world = World::new(management, fails);
        (0..UES).for_each(|ue| world.establish(ue));
        world.settle();
        steps.iter().for_each(|step| world.act(step));
        world.finish();
    }
}

/// A full queue that goes from worker to worker leaves at its rate, as if it had stayed.
#[test]
fn a_queue_that_moves_all_the_time_keeps_its_rate() {
    let leave_in_a_while = |moves: bool| {
        let mut world = World::new(QueueManagement::TailDrop, false);
        world.establish(0);
        world.settle();
        for round in 0..4_000_u32 {
            if round % 40 == 0 {
                (0..6).for_each(|_| world.send(0, 0, 951));
            }
            if moves && round % 25 == 0 {
                world.act(&Step::Move(0, (round / 25 % u32::from(WORKERS)) as u16));
            }
            (0..WORKERS).for_each(|worker| world.poll_worker(worker, Duration::from_micros(40)));
            world.poll_control(8);
        }
        let moved: u64 = world
            .upf
            .workers
            .iter()
            .map(|worker| worker.stats().moved_out)
            .sum();
        assert_eq!(moved > 500, moves, "{moved}");
        let left = world.left;
        world.finish();
        left
    };
    let (stays, moves) = (leave_in_a_while(false), leave_in_a_while(true));
    // 1 Mbit/s for 480 ms, and 50 ms at once but for the longest packet, in packets of 1,000 octets.
    assert_eq!((stays, moves), (65, 65));
}
