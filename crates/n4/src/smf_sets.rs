//! SMF sets: sessions that several control plane functions control in turn, with one association for the set (SSET,
//! TS 29.244 §5.22.2) or one for each member (MPAS, §5.22.3), and sets of sessions that are deleted or moved together
//! (RESPS, §5.22.4; §6.2.10, §6.2.11).
//!
//! Which members a set has is known from associations and Alternative SMF IP Addresses alone: no DNS is asked.

use flow::Nanos;
use pfcp::ie::{
    AlternativeSmfIpAddress, Cause, CpFunctionFeatures, FTeid, FqCsid, FqCsidNode, GroupId, NodeId, SmfSetId,
};
use pfcp::message::{
    SessionModificationRequest, SessionReportResponse, SessionSetDeletionRequest, SessionSetDeletionResponse,
    SessionSetModificationRequest, SessionSetModificationResponse,
};
use pfcp::{IeType, Interface, Repeated};
use rules::model::{
    DestinationInterface, Edit, Far, FarUpdate, ForwardingParametersUpdate, OuterHeaderCreation,
    OuterHeaderKind,
};
use session::{Addresses, AssociationId, Changes, CpFSeid, EndCause, Seid, SetId, SetNode, Sets};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::association::Association;
use crate::cause::Reject;
use crate::endpoint::{Endpoint, Path, Request};
use crate::node::LONGEST_NAME;
use crate::serve_session::{address_of, cp_f_seid};

/// Octets of the longest Group Id that is kept: longer than any node makes (a UUID, TS 29.571). A longer one is as if
/// it were not there.
const LONGEST_GROUP: usize = 255;
/// Sets of one session that are kept; more are as if they were not there.
const MOST_SETS: usize = 16;

/// The name of a set that outlives its datagram; `None` for an empty one, and for one that is longer than names are.
pub(crate) fn set_name(id: Option<SmfSetId<'_>>) -> Option<Vec<u8>> {
    id.map(|id| id.fqdn.to_ascii_lowercase())
        .filter(|name| !name.is_empty() && name.len() <= LONGEST_NAME)
}

impl Association {
    /// Whether the sessions of this association can be controlled by others than its peer.
    pub(crate) fn is_of_set(&self) -> bool {
        let has = |feature| self.features.contains(feature);
        has(CpFunctionFeatures::SSET) || has(CpFunctionFeatures::MPAS) && self.set.is_some()
    }

    /// Whether the peers of both say that they are members of one set.
    fn says_beside(&self, other: &Association) -> bool {
        self.set.is_some() && self.set == other.set
    }
}

/// Where a report goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The session's name at the receiver; 0 where the receiver is not who named it.
    pub(crate) seid: pfcp::Seid,
    /// The name that its former controller gave it, for another one (Old CP F-SEID).
    pub(crate) old: Option<CpFSeid>,
    pub(crate) path: Path,
}

impl Endpoint {
    /// Whether `from` is an address of a member of the set that the session's association belongs to.
    pub(crate) fn is_member(&self, association: AssociationId, from: IpAddr) -> bool {
        self.associations.get(association).is_some_and(|one| {
            let mut others = self.associations.iter();
            others.any(|other| other.is_at(from) && self.is_beside(one, other))
        })
    }

    /// The association that takes a session over by naming its node, if it does.
    ///
    /// # Errors
    /// The node has no association, or is not a member of the set.
    pub(crate) fn taker(
        &mut self,
        seid: Seid,
        sent: &SessionModificationRequest<'_>,
        path: Path,
    ) -> Result<Option<AssociationId>, Reject> {
        let Some(node) = sent.node_id else {
            return Ok(None);
        };
        let to = self.association_of(node, path)?;
        match self.sessions.session(seid).map(|session| session.association()) {
            Some(owner) if owner == to => Ok(None),
            Some(owner) if self.are_beside(owner, to) => Ok(Some(to)),
            _ => Err(Reject::ie(Cause::REQUEST_REJECTED, IeType::NODE_ID)),
        }
    }

