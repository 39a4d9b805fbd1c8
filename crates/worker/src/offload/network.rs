//! The node's network as objects of the FlowOp contract: what an accelerator has to know to receive and send packets.
//!
//! All of it is given when the accelerator begins with nothing, and what changes afterwards as it changes. No session
//! leaves before all is there.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::net::IpAddr;

use flow::contract::{
    Actions, Adjacency, Backend, Capabilities, FlowOp, Instance, InstanceUses, Mss, Object, ObjectId,
    Outcome, OwnAddress, PathMtu, QfiMark, QueueRoom, Refusal, Request, Route, RoutePrefix, RouteTarget,
    Subject, TooLong,
};
use flow::meter::{Chain, SharedId};
use flow::{AdjacencyId, InstanceId, OpId, PortId};
use packet::{MacAddr, Qfi};
use rules::network::multipath::{GroupId, PATHS};
use rules::network::{Fragmentation, Instance as NetworkInstance, Network, Roles, Route as StaticRoute};
use rules::prefix::IpPrefix;
use transport::{Adjacencies, Adjacency as Neighbour, AdjacencyChange};

use super::queues::of_node;
use super::shared_meters::{Next, SharedMeterObjects};

/// The bit of the numbers of requests about the node: sessions' indexes are below 2^31.
const OF_NODE: u64 = 1 << 63;
/// The bits of those that give a lease or a chain of shared meters, and of those that ask for a demand; the number is
/// [`NUMBER_AT`].
const OF_LEASE: u64 = 1 << 62;
const OF_CHAIN: u64 = 1 << 61;
const OF_DEMAND: u64 = 1 << 60;
const NUMBER_AT: u32 = 32;
/// Requests that are left to sessions.
const RESERVE: usize = 1024;

/// What the accelerator knows of the network, and is to know.
#[derive(Debug)]
pub(crate) struct NetworkObjects {
    /// Ports of this node's own; the accelerator's are numbered from there on.
    own_ports: usize,
    macs: Vec<MacAddr>,
    /// Room for neighbours; adjacencies beyond are paths of routes over several routers.
    neighbours: usize,
    adjacencies: BTreeMap<AdjacencyId, Adjacency>,
    /// The numbers of those that are of neighbours.
    by_address: HashMap<(InstanceId, IpAddr), AdjacencyId>,
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
    /// The numbers of adjacencies that the accelerator has room for are below this.
    most_adjacencies: u32,
    /// What the accelerator has for queues.
    can_queue: Option<QueueRoom>,
    /// Its leases of rates that sessions share.
    shared: SharedMeterObjects,
    /// Objects that the accelerator has refused.
    refused: u64,
}

impl NetworkObjects {
    /// Nothing is known, and nothing given. `macs` are the ports' addresses; there is room for this number of
    /// `neighbours`. Policers have these `chains` at first.
    pub fn new(
        (own_ports, macs, neighbours): (usize, &[MacAddr], usize),
        chains: impl Iterator<Item = (SharedId, Chain)>,
    ) -> Self {
        Self {
            own_ports,
            macs: macs.to_vec(),
            neighbours,
            adjacencies: BTreeMap::new(),
            by_address: HashMap::new(),
            path_mtus: BTreeMap::new(),
            given: HashSet::new(),
            queue: VecDeque::new(),
            next: 0,
            fence: None,
            is_ready: false,
            is_begun: false,
            is_partial: false,
            can_clamp: false,
            most_adjacencies: 0,
            can_queue: None,
            shared: SharedMeterObjects::new(chains),
            refused: 0,
        }
    }

    /// Whether the accelerator knows all that it needs.
    pub const fn is_ready(&self) -> bool {
        self.is_ready
    }

    /// The rates that sessions share, there.
    pub const fn shared(&self) -> &SharedMeterObjects {
        &self.shared
    }

    /// The same, to change.
    pub const fn shared_mut(&mut self) -> &mut SharedMeterObjects {
        &mut self.shared
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
        self.shared.lose();
    }

