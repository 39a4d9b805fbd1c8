//! A hash map of fixed size whose worst case is bounded: a worker's sessions by tunnel and by address.
//!
//! Open addressing with linear probing at a load of at most one half; removal moves the followers up, so that there
//! are no tombstones and never a rehash. It allocates when it is made and never again. The hash is keyed.

use std::hash::{BuildHasher, Hash};

use flow::prefetch;

/// The map has as many keys as it was made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapFull;

/// Keys with a small value each.
pub struct FixedMap<K> {
    slots: Box<[Option<(K, u32)>]>,
    /// `slots.len() - 1`; the length is a power of two.
    mask: usize,
    len: usize,
    capacity: usize,
    hasher: foldhash::quality::RandomState,
}

impl<K: Copy + Eq + Hash> FixedMap<K> {
    /// Room for `capacity` keys.
    pub fn new(capacity: usize) -> Self {
        let slots = (capacity.max(1) * 2).next_power_of_two();
        Self {
            slots: vec![None; slots].into_boxed_slice(),
            mask: slots - 1,
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

    /// How many more keys fit.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// The value of `key`.
    #[inline]
    pub fn at(&self, key: &K) -> Option<u32> {
        self.slots[self.probe(key)].map(|(_, value)| value)
    }

    /// Asks for the memory where `key` is, if it is.
    #[inline]
    pub fn prefetch(&self, key: &K) {
        prefetch::nth(&self.slots, self.home(key));
    }

    /// Sets the value of `key` and returns the one it had.
    ///
    /// # Errors
    /// [`MapFull`], and no change, when the key is new and the map has `capacity` of them.
    pub fn insert(&mut self, key: K, value: u32) -> Result<Option<u32>, MapFull> {
        let place = self.probe(&key);
        let old = self.slots[place].map(|(_, value)| value);
        if old.is_none() {
            if self.len == self.capacity {
                return Err(MapFull);
            }
            self.len += 1;
        }
        self.slots[place] = Some((key, value));
        Ok(old)
    }

    /// Takes `key` out and returns its value.
    pub fn remove(&mut self, key: &K) -> Option<u32> {
        let mut hole = self.probe(key);
        let (_, value) = self.slots[hole].take()?;
        self.len -= 1;
        let mut place = (hole + 1) & self.mask;
        while let Some((follower, _)) = &self.slots[place] {
            let home = self.home(follower);
            // The follower may move up unless its home lies behind the hole.
            if (place.wrapping_sub(home) & self.mask) >= (place.wrapping_sub(hole) & self.mask) {
                self.slots.swap(hole, place);
                hole = place;
            }
            place = (place + 1) & self.mask;
        }
        Some(value)
    }

    #[inline]
    fn home(&self, key: &K) -> usize {
        self.hasher.hash_one(key) as usize & self.mask
    }

    /// Where `key` is, or where it would go.
    #[inline]
    fn probe(&self, key: &K) -> usize {
        let mut place = self.home(key);
        while self.slots[place].as_ref().is_some_and(|(other, _)| other != key) {
            place = (place + 1) & self.mask;
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_what_a_hash_map_does(steps in proptest::collection::vec((any::<bool>(), 0_u8..40), 0..400)) {
            let (mut map, mut model) = (FixedMap::new(24), HashMap::new());
            for (number, (insert, key)) in steps.into_iter().enumerate() {
                let number = number as u32;
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
                prop_assert_eq!(map.at(&key), model.get(&key).copied());
            }
        }
    }
}
