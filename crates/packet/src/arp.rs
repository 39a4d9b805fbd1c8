//! ARP for IPv4 over Ethernet (RFC 826).

use core::net::Ipv4Addr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DropReason, MacAddr};

/// Octets of an ARP packet for IPv4 over Ethernet.
pub const LEN: usize = 28;

/// An ARP packet in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Packet {
    /// Hardware type: 1 is Ethernet.
    pub hardware: U16,
    /// Protocol type: 0x0800 is IPv4.
    pub protocol: U16,
    /// Octets of a hardware address: 6.
    pub hardware_len: u8,
    /// Octets of a protocol address: 4.
    pub protocol_len: u8,
    /// 1 is a request, 2 a reply.
    pub operation: U16,
    /// The sender's MAC address.
    pub sender_mac: MacAddr,
    /// The sender's IPv4 address; 0.0.0.0 in a probe (RFC 5227).
    pub sender_ip: [u8; 4],
    /// The target's MAC address; of no meaning in a request.
    pub target_mac: MacAddr,
    /// The target's IPv4 address.
    pub target_ip: [u8; 4],
}

impl Packet {
    /// Operation of a request.
    pub const REQUEST: u16 = 1;
    /// Operation of a reply.
    pub const REPLY: u16 = 2;

    /// Reads and verifies the packet at the start of `bytes`; what follows is padding.
    ///
    /// # Errors
    /// [`DropReason::TruncatedArp`]; [`DropReason::BadArp`] for other types, sizes and operations, and for a sender
    /// that is no station.
    pub fn parse(bytes: &[u8]) -> Result<&Self, DropReason> {
        let (packet, _) = Self::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedArp)?;
        let form = (
            packet.hardware.get(),
            packet.protocol.get(),
            packet.hardware_len,
            packet.protocol_len,
        );
        let known = matches!(packet.operation.get(), Self::REQUEST | Self::REPLY);
        if form != (1, 0x0800, 6, 4) || !known || !packet.sender_mac.is_station() {
            return Err(DropReason::BadArp);
        }
        Ok(packet)
    }

    /// A request for the MAC address of `target`.
    pub const fn request(sender_mac: MacAddr, sender: Ipv4Addr, target: Ipv4Addr) -> Self {
        Self::new(
            Self::REQUEST,
            sender_mac,
            sender.octets(),
            MacAddr::ZERO,
            target.octets(),
        )
    }

    /// The reply to this request, from the node with the MAC address `mac`.
    pub const fn reply(&self, mac: MacAddr) -> Self {
        Self::new(Self::REPLY, mac, self.target_ip, self.sender_mac, self.sender_ip)
    }

    const fn new(
        operation: u16,
        sender_mac: MacAddr,
        sender_ip: [u8; 4],
        target_mac: MacAddr,
        target_ip: [u8; 4],
    ) -> Self {
        Self {
            hardware: U16::from_bytes([0, 1]),
            protocol: U16::from_bytes([8, 0]),
            hardware_len: 6,
            protocol_len: 4,
            operation: U16::from_bytes(operation.to_be_bytes()),
            sender_mac,
            sender_ip,
            target_mac,
            target_ip,
        }
    }

    /// Whether the sender asks.
    pub fn is_request(&self) -> bool {
        self.operation.get() == Self::REQUEST
    }

    /// The sender's address.
    pub const fn sender(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.sender_ip)
    }

    /// The target's address.
    pub const fn target(&self) -> Ipv4Addr {
        Ipv4Addr::from_octets(self.target_ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
    const OWNER: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);

    fn request() -> Packet {
        Packet::request(ASKER, Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2))
    }

    #[test]
    fn a_request_and_its_reply() {
        let octets = [
            0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2,
        ];
        assert_eq!(request().as_bytes(), octets);
        let padded = [&octets[..], &[0; 18]].concat();
        assert_eq!(Packet::parse(&padded), Ok(&request()));
        let reply = request().reply(OWNER);
        let octets = [
            0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 2, 0, 0, 0, 0, 1, 10, 0, 0, 1,
        ];
        assert_eq!(reply.as_bytes(), octets);
        assert_eq!(Packet::parse(&octets), Ok(&reply));
        assert!(request().is_request() && !reply.is_request());
        assert_eq!(
            (reply.sender(), reply.target()),
            (request().target(), request().sender())
        );
    }

    #[test]
    fn each_defect_has_its_reason() {
        let octets = request();
        assert_eq!(
            Packet::parse(&octets.as_bytes()[..27]),
            Err(DropReason::TruncatedArp)
        );
        for (at, value) in [(1, 2), (2, 9), (4, 7), (5, 16), (7, 3), (8, 1)] {
            let mut bad = octets;
            bad.as_mut_bytes()[at] = value;
            assert_eq!(
                Packet::parse(bad.as_bytes()),
                Err(DropReason::BadArp),
                "octet {at}"
            );
        }
    }
}
