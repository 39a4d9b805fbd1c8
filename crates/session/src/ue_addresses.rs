//! Which session holds which UE address, so that two sessions never get the same plain packets; and the draw of
//! addresses from pools.
//!
//! Owned by control. A packet may only match PDRs of one session (TS 29.244 §5.2.1), so an address in a prefix of
//! another session, or a prefix that holds another's address, is as good as taken.

use flow::{Bucket, SessionIndex, VrfId, bucket};
use rules::network::Network;
use rules::prefix::IpPrefix;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::compact_list::Compact;
use crate::pools::{Pool, PoolId, PoolRange};
use crate::random::Random;
use crate::slice_workers::{AllowedBuckets, BucketSet};

/// A UE's address in its address space.
pub type UeAddress = (VrfId, IpPrefix);

impl Compact for UeAddress {
    /// The length of the prefix behind its address.
    type Short = (VrfId, Ipv4Addr, u8);

    fn shortened(&self) -> Option<(VrfId, Ipv4Addr, u8)> {
        let (vrf, prefix) = *self;
        match prefix.address() {
            IpAddr::V4(address) => Some((vrf, address, prefix.len())),
            IpAddr::V6(_) => None,
        }
    }

    fn of_short((vrf, address, len): (VrfId, Ipv4Addr, u8)) -> UeAddress {
        // The length came from a prefix.
        let prefix = IpPrefix::new(address.into(), len);
        (vrf, prefix.unwrap_or(IpPrefix::host(address.into())))
    }
}

/// Tries at a free address in the wanted bucket. One in 512 is in it, so that fewer than one draw in 2,900 fails for
/// want of tries; addresses in other buckets are found by a worker selection exception.
const DRAWS_IN_BUCKET: u64 = 4096;

/// Tries at any free address before the range is searched one by one.
const DRAWS: u64 = 64;

/// A range of a pool.
#[derive(Debug)]
struct Range {
    pool: PoolId,
    vrf: VrfId,
    range: PoolRange,
    /// How many of it are held.
    used: u64,
    /// How many were held when none was found in one of several buckets. With as many, few are tried.
    scarce_from: u64,
}

/// What is wanted of the pools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 prefix of this length; `None`: of the length of the first range with IPv6.
    Ipv6(Option<u8>),
}

impl Family {
    fn is_of(self, range: &PoolRange) -> bool {
        match self {
            Family::Ipv4 => range.is_ipv4(),
            Family::Ipv6(len) => !range.is_ipv4() && len.is_none_or(|len| len == range.len()),
        }
    }
}

/// In which bucket an address is wanted, if the pools have one.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WantedBucket<'a> {
    /// In whichever.
    Any,
    /// In this one.
    One(Bucket),
    /// In one of these.
    Of(&'a BucketSet),
}

impl<'a> WantedBucket<'a> {
    /// Of a session that is in `bucket`, or may be in those that are `allowed`.
    pub(crate) fn new(bucket: Option<Bucket>, allowed: AllowedBuckets<'a>) -> Self {
        match (bucket, allowed.set()) {
            (Some(bucket), _) => Self::One(bucket),
            (None, Some(set)) => Self::Of(set),
            (None, None) => Self::Any,
        }
    }

    fn has(self, bucket: Bucket) -> bool {
        match self {
            Self::Any => true,
            Self::One(wanted) => wanted == bucket,
            Self::Of(set) => set.has(bucket),
        }
    }
}

/// Why no address was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoAddress {
    /// The pools have nothing of this family and length.
    NoPool,
    /// Everything is held.
    Exhausted,
}

/// Who holds which prefix: by address space, then by address, a wider prefix before the ones in it. Keys are plain
/// numbers, since there are very many: those of IPv4 are address space, address and length in one word.
#[derive(Debug, Default)]
struct Holders {
    ipv4: BTreeMap<u64, SessionIndex>,
    ipv6: BTreeMap<(u16, u128, u8), SessionIndex>,
}

