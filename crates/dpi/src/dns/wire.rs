//! What queries and responses share: numbers, and the parts of names (RFC 1035 §4.1).

/// Octets of the header.
pub(super) const HEADER: usize = 12;
/// The class of the Internet.
pub(super) const IN: u16 = 1;
/// The type of records of an IPv4 address.
pub(super) const A: u16 = 1;
/// The type of records of an IPv6 address (RFC 3596 §2.1).
pub(super) const AAAA: u16 = 28;

/// What is at a place of a name.
pub(super) enum Part<'m> {
    Label(&'m [u8]),
    Pointer(usize),
    Root,
}

/// The part at `at`, and where it ends.
pub(super) fn part(message: &[u8], at: usize) -> Option<(Part<'_>, usize)> {
    let first = *message.get(at)?;
    match first >> 6 {
        0 if first == 0 => Some((Part::Root, at + 1)),
        0 => {
            let end = at + 1 + usize::from(first);
            Some((Part::Label(message.get(at + 1..end)?), end))
        }
        3 => {
            let low = *message.get(at + 1)?;
            let to = usize::from(u16::from_be_bytes([first & 0x3f, low]));
            Some((Part::Pointer(to), at + 2))
        }
        _ => None,
    }
}

/// Where the name at `at` ends in its own place.
pub(super) fn end_of_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match part(message, at)? {
            (Part::Label(_), end) => at = end,
            (Part::Pointer(_) | Part::Root, end) => return Some(end),
        }
    }
}
