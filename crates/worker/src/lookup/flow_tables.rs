//! The flow tables of a worker, and which shapes of keys are in them.
//!
//! An entry's key holds the fields that decided it, so one table has keys of several *shapes*: per tunnel, per UE
//! address, per 5-tuple, with or without QFI or TOS. A packet is looked up in each shape that is in use for its side;
//! every hit is a right decision, so the widest shape comes first. Most workers have one shape for each side.
//!
//! An entry whose generation is no longer its block's is *dead*: it counts for no session, is removed by the packet
//! that meets it, and else ages, or is reaped where the dead take much of the room. An entry of an older *snapshot* of
//! the rules that all sessions share is softly stale: in use until the slow path has time for it. So is one that held
//! for a period, when that is over ([`validity`]).

use core::ops::Range;

use flow::slab::OutOfMemory;
use flow::{
    BlockRef, Blocks, ExtensionId, FlowEntry, FlowKey, FlowKey4, FlowKey6, FlowTable, Hit, KeyFields, Nanos,
    Prepared, Scope, Seed, SessionIndex, Shape, Tick, Verdict,
};
use packet::IpTuple;
use rules::classifier::{Key, Side, whole_key};

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Family, Keys, PacketKey};
use crate::lookup::validity::{self, OUTDATED, Valid, Validity};

/// A key of one of the two families.
trait FamilyKey: FlowKey {
    /// Which family it is.
    const FAMILY: Family;

    /// Where packets of the key come in.
    fn scope(&self) -> Scope;

    /// The shape of the key.
    fn fields(&self) -> KeyFields;

    /// The key, of any family.
    fn any(self) -> Key;
}

impl FamilyKey for FlowKey4 {
    const FAMILY: Family = Family::V4;

    fn scope(&self) -> Scope {
        self.scope
    }

    fn fields(&self) -> KeyFields {
        self.fields
    }

    fn any(self) -> Key {
        Key::V4(self)
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

    fn any(self) -> Key {
        Key::V6(self)
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

/// How many entries ahead the room for one is made sure of.
const AHEAD: usize = 4;

/// An entry on its way into the table.
#[derive(Clone, Copy)]
struct Staged<K: FlowKey> {
    entry: FlowEntry<K>,
    prepared: Prepared,
    session: SessionIndex,
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
            let index = self
                .in_use
                .partition_point(|other| narrower(other.fields()) < narrower(shape));
            self.in_use.insert(index, Shape::new(shape, self.is_tunnel));
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
    staged: Vec<Staged<K>>,
    /// The shapes of the keys cut last, of plain packets and of tunnels: the next is likely to have the same.
    last: [Shape<K>; 2],
}

/// Whose account of flow entries is kept up, by what the tables tell.
pub(crate) trait FlowAccounts {
    /// A flow entry is gone: false if it was dead, and so no session's.
    fn forget(&mut self, family: Family, block: BlockRef, generation: u32) -> bool;

    /// Asks for what [`forget`](Self::forget) reads of a block.
    fn foresee_forget(&self, _: BlockRef) {}

    /// It was a session's, and has idled for too long.
    fn note_aged(&mut self, _: Key, _: BlockRef) {}
}

/// Who says which entries are written.
pub(crate) trait Admission: FlowAccounts {
    /// Whether the session may have another entry now; the rates have been charged then.
    fn may_add(&mut self, family: Family, session: SessionIndex) -> bool;

    /// The session has another entry.
    fn added(&mut self, family: Family, session: SessionIndex);

    /// The table has no room for an entry.
    fn refused(&mut self);
}

/// Numbers of flow entries.
pub(crate) struct FlowCapacity {
    pub v4: usize,
    pub v6: usize,
}

/// What a flow entry is made with, beside its key and verdict.
pub(crate) struct NewEntry {
    /// How long it may idle.
    pub idle: u16,
    /// Whose it is.
    pub session: SessionIndex,
    /// How long the decision holds.
    pub validity: Validity,
}

/// The session block and generation of a flow entry that was removed.
pub(crate) struct RemovedFlow {
    pub block: BlockRef,
    pub generation: u32,
}

/// The packets of a burst whose verdicts hold for now, and may have to be made anew: bit n is the one at index n.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SoftHits {
    /// Made under an older snapshot of the rules that all sessions share, or before what the flow is for has changed.
    pub outdated: u64,
    /// Of provisional entries.
    pub provisional: u64,
}

impl SoftHits {
    #[cold]
    fn add(&mut self, index: usize, is_provisional: bool) {
        let bits = if is_provisional {
            &mut self.provisional
        } else {
            &mut self.outdated
        };
        *bits |= 1 << (index % BURST);
    }

    /// Both.
    pub fn all(self) -> u64 {
        self.outdated | self.provisional
    }
}

/// Numbers of flow entries that one step of aging removed.
struct AgedFlows {
    removed: usize,
    /// Those of them that no packet could use.
    dead: usize,
}

/// The keys of one round of lookups, and the indices of their packets.
struct Round<K> {
    keys: [K; BURST],
    indices: [u8; BURST],
    hits: [Hit; BURST],
}

impl<K: FamilyKey> FamilyFlows<K> {
    fn new(flows: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            table: FlowTable::new(flows, seed)?,
            shapes: [Shapes::new(false), Shapes::new(true)],
            round: Round {
                keys: [K::default(); BURST],
                indices: [0; BURST],
                hits: [Hit::MISS; BURST],
            },
            staged: Vec::with_capacity(BURST),
            last: [false, true].map(|is_tunnel| Shape::new(KeyFields::NONE, is_tunnel)),
        })
    }

