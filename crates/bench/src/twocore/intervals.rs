//! A trial cut into intervals by the times at which packets were due, so that packets beside an absence are kept apart
//! from those that both threads were there for.
//!
//! An interval is *disturbed* when an absence of either thread touches it, or the time just before, in which packets
//! were on their way, or the time that the device needs afterwards for what arrived meanwhile. Which intervals these
//! are follows from the absences and the rates, never from delays.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::clock::{nanos, ticks_per_second};
use super::super::error::BenchError;
use super::absence::Absences;
use super::delays::{Delays, Variation};

/// Intervals of a trial at most.
const MOST: usize = 4_096;
/// Seconds of the shortest interval.
const SHORTEST: f64 = 0.001;
/// The longest delay that a histogram distinguishes, nanoseconds.
const LONGEST: u64 = 10_000_000_000;
/// Seconds for which a packet may be on its way when an absence begins.
const ON_THE_WAY: f64 = 100e-6;
/// Significant digits: a hundredth.
const DIGITS: u8 = 2;

/// Delays of some packets, and the differences of those of pairs.
#[derive(Clone, Debug)]
struct Stream {
    offered: u64,
    received: u64,
    late: u64,
    delays: Histogram<u32>,
    differences: Histogram<u32>,
}

impl Stream {
    fn new() -> Result<Self, BenchError> {
        let histogram = || Histogram::new_with_bounds(1, LONGEST, DIGITS).map_err(BenchError::of);
        Ok(Self {
            offered: 0,
            received: 0,
            late: 0,
            delays: histogram()?,
            differences: histogram()?,
        })
    }

    /// Empties it, and touches its memory so that no trial has to.
    fn clear(&mut self) {
        (self.offered, self.received, self.late) = (0, 0, 0);
        self.delays.reset();
        self.differences.reset();
    }

    fn add(&mut self, other: &Self) -> Result<(), BenchError> {
        self.offered += other.offered;
        self.received += other.received;
        self.late += other.late;
        self.delays.add(&other.delays).map_err(BenchError::of)?;
        self.differences.add(&other.differences).map_err(BenchError::of)
    }

    fn end(&self) -> StreamDelays {
        let delays = Delays::of(&self.delays);
        StreamDelays {
            offered: self.offered,
            lost: self.offered.saturating_sub(self.received),
            late: self.late,
            delays,
            variation: Variation::of(delays, &self.differences),
        }
    }
}

/// Packets of some intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamDelays {
    /// Packets that were due.
    pub offered: u64,
    /// Those of them that did not come back.
    pub lost: u64,
    /// Those of them that the generator made late.
    pub late: u64,
    /// Delays of those that did.
    pub delays: Delays,
    /// Their variation.
    pub variation: Variation,
}

/// A trial by intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct IntervalReport {
    /// Nanoseconds of an interval.
    pub interval_nanos: u64,
    /// Intervals of the trial.
    pub intervals: usize,
    /// Those that an absence touches, or the time to recover from it.
    pub disturbed: usize,
    /// The time to recover from an absence, as a multiple of its length.
    pub recovery: f64,
    /// Packets of the other intervals: what both threads were there for.
    pub undisturbed: StreamDelays,
    /// Packets of the disturbed intervals.
    pub beside_absences: StreamDelays,
}

impl IntervalReport {
    /// The share of intervals that are not disturbed.
    #[must_use]
    pub fn share(&self) -> f64 {
        1.0 - self.disturbed as f64 / self.intervals.max(1) as f64
    }
}

/// All of a trial, and its intervals.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cut {
    /// All packets.
    pub all: StreamDelays,
    /// By intervals.
    pub report: IntervalReport,
}

/// The intervals of a trial. Made once: memory is touched before each trial.
#[derive(Debug)]
pub struct Intervals {
    start: u64,
    /// Ticks of an interval.
    length: u64,
    /// One over that.
    inverse: f64,
    /// Intervals of this trial.
    count: usize,
    streams: Vec<Stream>,
}

