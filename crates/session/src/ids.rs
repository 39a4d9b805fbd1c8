//! Identifiers of requests, sessions and associations.

use packet::Teid;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The caller's own number for a request, which its outcome has. Unique among requests in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    /// A session follows a changed configuration. The caller has no request with this number.
    pub(crate) const RECOMPILATION: Ticket = Ticket(u64::MAX);
    /// It could not follow in all, and follows the network alone.
    pub(crate) const RECOMPILATION_FOR_NETWORK: Ticket = Ticket(u64::MAX - 1);

    pub(crate) fn is_of_recompilation(self) -> bool {
        self >= Ticket::RECOMPILATION_FOR_NETWORK
    }
}

/// A local SEID: random, unguessable and never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seid(pub u64);

/// The number of an association, the caller's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssociationId(pub u32);

/// The control plane's F-SEID (TS 29.244 §8.2.37).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpFSeid {
    /// Its SEID.
    pub seid: u64,
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

/// A peer's tunnel endpoint, as Outer Header Creation names it.
pub(crate) type RemoteTunnel = (IpAddr, Teid);
