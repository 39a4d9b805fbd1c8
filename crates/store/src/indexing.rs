//! Indexes of segments are made: a segment that takes nothing more is read once, a slice in each poll.
//!
//! An index is not synced. What is left of one that a power cut met is found to be damaged, and the segment is read.
//! Where there is damage in a segment, or a disk that cannot be read or written, there is no index: the next process
//! finds by itself what is wrong.

use crate::form::{LONGEST_RECORD, index_name};
use crate::log::{append, remove};
use crate::segment_index::IndexWriter;
use crate::segments::{IndexFile, Segment};
use crate::state::{Indexing, Store};
use crate::store_disk::StoreDisk;

impl<D: StoreDisk> Store<D> {
    /// Whether a poll has something to read for an index.
    pub(crate) fn has_indexing(&self) -> bool {
        self.may_index() && (self.indexing.is_some() || self.segments.to_index().is_some())
    }

    /// Not on a full disk: others need the room.
    fn may_index(&self) -> bool {
        self.is_settled && self.reserve.missing().is_none()
    }

    /// One slice.
    pub(crate) fn index_slice(&mut self) {
        if !self.may_index() {
            return;
        }
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
        match self.read_records(&mut indexing) {
            Some(()) if indexing.left() > 0 => self.indexing = Some(indexing),
            Some(()) => self.write_index(indexing),
            None => self.segments.set_index(indexing.id, IndexFile::Impossible),
        }
    }

    /// Reads a slice; none where that is not possible.
    fn read_records(&mut self, indexing: &mut Indexing) -> Option<()> {
        let left = indexing.left();
        let mut wanted = (self.settings.slice_octets as u64).max(1).min(left);
        loop {
            let octets = self.read_slice(indexing.number(), indexing.offset, wanted).ok()?;
            if (octets.len() as u64) < wanted {
                return None;
            }
            let used = indexing.add(&octets, wanted == left)? as u64;
            indexing.offset += used;
            if used > 0 || wanted == left {
                return Some(());
            }
            // A record is longer than the slice.
            wanted = (wanted + LONGEST_RECORD as u64).min(left);
        }
    }

    fn write_index(&mut self, indexing: Indexing) {
        let Indexing {
            id, segment, index, ..
        } = indexing;
        let name = index_name(segment.number);
        let octets = index.finish(segment.number, segment.octets);
        let disk = &mut self.disk;
        let written = disk.create(&name).and_then(|()| append(disk, &name, &octets));
        let index = match written {
            Ok(()) => IndexFile::There(octets.len() as u64),
            Err(_) => {
                let _ = remove(disk, &name);
                IndexFile::Impossible
            }
        };
        self.segments.set_index(id, index);
    }
}
