//! The shared nodes: ports, the instances on them, and below these the policers that shape.
//!
//! A policer has a node below each instance that sessions of it leave by, and one below each broader policer there,
//! made when the first of them comes. All nodes of one rate, here and in other workers, have parts of it, which control
//! sets.

use std::collections::HashMap;
use std::sync::Arc;

use flow::meter::{Rate, SharedId};
use flow::{Direction, ForwardKind, InstanceId, Nanos, PackedForward};
use packet::{eth, ipv4, ipv6};
use rules::image::EgressQueues;
use rules::network::{Egress, Instance, Network, QueueManagement, Roles, Wred, WredCurve};
use tm::{Aqm, Manager, NodeId, NodeSpec, RedCurve, Shaper, TmError, WredProfile};

use crate::control_channel::{EgressDemand, EgressLease, EgressRate};

/// How much of its rate an instance or a port may send at once, in milliseconds of the rate: what a poll may be late.
const BURST_MILLIS: u64 = 2;

/// What a frame takes on the wire beyond its octets: preamble, start of frame, check sequence, gap (IEEE 802.3 §3.1.1,
/// §4.4.2).
const ON_THE_WIRE: usize = 24;

/// UDP, GTP-U and a PDU Session Container (TS 29.281 §5.1, §5.2; TS 38.415 §5.5.2).
const TUNNEL: usize = 8 + 8 + 8;

/// The nodes of ports and instances that have queues, and of policers below them.
pub(super) struct Nodes {
    pub ports: Vec<NodeId>,
    /// By instance.
    instances: Vec<Option<NodeId>>,
    policers: HashMap<PolicerBelow, NodeId, foldhash::quality::RandomState>,
    /// What each node's rate is a part of, by its number.
    rates: Vec<Option<EgressRate>>,
    pub classes: Vec<NodeClass>,
    network: Arc<Network>,
    workers: u16,
}

/// A class of queues, as the manager has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeClass {
    pub priority: u8,
    pub weight: u8,
    pub octets: u32,
    /// What its queues do against standing delay.
    pub aqm: Aqm,
}

/// A policer below a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PolicerBelow {
    parent: NodeId,
    policer: SharedId,
    direction: Direction,
}

impl Nodes {
    /// None: those of an accelerator are its host's to say.
    pub fn none() -> Self {
        Self {
            ports: Vec::new(),
            instances: Vec::new(),
            policers: HashMap::default(),
            rates: Vec::new(),
            classes: Vec::new(),
            network: Arc::default(),
            workers: 1,
        }
    }

    /// Says whether packets that leave by an instance wait, of an accelerator: the node counts for nothing else.
    pub fn set_instance(&mut self, instance: InstanceId, waits: bool) {
        let place = usize::from(instance.0);
        if place >= self.instances.len() && waits {
            self.instances.resize(place + 1, None);
        }
        if let Some(of) = self.instances.get_mut(place) {
            *of = waits.then_some(NodeId(0));
        }
    }

