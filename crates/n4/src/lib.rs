//! The N4 endpoint: PFCP associations, transactions, sessions and reports of a user plane function (TS 29.244).
//!
//! [`Endpoint`] belongs to control, one thread. Sans-IO: datagrams, time and the workers' answers go in by `handle_`
//! methods; datagrams, effects for the workers and the next moment of interest are polled out. It owns the
//! associations and, through [`session::Sessions`], all sessions; it has no sockets, threads or clock.

#![forbid(unsafe_code)]

mod answers;
mod association;
mod cause;
mod config;
mod counters;
mod endpoint;
mod features;
mod map;
mod node;
mod requests;
mod serve;
mod serve_session;
mod transmit;

pub use association::Association;
pub use config::{Config, UnknownInstance};
pub use counters::Counters;
pub use endpoint::Endpoint;
pub use node::NodeName;
pub use transmit::Transmit;
