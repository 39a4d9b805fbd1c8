//! How many items each bucket of a hash table was too full for: where a search continues.
//!
//! An item is in its home bucket or, where that was full, in the first one behind it that was not. It is counted in
//! each bucket that it has passed. A search continues behind a bucket only where something has passed it: there are no
//! tombstones, nothing moves when an item is taken out, and never a rehash.

use flow::slab::{OutOfMemory, Slab};

/// A count that is no longer exact: it stays.
const MANY: u8 = u8::MAX;

/// The counts, by bucket.
pub(super) struct Passed(Slab<u8>);

impl Passed {
    /// Nothing has passed any of the buckets.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(buckets: usize) -> Result<Self, OutOfMemory> {
        Ok(Self(Slab::new(buckets)?))
    }

    pub fn octets(&self) -> usize {
        self.0.len()
    }

    /// The bucket behind another one.
    #[inline]
    pub fn next(&self, bucket: usize) -> usize {
        if bucket + 1 >= self.0.len() { 0 } else { bucket + 1 }
    }

    /// Where the search for an item continues that is not in `bucket`, and whose home is `home`.
    #[inline]
    pub fn behind(&self, bucket: usize, home: usize) -> Option<usize> {
        let is_passed = self.0.get(bucket).is_some_and(|count| *count > 0);
        let next = self.next(bucket);
        (is_passed && next != home).then_some(next)
    }

    /// An item passes a bucket.
    pub fn add(&mut self, bucket: usize) {
        if let Some(count) = self.0.get_mut(bucket) {
            *count = count.saturating_add(1);
        }
    }

    /// An item that has passed all buckets from `home` to the one before `bucket` goes.
    pub fn forget(&mut self, home: usize, bucket: usize) {
        let mut at = home;
        while at != bucket {
            if let Some(count) = self.0.get_mut(at).filter(|count| **count < MANY) {
                *count = count.saturating_sub(1);
            }
            at = self.next(at);
        }
    }

    /// All counts together.
    #[cfg(test)]
    pub fn sum(&self) -> usize {
        self.0.iter().map(|count| usize::from(*count)).sum()
    }
}
