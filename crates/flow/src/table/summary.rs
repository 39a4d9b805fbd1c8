//! A summary of each bucket's tags: which keys cannot be in the table, from an array so small that it stays in the
//! caches.
//!
//! A summary has a bit for each value of six bits of a tag; it is set if a slot of the bucket has such a tag. It
//! changes with its bucket and at no other time. Nothing on the fast path reads or writes it.

use core::ops::Range;

use super::bucket_line::BucketLine;
use crate::prefetch;
use crate::slab::{OutOfMemory, Slab};

/// The summaries of all buckets of a table, 8 octets each.
pub(super) struct Summaries(Slab<u64>);

impl Summaries {
    /// Of `buckets` empty buckets.
    pub(super) fn new(buckets: usize) -> Result<Self, OutOfMemory> {
        Ok(Self(Slab::new(buckets)?))
    }

    pub(super) fn area(&self) -> Range<usize> {
        self.0.area()
    }

    /// Follows a change of `bucket`. It writes without reading, so that nothing waits for the memory.
    #[inline]
    pub(super) fn update(&mut self, buckets: &[BucketLine], bucket: u32) {
        let bucket = bucket as usize;
        if let (Some(summary), Some(line)) = (self.0.get_mut(bucket), buckets.get(bucket)) {
            *summary = line.tags().fold(0, |bits, tag| bits | bit(tag));
        }
    }

    /// Asks for the memory that [`may_hold`](Self::may_hold) reads.
    #[inline(always)]
    pub(super) fn prefetch(&self, buckets: [u32; 2]) {
        for bucket in buckets {
            prefetch::nth(&self.0, bucket as usize);
        }
    }

    /// Whether one of the buckets may have a slot with this tag; false: it has none.
    #[inline(always)]
    pub(super) fn may_hold(&self, buckets: [u32; 2], tag: u16) -> bool {
        let of = |bucket: u32| self.0.get(bucket as usize).copied().unwrap_or(u64::MAX);
        (of(buckets[0]) | of(buckets[1])) & bit(tag) != 0
    }
}

/// The bit of a tag.
#[inline(always)]
const fn bit(tag: u16) -> u64 {
    1 << (tag & 63)
}
