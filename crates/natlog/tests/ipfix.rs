//! Messages for collectors: golden octets, which `tests/interop/test_ipfix.py` shows tshark, and what each message has.

mod common;

use std::time::Duration;

use common::{BEGIN, assigned, block, released};
use natlog::ipfix::{Exporter, Settings};

const GOLDEN: &str = include_str!("golden/port_blocks.hex");

fn hex(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn word(message: &[u8], at: usize) -> usize {
    usize::from(u16::from_be_bytes([message[at], message[at + 1]]))
}

/// The lengths of the template and of the records in a message, and its sequence number.
fn parts(message: &[u8]) -> (usize, usize, u32) {
    assert_eq!((word(message, 0), word(message, 2)), (10, message.len()));
    let sequence = u32::from_be_bytes(message[8..12].try_into().unwrap());
    let (mut at, mut template, mut records) = (16, 0, 0);
    while at < message.len() {
        let len = word(message, at + 2);
        match word(message, at) {
            2 => template += len,
            256 => records += len - 4,
            other => panic!("set {other}"),
        }
        at += len;
    }
    assert_eq!(at, message.len());
    (template, records, sequence)
}

#[test]
fn an_allocation_and_its_end_have_the_golden_octets() {
    let mut exporter = Exporter::new(Settings {
        domain: 7,
        ..Settings::default()
    });
    let block = block(1, 1_024, 9);
    exporter.push(&assigned(BEGIN + 1, block, 1));
    exporter.push(&released(BEGIN + 60_002, block));
    let message = exporter.take_message(BEGIN + 61_000).unwrap();
    assert_eq!(hex(&message), GOLDEN.split_whitespace().collect::<String>());
    assert_eq!(exporter.take_message(BEGIN + 62_000), None);
}

#[test]
fn messages_are_short_and_their_numbers_count_records() {
    let mut exporter = Exporter::new(Settings::default());
    for number in 0..1_000 {
        exporter.push(&assigned(
            BEGIN,
            block(number as u8, 1_024 * (number as u16 % 60), 9),
            number,
        ));
    }
    // imsi- and 15 digits
    let (record, mut seen, mut messages) = (28 + 20, 0, 0);
    while let Some(message) = exporter.take_message(BEGIN) {
        let (template, records, sequence) = parts(&message);
        assert_eq!(sequence, seen);
        assert_eq!(template, if messages == 0 { 44 } else { 0 });
        assert!(message.len() <= 1_400 && records % record == 0);
        assert!(message.len() > 1_400 - record || exporter.waiting() == 0);
        seen += (records / record) as u32;
        messages += 1;
    }
    assert_eq!((seen, exporter.waiting(), exporter.lost()), (1_000, 0, 0));
}

#[test]
fn the_template_is_sent_again_also_without_events() {
    let mut exporter = Exporter::new(Settings {
        template_refresh: Duration::from_mins(1),
        ..Settings::default()
    });
    let mut template_at = |at: u64| exporter.take_message(at).map(|message| parts(&message));
    assert_eq!(template_at(BEGIN), Some((44, 0, 0)));
    assert_eq!(template_at(BEGIN + 59_999), None);
    assert_eq!(template_at(BEGIN + 60_000), Some((44, 0, 0)));
    // The clock was set back.
    assert_eq!(template_at(BEGIN), Some((44, 0, 0)));
    assert_eq!(template_at(BEGIN), None);
}

#[test]
fn events_that_too_many_wait_before_are_counted_as_lost() {
    let mut exporter = Exporter::new(Settings {
        waiting: 2,
        ..Settings::default()
    });
    for seid in 0..5 {
        exporter.push(&assigned(BEGIN, block(1, 0, 9), seid));
    }
    assert_eq!((exporter.waiting(), exporter.lost()), (2, 3));
    assert!(exporter.take_message(BEGIN).is_some());
    assert_eq!(exporter.waiting(), 0);
}
