//! ICMP for IPv4 (RFC 792) and IPv6 (RFC 4443), and Neighbour Discovery (RFC 4861): what a router answers itself.

use core::net::Ipv6Addr;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::tuple::proto;
use crate::udp::pseudo_header;
use crate::{Addrs, DropReason, Fragment, IpTuple, MacAddr, checksum, ipv4, ipv6};

/// Octets of the header that all messages here have.
pub const HEADER_LEN: usize = 8;

/// Types of ICMP for IPv4.
pub mod v4_type {
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 12;
    /// Timestamp.
    pub const TIMESTAMP: u8 = 13;
    /// Timestamp reply.
    pub const TIMESTAMP_REPLY: u8 = 14;
    /// Code of [`UNREACHABLE`]: fragmentation needed; the MTU is in the last 16 bits (RFC 1191).
    pub const CODE_FRAGMENTATION_NEEDED: u8 = 4;
    /// Code of [`UNREACHABLE`]: communication administratively prohibited (RFC 1812 §5.2.7.1).
    pub const CODE_PROHIBITED: u8 = 13;
}

/// Types of ICMP for IPv6.
pub mod v6_type {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Code of [`UNREACHABLE`]: communication administratively prohibited (RFC 4443 §3.1).
    pub const CODE_PROHIBITED: u8 = 1;
    /// Packet too big; the MTU is in the last 32 bits.
    pub const PACKET_TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Parameter problem.
    pub const PARAMETER_PROBLEM: u8 = 4;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Echo reply.
    pub const ECHO_REPLY: u8 = 129;
    /// Router Solicitation.
    pub const ROUTER_SOLICITATION: u8 = 133;
    /// Router Advertisement.
    pub const ROUTER_ADVERTISEMENT: u8 = 134;
    /// Neighbour Solicitation.
    pub const NEIGHBOUR_SOLICITATION: u8 = 135;
    /// Neighbour Advertisement.
    pub const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
}

/// The header of an ICMP message in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Type.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// Checksum over the message; for IPv6 over a pseudo header too.
    pub checksum: U16,
    /// Depends on the type: identifier and sequence number, an MTU, a pointer, flags.
    pub rest: U32,
}

impl Header {
    /// The header of a whole message, whose checksum is verified.
    ///
    /// # Errors
    /// [`DropReason::TruncatedIcmp`], [`DropReason::BadIcmp`].
    pub fn parse<'a>(addrs: &Addrs, message: &'a [u8]) -> Result<&'a Self, DropReason> {
        let (header, _) = Self::ref_from_prefix(message).map_err(|_| DropReason::TruncatedIcmp)?;
        if !covered(addrs, message).is_some_and(Sum::is_right) {
            return Err(DropReason::BadIcmp);
        }
        Ok(header)
    }

    /// A header whose checksum is to be filled in.
    pub fn new(kind: u8, code: u8, rest: u32) -> Self {
        Self {
            kind,
            code,
            checksum: U16::ZERO,
            rest: U32::new(rest),
        }
    }

    /// Identifier and sequence number of an echo message.
    pub fn echo(&self) -> EchoId {
        EchoId {
            identifier: (self.rest.get() >> 16) as u16,
            sequence: self.rest.get() as u16,
        }
    }
}

/// Identifies an echo message (RFC 792, RFC 4443 §4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchoId {
    /// Identifier.
    pub identifier: u16,
    /// Sequence number.
    pub sequence: u16,
}

/// What the checksum of a message covers; `None` when it is longer than 65,535 octets.
fn covered(addrs: &Addrs, message: &[u8]) -> Option<Sum> {
    let len = u16::try_from(message.len()).ok()?;
    let start = if addrs.is_v4() {
        Default::default()
    } else {
        pseudo_header(addrs, proto::ICMPV6, len)
    };
    Some(start.bytes(message))
}

/// Writes the checksum into a whole message. `None` when it is shorter than a header or too long.
pub fn fill_checksum(addrs: &Addrs, message: &mut [u8]) -> Option<()> {
    let (header, _) = Header::mut_from_prefix(message).ok()?;
    header.checksum = U16::ZERO;
    let checksum = covered(addrs, message)?.checksum();
    let (header, _) = Header::mut_from_prefix(message).ok()?;
    header.checksum = U16::new(checksum);
    Some(())
}

