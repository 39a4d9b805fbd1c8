//! The hash of flow keys: keyed and not linear, so that a sender that chooses packets cannot aim at a bucket.
//!
//! A chain of 64x64 -> 128 bit multiplications folded to 64 bits, each of whose operands is hidden by a secret. It is
//! no cryptographic hash; it needs a seed that is drawn at random at start and kept secret.

/// The secret of a table: random, different at each start.
#[derive(Clone, Copy)]
pub struct Seed(pub [u64; 2]);

impl core::fmt::Debug for Seed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// The most words a key may have.
const WORDS: usize = 8;

/// A hash function, chosen by its seed.
#[derive(Clone, Copy)]
pub(crate) struct Hasher {
    secrets: [u64; WORDS],
    last: u64,
}

impl Hasher {
    pub(crate) fn new(seed: Seed) -> Self {
        let mut state = Mix(seed);
        Self {
            secrets: core::array::from_fn(|_| state.next()),
            last: state.next(),
        }
    }

    /// The hash of at most [`WORDS`] words; further ones would not count.
    #[inline(always)]
    pub(crate) fn hash(&self, words: &[u64]) -> u64 {
        let mut hash = self.last;
        // A loop over numbers: it is unrolled for the length of the key.
        for pair in 0..words.len().div_ceil(2).min(WORDS / 2) {
            let [first, second] = [2 * pair, 2 * pair + 1];
            let word = |at: usize| words.get(at).copied().unwrap_or(0);
            hash = fold(
                hash ^ word(first) ^ self.secrets[first],
                word(second) ^ self.secrets[second],
            );
        }
        // The last pair must not be able to set one operand to zero and so hide the other: stir once more.
        fold(hash ^ self.last, self.secrets[0] | 1)
    }
}

/// The product's halves, one over the other.
#[inline(always)]
const fn fold(a: u64, b: u64) -> u64 {
    let product = a as u128 * b as u128;
    product as u64 ^ (product >> 64) as u64
}

/// One number of a number and a word. Each is a bijection of the other: what differs in one of them is never missed.
#[inline(always)]
pub(crate) const fn combine(number: u64, word: u64) -> u64 {
    // An odd multiplier spreads what differs.
    (number ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Draws secrets from a seed (`SplitMix64` over both halves in turn).
struct Mix(Seed);

impl Mix {
    fn next(&mut self) -> u64 {
        let Seed([a, b]) = &mut self.0;
        *a = a.wrapping_add(0x9e37_79b9_7f4a_7c15);
        *b = b.rotate_left(23).wrapping_add(*a);
        stir(*a) ^ stir(*b)
    }
}

/// A bijection of 64 bits under which each bit of the input reaches each of the output.
const fn stir(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words_of(sample: u64, count: usize) -> Vec<u64> {
        (0..count as u64).map(|place| stir(sample * 8 + place)).collect()
    }

    /// Over many keys, each bit of the hash flips for about half of them when any one bit of the key flips.
    #[test]
    fn every_key_bit_reaches_every_hash_bit() {
        const SAMPLES: u32 = 2000;
        let hasher = Hasher::new(Seed([1, 2]));
        for count in [3, 7] {
            for bit in 0..count * 64 {
                let mut flips = [0u32; 64];
                for sample in 0..u64::from(SAMPLES) {
                    let mut words = words_of(sample, count);
                    let before = hasher.hash(&words);
                    words[bit / 64] ^= 1 << (bit % 64);
                    let difference = before ^ hasher.hash(&words);
                    for (place, flips) in flips.iter_mut().enumerate() {
                        *flips += (difference >> place & 1) as u32;
                    }
                }
                let (least, most) = (flips.iter().min().unwrap(), flips.iter().max().unwrap());
                assert!(
                    *least > SAMPLES * 2 / 5 && *most < SAMPLES * 3 / 5,
                    "key bit {bit}: {least}..{most}"
                );
            }
        }
    }

    /// Keys that differ in a counter, as the flows of one UE do, spread like random ones over any power of two.
    #[test]
    fn sequential_keys_spread() {
        let hasher = Hasher::new(Seed([3, 4]));
        for shift in [0, 16, 32, 48] {
            for place in 0..3 {
                let mut seen = [0u32; 1024];
                for counter in 0..64 * 1024 {
                    let mut words = [7, 8, 9];
                    words[place] = counter;
                    seen[(hasher.hash(&words) >> shift) as usize % 1024] += 1;
                }
                // 64 each, standard deviation 8: six of them either way.
                assert!(
                    seen.iter().all(|count| (16..=112).contains(count)),
                    "shift {shift}: {seen:?}"
                );
            }
        }
    }

    proptest! {
        #[test]
        fn it_is_not_linear(a: [u64; 3], b: [u64; 3], seed: [u64; 2]) {
            prop_assume!(a != b && a != [0; 3] && b != [0; 3]);
            let hasher = Hasher::new(Seed(seed));
            let sum: Vec<u64> = a.iter().zip(&b).map(|(a, b)| a ^ b).collect();
            let parts = hasher.hash(&a) ^ hasher.hash(&b) ^ hasher.hash(&[0; 3]);
            prop_assert_ne!(hasher.hash(&sum), parts);
        }

        #[test]
        fn another_seed_is_another_function(words: [u64; 7], seed: [u64; 2], flip in 0usize..128) {
            let mut other = seed;
            other[flip / 64] ^= 1 << (flip % 64);
            prop_assert_ne!(Hasher::new(Seed(seed)).hash(&words), Hasher::new(Seed(other)).hash(&words));
        }
    }
}
