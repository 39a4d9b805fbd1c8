//! Rules of access lists that never decide, because one before them describes all their packets.

use std::collections::HashMap;

use flow::Direction;

use super::access_list::{AccessList, AccessRule};
use crate::prefix::IpPrefix;
use crate::sdf::{Address, Endpoint, PortRange, SdfFilter, TosTrafficClass};

/// A rule that never decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShadowedRule<'a> {
    /// Its name.
    pub rule: &'a str,
    /// The name of a rule that decides instead: of several, of the last.
    pub by: &'a str,
}

impl AccessList {
    /// Its rules that never decide. One that only several filters together leave nothing of is not found, and neither
    /// is the rule for all packets.
    pub fn shadowed(&self) -> Vec<ShadowedRule<'_>> {
        let every_packet = [SdfFilter::default()];
        let rules: Vec<&AccessRule> = self.rules().map(|(_, rule)| rule).collect();
        let mut before = Before::default();
        let mut shadowed = Vec::new();
        for (place, rule) in rules.iter().enumerate().take(rules.len() - 1) {
            let filters = match rule.filters.is_empty() {
                true => &every_packet[..],
                false => &rule.filters[..],
            };
            let own = filters.iter().map(|filter| Pattern {
                filter,
                direction: rule.direction,
            });
            let by: Option<Vec<usize>> = own.clone().map(|pattern| before.covering(pattern)).collect();
            let by = by.into_iter().flatten().max();
            // Alternatives of one rule have one name.
            if let Some(by) = by.filter(|by| rules[*by].name != rule.name) {
                shadowed.push(ShadowedRule {
                    rule: &rule.name,
                    by: &rules[by].name,
                });
            }
            if rule.detection.is_empty() {
                own.for_each(|pattern| before.add(place, pattern));
            }
        }
        shadowed
    }
}

/// One filter of a rule.
#[derive(Clone, Copy)]
struct Pattern<'a> {
    filter: &'a SdfFilter,
    direction: Option<Direction>,
}

impl Pattern<'_> {
    fn remote(&self) -> Option<IpPrefix> {
        match self.filter.flow_description.as_ref()?.remote_side().address {
            Address::Prefix(prefix) => Some(prefix),
            Address::Any | Address::Assigned => None,
        }
    }

    /// Whether it describes all packets that `other` describes, as far as both say so.
    fn covers(&self, other: &Self) -> bool {
        let (wide, narrow) = (self.filter, other.filter);
        (self.direction.is_none() || self.direction == other.direction)
            && (wide.spi.is_none() || wide.spi == narrow.spi)
            && (wide.flow_label.is_none() || wide.flow_label == narrow.flow_label)
            && wide.tos_traffic_class.is_none_or(|wide| {
                narrow
                    .tos_traffic_class
                    .is_some_and(|narrow| holds_tos(wide, narrow))
            })
            && self.covers_flow(other)
    }

    fn covers_flow(&self, other: &Self) -> bool {
        let Some(wide) = &self.filter.flow_description else {
            return true;
        };
        let protocol = |filter: &SdfFilter| filter.flow_description.as_ref()?.protocol;
        let holds_side =
            |wide: &Endpoint, narrow: Option<&Endpoint>| holds_end(wide, narrow.unwrap_or(&Endpoint::ANY));
        let narrow = other.filter.flow_description.as_ref();
        (wide.protocol.is_none() || wide.protocol == protocol(other.filter))
            && holds_side(wide.ue_side(), narrow.map(|narrow| narrow.ue_side()))
            && holds_side(wide.remote_side(), narrow.map(|narrow| narrow.remote_side()))
    }
}

fn holds_tos(wide: TosTrafficClass, narrow: TosTrafficClass) -> bool {
    wide.mask & !narrow.mask == 0 && (wide.value ^ narrow.value) & wide.mask == 0
}

fn holds_end(wide: &Endpoint, narrow: &Endpoint) -> bool {
    let holds_address = match (wide.address, narrow.address) {
        (Address::Any, _) | (Address::Assigned, Address::Assigned) => true,
        (Address::Prefix(wide), Address::Prefix(narrow)) => {
            wide.len() <= narrow.len() && wide.contains(narrow.address())
        }
        _ => false,
    };
    let holds_range = |narrow: &PortRange| {
        let mut wide = wide.ports.iter();
        wide.any(|wide| wide.first() <= narrow.first() && narrow.last() <= wide.last())
    };
    holds_address
        && (wide.ports.is_empty() || (!narrow.ports.is_empty() && narrow.ports.iter().all(holds_range)))
}

