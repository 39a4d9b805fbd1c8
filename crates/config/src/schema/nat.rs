//! CG-NAT: pools of public addresses, and the mappings of sessions to them.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use nat::pools::fixed::Forward;
use nat::pools::{Filtering, Lifetimes, NatLimits, UnsolicitedPolicy};
use natlog::ipfix;
use packet::tuple::proto;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::{Location, Spanned};

use super::Prefix;
use super::policer::SliceConfig;
use crate::bounded::Bounded;

/// A pool of public addresses. The IPv4 packets of the sessions that it is for leave by its instance with an address of
/// it. A session has the narrowest pool that is for it: for its data network within its slice, for its data network,
/// for its slice, for all; unless its SMF names another.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatPoolConfig {
    /// Its name.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The network instance by which translated packets leave; it has role n6.
    #[schemars(with = "String")]
    pub instance: Spanned<String>,
    /// The slice; any.
    #[serde(default)]
    pub slice: Option<SliceConfig>,
    /// The data network (APN/DNN, else the network instance towards it); any.
    #[serde(default)]
    pub dnn: Option<String>,
    /// Sessions have it only if their SMF names it, by `forwarding_policies` or in BBF NAT Port Block; false.
    /// `slice` and `dnn` are absent then.
    #[serde(default)]
    pub smf_only: bool,
    /// Public addresses: `203.0.113.0/28` (all of it) or `198.51.100.10-198.51.100.19`. The data network routes them to
    /// the instance.
    #[schemars(with = "Vec<PublicRange>")]
    pub addresses: Vec<Spanned<PublicRange>>,
    /// The ports that are used of each address; 1024 to 65535.
    #[serde(default)]
    pub ports: PortRangeConfig,
    /// How many ports a session gets at a time, a power of two; 512.
    #[serde(default = "NatPoolConfig::default_block")]
    #[schemars(with = "Bounded<16, 32_768>")]
    pub block: Spanned<Bounded<16, 32_768>>,
    /// Who may send to a mapping; endpoint_independent.
    #[serde(default)]
    pub filtering: NatFilteringConfig,
    /// What becomes of packets that come through a mapping from an address that the UE has not sent to by it; they page
    /// no UE, and are not charged. Absent with address_dependent: there are none.
    #[serde(default)]
    #[schemars(with = "Option<UnsolicitedConfig>")]
    pub unsolicited: Option<Spanned<UnsolicitedConfig>>,
    /// Destinations to which packets keep their source; none.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub untranslated: Vec<Spanned<Prefix>>,
    /// What a session may have.
    #[serde(default)]
    pub per_session: NatShareConfig,
    /// That blocks follow from the UEs' addresses (RFC 7422), one each; absent: they are drawn.
    #[serde(default)]
    pub deterministic: Option<DeterministicConfig>,
    /// Public ports that stand for ports of UEs; none.
    #[serde(default)]
    pub forwards: Vec<ForwardConfig>,
}

impl NatPoolConfig {
    fn default_block() -> Spanned<Bounded<16, 32_768>> {
        Spanned::new(Bounded::new(512), Location::UNKNOWN, Location::UNKNOWN)
    }
}

/// UEs that have one block of their pool each, for good.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeterministicConfig {
    /// Their IPv4 prefix: address number n of it has block number n of the pool. It has no more addresses than the pool
    /// has blocks. Sessions of other UEs get no ports.
    #[schemars(with = "Prefix")]
    pub ues: Spanned<Prefix>,
}

/// A public port that stands for a port of a UE: what comes to it reaches the UE, from any sender. The block that it
/// is in is the UE's alone.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ForwardConfig {
    /// The UE's own IPv4 address.
    pub ue: Ipv4Addr,
    /// Its port.
    pub port: Bounded<1, 65_535>,
    /// The protocol.
    pub protocol: ForwardProtocolConfig,
    /// The public address, one of the pool.
    #[schemars(with = "Ipv4Addr")]
    pub public: Spanned<Ipv4Addr>,
    /// The public port, one of the pool's.
    pub public_port: Bounded<1, 65_535>,
}

