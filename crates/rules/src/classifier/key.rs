//! The key of a flow from the fields that decide it.

use flow::{FlowKey4, FlowKey6, KeyFields, Scope};
use packet::Addrs;

use super::reads::{has_spi, key_prefix};
use super::{PacketView, Side};

/// The key of an IPv4 or IPv6 flow.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// Of an IPv4 flow.
    V4(FlowKey4),
    /// Of an IPv6 flow.
    V6(FlowKey6),
}

/// In a key's QFI: the packet had none.
const NO_QFI: u8 = 0xff;

/// TUPLE has both addresses, so ADDRESS says nothing beside it.
pub(super) fn normal(fields: KeyFields) -> KeyFields {
    if fields.contains(KeyFields::TUPLE) {
        KeyFields::from_bits(fields.bits() & !KeyFields::ADDRESS.bits())
    } else {
        fields
    }
}

/// The key that holds `fields` of the packet. Always in it: the tunnel or the address space, and the IP version.
///
/// - ADDRESS: the UE's address, that is the destination of plain packets and the source of a tunnel's; of an IPv6
///   address the first 64 bits.
/// - TUPLE: both addresses, protocol, ports.
/// - SPI: in the place of the ports, of ESP and AH.
/// - QFI: that of the PDU Session Container, 255 for none. TOS: the whole octet. FLOW_LABEL: 20 bits.
pub fn flow_key(fields: KeyFields, packet: &PacketView<'_>) -> Key {
    let fields = normal(fields);
    match packet.tuple.addrs {
        Addrs::V4 { src, dst } => Key::V4(key4(fields, packet, src, dst)),
        Addrs::V6 { src, dst } => Key::V6(key6(fields, packet, src, dst)),
    }
}

fn key4(fields: KeyFields, packet: &PacketView<'_>, src: [u8; 4], dst: [u8; 4]) -> FlowKey4 {
    let (scope, teid) = scope(packet.side);
    let mut key = FlowKey4 {
        scope,
        teid,
        fields,
        ..FlowKey4::default()
    };
    if fields.contains(KeyFields::TUPLE) {
        (key.source, key.destination) = (src, dst);
        (key.protocol, key.ports) = (packet.tuple.proto, ports(fields, packet));
    } else if fields.contains(KeyFields::ADDRESS) {
        if scope.is_tunnel() {
            key.source = src
        } else {
            key.destination = dst
        }
    }
    key.tos = if fields.contains(KeyFields::TOS) {
        packet.tuple.tos
    } else {
        0
    };
    key.qfi = qfi(fields, packet.side);
    key
}

fn key6(fields: KeyFields, packet: &PacketView<'_>, src: [u8; 16], dst: [u8; 16]) -> FlowKey6 {
    let (scope, teid) = scope(packet.side);
    let mut key = FlowKey6 {
        scope,
        teid,
        fields,
        ..FlowKey6::default()
    };
    if fields.contains(KeyFields::TUPLE) {
        (key.source, key.destination) = (src, dst);
        (key.protocol, key.ports) = (packet.tuple.proto, ports(fields, packet));
    } else if fields.contains(KeyFields::ADDRESS) {
        if scope.is_tunnel() {
            key.source = key_prefix(src)
        } else {
            key.destination = key_prefix(dst)
        }
    }
    key.tos = if fields.contains(KeyFields::TOS) {
        packet.tuple.tos
    } else {
        0
    };
    key.flow_label = if fields.contains(KeyFields::FLOW_LABEL) {
        packet.tuple.flow_label
    } else {
        0
    };
    key.qfi = qfi(fields, packet.side);
    key
}

fn scope(side: Side) -> (Scope, u32) {
    match side {
        Side::Tunnel { local, teid, .. } => (Scope::tunnel(local), teid.0),
        Side::Plain { vrf } => (Scope::plain(vrf), 0),
    }
}

fn ports(fields: KeyFields, packet: &PacketView<'_>) -> [u16; 2] {
    if fields.contains(KeyFields::SPI) && has_spi(packet.tuple) {
        return [(packet.tuple.spi >> 16) as u16, packet.tuple.spi as u16];
    }
    [packet.tuple.src_port, packet.tuple.dst_port]
}

fn qfi(fields: KeyFields, side: Side) -> u8 {
    match side {
        Side::Tunnel { qfi, .. } if fields.contains(KeyFields::QFI) => qfi.map_or(NO_QFI, |qfi| qfi.get()),
        _ => 0,
    }
}
