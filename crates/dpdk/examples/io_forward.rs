//! Measures bare forwarding, with the packets untouched: what the layers above have to share.
//!
//! ```text
//! cargo run --release -p dpdk --example io_forward [SECONDS]
//! ```
//!
//! Million packets per second of CPU time of the one thread: the median of five runs of SECONDS / 5 each.

use std::error::Error;
use std::time::{Duration, Instant};

use dpdk::{
    BURST_MAX, Burst, Consumer, Eal, MemorySpec, Mempool, PoolConfig, Port, PortConfig, PortSpec, Producer,
    Registration, RxQueue, TxQueue,
};

const RUNS: u32 = 5;
/// Bursts between two looks at the clock.
const ROUNDS: u32 = 4096;

fn main() -> Result<(), Box<dyn Error>> {
    let seconds: f64 = std::env::args().nth(1).map_or(Ok(2.5), |text| text.parse())?;
    let span = Duration::from_secs_f64(seconds / f64::from(RUNS));
    let eal = Eal::builder().init()?;
    let _lcore = Registration::new(eal)?;
    let pool = Mempool::new(eal, PoolConfig::default())?;
    println!("{}", eal.version());
    for size in [32, 64] {
        println!(
            "null to null, burst {size}: {:.1} Mpps",
            null_to_null(eal, &pool, size, span)?
        );
    }
    for size in [32, 64] {
        println!(
            "memory to memory, burst {size}: {:.1} Mpps",
            memory(eal, &pool, size, span)?
        );
    }
    println!("{} buffers not given back", pool.in_use());
    Ok(())
}

/// The median rate of `round`, which returns how many packets it moved.
fn rate(span: Duration, mut round: impl FnMut() -> usize) -> f64 {
    let mut rates = [0.0; RUNS as usize].map(|_: f64| {
        let (begin, used, mut packets) = (Instant::now(), cpu_time(), 0);
        while begin.elapsed() < span {
            packets += (0..ROUNDS).map(|_| round()).sum::<usize>();
        }
        packets as f64 / (cpu_time() - used).as_secs_f64() / 1e6
    });
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// What this thread has had of a CPU: other processes do not count.
fn cpu_time() -> Duration {
    let text =
        std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux reports scheduling times");
    let nanoseconds = text.split(' ').next().and_then(|word| word.parse().ok());
    Duration::from_nanos(nanoseconds.expect("the first word is a number"))
}

fn null_to_null(eal: &Eal, pool: &Mempool, size: usize, span: Duration) -> Result<f64, Box<dyn Error>> {
    let spec = PortSpec::Null { packet_size: 64 };
    let (mut left, mut right) = (Port::open(eal, &spec)?, Port::open(eal, &spec)?);
    let mut rx = left.start(&PortConfig::new(1, pool))?.rx.remove(0);
    let mut tx = right.start(&PortConfig::new(1, pool))?.tx.remove(0);
    Ok(rate(span, || forward(&mut rx, &mut tx, size)))
}

/// One burst of `size` packets, from `rx` to `tx`.
fn forward(rx: &mut RxQueue, tx: &mut TxQueue, size: usize) -> usize {
    let mut burst = Burst::new();
    rx.rx_burst_limited(&mut burst, size);
    tx.tx_burst(&mut burst)
}

/// Through a memory port and back: the figure is for the port's side and the peer's side on one core.
fn memory(eal: &Eal, pool: &Mempool, size: usize, span: Duration) -> Result<f64, Box<dyn Error>> {
    let (mut port, mut peer) = Port::memory(
        eal,
        &MemorySpec {
            queues: 1,
            depth: 1024,
        },
    )?;
    let mut queues = port.start(&PortConfig::new(1, pool))?;
    let (mut rx, mut tx) = (queues.rx.remove(0), queues.tx.remove(0));
    let (mut to, mut from) = (peer.to_port.remove(0), peer.from_port.remove(0));
    let mut circling = Burst::new();
    assert!(pool.fill(&mut circling, size.min(BURST_MAX)));
    Ok(rate(span, || {
        let moved = forward_peer(&mut circling, &mut to, &mut from, &mut rx, &mut tx);
        debug_assert_eq!(moved, size);
        moved
    }))
}

fn forward_peer(
    circling: &mut Burst,
    to: &mut Producer,
    from: &mut Consumer,
    rx: &mut RxQueue,
    tx: &mut TxQueue,
) -> usize {
    to.enqueue(circling);
    let moved = forward(rx, tx, BURST_MAX);
    from.dequeue(circling);
    moved
}
