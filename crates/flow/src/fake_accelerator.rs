//! A deliberately slow accelerator that keeps the FlowOp contract and promises nothing beyond it.
//!
//! Requests lie about, those of different sessions overtake each other, replies and events come late and mixed. It
//! does little, and says so. Inside it is as plain as can be: maps, standalone meters, and bounds compared for every
//! packet; so it is also a second opinion on the local backend.

mod counter;
mod waiting;

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};

use self::counter::Counter;
use self::waiting::{Packet, Waiting, without};
use crate::contract::{
    Actions, AnyKey, Backend, ByteBasis, Capabilities, CounterKind, Departed, Epoch, Event, Exactness, Fate,
    Flow, FlowOp, InstanceUses, Managements, Notice, Object, ObjectId, Outcome, PacketPath, QueueRoom,
    Refusal, Reply, Request, Subject, Why,
};
use crate::meter::{Colour, Meter, Offer};
use crate::{
    AdjacencyId, Direction, FlowFlags, Forward, KeyFields, Mark, Nanos, SessionIndex, Tick, UrrCount,
};

/// The accelerator.
#[derive(Debug)]
pub struct FakeAccelerator {
    epoch: Epoch,
    random: u64,
    /// In stages: those of a stage may overtake each other, if they are of different sessions. A request of the node is
    /// a stage by itself.
    requests: VecDeque<Stage>,
    notices: Vec<Notice>,
    sessions: BTreeMap<SessionIndex, Session>,
    flows: Vec<Held>,
    node: HashMap<ObjectId, Object>,
    waiting: Waiting,
    reported: Nanos,
}

/// Requests between two of the node.
type Stage = BTreeMap<Subject, VecDeque<Request>>;

#[derive(Debug, Default)]
struct Session {
    forwards: BTreeMap<u8, Forward>,
    qers: BTreeMap<u8, Qer>,
    meters: BTreeMap<(u8, Direction), Meter>,
    counters: BTreeMap<u8, Counter>,
    generation: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Qer {
    mark: Mark,
    closed: [bool; 2],
    metered: [bool; 2],
}

#[derive(Debug)]
struct Held {
    session: SessionIndex,
    flow: Flow,
    used: Nanos,
}

impl FakeAccelerator {
    /// What it can do: IPv4, two kinds of key, no mirrors, and not many objects for a flow.
    pub const CAPABILITIES: Capabilities = Capabilities {
        key_fields: KeyFields::from_bits(KeyFields::ADDRESS.bits() | KeyFields::TUPLE.bits()),
        actions: Actions::from_bits(0x7f | Actions::NAT.bits()),
        ipv4_flows: 64,
        ipv6_flows: 0,
        sessions: 16,
        counters_per_flow: 3,
        qers_per_flow: 3,
        shared_meters: 0,
        instances: 4,
        routes: 16,
        adjacencies: 1000,
        byte_basis: ByteBasis::InnerIp,
        limits: true,
        fence: true,
        exactness: Exactness::Exact,
        counts_every: Some(Duration::from_micros(500)),
        queues: Some(Self::QUEUES),
    };

    const QUEUES: QueueRoom = QueueRoom {
        queues: 16,
        nodes: 8,
        packets: 256,
        octets: 1 << 20,
        managements: Managements::NONE,
    };

