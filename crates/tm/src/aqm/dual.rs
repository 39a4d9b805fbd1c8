//! The coupled dual queue (RFC 9332) with PI2 for the classic queue and a ramp for the low latency one, by the
//! pseudocode of Appendix A.
//!
//! A controller moves the base probability p'. Classic packets are dropped or marked with p'^2, low latency ones marked
//! with at least k x p', k = 2, so that flows of both kinds get about the same rate. Probabilities have 32 bits behind
//! the point; instead of drawing at random, they are added up until there is a whole one.

use super::{AqmTimes, Verdict, reached, units};

/// One, as a probability.
const ONE: u64 = 1 << 32;
/// The coupling factor (RFC 9332 §2.1).
const COUPLING: u64 = 2;

/// Its parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DualTimes {
    /// Units, as all times here.
    target: u32,
    period: u32,
    from: u32,
    range: u32,
    /// Parts of [`ONE`] that a unit of delay above the target adds in a period, with 16 more bits behind the point.
    alpha: i64,
    /// The same for a unit that the delay grew by.
    beta: i64,
}

impl DualTimes {
    /// Tupdate = min(target, RTT / 3), alpha = 0.1 x Tupdate / RTT^2, beta = 0.3 / RTT (RFC 9332 Appendix A.1).
    pub(crate) fn new(times: &AqmTimes) -> Self {
        let (target, rtt) = (units(times.dual_target), units(times.dual_longest_rtt).max(3));
        let period = target.min(rtt / 3).max(1);
        let one = i128::from(ONE) << 16;
        let rtt = i128::from(rtt);
        Self {
            target,
            period,
            from: units(times.low_latency_from),
            range: units(times.low_latency_range),
            alpha: (one * i128::from(period) / (10 * rtt * rtt)) as i64,
            beta: (one * 3 / (10 * rtt)) as i64,
        }
    }

    /// Whether a classic packet that has waited `classic` is before a low latency one that has waited `low_latency`:
    /// only when it waited longer by twice the target, so that it does not starve.
    pub(crate) const fn is_classic_next(&self, classic: u32, low_latency: u32) -> bool {
        classic > low_latency.saturating_add(2 * self.target)
    }

    /// The probability by the delay of a low latency packet alone (`laqm`).
    fn ramp(&self, sojourn: u32) -> u64 {
        match sojourn.saturating_sub(self.from) {
            0 => 0,
            over if over >= self.range => ONE,
            over => u64::from(over) * ONE / u64::from(self.range),
        }
    }
}

/// What is remembered of both queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dual {
    /// The base probability p', less than [`ONE`].
    pub(crate) base: u32,
    /// The delay at the last update.
    pub(crate) last_delay: u32,
    /// When the next one is due.
    pub(crate) next_update: u32,
    /// What has added up for classic packets, and for low latency ones.
    pub(crate) sums: [u32; 2],
}

impl Dual {
    /// Moves the base probability once for each period that is over (`dualpi2_update`). `delay`: that of the oldest
    /// packet of both queues, as in Appendix A.2, so that a low latency queue that does not react to marks is dropped
    /// from, too; Appendix A.1 takes the classic one's alone.
    pub(crate) fn update(&mut self, times: &DualTimes, now: u32, delay: u32) {
        if !reached(now, self.next_update) {
            return;
        }
        let periods = 1 + now.wrapping_sub(self.next_update) / times.period;
        let above = i64::from(delay.min(1 << 24)) - i64::from(times.target);
        let grown = i64::from(delay.min(1 << 24)) - i64::from(self.last_delay.min(1 << 24));
        // In periods that were missed the delay is taken for what it is now.
        let change = i128::from(times.alpha) * i128::from(above) * i128::from(periods)
            + i128::from(times.beta) * i128::from(grown);
        let base = (i128::from(self.base) + (change >> 16)).clamp(0, i128::from(ONE) - 1);
        self.base = base as u32;
        self.last_delay = delay;
        self.next_update = now.wrapping_add(times.period);
    }

    /// p_C, for classic packets.
    fn of_classic(&self) -> u64 {
        (u64::from(self.base) * u64::from(self.base)) >> 32
    }

    /// p_CL, for low latency packets.
    fn coupled(&self) -> u64 {
        COUPLING * u64::from(self.base)
    }

    /// Marks do not suffice any more: all packets are dropped alike (RFC 9332 Appendix A.2).
    fn is_overloaded(&self) -> bool {
        self.coupled() >= ONE
    }

    /// What becomes of a classic packet.
    pub(crate) fn judge_classic(&mut self, knows_ecn: bool) -> Verdict {
        let likelihood = self.of_classic();
        let hit = recur(&mut self.sums[0], likelihood);
        match (hit, knows_ecn && !self.is_overloaded()) {
            (false, _) => Verdict::Pass,
            (true, true) => Verdict::Mark,
            (true, false) => Verdict::Drop,
        }
    }

    /// What becomes of a low latency packet that has waited `sojourn`; `is_last`: there is none behind it.
    pub(crate) fn judge_low_latency(&mut self, times: &DualTimes, sojourn: u32, is_last: bool) -> Verdict {
        if self.is_overloaded() {
            let likelihood = self.of_classic();
            let drops = recur(&mut self.sums[1], likelihood);
            return if drops { Verdict::Drop } else { Verdict::Mark };
        }
        let own = if is_last { 0 } else { times.ramp(sojourn) };
        let likelihood = own.max(self.coupled());
        let marks = recur(&mut self.sums[1], likelihood);
        if marks { Verdict::Mark } else { Verdict::Pass }
    }
}

