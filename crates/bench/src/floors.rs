//! What the machine allows: the floors of memory, and DPDK's bare forwarding over ports that are nothing.

use std::time::Duration;

use dpdk::{Burst, Eal, Mempool, PoolConfig, Port, PortConfig, PortSpec, Registration, RxQueue, TxQueue};
use flow::floor::{Floor, Pool, Size, Sketch, Work, Workload};
use serde::Serialize;

use super::clock::{Moment, Presence, Rounds, Spread};
use super::error::BenchError;
use super::feed::BUFFERS;
use super::load::WINDOW;
use super::world::deadline;

/// One floor at one size.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct FloorFigure {
    /// Packets worked on.
    pub packets: u64,
    /// Of them, those whose flow was found: all, or the floor is void.
    pub hits: u64,
    /// Ticks.
    pub cycles: u64,
    /// Nanoseconds.
    pub nanos: u64,
    /// Nanoseconds per packet of the rounds of 16,384 packets.
    pub round: Spread,
    /// Rounds left out because the thread lost its core.
    pub disturbed: usize,
}

/// The buffers of the sketch: those of the self-fed port.
pub const POOL: Pool = Pool {
    buffers: BUFFERS,
    window: WINDOW,
};

/// The floors at one size.
#[derive(Clone, Debug, Serialize)]
pub struct Floors {
    /// Flows.
    pub flows: u32,
    /// Sessions.
    pub sessions: u32,
    /// Bucket, entry, lines of the session block and plain meters, with none of the product's code.
    pub sketch: FloorFigure,
    /// Bucket and entry, by the product's table.
    pub lookup: FloorFigure,
    /// And the lines of the session block, by the product's blocks and meters.
    pub line_budget: FloorFigure,
    /// Memory, and how much of it is in huge pages.
    pub memory_octets: usize,
    /// Octets in huge pages.
    pub huge_octets: usize,
}

impl Floors {
    /// Measures each for `seconds`.
    ///
    /// # Errors
    /// When there is no memory for them.
    pub fn measure(flows: u32, sessions: u32, seconds: f64) -> Result<Self, BenchError> {
        let size = Size { flows, sessions };
        // It is gone before the workload is made: only one of them has to fit.
        let sketch = {
            let mut sketch = Sketch::new(size, POOL).map_err(BenchError::of)?;
            floor(|| sketch.measure(Duration::ZERO), seconds)
        };
        let mut workload = Workload::new(size).map_err(BenchError::of)?;
        let memory = workload.built().memory.clone();
        Ok(Self {
            flows,
            sessions,
            sketch,
            lookup: floor(|| workload.measure(Work::Lookup, Duration::ZERO), seconds),
            line_budget: floor(|| workload.measure(Work::LineBudget, Duration::ZERO), seconds),
            memory_octets: memory.octets,
            huge_octets: memory.huge(),
        })
    }
}

/// Round after round, so that each has its own time.
fn floor(mut measure: impl FnMut() -> Floor, seconds: f64) -> FloorFigure {
    let (mut sum, mut rounds, done) = (FloorFigure::default(), Rounds::default(), deadline(seconds));
    let mut presence = Presence::new();
    // The first round warms up.
    measure();
    while !done() || rounds.is_empty() {
        let round = measure();
        rounds.add(round.nanos_per_packet(), presence.was_kept());
        sum.packets += round.packets;
        sum.hits += round.hits;
        sum.cycles += round.cycles;
        sum.nanos += round.nanos;
    }
    (sum.round, sum.disturbed) = rounds.spread();
    sum
}

/// Bare forwarding with DPDK, from one null port to another.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct IoForwarding {
    /// Packets moved.
    pub packets: u64,
    /// Processor time.
    pub busy_nanos: u64,
    /// Million packets a second, over the runs.
    pub mpps: Spread,
}

impl IoForwarding {
    /// Measures it, `runs` times.
    ///
    /// # Errors
    /// DPDK's.
    pub fn measure(eal: &Eal, runs: usize, seconds: f64) -> Result<Self, BenchError> {
        let _lcore = Registration::new(eal).map_err(BenchError::of)?;
        let pool = Mempool::new(eal, PoolConfig::with_buffers(8_192)).map_err(BenchError::of)?;
        let (_ports, mut rx, mut tx) = null_ports(eal, &pool)?;
        let (mut sum, mut rates) = ((0, 0), Vec::new());
        for _ in 0..runs {
            let (moment, done, mut packets) = (Moment::now(), deadline(seconds), 0);
            while !done() {
                packets += (0..1_024).map(|_| forward(&mut rx, &mut tx)).sum::<u64>();
            }
            let busy = moment.elapsed().busy_nanos;
            sum = (sum.0 + packets, sum.1 + busy);
            rates.push(packets as f64 * 1_000.0 / busy.max(1) as f64);
        }
        Ok(Self {
            packets: sum.0,
            busy_nanos: sum.1,
            mpps: Spread::of(rates),
        })
    }
}

/// One burst, from `rx` to `tx`.
fn forward(rx: &mut RxQueue, tx: &mut TxQueue) -> u64 {
    let mut burst = Burst::new();
    rx.rx_burst_limited(&mut burst, worker::BURST);
    tx.tx_burst(&mut burst) as u64
}

/// Two ports that receive empty packets at once and forget what is sent; the ports close when they are dropped.
fn null_ports(eal: &Eal, pool: &Mempool) -> Result<([Port; 2], RxQueue, TxQueue), BenchError> {
    let spec = PortSpec::Null { packet_size: 64 };
    let open = || Port::open(eal, &spec).map_err(BenchError::of);
    let (mut left, mut right) = (open()?, open()?);
    let config = PortConfig::new(1, pool);
    let mut from = left.start(&config).map_err(BenchError::of)?;
    let mut to = right.start(&config).map_err(BenchError::of)?;
    match (from.rx.pop(), to.tx.pop()) {
        (Some(rx), Some(tx)) => Ok(([left, right], rx, tx)),
        _ => Err(BenchError("a port without queues".into())),
    }
}
