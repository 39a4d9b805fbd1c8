//! Lists of numbers in chunks of one cache line each: the slots of timing wheels, and the rings of nodes.
//!
//! What waits is linked outside of itself, so that lists are run through without touching what is in them. A list is
//! two positions; a position is a place in the array of all chunks. The last place of a chunk is where the next one
//! begins.

use flow::prefetch;
use flow::slab::{OutOfMemory, Slab};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Places of a chunk.
const CHUNK: u32 = 16;
/// Numbers in a chunk.
const ROOM: u32 = CHUNK - 1;

/// A list: first in, first out. Zeros are an empty one without a chunk, as the first chunk is in no list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Fifo {
    /// Where the first number is.
    front: u32,
    /// Where the next one will be.
    back: u32,
}

impl Fifo {
    #[inline(always)]
    pub(crate) const fn is_empty(self) -> bool {
        self.back == self.front
    }

    /// Whether it has at most this many, all in one chunk.
    #[inline(always)]
    pub(crate) const fn is_short(self, most: u32) -> bool {
        self.back.wrapping_sub(self.front) <= most
    }
}

/// The chunks of all lists.
pub(crate) struct Chunks {
    places: Slab<u32>,
    /// Where the first begins that is free, of those that were in use; 0: none.
    free: u32,
    /// Those from here on were never in use.
    fresh: u32,
}

/// Where the chunk of a position begins.
#[inline(always)]
const fn start(position: u32) -> u32 {
    position & !(CHUNK - 1)
}

impl Chunks {
    /// Room for lists of several kinds: up to how many numbers there are in all lists of a kind, and how many lists.
    /// Those of all kinds but the first may keep a chunk.
    pub(crate) fn new(kinds: &[(usize, usize)]) -> Result<Self, OutOfMemory> {
        // All but the first and the last chunk of a list are full, and none is empty.
        let of = |&(numbers, lists): &(usize, usize)| (numbers / ROOM as usize + 2 * lists).min(numbers);
        // Those that are empty may keep one.
        let kept = kinds.iter().skip(1).map(|kind| kind.1).sum::<usize>();
        let count = kinds.iter().map(of).sum::<usize>() + kept + 2;
        Ok(Self {
            places: Slab::new(count * CHUNK as usize)?,
            free: 0,
            fresh: CHUNK,
        })
    }

    #[inline(always)]
    fn at(&self, position: u32) -> u32 {
        self.places[position as usize]
    }

    #[inline(always)]
    fn set(&mut self, position: u32, number: u32) {
        self.places[position as usize] = number;
    }

    fn take(&mut self) -> u32 {
        let chunk = self.free;
        if chunk == 0 {
            self.fresh += CHUNK;
            return self.fresh - CHUNK;
        }
        self.free = self.at(chunk + ROOM);
        chunk
    }

    fn give_back(&mut self, chunk: u32) {
        self.set(chunk + ROOM, self.free);
        self.free = chunk;
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, list: &mut Fifo, number: u32) {
        if list.back != 0 && list.back % CHUNK != ROOM {
            self.set(list.back, number);
            list.back += 1;
            return;
        }
        self.push_chunk(list, number);
    }

    #[inline(never)]
    fn push_chunk(&mut self, list: &mut Fifo, number: u32) {
        let new = self.take();
        self.set(new, number);
        if list.back == 0 {
            list.front = new;
        } else {
            self.set(list.back, new);
        }
        list.back = new + 1;
    }

    /// The first number.
    #[inline(always)]
    pub(crate) fn front(&self, list: Fifo) -> Option<u32> {
        (!list.is_empty()).then(|| self.at(list.front))
    }

    /// The number `ahead` behind the first, at most 14, if it is near.
    #[inline]
    pub(crate) fn ahead(&self, list: Fifo, ahead: u32) -> Option<u32> {
        let first = start(list.front);
        let mut position = list.front + ahead;
        let mut chunk = first;
        if position - first >= ROOM {
            if list.is_empty() || start(list.back) == first {
                return None;
            }
            chunk = self.at(first + ROOM);
            position = chunk + (position - first - ROOM);
        }
        (position < list.back || start(list.back) != chunk).then(|| self.at(position))
    }

