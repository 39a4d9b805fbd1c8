//! Where the objects of a block are: the numbers of its lines, from how many of each object there are.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::BlockImage;
use super::bounds::Bounds;
use super::tally::RARE_PER_LINE;
use crate::Direction;

const FLAG: u8 = 0x80;

/// Marks that a read line holds itself.
pub(super) const INLINE_MARKS: usize = 4;
/// Marks in one of the lines that hold all of them where the read lines do not.
pub(super) const MARKS_PER_LINE: usize = 32;
/// Counters in a line.
pub(super) const TALLIES_PER_LINE: usize = 4;
/// URRs whose counters are in write lines.
pub(super) const INLINE_URRS: usize = 2;
/// Lines of read lines and write lines.
pub(super) const HEAD: usize = 4;

/// The line of a direction's read line, from the block's start.
#[inline(always)]
pub(super) const fn read_line_at(direction: Direction) -> usize {
    2 * direction as usize
}

/// The line of a direction's write line.
#[inline(always)]
pub(super) const fn write_line_at(direction: Direction) -> usize {
    read_line_at(direction) + 1
}

/// How many of each object the block has: where its lines are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) forwards: u8,
    pub(super) marks: u8,
    /// With `FLAG`: there are bounds.
    urrs: u8,
    /// Of one direction. With `FLAG`: one a line.
    meters: u8,
}

impl Counts {
    /// `None` when the image breaks a bound.
    pub(super) fn of(image: &BlockImage) -> Option<Self> {
        if !image.is_within_bounds() {
            return None;
        }
        let has_any = |meters: &[Option<_>; 2]| meters.iter().any(Option::is_some);
        let meters = image.meters.iter().rposition(has_any).map_or(0, |last| last + 1);
        let is_wide = image
            .meters
            .iter()
            .flatten()
            .flatten()
            .any(|spec| !spec.is_single());
        let is_bounded = image.bounds.iter().any(|bounds| *bounds != Bounds::NONE);
        Some(Self {
            forwards: image.forwards.len() as u8,
            marks: image.marks.len() as u8,
            urrs: image.urrs | if is_bounded { FLAG } else { 0 },
            meters: meters as u8 | if is_wide { FLAG } else { 0 },
        })
    }

    #[inline(always)]
    pub(super) const fn urrs(self) -> u8 {
        self.urrs & !FLAG
    }

    /// The same with a line of bounds for each URR, if `is_bounded`.
    pub(super) const fn bounded_if(self, is_bounded: bool) -> Self {
        let flag = if is_bounded && self.urrs() > 0 { FLAG } else { 0 };
        Self {
            urrs: self.urrs | flag,
            ..self
        }
    }

    /// Whether there is a line of bounds for each URR.
    #[inline(always)]
    pub(super) const fn is_bounded(self) -> bool {
        self.urrs & FLAG != 0
    }

    /// The QER slots that have room for meters.
    #[inline(always)]
    pub(super) const fn meter_slots(self) -> u8 {
        self.meters & !FLAG
    }

    /// Whether only the QER in slot 0 has room for meters, in the write lines.
    #[inline(always)]
    pub(super) const fn has_one_meter(self) -> bool {
        self.meters == 1
    }

    /// Whether meters have a line each.
    #[inline(always)]
    pub(super) const fn is_wide(self) -> bool {
        self.meters & FLAG != 0
    }

    /// Where the counters start that are not in write lines, in lines from the block's start.
    pub(super) const COUNTERS_AT: usize = HEAD;

    /// Where the meters start that are not in write lines.
    #[inline(always)]
    pub(super) const fn meters_at(self) -> usize {
        Self::COUNTERS_AT + (self.urrs() as usize).saturating_sub(INLINE_URRS).div_ceil(2)
    }

    /// Where the forwards start.
    #[inline(always)]
    pub(super) const fn forwards_at(self) -> usize {
        self.meters_at() + self.meter_lines()
    }

    /// Where the further marks start.
    #[inline(always)]
    pub(super) const fn marks_at(self) -> usize {
        self.forwards_at() + self.forwards as usize
    }

    /// Where the bounds start.
    pub(super) const fn bounds_at(self) -> usize {
        let marks = self.marks as usize;
        self.marks_at()
            + if marks > INLINE_MARKS {
                marks.div_ceil(MARKS_PER_LINE)
            } else {
                0
            }
    }

    /// Where what is rare starts.
    pub(super) const fn rare_at(self) -> usize {
        self.bounds_at()
            + if self.is_bounded() {
                self.urrs() as usize
            } else {
                0
            }
    }

