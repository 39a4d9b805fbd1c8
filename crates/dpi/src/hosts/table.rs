//! The table of rules, and lookups in it.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;

use crate::host_name::HostName;
use crate::reader::Reader;
use crate::suffixes::{hash, suffixes};

/// The longest start of a path that a rule may name, octets.
pub const LONGEST_PATH: usize = 255;

/// The number of an application, which the caller gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApplicationIndex(pub u32);

/// A host that has rules. What it has is in one place of the table's octets, so that a lookup fetches few cache lines:
/// its name, then rules of it alone, then rules of it and all below it, each from the longest path to none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) name_at: u32,
    pub(super) name_len: u8,
    /// Where rules of it and all below it start.
    pub(super) below_at: u32,
    pub(super) end: u32,
}

/// The rules, compiled.
#[derive(Debug)]
pub struct HostTable {
    pub(super) hasher: SeedableRandomState,
    pub(super) by_name: HashTable<Entry>,
    /// What entries have.
    pub(super) octets: Box<[u8]>,
    pub(super) rules: usize,
    /// Bit `n` of it: whether a rule has a host of `n` labels.
    pub(super) label_counts: u32,
}

impl HostTable {
    /// A table without rules.
    pub fn empty() -> HostTable {
        HostTable {
            hasher: seeded(0),
            by_name: HashTable::new(),
            octets: Box::default(),
            rules: 0,
            label_counts: 0,
        }
    }

    /// Rules of the table.
    pub fn rules(&self) -> usize {
        self.rules
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
        let rules = suffixes(name).filter_map(move |(at, labels)| {
            let entry = self.entry(name.get(at..)?, labels)?;
            let from = match at {
                0 => entry.name_at + u32::from(entry.name_len),
                _ => entry.below_at,
            };
            Some(Rules(Reader::new(self.octets(from, entry.end))))
        });
        let matching = rules.flatten().filter(move |rule| rule.matches(path));
        matching.map(|rule| rule.application)
    }

    fn entry(&self, name: &[u8], labels: usize) -> Option<&Entry> {
        if self.label_counts >> labels & 1 == 0 {
            return None;
        }
        let is_it =
            |entry: &Entry| self.octets(entry.name_at, entry.name_at + u32::from(entry.name_len)) == name;
        self.by_name.find(hash(&self.hasher, name), is_it)
    }

    fn octets(&self, from: u32, to: u32) -> &[u8] {
        self.octets.get(from as usize..to as usize).unwrap_or_default()
    }
}

/// A rule's path and application.
pub(super) struct PathRule<'t> {
    pub(super) path: &'t [u8],
    pub(super) application: ApplicationIndex,
}

impl PathRule<'_> {
    /// Appends its octets: the length of its path, the path, the application.
    pub(super) fn write(&self, octets: &mut Vec<u8>) {
        octets.push(self.path.len() as u8);
        octets.extend_from_slice(self.path);
        octets.extend_from_slice(&self.application.0.to_be_bytes());
    }

    fn matches(&self, path: Option<&[u8]>) -> bool {
        self.path.is_empty() || path.is_some_and(|path| path.starts_with(self.path))
    }
}

/// Rules that are read from octets.
struct Rules<'t>(Reader<'t>);

impl<'t> Iterator for Rules<'t> {
    type Item = PathRule<'t>;

    fn next(&mut self) -> Option<PathRule<'t>> {
        let path = self.0.vector8()?;
        let application = ApplicationIndex(self.0.u32()?);
        Some(PathRule { path, application })
    }
}

pub(super) fn seeded(seed: u64) -> SeedableRandomState {
    SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
}
