//! Wall-clock time: which date a moment of the process's clock has, while the host's clock is corrected.
//!
//! The process's clock ([`flow::Nanos`]) is monotonic: timers, meters and durations go by it, whatever becomes of the
//! date. Dates (the times in usage reports and records, TS 29.244 §8.2) come from here. The map from moments to dates
//! is a chain of straight lines, and it never goes backwards:
//!
//! - the host's clock is ahead by more than [`SLEWED`]: dates step forward;
//! - it is ahead by less: dates run 500 ppm fast until they are even;
//! - it is behind by less: dates run 500 ppm slow;
//! - it is behind by more: dates run at half speed until they are even, which takes twice the step.
//!
//! A moment that has passed keeps the date that it had: two reports of the same moment say the same date, and a report
//! begins where the one before ended. Sans-IO, owned by control; integers only.

use flow::Nanos;

use crate::Moment;

/// Nanoseconds up to which the date runs 500 ppm fast or slow to be corrected.
pub const SLEWED: u64 = 10_000_000;
/// Nanoseconds by which two readings of one clock may differ.
const NOISE: u64 = 10_000;
/// Changes that are remembered. Moments before them have the dates of the first.
const KEPT: usize = 32;

/// How fast dates run, compared with the process's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    Even = 0,
    /// 500 ppm fast.
    Fast = 1,
    /// 500 ppm slow.
    Slow = 2,
    /// Half speed.
    Half = 3,
}

/// Parts of a nanosecond that a pace of 500 ppm gains in one.
const SLEW: u64 = 2_000;

impl Pace {
    /// Nanoseconds of dates in `passed` nanoseconds of the clock.
    const fn of(self, passed: u64) -> u64 {
        match self {
            Pace::Even => passed,
            Pace::Fast => passed.saturating_add(passed / SLEW),
            Pace::Slow => passed - passed / SLEW,
            Pace::Half => passed / 2,
        }
    }

    /// Nanoseconds of the clock until `passed` nanoseconds of dates have passed.
    fn until(self, passed: u64) -> u64 {
        let (wide, slew) = (u128::from(passed), u128::from(SLEW));
        let taken = match self {
            Pace::Even => wide,
            Pace::Fast => (wide * slew).div_ceil(slew + 1),
            Pace::Slow => (wide * slew).div_ceil(slew - 1),
            Pace::Half => wide * 2,
        };
        let mut taken = u64::try_from(taken).unwrap_or(u64::MAX);
        // Parts are rounded down: it may have been one before.
        while taken > 0 && self.of(taken - 1) >= passed {
            taken -= 1;
        }
        taken
    }
}

/// From a moment on, dates continue from `unix`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Line {
    from: Moment,
    /// Nanoseconds since 1970.
    unix: u64,
    pace: Pace,
}

/// Octets of a line for another process: `from`, `unix`, and the pace.
const LINE_OCTETS: usize = 17;

impl Line {
    fn decode(octets: &[u8; LINE_OCTETS], zero: i64) -> Option<Line> {
        let (from, rest) = octets.split_first_chunk()?;
        let (unix, pace) = rest.split_first_chunk()?;
        let pace = match pace {
            [0] => Pace::Even,
            [1] => Pace::Fast,
            [2] => Pace::Slow,
            [3] => Pace::Half,
            _ => return None,
        };
        Some(Line {
            from: Moment(i64::from_be_bytes(*from).checked_sub(zero)?),
            unix: u64::from_be_bytes(*unix),
            pace,
        })
    }

    fn unix(&self, at: Moment) -> u64 {
        match u64::try_from(at.since(self.from)) {
            Ok(passed) => self.unix.saturating_add(self.pace.of(passed)),
            Err(_) => self
                .unix
                .saturating_sub(self.from.since(at).try_into().unwrap_or(0)),
        }
    }
}

/// What has become of the host's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WallChange {
    /// It was ahead by this number of nanoseconds, and dates have stepped forward.
    Stepped(u64),
    /// It was ahead by this number of nanoseconds, few enough for dates to run fast.
    Fast(u64),
    /// It was behind by this number of nanoseconds: dates run slow for [`WallChange::takes`].
    Behind(u64),
}

