//! From a prepared change to its outcome: commands to the workers, their answers, the response.
//!
//! A change that is given up is followed by its undoing on the same worker: a Remove after an Install, a Replace by
//! what is live after a Replace. Workers apply in order, so that a late confirmation leaves no session behind.

use flow::{Bounds, Nanos, SessionIndex, UrrCount};
use rules::image::{SessionChange, SessionImage, UsageSnapshot};
use rules::model::UrrId;
use rules::worker_selection::WorkerSelectionChange;
use std::sync::Arc;
use usage::{UsageAccounts, UsageReport};

use crate::change_context::ChangeContext;
use crate::commands::{Op, Role};
use crate::effect::WorkerFault;
use crate::export::{RateState, exported};
use crate::ids::{Seid, Ticket};
use crate::live_session::rescaled;
use crate::outcome::Done;
use crate::packet_rate::PacketRateStatus;
use crate::pending_change::{Change, Prepared, State, Work};
use crate::port_block_changes::{first_block, provide};
use crate::queued_request::{Export, Request};
use crate::refusal::Refusal;
use crate::release::{
    FollowUp, LastReports, deleted, drop_because, drop_session, forget, let_go, removal_confirmed, roll_back,
    rolled_back,
};
use crate::resources::Held;
use crate::session::Session;
use crate::session_accounting::{SessionAccounting, Subscriber};
use crate::usage_record_entry::EndCause;
use crate::worker_selection_keys::keys;
use rules::boxed_option::BoxedOption;

/// Sends the change in progress to the workers; it is done at once if there is nothing to send.
pub(crate) fn apply(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    image: Option<Box<SessionImage>>,
) -> FollowUp {
    let commands = &mut context.commands;
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    let (bucket, worker) = (session.bucket, commands.buckets.owner(session.bucket));
    let State::Changing(change) = &mut session.state else {
        return FollowUp::Nothing;
    };
    let (id, role) = (change.id, change.work.role());
    let op = |role| Op::new(index, id, role);
    let prepared = change.work.prepared();
    let mut pending = 0;
    if role == Role::Query || prepared.is_some_and(Prepared::asks_for_counts) {
        commands.query(op(Role::Query), worker);
        pending += 1;
    }
    let immediate = || prepared.map(|prepared| prepared.immediate.clone());
    let sent = match role {
        Role::Remove => Some(SessionChange::Remove(index)),
        Role::Install => image.map(SessionChange::Install),
        _ => image.map(|image| SessionChange::Replace(image, immediate().unwrap_or_default())),
    };
    if let Some(sent) = sent {
        commands.apply(op(role), worker, sent);
        pending += 1;
    }
    let bucket = commands.buckets.with_exceptions(bucket);
    let exceptions = prepared.zip(bucket).map(|(prepared, bucket)| {
        let keys = keys(&prepared.claimed, &prepared.addresses);
        let keys = keys.filter(|key| key.needs_exception(bucket));
        let add = |key| WorkerSelectionChange::Exception {
            key,
            bucket: Some(bucket),
        };
        keys.map(add).collect::<Vec<_>>()
    });
    if let Some(exceptions) = exceptions.filter(|exceptions| !exceptions.is_empty()) {
        commands.select_workers(&exceptions);
        pending += commands.fence(op(Role::Fence));
    }
    change.pending = pending;
    finish_if_complete(context, now, index, id)
}

/// A worker has answered an operation of a change, a rollback or a removal. A session whose worker cannot even go back
/// to what it ran is removed: better none than one with rules that the response said do not apply. Late answers only
/// matter for the usage that they have.
pub(crate) fn handle_answer(
    context: &mut ChangeContext,
    now: Nanos,
    op: Op,
    result: Result<Option<UsageSnapshot>, WorkerFault>,
) -> FollowUp {
    let index = op.session;
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    match &mut session.state {
        State::Changing(change) if change.id == op.change => {
            change.pending = change.pending.saturating_sub(1);
            match result {
                Ok(usage) => change.note(op.role, usage),
                Err(fault) => change.fault = Some(fault),
            }
            return finish_if_complete(context, now, index, op.change);
        }
        State::RollingBack(back) if back.id == op.change && op.role == Role::Replace => match result {
            Ok(left) => {
                let units = std::mem::take(&mut back.units);
                session.add_rescaled(&units, left);
                return rolled_back(context, now, index);
            }
            Err(_) => drop_session(context, index, EndCause::Fault),
        },
        State::Dying(dying) if dying.id == op.change => {
            if let (Some(accounting), Ok(Some(usage))) = (&mut dying.accounting, result) {
                accounting.add(usage);
            }
            dying.pending = dying.pending.saturating_sub(1);
            if dying.pending == 0 {
                removal_confirmed(context, now, index);
            }
        }
        State::RollingBack(_) | State::Dying(_) if op.role == Role::Replace => session.carry(result),
        _ => {}
    }
    FollowUp::Nothing
}

