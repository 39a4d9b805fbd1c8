//! The fields of an IP packet that rules, flow keys and routing read: one pass, by value.
//!
//! [`IpTuple::parse`] is on the way of every packet, twice for tunnelled ones. The common case (IPv4 without options,
//! IPv6 without extension headers, UDP or TCP) has no loop and no call.

use core::net::IpAddr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::fragment::Fragment;
use crate::{DropReason, checksum, ipv4, ipv6, martian};

/// Protocol numbers that have a meaning here (the IANA registry has the rest).
pub mod proto {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// Generic routing encapsulation.
    pub const GRE: u8 = 47;
    /// DCCP.
    pub const DCCP: u8 = 33;
    /// Encapsulating Security Payload.
    pub const ESP: u8 = 50;
    /// Authentication Header.
    pub const AH: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// UDP-Lite.
    pub const UDP_LITE: u8 = 136;
}

/// Source and destination address, both of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addrs {
    /// IPv4.
    V4 {
        /// Source.
        src: [u8; 4],
        /// Destination.
        dst: [u8; 4],
    },
    /// IPv6.
    V6 {
        /// Source.
        src: [u8; 16],
        /// Destination.
        dst: [u8; 16],
    },
}

impl Addrs {
    /// The source address.
    #[inline]
    pub fn src(&self) -> IpAddr {
        match *self {
            Addrs::V4 { src, .. } => src.into(),
            Addrs::V6 { src, .. } => src.into(),
        }
    }

    /// The destination address.
    #[inline]
    pub fn dst(&self) -> IpAddr {
        match *self {
            Addrs::V4 { dst, .. } => dst.into(),
            Addrs::V6 { dst, .. } => dst.into(),
        }
    }

    /// Whether the packet is IPv4.
    #[inline]
    pub const fn is_v4(&self) -> bool {
        matches!(self, Addrs::V4 { .. })
    }

    /// Whether no packet may come from the source address.
    #[inline]
    pub fn has_martian_source(&self) -> bool {
        match *self {
            Addrs::V4 { src, .. } => martian::is_martian_v4(src),
            Addrs::V6 { src, .. } => martian::is_martian_v6(src),
        }
    }

    /// Whether no router may pass on a packet from the source address.
    #[inline]
    pub fn has_unforwardable_source(&self) -> bool {
        match *self {
            Addrs::V4 { src, .. } => martian::is_unforwardable_v4(src),
            Addrs::V6 { src, .. } => martian::is_unforwardable_v6(src),
        }
    }

    /// Whether no router may pass on a packet to the destination address, unless a multicast route says so.
    #[inline]
    pub fn has_unforwardable_destination(&self) -> bool {
        match *self {
            Addrs::V4 { dst, .. } => martian::is_unforwardable_v4(dst),
            Addrs::V6 { dst, .. } => martian::is_unforwardable_v6(dst),
        }
    }
}

/// What an IP packet's headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IpTuple {
    /// Addresses.
    pub addrs: Addrs,
    /// Protocol, or the type that ends the IPv6 extension chain. AH and ESP are named as such, in both families.
    pub proto: u8,
    /// Source port of TCP, UDP, UDP-Lite, SCTP and DCCP; else 0, as in fragments behind the first.
    pub src_port: u16,
    /// Destination port, likewise.
    pub dst_port: u16,
    /// DSCP (6 bits) and ECN (2 bits): the TOS or traffic class.
    pub tos: u8,
    /// IPv6 flow label, 20 bits; 0 in IPv4.
    pub flow_label: u32,
    /// SPI of ESP or AH; else 0.
    pub spi: u32,
    /// Whether the packet is a fragment.
    pub fragment: Fragment,
    /// Octet of the transport header from the start of the IP header.
    pub l4_offset: u16,
    /// Octets of the packet as its header says, the fixed IPv6 header included.
    pub total_len: u16,
    /// TTL or hop limit.
    pub ttl: u8,
}

impl IpTuple {
    /// The same with the two ends exchanged: what goes back.
    #[must_use]
    pub fn reversed(&self) -> IpTuple {
        let addrs = match self.addrs {
            Addrs::V4 { src, dst } => Addrs::V4 { src: dst, dst: src },
            Addrs::V6 { src, dst } => Addrs::V6 { src: dst, dst: src },
        };
        IpTuple {
            addrs,
            src_port: self.dst_port,
            dst_port: self.src_port,
            ..*self
        }
    }

