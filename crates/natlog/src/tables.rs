//! The tables of a file, and what an event changes in them.
//!
//! Assignments that are open are in one table by their block, those that have ended in another by block and start. So
//! an event changes few pages whatever the file holds, and what is open is found without a search.

use std::net::Ipv4Addr;

use flow::VrfId;
use redb::{ReadOnlyTable, ReadTransaction, ReadableTable, Table, TableDefinition, WriteTransaction};

use crate::event::{Answer, Assignment, Event, Found, Gap};
use crate::fault::{Fault, LogError};
use crate::form::{
    BlockKey, EndedKey, bits_in, block_key, ended_key, is_same_holder, read, start_in, time_in, with_time,
    write_value,
};

const OPEN: TableDefinition<&BlockKey, &[u8]> = TableDefinition::new("open");
const ENDED: TableDefinition<&EndedKey, &[u8]> = TableDefinition::new("ended");
const ABOUT: TableDefinition<&str, u64> = TableDefinition::new("about");
/// Times of which not all is known, by their start: their end ([`NO_END`]: none yet), and how many events are lost.
const GAPS: TableDefinition<u64, (u64, u64)> = TableDefinition::new("gaps");
const NO_END: u64 = u64::MAX;
type GapTable = ReadOnlyTable<u64, (u64, u64)>;

/// The largest block is half of the ports: 2 to the power of this.
const MOST_BITS: u8 = 15;

/// The version of the form.
const ABOUT_VERSION: &str = "version";
/// When the log began, in its first file; files behind it have all since they begin.
const ABOUT_FIRST: &str = "first";
/// The latest time that was written.
const ABOUT_LAST: &str = "last";
/// The sizes of blocks that the file has: bit k for blocks of 2^k ports.
const ABOUT_SIZES: &str = "sizes";
/// The process ended in order at the latest time that was written.
const ABOUT_ENDED: &str = "ended";

/// What is said of a value that no log writes.
pub(crate) const NO_VALUE: Fault = Fault::Damaged("a value is none of an assignment");

/// An open assignment as it is stored.
pub(crate) type OpenEntry = (BlockKey, Vec<u8>);

/// The tables in a transaction that writes.
pub(crate) struct Tables<'t> {
    open: Table<'t, &'static BlockKey, &'static [u8]>,
    ended: Table<'t, &'static EndedKey, &'static [u8]>,
    about: Table<'t, &'static str, u64>,
    gaps: Table<'t, u64, (u64, u64)>,
    sizes: u64,
    value: Vec<u8>,
}

impl<'t> Tables<'t> {
    /// Those of a file, which are made where they are not there.
    pub(crate) fn of(transaction: &'t WriteTransaction) -> Result<Self, Fault> {
        let mut about = transaction.open_table(ABOUT)?;
        match number(&about, ABOUT_VERSION)? {
            Some(LogError::VERSION) => {}
            None | Some(1..LogError::VERSION) => drop(about.insert(ABOUT_VERSION, LogError::VERSION)?),
            Some(version) => return Err(Fault::Version(version)),
        }
        Ok(Self {
            open: transaction.open_table(OPEN)?,
            ended: transaction.open_table(ENDED)?,
            gaps: transaction.open_table(GAPS)?,
            sizes: number(&about, ABOUT_SIZES)?.unwrap_or(0),
            about,
            value: Vec::new(),
        })
    }

    /// Does what happened; returns how many blocks were released that were not assigned. An assignment whose end was
    /// lost ended at `lost_from`, from when on not all is known.
    ///
    /// What happened is done by blocks, in the order of their keys: neighbours are in one page, and a page is changed
    /// many times for each time that it is written.
    pub(crate) fn apply(&mut self, events: &[Event], lost_from: Option<u64>) -> Result<u64, Fault> {
        let mut order: Vec<(BlockKey, u32)> = events.iter().map(key_of).zip(0..).collect();
        order.sort_unstable();
        let (sizes, mut unknown) = (self.sizes, 0);
        for (key, place) in order {
            let Some(event) = events.get(place as usize) else {
                continue;
            };
            let known = match event {
                Event::Assigned(assignment) => {
                    self.set_value(assignment);
                    self.assign(key, assignment.since_ms)?;
                    true
                }
                Event::Held(assignment) => {
                    self.set_value(assignment);
                    self.hold(key, assignment.since_ms, lost_from)?;
                    true
                }
                Event::Released { at_ms, .. } => self.release(key, *at_ms)?,
            };
            unknown += u64::from(!known);
        }
        if sizes != self.sizes {
            self.about.insert(ABOUT_SIZES, self.sizes)?;
        }
        Ok(unknown)
    }

    /// States a gap. One that begins then is as long as the longer of both.
    pub(crate) fn put_gap(&mut self, gap: Gap) -> Result<(), Fault> {
        let before = self.gaps.get(gap.from_ms)?.map(|before| before.value());
        let lost = before.map_or(0, |(_, lost)| lost).max(gap.lost);
        self.gaps
            .insert(gap.from_ms, (gap.to_ms.unwrap_or(NO_END), lost))?;
        Ok(())
    }

