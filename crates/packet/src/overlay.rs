//! Frames in tunnels of their own, towards who analyses copies of traffic: GRE (RFC 2784, RFC 2890) with Ethernet in it
//! (RFC 7637 §3.2 has the EtherType), and VXLAN (RFC 7348).
//!
//! Only what is sent: nothing of it is ever received.

use zerocopy::IntoBytes;

use crate::tuple::proto;
use crate::{Addrs, ipv4, ipv6, own_ip_header, udp};

/// VXLAN's port (RFC 7348 §5).
pub const VXLAN_PORT: u16 = 4789;
/// The greatest VXLAN network identifier: 24 bits.
pub const MOST_VNI: u32 = 0x00ff_ffff;

/// What GRE says of the frame in it: transparent Ethernet bridging.
const BRIDGING: u16 = 0x6558;
/// The key is there (RFC 2890 §2).
const KEY_PRESENT: u16 = 0x2000;
/// VXLAN's flag I: the identifier is valid; and 24 reserved bits.
const VNI_VALID: u32 = 0x0800_0000;

/// A tunnel for frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlay {
    /// GRE, perhaps with a key.
    Gre {
        /// The key.
        key: Option<u32>,
    },
    /// VXLAN with this network identifier, 0..=[`MOST_VNI`].
    Vxlan {
        /// The identifier.
        vni: u32,
    },
}

impl Overlay {
    /// The most octets before the frame: IPv6, UDP, VXLAN.
    pub const MAX_LEN: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + 8;

    /// Octets between the Ethernet header and the frame that is carried, over IPv4 or IPv6.
    #[must_use]
    pub const fn len(self, is_v4: bool) -> usize {
        let ip = if is_v4 { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
        ip + match self {
            Self::Gre { key: None } => 4,
            Self::Gre { key: Some(_) } => 8,
            Self::Vxlan { .. } => udp::HEADER_LEN + 8,
        }
    }

    /// Writes these octets to the start of `out`, for a frame of `payload` octets, and gives how many they are. VXLAN's
    /// UDP source port comes of `flow`, so that routers on the way may spread flows (RFC 7348 §5); its UDP checksum is
    /// 0 (the same, and RFC 6935). IPv4 packets may not be fragmented.
    ///
    /// `None` when the packet would be longer than 65,535 octets, or `out` is shorter than that.
    pub fn write(self, out: &mut [u8], addrs: &Addrs, payload: usize, flow: u16) -> Option<usize> {
        let ip = own_ip_header::len(addrs);
        let len = self.len(addrs.is_v4());
        let out = out.get_mut(..len)?;
        let (head, rest) = out.split_at_mut_checked(ip)?;
        let behind = rest.len() + payload;
        match self {
            Self::Gre { key } => {
                let flags = if key.is_some() { KEY_PRESENT } else { 0 };
                rest.get_mut(..4)?
                    .copy_from_slice(&(u32::from(flags) << 16 | u32::from(BRIDGING)).to_be_bytes());
                if let Some(key) = key {
                    rest.get_mut(4..)?.copy_from_slice(&key.to_be_bytes());
                }
            }
            Self::Vxlan { vni } => {
                let header = udp::Header::new(0xc000 | flow, VXLAN_PORT, 8 + payload)?;
                rest.get_mut(..8)?.copy_from_slice(header.as_bytes());
                rest.get_mut(8..12)?.copy_from_slice(&VNI_VALID.to_be_bytes());
                rest.get_mut(12..)?
                    .copy_from_slice(&((vni & MOST_VNI) << 8).to_be_bytes());
            }
        }
        let proto = match self {
            Self::Gre { .. } => proto::GRE,
            Self::Vxlan { .. } => proto::UDP,
        };
        own_ip_header::write(head, addrs, proto, behind)?;
        Some(len)
    }
}

#[cfg(test)]
mod tests {
    use core::net::{Ipv4Addr, Ipv6Addr};

    use super::*;
    use crate::build::packet;

    fn written(overlay: Overlay, addrs: &Addrs, frame: &[u8]) -> Vec<u8> {
        let mut out = [0; Overlay::MAX_LEN];
        let len = overlay
            .write(&mut out, addrs, frame.len(), 0x1234)
            .expect("it fits");
        [&out[..len], frame].concat()
    }

    #[test]
    fn gre_carries_ethernet_with_or_without_a_key() {
        let addrs: Addrs = (Ipv4Addr::new(192, 0, 2, 1), Ipv4Addr::new(192, 0, 2, 9)).into();
        let frame = [7; 60];
        let plain = written(Overlay::Gre { key: None }, &addrs, &frame);
        assert_eq!(plain[20..24], [0, 0, 0x65, 0x58]);
        assert_eq!((plain.len(), plain[9], plain[6] & 0x40), (20 + 4 + 60, 47, 0x40));
        assert_eq!(u16::from_be_bytes([plain[2], plain[3]]), 84);
        let keyed = written(
            Overlay::Gre {
                key: Some(0x0102_0304),
            },
            &addrs,
            &frame,
        );
        assert_eq!(keyed[20..28], [0x20, 0, 0x65, 0x58, 1, 2, 3, 4]);
        assert_eq!(keyed[28..], frame);
    }

    #[test]
    fn vxlan_is_udp_without_a_checksum() {
        let addrs: Addrs = (Ipv6Addr::LOCALHOST, "2001:db8::9".parse::<Ipv6Addr>().unwrap()).into();
        let packet = written(Overlay::Vxlan { vni: 0xabcdef }, &addrs, &[1, 2, 3]);
        assert_eq!(packet[40..48], [0xd2, 0x34, 0x12, 0xb5, 0, 19, 0, 0]);
        assert_eq!(packet[48..56], [8, 0, 0, 0, 0xab, 0xcd, 0xef, 0]);
        assert_eq!(packet[4..7], [0, 19, 17]);
        // The IP header is as that of other packets of this node.
        let other = packet::udp(
            "[::1]:53812".parse().unwrap(),
            "[2001:db8::9]:4789".parse().unwrap(),
            &packet[48..],
        );
        assert_eq!(other.unwrap()[..46], packet[..46]);
        let mut out = [0; Overlay::MAX_LEN];
        assert_eq!(Overlay::Vxlan { vni: 1 }.write(&mut out, &addrs, 65_530, 0), None);
        assert_eq!(
            Overlay::Vxlan { vni: 1 }.write(&mut out[..50], &addrs, 5, 0),
            None
        );
    }
}
