//! Which channel sessions are of.

use std::collections::HashMap;

use flow::SessionIndex;

/// The channel of each session that is here, by its place.
#[derive(Debug, Default)]
pub struct Ownership(HashMap<SessionIndex, u8>);

impl Ownership {
    /// The channel of a session.
    pub fn of(&self, session: SessionIndex) -> Option<usize> {
        self.0.get(&session).copied().map(usize::from)
    }

    /// A session is that of a channel, whose place is below 256.
    pub fn give(&mut self, session: SessionIndex, place: usize) {
        self.0.insert(session, place as u8);
    }

    /// A session of this channel is gone.
    pub fn end(&mut self, session: SessionIndex, place: usize) {
        if self.of(session) == Some(place) {
            self.0.remove(&session);
        }
    }

    /// All sessions are gone.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}
