//! The requests' side of a backend of the FlowOp contract, over flow tables and session blocks that another owns.
//!
//! What packets do is the owner's affair ([`BackendTables`]): the local backend has tables of its own, an accelerator
//! those of its engine.

mod session;
mod sessions;
mod shared;
mod tables;

use core::fmt;
use core::time::Duration;
use std::collections::{HashMap, VecDeque};

pub use self::session::entry_of;
use self::session::{Session, at, names, refusal, set};
use self::sessions::SessionTable;
pub use self::tables::BackendTables;
use crate::contract::{
    Actions, AnyKey, Backend, Capabilities, CounterKind, Epoch, Event, Flow, FlowOp, Notice, Object,
    ObjectId, Outcome, QueueTokens, Queues, Refusal, Reply, Request, Subject,
};
use crate::meter::SharedId;
use crate::{
    BlockImage, Bounds, Counted, Direction, Flows, Forward, Mark, Nanos, ReplaceMap, SessionBlock,
    SessionIndex, UrrCount, Weight,
};

/// The least time for the report of one session's counters: 50,000 a second, which take some hundredths of a core.
const REPORT: Duration = Duration::from_micros(20);
/// Sessions whose counters are looked at in one poll.
const REPORTS_AT_ONCE: u64 = 1024;
/// Notices that wait to be fetched while misses and aged flows still become others.
const MOST_NOTICES: usize = 1024;

/// What counters say.
trait Leaving: BackendTables {
    /// What a counter has counted of packets that do not wait.
    fn left_of(&self, session: SessionIndex, slot: u8, view: &SessionBlock<'_>) -> UrrCount {
        let counted = view.urr(slot).unwrap_or_default();
        let waiting = self.waiting(session, slot);
        UrrCount {
            ul_packets: counted.ul_packets.saturating_sub(waiting.ul_packets),
            ul_octets: counted.ul_octets.saturating_sub(waiting.ul_octets),
            dl_packets: counted.dl_packets.saturating_sub(waiting.dl_packets),
            dl_octets: counted.dl_octets.saturating_sub(waiting.dl_octets),
            ..counted
        }
    }
}

impl<T: BackendTables> Leaving for T {}

/// The backend. It carries out one request per `poll`.
pub struct TableBackend<T> {
    capabilities: Capabilities,
    /// How often counters are reported, where there is time for that.
    counts_every: Option<Duration>,
    epoch: Epoch,
    tables: T,
    node: HashMap<ObjectId, Object>,
    sessions: SessionTable,
    /// When counters were reported last.
    counted_at: Nanos,
    requests: VecDeque<Request>,
    notices: VecDeque<Notice>,
    aged: Vec<(AnyKey, SessionIndex)>,
    /// When it worked last.
    now: Nanos,
}

impl<T: BackendTables> TableBackend<T> {
    /// A backend without state, over tables that are empty. The interval of its reports is at least what those of as
    /// many sessions take as there is room for; with fewer it keeps the one that it is given.
    pub fn new(capabilities: Capabilities, epoch: Epoch, tables: T) -> Self {
        let backend = Self {
            capabilities,
            counts_every: None,
            epoch,
            tables,
            node: HashMap::new(),
            sessions: SessionTable::default(),
            counted_at: Nanos::ZERO,
            requests: VecDeque::new(),
            notices: VecDeque::new(),
            aged: Vec::new(),
            now: Nanos::ZERO,
        };
        match capabilities.counts_every {
            Some(every) => backend.with_counts_every(every),
            None => backend,
        }
    }

    /// The same, which reports counters by itself.
    pub fn with_counts_every(mut self, every: Duration) -> Self {
        let of_all = REPORT * self.capabilities.sessions;
        self.capabilities.counts_every = Some(every.max(of_all));
        self.counts_every = Some(every);
        self
    }

    /// Its tables.
    pub const fn tables(&self) -> &T {
        &self.tables
    }

    /// The same, for packets.
    pub const fn tables_mut(&mut self) -> &mut T {
        &mut self.tables
    }

