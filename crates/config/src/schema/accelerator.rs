//! The accelerator that ports are behind, and how its channel is secured.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::bounded::{self, Bounded};

/// The accelerator that passes packets of the ports with `driver: accelerator`.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorConfig {
    /// The link to it.
    pub link: InBandConfig,
    /// `full`: it passes packets of sessions. `partial`: it gives all user packets to this node, with what it has found
    /// out about them, and holds nothing; full.
    #[serde(default)]
    pub mode: AcceleratorMode,
    /// Which sessions it passes.
    #[serde(default)]
    pub policy: OffloadPolicyConfig,
}

/// What an accelerator holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AcceleratorMode {
    /// Sessions: their flows, meters and counters.
    #[default]
    Full,
    /// No state of sessions.
    Partial,
}

/// One end of the in-band protocol (docs/inband.md).
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InBandConfig {
    /// The port towards the other end; there is nothing else on it.
    #[schemars(with = "String")]
    pub port: Spanned<String>,
    /// The file with the pre-shared key of both ends: 32 octets at least, as hexadecimal digits. None but its owner may
    /// write it, nor others read it; an absolute path. `openssl rand -hex 32` makes a key.
    #[schemars(with = "PathBuf")]
    pub key: Spanned<PathBuf>,
    /// The number of the channel of the host's first worker, the same at both ends; 0. Other workers have the next
    /// ones.
    #[serde(default = "InBandConfig::default_channel")]
    pub channel: Bounded<0, 255>,
    /// The VLAN of all frames between both; absent: they have no tag.
    #[serde(default)]
    pub vlan: Option<Bounded<1, 4_094>>,
    /// The other end's MAC address: frames of others are ignored; absent: who has the key.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub peer: Option<Spanned<String>>,
    /// Milliseconds without a frame of the other end after which contact is lost: for so long changes of sessions that
    /// are away wait for an accelerator that has ended; 50.
    #[serde(default = "InBandConfig::default_lost_after")]
    pub lost_after_ms: Bounded<20, 2_000>,
}

impl InBandConfig {
    const fn default_channel() -> Bounded<0, 255> {
        Bounded::new(0)
    }
    const fn default_lost_after() -> Bounded<20, 2_000> {
        Bounded::new(50)
    }
}

/// Which sessions an accelerator passes, of those that it can.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct OffloadPolicyConfig {
    /// Packets of a session that pass here before the accelerator gets it; 0: the first one brings it along; 0.
    #[serde(default = "OffloadPolicyConfig::default_after_packets")]
    pub after_packets: Bounded<0, 65_534>,
    /// Octets of user packets of a session that pass here, too, before the accelerator gets it; 0.
    #[serde(default = "OffloadPolicyConfig::default_after_octets")]
    pub after_octets: Bounded<0, 4_000_000_000>,
    /// QFIs: packets of others do not have their session leave. With the session all of its packets leave; absent: all
    /// packets do, also those without a QFI.
    #[serde(default, deserialize_with = "bounded::at_least_one_if_any")]
    #[schemars(length(min = 1))]
    pub qfis: Option<Vec<Bounded<0, 63>>>,
    /// Names of instances: packets that neither come in nor leave by one of them do not have their session leave;
    /// absent: all do.
    #[serde(default, deserialize_with = "bounded::at_least_one_if_any")]
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub instances: Option<Vec<Spanned<String>>>,
    /// Names of `predefined.rulebases`: a session leaves only if PDRs of it activate one of them; absent: all do.
    #[serde(default, deserialize_with = "bounded::at_least_one_if_any")]
    #[schemars(with = "Option<Vec<String>>", length(min = 1))]
    pub rulebases: Option<Vec<Spanned<String>>>,
    /// Seconds that a session stays here after the accelerator has refused it, or one of its packets needed this node;
    /// 10.
    #[serde(default = "OffloadPolicyConfig::default_stays")]
    pub stays_s: Bounded<0, 3_600>,
    /// Sessions at the accelerator, at most, of all workers together; absent: as many as it has room for.
    #[serde(default)]
    pub sessions: Option<Bounded<0, 4_000_000>>,
}

impl OffloadPolicyConfig {
    const fn default_after_packets() -> Bounded<0, 65_534> {
        Bounded::new(0)
    }
    const fn default_after_octets() -> Bounded<0, 4_000_000_000> {
        Bounded::new(0)
    }
    const fn default_stays() -> Bounded<0, 3_600> {
        Bounded::new(10)
    }
}

impl Default for OffloadPolicyConfig {
    fn default() -> Self {
        Self {
            after_packets: Self::default_after_packets(),
            after_octets: Self::default_after_octets(),
            qfis: None,
            instances: None,
            rulebases: None,
            stays_s: Self::default_stays(),
            sessions: None,
        }
    }
}
