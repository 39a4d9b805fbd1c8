//! How sessions end and how changes are given up: deletion, removal by the user plane, rollback.

use flow::{Nanos, SessionIndex};
use rules::image::{ImmediateActions, SessionChange};
use std::collections::VecDeque;
use usage::UsageReport;

use crate::change_context::ChangeContext;
use crate::commands::{Op, Role};
use crate::final_accounting::FinalAccounting;
use crate::ids::{AssociationId, Ticket};
use crate::live_session::{Live, rescaled};
use crate::outcome::Done;
use crate::packet_rate::PacketRateStatus;
use crate::pending_change::{Change, Dying, RollingBack, State, Work};
use crate::port_block_changes;
use crate::queued_request::{Export, Waiting};
use crate::record::SessionRecord;
use crate::refusal::Refusal;
use crate::resources::Held;
use crate::session::Session;
use crate::tunnels::Tunnel;
use crate::ue_addresses::UeAddress;
use crate::usage_record_entry::EndCause;

/// What is to be done when a change is over.
#[derive(Debug, Default)]
#[must_use]
pub(crate) enum FollowUp {
    /// Nothing.
    #[default]
    Nothing,
    /// The session's next request.
    Next(SessionIndex),
    /// Requests that waited for a session that is gone.
    Orphaned {
        association: AssociationId,
        requests: VecDeque<Waiting>,
    },
}

/// What the response to a deletion has.
#[derive(Debug, Default)]
pub(crate) struct LastReports {
    pub(crate) usage: Vec<UsageReport>,
    pub(crate) packets: Vec<PacketRateStatus>,
}

/// Gives a modification or a successor up and brings the worker back to what is live.
pub(crate) fn roll_back(context: &mut ChangeContext, index: SessionIndex, refusal: Refusal) -> FollowUp {
    let id = context.commands.new_change();
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    let State::Changing(change) = std::mem::replace(&mut session.state, State::Settled) else {
        return FollowUp::Nothing;
    };
    let Change {
        ticket,
        sent,
        ended,
        work: Work::Modify(prepared) | Work::Supersede(prepared, _),
        ..
    } = *change
    else {
        return FollowUp::Nothing;
    };
    if sent {
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
    }
    let bucket = session.bucket;
    context.refuse(ticket, refusal);
    if !sent {
        return FollowUp::Next(index);
    }
    match context.image_of(index) {
        Some(image) => {
            let op = Op::new(index, id, Role::Replace);
            let worker = context.commands.buckets.owner(bucket);
            let change = SessionChange::Replace(image, ImmediateActions::default());
            context.commands.apply(op, worker, change);
        }
        None => drop_session(context, index, EndCause::Fault),
    }
    FollowUp::Nothing
}

/// The worker runs what is live again.
pub(crate) fn rolled_back(context: &mut ChangeContext, now: Nanos, index: SessionIndex) -> FollowUp {
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    let State::RollingBack(back) = std::mem::replace(&mut session.state, State::Settled) else {
        return FollowUp::Nothing;
    };
    let_go(context, now, index, Held::of(&back.claimed, &back.addresses));
    port_block_changes::give_again(context, index, now);
    context.refresh_usage(now, index, true);
    FollowUp::Next(index)
}

/// The request to delete is done, or that to hand the session over by this record.
pub(crate) fn deleted(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    ticket: Ticket,
    last: LastReports,
    record: Option<(AssociationId, Box<SessionRecord>)>,
) -> FollowUp {
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    if record.is_none() {
        context.usage_records.enter_end(now, session, EndCause::Deleted);
    }
    let (seid, cp, live) = (session.seid, session.cp, std::mem::take(&mut session.live));
    let (association, requests) = (session.association, session.waiting.take());
    context.table.update_remotes(index, &live, &Live::default());
    let_go(
        context,
        now,
        index,
        Held::of(&live.tunnels.get(), &live.addresses.get()),
    );
    forget(context, now, index);
    context.journal.mark(seid);
    let done = Done {
        usage: last.usage,
        packets: last.packets,
        record,
        ..Done::of(seid, cp)
    };
    context.done(ticket, done);
    FollowUp::Orphaned {
        association,
        requests,
    }
}

/// Removes a session without a request of its control plane.
pub(crate) fn drop_session(context: &mut ChangeContext, index: SessionIndex, cause: EndCause) {
    drop_because(context, index, Refusal::Gone, cause);
}

