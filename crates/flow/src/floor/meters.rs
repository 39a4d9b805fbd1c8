//! The meters of the floors: token buckets of the size that the design's meters will have, and no more exact than a
//! benchmark needs.

/// One meter: 32 octets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Meter {
    tokens: u64,
    last: u64,
    rate: u64,
    burst: u64,
}

impl Meter {
    pub(super) const fn new(rate: u64, burst: u64) -> Self {
        Self {
            tokens: burst,
            last: 0,
            rate,
            burst,
        }
    }

    #[inline(always)]
    fn from_words(words: &[u64]) -> Self {
        Self {
            tokens: words[0],
            last: words[1],
            rate: words[2],
            burst: words[3],
        }
    }

    /// The same meter at `now`, filled up.
    #[inline(always)]
    fn at(self, now: u64) -> Self {
        let earned = now.wrapping_sub(self.last).wrapping_mul(self.rate) >> 10;
        Self {
            tokens: self.tokens.wrapping_add(earned).min(self.burst),
            last: now,
            ..self
        }
    }
}

/// Writes two meters to a line.
pub(super) fn write(words: &mut [u64; 8], meters: [Meter; 2]) {
    for (words, meter) in words.chunks_exact_mut(4).zip(meters) {
        words.copy_from_slice(&[meter.tokens, meter.last, meter.rate, meter.burst]);
    }
}

/// Checks both meters of a line and the shared one; takes tokens from all of them, or from none.
#[inline(always)]
pub(super) fn pass(words: &mut [u64; 8], shared: &mut Meter, now: u64, octets: u64) -> bool {
    let (first, second) = words.split_at_mut(4);
    let [mut a, mut b, mut c] = [
        Meter::from_words(first).at(now),
        Meter::from_words(second).at(now),
        shared.at(now),
    ];
    let green = a.tokens.min(b.tokens).min(c.tokens) >= octets;
    let taken = if green { octets } else { 0 };
    [a.tokens, b.tokens, c.tokens] = [a.tokens - taken, b.tokens - taken, c.tokens - taken];
    first[..2].copy_from_slice(&[a.tokens, a.last]);
    second[..2].copy_from_slice(&[b.tokens, b.last]);
    *shared = c;
    green
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_red_meter_costs_the_others_nothing() {
        let mut words = [0; 8];
        write(&mut words, [Meter::new(0, 1000), Meter::new(0, 99)]);
        let mut shared = Meter::new(0, 500);
        assert!(!pass(&mut words, &mut shared, 1, 100));
        assert_eq!((words[0], words[4], shared.tokens), (1000, 99, 500));
        assert!(pass(&mut words, &mut shared, 2, 99));
        assert_eq!((words[0], words[4], shared.tokens), (901, 0, 401));
    }
}
