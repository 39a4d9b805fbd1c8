//! The packets that are held: a descriptor of 16 octets each, linked in their queues. Buffers are the caller's.

use flow::slab::{OutOfMemory, Slab};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::ids::Ecn;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Nanoseconds of a stamp, as a power of two: a packet's wait is known up to 275 s.
pub(crate) const STAMP_SHIFT: u32 = 6;

const YELLOW: u16 = 1 << 2;
const GONE: u16 = 1 << 3;
const MARKED: u16 = 1 << 4;

/// A packet's descriptor.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Packet {
    /// The next in its queue, or the next that is free.
    pub(crate) next: u32,
    /// The next yellow one in its queue.
    pub(crate) next_yellow: u32,
    stamp: u32,
    pub(crate) octets: u16,
    /// The ECN field, and what is above.
    flags: u16,
}

const _: () = assert!(size_of::<Packet>() == 16);

impl Packet {
    pub(crate) fn new(octets: u16, is_yellow: bool, ecn: Ecn, since: u64) -> Self {
        Self {
            next: NONE,
            next_yellow: NONE,
            stamp: (since >> STAMP_SHIFT) as u32,
            octets,
            flags: ecn as u16 | if is_yellow { YELLOW } else { 0 },
        }
    }

    pub(crate) const fn is_yellow(&self) -> bool {
        self.flags & YELLOW != 0
    }

    /// It leaves with a mark.
    pub(crate) const fn marked(mut self, is_marked: bool) -> Self {
        if is_marked {
            self.flags |= MARKED;
        }
        self
    }

    pub(crate) const fn is_marked(&self) -> bool {
        self.flags & MARKED != 0
    }

    pub(crate) const fn ecn(&self) -> Ecn {
        Ecn::from_bits(self.flags as u8)
    }

    /// It was pushed out; its descriptor remains in its queue until it is the first.
    pub(crate) const fn is_gone(&self) -> bool {
        self.flags & GONE != 0
    }

    pub(crate) const fn set_gone(&mut self) {
        self.flags |= GONE;
    }

    /// Units of 64 ns that it has waited.
    #[inline]
    pub(crate) const fn waited(&self, now: u64) -> u32 {
        ((now >> STAMP_SHIFT) as u32).wrapping_sub(self.stamp)
    }

    /// Nanoseconds that it has waited.
    #[inline]
    pub(crate) const fn sojourn(&self, now: u64) -> u64 {
        (self.waited(now) as u64) << STAMP_SHIFT
    }
}

/// All descriptors.
pub(crate) struct Packets {
    pub(crate) of: Slab<Packet>,
    free: u32,
    /// Those from here on were never in use.
    fresh: u32,
}

impl Packets {
    pub(crate) fn new(count: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            of: Slab::new(count as usize)?,
            free: NONE,
            fresh: 0,
        })
    }

    /// A descriptor for this packet, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, packet: Packet) -> Option<u32> {
        let slot = if self.free != NONE {
            let slot = self.free;
            self.free = self.of[slot as usize].next;
            slot
        } else if (self.fresh as usize) < self.of.len() {
            self.fresh += 1;
            self.fresh - 1
        } else {
            return None;
        };
        self.of[slot as usize] = packet;
        Some(slot)
    }

    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32) {
        self.of[slot as usize].next = self.free;
        self.free = slot;
    }
}
