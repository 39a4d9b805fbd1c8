//! The same packets through DPDK's `rte_sched`, in turn with the manager.

use dpdk::{Burst, Eal, Mempool, PoolConfig, Registration, Sched, SchedConfig};
use flow::cycles;

use super::super::clock::{Presence, Rounds, Spread, nanos};
use super::super::error::BenchError;
use super::super::world::deadline;
use super::load::{BURST, Load, Shape, shuffle};
use super::outcome::Beside;
use super::{Arguments, cost};

const OCTETS: usize = 1_024;
/// Packets in each queue at the beginning, and behind them room for as many again.
const FILLED: u32 = 2;
/// Octets a second that a pipe may send: four times what 40 Gbit/s leave to it, so that the processor is what limits.
const SHARE: u64 = 20_000_000_000;

/// `rte_sched` that is full, with the packets that it gave last.
struct Other {
    sched: Sched,
    burst: Burst,
    order: Vec<u32>,
    next: usize,
}

impl Other {
    fn new(eal: &Eal, pool: &Mempool, queues: u32) -> Result<Self, BenchError> {
        let pipes = queues / 2;
        let config = SchedConfig {
            pipes,
            port_rate: SHARE,
            pipe_rate: SHARE / u64::from(pipes),
            queue_size: 8,
            mtu: 1_518,
        };
        let mut order: Vec<u32> = (0..queues).collect();
        shuffle(&mut order);
        let mut other = Self {
            sched: Sched::new(eal, &config).map_err(BenchError::of)?,
            burst: Burst::new(),
            order,
            next: 0,
        };
        for _ in 0..queues * FILLED / BURST as u32 {
            for _ in 0..BURST {
                let packet = pool.alloc_with(&[0; OCTETS]);
                let packet = packet.ok_or_else(|| BenchError("no buffers for rte_sched".into()))?;
                if other.burst.push(packet).is_err() {
                    break;
                }
            }
            other.arrive();
        }
        Ok(other)
    }

    /// Queues what it gave last.
    fn arrive(&mut self) {
        let count = self.burst.len();
        if self.next + count > self.order.len() {
            self.next = 0;
        }
        let queues = &self.order[self.next..self.next + count];
        self.next += count;
        self.sched.enqueue(&mut self.burst, queues);
    }

    /// Nanoseconds a packet, over this number of packets.
    fn round(&mut self, packets: u64) -> f64 {
        let (start, mut moved) = (cycles::now(), 0);
        while moved < packets {
            moved += self.sched.dequeue(&mut self.burst, BURST) as u64;
            if !self.burst.is_empty() {
                self.arrive();
            }
        }
        nanos(cycles::now().wrapping_sub(start)) / moved as f64
    }
}

/// Both in turn.
pub fn beside(eal: &'static Eal, queues: u32, arguments: &Arguments) -> Result<Beside, BenchError> {
    let _lcore = Registration::new(eal).map_err(BenchError::of)?;
    let config = PoolConfig {
        data_room: OCTETS as u16,
        ..PoolConfig::with_buffers(queues * FILLED + 1_024)
    };
    let pool = Mempool::new(eal, config).map_err(BenchError::of)?;
    let mut other = Other::new(eal, &pool, queues)?;
    let mut load = Load::new(Shape {
        queues,
        octets: OCTETS as u16,
        load: 1_000,
        filled: FILLED,
    });
    let load = load.as_mut().map_err(|error| BenchError(error.to_string()))?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for pair in 0..=arguments.pairs {
        let seconds = arguments.seconds / 4.0;
        let of_load = rounds(seconds, || cost::round(load));
        let of_other = rounds(seconds, || other.round(u64::from(queues.max(16_384))));
        // The first pair warms up.
        if pair > 0 {
            ours.push(of_load);
            theirs.push(of_other);
        }
    }
    let ratios = ours
        .iter()
        .zip(&theirs)
        .map(|(ours, theirs)| ours / theirs)
        .collect();
    Ok(Beside {
        queues,
        ours: Spread::of(ours),
        theirs: Spread::of(theirs),
        ratio: Spread::of(ratios),
    })
}

fn rounds(seconds: f64, mut round: impl FnMut() -> f64) -> f64 {
    let (mut rounds, mut presence, done) = (Rounds::default(), Presence::new(), deadline(seconds));
    while !done() || rounds.is_empty() {
        rounds.add(round(), presence.was_kept());
    }
    rounds.spread().median
}
