//! Session blocks: everything that a session's packets read and write besides their flow entry.
//!
//! Control makes a [`BlockImage`]; the worker that owns the session copies it into its [`Blocks`]. A change of a FAR
//! or a QER is then one write to one object, and no flow is touched. `docs/adr/0001` says why the lines are as they
//! are, and where what is still to come goes.

mod allocator;
mod blocks;
mod bounds;
mod content_counters;
mod content_totals;
mod contents;
mod count;
mod counting;
mod footprint;
mod forwards;
mod group_totals;
mod layout;
mod lines;
mod live;
mod meter_lines;
mod metering;
mod qers;
mod replace;
mod tally;
mod urrs;
mod view;
mod write;

pub use blocks::{BlockError, Blocks, Flows, Installed};
pub use bounds::{Bounds, Counted, CounterLimit, LimitAction, Raised, Reached, Volumes};
pub use content_counters::ContentUsage;
pub use content_totals::ContentTotal;
pub use count::UrrCount;
pub(crate) use footprint::{BlockLines, LINE};
pub use forwards::PackedForward;
pub use group_totals::{SessionGroupId, SessionGroupTotal, SessionGroupTotals};
pub use live::LiveBlock;
pub use metering::Red;
pub use replace::ReplaceMap;
pub use tally::{Millisecond, PacketTimes};
pub use urrs::MarkedBlock;
pub use view::SessionBlock;

use crate::meter::{MeterSpec, SharedId};
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
    /// The meters of each QER, by [`Direction`]; `None` where there is no limit, and QERs beyond the end have none.
    pub meters: Vec<[Option<MeterSpec>; 2]>,
    /// The meter that the session shares with others, or [`SharedId::NONE`].
    pub shared: SharedId,
    /// In whose total the packets count that are forwarded.
    pub group: SessionGroupId,
    /// Bit n: the uplink gate of the QER in slot n is closed.
    pub closed_ul: u64,
    /// Bit n: the downlink gate of the QER in slot n is closed.
    pub closed_dl: u64,
    /// How many URRs count in it: at most [`BlockImage::MAX_URRS`].
    pub urrs: u8,
    /// How many of them count before QoS: those in the last slots.
    pub before_qos: u8,
    /// The slots that count one for each packet, and not its octets: bit n is slot n. Their packets are to be counted
    /// with [`LiveBlock::count_with_units`].
    pub units: u64,
    /// How much packets of one slot count in another; slots that others weigh for are to be counted with
    /// [`LiveBlock::count_with_units`], too.
    pub weights: Vec<Weight>,
    /// Watermarks and limit of each URR; URRs beyond the end have none.
    pub bounds: Vec<Bounds>,
    /// The slots of the forwards that most uplink and most downlink packets use. They are kept on the line that such
    /// a packet reads anyway; a wrong or missing slot costs a cache line and nothing else.
    pub inline: [u8; 2],
}

/// A packet in `slot` counts with a multiple of its octets in the slot `of`, once for all slots with the same weight
/// together. What is of weight is one of the slots that count before QoS, for no URR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Weight {
    /// The slot that says so: at most one `of` for each.
    pub slot: u8,
    /// The slot whose octets are weighed.
    pub of: u8,
    /// How many times.
    pub times: u16,
}

impl BlockImage {
    /// Of no rules.
    pub const NOTHING: Self = Self {
        forwards: Vec::new(),
        marks: Vec::new(),
        meters: Vec::new(),
        shared: SharedId::NONE,
        group: SessionGroupId::OTHERS,
        closed_ul: 0,
        closed_dl: 0,
        urrs: 0,
        before_qos: 0,
        units: 0,
        weights: Vec::new(),
        bounds: Vec::new(),
        inline: [0; 2],
    };
    /// Forwards in one block.
    pub const MAX_FORWARDS: usize = 250;
    /// QERs of one session.
    pub const MAX_QERS: usize = 64;
    /// URRs of one session.
    pub const MAX_URRS: usize = 64;

    /// Whether there are no more of each than there may be.
    pub fn is_within_bounds(&self) -> bool {
        self.forwards.len() <= Self::MAX_FORWARDS
            && self.marks.len() <= Self::MAX_QERS
            && self.meters.len() <= Self::MAX_QERS
            && usize::from(self.urrs) <= Self::MAX_URRS
            && self.bounds.len() <= usize::from(self.urrs)
            && self.before_qos <= self.urrs
            && self
                .weights
                .iter()
                .all(|weight| weight.slot.max(weight.of) < self.urrs)
    }

    /// The closed gates of one direction.
    pub(crate) const fn closed(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Uplink => self.closed_ul,
            Direction::Downlink => self.closed_dl,
        }
    }
}
