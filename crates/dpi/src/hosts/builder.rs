//! From rules as they are written to the table.

use core::cmp::Reverse;
use core::fmt;

use hashbrown::HashTable;

use super::table::{ApplicationIndex, Entry, HostTable, LONGEST_PATH, PathRule, seeded};
use crate::host_name::{HostKind, HostName, InvalidName};
use crate::suffixes::{MOST_LABELS, hash, labels};

/// Why a rule is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidRule {
    /// Its host is none.
    Host(InvalidName),
    /// Its host has more than [`MOST_LABELS`] labels.
    TooManyLabels,
    /// It is of all below an address.
    BelowAddress,
    /// Its path does not start with a slash, or is longer than [`LONGEST_PATH`] octets.
    Path,
    /// All rules together are longer than 4 GiB.
    TooManyRules,
}

impl fmt::Display for InvalidRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(why) => write!(f, "the host is none: {why}"),
            Self::TooManyLabels => write!(f, "the host has more than {MOST_LABELS} labels"),
            Self::BelowAddress => f.write_str("there is nothing below an address"),
            Self::Path => write!(
                f,
                "a path begins with a slash and has at most {LONGEST_PATH} octets"
            ),
            Self::TooManyRules => f.write_str("all rules together have more than 4 GiB"),
        }
    }
}

impl core::error::Error for InvalidRule {}

/// What is worth a word of rules that were built. Rules have numbers from 0, in the order in which they were added.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remarks {
    /// Rules that are there before for the same application, which have no effect; each with the one before.
    pub duplicates: Vec<(u32, u32)>,
    /// Rules that are there before for another application, so that a host is of both; each with the one before.
    pub shared: Vec<(u32, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct Rule {
    name_at: u32,
    name_len: u8,
    covers_below: bool,
    path_at: u32,
    path_len: u8,
    application: ApplicationIndex,
    number: u32,
}

/// Takes rules, and builds a table of them.
#[derive(Debug, Default)]
pub struct HostTableBuilder {
    rules: Vec<Rule>,
    text: Vec<u8>,
}

impl HostTableBuilder {
    /// Adds the rule that hosts of `pattern` are of `application`: a host name or address, or `.` or `*.` and the name
    /// that it and all below it are meant of. With a `path`, only paths that start with it are; they are compared octet
    /// by octet, and `/a` is the start of `/ab`.
    ///
    /// # Errors
    ///
    /// [`InvalidRule`], and nothing is added.
    pub fn add(
        &mut self,
        pattern: &str,
        path: &str,
        application: ApplicationIndex,
    ) -> Result<(), InvalidRule> {
        let above = pattern.strip_prefix("*.").or(pattern.strip_prefix('.'));
        let name = HostName::parse(above.unwrap_or(pattern).as_bytes()).map_err(InvalidRule::Host)?;
        if above.is_some() && name.kind() != HostKind::Name {
            return Err(InvalidRule::BelowAddress);
        }
        if labels(name.as_bytes()) > MOST_LABELS {
            return Err(InvalidRule::TooManyLabels);
        }
        if path.len() > LONGEST_PATH || !(path.is_empty() || path.starts_with('/')) {
            return Err(InvalidRule::Path);
        }
        // What the table has of a rule besides its text: the length of the path and the application.
        let octets = self.text.len() + name.as_bytes().len() + path.len() + 5 * (self.rules.len() + 1);
        if u32::try_from(octets).is_err() {
            return Err(InvalidRule::TooManyRules);
        }
        let name_at = self.text.len() as u32;
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(path.as_bytes());
        self.rules.push(Rule {
            name_at,
            name_len: name.as_bytes().len() as u8,
            covers_below: above.is_some(),
            path_at: name_at + name.as_bytes().len() as u32,
            path_len: path.len() as u8,
            application,
            number: self.rules.len() as u32,
        });
        Ok(())
    }

    /// The table, with hashes keyed by `seed`, which senders must not know.
    pub fn build(mut self, seed: u64) -> (HostTable, Remarks) {
        let text = core::mem::take(&mut self.text);
        // The order of a lookup's result; the number last, so that a duplicate follows what it is one of.
        let key = |rule: &Rule| {
            let path = octets(&text, rule.path_at, rule.path_len);
            (
                rule.covers_below,
                Reverse(rule.path_len),
                path,
                rule.application,
                rule.number,
            )
        };
        let name = |rule: &Rule| octets(&text, rule.name_at, rule.name_len);
        self.rules.sort_unstable_by(|one, other| {
            name(one).cmp(name(other)).then_with(|| key(one).cmp(&key(other)))
        });

        let remarks = remove_duplicates(&mut self.rules, &text);
        let mut table = HostTable {
            hasher: seeded(seed),
            by_name: HashTable::with_capacity(self.rules.len()),
            rules: self.rules.len(),
            ..HostTable::empty()
        };
        let mut octets = Vec::with_capacity(text.len() + 5 * self.rules.len());
        for group in self.rules.chunk_by(|one, other| name(one) == name(other)) {
            let Some(first) = group.first() else { continue };
            let entry = written(group, &text, &mut octets);
            table.label_counts |= 1 << labels(name(first));
            let hash_of = |entry: &Entry| {
                hash(
                    &table.hasher,
                    self::octets(&octets, entry.name_at, entry.name_len),
                )
            };
            table.by_name.insert_unique(hash_of(&entry), entry, hash_of);
        }
        table.octets = octets.into();
        (table, remarks)
    }
}

/// Writes what a host has, which these rules are of, behind `octets`.
fn written(rules: &[Rule], text: &[u8], octets: &mut Vec<u8>) -> Entry {
    let name_at = octets.len() as u32;
    let name = rules
        .first()
        .map_or(&[][..], |rule| self::octets(text, rule.name_at, rule.name_len));
    octets.extend_from_slice(name);
    let mut below_at = octets.len() as u32;
    for rule in rules {
        let path = self::octets(text, rule.path_at, rule.path_len);
        let application = rule.application;
        PathRule { path, application }.write(octets);
        if !rule.covers_below {
            below_at = octets.len() as u32;
        }
    }
    Entry {
        name_at,
        name_len: name.len() as u8,
        below_at,
        end: octets.len() as u32,
    }
}

/// Removes rules that are there twice from sorted ones.
fn remove_duplicates(rules: &mut Vec<Rule>, text: &[u8]) -> Remarks {
    let mut remarks = Remarks::default();
    let what = |rule: &Rule| {
        let name = octets(text, rule.name_at, rule.name_len);
        (name, rule.covers_below, octets(text, rule.path_at, rule.path_len))
    };
    rules.dedup_by(|rule, before| {
        if what(rule) != what(before) {
            return false;
        }
        let is_duplicate = rule.application == before.application;
        let remark = (rule.number, before.number);
        match is_duplicate {
            true => remarks.duplicates.push(remark),
            false => remarks
                .shared
                .push((rule.number.max(before.number), rule.number.min(before.number))),
        }
        is_duplicate
    });
    remarks.duplicates.sort_unstable();
    remarks.shared.sort_unstable();
    remarks
}

fn octets(text: &[u8], at: u32, len: u8) -> &[u8] {
    let at = at as usize;
    text.get(at..at + usize::from(len)).unwrap_or_default()
}
