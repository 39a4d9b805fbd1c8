//! The operator's API: REST over HTTP/1.1 on a Unix socket, which `sluice show` asks.
//!
//! A thread of its own serves it, with an async runtime that nothing else in the program knows. What the workers
//! publish it reads itself; what Control has it asks Control's thread for, over a bounded channel ([`Desk`]), a page
//! or a session at a time: neither packets nor PFCP wait for a reader. The router knows nothing of the socket.

mod client;
mod connections;
mod desk;
mod leaving;
mod parameters;
mod problem;
mod query;
mod routes;
mod socket;
mod trace;

pub use client::{ClientError, ask, fetch, get, stream};
pub use desk::{Desk, Inquiry, desk};
pub use routes::{Reader, Service, document, router};
pub use socket::{Access, RestSocket, default_path};
