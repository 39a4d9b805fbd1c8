//! Rates that several workers enforce together: those of policers, and those of correlated QERs whose sessions several
//! workers own. Each worker has a lease, a part of the rate by the demand of its sessions. An accelerator is one more
//! holder of leases, of all rates, for the sessions of all workers that are away. All workers give it its leases, and
//! the first one asks for its demand; while that one has no contact it has none, and the least lease.
//!
//! Control queries the demand of the holders every 10 ms and divides the rate anew; the sum of all leases is always the
//! whole rate, to the kbit/s. Demand is smoothed over several queries, so that leases settle within about 200 ms. The
//! burst is divided evenly, once: a holder that was idle has its part for its first packets. A rate with one holder is
//! leased to it as a whole, and its demand is not queried. At most [`RATES_PER_QUERY`] rates are queried at a time, in
//! turn.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow::meter::{Demand, MeterSpec, Rate, SharedId};
use flow::{Direction, Nanos};
use rules::network::Policers;
use session::SharedRate;
use worker::{Command, LeaseHolder};

use super::division;

/// Interval of the queries of demand.
const QUERY_INTERVAL: Duration = Duration::from_millis(10);
/// Number of rates that are queried and divided at a time.
const RATES_PER_QUERY: usize = 256;
/// The divisor of the weight of new demand.
const SMOOTHING: u64 = 8;

/// The rates of all policers and correlations.
#[derive(Debug)]
pub struct SharedRates {
    holders: Holders,
    all: BTreeMap<SharedId, LeasedRate>,
    /// Those that several holders have leases of.
    divided: BTreeSet<SharedId>,
    /// Those whose leases were never sent.
    unsent: BTreeSet<SharedId>,
    /// The first that the next query is for.
    next_queried: SharedId,
    /// When the next query is due.
    next: Nanos,
}

/// Who may have leases: workers, by their numbers, and behind them the accelerator, where there is one.
#[derive(Clone, Copy, Debug)]
struct Holders {
    workers: usize,
    has_accelerator: bool,
}

impl Holders {
    const fn count(self) -> usize {
        self.workers + self.has_accelerator as usize
    }

    /// The accelerator's number.
    fn accelerator(self) -> Option<usize> {
        self.has_accelerator.then_some(self.workers)
    }

    fn kind(self, holder: usize) -> LeaseHolder {
        match holder < self.workers {
            true => LeaseHolder::Worker,
            false => LeaseHolder::Accelerator,
        }
    }

    /// Sends a lease to its holder, by the workers that give it on.
    fn lease(
        self,
        holder: usize,
        (id, direction, part): (SharedId, Direction, RateAndBurst),
        send: &mut impl FnMut(usize, Command),
    ) {
        let kind = self.kind(holder);
        let givers = match kind {
            LeaseHolder::Worker => holder..holder + 1,
            LeaseHolder::Accelerator => 0..self.workers,
        };
        let RateAndBurst { rate, burst } = part;
        for worker in givers {
            let command = Command::SharedMeter {
                holder: kind,
                id,
                direction,
                rate,
                burst,
            };
            send(worker, command);
        }
    }

    /// Requests a holder's demand.
    fn query(self, holder: usize, demand: Box<[Demand]>, send: &mut impl FnMut(usize, Command)) {
        let kind = self.kind(holder);
        let worker = match kind {
            LeaseHolder::Worker => holder,
            LeaseHolder::Accelerator => 0,
        };
        send(worker, Command::SharedDemand { holder: kind, demand });
    }
}

/// One rate and its leases.
#[derive(Debug)]
struct LeasedRate {
    /// By direction.
    rates: [Rate; 2],
    leases: Vec<Lease>,
    /// When the demand was queried last.
    queried_at: Option<Nanos>,
    /// The time that the demand of the last query is of, in milliseconds.
    query_interval_ms: u64,
}

/// The part of a rate that one holder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lease {
    holder: usize,
    /// By direction, smoothed, in kbit/s; `None` until the first demand of this lease, which includes the time before
    /// it.
    demand: Option<[u64; 2]>,
    /// By direction, what the holder was sent last.
    sent: [Option<RateAndBurst>; 2],
}

