//! The other side of a user plane: an SMF, gNBs with their UEs, and a data network (DN).
//!
//! Everything here is sans-IO and deterministic: the caller passes the time and the bytes, and the same calls
//! give the same results. One thread owns each object; nothing is shared but immutable tables behind `Arc`.
//! [`Shard`] drives the user plane over any [`FramePort`], [`smf::Smf`] drives N4 over any datagram transport,
//! and [`net`] runs both over the sockets of an operating system.
//!
//! The simulator is a judge, so it builds and checks the user plane's headers with its own few lines
//! ([`path`], [`station`]) and not with the crate that the user plane itself is made of. It does not configure a
//! user plane, and it never answers on an address that it was not given.

#![forbid(unsafe_code)]

mod dn;
mod gnb;
pub mod net;
pub mod path;
pub mod payload;
pub mod report;
pub mod schedule;
pub mod shard;
pub mod smf;
pub mod station;
mod stream;
mod sum;
pub mod tracker;
pub mod traffic;

pub use flow::{Direction, Nanos};
pub use report::Report;
pub use shard::{FramePort, Shard, ShardConfig, Side};
