//! IPv6 (RFC 8200): header, extension headers and what a router changes.

use core::net::Ipv6Addr;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::{DropReason, Fragment};

/// Octets of the fixed header.
pub const HEADER_LEN: usize = 40;
/// Most extension headers that are walked over; a longer chain is dropped.
pub const MAX_EXTENSIONS: usize = 8;

/// Next Header values that are extension headers, or end the chain.
pub mod next_header {
    /// Hop-by-Hop Options, only behind the fixed header.
    pub const HOP_BY_HOP: u8 = 0;
    /// Routing.
    pub const ROUTING: u8 = 43;
    /// Fragment.
    pub const FRAGMENT: u8 = 44;
    /// Encapsulating Security Payload (RFC 4303): what follows is not readable.
    pub const ESP: u8 = 50;
    /// Authentication Header (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6.
    pub const ICMPV6: u8 = 58;
    /// No Next Header.
    pub const NONE: u8 = 59;
    /// Destination Options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}

/// The fixed header in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Version (6), traffic class (8 bits), flow label (20 bits).
    pub version_class_flow: U32,
    /// Octets behind the fixed header.
    pub payload_len: U16,
    /// Type of what follows.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// Source address.
    pub src: [u8; 16],
    /// Destination address.
    pub dst: [u8; 16],
}

/// What a new header is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source address.
    pub src: Ipv6Addr,
    /// Destination address.
    pub dst: Ipv6Addr,
    /// Type of the payload.
    pub next_header: u8,
    /// Hop limit.
    pub hop_limit: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// Flow label, 20 bits; higher bits are cut off.
    pub flow_label: u32,
}

impl Fields {
    /// The header of a packet with `payload_len` octets behind it; `None` when that is above 65,535.
    pub fn header(&self, payload_len: usize) -> Option<Header> {
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        Some(Header {
            version_class_flow: U32::new(first),
            payload_len: U16::new(u16::try_from(payload_len).ok()?),
            next_header: self.next_header,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        })
    }
}

/// Whether a chain continues behind this type. AH and ESP end it, as they do in IPv4: filters name them by their number
/// and SPI.
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        next_header::HOP_BY_HOP
            | next_header::ROUTING
            | next_header::FRAGMENT
            | next_header::DESTINATION_OPTIONS
    )
}

/// Where a chain of extension headers ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UpperLayer {
    /// Type of the header that ends the chain. Behind a fragment that is not the first, the type that the fragment
    /// header names.
    pub proto: u8,
    /// Its octet, from the start of the IP header. Behind such a fragment, the octet where its data starts.
    pub offset: u16,
    /// Whether the packet is a fragment. One that is whole (offset 0, no more) is none (RFC 6946).
    pub fragment: Fragment,
}

impl UpperLayer {
    /// What is there when the fixed header names a type that is no extension header.
    #[inline]
    pub const fn behind_fixed_header(proto: u8) -> Self {
        Self {
            proto,
            offset: HEADER_LEN as u16,
            fragment: Fragment::None,
        }
    }
}

/// Walks over the extension headers of the packet that starts with the fixed header at `bytes[0]` and has
/// `total_len` octets, of which `bytes` may hold fewer.
///
/// # Errors
/// [`DropReason::TruncatedIpv6`], [`DropReason::Ipv6ExtensionChain`].
#[inline(never)]
pub fn upper_layer(bytes: &[u8], total_len: usize) -> Result<UpperLayer, DropReason> {
    let bytes = bytes.get(..total_len.min(bytes.len())).unwrap_or_default();
    let mut proto = *bytes.get(6).ok_or(DropReason::TruncatedIpv6)?;
    let mut offset = HEADER_LEN;
    let mut fragment = Fragment::None;
    for place in 0..=MAX_EXTENSIONS {
        if !is_extension(proto) || fragment == Fragment::Later {
            let offset = u16::try_from(offset).map_err(|_| DropReason::Ipv6ExtensionChain)?;
            return Ok(UpperLayer {
                proto,
                offset,
                fragment,
            });
        }
        let header = bytes.get(offset..).and_then(|rest| rest.first_chunk::<8>());
        let header = header.ok_or(DropReason::Ipv6ExtensionChain)?;
        if proto == next_header::HOP_BY_HOP && place > 0 {
            break;
        }
        let mut len = 8 + 8 * usize::from(header[1]);
        if proto == next_header::FRAGMENT {
            fragment = fragment.max(fragment_kind(header));
            len = 8;
        }
        proto = header[0];
        offset += len;
        if offset > total_len {
            break;
        }
    }
    Err(DropReason::Ipv6ExtensionChain)
}

