//! DATA frames that have arrived, until the user has taken the messages in them.

use std::time::Duration;

use flow::Nanos;

use super::config::{ChannelConfig, MAX_WINDOW};
use super::frame::PREFIX_LEN;

/// After this number of frames an acknowledgement is sent without delay.
const PROMPT: u32 = 16;

/// What became of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It is kept.
    New,
    /// It was received before.
    Duplicate,
    /// The sender may not have sent it yet.
    Outside,
    /// Its payload is not a list of messages.
    Malformed,
}

/// The receiving half of a contact. A frame is acknowledged when the user has taken its last message, and reported in
/// the bitmap from its arrival: so a user that takes nothing stops the sender, and what is given up at the end of a
/// contact was not acknowledged.
#[derive(Debug)]
pub(super) struct Receiver {
    payloads: Box<[Vec<u8>]>,
    /// All frames up to this one are taken.
    taken: u64,
    /// Bit n: the frame `taken + 1 + n` has arrived.
    bitmap: u64,
    /// Where the next message begins, in the frame `taken + 1`.
    offset: usize,
    /// When an acknowledgement is to be sent.
    ack_at: Nanos,
    /// Frames since the last acknowledgement.
    unreported: u32,
    ack_delay: Duration,
}

impl Receiver {
    pub fn new(config: &ChannelConfig) -> Self {
        Self {
            payloads: (0..MAX_WINDOW)
                .map(|_| Vec::with_capacity(config.max_payload()))
                .collect(),
            taken: 0,
            bitmap: 0,
            offset: 0,
            ack_at: Nanos::MAX,
            unreported: 0,
            ack_delay: config.timers.ack_delay,
        }
    }

    /// Begins a contact; messages that were not taken are gone.
    pub fn restart(&mut self) {
        (self.taken, self.bitmap, self.offset, self.unreported) = (0, 0, 0, 0);
        self.ack_at = Nanos::MAX;
    }

    /// Makes `sequence` the number of the first frame, in a contact that has received none.
    #[cfg(test)]
    pub fn start_at(&mut self, sequence: u64) {
        self.taken = sequence - 1;
    }

    /// Takes a DATA frame.
    pub fn accept(&mut self, sequence: u64, payload: &[u8], now: Nanos) -> Arrival {
        let Some(place) = sequence.checked_sub(self.taken + 1) else {
            self.owe_at(now + self.ack_delay);
            return Arrival::Duplicate;
        };
        if place >= MAX_WINDOW as u64 {
            return Arrival::Outside;
        }
        if self.bitmap >> place & 1 == 1 {
            self.owe_at(now + self.ack_delay);
            return Arrival::Duplicate;
        }
        if !is_list(payload) {
            return Arrival::Malformed;
        }
        let kept = &mut self.payloads[sequence as usize % MAX_WINDOW];
        kept.clear();
        kept.extend_from_slice(payload);
        self.bitmap |= 1 << place;
        self.skip_empty();
        self.unreported += 1;
        let prompt = self.unreported >= PROMPT;
        self.owe_at(if prompt { now } else { now + self.ack_delay });
        Arrival::New
    }

    /// The next message in order, which is taken by that at `now`.
    pub fn next_message(&mut self, now: Nanos) -> Option<&[u8]> {
        if self.bitmap & 1 == 0 {
            return None;
        }
        let place = (self.taken + 1) as usize % MAX_WINDOW;
        let (message, behind) = split(self.payloads[place].get(self.offset..)?)?;
        let end = self.payloads[place].len() - behind.len();
        let begin = end - message.len();
        self.offset = end;
        if behind.is_empty() {
            self.pass();
            self.skip_empty();
            self.owe_at(now + self.ack_delay);
        }
        self.payloads[place].get(begin..end)
    }

    /// The acknowledgement for a frame that is sent now.
    pub fn report(&mut self) -> (u64, u64) {
        self.ack_at = Nanos::MAX;
        self.unreported = 0;
        (self.taken, self.bitmap)
    }

    /// When an acknowledgement is to be sent, with a DATA frame or alone.
    pub fn ack_at(&self) -> Nanos {
        self.ack_at
    }

    /// An acknowledgement is to be sent by then.
    pub fn owe_at(&mut self, at: Nanos) {
        self.ack_at = self.ack_at.min(at);
    }

    /// The next frame is taken.
    fn pass(&mut self) {
        self.taken += 1;
        self.bitmap >>= 1;
        self.offset = 0;
    }

    /// Passes frames without messages.
    fn skip_empty(&mut self) {
        while self.bitmap & 1 == 1 && self.payloads[(self.taken + 1) as usize % MAX_WINDOW].is_empty() {
            self.pass();
        }
    }
}

/// The first message of `payload`, and what is behind it.
fn split(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (prefix, rest) = payload.split_first_chunk::<PREFIX_LEN>()?;
    rest.split_at_checked(usize::from(u16::from_be_bytes(*prefix)))
}

/// Whether `payload` is a list of messages, none of them empty.
fn is_list(mut payload: &[u8]) -> bool {
    while !payload.is_empty() {
        match split(payload) {
            Some((message, rest)) if !message.is_empty() => payload = rest,
            _ => return false,
        }
    }
    true
}
