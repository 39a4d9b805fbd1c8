//! nDPI as a plug-in: what its library, if an operator has it, says that flows are.
//!
//! The library is loaded when a configuration names it, and neither linked nor needed to build. [`Library::open`] takes
//! only one whose interface is known here. A [`Detector`] is one worker's: it has a module of nDPI, and the memory of
//! as many flows as are looked at at a time.
//!
//! nDPI is C that reads what UEs and senders in data networks send: a fault in it is a fault of the whole process. All
//! that can be held against that from outside is here. It gets copies of packets, with zeros behind them; what it
//! allocates by itself is counted, and no flow is begun while that is too much.

#![deny(unsafe_code)]

mod allocation;
mod detector;
mod functions;
mod library;
mod module;
mod open_error;
mod ownership;

pub use detector::{Detector, FlowIndex};
pub use library::Library;
pub use open_error::{Interface, KNOWN, OpenError};
