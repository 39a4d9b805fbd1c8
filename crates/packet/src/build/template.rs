//! The outer headers of a tunnel, made once and patched for each packet.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::{U16, U32};

use crate::checksum::{self, Sum};
use crate::gtpu::{self, ExtensionType, MessageType, flags};
use crate::psc::PduType;
use crate::tuple::proto;
use crate::{Addrs, DropReason, Ppi, Qfi, Teid, ipv4, ipv6, udp};

const GTPU_START_V4: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;
const GTPU_START_V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN;

/// Octets of a template with an IPv4 outer header: IPv4, UDP and the mandatory part of GTP-U.
pub const TEMPLATE4_LEN: usize = GTPU_START_V4 + gtpu::HEADER_LEN;
/// Octets of a template with an IPv6 outer header.
pub const TEMPLATE6_LEN: usize = GTPU_START_V6 + gtpu::HEADER_LEN;

/// What a tunnel's outer headers are made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GtpuEncap {
    /// This node's address and the peer's, of one family.
    pub addrs: Addrs,
    /// The peer's tunnel endpoint identifier.
    pub teid: Teid,
    /// UDP source port: any, and the same for one flow, so that the network may balance flows (TS 29.281 §4.4.2).
    pub src_port: u16,
    /// UDP destination port, [`gtpu::PORT`] unless the peer said otherwise.
    pub dst_port: u16,
    /// DSCP and ECN of the outer header.
    pub tos: u8,
    /// TTL or hop limit of the outer header.
    pub ttl: u8,
    /// Whether routers may not fragment the outer IPv4 packet. Then its identification may stay 0 (RFC 6864 §4.1).
    pub dont_fragment: bool,
}

impl GtpuEncap {
    /// A tunnel with the usual ports and TTL, DSCP 0, not to be fragmented.
    pub const fn new(addrs: Addrs, teid: Teid) -> Self {
        Self {
            addrs,
            teid,
            src_port: gtpu::PORT,
            dst_port: gtpu::PORT,
            tos: 0,
            ttl: 64,
            dont_fragment: true,
        }
    }

    /// The same between these addresses; `None` when they are of two families.
    pub const fn between(src: IpAddr, dst: IpAddr, teid: Teid) -> Option<Self> {
        Some(Self::new(
            match (src, dst) {
                (IpAddr::V4(src), IpAddr::V4(dst)) => Addrs::V4 {
                    src: src.octets(),
                    dst: dst.octets(),
                },
                (IpAddr::V6(src), IpAddr::V6(dst)) => Addrs::V6 {
                    src: src.octets(),
                    dst: dst.octets(),
                },
                _ => return None,
            },
            teid,
        ))
    }
}

/// A PDU Session Container as the packet path writes it (TS 38.415 §5.5.2): a QFI, and in the downlink the
/// indications that a QER gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Direction: [`PduType::Downlink`] towards the access network, [`PduType::Uplink`] on N9 towards the core.
    pub pdu_type: PduType,
    /// QoS flow.
    pub qfi: Qfi,
    /// Reflective QoS Indicator; only written in the downlink.
    pub rqi: bool,
    /// Paging Policy Indicator; only written in the downlink.
    pub ppi: Option<Ppi>,
}

impl Marking {
    /// A downlink container with nothing but a QFI.
    pub const fn downlink(qfi: Qfi) -> Self {
        Self {
            pdu_type: PduType::Downlink,
            qfi,
            rqi: false,
            ppi: None,
        }
    }

    /// An uplink container with nothing but a QFI.
    pub const fn uplink(qfi: Qfi) -> Self {
        Self {
            pdu_type: PduType::Uplink,
            qfi,
            rqi: false,
            ppi: None,
        }
    }

    /// Octets from the optional part of the GTP-U header to the end of the container: 8, or 12 with a PPI.
    #[inline]
    pub const fn len(&self) -> usize {
        match (self.pdu_type, self.ppi) {
            (PduType::Downlink, Some(_)) => 12,
            _ => 8,
        }
    }

    /// Never: a container has octets.
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Writes the [`len`](Self::len) octets to the start of `out`, which has them.
    #[inline(always)]
    fn write(&self, out: &mut [u8]) {
        let octets = self.octets();
        // Of constant length each: a copy of 8 or 12 octets and no call.
        if let Some(out) = out.first_chunk_mut::<12>() {
            *out = octets;
        } else if let (Some(out), Some(octets)) = (out.first_chunk_mut::<8>(), octets.first_chunk::<8>()) {
            *out = *octets;
        }
    }

