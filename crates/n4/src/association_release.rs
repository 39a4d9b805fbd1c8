//! The end of an association in order, begun by either side (TS 29.244 §5.18, §6.2.7.3).
//!
//! With a peer that knows it (EPFAR) every session ends at our side: its last usage that is not zero goes to the peer
//! in Session Report Requests, the last of which says that the session is gone (PSDBU); when all are acknowledged the
//! peer receives that (URSS), and has a time to release the association. Another peer is asked to release it within a
//! period (SARR), and deletes the sessions itself. A peer that refuses, is silent or takes too long is left behind: the
//! association ends as if it had released it. Meanwhile no session is begun.

use flow::Nanos;
use pfcp::ie::{
    CpFunctionFeatures, GracefulReleasePeriod, PfcpAssociationReleaseRequest, PfcpAuReqFlags, PfcpSrReqFlags,
    ReportType,
};
use pfcp::message::{AssociationUpdateRequest, AssociationUpdateResponse, Body, SessionReportRequest};
use pfcp::{Frame, Repeated};
use session::{
    AssociationId, Done, EndCause, PacketRateStatus, Refusal, ReportedSession, Seid, Unreported, UsageReport,
};
use std::time::Duration;

use crate::association_control::{AssociationControl, Ended};
use crate::endpoint_state::Shared;
use crate::event_log::AssociationEnd;
use crate::ie_addresses::f_seid;
use crate::last_usage::OnItsWay;
use crate::map::last_status;
use crate::own_requests::{Purpose, ReleaseId};
use crate::releases::{EndingSession, Release, Stage};
use crate::report_outbox::MOST_USAGE_SENT;
use crate::reporting::Reporting;
use crate::session_reports::verdict;
use crate::smf_sets::{Route, report_routes};
use crate::usage_record_owners::LastUsage;
use crate::usage_report_ies::{dated, final_report};

/// What an Association Update Request of ours says.
#[derive(Clone, Copy, Debug)]
enum Says {
    Prepare,
    Request(GracefulReleasePeriod),
    AllReported,
}

/// What the release of an association works with.
pub(crate) struct AssociationRelease<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) control: &'a mut AssociationControl,
    pub(crate) reporting: &'a mut Reporting,
}

