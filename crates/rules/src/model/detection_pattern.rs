//! What a rule asks of the flows of its packets, beside what their headers say.

use std::collections::HashMap;
use std::sync::Arc;

use dpi::domain_lists::{Categories, DomainLists};
use dpi::hosts::{ApplicationIndex, HostTable, HostTableBuilder};
use dpi::{HostName, Protocol, Protocols};

use super::host_rule::HostRule;
use crate::packet_view::{DetectedFlow, NameSource};

/// A pattern over what flows are found to be. Each kind of condition that it has must match; none: every flow, also
/// those of which nothing is known.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct DetectionPattern {
    /// Hosts that the flow is for, any of them. With [`Protocol::Dns`] among the protocols, names that are asked for,
    /// too.
    pub hosts: Vec<HostRule>,
    /// Categories of [domain lists](dpi::domain_lists) that the host is of, any of them; or any of `hosts`.
    pub categories: Categories,
    /// Protocols, any of them.
    pub protocols: Protocols,
    /// A name counts only if the client says it, and a resolver has given the session the address for it
    /// ([`NameSource::Confirmed`]).
    pub is_confirmed: bool,
}

impl DetectionPattern {
    /// Of hosts alone.
    pub fn of_hosts(hosts: Vec<HostRule>) -> Self {
        Self {
            hosts,
            ..Self::default()
        }
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        !self.asks_for_name() && self.protocols.is_empty()
    }

    fn asks_for_name(&self) -> bool {
        !self.hosts.is_empty() || !self.categories.is_empty()
    }

    /// Whether it describes a flow. The slow way, for one rule.
    pub fn matches(&self, flow: &DetectedFlow<'_>, lists: &DomainLists) -> bool {
        let is_named = |name: &HostName| {
            let mut hosts = self.hosts.iter();
            hosts.any(|host| host.matches(name, flow.path))
                || (!self.categories.is_empty() && lists.lookup(name).contains_any(self.categories))
        };
        let is_enough = !self.wants_confirmed() || flow.source == NameSource::Confirmed;
        admits(&self.protocols, flow.protocol)
            && is_enough
            && (!self.asks_for_name() || flow.name.is_some_and(is_named))
    }

    /// Whether the word of a client alone, or of a resolver, is not enough.
    fn wants_confirmed(&self) -> bool {
        self.is_confirmed && self.asks_for_name()
    }

    fn reads(&self) -> DetectionReads {
        DetectionReads {
            paths: self.hosts.iter().any(HostRule::reads_path),
            ndpi: self.protocols.has_ndpi(),
        }
    }
}

/// What rules read of flows that need not be known for others, beside hosts and the protocols of inspection itself.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct DetectionReads {
    /// Paths of requests.
    pub paths: bool,
    /// Protocols of nDPI.
    pub ndpi: bool,
}

/// What any of them reads.
impl FromIterator<DetectionReads> for DetectionReads {
    fn from_iter<I: IntoIterator<Item = DetectionReads>>(all: I) -> Self {
        all.into_iter().fold(Self::default(), |one, other| Self {
            paths: one.paths || other.paths,
            ndpi: one.ndpi || other.ndpi,
        })
    }
}

/// Whether rules with these protocols take a flow of this one, or of one that is not known. What DNS asks for is no
/// flow for a host: a rule takes it only if it names DNS.
fn admits(protocols: &Protocols, protocol: Option<Protocol>) -> bool {
    (protocols.is_empty() && protocol != Some(Protocol::Dns))
        || protocol.is_some_and(|protocol| protocols.contains(protocol))
}

/// What a rule asks beside hosts. Few of many rules have protocols: it has the place of theirs.
#[derive(Clone, Copy)]
struct Condition {
    protocols: u32,
    /// Its hosts have to be confirmed.
    is_confirmed: bool,
}

/// The patterns of the rules of a table, by host and by protocol.
#[derive(Clone)]
pub(super) struct DetectionIndex {
    hosts: Arc<HostTable>,
    /// What else each rule asks.
    conditions: Box<[Condition]>,
    /// Which rules ask anything else, bit n of word m: that at place 64 m + n. Few do, and these bits are in a cache.
    ask_more: Box<[u64]>,
    /// The sets of protocols that rules have, each once.
    protocols: Box<[Protocols]>,
    /// The places of the rules with a pattern, in rising order.
    asking: Box<[u32]>,
    /// Of them, those of protocols alone.
    without_names: Box<[u32]>,
    /// Of them, those with categories, and these.
    by_category: Box<[(u32, Categories)]>,
    lists: Arc<DomainLists>,
    reads: DetectionReads,
}