    /// The optional part of the GTP-U header with this container as the only extension header. Only the first
    /// [`len`](Self::len) octets count.
    #[inline]
    pub fn octets(&self) -> [u8; 12] {
        const PSC: u8 = ExtensionType::PDU_SESSION_CONTAINER.0;
        let first = (self.pdu_type as u8) << 4;
        let qfi = self.qfi.get();
        match (self.pdu_type, self.ppi) {
            (PduType::Uplink, _) => [0, 0, 0, PSC, 1, first, qfi, 0, 0, 0, 0, 0],
            (_, None) => [
                0,
                0,
                0,
                PSC,
                1,
                first,
                u8::from(self.rqi) << 6 | qfi,
                0,
                0,
                0,
                0,
                0,
            ],
            (_, Some(ppi)) => {
                let second = 0x80 | u8::from(self.rqi) << 6 | qfi;
                [0, 0, 0, PSC, 2, first, second, ppi.get() << 5, 0, 0, 0, 0]
            }
        }
    }
}

/// What differs from packet to packet, besides its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerPacket {
    /// Message type: G-PDU, or what is relayed.
    pub message_type: MessageType,
    /// UDP source port instead of the template's.
    pub src_port: Option<u16>,
    /// DSCP and ECN instead of the template's.
    pub tos: Option<u8>,
    /// IPv4 identification.
    pub id: u16,
}

impl Default for PerPacket {
    /// A G-PDU with everything else as in the template and identification 0.
    fn default() -> Self {
        Self {
            message_type: MessageType::G_PDU,
            src_port: None,
            tos: None,
            id: 0,
        }
    }
}

/// Outer IP, UDP and GTP-U headers, prebuilt: `N` is [`TEMPLATE4_LEN`] or [`TEMPLATE6_LEN`].
///
/// Lengths are zero, and of the checksums only the part is there that does not depend on the packet. The IPv4 UDP
/// checksum stays 0; the IPv6 one is mandatory and covers the payload: [`fill_udp_checksum`] writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Template<const N: usize> {
    octets: [u8; N],
    /// The ones' complement sum of the IPv4 header with length, identification and checksum zero; 0 for IPv6.
    partial: u16,
}

/// A template with an IPv4 outer header, 38 octets.
pub type Template4 = Template<TEMPLATE4_LEN>;
/// A template with an IPv6 outer header, 58 octets.
pub type Template6 = Template<TEMPLATE6_LEN>;

const _: () = assert!(size_of::<Template4>() == 38 && size_of::<Template6>() == 58);

/// A template of either family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GtpuTemplate {
    /// IPv4 outer header.
    V4(Template4),
    /// IPv6 outer header.
    V6(Template6),
}

const _: () = assert!(size_of::<GtpuTemplate>() <= 64);

impl GtpuTemplate {
    /// Builds the headers of `encap`.
    pub fn new(encap: &GtpuEncap) -> Self {
        match encap.addrs {
            Addrs::V4 { src, dst } => Self::V4(Template4::v4(encap, src, dst)),
            Addrs::V6 { src, dst } => Self::V6(Template6::v6(encap, src, dst)),
        }
    }

    /// Octets of the outer headers with this marking: 36 or 56, and 8 or 12 more.
    #[inline]
    pub const fn header_len(&self, marking: Option<Marking>) -> usize {
        match self {
            Self::V4(template) => template.header_len(marking),
            Self::V6(template) => template.header_len(marking),
        }
    }

    /// As [`Template::apply`].
    ///
    /// # Errors
    /// As [`Template::apply`].
    #[inline]
    pub fn apply(
        &self,
        out: &mut [u8],
        inner_len: usize,
        marking: Option<Marking>,
    ) -> Result<(), DropReason> {
        self.apply_with(out, inner_len, marking, &PerPacket::default())
    }

    /// As [`Template::apply_with`].
    ///
    /// # Errors
    /// As [`Template::apply_with`].
    #[inline]
    pub fn apply_with(
        &self,
        out: &mut [u8],
        inner_len: usize,
        marking: Option<Marking>,
        packet: &PerPacket,
    ) -> Result<(), DropReason> {
        match self {
            Self::V4(template) => template.apply_with(out, inner_len, marking, packet),
            Self::V6(template) => template.apply_with(out, inner_len, marking, packet),
        }
    }

    /// As [`Template::apply_optional`].
    ///
    /// # Errors
    /// As [`Template::apply_optional`].
    pub fn apply_optional(
        &self,
        out: &mut [u8],
        inner_len: usize,
        gtpu_flags: u8,
        packet: &PerPacket,
    ) -> Result<(), DropReason> {
        match self {
            Self::V4(template) => template.apply_optional(out, inner_len, gtpu_flags, packet),
            Self::V6(template) => template.apply_optional(out, inner_len, gtpu_flags, packet),
        }
    }

