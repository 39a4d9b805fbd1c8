//! Indexes of segments are made: a segment that takes nothing more is read once, a slice at a time.
//!
//! An index is not synced. What is left of one that a power cut met is found to be damaged, and the segment is read.
//! Where there is damage in a segment there is no index: the next process finds by itself what is wrong.

use std::time::Duration;

use crate::form::{LONGEST_RECORD, index_name};
use crate::log::{append, remove};
use crate::segment_index::IndexWriter;
use crate::segments::{IndexFile, Segment};
use crate::state::{Indexing, Store};
use crate::store_disk::StoreDisk;

/// Why there is no index.
enum Fault {
    Damaged,
    Disk,
}

impl<D: StoreDisk> Store<D> {
    /// Whether there is something to read for an index.
    pub(crate) fn has_indexing(&self) -> bool {
        self.may_index() && (self.indexing.is_some() || self.segments.to_index().is_some())
    }

    /// Not on a full disk: others need the room.
    fn may_index(&self) -> bool {
        self.is_settled && self.reserve.missing().is_none()
    }

    /// Reads a slice of a full segment for its index, if one has none: to be called after [`poll`](Self::poll), when
    /// what has become durable was passed on. What the disk refuses is tried again after
    /// [`Settings::retry`](crate::Settings::retry).
    pub fn index_slice(&mut self, now: Duration) {
        if !self.may_index() || self.index_retry_at.is_some_and(|at| now < at) {
            return;
        }
        self.index_retry_at = None;
        let begin = |(id, segment): (u16, Segment)| Indexing {
            id,
            segment,
            offset: segment.header,
            index: IndexWriter::new(),
        };
        let Some(mut indexing) = self
            .indexing
            .take()
            .or_else(|| self.segments.to_index().map(begin))
        else {
            return;
        };
        let id = indexing.id;
        let made = self.read_records(&mut indexing).and_then(|()| {
            if indexing.left() == 0 {
                return self.write_index(indexing);
            }
            self.indexing = Some(indexing);
            Ok(())
        });
        match made {
            Ok(()) => {}
            Err(Fault::Damaged) => self.segments.set_index(id, IndexFile::Impossible),
            Err(Fault::Disk) => self.index_retry_at = Some(now + self.settings.retry),
        }
    }

    /// Reads a slice: no less than is written at a time, so that reading keeps up.
    fn read_records(&mut self, indexing: &mut Indexing) -> Result<(), Fault> {
        let left = indexing.left();
        let slice = self.settings.slice_octets.max(self.last_batch_octets).max(1);
        let mut wanted = (slice as u64).min(left);
        loop {
            let read = self.read_slice(indexing.number(), indexing.offset, wanted);
            let octets = read.map_err(|_| Fault::Disk)?;
            if (octets.len() as u64) < wanted {
                return Err(Fault::Damaged);
            }
            let used = indexing.add(&octets, wanted == left).ok_or(Fault::Damaged)? as u64;
            self.slice = octets;
            indexing.offset += used;
            if used > 0 || wanted == left {
                return Ok(());
            }
            // A record is longer than the slice.
            wanted = (wanted + LONGEST_RECORD as u64).min(left);
        }
    }

    /// Writes the index, where that leaves room for what is to come.
    fn write_index(&mut self, indexing: Indexing) -> Result<(), Fault> {
        let Indexing {
            id, segment, index, ..
        } = indexing;
        let name = index_name(segment.number);
        let octets = index.finish(segment.number, segment.octets);
        let disk = &mut self.disk;
        let wanted = (octets.len() + 2 * self.settings.batch_octets) as u64;
        if disk.free_octets().map_err(|_| Fault::Disk)? < wanted {
            return Err(Fault::Disk);
        }
        if disk
            .create(&name)
            .and_then(|()| append(disk, &name, &octets))
            .is_err()
        {
            let _ = remove(disk, &name);
            return Err(Fault::Disk);
        }
        self.segments.set_index(id, IndexFile::There(octets.len() as u64));
        Ok(())
    }
}
