//! Messages that wait to be sent, and DATA frames in flight.

use std::collections::VecDeque;
use std::time::Duration;

use flow::Nanos;

use super::config::{ChannelConfig, MAX_WINDOW};
use super::frame::PREFIX_LEN;
use super::round_trip::RoundTrip;

/// The number of a contact's first DATA frame.
const FIRST: u64 = 1;

/// A DATA frame in flight.
#[derive(Debug, Default)]
struct Slot {
    payload: Vec<u8>,
    messages: u64,
    sent_at: Nanos,
    /// How often it was sent.
    sent: u32,
    /// The peer has it, and has not taken it yet.
    arrived: bool,
}

/// What is sent next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A frame with messages, or without as a heartbeat.
    New { sequence: u64, heartbeat: bool },
    /// A frame that was sent before.
    Again { sequence: u64 },
}

/// The acknowledgement names frames that were not sent: the peer's fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NeverSent;

/// The sending half of a contact.
#[derive(Debug)]
pub(super) struct Sender {
    queue: VecDeque<u8>,
    queued: u64,
    max_queue: usize,
    max_payload: usize,
    window: u64,
    heartbeat: Duration,
    retransmission: (Duration, Duration),
    slots: Box<[Slot]>,
    /// The oldest frame that is not acknowledged.
    oldest: u64,
    /// The next frame.
    next: u64,
    /// When the last new frame was sent, or contact was made.
    sent_at: Nanos,
    /// No frame is to be sent again before.
    again_at: Nanos,
    round_trip: RoundTrip,
}

impl Sender {
    pub fn new(config: &ChannelConfig) -> Self {
        let slot = || Slot {
            payload: Vec::with_capacity(config.max_payload()),
            ..Slot::default()
        };
        Self {
            queue: VecDeque::with_capacity(config.queue),
            queued: 0,
            max_queue: config.queue,
            max_payload: config.max_payload(),
            window: config.window as u64,
            heartbeat: config.timers.heartbeat,
            retransmission: (config.timers.min_retransmission, config.timers.max_retransmission),
            slots: (0..MAX_WINDOW).map(|_| slot()).collect(),
            oldest: FIRST,
            next: FIRST,
            sent_at: Nanos::ZERO,
            again_at: Nanos::MAX,
            round_trip: RoundTrip::default(),
        }
    }

    /// Begins a contact. The number of messages of the last one that were not acknowledged.
    pub fn restart(&mut self, now: Nanos) -> u64 {
        let in_flight: u64 = (self.oldest..self.next)
            .map(|sequence| self.slot(sequence).messages)
            .sum();
        let given_up = in_flight + self.queued;
        self.queue.clear();
        self.queued = 0;
        (self.oldest, self.next) = (FIRST, FIRST);
        self.sent_at = now;
        self.again_at = Nanos::MAX;
        self.round_trip = RoundTrip::default();
        given_up
    }

    /// Makes `sequence` the number of the next frame, of a contact that has sent none.
    #[cfg(test)]
    pub fn start_at(&mut self, sequence: u64) {
        (self.oldest, self.next) = (sequence, sequence);
    }

    /// Queues a message of 1 to `max_payload - 2` octets; whether there was room.
    pub fn push(&mut self, message: &[u8]) -> bool {
        if self.queue.len() + PREFIX_LEN + message.len() > self.max_queue {
            return false;
        }
        self.queue.extend((message.len() as u16).to_be_bytes());
        self.queue.extend(message);
        self.queued += 1;
        true
    }

    /// Octets in the queue, and frames in flight.
    pub fn load(&self) -> (usize, usize) {
        (self.queue.len(), (self.next - self.oldest) as usize)
    }

    /// The smoothed round trip.
    pub fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// The frame to be sent at `now`, noted as sent; [`Self::payload`] has what is in it.
    pub fn next(&mut self, now: Nanos) -> Option<Next> {
        if let Some(sequence) = self.overdue(now) {
            let slot = self.slot_mut(sequence);
            slot.sent_at = now;
            slot.sent = slot.sent.saturating_add(1);
            let due = now + self.patience(self.slot(sequence).sent);
            self.again_at = self.again_at.min(due);
            return Some(Next::Again { sequence });
        }
        let heartbeat = self.queue.is_empty();
        if self.next - self.oldest >= self.window || (heartbeat && now < self.sent_at + self.heartbeat) {
            return None;
        }
        let sequence = self.next;
        self.next += 1;
        self.fill(sequence, now);
        self.sent_at = now;
        self.again_at = self.again_at.min(now + self.patience(1));
        Some(Next::New { sequence, heartbeat })
    }

