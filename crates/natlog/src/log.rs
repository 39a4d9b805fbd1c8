//! The writer: what is given to it is durable when the call returns.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use disk::{Directory, Disk};
use flow::VrfId;

use crate::event::{Answer, Assignment, Event, Gap};
use crate::fault::{Fault, LogError};
use crate::file::{ReadFile, WrittenFile};
use crate::form::{BlockKey, block_key, read, time_in};
use crate::names::{PART, name_of, start_of};
use crate::reader::NatLogReader;
use crate::tables::{self, OpenEntry, Tables};

/// Open assignments that are taken from one file to another, or compared, in one step.
const STEP: usize = 16_384;

/// Octets in memory of a file that is only looked at.
const CLOSED_CACHE: usize = 1 << 20;

/// How the log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A file has the events of so long, from a multiple of it since 1970 on. Default a day, at least a second.
    pub period: Duration,
    /// A file is removed when all that it has is older. Default 180 days.
    pub retention: Duration,
    /// Octets of the file that is written which are kept in memory. Default 64 MiB.
    pub cache_octets: usize,
}

impl Default for Settings {
    fn default() -> Self {
        let day = Duration::from_hours(24);
        Self {
            period: day,
            retention: day * 180,
            cache_octets: 64 << 20,
        }
    }
}

impl Settings {
    fn period_ms(&self) -> u64 {
        millis(self.period).max(1_000)
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// What was different between the log and what is assigned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reconciled {
    /// Open assignments of the log that are as they were.
    pub kept: u64,
    /// Open assignments of the log that are no more; they ended at the last time that was written, or when a gap began.
    pub closed: u64,
    /// Assignments that the log did not have.
    pub added: u64,
    /// Of this time not all is known: the process before did not end in order, or had lost events.
    pub gap: Option<Gap>,
}

/// Of times from a moment on not all is known, until all blocks that are held have been reported.
struct OpenGap {
    from: u64,
    lost: u64,
    /// Blocks that were reported since as assigned or held.
    told: HashSet<BlockKey>,
}

/// The log that a process writes.
pub struct NatLog {
    path: PathBuf,
    settings: Settings,
    /// When the files begin, and the latest time that is in each, where it is known.
    starts: BTreeMap<u64, Option<u64>>,
    /// Those that are open, by their start.
    files: BTreeMap<u64, WrittenFile>,
    /// The latest time that was written.
    last: u64,
    unknown: u64,
    gap: Option<OpenGap>,
    set_back: Option<SetBack>,
    reader: Option<NatLogReader>,
    /// The last to be dropped: another process may write the log then.
    directory: Directory,
}

/// The clock was before what the log had when it was opened, and the process before did not end in order: what it has
/// of the times between is of both processes, until it is marked with a time behind that.
#[derive(Clone, Copy)]
struct SetBack {
    /// The start of the gap.
    from: u64,
    /// The latest time that the log had.
    last: u64,
}

impl NatLog {
    /// Opens the log in the directory at `path`, which is made if it is not there, at `now_ms`, when the blocks of
    /// `open` and no others are assigned: what the log says otherwise is put right first, which an end of the process
    /// or the machine has left so. An assignment of `open` that the log has keeps the start it has there. Of the times
    /// behind the last that was written not all is known, unless the log was [ended](Self::end).
    ///
    /// # Errors
    /// The system's, of kind [`WouldBlock`](std::io::ErrorKind::WouldBlock) when another process writes the log, and
    /// those of [`Directory::open`]; a file that cannot be used is named, and may be taken away.
    pub fn open(
        path: &Path,
        settings: Settings,
        now_ms: u64,
        open: &[Assignment],
    ) -> Result<(Self, Reconciled), LogError> {
        let mut directory = Directory::open(path)?;
        let names = directory.list()?;
        if names.iter().any(|name| name == PART) {
            directory.remove(PART)?;
        }
        let mut log = Self {
            path: path.to_owned(),
            settings,
            starts: names
                .iter()
                .filter_map(|name| Some((start_of(name)?, None)))
                .collect(),
            files: BTreeMap::new(),
            last: 0,
            unknown: 0,
            gap: None,
            set_back: None,
            reader: None,
            directory,
        };
        log.repair();
        let reconciled = log.reconcile(now_ms, open)?;
        log.mark(now_ms)?;
        Ok((log, reconciled))
    }

