//! Procedures of sessions (TS 29.244 §6.3): from the request to the sessions, and from their outcome to the response.

use flow::Nanos;
use pfcp::ie::{Cause, PfcpSeReqFlags};
use pfcp::message::{SessionEstablishmentRequest, SessionModificationRequest};
use pfcp::{Header, Interfaces, MessageType};
use rules::model::UnixSeconds;
use session::{AssociationId, Changes, CpFSeid, Outcome, Refusal, Seid};
use std::cell::Cell;

use crate::association::Association;
use crate::association_control::AssociationControl;
use crate::cause::Reject;
use crate::endpoint_state::Shared;
use crate::ie_addresses::{cp_f_seid, has_address};
use crate::map::{self, Context, Peer};
use crate::named_sets::{assign, named_sets};
use crate::pending_requests::PendingRequest;
use crate::pfd_management::PfdManagement;
use crate::reporting::Reporting;
use crate::session_responses::{RespondTo, SessionResponses};
use crate::smf_sets::{is_member, taker};
use crate::source_filter::Verification;
use crate::transactions::Request;

/// What the procedures of sessions work with.
pub(crate) struct SessionProcedures<'a> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) control: &'a mut AssociationControl,
    pub(crate) reporting: &'a mut Reporting,
    pub(crate) pfds: &'a mut PfdManagement,
}

