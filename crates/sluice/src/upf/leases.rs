//! The rates of policers, which all workers keep together: each has a share, by what its sessions ask for.
//!
//! Every hundredth of a second the workers are asked how much packets wanted to pass, and the rate is divided anew; the
//! shares of all workers are always the whole rate, to the kbit/s. What is asked for is smoothed over some such times, so
//! that shares settle in about a fifth of a second. Bursts are divided once, evenly: a worker that was idle has its part
//! for its first packets.

use std::time::Duration;

use flow::meter::{MeterSpec, Rate, SharedId};
use flow::{Direction, Nanos};
use rules::network::Policer;
use worker::Command;

/// How often rates are divided.
const LOOK: Duration = Duration::from_millis(10);
/// Of new demand, one part in so many counts.
const SMOOTHING: u64 = 8;
/// A worker that asks for nothing has this part of what would be its even share, so that it never has to begin with
/// nothing.
const IDLE_PART: u64 = 128;

/// The rates of all policers.
#[derive(Debug)]
pub struct Leases {
    rates: Vec<[Rate; 2]>,
    workers: usize,
    next: Nanos,
    /// When the workers were asked last.
    asked: Option<Nanos>,
    /// Of each worker and meter, from number 1 on, by direction.
    shares: Vec<Vec<[Share; 2]>>,
}

/// What one worker has of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Share {
    /// Smoothed, in kbit/s.
    demand: u64,
    /// The part of the rate, in kbit/s; `None`: not told yet.
    kbit: Option<u64>,
}

impl Leases {
    /// Of these policers, over so many workers.
    #[must_use]
    pub fn new(policers: &[Policer], workers: usize) -> Self {
        Self {
            rates: policers.iter().map(|policer| policer.rates).collect(),
            workers,
            next: Nanos(0),
            asked: None,
            shares: vec![vec![Default::default(); policers.len()]; workers],
        }
    }

    /// When there is something to do; `None`: never again, since there is nothing, or nobody, to divide.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let is_told = self.asked.is_some();
        (!self.rates.is_empty() && (self.workers > 1 || !is_told)).then_some(self.next)
    }

    /// Divides rates, if it is time, and hands each command for a worker to `send`. Whether it was time.
    pub fn poll(&mut self, now: Nanos, mut send: impl FnMut(usize, Command)) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        self.next = now + LOOK;
        for meter in 0..self.rates.len() {
            for direction in Direction::BOTH {
                self.divide(meter, direction, &mut send);
            }
        }
        self.asked = Some(now);
        if self.workers > 1 {
            for worker in 0..self.workers {
                let demand = vec![[0; 2]; self.rates.len() + 1].into();
                send(worker, Command::SharedDemand { demand });
            }
        }
        true
    }

    /// A worker's sessions wanted so many octets of each meter since it was asked before.
    pub fn note(&mut self, worker: usize, demand: &[[u64; 2]]) {
        let Some(shares) = self.shares.get_mut(worker) else {
            return;
        };
        let millis = LOOK.as_millis() as u64;
        for (shares, octets) in shares.iter_mut().zip(demand.iter().skip(1)) {
            for (share, octets) in shares.iter_mut().zip(octets) {
                let kbit = octets.saturating_mul(8) / millis;
                share.demand = (share.demand * (SMOOTHING - 1) + kbit) / SMOOTHING;
            }
        }
    }

    fn divide(&mut self, meter: usize, direction: Direction, send: &mut impl FnMut(usize, Command)) {
        let rate = self.rates[meter][direction as usize];
        if rate == Rate::UNLIMITED {
            return;
        }
        let demands: Vec<u64> = self
            .shares
            .iter()
            .map(|shares| shares[meter][direction as usize].demand)
            .collect();
        let parts = divided(rate.kbit(), &demands);
        for (worker, (shares, kbit)) in self.shares.iter_mut().zip(parts).enumerate() {
            let share = &mut shares[meter][direction as usize];
            if share.kbit != Some(kbit) {
                share.kbit = Some(kbit);
                let command = Command::SharedMeter {
                    id: SharedId(meter as u16 + 1),
                    direction,
                    rate: Rate::from_kbit(kbit),
                    burst: burst(rate, self.workers),
                };
                send(worker, command);
            }
        }
    }
}

/// One worker's part of the burst that the whole rate has.
fn burst(rate: Rate, workers: usize) -> u64 {
    let whole = rate.kbit().saturating_mul(MeterSpec::BURST_MILLIS) / 8;
    match rate {
        Rate::ZERO => 0,
        _ => (whole / workers as u64).max(MeterSpec::LEAST_BURST),
    }
}

