//! A hash index of numbers, in buckets of a line: a search reads one line, and seldom another.
//!
//! A slot has 32 bits: one more than a number, and above it as many bits of the hash as there is room for, so that a
//! search seldom looks at an item that is not meant. A number may be there more than once. Where a bucket is full, the
//! next one takes the number ([`Passed`]). The hashes are the caller's, and keyed: a sender that chooses what is hashed
//! cannot choose where it is.

use flow::lanes::{self, LANES};
use flow::prefetch;
use flow::slab::{OutOfMemory, Slab};
use zerocopy::FromZeros;

use super::passed::Passed;

/// Numbers of a bucket.
const SLOTS: usize = LANES;
/// Of them are taken, on average, where the index has all its numbers.
const TAKEN: usize = 12;

/// A line of slots. One that is free is 0.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Bucket([u32; SLOTS]);

impl Bucket {
    /// The slots that have the bits of `mask` as `wanted` has them: bit n is slot n.
    #[inline(always)]
    fn matching(&self, wanted: u32, mask: u32) -> u32 {
        lanes::matching(&self.0, wanted, mask)
    }

    fn slot_of(&self, entry: u32) -> Option<usize> {
        self.0.iter().position(|other| *other == entry)
    }
}

/// Numbers by hash.
pub(super) struct Index {
    buckets: Slab<Bucket>,
    passed: Passed,
    /// The bits of a slot that hold one more than the number.
    numbers: u32,
}

impl Index {
    /// Room for `capacity` numbers, which are below `below`, at most 2^31.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(capacity: usize, below: usize) -> Result<Self, OutOfMemory> {
        let most = u32::try_from(below.max(1)).unwrap_or(u32::MAX);
        let buckets = capacity.div_ceil(TAKEN).max(1);
        Ok(Self {
            buckets: Slab::new(buckets)?,
            passed: Passed::new(buckets)?,
            numbers: u32::MAX >> most.leading_zeros(),
        })
    }

    /// How many octets it takes.
    pub fn octets(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>() + self.passed.octets()
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.buckets.len() as u128) >> 64) as usize
    }

    /// What a slot holds that has this number.
    fn entry(&self, hash: u64, number: u32) -> u32 {
        (hash as u32 & !self.numbers) | (number + 1)
    }

    /// Asks for the line where this hash is looked for first.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch::nth_far(&self.buckets, self.home(hash));
    }

    /// The number with this hash of which `is_meant` holds. It is asked of few others.
    #[inline]
    pub fn find(&self, hash: u64, is_meant: impl Fn(u32) -> bool) -> Option<u32> {
        self.find_map(hash, |number| is_meant(number).then_some(number))
    }

    /// What `meant` makes of the number with this hash that it is meant for. It is asked of few others.
    #[inline]
    pub fn find_map<T>(&self, hash: u64, meant: impl Fn(u32) -> Option<T>) -> Option<T> {
        let home = self.home(hash);
        let mut at = home;
        loop {
            let bucket = &self.buckets[at];
            let mut found = bucket.matching(hash as u32, !self.numbers);
            while found != 0 {
                let slot = found.trailing_zeros() as usize % SLOTS;
                found &= found - 1;
                // A free one may have the bits of the hash.
                let number = (bucket.0[slot] & self.numbers).checked_sub(1);
                if let Some(meant) = number.and_then(&meant) {
                    return Some(meant);
                }
            }
            at = self.passed.behind(at, home)?;
        }
    }

    /// Adds a number. There are fewer than there is room for.
    pub fn insert(&mut self, hash: u64, number: u32) {
        let entry = self.entry(hash, number);
        let mut at = self.home(hash);
        for _ in 0..self.buckets.len() {
            if let Some(slot) = self.buckets[at].slot_of(0) {
                self.buckets[at].0[slot] = entry;
                return;
            }
            self.passed.add(at);
            at = self.passed.next(at);
        }
    }

    /// Takes a number out that is there with this hash.
    pub fn remove(&mut self, hash: u64, number: u32) {
        let (entry, home) = (self.entry(hash, number), self.home(hash));
        let mut at = home;
        loop {
            if let Some(slot) = self.buckets[at].slot_of(entry) {
                self.buckets[at].0[slot] = 0;
                return self.passed.forget(home, at);
            }
            let Some(next) = self.passed.behind(at, home) else {
                return;
            };
            at = next;
        }
    }

    /// How often a number has passed a bucket that was full.
    #[cfg(test)]
    pub fn passed(&self) -> usize {
        self.passed.sum()
    }

    /// How many numbers are there.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let all = self.buckets.iter().flat_map(|bucket| bucket.0);
        all.filter(|slot| *slot != 0).count()
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
            hashes in prop::collection::vec((0u64..4, 0u64..3), 60),
            steps in prop::collection::vec((0u8..5, 0u32..60), 0..400),
        ) {
            // Few homes and few tags: most collide, and buckets are full.
            let hashes: Vec<u64> = hashes.into_iter().map(|(home, tag)| home << 62 | tag << 30).collect();
            let hash = |number: u32| hashes[number as usize];
            let (mut index, mut model) = (Index::new(60, 60).unwrap(), HashMap::new());
            for (step, number) in steps {
                let found = index.find(hash(number), |other| other == number);
                prop_assert_eq!(found.is_some(), model.contains_key(&number));
                match (step > 1, found) {
                    (true, None) => {
                        index.insert(hash(number), number);
                        model.insert(number, ());
                    }
                    (false, Some(_)) => {
                        index.remove(hash(number), number);
                        model.remove(&number);
                    }
                    _ => {}
                }
                prop_assert_eq!(index.count(), model.len());
            }
            for number in 0..60 {
                let found = index.find(hash(number), |other| other == number);
                prop_assert_eq!(found, model.get(&number).map(|()| number));
            }
            for number in 0..60 {
                index.remove(hash(number), number);
            }
            prop_assert_eq!((index.count(), index.passed.sum()), (0, 0));
        }
    }

    #[test]
    fn a_number_with_another_tag_is_not_asked_about() {
        let mut index = Index::new(1_000, 1_000).unwrap();
        index.insert(1 << 20, 7);
        assert_eq!(index.find(2 << 20, |_| panic!("asked")), None);
        assert_eq!(index.find(1 << 20, |_| true), Some(7));
        assert_eq!(index.octets(), 84 * 65);
    }

    #[test]
    fn all_that_have_one_home_have_a_place() {
        for home in [0, u64::MAX << 32] {
            let mut index = Index::new(100, 100).unwrap();
            (0..100).for_each(|number| index.insert(home, number));
            assert!((0..100).all(|number| index.find(home, |other| other == number) == Some(number)));
            (0..100).for_each(|number| index.remove(home, number));
            assert_eq!((index.count(), index.find(home, |_| true)), (0, None));
        }
    }
}
