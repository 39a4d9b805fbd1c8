//! The packet path: one [`Worker`] per core, each a plain function from bursts of packets and commands to packets and
//! events.
//!
//! A worker owns its sessions, flows and counters and shares nothing; it meets others through bounded queues alone
//! ([`link()`], [`Io::hand_over`]). [`Worker::poll`] runs to completion: no lock, no system call, no log, and after the
//! start no allocation on the way of established flows. The stages are files named after a packet's way: `rx` (in
//! [`Io`]), `parse`, `steer` (with `exception`, for packets to ourselves), `lookup`, `slow`, `act`, `tx`.
//!
//! What the rules mean is decided by crate `rules`; who is on the link by crate `transport` in Control. Nothing is
//! reassembled or fragmented here; fragments that come before their first one wait a little (`fragments`), packets for
//! idle UEs longer (`buffers`).

#![forbid(unsafe_code)]

mod act;
mod allowance;
mod answer;
mod batch;
mod books;
mod buffers;
mod config;
mod copying;
mod descriptor;
#[cfg(feature = "dpdk")]
pub mod dpdk;
mod drain;
mod echoes;
mod encap;
mod exception;
mod fair;
mod flows;
mod fragments;
mod held;
mod host;
mod idle;
mod inactivity;
mod io;
mod lags;
mod limits;
mod link;
mod lookup;
mod map;
pub mod mem;
mod mirror;
mod notices;
mod parse;
mod paths;
mod places;
mod reassembly;
mod sessions;
mod share;
mod sift;
mod slow;
mod special;
mod split;
mod stats;
mod steer;
mod steering;
mod sums;
mod together;
mod trace;
mod tx;
mod ue_map;
mod urgent;
mod view;
mod worker;

pub use batch::{BURST, Batch};
pub use config::WorkerConfig;
pub use copying::{CopyTerms, CopyTo, MOST_COPIED};
pub use host::HostRates;
pub use io::{Ingress, Io, Urgency};
pub use lags::{LagHash, LagPorts};
pub use limits::{Budgets, BufferLimits, FlowLimits, FragmentLimits, IdleTimes, ReassemblyLimits};
pub use link::{ApplyError, Command, ControlLink, Event, Link, SessionStatus, SteerChange, link};
pub use paths::MOST_PATH_MTUS;
pub use places::interface;
pub use stats::{Count, DirectionStats, PortStats, Stage, StageStats, Stats};
pub use trace::{
    MAX_TRACES, TraceEnd, TraceFilter, TraceFlow, TraceItem, TraceOrder, TraceSource, TraceTerms, Traced,
    TracedDecision, TracedEnd, TracedFlow, TracedFrame, TracedLookup, TracedSession, mirror, trace,
};
pub use view::{Holdings, SessionView};
pub use worker::{PollReport, Worker};
