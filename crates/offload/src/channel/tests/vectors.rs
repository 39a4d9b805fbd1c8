//! The octets of a frame of each kind are those in `docs/inband.md`.

use flow::Nanos;
use packet::VlanId;

use super::world::{ACCELERATOR, HOST, MACS, config};
use crate::channel::{Channel, Random};

const SPECIFICATION: &str = include_str!("../../../../../docs/inband.md");

/// Nonces of one octet each, which is counted up.
fn nonces(mut octet: u8) -> Random {
    Box::new(move |octets| {
        octets.fill(octet);
        octet += 1;
    })
}

fn end(end: usize, tagged: bool) -> Channel {
    let mut config = config(end, [0x1111_2222_3333_4444, 0x5555_6666_7777_8888][end]);
    config.epoch = [7, 9][end];
    config.capabilities = [&b"host"[..], b"accelerator"][end].to_vec();
    config.peer_mac = Some(MACS[1 - end]);
    config.vlan = if tagged { VlanId::new(100) } else { None };
    Channel::new(config, nonces([0xc0, 0xd0][end])).expect("a valid configuration")
}

/// The frames of the specification: all blocks of its last chapter but the one with the keys.
fn specified() -> Vec<Vec<u8>> {
    let (_, chapter) = SPECIFICATION
        .split_once("\n## Test vectors\n")
        .expect("the chapter");
    let blocks = chapter.split("```\n").skip(1).step_by(2);
    blocks
        .skip(1)
        .map(|block| block.split_whitespace().flat_map(octets).collect())
        .collect()
}

/// The octets of a word of hexadecimal digits: `88b5`, or `00*252`.
fn octets(word: &str) -> Vec<u8> {
    let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
    let octet = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    let octets: Vec<u8> = (0..digits.len()).step_by(2).map(octet).collect();
    octets.repeat(times.parse().expect("a number"))
}

/// The frames of a short conversation.
fn conversation(tagged: bool) -> Vec<Vec<u8>> {
    let mut ends = [end(HOST, tagged), end(ACCELERATOR, tagged)];
    let mut frames = Vec::new();
    let mut transmit = |ends: &mut [Channel; 2], from: usize, micros: u64| {
        let (mut frame, now) = (Vec::new(), Nanos(micros * 1_000));
        assert!(
            ends[from].poll_transmit(now, &mut frame),
            "a frame at {micros} us"
        );
        assert_eq!(ends[1 - from].receive(&frame, now), Ok(()));
        while ends[1 - from].next_event().is_some() || ends[1 - from].next_message().is_some() {}
        frames.push(frame);
    };
    transmit(&mut ends, HOST, 1_000);
    transmit(&mut ends, ACCELERATOR, 1_010);
    transmit(&mut ends, HOST, 1_020);
    transmit(&mut ends, ACCELERATOR, 1_030);
    for message in [&b"one"[..], b"three"] {
        ends[HOST].send(message).expect("in contact");
    }
    transmit(&mut ends, HOST, 1_040);
    transmit(&mut ends, ACCELERATOR, 11_030);
    ends[HOST].send(b"late").expect("in contact");
    transmit(&mut ends, HOST, 11_040);
    frames
}

#[test]
fn frames_are_those_of_the_specification() {
    let specified = specified();
    let tagged = conversation(true).swap_remove(0);
    let frames: Vec<Vec<u8>> = conversation(false).into_iter().chain([tagged]).collect();
    assert_eq!(frames.len(), specified.len());
    for (number, (frame, specified)) in frames.iter().zip(&specified).enumerate() {
        assert_eq!(frame, specified, "block {number}");
    }
}
