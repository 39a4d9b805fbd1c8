//! One bucket of the table: eight slots in one cache line.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Tick;
use crate::lanes::TAGS as SLOTS;
use crate::lanes::probe;

/// Eight tags, the ticks at which their flows expire, and where their entries are.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(super) struct BucketLine {
    /// 16 bits of the key's hash; 0: the slot is free.
    tags: [u16; SLOTS],
    expires: [u16; SLOTS],
    /// The number of the entry, and [`DISPLACED`].
    entries: [u32; SLOTS],
}

/// In what a slot has of its entry: this is not the first bucket of its key, but the other one.
const DISPLACED: u32 = 1 << 31;

const _: () = assert!(size_of::<BucketLine>() == 64);

/// What one slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) tag: u16,
    pub(super) expires: Tick,
    /// The number of the entry, below 2^31.
    pub(super) entry: u32,
    /// This is not the first bucket of its key, but the other one.
    pub(super) is_displaced: bool,
}

impl BucketLine {
    /// The slots with this tag, bit n for slot n; those that are free for tag 0.
    #[inline(always)]
    pub(super) fn matches(&self, tag: u16) -> u32 {
        probe(&self.tags, tag)
    }

    /// The first free slot.
    #[inline(always)]
    pub(super) fn free_slot(&self) -> Option<usize> {
        let free = self.matches(0);
        (free != 0).then(|| free.trailing_zeros() as usize)
    }

    /// The number of the entry in `slot`.
    #[inline(always)]
    pub(super) fn entry(&self, slot: usize) -> u32 {
        self.entries[slot % SLOTS] & !DISPLACED
    }

    pub(super) fn slot(&self, slot: usize) -> Slot {
        let slot = slot % SLOTS;
        Slot {
            tag: self.tags[slot],
            expires: Tick(self.expires[slot]),
            entry: self.entry(slot),
            is_displaced: self.entries[slot] & DISPLACED != 0,
        }
    }

    /// The tag of each slot; 0: it is free.
    #[inline(always)]
    pub(super) fn tags(&self) -> impl DoubleEndedIterator<Item = u16> {
        self.tags.into_iter()
    }

    pub(super) fn set(&mut self, slot: usize, content: Slot) {
        let slot = slot % SLOTS;
        self.tags[slot] = content.tag;
        self.expires[slot] = content.expires.0;
        self.entries[slot] = content.entry | if content.is_displaced { DISPLACED } else { 0 };
    }

    pub(super) fn clear(&mut self, slot: usize) {
        self.tags[slot % SLOTS] = 0;
    }

    /// Puts off the expiry of `slot`, if it still has this entry. The line is written only when that changes something.
    #[inline(always)]
    pub(super) fn put_off(&mut self, slot: usize, entry: u32, expires: Tick) {
        let slot = slot % SLOTS;
        if self.expires[slot] != expires.0 && self.entry(slot) == entry {
            self.expires[slot] = expires.0;
        }
    }

    /// The occupied slots that expired before `now`, bit n for slot n.
    pub(super) fn expired(&self, now: Tick) -> u32 {
        // All at once first: nearly always there is none.
        let gone = |slot: usize| self.tags[slot] != 0 && Tick(self.expires[slot]).is_before(now);
        if !(0..SLOTS).fold(false, |any, slot| any | gone(slot)) {
            return 0;
        }
        (0..SLOTS).fold(0, |mask, slot| mask | u32::from(gone(slot)) << slot)
    }
}
