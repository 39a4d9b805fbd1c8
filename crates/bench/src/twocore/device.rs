//! What a device is to its thread.

use dpdk::{Eal, MemoryPeer, MemorySpec, Mempool, Port, PortConfig, RxQueue, TxQueue};
use worker::Stats;

use super::super::error::BenchError;
use super::generator::RING;

/// The queues of a device's ports.
pub(super) type Queues = Vec<(RxQueue, TxQueue)>;

/// A port in memory, with a queue each way.
pub(super) struct MemoryPort {
    /// Stays open while its queues are used.
    pub port: Port,
    pub queues: (RxQueue, TxQueue),
    /// Its far end.
    pub peer: MemoryPeer,
}

/// Opens one.
pub(super) fn memory_port(eal: &Eal, pool: &Mempool) -> Result<MemoryPort, BenchError> {
    let spec = MemorySpec {
        queues: 1,
        depth: RING,
    };
    let (mut port, peer) = Port::memory(eal, &spec).map_err(BenchError::of)?;
    let mut queues = port.start(&PortConfig::new(1, pool)).map_err(BenchError::of)?;
    let pair = queues.rx.pop().zip(queues.tx.pop());
    let queues = pair.ok_or_else(|| BenchError("a port without queues".into()))?;
    Ok(MemoryPort { port, queues, peer })
}

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
