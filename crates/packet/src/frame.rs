//! A received frame, taken apart into offsets and fields: what the worker's parse stage and the interpreter share.
//!
//! Either in one call ([`parse`]) or in steps ([`L2::parse`], [`IpFrame::parse`], [`GtpuFrame::parse`]), so that the
//! caller decides in between by port, VLAN and local address. A frame holds no references: the packet may be changed
//! while it is kept. UDP checksums are verified by [`GtpuFrame::verify_udp_checksum`], where the NIC did not.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::eth::{L2, Vlan, ether_type};
use crate::gtpu::{self, ExtensionType, Message, MessageType, Unknown};
use crate::tuple::proto;
use crate::{Addrs, DropReason, Fragment, IpTuple, Qfi, Teid, psc, udp};

/// A received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frame {
    /// ARP, at this offset.
    Arp {
        /// Octets before the ARP packet.
        l2_len: u16,
        /// Tags.
        vlan: Option<Vlan>,
    },
    /// GTP-U to an address that the caller accepts it on.
    Gtpu(GtpuFrame),
    /// IP of any other kind.
    Ip(IpFrame),
    /// Neither IP nor ARP: the EtherType, or an IEEE 802.3 length below 0x0600.
    Other(u16),
}

/// An IP packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpFrame {
    /// Octets before the IP header.
    pub l2_len: u16,
    /// Tags.
    pub vlan: Option<Vlan>,
    /// What its headers say.
    pub tuple: IpTuple,
}

/// What is kept of the headers around a GTP-U message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OuterIp {
    /// Addresses.
    pub addrs: Addrs,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Octet of the UDP header from the start of the IP header.
    pub l4_offset: u16,
}

/// A GTP-U message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpuFrame {
    /// Octets before the outer IP header.
    pub l2_len: u16,
    /// Tags.
    pub vlan: Option<Vlan>,
    /// The outer IP and UDP headers.
    pub outer: OuterIp,
    /// Message type.
    pub message_type: MessageType,
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// Sequence number, when S is set.
    pub sequence: Option<u16>,
    /// Octets before the GTP-U header, from the start of the frame.
    pub gtpu_offset: u16,
    /// Octets before the user packet or the information elements, from the start of the frame.
    pub payload_offset: u16,
    /// Octets of the user packet or of the information elements.
    pub payload_len: u16,
    /// The QoS flow, from the PDU Session Container.
    pub qfi: Option<Qfi>,
    /// What else the PDU Session Container says.
    pub psc: Option<psc::Summary>,
    /// Whether there are extension headers besides one PDU Session Container.
    pub has_other_extensions: bool,
    /// Which kinds of unknown extension headers there are.
    pub unknown: Unknown,
}

/// Takes the frame in `bytes` apart. `len` is the length of the whole frame, of which `bytes` holds at least the
/// headers. A whole UDP datagram to port 2152 is read as GTP-U when `is_gtpu` says so of its outer headers, usually
/// by their destination address.
///
/// The checksum of an (outer) IPv4 header is verified; what is inside a tunnel is left to [`parse_inner`].
///
/// # Errors
/// The reasons for malformed Ethernet, IPv4, IPv6, UDP, GTP-U and PDU Session Container.
#[inline]
pub fn parse(bytes: &[u8], len: usize, is_gtpu: impl FnOnce(&IpTuple) -> bool) -> Result<Frame, DropReason> {
    let l2 = L2::parse(bytes)?;
    // One way for each family and none for both: what is read stays in registers until the frame is written.
    match l2.ether_type {
        ether_type::IPV4 => take_apart(bytes, IpFrame::parse_v4(bytes, len, &l2)?, is_gtpu),
        ether_type::IPV6 => take_apart(bytes, IpFrame::parse_v6(bytes, len, &l2)?, is_gtpu),
        ether_type::ARP => Ok(Frame::Arp {
            l2_len: l2.len,
            vlan: l2.vlan,
        }),
        other => Ok(Frame::Other(other)),
    }
}

