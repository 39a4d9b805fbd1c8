//! The index of a segment: what recovery needs of each of its records, without the values. It is a file beside the
//! segment, made when nothing is written to that any more, and is read in its place. Nothing relies on it: where it is
//! not there, or damaged, or not of these octets, the segment itself is read. Numbers are in network order.
//!
//! ```text
//! index     0-7    "SLUISIDX"
//!           8-9    version of the form
//!           10-15  0
//!           16-23  number of the segment
//!           24-31  octets of the segment that count
//!           32-39  octets behind the first 64
//!           40-55  0
//!           56-59  CRC-32C of what is behind the first 64
//!           60-63  CRC-32C of octets 0-59
//!           64-    the records, in their order
//!
//! record    0-3    where it begins in the segment
//!           4-7    its octets there
//!           8-15   number of the operation
//!           16-17  bucket
//!           18-19  length of the head
//!           20-21  length of the identifier
//!           22     table
//!           23     kind: 1 a value, 2 a removal, 3 a mark
//!           24-    identifier, head
//! ```

use crate::form::{
    ALIGN, KeyRef, Kind, LONGEST_RECORD, RECORD_HEADER, Record, SEGMENT_HEADER, is_sum, number, put,
};
use crate::index::MOST_OFFSET;
use crate::lsn::Lsn;

const MAGIC: [u8; 8] = *b"SLUISIDX";
const VERSION: u16 = 1;
/// Octets before the records.
pub(crate) const HEADER: usize = 64;
/// Octets of a record before its identifier.
const ENTRY: usize = 24;

/// An index that is being made.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    octets: Vec<u8>,
}

impl IndexWriter {
    pub(crate) fn new() -> IndexWriter {
        IndexWriter {
            octets: vec![0; HEADER],
        }
    }

    /// Adds a record that begins there.
    pub(crate) fn add(&mut self, offset: u32, record: &Record<'_>) {
        let seid;
        let (table, id) = match record.key {
            Some(KeyRef::Session(table, number)) => {
                seid = number.to_be_bytes();
                (table as u8, seid.as_slice())
            }
            Some(KeyRef::Other(table, id)) => (table as u8, id),
            None => (0, &[][..]),
        };
        let mut entry = [0; ENTRY];
        put(&mut entry, 0, &offset.to_be_bytes());
        put(&mut entry, 4, &(record.octets as u32).to_be_bytes());
        put(&mut entry, 8, &record.lsn.0.to_be_bytes());
        put(&mut entry, 16, &record.bucket.to_be_bytes());
        put(&mut entry, 18, &(record.head.len() as u16).to_be_bytes());
        put(&mut entry, 20, &(id.len() as u16).to_be_bytes());
        put(&mut entry, 22, &[table, record.kind as u8]);
        for part in [&entry, id, record.head] {
            self.octets.extend_from_slice(part);
        }
    }

    /// The whole file, of the segment with this number, and this number of octets that count.
    pub(crate) fn finish(mut self, segment: u64, segment_octets: u64) -> Vec<u8> {
        let (header, records) = self.octets.split_at_mut(HEADER);
        put(header, 0, &MAGIC);
        put(header, 8, &VERSION.to_be_bytes());
        put(header, 16, &segment.to_be_bytes());
        put(header, 24, &segment_octets.to_be_bytes());
        put(header, 32, &(records.len() as u64).to_be_bytes());
        put(header, 56, &crc32c::crc32c(records).to_be_bytes());
        let sum = crc32c::crc32c(header.get(..60).unwrap_or_default());
        put(header, 60, &sum.to_be_bytes());
        self.octets
    }
}

/// An index that was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentIndex<'o> {
    records: &'o [u8],
}

impl<'o> SegmentIndex<'o> {
    /// The index that the octets are, if they are one of this segment, with as many octets that count.
    pub(crate) fn decode(octets: &'o [u8], segment: u64, segment_octets: u64) -> Option<SegmentIndex<'o>> {
        let (header, records) = octets.split_at_checked(HEADER)?;
        let field = |at| number(header, at).map(u64::from_be_bytes);
        let is_it = header.starts_with(&MAGIC)
            && is_sum(header.get(..60), number(header, 60))
            && number(header, 8).map(u16::from_be_bytes) == Some(VERSION)
            && field(16) == Some(segment)
            && field(24) == Some(segment_octets)
            && field(32) == Some(records.len() as u64)
            && is_sum(Some(records), number(header, 56));
        let index = is_it.then_some(SegmentIndex { records })?;
        index.is_whole(segment_octets).then_some(index)
    }

    /// Whether there is nothing but records, each of which is where a record can be.
    fn is_whole(self, segment_octets: u64) -> bool {
        let mut records = self.records();
        let mut end = SEGMENT_HEADER as u64;
        for (offset, record) in records.by_ref() {
            let (from, octets) = (u64::from(offset), record.octets as u64);
            let is_aligned = from.is_multiple_of(ALIGN as u64) && octets.is_multiple_of(ALIGN as u64);
            let is_long = (RECORD_HEADER..=LONGEST_RECORD).contains(&record.octets);
            if !is_aligned || !is_long || from < end || from > MOST_OFFSET {
                return false;
            }
            end = from + octets;
        }
        records.rest.is_empty() && end <= segment_octets
    }

    /// Where each record begins, and what it is, without its value.
    pub(crate) fn records(self) -> Records<'o> {
        Records { rest: self.records }
    }
}

/// The records of an index.
#[derive(Clone, Debug)]
pub(crate) struct Records<'o> {
    rest: &'o [u8],
}

impl<'o> Iterator for Records<'o> {
    type Item = (u32, Record<'o>);

    fn next(&mut self) -> Option<(u32, Record<'o>)> {
        let (entry, rest) = self.rest.split_at_checked(ENTRY)?;
        let word = |at| number(entry, at).map(u32::from_be_bytes);
        let short = |at| number(entry, at).map(u16::from_be_bytes);
        let (id, rest) = rest.split_at_checked(usize::from(short(20)?))?;
        let (head, rest) = rest.split_at_checked(usize::from(short(18)?))?;
        let key = KeyRef::decode(*entry.get(22)?, id);
        let record = Record {
            kind: Kind::decode(*entry.get(23)?, key.is_some())?,
            key,
            bucket: short(16)?,
            lsn: Lsn(number(entry, 8).map(u64::from_be_bytes)?),
            head,
            value: &[],
            octets: word(4)? as usize,
        };
        self.rest = rest;
        Some((word(0)?, record))
    }
}
