//! Rate limit of packets that a worker generates or relays because a peer or UE sent a packet, and to which no QER
//! applies: ICMP errors, redirections, End Markers, Tunnel Status messages. One limit is for all sessions, one for
//! each.

use crate::PacketRates;
use flow::{KeyedTokenBuckets, Nanos, SessionIndex, TokenRate};

/// A token bucket for all sessions of the worker, and one for each session.
pub(crate) struct GeneratedPacketRateLimit(KeyedTokenBuckets);

impl GeneratedPacketRateLimit {
    /// Number of token buckets. Sessions whose indices differ by a multiple of it share one.
    const BUCKETS: usize = 4096;

    /// `all` and `each` are packets per second of all sessions and of one session; 0: no packet.
    pub fn new(PacketRates { all, each }: PacketRates) -> Self {
        let [all, each] = [all, each].map(TokenRate::per_second);
        Self(KeyedTokenBuckets::new(all, each, Self::BUCKETS))
    }

    /// Whether a session has a token at `now`.
    pub fn has_one(&self, session: SessionIndex, now: Nanos) -> bool {
        self.0.has_token(session.index(), now)
    }

    /// Takes a token of a session at `now`, if there is one.
    pub fn take(&mut self, session: SessionIndex, now: Nanos) -> bool {
        self.0.take(session.index(), now)
    }
}
