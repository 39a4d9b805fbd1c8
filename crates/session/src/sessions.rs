//! All sessions: requests in, effects and outcomes out.
//!
//! Owned by control. Requests of one session are served one after the other; those of different sessions at the same
//! time. A request is prepared on a copy of the rules, sent to the owning worker, and told as done when the worker
//! (and, where steering changed, every worker) has confirmed: "accepted" means live.

use flow::{BUCKETS, Bucket, Nanos, OpId, SessionIndex, WorkerId};
use rules::Adjacencies;
use rules::Predefined;
use rules::boxed_option::BoxedOption;
use rules::network::Network;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use packet::Teid;
use usage::{Renewed, UsageAccounts, UsageReport, WallClock};

use crate::addresses::Addresses;
use crate::changes::Changes;
use crate::correlations::Correlations;
use crate::effect::{AssociationId, CpFSeid, Deadline, Done, Effect, Outcome, Remote, Seid, Ticket};
use crate::indexes::Indexes;
use crate::keyed::{Keyed, keyed};
use crate::ledger::{Account, EndCause, LedgerEntry};
use crate::members::Members;
use crate::metering::renewed;
use crate::moving::{Move, Moved};
use crate::paths::{GtpuPath, PathChange, Paths};
use crate::persist::Persist;
use crate::pools::{Pool, PoolId};
use crate::prepare::Subject;
use crate::progress::Op;
use crate::random::Random;
use crate::refusal::Refusal;
use crate::seids::Seids;
use crate::session::{
    Change, Live, Phase, Prepared, Session, SessionView, State, Waiting, WaitingRequest, Work,
};
use crate::shares::{Charge, Holding, Shares};
use crate::tunnels::Tunnels;

/// What sessions are allowed and how long things take.
#[derive(Clone, Debug)]
pub struct Config {
    /// Sessions at most.
    pub max_sessions: u32,
    /// How many workers there are, from number 0.
    pub workers: u16,
    /// The worker of each bucket at the start: 512 entries, each below `workers`.
    pub owners: Vec<WorkerId>,
    /// How long a released TEID is not given to another session.
    pub quarantine: Duration,
    /// How long a request may take, from its arrival, before it is refused and undone.
    pub deadline: Duration,
    /// How long a bucket may take to another worker before it is brought back.
    pub move_deadline: Duration,
    /// Whether the control plane may choose F-TEIDs (TS 29.244 §5.5.1 says no; many SMFs do).
    pub accept_cp_f_teids: bool,
    /// For how long after the start (moment 0) an establishment may name F-TEIDs that we may have given before it,
    /// without the indication that it restores a session (TS 23.527 §4.3.2). Default 0: never.
    pub restoration: Duration,
    /// Whether a CHOOSE ID means the same F-TEID in all messages of a session, not in one message only.
    pub choose_id_spans_session: bool,
    /// Tunnels that each worker has room for.
    pub worker_tunnels: usize,
    /// UE addresses, of IPv4 and of IPv6 each, that each worker has room for.
    pub worker_addresses: usize,
    /// Tunnels and UE addresses that all workers together have room to be told of one by one, because they do not lie
    /// in their session's bucket: those that control planes chose, and second addresses.
    pub exceptions: usize,
    /// How much of these, and of the sessions, one association may take while there are others, 0 to 100 per cent;
    /// alone, it may take all.
    pub association_percent: u8,
    /// Where UE addresses are given from (TS 29.244 §5.21.3).
    pub pools: Vec<Pool>,
    /// What sessions may activate by name and by number.
    pub predefined: Arc<Predefined>,
    /// Correlations that QERs of several sessions may have at a time; 0: none. Default 1,024.
    pub max_correlations: u16,
    /// Requests that may wait for one session, beside the one under way.
    pub max_waiting: usize,
    /// Whether usage reports and ends of sessions are entered in the ledger
    /// ([`poll_ledger`](Sessions::poll_ledger)), which somebody must empty then.
    pub ledger: bool,
    /// Seconds since 1970 when the clock that time is given by stood at 0, as far as the host's clock was right then;
    /// what it turns out to be: [`Sessions::follow_wall`].
    pub clock_unix: u64,
    /// How long no packet comes where traffic has stopped (STOPT, TS 29.244 §5.4.11), in whole seconds, at least one.
    /// Default 60 s.
    pub traffic_silence: Duration,
}

