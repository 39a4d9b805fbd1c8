//! Overload (T14): what a worker still forwards when it is offered more than it can process, and how long Echo Requests
//! take then.
//!
//! One worker is measured in rounds. In each it is offered half as much again as it can process, without a backlog, so
//! that its rings overflow by themselves: what it forwards then is what it *can process*. Right behind that it is
//! offered a multiple of this, with the daemon's backlog. Ratios are taken within a round: how long a core waits for
//! what the other has written changes by a factor from one second to the next where a hypervisor moves them, and with
//! it what a worker can process.

use dpdk::Eal;
use serde::Serialize;

use super::clock::ticks_per_second;
use super::error::BenchError;
use super::model::Model;
use super::progress::Progress;
use super::selffed::{Counted, StageCount};
use super::settings;
use super::twocore::{Bench, Device, EchoTrial, Echoed, Trial, TrialRates, on_second_core};

/// What is offered, of what a worker can process, per cent.
const LOADS: [u32; 4] = [100, 150, 200, 400];
/// The same for the worker without a backlog.
const BEYOND: f64 = 1.5;
/// Rounds of each load; the middle one of those that say something counts.
const ROUNDS: usize = 5;
/// Echo Requests a second beside the traffic: as many gNBs send one in a minute as 16 bits have numbers.
const ECHOES: f64 = 1_000.0;
/// The share of a thread's time that others may take.
const MOST_TAKEN: f64 = 0.02;

/// A worker at one load.
#[derive(Clone, Debug, Serialize)]
pub struct OverloadTrial {
    /// Packets a second that came back.
    pub goodput: f64,
    /// Packets a second that the worker took from its rings and dropped.
    pub dropped: f64,
    /// The trial.
    pub trial: Trial,
    /// The Echo Requests beside it.
    pub echoed: Echoed,
    /// What the worker counted.
    pub counted: Counted,
}

impl OverloadTrial {
    fn new(done: EchoTrial, seconds: f64) -> Self {
        let EchoTrial {
            trial,
            echoed,
            counted,
        } = done;
        Self {
            goodput: trial.received as f64 / seconds,
            dropped: trial.sent.saturating_sub(trial.received) as f64 / seconds,
            trial,
            echoed,
            counted: counted.unwrap_or_default(),
        }
    }

    /// Ticks of a stage for each packet that was forwarded.
    #[must_use]
    pub fn ticks_of(&self, stage: &StageCount) -> f64 {
        stage.cycles as f64 / self.trial.received.max(1) as f64
    }

    fn taken(&self) -> f64 {
        self.trial.generator.taken().max(self.trial.device.taken())
    }
}

/// A worker without a backlog, and right behind that with the daemon's.
#[derive(Clone, Debug, Serialize)]
pub struct Round {
    /// What the second was to be offered, per cent of what the first forwarded.
    pub load: u32,
    /// Without a backlog, at half as much again as it can process.
    pub without: OverloadTrial,
    /// With it.
    pub with: OverloadTrial,
}

impl Round {
    /// One round of a worker that can process `about` as many packets a second.
    fn measure(
        bench: &mut Bench,
        load: u32,
        (about, backlog): (f64, usize),
        seconds: f64,
    ) -> Result<Self, BenchError> {
        let most = bench.most;
        let mut trial = |backlog, packets: f64| {
            bench.set_backlog(backlog)?;
            let rates = TrialRates {
                packets: most.min(packets),
                echoes: ECHOES,
            };
            let done = bench.trial_with_echoes(rates, seconds)?;
            Ok::<_, BenchError>(OverloadTrial::new(done, seconds))
        };
        let without = trial(0, BEYOND * about)?;
        let with = trial(backlog, without.goodput * f64::from(load) / 100.0)?;
        Ok(Self { load, without, with })
    }

