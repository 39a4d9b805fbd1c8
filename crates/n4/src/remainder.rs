//! More usage reports than one response takes (TS 29.244 §5.2.2.3.1): the response says how many follow, and they do,
//! in Session Report Requests. Those of a live session go the way of all its reports; those of a session that has
//! ended, to a control plane that waits for them (ARDR), at once, the last with the word that it was the last (PSDBU).

use flow::Nanos;
use pfcp::Repeated;
use pfcp::ie::{AdditionalUsageReportsInformation, CpFunctionFeatures, PfcpSrReqFlags, ReportType};
use pfcp::message::SessionReportRequest;
use session::{AssociationId, CpFSeid, Seid, Unreported, UsageReport};

use crate::endpoint::Endpoint;
use crate::own_requests::Purpose;
use crate::report_outbox::MOST_USAGE_SENT;
use crate::usage_reports::{dated, parts, session_report};

/// What goes into a response, and what follows on it.
pub(crate) fn split(usage: &[UsageReport]) -> (&[UsageReport], &[UsageReport]) {
    usage.split_at(usage.len().min(MOST_USAGE_SENT))
}

/// What a response says of the reports that follow on it. They are fewer than 32,768: a session has 64 URRs.
pub(crate) fn announced(
    following: &[UsageReport],
    reads_information: bool,
) -> Option<AdditionalUsageReportsInformation> {
    let told = following.iter().flat_map(|one| parts(one, reads_information));
    let count = told.count();
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    (count > 0).then_some(AdditionalUsageReportsInformation::Count(count))
}

impl Endpoint {
    /// Whether the control plane takes usage of a session after it has ended the session.
    pub(crate) fn waits_for_usage(&self, association: Option<AssociationId>) -> bool {
        let association = association.and_then(|id| self.associations.get(id));
        association.is_some_and(|one| one.features.contains(CpFunctionFeatures::ARDR))
    }

    /// Sends what follows on a Session Deletion Response to the control plane that `cp` was of.
    pub(crate) fn send_remainder(
        &mut self,
        now: Nanos,
        seid: Seid,
        (association, cp): (Option<AssociationId>, CpFSeid),
        following: &[UsageReport],
    ) {
        let Some(owner) = association.filter(|_| !following.is_empty()) else {
            return;
        };
        let association = self.associations.get(owner);
        let Some(route) = association.and_then(|association| self.owner_route(association, cp)) else {
            self.counters.events_dropped += 1;
            let of = (seid, owner, Some(cp));
            return self.not_taken(now, of, following, Unreported::Unanswered);
        };
        let clock = self.sessions.wall().clone();
        let reads_information = self.config.reads_usage_information(route.path.from.ip());
        let mut messages = following.chunks(MOST_USAGE_SENT).peekable();
        while let Some(part) = messages.next() {
            let usage = dated(part, &clock, reads_information);
            let usage: Vec<_> = usage
                .iter()
                .map(|one| session_report(one, &clock, None))
                .collect();
            let mut report = SessionReportRequest::new(ReportType::USAR);
            report.usage_report = Repeated::new(&usage);
            report.pfcpsrreq_flags = messages.peek().is_none().then_some(PfcpSrReqFlags::PSDBU);
            let kept = self.ledger.keep((seid, owner, cp), part);
            let purpose = Purpose::Remainder(kept);
            self.send_request(now, route.path, Some(route.seid), purpose, &report);
        }
    }
}
