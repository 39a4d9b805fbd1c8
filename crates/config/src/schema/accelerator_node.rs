//! The configuration file of `sluice accel`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::{AcceleratorMode, DpdkConfig, IdlePolicy, InBandConfig, LogConfig, PortConfig};
use crate::bounded::{self, Bounded};

/// The whole file.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorNodeConfig {
    /// The link to the host, which decides what is done with packets.
    pub link: InBandConfig,
    /// `full`: it passes packets of the sessions that its host gives it. `partial`: it gives all user packets to the
    /// host, and holds no session, whatever the host wants; full.
    #[serde(default)]
    pub mode: AcceleratorMode,
    /// The port of the link, and those of the network, in the order in which the host has them.
    #[serde(deserialize_with = "bounded::at_least_one")]
    #[schemars(length(min = 1))]
    pub ports: Vec<PortConfig>,
    /// The core to pin the thread of the packets to; absent: the kernel chooses.
    #[serde(default)]
    pub core: Option<Bounded<0, 1023>>,
    /// What the thread without packets does: `busy` or `adaptive`; adaptive.
    #[serde(default = "AcceleratorNodeConfig::default_idle")]
    pub idle: IdlePolicy,
    /// Microseconds that it sleeps between polls at most, if it is adaptive; 250.
    #[serde(default = "AcceleratorNodeConfig::default_idle_sleep")]
    pub idle_sleep_us: Bounded<1, 1_000>,
    /// What tables are sized for.
    #[serde(default)]
    pub limits: AcceleratorLimitsConfig,
    /// Queues before its ports, in which packets of sessions wait that the host says; absent: none, and such sessions
    /// stay with the host.
    #[serde(default)]
    pub queues: Option<AcceleratorQueuesConfig>,
    /// First packets of flows that it keeps while its host is asked about them.
    #[serde(default)]
    pub questions: AcceleratorQuestionsConfig,
    /// Counters.
    #[serde(default)]
    pub counts: AcceleratorCountsConfig,
    /// Who may ask how it stands.
    #[serde(default)]
    pub control: AcceleratorControlConfig,
    /// DPDK's environment.
    #[serde(default)]
    pub dpdk: DpdkConfig,
    /// The log on standard error.
    #[serde(default)]
    pub log: LogConfig,
}

impl AcceleratorNodeConfig {
    const fn default_idle() -> IdlePolicy {
        IdlePolicy::Adaptive
    }
    const fn default_idle_sleep() -> Bounded<1, 1_000> {
        Bounded::new(250)
    }
}

/// Who may ask how an accelerator stands.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorControlConfig {
    /// Path of the Unix socket that `sluice show accelerator` asks, and that has `/metrics`; absent: there is none.
    #[serde(default)]
    #[schemars(with = "Option<PathBuf>")]
    pub socket: Option<Spanned<PathBuf>>,
    /// Name of the group whose members may use it (mode 0660); absent: the process's own user alone (0600).
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub group: Option<Spanned<String>>,
}

/// What the tables of an accelerator are sized for.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorLimitsConfig {
    /// Sessions: as many as the host's `limits.sessions`, or those with higher numbers stay there; 100,000.
    #[serde(default = "AcceleratorLimitsConfig::default_sessions")]
    pub sessions: Bounded<1, 4_000_000>,
    /// IPv4 flows; 262,144.
    #[serde(default = "AcceleratorLimitsConfig::default_flows_ipv4")]
    pub flows_ipv4: Bounded<1_024, 67_108_864>,
    /// IPv6 flows; 65,536.
    #[serde(default = "AcceleratorLimitsConfig::default_flows_ipv6")]
    pub flows_ipv6: Bounded<1_024, 67_108_864>,
}

impl AcceleratorLimitsConfig {
    const fn default_sessions() -> Bounded<1, 4_000_000> {
        Bounded::new(100_000)
    }
    const fn default_flows_ipv4() -> Bounded<1_024, 67_108_864> {
        Bounded::new(262_144)
    }
    const fn default_flows_ipv6() -> Bounded<1_024, 67_108_864> {
        Bounded::new(65_536)
    }
}

