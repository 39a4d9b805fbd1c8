//! A changed configuration takes effect while associations and sessions live.

use flow::Nanos;
use rules::Predefined;
use rules::network::Network;
use session::Recompiled;
use std::net::IpAddr;
use std::sync::Arc;

use super::Endpoint;
use crate::association::LostPeer;
use crate::config::{Config, Peers};

impl Endpoint {
    /// The first peer with an association that is in none of these prefixes; `None` also where there are no prefixes,
    /// so that any peer is received.
    pub fn lost_peer(&self, peers: &[Peers]) -> Option<LostPeer> {
        let is_in = |address: IpAddr| {
            let mut peers = peers.iter();
            peers.any(|peers| peers.prefix.contains(address.to_canonical()))
        };
        let mut associations = self.associations();
        let lost = associations.find(|one| !peers.is_empty() && !is_in(one.peer.ip()))?;
        Some(LostPeer {
            address: lost.peer.ip(),
            sessions: self.shared.sessions.sessions_of(lost.id),
        })
    }

    /// Requests find what these name from now on; what they do not name is hidden, and nothing else changes.
    pub fn find_names_in(&mut self, network: &Arc<Network>, predefined: &Arc<Predefined>) {
        let shared = &mut self.shared;
        shared.network = Arc::clone(network);
        shared.config.sessions.predefined = Arc::clone(predefined);
        shared
            .sessions
            .find_names_in(Arc::clone(network), Arc::clone(predefined));
    }

    /// From now on all is as these say; `network`, pools and what is predefined succeed those there are. What an
    /// endpoint has from its start stays: its Node ID, its clock, the sizes of tables and of the response cache, and
    /// what of [`session::Config`] is not of pools, predefined rules, F-TEIDs of the control plane or the deadline.
    /// Requests and heartbeats that wait come no later than the new times say. Sessions follow one after the other:
    /// [`poll_recompilation`](Self::poll_recompilation).
    pub fn reconfigure(&mut self, now: Nanos, network: &Arc<Network>, config: Config) {
        let shared = &mut self.shared;
        shared.network = Arc::clone(network);
        shared
            .sessions
            .succeed(now, Arc::clone(network), &config.sessions);
        let own = &mut shared.config;
        let sessions = session::Config {
            pools: config.sessions.pools,
            predefined: config.sessions.predefined,
            accept_cp_f_teids: config.sessions.accept_cp_f_teids,
            deadline: config.sessions.deadline,
            ..own.sessions.clone()
        };
        *own = Config {
            node: own.node.clone(),
            recovery_unix: own.recovery_unix,
            clock_unix: own.clock_unix,
            response_cache_age: own.response_cache_age,
            response_cache_octets: own.response_cache_octets,
            max_in_work: own.max_in_work,
            reports: own.reports,
            peer_port: own.peer_port,
            sessions,
            ..config
        };
        shared.transactions.requests_mut().set_times(now, own.t1, own.n1);
        self.control.reconfigure(now, own);
        // SMFs that have set one up themselves are not to be asked for one.
        for association in shared.associations.iter().filter(|one| one.reachable) {
            self.control.setups.associated(association);
        }
        let used = shared.sessions.paths();
        let unsupervised = self.reporting.nodes.set_supervision(now, own.paths, used);
        shared.counters.paths_unsupervised += unsupervised;
        self.pfds.configure(shared, now);
        self.settle(now);
    }

    /// Has up to `most` more sessions follow the configuration; see [`Sessions::poll_recompilation`].
    ///
    /// [`Sessions::poll_recompilation`]: session::Sessions::poll_recompilation
    pub fn poll_recompilation(&mut self, now: Nanos, most: usize) -> Option<Recompiled> {
        let all = self.shared.sessions.poll_recompilation(now, most);
        self.settle(now);
        all
    }
}
