//! The packet path over DPDK's ports, compiled with this crate and its optimization, once, instead of in each program
//! that polls such a worker.

use flow::Nanos;

use crate::dpdk::DpdkIo;
use crate::{PollReport, Worker};

/// Does what [`Worker::poll`] does.
pub fn poll_over_dpdk(worker: &mut Worker<DpdkIo>, now: Nanos) -> PollReport {
    worker.poll(now)
}
