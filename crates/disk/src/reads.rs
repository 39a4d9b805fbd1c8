//! Files of a directory, read at any place by another thread than the one that writes them.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::handle::DirectoryHandle;

/// The most files that are kept open.
const MOST_OPEN: usize = 64;

/// Files of a directory that are read at any place. A file that was read stays open, so it keeps its octets of the disk
/// for a while when it is removed: as long as this lives, or until other files were read.
#[derive(Debug)]
pub struct DirectoryReads {
    handle: DirectoryHandle,
    open: BTreeMap<String, File>,
}

impl DirectoryReads {
    pub(crate) fn new(handle: DirectoryHandle) -> DirectoryReads {
        DirectoryReads {
            handle,
            open: BTreeMap::new(),
        }
    }

    /// Fills `into` from this place of the file on; returns how many octets the file has there.
    ///
    /// # Errors
    /// The system's, with the name.
    pub fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        if !self.open.contains_key(name) {
            let file = self.handle.read(name)?;
            if self.open.len() >= MOST_OPEN {
                self.open.pop_first();
            }
            self.open.insert(name.to_owned(), file);
        }
        let file = self.open.get(name).ok_or(io::ErrorKind::NotFound)?;
        let mut done = 0;
        while let Some(rest) = into.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, offset + done as u64) {
                Ok(0) => break,
                Ok(octets) => done += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{name}: {error}"))),
            }
        }
        Ok(done)
    }

    /// Closes a file, which is to be removed.
    pub fn forget(&mut self, name: &str) {
        self.open.remove(name);
    }
}
