//! What a log had when it was opened.

use std::collections::BTreeMap;

use crate::form::{Damage, Location};
use crate::key::Key;
use crate::lsn::Lsn;

/// A live record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Live<'r> {
    /// What it is of.
    pub key: Key,
    /// The bucket that it was put with.
    pub bucket: u16,
    /// The number of the operation that put it.
    pub lsn: Lsn,
    /// Where it is.
    pub location: Location,
    /// The head that it was put with.
    pub head: &'r [u8],
}

/// What is known of a live record besides its key; without octets: none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) lsn: Lsn,
    pub(crate) location: Location,
    /// Where in the heads its own is.
    pub(crate) head: usize,
    pub(crate) head_octets: u16,
    /// How long one may be there.
    pub(crate) head_room: u16,
    pub(crate) bucket: u16,
}

/// The records of a table of sessions, with the SEIDs.
pub(crate) type FoundSessions = Vec<(u64, Found)>;

/// What a log had when it was opened: the live records, those of sessions in no order, and how it was found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub(crate) sessions: FoundSessions,
    pub(crate) usage: FoundSessions,
    pub(crate) others: BTreeMap<Key, Found>,
    pub(crate) live: usize,
    pub(crate) heads: Vec<u8>,
    /// The number of the last operation there is.
    pub last: Lsn,
    /// Segments that were read.
    pub segments: u64,
    /// Octets that were read.
    pub octets: u64,
    /// Records in them, live or not, with the removals.
    pub records: u64,
    /// Octets that were cut off the newest segment: a write that was not finished.
    pub torn_octets: u64,
    /// What was passed over.
    pub damaged: Vec<Damage>,
}

impl Recovered {
    /// The number of live records.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// The live records.
    pub fn iter(&self) -> impl Iterator<Item = Live<'_>> {
        let others = self.others.iter().map(|(key, found)| (key.clone(), found));
        let sessions = self
            .sessions
            .iter()
            .map(|(seid, found)| (Key::Session(*seid), found));
        let usage = self.usage.iter().map(|(seid, found)| (Key::Usage(*seid), found));
        let all = others.chain(sessions).chain(usage);
        let live = all.filter(|(_, found)| found.location.octets > 0);
        live.map(|(key, found)| Live {
            key,
            bucket: found.bucket,
            lsn: found.lsn,
            location: found.location,
            head: self.head(found),
        })
    }

    fn head(&self, found: &Found) -> &[u8] {
        let octets = found.head..found.head + usize::from(found.head_octets);
        self.heads.get(octets).unwrap_or_default()
    }
}
