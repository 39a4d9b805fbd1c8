//! From a prepared change to its outcome: effects out, confirmations in, deadlines.
//!
//! A change that is given up is followed by its undoing on the same worker: a Remove after an Install, a Replace by
//! what is live after a Replace. Workers apply in order, so that a late confirmation leaves no ghost.

use flow::{Bounds, Nanos, OpId, SessionIndex, UrrCount, WorkerId};
use rules::image::{PacketsLeft, SessionChange, SessionImage, UsageSnapshot};
use rules::model::{SessionRules, UrrId};
use std::sync::Arc;

use crate::effect::{Done, Effect, Ticket, WorkerFault};
use crate::ledger::EndCause;
use crate::packets::{PacketRateStatus, statuses};
use crate::refusal::Refusal;
use crate::session::{Change, Prepared, Session, SessionView, State, Work};
use crate::sessions::Sessions;
use crate::steering::keys;
use crate::transfer::{Export, Left};
use rules::steering::SteerChange;
use usage::{Counted, UsageReport, UsageTriggers};

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Install,
    Replace,
    Remove,
    Query,
    Fence,
    /// Bounds of counters.
    Bound,
    /// Query of the counters for the accounts.
    Look,
    /// Replace at the bucket's old owner: its meters and limits keep half.
    MoveHalve,
    /// Install at the new owner.
    MoveIn,
    /// Remove at the old one.
    MoveOut,
    /// Replace at the only owner there is again: its meters get all.
    MoveWhole,
    /// Fence or drain of a move.
    MoveSteering,
}

/// An operation that a worker has yet to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) session: SessionIndex,
    /// The number of the change, rollback, removal or stage of a move that it belongs to.
    pub(crate) change: u64,
    pub(crate) role: Role,
}

impl Sessions {
    /// Sends the change under way to the workers; it is done at once if there is nothing to send.
    pub(crate) fn apply(&mut self, now: Nanos, index: SessionIndex, image: Option<Box<SessionImage>>) {
        let Some(session) = self.slots.get(index.index()).and_then(Option::as_deref) else {
            return;
        };
        let State::Changing(change) = &session.state else {
            return;
        };
        let Change { id, work, .. } = &**change;
        let (id, worker) = (*id, self.config.owner(session.bucket));
        let role = work.role();
        let asks = |prepared: &Prepared| prepared.asks_for_counts();
        let queries = role == Role::Query || work.prepared().is_some_and(asks);
        let astray = work
            .prepared()
            .map(|prepared| self.exceptions_of(session, prepared))
            .unwrap_or_default();
        let immediate = work
            .prepared()
            .map(|prepared| prepared.immediate.clone())
            .unwrap_or_default();
        let mut pending = 0;
        if queries {
            let op = self.new_op(index, id, Role::Query);
            self.effects.push_back(Effect::Query {
                worker,
                op,
                session: index,
            });
            pending += 1;
        }
        let change = match role {
            Role::Remove => Some(SessionChange::Remove(index)),
            Role::Install => image.map(SessionChange::Install),
            _ => image.map(|image| SessionChange::Replace(image, immediate)),
        };
        if let Some(change) = change {
            self.send(index, id, role, worker, change);
            pending += 1;
        }
        pending += self.steer_all(index, id, &astray);
        if let Some(change) = self.session_mut(index).and_then(|session| session.change(id)) {
            change.pending = pending;
        }
        self.finish_if_complete(now, index, id);
    }

    /// Sends one change of a session to its worker.
    pub(crate) fn send(
        &mut self,
        index: SessionIndex,
        id: u64,
        role: Role,
        worker: WorkerId,
        change: SessionChange,
    ) {
        let op = self.new_op(index, id, role);
        self.effects.push_back(Effect::Apply { worker, op, change });
    }

    /// What must be steered by exception, of what a change took.
    fn exceptions_of(&self, session: &Session, prepared: &Prepared) -> Vec<SteerChange> {
        let bucket = session.bucket;
        let keys = keys(&prepared.claimed, &prepared.addresses);
        let astray = keys.filter(|key| self.config.workers > 1 && key.needs_exception(bucket));
        astray
            .map(|key| SteerChange::Exception {
                key,
                bucket: Some(bucket),
            })
            .collect()
    }

