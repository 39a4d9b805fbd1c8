//! The device that is an accelerator: its node, and on the same thread, seldom polled, the worker that drives it.

use dpdk::{Burst, Eal, MemoryPeer, Mempool, Port};
use runtime::Clock;
use worker::accelerator::Node;
use worker::behind_accelerator::BehindAccelerator;
use worker::dpdk::DpdkIo;
use worker::{ControlEnd, Stats, Worker};

use super::super::error::BenchError;
use super::super::offload::pair::{Ends, start_host, start_node};
use super::super::progress::Progress;
use super::super::settings::Setting;
use super::super::world::identities;
use super::device::{Polled, Queues, memory_port};

/// Polls of the node between two of the host, where no frame is for the host.
const HOST_EVERY: u32 = 256;

/// A node and its host.
pub(super) struct Accelerating {
    node: Node<DpdkIo>,
    host: Worker<BehindAccelerator<DpdkIo>>,
    _control: ControlEnd,
    cable: Cable,
    clock: Clock,
    polls: u32,
}

impl Accelerating {
    /// A node with these ports, N3's and N6's, and a worker that has the sessions of a setting.
    pub fn start(
        eal: &'static Eal,
        setting: &Setting,
        mut queues: Queues,
        pool: &Mempool,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        let (cable, [node, host]) = Cable::new(eal, pool)?;
        queues.extend(node);
        let node = DpdkIo::new(queues, pool.clone(), None, Vec::new());
        let host = DpdkIo::new(host, pool.clone(), None, Vec::new());
        let identities = identities(setting.model.sessions, setting.worker)?;
        let Ends { worker, control } = start_host(setting, host, &identities, progress)?;
        Ok(Self {
            node: start_node(setting, node, 1)?,
            host: worker,
            _control: control,
            cable,
            clock: Clock::starting_now(eal.tsc_hz()),
            polls: 0,
        })
    }
}

impl Polled for Accelerating {
    fn poll(&mut self) {
        let now = self.clock.now();
        self.node.poll(now);
        self.polls = self.polls.wrapping_add(1);
        if self.cable.carry() > 0 || self.polls.is_multiple_of(HOST_EVERY) {
            self.host.poll(now);
            self.cable.carry();
        }
    }

    fn stats(&self) -> Option<&Stats> {
        Some(self.node.engine().stats().path)
    }
}

/// The link between both: what one end's port sends, the other's receives.
struct Cable {
    peers: [MemoryPeer; 2],
    burst: Burst,
    /// Stay open while the ends use them.
    _ports: [Port; 2],
}

impl Cable {
    fn new(eal: &Eal, pool: &Mempool) -> Result<(Self, [Queues; 2]), BenchError> {
        let (node, host) = (memory_port(eal, pool)?, memory_port(eal, pool)?);
        let cable = Self {
            peers: [node.peer, host.peer],
            burst: Burst::new(),
            _ports: [node.port, host.port],
        };
        Ok((cable, [vec![node.queues], vec![host.queues]]))
    }

    /// Carries what is on its way, a burst each way; how many frames. What finds no room is lost.
    fn carry(&mut self) -> usize {
        let [near, far] = &mut self.peers;
        let mut carried = 0;
        let ways = [
            (&mut near.from_port, &mut far.to_port),
            (&mut far.from_port, &mut near.to_port),
        ];
        for (from, to) in ways {
            if let (Some(from), Some(to)) = (from.first_mut(), to.first_mut()) {
                carried += from.dequeue(&mut self.burst);
                to.enqueue(&mut self.burst);
                self.burst.clear();
            }
        }
        carried
    }
}
