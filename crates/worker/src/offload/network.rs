//! The node's network as objects of the FlowOp contract: what an accelerator has to know to receive and send packets.
//!
//! All of it is given when the accelerator begins with nothing, and what changes afterwards as it changes. No session
//! leaves before all is there.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::IpAddr;

use flow::contract::{
    Actions, Adjacency, Backend, Capabilities, FlowOp, Instance, InstanceUses, Mss, Object, ObjectId,
    Outcome, OwnAddress, PathMtu, QfiMark, QueueRoom, Refusal, Request, Route, RoutePrefix, RouteTarget,
    Subject, TooLong,
};
use flow::{AdjacencyId, InstanceId, OpId, PortId};
use packet::{MacAddr, Qfi};
use rules::network::{Fragmentation, Network, Roles};
use rules::prefix::IpPrefix;
use transport::{Adjacency as Neighbour, AdjacencyChange};

use super::queues::of_node;

/// The bit of the numbers of requests about the node: sessions' indexes are below 2^31.
const OF_NODE: u64 = 1 << 63;
/// Requests that are left to sessions.
const RESERVE: usize = 1024;

/// What the accelerator knows of the network, and is to know.
#[derive(Debug)]
pub(crate) struct NetworkObjects {
    /// Ports of this node's own; the accelerator's are numbered from there on.
    own_ports: usize,
    macs: Vec<MacAddr>,
    adjacencies: BTreeMap<AdjacencyId, Adjacency>,
    path_mtus: BTreeMap<(IpAddr, IpAddr), u16>,
    given: HashSet<ObjectId>,
    queue: VecDeque<FlowOp>,
    next: u64,
    /// The fence behind all that was given at first; the accelerator is ready when it is answered.
    fence: Option<OpId>,
    is_ready: bool,
    /// The accelerator is there, and is given what changes.
    is_begun: bool,
    /// Whether it is given instances alone: it gives all user packets to this node.
    is_partial: bool,
    /// Whether the accelerator can clamp segment sizes: instances say theirs only then.
    can_clamp: bool,
    /// What the accelerator has for queues.
    can_queue: Option<QueueRoom>,
    /// Objects that the accelerator has refused.
    refused: u64,
}

impl NetworkObjects {
    /// Nothing is known, and nothing given. `macs` are the ports' addresses.
    pub fn new(own_ports: usize, macs: &[MacAddr]) -> Self {
        Self {
            own_ports,
            macs: macs.to_vec(),
            adjacencies: BTreeMap::new(),
            path_mtus: BTreeMap::new(),
            given: HashSet::new(),
            queue: VecDeque::new(),
            next: 0,
            fence: None,
            is_ready: false,
            is_begun: false,
            is_partial: false,
            can_clamp: false,
            can_queue: None,
            refused: 0,
        }
    }

    /// Whether the accelerator knows all that it needs.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// Objects that were refused.
    pub const fn refused(&self) -> u64 {
        self.refused
    }

    /// The accelerator has nothing, or is not there.
    pub fn lose(&mut self) {
        self.given.clear();
        self.queue.clear();
        (self.fence, self.is_ready, self.is_begun) = (None, false, false);
    }

    /// The accelerator, which can do this, has begun with nothing: all that it needs is to be given, in partial mode
    /// what it needs in order to read packets.
    pub fn begin(&mut self, network: &Network, can: &Capabilities, is_partial: bool) {
        self.lose();
        (self.is_begun, self.is_partial) = (true, is_partial);
        self.can_clamp = can.actions.contains(Actions::CLAMP_MSS);
        self.can_queue = can.queues.filter(|_| !is_partial);
        let all = self.objects(network);
        self.queue.extend(all.into_iter().map(FlowOp::Put));
        self.queue.push_back(FlowOp::Fence);
    }

    /// The network is another.
    pub fn follow(&mut self, network: &Network) {
        if !self.is_begun {
            return;
        }
        // What was not given yet is part of what is to be given now.
        self.queue.clear();
        self.is_ready = false;
        let all = self.objects(network);
        let kept: HashSet<ObjectId> = all.iter().map(Object::id).collect();
        let mut gone: Vec<ObjectId> = self.given.difference(&kept).copied().collect();
        // Nodes of instances go before those of their ports, which have lower numbers.
        gone.sort_by_key(|id| match id {
            ObjectId::SharedNode(node) => u16::MAX - node.0,
            _ => u16::MAX,
        });
        self.queue.extend(gone.into_iter().map(FlowOp::Remove));
        self.queue.extend(all.into_iter().map(FlowOp::Put));
        self.queue.push_back(FlowOp::Fence);
    }

