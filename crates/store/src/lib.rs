//! A durable map: the latest value of each [`Key`], in a log of segment files that survives any end of the process and
//! of the machine (docs/adr/0009).
//!
//! [`Store`] takes values and removals, writes them in batches with one sync for all that came, and says up to which
//! operation everything is durable ([`Store::durable`]). [`Store::open`] reads the log of the process before and gives
//! what is in it ([`Recovered`]). [`Reader`] reads single values back, in any thread. Segments are compacted from the
//! oldest on, a little in each poll, and so are indexes of those that are full, which recovery reads instead of them.
//!
//! The store has no thread and no clock: the caller passes the time and the disk ([`StoreDisk`]), so that tests let
//! every single operation fail. It does not know what a value is.

#![forbid(unsafe_code)]

mod compaction;
mod form;
mod index;
mod indexing;
mod key;
mod log;
mod lsn;
mod open_error;
mod progress;
mod reader;
mod recovered;
mod recovery;
mod reserve;
mod scan;
mod segment_index;
mod segments;
mod settings;
mod state;
mod store;
mod store_disk;

pub use form::{Damage, LONGEST_HEAD, LONGEST_ID, LONGEST_VALUE, Location, TooLong, VERSION};
pub use key::{Key, Table};
pub use lsn::Lsn;
pub use open_error::OpenError;
pub use progress::Progress;
pub use reader::Reader;
pub use recovered::{Live, LiveSession, Recovered};
pub use settings::Settings;
pub use state::Store;
pub use store_disk::{ReadAt, StoreDisk};
