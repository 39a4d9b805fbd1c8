//! A hash map of fixed size whose worst case is bounded: a worker's sessions by tunnel and by address.
//!
//! Open addressing with linear probing at a load of at most one half; removal moves the followers up, so that there
//! are no tombstones and never a rehash. It allocates when it is made and never again; what was never used of it takes
//! no memory but addresses. The hash is keyed.

use std::hash::{BuildHasher, Hasher};

use flow::slab::advise_huge_pages;
use flow::{LocalId, prefetch};
use packet::Teid;

/// The map has as many keys as it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFull;

/// Keys of `N` words with a value each, which is below `u32::MAX`.
pub struct FixedMap<const N: usize> {
    /// Slots of N + 1 words: the key, and one more than the value; 0: the slot is free.
    words: Box<[u32]>,
    slots: usize,
    len: usize,
    capacity: usize,
    hasher: foldhash::quality::RandomState,
}

impl<const N: usize> FixedMap<N> {
    /// Room for `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        let slots = capacity.max(1) * 2;
        let words = vec![0; slots * (N + 1)].into_boxed_slice();
        advise_huge_pages(&words);
        Self {
            words,
            slots,
            len: 0,
            capacity,
            hasher: foldhash::quality::RandomState::default(),
        }
    }

    /// Whether the map has no keys.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many more keys fit.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// The value of `key`.
    #[inline]
    pub fn at(&self, key: &[u32; N]) -> Option<u32> {
        self.value(self.probe(key))
    }

    /// The key in the slot with this number, and its value. Slots are numbers from 0 on; see [`after`](Self::after).
    pub fn nth(&self, slot: usize) -> Option<([u32; N], u32)> {
        let words = self.words.get(slot * (N + 1)..)?;
        let value = words.get(N)?.checked_sub(1)?;
        Some((*words.first_chunk()?, value))
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The slot behind this one; behind the last is the first.
    pub fn after(&self, slot: usize) -> usize {
        self.next(slot)
    }

    /// Prefetches the memory where `key` is, if the map has it.
    #[inline]
    pub fn prefetch(&self, key: &[u32; N]) {
        prefetch::nth(&self.words, self.home(key) * (N + 1));
    }

    /// Sets the value of `key` and returns the one it had.
    ///
    /// # Errors
    /// [`MapFull`], and no change, when the key is new and the map has `capacity` of them.
    pub fn insert(&mut self, key: [u32; N], value: u32) -> Result<Option<u32>, MapFull> {
        let index = self.probe(&key);
        let old = self.value(index);
        if old.is_none() {
            if self.len == self.capacity {
                return Err(MapFull);
            }
            self.len += 1;
        }
        let slot = &mut self.words[index * (N + 1)..][..=N];
        slot[..N].copy_from_slice(&key);
        slot[N] = value.saturating_add(1);
        Ok(old)
    }

    /// Takes `key` out and returns its value.
    pub fn remove(&mut self, key: &[u32; N]) -> Option<u32> {
        let mut hole = self.probe(key);
        let value = self.value(hole)?;
        self.len -= 1;
        let mut index = self.next(hole);
        while self.value(index).is_some() {
            let home = self.home(self.key(index));
            // The follower may move up unless its home is behind the hole.
            if self.distance(home, index) >= self.distance(hole, index) {
                let from = index * (N + 1);
                self.words.copy_within(from..from + N + 1, hole * (N + 1));
                hole = index;
            }
            index = self.next(index);
        }
        self.words[hole * (N + 1) + N] = 0;
        Some(value)
    }

    #[inline]
    fn key(&self, index: usize) -> &[u32] {
        &self.words[index * (N + 1)..][..N]
    }

    #[inline]
    fn value(&self, index: usize) -> Option<u32> {
        self.words[index * (N + 1) + N].checked_sub(1)
    }

    #[inline]
    fn next(&self, index: usize) -> usize {
        if index + 1 == self.slots { 0 } else { index + 1 }
    }

    /// Steps from one slot to another.
    #[inline]
    fn distance(&self, from: usize, to: usize) -> usize {
        if to >= from {
            to - from
        } else {
            to + self.slots - from
        }
    }

    #[inline]
    fn home(&self, key: &[u32]) -> usize {
        let mut hasher = self.hasher.build_hasher();
        for pair in key.chunks(2) {
            let second = pair.get(1).copied().unwrap_or(0);
            hasher.write_u64(u64::from(pair[0]) << 32 | u64::from(second));
        }
        ((u128::from(hasher.finish()) * self.slots as u128) >> 64) as usize
    }

    /// Where `key` is, or where it would go.
    #[inline]
    fn probe(&self, key: &[u32; N]) -> usize {
        let mut index = self.home(key);
        while self.value(index).is_some() && self.key(index) != key {
            index = self.next(index);
        }
        index
    }
}

/// The key of a tunnel.
#[inline]
pub fn tunnel_key((local, teid): (LocalId, Teid)) -> [u32; 2] {
    [local.0.into(), teid.0]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn it_does_what_a_hash_map_does(steps in proptest::collection::vec((any::<bool>(), 0_u32..40), 0..400)) {
            let (mut map, mut model) = (FixedMap::<3>::new(24), HashMap::new());
            for (number, (insert, key)) in steps.into_iter().enumerate() {
                let (number, key) = (number as u32, [key % 3, key, 7]);
                if !insert {
                    prop_assert_eq!(map.remove(&key), model.remove(&key));
                } else if model.len() == 24 && !model.contains_key(&key) {
                    prop_assert_eq!(map.insert(key, number), Err(MapFull));
                } else {
                    prop_assert_eq!(map.insert(key, number), Ok(model.insert(key, number)));
                }
                prop_assert_eq!(map.room(), 24 - model.len());
            }
            for key in 0..40 {
                let key = [key % 3, key, 7];
                prop_assert_eq!(map.at(&key), model.get(&key).copied());
            }
        }
    }
}
