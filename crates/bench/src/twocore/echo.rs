//! Echo Requests beside the traffic (TS 29.281 §7.2.1): how long the answers take when there is more than a device can
//! do.

use flow::cycles;
use hdrhistogram::Histogram;
use packet::Addrs;
use packet::build::{self, Envelope};
use packet::gtpu::MessageType;
use serde::Serialize;

use super::super::clock::{nanos, ticks_per_second};
use super::super::error::BenchError;
use super::super::frame::{LINK, link_header};
use super::super::network::{N3_ADDRESS, gnb};
use super::delays::Delays;

/// Octets of an Echo Request in its frame.
const FRAME: usize = LINK + 40;
/// Where a frame has the type of its GTP-U message.
const TYPE: usize = LINK + 29;
/// Where it has the sequence number.
const SEQUENCE: usize = LINK + 36;
/// The longest delay that the histogram distinguishes, nanoseconds.
const LONGEST: u64 = 10_000_000_000;

/// Counts and delays of Echo Requests.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Echoed {
    /// Requests that were due.
    pub asked: u64,
    /// Echo Requests that found the ring full.
    pub refused: u64,
    /// Echo Responses received.
    pub answered: u64,
    /// From when each was due until its answer was back.
    pub delays: Delays,
}

/// Sends Echo Requests at a rate and receives the responses.
pub struct Echoes {
    step: f64,
    next: f64,
    sequence: u16,
    /// When each was due, by its sequence number; 0 once it is answered.
    due: Box<[u64]>,
    histogram: Histogram<u64>,
    /// Counts so far.
    pub echoed: Echoed,
}

impl Echoes {
    /// `rate` Echo Requests a second, from now on.
    ///
    /// # Errors
    /// None with these bounds of delays.
    pub fn new(rate: f64) -> Result<Self, BenchError> {
        let step = ticks_per_second() / rate;
        Ok(Self {
            step,
            next: cycles::now() as f64 + step,
            sequence: 0,
            due: vec![0; 1 << 16].into_boxed_slice(),
            histogram: Histogram::new_with_bounds(1, LONGEST, 3).map_err(BenchError::of)?,
            echoed: Echoed::default(),
        })
    }

    /// The frame of the next request, if it is due.
    pub fn next(&mut self, now: u64) -> Option<[u8; FRAME]> {
        if self.next > now as f64 {
            return None;
        }
        self.due[usize::from(self.sequence)] = self.next as u64;
        self.next += self.step;
        self.echoed.asked += 1;
        let mut frame = [0; FRAME];
        let (link, packet) = frame.split_at_mut(LINK);
        link.copy_from_slice(&link_header());
        let addrs = Addrs::V4 {
            src: gnb(u32::from(self.sequence)).octets(),
            dst: N3_ADDRESS.octets(),
        };
        build::echo_request(packet, &Envelope::between(addrs), self.sequence)?;
        self.sequence = self.sequence.wrapping_add(1);
        Some(frame)
    }

    /// Takes an answer; false for any other frame.
    pub fn hear(&mut self, frame: &[u8], now: u64) -> bool {
        if frame.get(TYPE) != Some(&MessageType::ECHO_RESPONSE.0) {
            return false;
        }
        let sequence = frame.get(SEQUENCE..).and_then(|rest| rest.first_chunk());
        let sequence = usize::from(sequence.map_or(0, |octets| u16::from_be_bytes(*octets)));
        let due = std::mem::take(&mut self.due[sequence]);
        if due > 0 {
            self.echoed.answered += 1;
            let delay = nanos(now.saturating_sub(due)) as u64;
            self.histogram.saturating_record(delay.clamp(1, LONGEST));
        }
        true
    }

    /// The counts of all Echo Requests.
    #[must_use]
    pub fn end(self) -> Echoed {
        Echoed {
            delays: Delays::of(&self.histogram),
            ..self.echoed
        }
    }
}
