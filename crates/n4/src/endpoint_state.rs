//! The state that all procedures use: configuration, sessions, associations, transactions and what is counted; and what
//! every procedure does with it: check a sender, respond, reject, send a request.

use flow::Nanos;
use pfcp::ie::{Cause, CpFunctionFeatures, NodeId, OffendingIe, RecoveryTimeStamp, UpFunctionFeatures};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, AssociationUpdateResponse, Body,
    PfdManagementResponse, SessionDeletionResponse, SessionEstablishmentResponse,
    SessionModificationResponse, SessionSetDeletionResponse, SessionSetModificationResponse,
};
use pfcp::{Header, IeType, MessageType};
use rules::network::Network;
use session::{
    AssociationId, ReportedSession, ResponseRecord, Seid, Sessions, Ticket, Unreported, UsageReport,
};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::association::{Association, Associations};
use crate::cause::Reject;
use crate::config::Config;
use crate::datagram_counters::Counters;
use crate::event_log::{EventLog, LogEvent};
use crate::features::up_function_features;
use crate::journal::Journal;
use crate::kept_responses::KeptResponses;
use crate::kept_usage::KeptUsage;
use crate::load::{Load, LoadInformation, is_turned_away, percent};
use crate::node::NodeName;
use crate::own_requests::Purpose;
use crate::pending_requests::PendingRequests;
use crate::response_cache::RequestKey;
use crate::transactions::{Path, Request, Transactions};
use crate::usage_record_owners::{UsageEntry, UsageRecordOwners};

/// What all procedures use.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) network: Arc<Network>,
    pub(crate) sessions: Sessions,
    pub(crate) associations: Associations,
    pub(crate) transactions: Transactions,
    pub(crate) pending: PendingRequests,
    pub(crate) load: Load,
    pub(crate) usage_record_owners: UsageRecordOwners,
    pub(crate) log: EventLog,
    /// What has changed and is to be kept.
    pub(crate) journal: Journal,
    /// Responses that are to be kept.
    pub(crate) kept_responses: KeptResponses,
    /// Usage of sessions that are gone, on its way and kept.
    pub(crate) kept_usage: KeptUsage,
    /// Whether changes cannot be kept at present.
    pub(crate) keeping_fails: bool,
    /// Whether sessions are yet to come from a store.
    pub(crate) is_restoring: bool,
    pub(crate) counters: Counters,
    /// The number of the last ticket.
    pub(crate) last_ticket: u64,
    /// Whether new sessions are rejected.
    pub(crate) refuses_sessions: bool,
}

impl Shared {
    /// A number for a request on a session.
    pub(crate) fn new_ticket(&mut self) -> Ticket {
        self.last_ticket += 1;
        Ticket(self.last_ticket)
    }

    /// How many changes there have been that are to be kept.
    pub(crate) fn changes(&self) -> u64 {
        self.journal.changes() + self.sessions.changes()
    }

    /// A session was modified or deleted: the response is kept, where anything is, for as long as the request may be
    /// repeated.
    pub(crate) fn keep_response(&mut self, now: Nanos, key: RequestKey, seid: Seid, octets: &[u8]) {
        if !self.journal.is_kept() {
            return;
        }
        let record = ResponseRecord {
            peer: key.peer,
            sequence: key.sequence,
            message_type: key.message_type,
            seid: seid.0,
            unix_ms: self.sessions.wall().unix_nanos(now.into()) / 1_000_000,
            octets: octets.to_vec(),
        };
        if MessageType(key.message_type) == MessageType::SESSION_DELETION_REQUEST {
            let over = self.kept_responses.keep_deleted(now, seid);
            self.journal.responded(seid, record, over);
        } else {
            self.kept_responses.keep_live(now, seid, record);
            self.sessions.mark(seid);
        }
    }

    /// When the oldest response was made whose request may be repeated: milliseconds since 1970.
    pub(crate) fn oldest_response_ms(&self, now: Nanos) -> u64 {
        let age = self.kept_responses.age().as_millis() as u64;
        (self.sessions.wall().unix_nanos(now.into()) / 1_000_000).saturating_sub(age)
    }

    /// Whether a change could be kept.
    ///
    /// # Errors
    /// Cause 77 (System failure).
    pub(crate) fn check_keeping(&self) -> Result<(), Reject> {
        match self.keeping_fails {
            true => Err(Reject::of(Cause::SYSTEM_FAILURE)),
            false => Ok(()),
        }
    }

    /// Our Recovery Time Stamp.
    pub(crate) fn recovery(&self) -> RecoveryTimeStamp {
        RecoveryTimeStamp::from_unix(self.config.recovery_unix)
    }

