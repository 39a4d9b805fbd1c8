//! What can be wrong with a log.

use std::error::Error;
use std::{fmt, io};

/// Why the log cannot be written or asked. Every error names the file that it is about.
#[derive(Debug)]
pub enum LogError {
    /// The system's, of the directory or of a file of it, which it names.
    Disk(io::Error),
    /// A file cannot be opened, read or written.
    File {
        /// Its name.
        name: String,
        /// What the library of the database says.
        error: Box<dyn Error + Send + Sync>,
    },
    /// A file holds what no log writes.
    Damaged {
        /// Its name.
        name: String,
        /// What is wrong.
        what: &'static str,
    },
    /// A file has a form that this build does not read.
    Version {
        /// Its name.
        name: String,
        /// The version of its form; this build reads those up to [`VERSION`](Self::VERSION).
        version: u64,
    },
}

impl LogError {
    /// The version of the form of files that is written. Those before are read: files of version 1 have no gaps, and
    /// do not say that the process ended in order.
    pub const VERSION: u64 = 2;
}

impl fmt::Display for LogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LogError::Disk(error) => error.fmt(f),
            LogError::File { name, error } => write!(f, "{name}: {error}"),
            LogError::Damaged { name, what } => write!(f, "{name}: is damaged: {what}"),
            LogError::Version { name, version } => write!(
                f,
                "{name}: is of version {version}; this build reads versions 1 to {}",
                Self::VERSION
            ),
        }
    }
}

impl Error for LogError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            LogError::Disk(error) => Some(error),
            LogError::File { error, .. } => Some(&**error),
            LogError::Damaged { .. } | LogError::Version { .. } => None,
        }
    }
}

impl From<io::Error> for LogError {
    fn from(error: io::Error) -> Self {
        LogError::Disk(error)
    }
}

/// The same, of a file that the caller knows.
pub(crate) enum Fault {
    Library(Box<redb::Error>),
    Damaged(&'static str),
    Version(u64),
}

impl<E: Into<redb::Error>> From<E> for Fault {
    fn from(error: E) -> Self {
        Fault::Library(Box::new(error.into()))
    }
}

impl Fault {
    pub(crate) fn of(self, name: &str) -> LogError {
        let name = name.to_owned();
        match self {
            Fault::Library(error) => LogError::File { name, error },
            Fault::Damaged(what) => LogError::Damaged { name, what },
            Fault::Version(version) => LogError::Version { name, version },
        }
    }
}
