//! What a node is made with, and why it cannot be.

use core::fmt;
use core::time::Duration;

use flow::KeyFields;
use flow::contract::{Actions, ByteBasis, Capabilities, Exactness, Managements, QueueRoom};
use flow::slab::OutOfMemory;
use offload::channel::{ChannelConfig, ConfigFault};
use offload::codec::CodecError;

use crate::accelerator::config::EngineConfig;

/// The configuration of a [`Node`](crate::accelerator::Node).
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The engine. Its network is the host's to say: it begins with none, whatever this has.
    pub engine: EngineConfig,
    /// The channel to the host. Role and capabilities are set by the node.
    pub channel: ChannelConfig,
    /// Whether it holds no sessions, and all user packets are the host's. Default: no.
    pub is_partial: bool,
    /// The longest exception frame behind its Ethernet header and tag, octets: the MTU of the port towards the host. A
    /// packet of 1,500 octets needs 1,546. Default 2,048.
    pub host_mtu: usize,
    /// How often counters are reported; 50,000 sessions a second are, at most. Default 100 ms.
    pub counts_every: Duration,
    /// Packets whose counts may be lost with the node, at most, as its capabilities say: what it passes in the interval
    /// that these say, which is that of as many sessions as there is room for. Default 1,000,000.
    pub counts_lost: u32,
    /// Network instances: their numbers are below this. Default 256.
    pub instances: u16,
    /// Routes. Default 4,096.
    pub routes: u32,
}

impl NodeConfig {
    /// The defaults.
    pub const fn new(engine: EngineConfig, channel: ChannelConfig) -> Self {
        Self {
            engine,
            channel,
            is_partial: false,
            host_mtu: 2_048,
            counts_every: Duration::from_millis(100),
            counts_lost: 1_000_000,
            instances: 256,
            routes: 4_096,
        }
    }

    /// What the node can do. It translates no addresses, and has no counters before QoS or of events.
    pub fn capabilities(&self) -> Capabilities {
        let engine = &self.engine;
        let some = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        if self.is_partial {
            return Capabilities::partial(self.instances, self.routes, some(engine.max_adjacencies));
        }
        let mut actions = Actions::DECAPSULATE
            | Actions::ENCAPSULATE_V4
            | Actions::ENCAPSULATE_V6
            | Actions::MARK
            | Actions::KEEP_EXTENSIONS
            | Actions::GATE
            | Actions::METER
            | Actions::MIRROR
            | Actions::CLAMP_MSS;
        if engine.content_counters > 0 {
            actions |= Actions::COUNT_CONTENTS;
        }
        Capabilities {
            key_fields: KeyFields::ADDRESS
                | KeyFields::TUPLE
                | KeyFields::QFI
                | KeyFields::TOS
                | KeyFields::FLOW_LABEL,
            actions,
            ipv4_flows: some(engine.max_flows_v4),
            ipv6_flows: some(engine.max_flows_v6),
            sessions: some(engine.max_sessions),
            counters_per_flow: 64,
            qers_per_flow: 64,
            shared_meters: engine.shared_meters,
            instances: self.instances,
            routes: self.routes,
            adjacencies: some(engine.max_adjacencies),
            byte_basis: ByteBasis::InnerIp,
            limits: true,
            fence: true,
            exactness: Exactness::Bounded {
                loss: self.counts_lost,
            },
            counts_every: Some(self.counts_every),
            queues: engine.queues.map(|queues| QueueRoom {
                queues: some(queues.limits.queues),
                nodes: queues.nodes,
                packets: some(queues.limits.packets),
                octets: queues.limits.octets as u64,
                managements: Managements::CODEL | Managements::DUAL_QUEUE | Managements::WRED,
            }),
        }
    }
}

/// Why there is no node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeError {
    /// The memory of its tables cannot be had.
    OutOfMemory(OutOfMemory),
    /// The channel's configuration.
    Channel(ConfigFault),
    /// A capability that no message can say.
    Capabilities(CodecError),
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfMemory(error) => write!(f, "tables: {error}"),
            Self::Channel(error) => write!(f, "channel: {error}"),
            Self::Capabilities(error) => write!(f, "capabilities: {error}"),
        }
    }
}

impl core::error::Error for NodeError {}

impl From<OutOfMemory> for NodeError {
    fn from(error: OutOfMemory) -> Self {
        Self::OutOfMemory(error)
    }
}

impl From<ConfigFault> for NodeError {
    fn from(error: ConfigFault) -> Self {
        Self::Channel(error)
    }
}

impl From<CodecError> for NodeError {
    fn from(error: CodecError) -> Self {
        Self::Capabilities(error)
    }
}
