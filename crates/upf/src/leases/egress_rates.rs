//! Rates of queues before ports: of ports, instances, and policers that shape. Each has a node in every worker, a
//! policer one for each instance that its sessions leave by; each node keeps a part of the rate.
//!
//! Control asks the workers every 10 ms what their nodes have sent and who waits, and divides each rate anew
//! ([`division::by_who_waits`]); the sum of all parts is the whole rate, to the kbit/s. Parts follow in steps of a
//! quarter, so that they settle within about 200 ms. Where one worker has all, and no policer shapes, it is asked ten
//! times a second, for those who want to see.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use flow::meter::Rate;
use flow::{Direction, Nanos, PortId};
use rules::network::Network;
use worker::{Command, EgressDemand, EgressLease, EgressRate};

use super::division::{self, Claim};

/// Interval of the questions.
const QUERY_INTERVAL: Duration = Duration::from_millis(10);
/// The same where nothing is divided.
const LONG_QUERY_INTERVAL: Duration = Duration::from_millis(100);
/// The divisor of the weight of what was sent last.
const SMOOTHING: u64 = 8;
/// The divisor of a step from a part to the one that was found.
const STEP: u64 = 4;

/// A rate of queues before ports, and how it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EgressShaper {
    /// What it is the rate of.
    pub of: EgressRate,
    /// The rate as it is configured.
    pub rate: Rate,
    /// Octets that it has let pass since it was configured, as the rate counts them.
    pub octets: u64,
    /// By worker.
    pub parts: Vec<EgressPart>,
}

/// What a worker has of a rate, by the nodes that keep it there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EgressPart {
    /// Its part, kbit/s; 0 without sessions there.
    pub kbit: u64,
    /// What it has sent lately, kbit/s as the rate counts.
    pub sends: u64,
    /// Sessions that wait because the part is not enough, whatever classes they wait with.
    pub waiting: u64,
}

/// All rates of queues before ports, and the nodes that have parts of them.
#[derive(Debug)]
pub struct EgressRates {
    network: Arc<Network>,
    workers: usize,
    nodes: BTreeMap<EgressRate, Vec<Node>>,
    /// What each that is configured has sent since then, in octets.
    octets: BTreeMap<EgressRate, u64>,
    /// When each worker was asked last, and the time that its next answer is of, in milliseconds.
    asked: Vec<Asked>,
    /// When they are asked again.
    next: Nanos,
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    at: Option<Nanos>,
    interval_ms: u64,
}

/// A node, and its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Node {
    worker: usize,
    number: u16,
    claim: Claim,
    /// In kbit/s, as it was sent to the worker; `None` before.
    part: Option<u64>,
    /// Whether the worker's last answer had it.
    is_there: bool,
}

impl EgressRates {
    /// Of this network, over this number of workers.
    pub fn new(network: &Arc<Network>, workers: usize) -> Self {
        let mut rates = Self {
            network: Arc::clone(network),
            workers,
            nodes: BTreeMap::new(),
            octets: BTreeMap::new(),
            asked: vec![Asked::default(); workers],
            next: Nanos(0),
        };
        rates.change_network(network);
        rates
    }

    /// The network is another one from now on.
    pub fn change_network(&mut self, network: &Arc<Network>) {
        self.network = Arc::clone(network);
        // A number that is given up may be another policer's later.
        let before = std::mem::take(&mut self.octets);
        let octets = |of| (of, before.get(&of).copied().unwrap_or_default());
        self.octets = self.configured().map(octets).collect();
    }

