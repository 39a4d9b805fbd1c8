//! A hash index of numbers: open addressing with linear probing at a load of at most one half.
//!
//! A slot has 32 bits: one more than a number, and above it as many bits of the hash as there is room for, so that a
//! probe seldom reads an item that is not meant. Removal moves followers up: there are no tombstones, and never a
//! rehash. The hashes are the caller's, and keyed: a sender that chooses what is hashed cannot choose where it goes.

use flow::prefetch;
use flow::slab::{OutOfMemory, Slab};

/// Numbers below `capacity`, by hash.
pub(super) struct Index {
    slots: Slab<u32>,
    /// The bits of a slot that hold one more than the number.
    numbers: u32,
}

/// Where a number is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    slot: usize,
    pub number: u32,
}

impl Index {
    /// Room for the numbers below `capacity`, which is at most 2^30, each once.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(capacity: usize) -> Result<Self, OutOfMemory> {
        let most = u32::try_from(capacity.max(1)).unwrap_or(u32::MAX);
        Ok(Self {
            slots: Slab::new(capacity.max(1) * 2)?,
            numbers: u32::MAX >> most.leading_zeros(),
        })
    }

    /// How many octets it takes.
    pub fn octets(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn next(&self, slot: usize) -> usize {
        if slot + 1 == self.slots.len() { 0 } else { slot + 1 }
    }

    /// Steps from one slot to another.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        match to >= from {
            true => to - from,
            false => to + self.slots.len() - from,
        }
    }

    /// Asks for the line where this hash is looked for first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::nth(&self.slots, self.home(hash));
    }

    /// The number with this hash of which `is_meant` holds. It is asked of few others.
    #[inline]
    pub fn find(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<Found> {
        let mut slot = self.home(hash);
        loop {
            let entry = self.slots[slot];
            let number = (entry & self.numbers).checked_sub(1)?;
            if (entry ^ hash as u32) & !self.numbers == 0 && is_meant(number) {
                return Some(Found { slot, number });
            }
            slot = self.next(slot);
        }
    }

    /// Adds a number that is not there.
    pub fn insert(&mut self, hash: u64, number: u32) {
        let mut slot = self.home(hash);
        while self.slots[slot] != 0 {
            slot = self.next(slot);
        }
        self.slots[slot] = (hash as u32 & !self.numbers) | (number + 1);
    }

    /// Takes out what was found. `hash_of` is the hash of any number that is there.
    pub fn remove(&mut self, found: Found, hash_of: impl Fn(u32) -> u64) {
        let mut hole = found.slot;
        let mut slot = self.next(hole);
        while let Some(number) = (self.slots[slot] & self.numbers).checked_sub(1) {
            // The follower may move up unless its home is behind the hole.
            if self.distance(self.home(hash_of(number)), slot) >= self.distance(hole, slot) {
                self.slots[hole] = self.slots[slot];
                hole = slot;
            }
            slot = self.next(slot);
        }
        self.slots[hole] = 0;
    }

    /// How many numbers are there.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.slots.iter().filter(|slot| **slot != 0).count()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_what_a_hash_map_does(
            hashes in prop::collection::vec((0u64..4, 0u64..3), 20),
            steps in prop::collection::vec((any::<bool>(), 0u32..20), 0..400),
        ) {
            // Few homes and few tags: most collide.
            let hashes: Vec<u64> = hashes.into_iter().map(|(home, tag)| home << 62 | tag << 30).collect();
            let hash = |number: u32| hashes[number as usize];
            let (mut index, mut model) = (Index::new(20).unwrap(), HashMap::new());
            for (inserts, number) in steps {
                let found = index.find(hash(number), |other| other == number);
                prop_assert_eq!(found.is_some(), model.contains_key(&number));
                match (inserts, found) {
                    (true, None) => {
                        index.insert(hash(number), number);
                        model.insert(number, ());
                    }
                    (false, Some(found)) => {
                        index.remove(found, hash);
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.count(), model.len());
            }
            for number in 0..20 {
                let found = index.find(hash(number), |other| other == number);
                prop_assert_eq!(found.map(|found| found.number), model.get(&number).map(|()| number));
            }
        }
    }

    #[test]
    fn a_number_with_another_tag_is_not_asked_about() {
        let mut index = Index::new(1_000).unwrap();
        index.insert(1 << 20, 7);
        assert_eq!(index.find(2 << 20, |_| panic!("asked")), None);
        assert_eq!(index.find(1 << 20, |_| true).map(|found| found.number), Some(7));
        assert_eq!(index.octets(), 8_000);
    }
}
