//! What tests that draw their input draw from: a seed that is written down, and octets changed as a fuzzer does without
//! looking.
#![allow(dead_code, reason = "each test uses its part")]

use std::hash::{BuildHasher, RandomState};
use std::io::Write;

/// A number that the environment gives.
///
/// # Panics
/// If it is none.
pub fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text}: not a number")),
    )
}

/// The seed that the environment variable `name` gives, else a new one. It is written to standard error in any case,
/// around the capture of a test's output, so that the log of a run that passed has it, too.
pub fn seed(name: &str) -> u64 {
    let seed = setting(name).unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    let _ = writeln!(std::io::stderr(), "{name}={seed}");
    seed
}

/// SplitMix64.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    /// One of `corpus`, changed in one to eight places, with at most `longest` octets.
    pub fn changed(&mut self, corpus: &[Vec<u8>], longest: usize) -> Vec<u8> {
        let mut octets = corpus[self.below(corpus.len())].clone();
        for _ in 0..=self.below(8) {
            self.change(&mut octets, corpus);
        }
        octets.truncate(longest);
        octets
    }

    fn change(&mut self, octets: &mut Vec<u8>, corpus: &[Vec<u8>]) {
        const TELLING: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
        let at = self.below(octets.len());
        let some = at..(at + 1 + self.below(16)).min(octets.len());
        match self.below(8) {
            0 if !octets.is_empty() => octets[at] ^= 1 << self.below(8),
            1 if !octets.is_empty() => octets[at] = TELLING[self.below(TELLING.len())],
            2 if !octets.is_empty() => octets[at] = self.number() as u8,
            3 => octets.truncate(at),
            4 => drop(octets.drain(some)),
            5 => {
                let twice = octets[some].to_vec();
                octets.splice(at..at, twice);
            }
            6 => {
                let new: Vec<u8> = (0..=self.below(8)).map(|_| self.number() as u8).collect();
                octets.splice(at..at, new);
            }
            // The end of another.
            _ => {
                let other = &corpus[self.below(corpus.len())];
                let from = self.below(other.len());
                octets.truncate(at);
                octets.extend_from_slice(&other[from..]);
            }
        }
    }
}
