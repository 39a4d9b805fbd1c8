//! A packet as inspection sees it.

use std::net::IpAddr;

use dpi::Transport;
use flow::{Nanos, SessionIndex};
use packet::IpTuple;
use packet::tuple::proto;
use rules::model::DetectionReads;

use super::address_names::Owner;
use super::flow_records::EntryPlace;
use super::ndpi_flows::ShownPacket;

/// A packet of a flow of which it matters what it is.
pub(crate) struct InspectedPacket<'a> {
    /// The session that it belongs to, and its SEID: a session that follows may have the same index.
    pub session: SessionIndex,
    pub seid: u64,
    /// The user packet, from its IP header on.
    pub bytes: &'a [u8],
    /// What that header says.
    pub layout: &'a IpTuple,
    /// The same, of a fragment behind the first with the ports of that one.
    pub tuple: &'a IpTuple,
    /// Whether the UE sends it.
    pub is_uplink: bool,
    /// It is between the UE and a resolver whose answers count.
    pub is_with_resolver: bool,
    /// The entry that it has found, if it came here for nothing but what it carries.
    pub entry: Option<EntryPlace>,
    /// What rules of the session read of flows.
    pub reads: DetectionReads,
    pub now: Nanos,
}

impl InspectedPacket<'_> {
    pub(super) fn owner(&self) -> Owner {
        Owner {
            session: self.session,
            seid: self.seid,
        }
    }

    /// As nDPI is shown it.
    pub(super) fn shown(&self) -> ShownPacket<'_> {
        let end = self.bytes.len().min(self.layout.total_len.into());
        ShownPacket {
            bytes: self.bytes.get(..end).unwrap_or_default(),
            now: self.now,
        }
    }

    /// What it is carried by.
    pub(super) fn transport(&self) -> Transport {
        match self.tuple.proto {
            proto::TCP => Transport::Tcp,
            _ => Transport::Udp,
        }
    }

    /// The address of the UE's other end.
    pub(super) fn other_end(&self) -> IpAddr {
        other_end(self.tuple, self.is_uplink)
    }
}

/// The address of the UE's other end.
pub(super) fn other_end(tuple: &IpTuple, is_uplink: bool) -> IpAddr {
    match is_uplink {
        true => tuple.addrs.dst(),
        false => tuple.addrs.src(),
    }
}
