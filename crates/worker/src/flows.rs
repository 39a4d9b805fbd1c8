//! The flow tables of a worker, and which shapes of keys are in them.
//!
//! An entry's key holds the fields that decided it, so one table has keys of several *shapes*: per tunnel, per UE
//! address, per 5-tuple, with or without QFI or TOS. A packet is looked up in each shape that is in use for its side;
//! every hit is a right decision, so the widest shape comes first. Most workers have one shape for each side.

use flow::memory::OutOfMemory;
use flow::{Blocks, FlowEntry, FlowKey, FlowKey4, FlowKey6, FlowTable, Hit, KeyFields, Scope, Seed, Tick};
use rules::classifier::{Key, PacketView, Side, flow_key};

use crate::batch::BURST;
use crate::descriptor::{Descriptor, Verdict};

/// The IP version of a key.
pub(crate) trait Family: FlowKey {
    /// The key, if it is of this family.
    fn of(key: Key) -> Option<Self>;

    /// Where packets of the key come in.
    fn scope(&self) -> Scope;

    /// The shape of the key.
    fn fields(&self) -> KeyFields;
}

impl Family for FlowKey4 {
    #[inline]
    fn of(key: Key) -> Option<Self> {
        match key {
            Key::V4(key) => Some(key),
            Key::V6(_) => None,
        }
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn fields(&self) -> KeyFields {
        self.fields
    }
}

impl Family for FlowKey6 {
    #[inline]
    fn of(key: Key) -> Option<Self> {
        match key {
            Key::V6(key) => Some(key),
            Key::V4(_) => None,
        }
    }

    fn scope(&self) -> Scope {
        self.scope
    }

    fn fields(&self) -> KeyFields {
        self.fields
    }
}

/// Shapes of one side's keys.
struct Shapes {
    /// Entries of each shape, by its bits.
    counts: [u32; 256],
    /// The shapes in use, fewest fields first.
    in_use: Vec<KeyFields>,
}

impl Shapes {
    fn new() -> Self {
        Self {
            counts: [0; 256],
            in_use: Vec::with_capacity(256),
        }
    }

    fn add(&mut self, shape: KeyFields) {
        let count = &mut self.counts[usize::from(shape.bits())];
        *count += 1;
        if *count == 1 {
            let narrower = |other: &KeyFields| (other.bits().count_ones(), other.bits());
            let place = self
                .in_use
                .partition_point(|other| narrower(other) < narrower(&shape));
            self.in_use.insert(place, shape);
        }
    }

    fn remove(&mut self, shape: KeyFields) {
        let count = &mut self.counts[usize::from(shape.bits())];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.in_use.retain(|other| *other != shape);
        }
    }
}

/// The flows of one IP version.
struct FamilyFlows<K> {
    table: FlowTable<K>,
    /// Of plain packets, of tunnels.
    shapes: [Shapes; 2],
    /// One round's keys, and whose they are.
    keys: Vec<K>,
    places: Vec<u8>,
    hits: [Hit; BURST],
}

impl<K: Family> FamilyFlows<K> {
    fn new(flows: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            table: FlowTable::new(flows, seed)?,
            shapes: [Shapes::new(), Shapes::new()],
            keys: Vec::with_capacity(BURST),
            places: Vec::with_capacity(BURST),
            hits: [Hit::MISS; BURST],
        })
    }

    /// Finds the entries of a burst, one shape after the other.
    fn lookup(&mut self, descriptors: &mut [Descriptor], blocks: &Blocks, now: Tick) {
        let rounds = self
            .shapes
            .iter()
            .map(|shapes| shapes.in_use.len())
            .max()
            .unwrap_or(0);
        for round in 0..rounds {
            self.gather(descriptors, round);
            if self.keys.is_empty() {
                continue;
            }
            let Self {
                table,
                keys,
                places,
                hits,
                ..
            } = self;
            table.lookup_bulk(keys, hits, |place, entry| {
                blocks.prefetch(entry);
                let place = places.get(place).map_or(0, |place| usize::from(*place));
                if let Some(descriptor) = descriptors.get_mut(place) {
                    (descriptor.verdict, descriptor.shape) = (Some(Verdict::of(entry)), entry.key.fields());
                }
            });
            for hit in hits.iter().take(keys.len()).filter(|hit| hit.is_hit()) {
                table.touch(*hit, now);
            }
        }
    }

    /// The keys of the packets that have no entry yet, in the shape of this round.
    fn gather(&mut self, descriptors: &[Descriptor], round: usize) {
        self.keys.clear();
        self.places.clear();
        for (place, descriptor) in descriptors.iter().enumerate() {
            if !descriptor.is_open() || descriptor.verdict.is_some() || descriptor.defect.is_some() {
                continue;
            }
            let Some(view) = descriptor.view() else { continue };
            let side = usize::from(matches!(view.side, Side::Tunnel { .. }));
            let Some(shape) = self.shapes[side].in_use.get(round) else {
                continue;
            };
            if let Some(key) = K::of(flow_key(*shape, &view)) {
                self.keys.push(key);
                self.places.push(place as u8);
            }
        }
    }

    fn insert(&mut self, entry: FlowEntry<K>, now: Tick) -> bool {
        let before = self.table.len();
        let inserted = self.table.insert(entry, now).is_ok();
        if self.table.len() > before {
            self.shapes[usize::from(entry.key.scope().is_tunnel())].add(entry.key.fields());
        }
        inserted
    }

    fn remove(&mut self, key: &K) {
        if self.table.remove(key).is_some() {
            self.shapes[usize::from(key.scope().is_tunnel())].remove(key.fields());
        }
    }

    fn age(&mut self, now: Tick, buckets: usize) -> usize {
        let Self { table, shapes, .. } = self;
        table.age(now, buckets, |entry| {
            shapes[usize::from(entry.key.scope().is_tunnel())].remove(entry.key.fields());
        })
    }
}

/// All flows.
pub(crate) struct Flows {
    v4: FamilyFlows<FlowKey4>,
    v6: FamilyFlows<FlowKey6>,
}

impl Flows {
    /// Room for so many flows of each IP version.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(v4: usize, v6: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            v4: FamilyFlows::new(v4, seed)?,
            v6: FamilyFlows::new(v6, seed)?,
        })
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.v4.table.len() + self.v6.table.len()
    }

    /// Gives each open user packet its entry, if there is one.
    pub fn lookup(&mut self, descriptors: &mut [Descriptor], blocks: &Blocks, now: Tick) {
        self.v4.lookup(descriptors, blocks, now);
        self.v6.lookup(descriptors, blocks, now);
    }

    /// Adds or replaces the entry of the packets that agree with `view` in `shape`. False when there is no room.
    pub fn insert(
        &mut self,
        shape: KeyFields,
        view: &PacketView<'_>,
        verdict: &Verdict,
        (idle, now): (u16, Tick),
    ) -> bool {
        match flow_key(shape, view) {
            Key::V4(key) => self.v4.insert(verdict.entry(key, idle), now),
            Key::V6(key) => self.v6.insert(verdict.entry(key, idle), now),
        }
    }

    /// Removes the entry of the packets that agree with `view` in `shape`.
    pub fn remove(&mut self, shape: KeyFields, view: &PacketView<'_>) {
        match flow_key(shape, view) {
            Key::V4(key) => self.v4.remove(&key),
            Key::V6(key) => self.v6.remove(&key),
        }
    }

    /// Looks at the next `buckets` buckets of each table and removes what has idled for too long; how many it was.
    pub fn age(&mut self, now: Tick, buckets: usize) -> usize {
        self.v4.age(now, buckets) + self.v6.age(now, buckets)
    }
}
