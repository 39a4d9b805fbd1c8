//! Connections of UEs that workers know, for access lists that ask for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use worker::ConnectionLimits;

use super::flows::IdleConfig;
use crate::bounded::Bounded;

/// Connections of UEs that workers know, for access lists with the action `solicited`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectionsConfig {
    /// Those that a worker may know; half as many as it may have flow entries. Packets that would begin further ones
    /// are dropped.
    #[serde(default)]
    pub per_worker: Option<Bounded<64, 134_217_728>>,
    /// Those of one session; 4,096.
    #[serde(default = "ConnectionsConfig::default_per_session")]
    pub per_session: Bounded<1, 16_777_216>,
    /// How long one lives behind its last packet, in seconds, and up to 70 more. Those of TCP are transitory until the
    /// UE sends after its other end has answered, and from a FIN or RST on.
    #[serde(default)]
    pub lifetime_s: IdleConfig,
}

impl ConnectionsConfig {
    const fn default_per_session() -> Bounded<1, 16_777_216> {
        Bounded::new(4_096)
    }

    /// As a worker with room for this many flow entries takes them.
    #[must_use]
    pub fn limits(&self, flows: usize) -> ConnectionLimits {
        ConnectionLimits {
            connections: self.per_worker.map_or(flows / 2, Bounded::size),
            per_session: self.per_session.value() as u32,
            lifetimes: self.lifetime_s.times(),
        }
    }
}

impl Default for ConnectionsConfig {
    fn default() -> Self {
        Self {
            per_worker: None,
            per_session: Self::default_per_session(),
            lifetime_s: IdleConfig::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_the_workers() {
        assert_eq!(
            ConnectionsConfig::default().limits(327_680),
            ConnectionLimits::default()
        );
    }
}