/// What a holder's meter enforces of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RateAndBurst {
    rate: Rate,
    /// Octets.
    burst: u64,
}

impl RateAndBurst {
    const ZERO: Self = Self {
        rate: Rate::ZERO,
        burst: 0,
    };
    const UNLIMITED: Self = Self {
        rate: Rate::UNLIMITED,
        burst: 0,
    };
}

impl SharedRates {
    /// Of these policers, over this number of workers and an accelerator, if there is one.
    #[must_use]
    pub fn new(policers: &Policers, workers: usize, has_accelerator: bool) -> Self {
        let holders = Holders {
            workers,
            has_accelerator,
        };
        let mut rates = Self {
            holders,
            all: BTreeMap::new(),
            divided: BTreeSet::new(),
            unsent: BTreeSet::new(),
            next_queried: SharedId::NONE,
            next: Nanos(0),
        };
        for (id, policer) in policers.metered() {
            // Meters of workers begin without limits.
            let of_worker = [Some(RateAndBurst::UNLIMITED); 2];
            let lease = |holder| Lease {
                demand: Some([0; 2]),
                sent: if holder < workers { of_worker } else { [None; 2] },
                ..Lease::new(holder)
            };
            let mut leased = LeasedRate::new(policer.rates);
            leased.leases = (0..holders.count()).map(lease).collect();
            rates.all.insert(id, leased);
            rates.unsent.insert(id);
            if holders.count() > 1 {
                rates.divided.insert(id);
            }
        }
        rates
    }

    /// The policers are `newer` from now on, which succeed `older`. Those that stay keep their leases, and holders
    /// their tokens; what is removed limits nothing. `send` takes the commands for workers.
    pub fn change_policers(
        &mut self,
        (older, newer): (&Policers, &Policers),
        mut send: impl FnMut(usize, Command),
    ) {
        let holders = self.holders;
        let workers = holders.workers;
        for (id, _) in older.metered().filter(|(id, _)| !has_policer(newer, *id)) {
            self.all.remove(&id);
            self.divided.remove(&id);
            self.unsent.remove(&id);
            for holder in 0..holders.count() {
                for direction in Direction::BOTH {
                    holders.lease(holder, (id, direction, RateAndBurst::UNLIMITED), &mut send);
                }
            }
        }
        for (id, policer) in newer.metered() {
            if !has_policer(older, id) {
                let alone = [id, SharedId::NONE, SharedId::NONE, SharedId::NONE];
                (0..workers).for_each(|worker| send(worker, Command::SharedChain { id, chain: alone }));
            }
            let leased = self.all.entry(id).or_insert_with(|| {
                let mut leased = LeasedRate::new(policer.rates);
                leased.leases = (0..holders.count()).map(Lease::new).collect();
                leased
            });
            leased.rates = policer.rates;
            leased.divide(id, holders, &mut send);
            if holders.count() > 1 {
                self.divided.insert(id);
            }
        }
        for (id, chain) in newer.chains().filter(|new| older.chains().all(|old| old != *new)) {
            (0..workers).for_each(|worker| send(worker, Command::SharedChain { id, chain }));
        }
    }

    /// The rate of a correlation, or the workers that own its sessions, have changed; `send` takes the commands for
    /// workers.
    pub fn set(&mut self, rate: &SharedRate, mut send: impl FnMut(usize, Command)) {
        let SharedRate { id, rates, workers } = rate;
        self.divided.remove(id);
        if workers.is_empty() {
            self.all.remove(id);
            return;
        }
        let of_workers = workers.iter().map(|worker| usize::from(worker.0));
        let now: Vec<usize> = of_workers.chain(self.holders.accelerator()).collect();
        if now.len() > 1 {
            self.divided.insert(*id);
        }
        let leased = self.all.entry(*id).or_insert(LeasedRate::new(*rates));
        leased.rates = *rates;
        let before = std::mem::take(&mut leased.leases);
        let known = |holder: usize| before.iter().find(|lease| lease.holder == holder);
        leased.leases = now
            .into_iter()
            .map(|holder| known(holder).copied().unwrap_or(Lease::new(holder)))
            .collect();
        for ended in before {
            if leased.leases.iter().all(|lease| lease.holder != ended.holder) {
                for direction in Direction::BOTH {
                    let none = (*id, direction, RateAndBurst::ZERO);
                    self.holders.lease(ended.holder, none, &mut send);
                }
            }
        }
        leased.divide(*id, self.holders, &mut send);
    }

