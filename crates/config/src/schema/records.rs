//! Usage records for offline billing.

use std::path::PathBuf;
use std::time::Duration;

use records::Settings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::Bounded;

/// Where usage records go. Without this section there are none.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RecordsConfig {
    /// The directory of the files, an absolute path; it is made if it is not there. One daemon at a time has it.
    #[schemars(with = "PathBuf")]
    pub directory: Spanned<PathBuf>,
    /// Mebioctets of a file, after which it gets its final name; 64.
    #[serde(default = "RecordsConfig::default_file_size")]
    pub file_mib: Bounded<1, 4_096>,
    /// Seconds after which a file gets its final name although it is smaller; 900.
    #[serde(default = "RecordsConfig::default_file_age")]
    pub file_s: Bounded<1, 86_400>,
    /// Seconds from the first packet of a content (of a session) to the record of what was counted of it since; 0:
    /// there is one when the session ends, moves or no longer has the rule; 3600.
    #[serde(default = "RecordsConfig::default_content_age")]
    pub content_s: Bounded<0, 86_400>,
    /// Milliseconds that a record waits at most before it is made durable, with all others that have come; 100.
    #[serde(default = "RecordsConfig::default_sync")]
    pub sync_ms: Bounded<1, 10_000>,
    /// Records that are held in memory while the disk takes none, each about 700 octets; beside them a batch of
    /// 1 MiB; 100,000.
    #[serde(default = "RecordsConfig::default_held")]
    pub held: Bounded<1_000, 10_000_000>,
    /// What becomes of new sessions when that many are held.
    #[serde(default)]
    pub when_full: WhenFull,
}

/// What becomes of new sessions when memory holds no more records. Records that come nevertheless are lost and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// They are served, and not billed from these records.
    #[default]
    GoOn,
    /// They are refused with cause 75 (No resources available).
    Refuse,
}

impl RecordsConfig {
    const fn default_file_size() -> Bounded<1, 4_096> {
        Bounded::new(64)
    }
    const fn default_file_age() -> Bounded<1, 86_400> {
        Bounded::new(900)
    }
    const fn default_content_age() -> Bounded<0, 86_400> {
        Bounded::new(3_600)
    }
    const fn default_sync() -> Bounded<1, 10_000> {
        Bounded::new(100)
    }
    const fn default_held() -> Bounded<1_000, 10_000_000> {
        Bounded::new(100_000)
    }

    /// When the spool does what.
    #[must_use]
    pub fn settings(&self) -> Settings {
        Settings {
            file_octets: self.file_mib.value() << 20,
            file_age: Duration::from_secs(self.file_s.value()),
            batch_age: Duration::from_millis(self.sync_ms.value()),
            ..Settings::default()
        }
    }
}
