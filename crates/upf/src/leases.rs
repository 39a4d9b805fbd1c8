//! Rates that all workers keep together, each with a share by what its sessions ask for: those of policers, and those
//! of correlated QERs whose sessions lie in several workers.
//!
//! Every hundredth of a second the workers are asked how much packets wanted to pass, and the rate is divided anew; the
//! shares of all workers are always the whole rate, to the kbit/s. What is asked for is smoothed over some such times,
//! so that shares settle in about a fifth of a second. Bursts are divided once, evenly: a worker that was idle has its
//! part for its first packets. A rate that only one worker needs is all that worker's, and no worker is asked. Of very
//! many rates that are divided, each has its turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::meter::{Demand, MeterSpec, Rate, SharedId};
use flow::{Direction, Nanos};
use rules::network::Policer;
use session::SharedRate;
use worker::Command;

/// How often rates are divided.
const LOOK: Duration = Duration::from_millis(10);
/// How many rates are divided at a time.
const RATES_PER_LOOK: usize = 256;
/// The divisor of the weight of new demand.
const SMOOTHING: u64 = 8;
/// A worker that asks for nothing has this part of what would be its even share, so that it never has to begin with
/// nothing.
const IDLE_PART: u64 = 128;

/// The rates of all policers and correlations.
#[derive(Debug)]
pub struct Leases {
    all: BTreeMap<SharedId, Lease>,
    /// Those that several workers have.
    divided: BTreeSet<SharedId>,
    /// What has not been told at all yet.
    untold: BTreeSet<SharedId>,
    /// The first whose turn has not come.
    turn: SharedId,
    next: Nanos,
}

/// One rate.
#[derive(Debug)]
struct Lease {
    rates: [Rate; 2],
    shares: Vec<Share>,
    /// When the workers were asked last, and how long after the time before, in milliseconds.
    asked: Option<Nanos>,
    since: u64,
}

/// What one worker has of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Share {
    worker: usize,
    /// By direction, smoothed, in kbit/s; `None`: what was asked for before it had a share is not known yet.
    demand: Option<[u64; 2]>,
    /// The part of the rate, and of the burst, by direction; `None`: not told yet.
    told: [Option<(Rate, u64)>; 2],
}

impl Leases {
    /// Of these policers, over this number of workers.
    #[must_use]
    pub fn new(policers: &[Policer], workers: usize) -> Self {
        let mut leases = Self {
            all: BTreeMap::new(),
            divided: BTreeSet::new(),
            untold: BTreeSet::new(),
            turn: SharedId::NONE,
            next: Nanos(0),
        };
        for (id, policer) in (1..).map(SharedId).zip(policers) {
            let share = |worker| Share {
                demand: Some([0; 2]),
                // Meters begin without limits.
                told: [Some((Rate::UNLIMITED, 0)); 2],
                ..Share::new(worker)
            };
            let lease = Lease {
                rates: policer.rates,
                shares: (0..workers).map(share).collect(),
                asked: None,
                since: 1,
            };
            leases.all.insert(id, lease);
            leases.untold.insert(id);
            if workers > 1 {
                leases.divided.insert(id);
            }
        }
        leases
    }

    /// Sessions that keep a rate together have another one, or are in other workers; what workers are to know at once
    /// is handed to `send`.
    pub fn set(&mut self, rate: &SharedRate, mut send: impl FnMut(usize, Command)) {
        let SharedRate { id, rates, workers } = rate;
        self.divided.remove(id);
        if workers.is_empty() {
            self.all.remove(id);
            return;
        }
        if workers.len() > 1 {
            self.divided.insert(*id);
        }
        let lease = self.all.entry(*id).or_insert(Lease {
            rates: *rates,
            shares: Vec::new(),
            asked: None,
            since: 1,
        });
        lease.rates = *rates;
        let before = std::mem::take(&mut lease.shares);
        let workers = workers.iter().map(|worker| usize::from(worker.0));
        let stays = |worker: usize| before.iter().find(|share| share.worker == worker);
        lease.shares = workers
            .map(|worker| stays(worker).copied().unwrap_or(Share::new(worker)))
            .collect();
        for gone in before {
            if lease.shares.iter().all(|share| share.worker != gone.worker) {
                for direction in Direction::BOTH {
                    send(gone.worker, command(*id, direction, (Rate::ZERO, 0)));
                }
            }
        }
        lease.divide(*id, &mut send);
    }

