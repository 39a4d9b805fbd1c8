//! A directory of the file system.

use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, OFlags, fallocate};
use rustix::io::Errno;

use crate::disk::Disk;
use crate::handle::DirectoryHandle;
use crate::reads::DirectoryReads;

/// A directory of the file system. Only its owner and root can change it and what is in it, which is looked at when the
/// directory and when a file is opened; files go by the open directory, and a symbolic link is never followed.
#[derive(Debug)]
pub struct Directory {
    handle: DirectoryHandle,
    /// The file that is being appended to.
    appended: Open,
    /// The file that is being written at any place.
    placed: Open,
    overwritten: Open,
    /// Held as long as the writer lives: two would write the same names.
    lock: File,
}

/// A file that stays open, by its name.
type Open = Option<(String, File)>;

const LOCK: &str = "lock";

/// A child of this process has copies of its files until it begins, and with them the lock: closing it here is not
/// enough.
impl Drop for Directory {
    fn drop(&mut self) {
        let _ = self.lock.unlock();
    }
}

impl Directory {
    /// The directory at `path`, which is made if it is not there. It is this process's until it is dropped.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] when another process has it; [`io::ErrorKind::NotADirectory`] when a
    /// symbolic link or a file has the name; [`io::ErrorKind::PermissionDenied`] when another user than this one and
    /// root has the directory, or group or others may write.
    pub fn open(path: &Path) -> io::Result<Directory> {
        DirBuilder::new().recursive(true).mode(0o750).create(path)?;
        let handle = DirectoryHandle::to_write(path)?;
        let lock = handle.lock(LOCK)?;
        Ok(Directory {
            handle,
            appended: None,
            placed: None,
            overwritten: None,
            lock,
        })
    }

    /// A reader of its files at any place, for another thread too.
    ///
    /// # Errors
    /// The system's.
    pub fn reads(&self) -> io::Result<DirectoryReads> {
        Ok(DirectoryReads::new(self.handle.try_clone()?))
    }

    /// Octets that this user can still write on its file system. A quota is not seen by it, except that of a project.
    ///
    /// # Errors
    /// The system's.
    pub fn free_octets(&self) -> io::Result<u64> {
        self.handle.free_octets()
    }

    /// Makes a file that has this many octets of the disk, or gives them to one that has fewer. What they say is no
    /// matter: the file is to be removed or cut when others need the room.
    ///
    /// # Errors
    /// The system's: the file may have a part then.
    pub fn reserve(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let file = self.handle.write(name, OFlags::CREATE)?;
        match fallocate(&file, FallocateFlags::empty(), 0, octets) {
            Err(error) if error == Errno::OPNOTSUPP => fill(&file, octets)?,
            done => done?,
        }
        file.sync_all()
    }

    /// Opens a file that there is, to be read and written at any place: by a library that has its own form of files.
    ///
    /// # Errors
    /// The system's, with the name; as [`append`](Disk::append), when it is no regular file or not this user's alone.
    pub fn read_and_write(&self, name: &str) -> io::Result<File> {
        self.handle.read_and_write(name)
    }

    /// The lock has its name still; else it is taken anew, as another process could have it by that name.
    fn keep_lock(&mut self) -> io::Result<()> {
        if !self.handle.is_named(LOCK, &self.lock)? {
            self.lock = self.handle.lock(LOCK)?;
        }
        Ok(())
    }

    /// Writes octets at any place of a file that there is, which grows where they end behind its end. Returns how many.
    ///
    /// # Errors
    /// The system's; as [`append`](Disk::append), when it is no regular file or not this user's alone.
    pub fn write_at(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<usize> {
        opened(&mut self.placed, &self.handle, name, OFlags::empty())?.write_at(octets, offset)
    }

    fn appended(&mut self, name: &str) -> io::Result<&mut File> {
        opened(&mut self.appended, &self.handle, name, OFlags::APPEND)
    }

    /// The file, as it was opened to be written last.
    fn written(&mut self, name: &str) -> io::Result<&mut File> {
        match &self.placed {
            Some((open, _)) if open == name => opened(&mut self.placed, &self.handle, name, OFlags::empty()),
            _ => self.appended(name),
        }
    }

    /// The name is not, or no longer, that of a file that is open.
    fn close(&mut self, name: &str) {
        self.appended = None;
        self.placed.take_if(|(open, _)| open == name);
    }
}

/// The open file, if it has this name; else the file of this name, which stays open.
fn opened<'f>(
    open: &'f mut Open,
    handle: &DirectoryHandle,
    name: &str,
    flags: OFlags,
) -> io::Result<&'f mut File> {
    if let Some((found, file)) = open
        && found == name
        && file.metadata()?.nlink() == 0
    {
        let words = format!("{found}: was removed while it was written");
        *open = None;
        return Err(io::Error::new(io::ErrorKind::NotFound, words));
    }
    if open.as_ref().is_none_or(|(found, _)| found != name) {
        *open = Some((name.to_owned(), handle.write(name, flags)?));
    }
    let file = open.as_mut().map(|(_, file)| file);
    file.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Writes octets that no file system stores in less room.
