//! Procedures about sessions (TS 29.244 §6.3): from the request to the sessions, and back to the response.

use flow::Nanos;
use pfcp::group::{PacketRateStatusReport, PacketRateStatusReportSessionModification};
use pfcp::ie::{Cause, FSeid, OffendingIe, PfcpSdRspFlags, PfcpSeReqFlags, QerId, QueryUrrReference};
use pfcp::message::{
    SessionDeletionResponse, SessionEstablishmentRequest, SessionEstablishmentResponse,
    SessionModificationRequest, SessionModificationResponse,
};
use pfcp::{Header, Interfaces, MessageType, Repeated};
use rules::model::UnixSeconds;
use session::{
    AssociationId, Changes, CpFSeid, Done, EndCause, Outcome, PacketRateStatus, Refusal, Seid, WallClock,
};
use std::cell::Cell;
use std::net::IpAddr;

use crate::association::Association;
use crate::cause::{Reject, reject};
use crate::endpoint::{Endpoint, Path, Request};
use crate::load::LoadInformation;
use crate::map::{self, Allocations, Context, Peer};
use crate::remainder::{announced, split};
use crate::serve::Rejection;
use crate::smf_sets::{NamedSets, named_sets};
use crate::source_filter::Verification;
use crate::usage_reports::{deletion_report, modification_report, parts};

/// A request that sessions are at work on.
#[derive(Debug)]
pub(crate) struct PendingRequest {
    request: Request,
    /// Whose request it counts as.
    association: Option<AssociationId>,
    /// The peer's SEID, for a rejection.
    cp_seid: u64,
    /// Whether a session is being restored.
    restores: bool,
    /// Query URR Reference, to be repeated in reports.
    reference: Option<QueryUrrReference>,
    /// The association that takes the session over.
    taker: Option<AssociationId>,
    /// The sets that the session is to belong to.
    sets: Option<Box<NamedSets>>,
    /// The version of the PFDs that the request was read with.
    pfds: u64,
}

impl Endpoint {
    /// Session Establishment (TS 29.244 §6.3.2.3): all of it or nothing.
    pub(crate) fn serve_establishment(
        &mut self,
        now: Nanos,
        request: Request,
        sent: &SessionEstablishmentRequest<'_>,
    ) {
        let cp = cp_f_seid(sent.cp_f_seid);
        let association = match self.establishing(sent, request) {
            Ok(association) => association,
            Err(reject) => {
                return self.reject(
                    now,
                    request.path,
                    &request.header,
                    Some(sent.cp_f_seid.seid),
                    reject,
                );
            }
        };
        if let Some(recovery) = sent.recovery_time_stamp {
            self.observe_recovery(now, association, recovery);
        }
        let cp_seid = Some(sent.cp_f_seid.seid);
        if !self.is_proved(now, (request, cp_seid), association) {
            return;
        }
        let misplaced = Cell::new(0);
        let peer = self.speaks_over(Some(association), &misplaced);
        let sent = &*peer.own(sent);
        let changes = map::establishment(sent, self.context(now, peer, Cause::MANDATORY_IE_MISSING));
        self.counters.misplaced_ies += misplaced.get() as u64;
        match changes {
            Err(reject) => self.reject(
                now,
                request.path,
                &request.header,
                Some(sent.cp_f_seid.seid),
                reject,
            ),
            Ok(changes) => {
                self.counters.unreachable_rates += unreachable_rates(&changes);
                let flags = sent.pfcpsereq_flags;
                let restores = flags.is_some_and(|flags| flags.contains(PfcpSeReqFlags::RESTI));
                let ticket = self.begin(PendingRequest {
                    request,
                    association: Some(association),
                    cp_seid: cp.seid,
                    restores,
                    reference: None,
                    taker: None,
                    sets: named_sets(sent.fq_csid, sent.group_id),
                    pfds: self.pfds.version(),
                });
                self.sessions.establish(now, ticket, association, cp, changes);
            }
        }
    }

    /// Whether an association may have more: else its request is passed over until it answers a heartbeat, or refused
    /// where it does not answer any.
    fn is_proved(
        &mut self,
        now: Nanos,
        (request, cp_seid): (Request, Option<pfcp::Seid>),
        association: AssociationId,
    ) -> bool {
        let proof = self.proof_of(now, association, request.path.from);
        if proof == Verification::Missing {
            let reject = Reject::of(Cause::NO_RESOURCES_AVAILABLE);
            self.reject(now, request.path, &request.header, cp_seid, reject);
        }
        proof == Verification::Done
    }

