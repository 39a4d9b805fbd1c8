//! Quantiles of delays and of their variation.

use hdrhistogram::{Counter, Histogram};
use serde::Serialize;

/// Delays of packets, nanoseconds from when each was due until it was back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Delays {
    /// The shortest.
    pub min: u64,
    /// Half took at most this long.
    pub p50: u64,
    /// 90% did.
    pub p90: u64,
    /// 99% did.
    pub p99: u64,
    /// 99.9% did.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Delays {
    /// Percentiles of the recorded delays; all 0 without any.
    #[must_use]
    pub fn of<T: Counter>(histogram: &Histogram<T>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            min: histogram.min(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// Variation of the delays of a stream of packets, nanoseconds (RFC 5481).
///
/// PDV (§4.2) is a packet's delay less the least delay of the stream: its percentiles are those of the delays, less
/// that. IPDV (§4.1) is the difference of the delays of two packets that were sent one after the other in one
/// direction, here without its sign; a pair of which one is lost has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Variation {
    /// PDV that 99% do not exceed.
    pub pdv_p99: u64,
    /// PDV that 99.9% do not exceed.
    pub pdv_p999: u64,
    /// IPDV that half of the pairs do not exceed.
    pub ipdv_p50: u64,
    /// IPDV that 99% do not exceed.
    pub ipdv_p99: u64,
    /// IPDV that 99.9% do not exceed.
    pub ipdv_p999: u64,
    /// The greatest IPDV.
    pub ipdv_max: u64,
    /// Pairs of packets of which none was lost.
    pub pairs: u64,
}

impl Variation {
    /// Of a stream's delays, and of the differences of its pairs.
    #[must_use]
    pub fn of<T: Counter>(delays: Delays, differences: &Histogram<T>) -> Self {
        let pairs = Delays::of(differences);
        Self {
            pdv_p99: delays.p99 - delays.min,
            pdv_p999: delays.p999 - delays.min,
            ipdv_p50: pairs.p50,
            ipdv_p99: pairs.p99,
            ipdv_p999: pairs.p999,
            ipdv_max: pairs.max,
            pairs: differences.len(),
        }
    }
}

/// The packets of one direction in the order in which they come back: the differences of delays of neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct Neighbours {
    /// Ticks between two packets that were sent one after the other, and half as many again.
    farthest: u64,
    /// When the last one was due, and its delay.
    last: Option<[u64; 2]>,
}

impl Neighbours {
    /// Packets are due every `step` ticks.
    #[must_use]
    pub fn new(step: f64) -> Self {
        Self {
            farthest: (step * 1.5) as u64,
            last: None,
        }
    }

    /// A packet that was due at `due` ticks came back after `delay` nanoseconds: the difference to the delay of the one
    /// that was sent before it; `None` where that was lost, or came back later.
    #[inline]
    pub fn difference(&mut self, due: u64, delay: u64) -> Option<u64> {
        let [before, its_delay] = self.last.replace([due, delay])?;
        let apart = due.checked_sub(before)?;
        (apart <= self.farthest).then(|| delay.abs_diff(its_delay))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_neighbours_have_a_difference() {
        // Due every 100 ticks: the packet at 300 is lost, that at 500 comes back before that at 400.
        let mut stream = Neighbours::new(100.0);
        let came = [
            (100, 50),
            (200, 80),
            (400, 60),
            (500, 10),
            (450, 30),
            (600, 30),
            (700, 25),
        ];
        let differences = came.map(|(due, delay)| stream.difference(due, delay));
        assert_eq!(
            differences,
            [None, Some(30), None, Some(50), None, Some(0), Some(5)]
        );
    }

    fn histogram(values: impl IntoIterator<Item = u64>) -> Histogram<u64> {
        let mut histogram = Histogram::new_with_bounds(1, 10_000_000_000, 3).unwrap();
        for value in values {
            histogram.record(value).unwrap();
        }
        histogram
    }

    #[test]
    fn percentiles_of_a_thousand_known_delays() {
        // 1,000 values from 1,001 to 2,000: a histogram of three digits keeps each of them.
        let delays = Delays::of(&histogram(1_001..=2_000));
        assert_eq!(
            delays,
            Delays {
                min: 1_001,
                p50: 1_500,
                p90: 1_900,
                p99: 1_990,
                p999: 1_999,
                max: 2_000
            }
        );
        assert_eq!(Delays::of(&histogram([])), Delays::default());
    }

    #[test]
    fn variation_is_over_the_least_delay() {
        let delays = Delays::of(&histogram(1_001..=2_000));
        let variation = Variation::of(delays, &histogram([1; 98].into_iter().chain([40, 500])));
        assert_eq!((variation.pdv_p99, variation.pdv_p999), (989, 998));
        assert_eq!((variation.ipdv_p50, variation.ipdv_p99), (1, 40));
        assert_eq!(
            (variation.ipdv_p999, variation.ipdv_max, variation.pairs),
            (500, 500, 100)
        );
        let none = Variation::of(Delays::default(), &histogram([]));
        assert_eq!(none, Variation::default());
    }
}
