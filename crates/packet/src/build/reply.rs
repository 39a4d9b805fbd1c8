//! GTP-U signalling messages, as whole IP packets: what a user plane node says of its own accord.

use core::net::IpAddr;

use zerocopy::IntoBytes;
use zerocopy::byteorder::network_endian::{U16, U32};

use crate::checksum::Sum;
use crate::gtpu::{self, ExtensionType, Ie, MessageType, SUPPORTED_EXTENSIONS, flags};
use crate::tuple::proto;
use crate::{Addrs, GtpuFrame, Teid, ipv4, ipv6, udp};

use super::Marking;

/// The IP and UDP headers around a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// From and to where.
    pub addrs: Addrs,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
    /// DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
}

impl Envelope {
    /// From port 2152 to port 2152, where requests, Error Indications and notifications go (TS 29.281 §4.4.2).
    pub const fn between(addrs: Addrs) -> Self {
        Self {
            addrs,
            src_port: gtpu::PORT,
            dst_port: gtpu::PORT,
            tos: 0,
            ttl: 64,
        }
    }

    /// Back to where a request came from, from where it was sent to: addresses and ports swapped
    /// (TS 29.281 §4.4.2).
    pub const fn response_to(request: &GtpuFrame) -> Self {
        let outer = &request.outer;
        Self {
            src_port: outer.dst_port,
            dst_port: outer.src_port,
            ..Self::between(request.reply_addrs())
        }
    }

    /// Back to where a message came from, to port 2152.
    pub const fn notice_about(message: &GtpuFrame) -> Self {
        Self::between(message.reply_addrs())
    }
}

/// A signalling message.
#[derive(Clone, Copy, Debug)]
pub struct Signalling<'a> {
    /// Message type.
    pub message_type: MessageType,
    /// The receiver's TEID; zero in path management.
    pub teid: Teid,
    /// Sequence number, with S.
    pub sequence: Option<u16>,
    /// One extension header: type and content, a multiple of 4 minus 2 octets.
    pub extension: Option<(ExtensionType, &'a [u8])>,
    /// Information elements, in ascending order of their type.
    pub ies: &'a [Ie<'a>],
}

impl Signalling<'_> {
    /// Writes the whole IP packet to the start of `out`, with its checksums, and gives its octets; `None` when `out`
    /// is too short or the extension's content has a length that none can have.
    pub fn write(&self, out: &mut [u8], envelope: &Envelope) -> Option<usize> {
        let body = self.body_len()?;
        let datagram = udp::HEADER_LEN + gtpu::HEADER_LEN + body;
        let ip_len = write_ip(out, envelope, datagram)?;
        let out = out.get_mut(..ip_len + datagram)?;
        let (_, udp_and_message) = out.split_at_mut_checked(ip_len)?;
        let header = udp::Header::new(envelope.src_port, envelope.dst_port, datagram - udp::HEADER_LEN)?;
        let (udp_header, message) = udp_and_message.split_at_mut_checked(udp::HEADER_LEN)?;
        udp_header.copy_from_slice(header.as_bytes());
        self.write_message(message, body)?;
        udp::fill_checksum(&envelope.addrs, udp_and_message, Sum::default())?;
        Some(ip_len + datagram)
    }

    /// Octets behind the mandatory part of the header.
    fn body_len(&self) -> Option<usize> {
        let extension = match self.extension {
            None => 0,
            Some((_, content)) if content.len() % 4 == 2 && content.len() < 4 * 255 => content.len() + 2,
            Some(_) => return None,
        };
        let optional = if self.flags() == flags::VERSION_1 {
            0
        } else {
            gtpu::OPTIONAL_LEN
        };
        Some(optional + extension + self.ies.iter().map(Ie::encoded_len).sum::<usize>())
    }

    const fn flags(&self) -> u8 {
        let s = if self.sequence.is_some() { flags::S } else { 0 };
        let e = if self.extension.is_some() { flags::E } else { 0 };
        flags::VERSION_1 | s | e
    }

    fn write_message(&self, out: &mut [u8], body: usize) -> Option<()> {
        let header = gtpu::Header {
            flags: self.flags(),
            message_type: self.message_type.0,
            length: U16::new(u16::try_from(body).ok()?),
            teid: U32::new(self.teid.0),
        };
        let mut at = 0;
        put(out, &mut at, header.as_bytes())?;
        if self.flags() != flags::VERSION_1 {
            let next = self.extension.map_or(ExtensionType::NONE, |(kind, _)| kind);
            let [high, low] = self.sequence.unwrap_or(0).to_be_bytes();
            put(out, &mut at, &[high, low, 0, next.0])?;
        }
        if let Some((_, content)) = self.extension {
            put(out, &mut at, &[u8::try_from((content.len() + 2) / 4).ok()?])?;
            put(out, &mut at, content)?;
            put(out, &mut at, &[ExtensionType::NONE.0])?;
        }
        for ie in self.ies {
            at += ie.write(out.get_mut(at..)?)?;
        }
        Some(())
    }
}

