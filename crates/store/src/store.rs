//! The store: operations in, durable records out.
//!
//! An operation is encoded into the batch at once; the index leads there until the batch is confirmed. Which octets of a
//! segment are live is counted by what is confirmed alone, so that a segment can be removed at any time when it has no
//! live record. When something fails, the batch stays as it is and is written again.

use std::io;
use std::time::Duration;

use crate::compaction::{Moving, compacted_for};
use crate::form::{Begin, Content, Kind, Location, Record, TooLong};
use crate::index::{BATCH, Index, MOST_OFFSET, Slot};
use crate::key::Key;
use crate::log::{Log, Written};
use crate::open_error::OpenError;
use crate::progress::Progress;
use crate::reader::Reader;
use crate::recovered::Recovered;
use crate::recovery::{LastBatch, Outcome, recover};
use crate::reserve::{Reserve, is_full};
use crate::scan::{Item, scan_octets};
use crate::segments::{Segment, Segments};
use crate::settings::Settings;
use crate::store_disk::StoreDisk;

/// The number of an operation. It grows with each, also from process to process; those of operations that were never
/// durable may be given again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

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
    superseded: Vec<Slot>,
    /// Operations of the caller in the batch, and their octets.
    held: u64,
    held_octets: u64,
    /// The last operation, and the last one that is durable.
    last: Lsn,
    durable: Lsn,
    pub(crate) is_held: bool,
    pub(crate) moving: Option<Moving>,
    /// Octets that are to be compacted for those that were written.
    pub(crate) owed_octets: u64,
    pub(crate) unreadable: Vec<Key>,
    polled: Duration,
    retry_at: Option<Duration>,
    fault: Option<io::Error>,
    /// Why compaction does not proceed, and when it is tried again.
    stalled: Option<(Duration, io::Error)>,
    pub(crate) progress: Progress,
}

impl<D: StoreDisk> Store<D> {
    /// Opens the store in `disk`, where the process before may have left it in any state, and gives what is in it.
    ///
    /// What the last batch of that process has may never have been confirmed. It counts, and is written again by the
    /// first [`poll`](Self::poll).
    ///
    /// # Errors
    /// The disk's, and a file of another version. The store can be opened again.
    pub fn open(mut disk: D, settings: Settings, now: Duration) -> Result<(Store<D>, Recovered), OpenError> {
        let settings = settings.in_range();
        let Outcome {
            recovered,
            index,
            segments,
            log,
            confirmed,
            last_batch,
        } = recover(&mut disk)?;
        let reads = disk.reads().map_err(|error| OpenError::Disk {
            file: String::new(),
            error,
        })?;
        let reserve = Reserve::new(&mut disk, settings.reserve_octets, now, settings.retry);
        let mut store = Store {
            disk,
            reads,
            settings,
            index,
            segments,
            log,
            reserve,
            batch: Vec::new(),
            superseded: Vec::new(),
            held: 0,
            held_octets: 0,
            last: recovered.last,
            durable: confirmed,
            is_held: false,
            moving: None,
            owed_octets: 0,
            unreadable: Vec::new(),
            polled: now,
            retry_at: None,
            fault: None,
            stalled: None,
            progress: Progress::default(),
        };
        store.take_last_batch(&last_batch);
        Ok((store, recovered))
    }

    /// The value of a key is `value` from now on. `bucket` and `head` are given back by [`Recovered`] without the value
    /// being read. Returns the number of the operation, which is durable when [`durable`](Self::durable) reaches it.
    /// Only when there is room ([`has_room`](Self::has_room)).
    ///
    /// # Errors
    /// What is too long. Nothing is changed then.
    pub fn put(
        &mut self,
        now: Duration,
        key: &Key,
        bucket: u16,
        head: &[u8],
        value: &[u8],
    ) -> Result<Lsn, TooLong> {
        let content = Content {
            kind: Kind::Value,
            key: Some(key.as_ref()),
            bucket,
            lsn: self.next(),
            head,
            value,
        };
        content.check()?;
        self.begin_batch();
        let offset = self.batch.len();
        let octets = content.encode(&mut self.batch);
        let slot = Slot::new(BATCH, offset as u64, octets);
        if let Some(old) = self.index.set(key.as_ref(), slot) {
            self.supersede(old);
        }
        Ok(self.took(now, octets))
    }

