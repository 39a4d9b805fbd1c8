//! Ports: everything that packets enter or leave by is a DPDK ethdev.
//!
//! A [`Port`] is opened from a [`PortSpec`] (or as a pair in memory by [`Port::memory`]), started once with a
//! [`PortConfig`], and from then on its queues carry packets. It stops and closes when the `Port` and all its
//! queues are dropped, in whatever order, so no queue ever outlives its port.

mod config;
mod device;
mod flow;
mod memory;
mod queue;
mod rss;
mod spec;
mod status;

use std::sync::Arc;

pub use config::{PortConfig, Queues};
pub use flow::{FlowRule, Packets, SpreadRule};
pub use memory::{MemoryPeer, MemorySpec};
pub use queue::{RxQueue, TxQueue};
pub use rss::{RssConfig, RssFields, RssStatus};
pub use spec::PortSpec;
pub use status::{Capabilities, Link, PortStats};

use crate::eal::Eal;
use crate::error::Error;
use device::Device;

/// A port: its control side. Queues come from [`Port::start`].
#[derive(Debug)]
pub struct Port {
    device: Arc<Device>,
    started: bool,
    rss: RssStatus,
}

impl Port {
    /// Opens a port.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a value that cannot be (the specification's field is named); [`Error::Driver`] with
    /// the driver's own words when it refuses.
    pub fn open(eal: &Eal, spec: &PortSpec) -> Result<Port, Error> {
        spec.check(eal)?;
        Ok(Port::from_device(spec.open(eal)?))
    }

    /// Makes a port whose other side is in this process: what the peer sends the port receives, and the reverse.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a value out of bounds; [`Error::Resource`] when EAL's memory does not hold the rings.
    pub fn memory(eal: &Eal, spec: &MemorySpec) -> Result<(Port, MemoryPeer), Error> {
        let (device, peer) = memory::open(eal, spec)?;
        Ok((Port::from_device(device), peer))
    }

    fn from_device(device: Device) -> Port {
        Port {
            device: Arc::new(device),
            started: false,
            rss: RssStatus::NotRequested,
        }
    }

    /// Configures the port and its queues and starts it. Only once: open it anew to change the configuration.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a value outside what the driver can do; [`Error::Driver`] with the driver's own words
    /// when it refuses. The port can then be tried with another configuration.
    pub fn start(&mut self, config: &PortConfig) -> Result<Queues, Error> {
        if self.started {
            return Err(Error::config("start", self.name(), "a port starts once"));
        }
        self.rss = config::start(&self.device, config)?;
        self.started = true;
        let sends = config.sends(&self.device.info()?);
        Ok(queue::all(&self.device, config, sends))
    }

    /// DPDK's number of the port, which packets received on it carry.
    pub fn id(&self) -> u16 {
        self.device.id
    }

    /// The port's name in messages: the interface, file or address it stands for.
    pub fn name(&self) -> &str {
        &self.device.label
    }

    /// What became of the requested receive-side scaling.
    pub fn rss(&self) -> &RssStatus {
        &self.rss
    }
}