    /// Sessions that have at least one object here.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Asks for the memory that [putting](Self::put_now) these flows will read, of all of them at once: no cache has
    /// what belongs to a session that has been silent. A hint, for a few dozen flows.
    pub fn prefetch_put<'a>(&self, flows: impl Iterator<Item = (SessionIndex, &'a Flow)> + Clone) {
        for (session, flow) in flows.clone() {
            self.sessions.prefetch_place(session);
            self.tables.prefetch_put(session, &flow.key);
        }
        for (session, _) in flows.clone() {
            self.sessions.prefetch(session);
        }
        for session in flows.filter_map(|(session, _)| self.sessions.get(session)) {
            for direction in Direction::BOTH {
                self.tables
                    .blocks()
                    .prefetch_read_line(session.installed.block, direction);
            }
        }
    }

    /// Puts a flow of a session at once, beside requests: it came with a packet. Whatever was asked before and is not
    /// carried out yet comes behind it.
    ///
    /// # Errors
    /// As a request that puts the flow.
    pub fn put_now(&mut self, session: SessionIndex, flow: &Flow, now: Nanos) -> Result<(), Refusal> {
        self.put_flow(session, flow, now)
    }

    /// Reports that a packet matched nothing, unless very many wait to be reported.
    pub fn tell_miss(&mut self, key: AnyKey) {
        if self.notices.len() < MOST_NOTICES {
            self.notices.push_back(Notice::Event(Event::Miss { key }));
        }
    }

    fn apply(&mut self, request: Request, now: Nanos) -> Result<Outcome, Refusal> {
        let Request {
            epoch, subject, op, ..
        } = request;
        if epoch != self.epoch {
            return Err(Refusal::OtherEpoch);
        }
        let session = match (subject, id_of(&op)) {
            (Subject::Node, None) => {
                self.tables.fence_node();
                return Ok(Outcome::Done);
            }
            (_, None) => return Ok(Outcome::Done),
            (Subject::Node, Some(id)) if id.is_of_node() => return self.apply_of_node(op, id),
            (Subject::Session(session), Some(id)) if !id.is_of_node() => session,
            _ => return Err(Refusal::Unsupported),
        };
        match op {
            FlowOp::Install(object) => match self.has(session, object.id()) {
                true => Err(Refusal::Exists),
                false => self.put(session, &object, now),
            },
            FlowOp::Update(object) => match self.has(session, object.id()) {
                true => self.put(session, &object, now),
                false => Err(Refusal::Missing),
            },
            FlowOp::Put(object) => self.put(session, &object, now),
            FlowOp::Remove(id) => self.take_away(session, id, now),
            FlowOp::Query(id) => self.query(session, id, now),
            FlowOp::Fence => Ok(Outcome::Done),
        }
    }

    fn apply_of_node(&mut self, op: FlowOp, id: ObjectId) -> Result<Outcome, Refusal> {
        let is_there = self.node.contains_key(&id);
        match op {
            FlowOp::Install(_) if is_there => Err(Refusal::Exists),
            FlowOp::Update(_) | FlowOp::Remove(_) | FlowOp::Query(_) if !is_there => Err(Refusal::Missing),
            FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => {
                let held = self.node.len() - usize::from(is_there);
                self.capabilities.allows_of_node(&object, held)?;
                self.tables.change_node(id, Some(&object))?;
                self.node.insert(id, object);
                Ok(Outcome::Done)
            }
            FlowOp::Remove(_) => {
                self.tables.change_node(id, None)?;
                self.node.remove(&id);
                Ok(Outcome::Done)
            }
            FlowOp::Query(ObjectId::SharedMeter(id)) => Ok(Outcome::Demand(self.tables.take_demand(id))),
            FlowOp::Query(_) | FlowOp::Fence => Ok(Outcome::Done),
        }
    }

    fn has(&self, index: SessionIndex, id: ObjectId) -> bool {
        let Some(session) = self.sessions.get(index) else {
            return false;
        };
        match id {
            ObjectId::Flow(key) => self.tables.owner(&key) == Some(index),
            ObjectId::Forward(slot) => session.has_forward(slot),
            ObjectId::Qer(slot) => session.has_qer(slot),
            ObjectId::Meter(qer, direction) => session.has_meter(qer, direction),
            ObjectId::Counter(slot) => session.has_counter(slot),
            ObjectId::Generation => session.generation.is_some(),
            ObjectId::Share => session.image.shared != SharedId::NONE,
            ObjectId::Queues(direction) => session.queues[direction as usize],
            ObjectId::Session | ObjectId::Flows | ObjectId::Contents => true,
            _ => false,
        }
    }

    /// Takes an object away, with what it has counted or holds.
    fn take_away(&mut self, session: SessionIndex, id: ObjectId, now: Nanos) -> Result<Outcome, Refusal> {
        let ends_counts = matches!(id, ObjectId::Counter(_) | ObjectId::Session);
        if ends_counts && self.has(session, id) {
            self.tables.empty_queues(session, now);
        }
        let outcome = match id {
            ObjectId::Queues(direction) if self.has(session, id) => {
                return Ok(Outcome::Tokens(self.remove_queues(session, direction, now)));
            }
            id => self.query(session, id, now)?,
        };
        self.remove(session, id, now)?;
        Ok(outcome)
    }

    fn put_queues(
        &mut self,
        index: SessionIndex,
        direction: Direction,
        queues: &Queues,
        tokens: Option<&QueueTokens>,
        now: Nanos,
    ) -> Result<(), Refusal> {
        let fit = tokens.is_none_or(|tokens| tokens.fit(queues));
        if !fit || !self.capabilities.can_queue(queues) {
            return Err(Refusal::Unsupported);
        }
        self.change(index, 1, 0, |_| ())?;
        self.tables.put_queues(index, direction, queues, tokens, now)?;
        self.present(index, |session| session.queues[direction as usize] = true);
        Ok(())
    }

    fn remove_queues(&mut self, index: SessionIndex, direction: Direction, now: Nanos) -> QueueTokens {
        self.present(index, |session| session.queues[direction as usize] = false);
        self.tables.remove_queues(index, direction, now)
    }

    /// Installs or updates.
    fn put(&mut self, session: SessionIndex, object: &Object, now: Nanos) -> Result<Outcome, Refusal> {
        let outcome = match object.id() {
            id @ ObjectId::Counter(_) if self.has(session, id) => {
                self.tables.empty_queues(session, now);
                self.query(session, id, now)?
            }
            _ => Outcome::Done,
        };
        match object {
            Object::Flow(flow) => self.put_flow(session, flow, now)?,
            Object::Forward { forward, .. } if !self.capabilities.can_mirror(forward) => {
                return Err(Refusal::Unsupported);
            }
            Object::Forward { slot, forward } => {
                self.change(session, BlockImage::MAX_FORWARDS, *slot, |image| {
                    at(&mut image.forwards, *slot, Forward::DROP, *forward);
                })?;
                self.present(session, |session| session.set_forward(*slot, true));
            }
            Object::Qer {
                slot,
                mark,
                closed,
                metered,
            } => {
                let lacks = |held: &Session| {
                    let lacks = |flow: &Flow| held.lacks_meter(*slot, *metered, flow);
                    self.tables.any_flow(session, &lacks)
                };
                if self.sessions.get(session).is_some_and(lacks) {
                    return Err(Refusal::Missing);
                }
                self.change(session, BlockImage::MAX_QERS, *slot, |image| {
                    at(&mut image.marks, *slot, Mark::NONE, *mark);
                    set(&mut image.closed_ul, *slot, closed[0]);
                    set(&mut image.closed_dl, *slot, closed[1]);
                })?;
                self.present(session, |session| session.set_qer(*slot, Some(*metered)));
            }
            Object::Meter {
                qer,
                direction,
                spec,
                state,
            } => {
                self.change(session, BlockImage::MAX_QERS, *qer, |image| {
                    let mut pair = image.meters.get(usize::from(*qer)).copied().unwrap_or_default();
                    pair[*direction as usize] = Some(*spec);
                    at(&mut image.meters, *qer, [None; 2], pair);
                })?;
                if let (Some(state), Some(session)) = (state, self.sessions.get(session)) {
                    let block = session.installed.block;
                    let blocks = self.tables.blocks_mut();
                    blocks.set_meter_state(block, *qer, *direction, *state);
                }
            }
            Object::Counter { slot, kind, bounds } => self.put_counter(session, *slot, *kind, *bounds)?,
            Object::Generation(generation) => {
                self.change(session, 1, 0, |_| ())?;
                self.begin_generation(session, Some(*generation), now);
            }
            Object::Share(id) => {
                if *id == SharedId::NONE || id.0 > self.capabilities.shared_meters {
                    return Err(Refusal::Unsupported);
                }
                self.change(session, 1, 0, |image| image.shared = *id)?;
            }
            Object::Queues {
                direction,
                queues,
                tokens,
            } => self.put_queues(session, *direction, queues, tokens.as_deref(), now)?,
            _ => return Err(Refusal::Unsupported),
        }
        Ok(outcome)
    }

    /// Removes the flows of a session, unless they are of this generation.
    fn begin_generation(&mut self, index: SessionIndex, generation: Option<u32>, now: Nanos) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let old = core::mem::replace(&mut session.generation, generation);
        if old.unwrap_or_default() != generation.unwrap_or_default() {
            self.tables.empty_queues(index, now);
            session.installed = self.tables.remove_all(index, session.installed, now);
        }
    }

    fn put_counter(
        &mut self,
        session: SessionIndex,
        slot: u8,
        kind: CounterKind,
        bounds: Bounds,
    ) -> Result<(), Refusal> {
        let mut counters = self.sessions.get(session).map(|session| session.counters.clone());
        let counters = counters.get_or_insert_default();
        if counters.get(&slot).is_some_and(|old| *old != kind) || !self.capabilities.can_count(kind) {
            return Err(Refusal::Unsupported);
        }
        if let Some(weight) = kind.weight {
            let of = counters.get(&weight.of).ok_or(Refusal::Missing)?;
            if of.before_qos || !kind.before_qos {
                return Err(Refusal::Unsupported);
            }
        }
        counters.insert(slot, kind);
        let first_before = counters
            .iter()
            .find(|(_, kind)| kind.before_qos)
            .map(|(slot, _)| *slot);
        let is_behind = |(slot, kind): (&u8, &CounterKind)| {
            kind.before_qos == first_before.is_some_and(|first| *slot >= first)
        };
        if !counters.iter().all(is_behind) {
            return Err(Refusal::Unsupported);
        }
        let carry = ReplaceMap::SAME.without_urr(slot);
        self.change_with(session, BlockImage::MAX_URRS, slot, &carry, |image| {
            image.urrs = image.urrs.max(slot + 1);
            image.before_qos = first_before.map_or(0, |first| image.urrs - first);
            set(&mut image.units, slot, kind.events);
            image.weights.retain(|weight| weight.slot != slot);
            let weight = kind.weight.map(|weight| Weight {
                slot,
                of: weight.of,
                times: weight.times,
            });
            image.weights.extend(weight);
            at(&mut image.bounds, slot, Bounds::NONE, bounds);
        })?;
        self.present(session, |session| session.set_counter(slot, Some(kind)));
        Ok(())
    }

    fn present<R>(&mut self, session: SessionIndex, change: impl FnOnce(&mut Session) -> R) {
        if let Some(session) = self.sessions.get_mut(session) {
            change(session);
        }
    }

    fn change(
        &mut self,
        session: SessionIndex,
        slots: usize,
        slot: u8,
        change: impl FnOnce(&mut BlockImage),
    ) -> Result<(), Refusal> {
        self.change_with(session, slots, slot, &ReplaceMap::SAME, change)
    }

    /// Changes the image of a session, and its block by it; a session that is new here gets one.
    fn change_with(
        &mut self,
        index: SessionIndex,
        slots: usize,
        slot: u8,
        carry: &ReplaceMap,
        change: impl FnOnce(&mut BlockImage),
    ) -> Result<(), Refusal> {
        if usize::from(slot) >= slots {
            return Err(Refusal::Unsupported);
        }
        let Some(session) = self.sessions.get_mut(index) else {
            return self.begin(index, change);
        };
        let mut image = session.image.clone();
        change(&mut image);
        let old = session.installed;
        let blocks = self.tables.blocks_mut();
        let replaced = blocks.replace(old.block, &image, carry, Flows::Keep);
        let installed = replaced.map_err(refusal)?;
        session.set_block(image, installed);
        if installed != old {
            self.tables.moved(index, old, installed);
        }
        Ok(())
    }

    fn begin(&mut self, index: SessionIndex, change: impl FnOnce(&mut BlockImage)) -> Result<(), Refusal> {
        // What is kept for each session by its number has no place for others.
        if index.0 >= self.capabilities.sessions {
            return Err(Refusal::Full);
        }
        let mut image = BlockImage::default();
        change(&mut image);
        let installed = self.tables.blocks_mut().install(index, &image).map_err(refusal)?;
        self.sessions.insert(index, Session::new(image, installed));
        Ok(())
    }

    fn put_flow(&mut self, index: SessionIndex, flow: &Flow, now: Nanos) -> Result<(), Refusal> {
        if !self.capabilities.can_hold(flow, Actions::NONE) {
            return Err(Refusal::Unsupported);
        }
        let session = self.sessions.get(index).ok_or(Refusal::Missing)?;
        if session.generation.unwrap_or_default() != flow.generation {
            return Err(Refusal::Stale);
        }
        if !session.has_all_of(flow) {
            return Err(Refusal::Missing);
        }
        let block = session.installed.block;
        // No counter of a content is taken for a flow that another session has.
        let is_taken = || self.tables.owner(&flow.key).is_some_and(|owner| owner != index);
        if flow.content.is_some() && is_taken() {
            return Err(Refusal::Exists);
        }
        let entry = entry_of(flow, index, block, self.tables.blocks_mut()).ok_or(Refusal::Full)?;
        self.tables.put(index, flow, &entry, now)
    }

    fn query(&mut self, index: SessionIndex, id: ObjectId, now: Nanos) -> Result<Outcome, Refusal> {
        if !self.has(index, id) {
            return Err(Refusal::Missing);
        }
        if id == ObjectId::Contents {
            return Ok(Outcome::Contents(
                self.tables.blocks_mut().take_contents(index, |_| true),
            ));
        }
        if let ObjectId::Queues(direction) = id {
            return Ok(Outcome::Tokens(self.tables.queue_tokens(index, direction, now)));
        }
        let session = self.sessions.get(index).ok_or(Refusal::Missing)?;
        let view = self
            .tables
            .blocks()
            .get(session.installed.block)
            .ok_or(Refusal::Missing)?;
        let count = |slot: u8| (slot, self.tables.left_of(index, slot, &view));
        Ok(match id {
            ObjectId::Counter(slot) => Outcome::Counts(vec![count(slot)]),
            ObjectId::Session => Outcome::Counts(session.counters.keys().map(|&slot| count(slot)).collect()),
            ObjectId::Meter(qer, direction) => {
                let meter = view.meter(qer, direction);
                Outcome::Meter(meter.map(|meter| meter.state()).unwrap_or_default())
            }
            _ => Outcome::Done,
        })
    }

    /// Removes what is there.
    fn remove(&mut self, index: SessionIndex, id: ObjectId, now: Nanos) -> Result<(), Refusal> {
        let session = self.sessions.get_mut(index).ok_or(Refusal::Missing)?;
        let may_be_named = matches!(
            id,
            ObjectId::Forward(_) | ObjectId::Qer(_) | ObjectId::Meter(..) | ObjectId::Counter(_)
        );
        let is_named = may_be_named && self.tables.any_flow(index, &|flow| names(flow, id));
        if is_named || session.weighs_for(id) {
            return Err(Refusal::InUse);
        }
        match id {
            ObjectId::Flow(key) => self.tables.remove(index, &key, now),
            ObjectId::Forward(slot) => {
                self.change(index, BlockImage::MAX_FORWARDS, slot, |image| {
                    at(&mut image.forwards, slot, Forward::DROP, Forward::DROP);
                })?;
                self.present(index, |session| session.set_forward(slot, false));
            }
            ObjectId::Qer(slot) => session.set_qer(slot, None),
            ObjectId::Meter(qer, direction) => self.change(index, BlockImage::MAX_QERS, qer, |image| {
                if let Some(pair) = image.meters.get_mut(usize::from(qer)) {
                    pair[direction as usize] = None;
                }
            })?,
            ObjectId::Counter(slot) => {
                session.set_counter(slot, None);
                session.reported.retain(|(reported, _)| *reported != slot);
            }
            ObjectId::Generation => self.begin_generation(index, None, now),
            ObjectId::Share => self.change(index, 1, 0, |image| image.shared = SharedId::NONE)?,
            ObjectId::Flows => {
                self.tables.empty_queues(index, now);
                session.installed = self.tables.remove_all(index, session.installed, now);
            }
            ObjectId::Session => {
                for direction in Direction::BOTH
                    .into_iter()
                    .filter(|way| session.queues[*way as usize])
                {
                    self.tables.remove_queues(index, direction, now);
                }
                let last = self.tables.remove_all(index, session.installed, now);
                self.tables.blocks_mut().remove(last.block);
                self.sessions.remove(index);
            }
            _ => {}
        }
        Ok(())
    }

    fn age(&mut self, now: Nanos) {
        // Those that are not fetched bound what is made of them.
        if self.notices.len() >= MOST_NOTICES {
            return;
        }
        let mut aged = core::mem::take(&mut self.aged);
        self.tables.age(now, &mut aged);
        for (key, session) in aged.drain(..) {
            self.notices.push_back(Notice::Event(Event::Aged {
                session,
                key,
                counts: Vec::new(),
            }));
        }
        self.aged = aged;
    }

    /// Reports the counters that have changed since they were reported last: of some sessions at a time, and of all
    /// within the interval, or in the [time](REPORT) that all of them take.
    fn report_counts(&mut self, every: Duration, now: Nanos) {
        let sessions = self.sessions.len();
        let each = (every / sessions.max(1) as u32).max(REPORT);
        // After a pause each of them has its turn once.
        let behind = now.since(self.counted_at).min(each * sessions as u32);
        let due = (behind.as_nanos() / each.as_nanos()).min(REPORTS_AT_ONCE.into()) as usize;
        if due == 0 {
            return;
        }
        self.counted_at = Nanos(now.0 - behind.as_nanos() as u64) + each * due as u32;
        for _ in 0..due {
            if let Some(session) = self.sessions.next_turn() {
                self.report_counts_of(session);
            }
        }
    }

    fn report_counts_of(&mut self, index: SessionIndex) {
        let Some(session) = self.sessions.get_mut(index) else {
            return;
        };
        let Some(view) = self.tables.blocks().get(session.installed.block) else {
            return;
        };
        let count = |slot: &u8| (*slot, self.tables.left_of(index, *slot, &view));
        let counts: Vec<(u8, UrrCount)> = session.counters.keys().map(count).collect();
        let is_new =
            |count: &&(u8, UrrCount)| count.1 != UrrCount::default() && !session.reported.contains(count);
        let changed: Vec<(u8, UrrCount)> = counts.iter().filter(is_new).copied().collect();
        session.reported = counts;
        if !changed.is_empty() {
            let event = Event::Counts {
                session: index,
                counts: changed,
            };
            self.notices.push_back(Notice::Event(event));
        }
    }

    /// Reports what counters of a session have reached, as its block says, and was not reported: for tables that say no
    /// more than that there is something. What a counter has reached by several packets since is reported once, but
    /// limits once for each direction of these packets.
    pub fn tell_reached(&mut self, session: SessionIndex) {
        let Some(of_session) = self.sessions.get_mut(session) else {
            return;
        };
        let Some(view) = self.tables.blocks().get(of_session.installed.block) else {
            return;
        };
        for counter in of_session.counters.keys().copied() {
            let raised = view.raised(counter);
            let told = of_session.told.insert(counter, raised).unwrap_or_default();
            if raised.watermarks & !told.watermarks != 0 {
                let event = Event::Watermark { session, counter };
                self.notices.push_back(Notice::Event(event));
            }
            for direction in Direction::BOTH {
                let way = direction as usize;
                if raised.limits[way] & !told.limits[way] != 0 {
                    self.notices.push_back(Notice::Event(Event::Limit {
                        session,
                        counter,
                        direction,
                    }));
                }
            }
        }
    }

    /// Reports what a packet has done to the counters of a session.
    pub fn tell(&mut self, session: SessionIndex, direction: Direction, counted: Counted) {
        for counter in 0..64 {
            if counted.watermarks >> counter & 1 == 1 {
                self.notices
                    .push_back(Notice::Event(Event::Watermark { session, counter }));
            }
            if counted.limits >> counter & 1 == 1 {
                self.notices.push_back(Notice::Event(Event::Limit {
                    session,
                    counter,
                    direction,
                }));
            }
        }
    }
}

