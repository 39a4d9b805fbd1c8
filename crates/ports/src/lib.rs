//! The DPDK ports of a configuration: how they are opened, how their NICs spread packets over workers, and what the
//! host's kernel is to do with the interfaces under them.

#![forbid(unsafe_code)]

mod kernel;
mod nic;
mod numa_placement;
mod ports;

pub use kernel::ingress::addresses_on;
pub use nic::expectation;
pub use numa_placement::NumaPlacement;
pub use ports::{PortError, Ports, start_eal, start_eal_of_accelerator};
