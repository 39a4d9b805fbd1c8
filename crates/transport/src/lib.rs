//! Getting IP packets across a link: neighbours, adjacencies, routes, and answers for our own addresses. Sans-IO.
//!
//! [`Neighbours`] is Control's and decides who is where; [`Adjacencies`] and [`Routes`] are each worker's own copies;
//! [`lag`] makes one port of several; [`replies`] has no state at all. Nothing here reads a clock, opens a socket or knows of sessions.

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
    Heard, NeighbourError, NeighbourView, Neighbours, NeighboursConfig, OwnAddressEvent, OwnAddressState,
    OwnAddressView, Standing,
};
pub use routes::{Hop, Routes, Via};
pub use solicit::Transmit;