#[inline(always)]
fn take_apart(
    bytes: &[u8],
    ip: IpFrame,
    is_gtpu: impl FnOnce(&IpTuple) -> bool,
) -> Result<Frame, DropReason> {
    if ip.may_be_gtpu() && is_gtpu(&ip.tuple) {
        return Ok(Frame::Gtpu(GtpuFrame::parse(bytes, &ip)?));
    }
    Ok(Frame::Ip(ip))
}

/// Reads the user packet of a G-PDU, and verifies its header checksum where it is IPv4, as a router does.
///
/// # Errors
/// [`DropReason::EmptyTunnelPayload`], [`DropReason::UnknownInnerProtocol`] and the reasons for malformed IPv4, IPv6
/// and transport headers.
#[inline(always)]
pub fn parse_inner(bytes: &[u8], gtpu: &GtpuFrame) -> Result<IpTuple, DropReason> {
    let inner = bytes.get(usize::from(gtpu.payload_offset)..).unwrap_or_default();
    let len = usize::from(gtpu.payload_len);
    if len == 0 {
        return Err(DropReason::EmptyTunnelPayload);
    }
    match inner.first() {
        Some(0x40..=0x4f) => IpTuple::parse_verified_v4(inner, len),
        Some(0x60..=0x6f) => parse_inner_v6(inner, len),
        Some(_) => Err(DropReason::UnknownInnerProtocol),
        None => Err(DropReason::EmptyTunnelPayload),
    }
}

/// Out of line, so that the more frequent family stays in registers.
#[inline(never)]
fn parse_inner_v6(inner: &[u8], len: usize) -> Result<IpTuple, DropReason> {
    IpTuple::parse_v6(inner, len)
}

impl IpFrame {
    /// Reads the IP packet behind `l2`, whose EtherType says IPv4 or IPv6. `len` is the length of the whole frame.
    ///
    /// # Errors
    /// The reasons for malformed IPv4, IPv6 and transport headers.
    #[inline]
    pub fn parse(bytes: &[u8], len: usize, l2: &L2) -> Result<Self, DropReason> {
        if l2.ether_type == ether_type::IPV4 {
            Self::parse_v4(bytes, len, l2)
        } else {
            Self::parse_v6(bytes, len, l2)
        }
    }

    /// As [`parse`](Self::parse), of EtherType IPv4.
    ///
    /// # Errors
    /// The reasons for malformed IPv4 and transport headers.
    #[inline(always)]
    pub fn parse_v4(bytes: &[u8], len: usize, l2: &L2) -> Result<Self, DropReason> {
        let ip = bytes.get(usize::from(l2.len)..).unwrap_or_default();
        let tuple = IpTuple::parse_verified_v4(ip, len.saturating_sub(l2.len.into()))?;
        Ok(Self {
            l2_len: l2.len,
            vlan: l2.vlan,
            tuple,
        })
    }

    /// As [`parse`](Self::parse), of EtherType IPv6.
    ///
    /// # Errors
    /// The reasons for malformed IPv6 and transport headers.
    #[inline(always)]
    pub fn parse_v6(bytes: &[u8], len: usize, l2: &L2) -> Result<Self, DropReason> {
        let ip = bytes.get(usize::from(l2.len)..).unwrap_or_default();
        verify_version_6(ip)?;
        let tuple = IpTuple::parse_v6(ip, len.saturating_sub(l2.len.into()))?;
        Ok(Self {
            l2_len: l2.len,
            vlan: l2.vlan,
            tuple,
        })
    }

    /// Whether this is a whole UDP datagram to port 2152.
    #[inline]
    pub fn may_be_gtpu(&self) -> bool {
        self.tuple.dst_port == gtpu::PORT
            && self.tuple.proto == proto::UDP
            && self.tuple.fragment == Fragment::None
    }

    /// Octets before the IP header.
    #[inline]
    pub const fn ip_offset(&self) -> usize {
        self.l2_len as usize
    }

    /// Octets before the transport header, from the start of the frame.
    #[inline]
    pub const fn l4_offset(&self) -> usize {
        self.l2_len as usize + self.tuple.l4_offset as usize
    }
}

