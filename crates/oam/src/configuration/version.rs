//! A version of the configuration.

use config::ApplicationFiles;
use serde::{Deserialize, Serialize};

/// Who made which version of the configuration, and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number, from 1 on; each is given once.
    pub number: u64,
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// The name of the caller; `file` where it was read at a start.
    pub by: String,
    /// What the caller said of it.
    pub comment: String,
}

/// A version with its text and files, as it is on disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredVersion {
    /// The version.
    #[serde(flatten)]
    pub version: Version,
    /// The whole file, comments included.
    pub text: String,
    /// The application files that it named, as they were.
    #[serde(default, skip_serializing_if = "ApplicationFiles::is_empty")]
    pub files: ApplicationFiles,
}
