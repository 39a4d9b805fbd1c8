//! Absences: spans in which a thread that never sleeps did not read its clock.
//!
//! Each thread of the harness reads the time stamp counter in each turn of its loop. A gap between two readings that is
//! longer than any turn can be is an absence: a hypervisor or the kernel took the core. This sees what the system's own
//! accounts do not: steal is counted in hundredths of a second, and some hypervisors report none of it. A turn of the
//! generator is a few microseconds by its construction. A poll of a device is bounded by its bursts; one that takes
//! [`DEVICE`] counts as an absence all the same, so the absences of both threads are reported beside each other: a
//! device that is away much more than the generator is the cause itself.

use serde::Serialize;

use super::super::clock::{nanos, ticks_per_second};

/// Nanoseconds that a turn of the generator never takes.
pub const GENERATOR: f64 = 20_000.0;
/// Nanoseconds that a poll of a device never takes.
pub const DEVICE: f64 = 100_000.0;
/// Absences that are kept of a trial; more are counted, and the trial says nothing by intervals.
const MOST: usize = 1 << 16;

/// A span without a thread, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Absence {
    /// The last reading before it.
    pub from: u64,
    /// The first after it.
    pub to: u64,
}

/// Watches the readings of a thread's clock.
#[derive(Debug)]
pub struct Watch {
    /// Ticks of the shortest absence.
    least: u64,
    last: u64,
    absences: Vec<Absence>,
    /// Absences that found no room.
    missed: u64,
}

impl Watch {
    /// Absences are gaps of at least this many nanoseconds.
    #[must_use]
    pub fn new(nanos: f64) -> Self {
        Self {
            least: (nanos * ticks_per_second() / 1e9) as u64,
            last: u64::MAX,
            absences: Vec::with_capacity(MOST),
            missed: 0,
        }
    }

    /// The clock of the thread, read in each turn.
    #[inline]
    pub fn see(&mut self, now: u64) {
        if now.saturating_sub(self.last) >= self.least {
            self.note(now);
        }
        self.last = now;
    }

    #[cold]
    fn note(&mut self, now: u64) {
        if self.absences.len() == MOST {
            self.missed += 1;
            return;
        }
        self.absences.push(Absence {
            from: self.last,
            to: now,
        });
    }

    /// Those since the last call; watching begins anew with the next reading.
    pub fn take(&mut self) -> Absences {
        self.last = u64::MAX;
        let missed = std::mem::take(&mut self.missed);
        Absences {
            spans: self.absences.drain(..).collect(),
            missed,
        }
    }
}

/// The absences of a thread in a trial.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Absences {
    /// In their order.
    pub spans: Vec<Absence>,
    /// Further ones that were not kept.
    pub missed: u64,
}

impl Absences {
    /// Their number and length.
    #[must_use]
    pub fn count(&self) -> AbsenceCount {
        let ticks = self.spans.iter().map(|span| span.to - span.from);
        AbsenceCount {
            count: self.spans.len() as u64 + self.missed,
            nanos: nanos(ticks.clone().sum()) as u64,
            longest_nanos: nanos(ticks.max().unwrap_or(0)) as u64,
        }
    }
}

/// Number and length of absences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct AbsenceCount {
    /// How many.
    pub count: u64,
    /// Nanoseconds of all.
    pub nanos: u64,
    /// Nanoseconds of the longest.
    pub longest_nanos: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_of_the_least_length_is_an_absence() {
        let mut watch = Watch::new(1_000.0);
        let least = watch.least;
        for now in [10, 20, 20 + least - 1, 20 + 2 * least, 30 + 2 * least] {
            watch.see(now);
        }
        let taken = watch.take();
        let wanted = Absence {
            from: 20 + least - 1,
            to: 20 + 2 * least,
        };
        assert_eq!(taken.spans, [wanted]);
        assert_eq!(taken.count().count, 1);
        // What is between two trials is none.
        watch.see(1 << 40);
        assert_eq!(watch.take(), Absences::default());
    }

    #[test]
    fn absences_beyond_the_room_are_counted() {
        let mut watch = Watch::new(1.0);
        for number in 0..MOST as u64 + 4 {
            watch.see(number * 1_000_000);
        }
        let taken = watch.take();
        assert_eq!((taken.spans.len(), taken.missed), (MOST, 3));
        assert_eq!(taken.count().count, MOST as u64 + 3);
    }
}
