//! The counter of one URR in one direction, and the times of its packets.
//!
//! The word that counts packets also says in which millisecond the last one came. A packet compares that with the
//! millisecond that it is, no more. The first packet of a millisecond writes it; the first since times were taken, and
//! one in 2^22, writes beside the counters what is rare, too ([`Rare`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::hash::combine;
use crate::{Direction, Nanos, UrrCount};

const NANOS: u64 = 1_000_000;

/// The millisecond in which packets are counted: whole ones since the clock began, modulo 2^41 (69 years).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Millisecond(u64);

impl Millisecond {
    /// The millisecond that `now` is in.
    #[inline]
    pub const fn of(now: Nanos) -> Self {
        Self((now.0 / NANOS + 1) << Self::SHIFT)
    }

    /// Above the packets of a [`Tally`].
    const SHIFT: u32 = 23;

    /// From 1 on: 0 is none.
    const fn number(self) -> u64 {
        self.0 >> Self::SHIFT
    }
}

/// The beginning of the millisecond with this number.
const fn beginning(number: u64) -> Nanos {
    Nanos(number.saturating_sub(1).saturating_mul(NANOS))
}

/// When packets of a URR were counted, in whole milliseconds of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketTimes {
    /// The first of them.
    pub first: Nanos,
    /// The last one.
    pub last: Nanos,
}

/// What counters say when a packet was counted; of several of them, all bits together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Added {
    pub(super) octets: u64,
    /// Not 0: [`Tally::note`] is to follow.
    pub(super) is_late: u64,
}

impl Added {
    #[inline(always)]
    pub(super) const fn with(self, other: Self) -> Self {
        Self {
            octets: self.octets | other.octets,
            is_late: self.is_late | other.is_late,
        }
    }
}

/// A counter: what packets write.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Tally {
    /// From below: 22 bits of the packets; a bit that is set when they have run over, until that is noted; the
    /// millisecond of the last one, or 0.
    word: u64,
    octets: u64,
}

impl Tally {
    /// Nothing was counted.
    pub(super) const NONE: Self = Self { word: 0, octets: 0 };

    const PACKETS: u64 = (1 << 22) - 1;
    const RUN_OVER: u64 = 1 << 22;

    /// One packet more.
    #[inline(always)]
    pub(super) fn add(&mut self, octets: u64, millisecond: Millisecond) -> Added {
        self.word = self.word.wrapping_add(1);
        self.octets = self.octets.wrapping_add(octets);
        Added {
            octets: self.octets,
            is_late: (self.word ^ millisecond.0) >> 22,
        }
    }

    pub(super) const fn set_octets(&mut self, octets: u64) {
        self.octets = octets;
    }

    /// One packet less of those that were counted. Whether the rest of its number is to be one less, too.
    pub(super) fn take_back(&mut self, octets: u64) -> bool {
        self.octets = self.octets.saturating_sub(octets);
        let runs_under = self.word & (Self::RUN_OVER | Self::PACKETS) == 0;
        if runs_under {
            self.word |= Self::PACKETS;
        } else {
            self.word -= 1;
        }
        runs_under
    }

    /// The same where there is nothing rare: returns whether that is so, and does nothing if it is not.
    #[inline(always)]
    pub(super) const fn note_plainly(&mut self, millisecond: Millisecond) -> bool {
        let is_plain = self.word & Self::RUN_OVER == 0 && self.number() != 0;
        if is_plain {
            self.word = self.word & Self::PACKETS | millisecond.0;
        }
        is_plain
    }

    /// A packet was counted in this millisecond. Whether it is the first since times were taken, and whether the
    /// packets have run over.
    pub(super) fn note(&mut self, millisecond: Millisecond) -> Noted {
        let noted = Noted {
            is_first: self.number() == 0,
            runs_over: self.word & Self::RUN_OVER != 0,
        };
        self.word = self.word & Self::PACKETS | millisecond.0;
        noted
    }

    /// `mark`, changed by what is counted here and by nothing else: other packets or octets make another mark of it.
    #[inline]
    pub(super) const fn mark(self, mark: u64) -> u64 {
        let packets = self.word & (Self::RUN_OVER | Self::PACKETS);
        combine(combine(mark, packets).rotate_left(29), self.octets)
    }

    /// The number of the millisecond of the last packet, or 0.
    const fn number(self) -> u64 {
        self.word >> Millisecond::SHIFT
    }

    fn forget_millisecond(&mut self) {
        self.word &= Self::RUN_OVER | Self::PACKETS;
    }

    const fn packets(self, rest: u32) -> u64 {
        (self.word & (Self::RUN_OVER | Self::PACKETS)).wrapping_add((rest as u64) << 22)
    }
}