/// Whether the packet is a whole echo request, so that [`echo_reply_in_place`] answers it.
#[inline]
pub fn is_echo_request(packet: &[u8], tuple: &IpTuple) -> bool {
    let kind = match (tuple.proto, tuple.addrs.is_v4()) {
        (proto::ICMP, true) => v4_type::ECHO_REQUEST,
        (proto::ICMPV6, false) => v6_type::ECHO_REQUEST,
        _ => return false,
    };
    tuple.fragment == Fragment::None
        && tuple.l4_len() >= HEADER_LEN
        && packet.get(usize::from(tuple.l4_offset)) == Some(&kind)
}

/// Turns the echo request that starts with its IP header at `packet[0]` into its reply: addresses swapped, type
/// changed, TTL 64, checksums updated. A wrong checksum stays wrong, so that the asker finds it.
///
/// # Errors
/// [`DropReason::TruncatedIcmp`] when it is no whole echo request (nothing is changed).
pub fn echo_reply_in_place(packet: &mut [u8], tuple: &IpTuple) -> Result<(), DropReason> {
    const TTL: u8 = 64;
    let truncated = DropReason::TruncatedIcmp;
    if !is_echo_request(packet, tuple) {
        return Err(truncated);
    }
    let (ip, message) = packet
        .split_at_mut_checked(usize::from(tuple.l4_offset))
        .ok_or(truncated)?;
    let (icmp, _) = Header::mut_from_prefix(message).map_err(|_| truncated)?;
    if tuple.addrs.is_v4() {
        let (header, _) = ipv4::Header::mut_from_prefix(ip).map_err(|_| truncated)?;
        core::mem::swap(&mut header.src, &mut header.dst);
        let ttl = |ttl: u8| u16::from(ttl) << 8;
        let sum = checksum::update_word(header.checksum.get(), ttl(header.ttl), ttl(TTL));
        header.checksum = U16::new(sum);
        header.ttl = TTL;
        set_kind(icmp, v4_type::ECHO_REPLY);
    } else {
        let (header, _) = ipv6::Header::mut_from_prefix(ip).map_err(|_| truncated)?;
        core::mem::swap(&mut header.src, &mut header.dst);
        header.hop_limit = TTL;
        set_kind(icmp, v6_type::ECHO_REPLY);
    }
    Ok(())
}

fn set_kind(icmp: &mut Header, kind: u8) {
    let word = |kind: u8| u16::from(kind) << 8;
    icmp.checksum = U16::new(checksum::update_word(
        icmp.checksum.get(),
        word(icmp.kind),
        word(kind),
    ));
    icmp.kind = kind;
}

/// An error about a packet that could not be forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpError {
    /// Type, of the family of the packet that it is about.
    pub kind: u8,
    /// Code.
    pub code: u8,
    /// The last 32 bits of the header: an MTU, a pointer, or 0.
    pub rest: u32,
}

impl IcmpError {
    /// The TTL of an IPv4 packet ran out.
    pub const TTL_EXPIRED_V4: Self = Self {
        kind: v4_type::TIME_EXCEEDED,
        code: 0,
        rest: 0,
    };
    /// The hop limit of an IPv6 packet ran out.
    pub const HOP_LIMIT_EXPIRED_V6: Self = Self {
        kind: v6_type::TIME_EXCEEDED,
        code: 0,
        rest: 0,
    };

    /// An IPv4 packet is administratively prohibited.
    pub const PROHIBITED_V4: Self = Self {
        kind: v4_type::UNREACHABLE,
        code: v4_type::CODE_PROHIBITED,
        rest: 0,
    };
    /// An IPv6 packet is administratively prohibited.
    pub const PROHIBITED_V6: Self = Self {
        kind: v6_type::UNREACHABLE,
        code: v6_type::CODE_PROHIBITED,
        rest: 0,
    };

    /// An IPv4 packet with "don't fragment" is longer than `mtu` (RFC 1191 §4).
    pub const fn fragmentation_needed_v4(mtu: u16) -> Self {
        let code = v4_type::CODE_FRAGMENTATION_NEEDED;
        Self {
            kind: v4_type::UNREACHABLE,
            code,
            rest: mtu as u32,
        }
    }

    /// An IPv6 packet is longer than `mtu` (RFC 4443 §3.2).
    pub const fn packet_too_big_v6(mtu: u32) -> Self {
        Self {
            kind: v6_type::PACKET_TOO_BIG,
            code: 0,
            rest: mtu,
        }
    }

