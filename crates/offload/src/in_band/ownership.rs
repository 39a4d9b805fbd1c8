//! Which channel sessions are of.

use std::collections::{HashMap, HashSet};

use flow::SessionIndex;

/// The channel of each session that is here, by its place.
#[derive(Debug, Default)]
pub struct Ownership {
    owners: HashMap<SessionIndex, u8>,
    /// How many sessions each has.
    held: Vec<usize>,
}

impl Ownership {
    /// The channel of a session.
    pub fn of(&self, session: SessionIndex) -> Option<usize> {
        self.owners.get(&session).copied().map(usize::from)
    }

    /// How many sessions a channel has.
    pub fn sessions_of(&self, place: usize) -> usize {
        self.held.get(place).copied().unwrap_or_default()
    }

    /// A session, which no channel has, is that of this one, whose place is below 256.
    pub fn give(&mut self, session: SessionIndex, place: usize) {
        if self.held.len() <= place {
            self.held.resize(place + 1, 0);
        }
        if self.owners.insert(session, place as u8).is_none() {
            self.held[place] += 1;
        }
    }

    /// A session of this channel is gone.
    pub fn end(&mut self, session: SessionIndex, place: usize) {
        if self.of(session) == Some(place) {
            self.owners.remove(&session);
            self.held[place] -= 1;
        }
    }

    /// A channel is gone: the sessions that it had, which no channel has now.
    pub fn end_all_of(&mut self, place: usize) -> HashSet<SessionIndex> {
        if let Some(held) = self.held.get_mut(place) {
            *held = 0;
        }
        let of_it = self.owners.extract_if(|_, owner| usize::from(*owner) == place);
        of_it.map(|(session, _)| session).collect()
    }

    /// All sessions are gone.
    pub fn clear(&mut self) {
        self.owners.clear();
        self.held.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_one_channels_until_that_ends_it() {
        let mut ownership = Ownership::default();
        let (one, other) = (SessionIndex(7), SessionIndex(8));
        ownership.give(one, 1);
        ownership.give(other, 0);
        assert_eq!(
            [one, other].map(|session| ownership.of(session)),
            [Some(1), Some(0)]
        );
        ownership.end(one, 0);
        assert_eq!((ownership.of(one), ownership.sessions_of(1)), (Some(1), 1));
        ownership.end(one, 1);
        assert_eq!((ownership.of(one), ownership.sessions_of(1)), (None, 0));
        ownership.give(one, 2);
        assert_eq!(ownership.end_all_of(2), HashSet::from([one]));
        assert_eq!((ownership.of(one), ownership.of(other)), (None, Some(0)));
        assert_eq!([0, 2].map(|place| ownership.sessions_of(place)), [1, 0]);
        ownership.give(one, 2);
        ownership.clear();
        assert_eq!((ownership.of(other), ownership.sessions_of(2)), (None, 0));
    }
}
