//! An index over very many filters: those that can match a packet, by the prefixes around its remote address.
//!
//! Most filters of a long list name a prefix of the remote side. One look into a map for each length of prefix finds
//! the run of filters with the prefix around the address; filters without one are in a run of their own. Within a run
//! filters are tried one by one, in the order of matching. So the cost is that of the lengths there are, and of filters
//! that share a prefix, not of all.
//!
//! The remote address is looked at only if no filter matches that comes before the first one with a prefix: an answer
//! that does not depend on it holds for a wider key.

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::FixedState;

use super::prefix_filter::PrefixFilter;
use super::reader::FieldReader;
use crate::prefix::IpPrefix;

/// A filter of a list of filter sets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FilterPlace {
    /// The place of its set in the order of matching.
    pub(crate) set: u32,
    /// Its place among the filters of all sets; `None`: the set takes every packet.
    pub(crate) filter: Option<u16>,
}

/// The filters of a list, by the remote prefixes that they name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct FilterIndex {
    /// Those with a remote prefix of at least one bit, by it.
    by_prefix: HashMap<IpPrefix, Vec<FilterPlace>, FixedState>,
    /// Of these prefixes, once all of them are known.
    filter: PrefixFilter,
    /// The prefixes of IPv4, and of IPv6.
    families: [Prefixes; 2],
    /// All others.
    without_prefix: Vec<FilterPlace>,
}

/// The prefixes of a family.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Prefixes {
    lengths: Vec<u8>,
    /// The set of the first one, and how many filters without a prefix come before it.
    first: Option<(u32, usize)>,
}

impl FilterIndex {
    /// Enters a filter; sets come in the order of matching. It is found when the index is
    /// [`complete`](Self::complete).
    pub(crate) fn enter(&mut self, place: FilterPlace, remote: Option<IpPrefix>) {
        let Some(prefix) = remote.filter(|prefix| prefix.len() > 0) else {
            self.without_prefix.push(place);
            return;
        };
        let family = &mut self.families[usize::from(!prefix.is_ipv4())];
        family.first.get_or_insert((place.set, self.without_prefix.len()));
        if !family.lengths.contains(&prefix.len()) {
            family.lengths.push(prefix.len());
        }
        self.by_prefix.entry(prefix).or_default().push(place);
    }

    /// With all of its filters.
    #[must_use]
    pub(crate) fn complete(self) -> Self {
        Self {
            filter: PrefixFilter::of(self.by_prefix.keys()),
            ..self
        }
    }

    /// The longest IPv6 prefix.
    pub(crate) fn longest_ipv6(&self) -> u8 {
        self.families[1].lengths.iter().copied().max().unwrap_or(0)
    }

    /// The first set below `end` of which a filter `matches`. `remote` gives the packet's remote address.
    pub(crate) fn find(
        &self,
        end: u32,
        remote: impl FnOnce(&mut FieldReader<'_>) -> IpAddr,
        reader: &mut FieldReader<'_>,
        mut matches: impl FnMut(FilterPlace, &mut FieldReader<'_>) -> bool,
    ) -> Option<u32> {
        let family = &self.families[usize::from(!reader.is_ipv4())];
        let others = &self.without_prefix;
        let first = family.first.filter(|(set, _)| *set < end);
        let (before, behind) = others.split_at(first.map_or(others.len(), |(_, before)| before));
        let mut before = before.iter().take_while(|place| place.set < end);
        if let Some(found) = before.find(|place| matches(**place, reader)) {
            return Some(found.set);
        }
        first?;
        let mut best = end;
        let address = remote(reader);
        let prefixes = family
            .lengths
            .iter()
            .filter_map(|len| IpPrefix::new(address, *len));
        let prefixes = prefixes.filter(|prefix| self.filter.may_have(prefix));
        let runs = prefixes.filter_map(|prefix| self.by_prefix.get(&prefix));
        for run in runs.map(Vec::as_slice).chain([behind]) {
            let mut run = run.iter().take_while(|place| place.set < best);
            if let Some(found) = run.find(|place| matches(**place, reader)) {
                best = found.set;
            }
        }
        (best < end).then_some(best)
    }
}
