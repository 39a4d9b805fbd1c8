//! Quantiles of delays.

use hdrhistogram::Histogram;
use serde::Serialize;

/// Delays of packets, nanoseconds from when each was due until it was back.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Delays {
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
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let at = |quantile| histogram.value_at_quantile(quantile);
        if histogram.is_empty() {
            return Self::default();
        }
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}
