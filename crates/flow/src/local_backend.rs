//! The local backend of the FlowOp contract: [`FlowTable`] and [`Blocks`] behind [`Backend`].
//!
//! It shows that what a worker calls directly keeps the contract, and takes the place of another backend. Workers do
//! not go through it: they hold their tables themselves.

use core::fmt;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use crate::contract::{
    Actions, AnyKey, Backend, Capabilities, Epoch, Event, Fate, Flow, FlowOp, Notice, Object, ObjectId,
    Outcome, Refusal, Reply, Request, Why,
};
use crate::meter::{Offer, SharedMeters};
use crate::slab::OutOfMemory;
use crate::{
    BlockError, BlockImage, BlockRef, Blocks, Bounds, Counted, Direction, Extension, ExtensionId, Extensions,
    FlowEntry, FlowKey, FlowKey4, FlowKey6, FlowTable, Flows, Forward, Installed, LiveBlock, Mark,
    Millisecond, Nanos, Nat, ReplaceMap, Seed, SessionIndex, Tick, Verdict,
};

/// Misses that are reported before they are fetched.
const MISSES: usize = 1024;
/// Buckets that the aging hands pass in a `poll`.
const AGED_AT_ONCE: usize = 64;

/// The backend. It owns its tables, and carries out one request per `poll`.
pub struct LocalBackend {
    capabilities: Capabilities,
    epoch: Epoch,
    v4: FlowTable<FlowKey4>,
    v6: FlowTable<FlowKey6>,
    lines: Extensions,
    blocks: Blocks,
    shared: SharedMeters,
    sessions: BTreeMap<SessionIndex, Session>,
    requests: VecDeque<Request>,
    notices: VecDeque<Notice>,
}

/// A session that has at least one object here.
struct Session {
    image: BlockImage,
    installed: Installed,
    forwards: BTreeSet<u8>,
    /// With the directions that have meters.
    qers: BTreeMap<u8, [bool; 2]>,
    counters: BTreeSet<u8>,
    flows: HashMap<AnyKey, Flow>,
}

