//! Where each session is, and the requests that move it.

use std::collections::HashMap;
use std::time::Duration;

use flow::contract::{
    Backend, Capabilities, Event, FlowOp, Notice, Object, ObjectId, Outcome, QueueTokens, Refusal, Reply,
    Request, Subject,
};
use flow::meter::MeterState;
use flow::{Direction, Nanos, SessionIndex, UrrCount};
use rules::image::EgressQueues;
use rules::network::Network;

use super::counter_places::{AtHome, CounterPlaces};
use super::eligibility::{NetworkNeeds, can_leave};
use super::objects::{bounded_counters, objects, own_meters, queues_object};
use super::of_sessions::{add_to_group, are_in_share, metered, number_of_queues, queued, seconds, since};
use super::policy::{OffloadPolicy, PassingPacket};
use super::purpose::{Purpose, op_id, read_op_id};
use super::queues::{HomeQueues, node_of};
use super::stays::Stays;
use crate::control_channel::event_queue::EventQueue;
use crate::sessions::Sessions;

/// Requests that one session may need.
const RESERVE: usize = 1024;
/// How long a session stays that the accelerator has of another worker: the bucket's move ends soon.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// What was counted of sessions that leave and come, since the start; gauges are of now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffloadStats {
    /// Sessions that are away, those on the way included.
    pub away: u64,
    /// Sessions that left.
    pub left: u64,
    /// Sessions that came home, each with its counts and meters.
    pub returned: u64,
    /// Sessions whose accelerator lost them: what was counted since its last report is lost.
    pub lost: u64,
    /// Sessions that the accelerator refused.
    pub refused: u64,
    /// Packets of sessions that stay, by [`Stays`].
    pub stays: [u64; Stays::ALL.len()],
    /// Packets of sessions that were away and needed this node.
    pub recalled: u64,
    /// Objects of the network that the accelerator refused: their packets come here.
    pub network_refused: u64,
}

/// Where a session is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Its packets pass here.
    #[default]
    Home,
    /// The same; its objects are being given to the accelerator.
    Leaving,
    /// Its meters and counters are handed over: its packets wait.
    Opening,
    /// Its packets pass at the accelerator.
    Away,
    /// Its objects are being taken back: its packets wait.
    Returning,
}

impl Place {
    /// Whether what is counted is counted at the accelerator.
    pub const fn has_left(self) -> bool {
        matches!(self, Self::Opening | Self::Away)
    }

    /// Whether packets wait until it is elsewhere.
    pub const fn is_on_its_way(self) -> bool {
        matches!(self, Self::Opening | Self::Returning)
    }
}

/// A session's line in the table.
#[derive(Clone, Copy, Debug, Default)]
struct Home {
    place: Place,
    /// Packets that have passed here since it came, of those that the policy counts, and their octets.
    seen: u16,
    seen_octets: u32,
    /// Why it could not leave when that was asked last.
    stays: Option<Stays>,
    /// It stays before this second of the clock.
    stays_until: u32,
}

/// What is known of a session that is not at home.
#[derive(Debug, Default)]
struct Move {
    /// Which of its ways it is: late replies of the last one do not count.
    number: u16,
    /// Replies that are to come before the next step.
    awaited: u16,
    is_refused: bool,
    /// The accelerator has it of another worker, which it comes from.
    is_elsewhere: bool,
    /// It is to come home as soon as it has left.
    is_recalled: bool,
    /// It is among those that come home, or whose counts are asked for, as soon as there is room.
    is_queued: Queued,
    /// What was added of the accelerator's counters, by slot.
    added: HashMap<u8, UrrCount>,
    /// What meters held when they were taken back.
    meters: Vec<(u8, Direction, MeterState)>,
    /// Queues that it has there, or asks for.
    queues: usize,
    /// What is left of the rates of its queues, when that was asked for last.
    tokens: [Option<QueueTokens>; 2],
}

/// In which queues a session is: once in each, however often it is wanted.
#[derive(Clone, Copy, Debug, Default)]
struct Queued {
    recall: bool,
    ask: bool,
}

/// What replies and events change at home.
pub(crate) struct Household<'a> {
    pub sessions: &'a mut Sessions,
    pub events: &'a mut EventQueue,
    /// Whether packets of a session wait here, so that later ones must not pass elsewhere.
    pub waits: &'a dyn Fn(SessionIndex) -> bool,
    /// The queues before ports, where there are any.
    pub queues: Option<&'a mut dyn HomeQueues>,
    /// The network that queues are below.
    pub network: &'a Network,
}

