//! What an engine shows.

use offload::exception::Reason;

use crate::accelerator::asking::AskingStats;
use crate::accelerator::settling::SettlingStats;
use crate::stats::{PortStats, Stats};

/// What an engine has counted, and holds.
#[derive(Clone, Copy, Debug)]
pub struct EngineStats<'a> {
    /// What a worker counts, too. Exceptions are in `handed_over`, what the host sends in `from_host`, what it gives
    /// back in `inbox`, packets of flows that settle in `held`, exceptions that found no room among the drops as
    /// [`Overload`](packet::DropReason::Overload). The host's port is not in it.
    pub path: &'a Stats,
    /// Exceptions by [`Reason::index`].
    pub exceptions: &'a [u64; Reason::COUNT],
    /// Exceptions that found no room.
    pub exceptions_lost: u64,
    /// Exceptions that wait to be taken.
    pub exceptions_waiting: usize,
    /// Frames of the port towards the host.
    pub host: PortStats,
    /// Flows that settle, and have.
    pub settling: SettlingStats,
    /// Packets that wait for answers of the host, and have.
    pub asking: AskingStats,
    /// Packets that wait in queues, or before a port that takes none.
    pub queued: usize,
    /// Flow entries in the tables.
    pub flows: usize,
    /// Those of them that no packet can use any more.
    pub dead_flows: usize,
}
