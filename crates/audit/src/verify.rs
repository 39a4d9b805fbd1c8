//! Reading and checking the files of a log.

use std::io::{self, Read};

use crate::entry::Entry;
use crate::files::{HEAD, Lines, RawLine, is_file, read_head};
use crate::line::{Head, Line, LineFault, read_line};

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// A line of a file, counted from 1, and what is wrong with it.
    Line {
        /// The file.
        file: String,
        /// Its line.
        line: u64,
        /// What is wrong.
        fault: LineFault,
    },
    /// A process found fewer lines than `head` knew: the line that says so, and how many were missing.
    Missing {
        /// The number of the line that says so.
        seq: u64,
        /// How many were missing.
        lines: u64,
    },
    /// `head` knows of lines behind the last one: their number.
    Cut(u64),
    /// The last line, or that of a head that was kept elsewhere, is another than it was.
    Replaced(u64),
    /// The line of a head that was kept elsewhere is not there.
    Absent(u64),
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Lines that are whole.
    pub lines: u64,
    /// The number of the first line. Those before it were taken away with their files, or never were.
    pub first: Option<u64>,
    /// The last line.
    pub last: Option<Head>,
    /// What is wrong, the first 1,000.
    pub findings: Vec<Finding>,
}

const MOST_FINDINGS: usize = 1_000;

impl Verified {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.findings.is_empty()
    }

    fn note(&mut self, finding: Finding) {
        if self.findings.len() < MOST_FINDINGS {
            self.findings.push(finding);
        }
    }
}

/// Checks the files of a log, of which `names` are all of its directory and `open` opens one. `kept` is a head that was
/// kept elsewhere, whose line must be there as it was.
///
/// # Errors
/// Those of `open` and of reading.
pub fn verify<R: Read>(
    names: Vec<String>,
    mut open: impl FnMut(&str) -> io::Result<R>,
    kept: Option<Head>,
) -> io::Result<Verified> {
    let head = match names.iter().any(|name| name == HEAD) {
        true => read_head(open(HEAD)?)?,
        false => None,
    };
    let mut found = Verified::default();
    let mut is_there = false;
    walk(names, open, |file, number, raw| {
        let fault = |fault| Finding::Line {
            file: file.to_owned(),
            line: number,
            fault,
        };
        if !raw.is_whole {
            found.note(fault(LineFault::Torn));
            return true;
        }
        let (line, before) = match read_line(&raw.octets) {
            Ok(read) => read,
            Err(why) => {
                found.note(fault(why));
                return true;
            }
        };
        let missing = match &line.entry {
            Entry::Start { missing, .. } => *missing,
            _ => 0,
        };
        if missing > 0 {
            found.note(Finding::Missing {
                seq: line.seq,
                lines: missing,
            });
        }
        if let Some(last) = found.last {
            if last.hash != before {
                found.note(fault(LineFault::Chain));
            }
            if last.seq.saturating_add(missing).saturating_add(1) != line.seq {
                found.note(fault(LineFault::Number));
            }
        }
        let this = Head::of(line.seq, &raw.octets);
        if let Some(kept) = kept.filter(|kept| kept.seq == line.seq) {
            is_there = true;
            if kept != this {
                found.note(Finding::Replaced(line.seq));
            }
        }
        found.lines += 1;
        found.first.get_or_insert(line.seq);
        found.last = Some(this);
        true
    })?;
    let last = found.last.map_or(0, |last| last.seq);
    match head {
        Some(head) if head.seq > last => found.note(Finding::Cut(head.seq - last)),
        Some(head) if head.seq == last && found.last != Some(head) => found.note(Finding::Replaced(last)),
        // It was not written: a line is durable before its head.
        _ => {}
    }
    if let Some(kept) = kept.filter(|_| !is_there) {
        found.note(Finding::Absent(kept.seq));
    }
    Ok(found)
}

/// Gives each line that can be read to `take`, until that returns false.
///
/// # Errors
/// As [`verify`].
pub fn read<R: Read>(
    names: Vec<String>,
    open: impl FnMut(&str) -> io::Result<R>,
    mut take: impl FnMut(&Line, &[u8]) -> bool,
) -> io::Result<()> {
    walk(names, open, |_, _, raw| match read_line(&raw.octets) {
        Ok((line, _)) => take(&line, &raw.octets),
        Err(_) => true,
    })
}

fn walk<R: Read>(
    mut names: Vec<String>,
    mut open: impl FnMut(&str) -> io::Result<R>,
    mut take: impl FnMut(&str, u64, &RawLine) -> bool,
) -> io::Result<()> {
    names.retain(|name| is_file(name));
    names.sort_unstable();
    for name in names {
        let mut lines = Lines::new(open(&name)?);
        let mut number = 0;
        while let Some(raw) = lines.next()? {
            number += 1;
            if !take(&name, number, &raw) {
                return Ok(());
            }
        }
    }
    Ok(())
}
