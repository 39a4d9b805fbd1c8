//! What each association holds, and how much it may.
//!
//! Owned by control. A worker has room for so many tunnels, and one session may want a thousand of them: a few could
//! keep everybody else's sessions out. So while there are several associations, each gets a part of every worker's
//! room and no more. What an association holds beyond it, from the time when it was alone, stays its own.

use flow::WorkerId;

use crate::effect::AssociationId;
use crate::keyed::{Keyed, keyed};

/// What associations hold; one without anything has no entry.
#[derive(Debug)]
pub(crate) struct Shares {
    sessions: Keyed<AssociationId, usize>,
    tunnels: Keyed<(AssociationId, WorkerId), usize>,
    /// Tunnels of one association on one worker, alone and among others.
    alone: usize,
    among_others: usize,
    has_others: bool,
}

impl Shares {
    /// Nobody holds anything. Of the `room` for tunnels on each worker, an association may take `percent` per cent
    /// unless it is alone. The seeds are those of the hash tables.
    pub(crate) fn new(room: usize, percent: u8, seeds: [u64; 2]) -> Shares {
        let [sessions, tunnels] = seeds;
        Shares {
            sessions: keyed(sessions),
            tunnels: keyed(tunnels),
            alone: room,
            among_others: (room as u128 * u128::from(percent.min(100)) / 100) as usize,
            has_others: false,
        }
    }

    /// How many associations there are.
    pub(crate) fn among(&mut self, associations: usize) {
        self.has_others = associations > 1;
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

    /// How many tunnels `association` holds on `worker`.
    pub(crate) fn tunnels(&self, association: AssociationId, worker: WorkerId) -> usize {
        self.tunnels
            .get(&(association, worker))
            .copied()
            .unwrap_or_default()
    }

    /// Whether `association` may have `count` tunnels more on `worker`.
    pub(crate) fn allows(&self, association: AssociationId, worker: WorkerId, count: usize) -> bool {
        let most = if self.has_others {
            self.among_others
        } else {
            self.alone
        };
        count == 0 || self.tunnels(association, worker).saturating_add(count) <= most
    }

    /// `association` holds `count` tunnels more on `worker`.
    pub(crate) fn add_tunnels(&mut self, association: AssociationId, worker: WorkerId, count: usize) {
        if count > 0 {
            *self.tunnels.entry((association, worker)).or_default() += count;
        }
    }

    /// `association` holds `count` tunnels less on `worker`.
    pub(crate) fn remove_tunnels(&mut self, association: AssociationId, worker: WorkerId, count: usize) {
        take(&mut self.tunnels, (association, worker), count);
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
        let mut shares = Shares::new(10, 50, [1, 2]);
        shares.add_session(a);
        shares.add_session(a);
        shares.remove_session(a);
        shares.remove_session(b);
        assert_eq!((shares.sessions(a), shares.sessions(b)), (1, 0));
        shares.remove_session(a);
        assert!(shares.sessions.is_empty());
    }

    #[test]
    fn among_others_an_association_gets_its_part_of_every_worker() {
        let (a, b) = (AssociationId(1), AssociationId(2));
        let (first, second) = (WorkerId(0), WorkerId(1));
        let mut shares = Shares::new(10, 50, [1, 2]);
        shares.add_tunnels(a, first, 4);
        assert!(shares.allows(a, first, 6) && !shares.allows(a, first, 7));
        shares.among(2);
        assert!(shares.allows(a, first, 1) && !shares.allows(a, first, 2));
        assert!(shares.allows(a, second, 5) && shares.allows(b, first, 5));
        shares.add_tunnels(a, first, 6);
        assert!(shares.allows(a, first, 0), "what asks for none is let be");
        shares.remove_tunnels(a, first, 10);
        assert!(shares.tunnels.is_empty() && shares.allows(a, first, 5));
    }
}