/// A protocol whose ports can be forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ForwardProtocolConfig {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl ForwardConfig {
    pub(crate) fn forward(&self) -> Forward {
        Forward {
            ue: self.ue,
            port: self.port.value() as u16,
            protocol: match self.protocol {
                ForwardProtocolConfig::Tcp => proto::TCP,
                ForwardProtocolConfig::Udp => proto::UDP,
            },
            public: self.public.value,
            public_port: self.public_port.value() as u16,
        }
    }
}

/// Ports from the first to the last.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PortRangeConfig {
    /// The first; 1024.
    #[serde(default = "PortRangeConfig::default_first")]
    pub first: Bounded<1, 65_535>,
    /// The last; 65535.
    #[serde(default = "PortRangeConfig::default_last")]
    pub last: Bounded<1, 65_535>,
}

impl PortRangeConfig {
    const fn default_first() -> Bounded<1, 65_535> {
        Bounded::new(1_024)
    }

    const fn default_last() -> Bounded<1, 65_535> {
        Bounded::new(65_535)
    }

    pub(crate) fn range(self) -> RangeInclusive<u16> {
        self.first.value() as u16..=self.last.value() as u16
    }
}

impl Default for PortRangeConfig {
    fn default() -> Self {
        Self {
            first: Self::default_first(),
            last: Self::default_last(),
        }
    }
}

/// Who may send to a mapping (RFC 4787 section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NatFilteringConfig {
    /// Anyone.
    #[default]
    EndpointIndependent,
    /// Addresses that the UE has sent to by it.
    AddressDependent,
}

impl NatFilteringConfig {
    pub(crate) const fn filtering(self) -> Filtering {
        match self {
            Self::EndpointIndependent => Filtering::EndpointIndependent,
            Self::AddressDependent => Filtering::AddressDependent,
        }
    }
}

/// What becomes of unsolicited packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnsolicitedConfig {
    /// They wait for a UE that is idle, and have it paged; else they are dropped then; false.
    #[serde(default)]
    pub pages: bool,
    /// They count in URRs; else they pass uncounted, or are dropped where a quota is used up; false.
    #[serde(default)]
    pub charged: bool,
}

impl UnsolicitedConfig {
    pub(crate) const fn policy(self) -> UnsolicitedPolicy {
        UnsolicitedPolicy {
            pages: self.pages,
            charged: self.charged,
        }
    }
}

/// What a session may have of its pool.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatShareConfig {
    /// Blocks of ports, of one public address; 4.
    #[serde(default = "NatShareConfig::default_blocks")]
    pub blocks: Bounded<1, 255>,
    /// Mappings; 2048.
    #[serde(default = "NatShareConfig::default_mappings")]
    pub mappings: Bounded<1, 196_608>,
    /// New mappings a second, with as large a burst; 0: no limit; 500.
    #[serde(default = "NatShareConfig::default_mappings_s")]
    pub mappings_s: Bounded<0, 1_000_000>,
}

impl NatShareConfig {
    const fn default_blocks() -> Bounded<1, 255> {
        Bounded::new(4)
    }

    const fn default_mappings() -> Bounded<1, 196_608> {
        Bounded::new(2_048)
    }

    const fn default_mappings_s() -> Bounded<0, 1_000_000> {
        Bounded::new(500)
    }

    pub(crate) fn limits(self) -> NatLimits {
        NatLimits {
            blocks: self.blocks.value() as u8,
            mappings: self.mappings.value() as u32,
            mappings_per_second: self.mappings_s.value() as u32,
        }
    }
}

impl Default for NatShareConfig {
    fn default() -> Self {
        Self {
            blocks: Self::default_blocks(),
            mappings: Self::default_mappings(),
            mappings_s: Self::default_mappings_s(),
        }
    }
}

