//! A fixed array of up to [`BURST_MAX`] packets: what queues, rings and pools take and give in one call.

use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

use dpdk_sys as sys;

use crate::mbuf::{self, Mbuf};

/// The most packets in a burst.
pub const BURST_MAX: usize = 64;

/// Up to [`BURST_MAX`] owned packets, in order. Dropping or clearing it frees them all at once.
///
/// It is a slice of [`Mbuf`]: `burst[i]`, `burst.iter_mut()`, `burst.swap(i, j)`.
pub struct Burst {
    /// The first `len` are initialised.
    slots: [MaybeUninit<Mbuf>; BURST_MAX],
    len: usize,
}

impl Burst {
    /// An empty burst.
    #[inline]
    pub const fn new() -> Burst {
        Burst {
            slots: [const { MaybeUninit::uninit() }; BURST_MAX],
            len: 0,
        }
    }

    /// How many packets still fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST_MAX - self.len
    }

    /// Whether no packet fits any more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == BURST_MAX
    }

    /// Adds a packet at the end; gives it back when the burst is full.
    #[inline]
    pub fn push(&mut self, mbuf: Mbuf) -> Result<(), Mbuf> {
        match self.slots.get_mut(self.len) {
            Some(slot) => {
                slot.write(mbuf);
                self.len += 1;
                Ok(())
            }
            None => Err(mbuf),
        }
    }

    /// Takes the last packet.
    #[inline]
    pub fn pop(&mut self) -> Option<Mbuf> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the slot was below the old `len`, so initialised, and is now above it, so not used again.
        Some(unsafe { self.slots[self.len].assume_init_read() })
    }

    /// Takes packet `index`, putting the last in its place; None when there is no such packet.
    #[inline]
    pub fn swap_remove(&mut self, index: usize) -> Option<Mbuf> {
        let last = self.len.checked_sub(1)?;
        if index > last {
            return None;
        }
        self.swap(index, last);
        self.pop()
    }

    /// Takes all packets, first to last. What is not taken is freed when the iterator is dropped.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let end = std::mem::take(&mut self.len);
        Drain {
            slots: &mut self.slots[..end],
            next: 0,
        }
    }

    /// Frees all packets, with one foreign call.
    #[inline]
    pub fn clear(&mut self) {
        let len = std::mem::take(&mut self.len);
        // SAFETY: the first `len` slots were initialised, and `len` is now 0, so they are not used again.
        unsafe { mbuf::free_bulk(&mut self.slots[..len]) };
    }

    /// Frees the first `count` packets, with one foreign call. The rest move up.
    pub(crate) fn free_front(&mut self, count: usize) {
        let free = |slots: *mut *mut sys::rte_mbuf, len: u16| {
            let count = count.min(len.into());
            // SAFETY: the first `len` slots are initialised, of which these are given up.
            unsafe { mbuf::free_bulk(std::slice::from_raw_parts_mut(slots.cast(), count)) };
            count
        };
        // SAFETY: as many are taken over as is said, and freed.
        unsafe { self.take_front(free) };
    }

    /// Lets `fill(first_free_slot, room)` store packets behind the last; returns how many it did.
    ///
    /// # Safety
    ///
    /// `fill` returns at most `room`, having stored that many owned packets from the slot on.
    #[inline]
    pub(crate) unsafe fn fill(&mut self, fill: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> usize) -> usize {
        let room = self.room() as u16;
        let free = self.slots[self.len..].as_mut_ptr().cast::<*mut sys::rte_mbuf>();
        let count = fill(free, room);
        debug_assert!(count <= usize::from(room));
        self.len += count;
        count
    }

    /// Lets `take(first_slot, len)` take packets from the front; returns how many it did. The rest move up.
    ///
    /// # Safety
    ///
    /// `take` returns at most `len`, having taken over that many packets from the first on.
    #[inline]
    pub(crate) unsafe fn take_front(
        &mut self,
        take: impl FnOnce(*mut *mut sys::rte_mbuf, u16) -> usize,
    ) -> usize {
        let len = self.len;
        let count = take(self.slots.as_mut_ptr().cast::<*mut sys::rte_mbuf>(), len as u16);
        debug_assert!(count <= len);
        self.len = len - count;
        if count != 0 && self.len != 0 {
            let slots = self.slots.as_mut_ptr();
            // SAFETY: `count..len` is within the array; the slots below `count` hold no packet of this burst any more.
            unsafe { std::ptr::copy(slots.add(count), slots, self.len) };
        }
        count
    }
}

impl Default for Burst {
    fn default() -> Burst {
        Burst::new()
    }
}

impl Drop for Burst {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Deref for Burst {
    type Target = [Mbuf];

    #[inline]
    fn deref(&self) -> &[Mbuf] {
        // SAFETY: the first `len` slots are initialised, and MaybeUninit<Mbuf> is laid out as Mbuf.
        unsafe { std::slice::from_raw_parts(self.slots.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Burst {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Mbuf] {
        // SAFETY: as for `deref`; the exclusive borrow is passed on.
        unsafe { std::slice::from_raw_parts_mut(self.slots.as_mut_ptr().cast(), self.len) }
    }
}

impl std::fmt::Debug for Burst {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The packets of a [`Burst`], taken one after the other.
pub struct Drain<'a> {
    /// Those from `next` on are initialised.
    slots: &'a mut [MaybeUninit<Mbuf>],
    next: usize,
}

impl Iterator for Drain<'_> {
    type Item = Mbuf;

    #[inline]
    fn next(&mut self) -> Option<Mbuf> {
        let slot = self.slots.get(self.next)?;
        self.next += 1;
        // SAFETY: slots from the old `next` on are initialised; this one is now before `next`, so not used again.
        Some(unsafe { slot.assume_init_read() })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.slots.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    fn drop(&mut self) {
        // SAFETY: the slots from `next` on are initialised; the burst's length is 0, so they are not used again.
        unsafe { mbuf::free_bulk(&mut self.slots[self.next..]) };
    }
}
