//! The form of what is stored: the header of a segment, and records. Numbers are in network order.
//!
//! ```text
//! segment   0-7    "SLUISTOR"
//!           8-9    version of the form
//!           10-15  0
//!           16-23  number of the segment, that of its name
//!           24-27  number of segments before it that count
//!           28-31  CRC-32C (RFC 3385) of their list
//!           32-59  0
//!           60-63  CRC-32C of octets 0-59
//!           64-    the list, from the oldest on, for each its number, the octets of it that count, and those that
//!                  certainly were confirmed, 8 octets each; what is behind them may be an unfinished write
//!           then   records, each at a multiple of 8
//!
//! record    0-3    "SlRc"
//!           4      kind: 1 a value, 2 a removal, 3 the mark at which a batch begins
//!           5      table; 0 in a mark
//!           6-7    bucket
//!           8-15   number of the operation; in a mark, that of the last one before it
//!           16-19  length of the value
//!           20-21  length of the head
//!           22-23  length of the identifier
//!           24-27  CRC-32C of identifier, head and value
//!           28-31  CRC-32C of octets 0-27
//!           32-    identifier, head, value; then 0 up to a multiple of 8
//! ```
//!
//! The first 64 octets of a header have their length, magic, version and checksum in all versions, so that a file of
//! another version is named as such and not taken for a damaged one.
//!
//! A segment that the newest header does not list does not count, nor what is behind the octets that it lists: that was
//! never confirmed, and was written again.

use std::fmt;

use crate::key::{Key, Table};
use crate::lsn::Lsn;

/// The version of the form that is written. Version 1 has no table of unacknowledged usage: a build that knows no other
/// version would take records of it for damage.
pub const VERSION: u16 = 2;
/// The oldest version that is read.
pub(crate) const OLDEST_VERSION: u16 = 1;
/// The most octets of a value.
pub const LONGEST_VALUE: usize = 2 << 20;
/// The most octets of a head.
pub const LONGEST_HEAD: usize = 65_535;
/// The most octets of an identifier.
pub const LONGEST_ID: usize = 4_096;

/// Octets of a segment's header, without its list.
pub(crate) const SEGMENT_HEADER: usize = 64;
/// Octets of an entry of the list.
const LISTED: usize = 24;
/// Octets of a record before its identifier.
pub(crate) const RECORD_HEADER: usize = 32;
/// Records are at multiples of this.
pub(crate) const ALIGN: usize = 8;
/// The most octets of a record.
pub(crate) const LONGEST_RECORD: usize = aligned(RECORD_HEADER + LONGEST_ID + LONGEST_HEAD + LONGEST_VALUE);

const SEGMENT_MAGIC: [u8; 8] = *b"SLUISTOR";
const RECORD_MAGIC: [u8; 4] = *b"SlRc";

const PREFIX: &str = "store-";
const SUFFIX: &str = ".log";
const INDEX_SUFFIX: &str = ".index";
const DIGITS: usize = 20;

/// The name of a segment. So they sort by age.
pub(crate) fn file_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{SUFFIX}")
}

/// The name of the index of a segment ([`segment_index`](crate::segment_index)).
pub(crate) fn index_name(number: u64) -> String {
    format!("{PREFIX}{number:020}{INDEX_SUFFIX}")
}

/// The number of the segment of this name.
pub(crate) fn number_of(name: &str) -> Option<u64> {
    number_before(name, SUFFIX)
}

/// The number of the segment whose index has this name.
pub(crate) fn indexed_number(name: &str) -> Option<u64> {
    number_before(name, INDEX_SUFFIX)
}

fn number_before(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_prefix(PREFIX)?.strip_suffix(suffix)?;
    let all = digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit());
    digits.parse().ok().filter(|number| all && *number > 0)
}

/// The least multiple of [`ALIGN`] that is no less.
pub(crate) const fn aligned(octets: usize) -> usize {
    octets.next_multiple_of(ALIGN)
}

/// A value, head or identifier that is too long for a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Which of them.
    pub what: &'static str,
    /// Its octets.
    pub octets: usize,
    /// The most that there may be.
    pub most: usize,
}

impl fmt::Display for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooLong { what, octets, most } = self;
        write!(f, "the {what} has {octets} octets; at most {most} can be stored")
    }
}

impl std::error::Error for TooLong {}

/// Where a value is. What was written later is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// The number of the segment.
    pub(crate) segment: u64,
    /// Where in it the record begins.
    pub(crate) offset: u32,
    /// Octets of the record.
    pub(crate) octets: u32,
}

