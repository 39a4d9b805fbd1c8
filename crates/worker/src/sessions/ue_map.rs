//! A number for each UE address or prefix of every VRF: exact for IPv4, longest prefix for IPv6.

use std::net::IpAddr;

use flow::VrfId;
use rules::prefix::IpPrefix;

use crate::sessions::fixed_map::{FixedMap, MapFull};

/// Prefixes with a small value each. The lengths in use are few, so each costs one look into a hash map.
pub(crate) struct UeMap {
    ipv4: FixedMap<2>,
    ipv6: FixedMap<5>,
    ipv4_lengths: Lengths<33>,
    ipv6_lengths: Lengths<129>,
}

/// How many prefixes of each length there are.
struct Lengths<const N: usize> {
    counts: [u32; N],
    /// The lengths in use, longest first.
    in_use: Vec<u8>,
}

impl<const N: usize> Lengths<N> {
    fn new() -> Self {
        Self {
            counts: [0; N],
            in_use: Vec::with_capacity(N),
        }
    }

    fn add(&mut self, length: u8) {
        let count = &mut self.counts[usize::from(length)];
        *count += 1;
        if *count == 1 {
            let place = self.in_use.partition_point(|other| *other > length);
            self.in_use.insert(place, length);
        }
    }

    fn remove(&mut self, length: u8) {
        let count = &mut self.counts[usize::from(length)];
        *count -= 1;
        if *count == 0 {
            self.in_use.retain(|other| *other != length);
        }
    }
}

fn bits_v4(address: u32, length: u8) -> u32 {
    address & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

fn bits_v6(address: u128, length: u8) -> u128 {
    address & u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0)
}

/// The key of an IPv4 prefix.
fn key_v4(vrf: VrfId, length: u8, address: u32) -> [u32; 2] {
    [
        u32::from(vrf.0) << 8 | u32::from(length),
        bits_v4(address, length),
    ]
}

/// The key of an IPv6 prefix.
fn key_v6(vrf: VrfId, length: u8, address: u128) -> [u32; 5] {
    let bits = bits_v6(address, length);
    let [a, b, c, d] = [96, 64, 32, 0].map(|shift| (bits >> shift) as u32);
    [u32::from(vrf.0) << 8 | u32::from(length), a, b, c, d]
}

impl UeMap {
    /// Room for `capacity` prefixes of each family.
    pub fn new(capacity: usize) -> Self {
        Self {
            ipv4: FixedMap::new(capacity),
            ipv6: FixedMap::new(capacity),
            ipv4_lengths: Lengths::new(),
            ipv6_lengths: Lengths::new(),
        }
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ipv4.is_empty() && self.ipv6.is_empty()
    }

    /// How many prefixes of both families there are.
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// How many more IPv4 prefixes fit.
    pub fn room_v4(&self) -> usize {
        self.ipv4.room()
    }

    /// How many more IPv6 prefixes fit.
    pub fn room_v6(&self) -> usize {
        self.ipv6.room()
    }

    /// The value of exactly this prefix.
    pub fn at(&self, vrf: VrfId, prefix: IpPrefix) -> Option<u32> {
        match prefix.address() {
            IpAddr::V4(address) => self.ipv4.at(&key_v4(vrf, prefix.len(), address.to_bits())),
            IpAddr::V6(address) => self.ipv6.at(&key_v6(vrf, prefix.len(), address.to_bits())),
        }
    }

    /// Sets the value of a prefix.
    ///
    /// # Errors
    /// [`MapFull`].
    pub fn insert(&mut self, vrf: VrfId, prefix: IpPrefix, value: u32) -> Result<(), MapFull> {
        let length = prefix.len();
        match prefix.address() {
            IpAddr::V4(address) => {
                let key = key_v4(vrf, length, address.to_bits());
                if self.ipv4.insert(key, value)?.is_none() {
                    self.ipv4_lengths.add(length);
                }
            }
            IpAddr::V6(address) => {
                let key = key_v6(vrf, length, address.to_bits());
                if self.ipv6.insert(key, value)?.is_none() {
                    self.ipv6_lengths.add(length);
                }
            }
        }
        Ok(())
    }

    /// Takes a prefix out.
    pub fn remove(&mut self, vrf: VrfId, prefix: IpPrefix) {
        let length = prefix.len();
        match prefix.address() {
            IpAddr::V4(address) => {
                if self
                    .ipv4
                    .remove(&key_v4(vrf, length, address.to_bits()))
                    .is_some()
                {
                    self.ipv4_lengths.remove(length);
                }
            }
            IpAddr::V6(address) => {
                if self
                    .ipv6
                    .remove(&key_v6(vrf, length, address.to_bits()))
                    .is_some()
                {
                    self.ipv6_lengths.remove(length);
                }
            }
        }
    }

    /// Prefetches the memory where the longest prefix is, if `address` has one of the longest length.
    #[inline]
    pub fn prefetch(&self, vrf: VrfId, address: IpAddr) {
        match address {
            IpAddr::V4(address) => {
                if let Some(&length) = self.ipv4_lengths.in_use.first() {
                    self.ipv4.prefetch(&key_v4(vrf, length, address.to_bits()));
                }
            }
            IpAddr::V6(address) => {
                if let Some(&length) = self.ipv6_lengths.in_use.first() {
                    self.ipv6.prefetch(&key_v6(vrf, length, address.to_bits()));
                }
            }
        }
    }

    /// The value of the longest prefix that contains `address`.
    #[inline]
    pub fn lookup(&self, vrf: VrfId, address: IpAddr) -> Option<u32> {
        match address {
            IpAddr::V4(address) => {
                let at = |&length: &u8| self.ipv4.at(&key_v4(vrf, length, address.to_bits()));
                self.ipv4_lengths.in_use.iter().find_map(at)
            }
            IpAddr::V6(address) => {
                let at = |&length: &u8| self.ipv6.at(&key_v6(vrf, length, address.to_bits()));
                self.ipv6_lengths.in_use.iter().find_map(at)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_of_the_right_address_space_wins() {
        let mut map = UeMap::new(8);
        let prefix = |text: &str| text.parse::<IpPrefix>().expect("a prefix");
        for (value, text) in [
            "10.45.0.1/32",
            "10.46.0.0/24",
            "2001:db8:1::/64",
            "2001:db8:1::7/128",
        ]
        .iter()
        .enumerate()
        {
            map.insert(VrfId(1), prefix(text), value as u32)
                .expect("there is room");
        }
        let at = |map: &UeMap, vrf, text: &str| map.lookup(VrfId(vrf), text.parse().expect("an address"));
        assert_eq!(at(&map, 1, "10.45.0.1"), Some(0));
        assert_eq!(at(&map, 0, "10.45.0.1"), None);
        assert_eq!(at(&map, 1, "10.45.0.2"), None);
        assert_eq!(at(&map, 1, "10.46.0.200"), Some(1));
        assert_eq!(at(&map, 1, "2001:db8:1::8"), Some(2));
        assert_eq!(at(&map, 1, "2001:db8:1::7"), Some(3));
        map.remove(VrfId(1), prefix("2001:db8:1::7/128"));
        map.remove(VrfId(1), prefix("2001:db8:2::/64"));
        assert_eq!(at(&map, 1, "2001:db8:1::7"), Some(2));
        assert_eq!(map.at(VrfId(1), prefix("2001:db8:1::/64")), Some(2));
        assert!(!map.is_empty());
    }
}
