//! Session indexes: the dense numbers by which control and workers call a session.
//!
//! Owned by control. An index is given out again only after the worker has confirmed the removal of its last session,
//! the longest free one first.

use std::collections::VecDeque;

use flow::SessionIndex;

/// All indexes below a bound.
#[derive(Debug)]
pub struct Indexes {
    next: u32,
    max: u32,
    free: VecDeque<SessionIndex>,
}

impl Indexes {
    /// Indexes `0..max`.
    pub fn new(max: u32) -> Indexes {
        Indexes {
            next: 0,
            max,
            free: VecDeque::new(),
        }
    }

    /// A free index; `None` when all `max` are in use.
    pub fn take(&mut self) -> Option<SessionIndex> {
        if let Some(index) = self.free.pop_front() {
            return Some(index);
        }
        let index = (self.next < self.max).then_some(SessionIndex(self.next))?;
        self.next += 1;
        Some(index)
    }

    /// Gives an index of [`Indexes::take`] back.
    pub fn give_back(&mut self, index: SessionIndex) {
        self.free.push_back(index);
    }

    /// How many are in use.
    pub fn in_use(&self) -> usize {
        self.next as usize - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_dense_bounded_and_the_longest_free_comes_first() {
        let mut indexes = Indexes::new(3);
        let taken: Vec<_> = std::iter::from_fn(|| indexes.take()).collect();
        assert_eq!(taken, [SessionIndex(0), SessionIndex(1), SessionIndex(2)]);
        indexes.give_back(SessionIndex(1));
        indexes.give_back(SessionIndex(0));
        assert_eq!(indexes.in_use(), 1);
        assert_eq!(indexes.take(), Some(SessionIndex(1)));
        assert_eq!(indexes.take(), Some(SessionIndex(0)));
        assert_eq!(indexes.take(), None);
        assert_eq!(indexes.in_use(), 3);
    }
}
