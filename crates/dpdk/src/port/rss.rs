//! Receive-side scaling: the port's Toeplitz hash over header fields picks the receive queue.

use std::ops::BitOr;

use dpdk_sys as sys;

use crate::error::Error;

/// Header fields and packet kinds that a port may hash, as a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RssFields(u64);

impl RssFields {
    /// Nothing.
    pub const NONE: RssFields = RssFields(0);
    /// Source and destination address of IPv4 packets, fragments included.
    pub const IPV4: RssFields = RssFields(
        sys::SHIM_ETH_RSS_IPV4 | sys::SHIM_ETH_RSS_FRAG_IPV4 | sys::SHIM_ETH_RSS_NONFRAG_IPV4_OTHER,
    );
    /// Source and destination address of IPv6 packets, fragments included.
    pub const IPV6: RssFields = RssFields(
        sys::SHIM_ETH_RSS_IPV6 | sys::SHIM_ETH_RSS_FRAG_IPV6 | sys::SHIM_ETH_RSS_NONFRAG_IPV6_OTHER,
    );
    /// Addresses and ports of UDP.
    pub const UDP: RssFields =
        RssFields(sys::SHIM_ETH_RSS_NONFRAG_IPV4_UDP | sys::SHIM_ETH_RSS_NONFRAG_IPV6_UDP);
    /// Addresses and ports of TCP.
    pub const TCP: RssFields =
        RssFields(sys::SHIM_ETH_RSS_NONFRAG_IPV4_TCP | sys::SHIM_ETH_RSS_NONFRAG_IPV6_TCP);
    /// Source and destination address of IPv4, for rules that say what packets they are about.
    pub const IPV4_ADDRESSES: RssFields = RssFields(sys::SHIM_ETH_RSS_IPV4);
    /// The same of IPv6.
    pub const IPV6_ADDRESSES: RssFields = RssFields(sys::SHIM_ETH_RSS_IPV6);
    /// The TEID of GTP-U.
    pub const GTPU: RssFields = RssFields(sys::SHIM_ETH_RSS_GTPU);
    /// Not a field: of addresses, only the source.
    pub const SOURCE_ONLY: RssFields = RssFields((sys::SHIM_ETH_RSS_L3_SRC_ONLY_HIGH as u64) << 32);
    /// Not a field: of addresses, only the destination.
    pub const DESTINATION_ONLY: RssFields = RssFields(sys::SHIM_ETH_RSS_L3_DST_ONLY);
    /// Not a field: of IPv6 addresses, only the first 64 bits.
    pub const PREFIX_64: RssFields = RssFields(sys::SHIM_ETH_RSS_L3_PRE64);
    /// Not a field: take the fields of the innermost headers (the UE's packet inside GTP-U).
    pub const INNERMOST: RssFields = RssFields(sys::SHIM_ETH_RSS_LEVEL_INNERMOST);

    /// The names, to report with.
    const NAMED: [(RssFields, &'static str); 9] = [
        (RssFields::IPV4, "ipv4"),
        (RssFields::IPV6, "ipv6"),
        (RssFields::UDP, "udp"),
        (RssFields::TCP, "tcp"),
        (RssFields::GTPU, "gtpu"),
        (RssFields::SOURCE_ONLY, "source only"),
        (RssFields::DESTINATION_ONLY, "destination only"),
        (RssFields::PREFIX_64, "first 64 bits"),
        (RssFields::INNERMOST, "innermost"),
    ];

    /// Those of this set that are in `other`, too.
    pub fn and(self, other: RssFields) -> RssFields {
        RssFields(self.0 & other.0)
    }

    /// Whether all of `other` is in this set.
    pub fn contains(self, other: RssFields) -> bool {
        self.0 & other.0 == other.0
    }

    /// The names of what is in this set, in whole or in part.
    pub fn names(self) -> Vec<&'static str> {
        let named = RssFields::NAMED.iter();
        named
            .filter(|(fields, _)| self.0 & fields.0 != 0)
            .map(|(_, name)| *name)
            .collect()
    }

