//! Inspection: how much is looked at of flows whose rules or PFDs name hosts.

use std::sync::Arc;
use std::time::Duration;

use rules::IpPrefix;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use worker::{InspectionLimits, NdpiLimits, ResolverLimits};

use super::Prefix;
use crate::bounded::Bounded;

/// Inspection of flows whose rules or PFDs name hosts, in each worker.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InspectionConfig {
    /// Flows of which it is known what they are for; 0: nothing is inspected; 262,144. One that finds no room pushes
    /// out one of the same session, or the one that was looked at least recently, which keeps its decision until rules
    /// change.
    #[serde(default = "InspectionConfig::default_flows")]
    pub flows: Bounded<0, 67_108_864>,
    /// Hosts, and of HTTP paths, that these flows are for, in units of 52 octets; 131,072. Further ones push
    /// out flows of the sessions that have the most.
    #[serde(default = "InspectionConfig::default_hosts")]
    pub hosts: Bounded<64, 4_194_304>,
    /// Flows that are inspected at the same time; 16,384. Further ones push out the one that began first, which is
    /// undetected.
    #[serde(default = "InspectionConfig::default_undecided")]
    pub undecided: Bounded<64, 4_194_304>,
    /// Those of one session; 64. Further ones are undetected.
    #[serde(default = "InspectionConfig::default_undecided_per_session")]
    pub undecided_per_session: Bounded<1, 65_535>,
    /// Packets with a payload of a flow that are looked at, of each end; 8.
    #[serde(default = "InspectionConfig::default_packets")]
    pub packets: Bounded<1, 255>,
    /// Octets of payload of a flow that are looked at, of each end; 16,384.
    #[serde(default = "InspectionConfig::default_bytes")]
    pub bytes: Bounded<512, 65_535>,
    /// Milliseconds for which a flow is inspected; 10,000.
    #[serde(default = "InspectionConfig::default_timeout")]
    pub timeout_ms: Bounded<100, 600_000>,
    /// Resolvers, as prefixes, 64 at most; none. What they answer UEs over UDP says for which hosts flows are that do
    /// not say it themselves.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub resolvers: Vec<Spanned<Prefix>>,
    /// Addresses in such answers that are kept; 65,536. Further ones push out those of sessions that have many.
    #[serde(default = "InspectionConfig::default_addresses")]
    pub addresses: Bounded<64, 4_194_304>,
    /// Those of one session; 256. Further ones push out those that it was given longest ago.
    #[serde(default = "InspectionConfig::default_addresses_per_session")]
    pub addresses_per_session: Bounded<1, 65_535>,
    /// How long they are kept, whatever their TTL.
    #[serde(default)]
    #[schemars(with = "Option<AddressLifetimeConfig>")]
    pub address_lifetime_s: Option<Spanned<AddressLifetimeConfig>>,
    /// nDPI, which looks at flows that are none of what Sluice recognises by itself; absent: nothing of it is
    /// loaded.
    #[serde(default)]
    #[schemars(with = "Option<NdpiConfig>")]
    pub ndpi: Option<Spanned<NdpiConfig>>,
}

/// nDPI, a library of others that is loaded at the start.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NdpiConfig {
    /// Its file: a name in the folders of the loader, or a path from the root on; libndpi.so.4.2. That of nDPI 4.2
    /// alone is taken.
    #[serde(default = "NdpiConfig::default_library")]
    pub library: String,
    /// Flows that it looks at at the same time, 704 octets and what it allocates by itself; 4,096. Further ones push
    /// out others.
    #[serde(default = "NdpiConfig::default_flows")]
    pub flows: Bounded<16, 1_048_576>,
    /// Packets with a payload of a flow that it looks at, of both ends together; 16.
    #[serde(default = "NdpiConfig::default_packets")]
    pub packets: Bounded<1, 32>,
}

impl NdpiConfig {
    fn default_library() -> String {
        "libndpi.so.4.2".into()
    }
    const fn default_flows() -> Bounded<16, 1_048_576> {
        Bounded::new(4_096)
    }
    const fn default_packets() -> Bounded<1, 32> {
        Bounded::new(16)
    }

    /// As a worker takes it, with the library.
    pub(crate) fn limits(&self, library: &Arc<ndpi::Library>) -> NdpiLimits {
        NdpiLimits {
            library: Arc::clone(library),
            flows: self.flows.value() as u32,
            packets: self.packets.value() as u8,
        }
    }
}

