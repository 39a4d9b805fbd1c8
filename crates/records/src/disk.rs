//! The directory underneath a spool.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Records name subscribers: they are not everybody's to read.
const MODE: u32 = 0o640;

/// What a spool does to its directory. Files go by their names in it.
///
/// What [`sync`](Disk::sync) has confirmed of a file survives whatever happens then, once
/// [`sync_directory`](Disk::sync_directory) has confirmed its name; of everything else nothing, a part or all does.
pub trait Disk {
    /// The names of the files.
    ///
    /// # Errors
    /// The system's; so for all of these.
    fn list(&mut self) -> io::Result<Vec<String>>;
    /// Opens a file to be read from its beginning.
    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>>;
    /// Makes an empty file, also where there is one of this name.
    fn create(&mut self, name: &str) -> io::Result<()>;
    /// Adds octets at the end of a file; answers how many.
    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize>;
    /// Makes what a file has durable.
    fn sync(&mut self, name: &str) -> io::Result<()>;
    /// Cuts a file off behind so many octets.
    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()>;
    /// Gives a file another name.
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove(&mut self, name: &str) -> io::Result<()>;
    /// Makes the names durable.
    fn sync_directory(&mut self) -> io::Result<()>;
    /// Writes over the beginning of a small file, which is made where there is none. Nothing waits for it to be
    /// durable.
    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()>;
}

/// A directory of the file system.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    /// The file that is being appended to.
    appended: Option<(String, File)>,
    overwritten: Option<(String, File)>,
    /// Held as long as the spool lives: two would write the same numbers.
    _lock: File,
}

impl Directory {
    /// The directory at `path`, which is made if it is not there. It is this process's until it is dropped.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] when another process has it.
    pub fn open(path: &Path) -> io::Result<Directory> {
        DirBuilder::new().recursive(true).mode(0o750).create(path)?;
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(MODE)
            .open(path.join("lock"))?;
        lock.try_lock()?;
        Ok(Directory {
            path: path.to_owned(),
            appended: None,
            overwritten: None,
            _lock: lock,
        })
    }

    fn appended(&mut self, name: &str) -> io::Result<&mut File> {
        if self.appended.as_ref().is_none_or(|(open, _)| open != name) {
            let file = OpenOptions::new().append(true).open(self.path.join(name))?;
            self.appended = Some((name.to_owned(), file));
        }
        let file = self.appended.as_mut().map(|(_, file)| file);
        file.ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Directory {
    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        Ok(Box::new(File::open(self.path.join(name))?))
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.appended = None;
        let mut how = OpenOptions::new();
        how.create(true).truncate(true).write(true).mode(MODE);
        how.open(self.path.join(name)).map(drop)
    }

    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        self.appended(name)?.write(octets)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        self.appended(name)?.sync_data()
    }

    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        self.appended(name)?.set_len(octets)
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.appended = None;
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.appended = None;
        fs::remove_file(self.path.join(name))
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        if self.overwritten.as_ref().is_none_or(|(open, _)| open != name) {
            let mut how = OpenOptions::new();
            let file = how
                .create(true)
                .truncate(false)
                .write(true)
                .open(self.path.join(name))?;
            self.overwritten = Some((name.to_owned(), file));
        }
        match &self.overwritten {
            Some((_, file)) => file.write_all_at(octets, 0),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }
}