/// All sessions of a worker.
#[derive(Debug)]
pub(crate) struct Homes {
    policy: OffloadPolicy,
    /// No session leaves: the policy says so, or what the accelerator can do.
    is_partial: bool,
    /// How many workers share the accelerator's room for queues.
    workers: usize,
    homes: Box<[Home]>,
    moves: HashMap<SessionIndex, Move>,
    /// The number of the last way.
    ways: u16,
    /// Sessions that are to come home as soon as there is room for the requests.
    recalls: Vec<SessionIndex>,
    /// Sessions whose counts are to be asked for as soon as there is room.
    asks: Vec<SessionIndex>,
    /// Queues of sessions that have left, or whose objects are being given.
    queues_away: usize,
    stats: OffloadStats,
}

impl Homes {
    /// All at home, with an index below `sessions`, of one of this number of workers.
    pub fn new(sessions: usize, (policy, workers): (OffloadPolicy, u16)) -> Self {
        Self {
            is_partial: policy.is_partial,
            policy,
            workers: usize::from(workers.max(1)),
            homes: vec![Home::default(); sessions].into(),
            moves: HashMap::new(),
            ways: 0,
            recalls: Vec::new(),
            asks: Vec::new(),
            queues_away: 0,
            stats: OffloadStats::default(),
        }
    }

    pub const fn policy(&self) -> &OffloadPolicy {
        &self.policy
    }

    /// Whether no session leaves.
    pub const fn is_partial(&self) -> bool {
        self.is_partial
    }

    /// An accelerator that can do this has begun with nothing.
    pub const fn meet(&mut self, can: &Capabilities) {
        self.is_partial = self.policy.is_partial || !can.holds_sessions();
    }

    pub fn stats(&self) -> OffloadStats {
        OffloadStats {
            away: self.moves.len() as u64,
            ..self.stats
        }
    }

    /// Queues before ports of sessions that have left, or are about to.
    pub const fn queues_away(&self) -> usize {
        self.queues_away
    }

    /// Its counters, to change.
    pub fn stats_mut(&mut self) -> &mut OffloadStats {
        &mut self.stats
    }

    /// Where a session is.
    #[inline]
    pub fn place(&self, session: SessionIndex) -> Place {
        self.homes
            .get(session.index())
            .map_or(Place::Home, |home| home.place)
    }

    /// Has all sessions come home, a few at a time ([`work`](Self::work)).
    pub fn recall_all(&mut self) {
        let all: Vec<SessionIndex> = self.moves.keys().copied().collect();
        for session in all {
            self.recall_later(session);
        }
    }

    /// Continues what had no room.
    pub fn work(&mut self, sessions: &Sessions, backend: &mut impl Backend) {
        for _ in 0..self.recalls.len() {
            if backend.room() < RESERVE {
                return;
            }
            if let Some(session) = self.recalls.pop() {
                if let Some(way) = self.moves.get_mut(&session) {
                    way.is_queued.recall = false;
                }
                self.recall(session, sessions, backend);
            }
        }
        for _ in 0..self.asks.len() {
            if backend.room() < RESERVE {
                return;
            }
            if let Some(session) = self.asks.pop() {
                if let Some(way) = self.moves.get_mut(&session) {
                    way.is_queued.ask = false;
                }
                self.refresh(session, sessions, backend);
            }
        }
    }

    /// A packet of a session at home passes here: the session may leave now.
    #[inline]
    pub fn note_packet(
        &mut self,
        (session, packet): (SessionIndex, &PassingPacket),
        backend: &mut impl Backend,
        sessions: &Sessions,
        network: &NetworkNeeds<'_>,
        now: Nanos,
    ) {
        let Some(home) = self.homes.get_mut(session.index()) else {
            return;
        };
        if home.place != Place::Home {
            return;
        }
        home.stays = None;
        if !self.policy.counts(packet) {
            return;
        }
        home.seen = home.seen.saturating_add(1);
        home.seen_octets = home.seen_octets.saturating_add(packet.octets.into());
        if home.seen > self.policy.after_packets && home.seen_octets > self.policy.after_octets {
            self.consider(session, backend, sessions, network, now);
        }
    }