    /// Finds the entries of a burst, one shape after the other, and adds those to `soft` that are of another snapshot.
    fn lookup(
        &mut self,
        descriptors: &mut [Descriptor],
        wholes: &[K; BURST],
        blocks: &Blocks,
        (valid, soft): (Valid, &mut SoftHits),
        now: Tick,
    ) {
        let [plain, tunnels] = &self.shapes;
        for round in 0..plain.in_use.len().max(tunnels.in_use.len()) {
            let shapes = [plain.in_use.get(round), tunnels.in_use.get(round)];
            let wanted = self.round.gather(descriptors, wholes, shapes);
            if wanted == 0 {
                break;
            }
            let Round { keys, indices, hits } = &mut self.round;
            let (keys, hits) = (&keys[..wanted], &mut hits[..wanted]);
            self.table.visit_bulk(keys, hits, now, |index, entry| {
                blocks.prefetch(entry);
                let index = usize::from(indices[index % BURST]);
                if entry.snapshot != valid.snapshot && !valid.holds(entry.snapshot) {
                    soft.add(index, valid.is_provisional(entry.snapshot));
                }
                if let Some(descriptor) = descriptors.get_mut(index) {
                    (descriptor.verdict, descriptor.shape) = (entry.verdict, entry.key.fields());
                }
            });
        }
    }

    /// Asks for the memory that shows whether there may be an entry of a whole key's first shape.
    #[inline(always)]
    fn foretell(&self, whole: &K) -> Prepared {
        self.foretell_in(0, whole).unwrap_or_default()
    }

    #[inline(always)]
    fn foretell_in(&self, round: usize, whole: &K) -> Option<Prepared> {
        let shape = self.shapes[usize::from(whole.scope().is_tunnel())]
            .in_use
            .get(round)?;
        Some(self.table.foretell(&shape.cut(whole)))
    }

    /// Which of these whole keys may have an entry, bit n for key n: all that have one, and a few of the others.
    #[inline]
    fn may_hold(&self, wholes: &[K], foretold: &[Prepared]) -> u64 {
        let mut held = self.table.may_hold(foretold);
        let [plain, tunnels] = &self.shapes;
        for round in 1..plain.in_use.len().max(tunnels.in_use.len()) {
            held |= self.may_hold_in(round, wholes);
        }
        held
    }

    /// The same of keys of a further shape.
    #[cold]
    fn may_hold_in(&self, round: usize, wholes: &[K]) -> u64 {
        let mut foretold = [Prepared::default(); BURST];
        for (foretold, whole) in foretold.iter_mut().zip(wholes) {
            *foretold = self.foretell_in(round, whole).unwrap_or_default();
        }
        self.table.may_hold(&foretold)
    }