    /// Writes the whole IP packet that carries this error from `src` to the sender of `original`, which starts with
    /// its IP header, and gives its octets. As much of `original` is quoted as fits in 576 octets (RFC 1812 §4.3.2.3)
    /// or 1280 (RFC 4443 §3.1).
    ///
    /// `None` when `out` is too short, or when no error may be sent about such a packet: an ICMP error, a fragment
    /// but the first, a sender or destination that is no single node (RFC 1122 §3.2.2, RFC 4443 §2.4).
    pub fn write(
        &self,
        out: &mut [u8],
        src: core::net::IpAddr,
        original: &[u8],
        tuple: &IpTuple,
    ) -> Option<usize> {
        if !may_be_answered_with_an_error(original, tuple) {
            return None;
        }
        match (src, tuple.addrs) {
            (core::net::IpAddr::V4(src), Addrs::V4 { src: to, .. }) => {
                let addrs = Addrs::V4 {
                    src: src.octets(),
                    dst: to,
                };
                self.write_after::<{ ipv4::HEADER_LEN }>(out, &addrs, original, 576, |len| {
                    let (proto, dst) = (proto::ICMP, to.into());
                    let fields = ipv4::Fields {
                        src,
                        dst,
                        proto,
                        ttl: 64,
                        tos: 0,
                        id: 0,
                        dont_fragment: false,
                    };
                    fields.header(len)?.as_bytes().try_into().ok()
                })
            }
            (core::net::IpAddr::V6(src), Addrs::V6 { src: to, .. }) => {
                let addrs = Addrs::V6 {
                    src: src.octets(),
                    dst: to,
                };
                self.write_after::<{ ipv6::HEADER_LEN }>(out, &addrs, original, 1280, |len| {
                    v6_header(src, to.into(), 64, len)?.as_bytes().try_into().ok()
                })
            }
            _ => None,
        }
    }

    fn write_after<const IP: usize>(
        &self,
        out: &mut [u8],
        addrs: &Addrs,
        original: &[u8],
        most: usize,
        ip_header: impl FnOnce(usize) -> Option<[u8; IP]>,
    ) -> Option<usize> {
        let quoted = original.get(..original.len().min(most - IP - HEADER_LEN))?;
        let len = HEADER_LEN + quoted.len();
        let (ip, message) = out.get_mut(..IP + len)?.split_first_chunk_mut::<IP>()?;
        *ip = ip_header(len)?;
        let (header, quote) = message.split_at_mut_checked(HEADER_LEN)?;
        header.copy_from_slice(Header::new(self.kind, self.code, self.rest).as_bytes());
        quote.copy_from_slice(quoted);
        fill_checksum(addrs, message)?;
        Some(IP + len)
    }
}

fn may_be_answered_with_an_error(original: &[u8], tuple: &IpTuple) -> bool {
    let is_group = match tuple.addrs {
        Addrs::V4 { dst, .. } => dst[0] >= 224,
        Addrs::V6 { dst, .. } => dst[0] == 0xff,
    };
    let kind = original.get(usize::from(tuple.l4_offset)).copied().unwrap_or(0);
    let is_error = match tuple.proto {
        proto::ICMP => matches!(kind, 3..=5 | 11 | 12),
        proto::ICMPV6 => kind < 128,
        _ => false,
    };
    tuple.fragment != Fragment::Later && !is_group && !is_error && !tuple.addrs.has_martian_source()
}

fn v6_header(src: Ipv6Addr, dst: Ipv6Addr, hop_limit: u8, payload_len: usize) -> Option<ipv6::Header> {
    let next_header = proto::ICMPV6;
    ipv6::Fields {
        src,
        dst,
        next_header,
        hop_limit,
        traffic_class: 0,
        flow_label: 0,
    }
    .header(payload_len)
}

/// A Neighbour Solicitation or Advertisement (RFC 4861 §4.3, §4.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// Solicitation: false, advertisement: true.
    pub is_advertisement: bool,
    /// Router, solicited and override: the top three bits of an advertisement's flags.
    pub flags: u8,
    /// The address that is requested, or announced.
    pub target: Ipv6Addr,
    /// The source's (solicitation) or the target's (advertisement) MAC address, where the option is there.
    pub mac: Option<MacAddr>,
}

/// A Neighbour Discovery message without options, in wire format.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct NeighbourMessage {
    icmp: Header,
    target: [u8; 16],
}

impl Neighbour {
    /// Router flag.
    pub const ROUTER: u8 = 0x80;
    /// Solicited flag.
    pub const SOLICITED: u8 = 0x40;
    /// Override flag.
    pub const OVERRIDE: u8 = 0x20;
    /// Octets of the packets that [`write`](Self::write) makes, IPv6 header included.
    pub const PACKET_LEN: usize = ipv6::HEADER_LEN + size_of::<NeighbourMessage>() + OPTION_LEN;

