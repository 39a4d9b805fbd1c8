//! Whether control is overloaded: whether requests wait because more come than it can serve, and not because of
//! something that is over.
//!
//! The judge is the backlog, the time that it takes to serve what waits. It counts in the thread's *own time*, in which
//! the thread had its core or had nothing to do. Two things let a queue grow that are no overload:
//!
//! - An absence: the system, or the host below it, takes the core away. What came meanwhile waits when the thread is
//!   back. An absence is accounted for: as much backlog as it was long does not count, and less and less as own time
//!   goes by ([`FORGETS`]).
//! - A burst: peers send at once what they did not send before, because they were away themselves. It goes away by
//!   itself. Until the backlog was above [`TARGET`] during a whole [`INTERVAL`] of own time, or is longer than the
//!   patience, it is no overload.
//!
//! Then overload *stands*, until the backlog is below the target once more; absences account for nothing meanwhile.

use std::time::Duration;

/// A backlog that is there all the time and longer than this is overload.
const TARGET: Duration = Duration::from_millis(10);
/// Over how much own time the shortest backlog is looked for. A burst of a third of a second's requests, at half of
/// what the thread can do, is gone by then.
const INTERVAL: Duration = Duration::from_millis(200);
/// What absences account for at most. With it and the patience no request waits as long as a peer's T1.
const MOST_AWAY: Duration = Duration::from_millis(250);
/// Own time for each part of an absence that is forgotten. What came in an absence is served by then if the thread has
/// a sixteenth of its time left for it.
const FORGETS: u32 = 16;

/// What is known of the backlog.
#[derive(Debug)]
pub(crate) struct StandingOverload {
    /// What absences account for.
    away: Duration,
    /// The shortest backlog of this interval, less what absences account for.
    shortest: Duration,
    /// Own time of this interval.
    passed: Duration,
    stands: bool,
}

impl StandingOverload {
    /// Nothing waits.
    pub(crate) fn new() -> StandingOverload {
        StandingOverload {
            away: Duration::ZERO,
            shortest: Duration::MAX,
            passed: Duration::ZERO,
            stands: false,
        }
    }

    /// After a turn: `own` time and `away` time have passed since the end of the turn before, and this is the backlog.
    pub(crate) fn note(&mut self, own: Duration, away: Duration, backlog: Duration) {
        self.away = (self.away.saturating_sub(own / FORGETS) + away).min(MOST_AWAY);
        self.shortest = self.shortest.min(self.beyond_absences(backlog));
        // Not by one look, however long the last one is ago.
        self.passed += own.min(INTERVAL / 4);
        if self.passed >= INTERVAL {
            self.stands = self.shortest >= TARGET;
            (self.shortest, self.passed) = (Duration::MAX, Duration::ZERO);
        }
    }

    /// The part of a backlog that absences do not account for.
    pub(crate) fn beyond_absences(&self, backlog: Duration) -> Duration {
        match self.stands {
            true => backlog,
            false => backlog.saturating_sub(self.away),
        }
    }

    /// The backlog is longer than the patience, absences accounted for.
    pub(crate) fn begin(&mut self) {
        if !self.stands {
            (self.shortest, self.passed) = (Duration::MAX, Duration::ZERO);
        }
        self.stands = true;
    }

    /// Whether there is overload.
    pub(crate) fn stands(&self) -> bool {
        self.stands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn overload_stands_once_the_backlog_was_above_the_target_for_a_whole_interval() {
        let mut overload = StandingOverload::new();
        for turn in 0..200 {
            assert!(!overload.stands(), "{turn}");
            overload.note(ms(1), Duration::ZERO, ms(10));
        }
        assert!(overload.stands());
        // Once below it in an interval, it is over with the interval.
        overload.note(ms(1), Duration::ZERO, ms(9));
        (0..199).for_each(|_| overload.note(ms(1), Duration::ZERO, ms(100)));
        assert!(!overload.stands());
    }

    #[test]
    fn an_absence_accounts_for_as_much_as_it_was_long_until_own_time_has_passed() {
        let mut overload = StandingOverload::new();
        overload.note(ms(1), ms(160), ms(100));
        assert_eq!(overload.beyond_absences(ms(100)), Duration::ZERO);
        assert_eq!(overload.beyond_absences(ms(200)), ms(40));
        overload.note(ms(160), Duration::ZERO, ms(0));
        assert_eq!(overload.beyond_absences(ms(200)), ms(50));
        (0..20).for_each(|_| overload.note(ms(10), ms(100), ms(0)));
        assert_eq!(overload.beyond_absences(ms(1_000)), ms(750), "not without bound");
    }

    #[test]
    fn absences_do_not_lengthen_the_queue_of_an_overload_that_stands() {
        let mut overload = StandingOverload::new();
        overload.note(ms(1), ms(200), ms(400));
        overload.begin();
        assert_eq!(overload.beyond_absences(ms(400)), ms(400));
        overload.note(ms(300), ms(200), ms(50));
        assert!(overload.stands());
        assert_eq!(overload.beyond_absences(ms(50)), ms(50));
    }
}