    /// When [`poll`](Self::poll) has something to do; `None`: never, as long as nothing waits before ports.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let has_queues = self.network.egress().is_some();
        (has_queues || !self.nodes.is_empty()).then_some(self.next)
    }

    fn interval(&self) -> Duration {
        let shapes = || self.network.policers().shaped().next().is_some();
        match self.workers > 1 || shapes() {
            true => QUERY_INTERVAL,
            false => LONG_QUERY_INTERVAL,
        }
    }

    /// All rates that are configured: of ports, instances, and policers that shape.
    pub fn shapers(&self) -> Vec<EgressShaper> {
        self.configured().map(|of| self.shaper(of)).collect()
    }

    fn configured(&self) -> impl Iterator<Item = EgressRate> + '_ {
        let instances = move || self.network.instances().iter().filter(|one| one.egress.is_some());
        let has_queues = move |port: &PortId| instances().any(|one| one.port == *port);
        let ports = self.network.egress().map_or(0, |egress| egress.ports.len());
        let ports = (0..ports).map(|port| PortId(port as u16));
        let ports = ports.filter(has_queues).map(EgressRate::Port);
        let policers = self.network.policers().shaped().flat_map(|(id, policer)| {
            let limited = Direction::BOTH.into_iter();
            let limited = limited.filter(|direction| policer.rate(*direction) != Rate::UNLIMITED);
            limited.map(move |direction| EgressRate::Policer(id, direction))
        });
        let all = ports.chain(instances().map(|one| EgressRate::Instance(one.id)));
        let all = all.chain(policers);
        all.filter(|_| self.network.egress().is_some())
    }

    fn shaper(&self, of: EgressRate) -> EgressShaper {
        let mut parts = vec![EgressPart::default(); self.workers];
        for node in self.nodes.get(&of).into_iter().flatten() {
            if let Some(part) = parts.get_mut(node.worker) {
                part.kbit = part.kbit.saturating_add(node.part.unwrap_or_default());
                part.sends += node.claim.sends;
                part.waiting += node.claim.waiting;
            }
        }
        EgressShaper {
            of,
            rate: rate(&self.network, of),
            octets: self.octets.get(&of).copied().unwrap_or_default(),
            parts,
        }
    }

    /// Divides rates, and asks the workers, if that is due; `send` takes the commands. Whether it was due.
    pub fn poll(&mut self, now: Nanos, mut send: impl FnMut(usize, Command)) -> bool {
        if self.poll_timeout().is_none_or(|at| at > now) {
            return false;
        }
        self.next = now + self.interval();
        let mut leases: Vec<Vec<EgressLease>> = vec![Vec::new(); self.workers];
        for (of, nodes) in &mut self.nodes {
            divide(*of, rate(&self.network, *of), nodes, &mut leases);
        }
        for (worker, (leases, asked)) in leases.into_iter().zip(&mut self.asked).enumerate() {
            if !leases.is_empty() {
                let leases = leases.into();
                send(worker, Command::EgressLeases { leases });
            }
            let since = asked
                .at
                .replace(now)
                .map_or(0, |before| now.0.saturating_sub(before.0));
            asked.interval_ms = (since / 1_000_000).max(1);
            send(worker, Command::EgressDemands);
        }
        true
    }

    /// The response of a worker.
    pub fn handle_demands(&mut self, worker: usize, demands: &[EgressDemand]) {
        let Some(interval_ms) = self.asked.get(worker).map(|asked| asked.interval_ms) else {
            return;
        };
        for demand in demands {
            // What a worker has said of a rate that is given up came too late.
            if let Some(octets) = self.octets.get_mut(&demand.rate) {
                *octets += demand.octets;
            }
            let nodes = self.nodes.entry(demand.rate).or_default();
            let is_it = |node: &&mut Node| (node.worker, node.number) == (worker, demand.node);
            match nodes.iter_mut().find(is_it) {
                Some(node) => node.note(demand, interval_ms),
                None => nodes.push(Node::new(worker, demand)),
            }
        }
        self.nodes.retain(|_, nodes| {
            nodes.retain_mut(|node| node.worker != worker || std::mem::take(&mut node.is_there));
            !nodes.is_empty()
        });
    }
}

impl Node {
    fn new(worker: usize, demand: &EgressDemand) -> Self {
        Self {
            worker,
            number: demand.node,
            claim: Claim {
                sends: 0,
                waiting: demand.waiting.unwrap_or_default().into(),
            },
            part: None,
            is_there: true,
        }
    }

    fn note(&mut self, demand: &EgressDemand, interval_ms: u64) {
        let kbit = demand.octets.saturating_mul(8) / interval_ms;
        self.claim = Claim {
            sends: (self.claim.sends * (SMOOTHING - 1) + kbit) / SMOOTHING,
            // A shaper that has refused a packet and keeps none waiting was enough.
            waiting: demand.waiting.unwrap_or_default().into(),
        };
        self.is_there = true;
    }
}

/// A rate as it is configured; of a policer that is there no more, none.
fn rate(network: &Network, of: EgressRate) -> Rate {
    let rate = match of {
        EgressRate::Port(port) => network
            .egress()
            .and_then(|egress| egress.ports.get(port.index()).copied()),
        EgressRate::Instance(instance) => network
            .instance(instance)
            .and_then(|instance| instance.egress)
            .map(|egress| egress.rate),
        EgressRate::Policer(id, direction) => {
            let mut shaped = network.policers().shaped();
            shaped
                .find(|(known, _)| *known == id)
                .map(|(_, policer)| policer.rate(direction))
        }
    };
    rate.unwrap_or(Rate::UNLIMITED)
}

