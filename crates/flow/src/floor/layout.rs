//! The sizes of what a packet touches, as this crate lays it out: for a floor that touches the same memory with no code
//! of this crate. They follow the layout by themselves.

use crate::block;
use crate::table;
use crate::{FlowEntry, FlowKey4};

pub(super) use crate::block::BlockLines;

/// Octets of a bucket of the flow table.
pub(super) const BUCKET: usize = table::BUCKET;
/// Slots in it: each has a tag of 16 bits and the number of an entry, of 32 bits.
pub(super) const SLOTS: usize = table::SLOTS;
/// Octets of the entry of an IPv4 flow.
pub(super) const ENTRY: usize = size_of::<FlowEntry<FlowKey4>>();
/// Octets of a line of a session block.
pub(super) const LINE: usize = block::LINE;

/// Buckets of a table that is made for `flows` flows.
pub(super) const fn buckets(flows: usize) -> usize {
    table::buckets(flows)
}
