//! Pools that UEs get their addresses from when an SMF leaves the choice to the user plane (UEIP, TS 29.244 §5.21.3).

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;

use rules::prefix::IpPrefix;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_saphyr::Spanned;
use session::PoolRange;

use super::Prefix;
use crate::bounded::Bounded;

/// One pool.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PoolConfig {
    /// The name in PFCP's UE IP address Pool Identity.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The network instance whose UEs get the addresses; it has role n6.
    #[schemars(with = "String")]
    pub instance: Spanned<String>,
    /// IPv4 addresses: `10.45.0.0/16` (all but the first and the last, where it has four or more) or
    /// `10.45.0.10-10.45.0.99`.
    #[serde(default)]
    #[schemars(with = "Vec<Ipv4Range>")]
    pub ipv4: Vec<Spanned<Ipv4Range>>,
    /// IPv6 prefixes.
    #[serde(default)]
    pub ipv6: Vec<Ipv6RangeConfig>,
}

/// IPv4 addresses from the first to the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Range(pub PoolRange);

/// Prefixes of one length out of a shorter one.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ipv6RangeConfig {
    /// What they are taken from.
    #[schemars(with = "Prefix")]
    pub prefix: Spanned<Prefix>,
    /// Bits of each UE's prefix; 64. SMFs ask for others by IP6PL, or by bits for delegation.
    #[serde(default = "Ipv6RangeConfig::default_length")]
    pub length: Bounded<1, 128>,
}

impl Ipv6RangeConfig {
    const fn default_length() -> Bounded<1, 128> {
        Bounded::new(64)
    }

    pub(crate) fn range(&self) -> Option<PoolRange> {
        let prefix = IpPrefix::new(self.prefix.value.address, self.prefix.value.length)?;
        PoolRange::ipv6(prefix, self.length.value() as u8)
    }
}

impl FromStr for Ipv4Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fault =
            || format!("`{text}` is no IPv4 prefix or range, such as 10.45.0.0/16 or 10.45.0.10-10.45.0.99");
        let bounds = match text.split_once('-') {
            Some((first, last)) => first.trim().parse().ok().zip(last.trim().parse().ok()),
            None => {
                let prefix: Prefix = text.parse().map_err(|_| fault())?;
                if let Some(fault) = prefix.network_fault() {
                    return Err(fault);
                }
                hosts(prefix)
            }
        };
        let (first, last) = bounds.ok_or_else(fault)?;
        PoolRange::ipv4(first, last)
            .map(Self)
            .ok_or_else(|| format!("`{text}` ends before it begins"))
    }
}

/// The addresses of an IPv4 prefix that hosts may have.
fn hosts(prefix: Prefix) -> Option<(Ipv4Addr, Ipv4Addr)> {
    let IpAddr::V4(address) = prefix.address else {
        return None;
    };
    let host_bits = u32::MAX.checked_shr(u32::from(prefix.length)).unwrap_or(0);
    let (first, last) = (address.to_bits() & !host_bits, address.to_bits() | host_bits);
    let edge = u32::from(prefix.length <= 30);
    Some((
        Ipv4Addr::from_bits(first + edge),
        Ipv4Addr::from_bits(last - edge),
    ))
}

impl<'de> Deserialize<'de> for Ipv4Range {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(de::Error::custom)
    }
}

impl Serialize for Ipv4Range {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let first = self.0.nth(0).address();
        let last = self.0.nth(self.0.count() - 1).address();
        serializer.collect_str(&format_args!("{first}-{last}"))
    }
}

impl JsonSchema for Ipv4Range {
    fn schema_name() -> Cow<'static, str> {
        "Ipv4Range".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "pattern": "^[0-9.]+(/[0-9]{1,2}|\\s*-\\s*[0-9.]+\\s*)$",
            "examples": ["10.45.0.0/16", "10.45.0.10-10.45.0.99"],
        })
    }
}
