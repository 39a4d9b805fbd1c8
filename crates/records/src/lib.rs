//! Usage records for offline billing: what a record says, how it is written to a file, and the spool that keeps files.
//!
//! A record is one line of JSON with a check sum ([`Entry`], [`line`](seal)). [`Spool`] appends lines to a file of a
//! directory, makes them durable in batches, and gives a full or old file its final name; it never waits for time and
//! has no thread: the caller passes the time, and the [`Disk`] underneath, so that tests let every single operation
//! fail. What is durable survives any end of the process and of the machine; what is not is counted when the next
//! process opens the spool. [`Reader`] reads what was written and says what is wrong with it.
//!
//! Nothing here knows of PFCP or of sessions: `sluice` makes records of what `n4` reports.

#![forbid(unsafe_code)]

mod entry;
mod json;
mod line;
mod names;
mod reader;
mod recovery;
mod spool;

pub use disk::{Directory, DirectoryHandle, Disk};
pub use entry::{
    Content, EndCause, Entry, LossCause, Lost, Outcome, ProcessStart, SessionEnd, SessionLeft, SessionStart,
    Subject, Unreported, Usage, Volumes,
};
pub use line::{LONGEST_LINE, LineFault, open, seal};
pub use names::{FINAL, OPEN, is_file, is_open};
pub use reader::{Audit, Break, Item, Place, Reader};
pub use recovery::Recovered;
pub use spool::{Progress, Settings, Spool};