    /// Whether the UDP checksum is to be filled in with [`fill_udp_checksum`].
    #[inline]
    pub const fn needs_udp_checksum(&self) -> bool {
        matches!(self, Self::V6(_))
    }
}

impl Template4 {
    fn v4(encap: &GtpuEncap, src: [u8; 4], dst: [u8; 4]) -> Self {
        let ip = ipv4::Header {
            version_ihl: 0x45,
            tos: encap.tos,
            total_len: U16::ZERO,
            id: U16::ZERO,
            fragment: U16::new(if encap.dont_fragment {
                ipv4::DONT_FRAGMENT
            } else {
                0
            }),
            ttl: encap.ttl,
            proto: proto::UDP,
            checksum: U16::ZERO,
            src,
            dst,
        };
        Self::assemble(ip.as_bytes(), encap, Sum::default().bytes(ip.as_bytes()).folded())
    }
}

impl Template6 {
    fn v6(encap: &GtpuEncap, src: [u8; 16], dst: [u8; 16]) -> Self {
        let ip = ipv6::Header {
            version_class_flow: U32::new(6 << 28 | u32::from(encap.tos) << 20),
            payload_len: U16::ZERO,
            next_header: proto::UDP,
            hop_limit: encap.ttl,
            src,
            dst,
        };
        Self::assemble(ip.as_bytes(), encap, 0)
    }
}

impl<const N: usize> Template<N> {
    const IS_V4: bool = N == TEMPLATE4_LEN;
    const GTPU_START: usize = N - gtpu::HEADER_LEN;
    const UDP_START: usize = Self::GTPU_START - udp::HEADER_LEN;
    const IS_A_TEMPLATE: () = assert!(N == TEMPLATE4_LEN || N == TEMPLATE6_LEN);

    fn assemble(ip: &[u8], encap: &GtpuEncap, partial: u16) -> Self {
        let () = Self::IS_A_TEMPLATE;
        let udp = udp::Header {
            src_port: U16::new(encap.src_port),
            dst_port: U16::new(encap.dst_port),
            len: U16::ZERO,
            checksum: U16::ZERO,
        };
        let gtpu = gtpu::Header {
            flags: flags::VERSION_1,
            message_type: MessageType::G_PDU.0,
            length: U16::ZERO,
            teid: U32::new(encap.teid.0),
        };
        let mut octets = [0; N];
        let parts = ip.iter().chain(udp.as_bytes()).chain(gtpu.as_bytes());
        octets
            .iter_mut()
            .zip(parts)
            .for_each(|(octet, part)| *octet = *part);
        Self { octets, partial }
    }

    /// Octets of the outer headers with this marking.
    #[inline]
    pub const fn header_len(&self, marking: Option<Marking>) -> usize {
        match marking {
            Some(marking) => N + marking.len(),
            None => N,
        }
    }

    /// The headers as they are copied before a packet: lengths and checksums are zero.
    #[inline]
    pub const fn octets(&self) -> &[u8; N] {
        &self.octets
    }

    /// Writes the headers of a G-PDU to `out`, the [`header_len`](Self::header_len) octets before an inner packet of
    /// `inner_len` octets.
    ///
    /// # Errors
    /// [`DropReason::NoHeadroom`] when `out` has another length, [`DropReason::TooBig`] when a length is above
    /// 65,535; `out` is then undefined.
    #[inline]
    pub fn apply(
        &self,
        out: &mut [u8],
        inner_len: usize,
        marking: Option<Marking>,
    ) -> Result<(), DropReason> {
        self.apply_with(out, inner_len, marking, &PerPacket::default())
    }

