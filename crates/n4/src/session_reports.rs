//! Session reports (TS 29.244 §6.3.5, §7.5.8, §7.5.9): what the [outbox](crate::report_outbox) has gathered becomes a
//! request to the session's control plane, and the response goes back to it.

use flow::{Nanos, SessionIndex};
use packet::Teid;
use pfcp::group::{DownlinkDataReport, ErrorIndicationReport, UsageReportSessionReport};
use pfcp::ie::{self, Cause, DownlinkDataServiceInformation, FTeid, NodeId, PdrId, ReportType};
use pfcp::message::{Body, SessionReportRequest, SessionReportResponse};
use pfcp::{Frame, Interface, Repeated};
use rules::image::DataStatus;
use rules::model::{
    DestinationInterface, Edit, Far, FarId, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation,
    OuterHeaderKind,
};
use session::{AssociationId, Changes, ReportedSession, Seid, Unreported};
use std::net::IpAddr;

use crate::config::ReportLimits;
use crate::downlink_notifications::{DownlinkNotifications, end_buffering};
use crate::endpoint_state::Shared;
use crate::ie_addresses::{address_of, cp_f_seid, f_seid, v4, v6};
use crate::named_sets::{assign, named_sets};
use crate::own_requests::Purpose;
use crate::report_outbox::{Added, DownlinkData, Events, RemoteTunnel, ReportOutbox, SessionEvent};
use crate::smf_sets::{Route, are_beside, redirected_route, report_routes};
use crate::usage_report_ies::{Dated, application, dated, detected, parts, session_report};

/// Sessions that one Error Indication is reported for, of those that send into one tunnel: more than one is an SMF's
/// mistake, and thousands would be its malice.
const MOST_OF_ONE_TUNNEL: usize = 16;

/// Reports of sessions: what is to be sent, and which downlink data notifications are delayed.
#[derive(Debug)]
pub(crate) struct SessionReports {
    pub(crate) outbox: ReportOutbox,
    pub(crate) downlink: DownlinkNotifications,
}

impl SessionReports {
    pub(crate) fn new(outbox_seed: u64, downlink_seed: u64, limits: ReportLimits) -> SessionReports {
        SessionReports {
            outbox: ReportOutbox::new(outbox_seed, limits),
            downlink: DownlinkNotifications::new(downlink_seed),
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) or [`send_reports`](Self::send_reports) is to be called next.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let both = [self.outbox.poll_timeout(), self.downlink.poll_timeout()];
        both.into_iter().flatten().min()
    }

    /// Sessions of which something is kept.
    pub(crate) fn len(&self) -> usize {
        self.outbox.len() + self.downlink.len()
    }

