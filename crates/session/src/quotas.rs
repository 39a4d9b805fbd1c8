//! Quotas: what each association holds, and how much its group may hold.
//!
//! Owned by control. The tunnels and UE addresses of a worker are limited, and one session may want hundreds of them: a
//! few could keep the sessions of other associations out. So while there are several groups, each gets a part of every
//! worker's room, and of all sessions, and no more. What a group holds beyond it, from the time when it was alone, it
//! keeps. The caller says what a group is: several associations of one host are one.

use flow::{Bucket, WorkerId};
use std::sync::Arc;

use crate::ids::AssociationId;
use crate::keyed_map::{Keyed, keyed};
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;
use crate::worker_selection_keys::keys;

/// Entries in workers' tables: tunnels, IPv4 addresses and IPv6 prefixes of UEs; and, in the tables that all workers
/// have, worker selection exceptions ([`WorkerSelectionKey::needs_exception`](crate::WorkerSelectionKey)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ResourceCounts(pub(crate) [usize; 4]);

impl ResourceCounts {
    /// Of a session in `bucket`; no exceptions where it is `None`.
    pub(crate) fn of(tunnels: &[Tunnel], addresses: &[UeAddress], bucket: Option<Bucket>) -> ResourceCounts {
        let ipv4 = addresses.iter().filter(|(_, prefix)| prefix.is_ipv4()).count();
        let exceptions = bucket.map_or(0, |bucket| {
            let keys = keys(tunnels, addresses);
            keys.filter(|key| key.needs_exception(bucket)).count()
        });
        ResourceCounts([tunnels.len(), ipv4, addresses.len() - ipv4, exceptions])
    }

    /// Tunnels.
    pub(crate) fn tunnels(self) -> usize {
        self.0[0]
    }

    /// What of it one worker has alone.
    pub(crate) fn of_one_worker(self) -> ResourceCounts {
        let [tunnels, ipv4, ipv6, _] = self.0;
        ResourceCounts([tunnels, ipv4, ipv6, 0])
    }

    pub(crate) fn and(self, other: ResourceCounts) -> ResourceCounts {
        ResourceCounts(std::array::from_fn(|kind| self.0[kind] + other.0[kind]))
    }

    pub(crate) fn without(self, other: ResourceCounts) -> ResourceCounts {
        ResourceCounts(std::array::from_fn(|kind| {
            self.0[kind].saturating_sub(other.0[kind])
        }))
    }

    /// As much of this as is in `other`.
    pub(crate) fn within(self, other: ResourceCounts) -> ResourceCounts {
        ResourceCounts(std::array::from_fn(|kind| self.0[kind].min(other.0[kind])))
    }
}

/// What one session is charged for, in less room: it holds fewer than 2^32 of anything.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CompactCounts([u32; 4]);

impl From<ResourceCounts> for CompactCounts {
    fn from(ResourceCounts(all): ResourceCounts) -> CompactCounts {
        CompactCounts(all.map(|one| u32::try_from(one).unwrap_or(u32::MAX)))
    }
}

impl From<CompactCounts> for ResourceCounts {
    fn from(CompactCounts(all): CompactCounts) -> ResourceCounts {
        ResourceCounts(all.map(|one| one as usize))
    }
}

/// The index of worker selection exceptions in a [`ResourceCounts`].
const EXCEPTIONS: usize = 3;

/// What associations hold; one without anything has no entry.
#[derive(Debug)]
pub(crate) struct Quotas {
    sessions: Keyed<AssociationId, usize>,
    held: Keyed<(AssociationId, WorkerId), ResourceCounts>,
    /// Worker selection exceptions.
    exceptions: Keyed<AssociationId, usize>,
    /// How much there is: on each worker, and sessions.
    room: ResourceCounts,
    most_sessions: usize,
    percent: u8,
    has_others: bool,
    /// The associations of one group, for each association of a group that has several.
    groups: Keyed<AssociationId, Arc<[AssociationId]>>,
}

impl Quotas {
    /// No association holds anything. Of the `room` on each worker and of `most_sessions`, an association may take
    /// `percent` per cent unless it is alone. The seeds are those of the hash tables.
    pub(crate) fn new(room: ResourceCounts, most_sessions: usize, percent: u8, seeds: [u64; 2]) -> Quotas {
        let [sessions, held] = seeds;
        let groups = keyed(sessions.rotate_left(32));
        Quotas {
            sessions: keyed(sessions),
            held: keyed(held),
            exceptions: keyed(held.rotate_left(32)),
            room,
            most_sessions,
            percent: percent.min(100),
            has_others: false,
            groups,
        }
    }

    /// How many groups there are.
    pub(crate) fn among(&mut self, groups: usize) {
        self.has_others = groups > 1;
    }

