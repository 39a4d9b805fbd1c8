//! Workers, table sizes and DPDK's environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use super::IdlePolicy;
use crate::bounded::Bounded;

/// Cores for packets.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct WorkersConfig {
    /// How many workers; each owns its sessions and polls its own queues on a core of its own; 1.
    #[serde(default = "WorkersConfig::default_count")]
    pub count: Bounded<1, 64>,
    /// Cores to pin the workers to, in order; empty leaves it to the kernel.
    #[serde(default)]
    pub cores: Vec<Bounded<0, 1023>>,
    /// Give every flow an entry of its own 5-tuple, even where a wider one would be correct.
    #[serde(default)]
    pub force_five_tuple: bool,
    /// Packets that one burst of 64 may take through the slow path.
    #[serde(default)]
    pub slow_path_per_burst: SlowPathConfig,
    /// How much of its time, in per cent, a worker spends on first packets of flows while packets of established ones
    /// wait; 100 leaves only the limits of each burst; 20.
    #[serde(default = "WorkersConfig::default_slow_path_share")]
    pub slow_path_share_percent: Bounded<1, 100>,
    /// Room for packets of each port and worker that wait when more come in than can be worked on, so that what keeps
    /// links and paths alive goes before them; at most a quarter of `dpdk.buffers` together, and 256 in an overload
    /// that lasts. 0: no worker looks ahead; 4,096.
    #[serde(default = "WorkersConfig::default_backlog")]
    pub backlog: Bounded<0, 65_536>,
    /// What a worker without packets does; absent: `interrupt` where all ports are the kernel's, `busy` with a PCI
    /// port, else `adaptive` ([`Config::idle_policy`](super::Config::idle_policy)).
    #[serde(default)]
    #[schemars(with = "Option<IdlePolicy>")]
    pub idle: Option<Spanned<IdlePolicy>>,
    /// Microseconds that an adaptive worker sleeps between polls at most; 0 is `idle: busy`, others without `idle` are
    /// `idle: adaptive`; 250.
    #[serde(default)]
    #[schemars(with = "Option<Bounded<0, 1_000>>")]
    pub idle_sleep_us: Option<Spanned<Bounded<0, 1_000>>>,
    /// Move buckets of sessions from busy workers to idle ones; absent: never.
    #[serde(default)]
    pub rebalance: Option<RebalanceConfig>,
}

/// When sessions move from one worker to another.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct RebalanceConfig {
    /// Sessions of the worker with the most over those of the one with the fewest, in per cent, above which a bucket
    /// moves; 150.
    #[serde(default = "RebalanceConfig::default_ratio")]
    pub ratio_percent: Bounded<110, 10_000>,
    /// Seconds for which it must be above; 10.
    #[serde(default = "RebalanceConfig::default_after")]
    pub after_s: Bounded<0, 3_600>,
}

impl RebalanceConfig {
    const fn default_ratio() -> Bounded<110, 10_000> {
        Bounded::new(150)
    }
    const fn default_after() -> Bounded<0, 3_600> {
        Bounded::new(10)
    }
}

impl WorkersConfig {
    const fn default_count() -> Bounded<1, 64> {
        Bounded::new(1)
    }
    const fn default_slow_path_share() -> Bounded<1, 100> {
        Bounded::new(20)
    }
    const fn default_backlog() -> Bounded<0, 65_536> {
        Bounded::new(4_096)
    }
}

impl Default for WorkersConfig {
    fn default() -> Self {
        Self {
            count: Self::default_count(),
            cores: Vec::new(),
            force_five_tuple: false,
            slow_path_per_burst: SlowPathConfig::default(),
            slow_path_share_percent: Self::default_slow_path_share(),
            backlog: Self::default_backlog(),
            idle: None,
            idle_sleep_us: None,
            rebalance: None,
        }
    }
}

/// Packets of one burst that the rules are asked about, by what they are: over it a packet is dropped and counted, and
/// sessions get their places in turn. Fewer keep established flows fast while new ones flood in.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlowPathConfig {
    /// First packets of flows that come in tunnels; 64.
    #[serde(default = "SlowPathConfig::all")]
    pub new_uplink: Bounded<1, 64>,
    /// First packets of flows that come as plain IP; 64.
    #[serde(default = "SlowPathConfig::all")]
    pub new_downlink: Bounded<1, 64>,
    /// Packets of flows whose rules changed; 64.
    #[serde(default = "SlowPathConfig::all")]
    pub stale: Bounded<1, 64>,
}

impl SlowPathConfig {
    const fn all() -> Bounded<1, 64> {
        Bounded::new(64)
    }
}

impl Default for SlowPathConfig {
    fn default() -> Self {
        Self {
            new_uplink: Self::all(),
            new_downlink: Self::all(),
            stale: Self::all(),
        }
    }
}

/// What tables are sized for, in all workers together. Memory is taken at start.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitsConfig {
    /// PFCP sessions; 10,000.
    #[serde(default = "LimitsConfig::default_sessions")]
    pub sessions: Bounded<1, 4_000_000>,
    /// Flow entries for IPv4; 65,536.
    #[serde(default = "LimitsConfig::default_flows")]
    pub flows_ipv4: Bounded<1_024, 67_108_864>,
    /// Flow entries for IPv6; 65,536.
    #[serde(default = "LimitsConfig::default_flows")]
    pub flows_ipv6: Bounded<1_024, 67_108_864>,
    /// Content counters, of rules with `content` in rulebases: each session takes some for what it meets; as many as
    /// sessions. No memory is taken for them where no rule has a content.
    #[serde(default)]
    pub content_counters: Option<Bounded<1_024, 67_108_864>>,
    /// QER Correlation IDs in use at a time, of sessions that keep a rate together as the APN-AMBR of one UE; 1,024.
    #[serde(default = "LimitsConfig::default_correlations")]
    pub correlations: Bounded<0, 32_768>,
}

impl LimitsConfig {
    const fn default_sessions() -> Bounded<1, 4_000_000> {
        Bounded::new(10_000)
    }
    const fn default_correlations() -> Bounded<0, 32_768> {
        Bounded::new(1_024)
    }
    const fn default_flows() -> Bounded<1_024, 67_108_864> {
        Bounded::new(65_536)
    }
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            sessions: Self::default_sessions(),
            flows_ipv4: Self::default_flows(),
            flows_ipv6: Self::default_flows(),
            content_counters: None,
            correlations: Self::default_correlations(),
        }
    }
}

/// DPDK's environment abstraction layer.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DpdkConfig {
    /// Take packet memory from huge pages; without, ordinary pages serve and no privilege is needed.
    #[serde(default)]
    pub huge_pages: bool,
    /// Packet memory, MiB; 256.
    #[serde(default = "DpdkConfig::default_memory")]
    pub memory_mib: Bounded<64, 1_048_576>,
    /// Packet buffers, those of all workers together; 32,768.
    #[serde(default = "DpdkConfig::default_buffers")]
    pub buffers: Bounded<2_048, 16_777_216>,
}

impl DpdkConfig {
    const fn default_memory() -> Bounded<64, 1_048_576> {
        Bounded::new(256)
    }
    const fn default_buffers() -> Bounded<2_048, 16_777_216> {
        Bounded::new(32_768)
    }
}

impl Default for DpdkConfig {
    fn default() -> Self {
        Self {
            huge_pages: false,
            memory_mib: Self::default_memory(),
            buffers: Self::default_buffers(),
        }
    }
}