#[inline]
fn verify_version_6(ip: &[u8]) -> Result<(), DropReason> {
    match ip.first() {
        Some(0x60..=0x6f) => Ok(()),
        Some(_) => Err(DropReason::BadIpv6Header),
        None => Err(DropReason::TruncatedIpv6),
    }
}

/// What nearly every tunnelled packet has behind its outer IP header: UDP, GTP-U, and either one short PDU Session
/// Container or 8 octets that already belong to the user packet.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct TunnelStart {
    udp: udp::Header,
    gtpu: gtpu::Header,
    optional: gtpu::OptionalFields,
    container: [u8; 4],
}

impl TunnelStart {
    /// Octets of the GTP-U header with one short container.
    const WITH_CONTAINER: usize = gtpu::HEADER_LEN + gtpu::OPTIONAL_LEN + 4;

    /// The tunnel, when the start has one of the two common forms.
    #[inline(always)]
    fn tunnel(&self, available: usize) -> Option<Tunnel> {
        let (udp_len, gtpu_len) = (
            usize::from(self.udp.len.get()),
            usize::from(self.gtpu.length.get()),
        );
        if udp_len > available || udp::HEADER_LEN + gtpu::HEADER_LEN + gtpu_len > udp_len {
            return None;
        }
        if self.gtpu.flags == gtpu::flags::VERSION_1 {
            return Some(Tunnel::of_one(&self.gtpu, gtpu::HEADER_LEN, gtpu_len, None));
        }
        let [units, first, second, next] = self.container;
        let is_short = self.gtpu.flags == gtpu::flags::VERSION_1 | gtpu::flags::E
            && self.optional.next_extension == ExtensionType::PDU_SESSION_CONTAINER.0
            && (units, next) == (1, ExtensionType::NONE.0)
            && gtpu_len >= Self::WITH_CONTAINER - gtpu::HEADER_LEN;
        let container = if is_short {
            psc::Summary::of_short(first, second)
        } else {
            None
        };
        let payload_len = gtpu_len.wrapping_sub(Self::WITH_CONTAINER - gtpu::HEADER_LEN);
        container
            .map(|container| Tunnel::of_one(&self.gtpu, Self::WITH_CONTAINER, payload_len, Some(container)))
    }
}

/// What is read of the GTP-U header and its extensions: offsets count from the GTP-U header.
struct Tunnel {
    message_type: MessageType,
    teid: Teid,
    payload_offset: usize,
    payload_len: usize,
    sequence: Option<u16>,
    container: Option<(Qfi, psc::Summary)>,
    has_other_extensions: bool,
    unknown: Unknown,
}

impl GtpuFrame {
    /// Reads GTP-U in `ip`, a UDP datagram for which [`IpFrame::may_be_gtpu`] is true.
    ///
    /// # Errors
    /// [`DropReason::BadUdpLength`] and the reasons for malformed GTP-U and PDU Session Container.
    #[inline(always)]
    pub fn parse(bytes: &[u8], ip: &IpFrame) -> Result<Self, DropReason> {
        let (udp_offset, available) = (ip.l4_offset(), ip.tuple.l4_len());
        let datagram = bytes.get(udp_offset..).unwrap_or_default();
        let common = TunnelStart::ref_from_prefix(datagram).ok();
        let tunnel = match common.and_then(|(start, _)| start.tunnel(available)) {
            Some(tunnel) => tunnel,
            None => Tunnel::parse(datagram, available)?,
        };
        let gtpu_offset = udp_offset + udp::HEADER_LEN;
        let payload_offset = gtpu_offset + tunnel.payload_offset;
        if payload_offset > usize::from(u16::MAX) {
            return Err(DropReason::BadIpLength);
        }
        let IpTuple {
            addrs,
            src_port,
            dst_port,
            tos,
            ttl,
            l4_offset,
            ..
        } = ip.tuple;
        Ok(Self {
            l2_len: ip.l2_len,
            vlan: ip.vlan,
            outer: OuterIp {
                addrs,
                src_port,
                dst_port,
                tos,
                ttl,
                l4_offset,
            },
            message_type: tunnel.message_type,
            teid: tunnel.teid,
            sequence: tunnel.sequence,
            gtpu_offset: gtpu_offset as u16,
            payload_offset: payload_offset as u16,
            payload_len: tunnel.payload_len as u16,
            qfi: tunnel.container.map(|(qfi, _)| qfi),
            psc: tunnel.container.map(|(_, summary)| summary),
            has_other_extensions: tunnel.has_other_extensions,
            unknown: tunnel.unknown,
        })
    }

