//! Associations set up, updated and released (TS 29.244 §6.2.6 to §6.2.8), and room made for them.

use flow::Nanos;
use pfcp::IeType;
use pfcp::ie::Cause;
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest,
    AssociationUpdateResponse,
};
use session::{AssociationId, CpFSeid};
use std::net::IpAddr;

use crate::association::{Association, other_addresses};
use crate::cause::Reject;
use crate::endpoint::{Endpoint, Request};
use crate::features::up_function_features;
use crate::node::NodeName;
use crate::sets::set_name;

impl Endpoint {
    /// Association Setup (TS 29.244 §6.2.6.2.2): an association with the same node is overwritten, and its sessions
    /// go unless the peer wants them retained.
    pub(crate) fn serve_setup(&mut self, now: Nanos, request: Request, setup: &AssociationSetupRequest<'_>) {
        let Some(node) = NodeName::of(setup.node_id) else {
            let reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID);
            return self.reject(now, request.path, &request.header, None, reject);
        };
        let is_new = self.associations.by_node(&node).is_none();
        if is_new && let Err(reject) = self.make_room(request.path.from.ip()) {
            return self.reject(now, request.path, &request.header, None, reject);
        }
        let id = self.associations.id_for(&node);
        let before = self.associations.get(id).map(|known| known.recovery);
        if before != Some(setup.recovery_time_stamp) {
            self.answers.forget_sessions_of(request.path.from);
        }
        let retained = self.retain_sessions(id, is_new, setup);
        let others = other_addresses(&node, setup.alternative_smf_ip_address.iter());
        self.associations.put(Association {
            id,
            node,
            others,
            set: set_name(setup.smf_set_id),
            recovery: setup.recovery_time_stamp,
            features: setup
                .cp_function_features
                .unwrap_or_else(|| pfcp::ie::CpFunctionFeatures::from_bits(0)),
            peer: request.path.from,
            local: request.path.to,
            since: now,
            reachable: true,
            is_asked: false,
            knows: Default::default(),
        });
        self.share_out();
        if let Some(interval) = self.config.heartbeat_interval.filter(|_| is_new) {
            self.heartbeats.push_back((now + interval, id));
        }
        let node = self.config.node.clone();
        let mut response = AssociationSetupResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.recovery_time_stamp = Some(self.recovery());
        response.up_function_features = Some(up_function_features(&self.config));
        response.pfcpasrsp_flags = retained.then_some(pfcp::ie::PfcpAsRspFlags::PSREI);
        self.answer(now, request, &response);
    }

    /// Removes the sessions of an association that begins anew, but for those that the peer asks to retain. Answers
    /// whether it asked.
    fn retain_sessions(
        &mut self,
        id: AssociationId,
        is_new: bool,
        setup: &AssociationSetupRequest<'_>,
    ) -> bool {
        if is_new {
            // It has no sessions, and there may be hundreds of thousands of others' to look through.
            return setup.pfcp_session_retention_information.is_some();
        }
        let Some(retention) = &setup.pfcp_session_retention_information else {
            self.sessions.remove_association(id, |_| true);
            return false;
        };
        let entities: Vec<_> = retention.cp_pfcp_entity_ip_address.iter().collect();
        let is_listed = |cp: &CpFSeid| {
            let listed =
                |v4, v6| (cp.ipv4.is_some() && cp.ipv4 == v4) || (cp.ipv6.is_some() && cp.ipv6 == v6);
            entities.is_empty() || entities.iter().any(|entity| listed(entity.ipv4, entity.ipv6))
        };
        self.sessions.remove_association(id, |cp| !is_listed(cp));
        true
    }

    /// Association Update (TS 29.244 §6.2.7.2.2).
    pub(crate) fn serve_update(
        &mut self,
        now: Nanos,
        request: Request,
        update: &AssociationUpdateRequest<'_>,
    ) {
        let cause = match self.association_of(update.node_id, request.path) {
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
                Cause::REQUEST_ACCEPTED
            }
            Err(reject) => return self.reject(now, request.path, &request.header, None, reject),
        };
        let node = self.config.node.clone();
        let mut response = AssociationUpdateResponse::new(node.as_ie(), cause);
        response.up_function_features = Some(up_function_features(&self.config));
        self.answer(now, request, &response);
    }

    /// Association Release (TS 29.244 §6.2.8.3): always accepted, all sessions go.
    pub(crate) fn serve_release(&mut self, now: Nanos, request: Request, id: AssociationId) {
        self.sessions.remove_association(id, |_| true);
        self.drop_association(id);
        let node = self.config.node.clone();
        self.answer(
            now,
            request,
            &AssociationReleaseResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED),
        );
    }

    /// Room for an association that is set up from `source`. Where there is none, the oldest one that is silent and has
    /// no sessions goes: one from the same address if that address has its fill, else one from anywhere.
    fn make_room(&mut self, source: IpAddr) -> Result<(), Reject> {
        let here = self.associations.iter().filter(|one| one.peer.ip() == source);
        if here.count() >= self.config.max_associations_per_address {
            self.evict(|one| one.peer.ip() == source)?;
        }
        if self.associations.len() >= self.config.max_associations {
            self.evict(|_| true)?;
        }
        Ok(())
    }

    /// Ends the oldest association, among those that `may_go` says of, that is silent and has no sessions.
    fn evict(&mut self, may_go: impl Fn(&Association) -> bool) -> Result<(), Reject> {
        let idle = |one: &&Association| !one.reachable && self.sessions.sessions_of(one.id) == 0;
        let all = self.associations.iter().filter(|one| may_go(one));
        let oldest = all.filter(idle).min_by_key(|one| (one.since, one.id));
        let id = oldest
            .map(|one| one.id)
            .ok_or(Reject::of(Cause::NO_RESOURCES_AVAILABLE))?;
        self.drop_association(id);
        self.counters.evicted_associations += 1;
        Ok(())
    }

    fn drop_association(&mut self, id: AssociationId) {
        self.associations.remove(id);
        self.node_reports.end(id);
        self.counters.events_dropped += self.reports.end_association(id) as u64;
        self.heartbeats.retain(|(_, other)| *other != id);
        self.share_out();
    }

    /// Takes up what has changed of the associations. Tells the sessions how many peers want their share: those that live.
    pub(crate) fn share_out(&mut self) {
        let alive = self.associations.iter().filter(|one| one.reachable).count();
        self.sessions.share_among(alive);
        self.find_bundlers();
    }
}
