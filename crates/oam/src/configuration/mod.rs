//! The configuration of a running daemon: what is in effect, how it changes, and the versions that it had.
//!
//! [`Configuration`] decides, without threads or clocks of its own: time is passed in, and what is to take effect is
//! taken out and reported back. [`Store`] keeps the file and its versions on disk.
//!
//! The file that the daemon was started with is the configuration of its next start, whatever happens. A commit that is
//! confirmed replaces it; one that waits for its confirmation does not, so that a process that is killed in between
//! comes back with what was confirmed last.

mod disk;
mod refusal;
mod state;
mod store;
mod version;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod state_tests;
#[cfg(test)]
mod test_files;

pub use disk::{Disk, SystemDisk};
pub use refusal::Refusal;
pub use state::{
    Applied, Author, Commit, CommitOutcome, Configuration, Effect, Moment, Progress, Rollback, RolledBack,
    Unconfirmed,
};
pub use store::{MOST_VERSIONS, Store};
pub use version::{StoredVersion, Version};
