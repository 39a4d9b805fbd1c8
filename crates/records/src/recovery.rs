//! What the process before has left: its last file is cut off behind the last whole record and gets its final name, and
//! what it had taken and not written is counted.

use std::io::{self, Read};

use crate::disk::Disk;
use crate::names::{MARK, final_name, is_file, is_open};
use crate::reader::Extent;

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
    /// The number of the last record there is.
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
        let extent = Extent::of(disk.read(name)?)?;
        found.last = found.last.max(extent.last);
        if extent.last.is_some() {
            break;
        }
    }
    let next = found.last.map_or(0, |last| last + 1);
    let marked = read_mark(disk).map_or(next, |taken| taken.saturating_add(1));
    found.lost = (marked > next).then(|| (next, marked - next));
    Ok(found)
}

/// Brings a file that was being written to its end. One without a record goes.
fn finish(disk: &mut impl Disk, name: &str, found: &mut Recovered) -> io::Result<()> {
    let extent = Extent::of(disk.read(name)?)?;
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

/// The octets of the mark: the number in digits, and its check sum. Always as many.
pub(crate) fn mark(taken: u64) -> [u8; 30] {
    let number = format!("{taken:020}");
    let text = format!("{number} {:08x}\n", crc32c::crc32c(number.as_bytes()));
    let mut octets = [b'\n'; 30];
    octets
        .iter_mut()
        .zip(text.bytes())
        .for_each(|(to, from)| *to = from);
    octets
}

/// The number of the last record that was taken. One that is damaged, or not there, says nothing.
fn read_mark(disk: &mut impl Disk) -> Option<u64> {
    let mut octets = Vec::new();
    disk.read(MARK).ok()?.take(30).read_to_end(&mut octets).ok()?;
    let number = std::str::from_utf8(octets.get(..20)?).ok()?.parse().ok()?;
    (octets == mark(number)).then_some(number)
}
