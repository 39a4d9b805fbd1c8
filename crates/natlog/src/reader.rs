//! Who asks the log.

use std::io;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::Path;

use disk::DirectoryHandle;
use flow::VrfId;

use crate::event::Answer;
use crate::fault::LogError;
use crate::file::ReadFile;
use crate::names::{name_of, start_of};
use crate::tables;

/// Octets of a file that are kept in memory.
const CACHE: usize = 16 << 20;

/// Answers from the log in a directory: of any thread and any process, beside the one that writes it. What is durable
/// when a question is asked is found. A file that a crash has left open is refused until [`NatLog`](crate::NatLog) has
/// opened the log again.
pub struct NatLogReader {
    directory: DirectoryHandle,
    /// The file that was asked last.
    file: Option<ReadFile>,
}

impl NatLogReader {
    /// The log in the directory at `path`.
    ///
    /// # Errors
    /// Those of [`DirectoryHandle::to_read`].
    pub fn open(path: &Path) -> Result<Self, LogError> {
        Ok(Self {
            directory: DirectoryHandle::to_read(path)?,
            file: None,
        })
    }

    /// The times of which the log knows, in milliseconds since 1970: from the start of its oldest file, or from when
    /// the log began in it, to the latest that is durable. `None`: there is no file.
    ///
    /// # Errors
    /// Of the first and of the last file; see [`LogError`].
    pub fn known(&self) -> Result<Option<RangeInclusive<u64>>, LogError> {
        let names = self.directory.names()?;
        let starts = names.iter().filter_map(|name| start_of(name));
        let (Some(oldest), Some(newest)) = (starts.clone().min(), starts.max()) else {
            return Ok(None);
        };
        let first = self.opened(&name_of(oldest))?.read(tables::first)?;
        let last = self.opened(&name_of(newest))?.read(tables::last)?;
        Ok(Some(first.unwrap_or(oldest)..=last))
    }

    /// Who held a port of a public address at a time, in milliseconds since 1970. `None`: the log has no file of that
    /// time.
    ///
    /// # Errors
    /// Of the file that has the answer, or of that which has the end of the gap; see [`LogError`].
    pub fn at(
        &mut self,
        time_ms: u64,
        vrf: VrfId,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<Option<Answer>, LogError> {
        let Some(file) = self.file_of(time_ms)? else {
            return Ok(None);
        };
        let answer = file.read(|transaction| tables::at(transaction, time_ms, vrf, address, port));
        if answer.is_err() {
            self.file = None;
        }
        let mut answer = answer?;
        answer.is_held_around_gap = self.is_held_around_gap(&answer, vrf, address, port)?;
        Ok(Some(answer))
    }

    /// Whether the session that was found held the port before the gap and still held it behind it. A file has no end
    /// of what ended in a later one, which is asked for that.
    fn is_held_around_gap(
        &mut self,
        answer: &Answer,
        vrf: VrfId,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<bool, LogError> {
        let (Some(found), Some(gap)) = (&answer.found, answer.gap) else {
            return Ok(false);
        };
        let Some(to) = gap.to_ms.filter(|_| found.assignment.since_ms < gap.from_ms) else {
            return Ok(false);
        };
        if let Some(until) = found.until_ms {
            return Ok(to <= until);
        }
        let Some(file) = self.file_of(to)? else {
            return Ok(false);
        };
        let behind = file.read(|transaction| tables::found_at(transaction, to, vrf, address, port));
        if behind.is_err() {
            self.file = None;
        }
        Ok(behind?.is_some_and(|behind| behind.assignment == found.assignment))
    }

    fn opened(&self, name: &str) -> Result<ReadFile, LogError> {
        ReadFile::open(name, self.directory.read(name)?, CACHE)
    }

    /// The last file that began at the time or before.
    fn file_of(&mut self, time: u64) -> Result<Option<&ReadFile>, LogError> {
        let mut is_again = false;
        loop {
            let names = self.directory.names()?;
            let starts = names.iter().filter_map(|name| start_of(name));
            let Some(start) = starts.filter(|start| *start <= time).max() else {
                return Ok(None);
            };
            let name = name_of(start);
            if self.file.as_ref().is_none_or(|file| file.name != name) {
                let file = match self.directory.read(&name) {
                    // It was removed for its age just now.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && !is_again => {
                        is_again = true;
                        continue;
                    }
                    file => file?,
                };
                self.file = Some(ReadFile::open(&name, file, CACHE)?);
            }
            return Ok(self.file.as_ref());
        }
    }
}
