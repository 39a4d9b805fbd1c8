//! Sessions whose packets an accelerator passes ([`offload`]): where each session is, and how it comes and goes.
//!
//! A session is at home here or away, with all of its flows, meters and counters: a meter has one home. It leaves when
//! the [policy](OffloadPolicy) says so and nothing of it needs this node ([`eligibility`]); its objects are given to
//! the accelerator first, and packets are decided and passed here until all are there. From then on packets
//! that the accelerator does not know are decided here and go back with their flow. Before anything of the session
//! changes or is asked for, it comes home ([`homes`]), or its counts do.
//!
//! What the accelerator reports of counters is added to those of the session's block, so that quotas, reports and
//! checkpoints need not know where packets were counted.

pub(crate) mod counter_places;
pub(crate) mod eligibility;
pub(crate) mod homes;
pub(crate) mod network;
mod objects;
mod of_sessions;
pub(crate) mod policy;
mod purpose;
pub(crate) mod queues;
pub(crate) mod shared_meters;
pub(crate) mod state;
pub(crate) mod stays;

pub use self::homes::OffloadStats;
pub use self::policy::OffloadPolicy;
pub use self::stays::Stays;