    fn are_beside(&self, a: AssociationId, b: AssociationId) -> bool {
        let both = (self.associations.get(a), self.associations.get(b));
        matches!(both, (Some(a), Some(b)) if self.is_beside(a, b))
    }

    /// Whether the peers of both are members of one set. Anybody can say so: where it is known who peers are, they must
    /// be of one party.
    fn is_beside(&self, a: &Association, b: &Association) -> bool {
        let may = self.config.peers.is_empty() || self.config.are_one_party(a.peer.ip(), b.peer.ip());
        may && a.says_beside(b)
    }

    /// Where a session's reports go, in the order in which they are tried: its CP F-SEID's address, and for a session
    /// of a set the others that may control it. A peer that is silent comes last.
    pub(crate) fn report_routes(&self, seid: Seid) -> Vec<Route> {
        let Some(session) = self.sessions.session(seid) else {
            return Vec::new();
        };
        let Some(association) = self.associations.get(session.association()) else {
            return Vec::new();
        };
        let (cp, like) = (session.cp(), association.local.ip());
        let owner = self.owner_route(association, cp);
        let other = |address| self.route(association, address, cp, false);
        let moved = session.sets().reports_to;
        let mut routes: Vec<Route> = moved
            .and_then(|to| address_of((to.ipv4, to.ipv6), like))
            .map(other)
            .into_iter()
            .collect();
        routes.extend(owner);
        if association.is_of_set() {
            let alternatives = association.others.iter().copied();
            let beside = self.associations.iter();
            let beside = beside
                .filter(|one| one.id != association.id && one.reachable && self.is_beside(association, one));
            let known = alternatives.chain(beside.map(|one| one.peer.ip()));
            let fitting = known.filter(|address| address.is_ipv4() == like.is_ipv4());
            for route in fitting.map(other) {
                if routes.iter().all(|one| one.path.from != route.path.from) {
                    routes.push(route);
                }
            }
            if !association.reachable && routes.len() > 1 {
                routes.rotate_left(1);
            }
        }
        routes
    }

    /// The way to a control plane function that a report was redirected to.
    pub(crate) fn redirected_route(&self, seid: Seid, address: IpAddr) -> Option<Route> {
        let session = self.sessions.session(seid)?;
        let association = self.associations.get(session.association())?;
        Some(self.route(association, address, session.cp(), false))
    }

    /// The way to who named a session, if that is at an address for us.
    pub(crate) fn owner_route(&self, association: &Association, cp: CpFSeid) -> Option<Route> {
        let address = address_of((cp.ipv4, cp.ipv6), association.local.ip())?;
        Some(self.route(association, address, cp, true))
    }

    fn route(&self, association: &Association, address: IpAddr, cp: CpFSeid, is_owner: bool) -> Route {
        Route {
            seid: pfcp::Seid(if is_owner { cp.seid } else { 0 }),
            old: (!is_owner).then_some(cp),
            path: self.path_to(association, address),
        }
    }

    /// A control plane function has taken a report, and perhaps the session (TS 29.244 §5.22.2 item 5).
    pub(crate) fn adopt(&mut self, now: Nanos, seid: Seid, answer: &SessionReportResponse<'_>) {
        if let Some(cp) = answer.cp_f_seid {
            self.sessions.rename(seid, cp_f_seid(cp));
            if let Some(sets) = self.sessions.sets_mut(seid) {
                sets.reports_to = None;
            }
            self.follow_node(seid, answer.node_id);
        }
        if let Some(sets) = named_sets(answer.fq_csid, answer.group_id.first()) {
            self.assign(seid, *sets);
        }
        if let Some(to) = answer.n4_u_f_teid.and_then(n4u_header) {
            self.lead_n4u(now, seid, to);
        }
    }

