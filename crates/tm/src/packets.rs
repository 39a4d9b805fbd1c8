//! The packets that are held: a descriptor of 16 octets each, linked in their queues, in the caller's room for the
//! packet.

use flow::prefetch;
use flow::slab::in_huge_pages;

use crate::ids::Ecn;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Nanoseconds of a stamp, as a power of two: a packet's wait is known up to 275 s.
pub(crate) const STAMP_SHIFT: u32 = 6;

const YELLOW: u16 = 1 << 2;
const GONE: u16 = 1 << 3;
const MARKED: u16 = 1 << 4;

/// Room for a packet that is held. What its caller keeps of the packet is beside the descriptor, and best in one cache
/// line with it: that line is asked for before the packet leaves, and another one if it has two.
pub trait Room: Default {
    /// The manager's part.
    fn descriptor(&self) -> &Descriptor;
    /// The same, to change: for the manager alone.
    fn descriptor_mut(&mut self) -> &mut Descriptor;
}

impl Room for Descriptor {
    #[inline(always)]
    fn descriptor(&self) -> &Descriptor {
        self
    }

    #[inline(always)]
    fn descriptor_mut(&mut self) -> &mut Descriptor {
        self
    }
}

/// What a manager knows of a packet, where it is held: 16 octets.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Descriptor {
    /// The next in its queue.
    pub(crate) next: u32,
    /// The next yellow one in its queue.
    pub(crate) next_yellow: u32,
    stamp: u32,
    pub(crate) octets: u16,
    /// The ECN field, and what is above.
    flags: u16,
}

const _: () = assert!(size_of::<Descriptor>() == 16);

impl Default for Descriptor {
    fn default() -> Self {
        Self::new(0, false, Ecn::NotEct, 0)
    }
}

impl Descriptor {
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

/// Room for all packets.
pub(crate) struct Packets<R> {
    rooms: Box<[R]>,
    /// Slots that are free, of those that were in use: what was free last is taken first. They are not linked through
    /// their rooms, so that which is next is known before the room is there.
    free: Vec<u32>,
    /// Those from here on were never in use.
    fresh: u32,
}

impl<R: Room> Packets<R> {
    pub(crate) fn new(count: u32) -> Self {
        Self {
            rooms: in_huge_pages(count as usize, |_| R::default()),
            free: Vec::with_capacity(count as usize),
            fresh: 0,
        }
    }

    /// The room of a slot, if there is such a slot.
    #[inline(always)]
    pub(crate) fn room_mut(&mut self, slot: u32) -> Option<&mut R> {
        self.rooms.get_mut(slot as usize)
    }

    /// The descriptor of a slot.
    #[inline(always)]
    pub(crate) fn get(&self, slot: u32) -> Option<&Descriptor> {
        self.rooms.get(slot as usize).map(Room::descriptor)
    }

    /// The same, to change.
    #[inline(always)]
    pub(crate) fn get_mut(&mut self, slot: u32) -> Option<&mut Descriptor> {
        self.rooms.get_mut(slot as usize).map(Room::descriptor_mut)
    }

    /// Asks for the room of a slot, to be written.
    #[inline(always)]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch::nth_to_write(&self.rooms, slot as usize);
        prefetch::nth_second_line(&self.rooms, slot as usize);
    }

    /// Asks for the rooms of as many packets as come next.
    #[inline]
    pub(crate) fn prefetch_free(&self, count: usize) {
        let first = self.free.len().saturating_sub(count);
        self.free[first..].iter().for_each(|slot| self.prefetch(*slot));
    }

    /// A slot for this packet, if there is one.
    #[inline]
    pub(crate) fn take(&mut self, packet: Descriptor) -> Option<u32> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => self.take_fresh()?,
        };
        *self.get_mut(slot)? = packet;
        Some(slot)
    }

    fn take_fresh(&mut self) -> Option<u32> {
        let slot = self.fresh;
        ((slot as usize) < self.rooms.len()).then(|| {
            self.fresh += 1;
            slot
        })
    }

    #[inline]
    pub(crate) fn give_back(&mut self, slot: u32) {
        // There is room: they are no more than all.
        self.free.push(slot);
    }
}