/// The identification in the fragment header of the packet at the start of `bytes`: the first such header of the
/// chain. `None` when it has none, or `bytes` ends before.
pub fn fragment_id(bytes: &[u8]) -> Option<u32> {
    let mut next = *bytes.get(6)?;
    let mut offset = HEADER_LEN;
    for _ in 0..=MAX_EXTENSIONS {
        let header = bytes.get(offset..)?.first_chunk::<8>()?;
        let [_, _, _, _, a, b, c, d] = *header;
        match next {
            next_header::FRAGMENT => return Some(u32::from_be_bytes([a, b, c, d])),
            _ if is_extension(next) => offset += 8 + 8 * usize::from(header[1]),
            _ => return None,
        }
        next = header[0];
    }
    None
}

/// What the fragment header says.
fn fragment_kind(header: &[u8; 8]) -> Fragment {
    let field = u16::from_be_bytes([header[2], header[3]]);
    match (field & 0xfff8, field & 1) {
        (0, 0) => Fragment::None,
        (0, _) => Fragment::First,
        _ => Fragment::Later,
    }
}

/// Takes one from the hop limit (RFC 8200 §3).
///
/// # Errors
/// [`DropReason::TtlExpired`] when nothing would be left (the packet is not changed),
/// [`DropReason::TruncatedIpv6`].
#[inline]
pub fn decrement_hop_limit(packet: &mut [u8]) -> Result<(), DropReason> {
    let hop_limit = packet.get_mut(7).ok_or(DropReason::TruncatedIpv6)?;
    if *hop_limit <= 1 {
        return Err(DropReason::TtlExpired);
    }
    *hop_limit -= 1;
    Ok(())
}

/// Replaces the DSCP (the upper six bits of the traffic class; ECN stays).
///
/// # Errors
/// [`DropReason::TruncatedIpv6`].
#[inline]
pub fn set_dscp(packet: &mut [u8], dscp: u8) -> Result<(), DropReason> {
    let start = packet.first_chunk_mut::<2>().ok_or(DropReason::TruncatedIpv6)?;
    start[0] = start[0] & 0xf0 | dscp >> 2 & 0x0f;
    start[1] = start[1] & 0x3f | dscp << 6;
    Ok(())
}