/// What a counter's note of a packet has changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// It is the first since times were taken.
    pub(super) is_first: bool,
    /// The packets have run over.
    pub(super) runs_over: bool,
}

/// What is rarely written of a URR.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Rare {
    /// The lower 32 bits of the number of the millisecond of the first packet since times were taken; 0 with those in
    /// `unit`: none.
    first: u32,
    /// What a packet is in the counter: 0 its octets, 1 one, `WEIGHTED` its octets by weight; else the weight of what
    /// is counted in it for another one: the slot of that, and how many times. In [`FIRST`] six bits more of `first`.
    /// Leaves the top bit of the line's first word clear.
    unit: u32,
    /// The packets of each direction in units of 2^22.
    packets: [u32; 2],
}

/// URRs with what is rare in one line.
pub(super) const RARE_PER_LINE: usize = 4;

const WEIGHTED: u32 = 2;
/// A bit of a weight.
const WEIGHS: u32 = 1 << 30;
/// Bits of the unit that are of the first packet's time: with them it has 38 (8 years).
const FIRST: u32 = 0x3f << 24;
/// Bits of that time.
const FIRST_BITS: u64 = (1 << 38) - 1;

impl Rare {
    pub(super) fn note(&mut self, direction: usize, millisecond: Millisecond, noted: Noted) {
        if noted.is_first && self.first() == 0 {
            self.set_first((millisecond.number() & FIRST_BITS).max(1));
        }
        if noted.runs_over
            && let Some(packets) = self.packets.get_mut(direction)
        {
            *packets = packets.wrapping_add(1);
        }
    }

    /// The lower bits of the number of the millisecond of the first packet, or 0.
    const fn first(&self) -> u64 {
        self.first as u64 | ((self.unit & FIRST) as u64) << 8
    }

    const fn set_first(&mut self, number: u64) {
        self.first = number as u32;
        self.unit = self.unit & !FIRST | (number >> 8) as u32 & FIRST;
    }

    /// What a packet is in the counter, without the bits of time.
    const fn unit(&self) -> u32 {
        self.unit & !FIRST
    }

    const fn set_unit(&mut self, unit: u32) {
        self.unit = self.unit & FIRST | unit;
    }

    /// Has the counter count one for each packet.
    pub(super) const fn count_units(&mut self) {
        self.set_unit(1);
    }

    /// Has the counter count octets by weight.
    pub(super) fn count_weights(&mut self) {
        self.set_unit(WEIGHTED);
    }

    /// Has packets count this many times in the counter in slot `of`.
    pub(super) fn weigh(&mut self, of: u8, times: u16) {
        self.set_unit(WEIGHS | u32::from(of) << 16 | u32::from(times));
    }

    /// How many times a packet in it counts in the slot `of`.
    pub(super) const fn times(&self, of: usize) -> u64 {
        match self.unit() & WEIGHS != 0 && self.unit() >> 16 & 0xff == of as u32 {
            true => (self.unit & 0xffff) as u64,
            false => 0,
        }
    }

    /// Whether octets count in it by weight.
    pub(super) const fn is_weighted(&self) -> bool {
        self.unit() == WEIGHTED
    }

    /// What a packet of this many octets is in it, where no weight matters.
    pub(super) const fn amount(&self, octets: u64) -> u64 {
        match self.unit() {
            1 => 1,
            _ => octets,
        }
    }

    /// Keeps what is counted.
    pub(super) const fn counting_like(mut self, other: &Self) -> Self {
        self.set_unit(other.unit());
        self
    }

    pub(super) fn run_under(&mut self, direction: usize) {
        if let Some(packets) = self.packets.get_mut(direction) {
            *packets = packets.wrapping_sub(1);
        }
    }
}

/// All that is known of a URR's packets: uplink, downlink, and what is rare.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tallied {
    pub(super) tallies: [Tally; 2],
    pub(super) rare: Rare,
}

impl Tallied {
    /// The counts; octets as the counters say, which may be ahead.
    pub(super) fn count(&self) -> UrrCount {
        let [uplink, downlink] = self.tallies;
        UrrCount {
            ul_packets: uplink.packets(self.rare.packets[0]),
            ul_octets: uplink.octets,
            dl_packets: downlink.packets(self.rare.packets[1]),
            dl_octets: downlink.octets,
            events: 0,
        }
    }

    /// The same with these octets.
    pub(super) fn with_octets(mut self, count: UrrCount) -> Self {
        for direction in Direction::BOTH {
            self.tallies[direction as usize].octets = count.octets(direction);
        }
        self
    }