    /// Adds the nodes of a network to the manager of one of this number of workers, which has none and room for all.
    /// Each begins with an equal part of every rate.
    pub fn new(
        manager: &mut Manager<impl tm::Room>,
        network: &Arc<Network>,
        egress: &Egress,
        workers: u16,
    ) -> Self {
        let mut nodes = Self {
            ports: Vec::new(),
            instances: vec![None; network.instances().len()],
            policers: HashMap::default(),
            rates: Vec::new(),
            classes: Vec::new(),
            network: Arc::clone(network),
            workers,
        };
        let classes = egress.classes.all().iter();
        nodes.classes = classes
            .map(|class| NodeClass {
                priority: class.priority,
                weight: class.weight,
                octets: class.octets,
                aqm: aqm(manager, class.management),
            })
            .collect();
        let mut of_port: Vec<Option<NodeId>> = Vec::new();
        for instance in network.instances() {
            let Some(asked) = instance.egress else { continue };
            let port = instance.port.index();
            of_port.resize(of_port.len().max(port + 1), None);
            let above = of_port[port].or_else(|| {
                let rate = egress.ports.get(port).copied().unwrap_or(Rate::UNLIMITED);
                let on_port = network
                    .instances()
                    .iter()
                    .filter(|other| other.port == instance.port && other.egress.is_some());
                let headers = on_port.map(headers).max().unwrap_or_default();
                let of = EgressRate::Port(instance.port);
                nodes.add(
                    manager,
                    of,
                    node_spec(None, part_of(rate, workers), headers + ON_THE_WIRE),
                )
            });
            of_port[port] = above;
            let of = EgressRate::Instance(instance.id);
            let spec = node_spec(above, part_of(asked.rate, workers), headers(instance));
            nodes.instances[usize::from(instance.id.0)] = nodes.add(manager, of, spec);
        }
        nodes.ports = of_port.into_iter().flatten().collect();
        nodes
    }

    fn add(
        &mut self,
        manager: &mut Manager<impl tm::Room>,
        of: EgressRate,
        spec: NodeSpec,
    ) -> Option<NodeId> {
        let node = match manager.add_node(spec) {
            Err(TmError::NodesFull) => {
                self.remove_unused(manager);
                manager.add_node(spec)
            }
            node => node,
        };
        debug_assert!(node.is_ok(), "there is room for all nodes: {node:?}");
        let node = node.ok()?;
        let place = usize::from(node.0);
        self.rates.resize(self.rates.len().max(place + 1), None);
        self.rates[place] = Some(of);
        Some(node)
    }

    /// Removes policers that no session has any more, from the narrowest on.
    #[cold]
    fn remove_unused(&mut self, manager: &mut Manager<impl tm::Room>) {
        let mut before = usize::MAX;
        while self.policers.len() < before {
            before = self.policers.len();
            self.policers.retain(|_, node| {
                let is_used = manager.remove_node(*node).is_err();
                if !is_used {
                    self.rates[usize::from(node.0)] = None;
                }
                is_used
            });
        }
    }

    /// The innermost node of a session's queues: that of its narrowest policer that shapes, or of its instance.
    pub fn innermost(
        &mut self,
        manager: &mut Manager<impl tm::Room>,
        plan: &EgressQueues,
        direction: Direction,
    ) -> Option<NodeId> {
        let mut node = self.of(plan.instance)?;
        let policers = plan.policers.into_iter().filter(|id| *id != SharedId::NONE);
        for policer in policers.rev() {
            let below = PolicerBelow {
                parent: node,
                policer,
                direction,
            };
            node = match self.policers.get(&below) {
                Some(known) => *known,
                None => self.add_policer(manager, below)?,
            };
        }
        Some(node)
    }

    /// It begins with a worker's even part of the rate, until control has divided that anew.
    fn add_policer(&mut self, manager: &mut Manager<impl tm::Room>, below: PolicerBelow) -> Option<NodeId> {
        let network = Arc::clone(&self.network);
        let mut known = network.policers().shaped();
        let (_, policer) = known.find(|(id, _)| *id == below.policer)?;
        let rate = part_of(policer.rate(below.direction), self.workers);
        let spec = NodeSpec {
            weight: policer.weight,
            ..node_spec(Some(below.parent), rate, 0)
        };
        let node = self.add(manager, EgressRate::Policer(below.policer, below.direction), spec)?;
        self.policers.insert(below, node);
        Some(node)
    }

    /// The network is another one from now on: new policers may be in it.
    pub fn follow(&mut self, network: &Arc<Network>) {
        self.network = Arc::clone(network);
    }

