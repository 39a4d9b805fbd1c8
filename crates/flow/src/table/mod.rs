//! `FlowTable`: exact match from a flow's key to its entry, for millions of flows.
//!
//! A worker owns it. Buckets of eight slots fill one cache line each and hold 16 bits of hash, the expiry and the
//! number of the entry; entries never move. A key has two buckets; an insert that finds both full moves at most
//! [`FlowTable::MAX_MOVES`] slots (not entries) to their other buckets, after looking at no more than
//! [`FlowTable::MAX_SEARCHED`] of them.
//!
//! A summary of each bucket shows which keys are not there, without a look at it.
//!
//! It does not know whether an entry is stale: [`Blocks::live`](crate::Blocks::live) does.

mod bucket_line;
mod bulk;
mod cuckoo;
mod search;
mod summary;
#[cfg(test)]
mod tests;
mod tick;

pub use tick::Tick;

pub(crate) use crate::lanes::TAGS as SLOTS;

use core::fmt;
use core::ops::Range;

use self::bucket_line::{BucketLine, Slot};
use self::cuckoo::{CandidateBuckets, PrimaryBucket};
use self::search::{FreedSlot, Moved, Search};
use self::summary::Summaries;
use crate::hash::Hasher;
use crate::slab::{OutOfMemory, Slab};
use crate::{BlockRef, FlowEntry, FlowKey, Seed, Verdict, prefetch};

/// Keys in one pass.
const BURST: usize = 64;

/// Octets of a bucket.
pub(crate) const BUCKET: usize = size_of::<BucketLine>();

/// Buckets of a table for this number of flows: these use 19/20 of the slots, and a key has a choice of two at least.
pub(crate) const fn buckets(flows: usize) -> usize {
    let buckets = (flows * 20).div_ceil(SLOTS * 19);
    if buckets < 2 { 2 } else { buckets }
}

/// The table of all flows with keys of one kind.
pub struct FlowTable<K> {
    hasher: Hasher,
    candidates: CandidateBuckets,
    buckets: Slab<BucketLine>,
    summaries: Summaries,
    entries: Slab<FlowEntry<K>>,
    search: Box<Search>,
    /// Entries below this have been used at least once.
    touched: u32,
    /// The first of the entries that were given back; the next is in its `block`.
    free: u32,
    len: usize,
    hand: usize,
    reaper: usize,
    moves: u64,
}

/// Where a lookup found a flow. Good until an entry is removed or ages; inserts may move the slot, and then only
/// [`FlowTable::touch`] loses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The slot, counted over all buckets.
    place: u32,
    entry: u32,
}

/// Where a key goes, whatever is there: the first half of an insert, or of the question whether it may be there. The
/// default is that of no key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Prepared(PrimaryBucket);

/// Where a key is, or is to go: good until the table changes.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    primary: PrimaryBucket,
    hit: Hit,
}

impl Spot {
    /// The entry that is there already.
    #[inline]
    pub const fn hit(self) -> Hit {
        self.hit
    }
}

impl Hit {
    /// Found nowhere.
    pub const MISS: Self = Self {
        place: u32::MAX,
        entry: u32::MAX,
    };

    /// Whether a flow was found.
    #[inline(always)]
    pub const fn is_hit(self) -> bool {
        self.entry != u32::MAX
    }

    #[inline(always)]
    const fn new(bucket: u32, slot: u32, entry: u32) -> Self {
        Self {
            place: bucket.wrapping_mul(SLOTS as u32).wrapping_add(slot),
            entry,
        }
    }

    #[inline(always)]
    const fn bucket(self) -> usize {
        self.place as usize / SLOTS
    }

    #[inline(always)]
    const fn slot(self) -> usize {
        self.place as usize % SLOTS
    }

    /// The number of the entry, below the table's capacity for a hit.
    #[inline(always)]
    pub const fn entry_number(self) -> usize {
        self.entry as usize
    }
}

/// No room for a flow, within the bounds of an insert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// As many flows as the table was made for.
    Entries,
    /// No chain of [`FlowTable::MAX_MOVES`] moves within [`FlowTable::MAX_SEARCHED`] buckets frees a slot.
    Buckets,
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entries => "the flow table holds as many flows as it was made for",
            Self::Buckets => "the flow table has no slot within the bounded number of moves",
        })
    }
}

impl core::error::Error for Full {}

/// No entry.
const NONE: u32 = u32::MAX;

impl<K: FlowKey> FlowTable<K> {
    /// Slots that one insert moves, at most.
    pub const MAX_MOVES: usize = search::MAX_MOVES;
    /// Buckets that one insert reads, at most.
    pub const MAX_SEARCHED: usize = search::MAX_SEARCHED;
    /// Keys that one staged pass takes, and so the best length of a burst.
    pub const BURST: usize = BURST;

