//! Node reports: GTP-U paths that failed or recovered (TS 29.244 §6.2.9, §7.4.5), reported to every association with
//! sessions on them, kept until acknowledged. An association has one on its way at a time; what happens meanwhile goes
//! in the next.

use flow::Nanos;
use pfcp::Frame;
use pfcp::Repeated;
use pfcp::group::{UserPlanePathFailureReport, UserPlanePathRecoveryReport};
use pfcp::ie::{NodeReportType, RemoteGtpUPeer};
use pfcp::message::{Body, NodeReportRequest, NodeReportResponse};
use session::{AssociationId, GtpuPath, PathChange};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::config::Config;
use crate::endpoint_state::Shared;
use crate::ie_addresses::{v4, v6};
use crate::own_requests::Purpose;
use crate::path_supervision::{Echo, PathSupervision, Paths};

/// Peers in one message.
const MOST_PEERS: usize = 512;

/// Peers whose paths failed, and those whose paths recovered. No peer is both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Peers {
    failed: BTreeSet<IpAddr>,
    recovered: BTreeSet<IpAddr>,
}

impl Peers {
    fn is_empty(&self) -> bool {
        self.failed.is_empty() && self.recovered.is_empty()
    }

    /// The last event counts. It is reported even if it reverts one that was not acknowledged: the peer may have
    /// received that when its acknowledgement was lost.
    fn fail(&mut self, peer: IpAddr) {
        self.recovered.remove(&peer);
        self.failed.insert(peer);
    }

    fn recover(&mut self, peer: IpAddr) {
        self.failed.remove(&peer);
        self.recovered.insert(peer);
    }

    fn take(&mut self) -> Peers {
        Peers {
            failed: take(&mut self.failed),
            recovered: take(&mut self.recovered),
        }
    }

    /// Takes back what was sent and not acknowledged, before what has happened since.
    fn put_back(&mut self, sent: Peers) {
        let since = std::mem::replace(self, sent);
        since.failed.into_iter().for_each(|peer| self.fail(peer));
        since.recovered.into_iter().for_each(|peer| self.recover(peer));
    }
}

fn take(peers: &mut BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    let rest = peers.iter().nth(MOST_PEERS).copied();
    let rest = rest.map(|first| peers.split_off(&first)).unwrap_or_default();
    std::mem::replace(peers, rest)
}

#[derive(Debug, Default)]
struct Pending {
    peers: Peers,
    sent: Option<Peers>,
    /// Nothing is sent before.
    at: Nanos,
}

/// GTP-U paths, and what there is to report of them to each association.
#[derive(Debug)]
pub(crate) struct NodeReports {
    paths: Paths,
    pending: BTreeMap<AssociationId, Pending>,
}

impl NodeReports {
    pub(crate) fn new(config: &Config) -> NodeReports {
        NodeReports {
            paths: Paths::new(config.paths),
            pending: BTreeMap::new(),
        }
    }

    /// The next association with something to report, and what.
    fn poll(&mut self, now: Nanos) -> Option<(AssociationId, Peers)> {
        let is_ready = |one: &Pending| one.sent.is_none() && one.at <= now && !one.peers.is_empty();
        let mut all = self.pending.iter_mut();
        let (association, pending) = all.find(|(_, one)| is_ready(one))?;
        let peers = pending.peers.take();
        pending.sent = Some(peers.clone());
        Some((*association, peers))
    }

    pub(crate) fn poll_timeout(&self) -> Option<Nanos> {
        let waits = |one: &&Pending| one.sent.is_none() && !one.peers.is_empty();
        let report = self.pending.values().filter(waits).map(|one| one.at).min();
        [report, self.paths.poll_timeout()].into_iter().flatten().min()
    }

    fn acknowledged(&mut self, association: AssociationId) {
        if let Some(pending) = self.pending.get_mut(&association) {
            pending.sent = None;
            if pending.peers.is_empty() {
                self.pending.remove(&association);
            }
        }
    }

    fn failed(&mut self, retry_at: Nanos, association: AssociationId) {
        if let Some(pending) = self.pending.get_mut(&association)
            && let Some(sent) = pending.sent.take()
        {
            pending.peers.put_back(sent);
            pending.at = retry_at;
        }
    }

    /// An association has ended.
    pub(crate) fn end(&mut self, association: AssociationId) {
        self.pending.remove(&association);
    }
}

impl NodeReports {
    /// See [`Paths::set_supervision`].
    pub(crate) fn set_supervision(
        &mut self,
        now: Nanos,
        supervision: Option<PathSupervision>,
        used: impl Iterator<Item = GtpuPath>,
    ) -> u64 {
        self.paths.set_supervision(now, supervision, used)
    }

    /// The next Echo Request to send.
    pub(crate) fn poll_echo(&mut self) -> Option<Echo> {
        self.paths.poll_echo()
    }

