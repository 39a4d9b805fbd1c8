//! A datagram on its way out.

use std::net::SocketAddr;
use std::sync::Arc;

/// A datagram to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Our address and port: that which a request reached, or which our own request is sent from.
    pub from: SocketAddr,
    /// The peer's.
    pub to: SocketAddr,
    /// The UDP payload: one PFCP message, or several.
    pub bytes: Arc<[u8]>,
}
