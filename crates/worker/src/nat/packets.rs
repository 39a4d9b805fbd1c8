//! The packets of a burst that a NAT is for, and the ends of the mappings that they belong to.

use flow::{SessionIndex, VrfId};
use nat::mappings::{Inside, InsideHash, Protocol, PublicEnd, PublicHash};
use nat::pools::{BlockId, NatPools};
use packet::PacketBuf;
use packet::icmp_rewrite::Quoted;

use super::endpoint::Endpoint;
use super::message::{Message, message};
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Family, Keys};

/// A packet of a data network's, and what it is to a NAT.
#[derive(Clone, Copy)]
pub(crate) struct PublicPacket {
    pub(super) index: u8,
    pub(super) message: Message,
    pub(super) source: [u8; 4],
    pub(super) destination: [u8; 4],
    pub(super) ports: [u16; 2],
    pub(super) protocol: u8,
}

/// A packet to a public address, and the mapping that it is for with the hash by which that is found.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub packet: PublicPacket,
    pub end: Option<(PublicEnd, PublicHash)>,
}

impl PublicPacket {
    /// The packet at `index`, if it is one of IPv4 and nothing was decided about it.
    #[inline]
    pub fn new<B: PacketBuf>(buf: &B, descriptor: &Descriptor, keys: &Keys, index: usize) -> Option<Self> {
        if descriptor.family != Family::V4 || !descriptor.is_open_user() {
            return None;
        }
        let key = &keys.v4[index % BURST];
        Some(Self {
            index: index as u8,
            message: message(buf, descriptor, key.protocol),
            source: key.source,
            destination: key.destination,
            ports: key.ports,
            protocol: key.protocol,
        })
    }

    /// Whether it is for a public address of a pool.
    #[inline]
    pub fn is_public(&self, pools: &NatPools, vrf: VrfId) -> bool {
        pools.pool_of(vrf, self.destination.into()).is_some()
    }

    /// The block that it is for, if pools have one.
    #[inline]
    pub fn block(&self, pools: &NatPools, vrf: VrfId) -> Option<BlockId> {
        self.public_end(pools, vrf).map(|end| end.block)
    }

    /// The public end of the mapping that it is for.
    #[inline]
    pub(super) fn public_end(&self, pools: &NatPools, vrf: VrfId) -> Option<PublicEnd> {
        let (address, port, protocol) = match self.message {
            Message::Ports(protocol, _) => (self.destination, self.ports[1], protocol),
            Message::Later => (self.destination, self.ports[1], Protocol::of(self.protocol)?),
            Message::Query { id, asks: false } => (self.destination, id, Protocol::Icmp),
            Message::Error(Quoted { ends, protocol }) => {
                (ends.source, ends.source_port, Protocol::of(protocol)?)
            }
            Message::Query { asks: true, .. } | Message::Other => return None,
        };
        let block = pools.block_of(vrf, address.into(), port)?;
        Some(PublicEnd {
            block,
            port,
            protocol,
        })
    }
}

/// A packet that leaves.
#[derive(Clone, Copy)]
pub(super) struct Departure {
    pub index: u8,
    pub session: SessionIndex,
    pub message: Message,
    /// The UE's own end of the mapping, with the hash by which that is found; `None` where it belongs to none.
    pub inside: Option<(Inside, InsideHash)>,
    pub remote: [u8; 4],
    /// Of its IP header.
    pub protocol: u8,
}

/// The UE's own end of the mapping that a packet with this source belongs to; `None` where it belongs to none.
#[inline]
pub(super) fn inside_of(message: Message, Endpoint { address, port }: Endpoint) -> Option<Inside> {
    let (address, port, protocol) = match message {
        Message::Ports(protocol, _) => (address, port, protocol),
        Message::Query { id, .. } => (address, id, Protocol::Icmp),
        Message::Error(quoted) => {
            let ends = quoted.ends;
            (
                ends.destination,
                ends.destination_port,
                Protocol::of(quoted.protocol)?,
            )
        }
        Message::Later | Message::Other => return None,
    };
    Some(Inside {
        address,
        port,
        protocol,
    })
}
