//! Requests: which request of a session is next, and which change a session goes through because of it.
//!
//! A request waits for those of its session before it and for a move of the session's bucket, at most until its
//! deadline. The modules on [`ChangeContext`] do the work; they return what is to follow when a change is over
//! ([`FollowUp`]).

use flow::{Bucket, Nanos, OpId, SessionIndex, WorkerId};
use rules::image::{SessionImage, UsageSnapshot};
use rules::model::UrrId;
use rules::network::Network;
use std::collections::VecDeque;
use std::sync::Arc;
use usage::{Renewed, UsageAccounts, UsageTriggers};

use crate::apply_change::{apply, handle_answer};
use crate::bucket_moves::{BucketMoves, HeldSession, MoveFault, Released};
use crate::change_context::ChangeContext;
use crate::commands::Role;
use crate::effect::WorkerFault;
use crate::f_teid_choice::ChosenFTeids;
use crate::ids::{AssociationId, CpFSeid, Seid, Ticket};
use crate::import::{ImportError, Origin, import};
use crate::live_session::Live;
use crate::pending_change::{Change, Phase, Prepared, State, Work};
use crate::prepare::{Ready, Subject, check_queried, queried};
use crate::queued_request::{Request, Waiting};
use crate::recompilation::{MOST_ON_THEIR_WAY, Recompilation, Recompiled, RecompiledSessions};
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::release::{FollowUp, drop_because, roll_back};
use crate::restoration::Restoration;
use crate::rule_changes::{Changes, Charging, Follow};
use crate::session::{Identity, Session};
use crate::session_accounting::SessionAccounting;
use crate::usage_measurement::{handle_bounds_set, renewed};
use crate::usage_record_entry::EndCause;

/// When a change is given up, and which.
#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Nanos,
    session: SessionIndex,
    ticket: Ticket,
}

/// The requests of all sessions, with the context that they work on.
pub(crate) struct Requests {
    pub(crate) context: ChangeContext,
    pub(crate) moves: BucketMoves,
    deadlines: VecDeque<Deadline>,
    /// Sessions follow a changed configuration.
    recompilation: Option<Recompilation>,
}

impl Requests {
    /// No requests.
    pub(crate) fn new(context: ChangeContext) -> Requests {
        Requests {
            context,
            moves: BucketMoves::default(),
            deadlines: VecDeque::new(),
            recompilation: None,
        }
    }

