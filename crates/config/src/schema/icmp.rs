//! ICMP errors to the senders of user packets that are not forwarded, and replies to pings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::bounded::Bounded;

/// ICMP and ICMPv6: errors about user packets (that the TTL ran out, and how long a packet may be), and answers to
/// pings.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct IcmpConfig {
    /// Errors a second of each worker, and at once after a pause; 10000. 0: none.
    #[serde(default)]
    pub errors_s: Option<Bounded<0, 1_000_000>>,
    /// Of them, those about packets of one session; 20: a trace of a path asks for three at once. 0: none.
    #[serde(default)]
    pub errors_per_session_s: Option<Bounded<0, 1_000_000>>,
    /// Pings of our addresses that each worker answers a second, and at once after a pause; 1000. Others are dropped
    /// (`rate_limited`).
    #[serde(default)]
    pub pings_s: Option<Bounded<1, 1_000_000>>,
    /// Of them, those of one source; 100.
    #[serde(default)]
    pub pings_per_source_s: Option<Bounded<1, 1_000_000>>,
}

impl IcmpConfig {
    /// Errors a second of one worker, and of them those about packets of one session; 0: none.
    #[must_use]
    pub fn rates(&self) -> (u32, u32) {
        let rate =
            |rate: Option<Bounded<0, 1_000_000>>, usual| rate.map_or(usual, |rate| rate.value() as u32);
        (rate(self.errors_s, 10_000), rate(self.errors_per_session_s, 20))
    }

    /// Pings a second that one worker answers, and of them those of one source.
    #[must_use]
    pub fn pings(&self) -> (u32, u32) {
        let rate =
            |rate: Option<Bounded<1, 1_000_000>>, usual| rate.map_or(usual, |rate| rate.value() as u32);
        (rate(self.pings_s, 1_000), rate(self.pings_per_source_s, 100))
    }
}
