//! What a device is to its thread.

use dpdk::{RxQueue, TxQueue};
use worker::Stats;

/// The queues of a device's ports.
pub(super) type Queues = Vec<(RxQueue, TxQueue)>;

/// What a device's thread does all the time.
pub(super) trait Polled {
    fn poll(&mut self);

    /// Of a worker, or an accelerator: its counts.
    fn stats(&self) -> Option<&Stats> {
        None
    }

    /// Of a worker: lets as many packets of a port wait.
    fn set_backlog(&mut self, _packets: usize) {}
}
