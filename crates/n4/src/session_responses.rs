//! Responses to requests about sessions (TS 29.244 §7.5.3, §7.5.5, §7.5.7), and the usage reports that follow on one.
//!
//! A response takes a bounded number of usage reports and announces how many follow (§5.2.2.3.1), in Session Report
//! Requests. Those of a live session go through the outbox. Those of a deleted session go at once to a control plane
//! that takes them (ARDR); the last has the flag PSDBU.

use flow::Nanos;
use pfcp::group::CreatedNatBinding;
use pfcp::ie::{
    AdditionalUsageReportsInformation, BbfNatExternalPortRange, BbfNatOutsideAddress, BbfNatPortBlock, Cause,
    FSeid, OffendingIe, PfcpSdRspFlags, PfcpSrReqFlags, ReportType,
};
use pfcp::message::{
    SessionDeletionResponse, SessionEstablishmentResponse, SessionModificationResponse, SessionReportRequest,
};
use pfcp::{Header, MessageType, Repeated};
use rules::network::Network;
use session::{
    AssignedBlock, AssociationId, Done, EndCause, Refusal, ReportedSession, Seid, Unreported, UsageReport,
};
use std::net::IpAddr;
use std::sync::Arc;

use crate::cause::{Reject, reject};
use crate::endpoint_state::{Rejection, Shared};
use crate::ie_addresses::{v4, v6};
use crate::last_usage::OnItsWay;
use crate::load::LoadInformation;
use crate::map::{self, Allocations};
use crate::own_requests::Purpose;
use crate::pending_requests::PendingRequest;
use crate::report_outbox::{MOST_USAGE_SENT, ReportOutbox};
use crate::smf_sets::owner_route;
use crate::usage_record_owners::LastUsage;
use crate::usage_report_ies::{dated, deletion_report, modification_report, parts, session_report};

/// The pending request that a response is to, and what goes with the response.
#[derive(Clone, Copy)]
pub(crate) struct RespondTo<'a> {
    pub(crate) now: Nanos,
    /// The header of the response.
    pub(crate) header: &'a Header,
    pub(crate) pending: &'a PendingRequest,
    pub(crate) load: LoadInformation,
}

/// Sends responses, with the usage reports of the outbox.
pub(crate) struct SessionResponses<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) outbox: &'a mut ReportOutbox,
}