impl Config {
    /// For `workers` workers (at least 1) that share the buckets evenly.
    pub fn for_workers(workers: u16) -> Config {
        let workers = workers.max(1);
        Config {
            max_sessions: 1_000_000,
            worker_tunnels: 2_000_064,
            worker_addresses: 1_250_064,
            exceptions: 1_000_000,
            association_percent: 50,
            workers,
            owners: (0..BUCKETS)
                .map(|bucket| WorkerId((bucket % usize::from(workers)) as u16))
                .collect(),
            quarantine: Duration::from_secs(60),
            deadline: Duration::from_secs(1),
            move_deadline: Duration::from_secs(5),
            accept_cp_f_teids: false,
            restoration: Duration::ZERO,
            choose_id_spans_session: true,
            pools: Vec::new(),
            predefined: Arc::default(),
            max_correlations: 1_024,
            max_waiting: 8,
            ledger: false,
            clock_unix: 0,
            traffic_silence: Duration::from_secs(60),
        }
    }

    /// The worker that owns `bucket`.
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.owners.get(bucket.index()).copied().unwrap_or_default()
    }
}

/// How many of what there are, for operators and for tests that look for leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Sessions that peers can address.
    pub sessions: usize,
    /// Session indexes in use, which includes sessions whose removal a worker has yet to confirm.
    pub indexes: usize,
    /// Tunnels held.
    pub tunnels: usize,
    /// UE addresses held.
    pub addresses: usize,
    /// Correlations of QERs.
    pub correlations: usize,
    /// GTP-U paths in use.
    pub paths: usize,
    /// Operations that workers have yet to answer.
    pub ops: usize,
}

/// All sessions of the node.
pub struct Sessions {
    pub(crate) config: Config,
    pub(crate) network: Arc<Network>,
    pub(crate) adjacencies: Box<dyn Adjacencies + Send>,
    pub(crate) store: Box<dyn Persist + Send>,
    pub(crate) random: Random,
    pub(crate) slots: Vec<Option<Box<Session>>>,
    pub(crate) indexes: Indexes,
    pub(crate) by_seid: Seids,
    pub(crate) by_owner: Keyed<(AssociationId, CpFSeid), SessionIndex>,
    /// One of the sessions that send to each endpoint of a peer; `beside` has the others.
    pub(crate) by_remote: Keyed<Remote, SessionIndex>,
    pub(crate) beside: BTreeSet<(Remote, SessionIndex)>,
    pub(crate) paths: Paths,
    pub(crate) tunnels: Tunnels,
    pub(crate) addresses: Addresses,
    pub(crate) shares: Shares,
    pub(crate) correlations: Correlations,
    pub(crate) members: Members,
    /// The sessions of each association that peers can address, in no order; none is not entered.
    pub(crate) by_association: BTreeMap<AssociationId, Vec<SessionIndex>>,
    /// How many sessions of each association only workers still know.
    pub(crate) dying: BTreeMap<AssociationId, usize>,
    pub(crate) moving: Option<Box<Move>>,
    pub(crate) moved: VecDeque<Moved>,
    pub(crate) ops: Keyed<OpId, Op>,
    pub(crate) last_op: u64,
    pub(crate) last_change: u64,
    pub(crate) deadlines: VecDeque<Deadline>,
    pub(crate) effects: VecDeque<Effect>,
    pub(crate) outcomes: VecDeque<Outcome>,
    pub(crate) ledger: VecDeque<LedgerEntry>,
    /// Reports that sessions make by themselves.
    pub(crate) usage: VecDeque<(Seid, UsageReport)>,
    /// When the accounts of which session is to be looked at.
    pub(crate) timers: BTreeSet<(Nanos, SessionIndex)>,
    pub(crate) wall: WallClock,
}

