//! What a store is made of, and its batch: from the first operation in it to the confirmation of all.
//!
//! An operation is encoded into the batch at once; the index leads there until the batch is confirmed. Which octets of
//! a segment are live is counted by what is confirmed alone, so that a segment can be removed at any time when it has
//! no live record. When something fails, the batch stays as it is and is written again.

use std::io;
use std::time::Duration;

use crate::form::{Begin, Content, Kind, Record, file_name};
use crate::index::{BATCH, Index, MOST_OFFSET, Slot};
use crate::key::Key;
use crate::log::{Log, Written};
use crate::lsn::Lsn;
use crate::progress::Progress;
use crate::recovery::Unconfirmed;
use crate::reserve::{Reserve, is_full};
use crate::scan::{Item, scan_octets};
use crate::segment_index::IndexWriter;
use crate::segments::{Segment, Segments};
use crate::settings::Settings;
use crate::store_disk::{ReadAt, StoreDisk};

/// A durable map from keys to values. Its owner is one thread.
#[derive(Debug)]
pub struct Store<D: StoreDisk> {
    pub(crate) disk: D,
    pub(crate) reads: D::Reads,
    pub(crate) settings: Settings,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) log: Log,
    pub(crate) reserve: Reserve,
    /// Records that are not confirmed, behind a mark.
    pub(crate) batch: Vec<u8>,
    /// Confirmed records that no longer count once the batch is confirmed.
    pub(crate) superseded: Vec<Slot>,
    /// Operations of the caller in the batch, and their octets.
    pub(crate) held: u64,
    pub(crate) held_octets: u64,
    /// The last operation, and the last one that is durable.
    pub(crate) last: Lsn,
    pub(crate) durable: Lsn,
    pub(crate) is_held: bool,
    /// Whether what the process before may not have confirmed is durable. Before, what it supersedes is still needed.
    pub(crate) is_settled: bool,
    pub(crate) moving: Option<Moving>,
    pub(crate) indexing: Option<Indexing>,
    /// When it is tried again to make an index, after the disk has refused.
    pub(crate) index_retry_at: Option<Duration>,
    /// Octets of the last batch.
    pub(crate) last_batch_octets: usize,
    /// Room for what is read of a segment.
    pub(crate) slice: Vec<u8>,
    /// Octets that are to be compacted for those that were written.
    pub(crate) owed_octets: u64,
    pub(crate) unreadable: Vec<Key>,
    pub(crate) polled: Duration,
    pub(crate) retry_at: Option<Duration>,
    pub(crate) fault: Option<io::Error>,
    /// Why compaction does not proceed, and when it is tried again.
    pub(crate) stalled: Option<(Duration, io::Error)>,
    pub(crate) progress: Progress,
}

/// The segment that is being compacted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moving {
    pub(crate) id: u16,
    pub(crate) segment: Segment,
    /// What is before it has been compacted.
    pub(crate) offset: u64,
    /// Failed attempts here.
    pub(crate) attempts: u32,
    /// Up to here single pages are read: one of them cannot be.
    pub(crate) careful_until: u64,
}

impl Moving {
    pub(crate) fn is_done(&self) -> bool {
        self.offset >= self.segment.octets
    }
}

/// The segment whose index is being made.
#[derive(Debug)]
pub(crate) struct Indexing {
    pub(crate) id: u16,
    pub(crate) segment: Segment,
    /// What is before it has been read.
    pub(crate) offset: u64,
    pub(crate) index: IndexWriter,
}

impl Indexing {
    pub(crate) fn number(&self) -> u64 {
        self.segment.number
    }

    pub(crate) fn left(&self) -> u64 {
        self.segment.octets.saturating_sub(self.offset)
    }

    /// Adds the records of these octets. Returns how many of them were used; none where there is damage.
    pub(crate) fn add(&mut self, octets: &[u8], is_end: bool) -> Option<usize> {
        let (from, index, mut is_damaged) = (self.offset, &mut self.index, false);
        let used = scan_octets(octets, is_end, |at, item| match item {
            Item::Record(record, _) => index.add((from + at as u64) as u32, &record),
            Item::Damage(_) => is_damaged = true,
        });
        (!is_damaged).then_some(used)
    }
}

/// How many octets are compacted for each one that is written.
pub(crate) fn compacted_for(settings: &Settings) -> u64 {
    400_u64.div_ceil(u64::from(settings.garbage_percent)).max(4)
}

impl<D: StoreDisk> Store<D> {
    pub(crate) fn write_batch(&mut self, now: Duration) {
        let committed = if self.batch.is_empty() {
            Ok(())
        } else {
            self.commit()
        };
        self.progress.failures += u64::from(committed.is_err());
        self.retry_at = committed.is_err().then_some(now + self.settings.retry);
        self.fault = committed.err();
    }