impl LocalBackend {
    /// A backend without state, in its first epoch.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had.
    pub fn new(ipv4_flows: u32, ipv6_flows: u32, sessions: u32, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            capabilities: Capabilities::local(ipv4_flows, ipv6_flows, sessions),
            epoch: Epoch(1),
            v4: FlowTable::new(ipv4_flows as usize, seed)?,
            v6: FlowTable::new(ipv6_flows as usize, seed)?,
            lines: Extensions::new(ipv4_flows as usize)?,
            blocks: Blocks::new(sessions as usize, Blocks::TYPICAL_LINES)?,
            shared: SharedMeters::new(0),
            sessions: BTreeMap::new(),
            requests: VecDeque::new(),
            notices: VecDeque::new(),
        })
    }

    fn apply(&mut self, request: Request, now: Nanos) -> Result<Outcome, Refusal> {
        let Request {
            epoch, session, op, ..
        } = request;
        if epoch != self.epoch {
            return Err(Refusal::OtherEpoch);
        }
        match op {
            FlowOp::Install(object) => match self.has(session, object.id()) {
                true => Err(Refusal::Exists),
                false => self.put(session, &object, now),
            },
            FlowOp::Update(object) => match self.has(session, object.id()) {
                true => self.put(session, &object, now),
                false => Err(Refusal::Missing),
            },
            FlowOp::Remove(id) => {
                let outcome = self.query(session, id)?;
                self.remove(session, id)?;
                Ok(outcome)
            }
            FlowOp::Query(id) => self.query(session, id),
            FlowOp::Fence => Ok(Outcome::Done),
        }
    }

    fn has(&self, session: SessionIndex, id: ObjectId) -> bool {
        let Some(session) = self.sessions.get(&session) else {
            return false;
        };
        match id {
            ObjectId::Flow(key) => session.flows.contains_key(&key),
            ObjectId::Forward(slot) => session.forwards.contains(&slot),
            ObjectId::Qer(slot) => session.qers.contains_key(&slot),
            ObjectId::Meter(qer, direction) => session.meter(qer, direction),
            ObjectId::Counter(slot) => session.counters.contains(&slot),
            ObjectId::Session => true,
        }
    }

    /// Installs or updates.
    fn put(&mut self, session: SessionIndex, object: &Object, now: Nanos) -> Result<Outcome, Refusal> {
        let outcome = match object.id() {
            id @ ObjectId::Counter(_) if self.has(session, id) => self.query(session, id)?,
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
                self.present(session, |session| session.forwards.insert(*slot));
            }
            Object::Qer {
                slot,
                mark,
                closed,
                metered,
            } => {
                if self.lacks_meter(session, *slot, *metered) {
                    return Err(Refusal::Missing);
                }
                self.change(session, BlockImage::MAX_QERS, *slot, |image| {
                    at(&mut image.marks, *slot, Mark::NONE, *mark);
                    set(&mut image.closed_ul, *slot, closed[0]);
                    set(&mut image.closed_dl, *slot, closed[1]);
                })?;
                self.present(session, |session| session.qers.insert(*slot, *metered));
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
                if let (Some(state), Some(session)) = (state, self.sessions.get(&session)) {
                    self.blocks
                        .set_meter_state(session.installed.block, *qer, *direction, *state);
                }
            }
            Object::Counter { slot, bounds } => self.put_counter(session, *slot, *bounds)?,
        }
        Ok(outcome)
    }

    /// Whether a flow would pass a QER without one of its meters.
    fn lacks_meter(&self, session: SessionIndex, slot: u8, metered: [bool; 2]) -> bool {
        self.sessions.get(&session).is_some_and(|session| {
            let lacks = |way: Direction| metered[way as usize] && !session.meter(slot, way);
            let mut flows = session.flows.values();
            flows.any(|flow| names(flow, ObjectId::Qer(slot)) && lacks(direction(flow)))
        })
    }

    fn put_counter(&mut self, session: SessionIndex, slot: u8, bounds: Bounds) -> Result<(), Refusal> {
        let carry = ReplaceMap::SAME.without_urr(slot);
        self.change_with(session, BlockImage::MAX_URRS, slot, &carry, |image| {
            image.urrs = image.urrs.max(slot + 1);
            at(&mut image.bounds, slot, Bounds::NONE, bounds);
        })?;
        self.present(session, |session| session.counters.insert(slot));
        Ok(())
    }

    fn present<R>(&mut self, session: SessionIndex, change: impl FnOnce(&mut Session) -> R) {
        if let Some(session) = self.sessions.get_mut(&session) {
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
        let Some(session) = self.sessions.get_mut(&index) else {
            return self.begin(index, change);
        };
        let mut image = session.image.clone();
        change(&mut image);
        let old = session.installed;
        let replaced = self.blocks.replace(old.block, &image, carry, Flows::Keep);
        session.installed = replaced.map_err(refusal)?;
        session.image = image;
        if session.installed != old {
            let flows: Vec<Flow> = session.flows.values().copied().collect();
            let block = session.installed.block;
            flows.iter().for_each(|flow| self.point(flow, block));
        }
        Ok(())
    }

    fn begin(&mut self, index: SessionIndex, change: impl FnOnce(&mut BlockImage)) -> Result<(), Refusal> {
        let mut image = BlockImage::default();
        change(&mut image);
        let installed = self.blocks.install(index, &image).map_err(refusal)?;
        let session = Session {
            image,
            installed,
            forwards: BTreeSet::new(),
            qers: BTreeMap::new(),
            counters: BTreeSet::new(),
            flows: HashMap::new(),
        };
        self.sessions.insert(index, session);
        Ok(())
    }

    fn put_flow(&mut self, index: SessionIndex, flow: &Flow, now: Nanos) -> Result<(), Refusal> {
        if !self.capabilities.can_hold(flow, Actions::NONE) {
            return Err(Refusal::Unsupported);
        }
        let session = self.sessions.get(&index).ok_or(Refusal::Missing)?;
        if !session.has_all_of(flow) {
            return Err(Refusal::Missing);
        }
        if self.owner(&flow.key).is_some_and(|owner| owner != index) {
            return Err(Refusal::Exists);
        }
        let view = self.blocks.get(session.installed.block).ok_or(Refusal::Missing)?;
        let mut entry = entry(flow);
        view.fill_entry(session.installed.block, &mut entry);
        let tick = Tick::of(now);
        self.lines.remove(self.extension(&flow.key));
        if let Some(nat) = flow.nat {
            let extension = self.lines.insert(Extension { nat });
            entry.extension = extension.ok_or(Refusal::Full)?;
        }
        let inserted = match flow.key {
            AnyKey::V4(key) => self.v4.insert(entry.with_key(key), tick),
            AnyKey::V6(key) => self.v6.insert(entry.with_key(key), tick),
        };
        if inserted.is_err() {
            self.lines.remove(entry.extension);
            return Err(Refusal::Full);
        }
        self.present(index, |session| session.flows.insert(flow.key, *flow));
        Ok(())
    }

    /// Points a flow that is there at its session's block, wherever that is now.
    fn point(&mut self, flow: &Flow, block: BlockRef) {
        let Some(view) = self.blocks.get(block) else {
            return;
        };
        let mut entry = entry(flow);
        view.fill_entry(block, &mut entry);
        entry.extension = self.extension(&flow.key);
        // What is there is replaced where it is: there is always room.
        let _ = match flow.key {
            AnyKey::V4(key) => self.v4.replace(entry.with_key(key)),
            AnyKey::V6(key) => self.v6.replace(entry.with_key(key)),
        };
    }

    /// The line of the entry of a key; no IPv6 flow has one.
    fn extension(&self, key: &AnyKey) -> ExtensionId {
        match key {
            AnyKey::V4(key) => {
                let entry = self.v4.entry(self.v4.lookup(key));
                entry.map_or(ExtensionId::NONE, |entry| entry.extension)
            }
            AnyKey::V6(_) => ExtensionId::NONE,
        }
    }

    /// The session that a key leads to.
    fn owner(&self, key: &AnyKey) -> Option<SessionIndex> {
        let block = match key {
            AnyKey::V4(key) => self.v4.entry(self.v4.lookup(key))?.verdict.block,
            AnyKey::V6(key) => self.v6.entry(self.v6.lookup(key))?.verdict.block,
        };
        Some(self.blocks.get(block)?.session())
    }

    fn query(&self, index: SessionIndex, id: ObjectId) -> Result<Outcome, Refusal> {
        let session = self.sessions.get(&index).ok_or(Refusal::Missing)?;
        let view = self.blocks.get(session.installed.block).ok_or(Refusal::Missing)?;
        if !self.has(index, id) {
            return Err(Refusal::Missing);
        }
        let count = |slot: u8| (slot, view.urr(slot).unwrap_or_default());
        Ok(match id {
            ObjectId::Counter(slot) => Outcome::Counts(vec![count(slot)]),
            ObjectId::Session => Outcome::Counts(session.counters.iter().map(|&slot| count(slot)).collect()),
            ObjectId::Meter(qer, direction) => {
                let meter = view.meter(qer, direction);
                Outcome::Meter(meter.map(|meter| meter.state()).unwrap_or_default())
            }
            _ => Outcome::Done,
        })
    }

    /// Removes what is there.
    fn remove(&mut self, index: SessionIndex, id: ObjectId) -> Result<(), Refusal> {
        let session = self.sessions.get_mut(&index).ok_or(Refusal::Missing)?;
        if session.flows.values().any(|flow| names(flow, id)) {
            return Err(Refusal::InUse);
        }
        match id {
            ObjectId::Flow(key) => {
                session.flows.remove(&key);
                self.forget(&key);
            }
            ObjectId::Forward(slot) => {
                self.change(index, BlockImage::MAX_FORWARDS, slot, |image| {
                    at(&mut image.forwards, slot, Forward::DROP, Forward::DROP);
                })?;
                self.present(index, |session| session.forwards.remove(&slot));
            }
            ObjectId::Qer(slot) => {
                session.qers.remove(&slot);
            }
            ObjectId::Meter(qer, direction) => self.change(index, BlockImage::MAX_QERS, qer, |image| {
                if let Some(pair) = image.meters.get_mut(usize::from(qer)) {
                    pair[direction as usize] = None;
                }
            })?,
            ObjectId::Counter(slot) => {
                session.counters.remove(&slot);
            }
            ObjectId::Session => {
                let (block, flows) = (session.installed.block, core::mem::take(&mut session.flows));
                flows.keys().for_each(|key| self.forget(key));
                self.blocks.remove(block);
                self.sessions.remove(&index);
            }
        }
        Ok(())
    }

    fn forget(&mut self, key: &AnyKey) {
        self.lines.remove(self.extension(key));
        match key {
            AnyKey::V4(key) => {
                self.v4.remove(key);
            }
            AnyKey::V6(key) => {
                self.v6.remove(key);
            }
        }
    }

    fn age(&mut self, now: Nanos) {
        let mut aged = Vec::new();
        let tick = Tick::of(now);
        let Self { v4, lines, .. } = self;
        v4.age(tick, AGED_AT_ONCE, |entry| {
            lines.remove(entry.extension);
            aged.push((AnyKey::V4(entry.key), entry.verdict.block))
        });
        self.v6.age(tick, AGED_AT_ONCE, |entry| {
            aged.push((AnyKey::V6(entry.key), entry.verdict.block))
        });
        for (key, block) in aged {
            let Some(session) = self.blocks.get(block).map(|view| view.session()) else {
                continue;
            };
            self.present(session, |session| session.flows.remove(&key));
            self.notices.push_back(Notice::Event(Event::Aged {
                session,
                key,
                counts: Vec::new(),
            }));
        }
    }

    fn tell(&mut self, session: SessionIndex, direction: Direction, counted: Counted) {
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

impl Session {
    fn meter(&self, qer: u8, direction: Direction) -> bool {
        let pair = self.image.meters.get(usize::from(qer));
        pair.is_some_and(|pair| pair[direction as usize].is_some())
    }

    fn has_all_of(&self, flow: &Flow) -> bool {
        let direction = direction(flow);
        let has_qer = |slot: u8| {
            let metered = self.qers.get(&slot).map(|metered| metered[direction as usize]);
            metered.is_some_and(|metered| !metered || self.meter(slot, direction))
        };
        self.forwards.contains(&flow.forward)
            && slots(flow.qers).chain(flow.marking).all(has_qer)
            && slots(flow.urrs).all(|slot| self.counters.contains(&slot))
    }
}

impl Backend for LocalBackend {
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
        if let Some(request) = self.requests.pop_front() {
            let id = request.id;
            let outcome = self.apply(request, now);
            self.notices.push_back(Notice::Reply(Reply { id, outcome }));
        }
        self.age(now);
        self.notices.pop_front()
    }

    fn process(&mut self, key: &AnyKey, octets: u32, now: Nanos) -> Fate {
        let tick = Tick::of(now);
        let found = match key {
            AnyKey::V4(key) => visit(&mut self.v4, key, tick),
            AnyKey::V6(key) => visit(&mut self.v6, key, tick),
        };
        let live = found.as_ref().and_then(|entry| self.blocks.live(entry));
        let (Some(entry), Some(block)) = (&found, live) else {
            if self.notices.len() < MISSES {
                self.notices.push_back(Notice::Event(Event::Miss { key: *key }));
            }
            return Fate::Missed;
        };
        let session = block.session();
        let nat = self.lines.get(entry.extension).map(|line| line.nat);
        let Passed { fate, counted } = pass(
            block,
            &entry.verdict,
            nat,
            &Offer::new(octets, now),
            &mut self.shared,
        );
        self.tell(session, entry.verdict.direction(), counted);
        fate
    }

    fn reset(&mut self) {
        let sessions: Vec<SessionIndex> = self.sessions.keys().copied().collect();
        for session in sessions {
            // A session that is there can be removed.
            let _ = self.remove(session, ObjectId::Session);
        }
        self.epoch.0 += 1;
        let reset = Event::BackendReset { epoch: self.epoch };
        self.notices.push_back(Notice::Event(reset));
    }
}

impl fmt::Debug for LocalBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalBackend")
            .field("epoch", &self.epoch)
            .field("sessions", &self.sessions.len())
            .finish_non_exhaustive()
    }
}