    /// What is open of gaps ends at a time.
    pub(crate) fn end_gaps(&mut self, at: u64) -> Result<(), Fault> {
        let mut open = Vec::new();
        for entry in self.gaps.iter()? {
            let (from, value) = entry?;
            let (to, lost) = value.value();
            if to == NO_END {
                open.push((from.value(), lost));
            }
        }
        for (from, lost) in open {
            self.gaps.insert(from, (at, lost))?;
        }
        Ok(())
    }

    /// Whether the process has ended in order.
    pub(crate) fn set_ended(&mut self, is_ended: bool) -> Result<(), Fault> {
        self.about.insert(ABOUT_ENDED, u64::from(is_ended))?;
        Ok(())
    }

    /// Before this time not all is known.
    pub(crate) fn begin(&mut self, at: u64) -> Result<(), Fault> {
        self.about.insert(ABOUT_FIRST, at)?;
        Ok(())
    }

    /// The latest time becomes at least this.
    pub(crate) fn mark(&mut self, at: u64) -> Result<(), Fault> {
        let last = number(&self.about, ABOUT_LAST)?;
        if last.is_none_or(|last| last < at) {
            self.about.insert(ABOUT_LAST, at)?;
        }
        Ok(())
    }

    /// Takes over what is open in another file.
    pub(crate) fn take_over(&mut self, open: &[OpenEntry]) -> Result<(), Fault> {
        for (key, value) in open {
            self.sizes |= 1 << bits_in(value).ok_or(NO_VALUE)?;
            self.open.insert(key, value.as_slice())?;
        }
        self.about.insert(ABOUT_SIZES, self.sizes)?;
        Ok(())
    }

    /// What is to be stored is of this assignment.
    fn set_value(&mut self, assignment: &Assignment) {
        let bits = assignment.block.bits.min(MOST_BITS);
        self.sizes |= 1 << bits;
        write_value(&mut self.value, assignment.since_ms, bits, &assignment.holder);
    }

    fn assign(&mut self, key: BlockKey, at: u64) -> Result<(), Fault> {
        let Some(before) = self.open.insert(&key, self.value.as_slice())? else {
            return Ok(());
        };
        let start = time_in(before.value()).ok_or(NO_VALUE)?;
        // The same start: it is the same assignment, which is written again.
        if start != at {
            with_time(&mut self.value, at.max(start), before.value());
            self.ended.insert(&ended_key(key, start), self.value.as_slice())?;
        }
        Ok(())
    }

    fn hold(&mut self, key: BlockKey, at: u64, lost_from: Option<u64>) -> Result<(), Fault> {
        let before = self.open.get(&key)?.map(|before| before.value().to_vec());
        if before
            .as_ref()
            .is_some_and(|before| is_same_holder(before, &self.value))
        {
            return Ok(());
        }
        self.open.insert(&key, self.value.as_slice())?;
        if let Some(before) = before {
            let start = time_in(&before).ok_or(NO_VALUE)?;
            let end = lost_from.filter(|from| start < *from).unwrap_or(at);
            with_time(&mut self.value, end.max(start), &before);
            self.ended.insert(&ended_key(key, start), self.value.as_slice())?;
        }
        Ok(())
    }

    fn release(&mut self, key: BlockKey, at: u64) -> Result<bool, Fault> {
        let Some(before) = self.open.remove(&key)? else {
            return Ok(false);
        };
        let start = time_in(before.value()).ok_or(NO_VALUE)?;
        with_time(&mut self.value, at.max(start), before.value());
        self.ended.insert(&ended_key(key, start), self.value.as_slice())?;
        Ok(true)
    }
}

/// The block of an event.
pub(crate) fn key_of(event: &Event) -> BlockKey {
    match event {
        Event::Assigned(Assignment { vrf, block, .. })
        | Event::Held(Assignment { vrf, block, .. })
        | Event::Released { vrf, block, .. } => block_key(*vrf, block.address, block.first),
    }
}

fn number(about: &impl ReadableTable<&'static str, u64>, name: &str) -> Result<Option<u64>, Fault> {
    Ok(about.get(name)?.map(|value| value.value()))
}

fn checked_about(transaction: &ReadTransaction) -> Result<ReadOnlyTable<&'static str, u64>, Fault> {
    let about = transaction.open_table(ABOUT)?;
    match number(&about, ABOUT_VERSION)? {
        Some(1..=LogError::VERSION) => Ok(about),
        Some(version) => Err(Fault::Version(version)),
        None => Err(Fault::Damaged("it has no version")),
    }
}

/// The latest time that was written.
pub(crate) fn last(transaction: &ReadTransaction) -> Result<u64, Fault> {
    Ok(number(&checked_about(transaction)?, ABOUT_LAST)?.unwrap_or(0))
}

/// When the log began, of its first file.
pub(crate) fn first(transaction: &ReadTransaction) -> Result<Option<u64>, Fault> {
    number(&checked_about(transaction)?, ABOUT_FIRST)
}

/// Whether the process that wrote the file has ended in order.
pub(crate) fn is_ended(transaction: &ReadTransaction) -> Result<bool, Fault> {
    Ok(number(&checked_about(transaction)?, ABOUT_ENDED)? == Some(1))
}