    pub(crate) fn commit(&mut self) -> io::Result<()> {
        let segment_octets = self.segment_octets();
        if self.log.begins_segment(segment_octets) && !self.segments.has_room() {
            return Err(io::Error::other("there are too many segments"));
        }
        let written = loop {
            self.progress.syncs += 1;
            match self
                .log
                .write(&mut self.disk, segment_octets, &self.segments, &self.batch)
            {
                Ok(written) => break written,
                Err(error) if is_full(&error) => {
                    let again = io::Error::new(error.kind(), error.to_string());
                    if !self.reserve.give_up(&mut self.disk, self.batch.len(), error) {
                        return Err(again);
                    }
                }
                Err(error) => return Err(error),
            }
        };
        self.confirm(written);
        Ok(())
    }

    /// Octets at which a segment is full: every place in it must have a slot.
    pub(crate) fn segment_octets(&self) -> u64 {
        let most = MOST_OFFSET.saturating_sub(self.batch.len() as u64);
        self.settings.segment_octets.min(most)
    }

    /// The batch is durable, and is located there.
    pub(crate) fn confirm(&mut self, written: Written) {
        let octets = self.batch.len() as u64;
        self.last_batch_octets = self.batch.len();
        let id = if written.is_new {
            self.segments.push(Segment {
                number: written.segment,
                header: written.offset,
                octets: written.offset,
                ..Segment::default()
            })
        } else {
            self.segments.newest()
        };
        let id = id.unwrap_or(BATCH);
        self.segments.grow(id, octets);
        let (index, segments) = (&mut self.index, &mut self.segments);
        scan_octets(&self.batch, true, |at, item| {
            if let Item::Record(record, octets) = item
                && record.kind == Kind::Value
                && let Some(key) = record.key
                && index.get(key) == Some(Slot::new(BATCH, at as u64, octets.len()))
            {
                let slot = Slot::new(id, written.offset + at as u64, octets.len());
                index.set(key, slot);
                segments.add_live(slot);
            }
        });
        for slot in self.superseded.drain(..) {
            self.segments.drop_live(slot);
        }
        self.progress.operations += self.held;
        self.progress.written_octets += octets;
        self.owed_octets += self.held_octets * compacted_for(&self.settings);
        (self.held, self.held_octets) = (0, 0);
        self.durable = self.last;
        self.is_settled = true;
        self.batch.clear();
        self.batch.shrink_to(2 * self.settings.batch_octets);
    }

    /// This many octets of a segment, or as many as there are: in the room for them, which is to be given back.
    pub(crate) fn read_slice(&mut self, number: u64, offset: u64, wanted: u64) -> io::Result<Vec<u8>> {
        let mut octets = std::mem::take(&mut self.slice);
        octets.resize(wanted as usize, 0);
        let read = self.reads.read_at(&file_name(number), offset, &mut octets)?;
        octets.truncate(read);
        Ok(octets)
    }

    pub(crate) fn next(&self) -> Lsn {
        Lsn(self.last.0.saturating_add(1))
    }

    /// An operation was encoded.
    pub(crate) fn took(&mut self, now: Duration, octets: usize) -> Lsn {
        self.polled = self.polled.max(now);
        self.last = self.next();
        self.held += 1;
        self.held_octets += octets as u64;
        self.last
    }

    pub(crate) fn begin_batch(&mut self) {
        if self.batch.is_empty() {
            let mark = Content {
                kind: Kind::Mark,
                key: None,
                bucket: 0,
                lsn: self.last,
                head: &[],
                value: &[],
            };
            mark.encode(&mut self.batch);
        }
    }

    pub(crate) fn supersede(&mut self, old: Slot) {
        if old.segment() != BATCH {
            self.superseded.push(old);
        }
    }

    /// Puts a record into the batch as it is, which is the latest of its key and is located at `slot` so far.
    pub(crate) fn copy_record(&mut self, record: &[u8], slot: Slot) {
        self.begin_batch();
        let offset = self.batch.len() as u64;
        self.batch.extend_from_slice(record);
        let copy = Slot::new(BATCH, offset, record.len());
        if let Begin::Record(found) = Record::decode(record)
            && let Some(key) = found.key
        {
            self.index.set(key, copy);
            self.supersede(slot);
            self.progress.compacted_octets += record.len() as u64;
        }
    }

    /// Puts what the process before may not have confirmed into this one's first batch.
    ///
    /// Of each key the last operation alone: if it is confirmed and this one's write is torn, an operation before it
    /// must not be what is left of the key.
    pub(crate) fn take_unconfirmed(&mut self, found: &Unconfirmed) {
        if found.octets.is_empty() {
            return;
        }
        let last = std::mem::replace(&mut self.last, self.durable);
        self.begin_batch();
        self.last = last;
        let (batch, index, superseded) = (&mut self.batch, &mut self.index, &mut self.superseded);
        let mut slots = found.slots.iter();
        scan_octets(&found.octets, true, |_, item| {
            let Item::Record(record, octets) = item else {
                return;
            };
            let (Some(slot), Some(key)) = (slots.next(), record.key) else {
                return;
            };
            match index.get(key) {
                None if record.kind == Kind::Removal => {}
                Some(live) if live == *slot => {
                    index.set(key, Slot::new(BATCH, batch.len() as u64, octets.len()));
                    superseded.push(*slot);
                }
                _ => return,
            }
            batch.extend_from_slice(octets);
        });
    }
}
