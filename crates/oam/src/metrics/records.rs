//! The metrics of usage records.

use crate::values::{RecordsState, RecordsStatus};

use super::exposition::{Exposition, Metric};

const WRITTEN: Metric = Metric::counter("sluice_records_written", &[], "Usage records that are durable.");
const BYTES: Metric = Metric::counter(
    "sluice_records_written_bytes",
    &[],
    "Octets of durable usage records.",
);
const HELD: Metric = Metric::gauge(
    "sluice_records_held",
    &[],
    "Usage records in memory that wait for the disk.",
);
const HELD_LIMIT: Metric = Metric::gauge(
    "sluice_records_held_limit",
    &[],
    "Usage records that memory holds at most.",
);
const LOST: Metric = Metric::counter("sluice_records_lost", &[], "Usage records that are lost.");
const FILES: Metric = Metric::counter("sluice_records_files", &[], "Finished files of usage records.");
const FAILURES: Metric = Metric::counter(
    "sluice_records_disk_failures",
    &[],
    "Times that the disk did not take usage records.",
);
const FAILING: Metric = Metric::gauge(
    "sluice_records_failing",
    &[],
    "1 while the disk takes no usage records.",
);

/// Writes the metrics of usage records.
pub(super) fn write(to: &mut Exposition, records: &RecordsStatus) {
    to.single(&WRITTEN, records.written);
    to.single(&BYTES, records.octets);
    to.single(&HELD, records.held);
    to.single(&HELD_LIMIT, records.held_most);
    to.single(&LOST, records.lost);
    to.single(&FILES, records.files);
    to.single(&FAILURES, records.failures);
    to.single(&FAILING, records.state != RecordsState::Writing);
}
