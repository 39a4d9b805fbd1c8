//! Which lines of a block a packet touches: for floors, which touch the same ones with code of their own.

use super::BlockImage;
use super::allocator::LineAllocator;
use super::layout::{Counts, read_line_at, write_line_at};
use super::lines::Line;

/// Octets of one line of a block.
pub(crate) const LINE: usize = size_of::<Line>();

/// The lines of one session's block, by direction; each number counts from the block's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BlockLines {
    /// Lines from one block to the next of the same kind.
    pub(crate) stride: usize,
    /// The read line: generation, gates, inline forward.
    pub(crate) read_line: [usize; 2],
    /// The write line: the first meter and the first counters.
    pub(crate) write_line: [usize; 2],
    /// The first line of the direction beyond those: that of the second meter, or, in a block with one meter at most,
    /// of a forward.
    pub(crate) further: [usize; 2],
}

impl BlockLines {
    /// Those of a block that is made of `image`; `None` when the image breaks a bound.
    pub(crate) fn of(image: &BlockImage) -> Option<Self> {
        let counts = Counts::of(image)?;
        let further = |direction| match usize::from(counts.meters_hint(0b10, direction)) {
            // No meter there: the forwards are next.
            0 => counts.forwards_at() + direction as usize,
            line => line,
        };
        let lines = counts.lines();
        let both = crate::Direction::BOTH;
        let stride = LineAllocator::rounded(lines)?;
        Some(Self {
            stride,
            read_line: both.map(read_line_at),
            write_line: both.map(write_line_at),
            further: both.map(|direction| further(direction).min(stride - 1)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Forward;
    use crate::meter::{MeterSpec, Rate};

    #[test]
    fn the_lines_are_those_of_the_layout() {
        let meter = Some(MeterSpec::Single {
            rate: Rate::from_kbit(1),
            burst: 1,
        });
        let mut image = BlockImage {
            forwards: vec![Forward::DROP; 2],
            meters: vec![[meter; 2]; 3],
            urrs: 3,
            ..BlockImage::default()
        };
        let lines = BlockLines::of(&image).unwrap();
        assert_eq!((lines.read_line, lines.write_line), ([0, 2], [1, 3]));
        // A line of counters, then two meters of each direction.
        assert_eq!(lines.further, [5, 6]);
        assert_eq!(lines.stride, 10);
        image.meters.truncate(1);
        image.urrs = 1;
        let lines = BlockLines::of(&image).unwrap();
        assert_eq!((lines.further, lines.stride), ([4, 5], 8));
    }
}