impl<T: BackendTables> Backend for TableBackend<T> {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn submit(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        self.now = now;
        if let Some(request) = self.requests.pop_front() {
            let id = request.id;
            let outcome = self.apply(request, now);
            self.notices.push_back(Notice::Reply(Reply { id, outcome }));
        }
        self.age(now);
        if let Some(every) = self.counts_every {
            self.report_counts(every, now);
        }
        self.notices.pop_front()
    }

    fn reset(&mut self) {
        self.tables.lose_queues(self.now);
        while let Some(session) = self.sessions.any() {
            // A session that is there can be removed.
            let _ = self.remove(session, ObjectId::Session, self.now);
        }
        let lost: Vec<ObjectId> = self.node.drain().map(|(id, _)| id).collect();
        for id in lost {
            // What is there can be removed.
            let _ = self.tables.change_node(id, None);
        }
        self.epoch.0 = self.epoch.0.wrapping_add(1);
        let reset = Event::BackendReset { epoch: self.epoch };
        self.notices.push_back(Notice::Event(reset));
    }
}

impl<T> fmt::Debug for TableBackend<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableBackend")
            .field("epoch", &self.epoch)
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

/// The object that an operation is about.
fn id_of(op: &FlowOp) -> Option<ObjectId> {
    match op {
        FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => Some(object.id()),
        FlowOp::Remove(id) | FlowOp::Query(id) => Some(*id),
        FlowOp::Fence => None,
    }
}