    fn establishing(
        &mut self,
        sent: &SessionEstablishmentRequest<'_>,
        request: Request,
    ) -> Result<AssociationId, Reject> {
        let association = self.association_of(sent.node_id, request.path)?;
        if self.releases.contains(association) {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if self.no_new_sessions {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        self.admit(association, request.header.priority)?;
        Ok(association)
    }

    /// Session Modification (TS 29.244 §6.3.3.3).
    pub(crate) fn serve_modification(
        &mut self,
        now: Nanos,
        request: Request,
        sent: &SessionModificationRequest<'_>,
    ) {
        let (seid, cp) = match self.addressed(request) {
            Ok(addressed) => addressed,
            Err(reject) => return self.reject(now, request.path, &request.header, None, reject),
        };
        let misplaced = Cell::new(0);
        let owner = self.sessions.session(seid).map(|session| session.association());
        let cp_seid = Some(pfcp::Seid(cp.seid));
        if let Some(owner) = owner.filter(|_| takes_more(sent))
            && !self.is_proved(now, (request, cp_seid), owner)
        {
            return;
        }
        let peer = self.speaks_over(owner, &misplaced);
        let sent = &*peer.own(sent);
        let taker = self.taker(seid, sent, request.path);
        let changes = taker.and_then(|taker| {
            self.check_load()?;
            let context = self.context(now, peer, Cause::CONDITIONAL_IE_MISSING);
            Ok((taker, map::modification(sent, context)?))
        });
        self.counters.misplaced_ies += misplaced.get() as u64;
        match changes {
            Err(reject) => self.reject(
                now,
                request.path,
                &request.header,
                Some(pfcp::Seid(cp.seid)),
                reject,
            ),
            Ok((taker, mut changes)) => {
                if let (Some(slice), Some(session)) = (sent.s_nssai, self.sessions.session(seid)) {
                    map::change_slice(&mut changes, slice, &session, &self.network);
                }
                self.counters.unreachable_rates += unreachable_rates(&changes);
                let reference = sent.query_urr_reference;
                let ticket = self.begin(PendingRequest {
                    request,
                    association: self.sessions.session(seid).map(|session| session.association()),
                    cp_seid: cp.seid,
                    restores: false,
                    reference,
                    taker,
                    sets: named_sets(sent.fq_csid, sent.group_id),
                    pfds: self.pfds.version(),
                });
                self.sessions
                    .modify(now, ticket, seid, sent.cp_f_seid.map(cp_f_seid), changes);
            }
        }
    }

    /// Session Deletion (TS 29.244 §6.3.4.3). Served however many requests are in work: it makes room.
    pub(crate) fn serve_deletion(&mut self, now: Nanos, request: Request) {
        match self.addressed(request) {
            Err(reject) => self.reject(now, request.path, &request.header, None, reject),
            Ok((seid, cp)) => {
                let ticket = self.begin(PendingRequest {
                    request,
                    association: self.sessions.session(seid).map(|session| session.association()),
                    cp_seid: cp.seid,
                    restores: false,
                    reference: None,
                    taker: None,
                    sets: None,
                    pfds: self.pfds.version(),
                });
                self.sessions.delete(now, ticket, seid);
            }
        }
    }

    /// The session that a request's header names, for its own peer: from the addresses of its association, and that of
    /// its CP F-SEID. A stranger without a session of ours has no association either.
    fn addressed(&mut self, request: Request) -> Result<(Seid, CpFSeid), Reject> {
        let seid = Seid(request.header.seid.unwrap_or_default().0);
        let from = request.path.from.ip();
        if let Some(session) = self.sessions.session(seid) {
            let association = self.associations.get(session.association());
            let is_peer = association.is_some_and(|association| association.is_at(from));
            let may = is_peer || has_address(session.cp(), from) || self.config.any_source;
            if may || self.is_member(session.association(), from) {
                return Ok((seid, session.cp()));
            }
            self.counters.unauthorised += 1;
        }
        if self.associations.knows(from) {
            Err(Reject::of(Cause::SESSION_CONTEXT_NOT_FOUND))
        } else {
            Err(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION))
        }
    }

    /// Over which reference points the peer of an association speaks, and what it can read.
    fn speaks_over<'a>(&self, association: Option<AssociationId>, misplaced: &'a Cell<usize>) -> Peer<'a> {
        let association = association.and_then(|id| self.associations.get(id));
        let of = |one: &Association| self.config.interfaces_of(one.peer.ip());
        let reads = |one: &Association| self.config.reads_usage_information(one.peer.ip());
        Peer {
            interfaces: association.map_or(Interfaces::ANY, of),
            reads_usage_information: association.is_none_or(reads),
            misplaced,
        }
    }

    fn context<'a>(&'a self, now: Nanos, peer: Peer<'a>, missing: Cause) -> Context<'a> {
        Context {
            peer,
            missing,
            now: UnixSeconds(self.sessions.wall().unix_seconds(now.into())),
            clock: now,
            wall: self.sessions.wall(),
            network: &self.network,
            unknown_instance: self.config.unknown_instance,
            pools: &self.config.sessions.pools,
            pfds: &self.pfds,
            descriptions: &self.descriptions,
            predefined: &self.config.sessions.predefined,
        }
    }

    fn begin(&mut self, in_work: PendingRequest) -> session::Ticket {
        let ticket = self.new_ticket();
        self.responses
            .begin(in_work.request.key, in_work.request.digest, ticket);
        self.count_work(in_work.association, true);
        self.in_work.insert(ticket, in_work);
        ticket
    }

    /// A session is done with a request.
    pub(crate) fn serve_outcome(&mut self, now: Nanos, outcome: Outcome) {
        let Some(mut in_work) = self.in_work.remove(&outcome.ticket) else {
            if let Some(leaver) = self.releases.left(outcome.ticket) {
                self.session_left(now, leaver, outcome.result);
            } else if let Some(seid) = self.followers.followed(outcome.ticket) {
                self.session_followed(now, seid, outcome.result);
            } else {
                self.transferred(now, outcome);
            }
            return;
        };
        self.count_work(in_work.association, false);
        let Some(message_type) = in_work.request.header.message_type.response() else {
            return;
        };
        let sequence = in_work.request.header.sequence;
        let seid = match &outcome.result {
            Ok(done) => done.cp.seid,
            Err(Refusal::NotFound | Refusal::Gone) => 0,
            Err(_) => in_work.cp_seid,
        };
        if let Ok(done) = &outcome.result {
            self.move_between_sets(done.seid, &mut in_work);
        }
        let mut header = Header::session(message_type, pfcp::Seid(seid), sequence);
        header.priority = in_work.request.header.priority;
        let load = self.load_information(now, in_work.association);
        if let Ok(done) = &outcome.result {
            self.downlink_changed(done.seid);
        }
        let done = outcome.result.as_ref().ok().map(|done| done.seid);
        let bytes = match outcome.result {
            Ok(done) => self
                .send_done(now, &header, (&in_work, &done), load)
                .or_else(|| self.fail(now, &header, (&in_work, &done), load)),
            Err(refusal) => self.send_refusal(now, &header, (&in_work, refusal), load),
        };
        self.counters.answered += 1;
        let key = in_work.request.key;
        match bytes {
            Some(bytes) => self.responses.finish(now, key, outcome.ticket, bytes),
            None => self.responses.abandon(&key, outcome.ticket),
        }
        if let Some(seid) = done {
            if self.pfds.version() > 0 {
                self.note_applications(seid);
            }
            self.check_pfds(now, seid, in_work.pfds);
        }
    }

    /// What a request that was done says of who controls the session.
    fn move_between_sets(&mut self, seid: Seid, in_work: &mut PendingRequest) {
        if let Some(taker) = in_work.taker {
            self.sessions.hand_over(seid, taker);
            self.reports.hand_over(seid, taker);
        }
        if let Some(sets) = in_work.sets.take() {
            self.assign(seid, *sets);
        }
    }

    /// Rejects with cause 77 what was done and cannot be told. A session goes that its owner will never know of, or of
    /// whose new tunnels and addresses he will not: better none than one whose rules he was told do not apply.
    fn fail(
        &mut self,
        now: Nanos,
        header: &Header,
        (in_work, done): (&PendingRequest, &Done),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        if header.message_type != MessageType::SESSION_DELETION_RESPONSE {
            self.sessions.remove(done.seid, EndCause::Fault);
        }
        self.send_refusal(now, header, (in_work, Refusal::Worker), load)
    }

    fn send_refusal(
        &mut self,
        now: Nanos,
        header: &Header,
        (in_work, refusal): (&PendingRequest, Refusal),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        let request = in_work.request;
        let rejection = reject(refusal, in_work.restores);
        self.note_refusal(now, (request.path.from, request.header.message_type), &rejection);
        let Reject {
            cause,
            offending,
            rule,
        } = rejection;
        let node = self.config.node.clone();
        let offending = offending.map(OffendingIe::new);
        let rejection = Rejection {
            node: &node,
            cause,
            offending,
            rule,
            load,
        };
        self.send_session_rejection(in_work.request.path, header, rejection)
    }

    pub(crate) fn send_session_rejection(
        &mut self,
        path: Path,
        header: &Header,
        Rejection {
            node,
            cause,
            offending,
            rule,
            load,
        }: Rejection<'_>,
    ) -> Option<std::sync::Arc<[u8]>> {
        match header.message_type {
            MessageType::SESSION_ESTABLISHMENT_RESPONSE => {
                let mut response = SessionEstablishmentResponse::new(node.as_ie(), cause);
                response.offending_ie = offending;
                (
                    response.load_control_information,
                    response.overload_control_information,
                ) = load;
                response.failed_rule_id = rule;
                self.send(path, header, &response)
            }
            MessageType::SESSION_MODIFICATION_RESPONSE => {
                let mut response = SessionModificationResponse::new(cause);
                response.offending_ie = offending;
                (
                    response.load_control_information,
                    response.overload_control_information,
                ) = load;
                response.failed_rule_id = rule;
                self.send(path, header, &response)
            }
            MessageType::SESSION_DELETION_RESPONSE => {
                let mut response = SessionDeletionResponse::new(cause);
                response.offending_ie = offending;
                (
                    response.load_control_information,
                    response.overload_control_information,
                ) = load;
                self.send(path, header, &response)
            }
            _ => None,
        }
    }

    fn send_done(
        &mut self,
        now: Nanos,
        header: &Header,
        (in_work, done): (&PendingRequest, &Done),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        match header.message_type {
            MessageType::SESSION_ESTABLISHMENT_RESPONSE => {
                self.send_established(header, (in_work, done), load)
            }
            MessageType::SESSION_MODIFICATION_RESPONSE => {
                self.send_modified(now, header, (in_work, done), load)
            }
            _ => self.send_deleted(now, header, (in_work, done), load),
        }
    }

    fn send_established(
        &mut self,
        header: &Header,
        (in_work, done): (&PendingRequest, &Done),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        let path = in_work.request.path;
        let allocations = Allocations::of(done);
        let (created, endpoints) = (allocations.pdrs(), allocations.endpoints());
        let node = self.config.node.clone();
        let mut response = SessionEstablishmentResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.up_f_seid = Some(up_f_seid(done.seid, path.to.ip()));
        response.created_pdr = Repeated::new(&created);
        response.created_traffic_endpoint = Repeated::new(&endpoints);
        (
            response.load_control_information,
            response.overload_control_information,
        ) = load;
        self.send(path, header, &response)
    }

    fn send_modified(
        &mut self,
        now: Nanos,
        header: &Header,
        (in_work, done): (&PendingRequest, &Done),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        let (clock, reference) = (self.sessions.wall(), in_work.reference);
        let allocations = Allocations::of(done);
        let (created, endpoints) = (allocations.pdrs(), allocations.endpoints());
        let updated = allocations.updated_pdrs();
        let report = |usage| modification_report(&usage, clock, reference);
        let (fitting, following) = split(&done.usage);
        let reads_information = self
            .config
            .reads_usage_information(in_work.request.path.from.ip());
        let told = fitting.iter().flat_map(|one| parts(one, reads_information));
        let usage: Vec<_> = told.map(report).collect();
        let status = |one| modified_status(one, clock);
        let packets: Vec<_> = done.packets.iter().map(status).collect();
        let mut response = SessionModificationResponse::new(Cause::REQUEST_ACCEPTED);
        response.created_pdr = Repeated::new(&created);
        response.created_traffic_endpoint = Repeated::new(&endpoints);
        response.updated_pdr = Repeated::new(&updated);
        (
            response.load_control_information,
            response.overload_control_information,
        ) = load;
        response.usage_report = Repeated::new(&usage);
        response.additional_usage_reports_information = announced(following, reads_information);
        response.packet_rate_status_report = Repeated::new(&packets);
        let sent = self.send(in_work.request.path, header, &response)?;
        if let Some(association) = self.sessions.session(done.seid).map(|one| one.association()) {
            self.reports
                .follow(now, (done.seid, association), following, reference);
        }
        Some(sent)
    }

    fn send_deleted(
        &mut self,
        now: Nanos,
        header: &Header,
        (in_work, done): (&PendingRequest, &Done),
        load: LoadInformation,
    ) -> Option<std::sync::Arc<[u8]>> {
        let clock = self.sessions.wall();
        let (unsent, is_unacknowledged) = self.reports.end(done.seid);
        let mut all = unsent.usage;
        all.extend_from_slice(&done.usage);
        let waits = self.waits_for_usage(in_work.association);
        let (fitting, following) = if waits { split(&all) } else { (&all[..], &[][..]) };
        let report = |usage| deletion_report(&usage, clock);
        let reads_information = self
            .config
            .reads_usage_information(in_work.request.path.from.ip());
        let told = fitting.iter().flat_map(|one| parts(one, reads_information));
        let usage: Vec<_> = told.map(report).collect();
        let packets: Vec<_> = done.packets.iter().map(|one| last_status(one, clock)).collect();
        let mut response = SessionDeletionResponse::new(if following.is_empty() {
            Cause::REQUEST_ACCEPTED
        } else {
            Cause::MORE_USAGE_REPORT_TO_SEND
        });
        response.usage_report = Repeated::new(&usage);
        response.additional_usage_reports_information = announced(following, reads_information);
        (
            response.load_control_information,
            response.overload_control_information,
        ) = load;
        response.packet_rate_status_report = Repeated::new(&packets);
        response.pfcpsdrsp_flags = is_unacknowledged.then_some(PfcpSdRspFlags::PURU);
        let sent = self.send(in_work.request.path, header, &response)?;
        self.send_remainder(now, done.seid, (in_work.association, done.cp), following);
        Some(sent)
    }
}

