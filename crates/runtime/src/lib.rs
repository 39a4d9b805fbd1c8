//! The threads, sockets and clocks that drive a UPF: a thread for each worker, the control thread's loop, the N4
//! sockets, and how threads without work wait and are woken.

#![forbid(unsafe_code)]

mod accelerator_thread;
mod clock;
mod control_loop;
mod idle;
mod prefault_thread;
mod sockets;
mod thread_priority;
mod threads;
mod wakeup;

pub use accelerator_thread::{AcceleratorReport, AcceleratorThread, NodeThreadError};
pub use clock::{Clock, HOST_LOOK, HostTime};
pub use control_loop::ControlLoop;
pub use idle::{Idle, Waiter, sockets_of_workers};
pub use prefault_thread::spawn_prefault_thread;
pub use sockets::Sockets;
pub use thread_priority::lower_thread_priority;
pub use threads::{
    PollWorker, Published, PublishedAccelerator, PublishedAccessCounts, PublishedContentTotals,
    PublishedEgressCounts, PublishedGroupTotals, PublishedHoldings, PublishedNatCounts, PublishedStats,
    ThreadConfig, ThreadError, WakeTargets, WorkerThread,
};
pub use wakeup::Wakeup;
