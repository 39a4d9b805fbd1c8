//! A burst's worth of things in a place of fixed size.

/// Packets that a worker takes, works on and sends at once.
pub const BURST: usize = 64;

/// Up to [`BURST`] things in order. It allocates when it is made and never again.
#[derive(Debug)]
pub struct Batch<T> {
    items: Vec<T>,
}

impl<T> Batch<T> {
    /// An empty batch.
    pub fn new() -> Self {
        Self {
            items: Vec::with_capacity(BURST),
        }
    }

    /// Adds `item` at the end, or gives it back when the batch is full.
    ///
    /// # Errors
    /// The item, when there are [`BURST`] already.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.items.len() >= BURST {
            return Err(item);
        }
        self.items.push(item);
        Ok(())
    }

    /// How many more fit.
    #[inline]
    pub fn room(&self) -> usize {
        BURST - self.items.len()
    }

    /// Whether nothing fits any more.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.room() == 0
    }

    /// Takes everything out, in order. What the caller does not take is dropped.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, T> {
        self.items.drain(..)
    }

    /// Takes out the first, if there is one. The others move up.
    pub fn pop_first(&mut self) -> Option<T> {
        self.items.drain(..self.items.len().min(1)).next()
    }

    /// Takes out the first `n` (or all, if there are fewer), in order.
    #[inline]
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, T> {
        self.items.drain(..n.min(self.items.len()))
    }

    /// Bit n: there is something at place n.
    #[inline]
    pub fn places(&self) -> u64 {
        match self.items.len() {
            0 => 0,
            some => u64::MAX >> (BURST - some),
        }
    }

    /// Moves what is at the `chosen` places, bit n for place n, to the end, in its order, and the rest to the front, in
    /// any. Returns where the end begins.
    #[inline]
    pub fn partition(&mut self, chosen: u64) -> usize {
        let mut left = chosen & self.places();
        let mut begin = self.items.len();
        while left != 0 {
            let last = left.ilog2() as usize;
            left ^= 1 << last;
            begin -= 1;
            // What is between the two is not chosen.
            self.items.swap(last, begin);
        }
        begin
    }

    /// Takes out what is at place `n` and behind it, in order.
    #[inline]
    pub fn drain_from(&mut self, n: usize) -> std::vec::Drain<'_, T> {
        self.items.drain(n.min(self.items.len())..)
    }

    /// Drops everything.
    #[inline]
    pub fn clear(&mut self) {
        self.items.clear();
    }
}

impl<T> Default for Batch<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> std::ops::Deref for Batch<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        &self.items
    }
}

impl<T> std::ops::DerefMut for Batch<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.items
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_chosen_comes_last_and_in_order(len in 0..=BURST, chosen: u64) {
            let mut batch = Batch::new();
            (0..len).for_each(|n| assert_eq!(batch.push(n), Ok(())));
            let (all, begin) = (batch.places(), batch.partition(chosen));
            let at = |places: u64| (0..len).filter(move |&n| places >> n & 1 == 1);
            prop_assert_eq!(at(all).count(), len);
            prop_assert_eq!(batch.drain_from(begin).collect::<Vec<_>>(), at(chosen).collect::<Vec<_>>());
            let mut rest: Vec<_> = batch.drain().collect();
            rest.sort_unstable();
            prop_assert_eq!(rest, at(!chosen).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_batch_holds_a_burst_and_no_more() {
        let mut batch = Batch::new();
        for n in 0..BURST {
            assert_eq!(batch.push(n), Ok(()));
        }
        assert!(batch.is_full());
        assert_eq!(batch.push(99), Err(99));
        assert_eq!(batch.drain_front(2).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((batch.room(), batch[0]), (2, 2));
        batch.clear();
        assert_eq!(batch.room(), BURST);
    }
}
