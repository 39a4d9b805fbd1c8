//! Flows that settle: the host has given them, and packets of theirs may still be on the way to it and back.
//!
//! Such a flow is not in the table yet. Packets that arrive from the network are held here, in order; those that the
//! host gives back pass at once by its entry. When the host has echoed the flow's marker, which was sent behind all
//! exceptions of before, no packet of it is on the way any more: it moves into the table, and what is held follows.
//! So it does when that takes too long.
//!
//! When a flow's packets find no room, or the flow itself when it moves, those that are held go to the host, and later
//! ones follow them: its marker is *void*. What the host gives back of it still passes by its entry, since it may have
//! been ahead of these; nothing is held any more. The host sees packets of a flow that it has given, and gives it
//! again.
//!
//! All is bounded: flows, packets, packets of a flow. Only packets that miss the tables come here.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use flow::{Blocks, FlowEntry, KeyFields, Nanos, SessionIndex, Shape, Verdict};
use packet::PacketBuf;
use rules::classifier::Key;

use crate::accelerator::session_buckets::{BUCKETS, SessionBuckets};
use crate::burst::descriptor::{Family, PacketKey};
use crate::deferred::packet_store::{PacketList, PacketStore};

/// How long a void flow is kept that no packet uses.
const VOID_FOR: Duration = Duration::from_secs(1);

/// Void flows that are looked at in one poll.
const VOID_PER_POLL: usize = 4;

/// Shapes that keys can have: fields, of plain packets and of tunnels.
const SHAPES: usize = 512;

/// What has become of flows that settled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettlingStats {
    /// Flows that settle now.
    pub flows: usize,
    /// Packets that are held now.
    pub held: usize,
    /// Flows whose marker was echoed.
    pub settled: u64,
    /// Flows whose marker was not echoed in time.
    pub timed_out: u64,
    /// Flows whose packets found no room, or that found none themselves when they moved.
    pub voided: u64,
}

/// A flow as the host gave it.
#[derive(Clone, Copy)]
pub(super) struct GivenFlow {
    pub key: Key,
    pub entry: FlowEntry<()>,
    pub session: SessionIndex,
}

impl GivenFlow {
    /// The fields of its key.
    pub(super) const fn fields(&self) -> KeyFields {
        match &self.key {
            Key::V4(key) => key.fields,
            Key::V6(key) => key.fields,
        }
    }
}

/// A flow that settles.
struct SettlingFlow {
    given: GivenFlow,
    marker: u32,
    /// When it settles anyhow; void: when it is forgotten.
    due: Nanos,
    /// Which [`Turn`] is its own.
    turn: u64,
    held: PacketList,
    is_void: bool,
}

/// A flow's place in one of the orders. It means nothing when the flow has another one by now.
#[derive(Clone, Copy)]
struct Turn {
    slot: u32,
    number: u64,
}

/// Keys of one shape: how many there are.
struct ShapeInUse {
    fields: KeyFields,
    is_tunnel: bool,
    keys: usize,
}

/// Bounds of what settles.
#[derive(Clone, Copy)]
pub(super) struct SettlingLimits {
    pub flows: usize,
    pub packets: usize,
    pub packets_per_flow: u16,
    pub time: Duration,
}

/// All flows that settle, and their packets.
pub(super) struct Settling<B> {
    limits: SettlingLimits,
    slots: Vec<Option<SettlingFlow>>,
    free: Vec<u32>,
    by_key: HashMap<Key, u32, foldhash::quality::RandomState>,
    shapes: Vec<ShapeInUse>,
    /// How many are of the sessions in each bucket.
    by_bucket: Box<[u32]>,
    buckets: SessionBuckets,
    /// In the order in which flows were given: their markers and their times rise.
    order: VecDeque<Turn>,
    /// Void flows, which take turns in being looked at.
    void: VecDeque<Turn>,
    last_turn: u64,
    packets: PacketStore<B, ()>,
    stats: SettlingStats,
}

