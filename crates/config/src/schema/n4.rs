//! The node and its PFCP endpoint.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use rules::prefix::IpPrefix;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use super::Prefix;
use crate::bounded::Bounded;
use crate::error::Fault;

/// The most addresses of our own, and of SMFs that we set up associations with.
const MOST_ADDRESSES: usize = 8;
const MOST_SMFS: usize = 64;

/// Requests a second whose responses are kept until no peer repeats them any more.
const REQUESTS_S: u64 = 25_000;
/// Octets that a kept response of four PDRs takes at most, with what goes with it.
const RESPONSE_OCTETS: u64 = 512;
/// Bounds of what is kept where the configuration does not say.
const LEAST_CACHE: u64 = 16 << 20;
const MOST_CACHE: u64 = 1 << 30;

/// Who this UPF is.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NodeConfig {
    /// Node ID in PFCP (TS 29.244 §8.2.38).
    pub id: NodeName,
}

/// An IPv4 address, an IPv6 address or a fully qualified domain name of labels of 1 to 63 characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeName(pub n4::NodeName);

impl<'de> Deserialize<'de> for NodeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self(address.into()));
        }
        // Something of digits and dots alone is a mistyped address.
        let named = text.bytes().any(|b| b.is_ascii_alphabetic());
        let allowed = text.len() <= 253
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
        let name = n4::NodeName::fqdn(&text).filter(|_| named && allowed).map(Self);
        name.ok_or_else(|| de::Error::custom(format_args!("`{text}` is no IP address and no domain name")))
    }
}

impl Serialize for NodeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl JsonSchema for NodeName {
    fn schema_name() -> Cow<'static, str> {
        "NodeName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "maxLength": 253 })
    }
}

