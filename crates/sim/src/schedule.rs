//! Times at which packets are due at an offered rate, independent of the receiver (open loop).
//!
//! Integers only: whole packets are taken out of a credit and the remainder is carried, so that after any time
//! and however the calls are spread, exactly `rate * time` packets (rounded down) were due. A generator that was
//! delayed catches up, within a bound; packets that are sent late or given up are counted.
//!
//! Owned by the thread that sends. It knows no clock: the caller passes the time.

use crate::Nanos;
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;

/// Counts of a [`Schedule`], packets. `due = taken + backlog + given_up`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offered {
    /// Came due since the start.
    pub due: u64,
    /// Were handed out to be sent.
    pub taken: u64,
    /// Packets taken more than the grace after they had come due ("offered late").
    pub late: u64,
    /// Are due and wait to be taken.
    pub backlog: u64,
    /// Were never sent, because the backlog went over its bound.
    pub given_up: u64,
}

impl Offered {
    /// Adds the counts of another schedule.
    pub fn merge(&mut self, other: &Offered) {
        self.due += other.due;
        self.taken += other.taken;
        self.late += other.late;
        self.backlog += other.backlog;
        self.given_up += other.given_up;
    }
}

/// Bounds of a [`Schedule`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Most packets handed out by one call. Default 64.
    pub burst: u32,
    /// Most packets that wait; further ones are given up. Default 2^20.
    pub backlog: u64,
    /// How long after it came due a packet is still on time. Default 1 ms.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            burst: 64,
            backlog: 1 << 20,
            grace: Duration::from_millis(1),
        }
    }
}

/// Counts the packets that are due.
#[derive(Debug, Clone)]
pub struct Schedule {
    limits: Limits,
    due: Metronome,
    /// The same beat, one grace later: what it counts and was not taken yet is late.
    overdue: Metronome,
    counted: Offered,
}

impl Schedule {
    /// A schedule of `rate` packets per second (at most 2^32) whose first interval starts at `start`.
    pub fn new(rate: u64, start: Nanos, limits: Limits) -> Schedule {
        let overdue = start + limits.grace;
        Schedule {
            limits,
            due: Metronome::new(rate, start),
            overdue: Metronome::new(rate, overdue),
            counted: Offered::default(),
        }
    }

    /// How many packets to send now: what is due, at most a burst. They count as taken.
    #[inline]
    pub fn take(&mut self, now: Nanos) -> u32 {
        self.come_due(now);
        let count = self.counted.backlog.min(u64::from(self.limits.burst));
        let overdue = self
            .overdue
            .beats(now)
            .saturating_sub(self.counted.taken + self.counted.given_up);
        self.counted.late += overdue.min(count);
        self.counted.backlog -= count;
        self.counted.taken += count;
        count as u32
    }

    /// Gives back `count` packets that were taken and could not be sent: they are due still.
    pub fn give_back(&mut self, count: u32) {
        let count = u64::from(count).min(self.counted.taken);
        self.counted.taken -= count;
        self.counted.backlog += count;
    }

    /// Continues at another rate; packets that are due stay due.
    pub fn change_rate(&mut self, rate: u64, now: Nanos) {
        self.come_due(now);
        self.due.change_rate(rate, now);
        self.overdue.change_rate(rate, now);
    }

    /// The counts so far.
    pub fn offered(&self) -> Offered {
        self.counted
    }

    #[inline]
    fn come_due(&mut self, now: Nanos) {
        let beats = self.due.beats(now);
        self.counted.backlog += beats - self.counted.due;
        self.counted.due = beats;
        let excess = self.counted.backlog.saturating_sub(self.limits.backlog);
        self.counted.backlog -= excess;
        self.counted.given_up += excess;
    }
}

/// Counts beats of a rate, exactly.
#[derive(Debug, Clone)]
struct Metronome {
    rate: u64,
    last: Nanos,
    /// Below one second: time since the last beat, in units of 1 / rate ns.
    credit: u64,
    beats: u64,
}

impl Metronome {
    fn new(rate: u64, start: Nanos) -> Metronome {
        Metronome {
            rate: rate.min(1 << 32),
            last: start,
            credit: 0,
            beats: 0,
        }
    }

    /// Beats since the start. Time that goes backwards counts as standing still.
    #[inline]
    fn beats(&mut self, now: Nanos) -> u64 {
        let passed = now.0.saturating_sub(self.last.0);
        self.last = Nanos(self.last.0.max(now.0));
        match passed
            .checked_mul(self.rate)
            .and_then(|credit| credit.checked_add(self.credit))
        {
            Some(credit) => {
                self.beats += credit / SECOND;
                self.credit = credit % SECOND;
            }
            None => self.long_pause(passed),
        }
        self.beats
    }

