//! Session reports on the wire (TS 29.244 §6.3.5, §7.5.8, §7.5.9): what [`reports`](crate::report_outbox) has gathered
//! becomes a request to the session's control plane, and the answer is given back to it.

use flow::Nanos;
use pfcp::group::{DownlinkDataReport, ErrorIndicationReport, UsageReportSessionReport};
use pfcp::ie::{self, Cause, DownlinkDataServiceInformation, FSeid, FTeid, PdrId, ReportType};
use pfcp::message::{Body, SessionReportRequest, SessionReportResponse};
use pfcp::{Frame, Header, MessageType, Repeated};
use rules::image::DataStatus;
use session::{Seid, Unreported};
use std::net::IpAddr;

use crate::endpoint::{Endpoint, Path};
use crate::own_requests::Purpose;
use crate::report_outbox::Events;
use crate::serve_session::{address_of, v4, v6};
use crate::smf_sets::Route;
use crate::usage_reports::{Dated, application, dated, detected, parts, session_report};

impl Endpoint {
    /// Sends the reports whose turn has come.
    pub(crate) fn send_reports(&mut self, now: Nanos) {
        while let Some(seid) = self.reports.poll(now) {
            match self.report_route(seid) {
                None => self.drop_reports(now, seid),
                Some(route) => {
                    if let Some(events) = self.reports.take(now, seid) {
                        self.send_report(now, seid, route, &events);
                    }
                }
            }
        }
    }

    /// The session is gone, or its control plane has no address for us.
    fn drop_reports(&mut self, now: Nanos, seid: Seid) {
        let association = self.reports.association(seid);
        let (unsaid, _) = self.reports.end(seid);
        if let Some(association) = association {
            let of = (seid, association, None);
            self.not_taken(now, of, &unsaid.usage, Unreported::Unanswered);
        }
        if self.sessions.session(seid).is_none() {
            self.downlink.forget(seid);
        }
        self.counters.events_dropped += 1;
    }

    /// Where a session's report goes this time.
    fn report_route(&self, seid: Seid) -> Option<Route> {
        let attempt = self.reports.attempt(seid);
        if let Some(address) = attempt.redirected_to {
            return self.redirected_route(seid, address);
        }
        let routes = self.report_routes(seid);
        routes.get(attempt.number).or(routes.first()).copied()
    }

    fn send_report(&mut self, now: Nanos, seid: Seid, route: Route, events: &Events) {
        let clock = self.sessions.wall();
        let kinds = [
            (!events.downlink.is_empty(), ReportType::DLDR),
            (!events.usage.is_empty(), ReportType::USAR),
            (!events.errors.is_empty(), ReportType::ERIR),
            (events.inactive, ReportType::UPIR),
        ];
        let there = kinds.into_iter().filter(|(is_there, _)| *is_there);
        let report_type = there.fold(ReportType(0), |all, (_, kind)| all | kind);
        let pdrs: Vec<_> = events.downlink.iter().map(|data| PdrId(data.pdr.0)).collect();
        let services: Vec<_> = events.downlink.iter().map(service).collect();
        let remotes: Vec<_> = events.errors.iter().map(remote).collect();
        let rules = self.sessions.session(seid).map(|session| session.rules());
        let of = |one: &Dated| rules.and_then(|rules| application(&one.usage, rules));
        let reads_information = self.config.reads_usage_information(route.path.from.ip());
        let told = dated(&events.usage, clock, reads_information);
        let applications: Vec<_> = told.iter().map(of).collect();
        let reports = events.usage.iter();
        let queries = reports.flat_map(|one| parts(one, reads_information).map(|_| events.query(one)));
        let usage = told.iter().zip(applications.iter().zip(queries));
        let usage: Vec<_> = usage
            .map(|(one, (application, query))| UsageReportSessionReport {
                application_detection_information: detected(application),
                ..session_report(one, clock, query)
            })
            .collect();
        let mut report = SessionReportRequest::new(report_type);
        report.downlink_data_report = (!pdrs.is_empty()).then(|| {
            let mut data = DownlinkDataReport::new(Repeated::new(&pdrs));
            data.downlink_data_service_information = Repeated::new(&services);
            let status = events.downlink.first().and_then(|data| data.status);
            data.dl_data_status = status.map(|status| match status {
                DataStatus::Buffered => ie::DataStatus::BUFF,
                DataStatus::Discarded => ie::DataStatus::DROP,
            });
            data
        });
        report.error_indication_report =
            (!remotes.is_empty()).then(|| ErrorIndicationReport::new(Repeated::new(&remotes)));
        report.usage_report = Repeated::new(&usage);
        let association = self.sessions.session(seid).map(|session| session.association());
        let load = self.load_information(now, association);
        (
            report.load_control_information,
            report.overload_control_information,
        ) = load;
        report.old_cp_f_seid = route.old.map(|old| FSeid {
            seid: pfcp::Seid(old.seid),
            ipv4: old.ipv4,
            ipv6: old.ipv6,
        });
        let to = Some(route.seid);
        self.send_request(now, route.path, to, Purpose::Report(seid), &report);
    }

