//! A bit for each block.

use std::ops::Range;

/// Bits by number. Those beyond the end are not set.
#[derive(Debug)]
pub(crate) struct Bits(Vec<u64>);

/// The word of a bit, and the bit in it.
const fn place(bit: u32) -> (usize, u64) {
    ((bit / u64::BITS) as usize, 1 << (bit % u64::BITS))
}

impl Bits {
    /// This number of bits, none of them set.
    pub(crate) fn new(count: u32) -> Self {
        Self(vec![0; count.div_ceil(u64::BITS) as usize])
    }

    pub(crate) fn has(&self, bit: u32) -> bool {
        let (word, mask) = place(bit);
        self.0.get(word).is_some_and(|bits| bits & mask != 0)
    }

    pub(crate) fn set(&mut self, bit: u32, is_set: bool) {
        let (word, mask) = place(bit);
        if let Some(bits) = self.0.get_mut(word) {
            *bits = if is_set { *bits | mask } else { *bits & !mask };
        }
    }

    /// Of the bits of `range` that are set, the one before which there are `skip` others. Takes a step for each 64 bits
    /// of the range, and for each bit of the last 64 at most.
    pub(crate) fn nth_of(&self, range: Range<u32>, mut skip: u32) -> Option<u32> {
        let mut from = range.start;
        while from < range.end {
            let (word, _) = place(from);
            let end = ((word as u32 + 1) * u64::BITS).min(range.end);
            let mask = u64::MAX >> (u64::BITS - (end - from)) << (from % u64::BITS);
            let mut bits = self.0.get(word)? & mask;
            let count = bits.count_ones();
            if skip < count {
                for _ in 0..skip {
                    bits &= bits - 1;
                }
                return Some(word as u32 * u64::BITS + bits.trailing_zeros());
            }
            skip -= count;
            from = end;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_nth_bit_is_that_of_a_plain_search(
            set in prop::collection::btree_set(0u32..200, 0..80), range in (0u32..210, 0u32..210), skip in 0u32..40,
        ) {
            let mut bits = Bits::new(200);
            set.iter().for_each(|bit| bits.set(*bit, true));
            prop_assert!((0..300).all(|bit| bits.has(bit) == set.contains(&bit)));
            let range = range.0.min(range.1)..range.0.max(range.1);
            let expected = set.iter().copied().filter(|bit| range.contains(bit)).nth(skip as usize);
            prop_assert_eq!(bits.nth_of(range, skip), expected);
            set.iter().for_each(|bit| bits.set(*bit, false));
            prop_assert_eq!(bits.nth_of(0..200, 0), None);
        }
    }
}
