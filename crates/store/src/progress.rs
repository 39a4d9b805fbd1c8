//! What a store has and has done, in numbers.

/// What there is now, and what was done since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Live records.
    pub records: u64,
    /// Octets of all segments.
    pub octets: u64,
    /// Octets of the files beside them that recovery reads instead.
    pub segment_index_octets: u64,
    /// Octets of the records that are live and durable.
    pub live_octets: u64,
    /// All others: superseded and removed records, removals, headers.
    pub garbage_octets: u64,
    /// Segments.
    pub segments: u64,
    /// Octets in use by the index.
    pub index_octets: u64,
    /// Operations that are not durable yet.
    pub held: u64,
    /// Octets that are not durable yet.
    pub held_octets: u64,
    /// Octets of the reserve that are left.
    pub reserve_octets: u64,
    /// Operations that have become durable.
    pub operations: u64,
    /// Octets that were written and are durable, with those of compaction.
    pub written_octets: u64,
    /// Octets of records that compaction wrote again.
    pub compacted_octets: u64,
    /// Segments that were removed.
    pub removed_segments: u64,
    /// How often the disk was asked to make a batch durable.
    pub syncs: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Records that were durable and that compaction could not read.
    pub unreadable: u64,
}
