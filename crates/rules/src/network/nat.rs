//! CG-NAT: which pools of public addresses there are, and whose sessions have addresses of them.

use std::net::{IpAddr, Ipv4Addr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use flow::VrfId;
use nat::pools::{NatPool, NatPoolId, NatPools, Ue};

use super::error::NetworkError;
use super::hairpin::UeRoute;
use super::instance::Instance;
use super::scope::SessionScope;
use crate::model::SNssai;
use crate::prefix::IpPrefix;

/// A pool of public addresses, and whose packets it is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BoundPool {
    /// The pool.
    pub pool: NatPool,
    /// The sessions that it is for; none but those whose control plane chooses it.
    pub scope: Option<SessionScope>,
    /// Destinations to which packets keep their source (RFC 6888 REQ-6).
    pub untranslated: Vec<IpPrefix>,
}

/// The address of a session by which blocks of a pool are its own: that of a UE, before any of a network behind it
/// (framed routes).
pub fn ue_of_addresses(pools: &NatPools, pool: NatPoolId, addresses: &[(VrfId, IpPrefix)]) -> Option<Ue> {
    let ipv4 = addresses
        .iter()
        .filter_map(|(vrf, prefix)| match prefix.address() {
            IpAddr::V4(address) => Some(((*vrf, address), prefix.len())),
            IpAddr::V6(_) => None,
        });
    let of = |wanted: fn(u8) -> bool| {
        let own = ipv4.clone().filter(move |(_, len)| wanted(*len));
        pools.ue_of_session(pool, own.map(|(ue, _)| ue))
    };
    of(|len| len == 32).or_else(|| of(|_| true))
}

/// All pools.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nat {
    pools: Arc<NatPools>,
    /// By pool: the sessions that it is for.
    scopes: Vec<Option<SessionScope>>,
    /// By pool: destinations that are not translated for.
    untranslated: Vec<Vec<IpPrefix>>,
}

impl Nat {
    /// These pools.
    ///
    /// # Errors
    /// [`NetworkError::NatPools`]; [`NetworkError::NatScope`]: the first pool that is for the same sessions as another.
    pub fn new(bound: Vec<BoundPool>) -> Result<Self, NetworkError> {
        let mut nat = Self::default();
        let mut pools = Vec::new();
        for one in bound {
            let mut others = nat.scopes.iter().flatten();
            if one
                .scope
                .as_ref()
                .is_some_and(|own| others.any(|other| other.is_same(own)))
            {
                return Err(NetworkError::NatScope(one.pool.name));
            }
            nat.scopes.push(one.scope);
            nat.untranslated.push(one.untranslated);
            pools.push(one.pool);
        }
        nat.pools = Arc::new(NatPools::new(pools).map_err(NetworkError::NatPools)?);
        Ok(nat)
    }

    /// The pools, with their blocks numbered.
    pub const fn pools(&self) -> &Arc<NatPools> {
        &self.pools
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The pool of the sessions of this slice and data network: the narrowest, one of a data network before one of a
    /// slice. The name is as it is or in DNS labels (TS 29.244 §8.2.117), case does not count.
    pub fn of(&self, slice: Option<SNssai>, dnn: Option<&[u8]>) -> Option<NatPoolId> {
        let own = self
            .scopes
            .iter()
            .zip(0..)
            .filter_map(|(scope, place)| Some((scope.as_ref()?, place)))
            .filter(|(scope, _)| scope.holds(slice, dnn));
        own.min_by_key(|(scope, _)| scope.breadth())
            .map(|(_, place)| NatPoolId(place))
    }

    /// The sessions that a pool is for; none, if it is only for those whose control plane chooses it.
    pub fn scope(&self, id: NatPoolId) -> Option<&SessionScope> {
        self.scopes.get(usize::from(id.0))?.as_ref()
    }

    /// The pool of this name, to the octet.
    pub fn by_name(&self, name: &[u8]) -> Option<NatPoolId> {
        let mut named = self.pools.all().iter().zip(0..);
        let found = named.find(|(pool, _)| pool.name.as_bytes() == name);
        found.map(|(_, place)| NatPoolId(place))
    }

    /// Whether packets of a pool's sessions to this destination, or from it, are not translated.
    #[inline]
    pub fn exempts(&self, id: NatPoolId, other_end: Ipv4Addr) -> bool {
        let prefixes = self.untranslated.get(usize::from(id.0));
        prefixes.is_some_and(|prefixes| {
            prefixes
                .iter()
                .any(|prefix| prefix.contains(IpAddr::V4(other_end)))
        })
    }

    /// The ways to the public addresses of an instance: they are this node's, and packets of UEs to them come in again
    /// as if the data network had sent them (RFC 4787 REQ-9).
    pub(super) fn ue_routes(&self, instance: &Instance) -> impl Iterator<Item = (IpPrefix, UeRoute)> + '_ {
        let (id, own) = (
            instance.id,
            instance.ipv4.map(|(own, _)| UeRoute::Ourselves(own.into())),
        );
        let pools = self.pools.all().iter().filter(move |pool| pool.instance == id);
        let prefixes = pools.flat_map(|pool| pool.addresses.iter().flat_map(prefixes));
        prefixes.filter_map(move |prefix| Some((prefix, own?)))
    }
}

/// The fewest prefixes that are these addresses.
fn prefixes(range: &RangeInclusive<Ipv4Addr>) -> impl Iterator<Item = IpPrefix> + use<> {
    let (mut next, end) = (
        u64::from(range.start().to_bits()),
        u64::from(range.end().to_bits()) + 1,
    );
    std::iter::from_fn(move || {
        let left = end.checked_sub(next).filter(|left| *left > 0)?;
        // As large as the first address allows, and as fits.
        let bits = next.trailing_zeros().min(left.ilog2()).min(32);
        let first = Ipv4Addr::from_bits(next as u32);
        next += 1 << bits;
        IpPrefix::new(first.into(), 32 - bits as u8)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn prefixes_are_the_addresses_of_a_range(first in any::<u32>(), size in 0u32..70_000, other in any::<u32>()) {
            let last = first.saturating_add(size);
            let range = Ipv4Addr::from_bits(first)..=Ipv4Addr::from_bits(last);
            let all: Vec<IpPrefix> = prefixes(&range).collect();
            for address in [other, first, last, first.wrapping_sub(1), last.wrapping_add(1), first / 2 + last / 2] {
                let address = Ipv4Addr::from_bits(address);
                let holds = all.iter().filter(|prefix| prefix.contains(address.into())).count();
                prop_assert_eq!(holds, usize::from(range.contains(&address)));
            }
        }
    }
}
