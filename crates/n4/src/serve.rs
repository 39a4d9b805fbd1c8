//! Which procedure a request begins, for whom, and how it is rejected or answered.

use flow::Nanos;
use pfcp::ie::{Cause, OffendingIe};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, AssociationUpdateResponse, Body, Message,
    PfdManagementResponse, SessionSetDeletionResponse, SessionSetModificationResponse,
};
use pfcp::{Header, IeType};
use session::AssociationId;

use crate::cause::Reject;
use crate::endpoint::{Endpoint, Path, Request};
use crate::load::LoadInformation;
use crate::node::NodeName;

impl Endpoint {
    /// Begins the procedure of a request that is new.
    pub(crate) fn serve(&mut self, now: Nanos, request: Request, message: &Message<'_>) {
        match message {
            Message::AssociationSetupRequest(setup) => self.serve_setup(now, request, setup),
            Message::AssociationUpdateRequest(update) => self.serve_update(now, request, update),
            Message::AssociationReleaseRequest(release) => {
                match self.association_of(release.node_id, request.path) {
                    Ok(association) => self.serve_release(now, request, association),
                    Err(reject) => self.reject(now, request.path, &request.header, None, reject),
                }
            }
            Message::PfdManagementRequest(pfds) => self.serve_pfds(now, request, pfds),
            Message::SessionSetDeletionRequest(set) => self.serve_set_deletion(now, request, set),
            Message::SessionSetModificationRequest(set) => self.serve_set_modification(now, request, set),
            Message::SessionEstablishmentRequest(establishment) => {
                self.serve_establishment(now, request, establishment);
            }
            Message::SessionModificationRequest(modification) => {
                self.serve_modification(now, request, modification);
            }
            Message::SessionDeletionRequest(_) => self.serve_deletion(now, request),
            _ => self.counters.unexpected += 1,
        }
    }

    /// The association with the node that `node_id` names, if the request comes from an address of that node's.
    pub(crate) fn association_of(
        &mut self,
        node_id: pfcp::ie::NodeId<'_>,
        path: Path,
    ) -> Result<AssociationId, Reject> {
        let node = NodeName::of(node_id).ok_or(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID))?;
        let stranger = Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
        let association = self.associations.by_node(&node).ok_or(stranger)?;
        if self.config.any_source || association.is_at(path.from.ip()) {
            return Ok(association.id);
        }
        self.counters.unauthorised += 1;
        Err(stranger)
    }

    /// Whether a request about the node, which may say whose it is, comes from a peer: else cause 72.
    pub(crate) fn check_known(
        &mut self,
        request: Request,
        node_id: Option<pfcp::ie::NodeId<'_>>,
    ) -> Result<(), Reject> {
        match node_id {
            Some(node_id) => self.association_of(node_id, request.path).map(drop),
            None if self.associations.knows(request.path.from.ip()) => Ok(()),
            None => Err(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION)),
        }
    }

    /// Answers a request that changed something: the answer is kept for retransmissions.
    pub(crate) fn answer<'m, B: Body<'m>>(&mut self, now: Nanos, request: Request, body: &B) {
        let ticket = self.new_ticket();
        self.responses.begin(request.key, request.digest, ticket);
        self.conclude(now, (request, ticket), body);
    }

    /// Answers a request that `ticket` began.
    pub(crate) fn conclude<'m, B: Body<'m>>(
        &mut self,
        now: Nanos,
        (request, ticket): (Request, session::Ticket),
        body: &B,
    ) {
        let header = Header {
            seid: None,
            priority: None,
            follow_on: false,
            ..request.header
        };
        match self.send(request.path, &header, body) {
            Some(bytes) => self.responses.finish(now, request.key, ticket, bytes),
            None => self.responses.abandon(&request.key, ticket),
        }
        self.counters.answered += 1;
    }

    /// Rejects a request before it has changed anything. `seid` is the peer's, as far as it is known. A peer that asks
    /// again hears the same, also where another moment would have another answer: what it gave up must not be done.
    /// Otherwise making the answer again gives the same, so that it need not be kept.
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
        self.note_refusal(now, (path.from, header.message_type), &reject);
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
        let sent = self.send_rejection(path, &header, rejection);
        let depends_on_the_moment = [
            Cause::NO_ESTABLISHED_PFCP_ASSOCIATION,
            Cause::PFCP_ENTITY_IN_CONGESTION,
            Cause::NO_RESOURCES_AVAILABLE,
        ];
        let is_kept = depends_on_the_moment.contains(&cause) && self.associations.knows(path.from.ip());
        if let (true, Some((key, digest)), Some(bytes)) = (is_kept, self.serving.take(), sent) {
            self.responses.refuse(now, key, digest, bytes);
        }
    }

    fn send_rejection(
        &mut self,
        path: Path,
        header: &Header,
        rejection: Rejection<'_>,
    ) -> Option<std::sync::Arc<[u8]>> {
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
}

/// What a rejection says.
pub(crate) struct Rejection<'a> {
    pub(crate) node: &'a NodeName,
    pub(crate) cause: Cause,
    pub(crate) offending: Option<OffendingIe>,
    pub(crate) rule: Option<pfcp::ie::FailedRuleId>,
    pub(crate) load: LoadInformation,
}
