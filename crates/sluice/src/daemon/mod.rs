//! The shell of `sluice run`: threads for the workers, sockets for N4 and for control, signals to
//! stop. What they drive is in
//! [`crate::upf`].

mod control_loop;
mod control_socket;
mod run;
mod sockets;
mod threads;

pub use control_loop::ControlLoop;
pub use control_socket::{ControlSocket, ask, default_path};
pub use run::{RunError, run};
pub use sockets::Sockets;
pub use threads::{Pace, Published, WorkerThread};
