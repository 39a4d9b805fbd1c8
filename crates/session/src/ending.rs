//! How sessions end and how changes are given up: deletion, removal behind the peer's back, deadlines, rollback.

use flow::{Nanos, SessionIndex, WorkerId};
use rules::image::{ImmediateActions, SessionChange};

use crate::addresses::UeAddress;
use crate::effect::{AssociationId, CpFSeid, Deadline, Done, Remote, Ticket};
use crate::ledger::{EndCause, Will};
use crate::packets::PacketRateStatus;
use crate::progress::{Role, rescaled};
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::session::{Change, Dying, Live, RollingBack, Session, State, Work};
use crate::sessions::Sessions;
use crate::shares::Holding;
use crate::steering::keys;
use crate::transfer::Export;
use crate::tunnels::Tunnel;
use rules::steering::{SteerChange, SteerKey};
use usage::UsageReport;

impl Sessions {
    /// When [`handle_timeout`](Sessions::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let request = self.deadlines.front().map(|deadline| deadline.at);
        let usage = self.timers.first().map(|(at, _)| *at);
        [request, usage, self.move_deadline()].into_iter().flatten().min()
    }

    /// Gives up what is late.
    pub fn handle_timeout(&mut self, now: Nanos) {
        while let Some(deadline) = self
            .deadlines
            .front()
            .copied()
            .filter(|deadline| deadline.at <= now)
        {
            self.deadlines.pop_front();
            self.expire(now, deadline);
        }
        self.expire_usage(now);
        self.expire_move(now);
    }

    /// Refuses a request that is still waiting or under way, but for one whose answer is all that is left of a session.
    fn expire(
        &mut self,
        now: Nanos,
        Deadline {
            session: index,
            ticket,
            ..
        }: Deadline,
    ) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        if session.take_back(ticket) {
            return self.refuse(ticket, Refusal::TooLate);
        }
        match &session.state {
            State::Changing(change) if change.ticket == ticket => match change.work {
                Work::Modify(_) | Work::Supersede(..) => self.roll_back(now, index, Refusal::TooLate),
                Work::Establish(_) => self.kill_because(index, Refusal::TooLate, EndCause::Fault),
                // What the worker gives up it gives once: late usage is worth more than a refusal in time.
                Work::Delete | Work::Export(_) => {}
            },
            _ => {}
        }
    }

    /// Gives a modification or a successor up and brings the worker back to what is live.
    pub(crate) fn roll_back(&mut self, now: Nanos, index: SessionIndex, refusal: Refusal) {
        self.last_change += 1;
        let id = self.last_change;
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let State::Changing(change) = std::mem::replace(&mut session.state, State::Settled) else {
            return;
        };
        let Change {
            ticket,
            sent,
            ended,
            work: Work::Modify(prepared) | Work::Supersede(prepared, _),
            ..
        } = *change
        else {
            return;
        };
        self.refuse(ticket, refusal);
        if !sent {
            return self.next_request(now, index);
        }
        let Some(session) = self.session_mut(index) else {
            return;
        };
        session.carry_counts(&ended.unwrap_or_default());
        session.live.generation = prepared.live.generation.wrapping_add(1);
        let mut units = rescaled(&session.live.rules, &prepared.live.rules);
        units.retain(|(urr, _)| !prepared.fresh.contains(urr));
        session.state = State::RollingBack(Box::new(RollingBack {
            id,
            units,
            claimed: prepared.claimed,
            addresses: prepared.addresses,
        }));
        let worker = session.bucket;
        match self.image_of(index) {
            Some(image) => {
                let change = SessionChange::Replace(image, ImmediateActions::default());
                self.send(index, id, Role::Replace, self.config.owner(worker), change);
            }
            None => self.kill(index, EndCause::Fault),
        }
    }

    /// The worker runs what is live again.
    pub(crate) fn rolled_back(&mut self, now: Nanos, index: SessionIndex) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        if let State::RollingBack(back) = std::mem::replace(&mut session.state, State::Settled) {
            self.let_go(now, index, &back.claimed, &back.addresses);
            self.follow_usage(now, index, true);
            self.next_request(now, index);
        }
    }

    /// The request to delete is done, or that to hand the session over by this record.
    pub(crate) fn deleted(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        (usage, packets): (Vec<UsageReport>, Vec<PacketRateStatus>),
        record: Option<(AssociationId, Box<SessionRecord>)>,
    ) {
        if record.is_none() {
            self.enter_end(now, index, EndCause::Deleted);
        }
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let (seid, cp, live) = (session.seid, session.cp, std::mem::take(&mut session.live));
        let (association, waiting) = (session.association, session.waiting.take());
        self.follow_remotes(index, &live, &Live::default());
        self.let_go(now, index, &live.tunnels, &live.addresses);
        self.forget(index);
        self.store.remove(seid);
        self.done(
            ticket,
            Done {
                seid,
                cp,
                created: Vec::new(),
                assigned: Vec::new(),
                usage,
                packets,
                record,
            },
        );
        self.outlive(now, association, waiting);
    }

    /// Removes a session without telling its owner.
    pub(crate) fn kill(&mut self, index: SessionIndex, cause: EndCause) {
        self.kill_because(index, Refusal::Gone, cause);
    }

    /// Removes a session and refuses what is under way or waits. Its tunnels and addresses are anybody's from now on;
    /// its index only when the worker has confirmed.
    pub(crate) fn kill_because(&mut self, index: SessionIndex, refusal: Refusal, cause: EndCause) {
        self.last_change += 1;
        let (id, is_entered) = (self.last_change, self.config.ledger);
        let Some(session) = self.session_mut(index).filter(|session| !session.is_dying()) else {
            return;
        };
        let ended = session.end(id, is_entered.then_some(cause));
        let (seid, bucket, charged) = (session.seid, session.bucket, session.holding());
        let association = session.association;
        *self.dying.entry(association).or_default() += 1;
        let twin = self.end_twin(index);
        self.discharge(index, charged);
        self.follow_remotes(index, &ended.live, &Live::default());
        self.unsteer(index, &ended.tunnels, &ended.addresses);
        self.unlink(index);
        self.store.remove(seid);
        ended
            .tickets
            .iter()
            .for_each(|ticket| self.refuse(*ticket, refusal));
        let owner = (!ended.removal_sent).then(|| self.config.owner(bucket));
        for worker in owner.into_iter().chain(twin) {
            self.send(index, id, Role::Remove, worker, SessionChange::Remove(index));
        }
    }

    /// A session that is just moving ends at two workers. Answers the one beside the bucket's owner.
    fn end_twin(&mut self, index: SessionIndex) -> Option<WorkerId> {
        let session = self.slots.get(index.index())?.as_deref()?;
        let twin = self.other_owner(session)?;
        self.shares
            .remove(session.payer, twin, session.holding().of_one_worker());
        if let State::Dying(dying) = &mut self.session_mut(index)?.state {
            dying.pending += 1;
        }
        Some(twin)
    }

    /// The worker has confirmed the removal of a session that nobody else knows any more.
    pub(crate) fn bury(&mut self, now: Nanos, index: SessionIndex) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let association = session.association;
        if let State::Dying(dying) = std::mem::replace(&mut session.state, State::Settled) {
            if let Some(will) = &dying.will {
                self.execute(now, index, will);
            }
            self.count_buried(association);
            self.free(now, index, &dying.tunnels, &dying.addresses);
            self.clear(index);
        }
    }

    fn count_buried(&mut self, association: AssociationId) {
        if let Some(dying) = self.dying.get_mut(&association) {
            *dying -= 1;
            if *dying == 0 {
                self.dying.remove(&association);
            }
        }
    }

    /// Ends the steering of these values and frees them.
    pub(crate) fn let_go(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        tunnels: &[Tunnel],
        addresses: &[UeAddress],
    ) {
        self.unsteer(index, tunnels, addresses);
        self.free(now, index, tunnels, addresses);
    }

    /// Ends the exceptions for these values, where they are still the session's.
    fn unsteer(&mut self, index: SessionIndex, tunnels: &[Tunnel], addresses: &[UeAddress]) {
        let Some(session) = self.slots.get(index.index()).and_then(Option::as_ref) else {
            return;
        };
        let bucket = session.bucket;
        let astray =
            keys(tunnels, addresses).filter(|key| self.config.workers > 1 && key.needs_exception(bucket));
        let ours = astray.filter(|key| self.holder(*key) == Some(index));
        let ends: Vec<SteerChange> = ours
            .map(|key| SteerChange::Exception { key, bucket: None })
            .collect();
        self.steer(&ends);
    }

    fn free(&mut self, now: Nanos, index: SessionIndex, tunnels: &[Tunnel], addresses: &[UeAddress]) {
        let bucket = self.session_mut(index).map(|session| session.bucket);
        let bucket = bucket.and_then(|bucket| self.steered_by_exception(bucket));
        let mut given = Holding::default();
        for tunnel in tunnels {
            if self.tunnels.release(now, *tunnel, index) {
                given = given.and(Holding::of(&[*tunnel], &[], bucket));
            }
        }
        for address in addresses {
            if self.addresses.release(*address, index) {
                given = given.and(Holding::of(&[], &[*address], bucket));
            }
        }
        if given != Holding::default() {
            self.discharge(index, given);
        }
    }

    fn holder(&self, key: SteerKey) -> Option<SessionIndex> {
        match key {
            SteerKey::Tunnel(local, teid) => self.tunnels.holder((local, teid)),
            SteerKey::Address(vrf, prefix) => self.addresses.holder((vrf, prefix)),
        }
    }

    /// Peers' tunnel endpoints that lead to the session, and paths that it uses, before and after a change.
    pub(crate) fn follow_remotes(&mut self, index: SessionIndex, before: &Live, after: &Live) {
        for remote in before.remotes() {
            self.forget_remote(remote, index);
        }
        for remote in after.remotes() {
            if *self.by_remote.entry(remote).or_insert(index) != index {
                self.beside.insert((remote, index));
            }
        }
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        if let Some(association) = session.map(|session| session.association) {
            after
                .paths
                .iter()
                .for_each(|path| self.paths.add(association, *path));
            before
                .paths
                .iter()
                .for_each(|path| self.paths.remove(association, *path));
        }
    }

    /// A session sends to a peer's tunnel endpoint no more; others may.
    fn forget_remote(&mut self, remote: Remote, index: SessionIndex) {
        if self.by_remote.get(&remote) != Some(&index) {
            self.beside.remove(&(remote, index));
            return;
        }
        let all = (remote, SessionIndex(0))..=(remote, SessionIndex(u32::MAX));
        match self.beside.range(all).next().copied() {
            Some(next) => {
                self.beside.remove(&next);
                self.by_remote.insert(remote, next.1);
            }
            None => {
                self.by_remote.remove(&remote);
            }
        }
    }

    /// The control plane knows the session by another F-SEID from now on.
    pub(crate) fn move_owner(&mut self, index: SessionIndex, cp: CpFSeid) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let (association, old) = (session.association, std::mem::replace(&mut session.cp, cp));
        if self.by_owner.get(&(association, old)) == Some(&index) {
            self.by_owner.remove(&(association, old));
        }
        self.by_owner.insert((association, cp), index);
    }

    /// A session that no worker has any more is forgotten altogether. Answers what it was.
    pub(crate) fn forget(&mut self, index: SessionIndex) -> Option<Box<Session>> {
        self.unlink(index);
        self.clear(index)
    }

    /// Peers can address the session no more.
    fn unlink(&mut self, index: SessionIndex) {
        self.end_usage(index);
        let Some(session) = self.slots.get(index.index()).and_then(Option::as_ref) else {
            return;
        };
        let owner = (session.association, session.cp);
        let (bucket, place) = (session.bucket, session.place as usize);
        self.by_seid.remove(session.seid);
        self.shares.remove_session(session.association);
        if self.by_owner.get(&owner) == Some(&index) {
            self.by_owner.remove(&owner);
        }
        self.leave_association(index);
        let successor = self.members.remove(bucket, place);
        if let Some(session) = successor.and_then(|index| self.session_mut(index)) {
            session.place = place as u32;
        }
        self.drop_out(index);
    }

    fn clear(&mut self, index: SessionIndex) -> Option<Box<Session>> {
        let gone = self.slots.get_mut(index.index()).and_then(Option::take);
        if gone.is_some() {
            self.correlations.leave_all(index);
            self.indexes.give_back(index);
        }
        gone
    }
}

