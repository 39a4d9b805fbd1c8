//! Usage of sessions that are gone outlives the process until it is acknowledged: after a crash it goes to the same
//! control plane again, in the same octets.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::{Reached, UrrCount};
use pfcp::ie::{PfcpSdRspFlags, PfcpSrReqFlags, UsageReportTrigger};
use pfcp::message::Message;
use rules::model::UrrId;
use session::{Random, Seid};

use support::keeping::{Keeping, Key, config};
use support::wire::*;
use support::*;

const ARDR: u8 = 0x40;
const EPFAR: u8 = 0x04;
/// More than two messages take.
const URRS: u32 = 64;
const SECOND: Duration = Duration::from_secs(1);

fn octets(ul_octets: u64) -> UrrCount {
    UrrCount {
        ul_packets: 1,
        ul_octets,
        ..UrrCount::default()
    }
}

fn with_urrs(cp: u64, ue: Ipv4Addr, urrs: u32) -> Vec<Octets> {
    let more = (2..=urrs).map(|id| create_urr(&[urr_id(id), method(2), triggers(&[2, 0, 0])]));
    plain_session(cp, ue).into_iter().chain(more).collect()
}

/// With an association of a control plane with these features.
fn associated(features: u8) -> Keeping {
    let mut keeping = Keeping::new(World::with(config()));
    let setup = [node_v4(SMF_ADDRESS), recovery(100), cp_features(features)];
    keeping.ask(5, None, &setup).assert_accepted();
    keeping
}

/// A session with many URRs of a control plane with these features; its SEID.
fn keeping(features: u8) -> (Keeping, u64) {
    let mut keeping = associated(features);
    let seid = keeping.ask(50, Some(0), &with_urrs(7, UE, URRS)).up_seid();
    let index = keeping.world.only_session().index();
    for id in 1..=URRS {
        keeping.world.fleet.count(index, UrrId(id), octets(id.into()));
    }
    (keeping, seid)
}

fn bytes(reply: &Reply) -> Vec<u8> {
    reply.0.bytes.to_vec()
}

fn accept(report: &Reply) -> Octets {
    message(57, Some(0), report.header().sequence.get(), &[ie(19, [1])])
}

fn deletion(seid: u64) -> Octets {
    message(54, Some(seid), 900, &[])
}

/// The usage of a session's deletion that did not fit into the response.
fn deleted() -> (Keeping, Reply) {
    let (mut keeping, seid) = keeping(ARDR);
    let mut sent = keeping.send(&deletion(seid));
    let last = sent.pop().expect("what follows");
    assert_eq!(sent.len(), 1);
    assert_eq!(last.session_report().pfcpsrreq_flags, Some(PfcpSrReqFlags::PSDBU));
    assert_eq!(keeping.last_usage(), [(Seid(seid), 1)]);
    (keeping, last)
}

#[test]
fn what_follows_on_a_deletion_is_sent_again_after_a_crash_until_it_is_acknowledged() {
    let (mut keeping, last) = deleted();
    for _ in 0..3 {
        let again = keeping.crash();
        assert_eq!(again.iter().map(bytes).collect::<Vec<_>>(), [bytes(&last)]);
        assert_eq!(again[0].0.to, last.0.to);
    }
    // By T1, too.
    assert_eq!(
        keeping.pass(SECOND).iter().map(bytes).collect::<Vec<_>>(),
        [bytes(&last)]
    );
    assert!(keeping.send(&accept(&last)).is_empty());
    assert_eq!(keeping.last_usage(), []);
    assert!(keeping.crash().is_empty());
    assert_eq!(keeping.world.n4.counters().usage_unanswered, 0);
}

#[test]
fn what_is_acknowledged_before_a_crash_is_kept_no_longer() {
    let (mut keeping, last) = deleted();
    assert!(keeping.send(&accept(&last)).is_empty());
    assert_eq!(keeping.last_usage(), []);
    assert!(keeping.crash().is_empty());
}