/// The filters of the rules before one, by their remote prefix: what covers a filter is under a prefix that holds its
/// own, or has none.
#[derive(Default)]
struct Before<'a>(HashMap<Option<IpPrefix>, Vec<(usize, Pattern<'a>)>>);

impl<'a> Before<'a> {
    fn add(&mut self, place: usize, pattern: Pattern<'a>) {
        self.0.entry(pattern.remote()).or_default().push((place, pattern));
    }

    /// The place of the first rule that has a filter which covers this one.
    fn covering(&self, pattern: Pattern<'_>) -> Option<usize> {
        let prefix = pattern.remote();
        let wider = prefix.into_iter().flat_map(|prefix| {
            (0..=prefix.len()).filter_map(move |len| IpPrefix::new(prefix.address(), len).map(Some))
        });
        let first_of = |key: Option<IpPrefix>| {
            let mut all = self.0.get(&key)?.iter();
            all.find(|(_, wide)| wide.covers(&pattern))
                .map(|(place, _)| *place)
        };
        wider.chain([None]).filter_map(first_of).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AccessAction, DetectionPattern};

    fn rule(name: &str, direction: Option<Direction>, flows: &[&str]) -> AccessRule {
        AccessRule {
            name: name.into(),
            action: AccessAction::Deny,
            direction,
            filters: flows
                .iter()
                .map(|flow| SdfFilter {
                    flow_description: Some(flow.parse().expect("a description")),
                    ..SdfFilter::default()
                })
                .collect(),
            detection: DetectionPattern::default(),
        }
    }

    fn shadowed(rules: Vec<AccessRule>) -> Vec<(String, String)> {
        let list = AccessList::new("list", rules, AccessAction::Permit).expect("few");
        let shadowed = list.shadowed();
        let names = shadowed
            .iter()
            .map(|one| (one.rule.to_owned(), one.by.to_owned()));
        names.collect()
    }

    #[test]
    fn a_rule_is_shadowed_by_what_describes_all_its_packets() {
        use Direction::{Downlink, Uplink};
        let wide = "permit out 6 from 192.0.2.0/24 1-1000 to assigned";
        for (direction, flow, is_shadowed) in [
            (None, wide, true),
            (
                Some(Uplink),
                "permit out 6 from 192.0.2.7 80,443 to assigned",
                true,
            ),
            (
                Some(Uplink),
                "permit out 6 from 192.0.2.7 80,1443 to assigned",
                false,
            ),
            (None, "permit out 6 from 192.0.2.7 to assigned", false),
            (None, "permit out 17 from 192.0.2.7 80 to assigned", false),
            (None, "permit out ip from 192.0.2.7 to assigned", false),
            (None, "permit out 6 from 192.0.0.0/16 80 to assigned", false),
            (None, "permit out 6 from any 80 to assigned", false),
            (None, "permit out 6 from 192.0.2.0/25 80 to assigned 5000", true),
            (None, "permit out 6 from 192.0.2.0/25 80 to any", false),
        ] {
            let rules = vec![rule("a", None, &[wide]), rule("b", direction, &[flow])];
            let expected = is_shadowed.then(|| ("b".to_owned(), "a".to_owned()));
            assert_eq!(shadowed(rules), Vec::from_iter(expected), "{flow}");
        }
        let rules = vec![rule("a", Some(Downlink), &[wide]), rule("b", None, &[wide])];
        assert_eq!(shadowed(rules), []);
    }

    #[test]
    fn each_filter_must_be_covered_and_the_rule_for_all_packets_covers_them() {
        let (one, other) = (
            "permit out 6 from 192.0.2.0/24 to assigned",
            "permit out 17 from any to assigned",
        );
        let both = || rule("both", None, &[one, other]);
        assert_eq!(shadowed(vec![rule("a", None, &[one]), both()]), []);
        let pair = ("both".to_owned(), "b".to_owned());
        let rules = vec![rule("a", None, &[one]), rule("b", None, &[other]), both()];
        assert_eq!(shadowed(rules), [pair]);
        let rules = vec![rule("all", None, &[]), rule("a", None, &[one])];
        assert_eq!(shadowed(rules), [("a".to_owned(), "all".to_owned())]);
    }
}