/// A rate in parts that are the whole: if it is enough, what each asks for and an even part of the rest; else in
/// proportion to what each asks for, as one meter for all would let pass.
fn divided(rate: u64, demands: &[u64]) -> Vec<u64> {
    let count = demands.len() as u64;
    let total: u64 = demands.iter().sum();
    let mut parts: Vec<u64> = match rate.checked_sub(total) {
        Some(rest) => demands.iter().map(|demand| demand + rest / count).collect(),
        None => {
            let idle = rate / count / IDLE_PART;
            let weights = demands.iter().map(|demand| demand + idle);
            let sum = total + idle * count;
            weights.map(|weight| proportion(rate, weight, sum)).collect()
        }
    };
    // What rounding left over goes to whoever asks for most.
    let left = rate - parts.iter().sum::<u64>();
    if let Some((most, _)) = demands.iter().enumerate().max_by_key(|(_, demand)| **demand) {
        parts[most] += left;
    }
    parts
}

fn proportion(rate: u64, weight: u64, sum: u64) -> u64 {
    (u128::from(rate) * u128::from(weight) / u128::from(sum.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn policers(kbit: [u64; 2]) -> Vec<Policer> {
        vec![Policer {
            name: "a".into(),
            slice: None,
            dnn: Some("a".into()),
            rates: kbit.map(Rate::from_kbit),
        }]
    }

    /// What each worker is told at `now`, uplink; and whether it is asked.
    fn told(leases: &mut Leases, now: Nanos) -> (Vec<(usize, u64)>, usize) {
        let (mut rates, mut asked) = (Vec::new(), 0);
        leases.poll(now, |worker, command| match command {
            Command::SharedMeter {
                id, direction, rate, ..
            } => {
                assert_eq!(id, SharedId(1));
                if direction == Direction::Uplink {
                    rates.push((worker, rate.kbit()));
                }
            }
            Command::SharedDemand { demand } => {
                assert_eq!(demand.len(), 2);
                asked += 1;
            }
            other => panic!("{other:?}"),
        });
        (rates, asked)
    }

    #[test]
    fn one_worker_has_the_whole_rate_and_is_never_asked() {
        let mut leases = Leases::new(&policers([1_000, u64::MAX]), 1);
        assert_eq!(told(&mut leases, Nanos(1)), (vec![(0, 1_000)], 0));
        assert_eq!(leases.poll_timeout(), None);
    }

    #[test]
    fn shares_follow_demand() {
        let mut leases = Leases::new(&policers([1_000, u64::MAX]), 2);
        let mut now = Nanos(1);
        assert_eq!(told(&mut leases, now), (vec![(0, 500), (1, 500)], 2));
        assert_eq!(told(&mut leases, now), (vec![], 0), "not yet");
        // 3 to 1, twice the rate in all; what it counts of the other direction does not matter.
        for _ in 0..200 {
            leases.note(0, &[[0, 0], [1_875, 7]]);
            leases.note(1, &[[0, 0], [625, 0]]);
            now = now + LOOK;
            told(&mut leases, now);
        }
        let shares = [0, 1].map(|worker| leases.shares[worker][0][0].kbit.unwrap());
        assert_eq!(shares.iter().sum::<u64>(), 1_000);
        assert!((745..=752).contains(&shares[0]), "{shares:?}");
        // Nobody asks for anything any more: half each.
        for _ in 0..200 {
            leases.note(0, &[[0; 2]; 2]);
            leases.note(1, &[[0; 2]; 2]);
            now = now + LOOK;
            told(&mut leases, now);
        }
        let shares = [0, 1].map(|worker| leases.shares[worker][0][0].kbit);
        assert_eq!(shares, [Some(500), Some(500)]);
    }

    #[test]
    fn nobody_is_asked_where_there_are_no_policers() {
        assert_eq!(Leases::new(&[], 4).poll_timeout(), None);
    }

    proptest! {
        #[test]
        fn parts_are_the_whole_and_waste_little(
            rate in 0..1_u64 << 40, demands in prop::collection::vec(0..1_u64 << 41, 1..17),
        ) {
            let parts = divided(rate, &demands);
            prop_assert_eq!(parts.iter().sum::<u64>(), rate);
            let total: u64 = demands.iter().sum();
            let used: u64 = parts.iter().zip(&demands).map(|(part, demand)| part.min(demand)).sum();
            // Within a hundredth of what one meter would let pass.
            prop_assert!(u128::from(used) * 100 >= u128::from(rate.min(total)) * 99, "{parts:?} of {demands:?}");
        }
    }
}