fn fill(file: &File, octets: u64) -> io::Result<()> {
    let mut from = file.metadata()?.len();
    let mut drawn = from | 1;
    while from < octets {
        let mut chunk = [0; 4096];
        for octet in &mut chunk {
            drawn = drawn.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            *octet = drawn.to_be_bytes()[0];
        }
        file.write_all_at(&chunk, from)?;
        from += chunk.len() as u64;
    }
    Ok(())
}

impl Disk for Directory {
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.handle.names()
    }

    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        Ok(Box::new(self.handle.read(name)?))
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.close(name);
        self.keep_lock()?;
        let file = self.handle.create(name)?;
        self.appended = Some((name.to_owned(), file));
        Ok(())
    }

    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        self.appended(name)?.write(octets)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.written(name)?.sync_data()
    }

    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let file = self.written(name)?;
        if file.metadata()?.len() < octets {
            let words = format!("{name}: is shorter than what was written to it");
            return Err(io::Error::new(io::ErrorKind::InvalidData, words));
        }
        file.set_len(octets)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.close(from);
        self.close(to);
        self.handle.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.close(name);
        self.handle.remove(name)
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.handle.sync()
    }

    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        let is_gone = |file: &File| file.metadata().map_or(true, |found| found.nlink() == 0);
        if self
            .overwritten
            .as_ref()
            .is_none_or(|(open, file)| open != name || is_gone(file))
        {
            let file = self.handle.write(name, OFlags::CREATE)?;
            self.overwritten = Some((name.to_owned(), file));
        }
        match &self.overwritten {
            Some((_, file)) => file.write_all_at(octets, 0),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::path::PathBuf;

    use super::*;

    /// A directory of this test alone, taken away in the end.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("disk-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir(&path).unwrap();
            Self(path)
        }

        fn spool(&self) -> PathBuf {
            self.0.join("spool")
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_symbolic_link_in_place_of_the_directory_is_refused() {
        let scratch = Scratch::new("link");
        fs::create_dir(scratch.0.join("other")).unwrap();
        symlink(scratch.0.join("other"), scratch.spool()).unwrap();
        for spelling in [scratch.spool(), scratch.0.join("spool/")] {
            let error = Directory::open(&spelling).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
            assert!(
                error
                    .to_string()
                    .ends_with("is a symbolic link; expected: a directory"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_directory_that_others_may_write_is_refused() {
        let scratch = Scratch::new("mode");
        fs::create_dir(scratch.spool()).unwrap();
        for mode in [0o770, 0o702, 0o1777] {
            fs::set_permissions(scratch.spool(), fs::Permissions::from_mode(mode)).unwrap();
            let error = Directory::open(&scratch.spool()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
            assert!(
                error.to_string().contains(&format!("mode {mode:04o}; expected")),
                "{error}"
            );
        }
        fs::set_permissions(scratch.spool(), fs::Permissions::from_mode(0o750)).unwrap();
        Directory::open(&scratch.spool()).unwrap();
    }

    #[test]
    fn another_users_directory_and_file_are_refused() {
        if rustix::process::geteuid().as_raw() != 0 {
            // Only root can give files away.
            return;
        }
        let scratch = Scratch::new("owner");
        fs::create_dir(scratch.spool()).unwrap();
        std::os::unix::fs::chown(scratch.spool(), Some(65_534), None).unwrap();
        let error = Directory::open(&scratch.spool()).unwrap_err();
        assert!(error.to_string().contains("user 65534"), "{error}");
        std::os::unix::fs::chown(scratch.spool(), Some(0), None).unwrap();
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        let file = scratch.spool().join("a");
        fs::write(&file, "a line").unwrap();
        std::os::unix::fs::chown(&file, Some(65_534), None).unwrap();
        let refused = [
            directory.append("a", b"x").err(),
            directory.read("a").err(),
            directory.overwrite("a", b"x").err(),
        ];
        for error in refused {
            assert_eq!(error.expect("refused").kind(), io::ErrorKind::PermissionDenied);
        }
        assert_eq!(fs::read(&file).unwrap(), b"a line");
    }

    #[test]
    fn what_is_no_file_of_one_name_is_neither_read_nor_written() {
        let scratch = Scratch::new("kinds");
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        let outside = scratch.0.join("outside");
        fs::write(&outside, "dear").unwrap();
        symlink(&outside, scratch.spool().join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            scratch.spool().join("fifo"),
            rustix::fs::FileType::Fifo,
            0o600.into(),
            0,
        )
        .unwrap();
        for name in ["link", "fifo"] {
            let refused = [
                directory.append(name, b"x").err(),
                directory.read(name).err(),
                directory.overwrite(name, b"x").err(),
                directory.read_and_write(name).err(),
            ];
            for error in refused {
                let error = error.expect("refused").to_string();
                assert!(
                    error.starts_with(name) && error.ends_with("expected: a regular file"),
                    "{error}"
                );
            }
        }
        fs::hard_link(&outside, scratch.spool().join("hard")).unwrap();
        let error = directory.append("hard", b"x").unwrap_err();
        assert!(error.to_string().contains("2 names"), "{error}");
        assert_eq!(fs::read(&outside).unwrap(), b"dear");
    }

    /// What is at the path of a new file is removed, and what it led to stays as it was.
    #[test]
    fn a_new_file_takes_the_place_of_a_link() {
        let scratch = Scratch::new("new");
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        let outside = scratch.0.join("outside");
        fs::write(&outside, "dear").unwrap();
        symlink(&outside, scratch.spool().join("new")).unwrap();
        directory.create("new").unwrap();
        directory.append("new", b"a line").unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"dear");
        let made = scratch.spool().join("new");
        assert_eq!(fs::read(&made).unwrap(), b"a line");
        assert_eq!(made.symlink_metadata().unwrap().permissions().mode() & 0o137, 0);
    }

    /// Other files that are made and removed meanwhile are others.
    #[test]
    fn a_file_is_written_at_any_place() {
        let scratch = Scratch::new("placed");
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        directory.create("a").unwrap();
        assert_eq!(directory.write_at("a", 0, b"abcdef").unwrap(), 6);
        directory.create("b").unwrap();
        directory.append("b", b"b").unwrap();
        directory.remove("b").unwrap();
        assert_eq!(directory.write_at("a", 2, b"CDEFGH").unwrap(), 6);
        directory.sync("a").unwrap();
        assert_eq!(fs::read(scratch.spool().join("a")).unwrap(), b"abCDEFGH");
        directory.truncate("a", 3).unwrap();
        directory.append("a", b"x").unwrap();
        assert_eq!(fs::read(scratch.spool().join("a")).unwrap(), b"abCx");
        // It is not what was written to it.
        let longer = directory.truncate("a", 5).unwrap_err();
        assert_eq!(longer.kind(), io::ErrorKind::InvalidData);
        fs::remove_file(scratch.spool().join("a")).unwrap();
        let gone = directory.write_at("a", 0, b"x").unwrap_err();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
        directory.create("a").unwrap();
        directory.write_at("a", 0, b"y").unwrap();
        assert_eq!(fs::read(scratch.spool().join("a")).unwrap(), b"y");
    }

    /// As by `mv spool/* elsewhere`.
    #[test]
    fn what_is_taken_away_is_made_anew() {
        let scratch = Scratch::new("taken");
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        directory.create("a").unwrap();
        directory.overwrite("mark", b"1").unwrap();
        for name in ["a", "mark", "lock"] {
            fs::remove_file(scratch.spool().join(name)).unwrap();
        }
        for _ in 0..2 {
            assert_eq!(
                directory.append("a", b"x").unwrap_err().kind(),
                io::ErrorKind::NotFound
            );
        }
        directory.overwrite("mark", b"2").unwrap();
        directory.create("b").unwrap();
        assert_eq!(fs::read(scratch.spool().join("mark")).unwrap(), b"2");
        assert_eq!(
            Directory::open(&scratch.spool()).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        let mode = scratch
            .spool()
            .join("lock")
            .metadata()
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    /// As a child of the process has it until it begins.
    #[test]
    fn a_copy_of_the_lock_does_not_keep_it() {
        let scratch = Scratch::new("copy");
        let directory = Directory::open(&scratch.spool()).unwrap();
        let _copy = directory.lock.try_clone().unwrap();
        drop(directory);
        Directory::open(&scratch.spool()).unwrap();
    }

    /// Files go to the directory that was opened, or nowhere.
    #[test]
    fn a_directory_in_the_place_of_the_open_one_gets_no_file() {
        let scratch = Scratch::new("place");
        let mut directory = Directory::open(&scratch.spool()).unwrap();
        fs::rename(scratch.spool(), scratch.0.join("away")).unwrap();
        fs::create_dir(scratch.spool()).unwrap();
        let error = directory.create("new").unwrap_err();
        assert!(error.to_string().contains("no longer the directory"), "{error}");
        assert_eq!(fs::read_dir(scratch.spool()).unwrap().count(), 0);
    }
}