    /// What each node has sent since this was asked last, and who waits for it.
    pub fn take_demands(&self, manager: &mut Manager<impl tm::Room>) -> Box<[EgressDemand]> {
        let mut demands = Vec::with_capacity(self.rates.len());
        manager.take_demands(|node, demand| {
            if let Some(Some(rate)) = self.rates.get(usize::from(node.0)) {
                demands.push(EgressDemand {
                    rate: *rate,
                    node: node.0,
                    octets: demand.octets,
                    waiting: demand.waiting,
                });
            }
        });
        demands.into()
    }

    /// Sets the parts that nodes have of their rates.
    pub fn set_leases(&self, manager: &mut Manager<impl tm::Room>, leases: &[EgressLease], now: Nanos) {
        for lease in leases {
            let known = self.rates.get(usize::from(lease.node)).copied().flatten();
            if known == Some(lease.rate) {
                let _ = manager.set_node_rate(NodeId(lease.node), shaper(lease.part, BURST_MILLIS), now);
            }
        }
    }

    /// Whether packets of a forward wait.
    pub fn takes(&self, forward: &PackedForward) -> bool {
        matches!(
            forward.kind(),
            ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged
        ) && self.of(forward.egress()).is_some()
    }

    /// The node of an instance.
    pub fn of(&self, instance: InstanceId) -> Option<NodeId> {
        self.instances.get(usize::from(instance.0)).copied().flatten()
    }
}

fn node_spec(parent: Option<NodeId>, rate: Rate, overhead: usize) -> NodeSpec {
    NodeSpec {
        parent,
        shaper: shaper(rate, BURST_MILLIS),
        weight: 1,
        overhead: overhead.min(usize::from(u8::MAX)) as u8,
    }
}

/// What queues do against standing delay. Each class with WRED has a profile; there is room for those of all classes.
fn aqm(manager: &mut Manager<impl tm::Room>, management: QueueManagement) -> Aqm {
    match management {
        QueueManagement::TailDrop => Aqm::TailDrop,
        QueueManagement::CoDel => Aqm::CoDel,
        QueueManagement::L4s => Aqm::DualQueue,
        QueueManagement::Wred(wred) => {
            let profile = manager.add_wred(&profile(&wred));
            debug_assert!(profile.is_ok(), "it was checked: {profile:?}");
            profile.map_or(Aqm::TailDrop, Aqm::Wred)
        }
    }
}

fn profile(wred: &Wred) -> WredProfile {
    let curve = |of: &WredCurve| RedCurve {
        min: of.min,
        max: of.max,
        one_in: of.one_in,
    };
    WredProfile {
        green: curve(&wred.green),
        yellow: curve(&wred.yellow),
        weight_log2: wred.weight_log2,
    }
}

/// The part of a rate that each of these workers has.
fn part_of(rate: Rate, workers: u16) -> Rate {
    match rate {
        Rate::UNLIMITED => rate,
        rate => Rate::from_kbit((rate.kbit() / u64::from(workers.max(1))).max(rate.kbit().min(1))),
    }
}

/// A shaper that may send `millis` milliseconds of its rate at once.
pub(super) fn shaper(rate: Rate, millis: u64) -> Shaper {
    if rate == Rate::UNLIMITED {
        return Shaper::UNLIMITED;
    }
    let burst = rate.kbit().saturating_mul(millis) / 8;
    Shaper {
        rate,
        burst: u32::try_from(burst).unwrap_or(u32::MAX),
    }
}

/// The headers of packets that leave by an instance, in octets: the longest that are usual.
fn headers(instance: &Instance) -> usize {
    let tags = instance
        .vlan
        .map_or(0, |tags| 1 + usize::from(tags.inner.is_some()));
    let link = eth::HEADER_LEN + tags * eth::TAG_LEN;
    let ends_tunnels = instance.roles.intersects(Roles::GTPU);
    let outer = match (ends_tunnels, instance.ipv4) {
        (false, _) => 0,
        (true, Some(_)) => ipv4::HEADER_LEN + TUNNEL,
        (true, None) => ipv6::HEADER_LEN + TUNNEL,
    };
    link + outer
}
