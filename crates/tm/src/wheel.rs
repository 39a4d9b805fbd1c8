//! Timing wheels: what waits for a moment, found by the first bit that is set in three levels of words.
//!
//! There are two. What waits up to 67 ms is served up to 1.024 us late, what waits longer up to 1.05 ms: a wheel with
//! slots for both would be either too coarse for fast shapers or too short for slow ones. Nothing is served early but
//! what waits beyond the end of the slow wheel, 17 s; it has to wait again.

use flow::slab::{OutOfMemory, Slab};

use crate::chunks::{Chunks, Fifo};
use crate::spec::{FAST_REACH, FAST_SHIFT, FAST_SLOTS, SLOW_SHIFT, SLOW_SLOTS};

/// Where something waits: a slot of a wheel. Zero: nowhere.
pub(crate) type Waits = u32;

const SLOW: u32 = 1 << 31;

/// A bit for each slot, and for each word of them, and for each word of those.
struct Bits {
    slots: Box<[u64]>,
    words: Box<[u64]>,
    top: u64,
}

impl Bits {
    fn new(slots: usize) -> Self {
        Self {
            slots: vec![0; slots.div_ceil(64)].into(),
            words: vec![0; slots.div_ceil(64 * 64)].into(),
            top: 0,
        }
    }

    #[inline]
    fn set(&mut self, slot: usize) {
        self.slots[slot / 64] |= 1 << (slot % 64);
        self.words[slot / 4_096] |= 1 << (slot / 64 % 64);
        self.top |= 1 << (slot / 4_096);
    }

    #[inline]
    fn clear(&mut self, slot: usize) {
        self.slots[slot / 64] &= !(1 << (slot % 64));
        if self.slots[slot / 64] == 0 {
            self.words[slot / 4_096] &= !(1 << (slot / 64 % 64));
            if self.words[slot / 4_096] == 0 {
                self.top &= !(1 << (slot / 4_096));
            }
        }
    }

    /// The first that is set from `slot` on.
    #[inline]
    fn next(&self, slot: usize) -> Option<usize> {
        let first = self.slots[slot / 64] >> (slot % 64);
        if first != 0 {
            return Some(slot + first.trailing_zeros() as usize);
        }
        let word = slot / 64;
        let words = above(self.words[word / 64], word % 64);
        if words != 0 {
            return Some(self.first_of(word / 64 * 64 + words.trailing_zeros() as usize));
        }
        let tops = above(self.top, word / 64);
        (tops != 0).then(|| {
            let top = tops.trailing_zeros() as usize;
            self.first_of(top * 64 + self.words[top].trailing_zeros() as usize)
        })
    }

    fn first_of(&self, word: usize) -> usize {
        word * 64 + self.slots[word].trailing_zeros() as usize
    }
}

/// The bits above `bit`.
const fn above(bits: u64, bit: usize) -> u64 {
    if bit == 63 {
        0
    } else {
        bits >> (bit + 1) << (bit + 1)
    }
}

/// One wheel.
struct Wheel {
    lists: Slab<Fifo>,
    bits: Bits,
    shift: u32,
    /// The first slot that may have something, counted from time 0 on. Nothing is put before it.
    cursor: u64,
    count: usize,
    /// The slot of the time at which was [looked ahead](Self::look_ahead).
    looked: u64,
}

/// How soon something is due, for who asks for its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Soon {
    /// At the next call, if that comes as long after this one as this after the one before.
    Next,
    /// At the one after that.
    Later,
}

/// Slots that are looked at for each [`Soon`], at most.
const MOST_AHEAD: u64 = 32;

impl Wheel {
    fn new(slots: usize, shift: u32) -> Result<Self, OutOfMemory> {
        Ok(Self {
            lists: Slab::new(slots)?,
            bits: Bits::new(slots),
            shift,
            cursor: 0,
            count: 0,
            looked: 0,
        })
    }

    fn insert(&mut self, chunks: &mut Chunks, number: u32, due: u64) -> u32 {
        let last = self.cursor + (self.lists.len() as u64 - 1);
        let slot = (due.saturating_sub(1) >> self.shift) + 1;
        let slot = slot.clamp(self.cursor, last) as usize & (self.lists.len() - 1);
        let list = &mut self.lists[slot];
        if list.is_empty() {
            self.bits.set(slot);
        }
        chunks.push(list, number);
        self.count += 1;
        slot as u32
    }

    fn remove(&mut self, chunks: &mut Chunks, number: u32, slot: u32) {
        let list = &mut self.lists[slot as usize];
        if chunks.remove(list, number) {
            self.count -= 1;
            if list.is_empty() {
                self.bits.clear(slot as usize);
            }
        }
    }

