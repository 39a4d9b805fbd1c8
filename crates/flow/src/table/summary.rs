//! A summary of each bucket: which keys cannot be in the table, from an array so small that most of it stays in the
//! caches, and by one look at it for nearly every key.
//!
//! A summary has a fingerprint of seven bits of the tag in each slot, and how many keys whose first bucket this is are
//! in their other one: only where there are some has the other bucket's summary to be asked. It changes with its
//! bucket, and with where the keys of its bucket go. Lookups neither read nor write it.

use core::ops::Range;

use super::bucket_line::BucketLine;
use crate::prefetch;
use crate::slab::{OutOfMemory, Slab};

/// Bits of a fingerprint.
const BITS: u32 = 7;
/// The bits of a tag that are its fingerprint.
const FINGERPRINT: u64 = (1 << BITS) - 1;
/// Where the number of displaced keys is: above the fingerprints.
const DISPLACED: u32 = 56;
/// All fingerprints.
const FINGERPRINTS: u64 = (1 << DISPLACED) - 1;
/// The lowest bit of each fingerprint, and the highest.
const LOW: u64 = FINGERPRINTS / FINGERPRINT;
const HIGH: u64 = LOW << (BITS - 1);
/// A number of displaced keys that is never changed again: there may be more.
const MANY: u8 = u8::MAX;

/// The summary of one bucket. All zero: it is empty, and no key is displaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Summary(u64);

impl Summary {
    /// Whether a slot may have this tag, which is not 0; false: none has.
    #[inline(always)]
    const fn may_have(self, tag: u16) -> bool {
        let differences = (self.0 & FINGERPRINTS) ^ (LOW * fingerprint(tag));
        // A borrow starts at a fingerprint that is equal, and nowhere else.
        differences.wrapping_sub(LOW) & !differences & HIGH != 0
    }

    #[inline(always)]
    const fn displaced(self) -> u8 {
        (self.0 >> DISPLACED) as u8
    }

    /// The same with the fingerprints of these tags, 0 for free slots.
    #[inline(always)]
    fn with_tags(self, tags: impl DoubleEndedIterator<Item = u16>) -> Self {
        let of_slot = |tag| if tag == 0 { 0 } else { fingerprint(tag) };
        let fingerprints = tags.rev().fold(0, |bits, tag| bits << BITS | of_slot(tag));
        Self(self.0 & !FINGERPRINTS | fingerprints)
    }

    #[inline(always)]
    const fn with_displaced(self, displaced: u8) -> Self {
        Self(self.0 & FINGERPRINTS | (displaced as u64) << DISPLACED)
    }
}

/// Seven bits of a tag that is not 0, which are never 0: tags without any share a fingerprint with others.
#[inline(always)]
const fn fingerprint(tag: u16) -> u64 {
    let bits = tag as u64 & FINGERPRINT;
    bits | (bits == 0) as u64
}

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

    /// Follows a change of the slots of `bucket`.
    #[inline]
    pub(super) fn update(&mut self, buckets: &[BucketLine], bucket: u32) {
        if let Some(line) = buckets.get(bucket as usize) {
            self.change(bucket, |summary| summary.with_tags(line.tags()));
        }
    }

    /// A key whose first bucket is `bucket` was put into its other one.
    #[inline]
    pub(super) fn add_displaced(&mut self, bucket: u32) {
        self.change(bucket, |summary| {
            summary.with_displaced(summary.displaced().saturating_add(1))
        });
    }

    /// A key whose first bucket is `bucket` is no longer in its other one.
    #[inline]
    pub(super) fn remove_displaced(&mut self, bucket: u32) {
        self.change(bucket, |summary| match summary.displaced() {
            MANY => summary,
            displaced => summary.with_displaced(displaced.saturating_sub(1)),
        });
    }

    #[inline(always)]
    fn change(&mut self, bucket: u32, change: impl FnOnce(Summary) -> Summary) {
        if let Some(summary) = self.0.get_mut(bucket as usize) {
            *summary = change(Summary(*summary)).0;
        }
    }

    /// Asks for the memory that [`may_hold`](Self::may_hold) reads first.
    #[inline(always)]
    pub(super) fn prefetch(&self, bucket: u32) {
        prefetch::nth(&self.0, bucket as usize);
    }

    /// The same, to be changed.
    #[inline(always)]
    pub(super) fn prefetch_to_write(&self, bucket: u32) {
        prefetch::nth_to_write(&self.0, bucket as usize);
    }

    /// Whether a key whose first bucket this is may be there, or in its `other` bucket, by its tag; false: it is in
    /// neither. No key has tag 0.
    #[inline(always)]
    pub(super) fn may_hold(&self, bucket: u32, other: impl FnOnce() -> u32, tag: u16) -> bool {
        let summary = self.of(bucket);
        // Keys that are there and others come in no order that a branch could follow; few are displaced.
        let is_displaced = summary.displaced() > 0 && self.of(other()).may_have(tag);
        (summary.may_have(tag) | is_displaced) & (tag != 0)
    }

    #[inline(always)]
    fn of(&self, bucket: u32) -> Summary {
        // There is no such bucket: it may hold any key.
        Summary(
            self.0
                .get(bucket as usize)
                .copied()
                .unwrap_or(LOW | u64::from(MANY) << DISPLACED),
        )
    }

    /// How many keys of `bucket` are in their other one.
    #[cfg(test)]
    pub(super) fn displaced(&self, bucket: u32) -> u8 {
        self.of(bucket).displaced()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::table::SLOTS;

    proptest! {
        /// A summary has each tag of its bucket, and of others those whose fingerprint a slot has.
        #[test]
        fn a_summary_has_the_fingerprints_of_its_bucket(
            tags in prop::array::uniform8(prop_oneof![Just(0), any::<u16>()]),
            other in 1_u16..,
            displaced: u8,
        ) {
            let summary = Summary(0).with_displaced(displaced).with_tags(tags.into_iter());
            prop_assert_eq!(summary.displaced(), displaced);
            prop_assert_eq!(summary.with_displaced(0).with_tags([0; SLOTS].into_iter()), Summary(0));
            for tag in tags.into_iter().filter(|&tag| tag != 0).chain([other]) {
                let is_there = tags.iter().any(|&of| of != 0 && fingerprint(of) == fingerprint(tag));
                prop_assert_eq!(summary.may_have(tag), is_there);
            }
        }
    }

    #[test]
    fn a_number_of_displaced_keys_that_is_too_great_stays() {
        let mut summaries = Summaries::new(2).unwrap();
        summaries.remove_displaced(1);
        assert_eq!(summaries.displaced(1), 0);
        for number in 1..=300_u16 {
            summaries.add_displaced(1);
            assert_eq!(u16::from(summaries.displaced(1)), number.min(255));
        }
        summaries.remove_displaced(1);
        assert_eq!((summaries.displaced(0), summaries.displaced(1)), (0, 255));
    }
}
