//! The segment that is being written.
//!
//! A batch is written behind what is confirmed, and confirmed by one sync. Zeros are written ahead: a batch that takes
//! their place changes neither the size of the file nor where it is on the disk, and a file system has that much less
//! to make durable. So zeros follow on the last batch of a segment until it is full.
//!
//! When a write fails the segment is cut off behind what was confirmed, and the batch is written there again. When a
//! sync fails the segment takes nothing more: a disk may report the next sync of the same octets as done without having
//! them. The batch goes into a new segment then, whose header says how much of each one before counts.

use std::io;

use crate::form::{SegmentHeader, file_name};
use crate::segments::Segments;
use crate::store_disk::StoreDisk;

/// The segment that is being written.
#[derive(Debug)]
struct Active {
    number: u64,
    name: String,
    /// Octets that are confirmed; 0: not even its name is.
    confirmed: u64,
    /// Octets of the file, the zeros ahead with them.
    length: u64,
    /// Whether there may be octets behind them.
    is_doubtful: bool,
}

impl Active {
    /// Writes zeros behind `end`, up to which the file was written, if there are none left and the segment is
    /// not full there. Where the disk has no room for them there are none.
    fn write_ahead(&mut self, disk: &mut impl StoreDisk, end: u64, segment_octets: u64) -> io::Result<()> {
        if end <= self.length {
            return Ok(());
        }
        self.length = end;
        let ahead = segment_octets.saturating_sub(end).min(ZEROS.len() as u64);
        let zeros = ZEROS.get(..ahead as usize).unwrap_or_default();
        match write_all(disk, &self.name, end, zeros) {
            Ok(_) => self.length += ahead,
            Err(_) => disk.truncate(&self.name, end)?,
        }
        Ok(())
    }

    /// Cuts off the zeros ahead. Where that cannot be done they stay: nothing reads them.
    fn cut_zeros(&self, disk: &mut impl StoreDisk) {
        if self.length > self.confirmed {
            let _ = disk.truncate(&self.name, self.confirmed);
        }
    }
}

/// Zeros that are written ahead: for some batches, and no more than a disk takes in passing.
static ZEROS: [u8; 256 << 10] = [0; 256 << 10];

/// The writing end of the log.
#[derive(Debug)]
pub(crate) struct Log {
    next_number: u64,
    active: Option<Active>,
    /// Files without anything that is confirmed. They go before another segment does.
    leftovers: Vec<String>,
}

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The number of the segment.
    pub(crate) segment: u64,
    /// Where in it the batch begins.
    pub(crate) offset: u64,
    /// Whether the segment is a new one.
    pub(crate) is_new: bool,
}

impl Log {
    pub(crate) fn new(next_number: u64, leftovers: Vec<String>) -> Log {
        Log {
            next_number,
            active: None,
            leftovers,
        }
    }

    /// The number of the segment that is being written.
    pub(crate) fn active(&self) -> Option<u64> {
        Some(self.active.as_ref()?.number)
    }

    /// Whether the next batch begins a segment.
    pub(crate) fn begins_segment(&self, segment_octets: u64) -> bool {
        let is_full = |active: &Active| active.confirmed >= segment_octets || active.confirmed == 0;
        self.active.as_ref().is_none_or(is_full)
    }

    pub(crate) fn has_leftovers(&self) -> bool {
        !self.leftovers.is_empty()
    }

    /// Removes what failed attempts have left.
    pub(crate) fn clear_leftovers(&mut self, disk: &mut impl StoreDisk) -> io::Result<()> {
        if self.leftovers.is_empty() {
            return Ok(());
        }
        for name in &self.leftovers {
            remove(disk, name)?;
        }
        disk.sync_directory()?;
        self.leftovers.clear();
        Ok(())
    }

    /// Writes a batch and makes it durable. `segments` are all that have anything confirmed.
    pub(crate) fn write(
        &mut self,
        disk: &mut impl StoreDisk,
        segment_octets: u64,
        segments: &Segments,
        batch: &[u8],
    ) -> io::Result<Written> {
        self.clear_doubt(disk);
        self.seal_full(disk, segment_octets);
        if self.active.is_none() {
            self.begin(disk)?;
        }
        let Some(active) = &mut self.active else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let is_new = active.confirmed == 0;
        let header = SegmentHeader {
            number: active.number,
            before: if is_new { segments.list() } else { Vec::new() },
        };
        active.is_doubtful = true;
        let mut offset = active.confirmed;
        if is_new {
            offset = write_all(disk, &active.name, 0, &header.encode())?;
        }
        let end = write_all(disk, &active.name, offset, batch)?;
        active.write_ahead(disk, end, segment_octets)?;
        let synced = disk.sync(&active.name);
        let synced = synced.and_then(|()| if is_new { disk.sync_directory() } else { Ok(()) });
        if let Err(error) = synced {
            self.abandon(disk);
            return Err(error);
        }
        active.is_doubtful = false;
        active.confirmed = end;
        let written = Written {
            segment: active.number,
            offset,
            is_new,
        };
        self.seal_full(disk, segment_octets);
        Ok(written)
    }

    fn begin(&mut self, disk: &mut impl StoreDisk) -> io::Result<()> {
        let number = self.next_number;
        let name = file_name(number);
        self.next_number += 1;
        let created = disk.create(&name);
        if created.is_err() {
            // It may be there all the same.
            self.leftovers.push(name);
            return created;
        }
        self.active = Some(Active {
            number,
            name,
            confirmed: 0,
            length: 0,
            is_doubtful: false,
        });
        Ok(())
    }

    /// Cuts off what a failed write may have left behind the confirmed octets; gives the segment up if it cannot be.
    fn clear_doubt(&mut self, disk: &mut impl StoreDisk) {
        let Some(active) = self.active.as_mut().filter(|active| active.is_doubtful) else {
            return;
        };
        match disk.truncate(&active.name, active.confirmed) {
            Ok(()) => (active.is_doubtful, active.length) = (false, active.confirmed),
            Err(_) => self.abandon(disk),
        }
    }

    /// Nothing more is written to the segment.
    fn abandon(&mut self, disk: &mut impl StoreDisk) {
        if let Some(active) = self.active.take_if(|active| active.confirmed == 0)
            && remove(disk, &active.name).is_err()
        {
            self.leftovers.push(active.name);
        }
        self.active = None;
    }

    /// A segment that is full takes nothing more, so that it can be compacted.
    fn seal_full(&mut self, disk: &mut impl StoreDisk, segment_octets: u64) {
        if let Some(full) = self.active.take_if(|active| active.confirmed >= segment_octets) {
            full.cut_zeros(disk);
        }
    }
}

/// Writes octets at a place of a file; returns where they end.
fn write_all(disk: &mut impl StoreDisk, name: &str, mut offset: u64, octets: &[u8]) -> io::Result<u64> {
    in_parts(octets, |rest| {
        let taken = disk.write_at(name, offset, rest)?;
        offset += taken as u64;
        Ok(taken)
    })?;
    Ok(offset)
}

pub(crate) fn append(disk: &mut impl StoreDisk, name: &str, octets: &[u8]) -> io::Result<()> {
    in_parts(octets, |rest| disk.append(name, rest))
}

/// Has octets written by a disk that takes as many at a time as it can.
fn in_parts(mut octets: &[u8], mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    while !octets.is_empty() {
        match write(octets) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => octets = octets.get(taken..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file, if it is there.
pub(crate) fn remove(disk: &mut impl StoreDisk, name: &str) -> io::Result<()> {
    match disk.remove(name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