    /// Reads the packet that starts at `bytes[0]` with its IP header. `available_total` is how many octets were
    /// received from there on, of which `bytes` holds at least the headers; octets behind the IP length are padding.
    /// The IPv4 header checksum is not looked at: [`ipv4::verify_header`] does that.
    ///
    /// # Errors
    /// [`EmptyTunnelPayload`](DropReason::EmptyTunnelPayload) when there are no octets,
    /// [`UnknownInnerProtocol`](DropReason::UnknownInnerProtocol) when the version is neither 4 nor 6, and the
    /// reasons for malformed IPv4, IPv6 and transport headers.
    #[inline(always)]
    pub fn parse(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
        match bytes.first() {
            Some(0x40..=0x4f) => Self::parse_v4(bytes, available_total),
            Some(0x60..=0x6f) => Self::parse_v6(bytes, available_total),
            Some(_) => Err(DropReason::UnknownInnerProtocol),
            None => Err(DropReason::EmptyTunnelPayload),
        }
    }

    /// As [`parse`](Self::parse), for a packet whose version is known to be 4.
    ///
    /// # Errors
    /// The reasons for malformed IPv4 and transport headers.
    #[inline(always)]
    pub fn parse_v4(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
        let (header, _) = ipv4::Header::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedIpv4)?;
        let l4 = match Start::<ipv4::Header>::ref_from_prefix(bytes) {
            Ok((start, _)) if start.is_common(available_total) => start.l4(),
            _ => L4::behind_v4(bytes, available_total)?,
        };
        Ok(header.tuple(l4))
    }

    /// The same, and the header checksum and options are verified, as a router does (RFC 1812 §5.2.2).
    ///
    /// # Errors
    /// The reasons for malformed IPv4 and transport headers, and [`DropReason::BadIpv4Checksum`].
    #[inline(always)]
    pub fn parse_verified_v4(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
        let (header, _) = ipv4::Header::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedIpv4)?;
        let l4 = match Start::<ipv4::Header>::ref_from_prefix(bytes) {
            Ok((start, _)) if start.is_common(available_total) && start.has_right_checksum() => start.l4(),
            _ => L4::behind_verified_v4(bytes, available_total)?,
        };
        Ok(header.tuple(l4))
    }

    /// As [`parse`](Self::parse), for a packet whose version is known to be 6.
    ///
    /// # Errors
    /// The reasons for malformed IPv6 and transport headers.
    #[inline(always)]
    pub fn parse_v6(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
        let (header, _) = ipv6::Header::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedIpv6)?;
        let l4 = match Start::<ipv6::Header>::ref_from_prefix(bytes) {
            Ok((start, _)) if start.is_common(available_total) => start.l4(),
            _ => L4::behind_v6(bytes, available_total)?,
        };
        Ok(header.tuple(l4))
    }

    /// What fragments of one datagram have in common beside their addresses (RFC 791 §3.2, RFC 8200 §4.5): the
    /// identification, of the IP packet at the start of `bytes`. `None` when it has none, or `bytes` ends before.
    pub fn fragment_id(bytes: &[u8]) -> Option<u32> {
        match bytes.first()? >> 4 {
            4 => {
                let (header, _) = ipv4::Header::ref_from_prefix(bytes).ok()?;
                Some(header.id.get().into())
            }
            6 => ipv6::fragment_id(bytes),
            _ => None,
        }
    }

    /// Octets of the packet behind the IP headers.
    #[inline]
    pub const fn l4_len(&self) -> usize {
        self.total_len as usize - self.l4_offset as usize
    }
}

/// What nearly every packet starts with: an IP header without options or extension headers, and eight octets of UDP
/// or TCP. One comparison of lengths, and every field is at a constant place.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Start<Ip> {
    ip: Ip,
    src_port: U16,
    dst_port: U16,
    _rest: [u8; 4],
}

impl Start<ipv4::Header> {
    /// The tuple of a whole UDP datagram or TCP segment without IP options, whose header checksum is right; `None` for
    /// anything else.
    #[inline(always)]
    pub(crate) fn common_tuple(&self, available_total: usize) -> Option<IpTuple> {
        let is_right = self.is_common(available_total) && self.has_right_checksum();
        is_right.then(|| self.ip.tuple(self.l4()))
    }

