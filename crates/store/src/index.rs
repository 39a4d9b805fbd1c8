//! Where the latest record of each key is.
//!
//! A session's SEID and the places of its two records take 24 octets, in chunks that never move; a table of their
//! numbers finds them, in 6 to 12 octets each. So a session takes at most 36 octets with both records, and growth
//! copies numbers only.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

use crate::form::{ALIGN, KeyRef};
use crate::key::{Key, Table};

/// Where a record is: the number of its segment in this process, its place there and its octets, packed; 0: nowhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slot(u64);

/// The segment of records that are not confirmed yet: the batch.
pub(crate) const BATCH: u16 = u16::MAX;

const OFFSET_BITS: u32 = 27;
const OCTETS_BITS: u32 = 19;
/// Octets behind which no record may begin.
pub(crate) const MOST_OFFSET: u64 = ((1 << OFFSET_BITS) - 1) * ALIGN as u64;

impl Slot {
    pub(crate) const NONE: Slot = Slot(0);

    /// `offset` and `octets` are multiples of [`ALIGN`].
    pub(crate) fn new(segment: u16, offset: u64, octets: usize) -> Slot {
        let (offset, octets) = (offset / ALIGN as u64, (octets / ALIGN) as u64);
        Slot(u64::from(segment) << (OFFSET_BITS + OCTETS_BITS) | offset << OCTETS_BITS | octets)
    }

    pub(crate) fn segment(self) -> u16 {
        (self.0 >> (OFFSET_BITS + OCTETS_BITS)) as u16
    }

    pub(crate) fn offset(self) -> u32 {
        (self.0 >> OCTETS_BITS & ((1 << OFFSET_BITS) - 1)) as u32 * ALIGN as u32
    }

    pub(crate) fn octets(self) -> u32 {
        (self.0 & ((1 << OCTETS_BITS) - 1)) as u32 * ALIGN as u32
    }

    pub(crate) fn is_none(self) -> bool {
        self == Slot::NONE
    }

    fn some(self) -> Option<Slot> {
        (!self.is_none()).then_some(self)
    }
}

/// The records of a session, or a free place.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// In a free place, the number of the next one.
    seid: u64,
    /// Of [`Table::Session`] and [`Table::Usage`].
    slots: [Slot; 2],
}

const FREE: Entry = Entry {
    seid: NO_ENTRY as u64,
    slots: [Slot::NONE; 2],
};
const NO_ENTRY: u32 = u32::MAX;
const CHUNK: usize = 1024;
/// The most sessions that room is made for ahead.
pub(crate) const MOST_RESERVED: usize = 4 << 20;

/// The index of a store.
#[derive(Debug)]
pub(crate) struct Index {
    numbers: HashTable<u32>,
    chunks: Vec<Box<[Entry]>>,
    /// Entries that were ever in use.
    used: u32,
    free: u32,
    hasher: RandomState,
    /// Of the tables that have few records.
    others: [BTreeMap<Vec<u8>, Slot>; TABLES.len()],
    records: u64,
}

/// Where a session is kept, in the order of their arrival.
pub(crate) type Place = usize;

impl Default for Index {
    fn default() -> Index {
        Index {
            numbers: HashTable::new(),
            chunks: Vec::new(),
            used: 0,
            free: NO_ENTRY,
            hasher: RandomState::default(),
            others: Default::default(),
            records: 0,
        }
    }
}

impl Index {
    /// The number of keys.
    pub(crate) fn records(&self) -> u64 {
        self.records
    }

    /// Octets that the index of sessions takes.
    pub(crate) fn octets(&self) -> u64 {
        let chunks = self.chunks.len() * CHUNK * size_of::<Entry>();
        (chunks + self.numbers.allocation_size()) as u64
    }

    pub(crate) fn get(&self, key: KeyRef<'_>) -> Option<Slot> {
        match key {
            KeyRef::Session(table, seid) => {
                let number = self.number(seid)?;
                self.entry(number).slots.get(column(table))?.some()
            }
            KeyRef::Other(table, id) => self.others.get(row(table))?.get(id).copied(),
        }
    }

    /// Notes where the record of a key is. Returns where the one before it was.
    pub(crate) fn set(&mut self, key: KeyRef<'_>, slot: Slot) -> Option<Slot> {
        self.set_and_place(key, slot).0
    }

    /// The same; for a session also its place.
    pub(crate) fn set_and_place(&mut self, key: KeyRef<'_>, slot: Slot) -> (Option<Slot>, Option<Place>) {
        let (old, place) = match key {
            KeyRef::Session(table, seid) => {
                let number = match self.number(seid) {
                    Some(number) => number,
                    None => self.add(seid),
                };
                let old = self
                    .slot_mut(number, table)
                    .and_then(|kept| std::mem::replace(kept, slot).some());
                (old, Some(number as usize))
            }
            KeyRef::Other(table, id) => {
                let kept = self.others.get_mut(row(table));
                (kept.and_then(|kept| kept.insert(id.to_vec(), slot)), None)
            }
        };
        self.records += u64::from(old.is_none());
        (old, place)
    }

