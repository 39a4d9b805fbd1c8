//! Responses: the addresses of the name that was asked for.
//!
//! Answers are read once, in order: servers write an alias before what it leads to (RFC 1034 §4.3.2). Names are
//! decompressed with pointers that only lead backwards (RFC 1035 §4.1.4), so that none is a loop.

use core::net::IpAddr;

use super::wire::{A, AAAA, HEADER, IN, Part, end_of_name, part};
use crate::host_name::{HostName, LONGEST_LABEL, LONGEST_NAME};
use crate::reader::Reader;

/// Most records of a response that are looked at.
pub const MOST_RECORDS: u16 = 64;

/// Most pointers of one name. Servers write one; each may lead to another (RFC 1035 §4.1.4).
const MOST_POINTERS: u8 = 16;

/// QR set; query, no truncation, no error (RFC 1035 §4.1.1).
const FLAGS_MASK: u16 = 0b1111_1010_0000_1111;
const RESPONSE: u16 = 0b1000_0000_0000_0000;
const CNAME: u16 = 5;

/// An address of the name of a [`Response`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The address.
    pub address: IpAddr,
    /// How long it is one of the name, seconds, less than 2^31: the least of the aliases that lead to it, and its own.
    pub ttl_s: u32,
}

/// A response without an error.
#[derive(Clone, Copy, Debug)]
pub struct Response<'m> {
    message: &'m [u8],
    name: HostName,
    answers_at: usize,
    answers: u16,
}

impl<'m> Response<'m> {
    /// The response that a datagram's payload is. Nothing if it is none of a query for one host name, if it is
    /// truncated, or an error.
    pub fn parse(message: &'m [u8]) -> Option<Response<'m>> {
        let mut header = Reader::new(message);
        header.u16()?;
        let flags = header.u16()?;
        let (questions, answers) = (header.u16()?, header.u16()?);
        if flags & FLAGS_MASK != RESPONSE || questions != 1 {
            return None;
        }
        let (name, end) = name(message, HEADER)?;
        let mut question = Reader::new(message.get(end..)?);
        let (_, class) = (question.u16()?, question.u16()?);
        (class == IN).then_some(Response {
            message,
            name,
            answers_at: end + 4,
            answers: answers.min(MOST_RECORDS),
        })
    }

    /// The name that was asked for.
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// Its addresses, through aliases. They end at the first record that is malformed.
    pub fn answers(&self) -> impl Iterator<Item = Answer> {
        let (message, mut at, mut left) = (self.message, self.answers_at, self.answers);
        let mut owner = Owner {
            name: self.name,
            ttl_s: u32::MAX,
        };
        core::iter::from_fn(move || {
            while left > 0 {
                left -= 1;
                let record = record(message, at)?;
                at = record.end;
                if let Some(answer) = owner.answer(message, &record) {
                    return Some(answer);
                }
            }
            None
        })
    }
}

/// The name that addresses are wanted of: the one that was asked for, or what it is an alias of.
struct Owner {
    name: HostName,
    ttl_s: u32,
}

impl Owner {
    /// The address of `record`, if it is of this name. An alias of it becomes the name.
    fn answer(&mut self, message: &[u8], record: &Record<'_>) -> Option<Answer> {
        if record.class != IN || record.name.as_ref() != Some(&self.name) {
            return None;
        }
        let ttl_s = record.ttl_s.min(self.ttl_s);
        let address = match (record.kind, record.data) {
            (A, data) => IpAddr::from(<[u8; 4]>::try_from(data).ok()?),
            (AAAA, data) => IpAddr::from(<[u8; 16]>::try_from(data).ok()?),
            (CNAME, _) => {
                let (name, _) = name(message, record.data_at)?;
                *self = Owner { name, ttl_s };
                return None;
            }
            _ => return None,
        };
        Some(Answer { address, ttl_s })
    }
}

/// RFC 1035 §4.1.3.
struct Record<'m> {
    /// None of a name that is no host's.
    name: Option<HostName>,
    kind: u16,
    class: u16,
    ttl_s: u32,
    data: &'m [u8],
    data_at: usize,
    end: usize,
}

fn record(message: &[u8], at: usize) -> Option<Record<'_>> {
    let after_name = end_of_name(message, at)?;
    let mut reader = Reader::new(message.get(after_name..)?);
    let (kind, class, ttl_s) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let data = reader.vector16()?;
    let data_at = after_name + 10;
    let is_wanted = matches!(kind, A | AAAA | CNAME);
    Some(Record {
        name: is_wanted
            .then(|| name(message, at))
            .flatten()
            .map(|(name, _)| name),
        kind,
        class,
        // One with its highest bit set is 0 (RFC 2181 §8).
        ttl_s: if ttl_s >> 31 == 0 { ttl_s } else { 0 },
        data,
        data_at,
        end: data_at + data.len(),
    })
}

