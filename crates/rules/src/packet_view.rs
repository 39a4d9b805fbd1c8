//! A packet as rules see it: where it came in, and the headers of the user packet.

use dpi::{HostName, Protocol};
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

/// What is known of the flow that a packet is of, by what its first packets carry.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum Detection<'a> {
    /// Nothing yet: its packets are being looked into, or would be.
    #[default]
    Undecided,
    /// What it is.
    Found(DetectedFlow<'a>),
    /// Nothing, and that stays so.
    Undetected,
}

/// What a flow is found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DetectedFlow<'a> {
    /// Its protocol.
    pub protocol: Protocol,
    /// The host that it is for, if its client names one; of DNS the name that is asked for.
    pub name: Option<&'a HostName>,
    /// Of HTTP the start of the path, as far as rules can name it.
    pub path: Option<&'a [u8]>,
}