impl DetectionIndex {
    /// Of the rules at the places 0, 1, ..., whose categories are those of these lists.
    pub(super) fn of<'a>(
        patterns: impl Iterator<Item = &'a DetectionPattern>,
        lists: &Arc<DomainLists>,
    ) -> Self {
        let mut hosts = HostTableBuilder::default();
        let (mut conditions, mut ask_more, mut asking) = (Vec::new(), Vec::new(), Vec::new());
        let (mut without_names, mut by_category) = (Vec::new(), Vec::new());
        let mut reads = Vec::new();
        let (mut protocols, mut places) = (Vec::new(), HashMap::new());
        for (place, pattern) in (0..).zip(patterns) {
            for host in &pattern.hosts {
                host.add_to(&mut hosts, ApplicationIndex(place));
            }
            reads.push(pattern.reads());
            let set = *places.entry(pattern.protocols).or_insert_with(|| {
                protocols.push(pattern.protocols);
                protocols.len() as u32 - 1
            });
            conditions.push(Condition {
                protocols: set,
                is_confirmed: pattern.wants_confirmed(),
            });
            let asks_more = !pattern.protocols.is_empty() || pattern.wants_confirmed();
            ask_more.resize(place as usize / 64 + 1, 0);
            ask_more[place as usize / 64] |= u64::from(asks_more) << (place % 64);
            asking.extend((!pattern.is_empty()).then_some(place));
            without_names.extend((!pattern.is_empty() && !pattern.asks_for_name()).then_some(place));
            let categories = pattern.categories;
            by_category.extend((!categories.is_empty()).then_some((place, categories)));
        }
        Self {
            // The names are the operator's own: none is made to collide with others.
            hosts: Arc::new(hosts.build(0).0),
            conditions: conditions.into(),
            ask_more: ask_more.into(),
            protocols: protocols.into(),
            asking: asking.into(),
            without_names: without_names.into(),
            by_category: by_category.into(),
            lists: Arc::clone(lists),
            reads: reads.into_iter().collect(),
        }
    }

    /// What the patterns read.
    pub(super) fn reads(&self) -> DetectionReads {
        self.reads
    }

    /// The place of the first rule that has a pattern.
    pub(super) fn first_asking(&self) -> Option<u32> {
        self.asking.first().copied()
    }

    /// The places of the rules below `end` that have a pattern, in rising order.
    pub(super) fn asking(&self, end: u32) -> &[u32] {
        let count = self.asking.partition_point(|place| *place < end);
        self.asking.get(..count).unwrap_or_default()
    }

    /// The places of the rules whose pattern describes a flow, some of them more than once.
    pub(super) fn places<'a>(&'a self, flow: DetectedFlow<'a>) -> impl Iterator<Item = u32> + use<'a> {
        let by_host = move |name: &'a HostName| self.hosts.lookup(name, flow.path);
        let by_host = flow.name.into_iter().flat_map(by_host);
        let name = flow.name.filter(|_| !self.by_category.is_empty());
        let categories = name.map_or(Categories::NONE, |name| self.lists.lookup(name));
        let is_of = move |(place, own): &(u32, Categories)| own.contains_any(categories).then_some(*place);
        by_host
            .map(|ApplicationIndex(place)| place)
            .chain(self.by_category.iter().filter_map(is_of))
            .chain(self.without_names.iter().copied())
            .filter(move |place| match self.asks_more(*place) {
                true => self.is_met(*place, flow),
                false => admits(&Protocols::NONE, flow.protocol),
            })
    }

    /// Whether the rule at a place asks more than names.
    fn asks_more(&self, place: u32) -> bool {
        let word = self.ask_more.get(place as usize / 64);
        word.is_none_or(|word| word >> (place % 64) & 1 == 1)
    }

    /// Whether a flow is what the rule at a place asks for beside names.
    fn is_met(&self, place: u32, flow: DetectedFlow<'_>) -> bool {
        self.conditions.get(place as usize).is_some_and(|condition| {
            let protocols = self.protocols.get(condition.protocols as usize);
            protocols.is_some_and(|protocols| admits(protocols, flow.protocol))
                && (!condition.is_confirmed || flow.source == NameSource::Confirmed)
        })
    }
}

#[cfg(test)]
mod tests {
    use dpi::domain_lists::{CategoryId, DomainListsBuilder};

    use super::*;

