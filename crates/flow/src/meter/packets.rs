//! `Packets`: how many packets pass in a unit of time, exactly.
//!
//! A *window* begins with the first packet that asks after the one before has ended, and lasts one unit of time. In
//! it no more packets pass than its rate says, whatever their lengths. What is beyond that may pass an additional
//! window, with a rate and a unit of its own (TS 29.244 §5.4.15.2). A clock that goes back stays in the window.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Colour;
use crate::Nanos;
use crate::hash::combine;

/// A unit of time that packets are counted in (TS 29.244 Table 8.2.63.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TimeUnit {
    /// One minute.
    #[default]
    Minute = 0,
    /// Six minutes.
    SixMinutes = 1,
    /// An hour.
    Hour = 2,
    /// A day.
    Day = 3,
    /// A week.
    Week = 4,
}

impl TimeUnit {
    /// The unit with this number, of which the lower three bits count. Those that there are not are minutes.
    pub const fn from_value(value: u8) -> Self {
        match value & 7 {
            1 => Self::SixMinutes,
            2 => Self::Hour,
            3 => Self::Day,
            4 => Self::Week,
            _ => Self::Minute,
        }
    }

    /// Its number.
    pub const fn value(self) -> u8 {
        self as u8
    }

    /// How long it is.
    pub const fn nanos(self) -> u64 {
        let minutes = match self {
            Self::Minute => 1,
            Self::SixMinutes => 6,
            Self::Hour => 60,
            Self::Day => 24 * 60,
            Self::Week => 7 * 24 * 60,
        };
        minutes * 60_000_000_000
    }
}

/// Packets in a unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketsPer {
    /// Packets; 0 lets none pass.
    pub packets: u16,
    /// The unit.
    pub unit: TimeUnit,
}

/// How many packets of one direction pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketRate {
    /// How many.
    pub base: PacketsPer,
    /// How many more, beyond those.
    pub additional: Option<PacketsPer>,
}

/// What is left in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Window {
    /// Packets that may pass yet.
    pub left: u16,
    /// When it ends; the next packet after that begins another.
    pub ends: Nanos,
}

/// What the windows of one direction hold at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketState {
    /// Of the rate.
    pub base: Window,
    /// Of the additional rate.
    pub additional: Window,
}

impl PacketState {
    /// `mark`, changed by what is left: other windows make another mark of it.
    pub(crate) fn mark(self, mark: u64) -> u64 {
        let windows = [self.base, self.additional];
        windows.into_iter().fold(mark, |mark, window| {
            combine(combine(mark, window.left.into()).rotate_left(29), window.ends.0)
        })
    }
}

/// A window as it is in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
struct Span {
    /// In nanoseconds; its top bit is never set.
    ends: u64,
    left: u16,
    most: u16,
    /// A [`TimeUnit`].
    unit: u8,
    unused: [u8; 3],
}

/// The windows of one direction, as a meter's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Packets {
    base: Span,
    additional: Span,
    unused: [u64; 2],
    /// Whether the last packet that passed was an additional one.
    was_additional: u64,
    /// That of the meter.
    kind: u64,
}

const _: () = assert!(size_of::<Packets>() == 64);

/// Beside the kind: no window begins any more.
const ENDS: u64 = 16;

impl Span {
    const fn new(rate: PacketsPer) -> Self {
        Self {
            ends: 0,
            left: rate.packets,
            most: rate.packets,
            unit: rate.unit as u8,
            unused: [0; 3],
        }
    }

    fn take(&mut self, now: u64, renews: bool) -> bool {
        if now >= self.ends {
            if !renews {
                return false;
            }
            self.left = self.most;
            let unit = TimeUnit::from_value(self.unit).nanos();
            self.ends = now.saturating_add(unit).min(i64::MAX as u64);
        }
        let passes = self.left != 0;
        self.left = self.left.saturating_sub(1);
        passes
    }

    /// Continues from `old`: what has passed counts. Another unit begins anew.
    fn go_on(&mut self, old: &Self) {
        if self.unit != old.unit {
            return;
        }
        self.ends = old.ends;
        self.left = if self.most == old.most {
            old.left
        } else {
            self.most.saturating_sub(old.most.saturating_sub(old.left))
        };
    }

    const fn window(&self) -> Window {
        Window {
            left: self.left,
            ends: Nanos(self.ends),
        }
    }

    fn set(&mut self, window: Window) {
        self.left = window.left;
        self.ends = window.ends.0.min(i64::MAX as u64);
    }

    /// Gives away half of what is left, and the odd packet.
    fn halve(&mut self) -> Window {
        let given = self.left - self.left / 2;
        self.left -= given;
        Window {
            left: given,
            ..self.window()
        }
    }

    /// Takes what is left elsewhere of the same window; of a later one, all.
    fn join(&mut self, other: Window) {
        if other.ends.0 == self.ends {
            self.left = self.left.saturating_add(other.left);
        } else if other.ends.0 > self.ends {
            self.set(other);
        }
    }
}

