//! The fields of an IP packet that rules, flow keys and routing read: one pass, by value.
//!
//! [`IpTuple::parse`] is on the way of every packet, twice for tunnelled ones. The common case (IPv4 without options,
//! IPv6 without extension headers, UDP or TCP) has no loop and no call.

use core::net::IpAddr;

use crate::{DropReason, ipv4, ipv6};

/// Protocol numbers that have a meaning here (the IANA registry has the rest).
pub mod proto {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
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
            Addrs::V4 { src, .. } => ipv4::is_martian_source(src),
            Addrs::V6 { src, .. } => ipv6::is_martian_source(src),
        }
    }
}

/// Whether a packet is a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(u8)]
pub enum Fragment {
    /// Whole.
    #[default]
    None,
    /// The fragment with offset 0: it has the ports.
    First,
    /// Another fragment: it has no ports.
    Later,
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
    /// Reads the packet that starts at `bytes[0]` with its IP header. `available_total` is how many octets were
    /// received from there on, of which `bytes` holds at least the headers; octets behind the IP length are padding.
    /// The IPv4 header checksum is not looked at: [`ipv4::verify_header`] does that.
    ///
    /// # Errors
    /// [`EmptyTunnelPayload`](DropReason::EmptyTunnelPayload) when there are no octets,
    /// [`UnknownInnerProtocol`](DropReason::UnknownInnerProtocol) when the version is neither 4 nor 6, and the
    /// reasons for malformed IPv4, IPv6 and transport headers.
    #[inline]
    pub fn parse(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
        match bytes.first() {
            Some(0x45) => parse_v4(bytes, available_total, ipv4::HEADER_LEN),
            Some(0x60..=0x6f) => parse_v6(bytes, available_total),
            Some(&first) => parse_uncommon(bytes, available_total, first),
            None => Err(DropReason::EmptyTunnelPayload),
        }
    }

    /// Octets of the packet behind the IP headers.
    #[inline]
    pub const fn l4_len(&self) -> usize {
        self.total_len as usize - self.l4_offset as usize
    }
}

#[cold]
fn parse_uncommon(bytes: &[u8], available_total: usize, first: u8) -> Result<IpTuple, DropReason> {
    if first >> 4 != 4 {
        return Err(DropReason::UnknownInnerProtocol);
    }
    parse_v4(bytes, available_total, ipv4::header_len(first)?)
}

#[inline]
fn parse_v4(bytes: &[u8], available_total: usize, header_len: usize) -> Result<IpTuple, DropReason> {
    let header = bytes
        .first_chunk::<{ ipv4::HEADER_LEN }>()
        .ok_or(DropReason::TruncatedIpv4)?;
    let [
        _,
        tos,
        l0,
        l1,
        _,
        _,
        f0,
        f1,
        ttl,
        proto,
        _,
        _,
        s0,
        s1,
        s2,
        s3,
        d0,
        d1,
        d2,
        d3,
    ] = *header;
    let total_len = u16::from_be_bytes([l0, l1]);
    if usize::from(total_len) < header_len || usize::from(total_len) > available_total {
        return Err(DropReason::BadIpLength);
    }
    let mut tuple = IpTuple {
        addrs: Addrs::V4 {
            src: [s0, s1, s2, s3],
            dst: [d0, d1, d2, d3],
        },
        proto,
        src_port: 0,
        dst_port: 0,
        tos,
        flow_label: 0,
        spi: 0,
        fragment: v4_fragment(u16::from_be_bytes([f0, f1])),
        l4_offset: header_len as u16,
        total_len,
        ttl,
    };
    tuple.read_transport(bytes)?;
    Ok(tuple)
}

#[inline]
fn v4_fragment(field: u16) -> Fragment {
    if field & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) == 0 {
        Fragment::None
    } else if field & ipv4::FRAGMENT_OFFSET == 0 {
        Fragment::First
    } else {
        Fragment::Later
    }
}

