//! Pools that the user plane gives UE addresses from (TS 29.244 §5.21.3).
//!
//! Values and arithmetic only; [`Addresses`](crate::ue_addresses::Addresses) has which session holds which address.

use flow::InstanceId;
use rules::prefix::IpPrefix;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A pool: the place of its description in [`Config::pools`](crate::Config::pools).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PoolId(pub u16);

/// A pool of UE addresses of one network instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its name, as the UE IP address Pool Identity IE has it (TS 29.244 §8.2.128).
    pub name: String,
    /// The network instance that the addresses are of.
    pub instance: InstanceId,
    /// What is in it. Ranges of one address space must not overlap.
    pub ranges: Vec<PoolRange>,
}

impl Pool {
    /// What is left of a pool that was removed: the others keep their places.
    const fn removed() -> Pool {
        Pool {
            name: String::new(),
            instance: InstanceId(u16::MAX),
            ranges: Vec::new(),
        }
    }

    /// Whether it has been removed.
    pub const fn is_removed(&self) -> bool {
        self.name.is_empty()
    }

    /// These pools in the place of `older` ones, each at the place of that with its name; new ones at places that no
    /// pool has, which are behind them all as a rule.
    pub fn succeeding(newer: Vec<Pool>, older: &[Pool]) -> Vec<Pool> {
        let mut placed: Vec<Pool> = older.iter().map(|_| Pool::removed()).collect();
        let is_free = |place: &usize| older.get(*place).is_none_or(Pool::is_removed);
        let mut free = (0..).filter(is_free);
        for pool in newer {
            let known = older.iter().position(|old| old.name == pool.name);
            let Some(place) = known.or_else(|| free.next()) else {
                break;
            };
            if placed.len() <= place {
                placed.resize_with(place + 1, Pool::removed);
            }
            placed[place] = pool;
        }
        while placed.pop_if(|last| last.is_removed()).is_some() {}
        placed
    }
}

/// Consecutive addresses, or prefixes of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolRange {
    first: IpPrefix,
    count: u64,
}

impl PoolRange {
    /// The IPv4 addresses from `first` to `last`, both included. `None` when there is none.
    pub fn ipv4(first: Ipv4Addr, last: Ipv4Addr) -> Option<PoolRange> {
        let span = last.to_bits().checked_sub(first.to_bits())?;
        Some(PoolRange {
            first: IpPrefix::host(IpAddr::V4(first)),
            count: u64::from(span) + 1,
        })
    }

    /// The IPv6 prefixes of `len` bits in `prefix`; of more than 2^63 the first 2^63. `None` when `prefix` is no
    /// IPv6 prefix of at most `len` bits.
    pub fn ipv6(prefix: IpPrefix, len: u8) -> Option<PoolRange> {
        let bits = len.checked_sub(prefix.len()).filter(|_| !prefix.is_ipv4())?;
        Some(PoolRange {
            first: IpPrefix::new(prefix.address(), len)?,
            count: 1 << bits.min(63),
        })
    }

    /// How many there are, at least 1.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Bits of each: 32 for IPv4.
    pub const fn len(&self) -> u8 {
        self.first.len()
    }

    /// Never: a range has a first address.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Whether it is of IPv4.
    pub const fn is_ipv4(&self) -> bool {
        self.first.is_ipv4()
    }

    /// The address or prefix with this number; numbers wrap at [`count`](Self::count).
    pub fn nth(&self, number: u64) -> IpPrefix {
        let number = number % self.count;
        let address = match self.first.address() {
            IpAddr::V4(first) => IpAddr::V4(Ipv4Addr::from_bits(first.to_bits().wrapping_add(number as u32))),
            IpAddr::V6(first) => {
                let step = u128::from(number) << (128 - u32::from(self.first.len())).min(127);
                IpAddr::V6(Ipv6Addr::from_bits(first.to_bits().wrapping_add(step)))
            }
        };
        IpPrefix::new(address, self.first.len()).unwrap_or(self.first)
    }

    /// Whether `prefix` is one of them.
    pub fn has(&self, prefix: IpPrefix) -> bool {
        let offset = match (self.first.address(), prefix.address()) {
            (IpAddr::V4(first), IpAddr::V4(own)) => {
                own.to_bits().checked_sub(first.to_bits()).map(u128::from)
            }
            (IpAddr::V6(first), IpAddr::V6(own)) => own.to_bits().checked_sub(first.to_bits()),
            _ => None,
        };
        let width = if self.is_ipv4() { 32 } else { 128 } - u32::from(self.first.len());
        let number = offset.map(|offset| offset >> width.min(127));
        prefix.len() == self.first.len() && number.is_some_and(|number| number < u128::from(self.count))
    }

    /// Whether all of `other` are of this.
    pub fn includes(&self, other: &PoolRange) -> bool {
        self.has(other.nth(0)) && self.has(other.nth(other.count - 1))
    }