/// The gaps that end behind a time, in order.
pub(crate) fn gaps_behind(transaction: &ReadTransaction, time: u64) -> Result<Vec<Gap>, Fault> {
    let mut gaps = Vec::new();
    let Some(table) = gap_table(transaction)? else {
        return Ok(gaps);
    };
    for entry in table.iter()? {
        let (from, value) = entry?;
        let gap = gap(from.value(), value.value());
        if gap.to_ms.is_none_or(|to| time < to) {
            gaps.push(gap);
        }
    }
    Ok(gaps)
}

fn gap(from_ms: u64, (to, lost): (u64, u64)) -> Gap {
    let to_ms = (to != NO_END).then_some(to);
    Gap { from_ms, to_ms, lost }
}

/// Files of version 1 have none.
fn gap_table(transaction: &ReadTransaction) -> Result<Option<GapTable>, Fault> {
    match transaction.open_table(GAPS) {
        Err(redb::TableError::TableDoesNotExist(_)) => Ok(None),
        table => Ok(Some(table?)),
    }
}

/// The gap that has this time; of several the one that began last.
fn gap_at(transaction: &ReadTransaction, time: u64) -> Result<Option<Gap>, Fault> {
    let Some(table) = gap_table(transaction)? else {
        return Ok(None);
    };
    for entry in table.range(..=time)?.rev() {
        let (from, value) = entry?;
        let gap = gap(from.value(), value.value());
        if gap.to_ms.is_none_or(|to| time < to) {
            return Ok(Some(gap));
        }
    }
    Ok(None)
}

/// At most `most` open assignments, those behind `after`, in order.
pub(crate) fn open_after(
    transaction: &ReadTransaction,
    after: Option<BlockKey>,
    most: usize,
) -> Result<Vec<OpenEntry>, Fault> {
    let open = transaction.open_table(OPEN)?;
    let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
    let from = from.as_ref();
    let mut entries = Vec::new();
    for entry in open
        .range::<&BlockKey>((from, std::ops::Bound::Unbounded))?
        .take(most)
    {
        let (key, value) = entry?;
        entries.push((*key.value(), value.value().to_vec()));
    }
    Ok(entries)
}

/// The assignment that was in force at a time, and whether all is known of it.
pub(crate) fn at(
    transaction: &ReadTransaction,
    time: u64,
    vrf: VrfId,
    address: Ipv4Addr,
    port: u16,
) -> Result<Answer, Fault> {
    Ok(Answer {
        found: found_at(transaction, time, vrf, address, port)?,
        gap: gap_at(transaction, time)?,
        is_held_around_gap: false,
    })
}

/// Each size of blocks of the file has one candidate, and of several the one that began last is it.
pub(crate) fn found_at(
    transaction: &ReadTransaction,
    time: u64,
    vrf: VrfId,
    address: Ipv4Addr,
    port: u16,
) -> Result<Option<Found>, Fault> {
    let sizes = number(&checked_about(transaction)?, ABOUT_SIZES)?.unwrap_or(0);
    let open = transaction.open_table(OPEN)?;
    let ended = transaction.open_table(ENDED)?;
    let mut best: Option<Found> = None;
    for bits in (0..=MOST_BITS).filter(|bits| sizes >> bits & 1 == 1) {
        let key = block_key(vrf, address, port >> bits << bits);
        let found = match open_at(&open, key, time)? {
            None => ended_at(&ended, key, time)?,
            found => found,
        };
        let Some(found) = found.filter(|found| found.assignment.block.ports().contains(&port)) else {
            continue;
        };
        let since = |found: &Found| found.assignment.since_ms;
        if best.as_ref().is_none_or(|best| since(best) < since(&found)) {
            best = Some(found);
        }
    }
    Ok(best)
}

fn open_at(
    open: &impl ReadableTable<&'static BlockKey, &'static [u8]>,
    key: BlockKey,
    time: u64,
) -> Result<Option<Found>, Fault> {
    let Some(value) = open.get(&key)? else {
        return Ok(None);
    };
    let start = time_in(value.value()).ok_or(NO_VALUE)?;
    if time < start {
        return Ok(None);
    }
    let assignment = read(key, start, value.value()).ok_or(NO_VALUE)?;
    Ok(Some(Found {
        assignment,
        until_ms: None,
    }))
}

fn ended_at(
    ended: &impl ReadableTable<&'static EndedKey, &'static [u8]>,
    key: BlockKey,
    time: u64,
) -> Result<Option<Found>, Fault> {
    let (first, last) = (ended_key(key, 0), ended_key(key, time));
    let Some(entry) = ended.range::<&EndedKey>(&first..=&last)?.next_back() else {
        return Ok(None);
    };
    let (ended_key, value) = entry?;
    let end = time_in(value.value()).ok_or(NO_VALUE)?;
    if end <= time {
        return Ok(None);
    }
    let assignment = read(key, start_in(ended_key.value()), value.value()).ok_or(NO_VALUE)?;
    Ok(Some(Found {
        assignment,
        until_ms: Some(end),
    }))
}