#[test]
fn it_is_written_before_the_end_of_its_session_and_counts_only_where_that_is_gone() {
    let (mut keeping, seid) = keeping(ARDR);
    let early = keeping.world.send(smf(), &deletion(seid));
    assert!(early.is_empty(), "nothing is sent before it is kept");
    keeping.gather();
    let keys: Vec<_> = keeping.waiting.iter().map(|(key, _)| key.clone()).collect();
    let place = |wanted: Key| keys.iter().position(|key| *key == wanted).expect("it is kept");
    let [usage, response, session] = [
        place(Key::LastUsage(seid, 1)),
        place(Key::Response(seid)),
        place(Key::Session(seid)),
    ];
    assert!(usage < session && response < session);
    // A write ends between the two.
    keeping.write(session);
    let sent = keeping.crash();
    assert!(sent.is_empty(), "{sent:?}");
    assert_eq!(keeping.last_usage(), [], "the session has its usage");
    assert_eq!(keeping.world.sessions(), 1);
    let sent = keeping.send(&deletion(seid));
    assert_eq!(sent.len(), 2);
}

#[test]
fn a_control_plane_that_never_answers_has_not_accepted_it() {
    let (mut keeping, last) = deleted();
    assert_eq!(keeping.crash().len(), 1);
    for _ in 0..3 {
        assert_eq!(
            keeping.pass(SECOND).iter().map(bytes).collect::<Vec<_>>(),
            [bytes(&last)]
        );
    }
    assert!(keeping.pass(SECOND).is_empty());
    assert_eq!(keeping.last_usage(), []);
    assert_eq!(keeping.world.n4.counters().usage_unanswered, u64::from(URRS) - 32);
    let unaccepted = keeping.world.n4.take_unaccepted_usage().expect("usage");
    assert_eq!(unaccepted.reports, u64::from(URRS) - 32);
    assert!(unaccepted.smf.is_some());
}

#[test]
fn without_its_association_it_counts_as_unanswered() {
    let (mut keeping, _) = deleted();
    keeping
        .durable
        .retain(|key, _| !matches!(key, Key::Association(_)));
    assert!(keeping.crash().is_empty());
    assert_eq!(keeping.last_usage(), []);
    let unaccepted = keeping.world.n4.take_unaccepted_usage().expect("usage");
    assert_eq!(unaccepted.reports, u64::from(URRS) - 32);
    assert!(
        unaccepted.smf.is_some(),
        "its control plane is known by its Node ID"
    );
}

/// Those that are sent again one after the other, and as many as are kept at most.
#[test]
fn all_that_was_kept_comes_to_an_end_with_an_association_and_without() {
    for (has_association, parts) in [(true, 500), (false, 16_384)] {
        let (mut keeping, _) = deleted();
        let [(seid, _)] = keeping.last_usage()[..] else {
            panic!()
        };
        let (head, record) = keeping.durable[&Key::LastUsage(seid.0, 1)].clone();
        let wall = session::WallClock::starting(UPF_START);
        let mut usage = session::UnacknowledgedUsage::decode(&record, &wall).unwrap();
        for part in 2..=parts {
            usage.part = part;
            let value = (head.clone(), usage.encode(&wall).unwrap());
            keeping.durable.insert(Key::LastUsage(seid.0, part), value);
        }
        if !has_association {
            keeping
                .durable
                .retain(|key, _| !matches!(key, Key::Association(_)));
        }
        let mut sent = keeping.crash();
        assert_eq!(sent.len(), if has_association { 64 } else { 0 });
        let mut count = 0;
        while let Some(report) = sent.pop() {
            count += 1;
            sent.extend(keeping.send(&accept(&report)));
            assert!(sent.len() <= 64);
        }
        assert_eq!(count, if has_association { parts } else { 0 });
        assert_eq!(keeping.last_usage(), []);
    }
}

/// The reports of the process before may have one number where they were sent one after the other.
#[test]
fn a_number_that_is_in_use_gives_way_to_another() {
    let (mut keeping, last) = deleted();
    let [(seid, _)] = keeping.last_usage()[..] else {
        panic!()
    };
    let (head, record) = keeping.durable[&Key::LastUsage(seid.0, 1)].clone();
    let wall = session::WallClock::starting(UPF_START);
    let mut usage = session::UnacknowledgedUsage::decode(&record, &wall).unwrap();
    usage.part = 2;
    let other = (head, usage.encode(&wall).unwrap());
    keeping.durable.insert(Key::LastUsage(seid.0, 2), other);
    let again = keeping.crash();
    assert_eq!(again.len(), 2);
    assert_eq!(bytes(&again[0]), bytes(&last));
    assert_ne!(again[0].header().sequence, again[1].header().sequence);
    assert_eq!(again[0].session_report(), again[1].session_report());
    for report in &again {
        assert!(keeping.send(&accept(report)).is_empty());
    }
    assert_eq!(keeping.last_usage(), []);
}

