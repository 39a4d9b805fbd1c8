//! The log of port blocks: which session, subscriber and inside address held a public address and port at a time, as
//! law enforcement asks (RFC 6888 REQ-12, RFC 6269 §12).
//!
//! A session holds whole blocks, so that the log grows by blocks and not by flows. There is a file for each period, a
//! day by default, named by its start. Each begins with all assignments that are open then, so that a question is
//! answered by one file, and a file can be kept or given away alone.
//!
//! What the log has lost is a [`Gap`], which its file has: an answer for a time in it is not certain. Behind it all
//! is known again, as all blocks that are held are reported then.
//!
//! [`NatLog`] writes, in one thread: what it was given is durable when a call returns. [`NatLogReader`] answers, in any
//! thread and any process beside it. [`ipfix`] says the same to a collector (RFC 8158). Nothing here has a thread or a
//! clock.

#![forbid(unsafe_code)]

mod event;
mod fault;
mod file;
mod form;
pub mod ipfix;
mod log;
mod names;
mod reader;
mod tables;

pub use event::{Answer, Assignment, Event, Found, Gap, Holder};
pub use fault::LogError;
pub use log::{NatLog, Reconciled, Settings};
pub use names::is_file;
pub use reader::NatLogReader;