    /// Which associations are of one group; every other one is a group by itself.
    pub(crate) fn unite(&mut self, groups: impl Iterator<Item = Vec<AssociationId>>) {
        self.groups.clear();
        for group in groups.filter(|group| group.len() > 1) {
            let group: Arc<[AssociationId]> = group.into();
            let of = group.iter().map(|association| (*association, Arc::clone(&group)));
            self.groups.extend(of);
        }
    }

    /// The sum over the associations of one group.
    fn sum<T>(
        &self,
        association: AssociationId,
        of: impl Fn(AssociationId) -> T,
        add: impl Fn(T, T) -> T,
    ) -> T {
        match self.groups.get(&association).map(|group| group.split_first()) {
            Some(Some((first, others))) => others.iter().fold(of(*first), |all, one| add(all, of(*one))),
            _ => of(association),
        }
    }

    /// Whether the group of `association` may have one more of things of which there are `most`; `held` is how many an
    /// association holds.
    pub(crate) fn allows_of(
        &self,
        most: usize,
        association: AssociationId,
        held: impl Fn(AssociationId) -> usize,
    ) -> bool {
        self.sum(association, held, |one, other| one + other) < self.part_of(most)
    }

    /// What one group may have of `room`.
    fn part_of(&self, room: usize) -> usize {
        match self.has_others {
            true => (room as u128 * u128::from(self.percent) / 100) as usize,
            false => room,
        }
    }

    /// How many sessions peers can address under `association`.
    pub(crate) fn sessions(&self, association: AssociationId) -> usize {
        self.sessions.get(&association).copied().unwrap_or_default()
    }

    /// Whether `association` may have one session more.
    pub(crate) fn allows_session(&self, association: AssociationId) -> bool {
        self.allows_of(self.most_sessions, association, |one| self.sessions(one))
    }

    /// `association` has one session more.
    pub(crate) fn add_session(&mut self, association: AssociationId) {
        *self.sessions.entry(association).or_default() += 1;
    }

    /// `association` has one session less.
    pub(crate) fn remove_session(&mut self, association: AssociationId) {
        if let hashbrown::hash_map::Entry::Occupied(mut entry) = self.sessions.entry(association) {
            let left = entry.get().saturating_sub(1);
            if left == 0 {
                entry.remove();
            } else {
                entry.insert(left);
            }
        }
    }

    /// What `association` holds on `worker`.
    pub(crate) fn held(&self, association: AssociationId, worker: WorkerId) -> ResourceCounts {
        let mut all = self.held.get(&(association, worker)).copied().unwrap_or_default();
        all.0[EXCEPTIONS] = self.exceptions.get(&association).copied().unwrap_or_default();
        all
    }

    /// Whether `association` may hold `more` on `worker`.
    pub(crate) fn allows(&self, association: AssociationId, worker: WorkerId, more: ResourceCounts) -> bool {
        self.fits(association, worker, more, |room| self.part_of(room))
    }

    /// Whether `worker` has room for `more` of `association`, also beyond its quota.
    pub(crate) fn has_room(
        &self,
        association: AssociationId,
        worker: WorkerId,
        more: ResourceCounts,
    ) -> bool {
        self.fits(association, worker, more, |room| room)
    }

    fn fits(
        &self,
        association: AssociationId,
        worker: WorkerId,
        more: ResourceCounts,
        part: impl Fn(usize) -> usize,
    ) -> bool {
        let held = self
            .sum(association, |one| self.held(one, worker), ResourceCounts::and)
            .0;
        let mut all = more.0.into_iter().zip(held).zip(self.room.0);
        all.all(|((more, held), room)| more == 0 || held.saturating_add(more) <= part(room))
    }

    /// `association` holds `more` on `worker`.
    pub(crate) fn add(&mut self, association: AssociationId, worker: WorkerId, more: ResourceCounts) {
        let own = more.of_one_worker();
        if own != ResourceCounts::default() {
            let held = self.held.entry((association, worker)).or_default();
            *held = held.and(own);
        }
        if more.0[EXCEPTIONS] > 0 {
            *self.exceptions.entry(association).or_default() += more.0[EXCEPTIONS];
        }
    }

