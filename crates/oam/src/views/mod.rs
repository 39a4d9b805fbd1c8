//! What an operator sees of a UPF, from the parts that have it: associations and sessions from the endpoint, counts and
//! buffered packets from the worker that has the session.
//!
//! The control thread makes these values, so each is bounded: a page of at most
//! [`LONGEST_PAGE`](crate::values::LONGEST_PAGE) rows, or one session.

mod detail;
mod live;
mod metrics;
mod n4;
mod nat;
mod network;
mod page;
mod ports;
mod rows;
mod sessions;
mod shapers;

pub use detail::session_detail;
pub use live::live;
pub use metrics::{metrics, session_groups, slice_workers};
pub use n4::{applications, n4};
pub use nat::{NoOwner, PublicEndpoint, nat_mapping, nat_mappings, nat_owner, nat_pools};
pub use network::{neighbours, routes};
pub use ports::{paths, ports};
pub use rows::associations;
pub use sessions::{SessionQuery, sessions};
pub use shapers::queue_plan;
