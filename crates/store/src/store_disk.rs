//! What a store asks of the disk besides what [`disk::Disk`] is.

use std::io;

use disk::{Directory, DirectoryReads, Disk};

/// A disk with files that are read at any place, and with room that can be kept.
pub trait StoreDisk: Disk {
    /// What reads its files.
    type Reads: ReadAt + Send + 'static;

    /// A reader of the files, which may be used in another thread.
    ///
    /// # Errors
    /// The system's; so for all of these.
    fn reads(&self) -> io::Result<Self::Reads>;
    /// Octets that can still be written.
    fn free_octets(&mut self) -> io::Result<u64>;
    /// Writes octets at a place of a file, which is no further than its end; returns how many.
    fn write_at(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<usize>;
    /// Makes a file that has this many octets of the disk, or gives them to one that has fewer.
    fn reserve(&mut self, name: &str, octets: u64) -> io::Result<()>;
}

/// Files that are read at any place.
pub trait ReadAt {
    /// Fills `into` from this place of the file on; returns how many octets the file has there.
    ///
    /// # Errors
    /// The system's.
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize>;
    /// The file is not read any more: it is to be removed, and is not to be kept open for it.
    fn forget(&mut self, name: &str);
}

impl StoreDisk for Directory {
    type Reads = DirectoryReads;

    fn reads(&self) -> io::Result<DirectoryReads> {
        Directory::reads(self)
    }

    fn free_octets(&mut self) -> io::Result<u64> {
        Directory::free_octets(self)
    }

    fn write_at(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<usize> {
        Directory::write_at(self, name, offset, octets)
    }

    fn reserve(&mut self, name: &str, octets: u64) -> io::Result<()> {
        Directory::reserve(self, name, octets)
    }
}

impl ReadAt for DirectoryReads {
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        DirectoryReads::read_at(self, name, offset, into)
    }

    fn forget(&mut self, name: &str) {
        DirectoryReads::forget(self, name);
    }
}
