//! The rules of TS 29.244: what they are, how a packet finds its PDR, what a worker makes of them.
//!
//! [`model`] holds a session's rules as a PFCP peer gave them. [`compile`](compile::compile) turns them, together
//! with the configured [`network`], into a [`SessionImage`]: a [`Classifier`] and slots of a session block. The
//! [`interpret`](interpret::interpret)er evaluates the same rules for one packet, plainly and with no cache: it is
//! the oracle that the fast path is compared with.
//!
//! Everything here is a value or a pure function. Nothing knows PFCP's encoding, a worker, a table or a thread.

#![forbid(unsafe_code)]

pub mod adjacencies;
pub mod boxed_option;
pub mod classifier;
pub mod compile;
pub mod image;
pub mod interpret;
pub mod model;
pub mod network;
pub mod predefined;
pub mod prefix;
pub mod sdf;
pub mod steering;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

mod ue;

pub use adjacencies::{Adjacencies, AdjacencyRef};
pub use boxed_option::BoxedOption;
pub use classifier::{Classifier, Match, PacketView, Side};
pub use image::{
    CompileError, CompileFault, Decision, SessionChange, SessionImage, SourceCheck, UsageSnapshot,
};
pub use model::SessionRules;
pub use network::Network;
pub use predefined::Predefined;
pub use prefix::IpPrefix;
pub use steering::{SteerChange, SteerKey};
