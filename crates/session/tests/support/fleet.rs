//! Workers as far as control sees them: they apply effects in order, count, and answer.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

use flow::{
    AdjacencyId, Bucket, ContentUsage, InstanceId, OpId, PortId, SessionIndex, UrrCount, VrfId, WorkerId,
};
use nat::pools::BlockId;
use rules::Adjacencies;
use rules::image::{
    Counter, DroppedCount, ImmediateActions, MeterShare, PacketsLeft, ReportedCongestion, SessionChange,
    SessionImage, TokensLeft, UsageSnapshot,
};
use rules::model::{SessionRules, Urr, UrrId};
use rules::network::{Instance, Network, Roles, Route};
use session::{Effect, Seid, WorkerFault, WorkerSelectionChange, WorkerSelectionKey};

/// Packets of a session, of URR 1.
#[derive(Clone, Copy, Debug)]
pub struct Packets {
    pub session: SessionIndex,
    /// The session of the index when they came.
    pub seid: Seid,
    pub count: UrrCount,
}

/// What a worker answers to an operation.
pub type Answer = (OpId, Result<Option<UsageSnapshot>, WorkerFault>);

/// One worker.
#[derive(Default)]
pub struct Worker {
    pub queue: VecDeque<Effect>,
    pub sessions: BTreeMap<SessionIndex, SessionImage>,
    pub counts: BTreeMap<(SessionIndex, UrrId), UrrCount>,
    /// Usage before QoS that is not reported yet.
    pub before_qos: Vec<(SessionIndex, (UrrId, UrrCount))>,
    /// What it says is left of packet rates.
    pub packets: BTreeMap<SessionIndex, Vec<PacketsLeft>>,
    /// What its meters of bit rates hold.
    pub tokens: BTreeMap<SessionIndex, Vec<TokensLeft>>,
    /// What it has counted of dropped packets.
    pub dropped: BTreeMap<SessionIndex, Vec<DroppedCount>>,
    /// What the RAN has reported to it.
    pub congestion: BTreeMap<SessionIndex, Vec<ReportedCongestion>>,
    pub contents: BTreeMap<SessionIndex, Vec<ContentUsage>>,
    /// The worker selection exceptions.
    pub exceptions: BTreeMap<WorkerSelectionKey, Bucket>,
    /// The buckets of port blocks, and the blocks that sessions were given.
    pub block_buckets: BTreeMap<BlockId, Bucket>,
    pub blocks: BTreeMap<SessionIndex, Vec<BlockId>>,
    /// The owners of buckets that have moved.
    pub owners: BTreeMap<Bucket, WorkerId>,
    /// Packets that other workers have handed over.
    pub inbox: VecDeque<Packets>,
    /// Packets that it has counted.
    pub served: u64,
    /// Packets of sessions that it has not, since they were last asked for.
    pub astray: Vec<Packets>,
    /// Sessions that fit; more are refused.
    pub room: Option<usize>,
    /// Every Replace fails from now on.
    pub refuses_replace: bool,
    /// Every Fence fails from now on.
    pub refuses_fence: bool,
    /// What was asked for with each Replace.
    pub immediate_actions: Vec<ImmediateActions>,
    /// Generations seen: a Replace that touches no flow keeps the number.
    pub generations: Vec<u32>,
    /// Bounds of counters that were set on live sessions.
    pub bounds: Vec<(SessionIndex, Vec<(Counter, flow::Bounds)>)>,
}

/// All workers of the node.
pub struct Fleet {
    pub workers: Vec<Worker>,
}

impl Fleet {
    pub fn new(workers: u16) -> Fleet {
        Fleet {
            workers: (0..workers).map(|_| Worker::default()).collect(),
        }
    }

    pub fn push(&mut self, effect: Effect) {
        self.worker(effect.worker()).queue.push_back(effect);
    }

    pub fn worker(&mut self, worker: WorkerId) -> &mut Worker {
        &mut self.workers[worker.index()]
    }

    /// Lets every worker do all it has to, and answers for them.
    pub fn run(&mut self) -> Vec<Answer> {
        let workers = self.workers.iter_mut();
        workers
            .flat_map(|worker| std::iter::from_fn(|| worker.step()).flatten().collect::<Vec<_>>())
            .collect()
    }

