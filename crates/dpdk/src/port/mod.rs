//! Ports: everything that packets enter or leave by is a DPDK ethdev, or a kernel interface by packet sockets.
//!
//! A [`Port`] is opened from a [`PortSpec`] (or as a pair in memory by [`Port::memory`]), started once with a
//! [`PortConfig`], and from then on its queues carry packets. It stops and closes when the `Port` and all its
//! queues are dropped, in whatever order, so no queue ever outlives its port.

mod config;
mod device;
mod flow;
mod memory_port;
mod queue;
mod rss;
mod sockets;
mod spec;
mod stats;
mod status;
mod urgent;
mod xdp;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use config::PortConfig;
pub use flow::{FlowRule, Packets, SpreadRule};
pub use memory_port::{MemoryPeer, MemorySpec};
pub use queue::{Queues, RxQueue, TxQueue};
pub use rss::{RssConfig, RssFields, RssStatus};
pub use sockets::FilterInstruction;
pub use spec::PortSpec;
pub use stats::PortStats;
pub use status::{Capabilities, Link};
pub use urgent::UrgentQueues;
pub use xdp::ChoosingProgram;

use crate::eal::Eal;
use crate::error::{Errno, Error};
use device::Device;
use queue::Beside;
use sockets::Interface;
use urgent::{Chooser, Sorting};

/// A port: its control side. Queues come from [`Port::start`].
#[derive(Debug)]
pub struct Port {
    side: Side,
    started: bool,
    rss: RssStatus,
    /// See [`RxQueue::leaves_checksums`].
    leaves_checksums: bool,
    /// Of AF_XDP.
    xdp: Option<Xdp>,
    /// What became of the program that chooses urgent packets.
    sorting: Arc<Sorting>,
}

/// The interface under a driver's port, for its queues of urgent packets.
#[derive(Debug)]
struct Xdp {
    interface: Interface,
    /// The interface's first queue that is used.
    first: u16,
    entry: Option<Arc<xdp::Entry>>,
}

/// What packets come from and go to.
#[derive(Debug)]
enum Side {
    Driver(Arc<Device>),
    Sockets(Arc<Interface>),
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
        let side = match spec {
            PortSpec::AfPacket { interface, .. } => {
                Side::Sockets(Arc::new(Interface::open(interface, spec.to_string())?))
            }
            other => Side::Driver(Arc::new(other.open(eal)?)),
        };
        let mut port = Port::new(side);
        if let PortSpec::AfXdp {
            interface,
            start_queue,
            ..
        } = spec
        {
            port.leaves_checksums = true;
            port.xdp = Some(Xdp {
                interface: Interface::open(interface, spec.to_string())?,
                first: *start_queue,
                entry: None,
            });
        }
        Ok(port)
    }

    /// Makes a port whose other side is in this process: what the peer sends the port receives, and the reverse.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] for a value out of bounds; [`Error::Resource`] when EAL's memory does not hold the rings.
    pub fn memory(eal: &Eal, spec: &MemorySpec) -> Result<(Port, MemoryPeer), Error> {
        let (device, peer) = memory_port::open(eal, spec)?;
        Ok((Port::new(Side::Driver(Arc::new(device))), peer))
    }

    fn new(side: Side) -> Port {
        Port {
            side,
            started: false,
            rss: RssStatus::NotRequested,
            leaves_checksums: false,
            xdp: None,
            sorting: Arc::default(),
        }
    }

    /// The driver's device.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] of packet sockets: they have none of what is asked for.
    fn device(&self, what: &'static str) -> Result<&Arc<Device>, Error> {
        match &self.side {
            Side::Driver(device) => Ok(device),
            Side::Sockets(interface) => {
                Err(Error::config(what, &interface.label, "packet sockets have none"))
            }
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
        let device = match &self.side {
            Side::Driver(device) => device,
            Side::Sockets(interface) => {
                let queues = sockets::start(interface, config, &self.sorting)?;
                self.rss = match config.rss {
                    None => RssStatus::NotRequested,
                    Some(_) => RssStatus::Unsupported,
                };
                self.started = true;
                return Ok(queues);
            }
        };
        let started = config::start(device, config)?;
        self.rss = started.rss;
        self.started = true;
        if self.leaves_checksums {
            crate::sockets::send_whole_bursts();
        }
        let info = device.info()?;
        let traits = queue::Traits {
            leaves_checksums: self.leaves_checksums,
            sends: config.sends(&info),
            knows_waiting: config::knows_waiting(&info),
        };
        let mut queues = Queues::of_driver(device, config.rx_queues, config.tx_queues, traits);
        if let Some(xdp) = self.xdp.as_mut().filter(|_| config.urgent_queues) {
            let found = match xdp.add_urgent(config, &started.xdp_sockets, (&mut queues, &self.sorting)) {
                Ok(()) => UrgentQueues::Waiting,
                Err(errno) => UrgentQueues::Refused(errno),
            };
            self.sorting.note(found);
        }
        Ok(queues)
    }

    /// The XDP program that has to be on the interface, in place of the driver's, for its
    /// [urgent queues](PortConfig::urgent_queues); `None` where there are none by one.
    pub fn xdp_program(&self) -> Option<BorrowedFd<'_>> {
        let entry = self.xdp.as_ref()?.entry.as_ref()?;
        Some(entry.program())
    }

    /// That program could not be put there: no queue has one of urgent packets beside it.
    pub fn without_xdp_program(&mut self, queues: &mut Queues, reason: Errno) {
        queues.rx.iter_mut().for_each(RxQueue::without_urgent);
        if let Some(xdp) = &mut self.xdp {
            xdp.entry = None;
        }
        self.sorting.note(UrgentQueues::Refused(reason));
    }

    /// Whether urgent packets are sorted out.
    pub fn urgent_queues(&self) -> UrgentQueues {
        self.sorting.found()
    }

    /// The port's name in messages: the interface, file or address that it was opened on.
    pub fn name(&self) -> &str {
        match &self.side {
            Side::Driver(device) => &device.label,
            Side::Sockets(interface) => &interface.label,
        }
    }

    /// What became of the requested receive-side scaling.
    pub fn rss(&self) -> &RssStatus {
        &self.rss
    }
}

impl Xdp {
    /// Opens packet sockets for urgent packets, and makes the program that passes those to them.
    fn add_urgent(
        &mut self,
        config: &PortConfig,
        sockets: &[i32],
        (queues, sorting): (&mut Queues, &Arc<Sorting>),
    ) -> Result<(), Errno> {
        if sockets.len() != queues.rx.len() {
            // The driver has none of its own for each queue.
            return Err(Errno(libc::ENOTSOCK));
        }
        let entry = Arc::new(xdp::Entry::make(self.first, sockets)?);
        let rings = sockets::urgent_rings(&self.interface, config).map_err(|error| match error {
            Error::Driver { errno, .. } => errno,
            _ => Errno(libc::EINVAL),
        })?;
        for (queue, ring) in queues.rx.iter_mut().zip(rings) {
            queue.with_urgent(Beside {
                ring: Box::new(ring),
                chooser: Chooser::Xdp(Arc::clone(&entry)),
                sorting: Arc::clone(sorting),
            });
        }
        self.entry = Some(entry);
        Ok(())
    }
}
