//! How many descriptors the rings of ports have where the configuration does not name it.

use crate::{Config, Driver, PortConfig};

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

impl Config {
    /// Descriptors of the rings of `port`: those that it names. Where it names none, 1,024 to send; to receive, a power
    /// of two from 1,024 to 8,192 (2,048 of `af_packet` ports), the greatest with which the receive rings of all ports
    /// and workers hold no more than half of the packet buffers.
    #[must_use]
    pub fn descriptors(&self, port: &PortConfig) -> Descriptors {
        if let Some(descriptors) = port.descriptors {
            let both = descriptors.value() as u16;
            return Descriptors {
                receive: both,
                transmit: both,
            };
        }
        let ports = self.ports.iter().filter(|port| port.lag.is_none()).count();
        let rings = ports.max(1) * self.workers.count.size().max(1);
        let most = match port.driver {
            Some(Driver::AfPacket { .. }) => MOST_RECEIVE_SOCKETS,
            _ => MOST_RECEIVE,
        };
        let most = (self.dpdk.buffers.size() / 2 / rings).clamp(LEAST_RECEIVE, most);
        Descriptors {
            receive: 1 << most.ilog2(),
            transmit: TRANSMIT,
        }
    }
}
