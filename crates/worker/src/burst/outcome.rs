//! Packets of a burst that stage `apply_rules` leaves to later steps: lists by step. Empty between bursts.

use std::net::IpAddr;

use flow::{AdjacencyId, InstanceId, PortId};

use crate::burst::batch::Batch;

/// Findings of one burst.
pub(crate) struct Outcome {
    /// The unresolved next hops of packets that are dropped as `no_neighbour`, in their order.
    pub missing: Batch<NextHop>,
    /// Packets whose senders may get an ICMP error.
    pub undelivered: Batch<Undelivered>,
    /// Indexes of downlink packets dropped by FARs that may report it (DDPN).
    pub discarded: Batch<u8>,
    /// Packets that are copied.
    pub copied: Batch<CopyRequest>,
    /// Packets above their guaranteed rates: bit n is index n.
    pub yellow: u64,
    /// Packets that are marked for congestion in the RAN, likewise.
    pub congested: u64,
}

impl Outcome {
    /// Nothing found.
    pub fn new() -> Self {
        Self {
            missing: Batch::new(),
            undelivered: Batch::new(),
            discarded: Batch::new(),
            copied: Batch::new(),
            yellow: 0,
            congested: 0,
        }
    }
}

/// A packet that is discarded for a reason that its sender may be notified of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Undelivered {
    /// Its index in the burst.
    pub index: u8,
    /// Why it is.
    pub why: Why,
}

/// Why a packet is discarded whose sender may be notified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Its TTL expired.
    Expired,
    /// It is longer than this, octets.
    TooLong(u16),
    /// An access list rejects it.
    Prohibited,
    /// It would leave with a public address, and there is none for it.
    NoPublicPort,
}

/// A next hop without a link layer address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextHop {
    /// Control has a slot for it.
    Slot(AdjacencyId),
    /// Resolution was requested of Control.
    Address(InstanceId, IpAddr),
}

/// A packet that is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CopyRequest {
    /// Its index in the burst.
    pub index: u8,
    /// The port of the mirror, or [`Forward::COPIES`](flow::Forward::COPIES): as its session's image says.
    pub port: PortId,
}