    /// The control plane has answered. A refusal is an answer too: it has heard; but one in congestion has not
    /// listened, and one that names another has passed it on to us. What it has not taken is entered in the ledger.
    pub(crate) fn report_answered(&mut self, now: Nanos, seid: Seid, frame: &Frame<'_>) {
        let Ok(answer) = SessionReportResponse::decode(frame.body) else {
            self.counters.reports_unreadable += 1;
            return self.landed(now, seid, Some(Unreported::Unreadable));
        };
        if answer.cause == Cause::REDIRECTION_REQUESTED
            && let Some(address) = self.redirection(seid, &answer)
            && self.reports.redirected(now, seid, address)
        {
            return;
        }
        if answer.cause == Cause::PFCP_ENTITY_IN_CONGESTION {
            return self.report_failed(now, seid);
        }
        if answer.cause.is_accepted() {
            self.adopt(now, seid, &answer);
        }
        self.counters.reports_refused += u64::from(!answer.cause.is_accepted());
        self.landed(now, seid, refusal(answer.cause));
        self.take_advice(now, seid, &answer);
    }

    /// A response is discarded, because its length is another than it says. If a report waits for it, that is answered all
    /// the same, and not sent again (TS 29.244 §7.6.1, §7.6.3).
    pub(crate) fn report_answered_unreadably(&mut self, now: Nanos, path: Path, header: &Header) {
        if header.message_type != MessageType::SESSION_REPORT_RESPONSE {
            return;
        }
        let (sequence, response) = (header.sequence.get(), header.message_type.0);
        let Some(purpose) = self.requests.answered(path.from, sequence, response) else {
            return;
        };
        self.counters.reports_unreadable += 1;
        let why = Some(Unreported::Unreadable);
        match purpose {
            Purpose::Report(seid) => self.landed(now, seid, why),
            Purpose::LastReport(of, usage) => self.last_report_over(now, (of, usage), why),
            Purpose::Remainder(usage) => self.last_usage_over(now, usage, why),
            // Nothing else is answered by a Session Report Response.
            Purpose::Heartbeat(_) | Purpose::NodeReport(_) | Purpose::Setup(_) | Purpose::Update(_) => {}
        }
    }

    /// What a session had sent is answered; `why` its usage is not taken, if it is not.
    fn landed(&mut self, now: Nanos, seid: Seid, why: Option<Unreported>) {
        let landed = self.reports.acknowledged(now, seid);
        if let Some((why, (association, sent))) = why.zip(landed) {
            self.not_taken(now, (seid, association, None), &sent.usage, why);
        }
    }

    /// The address that an answer names instead, of the family that the session's association uses.
    fn redirection(&self, seid: Seid, answer: &SessionReportResponse<'_>) -> Option<IpAddr> {
        let to = answer.alternative_smf_ip_address?;
        let session = self.sessions.session(seid)?;
        let association = self.associations.get(session.association())?;
        address_of((to.ipv4, to.ipv6), association.local.ip())
    }

    /// A report has not been taken: it is sent to another control plane function that may control the session, or anew
    /// later, while its session lives.
    pub(crate) fn report_failed(&mut self, now: Nanos, seid: Seid) {
        self.counters.reports_retried += 1;
        let ways = self.report_routes(seid).len();
        self.reports.failed(now, seid, ways);
    }
}

/// Why usage is not taken that was answered with this cause.
fn refusal(cause: Cause) -> Option<Unreported> {
    (!cause.is_accepted()).then_some(Unreported::Refused(cause.value()))
}

/// Why the usage of a report is not taken that was answered so; `None`: it is.
pub(crate) fn verdict(frame: &Frame<'_>) -> Option<Unreported> {
    match SessionReportResponse::decode(frame.body) {
        Ok(answer) => refusal(answer.cause),
        Err(_) => Some(Unreported::Unreadable),
    }
}

/// One for each PDR (TS 29.244 §7.5.8.2), empty where nothing is known of the packet.
fn service(data: &crate::report_outbox::DownlinkData) -> DownlinkDataServiceInformation {
    DownlinkDataServiceInformation {
        paging_policy_indication: data.ppi,
        qfi: data.qfi.map(|qfi| qfi.get()),
    }
}

fn remote((peer, teid): &(IpAddr, packet::Teid)) -> FTeid {
    FTeid::Endpoint {
        teid: ie::Teid(teid.0),
        ipv4: v4(*peer),
        ipv6: v6(*peer),
    }
}
