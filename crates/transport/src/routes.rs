//! Routes of plain packets: longest prefix match in its VRF, over connected prefixes and static routes.
//!
//! Each worker owns a copy, and so does Control. Prefixes are fixed once the table is made; which slot a router has
//! changes. `rules::network::Network::next_hop` is a plain implementation of the same rules.

use std::collections::HashSet;
use std::net::IpAddr;

use flow::contract::{self, RouteTarget};
use flow::{AdjacencyId, InstanceId, VrfId};

use rules::network::multipath::GroupId;
use rules::network::{Instance, Network, UeRoute};
use rules::prefix::IpPrefix;

use crate::fib::{Fib, FibPrefix};

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The destination is on the link: it is its own next hop.
    Connected,
    /// Through a router.
    Gateway {
        /// The router's address.
        address: IpAddr,
        /// The router's slot, once Control has assigned one.
        adjacency: Option<AdjacencyId>,
    },
    /// Through one of several routers, by the packet's path.
    Group(GroupId),
    /// Nowhere: UEs may not reach each other.
    Nowhere,
    /// Through the router or path in this slot.
    Slot(AdjacencyId),
    /// Through one of the paths in the slots from this one on, by the packet's path.
    Paths(AdjacencyId),
    /// Not by what is here: the host of this accelerator knows.
    Host,
}

impl Via {
    /// Through a router whose slot is not known yet.
    const fn through(address: IpAddr) -> Self {
        Self::Gateway {
            address,
            adjacency: None,
        }
    }
}

/// The route to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The instance that the packet leaves by; of a group that of its first route.
    pub instance: InstanceId,
    /// The next hop on its link.
    pub via: Via,
}

impl Hop {
    const fn by(instance: &Instance, via: Via) -> Self {
        let instance = instance.id;
        Self { instance, via }
    }
}

/// Prefixes of one VRF. Their value is the index of a hop.
#[derive(Clone)]
struct Tables {
    ipv4: Fib<4>,
    ipv6: Fib<16>,
}

/// The routes of every VRF.
#[derive(Clone)]
pub struct Routes {
    /// By [`VrfId`].
    vrfs: Vec<Tables>,
    /// What prefixes lead to.
    hops: Vec<Hop>,
}

impl Routes {
    /// The connected prefixes, static routes and UEs' prefixes of `network`. Of equal ones in a VRF the first connected
    /// counts, else all static ones together, else the first of UEs. The route to UEs has an own address as its
    /// gateway.
    pub fn new(network: &Network) -> Self {
        let mut drafts = Drafts::default();
        for instance in network.instances() {
            let hop = Hop::by(instance, Via::Connected);
            instance
                .connected()
                .for_each(|prefix| drafts.add(instance.vrf, prefix, hop));
        }
        for instance in network.instances() {
            for route in &instance.routes {
                let group = network.group_of(instance.vrf, route.prefix);
                let via = group.map_or_else(|| Via::through(route.next_hop), Via::Group);
                drafts.add(instance.vrf, route.prefix, Hop::by(instance, via));
            }
        }
        for instance in network.instances() {
            for (prefix, way) in network.ue_routes(instance) {
                let via = match way {
                    UeRoute::Ourselves(address) => Via::through(address),
                    UeRoute::Nowhere => Via::Nowhere,
                };
                drafts.add(instance.vrf, prefix, Hop::by(instance, via));
            }
        }
        drafts.finish()
    }

    /// These routes, as an accelerator's host says them. Of equal prefixes the first counts; one that has no length of
    /// its family is left out.
    pub fn of_host(routes: impl IntoIterator<Item = contract::Route>) -> Self {
        let mut drafts = Drafts::default();
        for contract::Route { prefix, target } in routes {
            let hop = match target {
                RouteTarget::Link(instance) => (instance, Via::Connected),
                RouteTarget::Router(instance, Some(slot)) => (instance, Via::Slot(slot)),
                RouteTarget::Paths(instance, first) => (instance, Via::Paths(first)),
                RouteTarget::Router(instance, None) => (instance, Via::Host),
                RouteTarget::Host => (InstanceId(0), Via::Host),
            };
            let (instance, via) = hop;
            if let Some(address) = IpPrefix::new(prefix.prefix, prefix.length) {
                drafts.add(prefix.vrf, address, Hop { instance, via });
            }
        }
        drafts.finish()
    }

    /// The route to `destination` in `vrf`.
    #[inline(always)]
    pub fn lookup(&self, vrf: VrfId, destination: IpAddr) -> Option<&Hop> {
        let tables = self.vrfs.get(usize::from(vrf.0))?;
        let index = match destination {
            IpAddr::V4(address) => tables.ipv4.lookup(address.octets()),
            IpAddr::V6(address) => tables.ipv6.lookup(address.octets()),
        };
        self.hops.get(index? as usize)
    }

