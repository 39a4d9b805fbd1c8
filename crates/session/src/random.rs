//! The source of every identifier a peer must not guess: SEIDs, TEIDs, sequence number starts.
//!
//! Owned by control (one thread). A ChaCha20 stream: seeded from the operating system in production, so that no one can
//! predict a TEID from those already seen; seeded by a number in tests, so that a whole world replays from one seed.
//! It draws no key material and is never reseeded.

use chacha20::ChaCha20Rng;
use chacha20::rand_core::{Rng, SeedableRng};

/// A deterministic, unpredictable stream of numbers.
#[derive(Debug)]
pub struct Random(ChaCha20Rng);

impl Random {
    /// A stream from a 256-bit seed: the same seed gives the same stream.
    pub fn from_seed(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    /// A stream for tests, from a small number.
    pub fn from_number(number: u64) -> Random {
        let mut seed = [0; 32];
        seed[..8].copy_from_slice(&number.to_le_bytes());
        Random::from_seed(seed)
    }

    /// A seed from the operating system's entropy.
    ///
    /// # Errors
    /// The operating system has no entropy source, which no supported system reports after boot.
    pub fn system_seed() -> Result<[u8; 32], getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(seed)
    }

    /// 32 random bits.
    pub fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Random octets, as many as there is room for.
    pub fn fill(&mut self, octets: &mut [u8]) {
        self.0.fill_bytes(octets);
    }

    /// A stream of its own, split off this one.
    pub fn split(&mut self) -> Random {
        let mut seed = [0; 32];
        for chunk in seed.chunks_exact_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        Random::from_seed(seed)
    }
}