impl WallChange {
    /// Nanoseconds until dates are even with the host's clock.
    pub const fn takes(self) -> u64 {
        match self {
            WallChange::Stepped(_) => 0,
            WallChange::Fast(by) => by.saturating_mul(SLEW),
            WallChange::Behind(by) if by <= SLEWED => by.saturating_mul(SLEW),
            WallChange::Behind(by) => by.saturating_mul(2),
        }
    }
}

/// The dates of moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WallClock {
    /// In their order; at least one; the last has an even pace and may begin later than now.
    lines: Vec<Line>,
}

impl WallClock {
    /// Dates of a clock that was 0 at `clock_unix` seconds after 1970.
    pub fn starting(clock_unix: u64) -> WallClock {
        WallClock {
            lines: vec![Line {
                from: Moment(0),
                unix: clock_unix.saturating_mul(1_000_000_000),
                pace: Pace::Even,
            }],
        }
    }

    /// As octets for another process on this host: `zero` is what a monotonic clock of the host, which both can read,
    /// said when this process's clock was 0.
    pub fn encode(&self, zero: i64) -> Vec<u8> {
        let lines = self.lines.iter().flat_map(|line| {
            let from = line.from.after(zero).0.to_be_bytes();
            let pace = [line.pace as u8];
            from.into_iter().chain(line.unix.to_be_bytes()).chain(pace)
        });
        lines.collect()
    }

    /// The dates that moments had in the process before, by its octets; the host's monotonic clock said `zero` when
    /// this process's clock was 0. From now on they [`follow`](Self::follow) the host's clock as they would have
    /// there: what it was stepped by between the processes is no time that has passed. `None`: no such octets.
    pub fn decode(octets: &[u8], zero: i64) -> Option<WallClock> {
        let (lines, rest) = octets.as_chunks::<LINE_OCTETS>();
        let lines: Option<Vec<Line>> = lines.iter().map(|line| Line::decode(line, zero)).collect();
        let lines = lines.filter(|lines| rest.is_empty() && (1..=KEPT + 2).contains(&lines.len()))?;
        let in_order = lines.is_sorted_by(|one, next| one.from <= next.from && one.unix <= next.unix);
        let ends_even = lines.last().is_some_and(|last| last.pace == Pace::Even);
        (in_order && ends_even).then_some(WallClock { lines })
    }

    /// Nanoseconds since 1970 of a moment, in steps of one: as they were at that moment, or will be if nothing changes.
    pub fn unix_nanos(&self, at: Moment) -> u64 {
        let behind = self.lines.partition_point(|line| line.from <= at);
        let line = self.lines.get(behind.saturating_sub(1));
        line.map_or(0, |line| line.unix(at))
    }

    /// Seconds since 1970, rounded down.
    pub fn unix_seconds(&self, at: Moment) -> u64 {
        self.unix_nanos(at) / 1_000_000_000
    }

    /// The first moment with this date or a later one.
    pub fn moment(&self, unix_nanos: u64) -> Moment {
        let behind = self.lines.partition_point(|line| line.unix <= unix_nanos);
        let Some(line) = self.lines.get(behind.saturating_sub(1)) else {
            return Moment(0);
        };
        let until = match unix_nanos.checked_sub(line.unix) {
            Some(passed) => line.from.after(signed(line.pace.until(passed))),
            None => line.from.after(-signed(line.unix - unix_nanos)),
        };
        // What a step has left out comes with the step.
        self.lines.get(behind).map_or(until, |next| until.min(next.from))
    }

    /// Nanoseconds since 1970 when the clock was 0, if dates had always run as they will: for dates to come.
    pub fn epoch_nanos(&self) -> u64 {
        let last = self.lines.last();
        last.map_or(0, |line| {
            line.unix.wrapping_add_signed(line.from.0.wrapping_neg())
        })
    }

