//! The world: it carries datagrams and frames, updates the model with what SMFs receive, and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::{Nanos, WorkerId};
use packet::DropReason;
use pfcp::Frame;
use rules::network::InstanceId;
use rules::prefix::IpPrefix;
use session::{Count, Seid};
use worker::Holdings;

use super::model::{Grants, Rules, Session, buffers, prefixes};
use super::op::Op;
use super::plans;
use super::shim::{Datagram, Shim};
use super::smf::{AWAY, Expect, Purpose, Received, Reply, SLOTS, Smf, Stage, frame, reply};
use super::step::{Edit, Shape, Step, Trouble};
use super::traffic::{Fate, fate, kinds, number};
use super::upf::{N4_UPF, Upf, WORKERS};

/// Between two steps.
const PAUSE: Duration = Duration::from_millis(30);
/// Simulated time in which everything comes to rest.
const PATIENCE: Duration = Duration::from_secs(90);
/// Causes (TS 29.244 Table 8.2.1-1).
const ACCEPTED: u8 = 1;
const NOT_FOUND: u8 = 65;
const NO_ASSOCIATION: u8 = 72;

/// Plays the steps, compares at every [`Step::Check`] and in the end, deletes what is left, and sees that nothing is.
///
/// # Panics
/// When anything is not as it ought to be.
pub fn run(seed: u64, steps: &[Step]) {
    let mut world = World::new(seed);
    world.check();
    for step in steps {
        world.act(step);
        world.pass(PAUSE);
    }
    world.finish();
}

struct World {
    now: Nanos,
    seed: u64,
    upf: Upf,
    smfs: [Smf; 2],
    shim: Shim,
    /// Packets sent so far.
    packets: u32,
    /// Packets that are to leave, by number.
    due: BTreeMap<u32, (InstanceId, Vec<u8>)>,
    /// Packets that have left.
    came: BTreeMap<u32, (InstanceId, Vec<u8>)>,
    /// Packets of which it is not known what becomes of them.
    vague: BTreeSet<u32>,
    /// Addresses that several sessions were to have.
    contested: BTreeSet<IpPrefix>,
}

impl World {
    fn new(seed: u64) -> Self {
        let now = Nanos(1);
        Self {
            now,
            seed,
            upf: Upf::boot(now, seed),
            smfs: [Smf::new(0), Smf::new(1)],
            shim: Shim::new(seed),
            packets: 0,
            due: BTreeMap::new(),
            came: BTreeMap::new(),
            vague: BTreeSet::new(),
            contested: BTreeSet::new(),
        }
    }