    /// Asks for the first chunk of a list.
    #[inline(always)]
    pub(crate) fn prefetch(&self, list: Fifo) {
        prefetch::nth(&self.places, list.front as usize);
    }

    /// The numbers in the first chunk of a list, in order.
    #[inline(always)]
    pub(crate) fn first_of(&self, list: Fifo) -> &[u32] {
        let first = start(list.front);
        let end = match start(list.back) {
            last if last == first => list.back,
            _ => first + ROOM,
        };
        self.places
            .get(list.front as usize..end as usize)
            .unwrap_or_default()
    }

    /// Takes the first number. A list that is empty then has no chunk.
    #[inline]
    pub(crate) fn pop(&mut self, list: &mut Fifo) -> Option<u32> {
        let number = self.pop_and_keep(list)?;
        if list.is_empty() {
            self.give_back(list.front);
            *list = Fifo::default();
        }
        Some(number)
    }

    /// Puts the first number behind all others.
    #[inline(always)]
    pub(crate) fn rotate(&mut self, list: &mut Fifo) {
        // One alone stays where it is.
        if list.back.wrapping_sub(list.front) != 1
            && let Some(first) = self.pop_and_keep(list)
        {
            self.push(list, first);
        }
    }

    /// Takes the first number. A list that is empty then keeps a chunk, for lists that are so often.
    #[inline(always)]
    pub(crate) fn pop_and_keep(&mut self, list: &mut Fifo) -> Option<u32> {
        let number = self.front(*list)?;
        let chunk = start(list.front);
        list.front += 1;
        if list.front == list.back {
            (list.front, list.back) = (chunk, chunk);
        } else if list.front % CHUNK == ROOM {
            list.front = self.at(list.front);
            prefetch::nth(&self.places, list.front as usize);
            self.give_back(chunk);
        }
        Some(number)
    }

    /// Takes a number out, wherever it is; the first one takes its place. Whether it was there.
    pub(crate) fn remove(&mut self, list: &mut Fifo, number: u32) -> bool {
        let (mut position, first) = (list.front, self.front(*list));
        while position != list.back {
            if position % CHUNK == ROOM {
                position = self.at(position);
                continue;
            }
            if self.at(position) == number {
                self.set(position, first.unwrap_or(number));
                self.pop(list);
                return true;
            }
            position += 1;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn lists_are_queues_in_no_more_chunks_than_are_promised(
            steps in prop::collection::vec((0_usize..3, 0_u8..8, 0_u32..200), 1..600),
        ) {
            let mut chunks = Chunks::new(&[(0, 0), (200, 3)]).unwrap();
            let mut lists = [Fifo::default(); 3];
            let mut model: [VecDeque<u32>; 3] = Default::default();
            let mut held = 0;
            for (number, (list, what, ahead)) in steps.into_iter().enumerate() {
                match what {
                    0..=4 if held < 200 => {
                        chunks.push(&mut lists[list], number as u32);
                        model[list].push_back(number as u32);
                        held += 1;
                    }
                    7 if !model[list].is_empty() => {
                        let at = ahead as usize % model[list].len();
                        let gone = model[list][at];
                        prop_assert!(chunks.remove(&mut lists[list], gone));
                        let first = model[list].pop_front().unwrap();
                        if at > 0 {
                            model[list][at - 1] = first;
                        }
                        held -= 1;
                        prop_assert!(!chunks.remove(&mut lists[list], gone));
                    }
                    _ => {
                        let popped = model[list].pop_front();
                        held -= usize::from(popped.is_some());
                        let found = if what == 6 { chunks.pop(&mut lists[list]) } else { chunks.pop_and_keep(&mut lists[list]) };
                        prop_assert_eq!(found, popped);
                    }
                }
                let ahead = ahead % 15;
                prop_assert_eq!(chunks.ahead(lists[list], ahead), model[list].get(ahead as usize).copied());
                prop_assert_eq!(chunks.front(lists[list]), model[list].front().copied());
                let first = chunks.first_of(lists[list]);
                prop_assert_eq!(first.is_empty(), model[list].is_empty());
                prop_assert!(model[list].iter().take(first.len()).eq(first));
                prop_assert_eq!(lists[list].is_empty(), model[list].is_empty());
            }
        }
    }
}
