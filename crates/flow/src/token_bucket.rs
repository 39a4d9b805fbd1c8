//! The token bucket for everything that is not a user packet: replies, reports, log lines, new flows.
//!
//! It is the generic cell rate algorithm: a bucket is one moment, from which on it is full. One [`TokenRate`] serves
//! any number of buckets ([`TokenLevel`], 8 octets each). User packets pass [meters](crate::meter) instead.

use std::time::Duration;

use crate::Nanos;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// How fast buckets fill, and how many tokens one holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenRate {
    /// Nanoseconds per token; 0: no rate, see `slack`.
    interval: u64,
    /// How far ahead of the present a level may be for a token to be taken: the burst but for one token, in
    /// nanoseconds. Without an interval, 0: no token ever; else tokens without limit.
    slack: u64,
}

impl TokenRate {
    /// Tokens without limit.
    pub const UNLIMITED: Self = Self {
        interval: 0,
        slack: 1,
    };
    /// No token ever.
    pub const NONE: Self = Self {
        interval: 0,
        slack: 0,
    };

    /// `burst` tokens at once, 0 being taken as 1, and one `every` so often in the long run.
    pub fn new(every: Duration, burst: u32) -> Self {
        let interval = u64::try_from(every.as_nanos()).unwrap_or(u64::MAX);
        if interval == 0 {
            return Self::UNLIMITED;
        }
        let slack = interval.saturating_mul(burst.saturating_sub(1).into());
        Self { interval, slack }
    }

    /// `rate` tokens a second, and a second's worth at once; 0: [`NONE`](Self::NONE). The interval is rounded up to
    /// nanoseconds: the rate is not exceeded.
    pub fn per_second(rate: u32) -> Self {
        Self::per_second_with_burst(rate, rate)
    }

    /// `rate` tokens a second, and `burst` at once; a rate of 0: [`NONE`](Self::NONE).
    pub fn per_second_with_burst(rate: u32, burst: u32) -> Self {
        if rate == 0 {
            return Self::NONE;
        }
        Self::new(
            Duration::from_nanos(NANOS_PER_SECOND.div_ceil(rate.into())),
            burst,
        )
    }

    /// The same, where a rate of 0 means [`UNLIMITED`](Self::UNLIMITED).
    pub fn per_second_or_unlimited(rate: u32) -> Self {
        if rate == 0 {
            Self::UNLIMITED
        } else {
            Self::per_second(rate)
        }
    }

    /// Whether there ever is a token.
    pub const fn has_any(self) -> bool {
        self.interval > 0 || self.slack > 0
    }
}

/// The level of one bucket: the moment from which on it is full. The default is a full bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenLevel(Nanos);

impl TokenLevel {
    /// From when on the bucket is full.
    pub const fn full_at(self) -> Nanos {
        self.0
    }

    /// From when on the bucket has a token.
    pub fn ready_at(self, rate: TokenRate) -> Nanos {
        Nanos(self.0.0.saturating_sub(rate.slack))
    }

    /// Whether there is a token at `now`.
    #[inline]
    pub fn has_token(self, rate: TokenRate, now: Nanos) -> bool {
        if rate.interval == 0 {
            return rate.slack > 0;
        }
        self.0.0.saturating_sub(now.0) <= rate.slack
    }

    /// Takes a token at `now`, if there is one.
    #[inline]
    pub fn take(&mut self, rate: TokenRate, now: Nanos) -> bool {
        let has_token = self.has_token(rate, now);
        if has_token {
            self.spend(rate, now);
        }
        has_token
    }

    /// Takes `count` tokens at `now`, or none where there are fewer.
    pub fn take_many(&mut self, rate: TokenRate, now: Nanos, count: usize) -> bool {
        if count == 0 {
            return true;
        }
        let others = rate.interval.saturating_mul(count as u64 - 1);
        let mut last = Self(Nanos(self.0.0.max(now.0).saturating_add(others)));
        let has_all = last.take(rate, now);
        if has_all {
            *self = last;
        }
        has_all
    }

    /// Takes a token at `now` whether or not there is one.
    #[inline]
    pub fn spend(&mut self, rate: TokenRate, now: Nanos) {
        self.0.0 = self.0.0.max(now.0).saturating_add(rate.interval);
    }
}

/// A bucket with a rate of its own, full at first.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    rate: TokenRate,
    level: TokenLevel,
}

impl TokenBucket {
    /// `rate` tokens a second, and a second's worth at once; 0: no token ever.
    pub fn new(rate: u32) -> Self {
        Self::with_rate(TokenRate::per_second(rate))
    }

    /// A bucket of any rate and burst.
    pub fn with_rate(rate: TokenRate) -> Self {
        Self {
            rate,
            level: TokenLevel::default(),
        }
    }