    fn pass(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            self.pump();
            if self.now >= until {
                return;
            }
            let smfs = self.smfs.iter().filter_map(Smf::timeout).min();
            let next = [self.shim.next(), smfs, self.upf.timeout(self.now)];
            let next = next.into_iter().flatten().min().unwrap_or(until);
            self.now = next.max(self.now + Duration::from_millis(1)).min(until);
        }
    }

    /// Everything that is due now.
    fn pump(&mut self) {
        while let Some(datagram) = self.shim.arrived(self.now) {
            if datagram.to == N4_UPF {
                self.upf.receive_n4(self.now, &datagram);
            } else if let Some(smf) = (0..2).find(|smf| self.smfs[*smf].address == datagram.to) {
                self.receive(smf, &datagram);
            }
        }
        for smf in 0..2 {
            let sent = self.smfs[smf].handle_timeout(self.now);
            self.throw(sent);
        }
        self.rest();
    }

    fn rest(&mut self) {
        let sent = self.upf.rest(self.now);
        self.throw(sent);
        for left in std::mem::take(&mut self.upf.left) {
            if let Some(number) = number(&left.bytes) {
                let packet = (InstanceId(left.port.0), left.bytes[14..].to_vec());
                let before = self.came.insert(number, packet);
                assert!(before.is_none(), "packet {number} left twice");
            }
        }
    }

    fn throw(&mut self, sent: impl IntoIterator<Item = Datagram>) {
        sent.into_iter()
            .for_each(|datagram| self.shim.throw(self.now, datagram));
    }

    /// Sessions that their SMF has given up: what waits for them may go any way.
    fn give_up(&mut self, sessions: Vec<Session>) {
        let waiting = sessions.into_iter().flat_map(|session| session.waiting);
        self.vague
            .extend(waiting.flat_map(|(_, kept)| kept).map(|kept| kept.number));
    }

    fn go_away(&mut self, smf: usize) {
        let sessions = self.smfs[smf].go_away(self.now);
        self.give_up(sessions);
    }

    fn act(&mut self, step: &Step) {
        match step {
            Step::Establish { smf, slot, shape } => self.establish(*smf, *slot, *shape),
            Step::Modify { smf, slot, edits } => self.modify(*smf, *slot, edits),
            Step::Delete { smf, slot } => self.delete(*smf, *slot),
            Step::Packets { smf, slot, up, count } => self.packets_at_any_time(*smf, *slot, *up, *count),
            Step::Move { smf, slot } => self.move_bucket(*smf, *slot),
            Step::Setup { smf } => self.node_procedure(*smf, true, Smf::set_up),
            Step::Release { smf } => self.node_procedure(*smf, true, Smf::release),
            Step::Update { smf } => self.node_procedure(*smf, false, Smf::update),
            Step::RestartSmf { smf } => {
                let sessions = self.smfs[usize::from(*smf)].restart(self.now);
                self.give_up(sessions);
            }
            Step::RestartUpf => self.restart_upf(),
            Step::Network(trouble) => self.shim.trouble = *trouble,
            Step::Deaf { smf, is_deaf } => self.smfs[usize::from(*smf)].is_deaf = *is_deaf,
            Step::Wait(millis) => self.pass(Duration::from_millis((*millis).into())),
            Step::Check => self.check(),
        }
    }

    /// The SMF, if it may ask about this session now.
    fn may_ask(&self, smf: u8, slot: u8) -> bool {
        let smf = &self.smfs[usize::from(smf)];
        smf.stage == Stage::Up && !smf.slots[usize::from(slot)].is_busy
    }

    fn establish(&mut self, smf: u8, slot: u8, shape: Shape) {
        if !self.may_ask(smf, slot) {
            return;
        }
        let place = self.smfs[usize::from(smf)].place(slot);
        let known = self.smfs[usize::from(smf)].slots[usize::from(slot)]
            .session
            .as_ref();
        if known.is_some_and(|session| session.cp != place.cp()) {
            // It would be a session beside this one, which has another name now.
            return;
        }
        let ops = plans::establishment(place, shape);
        if shape == Shape::TakenAddress {
            self.contested.extend(addresses_in(&ops));
        }
        let expect = match shape {
            Shape::UnknownNode => Expect::Refused,
            _ => self.expect(&Rules::default(), &ops),
        };
        let now = self.now;
        let sent = self.smfs[usize::from(smf)].establish(now, slot, shape, ops, expect);
        self.throw([sent]);
    }

    fn modify(&mut self, smf: u8, slot: u8, edits: &[Edit]) {
        if !self.may_ask(smf, slot) {
            return;
        }
        let place = self.smfs[usize::from(smf)].place(slot);
        let Some(session) = &self.smfs[usize::from(smf)].slots[usize::from(slot)].session else {
            return;
        };
        let edits = edits.iter();
        let ops: Vec<Op> = edits
            .flat_map(|edit| plans::modification(place, session, *edit))
            .collect();
        let expect = self.expect(&session.rules, &ops);
        let now = self.now;
        let sent = self.smfs[usize::from(smf)].modify(now, slot, ops, expect);
        self.throw(sent);
    }

    /// What a request must come to.
    fn expect(&self, rules: &Rules, ops: &[Op]) -> Expect {
        match rules.after(ops, &Grants::placeholders(ops)) {
            Err(_) => Expect::Refused,
            Ok(_) if self.is_contested(ops) => Expect::Either,
            Ok(_) => Expect::Accepted,
        }
    }

    fn delete(&mut self, smf: u8, slot: u8) {
        if self.may_ask(smf, slot) {
            let now = self.now;
            let sent = self.smfs[usize::from(smf)].delete(now, slot);
            self.throw(sent);
        }
    }

    fn packets_at_any_time(&mut self, smf: u8, slot: u8, up: bool, count: u8) {
        let slot = &mut self.smfs[usize::from(smf)].slots[usize::from(slot)];
        let Some(session) = &mut slot.session else {
            return;
        };
        session.is_vague = true;
        slot.is_overtaken |= slot.is_busy;
        let kinds = kinds(&session.rules)
            .into_iter()
            .filter(|kind| kind.is_up() == up);
        for kind in kinds.take(count.into()) {
            self.packets += 1;
            self.vague.insert(self.packets);
            let packet = kind.packet(self.packets);
            let via = (self.packets % u32::from(WORKERS)) as u16;
            self.upf.receive(via, packet.ingress, &packet.bytes);
        }
    }

    fn move_bucket(&mut self, smf: u8, slot: u8) {
        let session = self.smfs[usize::from(smf)].slots[usize::from(slot)]
            .session
            .as_ref();
        let up = session.map(|session| Seid(session.up));
        let sessions = self.upf.control.endpoint().sessions();
        if let Some(view) = up.and_then(|up| sessions.session(up)) {
            let bucket = view.bucket();
            let to = WorkerId((sessions.owner(bucket).0 + 1) % WORKERS);
            let clock = self.upf.clock(self.now);
            // One bucket moves at a time: a second one is refused, which changes nothing.
            let _ = self.upf.control.move_bucket(clock, bucket, to);
        }
    }

    /// A procedure about the association, when nothing else of the SMF is on its way.
    fn node_procedure(&mut self, smf: u8, ends_sessions: bool, begin: impl Fn(&mut Smf, Nanos) -> Datagram) {
        let now = self.now;
        let smf = &mut self.smfs[usize::from(smf)];
        if smf.stage != Stage::Up || !smf.is_quiet() {
            return;
        }
        let sent = begin(smf, now);
        if ends_sessions {
            let sessions = smf
                .slots
                .iter_mut()
                .filter_map(|slot| slot.session.take())
                .collect();
            self.give_up(sessions);
        }
        self.throw([sent]);
    }

    /// It is away for long enough that nothing of before is on its way any more.
    fn restart_upf(&mut self) {
        self.rest();
        self.shim.clear();
        self.now = self.now + AWAY;
        self.upf = Upf::boot(self.now, self.seed);
        for smf in &mut self.smfs {
            smf.be_patient();
            let sessions = smf.slots.iter_mut().filter_map(|slot| slot.session.as_mut());
            let waiting = sessions.flat_map(|session| std::mem::take(&mut session.waiting));
            self.vague
                .extend(waiting.flat_map(|(_, kept)| kept).map(|kept| kept.number));
        }
    }

    fn receive(&mut self, smf: usize, datagram: &Datagram) {
        if matches!(self.smfs[smf].stage, Stage::Away(_)) {
            return;
        }
        let message = frame(&datagram.bytes);
        let is_deaf = self.smfs[smf].is_deaf;
        match self.smfs[smf].receive(&message, &datagram.bytes) {
            Received::Heartbeat { sequence } if !is_deaf => {
                let sent = self.smfs[smf].answer(2, 0, sequence);
                self.throw([sent]);
            }
            Received::Report { cp, sequence } if !is_deaf => {
                assert!(
                    (1..=SLOTS as u64).contains(&(cp % 100)),
                    "a report of session {cp}"
                );
                let sent = self.smfs[smf].answer(57, cp, sequence);
                self.throw([sent]);
            }
            Received::Heartbeat { .. } | Received::Report { .. } | Received::Again => {}
            Received::Answer(purpose) => self.answered(smf, purpose, &message),
        }
    }

    fn answered(&mut self, smf: usize, purpose: Purpose, message: &Frame<'_>) {
        let reply = reply(message);
        let has_restarted = self.smfs[smf].upf_started != Some(self.upf.recovery());
        let is_lost = matches!(reply.cause, NOT_FOUND | NO_ASSOCIATION) && has_restarted;
        match purpose {
            Purpose::Setup => {
                assert_eq!(
                    (reply.cause, reply.started),
                    (ACCEPTED, Some(self.upf.recovery()))
                );
                let smf = &mut self.smfs[smf];
                (smf.stage, smf.upf_started, smf.is_sure) = (Stage::Up, reply.started, true);
            }
            Purpose::Heartbeat if reply.started != self.smfs[smf].upf_started => self.go_away(smf),
            Purpose::Heartbeat => self.smfs[smf].is_sure = true,
            Purpose::Release => {
                assert!(reply.cause == ACCEPTED || is_lost, "release: {}", reply.cause);
                self.go_away(smf);
            }
            _ if is_lost => self.go_away(smf),
            Purpose::Update => assert_eq!(reply.cause, ACCEPTED),
            Purpose::Establish(slot, ops, expect) => {
                self.smfs[smf].slots[usize::from(slot)].is_busy = false;
                if self.is_accepted(&reply, expect, &ops) {
                    self.established(smf, slot, &ops, reply, message);
                }
            }
            Purpose::Modify(slot, ops, expect) => {
                self.smfs[smf].slots[usize::from(slot)].is_busy = false;
                if self.is_accepted(&reply, expect, &ops) {
                    self.modified(smf, slot, &ops, &reply, message);
                }
            }
            Purpose::Delete(slot) => {
                assert_eq!(reply.cause, ACCEPTED, "a deletion");
                self.deleted(smf, slot, &reply);
            }
        }
    }

    /// Whether a request was accepted, which must be as expected, unless others have come to want its addresses.
    fn is_accepted(&self, reply: &Reply, expect: Expect, ops: &[Op]) -> bool {
        let is_accepted = reply.cause == ACCEPTED;
        let is_right = match expect {
            Expect::Accepted => is_accepted || self.is_contested(ops),
            Expect::Refused => !is_accepted,
            Expect::Either => true,
        };
        assert!(is_right, "{expect:?}, but cause {} for {ops:#?}", reply.cause);
        is_accepted
    }

    fn is_contested(&self, ops: &[Op]) -> bool {
        addresses_in(ops).iter().any(|own| self.contested.contains(own))
    }

    fn established(&mut self, smf: usize, slot: u8, ops: &[Op], reply: Reply, message: &Frame<'_>) {
        let cp = self.smfs[smf].place(slot).cp();
        assert_eq!(message.header.seid.map(|seid| seid.0), Some(cp));
        let rules = Rules::default().after(ops, &reply.grants);
        let mut session = Session {
            cp,
            up: reply.up.expect("a UP F-SEID"),
            ..Session::default()
        };
        session.becomes(rules.expect("accepted, and good"), ops, &reply.grants);
        session.is_vague = self.smfs[smf].slots[usize::from(slot)].is_overtaken;
        // One that was there under the same name is superseded: what waited for it is discarded.
        self.smfs[smf].slots[usize::from(slot)].session = Some(session);
    }

    fn modified(&mut self, smf: usize, slot: u8, ops: &[Op], reply: &Reply, message: &Frame<'_>) {
        let session = self.smfs[smf].slots[usize::from(slot)].session.as_mut();
        let session = session.expect("it was modified");
        let next = session
            .rules
            .after(ops, &reply.grants)
            .expect("accepted, and good");
        session.becomes(next, ops, &reply.grants);
        assert_eq!(message.header.seid.map(|seid| seid.0), Some(session.cp));
        for (urr, octets) in &reply.usage {
            *session.reported.entry(*urr).or_default() += octets;
        }
        let discards = ops.iter().any(|op| matches!(op, Op::DropBuffered));
        let waiting = std::mem::take(&mut session.waiting);
        let whole = session.rules.whole();
        for (far, kept) in waiting {
            let still = session
                .rules
                .fars
                .iter()
                .any(|one| one.id.0 == far && buffers(one));
            for packet in kept {
                if discards {
                    continue;
                }
                if still {
                    session.waiting.entry(far).or_default().push(packet);
                    continue;
                }
                let (fate, counted) = fate(&whole, &self.upf.network, &packet);
                for one in counted {
                    *session.counted.entry(one.urr.0).or_default() += one.octets;
                }
                match fate {
                    Fate::Out(egress, bytes) => _ = self.due.insert(packet.number, (egress, bytes)),
                    Fate::Waits(far) => session.waiting.entry(far.0).or_default().push(packet),
                    Fate::Dropped(_) => {}
                }
            }
        }
    }

    fn deleted(&mut self, smf: usize, slot: u8, reply: &Reply) {
        let slot = std::mem::take(&mut self.smfs[smf].slots[usize::from(slot)]);
        let mut session = slot.session.expect("it was deleted");
        for (urr, octets) in &reply.usage {
            *session.reported.entry(*urr).or_default() += octets;
        }
        session.reported.retain(|_, octets| *octets > 0);
        if !session.is_vague {
            assert_eq!(
                session.reported, session.counted,
                "usage of session {:#x}",
                session.up
            );
        }
    }

    /// Everything comes to rest.
    fn settle(&mut self) {
        let until = self.now + PATIENCE;
        let now = self.now;
        self.smfs.iter_mut().for_each(|smf| smf.make_sure(now));
        while !self.is_quiet() {
            assert!(
                self.now < until,
                "no rest: {:?}",
                self.smfs.each_ref().map(|smf| smf.stage)
            );
            self.pass(Duration::from_millis(50));
        }
    }

    fn is_quiet(&self) -> bool {
        let sessions = self.upf.control.endpoint().sessions();
        let is_up = |smf: &Smf| smf.stage == Stage::Up && smf.is_quiet() && smf.is_sure;
        self.smfs.iter().all(is_up)
            && sessions.count().ops == 0
            && sessions.moving_bucket().is_none()
            && self.shim.next().is_none()
    }

    /// The sessions that ought to exist, by the UPF's name.
    fn sessions(&self) -> BTreeMap<u64, &Session> {
        let slots = self.smfs.iter().flat_map(|smf| &smf.slots);
        let sessions = slots.filter_map(|slot| slot.session.as_ref());
        sessions.map(|session| (session.up, session)).collect()
    }

    /// Brings everything to rest, and compares.
    fn check(&mut self) {
        self.settle();
        self.compare();
        self.try_packets();
        self.compare_packets();
    }

    fn compare(&self) {
        let sessions = self.sessions();
        let control = self.upf.control.endpoint().sessions();
        let known: BTreeMap<u64, u64> = control
            .iter()
            .map(|view| (view.seid().0, view.cp().seid))
            .collect();
        let expected: BTreeMap<u64, u64> = sessions.iter().map(|(up, session)| (*up, session.cp)).collect();
        assert_eq!(
            known, expected,
            "sessions by SEID, and the control plane's names of them"
        );
        let mut seen = BTreeSet::new();
        for (number, worker) in (0..).map(WorkerId).zip(&self.upf.workers) {
            for view in worker.session_views() {
                assert_eq!(control.owner(view.bucket()), number, "session {:#x}", view.seid());
                let session = sessions.get(&view.seid()).expect("a session that ought to exist");
                assert_eq!(*view.rules(), session.rules.whole(), "session {:#x}", view.seid());
                assert!(seen.insert(view.seid()), "session {:#x} twice", view.seid());
            }
        }
        assert_eq!(seen.len(), sessions.len(), "sessions of workers");
        let tunnels = sessions.values().map(|session| session.rules.teids().len()).sum();
        let held = sessions.values().map(|session| session.held().len()).sum();
        let count = control.count();
        let expected = Count {
            sessions: sessions.len(),
            indexes: sessions.len(),
            tunnels,
            addresses: held,
            correlations: 0,
            paths: count.paths,
            ops: 0,
        };
        assert_eq!(count, expected);
        let plain = sessions.values().map(|session| session.rules.plain().len()).sum();
        let sum = |of: fn(&Holdings) -> usize| {
            self.upf
                .workers
                .iter()
                .map(|one| of(&one.holdings()))
                .sum::<usize>()
        };
        assert_eq!(
            [
                sum(|one| one.blocks),
                sum(|one| one.tunnels),
                sum(|one| one.addresses)
            ],
            [sessions.len(), tunnels, plain],
            "blocks, tunnels and addresses of workers"
        );
    }

    /// Two packets of each kind for each session: one that is decided, one that finds the decision.
    fn try_packets(&mut self) {
        for smf in 0..2 {
            for slot in 0..SLOTS {
                let Some(session) = self.smfs[smf].slots[slot].session.take() else {
                    continue;
                };
                let session = self.try_session(session);
                self.smfs[smf].slots[slot].session = Some(session);
            }
        }
    }

    fn try_session(&mut self, mut session: Session) -> Session {
        if session
            .rules
            .ue_prefixes()
            .iter()
            .any(|own| self.contested.contains(own))
        {
            session.is_vague = true;
            return session;
        }
        let whole = session.rules.whole();
        for kind in kinds(&session.rules) {
            for _ in 0..2 {
                self.packets += 1;
                let packet = kind.packet(self.packets);
                let (fate, counted) = fate(&whole, &self.upf.network, &packet);
                for one in counted {
                    *session.counted.entry(one.urr.0).or_default() += one.octets;
                }
                let before = self.drops();
                let via = (self.packets / 2 % u32::from(WORKERS)) as u16;
                self.upf.receive(via, packet.ingress, &packet.bytes);
                self.rest();
                let dropped = self.dropped_since(&before);
                match fate {
                    Fate::Dropped(reason) => assert_eq!(dropped, [reason], "{kind:?} of {session:#?}"),
                    _ => assert_eq!(dropped, [], "{kind:?} of {session:#?}"),
                }
                match fate {
                    Fate::Out(egress, bytes) => _ = self.due.insert(packet.number, (egress, bytes)),
                    Fate::Waits(far) => session.waiting.entry(far.0).or_default().push(packet),
                    Fate::Dropped(_) => {}
                }
            }
        }
        session
    }

    fn drops(&self) -> Vec<u64> {
        let sum = |reason: &DropReason| {
            let of = self
                .upf
                .workers
                .iter()
                .map(|worker| worker.stats().dropped(*reason));
            of.sum()
        };
        DropReason::ALL.iter().map(sum).collect()
    }

    fn dropped_since(&self, before: &[u64]) -> Vec<DropReason> {
        let now = self.drops();
        let more = DropReason::ALL.iter().zip(before.iter().zip(now));
        let more = more.flat_map(|(reason, (before, now))| (*before..now).map(|_| *reason));
        more.collect()
    }

    /// What has left is what was to leave.
    fn compare_packets(&mut self) {
        for (number, packet) in std::mem::take(&mut self.came) {
            if !self.vague.contains(&number) {
                assert_eq!(self.due.remove(&number), Some(packet), "packet {number}");
            }
        }
        assert!(self.due.is_empty(), "lost: {:?}", self.due);
    }

    /// All sessions are deleted and all associations released: nothing is left.
    fn finish(&mut self) {
        self.shim.trouble = Trouble::NONE;
        self.smfs.iter_mut().for_each(|smf| smf.is_deaf = false);
        self.check();
        for smf in 0..2 {
            (0..SLOTS as u8).for_each(|slot| self.delete(smf, slot));
        }
        self.check();
        for smf in 0..2 {
            self.node_procedure(smf, true, Smf::release);
        }
        self.pass(Duration::from_millis(100));
        for smf in &mut self.smfs {
            assert!(matches!(smf.stage, Stage::Away(_)));
            smf.stage = Stage::Away(Nanos::MAX);
        }
        self.pass(Duration::from_secs(120));
        self.assert_nothing_left();
    }

    fn assert_nothing_left(&mut self) {
        // Flow entries that have idled are taken out a few at a time.
        for _ in 0..1_000 {
            self.rest();
        }
        let clock = self.upf.clock(self.now);
        let control = &self.upf.control;
        let endpoint = control.endpoint();
        assert_eq!(endpoint.sessions().count(), Count::default());
        assert_eq!(endpoint.outstanding(), (0, 0), "requests");
        assert_eq!(endpoint.reporting(), 0, "reports");
        assert_eq!(endpoint.associations().count(), 0);
        assert_eq!(endpoint.poll_timeout(), None, "timers");
        assert_eq!(control.neighbours(clock), self.upf.neighbours, "neighbours");
        for worker in &self.upf.workers {
            assert_eq!(worker.holdings(), Holdings::default());
            let stats = worker.stats();
            let lost = (stats.events_lost, stats.exceptions_lost, stats.unaccounted());
            assert_eq!(lost, (0, 0, 0), "{stats:?}");
            let dropped = [DropReason::BufferDiscarded, DropReason::BufferExpired];
            let dropped: u64 = dropped.iter().map(|reason| stats.dropped(*reason)).sum();
            assert_eq!(stats.stored, stats.flushed + dropped, "buffered packets");
        }
    }
}

/// The UE addresses that a request names.
fn addresses_in(ops: &[Op]) -> Vec<IpPrefix> {
    let named = ops.iter().flat_map(|op| match op {
        Op::CreatePdr(pdr, _) => pdr.pdi.ue_ip.to_vec(),
        Op::UpdatePdr(update) => update
            .pdi
            .as_ref()
            .and_then(|pdi| pdi.ue_ip.clone())
            .unwrap_or_default(),
        Op::CreateEndpoint(endpoint, _) => endpoint.ue_ip.to_vec(),
        _ => Vec::new(),
    });
    named.flat_map(|ue| prefixes(&ue)).collect()
}
