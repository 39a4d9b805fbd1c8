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
mod compile_error;
pub mod counter_slots;
pub mod image;
pub mod interpret;
pub mod model;
pub mod network;
mod packet_view;
pub mod prefix;
pub mod sdf;
pub mod steering;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use adjacencies::{Adjacencies, AdjacencyRef};
pub use boxed_option::BoxedOption;
pub use classifier::{Classifier, Decision, Match, SourceCheck};
pub use compile_error::{CompileError, CompileFault};
pub use image::{SessionChange, SessionImage, UsageSnapshot};
pub use model::{Predefined, SessionRules};
pub use network::Network;
pub use packet_view::{PacketView, Side};
pub use prefix::IpPrefix;
pub use steering::{SteerChange, SteerKey};
