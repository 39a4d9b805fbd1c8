//! The shared nodes: ports, and the instances on them.

use flow::meter::Rate;
use flow::{Forward, ForwardKind, InstanceId};
use packet::{eth, ipv4, ipv6};
use rules::network::{Egress, EgressClasses, Instance, Network, Roles};
use tm::{Manager, NodeId, NodeSpec, Shaper};

/// How much of its rate an instance or a port may send at once, in milliseconds of the rate: what a poll may be late.
const BURST_MILLIS: u64 = 2;

/// What a frame takes on the wire beyond its octets: preamble, start of frame, check sequence, gap (IEEE 802.3 §3.1.1,
/// §4.4.2).
const ON_THE_WIRE: usize = 24;

/// UDP, GTP-U and a PDU Session Container (TS 29.281 §5.1, §5.2; TS 38.415 §5.5.2).
const TUNNEL: usize = 8 + 8 + 8;

/// The nodes of ports and instances that have queues.
pub(super) struct Nodes {
    pub ports: Vec<NodeId>,
    /// By instance.
    instances: Vec<Option<NodeId>>,
    pub classes: EgressClasses,
}

impl Nodes {
    /// Adds the nodes of a network to the manager of one of this number of workers, which has none and room for all.
    /// Each worker has an equal part of every rate.
    pub fn new(manager: &mut Manager, network: &Network, egress: &Egress, workers: u16) -> Self {
        let mut nodes = Self {
            ports: Vec::new(),
            instances: vec![None; network.instances().len()],
            classes: egress.classes.clone(),
        };
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
                nodes.add(manager, None, part_of(rate, workers), headers + ON_THE_WIRE)
            });
            of_port[port] = above;
            nodes.instances[usize::from(instance.id.0)] =
                nodes.add(manager, above, part_of(asked.rate, workers), headers(instance));
        }
        nodes.ports = of_port.into_iter().flatten().collect();
        nodes
    }

    fn add(
        &self,
        manager: &mut Manager,
        parent: Option<NodeId>,
        rate: Rate,
        overhead: usize,
    ) -> Option<NodeId> {
        let node = manager.add_node(NodeSpec {
            parent,
            shaper: shaper(rate, BURST_MILLIS),
            weight: 1,
            overhead: overhead.min(usize::from(u8::MAX)) as u8,
        });
        debug_assert!(node.is_ok(), "there is room for all nodes: {node:?}");
        node.ok()
    }

    /// Whether packets of a forward wait.
    pub fn takes(&self, forward: &Forward) -> bool {
        matches!(
            forward.kind,
            ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged
        ) && self.of(forward.egress).is_some()
    }

    /// The node of an instance.
    pub fn of(&self, instance: InstanceId) -> Option<NodeId> {
        self.instances.get(usize::from(instance.0)).copied().flatten()
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