    /// Tells all workers, with a fence behind. Answers the number of operations.
    fn steer_all(&mut self, index: SessionIndex, id: u64, changes: &[SteerChange]) -> u32 {
        if changes.is_empty() {
            return 0;
        }
        self.steer(changes);
        for worker in 0..self.config.workers {
            let op = self.new_op(index, id, Role::Fence);
            self.effects.push_back(Effect::Fence {
                worker: WorkerId(worker),
                op,
            });
        }
        u32::from(self.config.workers)
    }

    /// Tells all workers.
    pub(crate) fn steer(&mut self, changes: &[SteerChange]) {
        for worker in (0..self.config.workers).map(WorkerId) {
            self.effects.extend(changes.iter().map(|change| Effect::Steer {
                worker,
                change: *change,
            }));
        }
    }

    pub(crate) fn new_op(&mut self, session: SessionIndex, change: u64, role: Role) -> OpId {
        self.last_op += 1;
        let op = OpId(self.last_op);
        self.ops.insert(
            op,
            Op {
                session,
                change,
                role,
            },
        );
        op
    }

    /// A worker has answered an operation. A worker that cannot even go back to what it ran loses the session: better
    /// none than one with rules that the peer was told do not apply. Answers to operations that nobody waits for any
    /// more only matter for the usage that they carry.
    pub fn applied(&mut self, now: Nanos, op: OpId, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let Some(op) = self.ops.remove(&op) else { return };
        let result = result.map(|usage| self.take_contents(op.session, usage));
        match op.role {
            Role::MoveHalve | Role::MoveIn | Role::MoveOut | Role::MoveWhole | Role::MoveSteering => {
                self.move_answered(now, op, result);
            }
            Role::Bound => self.bounded(op.session),
            Role::Look => self.looked(now, op.session, result),
            _ => self.change_answered(now, op, result),
        }
        self.advance_move(now);
    }

    fn change_answered(&mut self, now: Nanos, op: Op, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let index = op.session;
        let Some(session) = self.session_mut(index) else {
            return;
        };
        match &mut session.state {
            State::Changing(change) if change.id == op.change => {
                change.pending = change.pending.saturating_sub(1);
                match result {
                    Ok(usage) => change.note(op.role, usage),
                    Err(fault) => change.fault = Some(fault),
                }
                self.finish_if_complete(now, index, op.change);
            }
            State::RollingBack(back) if back.id == op.change && op.role == Role::Replace => match result {
                Ok(left) => {
                    let units = std::mem::take(&mut back.units);
                    session.add_rescaled(&units, left);
                    self.rolled_back(now, index);
                }
                Err(_) => self.kill(index, EndCause::Fault),
            },
            State::Dying(dying) if dying.id == op.change => {
                if let (Some(will), Ok(Some(usage))) = (&mut dying.will, result) {
                    will.add(usage);
                }
                dying.pending = dying.pending.saturating_sub(1);
                if dying.pending == 0 {
                    self.bury(now, index);
                }
            }
            State::RollingBack(_) | State::Dying(_) if op.role == Role::Replace => {
                session.carry(result);
            }
            _ => {}
        }
    }

