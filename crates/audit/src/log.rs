//! The writer: each line is durable when its caller returns.

use std::io;
use std::path::Path;

use disk::{Directory, Disk};

use crate::entry::Entry;
use crate::files::{HEAD, Tail, file_name, is_file, read_head, tail};
use crate::line::{Head, LONGEST_LINE, line};

/// How a log was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Octets behind the last whole line of the last file, which were removed.
    pub torn_octets: u64,
    /// Lines that `head` knew and that are not there. Their numbers are not given again.
    pub missing: u64,
}

/// The log that a process writes.
#[derive(Debug)]
pub struct AuditLog<D = Directory> {
    disk: D,
    file_octets: u64,
    /// The file that is being written, and its octets that are durable; none: the next line begins one.
    file: Option<File>,
    /// The last line.
    head: Head,
    /// Lines that could not be written.
    missed: u64,
}

#[derive(Debug)]
struct File {
    name: String,
    octets: u64,
    /// Whether there may be octets behind the durable ones.
    is_doubtful: bool,
}

impl AuditLog {
    /// Opens the log in the directory at `path`, which is made if it is not there, and writes that it was.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::WouldBlock`] when another process has it, and those of
    /// [`Directory::open`].
    pub fn open(path: &Path, file_octets: u64, version: &str, time_ms: u64) -> io::Result<(Self, Found)> {
        Self::open_on(Directory::open(path)?, file_octets, version, time_ms)
    }
}

impl<D: Disk> AuditLog<D> {
    /// The same, on any disk.
    ///
    /// # Errors
    /// The disk's.
    pub fn open_on(mut disk: D, file_octets: u64, version: &str, time_ms: u64) -> io::Result<(Self, Found)> {
        let mut names: Vec<String> = disk.list()?.into_iter().filter(|name| is_file(name)).collect();
        names.sort_unstable();
        let known = match disk.read(HEAD) {
            Ok(file) => read_head(file).ok().flatten(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut log = Self {
            disk,
            file_octets,
            file: None,
            head: Head {
                seq: 0,
                hash: [0; 32],
            },
            missed: 0,
        };
        let mut found = Found::default();
        for name in names.iter().rev() {
            let Tail { head, whole, torn } = tail(log.disk.read(name)?)?;
            if torn > 0 {
                log.disk.truncate(name, whole)?;
                log.disk.sync(name)?;
                found.torn_octets += torn;
            }
            let Some(head) = head else {
                continue;
            };
            log.head = head;
            log.file = Some(File {
                name: name.clone(),
                octets: whole,
                is_doubtful: false,
            });
            break;
        }
        let last = known.map_or(0, |head| head.seq);
        found.missing = last.saturating_sub(log.head.seq);
        log.head.seq += found.missing;
        let start = Entry::Start {
            version: version.to_owned(),
            torn_octets: found.torn_octets,
            missing: found.missing,
        };
        log.append(time_ms, &start)?;
        Ok((log, found))
    }

    /// The last line.
    pub fn head(&self) -> Head {
        self.head
    }

    /// Lines that could not be written, and of which no line says so yet.
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Writes what happened; returns the number of its line, which is durable then. Where lines before could not be
    /// written a line says so first.
    ///
    /// # Errors
    /// The disk's: there is no line then, and it is counted as missed.
    pub fn append(&mut self, time_ms: u64, entry: &Entry) -> io::Result<u64> {
        let written = self.make_up(time_ms).and_then(|()| self.write(time_ms, entry));
        if written.is_err() {
            self.missed += 1;
            if let Some(file) = &mut self.file {
                file.is_doubtful = true;
            }
        }
        written
    }

    /// Says what was missed.
    fn make_up(&mut self, time_ms: u64) -> io::Result<()> {
        if self.missed > 0 {
            let missed = Entry::Missed { count: self.missed };
            self.write(time_ms, &missed)?;
            self.missed = 0;
        }
        Ok(())
    }

    fn write(&mut self, time_ms: u64, entry: &Entry) -> io::Result<u64> {
        let seq = self.head.seq + 1;
        let mut octets = line(self.head.hash, seq, time_ms, entry);
        if octets.len() >= LONGEST_LINE {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the line is too long",
            ));
        }
        let head = Head::of(seq, &octets);
        octets.push(b'\n');
        self.clear_doubts()?;
        if self
            .file
            .as_ref()
            .is_none_or(|file| file.octets >= self.file_octets)
        {
            let name = file_name(seq);
            self.disk.create(&name)?;
            self.disk.sync_directory()?;
            self.file = Some(File {
                name,
                octets: 0,
                is_doubtful: false,
            });
        }
        let Some(file) = &mut self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let mut rest = octets.as_slice();
        while !rest.is_empty() {
            match self.disk.append(&file.name, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(taken) => rest = rest.get(taken..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.disk.sync(&file.name)?;
        file.octets += octets.len() as u64;
        self.head = head;
        // A head that cannot be written is one that `verify` finds behind the lines, which is no fault of theirs.
        let _ = self.disk.overwrite(HEAD, format!("{head}\n").as_bytes());
        Ok(seq)
    }

    /// Removes what may be behind the durable lines.
    fn clear_doubts(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|file| file.is_doubtful) else {
            return Ok(());
        };
        match self.disk.truncate(&file.name, file.octets) {
            // It was taken away, with what is in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.file = None,
            done => {
                done?;
                file.is_doubtful = false;
            }
        }
        Ok(())
    }
}
