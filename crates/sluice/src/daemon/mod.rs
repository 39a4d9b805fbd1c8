//! The shell of `sluice run`: a UPF on the ports and sockets of its configuration, the thread that writes usage
//! records, the interfaces of the host's own network stack, signals to stop.

#[cfg(feature = "accelerator")]
pub mod accelerator;
mod alarms;
mod api;
mod configuration;
mod dates;
mod gauges;
mod host;
mod links;
mod n4_log;
mod nat_log;
mod records;
mod run;
pub mod service_manager;
mod session_store;
mod session_transfer;
mod worker_threads;
mod writers;

pub use configuration::Source;
pub use run::run;