    /// The key has no value from now on. Returns the number of the operation; where there is no value, that of the last
    /// operation of all. It is taken whether there is room or not.
    pub fn remove(&mut self, now: Duration, key: &Key) -> Lsn {
        let Some(old) = self.index.remove(key.as_ref()) else {
            return self.last;
        };
        let content = Content {
            kind: Kind::Removal,
            key: Some(key.as_ref()),
            bucket: 0,
            lsn: self.next(),
            head: &[],
            value: &[],
        };
        self.begin_batch();
        let octets = content.encode(&mut self.batch);
        self.supersede(old);
        self.took(now, octets)
    }

    /// Writes all that came and makes it durable by one sync; then compacts a slice. A failure is reported by
    /// [`fault`](Self::fault), and tried again after [`Settings::retry`].
    pub fn poll(&mut self, now: Duration) {
        self.polled = now;
        if self.retry_at.is_none_or(|at| at <= now) {
            self.write_batch(now);
        }
        let (batch_octets, retry) = (self.settings.batch_octets, self.settings.retry);
        self.reserve.restore(&mut self.disk, batch_octets, now, retry);
        // Also on a full disk: segments without a live record may make the room that is wanted.
        if self.stalled.as_ref().is_none_or(|(at, _)| *at <= now) {
            let compacted = self.compact();
            self.progress.failures += u64::from(compacted.is_err());
            self.stalled = compacted.err().map(|error| (now + retry, error));
        }
    }

    fn write_batch(&mut self, now: Duration) {
        let committed = if self.batch.is_empty() {
            Ok(())
        } else {
            self.commit()
        };
        self.progress.failures += u64::from(committed.is_err());
        self.retry_at = committed.is_err().then_some(now + self.settings.retry);
        self.fault = committed.err();
    }

    /// Makes everything durable, if the disk lets it; returns whether it has. The next process then knows that nothing
    /// was being written.
    pub fn close(&mut self, now: Duration) -> bool {
        self.polled = now;
        self.write_batch(now);
        let is_durable = self.fault.is_none() && self.batch.is_empty();
        if is_durable && self.log.active().is_some() {
            self.begin_batch();
            // The mark alone says it: without it the next process takes the last batch for an unfinished one.
            self.write_batch(now);
        }
        is_durable
    }

    /// The last operation up to which all are durable: they survive any end of the process and of the machine.
    pub fn durable(&self) -> Lsn {
        self.durable
    }

    /// The last operation of all.
    pub fn last(&self) -> Lsn {
        self.last
    }

    /// Whether another value may be put: not while too much waits for the disk, the disk is full, or compaction is
    /// behind.
    pub fn has_room(&self) -> bool {
        self.batch.len() < self.settings.batch_octets.max(1)
            && self.reserve.missing().is_none()
            && !self.is_behind()
    }

    /// What failed last, until it succeeds; that the disk is full, until the reserve is whole again.
    pub fn fault(&self) -> Option<&io::Error> {
        let stalled = self.stalled.as_ref().map(|(_, error)| error);
        self.fault.as_ref().or(stalled).or(self.reserve.missing())
    }