    /// When [`poll`](Self::poll) has something to do; `None`: never, as long as no rate has leases of several holders.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Nanos> {
        (!self.divided.is_empty() || !self.unsent.is_empty()).then_some(self.next)
    }

    /// Divides rates if the next query is due; `send` takes the commands for workers. Whether it was due.
    pub fn poll(&mut self, now: Nanos, mut send: impl FnMut(usize, Command)) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        self.next = now + QUERY_INTERVAL;
        let mut queries: BTreeMap<usize, Vec<Demand>> = BTreeMap::new();
        let queried = self.divided.range(self.next_queried..).take(RATES_PER_QUERY);
        let queried: BTreeSet<SharedId> = queried.copied().collect();
        self.next_queried = match queried.last() {
            Some(last) if queried.len() == RATES_PER_QUERY => SharedId(last.0.saturating_add(1)),
            _ => SharedId::NONE,
        };
        let unsent = std::mem::take(&mut self.unsent);
        for id in queried.union(&unsent) {
            let Some(leased) = self.all.get_mut(id) else {
                continue;
            };
            leased.divide(*id, self.holders, &mut send);
            if queried.contains(id) {
                leased.query_sent(now);
                for lease in &leased.leases {
                    queries.entry(lease.holder).or_default().push((*id, [0; 2]));
                }
            }
        }
        for (holder, demand) in queries {
            self.holders.query(holder, demand.into(), &mut send);
        }
        true
    }

    /// The response of a worker: the octets that sessions sent through each of this holder's meters since the query
    /// before.
    pub fn handle_demand(&mut self, (worker, holder): (usize, LeaseHolder), demand: &[Demand]) {
        let holder = match holder {
            LeaseHolder::Worker => worker,
            LeaseHolder::Accelerator => self.holders.workers,
        };
        for (id, octets) in demand {
            if let Some(leased) = self.all.get_mut(id) {
                leased.handle_demand(holder, *octets);
            }
        }
    }
}

fn has_policer(policers: &Policers, id: SharedId) -> bool {
    policers.metered().any(|(known, _)| known == id)
}

impl Lease {
    const fn new(holder: usize) -> Self {
        Self {
            holder,
            demand: None,
            sent: [None; 2],
        }
    }
}

impl LeasedRate {
    const fn new(rates: [Rate; 2]) -> Self {
        Self {
            rates,
            leases: Vec::new(),
            queried_at: None,
            query_interval_ms: 1,
        }
    }

    fn query_sent(&mut self, now: Nanos) {
        self.query_interval_ms = match self.queried_at.replace(now) {
            Some(before) => (now.0.saturating_sub(before.0) / 1_000_000).max(1),
            None => QUERY_INTERVAL.as_millis() as u64,
        };
    }

    fn handle_demand(&mut self, holder: usize, octets: [u64; 2]) {
        let interval_ms = self.query_interval_ms;
        let Some(lease) = self.leases.iter_mut().find(|lease| lease.holder == holder) else {
            return;
        };
        let Some(demand) = &mut lease.demand else {
            lease.demand = Some([0; 2]);
            return;
        };
        for (demand, octets) in demand.iter_mut().zip(octets) {
            let kbit = octets.saturating_mul(8) / interval_ms;
            *demand = (*demand * (SMOOTHING - 1) + kbit) / SMOOTHING;
        }
    }

