//! The destination of a mirror's copies: a port, or a host that the routes of a network instance lead to.

use std::fmt;
use std::net::IpAddr;

use flow::{AdjacencyId, InstanceId, PortId};
use packet::Addrs;
use packet::build::packet::addrs;
use packet::overlay::Overlay;
use rules::network::multipath::{NextHop, Spread};
use rules::network::{Instance, Network};
use rules::{Adjacencies, AdjacencyRef};
use worker::{CopyTerms, CopyTo};

use super::neighbours::SharedNeighbours;

/// A mirror request: destination, and which packets are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorWanted {
    /// Where copies go.
    pub to: MirrorTo,
    /// Packets as they are received.
    pub received: bool,
    /// Packets as they are sent.
    pub sent: bool,
}

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTo {
    /// To a port, without another header.
    Port(PortId),
    /// To a host, in a tunnel.
    Host {
        /// The kind of tunnel.
        overlay: Overlay,
        /// The address of the host.
        address: IpAddr,
        /// The instance whose address is the source of the tunnel, and whose routes lead to the host.
        instance: InstanceId,
    },
}

/// Why a destination of copies is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorFault {
    /// The instance has no address of the family of the host.
    NoAddress,
    /// The instance has no route to the host.
    NoRoute,
    /// The host is this node.
    Ourselves,
    /// The host is a UE.
    Ue,
    /// The table of next hops is full.
    NoRoom,
}

impl fmt::Display for MirrorFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "the network instance has no address of that family",
            Self::NoRoute => "the network instance has no route to that address",
            Self::Ourselves => "that address is one of this node's own",
            Self::Ue => "that address is a UE's",
            Self::NoRoom => "there is no room for another next hop",
        })
    }
}

impl MirrorWanted {
    /// The terms for workers, and a reference that keeps the next hop alive.
    pub(super) fn resolve(
        &self,
        network: &Network,
        neighbours: &SharedNeighbours,
    ) -> Result<(CopyTerms, AdjacencyRef), MirrorFault> {
        let (to, hold) = match self.to {
            MirrorTo::Port(port) => (CopyTo::Port(port), AdjacencyRef::default()),
            MirrorTo::Host {
                overlay,
                address,
                instance,
            } => {
                let instance = network.instance(instance).ok_or(MirrorFault::NoRoute)?;
                if network.local(address).is_some() {
                    return Err(MirrorFault::Ourselves);
                }
                let mut instances = network.instances().iter();
                if instances.any(|one| network.ue_routes(one).any(|(prefix, _)| prefix.contains(address))) {
                    return Err(MirrorFault::Ue);
                }
                let addrs = tunnel_addresses(instance, address).ok_or(MirrorFault::NoAddress)?;
                let TunnelNextHop { next_hop, mtu, hold } =
                    tunnel_next_hop(network, neighbours, instance, &addrs)?;
                let to = CopyTo::Tunnel {
                    overlay,
                    addrs,
                    next_hop,
                    mtu,
                };
                (to, hold)
            }
        };
        let Self { received, sent, .. } = *self;
        Ok((CopyTerms { to, received, sent }, hold))
    }
}

fn tunnel_addresses(instance: &Instance, address: IpAddr) -> Option<Addrs> {
    let own: IpAddr = match address {
        IpAddr::V4(_) => instance.ipv4?.0.into(),
        IpAddr::V6(_) => instance.ipv6?.0.into(),
    };
    addrs(own, address)
}

/// The next hop of a tunnel, the MTU of its L3 interface, and a reference that keeps the next hop alive.
struct TunnelNextHop {
    next_hop: AdjacencyId,
    mtu: u16,
    hold: AdjacencyRef,
}

fn tunnel_next_hop(
    network: &Network,
    neighbours: &SharedNeighbours,
    instance: &Instance,
    addrs: &Addrs,
) -> Result<TunnelNextHop, MirrorFault> {
    match network
        .next_hop(instance.vrf, addrs.dst())
        .ok_or(MirrorFault::NoRoute)?
    {
        NextHop::Neighbour(egress, address) => {
            let id = neighbours.resolve(egress, address).ok_or(MirrorFault::NoRoom)?;
            let mtu = network.instance(egress).map_or(instance.mtu, |egress| egress.mtu);
            Ok(TunnelNextHop {
                next_hop: id,
                mtu,
                hold: neighbours.hold(id),
            })
        }
        NextHop::Group(group) => {
            let spread = Spread::between(addrs.src(), addrs.dst());
            let id = neighbours.path(group, spread.path()).ok_or(MirrorFault::NoRoom)?;
            Ok(TunnelNextHop {
                next_hop: id,
                mtu: instance.mtu,
                hold: AdjacencyRef::default(),
            })
        }
    }
}
