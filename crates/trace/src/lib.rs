//! Packets explained one by one: what each is, what the user plane did with it, and why.
//!
//! A worker reports what it has done with a packet ([`worker::Traced`]). [`Explainer`] makes text and JSON of that, and
//! [`compare_with_interpreter()`] compares it with what `rules::reference_interpreter` decides for the same packet
//! under the same rules: a difference is a mistake of one of the two, and is reported. This crate does not influence
//! packets.

#![forbid(unsafe_code)]

mod capture;
mod compare_with_interpreter;
mod explain;
mod fields;
mod file;
mod offline;
mod query;
mod replay;
mod values;

pub use capture::{CaptureError, Captured, Interface, Reader, Writer, Written};
pub use compare_with_interpreter::{Compared, Comparison, compare_with_interpreter};
pub use explain::Explainer;
pub use fields::Parsed;
pub use file::{Bounds, CaptureFile};
pub use offline::{Capture, OfflineError, Replayed, replay};
pub use query::read_flow;
pub use values::{
    EndTrace, FlowTrace, FramesTrace, PacketTrace, QerTrace, TraceLine, TraceSummary, TranslationTrace,
    TriedTrace, UrrTrace,
};
