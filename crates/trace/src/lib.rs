//! Packets explained one by one: what each is, what the user plane did with it, and why.
//!
//! A worker tells what it has done with a packet ([`worker::Traced`]). Here that is put into words ([`Explainer`]), and
//! held against what `rules::interpret` says of the same packet under the same rules (`agree`): where the two differ
//! there is a mistake in one of them, and it is said. Nothing here changes what happens to packets.

#![forbid(unsafe_code)]

mod agree;
mod capture;
mod explain;
mod fields;
mod file;
mod offline;
mod query;
mod replay;
mod values;

pub use agree::{Agreement, agree};
pub use capture::{CaptureError, Captured, Interface, Reader, Writer, Written};
pub use explain::Explainer;
pub use fields::Parsed;
pub use file::{Bounds, CaptureFile};
pub use offline::{Capture, OfflineError, Replayed, replay};
pub use query::read_flow;
pub use values::{
    EndTrace, FlowTrace, FramesTrace, PacketTrace, QerTrace, TraceLine, TraceSummary, TriedTrace, UrrTrace,
};