/// Octets that are no record, where one was or may have been.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The name of the file.
    pub file: String,
    /// Where in it they begin.
    pub offset: u64,
    /// How many they are.
    pub octets: u64,
    /// Whether they are in the last batch of all: a write that a power cut left unfinished, then, which was never
    /// confirmed. Otherwise what was there had been confirmed.
    pub is_unconfirmed: bool,
}

/// A segment that counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) number: u64,
    /// Octets of it that count.
    pub(crate) octets: u64,
    /// Octets of it that certainly were confirmed.
    pub(crate) confirmed: u64,
}

/// The header of a segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    /// The segments before it that count, from the oldest on.
    pub(crate) before: Vec<Listed>,
}

/// Why the first octets of a file are not the header of a segment that is read here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    Damaged,
    Version(u16),
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let fields = |listed: &Listed| [listed.number, listed.octets, listed.confirmed];
        let list: Vec<u8> = self
            .before
            .iter()
            .flat_map(fields)
            .flat_map(u64::to_be_bytes)
            .collect();
        let mut octets = vec![0; SEGMENT_HEADER];
        put(&mut octets, 0, &SEGMENT_MAGIC);
        put(&mut octets, 8, &VERSION.to_be_bytes());
        put(&mut octets, 16, &self.number.to_be_bytes());
        put(&mut octets, 24, &(self.before.len() as u32).to_be_bytes());
        put(&mut octets, 28, &crc32c::crc32c(&list).to_be_bytes());
        let sum = crc32c::crc32c(octets.get(..60).unwrap_or_default());
        put(&mut octets, 60, &sum.to_be_bytes());
        octets.extend_from_slice(&list);
        octets
    }

    /// Octets of the list, by the first octets of a header.
    pub(crate) fn list_octets(octets: &[u8]) -> Result<usize, HeaderFault> {
        let checked = octets
            .get(..60)
            .filter(|checked| checked.starts_with(&SEGMENT_MAGIC));
        if !is_sum(checked, number(octets, 60)) {
            return Err(HeaderFault::Damaged);
        }
        let version = number(octets, 8).map_or(0, u16::from_be_bytes);
        if !(OLDEST_VERSION..=VERSION).contains(&version) {
            return Err(HeaderFault::Version(version));
        }
        Ok(number(octets, 24).map_or(0, u32::from_be_bytes) as usize * LISTED)
    }

    /// The header that the octets are.
    pub(crate) fn decode(octets: &[u8]) -> Result<SegmentHeader, HeaderFault> {
        let len = SegmentHeader::list_octets(octets)?;
        let list = octets.get(SEGMENT_HEADER..).filter(|list| list.len() == len);
        if !is_sum(list, number(octets, 28)) {
            return Err(HeaderFault::Damaged);
        }
        let field = |octets: &[u8], at| number(octets, at).map_or(0, u64::from_be_bytes);
        let listed = |octets: &[u8]| Listed {
            number: field(octets, 0),
            octets: field(octets, 8),
            confirmed: field(octets, 16),
        };
        Ok(SegmentHeader {
            number: field(octets, 16),
            before: list.unwrap_or_default().chunks(LISTED).map(listed).collect(),
        })
    }

    /// Its octets.
    pub(crate) fn octets(&self) -> u64 {
        (SEGMENT_HEADER + self.before.len() * LISTED) as u64
    }
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Value = 1,
    Removal = 2,
    Mark = 3,
}

impl Kind {
    /// What a record with this number says, which has a key or none.
    pub(crate) fn decode(number: u8, has_key: bool) -> Option<Kind> {
        match (number, has_key) {
            (1, true) => Some(Kind::Value),
            (2, true) => Some(Kind::Removal),
            (3, false) => Some(Kind::Mark),
            _ => None,
        }
    }
}

/// A record whose checksums are right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Record<'o> {
    pub(crate) kind: Kind,
    /// None in a mark.
    pub(crate) key: Option<KeyRef<'o>>,
    pub(crate) bucket: u16,
    pub(crate) lsn: Lsn,
    pub(crate) head: &'o [u8],
    pub(crate) value: &'o [u8],
    /// Octets of the record, with those that fill it up.
    pub(crate) octets: usize,
}

/// A key whose identifier is elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyRef<'o> {
    /// A table of sessions, and the SEID.
    Session(Table, u64),
    /// Another table, and the identifier.
    Other(Table, &'o [u8]),
}