/// The mappings of workers. Only where there are `nat_pools`.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatConfig {
    /// Those that a worker may have; 1048576.
    #[serde(default = "NatConfig::default_mappings")]
    pub mappings_per_worker: Bounded<64, 67_108_864>,
    /// How long one lives behind the last packet that the UE has sent by it, in seconds.
    #[serde(default)]
    pub lifetime_s: NatLifetimesConfig,
    /// After how many seconds without a mapping a session gives a block back, unless it is its last; 600.
    #[serde(default = "NatConfig::default_block_idle")]
    pub block_idle_s: Bounded<1, 86_400>,
    /// For how many seconds no other session gets a block that was given back; 120 (RFC 6888 REQ-8).
    #[serde(default = "NatConfig::default_quarantine")]
    pub quarantine_s: Bounded<0, 86_400>,
    /// The log of which session had which ports, and when; absent: there is none.
    #[serde(default)]
    pub log: Option<NatLogConfig>,
}

/// Where it is logged which session gets and gives back which port block: in files, to a collector, or both.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatLogConfig {
    /// The directory of the files, an absolute path; it is made if it is not there. One daemon at a time writes it.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub directory: Option<Spanned<PathBuf>>,
    /// Days after which files are removed; 180.
    #[serde(default = "NatLogConfig::default_retention")]
    pub retention_days: Bounded<1, 3_650>,
    /// A collector of IPFIX (RFC 7011, RFC 8158).
    #[serde(default)]
    pub ipfix: Option<IpfixConfig>,
}

/// A collector of IPFIX.
#[derive(Debug, Clone, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IpfixConfig {
    /// Its address and port; 4739 is usual.
    #[schemars(with = "SocketAddr")]
    pub to: Spanned<SocketAddr>,
    /// How messages go to it; udp.
    #[serde(default)]
    pub transport: IpfixTransport,
    /// The Observation Domain ID of this node; 1.
    #[serde(default = "IpfixConfig::default_domain")]
    pub domain: Bounded<1, 4_294_967_295>,
}

impl IpfixConfig {
    const fn default_domain() -> Bounded<1, 4_294_967_295> {
        Bounded::new(1)
    }

    /// How events are exported.
    #[must_use]
    pub fn settings(&self) -> ipfix::Settings {
        ipfix::Settings {
            transport: match self.transport {
                IpfixTransport::Udp => ipfix::Transport::Udp,
                IpfixTransport::Tcp => ipfix::Transport::Tcp,
            },
            domain: self.domain.value() as u32,
            waiting: 1 << 18,
            ..ipfix::Settings::default()
        }
    }
}

/// How messages of IPFIX go to their collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IpfixTransport {
    /// Datagrams (RFC 7011 section 10.3), which may be lost.
    #[default]
    Udp,
    /// A connection (RFC 7011 section 10.4), which is made again when it ends; events wait for it.
    Tcp,
}

impl NatLogConfig {
    const fn default_retention() -> Bounded<1, 3_650> {
        Bounded::new(180)
    }

    /// How the files are kept.
    #[must_use]
    pub fn settings(&self) -> natlog::Settings {
        natlog::Settings {
            retention: Duration::from_hours(24 * self.retention_days.value()),
            ..natlog::Settings::default()
        }
    }
}

impl NatConfig {
    const fn default_mappings() -> Bounded<64, 67_108_864> {
        Bounded::new(1_048_576)
    }

    const fn default_block_idle() -> Bounded<1, 86_400> {
        Bounded::new(600)
    }

    const fn default_quarantine() -> Bounded<0, 86_400> {
        Bounded::new(120)
    }
}

impl Default for NatConfig {
    fn default() -> Self {
        Self {
            mappings_per_worker: Self::default_mappings(),
            lifetime_s: NatLifetimesConfig::default(),
            block_idle_s: Self::default_block_idle(),
            quarantine_s: Self::default_quarantine(),
            log: None,
        }
    }
}

