//! The flow tables of a worker, and which shapes of keys are in them.
//!
//! An entry's key holds the fields that decided it, so one table has keys of several *shapes*: per tunnel, per UE
//! address, per 5-tuple, with or without QFI or TOS. A packet is looked up in each shape that is in use for its side;
//! every hit is a right decision, so the widest shape comes first. Most workers have one shape for each side.

use flow::memory::OutOfMemory;
use flow::{
    Blocks, FlowEntry, FlowKey, FlowKey4, FlowKey6, FlowTable, Hit, KeyFields, Scope, Seed, Shape, Tick,
};
use rules::classifier::Side;

use crate::batch::BURST;
use crate::descriptor::{Descriptor, Family, Keys, Verdict};

/// A key of one of the two families.
trait FamilyKey: FlowKey {
    /// Which family it is.
    const FAMILY: Family;

    /// Where packets of the key come in.
    fn scope(&self) -> Scope;

    /// The shape of the key.
    fn fields(&self) -> KeyFields;
}

impl FamilyKey for FlowKey4 {
    const FAMILY: Family = Family::V4;

    fn scope(&self) -> Scope {
        self.scope
    }

    fn fields(&self) -> KeyFields {
        self.fields
    }
}

impl FamilyKey for FlowKey6 {
    const FAMILY: Family = Family::V6;

    fn scope(&self) -> Scope {
        self.scope
    }

    fn fields(&self) -> KeyFields {
        self.fields
    }
}

/// Shapes of one side's keys.
struct Shapes<K: FlowKey> {
    is_tunnel: bool,
    /// Entries of each shape, by its bits.
    counts: [u32; 256],
    /// The shapes in use, fewest fields first.
    in_use: Vec<Shape<K>>,
}

impl<K: FlowKey> Shapes<K> {
    fn new(is_tunnel: bool) -> Self {
        Self {
            is_tunnel,
            counts: [0; 256],
            in_use: Vec::with_capacity(256),
        }
    }

    fn add(&mut self, shape: KeyFields) {
        let count = &mut self.counts[usize::from(shape.bits())];
        *count += 1;
        if *count == 1 {
            let narrower = |fields: KeyFields| (fields.bits().count_ones(), fields.bits());
            let place = self
                .in_use
                .partition_point(|other| narrower(other.fields()) < narrower(shape));
            self.in_use.insert(place, Shape::new(shape, self.is_tunnel));
        }
    }

    fn remove(&mut self, shape: KeyFields) {
        let count = &mut self.counts[usize::from(shape.bits())];
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.in_use.retain(|other| other.fields() != shape);
        }
    }
}

/// The flows of one IP version.
struct FamilyFlows<K: FlowKey> {
    table: FlowTable<K>,
    /// Of plain packets, of tunnels.
    shapes: [Shapes<K>; 2],
    round: Round<K>,
}

/// One round's keys, and whose they are.
struct Round<K> {
    keys: [K; BURST],
    places: [u8; BURST],
    hits: [Hit; BURST],
}

impl<K: FamilyKey> FamilyFlows<K> {
    fn new(flows: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            table: FlowTable::new(flows, seed)?,
            shapes: [Shapes::new(false), Shapes::new(true)],
            round: Round {
                keys: [K::default(); BURST],
                places: [0; BURST],
                hits: [Hit::MISS; BURST],
            },
        })
    }

    /// Finds the entries of a burst, one shape after the other.
    fn lookup(&mut self, descriptors: &mut [Descriptor], wholes: &[K; BURST], blocks: &Blocks, now: Tick) {
        let [plain, tunnels] = &self.shapes;
        for round in 0..plain.in_use.len().max(tunnels.in_use.len()) {
            let shapes = [plain.in_use.get(round), tunnels.in_use.get(round)];
            let wanted = self.round.gather(descriptors, wholes, shapes);
            if wanted == 0 {
                return;
            }
            let Round { keys, places, hits } = &mut self.round;
            let (keys, hits) = (&keys[..wanted], &mut hits[..wanted]);
            self.table.visit_bulk(keys, hits, now, |place, entry| {
                blocks.prefetch(entry);
                let place = usize::from(places[place % BURST]);
                if let Some(descriptor) = descriptors.get_mut(place) {
                    (descriptor.verdict, descriptor.shape) = (Verdict::of(entry), entry.key.fields());
                }
            });
        }
    }

    /// A packet's key in a shape that need not be in use.
    fn key(shape: KeyFields, whole: &K) -> K {
        Shape::new(shape, whole.scope().is_tunnel()).cut(whole)
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

impl<K: FlowKey> Round<K> {
    /// Takes the keys of the packets that have no entry yet, in the shapes of this round (of plain packets and of
    /// tunnels); how many there are.
    #[inline(always)]
    fn gather(
        &mut self,
        descriptors: &[Descriptor],
        wholes: &[K; BURST],
        shapes: [Option<&Shape<K>>; 2],
    ) -> usize
    where
        K: FamilyKey,
    {
        let mut count = 0;
        for (place, (descriptor, whole)) in descriptors.iter().zip(wholes).enumerate() {
            if !descriptor.is_open() || descriptor.family != K::FAMILY || descriptor.verdict.is_some() {
                continue;
            }
            let side = usize::from(matches!(descriptor.side, Side::Tunnel { .. }));
            let Some(shape) = shapes[side] else { continue };
            self.keys[count % BURST] = shape.cut(whole);
            self.places[count % BURST] = place as u8;
            count += 1;
        }
        count
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
    pub fn lookup(&mut self, descriptors: &mut [Descriptor], keys: &Keys, blocks: &Blocks, now: Tick) {
        self.v4.lookup(descriptors, &keys.v4, blocks, now);
        self.v6.lookup(descriptors, &keys.v6, blocks, now);
    }

    /// Adds or replaces the entry of the packets that agree with the one at `place` in `shape`. False when there is
    /// no room.
    pub fn insert(
        &mut self,
        keys: &Keys,
        (place, descriptor): (usize, &Descriptor),
        shape: KeyFields,
        (idle, now): (u16, Tick),
    ) -> bool {
        let verdict = &descriptor.verdict;
        match descriptor.family {
            Family::None => false,
            Family::V4 => {
                let key = FamilyFlows::key(shape, &keys.v4[place % BURST]);
                self.v4.insert(verdict.entry(key, idle), now)
            }
            Family::V6 => {
                let key = FamilyFlows::key(shape, &keys.v6[place % BURST]);
                self.v6.insert(verdict.entry(key, idle), now)
            }
        }
    }

    /// Removes the entry that the packet at `place` was found by.
    pub fn remove(&mut self, keys: &Keys, (place, descriptor): (usize, &Descriptor)) {
        let shape = descriptor.shape;
        match descriptor.family {
            Family::None => {}
            Family::V4 => self.v4.remove(&FamilyFlows::key(shape, &keys.v4[place % BURST])),
            Family::V6 => self.v6.remove(&FamilyFlows::key(shape, &keys.v6[place % BURST])),
        }
    }

    /// Looks at the next `buckets` buckets of each table and removes what has idled for too long; how many it was.
    pub fn age(&mut self, now: Tick, buckets: usize) -> usize {
        self.v4.age(now, buckets) + self.v6.age(now, buckets)
    }
}