    /// The session images of all workers.
    pub fn images(&self) -> Vec<&SessionImage> {
        self.workers
            .iter()
            .flat_map(|worker| worker.sessions.values())
            .collect()
    }

    /// Packets of a session in `bucket` come in at the worker `via`, which has them or hands them over.
    pub fn receive(&mut self, via: WorkerId, bucket: Bucket, packets: Packets) {
        let usual = WorkerId((bucket.index() % self.workers.len()) as u16);
        let owner = *self.worker(via).owners.get(&bucket).unwrap_or(&usual);
        if owner == via {
            self.worker(via).forward(packets);
        } else {
            self.worker(owner).inbox.push_back(packets);
        }
    }

    /// Counts packets before QoS, as the worker does that has the session with this index.
    pub fn count_before_qos(&mut self, session: SessionIndex, urr: UrrId, count: UrrCount) {
        let mut workers = self.workers.iter_mut();
        let worker = workers.find(|worker| worker.sessions.contains_key(&session));
        worker.unwrap().before_qos.push((session, (urr, count)));
    }

    /// Counts packets in a URR of the session with this index, as the worker that has it does.
    pub fn count(&mut self, session: SessionIndex, urr: UrrId, count: UrrCount) {
        let worker = self
            .workers
            .iter_mut()
            .find(|worker| worker.sessions.contains_key(&session))
            .unwrap();
        let slot = worker.counts.entry((session, urr)).or_default();
        slot.ul_packets += count.ul_packets;
        slot.ul_octets += count.ul_octets;
        slot.dl_packets += count.dl_packets;
        slot.dl_octets += count.dl_octets;
        slot.events += count.events;
    }

    /// What the worker that has the session says is left of its packet rates. What the session's worker reports of its
    /// contents when it gives the session up.
    pub fn count_content(&mut self, session: SessionIndex, usage: ContentUsage) {
        let workers = self.workers.iter_mut();
        for worker in workers.filter(|worker| worker.sessions.contains_key(&session)) {
            worker.contents.entry(session).or_default().push(usage);
        }
    }

    /// The session's meters of bit rates hold this, in the worker that has it.
    pub fn hold_tokens(&mut self, session: SessionIndex, tokens: Vec<TokensLeft>) {
        for worker in self
            .workers
            .iter_mut()
            .filter(|one| one.sessions.contains_key(&session))
        {
            worker.tokens.insert(session, tokens.clone());
        }
    }

    pub fn leave_packets(&mut self, session: SessionIndex, left: PacketsLeft) {
        let workers = self.workers.iter_mut();
        for worker in workers.filter(|worker| worker.sessions.contains_key(&session)) {
            worker.packets.insert(session, vec![left]);
        }
    }

    /// That no worker has anything of any session.
    pub fn assert_empty(&self) {
        for worker in &self.workers {
            assert!(
                worker.sessions.is_empty(),
                "sessions left: {:?}",
                worker.sessions.keys()
            );
            assert!(
                worker.exceptions.is_empty(),
                "worker selection exceptions left: {:?}",
                worker.exceptions
            );
            assert!(
                worker.counts.is_empty(),
                "counts left: {:?}",
                worker.counts.keys()
            );
        }
    }
}