impl<B: PacketBuf> Settling<B> {
    /// No flows.
    pub fn new(limits: SettlingLimits) -> Self {
        let flows = limits.flows;
        Self {
            limits,
            slots: (0..flows).map(|_| None).collect(),
            free: (0..flows as u32).rev().collect(),
            by_key: HashMap::with_capacity_and_hasher(flows, Default::default()),
            shapes: Vec::with_capacity(SHAPES),
            by_bucket: vec![0; BUCKETS].into(),
            buckets: SessionBuckets::default(),
            order: VecDeque::with_capacity(2 * flows),
            void: VecDeque::with_capacity(2 * flows),
            last_turn: 0,
            packets: PacketStore::new(limits.packets),
            stats: SettlingStats::default(),
        }
    }

    /// Whether no flow settles: then no packet need be looked up here.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// What has become of flows, and is here now.
    pub fn stats(&self) -> SettlingStats {
        SettlingStats {
            flows: self.by_key.len(),
            held: self.packets.len(),
            ..self.stats
        }
    }

    /// Takes a flow whose marker is no earlier than those before, with the [slot of its key](Self::slot_of); of one
    /// that settles already, what is held stays. False when there is no room for another.
    pub fn put(&mut self, (given, slot): (GivenFlow, Option<u32>), marker: u32, now: Nanos) -> bool {
        let due = now + self.limits.time;
        let slot = match slot {
            Some(slot) => slot,
            None => {
                let Some(slot) = self.free.pop() else { return false };
                self.by_key.insert(given.key, slot);
                self.use_shape(&given.key);
                self.count_in_bucket(&given.key, 1);
                slot
            }
        };
        let turn = self.next_turn(slot);
        if let Some(place) = self.slots.get_mut(slot as usize) {
            let held = place.as_ref().map_or(PacketList::EMPTY, |before| before.held);
            *place = Some(SettlingFlow {
                given,
                marker,
                due,
                turn: turn.number,
                held,
                is_void: false,
            });
        }
        Self::queue(&mut self.order, &self.slots, turn);
        true
    }

    fn next_turn(&mut self, slot: u32) -> Turn {
        self.last_turn += 1;
        Turn {
            slot,
            number: self.last_turn,
        }
    }

    /// Puts a turn into an order, which has room for it when turns that mean nothing are gone.
    fn queue(order: &mut VecDeque<Turn>, slots: &[Option<SettlingFlow>], turn: Turn) {
        if order.len() >= 2 * slots.len() {
            order.retain(|turn| flow_of(slots, *turn).is_some());
        }
        order.push_back(turn);
    }

    fn use_shape(&mut self, key: &Key) {
        let (fields, is_tunnel) = shape_of(key);
        let same = |shape: &&mut ShapeInUse| (shape.fields, shape.is_tunnel) == (fields, is_tunnel);
        match self.shapes.iter_mut().find(same) {
            Some(shape) => shape.keys += 1,
            None => self.shapes.push(ShapeInUse {
                fields,
                is_tunnel,
                keys: 1,
            }),
        }
    }

    fn count_in_bucket(&mut self, key: &Key, more: i32) {
        if let Some(flows) = self.by_bucket.get_mut(self.buckets.of(key)) {
            *flows = flows.wrapping_add_signed(more);
        }
    }

    /// Whether any flow settles of the session, one way, that this key is of, or of another one in its bucket.
    pub fn has_of_session(&self, key: &Key) -> bool {
        let flows = self.by_bucket.get(self.buckets.of(key));
        flows.is_some_and(|flows| *flows > 0)
    }

    /// The flow of a packet, if it settles: its slot and what the host gave.
    pub fn find(
        &self,
        PacketKey { index, keys }: PacketKey<'_>,
        family: Family,
    ) -> Option<(u32, &GivenFlow)> {
        let whole = keys.whole(index, family)?;
        let slot = self.find_key(&whole)?;
        Some((slot, &self.at(slot)?.given))
    }