/// Divides a rate among its nodes, and has those told whose part changes.
fn divide(of: EgressRate, rate: Rate, nodes: &mut [Node], leases: &mut [Vec<EgressLease>]) {
    let parts: Vec<u64> = match rate {
        Rate::UNLIMITED => vec![rate.kbit(); nodes.len()],
        rate => {
            let claims: Vec<Claim> = nodes.iter().map(|node| node.claim).collect();
            in_steps(rate.kbit(), nodes, division::by_who_waits(rate.kbit(), &claims))
        }
    };
    for (node, part) in nodes.iter_mut().zip(parts) {
        if node.part.replace(part) != Some(part)
            && let Some(leases) = leases.get_mut(node.worker)
        {
            leases.push(EgressLease {
                rate: of,
                node: node.number,
                part: Rate::from_kbit(part),
            });
        }
    }
}

/// Parts on the way to those that were found. Where they were of another rate, or of other nodes, there is no way.
fn in_steps(rate: u64, nodes: &[Node], found: Vec<u64>) -> Vec<u64> {
    let before: Option<Vec<u64>> = nodes.iter().map(|node| node.part).collect();
    let sum = |parts: &[u64]| parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let Some(before) = before.filter(|before| sum(before) == rate) else {
        return found;
    };
    let step = |(before, found): (&u64, &u64)| match found.checked_sub(*before) {
        Some(more) => before + more / STEP,
        None => before - (before - found).div_ceil(STEP),
    };
    let mut parts: Vec<u64> = before.iter().zip(&found).map(step).collect();
    // What rounding has left goes where most is to come.
    let left = rate - sum(&parts);
    let most = (0..parts.len()).max_by_key(|place| found[*place].saturating_sub(before[*place]));
    if let Some(part) = most.and_then(|place| parts.get_mut(place)) {
        *part += left;
    }
    parts
}

#[cfg(test)]
mod tests {
    use flow::InstanceId;
    use flow::meter::SharedId;
    use rules::network::{Egress, EgressClass, EgressClasses, Policer, QueueManagement, SessionScope};

    use super::*;

    const OF: EgressRate = EgressRate::Policer(SharedId(1), Direction::Downlink);
    const PORT: EgressRate = EgressRate::Port(PortId(0));

    fn network(kbit: u64) -> Arc<Network> {
        let class = EgressClass {
            name: "all".into(),
            qfis: Vec::new(),
            priority: 0,
            weight: 1,
            octets: 100_000,
            management: QueueManagement::TailDrop,
        };
        let policer = Policer {
            name: "a".into(),
            scope: SessionScope {
                slice: None,
                dnn: Some("a".into()),
            },
            rates: [Rate::UNLIMITED, Rate::from_kbit(kbit)],
            shapes: true,
            weight: 1,
        };
        let egress = Egress {
            classes: EgressClasses::new(vec![class]).expect("one class"),
            ports: Vec::new(),
        };
        let network = Network::default().with_egress(Some(egress));
        Arc::new(network.with_policers(vec![policer]).expect("one"))
    }

    fn demand(node: u16, octets: u64, waiting: Option<u32>) -> EgressDemand {
        EgressDemand {
            rate: OF,
            node,
            octets,
            waiting,
        }
    }

    /// What each node is sent in one round, as (worker, node, kbit/s); how many workers are asked.
    fn round(rates: &mut EgressRates, now: &mut Nanos) -> (Vec<(usize, u16, u64)>, usize) {
        let (mut told, mut asked) = (Vec::new(), 0);
        *now = *now + QUERY_INTERVAL;
        rates.poll(*now, |worker, command| match command {
            Command::EgressLeases { leases } => {
                told.extend(leases.iter().map(|lease| (worker, lease.node, lease.part.kbit())));
            }
            Command::EgressDemands => asked += 1,
            other => panic!("{other:?}"),
        });
        (told, asked)
    }