    fn consider(
        &mut self,
        session: SessionIndex,
        backend: &mut impl Backend,
        sessions: &Sessions,
        network: &NetworkNeeds<'_>,
        now: Nanos,
    ) {
        let (Some(home), Some(slot)) = (self.homes.get(session.index()), sessions.at(session)) else {
            return;
        };
        let can = backend.capabilities();
        let most = self.policy.sessions.min(can.sessions as usize);
        let verdict = match seconds(now) < home.stays_until {
            true => Err(Stays::Refused),
            false if self.moves.len() >= most || session.0 >= can.sessions => Err(Stays::Capability),
            false
                if !are_in_share(
                    number_of_queues(session, sessions),
                    self.queues_away,
                    &can,
                    self.workers,
                ) =>
            {
                Err(Stays::Queues)
            }
            false => can_leave(slot, &can, network),
        };
        match verdict {
            // Those that come home go first.
            Ok(()) if backend.room() < 2 * RESERVE => {}
            Ok(()) => {
                let node = |plan: &EgressQueues| network.queue_node(plan, &can).ok();
                let queues = number_of_queues(session, sessions);
                self.give((session, queues), objects(sessions, slot, node), backend);
            }
            Err(why) => self.note_stays(session, why),
        }
    }

    /// A packet of a session passes here for this reason.
    pub fn note_stays(&mut self, session: SessionIndex, why: Stays) {
        self.stats.stays[why as usize] += 1;
        if let Some(home) = self.homes.get_mut(session.index()) {
            home.stays = Some(why);
        }
    }

    /// A packet of a session passes here, and nothing but the policy or the lack of contact keeps the session.
    pub fn note_free(&mut self, session: SessionIndex) {
        if let Some(home) = self.homes.get_mut(session.index()) {
            home.stays = None;
        }
    }

    /// Why a session at home could not leave when that was asked last.
    pub fn why_stays(&self, session: SessionIndex) -> Option<Stays> {
        match self.is_partial {
            true => Some(Stays::PartialMode),
            false => self.homes.get(session.index())?.stays,
        }
    }

    fn set(&mut self, session: SessionIndex, place: Place) {
        if let Some(home) = self.homes.get_mut(session.index()) {
            home.place = place;
        }
    }

    fn ask(session: SessionIndex, number: u16, purpose: Purpose, op: FlowOp, backend: &mut impl Backend) {
        backend.submit(Request {
            id: op_id(session, number, purpose),
            epoch: backend.epoch(),
            subject: Subject::Session(session),
            op,
        });
    }

    /// Gives the objects of a session with this number of queues.
    fn give(
        &mut self,
        (session, queues): (SessionIndex, usize),
        objects: Vec<Object>,
        backend: &mut impl Backend,
    ) {
        if objects.is_empty() {
            return;
        }
        self.ways = self.ways.wrapping_add(1);
        let way = Move {
            number: self.ways,
            awaited: objects.len() as u16,
            queues,
            ..Move::default()
        };
        self.queues_away += queues;
        for (place, object) in (0..).zip(objects) {
            Self::ask(
                session,
                way.number,
                Purpose::Give(place),
                FlowOp::Install(object),
                backend,
            );
        }
        self.moves.insert(session, way);
        if let Some(home) = self.homes.get_mut(session.index()) {
            (home.place, home.stays) = (Place::Leaving, None);
        }
    }

    /// Has a session come home; whether it is.
    pub fn recall(&mut self, session: SessionIndex, sessions: &Sessions, backend: &mut impl Backend) -> bool {
        match self.place(session) {
            Place::Home => true,
            Place::Opening | Place::Away => {
                self.take_back(session, sessions, backend);
                false
            }
            Place::Leaving => {
                let way = self.moves.get_mut(&session);
                let is_given = way.is_some_and(|way| {
                    way.is_recalled = true;
                    way.awaited == 0
                });
                if is_given {
                    self.give_up(session, backend);
                }
                false
            }
            Place::Returning => false,
        }
    }

    /// Has a session stay for a while when it has come home.
    pub fn keep(&mut self, session: SessionIndex, now: Nanos) {
        self.keep_for(session, self.policy.stays_for, now);
    }