    fn pattern(hosts: &[&str], protocols: &[Protocol]) -> DetectionPattern {
        let hosts = hosts.iter().map(|host| HostRule::parse(host).expect("a host"));
        DetectionPattern {
            hosts: hosts.collect(),
            categories: Categories::NONE,
            protocols: protocols.iter().copied().collect(),
            is_confirmed: false,
        }
    }

    #[test]
    fn a_name_that_has_to_be_confirmed_is_by_its_client_and_a_resolver() {
        let confirmed = |hosts: &[&str], protocols: &[Protocol]| DetectionPattern {
            is_confirmed: true,
            ..pattern(hosts, protocols)
        };
        let patterns = [
            confirmed(&["*.a.example"], &[]),
            confirmed(&[], &[Protocol::Tls]),
            pattern(&["a.example"], &[]),
            DetectionPattern {
                categories: Categories::from_bits(1 << 3),
                ..confirmed(&[], &[])
            },
        ];
        let lists = lists();
        let index = DetectionIndex::of(patterns.iter(), &lists);
        let name = HostName::parse(b"a.example").expect("a host");
        for (source, expected) in [
            (NameSource::Client, &[1, 2][..]),
            (NameSource::Confirmed, &[0, 1, 2, 3]),
            (NameSource::Resolver, &[1, 2]),
        ] {
            let flow = DetectedFlow {
                protocol: Some(Protocol::Tls),
                name: Some(&name),
                path: None,
                source,
            };
            let mut places: Vec<u32> = index.places(flow).collect();
            places.sort_unstable();
            assert_eq!(places, expected, "{source:?}");
            let matching = (0..)
                .zip(&patterns)
                .filter(|(_, pattern)| pattern.matches(&flow, &lists));
            assert_eq!(matching.map(|(place, _)| place).collect::<Vec<u32>>(), expected);
        }
    }

    /// `a.example` is of category 3, and all below `b.example` of 5.
    fn lists() -> Arc<DomainLists> {
        let mut builder = DomainListsBuilder::new(1);
        for (category, name) in [(3, "a.example"), (5, "b.example")] {
            let category = CategoryId::new(category).expect("less than 64");
            let name = HostName::parse(name.as_bytes()).expect("a host");
            builder.add(category, &name).expect("there is room");
        }
        Arc::new(builder.build().expect("few"))
    }

    #[test]
    fn the_index_finds_what_the_patterns_describe() {
        use Protocol::{Dns, Http1, Quic, Stun, Tls};
        let patterns = [
            pattern(&["*.a.example"], &[]),
            pattern(&[], &[]),
            pattern(&["a.example"], &[Quic, Dns]),
            pattern(&[], &[Stun, Dns]),
            pattern(&["a.example/video"], &[Http1]),
            pattern(&["a.example/video"], &[Tls]),
            DetectionPattern {
                categories: Categories::from_bits(1 << 3 | 1 << 7),
                ..pattern(&["c.example"], &[])
            },
            DetectionPattern {
                categories: Categories::from_bits(1 << 5),
                ..pattern(&[], &[Tls, Dns])
            },
        ];
        let lists = lists();
        let index = DetectionIndex::of(patterns.iter(), &lists);
        assert_eq!(
            (index.asking(7), index.asking(3)),
            (&[0, 2, 3, 4, 5, 6][..], &[0, 2][..])
        );
        for (name, protocol, path, expected) in [
            ("a.example", Some(Tls), None, &[0, 6][..]),
            ("a.example", Some(Quic), None, &[0, 2, 6]),
            ("a.example", Some(Dns), None, &[2, 3]),
            ("a.example", Some(Stun), None, &[0, 3, 6]),
            ("a.example", Some(Http1), Some(&b"/video"[..]), &[0, 4, 6]),
            ("a.example", None, None, &[0, 6]),
            ("x.b.example", Some(Tls), None, &[7]),
            ("x.b.example", None, None, &[]),
            ("b.example", Some(Dns), None, &[3, 7]),
            ("c.example", Some(Tls), None, &[6]),
            ("d.example", Some(Tls), None, &[]),
        ] {
            let name = HostName::parse(name.as_bytes()).expect("a host");
            let flow = DetectedFlow {
                protocol,
                name: Some(&name),
                path,
                source: NameSource::Client,
            };
            let mut places: Vec<u32> = index.places(flow).collect();
            places.sort_unstable();
            assert_eq!(places, expected, "{protocol:?}");
            for (place, pattern) in (0..).zip(&patterns).filter(|(_, pattern)| !pattern.is_empty()) {
                assert_eq!(
                    pattern.matches(&flow, &lists),
                    expected.contains(&place),
                    "{protocol:?} {place}"
                );
            }
        }
    }
}