/// The place of a prefix among the others of its family.
#[derive(Clone, Copy)]
enum Place {
    Ipv4(u64),
    Ipv6((u16, u128, u8)),
}

fn place((vrf, prefix): UeAddress) -> Place {
    let len = prefix.len();
    match prefix.address() {
        IpAddr::V4(v4) => Place::Ipv4(u64::from(vrf.0) << 40 | u64::from(v4.to_bits()) << 8 | u64::from(len)),
        IpAddr::V6(v6) => Place::Ipv6((vrf.0, v6.to_bits(), len)),
    }
}

/// The last place that a part of a prefix can have.
fn end((vrf, prefix): UeAddress) -> Place {
    let host_bits = |width: u8| u32::from(width.saturating_sub(prefix.len()));
    match prefix.address() {
        IpAddr::V4(v4) => {
            let last = v4.to_bits() | u32::MAX.checked_shr(u32::BITS - host_bits(32)).unwrap_or(0);
            Place::Ipv4(u64::from(vrf.0) << 40 | u64::from(last) << 8 | 0xff)
        }
        IpAddr::V6(v6) => {
            let last = v6.to_bits() | u128::MAX.checked_shr(u128::BITS - host_bits(128)).unwrap_or(0);
            Place::Ipv6((vrf.0, last, u8::MAX))
        }
    }
}

impl Holders {
    /// One session has all of these, in any order.
    fn of(addresses: &[UeAddress], session: SessionIndex) -> Holders {
        let places = || addresses.iter().map(|address| place(*address));
        let ipv4 = places().filter_map(|place| match place {
            Place::Ipv4(key) => Some((key, session)),
            Place::Ipv6(_) => None,
        });
        let ipv6 = places().filter_map(|place| match place {
            Place::Ipv4(_) => None,
            Place::Ipv6(key) => Some((key, session)),
        });
        Holders {
            ipv4: ipv4.collect(),
            ipv6: ipv6.collect(),
        }
    }

    /// All that are held.
    fn iter(&self) -> impl Iterator<Item = UeAddress> + '_ {
        let v4 = |key: &u64| {
            let prefix = IpPrefix::new(Ipv4Addr::from_bits((key >> 8) as u32).into(), *key as u8)?;
            Some((VrfId((key >> 40) as u16), prefix))
        };
        let v6 = |(vrf, bits, len): &(u16, u128, u8)| {
            Some((
                VrfId(*vrf),
                IpPrefix::new(Ipv6Addr::from_bits(*bits).into(), *len)?,
            ))
        };
        let ipv4 = self.ipv4.keys().filter_map(v4);
        ipv4.chain(self.ipv6.keys().filter_map(v6))
    }

    fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    fn get(&self, address: UeAddress) -> Option<SessionIndex> {
        match place(address) {
            Place::Ipv4(key) => self.ipv4.get(&key).copied(),
            Place::Ipv6(key) => self.ipv6.get(&key).copied(),
        }
    }

    /// Who held it.
    fn insert(&mut self, address: UeAddress, session: SessionIndex) -> Option<SessionIndex> {
        match place(address) {
            Place::Ipv4(key) => self.ipv4.insert(key, session),
            Place::Ipv6(key) => self.ipv6.insert(key, session),
        }
    }

    fn remove(&mut self, address: UeAddress) {
        match place(address) {
            Place::Ipv4(key) => self.ipv4.remove(&key),
            Place::Ipv6(key) => self.ipv6.remove(&key),
        };
    }

    /// What is held of a range.
    fn of_range(&self, vrf: VrfId, range: PoolRange) -> impl Iterator<Item = IpPrefix> + '_ {
        let (first, last) = (range.nth(0), range.nth(range.count() - 1));
        let (ipv4, ipv6) = match (place((vrf, first)), end((vrf, last))) {
            (Place::Ipv4(first), Place::Ipv4(last)) => (Some(self.ipv4.range(first..=last)), None),
            (Place::Ipv6(first), Place::Ipv6(last)) => (None, Some(self.ipv6.range(first..=last))),
            _ => (None, None),
        };
        let v4 = |key: &u64| IpPrefix::new(Ipv4Addr::from_bits((key >> 8) as u32).into(), *key as u8);
        let v6 = |(_, bits, len): &(u16, u128, u8)| IpPrefix::new(Ipv6Addr::from_bits(*bits).into(), *len);
        let ipv4 = ipv4.into_iter().flatten().filter_map(move |(key, _)| v4(key));
        let ipv6 = ipv6.into_iter().flatten().filter_map(move |(key, _)| v6(key));
        ipv4.chain(ipv6).filter(move |prefix| range.has(*prefix))
    }

    /// Who holds `address` or a part of it.
    fn within(&self, address: UeAddress) -> impl Iterator<Item = SessionIndex> + '_ {
        let (ipv4, ipv6) = match (place(address), end(address)) {
            (Place::Ipv4(first), Place::Ipv4(last)) => (Some(self.ipv4.range(first..=last)), None),
            (Place::Ipv6(first), Place::Ipv6(last)) => (None, Some(self.ipv6.range(first..=last))),
            _ => (None, None),
        };
        let ipv4 = ipv4.into_iter().flatten().map(|(_, holder)| *holder);
        ipv4.chain(ipv6.into_iter().flatten().map(|(_, holder)| *holder))
    }
}

