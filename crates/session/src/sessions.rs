//! All sessions: requests in, effects and outcomes out.
//!
//! Owned by control. Requests of one session are served one after the other; those of different sessions at the same
//! time. A request is prepared on a copy of the rules ([`prepare`](crate::prepare)), applied at the owning worker and
//! responded to when the worker (and, where steering changed, every worker) has confirmed
//! ([`transaction`](crate::transaction)): "accepted" means live. This file decides which request is next; the machines
//! do the work.

use flow::{Bucket, ContentUsage, Nanos, OpId, SessionIndex, WorkerId};
use packet::Teid;
use rules::Adjacencies;
use rules::Predefined;
use rules::image::{SessionImage, UsageSnapshot};
use rules::model::{CorrelationId, PdrId, UrrId};
use rules::network::Network;
use rules::prefix::IpPrefix;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use usage::{Renewed, UsageAccounts, UsageReport, UsageTriggers, WallChange, WallClock};

use crate::account::Account;
use crate::bucket_moves::{BucketMoves, HeldSession, MoveFault, Moved, Released};
use crate::buckets::BucketTable;
use crate::change::{Change, Phase, Prepared, State, Work};
use crate::changes::{Changes, Charging};
use crate::commands::{Commands, Role};
use crate::config::{Config, Environment};
use crate::correlations::{Correlations, SharedRate};
use crate::effect::{Effect, WorkerFault};
use crate::f_teid_choice::ChosenFTeids;
use crate::gtpu_paths::{GtpuPath, PathChange};
use crate::ids::{AssociationId, CpFSeid, Seid, Ticket};
use crate::import::{ImportError, import};
use crate::ledger::{Ledger, ReportedSession};
use crate::ledger_entry::{EndCause, LedgerEntry, Unreported};
use crate::live::Live;
use crate::machines::Machines;
use crate::metering::{
    CounterReached, Metering, handle_bounds_set, handle_dropped, handle_end_marker, renewed,
};
use crate::outcome::Outcome;
use crate::persist::Persist;
use crate::pools::PoolId;
use crate::prepare::{Ready, Subject, check_queried, queried};
use crate::quotas::{Quotas, ResourceCounts};
use crate::random::Random;
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::release::{FollowUp, drop_because, drop_session, roll_back};
use crate::request::{Export, Request, Waiting};
use crate::resources::Resources;
use crate::restoration::Restoration;
use crate::session::{Identity, Session, SessionView};
use crate::sets::Sets;
use crate::table::{SessionTable, TableSeeds};
use crate::transaction::{apply, handle_answer};
use crate::tunnels::Tunnels;
use crate::ue_addresses::Addresses;

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

/// When a change is given up, and which.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Nanos,
    session: SessionIndex,
    ticket: Ticket,
}

