//! Compaction: the live records of the oldest segment are written again, and it is removed when they are durable.
//!
//! It goes from the oldest segment on, always: then no segment before a removal has a record that the removal is about,
//! so removals go with their segment. A segment goes when nothing of the durable state is in it any more, however that
//! came. The next one goes only when the directory without it is durable: else a removal could be gone and what it
//! removed come back.
//!
//! Compaction keeps up with the writer: of the garbage that there may be, a quarter is left when it begins, and while a
//! quarter is written it reads as many octets as are live. Even when all of these come first it meets the garbage then.

use std::io;

use crate::form::{ALIGN, Kind, LONGEST_RECORD, file_name, index_name};
use crate::index::{BATCH, Slot};
use crate::log::remove;
use crate::scan::{Item, scan_octets};
use crate::segments::Segment;
use crate::state::{Moving, Store};
use crate::store_disk::{ReadAt, StoreDisk};

/// Where a disk begins anew behind octets that it cannot read.
const PAGE: u64 = 4096;
/// How often octets are tried that cannot be read: a path to a disk may be gone for a while.
const ATTEMPTS: u32 = 60;
/// Segments that there may be besides those that are full.
const SMALL_SEGMENTS: u64 = 64;
/// Segments that are removed in one poll.
const REMOVALS: usize = 4;

impl<D: StoreDisk> Store<D> {
    fn may_compact(&self) -> bool {
        self.is_settled && !self.is_held
    }

    /// Octets that there may be: a part of the garbage that is allowed, and some segments besides.
    fn allowed_octets(&self, quarters: u64, segments: u64) -> u64 {
        let live = self.segments.live_octets();
        let garbage = live.saturating_mul(u64::from(self.settings.garbage_percent)) / 400 * quarters;
        live + garbage + segments * self.settings.segment_octets
    }

    /// Whether there is more garbage than compaction leaves.
    fn wants_compaction(&self) -> bool {
        let octets = self.segments.octets();
        let garbage = octets - self.segments.live_octets();
        let is_small = SMALL_SEGMENTS + 2 * octets / self.settings.segment_octets;
        octets > self.allowed_octets(3, 1)
            || self.segments.len() as u64 > is_small
            || (self.reserve.missing().is_some() && garbage > self.settings.segment_octets)
    }

    /// Whether there is more garbage than there may be.
    pub(crate) fn is_behind(&self) -> bool {
        self.may_compact() && self.segments.octets() > self.allowed_octets(4, 3)
    }

    /// Whether a poll has something to compact.
    pub(crate) fn has_compaction(&self) -> bool {
        self.may_compact()
            && (self.log.has_leftovers()
                || self.removable().is_some()
                || match &self.moving {
                    Some(moving) => !moving.is_done(),
                    None => self.wants_compaction() && self.next_to_move().is_some(),
                })
    }

    /// The oldest segment, if nothing of the durable state is in it. The newest one stays: it says how far the numbers
    /// of operations are.
    fn removable(&self) -> Option<Segment> {
        let (_, segment) = self.segments.oldest()?;
        (segment.live_records == 0 && self.segments.len() > 1).then_some(segment)
    }

    /// The oldest segment, if nothing is written to it any more.
    fn next_to_move(&self) -> Option<(u16, Segment)> {
        let oldest = self.segments.oldest()?;
        (Some(oldest.1.number) != self.log.active()).then_some(oldest)
    }

    /// One slice. Called when the batch is confirmed.
    pub(crate) fn compact(&mut self) -> io::Result<()> {
        if !self.may_compact() {
            return Ok(());
        }
        self.log.clear_leftovers(&mut self.disk)?;
        if self.batch.is_empty() && self.moving.is_some_and(|moving| moving.is_done()) {
            self.drop_unreadable();
        }
        for _ in 0..REMOVALS {
            let Some(segment) = self.removable() else { break };
            self.remove_segment(segment)?;
        }
        if self.moving.is_none()
            && self.wants_compaction()
            && let Some((id, segment)) = self.next_to_move()
        {
            self.moving = Some(Moving {
                id,
                segment,
                // A header is no record, and is passed over as what is damaged.
                offset: 0,
                attempts: 0,
                careful_until: 0,
            });
        }
        if self.batch.is_empty()
            && let Some(moving) = self.moving.filter(|moving| !moving.is_done())
        {
            return self.move_slice(moving);
        }
        self.owed_octets = 0;
        Ok(())
    }