    #[cold]
    fn long_pause(&mut self, passed: u64) {
        let credit = u128::from(passed) * u128::from(self.rate) + u128::from(self.credit);
        let second = u128::from(SECOND);
        let beats = u64::try_from(credit / second).unwrap_or(u64::MAX);
        self.beats = self.beats.saturating_add(beats);
        self.credit = (credit % second) as u64;
    }

    fn change_rate(&mut self, rate: u64, now: Nanos) {
        self.beats(now);
        self.rate = rate.min(1 << 32);
        self.credit = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unlimited(rate: u64) -> Schedule {
        let limits = Limits {
            burst: u32::MAX,
            backlog: u64::MAX,
            grace: Duration::ZERO,
        };
        Schedule::new(rate, Nanos(0), limits)
    }

    #[test]
    fn three_a_second() {
        let mut schedule = unlimited(3);
        let at = [
            0,
            333_333_333,
            333_333_334,
            666_666_667,
            1_000_000_000,
            2_000_000_000,
        ];
        assert_eq!(at.map(|now| schedule.take(Nanos(now))), [0, 0, 1, 1, 1, 3]);
    }

    #[test]
    fn a_stall_is_caught_up_in_bursts_and_counted_late() {
        let limits = Limits {
            burst: 10,
            backlog: 50,
            grace: Duration::from_millis(1),
        };
        let mut schedule = Schedule::new(1_000_000, Nanos(0), limits);
        assert_eq!(schedule.take(Nanos(10_000)), 10);
        assert_eq!(schedule.offered().late, 0);
        // 2 ms later 2000 are due: 50 wait, 1950 are given up.
        assert_eq!(schedule.take(Nanos(2_010_000)), 10);
        let counted = schedule.offered();
        assert_eq!((counted.due, counted.given_up, counted.backlog), (2010, 1950, 40));
        // Those of the last millisecond are not late: the given up ones were the oldest.
        assert_eq!(counted.late, 0);
        assert_eq!(schedule.take(Nanos(3_010_000)), 10);
        assert_eq!(schedule.offered().late, 0);
    }

    #[test]
    fn what_waits_longer_than_the_grace_is_late() {
        let limits = Limits {
            burst: 10,
            backlog: 1000,
            grace: Duration::from_micros(5),
        };
        let mut schedule = Schedule::new(1_000_000, Nanos(0), limits);
        assert_eq!(schedule.take(Nanos(20_000)), 10);
        assert_eq!(schedule.offered().late, 10);
        assert_eq!(schedule.take(Nanos(20_000)), 10);
        assert_eq!(schedule.offered().late, 15);
        schedule.give_back(4);
        assert_eq!(schedule.offered().backlog, 4);
        assert_eq!(schedule.take(Nanos(20_000)), 4);
    }

    #[test]
    fn a_rate_can_change() {
        let mut schedule = unlimited(1_000);
        assert_eq!(schedule.take(Nanos(SECOND)), 1000);
        schedule.change_rate(10, Nanos(SECOND));
        assert_eq!(schedule.take(Nanos(2 * SECOND)), 10);
        schedule.change_rate(0, Nanos(2 * SECOND));
        assert_eq!(schedule.take(Nanos(100 * SECOND)), 0);
    }

    #[test]
    fn a_year_is_exact() {
        let mut schedule = unlimited(1 << 32);
        let year = 365 * 86_400;
        schedule.take(Nanos(year * SECOND));
        assert_eq!(schedule.offered().due, year << 32);
    }

    proptest! {
        #[test]
        fn no_drift_however_calls_are_spread(rate in 0..1u64 << 33, steps in prop::collection::vec(0..5_000_000u64, 1..200)) {
            let mut schedule = unlimited(rate);
            let mut now = 0;
            for step in steps {
                now += step;
                schedule.take(Nanos(now));
            }
            let exact = u128::from(now) * u128::from(rate.min(1 << 32)) / u128::from(SECOND);
            prop_assert_eq!(u128::from(schedule.offered().due), exact);
        }

        #[test]
        fn nothing_is_forgotten(
            rate in 1..100_000_000u64,
            (burst, backlog, grace) in (1..100u32, 0..500u64, 0..100_000u64),
            steps in prop::collection::vec((0..100_000u64, 0..20u32), 1..200),
        ) {
            let mut schedule = Schedule::new(rate, Nanos(7), Limits { burst, backlog, grace: Duration::from_nanos(grace) });
            let (mut now, mut sent) = (0, 0);
            for (step, refused) in steps {
                now += step;
                let taken = schedule.take(Nanos(now));
                prop_assert!(taken <= burst);
                let refused = refused.min(taken);
                schedule.give_back(refused);
                sent += u64::from(taken - refused);
                let counted = schedule.offered();
                prop_assert_eq!(counted.due, counted.taken + counted.backlog + counted.given_up);
                prop_assert_eq!(counted.taken, sent);
            }
        }
    }
}
