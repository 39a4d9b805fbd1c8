//! Loss and latency with two cores (T8): the greatest rate without loss in the manner of RFC 2544, and delays by load.

use dpdk::Eal;
use serde::Serialize;

use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::search::{RatedTrial, ZeroLoss, zero_loss};
use super::settings;
use super::targets::short;
use super::twocore::{Bench, Device, EchoTrial, Echoed, Trial, TrialRates, on_second_core};

/// Loads of the sweep, per cent of the greatest rate without loss.
const LOADS: [u32; 8] = [10, 25, 50, 75, 90, 100, 110, 125];
/// Echo Requests a second beside an overload: as many gNBs ask in a minute as 16 bits have numbers.
const ECHOES: f64 = 1_000.0;

/// Trials of one device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceLatency {
    /// Packets a second that the generator can make.
    pub generator_most: f64,
    /// The greatest rate, of those tried, at which trials lost nothing and were not void; `null`: none of them passed,
    /// and there are no loads.
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

/// A worker that is offered more than it can do, with Echo Requests among it.
#[derive(Clone, Debug, Serialize)]
pub struct Overload {
    /// Room for packets of a port that wait; 0: the worker does not look ahead.
    pub backlog: usize,
    /// Packets a second that came back, of a worker that does not look ahead, when as many were offered as the
    /// generator can make.
    pub capacity: f64,
    /// The trial, at twice that rate or at the generator's greatest rate.
    pub trial: Trial,
    /// The Echo Requests beside it.
    pub echoed: Echoed,
}

impl Overload {
    /// The offered rate as a multiple of the worker's capacity.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.trial.rate / self.capacity.max(1.0)
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
    /// The worker.
    pub worker: DeviceLatency,
    /// Bare forwarding at the worker's rates.
    pub plain: DeviceLatency,
    /// The worker in overload: with the daemon's default backlog, and without a backlog.
    pub overload: Vec<Overload>,
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
            let worker = device(eal, Device::Worker, trials, Rate::Searched, progress)?;
            let rate = Rate::Known(worker.zero_loss_rate);
            let plain = device(eal, Device::Plain, trials, rate, progress)?;
            let without = overload(eal, Trials { backlog: 0, ..trials }, None, progress)?;
            let with = overload(eal, trials, Some(without.capacity), progress)?;
            Ok(Self {
                overload: vec![with, without],
                flows: model.flows(),
                sessions: model.sessions,
                sizes: model.sizes,
                backlog,
                trial_seconds: seconds,
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

    /// Whether both devices have a trial at half of the load.
    #[must_use]
    pub fn has_half(&self) -> bool {
        self.worker.at(50).is_some() && self.plain.at(50).is_some()
    }

    /// Why the delays at half of the load are void.
    #[must_use]
    pub fn void_at_half(&self) -> Option<String> {
        [&self.worker, &self.plain]
            .iter()
            .find_map(|device| device.at(50)?.void.clone())
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

/// The rate that loads are per cent of.
enum Rate {
    /// The greatest rate without loss, which is searched first.
    Searched,
    /// Packets a second, of another device; `None`: it has none.
    Known(Option<f64>),
}

/// Measures a worker at twice `capacity` packets a second; without a capacity it is measured first.
fn overload(
    eal: &'static Eal,
    trials: Trials,
    capacity: Option<f64>,
    progress: &Progress,
) -> Result<Overload, BenchError> {
    let Trials {
        model,
        backlog,
        seconds,
    } = trials;
    let mut bench = Bench::start(eal, Device::Worker, model, backlog, progress)?;
    bench.introduce_flows();
    let most = bench.most;
    let capacity = match capacity {
        Some(capacity) => capacity,
        None => bench.trial(most, seconds)?.received as f64 / seconds,
    };
    let rates = TrialRates {
        packets: most.min(2.0 * capacity),
        echoes: ECHOES,
    };
    let EchoTrial { trial, echoed } = bench.trial_with_echoes(rates, seconds)?;
    bench.end()?;
    Ok(Overload {
        backlog,
        capacity,
        trial,
        echoed,
    })
}

fn device(
    eal: &'static Eal,
    device: Device,
    trials: Trials,
    rate: Rate,
    progress: &Progress,
) -> Result<DeviceLatency, BenchError> {
    let seconds = trials.seconds;
    let mut bench = Bench::start(eal, device, trials.model, trials.backlog, progress)?;
    if device == Device::Worker {
        bench.introduce_flows();
    }
    progress.begin("trials", (LOADS.len() * 3 + 8) as u64);
    let found = match rate {
        Rate::Known(rate) => ZeroLoss {
            rate,
            ..ZeroLoss::default()
        },
        Rate::Searched => zero_loss(&mut bench, seconds, |trials| progress.at(trials as u64))?,
    };
    let mut loads = Vec::new();
    let percents = LOADS
        .iter()
        .filter_map(|&load| Some((load, found.rate? * f64::from(load) / 100.0)));
    for (load, rate) in percents {
        let mut trials = Vec::new();
        for _ in 0..3 {
            trials.push(bench.trial(rate, seconds)?);
            progress.at((found.trials.len() + loads.len() * 3 + trials.len()) as u64);
        }
        trials.sort_by_key(|trial| trial.delays.p999);
        let trial = trials.swap_remove(1);
        let void = bench.void(&trial);
        loads.push(RatedTrial::new(load, trial, void));
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