    /// The same with what differs from packet to packet.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn apply_with(
        &self,
        out: &mut [u8],
        inner_len: usize,
        marking: Option<Marking>,
        packet: &PerPacket,
    ) -> Result<(), DropReason> {
        let Some(marking) = marking else {
            return self.apply_optional(out, inner_len, 0, packet);
        };
        if out.len() != N + marking.len() {
            return Err(DropReason::NoHeadroom);
        }
        marking.write(out.get_mut(N..).ok_or(DropReason::NoHeadroom)?);
        self.apply_optional(out, inner_len, flags::E, packet)
    }

    /// Writes the headers where the optional part of the GTP-U header and the extension headers, if any, are already
    /// at the end of `out`, as a relay keeps them. `gtpu_flags` are the E, S and PN of that part.
    ///
    /// # Errors
    /// As [`apply`](Self::apply).
    #[inline]
    pub fn apply_optional(
        &self,
        out: &mut [u8],
        inner_len: usize,
        gtpu_flags: u8,
        packet: &PerPacket,
    ) -> Result<(), DropReason> {
        let optional_len = out.len().checked_sub(N).ok_or(DropReason::NoHeadroom)?;
        let header = out.first_chunk_mut::<N>().ok_or(DropReason::NoHeadroom)?;
        let gtpu_len = inner_len.saturating_add(optional_len).min(usize::from(u16::MAX));
        let udp_len = gtpu_len + gtpu::HEADER_LEN + udp::HEADER_LEN;
        let ip_len = if Self::IS_V4 {
            udp_len + ipv4::HEADER_LEN
        } else {
            udp_len
        };
        if ip_len > usize::from(u16::MAX) {
            return Err(DropReason::TooBig);
        }
        *header = self.octets;
        if Self::IS_V4 {
            self.patch_ipv4(header, ip_len as u16, packet);
        } else {
            Self::patch_ipv6(header, ip_len as u16, packet);
        }
        if let Some(port) = packet.src_port {
            put_u16(header, Self::UDP_START, port);
        }
        put_u16(header, Self::UDP_START + 4, udp_len as u16);
        header[Self::GTPU_START] |= gtpu_flags & flags::OPTIONAL;
        header[Self::GTPU_START + 1] = packet.message_type.0;
        put_u16(header, Self::GTPU_START + 2, gtpu_len as u16);
        Ok(())
    }

    #[inline]
    fn patch_ipv4(&self, header: &mut [u8; N], total_len: u16, packet: &PerPacket) {
        let sum = u32::from(self.partial) + u32::from(total_len) + u32::from(packet.id);
        let sum = (sum & 0xffff) + (sum >> 16);
        let mut checksum = !(((sum & 0xffff) + (sum >> 16)) as u16);
        if let Some(tos) = packet.tos {
            checksum = checksum::update_word(checksum, header[1].into(), tos.into());
            header[1] = tos;
        }
        put_u16(header, 2, total_len);
        put_u16(header, 4, packet.id);
        put_u16(header, 10, checksum);
    }

    #[inline]
    fn patch_ipv6(header: &mut [u8; N], payload_len: u16, packet: &PerPacket) {
        if let Some(tos) = packet.tos {
            header[0] = 0x60 | tos >> 4;
            header[1] = header[1] & 0x0f | tos << 4;
        }
        put_u16(header, 4, payload_len);
    }
}

#[inline]
fn put_u16<const N: usize>(header: &mut [u8; N], at: usize, value: u16) {
    let [high, low] = value.to_be_bytes();
    header[at] = high;
    header[at + 1] = low;
}

/// Fills the UDP checksum of applied headers in: mandatory with IPv6 (RFC 8200 §8.1), possible with IPv4. `headers` is
/// what the template wrote, marking included, and `payload` the sum over the inner packet.
///
/// # Errors
/// [`DropReason::BadIpv4Header`] when `headers` are not those of a template.
pub fn fill_udp_checksum(headers: &mut [u8], payload: Sum) -> Result<(), DropReason> {
    let (addrs, datagram) = datagram_of(headers)?;
    udp::fill_checksum(&addrs, datagram, payload).ok_or(NOT_OURS)
}

/// Why headers are refused that are not those of a template.
const NOT_OURS: DropReason = DropReason::BadIpv4Header;

/// The addresses of a template's headers, and what follows the IP header.
fn datagram_of(headers: &mut [u8]) -> Result<(Addrs, &mut [u8]), DropReason> {
    let (addrs, udp_start) = match headers.first() {
        Some(0x45) => {
            let (ip, _) = zerocopy::FromBytes::ref_from_prefix(headers).map_err(|_| NOT_OURS)?;
            let &ipv4::Header { src, dst, .. } = ip;
            (Addrs::V4 { src, dst }, ipv4::HEADER_LEN)
        }
        Some(0x60..=0x6f) => {
            let (ip, _) = zerocopy::FromBytes::ref_from_prefix(headers).map_err(|_| NOT_OURS)?;
            let &ipv6::Header { src, dst, .. } = ip;
            (Addrs::V6 { src, dst }, ipv6::HEADER_LEN)
        }
        _ => return Err(NOT_OURS),
    };
    let datagram = headers.get_mut(udp_start..).ok_or(NOT_OURS)?;
    Ok((addrs, datagram))
}

/// The addresses of a tunnel, for tests and the simulator.
impl From<(Ipv4Addr, Ipv4Addr)> for Addrs {
    fn from((src, dst): (Ipv4Addr, Ipv4Addr)) -> Self {
        Self::V4 {
            src: src.octets(),
            dst: dst.octets(),
        }
    }
}

impl From<(Ipv6Addr, Ipv6Addr)> for Addrs {
    fn from((src, dst): (Ipv6Addr, Ipv6Addr)) -> Self {
        Self::V6 {
            src: src.octets(),
            dst: dst.octets(),
        }
    }
}
