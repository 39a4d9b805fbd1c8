//! The inspections of a time, as many as there is room for, and the parts of messages that these keep.
//!
//! Each session has its share. Where all sessions together leave no room, others give way, so that a flood makes
//! inspections short and keeps none from beginning: the one that began first for another flow, and for the parts of a
//! message that of a session that has many of those.

use dpi::{FlowIndex, Found, Inspector, Layer4, NotOpened, Sender, Settings, Transport, Verdict};
use flow::{Nanos, SessionIndex};

use super::flow_records::{FlowRecords, FlowState, Notes, RecordPlace, Requests};
use super::looks::Looks;
use crate::stats::Stats;

/// The inspections of the flows of records. What ends one is noted in its record.
pub(super) struct Inspections {
    inspector: Inspector,
}

impl Inspections {
    pub(super) fn new(settings: Settings) -> Self {
        Self {
            inspector: Inspector::new(settings),
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.inspector.flows() as usize
    }

    /// Begins one for a session's record, if there is room.
    pub(super) fn open(
        &mut self,
        (records, RecordPlace(token)): (&mut FlowRecords, RecordPlace),
        session: SessionIndex,
        transport: Transport,
        now: Nanos,
        stats: &mut Stats,
    ) -> Option<FlowIndex> {
        let mut opened = self.inspector.open(session.0, token, transport, now.0);
        if opened == Err(NotOpened::NoState)
            && let Some(oldest) = self.inspector.close_oldest()
        {
            end_undetected(records, oldest, stats);
            opened = self.inspector.open(session.0, token, transport, now.0);
        }
        match opened {
            Ok(_) => stats.inspections += 1,
            Err(_) => stats.inspections_refused += 1,
        }
        opened.ok()
    }

    /// Says at which sequence number a request begins that is to be found.
    pub(super) fn start_at(&mut self, flow: FlowIndex, sequence: u32) {
        self.inspector.start_at(flow, sequence);
    }

    /// Looks at a packet of a flow.
    pub(super) fn inspect(
        &mut self,
        flow: FlowIndex,
        (sender, layer4): (Sender, &Layer4<'_>),
        records: &mut FlowRecords,
        stats: &mut Stats,
    ) -> Verdict<'_> {
        let may_need_room = sender == Sender::Initiator && !layer4.payload().is_empty();
        if may_need_room && let Some(other) = self.inspector.make_room_for(flow) {
            end_undetected(records, other, stats);
        }
        self.inspector.inspect(flow, sender, layer4)
    }

    /// Whether what has come of a flow begins a message that names a host, or may belong to one.
    pub(super) fn has_begun(&self, flow: FlowIndex) -> bool {
        self.inspector.has_begun(flow)
    }

    /// What was found last.
    pub(super) fn found(&self) -> &Found {
        self.inspector.found()
    }

    /// Ends one without a verdict: its flow is over.
    pub(super) fn close(&mut self, flow: FlowIndex) {
        self.inspector.close(flow);
    }

    /// Ends those that have taken too long.
    pub(super) fn expire(&mut self, records: &mut FlowRecords, now: Nanos, stats: &mut Stats) {
        while let Some(token) = self.inspector.expire(now.0) {
            end_undetected(records, token, stats);
        }
    }
}

/// The inspection of a record's flow, or of a request in it, has ended before anything was found.
fn end_undetected(records: &mut FlowRecords, token: u32, stats: &mut Stats) {
    let Some(own) = records.at_mut(RecordPlace(token)) else {
        return;
    };
    own.state = match own.state {
        FlowState::Undecided(looks) => FlowState::after(Looks { own: None, ..looks }, stats),
        FlowState::Requests(Requests { host, .. }) => {
            // The request whose head has come in part may be for another host.
            own.notes.set(Notes::HAS_LOST_REQUEST, true);
            FlowState::Requests(Requests {
                host,
                ..Requests::default()
            })
        }
        other => other,
    };
}
