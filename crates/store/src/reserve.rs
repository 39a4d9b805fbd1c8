//! Room that is kept for a full disk: a file that is given up piece by piece, so that removals are written and segments
//! are compacted, which makes room in the end.

use std::io;
use std::time::Duration;

use crate::log::remove;
use crate::store_disk::StoreDisk;

/// The name of the file.
pub(crate) const RESERVE: &str = "reserve";
/// The least that is given up at a time.
const PIECE: u64 = 1 << 20;

#[derive(Debug)]
pub(crate) struct Reserve {
    /// Octets that it is to have.
    whole: u64,
    left: u64,
    /// Why it has fewer.
    missing: Option<io::Error>,
    retry_at: Duration,
}

/// Whether an operation failed for want of room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl Reserve {
    /// Makes the file, if there is room.
    pub(crate) fn new(disk: &mut impl StoreDisk, whole: u64, now: Duration, retry: Duration) -> Reserve {
        let mut reserve = Reserve {
            whole,
            left: 0,
            missing: None,
            retry_at: now + retry,
        };
        if whole > 0 {
            reserve.make(disk);
        }
        reserve
    }

    pub(crate) fn left(&self) -> u64 {
        self.left
    }

    /// Why it is not whole.
    pub(crate) fn missing(&self) -> Option<&io::Error> {
        self.missing.as_ref()
    }

    /// When it is tried to make it whole.
    pub(crate) fn retry_at(&self) -> Option<Duration> {
        self.missing.is_some().then_some(self.retry_at)
    }

    /// Gives up some of it because of `error`, for a batch of this many octets. Returns whether there was any.
    pub(crate) fn give_up(&mut self, disk: &mut impl StoreDisk, batch: usize, error: io::Error) -> bool {
        let piece = (2 * batch as u64).max(PIECE).min(self.left);
        if self.whole > 0 {
            self.missing = Some(error);
        }
        if piece == 0 {
            return false;
        }
        self.left -= piece;
        // Where it was removed there is as much room as there would be.
        let done = match self.left {
            0 => remove(disk, RESERVE),
            left => disk.truncate(RESERVE, left),
        };
        done.is_ok() || done.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Makes it whole again when there is room for it, and for two batches besides.
    pub(crate) fn restore(
        &mut self,
        disk: &mut impl StoreDisk,
        batch_octets: usize,
        now: Duration,
        retry: Duration,
    ) {
        if self.missing.is_none() || now < self.retry_at {
            return;
        }
        self.retry_at = now + retry;
        let wanted = (self.whole - self.left).saturating_add(2 * batch_octets as u64);
        if disk.free_octets().is_ok_and(|free| free >= wanted) {
            self.make(disk);
        }
    }

    fn make(&mut self, disk: &mut impl StoreDisk) {
        match disk.reserve(RESERVE, self.whole) {
            Ok(()) => (self.left, self.missing) = (self.whole, None),
            Err(error) => {
                // What was made of it goes, so that it does not take the room that is wanted.
                self.left = match disk.truncate(RESERVE, self.left) {
                    Ok(()) => self.left,
                    Err(_) => 0,
                };
                self.missing = Some(error);
            }
        }
    }
}