/// What became of a packet.
struct Passed {
    fate: Fate,
    counted: Counted,
}

/// Applies gates, quotas, forward, meters and counters to a packet, in this order.
fn pass(
    mut block: LiveBlock<'_>,
    verdict: &Verdict,
    nat: Option<Nat>,
    offer: &Offer,
    shared: &mut SharedMeters,
) -> Passed {
    let forward = block.forward(verdict.forward);
    let held = if block.is_closed(verdict.qers) {
        Some(Fate::Dropped(Why::Gate))
    } else if block.is_stopped(verdict.urrs) {
        Some(Fate::of_limit(block.stop_action(verdict.urrs)))
    } else {
        Fate::of_action(forward.kind())
    };
    if let Some(fate) = held {
        return Passed {
            fate,
            counted: Counted::PASSED,
        };
    }
    let Ok(colour) = block.meter(verdict.qers, offer, shared) else {
        return Passed {
            fate: Fate::Dropped(Why::Meter),
            counted: Counted::PASSED,
        };
    };
    let counted = block.count(verdict.urrs, offer.octets.into(), Millisecond::of(offer.now));
    let mark = block.mark(verdict.marking);
    let passed = Fate::Passed {
        forward: block.whole_forward(verdict.forward),
        mark,
        colour,
        nat,
    };
    Passed {
        fate: counted.action.map_or(passed, Fate::of_limit),
        counted,
    }
}

