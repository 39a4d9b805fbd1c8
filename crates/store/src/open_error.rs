//! Why a store cannot be opened.

use std::fmt;
use std::io;

/// Why a store cannot be opened. Nothing was changed but what a torn end may be.
#[derive(Debug)]
pub enum OpenError {
    /// The system's error, and the file that it is about, or the directory.
    Disk {
        /// The name of the file; empty for the directory.
        file: String,
        /// What the system says.
        error: io::Error,
    },
    /// A file has a form that this build does not read.
    Version {
        /// The name of the file.
        file: String,
        /// The version of its form.
        version: u16,
        /// The oldest version that is read.
        oldest: u16,
        /// The newest one, which is the one that is written.
        newest: u16,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Disk { file, error } if file.is_empty() => write!(f, "{error}"),
            // Errors of files have the name in front where `disk` makes them.
            OpenError::Disk { file, error } if error.to_string().starts_with(file) => write!(f, "{error}"),
            OpenError::Disk { file, error } => write!(f, "{file}: {error}"),
            OpenError::Version {
                file,
                version,
                oldest,
                newest,
            } => {
                let whose = if version > newest { "a newer" } else { "an older" };
                let read = if oldest == newest {
                    format!("version {newest}")
                } else {
                    format!("versions {oldest} to {newest}")
                };
                write!(
                    f,
                    "{file}: is of version {version}; this build reads {read}: {whose} Sluice wrote it"
                )
            }
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Disk { error, .. } => Some(error),
            OpenError::Version { .. } => None,
        }
    }
}
