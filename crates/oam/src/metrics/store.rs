//! The metrics of the store of sessions.

use crate::values::{StoreState, StoreStatus};

use super::exposition::{Exposition, Metric};

const CHANGES: Metric = Metric::counter(
    "sluice_store_changes",
    &[],
    "Changes of sessions, associations and applications that are durable in the store.",
);
const WRITTEN: Metric = Metric::counter(
    "sluice_store_written_bytes",
    &[],
    "Octets of the store that are durable, with those of compaction.",
);
const COMPACTED: Metric = Metric::counter(
    "sluice_store_compacted_bytes",
    &[],
    "Octets of the store that compaction wrote again.",
);
const SYNCS: Metric = Metric::counter(
    "sluice_store_syncs",
    &[],
    "Times that the disk was asked to make changes durable.",
);
const FAILURES: Metric = Metric::counter(
    "sluice_store_disk_failures",
    &[],
    "Times that the disk did not take changes of the store.",
);
const FAILING: Metric = Metric::gauge(
    "sluice_store_failing",
    &[],
    "1 while the disk takes no changes or is late: new sessions and changes are rejected.",
);
const UNREADABLE: Metric = Metric::counter(
    "sluice_store_unreadable_records",
    &[],
    "Records of the store that compaction could not read.",
);
const RECORDS: Metric = Metric::gauge("sluice_store_records", &[], "Records of the store that count.");
const LIVE: Metric = Metric::gauge(
    "sluice_store_live_bytes",
    &[],
    "Octets on disk of records of the store that count.",
);
const GARBAGE: Metric = Metric::gauge(
    "sluice_store_garbage_bytes",
    &[],
    "Octets on disk of the store that do not count any more.",
);
const SEGMENT_INDEXES: Metric = Metric::gauge(
    "sluice_store_segment_index_bytes",
    &[],
    "Octets on disk of the indexes of the store's segments, which a start reads instead of them.",
);
const INDEX: Metric = Metric::gauge(
    "sluice_store_index_bytes",
    &[],
    "Octets of memory in use by the index of the store.",
);
const HELD: Metric = Metric::gauge(
    "sluice_store_held_bytes",
    &[],
    "Octets of the store that wait for the disk.",
);
const RESTORED: Metric = Metric::counter(
    "sluice_store_restored_sessions",
    &[],
    "Sessions of the process before that have been restored.",
);
const ON_DEMAND: Metric = Metric::counter(
    "sluice_store_restored_sessions_on_demand",
    &[],
    "Sessions of the process before that were restored because a packet or a request had come for them.",
);
const ABSENT: Metric = Metric::gauge(
    "sluice_store_absent_sessions",
    &[],
    "Sessions of the process before that are yet to be restored.",
);
const FAILED: Metric = Metric::counter(
    "sluice_store_failed_sessions",
    &[],
    "Sessions of the process before that could not be restored.",
);

/// Writes the metrics of the store.
pub(super) fn write(to: &mut Exposition, store: &StoreStatus) {
    to.single(&CHANGES, store.changes);
    to.single(&WRITTEN, store.written_octets);
    to.single(&COMPACTED, store.compacted_octets);
    to.single(&SYNCS, store.syncs);
    to.single(&FAILURES, store.failures);
    to.single(&FAILING, store.state != StoreState::Writing);
    to.single(&UNREADABLE, store.unreadable);
    to.single(&RECORDS, store.records);
    to.single(&LIVE, store.live_octets);
    to.single(&GARBAGE, store.garbage_octets);
    to.single(&SEGMENT_INDEXES, store.segment_index_octets);
    to.single(&INDEX, store.index_octets);
    to.single(&HELD, store.held_octets);
    to.single(&RESTORED, store.sessions.restored);
    to.single(&ON_DEMAND, store.sessions.on_demand);
    to.single(&ABSENT, store.sessions.absent);
    to.single(&FAILED, store.sessions.failed);
}