impl Worker {
    /// Does one effect; `Some(None)` for one that is not answered.
    pub fn step(&mut self) -> Option<Option<Answer>> {
        Some(match self.queue.pop_front()? {
            Effect::Apply { op, change, .. } => Some((op, self.apply(change))),
            Effect::Query { op, session, .. } => {
                let urrs = self.sessions.get(&session).map(|image| image.urr_ids.clone());
                let count = |urr: &UrrId| {
                    (
                        *urr,
                        *self.counts.get(&(session, *urr)).unwrap_or(&UrrCount::default()),
                    )
                };
                let counters = urrs.iter().flatten().map(count).collect();
                Some((
                    op,
                    Ok(Some(UsageSnapshot {
                        session,
                        counters,
                        before_qos: self.take_before_qos(session),
                        packets: self.packets.get(&session).cloned().unwrap_or_default(),
                        tokens: self.tokens.get(&session).cloned().unwrap_or_default(),
                        ..UsageSnapshot::default()
                    })),
                ))
            }
            Effect::Fence { op, .. } if self.refuses_fence => Some((op, Err(WorkerFault::NoSpace))),
            Effect::Fence { op, .. } => Some((op, Ok(None))),
            Effect::Drain { op, .. } => {
                self.serve_inbox();
                Some((op, Ok(None)))
            }
            Effect::SelectWorker { change, .. } => {
                match change {
                    WorkerSelectionChange::Exception { key, bucket } => match bucket {
                        Some(bucket) => drop(self.exceptions.insert(key, bucket)),
                        None => drop(self.exceptions.remove(&key)),
                    },
                    WorkerSelectionChange::Bucket { bucket, owner } => {
                        self.owners.insert(bucket, owner);
                    }
                    WorkerSelectionChange::PortBlock { block, bucket } => match bucket {
                        Some(bucket) => drop(self.block_buckets.insert(block, bucket)),
                        None => drop(self.block_buckets.remove(&block)),
                    },
                }
                None
            }
            Effect::PortBlock { session, block, .. } => {
                self.blocks.entry(session).or_default().push(block);
                None
            }
        })
    }

    /// Takes everything from the inbox.
    pub fn serve_inbox(&mut self) {
        while let Some(packets) = self.inbox.pop_front() {
            self.forward(packets);
        }
    }

    fn forward(&mut self, packets: Packets) {
        let Packets { session, count, .. } = packets;
        if !self.sessions.contains_key(&session) {
            return self.astray.push(packets);
        }
        self.served += count.ul_packets;
        let slot = self.counts.entry((session, UrrId(1))).or_default();
        slot.ul_packets += count.ul_packets;
        slot.ul_octets += count.ul_octets;
    }

    fn apply(&mut self, change: SessionChange) -> Result<Option<UsageSnapshot>, WorkerFault> {
        match change {
            SessionChange::Install(image) => {
                if self.room.is_some_and(|room| self.sessions.len() >= room) {
                    return Err(WorkerFault::NoSpace);
                }
                let index = image.session;
                self.generations.push(image.classification_generation);
                assert!(
                    self.sessions.insert(index, *image).is_none(),
                    "{index} was there already"
                );
                Ok(None)
            }
            SessionChange::Replace(image, immediate) => {
                let index = image.session;
                if self.refuses_replace {
                    return Err(WorkerFault::NoSpace);
                }
                self.immediate_actions.push(immediate);
                self.generations.push(image.classification_generation);
                let (urrs, fresh) = (image.urr_ids.clone(), image.installation.fresh_urrs.clone());
                let rules = Arc::clone(&image.rules);
                let before = self.sessions.insert(index, *image);
                let before = before.unwrap_or_else(|| panic!("{index} was not there"));
                let unit = |rules: &SessionRules, urr: UrrId| rules.urr(urr).map(Urr::unit);
                let is_rescaled = |urr: UrrId| unit(&rules, urr) != unit(&before.rules, urr);
                let is_gone = |urr: &UrrId| !urrs.contains(urr) || fresh.contains(urr) || is_rescaled(*urr);
                let gone = before.urr_ids.iter().copied().filter(is_gone);
                let count = |urr| (urr, self.counts.get(&(index, urr)).copied().unwrap_or_default());
                let counters: Vec<_> = gone.map(count).collect();
                self.forget(index, &counters);
                let before_qos = self.take_before_qos(index);
                let leaves = self.sessions[&index].meter_share == MeterShare::Leaving;
                let packets = self.packets.get(&index).filter(|_| leaves);
                let congestion = self.congestion.get(&index).filter(|_| leaves);
                Ok(Some(UsageSnapshot {
                    session: index,
                    counters,
                    before_qos,
                    packets: packets.cloned().unwrap_or_default(),
                    congestion: congestion.cloned().unwrap_or_default(),
                    ..UsageSnapshot::default()
                }))
            }
            SessionChange::Bound(index, bounds) => {
                self.bounds.push((index, bounds));
                Ok(None)
            }
            SessionChange::Remove(index) => {
                let counters = self.counts_of(index, |_| true);
                self.forget(index, &counters);
                let usage = UsageSnapshot {
                    mappings: Vec::new(),
                    times: Vec::new(),
                    session: index,
                    counters,
                    before_qos: self.take_before_qos(index),
                    contents: self.contents.remove(&index).unwrap_or_default(),
                    packets: self.packets.remove(&index).unwrap_or_default(),
                    tokens: self.tokens.remove(&index).unwrap_or_default(),
                    dropped: self.dropped.remove(&index).unwrap_or_default(),
                    congestion: self.congestion.remove(&index).unwrap_or_default(),
                };
                self.sessions
                    .remove(&index)
                    .map(|_| Some(usage))
                    .ok_or(WorkerFault::Failed)
            }
        }
    }

