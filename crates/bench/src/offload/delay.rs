//! The delay of packets through an accelerator, on two cores: the generator on one, the accelerator on the other, with
//! its host, which is idle. Beside it that of a worker that is alone.

use dpdk::Eal;
use serde::Serialize;

use super::super::error::BenchError;
use super::super::model::Model;
use super::super::progress::Progress;
use super::super::settings;
use super::super::twocore::{Bench, Delays, Device, on_second_core};

/// Packets a second, both ways together.
const RATE: f64 = 1e6;
/// Trials of each device; the middle one by the median counts.
const TRIALS: usize = 5;
/// Seconds of a trial, at least.
const LEAST_SECONDS: f64 = 0.3;
/// Packets that may find no flow at the accelerator, of all that passed it in trials.
const MOST_MISSES: f64 = 0.001;

/// The middle trial of a device.
#[derive(Clone, Debug, Default, Serialize)]
pub struct DeviceDelay {
    /// Delays from when a packet was due until it was back, of intervals in which neither thread lost its core.
    pub delays: Delays,
    /// The share of packets that did not come back.
    pub loss: f64,
    /// Why it is void; `null`: it is not.
    pub void: Option<String>,
}

/// Delays.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AcceleratorDelay {
    /// Packets a second.
    pub rate: f64,
    /// Sessions, and flows of all.
    pub sessions: u32,
    /// See [`sessions`](Self::sessions).
    pub flows: u32,
    /// Through an accelerator that has all flows.
    pub accelerator: DeviceDelay,
    /// Through a worker that is alone.
    pub alone: DeviceDelay,
}

/// Measures both.
///
/// # Errors
/// DPDK's, memory, the end of a thread; packets that did not find their flow at the accelerator.
pub fn delay(
    eal: &'static Eal,
    model: Model,
    seconds: f64,
    progress: &Progress,
) -> Result<AcceleratorDelay, BenchError> {
    let mut policy = model.policy;
    policy.limits = false;
    let model = model.with_policy(policy);
    on_second_core(eal, || {
        let of = |device| of_device(eal, device, model, seconds.max(LEAST_SECONDS), progress);
        Ok(AcceleratorDelay {
            rate: RATE,
            sessions: model.sessions,
            flows: model.flows(),
            alone: of(Device::Worker)?,
            accelerator: of(Device::Accelerator)?,
        })
    })
}

fn of_device(
    eal: &'static Eal,
    device: Device,
    model: Model,
    seconds: f64,
    progress: &Progress,
) -> Result<DeviceDelay, BenchError> {
    let mut bench = Bench::start(eal, device, model, settings::backlog()?, progress)?;
    // With the first ones sessions leave, where they do.
    bench.introduce_flows();
    bench.introduce_flows();
    let mut trials = Vec::new();
    for _ in 0..TRIALS {
        let (trial, counted) = bench.counted_trial(RATE, seconds)?;
        let misses = counted.map_or(0, |counted| counted.misses + counted.stale);
        if misses as f64 > trial.received as f64 * MOST_MISSES {
            return Err(BenchError(format!("{misses} packets did not find their flow")));
        }
        trials.push(trial);
    }
    trials.sort_by_key(|trial| trial.intervals.undisturbed.delays.p50);
    let trial = trials.swap_remove(TRIALS / 2);
    let void = bench.void_intervals(&trial);
    bench.end()?;
    Ok(DeviceDelay {
        delays: trial.intervals.undisturbed.delays,
        loss: trial.loss(),
        void,
    })
}
