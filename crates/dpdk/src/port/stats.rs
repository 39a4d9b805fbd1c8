//! What a port counts.

/// A port's own counters since it was opened or reset. What a driver does not count stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Octets received, from the Ethernet header on.
    pub rx_octets: u64,
    /// Packets that came while the receive queue was full.
    pub rx_missed: u64,
    /// Packets received with errors.
    pub rx_errors: u64,
    /// Packets lost because the pool was empty.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Octets sent, from the Ethernet header on.
    pub tx_octets: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}
