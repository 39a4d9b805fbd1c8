//! Sessions that leave for another process.
//!
//! An export is a request like any other: it waits for those before it and for a move of the session's bucket, so that
//! a record never has half a change. What the session counted is the worker's answer to the same command that ends it
//! there ([`Export::Take`]): every packet was counted before, or finds no session.

use flow::{Nanos, SessionIndex, UrrCount};
use nat::mappings::MovedMapping;
use rules::image::{DroppedCount, PacketsLeft, TokensLeft};
use rules::model::UrrId;

use crate::change_context::ChangeContext;
use crate::ids::Ticket;
use crate::outcome::Done;
use crate::queued_request::Export;
use crate::record::{PendingReports, SessionRecord};
use crate::release::{FollowUp, LastReports, deleted};
use crate::session::Session;
use crate::sets::Sets;

/// The state of a session's rates and counts of dropped packets in its worker.
pub(crate) struct RateState {
    pub(crate) packets: Vec<PacketsLeft>,
    pub(crate) tokens: Vec<TokensLeft>,
    pub(crate) dropped: Vec<DroppedCount>,
    pub(crate) mappings: Vec<MovedMapping>,
}

/// The workers have done what an export needs.
pub(crate) fn exported(
    context: &mut ChangeContext,
    now: Nanos,
    index: SessionIndex,
    ticket: Ticket,
    how: Export,
    counted: &[(UrrId, UrrCount)],
    rates: RateState,
) -> FollowUp {
    let Some(session) = context.table.get_mut(index) else {
        return FollowUp::Nothing;
    };
    let mut record = record(session, counted);
    record.port_blocks = context.port_blocks.blocks_of(index).collect();
    record.mappings = rates.mappings;
    (record.packets, record.tokens, record.dropped) = (rates.packets, rates.tokens, rates.dropped);
    let record = Some((session.association, Box::new(record)));
    let (seid, cp) = (session.seid, session.cp);
    match how {
        Export::Take => {
            context.usage_records.enter_left(now, session);
            deleted(context, now, index, ticket, LastReports::default(), record)
        }
        Export::Copy => {
            let done = Done {
                record,
                ..Done::of(seid, cp)
            };
            context.done(ticket, done);
            FollowUp::Nothing
        }
    }
}

/// The session as a record, without its port blocks; `counted` is what its worker's slots have counted.
pub(crate) fn record(session: &Session, counted: &[(UrrId, UrrCount)]) -> SessionRecord {
    SessionRecord {
        association: Vec::new(),
        seid: session.seid,
        cp: session.cp,
        bucket: session.bucket,
        sets: Sets::clone(&session.sets),
        rules: session.live.rules.clone(),
        leases: session.live.leases.to_vec(),
        shared: session.shared.clone(),
        checkpoints: session.usage.checkpoints(counted),
        accounting: session.accounting.clone(),
        packets: Vec::new(),
        tokens: Vec::new(),
        dropped: Vec::new(),
        port_blocks: Vec::new(),
        mappings: Vec::new(),
        pending: PendingReports::default(),
    }
}
