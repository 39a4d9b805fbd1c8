//! How busy the workers have been of late, from counters of time: the one thing here that is kept between two scrapes.

use std::time::Duration;

/// A sample is compared with one that is at least this old.
const SHORTEST: Duration = Duration::from_secs(1);

/// The times that workers were busy, at a moment of the past.
#[derive(Clone, Debug, Default)]
pub struct LoadWindow {
    at: Duration,
    busy: Vec<f64>,
    /// The result of the last comparison.
    last: f64,
}

impl LoadWindow {
    /// The share of time, 0 to 1, in which the busiest worker worked on packets since an earlier call, or since the
    /// start. `now` is the time since the start, `busy` the seconds in which each worker was busy since then. Calls
    /// within a second of each other give the same.
    pub fn busiest(&mut self, now: Duration, busy: Vec<f64>) -> f64 {
        let passed = now.saturating_sub(self.at);
        if passed < SHORTEST {
            return self.last;
        }
        let before = self.busy.iter().copied().chain(std::iter::repeat(0.0));
        let grown = busy.iter().zip(before).map(|(now, before)| now - before);
        let most = grown.fold(0.0, f64::max);
        *self = Self {
            at: now,
            last: (most / passed.as_secs_f64()).clamp(0.0, 1.0),
            busy,
        };
        self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_worker_counts_since_the_last_sample() {
        let mut window = LoadWindow::default();
        let mut at = |millis, busy: &[f64]| window.busiest(Duration::from_millis(millis), busy.to_vec());
        assert_eq!(at(500, &[0.5, 0.0]), 0.0);
        assert_eq!(at(2_000, &[0.5, 1.0]), 0.5);
        assert_eq!(at(2_500, &[1.0, 1.0]), 0.5);
        assert_eq!(at(4_000, &[2.0, 1.0]), 0.75);
        assert_eq!(at(6_000, &[9.0, 1.0]), 1.0);
    }
}