    /// Establishes a session. A session that the same association has under the same F-SEID is superseded: its control
    /// plane has lost it. That session stays live, and can be changed, if the new one is refused.
    pub(crate) fn establish(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        cp: CpFSeid,
        mut changes: Changes,
    ) {
        let lost = self.context.table.by_owner(association, cp);
        let restoration = Restoration {
            config: &self.context.config,
            network: &self.context.environment.network,
            buckets: &self.context.commands.buckets,
            table: &self.context.table,
            tunnels: &self.context.resources.tunnels,
        };
        restoration.mark(now, lost, &mut changes);
        if let Some(lost) = lost {
            let changes = Box::new(changes);
            let request = Request::Supersede { changes, cp };
            return self.submit(now, lost, Waiting { ticket, request });
        }
        if let Err(refusal) = self.begin_establish(now, ticket, association, cp, &mut changes) {
            self.context.refuse(ticket, refusal);
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
        let context = &mut self.context;
        if !context.resources.quotas.allows_session(association) {
            return Err(Refusal::NoResources);
        }
        let index = context.table.indexes.take().ok_or(Refusal::NoResources)?;
        let seid = context.table.seids.draw(&mut context.random);
        let account = SessionAccounting::of(changes.subscriber.clone());
        let subject = Subject {
            index,
            seid,
            bucket: None,
            slice: account.slice(),
            charged_to: association,
            owner: association,
            live: &Live::default(),
            shared: ChosenFTeids::default(),
        };
        let Ready { image, prepared } = match context.preparation().prepare(subject, changes) {
            Ok(ready) => ready,
            Err(refusal) => {
                context.table.indexes.give_back(index);
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
        let usage = UsageAccounts::new(context.usage_measurement.setting());
        self.put(Box::new(Session::new(identity, usage, account)));
        self.start(now, index, ticket, Work::Establish(prepared), Some(image));
        Ok(())
    }

    fn put(&mut self, session: Box<Session>) {
        self.context.resources.quotas.add_session(session.association);
        self.context.table.put(session);
    }

    /// Takes a session in, with all of its numbers. Whether the worker has taken it too is in the
    /// [`Outcome`](crate::Outcome) of `ticket`.
    ///
    /// # Errors
    /// Which number another session has, or why else the session cannot be taken.
    pub(crate) fn import(
        &mut self,
        now: Nanos,
        ticket: Ticket,
        association: AssociationId,
        record: &SessionRecord,
        origin: Origin,
    ) -> Result<(), ImportError> {
        let arriving = import(&mut self.context, association, record, origin, now)?;
        let index = arriving.session.index;
        self.put(arriving.session);
        let work = Work::Establish(arriving.prepared);
        self.start(now, index, ticket, work, Some(arriving.image));
        Ok(())
    }

    /// The node downstream has notified the start of a Pause of Charging: measurement stops once nothing else is in
    /// progress in the session (TS 29.244 §5.30). The request has no deadline, since the notification is not repeated.
    pub(crate) fn pause_charging(&mut self, now: Nanos, ticket: Ticket, index: SessionIndex) {
        let Some(session) = self.context.table.live_mut(index) else {
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

    /// Submits a request of the session with this SEID.
    pub(crate) fn submit_to(&mut self, now: Nanos, seid: Seid, waiting: Waiting) {
        match self.context.table.seids.get(seid) {
            Some(index) => self.submit(now, index, waiting),
            None => self.context.refuse(waiting.ticket, Refusal::NotFound),
        }
    }

    fn submit(&mut self, now: Nanos, index: SessionIndex, waiting: Waiting) {
        let ticket = waiting.ticket;
        let most = self.context.config.max_waiting;
        let Some(session) = self.context.table.get_mut(index) else {
            return;
        };
        if session.waiting.len() >= most {
            return self.context.refuse(ticket, Refusal::Busy);
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
            at: now + self.context.config.deadline,
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
        while let Some(session) = self.context.table.get_mut(index) {
            if !matches!(session.state, State::Settled) {
                return;
            }
            if self.context.resources.correlations.has_any(index) {
                self.context
                    .resources
                    .correlations
                    .settle(index, &session.live.rules);
            }
            if session.phase != Phase::Stays {
                self.moves.join(&mut self.context, index);
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
            Request::Recompile => self.begin_recompile(now, index, ticket),
        };
        if let Err(refusal) = begun {
            if ticket == Ticket::RECOMPILATION {
                self.context.follow_network_alone(index);
            }
            self.context.refuse(ticket, refusal);
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
        let Some(session) = self.context.table.get_mut(index) else {
            return Err(Refusal::NotFound);
        };
        let slice = match &changes.subscriber {
            Some(next) => next.s_nssai,
            None => session.accounting.slice(),
        };
        if !self.context.commands.buckets.allowed(slice).has(session.bucket) {
            return Err(Refusal::OtherWorkers);
        }
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
                slice,
                charged_to: session.charged_to,
                owner: session.association,
                live: &live,
                shared,
            };
            let ready = self.context.preparation().prepare(subject, changes);
            if let Some(session) = self.context.table.get_mut(index) {
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
        let session = self.context.table.get(index);
        if !session.is_some_and(|session| session.live.rules.is_charging()) {
            return Ok(());
        }
        let mut changes = Changes {
            charging: Some(Charging::Paused),
            ..Changes::default()
        };
        self.begin_modify(now, index, ticket, None, &mut changes)
    }

    /// Has a session follow the changed configuration, if that changes anything of it.
    fn begin_recompile(&mut self, now: Nanos, index: SessionIndex, ticket: Ticket) -> Result<(), Refusal> {
        let context = &mut self.context;
        let session = context.table.get(index).ok_or(Refusal::NotFound)?;
        let follow = match ticket {
            Ticket::RECOMPILATION_FOR_NETWORK => Follow::Network,
            _ => Follow::All,
        };
        let recompilation = self.recompilation.as_ref();
        let changes = recompilation.and_then(|recompilation| {
            recompilation.changes_of(
                session,
                &context.environment.network,
                &context.config.predefined,
                follow,
            )
        });
        match changes {
            Some(mut changes) => self.begin_modify(now, index, ticket, None, &mut changes),
            None => {
                context.recompiled.unchanged();
                Ok(())
            }
        }
    }

    /// Every session follows the configuration from now on, which was made for `older` so far: as
    /// [`continue_recompilation`](Self::continue_recompilation) comes to it.
    pub(crate) fn begin_recompilation(&mut self, older: Arc<Network>) {
        let newer = &self.context.environment.network;
        self.recompilation = Some(Recompilation::new(older, newer));
        self.context.recompiled = RecompiledSessions::default();
    }

    /// Has up to `most` more sessions follow the configuration, as far as no more than a bounded number is on its way.
    /// What came of all, once all have.
    pub(crate) fn continue_recompilation(&mut self, now: Nanos, most: usize) -> Option<Recompiled> {
        for _ in 0..most {
            let recompilation = self.recompilation.as_mut()?;
            if self.context.recompiled.on_their_way() >= MOST_ON_THEIR_WAY {
                return None;
            }
            let Some(index) = recompilation.next_of(self.context.config.max_sessions) else {
                break;
            };
            let Some(session) = self.context.table.live_mut(index) else {
                continue;
            };
            let (ticket, request) = (Ticket::RECOMPILATION, Request::Recompile);
            let waiting = session.waiting.get_or_insert_default();
            waiting.push_back(Waiting { ticket, request });
            self.context.recompiled.begin();
            self.next_request(now, index);
        }
        let is_through = self
            .recompilation
            .as_ref()?
            .is_through(self.context.config.max_sessions);
        if !is_through || self.context.recompiled.on_their_way() > 0 {
            return None;
        }
        self.recompilation = None;
        Some(self.context.recompiled.result())
    }

    /// Begins to replace the settled session at `index` by another: an establishment under an F-SEID that the control
    /// plane has used already. It has lost the old session; but as long as the new one can be refused, by its rules or
    /// by the worker, the old one must stay live. So the new session is prepared beside it and takes over its index,
    /// bucket and worker: one Replace removes the old image and installs the new one, whole or not at all, and no key
    /// clashes. What undoes a modification undoes this too. Only at the commit does the SEID change.
    ///
    /// If the old session has got another F-SEID since the request came, the new one is a session of its own. So it is,
    /// with the old one removed before, where other workers serve its slice.
    fn begin_supersede(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: CpFSeid,
        mut changes: Changes,
    ) -> Result<(), Refusal> {
        let context = &mut self.context;
        let session = context.table.get(index).ok_or(Refusal::Gone)?;
        let association = session.association;
        if session.cp != cp {
            self.establish(now, ticket, association, cp, changes);
            return Ok(());
        }
        let slice = changes.subscriber.as_deref().and_then(|next| next.s_nssai);
        if !context.commands.buckets.allowed(slice).has(session.bucket) {
            self.supersede_elsewhere(now, index, ticket, cp, changes);
            return Ok(());
        }
        let seid = context.table.seids.draw(&mut context.random);
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
            slice,
            charged_to,
            owner: association,
            live: &nothing,
            shared: ChosenFTeids::default(),
        };
        let subscriber = changes.subscriber.clone();
        let Ready { image, mut prepared } = context.preparation().prepare(subject, &mut changes)?;
        prepared.subscriber = subscriber;
        let inherits = |urr: UrrId| counting.iter().any(|old| old.id == urr);
        let both = prepared.live.urrs().filter(|urr| inherits(*urr));
        prepared.queried = both.map(|urr| (urr, UsageTriggers::TERMR)).collect();
        // Buffered packets are the old session's, as if it were deleted.
        prepared.immediate.discards_buffered = true;
        self.start(now, index, ticket, Work::Supersede(prepared, seid), Some(image));
        Ok(())
    }

    /// Removes the settled session at `index`, and establishes the one that its control plane has set up in its place,
    /// which other workers serve. What replaces that one, and waits, comes behind it.
    fn supersede_elsewhere(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        cp: CpFSeid,
        changes: Changes,
    ) {
        let Some(session) = self.context.table.get_mut(index) else {
            return self.context.refuse(ticket, Refusal::Gone);
        };
        let association = session.association;
        let replaces = |request: &Request| matches!(request, Request::Supersede { .. });
        let waiting = session.take_waiting(replaces);
        drop_because(&mut self.context, index, Refusal::NotFound, EndCause::Superseded);
        self.establish(now, ticket, association, cp, changes);
        for Waiting { ticket, request } in waiting {
            if let Request::Supersede { changes, cp } = request {
                self.establish(now, ticket, association, cp, *changes);
            }
        }
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
        let ChangeContext {
            table,
            resources,
            commands,
            usage_measurement,
            config,
            ..
        } = &mut self.context;
        let group = table.group_after(index, &work);
        let Some(session) = table.get_mut(index) else {
            return;
        };
        if let Some(image) = image.as_deref_mut() {
            image.block.get_or_insert_default().group = group;
            usage_measurement.fill_bounds(now, session, &work, image);
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
            resources.correlations.update_rates(index, &prepared.live.rules);
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
            let follow_up = apply(&mut self.context, now, index, image);
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
                        Request::Modify { .. }
                        | Request::Delete
                        | Request::Export(_)
                        | Request::Pause
                        | Request::Recompile => {
                            self.context.refuse(ticket, Refusal::NotFound);
                        }
                    }
                }
            }
        }
    }

    /// A worker has answered an operation.
    pub(crate) fn applied(
        &mut self,
        now: Nanos,
        op: OpId,
        result: Result<Option<UsageSnapshot>, WorkerFault>,
    ) {
        let context = &mut self.context;
        let Some(op) = context.commands.answered(op) else {
            return;
        };
        let mut session = context.table.get_mut(op.session);
        let result = result.map(|usage| {
            let usage = usage?;
            context.usage_records.take_contents(session.as_deref_mut(), usage)
        });
        match op.role {
            Role::MoveHalve | Role::MoveIn | Role::MoveOut | Role::MoveWhole | Role::MoveSelection => {
                self.moves.handle_answer(context, now, op, result);
            }
            Role::SetBounds => session.into_iter().for_each(handle_bounds_set),
            Role::QueryUsage => {
                if let Some(session) = session {
                    let ChangeContext {
                        commands,
                        usage_measurement,
                        usage_records,
                        ..
                    } = context;
                    usage_measurement.handle_counts(now, session, result, commands, usage_records);
                }
            }
            Role::Install | Role::Replace | Role::Remove | Role::Query | Role::Fence => {
                let follow_up = handle_answer(context, now, op, result);
                self.follow_up(now, follow_up);
            }
        }
        self.continue_move(now);
    }

    /// When [`handle_timeout`](Requests::handle_timeout) is to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let request = self.deadlines.front().map(|deadline| deadline.at);
        let usage = self.context.usage_measurement.poll_timeout();
        [request, usage, self.moves.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Requests may take as long as the configuration says now, also those that wait.
    pub(crate) fn shorten_deadlines(&mut self, now: Nanos) {
        let latest = now + self.context.config.deadline;
        let deadlines = self.deadlines.iter_mut();
        deadlines.for_each(|deadline| deadline.at = deadline.at.min(latest));
    }

    /// Gives up what is late, and evaluates URRs whose timers have expired.
    pub(crate) fn handle_timeout(&mut self, now: Nanos) {
        while let Some(deadline) = self
            .deadlines
            .front()
            .copied()
            .filter(|deadline| deadline.at <= now)
        {
            self.deadlines.pop_front();
            self.expire(now, deadline);
        }
        let context = &mut self.context;
        context
            .usage_measurement
            .handle_timeout(now, &mut context.table, &mut context.commands);
        self.moves.handle_timeout(context, now);
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
        let Some(session) = self.context.table.get_mut(index) else {
            return;
        };
        if session.take_back(ticket) {
            return self.context.refuse(ticket, Refusal::TooLate);
        }
        let State::Changing(change) = &session.state else {
            return;
        };
        match change.work {
            _ if change.ticket != ticket => {}
            Work::Modify(_) | Work::Supersede(..) => {
                let follow_up = roll_back(&mut self.context, index, Refusal::TooLate);
                self.follow_up(now, follow_up);
            }
            Work::Establish(_) => {
                drop_because(&mut self.context, index, Refusal::TooLate, EndCause::Fault);
            }
            // What the worker gives up it gives once: late usage is worth more than a refusal in time.
            Work::Delete | Work::Export(_) => {}
        }
    }

    /// Moves `bucket` to the worker `to`. One bucket moves at
    /// a time.
    ///
    /// # Errors
    /// When the move cannot begin.
    pub(crate) fn move_bucket(&mut self, now: Nanos, bucket: Bucket, to: WorkerId) -> Result<(), MoveFault> {
        self.moves.begin(&mut self.context, now, bucket, to)?;
        self.continue_move(now);
        Ok(())
    }

    fn continue_move(&mut self, now: Nanos) {
        while let Some(released) = self.moves.poll(&mut self.context) {
            self.release(now, released);
        }
    }

    /// A session that a move has released continues.
    fn release(&mut self, now: Nanos, released: Released) {
        match released {
            Released::Next(index) => self.next_request(now, index),
            Released::Apply(HeldSession { index, change, image }) => {
                let session = self.context.table.get(index);
                if session.is_some_and(|session| session.is_at(change)) {
                    let follow_up = apply(&mut self.context, now, index, image);
                    self.follow_up(now, follow_up);
                }
            }
        }
    }
}