    /// All of the block's lines.
    pub(super) const fn lines(self) -> usize {
        self.rare_at() + (self.urrs() as usize).div_ceil(RARE_PER_LINE)
    }
}

/// Where a meter is.
#[derive(Clone, Copy)]
pub(super) enum MeterPlace {
    /// This line, from the block's start, has no other.
    Whole(usize),
    /// Half of the line: 0 is the lower one. That of a write line is the lower one, too.
    Half(usize, usize),
}

impl MeterPlace {
    pub(super) const fn line(self) -> usize {
        match self {
            Self::Whole(line) | Self::Half(line, _) => line,
        }
    }
}

impl Counts {
    /// Meters of one direction that are not in its write line.
    #[inline(always)]
    pub(super) const fn further_meters(self) -> usize {
        let slots = self.meter_slots() as usize;
        if self.is_wide() {
            slots
        } else {
            slots.saturating_sub(1)
        }
    }

    /// The lines of those of both directions.
    #[inline(always)]
    pub(super) const fn meter_lines(self) -> usize {
        // Two meters a line, of two directions: as many as one direction has.
        self.further_meters() * if self.is_wide() { 2 } else { 1 }
    }

    /// Where the meter of the QER in `slot` is, which is one of the slots that have room for them.
    pub(super) const fn meter_place(self, slot: usize, direction: Direction) -> MeterPlace {
        let before = direction as usize * self.further_meters();
        match slot.checked_sub(1) {
            _ if self.is_wide() => MeterPlace::Whole(self.meters_at() + before + slot),
            None => MeterPlace::Half(write_line_at(direction), 0),
            Some(further) => {
                let half = before + further;
                MeterPlace::Half(self.meters_at() + half / 2, half % 2)
            }
        }
    }

    /// The line of the first meter of these QERs that is not in a write line, from the block's start; that of the write
    /// line if there is no other; 0: they have none.
    #[inline]
    pub(super) fn meters_hint(self, qers: u64, direction: Direction) -> u8 {
        let first = qers.trailing_zeros() as usize;
        let further = (qers & !1).trailing_zeros() as usize;
        let slots = usize::from(self.meter_slots());
        let slot = if further < slots && !self.is_wide() {
            further
        } else {
            first
        };
        if slot >= slots {
            return 0;
        }
        self.meter_place(slot, direction).line() as u8
    }
}

/// The position of a URR's counter in a block.
#[derive(Clone, Copy)]
pub(super) struct TallyPosition {
    /// The line, from the block's start.
    pub line: usize,
    /// The index in the line.
    pub index: usize,
}

/// The position of a URR's counter in one direction.
pub(super) const fn tally_at(slot: usize, direction: Direction) -> TallyPosition {
    match slot.checked_sub(INLINE_URRS) {
        None => TallyPosition {
            line: write_line_at(direction),
            index: TALLIES_PER_LINE - INLINE_URRS + slot,
        },
        Some(further) => {
            let tally = further * 2 + direction as usize;
            TallyPosition {
                line: Counts::COUNTERS_AT + tally / TALLIES_PER_LINE,
                index: tally % TALLIES_PER_LINE,
            }
        }
    }
}

/// A mask of the `count` lowest bits.
#[inline(always)]
pub(super) const fn below(count: u8) -> u64 {
    match u64::MAX.checked_shr(64 - count as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

/// The slots in a mask.
pub(super) fn slots(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let slot = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (slot < u64::BITS).then_some(slot as usize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_follow_each_other_without_overlap() {
        let counts = Counts {
            forwards: 3,
            marks: 5,
            urrs: 5,
            meters: 3,
        };
        let starts = |counts: Counts| {
            [
                counts.meters_at(),
                counts.forwards_at(),
                counts.marks_at(),
                counts.bounds_at(),
                counts.rare_at(),
                counts.lines(),
            ]
        };
        assert_eq!(starts(counts), [6, 8, 11, 12, 12, 14]);
        assert_eq!(Counts { marks: 4, ..counts }.lines(), 13);
        let near = Counts {
            urrs: 2,
            meters: 1,
            ..counts
        };
        assert_eq!(starts(near), [4, 4, 7, 8, 8, 9]);
        let bounded = Counts {
            urrs: 3 | FLAG,
            meters: 5 | FLAG,
            ..counts
        };
        assert_eq!(starts(bounded), [5, 15, 18, 19, 22, 23]);
        let most = Counts {
            forwards: 250,
            marks: 64,
            urrs: 64 | FLAG,
            meters: 64 | FLAG,
        };
        assert_eq!(most.lines(), 4 + 31 + 128 + 250 + 2 + 64 + 16);
    }
}