    /// The accelerator, which can do this, has begun with nothing: all that it needs is to be given, in partial mode
    /// what it needs in order to read packets.
    pub fn begin(&mut self, network: &Network, can: &Capabilities, is_partial: bool) {
        self.lose();
        (self.is_begun, self.is_partial) = (true, is_partial);
        self.can_clamp = can.actions.contains(Actions::CLAMP_MSS);
        self.most_adjacencies = can.adjacencies;
        self.can_queue = can.queues.filter(|_| !is_partial);
        self.shared.begin(if is_partial { 0 } else { can.shared_meters });
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
        let address_of = |adjacency: Adjacency| Some((adjacency.instance, adjacency.address?));
        if let Some(address) = was.and_then(address_of)
            && self.by_address.get(&address) == Some(&change.id)
        {
            self.by_address.remove(&address);
        }
        if let Some(address) = now.and_then(address_of) {
            self.by_address.insert(address, change.id);
        }
        if !self.is_begun || self.is_partial {
            return;
        }
        match (was, now) {
            _ if !self.may_give(change.id) => {}
            (_, Some(adjacency)) => self.queue.push_back(FlowOp::Put(Object::Adjacency {
                id: change.id,
                adjacency,
            })),
            (Some(_), None) => self
                .queue
                .push_back(FlowOp::Remove(ObjectId::Adjacency(change.id))),
            (None, None) => {}
        }
        if let Some((instance, router)) = change.neighbour {
            self.queue.extend(self.routes_by(network, instance, router));
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
            let Some(op) = self.queue.pop_front() else {
                return self.work_on_shared(backend);
            };
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
            submit(id, op, backend);
        }
    }

    fn work_on_shared(&mut self, backend: &mut impl Backend) {
        while backend.room() > RESERVE {
            let Some(next) = self.shared.next() else { return };
            let (kind, SharedId(number), op) = match next {
                Next::Lease(id, op) => (OF_LEASE, id, op),
                Next::Chain(id, op) => (OF_CHAIN, id, op),
                Next::Demand(id, op) => (OF_DEMAND, id, op),
            };
            self.next += 1;
            let id = OF_NODE | kind | u64::from(number) << NUMBER_AT | self.next & u64::from(u32::MAX);
            submit(OpId(id), op, backend);
        }
    }

