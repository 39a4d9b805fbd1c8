//! Resolvers, and the names for which they have given sessions addresses.

use std::net::IpAddr;
use std::time::Duration;

use packet::tuple::proto;
use rules::IpPrefix;
use rules::classifier::{PacketView, Side};

use super::address_names::AddressNames;
use super::host_pool::HostPool;
use crate::ResolverLimits;

/// Where resolvers answer (RFC 1035 §4.2.1).
const DNS: u16 = 53;

/// Resolvers, and the names for which they have given addresses.
pub(super) struct Resolvers {
    prefixes: Box<[IpPrefix]>,
    pub(super) names: AddressNames,
    /// What these are; flows' hosts take none of its room.
    pub(super) hosts: HostPool,
    least_s: u32,
    most_s: u32,
}

impl Resolvers {
    /// With all their memory. Sessions are numbers below `sessions`.
    pub(super) fn new(limits: &ResolverLimits, sessions: usize) -> Self {
        let seconds = |time: Duration| u32::try_from(time.as_secs()).unwrap_or(u32::MAX);
        Self {
            prefixes: limits.prefixes.clone().into(),
            hosts: HostPool::new(limits.room()),
            names: AddressNames::new(limits.room(), limits.per_session, sessions),
            least_s: seconds(limits.least),
            most_s: seconds(limits.most),
        }
    }

    /// Whether there are any.
    pub(super) fn is_empty(&self) -> bool {
        self.prefixes.is_empty()
    }

    /// Whether a packet is of a flow between the UE and one of them.
    pub(super) fn are_with(&self, view: &PacketView<'_>) -> bool {
        let tuple = view.tuple;
        let (address, port) = match view.side {
            Side::Tunnel { .. } => (tuple.addrs.dst(), tuple.dst_port),
            Side::Plain { .. } => (tuple.addrs.src(), tuple.src_port),
        };
        tuple.proto == proto::UDP && port == DNS && self.has(address)
    }

    fn has(&self, address: IpAddr) -> bool {
        self.prefixes.iter().any(|prefix| prefix.contains(address))
    }

    /// For how many seconds an address with this TTL is kept.
    pub(super) fn lifetime(&self, ttl_s: u32) -> u32 {
        ttl_s.min(self.most_s).max(self.least_s)
    }
}
