//! A packet as rules see it: where it came in, and the headers of the user packet.

use flow::{LocalId, VrfId};
use packet::{IpTuple, Qfi, Teid};

/// A packet as rules see it.
#[derive(Clone, Copy, Debug)]
pub struct PacketView<'a> {
    /// Where it came in.
    pub side: Side,
    /// The user's packet: what the tunnel carried, or the packet itself.
    pub tuple: &'a IpTuple,
}

/// Where a packet came in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// In a GTP-U tunnel.
    Tunnel {
        /// This node's address that it came to.
        local: LocalId,
        /// The TEID in the header.
        teid: Teid,
        /// The QFI in its PDU Session Container, if it had one.
        qfi: Option<Qfi>,
    },
    /// As plain IP.
    Plain {
        /// The address space of the network instance that it came from.
        vrf: VrfId,
    },
}
