//! Associations set up, updated and released (TS 29.244 §6.2.6 to §6.2.8), supervised by heartbeats (§6.2.2), and room
//! made for them.
//!
//! A peer that wants more of what is scarce must have responded to a heartbeat; see
//! [`source_filter`](crate::source_filter).

use flow::Nanos;
use pfcp::ie::{Cause, CpFunctionFeatures, PfcpAuReqFlags, RecoveryTimeStamp};
use pfcp::message::{
    AssociationReleaseResponse, AssociationSetupRequest, AssociationSetupResponse, AssociationUpdateRequest,
    AssociationUpdateResponse, Body, HeartbeatRequest, HeartbeatResponse,
};
use pfcp::{Frame, Header, IeType, SequenceNumber};
use session::{AssociationId, CpFSeid, EndCause};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};

use crate::association::{Association, Introduction, other_addresses, set_name};
use crate::association_setup::AssociationSetups;
use crate::cause::Reject;
use crate::config::Config;
use crate::endpoint_state::Shared;
use crate::event_log::{AssociationEnd, DiscardReason, LogEvent, PeerName};
use crate::features::bbf_up_function_features;
use crate::heartbeat::{Heartbeats, RecoveryChange};
use crate::node::NodeName;
use crate::releases::{Released, Releases};
use crate::reporting::Reporting;
use crate::source_filter::{SourceFilter, Verification, half_share_of, share_of, wants_verification};
use crate::transactions::{Path, Request};

/// How an association ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    pub(crate) why: AssociationEnd,
    /// Its sessions, which have been removed.
    pub(crate) sessions: usize,
}

/// The associations that were set up from one address.
#[derive(Debug, Default)]
struct Host {
    associations: Vec<AssociationId>,
    /// Whether one of them is.
    is_reachable: bool,
}

/// What supervises associations.
#[derive(Debug)]
pub(crate) struct AssociationControl {
    pub(crate) setups: AssociationSetups,
    pub(crate) heartbeats: Heartbeats,
    pub(crate) sources: SourceFilter,
    pub(crate) releases: Releases,
    /// Association Release Requests that are responded to when the sessions have left the workers.
    released: VecDeque<Released>,
    /// Whether no association begins any more.
    is_ending: bool,
}

impl AssociationControl {
    /// `seed` decides sequence numbers of heartbeats and the buckets of sources.
    pub(crate) fn new(config: &Config, seed: u64) -> AssociationControl {
        AssociationControl {
            setups: AssociationSetups::new(&config.smfs, config.setup_retry, config.setup_retry_most),
            heartbeats: Heartbeats::new(seed),
            sources: SourceFilter::new(seed),
            releases: Releases::default(),
            released: VecDeque::new(),
            is_ending: false,
        }
    }

    /// From now on all is as `config` says. What waits comes no later than it says.
    pub(crate) fn reconfigure(&mut self, now: Nanos, config: &Config) {
        if !self.is_ending {
            let setups = &mut self.setups;
            setups.set_targets(now, &config.smfs, config.setup_retry, config.setup_retry_most);
        }
        if let Some(interval) = config.heartbeat_interval {
            self.heartbeats.set_interval(now, interval);
        }
    }