fn visit<K: FlowKey>(table: &mut FlowTable<K>, key: &K, now: Tick) -> Option<FlowEntry<()>> {
    let hit = table.lookup(key);
    table.visit(hit, now).map(|entry| entry.with_key(()))
}

/// An entry that has yet to learn of its block.
fn entry(flow: &Flow) -> FlowEntry<()> {
    FlowEntry {
        verdict: Verdict {
            qers: flow.qers,
            urrs: flow.urrs,
            flags: flow.flags,
            forward: flow.forward,
            marking: flow.marking.unwrap_or(Verdict::NO_MARK),
            ..Verdict::NONE
        },
        idle: flow.idle.min(Tick::MAX_IDLE),
        ..FlowEntry::default()
    }
}

fn direction(flow: &Flow) -> Direction {
    entry(flow).verdict.direction()
}

/// Whether a flow needs this object.
fn names(flow: &Flow, id: ObjectId) -> bool {
    match id {
        ObjectId::Forward(slot) => flow.forward == slot,
        ObjectId::Qer(slot) => flow.qers >> slot & 1 == 1 || flow.marking == Some(slot),
        ObjectId::Meter(slot, of) => flow.qers >> slot & 1 == 1 && direction(flow) == of,
        ObjectId::Counter(slot) => flow.urrs >> slot & 1 == 1,
        ObjectId::Flow(_) | ObjectId::Session => false,
    }
}

fn slots(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |slot| mask >> slot & 1 == 1)
}

/// Sets one slot of a list, which grows if it has to.
fn at<T: Clone>(list: &mut Vec<T>, slot: u8, blank: T, value: T) {
    let slot = usize::from(slot);
    if slot >= list.len() {
        list.resize(slot + 1, blank);
    }
    list[slot] = value;
}

fn set(mask: &mut u64, slot: u8, bit: bool) {
    *mask = *mask & !(1 << slot) | u64::from(bit) << slot;
}

fn refusal(error: BlockError) -> Refusal {
    match error {
        BlockError::Full { .. } => Refusal::Full,
        BlockError::OutOfBounds => Refusal::Unsupported,
        BlockError::Dead => Refusal::Missing,
    }
}
