//! `Single`: one token bucket, 32 octets. All other meters are made of it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Rate;
use super::rate::{DEEPEST, depth_of};

/// One bucket. Never are there more tokens than it is deep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Single {
    pub(super) tokens: u64,
    /// Up to when tokens were earned, in nanoseconds.
    pub(super) last: u64,
    /// Tokens in a nanosecond.
    pub(super) rate: u64,
    pub(super) depth: u64,
}

const _: () = assert!(size_of::<Single>() == 32);

impl Single {
    /// Where there is no meter: everything passes.
    pub(crate) const UNLIMITED: Self = Self::new(Rate::UNLIMITED, u64::MAX);

    /// A full bucket that is `burst` octets deep. An unlimited rate makes it as deep as can be.
    pub(crate) const fn new(rate: Rate, burst: u64) -> Self {
        let depth = match rate {
            Rate::UNLIMITED => DEEPEST,
            _ => depth_of(burst),
        };
        Self {
            tokens: depth,
            last: 0,
            rate: rate.kbit(),
            depth,
        }
    }

    /// Lets time pass, and returns how much.
    #[inline(always)]
    pub(super) fn elapse(&mut self, now: u64) -> u64 {
        let before = self.last;
        self.last = now.max(before);
        self.last.wrapping_sub(before)
    }

    /// Puts in what fits.
    #[inline(always)]
    pub(super) fn earn(&mut self, earned: u64) {
        let room = self.depth.wrapping_sub(self.tokens);
        // Whether a bucket is full is not to be guessed: no branch.
        let earned = core::hint::select_unpredictable(earned < room, earned, room);
        self.tokens = self.tokens.wrapping_add(earned);
    }

    /// Lets time pass and takes out `cost`, even if there is less: then the result is negative, and so is what is left
    /// until [`put_back`](Self::put_back), which must follow. Many meters are charged faster without asking each.
    #[inline(always)]
    pub(crate) fn charge(&mut self, now: u64, cost: u64) -> i64 {
        let elapsed = self.elapse(now);
        self.earn(elapsed.saturating_mul(self.rate));
        self.tokens = self.tokens.wrapping_sub(cost);
        self.tokens as i64
    }

    /// Puts back what `charge` took out at the same time. Returns whether there was too little.
    pub(crate) fn put_back(&mut self, cost: u64) -> bool {
        self.tokens = self.tokens.wrapping_add(cost);
        self.tokens < cost
    }

    /// Continues from `old`, which may have had another rate and depth.
    pub(super) fn go_on(&mut self, old: &Self) {
        (self.tokens, self.last) = (old.tokens.min(self.depth), old.last);
    }
}