    fn divide(&mut self, id: SharedId, holders: Holders, send: &mut impl FnMut(usize, Command)) {
        for direction in Direction::BOTH {
            let index = direction as usize;
            let rate = self.rates[index];
            let demands = self
                .leases
                .iter()
                .map(|lease| lease.demand.unwrap_or_default()[index]);
            let parts: Vec<RateAndBurst> = match rate {
                Rate::UNLIMITED => demands.map(|_| RateAndBurst::UNLIMITED).collect(),
                _ => {
                    let burst = burst(rate, self.leases.len());
                    let parts = division::by_demand(rate.kbit(), &demands.collect::<Vec<_>>());
                    let rates = parts.into_iter().map(Rate::from_kbit);
                    rates.map(|rate| RateAndBurst { rate, burst }).collect()
                }
            };
            for (lease, part) in self.leases.iter_mut().zip(parts) {
                if lease.sent[index].replace(part) != Some(part) {
                    holders.lease(lease.holder, (id, direction, part), send);
                }
            }
        }
    }
}

/// The burst of one lease: an even part of that of the whole rate.
fn burst(rate: Rate, holders: usize) -> u64 {
    let whole = rate.kbit().saturating_mul(MeterSpec::BURST_MILLIS) / 8;
    match rate {
        Rate::ZERO => 0,
        _ => (whole / holders as u64).max(MeterSpec::LEAST_BURST),
    }
}

#[cfg(test)]
mod tests {
    use flow::WorkerId;
    use rules::network::{Policer, SessionScope};

    use super::*;

    fn policers(kbit: [u64; 2]) -> Policers {
        let one = Policer {
            name: "a".into(),
            scope: SessionScope {
                slice: None,
                dnn: Some("a".into()),
            },
            rates: kbit.map(Rate::from_kbit),
            shapes: false,
            weight: 1,
        };
        Policers::new(vec![one]).expect("one")
    }

    /// The uplink rate that each worker is sent at `now`; and how many workers are queried.
    fn sent(rates: &mut SharedRates, now: Nanos) -> (Vec<(usize, u64)>, usize) {
        let (mut sent, mut queried) = (Vec::new(), 0);
        rates.poll(now, |worker, command| match command {
            Command::SharedMeter {
                id, direction, rate, ..
            } => {
                assert_eq!(id, SharedId(1));
                if direction == Direction::Uplink {
                    sent.push((worker, rate.kbit()));
                }
            }
            Command::SharedDemand { demand, .. } => {
                assert_eq!(demand.len(), 1);
                queried += 1;
            }
            other => panic!("{other:?}"),
        });
        (sent, queried)
    }

    #[test]
    fn one_worker_has_the_whole_rate_and_is_never_queried() {
        let mut rates = SharedRates::new(&policers([1_000, u64::MAX]), 1, false);
        assert_eq!(sent(&mut rates, Nanos(1)), (vec![(0, 1_000)], 0));
        assert_eq!(rates.poll_timeout(), None);
    }

    #[test]
    fn shares_follow_demand() {
        let mut rates = SharedRates::new(&policers([1_000, u64::MAX]), 2, false);
        let mut now = Nanos(1);
        assert_eq!(sent(&mut rates, now), (vec![(0, 500), (1, 500)], 2));
        assert_eq!(sent(&mut rates, now), (vec![], 0), "not yet");
        // 3 to 1, twice the rate in all; what it counts of the other direction does not matter.
        for _ in 0..200 {
            rates.handle_demand((0, LeaseHolder::Worker), &[(SharedId(1), [1_875, 7])]);
            rates.handle_demand(
                (1, LeaseHolder::Worker),
                &[(SharedId(1), [625, 0]), (SharedId(9), [1; 2])],
            );
            now = now + QUERY_INTERVAL;
            sent(&mut rates, now);
        }
        let parts = [0, 1].map(|worker| kbit(&rates, 1, worker));
        assert_eq!(parts.iter().sum::<u64>(), 1_000);
        assert!((745..=752).contains(&parts[0]), "{parts:?}");
        // No worker has a demand any more: half each.
        for _ in 0..200 {
            rates.handle_demand((0, LeaseHolder::Worker), &[(SharedId(1), [0; 2])]);
            rates.handle_demand((1, LeaseHolder::Worker), &[(SharedId(1), [0; 2])]);
            now = now + QUERY_INTERVAL;
            sent(&mut rates, now);
        }
        assert_eq!([0, 1].map(|worker| kbit(&rates, 1, worker)), [500; 2]);
    }