    /// Whether a relay has to copy more than a PDU Session Container, with
    /// [`relay_optional_part`](crate::build::relay_optional_part).
    #[inline]
    pub const fn has_more_to_relay(&self) -> bool {
        self.has_other_extensions || self.sequence.is_some()
    }

    /// The optional part of the header and the extension headers, as they were received: empty when there are none.
    pub fn optional_part<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let start = usize::from(self.gtpu_offset) + gtpu::HEADER_LEN;
        bytes
            .get(start..usize::from(self.payload_offset))
            .unwrap_or_default()
    }

    /// The whole message, for what this frame does not hold: extension headers and information elements.
    ///
    /// # Errors
    /// As [`Message::parse`]; none for the octets that this frame was read from.
    pub fn message<'a>(&self, bytes: &'a [u8]) -> Result<Message<'a>, DropReason> {
        let gtpu = bytes.get(usize::from(self.gtpu_offset)..).unwrap_or_default();
        let headers = usize::from(self.payload_offset - self.gtpu_offset);
        Message::parse(gtpu, headers + usize::from(self.payload_len))
    }

    /// Verifies the UDP checksum of the outer headers over the whole datagram. `rest` is the sum of what follows
    /// `bytes` in a chained buffer. A checksum of zero is right over IPv4, and over IPv6 only with `zero_over_ipv6`
    /// (RFC 6935, RFC 6936).
    ///
    /// # Errors
    /// [`DropReason::BadUdpChecksum`].
    pub fn verify_udp_checksum(
        &self,
        bytes: &[u8],
        rest: Sum,
        zero_over_ipv6: bool,
    ) -> Result<(), DropReason> {
        let udp_offset = usize::from(self.gtpu_offset) - udp::HEADER_LEN;
        let datagram = bytes.get(udp_offset..).unwrap_or_default();
        udp::verify_checksum(&self.outer.addrs, datagram, rest, zero_over_ipv6)
    }

    /// Where to the answer to this message goes and where it comes from: the outer addresses swapped.
    #[inline]
    pub const fn reply_addrs(&self) -> Addrs {
        match self.outer.addrs {
            Addrs::V4 { src, dst } => Addrs::V4 { src: dst, dst: src },
            Addrs::V6 { src, dst } => Addrs::V6 { src: dst, dst: src },
        }
    }
}

impl Tunnel {
    /// With this container and nothing else that is optional.
    #[inline(always)]
    const fn of_one(
        header: &gtpu::Header,
        payload_offset: usize,
        payload_len: usize,
        container: Option<(Qfi, psc::Summary)>,
    ) -> Self {
        Self {
            message_type: MessageType(header.message_type),
            teid: Teid(header.teid.get()),
            payload_offset,
            payload_len,
            sequence: None,
            container,
            has_other_extensions: false,
            unknown: Unknown::NONE,
        }
    }

    /// Any form, in a UDP datagram of which the IP packet has `available` octets.
    #[inline(never)]
    fn parse(datagram: &[u8], available: usize) -> Result<Self, DropReason> {
        let udp_len = udp::announced_len(datagram, available)?;
        let message = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
        let message = Message::parse(message, udp_len - udp::HEADER_LEN)?;
        let container = message.extensions.find(ExtensionType::PDU_SESSION_CONTAINER);
        let container = container.map(psc::Summary::parse).transpose()?;
        let extensions = message.extensions.iter().count();
        Ok(Self {
            message_type: message.message_type,
            teid: message.teid,
            payload_offset: message.payload_offset,
            payload_len: message.payload_len,
            sequence: message.sequence,
            container,
            has_other_extensions: extensions > usize::from(container.is_some()),
            unknown: message.extensions.unknown(),
        })
    }
}
