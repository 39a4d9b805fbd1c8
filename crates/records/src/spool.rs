//! The writer: records in, durable lines out.
//!
//! Lines wait in a batch until the disk has confirmed them, and no longer: a batch is written as it comes and made
//! durable when it is old or large enough. When an operation fails nothing is believed of what was not confirmed: the
//! file is cut off behind what was, and the batch is written again, later, until it is durable. So no record is there
//! twice, and none is given up. A batch that is full takes nothing more; what then waits is the caller's to bound.

use std::io;
use std::time::Duration;

use crate::entry::{Entry, LossCause, Lost};
use crate::line::{LONGEST_LINE, seal};
use crate::names::{MARK, final_name, open_name};
use crate::recovery::{Recovered, mark, recover};
use disk::Disk;

/// When the spool does what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A file gets its final name when it has this many octets. Default 64 MiB.
    pub file_octets: u64,
    /// Or when it is so old. Default 15 minutes.
    pub file_age: Duration,
    /// A batch is made durable when it has this many octets, and takes no more then. Default 1 MiB.
    pub batch_octets: usize,
    /// Or when its first record has waited for so long. Default 100 ms.
    pub batch_age: Duration,
    /// After how long an operation is tried again that failed. Default 1 s.
    pub retry: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            file_octets: 64 << 20,
            file_age: Duration::from_secs(15 * 60),
            batch_octets: 1 << 20,
            batch_age: Duration::from_millis(100),
            retry: Duration::from_secs(1),
        }
    }
}

/// What the spool has done since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records that are durable.
    pub written: u64,
    /// Their octets.
    pub octets: u64,
    /// Records in the batch.
    pub held: u64,
    /// Records that no line is long enough for.
    pub too_long: u64,
    /// Files that have got their final names.
    pub files: u64,
    /// How often the disk was asked to make a batch durable.
    pub syncs: u64,
    /// Operations that failed.
    pub failures: u64,
}

/// The file that is being written.
#[derive(Debug)]
struct File {
    name: String,
    since: Duration,
    /// Octets that are durable.
    durable: u64,
    /// Whether there may be octets behind them that are not those of the batch.
    is_doubtful: bool,
    /// Whether its name is durable.
    is_named: bool,
}

/// A spool that is being written.
#[derive(Debug)]
pub struct Spool<D> {
    disk: D,
    settings: Settings,
    file: Option<File>,
    batch: Vec<u8>,
    /// Octets of the batch that the disk has taken.
    taken: usize,
    /// When the batch's first record came.
    since: Option<Duration>,
    /// The number of the batch's first record.
    first: u64,
    /// That of the last record of all.
    last: Option<u64>,
    /// That of the last one that is durable.
    durable: Option<u64>,
    /// The numbers that the mark has: those of `last` and `durable`.
    marked: [Option<u64>; 2],
    retry_at: Option<Duration>,
    fault: Option<io::Error>,
    progress: Progress,
}

impl<D: Disk> Spool<D> {
    /// Opens the spool in `disk`, where the process before may have left it in any state. Records that it lost become
    /// a record of that, made at `time_ms` since 1970.
    ///
    /// # Errors
    /// The disk's. The spool can be opened again.
    pub fn open(
        mut disk: D,
        settings: Settings,
        now: Duration,
        time_ms: u64,
    ) -> io::Result<(Spool<D>, Recovered)> {
        let recovered = recover(&mut disk)?;
        let mut spool = Spool {
            disk,
            settings,
            file: None,
            batch: Vec::new(),
            taken: 0,
            since: None,
            first: 0,
            last: recovered.last,
            durable: recovered.last,
            marked: [None; 2],
            retry_at: None,
            fault: None,
            progress: Progress::default(),
        };
        if let Some((first, records)) = recovered.lost {
            let lost = Entry::Lost(Lost {
                time_ms,
                first,
                records,
                cause: LossCause::UncleanEnd,
            });
            spool.put(now, first.saturating_add(records), &lost);
        }
        Ok((spool, recovered))
    }

    /// The number of the next record.
    pub fn next(&self) -> u64 {
        self.last.map_or(0, |last| last.saturating_add(1))
    }

    /// Whether the batch takes another record.
    pub fn has_room(&self) -> bool {
        self.batch.len() < self.settings.batch_octets
    }

    /// Takes a record, whose number is higher than all before. Only when there is room ([`has_room`](Self::has_room)).
    pub fn put(&mut self, now: Duration, seq: u64, entry: &Entry) {
        if !seal(seq, entry, &mut self.batch) {
            self.progress.too_long += 1;
            return;
        }
        if self.progress.held == 0 {
            self.first = seq;
            self.since = Some(now);
        }
        self.last = Some(seq);
        self.progress.held += 1;
    }

