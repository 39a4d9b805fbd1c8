//! What a packet is to a NAT: which mapping it belongs to, by its own fields or by those of the packet that it quotes.

use nat::mappings::{Protocol, Segment};
use packet::icmp::v4_type;
use packet::icmp_rewrite::{self, Quoted, is_intact};
use packet::tuple::proto;
use packet::{PacketBuf, ipv4, tcp};

use crate::burst::descriptor::{Descriptor, PacketFlags};

/// What kinds of packets there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Kind {
    /// With ports.
    Ports,
    /// A fragment behind the first: only its addresses change.
    Later,
    /// An ICMP message that asks for an answer.
    Request,
    /// An ICMP message that is one.
    Answer,
    /// An ICMP error about the packet that [`quoted`] gives.
    Error,
    /// Of a protocol without anything to tell mappings apart by.
    #[default]
    Other,
}

/// What a packet is. The fields are side by side, since those of an enum would go through memory in pieces of another
/// size than they are read in, which takes longer than all else that is done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    pub kind: Kind,
    /// Of one with ports.
    pub protocol: Protocol,
    /// Of one with ports.
    pub segment: Segment,
    /// The identifier of a request or an answer.
    pub id: u16,
}

impl Message {
    /// One with ports, as most are.
    #[inline]
    pub const fn with_ports(protocol: Protocol, segment: Segment) -> Self {
        Self {
            kind: Kind::Ports,
            protocol,
            segment,
            id: 0,
        }
    }

    /// One of another kind.
    const fn of_kind(kind: Kind) -> Self {
        Self {
            kind,
            protocol: Protocol::Icmp,
            segment: Segment::Within,
            id: 0,
        }
    }
}

/// What the user packet in `buf` is, whose protocol is that of its key.
#[inline]
pub(super) fn message<B: PacketBuf>(buf: &B, descriptor: &Descriptor, protocol: u8) -> Message {
    if descriptor.flags.any(PacketFlags::LATER_FRAGMENT) {
        return Message::of_kind(Kind::Later);
    }
    match protocol {
        proto::UDP => Message::with_ports(Protocol::Udp, Segment::Within),
        proto::TCP => Message::with_ports(Protocol::Tcp, segment(buf, descriptor)),
        proto::ICMP => of_icmp(user_packet(buf, descriptor)),
        _ => Message::of_kind(Kind::Other),
    }
}

/// The packet that an ICMP error quotes which the user packet in `buf` is.
#[cold]
pub(crate) fn quoted<B: PacketBuf>(buf: &B, descriptor: &Descriptor) -> Option<Quoted> {
    icmp_rewrite::quoted(user_packet(buf, descriptor))
}

/// The part of the user packet in the first segment of the buffer: at least its headers.
pub(super) fn user_packet<'a, B: PacketBuf>(buf: &'a B, descriptor: &Descriptor) -> &'a [u8] {
    let start = usize::from(descriptor.offset);
    let data = buf.data();
    let end = data.len().min(start + usize::from(descriptor.octets));
    data.get(start..end).unwrap_or_default()
}

/// The same, to be rewritten.
pub(super) fn user_packet_mut<'a, B: PacketBuf>(buf: &'a mut B, descriptor: &Descriptor) -> &'a mut [u8] {
    let start = usize::from(descriptor.offset);
    let data = buf.data_mut();
    let end = data.len().min(start + usize::from(descriptor.octets));
    data.get_mut(start..end).unwrap_or_default()
}

#[inline]
fn segment<B: PacketBuf>(buf: &B, descriptor: &Descriptor) -> Segment {
    match descriptor.flags.any(PacketFlags::TRANSITORY) {
        false => Segment::Within,
        true => transitory(user_packet(buf, descriptor)),
    }
}

#[cold]
fn transitory(packet: &[u8]) -> Segment {
    let header = packet.first().map_or(0, |first| usize::from(first & 0xf) * 4);
    let flags = packet.get(header + tcp::FLAGS_AT).copied().unwrap_or_default();
    let has = |flag| flags & flag != 0;
    match (has(tcp::flags::SYN), has(tcp::flags::ACK)) {
        (true, true) => Segment::Accepts,
        (true, false) => Segment::Opens,
        (false, _) if has(tcp::flags::RST) => Segment::Resets,
        (false, _) => Segment::Finishes,
    }
}

#[cold]
fn of_icmp(packet: &[u8]) -> Message {
    let header = packet.first().and_then(|first| ipv4::header_len(*first).ok());
    let Some(&[kind, _, _, _, high, low, ..]) = header.and_then(|header| packet.get(header..)) else {
        return Message::of_kind(Kind::Other);
    };
    let kind = match kind {
        v4_type::ECHO_REQUEST => Kind::Request,
        v4_type::ECHO_REPLY => Kind::Answer,
        // Of an error that is damaged nothing is believed (RFC 5508 REQ-3).
        _ if icmp_rewrite::quoted(packet).is_some() && is_intact(packet) => Kind::Error,
        _ => Kind::Other,
    };
    let id = u16::from_be_bytes([high, low]);
    Message {
        id,
        ..Message::of_kind(kind)
    }
}
