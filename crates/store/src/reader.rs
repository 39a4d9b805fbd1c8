//! Single values, read back from the log by any thread.

use std::io;

use crate::form::{Begin, Kind, Location, Record, file_name};
use crate::store_disk::ReadAt;

/// Reads values by their locations. A location is good while compaction is on hold
/// ([`hold_compaction`](crate::Store::hold_compaction)): later its segment may have been removed. A reader may keep
/// removed segments on the disk as long as it lives.
#[derive(Debug)]
pub struct Reader<R> {
    reads: R,
}

impl<R: ReadAt> Reader<R> {
    pub(crate) fn new(reads: R) -> Reader<R> {
        Reader { reads }
    }

    /// The value at this location.
    ///
    /// # Errors
    /// The system's, with the name of the file; [`io::ErrorKind::NotFound`] when its segment was removed;
    /// [`io::ErrorKind::InvalidData`] when the record is damaged.
    pub fn read(&mut self, location: &Location) -> io::Result<Vec<u8>> {
        let name = file_name(location.segment);
        let mut octets = vec![0; location.octets as usize];
        let read = self
            .reads
            .read_at(&name, u64::from(location.offset), &mut octets)?;
        octets.truncate(read);
        match Record::decode(&octets) {
            Begin::Record(record) if record.kind == Kind::Value => Ok(record.value.to_vec()),
            _ => {
                let words = format!("{name}: the record at octet {} is damaged", location.offset);
                Err(io::Error::new(io::ErrorKind::InvalidData, words))
            }
        }
    }
}
