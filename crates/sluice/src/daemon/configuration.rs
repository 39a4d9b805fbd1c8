//! Where the configuration was read, and where its versions are.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tracing::warn;

use config::{ApplicationFiles, Config};
use oam::configuration::{Configuration, Moment, Refusal, Store};

/// The file that the daemon was started with, as it was read.
pub struct Source<'a> {
    /// The file.
    pub path: &'a Path,
    /// What it said.
    pub text: String,
    /// The application files that it names.
    pub files: ApplicationFiles,
}

/// The configuration as it may change while the daemon runs. Without it the daemon runs all the same.
pub(super) fn open_configuration(config: &Config, source: Source<'_>) -> Option<Configuration> {
    let Source { path, text, files } = source;
    let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let at = Moment {
        now: Duration::ZERO,
        unix_ms: unix.map_or(0, |unix| unix.as_millis() as u64),
    };
    let opened = Store::of(path, config.control.versions.as_deref())
        .map_err(Refusal::Store)
        .and_then(|store| Configuration::open(store, text, files, at));
    opened
        .inspect_err(
            |error| warn!(path = %path.display(), why = %error, "configuration cannot change while running"),
        )
        .ok()
}