    /// Reads the message in the packet that starts with its IPv6 header at `packet[0]`, and verifies all that
    /// RFC 4861 §7.1 asks for. `Ok(None)` when it is another ICMPv6 message.
    ///
    /// # Errors
    /// [`DropReason::TruncatedIcmp`], [`DropReason::BadIcmp`].
    pub fn parse(packet: &[u8], tuple: &IpTuple) -> Result<Option<Self>, DropReason> {
        let message = packet.get(usize::from(tuple.l4_offset)..usize::from(tuple.total_len));
        let message = message.ok_or(DropReason::TruncatedIcmp)?;
        let header = Header::parse(&tuple.addrs, message)?;
        let is_advertisement = match header.kind {
            v6_type::NEIGHBOUR_SOLICITATION => false,
            v6_type::NEIGHBOUR_ADVERTISEMENT => true,
            _ => return Ok(None),
        };
        let (whole, options) =
            NeighbourMessage::ref_from_prefix(message).map_err(|_| DropReason::TruncatedIcmp)?;
        let target = Ipv6Addr::from_octets(whole.target);
        if tuple.ttl != 255 || header.code != 0 || target.is_multicast() {
            return Err(DropReason::BadIcmp);
        }
        let wanted = if is_advertisement { TARGET_MAC } else { SOURCE_MAC };
        let mac = find_mac(options, wanted).ok_or(DropReason::BadIcmp)?;
        Ok(Some(Self {
            is_advertisement,
            flags: (header.rest.get() >> 24) as u8,
            target,
            mac,
        }))
    }

    /// The group that a solicitation for `target` goes to (RFC 4291 §2.7.1).
    pub const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
        let [.., a, b, c] = target.octets();
        Ipv6Addr::from_octets([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c])
    }

    /// The MAC address that a packet to an IPv6 group goes to (RFC 2464 §7).
    pub const fn multicast_mac(group: Ipv6Addr) -> MacAddr {
        let [.., a, b, c, d] = group.octets();
        MacAddr([0x33, 0x33, a, b, c, d])
    }

    /// Writes the whole IPv6 packet, with hop limit 255 and `mac` as its option, and gives its
    /// [`PACKET_LEN`](Self::PACKET_LEN) octets; `None` when `out` is shorter or there is no `mac`.
    pub fn write(&self, out: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) -> Option<usize> {
        let (kind, option) = match self.is_advertisement {
            true => (v6_type::NEIGHBOUR_ADVERTISEMENT, TARGET_MAC),
            false => (v6_type::NEIGHBOUR_SOLICITATION, SOURCE_MAC),
        };
        let icmp = Header::new(kind, 0, u32::from(self.flags) << 24);
        let message = NeighbourMessage {
            icmp,
            target: self.target.octets(),
        };
        let mac = self.mac?.0;
        let ip = v6_header(src, dst, 255, Self::PACKET_LEN - ipv6::HEADER_LEN)?;
        let parts = [ip.as_bytes(), message.as_bytes(), &[option, 1], &mac];
        let out = out.get_mut(..Self::PACKET_LEN)?;
        out.iter_mut()
            .zip(parts.into_iter().flatten())
            .for_each(|(octet, part)| *octet = *part);
        fill_checksum(&(src, dst).into(), out.get_mut(ipv6::HEADER_LEN..)?)?;
        Some(Self::PACKET_LEN)
    }
}

/// Source Link-Layer Address option.
const SOURCE_MAC: u8 = 1;
/// Target Link-Layer Address option.
const TARGET_MAC: u8 = 2;
/// Octets of either.
const OPTION_LEN: usize = 8;

/// The address in the first option of this kind: `Some(None)` when there is none, `None` when an option has length 0
/// or overruns the message.
fn find_mac(mut options: &[u8], wanted: u8) -> Option<Option<MacAddr>> {
    let mut found = None;
    while let Some(&kind) = options.first() {
        let len = 8 * usize::from(*options.get(1)?);
        if len == 0 {
            return None;
        }
        let (option, rest) = options.split_at_checked(len)?;
        if kind == wanted && found.is_none() {
            found = option
                .get(2..)
                .and_then(|mac| mac.first_chunk())
                .copied()
                .map(MacAddr);
        }
        options = rest;
    }
    Some(found)
}
