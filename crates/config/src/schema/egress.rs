//! Queues for packets that leave: the traffic manager.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::policer::Kbit;
use crate::bounded::{self, Bounded};

/// Queues in which packets wait that rules send to instances with `egress`: rates of sessions are shaped there instead
/// of policed. The sizes are those of all workers together; each gets its part.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EgressConfig {
    /// Packets that wait; they lie in `dpdk.buffers`, of which they, and those of `buffering`, are at most half; a
    /// quarter of them.
    #[serde(default)]
    #[schemars(with = "Option<Bounded<64, 8_388_608>>")]
    pub packets: Option<Spanned<Bounded<64, 8_388_608>>>,
    /// Their octets, as they leave; 64 MiB.
    #[serde(default = "EgressConfig::default_bytes")]
    pub bytes: Bounded<65_536, 17_179_869_184>,
    /// Queues of sessions: one for each of its QoS flows and directions that has any; 131,072.
    #[serde(default = "EgressConfig::default_queues")]
    pub queues: Bounded<16, 4_194_304>,
    /// The classes of queues, 1 to 8. What no class names is of the last one.
    #[serde(deserialize_with = "bounded::at_least_one")]
    #[schemars(length(min = 1, max = 8))]
    pub classes: Vec<EgressClassConfig>,
}

impl EgressConfig {
    const fn default_bytes() -> Bounded<65_536, 17_179_869_184> {
        Bounded::new(64 << 20)
    }
    const fn default_queues() -> Bounded<16, 4_194_304> {
        Bounded::new(131_072)
    }

    /// Packets that wait, of this number of buffers.
    pub(crate) fn packets(&self, buffers: u64) -> u64 {
        self.packets
            .as_ref()
            .map_or(buffers / 4, |packets| packets.value.value())
    }
}

/// A class of queues.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct EgressClassConfig {
    /// Its name, in views and metrics.
    #[schemars(with = "String")]
    pub name: Spanned<String>,
    /// The QoS flows of the class; none: only what no class names.
    #[serde(default)]
    pub qfis: Vec<Bounded<0, 63>>,
    /// 0 to 7; those of 0 go first, before all others of their port; 7.
    #[serde(default = "EgressClassConfig::default_priority")]
    pub priority: Bounded<0, 7>,
    /// Its part of what the queues of a session get together that have the same priority; 1.
    #[serde(default = "EgressClassConfig::default_weight")]
    pub weight: Bounded<1, 255>,
    /// The most octets that wait in one queue; 256 KiB.
    #[serde(default = "EgressClassConfig::default_bytes")]
    pub bytes: Bounded<1_514, 1_073_741_824>,
    /// What else limits a queue; codel.
    #[serde(default)]
    pub aqm: AqmConfig,
}

impl EgressClassConfig {
    const fn default_priority() -> Bounded<0, 7> {
        Bounded::new(7)
    }
    const fn default_weight() -> Bounded<1, 255> {
        Bounded::new(1)
    }
    const fn default_bytes() -> Bounded<1_514, 1_073_741_824> {
        Bounded::new(256 << 10)
    }
}

/// What limits a queue besides its octets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AqmConfig {
    /// Nothing.
    TailDrop,
    /// Packets that have waited for too long for too much time are marked, if their senders heed ECN, or dropped (RFC
    /// 8289).
    #[default]
    Codel,
    /// As `codel`, with a second queue for senders that heed the marks of L4S (RFC 9332).
    L4s,
    /// The longer the queue is on average, the more packets are marked, if their senders heed ECN, or dropped (RFC
    /// 2309).
    Wred(WredConfig),
}

impl fmt::Display for AqmConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TailDrop => "tail_drop",
            Self::Codel => "codel",
            Self::L4s => "l4s",
            Self::Wred(_) => "wred",
        })
    }
}

/// Weighted random early detection. Packets of all colours count in one average.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WredConfig {
    /// While the average is below it, no packet is hit.
    pub min_bytes: Bounded<0, 67_108_862>,
    /// From it on each packet is dropped, whatever its sender heeds; at most `bytes` of the class.
    pub max_bytes: Bounded<1, 67_108_863>,
    /// Just below `max_bytes`, of this many packets one is hit; 10.
    #[serde(default = "WredConfig::default_one_in")]
    pub one_in: Bounded<1, 255>,
    /// A packet that comes is worth 2^-n in the average; 9.
    #[serde(default = "WredConfig::default_weight_log2")]
    pub weight_log2: Bounded<1, 12>,
    /// Another curve for packets above their guaranteed rates; `min_bytes` and `max_bytes` are half of those above.
    #[serde(default)]
    pub yellow: Option<WredCurveConfig>,
}

impl WredConfig {
    const fn default_one_in() -> Bounded<1, 255> {
        Bounded::new(10)
    }
    const fn default_weight_log2() -> Bounded<1, 12> {
        Bounded::new(9)
    }
}

/// A curve of WRED.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WredCurveConfig {
    /// While the average is below it, no packet is hit.
    pub min_bytes: Bounded<0, 67_108_862>,
    /// From it on each packet is dropped.
    pub max_bytes: Bounded<1, 67_108_863>,
    /// Just below `max_bytes`, of this many packets one is hit; 10.
    #[serde(default = "WredConfig::default_one_in")]
    pub one_in: Bounded<1, 255>,
}

/// The queues of an instance.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InstanceEgressConfig {
    /// The most that leaves by the instance, in kbit/s of frames; no limit.
    #[serde(default)]
    pub kbit: Option<Kbit>,
}
