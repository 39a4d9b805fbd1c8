//! Messages that wait until what they tell is kept: a peer is promised nothing that a restart would forget.
//!
//! Changes are counted ([`Journal`](crate::journal::Journal)). A message waits for all changes up to the moment at
//! which it is looked at first, which is later than the one at which it was made. Heartbeats tell nothing that is kept,
//! and go at once, however slow the disk is. Where nothing is kept nothing waits.

use pfcp::MessageType;
use std::collections::VecDeque;

use crate::datagram::Transmit;

/// Messages on their way to the queue of those that may be sent.
#[derive(Debug, Default)]
pub(crate) struct HeldTransmits {
    is_holding: bool,
    /// Made since the changes were counted last.
    made: VecDeque<Transmit>,
    /// Each with the number of changes that it waits for, in order.
    held: VecDeque<(u64, Transmit)>,
    durable: u64,
}

impl HeldTransmits {
    /// From now on messages wait.
    pub(crate) fn begin(&mut self) {
        self.is_holding = true;
    }

    /// A message was made. Gives it back if it need not wait.
    pub(crate) fn offer(&mut self, transmit: Transmit) -> Option<Transmit> {
        if !self.is_holding || !tells_of_changes(&transmit) {
            return Some(transmit);
        }
        self.made.push_back(transmit);
        None
    }

    /// There have been `changes` changes so far. The next message whose changes are kept.
    pub(crate) fn poll(&mut self, changes: u64) -> Option<Transmit> {
        let made = self.made.drain(..);
        self.held.extend(made.map(|transmit| (changes, transmit)));
        let (_, transmit) = self.held.pop_front_if(|(after, _)| *after <= self.durable)?;
        Some(transmit)
    }

    /// The first `changes` changes are kept.
    pub(crate) fn kept(&mut self, changes: u64) {
        self.durable = self.durable.max(changes);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.made.len() + self.held.len()
    }

    /// Forgets what waits.
    pub(crate) fn clear(&mut self) {
        self.made.clear();
        self.held.clear();
    }
}

/// Whether a message may tell of a change.
fn tells_of_changes(transmit: &Transmit) -> bool {
    let message_type = transmit.bytes.get(1).map(|octet| MessageType(*octet));
    !matches!(
        message_type,
        Some(
            MessageType::HEARTBEAT_REQUEST
                | MessageType::HEARTBEAT_RESPONSE
                | MessageType::VERSION_NOT_SUPPORTED_RESPONSE
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(message_type: MessageType) -> Transmit {
        Transmit {
            from: ([127, 0, 0, 1], 8805).into(),
            to: ([127, 0, 0, 2], 8805).into(),
            bytes: vec![0x20, message_type.0, 0, 4, 0, 0, 1, 0].into(),
        }
    }

    #[test]
    fn a_message_waits_for_the_changes_before_it_and_not_for_those_behind() {
        let response = message(MessageType::SESSION_ESTABLISHMENT_RESPONSE);
        let mut held = HeldTransmits::default();
        held.begin();
        assert_eq!(held.offer(response.clone()), None);
        assert_eq!(held.poll(3), None);
        assert_eq!(held.offer(response.clone()), None);
        assert_eq!((held.poll(7), held.len()), (None, 2));
        held.kept(3);
        assert_eq!((held.poll(9), held.poll(9)), (Some(response.clone()), None));
        held.kept(7);
        assert_eq!((held.poll(9), held.len()), (Some(response), 0));
    }

    #[test]
    fn heartbeats_wait_for_nothing() {
        let mut held = HeldTransmits::default();
        held.begin();
        for message_type in [MessageType::HEARTBEAT_REQUEST, MessageType::HEARTBEAT_RESPONSE] {
            assert_eq!(held.offer(message(message_type)), Some(message(message_type)));
        }
    }

    #[test]
    fn nothing_waits_where_nothing_is_kept() {
        let response = message(MessageType::SESSION_DELETION_RESPONSE);
        assert_eq!(HeldTransmits::default().offer(response.clone()), Some(response));
    }
}
