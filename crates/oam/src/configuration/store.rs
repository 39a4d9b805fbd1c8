//! The configuration's file and its versions on disk.
//!
//! A version that is committed is first written whole as `pending.json`. When it is confirmed, the file is replaced,
//! and then `pending.json` gets its number for a name. So a start finds one of three: no pending version; one whose
//! text the file has, which only lacks its name; or one that was never confirmed, and is discarded. Nothing is made on
//! disk before the first commit.

use std::io;
use std::path::{Path, PathBuf};
use std::{fs, process};

use config::bounded_file;

use super::disk::{Disk, Ownership, SystemDisk};
use super::version::{StoredVersion, Version};

/// Versions that are kept.
pub const MOST_VERSIONS: usize = 50;
/// Octets of the file at most, and of a version with what its application files and JSON add.
const LONGEST: u64 = 16 << 20;
const LONGEST_VERSION: u64 = 200 << 20;
const PENDING: &str = "pending.json";

/// The file and the directory of its versions.
#[derive(Debug)]
pub struct Store<D = SystemDisk> {
    file: PathBuf,
    directory: PathBuf,
    disk: D,
}

/// What was on disk at the start.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Recovered {
    /// The versions, oldest first.
    pub(super) versions: Vec<Version>,
    /// The last one.
    pub(super) last: Option<StoredVersion>,
    /// A version that was in effect and not confirmed when the process ended.
    pub(super) unconfirmed: Option<Version>,
}

impl Store {
    /// The store of the file at `file`: its versions are in `directory`, else beside it in `NAME.versions`.
    ///
    /// # Errors
    /// The file is not there.
    pub fn of(file: &Path, directory: Option<&Path>) -> io::Result<Self> {
        Self::on(SystemDisk, file, directory)
    }
}

impl<D: Disk> Store<D> {
    pub(super) fn on(disk: D, file: &Path, directory: Option<&Path>) -> io::Result<Self> {
        // A link stays one: what it leads to is replaced.
        let file = fs::canonicalize(file)?;
        let beside = || {
            let mut name = file.file_name().unwrap_or_default().to_owned();
            name.push(".versions");
            file.with_file_name(name)
        };
        let directory = directory.map_or_else(beside, Path::to_owned);
        Ok(Self {
            file,
            directory,
            disk,
        })
    }

    /// The file that is replaced.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The folder of the file, where application files are looked for.
    pub(super) fn folder(&self) -> &Path {
        self.file.parent().unwrap_or(Path::new("/"))
    }

