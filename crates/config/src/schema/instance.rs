//! Network instances: which addresses and routes live on which port.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use rules::network::Roles;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;

use super::{HostConfig, InstanceEgressConfig, MssConfig, VlanConfig};
use crate::bounded::Bounded;

/// One network instance.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceConfig {
    /// The name in PFCP's Network Instance IE; SMFs may spell it plain or as DNS labels.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// What it is for.
    pub roles: Vec<Role>,
    /// The port it is on.
    #[schemars(with = "String")]
    pub port: Spanned<String>,
    /// VLAN id, or those of two tags; absent: untagged.
    #[serde(default)]
    pub vlan: Option<VlanConfig>,
    /// Routing table; instances of the same VRF route to each other's connected prefixes; 0.
    #[serde(default)]
    pub vrf: Option<Bounded<0, 1_023>>,
    /// Our addresses with the prefix of the link: at most one of each family.
    #[schemars(with = "Vec<Prefix>")]
    pub addresses: Vec<Spanned<Prefix>>,
    /// Static routes.
    #[serde(default)]
    pub routes: Vec<RouteConfig>,
    /// DSCPs of packets that leave here, by QoS flow, where the FAR has no Transport Level Marking; none.
    #[serde(default)]
    pub dscp: Vec<DscpConfig>,
    /// The port that gets a copy of each user packet that rules send here, as it leaves; none.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub mirror: Option<Spanned<String>>,
    /// The host's own network stack on this link; none.
    #[serde(default)]
    pub host: Option<HostConfig>,
    /// DSCPs of packets that come in here and may not wait behind others when more come than can be worked on; none.
    #[serde(default)]
    pub urgent_dscp: Vec<Bounded<0, 63>>,
    /// What becomes of packets from UE to UE; router.
    #[serde(default)]
    pub hairpin: HairpinConfig,
    /// What becomes of packets that are too long to leave here and may be fragmented; inner.
    #[serde(default)]
    pub fragment: FragmentConfig,
    /// What TCP connections may agree on whose packets come in or leave here; off.
    #[serde(default)]
    pub mss: MssConfig,
    /// User packets that rules send here wait in queues, in which the rates of their sessions are shaped; absent: they
    /// do not, and rates are policed.
    #[serde(default)]
    pub egress: Option<InstanceEgressConfig>,
    /// The prefixes of this instance's UEs, and of framed routes behind them: needed for every `hairpin` but router.
    #[serde(default)]
    #[schemars(with = "Vec<Prefix>")]
    pub ue_prefixes: Vec<Spanned<Prefix>>,
}

/// What becomes of packets that UEs send to prefixes of UEs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum HairpinConfig {
    /// They leave by the instance's routes, as all others do.
    #[default]
    Router,
    /// They go to the other UE's session here, charged and policed by both.
    Local,
    /// They are dropped.
    Drop,
}

/// What becomes of IPv4 packets without "don't fragment" that are longer than the MTU allows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FragmentConfig {
    /// The user packet is fragmented; each fragment has GTP-U headers of its own.
    #[default]
    Inner,
    /// The GTP-U packet is fragmented.
    Outer,
    /// They are dropped.
    Never,
}

/// The DSCPs of one QoS flow.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DscpConfig {
    /// The QoS flow.
    #[schemars(with = "Bounded<0, 63>")]
    pub qfi: Spanned<Bounded<0, 63>>,
    /// The DSCP of its packets.
    pub dscp: Bounded<0, 63>,
    /// That of packets above the guaranteed and within the maximum bit rate of a QER; `dscp`.
    #[serde(default)]
    pub yellow: Option<Bounded<0, 63>>,
    /// The priority of its frames (PCP) where the instance is on a VLAN; 0.
    #[serde(default)]
    pub pcp: Option<Bounded<0, 7>>,
}

/// What an instance is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// gNBs (S1-U in 4G).
    N3,
    /// Data networks (SGi in 4G).
    N6,
    /// Other UPFs (S5/S8-U in 4G).
    N9,
    /// The SMF's own tunnel (N4-u).
    N4u,
}

