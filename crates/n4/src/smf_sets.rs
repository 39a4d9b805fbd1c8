//! SMF sets: sessions that several control plane functions control in turn, with one association for the set (SSET,
//! TS 29.244 §5.22.2) or one for each member (MPAS, §5.22.3): who is a member, and where the reports of a session go.
//!
//! Which members a set has is known from associations and Alternative SMF IP Addresses alone: DNS is not queried.

use pfcp::IeType;
use pfcp::ie::Cause;
use pfcp::message::SessionModificationRequest;
use session::{AssociationId, CpFSeid, Seid};
use std::net::IpAddr;

use crate::association::Association;
use crate::cause::Reject;
use crate::endpoint_state::Shared;
use crate::ie_addresses::address_of;
use crate::transactions::Path;

/// Where a report goes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Route {
    /// The session's name at the receiver; 0 where the receiver is not who named it.
    pub(crate) seid: pfcp::Seid,
    /// The name that its former controller gave it, for another one (Old CP F-SEID).
    pub(crate) old: Option<CpFSeid>,
    pub(crate) path: Path,
}

/// Whether `from` is an address of a member of the set that the session's association belongs to.
pub(crate) fn is_member(shared: &Shared, association: AssociationId, from: IpAddr) -> bool {
    shared.associations.get(association).is_some_and(|one| {
        let mut others = shared.associations.iter();
        others.any(|other| other.is_at(from) && is_beside(shared, one, other))
    })
}

/// The association that takes a session over by naming its node, if it does.
///
/// # Errors
/// The node has no association, or is not a member of the set.
pub(crate) fn taker(
    shared: &mut Shared,
    seid: Seid,
    sent: &SessionModificationRequest<'_>,
    path: Path,
) -> Result<Option<AssociationId>, Reject> {
    let Some(node) = sent.node_id else {
        return Ok(None);
    };
    let to = shared.association_of(node, path)?;
    match shared.sessions.session(seid).map(|session| session.association()) {
        Some(owner) if owner == to => Ok(None),
        Some(owner) if are_beside(shared, owner, to) => Ok(Some(to)),
        _ => Err(Reject::ie(Cause::REQUEST_REJECTED, IeType::NODE_ID)),
    }
}

pub(crate) fn are_beside(shared: &Shared, a: AssociationId, b: AssociationId) -> bool {
    let both = (shared.associations.get(a), shared.associations.get(b));
    matches!(both, (Some(a), Some(b)) if is_beside(shared, a, b))
}

/// Whether the peers of both are members of one set. Any peer can claim that: where the prefixes of peers are
/// configured, both must be of one group.
fn is_beside(shared: &Shared, a: &Association, b: &Association) -> bool {
    let may = shared.config.peers.is_empty() || shared.config.are_one_group(a.peer.ip(), b.peer.ip());
    may && a.is_of_same_set(b)
}

/// Where a session's reports go, in the order in which they are tried: its CP F-SEID's address, and for a session
/// of a set the others that may control it. A peer that is silent comes last.
pub(crate) fn report_routes(shared: &Shared, seid: Seid) -> Vec<Route> {
    let Some(session) = shared.sessions.session(seid) else {
        return Vec::new();
    };
    let Some(association) = shared.associations.get(session.association()) else {
        return Vec::new();
    };
    let (cp, like) = (session.cp(), association.local.ip());
    let owner = owner_route(shared, association, cp);
    let other = |address| route(shared, association, address, cp, false);
    let moved = session.sets().reports_to;
    let mut routes: Vec<Route> = moved
        .and_then(|to| address_of(to.ipv4, to.ipv6, like))
        .map(other)
        .into_iter()
        .collect();
    routes.extend(owner);
    if association.is_of_set() {
        let alternatives = association.others.iter().copied();
        let beside = shared.associations.iter();
        let beside = beside
            .filter(|one| one.id != association.id && one.reachable && is_beside(shared, association, one));
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
pub(crate) fn redirected_route(shared: &Shared, seid: Seid, address: IpAddr) -> Option<Route> {
    let session = shared.sessions.session(seid)?;
    let association = shared.associations.get(session.association())?;
    Some(route(shared, association, address, session.cp(), false))
}

/// The way to who named a session, if that is at an address for us.
pub(crate) fn owner_route(shared: &Shared, association: &Association, cp: CpFSeid) -> Option<Route> {
    let address = address_of(cp.ipv4, cp.ipv6, association.local.ip())?;
    Some(route(shared, association, address, cp, true))
}

fn route(shared: &Shared, association: &Association, address: IpAddr, cp: CpFSeid, is_owner: bool) -> Route {
    Route {
        seid: pfcp::Seid(if is_owner { cp.seid } else { 0 }),
        old: (!is_owner).then_some(cp),
        path: shared.path_to(association, address),
    }
}