/// How long addresses in answers of resolvers are kept: their TTL, but within these bounds.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AddressLifetimeConfig {
    /// At least, in seconds; 60. Clients use addresses longer than their TTLs say.
    #[serde(default = "AddressLifetimeConfig::default_least")]
    pub least: Bounded<0, 86_400>,
    /// At most, in seconds; 3,600.
    #[serde(default = "AddressLifetimeConfig::default_most")]
    pub most: Bounded<1, 86_400>,
}

impl AddressLifetimeConfig {
    const fn default_least() -> Bounded<0, 86_400> {
        Bounded::new(60)
    }
    const fn default_most() -> Bounded<1, 86_400> {
        Bounded::new(3_600)
    }
}

impl Default for AddressLifetimeConfig {
    fn default() -> Self {
        Self {
            least: Self::default_least(),
            most: Self::default_most(),
        }
    }
}

/// Flows that are inspected at the same time, for each that may have a message in several packets.
const FLOWS_OF_A_BLOCK: u64 = 32;
/// The same of one session.
const FLOWS_OF_A_SESSIONS_BLOCK: u64 = 4;

impl InspectionConfig {
    const fn default_flows() -> Bounded<0, 67_108_864> {
        Bounded::new(262_144)
    }
    const fn default_hosts() -> Bounded<64, 4_194_304> {
        Bounded::new(131_072)
    }
    const fn default_undecided() -> Bounded<64, 4_194_304> {
        Bounded::new(16_384)
    }
    const fn default_undecided_per_session() -> Bounded<1, 65_535> {
        Bounded::new(64)
    }
    const fn default_packets() -> Bounded<1, 255> {
        Bounded::new(8)
    }
    const fn default_bytes() -> Bounded<512, 65_535> {
        Bounded::new(16_384)
    }
    const fn default_timeout() -> Bounded<100, 600_000> {
        Bounded::new(10_000)
    }

    const fn default_addresses() -> Bounded<64, 4_194_304> {
        Bounded::new(65_536)
    }
    const fn default_addresses_per_session() -> Bounded<1, 65_535> {
        Bounded::new(256)
    }

    /// The resolvers and their bounds, as a worker takes them.
    #[must_use]
    pub fn resolver_limits(&self) -> ResolverLimits {
        let prefixes = self.resolvers.iter().map(|prefix| &prefix.value);
        let prefixes = prefixes.filter_map(|prefix| IpPrefix::new(prefix.address, prefix.length));
        let lifetime = self.address_lifetime_s.as_ref().map(|lifetime| lifetime.value);
        let (lifetime, seconds) = (lifetime.unwrap_or_default(), Duration::from_secs);
        ResolverLimits {
            prefixes: prefixes.collect(),
            addresses: self.addresses.value() as u32,
            per_session: self.addresses_per_session.value() as u32,
            least: seconds(lifetime.least.value()),
            most: seconds(lifetime.most.value()),
        }
    }

    /// Whether answers of resolvers are heeded.
    #[must_use]
    pub fn heeds_resolvers(&self) -> bool {
        self.flows.value() > 0 && !self.resolvers.is_empty()
    }

    /// As a worker takes them.
    #[must_use]
    pub fn limits(&self) -> InspectionLimits {
        let blocks = |flows: u64, of_a_block: u64| flows.div_ceil(of_a_block);
        let (all, own) = (self.undecided.value(), self.undecided_per_session.value());
        InspectionLimits {
            records: self.flows.value() as u32,
            hosts: self.hosts.value() as u32,
            undecided: all as u32,
            undecided_per_session: own as u16,
            blocks: blocks(all, FLOWS_OF_A_BLOCK) as u32,
            blocks_per_session: blocks(own, FLOWS_OF_A_SESSIONS_BLOCK) as u16,
            packets: self.packets.value() as u8,
            octets: self.bytes.value() as u16,
            longest: Duration::from_millis(self.timeout_ms.value()),
        }
    }
}

impl Default for InspectionConfig {
    fn default() -> Self {
        Self {
            flows: Self::default_flows(),
            hosts: Self::default_hosts(),
            undecided: Self::default_undecided(),
            undecided_per_session: Self::default_undecided_per_session(),
            packets: Self::default_packets(),
            bytes: Self::default_bytes(),
            timeout_ms: Self::default_timeout(),
            resolvers: Vec::new(),
            addresses: Self::default_addresses(),
            addresses_per_session: Self::default_addresses_per_session(),
            address_lifetime_s: None,
            ndpi: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_workers() {
        let inspection = InspectionConfig::default();
        assert_eq!(inspection.limits(), InspectionLimits::default());
        assert_eq!(inspection.resolver_limits(), ResolverLimits::default());
    }
}