    /// Draws the consequences once all operations of the change are answered.
    fn finish_if_complete(&mut self, now: Nanos, index: SessionIndex, id: u64) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let Some(change) = session.change(id).filter(|change| change.pending == 0) else {
            return;
        };
        if let Some((fault, is_new)) = change.half_done() {
            return if is_new {
                self.kill_because(index, refusal(fault), EndCause::Fault);
            } else {
                self.roll_back(now, index, refusal(fault));
            };
        }
        let State::Changing(change) = std::mem::replace(&mut session.state, State::Settled) else {
            return;
        };
        self.finish(now, index, *change);
        self.follow_usage(now, index, false);
        self.next_request(now, index);
    }

    /// Everything that was sent is done, or the worker has refused it and all is as it was.
    fn finish(&mut self, now: Nanos, index: SessionIndex, change: Change) {
        let session = self.slots.get(index.index()).and_then(Option::as_deref);
        let statuses = |session: &Session| session.statuses(now, &change.work, &change.packets);
        let left = session.map_or_else(Vec::new, statuses);
        match change.fault {
            None => self.succeed(now, index, change, left),
            Some(fault) => self.fail(now, index, (change.ticket, change.work), (fault, left)),
        }
    }

    /// All is done.
    fn succeed(&mut self, now: Nanos, index: SessionIndex, change: Change, left: Vec<PacketRateStatus>) {
        let Change {
            ticket,
            work,
            counted,
            ended,
            packets,
            tokens,
            dropped,
            bounds,
            ..
        } = change;
        let ended = ended.unwrap_or_default();
        match work {
            Work::Delete => {
                let reports = self.make_reports(index, |session| session.final_reports(now, &ended));
                self.deleted(now, index, ticket, (reports, left), None);
            }
            Work::Establish(prepared) => {
                let session = self.session_mut(index);
                let is_imported = session.is_some_and(|session| session.account.since.get().is_some());
                self.commit(now, index, ticket, *prepared, (Vec::new(), left, bounds));
                self.enter_start(now, index, is_imported);
            }
            Work::Modify(prepared) => {
                let reports = self.make_reports(index, |session| {
                    session.reports_of(now, &prepared, &counted, &ended)
                });
                if let Some(session) = self.session_mut(index) {
                    session.carry_rescaled(&prepared, &ended);
                }
                self.commit(now, index, ticket, *prepared, (reports, left, bounds));
            }
            Work::Supersede(prepared, seid) => {
                let all: Vec<_> = counted.iter().chain(&ended).copied().collect();
                self.enter_superseded(now, index, &all);
                let subscriber = prepared.subscriber.clone();
                let before = self
                    .session_mut(index)
                    .map(|session| Arc::clone(&session.live.rules));
                let anew = before.map_or_else(Vec::new, |before| rescaled(&before, &prepared.live.rules));
                let goes_on = |(urr, _): &(UrrId, UrrCount)| anew.iter().all(|(pool, _)| pool != urr);
                let inherited: Vec<_> = counted.into_iter().filter(goes_on).collect();
                self.take_over(now, index, seid, (&inherited, subscriber));
                self.commit(now, index, ticket, *prepared, (Vec::new(), left, bounds));
                self.enter_start(now, index, false);
            }
            Work::Export(how) => {
                let last = match how {
                    Export::Take => &ended,
                    Export::Copy => &counted,
                };
                let left = Left {
                    packets,
                    tokens,
                    dropped,
                };
                self.exported(now, index, ticket, how, (last, left));
            }
        }
    }

    /// The worker has refused it. A session that was to be set up, or to go, is gone all the same.
    fn fail(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        (ticket, work): (Ticket, Work),
        (fault, left): (WorkerFault, Vec<PacketRateStatus>),
    ) {
        match work {
            Work::Delete => self.deleted(now, index, ticket, (Vec::new(), left), None),
            Work::Modify(prepared) | Work::Supersede(prepared, _) => {
                self.let_go(now, index, &prepared.claimed, &prepared.addresses);
                self.refuse(ticket, refusal(fault));
            }
            Work::Export(how) => {
                self.refuse(ticket, refusal(fault));
                if how == Export::Take {
                    self.kill(index, EndCause::Fault);
                }
            }
            Work::Establish(prepared) => {
                // Of one that comes from another process, where it has left.
                self.enter_end(now, index, EndCause::Fault);
                self.let_go(now, index, &prepared.claimed, &prepared.addresses);
                let gone = self.forget(index);
                self.refuse(ticket, refusal(fault));
                if let Some(mut gone) = gone {
                    self.outlive(now, gone.association, gone.waiting.take());
                }
            }
        }
    }

    /// Makes the reports of a change that is done, of the session as it was before, and enters them. Not before it is
    /// done: what is reported to nobody is to be reported yet.
    fn make_reports(
        &mut self,
        index: SessionIndex,
        reports: impl FnOnce(&mut Session) -> Vec<UsageReport>,
    ) -> Vec<UsageReport> {
        let reports = self.session_mut(index).map(reports).unwrap_or_default();
        self.enter_reports(index, &reports);
        reports
    }

    /// What the change prepared is live now, and the requester is told.
    fn commit(
        &mut self,
        now: Nanos,
        index: SessionIndex,
        ticket: Ticket,
        prepared: Prepared,
        (usage, packets, bounds): (Vec<UsageReport>, Vec<PacketRateStatus>, Vec<Bounds>),
    ) {
        let Some(session) = self.session_mut(index) else {
            return;
        };
        let before = std::mem::take(&mut session.live);
        session.shared = prepared.shared;
        let urrs = prepared.live.rules.urrs();
        session.usage.close(&prepared.fresh);
        session
            .usage
            .update_with_bounds(now, urrs, &prepared.renewed, &bounds);
        session.account.since.begin(now.into());
        if let Some(subscriber) = prepared.subscriber {
            session.account.subscriber = Some(subscriber);
        }
        if let Some(cp) = prepared.cp {
            self.move_owner(index, cp);
        }
        let gone = before.without(&prepared.live);
        self.let_go(now, index, &gone.0, &gone.1);
        self.follow_remotes(index, &before, &prepared.live);
        let Some(session) = self.slots.get_mut(index.index()).and_then(Option::as_deref_mut) else {
            return;
        };
        session.live = prepared.live;
        let (seid, cp) = (session.seid, session.cp);
        self.store.store(SessionView::new(session));
        self.done(
            ticket,
            Done {
                seid,
                cp,
                created: prepared.created,
                assigned: prepared.assigned,
                usage,
                packets,
                record: None,
            },
        );
    }
}

