//! Heartbeats (TS 29.244 §6.2.2), which procedure a request begins, and how it is rejected.

use flow::Nanos;
use pfcp::ie::{Cause, OffendingIe, RecoveryTimeStamp};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupResponse, AssociationUpdateResponse, Body, HeartbeatRequest,
    HeartbeatResponse, Message, PfdManagementResponse, SessionSetDeletionResponse,
    SessionSetModificationResponse,
};
use pfcp::{Frame, Header, IeType};
use session::AssociationId;
use std::net::{IpAddr, SocketAddr};

use crate::association::Association;
use crate::cause::Reject;
use crate::endpoint::{Endpoint, Path, Request};
use crate::node::NodeName;
use crate::requests::Purpose;

impl Endpoint {
    /// Begins the procedure of a request that is new.
    pub(crate) fn serve(&mut self, now: Nanos, request: Request, message: &Message<'_>) {
        match message {
            Message::AssociationSetupRequest(setup) => self.serve_setup(now, request, setup),
            Message::AssociationUpdateRequest(update) => self.serve_update(now, request, update),
            Message::AssociationReleaseRequest(release) => match self.association_of(release.node_id) {
                Ok(association) => self.serve_release(now, request, association),
                Err(reject) => self.reject(request.path, &request.header, None, reject),
            },
            Message::PfdManagementRequest(_) => self.refuse_unsupported(request, None),
            Message::SessionSetDeletionRequest(set) => self.refuse_unsupported(request, Some(set.node_id)),
            Message::SessionSetModificationRequest(set) => {
                self.refuse_unsupported(request, Some(set.node_id))
            }
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

    /// Answers a heartbeat, of anybody, at any time (TS 29.244 §6.2.2). A bad one shows that its sender lives, too.
    pub(crate) fn serve_heartbeat(&mut self, path: Path, frame: &Frame<'_>) {
        if let Ok(HeartbeatRequest {
            recovery_time_stamp, ..
        }) = HeartbeatRequest::decode(frame.body)
            && let Some(association) = self
                .associations
                .by_source(path.from)
                .map(|association| association.id)
        {
            self.observe_recovery(association, recovery_time_stamp);
        }
        let header = Header::node(HeartbeatResponse::TYPE, frame.header.sequence);
        self.counters.answered += 1;
        self.send(path, &header, &HeartbeatResponse::new(self.recovery()));
    }

    /// Our Recovery Time Stamp.
    pub(crate) fn recovery(&self) -> RecoveryTimeStamp {
        RecoveryTimeStamp::from_unix(self.config.recovery_unix)
    }

    /// A peer says when it started. If that is later than what it said before, it has restarted and has lost its
    /// sessions (TS 23.007 §19A); an earlier time is a datagram that was long on its way.
    pub(crate) fn observe_recovery(&mut self, id: AssociationId, recovery: RecoveryTimeStamp) {
        let Some(association) = self.associations.get_mut(id) else {
            return;
        };
        if recovery > association.recovery {
            association.recovery = recovery;
            self.counters.peer_restarts += 1;
            self.sessions.remove_association(id, |_| true);
        }
    }

    /// The association with the node that `node_id` names.
    pub(crate) fn association_of(&self, node_id: pfcp::ie::NodeId<'_>) -> Result<AssociationId, Reject> {
        let node = NodeName::of(node_id).ok_or(Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID))?;
        let association = self.associations.by_node(&node).map(|association| association.id);
        association.ok_or(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION))
    }

    /// Procedures that this node does not have: cause 76, or 72 for a stranger.
    fn refuse_unsupported(&mut self, request: Request, node_id: Option<pfcp::ie::NodeId<'_>>) {
        let known = match node_id {
            Some(node_id) => self.association_of(node_id).map(drop),
            None if self.associations.knows(request.path.from.ip()) => Ok(()),
            None => Err(Reject::of(Cause::NO_ESTABLISHED_PFCP_ASSOCIATION)),
        };
        let reject = known.err().unwrap_or(Reject::of(Cause::SERVICE_NOT_SUPPORTED));
        self.reject(request.path, &request.header, None, reject);
    }

    /// Answers a request that changed something: the answer is kept for retransmissions.
    pub(crate) fn answer<'m, B: Body<'m>>(&mut self, now: Nanos, request: Request, body: &B) {
        let header = Header {
            seid: None,
            priority: None,
            follow_on: false,
            ..request.header
        };
        let ticket = self.new_ticket();
        self.answers.begin(request.key, request.digest, ticket);
        if let Some(bytes) = self.send(request.path, &header, body) {
            self.answers.finish(now, request.key, ticket, bytes);
        }
        self.counters.answered += 1;
    }