    /// Whether this is the whole start of a whole UDP datagram or TCP segment.
    #[inline(always)]
    fn is_common(&self, available_total: usize) -> bool {
        let total_len = usize::from(self.ip.total_len.get());
        let fragment = self.ip.fragment.get() & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET);
        self.ip.version_ihl == 0x45
            && fragment == 0
            && total_len >= ipv4::HEADER_LEN + L4::common_len(self.ip.proto)
            && total_len <= available_total
    }

    #[inline(always)]
    fn has_right_checksum(&self) -> bool {
        checksum::is_right_20(zerocopy::transmute_ref!(&self.ip))
    }

    #[inline(always)]
    fn l4(&self) -> L4 {
        let ports = (self.src_port.get(), self.dst_port.get());
        L4::common(self.ip.proto, ipv4::HEADER_LEN as u16, ports)
    }
}

impl Start<ipv6::Header> {
    /// Whether this is the whole start of a whole UDP datagram or TCP segment.
    #[inline(always)]
    fn is_common(&self, available_total: usize) -> bool {
        let total_len = self.ip.total_len();
        total_len >= ipv6::HEADER_LEN + L4::common_len(self.ip.next_header)
            && total_len <= available_total.min(usize::from(u16::MAX))
    }

    #[inline(always)]
    fn l4(&self) -> L4 {
        let ports = (self.src_port.get(), self.dst_port.get());
        L4::common(self.ip.next_header, ipv6::HEADER_LEN as u16, ports)
    }
}

impl ipv4::Header {
    #[inline(always)]
    fn tuple(&self, l4: L4) -> IpTuple {
        IpTuple {
            addrs: Addrs::V4 {
                src: self.src,
                dst: self.dst,
            },
            proto: l4.proto,
            src_port: l4.src_port,
            dst_port: l4.dst_port,
            tos: self.tos,
            flow_label: 0,
            spi: l4.spi,
            fragment: l4.fragment,
            l4_offset: l4.offset,
            total_len: self.total_len.get(),
            ttl: self.ttl,
        }
    }
}

impl ipv6::Header {
    /// Octets of the packet, the fixed header included.
    #[inline(always)]
    fn total_len(&self) -> usize {
        usize::from(self.payload_len.get()) + ipv6::HEADER_LEN
    }

    /// The tuple of a packet that is known to be no longer than 65,535 octets.
    #[inline(always)]
    fn tuple(&self, l4: L4) -> IpTuple {
        let first = self.version_class_flow.get();
        IpTuple {
            addrs: Addrs::V6 {
                src: self.src,
                dst: self.dst,
            },
            proto: l4.proto,
            src_port: l4.src_port,
            dst_port: l4.dst_port,
            tos: (first >> 20) as u8,
            flow_label: first & 0xf_ffff,
            spi: l4.spi,
            fragment: l4.fragment,
            l4_offset: l4.offset,
            total_len: self.total_len() as u16,
            ttl: self.hop_limit,
        }
    }
}

fn v4_fragment(field: u16) -> Fragment {
    if field & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) == 0 {
        Fragment::None
    } else if field & ipv4::FRAGMENT_OFFSET == 0 {
        Fragment::First
    } else {
        Fragment::Later
    }
}

/// What is read behind the IP header. Small, so that it is returned from the uncommon cases by value and the tuple is
/// written in one place: a tuple that is copied right after it was written costs more than all of its parsing.
#[derive(Clone, Copy)]
pub(crate) struct L4 {
    proto: u8,
    fragment: Fragment,
    offset: u16,
    src_port: u16,
    dst_port: u16,
    spi: u32,
}

impl L4 {
    #[inline(always)]
    const fn common(proto: u8, offset: u16, (src_port, dst_port): (u16, u16)) -> Self {
        Self {
            proto,
            fragment: Fragment::None,
            offset,
            src_port,
            dst_port,
            spi: 0,
        }
    }

    /// The least octets of a whole UDP datagram or TCP segment; more than any packet has for other protocols.
    #[inline(always)]
    pub(crate) const fn common_len(proto: u8) -> usize {
        match proto {
            proto::UDP => 8,
            proto::TCP => 20,
            _ => usize::MAX >> 1,
        }
    }

    #[inline(never)]
    fn behind_verified_v4(bytes: &[u8], available_total: usize) -> Result<Self, DropReason> {
        ipv4::verify_header(bytes)?;
        Self::behind_v4(bytes, available_total)
    }

