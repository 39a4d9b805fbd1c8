//! Session Report Requests and Node Report Requests: events and usage of sessions, and GTP-U paths of the node.

use flow::Nanos;
use session::{AssociationId, ReportedSession, Unreported};

use crate::endpoint_state::Shared;
use crate::node_reports::NodeReports;
use crate::session_reports::SessionReports;

/// All reports.
#[derive(Debug)]
pub(crate) struct Reporting {
    pub(crate) sessions: SessionReports,
    pub(crate) nodes: NodeReports,
}

impl Reporting {
    /// An association has ended, and its sessions with it. Usage reports of them that were not acknowledged count as
    /// unanswered.
    pub(crate) fn end_association(&mut self, shared: &mut Shared, now: Nanos, association: AssociationId) {
        self.nodes.end(association);
        for (seid, unsent) in self.sessions.outbox.end_association(association) {
            shared.counters.events_dropped += 1;
            let owner = ReportedSession {
                seid,
                association,
                cp: None,
            };
            shared.usage_unaccepted(now, owner, &unsent.usage, Unreported::Unanswered);
            shared.report_over(seid);
        }
        let sessions = &shared.sessions;
        self.sessions
            .downlink
            .retain(|seid| sessions.session(seid).is_some());
    }
}
