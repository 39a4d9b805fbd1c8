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
    /// The same, and by an answer of DNS it is for this host. Rules of the session take it for that meanwhile; access
    /// lists wait for what it shows itself, since what they deny shows nothing more.
    Presumed(DetectedFlow<'a>),
    /// What it is.
    Found(DetectedFlow<'a>),
    /// Nothing, and that stays so.
    Undetected,
}

impl<'a> Detection<'a> {
    /// What it is to PDRs and the rules that they activate.
    pub fn flow(&self) -> Option<DetectedFlow<'a>> {
        match self {
            Self::Presumed(flow) | Self::Found(flow) => Some(*flow),
            Self::Undecided | Self::Undetected => None,
        }
    }

    /// What is known as access lists take it.
    #[must_use]
    pub fn of_access_lists(self) -> Self {
        match self {
            Self::Presumed(_) => Self::Undecided,
            known => known,
        }
    }
}

/// What a flow is found to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DetectedFlow<'a> {
    /// Its protocol; `None`: an answer of DNS alone says what it is for.
    pub protocol: Option<Protocol>,
    /// The host that it is for, if that is known; of DNS the name that is asked for.
    pub name: Option<&'a HostName>,
    /// Of HTTP the start of the path, as far as rules can name it.
    pub path: Option<&'a [u8]>,
    /// Who names the host.
    pub source: NameSource,
}

/// Who says for which host a flow is.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub enum NameSource {
    /// Its client, in the flow's own packets.
    #[default]
    Client,
    /// Its client, and a resolver has given the session the address of the other end for this very name.
    Confirmed,
    /// No packet of the flow. A resolver has given the session the address of the other end for this name.
    Resolver,
}
