//! The rate of packets that peers cause and no rule bounds: in all, and for one session.

use crate::PacketRates;
use flow::{KeyedTokenBuckets, Nanos, SessionIndex, TokenRate};

/// A token bucket for all sessions, and one for each.
pub(crate) struct SessionRateLimit(KeyedTokenBuckets);

impl SessionRateLimit {
    /// Sessions whose indices differ by a multiple of it share a bucket.
    const BUCKETS: usize = 4096;

    /// Packets a second of all sessions, and of one; 0: none.
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