/// Removes a session and refuses what is in progress or waits. Other sessions may have its tunnels and addresses from
/// now on; its index is free when the workers have confirmed.
pub(crate) fn drop_because(
    context: &mut ChangeContext,
    index: SessionIndex,
    refusal: Refusal,
    cause: EndCause,
) {
    let id = context.commands.new_change();
    let is_entered = context.usage_records.is_enabled();
    let ChangeContext {
        table,
        resources,
        commands,
        ..
    } = context;
    let Some(session) = table.live_mut(index) else {
        return;
    };
    let ended = end(session, id, is_entered.then_some(cause));
    let (seid, bucket, association) = (session.seid, session.bucket, session.association);
    let other = session.other_owner(&commands.buckets);
    if let (Some(other), State::Dying(dying)) = (other, &mut session.state) {
        dying.pending += 1;
        let counts = session.counts().of_one_worker();
        resources.quotas.remove(session.charged_to, other, counts);
    }
    let charged = session.counts();
    resources.discharge(session, &commands.buckets, charged);
    let held = Held::of(&ended.tunnels, &ended.addresses);
    let exceptions = resources.ended_exceptions(session, &commands.buckets, held);
    commands.select_workers(&exceptions);
    table.count_dying(association);
    table.update_remotes(index, &ended.live, &Live::default());
    unlink(context, index);
    context.journal.mark(seid);
    for ticket in &ended.tickets {
        context.refuse(*ticket, refusal);
    }
    let op = Op::new(index, id, Role::Remove);
    let owner = context.commands.buckets.owner(bucket);
    for worker in Some(owner)
        .filter(|_| !ended.removal_sent)
        .into_iter()
        .chain(other)
    {
        context.commands.apply(op, worker, SessionChange::Remove(index));
    }
}

/// The workers have confirmed the removal of a session that the user plane removed.
pub(crate) fn removal_confirmed(context: &mut ChangeContext, now: Nanos, index: SessionIndex) {
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    let association = session.association;
    if let State::Dying(dying) = std::mem::replace(&mut session.state, State::Settled) {
        if let Some(accounting) = &dying.accounting {
            context.usage_records.enter_final(now, session, accounting);
        }
        let held = Held::of(&dying.tunnels, &dying.addresses);
        context
            .resources
            .free(now, session, &context.commands.buckets, held);
        context.table.count_removed(association);
        clear(context, now, index);
    }
}

/// Removes the worker selection exceptions of these tunnels and addresses, and frees them.
pub(crate) fn let_go(context: &mut ChangeContext, now: Nanos, index: SessionIndex, held: Held<'_>) {
    let ChangeContext {
        table,
        resources,
        commands,
        ..
    } = context;
    let Some(session) = table.get_mut(index) else {
        return;
    };
    let exceptions = resources.ended_exceptions(session, &commands.buckets, held);
    commands.select_workers(&exceptions);
    resources.free(now, session, &commands.buckets, held);
}

/// Forgets a session that no worker has any more. Answers what it was.
pub(crate) fn forget(context: &mut ChangeContext, now: Nanos, index: SessionIndex) -> Option<Box<Session>> {
    unlink(context, index);
    clear(context, now, index)
}

/// Peers can address the session no more.
fn unlink(context: &mut ChangeContext, index: SessionIndex) {
    let Some(session) = context.table.get_mut(index) else {
        return;
    };
    context.usage_measurement.forget(session);
    context.resources.quotas.remove_session(session.association);
    context.table.unlink(index);
}

fn clear(context: &mut ChangeContext, now: Nanos, index: SessionIndex) -> Option<Box<Session>> {
    port_block_changes::release(context, index, None, now);
    let gone = context.table.clear(index);
    if gone.is_some() {
        context.resources.correlations.leave_all(index);
    }
    gone
}

/// What a session leaves behind.
struct Ended {
    live: Live,
    tunnels: Vec<Tunnel>,
    addresses: Vec<UeAddress>,
    /// Requests that are to be refused.
    tickets: Vec<Ticket>,
    /// Whether a Remove is sent already.
    removal_sent: bool,
}

/// Turns a session to dying, under the number `id`, or that of a removal in progress. With a cause, its final
/// accounting is made.
fn end(session: &mut Session, id: u64, entered: Option<EndCause>) -> Ended {
    let accounting = |cause| {
        Box::new(FinalAccounting::new(
            cause,
            &session.live.rules,
            &session.live.addresses.get(),
        ))
    };
    let accounting = entered
        .filter(|_| session.accounting.since.get().is_some())
        .map(accounting);
    let live = std::mem::take(&mut session.live);
    let (mut tunnels, mut addresses) = (live.tunnels.get().into_vec(), live.addresses.get().into_vec());
    if let State::Changing(change) = &mut session.state {
        let ended = change.ended.take();
        session.carry_counts(&ended.unwrap_or_default());
    }
    let waiting = session.waiting.take();
    let mut tickets: Vec<Ticket> = waiting.iter().map(|waiting| waiting.ticket).collect();
    let mut removal = None;
    match std::mem::replace(&mut session.state, State::Settled) {
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
    session.state = State::Dying(Box::new(Dying {
        id: removal.unwrap_or(id),
        pending: 1,
        tunnels: tunnels.clone(),
        addresses: addresses.clone(),
        accounting,
    }));
    Ended {
        live,
        tunnels,
        addresses,
        tickets,
        removal_sent: removal.is_some(),
    }
}
