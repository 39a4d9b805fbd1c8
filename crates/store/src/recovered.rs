//! What a log had when it was opened.

use std::collections::BTreeMap;

use crate::form::{ALIGN, Damage, Location};
use crate::index::{Place, Slot};
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

/// The live record of a session, and where its usage is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveSession<'r> {
    /// Its local SEID.
    pub seid: u64,
    /// Where its record is.
    pub location: Location,
    /// The head that it was put with.
    pub head: &'r [u8],
    /// Where the record is of what it has used since.
    pub usage: Option<Location>,
}

/// What is known of a live record besides its key. Of very many sessions there is one each, and memory that was never
/// used takes its time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Found {
    pub(crate) lsn: Lsn,
    /// Where it is; nowhere: there is none.
    pub(crate) slot: Slot,
    /// Where in the heads its own is, in units of [`ALIGN`].
    pub(crate) head: u32,
    pub(crate) head_octets: u16,
    /// How long one may be there.
    pub(crate) head_room: u16,
    pub(crate) bucket: u16,
}

/// The records of sessions in a table, with the SEIDs, by the sessions' places.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundSessions {
    pub(crate) records: Vec<(u64, Found)>,
}

impl FoundSessions {
    pub(crate) fn at(&mut self, place: Place) -> &mut (u64, Found) {
        if self.records.len() <= place {
            self.records.resize(place + 1, (0, Found::default()));
        }
        &mut self.records[place]
    }
}

/// The same, where few sessions have a record.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoundUsage {
    records: FoundSessions,
    /// By the sessions' places: which record, counted from 1; 0: none.
    numbers: Vec<u32>,
}

impl FoundUsage {
    pub(crate) fn at(&mut self, place: Place) -> &mut (u64, Found) {
        if self.numbers.len() <= place {
            self.numbers.resize(place + 1, 0);
        }
        let number = &mut self.numbers[place];
        if *number == 0 {
            *number = self.records.records.len() as u32 + 1;
        }
        self.records.at(*number as usize - 1)
    }

    fn get(&self, place: Place) -> Option<&(u64, Found)> {
        let number = *self.numbers.get(place)? as usize;
        self.records.records.get(number.checked_sub(1)?)
    }
}

/// What a log had when it was opened: the live records, those of sessions in no order, and how it was found.
#[derive(Clone, Debug, Default)]
pub struct Recovered {
    pub(crate) sessions: FoundSessions,
    pub(crate) usage: FoundUsage,
    pub(crate) others: BTreeMap<Key, Found>,
    pub(crate) live: usize,
    pub(crate) heads: Vec<u8>,
    /// The numbers of the segments, by their ids.
    pub(crate) numbers: Vec<u64>,
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
        let sessions = self.sessions.records.iter();
        let sessions = sessions.map(|(seid, found)| (Key::Session(*seid), found));
        let usage = self.usage.records.records.iter();
        let usage = usage.map(|(seid, found)| (Key::Usage(*seid), found));
        self.live(others.chain(sessions).chain(usage))
    }

    fn live<'r>(&'r self, all: impl Iterator<Item = (Key, &'r Found)>) -> impl Iterator<Item = Live<'r>> {
        let live = all.filter_map(|(key, found)| Some((key, found, self.location(found)?)));
        live.map(|(key, found, location)| Live {
            key,
            bucket: found.bucket,
            lsn: found.lsn,
            location,
            head: self.head(found),
        })
    }

    /// The sessions that have a record, in the order of their arrival.
    pub fn sessions(&self) -> impl Iterator<Item = LiveSession<'_>> + Clone {
        let all = self.sessions.records.iter().enumerate();
        all.filter_map(|(place, (seid, found))| {
            let usage = self.usage.get(place).filter(|(of, _)| of == seid);
            Some(LiveSession {
                seid: *seid,
                location: self.location(found)?,
                head: self.head(found),
                usage: usage.and_then(|(_, found)| self.location(found)),
            })
        })
    }

    /// The records of all but sessions and their usage.
    pub fn others(&self) -> impl Iterator<Item = Live<'_>> {
        let others = self.others.iter().map(|(key, found)| (key.clone(), found));
        self.live(others)
    }

    /// Where a record is, if there is one.
    fn location(&self, found: &Found) -> Option<Location> {
        let segment = *self.numbers.get(usize::from(found.slot.segment()))?;
        (!found.slot.is_none()).then_some(Location {
            segment,
            offset: found.slot.offset(),
            octets: found.slot.octets(),
        })
    }

    fn head(&self, found: &Found) -> &[u8] {
        let head = found.head as usize * ALIGN;
        let octets = head..head + usize::from(found.head_octets);
        self.heads.get(octets).unwrap_or_default()
    }
}
