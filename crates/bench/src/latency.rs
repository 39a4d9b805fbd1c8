//! Loss and latency with two cores (T8): delays by load of what the worker can do, and, as a figure of its own, the
//! greatest rate without loss in the manner of RFC 2544.

use dpdk::Eal;
use serde::Serialize;

use super::capacity::Capacity;
use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::search::{RatedTrial, ZeroLoss, zero_loss};
use super::settings;
use super::targets::short;
use super::twocore::{Bench, Device, on_second_core};

/// Loads of the sweep, per cent of what the worker can do.
const LOADS: [u32; 5] = [10, 25, 50, 75, 90];
/// Trials of each load; the middle one counts.
const TRIALS: usize = 3;

/// Trials of one device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceLatency {
    /// Packets a second that the generator can make.
    pub generator_most: f64,
    /// The greatest rate, of those tried, at which trials lost nothing and were not void; `null`: none of them passed,
    /// or none was tried.
    pub zero_loss_rate: Option<f64>,
    /// The search was stopped by the generator's headroom, not by loss.
    pub is_generator_bound: bool,
    /// The trials of the search.
    pub search: Vec<RatedTrial>,
    /// Delays by load.
    pub loads: Vec<RatedTrial>,
}

impl DeviceLatency {
    /// The trial at this load.
    #[must_use]
    pub fn at(&self, load: u32) -> Option<&RatedTrial> {
        self.loads.iter().find(|point| point.load == load)
    }
}

/// A worker and bare forwarding, at the same rates.
#[derive(Clone, Debug, Serialize)]
pub struct Latencies {
    /// Flows and sessions of the worker.
    pub flows: u32,
    /// Sessions.
    pub sessions: u32,
    /// Frame sizes.
    pub sizes: [u16; 2],
    /// Packets of a port that may wait: the daemon's default.
    pub backlog: usize,
    /// Seconds of a trial.
    pub trial_seconds: f64,
    /// What loads are per cent of: a worker without a backlog that is offered more than it can process.
    pub capacity: Capacity,
    /// The worker.
    pub worker: DeviceLatency,
    /// Bare forwarding at the worker's rates.
    pub plain: DeviceLatency,
}

impl Latencies {
    /// Measures both. The middle of three trials is kept for each load.
    ///
    /// # Errors
    /// DPDK's, memory, or the end of a thread.
    pub fn measure(
        eal: &'static Eal,
        model: Model,
        seconds: f64,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        on_second_core(eal, || {
            let backlog = settings::backlog()?;
            let trials = Trials {
                model,
                backlog,
                seconds,
            };
            let capacity = Capacity::measure(eal, model, seconds, progress)?;
            let worker = device(eal, Device::Worker, trials, capacity.rate, progress)?;
            let plain = device(eal, Device::Plain, trials, capacity.rate, progress)?;
            Ok(Self {
                flows: model.flows(),
                sessions: model.sessions,
                sizes: model.sizes,
                backlog,
                trial_seconds: seconds,
                capacity,
                worker,
                plain,
            })
        })
    }

    /// The greatest rate without loss, in words.
    #[must_use]
    pub fn zero_loss(&self) -> String {
        let mpps = |rate: f64| format!("{} Mpps", short(rate / 1e6));
        self.worker.zero_loss_rate.map_or_else(|| "none".into(), mpps)
    }

    /// The trials of worker and bare forwarding at half of the load.
    #[must_use]
    pub fn half(&self) -> Option<Half<'_>> {
        Some(Half {
            worker: self.worker.at(50)?,
            plain: self.plain.at(50)?,
        })
    }
}

/// Trials at half of what the worker can do.
#[derive(Clone, Copy, Debug)]
pub struct Half<'a> {
    /// The worker.
    pub worker: &'a RatedTrial,
    /// Bare forwarding at that rate.
    pub plain: &'a RatedTrial,
}

impl Half<'_> {
    /// Why the undisturbed intervals of either are void.
    #[must_use]
    pub fn void(&self) -> Option<String> {
        [("worker", self.worker), ("bare forwarding", self.plain)]
            .iter()
            .find_map(|(name, trial)| Some(format!("{name}: {}", trial.void_intervals.as_ref()?)))
    }
}

/// Parameters of all trials of a device.
#[derive(Clone, Copy)]
struct Trials {
    model: Model,
    /// Packets of a port that may wait.
    backlog: usize,
    /// Length of each trial.
    seconds: f64,
}

/// A worker with the daemon's backlog, or bare forwarding, at loads of `capacity` packets a second.
fn device(
    eal: &'static Eal,
    device: Device,
    trials: Trials,
    capacity: f64,
    progress: &Progress,
) -> Result<DeviceLatency, BenchError> {
    let seconds = trials.seconds;
    let mut bench = Bench::start(eal, device, trials.model, trials.backlog, progress)?;
    progress.begin("trials", (LOADS.len() * TRIALS + 8) as u64);
    let found = if device == Device::Worker {
        bench.introduce_flows();
        zero_loss(&mut bench, seconds, |trials| progress.at(trials as u64))?
    } else {
        ZeroLoss::default()
    };
    bench.set_capacity(capacity);
    let mut loads = Vec::new();
    for load in LOADS {
        let rate = capacity * f64::from(load) / 100.0;
        let mut trials = Vec::new();
        for _ in 0..TRIALS {
            trials.push(bench.trial(rate, seconds)?);
            progress.at((found.trials.len() + loads.len() * TRIALS + trials.len()) as u64);
        }
        trials.sort_by_key(|trial| trial.intervals.undisturbed.delays.p999);
        let trial = trials.swap_remove(TRIALS / 2);
        let (void, void_intervals) = (bench.void(&trial), bench.void_intervals(&trial));
        loads.push(RatedTrial::new(load, trial, void).with_intervals(void_intervals));
    }
    let generator_most = bench.most;
    bench.end()?;
    Ok(DeviceLatency {
        generator_most,
        zero_loss_rate: found.rate,
        is_generator_bound: found.is_generator_bound,
        search: found.trials,
        loads,
    })
}
