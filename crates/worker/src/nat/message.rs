//! What a packet is to a NAT: which mapping it belongs to, by its own fields or by those of the packet that it quotes.

use nat::mappings::{Protocol, Segment};
use packet::icmp::v4_type;
use packet::icmp_rewrite::{Quoted, is_intact, quoted};
use packet::tuple::proto;
use packet::{PacketBuf, ipv4, tcp};

use crate::burst::descriptor::{Descriptor, PacketFlags};

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// With ports.
    Ports(Protocol, Segment),
    /// A fragment behind the first: only its addresses change.
    Later,
    /// An ICMP message that asks for an answer, or is one, with this identifier.
    Query {
        /// The identifier.
        id: u16,
        /// Whether it asks.
        asks: bool,
    },
    /// An ICMP error about this packet.
    Error(Quoted),
    /// Of a protocol without anything to tell mappings apart by.
    Other,
}

/// What the user packet in `buf` is, whose protocol is that of its key.
#[inline]
pub(super) fn message<B: PacketBuf>(buf: &B, descriptor: &Descriptor, protocol: u8) -> Message {
    if descriptor.flags.any(PacketFlags::LATER_FRAGMENT) {
        return Message::Later;
    }
    match protocol {
        proto::UDP => Message::Ports(Protocol::Udp, Segment::Within),
        proto::TCP => Message::Ports(Protocol::Tcp, segment(buf, descriptor)),
        proto::ICMP => of_icmp(user_packet(buf, descriptor)),
        _ => Message::Other,
    }
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
    let Some(header) = packet.first().and_then(|first| ipv4::header_len(*first).ok()) else {
        return Message::Other;
    };
    let Some(&[kind, _, _, _, high, low, ..]) = packet.get(header..) else {
        return Message::Other;
    };
    let id = u16::from_be_bytes([high, low]);
    match kind {
        v4_type::ECHO_REQUEST => Message::Query { id, asks: true },
        v4_type::ECHO_REPLY => Message::Query { id, asks: false },
        // Of an error that is damaged nothing is believed (RFC 5508 REQ-3).
        _ => quoted(packet)
            .filter(|_| is_intact(packet))
            .map_or(Message::Other, Message::Error),
    }
}
