//! Why a configuration makes no network.

use core::fmt;
use std::net::IpAddr;

use flow::{InstanceId, VrfId};

use super::instance::Route;
use nat::pools::PoolError;

use super::multipath::MOST_NEXT_HOPS;
use crate::prefix::IpPrefix;

/// A configuration that makes no network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NetworkError {
    /// An instance's id is not its place in the list.
    Misplaced(InstanceId),
    /// Two instances have the same name, or one has none.
    Name(String),
    /// An address with its prefix length out of range.
    PrefixLength {
        /// The instance's name.
        instance: String,
        /// Its address.
        address: IpAddr,
        /// The length, above 32 or 128.
        len: u8,
    },
    /// Two instances have the same own address.
    Address(IpAddr),
    /// A route whose next hop is of the other family, or no other node on the instance's link.
    NextHop {
        /// The instance's name.
        instance: String,
        /// The route.
        route: Route,
    },
    /// A route that is configured twice in an instance.
    RouteTwice {
        /// The instance's name.
        instance: String,
        /// The route.
        route: Route,
    },
    /// A prefix with more next hops in its VRF than [`MOST_NEXT_HOPS`].
    NextHops(VrfId, IpPrefix),
    /// A prefix with next hops both on instances towards data networks and on those where tunnels end: neither's
    /// packets may take the others' way.
    MixedNextHops(VrfId, IpPrefix),
    /// An instance towards a data network where tunnels end, too: UEs would reach the other ends of the tunnels.
    MixedRoles(String),
    /// An instance, and a prefix of its UEs that holds an address of its own, or of whose family it has none.
    UePrefix(String, IpPrefix),
    /// A forwarding policy without a name of its own, or that leads nowhere: by its name.
    Policy(String),
    /// A policer without a name of its own or sessions of its own.
    Policer(String),
    /// An access list without a name of its own or sessions of its own.
    AccessList(String),
    /// Access lists with more rules than can be numbered.
    AccessRules,
    /// Pools of public addresses that contradict each other, or one itself.
    NatPools(PoolError),
    /// A pool of public addresses, by its name, that is for the same sessions as another.
    NatScope(String),
    /// A pool of public addresses, by its name, whose instance cannot have it.
    NatInstance(String),
    /// Events of an application without an identifier of its own, or of no kind: by that identifier.
    Event(String),
}

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Misplaced(id) => write!(f, "network instance {} is not at its place in the list", id.0),
            Self::Name(name) => write!(f, "network instance name {name:?} is empty or used twice"),
            Self::PrefixLength {
                instance,
                address,
                len,
            } => {
                write!(
                    f,
                    "{instance}: {address}/{len}: a prefix has at most 32 (IPv4) or 128 (IPv6) bits"
                )
            }
            Self::Address(address) => write!(f, "{address} is the address of two network instances"),
            Self::NextHop { instance, route } => {
                write!(
                    f,
                    "{instance}: next hop {} of {} is no other node on the link",
                    route.next_hop, route.prefix
                )
            }
            Self::RouteTwice { instance, route } => {
                write!(
                    f,
                    "{instance}: the route to {} by {} is configured twice",
                    route.prefix, route.next_hop
                )
            }
            Self::NextHops(vrf, prefix) => write!(
                f,
                "VRF {}: {prefix} has more than {MOST_NEXT_HOPS} next hops",
                vrf.0
            ),
            Self::MixedNextHops(vrf, prefix) => write!(
                f,
                "VRF {}: routes to {prefix} by instances with role n6 and by others: give them VRFs of their own",
                vrf.0
            ),
            Self::Policy(name) => write!(
                f,
                "forwarding policy {name:?}: the name is empty or used twice, or its instance or next hop is none"
            ),
            Self::Policer(name) => write!(
                f,
                "policer {name:?}: the name is empty or used twice, or it is for all sessions or for the same as another"
            ),
            Self::AccessList(name) => write!(
                f,
                "access list {name:?}: the name is empty or used twice, or it is for the same sessions as another"
            ),
            Self::AccessRules => write!(f, "access lists: more than {} rules", u16::MAX),
            Self::NatPools(error) => write!(f, "nat_pools: {error}"),
            Self::NatScope(name) => write!(f, "NAT pool {name:?}: another is for the same sessions"),
            Self::NatInstance(name) => write!(
                f,
                "NAT pool {name:?}: its instance needs role n6 and an IPv4 address, and none of the pool's is this node's own"
            ),
            Self::Event(application) => write!(
                f,
                "events of application \"{application}\": the identifier is empty or used twice, or nothing is detected"
            ),
            Self::MixedRoles(name) => write!(
                f,
                "{name}: role n6 beside n3, n9 or n4u: UEs would reach gNBs; give each an instance of its own, on a VLAN or port"
            ),
            Self::UePrefix(instance, prefix) => write!(
                f,
                "{instance}: UEs' prefix {prefix} holds its own address, or it has no address of that family"
            ),
        }
    }
}

impl core::error::Error for NetworkError {}
