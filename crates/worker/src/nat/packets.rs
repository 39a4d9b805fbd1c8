//! The packets of a burst that a NAT is for, and the ends of the mappings that they belong to.

use flow::{SessionIndex, VrfId};
use nat::mappings::{Expected, Inside, Protocol, PublicEnd, PublicHash};
use nat::pools::{BlockId, NatPools, PublicAddress};
use packet::PacketBuf;
use packet::icmp_rewrite::Quoted;

use super::endpoint::Endpoint;
use super::message::{Kind, Message, message};
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Family, Keys};

/// A packet of a data network's, and what it is to a NAT.
#[derive(Clone, Copy)]
pub(crate) struct PublicPacket {
    pub(super) message: Message,
    pub(super) source: [u8; 4],
    pub(super) destination: [u8; 4],
    pub(super) ports: [u16; 2],
    pub(super) protocol: u8,
}

/// A packet to a public address, and the mapping that it is for with the hash by which that is found. What else it is
/// is read again when its turn comes: that is less than to write it down.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub index: u8,
    pub end: Option<PublicEnd>,
    pub hash: PublicHash,
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
            message: message(buf, descriptor, key.protocol),
            source: key.source,
            destination: key.destination,
            ports: key.ports,
            protocol: key.protocol,
        })
    }

    /// The public address of a pool that it is for.
    #[inline]
    pub fn public_address(&self, pools: &NatPools, vrf: VrfId) -> Option<PublicAddress> {
        pools.public_address(vrf, self.destination.into())
    }

    /// The block that it is for, if pools have one. `quoted` is asked for what it quotes, if it is an error.
    #[inline]
    pub fn block(
        &self,
        (pools, vrf, address): (&NatPools, VrfId, PublicAddress),
        quoted: impl FnOnce() -> Option<Quoted>,
    ) -> Option<BlockId> {
        self.public_end((pools, vrf, address), quoted)
            .map(|end| end.block)
    }

    /// The public end of the mapping that it is for, which has come to this address.
    #[inline(always)]
    pub(super) fn public_end(
        &self,
        (pools, vrf, address): (&NatPools, VrfId, PublicAddress),
        quoted: impl FnOnce() -> Option<Quoted>,
    ) -> Option<PublicEnd> {
        let (port, protocol) = match self.message.kind {
            Kind::Ports => (self.ports[1], self.message.protocol),
            Kind::Later => (self.ports[1], Protocol::of(self.protocol)?),
            Kind::Answer => (self.message.id, Protocol::Icmp),
            Kind::Error => return end_of_quoted(pools, vrf, quoted()?),
            Kind::Request | Kind::Other => return None,
        };
        Some(PublicEnd {
            block: address.block(port)?,
            port,
            protocol,
        })
    }
}

/// The public end of the mapping by which the packet has left that an error quotes.
#[cold]
fn end_of_quoted(pools: &NatPools, vrf: VrfId, Quoted { ends, protocol }: Quoted) -> Option<PublicEnd> {
    Some(PublicEnd {
        block: pools.block_of(vrf, ends.source.into(), ends.source_port)?,
        port: ends.source_port,
        protocol: Protocol::of(protocol)?,
    })
}

/// A packet that leaves. What else it is is read again when its turn comes, as that of an [`Arrival`].
#[derive(Clone, Copy)]
pub(super) struct Departure {
    pub index: u8,
    /// Whether it belongs to a mapping.
    pub has_inside: bool,
    /// The UE's own end of the mapping.
    pub inside: Inside,
    pub session: SessionIndex,
    /// Where the mapping is expected.
    pub expected: Expected,
}

/// The public source that a packet of a UE is to get.
#[derive(Clone, Copy, Default)]
pub(crate) struct NewSource {
    pub(super) end: Endpoint,
    /// By which forward the packet was to leave then.
    pub(super) forward: u8,
}

/// The UE's own end of the mapping that a packet with this source belongs to; `None` where it belongs to none.
#[inline]
pub(super) fn inside_of(
    message: Message,
    Endpoint { address, port }: Endpoint,
    quoted: impl FnOnce() -> Option<Quoted>,
) -> Option<Inside> {
    let (address, port, protocol) = match message.kind {
        Kind::Ports => (address, port, message.protocol),
        Kind::Request | Kind::Answer => (address, message.id, Protocol::Icmp),
        Kind::Error => return inside_of_quoted(quoted()?),
        Kind::Later | Kind::Other => return None,
    };
    Some(Inside {
        address,
        port,
        protocol,
    })
}

/// The UE's own end of the mapping by which the packet has come that an error quotes.
#[cold]
fn inside_of_quoted(Quoted { ends, protocol }: Quoted) -> Option<Inside> {
    Some(Inside {
        address: ends.destination,
        port: ends.destination_port,
        protocol: Protocol::of(protocol)?,
    })
}
