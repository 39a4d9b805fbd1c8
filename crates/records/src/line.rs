//! A record as a line: `{"crc":"` eight hexadecimal digits `",` and the rest, which the check sum (CRC-32C) is of, up
//! to the closing brace. The record's number is the first field of the rest.

use serde::Serialize;
use std::fmt;

use crate::entry::Entry;

/// The longest line that is read or written, octets with its end.
pub const LONGEST_LINE: usize = 64 << 10;

const HEAD: &[u8] = b"{\"crc\":\"";
const DIGITS: usize = 8;
const BEHIND: &[u8] = b"\",";
/// Where the rest begins.
const REST: usize = HEAD.len() + DIGITS + BEHIND.len();
const SEQ: &[u8] = b"\"seq\":";

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineFault {
    /// It is not framed as a record is, or not to its end.
    Torn,
    /// Its check sum is another.
    CheckSum,
    /// Its check sum is right, and it says nothing that is known here.
    Unknown,
}

impl fmt::Display for LineFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LineFault::Torn => "it is no whole record",
            LineFault::CheckSum => "its check sum is another",
            LineFault::Unknown => "it says what is not known here",
        })
    }
}

/// Appends the line of a record to `to`. One that would be too long is left out; answers whether it is there.
pub fn seal(seq: u64, entry: &Entry, to: &mut Vec<u8>) -> bool {
    let begin = to.len();
    to.extend_from_slice(HEAD);
    to.extend_from_slice(&[b'0'; DIGITS]);
    to.extend_from_slice(BEHIND);
    to.extend_from_slice(SEQ);
    push_number(seq, to);
    // The entry's opening brace becomes the comma behind the number.
    let brace = to.len();
    let written = entry.serialize(&mut serde_json::Serializer::new(&mut *to));
    if written.is_err() || to.len() - begin >= LONGEST_LINE {
        to.truncate(begin);
        return false;
    }
    to[brace] = b',';
    let sum = crc32c::crc32c(&to[begin + REST..]);
    let digits = &mut to[begin + HEAD.len()..begin + HEAD.len() + DIGITS];
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = b"0123456789abcdef"[(sum >> (28 - 4 * place)) as usize & 0xf];
    }
    to.push(b'\n');
    true
}

fn push_number(number: u64, to: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut rest = number;
    let mut place = digits.len();
    loop {
        place -= 1;
        digits[place] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    to.extend_from_slice(&digits[place..]);
}

/// Checks a line, without its end, and gives the record's number and where the entry is.
pub(crate) fn check(line: &[u8]) -> Result<(u64, &[u8]), LineFault> {
    let digits = line.strip_prefix(HEAD).and_then(|rest| rest.get(..DIGITS));
    let rest = line.get(REST..).filter(|rest| rest.ends_with(b"}"));
    let behind = line
        .get(HEAD.len() + DIGITS..)
        .filter(|rest| rest.starts_with(BEHIND));
    let (Some(digits), Some(rest), Some(_)) = (digits, rest, behind) else {
        return Err(LineFault::Torn);
    };
    let sum = std::str::from_utf8(digits).ok();
    let sum = sum.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    if sum != Some(crc32c::crc32c(rest)) {
        return Err(LineFault::CheckSum);
    }
    let number = rest.strip_prefix(SEQ).ok_or(LineFault::Unknown)?;
    let length = number.iter().take_while(|octet| octet.is_ascii_digit()).count();
    let (number, entry) = number.split_at(length);
    let seq = std::str::from_utf8(number)
        .ok()
        .and_then(|number| number.parse().ok());
    Ok((seq.ok_or(LineFault::Unknown)?, entry))
}

/// Reads a line, without its end.
///
/// # Errors
/// What is wrong with it.
pub fn open(line: &[u8]) -> Result<(u64, Entry), LineFault> {
    let (seq, entry) = check(line)?;
    let inner = entry.strip_prefix(b",").ok_or(LineFault::Unknown)?;
    let entry = serde_json::from_slice(&[b"{", inner].concat()).map_err(|_| LineFault::Unknown)?;
    Ok((seq, entry))
}
