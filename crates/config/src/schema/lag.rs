//! Ports made of several (link aggregation, IEEE 802.1AX).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::Bounded;

/// One LAG.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LagConfig {
    /// How frames are divided among the members.
    pub mode: LagModeConfig,
    /// The ports that it is made of, 1 to 8; their own `lag`, and instances on them, are mistakes.
    #[schemars(with = "Vec<String>")]
    pub members: Vec<Spanned<String>>,
    /// How this node speaks LACP, with mode `lacp` alone.
    #[serde(default)]
    #[schemars(with = "Option<LacpSettings>")]
    pub lacp: Option<Spanned<LacpSettings>>,
    /// What distinguishes flows that may take different members; l34.
    #[serde(default)]
    pub hash: LagHashConfig,
}

/// How frames are divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LagModeConfig {
    /// Among all whose link is up; the switch has a static group.
    Balance,
    /// One carries all, until its link goes down.
    ActiveBackup,
    /// As agreed with the switch (IEEE 802.3ad).
    Lacp,
}

impl LagModeConfig {
    /// The word for it in the file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Balance => "balance",
            Self::ActiveBackup => "active_backup",
            Self::Lacp => "lacp",
        }
    }
}

/// What distinguishes flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LagHashConfig {
    /// Addresses and ports of the user packet.
    #[default]
    L34,
    /// Its addresses.
    L3,
}

/// How this node speaks LACP.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct LacpSettings {
    /// The switch is asked for an LACPDU every second, and missed after 3 s, rather than every 30 and after 90; true.
    pub fast: bool,
    /// Of two systems, the lower decides; 32768.
    pub system_priority: Bounded<0, 65_535>,
    /// The key of the links; the place of the port among the ports, from 1 on.
    pub key: Option<Bounded<1, 65_535>>,
}

impl Default for LacpSettings {
    fn default() -> Self {
        Self {
            fast: true,
            system_priority: Bounded::new(32_768),
            key: None,
        }
    }
}