    fn keep_for(&mut self, session: SessionIndex, time: Duration, now: Nanos) {
        let until = seconds(now + time.min(self.policy.stays_for));
        if let Some(home) = self.homes.get_mut(session.index()) {
            home.stays_until = until.max(seconds(now) + 1);
        }
    }

    /// A session begins here, or ends: nothing of another one with its index counts.
    pub fn forget(&mut self, session: SessionIndex) {
        if let Some(home) = self.homes.get_mut(session.index()) {
            *home = Home {
                place: home.place,
                ..Home::default()
            };
        }
    }

    /// Has a session come home when there is room for the requests.
    fn recall_later(&mut self, session: SessionIndex) {
        if let Some(way) = self.moves.get_mut(&session)
            && !std::mem::replace(&mut way.is_queued.recall, true)
        {
            self.recalls.push(session);
        }
    }

    /// The same of a question for its counts.
    fn ask_later(&mut self, session: SessionIndex) {
        if let Some(way) = self.moves.get_mut(&session)
            && !std::mem::replace(&mut way.is_queued.ask, true)
        {
            self.asks.push(session);
        }
    }

    fn take_back(&mut self, session: SessionIndex, sessions: &Sessions, backend: &mut impl Backend) {
        let Some(way) = self.moves.get_mut(&session) else {
            return self.set(session, Place::Home);
        };
        let number = way.number;
        let (metered, queued) = (metered(session, sessions), queued(session, sessions));
        if backend.room() < metered.len() + queued.len() + 2 {
            return self.recall_later(session);
        }
        way.awaited = 2 + (metered.len() + queued.len()) as u16;
        self.queues_away -= std::mem::take(&mut way.queues);
        let remove = |id| FlowOp::Remove(id);
        // With it go all flows, and those that are still on their way are refused.
        Self::ask(
            session,
            number,
            Purpose::TakeFlows,
            remove(ObjectId::Generation),
            backend,
        );
        // What waits has left with the flows.
        for direction in queued {
            let query = FlowOp::Query(ObjectId::Queues(direction));
            Self::ask(session, number, Purpose::TakeQueues(direction), query, backend);
        }
        for (qer, direction) in metered {
            let purpose = Purpose::TakeMeter(qer, direction);
            let query = FlowOp::Query(ObjectId::Meter(qer, direction));
            Self::ask(session, number, purpose, query, backend);
        }
        Self::ask(
            session,
            number,
            Purpose::TakeSession,
            remove(ObjectId::Session),
            backend,
        );
        self.set(session, Place::Returning);
    }

    /// A session that has not left stays, with its meters: its objects are taken back, and its packets pass here.
    fn give_up(&mut self, session: SessionIndex, backend: &mut impl Backend) {
        let Some(way) = self.moves.get_mut(&session) else {
            return self.set(session, Place::Home);
        };
        if backend.room() == 0 {
            return self.recall_later(session);
        }
        way.awaited = 1;
        self.queues_away -= std::mem::take(&mut way.queues);
        let remove = FlowOp::Remove(ObjectId::Session);
        Self::ask(session, way.number, Purpose::TakeSession, remove, backend);
    }

    /// Asks what a session that is away has counted there, and what its meters hold: [`take`](Self::take) adds it.
    pub fn refresh(&mut self, session: SessionIndex, sessions: &Sessions, backend: &mut impl Backend) {
        let is_away = self.place(session).has_left();
        let Some(way) = self.moves.get(&session).filter(|_| is_away) else {
            return;
        };
        let metered = metered(session, sessions);
        if backend.room() < metered.len() + 1 {
            return self.ask_later(session);
        }
        for (qer, direction) in metered {
            let purpose = Purpose::TakeMeter(qer, direction);
            let query = FlowOp::Query(ObjectId::Meter(qer, direction));
            Self::ask(session, way.number, purpose, query, backend);
        }
        let query = FlowOp::Query(ObjectId::Session);
        Self::ask(session, way.number, Purpose::Ask, query, backend);
    }

