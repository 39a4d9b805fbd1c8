//! What an inspection is given of a packet.

/// The transport protocol of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Which end of a flow sent a packet: the one that sent the flow's first packet, or the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// The end that opened the flow: the client.
    Initiator,
    /// The other end.
    Responder,
}

/// What a packet carries above its IP header. Packets of a flow come in any order; fragments are reassembled before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer4<'p> {
    /// A TCP segment (RFC 9293 §3.1).
    Tcp {
        /// The sequence number of its header.
        sequence: u32,
        /// Whether it has SYN.
        has_syn: bool,
        /// Its payload.
        payload: &'p [u8],
    },
    /// A UDP datagram.
    Udp {
        /// Its payload.
        payload: &'p [u8],
    },
}

impl<'p> Layer4<'p> {
    /// What it carries.
    pub fn payload(&self) -> &'p [u8] {
        match self {
            Layer4::Tcp { payload, .. } | Layer4::Udp { payload } => payload,
        }
    }
}
