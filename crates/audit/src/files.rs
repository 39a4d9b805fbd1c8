//! The files of a log, line by line, in bounded memory, whatever they hold.

use std::io::{self, BufRead, BufReader, Read};

use crate::line::{Head, LONGEST_LINE, read_line};

/// The file with the number and the hash of the last line.
pub(crate) const HEAD: &str = "head";
const NAME: &str = "audit-";
const SUFFIX: &str = ".jsonl";
const DIGITS: usize = 20;

/// The name of the file that begins with this line. So they sort by age.
pub(crate) fn file_name(first: u64) -> String {
    format!("{NAME}{first:020}{SUFFIX}")
}

/// Whether a file of this name is of a log.
pub(crate) fn is_file(name: &str) -> bool {
    let digits = name.strip_prefix(NAME).and_then(|rest| rest.strip_suffix(SUFFIX));
    digits.is_some_and(|digits| digits.len() == DIGITS && digits.bytes().all(|digit| digit.is_ascii_digit()))
}

/// The lines of a file as octets without their ends. The last may have none: it is not whole then.
pub(crate) struct Lines<R>(BufReader<R>);

pub(crate) struct RawLine {
    pub(crate) octets: Vec<u8>,
    pub(crate) is_whole: bool,
    /// Octets of the file, with the end.
    pub(crate) taken: u64,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self(BufReader::new(input))
    }

    pub(crate) fn next(&mut self) -> io::Result<Option<RawLine>> {
        let mut octets = Vec::new();
        let most = LONGEST_LINE as u64;
        let taken = self.0.by_ref().take(most).read_until(b'\n', &mut octets)? as u64;
        let is_whole = octets.last() == Some(&b'\n');
        if is_whole {
            octets.pop();
        }
        let mut line = RawLine {
            octets,
            is_whole,
            taken,
        };
        if !is_whole && taken == most {
            // No line: what is behind it up to the next end is of it.
            line.taken += self.skip()?;
        }
        Ok((line.taken > 0).then_some(line))
    }

    fn skip(&mut self) -> io::Result<u64> {
        let mut skipped = 0;
        loop {
            let chunk = self.0.fill_buf()?;
            if chunk.is_empty() {
                return Ok(skipped);
            }
            let end = chunk.iter().position(|octet| *octet == b'\n');
            let taken = end.map_or(chunk.len(), |end| end + 1);
            self.0.consume(taken);
            skipped += taken as u64;
            if end.is_some() {
                return Ok(skipped);
            }
        }
    }
}

/// Where the good part of a file ends, and its last line.
pub(crate) struct Tail {
    pub(crate) head: Option<Head>,
    /// Octets up to the end of the last whole line.
    pub(crate) whole: u64,
    /// Octets behind it.
    pub(crate) torn: u64,
}

pub(crate) fn tail(input: impl Read) -> io::Result<Tail> {
    let mut lines = Lines::new(input);
    let (mut tail, mut all) = (
        Tail {
            head: None,
            whole: 0,
            torn: 0,
        },
        0,
    );
    while let Some(raw) = lines.next()? {
        all += raw.taken;
        // A line that was changed is still one: what follows is chained to it as it is.
        if raw.is_whole {
            tail.whole = all;
            if let Ok((line, _)) = read_line(&raw.octets) {
                tail.head = Some(Head::of(line.seq, &raw.octets));
            }
        }
    }
    tail.torn = all - tail.whole;
    Ok(tail)
}

/// What the file `head` says; none where it says nothing that is one.
pub(crate) fn read_head(input: impl Read) -> io::Result<Option<Head>> {
    let mut text = String::new();
    input.take(128).read_to_string(&mut text)?;
    Ok(text.lines().next().and_then(|line| line.parse().ok()))
}