    pub(super) fn bits(self) -> u64 {
        self.0
    }

    pub(super) fn of(info: &sys::rte_eth_dev_info) -> RssFields {
        RssFields(info.flow_type_rss_offloads)
    }
}

impl BitOr for RssFields {
    type Output = RssFields;

    fn bitor(self, other: RssFields) -> RssFields {
        RssFields(self.0 | other.0)
    }
}

/// What says which of the fields, and is none.
const NO_FIELDS: u64 = sys::SHIM_ETH_RSS_LEVEL_INNERMOST
    | sys::SHIM_ETH_RSS_LEVEL_OUTERMOST
    | RssFields::SOURCE_ONLY.0
    | sys::SHIM_ETH_RSS_L3_DST_ONLY
    | sys::SHIM_ETH_RSS_L3_PRE64;

/// How received packets shall be spread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RssConfig {
    /// What is hashed.
    pub fields: RssFields,
    /// The Toeplitz key, of the length in [`Capabilities`](super::Capabilities) (40 or 52 octets on most NICs);
    /// None: the driver's. A key of 0x6d5a repeated hashes both directions of a flow alike.
    pub key: Option<Vec<u8>>,
}

/// What became of a [`RssConfig`]: a port does what it can, and what it cannot is reported here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RssStatus {
    /// None was asked for.
    NotRequested,
    /// All of it is in force.
    Applied(RssFields),
    /// Some of it is in force.
    Reduced {
        /// What is hashed.
        applied: RssFields,
        /// What was asked for in vain.
        missing: RssFields,
    },
    /// The port cannot spread by any of it: all packets come to queue 0, or wherever the driver likes.
    Unsupported,
}

impl RssStatus {
    pub(super) fn resolve(config: Option<&RssConfig>, info: &sys::rte_eth_dev_info) -> RssStatus {
        match config {
            None => RssStatus::NotRequested,
            Some(config) => RssStatus::split(config.fields, RssFields::of(info)),
        }
    }

    fn split(wanted: RssFields, able: RssFields) -> RssStatus {
        let applied = RssFields(wanted.0 & able.0);
        let missing = RssFields(wanted.0 & !able.0);
        // A level alone, without a field, spreads nothing.
        let spreads = applied.0 & !NO_FIELDS != 0;
        match (spreads, missing) {
            (false, _) => RssStatus::Unsupported,
            (true, RssFields::NONE) => RssStatus::Applied(applied),
            (true, missing) => RssStatus::Reduced { applied, missing },
        }
    }
}

/// A key must have the driver's length.
pub(super) fn check_key(key: &[u8], info: &sys::rte_eth_dev_info) -> Result<(), Error> {
    let bound = match info.hash_key_size {
        0 => "this port has no key to set".to_owned(),
        size if usize::from(size) == key.len() => return Ok(()),
        size => format!("this port takes {size} octets"),
    };
    Err(Error::config("rss.key", format!("{} octets", key.len()), bound))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_port_lacks_is_reported() {
        let wanted = RssFields::IPV4 | RssFields::UDP | RssFields::INNERMOST;
        assert_eq!(
            RssStatus::split(wanted, wanted | RssFields::TCP),
            RssStatus::Applied(wanted)
        );
        let applied = RssFields::IPV4 | RssFields::UDP;
        let missing = RssFields::INNERMOST;
        assert_eq!(
            RssStatus::split(wanted, applied),
            RssStatus::Reduced { applied, missing }
        );
        assert_eq!(missing.names(), ["innermost"]);
        assert_eq!(RssStatus::split(wanted, RssFields::GTPU), RssStatus::Unsupported);
        assert_eq!(
            RssStatus::split(wanted, RssFields::INNERMOST),
            RssStatus::Unsupported
        );
    }
}