    /// A neighbour came, changed or went.
    pub fn note_adjacency(&mut self, change: &AdjacencyChange, network: &Network) {
        let now = change.adjacency.as_ref().and_then(|adjacency| {
            let instance = match change.neighbour {
                Some((instance, _)) => Some(instance),
                None => instance_of(network, adjacency),
            };
            // What leads to ourselves is this node's affair.
            let leaves = adjacency.port().recirculations() == 0;
            instance
                .filter(|id| leaves && self.is_behind(network, *id))
                .map(|instance| Adjacency {
                    instance,
                    address: change.neighbour.map(|(_, address)| address),
                    mac: adjacency.is_resolved().then(|| mac_of(adjacency)),
                })
        });
        let was = match now {
            Some(adjacency) => self.adjacencies.insert(change.id, adjacency),
            None => self.adjacencies.remove(&change.id),
        };
        if !self.is_begun || self.is_partial {
            return;
        }
        match (was, now) {
            (_, Some(adjacency)) => self.queue.push_back(FlowOp::Put(Object::Adjacency {
                id: change.id,
                adjacency,
            })),
            (Some(_), None) => self
                .queue
                .push_back(FlowOp::Remove(ObjectId::Adjacency(change.id))),
            (None, None) => {}
        }
        if let Some((instance, address)) = change.neighbour {
            let by_it = routes(network, &self.adjacencies)
                .filter(|(by, hop, _)| *by == instance && *hop == Some(address))
                .map(|(_, _, route)| FlowOp::Put(Object::Route(route)));
            self.queue.extend(by_it);
        }
    }

    /// The MTU of a path changed.
    pub fn note_path_mtu(&mut self, local: IpAddr, peer: IpAddr, mtu: Option<u16>) {
        let op = match mtu {
            Some(mtu) => {
                self.path_mtus.insert((local, peer), mtu);
                FlowOp::Put(Object::PathMtu(PathMtu { local, peer, mtu }))
            }
            None => {
                self.path_mtus.remove(&(local, peer));
                FlowOp::Remove(ObjectId::PathMtu(local, peer))
            }
        };
        if self.is_begun && !self.is_partial {
            self.queue.push_back(op);
        }
    }

    /// Gives what is to be given, as far as there is room.
    pub fn work(&mut self, backend: &mut impl Backend) {
        while backend.room() > RESERVE {
            let Some(op) = self.queue.pop_front() else { return };
            self.next += 1;
            let id = OpId(OF_NODE | self.next);
            match &op {
                FlowOp::Put(object) => {
                    self.given.insert(object.id());
                }
                // What is not there need not be removed.
                FlowOp::Remove(object) if !self.given.remove(object) => continue,
                FlowOp::Fence => self.fence = Some(id),
                _ => {}
            }
            backend.submit(Request {
                id,
                epoch: backend.epoch(),
                subject: Subject::Node,
                op,
            });
        }
    }

    /// Takes the reply to a request; whether it was one about the node.
    pub fn take_reply(&mut self, id: OpId, outcome: &Result<Outcome, Refusal>) -> bool {
        if id.0 & OF_NODE == 0 {
            return false;
        }
        // What another worker has taken away is not there any more.
        let is_done = matches!(outcome, Ok(_) | Err(Refusal::Missing));
        self.refused += u64::from(!is_done);
        if self.fence == Some(id) {
            self.fence = None;
            self.is_ready |= is_done;
        }
        true
    }

    fn is_behind(&self, network: &Network, id: InstanceId) -> bool {
        network
            .instance(id)
            .is_some_and(|instance| instance.port.index() >= self.own_ports)
    }

    fn objects(&self, network: &Network) -> Vec<Object> {
        let behind = network
            .instances()
            .iter()
            .filter(|instance| self.is_behind(network, instance.id));
        let room = self.can_queue.as_ref();
        let mut objects = room.map_or_else(Vec::new, |room| of_node(network, self.own_ports, room));
        let instances = behind.map(|instance| Object::Instance {
            id: instance.id,
            instance: Box::new(self.instance(network, instance)),
        });
        objects.extend(instances);
        if self.is_partial {
            return objects;
        }
        objects.extend(self.adjacencies.iter().map(|(id, adjacency)| Object::Adjacency {
            id: *id,
            adjacency: *adjacency,
        }));
        let routes = routes(network, &self.adjacencies);
        objects.extend(routes.map(|(_, _, route)| Object::Route(route)));
        let mtu = |(&(local, peer), &mtu)| Object::PathMtu(PathMtu { local, peer, mtu });
        objects.extend(self.path_mtus.iter().map(mtu));
        objects
    }

