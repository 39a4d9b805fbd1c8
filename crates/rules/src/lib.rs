//! The rules of TS 29.244: what they are, how a packet finds its PDR, what a worker makes of them.
//!
//! Everything here is a value or a pure function. Nothing knows PFCP's encoding, a worker, a table or a thread. Each
//! module uses those above it only:
//!
//! ```text
//! prefix, packet_view, boxed_option
//! sdf              SDF filters: their text, their packed form, and matching
//! model            a session's rules as a PFCP peer gave them, and what is predefined
//! network          the configured network: instances, routes, policies, policers
//! counter_slots    which counter slot of a session block counts what
//! classifier       finds the PDR of a packet, and the flow key that the result is valid for
//! image            a session as control sends it to a worker
//! compile          rules and network become an image, or an error
//! reference_interpreter
//!                  evaluates the same rules for one packet, plainly: uses model and network, and is a second
//!                  implementation on purpose
//! ```

#![forbid(unsafe_code)]

pub mod adjacencies;
pub mod boxed_option;
pub mod classifier;
pub mod compile;
mod compile_error;
pub mod counter_slots;
pub mod image;
pub mod model;
pub mod network;
mod packet_view;
pub mod prefix;
pub mod reference_interpreter;
pub mod sdf;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod worker_selection;

pub use adjacencies::{Adjacencies, AdjacencyRef};
pub use boxed_option::BoxedOption;
pub use classifier::{Classifier, Decision, Match, SourceCheck};
pub use compile_error::{CompileError, CompileFault};
pub use image::{SessionChange, SessionImage, UsageSnapshot};
pub use model::{Predefined, SessionRules};
pub use network::Network;
pub use packet_view::{DetectedFlow, Detection, NameSource, PacketView, Side};
pub use prefix::IpPrefix;
pub use worker_selection::{WorkerSelectionChange, WorkerSelectionKey};