/// What a session leaves behind.
struct Ended {
    live: Live,
    tunnels: Vec<Tunnel>,
    addresses: Vec<UeAddress>,
    /// Requests that are to be refused.
    tickets: Vec<Ticket>,
    /// Whether a Remove is on its way already.
    removal_sent: bool,
}

impl Session {
    /// Turns to dying, under the number `id`, or that of a removal under way. With a cause, its last usage is entered.
    fn end(&mut self, id: u64, entered: Option<EndCause>) -> Ended {
        let will = |cause| Box::new(Will::new(cause, &self.live.rules, &self.live.addresses));
        let will = entered.filter(|_| self.account.since.get().is_some()).map(will);
        let live = std::mem::take(&mut self.live);
        let (mut tunnels, mut addresses) = (live.tunnels.to_vec(), live.addresses.to_vec());
        if let State::Changing(change) = &mut self.state {
            let ended = change.ended.take();
            self.carry_counts(&ended.unwrap_or_default());
        }
        let waiting = self.waiting.take();
        let mut tickets: Vec<Ticket> = waiting.iter().map(|waiting| waiting.ticket).collect();
        let mut removal = None;
        match std::mem::replace(&mut self.state, State::Settled) {
            State::Changing(change) => {
                tickets.insert(0, change.ticket);
                match change.work {
                    Work::Delete | Work::Export(Export::Take) => removal = Some(change.id),
                    Work::Export(Export::Copy) => {}
                    Work::Establish(prepared) | Work::Modify(prepared) | Work::Supersede(prepared, _) => {
                        tunnels.extend(prepared.claimed);
                        addresses.extend(prepared.addresses);
                    }
                }
            }
            State::RollingBack(back) => {
                tunnels.extend(back.claimed);
                addresses.extend(back.addresses);
            }
            State::Settled | State::Dying(_) => {}
        }
        self.state = State::Dying(Box::new(Dying {
            id: removal.unwrap_or(id),
            pending: 1,
            tunnels: tunnels.clone(),
            addresses: addresses.clone(),
            will,
        }));
        Ended {
            live,
            tunnels,
            addresses,
            tickets,
            removal_sent: removal.is_some(),
        }
    }
}