    /// When [`poll`](Self::poll) has something to do although nothing has come. A time that has passed: at once.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let batch = (!self.batch.is_empty()).then_some(self.retry_at.unwrap_or(self.polled));
        let stalled = self.stalled.as_ref().map(|(at, _)| *at);
        let compaction = self.has_compaction().then_some(stalled.unwrap_or(self.polled));
        [batch, compaction, self.reserve.retry_at()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Puts compaction on hold, or ends that: locations stay good as long as it is. Garbage grows meanwhile.
    pub fn hold_compaction(&mut self, is_held: bool) {
        self.is_held = is_held;
    }

    /// A reader of values for any thread.
    ///
    /// # Errors
    /// The system's.
    pub fn reader(&self) -> io::Result<Reader<D::Reads>> {
        Ok(Reader::new(self.disk.reads()?))
    }

    /// Where the value of a key is; none where there is no value, or its last operation is not durable yet.
    pub fn location(&self, key: &Key) -> Option<Location> {
        let slot = self.index.get(key.as_ref())?;
        let segment = self.segments.get(slot.segment())?;
        Some(Location {
            segment: segment.number,
            offset: slot.offset(),
            octets: slot.octets(),
        })
    }

    /// Keys whose values were durable and could not be read when they were to be compacted, since this was last called.
    /// They are no longer in the store: they are to be put again.
    pub fn take_unreadable(&mut self) -> Vec<Key> {
        std::mem::take(&mut self.unreadable)
    }

    /// What it has and has done.
    pub fn progress(&self) -> Progress {
        let (octets, live) = (self.segments.octets(), self.segments.live_octets());
        Progress {
            records: self.index.records(),
            octets,
            live_octets: live,
            garbage_octets: octets - live,
            segments: self.segments.len() as u64,
            index_octets: self.index.octets(),
            held: self.held,
            held_octets: self.batch.len() as u64,
            reserve_octets: self.reserve.left(),
            ..self.progress
        }
    }

    /// The disk.
    pub fn disk(&mut self) -> &mut D {
        &mut self.disk
    }

    fn commit(&mut self) -> io::Result<()> {
        let segment_octets = self.segment_octets();
        if self.log.begins_segment(segment_octets) && !self.segments.has_room() {
            return Err(io::Error::other("there are too many segments"));
        }
        let written = loop {
            self.progress.syncs += 1;
            match self.log.write(&mut self.disk, segment_octets, &self.batch) {
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
    fn segment_octets(&self) -> u64 {
        let most = MOST_OFFSET.saturating_sub(self.batch.len() as u64);
        self.settings.segment_octets.min(most)
    }

    /// The batch is durable, and is located there.
    fn confirm(&mut self, written: Written) {
        let octets = self.batch.len() as u64;
        let id = if written.is_new {
            self.segments.push(Segment {
                number: written.segment,
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
        self.batch.clear();
        self.batch.shrink_to(2 * self.settings.batch_octets);
    }

    fn next(&self) -> Lsn {
        Lsn(self.last.0 + 1)
    }

    /// An operation was encoded.
    fn took(&mut self, now: Duration, octets: usize) -> Lsn {
        self.polled = self.polled.max(now);
        self.last = self.next();
        self.held += 1;
        self.held_octets += octets as u64;
        self.last
    }

    fn begin_batch(&mut self) {
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

    fn supersede(&mut self, old: Slot) {
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

    /// Puts the last batch of the process before into this one's first: it may not have been confirmed.
    fn take_last_batch(&mut self, found: &LastBatch) {
        if found.octets.is_empty() {
            return;
        }
        let confirmed = std::mem::replace(&mut self.last, self.durable);
        self.begin_batch();
        self.last = confirmed;
        let base = self.batch.len();
        self.batch.extend_from_slice(&found.octets);
        let (index, superseded, mut slots) = (&mut self.index, &mut self.superseded, found.slots.iter());
        scan_octets(&found.octets, true, |at, item| {
            if let Item::Record(record, octets) = item
                && let Some(slot) = slots.next()
                && let Some(key) = record.key
                && index.get(key) == Some(*slot)
            {
                index.set(key, Slot::new(BATCH, (base + at) as u64, octets.len()));
                superseded.push(*slot);
            }
        });
    }
}