    /// Whether an address is in both.
    pub fn overlaps(&self, other: &PoolRange) -> bool {
        let (last, others_last) = (self.nth(self.count - 1), other.nth(other.count - 1));
        let before = |last: IpPrefix, first: IpPrefix| {
            last.address() < first.address() && !last.contains(first.address())
        };
        self.is_ipv4() == other.is_ipv4() && !before(last, other.first) && !before(others_last, self.first)
    }

    /// Whether `address` is in one of them.
    pub fn covers(&self, address: IpAddr) -> bool {
        IpPrefix::new(address, self.len()).is_some_and(|prefix| self.has(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v6(prefix: &str, len: u8) -> PoolRange {
        PoolRange::ipv6(prefix.parse().unwrap(), len).unwrap()
    }

    #[test]
    fn pools_stay_at_their_places() {
        let pool = |name: &str| Pool {
            name: name.into(),
            ..Pool::removed()
        };
        let names = |pools: &[Pool]| pools.iter().map(|pool| pool.name.clone()).collect::<Vec<_>>();
        let first = Pool::succeeding(vec![pool("a"), pool("b")], &[]);
        let second = Pool::succeeding(vec![pool("c"), pool("b")], &first);
        assert_eq!(names(&second), ["", "b", "c"]);
        let third = Pool::succeeding(vec![pool("d"), pool("b")], &second);
        assert_eq!(names(&third), ["d", "b"]);
        assert!(Pool::succeeding(Vec::new(), &third).is_empty());
    }

    #[test]
    fn ranges_have_a_first_and_a_last_member() {
        let range = PoolRange::ipv4(Ipv4Addr::new(10, 45, 0, 2), Ipv4Addr::new(10, 45, 1, 1)).unwrap();
        assert_eq!(
            (range.count(), range.nth(255).to_string()),
            (256, "10.45.1.1/32".into())
        );
        assert!(range.has("10.45.0.2/32".parse().unwrap()) && range.has("10.45.1.1/32".parse().unwrap()));
        assert!(!range.has("10.45.0.1/32".parse().unwrap()) && !range.has("10.45.1.2/32".parse().unwrap()));
        assert!(!range.has("10.45.0.4/30".parse().unwrap()));
        let range = v6("2001:db8:100::/40", 56);
        assert_eq!(
            (range.count(), range.nth(1).to_string()),
            (1 << 16, "2001:db8:100:100::/56".into())
        );
        assert!(
            range.covers("2001:db8:1ff:ffff::1".parse().unwrap())
                && !range.covers("2001:db8:200::".parse().unwrap())
        );
        assert!(v6("2001:db8::/128", 128).has("2001:db8::/128".parse().unwrap()));
        assert!(v6("::/0", 64).has("ffff::/64".parse().unwrap()) == (v6("::/0", 64).count() > 0xffff << 48));
    }

    #[test]
    fn what_holds_nothing_is_no_range() {
        assert_eq!(
            PoolRange::ipv4(Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1)),
            None
        );
        assert_eq!(PoolRange::ipv6("2001:db8::/64".parse().unwrap(), 56), None);
        assert_eq!(PoolRange::ipv6("10.0.0.0/8".parse().unwrap(), 64), None);
        assert_eq!(PoolRange::ipv6("2001:db8::/64".parse().unwrap(), 129), None);
    }

    #[test]
    fn overlaps_are_seen_across_lengths() {
        let wide = v6("2001:db8::/40", 56);
        assert!(
            wide.overlaps(&v6("2001:db8:0:ff00::/56", 64)) && v6("2001:db8:0:ff00::/56", 64).overlaps(&wide)
        );
        assert!(!wide.overlaps(&v6("2001:db8:100::/40", 64)));
        let v4 =
            |first, last| PoolRange::ipv4(Ipv4Addr::from_bits(first), Ipv4Addr::from_bits(last)).unwrap();
        assert!(v4(10, 20).overlaps(&v4(20, 30)) && !v4(10, 20).overlaps(&v4(21, 30)));
    }

    proptest! {
        #[test]
        fn every_member_is_had_and_no_other(bits in 0u8..40, len in 40u8..=128, number: u64, other: u128) {
            let range = PoolRange::ipv6(IpPrefix::new("2001:db8::".parse().unwrap(), bits).unwrap(), len).unwrap();
            let member = range.nth(number);
            prop_assert!(range.has(member) && member.len() == len && range.covers(member.address()));
            let other = IpPrefix::new(IpAddr::V6(Ipv6Addr::from_bits(other)), len).unwrap();
            let inside = IpPrefix::new("2001:db8::".parse().unwrap(), bits).unwrap().contains(other.address());
            prop_assert!(!range.has(other) || inside);
        }
    }
}
