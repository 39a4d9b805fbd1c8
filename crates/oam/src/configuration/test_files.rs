//! A configuration file in a directory of its own, for tests.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use config::ApplicationFiles;

use super::{Author, Commit, Configuration, Disk, Moment, Store};

/// A configuration that logs at this level, with a comment.
pub(super) fn text(level: &str, comment: &str) -> String {
    format!(
        "# {comment}\n\
         node: {{id: 127.0.0.8}}\n\
         n4: {{addresses: [127.0.0.8]}}\n\
         log: {{level: {level}}}\n\
         ports: [{{name: ran, driver: {{memory: {{}}}}}}]\n\
         instances: [{{name: access, roles: [n3], port: ran, addresses: [10.100.0.1/24]}}]\n"
    )
}

/// A directory with a file, which goes at the end.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn with(text: &str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("sluice-configuration-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("sluice.yaml"), text).unwrap();
        Self(path)
    }

    /// Writes another file beside it.
    pub(super) fn write(&self, name: &str, text: &str) {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("sluice.yaml")
    }

    pub(super) fn versions(&self) -> PathBuf {
        self.0.join("sluice.yaml.versions")
    }

    pub(super) fn read(&self) -> String {
        fs::read_to_string(self.file()).unwrap()
    }

    /// The application files that the file names.
    pub(super) fn applications(&self) -> ApplicationFiles {
        ApplicationFiles::beside(&self.read(), &self.0).unwrap()
    }

    /// As a process that starts finds it.
    pub(super) fn start(&self) -> Configuration {
        let store = Store::of(&self.file(), None).unwrap();
        Configuration::open(store, self.read(), self.applications(), at(0)).unwrap()
    }

    pub(super) fn start_on<D: Disk>(&self, disk: D) -> Configuration<D> {
        let store = Store::on(disk, &self.file(), None).unwrap();
        Configuration::open(store, self.read(), self.applications(), at(0)).unwrap()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.0
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A number of seconds after the start.
pub(super) fn at(seconds: u64) -> Moment {
    Moment {
        now: Duration::from_secs(seconds),
        unix_ms: (1_700_000_000 + seconds) * 1_000,
    }
}

/// A commit in whatever state, confirmed within a number of seconds.
pub(super) fn commit(text: &str, seconds: Option<u64>) -> Commit {
    Commit {
        text: text.to_owned(),
        files: None,
        author: Author {
            by: "uid:0".into(),
            comment: "a test".into(),
        },
        if_match: Some("*".into()),
        confirm_within: seconds.map(Duration::from_secs),
        at_restart: false,
    }
}
