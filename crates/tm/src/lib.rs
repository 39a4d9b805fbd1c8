//! The egress traffic manager of one worker: queues of UEs, shapers, and who sends next.
//!
//! Terms are those of DPDK's `rte_tm`. Below a port there are *shared nodes* (VLAN, slice, data network), each with a
//! shaper; below one of them the *node of a UE*, one for each session, with the session's private shaper; below that
//! its *queues*, one for each QoS flow, some with rates of their own. Classes have strict priority over the whole port;
//! among equals nodes, UEs and queues take turns by octets (deficit round robin). What its shaper refuses waits in a
//! timing wheel, with all that is below it, and is not looked at before.
//!
//! Sans-IO, and without buffers: a packet is a slot number, and the slot's [`Room`] is the caller's, but for a
//! descriptor. Time is passed in. One [`Manager`] belongs to one thread; nothing is allocated after it is made. It
//! knows no rules, no headers and no configuration: what spans workers (a slice's rate, a port's) is for the caller to
//! divide, by [`Manager::set_node_rate`].
//!
//! Memory that is out of the caches costs most. A packet that comes to a queue with packets touches the queue and the
//! room of the last one; one that leaves touches its UE, its queue and its own room.

#![forbid(unsafe_code)]

mod aqm;
mod bucket;
mod chunks;
mod ids;
mod manager;
mod node;
mod packets;
mod queue;
pub mod rte_tm;
mod runs;
mod spec;
mod ue;
mod views;
mod wheel;

pub use aqm::AqmTimes;
pub use aqm::wred::{RedCurve, RedVerdict, Wred, WredProfile, WredState};
pub use ids::{Class, Ecn, LossReason, NodeId, QueueId, QueueLine, Slot, UeId, WredId};
pub use manager::{Arrival, Departure, Held, Loss, Manager, UeState};
pub use packets::{Descriptor, Room};
pub use spec::{
    Aqm, Limits, MOST_LEVELS, MOST_WRED_PROFILES, NodeSpec, QueueRates, QueueSpec, Shaper, TmError, UeSpec,
};
pub use views::{ClassView, NodeDemand, QueueView};

/// A worker's manager moves to its thread, once.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Manager>();
};
