//! A token bucket for replies that strangers can provoke.

use flow::Nanos;

/// So many per second, and a burst of at most one second's worth. Integer time, nothing lost by rounding.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    /// Per second.
    rate: u64,
    /// In units of 1/10^9 of a reply.
    credit: u64,
    last: Nanos,
}

const ONE: u64 = 1_000_000_000;

impl Allowance {
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
        let passed = now.0.saturating_sub(self.last.0).min(ONE);
        self.last = self.last.max(now);
        self.credit = (self.credit + passed * self.rate).min(self.rate * ONE);
        let enough = self.credit >= ONE;
        if enough {
            self.credit -= ONE;
        }
        enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_holds_over_time_and_the_burst_is_a_second() {
        let mut allowance = Allowance::new(10);
        let at = |milliseconds: u64| Nanos(milliseconds * 1_000_000);
        assert_eq!((0..100).filter(|_| allowance.take(at(0))).count(), 10);
        assert!(!allowance.take(at(99)));
        assert!(allowance.take(at(100)));
        assert_eq!((0..100).filter(|_| allowance.take(at(60_000))).count(), 10);
        assert_eq!((1..=1000).filter(|n| allowance.take(at(60_000 + n))).count(), 10);
    }

    #[test]
    fn time_that_goes_back_gives_nothing() {
        let mut allowance = Allowance::new(1);
        assert!(allowance.take(Nanos(5 * ONE)));
        assert!(!allowance.take(Nanos(0)));
        assert!(!allowance.take(Nanos(5 * ONE)));
        assert!(allowance.take(Nanos(6 * ONE)));
        assert!(!Allowance::new(0).take(Nanos(9 * ONE)));
    }
}
