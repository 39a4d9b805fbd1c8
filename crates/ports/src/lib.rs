//! The DPDK ports of a configuration: how they are opened, how their NICs spread packets over workers, and what the host's
//! kernel is to do with the interfaces under them.

#![forbid(unsafe_code)]

mod kernel;
mod nic;
mod ports;

pub use kernel::ingress::addresses_on;
pub use nic::expectation;
pub use nic::numa::Placement;
pub use ports::{PortError, Ports, start_eal};