impl Role {
    /// The same among [`Roles`].
    pub(crate) const fn bit(self) -> Roles {
        match self {
            Self::N3 => Roles::N3,
            Self::N6 => Roles::N6,
            Self::N9 => Roles::N9,
            Self::N4u => Roles::N4U,
        }
    }
}

/// A static route.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RouteConfig {
    /// Destination prefix.
    #[schemars(with = "Prefix")]
    pub to: Spanned<Prefix>,
    /// Next hop, on one of the instance's links.
    #[schemars(with = "IpAddr")]
    pub via: Spanned<IpAddr>,
    /// The next hop's MAC address where it is not to be resolved by ARP or ND.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub mac: Option<Spanned<String>>,
}

/// An address with a prefix length, `10.0.0.1/24` or `2001:db8::1/64`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Prefix {
    /// The address, host bits included.
    pub address: IpAddr,
    /// Its length, 0 to 32 or 0 to 128.
    pub length: u8,
}

impl Prefix {
    /// Whether `address` is in the prefix.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        Self { address, ..*self }.masked() == self.masked()
    }

    /// The same without host bits.
    #[must_use]
    pub fn masked(self) -> Self {
        let address = match self.address {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                Ipv4Addr::from_bits(address.to_bits() & !host).into()
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                Ipv6Addr::from_bits(address.to_bits() & !host).into()
            }
        };
        Self { address, ..self }
    }

    /// What is wrong with it as a network whose addresses hosts have, if something is.
    pub(crate) fn network_fault(self) -> Option<String> {
        let masked = self.masked();
        match is_special(masked.address) {
            _ if masked != self => Some(format!("{self} has bits behind its length: {masked} is meant?")),
            Some(what) if self.length > 0 => Some(format!("{self} is {what}")),
            _ => None,
        }
    }

    /// The broadcast address of the link, if it has one (RFC 922 §7, RFC 3021 §2.1).
    pub(crate) fn broadcast(self) -> Option<IpAddr> {
        let (address, length) = self.ipv4().filter(|(_, length)| *length <= 30)?;
        Some((address | Ipv4Addr::from_bits(u32::MAX >> length)).into())
    }

    /// Address and length, if it is of IPv4.
    #[must_use]
    pub fn ipv4(self) -> Option<(Ipv4Addr, u8)> {
        match self.address {
            IpAddr::V4(address) => Some((address, self.length)),
            IpAddr::V6(_) => None,
        }
    }

    /// Address and length, if it is of IPv6.
    #[must_use]
    pub fn ipv6(self) -> Option<(Ipv6Addr, u8)> {
        match self.address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => Some((address, self.length)),
        }
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault = || {
            let zone = if text.contains('%') {
                "; it has no zone"
            } else {
                ""
            };
            format!(
                "`{text}` is no address with a prefix length, such as 10.0.0.1/24 or 2001:db8::1/64{zone}"
            )
        };
        let (address, length) = text.split_once('/').ok_or_else(fault)?;
        let address: IpAddr = address.parse().map_err(|_| fault())?;
        let length: u8 = length.parse().map_err(|_| fault())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        if length > most {
            return Err(format!("`{text}`: prefix length {length} is outside 0..={most}"));
        }
        Ok(Self { address, length })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl JsonSchema for Prefix {
    fn schema_name() -> Cow<'static, str> {
        "Prefix".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9A-Fa-f:.]+/[0-9]{1,3}$",
            "examples": ["10.0.0.1/24", "2001:db8::1/64"],
        })
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

/// What an address is that no host has on a link for others to reach (RFC 6890 §2.2).
pub(crate) fn is_special(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_loopback() => Some("of the loopback"),
        _ if address.is_multicast() => Some("multicast"),
        IpAddr::V4(v4) if v4.octets()[0] >= 240 => Some("reserved"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => Some("of the link alone"),
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => Some("an IPv4 address in IPv6 form"),
        _ => None,
    }
}

/// Six octets in hexadecimal with colons.
pub(crate) fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut octets = [0; 6];
    let mut parts = text.split(':');
    for octet in &mut octets {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *octet = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(octets)
}
