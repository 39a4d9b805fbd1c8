//! What an operator, or a test, chooses of a store.

use std::time::Duration;

/// When the store does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment takes no more batches when it has this many octets. 4 KiB to 256 MiB; default 32 MiB.
    pub segment_octets: u64,
    /// Octets that wait for their sync, above which [`has_room`](crate::Store::has_room) is false. At most 64 MiB;
    /// default 8 MiB.
    pub batch_octets: usize,
    /// Octets that may be garbage (superseded and removed records), in percent of the live ones, before all of it is
    /// compacted; three segments and a batch are allowed besides. At least 10; default 100.
    pub garbage_percent: u32,
    /// Octets of a segment that one poll compacts, where it is not behind. Default 256 KiB.
    pub slice_octets: usize,
    /// Octets of the file that is given up when the disk is full, so that removals and compaction continue. It must be
    /// larger than a segment and two batches together; 0: none. Default 64 MiB.
    pub reserve_octets: u64,
    /// After how long a failed operation is tried again. Default 1 s.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment_octets: 32 << 20,
            batch_octets: 8 << 20,
            garbage_percent: 100,
            slice_octets: 256 << 10,
            reserve_octets: 64 << 20,
            retry: Duration::from_secs(1),
        }
    }
}

impl Settings {
    /// The nearest settings that are in their ranges.
    pub(crate) fn in_range(self) -> Settings {
        Settings {
            segment_octets: self.segment_octets.clamp(4 << 10, 256 << 20),
            batch_octets: self.batch_octets.min(64 << 20),
            garbage_percent: self.garbage_percent.max(10),
            ..self
        }
    }
}