/// The ranges of these pools, of which nothing is held. A pool of an instance that is not configured is empty.
fn ranges(pools: &[Pool], network: &Network) -> Vec<Range> {
    let ranges = pools.iter().zip(0..).flat_map(|(pool, id)| {
        let vrf = network.instance(pool.instance).map(|instance| instance.vrf);
        let ranges = pool.ranges.iter();
        ranges.filter_map(move |range| {
            Some(Range {
                pool: PoolId(id),
                vrf: vrf?,
                range: *range,
                used: 0,
                scarce_from: u64::MAX,
            })
        })
    });
    ranges.collect()
}

/// An address space, a family (whether IPv4) and a length of prefixes.
type Kind = (VrfId, bool, u8);

fn kind((vrf, prefix): UeAddress) -> Kind {
    (vrf, prefix.is_ipv4(), prefix.len())
}

/// The UE addresses of all sessions.
#[derive(Debug)]
pub struct Addresses {
    holders: Holders,
    /// How many prefixes of each kind are held, in the order of the kinds: they are few.
    lengths: Vec<(Kind, usize)>,
    ranges: Vec<Range>,
    random: Random,
}

impl Addresses {
    /// No addresses are held; those of `pools` can be drawn. A pool of an instance that is not configured is empty.
    pub fn new(pools: &[Pool], network: &Network, random: Random) -> Addresses {
        Addresses {
            holders: Holders::default(),
            lengths: Vec::new(),
            ranges: ranges(pools, network),
            random,
        }
    }

    /// How many of the addresses of pool `id` that are held are not in `next`, the pool as it is to be; `None`: it is
    /// removed. `vrf` is the address space that it is of then.
    pub(crate) fn lost(&self, id: PoolId, next: Option<&Pool>, vrf: Option<VrfId>) -> usize {
        let own = self
            .ranges
            .iter()
            .filter(|range| range.pool == id && range.used > 0);
        let is_kept = |of: &Range, prefix| {
            let ranges = next.map(|pool| &pool.ranges).into_iter().flatten();
            vrf == Some(of.vrf) && ranges.into_iter().any(|range| range.has(prefix))
        };
        let is_whole = |of: &&Range| {
            let mut ranges = next.map(|pool| &pool.ranges).into_iter().flatten();
            vrf == Some(of.vrf) && ranges.any(|range| range.includes(&of.range))
        };
        // Most ranges stay or grow: what is held of them does not have to be looked at.
        let suspect = own.filter(|of| !is_whole(of));
        let lost = suspect.flat_map(|of| {
            let held = self.holders.of_range(of.vrf, of.range);
            held.filter(move |prefix| !is_kept(of, *prefix))
        });
        lost.count()
    }