/// Whether a modification may make a session take more tunnels or addresses.
fn takes_more(sent: &SessionModificationRequest<'_>) -> bool {
    !sent.create_pdr.is_empty()
        || !sent.update_pdr.is_empty()
        || !sent.create_traffic_endpoint.is_empty()
        || !sent.update_traffic_endpoint.is_empty()
}

/// For a Session Modification Response (TS 29.244 Table 7.5.5.4-1).
fn modified_status(
    status: &PacketRateStatus,
    clock: &WallClock,
) -> PacketRateStatusReportSessionModification<'static> {
    PacketRateStatusReportSessionModification::new(QerId(status.qer.0), map::status_ie(status, clock))
}

/// For a Session Deletion Response (TS 29.244 Table 7.5.7.1-2).
pub(crate) fn last_status(status: &PacketRateStatus, clock: &WallClock) -> PacketRateStatusReport<'static> {
    PacketRateStatusReport::new(QerId(status.qer.0), map::status_ie(status, clock))
}

/// Whether the control plane's F-SEID is at `address`.
fn has_address(cp: CpFSeid, address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(address) => cp.ipv4 == Some(address),
        IpAddr::V6(address) => cp.ipv6 == Some(address),
    }
}

/// Of a control plane's addresses that of the family of `like`.
pub(crate) fn address_of(
    (ipv4, ipv6): (Option<std::net::Ipv4Addr>, Option<std::net::Ipv6Addr>),
    like: IpAddr,
) -> Option<IpAddr> {
    let (ipv4, ipv6) = (ipv4.map(IpAddr::V4), ipv6.map(IpAddr::V6));
    if like.is_ipv4() { ipv4 } else { ipv6 }
}