    /// The slot of the flow, if it settles, that packets of this whole key are of.
    pub fn find_key(&self, whole: &Key) -> Option<u32> {
        if self.is_empty() {
            return None;
        }
        let (_, is_tunnel) = shape_of(whole);
        let shapes = self.shapes.iter().filter(|shape| shape.is_tunnel == is_tunnel);
        let mut found = shapes.filter_map(|shape| self.by_key.get(&cut(whole, shape.fields)));
        found.find(|slot| self.at(**slot).is_some()).copied()
    }

    fn at(&self, slot: u32) -> Option<&SettlingFlow> {
        self.slots.get(slot as usize)?.as_ref()
    }

    /// All flows here, as they were given.
    pub fn all(&self) -> impl Iterator<Item = &GivenFlow> {
        let slots = self.by_key.values();
        slots.filter_map(|slot| Some(&self.at(*slot)?.given))
    }

    /// Has the verdicts of all flows be changed.
    pub fn change_verdicts(&mut self, mut change: impl FnMut(&mut Verdict)) {
        if !self.is_empty() {
            let flows = self.slots.iter_mut().flatten();
            flows.for_each(|flow| change(&mut flow.given.entry.verdict));
        }
    }

    /// The slot of any flow.
    pub fn first(&self) -> Option<u32> {
        self.by_key.values().next().copied()
    }

    /// The slot of a key's flow.
    pub fn slot_of(&self, key: &Key) -> Option<u32> {
        self.by_key.get(key).copied()
    }

    /// Whether packets of the flow in a slot are held.
    pub fn holds(&self, slot: u32) -> bool {
        self.at(slot).is_some_and(|flow| !flow.is_void)
    }

    /// The host has given back a packet of the flow in a slot: a void one is kept for longer.
    pub fn touch(&mut self, slot: u32, now: Nanos) {
        if let Some(flow) = self.slots.get_mut(slot as usize).and_then(Option::as_mut)
            && flow.is_void
        {
            flow.due = now + VOID_FOR;
        }
    }

