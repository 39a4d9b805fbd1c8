//! The end of an association in order, begun by either side (TS 29.244 §5.18, §6.2.7.3).
//!
//! With a peer that knows it (EPFAR) every session ends at our side: its last usage that is not zero goes to the peer
//! in Session Report Requests, the last of which says that the session is gone (PSDBU); when all are answered the peer
//! is told so (URSS), and has a time to release the association. Another peer is asked to release it within a period
//! (SARR), and deletes the sessions itself. A peer that refuses, is silent or takes too long is left behind: the
//! association ends as if it had released it. Meanwhile no session is begun.

use flow::Nanos;
use pfcp::ie::{
    CpFunctionFeatures, FSeid, GracefulReleasePeriod, PfcpAssociationReleaseRequest, PfcpAuReqFlags,
    PfcpSrReqFlags, ReportType,
};
use pfcp::message::{AssociationUpdateRequest, AssociationUpdateResponse, Body, SessionReportRequest};
use pfcp::{Frame, Repeated};
use session::{
    AssociationId, CpFSeid, Done, EndCause, PacketRateStatus, Refusal, Seid, Unreported, UsageReport,
};
use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::event_log::AssociationEnd;
use crate::own_requests::Purpose;
use crate::release::{Leaver, Release, ReleaseId, Stage};
use crate::report_outbox::MOST_USAGE_SENT;
use crate::serve_report::verdict;
use crate::serve_session::last_status;
use crate::smf_sets::Route;
use crate::usage_reports::{dated, final_report};

/// What an Association Update Request of ours says.
#[derive(Clone, Copy, Debug)]
enum Says {
    Prepare,
    Request(GracefulReleasePeriod),
    AllReported,
}

impl Endpoint {
    /// Ends all associations, in order as far as [`Config::release_wait`](crate::Config::release_wait) allows. None
    /// begins from now on.
    pub fn end(&mut self, now: Nanos) {
        self.is_ending = true;
        self.setups.stop();
        let all: Vec<_> = self.associations.iter().map(|one| one.id).collect();
        all.into_iter().for_each(|id| self.announce_release(now, id));
        self.settle(now);
    }

    /// Whether no association is left.
    pub fn has_ended(&self) -> bool {
        self.associations.len() == 0
    }

    /// Tells a peer that we want its association to end.
    fn announce_release(&mut self, now: Nanos, id: AssociationId) {
        let period = GracefulReleasePeriod::from_seconds(self.config.release_wait.as_secs() as u32);
        let wait = Duration::from_secs(u64::from(period.seconds().unwrap_or_default()));
        let association = self.associations.get(id).filter(|one| one.reachable);
        let Some(association) = association.filter(|_| !wait.is_zero()) else {
            return self.release_locally(now, id);
        };
        let prepares = association.features.contains(CpFunctionFeatures::EPFAR);
        let deadline = Some(now + wait);
        if let Some((of, _)) = self.releases.of(id) {
            if let Some(release) = self.releases.get_mut(of) {
                release.deadline = release.deadline.min(deadline).or(deadline);
            }
            return;
        }
        let of = self.releases.begin(id, Stage::Announced { prepares }, deadline);
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
            .releases
            .begin(id, Stage::Reporting { sessions, open: 0 }, deadline);
        self.end_sessions(now, of);
    }

    fn sessions_at(&self, id: AssociationId) -> Vec<Seid> {
        let theirs = self.sessions.of_association(id);
        theirs.map(|session| session.seid()).collect()
    }

    /// Lets as many sessions end at a time as reports may be on their way.
    fn end_sessions(&mut self, now: Nanos, of: ReleaseId) {
        let window = self.config.reports.window.max(1);
        while let Some(Release {
            stage: Stage::Reporting { sessions, open },
            ..
        }) = self.releases.get_mut(of)
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
        let more = self.sessions_at(of.0);
        let found = !more.is_empty();
        if let Some(Release {
            stage: Stage::Reporting { sessions, .. },
            ..
        }) = self.releases.get_mut(of)
        {
            *sessions = more;
        }
        found
    }

    fn end_session(&mut self, now: Nanos, of: ReleaseId, seid: Seid) {
        let owner = self.sessions.session(seid).map(|session| session.association());
        if owner != Some(of.0) {
            return self.releases.count(of, 0);
        }
        let route = self.report_routes(seid).first().copied();
        let ticket = self.new_ticket();
        self.releases.leave(ticket, Leaver { of, seid, route });
        self.sessions.delete(now, ticket, seid);
    }

    /// A session has ended, or could not be brought to its end in order.
    pub(crate) fn session_left(&mut self, now: Nanos, leaver: Leaver, result: Result<Done, Refusal>) {
        let sent = match result {
            Ok(done) => self.report_last(now, &leaver, done),
            Err(Refusal::NotFound | Refusal::Gone) => 0,
            Err(_) => {
                self.sessions.remove(leaver.seid, EndCause::Fault);
                self.counters.events_dropped += 1;
                0
            }
        };
        self.releases.count(leaver.of, sent);
        self.end_sessions(now, leaver.of);
    }

