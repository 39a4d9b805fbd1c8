//! What an engine is made with.

use std::sync::Arc;
use std::time::Duration;

use flow::{PortId, Seed, WorkerId};
use packet::MacAddr;
use rules::network::Network;

use crate::accelerator::queues::QueueLimits;
use crate::{HostRates, IdleTimes, InterfaceSettings, LagPorts, WorkerConfig};

/// The configuration of an [`Engine`](crate::accelerator::Engine).
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The network, with the port numbers of this accelerator.
    pub network: Arc<Network>,
    /// The MAC address of each port.
    pub macs: Vec<MacAddr>,
    /// Ports that are several.
    pub lags: Vec<LagPorts>,
    /// What goes to the host's own network stack, by instance; frames that are neither IP nor ARP are exceptions where
    /// there is something, and dropped elsewhere. Default: none.
    pub host: Vec<Option<HostRates>>,
    /// Which of `workers` this is that send by the same addresses, the host's among them: they take turns with the
    /// identifications of fragments. Default 0.
    pub id: WorkerId,
    /// How many these are. Default 1.
    pub workers: u16,
    /// The port towards the host. Its frames pass no stage.
    pub host_port: PortId,
    /// Room for session blocks of [`flow::Blocks::TYPICAL_LINES`]; session indexes are below it. Default 65,536.
    pub max_sessions: usize,
    /// Counters of contents, for all sessions together. Default 0: entries that name one count in none.
    pub content_counters: usize,
    /// Room for IPv4 flows. Default 262,144.
    pub max_flows_v4: usize,
    /// Room for IPv6 flows. Default 65,536.
    pub max_flows_v6: usize,
    /// Room for next hops: as many as the host has, and behind these the 64 paths of each set of routers that routes
    /// are over. Default 32,768: those of 256 sets.
    pub max_adjacencies: usize,
    /// Meters that sessions share. Default: as [`WorkerConfig::shared_meters`].
    pub shared_meters: u16,
    /// Buckets of each flow table that one poll looks at for aging. Default 4.
    pub aging_per_poll: usize,
    /// How long a flow of one TCP connection may idle behind a FIN or RST. Default: as in workers.
    pub tcp_transitory: Duration,
    /// Exceptions that wait to be taken, of the urgent and of the others each; what finds no room is dropped. Default
    /// 1,024.
    pub max_exceptions: usize,
    /// Flows that [settle](crate::accelerator::Engine::put_settling) at once. Default 4,096.
    pub max_settling: usize,
    /// Packets that are held for flows that settle. Default 1,024.
    pub held_packets: usize,
    /// Of them those of one flow. Default 64.
    pub held_packets_per_flow: u16,
    /// How long a flow may take to settle: then it is as if the host had echoed its marker, and packets that are
    /// still on their way to the host and back come behind later ones. Longer than a host is away: without contact no
    /// flow settles, a marker that gets lost is sent again, and of a flow with more packets than are held all go to
    /// the host. A node has twice the time in which it loses contact, at least. Default 500 ms.
    pub settling_time: Duration,
    /// Pairs of ends whose first packet waits for an answer of the host, where that answers; at most 65,536. 0: nothing
    /// is asked. Default 4,096.
    pub max_asking: usize,
    /// Packets that are kept until the host has answered. Default 4,096.
    pub asked_packets: usize,
    /// Of them those of the same two ends. Default 64.
    pub asked_packets_per_key: u16,
    /// How long an answer is waited for: then what was kept goes to the host whole. Default 5 ms.
    pub asking_time: Duration,
    /// Room for packets that wait in queues before its ports. Default: none, and no packet waits.
    pub queues: Option<QueueLimits>,
    /// The secret of the hash functions. Must be random outside tests.
    pub seed: Seed,
}

/// How user packets go to the host, all of them and at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartialMode {
    /// With their bucket.
    pub steers: bool,
}

impl EngineConfig {
    /// The defaults.
    pub fn new(network: Arc<Network>, macs: Vec<MacAddr>, host_port: PortId, seed: Seed) -> Self {
        let worker = WorkerConfig::new(WorkerId(0), 1, Arc::clone(&network), Vec::new(), seed);
        Self {
            network,
            macs,
            lags: Vec::new(),
            host: Vec::new(),
            id: WorkerId(0),
            workers: 1,
            host_port,
            max_sessions: 65_536,
            content_counters: 0,
            max_flows_v4: worker.max_flows_v4,
            max_flows_v6: worker.max_flows_v6,
            max_adjacencies: 2 * worker.max_adjacencies,
            shared_meters: worker.shared_meters,
            aging_per_poll: worker.aging_per_poll,
            tcp_transitory: IdleTimes::default().tcp_transitory,
            max_exceptions: 1_024,
            max_settling: 4_096,
            held_packets: 1_024,
            held_packets_per_flow: 64,
            settling_time: Duration::from_millis(500),
            max_asking: 4_096,
            asked_packets: 4_096,
            asked_packets_per_key: 64,
            asking_time: Duration::from_millis(5),
            queues: None,
            seed,
        }
    }

    /// Packets that may become exceptions at once.
    pub(super) fn most_at_once(&self) -> usize {
        usize::from(self.held_packets_per_flow) + usize::from(self.asked_packets_per_key) + crate::BURST
    }

    /// What the network does not say of its interfaces.
    pub(super) fn interfaces(&self) -> InterfaceSettings {
        InterfaceSettings {
            macs: self.macs.clone(),
            lags: self.lags.clone(),
            host: self.host.clone(),
            urgent_dscps: Vec::new(),
        }
    }
}