pub(crate) fn cp_f_seid(sent: FSeid) -> CpFSeid {
    CpFSeid {
        seid: sent.seid.0,
        ipv4: sent.ipv4,
        ipv6: sent.ipv6,
    }
}

/// Our F-SEID, at the address that the request reached.
fn up_f_seid(seid: Seid, address: IpAddr) -> FSeid {
    FSeid {
        seid: pfcp::Seid(seid.0),
        ipv4: v4(address),
        ipv6: v6(address),
    }
}

pub(crate) fn v4(address: IpAddr) -> Option<std::net::Ipv4Addr> {
    match address {
        IpAddr::V4(address) => Some(address),
        IpAddr::V6(_) => None,
    }
}

pub(crate) fn v6(address: IpAddr) -> Option<std::net::Ipv6Addr> {
    match address {
        IpAddr::V4(_) => None,
        IpAddr::V6(address) => Some(address),
    }
}

/// The QERs of a request whose new rates are beyond what anything reaches.
fn unreachable_rates(changes: &Changes) -> u64 {
    let created = changes.create_qers.iter().filter(|qer| qer.is_beyond_reach());
    let updated = changes
        .update_qers
        .iter()
        .filter(|update| update.is_beyond_reach());
    (created.count() + updated.count()) as u64
}
