//! The host's own network stack on the link of an instance.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;
use worker::HostRates;

use crate::bounded::Bounded;

/// A TAP interface of the host, through which its network stack is on the link of an instance: BGP, BFD, SSH.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// The name of the interface, which is made at the start and goes at the end.
    #[schemars(with = "String")]
    pub interface: Spanned<String>,
    /// Whether it gets the instance's addresses; true. Without, who configures the host gives it some.
    #[serde(default = "HostConfig::default_addresses")]
    pub addresses: bool,
    /// Packets a second, and at once after a pause, that each worker gives it of what keeps links, neighbours and
    /// sessions alive; 10,000.
    #[serde(default = "HostConfig::default_rate")]
    pub urgent_pps: Bounded<1, 10_000_000>,
    /// The same of all others; 10,000.
    #[serde(default = "HostConfig::default_rate")]
    pub usual_pps: Bounded<1, 10_000_000>,
}

impl HostConfig {
    const fn default_addresses() -> bool {
        true
    }
    const fn default_rate() -> Bounded<1, 10_000_000> {
        Bounded::new(10_000)
    }

    /// What workers are made with.
    #[must_use]
    pub fn rates(&self) -> HostRates {
        HostRates {
            urgent: self.urgent_pps.value() as u32,
            usual: self.usual_pps.value() as u32,
        }
    }
}
