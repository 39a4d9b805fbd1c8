//! What the endpoint counts of messages: by type, and by the cause of refusals. Belongs to the endpoint.

use std::collections::BTreeMap;

use pfcp::MessageType;
use pfcp::ie::Cause;

/// What was counted of the messages of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageCount {
    /// Messages received, retransmissions among them.
    pub received: u64,
    /// Retransmissions of requests among them: answered as before, or in work.
    pub duplicates: u64,
    /// Requests among them that were refused, not counting their retransmissions.
    pub refused: u64,
    /// Messages sent, without those that were sent again.
    pub sent: u64,
    /// Messages sent again: our requests by T1, and answers to retransmissions.
    pub resent: u64,
}

/// The requests of one type that were refused with one cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusals {
    /// The type.
    pub request: MessageType,
    /// The cause.
    pub cause: Cause,
    /// How many.
    pub count: u64,
}

/// The messages of all types, and the causes of refusals.
#[derive(Clone, Debug)]
pub struct MessageCounters {
    messages: Box<[MessageCount; 256]>,
    /// Requests that we refused, by type and cause.
    refused: BTreeMap<(u8, u8), u64>,
    /// Requests of ours that peers refused.
    refused_by_peers: Box<[u64; 256]>,
}

impl Default for MessageCounters {
    fn default() -> MessageCounters {
        MessageCounters {
            messages: Box::new([MessageCount::default(); 256]),
            refused: BTreeMap::new(),
            refused_by_peers: Box::new([0; 256]),
        }
    }
}

fn counted(causes: &[u64; 256]) -> impl Iterator<Item = (Cause, u64)> + '_ {
    let all = (0..=u8::MAX).zip(causes).filter(|(_, count)| **count > 0);
    all.filter_map(|(value, count)| Some((Cause::new(value)?, *count)))
}

impl MessageCounters {
    /// The types of which there was anything, in the order of their numbers.
    pub fn messages(&self) -> impl Iterator<Item = (MessageType, MessageCount)> + '_ {
        let all = (0..=u8::MAX).zip(self.messages.iter());
        all.filter(|(_, count)| **count != MessageCount::default())
            .map(|(number, count)| (MessageType(number), *count))
    }

    /// The messages of one type.
    pub fn of(&self, message_type: MessageType) -> MessageCount {
        self.messages[usize::from(message_type.0)]
    }

    /// The causes by which we refused requests, and how many each.
    pub fn refused(&self) -> impl Iterator<Item = (Cause, u64)> + use<> {
        let mut causes = BTreeMap::new();
        for ((_, cause), count) in &self.refused {
            *causes.entry(*cause).or_default() += *count;
        }
        causes
            .into_iter()
            .filter_map(|(cause, count)| Some((Cause::new(cause)?, count)))
    }

    /// The requests that we refused, by type and cause.
    pub fn refusals(&self) -> impl Iterator<Item = Refusals> + '_ {
        let row = |(&(request, cause), &count): (&(u8, u8), &u64)| {
            Some(Refusals {
                request: MessageType(request),
                cause: Cause::new(cause)?,
                count,
            })
        };
        self.refused.iter().filter_map(row)
    }

    /// The causes by which peers refused our requests, and how many each.
    pub fn refused_by_peers(&self) -> impl Iterator<Item = (Cause, u64)> + '_ {
        counted(&self.refused_by_peers)
    }

    fn entry(&mut self, message_type: MessageType) -> &mut MessageCount {
        &mut self.messages[usize::from(message_type.0)]
    }

    pub(crate) fn received(&mut self, message_type: MessageType) {
        self.entry(message_type).received += 1;
    }

    pub(crate) fn duplicate(&mut self, message_type: MessageType) {
        self.entry(message_type).duplicates += 1;
    }

    pub(crate) fn sent(&mut self, message_type: MessageType) {
        self.entry(message_type).sent += 1;
    }

    /// A whole message was sent once more.
    pub(crate) fn resent(&mut self, message: &[u8]) {
        if let Some(message_type) = message.get(1) {
            self.entry(MessageType(*message_type)).resent += 1;
        }
    }

    pub(crate) fn refuse(&mut self, request: MessageType, cause: Cause) {
        self.entry(request).refused += 1;
        *self.refused.entry((request.0, cause.value())).or_default() += 1;
    }

    pub(crate) fn refused_by_peer(&mut self, cause: Cause) {
        self.refused_by_peers[usize::from(cause.value())] += 1;
    }
}
