//! Neighbours on the links: how they are asked for by ARP and Neighbour Discovery, and how long they are believed.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use transport::NeighboursConfig;

use super::RoutersConfig;
use crate::bounded::Bounded;

/// Neighbours at most, static ones and routers included.
const CAPACITY: usize = 16_384;

/// Times of ARP and Neighbour Discovery.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NeighbourTimes {
    /// Milliseconds for which an answer is believed before it is checked; 30000 (RFC 4861 §10, `REACHABLE_TIME`).
    #[serde(default = "NeighbourTimes::default_reachable")]
    pub reachable_ms: Bounded<100, 3_600_000>,
    /// Milliseconds between two questions; 1000 (RFC 4861 §10, `RETRANS_TIMER`).
    #[serde(default = "NeighbourTimes::default_retry")]
    pub retry_ms: Bounded<50, 60_000>,
    /// Questions to all until an address counts as unreachable, and as many to the known station before; 3 (RFC 4861
    /// §10, `MAX_MULTICAST_SOLICIT`, `MAX_UNICAST_SOLICIT`).
    #[serde(default = "NeighbourTimes::default_attempts")]
    pub attempts: Bounded<1, 10>,
    /// Milliseconds for which an unreachable neighbour is left alone; 5000.
    #[serde(default = "NeighbourTimes::default_hold")]
    pub hold_ms: Bounded<100, 600_000>,
    /// Probes for an own IPv6 address before it is used, `retry_ms` apart; 1 (RFC 4862 §5.1, `DupAddrDetectTransmits`);
    /// 0 turns Duplicate Address Detection off.
    #[serde(default = "NeighbourTimes::default_dad_transmits")]
    pub dad_transmits: Bounded<0, 10>,
}

impl NeighbourTimes {
    const fn default_reachable() -> Bounded<100, 3_600_000> {
        Bounded::new(30_000)
    }
    const fn default_retry() -> Bounded<50, 60_000> {
        Bounded::new(1_000)
    }
    const fn default_attempts() -> Bounded<1, 10> {
        Bounded::new(3)
    }
    const fn default_hold() -> Bounded<100, 600_000> {
        Bounded::new(5_000)
    }
    const fn default_dad_transmits() -> Bounded<0, 10> {
        Bounded::new(1)
    }

    /// As Control takes it, with the pace at which routers are checked.
    #[must_use]
    pub fn with(&self, routers: &RoutersConfig) -> NeighboursConfig {
        NeighboursConfig {
            retry: Duration::from_millis(self.retry_ms.value()),
            attempts: self.attempts.value() as u8,
            reachable: Duration::from_millis(self.reachable_ms.value()),
            hold: Duration::from_millis(self.hold_ms.value()),
            router_check: routers.check(),
            dad_transmits: self.dad_transmits.value() as u8,
            capacity: CAPACITY,
            ..NeighboursConfig::default()
        }
    }
}

impl Default for NeighbourTimes {
    fn default() -> Self {
        Self {
            reachable_ms: Self::default_reachable(),
            retry_ms: Self::default_retry(),
            attempts: Self::default_attempts(),
            hold_ms: Self::default_hold(),
            dad_transmits: Self::default_dad_transmits(),
        }
    }
}