    /// A packet's key in a shape that need not be in use.
    fn key(&mut self, shape: KeyFields, whole: &K) -> K {
        let is_tunnel = whole.scope().is_tunnel();
        let last = &mut self.last[usize::from(is_tunnel)];
        if last.fields() != shape {
            *last = Shape::new(shape, is_tunnel);
        }
        last.cut(whole)
    }

    /// The first half of an insert: prefetches the memory that it reads, and that the packet needs in `apply_rules`.
    fn stage(&mut self, entry: FlowEntry<K>, session: SessionIndex, blocks: &Blocks) {
        blocks.prefetch(&entry);
        let prepared = self.table.prepare(&entry.key);
        self.staged.push(Staged {
            entry,
            prepared,
            session,
        });
    }

    /// The second half, of all that were staged, in order. `dead` entries that are replaced are fewer then.
    fn write(&mut self, admission: &mut impl Admission, dead: &mut usize, now: Tick) {
        for number in 0..self.staged.len() {
            if let Some(next) = self.staged.get(number + AHEAD) {
                self.table.foresee(next.prepared);
            }
            let Staged {
                entry,
                prepared,
                session,
            } = self.staged[number];
            let spot = self.table.spot(&entry.key, prepared);
            let old = self
                .table
                .entry(spot.hit())
                .map(|old| (old.verdict.block, old.verdict.generation));
            match old {
                // The packet before has made it, or it is decided anew: no session has more entries now.
                Some((_, generation)) if generation == entry.verdict.generation => {}
                Some((block, generation)) => {
                    *dead -= usize::from(!admission.forget(K::FAMILY, block, generation)).min(*dead);
                    admission.added(K::FAMILY, session);
                }
                None if !admission.may_add(K::FAMILY, session) => {
                    continue;
                }
                None => {}
            }
            match self.table.put(entry, spot, now) {
                Ok(_) if old.is_none() => {
                    self.shapes[usize::from(entry.key.scope().is_tunnel())].add(entry.key.fields());
                    admission.added(K::FAMILY, session);
                }
                Ok(_) => {}
                Err(_) => admission.refused(),
            }
        }
        self.staged.clear();
    }

    /// Removes the entry of `key`.
    fn remove(&mut self, key: &K) -> Option<RemovedFlow> {
        let entry = self.table.remove(key)?;
        self.shapes[usize::from(key.scope().is_tunnel())].remove(key.fields());
        Some(RemovedFlow {
            block: entry.verdict.block,
            generation: entry.verdict.generation,
        })
    }

    /// Removes entries of the next `buckets` buckets that have idled for too long.
    fn age(&mut self, accounts: &mut impl FlowAccounts, now: Tick, buckets: usize) -> AgedFlows {
        let Self { table, shapes, .. } = self;
        table.foresee_age(now, buckets, |entry| accounts.foresee_forget(entry.verdict.block));
        let mut dead = 0;
        let aged = table.age(now, buckets, |entry| {
            shapes[usize::from(entry.key.scope().is_tunnel())].remove(entry.key.fields());
            let is_sessions = accounts.forget(K::FAMILY, entry.verdict.block, entry.verdict.generation);
            if is_sessions {
                accounts.note_aged(entry.key.any(), entry.verdict.block);
            }
            dead += usize::from(!is_sessions);
        });
        AgedFlows { removed: aged, dead }
    }

    /// Removes what is dead; how many it was.
    fn reap(&mut self, blocks: &Blocks, buckets: usize) -> usize {
        let Self { table, shapes, .. } = self;
        table.reap(buckets, |entry| {
            let is_dead = !blocks.is_live(
                entry.verdict.block,
                entry.verdict.generation,
                entry.verdict.direction(),
            );
            if is_dead {
                shapes[usize::from(entry.key.scope().is_tunnel())].remove(entry.key.fields());
            }
            is_dead
        })
    }

    /// Has the decision about the flow with this key made anew, also where it is staged.
    fn outdate(&mut self, key: &K) {
        let hit = self.table.lookup(key);
        self.table.set_snapshot(hit, OUTDATED);
        let staged = self.staged.iter_mut().filter(|staged| staged.entry.key == *key);
        staged.for_each(|staged| staged.entry.snapshot = OUTDATED);
    }