    /// A GTP-U path that came into use or went out of use, for workers to know. To be polled until there is none: they
    /// are kept until then.
    pub(crate) fn poll_path(&mut self) -> Option<PathChange> {
        self.paths.poll_change()
    }

    /// A GTP-U peer has answered an Echo Request.
    pub(crate) fn handle_echo_response(
        &mut self,
        shared: &mut Shared,
        now: Nanos,
        path: GtpuPath,
        sequence: u16,
    ) {
        for association in self.paths.answered(now, &path, sequence) {
            if shared.associations.get(association).is_some() {
                let pending = self.pending.entry(association).or_default();
                pending.peers.recover(path.peer);
            }
        }
        self.send(shared, now);
    }

    /// How many paths have failed, of those whose failure an association has received.
    pub(crate) fn failed_paths(&self) -> usize {
        self.paths.failed()
    }

    /// Takes up and lets go of paths as sessions do.
    pub(crate) fn follow_paths(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some(change) = shared.sessions.poll_path() {
            self.paths.change(change);
            match change {
                PathChange::Used(path) => {
                    let is_supervised = self.paths.used(now, path);
                    shared.counters.paths_unsupervised += u64::from(!is_supervised);
                }
                PathChange::Unused(path) => self.paths.unused(&path),
            }
        }
    }

    /// Sends Echo Requests, and reports the paths without a response.
    pub(crate) fn supervise(&mut self, shared: &mut Shared, now: Nanos) {
        for path in self.paths.handle_timeout(now) {
            let users: Vec<_> = shared.sessions.users_of(&path).collect();
            for association in users {
                if self.paths.set_reported(&path, association) {
                    let pending = self.pending.entry(association).or_default();
                    pending.peers.fail(path.peer);
                }
            }
        }
    }

    /// Sends the node reports that are ready.
    pub(crate) fn send(&mut self, shared: &mut Shared, now: Nanos) {
        while let Some((id, peers)) = self.poll(now) {
            let Some(association) = shared.associations.get(id) else {
                self.end(id);
                continue;
            };
            let path = shared.path_of(association);
            let failed: Vec<_> = peers.failed.iter().map(remote).collect();
            let recovered: Vec<_> = peers.recovered.iter().map(remote).collect();
            let kinds = [
                (!failed.is_empty(), NodeReportType::UPFR),
                (!recovered.is_empty(), NodeReportType::UPRR),
            ];
            let there = kinds.into_iter().filter(|(is_there, _)| *is_there);
            let kind = there.fold(NodeReportType(0), |all, (_, kind)| all | kind);
            let node = shared.config.node.clone();
            let mut report = NodeReportRequest::new(node.as_ie(), kind);
            report.user_plane_path_failure_report =
                (!failed.is_empty()).then(|| UserPlanePathFailureReport::new(Repeated::new(&failed)));
            report.user_plane_path_recovery_report =
                (!recovered.is_empty()).then(|| UserPlanePathRecoveryReport::new(Repeated::new(&recovered)));
            shared.counters.node_reports += 1;
            shared.send_request(now, path, None, Purpose::NodeReport(id), &report);
        }
    }

    /// The control plane has answered; a refusal is an answer too.
    pub(crate) fn answered(&mut self, shared: &mut Shared, now: Nanos, id: AssociationId, frame: &Frame<'_>) {
        let accepted = NodeReportResponse::decode(frame.body).is_ok_and(|answer| answer.cause.is_accepted());
        shared.counters.reports_refused += u64::from(!accepted);
        self.acknowledged(id);
        self.send(shared, now);
    }

    /// There is no response: the same is reported later, unless it has changed by then.
    pub(crate) fn unanswered(&mut self, shared: &mut Shared, now: Nanos, id: AssociationId) {
        shared.counters.reports_retried += 1;
        self.failed(now + shared.config.reports.retry, id);
    }
}

fn remote(peer: &IpAddr) -> RemoteGtpUPeer<'static> {
    RemoteGtpUPeer {
        ipv4: v4(*peer),
        ipv6: v6(*peer),
        ..RemoteGtpUPeer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let peer = IpAddr::from([192, 0, 2, 1]);
        let mut peers = Peers::default();
        peers.fail(peer);
        let sent = peers.take();
        peers.recover(peer);
        peers.put_back(sent);
        assert_eq!((peers.failed.len(), peers.recovered.len()), (0, 1));
        peers.fail(peer);
        assert_eq!((peers.failed.len(), peers.recovered.len()), (1, 0));
    }

    #[test]
    fn a_message_is_bounded() {
        let mut peers = Peers::default();
        (0..1_000u32).for_each(|number| peers.fail(std::net::Ipv4Addr::from(number).into()));
        assert_eq!(peers.take().failed.len(), MOST_PEERS);
        assert_eq!(peers.take().failed.len(), 1_000 - MOST_PEERS);
        assert!(peers.is_empty());
    }
}