    #[test]
    fn parts_follow_who_waits_and_what_is_sent() {
        let mut rates = EgressRates::new(&network(8_000), 2);
        let mut now = Nanos(0);
        assert_eq!(round(&mut rates, &mut now), (vec![], 2));
        let mut parts = BTreeMap::new();
        let mut answer = |rates: &mut EgressRates, first: &[EgressDemand], second: &[EgressDemand]| {
            for _ in 0..100 {
                rates.handle_demands(0, first);
                rates.handle_demands(1, second);
                let (told, _) = round(rates, &mut now);
                parts.extend(
                    told.into_iter()
                        .map(|(worker, node, kbit)| ((worker, node), kbit)),
                );
                parts.retain(|(worker, node), _| {
                    let all = [first, second][*worker];
                    all.iter().any(|demand| demand.node == *node)
                });
                assert_eq!(parts.values().sum::<u64>(), 8_000, "the whole rate at any time");
            }
            parts.values().copied().collect::<Vec<_>>()
        };
        let first = [demand(3, 0, Some(3)), demand(4, 0, Some(3))];
        let told = answer(&mut rates, &first, &[demand(3, 0, Some(2))]);
        assert_eq!(told, [3_000, 3_000, 2_000], "by who waits");
        // 800 kbit/s, an eighth and a hundredth of an even part more.
        let told = answer(&mut rates, &first, &[demand(3, 1_000, None)]);
        let wanted = 800 + 100 + 8_000 / 3 / division::IDLE_PART;
        assert!((wanted - 10..=wanted).contains(&told[2]), "{told:?}");
        assert!(told[0].abs_diff(told[1]) <= 2, "{told:?}");
        let told = answer(&mut rates, &[demand(4, 0, Some(1))], &[]);
        assert_eq!(told, [8_000], "one that is left has all");
    }

    #[test]
    fn each_rate_says_what_its_workers_have_of_it() {
        let mut rates = EgressRates::new(&network(8_000), 2);
        let mut now = Nanos(0);
        round(&mut rates, &mut now);
        assert_eq!(rates.shapers()[0].parts, [EgressPart::default(); 2]);
        // In 10 ms: 800 kbit/s, of which an eighth counts at first.
        rates.handle_demands(0, &[demand(3, 0, Some(1)), demand(4, 0, Some(2))]);
        rates.handle_demands(1, &[demand(3, 1_000, Some(1))]);
        round(&mut rates, &mut now);
        rates.handle_demands(1, &[demand(3, 1_000, Some(1))]);
        let [shaper] = &rates.shapers()[..] else {
            panic!("{:?}", rates.shapers())
        };
        assert_eq!((shaper.of, shaper.rate), (OF, Rate::from_kbit(8_000)));
        assert_eq!(shaper.octets, 2_000);
        let part = |kbit, sends, waiting| EgressPart { kbit, sends, waiting };
        assert_eq!(shaper.parts, [part(6_000, 0, 3), part(2_000, 100, 1)]);
        assert!(
            EgressRates::new(&Arc::new(Network::default()), 1)
                .shapers()
                .is_empty()
        );
    }

    #[test]
    fn another_rate_is_divided_at_once_and_none_is_no_limit() {
        let mut rates = EgressRates::new(&network(8_000), 2);
        let mut now = Nanos(0);
        round(&mut rates, &mut now);
        for worker in 0..2 {
            rates.handle_demands(worker, &[demand(3, 0, Some(1))]);
        }
        assert_eq!(round(&mut rates, &mut now).0, [(0, 3, 4_000), (1, 3, 4_000)]);
        rates.handle_demands(0, &[demand(3, 700, Some(1))]);
        let octets = |rates: &EgressRates| rates.shapers().iter().map(|one| one.octets).collect::<Vec<_>>();
        rates.change_network(&network(2_000));
        assert_eq!(octets(&rates), [700]);
        assert_eq!(round(&mut rates, &mut now).0, [(0, 3, 1_000), (1, 3, 1_000)]);
        rates.change_network(&Arc::new(Network::default()));
        assert!(rates.octets.is_empty());
        let unlimited = Rate::UNLIMITED.kbit();
        assert_eq!(
            round(&mut rates, &mut now).0,
            [(0, 3, unlimited), (1, 3, unlimited)]
        );
    }

    #[test]
    fn workers_are_asked_where_there_are_queues() {
        let alone = EgressRates::new(&Arc::new(Network::default()), 4);
        assert_eq!(alone.poll_timeout(), None, "no queues");
        let often = |network: &Arc<Network>, workers| {
            let rates = EgressRates::new(network, workers);
            assert!(rates.poll_timeout().is_some());
            rates.interval() == QUERY_INTERVAL
        };
        assert!(often(&network(1), 1), "a policer shapes");
        let network = Network::clone(&network(1))
            .with_policers(Vec::new())
            .expect("none");
        let network = Arc::new(network);
        assert!(!often(&network, 1) && often(&network, 2));
        assert_eq!(rate(&network, PORT), Rate::UNLIMITED);
        assert_eq!(
            rate(&network, EgressRate::Instance(InstanceId(7))),
            Rate::UNLIMITED
        );
    }
}