impl Sessions {
    /// No sessions. `random` decides every identifier.
    pub fn new(
        config: Config,
        network: Arc<Network>,
        adjacencies: Box<dyn Adjacencies + Send>,
        store: Box<dyn Persist + Send>,
        mut random: Random,
    ) -> Sessions {
        // Drawn first, so that recorded cases keep their numbers.
        let of_paths = random.next_u64();
        Sessions {
            indexes: Indexes::new(config.max_sessions),
            by_seid: Seids::default(),
            by_owner: keyed(random.next_u64()),
            by_remote: keyed(random.next_u64()),
            beside: BTreeSet::new(),
            paths: Paths::new(of_paths),
            tunnels: Tunnels::new(config.quarantine, random.split()),
            addresses: Addresses::new(&config.pools, &network, random.split()),
            shares: Shares::new(
                Holding([
                    config.worker_tunnels,
                    config.worker_addresses,
                    config.worker_addresses,
                    config.exceptions,
                ]),
                config.max_sessions as usize,
                config.association_percent,
                [random.next_u64(), random.next_u64()],
            ),
            ops: keyed(random.next_u64()),
            correlations: Correlations::new(network.policers().count(), config.max_correlations),
            members: Members::new(),
            by_association: BTreeMap::new(),
            dying: BTreeMap::new(),
            moving: None,
            moved: VecDeque::new(),
            slots: Vec::new(),
            last_op: 0,
            last_change: 0,
            deadlines: VecDeque::new(),
            effects: VecDeque::new(),
            outcomes: VecDeque::new(),
            ledger: VecDeque::new(),
            usage: VecDeque::new(),
            timers: BTreeSet::new(),
            wall: WallClock::starting(config.clock_unix),
            config,
            network,
            adjacencies,
            store,
            random,
        }
    }

