//! Delivery of IP packets on links: neighbours, adjacencies, routes, and replies for own addresses. Sans-IO.
//!
//! Control owns [`Neighbours`], which resolves link layer addresses; each worker owns copies of [`Adjacencies`] and
//! [`Routes`]; [`lag`] aggregates links; [`replies`] has no state. Nothing here reads a clock, opens a socket or knows
//! sessions.

#![forbid(unsafe_code)]

mod adjacencies;
mod fib;
pub mod lag;
mod neighbours;
pub mod replies;
mod routes;
mod solicit;

pub use adjacencies::{Adjacencies, Adjacency, AdjacencyChange, Interface};
pub use neighbours::{
    NeighbourError, NeighbourMessage, NeighbourState, NeighbourView, Neighbours, NeighboursConfig,
    OwnAddressEvent, OwnAddressState, OwnAddressView,
};
pub use routes::{Hop, Routes, Via};
pub use solicit::Transmit;
