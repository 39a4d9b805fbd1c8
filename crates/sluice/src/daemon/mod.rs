//! The shell of `sluice run`: threads for the workers, sockets for N4 and for the operator's API, signals to stop. What
//! they drive is in [`crate::upf`].

mod bell;
mod control_loop;
mod host;
mod idle;
mod log;
mod memory;
mod n4_log;
mod records;
pub mod rest;
mod run;
mod sockets;
mod threads;
mod transfer;

pub use bell::Bell;
pub use control_loop::ControlLoop;
pub use host::{HostPath, HostView};
pub use idle::{Idle, Waiter};
pub use log::LogControl;
pub use memory::keep_memory_ahead;
pub use records::{Feed, RecordsThread, RecordsView};
pub use rest::{ClientError, ask, default_path, fetch, get, stream};
pub use run::{RunError, run};
pub use sockets::Sockets;
pub use threads::{Pace, Published, Rings, WorkerThread};
