//! The packet path: one [`Worker`] per core, each a plain function from bursts of packets and commands to packets and
//! events.
//!
//! A worker owns its sessions, flows and counters and shares nothing; it exchanges messages through bounded queues
//! ([`control_channel()`], [`Io::hand_over`], [`Io::give`]). [`Worker::poll`] runs to completion: no lock, no system
//! call, no log, and after the start no allocation on the path of established flows. The folders follow the packet:
//! `ingress`, `lookup`, `slow_path`, `apply_rules`, `egress`; packets that leave the burst and come back later are in
//! `deferred`, packets for own addresses in `local`. Beside the path are `sessions`, `control_channel` (commands and
//! events), `trace`, `stats` and `view`. [`accelerator`] runs the fast path alone, for a host.
//!
//! The meaning of rules is decided by crate `rules`; neighbours and routes by crate `transport` in Control. GTP-U
//! packets in fragments are reassembled, user packets are not: fragments that come before their first one wait
//! (`deferred`). Packets longer than their path's MTU leave in fragments (`egress::fragmentation`).

#![forbid(unsafe_code)]

pub mod accelerator;
mod access_counts;
mod apply_rules;
mod burst;
mod config;
mod control_channel;
mod deferred;
mod egress;
mod ingress;
mod io;
mod local;
mod lookup;
mod nat;
mod offload;
#[cfg(feature = "dpdk")]
mod over_dpdk;
mod sessions;
mod shares;
mod slow_path;
mod stats;
mod trace;
mod view;
mod worker;

pub use self::offload::{OffloadPolicy, OffloadStats, Stays};
pub use access_counts::AccessCount;
pub use burst::batch::{BURST, Batch};
pub use config::WorkerConfig;
pub use config::limits::{
    Budgets, BufferLimits, ConnectionLimits, EgressLimits, FlowLimits, FragmentLimits, IdleTimes,
    InspectionLimits, NatSettings, NdpiLimits, PacketRates, ReassemblyLimits, ResolverLimits,
};
pub use control_channel::{
    AbsentKey, ApplyError, COUNTS_BUFFERS, Command, ControlEnd, Counted, EgressDemand, EgressLease,
    EgressRate, Event, LEAST_COUNTS, LeaseHolder, MappingsWanted, QueueStatus, SessionCount,
    SessionNatStatus, SessionStatus, WorkerEnd, control_channel,
};
pub use egress::lags::{LagHash, LagPorts};
pub use egress::network_tables::{InterfaceSettings, NetworkTables};
pub use egress::path_mtus::MOST_PATH_MTUS;
pub use ingress::l3_interfaces::interface;
pub use io::behind_accelerator;
#[cfg(feature = "dpdk")]
pub use io::dpdk;
pub use io::{ChargeId, Instruction, Io, PacketMetadata, Parcel, Parcels, QueueProgram, Urgency, mem};
pub use local::host::HostRates;
#[cfg(feature = "dpdk")]
pub use over_dpdk::poll_over_dpdk;
pub use rules::worker_selection::{WorkerSelectionChange, WorkerSelectionKey};
pub use stats::{Count, DirectionStats, PortStats, Stage, StageStats, Stats};
pub use tm::{ClassView, LossReason, QueueView};
pub use trace::copying::{CopyTerms, CopyTo, MOST_COPIED};
pub use trace::{
    MAX_TRACES, QueueEnd, TraceEnd, TraceFilter, TraceFlow, TraceItem, TraceRequest, TraceSource, TraceTerms,
    Traced, TracedDecision, TracedDetection, TracedEnd, TracedFlow, TracedFrame, TracedLookup, TracedPlace,
    TracedQueueing, TracedSession, TracedTranslation, TracedUnsolicited, mirror, trace,
};
pub use view::{AcceleratorView, EgressCounts, Holdings, NatCounts, SessionView};
pub use worker::{PollReport, Worker, WorkerTables};
