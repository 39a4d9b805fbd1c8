//! What a log had when it was opened.

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

/// A live record, and where in the heads its own is.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) key: Key,
    pub(crate) bucket: u16,
    pub(crate) lsn: Lsn,
    pub(crate) location: Location,
    pub(crate) head: (usize, u16),
}

/// What a log had when it was opened: the live records, those of sessions in no order, and how it was found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub(crate) found: Vec<Found>,
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
        self.found.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The live records.
    pub fn iter(&self) -> impl Iterator<Item = Live<'_>> {
        self.found.iter().map(|found| {
            let (from, octets) = found.head;
            Live {
                key: found.key.clone(),
                bucket: found.bucket,
                lsn: found.lsn,
                location: found.location,
                head: self
                    .heads
                    .get(from..from + usize::from(octets))
                    .unwrap_or_default(),
            }
        })
    }
}
