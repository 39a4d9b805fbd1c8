//! The session table: all sessions by index, SEID, CP F-SEID, association, bucket, peer's tunnel endpoint and path.

use flow::{Bucket, SessionGroupId, SessionIndex};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bucket_members::BucketMembers;
use crate::gtpu_paths::Paths;
use crate::hashed_indexes::HashedIndexes;
use crate::ids::{AssociationId, CpFSeid, RemoteTunnel, Seid};
use crate::indexes::Indexes;
use crate::live_session::Live;
use crate::pending_change::{Phase, Work};
use crate::remotes::Remotes;
use crate::resources::ABSENT;
use crate::seids::Seids;
use crate::session::{Session, SessionView};
use crate::session_accounting::Subscriber;
use crate::session_groups::SessionGroups;

/// Seeds of the hash tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSeeds {
    pub(crate) paths: u64,
    pub(crate) owners: u64,
    pub(crate) remotes: u64,
}

/// Whose a session is, and its control plane's F-SEID.
type Owner = (AssociationId, CpFSeid);

type Slots = Vec<Option<Box<Session>>>;

/// All sessions, also those whose removal a worker has yet to confirm.
#[derive(Debug)]
pub(crate) struct SessionTable {
    slots: Slots,
    pub(crate) indexes: Indexes,
    pub(crate) seids: Seids,
    by_owner: HashedIndexes<Owner, SessionIndex>,
    remotes: Remotes,
    pub(crate) paths: Paths,
    members: BucketMembers,
    /// The sessions of each association that peers can address, in no order; an association without any has no entry.
    by_association: BTreeMap<AssociationId, Vec<SessionIndex>>,
    /// How many sessions of each association only workers still have.
    dying: BTreeMap<AssociationId, usize>,
    /// How many sessions are in [`Phase::Awaited`].
    awaited: usize,
    pub(crate) groups: SessionGroups,
}

impl SessionTable {
    /// No sessions, and room for `max`.
    pub(crate) fn new(max: u32, seeds: TableSeeds) -> SessionTable {
        SessionTable {
            slots: Vec::new(),
            indexes: Indexes::new(max),
            seids: Seids::default(),
            by_owner: HashedIndexes::new(seeds.owners),
            remotes: Remotes::new(seeds.remotes),
            paths: Paths::new(seeds.paths),
            members: BucketMembers::new(),
            by_association: BTreeMap::new(),
            dying: BTreeMap::new(),
            awaited: 0,
            groups: SessionGroups::default(),
        }
    }

    /// The session with this index.
    pub(crate) fn get(&self, index: SessionIndex) -> Option<&Session> {
        self.slots.get(index.index())?.as_deref()
    }

    /// The session with this index.
    pub(crate) fn get_mut(&mut self, index: SessionIndex) -> Option<&mut Session> {
        self.slots.get_mut(index.index())?.as_deref_mut()
    }

    /// The session with this index, unless only workers still have it.
    pub(crate) fn live_mut(&mut self, index: SessionIndex) -> Option<&mut Session> {
        self.get_mut(index).filter(|session| !session.is_dying())
    }