    /// What the file says now.
    pub(super) fn text(&self) -> io::Result<String> {
        let octets = bounded_file::read(&self.file, LONGEST)?;
        String::from_utf8(octets).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    /// Finishes what was under way when the process before ended, and returns what there is.
    pub(super) fn recover(&self) -> io::Result<Recovered> {
        let mut recovered = Recovered::default();
        if !self.directory.exists() {
            return Ok(recovered);
        }
        match self.read(&self.directory.join(PENDING)) {
            Ok(pending) if pending.text == self.text()? => self.name_pending(pending.version.number)?,
            Ok(pending) => {
                recovered.unconfirmed = Some(pending.version);
                self.discard()?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // It was being written: nothing of it was in effect.
            Err(_) => self.discard()?,
        }
        for number in self.numbers()? {
            // What is damaged is no version to return to.
            let Ok(stored) = self.read(&self.named(number)) else {
                continue;
            };
            recovered.versions.push(stored.version.clone());
            recovered.last = Some(stored);
        }
        Ok(recovered)
    }

    /// A version that is kept.
    pub(super) fn version(&self, number: u64) -> io::Result<StoredVersion> {
        self.read(&self.named(number))
    }

    /// Keeps a version that is in effect since the start, unless it is kept already.
    pub(super) fn keep(&self, version: &StoredVersion) -> io::Result<()> {
        self.disk.make_directory(&self.directory)?;
        let path = self.named(version.version.number);
        if path.exists() {
            return Ok(());
        }
        self.put(version, &path)
    }

    /// Keeps a version that is to be in effect.
    pub(super) fn keep_pending(&self, version: &StoredVersion) -> io::Result<()> {
        self.disk.make_directory(&self.directory)?;
        self.put(version, &self.directory.join(PENDING))
    }

    /// Puts `text` back into the file that another program has written; what that wrote is kept as `edited.yaml`.
    pub(super) fn restore(&self, text: &str) -> io::Result<()> {
        if let Ok(edited) = self.text() {
            self.disk
                .write(&self.directory.join("edited.yaml"), edited.as_bytes())?;
        }
        self.replace(text)
    }

    /// Discards the pending version, of which the file may have the text where storing it failed half-way: it gets
    /// that of the next start again.
    pub(super) fn abandon(&self, pending: &str, next_start: &str) -> io::Result<()> {
        if pending != next_start && self.text()? == pending {
            self.replace(next_start)?;
        }
        self.discard()
    }

    /// Discards the pending version.
    pub(super) fn discard(&self) -> io::Result<()> {
        self.disk.remove(&self.directory.join(PENDING))?;
        self.disk.sync_directory(&self.directory)
    }

    /// Makes the pending version that of the next start. The file keeps its owner and mode.
    pub(super) fn publish(&self, pending: &StoredVersion) -> io::Result<()> {
        self.replace(&pending.text)?;
        self.name_pending(pending.version.number)?;
        self.prune();
        Ok(())
    }

    /// Replaces the file, whole, by one of the same owner and mode.
    fn replace(&self, text: &str) -> io::Result<()> {
        let new = self.beside(&format!("{}.new", process::id()));
        let ownership = Ownership::of(&self.file)?;
        let replaced = self
            .disk
            .write(&new, text.as_bytes())
            .and_then(|()| self.disk.give(&new, ownership))
            .and_then(|()| self.disk.rename(&new, &self.file));
        if let Err(error) = replaced {
            let _ = self.disk.remove(&new);
            return Err(error);
        }
        self.disk.sync_directory(self.folder())
    }

    /// Gives the pending version its name, unless an attempt before has done that.
    fn name_pending(&self, number: u64) -> io::Result<()> {
        let (pending, named) = (self.directory.join(PENDING), self.named(number));
        if pending.exists() || !named.exists() {
            self.disk.rename(&pending, &named)?;
        }
        self.disk.sync_directory(&self.directory)
    }

    /// Removes the oldest versions. One that cannot be removed now is removed the next time.
    fn prune(&self) {
        let numbers = self.numbers().unwrap_or_default();
        let surplus = numbers.len().saturating_sub(MOST_VERSIONS);
        for number in numbers.into_iter().take(surplus) {
            let _ = self.disk.remove(&self.named(number));
        }
    }

    /// The numbers of the versions, in order.
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.directory)? {
            let name = entry?.file_name();
            let number: Option<u64> = name
                .to_str()
                .and_then(|name| name.strip_suffix(".json")?.parse().ok());
            numbers.extend(number);
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn put(&self, version: &StoredVersion, path: &Path) -> io::Result<()> {
        let octets = serde_json::to_vec(version)?;
        let new = self.directory.join("new");
        self.disk.write(&new, &octets)?;
        self.disk.rename(&new, path)?;
        self.disk.sync_directory(&self.directory)
    }

    fn read(&self, path: &Path) -> io::Result<StoredVersion> {
        let octets = bounded_file::read(path, LONGEST_VERSION)?;
        serde_json::from_slice(&octets).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    }

    fn named(&self, number: u64) -> PathBuf {
        self.directory.join(format!("{number}.json"))
    }

    /// A file of ours beside the configuration, on the same file system.
    fn beside(&self, suffix: &str) -> PathBuf {
        let name = self.file.file_name().unwrap_or_default().to_string_lossy();
        self.file.with_file_name(format!(".{name}.{suffix}"))
    }
}
