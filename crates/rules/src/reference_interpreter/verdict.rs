//! What the interpreter says of a packet.

use std::net::IpAddr;

use flow::{Direction, PortId};
use packet::DropReason;

use crate::model::{Content, PdrId, UrrId};
use crate::network::InstanceId;

/// What becomes of a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// Where it goes, or why it does not.
    pub outcome: Outcome,
    /// The URRs that it counts in, in the order of their slots; none for a packet that is dropped.
    pub counted: Vec<Counted>,
    /// Those of them that count events, if it is one.
    pub events: Vec<UrrId>,
    /// The URRs that it counts in before QoS enforcement, whatever becomes of it then.
    pub counted_before_qos: Vec<Counted>,
    /// What it is billed as, if it is of a predefined rule that says so; nothing for a packet that is dropped.
    pub billed: Option<Billed>,
    /// The PDR that detected it.
    pub pdr: Option<PdrId>,
    /// Its duplicate (DUPL), whatever becomes of itself. It counts in no URR.
    pub duplicate: Option<Duplicate>,
}

/// A packet of this node's own, made of another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Duplicate {
    /// The whole packet, from its outermost IP header on.
    pub bytes: Vec<u8>,
    /// The network instance that it leaves by.
    pub egress: InstanceId,
    /// The neighbour that it is handed to.
    pub next_hop: IpAddr,
}

/// Where a packet goes, or why it does not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It leaves.
    Forwarded {
        /// The whole packet, from its outermost IP header on.
        bytes: Vec<u8>,
        /// The network instance that it leaves by.
        egress: InstanceId,
        /// The neighbour that it is handed to.
        next_hop: IpAddr,
        /// The port that gets a copy.
        mirror: Option<PortId>,
    },
    /// It is sent to an address of this node's own: it comes in again, and what becomes of it then is the session's
    /// that it belongs to there. The number of recirculations is not limited here.
    Recirculated {
        /// The whole packet, from its outermost IP header on.
        bytes: Vec<u8>,
        /// The network instance that it comes in by.
        ingress: InstanceId,
        /// The port that gets a copy.
        mirror: Option<PortId>,
        /// Whether it is the response to a redirected packet of the UE.
        is_answer: bool,
    },
    /// It was there for what it reports, and has no user packet.
    Consumed,
    /// It is dropped.
    Dropped(DropReason),
}

impl Outcome {
    /// The whole packet, if it is not dropped.
    pub(super) fn bytes(&self) -> Option<&[u8]> {
        match self {
            Self::Forwarded { bytes, .. } | Self::Recirculated { bytes, .. } => Some(bytes),
            Self::Consumed | Self::Dropped(_) => None,
        }
    }
}

/// A packet in a URR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// The rule.
    pub urr: UrrId,
    /// The length of the user's IP packet as received; in a credit pool times the multipliers of those of its members
    /// that it counts in, in units of [`Urr::unit`](crate::model::Urr::unit).
    pub octets: u64,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
}

/// A packet in a content.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Billed {
    /// What it is billed as.
    pub content: Content,
    /// The length of the user's IP packet as received.
    pub octets: u64,
    /// Uplink if the PDR's source interface is Access.
    pub direction: Direction,
}
