//! Where a plain packet goes: longest prefix match in its VRF, over connected prefixes and static routes.
//!
//! Each worker owns a copy, and so does Control. A VRF has tens of prefixes, searched in order, longest first; full
//! BGP tables are not for here. `rules::network::Network::route` is the plain reading of the same rules.

use std::net::IpAddr;
use std::ops::BitAnd;

use flow::{AdjacencyId, InstanceId, VrfId};
use rules::network::{Network, UeRoute};
use rules::prefix::IpPrefix;

/// How a destination is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// The destination is on the link: it is its own next hop.
    Connected,
    /// Through a router.
    Gateway {
        /// The router's address.
        address: IpAddr,
        /// The router's slot, once Control has told it.
        adjacency: Option<AdjacencyId>,
    },
    /// Nowhere: UEs may not reach each other.
    Nowhere,
}

#[derive(Clone, Copy)]
struct Entry<A> {
    network: A,
    mask: A,
    length: u8,
    hop: Hop,
}

#[derive(Clone)]
struct Table<A>(Vec<Entry<A>>);

impl<A: Copy + Eq + BitAnd<Output = A>> Table<A> {
    /// Adds a prefix; one that is there already stays.
    fn add(&mut self, entry: Entry<A>) {
        let place = self.0.partition_point(|other| other.length > entry.length);
        let same = |other: &Entry<A>| other.length == entry.length && other.network == entry.network;
        if !self.0.iter().any(same) {
            self.0.insert(place, entry);
        }
    }

    #[inline(always)]
    fn lookup(&self, address: A) -> Option<&Hop> {
        let mut entries = self.0.iter();
        let found = entries.find(|entry| address & entry.mask == entry.network)?;
        Some(&found.hop)
    }

    fn bind(&mut self, instance: InstanceId, gateway: IpAddr, id: Option<AdjacencyId>) {
        for Entry { hop, .. } in &mut self.0 {
            match &mut hop.via {
                Via::Gateway { address, adjacency } if *address == gateway && hop.instance == instance => {
                    *adjacency = id;
                }
                _ => {}
            }
        }
    }
}

impl<A> Default for Table<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

#[derive(Clone, Default)]
struct Tables {
    ipv4: Table<u32>,
    ipv6: Table<u128>,
}

/// The way to a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The instance that the packet leaves by.
    pub instance: InstanceId,
    /// The next hop on its link.
    pub via: Via,
}

/// The routes of every VRF.
#[derive(Clone, Default)]
pub struct Routes {
    /// By [`VrfId`].
    vrfs: Vec<Tables>,
}

impl Routes {
    /// The connected prefixes, static routes and UEs' prefixes of `network`. The way to UEs is by a gateway that is
    /// ourselves.
    pub fn new(network: &Network) -> Self {
        let mut routes = Self::default();
        for instance in network.instances() {
            for prefix in instance.connected() {
                routes.add(
                    instance.vrf,
                    prefix,
                    Hop {
                        instance: instance.id,
                        via: Via::Connected,
                    },
                );
            }
        }
        for instance in network.instances() {
            for route in &instance.routes {
                let via = Via::Gateway {
                    address: route.next_hop,
                    adjacency: None,
                };
                routes.add(
                    instance.vrf,
                    route.prefix,
                    Hop {
                        instance: instance.id,
                        via,
                    },
                );
            }
        }
        for instance in network.instances() {
            for (prefix, way) in instance.ue_routes() {
                let via = match way {
                    UeRoute::Ourselves(address) => Via::Gateway {
                        address,
                        adjacency: None,
                    },
                    UeRoute::Nowhere => Via::Nowhere,
                };
                let instance_id = instance.id;
                routes.add(
                    instance.vrf,
                    prefix,
                    Hop {
                        instance: instance_id,
                        via,
                    },
                );
            }
        }
        routes
    }

