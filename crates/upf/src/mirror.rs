//! Where the copies of a mirror go, from what an operator says: a port, or a host that the routes of a network instance
//! lead to.

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

/// What is copied, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorWanted {
    /// Where copies go.
    pub to: MirrorTo,
    /// As packets came in.
    pub received: bool,
    /// As they leave.
    pub sent: bool,
}

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTo {
    /// To a port, as they are.
    Port(PortId),
    /// Into a tunnel.
    Host {
        /// Of which kind.
        overlay: Overlay,
        /// Its other end.
        address: IpAddr,
        /// The instance whose address is at this end, and in whose routes the other is looked for.
        instance: InstanceId,
    },
}

/// Why copies cannot go where they should.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoWay {
    /// The instance has no address of the family of the other end.
    NoAddress,
    /// The instance has no route to the other end.
    NoRoute,
    /// The other end is this node.
    Ourselves,
    /// The other end is a UE.
    Ue,
    /// There is no room for another next hop.
    NoRoom,
}

impl fmt::Display for NoWay {
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
    /// What workers get, and what keeps the next hop for them.
    pub(super) fn resolve(
        &self,
        network: &Network,
        neighbours: &SharedNeighbours,
    ) -> Result<(CopyTerms, AdjacencyRef), NoWay> {
        let (to, hold) = match self.to {
            MirrorTo::Port(port) => (CopyTo::Port(port), AdjacencyRef::default()),
            MirrorTo::Host {
                overlay,
                address,
                instance,
            } => {
                let instance = network.instance(instance).ok_or(NoWay::NoRoute)?;
                if network.local(address).is_some() {
                    return Err(NoWay::Ourselves);
                }
                let mut instances = network.instances().iter();
                if instances.any(|one| one.ue_routes().any(|(prefix, _)| prefix.contains(address))) {
                    return Err(NoWay::Ue);
                }
                let addrs = ends(instance, address).ok_or(NoWay::NoAddress)?;
                let (next_hop, mtu, hold) = way(network, neighbours, instance, &addrs)?;
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

fn ends(instance: &Instance, address: IpAddr) -> Option<Addrs> {
    let own: IpAddr = match address {
        IpAddr::V4(_) => instance.ipv4?.0.into(),
        IpAddr::V6(_) => instance.ipv6?.0.into(),
    };
    addrs(own, address)
}

fn way(
    network: &Network,
    neighbours: &SharedNeighbours,
    instance: &Instance,
    addrs: &Addrs,
) -> Result<(AdjacencyId, u16, AdjacencyRef), NoWay> {
    match network
        .next_hop(instance.vrf, addrs.dst())
        .ok_or(NoWay::NoRoute)?
    {
        NextHop::Neighbour(egress, address) => {
            let id = neighbours.resolve(egress, address).ok_or(NoWay::NoRoom)?;
            let mtu = network.instance(egress).map_or(instance.mtu, |egress| egress.mtu);
            Ok((id, mtu, neighbours.hold(id)))
        }
        NextHop::Group(group) => {
            let spread = Spread::between(addrs.src(), addrs.dst());
            let id = neighbours.path(group, spread.path()).ok_or(NoWay::NoRoom)?;
            Ok((id, instance.mtu, AdjacencyRef::default()))
        }
    }
}