/// Draws the consequences once all operations of the change are answered.
fn finish_if_complete(context: &mut ChangeContext, now: Nanos, index: SessionIndex, id: u64) -> FollowUp {
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    let Some(change) = session.change(id).filter(|change| change.pending == 0) else {
        return FollowUp::Nothing;
    };
    if let Some((fault, is_new)) = change.half_done() {
        if is_new {
            drop_because(context, index, refusal(fault), EndCause::Fault);
            return FollowUp::Nothing;
        }
        let is_following = change.ticket == Ticket::RECOMPILATION;
        if is_following {
            context.follow_network_alone(index);
        }
        return roll_back(context, index, refusal(fault));
    }
    let State::Changing(change) = std::mem::replace(&mut session.state, State::Settled) else {
        return FollowUp::Nothing;
    };
    let packets = session.statuses(now, &change.work, &change.packets);
    let follow_up = match change.fault {
        None => succeed(context, now, index, *change, packets),
        Some(fault) => {
            let Change { ticket, work, .. } = *change;
            fail(context, now, index, Failed { ticket, work, fault }, packets)
        }
    };
    context.refresh_usage(now, index, false);
    match follow_up {
        FollowUp::Nothing => FollowUp::Next(index),
        other => other,
    }
}

/// All is done.
fn succeed(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    change: Change,
    packets: Vec<PacketRateStatus>,
) -> FollowUp {
    let Change {
        ticket,
        work,
        counted,
        ended,
        packets: packets_left,
        tokens,
        dropped,
        mappings,
        bounds,
        ..
    } = change;
    let ended = ended.unwrap_or_default();
    let response = |usage, packets| Response {
        ticket,
        usage,
        packets,
        bounds,
    };
    match work {
        Work::Delete => {
            let usage = context.make_reports(index, |session| session.final_reports(now, &ended));
            return deleted(context, now, index, ticket, LastReports { usage, packets }, None);
        }
        Work::Establish(prepared) => {
            let session = context.table.get(index);
            let is_imported = session.is_some_and(|session| session.accounting.since.get().is_some());
            commit(context, now, index, *prepared, response(Vec::new(), packets));
            enter_start(context, now, index, is_imported);
        }
        Work::Modify(prepared) => {
            let reports = |session: &mut Session| session.reports_of(now, &prepared, &counted, &ended);
            let usage = context.make_reports(index, reports);
            if let Some(session) = context.table.get_mut(index) {
                session.carry_rescaled(&prepared, &ended);
            }
            commit(context, now, index, *prepared, response(usage, packets));
        }
        Work::Supersede(prepared, seid) => {
            let all: Vec<_> = counted.iter().chain(&ended).copied().collect();
            if let Some(session) = context.table.get_mut(index) {
                context.usage_records.enter_superseded(now, session, &all);
                let changed = rescaled(&session.live.rules, &prepared.live.rules);
                let is_same_unit = |(urr, _): &(UrrId, UrrCount)| changed.iter().all(|(pool, _)| pool != urr);
                let inherited: Vec<_> = counted.into_iter().filter(is_same_unit).collect();
                let subscriber = prepared.subscriber.clone();
                take_over(context, now, index, seid, &inherited, subscriber);
            }
            commit(context, now, index, *prepared, response(Vec::new(), packets));
            enter_start(context, now, index, false);
        }
        Work::Export(how) => {
            let last = match how {
                Export::Take => &ended,
                Export::Copy => &counted,
            };
            let rates = RateState {
                packets: packets_left,
                tokens,
                dropped,
                mappings,
            };
            return exported(context, now, index, ticket, how, last, rates);
        }
    }
    FollowUp::Nothing
}

/// A change that the worker has refused.
struct Failed {
    ticket: Ticket,
    work: Work,
    fault: WorkerFault,
}

