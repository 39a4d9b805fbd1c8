//! What the queues of a port of packet sockets count.

use std::sync::atomic::{AtomicU64, Ordering};

/// What one queue counts: its thread writes, others read.
#[derive(Debug, Default)]
pub(in crate::port) struct Counts {
    pub(super) packets: AtomicU64,
    pub(super) octets: AtomicU64,
    /// Packets that were too long, or could not be sent.
    pub(super) errors: AtomicU64,
    /// Packets for which the pool had no buffer.
    pub(super) no_buffer: AtomicU64,
}

impl Counts {
    /// Only the queue's own thread adds.
    pub(super) fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }

    pub(super) fn read(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