/// The URR has reached its threshold.
fn reach(world: &mut World, seid: u64, count: u64) {
    let session = world.n4.sessions().session(Seid(seid));
    let index = session.expect("it lives").index();
    world.fleet.count(index, UrrId(1), octets(count));
    let reached = Reached {
        watermark: true,
        ..Reached::NOTHING
    };
    let counted = world
        .fleet
        .workers
        .iter()
        .find_map(|worker| worker.counts.get(&(index, UrrId(1))).copied());
    let counted = counter_reached((UrrId(1), counted.expect("a counter")), reached);
    world.n4.handle_counter_reached(world.now, index, counted);
}

/// A session whose first URR has a threshold; its SEID.
fn with_threshold() -> (Keeping, u64) {
    let mut keeping = associated(0);
    let seid = keeping.ask(50, Some(0), &plain_session(7, UE)).up_seid();
    let terms = [urr_id(1), triggers(&[2, 0, 0]), ie(31, volume_threshold(1_000))];
    keeping
        .ask(52, Some(seid), &[group(13, &terms)])
        .assert_accepted();
    (keeping, seid)
}

fn volume_threshold(total: u64) -> Vec<u8> {
    [&[1][..], &total.to_be_bytes()].concat()
}

#[test]
fn a_report_on_its_way_when_its_session_is_deleted_is_sent_again_after_a_crash() {
    let (mut keeping, seid) = with_threshold();
    reach(&mut keeping.world, seid, 1_200);
    assert!(keeping.world.run().is_empty());
    let [report] = &keeping.sync()[..] else { panic!() };
    assert_eq!(keeping.last_usage(), [], "it is part of the session");
    let sent = keeping.send(&deletion(seid));
    let Message::SessionDeletionResponse(answer) = sent[0].message() else {
        panic!()
    };
    assert_eq!(answer.pfcpsdrsp_flags, Some(PfcpSdRspFlags::PURU));
    assert_eq!(keeping.last_usage(), [(Seid(seid), 0)]);
    let again = keeping.crash();
    assert_eq!(again.iter().map(bytes).collect::<Vec<_>>(), [bytes(report)]);
    assert!(keeping.send(&accept(report)).is_empty());
    assert_eq!(keeping.last_usage(), []);
    assert!(keeping.crash().is_empty());
}

#[test]
fn a_report_on_its_way_that_is_acknowledged_or_fails_in_the_process_is_kept_no_longer() {
    for is_acknowledged in [true, false] {
        let (mut keeping, seid) = with_threshold();
        reach(&mut keeping.world, seid, 1_200);
        keeping.world.run();
        let [report] = &keeping.sync()[..] else { panic!() };
        keeping.send(&deletion(seid));
        assert_eq!(keeping.last_usage(), [(Seid(seid), 0)]);
        if is_acknowledged {
            keeping.send(&accept(report));
        } else {
            (0..120).for_each(|_| drop(keeping.pass(SECOND)));
        }
        assert_eq!(keeping.last_usage(), []);
        let unaccepted = keeping.world.n4.counters().usage_unanswered;
        assert_eq!(unaccepted, u64::from(!is_acknowledged));
    }
}

/// Sessions that end with their association are reported by Sluice itself.
#[test]
fn the_last_reports_of_an_association_that_is_released_are_sent_again() {
    let (mut keeping, seid) = keeping(ARDR | EPFAR);
    let prepare = message(7, None, 901, &[node_v4(SMF_ADDRESS), ie(162, [1])]);
    let sent = keeping.send(&prepare);
    let reports: Vec<_> = sent
        .iter()
        .filter(|reply| matches!(reply.message(), Message::SessionReportRequest(_)))
        .collect();
    assert_eq!(reports.len(), 2);
    assert_eq!(keeping.last_usage(), [(Seid(seid), 1), (Seid(seid), 2)]);
    keeping.send(&accept(reports[0]));
    assert_eq!(keeping.last_usage(), [(Seid(seid), 2)]);
    let again = keeping.crash();
    assert_eq!(again.iter().map(bytes).collect::<Vec<_>>(), [bytes(reports[1])]);
    keeping.send(&accept(reports[1]));
    assert_eq!(keeping.last_usage(), []);
}

/// What a report says of a URR.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Said {
    trigger: UsageReportTrigger,
    rest: String,
}