impl Change {
    /// Keeps what a worker's answer to one operation says of the counters, and of packet rates.
    fn note(&mut self, role: Role, usage: Option<UsageSnapshot>) {
        let UsageSnapshot {
            counters,
            packets,
            tokens,
            dropped,
            ..
        } = usage.unwrap_or_default();
        if matches!(role, Role::Query | Role::Remove) {
            (self.packets, self.tokens, self.dropped) = (packets, tokens, dropped);
        }
        match role {
            Role::Query => self.counted = counters,
            Role::Fence => {}
            _ => self.ended = Some(counters),
        }
    }

    /// What went wrong, if the worker has done its part all the same and it must be undone; and whether the session is
    /// new.
    fn half_done(&self) -> Option<(WorkerFault, bool)> {
        let fault = self.fault.filter(|_| self.ended.is_some())?;
        match self.work {
            Work::Establish(_) => Some((fault, true)),
            Work::Modify(_) | Work::Supersede(..) => Some((fault, false)),
            Work::Delete | Work::Export(_) => None,
        }
    }
}

impl Session {
    /// The reports of a modification: of what was asked for, then of the URRs that it has taken away, then of those that
    /// are linked to these.
    fn reports_of(
        &mut self,
        now: Nanos,
        prepared: &Prepared,
        counted: &[(UrrId, UrrCount)],
        ended: &[(UrrId, UrrCount)],
    ) -> Vec<UsageReport> {
        let (rules, accounts) = (&self.live.rules, &mut self.usage);
        let mut reports = accounts.query(now, rules.urrs(), counted, &prepared.queried);
        let removed = ended.iter().filter_map(|(urr, count)| {
            let is_gone = prepared.live.rules.urr(*urr).is_none() || prepared.fresh.contains(urr);
            let urr = rules.urr(*urr).filter(|_| is_gone)?;
            Some(Counted { urr, count: *count })
        });
        let last = removed.filter_map(|one| accounts.report_if_any(now, one, UsageTriggers::TERMR));
        let last: Vec<UsageReport> = last.collect();
        let causes: Vec<UrrId> = last.iter().map(|report| report.urr).collect();
        reports.extend(last);
        if !prepared.ended.is_empty() && !causes.is_empty() {
            // Of those that end too the last is told already.
            let goes_on = |(urr, _): &&(UrrId, UrrCount)| !prepared.ended.contains(urr);
            let counted: Vec<_> = counted.iter().filter(goes_on).copied().collect();
            reports.extend(accounts.report_linked(now, rules.urrs(), &counted, &causes));
        }
        reports
    }