    /// The host's clock says that `now` is `host_unix` nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds. Returns what has changed, if that is more than the uncertainty.
    pub fn follow(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        let at = Moment::from(now);
        let told = host_unix.wrapping_sub(now.0);
        if (told.wrapping_sub(self.epoch_nanos()) as i64).unsigned_abs() <= slack.saturating_add(NOISE) {
            return None;
        }
        let unix = self.unix_nanos(at);
        let (change, pace) = match host_unix.checked_sub(unix) {
            Some(ahead) if ahead > SLEWED => (WallChange::Stepped(ahead), Pace::Even),
            Some(ahead) => (WallChange::Fast(ahead), Pace::Fast),
            None if unix - host_unix <= SLEWED => (WallChange::Behind(unix - host_unix), Pace::Slow),
            None => (WallChange::Behind(unix - host_unix), Pace::Half),
        };
        // What was to come is not to come.
        self.lines.retain(|line| line.from < at || line.from == Moment(0));
        let even = Line {
            from: at.after(signed(change.takes())),
            unix: host_unix.saturating_add(change.takes()),
            pace: Pace::Even,
        };
        if change.takes() > 0 {
            self.lines.push(Line { from: at, unix, pace });
        }
        self.lines.push(even);
        let old = self.lines.len().saturating_sub(KEPT);
        self.lines.drain(..old);
        Some(change)
    }
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: u64 = 1_700_000_000;
    const SECOND: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    /// A host whose clock is corrected, read ten times a second.
    struct Host {
        wall: WallClock,
        now: u64,
        /// What its clock says.
        unix: u64,
        last: u64,
        changes: Vec<WallChange>,
    }

    impl Host {
        fn new() -> Host {
            Host {
                wall: WallClock::starting(START),
                now: 0,
                unix: START * SECOND,
                last: 0,
                changes: Vec::new(),
            }
        }

        /// Lets time pass. No date is before the one before.
        fn pass(&mut self, nanos: u64) {
            let end = self.now + nanos;
            while self.now < end {
                let step = (end - self.now).min(100 * MS);
                (self.now, self.unix) = (self.now + step, self.unix + step);
                let before = self.wall.unix_nanos(Moment::from(Nanos(self.now)));
                // Readings err by as much as they say.
                let noise = self.now / (100 * MS) * 7_919 % 2_000;
                let change = self
                    .wall
                    .follow(Nanos(self.now), self.unix + noise - 1_000, 1_000);
                self.changes.extend(change);
                let date = self.date();
                assert!(before >= self.last && date >= before, "dates went back");
                self.last = date;
            }
        }

        fn set(&mut self, by: i64) {
            self.unix = self.unix.wrapping_add_signed(by);
        }

        fn date(&self) -> u64 {
            self.wall.unix_nanos(Moment::from(Nanos(self.now)))
        }

        fn error(&self) -> u64 {
            self.date().abs_diff(self.unix)
        }
    }

    #[test]
    fn dates_that_need_no_correction_are_exact_for_a_day() {
        let mut host = Host::new();
        host.pass(24 * 3_600 * SECOND);
        assert_eq!((host.error(), host.changes.len()), (0, 0));
    }

    #[test]
    fn a_step_forward_is_followed_at_once() {
        let mut host = Host::new();
        host.pass(SECOND);
        host.set(3_600 * SECOND as i64);
        host.pass(100 * MS);
        assert!(host.error() < 20_000, "{}", host.error());
        assert!(matches!(host.changes[..], [WallChange::Stepped(_)]));
        // The moments before keep their dates.
        assert_eq!(host.wall.unix_nanos(Moment(MS as i64)), START * SECOND + MS);
    }

    #[test]
    fn small_offsets_are_slewed_both_ways() {
        for by in [5 * MS as i64, -5 * MS as i64] {
            let mut host = Host::new();
            host.pass(SECOND);
            host.set(by);
            host.pass(5 * SECOND);
            // 500 ppm of five seconds, less the tenth before it is seen.
            assert!(
                host.error().abs_diff(5 * MS - 2_450_000) < 60_000,
                "{}",
                host.error()
            );
            host.pass(6 * SECOND);
            assert!(host.error() < 20_000, "{}", host.error());
            assert_eq!(host.changes.len(), 1);
        }
    }

