//! Room for the queues of UEs: adjacent lines, 1, 2, 4 or 8 of them, by halving and joining (a buddy allocator).
//!
//! Free runs of a size are a list through their first lines, so that joining takes no search.

use flow::slab::{OutOfMemory, Slab};

use crate::packets::NONE;
use crate::queue::{Counters, Queue};

/// Sizes as powers of two.
const ORDERS: usize = 4;

/// All queues.
pub(crate) struct Runs {
    pub(crate) of: Slab<Queue>,
    /// Of the queue in the same line.
    pub(crate) counters: Slab<Counters>,
    /// By line: the size of the free run that starts there, and 1.
    starts: Box<[u8]>,
    free: [u32; ORDERS],
}

/// The order of the run that this many queues are in.
pub(crate) const fn order_of(queues: u32) -> u8 {
    queues.next_power_of_two().trailing_zeros() as u8
}

impl Runs {
    pub(crate) fn new(count: u32) -> Result<Self, OutOfMemory> {
        let mut runs = Self {
            of: Slab::new(count as usize)?,
            counters: Slab::new(count as usize)?,
            starts: vec![0; count as usize].into(),
            free: [NONE; ORDERS],
        };
        // Whole runs of 8, those at the front first.
        let mut line = count;
        while line > 0 {
            let order = line.trailing_zeros().min(ORDERS as u32 - 1) as usize;
            line -= 1 << order;
            runs.put(line, order);
        }
        Ok(runs)
    }

    fn put(&mut self, line: u32, order: usize) {
        let next = self.free[order];
        (self.of[line as usize].head, self.of[line as usize].tail) = (next, NONE);
        if next != NONE {
            self.of[next as usize].tail = line;
        }
        self.free[order] = line;
        self.starts[line as usize] = order as u8 + 1;
    }

    fn unlink(&mut self, line: u32, order: usize) {
        let Queue {
            head: next,
            tail: before,
            ..
        } = self.of[line as usize];
        if before == NONE {
            self.free[order] = next;
        } else {
            self.of[before as usize].head = next;
        }
        if next != NONE {
            self.of[next as usize].tail = before;
        }
        self.starts[line as usize] = 0;
    }

    /// The first of 2^order lines, all of them [`Queue::EMPTY`].
    pub(crate) fn take(&mut self, order: u8) -> Option<u32> {
        let order = usize::from(order);
        let mut found = (order..ORDERS).find(|larger| self.free[*larger] != NONE)?;
        let line = self.free[found];
        self.unlink(line, found);
        while found > order {
            found -= 1;
            self.put(line + (1 << found), found);
        }
        self.empty(line, 1 << order);
        Some(line)
    }

    /// Makes a run twice as long, if that adjacent to it is free: where it starts then. What is in it keeps its order.
    pub(crate) fn extend(&mut self, line: u32, order: u8) -> Option<u32> {
        let length = 1 << order;
        let other = line ^ length;
        if self.starts.get(other as usize).copied() != Some(order + 1) || usize::from(order) + 1 >= ORDERS {
            return None;
        }
        self.unlink(other, usize::from(order));
        let first = line.min(other);
        self.copy(line, order, first);
        self.empty(first + length, length as usize);
        Some(first)
    }

    fn empty(&mut self, line: u32, count: usize) {
        self.of[line as usize..][..count].fill(Queue::EMPTY);
        self.counters[line as usize..][..count].fill(Counters::default());
    }

    /// Copies a run to another line.
    pub(crate) fn copy(&mut self, line: u32, order: u8, to: u32) {
        let old = line as usize..line as usize + (1 << order);
        self.of.copy_within(old.clone(), to as usize);
        self.counters.copy_within(old, to as usize);
    }

    /// Frees a run.
    pub(crate) fn give_back(&mut self, mut line: u32, order: u8) {
        self.empty(line, 1 << order);
        let mut order = usize::from(order);
        while order + 1 < ORDERS {
            let other = line ^ (1 << order);
            if self.starts.get(other as usize).copied() != Some(order as u8 + 1) {
                break;
            }
            self.unlink(other, order);
            line &= !(1 << order);
            order += 1;
        }
        self.put(line, order);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_apart_and_all_of_the_room_comes_back(
            count in 1_u32..100, steps in prop::collection::vec((0..3, 0_u8..4, any::<usize>()), 1..200),
        ) {
            let mut runs = Runs::new(count).unwrap();
            let mut held: Vec<(u32, u8)> = Vec::new();
            for (what, order, at) in steps {
                if what == 0 && !held.is_empty() {
                    let at = at % held.len();
                    let (line, order) = held[at];
                    runs.of[line as usize].packets = 7;
                    if let Some(line) = runs.extend(line, order) {
                        held.swap_remove(at);
                        let end = line + (2 << order);
                        prop_assert!(line % (2 << order) == 0 && end <= count);
                        prop_assert!(held.iter().all(|of| end <= of.0 || of.0 + (1 << of.1) <= line));
                        prop_assert_eq!(runs.of[line as usize].packets, 7);
                        held.push((line, order + 1));
                    }
                } else if what == 1 {
                    if let Some(line) = runs.take(order) {
                        let end = line + (1 << order);
                        prop_assert!(line % (1 << order) == 0 && end <= count);
                        prop_assert!(held.iter().all(|of| end <= of.0 || of.0 + (1 << of.1) <= line));
                        held.push((line, order));
                    }
                } else if !held.is_empty() {
                    let (line, order) = held.swap_remove(at % held.len());
                    runs.give_back(line, order);
                }
            }
            held.into_iter().for_each(|(line, order)| runs.give_back(line, order));
            prop_assert_eq!((0..count / 8).filter(|_| runs.take(3).is_some()).count() as u32, count / 8);
            prop_assert_eq!((0..count).filter(|_| runs.take(0).is_some()).count() as u32, count % 8);
        }
    }
}
