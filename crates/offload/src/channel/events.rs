//! What the user of a channel is notified of.

use super::handshake::Peer;

/// A change of the contact with the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Contact is made. What the upper layers have agreed on before holds only if the peer is the process that it was
    /// ([`Peer::boot_change`]).
    Up(Peer),
    /// Contact has ended.
    Down {
        /// Why.
        reason: DownReason,
        /// Messages that were queued or sent and not acknowledged: of those that were sent, the peer's user may have
        /// taken some, the oldest first.
        given_up: u64,
    },
}

/// Why a contact has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownReason {
    /// No proof of the peer for [`Timers::lost_after`](super::Timers::lost_after).
    Silence,
    /// The host has made a new contact.
    Replaced,
    /// The peer has sent an authenticated frame that is against the specification.
    Fault,
    /// The user has ended it.
    Local,
}

/// Events that the user has not taken. A contact is made only when there are none, so they are few: the end of the last
/// contact, the beginning of a new one and its end.
#[derive(Debug, Default)]
pub(super) struct Events {
    waiting: [Option<Event>; 3],
}

impl Events {
    pub fn push(&mut self, event: Event) {
        if let Some(free) = self.waiting.iter_mut().find(|waiting| waiting.is_none()) {
            *free = Some(event);
        }
    }

    pub fn pop(&mut self) -> Option<Event> {
        let first = self.waiting[0].take();
        self.waiting.rotate_left(1);
        first
    }

    pub fn is_empty(&self) -> bool {
        self.waiting[0].is_none()
    }
}
