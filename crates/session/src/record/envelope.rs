//! What is around a record: kind, version, length and check sum. This form does not change with versions.
//!
//! ```text
//! octets   0-3    "SLUI"
//!          4      kind: 1 a session, 2 an association, 3 the node itself, 4 an application,
//!                  5 a response, 6 usage that is not acknowledged
//!          5      revision of the content of that version: the newest and the one before are read
//!          6      version of the kind's body, from 1
//!          7-10   length of the body
//!          11-14  CRC-32C (RFC 3385) of octets 0-10 and the body
//!          15-    the body, in postcard's wire format
//! ```
//!
//! Numbers are in network order.

use super::error::{LONGEST_RECORD, RecordError};

const MAGIC: [u8; 4] = *b"SLUI";
const CHECKED: usize = 11;
const HEADER: usize = 15;

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Session = 1,
    Association = 2,
    Node = 3,
    Application = 4,
    Response = 5,
    Usage = 6,
}

impl Kind {
    fn from_number(number: u8) -> Option<Kind> {
        match number {
            1 => Some(Kind::Session),
            2 => Some(Kind::Association),
            3 => Some(Kind::Node),
            4 => Some(Kind::Application),
            5 => Some(Kind::Response),
            6 => Some(Kind::Usage),
            _ => None,
        }
    }

    /// The newest version of the body, which is the one that is written.
    const fn version(self) -> u8 {
        match self {
            Kind::Session
            | Kind::Association
            | Kind::Node
            | Kind::Application
            | Kind::Response
            | Kind::Usage => 1,
        }
    }

    /// Which content that version has: one more whenever it changes before it is released.
    const fn revision(self) -> u8 {
        match self {
            Kind::Session => 6,
            Kind::Application => 1,
            Kind::Association | Kind::Node | Kind::Response | Kind::Usage => 0,
        }
    }

    /// The oldest content that is read: that of the build before.
    const fn oldest_revision(self) -> u8 {
        self.revision().saturating_sub(1)
    }
}

/// A body whose check sum is right.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Sealed<'o> {
    pub(super) kind: Kind,
    /// Of its content, one of those that are read.
    pub(super) revision: u8,
    pub(super) body: &'o [u8],
}

impl Sealed<'_> {
    /// Whether it has the form that is written now.
    pub(super) fn is_newest(&self) -> bool {
        self.revision == self.kind.revision()
    }
}

fn check_sum(head: &[u8], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(head), body)
}

/// Octets that most records have room in.
const USUAL: usize = 1024;

/// A body in its envelope: `append` appends it to the octets that it is given.
pub(super) fn seal(
    kind: Kind,
    append: impl FnOnce(Vec<u8>) -> Result<Vec<u8>, RecordError>,
) -> Result<Vec<u8>, RecordError> {
    let mut room = Vec::with_capacity(USUAL);
    room.extend([0; HEADER]);
    let mut octets = append(room)?;
    let Some((header, body)) = octets.split_first_chunk_mut::<HEADER>() else {
        return Err(RecordError::Truncated);
    };
    if body.len() > LONGEST_RECORD {
        return Err(RecordError::TooLong(body.len()));
    }
    header[..4].copy_from_slice(&MAGIC);
    header[4..7].copy_from_slice(&[kind as u8, kind.revision(), kind.version()]);
    header[7..CHECKED].copy_from_slice(&(body.len() as u32).to_be_bytes());
    let sum = check_sum(&header[..CHECKED], body);
    header[CHECKED..].copy_from_slice(&sum.to_be_bytes());
    Ok(octets)
}

