//! The greatest rate without loss, in the manner of RFC 2544 §26.1.
//!
//! The answer is always a rate that was tried: for the whole length of a trial, without loss, in a trial that is not
//! void, and once more so at the end. Where no rate was, there is none; a bound of the search is no answer.

use serde::Serialize;

use super::error::BenchError;
use super::twocore::{Bench, HEADROOM, Trial};

/// One trial with its load and its loss.
#[derive(Clone, Debug, Serialize)]
pub struct RatedTrial {
    /// Per cent of what the worker can do; 0: a step of the search for the greatest rate without loss.
    pub load: u32,
    /// The trial.
    #[serde(flatten)]
    pub trial: Trial,
    /// The share of packets lost.
    pub loss: f64,
    /// Why the trial is void.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub void: Option<String>,
    /// Why its undisturbed intervals are void, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub void_intervals: Option<String>,
}

impl RatedTrial {
    /// A trial, and why it is void.
    #[must_use]
    pub fn new(load: u32, trial: Trial, void: Option<String>) -> Self {
        Self {
            load,
            loss: trial.loss(),
            void,
            void_intervals: None,
            trial,
        }
    }

    /// The trial with the reason for which its undisturbed intervals are void.
    #[must_use]
    pub fn with_intervals(mut self, void: Option<String>) -> Self {
        self.void_intervals = void;
        self
    }
}

/// The search ends when the bounds are this close, of the greatest rate.
const RESOLUTION: f64 = 0.02;
/// Trials of one rate at most; void ones are among them.
const TRIALS: usize = 4;
/// Trials with loss, none of them void, after which a rate is given up. A moment's absence of a thread on a shared
/// machine is not the device's.
const LOSSES: usize = 2;

/// A device that trials are made with.
pub trait Tester {
    /// Packets a second that the generator can make.
    fn most(&self) -> f64;

    /// One trial at `rate` packets a second.
    ///
    /// # Errors
    /// When the device's thread has ended.
    fn trial(&mut self, rate: f64, seconds: f64) -> Result<Trial, BenchError>;

    /// Why a trial is void; `None`: it is not.
    fn void(&self, trial: &Trial) -> Option<String>;
}

impl Tester for Bench {
    fn most(&self) -> f64 {
        self.most
    }

    fn trial(&mut self, rate: f64, seconds: f64) -> Result<Trial, BenchError> {
        Bench::trial(self, rate, seconds)
    }

    fn void(&self, trial: &Trial) -> Option<String> {
        Bench::void(self, trial)
    }
}

/// The result of a search.
#[derive(Clone, Debug, Default)]
pub struct ZeroLoss {
    /// Packets a second; `None`: no rate that was tried passed.
    pub rate: Option<f64>,
    /// The generator's headroom ended the search, not loss.
    pub is_generator_bound: bool,
    /// All trials, in their order.
    pub trials: Vec<RatedTrial>,
}

/// Searches between 0 and the generator's greatest rate less its headroom, by trials of `seconds`. `heard` is called
/// with the number of trials so far.
///
/// # Errors
/// As [`Tester::trial`].
pub fn zero_loss(
    tester: &mut impl Tester,
    seconds: f64,
    heard: impl Fn(usize),
) -> Result<ZeroLoss, BenchError> {
    let most = tester.most() / HEADROOM;
    let (mut found, mut passed) = (ZeroLoss::default(), Vec::new());
    let (mut low, mut high) = (0.0, most);
    let mut rate = most;
    while high - low > most * RESOLUTION {
        if passes(tester, rate, seconds, &mut found.trials, &heard)? {
            passed.push(rate);
            low = rate;
        } else {
            high = rate;
        }
        rate = f64::midpoint(low, high);
    }
    // The greatest is the last: after a rate that passed only greater ones are tried.
    while let Some(rate) = passed.pop() {
        if passes(tester, rate, seconds, &mut found.trials, &heard)? {
            (found.rate, found.is_generator_bound) = (Some(rate), rate >= most);
            break;
        }
    }
    Ok(found)
}