impl SessionResponses<'_> {
    /// Sends the response to a pending request.
    pub(crate) fn send(&mut self, to: RespondTo<'_>, result: Result<Done, Refusal>) -> Option<Arc<[u8]>> {
        match result {
            Ok(done) => self.send_done(to, &done).or_else(|| self.fail(to, &done)),
            Err(refusal) => self.send_refusal(to, refusal),
        }
    }

    /// Rejects with cause 77 a request that was completed and whose response cannot be encoded. The session is removed:
    /// its control plane would not know it, or its new tunnels and addresses.
    fn fail(&mut self, to: RespondTo<'_>, done: &Done) -> Option<Arc<[u8]>> {
        if to.header.message_type != MessageType::SESSION_DELETION_RESPONSE {
            self.shared.sessions.remove(done.seid, EndCause::Fault);
        }
        self.send_refusal(to, Refusal::Worker)
    }

    fn send_refusal(&mut self, to: RespondTo<'_>, refusal: Refusal) -> Option<Arc<[u8]>> {
        let request = to.pending.request;
        let rejection = reject(refusal, to.pending.restores);
        self.shared
            .note_rejection(to.now, request.path.from, request.header.message_type, &rejection);
        let Reject {
            cause,
            offending,
            rule,
        } = rejection;
        let node = self.shared.config.node.clone();
        let offending = offending.map(OffendingIe::new);
        let rejection = Rejection {
            node: &node,
            cause,
            offending,
            rule,
            load: to.load,
        };
        self.shared
            .send_session_rejection(request.path, to.header, rejection)
    }

    fn send_done(&mut self, to: RespondTo<'_>, done: &Done) -> Option<Arc<[u8]>> {
        match to.header.message_type {
            MessageType::SESSION_ESTABLISHMENT_RESPONSE => self.send_established(to, done),
            MessageType::SESSION_MODIFICATION_RESPONSE => self.send_modified(to, done),
            _ => self.send_deleted(to, done),
        }
    }

    fn send_established(&mut self, to: RespondTo<'_>, done: &Done) -> Option<Arc<[u8]>> {
        let path = to.pending.request.path;
        let allocations = Allocations::of(done);
        let (created, endpoints) = (allocations.pdrs(), allocations.endpoints());
        let node = self.shared.config.node.clone();
        let mut response = SessionEstablishmentResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.up_f_seid = Some(up_f_seid(done.seid, path.to.ip()));
        response.created_pdr = Repeated::new(&created);
        response.created_traffic_endpoint = Repeated::new(&endpoints);
        response.load_control_information = to.load.load;
        response.overload_control_information = to.load.overload;
        let network = Arc::clone(&self.shared.network);
        response.created_nat_binding = created_nat_binding(self.shared, &network, done);
        self.shared.send(path, to.header, &response)
    }

    fn send_modified(&mut self, to: RespondTo<'_>, done: &Done) -> Option<Arc<[u8]>> {
        let (clock, reference) = (self.shared.sessions.wall(), to.pending.reference);
        let allocations = Allocations::of(done);
        let (created, endpoints) = (allocations.pdrs(), allocations.endpoints());
        let updated = allocations.updated_pdrs();
        let report = |usage| modification_report(&usage, clock, reference);
        let (fitting, following) = split(&done.usage);
        let reads_information = self
            .shared
            .config
            .reads_usage_information(to.pending.request.path.from.ip());
        let told = fitting.iter().flat_map(|one| parts(one, reads_information));
        let usage: Vec<_> = told.map(report).collect();
        let status = |one| map::modified_status(one, clock);
        let packets: Vec<_> = done.packets.iter().map(status).collect();
        let mut response = SessionModificationResponse::new(Cause::REQUEST_ACCEPTED);
        response.created_pdr = Repeated::new(&created);
        response.created_traffic_endpoint = Repeated::new(&endpoints);
        response.updated_pdr = Repeated::new(&updated);
        response.load_control_information = to.load.load;
        response.overload_control_information = to.load.overload;
        response.usage_report = Repeated::new(&usage);
        response.additional_usage_reports_information = announced(following, reads_information);
        response.packet_rate_status_report = Repeated::new(&packets);
        let network = Arc::clone(&self.shared.network);
        response.created_nat_binding = created_nat_binding(self.shared, &network, done);
        let sent = self.shared.send(to.pending.request.path, to.header, &response)?;
        if let Some(association) = self
            .shared
            .sessions
            .session(done.seid)
            .map(|one| one.association())
        {
            self.outbox
                .follow(to.now, done.seid, association, following, reference);
        }
        Some(sent)
    }

    fn send_deleted(&mut self, to: RespondTo<'_>, done: &Done) -> Option<Arc<[u8]>> {
        let clock = self.shared.sessions.wall();
        let (unsent, is_unacknowledged) = self.outbox.end(done.seid);
        let mut all = unsent.usage;
        all.extend_from_slice(&done.usage);
        let waits = self.shared.takes_usage_after_deletion(to.pending.association);
        let (fitting, following) = if waits { split(&all) } else { (&all[..], &[][..]) };
        let report = |usage| deletion_report(&usage, clock);
        let reads_information = self
            .shared
            .config
            .reads_usage_information(to.pending.request.path.from.ip());
        let told = fitting.iter().flat_map(|one| parts(one, reads_information));
        let usage: Vec<_> = told.map(report).collect();
        let packets: Vec<_> = done
            .packets
            .iter()
            .map(|one| map::last_status(one, clock))
            .collect();
        let mut response = SessionDeletionResponse::new(if following.is_empty() {
            Cause::REQUEST_ACCEPTED
        } else {
            Cause::MORE_USAGE_REPORT_TO_SEND
        });
        response.usage_report = Repeated::new(&usage);
        response.additional_usage_reports_information = announced(following, reads_information);
        response.load_control_information = to.load.load;
        response.overload_control_information = to.load.overload;
        response.packet_rate_status_report = Repeated::new(&packets);
        response.pfcpsdrsp_flags = is_unacknowledged.then_some(PfcpSdRspFlags::PURU);
        let sent = self.shared.send(to.pending.request.path, to.header, &response)?;
        self.send_remainder(to.now, done, to.pending.association, following);
        Some(sent)
    }

    /// Sends what follows on a Session Deletion Response to the control plane that `cp` was of.
    pub(crate) fn send_remainder(
        &mut self,
        now: Nanos,
        done: &Done,
        association: Option<AssociationId>,
        following: &[UsageReport],
    ) {
        let Some(owner) = association.filter(|_| !following.is_empty()) else {
            return;
        };
        let of = ReportedSession {
            seid: done.seid,
            association: owner,
            cp: Some(done.cp),
        };
        let association = self.shared.associations.get(owner);
        let Some(route) = association.and_then(|association| owner_route(self.shared, association, done.cp))
        else {
            self.shared.counters.events_dropped += 1;
            return self
                .shared
                .usage_unaccepted(now, of, following, Unreported::Unanswered);
        };
        let clock = self.shared.sessions.wall().clone();
        let reads_information = self.shared.config.reads_usage_information(route.path.from.ip());
        let mut messages = following.chunks(MOST_USAGE_SENT).zip(1..).peekable();
        while let Some((part, number)) = messages.next() {
            let usage = dated(part, &clock, reads_information);
            let usage: Vec<_> = usage
                .iter()
                .map(|one| session_report(one, &clock, None))
                .collect();
            let mut report = SessionReportRequest::new(ReportType::USAR);
            report.usage_report = Repeated::new(&usage);
            report.pfcpsrreq_flags = messages.peek().is_none().then_some(PfcpSrReqFlags::PSDBU);
            let kept = self.shared.usage_record_owners.keep(LastUsage::new(of, part));
            let purpose = Purpose::Remainder(kept);
            let sequence = self
                .shared
                .send_request(now, route.path, Some(route.seid), purpose, &report);
            let peer = route.path.from;
            let request = OnItsWay { peer, sequence };
            self.shared.keep_last_usage(kept, number, request);
        }
    }
}