    /// Changes how long the flow with this key may idle. False when there is none.
    fn set_idle(&mut self, key: &K, idle: u16, now: Tick) -> bool {
        let hit = self.table.lookup(key);
        let is_longer = self.table.entry(hit).is_some_and(|entry| entry.idle > idle);
        if is_longer {
            self.table.set_idle(hit, idle, now);
        }
        is_longer
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
        for (index, (descriptor, whole)) in descriptors.iter().zip(wholes).enumerate() {
            if !descriptor.is_open() || descriptor.family != K::FAMILY || descriptor.verdict.is_some() {
                continue;
            }
            let side = usize::from(matches!(descriptor.side, Side::Tunnel { .. }));
            let Some(shape) = shapes[side] else { continue };
            self.keys[count % BURST] = shape.cut(whole);
            self.indices[count % BURST] = index as u8;
            count += 1;
        }
        count
    }
}

/// All flows.
pub(crate) struct Flows {
    v4: FamilyFlows<FlowKey4>,
    v6: FamilyFlows<FlowKey6>,
    /// Entries that no packet can use any more.
    dead: usize,
    /// Entries that are of neither are softly stale.
    valid: Valid,
    /// The number of this part of time.
    part: u64,
}

impl Flows {
    /// Dead entries are reaped when they exceed one of this number of entries that there is room for.
    const REAPED_FROM: usize = 16;