impl Intervals {
    /// Without a trial.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            start: 0,
            length: 1,
            inverse: 1.0,
            count: 0,
            streams: Vec::new(),
        }
    }

    /// Prepares a trial of `seconds`; [`start_at`](Self::start_at) begins it.
    ///
    /// # Errors
    /// None with these bounds of delays.
    pub fn prepare(&mut self, seconds: f64) -> Result<(), BenchError> {
        let length = SHORTEST.max(seconds / MOST as f64);
        self.length = ((length * ticks_per_second()) as u64).max(1);
        self.inverse = 1.0 / self.length as f64;
        self.count = (seconds / length).ceil().max(1.0) as usize;
        while self.streams.len() < self.count {
            self.streams.push(Stream::new()?);
        }
        self.streams[..self.count].iter_mut().for_each(Stream::clear);
        Ok(())
    }

    /// The trial begins.
    pub const fn start_at(&mut self, start: u64) {
        self.start = start;
    }

    /// The interval of a packet that was due at `due`: the last one for what is due later.
    #[inline]
    fn stream(&mut self, due: u64) -> Option<&mut Stream> {
        let place = (due.saturating_sub(self.start) as f64 * self.inverse) as usize;
        let last = self.count.saturating_sub(1);
        self.streams.get_mut(place.min(last))
    }

    /// A packet was due.
    #[inline]
    pub fn offer(&mut self, due: u64, is_late: bool) {
        if let Some(stream) = self.stream(due) {
            stream.offered += 1;
            stream.late += u64::from(is_late);
        }
    }

    /// A packet came back after `delay` nanoseconds; `difference` is that to the delay of the packet before it, where
    /// that came back, too.
    #[inline]
    pub fn receive(&mut self, due: u64, delay: u64, difference: Option<u64>) {
        let Some(stream) = self.stream(due) else { return };
        stream.received += 1;
        stream.delays.saturating_record(delay.clamp(1, LONGEST));
        if let Some(difference) = difference {
            stream.differences.saturating_record(difference.clamp(1, LONGEST));
        }
    }

    /// The trial by intervals. `recovery` is the time that a device needs after an absence, as a multiple of its
    /// length.
    ///
    /// # Errors
    /// None with these bounds of delays.
    pub fn end(&self, absences: [&Absences; 2], recovery: f64) -> Result<Cut, BenchError> {
        let disturbed = self.disturbed(absences, recovery);
        let (mut kept, mut beside, mut all) = (Stream::new()?, Stream::new()?, Stream::new()?);
        for (stream, is_disturbed) in self.streams.iter().zip(&disturbed) {
            all.add(stream)?;
            let part = if *is_disturbed { &mut beside } else { &mut kept };
            part.add(stream)?;
        }
        Ok(Cut {
            all: all.end(),
            report: IntervalReport {
                interval_nanos: nanos(self.length) as u64,
                intervals: self.count,
                disturbed: disturbed.iter().filter(|&&is_disturbed| is_disturbed).count(),
                recovery,
                undisturbed: kept.end(),
                beside_absences: beside.end(),
            },
        })
    }

    /// Which intervals are disturbed; all of them when not every absence is known.
    fn disturbed(&self, absences: [&Absences; 2], recovery: f64) -> Vec<bool> {
        let is_unknown = absences.iter().any(|of| of.missed > 0);
        let mut disturbed = vec![is_unknown; self.count];
        let on_the_way = (ON_THE_WAY * ticks_per_second()) as u64;
        for span in absences.iter().flat_map(|of| &of.spans) {
            let lasting = ((span.to - span.from) as f64 * (1.0 + recovery)) as u64;
            let (from, to) = (span.from, span.from.saturating_add(lasting));
            if to < self.start {
                continue;
            }
            let place = |at: u64| (at.saturating_sub(self.start) / self.length) as usize;
            let end = place(to).saturating_add(1).min(self.count);
            let first = place(from.saturating_sub(on_the_way)).min(end);
            disturbed[first..end].fill(true);
        }
        disturbed
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::super::absence::Absence;
    use super::*;

    /// Ten intervals from tick 1,000 on, each with 100 packets of 1,000 ns and one of 5,000.
    fn filled() -> Intervals {
        let mut intervals = Intervals::new();
        intervals.prepare(0.01).unwrap();
        intervals.start_at(1_000);
        assert_eq!(intervals.count, 10);
        let length = intervals.length;
        for interval in 0..10 {
            let due = |packet: u64| 1_000 + interval * length + packet;
            for packet in 0..100 {
                let due = due(packet);
                intervals.offer(due, packet == 0);
                intervals.receive(due, 1_000, (packet > 0).then_some(0));
            }
            let due = due(100);
            intervals.offer(due, false);
            intervals.receive(due, 5_000, Some(4_000));
        }
        intervals
    }

    fn absences(spans: &[[u64; 2]]) -> Absences {
        Absences {
            spans: spans.iter().map(|&[from, to]| Absence { from, to }).collect(),
            missed: 0,
        }
    }

    #[test]
    fn without_absences_all_packets_are_undisturbed() {
        let none = Absences::default();
        let cut = filled().end([&none, &none], 1.0).unwrap();
        let of = cut.report.undisturbed;
        assert_eq!(of, cut.all);
        assert_eq!(cut.report.beside_absences, StreamDelays::default());
        assert_eq!((of.offered, of.lost, of.late), (1_010, 0, 10));
        let near = |value: u64, wanted: u64| value.abs_diff(wanted) * 100 <= wanted;
        assert!(near(of.delays.p50, 1_000) && near(of.delays.p99, 1_000) && near(of.delays.p999, 5_000));
        assert!(near(of.variation.pdv_p999, 4_000) && of.variation.pdv_p99 < 20);
        assert!(of.variation.pairs == 1_000 && near(of.variation.ipdv_p999, 4_000));
        assert_eq!((cut.report.share(), cut.report.intervals), (1.0, 10));
    }

    #[test]
    fn intervals_are_disturbed_from_before_an_absence_until_the_device_has_recovered() {
        let mut intervals = filled();
        let length = intervals.length;
        let at = |tenths: u64| 1_000 + length * tenths / 10;
        // From 4.05 to 4.75: with as much again it ends at 5.45. Packets of interval 3 may still be on their way.
        let away = absences(&[[at(41) - length / 20, at(48) - length / 20]]);
        // A packet due in interval 5 is lost, and one comes back very late.
        intervals.offer(at(51), false);
        intervals.offer(at(52), false);
        intervals.receive(at(52), 2_000_000, None);
        let none = Absences::default();
        let disturbed = |recovery| intervals.disturbed([&away, &none], recovery);
        let places = |recovery| -> Vec<usize> {
            let all = disturbed(recovery).into_iter().enumerate();
            all.filter_map(|(place, is)| is.then_some(place)).collect()
        };
        assert_eq!(places(0.0), [3, 4]);
        assert_eq!(places(1.0), [3, 4, 5]);
        assert_eq!(places(1e9), [3, 4, 5, 6, 7, 8, 9]);
        let late = absences(&[[at(42), at(49)]]);
        let disturbed = intervals.disturbed([&late, &none], 0.0);
        assert_eq!(disturbed.iter().position(|&is_disturbed| is_disturbed), Some(4));
        let cut = intervals.end([&none, &away], 1.0).unwrap();
        assert_eq!((cut.report.disturbed, cut.all.lost), (3, 1));
        assert_eq!(
            (cut.report.undisturbed.lost, cut.report.beside_absences.lost),
            (0, 1)
        );
        assert_eq!(cut.report.undisturbed.offered, 707);
        assert!(cut.all.delays.max >= 1_980_000 && cut.report.undisturbed.delays.max < 5_100);
    }

    #[test]
    fn absences_before_and_after_the_trial_disturb_nothing_else() {
        let intervals = filled();
        let none = Absences::default();
        let count = |spans: &[[u64; 2]]| {
            let away = absences(spans);
            let disturbed = intervals.disturbed([&away, &none], 0.0);
            disturbed.iter().filter(|&&is_disturbed| is_disturbed).count()
        };
        let end = 1_000 + 10 * intervals.length;
        assert_eq!(count(&[[0, 900]]), 0);
        // One that lasts into the first interval, and one that begins behind the last.
        assert_eq!(count(&[[0, 1_001]]), 1);
        assert_eq!(
            count(&[[end + 2 * intervals.length, end + 3 * intervals.length]]),
            0
        );
        // Absences that are not known may be anywhere.
        let many = Absences {
            missed: 1,
            ..Absences::default()
        };
        assert!(
            intervals
                .disturbed([&none, &many], 0.0)
                .iter()
                .all(|&is_disturbed| is_disturbed)
        );
    }

    #[test]
    fn a_long_trial_has_longer_intervals() {
        let mut intervals = Intervals::new();
        intervals.prepare(0.25).unwrap();
        assert_eq!(intervals.count, 250);
        intervals.prepare(20.0).unwrap();
        assert_eq!(intervals.count, MOST);
        intervals.prepare(0.000_1).unwrap();
        assert_eq!(intervals.count, 1);
    }
}