/// The host name at `at`, and where it ends in its own place.
fn name(message: &[u8], at: usize) -> Option<(HostName, usize)> {
    let mut text = [0; LONGEST_NAME + 1];
    let (mut len, mut place, mut earliest, mut own_end) = (0, at, at, None);
    let mut pointers = 0;
    loop {
        match part(message, place)? {
            (Part::Label(label), end) => {
                // A dot in a label would make another name of it.
                if label.len() > LONGEST_LABEL || label.contains(&b'.') {
                    return None;
                }
                let room = text.get_mut(len..len + label.len() + 1)?;
                let (octets, dot) = room.split_at_mut_checked(label.len())?;
                octets.copy_from_slice(label);
                dot.fill(b'.');
                len += label.len() + 1;
                place = end;
            }
            (Part::Pointer(to), end) => {
                pointers += 1;
                if to >= earliest || pointers > MOST_POINTERS {
                    return None;
                }
                own_end.get_or_insert(end);
                (place, earliest) = (to, to);
            }
            (Part::Root, end) => {
                let name = HostName::parse(text.get(..len)?).ok()?;
                return Some((name, own_end.unwrap_or(end)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A response for `www.example` with these answers; the name is at 12, `example` at 16.
    fn response(answers: &[&[u8]]) -> Vec<u8> {
        let header = [0, 7, 0x81, 0x80, 0, 1, 0, answers.len() as u8, 0, 0, 0, 0];
        let question = b"\x03WWW\x07example\0\0\x01\0\x01";
        [&header[..], &question[..], &answers.concat()].concat()
    }

    fn record_of(name: &[u8], kind: u8, ttl: u8, data: &[u8]) -> Vec<u8> {
        [name, &[0, kind, 0, 1, 0, 0, 0, ttl, 0, data.len() as u8], data].concat()
    }

    fn answers(message: &[u8]) -> Vec<(String, u32)> {
        let response = Response::parse(message).expect("a response");
        let answers = response.answers();
        answers
            .map(|answer| (answer.address.to_string(), answer.ttl_s))
            .collect()
    }

    #[test]
    fn addresses_of_the_name_are_given() {
        let message = response(&[
            &record_of(b"\xc0\x0c", 1, 60, &[192, 0, 2, 1]),
            &record_of(
                b"\x03www\xc0\x10",
                28,
                30,
                &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
            ),
            &record_of(b"\x05other\xc0\x10", 1, 60, &[192, 0, 2, 9]),
            &record_of(b"\xc0\x0c", 16, 60, b"\x04text"),
        ]);
        assert_eq!(
            Response::parse(&message).expect("a response").name().as_str(),
            "www.example"
        );
        assert_eq!(
            answers(&message),
            [("192.0.2.1".to_string(), 60), ("2001:db8::1".to_string(), 30)]
        );
    }

    #[test]
    fn aliases_lead_to_addresses_with_the_least_ttl() {
        let message = response(&[
            &record_of(b"\xc0\x0c", 5, 20, b"\x03cdn\xc0\x10"),
            &record_of(b"\x03cdn\xc0\x10", 5, 90, b"\x01a\x03net\0"),
            &record_of(b"\xc0\x0c", 1, 60, &[192, 0, 2, 9]),
            &record_of(b"\x01A\x03net\0", 1, 60, &[192, 0, 2, 1]),
        ]);
        assert_eq!(answers(&message), [("192.0.2.1".to_string(), 20)]);
    }

    #[test]
    fn pointers_only_lead_backwards() {
        let at = response(&[]).len() as u8;
        for name in [[0xc0, at], [0xc0, at + 1], [0xff, 0xff]] {
            let message = response(&[&record_of(&name, 1, 60, &[192, 0, 2, 1])]);
            assert_eq!(answers(&message), []);
        }
        // A label, and from there a pointer back to the label.
        let looping = [1, b'a', 0xc0, at];
        assert_eq!(
            answers(&response(&[&record_of(&looping, 1, 60, &[192, 0, 2, 1])])),
            []
        );
    }

    #[test]
    fn what_is_no_response_is_passed_over() {
        let good = response(&[]);
        for (at, octet) in [(2, 0x01), (2, 0x83), (3, 0x83), (5, 2), (good.len() - 1, 3)] {
            let mut message = good.clone();
            message[at] = octet;
            assert!(Response::parse(&message).is_none(), "{at}");
        }
        for len in 0..good.len() {
            assert!(Response::parse(&good[..len]).is_none());
        }
    }

    #[test]
    fn a_dot_in_a_label_is_no_host_name() {
        let message = response(&[&record_of(b"\x0bwww.example\0", 1, 60, &[192, 0, 2, 1])]);
        assert_eq!(answers(&message), []);
    }

    proptest! {
        #[test]
        fn any_message_ends(octets in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut message = response(&[]);
            message[6] = 0xff;
            message.extend(octets);
            let response = Response::parse(&message).expect("a response");
            prop_assert!(response.answers().count() <= usize::from(MOST_RECORDS));
        }
    }
}
