//! What a worker is made with.

pub(crate) mod limits;

use std::sync::Arc;
use std::time::Duration;

use flow::{Nanos, Seed, WorkerId};
use packet::MacAddr;
use rules::network::Network;

use crate::{
    Budgets, BufferLimits, ConnectionLimits, EgressLimits, FlowLimits, FragmentLimits, HostRates, IdleTimes,
    InspectionLimits, LagPorts, NatSettings, NdpiLimits, OffloadPolicy, PacketRates, ReassemblyLimits,
    ResolverLimits,
};

/// How one worker is to work. Everything but its network is fixed from its start.
#[derive(Clone, Debug)]
pub struct WorkerConfig {
    /// Which worker it is, below `workers`.
    pub id: WorkerId,
    /// How many workers there are, at least 1.
    pub workers: u16,
    /// The configured world; that of the last [`Command::Network`](crate::Command::Network).
    pub network: Arc<Network>,
    /// The ports' link layer addresses, by port.
    pub macs: Vec<MacAddr>,
    /// The ports that are made of several. Default: none.
    pub lags: Vec<LagPorts>,
    /// LACPDUs and Marker PDUs a second of one port that are looked at. Default 20: one is usual.
    pub slow_protocols: u32,
    /// Session indices of the whole program are below this. Default 65,536.
    pub max_sessions: usize,
    /// Sessions that this worker may own. Default: `max_sessions`.
    pub own_sessions: usize,
    /// IPv4 flow entries. Default 262,144.
    pub max_flows_v4: usize,
    /// IPv6 flow entries. Default 65,536.
    pub max_flows_v6: usize,
    /// Content counters of all sessions together (64 octets each). What finds no room counts with what else of its
    /// session finds none. Default 0: everything does.
    pub content_counters: usize,
    /// How long after its first packet a content counter is reported and reset; 0: when its session ends or
    /// changes. Default 0.
    pub content_interval: Duration,
    /// How often the counters of each session are looked at, and pushed to control if they have changed
    /// ([`Event::Counted`](crate::Event::Counted)). Default `None`: never.
    pub checkpoint_interval: Option<Duration>,
    /// Octets of any of its URRs, rounded down to a power of two, after which a session's counts are pushed though its
    /// turn has not come. Default 64 MiB; without effect where there is no `checkpoint_interval`.
    pub checkpoint_octets: u64,
    /// Whether sessions may still be restored from its first poll on, until control says otherwise
    /// ([`Command::Restoring`](crate::Command::Restoring)): a worker may have packets before it has commands. Default
    /// false.
    pub begins_restoring: bool,
    /// Neighbours of the whole program: `NeighboursConfig::capacity`. Default 16,384.
    pub max_adjacencies: usize,
    /// Tunnels and UE addresses each that are not in their session's bucket. Default 65,536; unused with one worker.
    pub max_exceptions: usize,
    /// Meters that sessions share. Default: as many as the network's policers and their chains, and those of networks
    /// that succeed it, have room for; none for correlated QERs.
    pub shared_meters: u16,
    /// Packets of one burst that may take the slow path. Default 64 of each class: all.
    pub budgets: Budgets,
    /// How much of its time a busy worker leaves to the slow path, per cent, 1 to 100; see `slow_path::budget`. Default
    /// 100: all, so that nothing depends on how fast the machine is. It needs the `stage_clock`.
    pub slow_share_percent: u8,
    /// Flow entries of one session, and how fast they come. Default: no limits.
    pub flow_limits: FlowLimits,
    /// What is done for fragments of user packets. Default: each is decided by itself.
    pub fragments: FragmentLimits,
    /// What is kept of GTP-U packets that come in fragments. Default: nothing, they are dropped.
    pub reassembly: ReassemblyLimits,
    /// What is kept for FARs that buffer. Default: nothing, they drop.
    pub buffers: BufferLimits,
    /// What waits before it leaves, where the network has queues.
    pub egress: EgressLimits,
    /// How much is inspected of flows whose rules name hosts. Default: nothing, no host is known.
    pub inspection: InspectionLimits,
    /// Whose answers say which hosts addresses are of. Default: none.
    pub resolvers: ResolverLimits,
    /// What else looks at flows that are nothing which inspection knows. Default: nothing does.
    pub ndpi: Option<NdpiLimits>,
    /// The connections of UEs that it knows.
    pub connections: ConnectionLimits,
    /// The mappings of sessions to public addresses, where the network has pools of these.
    pub nat: NatSettings,
    /// Which sessions an accelerator passes, where [`Io`](crate::Io) has ports behind one. Default: none.
    pub offload: Option<OffloadPolicy>,
    /// Commands applied in one poll. Default 32.
    pub commands_per_poll: usize,
    /// How long flow entries may idle.
    pub idle: IdleTimes,
    /// Buckets of each flow table that one poll looks at for aging. Default 4.
    pub aging_per_poll: usize,
    /// Every flow entry has the 5-tuple in its key, also where a wider one would do: for measurements.
    pub force_five_tuple: bool,
    /// Stages count the time they take. Default true; false to measure what the counting costs.
    pub stage_clock: bool,
    /// Error Indications a second. Default 100; 0 for none.
    pub error_indications: u32,
    /// Before this moment there are none: peers keep the tunnels that sessions are about to have again after a restart
    /// of this node (TS 23.527 §4.3.2). Default 0.
    pub error_indications_from: Nanos,
    /// Supported Extension Headers Notifications a second. Default 10; 0 for none.
    pub notifications: u32,
    /// Echo Responses of GTP-U a second to sources that no session sends to, and of them those to one source; a peer
    /// that sessions send to has as many as one source, beside them. Default 1,000 and 10: an Echo Request comes once
    /// in 60 s (TS 29.281 §7.2.1). 0 is as 1.
    pub echoes: PacketRates,
    /// How long after a report of the RAN packets are marked by it (ECN marking for L4S). Default 10 s; `None`:
    /// until the next report.
    pub ran_congestion_age: Option<Duration>,
    /// Answers a second to pings of our addresses, and of them those to one source. Default 1,000 and 100; 0 is as 1.
    pub pings: PacketRates,
    /// Answers a second to redirected HTTP (TS 29.244 §5.4.7), and as many to what UEs send and access lists
    /// reset, redirect or lead into a sinkhole; and of them to one session. Default 10,000 and 100; 0
    /// for none.
    pub redirects: PacketRates,
    /// ICMP errors a second about discarded user packets, and of them those about packets of one session.
    /// Default 10,000 and 20: a trace of a path asks for three at once. 0 for none.
    pub icmp_errors: PacketRates,
    /// End Markers and Tunnel Status messages a second that are relayed from tunnel to tunnel, or reported to Control,
    /// or sent to nodes upstream; and of them those of one session. Default 10,000 and 20: a handover makes a few for
    /// each tunnel. 0 for none.
    pub relays: PacketRates,
    /// What goes to the host's own network stack, by instance; those beyond have none. Default: none.
    pub host: Vec<Option<HostRates>>,
    /// DSCPs of packets that may not wait behind others when there are more than can be worked on, by instance: bit n
    /// is DSCP n. What keeps links, neighbours and paths alive never waits. Default: none.
    pub urgent_dscps: Vec<u64>,
    /// Room for packets of each port that wait when more come in than can be worked on; 0: there is no backlog, and the
    /// port's own queue overflows. Default 0.
    pub backlog: usize,
    /// The secret of the hash functions. Must be random outside tests.
    pub seed: Seed,
}

