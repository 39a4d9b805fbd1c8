//! A received frame, taken apart into offsets and fields: what the worker's parse stage and the interpreter share.
//!
//! Either in one call ([`parse`]) or in steps ([`L2::parse`], [`IpFrame::parse`], [`GtpuFrame::parse`]), so that the
//! caller decides in between by port, VLAN and local address. A frame holds no references: the packet may be changed
//! while it is kept. UDP checksums are verified by [`GtpuFrame::verify_udp_checksum`], where the NIC did not.

use crate::checksum::Sum;
use crate::eth::{L2, Vlan, ether_type};
use crate::gtpu::{self, ExtensionType, Message, MessageType, Unknown};
use crate::tuple::proto;
use crate::{Addrs, DropReason, Fragment, IpTuple, Qfi, Teid, ipv4, psc, udp};

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

/// A GTP-U message in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpuFrame {
    /// Octets before the outer IP header.
    pub l2_len: u16,
    /// Tags.
    pub vlan: Option<Vlan>,
    /// The outer IP and UDP headers. `l4_offset` is where UDP starts, from the outer IP header on.
    pub outer: IpTuple,
    /// Message type.
    pub message_type: MessageType,
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// Sequence number, when S is set.
    pub sequence: Option<u16>,
    /// N-PDU number, when PN is set.
    pub npdu: Option<u8>,
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
    match l2.ether_type {
        ether_type::IPV4 | ether_type::IPV6 => {}
        ether_type::ARP => {
            return Ok(Frame::Arp {
                l2_len: l2.len,
                vlan: l2.vlan,
            });
        }
        other => return Ok(Frame::Other(other)),
    }
    let ip = IpFrame::parse(bytes, len, &l2)?;
    if ip.may_be_gtpu() && is_gtpu(&ip.tuple) {
        return GtpuFrame::parse(bytes, &ip).map(Frame::Gtpu);
    }
    Ok(Frame::Ip(ip))
}

/// Reads the user packet of a G-PDU, and verifies its header checksum where it is IPv4, as a router does.
///
/// # Errors
/// [`DropReason::EmptyTunnelPayload`], [`DropReason::UnknownInnerProtocol`] and the reasons for malformed IPv4, IPv6
/// and transport headers.
#[inline]
pub fn parse_inner(bytes: &[u8], gtpu: &GtpuFrame) -> Result<IpTuple, DropReason> {
    let inner = bytes.get(usize::from(gtpu.payload_offset)..).unwrap_or_default();
    if gtpu.payload_len == 0 {
        return Err(DropReason::EmptyTunnelPayload);
    }
    let tuple = IpTuple::parse(inner, usize::from(gtpu.payload_len))?;
    if tuple.addrs.is_v4() {
        ipv4::verify_header(inner)?;
    }
    Ok(tuple)
}

