//! The configuration of a running daemon: what is in effect, versions, and differences.

use std::collections::BTreeMap;
use std::fmt::Write;

use config::Change;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

/// The configuration in effect.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigStatus {
    /// What `If-Match` of a commit is to be: it changes with what is in effect, and with the file.
    #[schema(example = "\"0f3a5b0c9d8e7f60123456789abcdef0\"")]
    pub etag: String,
    /// The version in effect.
    pub running: ConfigVersion,
    /// The file that the daemon was started with, and starts with again.
    #[schema(example = "/etc/sluice/sluice.yaml")]
    pub file: String,
    /// Whether another program has written the file since the daemon read or replaced it. A commit replaces it.
    pub file_edited: bool,
    /// Whether application files say something else than those of the version of the next start: a commit or a start
    /// takes them as they are then.
    #[serde(default)]
    pub application_files_edited: bool,
    /// Whether the version in effect waits to be confirmed: it is not in the file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub unconfirmed: Option<UnconfirmedVersion>,
    /// The version that the file has for the next start, where that is another.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub next_start: Option<ConfigVersion>,
    /// The last version that was rolled back without a request, since the start.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rolled_back: Option<RolledBackVersion>,
    /// The whole text in effect, comments included.
    pub text: String,
}

/// A version of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersion {
    /// Its number.
    #[schema(example = 7)]
    pub number: u64,
    /// When it was committed, or read from the file (RFC 3339).
    pub at: String,
    /// Who committed it; `file` where it was read at a start.
    #[schema(example = "uid:0")]
    pub by: String,
    /// What was said of it.
    pub comment: String,
}

/// A version that waits to be confirmed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct UnconfirmedVersion {
    /// Its number.
    pub number: u64,
    /// Seconds until it is rolled back; absent: it could not be stored, and stays in effect until it is confirmed or
    /// rolled back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds_left: Option<u64>,
}

/// A version that was rolled back without a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RolledBackVersion {
    /// The version.
    pub version: ConfigVersion,
    /// Why.
    pub why: String,
}

/// The versions that are kept, the newest first: 50 at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersionList {
    /// The number of the version in effect.
    pub running: u64,
    /// The versions.
    pub versions: Vec<ConfigVersion>,
}

/// A version with its text and files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConfigVersionText {
    /// The version.
    pub version: ConfigVersion,
    /// The whole text, comments included.
    pub text: String,
    /// The application files that it named, by their names, as they were.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub application_files: BTreeMap<String, String>,
}

/// What a document would change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigDifferences {
    /// As of [`ConfigStatus`].
    pub etag: String,
    /// Whether all of it takes effect while the daemon runs.
    pub live: bool,
    /// Each field that differs, with defaults filled in.
    pub changes: Vec<ConfigChange>,
    /// What is no mistake and worth a word: hosts and rules that never count, what applications have twice.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ConfigChange {
    /// Where it is; elements of lists by their key.
    #[schema(example = "instances[core].routes[0.0.0.0/0 10.0.6.1].mac")]
    pub path: String,
    /// What it was; null: absent.
    pub before: Value,
    /// What it becomes; null: absent.
    pub after: Value,
    /// When that takes effect: live, restart or drain.
    #[schema(example = "live")]
    pub class: String,
    /// All of it in one line.
    pub text: String,
}

/// What became of a commit, a confirmation or a rollback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CommitReport {
    /// As of [`ConfigStatus`], now.
    pub etag: String,
    /// The version that it is about.
    pub version: ConfigVersion,
    /// How that is now.
    pub state: CommitState,
    /// Seconds until it is rolled back, unless it is confirmed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seconds: Option<u64>,
    /// As of [`ConfigStatus`], now.
    #[serde(default)]
    pub application_files_edited: bool,
    /// What the version changed.
    pub changes: Vec<ConfigChange>,
}

/// How a version is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CommitState {
    /// In effect, and in the file.
    Confirmed,
    /// In effect until it is rolled back or confirmed.
    Unconfirmed,
    /// In the file, for the next start.
    AtRestart,
    /// No longer in effect.
    RolledBack,
}

impl From<&Change> for ConfigChange {
    fn from(change: &Change) -> Self {
        Self {
            path: change.path.clone(),
            before: change.before.clone(),
            after: change.after.clone(),
            class: change.class.to_string(),
            text: change.to_string(),
        }
    }
}

impl ConfigVersion {
    fn text(&self) -> String {
        let Self {
            number,
            at,
            by,
            comment,
        } = self;
        let comment = if comment.is_empty() {
            String::new()
        } else {
            format!(": {comment}")
        };
        format!("version {number} of {at} by {by}{comment}")
    }
}

impl ConfigStatus {
    /// What is in effect and what waits, as comments over the text.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("# {}, in effect\n", self.running.text());
        if let Some(UnconfirmedVersion { seconds_left, .. }) = &self.unconfirmed {
            let _ = match seconds_left {
                Some(seconds) => writeln!(
                    text,
                    "# not confirmed: it is rolled back in {seconds} s unless it is confirmed"
                ),
                None => writeln!(text, "# not stored: confirm it to try again, or roll it back"),
            };
        }
        if let Some(next) = &self.next_start {
            let _ = writeln!(text, "# at the next start: {}", next.text());
        }
        if let Some(RolledBackVersion { version, why }) = &self.rolled_back {
            let _ = writeln!(text, "# rolled back, {why}: {}", version.text());
        }
        if self.file_edited {
            let _ = writeln!(text, "# {} has been edited since it was read", self.file);
        }
        if self.application_files_edited {
            let _ = writeln!(
                text,
                "# application files have been edited since they were read: a commit or a start takes them as they are"
            );
        }
        text.push_str(&self.text);
        text
    }
}

impl ConfigVersionList {
    /// A line for each version; `*` is in effect.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        for version in &self.versions {
            let mark = if version.number == self.running { '*' } else { ' ' };
            let _ = writeln!(text, "{mark} {}", version.text());
        }
        text
    }
}

impl ConfigDifferences {
    /// A line for each change.
    #[must_use]
    pub fn text(&self) -> String {
        match self.changes.is_empty() {
            true => "no differences\n".to_owned(),
            false => lines(&self.changes),
        }
    }
}

impl CommitReport {
    /// What became of it, over a line for each change.
    #[must_use]
    pub fn text(&self) -> String {
        let version = self.version.text();
        let said = match (self.state, self.seconds) {
            (CommitState::Confirmed, _) => format!("{version}: in effect, and in the file"),
            (CommitState::Unconfirmed, seconds) => format!(
                "{version}: in effect; it is rolled back in {} s unless it is confirmed (`sluice config confirm`)",
                seconds.unwrap_or_default()
            ),
            (CommitState::AtRestart, _) => {
                format!("{version}: in the file, for the next start; nothing has changed now")
            }
            (CommitState::RolledBack, _) => format!("{version}: rolled back; these changes are undone"),
        };
        let edited = match self.application_files_edited {
            true => {
                "the application files beside the configuration are others: put back those of this version, or the \
                     next start takes them as they are\n"
            }
            false => "",
        };
        format!("{said}\n{edited}{}", lines(&self.changes))
    }
}

fn lines(changes: &[ConfigChange]) -> String {
    changes
        .iter()
        .map(|change| format!("{}\n", change.text))
        .collect()
}
