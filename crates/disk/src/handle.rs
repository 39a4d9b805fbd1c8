//! A directory that is open, and how its files are opened: by the open directory, so that another
//! directory in its place changes nothing; never through a symbolic link; and only regular files.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, fchmod, fstatvfs, openat, renameat, statat, unlinkat,
};
use rustix::process::geteuid;

/// Permissions to write of the group and of others.
const OTHERS_WRITE: u32 = 0o022;
/// Files name subscribers: only the daemon's user and group may read them.
const MODE: u32 = 0o640;
/// Who may read a file may lock it, too.
const LOCK_MODE: u32 = 0o600;

/// The name of the directory in errors: the caller that reports them knows its path.
const DIRECTORY: &str = "the directory";

/// What every file is opened with besides: no symbolic link is followed, and no FIFO is waited for.
const CAREFULLY: OFlags = OFlags::NOFOLLOW
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// A directory, open.
#[derive(Debug)]
pub struct DirectoryHandle {
    path: PathBuf,
    directory: File,
    /// Whether what is in it must be safe from other users.
    is_guarded: bool,
}

impl DirectoryHandle {
    /// The directory at `path`, to read what there is: any user's.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::NotADirectory`] when it is something else or a symbolic link.
    pub fn to_read(path: &Path) -> io::Result<DirectoryHandle> {
        // Without the slash behind it, for which the system would follow a link.
        let path: PathBuf = path.components().collect();
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | CAREFULLY;
        let opened = openat(CWD, &path, flags, Mode::empty()).map_err(|error| {
            let found = path.symlink_metadata().ok();
            match found.filter(|found| !found.is_dir()) {
                Some(found) => {
                    let kind = FileType::from_raw_mode(found.mode());
                    wrong(
                        io::ErrorKind::NotADirectory,
                        Path::new(DIRECTORY),
                        kind,
                        "a directory",
                    )
                }
                None => error.into(),
            }
        })?;
        Ok(DirectoryHandle {
            path,
            directory: File::from(opened),
            is_guarded: false,
        })
    }

    /// The same for writers: only this user and root may be able to change it.
    ///
    /// # Errors
    /// As [`to_read`](Self::to_read); [`io::ErrorKind::PermissionDenied`] when its owner is neither this user nor root,
    /// or its mode lets the group or others write, with both and what is expected.
    pub(crate) fn to_write(path: &Path) -> io::Result<DirectoryHandle> {
        let mut handle = DirectoryHandle::to_read(path)?;
        handle.is_guarded = true;
        handle.check()?;
        Ok(handle)
    }

    /// Another handle of the same open directory.
    pub(crate) fn try_clone(&self) -> io::Result<DirectoryHandle> {
        Ok(DirectoryHandle {
            path: self.path.clone(),
            directory: self.directory.try_clone()?,
            is_guarded: self.is_guarded,
        })
    }