    /// A table for `flows` flows, whose slots are 95% in use when it holds them all. The seed must be random.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had, or `flows` is above 2^31.
    pub fn new(flows: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        if flows > 1 << 31 {
            return Err(OutOfMemory {
                octets: flows.saturating_mul(size_of::<FlowEntry<K>>()),
            });
        }
        Self::with_buckets(flows, buckets(flows), seed)
    }

    fn with_buckets(flows: usize, buckets: usize, seed: Seed) -> Result<Self, OutOfMemory> {
        Ok(Self {
            hasher: Hasher::new(seed),
            candidates: CandidateBuckets::new(buckets as u32),
            buckets: Slab::new(buckets)?,
            summaries: Summaries::new(buckets)?,
            entries: Slab::new(flows)?,
            search: Box::new(Search::new()),
            touched: 0,
            free: NONE,
            len: 0,
            hand: 0,
            reaper: 0,
            moves: 0,
        })
    }

    /// How many flows there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no flow.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many flows it was made for.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// How many buckets the aging hand passes in a turn.
    pub fn buckets(&self) -> usize {
        self.buckets.len()
    }

    /// How many slots all inserts together have moved.
    pub const fn moves(&self) -> u64 {
        self.moves
    }

    /// The addresses of the buckets, of their summaries and of the entries.
    pub fn areas(&self) -> [Range<usize>; 3] {
        [self.buckets.area(), self.summaries.area(), self.entries.area()]
    }

    /// Finds one flow; bursts of them are found faster by [`visit_bulk`](Self::visit_bulk).
    pub fn lookup(&self, key: &K) -> Hit {
        self.find(key, self.primary(key))
    }

    /// The entry of a hit; `None` for a miss.
    #[inline(always)]
    pub fn entry(&self, hit: Hit) -> Option<&FlowEntry<K>> {
        self.entries.get(hit.entry as usize)
    }

    /// The entry of a hit that a packet now uses: its aging is put off. `None` for a miss.
    #[inline(always)]
    pub fn visit(&mut self, hit: Hit, now: Tick) -> Option<&FlowEntry<K>> {
        let entry = self.entries.get(hit.entry as usize)?;
        if let Some(line) = self.buckets.get_mut(hit.bucket()) {
            line.put_off(hit.slot(), hit.entry, now.after(entry.idle));
        }
        Some(entry)
    }

    /// Puts off the aging of a flow that was just used.
    #[inline(always)]
    pub fn touch(&mut self, hit: Hit, now: Tick) {
        self.visit(hit, now);
    }

    /// Changes how long a flow may idle from now on: after a TCP FIN or RST, say.
    pub fn set_idle(&mut self, hit: Hit, idle: u16, now: Tick) {
        if let Some(entry) = self.entries.get_mut(hit.entry as usize) {
            entry.idle = idle.min(Tick::MAX_IDLE);
            self.touch(hit, now);
        }
    }

    /// Changes the snapshot of a flow.
    pub fn set_snapshot(&mut self, hit: Hit, snapshot: u16) {
        if let Some(entry) = self.entries.get_mut(hit.entry as usize) {
            entry.snapshot = snapshot;
        }
    }

    /// All flows, in no order. It reads the whole table.
    pub fn entries(&self) -> impl Iterator<Item = &FlowEntry<K>> {
        let buckets = (0..self.buckets.len()).filter_map(|bucket| self.buckets.get(bucket));
        let slots = buckets.flat_map(|line| (0..SLOTS).map(|slot| line.slot(slot)));
        let used = slots.filter(|slot| slot.tag != 0);
        used.filter_map(|slot| self.entries.get(slot.entry as usize))
    }

    /// Has the verdicts of flows be changed, wherever they are; their aging is left alone. It reads the whole table.
    pub fn change_verdicts(&mut self, mut change: impl FnMut(&mut Verdict)) {
        for bucket in 0..self.buckets.len() {
            for slot in 0..SLOTS {
                let Slot { tag, entry, .. } = self.buckets[bucket].slot(slot);
                if tag != 0
                    && let Some(entry) = self.entries.get_mut(entry as usize)
                {
                    change(&mut entry.verdict);
                }
            }
        }
    }

    /// Adds a flow, or replaces the one with the same key where it is.
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing has changed, but slots may have moved.
    pub fn insert(&mut self, entry: FlowEntry<K>, now: Tick) -> Result<Hit, Full> {
        let primary = self.primary(&entry.key);
        let hit = self.find(&entry.key, primary);
        self.put(entry, Spot { primary, hit }, now)
    }