impl IpFrame {
    /// Reads the IP packet behind `l2`, whose EtherType says IPv4 or IPv6. `len` is the length of the whole frame.
    ///
    /// # Errors
    /// The reasons for malformed IPv4, IPv6 and transport headers.
    #[inline]
    pub fn parse(bytes: &[u8], len: usize, l2: &L2) -> Result<Self, DropReason> {
        let ip = bytes.get(usize::from(l2.len)..).unwrap_or_default();
        let available = len.saturating_sub(usize::from(l2.len));
        if l2.ether_type == ether_type::IPV4 {
            ipv4::verify_header(ip)?;
        } else {
            verify_version_6(ip)?;
        }
        let tuple = IpTuple::parse(ip, available)?;
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

/// What is read of the GTP-U header and its extensions: offsets count from the GTP-U header.
struct Tunnel {
    payload_offset: usize,
    payload_len: usize,
    sequence: Option<u16>,
    npdu: Option<u8>,
    qfi: Option<Qfi>,
    psc: Option<psc::Summary>,
    has_other_extensions: bool,
    unknown: Unknown,
}

impl GtpuFrame {
    /// Reads GTP-U in `ip`, a UDP datagram for which [`IpFrame::may_be_gtpu`] is true.
    ///
    /// # Errors
    /// [`DropReason::BadUdpLength`] and the reasons for malformed GTP-U and PDU Session Container.
    #[inline]
    pub fn parse(bytes: &[u8], ip: &IpFrame) -> Result<Self, DropReason> {
        let udp_offset = ip.l4_offset();
        let datagram = bytes.get(udp_offset..).unwrap_or_default();
        let udp_len = udp::announced_len(datagram, ip.tuple.l4_len())?;
        let gtpu_offset = udp_offset + udp::HEADER_LEN;
        let gtpu = datagram.get(udp::HEADER_LEN..).unwrap_or_default();
        let available = udp_len - udp::HEADER_LEN;
        let header = gtpu
            .first_chunk::<{ gtpu::HEADER_LEN }>()
            .ok_or(DropReason::TruncatedGtpu)?;
        let &[flags, message_type, l0, l1, t0, t1, t2, t3] = header;
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        let tunnel = if flags == gtpu::flags::VERSION_1 && gtpu::HEADER_LEN + length <= available {
            Tunnel::bare(length)
        } else {
            Tunnel::parse(gtpu, available, flags, length)?
        };
        let offset = |at: usize| u16::try_from(at).map_err(|_| DropReason::BadIpLength);
        Ok(Self {
            l2_len: ip.l2_len,
            vlan: ip.vlan,
            outer: ip.tuple,
            message_type: MessageType(message_type),
            teid: Teid(u32::from_be_bytes([t0, t1, t2, t3])),
            sequence: tunnel.sequence,
            npdu: tunnel.npdu,
            gtpu_offset: offset(gtpu_offset)?,
            payload_offset: offset(gtpu_offset + tunnel.payload_offset)?,
            payload_len: tunnel.payload_len as u16,
            qfi: tunnel.qfi,
            psc: tunnel.psc,
            has_other_extensions: tunnel.has_other_extensions,
            unknown: tunnel.unknown,
        })
    }

    /// Whether a relay has to copy more than a PDU Session Container, with
    /// [`relay_optional_part`](crate::build::relay_optional_part).
    #[inline]
    pub const fn has_more_to_relay(&self) -> bool {
        self.has_other_extensions || self.sequence.is_some() || self.npdu.is_some()
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

    /// Verifies the UDP checksum of the outer headers over the whole datagram. `rest` is the sum of what lies behind
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
    #[inline]
    const fn bare(payload_len: usize) -> Self {
        Self {
            payload_offset: gtpu::HEADER_LEN,
            payload_len,
            sequence: None,
            npdu: None,
            qfi: None,
            psc: None,
            has_other_extensions: false,
            unknown: Unknown::NONE,
        }
    }

    /// A header with optional fields: the shortcut for one short PDU Session Container and nothing else, as N3 and N9
    /// have in every G-PDU.
    #[inline]
    fn parse(gtpu: &[u8], available: usize, flags: u8, length: usize) -> Result<Self, DropReason> {
        const LEN: usize = gtpu::HEADER_LEN + gtpu::OPTIONAL_LEN + 4;
        const PSC: u8 = ExtensionType::PDU_SESSION_CONTAINER.0;
        let short = gtpu.first_chunk::<LEN>();
        if let Some(&[_, _, _, _, _, _, _, _, _, _, _, PSC, 1, first, second, 0]) = short
            && flags == gtpu::flags::VERSION_1 | gtpu::flags::E
            && length >= LEN - gtpu::HEADER_LEN
            && gtpu::HEADER_LEN + length <= available
        {
            let (qfi, psc) = psc::Summary::parse(&[first, second])?;
            let payload_len = length - (LEN - gtpu::HEADER_LEN);
            return Ok(Self {
                payload_offset: LEN,
                qfi: Some(qfi),
                psc: Some(psc),
                ..Self::bare(payload_len)
            });
        }
        Self::parse_any(gtpu, available)
    }

    #[inline(never)]
    fn parse_any(gtpu: &[u8], available: usize) -> Result<Self, DropReason> {
        let message = Message::parse(gtpu, available)?;
        let container = message.extensions.find(ExtensionType::PDU_SESSION_CONTAINER);
        let container = container.map(psc::Summary::parse).transpose()?;
        let extensions = message.extensions.iter().count();
        Ok(Self {
            payload_offset: message.payload_offset,
            payload_len: message.payload_len,
            sequence: message.sequence,
            npdu: message.npdu,
            qfi: container.map(|(qfi, _)| qfi),
            psc: container.map(|(_, summary)| summary),
            has_other_extensions: extensions > usize::from(container.is_some()),
            unknown: message.extensions.unknown(),
        })
    }
}
