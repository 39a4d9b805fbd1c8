//! The store that keeps sessions beyond the process.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::Bounded;

/// Where sessions are kept beyond the process. Without this section they end with it.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StoreConfig {
    /// The directory of the log, an absolute path; it is made if it is not there. One daemon at a time has it.
    #[schemars(with = "PathBuf")]
    pub directory: Spanned<PathBuf>,
    /// Milliseconds that changes wait for the disk at most. While they wait for longer, requests that would change
    /// something are rejected with cause 77 (System failure); 1000.
    #[serde(default = "StoreConfig::default_deadline")]
    pub deadline_ms: Bounded<10, 60_000>,
    /// Seconds between checkpoints of what each session has counted: what a crash can lose; 1.
    #[serde(default = "StoreConfig::default_checkpoint")]
    pub checkpoint_s: Bounded<1, 3_600>,
    /// What becomes of sessions when the daemon is stopped.
    #[serde(default)]
    pub at_stop: AtStop,
}

/// What becomes of sessions when the daemon is stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtStop {
    /// They are kept, with exact counts, and continue at the next start. SMFs see no end of their associations.
    #[default]
    Keep,
    /// The associations are released, and the sessions end.
    Release,
}

impl StoreConfig {
    const fn default_deadline() -> Bounded<10, 60_000> {
        Bounded::new(1_000)
    }
    const fn default_checkpoint() -> Bounded<1, 3_600> {
        Bounded::new(1)
    }

    /// How long changes wait for the disk at most.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_millis(self.deadline_ms.value())
    }

    /// The time between checkpoints of a session's counts.
    #[must_use]
    pub fn checkpoint_interval(&self) -> Duration {
        Duration::from_secs(self.checkpoint_s.value())
    }
}
