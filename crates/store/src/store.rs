//! The store: operations in, durable records out.

use std::io;
use std::time::Duration;

use crate::form::{Content, Kind, Location, TooLong};
use crate::index::{BATCH, Slot};
use crate::key::Key;
use crate::lsn::Lsn;
use crate::open_error::OpenError;
use crate::progress::Progress;
use crate::reader::Reader;
use crate::recovered::Recovered;
use crate::recovery::{Outcome, recover};
use crate::reserve::Reserve;
use crate::settings::Settings;
use crate::state::Store;
use crate::store_disk::StoreDisk;

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
            unconfirmed,
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
            is_settled: true,
            moving: None,
            indexing: None,
            index_retry_at: None,
            last_batch_octets: 0,
            slice: Vec::new(),
            owed_octets: 0,
            unreadable: Vec::new(),
            polled: now,
            retry_at: None,
            fault: None,
            stalled: None,
            progress: Progress::default(),
        };
        store.take_unconfirmed(&unconfirmed);
        store.is_settled = store.batch.is_empty();
        if store.is_settled {
            store.durable = store.last;
        }
        Ok((store, recovered))
    }

    /// The value of a key is `value` from now on. `bucket` and `head` are given back by [`Recovered`] without the value
    /// being read. Returns the number of the operation, which is durable when [`durable`](Self::durable) reaches it.
    /// Only when there is room ([`has_room`](Self::has_room)), or else what cannot be refused
    /// ([`takes_more`](Self::takes_more)).
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

    /// Makes everything durable, if the disk lets it; returns whether it has. The next process then knows that nothing
    /// was being written.
    pub fn close(&mut self, now: Duration) -> bool {
        self.polled = now;
        self.write_batch(now);
        let is_durable = self.fault.is_none() && self.batch.is_empty();
        if is_durable && self.progress.written_octets > 0 {
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
        self.takes_more() && self.reserve.missing().is_none()
    }

    /// Whether a value may be put that cannot be refused any more: also on a full disk, by what is left of the reserve.
    pub fn takes_more(&self) -> bool {
        self.batch.len() < self.settings.batch_octets.max(1) && !self.is_behind()
    }

    /// What failed last, until it succeeds; that the disk is full, until the reserve is whole again.
    pub fn fault(&self) -> Option<&io::Error> {
        let stalled = self.stalled.as_ref().map(|(_, error)| error);
        self.fault.as_ref().or(stalled).or(self.reserve.missing())
    }

    /// When [`poll`](Self::poll) or [`index_slice`](Self::index_slice) has something to do although nothing has come. A
    /// time that has passed: at once.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let batch = (!self.batch.is_empty()).then_some(self.retry_at.unwrap_or(self.polled));
        let stalled = self.stalled.as_ref().map(|(at, _)| *at);
        let compaction = self.has_compaction().then_some(stalled.unwrap_or(self.polled));
        let indexing = self
            .has_indexing()
            .then_some(self.index_retry_at.unwrap_or(self.polled));
        [batch, compaction, indexing, self.reserve.retry_at()]
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
            segment_index_octets: self.segments.index_octets(),
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
}
