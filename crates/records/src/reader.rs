//! Reading files of a spool: line by line, in bounded memory, whatever they hold.

use std::io::{self, BufRead, BufReader, Read};

use crate::entry::{Entry, Lost};
use crate::line::{LONGEST_LINE, LineFault, check, open};

/// Octets that are asked of a file at a time.
const CHUNK: usize = 128 << 10;

/// Where a line is, and whether it has its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Octets of the file before it.
    pub offset: u64,
    /// Its octets, with its end.
    pub octets: u64,
    /// Whether it has its end.
    pub is_whole: bool,
}

/// The lines of one file.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: BufReader<R>,
    line: Vec<u8>,
    offset: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Lines<R> {
        Lines {
            input: BufReader::with_capacity(CHUNK, input),
            line: Vec::new(),
            offset: 0,
        }
    }

    /// The next line without its end; of a longer one than there may be only the beginning.
    pub(crate) fn next(&mut self) -> io::Result<Option<(Place, &[u8])>> {
        self.line.clear();
        let offset = self.offset;
        let mut is_whole = false;
        while !is_whole {
            let chunk = match self.input.fill_buf() {
                Ok(chunk) => chunk,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if chunk.is_empty() {
                break;
            }
            let end = chunk.iter().position(|octet| *octet == b'\n');
            let taken = end.unwrap_or(chunk.len());
            let room = LONGEST_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&chunk[..taken.min(room)]);
            is_whole = end.is_some();
            let consumed = taken + usize::from(is_whole);
            self.input.consume(consumed);
            self.offset += consumed as u64;
        }
        let octets = self.offset - offset;
        let place = Place {
            offset,
            octets,
            is_whole,
        };
        Ok((octets > 0).then_some((place, &self.line)))
    }
}

/// What a line is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// A record, with its number.
    Record(u64, Entry),
    /// No record.
    Bad(Place, LineFault),
}

/// The records of one file, in its order.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
}

impl<R: Read> Reader<R> {
    /// Reads from the beginning of a file.
    pub fn new(input: R) -> Reader<R> {
        Reader {
            lines: Lines::new(input),
        }
    }

    /// The line that the last item was made of, without its end; of one that is too long only the beginning.
    pub fn line(&self) -> &[u8] {
        &self.lines.line
    }
}

impl<R: Read> Iterator for Reader<R> {
    type Item = io::Result<Item>;

    fn next(&mut self) -> Option<io::Result<Item>> {
        let next = self.lines.next().transpose()?;
        Some(next.map(|(place, line)| match open(line) {
            Ok((seq, entry)) if place.is_whole => Item::Record(seq, entry),
            Ok(_) => Item::Bad(place, LineFault::Torn),
            Err(fault) => Item::Bad(place, fault),
        }))
    }
}

/// Where the good part of a file ends, and what it has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// Octets up to the end of the last whole record.
    pub(crate) good: u64,
    /// Octets behind it.
    pub(crate) torn: u64,
    /// Records.
    pub(crate) records: u64,
    /// Lines before `good` that are no records.
    pub(crate) damaged: u64,
    /// The highest number.
    pub(crate) last: Option<u64>,
}

impl Extent {
    pub(crate) fn of(input: impl Read) -> io::Result<Extent> {
        let mut lines = Lines::new(input);
        let mut extent = Extent::default();
        let mut damaged = 0;
        while let Some((place, line)) = lines.next()? {
            let end = place.offset + place.octets;
            match check(line) {
                Ok((seq, _)) if place.is_whole => {
                    extent.good = end;
                    extent.records += 1;
                    extent.damaged = damaged;
                    extent.last = extent.last.max(Some(seq));
                }
                _ => damaged += 1,
            }
            extent.torn = end - extent.good;
        }
        Ok(extent)
    }
}

/// Keeps an eye on the numbers of records that come in the order of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Records of usage and of sessions' ends.
    pub records: u64,
    /// Records that are said to be lost.
    pub lost: u64,
    /// Missing records without a record of the loss.
    pub missing: u64,
    /// Records with a number that was there before.
    pub repeated: u64,
    last: Option<u64>,
}

/// A break in the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Break {
    /// These are missing: the first and how many.
    Missing(u64, u64),
    /// These are lost, and the record says so: the first and how many.
    Lost(u64, u64),
    /// This was there before.
    Repeated(u64),
}

impl Audit {
    /// Takes the next record; reports a number that does not follow on the one before. What is missing before the first
    /// record is not looked at: files are taken away when they have been read.
    pub fn take(&mut self, seq: u64, entry: &Entry) -> Option<Break> {
        let last = self.last.replace(self.last.map_or(seq, |last| last.max(seq)));
        if let Some(last) = last.filter(|last| seq <= *last) {
            self.repeated += 1;
            self.last = Some(last);
            return Some(Break::Repeated(seq));
        }
        let expected = last.map(|last| last.saturating_add(1));
        if let Entry::Lost(Lost { first, records, .. }) = entry {
            self.lost = self.lost.saturating_add(*records);
            let covers = first.wrapping_add(*records) == seq;
            if covers && expected.is_none_or(|expected| expected == *first) {
                return Some(Break::Lost(*first, *records));
            }
        } else {
            self.records += 1;
        }
        let missing = expected.map_or(0, |expected| seq - expected);
        self.missing = self.missing.saturating_add(missing);
        (missing > 0).then(|| Break::Missing(seq - missing, missing))
    }

    /// Whether nothing is missing that is not said to be lost, and nothing is there twice.
    pub fn is_sound(&self) -> bool {
        self.missing == 0 && self.repeated == 0
    }
}