    /// The first half of an insert: asks for the memory that the second half will need.
    #[inline]
    pub fn prepare(&self, key: &K) -> Prepared {
        let primary = self.primary(key);
        let other = self.candidates.other(primary.bucket, primary.tag);
        prefetch::nth_to_write(&self.buckets, primary.bucket as usize);
        prefetch::nth_to_write(&self.buckets, other as usize);
        self.summaries.prefetch_to_write(primary.bucket);
        Prepared(primary)
    }

    /// Between the halves of an insert, when the memory of the first one is there: asks for what making room will read,
    /// if there is no room.
    #[inline]
    pub fn foresee(&self, prepared: Prepared) {
        let PrimaryBucket { bucket, tag } = prepared.0;
        let is_full = |bucket: u32| {
            let line = self.buckets.get(bucket as usize);
            line.is_some_and(|line| line.free_slot().is_none())
        };
        if is_full(bucket) && is_full(self.candidates.other(bucket, tag)) {
            search::prefetch(&self.buckets, self.candidates, bucket);
        }
    }

    /// Where a key is, or is to go. Good until the table changes.
    #[inline]
    pub fn spot(&self, key: &K, prepared: Prepared) -> Spot {
        let primary = prepared.0;
        let hit = self.find(key, primary);
        Spot { primary, hit }
    }

    /// The second half of an insert: puts `entry` at the spot of its key, which must be that of the table as it is.
    ///
    /// # Errors
    ///
    /// [`Full`]: nothing has changed, but slots may have moved.
    pub fn put(&mut self, entry: FlowEntry<K>, spot: Spot, now: Tick) -> Result<Hit, Full> {
        let Spot { primary, hit } = spot;
        if let Some(old) = self.entries.get_mut(hit.entry as usize) {
            *old = entry;
            self.touch(hit, now);
            return Ok(hit);
        }
        if self.free == NONE && self.touched as usize == self.entries.len() {
            return Err(Full::Entries);
        }
        let (bucket, slot) = self.free_slot(primary).ok_or(Full::Buckets)?;
        let hit = Hit::new(bucket, slot as u32, self.take_entry());
        let content = Slot {
            tag: primary.tag,
            expires: now.after(entry.idle),
            entry: hit.entry,
            is_displaced: bucket != primary.bucket,
        };
        self.buckets[bucket as usize].set(slot, content);
        self.summaries.update(&self.buckets, bucket);
        if content.is_displaced {
            self.summaries.add_displaced(primary.bucket);
        }
        self.entries[hit.entry as usize] = entry;
        self.len += 1;
        Ok(hit)
    }

    /// Replaces the flow with the same key where it is, and leaves its aging alone. Returns whether there is one.
    pub fn replace(&mut self, entry: FlowEntry<K>) -> bool {
        let hit = self.lookup(&entry.key);
        let old = self.entries.get_mut(hit.entry as usize);
        old.map(|old| *old = entry).is_some()
    }

    /// Takes a flow out.
    pub fn remove(&mut self, key: &K) -> Option<FlowEntry<K>> {
        let hit = self.lookup(key);
        let entry = *self.entry(hit)?;
        self.release(hit);
        Some(entry)
    }

    /// Asks for the flows that [`age`](Self::age) removes if it is called next with the same arguments: no cache has
    /// them. Then `foreseen` gets each of them.
    pub fn foresee_age(&self, now: Tick, buckets: usize, mut foreseen: impl FnMut(&FlowEntry<K>)) {
        self.each_expired(now, buckets, |entry| {
            prefetch::nth_to_write(&self.entries, entry as usize)
        });
        self.each_expired(now, buckets, |entry| {
            if let Some(entry) = self.entries.get(entry as usize) {
                foreseen(entry);
            }
        });
    }

    /// The places of the flows in the next `buckets` buckets that idled for longer than they may.
    fn each_expired(&self, now: Tick, buckets: usize, mut each: impl FnMut(u32)) {
        let all = self.buckets.len();
        for ahead in 0..buckets.min(all) {
            let bucket = self.hand + ahead;
            let line = &self.buckets[if bucket < all { bucket } else { bucket - all }];
            let mut expired = line.expired(now);
            while expired != 0 {
                each(line.entry(expired.trailing_zeros() as usize));
                expired &= expired - 1;
            }
        }
    }

