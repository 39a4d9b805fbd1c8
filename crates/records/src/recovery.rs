//! What the process before has left: its last file is cut off behind the last whole record and gets its final name, and
//! what it had taken and not written is counted.

use std::io::{self, Read};

use crate::names::{MARK, final_name, is_file, is_open};
use crate::reader::Extent;
use disk::Disk;

/// How a spool was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Files that were being written when their process ended.
    pub unfinished: u64,
    /// Records in them.
    pub records: u64,
    /// Octets that were cut off behind the last whole record of each.
    pub torn_octets: u64,
    /// Lines within them that are no records. They stay.
    pub damaged: u64,
    /// The number of the last record there is, or was: files may have been taken away.
    pub last: Option<u64>,
    /// Records that the process before had taken and that are not there: the first and how many.
    pub lost: Option<(u64, u64)>,
}

pub(crate) fn recover(disk: &mut impl Disk) -> io::Result<Recovered> {
    let mut names: Vec<String> = disk.list()?.into_iter().filter(|name| is_file(name)).collect();
    names.sort_unstable();
    let mut found = Recovered::default();
    for name in names.iter().filter(|name| is_open(name)) {
        finish(disk, name, &mut found)?;
    }
    for name in names.iter().rev().filter(|name| !is_open(name)) {
        let extent = extent(disk, name)?;
        found.last = found.last.max(extent.last);
        if extent.last.is_some() {
            break;
        }
    }
    let marks = read_mark(disk).unwrap_or_default();
    // What was durable and is not there has been read and taken away.
    found.last = found.last.max(marks.durable);
    let next = found.last.map_or(0, |last| last.saturating_add(1));
    let marked = marks.taken.map_or(next, |taken| taken.saturating_add(1));
    found.lost = (marked > next).then(|| (next, marked - next));
    Ok(found)
}

/// Brings a file that was being written to its end. One without a record goes.
fn finish(disk: &mut impl Disk, name: &str, found: &mut Recovered) -> io::Result<()> {
    let extent = extent(disk, name)?;
    if extent.torn > 0 {
        disk.truncate(name, extent.good)?;
    }
    if extent.good == 0 {
        disk.remove(name)?;
    } else {
        disk.sync(name)?;
        disk.rename(name, &final_name(name))?;
    }
    disk.sync_directory()?;
    found.unfinished += 1;
    found.records += extent.records;
    found.torn_octets += extent.torn;
    found.damaged += extent.damaged;
    found.last = found.last.max(extent.last);
    Ok(())
}

/// What a file has. The error names a file that cannot be read: one that belongs to another user, perhaps.
fn extent(disk: &mut impl Disk, name: &str) -> io::Result<Extent> {
    let named = |error: io::Error| io::Error::new(error.kind(), format!("{name}: {error}"));
    Extent::of(disk.read(name).map_err(named)?).map_err(named)
}

/// What the mark says of the process before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    /// The number of the last record that it had taken.
    pub(crate) taken: Option<u64>,
    /// That of the last one that was durable.
    pub(crate) durable: Option<u64>,
}

/// Octets of the mark.
const MARK_OCTETS: usize = 51;
/// Octets of one that says only what was taken, as earlier versions wrote it.
const SHORT_MARK: usize = 30;

/// The octets of the mark: the number of the last record that was taken, that behind the last one that is durable, and
/// their check sum. Always as many.
pub(crate) fn mark(taken: u64, durable: Option<u64>) -> [u8; MARK_OCTETS] {
    let behind = durable.map_or(0, |durable| durable.saturating_add(1));
    sealed(&format!("{taken:020} {behind:020}"))
}

fn sealed<const N: usize>(numbers: &str) -> [u8; N] {
    let text = format!("{numbers} {:08x}\n", crc32c::crc32c(numbers.as_bytes()));
    let mut octets = [b'\n'; N];
    octets
        .iter_mut()
        .zip(text.bytes())
        .for_each(|(to, from)| *to = from);
    octets
}

/// What the mark says. One that is damaged, or not there, says nothing.
fn read_mark(disk: &mut impl Disk) -> Option<Marks> {
    let mut octets = Vec::new();
    let most = MARK_OCTETS as u64;
    disk.read(MARK).ok()?.take(most).read_to_end(&mut octets).ok()?;
    let number = |at: usize| {
        std::str::from_utf8(octets.get(at..at + 20)?)
            .ok()?
            .parse::<u64>()
            .ok()
    };
    let taken = number(0)?;
    if octets.len() == SHORT_MARK {
        let is_whole = octets == sealed::<SHORT_MARK>(&format!("{taken:020}"));
        return is_whole.then_some(Marks {
            taken: Some(taken),
            durable: None,
        });
    }
    let durable = number(21)?.checked_sub(1);
    (octets == mark(taken, durable)).then_some(Marks {
        taken: Some(taken),
        durable,
    })
}