    /// The slot of a router of `instance` came or went.
    pub fn bind(&mut self, instance: InstanceId, gateway: IpAddr, id: Option<AdjacencyId>) {
        for hop in self.hops.iter_mut().filter(|hop| hop.instance == instance) {
            match &mut hop.via {
                Via::Gateway { address, adjacency } if *address == gateway => *adjacency = id,
                _ => {}
            }
        }
    }

    /// The router of every route with one router, once for each route.
    pub fn gateways(&self) -> impl Iterator<Item = (InstanceId, IpAddr)> + '_ {
        self.hops.iter().filter_map(|hop| match hop.via {
            Via::Gateway { address, .. } => Some((hop.instance, address)),
            _ => None,
        })
    }
}

/// A prefix of a VRF and the hop that it leads to.
struct DraftRoute {
    vrf: VrfId,
    prefix: IpPrefix,
    hop: Hop,
}

/// The prefixes of all VRFs, in the order in which they were added.
#[derive(Default)]
struct Drafts {
    all: Vec<DraftRoute>,
    known: HashSet<(VrfId, IpPrefix)>,
}

impl Drafts {
    /// Adds a prefix, unless it is there.
    fn add(&mut self, vrf: VrfId, prefix: IpPrefix, hop: Hop) {
        if self.known.insert((vrf, prefix)) {
            self.all.push(DraftRoute { vrf, prefix, hop });
        }
    }

    fn finish(self) -> Routes {
        let last = self.all.iter().map(|route| route.vrf.0).max();
        let vrfs = (0..=last.unwrap_or_default()).map(|vrf| self.tables(VrfId(vrf)));
        Routes {
            vrfs: vrfs.collect(),
            hops: self.all.iter().map(|route| route.hop).collect(),
        }
    }