impl Default for AcceleratorLimitsConfig {
    fn default() -> Self {
        Self {
            sessions: Self::default_sessions(),
            flows_ipv4: Self::default_flows_ipv4(),
            flows_ipv6: Self::default_flows_ipv6(),
        }
    }
}

/// First packets of flows that an accelerator keeps until its host has answered. The host sees their first octets;
/// where it does not answer, or there is no room, it gets them whole.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorQuestionsConfig {
    /// Pairs of ends that wait for an answer at once; 0: nothing is asked; 4,096.
    #[serde(default = "AcceleratorQuestionsConfig::default_flows")]
    pub flows: Bounded<0, 65_536>,
    /// Packets that are kept, those behind the first ones among them; they lie in `dpdk.buffers`, of which they are at
    /// most half; an eighth of them, 4,096 at most.
    #[serde(default)]
    #[schemars(with = "Option<Bounded<16, 1_048_576>>")]
    pub packets: Option<Spanned<Bounded<16, 1_048_576>>>,
    /// Milliseconds that an answer is waited for; 5.
    #[serde(default = "AcceleratorQuestionsConfig::default_wait")]
    pub wait_ms: Bounded<1, 1_000>,
}

impl AcceleratorQuestionsConfig {
    const fn default_flows() -> Bounded<0, 65_536> {
        Bounded::new(4_096)
    }
    const fn default_wait() -> Bounded<1, 1_000> {
        Bounded::new(5)
    }

    /// Packets that are kept, of this number of buffers.
    #[must_use]
    pub fn packets(&self, buffers: u64) -> u64 {
        let most = (buffers / 8).min(4_096);
        self.packets
            .as_ref()
            .map_or(most, |packets| packets.value.value())
    }
}

impl Default for AcceleratorQuestionsConfig {
    fn default() -> Self {
        Self {
            flows: Self::default_flows(),
            packets: None,
            wait_ms: Self::default_wait(),
        }
    }
}

/// Room for packets that wait before ports of an accelerator. Classes and rates are the host's to say.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorQueuesConfig {
    /// Packets that wait; they lie in `dpdk.buffers`, of which they are at most half; a quarter of them.
    #[serde(default)]
    #[schemars(with = "Option<Bounded<64, 8_388_608>>")]
    pub packets: Option<Spanned<Bounded<64, 8_388_608>>>,
    /// Their octets, as they leave; 64 MiB.
    #[serde(default = "AcceleratorQueuesConfig::default_bytes")]
    pub bytes: Bounded<65_536, 17_179_869_184>,
    /// Queues of sessions: one for each of its QoS flows and directions that has any; 131,072.
    #[serde(default = "AcceleratorQueuesConfig::default_queues")]
    pub queues: Bounded<16, 4_194_304>,
}

impl AcceleratorQueuesConfig {
    const fn default_bytes() -> Bounded<65_536, 17_179_869_184> {
        Bounded::new(64 << 20)
    }
    const fn default_queues() -> Bounded<16, 4_194_304> {
        Bounded::new(131_072)
    }

    /// Packets that wait, of this number of buffers.
    #[must_use]
    pub fn packets(&self, buffers: u64) -> u64 {
        self.packets
            .as_ref()
            .map_or(buffers / 4, |packets| packets.value.value())
    }
}

/// How an accelerator reports counters.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AcceleratorCountsConfig {
    /// Milliseconds between two reports of counters that have changed, or more where reports of all sessions take
    /// longer (50,000 a second): what may be lost with the accelerator; 100.
    #[serde(default = "AcceleratorCountsConfig::default_every")]
    pub every_ms: Bounded<10, 10_000>,
    /// Packets that may be lost with it, as it says to the host: what it passes in that time; 1,000,000.
    #[serde(default = "AcceleratorCountsConfig::default_lost")]
    pub lost: Bounded<1, 4_294_967_295>,
}

impl AcceleratorCountsConfig {
    const fn default_every() -> Bounded<10, 10_000> {
        Bounded::new(100)
    }
    const fn default_lost() -> Bounded<1, 4_294_967_295> {
        Bounded::new(1_000_000)
    }
}

impl Default for AcceleratorCountsConfig {
    fn default() -> Self {
        Self {
            every_ms: Self::default_every(),
            lost: Self::default_lost(),
        }
    }
}