    /// The first slot that is not empty, counted from time 0 on.
    #[inline]
    fn soonest(&self) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let start = self.cursor as usize & (self.lists.len() - 1);
        let slot = self.bits.next(start).or_else(|| self.bits.next(0))?;
        Some(self.cursor + (slot.wrapping_sub(start) & (self.lists.len() - 1)) as u64)
    }

    /// Takes out what is due, one at a time.
    #[inline]
    fn pop(&mut self, chunks: &mut Chunks, now: u64) -> Option<u32> {
        let target = now >> self.shift;
        if self.cursor > target {
            return None;
        }
        let mut slot = self.cursor as usize & (self.lists.len() - 1);
        // Most have others beside them.
        if self.lists[slot].is_empty() {
            let Some(soonest) = self.soonest().filter(|slot| *slot <= target) else {
                self.cursor = self.cursor.max(target + 1);
                return None;
            };
            self.cursor = soonest;
            slot = soonest as usize & (self.lists.len() - 1);
        }
        let list = &mut self.lists[slot];
        let number = chunks.pop(list);
        if list.is_empty() {
            self.bits.clear(slot);
        }
        self.count -= 1;
        number
    }

    /// Calls `each` with what will be due at the next calls, of each slot as much as is in one chunk, and asks for the
    /// chunks of those after them. It changes nothing else, and misses what is put there later.
    fn look_ahead(&mut self, chunks: &Chunks, now: u64, mut each: impl FnMut(Soon, u32)) {
        let first = (now >> self.shift) + 1;
        let step = (first - 1).saturating_sub(self.looked).min(MOST_AHEAD);
        self.looked = first - 1;
        if self.count == 0 {
            return;
        }
        let list = |slot: u64| self.lists[slot as usize & (self.lists.len() - 1)];
        for slot in first..first + step {
            let numbers = chunks.first_of(list(slot)).iter();
            numbers.for_each(|number| each(Soon::Next, *number));
            let numbers = chunks.first_of(list(slot + step)).iter();
            numbers.for_each(|number| each(Soon::Later, *number));
            chunks.prefetch(list(slot + 2 * step));
        }
    }

    fn due(&self) -> Option<u64> {
        self.soonest().map(|slot| slot << self.shift)
    }
}

/// Both wheels.
pub(crate) struct Wheels {
    fast: Wheel,
    slow: Wheel,
}

impl Wheels {
    /// Lists that they consist of.
    pub(crate) const LISTS: usize = FAST_SLOTS + SLOW_SLOTS;

    pub(crate) fn new() -> Result<Self, OutOfMemory> {
        Ok(Self {
            fast: Wheel::new(FAST_SLOTS, FAST_SHIFT)?,
            slow: Wheel::new(SLOW_SLOTS, SLOW_SHIFT)?,
        })
    }

    /// Has `number` wait until `due`.
    #[inline]
    pub(crate) fn insert(&mut self, chunks: &mut Chunks, number: u32, due: u64, now: u64) -> Waits {
        if due.saturating_sub(now) < FAST_REACH {
            self.fast.insert(chunks, number, due) + 1
        } else {
            (self.slow.insert(chunks, number, due) + 1) | SLOW
        }
    }

    /// Has it wait no longer.
    pub(crate) fn remove(&mut self, chunks: &mut Chunks, number: u32, waits: Waits) {
        let wheel = if waits & SLOW == 0 {
            &mut self.fast
        } else {
            &mut self.slow
        };
        if let Some(slot) = (waits & !SLOW).checked_sub(1) {
            wheel.remove(chunks, number, slot);
        }
    }

    /// Takes out what is due, one at a time.
    #[inline]
    pub(crate) fn pop(&mut self, chunks: &mut Chunks, now: u64) -> Option<u32> {
        self.fast.pop(chunks, now).or_else(|| self.slow.pop(chunks, now))
    }

    /// Calls `each` with what will be due soon, of what has not long to wait.
    #[inline]
    pub(crate) fn look_ahead(&mut self, chunks: &Chunks, now: u64, each: impl FnMut(Soon, u32)) {
        self.fast.look_ahead(chunks, now, each);
    }

    /// When something is due.
    pub(crate) fn due(&self) -> Option<u64> {
        let (fast, slow) = (self.fast.due(), self.slow.due());
        fast.into_iter().chain(slow).min()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn all_that_is_due_is_taken_out_once_and_in_time(
            steps in prop::collection::vec((0_u64..40, 0_u32..36, any::<bool>()), 1..300),
        ) {
            let mut chunks = Chunks::new(&[(300, Wheels::LISTS)]).unwrap();
            let mut wheels = Wheels::new().unwrap();
            let mut waiting = Vec::new();
            let mut now = 0_u64;
            for (number, (factor, power, removes)) in steps.into_iter().enumerate() {
                let due = now + (factor << power) + 1;
                let waits = wheels.insert(&mut chunks, number as u32, due, now);
                waiting.push((number as u32, due, now, waits));
                now += factor << (power / 2);
                while let Some(popped) = wheels.pop(&mut chunks, now) {
                    let at = waiting.iter().position(|of| of.0 == popped).unwrap();
                    let (_, due, since, _) = waiting.swap_remove(at);
                    let is_far = due - since > (SLOW_SLOTS as u64 - 2) << SLOW_SHIFT;
                    prop_assert!(due <= now || is_far, "early: {due} at {now}");
                }
                let mut ahead = Vec::new();
                wheels.look_ahead(&chunks, now, |_, number| ahead.push(number));
                prop_assert!(ahead.iter().all(|number| waiting.iter().any(|of| of.0 == *number)));
                for (_, due, since, _) in &waiting {
                    let late = if due - since < FAST_REACH { 1 << FAST_SHIFT } else { 1 << SLOW_SHIFT };
                    prop_assert!(*due + late > now, "late: {due} at {now}");
                }
                if removes && !waiting.is_empty() {
                    let (number, _, _, waits) = waiting.swap_remove(factor as usize % waiting.len());
                    wheels.remove(&mut chunks, number, waits);
                }
                prop_assert_eq!(wheels.due().is_some(), !waiting.is_empty());
                prop_assert!(wheels.due().is_none_or(|due| due > now));
            }
        }
    }
}