/// Lifetimes of mappings.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NatLifetimesConfig {
    /// Of TCP; 7440 (RFC 5382 REQ-5).
    #[serde(default = "NatLifetimesConfig::default_tcp_established")]
    pub tcp_established: Bounded<1, 86_400>,
    /// Of TCP before a connection is established, and behind a FIN or RST; 240 (RFC 5382 REQ-5).
    #[serde(default = "NatLifetimesConfig::default_tcp_transitory")]
    pub tcp_transitory: Bounded<1, 86_400>,
    /// Of UDP; 300 (RFC 4787 REQ-5).
    #[serde(default = "NatLifetimesConfig::default_udp")]
    pub udp: Bounded<1, 86_400>,
    /// Of ICMP queries; 60 (RFC 5508 REQ-2).
    #[serde(default = "NatLifetimesConfig::default_icmp")]
    pub icmp: Bounded<1, 86_400>,
}

impl NatLifetimesConfig {
    const fn default_tcp_established() -> Bounded<1, 86_400> {
        Bounded::new(7_440)
    }

    const fn default_tcp_transitory() -> Bounded<1, 86_400> {
        Bounded::new(240)
    }

    const fn default_udp() -> Bounded<1, 86_400> {
        Bounded::new(300)
    }

    const fn default_icmp() -> Bounded<1, 86_400> {
        Bounded::new(60)
    }

    pub(crate) fn lifetimes(self) -> Lifetimes {
        let seconds = |seconds: Bounded<1, 86_400>| Duration::from_secs(seconds.value());
        Lifetimes {
            tcp_established: seconds(self.tcp_established),
            tcp_transitory: seconds(self.tcp_transitory),
            udp: seconds(self.udp),
            icmp: seconds(self.icmp),
        }
    }
}

impl Default for NatLifetimesConfig {
    fn default() -> Self {
        Self {
            tcp_established: Self::default_tcp_established(),
            tcp_transitory: Self::default_tcp_transitory(),
            udp: Self::default_udp(),
            icmp: Self::default_icmp(),
        }
    }
}

/// Public IPv4 addresses from the first to the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicRange(pub RangeInclusive<Ipv4Addr>);

impl FromStr for PublicRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            format!(
                "`{text}` is no IPv4 prefix or range, such as 203.0.113.0/28 or 198.51.100.10-198.51.100.19"
            )
        };
        let bounds = match text.split_once('-') {
            Some((first, last)) => first.trim().parse().ok().zip(last.trim().parse().ok()),
            None => {
                let prefix: Prefix = text.parse().map_err(|_| fault())?;
                if let Some(fault) = prefix.network_fault() {
                    return Err(fault);
                }
                bounds(prefix)
            }
        };
        let (first, last): (Ipv4Addr, Ipv4Addr) = bounds.ok_or_else(fault)?;
        match first <= last {
            true => Ok(Self(first..=last)),
            false => Err(format!("`{text}` ends before it begins")),
        }
    }
}

/// The first and the last address of an IPv4 prefix.
fn bounds(prefix: Prefix) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let IpAddr::V4(address) = prefix.address else {
        return None;
    };
    let host_bits = u32::MAX.checked_shr(u32::from(prefix.length)).unwrap_or(0);
    let address = address.to_bits();
    Some((
        Ipv4Addr::from_bits(address & !host_bits),
        Ipv4Addr::from_bits(address | host_bits),
    ))
}

impl<'de> Deserialize<'de> for PublicRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Serialize for PublicRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}-{}", self.0.start(), self.0.end()))
    }
}

impl JsonSchema for PublicRange {
    fn schema_name() -> Cow<'static, str> {
        "PublicRange".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9.]+(/[0-9]{1,2}|\\s*-\\s*[0-9.]+\\s*)$",
            "examples": ["203.0.113.0/28", "198.51.100.10-198.51.100.19"],
        })
    }
}