    fn take_before_qos(&mut self, session: SessionIndex) -> Vec<(UrrId, UrrCount)> {
        let reported = self.before_qos.extract_if(.., |(index, _)| *index == session);
        reported.map(|(_, count)| count).collect()
    }

    fn forget(&mut self, session: SessionIndex, counters: &[(UrrId, UrrCount)]) {
        for (urr, _) in counters {
            self.counts.remove(&(session, *urr));
        }
    }

    fn counts_of(&self, session: SessionIndex, wanted: impl Fn(UrrId) -> bool) -> Vec<(UrrId, UrrCount)> {
        let all = self
            .counts
            .iter()
            .filter(|((index, urr), _)| *index == session && wanted(*urr));
        all.map(|((_, urr), count)| (*urr, *count)).collect()
    }
}

/// Next hops without number.
pub struct EveryNextHop;

impl Adjacencies for EveryNextHop {
    fn resolve(&self, _: InstanceId, _: IpAddr) -> Option<AdjacencyId> {
        Some(AdjacencyId(1))
    }
}

/// An access network with IPv4 and IPv6, two data networks, N9 and N4-u.
pub fn network() -> Arc<Network> {
    let instances = vec![
        instance(
            0,
            "access",
            Roles::N3,
            0,
            "192.0.2.10/24",
            Some("2001:db8:3::10/64"),
        ),
        instance(
            1,
            "internet",
            Roles::N6,
            1,
            "198.51.100.10/24",
            Some("2001:db8:6::10/64"),
        ),
        instance(2, "ims", Roles::N6, 2, "198.51.101.10/24", None),
        instance(3, "n9.example.org", Roles::N9, 0, "203.0.113.10/24", None),
        instance(4, "n4u", Roles::N4U, 0, "203.0.114.10/24", None),
    ];
    Arc::new(Network::new(instances).unwrap())
}

/// All tunnels at one address, and the data networks.
pub fn network_at(address: std::net::Ipv4Addr) -> Arc<Network> {
    let roles = Roles::N3.with(Roles::N9).with(Roles::N4U);
    let instances = vec![
        instance(0, "tunnels", roles, 0, &format!("{address}/24"), Some("::1/64")),
        instance(1, "internet", Roles::N6, 1, "198.51.100.10/24", None),
        instance(2, "ims", Roles::N6, 2, "198.51.101.10/24", None),
    ];
    Arc::new(Network::new(instances).unwrap())
}

fn instance(id: u16, name: &str, roles: Roles, vrf: u16, ipv4: &str, ipv6: Option<&str>) -> Instance {
    let (address, bits) = ipv4.split_once('/').unwrap();
    let router = IpAddr::V4(std::net::Ipv4Addr::from_bits(
        address.parse::<std::net::Ipv4Addr>().unwrap().to_bits() & !0xff | 1,
    ));
    Instance {
        id: InstanceId(id),
        name: name.into(),
        roles,
        vrf: VrfId(vrf),
        port: PortId(id),
        vlan: None,
        mtu: 1500,
        ipv4: Some((address.parse().unwrap(), bits.parse().unwrap())),
        ipv6: ipv6.map(|ipv6| {
            let (address, bits) = ipv6.split_once('/').unwrap();
            (address.parse().unwrap(), bits.parse().unwrap())
        }),
        routes: vec![Route {
            prefix: "0.0.0.0/0".parse().unwrap(),
            next_hop: router,
        }],
        dscp: None,
        mirror: None,
        hairpin: rules::network::Hairpin::Router,
        fragmentation: rules::network::Fragmentation::Inner,
        mss: rules::network::Mss::Off,
        egress: None,
    }
}