    /// Octets that this user can still write on the directory's file system.
    pub(crate) fn free_octets(&self) -> io::Result<u64> {
        let found = fstatvfs(&self.directory)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// Whether the directory is still safe, and still what is found at its path.
    pub(crate) fn check(&self) -> io::Result<()> {
        let directory = Path::new(DIRECTORY);
        let metadata = self.directory.metadata()?;
        check_owner(directory, &metadata)?;
        let found = self.path.symlink_metadata()?;
        if (found.dev(), found.ino()) != (metadata.dev(), metadata.ino()) {
            let words = "is no longer the directory that was opened: put that one back, or start again";
            return Err(named(directory, io::Error::new(io::ErrorKind::NotFound, words)));
        }
        Ok(())
    }

    /// The names of what it holds, in no order; what has no name in UTF-8 is left out.
    ///
    /// # Errors
    /// The system's.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
        }
        names.retain(|name| name != "." && name != "..");
        Ok(names)
    }

    /// Opens a file to be read from its beginning.
    ///
    /// # Errors
    /// The system's, with the name; [`io::ErrorKind::InvalidInput`] when it is no regular file, which is found before
    /// it is opened, or a symbolic link. For writers also [`io::ErrorKind::PermissionDenied`], as of the directory.
    pub fn read(&self, name: &str) -> io::Result<File> {
        let (file, metadata) = self.open(name, OFlags::RDONLY)?;
        if self.is_guarded {
            check_owner(Path::new(name), &metadata)?;
        }
        Ok(file)
    }

    /// Opens a file to be written, which there may be, with `flags` besides. Octets that are written are no other
    /// file's: it has one name.
    pub(crate) fn write(&self, name: &str, flags: OFlags) -> io::Result<File> {
        self.write_by(name, OFlags::WRONLY | flags)
    }

    /// The same, to be read at any place, too.
    pub(crate) fn read_and_write(&self, name: &str) -> io::Result<File> {
        self.write_by(name, OFlags::RDWR)
    }

    fn write_by(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let (file, metadata) = self.open(name, flags)?;
        check_owner(Path::new(name), &metadata)?;
        if metadata.nlink() != 1 {
            let words = format!("has {} names (hard links); expected: one", metadata.nlink());
            return Err(named(
                Path::new(name),
                io::Error::new(io::ErrorKind::InvalidInput, words),
            ));
        }
        Ok(file)
    }

    /// Opens the file of this name for its lock, which is this user's alone, and takes the lock.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] when another process has it.
    pub(crate) fn lock(&self, name: &str) -> io::Result<File> {
        let file = self.write(name, OFlags::CREATE)?;
        fchmod(&file, Mode::from_raw_mode(LOCK_MODE))?;
        file.try_lock()?;
        Ok(file)
    }

    /// Whether the name is still that of this file.
    pub(crate) fn is_named(&self, name: &str, file: &File) -> io::Result<bool> {
        let metadata = file.metadata()?;
        let found = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        Ok(found.is_ok_and(|found| (found.st_dev, found.st_ino) == (metadata.dev(), metadata.ino())))
    }

    /// Makes a file, to append to it. What has its name loses it.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        self.check()?;
        match self.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        self.write(name, OFlags::CREATE | OFlags::EXCL | OFlags::APPEND)
    }

    /// Gives a file another name; what had that loses it.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check()?;
        let renamed = renameat(&self.directory, from, &self.directory, to);
        renamed.map_err(|error| named(Path::new(from), error.into()))
    }

    /// Removes a file, or a symbolic link.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        let removed = unlinkat(&self.directory, name, AtFlags::empty());
        removed.map_err(|error| named(Path::new(name), error.into()))
    }

    /// Makes the names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.directory.sync_all()
    }

    fn open(&self, name: &str, flags: OFlags) -> io::Result<(File, Metadata)> {
        let file = Path::new(name);
        // Before it is opened, as that alone has an effect on some devices; behind, because it may be another by then.
        if let Ok(found) = statat(&self.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            check_kind(file, FileType::from_raw_mode(found.st_mode))?;
        }
        let opened = openat(
            &self.directory,
            name,
            flags | CAREFULLY,
            Mode::from_raw_mode(MODE),
        );
        let opened = File::from(opened.map_err(|error| named(file, error.into()))?);
        let metadata = opened.metadata().map_err(|error| named(file, error))?;
        check_kind(file, FileType::from_raw_mode(metadata.mode()))?;
        Ok((opened, metadata))
    }
}

/// The error, with the path in front.
fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// What is at `path` is not what it must be.
fn wrong(kind: io::ErrorKind, path: &Path, found: FileType, expected: &str) -> io::Error {
    let found = match found {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "of an unknown kind",
    };
    io::Error::new(
        kind,
        format!("{}: is {found}; expected: {expected}", path.display()),
    )
}

fn check_kind(path: &Path, found: FileType) -> io::Result<()> {
    match found {
        FileType::RegularFile => Ok(()),
        found => Err(wrong(io::ErrorKind::InvalidInput, path, found, "a regular file")),
    }
}

/// Whether only this user and root can change what the metadata are of.
fn check_owner(path: &Path, metadata: &Metadata) -> io::Result<()> {
    let (ours, owner, mode) = (geteuid().as_raw(), metadata.uid(), metadata.mode() & 0o7777);
    if (owner == ours || owner == 0) && mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    let users = if ours == 0 {
        "user 0".to_owned()
    } else {
        format!("user {ours} or 0")
    };
    let words = format!(
        "{}: user {owner}, mode {mode:04o}; expected: {users}, not writable by group or others",
        path.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, words))
}
