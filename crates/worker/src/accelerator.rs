//! The engine of an accelerator: the fast path of a worker without sessions, beside the node that decides.
//!
//! An accelerator has ports to the network and one to its *host*, the UPF. The host gives it session blocks and flow
//! entries. [`Engine::poll`] passes packets that find their entry through the same stages as a worker does, and
//! everything else is an [`Exception`] for the host: the packet as it was received, with a reason. One thread owns an
//! engine. A [`Node`] is an engine whose host drives it in-band: it has the agent, and the frames in which exceptions
//! travel.
//!
//! # What is counted where
//!
//! Each packet is counted once. One that passes, or is dropped for good (a closed gate, a red meter, a limit or a FAR
//! that drops in silence, what is malformed), is counted here, in the same counters and drop reasons as in a worker. An
//! exception is counted in no URR, no content and no direction: what it has taken of meters by the time that its next
//! hop or its path's MTU is found wanting, it gives back. Meters of three colours take that back as yellow
//! ([`flow::LiveBlock::unmeter`]). `hits`, `misses` and `stale` of [`Stats`](crate::Stats) are of lookups, and count
//! exceptions, too.
//!
//! A packet that recirculates (to a UE, or another role, of this node) is counted here in the sessions that it has
//! passed. If it is an exception then, it is as it was recirculated, and its ingress says how often it was.
//!
//! # Order
//!
//! Packets of a flow leave in the order in which they came, also while the flow moves here from the host: `put` is for
//! flows of which no packet can be at the host, [`Engine::put_settling`] for all others. Fragments whose ports decide
//! always go by the host, and so may leave behind later packets of their flow; so do packets of a flow whose next hop
//! was unresolved, when it is found.

mod aside;
mod asking;
mod config;
mod engine;
mod engine_asking;
mod engine_stats;
mod engine_tables;
mod exceptions;
mod first_packets;
mod flow_accounts;
mod host_network;
mod node;
mod partial_mode;
mod put_error;
mod queueing;
mod queues;
mod screening;
mod session_buckets;
mod settling;
mod tables;

pub use self::asking::AskingStats;
pub use self::config::EngineConfig;
pub use self::engine::Engine;
pub use self::engine_stats::EngineStats;
pub use self::engine_tables::EngineTables;
pub use self::exceptions::Exception;
pub use self::node::{ChannelView, Node, NodeConfig, NodeError, NodeStats, NodeView};
pub use self::put_error::PutError;
pub use self::queues::QueueLimits;
#[cfg(test)]
pub(crate) use self::queues::plan_of;
pub use self::settling::SettlingStats;
pub(crate) use self::settling::cut;
pub use offload::exception::Reason;