    /// The uplink rate of a worker's lease.
    fn kbit(rates: &SharedRates, id: u16, worker: usize) -> u64 {
        let leases = &rates.all[&SharedId(id)].leases;
        let lease = leases.iter().find(|lease| lease.holder == worker);
        lease.unwrap().sent[0].unwrap().rate.kbit()
    }

    fn shared(kbit: u64, workers: &[u16]) -> SharedRate {
        SharedRate {
            id: SharedId(7),
            rates: [Rate::from_kbit(kbit), Rate::UNLIMITED],
            workers: workers.iter().copied().map(WorkerId).collect(),
        }
    }

    /// The leases that are sent after a change.
    fn changed(rates: &mut SharedRates, rate: &SharedRate) -> Vec<(usize, Direction, Rate, u64)> {
        let mut changed = Vec::new();
        rates.set(rate, |worker, command| match command {
            Command::SharedMeter {
                id: SharedId(7),
                direction,
                rate,
                burst,
                ..
            } => changed.push((worker, direction, rate, burst)),
            other => panic!("{other:?}"),
        });
        changed
    }

    #[test]
    fn sessions_of_one_worker_have_their_whole_rate_there_and_it_follows_them() {
        let (up, down) = (Direction::Uplink, Direction::Downlink);
        let mut rates = SharedRates::new(&Policers::default(), 4, false);
        let whole = Rate::from_kbit(8_000);
        let unlimited = (2, down, Rate::UNLIMITED, 0);
        assert_eq!(
            changed(&mut rates, &shared(8_000, &[2])),
            [(2, up, whole, 50_000), unlimited]
        );
        assert_eq!(changed(&mut rates, &shared(8_000, &[2])), []);
        assert_eq!(rates.poll_timeout(), None, "no worker is queried");
        let half = Rate::from_kbit(4_000);
        let both = changed(&mut rates, &shared(8_000, &[1, 2]));
        assert!(both.contains(&(1, up, half, 25_000)) && both.contains(&(2, up, half, 25_000)));
        assert!(rates.poll_timeout().is_some());
        let one = changed(&mut rates, &shared(8_000, &[1]));
        assert_eq!(
            one,
            [
                (2, up, Rate::ZERO, 0),
                (2, down, Rate::ZERO, 0),
                (1, up, whole, 50_000)
            ]
        );
        assert_eq!(changed(&mut rates, &shared(8_000, &[])), []);
        assert!(rates.all.is_empty() && rates.divided.is_empty());
    }

    #[test]
    fn what_was_asked_for_before_there_were_shares_does_not_count() {
        let mut rates = SharedRates::new(&Policers::default(), 2, false);
        changed(&mut rates, &shared(1_000, &[0]));
        changed(&mut rates, &shared(1_000, &[0, 1]));
        rates.handle_demand((0, LeaseHolder::Worker), &[(SharedId(7), [u64::MAX, 0])]);
        rates.handle_demand((1, LeaseHolder::Worker), &[(SharedId(7), [0; 2])]);
        rates.poll(Nanos(1), |_, _| {});
        assert_eq!([0, 1].map(|worker| kbit(&rates, 7, worker)), [500; 2]);
        rates.handle_demand((0, LeaseHolder::Worker), &[(SharedId(7), [1_250, 0])]);
        rates.poll(Nanos(1) + QUERY_INTERVAL, |_, _| {});
        assert!(kbit(&rates, 7, 0) > 500);
    }

    #[test]
    fn of_many_rates_each_has_its_turn() {
        let mut rates = SharedRates::new(&Policers::default(), 2, false);
        for id in 1..=600 {
            let rate = SharedRate {
                id: SharedId(id),
                ..shared(1_000, &[0, 1])
            };
            rates.set(&rate, |_, _| {});
        }
        let (mut now, mut asked) = (Nanos(1), Vec::new());
        for _ in 0..3 {
            rates.poll(now, |worker, command| match command {
                Command::SharedDemand { demand, .. } if worker == 1 => asked.push(demand.len()),
                _ => {}
            });
            now = now + QUERY_INTERVAL;
        }
        assert_eq!(asked, [256, 256, 88]);
    }

    /// The leases of each worker and, as it was given them, of the accelerator; and who was asked.
    #[derive(Default)]
    struct Received {
        leases: [[u64; 2]; 2],
        bursts: [[u64; 2]; 2],
        queried: Vec<(usize, LeaseHolder)>,
    }

