//! The floors of memory, and DPDK's bare forwarding over null ports.

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
    /// Packets whose flow was found: all, or the floor is void.
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
        // The floor's memory is freed before the world is made: only one of both has to fit.
        let sketch = BuiltSketch::new(flows, sessions)?.measure(seconds);
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

/// The sketch alone, with its memory.
pub struct BuiltSketch(Sketch);

impl BuiltSketch {
    /// Of this size.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new(flows: u32, sessions: u32) -> Result<Self, BenchError> {
        let sketch = Sketch::new(Size { flows, sessions }, POOL);
        sketch.map(Self).map_err(BenchError::of)
    }

    /// Measures it for `seconds`.
    pub fn measure(&mut self, seconds: f64) -> FloorFigure {
        floor(|| self.0.measure(Duration::ZERO), seconds)
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
    (sum.disturbed, sum.round) = (rounds.left_out(), rounds.spread());
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
        let mut ports = NullPorts::open(eal, &pool)?;
        let (mut all_packets, mut busy_nanos, mut rates) = (0, 0, Vec::new());
        for _ in 0..runs {
            let (moment, done, mut packets) = (Moment::now(), deadline(seconds), 0);
            while !done() {
                packets += (0..1_024).map(|_| ports.forward()).sum::<u64>();
            }
            let busy = moment.elapsed().busy_nanos;
            all_packets += packets;
            busy_nanos += busy;
            rates.push(packets as f64 * 1_000.0 / busy.max(1) as f64);
        }
        Ok(Self {
            packets: all_packets,
            busy_nanos,
            mpps: Spread::of(rates),
        })
    }
}

/// Two ports: one receives empty packets at once, the other forgets those it sends. They close when they are dropped.
struct NullPorts {
    rx: RxQueue,
    tx: TxQueue,
    _ports: [Port; 2],
}

impl NullPorts {
    fn open(eal: &Eal, pool: &Mempool) -> Result<Self, BenchError> {
        let spec = PortSpec::Null { packet_size: 64 };
        let open = || Port::open(eal, &spec).map_err(BenchError::of);
        let (mut left, mut right) = (open()?, open()?);
        let config = PortConfig::new(1, pool);
        let mut from = left.start(&config).map_err(BenchError::of)?;
        let mut to = right.start(&config).map_err(BenchError::of)?;
        match (from.rx.pop(), to.tx.pop()) {
            (Some(rx), Some(tx)) => Ok(Self {
                rx,
                tx,
                _ports: [left, right],
            }),
            _ => Err(BenchError("a port without queues".into())),
        }
    }

    /// Forwards one burst: the number of packets.
    fn forward(&mut self) -> u64 {
        let mut burst = Burst::new();
        self.rx.rx_burst_limited(&mut burst, worker::BURST);
        self.tx.tx_burst(&mut burst) as u64
    }
}