    /// No association begins from now on.
    pub(crate) fn stop(&mut self) {
        self.is_ending = true;
        self.setups.stop();
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        [
            self.setups.poll_timeout(),
            self.heartbeats.poll_timeout(),
            self.releases.poll_timeout(),
            self.released.front().map(|released| released.until),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Association Setup (TS 29.244 §6.2.6.2.2): an association with the same node is overwritten, and its sessions
    /// go unless the peer wants them retained.
    pub(crate) fn serve_setup(
        &mut self,
        shared: &mut Shared,
        reporting: &mut Reporting,
        now: Nanos,
        request: Request,
        setup: &AssociationSetupRequest<'_>,
    ) {
        let Some(node) = NodeName::of(setup.node_id) else {
            let reject = Reject::ie(Cause::MANDATORY_IE_INCORRECT, IeType::NODE_ID);
            return shared.reject_request(now, request, reject);
        };
        let is_new = shared.associations.by_node(&node).is_none();
        if self.is_ending {
            let reject = Reject::of(Cause::NO_RESOURCES_AVAILABLE);
            return shared.reject_request(now, request, reject);
        }
        if let Err(reject) = self.check_moved(shared, now, &node, request.path.from.ip()) {
            return shared.reject_request(now, request, reject);
        }
        if is_new && !self.may_associate(shared, now, request.path) {
            return;
        }
        if is_new && let Err(reject) = self.make_room(shared, reporting, now, request.path.from.ip()) {
            return shared.reject_request(now, request, reject);
        }
        let id = shared.associations.id_for(&node);
        let before = shared.associations.get(id).map(|known| known.recovery);
        if before != Some(setup.recovery_time_stamp) {
            shared.transactions.forget_life_of(request.path.from);
        }
        let retained = retain_sessions(shared, now, id, setup);
        let introduction = Introduction {
            others: other_addresses(&node, setup.alternative_smf_ip_address.iter()),
            node,
            recovery: setup.recovery_time_stamp,
            features: setup.cp_function_features,
            set: set_name(setup.smf_set_id),
        };
        self.enter(shared, now, request.path, id, introduction);
        let node = shared.config.node.clone();
        let mut response = AssociationSetupResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        response.recovery_time_stamp = Some(shared.recovery());
        let features = setup.cp_function_features.unwrap_or(CpFunctionFeatures::empty());
        response.up_function_features = Some(shared.features_for(request.path.from.ip(), features));
        response.bbf_up_function_features = bbf_up_function_features(&shared.network);
        response.pfcpasrsp_flags = retained.then_some(pfcp::ie::PfcpAsRspFlags::PSREI);
        shared.respond(now, request, &response);
    }

    /// A node that has an association sets it up anew from another address: that would end its sessions, and a Node ID
    /// can be forged. So the old address must be unreachable, or both be of one prefix of peers; else a heartbeat is
    /// sent there, whose result decides about the next attempt.
    fn check_moved(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        node: &NodeName,
        from: IpAddr,
    ) -> Result<(), Reject> {
        let Some(known) = shared.associations.by_node(node) else {
            return Ok(());
        };
        let is_asked = shared.config.heartbeat_interval.is_some();
        let may = shared.config.any_source || shared.config.are_one_group(known.peer.ip(), from);
        if may || known.is_at(from) || !known.reachable || !is_asked {
            return Ok(());
        }
        let id = known.id;
        shared.counters.unauthorised += 1;
        self.heartbeats.send(shared, now, id);
        Err(Reject::of(Cause::REQUEST_REJECTED))
    }

    /// Enters an association with the peer at the far end of `path`, in the place of the one that it has.
    pub(crate) fn enter(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        path: Path,
        id: AssociationId,
        introduction: Introduction,
    ) {
        let is_new = shared.associations.get(id).is_none();
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
            verified: self.is_verified(shared, now, path, id),
            is_asked: false,
            sent_load: Default::default(),
        };
        let (peer, is_again) = (PeerName::from(&association), !is_new);
        shared.log.push(now, LogEvent::AssociationUp { peer, is_again });
        self.setups.associated(&association);
        self.releases.end(id);
        shared.associations.put(association);
        self.associations_changed(shared);
        if let Some(interval) = shared.config.heartbeat_interval.filter(|_| is_new) {
            self.heartbeats.start(now + interval, id);
        }
    }

    /// Whether the peer at the far end of `path` is verified at the start of an association: one that was before, at
    /// that address, is.
    fn is_verified(&self, shared: &Shared, now: Nanos, path: Path, id: AssociationId) -> bool {
        let from = path.from.ip().to_canonical();
        let is_at = |before: &Association| before.peer.ip().to_canonical() == from;
        let was = shared.associations.get(id).filter(|before| is_at(before));
        was.is_some_and(|before| before.verified) || self.sources.begins_verified(&shared.config, now, from)
    }

    /// Association Update (TS 29.244 §6.2.7.2.2). Gives the association that the peer wants to be
    /// released (PARPS, §5.18).
    pub(crate) fn serve_update(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        request: Request,
        update: &AssociationUpdateRequest<'_>,
    ) -> Option<AssociationId> {
        let id = match shared.association_of(update.node_id, request.path) {
            Ok(id) => {
                if let Some(association) = shared.associations.get_mut(id) {
                    association.set = set_name(update.smf_set_id).or(association.set.take());
                    association.features = update.cp_function_features.unwrap_or(association.features);
                    if !update.alternative_smf_ip_address.is_empty() {
                        let alternatives = update.alternative_smf_ip_address.iter();
                        association.others = other_addresses(&association.node, alternatives);
                    }
                }
                self.associations_changed(shared);
                id
            }
            Err(reject) => {
                shared.reject_request(now, request, reject);
                return None;
            }
        };
        let node = shared.config.node.clone();
        let mut response = AssociationUpdateResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
        let features = shared.associations.get(id).map(|one| one.features);
        let features = features.unwrap_or(CpFunctionFeatures::empty());
        response.up_function_features = Some(shared.features_for(request.path.from.ip(), features));
        response.bbf_up_function_features = bbf_up_function_features(&shared.network);
        shared.respond(now, request, &response);
        let flags = update.pfcpaureq_flags;
        let association = shared.associations.get(id);
        let both = association.is_some_and(|one| one.features.contains(CpFunctionFeatures::EPFAR));
        let prepares = both && flags.is_some_and(|flags| flags.contains(PfcpAuReqFlags::PARPS));
        prepares.then_some(id)
    }

    /// Association Release (TS 29.244 §6.2.8.3): always accepted, all sessions go. It is answered when they have left
    /// the workers, or when that takes too long.
    pub(crate) fn serve_release(
        &mut self,
        shared: &mut Shared,
        reporting: &mut Reporting,
        now: Nanos,
        request: Request,
        id: AssociationId,
    ) {
        let gone = shared
            .sessions
            .remove_association(id, EndCause::AssociationEnded, |_| true);
        let end = Ended {
            why: AssociationEnd::Released,
            sessions: gone,
        };
        self.drop_association(shared, reporting, now, id, end);
        let ticket = shared.new_ticket();
        shared.transactions.begin(request, ticket);
        self.released.push_back(Released {
            id,
            request,
            ticket,
            until: now + shared.config.sessions.deadline,
        });
        self.answer_releases(shared, now);
    }

    /// Answers releases that are done, late, or too many to be remembered.
    pub(crate) fn answer_releases(&mut self, shared: &mut Shared, now: Nanos) {
        let most = shared.config.max_associations;
        while let Some(place) = self.released.iter().position(|released| {
            let is_done = shared.sessions.dying_of(released.id) == 0;
            is_done || released.until <= now || self.released.len() > most
        }) {
            if let Some(released) = self.released.remove(place) {
                answer_release(shared, now, &released);
            }
        }
    }

    /// Room for an association that is set up from `source`. Where there is none, the oldest one that is silent and has
    /// no sessions goes: one from the same address if that address has its fill, else one from anywhere.
    fn make_room(
        &mut self,
        shared: &mut Shared,
        reporting: &mut Reporting,
        now: Nanos,
        source: IpAddr,
    ) -> Result<(), Reject> {
        let here = shared.associations.iter().filter(|one| one.peer.ip() == source);
        if here.count() >= shared.config.max_associations_per_address {
            self.evict(shared, reporting, now, |one| one.peer.ip() == source)?;
        }
        if shared.associations.len() >= shared.config.max_associations {
            self.evict(shared, reporting, now, |_| true)?;
        }
        Ok(())
    }

    /// Ends the oldest association, among those that `may_go` says of, that is silent and has no sessions.
    fn evict(
        &mut self,
        shared: &mut Shared,
        reporting: &mut Reporting,
        now: Nanos,
        may_go: impl Fn(&Association) -> bool,
    ) -> Result<(), Reject> {
        let idle = |one: &&Association| !one.reachable && shared.sessions.sessions_of(one.id) == 0;
        let all = shared.associations.iter().filter(|one| may_go(one));
        let oldest = all.filter(idle).min_by_key(|one| (one.since, one.id));
        let id = oldest
            .map(|one| one.id)
            .ok_or(Reject::of(Cause::NO_RESOURCES_AVAILABLE))?;
        let end = Ended {
            why: AssociationEnd::Evicted,
            sessions: 0,
        };
        self.drop_association(shared, reporting, now, id, end);
        shared.counters.evicted_associations += 1;
        Ok(())
    }

    /// A peer itself says when it started.
    pub(crate) fn observe_recovery(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        id: AssociationId,
        recovery: RecoveryTimeStamp,
    ) {
        // Its sessions are not all here: its next heartbeat says it again.
        if shared.is_restoring {
            return;
        }
        if self.heartbeats.judge(shared, now, id, recovery) == RecoveryChange::Restarted
            && let Some(association) = shared.associations.get_mut(id)
        {
            association.recovery = recovery;
            shared.journal.associations_changed();
            self.forget_life(shared, now, id);
            self.setups.restarted(now, id);
        }
    }

    /// A peer has restarted: its sessions are lost, but for those of a set, and so are answers about them.
    pub(crate) fn forget_life(&mut self, shared: &mut Shared, now: Nanos, id: AssociationId) {
        shared.counters.peer_restarts += 1;
        let Some(association) = shared.associations.get(id) else {
            return;
        };
        shared.transactions.forget_life_of(association.peer);
        let peer = PeerName::from(association);
        let sessions = if association.is_of_set() {
            0
        } else {
            shared
                .sessions
                .remove_association(id, EndCause::CpRestarted, |_| true)
        };
        shared.log.push(now, LogEvent::PeerRestarted { peer, sessions });
    }

    pub(crate) fn heartbeat_answered(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        id: AssociationId,
        frame: &Frame<'_>,
    ) {
        if let Some(association) = shared.associations.get_mut(id) {
            (association.is_asked, association.verified) = (false, true);
            let was_silent = !std::mem::replace(&mut association.reachable, true);
            let peer = PeerName::from(&*association);
            if was_silent {
                let sessions = shared.sessions.sessions_of(id);
                shared.log.push(now, LogEvent::PeerReachable { peer, sessions });
                self.associations_changed(shared);
            }
        }
        if let Ok(HeartbeatResponse {
            recovery_time_stamp, ..
        }) = HeartbeatResponse::decode(frame.body)
        {
            self.observe_recovery(shared, now, id, recovery_time_stamp);
        }
    }

    /// A heartbeat has no response. Sessions stay: the peer may come back (TS 23.527 §4.3).
    pub(crate) fn heartbeat_unanswered(&mut self, shared: &mut Shared, now: Nanos, id: AssociationId) {
        // If the peer has set up its association anew since, it is reachable.
        let asked = shared.associations.get_mut(id).filter(|one| one.is_asked);
        let Some(association) = asked else {
            return;
        };
        association.is_asked = false;
        let was_reachable = std::mem::replace(&mut association.reachable, false);
        let peer = PeerName::from(&*association);
        if was_reachable {
            let sessions = shared.sessions.sessions_of(id);
            shared.log.push(now, LogEvent::PeerUnreachable { peer, sessions });
        }
        self.setups.silent(now, id);
        self.associations_changed(shared);
    }

    /// Enters an association that a peer has accepted. One that it has had since it last started keeps its sessions:
    /// the peer has asked for it at the same time, or was out of reach.
    pub(crate) fn take_up(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        path: Path,
        introduction: Introduction,
    ) {
        let id = shared.associations.id_for(&introduction.node);
        let before = shared.associations.get(id);
        if before.is_some_and(|before| before.recovery != introduction.recovery) {
            self.forget_life(shared, now, id);
        }
        self.enter(shared, now, path, id, introduction);
    }

    /// Whether a datagram from `from` is taken; one that is not is counted and logged.
    pub(crate) fn admits(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        from: SocketAddr,
        datagram: &[u8],
    ) -> bool {
        let Err(why) = self.sources.check(&shared.config, now, from, datagram) else {
            return true;
        };
        match why {
            DiscardReason::OutsidePeers => shared.counters.outside_peers += 1,
            DiscardReason::UnknownSource | DiscardReason::Unverified => {
                shared.counters.unknown_over_rate += 1
            }
        }
        shared.log.push(now, LogEvent::Discarded { source: from, why });
        false
    }

    /// Whether a new association from the far end of `path` may be set up now: while many have one, its sender must
    /// have answered a heartbeat, and is asked.
    pub(crate) fn may_associate(&mut self, shared: &mut Shared, now: Nanos, path: Path) -> bool {
        let share = share_of(shared.config.max_associations, shared.config.unverified_percent);
        let is_scarce = shared.associations.len() >= share && share < shared.config.max_associations;
        if !is_scarce || self.sources.begins_verified(&shared.config, now, path.from.ip()) {
            return true;
        }
        note_unverified(shared, now, path.from);
        let sequence = self.sources.request_number(now, path.from.ip());
        let header = Header::node(HeartbeatRequest::TYPE, SequenceNumber::new(sequence));
        let path = Path {
            from: SocketAddr::new(path.from.ip(), shared.config.peer_port),
            to: path.to,
        };
        shared.send(path, &header, &HeartbeatRequest::new(shared.recovery()));
        false
    }

    /// Whether an association may have more of what sessions take. One that must show first that its peer is there is
    /// asked.
    pub(crate) fn verification_of(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        id: AssociationId,
        from: SocketAddr,
    ) -> Verification {
        let Some(association) = shared.associations.get(id).filter(|one| !one.verified) else {
            return Verification::Done;
        };
        let lives = association.reachable;
        let percent = shared.config.unverified_percent;
        if !wants_verification(&shared.config)
            || !shared.sessions.is_filled(|most| half_share_of(most, percent))
        {
            return Verification::Done;
        }
        // Before it matters, so that a live peer's requests need not wait.
        self.heartbeats.send(shared, now, id);
        if !shared.sessions.is_filled(|most| share_of(most, percent)) {
            return Verification::Done;
        }
        note_unverified(shared, now, from);
        if lives {
            Verification::Awaited
        } else {
            Verification::Missing
        }
    }

    /// Ends an association.
    pub(crate) fn drop_association(
        &mut self,
        shared: &mut Shared,
        reporting: &mut Reporting,
        now: Nanos,
        id: AssociationId,
        end: Ended,
    ) {
        let Ended { why, sessions } = end;
        self.releases.end(id);
        self.setups.ended(now, id);
        if let Some(gone) = shared.associations.remove(id) {
            let peer = PeerName::from(&gone);
            let event = LogEvent::AssociationDown { peer, why, sessions };
            shared.log.push(now, event);
            shared.usage_record_owners.remember(id, gone.node);
        }
        reporting.end_association(shared, now, id);
        self.heartbeats.stop(id);
        self.associations_changed(shared);
    }

    /// Takes up what has changed of the associations. The sessions are notified how many peers want their share: the
    /// addresses that associations were set up from, of which one is reachable. A host with several Node IDs has one
    /// share.
    pub(crate) fn associations_changed(&mut self, shared: &mut Shared) {
        shared.journal.associations_changed();
        let mut hosts: BTreeMap<IpAddr, Host> = BTreeMap::new();
        let mut known = BTreeSet::new();
        let mut bundling: BTreeMap<IpAddr, bool> = BTreeMap::new();
        for one in shared.associations.iter() {
            let address = one.peer.ip().to_canonical();
            let host = hosts.entry(address).or_default();
            host.associations.push(one.id);
            host.is_reachable |= one.reachable;
            known.insert(address);
            known.extend(one.others.iter().copied());
            *bundling.entry(one.peer.ip()).or_insert(true) &=
                one.features.contains(CpFunctionFeatures::BUNDL);
        }
        let reachable = hosts.values().filter(|host| host.is_reachable).count();
        shared.sessions.share_among(reachable);
        let hosts = hosts.into_values().map(|host| host.associations);
        shared.sessions.unite(hosts);
        let bundling = bundling.into_iter().filter(|(_, all_take)| *all_take);
        let bundling = bundling.map(|(address, _)| address).collect();
        shared.transactions.bundling_mut().set_peers(bundling);
        self.sources.know(known);
    }
}

/// Removes the sessions of an association that begins anew, but for those that the peer asks to retain. Answers
/// whether it asked.
fn retain_sessions(
    shared: &mut Shared,
    now: Nanos,
    id: AssociationId,
    setup: &AssociationSetupRequest<'_>,
) -> bool {
    let retention = &setup.pfcp_session_retention_information;
    let Some(known) = shared.associations.get(id) else {
        return retention.is_some();
    };
    let peer = PeerName::from(known);
    let has_restarted = known.recovery != setup.recovery_time_stamp;
    let sessions = remove_unretained(shared, id, setup);
    if has_restarted || sessions > 0 {
        shared.log.push(now, LogEvent::PeerRestarted { peer, sessions });
    }
    retention.is_some()
}

/// The same for an association that there was. Answers how many went.
fn remove_unretained(shared: &mut Shared, id: AssociationId, setup: &AssociationSetupRequest<'_>) -> usize {
    let Some(retention) = &setup.pfcp_session_retention_information else {
        let known = shared.associations.get(id);
        let stays = known.is_some_and(|known| {
            known.recovery == setup.recovery_time_stamp && shared.config.retains_sessions(known.peer.ip())
        });
        if stays {
            return 0;
        }
        return shared
            .sessions
            .remove_association(id, EndCause::CpRestarted, |_| true);
    };
    let entities: Vec<_> = retention.cp_pfcp_entity_ip_address.iter().collect();
    let is_listed = |cp: &CpFSeid| {
        let listed = |v4, v6| (cp.ipv4.is_some() && cp.ipv4 == v4) || (cp.ipv6.is_some() && cp.ipv6 == v6);
        entities.is_empty() || entities.iter().any(|entity| listed(entity.ipv4, entity.ipv6))
    };
    shared
        .sessions
        .remove_association(id, EndCause::CpRestarted, |cp| !is_listed(cp))
}

fn answer_release(shared: &mut Shared, now: Nanos, released: &Released) {
    let node = shared.config.node.clone();
    let response = AssociationReleaseResponse::new(node.as_ie(), Cause::REQUEST_ACCEPTED);
    shared.conclude(now, released.request, released.ticket, &response);
}

fn note_unverified(shared: &mut Shared, now: Nanos, source: SocketAddr) {
    shared.counters.unverified += 1;
    let why = DiscardReason::Unverified;
    shared.log.push(now, LogEvent::Discarded { source, why });
}
