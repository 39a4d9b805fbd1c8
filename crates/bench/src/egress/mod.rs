//! The egress traffic manager (T9, model Q). Alone: what a packet costs, by queues, lengths and load; the rate of each
//! UE; what waits in overload; and DPDK's `rte_sched` in the same run, in turn. In a worker: what a packet costs on its
//! whole way, beside a worker without queues.
//!
//! UEs with two queues each have rates that add up to 40 Gbit/s, below a port and eight slices with shapers of their
//! own. Time is simulated for the manager, so that a load is exact and a slow machine does not change what is done;
//! what it costs is measured. Packets are slot numbers: no buffer is touched. `rte_sched` takes its time from the
//! processor and moves packet buffers.

mod arguments;
mod cost;
mod in_worker;
mod lines;
mod load;
mod outcome;
mod rates;
#[cfg(test)]
mod red_tests;
mod sched;
mod target;
#[cfg(test)]
mod tests;

use dpdk::Eal;

use super::error::BenchError;
use super::progress::Progress;
pub use arguments::{Arguments, QUEUES};
pub use in_worker::{frames, queues};
pub use lines::{lines, rows};
use load::Shape;
pub use outcome::{Beside, Cost, Egress, InWorker, Rates, Waits, WorkerCost};
pub use target::targets;

/// Sessions of the model.
pub const SESSIONS: u32 = QUEUES / 2;

/// Measures it.
///
/// # Errors
/// When there is too little memory; DPDK's.
pub fn measure(eal: &'static Eal, arguments: &Arguments, progress: &Progress) -> Result<Egress, BenchError> {
    let mut results = alone(arguments, progress)?;
    progress.stage("beside rte_sched");
    for queues in arguments.compared() {
        results.beside.push(sched::beside(eal, queues, arguments)?);
    }
    Ok(results)
}

/// What takes no DPDK.
fn alone(arguments: &Arguments, progress: &Progress) -> Result<Egress, BenchError> {
    let mut results = Egress {
        queues: arguments.queues,
        ..Egress::default()
    };
    progress.stage("cost of a packet");
    for shape in shapes(arguments) {
        results.costs.push(cost::cost(shape, arguments.seconds)?);
    }
    progress.stage("rates of UEs");
    results.rates = rates::rates(arguments)?;
    progress.stage("waiting in overload");
    results.waits = rates::waits(arguments)?;
    progress.stage("in a worker");
    results.in_worker = in_worker::measure(arguments, progress)?;
    Ok(results)
}

/// The sweeps: queues, loads, and lengths at all queues.
fn shapes(arguments: &Arguments) -> Vec<Shape> {
    let all = arguments.queues;
    let shape = |queues, octets, load, filled| Shape {
        queues,
        octets,
        load,
        filled,
    };
    let mut shapes: Vec<Shape> = arguments
        .sizes()
        .map(|queues| shape(queues, 1_024, 1_000, 2))
        .collect();
    shapes.extend([500, 900].map(|load| shape(all, 1_024, load, 0)));
    shapes.push(shape(all, 1_024, 1_500, 2));
    shapes.extend([64, 256, 1_500].map(|octets| shape(all, octets, 1_000, 2)));
    shapes
}