impl KeyRef<'_> {
    pub(crate) fn to_key(self) -> Key {
        match self {
            KeyRef::Session(Table::Usage, seid) => Key::Usage(seid),
            KeyRef::Session(_, seid) => Key::Session(seid),
            KeyRef::Other(Table::Association, id) => Key::Association(id.to_vec()),
            KeyRef::Other(Table::Application, id) => Key::Application(id.to_vec()),
            KeyRef::Other(Table::Response, id) => Key::Response(id.try_into().unwrap_or_default()),
            KeyRef::Other(Table::LastUsage, id) => Key::LastUsage(id.try_into().unwrap_or_default()),
            KeyRef::Other(..) => Key::Node,
        }
    }

    /// The key of a record, if its table can have this identifier.
    pub(crate) fn decode(table: u8, id: &[u8]) -> Option<KeyRef<'_>> {
        match Table::from_number(table)? {
            table @ (Table::Session | Table::Usage) => {
                Some(KeyRef::Session(table, u64::from_be_bytes(id.try_into().ok()?)))
            }
            Table::Node if !id.is_empty() => None,
            Table::Response if id.len() != 8 => None,
            Table::LastUsage if id.len() != 10 => None,
            table => Some(KeyRef::Other(table, id)),
        }
    }

    pub(crate) fn table(self) -> Table {
        match self {
            KeyRef::Session(table, _) | KeyRef::Other(table, _) => table,
        }
    }
}

impl Key {
    pub(crate) fn as_ref(&self) -> KeyRef<'_> {
        match self {
            Key::Node => KeyRef::Other(Table::Node, &[]),
            Key::Association(id) => KeyRef::Other(Table::Association, id),
            Key::Application(id) => KeyRef::Other(Table::Application, id),
            Key::Session(seid) => KeyRef::Session(Table::Session, *seid),
            Key::Usage(seid) => KeyRef::Session(Table::Usage, *seid),
            Key::Response(seid) => KeyRef::Other(Table::Response, seid),
            Key::LastUsage(of) => KeyRef::Other(Table::LastUsage, of),
        }
    }
}

/// What is written of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content<'c> {
    pub(crate) kind: Kind,
    pub(crate) key: Option<KeyRef<'c>>,
    pub(crate) bucket: u16,
    pub(crate) lsn: Lsn,
    pub(crate) head: &'c [u8],
    pub(crate) value: &'c [u8],
}

impl Content<'_> {
    /// Whether the record is not too long.
    ///
    /// # Errors
    /// What of it is.
    pub(crate) fn check(&self) -> Result<(), TooLong> {
        if let Some(KeyRef::Other(_, id)) = self.key {
            check("identifier", id, LONGEST_ID)?;
        }
        check("head", self.head, LONGEST_HEAD)?;
        check("value", self.value, LONGEST_VALUE)
    }

    /// Adds the record, which is not too long ([`check`](Self::check)); returns its octets.
    pub(crate) fn encode(&self, to: &mut Vec<u8>) -> usize {
        let seid;
        let id = match self.key {
            Some(KeyRef::Session(_, number)) => {
                seid = number.to_be_bytes();
                seid.as_slice()
            }
            Some(KeyRef::Other(_, id)) => id,
            None => &[],
        };
        let mut header = [0; RECORD_HEADER];
        put(&mut header, 0, &RECORD_MAGIC);
        put(
            &mut header,
            4,
            &[self.kind as u8, self.key.map_or(0, |key| key.table() as u8)],
        );
        put(&mut header, 6, &self.bucket.to_be_bytes());
        put(&mut header, 8, &self.lsn.0.to_be_bytes());
        put(&mut header, 16, &(self.value.len() as u32).to_be_bytes());
        put(&mut header, 20, &(self.head.len() as u16).to_be_bytes());
        put(&mut header, 22, &(id.len() as u16).to_be_bytes());
        let sum = [id, self.head, self.value]
            .into_iter()
            .fold(0, crc32c::crc32c_append);
        put(&mut header, 24, &sum.to_be_bytes());
        let sum = crc32c::crc32c(header.get(..28).unwrap_or_default());
        put(&mut header, 28, &sum.to_be_bytes());
        let from = to.len();
        for part in [&header, id, self.head, self.value] {
            to.extend_from_slice(part);
        }
        let octets = aligned(to.len() - from);
        to.resize(from + octets, 0);
        octets
    }
}

fn check(what: &'static str, octets: &[u8], most: usize) -> Result<(), TooLong> {
    match octets.len() {
        octets if octets > most => Err(TooLong { what, octets, most }),
        _ => Ok(()),
    }
}