    fn remove_segment(&mut self, segment: Segment) -> io::Result<()> {
        let name = file_name(segment.number);
        self.reads.forget(&name);
        remove(&mut self.disk, &name)?;
        // Where it stays, the next start removes it.
        let _ = remove(&mut self.disk, &index_name(segment.number));
        self.disk.sync_directory()?;
        self.segments.remove_oldest();
        self.progress.removed_segments += 1;
        self.moving
            .take_if(|moving| moving.segment.number == segment.number);
        self.indexing
            .take_if(|indexing| indexing.number() == segment.number);
        Ok(())
    }

    fn move_slice(&mut self, mut moving: Moving) -> io::Result<()> {
        let left = moving.segment.octets - moving.offset;
        let slice = self.settings.slice_octets as u64;
        let most = slice.max(self.settings.batch_octets as u64 / 2);
        let wanted = if moving.offset < moving.careful_until {
            PAGE - moving.offset % PAGE
        } else {
            self.owed_octets.clamp(slice, most)
        };
        let mut wanted = wanted.min(left);
        loop {
            let octets = match self.read_slice(moving.segment.number, moving.offset, wanted) {
                Ok(octets) => octets,
                Err(error) => return self.pass_over(moving, wanted, error),
            };
            let is_end = wanted == left || (octets.len() as u64) < wanted;
            let used = self.move_records(&moving, &octets, is_end) as u64;
            let read = octets.len() as u64;
            self.slice = octets;
            if used == 0 && !is_end {
                // A record is longer than the slice.
                wanted = (wanted + LONGEST_RECORD as u64).min(left);
                continue;
            }
            moving.offset = if is_end {
                moving.offset + wanted
            } else {
                moving.offset + used
            };
            moving.attempts = 0;
            if read < wanted {
                moving.offset = moving.segment.octets;
            }
            self.owed_octets = self.owed_octets.saturating_sub(used);
            self.moving = Some(moving);
            return Ok(());
        }
    }

    /// Octets cannot be read. They are tried again, page by page; what cannot be read then is given up.
    fn pass_over(&mut self, mut moving: Moving, wanted: u64, error: io::Error) -> io::Result<()> {
        moving.attempts += 1;
        moving.careful_until = moving.careful_until.max(moving.offset + wanted);
        if error.kind() == io::ErrorKind::NotFound {
            moving.offset = moving.segment.octets;
        } else if moving.attempts > ATTEMPTS {
            moving.attempts = 0;
            moving.offset = (moving.offset / PAGE + 1) * PAGE;
        }
        self.moving = Some(moving);
        Err(error)
    }

    /// Puts the live records of these octets into the batch, as they are.
    fn move_records(&mut self, moving: &Moving, octets: &[u8], is_end: bool) -> usize {
        let mut live = Vec::new();
        let used = scan_octets(octets, is_end, |at, item| {
            if let Item::Record(record, octets) = item
                && record.kind == Kind::Value
                && let Some(key) = record.key
            {
                let slot = Slot::new(moving.id, moving.offset + at as u64, octets.len());
                if self.index.get(key) == Some(slot) {
                    live.push((at, octets.len(), slot));
                }
            }
        });
        for (at, len, slot) in live {
            let record = octets.get(at..at + len).unwrap_or_default();
            self.copy_record(record, slot);
        }
        used
    }

    /// A segment was compacted and has live records all the same: they are damaged. Their keys are lost.
    fn drop_unreadable(&mut self) {
        let Some(moving) = self.moving.take() else { return };
        if self
            .segments
            .get(moving.id)
            .is_none_or(|left| left.live_records == 0)
        {
            return;
        }
        let lost: Vec<_> = self
            .index
            .iter()
            .filter(|(_, slot)| slot.segment() == moving.id)
            .collect();
        for (key, slot) in lost {
            self.index.remove(key.as_ref());
            self.segments.drop_live(slot);
            self.progress.unreadable += 1;
            self.unreadable.push(key);
        }
    }
}

const _: () = assert!(PAGE.is_multiple_of(ALIGN as u64) && BATCH == u16::MAX);