    /// Takes what the accelerator reports. Gives the session whose counts were asked for, when they are there.
    pub fn take(
        &mut self,
        notice: Notice,
        household: &mut Household<'_>,
        backend: &mut impl Backend,
        now: Nanos,
    ) -> Option<SessionIndex> {
        match notice {
            Notice::Reply(reply) => self.take_reply(reply, household, backend, now),
            Notice::Event(Event::Counts { session, counts }) => {
                self.add(session, &counts, household, now);
                None
            }
            Notice::Event(Event::Watermark { session, .. }) => {
                self.refresh(session, household.sessions, backend);
                None
            }
            Notice::Event(Event::Limit { session, .. }) => {
                // What stopped it may be a packet that did not fit: the next one finds that at home.
                self.keep(session, now);
                self.recall(session, household.sessions, backend);
                None
            }
            Notice::Event(Event::Unreachable | Event::BackendReset { .. }) => {
                self.lose();
                None
            }
            Notice::Event(Event::Aged { .. } | Event::Miss { .. } | Event::Links { .. }) => None,
        }
    }

    fn take_reply(
        &mut self,
        Reply { id, outcome }: Reply,
        household: &mut Household<'_>,
        backend: &mut impl Backend,
        now: Nanos,
    ) -> Option<SessionIndex> {
        let (session, number, purpose) = read_op_id(id);
        let place = self.place(session);
        let way = self.moves.get_mut(&session).filter(|way| way.number == number)?;
        if let Err(Refusal::OtherEpoch) = outcome {
            // It lost the session, or never had it: the event that says so is on its way, or here.
            return None;
        }
        match purpose {
            Purpose::Refill(_) => {}
            Purpose::Open => {
                if outcome.is_err() {
                    self.keep(session, now);
                    self.recall(session, household.sessions, backend);
                } else if place == Place::Opening {
                    let queues = household.queues.as_ref();
                    match queues.is_some_and(|queues| queues.stands(session)) {
                        // What has left its queues goes first: it is asked once more.
                        true => Self::open(session, number, household.sessions, backend),
                        false => self.set(session, Place::Away),
                    }
                }
            }
            Purpose::Ask => match &outcome {
                Ok(Outcome::Counts(counts)) => {
                    self.add(session, counts, household, now);
                    return Some(session);
                }
                _ => self.ask_later(session),
            },
            Purpose::TakeMeter(qer, direction) if place.has_left() => {
                if let (Ok(Outcome::Meter(state)), Some(slot)) = (outcome, household.sessions.at(session)) {
                    let block = slot.installed.block;
                    let blocks = &mut household.sessions.blocks;
                    blocks.set_meter_state(block, qer, direction, state);
                }
            }
            Purpose::Give(_) => {
                way.awaited = way.awaited.saturating_sub(1);
                way.is_refused |= outcome.is_err();
                way.is_elsewhere |= outcome == Err(Refusal::Exists);
                if way.awaited == 0 {
                    self.given(session, household, backend, now);
                }
            }
            Purpose::TakeFlows | Purpose::TakeMeter(..) | Purpose::TakeQueues(_) | Purpose::TakeSession => {
                way.awaited = way.awaited.saturating_sub(1);
                let is_kept = matches!(outcome, Err(refusal) if refusal != Refusal::Missing);
                if is_kept && purpose == Purpose::TakeSession {
                    // What is still there passes, and nothing of it is known here: all begins anew.
                    backend.reset();
                    return None;
                }
                match (purpose, outcome) {
                    (Purpose::TakeMeter(qer, direction), Ok(Outcome::Meter(state))) => {
                        way.meters.push((qer, direction, state));
                    }
                    (Purpose::TakeQueues(direction), Ok(Outcome::Tokens(tokens))) => {
                        way.tokens[direction as usize] = Some(tokens);
                    }
                    (Purpose::TakeSession, Ok(Outcome::Counts(counts))) => {
                        self.add(session, &counts, household, now);
                    }
                    _ => {}
                }
                let is_done = self.moves.get(&session).is_some_and(|way| way.awaited == 0);
                if is_done {
                    self.come_home(session, household, now);
                }
            }
        }
        None
    }