    fn tables(&self, of: VrfId) -> Tables {
        let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
        let all = self.all.iter().zip(0_u32..);
        for (DraftRoute { prefix, .. }, value) in all.filter(|(route, _)| route.vrf == of) {
            let length = prefix.len();
            match prefix.address() {
                IpAddr::V4(network) => ipv4.push(FibPrefix {
                    network: network.octets(),
                    length,
                    value,
                }),
                IpAddr::V6(network) => ipv6.push(FibPrefix {
                    network: network.octets(),
                    length,
                    value,
                }),
            }
        }
        Tables {
            ipv4: Fib::new(ipv4),
            ipv6: Fib::new(ipv6),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rules::network::multipath::NextHop;
    use rules::network::{Hairpin, Route};
    use rules::testing;

    use super::*;

    const VRF: VrfId = VrfId(0);

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    /// The small network with these routes in instance N6 in place of its own.
    fn network(routes: &[(&str, &str)]) -> Network {
        let mut instances = testing::network().instances().to_vec();
        instances[testing::N6.index()].routes = routes
            .iter()
            .map(|(prefix, hop)| Route {
                prefix: prefix.parse().expect("a prefix"),
                next_hop: ip(hop),
            })
            .collect();
        Network::new(instances).expect("no contradictions")
    }

    fn hop(routes: &Routes, to: &str) -> Option<(InstanceId, Via)> {
        let hop = routes.lookup(VRF, ip(to))?;
        Some((hop.instance, hop.via))
    }

    #[test]
    fn the_longest_prefix_wins_and_then_the_link() {
        let network = network(&[
            ("0.0.0.0/0", "10.0.6.254"),
            ("198.51.100.0/24", "10.0.6.2"),
            ("198.51.100.128/25", "10.0.6.3"),
            ("10.0.3.0/24", "10.0.6.4"),
            ("2001:db8:1::/48", "2001:db8:6::9"),
        ]);
        let routes = Routes::new(&network);
        let by = |hop: &str| Some((testing::N6, Via::through(ip(hop))));
        assert_eq!(hop(&routes, "8.8.8.8"), by("10.0.6.254"));
        assert_eq!(hop(&routes, "10.0.6.5"), Some((testing::N6, Via::Connected)));
        assert_eq!(hop(&routes, "198.51.100.127"), by("10.0.6.2"));
        assert_eq!(hop(&routes, "198.51.100.128"), by("10.0.6.3"));
        let link = Some((testing::N3, Via::Connected));
        assert_eq!(hop(&routes, "10.0.3.7"), link, "a link is before routes");
        assert_eq!(hop(&routes, "2001:db8:1::9"), by("2001:db8:6::9"));
        assert_eq!(hop(&routes, "2001:db9::9"), None);
        assert_eq!(routes.lookup(VrfId(9), ip("8.8.8.8")), None);
        let all = network.instances().iter().map(|instance| instance.routes.len());
        let but_the_hidden_one = all.sum::<usize>() - 1;
        assert_eq!(routes.gateways().count(), but_the_hidden_one);
    }

    #[test]
    fn a_host_says_whereto_prefixes_lead() {
        let route = |prefix: &str, length, target| contract::Route {
            prefix: contract::RoutePrefix {
                vrf: VRF,
                prefix: ip(prefix),
                length,
            },
            target,
        };
        let by = InstanceId(3);
        let routes = Routes::of_host([
            route("0.0.0.0", 0, RouteTarget::Paths(by, AdjacencyId(8))),
            route("10.0.6.0", 24, RouteTarget::Link(by)),
            route("10.0.7.0", 24, RouteTarget::Router(by, Some(AdjacencyId(2)))),
            route("10.0.8.0", 24, RouteTarget::Router(by, None)),
            route("2001:db8::", 32, RouteTarget::Host),
            route("10.0.9.0", 33, RouteTarget::Host),
        ]);
        let hops = [
            ("192.0.2.1", Some((by, Via::Paths(AdjacencyId(8))))),
            ("10.0.6.9", Some((by, Via::Connected))),
            ("10.0.7.9", Some((by, Via::Slot(AdjacencyId(2))))),
            ("10.0.8.9", Some((by, Via::Host))),
            ("10.0.9.9", Some((by, Via::Paths(AdjacencyId(8))))),
            ("2001:db8::1", Some((InstanceId(0), Via::Host))),
            ("2001:db9::1", None),
        ];
        for (destination, expected) in hops {
            assert_eq!(hop(&routes, destination), expected, "{destination}");
        }
    }

    #[test]
    fn routes_of_one_prefix_are_a_group() {
        let network = network(&[
            ("0.0.0.0/0", "10.0.6.2"),
            ("0.0.0.0/0", "10.0.6.3"),
            ("192.0.2.0/24", "10.0.6.3"),
        ]);
        let routes = Routes::new(&network);
        assert_eq!(
            hop(&routes, "8.8.8.8"),
            Some((testing::N6, Via::Group(GroupId(0))))
        );
        assert_eq!(
            hop(&routes, "192.0.2.1"),
            Some((testing::N6, Via::through(ip("10.0.6.3"))))
        );
    }

    #[test]
    fn prefixes_of_ues_join_no_route() {
        let mut instances = network(&[("10.45.0.0/16", "10.0.6.2")]).instances().to_vec();
        let prefixes = ["10.45.0.0/16", "10.46.0.0/16"].map(|prefix| prefix.parse().expect("a prefix"));
        instances[testing::N6.index()].hairpin = Hairpin::Local(prefixes.to_vec());
        let routes = Routes::new(&Network::new(instances).expect("no contradictions"));
        assert_eq!(
            hop(&routes, "10.45.0.1"),
            Some((testing::N6, Via::through(ip("10.0.6.2"))))
        );
        assert_eq!(
            hop(&routes, "10.46.0.1"),
            Some((testing::N6, Via::through(ip("10.0.6.1"))))
        );
    }

    #[test]
    fn routers_are_bound_to_their_slots() {
        let network = network(&[("0.0.0.0/0", "10.0.6.2")]);
        let mut routes = Routes::new(&network);
        routes.bind(testing::N6, ip("10.0.6.2"), Some(AdjacencyId(7)));
        routes.bind(testing::N9, ip("10.0.6.2"), Some(AdjacencyId(8)));
        let bound = Via::Gateway {
            address: ip("10.0.6.2"),
            adjacency: Some(AdjacencyId(7)),
        };
        assert_eq!(hop(&routes, "8.8.8.8"), Some((testing::N6, bound)));
    }

    fn route() -> impl Strategy<Value = Route> {
        let octet = || prop::sample::select(vec![0_u8, 1, 10, 45]);
        let drawn = ((octet(), octet(), octet()), 0..=24_u8, 2..6_u8);
        drawn.prop_map(|((a, b, c), length, hop)| {
            let network =
                u32::from_be_bytes([a, b, c, 0]) & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            Route {
                prefix: IpPrefix::new(network.to_be_bytes().into(), length).expect("a prefix"),
                next_hop: IpAddr::from([10, 0, 6, hop]),
            }
        })
    }

    proptest! {
        #[test]
        fn the_table_says_what_the_network_says(
            drawn in prop::collection::vec(route(), 0..30),
            probes in prop::collection::vec(any::<[u8; 2]>(), 30),
        ) {
            let mut instances = testing::network().instances().to_vec();
            let n6 = &mut instances[testing::N6.index()].routes;
            n6.clear();
            drawn.into_iter().for_each(|route| if !n6.contains(&route) { n6.push(route) });
            let network = Network::new(instances).expect("no contradictions");
            let routes = Routes::new(&network);
            for [a, b] in probes {
                let to = IpAddr::from([a % 46, b % 46, b % 3, b]);
                let expected = network.next_hop(VRF, to);
                let found = routes.lookup(VRF, to).map(|hop| match hop.via {
                    Via::Gateway { address, .. } => NextHop::Neighbour(hop.instance, address),
                    Via::Group(group) => NextHop::Group(group),
                    _ => NextHop::Neighbour(hop.instance, to),
                });
                prop_assert_eq!(found, expected);
            }
        }
    }
}