/// A control plane that repeats its requests, and responds to reports now and then.
#[derive(Default)]
struct ControlPlane {
    last_sequence: u32,
    /// Requests without a response: what each is, and about which session of ours.
    open: BTreeMap<u32, (Octets, u64)>,
    /// By our SEID: the peer's, and whether the session is deleted.
    sessions: BTreeMap<u64, (u64, bool)>,
    /// By our SEID, URR and number.
    usage: BTreeMap<(u64, u32, u32), Said>,
}

macro_rules! said {
    ($self:ident, $cp:expr, $reports:expr) => {
        for one in $reports.iter() {
            let said = Said {
                trigger: one.usage_report_trigger,
                rest: format!(
                    "{:?} {:?} {:?} {:?}",
                    one.volume_measurement, one.start_time, one.end_time, one.duration_measurement
                ),
            };
            let key = ($cp, one.urr_id.0, one.ur_seqn.0);
            let before = $self.usage.insert(key, said.clone());
            assert!(before.is_none_or(|before| before == said), "{key:?}: {said:?}");
        }
    };
}

impl ControlPlane {
    fn ask(&mut self, message_type: u8, seid: u64, cp: u64, ies: &[Octets]) -> Octets {
        self.last_sequence += 1;
        let request = message(message_type, Some(seid), self.last_sequence, ies);
        self.open.insert(self.last_sequence, (request.clone(), cp));
        request
    }

    /// Takes what has come, and gives what it sends.
    fn take(&mut self, sent: &[Reply], acknowledges: bool) -> Vec<Octets> {
        let mut answers = Vec::new();
        for reply in sent {
            let sequence = reply.header().sequence.get();
            let cp = self.open.get(&sequence).map(|(_, cp)| *cp);
            match reply.message() {
                Message::SessionEstablishmentResponse(_) => {
                    let cp = cp.expect("it was open");
                    self.sessions.insert(cp, (reply.up_seid(), false));
                }
                Message::SessionModificationResponse(response) => {
                    said!(self, cp.expect("it was open"), response.usage_report);
                }
                Message::SessionDeletionResponse(response) => {
                    let cp = cp.expect("it was open");
                    assert!(response.cause.is_accepted(), "{response:?}");
                    said!(self, cp, response.usage_report);
                    self.sessions.get_mut(&cp).expect("a session").1 = true;
                }
                Message::SessionReportRequest(report) => {
                    let cp = reply.header().seid.expect("a session").0;
                    said!(self, cp, report.usage_report);
                    answers.extend(acknowledges.then(|| accept(reply)));
                    continue;
                }
                other => panic!("{other:?}"),
            }
            self.open.remove(&sequence);
        }
        answers
    }
}

struct Story {
    keeping: Keeping,
    smf: ControlPlane,
    random: Random,
    last_cp: u64,
    crashes: u32,
    /// How often usage was sent again after a crash.
    again: usize,
}

impl Story {
    fn chance(&mut self, of: u32) -> bool {
        self.random.next_u32().is_multiple_of(of)
    }

    fn deliver(&mut self, mut sent: Vec<Reply>, always: bool) {
        while !sent.is_empty() {
            let acknowledges = always || self.chance(2);
            let answers = self.smf.take(&sent, acknowledges);
            sent = answers
                .iter()
                .flat_map(|answer| self.keeping.send(answer))
                .collect();
        }
    }

    /// The peer sends this, and the process may end before what it changes is durable.
    fn request(&mut self, request: &[u8]) {
        if self.chance(4) {
            self.keeping.world.send(smf(), request);
            return self.crash();
        }
        let sent = self.keeping.send(request);
        self.deliver(sent, false);
    }

    fn crash(&mut self) {
        self.keeping.gather();
        let written = self.random.next_u32() as usize % (self.keeping.waiting.len() + 1);
        self.keeping.write(written);
        let sent = self.keeping.crash();
        self.crashes += 1;
        self.again += sent.len();
        self.deliver(sent, false);
    }

    fn live(&mut self) -> Option<(u64, u64)> {
        let live: Vec<_> = self.smf.sessions.iter().filter(|(_, (_, gone))| !gone).collect();
        let place = self.random.next_u32() as usize % live.len().max(1);
        live.get(place).map(|(cp, (seid, _))| (**cp, *seid))
    }