    /// Forgets a key. Returns where its record was.
    pub(crate) fn remove(&mut self, key: KeyRef<'_>) -> Option<Slot> {
        self.remove_and_place(key).0
    }

    /// The same; for a session also its place.
    pub(crate) fn remove_and_place(&mut self, key: KeyRef<'_>) -> (Option<Slot>, Option<Place>) {
        let place = match key {
            KeyRef::Session(_, seid) => self.number(seid).map(|number| number as usize),
            KeyRef::Other(..) => None,
        };
        (self.take(key, place), place)
    }

    fn take(&mut self, key: KeyRef<'_>, place: Option<Place>) -> Option<Slot> {
        let old = match key {
            KeyRef::Session(table, seid) => {
                let number = place? as u32;
                let old = std::mem::replace(self.slot_mut(number, table)?, Slot::NONE).some()?;
                if self.entry(number).slots == [Slot::NONE; 2] {
                    self.give_back(seid, number);
                }
                old
            }
            KeyRef::Other(table, id) => self.others.get_mut(row(table))?.remove(id)?,
        };
        self.records -= 1;
        Some(old)
    }

    /// All keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, Slot)> {
        let others = TABLES.iter().zip(&self.others).flat_map(|(table, kept)| {
            kept.iter()
                .map(|(id, slot)| (KeyRef::Other(*table, id).to_key(), *slot))
        });
        let sessions = self.chunks.iter().flatten().take(self.used as usize);
        others.chain(sessions.flat_map(|entry| {
            let [session, usage] = entry.slots;
            let both = [
                (Key::Session(entry.seid), session),
                (Key::Usage(entry.seid), usage),
            ];
            both.into_iter().filter(|(_, slot)| !slot.is_none())
        }))
    }

    /// Makes room for this many times as many sessions as there are.
    pub(crate) fn reserve(&mut self, times: usize) {
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(entry_of(chunks, *number).seid);
        let more = self.numbers.len().saturating_mul(times).min(MOST_RESERVED);
        self.numbers.reserve(more, hash_of);
    }

    /// Looks sessions up, all at a time, so that what is found of them soon is in the processor's caches.
    pub(crate) fn warm(&self, seids: impl Iterator<Item = u64>) {
        let found = seids.filter(|seid| self.number(*seid).is_some());
        std::hint::black_box(found.count());
    }

    /// Gives back room that is not needed.
    pub(crate) fn shrink(&mut self) {
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(entry_of(chunks, *number).seid);
        self.numbers.shrink_to_fit(hash_of);
    }

    fn number(&self, seid: u64) -> Option<u32> {
        let hash = self.hasher.hash_one(seid);
        self.numbers
            .find(hash, |number| self.entry(*number).seid == seid)
            .copied()
    }

    fn add(&mut self, seid: u64) -> u32 {
        let number = match self.free {
            NO_ENTRY => {
                if self.used as usize == self.chunks.len() * CHUNK {
                    self.chunks.push(vec![FREE; CHUNK].into_boxed_slice());
                }
                self.used += 1;
                self.used - 1
            }
            number => {
                self.free = self.entry(number).seid as u32;
                number
            }
        };
        if let Some(entry) = self.entry_mut(number) {
            entry.seid = seid;
        }
        let (chunks, hasher) = (&self.chunks, &self.hasher);
        let hash_of = |number: &u32| hasher.hash_one(entry_of(chunks, *number).seid);
        self.numbers.insert_unique(hasher.hash_one(seid), number, hash_of);
        number
    }

    fn give_back(&mut self, seid: u64, number: u32) {
        let hash = self.hasher.hash_one(seid);
        if let Ok(found) = self.numbers.find_entry(hash, |kept| *kept == number) {
            found.remove();
        }
        let next = u64::from(self.free);
        if let Some(entry) = self.entry_mut(number) {
            entry.seid = next;
        }
        self.free = number;
    }

    fn entry(&self, number: u32) -> Entry {
        entry_of(&self.chunks, number)
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry> {
        let number = number as usize;
        self.chunks.get_mut(number / CHUNK)?.get_mut(number % CHUNK)
    }

    fn slot_mut(&mut self, number: u32, table: Table) -> Option<&mut Slot> {
        self.entry_mut(number)?.slots.get_mut(column(table))
    }
}

fn entry_of(chunks: &[Box<[Entry]>], number: u32) -> Entry {
    let number = number as usize;
    let found = chunks
        .get(number / CHUNK)
        .and_then(|chunk| chunk.get(number % CHUNK));
    found.copied().unwrap_or(FREE)
}

const TABLES: [Table; 5] = [
    Table::Node,
    Table::Association,
    Table::Application,
    Table::Response,
    Table::LastUsage,
];

fn column(table: Table) -> usize {
    usize::from(table == Table::Usage)
}

fn row(table: Table) -> usize {
    TABLES.iter().position(|other| *other == table).unwrap_or(0)
}
