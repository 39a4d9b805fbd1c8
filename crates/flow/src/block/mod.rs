//! Session blocks: everything that a session's packets read and write besides their flow entry.
//!
//! Control makes a [`BlockImage`]; the worker that owns the session copies it into its [`Blocks`]. A change of a FAR
//! or a QER is then one write to one object, and no flow is touched. `docs/adr/0001` says why the lines are as they
//! are, and where what is still to come goes.

mod allocator;
mod blocks;
mod lines;
mod live;

pub use blocks::{BlockError, Blocks, Flows, Installed, ReplaceMap};
pub use lines::PackedForward;
pub use live::{LiveBlock, SessionBlock};

use crate::{Direction, Forward, Mark};

/// Where a worker's slab holds a session block: the number of its first cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, zerocopy::FromZeros)]
#[repr(transparent)]
pub struct BlockRef(pub u32);

/// A session's block, made by control and copied into the slab by the worker that owns the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockImage {
    /// One for each FAR: at most [`BlockImage::MAX_FORWARDS`].
    pub forwards: Vec<Forward>,
    /// One for each QER, `Mark::NONE` where it marks nothing: at most [`BlockImage::MAX_QERS`].
    pub marks: Vec<Mark>,
    /// Bit n: the uplink gate of the QER in slot n is closed.
    pub closed_ul: u64,
    /// Bit n: the downlink gate of the QER in slot n is closed.
    pub closed_dl: u64,
    /// How many URRs count in it: at most [`BlockImage::MAX_URRS`].
    pub urrs: u8,
    /// The slots of the forwards that most uplink and most downlink packets use. They are kept on the line that such
    /// a packet reads anyway; a wrong or missing slot costs a cache line and nothing else.
    pub near: [u8; 2],
}

impl BlockImage {
    /// Forwards in one block.
    pub const MAX_FORWARDS: usize = 250;
    /// QERs of one session.
    pub const MAX_QERS: usize = 64;
    /// URRs of one session.
    pub const MAX_URRS: usize = 64;

    /// Whether it keeps the three bounds.
    pub fn is_within_bounds(&self) -> bool {
        self.forwards.len() <= Self::MAX_FORWARDS
            && self.marks.len() <= Self::MAX_QERS
            && usize::from(self.urrs) <= Self::MAX_URRS
    }

    /// The closed gates of one direction.
    pub(crate) const fn closed(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Uplink => self.closed_ul,
            Direction::Downlink => self.closed_dl,
        }
    }
}

/// What a URR has counted; octets are inner IP lengths. All numbers wrap, after centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrrCount {
    /// Uplink packets.
    pub ul_packets: u64,
    /// Uplink octets.
    pub ul_octets: u64,
    /// Downlink packets.
    pub dl_packets: u64,
    /// Downlink octets.
    pub dl_octets: u64,
}