#[inline]
fn parse_v6(bytes: &[u8], available_total: usize) -> Result<IpTuple, DropReason> {
    let header = bytes
        .first_chunk::<{ ipv6::HEADER_LEN }>()
        .ok_or(DropReason::TruncatedIpv6)?;
    let [c0, c1, c2, c3, l0, l1, next_header, hop_limit, addresses @ ..] = header;
    let (src, dst) = addresses.split_at(16);
    let (Ok(src), Ok(dst)) = (src.try_into(), dst.try_into()) else {
        return Err(DropReason::TruncatedIpv6);
    };
    let first = u32::from_be_bytes([*c0, *c1, *c2, *c3]);
    let total_len = usize::from(u16::from_be_bytes([*l0, *l1])) + ipv6::HEADER_LEN;
    if total_len > available_total || total_len > usize::from(u16::MAX) {
        return Err(DropReason::BadIpLength);
    }
    let mut tuple = IpTuple {
        addrs: Addrs::V6 { src, dst },
        proto: *next_header,
        src_port: 0,
        dst_port: 0,
        tos: (first >> 20) as u8,
        flow_label: first & 0xf_ffff,
        spi: 0,
        fragment: Fragment::None,
        l4_offset: ipv6::HEADER_LEN as u16,
        total_len: total_len as u16,
        ttl: *hop_limit,
    };
    if ipv6::is_extension(*next_header) {
        tuple.skip_extensions(bytes)?;
    }
    tuple.read_transport(bytes)?;
    Ok(tuple)
}

impl IpTuple {
    #[inline(never)]
    fn skip_extensions(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let end = ipv6::upper_layer(bytes, usize::from(self.total_len))?;
        self.proto = end.proto;
        self.l4_offset = end.offset;
        self.fragment = end.fragment;
        Ok(())
    }

    /// Reads the ports of UDP and TCP, and leaves the rest to [`Self::read_uncommon_transport`].
    #[inline]
    fn read_transport(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let (least, reason) = match self.proto {
            proto::UDP => (8, DropReason::TruncatedUdp),
            proto::TCP => (20, DropReason::TruncatedTcp),
            _ => return self.read_uncommon_transport(bytes),
        };
        if self.fragment != Fragment::None {
            return self.read_fragment_ports(bytes, reason);
        }
        self.read_ports(bytes, least, reason)
    }

    /// Reads the ports of a transport header of which the packet must hold `least` octets.
    #[inline]
    fn read_ports(&mut self, bytes: &[u8], least: usize, reason: DropReason) -> Result<(), DropReason> {
        if self.l4_len() < least {
            return Err(reason);
        }
        let offset = usize::from(self.l4_offset);
        let ports = bytes.get(offset..).and_then(|rest| rest.first_chunk::<4>());
        let &[s0, s1, d0, d1] = ports.ok_or(reason)?;
        self.src_port = u16::from_be_bytes([s0, s1]);
        self.dst_port = u16::from_be_bytes([d0, d1]);
        Ok(())
    }

    /// The first fragment has at least 8 octets of transport header (RFC 791 §3.2), the others have none.
    #[cold]
    fn read_fragment_ports(&mut self, bytes: &[u8], reason: DropReason) -> Result<(), DropReason> {
        match self.fragment {
            Fragment::Later => Ok(()),
            _ => self.read_ports(bytes, 8, reason),
        }
    }

    #[inline(never)]
    fn read_uncommon_transport(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let reason = DropReason::TruncatedTransport;
        if self.fragment == Fragment::Later {
            return Ok(());
        }
        match self.proto {
            proto::SCTP | proto::DCCP | proto::UDP_LITE => self.read_ports(bytes, 8, reason),
            proto::ESP => self.read_spi(bytes, 0),
            proto::AH => self.read_spi(bytes, 4),
            _ => Ok(()),
        }
    }

    /// Reads the SPI that lies `at` octets into the transport header.
    fn read_spi(&mut self, bytes: &[u8], at: usize) -> Result<(), DropReason> {
        let reason = DropReason::TruncatedTransport;
        if self.l4_len() < at + 8 {
            return Err(reason);
        }
        let start = usize::from(self.l4_offset) + at;
        let spi = bytes
            .get(start..)
            .and_then(|rest| rest.first_chunk::<4>())
            .ok_or(reason)?;
        self.spi = u32::from_be_bytes(*spi);
        Ok(())
    }
}