/// Replaces the two bits of ECN (RFC 3168 §5).
///
/// # Errors
/// [`DropReason::TruncatedIpv6`].
pub fn set_ecn(packet: &mut [u8], ecn: u8) -> Result<(), DropReason> {
    let start = packet.first_chunk_mut::<2>().ok_or(DropReason::TruncatedIpv6)?;
    start[1] = start[1] & !0x30 | (ecn & 0x03) << 4;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(next_header: u8) -> Fields {
        Fields {
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            next_header,
            hop_limit: 64,
            traffic_class: 0xb9,
            flow_label: 0xabcde,
        }
    }

    fn packet(first: u8, rest: &[u8]) -> Vec<u8> {
        let header = fields(first).header(rest.len()).expect("short enough");
        [header.as_bytes(), rest].concat()
    }

    fn walk(first: u8, rest: &[u8]) -> Result<UpperLayer, DropReason> {
        let packet = packet(first, rest);
        upper_layer(&packet, packet.len())
    }

    #[test]
    fn the_identification_is_found_behind_other_headers() {
        let mut packet = [0; 40 + 16 + 8];
        (packet[0], packet[6]) = (0x60, next_header::HOP_BY_HOP);
        (packet[40], packet[41]) = (next_header::FRAGMENT, 1);
        packet[56..].copy_from_slice(&[17, 0, 0, 1, 1, 2, 3, 4]);
        assert_eq!(fragment_id(&packet), Some(0x0102_0304));
        assert_eq!(fragment_id(&packet[..63]), None);
        packet[40] = 17;
        assert_eq!(fragment_id(&packet), None);
    }

    #[test]
    fn fields_to_octets_to_fields() {
        let octets = packet(17, &[]);
        assert_eq!(octets[..8], [0x6b, 0x9a, 0xbc, 0xde, 0, 0, 17, 64]);
        assert_eq!(
            Header::read_from_bytes(&octets).unwrap(),
            fields(17).header(0).unwrap()
        );
        assert!(fields(17).header(65_536).is_none());
    }

    #[test]
    fn a_chain_is_walked_to_the_upper_layer() {
        let chain = [
            &[60, 0, 1, 4, 0, 0, 0, 0][..],                     // hop-by-hop
            &[43, 1, 1, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], // destination options, 16 octets
            &[17, 0, 4, 0, 0, 0, 0, 0],                         // routing
            &[0; 8],                                            // UDP
        ]
        .concat();
        let end = UpperLayer {
            proto: 17,
            offset: 72,
            fragment: Fragment::None,
        };
        assert_eq!(walk(0, &chain), Ok(end));
        assert_eq!(
            walk(50, &[0; 8]),
            Ok(UpperLayer {
                proto: 50,
                offset: 40,
                fragment: Fragment::None
            })
        );
        assert_eq!(
            walk(51, &[6; 24]),
            Ok(UpperLayer {
                proto: 51,
                offset: 40,
                fragment: Fragment::None
            })
        );
    }

    #[test]
    fn fragments_are_distinguished() {
        let end = |fragment| {
            Ok(UpperLayer {
                proto: 6,
                offset: 48,
                fragment,
            })
        };
        assert_eq!(walk(44, &[6, 0, 0, 0, 1, 2, 3, 4]), end(Fragment::None));
        assert_eq!(walk(44, &[6, 99, 0, 1, 1, 2, 3, 4]), end(Fragment::First));
        assert_eq!(walk(44, &[6, 0, 0, 8, 1, 2, 3, 4]), end(Fragment::Later));
        let later = Ok(UpperLayer {
            proto: 60,
            offset: 48,
            fragment: Fragment::Later,
        });
        assert_eq!(walk(44, &[60, 0, 1, 0, 1, 2, 3, 4, 0xff]), later);
    }

    #[test]
    fn chains_that_overrun_loop_or_are_out_of_order() {
        let broken = Err(DropReason::Ipv6ExtensionChain);
        assert_eq!(walk(0, &[]), broken);
        assert_eq!(walk(0, &[17, 1, 0, 0, 0, 0, 0, 0]), broken);
        assert_eq!(
            walk(60, &[0, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0]),
            broken
        );
        assert_eq!(walk(60, &[60, 0, 0, 0, 0, 0, 0, 0].repeat(9)), broken);
        let eight = [[60, 0, 0, 0, 0, 0, 0, 0].repeat(7), vec![59, 0, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(
            walk(60, &eight),
            Ok(UpperLayer {
                proto: 59,
                offset: 104,
                fragment: Fragment::None
            })
        );
        assert_eq!(upper_layer(&[0x60; 6], 40), Err(DropReason::TruncatedIpv6));
    }

    #[test]
    fn a_router_changes_hop_limit_and_dscp_only() {
        let mut octets = packet(17, &[]);
        assert_eq!(decrement_hop_limit(&mut octets), Ok(()));
        assert_eq!(set_dscp(&mut octets, 0b01_0110), Ok(()));
        assert_eq!(octets[..8], [0x65, 0x9a, 0xbc, 0xde, 0, 0, 17, 63]);
        octets[7] = 1;
        assert_eq!(decrement_hop_limit(&mut octets), Err(DropReason::TtlExpired));
        assert_eq!(decrement_hop_limit(&mut []), Err(DropReason::TruncatedIpv6));
        assert_eq!(set_dscp(&mut [0x60], 0), Err(DropReason::TruncatedIpv6));
    }
}