    /// Writes what happened, which is durable then. An error may leave the first of the events written: all of them may
    /// be given again.
    ///
    /// Events come in the order of their times, but for the clock: one of a period before is written to the files of
    /// that period and of all behind it.
    ///
    /// # Errors
    /// Of a file; see [`LogError`].
    pub fn append(&mut self, events: &[Event]) -> Result<(), LogError> {
        let mut rest = events;
        while let Some(first) = rest.first() {
            let start = self.start_for(first.at_ms())?;
            self.ensure(start, first.at_ms())?;
            let mut len = 1;
            while let Some(next) = rest.get(len)
                && self.start_for(next.at_ms())? == start
            {
                len += 1;
            }
            let (group, behind) = rest.split_at(len);
            self.write(start, group)?;
            rest = behind;
        }
        Ok(())
    }

    /// Says that nothing else has happened until `now_ms`. An assignment that is not open any more when the log is
    /// opened again counts as one that ended at the last time written; so this is to be called now and then.
    ///
    /// # Errors
    /// Of a file; see [`LogError`].
    pub fn mark(&mut self, now_ms: u64) -> Result<(), LogError> {
        let start = self.start_for(now_ms)?;
        self.ensure(start, now_ms)?;
        self.change(start, now_ms, |_| Ok(()))?;
        match self.set_back {
            // One of lost events ends both.
            Some(SetBack { from, last }) if last < now_ms && self.gap.is_none() => {
                let start = self.start_for(from)?;
                self.change_from(start, 0, |tables| tables.end_gaps(now_ms))?;
                self.set_back = None;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Events from this time on were not given and never will be, of which `lost` are known. All times from then on are
    /// a gap, until [`end_gap`](Self::end_gap); a further loss in it makes it no other.
    ///
    /// Behind this the caller gives all blocks that are held, as [`Event::Held`], among the events that follow.
    ///
    /// # Errors
    /// Of a file; see [`LogError`].
    pub fn lose(&mut self, from_ms: u64, lost: u64) -> Result<(), LogError> {
        let before = self.gap.as_ref();
        let gap = Gap {
            from_ms: before.map_or(from_ms, |before| before.from.min(from_ms)),
            to_ms: None,
            lost: before.map_or(0, |before| before.lost).saturating_add(lost),
        };
        self.put_gap(gap)?;
        // What was reported before this loss may have changed.
        self.gap = Some(OpenGap {
            from: gap.from_ms,
            lost: gap.lost,
            told: HashSet::new(),
        });
        Ok(())
    }

    /// All blocks that are held have been given since the last [loss](Self::lose), and all events: from `at_ms` on all
    /// is known again. What the log has as open and was not given has ended when the gap began. Answers how many
    /// assignments that are; 0 without a gap.
    ///
    /// # Errors
    /// Of a file; see [`LogError`]. It may be called again.
    pub fn end_gap(&mut self, at_ms: u64) -> Result<u64, LogError> {
        let Some(OpenGap { from, .. }) = self.gap else {
            return Ok(0);
        };
        let before = self.set_back.map_or(from, |set_back| set_back.last.max(from));
        let at = at_ms.max(before.saturating_add(1));
        let start = self.start_for(at)?;
        self.ensure(start, at)?;
        let Some(latest) = self.latest() else { return Ok(0) };
        let told = self.gap.take();
        let is_told = |key: &BlockKey, _: &Assignment| {
            let told = told.as_ref();
            told.is_some_and(|gap| gap.told.contains(key))
        };
        let ended = self.not_held(latest, (from, at), is_told);
        self.gap = told;
        let ended = ended?;
        let first = self.start_for(from)?;
        let unknown = self.unknown;
        for step in ended.chunks(STEP) {
            self.write(first, step)?;
        }
        self.unknown = unknown;
        let all_from = self.set_back.map_or(from, |set_back| set_back.from.min(from));
        let all_first = self.start_for(all_from)?;
        self.change_from(all_first, at, |tables| tables.end_gaps(at))?;
        (self.gap, self.set_back) = (None, None);
        Ok(ended.len() as u64)
    }

    /// Nothing else has happened until `now_ms`, and the log is not written behind that: then no block is held.
    ///
    /// # Errors
    /// Of a file; see [`LogError`].
    pub fn end(mut self, now_ms: u64) -> Result<(), LogError> {
        self.mark(now_ms)?;
        let start = self.start_for(now_ms)?;
        self.change_from(start, now_ms, |tables| tables.set_ended(true))
    }

    /// Who held a port of a public address at a time; see [`NatLogReader::at`].
    ///
    /// # Errors
    /// As there.
    pub fn at(
        &mut self,
        time_ms: u64,
        vrf: VrfId,
        address: Ipv4Addr,
        port: u16,
    ) -> Result<Option<Answer>, LogError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(NatLogReader::open(&self.path)?),
        };
        reader.at(time_ms, vrf, address, port)
    }

    /// Blocks that were released and that were not assigned by the log, which has nothing of that.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// The start of the file that has events of this time. There may be none yet.
    fn start_for(&mut self, at: u64) -> Result<u64, LogError> {
        let start = at - at % self.settings.period_ms();
        let there = self.starts.range(..=at).next_back();
        let Some((there, last)) = there.map(|(there, last)| (*there, *last)) else {
            return Ok(start);
        };
        // Of another period that was configured before.
        if start <= there {
            return Ok(there);
        }
        let last = match last {
            Some(last) => last,
            None => self.file(there)?.read(tables::last)?,
        };
        self.starts.insert(there, Some(last));
        // A file does not begin before what is already in the one before it.
        Ok(if start <= last { there } else { start })
    }

    fn write(&mut self, start: u64, events: &[Event]) -> Result<(), LogError> {
        let last = events.iter().map(Event::at_ms).max().unwrap_or(0);
        let lost_from = self.gap.as_ref().map(|gap| gap.from);
        let mut unknown = 0;
        self.change_from(start, last, |tables| {
            unknown += tables.apply(events, lost_from)?;
            Ok(())
        })?;
        self.unknown += unknown;
        if let Some(gap) = &mut self.gap {
            let held = |event: &&Event| !matches!(event, Event::Released { .. });
            gap.told.extend(events.iter().filter(held).map(tables::key_of));
        }
        // Files of periods before are closed.
        self.files.retain(|open, _| *open >= start);
        Ok(())
    }

    /// Changes the file that begins then, and all behind it.
    fn change_from(
        &mut self,
        start: u64,
        last: u64,
        mut work: impl FnMut(&mut Tables<'_>) -> Result<(), Fault>,
    ) -> Result<(), LogError> {
        let starts: Vec<u64> = self.starts.range(start..).map(|(start, _)| *start).collect();
        for start in starts {
            self.change(start, last, &mut work)?;
        }
        Ok(())
    }

    /// States a gap in all files that have a time of it.
    fn put_gap(&mut self, gap: Gap) -> Result<(), LogError> {
        let start = self.start_for(gap.from_ms)?;
        self.ensure(start, gap.from_ms)?;
        self.change_from(start, gap.from_ms, |tables| tables.put_gap(gap))
    }

    /// Changes a file that there is, in which `last` is the latest time then if no other is later. After an error it is
    /// opened anew for the next change.
    fn change<T>(
        &mut self,
        start: u64,
        last: u64,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, Fault>,
    ) -> Result<T, LogError> {
        let done = self.file(start)?.write(|tables| {
            tables.mark(last)?;
            work(tables)
        });
        if done.is_err() {
            self.files.remove(&start);
        } else {
            self.last = self.last.max(last);
            if let Some(Some(known)) = self.starts.get_mut(&start) {
                *known = last.max(*known);
            }
        }
        done
    }

    fn file(&mut self, start: u64) -> Result<&WrittenFile, LogError> {
        match self.files.entry(start) {
            Entry::Occupied(open) => Ok(open.into_mut()),
            Entry::Vacant(none) => {
                let name = name_of(start);
                let file = self.directory.read_and_write(&name)?;
                Ok(none.insert(WrittenFile::open(&name, file, self.settings.cache_octets, false)?))
            }
        }
    }

    /// Makes the file that begins at this time, if it is not there: with all assignments that are open. Of the first
    /// one not all is known before `at`.
    fn ensure(&mut self, start: u64, at: u64) -> Result<(), LogError> {
        if self.starts.contains_key(&start) {
            return Ok(());
        }
        self.directory.create(PART)?;
        let octets = self.directory.read_and_write(PART)?;
        let mut made = WrittenFile::open(PART, octets, self.settings.cache_octets, true)?;
        made.write(|tables| tables.mark(0))?;
        if let Some(latest) = self.latest() {
            let source = self.file(latest)?;
            each_step(source, |open| made.write(|tables| tables.take_over(open)))?;
            let gaps = source.read(|transaction| tables::gaps_behind(transaction, start))?;
            made.write(|tables| gaps.iter().try_for_each(|gap| tables.put_gap(*gap)))?;
            self.begin_before(start, latest, &made)?;
        } else {
            made.write(|tables| tables.begin(at))?;
        }
        let name = name_of(start);
        self.directory.rename(PART, &name)?;
        self.directory.sync_directory()?;
        made.set_name(&name);
        self.files.insert(start, made);
        self.starts.insert(start, None);
        self.retire(start)
    }

    /// A file before all others, as the clock was set back, leaves open when the log began.
    fn begin_before(&mut self, start: u64, latest: u64, made: &WrittenFile) -> Result<(), LogError> {
        let oldest = self.starts.first_key_value().map(|(oldest, _)| *oldest);
        let Some(oldest) = oldest.filter(|oldest| start < *oldest) else {
            return Ok(());
        };
        let first = self.file(oldest)?.read(tables::first)?;
        if oldest != latest {
            self.files.remove(&oldest);
        }
        made.write(|tables| tables.begin(first.unwrap_or(oldest)))
    }

    /// Removes files of which all is older than the retention at `now`. A clock that leaps ahead removes no more than
    /// what the next period would.
    fn retire(&mut self, now: u64) -> Result<(), LogError> {
        let now = now.min(self.last.saturating_add(self.settings.period_ms()));
        let oldest = now.saturating_sub(millis(self.settings.retention));
        while let Some(first) = self.first_retired(oldest) {
            self.files.remove(&first);
            self.directory.remove(&name_of(first))?;
            self.starts.remove(&first);
        }
        Ok(())
    }

    /// The start of the first file, if the second began at `oldest` or before.
    fn first_retired(&self, oldest: u64) -> Option<u64> {
        let mut starts = self.starts.keys();
        let first = starts.next()?;
        starts.next().filter(|second| **second <= oldest)?;
        Some(*first)
    }

    fn latest(&self) -> Option<u64> {
        self.starts.last_key_value().map(|(start, _)| *start)
    }

    /// Closes files of periods before that a crash has left open, which readers refuse. What is wrong with others is
    /// said when they are asked.
    fn repair(&mut self) {
        let starts: Vec<u64> = self.starts.keys().rev().skip(1).copied().collect();
        for start in starts {
            let name = name_of(start);
            let file = self.directory.read_and_write(&name);
            let is_closed = file.is_ok_and(|file| ReadFile::open(&name, file, CLOSED_CACHE).is_ok());
            if !is_closed {
                let _ = self.file(start);
                self.files.remove(&start);
            }
        }
    }

    fn reconcile(&mut self, now: u64, open: &[Assignment]) -> Result<Reconciled, LogError> {
        let keyed = open.iter().map(|assignment| (key_of(assignment), assignment));
        let mut missing: HashMap<BlockKey, &Assignment> = keyed.collect();
        let mut events = Vec::new();
        let mut gap = None;
        let start = match self.latest() {
            Some(latest) => {
                gap = self.gap_before(latest, now)?;
                let last = self.last;
                // A clock that was set back says nothing of when they ended.
                let from = gap.map_or(last, |gap: Gap| gap.to_ms.map_or(last, |_| gap.from_ms));
                events = self.not_held(latest, (from, last), |key, known| {
                    let is_held = missing.get(key).is_some_and(|is| is_same(known, is));
                    if is_held {
                        missing.remove(key);
                    }
                    is_held
                })?;
                latest
            }
            None => self.start_for(now)?,
        };
        let closed = events.len() as u64;
        let added = missing.len() as u64;
        // In the order of their keys they are written several times as fast.
        let mut missing: Vec<_> = missing.into_values().cloned().collect();
        missing.sort_unstable_by_key(key_of);
        events.extend(missing.into_iter().map(Event::Assigned));
        self.ensure(start, now)?;
        if let Some(gap) = gap {
            let start = self.start_for(gap.from_ms)?;
            self.change_from(start, 0, |tables| {
                tables.put_gap(gap)?;
                gap.to_ms.map_or(Ok(()), |to| tables.end_gaps(to))
            })?;
        }
        for step in events.chunks(STEP) {
            self.write(start, step)?;
        }
        self.change_from(start, 0, |tables| tables.set_ended(false))?;
        Ok(Reconciled {
            kept: open.len() as u64 - added,
            closed,
            added,
            gap,
        })
    }

    /// What the process before has left unknown, which began `latest`.
    fn gap_before(&mut self, latest: u64, now: u64) -> Result<Option<Gap>, LogError> {
        let (last, is_ended, gaps) = self.file(latest)?.read(|transaction| {
            let open = tables::gaps_behind(transaction, u64::MAX)?;
            Ok((tables::last(transaction)?, tables::is_ended(transaction)?, open))
        })?;
        self.last = last;
        let is_open = !gaps.is_empty();
        let from = gaps.iter().map(|gap| gap.from_ms).min();
        let from = from.map_or(last, |from| from.min(last));
        if !is_open && is_ended {
            return Ok(None);
        }
        // The clock may have been set back: what is between is of both processes.
        let from = from.min(now);
        self.set_back = (now <= last).then_some(SetBack { from, last });
        Ok(Some(Gap {
            from_ms: from,
            to_ms: (last < now).then_some(now),
            lost: gaps.iter().map(|gap| gap.lost).max().unwrap_or(0),
        }))
    }

    /// What ends the assignments that a file has as open and that are not held: those that were there at the first
    /// time then, others at the second one.
    fn not_held(
        &mut self,
        start: u64,
        (from, at): (u64, u64),
        mut is_held: impl FnMut(&BlockKey, &Assignment) -> bool,
    ) -> Result<Vec<Event>, LogError> {
        let file = self.file(start)?;
        let mut ended = Vec::new();
        each_step(file, |entries| {
            for (key, value) in entries {
                let known = read(*key, time_in(value).unwrap_or(0), value);
                let known = known.ok_or_else(|| tables::NO_VALUE.of(&name_of(start)))?;
                if !is_held(key, &known) {
                    ended.push(Event::Released {
                        at_ms: if known.since_ms < from { from } else { at },
                        vrf: known.vrf,
                        block: known.block,
                        holder: known.holder,
                    });
                }
            }
            Ok(())
        })?;
        Ok(ended)
    }
}

fn key_of(assignment: &Assignment) -> BlockKey {
    let block = &assignment.block;
    block_key(assignment.vrf, block.address, block.first)
}

/// Whether the log has this assignment, which may have begun at another time by what the caller knows.
fn is_same(known: &Assignment, is: &Assignment) -> bool {
    let of = |assignment: &Assignment| {
        let holder = &assignment.holder;
        (assignment.block.bits, holder.inside, holder.seid)
    };
    of(known) == of(is)
}

/// Does something with all open assignments of a file, a number of them at a time.
fn each_step(
    file: &WrittenFile,
    mut work: impl FnMut(&[OpenEntry]) -> Result<(), LogError>,
) -> Result<(), LogError> {
    let mut after = None;
    loop {
        let entries = file.read(|transaction| tables::open_after(transaction, after, STEP))?;
        let Some((last, _)) = entries.last() else {
            return Ok(());
        };
        after = Some(*last);
        work(&entries)?;
    }
}
