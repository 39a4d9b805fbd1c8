//! A session block as control makes it, and as entries name it.

use crate::{Forward, Mark};

/// Where a worker's slab holds a session block: the number of its first cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