    /// Writes what there is, and does what is due. A failure is reported by [`fault`](Self::fault), and tried again.
    pub fn poll(&mut self, now: Duration) {
        self.attempt(now, false);
    }

    /// Makes everything durable and gives the file its final name, if the disk lets it; answers whether it has.
    pub fn close(&mut self, now: Duration) -> bool {
        self.retry_at = None;
        self.attempt(now, true);
        self.fault.is_none() && self.batch.is_empty()
    }

    /// What failed last, until it succeeds.
    pub fn fault(&self) -> Option<&io::Error> {
        self.fault.as_ref()
    }

    /// When [`poll`](Self::poll) has something to do although nothing has come.
    pub fn poll_timeout(&self) -> Option<Duration> {
        if self.retry_at.is_some() {
            return self.retry_at;
        }
        let batch = self.since.map(|since| since + self.settings.batch_age);
        let file = self.file.as_ref().map(|file| file.since + self.settings.file_age);
        [batch, file].into_iter().flatten().min()
    }

    /// What it has done.
    pub fn progress(&self) -> Progress {
        self.progress
    }

    /// The disk.
    pub fn disk(&mut self) -> &mut D {
        &mut self.disk
    }

    fn attempt(&mut self, now: Duration, closes: bool) {
        if self.retry_at.is_some_and(|at| at > now) {
            return;
        }
        match self.advance(now, closes) {
            Ok(()) => (self.fault, self.retry_at) = (None, None),
            Err(error) => {
                self.progress.failures += 1;
                self.retry_at = Some(now + self.settings.retry);
                self.fault = Some(error);
                self.taken = 0;
                if let Some(file) = &mut self.file {
                    file.is_doubtful = true;
                }
            }
        }
    }

    fn advance(&mut self, now: Duration, closes: bool) -> io::Result<()> {
        if !self.batch.is_empty() {
            self.note_mark();
        }
        self.clear_doubts()?;
        if !self.batch.is_empty() {
            self.write(now)?;
            let is_old = self
                .since
                .is_some_and(|since| now >= since + self.settings.batch_age);
            if closes || is_old || !self.has_room() {
                self.make_durable()?;
            }
        }
        let is_due = |file: &File| {
            let is_large = file.durable >= self.settings.file_octets;
            closes || is_large || now >= file.since + self.settings.file_age
        };
        if self.batch.is_empty() && self.file.as_ref().is_some_and(is_due) {
            self.finish_file()?;
        }
        Ok(())
    }

    /// Truncates what may be behind the durable part: it is in the batch, and is written again. Where the file was
    /// taken away, with what is durable in it, it goes into another.
    fn clear_doubts(&mut self) -> io::Result<()> {
        let Some(file) = self.file.as_mut().filter(|file| file.is_doubtful) else {
            return Ok(());
        };
        match self.disk.truncate(&file.name, file.durable) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.file = None;
                return Ok(());
            }
            done => done?,
        }
        self.disk.sync(&file.name)?;
        file.is_doubtful = false;
        Ok(())
    }

    /// Notes how far records were taken, and how far they are durable. A mark that cannot be written costs only the
    /// count of what an unclean end loses, and takes files for lost that were taken away.
    fn note_mark(&mut self) {
        let marks = [self.last, self.durable];
        if self.marked != marks
            && let Some(last) = self.last
            && self.disk.overwrite(MARK, &mark(last, self.durable)).is_ok()
        {
            self.marked = marks;
        }
    }

    fn write(&mut self, now: Duration) -> io::Result<()> {
        if self.file.is_none() {
            let name = open_name(self.first);
            self.disk.create(&name)?;
            self.file = Some(File {
                name,
                since: now,
                durable: 0,
                is_doubtful: false,
                is_named: false,
            });
        }
        let Some(file) = &self.file else { return Ok(()) };
        while let Some(rest) = self.batch.get(self.taken..).filter(|rest| !rest.is_empty()) {
            match self.disk.append(&file.name, rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(octets) => self.taken += octets,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn make_durable(&mut self) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        self.progress.syncs += 1;
        self.disk.sync(&file.name)?;
        if !file.is_named {
            self.disk.sync_directory()?;
            file.is_named = true;
        }
        file.durable += self.batch.len() as u64;
        self.progress.octets += self.batch.len() as u64;
        self.progress.written += self.progress.held;
        self.progress.held = 0;
        self.batch.clear();
        self.batch.shrink_to(self.settings.batch_octets + LONGEST_LINE);
        self.taken = 0;
        self.since = None;
        self.durable = self.last;
        self.note_mark();
        Ok(())
    }

    /// Gives the file its final name. The name is not awaited: the next process to open the spool finds the file by
    /// either.
    fn finish_file(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        self.disk.rename(&file.name, &final_name(&file.name))?;
        self.file = None;
        self.progress.files += 1;
        self.disk.sync_directory()
    }
}
