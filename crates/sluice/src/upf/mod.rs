//! The UPF as parts that are polled: [`Control`] and the workers.
//!
//! Nothing here starts a thread, opens a socket or asks for the time. The daemon, the demo and the one-thread world
//! each bring their own shell.

mod assemble;
mod balance;
mod control;
mod echo;
mod leases;
mod ledger;
mod links;
mod mirror;
mod neighbours;
mod path_mtus;
mod transfer;
mod views;
mod words;

pub use assemble::{Assembly, Surroundings, assemble};
pub(crate) use assemble::{backlog, worker_config};
pub use balance::{Balancer, Bound};
pub use control::{Control, ControlConfig};
pub use ledger::RecordSink;
pub use links::LinkNews;
pub use mirror::{MirrorTo, MirrorWanted, NoWay};
pub use transfer::{Everything, TakenIn};
pub(crate) use views::action_in_words;
pub use views::{NotShown, SessionQuery};
pub use words::command;
