//! `Bucket`: the token bucket of a shaper, exact in integers.
//!
//! Tokens are millionths of a bit, as those of `flow::meter`: a rate of n kbit/s earns n of them in a nanosecond, so
//! that nothing is ever rounded and no remainder is carried. A packet may leave while the level is not negative, and
//! may make it so: the moment at which the next one may leave then follows from the level alone, whatever its length.
//! The bucket is less deep by the longest packet for that, so that no more than burst + rate x t leaves in any time t.

use flow::meter::Rate;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::spec::Shaper;

/// Tokens of an octet.
const OCTET: i64 = 8_000_000;
/// In place of a rate: there is no limit.
const UNLIMITED: u32 = u32::MAX;

/// A level, and how it rises. When it was so is kept beside it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(crate) struct Bucket {
    /// Tokens.
    level: i64,
    /// In kbit/s.
    rate: u32,
    /// In octets.
    depth: u32,
}

impl Bucket {
    /// A full one, for packets of up to `largest` octets.
    pub(crate) fn new(shaper: Shaper, largest: u16) -> Self {
        let mut bucket = Self {
            level: 0,
            rate: u32::try_from(shaper.rate.kbit()).unwrap_or(UNLIMITED),
            depth: shaper.effective_burst(largest).saturating_sub(u32::from(largest)),
        };
        bucket.level = bucket.full();
        bucket
    }

    const fn full(&self) -> i64 {
        self.depth as i64 * OCTET
    }

    pub(crate) const fn is_limited(&self) -> bool {
        self.rate != UNLIMITED
    }

    pub(crate) const fn rate(&self) -> Rate {
        if self.is_limited() {
            Rate::from_kbit(self.rate as u64)
        } else {
            Rate::UNLIMITED
        }
    }

    /// The level at `now`, if it was [`level`](Self::level) at `since`.
    #[inline(always)]
    pub(crate) fn level_at(&self, since: u64, now: u64) -> i64 {
        let earned = now.saturating_sub(since).saturating_mul(u64::from(self.rate));
        // What is missing: a full one is never below its level.
        let room = self.full().wrapping_sub(self.level) as u64;
        self.level.wrapping_add(earned.min(room) as i64)
    }

    /// Whether a packet may leave at `now`.
    #[inline(always)]
    pub(crate) fn conforms(&self, since: u64, now: u64) -> bool {
        self.level >= 0 || !self.is_limited() || self.level_at(since, now) >= 0
    }

    /// Lets time pass, and takes out what a packet costs. Whether another may leave at once.
    #[inline(always)]
    pub(crate) fn charge(&mut self, since: u64, now: u64, octets: u32) -> bool {
        if !self.is_limited() {
            return true;
        }
        // Those of a burst leave at one time.
        if now > since {
            self.level = self.level_at(since, now);
        }
        self.level = self.level.saturating_sub(i64::from(octets) * OCTET);
        self.level >= 0
    }

    /// Lets time pass.
    pub(crate) fn settle(&mut self, since: u64, now: u64) {
        if self.is_limited() {
            self.level = self.level_at(since, now);
        }
    }

    /// From when on a packet may leave: `since`, or the first nanosecond at which the level is not negative.
    #[inline(always)]
    pub(crate) fn due(&self, since: u64) -> u64 {
        if self.level >= 0 || !self.is_limited() {
            return since;
        }
        match u64::from(self.rate) {
            0 => u64::MAX,
            rate => since.saturating_add(self.level.unsigned_abs().div_ceil(rate)),
        }
    }

    /// Continues with the tokens of `old`, as far as they fit.
    pub(crate) fn go_on(&mut self, old: &Self) {
        if old.is_limited() {
            self.level = old.level.min(self.full());
        }
    }

    /// The level in tokens.
    pub(crate) const fn level(&self) -> i64 {
        self.level
    }

    /// Sets the level, as far as it fits.
    pub(crate) fn set_level(&mut self, tokens: i64) {
        self.level = tokens.min(self.full());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_window_has_more_than_its_burst_and_a_greedy_sender_gets_all_of_its_rate(
            kbit in 1_u64..100_000_000, burst in 0_u32..100_000,
            steps in prop::collection::vec((1_u32..=1_518, 0_u64..3_000_000), 1..100),
        ) {
            let shaper = Shaper { rate: Rate::from_kbit(kbit), burst };
            let mut bucket = Bucket::new(shaper, 1_518);
            let (mut since, mut sent) = (0, Vec::new());
            // A pause, then a packet as soon as it may leave.
            for (octets, pause) in steps {
                let now = bucket.due(since).max(since + pause);
                prop_assert!(bucket.conforms(since, now));
                let early = now.saturating_sub(1);
                prop_assert!(bucket.due(since) != now || now == since || !bucket.conforms(since, early));
                bucket.charge(since, now, octets);
                since = now;
                sent.push((now, u128::from(octets)));
            }
            // In millionths of a bit.
            let most = u128::from(shaper.effective_burst(1_518)) * 8_000_000;
            for from in 0..sent.len() {
                let mut sum = 0;
                for (now, octets) in &sent[from..] {
                    sum += octets * 8_000_000;
                    prop_assert!(sum <= most + u128::from(now - sent[from].0) * u128::from(kbit));
                }
            }
        }
    }

    #[test]
    fn a_greedy_sender_gets_its_rate_without_drift() {
        // 3 kbit/s divide no second.
        let mut bucket = Bucket::new(
            Shaper {
                rate: Rate::from_kbit(3),
                burst: 1_518,
            },
            1_518,
        );
        let (mut since, mut octets) = (0, 0);
        loop {
            let now = bucket.due(since);
            if now > 10_000_000_000_000 {
                break;
            }
            bucket.charge(since, now, 777);
            (since, octets) = (now, octets + 777);
        }
        // 3 kbit/s over 10,000 s are 3,750,000 octets.
        assert!(
            (3_750_000 - 777..=3_750_000 + 1_518).contains(&octets),
            "{octets}"
        );
    }

    #[test]
    fn without_a_rate_nothing_leaves_and_without_a_limit_all() {
        let mut none = Bucket::new(
            Shaper {
                rate: Rate::ZERO,
                burst: 0,
            },
            100,
        );
        assert!(none.conforms(0, 0));
        assert!(!none.charge(0, 0, 1));
        assert_eq!(none.due(0), u64::MAX);
        let mut all = Bucket::new(Shaper::UNLIMITED, 100);
        assert!(all.charge(0, 0, 100) && all.charge(0, 0, 100) && all.due(5) == 5);
    }
}