    /// All sessions in the order of their indexes, to be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().flatten().map(Box::as_mut)
    }

    /// Whether the session is about to end, so that another may have what it held.
    pub(crate) fn has_lost(&self, index: SessionIndex) -> bool {
        index != ABSENT && self.get(index).is_none_or(Session::is_dying)
    }

    /// The session that an association has under this CP F-SEID.
    pub(crate) fn by_owner(&self, association: AssociationId, cp: CpFSeid) -> Option<SessionIndex> {
        let owner = (association, cp);
        let hash = self.by_owner.hash(&owner);
        self.by_owner.find(hash, |index| is_of(&self.slots, index, owner))
    }

    /// Enters a session under its numbers.
    pub(crate) fn put(&mut self, mut session: Box<Session>) {
        let index = session.index;
        session.bucket_position = self.members.add(session.bucket, index) as u32;
        self.seids.insert(session.seid, index);
        self.groups.join(session.accounting.subscriber.as_deref());
        let owner = (session.association, session.cp);
        if self.slots.len() <= index.index() {
            self.slots.resize_with(index.index() + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(index.index()) {
            *slot = Some(session);
            self.enter_owner(owner, index);
            self.join_association(index);
        }
    }

    /// Peers can address the session no more, and no move reckons with it.
    pub(crate) fn unlink(&mut self, index: SessionIndex) {
        let Some(session) = self.get(index) else {
            return;
        };
        let subscriber = session.accounting.subscriber.clone();
        let owner = (session.association, session.cp);
        let (seid, bucket, position) = (session.seid, session.bucket, session.bucket_position);
        self.seids.remove(seid);
        self.groups.leave(subscriber.as_deref());
        self.forget_owner(owner, index);
        self.leave_association(index);
        let successor = self.members.remove(bucket, position as usize);
        if let Some(session) = successor.and_then(|index| self.get_mut(index)) {
            session.bucket_position = position;
        }
        self.set_phase(index, Phase::Stays);
    }

    /// Removes a session from its slot, and frees its index.
    pub(crate) fn clear(&mut self, index: SessionIndex) -> Option<Box<Session>> {
        let gone = self.slots.get_mut(index.index()).and_then(Option::take);
        if gone.is_some() {
            self.indexes.give_back(index);
        }
        gone
    }

    /// The control plane says anew whom a session is for.
    pub(crate) fn set_subscriber(&mut self, index: SessionIndex, subscriber: Option<Arc<Subscriber>>) {
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let group = |of: &Option<Arc<Subscriber>>| of.as_ref().map(|of| (of.s_nssai, of.dnn.clone()));
        let moves = group(&session.accounting.subscriber) != group(&subscriber);
        if moves && !session.is_dying() {
            self.groups.leave(session.accounting.subscriber.as_deref());
            self.groups.join(subscriber.as_deref());
        }
        session.accounting.subscriber = subscriber;
    }

    /// The group of a session when this is done.
    pub(crate) fn group_after(&mut self, index: SessionIndex, work: &Work) -> SessionGroupId {
        let said = match work {
            Work::Modify(prepared) => prepared.subscriber.as_deref().map(Some),
            Work::Supersede(prepared, _) => Some(prepared.subscriber.as_deref()),
            _ => None,
        };
        match said {
            Some(subscriber) => self.groups.number(subscriber),
            None => {
                let session = self.get(index);
                let known = session.and_then(|session| session.accounting.subscriber.as_deref());
                self.groups.known_number(known)
            }
        }
    }

    /// Changes how far a session is in the move of its bucket. Answers how far it was.
    pub(crate) fn set_phase(&mut self, index: SessionIndex, phase: Phase) -> Phase {
        let Some(session) = self.get_mut(index) else {
            return Phase::Stays;
        };
        let was = std::mem::replace(&mut session.phase, phase);
        self.awaited += usize::from(phase == Phase::Awaited);
        self.awaited -= usize::from(was == Phase::Awaited);
        was
    }

    /// How many sessions a move waits for.
    pub(crate) fn awaited(&self) -> usize {
        self.awaited
    }

    /// The sessions of a bucket.
    pub(crate) fn members(&self, bucket: Bucket) -> &[SessionIndex] {
        self.members.of(bucket)
    }

    /// The control plane uses another F-SEID for the session from now on.
    pub(crate) fn change_cp_f_seid(&mut self, index: SessionIndex, cp: CpFSeid) {
        let Some(session) = self.get_mut(index) else {
            return;
        };
        let (association, old) = (session.association, std::mem::replace(&mut session.cp, cp));
        self.forget_owner((association, old), index);
        self.enter_owner((association, cp), index);
    }

    /// The owner's session is this one from now on.
    fn enter_owner(&mut self, owner: Owner, index: SessionIndex) {
        let hash = self.by_owner.hash(&owner);
        let slots = &self.slots;
        let is_its = |known| is_of(slots, known, owner);
        self.by_owner.replace(hash, index, is_its);
    }

    /// This is the owner's session no more, if it was.
    fn forget_owner(&mut self, owner: Owner, index: SessionIndex) {
        let hash = self.by_owner.hash(&owner);
        self.by_owner.remove(hash, index);
    }

    /// The session has another SEID from now on. Answers the old one.
    pub(crate) fn change_seid(&mut self, index: SessionIndex, seid: Seid) -> Option<Seid> {
        let session = self.get_mut(index)?;
        let old = std::mem::replace(&mut session.seid, seid);
        self.seids.remove(old);
        self.seids.insert(seid, index);
        Some(old)
    }

    /// The session belongs to another association from now on. Answers the old one.
    pub(crate) fn change_association(
        &mut self,
        index: SessionIndex,
        to: AssociationId,
    ) -> Option<AssociationId> {
        self.leave_association(index);
        let session = self.slots.get_mut(index.index())?.as_deref_mut()?;
        let from = std::mem::replace(&mut session.association, to);
        let cp = session.cp;
        for path in session.live.paths.get() {
            self.paths.add(to, path);
            self.paths.remove(from, path);
        }
        self.forget_owner((from, cp), index);
        self.enter_owner((to, cp), index);
        self.join_association(index);
        Some(from)
    }

    fn join_association(&mut self, index: SessionIndex) {
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let members = self.by_association.entry(session.association).or_default();
        session.association_position = members.len() as u32;
        members.push(index);
    }

    fn leave_association(&mut self, index: SessionIndex) {
        let Some(session) = self.get(index) else {
            return;
        };
        let (association, position) = (session.association, session.association_position);
        let Some(members) = self.by_association.get_mut(&association) else {
            return;
        };
        if members.get(position as usize) != Some(&index) {
            return;
        }
        members.swap_remove(position as usize);
        let successor = members.get(position as usize).copied();
        if members.is_empty() {
            self.by_association.remove(&association);
        }
        if let Some(session) = successor.and_then(|index| self.get_mut(index)) {
            session.association_position = position;
        }
    }

    /// Updates the peers' tunnel endpoints that the session sends to, and the paths that it uses.
    pub(crate) fn update_remotes(&mut self, index: SessionIndex, before: &Live, after: &Live) {
        before
            .remotes()
            .for_each(|remote| self.remotes.remove(remote, index));
        after.remotes().for_each(|remote| self.remotes.add(remote, index));
        let Some(association) = self.get(index).map(|session| session.association) else {
            return;
        };
        for path in after.paths.get() {
            self.paths.add(association, path);
        }
        for path in before.paths.get() {
            self.paths.remove(association, path);
        }
    }

    /// A session of the association is removed; a worker has yet to confirm it.
    pub(crate) fn count_dying(&mut self, association: AssociationId) {
        *self.dying.entry(association).or_default() += 1;
    }

    /// The workers have confirmed the removal of a session of the association.
    pub(crate) fn count_removed(&mut self, association: AssociationId) {
        if let Some(dying) = self.dying.get_mut(&association) {
            *dying -= 1;
            if *dying == 0 {
                self.dying.remove(&association);
            }
        }
    }

    /// How many sessions that the association had are removed and not confirmed.
    pub(crate) fn dying_of(&self, association: AssociationId) -> usize {
        self.dying.get(&association).copied().unwrap_or_default()
    }

    /// The sessions of an association, in the order of their indexes.
    pub(crate) fn indexes_of(&self, association: AssociationId) -> Vec<SessionIndex> {
        let mut indexes = self.by_association.get(&association).cloned().unwrap_or_default();
        indexes.sort_unstable();
        indexes
    }

    /// The session with this index, unless only workers still have it.
    pub(crate) fn view(&self, index: SessionIndex) -> Option<SessionView<'_>> {
        let session = self.get(index)?;
        (!session.is_dying()).then_some(SessionView::new(session))
    }

    /// Each of these once, in the order of their SEIDs.
    pub(crate) fn views(
        &self,
        indexes: impl Iterator<Item = SessionIndex>,
    ) -> impl Iterator<Item = SessionView<'_>> {
        let mut views: Vec<_> = indexes.filter_map(|index| self.view(index)).collect();
        views.sort_by_key(SessionView::seid);
        views.dedup_by_key(|view| view.seid());
        views.into_iter()
    }

    /// All sessions that peers can address, in the order of their indexes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = SessionView<'_>> {
        let sessions = self.slots.iter().flatten();
        let live = sessions.filter(|session| !session.is_dying());
        live.map(|session| SessionView::new(session))
    }

    /// The sessions that send packets to this tunnel endpoint of a peer.
    pub(crate) fn by_remote(&self, remote: RemoteTunnel) -> impl Iterator<Item = SessionView<'_>> {
        let sends = move |session: &&Session| session.live.remotes().any(|own| own == remote);
        let sessions = self.remotes.candidates(remote);
        let sessions = sessions.filter_map(|index| self.get(index)).filter(sends);
        sessions.filter_map(|session| self.view(session.index))
    }
}

/// Whether the session with this index is this owner's.
fn is_of(slots: &Slots, index: SessionIndex, owner: Owner) -> bool {
    let session = slots.get(index.index()).and_then(Option::as_deref);
    session.is_some_and(|session| (session.association, session.cp) == owner)
}
