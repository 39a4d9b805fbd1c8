//! What happens to a packet, decided once: flow keys, flow entries and session blocks.
//!
//! A [`FlowEntry`] maps an exact-match key to the slots of a session block that say what to do. A worker owns its
//! table and its blocks; nothing here is shared between threads and nothing is allocated after start.
//!
//! This crate parses no packets, evaluates no rules and knows nothing of PFCP.

#![deny(unsafe_code)]

pub mod bucket;
#[cfg(feature = "testing")]
pub mod conformance;
pub mod contract;
pub mod cycles;
#[cfg(any(test, feature = "testing"))]
pub mod fake_accelerator;
pub mod floor;
pub mod lanes;
pub mod local_backend;
pub mod meter;
pub mod prefetch;
pub mod residency;
pub mod slab;
pub mod table_backend;
mod token_bucket;

mod block;
mod entry;
mod extension;
mod flags;
mod forward;
mod hash;
mod ids;
mod key;
mod table;

pub use block::{
    BlockError, BlockImage, BlockRef, Blocks, Bounds, ContentTotal, ContentUsage, Counted, CounterLimit,
    Flows, Installed, LimitAction, LiveBlock, MarkedBlock, Millisecond, PackedForward, PacketTimes, Raised,
    Reached, Red, ReplaceMap, SessionBlock, SessionGroupId, SessionGroupTotal, SessionGroupTotals, UrrCount,
    Volumes, Weight,
};
pub use bucket::{BUCKETS, Bucket};
pub use entry::{FlowEntry, FlowFlags, Verdict};
pub use extension::{Extension, ExtensionId, Extensions, Nat, NatFlags};
pub use forward::{Forward, ForwardFlags, ForwardKind, Mark, OuterAddresses, Template};
pub use hash::Seed;
pub use ids::{
    AdjacencyId, ContentId, Direction, InstanceId, LocalId, Nanos, OpId, PortId, SessionIndex, VrfId,
    WorkerId,
};
pub use key::{FlowKey, FlowKey4, FlowKey6, KeyFields, Origin, Scope, Shape};
pub use table::{FlowTable, Full, Hit, Prepared, Spot, Tick};
pub use token_bucket::{KeyedTokenBuckets, TokenBucket, TokenLevel, TokenRate};

/// A worker's tables move to its thread, once.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<FlowTable<FlowKey4>>();
    is_send::<Blocks>();
};