impl AssociationRelease<'_> {
    /// Asks a peer to release its association.
    pub(crate) fn announce_release(&mut self, now: Nanos, id: AssociationId) {
        let period = GracefulReleasePeriod::from_seconds(self.shared.config.release_wait.as_secs() as u32);
        let wait = Duration::from_secs(u64::from(period.seconds().unwrap_or_default()));
        let association = self.shared.associations.get(id).filter(|one| one.reachable);
        let Some(association) = association.filter(|_| !wait.is_zero()) else {
            return self.release_locally(now, id);
        };
        let prepares = association.features.contains(CpFunctionFeatures::EPFAR);
        let deadline = Some(now + wait);
        if let Some((of, _)) = self.control.releases.of(id) {
            if let Some(release) = self.control.releases.get_mut(of) {
                release.deadline = release.deadline.min(deadline).or(deadline);
            }
            return;
        }
        let of = self
            .control
            .releases
            .begin(id, Stage::Announced { prepares }, deadline);
        let says = if prepares {
            Says::Prepare
        } else {
            Says::Request(period)
        };
        self.send_update(now, of, says);
    }

    /// A peer prepares the release of its association (PARPS).
    pub(crate) fn prepare_release(&mut self, now: Nanos, id: AssociationId) {
        let known = self
            .control
            .releases
            .of(id)
            .map(|(_, release)| (&release.stage, release.deadline));
        let deadline = match known {
            Some((Stage::Reporting { .. } | Stage::Awaited, _)) => return,
            Some((Stage::Announced { .. }, deadline)) => deadline,
            None => None,
        };
        self.begin_reporting(now, id, deadline);
    }

    fn begin_reporting(&mut self, now: Nanos, id: AssociationId, deadline: Option<Nanos>) {
        let sessions = self.sessions_at(id);
        let of = self
            .control
            .releases
            .begin(id, Stage::Reporting { sessions, open: 0 }, deadline);
        self.end_sessions(now, of);
    }

    fn sessions_at(&self, id: AssociationId) -> Vec<Seid> {
        let theirs = self.shared.sessions.of_association(id);
        theirs.map(|session| session.seid()).collect()
    }

    /// Lets as many sessions end at a time as reports may be on their way.
    fn end_sessions(&mut self, now: Nanos, of: ReleaseId) {
        let window = self.shared.config.reports.window.max(1);
        while let Some(Release {
            stage: Stage::Reporting { sessions, open },
            ..
        }) = self.control.releases.get_mut(of)
        {
            if *open >= window {
                return;
            }
            if let Some(seid) = sessions.pop() {
                *open += 1;
                self.end_session(now, of, seid);
            } else if *open > 0 {
                return;
            } else if !self.find_more(of) {
                return self.all_reported(now, of);
            }
        }
    }

    /// Sessions that have come since, from another member of the peer's set or from a request that was under way.
    fn find_more(&mut self, of: ReleaseId) -> bool {
        let more = self.sessions_at(of.association);
        let found = !more.is_empty();
        if let Some(Release {
            stage: Stage::Reporting { sessions, .. },
            ..
        }) = self.control.releases.get_mut(of)
        {
            *sessions = more;
        }
        found
    }

    fn end_session(&mut self, now: Nanos, of: ReleaseId, seid: Seid) {
        let owner = self
            .shared
            .sessions
            .session(seid)
            .map(|session| session.association());
        if owner != Some(of.association) {
            return self.control.releases.count(of, 0);
        }
        let route = report_routes(self.shared, seid).first().copied();
        let ticket = self.shared.new_ticket();
        self.control
            .releases
            .leave(ticket, EndingSession { of, seid, route });
        self.shared.sessions.delete(now, ticket, seid);
    }

    /// A session has ended, or could not be brought to its end in order.
    pub(crate) fn session_left(&mut self, now: Nanos, ending: EndingSession, result: Result<Done, Refusal>) {
        let sent = match result {
            Ok(done) => self.report_last(now, &ending, done),
            Err(Refusal::NotFound | Refusal::Gone) => 0,
            Err(_) => {
                self.shared.sessions.remove(ending.seid, EndCause::Fault);
                self.shared.counters.events_dropped += 1;
                0
            }
        };
        self.control.releases.count(ending.of, sent);
        self.end_sessions(now, ending.of);
    }

    /// Reports what a session has used since its last report, and that it is gone. Answers in how many messages.
    fn report_last(&mut self, now: Nanos, ending: &EndingSession, done: Done) -> usize {
        self.reporting
            .sessions
            .downlink
            .rules_changed(self.shared, done.seid);
        let (unsent, _) = self.reporting.sessions.outbox.end(done.seid);
        let is_wanted = self.control.releases.get_mut(ending.of).is_some();
        let fresh = done.usage.into_iter().filter(|usage| !usage.is_null());
        let usage: Vec<UsageReport> = unsent.usage.into_iter().chain(fresh).collect();
        let owner = ReportedSession {
            seid: done.seid,
            association: ending.of.association,
            cp: Some(done.cp),
        };
        let Some(route) = ending.route.filter(|_| is_wanted) else {
            self.shared.counters.events_dropped += 1;
            self.shared
                .usage_unaccepted(now, owner, &usage, Unreported::Unanswered);
            return 0;
        };
        let mut parts = usage.chunks(MOST_USAGE_SENT).peekable();
        if parts.peek().is_none() {
            self.send_last(now, ending.of, owner, route, &[], Some(&done.packets));
            return 1;
        }
        let mut sent = 0;
        while let Some(part) = parts.next() {
            let packets = parts.peek().is_none().then_some(&done.packets[..]);
            let request = self.send_last(now, ending.of, owner, route, part, packets);
            sent += 1;
            self.shared.keep_last_usage(request.0, sent as u16, request.1);
        }
        sent
    }

    /// Sends one report of a session that has ended; the last one has what is left of its packet rates. Gives the
    /// number of the usage, and the request.
    fn send_last(
        &mut self,
        now: Nanos,
        of: ReleaseId,
        owner: ReportedSession,
        route: Route,
        usage: &[UsageReport],
        last: Option<&[PacketRateStatus]>,
    ) -> (u64, OnItsWay) {
        let kept = self.shared.usage_record_owners.keep(LastUsage::new(owner, usage));
        let clock = self.shared.sessions.wall();
        let reads_information = self.shared.config.reads_usage_information(route.path.from.ip());
        let usage = dated(usage, clock, reads_information);
        let usage: Vec<_> = usage.iter().map(|one| final_report(one, clock)).collect();
        let kind = if usage.is_empty() {
            ReportType::UISR
        } else {
            ReportType::USAR
        };
        let mut report = SessionReportRequest::new(kind);
        report.usage_report = Repeated::new(&usage);
        report.pfcpsrreq_flags = last.map(|_| PfcpSrReqFlags::PSDBU);
        let packets = last.unwrap_or_default().iter();
        let packets: Vec<_> = packets.map(|one| last_status(one, clock)).collect();
        report.packet_rate_status_report = Repeated::new(&packets);
        report.old_cp_f_seid = route.old.map(f_seid);
        let to = Some(route.seid);
        let purpose = Purpose::LastReport {
            release: of,
            usage: kept,
        };
        let sequence = self.shared.send_request(now, route.path, to, purpose, &report);
        let peer = route.path.from;
        (kept, OnItsWay { peer, sequence })
    }

    /// A last report was answered. A refusal is no reason to send it again: its session is gone.
    pub(crate) fn last_report_answered(&mut self, now: Nanos, of: ReleaseId, usage: u64, frame: &Frame<'_>) {
        let why = verdict(frame);
        self.shared.counters.reports_refused += u64::from(matches!(why, Some(Unreported::Refused(_))));
        self.shared.counters.reports_unreadable += u64::from(why == Some(Unreported::Unreadable));
        self.last_report_over(now, of, usage, why);
    }

    /// A last report has failed. Its session is gone: it is not sent again.
    pub(crate) fn last_report_unanswered(&mut self, now: Nanos, of: ReleaseId, usage: u64) {
        self.shared.counters.events_dropped += 1;
        self.last_report_over(now, of, usage, Some(Unreported::Unanswered));
    }

    pub(crate) fn last_report_over(
        &mut self,
        now: Nanos,
        of: ReleaseId,
        usage: u64,
        why: Option<Unreported>,
    ) {
        self.shared.last_usage_done(now, usage, why);
        self.control.releases.count(of, 0);
        self.end_sessions(now, of);
    }

    fn all_reported(&mut self, now: Nanos, of: ReleaseId) {
        let by_then = now + self.shared.config.release_wait;
        if let Some(release) = self.control.releases.get_mut(of) {
            release.stage = Stage::Awaited;
            release.deadline.get_or_insert(by_then);
        }
        self.send_update(now, of, Says::AllReported);
    }

    fn send_update(&mut self, now: Nanos, of: ReleaseId, says: Says) {
        let Some(association) = self.shared.associations.get(of.association) else {
            return;
        };
        let path = self.shared.path_of(association);
        let node = self.shared.config.node.clone();
        let mut update = AssociationUpdateRequest::new(node.as_ie());
        match says {
            Says::Prepare => update.pfcpaureq_flags = Some(PfcpAuReqFlags::PARPS),
            Says::Request(period) => {
                update.pfcp_association_release_request = Some(PfcpAssociationReleaseRequest::SARR);
                update.graceful_release_period = Some(period);
            }
            Says::AllReported => {
                update.pfcp_association_release_request = Some(PfcpAssociationReleaseRequest::URSS);
            }
        }
        self.shared
            .send_request(now, path, None, Purpose::Update(of), &update);
    }

    /// A peer has answered an Association Update Request.
    pub(crate) fn update_answered(&mut self, now: Nanos, of: ReleaseId, frame: &Frame<'_>) {
        let answer = AssociationUpdateResponse::decode(frame.body);
        let Some(answer) = answer.ok().filter(|answer| answer.cause.is_accepted()) else {
            return self.update_failed(now, of);
        };
        if let (Some(features), Some(association)) = (
            answer.cp_function_features,
            self.shared.associations.get_mut(of.association),
        ) {
            association.features = features;
            self.control.associations_changed(self.shared);
        }
        let Some(release) = self.control.releases.get_mut(of) else {
            return;
        };
        let deadline = release.deadline;
        match release.stage {
            Stage::Announced { prepares: true } => self.begin_reporting(now, of.association, deadline),
            Stage::Announced { prepares: false } => release.stage = Stage::Awaited,
            Stage::Reporting { .. } | Stage::Awaited => {}
        }
    }

    /// A peer has refused an Association Update Request, or not answered it: it does not know how to end.
    pub(crate) fn update_failed(&mut self, now: Nanos, of: ReleaseId) {
        let stage = self.control.releases.get_mut(of).map(|release| &release.stage);
        if matches!(stage, Some(Stage::Announced { .. } | Stage::Awaited)) {
            self.release_locally(now, of.association);
        }
    }

    /// Ends the associations whose peers have had their time.
    pub(crate) fn end_releases(&mut self, now: Nanos) {
        while let Some(id) = self.control.releases.due(now) {
            self.release_locally(now, id);
        }
    }

    /// Ends an association as if its peer had released it.
    fn release_locally(&mut self, now: Nanos, id: AssociationId) {
        let gone = self
            .shared
            .sessions
            .remove_association(id, EndCause::AssociationEnded, |_| true);
        let end = Ended {
            why: AssociationEnd::Ended,
            sessions: gone,
        };
        self.control
            .drop_association(self.shared, self.reporting, now, id, end);
    }
}
