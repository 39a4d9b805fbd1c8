//! The UPF as parts that are polled: [`Control`] and the workers.
//!
//! Nothing here starts a thread, opens a socket or asks for the time. The daemon, the demo and the one-thread world
//! each bring their own shell.

#![forbid(unsafe_code)]

mod assemble;
mod balance;
mod control;
mod convert;
mod echo;
pub mod format;
mod inspect;
mod leases;
mod ledger;
mod links;
mod mirror;
mod neighbours;
pub mod numbers;
mod path_mtus;
mod transfer;
mod workers;

pub use assemble::{Assembly, Surroundings, assemble, backlog, worker_config};
pub use balance::{Balancer, Bound};
pub use control::{Control, ControlConfig};
pub use convert::command;
pub use inspect::{InspectError, Inspection};
pub use ledger::RecordSink;
pub use links::{LinkNews, Links};
pub use mirror::{MirrorTo, MirrorWanted, NoWay};
pub use neighbours::Table as NeighbourTable;
pub use path_mtus::{PathMtu, PathMtus};
pub use transfer::{Everything, TakenIn, Transfer};