    /// Takes the reply to a request; whether it was one about the node.
    pub fn take_reply(&mut self, id: OpId, outcome: &Result<Outcome, Refusal>) -> bool {
        if id.0 & OF_NODE == 0 {
            return false;
        }
        if let Err(Refusal::OtherEpoch) = outcome {
            // It lost what it had, or had not begun: the event that says so is on its way, or here.
            return true;
        }
        let number = SharedId((id.0 >> NUMBER_AT) as u16);
        if id.0 & OF_DEMAND != 0 {
            if let Ok(Outcome::Demand(octets)) = outcome {
                self.shared.note_demand(number, *octets);
            }
            return true;
        }
        // What another worker has taken away is not there any more.
        let is_done = matches!(outcome, Ok(_) | Err(Refusal::Missing));
        self.refused += u64::from(!is_done);
        if id.0 & OF_LEASE != 0 {
            self.shared.note_lease(number, is_done);
        } else if id.0 & OF_CHAIN != 0 {
            self.shared.note_chain(number, is_done);
        }
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

    /// Whether the accelerator has room for adjacencies of this number.
    const fn may_give(&self, id: AdjacencyId) -> bool {
        id.0 < self.most_adjacencies
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
        let adjacencies = self.adjacencies.iter().filter(|(id, _)| self.may_give(**id));
        objects.extend(adjacencies.map(|(id, adjacency)| Object::Adjacency {
            id: *id,
            adjacency: *adjacency,
        }));
        objects.extend(self.routes(network).into_iter().map(Object::Route));
        let mtu = |(&(local, peer), &mtu)| Object::PathMtu(PathMtu { local, peer, mtu });
        objects.extend(self.path_mtus.iter().map(mtu));
        objects
    }

    /// All routes, of equal prefixes the one that counts here.
    fn routes(&self, network: &Network) -> Vec<Route> {
        let instances = || network.instances().iter();
        let connected = instances().flat_map(|instance| {
            let target = RouteTarget::Link(instance.id);
            instance
                .connected()
                .map(move |prefix| route(instance, prefix, target))
        });
        let by_routers = instances().flat_map(|instance| {
            let all = instance.routes.iter();
            all.map(|of| self.by_router(network, instance, of))
        });
        let to_ues = instances().flat_map(|instance| {
            let all = network.ue_routes(instance);
            all.map(|(prefix, _)| route(instance, prefix, RouteTarget::Host))
        });
        let mut known = HashSet::new();
        let all = connected.chain(by_routers).chain(to_ues);
        all.filter(|route| known.insert(route.prefix)).collect()
    }

    /// The routes by this router alone, to be given anew.
    fn routes_by(&self, network: &Network, instance: InstanceId, router: IpAddr) -> Vec<FlowOp> {
        let Some(instance) = network.instance(instance) else {
            return Vec::new();
        };
        // Links are before routes.
        let is_hidden = |prefix: IpPrefix| {
            let mut beside = network.instances().iter().filter(|of| of.vrf == instance.vrf);
            beside.any(|of| of.connected().any(|link| link == prefix))
        };
        let by_it = instance.routes.iter().filter(|of| of.next_hop == router);
        by_it
            .filter(|of| !is_hidden(of.prefix))
            .map(|of| self.by_router(network, instance, of))
            .filter(|route| matches!(route.target, RouteTarget::Router(..)))
            .map(|route| FlowOp::Put(Object::Route(route)))
            .collect()
    }

    fn by_router(&self, network: &Network, instance: &NetworkInstance, of: &StaticRoute) -> Route {
        let target = match network.group_of(instance.vrf, of.prefix) {
            Some(group) => self.paths(network, group).unwrap_or(RouteTarget::Host),
            None => {
                let known = self.by_address.get(&(instance.id, of.next_hop));
                RouteTarget::Router(instance.id, known.copied())
            }
        };
        route(instance, of.prefix, target)
    }

    /// The paths of a group of routers, where all of these are behind the accelerator, which has room for the paths.
    /// Which router each of them leads to the adjacency of the path says, as it changes.
    fn paths(&self, network: &Network, group: GroupId) -> Option<RouteTarget> {
        let routers = network.groups().get(usize::from(group.0))?;
        let (instance, _) = *routers.first()?;
        let first = Adjacencies::first_path(self.neighbours, group);
        let has_room = first.0 + u32::from(PATHS) <= self.most_adjacencies;
        let are_behind = routers.iter().all(|(id, _)| self.is_behind(network, *id));
        (has_room && are_behind).then_some(RouteTarget::Paths(instance, first))
    }

    fn instance(&self, network: &Network, instance: &NetworkInstance) -> Instance {
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

fn submit(id: OpId, op: FlowOp, backend: &mut impl Backend) {
    backend.submit(Request {
        id,
        epoch: backend.epoch(),
        subject: Subject::Node,
        op,
    });
}

/// A route of the address space of an instance.
fn route(instance: &NetworkInstance, prefix: IpPrefix, target: RouteTarget) -> Route {
    Route {
        prefix: RoutePrefix {
            vrf: instance.vrf,
            prefix: prefix.address(),
            length: prefix.len(),
        },
        target,
    }
}

fn marks(instance: &NetworkInstance) -> Vec<QfiMark> {
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

/// The instance by whose link a path leaves.
fn instance_of(network: &Network, adjacency: &Neighbour) -> Option<InstanceId> {
    let has_its_tags = |instance: &&NetworkInstance| {
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

#[cfg(test)]
mod tests {
    use rules::testing;

    use super::*;

    const NEIGHBOURS: usize = 1024;
    const VRF: flow::VrfId = flow::VrfId(0);
    /// What has room for the paths of two groups.
    const CAN: Capabilities = Capabilities {
        adjacencies: NEIGHBOURS as u32 + 2 * PATHS as u32,
        ..Capabilities::NOTHING
    };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// The small network with these routes of N6, and of N9, which is another way to the data network.
    fn network(n6: &[(&str, &str)], n9: &[(&str, &str)]) -> Network {
        let mut instances = testing::network().instances().to_vec();
        instances[testing::N9.index()].roles = Roles::N6;
        for (id, routes) in [(testing::N6, n6), (testing::N9, n9)] {
            let routes = routes.iter().map(|(prefix, hop)| StaticRoute {
                prefix: prefix.parse().expect("a prefix"),
                next_hop: ip(hop),
            });
            instances[id.index()].routes = routes.collect();
        }
        Network::new(instances).expect("no contradictions")
    }

    /// Where what was given since has packets of the address space go, by prefix.
    fn given(objects: &mut NetworkObjects) -> BTreeMap<(IpAddr, u8), RouteTarget> {
        let mut targets = BTreeMap::new();
        for op in objects.queue.drain(..) {
            if let FlowOp::Put(Object::Route(Route { prefix, target })) = op
                && prefix.vrf == VRF
            {
                targets.insert((prefix.prefix, prefix.length), target);
            }
        }
        targets
    }

    /// Where the default route of a network leads that an accelerator is given which can do this, behind all ports but
    /// the first ones.
    fn default_of(network: &Network, own_ports: usize, can: &Capabilities) -> RouteTarget {
        let mut objects = NetworkObjects::new((own_ports, &[], NEIGHBOURS), std::iter::empty());
        objects.begin(network, can, false);
        given(&mut objects)[&(ip("0.0.0.0"), 0)]
    }

    #[test]
    fn a_route_over_several_routers_is_given_where_all_are_behind_and_paths_have_room() {
        let by_both = network(&[("0.0.0.0/0", "10.0.6.2"), ("0.0.0.0/0", "10.0.6.3")], &[]);
        let paths = RouteTarget::Paths(testing::N6, AdjacencyId(NEIGHBOURS as u32));
        assert_eq!(default_of(&by_both, 0, &CAN), paths);
        assert_eq!(default_of(&by_both, 1, &CAN), paths, "N6 is on the second port");
        assert_eq!(default_of(&by_both, 2, &CAN), RouteTarget::Host);
        let just = |adjacencies| Capabilities { adjacencies, ..CAN };
        let end = NEIGHBOURS as u32 + u32::from(PATHS);
        assert_eq!(default_of(&by_both, 0, &just(end)), paths);
        assert_eq!(default_of(&by_both, 0, &just(end - 1)), RouteTarget::Host);
        let by_two_links = network(&[("0.0.0.0/0", "10.0.6.2")], &[("0.0.0.0/0", "10.0.9.2")]);
        assert_eq!(default_of(&by_two_links, 1, &CAN), paths);
        assert_eq!(
            default_of(&by_two_links, 2, &CAN),
            RouteTarget::Host,
            "N9 alone is behind"
        );
    }

    #[test]
    fn routes_change_with_the_network() {
        let one = network(&[("0.0.0.0/0", "10.0.6.2")], &[]);
        let both = [("0.0.0.0/0", "10.0.6.2"), ("0.0.0.0/0", "10.0.6.3")];
        let two = network(&both, &[]).succeeding(&one).expect("it can");
        let other = [both[1], ("0.0.0.0/0", "10.0.6.4")];
        let other = network(&other, &[]).succeeding(&two).expect("it can");
        let mut objects = NetworkObjects::new((0, &[], NEIGHBOURS), std::iter::empty());
        objects.begin(&one, &CAN, false);
        let first = NEIGHBOURS as u32;
        let by = testing::N6;
        for (network, target) in [
            (&one, RouteTarget::Router(by, None)),
            (&two, RouteTarget::Paths(by, AdjacencyId(first))),
            (
                &other,
                RouteTarget::Paths(by, AdjacencyId(first + u32::from(PATHS))),
            ),
            (&one, RouteTarget::Router(by, None)),
        ] {
            objects.follow(network);
            assert_eq!(given(&mut objects)[&(ip("0.0.0.0"), 0)], target);
        }
    }

    #[test]
    fn a_router_that_has_another_number_is_found_by_that() {
        let network = network(&[("10.0.8.0/24", "10.0.6.2")], &[]);
        let mut objects = NetworkObjects::new((0, &[], NEIGHBOURS), std::iter::empty());
        objects.begin(&network, &CAN, false);
        let n6 = network.instance(testing::N6).expect("it is there");
        let resolved = Neighbour::resolved(&crate::interface(n6, &[]), MacAddr([2; 6]));
        let change = |id, adjacency| AdjacencyChange {
            id: AdjacencyId(id),
            neighbour: Some((testing::N6, ip("10.0.6.2"))),
            adjacency,
        };
        for one in [
            change(5, Some(resolved)),
            change(7, Some(resolved)),
            change(5, None),
        ] {
            objects.note_adjacency(&one, &network);
        }
        let by_it = RouteTarget::Router(testing::N6, Some(AdjacencyId(7)));
        assert_eq!(given(&mut objects)[&(ip("10.0.8.0"), 24)], by_it);
    }

    #[test]
    fn a_route_that_a_link_hides_is_not_given() {
        let hidden = [("10.0.9.0/24", "10.0.6.2"), ("10.0.8.0/24", "10.0.6.2")];
        let network = network(&hidden, &[]);
        let mut objects = NetworkObjects::new((0, &[], NEIGHBOURS), std::iter::empty());
        objects.begin(&network, &CAN, false);
        let link = RouteTarget::Link(testing::N9);
        assert_eq!(given(&mut objects)[&(ip("10.0.9.0"), 24)], link);
        let router = (testing::N6, ip("10.0.6.2"));
        objects.note_adjacency(
            &AdjacencyChange {
                id: AdjacencyId(5),
                neighbour: Some(router),
                adjacency: None,
            },
            &network,
        );
        let by_it = RouteTarget::Router(testing::N6, None);
        assert_eq!(
            given(&mut objects),
            BTreeMap::from([((ip("10.0.8.0"), 24), by_it)])
        );
    }
}