    /// `association` gives `less` on `worker` back.
    pub(crate) fn remove(&mut self, association: AssociationId, worker: WorkerId, less: ResourceCounts) {
        if let hashbrown::hash_map::Entry::Occupied(mut entry) = self.exceptions.entry(association) {
            let left = entry.get().saturating_sub(less.0[EXCEPTIONS]);
            if left == 0 {
                entry.remove();
            } else {
                entry.insert(left);
            }
        }
        if let hashbrown::hash_map::Entry::Occupied(mut entry) = self.held.entry((association, worker)) {
            let left = entry.get().without(less.of_one_worker());
            if left == ResourceCounts::default() {
                entry.remove();
            } else {
                entry.insert(left);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quotas() -> Quotas {
        Quotas::new(ResourceCounts([10, 4, 4, 0]), 6, 50, [1, 2])
    }

    #[test]
    fn a_holder_of_nothing_is_forgotten() {
        let (a, b) = (AssociationId(1), AssociationId(2));
        let mut quotas = quotas();
        quotas.add_session(a);
        quotas.add_session(a);
        quotas.remove_session(a);
        quotas.remove_session(b);
        assert_eq!((quotas.sessions(a), quotas.sessions(b)), (1, 0));
        quotas.remove_session(a);
        assert!(quotas.sessions.is_empty());
    }

    #[test]
    fn among_others_an_association_gets_its_part_of_every_worker() {
        let (a, b) = (AssociationId(1), AssociationId(2));
        let (first, second) = (WorkerId(0), WorkerId(1));
        let tunnels = |count| ResourceCounts([count, 0, 0, 0]);
        let mut quotas = quotas();
        quotas.add(a, first, tunnels(4));
        assert!(quotas.allows(a, first, tunnels(6)) && !quotas.allows(a, first, tunnels(7)));
        quotas.among(2);
        assert!(quotas.allows(a, first, tunnels(1)) && !quotas.allows(a, first, tunnels(2)));
        assert!(quotas.allows(a, second, tunnels(5)) && quotas.allows(b, first, tunnels(5)));
        quotas.add(a, first, tunnels(6));
        assert!(
            quotas.allows(a, first, tunnels(0)),
            "what asks for none is let be"
        );
        quotas.remove(a, first, tunnels(10));
        assert!(quotas.held.is_empty() && quotas.allows(a, first, tunnels(5)));
    }

    #[test]
    fn the_associations_of_one_group_have_one_share() {
        let [a, b, c] = [1, 2, 3].map(AssociationId);
        let worker = WorkerId(0);
        let mut quotas = quotas();
        quotas.among(2);
        quotas.unite([vec![a, b], vec![c]].into_iter());
        [a, a, b].into_iter().for_each(|one| quotas.add_session(one));
        assert!(!quotas.allows_session(a) && !quotas.allows_session(b) && quotas.allows_session(c));
        quotas.add(a, worker, ResourceCounts([3, 0, 0, 0]));
        quotas.add(b, worker, ResourceCounts([1, 0, 0, 0]));
        let allows =
            |quotas: &Quotas, one, tunnels| quotas.allows(one, worker, ResourceCounts([tunnels, 0, 0, 0]));
        assert!(allows(&quotas, b, 1) && !allows(&quotas, b, 2) && allows(&quotas, c, 5));
        assert!(quotas.has_room(b, worker, ResourceCounts([6, 0, 0, 0])));
        assert!(!quotas.has_room(b, worker, ResourceCounts([7, 0, 0, 0])));
        quotas.unite([vec![b]].into_iter());
        assert!(allows(&quotas, b, 4) && !allows(&quotas, b, 5));
    }

    #[test]
    fn exceptions_are_counted_over_all_workers() {
        let (a, b) = (AssociationId(1), AssociationId(2));
        let mut quotas = Quotas::new(ResourceCounts([10, 4, 4, 4]), 6, 50, [1, 2]);
        quotas.among(2);
        let exceptions = |count| ResourceCounts([1, 0, 0, count]);
        quotas.add(a, WorkerId(0), exceptions(1));
        quotas.add(a, WorkerId(1), exceptions(1));
        assert!(
            !quotas.allows(a, WorkerId(2), exceptions(1)) && quotas.allows(a, WorkerId(2), exceptions(0))
        );
        assert!(
            quotas.allows(b, WorkerId(2), exceptions(2)) && !quotas.allows(b, WorkerId(2), exceptions(3))
        );
        // A move of what it has takes nothing of them.
        assert!(quotas.allows(a, WorkerId(1), exceptions(1).of_one_worker()));
        quotas.remove(a, WorkerId(0), exceptions(1));
        quotas.remove(a, WorkerId(1), exceptions(1));
        assert!(quotas.exceptions.is_empty() && quotas.held.is_empty());
    }

    #[test]
    fn among_others_an_association_gets_its_part_of_sessions_and_of_each_kind_of_address() {
        let a = AssociationId(1);
        let worker = WorkerId(0);
        let mut quotas = quotas();
        (0..3).for_each(|_| quotas.add_session(a));
        assert!(quotas.allows_session(a));
        quotas.among(2);
        assert!(!quotas.allows_session(a) && quotas.allows_session(AssociationId(2)));
        quotas.add(a, worker, ResourceCounts([0, 2, 0, 0]));
        assert!(!quotas.allows(a, worker, ResourceCounts([0, 1, 0, 0])));
        assert!(quotas.allows(a, worker, ResourceCounts([0, 0, 2, 0])));
        assert!(!quotas.allows(a, worker, ResourceCounts([0, 0, 3, 0])));
    }
}
