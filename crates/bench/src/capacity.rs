//! The capacity of a worker in the two-core harness: what it forwards when it is offered more than it can process.
//!
//! That is not the throughput of RFC 2544: a ring overflows in every long absence of a core, so that the
//! rate without loss says what the rings outlast, and not what the worker can do. The worker has no backlog here: with
//! one it takes packets from its rings that it can only drop, and forwards fewer.

use dpdk::Eal;
use serde::Serialize;

use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::twocore::{Bench, Device, Trial};

/// What is offered after all that the generator makes, as multiples of what the worker forwarded of that.
const OFFERS: [f64; 4] = [1.05, 1.25, 1.5, 2.0];
/// The share of the generator's greatest rate above which a goodput may be the generator's, not the worker's.
const BOUND: f64 = 0.95;

/// A trial with its goodput.
#[derive(Clone, Debug, Serialize)]
pub struct GoodputTrial {
    /// Packets a second that came back.
    pub goodput: f64,
    /// The trial.
    #[serde(flatten)]
    pub trial: Trial,
}

/// What a worker can do.
#[derive(Clone, Debug, Serialize)]
pub struct Capacity {
    /// The greatest goodput, packets a second.
    pub rate: f64,
    /// The generator makes hardly more: the worker may be able to do more than that.
    pub is_generator_bound: bool,
    /// The trials.
    pub trials: Vec<GoodputTrial>,
}

impl Capacity {
    /// Measures a worker without a backlog. Call it on the generator's core.
    ///
    /// # Errors
    /// DPDK's, memory, or the end of a thread.
    pub fn measure(
        eal: &'static Eal,
        model: Model,
        seconds: f64,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        let mut bench = Bench::start(eal, Device::Worker, model, 0, progress)?;
        bench.introduce_flows();
        progress.begin("capacity", OFFERS.len() as u64 + 1);
        let most = bench.most;
        let mut trials = vec![goodput(bench.trial(most, seconds)?, seconds)];
        let first = trials[0].goodput;
        for (number, times) in OFFERS.into_iter().enumerate() {
            let trial = bench.trial(most.min(first * times), seconds)?;
            trials.push(goodput(trial, seconds));
            progress.at(number as u64 + 2);
        }
        bench.end()?;
        Ok(Self::of(trials, most))
    }

    /// The greatest goodput of these trials.
    fn of(trials: Vec<GoodputTrial>, most: f64) -> Self {
        let rate = trials.iter().map(|trial| trial.goodput).fold(0.0, f64::max);
        Self {
            rate,
            is_generator_bound: rate > BOUND * most,
            trials,
        }
    }
}

/// The rings hold few packets against those of a trial: all that came back did so in its time.
fn goodput(trial: Trial, seconds: f64) -> GoodputTrial {
    GoodputTrial {
        goodput: trial.received as f64 / seconds,
        trial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacity_is_the_greatest_goodput() {
        let trial = |rate: f64, received: u64| {
            let trial = Trial {
                rate,
                received,
                ..Trial::default()
            };
            goodput(trial, 2.0)
        };
        let trials = vec![
            trial(9e6, 8_000_000),
            trial(5e6, 8_400_000),
            trial(6e6, 7_000_000),
        ];
        let capacity = Capacity::of(trials.clone(), 9e6);
        assert_eq!((capacity.rate, capacity.is_generator_bound), (4.2e6, false));
        assert!(Capacity::of(trials, 4.3e6).is_generator_bound);
    }
}