/// What octets begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin<'o> {
    Record(Record<'o>),
    /// A record that is longer than the octets, by its header, which is right: its length.
    Longer(usize),
    /// A record whose header is right, and whose content is not: its length. What is in it is no record, however it
    /// looks: others may have chosen the octets.
    Damaged(usize),
    Nothing,
}

impl<'o> Record<'o> {
    /// The record that the octets begin with.
    pub(crate) fn decode(octets: &'o [u8]) -> Begin<'o> {
        let Some((header, content)) = octets.split_at_checked(RECORD_HEADER) else {
            return Begin::Nothing;
        };
        if !header.starts_with(&RECORD_MAGIC) || !is_sum(header.get(..28), number(header, 28)) {
            return Begin::Nothing;
        }
        let lengths = (
            number(header, 16).map_or(0, u32::from_be_bytes) as usize,
            usize::from(number(header, 20).map_or(0, u16::from_be_bytes)),
            usize::from(number(header, 22).map_or(0, u16::from_be_bytes)),
        );
        let (value, head, id) = lengths;
        if value > LONGEST_VALUE || id > LONGEST_ID {
            return Begin::Nothing;
        }
        let used = id + head + value;
        let whole = aligned(RECORD_HEADER + used);
        if octets.len() < whole {
            return Begin::Longer(whole);
        }
        let content = content.get(..used);
        if !is_sum(content, number(header, 24)) {
            return Begin::Damaged(whole);
        }
        let content = content.unwrap_or_default();
        let (kind, table) = (header.get(4).copied(), header.get(5).copied().unwrap_or(0));
        let (id, rest) = content.split_at_checked(id).unwrap_or_default();
        let (head, value) = rest.split_at_checked(head).unwrap_or_default();
        let key = KeyRef::decode(table, id);
        let Some(kind) = kind.and_then(|kind| Kind::decode(kind, key.is_some())) else {
            return Begin::Damaged(whole);
        };
        Begin::Record(Record {
            kind,
            key,
            bucket: number(header, 6).map_or(0, u16::from_be_bytes),
            lsn: Lsn(number(header, 8).map_or(0, u64::from_be_bytes)),
            head,
            value,
            octets: whole,
        })
    }

    /// The SEID, where it is of a session.
    pub(crate) fn seid(&self) -> Option<u64> {
        match self.key? {
            KeyRef::Session(_, seid) => Some(seid),
            KeyRef::Other(..) => None,
        }
    }

    /// The SEIDs that the records of these octets are of, as far as they are next to each other. Nothing is checked.
    pub(crate) fn seids(octets: &[u8]) -> impl Iterator<Item = u64> {
        let mut rest = octets;
        let next = move || {
            let header = rest
                .get(..RECORD_HEADER)
                .filter(|header| header.starts_with(&RECORD_MAGIC))?;
            let (value, head) = (number(header, 16)?, number(header, 20)?);
            let id = usize::from(u16::from_be_bytes(number(header, 22)?));
            let used = u32::from_be_bytes(value) as usize + usize::from(u16::from_be_bytes(head)) + id;
            let seid = number(rest, RECORD_HEADER).filter(|_| id == size_of::<u64>());
            rest = rest.get(aligned(RECORD_HEADER + used)..)?;
            Some(seid.map(u64::from_be_bytes))
        };
        std::iter::from_fn(next).flatten()
    }

    /// Where a record may begin behind the first of these octets.
    pub(crate) fn next_candidate(octets: &[u8]) -> Option<usize> {
        let behind = octets.get(ALIGN..)?;
        let places = behind.chunks(ALIGN).position(|chunk| {
            let seen = chunk.len().min(RECORD_MAGIC.len());
            chunk.get(..seen) == RECORD_MAGIC.get(..seen)
        })?;
        Some((places + 1) * ALIGN)
    }
}

pub(crate) fn is_sum(octets: Option<&[u8]>, sum: Option<[u8; 4]>) -> bool {
    octets
        .zip(sum)
        .is_some_and(|(octets, sum)| crc32c::crc32c(octets) == u32::from_be_bytes(sum))
}

pub(crate) fn number<const N: usize>(octets: &[u8], at: usize) -> Option<[u8; N]> {
    octets.get(at..at + N)?.try_into().ok()
}

pub(crate) fn put(to: &mut [u8], at: usize, octets: &[u8]) {
    if let Some(place) = to.get_mut(at..at + octets.len()) {
        place.copy_from_slice(octets);
    }
}