/// Whether one of a few trials at a rate loses nothing and is not void.
fn passes(
    tester: &mut impl Tester,
    rate: f64,
    seconds: f64,
    trials: &mut Vec<RatedTrial>,
    heard: impl Fn(usize),
) -> Result<bool, BenchError> {
    let mut losses = 0;
    for _ in 0..TRIALS {
        let trial = tester.trial(rate, seconds)?;
        let is_lossless = trial.sent > 0 && trial.received == trial.sent && trial.refused == 0;
        let void = tester.void(&trial);
        let is_void = void.is_some();
        trials.push(RatedTrial::new(0, trial, void));
        heard(trials.len());
        match (is_void, is_lossless) {
            (false, true) => return Ok(true),
            (false, false) => losses += 1,
            (true, _) => {}
        }
        if losses == LOSSES {
            break;
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: f64 = 1_500_000.0;
    const SECONDS: f64 = 5.0;

    /// A device whose losses and void trials follow from the rate and the number of the trial.
    struct Fake<L, V> {
        loses: L,
        is_void: V,
        /// Seconds of each trial.
        tried: Vec<f64>,
    }

    impl<L: Fn(f64, usize) -> bool, V: Fn(f64, usize) -> bool> Tester for Fake<L, V> {
        fn most(&self) -> f64 {
            MOST
        }

        fn trial(&mut self, rate: f64, seconds: f64) -> Result<Trial, BenchError> {
            self.tried.push(seconds);
            let sent = (rate * seconds) as u64;
            Ok(Trial {
                rate,
                sent,
                received: sent - u64::from((self.loses)(rate, self.tried.len())),
                ..Trial::default()
            })
        }

        fn void(&self, trial: &Trial) -> Option<String> {
            (self.is_void)(trial.rate, self.tried.len()).then(|| "others took the core".into())
        }
    }

    /// The answer, which must be a rate that passed twice and whose last trial is the last of all that passed.
    fn search(loses: impl Fn(f64, usize) -> bool, is_void: impl Fn(f64, usize) -> bool) -> ZeroLoss {
        let mut fake = Fake {
            loses,
            is_void,
            tried: Vec::new(),
        };
        let found = zero_loss(&mut fake, SECONDS, |_| {}).unwrap();
        assert!(fake.tried.iter().all(|seconds| *seconds == SECONDS));
        assert_eq!(fake.tried.len(), found.trials.len());
        let has_passed = |point: &&RatedTrial| point.void.is_none() && point.loss == 0.0;
        if let Some(rate) = found.rate {
            let of_rate = found.trials.iter().filter(|point| point.trial.rate == rate);
            assert!(of_rate.filter(has_passed).count() >= 2, "{rate} is not confirmed");
            let last = found.trials.last().unwrap();
            assert!(
                last.trial.rate == rate && has_passed(&last),
                "{rate} is not confirmed last"
            );
        }
        found
    }

    const NEVER: fn(f64, usize) -> bool = |_, _| false;

    #[test]
    fn the_answer_is_the_greatest_rate_that_passed() {
        for limit in [30_000.0, 123_456.0, 700_000.0, 999_000.0] {
            let found = search(|rate, _| rate > limit, NEVER);
            let rate = found.rate.unwrap();
            assert!(rate <= limit && rate > limit - 20_000.0, "{rate} of {limit}");
            assert!(!found.is_generator_bound);
        }
    }

    #[test]
    fn without_loss_the_generator_is_the_bound() {
        let found = search(NEVER, NEVER);
        assert_eq!((found.rate, found.is_generator_bound), (Some(1_000_000.0), true));
        assert_eq!(found.trials.len(), 2);
    }

    #[test]
    fn a_device_that_always_loses_has_no_rate() {
        let found = search(|_, _| true, NEVER);
        assert_eq!(found.rate, None);
        // Nor one that loses above less than is ever tried.
        assert_eq!(search(|rate, _| rate > 5_000.0, NEVER).rate, None);
    }

    #[test]
    fn void_trials_are_no_answer() {
        assert_eq!(search(NEVER, |_, _| true).rate, None);
        // All above half a million are void, though nothing is lost there.
        let rate = search(NEVER, |rate, _| rate > 500_000.0).rate.unwrap();
        assert!((480_000.0..=500_000.0).contains(&rate), "{rate}");
        // Every second trial is void and loses: what others took is not the device's.
        let found = search(|_, trial| trial % 2 == 1, |_, trial| trial % 2 == 1);
        assert_eq!(found.rate, Some(1_000_000.0));
    }

    #[test]
    fn a_rate_that_is_not_confirmed_gives_way_to_a_lower_one() {
        // After the eleven trials of the search nothing above 550,000 passes any more.
        let loses = |rate: f64, trial: usize| rate > 700_000.0 || (trial > 11 && rate > 550_000.0);
        let found = search(loses, NEVER);
        assert_eq!(found.rate, Some(500_000.0));
        // And when nothing passes any more there is none.
        assert_eq!(
            search(|rate, trial| rate > 700_000.0 || trial > 11, NEVER).rate,
            None
        );
    }

    #[test]
    fn losses_in_islands_never_lead_to_an_untested_rate() {
        let mut answers = 0;
        for seed in 0..500u64 {
            let mixed = |rate: f64, salt: u64| {
                let mut word = (rate as u64 / 7_000 + salt * 1_000_003 + seed * 7_919)
                    .wrapping_mul(0x9e37_79b9_7f4a_7c15);
                word ^= word >> 29;
                word.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 60
            };
            let found = search(
                |rate, _| mixed(rate, 1) < 9,
                |rate, trial| mixed(rate, trial as u64) < 4,
            );
            answers += usize::from(found.rate.is_some());
        }
        assert!(answers > 300, "{answers}");
    }
}