fn put(out: &mut [u8], at: &mut usize, octets: &[u8]) -> Option<()> {
    out.get_mut(*at..*at + octets.len())?.copy_from_slice(octets);
    *at += octets.len();
    Some(())
}

/// Writes the IP header before `payload_len` octets of UDP and gives its octets.
fn write_ip(out: &mut [u8], envelope: &Envelope, payload_len: usize) -> Option<usize> {
    let Envelope { tos, ttl, .. } = *envelope;
    match envelope.addrs {
        Addrs::V4 { src, dst } => {
            let (src, dst, proto) = (src.into(), dst.into(), proto::UDP);
            let fields = ipv4::Fields {
                src,
                dst,
                proto,
                ttl,
                tos,
                id: 0,
                dont_fragment: true,
            };
            fields.header(payload_len)?.write_to_prefix(out).ok()?;
            Some(ipv4::HEADER_LEN)
        }
        Addrs::V6 { src, dst } => {
            let (src, dst, next_header) = (src.into(), dst.into(), proto::UDP);
            let fields = ipv6::Fields {
                src,
                dst,
                next_header,
                hop_limit: ttl,
                traffic_class: tos,
                flow_label: 0,
            };
            fields.header(payload_len)?.write_to_prefix(out).ok()?;
            Some(ipv6::HEADER_LEN)
        }
    }
}

/// Writes an Echo Request (TS 29.281 §7.2.1) and gives the octets of the IP packet; `None` when `out` is too short.
pub fn echo_request(out: &mut [u8], envelope: &Envelope, sequence: u16) -> Option<usize> {
    path(MessageType::ECHO_REQUEST, sequence, &[]).write(out, envelope)
}

/// Writes an Echo Response (TS 29.281 §7.2.2), with the sequence number of its request and a Recovery of 0, and gives
/// the octets of the IP packet; `None` when `out` is too short.
pub fn echo_response(out: &mut [u8], envelope: &Envelope, sequence: u16) -> Option<usize> {
    path(MessageType::ECHO_RESPONSE, sequence, &[Ie::Recovery(0)]).write(out, envelope)
}

/// Writes a Supported Extension Headers Notification (TS 29.281 §7.2.3) and gives the octets of the IP packet; `None`
/// when `out` is too short.
pub fn supported_extension_headers_notification(out: &mut [u8], envelope: &Envelope) -> Option<usize> {
    let types = SUPPORTED_EXTENSIONS.map(|kind| kind.0);
    let ies = [Ie::ExtensionHeaderTypeList(&types)];
    path(MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION, 0, &ies).write(out, envelope)
}

/// Writes an Error Indication (TS 29.281 §7.3.1) about a G-PDU for `teid` that was sent to `peer`, this node's address,
/// and gives the octets of the IP packet; `None` when `out` is too short. `udp_port`, the source port of that G-PDU,
/// goes into a UDP Port extension header.
pub fn error_indication(
    out: &mut [u8],
    envelope: &Envelope,
    teid: Teid,
    peer: IpAddr,
    udp_port: Option<u16>,
) -> Option<usize> {
    let port = udp_port.map(u16::to_be_bytes);
    let ies = [Ie::TeidDataI(teid), Ie::PeerAddress(peer)];
    let extension = port.as_ref().map(|port| (ExtensionType::UDP_PORT, &port[..]));
    Signalling {
        extension,
        ..path(MessageType::ERROR_INDICATION, 0, &ies)
    }
    .write(out, envelope)
}

/// Writes an End Marker (TS 29.281 §7.3.2) for the tunnel `teid` of the peer, with a PDU Session Container where
/// `marking` is given, and gives the octets of the IP packet; `None` when `out` is too short.
pub fn end_marker(
    out: &mut [u8],
    envelope: &Envelope,
    teid: Teid,
    marking: Option<Marking>,
) -> Option<usize> {
    let octets = marking.map(|marking| (marking.octets(), marking.len()));
    // Behind four octets of optional part and one of length, before one of next type.
    let content = octets.as_ref().and_then(|(octets, len)| octets.get(5..len - 1));
    let extension = content.map(|content| (ExtensionType::PDU_SESSION_CONTAINER, content));
    let message_type = MessageType::END_MARKER;
    Signalling {
        message_type,
        teid,
        sequence: None,
        extension,
        ies: &[],
    }
    .write(out, envelope)
}

/// A message of path management or an Error Indication: TEID 0 and a sequence number (TS 29.281 §5.1).
const fn path<'a>(message_type: MessageType, sequence: u16, ies: &'a [Ie<'a>]) -> Signalling<'a> {
    Signalling {
        message_type,
        teid: Teid::ZERO,
        sequence: Some(sequence),
        extension: None,
        ies,
    }
}