/// The PFCP endpoint (TS 29.244).
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct N4Config {
    /// Local addresses, at least one, at most 8; the first is the one in our F-SEIDs for its family.
    #[serde(deserialize_with = "crate::bounded::at_least_one")]
    #[schemars(length(min = 1))]
    #[schemars(with = "Vec<IpAddr>")]
    pub addresses: Vec<Spanned<IpAddr>>,
    /// Where SMFs, SGW-Cs and PGW-Cs speak from; datagrams from elsewhere are dropped unread, and counted. Empty: any
    /// host may speak PFCP, which is right only where IPsec or a filter keeps unknown hosts away, and SMFs have to
    /// answer heartbeats before they get more than `unverified_percent`. SMFs of one prefix trust each other: only they
    /// can be of one set, and one may set up at once the association of another that lives.
    #[serde(default)]
    #[schemars(with = "Vec<PeersConfig>")]
    pub peers: Vec<Spanned<PeersConfig>>,
    /// Addresses of SMFs that we set up associations with, at most 64; others set theirs up themselves.
    #[serde(default)]
    #[schemars(with = "Vec<IpAddr>")]
    pub smfs: Vec<Spanned<IpAddr>>,
    /// Seconds between a set-up that failed and the next; doubles with each failure; 5.
    #[serde(default = "N4Config::default_setup_retry")]
    pub setup_retry_s: Bounded<1, 3_600>,
    /// The most such seconds, and those after an SMF has released its association; at least `setup_retry_s`; 300.
    #[serde(default = "N4Config::default_setup_retry_most")]
    pub setup_retry_most_s: Bounded<1, 86_400>,
    /// Seconds that an SMF has to release its association when this process is ended, or when all usage has been
    /// reported for the release; 0: the process ends at once; 10.
    #[serde(default = "N4Config::default_release_wait")]
    pub release_wait_s: Bounded<0, 3_600>,
    /// The interface of the host, or the VRF, by which datagrams are received; absent: any.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub device: Option<Spanned<String>>,
    /// UDP port requests arrive on; 8805 (TS 29.244 §4.2.2).
    #[serde(default = "N4Config::default_port")]
    pub port: Bounded<1, 65_535>,
    /// T1: milliseconds before one of our requests is sent again; 1000.
    #[serde(default = "N4Config::default_t1")]
    pub t1_ms: Bounded<50, 60_000>,
    /// N1: how often one of our requests is sent in all; 3.
    #[serde(default = "N4Config::default_n1")]
    pub n1: Bounded<1, 10>,
    /// Seconds between heartbeats to a peer that is silent; 10.
    #[serde(default = "N4Config::default_heartbeat")]
    pub heartbeat_s: Bounded<1, 3_600>,
    /// Associations at most; one more takes the place of the oldest that is silent and has no sessions, or gets cause
    /// 75; 1000.
    #[serde(default = "N4Config::default_associations")]
    pub max_associations: Bounded<1, 65_535>,
    /// Of them, the most from one IP address; 32.
    #[serde(default = "N4Config::default_associations_per_address")]
    pub max_associations_per_address: Bounded<1, 65_535>,
    /// Per cent of all sessions, of each worker's room for tunnels and for UE addresses of each family, of what strays
    /// from its bucket, and of correlations, that the SMFs of one address may take while there are others; 50. Alone,
    /// they may take all; beyond it, cause 75.
    #[serde(default = "N4Config::default_share")]
    pub association_share_percent: Bounded<1, 100>,
    /// Without `peers`: messages a second that are read of each source without an association, twice as many at once;
    /// 0: all; 50.
    #[serde(default = "N4Config::default_unknown_source")]
    pub unknown_source_s: Bounded<0, 1_000_000>,
    /// Without `peers`: per cent of associations, sessions, tunnels, correlations and of each pool, eight at least,
    /// that may be taken by SMFs that have not yet answered a heartbeat; once as much is taken, more is only for those
    /// that have. 100: for all; 10.
    #[serde(default = "N4Config::default_unverified")]
    pub unverified_percent: Bounded<0, 100>,
    /// Octets of responses kept to answer retransmissions; absent: as many as `n1` times `t1_ms` take at 25,000
    /// requests a second, 512 octets each, and no fewer than 16 MiB. Peers share them.
    #[serde(default)]
    pub response_cache_bytes: Option<Bounded<65_536, 1_073_741_824>>,
    /// Milliseconds a worker has to put a change live before the SMF receives that it failed; 500.
    #[serde(default = "N4Config::default_deadline")]
    pub apply_deadline_ms: Bounded<10, 10_000>,
    /// Seconds without a packet after which the traffic of a URR has stopped, for those that are to report it (STOPT);
    /// 60.
    #[serde(default = "N4Config::default_traffic_silence")]
    pub traffic_silence_s: Bounded<1, 86_400>,
    /// Take F-TEIDs that an SMF of before R17 chose itself (free5GC, Open5GS without FTUP); false: cause 71.
    #[serde(default)]
    pub accept_cp_f_teids: bool,
    /// Serve requests in the name of an SMF, and about its sessions, from any address; false: only from those that it
    /// set up its association from or named (Node ID, Alternative SMF IP Address, CP F-SEID).
    #[serde(default)]
    pub any_source: bool,
    /// What becomes of a rule whose Network Instance is not configured.
    #[serde(default)]
    pub unknown_instance: UnknownInstance,
}

/// Control plane functions of one prefix: the prefix alone, or with what they speak,
/// `{prefix: 10.1.0.0/24, interface: sxb}`. The longest prefix around an address says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PeersConfig {
    /// Their addresses.
    pub prefix: Prefix,
    /// The reference point that they speak over.
    pub interface: PeerInterface,
    /// Whether they can read Usage Information (TS 29.244 §8.2.59). False for free5GC, which drops the messages that
    /// have it: it is not sent then, and usage before QoS enforcement (MBQE) is not measured; true.
    pub usage_information: bool,
    /// Whether their sessions stay when they set up their association again without having restarted: their Recovery
    /// Time Stamp is the same. TS 29.244 §6.2.6.2.2 ends them, unless the request retains them. True for Open5GS, which
    /// sets it up again when heartbeats had no response for some seconds, and does not restore the sessions; false.
    pub retain_sessions: bool,
}

/// The reference point of a control plane function. Neither its Node ID nor its messages say (TS 29.244 §6.2.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeerInterface {
    /// What any of them may say is understood.
    #[default]
    Any,
    /// An SMF: Precedence is mandatory, and packets are not duplicated.
    N4,
    /// An SGW-C: no precedences, no QERs, no filters, no quotas.
    Sxa,
    /// A PGW-C: Precedence is mandatory, and nothing of 5G has a place.
    Sxb,
    /// An SGW-C and PGW-C in one.
    Sxab,
}