/// The worker has refused it. A session that was to be established, or to end, is gone all the same.
fn fail(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    Failed { ticket, work, fault }: Failed,
    packets: Vec<PacketRateStatus>,
) -> FollowUp {
    match work {
        Work::Delete => {
            let last = LastReports {
                usage: Vec::new(),
                packets,
            };
            deleted(context, now, index, ticket, last, None)
        }
        Work::Modify(prepared) | Work::Supersede(prepared, _) => {
            let_go(context, now, index, held(&prepared));
            if ticket == Ticket::RECOMPILATION {
                context.follow_network_alone(index);
            }
            context.refuse(ticket, refusal(fault));
            FollowUp::Nothing
        }
        Work::Export(how) => {
            context.refuse(ticket, refusal(fault));
            if how == Export::Take {
                drop_session(context, index, EndCause::Fault);
            }
            FollowUp::Nothing
        }
        Work::Establish(prepared) => {
            // Of one that comes from another process, where it has left.
            if let Some(session) = context.table.get_mut(index) {
                context.usage_records.enter_end(now, session, EndCause::Fault);
            }
            let_go(context, now, index, held(&prepared));
            let gone = forget(context, now, index);
            context.refuse(ticket, refusal(fault));
            let orphaned = gone.map(|mut gone| FollowUp::Orphaned {
                association: gone.association,
                requests: gone.waiting.take(),
            });
            orphaned.unwrap_or_default()
        }
    }
}

/// What the response to a change has, beside what was prepared.
struct Response {
    ticket: Ticket,
    usage: Vec<UsageReport>,
    packets: Vec<PacketRateStatus>,
    bounds: Vec<Bounds>,
}

/// What the change prepared is live now, and the response is made.
fn commit(context: &mut ChangeContext, now: Nanos, index: SessionIndex, prepared: Prepared, with: Response) {
    let Response {
        ticket,
        usage,
        packets,
        bounds,
    } = with;
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    let before = std::mem::take(&mut session.live);
    session.shared = prepared.shared;
    let urrs = prepared.live.rules.urrs();
    session.usage.close(&prepared.fresh);
    session
        .usage
        .update_with_bounds(now, urrs, &prepared.renewed, &bounds);
    session.accounting.since.begin(now.into());
    if let Some(subscriber) = prepared.subscriber {
        context.table.set_subscriber(index, Some(subscriber));
    }
    if let Some(cp) = prepared.cp {
        context.table.change_cp_f_seid(index, cp);
    }
    let (tunnels, addresses) = before.without(&prepared.live);
    let_go(context, now, index, Held::of(&tunnels, &addresses));
    context.table.update_remotes(index, &before, &prepared.live);
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    let asks = before.rules.chosen_nat() != prepared.live.rules.chosen_nat();
    session.live = prepared.live;
    if !prepared.is_kept {
        context.journal.mark(session.seid);
    }
    let has_changed = provide(context, index, now);
    let port_block = has_changed.or_else(|| first_block(context, index).filter(|_| asks));
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    let done = Done {
        port_block,
        created: prepared.created,
        assigned: prepared.assigned,
        usage,
        packets,
        ..Done::of(session.seid, session.cp)
    };
    context.done(ticket, done);
}

/// The worker runs the successor: it gets its SEID, and requests that wait for the old session are refused.
fn take_over(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    seid: Seid,
    inherited: &[(UrrId, UrrCount)],
    subscriber: Option<Arc<Subscriber>>,
) {
    let setting = context.usage_measurement.setting();
    let Some(old) = context.table.change_seid(index, seid) else {
        return;
    };
    context.table.set_subscriber(index, subscriber.clone());
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    session.usage = UsageAccounts::beginning_at(inherited, now, setting);
    session.sets = BoxedOption::NONE;
    session.accounting = SessionAccounting::of(subscriber);
    let meant_old =
        session.take_waiting(|request| !matches!(request, Request::Supersede { .. } | Request::Recompile));
    context.journal.mark(old);
    for waiting in &meant_old {
        context.refuse(waiting.ticket, Refusal::NotFound);
    }
}

fn enter_start(context: &mut ChangeContext, now: Nanos, index: SessionIndex, is_imported: bool) {
    if let Some(session) = context.table.get_mut(index) {
        context.usage_records.enter_start(now, session, is_imported);
    }
}

/// What a change took.
fn held(prepared: &Prepared) -> Held<'_> {
    Held::of(&prepared.claimed, &prepared.addresses)
}

fn refusal(fault: WorkerFault) -> Refusal {
    match fault {
        WorkerFault::NoSpace => Refusal::NoResources,
        WorkerFault::Failed => Refusal::Worker,
    }
}
