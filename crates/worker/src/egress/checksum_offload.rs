//! UDP checksums of tunnels over IPv6, which are over every octet of a packet: which ports fill them in, so that the
//! worker does not.
//!
//! A packet that leaves as `apply_rules` wrote it has the sum of the pseudo header in its checksum field and asks the
//! port for the rest ([`PacketBuf::ask_udp_checksum`](packet::PacketBuf::ask_udp_checksum)). One that is copied or
//! fragmented before it leaves has its checksum from the worker: while there are requests to trace or copy, with copies
//! for mirrors and DUPL, in fragments, and to ourselves. So have packets of our own, which are short. Header checksums
//! of IPv4 are always the worker's: a few additions of what it writes anyway.

use flow::PortId;

use crate::LagPorts;
use crate::io::Io;

/// What computes the UDP checksum of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UdpChecksum {
    /// The worker.
    Software,
    /// The port that sends it.
    Offloaded,
}

/// The ports that fill in UDP checksums.
pub(crate) struct ChecksumOffload {
    /// By port.
    fill: Vec<bool>,
}

impl ChecksumOffload {
    /// As `io` says of its ports; a LAG fills in what all of its members do.
    pub fn new(io: &impl Io, lags: &[LagPorts]) -> Self {
        let fills = |port: &PortId| io.fills_udp_checksums(*port);
        let mut fill: Vec<bool> = (0..io.ports()).map(|port| fills(&PortId(port as u16))).collect();
        for lag in lags {
            if let Some(index) = fill.get_mut(lag.port.index()) {
                *index = !lag.members.is_empty() && lag.members.iter().all(fills);
            }
        }
        Self { fill }
    }

    /// What computes that of a packet which leaves by `port` as it is.
    pub fn of(&self, port: PortId) -> UdpChecksum {
        match self.fill.get(port.index()) {
            Some(true) if port.recirculations() == 0 => UdpChecksum::Offloaded,
            _ => UdpChecksum::Software,
        }
    }
}
