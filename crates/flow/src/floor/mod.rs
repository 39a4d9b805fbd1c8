//! What the machine allows: the time per packet of the memory accesses that no user plane of this design can avoid.
//!
//! Two floors. *Lookup*: headers read, flows found in random order, their aging put off, headers written. *Line
//! budget*: the same, and for each packet the lines of a session block: read line with gates, forward and mark; two
//! counters; two meters, and a third that many sessions share. Both run on this crate's own table and blocks, over
//! frames in memory, in bursts of 64, uplink and downlink in turn; there is no I/O, no rule, no slow path.
//!
//! `sluice bench floor` and `examples/floor.rs` print them; `docs/adr/0001` holds the figures that the layout was
//! chosen by.

mod frames;
mod layout;
mod sketch;
mod workload;

use crate::residency::Residency;

pub use sketch::{Pool, Sketch};
pub use workload::Workload;

/// Packets of one round.
pub const ROUND: usize = 16384;

/// What is measured per packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Bucket and entry.
    Lookup,
    /// Bucket, entry, and three lines of the session block.
    LineBudget,
    /// As `LineBudget`, but the forward is read from its own line: four lines of the session block.
    FarForward,
}

/// The size of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Flow entries; a flow is one direction of a 5-tuple. At least 2.
    pub flows: u32,
    /// Session blocks that the flows are spread over. At least 1.
    pub sessions: u32,
}

/// What was counted. All rates are for the reader to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Floor {
    /// Packets worked on.
    pub packets: u64,
    /// Of them, those whose flow was found and valid: all, or the measurement is void.
    pub hits: u64,
    /// Of them, those that no meter held back.
    pub green: u64,
    /// Ticks of [`cycles`](crate::cycles) in the work on them.
    pub cycles: u64,
    /// Nanoseconds in the work on them.
    pub nanos: u64,
    /// Nanoseconds of the round of [`ROUND`] packets that was fastest: what the others would have taken on a
    /// machine without other load.
    pub best_round_nanos: u64,
}

impl Floor {
    /// Mean nanoseconds per packet.
    pub fn nanos_per_packet(&self) -> f64 {
        self.nanos as f64 / self.packets.max(1) as f64
    }

    /// Nanoseconds per packet in the fastest round.
    pub fn best_nanos_per_packet(&self) -> f64 {
        self.best_round_nanos as f64 / ROUND as f64
    }

    /// Mean ticks per packet.
    pub fn cycles_per_packet(&self) -> f64 {
        self.cycles as f64 / self.packets.max(1) as f64
    }
}

/// What making the workload took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Built {
    /// Nanoseconds in the insertion of all flows, one after the other.
    pub insert_nanos: u64,
    /// Slots that were moved for it.
    pub moves: u64,
    /// Where table and blocks are.
    pub memory: Residency,
}