    /// Moves the aging hand over the next `buckets` buckets (one cache line each, of [`buckets`](Self::buckets)), and
    /// removes the flows there that idled for longer than they may. `aged` gets each of them. Gives their number.
    pub fn age(&mut self, now: Tick, buckets: usize, mut aged: impl FnMut(&FlowEntry<K>)) -> usize {
        let before = self.len;
        for _ in 0..buckets.min(self.buckets.len()) {
            let bucket = self.hand;
            self.hand = if bucket + 1 == self.buckets.len() {
                0
            } else {
                bucket + 1
            };
            let mut expired = self.buckets[bucket].expired(now);
            while expired != 0 {
                let slot = expired.trailing_zeros();
                let entry = self.buckets[bucket].entry(slot as usize);
                if let Some(entry) = self.entries.get(entry as usize) {
                    aged(entry);
                }
                self.release(Hit::new(bucket as u32, slot, entry));
                expired &= expired - 1;
            }
        }
        before - self.len
    }

    /// Looks at the entries of the next `buckets` buckets, with a hand of its own, and removes those that `is_dead`
    /// names: no packet can use them any more, but they would take room until they age. Gives their number.
    pub fn reap(&mut self, buckets: usize, mut is_dead: impl FnMut(&FlowEntry<K>) -> bool) -> usize {
        let before = self.len;
        for _ in 0..buckets.min(self.buckets.len()) {
            let bucket = self.reaper;
            self.reaper = if bucket + 1 == self.buckets.len() {
                0
            } else {
                bucket + 1
            };
            for slot in 0..SLOTS {
                let Slot { tag, entry, .. } = self.buckets[bucket].slot(slot);
                if tag != 0 && self.entries.get(entry as usize).is_some_and(&mut is_dead) {
                    self.release(Hit::new(bucket as u32, slot as u32, entry));
                }
            }
        }
        before - self.len
    }

    #[inline(always)]
    fn primary(&self, key: &K) -> PrimaryBucket {
        self.candidates.primary(self.hasher.hash(key.words().as_ref()))
    }

    fn find(&self, key: &K, primary: PrimaryBucket) -> Hit {
        let hit = self.find_in(key, primary.bucket, primary.tag);
        if hit.is_hit() {
            return hit;
        }
        self.find_in(
            key,
            self.candidates.other(primary.bucket, primary.tag),
            primary.tag,
        )
    }

    fn find_in(&self, key: &K, bucket: u32, tag: u16) -> Hit {
        let Some(line) = self.buckets.get(bucket as usize) else {
            return Hit::MISS;
        };
        let mut matches = line.matches(tag);
        while matches != 0 {
            let slot = matches.trailing_zeros();
            let entry = line.entry(slot as usize);
            if self
                .entries
                .get(entry as usize)
                .is_some_and(|found| found.key == *key)
            {
                return Hit::new(bucket, slot, entry);
            }
            matches &= matches - 1;
        }
        Hit::MISS
    }

    /// A free slot in one of the two buckets of a key: the first bucket's if possible, since lookups start there.
    fn free_slot(&mut self, primary: PrimaryBucket) -> Option<(u32, usize)> {
        let both = [primary.bucket, self.candidates.other(primary.bucket, primary.tag)];
        for bucket in both {
            if let Some(slot) = self.buckets[bucket as usize].free_slot() {
                return Some((bucket, slot));
            }
        }
        let FreedSlot { bucket, slot, moves } =
            search::make_room(&mut self.search, &mut self.buckets, self.candidates, both)?;
        // The bucket of the slot that is free now follows when it is filled.
        for &Moved {
            from,
            to,
            is_displaced,
        } in self.search.moved()
        {
            self.summaries.update(&self.buckets, to);
            match is_displaced {
                true => self.summaries.add_displaced(from),
                false => self.summaries.remove_displaced(to),
            }
        }
        self.moves += moves as u64;
        Some((bucket, slot))
    }

    /// The number of an entry that is free; there must be one.
    fn take_entry(&mut self) -> u32 {
        if self.free == NONE {
            self.touched += 1;
            return self.touched - 1;
        }
        let entry = self.free;
        self.free = self.entries[entry as usize].verdict.block.0;
        // It was given back long ago: the next insert will not have to wait for it.
        prefetch::nth_to_write(&self.entries, self.free as usize);
        entry
    }

    fn release(&mut self, hit: Hit) {
        let line = &mut self.buckets[hit.bucket()];
        let Slot {
            tag, is_displaced, ..
        } = line.slot(hit.slot());
        line.clear(hit.slot());
        if is_displaced {
            let first = self.candidates.other(hit.bucket() as u32, tag);
            self.summaries.remove_displaced(first);
        }
        self.summaries.update(&self.buckets, hit.bucket() as u32);
        let entry = &mut self.entries[hit.entry as usize];
        entry.verdict.generation = 0;
        entry.verdict.block = BlockRef(self.free);
        self.free = hit.entry;
        self.len -= 1;
    }
}

impl<K> fmt::Debug for FlowTable<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowTable")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
