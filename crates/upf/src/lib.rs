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
pub mod identifiers;
mod inspect;
mod leases;
mod mirror;
mod n4_config;
mod neighbours;
mod path_mtus;
mod port_block_log;
mod port_links;
mod reconfiguration;
mod reconfigure;
mod session_keeping;
mod session_store;
mod session_transfer;
mod usage_record_writer;
mod workers;

pub use assemble::{Assembly, Surroundings, assemble, backlog, worker_config, worker_seed};
pub use balance::{Balancer, Bound};
pub use control::{Control, ControlConfig};
pub use convert::command;
pub use inspect::{InspectError, Inspection};
pub use leases::{EgressPart, EgressShaper};
pub use mirror::{MirrorFault, MirrorTo, MirrorWanted};
pub use neighbours::Table as NeighbourTable;
pub use path_mtus::{PathMtu, PathMtus};
pub use port_block_log::{PortBlockSink, Wanted};
pub use port_links::{LinkEvent, PortLinks};
pub use reconfigure::{ReconfigureError, Reconfigured};
pub use session_keeping::SessionKeeping;
pub use session_store::{RecordFrame, Restored, SessionStore};
pub use session_transfer::{ImportCounts, NodeExport, SessionTransfer};
pub use usage_record_writer::RecordSink;