impl Packets {
    /// With nothing passed yet; `renews`: whether windows begin.
    pub(super) const fn new(rate: PacketRate, renews: bool, kind: u64) -> Self {
        let none = PacketsPer {
            packets: 0,
            unit: TimeUnit::Minute,
        };
        let additional = match rate.additional {
            Some(additional) => additional,
            None => none,
        };
        Self {
            base: Span::new(rate.base),
            additional: Span::new(additional),
            unused: [0; 2],
            was_additional: 0,
            kind: if renews { kind } else { kind | ENDS },
        }
    }

    /// Takes one packet.
    pub(super) fn take(&mut self, now: u64) -> Colour {
        let renews = self.kind & ENDS == 0;
        if self.base.take(now, renews) {
            self.was_additional = 0;
            return Colour::Green;
        }
        if self.additional.most != 0 && self.additional.take(now, renews) {
            self.was_additional = 1;
            return Colour::Green;
        }
        Colour::Red
    }

    /// Puts back the packet that passed last.
    pub(super) fn give_back(&mut self) {
        let span = if self.was_additional == 0 {
            &mut self.base
        } else {
            &mut self.additional
        };
        span.left = span.left.saturating_add(1);
    }

    pub(super) fn go_on(&mut self, old: &Self) {
        self.base.go_on(&old.base);
        if (self.additional.most == 0) == (old.additional.most == 0) {
            self.additional.go_on(&old.additional);
        }
    }

    pub(super) const fn state(&self) -> PacketState {
        PacketState {
            base: self.base.window(),
            additional: self.additional.window(),
        }
    }

    pub(super) fn set_state(&mut self, state: PacketState) {
        self.base.set(state.base);
        self.additional.set(state.additional);
    }

    pub(super) fn halve(&mut self) -> PacketState {
        PacketState {
            base: self.base.halve(),
            additional: self.additional.halve(),
        }
    }

    pub(super) fn join(&mut self, state: PacketState) {
        self.base.join(state.base);
        self.additional.join(state.additional);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000_000_000;

    fn rate(packets: u16, additional: Option<u16>) -> PacketRate {
        let per = |packets| PacketsPer {
            packets,
            unit: TimeUnit::Minute,
        };
        PacketRate {
            base: per(packets),
            additional: additional.map(per),
        }
    }

    fn passed(packets: &mut Packets, now: u64, offered: u16) -> u16 {
        (0..offered).fold(0, |sum, _| sum + u16::from(packets.take(now) == Colour::Green))
    }

    #[test]
    fn a_window_begins_with_a_packet_and_lasts_a_unit() {
        let mut packets = Packets::new(rate(3, None), true, 3);
        assert_eq!(passed(&mut packets, 5, 10), 3);
        assert_eq!(passed(&mut packets, MINUTE + 4, 10), 0);
        assert_eq!(passed(&mut packets, 7 * MINUTE, 2), 2);
        assert_eq!(passed(&mut packets, 8 * MINUTE - 1, 2), 1);
        assert_eq!(passed(&mut packets, 4, 2), 0, "a clock that goes back");
        assert_eq!(passed(&mut packets, 8 * MINUTE, 9), 3);
    }

    #[test]
    fn what_is_beyond_the_rate_passes_the_additional_one_and_goes_back_where_it_came_from() {
        let mut packets = Packets::new(rate(2, Some(3)), true, 3);
        assert_eq!(passed(&mut packets, 0, 4), 4);
        packets.give_back();
        assert_eq!((packets.base.left, packets.additional.left), (0, 2));
        assert_eq!(passed(&mut packets, 1, 9), 2);
        assert_eq!(passed(&mut packets, MINUTE, 1), 1);
        packets.give_back();
        assert_eq!(packets.base.left, 2);
    }

    #[test]
    fn another_rate_counts_what_has_passed_and_another_unit_begins_anew() {
        let mut old = Packets::new(rate(10, None), true, 3);
        assert_eq!(passed(&mut old, 0, 4), 4);
        let mut new = Packets::new(rate(5, None), true, 3);
        new.go_on(&old);
        assert_eq!(passed(&mut new, 1, 9), 1);
        let day = PacketsPer {
            packets: 5,
            unit: TimeUnit::Day,
        };
        let mut daily = Packets::new(
            PacketRate {
                base: day,
                additional: None,
            },
            true,
            3,
        );
        daily.go_on(&new);
        assert_eq!(passed(&mut daily, 1, 9), 5);
    }

    #[test]
    fn two_halves_pass_what_the_whole_would() {
        for spent in 0..=7 {
            let mut old = Packets::new(rate(7, None), true, 3);
            assert_eq!(passed(&mut old, 0, spent), spent);
            let given = old.halve();
            let mut leaving = Packets::new(rate(7, None), false, 3);
            leaving.go_on(&old);
            let mut arriving = Packets::new(rate(7, None), true, 3);
            arriving.set_state(given);
            let both = passed(&mut leaving, 1, 2) + passed(&mut arriving, 1, 1);
            arriving.join(leaving.state());
            assert_eq!(both + passed(&mut arriving, 2, 9), 7 - spent, "{spent}");
            assert_eq!(passed(&mut leaving, 2 * MINUTE, 1), 0, "no window begins there");
            assert_eq!(passed(&mut arriving, 2 * MINUTE, 9), 7);
            arriving.join(leaving.state());
            assert_eq!(
                passed(&mut arriving, 2 * MINUTE, 9),
                0,
                "what is left of an old window is lost"
            );
        }
    }
}