    /// Packets for the control plane function go into another tunnel from now on (N4-u F-TEID, TS 29.244 §7.5.9.1), of
    /// which a session has one (§5.3.1). A change of our own: no answer waits for its outcome.
    fn lead_n4u(&mut self, now: Nanos, seid: Seid, to: OuterHeaderCreation) {
        let Some(session) = self.sessions.session(seid) else {
            return;
        };
        let association = self.associations.get(session.association());
        let interfaces = association.map(|one| self.config.interfaces_of(one.peer.ip()));
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
            let ticket = self.new_ticket();
            self.sessions.modify(now, ticket, seid, None, changes);
        }
    }

    fn follow_node(&mut self, seid: Seid, node: Option<NodeId<'_>>) {
        let node = node.and_then(crate::node::NodeName::of);
        let to = node.and_then(|node| self.associations.by_node(&node).map(|one| one.id));
        let owner = self.sessions.session(seid).map(|session| session.association());
        if let (Some(to), Some(owner)) = (to, owner)
            && to != owner
            && self.are_beside(owner, to)
        {
            self.sessions.hand_over(seid, to);
            self.reports.hand_over(seid, to);
        }
    }

    /// Enters the sets that a message names.
    pub(crate) fn assign(&mut self, seid: Seid, named: NamedSets) {
        let Some(known) = self.sessions.sets_mut(seid) else {
            return;
        };
        let stays = |one: &SetId| !named.removes_all && !named.kinds.contains(&one.kind);
        known.ids.retain(stays);
        known.ids.extend(named.ids);
        known.ids.truncate(MOST_SETS);
        if let Some(group) = named.group {
            known.group = Some(group).filter(|group| !group.is_empty());
        }
    }

    /// Session Set Deletion (TS 29.244 §6.2.10, §7.4.6): the sessions of these sets go.
    pub(crate) fn serve_set_deletion(
        &mut self,
        now: Nanos,
        request: Request,
        sent: &SessionSetDeletionRequest<'_>,
    ) {
        let association = match self.association_of(sent.node_id, request.path) {
            Ok(association) => association,
            Err(reject) => return self.reject(now, request.path, &request.header, None, reject),
        };
        if sent.fq_csid.is_empty() {
            let reject = Reject::ie(Cause::CONDITIONAL_IE_MISSING, IeType::FQ_CSID);
            return self.reject(now, request.path, &request.header, None, reject);
        }
        let named: BTreeSet<SetId> = sent.fq_csid.iter().flat_map(set_ids).collect();
        let is_meant = |sets: &Sets, _| sets.ids.iter().any(|id| named.contains(id)).then_some(());
        for (seid, ()) in self.sessions_of_set(association, is_meant) {
            self.sessions.remove(seid, EndCause::SetDeleted);
        }
        let node = self.config.node.clone();
        let response = SessionSetDeletionResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        self.answer(now, request, &response);
    }

    /// Session Set Modification (TS 29.244 §6.2.11, §7.4.7): reports of these sessions go elsewhere from now on.
    pub(crate) fn serve_set_modification(
        &mut self,
        now: Nanos,
        request: Request,
        sent: &SessionSetModificationRequest<'_>,
    ) {
        let association = match self.association_of(sent.node_id, request.path) {
            Ok(association) => association,
            Err(reject) => return self.reject(now, request.path, &request.header, None, reject),
        };
        let redirects = Redirects::of(sent);
        for (seid, to) in self.sessions_of_set(association, |sets, cp| redirects.of_session(sets, cp)) {
            if let Some(sets) = self.sessions.sets_mut(seid) {
                sets.reports_to = Some(to);
            }
        }
        let node = self.config.node.clone();
        let response = SessionSetModificationResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        self.answer(now, request, &response);
    }

    /// The sessions, of an association and those beside it, that a message means, and what it says of each.
    fn sessions_of_set<T>(
        &self,
        association: AssociationId,
        is_meant: impl Fn(&Sets, CpFSeid) -> Option<T>,
    ) -> Vec<(Seid, T)> {
        let may = |owner| owner == association || self.are_beside(owner, association);
        let theirs = self.sessions.iter().filter(|session| may(session.association()));
        theirs
            .filter_map(|session| Some((session.seid(), is_meant(session.sets(), session.cp())?)))
            .collect()
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
        teid: packet::Teid(teid.0),
        ipv4,
        ipv6,
        port: None,
    };
    header.kind.is_gtpu().then_some(header)
}