    #[inline(never)]
    fn behind_v4(bytes: &[u8], available_total: usize) -> Result<Self, DropReason> {
        let (header, _) = ipv4::Header::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedIpv4)?;
        let offset = ipv4::header_len(header.version_ihl)?;
        let total_len = usize::from(header.total_len.get());
        if total_len < offset || total_len > available_total {
            return Err(DropReason::BadIpLength);
        }
        let fragment = v4_fragment(header.fragment.get());
        let nothing = Self {
            fragment,
            ..Self::common(header.proto, offset as u16, (0, 0))
        };
        nothing.read(bytes, total_len)
    }

    #[inline(never)]
    fn behind_v6(bytes: &[u8], available_total: usize) -> Result<Self, DropReason> {
        let (header, _) = ipv6::Header::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedIpv6)?;
        let total_len = header.total_len();
        if total_len > available_total || total_len > usize::from(u16::MAX) {
            return Err(DropReason::BadIpLength);
        }
        let ipv6::UpperLayer {
            proto,
            offset,
            fragment,
        } = ipv6::upper_layer(bytes, total_len)?;
        let nothing = Self {
            fragment,
            ..Self::common(proto, offset, (0, 0))
        };
        nothing.read(bytes, total_len)
    }

    /// Reads the transport header. The first fragment has at least 8 octets of it (RFC 791 §3.2), the others none.
    fn read(self, bytes: &[u8], total_len: usize) -> Result<Self, DropReason> {
        let len = total_len - usize::from(self.offset);
        let tcp_len = if self.fragment == Fragment::None { 20 } else { 8 };
        let reason = DropReason::TruncatedTransport;
        match self.proto {
            _ if self.fragment == Fragment::Later => Ok(self),
            proto::UDP => self.read_ports(bytes, len >= 8, DropReason::TruncatedUdp),
            proto::TCP => self.read_ports(bytes, len >= tcp_len, DropReason::TruncatedTcp),
            proto::SCTP | proto::DCCP | proto::UDP_LITE => self.read_ports(bytes, len >= 8, reason),
            proto::ESP => self.read_spi(bytes, len >= 8, 0),
            proto::AH => self.read_spi(bytes, len >= 12, 4),
            _ => Ok(self),
        }
    }

    fn read_ports(self, bytes: &[u8], is_whole: bool, reason: DropReason) -> Result<Self, DropReason> {
        let ports = bytes
            .get(usize::from(self.offset)..)
            .and_then(|rest| rest.first_chunk::<4>());
        match ports {
            Some(&[s0, s1, d0, d1]) if is_whole => {
                let (src_port, dst_port) = (u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1]));
                Ok(Self {
                    src_port,
                    dst_port,
                    ..self
                })
            }
            _ => Err(reason),
        }
    }

    fn read_spi(self, bytes: &[u8], is_whole: bool, at: usize) -> Result<Self, DropReason> {
        let spi = bytes
            .get(usize::from(self.offset) + at..)
            .and_then(|rest| rest.first_chunk::<4>());
        match spi {
            Some(spi) if is_whole => Ok(Self {
                spi: u32::from_be_bytes(*spi),
                ..self
            }),
            _ => Err(DropReason::TruncatedTransport),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4000) })]

        /// The shortcut for the common case says what the general parser says.
        #[test]
        fn the_common_case_is_no_special_case(
            mut bytes in prop::collection::vec(any::<u8>(), 0..80), first in prop::sample::select(vec![0x45u8, 0x60, 0x46]),
            proto in prop::sample::select(vec![6u8, 17, 1, 50]), len in 0..100u16, whole: bool, right: bool, more in 0..20usize,
        ) {
            let mut set = |at: usize, value: u8| if let Some(octet) = bytes.get_mut(at) { *octet = value };
            let (v6, [high, low]) = (first == 0x60, len.to_be_bytes());
            set(0, first);
            set(if v6 { 6 } else { 9 }, proto);
            set(if v6 { 4 } else { 2 }, high);
            set(if v6 { 5 } else { 3 }, low);
            if whole && !v6 {
                set(6, 0x40);
                set(7, 0);
            }
            if right && !v6 && let Some(header) = bytes.first_chunk_mut::<20>() {
                header[10..12].fill(0);
                let sum = checksum::of(header);
                header[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            let available = bytes.len() + more;
            if v6 {
                let any = L4::behind_v6(&bytes, available);
                let any = any.map(|l4| ipv6::Header::ref_from_prefix(&bytes).unwrap().0.tuple(l4));
                prop_assert_eq!(IpTuple::parse_v6(&bytes, available), any);
            } else {
                let tuple = |l4| ipv4::Header::ref_from_prefix(&bytes).unwrap().0.tuple(l4);
                let any = L4::behind_v4(&bytes, available).map(tuple);
                prop_assert_eq!(IpTuple::parse_v4(&bytes, available), any);
                let any = L4::behind_verified_v4(&bytes, available).map(tuple);
                prop_assert_eq!(IpTuple::parse_verified_v4(&bytes, available), any);
            }
        }
    }
}