    /// When there is something to do; `None`: never again, since there is no rate, or one worker alone.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        (!self.divided.is_empty() || !self.untold.is_empty()).then_some(self.next)
    }

    /// Divides rates, if it is time, and hands each command for a worker to `send`. Whether it was time.
    pub fn poll(&mut self, now: Nanos, mut send: impl FnMut(usize, Command)) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        self.next = now + LOOK;
        let mut asked: BTreeMap<usize, Vec<Demand>> = BTreeMap::new();
        let turn = self.divided.range(self.turn..).take(RATES_PER_LOOK);
        let turn: BTreeSet<SharedId> = turn.copied().collect();
        self.turn = match turn.last() {
            Some(last) if turn.len() == RATES_PER_LOOK => SharedId(last.0.saturating_add(1)),
            _ => SharedId::NONE,
        };
        let untold = std::mem::take(&mut self.untold);
        for id in turn.union(&untold) {
            let Some(lease) = self.all.get_mut(id) else {
                continue;
            };
            lease.divide(*id, &mut send);
            if turn.contains(id) {
                lease.ask(now);
                for share in &lease.shares {
                    asked.entry(share.worker).or_default().push((*id, [0; 2]));
                }
            }
        }
        for (worker, demand) in asked {
            let demand = demand.into();
            send(worker, Command::SharedDemand { demand });
        }
        true
    }

    /// A worker's sessions wanted so many octets of each meter since it was asked for before.
    pub fn note(&mut self, worker: usize, demand: &[Demand]) {
        for (id, octets) in demand {
            if let Some(lease) = self.all.get_mut(id) {
                lease.note(worker, *octets);
            }
        }
    }
}

impl Share {
    const fn new(worker: usize) -> Self {
        Self {
            worker,
            demand: None,
            told: [None; 2],
        }
    }
}

impl Lease {
    fn ask(&mut self, now: Nanos) {
        if let Some(before) = self.asked.replace(now) {
            self.since = (now.0.saturating_sub(before.0) / 1_000_000).max(1);
        } else {
            self.since = LOOK.as_millis() as u64;
        }
    }

    fn note(&mut self, worker: usize, octets: [u64; 2]) {
        let since = self.since;
        let Some(share) = self.shares.iter_mut().find(|share| share.worker == worker) else {
            return;
        };
        let Some(demand) = &mut share.demand else {
            share.demand = Some([0; 2]);
            return;
        };
        for (demand, octets) in demand.iter_mut().zip(octets) {
            let kbit = octets.saturating_mul(8) / since;
            *demand = (*demand * (SMOOTHING - 1) + kbit) / SMOOTHING;
        }
    }

    fn divide(&mut self, id: SharedId, send: &mut impl FnMut(usize, Command)) {
        for direction in Direction::BOTH {
            let way = direction as usize;
            let rate = self.rates[way];
            let demands = self
                .shares
                .iter()
                .map(|share| share.demand.unwrap_or_default()[way]);
            let parts: Vec<(Rate, u64)> = match rate {
                Rate::UNLIMITED => demands.map(|_| (Rate::UNLIMITED, 0)).collect(),
                _ => {
                    let burst = burst(rate, self.shares.len());
                    let parts = divided(rate.kbit(), &demands.collect::<Vec<_>>());
                    parts.iter().map(|kbit| (Rate::from_kbit(*kbit), burst)).collect()
                }
            };
            for (share, part) in self.shares.iter_mut().zip(parts) {
                if share.told[way].replace(part) != Some(part) {
                    send(share.worker, command(id, direction, part));
                }
            }
        }
    }
}