/// What a Session Set Modification says, by what it names. There may be thousands of each, and of sessions more. The
/// last that names a session counts.
#[derive(Default)]
struct Redirects<'a> {
    to: Vec<Addresses>,
    sets: BTreeMap<SetId, usize>,
    groups: BTreeMap<&'a [u8], usize>,
    peers: BTreeMap<IpAddr, usize>,
}

impl<'a> Redirects<'a> {
    fn of(sent: &SessionSetModificationRequest<'a>) -> Self {
        let mut all = Self::default();
        for (place, change) in sent.pfcp_session_change_info.iter().enumerate() {
            let AlternativeSmfIpAddress { ipv4, ipv6, .. } = change.alternative_smf_ip_address;
            all.to.push(Addresses { ipv4, ipv6 });
            let sets = change.fq_csid.iter().flat_map(set_ids);
            all.sets.extend(sets.map(|set| (set, place)));
            all.groups
                .extend(change.group_id.iter().map(|group| (group.0, place)));
            let peers = change.cp_ip_address.iter().flat_map(|address| {
                let v4 = address.ipv4.map(IpAddr::V4);
                v4.into_iter().chain(address.ipv6.map(IpAddr::V6))
            });
            all.peers.extend(peers.map(|peer| (peer, place)));
        }
        all
    }

    fn of_session(&self, sets: &Sets, cp: CpFSeid) -> Option<Addresses> {
        let by_set = sets.ids.iter().filter_map(|id| self.sets.get(id));
        let by_group = sets.group.as_deref().and_then(|group| self.groups.get(group));
        let peers = [cp.ipv4.map(IpAddr::V4), cp.ipv6.map(IpAddr::V6)];
        let by_peer = peers.iter().flatten().filter_map(|peer| self.peers.get(peer));
        let last = by_set.chain(by_group).chain(by_peer).max()?;
        self.to.get(*last).copied()
    }
}

/// What a message says of a session's sets.
#[derive(Debug)]
pub(crate) struct NamedSets {
    /// The kinds of node whose FQ-CSIDs it names: they take the place of those there were, and one without a CSID takes
    /// these away (TS 29.244 §8.2.43).
    kinds: Vec<Option<u8>>,
    /// The FQ-CSIDs of all kinds go (one with a null length).
    removes_all: bool,
    ids: Vec<SetId>,
    /// The Group Id; an empty one takes the session out of its group.
    group: Option<Box<[u8]>>,
}

/// The sets that a message names, if it names any.
pub(crate) fn named_sets(
    ids: Repeated<'_, FqCsid<'_>>,
    group: Option<GroupId<'_>>,
) -> Option<Box<NamedSets>> {
    let group = group.filter(|group| group.0.len() <= LONGEST_GROUP);
    let is_named = !ids.is_empty() || ids.removes_all() || group.is_some();
    is_named.then(|| {
        Box::new(NamedSets {
            kinds: ids.iter().map(|one| one.node_type).take(MOST_SETS).collect(),
            removes_all: ids.removes_all(),
            ids: ids.iter().flat_map(set_ids).take(MOST_SETS).collect(),
            group: group.map(|group| group.0.into()),
        })
    })
}

fn set_ids<'a>(set: FqCsid<'a>) -> impl Iterator<Item = SetId> + 'a {
    let node = match set.node {
        FqCsidNode::Ipv4(address) => SetNode::Ipv4(address),
        FqCsidNode::Ipv6(address) => SetNode::Ipv6(address),
        FqCsidNode::Operator(number) => SetNode::Operator(number),
    };
    set.csids.iter().map(move |number| SetId {
        kind: set.node_type,
        node,
        number: u16::from_be_bytes(*number),
    })
}
