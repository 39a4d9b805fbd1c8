//! An accelerator that is driven in-band (`docs/inband.md`): first packets of flows, which go to the host and come back
//! with their flow, beside those of a worker that is alone; established traffic while new flows come; what sessions
//! have counted when control frames are lost, and when the accelerator's process ends; the delay of packets.
//!
//! But for delays both ends are on one thread, with a wire of memory between them, and take turns; the time of each is
//! taken by itself, as if each had a core of its own. They share the caches of one core here. Frames of 128 octets,
//! half of them each way, in uniformly random order; a session has a QER and a URR.

mod arguments;
mod delay;
mod lines;
mod link;
mod outcome;
pub(crate) mod pair;
mod phases;
mod target;
#[cfg(test)]
mod tests;

use dpdk::Eal;

use super::clock::available_memory;
use super::error::BenchError;
use super::model::Model;
use super::network::Wire;
use super::progress::Progress;
use super::settings::Setting;
pub use arguments::Arguments;
pub use delay::{AcceleratorDelay, DeviceDelay};
pub use lines::{lines, rows};
pub use outcome::{Beside, Counted, Ended, Installs, Offloaded};
pub use target::targets;

/// The model: sessions of one bearer, an entry for each 5-tuple.
fn model(sessions: u32, flows: u32) -> Model {
    Model {
        name: "accelerator",
        flows_per_bearer: flows,
        force_five_tuple: true,
        ..Model::open().with_sessions(sessions)
    }
}

/// What both ends, and a worker that is alone, are configured with.
fn setting(sessions: u32, flows: u32) -> Setting {
    Setting {
        wire: Wire::Tagged,
        ..Setting::new(model(sessions, flows))
    }
}

/// Sessions and flows of the part about delays.
const OF_DELAYS: (u32, u32) = (1_024, 64);

/// Measures it.
///
/// # Errors
/// When there is too little memory, or packets were lost that should have passed; DPDK's.
pub fn measure(
    eal: &'static Eal,
    arguments: &Arguments,
    progress: &Progress,
) -> Result<Offloaded, BenchError> {
    let mut results = measure_by_turns(arguments, progress)?;
    progress.stage("delays");
    let (sessions, flows) = OF_DELAYS;
    results.delay = delay::delay(eal, model(sessions, flows), arguments.seconds, progress)?;
    Ok(results)
}

/// What both ends do on one thread.
fn measure_by_turns(arguments: &Arguments, progress: &Progress) -> Result<Offloaded, BenchError> {
    check_memory(arguments)?;
    let whole = setting(arguments.sessions, arguments.flows);
    progress.stage("a worker alone");
    let (local, alone) = phases::alone(arguments, whole, progress)?;
    progress.stage("new flows, and established ones");
    let mut results = phases::whole(arguments, &whole, progress)?;
    results.asked_rate = arguments.rate;
    results.installs.local = local;
    results.beside.alone = alone;
    progress.stage("new flows, the whole packet to the host");
    results.installs_whole = phases::installs_whole(&whole, progress)?;
    results.installs_whole.local = local;
    let few = setting(arguments.sessions.min(arguments.few), arguments.flows.min(16));
    progress.stage("control frames are lost");
    results.lossy = phases::lossy(arguments, &few, progress)?;
    progress.stage("the accelerator ends");
    for number in 0..arguments.ends {
        results
            .ended
            .push(phases::ended(arguments, &few, number, progress)?);
    }
    Ok(results)
}

/// The tables of both ends have to fit.
fn check_memory(arguments: &Arguments) -> Result<(), BenchError> {
    let needed = u64::from(arguments.all_flows()) * 2 * 96 + u64::from(arguments.sessions) * 12_288;
    let there = available_memory();
    if needed <= there {
        return Ok(());
    }
    Err(BenchError(format!(
        "{} sessions need {} MiB; there are {}: --sessions",
        arguments.sessions,
        needed >> 20,
        there >> 20
    )))
}
