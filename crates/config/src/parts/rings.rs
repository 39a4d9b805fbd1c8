//! How many descriptors the rings of ports have where the configuration does not name it.

use crate::{AcceleratorNodeConfig, Config, Driver, PortConfig};

/// The most descriptors of a receive ring: what arrives in 2 ms at 4 million packets a second.
const MOST_RECEIVE: usize = 8_192;
/// The same of the kernel's packet sockets, which take a million a second.
const MOST_RECEIVE_SOCKETS: usize = 2_048;
/// The fewest.
const LEAST_RECEIVE: usize = 1_024;
/// Descriptors of a transmit ring.
const TRANSMIT: u16 = 1_024;

/// Descriptors of a port's rings. A driver may have bounds of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// Of each receive ring.
    pub receive: u16,
    /// Of each transmit ring.
    pub transmit: u16,
}

impl Descriptors {
    /// Those of a port beside which there are, with its own, this number of receive rings, which take packets from
    /// these buffers.
    fn of(port: &PortConfig, rings: usize, buffers: usize) -> Self {
        if let Some(descriptors) = port.descriptors {
            let both = descriptors.value() as u16;
            return Self {
                receive: both,
                transmit: both,
            };
        }
        let most = match port.driver {
            Some(Driver::AfPacket { .. }) => MOST_RECEIVE_SOCKETS,
            _ => MOST_RECEIVE,
        };
        let most = (buffers / 2 / rings.max(1)).clamp(LEAST_RECEIVE, most);
        Self {
            receive: 1 << most.ilog2(),
            transmit: TRANSMIT,
        }
    }
}

impl Config {
    /// How many packet buffers each worker has. With an accelerator the first one, which receives what it sends, has
    /// three quarters: packets that any worker keeps lie there, and are not to take the last ones from the channels.
    #[must_use]
    pub fn buffers_of_workers(&self) -> Vec<u32> {
        let (all, workers) = (
            self.dpdk.buffers.value() as u32,
            self.workers.count.value() as u32,
        );
        if self.accelerator.is_none() || workers < 2 {
            return vec![all.div_ceil(workers); workers as usize];
        }
        let first = all - all / 4;
        let others = (all / 4).div_ceil(workers - 1);
        let others = (1..workers).map(|_| others);
        std::iter::once(first).chain(others).collect()
    }

    /// Descriptors of the rings of `port`: those that it names. Where it names none, 1,024 to send; to receive, a power
    /// of two from 1,024 to 8,192 (2,048 of `af_packet` ports), the greatest with which the receive rings of all ports
    /// of any worker hold no more than half of its packet buffers.
    #[must_use]
    pub fn descriptors(&self, port: &PortConfig) -> Descriptors {
        let drivers = self.ports.iter().filter_map(|port| port.driver.as_ref());
        let ports = drivers.filter(|driver| !driver.is_behind_accelerator()).count();
        let fewest = self.buffers_of_workers().into_iter().min();
        Descriptors::of(port, ports, fewest.unwrap_or_default() as usize)
    }
}

impl AcceleratorNodeConfig {
    /// The same, of an accelerator.
    #[must_use]
    pub fn descriptors(&self, port: &PortConfig) -> Descriptors {
        Descriptors::of(port, self.ports.len(), self.dpdk.buffers.size())
    }
}
