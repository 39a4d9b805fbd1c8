//! Sets of sessions that are deleted, or whose reports are redirected, together (RESPS, TS 29.244 §5.22.4, §6.2.10,
//! §6.2.11).

use flow::Nanos;
use pfcp::IeType;
use pfcp::ie::{AlternativeSmfIpAddress, Cause};
use pfcp::message::{
    SessionSetDeletionRequest, SessionSetDeletionResponse, SessionSetModificationRequest,
    SessionSetModificationResponse,
};
use session::{Addresses, AssociationId, CpFSeid, EndCause, Seid, SetId, Sets};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::cause::Reject;
use crate::endpoint_state::Shared;
use crate::named_sets::set_ids;
use crate::smf_sets::are_beside;
use crate::transactions::Request;

/// Session Set Deletion (TS 29.244 §6.2.10, §7.4.6): the sessions of these sets go.
pub(crate) fn serve_set_deletion(
    shared: &mut Shared,
    now: Nanos,
    request: Request,
    sent: &SessionSetDeletionRequest<'_>,
) {
    let association = match shared.association_of(sent.node_id, request.path) {
        Ok(association) => association,
        Err(reject) => return shared.reject_request(now, request, reject),
    };
    if sent.fq_csid.is_empty() {
        let reject = Reject::ie(Cause::CONDITIONAL_IE_MISSING, IeType::FQ_CSID);
        return shared.reject_request(now, request, reject);
    }
    let named: BTreeSet<SetId> = sent.fq_csid.iter().flat_map(set_ids).collect();
    let is_meant = |sets: &Sets, _| sets.ids.iter().any(|id| named.contains(id)).then_some(());
    for (seid, ()) in sessions_of_set(shared, association, is_meant) {
        shared.sessions.remove(seid, EndCause::SetDeleted);
    }
    let node = shared.config.node.clone();
    let response = SessionSetDeletionResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
    shared.respond(now, request, &response);
}

/// Session Set Modification (TS 29.244 §6.2.11, §7.4.7): reports of these sessions go elsewhere from now on.
pub(crate) fn serve_set_modification(
    shared: &mut Shared,
    now: Nanos,
    request: Request,
    sent: &SessionSetModificationRequest<'_>,
) {
    let association = match shared.association_of(sent.node_id, request.path) {
        Ok(association) => association,
        Err(reject) => return shared.reject_request(now, request, reject),
    };
    let redirects = Redirects::of(sent);
    for (seid, to) in sessions_of_set(shared, association, |sets, cp| redirects.of_session(sets, cp)) {
        if let Some(sets) = shared.sessions.sets_mut(seid) {
            sets.reports_to = Some(to);
        }
    }
    let node = shared.config.node.clone();
    let response = SessionSetModificationResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
    shared.respond(now, request, &response);
}

/// The sessions, of an association and those beside it, that a message means, and what it says of each.
fn sessions_of_set<T>(
    shared: &Shared,
    association: AssociationId,
    is_meant: impl Fn(&Sets, CpFSeid) -> Option<T>,
) -> Vec<(Seid, T)> {
    let may = |owner| owner == association || are_beside(shared, owner, association);
    let theirs = shared
        .sessions
        .iter()
        .filter(|session| may(session.association()));
    theirs
        .filter_map(|session| Some((session.seid(), is_meant(session.sets(), session.cp())?)))
        .collect()
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