    fn step(&mut self) {
        let live = self.live();
        match (self.random.next_u32() % 8, live) {
            (0, _) | (_, None) => {
                self.last_cp += 1;
                let ue = Ipv4Addr::new(10, 45, 9, self.last_cp as u8);
                let urrs = [1, 40, 64][self.random.next_u32() as usize % 3];
                let ies = with_urrs(self.last_cp, ue, urrs);
                let request = self.smf.ask(50, 0, self.last_cp, &ies);
                self.request(&request);
            }
            (1 | 2, Some((_, seid))) if self.is_here(seid) => {
                reach(&mut self.keeping.world, seid, 700);
                self.keeping.world.run();
                if self.chance(3) {
                    return self.crash();
                }
                let sent = self.keeping.sync();
                self.deliver(sent, false);
            }
            // The last response of a session is kept: it has one request outstanding. All URRs are queried (QAURR).
            (3, Some((cp, seid))) if !self.is_open(cp) => {
                let request = self.smf.ask(52, seid, cp, &[ie(49, [4])]);
                self.request(&request);
            }
            (4, Some((cp, seid))) if !self.is_open(cp) => {
                let request = self.smf.ask(54, seid, cp, &[]);
                self.request(&request);
            }
            (5, _) => self.crash(),
            (6, _) => {
                let sent = self.keeping.pass(SECOND);
                self.deliver(sent, false);
            }
            _ => self.repeat(),
        }
    }

    fn is_open(&self, cp: u64) -> bool {
        self.smf.open.values().any(|(_, of)| *of == cp)
    }

    fn is_here(&self, seid: u64) -> bool {
        self.keeping.world.n4.sessions().session(Seid(seid)).is_some()
    }

    fn repeat(&mut self) {
        let open: Vec<_> = self.smf.open.values().map(|(octets, _)| octets.clone()).collect();
        open.iter().for_each(|request| self.request(request));
    }

    /// All come to their end, without another crash.
    fn settle(&mut self) {
        let settled = |story: &mut Story| {
            for _ in 0..30 {
                let open: Vec<_> = story
                    .smf
                    .open
                    .values()
                    .map(|(octets, _)| octets.clone())
                    .collect();
                for request in open {
                    let sent = story.keeping.send(&request);
                    story.deliver(sent, true);
                }
                let sent = story.keeping.pass(SECOND);
                story.deliver(sent, true);
            }
            assert!(story.smf.open.is_empty());
        };
        settled(self);
        while let Some((cp, seid)) = self.live() {
            let request = self.smf.ask(54, seid, cp, &[]);
            let sent = self.keeping.send(&request);
            self.deliver(sent, true);
        }
        settled(self);
    }

    /// Of each URR all numbers have come, up to the one that says that the session is gone.
    fn check(&self) {
        let mut last: BTreeMap<(u64, u32), (u32, bool)> = BTreeMap::new();
        for ((cp, urr, number), said) in &self.smf.usage {
            let is_last = said.trigger == UsageReportTrigger::TERMR;
            let before = last.insert((*cp, *urr), (*number, is_last));
            let expected = before.map_or(0, |(before, _)| before + 1);
            assert_eq!(*number, expected, "a report of {cp}, URR {urr}");
            assert!(!before.is_some_and(|(_, is_last)| is_last));
        }
        assert!(last.values().all(|(_, is_last)| *is_last), "{last:?}");
        let (left, sessions) = (self.keeping.last_usage(), self.keeping.world.sessions());
        assert_eq!((left, sessions), (vec![], 0));
        assert!(
            !self
                .keeping
                .durable
                .keys()
                .any(|key| matches!(key, Key::Session(_)))
        );
    }
}

/// The process ends at any moment, also while something is being written: no report is lost, and none comes again under
/// its number with another content.
#[test]
fn no_report_is_lost_or_changed_whenever_the_process_ends() {
    let (mut crashes, mut again) = (0, 0);
    for seed in 0..24 {
        let mut story = Story {
            keeping: associated(ARDR),
            smf: ControlPlane {
                last_sequence: 1_000,
                ..ControlPlane::default()
            },
            random: Random::from_number(seed),
            last_cp: 0,
            crashes: 0,
            again: 0,
        };
        (0..60).for_each(|_| story.step());
        story.settle();
        story.check();
        crashes += story.crashes;
        again += story.again;
    }
    assert!(crashes > 200 && again > 40, "{crashes} {again}");
}
