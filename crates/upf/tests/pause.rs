//! Pauses of Charging (NSPOC, TS 29.244 §5.30) under random interleavings of workers, control, packets, requests and
//! moves: a URR that charging is paused for measures all that passes while charging is active, nothing that passes
//! while it is paused, and beside that only of what passes while that changes. A URR that it is not for measures
//! everything.
//!
//! Real workers and real sessions, in steps that the test chooses.

#[path = "support/in_steps.rs"]
mod in_steps;

use std::net::Ipv4Addr;
use std::time::Duration;

use flow::{UrrCount, WorkerId, bucket};
use packet::{DropReason, Teid};
use proptest::prelude::*;
use rules::model::{MeasurementInformation, OuterHeaderCreation, Urr, UrrId, UrrUpdate};
use rules::testing::{GNB, N3_ADDRESS, UE, UserPacket, f_teid, pdu_session, tunnelled};
use session::{Changes, Charging, Config, Outcome, Query, Seid, SessionView};

use in_steps::{ACCESS, CORE, Room, SMF, Upf, add, cp_f_seid, frame_of, one_packet, user_packet};

const WORKERS: u16 = 2;
const TEID: u32 = 0x1001;
const REMOTE: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
/// The URR that charging is paused for.
const CHARGED: UrrId = UrrId(1);
/// Another one.
const OTHER: UrrId = UrrId(2);
const PAUSE: [u8; 4] = [230, 0, 1, 1];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Step {
    Worker(u16),
    /// Control takes a number of events from each worker.
    Control(u8),
    /// A number of packets come in at a worker.
    Packets {
        up: bool,
        via: u16,
        count: u8,
    },
    /// The node downstream signals a pause, at a worker.
    Status(u16),
    Request(Request),
    /// The session's bucket moves.
    Move(u16),
    /// Time passes, in milliseconds.
    Wait(u16),
    /// All pending work is done.
    Settle,
}

#[derive(Clone, Copy, Debug)]
enum Request {
    /// SUMPC.
    Pause,
    /// RUMUC.
    Resume,
    /// CIAM with this INAM.
    Control(bool),
    /// INAM without CIAM, which says nothing.
    Inactive(bool),
    Query,
}

fn step() -> impl Strategy<Value = Step> {
    let request = prop_oneof![
        1 => Just(Request::Pause),
        3 => Just(Request::Resume),
        1 => any::<bool>().prop_map(Request::Control),
        1 => any::<bool>().prop_map(Request::Inactive),
        1 => Just(Request::Query),
    ];
    prop_oneof![
        12 => (0..WORKERS).prop_map(Step::Worker),
        8 => (1_u8..9).prop_map(Step::Control),
        8 => (any::<bool>(), 0..WORKERS, 1_u8..40).prop_map(|(up, via, count)| Step::Packets { up, via, count }),
        4 => (0..WORKERS).prop_map(Step::Status),
        4 => request.prop_map(Step::Request),
        2 => (0..WORKERS).prop_map(Step::Move),
        1 => (1_u16..200).prop_map(Step::Wait),
        3 => Just(Step::Settle),
    ]
}

struct World {
    upf: Upf,
    seid: Seid,
    passed: UrrCount,
    /// What passed while charging surely went on, and what may have.
    charged: [UrrCount; 2],
    /// Whether charging is active, if no change is pending.
    charging: Option<bool>,
    reported: [UrrCount; 2],
}

fn establishment() -> Changes {
    let rules = pdu_session(TEID, OuterHeaderCreation::gtpu_ipv4(Teid(77), GNB));
    let mut pdrs = rules.pdrs().to_vec();
    pdrs[0].pdi.f_teid = Some(f_teid(TEID));
    for pdr in &mut pdrs {
        pdr.urrs = vec![CHARGED, OTHER].into();
    }
    let charged = Urr {
        information: MeasurementInformation::ASPOC,
        ..Urr::volume(CHARGED)
    };
    Changes {
        create_pdrs: pdrs,
        create_fars: rules.fars().to_vec(),
        create_qers: rules.qers().to_vec(),
        create_urrs: vec![charged, Urr::volume(OTHER)],
        ..Changes::default()
    }
}

