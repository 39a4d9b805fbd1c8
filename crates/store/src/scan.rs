//! Records one after the other, and what is between them that is none.

use std::io::{self, Read};

use crate::form::{ALIGN, Begin, LONGEST_RECORD, RECORD_HEADER, Record};

/// What is found at a place.
#[derive(Debug)]
pub(crate) enum Item<'o> {
    /// A record, and its octets.
    Record(Record<'o>, &'o [u8]),
    /// Octets that are no record. What follows on them may be more of these.
    Damage(usize),
}

/// Calls `each` with the place of all that is found in `octets`. Returns how many of them were used: all, if they are
/// the end; else the last record may need more than there are.
pub(crate) fn scan_octets(octets: &[u8], is_end: bool, mut each: impl FnMut(usize, Item<'_>)) -> usize {
    let mut at = 0;
    while let Some(rest) = octets.get(at..).filter(|rest| !rest.is_empty()) {
        match Record::decode(rest) {
            Begin::Record(record) => {
                each(
                    at,
                    Item::Record(record, rest.get(..record.octets).unwrap_or_default()),
                );
                at += record.octets;
            }
            Begin::Longer(_) if !is_end => break,
            Begin::Longer(octets) | Begin::Damaged(octets) => {
                let damaged = octets.min(rest.len());
                each(at, Item::Damage(damaged));
                at += damaged;
            }
            Begin::Nothing if !is_end && rest.len() < RECORD_HEADER => break,
            Begin::Nothing => {
                let all = if is_end {
                    rest.len()
                } else {
                    rest.len() / ALIGN * ALIGN
                };
                let damaged = Record::next_candidate(rest).unwrap_or(all);
                each(at, Item::Damage(damaged));
                at += damaged;
            }
        }
    }
    at
}

/// Octets that are read at a time, unless a record is longer.
const CHUNK: usize = 256 << 10;

/// The same for all that `input` has, whose first octet is at `from`; `ahead` sees the octets first. Returns the place
/// of the end.
pub(crate) fn scan_file<C>(
    mut input: impl Read,
    from: u64,
    context: &mut C,
    ahead: impl Fn(&C, &[u8]),
    mut each: impl FnMut(&mut C, u64, Item<'_>),
) -> io::Result<u64> {
    let mut buffer = vec![0; CHUNK];
    let (mut filled, mut base) = (0, from);
    loop {
        let free = buffer.get_mut(filled..).unwrap_or_default();
        let read = match input.read(free) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        filled += read;
        let is_end = read == 0;
        let octets = buffer.get(..filled).unwrap_or_default();
        ahead(context, octets);
        let used = scan_octets(octets, is_end, |at, item| each(context, base + at as u64, item));
        base += used as u64;
        if is_end {
            return Ok(base);
        }
        buffer.copy_within(used..filled, 0);
        filled -= used;
        if filled == buffer.len() {
            buffer.resize((2 * filled).min(LONGEST_RECORD + CHUNK), 0);
        }
    }
}
