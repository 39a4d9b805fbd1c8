//! The table of rules, and lookups in it.

use core::hash::{BuildHasher, Hasher};

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;

use crate::host_name::HostName;

/// The most labels of a rule's host. A lookup tries as many suffixes, at most.
pub const MOST_LABELS: usize = 16;
/// The longest start of a path that a rule may name, octets.
pub const LONGEST_PATH: usize = 255;

/// The number of an application, which the caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationIndex(pub u32);

/// A rule's path and application.
#[derive(Clone, Copy, Debug)]
pub(super) struct PathRule {
    pub(super) path_at: u32,
    pub(super) path_len: u8,
    pub(super) application: ApplicationIndex,
}

/// A host that has rules: first those of it alone, then those of it and all below it; each from the longest path to
/// none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name_at: u32,
    pub(super) name_len: u8,
    pub(super) rules_at: u32,
    pub(super) of_it_alone: u32,
    pub(super) of_it_and_below: u32,
}

/// The rules, compiled.
#[derive(Debug)]
pub struct HostTable {
    pub(super) hasher: SeedableRandomState,
    /// Numbers of entries.
    pub(super) by_name: HashTable<u32>,
    pub(super) entries: Box<[Entry]>,
    pub(super) rules: Box<[PathRule]>,
    /// Names and paths.
    pub(super) text: Box<[u8]>,
    /// Bit `n` of it: whether a rule has a host of `n` labels.
    pub(super) label_counts: u32,
}

impl HostTable {
    /// A table without rules.
    pub fn empty() -> HostTable {
        HostTable {
            hasher: seeded(0),
            by_name: HashTable::new(),
            entries: Box::default(),
            rules: Box::default(),
            text: Box::default(),
            label_counts: 0,
        }
    }

    /// Rules of the table.
    pub fn rules(&self) -> usize {
        self.rules.len()
    }

    /// The applications that `host`, with `path` at it, is of: first those of the longest host, of them first those of
    /// the host alone, then those of the longest path. An application is there once for each of its rules that match.
    /// Where no path is known, rules with a path do not match.
    pub fn lookup<'t>(
        &'t self,
        host: &'t HostName,
        path: Option<&'t [u8]>,
    ) -> impl Iterator<Item = ApplicationIndex> + use<'t> {
        let name = host.as_bytes();
        let found = suffixes(name).filter_map(move |(at, labels)| {
            let entry = self.entry(&name[at..], labels)?;
            Some(self.rules_of(entry, at == 0))
        });
        let matching = found.flatten().filter(move |rule| self.has_path(rule, path));
        matching.map(|rule| rule.application)
    }

    fn entry(&self, name: &[u8], labels: usize) -> Option<&Entry> {
        if self.label_counts >> labels & 1 == 0 {
            return None;
        }
        let is_it = |number: &u32| {
            self.entries
                .get(*number as usize)
                .is_some_and(|entry| self.name(entry) == name)
        };
        let number = self.by_name.find(hash(&self.hasher, name), is_it)?;
        self.entries.get(*number as usize)
    }

    pub(super) fn name(&self, entry: &Entry) -> &[u8] {
        self.text(entry.name_at, entry.name_len)
    }

    fn text(&self, at: u32, len: u8) -> &[u8] {
        let at = at as usize;
        self.text.get(at..at + usize::from(len)).unwrap_or_default()
    }

    fn rules_of(&self, entry: &Entry, is_whole: bool) -> &[PathRule] {
        let start = entry.rules_at as usize;
        let below_at = start + entry.of_it_alone as usize;
        let end = below_at + entry.of_it_and_below as usize;
        let from = if is_whole { start } else { below_at };
        self.rules.get(from..end).unwrap_or_default()
    }

    fn has_path(&self, rule: &PathRule, path: Option<&[u8]>) -> bool {
        rule.path_len == 0
            || path.is_some_and(|path| path.starts_with(self.text(rule.path_at, rule.path_len)))
    }
}

pub(super) fn hash(hasher: &SeedableRandomState, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write(name);
    hasher.finish()
}

pub(super) fn seeded(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
}

/// Where the suffixes of a name start, the longest first: those of whole labels, at most [`MOST_LABELS`] of them. With
/// each its number of labels.
fn suffixes(name: &[u8]) -> impl Iterator<Item = (usize, usize)> {
    let mut starts = [0u8; MOST_LABELS];
    let mut count = 0;
    let dots = name.iter().enumerate().rev().filter(|(_, octet)| **octet == b'.');
    let behind_dots = dots.map(|(at, _)| at + 1).chain([0]);
    for (slot, start) in starts.iter_mut().zip(behind_dots) {
        *slot = start as u8;
        count += 1;
    }
    (0..count)
        .rev()
        .map(move |nth| (usize::from(starts[nth]), nth + 1))
}