    #[test]
    fn a_step_back_halves_the_speed_until_it_is_caught_up() {
        let mut host = Host::new();
        host.pass(10 * SECOND);
        host.set(-(60 * SECOND as i64));
        host.pass(60 * SECOND);
        assert!(host.error().abs_diff(30 * SECOND) < 100 * MS, "{}", host.error());
        host.pass(61 * SECOND);
        assert!(host.error() < 20_000);
        let [change] = host.changes[..] else {
            panic!("{:?}", host.changes)
        };
        assert!(change.takes().abs_diff(120 * SECOND) < 100 * MS);
    }

    #[test]
    fn a_leap_second_is_made_up_for_in_two_seconds() {
        let mut host = Host::new();
        host.pass(SECOND);
        host.set(-(SECOND as i64));
        host.pass(2_200 * MS);
        assert!(host.error() < 20_000, "{}", host.error());
    }

    #[test]
    fn a_correction_replaces_one_that_is_under_way() {
        let mut host = Host::new();
        host.pass(SECOND);
        host.set(-(100 * SECOND as i64));
        host.pass(10 * SECOND);
        host.set(100 * SECOND as i64);
        host.pass(SECOND);
        assert!(host.error() < 20_000, "{}", host.error());
        assert!(matches!(
            host.changes[..],
            [WallChange::Behind(_), WallChange::Stepped(_)]
        ));
    }

    #[test]
    fn moments_are_those_of_dates() {
        let mut host = Host::new();
        for by in [3, -2, 7_000, -40_000, 100_000] {
            host.pass(200 * SECOND);
            host.set(by * MS as i64);
        }
        host.pass(200 * SECOND);
        for at in (0..1_400).map(|tenths| Moment(tenths * 1_000_000_007)) {
            let date = host.wall.unix_nanos(at);
            let found = host.wall.moment(date);
            assert_eq!(host.wall.unix_nanos(found), date, "{at:?}");
            assert!(found.since(at).abs() <= 1, "{at:?} {found:?}");
        }
        // A date that was left out is that of the step; old ones and those to come are there, too.
        let before = host.wall.moment((START - 7) * SECOND);
        assert_eq!(before, Moment(-7 * SECOND as i64));
        let later = Moment(i64::try_from(host.now).unwrap() + 86_400 * SECOND as i64);
        assert_eq!(host.wall.moment(host.wall.unix_nanos(later)), later);
        assert_eq!(
            Moment::from_unix_nanos(host.wall.unix_nanos(later), host.wall.epoch_nanos()),
            later
        );
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut host = Host::new();
        for second in 0..1_000 {
            host.set(SECOND as i64 * (second % 3 - 1));
            host.pass(SECOND);
        }
        assert!(host.wall.lines.len() <= KEPT);
    }

    /// A process ends, the clock is stepped, and the next one begins: durations across that are as they were.
    #[test]
    fn the_next_process_has_the_moments_of_the_one_before() {
        for step in [3_600 * SECOND as i64, -3_600 * SECOND as i64] {
            let mut host = Host::new();
            host.pass(SECOND);
            host.set(60 * SECOND as i64);
            host.pass(9 * SECOND);
            let date = host.date();
            // The process began 100 s after the machine, and the next one begins 20 s later, with another clock.
            let octets = host.wall.encode(100 * SECOND as i64);
            host.wall = WallClock::decode(&octets, 120 * SECOND as i64).expect("what was encoded");
            (host.now, host.unix) = (0, host.unix + 10 * SECOND);
            host.set(step);
            assert_eq!(host.wall.moment(date), Moment(-10 * SECOND as i64));
            assert_eq!(host.date(), date + 10 * SECOND);
            host.pass(SECOND);
            assert!(matches!(
                host.changes[1..],
                [WallChange::Stepped(_) | WallChange::Behind(_)]
            ));
            assert_eq!(host.wall.moment(date), Moment(-10 * SECOND as i64));
            assert!(WallClock::decode(&octets[1..], 0).is_none() && WallClock::decode(&[], 0).is_none());
        }
    }
}
