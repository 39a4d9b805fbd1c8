//! Foreign octets of every kind: nothing panics, and what was understood comes out the same every time.

mod common;

use std::fmt::Write;

use pfcp::{Frame, Frames, Header, IeType, Message, MessageType, Seid, SequenceNumber};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

#[path = "common/establishment.rs"]
mod establishment;

/// Decodes, walks all lists (as printing does), encodes, and decodes and encodes that again.
fn exercise(frame: &Frame<'_>) {
    let message = match Message::decode(frame) {
        Ok(message) => message,
        Err(error) => {
            assert!(matches!(error.cause.value(), 66..=69), "{error}");
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let mut text = String::new();
    write!(text, "{message:?}").unwrap();

    let mut buf = vec![0; 70_000];
    let length = message.encode(&frame.header, &mut buf).unwrap();
    let once = buf[..length].to_vec();
    let frame = Frames::new(&once).next().unwrap().unwrap();
    let again = Message::decode(&frame).unwrap_or_else(|error| panic!("{error} after {text}"));
    assert!(again == message, "{again:?} after {text}");
    let length = again.encode(&frame.header, &mut buf).unwrap();
    assert_eq!(&buf[..length], once, "{text}");
}

/// As [`exercise`], for all messages of a datagram.
fn exercise_datagram(datagram: &[u8]) {
    for frame in Frames::new(datagram) {
        match frame {
            Ok(frame) => exercise(&frame),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn header(message_type: MessageType) -> Header {
    match message_type.is_session() {
        true => Header::session(message_type, Seid(1), SequenceNumber::new(2)),
        false => Header::node(message_type, SequenceNumber::new(2)),
    }
}

/// IEs of known types in any nesting; contents small enough that lengths inside are often right.
fn ies() -> impl Strategy<Value = Vec<u8>> {
    let octets = vec(prop_oneof![3 => 0..8_u8, 1 => any::<u8>()], 0..30);
    octets.prop_recursive(4, 60, 8, |inner| {
        vec((select(IeType::ALL), inner), 0..8).prop_map(|ies| {
            let mut body = Vec::new();
            for (ie_type, value) in ies {
                body.extend_from_slice(&ie_type.0.to_be_bytes());
                body.extend_from_slice(&(value.len() as u16).to_be_bytes());
                body.extend_from_slice(&value);
            }
            body
        })
    })
}

/// One real message with much in it, or one of the captures'.
fn real_datagram() -> impl Strategy<Value = Vec<u8>> {
    let mut datagrams = vec![establishment()];
    for file in common::captures() {
        let content = std::fs::read(file).unwrap();
        datagrams.extend(common::pfcp_datagrams(&content).into_iter().map(<[u8]>::to_vec));
    }
    select(datagrams)
}

fn establishment() -> Vec<u8> {
    use pfcp::message::Body;
    let rules = establishment::Rules::new(&establishment::FILTERS, &establishment::UE, &establishment::QFIS);
    let mut buf = vec![0; 4096];
    let length = rules
        .request()
        .encode(&header(MessageType::SESSION_ESTABLISHMENT_REQUEST), &mut buf)
        .unwrap();
    buf.truncate(length);
    buf
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn random_datagrams(datagram in vec(any::<u8>(), 0..200)) {
        exercise_datagram(&datagram);
    }

    #[test]
    fn random_bodies(message_type in select(MessageType::ALL), body in vec(any::<u8>(), 0..200)) {
        exercise(&Frame { header: header(message_type), body: &body });
    }

    #[test]
    fn random_ies(message_type in select(MessageType::ALL), body in ies()) {
        exercise(&Frame { header: header(message_type), body: &body });
    }

    #[test]
    fn truncated_messages(datagram in real_datagram(), at in any::<Index>()) {
        exercise_datagram(&datagram[..at.index(datagram.len())]);
        let mut reported = datagram[..at.index(datagram.len())].to_vec();
        let length = reported.len().saturating_sub(4) as u16;
        if let Some(field) = reported.get_mut(2..4) {
            field.copy_from_slice(&length.to_be_bytes());
        }
        exercise_datagram(&reported);
    }

    #[test]
    fn mutated_messages(
        datagram in real_datagram(),
        mutations in vec((any::<Index>(), prop_oneof![any::<u8>(), 0..4_u8]), 1..6),
    ) {
        let mut datagram = datagram;
        for (at, octet) in mutations {
            let at = at.index(datagram.len());
            datagram[at] = octet;
        }
        exercise_datagram(&datagram);
    }

    #[test]
    fn shuffled_octets_of_messages(datagram in real_datagram(), from in any::<Index>(), to in any::<Index>()) {
        let mut datagram = datagram;
        let (from, to) = (from.index(datagram.len()), to.index(datagram.len()));
        let part: Vec<u8> = datagram[from.min(to)..from.max(to)].to_vec();
        datagram.splice(from..from, part);
        let length = (datagram.len() - 4) as u16;
        datagram[2..4].copy_from_slice(&length.to_be_bytes());
        exercise_datagram(&datagram);
    }

    #[test]
    fn no_buffer_is_too_short_to_say_so(room in 0..1200_usize) {
        let datagram = establishment();
        let frame = Frames::new(&datagram).next().unwrap().unwrap();
        let message = Message::decode(&frame).unwrap();
        let mut buf = vec![0; room];
        prop_assert_eq!(message.encode(&frame.header, &mut buf).is_ok(), room >= datagram.len());
    }
}
