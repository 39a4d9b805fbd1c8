//! Hosts of rulebases that never count: a rule that is tried before has them, too.

use std::collections::{BTreeMap, HashMap};
use std::iter::{once, successors};

use dpi::Protocol;
use rules::model::{DetectionPattern, HostRule, PredefinedRule, Rulebase};

use crate::schema::Config;

/// Hosts that are listed of a rulebase at most.
const LISTED: usize = 20;

/// A host of rules without other conditions: name, whether all below it is meant, and path.
type Key<'a> = (&'a str, bool, &'a str);

/// The rules that take all flows of `host` if they are tried first: of the same name or one above, with the same path
/// or a start of it.
fn covering(host: &HostRule) -> impl Iterator<Item = Key<'_>> {
    let above = successors(host.name().split_once('.'), |(_, rest)| rest.split_once('.'));
    let above = above.map(|(_, rest)| (rest, true));
    let own = (!host.covers_below()).then_some((host.name(), false));
    let names = own.into_iter().chain(once((host.name(), true))).chain(above);
    let starts = move || (0..=host.path().len()).filter_map(|end| host.path().get(..end));
    names.flat_map(move |(name, below)| starts().map(move |path| (name, below, path)))
}

/// The hosts of a rulebase that are never found, each with the precedence of its rule and of the one before it.
fn unreachable(rulebase: &Rulebase) -> Vec<(&HostRule, u32, u32)> {
    let mut before: HashMap<Key<'_>, u32> = HashMap::new();
    let mut found = Vec::new();
    for rule in rulebase.rules() {
        let PredefinedRule {
            precedence,
            detection:
                DetectionPattern {
                    hosts,
                    protocols,
                    is_confirmed,
                    ..
                },
            filters,
            ..
        } = rule;
        for host in hosts.iter().filter(|_| !protocols.contains(Protocol::Dns)) {
            let first = covering(host).filter_map(|key| before.get(&key)).min();
            found.extend(first.map(|first| (host, precedence.0, *first)));
        }
        if !filters.is_empty() || !protocols.is_empty() || *is_confirmed {
            continue;
        }
        for host in hosts {
            let key = (host.name(), host.covers_below(), host.path());
            before.entry(key).or_insert(precedence.0);
        }
    }
    found
}

impl Config {
    /// What is worth a word of the hosts that rulebases name: those that never count.
    #[must_use]
    pub fn unreachable_hosts(&self) -> Vec<String> {
        let predefined = self.predefined();
        let names = self
            .predefined
            .rulebases
            .iter()
            .map(|rulebase| &rulebase.name.value);
        let rulebases: BTreeMap<_, _> = names
            .filter_map(|name| Some((name, predefined.rulebase(name.as_bytes())?)))
            .collect();
        let mut lines = Vec::new();
        for (name, rulebase) in rulebases {
            let found = unreachable(rulebase);
            lines.extend(found.iter().take(LISTED).map(|(host, own, before)| {
                format!(
                    "rulebase `{name}`: `{host}` of precedence {own} is found by precedence {before} before"
                )
            }));
            if let more @ 1.. = found.len().saturating_sub(LISTED) {
                lines.push(format!(
                    "rulebase `{name}`: {more} more hosts are found by rules before theirs"
                ));
            }
        }
        lines
    }
}
