//! How long the peer takes to acknowledge, and when a frame is sent again (RFC 6298 §2, with other bounds).

use std::time::Duration;

/// Estimate of the round trip.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RoundTrip {
    /// Smoothed round trip and its variation, once there is a sample.
    estimate: Option<(Duration, Duration)>,
}

impl RoundTrip {
    /// Takes a sample of a frame that was sent once (Karn's rule).
    pub fn add(&mut self, sample: Duration) {
        self.estimate = Some(match self.estimate {
            None => (sample, sample / 2),
            Some((smoothed, variation)) => {
                let variation = variation * 3 / 4 + smoothed.abs_diff(sample) / 4;
                (smoothed * 7 / 8 + sample / 8, variation)
            }
        });
    }

    /// The smoothed round trip.
    pub fn smoothed(&self) -> Option<Duration> {
        self.estimate.map(|(smoothed, _)| smoothed)
    }

    /// How long an acknowledgement is waited for, without bounds; nothing before the first sample.
    pub fn timeout(&self) -> Option<Duration> {
        self.estimate
            .map(|(smoothed, variation)| smoothed + variation * 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6298 §2.2, §2.3, worked out by hand.
    #[test]
    fn estimates_as_rfc_6298() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.timeout(), None);
        round_trip.add(Duration::from_micros(800));
        assert_eq!(round_trip.timeout(), Some(Duration::from_micros(800 + 4 * 400)));
        round_trip.add(Duration::from_micros(1_600));
        // Variation 3/4 * 400 + 1/4 * 800, smoothed 7/8 * 800 + 1/8 * 1,600.
        assert_eq!(round_trip.smoothed(), Some(Duration::from_micros(900)));
        assert_eq!(round_trip.timeout(), Some(Duration::from_micros(900 + 4 * 500)));
    }
}