    /// Whether there ever is a token.
    pub const fn has_any(&self) -> bool {
        self.rate.has_any()
    }

    /// Whether there is a token at `now`.
    #[inline]
    pub fn has_token(&self, now: Nanos) -> bool {
        self.level.has_token(self.rate, now)
    }

    /// Takes a token at `now`, if there is one.
    #[inline]
    pub fn take(&mut self, now: Nanos) -> bool {
        self.level.take(self.rate, now)
    }
}

/// One bucket for all, and one for each of many sources or sessions: a token comes out of both.
#[derive(Clone, Debug)]
pub struct KeyedTokenBuckets {
    all: TokenBucket,
    each: TokenRate,
    /// By key. Keys that differ by a multiple of the length share a bucket.
    levels: Box<[TokenLevel]>,
}

impl KeyedTokenBuckets {
    /// Full buckets: one with the rate `all`, and `buckets` (at least one) with the rate `each`.
    pub fn new(all: TokenRate, each: TokenRate, buckets: usize) -> Self {
        Self {
            all: TokenBucket::with_rate(all),
            each,
            levels: vec![TokenLevel::default(); buckets.max(1)].into(),
        }
    }

    /// Whether there is a token for `key` at `now`.
    pub fn has_token(&self, key: usize, now: Nanos) -> bool {
        let level = self.levels[key % self.levels.len()];
        self.all.has_token(now) && level.has_token(self.each, now)
    }

    /// Takes a token for `key` at `now`, if there is one.
    pub fn take(&mut self, key: usize, now: Nanos) -> bool {
        let level = &mut self.levels[key % self.levels.len()];
        self.all.has_token(now) && level.take(self.each, now) && self.all.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: u64 = NANOS_PER_SECOND;

    fn at(milliseconds: u64) -> Nanos {
        Nanos(milliseconds * 1_000_000)
    }

    #[test]
    fn the_rate_holds_over_time_and_the_burst_is_a_second() {
        let mut bucket = TokenBucket::new(10);
        assert_eq!((0..100).filter(|_| bucket.take(at(0))).count(), 10);
        assert!(!bucket.take(at(99)));
        assert!(bucket.take(at(100)) && !bucket.take(at(100)));
        assert_eq!((0..100).filter(|_| bucket.take(at(60_000))).count(), 10);
        assert_eq!((1..=1000).filter(|n| bucket.take(at(60_000 + n))).count(), 10);
        for rate in [1, 3, 7, 999, 1_000_003] {
            let mut bucket = TokenBucket::new(rate);
            assert_eq!((0..=rate).filter(|_| bucket.take(at(0))).count(), rate as usize);
        }
        let mut slow = TokenBucket::new(1);
        assert!(slow.take(Nanos(0)) && !slow.take(Nanos(ONE - 1)));
        assert!(slow.take(Nanos(ONE)));
    }

    #[test]
    fn no_rate_is_no_token_or_no_limit() {
        let mut level = TokenLevel::default();
        assert!((0..100).all(|_| level.take(TokenRate::per_second_or_unlimited(0), Nanos(0))));
        assert!(!level.take(TokenRate::per_second(0), Nanos(9 * ONE)));
        assert!(TokenRate::UNLIMITED.has_any() && !TokenRate::NONE.has_any());
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut bucket = TokenBucket::new(1);
        assert!(bucket.take(Nanos(5 * ONE)));
        assert!(!bucket.take(Nanos(0)));
        assert!(!bucket.take(Nanos(5 * ONE)));
        assert!(bucket.take(Nanos(6 * ONE)));
    }

    #[test]
    fn many_tokens_are_taken_all_or_none() {
        let rate = TokenRate::per_second(10);
        let mut level = TokenLevel::default();
        assert!(!level.take_many(rate, at(0), 11));
        assert!(level.take_many(rate, at(0), 7) && !level.take_many(rate, at(0), 4));
        assert!(level.take_many(rate, at(0), 3) && level.take_many(rate, at(0), 0));
        assert_eq!((level.full_at(), level.ready_at(rate)), (at(1_000), at(100)));
    }

    #[test]
    fn each_key_has_its_rate_and_all_have_one() {
        let mut buckets = KeyedTokenBuckets::new(TokenRate::per_second(100), TokenRate::per_second(10), 64);
        assert_eq!((0..100).filter(|_| buckets.take(1, at(0))).count(), 10);
        assert!(!buckets.has_token(1, at(0)) && buckets.has_token(2, at(0)));
        let others = (0..10_000).filter(|key| buckets.take(*key, at(0)));
        assert_eq!(others.count(), 90);
        assert!(!buckets.has_token(2, at(0)));
    }
}
