//! The audit log: who has changed what, and who has read what is private.
//!
//! A line is a JSON object with a running number and the SHA-256 of the line before it, so that a line that is changed,
//! removed, added or moved breaks the chain. A file beside them, `head`, has the number and the hash of the last line,
//! so that a tail that is cut off is missed. Who can write the directory can write both anew, which only a copy of
//! a head elsewhere shows ([`Head`]).
//!
//! [`AuditLog`] writes, [`verify()`] checks, [`read()`] reads. Nothing here knows the API, a clock or a thread.

#![forbid(unsafe_code)]

mod entry;
mod files;
mod line;
mod log;
#[cfg(test)]
mod tests;
mod verify;

pub use entry::{Caller, Entry};
pub use line::{BadHead, Head, Line, LineFault};
pub use log::{AuditLog, Found};
pub use verify::{Finding, Verified, read, verify};