/// Takes the first body out of its envelope, and gives what follows.
pub(super) fn open(octets: &[u8]) -> Result<(Sealed<'_>, &[u8]), RecordError> {
    let known = octets.len().min(MAGIC.len());
    if octets.get(..known) != MAGIC.get(..known) {
        return Err(RecordError::NoRecord);
    }
    let (head, behind) = octets.split_at_checked(HEADER).ok_or(RecordError::Truncated)?;
    let &[
        _,
        _,
        _,
        _,
        number,
        revision,
        version,
        l0,
        l1,
        l2,
        l3,
        c0,
        c1,
        c2,
        c3,
    ] = head
    else {
        return Err(RecordError::Truncated);
    };
    let length = u32::from_be_bytes([l0, l1, l2, l3]) as usize;
    if length > LONGEST_RECORD {
        return Err(RecordError::TooLong(length));
    }
    let (body, rest) = behind.split_at_checked(length).ok_or(RecordError::Truncated)?;
    let checked = head.get(..CHECKED).unwrap_or_default();
    if check_sum(checked, body) != u32::from_be_bytes([c0, c1, c2, c3]) {
        return Err(RecordError::CheckSum);
    }
    let kind = Kind::from_number(number).ok_or(RecordError::Kind(number))?;
    let known = kind.version();
    match version {
        0 => Err(RecordError::Malformed("version")),
        1 if (kind.oldest_revision()..=kind.revision()).contains(&revision) => {
            Ok((Sealed { kind, revision, body }, rest))
        }
        1 => Err(RecordError::Revision {
            revision,
            oldest: kind.oldest_revision(),
            known: kind.revision(),
        }),
        version => Err(RecordError::Newer { version, known }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record with another header field, whose check sum is right.
    fn sealed(kind: Kind, body: &[u8]) -> Result<Vec<u8>, RecordError> {
        seal(kind, |to| Ok([&to, body].concat()))
    }

    fn resealed(change: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut octets = sealed(Kind::Session, b"body").unwrap();
        change(&mut octets);
        let sum = check_sum(&octets[..CHECKED], &octets[HEADER..]);
        octets[CHECKED..HEADER].copy_from_slice(&sum.to_be_bytes());
        octets
    }

    #[test]
    fn what_is_sealed_opens_one_after_the_other() {
        let mut octets = sealed(Kind::Session, b"first").unwrap();
        octets.extend(sealed(Kind::Association, b"").unwrap());
        let (first, rest) = open(&octets).unwrap();
        assert_eq!((first.kind, first.body), (Kind::Session, &b"first"[..]));
        let (second, rest) = open(rest).unwrap();
        assert_eq!(
            (second.kind, second.body, rest),
            (Kind::Association, &b""[..], &b""[..])
        );
    }

    #[test]
    fn the_form_is_as_documented() {
        let octets = sealed(Kind::Association, b"ab").unwrap();
        assert_eq!(octets[..11], *b"SLUI\x02\x00\x01\x00\x00\x00\x02");
        assert_eq!(octets[15..], *b"ab");
    }

    #[test]
    fn every_fault_is_named() {
        let good = sealed(Kind::Session, b"body").unwrap();
        let known = good[5];
        assert_eq!(open(b"").unwrap_err(), RecordError::Truncated);
        assert_eq!(open(b"SL").unwrap_err(), RecordError::Truncated);
        assert_eq!(open(b"SLUG").unwrap_err(), RecordError::NoRecord);
        assert_eq!(open(&good[..HEADER + 3]).unwrap_err(), RecordError::Truncated);
        assert_eq!(
            open(&resealed(|octets| octets[4] = 9)).unwrap_err(),
            RecordError::Kind(9)
        );
        assert_eq!(
            open(&resealed(|octets| octets[6] = 2)).unwrap_err(),
            RecordError::Newer { version: 2, known: 1 }
        );
        assert_eq!(
            open(&resealed(|octets| octets[5] = 0)).unwrap_err(),
            RecordError::Revision {
                revision: 0,
                oldest: known - 1,
                known
            }
        );
        assert_eq!(
            open(&resealed(|octets| octets[6] = 0)).unwrap_err(),
            RecordError::Malformed("version")
        );
        let long = resealed(|octets| octets[7] = 0xff);
        assert!(matches!(open(&long).unwrap_err(), RecordError::TooLong(_)));
        assert_eq!(
            sealed(Kind::Session, &vec![0; LONGEST_RECORD + 1]).unwrap_err(),
            RecordError::TooLong(LONGEST_RECORD + 1)
        );
    }

    proptest! {
        #[test]
        fn no_flipped_bit_goes_unnoticed(body in prop::collection::vec(any::<u8>(), 0..64), at: prop::sample::Index, bit in 0..8) {
            let mut octets = sealed(Kind::Session, &body).unwrap();
            let place = at.index(octets.len());
            octets[place] ^= 1_u8 << bit;
            prop_assert!(open(&octets).is_err());
        }
    }
}