    /// Sets a session up. A session that the same association has under the same F-SEID is superseded: its owner has
    /// evidently lost it. It lives on, and can be changed, if the new one is refused. The outcome comes from
    /// [`poll_outcome`](Sessions::poll_outcome).
    pub fn establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        cp: CpFSeid,
        mut changes: Changes,
    ) {
        let lost = self.by_owner.get(&(association, cp)).copied();
        self.note_restoration(now, lost, &mut changes);
        if let Some(lost) = lost {
            let changes = Box::new(changes);
            let request = WaitingRequest::Supersede { changes, cp };
            return self.submit(now, lost, Waiting { ticket, request });
        }
        if let Err(refusal) = self.begin_establish(now, ticket, (association, cp), &mut changes) {
            self.refuse(ticket, refusal);
        }
    }

    fn begin_establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        (association, cp): (AssociationId, CpFSeid),
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        if !self.shares.allows_session(association) {
            return Err(Refusal::NoResources);
        }
        let index = self.indexes.take().ok_or(Refusal::NoResources)?;
        let seid = self.new_seid();
        let subject = Subject {
            index,
            seid,
            bucket: None,
            association,
            owner: association,
            live: &Live::default(),
            shared: Default::default(),
        };
        let account = Account::of(changes.subscriber.clone());
        let (bucket, image, prepared) = match self.prepare(subject, changes) {
            Ok(ready) => ready,
            Err(refusal) => {
                self.indexes.give_back(index);
                return Err(refusal);
            }
        };
        let session = Box::new(Session {
            index,
            seid,
            association,
            payer: association,
            sets: Default::default(),
            cp,
            bucket,
            place: 0,
            place_of_association: 0,
            phase: Phase::Stays,
            charged: Charge::default(),
            live: Live::default(),
            shared: Default::default(),
            account,
            usage: UsageAccounts::new(self.usage_setting()),
            metering: Default::default(),
            state: State::Settled,
            waiting: BoxedOption::NONE,
        });
        self.put(session);
        self.start(now, index, ticket, Work::Establish(prepared), Some(image));
        Ok(())
    }

    /// Changes a session's rules, and its control plane's F-SEID if one is given.
    pub fn modify(&mut self, now: Nanos, ticket: Ticket, seid: Seid, cp: Option<CpFSeid>, changes: Changes) {
        let request = WaitingRequest::Modify {
            changes: Box::new(changes),
            cp,
        };
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Removes a session; the outcome has the final usage of every URR.
    pub fn delete(&mut self, now: Nanos, ticket: Ticket, seid: Seid) {
        let request = WaitingRequest::Delete;
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    pub(crate) fn submit_to(&mut self, now: Nanos, seid: Seid, waiting: Waiting) {
        match self.by_seid.get(seid) {
            Some(index) => self.submit(now, index, waiting),
            None => self.refuse(waiting.ticket, Refusal::NotFound),
        }
    }

    fn submit(&mut self, now: Nanos, index: SessionIndex, waiting: Waiting) {
        let ticket = waiting.ticket;
        let most = self.config.max_waiting;
        let Some(session) = self.session_mut(index) else {
            return;
        };
        if session.waiting.len() >= most {
            return self.refuse(ticket, Refusal::Busy);
        }
        // Most requests wait for nobody: their session needs no room for any.
        let is_next = session.is_ready() && session.waiting.is_empty();
        let begins = if is_next {
            Some(waiting)
        } else {
            session.waiting.get_or_insert_default().push_back(waiting);
            None
        };
        self.deadlines.push_back(Deadline {
            at: now + self.config.deadline,
            session: index,
            ticket,
        });
        if let Some(waiting) = begins {
            self.begin_request(now, index, waiting);
        }
        self.next_request(now, index);
    }

    /// Serves the requests that wait for a session until one is under way.
    pub(crate) fn next_request(&mut self, now: Nanos, index: SessionIndex) {
        while let Some(session) = self.session_mut(index) {
            if !matches!(session.state, State::Settled) {
                return;
            }
            let phase = session.phase;
            self.settle_correlations(index);
            if phase != Phase::Stays {
                return self.join_move(now, index);
            }
            let Some(waiting) = self.session_mut(index).and_then(Session::next_waiting) else {
                return;
            };
            self.begin_request(now, index, waiting);
        }
    }

    /// Begins what a request asks of a session in which nothing else is under way.
    fn begin_request(&mut self, now: Nanos, index: SessionIndex, Waiting { ticket, request }: Waiting) {
        match request {
            WaitingRequest::Delete => self.start(now, index, ticket, Work::Delete, None),
            WaitingRequest::Export(how) => self.start(now, index, ticket, Work::Export(how), None),
            WaitingRequest::Modify { mut changes, cp } => {
                if let Err(refusal) = self.begin_modify(now, index, ticket, cp, &mut changes) {
                    self.refuse(ticket, refusal);
                }
            }
            WaitingRequest::Supersede { changes, cp } => self.supersede(now, index, ticket, cp, *changes),
            WaitingRequest::Pause => self.begin_pause(now, index, ticket),
        }
    }

    pub(crate) fn begin_modify(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: Option<CpFSeid>,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return Err(Refusal::NotFound);
        };
        let shared = session.shared.clone();
        let queried = crate::prepare::queried(&session.live, &changes.query)?;
        crate::prepare::check_queried(&session.live, &changes.query_packets)?;
        let queried_packets = changes.query_packets.clone();
        let renewed: Vec<_> = changes.update_urrs.iter().map(renewed).collect();
        let (image, mut prepared) = if changes.leaves_rules() {
            let prepared = Prepared {
                live: session.live.clone(),
                shared,
                ..Prepared::default()
            };
            (None, Box::new(prepared))
        } else {
            // Out of the session while it is read, and back in any case: not copied.
            let live = std::mem::take(&mut session.live);
            let subject = Subject {
                index,
                seid: session.seid,
                bucket: Some(session.bucket),
                association: session.payer,
                owner: session.association,
                live: &live,
                shared,
            };
            let ready = self.prepare(subject, changes);
            if let Some(session) = self.session_mut(index) {
                session.live = live;
            }
            let (_, image, prepared) = ready?;
            (Some(image), prepared)
        };
        // A URR without PDRs forgets what it measured, and what was left of its quotas (TS 29.244 §5.2.2.3.1).
        let lost = prepared
            .queried
            .iter()
            .map(|(urr, _)| (*urr, Renewed::DISSOCIATED));
        prepared.renewed = lost.chain(renewed).collect();
        prepared.renew_associated();
        prepared.queried.extend(queried);
        prepared.queried_packets = queried_packets;
        prepared.cp = cp;
        prepared.subscriber = changes.subscriber.take();
        self.start(now, index, ticket, Work::Modify(prepared), image);
        Ok(())
    }

    /// Removes a session without telling its owner, and refuses what waits for it.
    pub fn remove(&mut self, seid: Seid, cause: EndCause) {
        if let Some(index) = self.by_seid.get(seid) {
            self.kill(index, cause);
        }
    }

    /// Removes those sessions of an association that `go` says of, without telling the association, and refuses what
    /// waits for them. Answers how many.
    pub fn remove_association(
        &mut self,
        association: AssociationId,
        cause: EndCause,
        go: impl Fn(&CpFSeid) -> bool,
    ) -> usize {
        let theirs = self.indexes_of(association).into_iter();
        let going: Vec<SessionIndex> = theirs
            .filter(|index| self.session_mut(*index).is_some_and(|session| go(&session.cp)))
            .collect();
        going.iter().for_each(|index| self.kill(*index, cause));
        going.len()
    }

    /// This usage report has been added to the one before it ([`UsageReport::absorb`]): the next one of its URR gets
    /// its number, so that the control plane sees no gap.
    ///
    /// [`UsageReport::absorb`]: crate::UsageReport::absorb
    pub fn recall_report(&mut self, seid: Seid, report: &UsageReport) {
        if let Some(index) = self.by_seid.get(seid)
            && let Some(session) = self.session_mut(index)
        {
            session.usage.recall(report);
        }
    }

    /// The next command for a worker.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// The next outcome of a request.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }

    /// The session with this local SEID.
    pub fn session(&self, seid: Seid) -> Option<SessionView<'_>> {
        self.view(self.by_seid.get(seid)?)
    }

    /// The session with this index, unless only a worker still knows it.
    pub fn view(&self, index: SessionIndex) -> Option<SessionView<'_>> {
        let session = self.slots.get(index.index())?.as_deref()?;
        (!session.is_dying()).then_some(SessionView::new(session))
    }

    /// The session that sends packets to this tunnel endpoint of a peer, or one of those that do.
    pub fn session_by_remote(&self, peer: IpAddr, teid: Teid) -> Option<SessionView<'_>> {
        self.sessions_by_remote(peer, teid).next()
    }

    /// The sessions that send packets to this tunnel endpoint of a peer.
    pub fn sessions_by_remote(&self, peer: IpAddr, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        let remote = (peer, teid);
        let first = self.by_remote.get(&remote).copied();
        let all = (remote, SessionIndex(0))..=(remote, SessionIndex(u32::MAX));
        let beside = self.beside.range(all).map(|(_, index)| *index);
        first
            .into_iter()
            .chain(beside)
            .filter_map(|index| self.view(index))
    }

    /// Whether any session sends into this GTP-U path.
    pub fn uses_path(&self, path: &GtpuPath) -> bool {
        self.paths.users(path).next().is_some()
    }

    /// A GTP-U path that came into use or went out of use since the last call.
    pub fn poll_path(&mut self) -> Option<PathChange> {
        self.paths.poll()
    }

    /// The associations whose sessions send into a GTP-U path.
    pub fn users_of(&self, path: &GtpuPath) -> impl Iterator<Item = AssociationId> + '_ {
        self.paths.users(path)
    }

    /// The sessions of an association, in the order of their indexes. Costs what they are, however many others there
    /// are.
    pub fn of_association(&self, association: AssociationId) -> impl Iterator<Item = SessionView<'_>> {
        let indexes = self.indexes_of(association).into_iter();
        indexes.filter_map(move |index| self.view(index))
    }

    fn indexes_of(&self, association: AssociationId) -> Vec<SessionIndex> {
        let mut indexes = self.by_association.get(&association).cloned().unwrap_or_default();
        indexes.sort_unstable();
        indexes
    }

    /// A session that peers can address joins those of its association.
    pub(crate) fn join_association(&mut self, index: SessionIndex) {
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        let theirs = self.by_association.entry(session.association).or_default();
        session.place_of_association = theirs.len() as u32;
        theirs.push(index);
    }

    /// A session is none of its association's any more.
    pub(crate) fn leave_association(&mut self, index: SessionIndex) {
        let Some(session) = self.slots.get(index.index()).and_then(Option::as_deref) else {
            return;
        };
        let (association, place) = (session.association, session.place_of_association as usize);
        let Some(theirs) = self.by_association.get_mut(&association) else {
            return;
        };
        if theirs.get(place) != Some(&index) {
            return;
        }
        theirs.swap_remove(place);
        let successor = theirs.get(place).copied();
        if theirs.is_empty() {
            self.by_association.remove(&association);
        }
        if let Some(session) = successor.and_then(|index| self.session_mut(index)) {
            session.place_of_association = place as u32;
        }
    }

    /// All sessions, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.slots
            .iter()
            .flatten()
            .filter(|session| !session.is_dying())
            .map(|session| SessionView::new(session))
    }

    /// The worker that owns `bucket`.
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.config.owner(bucket)
    }

    /// What is predefined.
    pub fn predefined(&self) -> &Predefined {
        &self.config.predefined
    }

    /// How many sessions an association has.
    pub fn sessions_of(&self, association: AssociationId) -> usize {
        self.shares.sessions(association)
    }

    /// How many sessions that an association had are removed, and workers have yet to confirm it.
    pub fn dying_of(&self, association: AssociationId) -> usize {
        self.dying.get(&association).copied().unwrap_or_default()
    }

    /// How many tunnels an association's sessions hold.
    pub fn tunnels_of(&self, association: AssociationId) -> usize {
        let workers = (0..self.config.workers).map(WorkerId);
        workers
            .map(|worker| self.shares.held(association, worker).0[0])
            .sum()
    }

    /// Tells how many parties there are that want their share ([`Config::association_percent`]).
    pub fn share_among(&mut self, parties: usize) {
        self.shares.among(parties);
    }

    /// Tells which associations are of one party, that has one share; every other one is a party by itself.
    pub fn unite(&mut self, parties: impl Iterator<Item = Vec<AssociationId>>) {
        self.shares.unite(parties);
    }

    /// How many of what there are.
    pub fn count(&self) -> Count {
        Count {
            sessions: self.by_seid.len(),
            indexes: self.indexes.in_use(),
            tunnels: self.tunnels.held(),
            addresses: self.addresses.held(),
            correlations: self.correlations.len(),
            paths: self.paths.len(),
            ops: self.ops.len(),
        }
    }

    /// How many of a pool's addresses are held, and how many it has.
    pub fn pool_usage(&self, pool: PoolId) -> (u64, u64) {
        self.addresses.usage(pool)
    }

    /// The bucket of a session some of whose keys may stray from it: of one worker's none do.
    pub(crate) fn steered_by_exception(&self, bucket: Bucket) -> Option<Bucket> {
        Some(bucket).filter(|_| self.config.workers > 1)
    }

    /// A session has taken so much.
    fn charge(&mut self, index: SessionIndex, taken: Holding) {
        if let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) {
            session.charged = session.holding().and(taken).into();
            let worker = self.config.owner(session.bucket);
            self.shares.add(session.payer, worker, taken);
        }
    }

    /// A session has given back so much, of what it is charged for.
    pub(crate) fn discharge(&mut self, index: SessionIndex, given: Holding) {
        if let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) {
            let charged = session.holding();
            let given = given.within(charged);
            session.charged = charged.without(given).into();
            let worker = self.config.owner(session.bucket);
            self.shares.remove(session.payer, worker, given);
        }
    }

    pub(crate) fn session_mut(&mut self, index: SessionIndex) -> Option<&mut Session> {
        self.slots.get_mut(index.index())?.as_deref_mut()
    }

    pub(crate) fn refuse(&mut self, ticket: Ticket, refusal: Refusal) {
        self.outcomes.push_back(Outcome {
            ticket,
            result: Err(refusal),
        });
    }

    pub(crate) fn done(&mut self, ticket: Ticket, done: Done) {
        self.outcomes.push_back(Outcome {
            ticket,
            result: Ok(done),
        });
    }

    pub(crate) fn new_seid(&mut self) -> Seid {
        loop {
            let seid = Seid(self.random.next_u64());
            if seid.0 != 0 && self.by_seid.get(seid).is_none() {
                return seid;
            }
        }
    }

    pub(crate) fn put(&mut self, mut session: Box<Session>) {
        let at = session.index.index();
        session.place = self.members.add(session.bucket, session.index) as u32;
        self.by_seid.insert(session.seid, session.index);
        self.shares.add_session(session.association);
        self.by_owner
            .insert((session.association, session.cp), session.index);
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        if let Some(slot) = self.slots.get_mut(at) {
            let index = session.index;
            *slot = Some(session);
            self.join_association(index);
        }
    }

    /// Begins a change: the deadline of an establishment runs from now, that of others from their arrival.
    pub(crate) fn start(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        work: Work,
        mut image: Option<Box<rules::image::SessionImage>>,
    ) {
        if let Some(image) = image.as_deref_mut() {
            self.fill_bounds(now, index, &work, image);
        }
        if matches!(work, Work::Establish(_)) {
            self.deadlines.push_back(Deadline {
                at: now + self.config.deadline,
                session: index,
                ticket,
            });
        }
        if let Some(prepared) = work.prepared() {
            self.correlations.follow(index, &prepared.live.rules);
        }
        let bucket = self.session_mut(index).map(|session| session.bucket);
        let bucket = bucket.and_then(|bucket| self.steered_by_exception(bucket));
        let taken = work.prepared().map(|prepared| prepared.takes(bucket));
        self.charge(index, taken.unwrap_or_default());
        self.last_change += 1;
        let id = self.last_change;
        let sent = image.is_some();
        let change = Change {
            id,
            ticket,
            work,
            sent,
            pending: 0,
            fault: None,
            counted: Vec::new(),
            ended: None,
            packets: Vec::new(),
            tokens: Vec::new(),
            dropped: Vec::new(),
            bounds: image
                .as_deref()
                .map(|image| image.block.bounds.clone())
                .unwrap_or_default(),
        };
        let is_new = matches!(change.work, Work::Establish(_));
        let Some(session) = self.session_mut(index) else {
            return;
        };
        session.state = State::Changing(Box::new(change));
        let bucket = session.bucket;
        let left = if is_new {
            self.hold(bucket, (index, id), image)
        } else {
            Err(image)
        };
        if let Err(image) = left {
            self.apply(now, index, image);
        }
    }
}
