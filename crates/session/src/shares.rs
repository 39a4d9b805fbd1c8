//! What each association holds.
//!
//! Owned by control.

use crate::effect::AssociationId;
use crate::keyed::{Keyed, keyed};

/// What associations hold; one without anything has no entry.
#[derive(Debug)]
pub(crate) struct Shares {
    sessions: Keyed<AssociationId, usize>,
}

impl Shares {
    /// Nobody holds anything. `seed` is that of the hash table.
    pub(crate) fn new(seed: u64) -> Shares {
        Shares {
            sessions: keyed(seed),
        }
    }

    /// How many sessions peers can address under `association`.
    pub(crate) fn sessions(&self, association: AssociationId) -> usize {
        self.sessions.get(&association).copied().unwrap_or_default()
    }

    /// `association` has one session more.
    pub(crate) fn add_session(&mut self, association: AssociationId) {
        *self.sessions.entry(association).or_default() += 1;
    }

    /// `association` has one session less.
    pub(crate) fn remove_session(&mut self, association: AssociationId) {
        take(&mut self.sessions, association, 1);
    }
}

/// Takes `count` from what `holder` holds, and forgets a holder of nothing.
fn take<K: Eq + std::hash::Hash>(held: &mut Keyed<K, usize>, holder: K, count: usize) {
    if let hashbrown::hash_map::Entry::Occupied(mut entry) = held.entry(holder) {
        let left = entry.get().saturating_sub(count);
        if left == 0 {
            entry.remove();
        } else {
            entry.insert(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_of_nothing_is_forgotten() {
        let (a, b) = (AssociationId(1), AssociationId(2));
        let mut shares = Shares::new(1);
        shares.add_session(a);
        shares.add_session(a);
        shares.remove_session(a);
        shares.remove_session(b);
        assert_eq!((shares.sessions(a), shares.sessions(b)), (1, 0));
        shares.remove_session(a);
        assert!(shares.sessions.is_empty());
    }
}
