//! Associations set up, updated and released (TS 29.244 §6.2.6 to §6.2.8), and room made for them.

use flow::Nanos;
use pfcp::IeType;
use pfcp::ie::{Cause, CpFunctionFeatures, PfcpAuReqFlags, RecoveryTimeStamp};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest,
    AssociationUpdateResponse,
};
use session::{AssociationId, CpFSeid, EndCause, Unreported};
use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::association::{Association, other_addresses};
use crate::cause::Reject;
use crate::endpoint::{Endpoint, Path, Request};
use crate::event_log::{AssociationEnd, LogEvent, PeerName};
use crate::node::NodeName;
use crate::release::Released;
use crate::smf_sets::set_name;

/// What a peer says of itself when an association is set up, whichever side begins.
pub(crate) struct Introduction {
    pub(crate) node: NodeName,
    pub(crate) recovery: RecoveryTimeStamp,
    pub(crate) features: Option<CpFunctionFeatures>,
    pub(crate) others: Vec<IpAddr>,
    pub(crate) set: Option<Vec<u8>>,
}

impl Endpoint {
    /// Association Setup (TS 29.244 §6.2.6.2.2): an association with the same node is overwritten, and its sessions
    /// go unless the peer wants them retained.
    pub(crate) fn serve_setup(&mut self, now: Nanos, request: Request, setup: &AssociationSetupRequest<'_>) {
        let Some(node) = NodeName::of(setup.node_id) else {
            let reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID);
            return self.reject(now, request.path, &request.header, None, reject);
        };
        let is_new = self.associations.by_node(&node).is_none();
        if self.is_ending {
            let reject = Reject::of(Cause::NO_RESOURCES_AVAILABLE);
            return self.reject(now, request.path, &request.header, None, reject);
        }
        if let Err(reject) = self.check_moved(now, &node, request.path.from.ip()) {
            return self.reject(now, request.path, &request.header, None, reject);
        }
        if is_new && !self.may_associate(now, request.path) {
            return;
        }
        if is_new && let Err(reject) = self.make_room(now, request.path.from.ip()) {
            return self.reject(now, request.path, &request.header, None, reject);
        }
        let id = self.associations.id_for(&node);
        let before = self.associations.get(id).map(|known| known.recovery);
        if before != Some(setup.recovery_time_stamp) {
            self.responses.forget_life_of(request.path.from);
        }
        let retained = self.retain_sessions(now, id, setup);
        let introduction = Introduction {
            others: other_addresses(&node, setup.alternative_smf_ip_address.iter()),
            node,
            recovery: setup.recovery_time_stamp,
            features: setup.cp_function_features,
            set: set_name(setup.smf_set_id),
        };
        self.enter(now, request.path, id, introduction);
        let node = self.config.node.clone();
        let mut response = AssociationSetupResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.recovery_time_stamp = Some(self.recovery());
        response.up_function_features = Some(self.features_for(request.path.from.ip()));
        response.pfcpasrsp_flags = retained.then_some(pfcp::ie::PfcpAsRspFlags::PSREI);
        self.answer(now, request, &response);
    }

    /// A node that has an association sets it up anew from another address: that would end its sessions, and anybody
    /// can say who he is. So the old address must be silent, or both be of one party; else it is asked whether it
    /// lives, and the next attempt will tell.
    fn check_moved(&mut self, now: Nanos, node: &NodeName, from: IpAddr) -> Result<(), Reject> {
        let Some(known) = self.associations.by_node(node) else {
            return Ok(());
        };
        let is_asked = self.config.heartbeat_interval.is_some();
        let may = self.config.any_source || self.config.are_one_party(known.peer.ip(), from);
        if may || known.is_at(from) || !known.reachable || !is_asked {
            return Ok(());
        }
        let id = known.id;
        self.counters.unauthorised += 1;
        self.send_heartbeat(now, id);
        Err(Reject::of(Cause::REQUEST_REJECTED))
    }

    /// Enters an association with the peer at the far end of `path`, in the place of the one that it has.
    pub(crate) fn enter(&mut self, now: Nanos, path: Path, id: AssociationId, introduction: Introduction) {
        let is_new = self.associations.get(id).is_none();
        let association = Association {
            id,
            node: introduction.node,
            others: introduction.others,
            set: introduction.set,
            recovery: introduction.recovery,
            features: introduction
                .features
                .unwrap_or_else(|| CpFunctionFeatures::from_bits(0)),
            peer: path.from,
            local: path.to,
            since: now,
            reachable: true,
            verified: self.is_verified(now, path, id),
            is_asked: false,
            knows: Default::default(),
        };
        let (peer, is_again) = (PeerName::from(&association), !is_new);
        self.news.tell(now, LogEvent::AssociationUp { peer, is_again });
        self.setups.associated(&association);
        self.releases.end(id);
        self.associations.put(association);
        self.share_out();
        if let Some(interval) = self.config.heartbeat_interval.filter(|_| is_new) {
            self.heartbeats.push_back((now + interval, id));
        }
    }

    /// Whether the peer at the far end of `path` is verified at the start of an association: one that was before, at that
    /// address, is.
    fn is_verified(&self, now: Nanos, path: Path, id: AssociationId) -> bool {
        let from = path.from.ip().to_canonical();
        let is_at = |before: &Association| before.peer.ip().to_canonical() == from;
        let was = self.associations.get(id).filter(|before| is_at(before));
        was.is_some_and(|before| before.verified) || self.begins_verified(now, from)
    }

    /// Removes the sessions of an association that begins anew, but for those that the peer asks to retain. Answers
    /// whether it asked.
    fn retain_sessions(
        &mut self,
        now: Nanos,
        id: AssociationId,
        setup: &AssociationSetupRequest<'_>,
    ) -> bool {
        let retention = &setup.pfcp_session_retention_information;
        let Some(known) = self.associations.get(id) else {
            return retention.is_some();
        };
        let peer = PeerName::from(known);
        let has_restarted = known.recovery != setup.recovery_time_stamp;
        let sessions = self.remove_unretained(id, setup);
        if has_restarted || sessions > 0 {
            self.news.tell(now, LogEvent::PeerRestarted { peer, sessions });
        }
        retention.is_some()
    }

    /// The same for an association that there was. Answers how many went.
    fn remove_unretained(&mut self, id: AssociationId, setup: &AssociationSetupRequest<'_>) -> usize {
        let Some(retention) = &setup.pfcp_session_retention_information else {
            return self
                .sessions
                .remove_association(id, EndCause::CpRestarted, |_| true);
        };
        let entities: Vec<_> = retention.cp_pfcp_entity_ip_address.iter().collect();
        let is_listed = |cp: &CpFSeid| {
            let listed =
                |v4, v6| (cp.ipv4.is_some() && cp.ipv4 == v4) || (cp.ipv6.is_some() && cp.ipv6 == v6);
            entities.is_empty() || entities.iter().any(|entity| listed(entity.ipv4, entity.ipv6))
        };
        self.sessions
            .remove_association(id, EndCause::CpRestarted, |cp| !is_listed(cp))
    }

    /// Association Update (TS 29.244 §6.2.7.2.2). With PARPS the peer wants the association to end (§5.18).
    pub(crate) fn serve_update(
        &mut self,
        now: Nanos,
        request: Request,
        update: &AssociationUpdateRequest<'_>,
    ) {
        let id = match self.association_of(update.node_id, request.path) {
            Ok(id) => {
                if let Some(association) = self.associations.get_mut(id) {
                    association.set = set_name(update.smf_set_id).or(association.set.take());
                    association.features = update.cp_function_features.unwrap_or(association.features);
                    if !update.alternative_smf_ip_address.is_empty() {
                        let alternatives = update.alternative_smf_ip_address.iter();
                        association.others = other_addresses(&association.node, alternatives);
                    }
                }
                self.share_out();
                id
            }
            Err(reject) => return self.reject(now, request.path, &request.header, None, reject),
        };
        let node = self.config.node.clone();
        let mut response = AssociationUpdateResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.up_function_features = Some(self.features_for(request.path.from.ip()));
        self.answer(now, request, &response);
        let flags = update.pfcpaureq_flags;
        let association = self.associations.get(id);
        let both = association.is_some_and(|one| one.features.contains(CpFunctionFeatures::EPFAR));
        if both && flags.is_some_and(|flags| flags.contains(PfcpAuReqFlags::PARPS)) {
            self.prepare_release(now, id);
        }
    }

    /// Association Release (TS 29.244 §6.2.8.3): always accepted, all sessions go. It is answered when they have left
    /// the workers, or when that takes too long.
    pub(crate) fn serve_release(&mut self, now: Nanos, request: Request, id: AssociationId) {
        let gone = self
            .sessions
            .remove_association(id, EndCause::AssociationEnded, |_| true);
        self.drop_association(now, id, (AssociationEnd::Released, gone));
        let ticket = self.new_ticket();
        self.responses.begin(request.key, request.digest, ticket);
        self.released.push_back(Released {
            id,
            request,
            ticket,
            until: now + self.config.sessions.deadline,
        });
        self.answer_releases(now);
    }

    /// Answers releases that are done, late, or too many to be remembered.
    pub(crate) fn answer_releases(&mut self, now: Nanos) {
        let most = self.config.max_associations;
        while let Some(place) = self.released.iter().position(|released| {
            let is_done = self.sessions.dying_of(released.id) == 0;
            is_done || released.until <= now || self.released.len() > most
        }) {
            if let Some(released) = self.released.remove(place) {
                self.answer_release(now, &released);
            }
        }
    }

    fn answer_release(&mut self, now: Nanos, released: &Released) {
        let node = self.config.node.clone();
        let response = AssociationReleaseResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        self.conclude(now, (released.request, released.ticket), &response);
    }

    /// Room for an association that is set up from `source`. Where there is none, the oldest one that is silent and has
    /// no sessions goes: one from the same address if that address has its fill, else one from anywhere.
    fn make_room(&mut self, now: Nanos, source: IpAddr) -> Result<(), Reject> {
        let here = self.associations.iter().filter(|one| one.peer.ip() == source);
        if here.count() >= self.config.max_associations_per_address {
            self.evict(now, |one| one.peer.ip() == source)?;
        }
        if self.associations.len() >= self.config.max_associations {
            self.evict(now, |_| true)?;
        }
        Ok(())
    }

    /// Ends the oldest association, among those that `may_go` says of, that is silent and has no sessions.
    fn evict(&mut self, now: Nanos, may_go: impl Fn(&Association) -> bool) -> Result<(), Reject> {
        let idle = |one: &&Association| !one.reachable && self.sessions.sessions_of(one.id) == 0;
        let all = self.associations.iter().filter(|one| may_go(one));
        let oldest = all.filter(idle).min_by_key(|one| (one.since, one.id));
        let id = oldest
            .map(|one| one.id)
            .ok_or(Reject::of(Cause::NO_RESOURCES_AVAILABLE))?;
        self.drop_association(now, id, (AssociationEnd::Evicted, 0));
        self.counters.evicted_associations += 1;
        Ok(())
    }

    /// Ends an association, of which so many sessions have been removed.
    pub(crate) fn drop_association(
        &mut self,
        now: Nanos,
        id: AssociationId,
        (why, sessions): (AssociationEnd, usize),
    ) {
        self.releases.end(id);
        self.setups.ended(now, id);
        if let Some(gone) = self.associations.remove(id) {
            let peer = PeerName::from(&gone);
            self.news
                .tell(now, LogEvent::AssociationDown { peer, why, sessions });
            self.ledger.remember(id, gone.node);
        }
        self.node_reports.end(id);
        for (seid, unsaid) in self.reports.end_association(id) {
            self.counters.events_dropped += 1;
            self.not_taken(now, (seid, id, None), &unsaid.usage, Unreported::Unanswered);
        }
        let sessions = &self.sessions;
        self.downlink.retain(|seid| sessions.session(seid).is_some());
        self.heartbeats.retain(|(_, other)| *other != id);
        self.share_out();
    }

    /// Takes up what has changed of the associations. Tells the sessions how many peers want their share: the addresses
    /// that associations were set up from, of which one lives. A host with several Node IDs has one share.
    pub(crate) fn share_out(&mut self) {
        let mut parties: BTreeMap<IpAddr, (Vec<AssociationId>, bool)> = BTreeMap::new();
        for one in self.associations.iter() {
            let (all, lives) = parties.entry(one.peer.ip().to_canonical()).or_default();
            all.push(one.id);
            *lives |= one.reachable;
        }
        let alive = parties.values().filter(|(_, lives)| *lives).count();
        self.sessions.share_among(alive);
        self.sessions.unite(parties.into_values().map(|(all, _)| all));
        self.find_bundlers();
        self.know_sources();
    }
}