    /// From now on addresses are drawn of these pools. What is held stays held.
    pub(crate) fn set_pools(&mut self, pools: &[Pool], network: &Network) {
        let before = std::mem::replace(&mut self.ranges, ranges(pools, network));
        for range in &mut self.ranges {
            let is_same = |old: &&Range| (old.vrf, old.range) == (range.vrf, range.range);
            range.used = match before.iter().find(is_same) {
                Some(old) => old.used,
                None => self.holders.of_range(range.vrf, range.range).count() as u64,
            };
        }
    }

    /// The session that holds `address`.
    pub fn holder(&self, address: UeAddress) -> Option<SessionIndex> {
        self.holders.get(address)
    }

    /// Whether a session of which `is_foreign` holds `address`, a prefix around it or a part of it.
    pub fn is_taken(&self, address: UeAddress, is_foreign: impl Fn(SessionIndex) -> bool) -> bool {
        self.around(address).any(&is_foreign)
            || (self.has_longer(address) && self.holders.within(address).any(is_foreign))
    }

    /// Whether any prefix of the address space is held that is longer than `address`, and may be a part of it.
    fn has_longer(&self, (vrf, prefix): UeAddress) -> bool {
        let family = prefix.is_ipv4();
        let is_longer =
            |(kind, _): &(Kind, usize)| (kind.0, kind.1) == (vrf, family) && kind.2 > prefix.len();
        self.lengths.iter().any(is_longer)
    }

    /// The session that holds `address` or the longest prefix around it.
    pub fn holder_around(&self, address: UeAddress) -> Option<SessionIndex> {
        self.around(address).last()
    }

