//! A line: `{"prev":"` the SHA-256 of the line before in hexadecimal `","seq":` its number `,"time_ms":` milliseconds
//! since 1970 `,` and what happened.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::entry::Entry;

/// Octets of a line, at most.
pub(crate) const LONGEST_LINE: usize = 32 << 10;

/// The number of a line and its SHA-256: they stand for all lines up to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The number of the line.
    pub seq: u64,
    /// The SHA-256 of the line, without its end.
    pub hash: [u8; 32],
}

impl Head {
    pub(crate) fn of(seq: u64, line: &[u8]) -> Self {
        Self {
            seq,
            hash: Sha256::digest(line).into(),
        }
    }
}

/// As `verify` takes it: the number, a colon, 64 hexadecimal digits.
impl fmt::Display for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.seq, hex(&self.hash))
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadHead;

impl fmt::Display for BadHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be a number, a colon and 64 hexadecimal digits")
    }
}

impl std::error::Error for BadHead {}

impl FromStr for Head {
    type Err = BadHead;

    fn from_str(text: &str) -> Result<Self, BadHead> {
        let (seq, hash) = text.split_once(':').ok_or(BadHead)?;
        let is_number = !seq.is_empty() && seq.bytes().all(|digit| digit.is_ascii_digit());
        let seq = is_number.then(|| seq.parse().ok()).flatten().ok_or(BadHead)?;
        let hash = from_hex(hash).ok_or(BadHead)?;
        Ok(Self { seq, hash })
    }
}

/// A line as it is read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// The SHA-256 of the line before it, in hexadecimal; zeros for the first.
    pub prev: String,
    /// Its number, from 1 on.
    pub seq: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// What happened.
    #[serde(flatten)]
    pub entry: Entry,
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// It is not whole, or longer than a line can be.
    Torn,
    /// It is no line of an audit log.
    Unknown,
    /// The hash in it is not that of the line before.
    Chain,
    /// Its number does not follow on the line before.
    Number,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Torn => "is not whole",
            Self::Unknown => "is no line of an audit log",
            Self::Chain => {
                "does not follow on the line before: one of both was changed, or lines between them are gone"
            }
            Self::Number => "has a number that does not follow on the line before",
        })
    }
}

/// The line of an entry, without its end.
pub(crate) fn line(before: [u8; 32], seq: u64, time_ms: u64, entry: &Entry) -> Vec<u8> {
    let line = Line {
        prev: hex(&before),
        seq,
        time_ms,
        entry: entry.clone(),
    };
    // Plain values always have a JSON form.
    serde_json::to_vec(&line).unwrap_or_default()
}

/// Reads a line, without its end.
pub(crate) fn read_line(octets: &[u8]) -> Result<(Line, [u8; 32]), LineFault> {
    let line: Line = serde_json::from_slice(octets).map_err(|_| LineFault::Unknown)?;
    let before = from_hex(&line.prev).ok_or(LineFault::Unknown)?;
    Ok((line, before))
}

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut octets = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (place, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(text.get(2 * place..2 * place + 2)?, 16).ok()?;
    }
    Some(octets)
}
