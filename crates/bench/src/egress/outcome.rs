//! What a run found.

use serde::Serialize;

use super::super::clock::{Passed, Spread};
use super::super::frame::MeanFrames;

/// What a packet costs at one point of the sweeps: it is queued, and taken again.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cost {
    /// Queues, two for each UE.
    pub queues: u32,
    /// The length of all packets.
    pub octets: u16,
    /// What is offered, of what UEs may send.
    pub load: f64,
    /// Nanoseconds a packet that is offered.
    pub nanos: Spread,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
    /// Packets offered.
    pub offered: u64,
    /// Packets that left.
    pub left: u64,
    /// Packets refused or lost.
    pub lost: u64,
    /// Packets held at the end.
    pub held: u32,
}

/// Rates of UEs that always have packets.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// UEs.
    pub ues: u32,
    /// The rate of each, in kbit/s.
    pub kbit: u64,
    /// The greatest error of a UE in a window of 10 s, of its rate.
    pub worst: f64,
    /// What one packet is of a window.
    pub of_a_packet: f64,
}

/// What packets of the highest class wait at a port with 1.5 times its load, in times that a packet takes.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Waits {
    /// Packets of that class.
    pub packets: u64,
    /// Those that were lost.
    pub lost: u64,
    /// Half of them wait no longer.
    pub p50: f64,
    /// 99% wait no longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

/// The manager and `rte_sched` in turn.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Beside {
    /// Queues that have packets.
    pub queues: u32,
    /// Nanoseconds a packet of the manager.
    pub ours: Spread,
    /// Nanoseconds a packet of `rte_sched`.
    pub theirs: Spread,
    /// Ours of theirs, by pairs.
    pub ratio: Spread,
}

/// What a packet costs on its way through a worker, at one load.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WorkerCost {
    /// What is offered, of what sessions may send.
    pub load: f64,
    /// Nanoseconds a packet with queues.
    pub with: Spread,
    /// Without queues, where rates are policed.
    pub without: Spread,
    /// What queues cost, by pairs.
    pub more: Spread,
    /// Packets offered to the worker with queues.
    pub offered: u64,
    /// Of these, those that were dropped.
    pub lost: u64,
    /// Packets held at the end.
    pub held: u64,
    /// Rounds that count, of all runs.
    pub kept_rounds: usize,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
    /// The thread's time over all pairs.
    pub passed: Passed,
}

/// A worker with queues, and one without.
#[derive(Clone, Debug, Default, Serialize)]
pub struct InWorker {
    /// Sessions, with two queues each.
    pub sessions: u32,
    /// The frames that the workers receive.
    pub frames: MeanFrames,
    /// By load.
    pub costs: Vec<WorkerCost>,
    /// Rates of sessions that always have packets.
    pub rates: Rates,
}

/// All parts.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Egress {
    /// Queues, at most.
    pub queues: u32,
    /// The sweeps.
    pub costs: Vec<Cost>,
    /// Rates.
    pub rates: Rates,
    /// Waiting in overload.
    pub waits: Waits,
    /// Beside `rte_sched`.
    pub beside: Vec<Beside>,
    /// In a worker.
    pub in_worker: InWorker,
}

impl Egress {
    /// The point of the sweeps with these sizes.
    pub(super) fn cost(&self, queues: u32, octets: u16, load: f64) -> Option<&Cost> {
        let is_it = |of: &&Cost| of.queues == queues && of.octets == octets && (of.load - load).abs() < 1e-9;
        self.costs.iter().find(is_it)
    }
}