impl SessionProcedures<'_> {
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
                return self.shared.reject(
                    now,
                    request.path,
                    &request.header,
                    Some(sent.cp_f_seid.seid),
                    reject,
                );
            }
        };
        if let Some(recovery) = sent.recovery_time_stamp {
            self.control
                .observe_recovery(self.shared, now, association, recovery);
        }
        let cp_seid = Some(sent.cp_f_seid.seid);
        if !self.is_verified(now, request, cp_seid, association) {
            return;
        }
        let misplaced = Cell::new(0);
        let peer = self.speaks_over(Some(association), &misplaced);
        let sent = &*peer.own(sent);
        let changes = map::establishment(sent, self.context(now, peer, Cause::MANDATORY_IE_MISSING));
        self.shared.counters.misplaced_ies += misplaced.get() as u64;
        match changes {
            Err(reject) => self.shared.reject(
                now,
                request.path,
                &request.header,
                Some(sent.cp_f_seid.seid),
                reject,
            ),
            Ok(changes) => {
                self.shared.counters.unreachable_rates += unreachable_rates(&changes);
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
                    pfds: self.pfds.pfds.version(),
                });
                self.shared
                    .sessions
                    .establish(now, ticket, association, cp, changes);
            }
        }
    }

    /// Whether an association may have more: else its request is passed over until it answers a heartbeat, or refused
    /// where it does not answer any.
    fn is_verified(
        &mut self,
        now: Nanos,
        request: Request,
        cp_seid: Option<pfcp::Seid>,
        association: AssociationId,
    ) -> bool {
        let from = request.path.from;
        let verification = self.control.verification_of(self.shared, now, association, from);
        if verification == Verification::Missing {
            let reject = Reject::of(Cause::NO_RESOURCES_AVAILABLE);
            self.shared
                .reject(now, request.path, &request.header, cp_seid, reject);
        }
        verification == Verification::Done
    }

    fn establishing(
        &mut self,
        sent: &SessionEstablishmentRequest<'_>,
        request: Request,
    ) -> Result<AssociationId, Reject> {
        let association = self.shared.association_of(sent.node_id, request.path)?;
        if self.control.releases.contains(association) {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        if self.shared.refuses_sessions {
            return Err(Reject::of(Cause::NO_RESOURCES_AVAILABLE));
        }
        self.shared.check_keeping()?;
        self.shared.admit(association, request.header.priority)?;
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
            Err(reject) => return self.shared.reject_request(now, request, reject),
        };
        let misplaced = Cell::new(0);
        let owner = self
            .shared
            .sessions
            .session(seid)
            .map(|session| session.association());
        let cp_seid = Some(pfcp::Seid(cp.seid));
        if let Some(owner) = owner.filter(|_| takes_more(sent))
            && !self.is_verified(now, request, cp_seid, owner)
        {
            return;
        }
        let peer = self.speaks_over(owner, &misplaced);
        let sent = &*peer.own(sent);
        let taker = taker(self.shared, seid, sent, request.path);
        let changes = taker.and_then(|taker| {
            self.shared.check_load()?;
            self.shared.check_keeping()?;
            let context = self.context(now, peer, Cause::CONDITIONAL_IE_MISSING);
            Ok((taker, map::modification(sent, context)?))
        });
        self.shared.counters.misplaced_ies += misplaced.get() as u64;
        match changes {
            Err(reject) => self.shared.reject(
                now,
                request.path,
                &request.header,
                Some(pfcp::Seid(cp.seid)),
                reject,
            ),
            Ok((taker, mut changes)) => {
                if let (Some(slice), Some(session)) = (sent.s_nssai, self.shared.sessions.session(seid)) {
                    map::change_slice(&mut changes, slice, &session, &self.shared.network);
                }
                self.shared.counters.unreachable_rates += unreachable_rates(&changes);
                let ticket = self.begin(PendingRequest {
                    reference: sent.query_urr_reference,
                    taker,
                    sets: named_sets(sent.fq_csid, sent.group_id),
                    ..self.pending(request, seid, cp)
                });
                self.shared
                    .sessions
                    .modify(now, ticket, seid, sent.cp_f_seid.map(cp_f_seid), changes);
            }
        }
    }

    /// Session Deletion (TS 29.244 §6.3.4.3). Served however many requests are in work: it makes room.
    pub(crate) fn serve_deletion(&mut self, now: Nanos, request: Request) {
        match self.addressed(request) {
            Err(reject) => self.shared.reject_request(now, request, reject),
            Ok((seid, cp)) => {
                let ticket = self.begin(self.pending(request, seid, cp));
                self.shared.sessions.delete(now, ticket, seid);
            }
        }
    }

    /// A request about a session that exists.
    fn pending(&self, request: Request, seid: Seid, cp: CpFSeid) -> PendingRequest {
        let session = self.shared.sessions.session(seid);
        PendingRequest {
            request,
            association: session.map(|session| session.association()),
            cp_seid: cp.seid,
            restores: false,
            reference: None,
            taker: None,
            sets: None,
            pfds: self.pfds.pfds.version(),
        }
    }

    /// The session that a request's header names, for its own peer: from the addresses of its association, and that of
    /// its CP F-SEID. A sender without an association gets cause 72.
    fn addressed(&mut self, request: Request) -> Result<(Seid, CpFSeid), Reject> {
        let seid = Seid(request.header.seid.unwrap_or_default().0);
        let from = request.path.from.ip();
        if let Some(session) = self.shared.sessions.session(seid) {
            let association = self.shared.associations.get(session.association());
            let is_peer = association.is_some_and(|association| association.is_at(from));
            let may = is_peer || has_address(session.cp(), from) || self.shared.config.any_source;
            if may || is_member(self.shared, session.association(), from) {
                return Ok((seid, session.cp()));
            }
            self.shared.counters.unauthorised += 1;
        }
        if self.shared.associations.knows(from) {
            Err(Reject::of(Cause::SESSION_CONTEXT_NOT_FOUND))
        } else {
            Err(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION))
        }
    }

    /// Over which reference points the peer of an association speaks, and what it can read.
    fn speaks_over<'a>(&self, association: Option<AssociationId>, misplaced: &'a Cell<usize>) -> Peer<'a> {
        let association = association.and_then(|id| self.shared.associations.get(id));
        let of = |one: &Association| self.shared.config.interfaces_of(one.peer.ip());
        let reads = |one: &Association| self.shared.config.reads_usage_information(one.peer.ip());
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
            now: UnixSeconds(self.shared.sessions.wall().unix_seconds(now.into())),
            clock: now,
            wall: self.shared.sessions.wall(),
            network: &self.shared.network,
            unknown_instance: self.shared.config.unknown_instance,
            pools: &self.shared.config.sessions.pools,
            pfds: &self.pfds.pfds,
            descriptions: &self.pfds.descriptions,
            predefined: &self.shared.config.sessions.predefined,
        }
    }

    fn begin(&mut self, pending: PendingRequest) -> session::Ticket {
        let ticket = self.shared.new_ticket();
        self.shared.transactions.begin(pending.request, ticket);
        self.shared.pending.insert(ticket, pending);
        ticket
    }

    /// The sessions have completed a pending request.
    pub(crate) fn complete(&mut self, now: Nanos, mut pending: PendingRequest, outcome: Outcome) {
        let Some(message_type) = pending.request.header.message_type.response() else {
            return;
        };
        let sequence = pending.request.header.sequence;
        let seid = match &outcome.result {
            Ok(done) => done.cp.seid,
            Err(Refusal::NotFound | Refusal::Gone) => 0,
            Err(_) => pending.cp_seid,
        };
        if let Ok(done) = &outcome.result {
            self.move_between_sets(done.seid, &mut pending);
        }
        let mut header = Header::session(message_type, pfcp::Seid(seid), sequence);
        header.priority = pending.request.header.priority;
        let load = self.shared.load_information(now, pending.association);
        if let Ok(done) = &outcome.result {
            self.reporting
                .sessions
                .downlink
                .rules_changed(self.shared, done.seid);
        }
        let done = outcome.result.as_ref().ok().map(|done| done.seid);
        let mut responses = SessionResponses {
            shared: self.shared,
            outbox: &mut self.reporting.sessions.outbox,
        };
        let to = RespondTo {
            now,
            header: &header,
            pending: &pending,
            load,
        };
        let bytes = responses.send(to, outcome.result);
        self.shared.counters.answered += 1;
        let key = pending.request.key;
        if let (Some(seid), Some(bytes)) = (done, &bytes)
            && message_type != MessageType::SESSION_ESTABLISHMENT_RESPONSE
        {
            self.shared.keep_response(now, key, seid, bytes);
        }
        self.shared.transactions.finish(now, key, outcome.ticket, bytes);
        if let Some(seid) = done {
            if self.pfds.pfds.version() > 0 {
                self.pfds.note_applications(self.shared, seid);
            }
            self.pfds.check_pfds(self.shared, now, seid, pending.pfds);
        }
    }

    /// What a request that was done says of who controls the session.
    fn move_between_sets(&mut self, seid: Seid, pending: &mut PendingRequest) {
        if let Some(taker) = pending.taker {
            self.shared.sessions.hand_over(seid, taker);
            self.reporting.sessions.outbox.hand_over(seid, taker);
        }
        if let Some(sets) = pending.sets.take() {
            assign(&mut self.shared.sessions, seid, *sets);
        }
    }
}

/// Whether a modification may make a session take more tunnels or addresses.
fn takes_more(sent: &SessionModificationRequest<'_>) -> bool {
    !sent.create_pdr.is_empty()
        || !sent.update_pdr.is_empty()
        || !sent.create_traffic_endpoint.is_empty()
        || !sent.update_traffic_endpoint.is_empty()
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