/// All sessions of the node.
pub struct Sessions {
    machines: Machines,
    moves: BucketMoves,
    deadlines: VecDeque<Deadline>,
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
        // In this order: recorded cases depend on the numbers drawn.
        let seeds = TableSeeds {
            paths: random.next_u64(),
            owners: random.next_u64(),
            remotes: random.next_u64(),
        };
        let resources = Resources {
            tunnels: Tunnels::new(config.quarantine, random.split()),
            addresses: Addresses::new(&config.pools, &network, random.split()),
            quotas: Quotas::new(
                ResourceCounts([
                    config.worker_tunnels,
                    config.worker_addresses,
                    config.worker_addresses,
                    config.exceptions,
                ]),
                config.max_sessions as usize,
                config.association_percent,
                [random.next_u64(), random.next_u64()],
            ),
            correlations: Correlations::new(network.policers().count(), config.max_correlations),
        };
        let buckets = BucketTable::new(config.owners.clone(), config.workers);
        let machines = Machines {
            table: SessionTable::new(config.max_sessions, seeds),
            resources,
            commands: Commands::new(buckets, random.next_u64()),
            metering: Metering::new(config.clock_unix, config.traffic_silence),
            ledger: Ledger::new(config.ledger),
            outcomes: VecDeque::new(),
            config,
            environment: Environment { network, adjacencies },
            store,
            random,
        };
        Sessions {
            machines,
            moves: BucketMoves::default(),
            deadlines: VecDeque::new(),
        }
    }

    /// Establishes a session. A session that the same association has under the same F-SEID is superseded: its control
    /// plane has lost it. That session stays live, and can be changed, if the new one is refused. The outcome comes from
    /// [`poll_outcome`](Sessions::poll_outcome).
    pub fn establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        cp: CpFSeid,
        mut changes: Changes,
    ) {
        let lost = self.machines.table.by_owner(association, cp);
        let restoration = Restoration {
            config: &self.machines.config,
            network: &self.machines.environment.network,
            table: &self.machines.table,
            tunnels: &self.machines.resources.tunnels,
        };
        restoration.mark(now, lost, &mut changes);
        if let Some(lost) = lost {
            let changes = Box::new(changes);
            let request = Request::Supersede { changes, cp };
            return self.submit(now, lost, Waiting { ticket, request });
        }
        if let Err(refusal) = self.begin_establish(now, ticket, association, cp, &mut changes) {
            self.machines.refuse(ticket, refusal);
        }
    }

    fn begin_establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        cp: CpFSeid,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let machines = &mut self.machines;
        if !machines.resources.quotas.allows_session(association) {
            return Err(Refusal::NoResources);
        }
        let index = machines.table.indexes.take().ok_or(Refusal::NoResources)?;
        let seid = machines.table.seids.draw(&mut machines.random);
        let subject = Subject {
            index,
            seid,
            bucket: None,
            charged_to: association,
            owner: association,
            live: &Live::default(),
            shared: ChosenFTeids::default(),
        };
        let account = Account::of(changes.subscriber.clone());
        let Ready { image, prepared } = match machines.preparation().prepare(subject, changes) {
            Ok(ready) => ready,
            Err(refusal) => {
                machines.table.indexes.give_back(index);
                return Err(refusal);
            }
        };
        let identity = Identity {
            index,
            seid,
            association,
            cp,
            bucket: image.bucket,
        };
        let usage = UsageAccounts::new(machines.metering.setting());
        self.put(Box::new(Session::new(identity, usage, account)));
        self.start(now, index, ticket, Work::Establish(prepared), Some(image));
        Ok(())
    }

    fn put(&mut self, session: Box<Session>) {
        self.machines.resources.quotas.add_session(session.association);
        self.machines.table.put(session);
    }

    /// Changes a session's rules, and its control plane's F-SEID if one is given.
    pub fn modify(&mut self, now: Nanos, ticket: Ticket, seid: Seid, cp: Option<CpFSeid>, changes: Changes) {
        let changes = Box::new(changes);
        let request = Request::Modify { changes, cp };
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Removes a session; the outcome has the final usage of every URR.
    pub fn delete(&mut self, now: Nanos, ticket: Ticket, seid: Seid) {
        let request = Request::Delete;
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Makes a record of a session; it comes with the [`Outcome`] of `ticket`. The record's association and pending
    /// reports are the caller's to fill in.
    pub fn export(&mut self, now: Nanos, ticket: Ticket, seid: Seid, how: Export) {
        let request = Request::Export(how);
        self.submit_to(now, seid, Waiting { ticket, request });
    }

    /// Takes a session in, with all of its numbers. Whether the worker has taken it too is in the [`Outcome`] of
    /// `ticket`.
    ///
    /// # Errors
    /// Which number another session has, or why else the session cannot be taken.
    pub fn import(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        record: &SessionRecord,
    ) -> Result<(), ImportError> {
        let arriving = import(&mut self.machines, association, record)?;
        let index = arriving.session.index;
        self.put(arriving.session);
        let work = Work::Establish(arriving.prepared);
        self.start(now, index, ticket, work, Some(arriving.image));
        Ok(())
    }

    /// The node downstream has notified the start of a Pause of Charging: measurement stops once nothing else is in
    /// progress in the session (TS 29.244 §5.30). The request has no deadline, since the notification is not repeated.
    pub fn pause_charging(&mut self, now: Nanos, ticket: Ticket, index: SessionIndex) {
        let Some(session) = self.machines.table.live_mut(index) else {
            return;
        };
        let last = session.waiting.back().map(|waiting| &waiting.request);
        if !matches!(last, Some(Request::Pause)) {
            let request = Request::Pause;
            session
                .waiting
                .get_or_insert_default()
                .push_back(Waiting { ticket, request });
        }
        self.next_request(now, index);
    }

    fn submit_to(&mut self, now: Nanos, seid: Seid, waiting: Waiting) {
        match self.machines.table.seids.get(seid) {
            Some(index) => self.submit(now, index, waiting),
            None => self.machines.refuse(waiting.ticket, Refusal::NotFound),
        }
    }

    fn submit(&mut self, now: Nanos, index: SessionIndex, waiting: Waiting) {
        let ticket = waiting.ticket;
        let most = self.machines.config.max_waiting;
        let Some(session) = self.machines.table.get_mut(index) else {
            return;
        };
        if session.waiting.len() >= most {
            return self.machines.refuse(ticket, Refusal::Busy);
        }
        // Most requests do not wait: their session needs no queue.
        let is_next = session.is_ready() && session.waiting.is_empty();
        let begins = if is_next {
            Some(waiting)
        } else {
            session.waiting.get_or_insert_default().push_back(waiting);
            None
        };
        self.deadlines.push_back(Deadline {
            at: now + self.machines.config.deadline,
            session: index,
            ticket,
        });
        if let Some(waiting) = begins {
            self.begin_request(now, index, waiting);
        }
        self.next_request(now, index);
    }

    /// Serves the requests that wait for a session until one is in progress.
    fn next_request(&mut self, now: Nanos, index: SessionIndex) {
        while let Some(session) = self.machines.table.get_mut(index) {
            if !matches!(session.state, State::Settled) {
                return;
            }
            if self.machines.resources.correlations.has_any(index) {
                self.machines
                    .resources
                    .correlations
                    .settle(index, &session.live.rules);
            }
            if session.phase != Phase::Stays {
                self.moves.join(&mut self.machines, index);
                while let Some(released) = self.moves.poll_released() {
                    self.release(now, released);
                }
                return;
            }
            let Some(waiting) = session.next_waiting() else {
                return;
            };
            self.begin_request(now, index, waiting);
        }
    }

    /// Begins what a request asks of a session in which nothing else is in progress.
    fn begin_request(&mut self, now: Nanos, index: SessionIndex, Waiting { ticket, request }: Waiting) {
        let begun = match request {
            Request::Delete => {
                self.start(now, index, ticket, Work::Delete, None);
                Ok(())
            }
            Request::Export(how) => {
                self.start(now, index, ticket, Work::Export(how), None);
                Ok(())
            }
            Request::Modify { mut changes, cp } => self.begin_modify(now, index, ticket, cp, &mut changes),
            Request::Supersede { changes, cp } => self.begin_supersede(now, index, ticket, cp, *changes),
            Request::Pause => self.begin_pause(now, index, ticket),
        };
        if let Err(refusal) = begun {
            self.machines.refuse(ticket, refusal);
        }
    }

    fn begin_modify(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: Option<CpFSeid>,
        changes: &mut Changes,
    ) -> Result<(), Refusal> {
        let Some(session) = self.machines.table.get_mut(index) else {
            return Err(Refusal::NotFound);
        };
        let shared = session.shared.clone();
        let queried = queried(&session.live, &changes.query)?;
        check_queried(&session.live, &changes.query_packets)?;
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
                charged_to: session.charged_to,
                owner: session.association,
                live: &live,
                shared,
            };
            let ready = self.machines.preparation().prepare(subject, changes);
            if let Some(session) = self.machines.table.get_mut(index) {
                session.live = live;
            }
            let Ready { image, prepared } = ready?;
            (Some(image), prepared)
        };
        // A URR without PDRs forgets what it measured, and what was left of its quotas (TS 29.244 §5.2.2.3.1).
        let lost = prepared.queried.iter();
        let lost = lost.map(|(urr, _)| (*urr, Renewed::DISSOCIATED));
        prepared.renewed = lost.chain(renewed).collect();
        prepared.renew_associated();
        prepared.queried.extend(queried);
        prepared.queried_packets = queried_packets;
        prepared.cp = cp;
        prepared.subscriber = changes.subscriber.take();
        self.start(now, index, ticket, Work::Modify(prepared), image);
        Ok(())
    }

    /// Pauses charging, if there is any.
    fn begin_pause(&mut self, now: Nanos, index: SessionIndex, ticket: Ticket) -> Result<(), Refusal> {
        let session = self.machines.table.get(index);
        if !session.is_some_and(|session| session.live.rules.is_charging()) {
            return Ok(());
        }
        let mut changes = Changes {
            charging: Some(Charging::Paused),
            ..Changes::default()
        };
        self.begin_modify(now, index, ticket, None, &mut changes)
    }

    /// Begins to replace the settled session at `index` by another: an establishment under an F-SEID that the control
    /// plane has used already. It has lost the old session and does not know it; but as long as the new one can be
    /// refused, by its rules or by the worker, the old one must stay live. So the new session is prepared beside it and
    /// takes over its index, bucket and worker: one Replace removes the old image and installs the new one, whole or not
    /// at all, and no key clashes. What undoes a modification undoes this too. Only at the commit does the SEID change.
    ///
    /// If the old session has got another F-SEID since the request came, the new one is a session of its own.
    fn begin_supersede(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: CpFSeid,
        mut changes: Changes,
    ) -> Result<(), Refusal> {
        let machines = &mut self.machines;
        let session = machines.table.get(index).ok_or(Refusal::Gone)?;
        let association = session.association;
        if session.cp != cp {
            self.establish(now, ticket, association, cp, changes);
            return Ok(());
        }
        let seid = machines.table.seids.draw(&mut machines.random);
        let (bucket, charged_to) = (session.bucket, session.charged_to);
        let counting = session.live.rules.urrs().to_vec();
        // As for a session without rules that holds what the old one holds.
        let nothing = Live {
            // Whatever the rules, no flow of the old session is the new one's.
            generation: session.live.generation.wrapping_add(1),
            ..Live::default()
        };
        let subject = Subject {
            index,
            seid,
            bucket: Some(bucket),
            charged_to,
            owner: association,
            live: &nothing,
            shared: ChosenFTeids::default(),
        };
        let subscriber = changes.subscriber.clone();
        let Ready { image, mut prepared } = machines.preparation().prepare(subject, &mut changes)?;
        prepared.subscriber = subscriber;
        let inherits = |urr: UrrId| counting.iter().any(|old| old.id == urr);
        let both = prepared.live.urrs().filter(|urr| inherits(*urr));
        prepared.queried = both.map(|urr| (urr, UsageTriggers::TERMR)).collect();
        // Buffered packets are the old session's, as if it were deleted.
        prepared.immediate.discards_buffered = true;
        self.start(now, index, ticket, Work::Supersede(prepared, seid), Some(image));
        Ok(())
    }

    /// Begins a change: the deadline of an establishment runs from now, that of others from their arrival.
    fn start(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        work: Work,
        mut image: Option<Box<SessionImage>>,
    ) {
        let Machines {
            table,
            resources,
            commands,
            metering,
            config,
            ..
        } = &mut self.machines;
        let Some(session) = table.get_mut(index) else {
            return;
        };
        if let Some(image) = image.as_deref_mut() {
            metering.fill_bounds(now, session, &work, image);
        }
        let is_new = matches!(work, Work::Establish(_));
        if is_new {
            self.deadlines.push_back(Deadline {
                at: now + config.deadline,
                session: index,
                ticket,
            });
        }
        if let Some(prepared) = work.prepared() {
            resources.correlations.follow(index, &prepared.live.rules);
            let taken = prepared.takes(commands.buckets.with_exceptions(session.bucket));
            resources.charge(session, &commands.buckets, taken);
        }
        let id = commands.new_change();
        let bounds = image.as_deref().map(|image| image.block.bounds.clone());
        let change = Change::new(id, ticket, work, image.is_some(), bounds.unwrap_or_default());
        session.state = State::Changing(Box::new(change));
        let held = HeldSession {
            index,
            change: id,
            image,
        };
        let due = match is_new {
            true => self.moves.hold(session.bucket, held),
            false => Err(held),
        };
        if let Err(HeldSession { image, .. }) = due {
            let follow_up = apply(&mut self.machines, now, index, image);
            self.follow_up(now, follow_up);
        }
    }

    /// Does what is to be done when a change is over.
    fn follow_up(&mut self, now: Nanos, follow_up: FollowUp) {
        match follow_up {
            FollowUp::Nothing => {}
            FollowUp::Next(index) => self.next_request(now, index),
            FollowUp::Orphaned {
                association,
                requests,
            } => {
                for Waiting { ticket, request } in requests {
                    match request {
                        // What was to replace the session is a session of its own now.
                        Request::Supersede { changes, cp } => {
                            self.establish(now, ticket, association, cp, *changes);
                        }
                        Request::Modify { .. } | Request::Delete | Request::Export(_) | Request::Pause => {
                            self.machines.refuse(ticket, Refusal::NotFound);
                        }
                    }
                }
            }
        }
    }

    /// A worker has answered an operation ([`Effect`]).
    pub fn applied(&mut self, now: Nanos, op: OpId, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let machines = &mut self.machines;
        let Some(op) = machines.commands.answered(op) else {
            return;
        };
        let mut session = machines.table.get_mut(op.session);
        let result = result.map(|usage| {
            let usage = usage?;
            machines.ledger.take_contents(session.as_deref_mut(), usage)
        });
        match op.role {
            Role::MoveHalve | Role::MoveIn | Role::MoveOut | Role::MoveWhole | Role::MoveSteering => {
                self.moves.handle_answer(machines, now, op, result);
            }
            Role::SetBounds => session.into_iter().for_each(handle_bounds_set),
            Role::QueryUsage => {
                if let Some(session) = session {
                    let with = (&mut machines.commands, &mut machines.ledger);
                    machines.metering.handle_counts(now, session, result, with);
                }
            }
            Role::Install | Role::Replace | Role::Remove | Role::Query | Role::Fence => {
                let follow_up = handle_answer(machines, now, op, result);
                self.follow_up(now, follow_up);
            }
        }
        self.continue_move(now);
    }

    /// When [`handle_timeout`](Sessions::handle_timeout) is to be called next.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        let request = self.deadlines.front().map(|deadline| deadline.at);
        let usage = self.machines.metering.poll_timeout();
        [request, usage, self.moves.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Gives up what is late, and evaluates URRs whose timers have expired.
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
        let machines = &mut self.machines;
        machines
            .metering
            .handle_timeout(now, &mut machines.table, &mut machines.commands);
        self.moves.handle_timeout(machines, now);
        self.continue_move(now);
    }

    /// Refuses a request that is still waiting or in progress, but for one whose answer is all that is left of a
    /// session.
    fn expire(&mut self, now: Nanos, deadline: Deadline) {
        let Deadline {
            session: index,
            ticket,
            ..
        } = deadline;
        let Some(session) = self.machines.table.get_mut(index) else {
            return;
        };
        if session.take_back(ticket) {
            return self.machines.refuse(ticket, Refusal::TooLate);
        }
        let State::Changing(change) = &session.state else {
            return;
        };
        match change.work {
            _ if change.ticket != ticket => {}
            Work::Modify(_) | Work::Supersede(..) => {
                let follow_up = roll_back(&mut self.machines, index, Refusal::TooLate);
                self.follow_up(now, follow_up);
            }
            Work::Establish(_) => {
                drop_because(&mut self.machines, index, Refusal::TooLate, EndCause::Fault);
            }
            // What the worker gives up it gives once: late usage is worth more than a refusal in time.
            Work::Delete | Work::Export(_) => {}
        }
    }

    /// Moves `bucket` to the worker `to`; the result comes from [`poll_moved`](Sessions::poll_moved). One bucket moves at
    /// a time.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        self.moves.begin(&mut self.machines, now, bucket, to)?;
        self.continue_move(now);
        Ok(())
    }

    fn continue_move(&mut self, now: Nanos) {
        while let Some(released) = self.moves.poll(&mut self.machines) {
            self.release(now, released);
        }
    }

    /// A session that a move has released continues.
    fn release(&mut self, now: Nanos, released: Released) {
        match released {
            Released::Next(index) => self.next_request(now, index),
            Released::Apply(HeldSession { index, change, image }) => {
                let session = self.machines.table.get(index);
                if session.is_some_and(|session| session.is_at(change)) {
                    let follow_up = apply(&mut self.machines, now, index, image);
                    self.follow_up(now, follow_up);
                }
            }
        }
    }

    /// A counter has reached a bound, as the worker that has the session notifies. Reports come from
    /// [`poll_usage`](Sessions::poll_usage).
    pub fn counter_reached(&mut self, now: Nanos, index: SessionIndex, event: CounterReached) {
        let Machines {
            table,
            commands,
            metering,
            ledger,
            ..
        } = &mut self.machines;
        if let Some(session) = table.get_mut(index) {
            metering.handle_counter(now, session, event, (commands, ledger));
        }
    }

    /// As many downlink packets of a URR as its threshold were dropped.
    pub fn dropped_reached(&mut self, index: SessionIndex, urr: UrrId) {
        if let Some(session) = self.machines.table.live_mut(index) {
            handle_dropped(session, urr, &mut self.machines.commands);
        }
    }

    /// An End Marker has come for a PDR (TS 29.244 §5.2.2.5).
    pub fn end_marker_received(&mut self, index: SessionIndex, pdr: PdrId) {
        if let Some(session) = self.machines.table.live_mut(index) {
            handle_end_marker(session, pdr, &mut self.machines.commands);
        }
    }

    /// A worker reports what a session has counted of a content since its last report.
    pub fn content_counted(&mut self, index: SessionIndex, usage: ContentUsage) {
        if let Some(session) = self.machines.table.get_mut(index) {
            self.machines.ledger.enter_contents(session, &[usage]);
        }
    }

    /// This usage report has been added to the one before it ([`UsageReport::absorb`]): the next one of its URR gets
    /// its number, so that the control plane sees no gap.
    ///
    /// [`UsageReport::absorb`]: crate::UsageReport::absorb
    pub fn recall_report(&mut self, seid: Seid, report: &UsageReport) {
        if let Some(session) = self.session_mut(seid) {
            session.usage.recall(report);
        }
    }

    /// Enters in the ledger that the control plane has not accepted usage reports. A session that is gone is entered by
    /// what is known of it.
    pub fn enter_unreported(
        &mut self,
        now: Nanos,
        of: ReportedSession,
        reports: &[UsageReport],
        why: Unreported,
    ) {
        let table = &self.machines.table;
        let session = table.seids.get(of.seid).and_then(|index| table.get(index));
        self.machines
            .ledger
            .enter_unreported(now, of, session, reports, why);
    }

    /// Removes a session without a request of its control plane, and refuses what waits for it.
    pub fn remove(&mut self, seid: Seid, cause: EndCause) {
        if let Some(index) = self.machines.table.seids.get(seid) {
            drop_session(&mut self.machines, index, cause);
        }
    }

    /// Removes those sessions of an association that `go` selects, without a request of the association, and refuses what
    /// waits for them. Answers how many.
    pub fn remove_association(
        &mut self,
        association: AssociationId,
        cause: EndCause,
        go: impl Fn(&CpFSeid) -> bool,
    ) -> usize {
        let table = &self.machines.table;
        let mut going = table.indexes_of(association);
        going.retain(|index| table.get(*index).is_some_and(|session| go(&session.cp)));
        for index in &going {
            drop_session(&mut self.machines, *index, cause);
        }
        going.len()
    }

    /// The sets of SMFs that a session belongs to, to be changed.
    pub fn sets_mut(&mut self, seid: Seid) -> Option<&mut Sets> {
        self.session_mut(seid)
            .map(|session| session.sets.get_or_insert_default())
    }

    /// The control plane uses another F-SEID for a session from now on.
    pub fn rename(&mut self, seid: Seid, cp: CpFSeid) {
        if let Some(index) = self.machines.table.seids.get(seid) {
            self.machines.table.change_cp_f_seid(index, cp);
        }
    }

    /// A session belongs to another association from now on. What it holds still counts against the quota of the one that
    /// established it.
    pub fn hand_over(&mut self, seid: Seid, to: AssociationId) {
        let Machines { table, resources, .. } = &mut self.machines;
        let index = table.seids.get(seid);
        let from = index.and_then(|index| table.change_association(index, to));
        if let Some((index, from)) = index.zip(from) {
            resources.correlations.hand_over(index, to);
            resources.quotas.remove_session(from);
            resources.quotas.add_session(to);
        }
    }

    fn session_mut(&mut self, seid: Seid) -> Option<&mut Session> {
        let index = self.machines.table.seids.get(seid)?;
        self.machines.table.get_mut(index)
    }

    /// The next command for a worker.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.machines.commands.poll()
    }

    /// The next outcome of a request.
    pub fn poll_outcome(&mut self) -> Option<Outcome> {
        self.machines.outcomes.pop_front()
    }

    /// The next report that a session makes by itself.
    pub fn poll_usage(&mut self) -> Option<(Seid, UsageReport)> {
        self.machines.metering.poll()
    }

    /// The next entry of the ledger.
    pub fn poll_ledger(&mut self) -> Option<LedgerEntry> {
        self.machines.ledger.poll()
    }

    /// The result of a bucket move.
    pub fn poll_moved(&mut self) -> Option<Moved> {
        self.moves.poll_result()
    }

    /// A GTP-U path that came into use or went out of use since the last call.
    pub fn poll_path(&mut self) -> Option<PathChange> {
        self.machines.table.paths.poll()
    }

    /// A correlated rate that has changed, or the workers that have its sessions. It must reach the workers before the
    /// effects that are to be polled yet.
    pub fn poll_shared_rate(&mut self) -> Option<SharedRate> {
        let Machines {
            table,
            resources,
            commands,
            ..
        } = &mut self.machines;
        let buckets = &commands.buckets;
        resources.correlations.poll(|index| {
            let session = table.get(index);
            let owner = session.map(|session| buckets.owner(session.bucket));
            owner
                .into_iter()
                .chain(session.and_then(|session| session.other_owner(buckets)))
        })
    }

    /// The host's clock says that `now` is this many nanoseconds after 1970, read with an uncertainty of `slack`
    /// nanoseconds. Monitoring times that have not come yet come at the moments that now have their dates.
    pub fn follow_wall(&mut self, now: Nanos, host_unix: u64, slack: u64) -> Option<WallChange> {
        let Machines {
            table,
            commands,
            metering,
            ..
        } = &mut self.machines;
        metering.follow_wall(now, (host_unix, slack), table, commands)
    }

    /// Which dates moments have.
    pub fn wall(&self) -> &WallClock {
        self.machines.metering.wall()
    }

    /// The session with this local SEID.
    pub fn session(&self, seid: Seid) -> Option<SessionView<'_>> {
        self.view(self.machines.table.seids.get(seid)?)
    }

    /// The session with this index, unless only workers still have it.
    pub fn view(&self, index: SessionIndex) -> Option<SessionView<'_>> {
        self.machines.table.view(index)
    }

    /// The session that sends packets to this tunnel endpoint of a peer, or one of those that do.
    pub fn session_by_remote(&self, peer: IpAddr, teid: Teid) -> Option<SessionView<'_>> {
        self.sessions_by_remote(peer, teid).next()
    }

    /// The sessions that send packets to this tunnel endpoint of a peer.
    pub fn sessions_by_remote(&self, peer: IpAddr, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        self.machines.table.by_remote((peer, teid))
    }

    /// The sessions of an association, in the order of their indexes. Costs what they are, however many others there
    /// are.
    pub fn of_association(&self, association: AssociationId) -> impl Iterator<Item = SessionView<'_>> {
        let indexes = self.machines.table.indexes_of(association).into_iter();
        indexes.filter_map(move |index| self.view(index))
    }

    /// All sessions, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = SessionView<'_>> {
        self.machines.table.iter()
    }

    /// Sessions in the order of their SEIDs, from the first one behind `after` on.
    pub fn page(&self, after: Option<Seid>) -> impl Iterator<Item = SessionView<'_>> {
        let indexes = self.machines.table.seids.behind(after);
        indexes.filter_map(|index| self.view(index))
    }

    /// The sessions that have this TEID at one of our addresses.
    pub fn with_teid(&self, teid: Teid) -> impl Iterator<Item = SessionView<'_>> {
        let locals = self.machines.environment.network.gtpu_addresses();
        let tunnels = &self.machines.resources.tunnels;
        let holders = locals.filter_map(move |(_, local, _)| tunnels.holder((local, teid)));
        self.machines.table.views(holders)
    }

    /// The sessions that plain packets to this address reach, one for each address space at most.
    pub fn with_ue_address(&self, address: IpAddr) -> impl Iterator<Item = SessionView<'_>> {
        let instances = self.machines.environment.network.instances();
        let mut vrfs: Vec<_> = instances.iter().map(|one| one.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        let addresses = &self.machines.resources.addresses;
        let at = move |vrf| addresses.holder_around((vrf, IpPrefix::host(address)));
        self.machines.table.views(vrfs.into_iter().filter_map(at))
    }

    /// Whether any session sends into this GTP-U path.
    pub fn uses_path(&self, path: &GtpuPath) -> bool {
        self.users_of(path).next().is_some()
    }

    /// The associations whose sessions send into a GTP-U path.
    pub fn users_of(&self, path: &GtpuPath) -> impl Iterator<Item = AssociationId> + '_ {
        self.machines.table.paths.users(path)
    }

    /// The worker that owns `bucket`.
    pub fn owner(&self, bucket: Bucket) -> WorkerId {
        self.machines.commands.buckets.owner(bucket)
    }

    /// The bucket that moves.
    pub fn moving_bucket(&self) -> Option<Bucket> {
        self.moves.moving_bucket()
    }

    /// How many sessions `bucket` has.
    pub fn sessions_in(&self, bucket: Bucket) -> usize {
        self.machines.table.members(bucket).len()
    }

    /// What is predefined.
    pub fn predefined(&self) -> &Predefined {
        &self.machines.config.predefined
    }

    /// How many sessions an association has.
    pub fn sessions_of(&self, association: AssociationId) -> usize {
        self.machines.resources.quotas.sessions(association)
    }

    /// How many sessions of an association are removed, and workers have yet to confirm it.
    pub fn dying_of(&self, association: AssociationId) -> usize {
        self.machines.table.dying_of(association)
    }

    /// How many tunnels an association's sessions hold.
    pub fn tunnels_of(&self, association: AssociationId) -> usize {
        let quotas = &self.machines.resources.quotas;
        let workers = self.machines.commands.buckets.workers();
        workers
            .map(|worker| quotas.held(association, worker).tunnels())
            .sum()
    }

    /// How many sessions have the rate of this correlation together with a session, itself among them.
    pub fn correlated(&self, index: SessionIndex, correlation: CorrelationId) -> usize {
        self.machines
            .resources
            .correlations
            .sessions_with(index, correlation)
    }

    /// Sets how many parties there are that quotas are for ([`Config::association_percent`]).
    pub fn share_among(&mut self, parties: usize) {
        self.machines.resources.quotas.among(parties);
    }

    /// Sets which associations are of one party, that has one quota; every other one is a party by itself.
    pub fn unite(&mut self, parties: impl Iterator<Item = Vec<AssociationId>>) {
        self.machines.resources.quotas.unite(parties);
    }

    /// How many of what there are.
    pub fn count(&self) -> Count {
        let Machines {
            table,
            resources,
            commands,
            ..
        } = &self.machines;
        Count {
            sessions: table.seids.len(),
            indexes: table.indexes.in_use(),
            tunnels: resources.tunnels.held(),
            addresses: resources.addresses.held(),
            correlations: resources.correlations.len(),
            paths: table.paths.len(),
            ops: commands.pending(),
        }
    }

    /// How many of a pool's addresses are held, and how many it has.
    pub fn pool_usage(&self, pool: PoolId) -> (u64, u64) {
        self.machines.resources.addresses.usage(pool)
    }

    /// Whether of anything that sessions take (their number, room in workers, correlations, a pool's addresses) as much
    /// is taken as `share` says of how much there is. Where that is all, it does not count.
    pub fn is_filled(&self, share: impl Fn(usize) -> usize) -> bool {
        let config = &self.machines.config;
        let workers = usize::from(config.workers);
        let pools = (0..config.pools.len()).map(|pool| {
            let (held, all) = self.pool_usage(PoolId(pool as u16));
            let of = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
            (of(held), of(all))
        });
        let count = self.count();
        let tables = [
            (count.indexes, config.max_sessions as usize),
            (count.tunnels, config.worker_tunnels.saturating_mul(workers)),
            (count.addresses, config.worker_addresses.saturating_mul(workers)),
            (count.correlations, usize::from(config.max_correlations)),
        ];
        let is_filled = |(taken, all): (usize, usize)| {
            let part = share(all);
            part < all && taken >= part
        };
        tables.into_iter().chain(pools).any(is_filled)
    }
}