impl PeerInterface {
    /// As the endpoint takes it.
    #[must_use]
    pub const fn interfaces(self) -> n4::Interfaces {
        match self {
            Self::Any => n4::Interfaces::ANY,
            Self::N4 => n4::Interfaces::N4,
            Self::Sxa => n4::Interfaces::SXA,
            Self::Sxb => n4::Interfaces::SXB,
            Self::Sxab => n4::Interfaces::SXA_SXB,
        }
    }
}

impl PeersConfig {
    const fn default_usage_information() -> bool {
        true
    }

    /// As the endpoint takes them.
    #[must_use]
    pub fn peers(&self) -> Option<n4::Peers> {
        Some(n4::Peers {
            prefix: IpPrefix::new(self.prefix.address, self.prefix.length)?,
            interfaces: self.interface.interfaces(),
            usage_information: self.usage_information,
            retain_sessions: self.retain_sessions,
        })
    }
}

/// Control plane functions of one prefix, with what they speak.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PeersMembers {
    /// Their addresses.
    prefix: Prefix,
    /// The reference point that they speak over.
    #[serde(default)]
    interface: PeerInterface,
    /// Whether they can read Usage Information (TS 29.244 §8.2.59); false for free5GC.
    #[serde(default = "PeersConfig::default_usage_information")]
    usage_information: bool,
    /// Whether their sessions stay when they set up their association again with the same Recovery Time Stamp; true for
    /// Open5GS.
    #[serde(default)]
    retain_sessions: bool,
}

impl JsonSchema for PeersConfig {
    fn schema_name() -> Cow<'static, str> {
        "PeersConfig".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let prefix = generator.subschema_for::<Prefix>();
        let members = generator.subschema_for::<PeersMembers>();
        json_schema!({ "anyOf": [prefix, members] })
    }
}

impl<'de> Deserialize<'de> for PeersConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PeersVisitor)
    }
}

struct PeersVisitor;

impl<'de> de::Visitor<'de> for PeersVisitor {
    type Value = PeersConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a prefix, or a mapping of `prefix`, `interface`, `usage_information` and `retain_sessions`",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PeersConfig, E> {
        Ok(PeersConfig {
            prefix: text.parse().map_err(E::custom)?,
            interface: PeerInterface::Any,
            usage_information: PeersConfig::default_usage_information(),
            retain_sessions: false,
        })
    }

    fn visit_map<M: de::MapAccess<'de>>(self, members: M) -> Result<PeersConfig, M::Error> {
        let members = PeersMembers::deserialize(de::value::MapAccessDeserializer::new(members))?;
        Ok(PeersConfig {
            prefix: members.prefix,
            interface: members.interface,
            usage_information: members.usage_information,
            retain_sessions: members.retain_sessions,
        })
    }
}

/// What becomes of a rule whose Network Instance names none of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownInstance {
    /// It is refused: traffic does not go where no rule sends it.
    #[default]
    Refuse,
    /// It is served by the first instance with the right role, as if it named none.
    Default,
}

impl N4Config {
    const fn default_port() -> Bounded<1, 65_535> {
        Bounded::new(8805)
    }
    const fn default_setup_retry() -> Bounded<1, 3_600> {
        Bounded::new(5)
    }
    const fn default_setup_retry_most() -> Bounded<1, 86_400> {
        Bounded::new(300)
    }
    const fn default_release_wait() -> Bounded<0, 3_600> {
        Bounded::new(10)
    }
    const fn default_t1() -> Bounded<50, 60_000> {
        Bounded::new(1_000)
    }
    const fn default_n1() -> Bounded<1, 10> {
        Bounded::new(3)
    }
    const fn default_heartbeat() -> Bounded<1, 3_600> {
        Bounded::new(10)
    }
    const fn default_associations() -> Bounded<1, 65_535> {
        Bounded::new(1_000)
    }
    const fn default_associations_per_address() -> Bounded<1, 65_535> {
        Bounded::new(32)
    }
    const fn default_share() -> Bounded<1, 100> {
        Bounded::new(50)
    }
    const fn default_unknown_source() -> Bounded<0, 1_000_000> {
        Bounded::new(50)
    }
    const fn default_unverified() -> Bounded<0, 100> {
        Bounded::new(10)
    }
    const fn default_traffic_silence() -> Bounded<1, 86_400> {
        Bounded::new(60)
    }
    const fn default_deadline() -> Bounded<10, 10_000> {
        Bounded::new(500)
    }

