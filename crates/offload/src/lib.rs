//! The FlowOp contract on the way to an accelerator, in-band: over frames on the port that the accelerator serves.
//! Sans-IO: frames and time are passed in, frames are taken out.
//!
//! `docs/inband.md` specifies the protocol.

#![forbid(unsafe_code)]

pub mod channel;
pub mod codec;
pub mod exception;
pub mod in_band;