fn command(id: SharedId, direction: Direction, (rate, burst): (Rate, u64)) -> Command {
    Command::SharedMeter {
        id,
        direction,
        rate,
        burst,
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
    // What rounding left over goes to the worker with the greatest demand.
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
    use flow::WorkerId;
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

    /// What each worker is told at `now`, uplink; and how many are asked.
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
                assert_eq!(demand.len(), 1);
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
            leases.note(0, &[(SharedId(1), [1_875, 7])]);
            leases.note(1, &[(SharedId(1), [625, 0]), (SharedId(9), [1; 2])]);
            now = now + LOOK;
            told(&mut leases, now);
        }
        let shares = [0, 1].map(|worker| kbit(&leases, 1, worker));
        assert_eq!(shares.iter().sum::<u64>(), 1_000);
        assert!((745..=752).contains(&shares[0]), "{shares:?}");
        // No worker has a demand any more: half each.
        for _ in 0..200 {
            leases.note(0, &[(SharedId(1), [0; 2])]);
            leases.note(1, &[(SharedId(1), [0; 2])]);
            now = now + LOOK;
            told(&mut leases, now);
        }
        assert_eq!([0, 1].map(|worker| kbit(&leases, 1, worker)), [500; 2]);
    }

    /// What a worker was told of a rate's uplink.
    fn kbit(leases: &Leases, id: u16, worker: usize) -> u64 {
        let shares = &leases.all[&SharedId(id)].shares;
        let share = shares.iter().find(|share| share.worker == worker);
        share.unwrap().told[0].unwrap().0.kbit()
    }

    fn shared(kbit: u64, workers: &[u16]) -> SharedRate {
        SharedRate {
            id: SharedId(7),
            rates: [Rate::from_kbit(kbit), Rate::UNLIMITED],
            workers: workers.iter().copied().map(WorkerId).collect(),
        }
    }

    /// What workers hear of a change: the worker, the direction, kbit/s.
    fn heard(leases: &mut Leases, rate: &SharedRate) -> Vec<(usize, Direction, Rate, u64)> {
        let mut heard = Vec::new();
        leases.set(rate, |worker, command| match command {
            Command::SharedMeter {
                id: SharedId(7),
                direction,
                rate,
                burst,
            } => heard.push((worker, direction, rate, burst)),
            other => panic!("{other:?}"),
        });
        heard
    }

    #[test]
    fn sessions_of_one_worker_have_their_whole_rate_there_and_it_follows_them() {
        let (up, down) = (Direction::Uplink, Direction::Downlink);
        let mut leases = Leases::new(&[], 4);
        let whole = Rate::from_kbit(8_000);
        let unlimited = (2, down, Rate::UNLIMITED, 0);
        assert_eq!(
            heard(&mut leases, &shared(8_000, &[2])),
            [(2, up, whole, 50_000), unlimited]
        );
        assert_eq!(heard(&mut leases, &shared(8_000, &[2])), []);
        assert_eq!(leases.poll_timeout(), None, "nobody is asked");
        let half = Rate::from_kbit(4_000);
        let both = heard(&mut leases, &shared(8_000, &[1, 2]));
        assert!(both.contains(&(1, up, half, 25_000)) && both.contains(&(2, up, half, 25_000)));
        assert!(leases.poll_timeout().is_some());
        let one = heard(&mut leases, &shared(8_000, &[1]));
        assert_eq!(
            one,
            [
                (2, up, Rate::ZERO, 0),
                (2, down, Rate::ZERO, 0),
                (1, up, whole, 50_000)
            ]
        );
        assert_eq!(heard(&mut leases, &shared(8_000, &[])), []);
        assert!(leases.all.is_empty() && leases.divided.is_empty());
    }

    #[test]
    fn what_was_asked_for_before_there_were_shares_does_not_count() {
        let mut leases = Leases::new(&[], 2);
        heard(&mut leases, &shared(1_000, &[0]));
        heard(&mut leases, &shared(1_000, &[0, 1]));
        leases.note(0, &[(SharedId(7), [u64::MAX, 0])]);
        leases.note(1, &[(SharedId(7), [0; 2])]);
        leases.poll(Nanos(1), |_, _| {});
        assert_eq!([0, 1].map(|worker| kbit(&leases, 7, worker)), [500; 2]);
        leases.note(0, &[(SharedId(7), [1_250, 0])]);
        leases.poll(Nanos(1) + LOOK, |_, _| {});
        assert!(kbit(&leases, 7, 0) > 500);
    }

    #[test]
    fn of_many_rates_each_has_its_turn() {
        let mut leases = Leases::new(&[], 2);
        for id in 1..=600 {
            let rate = SharedRate {
                id: SharedId(id),
                ..shared(1_000, &[0, 1])
            };
            leases.set(&rate, |_, _| {});
        }
        let (mut now, mut asked) = (Nanos(1), Vec::new());
        for _ in 0..3 {
            leases.poll(now, |worker, command| match command {
                Command::SharedDemand { demand } if worker == 1 => asked.push(demand.len()),
                _ => {}
            });
            now = now + LOOK;
        }
        assert_eq!(asked, [256, 256, 88]);
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
