//! What a response has of its query.

use super::wire::{HEADER, end_of_name};
use crate::reader::Reader;

/// The number of a message and its question as they are in it, which a response repeats octet for octet (RFC 1035
/// §7.3, RFC 5452 §9.1). Others than [`Query`](super::Query) and [`Response`](super::Response) have one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Question<'m> {
    number: u16,
    octets: &'m [u8],
}

impl<'m> Question<'m> {
    /// That of a datagram's payload: its first one. Nothing if it has none that is whole.
    pub fn of(message: &'m [u8]) -> Option<Self> {
        let mut header = Reader::new(message);
        let (number, _flags, questions) = (header.u16()?, header.u16()?, header.u16()?);
        let end = end_of_name(message, HEADER)? + 4;
        let octets = message.get(HEADER..end).filter(|_| questions > 0)?;
        Some(Self { number, octets })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_has_the_question_of_its_query_and_no_other() {
        let message = |number: u8, flags: u8, rest: &[u8]| {
            [&[7, number, flags, 0, 0, 1, 0, 0, 0, 0, 0, 0][..], rest].concat()
        };
        let asked = message(1, 1, b"\x01a\x07example\0\0\x01\0\x01");
        let question = Question::of(&asked).expect("it has one");
        for (other, is_same) in [
            (message(1, 0x81, b"\x01a\x07example\0\0\x01\0\x01\xc0\x0c"), true),
            (message(2, 0x81, b"\x01a\x07example\0\0\x01\0\x01"), false),
            (message(1, 0x81, b"\x01A\x07example\0\0\x01\0\x01"), false),
            (message(1, 0x81, b"\x01a\x07example\0\0\x1c\0\x01"), false),
            (message(1, 0x81, b"\x01b\x07example\0\0\x01\0\x01"), false),
            (message(1, 0x81, b"\x01a\xc0\x0c\0\x01\0\x01"), false),
        ] {
            assert_eq!(Question::of(&other) == Some(question), is_same, "{other:?}");
        }
        for cut in [0, 11, 12, 20, asked.len() - 1] {
            assert_eq!(Question::of(&asked[..cut]), None);
        }
        let mut none = asked.clone();
        none[5] = 0;
        assert_eq!(Question::of(&none), None);
    }
}