    /// An accelerator whose whims follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            epoch: Epoch(7),
            random: seed | 1,
            requests: VecDeque::new(),
            notices: Vec::new(),
            sessions: BTreeMap::new(),
            flows: Vec::new(),
            node: HashMap::new(),
            waiting: Waiting::default(),
            reported: Nanos::ZERO,
        }
    }

    /// A number below `bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % bound.max(1)
    }

    fn event(&mut self, event: Event) {
        self.notices.push(Notice::Event(event));
    }

    /// Carries out the oldest request of any session of the first stage.
    fn work(&mut self, now: Nanos) {
        let chosen = self.below(self.requests.front().map_or(0, BTreeMap::len));
        let Some(stage) = self.requests.front_mut() else {
            return;
        };
        let request = stage.values_mut().nth(chosen).and_then(VecDeque::pop_front);
        stage.retain(|_, queue| !queue.is_empty());
        if stage.is_empty() {
            self.requests.pop_front();
        }
        if let Some(request) = request {
            let id = request.id;
            let outcome = self.apply(request, now);
            self.notices.push(Notice::Reply(Reply { id, outcome }));
        }
    }

    fn apply(&mut self, request: Request, now: Nanos) -> Result<Outcome, Refusal> {
        if request.epoch != self.epoch {
            return Err(Refusal::OtherEpoch);
        }
        let index = match (request.subject, &request.op) {
            (_, FlowOp::Fence) => return Ok(Outcome::Done),
            (Subject::Node, _) => return self.apply_of_node(request.op),
            (Subject::Session(index), _) => index,
        };
        match request.op {
            FlowOp::Install(object) if self.has(index, object.id()) => Err(Refusal::Exists),
            FlowOp::Update(object) if !self.has(index, object.id()) => Err(Refusal::Missing),
            FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => {
                self.put(index, object, now)
            }
            FlowOp::Remove(id) => {
                if self.has(index, id) && self.flows_of(index).any(|flow| needs(flow, id)) {
                    return Err(Refusal::InUse);
                }
                match id {
                    ObjectId::Queues(way) => self.waiting.empty((index, way), now),
                    ObjectId::Counter(_) | ObjectId::Session | ObjectId::Flows | ObjectId::Generation => {
                        self.empty(index, now);
                    }
                    _ => {}
                }
                let outcome = self.query(index, id, now)?;
                self.remove(index, id, now);
                Ok(outcome)
            }
            FlowOp::Query(id) => self.query(index, id, now),
            FlowOp::Fence => Ok(Outcome::Done),
        }
    }

    fn apply_of_node(&mut self, op: FlowOp) -> Result<Outcome, Refusal> {
        let id = match &op {
            FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object) => object.id(),
            FlowOp::Remove(id) | FlowOp::Query(id) => *id,
            FlowOp::Fence => return Ok(Outcome::Done),
        };
        if !id.is_of_node() {
            return Err(Refusal::Unsupported);
        }
        match (op, self.node.contains_key(&id)) {
            (FlowOp::Install(_), true) => Err(Refusal::Exists),
            (FlowOp::Update(_) | FlowOp::Remove(_) | FlowOp::Query(_), false) => Err(Refusal::Missing),
            (FlowOp::Install(object) | FlowOp::Update(object) | FlowOp::Put(object), is_there) => {
                let held = self.node.len() - usize::from(is_there);
                Self::CAPABILITIES.allows_of_node(&object, held)?;
                match &object {
                    Object::QueueClass { id, class } => self.waiting.put_class(*id, *class)?,
                    Object::SharedNode { id, node } => self.waiting.put_node(*id, *node)?,
                    _ => {}
                }
                self.node.insert(id, object);
                Ok(Outcome::Done)
            }
            (FlowOp::Remove(_), true) => {
                match id {
                    ObjectId::QueueClass(id) => self.waiting.remove_class(id)?,
                    ObjectId::SharedNode(id) => self.waiting.remove_node(id)?,
                    _ => {}
                }
                self.node.remove(&id);
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    }

    fn flows_of(&self, index: SessionIndex) -> impl Iterator<Item = &Flow> {
        let mine = move |held: &&Held| held.session == index;
        self.flows.iter().filter(mine).map(|held| &held.flow)
    }

    fn has(&self, index: SessionIndex, id: ObjectId) -> bool {
        let Some(session) = self.sessions.get(&index) else {
            return false;
        };
        match id {
            ObjectId::Flow(key) => self.flows_of(index).any(|flow| flow.key == key),
            ObjectId::Forward(slot) => session.forwards.contains_key(&slot),
            ObjectId::Qer(slot) => session.qers.contains_key(&slot),
            ObjectId::Meter(qer, direction) => session.meters.contains_key(&(qer, direction)),
            ObjectId::Counter(slot) => session.counters.contains_key(&slot),
            ObjectId::Generation => session.generation.is_some(),
            ObjectId::Queues(way) => self.waiting.has(index, way),
            ObjectId::Session | ObjectId::Flows | ObjectId::Contents => true,
            _ => false,
        }
    }

    fn put(&mut self, index: SessionIndex, object: Object, now: Nanos) -> Result<Outcome, Refusal> {
        if let Object::Flow(flow) = object {
            return self.put_flow(index, flow, now);
        }
        if let Object::Queues { .. } = object {
            return self.put_queues(index, object, now);
        }
        if self.begins_anew(index, &object) {
            self.empty(index, now);
        }
        let outcome = match object {
            Object::Counter { kind, .. } if kind != CounterKind::default() => {
                return Err(Refusal::Unsupported);
            }
            Object::Counter { slot, .. } => self.query(index, ObjectId::Counter(slot), now),
            Object::Forward { forward, .. } if !Self::CAPABILITIES.can_mirror(&forward) => {
                return Err(Refusal::Unsupported);
            }
            Object::Qer { slot, metered, .. } if self.lacks_meter(index, slot, metered) => {
                return Err(Refusal::Missing);
            }
            Object::Share(_) => return Err(Refusal::Unsupported),
            _ if object.id().is_of_node() => return Err(Refusal::Unsupported),
            _ => Ok(Outcome::Done),
        };
        let session = self.sessions.entry(index).or_default();
        match object {
            Object::Flow(_) | Object::Queues { .. } => {}
            Object::Generation(generation) => {
                let old = session.generation.replace(generation);
                if old.unwrap_or_default() != generation {
                    self.flows.retain(|held| held.session != index);
                }
            }
            Object::Forward { slot, forward } => {
                session.forwards.insert(slot, forward);
            }
            Object::Qer {
                slot,
                mark,
                closed,
                metered,
            } => {
                let qer = Qer {
                    mark,
                    closed,
                    metered,
                };
                session.qers.insert(slot, qer);
            }
            Object::Meter {
                qer,
                direction,
                spec,
                state,
            } => {
                let mut meter = Meter::new(spec);
                let old = session.meters.get(&(qer, direction));
                old.into_iter().for_each(|old| meter.go_on(old));
                state.into_iter().for_each(|state| meter.set_state(state));
                session.meters.insert((qer, direction), meter);
            }
            Object::Counter { slot, bounds, .. } => {
                let counter = Counter {
                    bounds,
                    count: UrrCount::default(),
                    told: [false; 3],
                    reached: [false; 3],
                    is_new: false,
                };
                session.counters.insert(slot, counter);
            }
            _ => {}
        }
        // A counter that was not there has no final counts.
        Ok(outcome.unwrap_or(Outcome::Done))
    }

    fn lacks_meter(&self, index: SessionIndex, slot: u8, metered: [bool; 2]) -> bool {
        let lacks = |way: Direction| metered[way as usize] && !self.has(index, ObjectId::Meter(slot, way));
        self.flows_of(index)
            .any(|flow| needs(flow, ObjectId::Qer(slot)) && lacks(way(flow)))
    }

    fn put_flow(&mut self, index: SessionIndex, flow: Flow, now: Nanos) -> Result<Outcome, Refusal> {
        if !Self::CAPABILITIES.can_hold(&flow, Actions::NONE) {
            return Err(Refusal::Unsupported);
        }
        let qers = bits(flow.qers).chain(flow.marking);
        let is_metered = |slot| match self
            .sessions
            .get(&index)
            .and_then(|session| session.qers.get(&slot))
        {
            Some(qer) => {
                !qer.metered[way(&flow) as usize] || self.has(index, ObjectId::Meter(slot, way(&flow)))
            }
            None => false,
        };
        let is_whole = self.has(index, ObjectId::Forward(flow.forward))
            && qers.into_iter().all(is_metered)
            && bits(flow.urrs).all(|slot| self.has(index, ObjectId::Counter(slot)));
        let generation = self.sessions.get(&index).and_then(|session| session.generation);
        if self.sessions.contains_key(&index) && generation.unwrap_or_default() != flow.generation {
            return Err(Refusal::Stale);
        }
        if !is_whole {
            return Err(Refusal::Missing);
        }
        let is_full = self.flows.len() == Self::CAPABILITIES.ipv4_flows as usize;
        let held = self.flows.iter_mut().find(|held| held.flow.key == flow.key);
        match held {
            Some(held) if held.session == index => held.flow = flow,
            Some(_) => return Err(Refusal::Exists),
            None if is_full => return Err(Refusal::Full),
            None => self.flows.push(Held {
                session: index,
                flow,
                used: now,
            }),
        }
        Ok(Outcome::Done)
    }

    fn put_queues(&mut self, index: SessionIndex, object: Object, now: Nanos) -> Result<Outcome, Refusal> {
        let Object::Queues {
            direction,
            queues,
            tokens,
        } = object
        else {
            return Err(Refusal::Unsupported);
        };
        let fit = tokens.as_ref().is_none_or(|tokens| tokens.fit(&queues));
        if !fit || !Self::CAPABILITIES.can_queue(&queues) {
            return Err(Refusal::Unsupported);
        }
        let (owner, most) = ((index, direction), Self::QUEUES.queues);
        self.waiting.put(owner, &queues, tokens.as_deref(), most, now)?;
        self.sessions.entry(index).or_default();
        Ok(Outcome::Done)
    }

    /// Whether what waits has to leave before a session has this object.
    fn begins_anew(&self, index: SessionIndex, object: &Object) -> bool {
        let generation = |session: &Session| session.generation.unwrap_or_default();
        match object {
            Object::Counter { .. } => true,
            Object::Generation(new) => self.sessions.get(&index).map_or(0, generation) != *new,
            _ => false,
        }
    }

    /// All that waits of a session leaves at once.
    fn empty(&mut self, index: SessionIndex, now: Nanos) {
        for way in Direction::BOTH {
            self.waiting.empty((index, way), now);
        }
    }

    fn query(&self, index: SessionIndex, id: ObjectId, now: Nanos) -> Result<Outcome, Refusal> {
        if !self.has(index, id) {
            return Err(Refusal::Missing);
        }
        let session = self.sessions.get(&index).ok_or(Refusal::Missing)?;
        let counts = |wanted: Option<u8>| {
            let counters = session.counters.iter();
            let counters = counters.filter(|(slot, _)| wanted.is_none_or(|wanted| wanted == **slot));
            let left = |(slot, counter): (&u8, &Counter)| {
                let waiting = self.waiting.waiting(index, *slot);
                (*slot, without(&counter.count, &waiting))
            };
            Outcome::Counts(counters.map(left).collect())
        };
        Ok(match id {
            ObjectId::Counter(slot) => counts(Some(slot)),
            ObjectId::Session => counts(None),
            ObjectId::Contents => Outcome::Contents(Vec::new()),
            ObjectId::Queues(way) => Outcome::Tokens(self.waiting.tokens((index, way), now)),
            ObjectId::Meter(qer, direction) => Outcome::Meter(
                session
                    .meters
                    .get(&(qer, direction))
                    .map(Meter::state)
                    .unwrap_or_default(),
            ),
            _ => Outcome::Done,
        })
    }

    fn remove(&mut self, index: SessionIndex, id: ObjectId, now: Nanos) {
        match id {
            ObjectId::Queues(way) => drop(self.waiting.remove((index, way), now)),
            ObjectId::Flow(key) => self.flows.retain(|held| held.flow.key != key),
            ObjectId::Flows => self.flows.retain(|held| held.session != index),
            ObjectId::Session => {
                for way in Direction::BOTH {
                    self.waiting.remove((index, way), now);
                }
                self.flows.retain(|held| held.session != index);
                self.sessions.remove(&index);
            }
            _ => {
                let session = self.sessions.entry(index).or_default();
                match id {
                    ObjectId::Forward(slot) => {
                        session.forwards.remove(&slot);
                    }
                    ObjectId::Qer(slot) => {
                        session.qers.remove(&slot);
                    }
                    ObjectId::Meter(qer, way) => {
                        session.meters.remove(&(qer, way));
                    }
                    ObjectId::Counter(slot) => {
                        session.counters.remove(&slot);
                    }
                    ObjectId::Generation => {
                        let stays = session.generation.take().unwrap_or_default() == 0;
                        self.flows.retain(|held| stays || held.session != index);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Reports what has counted since it was reported.
    fn report_counts(&mut self, now: Nanos) {
        let every = Self::CAPABILITIES.counts_every.unwrap_or(Duration::MAX);
        if now.since(self.reported) < every {
            return;
        }
        self.reported = now;
        for session in self.waiting.take_counted() {
            let counters = self
                .sessions
                .get_mut(&session)
                .map(|held| held.counters.values_mut());
            counters
                .into_iter()
                .flatten()
                .for_each(|counter| counter.is_new = true);
        }
        for (&session, held) in &mut self.sessions {
            let new = held.counters.iter_mut().filter(|(_, counter)| counter.is_new);
            let counts: Vec<_> = new
                .map(|(slot, counter)| {
                    counter.is_new = false;
                    let waiting = self.waiting.waiting(session, *slot);
                    (*slot, without(&counter.count, &waiting))
                })
                .collect();
            if !counts.is_empty() {
                self.notices
                    .push(Notice::Event(Event::Counts { session, counts }));
            }
        }
    }

    fn leads_on(&self, id: AdjacencyId) -> bool {
        let adjacency = self.node.get(&ObjectId::Adjacency(id));
        let is_resolved = |object: &Object| matches!(object, Object::Adjacency { adjacency, .. } if adjacency.mac.is_some());
        id == AdjacencyId::BY_DESTINATION || adjacency.is_some_and(is_resolved)
    }

    fn age(&mut self, now: Nanos) {
        let idles = |held: &Held| now.since(held.used) > Tick::LENGTH * u32::from(held.flow.idle);
        if let Some(place) = self.flows.iter().position(idles) {
            let held = self.flows.swap_remove(place);
            self.event(Event::Aged {
                session: held.session,
                key: held.flow.key,
                counts: Vec::new(),
            });
        }
    }
}

impl Session {
    fn pass(&mut self, flow: &Flow, leads_on: bool, offer: &Offer) -> (Fate, Vec<(u8, bool)>) {
        let nothing = Vec::new();
        let at = way(flow) as usize;
        let forward = self.forwards.get(&flow.forward).copied().unwrap_or(Forward::DROP);
        if bits(flow.qers).any(|slot| self.qers.get(&slot).is_some_and(|qer| qer.closed[at])) {
            return (Fate::Dropped(Why::Gate), nothing);
        }
        let mine = |(slot, _): &(&u8, &mut Counter)| flow.urrs >> **slot & 1 == 1;
        let mut counters: Vec<(&u8, &mut Counter)> = self.counters.iter_mut().filter(mine).collect();
        let stopped = counters
            .iter()
            .filter(|(_, counter)| counter.has_stopped(way(flow)));
        if let Some(action) = stopped.map(|(_, counter)| counter.action()).max() {
            return (Fate::of_limit(action), nothing);
        }
        if let Some(fate) = Fate::of_action(forward.kind) {
            return (fate, nothing);
        }
        if !leads_on {
            return (Fate::Trapped(Why::Adjacency), nothing);
        }
        let Some(colour) = charge(&mut self.meters, flow, offer) else {
            return (Fate::Dropped(Why::Meter), nothing);
        };
        let octets = u64::from(offer.octets);
        let mut full = Vec::new();
        let mut action = None;
        for (slot, counter) in &mut counters {
            if counter.would_exceed(way(flow), octets) {
                action = action.max(Some(counter.action()));
                full.push((**slot, false));
            }
        }
        if let Some(action) = action {
            return (Fate::of_limit(action), full);
        }
        let told = counters
            .iter_mut()
            .flat_map(|(slot, counter)| {
                counter
                    .add(way(flow), octets)
                    .map(|is_watermark| (**slot, is_watermark))
            })
            .collect();
        let marking = flow.marking.and_then(|slot| self.qers.get(&slot));
        let mark = marking.map_or(Mark::NONE, |qer| qer.mark);
        (
            Fate::Passed {
                forward,
                mark,
                colour,
                nat: flow.nat,
            },
            told,
        )
    }
}

/// Asks copies of all meters of a flow, and keeps them if none says red; else only time advances.
fn charge(meters: &mut BTreeMap<(u8, Direction), Meter>, flow: &Flow, offer: &Offer) -> Option<Colour> {
    let ask = |meters: &mut BTreeMap<_, Meter>, offer| {
        let mine = meters
            .iter_mut()
            .filter(|((slot, of), _)| *of == way(flow) && flow.qers >> slot & 1 == 1);
        mine.map(|(_, meter)| meter.offer(offer))
            .max()
            .unwrap_or_default()
    };
    let mut charged = meters.clone();
    let worst = ask(&mut charged, offer);
    if worst == Colour::Red {
        ask(meters, &Offer { octets: 0, ..*offer });
        return None;
    }
    *meters = charged;
    Some(worst)
}

impl Backend for FakeAccelerator {
    fn capabilities(&self) -> Capabilities {
        Self::CAPABILITIES
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn submit(&mut self, request: Request) {
        let is_of_node = |stage: &Stage| stage.contains_key(&Subject::Node);
        let is_new = request.subject == Subject::Node || self.requests.back().is_none_or(is_of_node);
        if is_new {
            self.requests.push_back(Stage::new());
        }
        if let Some(stage) = self.requests.back_mut() {
            stage.entry(request.subject).or_default().push_back(request);
        }
    }

    fn poll(&mut self, now: Nanos) -> Option<Notice> {
        match self.below(4) {
            0 => self.work(now),
            1 => {
                self.age(now);
                self.report_counts(now);
            }
            2 if !self.notices.is_empty() => {
                let chosen = self.below(self.notices.len());
                return Some(self.notices.swap_remove(chosen));
            }
            _ => {}
        }
        None
    }

    fn reset(&mut self) {
        self.sessions.clear();
        self.flows.clear();
        self.node.clear();
        self.waiting = Waiting::default();
        self.epoch.0 += 1;
        let epoch = self.epoch;
        self.event(Event::BackendReset { epoch });
    }
}

impl PacketPath for FakeAccelerator {
    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        let Some(held) = self.flows.iter_mut().find(|held| held.flow.key == *key) else {
            self.event(Event::Miss { key: *key });
            return Fate::Missed;
        };
        held.used = now;
        let (index, flow) = (held.session, held.flow);
        let forward = self
            .sessions
            .get(&index)
            .and_then(|session| session.forwards.get(&flow.forward));
        let leads_on = forward.is_none_or(|forward| self.leads_on(forward.adjacency));
        let session = self.sessions.entry(index).or_default();
        let (fate, told) = session.pass(&flow, leads_on, &Offer::new(octets, now));
        for (counter, is_watermark) in told {
            let session = index;
            self.event(if is_watermark {
                Event::Watermark { session, counter }
            } else {
                Event::Limit {
                    session,
                    counter,
                    direction: way(&flow),
                }
            });
        }
        match fate {
            Fate::Passed { .. } => self.queue(index, &flow, octets, now).unwrap_or(fate),
            fate => fate,
        }
    }

    fn departed(&mut self, now: Nanos) -> Vec<Departed> {
        self.waiting.take_left(now)
    }
}

impl FakeAccelerator {
    /// A packet that has passed waits, if its session has queues and the instance that it leaves by says so.
    fn queue(&mut self, index: SessionIndex, flow: &Flow, octets: u32, now: Nanos) -> Option<Fate> {
        let session = self.sessions.get_mut(&index)?;
        let egress = session.forwards.get(&flow.forward)?.egress;
        let by_it = self.node.get(&ObjectId::Instance(egress));
        let says_so = matches!(by_it, Some(Object::Instance { instance, .. }) if instance.uses.contains(InstanceUses::QUEUES));
        let owner = (index, way(flow));
        if !says_so || !self.waiting.has(index, owner.1) {
            return None;
        }
        let packet = Packet {
            octets,
            urrs: flow.urrs,
        };
        let slots = (flow.marking, flow.qers);
        if self.waiting.push(owner, slots, packet, Self::QUEUES.packets, now) {
            return Some(Fate::Queued);
        }
        let mine = |(slot, _): &(&u8, &mut Counter)| flow.urrs >> **slot & 1 == 1;
        for (_, counter) in session.counters.iter_mut().filter(mine) {
            let count = &mut counter.count;
            let (packets, sum) = match owner.1 {
                Direction::Uplink => (&mut count.ul_packets, &mut count.ul_octets),
                Direction::Downlink => (&mut count.dl_packets, &mut count.dl_octets),
            };
            (*packets, *sum) = (*packets - 1, *sum - u64::from(octets));
        }
        Some(Fate::Dropped(Why::Queue))
    }
}

fn way(flow: &Flow) -> Direction {
    Direction::BOTH[usize::from(flow.flags.contains(FlowFlags::DOWNLINK))]
}

/// Whether a flow names an object.
fn needs(flow: &Flow, id: ObjectId) -> bool {
    match id {
        ObjectId::Forward(slot) => flow.forward == slot,
        ObjectId::Qer(slot) => bits(flow.qers).chain(flow.marking).any(|qer| qer == slot),
        ObjectId::Meter(slot, of) => way(flow) == of && bits(flow.qers).any(|qer| qer == slot),
        ObjectId::Counter(slot) => bits(flow.urrs).any(|urr| urr == slot),
        _ => false,
    }
}

fn bits(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |slot| mask >> slot & 1 == 1)
}