    /// T1 as a time.
    #[must_use]
    pub fn t1(&self) -> Duration {
        Duration::from_millis(self.t1_ms.value())
    }

    /// Octets of kept responses: what is configured, else what peers that repeat as we do may ask for again.
    #[must_use]
    pub fn response_cache(&self) -> usize {
        let of_a_peer = self.t1() * self.n1.value() as u32;
        let octets = of_a_peer.as_millis() as u64 * REQUESTS_S * RESPONSE_OCTETS / 1_000;
        let bounded = octets.clamp(LEAST_CACHE, MOST_CACHE) as usize;
        self.response_cache_bytes.map_or(bounded, Bounded::size)
    }

    /// Where N4 is reached.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        let port = self.port.value() as u16;
        let addresses = self.addresses.iter();
        addresses.map(move |address| SocketAddr::new(address.value, port))
    }

    /// The SMFs that we set up associations with, each with the address of ours that it is asked from.
    pub fn smfs(&self) -> impl Iterator<Item = n4::Smf> + '_ {
        self.smfs.iter().filter_map(|smf| {
            let local = self.address_like(smf.value)?;
            Some(n4::Smf {
                address: smf.value,
                local: SocketAddr::new(local, self.port.value() as u16),
            })
        })
    }

    /// Our first address of the family of `like`.
    fn address_like(&self, like: IpAddr) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().map(|address| address.value);
        addresses.find(|address| address.is_ipv4() == like.is_ipv4())
    }

    /// Finds the first value that contradicts another.
    pub(crate) fn check(&self) -> Result<(), Fault> {
        check_hosts("n4.addresses", &self.addresses, MOST_ADDRESSES)?;
        check_hosts("n4.smfs", &self.smfs, MOST_SMFS)?;
        self.check_peers()?;
        self.smfs.iter().try_for_each(|smf| self.check_smf(smf))
    }

    /// A prefix that is listed twice must not have two meanings.
    fn check_peers(&self) -> Result<(), Fault> {
        for (place, peers) in self.peers.iter().enumerate() {
            let of = |one: &Spanned<PeersConfig>| one.value.peers().map(|peers| peers.prefix);
            let mut same = self.peers.iter().take(place);
            let Some(other) = same.find(|other| of(other) == of(peers)) else {
                continue;
            };
            let two = match &other.value {
                other if other.interface != peers.value.interface => "interfaces",
                other if other.usage_information != peers.value.usage_information => {
                    "values of usage_information"
                }
                other if other.retain_sessions != peers.value.retain_sessions => "values of retain_sessions",
                _ => continue,
            };
            let message = format!("n4.peers: {} has two {two}", peers.value.prefix);
            return Err(Fault::new(peers, message));
        }
        Ok(())
    }

    fn check_smf(&self, smf: &Spanned<IpAddr>) -> Result<(), Fault> {
        let fault = |message| Fault::new(smf, format!("n4.smfs: {} {message}", smf.value));
        if self.address_like(smf.value).is_none() {
            return Err(fault("is of a family that none of n4.addresses is of"));
        }
        let is_heard = |peers: &Spanned<PeersConfig>| peers.value.prefix.contains(smf.value);
        if !self.peers.is_empty() && !self.peers.iter().any(is_heard) {
            return Err(fault("is in none of n4.peers: its answers would be dropped"));
        }
        Ok(())
    }
}

/// Addresses of single hosts, each once, and no more than there may be.
fn check_hosts(field: &str, addresses: &[Spanned<IpAddr>], most: usize) -> Result<(), Fault> {
    for (place, address) in addresses.iter().enumerate() {
        let value = address.value;
        let earlier = addresses.iter().take(place);
        let message = if place >= most {
            format!("{field}: more than {most}")
        } else if value.is_unspecified() || value.is_multicast() {
            format!("{field}: {value} is no address of one host")
        } else if earlier.clone().any(|other| other.value == value) {
            format!("{field}: {value} is configured twice")
        } else {
            continue;
        };
        return Err(Fault::new(address, message));
    }
    Ok(())
}