    /// Room for `v4` and `v6` flows.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(FlowCapacity { v4, v6 }: FlowCapacity, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            v4: FamilyFlows::new(v4, seed)?,
            v6: FamilyFlows::new(v6, seed)?,
            dead: 0,
            valid: Valid::FIRST,
            part: 0,
        })
    }

    /// The addresses of the flow tables.
    pub fn areas(&self) -> Vec<Range<usize>> {
        [self.v4.table.areas(), self.v6.table.areas()].concat()
    }

    /// How many flows there are.
    pub fn len(&self) -> usize {
        self.v4.table.len() + self.v6.table.len()
    }

    /// How many of them no packet can use any more.
    pub fn dead(&self) -> usize {
        self.dead
    }

    /// Counts entries that have become dead.
    pub fn bury(&mut self, entries: usize) {
        self.dead += entries;
    }

    /// All decisions made so far are to be made anew, when there is time.
    pub fn next_snapshot(&mut self) {
        self.valid.next_snapshot();
    }

    /// It is `now`: decisions that have held for a period are to be made anew, when there is time.
    #[inline]
    pub fn set_time(&mut self, now: Nanos) {
        let part = validity::part(now);
        if self.part != part {
            self.valid.advance(part.wrapping_sub(self.part));
            self.part = part;
        }
    }

    /// Gives each open user packet its entry, if there is one.
    pub fn lookup(
        &mut self,
        descriptors: &mut [Descriptor],
        keys: &Keys,
        blocks: &Blocks,
        now: Tick,
    ) -> SoftHits {
        let mut soft = SoftHits::default();
        let valid = self.valid;
        let Self { v4, v6, .. } = self;
        v4.lookup(descriptors, &keys.v4, blocks, (valid, &mut soft), now);
        v6.lookup(descriptors, &keys.v6, blocks, (valid, &mut soft), now);
        soft
    }

    /// The first half of [`may_hold`](Self::may_hold), for one of the keys: asks for memory that the second one reads.
    #[inline(always)]
    pub fn foretell(&self, key: &FlowKey4) -> Prepared {
        self.v4.foretell(key)
    }

    /// Which of these whole keys may have an entry, bit n for key n: all that have one, and a few of the others. Each
    /// has what was foretold of it.
    #[inline]
    pub fn may_hold(&self, keys: &[FlowKey4], foretold: &[Prepared]) -> u64 {
        self.v4.may_hold(keys, foretold)
    }

    /// Takes the decision about the packet at `index` for its flow's entry, which has the fields of its shape in the
    /// key; it is in the table after [`write`](Self::write).
    pub fn stage(
        &mut self,
        blocks: &Blocks,
        PacketKey { index, keys }: PacketKey<'_>,
        descriptor: &Descriptor,
        entry: NewEntry,
    ) {
        let whole = match descriptor.family {
            Family::None => return,
            Family::V4 => Key::V4(keys.v4[index % BURST]),
            Family::V6 => Key::V6(keys.v6[index % BURST]),
        };
        self.stage_key(blocks, (&whole, descriptor.shape), descriptor.verdict, entry);
    }

    /// The same of a decision about the flow with this whole key: its entry of this shape.
    pub fn stage_key(
        &mut self,
        blocks: &Blocks,
        (whole, shape): (&Key, KeyFields),
        verdict: Verdict,
        NewEntry {
            idle,
            session,
            validity,
        }: NewEntry,
    ) {
        let decided = FlowEntry {
            key: (),
            verdict,
            extension: ExtensionId::NONE,
            idle,
            snapshot: self.valid.of(validity, session.0),
        };
        match whole {
            Key::V4(whole) => {
                let key = self.v4.key(shape, whole);
                self.v4.stage(decided.with_key(key), session, blocks);
            }
            Key::V6(whole) => {
                let key = self.v6.key(shape, whole);
                self.v6.stage(decided.with_key(key), session, blocks);
            }
        }
    }

    /// Has the decision about the flow of `tuple`, whose packets come in at `side`, made anew: its entry of this shape.
    #[cold]
    pub fn outdate(&mut self, side: Side, tuple: &IpTuple, shape: KeyFields) {
        match whole_key(side, tuple) {
            Key::V4(whole) => {
                let key = self.v4.key(shape, &whole);
                self.v4.outdate(&key);
            }
            Key::V6(whole) => {
                let key = self.v6.key(shape, &whole);
                self.v6.outdate(&key);
            }
        }
    }

    /// Adds or replaces the entries that were staged, as far as `admission` and the room allow.
    pub fn write(&mut self, admission: &mut impl Admission, now: Tick) {
        let Self { v4, v6, dead, .. } = self;
        v4.write(admission, dead, now);
        v6.write(admission, dead, now);
    }

    /// Whether the table has the entry that the packet at `index` was found by, or that was made for it.
    pub fn has(&self, PacketKey { index, keys }: PacketKey<'_>, descriptor: &Descriptor) -> bool {
        let is_tunnel = matches!(descriptor.side, Side::Tunnel { .. });
        let shape = descriptor.shape;
        let is_of_it = |block, generation| {
            (block, generation) == (descriptor.verdict.block, descriptor.verdict.generation)
        };
        match descriptor.family {
            Family::None => false,
            Family::V4 => {
                let key = Shape::new(shape, is_tunnel).cut(&keys.v4[index % BURST]);
                let entry = self.v4.table.entry(self.v4.table.lookup(&key));
                entry.is_some_and(|entry| is_of_it(entry.verdict.block, entry.verdict.generation))
            }
            Family::V6 => {
                let key = Shape::new(shape, is_tunnel).cut(&keys.v6[index % BURST]);
                let entry = self.v6.table.entry(self.v6.table.lookup(&key));
                entry.is_some_and(|entry| is_of_it(entry.verdict.block, entry.verdict.generation))
            }
        }
    }

    /// Removes the entry that the packet at `index` was found by, which is dead.
    pub fn remove_dead(&mut self, packet: PacketKey<'_>, descriptor: &Descriptor) {
        if self.remove(packet, descriptor).is_some() {
            self.dead = self.dead.saturating_sub(1);
        }
    }

    /// Removes the entry that the packet at `index` was found by.
    pub fn remove(
        &mut self,
        PacketKey { index, keys }: PacketKey<'_>,
        descriptor: &Descriptor,
    ) -> Option<RemovedFlow> {
        let shape = descriptor.shape;
        match descriptor.family {
            Family::None => None,
            Family::V4 => {
                let key = self.v4.key(shape, &keys.v4[index % BURST]);
                self.v4.remove(&key)
            }
            Family::V6 => {
                let key = self.v6.key(shape, &keys.v6[index % BURST]);
                self.v6.remove(&key)
            }
        }
    }

    /// Adds or replaces the entry of a key that has the fields of its shape and no others. False when the table has no
    /// room, or `admission` refuses.
    pub fn put(
        &mut self,
        blocks: &Blocks,
        (key, verdict): (&Key, Verdict),
        entry: NewEntry,
        admission: &mut impl Admission,
        now: Tick,
    ) -> bool {
        let fields = match key {
            Key::V4(key) => key.fields,
            Key::V6(key) => key.fields,
        };
        self.stage_key(blocks, (key, fields), verdict, entry);
        self.write(admission, now);
        self.at(key).is_some_and(|at| at.verdict == verdict)
    }

    /// Asks for the memory that [`put`](Self::put) reads for a key.
    pub fn prefetch_put(&self, key: &Key) {
        match key {
            Key::V4(key) => self.v4.table.prepare(key),
            Key::V6(key) => self.v6.table.prepare(key),
        };
    }

    /// The entry of a key, without the key.
    pub fn at(&self, key: &Key) -> Option<FlowEntry<()>> {
        match key {
            Key::V4(key) => Some(self.v4.table.entry(self.v4.table.lookup(key))?.with_key(())),
            Key::V6(key) => Some(self.v6.table.entry(self.v6.table.lookup(key))?.with_key(())),
        }
    }

    /// Whether an entry `is_it`. It reads the whole tables.
    pub fn any(&self, is_it: impl Fn(Key, &FlowEntry<()>) -> bool) -> bool {
        let mut v4 = self.v4.table.entries();
        let mut v6 = self.v6.table.entries();
        v4.any(|entry| is_it(Key::V4(entry.key), &entry.with_key(())))
            || v6.any(|entry| is_it(Key::V6(entry.key), &entry.with_key(())))
    }

    /// Has verdicts be changed, but for what decides the direction. It reads the whole tables.
    pub fn change_verdicts(&mut self, mut change: impl FnMut(&mut Verdict)) {
        self.v4.table.change_verdicts(&mut change);
        self.v6.table.change_verdicts(&mut change);
    }

    /// Removes the entry of a key. False when there is none.
    pub fn remove_key(&mut self, key: &Key, accounts: &mut impl FlowAccounts) -> bool {
        let (family, removed) = match key {
            Key::V4(key) => (Family::V4, self.v4.remove(key)),
            Key::V6(key) => (Family::V6, self.v6.remove(key)),
        };
        let Some(RemovedFlow { block, generation }) = removed else {
            return false;
        };
        self.dead -= usize::from(!accounts.forget(family, block, generation)).min(self.dead);
        true
    }

    /// Lowers the idle time of the flow of a packet to `idle` ticks. False when it is no longer than that.
    #[cold]
    pub fn shorten(
        &mut self,
        PacketKey { index, keys }: PacketKey<'_>,
        descriptor: &Descriptor,
        idle: u16,
        now: Tick,
    ) -> bool {
        let shape = descriptor.shape;
        match descriptor.family {
            Family::None => false,
            Family::V4 => {
                let key = self.v4.key(shape, &keys.v4[index % BURST]);
                self.v4.set_idle(&key, idle, now)
            }
            Family::V6 => {
                let key = self.v6.key(shape, &keys.v6[index % BURST]);
                self.v6.set_idle(&key, idle, now)
            }
        }
    }

    /// Looks at the next `buckets` buckets of each table and removes what has idled for too long; how many it was.
    pub fn age(&mut self, accounts: &mut impl FlowAccounts, now: Tick, buckets: usize) -> usize {
        let v4 = self.v4.age(accounts, now, buckets);
        let v6 = self.v6.age(accounts, now, buckets);
        self.dead = self.dead.saturating_sub(v4.dead + v6.dead);
        v4.removed + v6.removed
    }

    /// Looks at the next `buckets` buckets of each table for entries that are dead, if those are many; how many were
    /// removed.
    pub fn reap(&mut self, blocks: &Blocks, buckets: usize) -> usize {
        if self.dead * Self::REAPED_FROM <= self.v4.table.capacity() + self.v6.table.capacity() {
            return 0;
        }
        let reaped = self.v4.reap(blocks, buckets) + self.v6.reap(blocks, buckets);
        self.dead = self.dead.saturating_sub(reaped);
        reaped
    }
}