    /// Holds a packet of the flow in a slot, or gives it back: then the flow is void from now on, and what is
    /// [held](Self::pop) of it goes before.
    pub fn hold(&mut self, slot: u32, packet: B, now: Nanos) -> Result<(), B> {
        let most = self.limits.packets_per_flow;
        let Some(flow) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) else {
            return Err(packet);
        };
        if flow.is_void {
            return Err(packet);
        }
        let kept = match flow.held.len() < most {
            true => self.packets.push(&mut flow.held, packet, ()),
            false => Err(packet),
        };
        if kept.is_err() {
            self.make_void(slot, now);
        }
        kept
    }

    /// Nothing is held any more for the flow in a slot; what is held of it still has to go before later packets.
    pub fn make_void(&mut self, slot: u32, now: Nanos) {
        let turn = self.next_turn(slot);
        if let Some(flow) = self.slots.get_mut(slot as usize).and_then(Option::as_mut) {
            (flow.is_void, flow.turn, flow.due) = (true, turn.number, now + VOID_FOR);
            self.stats.voided += 1;
        }
        Self::queue(&mut self.void, &self.slots, turn);
    }

    /// Takes the first packet that is held of the flow in a slot.
    pub fn pop_of(&mut self, slot: u32) -> Option<B> {
        let flow = self.slots.get_mut(slot as usize)?.as_mut()?;
        Some(self.packets.pop(&mut flow.held)?.0)
    }

    /// Takes the first packet of those that were held of a flow that settles no more.
    pub fn pop(&mut self, held: &mut PacketList) -> Option<B> {
        Some(self.packets.pop(held)?.0)
    }

    /// What the host gave of the flow in a slot.
    pub fn given(&self, slot: u32) -> Option<GivenFlow> {
        Some(self.at(slot)?.given)
    }

    /// The flow in a slot settles no more. Gives what is held of it.
    pub fn take(&mut self, slot: u32) -> PacketList {
        let Some(flow) = self.slots.get_mut(slot as usize).and_then(Option::take) else {
            return PacketList::EMPTY;
        };
        self.by_key.remove(&flow.given.key);
        self.count_in_bucket(&flow.given.key, -1);
        self.free.push(slot);
        let (fields, is_tunnel) = shape_of(&flow.given.key);
        self.shapes.retain_mut(|shape| {
            shape.keys -= usize::from((shape.fields, shape.is_tunnel) == (fields, is_tunnel));
            shape.keys > 0
        });
        flow.held
    }

    /// The slot of the next flow whose marker is this one or earlier: its turn is over.
    pub fn next_echoed(&mut self, marker: u32) -> Option<u32> {
        let is_echoed = |flow: &SettlingFlow| marker.wrapping_sub(flow.marker) as i32 >= 0;
        let slot = Self::next_in(&mut self.order, &self.slots, is_echoed)?;
        self.stats.settled += 1;
        Some(slot)
    }

    /// The slot of the next flow that has had its time: its turn is over.
    pub fn next_due(&mut self, now: Nanos) -> Option<u32> {
        let slot = Self::next_in(&mut self.order, &self.slots, |flow| flow.due <= now)?;
        self.stats.timed_out += 1;
        Some(slot)
    }

    /// Looks at some void flows, and forgets those that no packet has used for long.
    pub fn forget_void(&mut self, now: Nanos) {
        for _ in 0..self.void.len().min(VOID_PER_POLL) {
            let Some(turn) = self.void.pop_front() else { return };
            match flow_of(&self.slots, turn) {
                Some(flow) if flow.due > now => self.void.push_back(turn),
                Some(_) => drop(self.take(turn.slot)),
                None => {}
            }
        }
    }

    /// The first flow in an order, if it is `ready`; its turn is over then.
    fn next_in(
        order: &mut VecDeque<Turn>,
        slots: &[Option<SettlingFlow>],
        ready: impl Fn(&SettlingFlow) -> bool,
    ) -> Option<u32> {
        while let Some(&turn) = order.front() {
            match flow_of(slots, turn) {
                None => {}
                Some(flow) if ready(flow) => {
                    order.pop_front();
                    return Some(turn.slot);
                }
                Some(_) => return None,
            }
            order.pop_front();
        }
        None
    }

    /// Whether the flow in a slot is of a session block that is there no more, or decided anew.
    pub fn is_stale(&self, slot: u32, blocks: &Blocks) -> bool {
        self.at(slot).is_none_or(|flow| {
            let verdict = &flow.given.entry.verdict;
            !blocks.is_live(verdict.block, verdict.generation, verdict.direction())
        })
    }
}

/// The flow whose turn this is, if it still is.
fn flow_of(slots: &[Option<SettlingFlow>], turn: Turn) -> Option<&SettlingFlow> {
    let flow = slots.get(turn.slot as usize)?.as_ref()?;
    (flow.turn == turn.number).then_some(flow)
}

/// The fields of a key, and whether it is a tunnel's.
fn shape_of(key: &Key) -> (KeyFields, bool) {
    match key {
        Key::V4(key) => (key.fields, key.scope.is_tunnel()),
        Key::V6(key) => (key.fields, key.scope.is_tunnel()),
    }
}

/// A key cut down to some fields.
#[inline(always)]
pub(crate) fn cut(key: &Key, fields: KeyFields) -> Key {
    match key {
        Key::V4(key) => Key::V4(Shape::new(fields, key.scope.is_tunnel()).cut(key)),
        Key::V6(key) => Key::V6(Shape::new(fields, key.scope.is_tunnel()).cut(key)),
    }
}