/// Whether there is a whole one again (`recur`).
fn recur(sum: &mut u32, probability: u64) -> bool {
    let whole = u64::from(*sum) + probability;
    *sum = whole as u32;
    whole >= ONE
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn ms(millis: f64) -> u32 {
        units(Duration::from_secs_f64(millis / 1e3))
    }

    fn base(dual: &Dual) -> f64 {
        f64::from(dual.base) / ONE as f64
    }

    #[test]
    fn the_base_probability_is_that_of_the_controller_in_real_numbers() {
        let (times, mut dual) = (DualTimes::new(&AqmTimes::STANDARD), Dual::default());
        let (mut expected, mut last) = (0.0_f64, 0.0_f64);
        // alpha = 0.1 x 15 ms / (100 ms)^2 = 0.15 Hz, beta = 0.3 / 100 ms = 3 Hz.
        for (period, delay) in [0.0, 20.0, 40.0, 80.0, 80.0, 60.0, 30.0, 15.0, 15.0, 5.0, 0.0, 0.0]
            .iter()
            .enumerate()
        {
            dual.update(&times, ms(15.0 * period as f64), ms(*delay));
            dual.update(&times, ms(15.0 * period as f64 + 7.0), ms(999.0));
            expected += 0.15 * (delay - 15.0) / 1e3 + 3.0 * (delay - last) / 1e3;
            (expected, last) = (expected.clamp(0.0, 1.0), *delay);
            assert!(
                (base(&dual) - expected).abs() < 1e-4,
                "{period}: {} of {expected}",
                base(&dual)
            );
        }
        let high = Dual {
            base: u32::MAX,
            ..dual
        };
        let mut idle = Dual {
            next_update: ms(1_000.0),
            ..high
        };
        idle.update(&times, ms(9_000.0), 0);
        assert_eq!(idle.base, 0, "an idle queue forgets");
    }

    #[test]
    fn classic_packets_are_hit_with_the_square_and_low_latency_ones_with_twice_the_base() {
        let times = DualTimes::new(&AqmTimes::STANDARD);
        for base in [0.0, 0.01, 0.1, 0.3, 0.49] {
            let mut dual = Dual {
                base: (base * ONE as f64) as u32,
                ..Dual::default()
            };
            let classic = (0..100_000)
                .filter(|_| dual.judge_classic(false) == Verdict::Drop)
                .count();
            let marks = (0..100_000)
                .filter(|_| dual.judge_low_latency(&times, 0, false) == Verdict::Mark)
                .count();
            assert!((classic as f64 - 1e5 * base * base).abs() <= 1.5, "{classic}");
            assert!((marks as f64 - 2e5 * base).abs() <= 1.5, "{marks}");
            assert_ne!(dual.judge_classic(true), Verdict::Drop, "ECN comes first");
        }
    }

    #[test]
    fn low_latency_packets_are_marked_by_a_ramp_of_their_delay() {
        let times = DualTimes::new(&AqmTimes::STANDARD);
        for (micros, share) in [
            (0, 0.0),
            (800, 0.0),
            (900, 0.25),
            (1_000, 0.5),
            (1_100, 0.75),
            (1_200, 1.0),
            (9_000, 1.0),
        ] {
            let (mut dual, sojourn) = (Dual::default(), units(Duration::from_micros(micros)));
            let marks =
                (0..10_000).filter(|_| dual.judge_low_latency(&times, sojourn, false) == Verdict::Mark);
            assert!((marks.count() as f64 - 10_000.0 * share).abs() < 15.0);
            assert_eq!(
                dual.judge_low_latency(&times, sojourn, true),
                Verdict::Pass,
                "a queue of one packet"
            );
        }
        let step = AqmTimes {
            low_latency_range: Duration::ZERO,
            ..AqmTimes::STANDARD
        };
        let (times, mut dual) = (DualTimes::new(&step), Dual::default());
        assert_eq!(dual.judge_low_latency(&times, ms(0.79), false), Verdict::Pass);
        assert_eq!(dual.judge_low_latency(&times, ms(0.81), false), Verdict::Mark);
    }

    #[test]
    fn in_overload_both_drop_alike_and_a_classic_packet_does_not_starve() {
        let times = DualTimes::new(&AqmTimes::STANDARD);
        let mut dual = Dual {
            base: (0.8 * ONE as f64) as u32,
            ..Dual::default()
        };
        let classic = (0..1_000)
            .filter(|_| dual.judge_classic(true) == Verdict::Drop)
            .count();
        let other = (0..1_000)
            .filter(|_| dual.judge_low_latency(&times, 0, true) == Verdict::Drop)
            .count();
        assert!(
            classic.abs_diff(640) <= 1 && other.abs_diff(640) <= 1,
            "{classic} {other}"
        );
        assert!(times.is_classic_next(ms(31.0), 0) && !times.is_classic_next(ms(29.0), 0));
        assert!(!times.is_classic_next(ms(31.0), ms(2.0)));
    }
}
