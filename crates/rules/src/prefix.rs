//! IP prefixes: a UE's address, a route, one side of an SDF filter.
//!
//! Values only. The lookups over many prefixes are `transport`'s (routes) and the worker's (UE addresses).

use core::fmt;
use core::str::FromStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 or IPv6 prefix with its host bits zero, so that equal prefixes compare equal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct IpPrefix {
    address: IpAddr,
    len: u8,
}

impl IpPrefix {
    /// The prefix of `len` bits that contains `address`; host bits are cleared. `None` when `len` is above 32 for
    /// IPv4 or above 128 for IPv6.
    pub fn new(address: IpAddr, len: u8) -> Option<Self> {
        let address = match address {
            IpAddr::V4(v4) if len <= 32 => IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask_v4(len))),
            IpAddr::V6(v6) if len <= 128 => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask_v6(len))),
            _ => return None,
        };
        Some(Self { address, len })
    }

    /// As [`new`](Self::new), of what is known to be within the bounds, host bits zero.
    pub(crate) const fn masked(address: IpAddr, len: u8) -> Self {
        Self { address, len }
    }

    /// The prefix that holds exactly one address: /32 or /128.
    pub const fn host(address: IpAddr) -> Self {
        let len = match address {
            IpAddr::V4(_) => 32,
            IpAddr::V6(_) => 128,
        };
        Self { address, len }
    }

    /// The first address of the prefix.
    pub const fn address(&self) -> IpAddr {
        self.address
    }

    /// The number of leading bits that count, 0..=32 or 0..=128. (A prefix is never empty: hence no `is_empty`.)
    #[expect(
        clippy::len_without_is_empty,
        reason = "the length of a prefix is not a count of members"
    )]
    pub const fn len(&self) -> u8 {
        self.len
    }

    /// Whether this is an IPv4 prefix.
    pub const fn is_ipv4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether `address` is of the same family and in the prefix.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(prefix), IpAddr::V4(v4)) => v4.to_bits() & mask_v4(self.len) == prefix.to_bits(),
            (IpAddr::V6(prefix), IpAddr::V6(v6)) => v6.to_bits() & mask_v6(self.len) == prefix.to_bits(),
            _ => false,
        }
    }
}

/// Whether `address` is in one of `prefixes`.
pub(crate) fn owns(mut prefixes: impl Iterator<Item = IpPrefix>, address: IpAddr) -> bool {
    prefixes.any(|prefix| prefix.contains(address))
}

/// Whether `address` is in fe80::/10 and one of `prefixes` is of IPv6.
pub(crate) fn is_link_local(mut prefixes: impl Iterator<Item = IpPrefix>, address: IpAddr) -> bool {
    let has_ipv6 = prefixes.any(|prefix| !prefix.is_ipv4());
    has_ipv6 && matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local())
}

/// The leading `len` bits; `len` is at most 32.
fn mask_v4(len: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0)
}

/// The leading `len` bits; `len` is at most 128.
fn mask_v6(len: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

impl fmt::Display for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.len)
    }
}

impl fmt::Debug for IpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no IP prefix: an address, a slash and a length of at most 32 (IPv4) or 128 (IPv6) bits is; the
/// length may be left out for one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadIpPrefix;

impl fmt::Display for BadIpPrefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "a prefix is an address, '/' and 0..=32 (IPv4) or 0..=128 (IPv6) bits, such as 10.45.0.0/16",
        )
    }
}

impl core::error::Error for BadIpPrefix {}

impl FromStr for IpPrefix {
    type Err = BadIpPrefix;

    fn from_str(text: &str) -> Result<Self, BadIpPrefix> {
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| BadIpPrefix)?;
        let Some(len) = len else {
            return Ok(Self::host(address));
        };
        if len.is_empty() || !len.bytes().all(|digit| digit.is_ascii_digit()) {
            return Err(BadIpPrefix);
        }
        let len = len.parse().map_err(|_| BadIpPrefix)?;
        Self::new(address, len).ok_or(BadIpPrefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> IpPrefix {
        text.parse().unwrap()
    }

    #[test]
    fn host_bits_are_cleared() {
        assert_eq!(prefix("10.45.1.2/16"), prefix("10.45.0.0/16"));
        assert_eq!(prefix("2001:db8::7/64").to_string(), "2001:db8::/64");
        assert_eq!(prefix("10.1.2.3"), IpPrefix::host("10.1.2.3".parse().unwrap()));
    }

    #[test]
    fn the_ends_of_the_range_work() {
        assert!(prefix("0.0.0.0/0").contains("255.255.255.255".parse().unwrap()));
        assert!(prefix("::/0").contains("ffff::".parse().unwrap()));
        assert!(!prefix("::/0").contains("1.2.3.4".parse().unwrap()));
        assert!(prefix("10.0.0.1/32").contains("10.0.0.1".parse().unwrap()));
        assert!(!prefix("10.0.0.1/32").contains("10.0.0.0".parse().unwrap()));
        assert!(!prefix("2001:db8::1/128").contains("2001:db8::".parse().unwrap()));
    }

    #[test]
    fn bad_texts_are_refused() {
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/+8",
            "10.0.0/8",
            "/8",
            "10.0.0.0/8/8",
        ] {
            assert_eq!(bad.parse::<IpPrefix>(), Err(BadIpPrefix), "{bad}");
        }
    }
}
