//! Why octets are no record that can be used here.

use rules::model::EditError;
use std::fmt;

/// The most octets of a record's body.
pub const LONGEST_RECORD: usize = 1 << 20;

/// Octets that are no record that can be used here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordError {
    /// They end before the record does.
    Truncated,
    /// They do not begin as a record does.
    NoRecord,
    /// The record is of a kind that is not known here, by this number.
    Kind(u8),
    /// A newer Sluice wrote it.
    Newer {
        /// The version of the record's kind.
        version: u8,
        /// The newest that is known here.
        known: u8,
    },
    /// Another Sluice wrote it, before or since the content of its version changed.
    Revision {
        /// The revision of the record's content.
        revision: u8,
        /// The oldest one that is read here.
        oldest: u8,
        /// The newest one, which is written here.
        known: u8,
    },
    /// It says that it is longer than any record may be, octets.
    TooLong(usize),
    /// The check sum differs: the record is damaged.
    CheckSum,
    /// What it says cannot be: the field.
    Malformed(&'static str),
    /// A network instance that is not configured here.
    UnknownInstance(String),
    /// A forwarding policy that is not configured here.
    UnknownPolicy(String),
    /// A rulebase of predefined rules that is not configured here.
    UnknownRulebase(String),
    /// Its rules contradict each other.
    Rules(EditError),
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordError::Truncated => f.write_str("the record is cut off"),
            RecordError::NoRecord => f.write_str("this is no session record"),
            RecordError::Kind(kind) => write!(f, "records of kind {kind} are not known here"),
            RecordError::Newer { version, known } => write!(
                f,
                "the record is of version {version}, and the newest one known here is {known}: a newer Sluice wrote it"
            ),
            RecordError::Revision {
                revision,
                oldest,
                known,
            } => write!(
                f,
                "the record has content of revision {revision}, and revisions {oldest} to {known} are read here: another build of Sluice wrote it"
            ),
            RecordError::TooLong(octets) => {
                write!(f, "the record has {octets} octets; {LONGEST_RECORD} is the most")
            }
            RecordError::CheckSum => f.write_str("the record is damaged: its check sum is another"),
            RecordError::Malformed(field) => write!(f, "the record's {field} cannot be"),
            RecordError::UnknownInstance(name) => {
                write!(
                    f,
                    "the record names network instance {name:?}, which is not configured"
                )
            }
            RecordError::UnknownPolicy(name) => {
                write!(
                    f,
                    "the record names forwarding policy {name:?}, which is not configured"
                )
            }
            RecordError::UnknownRulebase(name) => {
                write!(f, "the record names rulebase {name:?}, which is not configured")
            }
            RecordError::Rules(error) => write!(f, "the record's rules: {error}"),
        }
    }
}

impl core::error::Error for RecordError {}

impl From<EditError> for RecordError {
    fn from(error: EditError) -> RecordError {
        RecordError::Rules(error)
    }
}

/// A value that cannot be.
pub(super) const fn bad(field: &'static str) -> RecordError {
    RecordError::Malformed(field)
}
