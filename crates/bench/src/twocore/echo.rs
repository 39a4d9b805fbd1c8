//! Echo Requests beside the traffic (TS 29.281 §7.2.1): how long the answers take when there is more than a device can
//! do.

use packet::Addrs;
use packet::build::{self, Envelope};
use packet::gtpu::MessageType;
use serde::Serialize;

use super::super::clock::{nanos, ticks_per_second};
use super::super::error::BenchError;
use super::super::frame::{LINK, link_header};
use super::super::network::{N3_ADDRESS, gnb};
use super::absence::Absences;
use super::delays::Delays;
use super::intervals::{IntervalReport, Intervals};

/// Octets of an Echo Request in its frame.
const FRAME: usize = LINK + 40;
/// Where a frame has the type of its GTP-U message.
const TYPE: usize = LINK + 29;
/// Where it has the sequence number.
const SEQUENCE: usize = LINK + 36;

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
    /// Those that were due in intervals that an absence touches, and the others.
    pub intervals: IntervalReport,
}

/// Sends Echo Requests at a rate and receives the responses.
pub struct Echoes {
    step: f64,
    next: f64,
    sequence: u16,
    /// When each was due, by its sequence number; 0 once it is answered.
    due: Box<[u64]>,
    intervals: Intervals,
    /// Counts so far.
    pub echoed: Echoed,
}

impl Echoes {
    /// `rate` Echo Requests a second in a trial of `seconds`; [`start_at`](Self::start_at) begins it.
    ///
    /// # Errors
    /// None with these bounds of delays.
    pub fn new(rate: f64, seconds: f64) -> Result<Self, BenchError> {
        let step = ticks_per_second() / rate;
        let mut intervals = Intervals::new();
        intervals.prepare(seconds)?;
        Ok(Self {
            step,
            next: f64::MAX,
            sequence: 0,
            due: vec![0; 1 << 16].into_boxed_slice(),
            intervals,
            echoed: Echoed::default(),
        })
    }

    /// The trial begins.
    pub const fn start_at(&mut self, start: u64) {
        self.next = start as f64 + self.step;
        self.intervals.start_at(start);
    }

    /// The frame of the next request, if it is due.
    pub fn next(&mut self, now: u64) -> Option<[u8; FRAME]> {
        if self.next > now as f64 {
            return None;
        }
        let due = self.next as u64;
        self.due[usize::from(self.sequence)] = due;
        self.intervals.offer(due, false);
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
            self.intervals.receive(due, delay, None);
        }
        true
    }

    /// The counts of all Echo Requests; absences and `recovery` as in [`Intervals::end`].
    ///
    /// # Errors
    /// None with these bounds of delays.
    pub fn end(self, absences: [&Absences; 2], recovery: f64) -> Result<Echoed, BenchError> {
        let cut = self.intervals.end(absences, recovery)?;
        Ok(Echoed {
            delays: cut.all.delays,
            intervals: cut.report,
            ..self.echoed
        })
    }
}