impl WorkerConfig {
    /// What [`checkpoint_octets`](Self::checkpoint_octets) is unless it is set.
    pub const CHECKPOINT_OCTETS: u64 = 64 << 20;

    /// Tunnels that a worker has room for which may own `own_sessions`: a session has one or two, a few have more.
    pub const fn tunnels(own_sessions: usize) -> usize {
        own_sessions * 2 + 64
    }

    /// UE addresses of each family that a worker has room for which may own `own_sessions`.
    pub const fn addresses(own_sessions: usize) -> usize {
        own_sessions + own_sessions / 4 + 64
    }

    /// The defaults for worker `id` of `workers`.
    pub fn new(id: WorkerId, workers: u16, network: Arc<Network>, macs: Vec<MacAddr>, seed: Seed) -> Self {
        Self {
            shared_meters: network.policers().room(),
            id,
            workers,
            network,
            macs,
            lags: Vec::new(),
            slow_protocols: 20,
            max_sessions: 65_536,
            own_sessions: 65_536,
            max_flows_v4: 262_144,
            max_flows_v6: 65_536,
            content_counters: 0,
            content_interval: Duration::ZERO,
            checkpoint_interval: None,
            checkpoint_octets: Self::CHECKPOINT_OCTETS,
            begins_restoring: false,
            max_adjacencies: 16_384,
            max_exceptions: 65_536,
            budgets: Budgets::default(),
            slow_share_percent: 100,
            flow_limits: FlowLimits::default(),
            fragments: FragmentLimits::OFF,
            reassembly: ReassemblyLimits::OFF,
            buffers: BufferLimits::OFF,
            egress: EgressLimits::default(),
            inspection: InspectionLimits::OFF,
            resolvers: ResolverLimits::default(),
            ndpi: None,
            connections: ConnectionLimits::default(),
            nat: NatSettings::default(),
            offload: None,
            commands_per_poll: 32,
            idle: IdleTimes::default(),
            aging_per_poll: 4,
            force_five_tuple: false,
            stage_clock: true,
            error_indications: 100,
            error_indications_from: Nanos::ZERO,
            notifications: 10,
            echoes: PacketRates::new(1_000, 10),
            ran_congestion_age: Some(Duration::from_secs(10)),
            pings: PacketRates::new(1_000, 100),
            redirects: PacketRates::new(10_000, 100),
            icmp_errors: PacketRates::new(10_000, 20),
            relays: PacketRates::new(10_000, 20),
            host: Vec::new(),
            urgent_dscps: Vec::new(),
            backlog: 0,
            seed,
        }
    }
}