    /// Reports the downlink data whose delay is over, and ends extended buffering.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some(due) = self.downlink.poll_due(shared, now) {
            for data in due.data {
                self.handle_session_event(shared, now, due.index, SessionEvent::DownlinkData(data));
            }
            if due.buffering_ended {
                end_buffering(shared, now, due.seid);
            }
        }
    }

    /// Downlink data of a FAR that buffers; see [`Endpoint::handle_downlink_data`](crate::Endpoint).
    pub(crate) fn handle_downlink_data(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        index: SessionIndex,
        far: FarId,
        notifies: bool,
        data: DownlinkData,
    ) {
        let downlink = &mut self.downlink;
        if downlink.handle_downlink_data(shared, now, index, far, notifies, data) {
            self.handle_session_event(shared, now, index, SessionEvent::DownlinkData(data));
        }
    }

    /// Something has happened to a session that is to be reported. An unknown session is ignored: it has just ended.
    pub(crate) fn handle_session_event(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        session: SessionIndex,
        event: SessionEvent,
    ) {
        let known = shared.sessions.view(session);
        if let Some((seid, association)) = known.map(|known| (known.seid(), known.association())) {
            self.report(shared, now, seid, association, event);
        }
    }

    /// A GTP-U Error Indication was received: `peer` has no tunnel `teid` any more. It is reported to the session's
    /// control plane (TS 29.281 §7.3.1, TS 29.244 §7.5.8.4).
    pub(crate) fn handle_error_indication(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        peer: IpAddr,
        teid: Teid,
    ) {
        let known = shared.sessions.sessions_by_remote(peer, teid);
        let known = known.map(|known| (known.seid(), known.association()));
        let known: Vec<_> = known.take(MOST_OF_ONE_TUNNEL).collect();
        for (seid, association) in known {
            let event = SessionEvent::ErrorIndication { peer, teid };
            self.report(shared, now, seid, association, event);
        }
    }

    /// Takes up the usage that sessions report by themselves.
    pub(crate) fn gather_usage(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some((seid, report)) = shared.sessions.poll_usage() {
            // The report has its number, and its content, before it is sent.
            shared.sessions.mark(seid);
            match shared.sessions.session(seid).map(|session| session.association()) {
                Some(association) => self.gather(shared, now, seid, association, SessionEvent::Usage(report)),
                // It has just ended without a request: the cause of its end says that it was not reported.
                None => shared.counters.events_dropped += 1,
            }
        }
    }

    fn report(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        seid: Seid,
        association: AssociationId,
        event: SessionEvent,
    ) {
        self.gather(shared, now, seid, association, event);
        self.send_reports(shared, now);
    }

    fn gather(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        seid: Seid,
        association: AssociationId,
        event: SessionEvent,
    ) {
        shared.counters.events += 1;
        match self.outbox.add(now, seid, association, event) {
            Added::Kept => {}
            Added::Merged => shared.counters.events_merged += 1,
            Added::Absorbed => {
                shared.counters.events_merged += 1;
                if let SessionEvent::Usage(report) = event {
                    shared.sessions.recall_report(seid, &report);
                }
            }
            Added::Dropped => shared.counters.events_dropped += 1,
        }
    }

    /// Sends the reports whose turn has come.
    pub(crate) fn send_reports(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some(seid) = self.outbox.poll(now) {
            match self.report_route(shared, seid) {
                None => self.drop_reports(shared, now, seid),
                Some(route) => {
                    if let Some(events) = self.outbox.take(now, seid) {
                        self.send_report(shared, now, seid, route, &events);
                    }
                }
            }
        }
    }

    /// The session is gone, or its control plane has no address for us.
    fn drop_reports(&mut self, shared: &mut Shared, now: Nanos, seid: Seid) {
        let association = self.outbox.association(seid);
        let (unsaid, _) = self.outbox.end(seid);
        if let Some(association) = association {
            let owner = ReportedSession {
                seid,
                association,
                cp: None,
            };
            shared.usage_unaccepted(now, owner, &unsaid.usage, Unreported::Unanswered);
        }
        shared.report_over(seid);
        if shared.sessions.session(seid).is_none() {
            self.downlink.forget(seid);
        }
        shared.counters.events_dropped += 1;
    }

    /// Where a session's report goes this time.
    fn report_route(&self, shared: &Shared, seid: Seid) -> Option<Route> {
        let attempt = self.outbox.attempt(seid);
        if let Some(address) = attempt.redirected_to {
            return redirected_route(shared, seid, address);
        }
        let routes = report_routes(shared, seid);
        routes.get(attempt.number).or(routes.first()).copied()
    }

    fn send_report(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, route: Route, events: &Events) {
        let clock = shared.sessions.wall();
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
        let rules = shared.sessions.session(seid).map(|session| session.rules());
        let of = |one: &Dated| rules.and_then(|rules| application(&one.usage, rules));
        let reads_information = shared.config.reads_usage_information(route.path.from.ip());
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
        let association = shared.sessions.session(seid).map(|session| session.association());
        let load = shared.load_information(now, association);
        report.load_control_information = load.load;
        report.overload_control_information = load.overload;
        report.old_cp_f_seid = route.old.map(f_seid);
        let to = Some(route.seid);
        let sequence = shared.send_request(now, route.path, to, Purpose::Report(seid), &report);
        self.outbox.sent_as(seid, (route.path.from, sequence));
    }

    /// The control plane has answered. A rejection acknowledges the report, too; but one for congestion does not, and
    /// one that names another peer redirects it. Reports that it has not accepted become usage record entries.
    pub(crate) fn report_answered(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, frame: &Frame<'_>) {
        let Ok(answer) = SessionReportResponse::decode(frame.body) else {
            shared.counters.reports_unreadable += 1;
            return self.landed(shared, now, seid, Some(Unreported::Unreadable));
        };
        if answer.cause == Cause::REDIRECTION_REQUESTED
            && let Some(address) = self.redirection(shared, seid, &answer)
            && self.outbox.redirected(now, seid, address)
        {
            return;
        }
        if answer.cause == Cause::PFCP_ENTITY_IN_CONGESTION {
            return self.report_failed(shared, now, seid);
        }
        if answer.cause.is_accepted() {
            self.adopt(shared, now, seid, &answer);
        }
        shared.counters.reports_refused += u64::from(!answer.cause.is_accepted());
        self.landed(shared, now, seid, refusal(answer.cause));
        self.downlink.take_advice(shared, now, seid, &answer);
    }

    /// What a session had sent is answered; `why` its usage is not taken, if it is not.
    pub(crate) fn landed(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, why: Option<Unreported>) {
        let landed = self.outbox.acknowledged(now, seid);
        if landed.as_ref().is_some_and(|(_, sent)| !sent.usage.is_empty()) {
            shared.sessions.mark(seid);
        }
        if let Some((why, (association, sent))) = why.zip(landed) {
            let owner = ReportedSession {
                seid,
                association,
                cp: None,
            };
            shared.usage_unaccepted(now, owner, &sent.usage, why);
        }
        shared.report_over(seid);
    }

    /// The address that an answer names instead, of the family that the session's association uses.
    fn redirection(&self, shared: &Shared, seid: Seid, answer: &SessionReportResponse<'_>) -> Option<IpAddr> {
        let to = answer.alternative_smf_ip_address?;
        let session = shared.sessions.session(seid)?;
        let association = shared.associations.get(session.association())?;
        address_of(to.ipv4, to.ipv6, association.local.ip())
    }

    /// A report has not been taken: it is sent to another control plane function that may control the session, or anew
    /// later, while its session lives.
    pub(crate) fn report_failed(&mut self, shared: &mut Shared, now: Nanos, seid: Seid) {
        shared.counters.reports_retried += 1;
        let ways = report_routes(shared, seid).len();
        self.outbox.failed(now, seid, ways);
    }

    /// A control plane function has taken a report, and perhaps the session (TS 29.244 §5.22.2 item 5).
    pub(crate) fn adopt(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        seid: Seid,
        answer: &SessionReportResponse<'_>,
    ) {
        if let Some(cp) = answer.cp_f_seid {
            shared.sessions.rename(seid, cp_f_seid(cp));
            if let Some(sets) = shared.sessions.sets_mut(seid) {
                sets.reports_to = None;
            }
            self.follow_node(shared, seid, answer.node_id);
        }
        if let Some(sets) = named_sets(answer.fq_csid, answer.group_id.first()) {
            assign(&mut shared.sessions, seid, *sets);
        }
        if let Some(to) = answer.n4_u_f_teid.and_then(n4u_header) {
            self.lead_n4u(shared, now, seid, to);
        }
    }

    /// Packets for the control plane function go into another tunnel from now on (N4-u F-TEID, TS 29.244 §7.5.9.1), of
    /// which a session has one (§5.3.1). A change of our own: no answer waits for its outcome.
    fn lead_n4u(&mut self, shared: &mut Shared, now: Nanos, seid: Seid, to: OuterHeaderCreation) {
        let Some(session) = shared.sessions.session(seid) else {
            return;
        };
        let association = shared.associations.get(session.association());
        let interfaces = association.map(|one| shared.config.interfaces_of(one.peer.ip()));
        if !interfaces.is_some_and(|on| on.has(Interface::N4)) {
            return;
        }
        let fars = session.rules().fars().iter();
        let led = fars.filter(|far| {
            let towards = far.forwarding.as_ref();
            let towards = towards.filter(|towards| towards.destination == DestinationInterface::CpFunction);
            let header = towards.and_then(|towards| towards.outer_header_creation);
            header.is_some_and(|header| header.kind.is_gtpu() && header != to)
        });
        let update = |far: &Far| FarUpdate {
            forwarding: Edit::Set(ForwardingParametersUpdate {
                outer_header_creation: Edit::Set(to),
                ..ForwardingParametersUpdate::default()
            }),
            ..FarUpdate::new(far.id)
        };
        let changes = Changes {
            update_fars: led.map(update).collect(),
            ..Changes::default()
        };
        if !changes.leaves_rules() {
            let ticket = shared.new_ticket();
            shared.sessions.modify(now, ticket, seid, None, changes);
        }
    }

    fn follow_node(&mut self, shared: &mut Shared, seid: Seid, node: Option<NodeId<'_>>) {
        let node = node.and_then(crate::node::NodeName::of);
        let to = node.and_then(|node| shared.associations.by_node(&node).map(|one| one.id));
        let owner = shared.sessions.session(seid).map(|session| session.association());
        if let (Some(to), Some(owner)) = (to, owner)
            && to != owner
            && are_beside(shared, owner, to)
        {
            shared.sessions.hand_over(seid, to);
            self.outbox.hand_over(seid, to);
        }
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
fn service(data: &DownlinkData) -> DownlinkDataServiceInformation {
    DownlinkDataServiceInformation {
        paging_policy_indication: data.ppi,
        qfi: data.qfi.map(|qfi| qfi.get()),
    }
}

fn remote(RemoteTunnel { peer, teid }: &RemoteTunnel) -> FTeid {
    FTeid::Endpoint {
        teid: ie::Teid(teid.0),
        ipv4: v4(*peer),
        ipv6: v6(*peer),
    }
}

/// The header into the tunnel that an F-TEID names, if it names one with an address.
fn n4u_header(to: FTeid) -> Option<OuterHeaderCreation> {
    let FTeid::Endpoint { teid, ipv4, ipv6 } = to else {
        return None;
    };
    let v4 = ipv4.map_or(OuterHeaderKind(0), |_| OuterHeaderKind::GTPU_IPV4);
    let v6 = ipv6.map_or(OuterHeaderKind(0), |_| OuterHeaderKind::GTPU_IPV6);
    let header = OuterHeaderCreation {
        kind: v4.with(v6),
        teid: Teid(teid.0),
        ipv4,
        ipv6,
        port: None,
    };
    header.kind.is_gtpu().then_some(header)
}