    /// Who holds `address` or a prefix around it, the widest first.
    fn around(&self, (vrf, prefix): UeAddress) -> impl Iterator<Item = SessionIndex> + '_ {
        let family = prefix.is_ipv4();
        let is_around =
            move |(kind, _): &&(Kind, usize)| (kind.0, kind.1) == (vrf, family) && kind.2 <= prefix.len();
        let lengths = self.lengths.iter().filter(is_around);
        lengths.filter_map(move |((_, _, len), _)| self.holder((vrf, IpPrefix::new(prefix.address(), *len)?)))
    }

    /// Whether a pool may give `address`.
    pub fn is_of_pool(&self, (vrf, prefix): UeAddress) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|range| range.vrf == vrf && range.range.has(prefix))
    }

    /// Gives those of `addresses` to `session` that no session holds. Where they are many more than are held it takes a
    /// fraction of the time, most of all in their order.
    pub fn give_free(&mut self, addresses: &[UeAddress], session: SessionIndex) {
        if self.holders.len() > addresses.len() / 2 {
            for address in addresses {
                if self.holder(*address).is_none() {
                    self.give(*address, session);
                }
            }
            return;
        }
        let held = std::mem::replace(&mut self.holders, Holders::of(addresses, session));
        self.holders.ipv4.extend(held.ipv4);
        self.holders.ipv6.extend(held.ipv6);
        for range in &mut self.ranges {
            range.used = self.holders.of_range(range.vrf, range.range).count() as u64;
        }
        let mut lengths: BTreeMap<Kind, usize> = BTreeMap::new();
        for address in self.holders.iter() {
            *lengths.entry(kind(address)).or_default() += 1;
        }
        self.lengths = lengths.into_iter().collect();
    }

    /// Gives `address` to `session`, also if another holds it.
    pub fn give(&mut self, address: UeAddress, session: SessionIndex) {
        if self.holders.insert(address, session).is_none() {
            let kind = kind(address);
            match self.lengths.binary_search_by_key(&kind, |(kind, _)| *kind) {
                Ok(place) => self.lengths[place].1 += 1,
                Err(place) => self.lengths.insert(place, (kind, 1)),
            }
            self.tell_pool(address, u64::wrapping_add);
        }
    }

    /// Takes `address` from `session`, if it is still the one that holds it.
    pub fn release(&mut self, address: UeAddress, session: SessionIndex) -> bool {
        if self.holder(address) != Some(session) {
            return false;
        }
        self.holders.remove(address);
        let kind = kind(address);
        if let Ok(place) = self.lengths.binary_search_by_key(&kind, |(kind, _)| *kind) {
            let count = &mut self.lengths[place].1;
            *count -= 1;
            if *count == 0 {
                self.lengths.remove(place);
            }
        }
        self.tell_pool(address, u64::wrapping_sub);
        true
    }

    /// One more or one less of a pool's addresses is held.
    fn tell_pool(&mut self, (vrf, prefix): UeAddress, change: fn(u64, u64) -> u64) {
        let mut ranges = self.ranges.iter_mut();
        if let Some(range) = ranges.find(|range| range.vrf == vrf && range.range.has(prefix)) {
            range.used = change(range.used, 1);
        }
    }

    /// Draws an address of one of `pools`, in the order of their ranges, and gives it to `session`: at random, in the
    /// bucket that is wanted if that has a free one.
    pub(crate) fn draw(
        &mut self,
        pools: &[PoolId],
        family: Family,
        wanted: WantedBucket<'_>,
        session: SessionIndex,
    ) -> Result<UeAddress, NoAddress> {
        let is_one = |range: &Range| pools.contains(&range.pool) && family.is_of(&range.range);
        let places = 0..self.ranges.len();
        let places: SmallVec<[usize; 8]> = places.filter(|place| is_one(&self.ranges[*place])).collect();
        if places.is_empty() {
            return Err(NoAddress::NoPool);
        }
        let mut drawn = match wanted {
            WantedBucket::Any => None,
            wanted => places.iter().find_map(|place| self.draw_wanted(*place, wanted)),
        };
        drawn = drawn.or_else(|| places.iter().find_map(|place| self.draw_any(*place)));
        let address = drawn.ok_or(NoAddress::Exhausted)?;
        self.give(address, session);
        Ok(address)
    }

    /// A free address of the range at `place` that is in a bucket that is wanted, as far as some are tried.
    fn draw_wanted(&mut self, place: usize, wanted: WantedBucket<'_>) -> Option<UeAddress> {
        let Range {
            vrf,
            range,
            used,
            scarce_from,
            ..
        } = *self.ranges.get(place)?;
        let is_of_several = matches!(wanted, WantedBucket::Of(_));
        let draws = match is_of_several && used >= scarce_from {
            true => DRAWS,
            false => DRAWS_IN_BUCKET.min(range.count().saturating_mul(8)),
        };
        if used < range.count() {
            for _ in 0..draws {
                let prefix = range.nth(self.random.next_u64());
                if wanted.has(bucket::of_address(prefix.address())) && !self.is_taken((vrf, prefix), |_| true)
                {
                    return Some((vrf, prefix));
                }
            }
        }
        if is_of_several && let Some(range) = self.ranges.get_mut(place) {
            range.scarce_from = range.scarce_from.min(used);
        }
        None
    }

    /// A free address of the range at `place`.
    fn draw_any(&mut self, place: usize) -> Option<UeAddress> {
        let Range { vrf, range, used, .. } = *self.ranges.get(place)?;
        if used >= range.count() {
            return None;
        }
        let start = self.random.next_u64() % range.count();
        // Of one more than are held, one is free.
        let random = (0..DRAWS).map(|_| self.random.next_u64()).collect::<Vec<_>>();
        let search = (0..=used).map(|step| start.wrapping_add(step));
        let mut numbers = random.into_iter().chain(search);
        numbers
            .find(|number| !self.is_taken((vrf, range.nth(*number)), |_| true))
            .map(|number| (vrf, range.nth(number)))
    }

    /// How many are held.
    pub fn held(&self) -> usize {
        self.holders.len()
    }

    /// How many of a pool's addresses and prefixes are held, and how many it has.
    pub fn usage(&self, pool: PoolId) -> (u64, u64) {
        let ranges = self.ranges.iter().filter(|range| range.pool == pool);
        ranges.fold((0, 0), |(used, all), range| {
            (used + range.used, range.range.count().saturating_add(all))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::{InstanceId, PortId};
    use proptest::prelude::*;
    use rules::network::{Instance, Roles};

    const A: SessionIndex = SessionIndex(1);
    const B: SessionIndex = SessionIndex(2);
    const POOL: PoolId = PoolId(0);

    fn network() -> Network {
        let instance = Instance {
            id: InstanceId(0),
            name: "internet".into(),
            roles: Roles::N6,
            vrf: VrfId(3),
            port: PortId(0),
            vlan: None,
            mtu: 1500,
            ipv4: None,
            ipv6: None,
            routes: Vec::new(),
            dscp: None,
            mirror: None,
            hairpin: rules::network::Hairpin::Router,
            fragmentation: rules::network::Fragmentation::Inner,
            mss: rules::network::Mss::Off,
            egress: None,
        };
        Network::new(vec![instance]).unwrap()
    }

    fn addresses(ranges: Vec<PoolRange>) -> Addresses {
        let pool = Pool {
            name: "pool".into(),
            instance: InstanceId(0),
            ranges,
        };
        Addresses::new(&[pool], &network(), Random::from_number(1))
    }

    fn ipv4(first: u8, last: u8) -> PoolRange {
        PoolRange::ipv4(Ipv4Addr::new(10, 45, 0, first), Ipv4Addr::new(10, 45, 0, last)).unwrap()
    }

    #[test]
    fn only_the_holder_releases() {
        let address = (VrfId(0), "10.45.0.2".parse().unwrap());
        let mut addresses = addresses(Vec::new());
        addresses.give(address, A);
        addresses.give(address, B);
        addresses.release(address, A);
        assert_eq!(addresses.holder(address), Some(B));
        addresses.release(address, B);
        assert_eq!((addresses.held(), addresses.lengths.len()), (0, 0));
    }

    proptest! {
        /// All at once, where none are held and where some are, is the same as one by one.
        #[test]
        fn all_at_once_are_the_same(
            before in proptest::collection::vec((2..4_u16, 0..30_u8, 24..=32_u8), 0..3),
            drawn in proptest::collection::vec((2..4_u16, 0..30_u8, 24..=32_u8), 0..60),
            ipv6 in proptest::collection::vec((0..30_u8, 48..=64_u8), 0..20),
        ) {
            let v4 = |&(vrf, host, len): &(u16, u8, u8)| {
                (VrfId(vrf), IpPrefix::new(Ipv4Addr::new(10, 45, 0, host).into(), len).unwrap())
            };
            let v6 = |&(host, len): &(u8, u8)| {
                let address = Ipv6Addr::new(0x2001, 0xdb8, 0, u16::from(host), 0, 0, 0, 0);
                (VrfId(3), IpPrefix::new(address.into(), len).unwrap())
            };
            let all: Vec<UeAddress> = drawn.iter().map(v4).chain(ipv6.iter().map(v6)).collect();
            let (mut one_by_one, mut at_once) = (addresses(vec![ipv4(0, 9)]), addresses(vec![ipv4(0, 9)]));
            for address in before.iter().map(v4) {
                one_by_one.give(address, A);
                at_once.give(address, A);
            }
            for address in &all {
                if one_by_one.holder(*address).is_none() {
                    one_by_one.give(*address, B);
                }
            }
            at_once.give_free(&all, B);
            let held = |of: &Addresses| {
                let used: Vec<u64> = of.ranges.iter().map(|range| range.used).collect();
                let holders: Vec<_> = of.holders.iter().map(|address| (address, of.holder(address))).collect();
                (used, of.lengths.clone(), of.held(), holders)
            };
            prop_assert_eq!(held(&at_once), held(&one_by_one));
        }
    }

    #[test]
    fn what_overlaps_is_taken_in_its_own_address_space() {
        let mut addresses = addresses(Vec::new());
        let at = |vrf, text: &str| (VrfId(vrf), text.parse().unwrap());
        addresses.give(at(0, "10.60.0.0/16"), A);
        addresses.give(at(0, "2001:db8:1::/56"), A);
        let taken = |own: &Addresses, address| own.is_taken(address, |holder| holder != B);
        for overlap in [
            "10.60.0.0/16",
            "10.60.7.7",
            "10.0.0.0/8",
            "0.0.0.0/0",
            "2001:db8:1:7::/64",
            "2001:db8::/32",
        ] {
            assert!(taken(&addresses, at(0, overlap)), "{overlap}");
            assert!(!taken(&addresses, at(1, overlap)), "{overlap}");
            assert!(
                !addresses.is_taken(at(0, overlap), |holder| holder != A),
                "{overlap}"
            );
        }
        for beside in ["10.61.0.0/16", "10.59.255.255", "2001:db8:1:100::/64", "::/16"] {
            assert!(!taken(&addresses, at(0, beside)), "{beside}");
        }
    }

    #[test]
    fn a_pool_gives_every_address_once_and_then_none() {
        let mut addresses = addresses(vec![ipv4(2, 5), ipv4(8, 9)]);
        addresses.give((VrfId(3), "10.45.0.4".parse().unwrap()), B);
        let mut drawn: Vec<UeAddress> = (0..5)
            .map(|_| {
                addresses
                    .draw(&[POOL], Family::Ipv4, WantedBucket::Any, A)
                    .unwrap()
            })
            .collect();
        drawn.sort_unstable();
        let texts: Vec<String> = drawn
            .iter()
            .map(|(_, prefix)| prefix.address().to_string())
            .collect();
        assert_eq!(
            texts,
            ["10.45.0.2", "10.45.0.3", "10.45.0.5", "10.45.0.8", "10.45.0.9"]
        );
        assert_eq!(
            addresses.draw(&[POOL], Family::Ipv4, WantedBucket::Any, A),
            Err(NoAddress::Exhausted)
        );
        assert_eq!(addresses.usage(POOL), (6, 6));
        addresses.release(drawn[2], A);
        assert_eq!(
            addresses.draw(&[POOL], Family::Ipv4, WantedBucket::Any, B),
            Ok(drawn[2])
        );
        assert_eq!(
            addresses.draw(&[POOL], Family::Ipv6(None), WantedBucket::Any, A),
            Err(NoAddress::NoPool)
        );
        assert_eq!(
            addresses.draw(&[PoolId(1)], Family::Ipv4, WantedBucket::Any, A),
            Err(NoAddress::NoPool)
        );
    }

    #[test]
    fn a_wanted_bucket_is_looked_for_in_all_ranges_before_another_one_is_taken() {
        let first = |number: u8| bucket::of_address(Ipv4Addr::new(10, 45, 0, number).into());
        let wanted = first(8);
        let others = (2..=5).find(|number| first(*number) == wanted);
        assert_eq!(others, None, "the first range has none in it");
        let mut addresses = addresses(vec![ipv4(2, 5), ipv4(8, 8)]);
        let mut draw = || addresses.draw(&[POOL], Family::Ipv4, WantedBucket::One(wanted), A);
        let (_, prefix) = draw().unwrap();
        assert_eq!(prefix.address(), IpAddr::from([10, 45, 0, 8]));
        let rest: Vec<bool> = (0..5).map(|_| draw().is_ok()).collect();
        assert_eq!(rest, [true, true, true, true, false]);
    }

    #[test]
    fn pools_grow_and_lose_nothing_that_is_held() {
        let mut addresses = addresses(vec![ipv4(2, 5)]);
        let drawn: Vec<_> = (0..4)
            .map(|_| {
                addresses
                    .draw(&[POOL], Family::Ipv4, WantedBucket::Any, A)
                    .unwrap()
            })
            .collect();
        let pool = |ranges| Pool {
            name: "pool".into(),
            instance: InstanceId(0),
            ranges,
        };
        let vrf = Some(VrfId(3));
        let lost = |own: &Addresses, next: Option<&Pool>, vrf| own.lost(POOL, next, vrf);
        let grown = pool(vec![ipv4(1, 6)]);
        assert_eq!(lost(&addresses, Some(&grown), vrf), 0);
        assert_eq!(
            lost(&addresses, Some(&grown), Some(VrfId(0))),
            4,
            "of another address space"
        );
        assert_eq!(
            lost(&addresses, Some(&pool(vec![ipv4(2, 3), ipv4(5, 9)])), vrf),
            1
        );
        assert_eq!(
            lost(&addresses, Some(&pool(vec![ipv4(2, 3), ipv4(4, 9)])), vrf),
            0
        );
        assert_eq!(lost(&addresses, None, None), 4);
        addresses.set_pools(&[grown], &network());
        assert_eq!(addresses.usage(POOL), (4, 6));
        let more: Vec<_> = (0..2)
            .map(|_| {
                addresses
                    .draw(&[POOL], Family::Ipv4, WantedBucket::Any, B)
                    .unwrap()
            })
            .collect();
        assert!(more.iter().all(|address| !drawn.contains(address)));
        assert_eq!(
            addresses.draw(&[POOL], Family::Ipv4, WantedBucket::Any, B),
            Err(NoAddress::Exhausted)
        );
        addresses.set_pools(&[], &network());
        assert_eq!((addresses.usage(POOL), addresses.held()), ((0, 0), 6));
        assert!(addresses.release(drawn[0], A));
    }

    proptest! {
        #[test]
        fn draws_are_distinct_of_the_right_length_and_in_the_bucket(seed: u64, bucket in 0u16..512) {
            let bucket = Bucket::new(bucket).unwrap();
            let prefix = |text: &str| text.parse::<IpPrefix>().unwrap();
            let ranges = vec![
                PoolRange::ipv6(prefix("2001:db8::/40"), 64).unwrap(),
                PoolRange::ipv6(prefix("2001:db9::/40"), 56).unwrap(),
            ];
            let mut addresses = addresses(ranges);
            addresses.random = Random::from_number(seed);
            let mut there = 0;
            for number in 1..=24 {
                let len = if number % 2 == 0 { 64 } else { 56 };
                let (vrf, drawn) = addresses.draw(&[POOL], Family::Ipv6(Some(len)), WantedBucket::One(bucket), A).unwrap();
                prop_assert_eq!((vrf, drawn.len(), addresses.held()), (VrfId(3), len, number));
                there += usize::from(bucket::of_address(drawn.address()) == bucket);
            }
            prop_assert!(there >= 20, "{} of 24 in the bucket", there);
        }

        #[test]
        fn overlaps_are_those_of_a_plain_search(
            held in proptest::collection::vec((0u8..4, 0u32..64, 26u8..=32), 0..12),
            (asked, bits) in (0u32..64, 24u8..=32),
            ipv6: bool,
        ) {
            let mut addresses = addresses(Vec::new());
            let prefix = |host: u32, len: u8| match ipv6 {
                false => IpPrefix::new(Ipv4Addr::from_bits(0x0a00_0000 | host).into(), len).unwrap(),
                true => IpPrefix::new(Ipv6Addr::from_bits(u128::MAX << 64 | u128::from(host)).into(), 96 + len).unwrap(),
            };
            for (session, host, len) in &held {
                addresses.give((VrfId(0), prefix(*host, *len)), SessionIndex(u32::from(*session)));
            }
            let asked = prefix(asked, bits);
            let overlap = |other: IpPrefix| other.contains(asked.address()) || asked.contains(other.address());
            let model: BTreeMap<_, _> = held.iter().map(|(session, host, len)| (prefix(*host, *len), *session)).collect();
            let expected = model.iter().any(|(other, holder)| overlap(*other) && SessionIndex(u32::from(*holder)) != A);
            prop_assert_eq!(addresses.is_taken((VrfId(0), asked), |holder| holder != A), expected);
        }
    }
}