    /// The payload of a frame in flight.
    pub fn payload(&self, sequence: u64) -> &[u8] {
        &self.slot(sequence).payload
    }

    /// When [`Self::next`] has something, unless something is sent or acknowledged before.
    pub fn due(&self) -> Nanos {
        let new = match self.next - self.oldest >= self.window {
            true => Nanos::MAX,
            false if self.queue.is_empty() => self.sent_at + self.heartbeat,
            false => Nanos::ZERO,
        };
        new.min(self.again_at)
    }

    /// Takes an acknowledgement: all frames up to `acknowledged`, and `acknowledged + 1 + n` for bit n. The number of
    /// messages that it acknowledges, if it reports something new.
    pub fn acknowledge(
        &mut self,
        acknowledged: u64,
        bitmap: u64,
        now: Nanos,
    ) -> Result<Option<u64>, NeverSent> {
        let highest = acknowledged.saturating_add(u64::from(u64::BITS - bitmap.leading_zeros()));
        if highest >= self.next {
            return Err(NeverSent);
        }
        let mut fresh = false;
        let mut messages = 0;
        while self.oldest <= acknowledged {
            fresh = true;
            self.arrived(self.oldest, now);
            messages += self.slot(self.oldest).messages;
            self.oldest += 1;
        }
        for sequence in self.oldest..=highest {
            if bitmap >> (sequence - acknowledged - 1) & 1 == 1 {
                fresh |= self.arrived(sequence, now);
            }
        }
        if self.oldest == self.next {
            self.again_at = Nanos::MAX;
        }
        Ok(fresh.then_some(messages))
    }

    /// Whether this is the first report that the frame has arrived.
    fn arrived(&mut self, sequence: u64, now: Nanos) -> bool {
        let slot = self.slot_mut(sequence);
        if slot.arrived {
            return false;
        }
        slot.arrived = true;
        let sample = (slot.sent == 1).then(|| now.since(slot.sent_at));
        if let Some(sample) = sample {
            self.round_trip.add(sample);
        }
        true
    }

    /// The oldest frame that is to be sent again at `now`.
    fn overdue(&mut self, now: Nanos) -> Option<u64> {
        if now < self.again_at {
            return None;
        }
        let mut again_at = Nanos::MAX;
        for sequence in self.oldest..self.next {
            let slot = self.slot(sequence);
            if slot.arrived {
                continue;
            }
            let due = slot.sent_at + self.patience(slot.sent);
            if due <= now {
                // Others may be due as well: `again_at` stays.
                return Some(sequence);
            }
            again_at = again_at.min(due);
        }
        self.again_at = again_at;
        None
    }

    /// How long a frame that was sent this often waits for its acknowledgement: twice as long each time.
    fn patience(&self, sent: u32) -> Duration {
        let (least, most) = self.retransmission;
        let timeout = self.round_trip.timeout().unwrap_or(least).clamp(least, most);
        timeout
            .saturating_mul(1 << sent.saturating_sub(1).min(8))
            .min(most)
    }

    /// Moves whole messages from the queue to the frame.
    fn fill(&mut self, sequence: u64, now: Nanos) {
        let mut slot = std::mem::take(self.slot_mut(sequence));
        slot.payload.clear();
        slot.messages = 0;
        (slot.sent_at, slot.sent, slot.arrived) = (now, 1, false);
        while let (Some(high), Some(low)) = (self.queue.front(), self.queue.get(1)) {
            let len = PREFIX_LEN + usize::from(u16::from_be_bytes([*high, *low]));
            if slot.payload.len() + len > self.max_payload {
                break;
            }
            let (front, back) = self.queue.as_slices();
            let (front, back) = (
                &front[..len.min(front.len())],
                &back[..len.saturating_sub(front.len())],
            );
            slot.payload.extend_from_slice(front);
            slot.payload.extend_from_slice(back);
            self.queue.drain(..len);
            self.queued -= 1;
            slot.messages += 1;
        }
        *self.slot_mut(sequence) = slot;
    }

    fn slot(&self, sequence: u64) -> &Slot {
        &self.slots[sequence as usize % MAX_WINDOW]
    }

    fn slot_mut(&mut self, sequence: u64) -> &mut Slot {
        &mut self.slots[sequence as usize % MAX_WINDOW]
    }
}
