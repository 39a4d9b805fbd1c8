//! What a rule asks of the flows of its packets, beside what their headers say.

use std::sync::Arc;

use dpi::hosts::{ApplicationIndex, HostTable, HostTableBuilder};
use dpi::{HostName, Protocol, Protocols};

use super::host_rule::HostRule;
use crate::packet_view::DetectedFlow;

/// A pattern over what flows are found to be. Each kind of condition that it has must match; none: every flow, also
/// those of which nothing is known.
#[derive(Clone, PartialEq, Eq, Hash, Default, Debug)]
pub struct DetectionPattern {
    /// Hosts that the flow is for, any of them. With [`Protocol::Dns`] among the protocols, names that are asked for, too.
    pub hosts: Vec<HostRule>,
    /// Protocols, any of them.
    pub protocols: Protocols,
}

impl DetectionPattern {
    /// Of hosts alone.
    pub fn of_hosts(hosts: Vec<HostRule>) -> Self {
        let protocols = Protocols::NONE;
        Self { hosts, protocols }
    }

    /// Whether it asks for nothing.
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.protocols.is_empty()
    }

    /// Whether it describes a flow. The slow way, for one rule.
    pub fn matches(&self, flow: &DetectedFlow<'_>) -> bool {
        let names = |host: &HostRule| flow.name.is_some_and(|name| host.matches(name, flow.path));
        admits(self.protocols, flow.protocol) && (self.hosts.is_empty() || self.hosts.iter().any(names))
    }
}

/// Whether rules with these protocols take a flow of this one. What DNS asks for is no flow for a host: a rule takes it
/// only if it names DNS.
pub(super) fn admits(protocols: Protocols, protocol: Protocol) -> bool {
    (protocols.is_empty() && protocol != Protocol::Dns) || protocols.contains(protocol)
}

/// The patterns of the rules of a table, by host and by protocol.
#[derive(Clone)]
pub(super) struct DetectionIndex {
    hosts: Arc<HostTable>,
    /// The protocols of each rule.
    protocols: Box<[Protocols]>,
    /// The places of the rules with a pattern, in rising order.
    asking: Box<[u32]>,
    /// Of them, those without hosts.
    without_hosts: Box<[u32]>,
}

impl DetectionIndex {
    /// Of the rules at the places 0, 1, ...
    pub(super) fn of<'a>(patterns: impl Iterator<Item = &'a DetectionPattern>) -> Self {
        let mut hosts = HostTableBuilder::default();
        let (mut protocols, mut asking, mut without_hosts) = (Vec::new(), Vec::new(), Vec::new());
        for (place, pattern) in (0..).zip(patterns) {
            for host in &pattern.hosts {
                host.add_to(&mut hosts, ApplicationIndex(place));
            }
            protocols.push(pattern.protocols);
            asking.extend((!pattern.is_empty()).then_some(place));
            without_hosts.extend((!pattern.is_empty() && pattern.hosts.is_empty()).then_some(place));
        }
        Self {
            // The names are the operator's own: none is made to collide with others.
            hosts: Arc::new(hosts.build(0).0),
            protocols: protocols.into(),
            asking: asking.into(),
            without_hosts: without_hosts.into(),
        }
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
        by_host
            .map(|ApplicationIndex(place)| place)
            .chain(self.without_hosts.iter().copied())
            .filter(move |place| {
                let protocols = self.protocols.get(*place as usize);
                protocols.is_some_and(|protocols| admits(*protocols, flow.protocol))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(hosts: &[&str], protocols: &[Protocol]) -> DetectionPattern {
        let hosts = hosts.iter().map(|host| HostRule::parse(host).expect("a host"));
        DetectionPattern {
            hosts: hosts.collect(),
            protocols: protocols.iter().copied().collect(),
        }
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
        ];
        let index = DetectionIndex::of(patterns.iter());
        assert_eq!(
            (index.asking(9), index.asking(3)),
            (&[0, 2, 3, 4, 5][..], &[0, 2][..])
        );
        let name = HostName::parse(b"a.example").expect("a host");
        for (protocol, path, expected) in [
            (Tls, None, &[0][..]),
            (Quic, None, &[0, 2]),
            (Dns, None, &[2, 3]),
            (Stun, None, &[0, 3]),
            (Http1, Some(&b"/video"[..]), &[0, 4]),
        ] {
            let flow = DetectedFlow {
                protocol,
                name: Some(&name),
                path,
            };
            let mut places: Vec<u32> = index.places(flow).collect();
            places.sort_unstable();
            assert_eq!(places, expected, "{protocol:?}");
            for (place, pattern) in (0..).zip(&patterns).filter(|(_, pattern)| !pattern.is_empty()) {
                assert_eq!(
                    pattern.matches(&flow),
                    expected.contains(&place),
                    "{protocol:?} {place}"
                );
            }
        }
    }
}