    /// Reports what a session has used since its last report, and that it is gone. Answers in how many messages.
    fn report_last(&mut self, now: Nanos, leaver: &Leaver, done: Done) -> usize {
        self.downlink_changed(done.seid);
        let (unsent, _) = self.reports.end(done.seid);
        let is_wanted = self.releases.get_mut(leaver.of).is_some();
        let fresh = done.usage.into_iter().filter(|usage| !usage.is_null());
        let usage: Vec<UsageReport> = unsent.usage.into_iter().chain(fresh).collect();
        let owner = (done.seid, leaver.of.0, done.cp);
        let Some(route) = leaver.route.filter(|_| is_wanted) else {
            self.counters.events_dropped += 1;
            let of = (owner.0, owner.1, Some(owner.2));
            self.not_taken(now, of, &usage, Unreported::Unanswered);
            return 0;
        };
        let mut parts = usage.chunks(MOST_USAGE_SENT).peekable();
        if parts.peek().is_none() {
            self.send_last(now, (leaver.of, owner), route, &[], Some(&done.packets));
            return 1;
        }
        let mut sent = 0;
        while let Some(part) = parts.next() {
            let packets = parts.peek().is_none().then_some(&done.packets[..]);
            self.send_last(now, (leaver.of, owner), route, part, packets);
            sent += 1;
        }
        sent
    }

    /// Sends one report of a session that has ended; the last one has what is left of its packet rates.
    fn send_last(
        &mut self,
        now: Nanos,
        (of, owner): (ReleaseId, (Seid, AssociationId, CpFSeid)),
        route: Route,
        usage: &[UsageReport],
        last: Option<&[PacketRateStatus]>,
    ) {
        let kept = self.ledger.keep(owner, usage);
        let clock = self.sessions.wall();
        let reads_information = self.config.reads_usage_information(route.path.from.ip());
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
        report.old_cp_f_seid = route.old.map(|old| FSeid {
            seid: pfcp::Seid(old.seid),
            ipv4: old.ipv4,
            ipv6: old.ipv6,
        });
        let to = Some(route.seid);
        let purpose = Purpose::LastReport(of, kept);
        self.send_request(now, route.path, to, purpose, &report);
    }

    /// A last report was answered. A refusal is no reason to send it again: its session is gone.
    pub(crate) fn last_report_answered(&mut self, now: Nanos, of: (ReleaseId, u64), frame: &Frame<'_>) {
        let why = verdict(frame);
        self.counters.reports_refused += u64::from(matches!(why, Some(Unreported::Refused(_))));
        self.counters.reports_unreadable += u64::from(why == Some(Unreported::Unreadable));
        self.last_report_over(now, of, why);
    }

    /// A last report was given up: nobody is left to try it again for.
    pub(crate) fn last_report_unanswered(&mut self, now: Nanos, of: (ReleaseId, u64)) {
        self.counters.events_dropped += 1;
        self.last_report_over(now, of, Some(Unreported::Unanswered));
    }

    pub(crate) fn last_report_over(
        &mut self,
        now: Nanos,
        (of, usage): (ReleaseId, u64),
        why: Option<Unreported>,
    ) {
        self.last_usage_over(now, usage, why);
        self.releases.count(of, 0);
        self.end_sessions(now, of);
    }

    fn all_reported(&mut self, now: Nanos, of: ReleaseId) {
        let by_then = now + self.config.release_wait;
        if let Some(release) = self.releases.get_mut(of) {
            release.stage = Stage::Awaited;
            release.deadline.get_or_insert(by_then);
        }
        self.send_update(now, of, Says::AllReported);
    }

    fn send_update(&mut self, now: Nanos, of: ReleaseId, says: Says) {
        let Some(association) = self.associations.get(of.0) else {
            return;
        };
        let path = self.path_to(association, association.peer.ip());
        let node = self.config.node.clone();
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
        self.send_request(now, path, None, Purpose::Update(of), &update);
    }

    /// A peer has answered an Association Update Request.
    pub(crate) fn update_answered(&mut self, now: Nanos, of: ReleaseId, frame: &Frame<'_>) {
        let answer = AssociationUpdateResponse::decode(frame.body);
        let Some(answer) = answer.ok().filter(|answer| answer.cause.is_accepted()) else {
            return self.update_failed(now, of);
        };
        if let (Some(features), Some(association)) =
            (answer.cp_function_features, self.associations.get_mut(of.0))
        {
            association.features = features;
            self.share_out();
        }
        let Some(release) = self.releases.get_mut(of) else {
            return;
        };
        let deadline = release.deadline;
        match release.stage {
            Stage::Announced { prepares: true } => self.begin_reporting(now, of.0, deadline),
            Stage::Announced { prepares: false } => release.stage = Stage::Awaited,
            Stage::Reporting { .. } | Stage::Awaited => {}
        }
    }

    /// A peer has refused an Association Update Request, or not answered it: it does not know how to end.
    pub(crate) fn update_failed(&mut self, now: Nanos, of: ReleaseId) {
        let stage = self.releases.get_mut(of).map(|release| &release.stage);
        if matches!(stage, Some(Stage::Announced { .. } | Stage::Awaited)) {
            self.release_locally(now, of.0);
        }
    }

    /// Ends the associations whose peers have had their time.
    pub(crate) fn end_releases(&mut self, now: Nanos) {
        while let Some(id) = self.releases.due(now) {
            self.release_locally(now, id);
        }
    }

    /// Ends an association as if its peer had released it.
    fn release_locally(&mut self, now: Nanos, id: AssociationId) {
        let gone = self
            .sessions
            .remove_association(id, EndCause::AssociationEnded, |_| true);
        self.drop_association(now, id, (AssociationEnd::Ended, gone));
    }
}