/// What goes into a response, and what follows on it.
fn split(usage: &[UsageReport]) -> (&[UsageReport], &[UsageReport]) {
    usage.split_at(usage.len().min(MOST_USAGE_SENT))
}

/// The number of reports that a response announces. They are fewer than 32,768: a session has 64 URRs.
fn announced(
    following: &[UsageReport],
    reads_information: bool,
) -> Option<AdditionalUsageReportsInformation> {
    let told = following.iter().flat_map(|one| parts(one, reads_information));
    let count = told.count();
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    (count > 0).then_some(AdditionalUsageReportsInformation::Count(count))
}

/// The public address and ports that a session got by this request, if its control plane has asked for them by IEs of
/// the Broadband Forum's. Ports that it gets later are not told.
fn created_nat_binding<'n>(
    shared: &Shared,
    network: &'n Network,
    done: &Done,
) -> Option<CreatedNatBinding<'n>> {
    let AssignedBlock { pool, block } = done.port_block?;
    let chosen = shared.sessions.session(done.seid)?.rules().chosen_nat()?;
    if chosen.policy.is_some() {
        return None;
    }
    let name = network.nat().pools().pool(pool)?.name.as_bytes();
    let ports = block.ports();
    let mut binding = CreatedNatBinding::new();
    binding.port_block = Some(BbfNatPortBlock(name));
    binding.outside_address = Some(BbfNatOutsideAddress(block.address));
    binding.external_port_range = Some(BbfNatExternalPortRange {
        first: *ports.start(),
        last: *ports.end(),
    });
    Some(binding)
}

/// Our F-SEID, at the address that the request reached.
fn up_f_seid(seid: Seid, address: IpAddr) -> FSeid {
    FSeid {
        seid: pfcp::Seid(seid.0),
        ipv4: v4(address),
        ipv6: v6(address),
    }
}
