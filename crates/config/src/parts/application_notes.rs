//! What is worth a word of applications: what is written twice, and hosts that others cover or have, too.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::iter::successors;

use rules::model::HostRule;

use crate::schema::{ApplicationConfig, Config};

/// Lines of each kind at most.
const LISTED: usize = 20;

/// A name, and whether all below it is meant.
type Name<'a> = (&'a str, bool);

/// The lines of one kind, and how many more there would be.
#[derive(Default)]
struct Kind {
    lines: Vec<String>,
    more: usize,
}

impl Kind {
    fn add(&mut self, line: impl FnOnce() -> String) {
        if self.lines.len() < LISTED {
            self.lines.push(line());
        } else {
            self.more += 1;
        }
    }

    /// All of them; `what` names those that are not listed.
    fn finish(mut self, what: &str) -> Vec<String> {
        if self.more > 0 {
            self.lines
                .push(format!("applications: {} more {what}", self.more));
        }
        self.lines
    }
}

/// The hosts of an application: the paths of each name, in octets.
#[derive(Default)]
struct Paths<'a>(HashMap<Name<'a>, BTreeSet<&'a [u8]>>);

impl<'a> Paths<'a> {
    /// Answers whether the host is new.
    fn add(&mut self, host: &'a HostRule) -> bool {
        let paths = self.0.entry((host.name(), host.covers_below())).or_default();
        paths.insert(host.path().as_bytes())
    }

    /// Another host that takes all flows of this one: of the same name or one above, with the same path or a start of
    /// it.
    fn covering(&self, host: &HostRule) -> Option<String> {
        let path = host.path().as_bytes();
        let shorter = path.split_last().map(|(_, shorter)| shorter);
        let own = shorter.map(|shorter| ((host.name(), host.covers_below()), shorter));
        let same = (!host.covers_below()).then_some((host.name(), true));
        let above = successors(host.name().split_once('.'), |(_, rest)| rest.split_once('.'));
        let wider = same.into_iter().chain(above.map(|(_, rest)| (rest, true)));
        let mut all = own.into_iter().chain(wider.map(|name| (name, path)));
        all.find_map(|((name, below), path)| {
            let start = longest_start(self.0.get(&(name, below))?, path)?;
            let below = if below { "*." } else { "" };
            Some(format!("{below}{name}{}", String::from_utf8_lossy(start)))
        })
    }
}

/// The longest of these that `path` starts with.
fn longest_start<'a>(paths: &BTreeSet<&'a [u8]>, path: &'a [u8]) -> Option<&'a [u8]> {
    let mut rest = path;
    loop {
        let last = *paths.range(..=rest).next_back()?;
        if rest.starts_with(last) {
            return Some(last);
        }
        // What `rest` starts with comes not behind `last` then, so that `last` starts with it, too.
        let common = rest.iter().zip(last).take_while(|(own, other)| own == other);
        rest = rest.get(..common.count())?;
    }
}

impl Config {
    /// What is worth a word of the applications, as an operator reads it.
    #[must_use]
    pub fn application_notes(&self) -> Vec<String> {
        let applications = &self.predefined.applications;
        let (mut twice, mut covered, mut shared) = (Kind::default(), Kind::default(), Kind::default());
        let mut owners: HashMap<&HostRule, &ApplicationConfig> = HashMap::new();
        for application in applications {
            let name = &application.name.value;
            note_flows(application, &mut twice);
            let mut paths = Paths::default();
            let mut own = Vec::new();
            for host in application.hosts.iter().map(|host| &host.0) {
                match paths.add(host) {
                    true => own.push(host),
                    false => twice.add(|| format!("application `{name}`: `{host}` is written twice")),
                }
            }
            for host in own {
                if let Some(by) = paths.covering(host) {
                    covered.add(|| format!("application `{name}`: `{host}` is covered by `{by}`"));
                }
                match owners.get(host) {
                    Some(other) => shared.add(|| {
                        let other = &other.name.value;
                        format!(
                            "application `{name}`: `{host}` is of application `{other}`, too; by both the rule with the \
                             lower precedence value counts"
                        )
                    }),
                    None => {
                        owners.insert(host, application);
                    }
                }
            }
        }
        let mut lines = twice.finish("hosts and flow descriptions are written twice");
        lines.extend(covered.finish("hosts are covered by others of their application"));
        lines.extend(shared.finish("hosts are of several applications"));
        lines
    }

    /// All that is worth a word of a configuration without mistakes: hosts that never count, domain lists, rules that
    /// never decide, and applications.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut lines = self.unreachable_hosts();
        lines.extend(self.domain_lists_in_words());
        lines.extend(self.shadowed_access_rules());
        lines.extend(self.application_notes());
        lines
    }
}

fn note_flows(application: &ApplicationConfig, twice: &mut Kind) {
    let mut seen = HashSet::new();
    for flow in application.flows.iter().map(|flow| &flow.0) {
        if !seen.insert(flow) {
            twice.add(|| {
                format!(
                    "application `{}`: `{flow}` is written twice",
                    application.name.value
                )
            });
        }
    }
}
