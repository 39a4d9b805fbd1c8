//! What a writer of files asks of the disk underneath it.

use std::io::{self, Read};

/// What a writer does to its directory. Files go by their names in it.
///
/// What [`sync`](Disk::sync) has confirmed of a file survives whatever happens then, once
/// [`sync_directory`](Disk::sync_directory) has confirmed its name; of everything else nothing, a part or all does.
pub trait Disk {
    /// The names of the files.
    ///
    /// # Errors
    /// The system's; so for all of these.
    fn list(&mut self) -> io::Result<Vec<String>>;
    /// Opens a file to be read from its beginning.
    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>>;
    /// Makes an empty file, also where there is one of this name.
    fn create(&mut self, name: &str) -> io::Result<()>;
    /// Adds octets at the end of a file; answers how many.
    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize>;
    /// Makes what a file has durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Truncates a file behind this many octets, which it has.
    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()>;
    /// Gives a file another name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync_directory(&mut self) -> io::Result<()>;
    /// Writes over the beginning of a small file, which is made where there is none. Nothing waits for it to be
    /// durable.
    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()>;
}
