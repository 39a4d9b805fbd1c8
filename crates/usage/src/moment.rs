//! Moments on the clock of the process, which may be before it began.

use flow::{Nanos, PacketTimes};

/// Nanoseconds of a second.
pub(crate) const NANOS: i64 = 1_000_000_000;

/// A moment on the process's clock, in nanoseconds. It is negative before the clock began: a session may be older than
/// the process that has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

impl Moment {
    /// The moment `nanos` nanoseconds after 1970, where the clock was 0 at `epoch_nanos` after 1970. What is
    /// outside of 584 years wraps. For dates that a correction of the host's clock is not to change:
    /// [`WallClock::moment`](crate::WallClock::moment).
    pub const fn from_unix_nanos(nanos: u64, epoch_nanos: u64) -> Moment {
        Moment(nanos.wrapping_sub(epoch_nanos) as i64)
    }

    /// The moment `nanos` nanoseconds later.
    #[must_use]
    pub const fn after(self, nanos: i64) -> Moment {
        Moment(self.0.saturating_add(nanos))
    }

    /// Nanoseconds from `earlier` to this.
    pub const fn since(self, earlier: Moment) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The same on the clock, from its beginning on.
    pub fn on_clock(self) -> Nanos {
        Nanos(u64::try_from(self.0).unwrap_or(0))
    }
}

impl From<Nanos> for Moment {
    fn from(now: Nanos) -> Moment {
        Moment(i64::try_from(now.0).unwrap_or(i64::MAX))
    }
}

/// When the first and the last packet of a measurement came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketMoments {
    /// The first packet.
    pub first: Moment,
    /// The last packet.
    pub last: Moment,
}

impl PacketMoments {
    /// Those of two measurements together.
    #[must_use]
    pub fn merged(self, other: PacketMoments) -> PacketMoments {
        PacketMoments {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
        }
    }
}

impl From<PacketTimes> for PacketMoments {
    fn from(times: PacketTimes) -> PacketMoments {
        PacketMoments {
            first: times.first.into(),
            last: times.last.into(),
        }
    }
}

/// What is the same for all URRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Nanoseconds since 1970 when the process's clock was 0, as dates to come have it
    /// ([`WallClock::epoch_nanos`](crate::WallClock::epoch_nanos)).
    pub epoch_nanos: u64,
    /// Seconds without a packet after which traffic has stopped (STOPT); at least 1.
    pub silence: u32,
}

impl Default for Setting {
    /// A clock that began in 1970, and a minute of silence.
    fn default() -> Setting {
        Setting {
            epoch_nanos: 0,
            silence: 60,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_before_the_clock_began_keeps_its_date() {
        let started = crate::WallClock::starting(1_700_000_000);
        let old = Moment(-5_000_000_001);
        assert_eq!(started.unix_nanos(old), 1_699_999_994_999_999_999);
        assert_eq!(started.moment(started.unix_nanos(old)), old);
        assert_eq!(
            Moment::from_unix_nanos(started.unix_nanos(old), started.epoch_nanos()),
            old
        );
        assert_eq!(Moment::from_unix_nanos(7, 0), Moment(7));
    }
}