    /// The reports of a session that is deleted: of all its URRs.
    fn final_reports(&mut self, now: Nanos, ended: &[(UrrId, UrrCount)]) -> Vec<UsageReport> {
        let (rules, accounts) = (&self.live.rules, &mut self.usage);
        let all = rules.urrs().iter().map(|urr| {
            let found = ended.iter().find(|(id, _)| *id == urr.id);
            let count = found.map(|(_, count)| *count).unwrap_or_default();
            accounts.report(now, Counted { urr, count }, UsageTriggers::TERMR)
        });
        all.collect()
    }

    /// What is to be told of packet rates: those that a request asks for, or when the session is released those that
    /// are to be told of then (RCSR).
    fn statuses(&self, now: Nanos, work: &Work, left: &[PacketsLeft]) -> Vec<PacketRateStatus> {
        let rules = &self.live.rules;
        let reports = |qer| rules.qer(qer).is_some_and(|qer| qer.reports_rate);
        match work {
            Work::Modify(prepared) => {
                statuses(now, rules, left, |qer| prepared.queried_packets.contains(&qer))
            }
            Work::Delete => statuses(now, rules, left, reports),
            _ => Vec::new(),
        }
    }

    /// Keeps what credit pools counted whose counters count in other units from now on (their multipliers have changed).
    fn carry_rescaled(&mut self, prepared: &Prepared, ended: &[(UrrId, UrrCount)]) {
        let pools = rescaled(&self.live.rules, &prepared.live.rules);
        for (urr, count) in ended {
            if pools.iter().any(|(pool, _)| pool == urr) && !prepared.fresh.contains(urr) {
                self.usage.carry(*urr, *count);
            }
        }
    }

    /// Keeps what credit pools counted in these units, of a change that was taken back.
    fn add_rescaled(&mut self, units: &[(UrrId, u64)], left: Option<UsageSnapshot>) {
        let counters = left.map(|usage| usage.counters).unwrap_or_default();
        for (urr, count) in counters {
            if let Some((_, unit)) = units.iter().find(|(pool, _)| *pool == urr) {
                self.usage.add_in(urr, count, *unit);
            }
        }
    }

    /// Keeps what URRs counted in another worker than the one whose count the accounts follows.
    pub(crate) fn add(&mut self, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let counters = result.ok().flatten().map(|usage| usage.counters);
        for (urr, count) in counters.into_iter().flatten() {
            self.usage.add(urr, count);
        }
    }

    /// Keeps what URRs counted whose slots are gone: a change, given up since, took them away late, or the session went
    /// to another worker.
    pub(crate) fn carry(&mut self, result: Result<Option<UsageSnapshot>, WorkerFault>) {
        let counters = result.ok().flatten().map(|usage| usage.counters);
        self.carry_counts(&counters.unwrap_or_default());
    }

    /// The same, of the counts themselves.
    pub(crate) fn carry_counts(&mut self, ended: &[(UrrId, UrrCount)]) {
        for (urr, count) in ended {
            self.usage.carry(*urr, *count);
        }
    }
}

/// The URRs of both whose counters count in other units in `next`, and in which.
pub(crate) fn rescaled(live: &SessionRules, next: &SessionRules) -> Vec<(UrrId, u64)> {
    let both = live
        .urrs()
        .iter()
        .filter_map(|old| Some((old, next.urr(old.id)?)));
    let changed = both.filter(|(old, new)| old.unit() != new.unit());
    changed.map(|(_, new)| (new.id, new.unit())).collect()
}

fn refusal(fault: WorkerFault) -> Refusal {
    match fault {
        WorkerFault::NoSpace => Refusal::NoResources,
        WorkerFault::Failed => Refusal::Worker,
    }
}