    /// Adds packets of one direction, `octets` in all, the last of which was counted in this millisecond.
    pub(super) fn add(&mut self, direction: Direction, packets: u64, octets: u64, millisecond: Millisecond) {
        let way = direction as usize;
        let (tally, rest) = (&mut self.tallies[way], &mut self.rare.packets[way]);
        let sum = tally.packets(*rest).wrapping_add(packets);
        *rest = (sum >> 22) as u32;
        tally.word = millisecond.0 | sum & Tally::PACKETS;
        tally.octets = tally.octets.wrapping_add(octets);
        if self.rare.first() == 0 {
            self.rare.set_first((millisecond.number() & FIRST_BITS).max(1));
        }
    }

    pub(super) fn times(&self) -> Option<PacketTimes> {
        let last = self.tallies.map(Tally::number).into_iter().max();
        let (first, last) = (self.rare.first(), last.unwrap_or_default());
        // The first has fewer bits; it came no later than the last.
        let before = last.wrapping_sub(first) & FIRST_BITS;
        (first != 0).then(|| PacketTimes {
            first: beginning(last.saturating_sub(before)),
            last: beginning(last),
        })
    }

    pub(super) fn forget_times(&mut self) {
        self.tallies.iter_mut().for_each(Tally::forget_millisecond);
        self.rare.set_first(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn millisecond(number: u64) -> Millisecond {
        Millisecond::of(Nanos::from_millis(number))
    }

    #[test]
    fn only_the_first_packet_of_a_millisecond_is_to_be_noted() {
        let mut tally = Tally::default();
        let added =
            |octets, is_late| move |added: Added| added.octets == octets && (added.is_late != 0) == is_late;
        assert!(added(10, true)(tally.add(10, millisecond(0))));
        let first = Noted {
            is_first: true,
            runs_over: false,
        };
        assert_eq!(tally.note(millisecond(0)), first);
        assert!(added(20, false)(tally.add(10, millisecond(0))));
        assert!(added(30, true)(tally.add(10, millisecond(1))));
        assert_eq!(tally.note(millisecond(1)), Noted::default());
        assert_eq!((tally.packets(0), tally.octets), (3, 30));
        let end = Millisecond::of(Nanos(((1 << 41) - 2) * NANOS));
        assert!(added(40, true)(tally.add(10, end)));
        tally.note(end);
        assert_eq!(beginning(tally.number()), Nanos(((1 << 41) - 2) * NANOS));
    }

    #[test]
    fn times_are_those_of_the_first_and_the_last_packet_to_the_millisecond() {
        for begin in [
            0,
            5,
            (1 << 32) - 2,
            (1 << 38) - 2,
            (1 << 38) - 1,
            1 << 38,
            1 << 40,
        ] {
            let mut tallied = Tallied::default();
            tallied.rare.weigh(200, u16::MAX);
            assert_eq!(tallied.times(), None);
            for (direction, later) in [(0, 0), (1, 1), (1, 86_400_007)] {
                let now = millisecond(begin + later);
                let tally = &mut tallied.tallies[direction];
                assert_ne!(tally.add(1, now).is_late, 0);
                let noted = tally.note(now);
                tallied.rare.note(direction, now, noted);
            }
            let [first, last] = [begin, begin + 86_400_007].map(Nanos::from_millis);
            // The first of all numbers of a turn of the bits is 0, which is none: then it is a millisecond late.
            let wraps = begin == (1 << 38) - 1;
            let told = tallied
                .times()
                .map(|times| (times.first - Duration::from_millis(wraps.into()), times.last));
            assert_eq!(told, Some((first, last)), "{begin}");
            assert_eq!(tallied.rare.times(200), u64::from(u16::MAX));
            tallied.forget_times();
            assert_eq!(tallied.times(), None);
        }
    }

    #[test]
    fn packets_run_over_and_under_into_what_is_rare() {
        let mut tallied = Tallied::default();
        let [tally, _] = &mut tallied.tallies;
        tally.note(millisecond(7));
        tally.word |= Tally::PACKETS;
        assert_ne!(tally.add(1, millisecond(7)).is_late, 0);
        let noted = tally.note(millisecond(7));
        let over = Noted {
            is_first: false,
            runs_over: true,
        };
        assert_eq!(noted, over);
        tallied.rare.note(0, millisecond(7), noted);
        assert_eq!(tallied.count().ul_packets, 1 << 22);
        assert!(tallied.tallies[0].take_back(1));
        tallied.rare.run_under(0);
        assert_eq!(tallied.count().ul_packets, (1 << 22) - 1);
        // Taken back at once, before it is noted.
        tallied.tallies[0].add(1, millisecond(7));
        assert!(!tallied.tallies[0].take_back(1));
        assert_eq!(tallied.count().ul_packets, (1 << 22) - 1);
    }
}
