//! Tells most prefixes that are in a set from those that are not, in one look at few cache lines: a Bloom filter of one
//! hash. Most packets are for none of the addresses that rules name.

use std::net::IpAddr;

use crate::prefix::IpPrefix;

/// Bits for each prefix of the set, at least: of others, at most one in as many is taken for one of it.
const BITS_OF_ONE: usize = 8;

/// Bits of the prefixes of a set.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct PrefixFilter {
    /// As many as there are is a power of two.
    words: Box<[u64]>,
}

impl Default for PrefixFilter {
    /// Of no prefix.
    fn default() -> Self {
        Self { words: [0].into() }
    }
}

impl PrefixFilter {
    /// Of these prefixes.
    pub(super) fn of<'a>(prefixes: impl ExactSizeIterator<Item = &'a IpPrefix>) -> Self {
        let words = (prefixes.len() * BITS_OF_ONE).div_ceil(64).next_power_of_two();
        let mut filter = Self {
            words: vec![0; words].into(),
        };
        for prefix in prefixes {
            let (word, bit) = filter.place(prefix);
            filter.words[word] |= bit;
        }
        filter
    }

    /// Whether the set may have a prefix.
    pub(super) fn may_have(&self, prefix: &IpPrefix) -> bool {
        let (word, bit) = self.place(prefix);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// The word of a prefix, and its bit there.
    fn place(&self, prefix: &IpPrefix) -> (usize, u64) {
        let bits = match prefix.address() {
            IpAddr::V4(v4) => u64::from(v4.to_bits()) << 8,
            IpAddr::V6(v6) => (v6.to_bits() >> 64) as u64 ^ (v6.to_bits() as u64).rotate_left(23),
        };
        // The high bits of a product depend on all bits of the factor.
        let hash = (bits ^ u64::from(prefix.len())).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (hash >> 32) as usize & (self.words.len() - 1);
        (word, 1 << (hash >> 58))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(number: u32) -> IpPrefix {
        let address = IpAddr::from(number.wrapping_mul(0x9e37_79b1).to_be_bytes());
        IpPrefix::new(address, 32 - (number % 4) as u8).expect("a length")
    }

    #[test]
    fn what_is_in_the_set_may_be_and_most_of_the_rest_is_not() {
        for count in [0, 1, 10_000] {
            let set: Vec<IpPrefix> = (0..count).map(prefix).collect();
            let filter = PrefixFilter::of(set.iter());
            assert!(set.iter().all(|one| filter.may_have(one)), "{count}");
            let others = (20_000..30_000).filter(|number| filter.may_have(&prefix(*number)));
            assert!(others.count() < 10_000 / BITS_OF_ONE, "{count}");
        }
    }
}
