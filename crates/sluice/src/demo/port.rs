//! The simulator's end of a worker's memory ports: frames are written into packet buffers and read out of them.

use dpdk::{Burst, Consumer, MemoryPeer, Mempool, Producer};
use sim::{FramePort, Side};

/// One direction pair of one side.
struct Wire {
    to: Producer,
    from: Consumer,
    waiting: Burst,
}

impl Wire {
    fn flush(&mut self) {
        if !self.waiting.is_empty() {
            self.to.enqueue(&mut self.waiting);
        }
    }
}

/// Both sides of one worker's queues.
pub struct MemoryPort {
    access: Wire,
    core: Wire,
    pool: Mempool,
    received: Burst,
}

impl MemoryPort {
    /// The far ends of one queue of the access port and one of the core port.
    #[must_use]
    pub fn new(access: (Producer, Consumer), core: (Producer, Consumer), pool: Mempool) -> Self {
        let wire = |(to, from)| Wire {
            to,
            from,
            waiting: Burst::new(),
        };
        Self {
            access: wire(access),
            core: wire(core),
            pool,
            received: Burst::new(),
        }
    }

    fn wire(&mut self, side: Side) -> &mut Wire {
        match side {
            Side::Access => &mut self.access,
            Side::Core => &mut self.core,
        }
    }
}

impl FramePort for MemoryPort {
    fn send(&mut self, side: Side, length: usize, write: impl FnOnce(&mut [u8])) -> bool {
        let wire = self.wire(side);
        if wire.waiting.is_full() {
            wire.flush();
        }
        if wire.waiting.is_full() {
            return false;
        }
        let Some(mut buffer) = self.pool.alloc() else {
            return false;
        };
        let Some(frame) = buffer.append(length) else {
            return false;
        };
        write(frame);
        self.wire(side).waiting.push(buffer).is_ok()
    }

    fn receive(&mut self, side: Side, most: usize, mut see: impl FnMut(&[u8])) -> usize {
        let mut seen = 0;
        while seen < most {
            let from = match side {
                Side::Access => &mut self.access.from,
                Side::Core => &mut self.core.from,
            };
            if from.dequeue(&mut self.received) == 0 {
                break;
            }
            self.received.iter().for_each(|buffer| see(buffer.data()));
            seen += self.received.len();
            self.received.clear();
        }
        seen
    }

    fn flush(&mut self) {
        self.access.flush();
        self.core.flush();
    }
}

impl MemoryPort {
    /// One for each worker, from the far ends of the ports, access first, core second, and the workers' pools.
    pub fn for_workers(peers: Vec<MemoryPeer>, pools: &[Mempool]) -> Vec<Self> {
        let ends = |peer: MemoryPeer| peer.to_port.into_iter().zip(peer.from_port).collect::<Vec<_>>();
        let mut sides = peers.into_iter().map(ends);
        let (access, core) = (sides.next().unwrap_or_default(), sides.next().unwrap_or_default());
        access
            .into_iter()
            .zip(core)
            .zip(pools)
            .map(|((access, core), pool)| Self::new(access, core, pool.clone()))
            .collect()
    }
}
