//! Token buckets: for replies that strangers can provoke, and for flows that anyone can begin.

use flow::{Nanos, SessionIndex};

/// So many per second, and a burst of at most one second's worth. Integer time, nothing lost by rounding.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// Per second.
    rate: u64,
    /// In units of 1/10^9 of a reply.
    credit: u64,
    last: Nanos,
}

const ONE: u64 = 1_000_000_000;

impl TokenBucket {
    /// `rate` replies per second, 0 for none; the bucket starts full.
    pub fn new(rate: u32) -> Self {
        let rate = u64::from(rate);
        Self {
            rate,
            credit: rate * ONE,
            last: Nanos(0),
        }
    }

    /// Whether there ever is one.
    pub fn has_any(&self) -> bool {
        self.rate > 0
    }

    /// Takes one at `now`, if there is one.
    pub fn take(&mut self, now: Nanos) -> bool {
        let enough = self.has_one(now);
        if enough {
            self.credit -= ONE;
        }
        enough
    }

    /// Whether there is one at `now`.
    pub(crate) fn has_one(&mut self, now: Nanos) -> bool {
        let passed = now.0.saturating_sub(self.last.0).min(ONE);
        self.last = self.last.max(now);
        self.credit = (self.credit + passed * self.rate).min(self.rate * ONE);
        self.credit >= ONE
    }
}

/// A rate for very many things, that each keep no more than a moment ([`Paced`]): one each `interval`, and at most one
/// second's worth at once.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Nanoseconds; 0: no limit.
    interval: u64,
}

/// When the next one would be due if they came evenly.
#[derive(Clone, Copy, Debug, Default)]
pub struct Paced(u64);

impl Pace {
    /// `rate` a second, 0 for no limit. The interval is rounded up: the rate is never above.
    pub fn new(rate: u32) -> Self {
        let interval = ONE
            .checked_div(rate.into())
            .map_or(0, |_| ONE.div_ceil(rate.into()));
        Self { interval }
    }

    /// Takes one at `now`, if there is one.
    #[inline]
    pub fn take(self, paced: &mut Paced, now: Nanos) -> bool {
        if self.interval == 0 {
            return true;
        }
        let due = paced.0.max(now.0);
        let admitted = due - now.0 <= ONE - self.interval.min(ONE);
        if admitted {
            paced.0 = due + self.interval;
        }
        admitted
    }
}

/// What may be so often in all, and for one session: of what its peers can provoke, and which no rule of it bounds.
pub(crate) struct SessionRateLimit {
    all: TokenBucket,
    each: Pace,
    notes: Box<[Paced]>,
    has_any: bool,
}

impl SessionRateLimit {
    /// Notes of when sessions have their next one. Sessions whose numbers differ by a multiple of it share one.
    const NOTES: usize = 4096;

    /// So many a second, and so many to one session; 0 for none.
    pub fn new((all, each): (u32, u32)) -> Self {
        Self {
            all: TokenBucket::new(all),
            each: Pace::new(each),
            notes: vec![Paced::default(); Self::NOTES].into(),
            has_any: all > 0 && each > 0,
        }
    }

    /// Whether there is one for a session at `now`.
    pub fn has_one(&mut self, session: SessionIndex, now: Nanos) -> bool {
        let mut note = self.notes[session.index() % Self::NOTES];
        self.has_any && self.all.has_one(now) && self.each.take(&mut note, now)
    }

    /// Takes one for a session at `now`, if there is one.
    pub fn take(&mut self, session: SessionIndex, now: Nanos) -> bool {
        let note = &mut self.notes[session.index() % Self::NOTES];
        self.has_any && self.all.has_one(now) && self.each.take(note, now) && self.all.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_time_and_the_burst_is_a_second() {
        let mut bucket = TokenBucket::new(10);
        let at = |milliseconds: u64| Nanos(milliseconds * 1_000_000);
        assert_eq!((0..100).filter(|_| bucket.take(at(0))).count(), 10);
        assert!(!bucket.take(at(99)));
        assert!(bucket.take(at(100)));
        assert_eq!((0..100).filter(|_| bucket.take(at(60_000))).count(), 10);
        assert_eq!((1..=1000).filter(|n| bucket.take(at(60_000 + n))).count(), 10);
    }

    #[test]
    fn a_pace_is_kept_over_time_and_a_burst_is_a_second() {
        let (pace, mut paced) = (Pace::new(10), Paced::default());
        let mut at = |milliseconds: u64| pace.take(&mut paced, Nanos(milliseconds * 1_000_000));
        assert_eq!((0..100).filter(|_| at(5000)).count(), 10);
        assert!(!at(5099) && at(5100) && !at(5100));
        assert_eq!((0..100).filter(|_| at(60_000)).count(), 10);
        assert_eq!((1..=1000).filter(|n| at(60_000 + n)).count(), 10);
        assert!((0..100).all(|_| Pace::new(0).take(&mut paced, Nanos(0))));
        let (slow, mut paced) = (Pace::new(1), Paced::default());
        assert!(slow.take(&mut paced, Nanos(0)) && !slow.take(&mut paced, Nanos(ONE - 1)));
        assert!(slow.take(&mut paced, Nanos(ONE)));
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut bucket = TokenBucket::new(1);
        assert!(bucket.take(Nanos(5 * ONE)));
        assert!(!bucket.take(Nanos(0)));
        assert!(!bucket.take(Nanos(5 * ONE)));
        assert!(bucket.take(Nanos(6 * ONE)));
        assert!(!TokenBucket::new(0).take(Nanos(9 * ONE)));
    }
}
