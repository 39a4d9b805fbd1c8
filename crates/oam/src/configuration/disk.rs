//! The steps of writing to disk, one by one, so that tests can cut them off.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::Path;

use nix::fcntl::OFlag;

/// Who may use a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ownership {
    user: u32,
    group: u32,
    mode: u32,
}

impl Ownership {
    /// That of an existing file.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            user: found.uid(),
            group: found.gid(),
            mode: found.mode() & 0o7777,
        })
    }
}

/// Steps that change what is on disk. Each is whole or not at all when the process is killed, but for `write`.
pub trait Disk {
    /// Makes a directory for the own user alone, and those above it, where it is not there.
    ///
    /// # Errors
    /// The system's, as of all of them.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Writes a file anew, for the own user alone, and makes it durable.
    ///
    /// # Errors
    /// The system's.
    fn write(&self, path: &Path, octets: &[u8]) -> io::Result<()>;

    /// Gives a file to another owner.
    ///
    /// # Errors
    /// The system's.
    fn give(&self, path: &Path, ownership: Ownership) -> io::Result<()>;

    /// Puts a file in the place of another.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// The system's.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;
}

/// The system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemDisk;

impl Disk for SystemDisk {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    fn write(&self, path: &Path, octets: &[u8]) -> io::Result<()> {
        // Never through a link, or into a file of another user.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut how = OpenOptions::new();
        let mut file = how.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(octets)?;
        file.sync_all()
    }

    fn give(&self, path: &Path, ownership: Ownership) -> io::Result<()> {
        let file = OpenOptions::new()
            .write(true)
            .custom_flags(OFlag::O_NOFOLLOW.bits())
            .open(path)?;
        let now = file.metadata()?;
        // Before its owner is another: only root may change others' modes.
        file.set_permissions(Permissions::from_mode(ownership.mode))?;
        if (now.uid(), now.gid()) != (ownership.user, ownership.group) {
            fchown(&file, Some(ownership.user), Some(ownership.group))?;
        }
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        File::open(path)?.sync_all()
    }
}
