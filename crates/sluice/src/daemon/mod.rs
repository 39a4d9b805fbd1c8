//! The shell of `sluice run`: threads for the workers, sockets for N4, signals to stop. What they drive is in
//! [`crate::upf`].

mod run;
mod sockets;
mod threads;

pub use run::{RunError, run};
pub use sockets::Sockets;
pub use threads::{Pace, Published, WorkerThread};