    /// The goodput with a backlog, of that without.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.with.goodput / self.without.goodput.max(1.0)
    }

    /// What was offered, over what the worker can process.
    #[must_use]
    pub fn factor(&self) -> f64 {
        self.with.trial.rate / self.without.goodput.max(1.0)
    }

    /// Nanoseconds that a dropped packet cost: the time that was not spent on forwarding, at the cost that a packet has
    /// without a backlog.
    #[must_use]
    pub fn drop_nanos(&self) -> f64 {
        1e9 * (1.0 - self.share()) / self.with.dropped.max(1.0)
    }

    /// The same in ticks of the time stamp counter.
    #[must_use]
    pub fn drop_ticks(&self) -> f64 {
        self.drop_nanos() * ticks_per_second() / 1e9
    }

    /// Why it says nothing; `None` when it does.
    #[must_use]
    pub fn void(&self) -> Option<String> {
        let taken = self.without.taken().max(self.with.taken());
        (taken > MOST_TAKEN).then(|| format!("others took {:.1}% of a thread's time", taken * 100.0))
    }
}

/// A worker in overload.
#[derive(Clone, Debug, Serialize)]
pub struct Overload {
    /// Flows of the worker.
    pub flows: u32,
    /// Packets of a port that may wait, with the daemon's defaults.
    pub backlog: usize,
    /// Packets a second that the generator can make.
    pub generator_most: f64,
    /// The middle round of each load, by its share, of those that say something, or of all where none does.
    pub rounds: Vec<Round>,
    /// The shares of all rounds of each load, in their order.
    pub shares: Vec<Vec<f64>>,
}

impl Overload {
    /// Measures a worker on two cores.
    ///
    /// # Errors
    /// DPDK's, memory, rules that do not compile, threads.
    pub fn measure(
        eal: &'static Eal,
        model: Model,
        seconds: f64,
        progress: &Progress,
    ) -> Result<Self, BenchError> {
        on_second_core(eal, || {
            let backlog = settings::backlog()?;
            let mut bench = Bench::start(eal, Device::Worker, model, backlog, progress)?;
            bench.introduce_flows();
            progress.begin("rounds", (LOADS.len() * ROUNDS) as u64);
            bench.set_backlog(0)?;
            // What about half as much again is, of all that the generator makes, and then of the round before.
            let mut about = bench.trial(bench.most, seconds)?.received as f64 / seconds;
            let (mut middle, mut shares) = (Vec::new(), Vec::new());
            for load in LOADS {
                let mut rounds = Vec::new();
                for _ in 0..ROUNDS {
                    let round = Round::measure(&mut bench, load, (about, backlog), seconds)?;
                    about = round.without.goodput;
                    rounds.push(round);
                    progress.at((middle.len() * ROUNDS + rounds.len()) as u64);
                }
                shares.push(rounds.iter().map(Round::share).collect());
                middle.extend(middle_of(rounds));
            }
            let generator_most = bench.most;
            bench.end()?;
            Ok(Self {
                flows: model.flows(),
                backlog,
                generator_most,
                rounds: middle,
                shares,
            })
        })
    }

    /// The round at this load.
    #[must_use]
    pub fn at(&self, load: u32) -> Option<&Round> {
        self.rounds.iter().find(|round| round.load == load)
    }
}

/// The middle one by share of those that are not void, or of all where all are.
fn middle_of(mut rounds: Vec<Round>) -> Option<Round> {
    rounds.sort_by(|one, other| one.share().total_cmp(&other.share()));
    if rounds.iter().any(|round| round.void().is_none()) {
        rounds.retain(|round| round.void().is_none());
    }
    let middle = rounds.len() / 2;
    rounds.into_iter().nth(middle)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(goodput: f64, waited: u64) -> OverloadTrial {
        let mut trial = Trial::default();
        trial.device.wall_nanos = 1_000;
        trial.device.waited_nanos = waited;
        OverloadTrial {
            goodput,
            dropped: 0.0,
            trial,
            echoed: Echoed::default(),
            counted: Counted::default(),
        }
    }

    fn round(goodput: f64, waited: u64) -> Round {
        Round {
            load: 200,
            without: trial(10.0, 0),
            with: trial(goodput, waited),
        }
    }

    #[test]
    fn the_middle_round_of_those_that_others_left_alone_counts() {
        let share = |rounds| middle_of(rounds).map(|round| round.share());
        let all = vec![
            round(9.0, 0),
            round(2.0, 30),
            round(8.0, 0),
            round(1.0, 500),
            round(7.0, 20),
        ];
        assert_eq!(share(all), Some(0.8));
        assert_eq!(
            share(vec![round(9.0, 21), round(2.0, 30), round(8.0, 40)]),
            Some(0.8)
        );
        assert_eq!(share(Vec::new()), None);
    }
}
