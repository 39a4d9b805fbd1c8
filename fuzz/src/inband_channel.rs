//! Any frames to both ends of an in-band channel, after a handshake, among messages, lost frames and time. The input is
//! a list of event (1 octet: the lower half says which, the upper one the end and what a frame gets) and what belongs
//! to it. A frame of the input has the MAC of the contact only where the event says so: all others are discarded.

use flow::Nanos;
use offload::channel::{Channel, ChannelConfig, Key, MAX_MTU, Role};
use packet::MacAddr;

/// Frames that both ends may send at one time: full windows, and what acknowledges them.
const MOST: usize = 400;
/// Octets of a frame up to the sequence number.
const KNOWN: usize = 30;

fn end(role: Role, own: u8, peer: u8) -> Channel {
    let key = Key::new(vec![7; 32]).expect("32 octets");
    let mac = |last| MacAddr([2, 0, 0, 0, 0, last]);
    let mut config = ChannelConfig::new(role, 0, mac(own), key, own.into());
    config.peer_mac = Some(mac(peer));
    let mut octet = own;
    let random = move |octets: &mut [u8]| {
        octet = octet.wrapping_add(2);
        octets.fill(octet);
    };
    Channel::new(config, Box::new(random)).expect("a valid configuration")
}

struct Bench {
    ends: [Channel; 2],
    /// The beginning of the last frame of each end.
    known: [[u8; KNOWN]; 2],
    now: Nanos,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self {
            ends: [end(Role::Host, 1, 2), end(Role::Accelerator, 2, 1)],
            known: [[0; KNOWN]; 2],
            now: Nanos(1),
        };
        bench.settle(0);
        assert!(bench.ends.iter().all(Channel::is_up));
        bench
    }

    /// Gives frames to the other end until there are none; of the first eight, those whose bit is set are lost.
    fn settle(&mut self, lost: u8) {
        let (mut frame, mut number) = (Vec::new(), 0);
        loop {
            let before = number;
            for from in [0, 1] {
                while self.ends[from].poll_transmit(self.now, &mut frame) {
                    assert!(frame.len() <= 1_514, "{} octets", frame.len());
                    self.known[from].copy_from_slice(&frame[..KNOWN]);
                    if number >= 8 || lost >> number & 1 == 0 {
                        let _ = self.ends[1 - from].receive(&frame, self.now);
                    }
                    number += 1;
                    assert!(number <= MOST, "frames without end");
                }
                self.take(1 - from);
            }
            if number == before {
                break;
            }
        }
        for end in &self.ends {
            assert!(
                end.deadline() > self.now,
                "due at {:?}, at {:?}",
                end.deadline(),
                self.now
            );
        }
    }

    fn take(&mut self, end: usize) {
        while self.ends[end].next_event().is_some() {}
        while let Some(message) = self.ends[end].next_message() {
            assert!((1..MAX_MTU).contains(&message.len()));
        }
    }

    /// A frame from the other end: its known beginning, with this kind, and then `rest`, which begins with the sequence
    /// number and, behind the bitmap, has the payload.
    fn frame(&mut self, end: usize, sealed: bool, kind: u8, rest: &[u8]) {
        let mut frame = self.known[1 - end].to_vec();
        frame[15] = kind;
        let (numbers, payload) = rest.split_at(rest.len().min(24));
        frame.extend_from_slice(numbers);
        frame.resize(KNOWN + 24, 0);
        frame.extend_from_slice(&(payload.len() as u16).to_be_bytes());
        frame.extend_from_slice(&[0; 2]);
        frame.extend_from_slice(payload);
        frame.extend_from_slice(&[0; 16]);
        if sealed {
            self.ends[1 - end].seal_frame(&mut frame);
        }
        let before = self.ends[end].is_up();
        let result = self.ends[end].receive(&frame, self.now);
        if !sealed {
            assert!(result.is_err(), "a frame without its MAC is taken");
            assert_eq!(self.ends[end].is_up(), before);
        }
        self.take(end);
    }
}

/// See the module.
pub fn run(input: &[u8]) {
    let mut bench = Bench::new();
    let mut rest = input;
    while let [event, value, tail @ ..] = rest {
        rest = tail;
        let end = usize::from(event >> 4 & 1);
        match event & 3 {
            0 => bench.now = Nanos(bench.now.0 + u64::from(*value) * 100_000),
            1 => {
                let _ = bench.ends[end].send(&vec![*value; usize::from(*value) * 5 + 1]);
            }
            2 => {
                let Some((len, tail)) = tail.split_first() else {
                    break;
                };
                let (octets, tail) = tail.split_at(usize::from(*len).min(tail.len()));
                rest = tail;
                bench.frame(end, event & 0x20 != 0, *value, octets);
            }
            _ => bench.settle(*value),
        }
    }
    bench.settle(0);
}