    fn instance(&self, network: &Network, instance: &rules::network::Instance) -> Instance {
        let local = |address: IpAddr| network.local(address).map(|(_, local)| local).unwrap_or_default();
        let tags = instance.vlan;
        Instance {
            port: PortId((instance.port.index() - self.own_ports) as u16),
            vlans: [
                tags.map(|tags| tags.outer.get()),
                tags.and_then(|tags| tags.inner).map(|inner| inner.get()),
            ],
            tpid: tags.map_or(0x8100, |tags| tags.tpid),
            vrf: instance.vrf,
            mac: self
                .macs
                .get(instance.port.index())
                .copied()
                .unwrap_or(MacAddr::ZERO)
                .0,
            mtu: instance.mtu,
            ipv4: instance.ipv4.map(|(address, length)| OwnAddress {
                address,
                length,
                local: local(address.into()),
            }),
            ipv6: instance.ipv6.map(|(address, length)| OwnAddress {
                address,
                length,
                local: local(address.into()),
            }),
            uses: InstanceUses::NONE
                .with_if(InstanceUses::TUNNELS, instance.roles.intersects(Roles::GTPU))
                .with_if(InstanceUses::PLAIN, instance.roles.intersects(Roles::N6))
                .with_if(
                    InstanceUses::QUEUES,
                    self.can_queue.is_some() && instance.egress.is_some(),
                ),
            too_long: match instance.fragmentation {
                Fragmentation::Inner => TooLong::FragmentInner,
                Fragmentation::Outer => TooLong::FragmentOuter,
                Fragmentation::Never => TooLong::Trap,
            },
            mss: match instance.mss {
                rules::network::Mss::AtMost(octets) if self.can_clamp => Mss::AtMost(octets),
                rules::network::Mss::Auto if self.can_clamp => Mss::Auto,
                _ => Mss::Off,
            },
            marks: marks(instance),
        }
    }
}

fn marks(instance: &rules::network::Instance) -> Vec<QfiMark> {
    let Some(table) = &instance.dscp else {
        return Vec::new();
    };
    let of = |qfi: u8| {
        let mark = table.get(Qfi::from_low_bits(qfi))?;
        Some(QfiMark {
            qfi,
            green: mark.green.get(),
            yellow: mark.yellow.get(),
            pcp: mark.pcp,
        })
    };
    (0..64).filter_map(of).collect()
}

/// All routes, with the instance that they leave by and their router.
fn routes<'a>(
    network: &'a Network,
    adjacencies: &'a BTreeMap<AdjacencyId, Adjacency>,
) -> impl Iterator<Item = (InstanceId, Option<IpAddr>, Route)> + 'a {
    network.instances().iter().flat_map(move |instance| {
        let route = |prefix: IpPrefix, target| Route {
            prefix: RoutePrefix {
                vrf: instance.vrf,
                prefix: prefix.address(),
                length: prefix.len(),
            },
            target,
        };
        let connected = instance
            .connected()
            .map(move |prefix| (instance.id, None, route(prefix, RouteTarget::Link(instance.id))));
        let by_routers = instance.routes.iter().map(move |of| {
            let known = || {
                let is_it = |adjacency: &Adjacency| {
                    adjacency.instance == instance.id && adjacency.address == Some(of.next_hop)
                };
                adjacencies.iter().find(|(_, adjacency)| is_it(adjacency))
            };
            // Which router of a group takes a packet, and which of them answer, is this node's to say.
            let target = match network.group_of(instance.vrf, of.prefix) {
                Some(_) => RouteTarget::Host,
                None => RouteTarget::Router(instance.id, known().map(|(id, _)| *id)),
            };
            (instance.id, Some(of.next_hop), route(of.prefix, target))
        });
        let to_ues = network
            .ue_routes(instance)
            .map(move |(prefix, _)| (instance.id, None, route(prefix, RouteTarget::Host)));
        connected.chain(by_routers).chain(to_ues)
    })
}

/// The instance by whose link a path leaves.
fn instance_of(network: &Network, adjacency: &Neighbour) -> Option<InstanceId> {
    let has_its_tags = |instance: &&rules::network::Instance| {
        let (tags, length) = instance.vlan.map_or(([0; 8], 0), |tags| tags.octets());
        instance.port == adjacency.port() && adjacency.header().get(12..) == tags.get(..length)
    };
    network
        .instances()
        .iter()
        .find(has_its_tags)
        .map(|instance| instance.id)
}

fn mac_of(adjacency: &Neighbour) -> [u8; 6] {
    adjacency.header().first_chunk().copied().unwrap_or_default()
}