    /// Adds a prefix to a VRF. The first of two equal prefixes stays.
    pub fn add(&mut self, vrf: VrfId, prefix: IpPrefix, hop: Hop) {
        let slot = usize::from(vrf.0);
        if self.vrfs.len() <= slot {
            self.vrfs.resize(slot + 1, Tables::default());
        }
        let (tables, length) = (&mut self.vrfs[slot], prefix.len());
        match prefix.address() {
            IpAddr::V4(network) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                tables.ipv4.add(Entry {
                    network: network.to_bits(),
                    mask,
                    length,
                    hop,
                });
            }
            IpAddr::V6(network) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                tables.ipv6.add(Entry {
                    network: network.to_bits(),
                    mask,
                    length,
                    hop,
                });
            }
        }
    }

    /// The way to `destination` in `vrf`.
    #[inline(always)]
    pub fn lookup(&self, vrf: VrfId, destination: IpAddr) -> Option<&Hop> {
        let tables = self.vrfs.get(usize::from(vrf.0))?;
        match destination {
            IpAddr::V4(address) => tables.ipv4.lookup(address.to_bits()),
            IpAddr::V6(address) => tables.ipv6.lookup(address.to_bits()),
        }
    }

    /// The slot of a router of `instance` came or went.
    pub fn bind(&mut self, instance: InstanceId, gateway: IpAddr, id: Option<AdjacencyId>) {
        for tables in &mut self.vrfs {
            tables.ipv4.bind(instance, gateway, id);
            tables.ipv6.bind(instance, gateway, id);
        }
    }

    /// Every router that a route leads through, once for each route.
    pub fn gateways(&self) -> impl Iterator<Item = (InstanceId, IpAddr)> + '_ {
        let hops = |tables: &Tables| {
            let v4 = tables.ipv4.0.iter().map(|entry| entry.hop);
            v4.chain(tables.ipv6.0.iter().map(|entry| entry.hop))
                .collect::<Vec<_>>()
        };
        self.vrfs.iter().flat_map(hops).filter_map(|hop| match hop.via {
            Via::Gateway { address, .. } => Some((hop.instance, address)),
            Via::Connected | Via::Nowhere => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const N6: InstanceId = InstanceId(1);
    const VRF: VrfId = VrfId(1);

    fn gateway(last: u8) -> Hop {
        Hop {
            instance: N6,
            via: Via::Gateway {
                address: IpAddr::from([192, 0, 2, last]),
                adjacency: None,
            },
        }
    }

    const CONNECTED: Hop = Hop {
        instance: N6,
        via: Via::Connected,
    };

    fn routes() -> Routes {
        let mut routes = Routes::default();
        let mut add = |prefix: &str, hop| routes.add(VRF, prefix.parse().expect("a prefix"), hop);
        add("0.0.0.0/0", gateway(1));
        add("192.0.2.0/24", CONNECTED);
        add("198.51.100.0/24", gateway(2));
        add("198.51.100.128/25", gateway(3));
        add("198.51.100.128/25", CONNECTED);
        add("2001:db8::/32", CONNECTED);
        routes
    }

    #[test]
    fn the_longest_prefix_wins_and_then_the_first() {
        let routes = routes();
        let hop = |to: &str| routes.lookup(VRF, to.parse().expect("an address")).copied();
        assert_eq!(hop("8.8.8.8"), Some(gateway(1)));
        assert_eq!(hop("192.0.2.5"), Some(CONNECTED));
        assert_eq!(hop("198.51.100.127"), Some(gateway(2)));
        assert_eq!(hop("198.51.100.128"), Some(gateway(3)));
        assert_eq!((hop("2001:db8::9"), hop("2001:db9::9")), (Some(CONNECTED), None));
        assert_eq!(routes.lookup(VrfId(0), IpAddr::from([8, 8, 8, 8])), None);
        assert_eq!(routes.lookup(VrfId(9), IpAddr::from([8, 8, 8, 8])), None);
        assert_eq!(routes.gateways().count(), 3);
    }

    #[test]
    fn routers_are_bound_to_their_slots() {
        let mut routes = routes();
        routes.bind(N6, IpAddr::from([192, 0, 2, 2]), Some(AdjacencyId(7)));
        routes.bind(InstanceId(2), IpAddr::from([192, 0, 2, 2]), Some(AdjacencyId(8)));
        let hop = routes
            .lookup(VRF, IpAddr::from([198, 51, 100, 1]))
            .expect("there is a route");
        assert!(matches!(
            hop.via,
            Via::Gateway {
                adjacency: Some(AdjacencyId(7)),
                ..
            }
        ));
    }
}
