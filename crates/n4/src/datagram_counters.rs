//! What the endpoint counts. Nothing of a datagram is ever logged.

/// Events since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams received.
    pub datagrams: u64,
    /// Datagrams that are too short for a header, or that stop making sense, and were dropped in silence.
    pub malformed: u64,
    /// Messages of another version, answered with Version Not Supported.
    pub other_version: u64,
    /// Messages of unknown type, or that no node may send to a user plane function, discarded.
    pub unexpected: u64,
    /// Requests answered for the first time.
    pub answered: u64,
    /// Among them those that were rejected.
    pub rejected: u64,
    /// Retransmissions answered from the cache.
    pub replayed: u64,
    /// Retransmissions of requests in work, passed over.
    pub in_work: u64,
    /// Responses that no request waits for.
    pub unmatched_responses: u64,
    /// Requests of ours sent, without retransmissions.
    pub requests: u64,
    /// Retransmissions of ours.
    pub retransmissions: u64,
    /// Requests of ours that were never answered.
    pub unanswered: u64,
    /// Events of sessions that were to be reported.
    pub events: u64,
    /// Among them those that were one with an event that waited to be reported, or was being reported.
    pub events_merged: u64,
    /// Among them those that found their session's list full, and lists of sessions that ended before their turn.
    pub events_dropped: u64,
    /// Reports that the control plane refused: they are not sent again.
    pub reports_refused: u64,
    /// Reports whose answer cannot be read: they are not sent again.
    pub reports_unreadable: u64,
    /// Usage reports, of which a message has several, that the control plane refused.
    pub usage_refused: u64,
    /// Usage reports in messages whose answer cannot be read.
    pub usage_unreadable: u64,
    /// Usage reports whose session or association was gone before the control plane had answered.
    pub usage_unanswered: u64,
    /// Reports without a response, or that the control plane was too busy for: they are sent anew later.
    pub reports_retried: u64,
    /// Node reports of GTP-U paths that failed or recovered.
    pub node_reports: u64,
    /// GTP-U paths that came into use when as many were supervised as may be.
    pub paths_unsupervised: u64,
    /// New sessions refused under overload, or because their peer has more than its share in work.
    pub throttled: u64,
    /// Datagrams with several messages of ours.
    pub bundles: u64,
    /// Peers found to have restarted by their Recovery Time Stamp.
    pub peer_restarts: u64,
    /// Association set-ups of ours that a peer refused, or answered with something that is no answer.
    pub setups_refused: u64,
    /// Sessions that could not follow a change of PFDs: their PDRs detect, and their quotas exempt, applications as
    /// before.
    pub stale_applications: u64,
    /// Recovery Time Stamps older than what the peer had said before, or too far ahead of our clock, and not believed.
    pub doubted_recoveries: u64,
    /// Requests of unauthorised peers: in the name of a peer, or about its sessions, from an address that is not known
    /// to be the peer's.
    pub unauthorised: u64,
    /// Datagrams from outside the prefixes that peers are configured to speak from, not read.
    pub outside_peers: u64,
    /// Datagrams of sources without an association, over what such may send, not read.
    pub unknown_over_rate: u64,
    /// Requests of peers that had not answered a heartbeat, for more than such may have: passed over, or refused.
    pub unverified: u64,
    /// Associations that were silent and had no sessions, and made room for new ones.
    pub evicted_associations: u64,
    /// QERs, new or with new rates, whose MBR is so high that nothing reaches it: they limit nothing in that direction.
    pub unreachable_rates: u64,
    /// IEs of requests that have no place on the reference points that their peer is configured to speak over, and were
    /// discarded (TS 29.244 §7.6.9).
    pub misplaced_ies: u64,
    /// Responses that could not be encoded: a bug.
    pub unencodable: u64,
}