impl World {
    fn new() -> Self {
        let config = Config {
            accept_cp_f_teids: true,
            deadline: Duration::from_secs(1_000),
            move_deadline: Duration::from_secs(1_000),
            ..Config::for_workers(WORKERS)
        };
        let room = Room {
            link: 64,
            wire: 1 << 16,
        };
        let mut upf = Upf::new(WORKERS, config, 5, room, |config| config.commands_per_poll = 2);
        let ticket = upf.ticket();
        let (now, cp) = (upf.now, cp_f_seid(ticket));
        upf.sessions.establish(now, ticket, SMF, cp, establishment());
        let mut world = Self {
            upf,
            seid: Seid(0),
            passed: UrrCount::default(),
            charged: Default::default(),
            charging: None,
            reported: Default::default(),
        };
        world.settle();
        assert_eq!(world.charging, Some(true));
        world
    }

    fn session(&self) -> Option<SessionView<'_>> {
        self.upf.sessions.iter().next()
    }

    fn act(&mut self, step: &Step) {
        match *step {
            Step::Worker(worker) => _ = self.poll_worker(worker),
            Step::Control(events) => self.poll_control(events.into()),
            Step::Packets { up, via, count } => (0..count).for_each(|_| self.send(up, via)),
            Step::Status(via) => self.send_status(via),
            Step::Request(request) => self.ask(request),
            Step::Move(to) => {
                let home = bucket::of_ipv4(UE.octets());
                // Refused while another one is on its way, or it is there.
                let _ = self.upf.sessions.move_bucket(self.upf.now, home, WorkerId(to));
            }
            Step::Wait(millis) => self.upf.now = self.upf.now + Duration::from_millis(millis.into()),
            Step::Settle => self.settle(),
        }
    }

    fn poll_worker(&mut self, worker: u16) -> bool {
        let had = self.upf.poll_worker(WorkerId(worker), Duration::from_micros(10));
        while let Some(frame) = self.upf.next_left() {
            let (up, tuple) = user_packet(frame.bytes());
            let one = one_packet(up, tuple.total_len.into());
            add(&mut self.passed, one);
            if self.charging == Some(true) {
                add(&mut self.charged[0], one);
            }
            if self.charging != Some(false) {
                add(&mut self.charged[1], one);
            }
        }
        had
    }

    fn poll_control(&mut self, events: usize) {
        self.upf.poll_control(events);
        while let Some(Outcome { result, .. }) = self.upf.sessions.poll_outcome() {
            let done = result.expect("nothing is refused here");
            self.seid = done.seid;
            for report in &done.usage {
                let place = usize::from(report.urr == OTHER);
                add(&mut self.reported[place], report.count);
            }
        }
        assert_eq!(self.upf.sessions.poll_usage(), None, "a pause makes no report");
    }

    /// All pending work is done: then it is known whether charging is paused.
    fn settle(&mut self) {
        let mut idle = 0;
        while idle < 4 {
            let had = (0..WORKERS).filter(|worker| self.poll_worker(*worker)).count() > 0;
            self.poll_control(64);
            let is_moving = self.upf.sessions.moving_bucket().is_some();
            let is_done = !had && self.upf.is_done() && !is_moving;
            idle = if is_done { idle + 1 } else { 0 };
        }
        while self.upf.sessions.poll_moved().is_some() {}
        self.charging = self.session().map(|session| session.rules().is_charging());
    }

    fn send(&mut self, up: bool, via: u16) {
        let (port, packet) = match up {
            true => {
                let user = UserPacket::udp(UE, REMOTE, 1000, 53).bytes();
                let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &user);
                (ACCESS, packet)
            }
            false => (CORE, UserPacket::udp(REMOTE, UE, 53, 1000).bytes()),
        };
        self.upf.push(WorkerId(via), port, &frame_of(port, &packet));
    }

    fn send_status(&mut self, via: u16) {
        let packet = tunnelled(N3_ADDRESS, TEID, 253, None, &[], &PAUSE);
        self.upf.push(WorkerId(via), ACCESS, &frame_of(ACCESS, &packet));
        self.charging = None;
    }

    fn ask(&mut self, request: Request) {
        let Some(session) = self.session().filter(|session| session.waiting() < 4) else {
            return;
        };
        let seid = session.seid();
        let informed = |flags: u8| UrrUpdate {
            information: Some(MeasurementInformation(flags)),
            ..UrrUpdate::new(CHARGED)
        };
        let with = |flag: MeasurementInformation, is_set| if is_set { flag.0 } else { 0 };
        let (charged, control) = (MeasurementInformation::ASPOC.0, MeasurementInformation::CIAM.0);
        let mut changes = Changes::default();
        match request {
            Request::Pause => changes.charging = Some(Charging::Paused),
            Request::Resume => changes.charging = Some(Charging::Resumed),
            Request::Control(is_inactive) => {
                let flags = charged | control | with(MeasurementInformation::INAM, is_inactive);
                changes.update_urrs = vec![informed(flags)];
            }
            Request::Inactive(is_inactive) => {
                let flags = charged | with(MeasurementInformation::INAM, is_inactive);
                changes.update_urrs = vec![informed(flags)];
            }
            Request::Query => changes.query = Query::All(Vec::new()),
        }
        if matches!(request, Request::Pause | Request::Resume | Request::Control(_)) {
            self.charging = None;
        }
        let ticket = self.upf.ticket();
        self.upf
            .sessions
            .modify(self.upf.now, ticket, seid, None, changes);
    }

    /// What the URR reports of ten packets each way, when all is at rest.
    fn charged_of_ten(&mut self) -> UrrCount {
        self.ask(Request::Query);
        self.settle();
        let before = self.reported[0];
        for up in [true, false] {
            (0..10).for_each(|_| self.send(up, 0));
        }
        self.settle();
        self.ask(Request::Query);
        self.settle();
        let after = self.reported[0];
        UrrCount {
            ul_packets: after.ul_packets - before.ul_packets,
            dl_packets: after.dl_packets - before.dl_packets,
            ..UrrCount::default()
        }
    }

    fn finish(mut self) {
        // Messages that still lie on the wires come before the request.
        self.settle();
        self.ask(Request::Resume);
        self.settle();
        assert_eq!(self.charging, Some(true));
        let ten = self.charged_of_ten();
        assert_eq!((ten.ul_packets, ten.dl_packets), (10, 10));
        // The allowance of messages is there again.
        self.upf.now = self.upf.now + Duration::from_secs(2);
        self.send_status(0);
        self.settle();
        assert_eq!(self.charging, Some(false));
        assert_eq!(self.charged_of_ten(), UrrCount::default());
        let ticket = self.upf.ticket();
        self.upf.sessions.delete(self.upf.now, ticket, self.seid);
        self.settle();
        let [charged, other] = self.reported;
        assert_eq!(other, self.passed);
        let [least, most] = self.charged.map(|count| (count.ul_octets, count.dl_octets));
        assert!(least.0 <= charged.ul_octets && charged.ul_octets <= most.0);
        assert!(least.1 <= charged.dl_octets && charged.dl_octets <= most.1);
        for worker in &self.upf.workers {
            let stats = worker.stats();
            let ended = [DropReason::PauseOfChargingHeeded, DropReason::RelayLimit];
            let ended: u64 = ended.map(|reason| stats.dropped(reason)).iter().sum();
            assert_eq!((stats.drops.iter().sum::<u64>(), stats.unaccounted()), (ended, 0));
            assert_eq!(worker.sessions(), 0);
        }
        let left = self.upf.sessions.count();
        assert_eq!(
            (left.indexes, left.tunnels, left.addresses, left.ops),
            (0, 0, 0, 0)
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_passes_while_charging_is_paused_is_not_charged(steps in prop::collection::vec(step(), 30..300)) {
        let mut world = World::new();
        steps.iter().for_each(|step| world.act(step));
        world.finish();
    }
}

/// With nothing between the steps the counts are exact.
#[test]
fn charging_stops_with_the_message_and_resumes_with_the_request() {
    let mut world = World::new();
    let packets = |world: &mut World| {
        for up in [true, false] {
            (0..7).for_each(|_| world.send(up, 1));
        }
        world.settle();
    };
    packets(&mut world);
    for _ in 0..3 {
        world.send_status(1);
        world.settle();
        packets(&mut world);
        world.ask(Request::Inactive(false));
        world.settle();
        packets(&mut world);
        world.ask(Request::Resume);
        world.settle();
        packets(&mut world);
    }
    assert_eq!(world.charged[0], world.charged[1]);
    assert_eq!(
        (world.charged[0].ul_packets, world.passed.ul_packets),
        (7 * 4, 7 * 10)
    );
    world.finish();
}
