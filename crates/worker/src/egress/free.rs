//! The queue of buffers that are freed: dropped packets and those that have done their work, given back in bulk.

use packet::DropReason;

use crate::burst::batch::Batch;
use crate::io::Io;
use crate::stats::Stats;

/// Queues a packet that is freed at the end of the burst; a full queue is freed at once.
#[inline]
pub(crate) fn free_one<I: Io>(io: &mut I, free: &mut Batch<I::Buf>, buf: I::Buf) {
    if let Err(buf) = free.push(buf) {
        io.free(free);
        let _ = free.push(buf);
    }
}

/// Drops the packets of a queue that found no room.
pub(crate) fn drop_rest<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
    reason: DropReason,
) {
    for buf in batch.drain() {
        stats.drop(reason);
        free_one(io, free, buf);
    }
}
