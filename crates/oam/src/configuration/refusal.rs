//! Why a request about the configuration is not served.

use std::fmt;
use std::io;

use config::Change;

/// Why a request about the configuration is not served. Whatever it is: what is in effect has not changed, but for
/// [`Unstored`](Self::Unstored).
#[derive(Debug)]
pub enum Refusal {
    /// It does not name what it is about (`If-Match`).
    Unconditional,
    /// What it is about has changed meanwhile.
    Changed,
    /// A commit waits for its confirmation: the number of its version.
    Unconfirmed(u64),
    /// No commit waits for a confirmation.
    Settled,
    /// A commit did wait, and its time is over: the number of its version.
    TooLate(u64),
    /// The document has a mistake.
    Mistake(String),
    /// The same is in effect and in the file.
    Same,
    /// These changes do not take effect while the daemon runs.
    NotLive(Vec<Change>),
    /// There is no such version.
    NoVersion(u64),
    /// Control or the workers did not take it.
    NotApplied(String),
    /// It could not be stored, and is not in effect.
    Store(io::Error),
    /// It is in effect and could not be stored: it waits for a confirmation, which tries it again.
    Unstored(u64, io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unconditional => f.write_str("If-Match is missing: it has to be the ETag of /v1/config"),
            Self::Changed => f.write_str(
                "the configuration, or its file, has changed since that ETag: ask for it again, and compare",
            ),
            Self::Unconfirmed(number) => write!(
                f,
                "version {number} is in effect and waits to be confirmed: confirm it or roll it back first"
            ),
            Self::Settled => f.write_str("no version waits to be confirmed"),
            Self::TooLate(number) => write!(
                f,
                "version {number} was not confirmed in time, and is being rolled back"
            ),
            Self::Mistake(words) => f.write_str(words),
            Self::Same => {
                f.write_str("this is what is in effect, and in the file: there is nothing to commit")
            }
            Self::NotLive(changes) => {
                f.write_str("these changes take effect at a start only:")?;
                list(f, changes)?;
                f.write_str("\nNothing was changed. `at_restart` stores the whole for the next start.")
            }
            Self::NoVersion(number) => write!(f, "there is no version {number}"),
            Self::NotApplied(words) => write!(f, "not taken into effect, nothing was changed: {words}"),
            Self::Store(error) => write!(f, "not stored, nothing was changed: {error}"),
            Self::Unstored(number, error) => write!(
                f,
                "version {number} is in effect and is not stored: {error}. Confirm it to try again, or roll it back"
            ),
        }
    }
}

fn list(f: &mut fmt::Formatter<'_>, changes: &[Change]) -> fmt::Result {
    changes.iter().try_for_each(|change| write!(f, "\n  {change}"))
}

impl std::error::Error for Refusal {}