    impl Received {
        fn take(&mut self, worker: usize, command: Command) {
            match command {
                Command::SharedMeter {
                    holder,
                    direction: Direction::Uplink,
                    rate,
                    burst,
                    ..
                } => {
                    self.leases[worker][holder as usize] = rate.kbit();
                    self.bursts[worker][holder as usize] = burst;
                }
                Command::SharedDemand { holder, .. } => self.queried.push((worker, holder)),
                _ => {}
            }
        }
    }

    #[test]
    fn an_accelerator_has_a_lease_that_all_workers_give_and_the_first_asks_about() {
        let mut rates = SharedRates::new(&policers([9_000, u64::MAX]), 2, true);
        let (mut received, mut now) = (Received::default(), Nanos(1));
        rates.poll(now, |worker, command| received.take(worker, command));
        assert_eq!(received.leases, [[3_000; 2]; 2]);
        assert_eq!(received.bursts, [[18_750; 2]; 2]);
        let (of_worker, of_accelerator) = (LeaseHolder::Worker, LeaseHolder::Accelerator);
        assert_eq!(
            received.queried,
            [(0, of_worker), (1, of_worker), (0, of_accelerator)]
        );
        // The accelerator has twice the demand of the first worker, together more than there is.
        for octets in [[10_000, 0, 20_000], [6_000, 6_000, 0]] {
            for _ in 0..200 {
                rates.handle_demand((0, of_worker), &[(SharedId(1), [octets[0], 0])]);
                rates.handle_demand((1, of_worker), &[(SharedId(1), [octets[1], 0])]);
                rates.handle_demand((0, of_accelerator), &[(SharedId(1), [octets[2], 0])]);
                now = now + QUERY_INTERVAL;
                rates.poll(now, |worker, command| received.take(worker, command));
                let [[first, there], [second, said]] = received.leases;
                assert_eq!((first + second + there, said), (9_000, there));
            }
            let [[first, there], [second, _]] = received.leases;
            match octets[2] {
                0 => assert!(first.abs_diff(second) < 50 && there < 150 && there > 0, "{there}"),
                _ => assert!(there.abs_diff(2 * first) < 50 && second < 50, "{there} {first}"),
            }
        }
    }

    #[test]
    fn an_accelerator_has_a_lease_of_every_rate_of_correlated_qers_while_there_is_one() {
        let mut rates = SharedRates::new(&Policers::default(), 2, true);
        let mut received = Received::default();
        let mut set = |rates: &mut SharedRates, workers: &[u16]| {
            rates.set(&shared(900, workers), |worker, command| {
                received.take(worker, command)
            });
            received.leases
        };
        assert_eq!(set(&mut rates, &[1]), [[0, 450], [450, 450]]);
        assert!(rates.poll_timeout().is_some(), "it is divided");
        assert_eq!(set(&mut rates, &[0, 1]), [[300; 2]; 2]);
        assert_eq!(set(&mut rates, &[0]), [[450, 450], [0, 450]]);
        set(&mut rates, &[]);
        assert!(rates.all.is_empty() && rates.divided.is_empty());
    }

    #[test]
    fn a_policer_that_is_removed_limits_nothing_at_an_accelerator() {
        let older = policers([1_000; 2]);
        let mut rates = SharedRates::new(&older, 1, true);
        rates.poll(Nanos(1), |_, _| {});
        let mut limits = Vec::new();
        rates.change_policers((&older, &Policers::default()), |worker, command| {
            if let Command::SharedMeter { holder, rate, .. } = command {
                limits.push((worker, holder, rate));
            }
        });
        let none =
            [LeaseHolder::Worker, LeaseHolder::Accelerator].map(|holder| [(0, holder, Rate::UNLIMITED); 2]);
        assert_eq!(limits, none.concat());
        assert_eq!(rates.poll_timeout(), None);
    }

    #[test]
    fn no_worker_is_queried_where_there_are_no_policers() {
        assert_eq!(
            SharedRates::new(&Policers::default(), 4, false).poll_timeout(),
            None
        );
    }
}
