//! The coarse time of aging.

use core::time::Duration;

use crate::Nanos;

/// A moment in ticks of 2^29 ns (0.54 s), modulo 2^16 (9.8 hours).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick(pub(super) u16);

impl Tick {
    const SHIFT: u32 = 29;
    /// How long a tick lasts.
    pub const LENGTH: Duration = Duration::from_nanos(1 << Self::SHIFT);
    /// The longest idle time that a flow entry can have: 4.9 hours.
    pub const MAX_IDLE: u16 = 0x7fff;

    /// The tick that `now` is in.
    #[inline]
    pub const fn of(now: Nanos) -> Self {
        Self((now.0 >> Self::SHIFT) as u16)
    }

    /// How many ticks are at least `duration`, for [`FlowEntry::idle`](crate::FlowEntry::idle): from 1 to
    /// [`MAX_IDLE`](Self::MAX_IDLE).
    pub fn idle(duration: Duration) -> u16 {
        let ticks = duration.as_nanos().div_ceil(Self::LENGTH.as_nanos());
        ticks.clamp(1, u128::from(Self::MAX_IDLE)) as u16
    }

    /// The tick `ticks` after this one.
    #[inline(always)]
    pub(super) const fn after(self, ticks: u16) -> Self {
        Self(self.0.wrapping_add(ticks))
    }

    /// Whether this is before `other`, if they are less than 4.9 hours apart.
    #[inline(always)]
    pub(super) const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i16) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_rounded_up_within_bounds() {
        assert_eq!(Tick::idle(Duration::ZERO), 1);
        assert_eq!(Tick::idle(Tick::LENGTH), 1);
        assert_eq!(Tick::idle(Tick::LENGTH + Duration::from_nanos(1)), 2);
        assert_eq!(Tick::idle(Duration::MAX), Tick::MAX_IDLE);
        assert_eq!(Tick::idle(Duration::from_secs(7440)), 13859);
    }

    #[test]
    fn order_survives_the_wrap() {
        let late = Tick::of(Nanos((0xfffe << 29) + 5));
        assert!(late.is_before(late.after(10)) && !late.after(10).is_before(late) && !late.is_before(late));
    }
}