    /// All objects of a session are there, or were refused.
    fn given(
        &mut self,
        session: SessionIndex,
        household: &mut Household<'_>,
        backend: &mut impl Backend,
        now: Nanos,
    ) {
        let Some(way) = self.moves.get(&session) else {
            return;
        };
        let (is_refused, is_recalled, number) = (way.is_refused, way.is_recalled, way.number);
        if is_refused {
            self.stats.refused += 1;
            match way.is_elsewhere {
                true => self.keep_for(session, ELSEWHERE, now),
                false => self.keep(session, now),
            }
        }
        let slot = household.sessions.at(session);
        if is_refused || is_recalled || slot.is_none() || (household.waits)(session) {
            return self.give_up(session, backend);
        }
        // Meters and counters have gone on here since they were given.
        if let Some(slot) = slot
            && let Some(view) = household.sessions.blocks.get(slot.installed.block)
        {
            let block = &slot.image.block;
            let mut refills: Vec<Object> = own_meters(block, &view)
                .chain(bounded_counters(block, &view))
                .collect();
            if let Some(queues) = &mut household.queues {
                // What waits here leaves at once, at the expense of its rates.
                let tokens = queues.let_leave(&slot.image, now);
                let can = backend.capabilities();
                for (direction, tokens) in Direction::BOTH.into_iter().zip(tokens) {
                    let plan = slot.image.egress_queues(direction);
                    let node =
                        plan.and_then(|plan| node_of(household.network, plan, can.queues.as_ref()).ok());
                    if let (Some(plan), Some(node), Some(tokens)) = (plan, node, tokens) {
                        refills.push(queues_object(direction, plan, node, Some(tokens)));
                    }
                }
            }
            for (place, object) in (0..).zip(refills) {
                let update = FlowOp::Update(object);
                Self::ask(session, number, Purpose::Refill(place), update, backend);
            }
        }
        Self::open(session, number, household.sessions, backend);
        self.stats.left += 1;
        self.set(session, Place::Opening);
    }

    /// Asks for the moment from which on flows may be given.
    fn open(session: SessionIndex, number: u16, sessions: &Sessions, backend: &mut impl Backend) {
        if let Some(slot) = sessions.at(session) {
            let put = FlowOp::Put(Object::Generation(slot.installed.generation));
            Self::ask(session, number, Purpose::Open, put, backend);
        }
    }

    fn come_home(&mut self, session: SessionIndex, household: &mut Household<'_>, now: Nanos) {
        let way = self.moves.remove(&session);
        self.queues_away -= way.as_ref().map_or(0, |way| way.queues);
        self.set(session, Place::Home);
        self.stats.returned += 1;
        let sessions = &mut *household.sessions;
        if let (Some(way), Some(slot), Some(queues)) = (&way, sessions.at(session), &mut household.queues) {
            for (direction, tokens) in Direction::BOTH.into_iter().zip(&way.tokens) {
                if let Some(tokens) = tokens {
                    queues.go_on(&slot.image, direction, tokens, now);
                }
            }
        }
        let block = sessions.at(session).map(|slot| slot.installed.block);
        if let (Some(way), Some(block)) = (way, block) {
            for (qer, direction, state) in way.meters {
                sessions.blocks.set_meter_state(block, qer, direction, state);
            }
        }
    }

    /// Adds what counters have counted there since it was added last.
    fn add(
        &mut self,
        session: SessionIndex,
        counts: &[(u8, UrrCount)],
        household: &mut Household<'_>,
        now: Nanos,
    ) {
        let Some(way) = self.moves.get_mut(&session) else {
            return;
        };
        let sessions = &mut *household.sessions;
        let Some(slot) = sessions.at(session) else {
            return;
        };
        let (block, places) = (slot.installed.block, CounterPlaces::of(&slot.image.block));
        let mut has_reached = false;
        for &(place, count) in counts {
            let added = way.added.entry(place).or_default();
            let new = since(&count, added);
            *added = count;
            if new == UrrCount::default() {
                continue;
            }
            match places.at_home(place) {
                AtHome::Slot(slot) if sessions.blocks.add_count(block, slot, &new, now) => {
                    has_reached |= sessions.blocks.look_at_bounds(block, slot) != Default::default();
                }
                AtHome::Slot(_) => {}
                AtHome::Group => add_to_group(&mut sessions.blocks, block, &new),
            }
        }
        if has_reached {
            household.events.mark_reached(session);
        }
    }

    /// The accelerator has lost all that it had: sessions are at home at once, with what was reported of them.
    fn lose(&mut self) {
        self.recalls.clear();
        self.asks.clear();
        self.queues_away = 0;
        for (session, _) in std::mem::take(&mut self.moves) {
            let was_away = !matches!(self.place(session), Place::Home | Place::Leaving);
            self.stats.lost += u64::from(was_away);
            self.set(session, Place::Home);
        }
    }
}