    /// Rejects a request before it has changed anything. `seid` is the peer's, as far as it is known.
    pub(crate) fn reject(
        &mut self,
        path: Path,
        header: &Header,
        seid: Option<pfcp::Seid>,
        Reject {
            cause,
            offending,
            rule,
        }: Reject,
    ) {
        let Some(message_type) = header.message_type.response() else {
            return;
        };
        let mut header = Header::node(message_type, header.sequence);
        header.seid = message_type.is_session().then_some(seid.unwrap_or_default());
        let offending = offending.map(OffendingIe::new);
        let node = self.config.node.clone();
        let rejection = Rejection {
            node: &node,
            cause,
            offending,
            rule,
        };
        self.counters.answered += 1;
        self.counters.rejected += 1;
        self.send_rejection(path, &header, rejection);
    }

    fn send_rejection(&mut self, path: Path, header: &Header, rejection: Rejection<'_>) {
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
                self.send(path, header, &AssociationSetupResponse::new(node, cause));
            }
            Type::ASSOCIATION_UPDATE_RESPONSE => {
                self.send(path, header, &AssociationUpdateResponse::new(node, cause));
            }
            Type::ASSOCIATION_RELEASE_RESPONSE => {
                self.send(path, header, &AssociationReleaseResponse::new(node, cause));
            }
            Type::PFD_MANAGEMENT_RESPONSE => {
                let mut response = PfdManagementResponse::new(cause);
                response.offending_ie = offending;
                self.send(path, header, &response);
            }
            Type::SESSION_SET_DELETION_RESPONSE => {
                let mut response = SessionSetDeletionResponse::new(node, cause);
                response.offending_ie = offending;
                self.send(path, header, &response);
            }
            Type::SESSION_SET_MODIFICATION_RESPONSE => {
                let mut response = SessionSetModificationResponse::new(node, cause);
                response.offending_ie = offending;
                self.send(path, header, &response);
            }
            _ => {
                self.send_session_rejection(path, header, rejection);
            }
        }
    }

    /// Sends each peer its heartbeat when it is due.
    pub(crate) fn send_heartbeats(&mut self, now: Nanos) {
        let Some(interval) = self.config.heartbeat_interval else {
            return;
        };
        while let Some((_, id)) = self.heartbeats.front().copied().filter(|(at, _)| *at <= now) {
            self.heartbeats.pop_front();
            self.heartbeats.push_back((now + interval, id));
            let Some(association) = self.associations.get(id) else {
                continue;
            };
            let path = self.path_to(association, association.peer.ip());
            let body = HeartbeatRequest::new(self.recovery());
            self.send_request(now, path, None, Purpose::Heartbeat(id), &body);
        }
    }

    /// The way of our own requests to `peer`, an address of the association's peer.
    pub(crate) fn path_to(&self, association: &Association, peer: IpAddr) -> Path {
        Path {
            from: SocketAddr::new(peer, self.config.peer_port),
            to: association.local,
        }
    }

    pub(crate) fn heartbeat_answered(&mut self, id: AssociationId, frame: &Frame<'_>) {
        if let Some(association) = self.associations.get_mut(id) {
            association.reachable = true;
        }
        if let Ok(HeartbeatResponse {
            recovery_time_stamp, ..
        }) = HeartbeatResponse::decode(frame.body)
        {
            self.observe_recovery(id, recovery_time_stamp);
        }
    }

    /// A request of ours was given up. Sessions stay: the peer may come back (TS 23.527 §4.3).
    pub(crate) fn unanswered(&mut self, purpose: Purpose) {
        self.counters.unanswered += 1;
        match purpose {
            Purpose::Heartbeat(id) => {
                if let Some(association) = self.associations.get_mut(id) {
                    association.reachable = false;
                }
            }
            Purpose::Report(seid, peer, teid) => {
                self.reporting.remove(&(seid, peer, teid));
            }
        }
    }
}

/// What a rejection says.
#[derive(Clone, Copy)]
pub(crate) struct Rejection<'a> {
    pub(crate) node: &'a NodeName,
    pub(crate) cause: Cause,
    pub(crate) offending: Option<OffendingIe>,
    pub(crate) rule: Option<pfcp::ie::FailedRuleId>,
}