    /// The UP Function Features that a peer at `address` receives, which has these of its own.
    pub(crate) fn features_for(&self, address: IpAddr, peer: CpFunctionFeatures) -> UpFunctionFeatures {
        let interfaces = self.config.interfaces_of(address);
        up_function_features(&self.config, &self.network, interfaces, peer)
    }

    /// The path of our own requests to `peer`, an address of the association's peer.
    pub(crate) fn path_to(&self, association: &Association, peer: IpAddr) -> Path {
        Path {
            from: SocketAddr::new(peer, self.config.peer_port),
            to: association.local,
        }
    }

    /// The same to the address that the association was set up from.
    pub(crate) fn path_of(&self, association: &Association) -> Path {
        self.path_to(association, association.peer.ip())
    }

    /// The association with the node that `node_id` names, if the request comes from an address of that node's.
    ///
    /// # Errors
    /// Cause 69 (Mandatory IE incorrect) or 72 (No established PFCP association).
    pub(crate) fn association_of(
        &mut self,
        node_id: NodeId<'_>,
        path: Path,
    ) -> Result<AssociationId, Reject> {
        let node = NodeName::of(node_id).ok_or(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID))?;
        let unknown = Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
        let association = self.associations.by_node(&node).ok_or(unknown)?;
        if self.config.any_source || association.is_at(path.from.ip()) {
            return Ok(association.id);
        }
        self.counters.unauthorised += 1;
        Err(unknown)
    }

    /// Whether a request about the node, which may name its sender, comes from a peer.
    ///
    /// # Errors
    /// Cause 72 (No established PFCP association).
    pub(crate) fn check_known(
        &mut self,
        request: Request,
        node_id: Option<NodeId<'_>>,
    ) -> Result<(), Reject> {
        match node_id {
            Some(node_id) => self.association_of(node_id, request.path).map(drop),
            None if self.associations.knows(request.path.from.ip()) => Ok(()),
            None => Err(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION)),
        }
    }

    /// Whether the sender of a request that [`check_known`](Self::check_known) has let pass takes partial acceptance of
    /// PFDs (PAPFD, §5.42): without a Node ID all that may be it.
    pub(crate) fn takes_partial_pfds(&self, request: Request, node_id: Option<NodeId<'_>>) -> bool {
        let takes = |one: &Association| one.features.contains(CpFunctionFeatures::PAPFD);
        match node_id.map(NodeName::of) {
            Some(node) => node
                .and_then(|node| self.associations.by_node(&node))
                .is_some_and(takes),
            None => {
                let address = request.path.from.ip();
                let mut senders = self.associations.iter().filter(|one| one.is_at(address));
                senders.all(takes)
            }
        }
    }

    /// Sends a message; counts one that is longer than a message may be.
    pub(crate) fn send<'m, B: Body<'m>>(
        &mut self,
        path: Path,
        header: &Header,
        body: &B,
    ) -> Option<Arc<[u8]>> {
        let bytes = self.transactions.send(path, header, body);
        self.counters.unencodable += u64::from(bytes.is_none());
        bytes
    }

    /// Sends a request of ours, and gives its sequence number.
    pub(crate) fn send_request<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        path: Path,
        seid: Option<pfcp::Seid>,
        purpose: Purpose,
        body: &B,
    ) -> u32 {
        let sequence = self.transactions.requests_mut().next_sequence(path.from);
        self.send_request_as(now, path, seid, sequence, purpose, body);
        sequence
    }

    /// The same under a number that no outstanding request to the peer has.
    pub(crate) fn send_request_as<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        path: Path,
        seid: Option<pfcp::Seid>,
        sequence: u32,
        purpose: Purpose,
        body: &B,
    ) {
        let transactions = &mut self.transactions;
        if transactions.send_request(now, path, seid, sequence, purpose, body) {
            self.counters.requests += 1;
        } else {
            self.counters.unencodable += 1;
        }
    }

    /// Responds to a request that changed something: the response is kept for retransmissions.
    pub(crate) fn respond<'m, B: Body<'m>>(&mut self, now: Nanos, request: Request, body: &B) {
        let ticket = self.new_ticket();
        self.transactions.begin(request, ticket);
        self.conclude(now, request, ticket, body);
    }

    /// Responds to a request that `ticket` began.
    pub(crate) fn conclude<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        request: Request,
        ticket: Ticket,
        body: &B,
    ) {
        let header = Header {
            seid: None,
            priority: None,
            follow_on: false,
            ..request.header
        };
        let bytes = self.send(request.path, &header, body);
        self.transactions.finish(now, request.key, ticket, bytes);
        self.counters.answered += 1;
    }

    /// Rejects a request of a node, or one whose peer's SEID is unknown.
    pub(crate) fn reject_request(&mut self, now: Nanos, request: Request, reject: Reject) {
        self.reject(now, request.path, &request.header, None, reject);
    }

    /// Counts and logs a rejection.
    pub(crate) fn note_rejection(
        &mut self,
        now: Nanos,
        peer: SocketAddr,
        request: MessageType,
        reject: &Reject,
    ) {
        self.counters.rejected += 1;
        self.transactions.messages_mut().refuse(request, reject.cause);
        let event = LogEvent::RequestRejected {
            peer,
            request,
            cause: reject.cause,
            ie: reject.offending,
            rule: reject.rule,
        };
        self.log.push(now, event);
    }

    /// Rejects a request before it has changed anything. `seid` is the peer's, as far as it is known. A retransmission
    /// gets the same response, also where another moment would have another: what the peer gave up must not be done.
    /// Otherwise making the response again gives the same, so that it need not be kept.
    pub(crate) fn reject(
        &mut self,
        now: Nanos,
        path: Path,
        header: &Header,
        seid: Option<pfcp::Seid>,
        reject: Reject,
    ) {
        let Some(message_type) = header.message_type.response() else {
            return;
        };
        self.note_rejection(now, path.from, header.message_type, &reject);
        let Reject {
            cause,
            offending,
            rule,
        } = reject;
        let priority = header.priority;
        let mut header = Header::node(message_type, header.sequence);
        header.seid = message_type.is_session().then_some(seid.unwrap_or_default());
        header.priority = priority;
        let load = match cause {
            Cause::PFCP_ENTITY_IN_CONGESTION => {
                let peer = self.associations.by_source(path.from).map(|one| one.id);
                self.load_information(now, peer)
            }
            _ => Default::default(),
        };
        let offending = offending.map(OffendingIe::new);
        let node = self.config.node.clone();
        let rejection = Rejection {
            node: &node,
            cause,
            offending,
            rule,
            load,
        };
        self.counters.answered += 1;
        self.transactions.hold_back(cause != Cause::SYSTEM_FAILURE);
        let sent = self.send_rejection(path, &header, rejection);
        self.transactions.hold_back(true);
        let depends_on_the_moment = [
            Cause::NO_ESTABLISHED_PFCP_ASSOCIATION,
            Cause::PFCP_ENTITY_IN_CONGESTION,
            Cause::NO_RESOURCES_AVAILABLE,
        ];
        let is_kept = depends_on_the_moment.contains(&cause) && self.associations.knows(path.from.ip());
        self.transactions.finish_rejected(now, is_kept, sent);
    }

    fn send_rejection(&mut self, path: Path, header: &Header, rejection: Rejection<'_>) -> Option<Arc<[u8]>> {
        use pfcp::MessageType as Type;
        let Rejection {
            node,
            cause,
            offending,
            ..
        } = rejection;
        let node = node.as_ie();
        match header.message_type {
            Type::ASSOCIATION_SETUP_RESPONSE => {
                self.send(path, header, &AssociationSetupResponse::new(node, cause))
            }
            Type::ASSOCIATION_UPDATE_RESPONSE => {
                self.send(path, header, &AssociationUpdateResponse::new(node, cause))
            }
            Type::ASSOCIATION_RELEASE_RESPONSE => {
                self.send(path, header, &AssociationReleaseResponse::new(node, cause))
            }
            Type::PFD_MANAGEMENT_RESPONSE => {
                let mut response = PfdManagementResponse::new(cause);
                response.offending_ie = offending;
                self.send(path, header, &response)
            }
            Type::SESSION_SET_DELETION_RESPONSE => {
                let mut response = SessionSetDeletionResponse::new(node, cause);
                response.offending_ie = offending;
                self.send(path, header, &response)
            }
            Type::SESSION_SET_MODIFICATION_RESPONSE => {
                let mut response = SessionSetModificationResponse::new(node, cause);
                response.offending_ie = offending;
                self.send(path, header, &response)
            }
            _ => self.send_session_rejection(path, header, rejection),
        }
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
    ) -> Option<Arc<[u8]>> {
        match header.message_type {
            MessageType::SESSION_ESTABLISHMENT_RESPONSE => {
                let mut response = SessionEstablishmentResponse::new(node.as_ie(), cause);
                response.offending_ie = offending;
                response.load_control_information = load.load;
                response.overload_control_information = load.overload;
                response.failed_rule_id = rule;
                self.send(path, header, &response)
            }
            MessageType::SESSION_MODIFICATION_RESPONSE => {
                let mut response = SessionModificationResponse::new(cause);
                response.offending_ie = offending;
                response.load_control_information = load.load;
                response.overload_control_information = load.overload;
                response.failed_rule_id = rule;
                self.send(path, header, &response)
            }
            MessageType::SESSION_DELETION_RESPONSE => {
                let mut response = SessionDeletionResponse::new(cause);
                response.offending_ie = offending;
                response.load_control_information = load.load;
                response.overload_control_information = load.overload;
                self.send(path, header, &response)
            }
            _ => None,
        }
    }

    /// Per cent of what control can do, now.
    fn overload(&self) -> u8 {
        self.load.overload(self.pending.len(), self.config.max_in_work)
    }

    /// The load that a peer receives, if it takes it and has not received it yet.
    pub(crate) fn load_information(&mut self, now: Nanos, peer: Option<AssociationId>) -> LoadInformation {
        let sessions = self.sessions.count().sessions;
        let full = percent(sessions, self.config.sessions.max_sessions as usize);
        let busy = self.overload();
        self.load.update(now, busy, full);
        let Some(peer) = peer.and_then(|peer| self.associations.get_mut(peer)) else {
            return LoadInformation::default();
        };
        self.load.information(peer.features, &mut peer.sent_load)
    }

    /// Whether another request may become pending.
    ///
    /// # Errors
    /// Cause 74 (PFCP entity in congestion).
    pub(crate) fn check_load(&self) -> Result<(), Reject> {
        if self.pending.len() < self.config.max_in_work {
            Ok(())
        } else {
            Err(Reject::of(Cause::PFCP_ENTITY_IN_CONGESTION))
        }
    }

    /// Whether a new session of this association and message priority may be established.
    ///
    /// # Errors
    /// Cause 74 (PFCP entity in congestion).
    pub(crate) fn admit(&mut self, association: AssociationId, priority: Option<u8>) -> Result<(), Reject> {
        self.check_load()?;
        let most = (self.config.max_in_work * self.share_percent() / 100).max(1);
        let is_over_share = self.pending.count_of(association) >= most && self.has_several_peers();
        if is_over_share || is_turned_away(self.overload(), priority) {
            self.counters.throttled += 1;
            return Err(Reject::of(Cause::PFCP_ENTITY_IN_CONGESTION));
        }
        Ok(())
    }

    /// Whether several peers are served, so that each may have its share and no more.
    pub(crate) fn has_several_peers(&self) -> bool {
        self.associations
            .iter()
            .filter(|one| one.reachable)
            .nth(1)
            .is_some()
    }

    /// What one peer may have of everything while there are others, per cent.
    pub(crate) fn share_percent(&self) -> usize {
        usize::from(self.config.sessions.association_percent.min(100))
    }

    /// The Node ID of an association's peer, as far as it is known.
    pub(crate) fn smf_of(&self, association: AssociationId) -> Option<NodeName> {
        let known = self.associations.get(association).map(|one| &one.node);
        known
            .or_else(|| self.usage_record_owners.node_of(association))
            .cloned()
    }

    /// The next usage record entry.
    pub(crate) fn poll_usage(&mut self) -> Option<UsageEntry> {
        let entry = self.sessions.poll_usage_record_entry()?;
        let smf = self.smf_of(entry.association);
        Some(UsageEntry { smf, entry })
    }

    /// A control plane has not accepted usage reports of a session, and they are not sent again.
    pub(crate) fn usage_unaccepted(
        &mut self,
        now: Nanos,
        owner: ReportedSession,
        reports: &[UsageReport],
        why: Unreported,
    ) {
        if reports.is_empty() {
            return;
        }
        let count = reports.len() as u64;
        *match why {
            Unreported::Refused(_) => &mut self.counters.usage_refused,
            Unreported::Unreadable => &mut self.counters.usage_unreadable,
            Unreported::Unanswered => &mut self.counters.usage_unanswered,
        } += count;
        let smf = self.smf_of(owner.association);
        self.usage_record_owners
            .enter_unaccepted(owner.seid, smf, count, why);
        self.sessions.enter_unreported(now, owner, reports, why);
    }

    /// Whether a control plane takes usage of a session after it has deleted the session (ARDR).
    pub(crate) fn takes_usage_after_deletion(&self, association: Option<AssociationId>) -> bool {
        let association = association.and_then(|id| self.associations.get(id));
        association.is_some_and(|one| one.features.contains(CpFunctionFeatures::ARDR))
    }
}

/// What a rejection says.
pub(crate) struct Rejection<'a> {
    pub(crate) node: &'a NodeName,
    pub(crate) cause: Cause,
    pub(crate) offending: Option<OffendingIe>,
    pub(crate) rule: Option<pfcp::ie::FailedRuleId>,
    pub(crate) load: LoadInformation,
}
