//! The key of a flow from the fields that decide it.

use flow::{FlowKey4, FlowKey6, KeyFields, Scope, Shape};
use packet::preview::Previewed;
use packet::{Addrs, Fragment, IpTuple};

use crate::packet_view::{PacketView, Side};
use crate::sdf::{has_spi, is_spi, key_fields};

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

/// The key that holds `fields` of the packet. Always in it: the tunnel or the address space, and the IP version.
///
/// - ADDRESS: the UE's address, that is the destination of plain packets and the source of a tunnel's; of an IPv6
///   address the first 64 bits.
/// - TUPLE: both addresses, protocol, ports; of ESP and AH the SPI in the place of the ports.
/// - QFI: that of the PDU Session Container, 255 for none. TOS: the whole octet. FLOW_LABEL: 20 bits.
pub fn flow_key(fields: KeyFields, packet: &PacketView<'_>) -> Key {
    let fields = key_fields(fields);
    let is_tunnel = matches!(packet.side, Side::Tunnel { .. });
    match whole_key(packet.side, packet.tuple) {
        Key::V4(whole) => Key::V4(Shape::new(fields, is_tunnel).cut(&whole)),
        Key::V6(whole) => Key::V6(Shape::new(fields, is_tunnel).cut(&whole)),
    }
}

/// The key of one packet with all that could take part in a flow's: a [`Shape`] cuts it down.
#[inline(always)]
pub fn whole_key(side: Side, tuple: &IpTuple) -> Key {
    let (scope, teid, qfi) = origin(side);
    let ports = if has_spi(tuple) {
        [(tuple.spi >> 16) as u16, tuple.spi as u16]
    } else {
        [tuple.src_port, tuple.dst_port]
    };
    match tuple.addrs {
        Addrs::V4 { src, dst } => Key::V4(FlowKey4 {
            scope,
            teid,
            source: src,
            destination: dst,
            ports,
            protocol: tuple.proto,
            fields: KeyFields::WHOLE,
            tos: tuple.tos,
            qfi,
        }),
        Addrs::V6 { src, dst } => Key::V6(FlowKey6 {
            scope,
            teid,
            source: src,
            destination: dst,
            ports,
            protocol: tuple.proto,
            fields: KeyFields::WHOLE,
            tos: tuple.tos,
            qfi,
            flow_label: tuple.flow_label,
            reserved: 0,
        }),
    }
}

/// The same of a packet that was looked at and not parsed.
#[inline(always)]
pub fn whole_key_of_previewed(side: Side, packet: &Previewed) -> FlowKey4 {
    let (scope, teid, qfi) = origin(side);
    FlowKey4 {
        scope,
        teid,
        source: packet.source,
        destination: packet.destination,
        ports: packet.ports,
        protocol: packet.protocol,
        fields: KeyFields::WHOLE,
        tos: packet.tos,
        qfi,
    }
    .packed()
}

/// What a key has of where its packet came in.
#[inline(always)]
fn origin(side: Side) -> (Scope, u32, u8) {
    match side {
        Side::Tunnel { local, teid, qfi } => {
            (Scope::tunnel(local), teid.0, qfi.map_or(NO_QFI, |qfi| qfi.get()))
        }
        Side::Plain { vrf } => (Scope::plain(vrf), 0, 0),
    }
}

/// What rules read of a packet, from its whole IPv4 key: the way back of [`whole_key`]. The rest of the tuple, which
/// describes the layout of the packet, is empty.
#[inline]
pub fn tuple_of_v4(key: &FlowKey4) -> IpTuple {
    let addrs = Addrs::V4 {
        src: key.source,
        dst: key.destination,
    };
    tuple(addrs, key.protocol, key.ports, (key.tos, 0))
}

/// As [`tuple_of_v4`], from a whole IPv6 key.
#[inline]
pub fn tuple_of_v6(key: &FlowKey6) -> IpTuple {
    let addrs = Addrs::V6 {
        src: key.source,
        dst: key.destination,
    };
    tuple(addrs, key.protocol, key.ports, (key.tos, key.flow_label))
}

#[inline(always)]
fn tuple(addrs: Addrs, proto: u8, ports: [u16; 2], (tos, flow_label): (u8, u32)) -> IpTuple {
    let [first, second] = ports;
    let is_spi = is_spi(proto);
    IpTuple {
        addrs,
        proto,
        src_port: if is_spi { 0 } else { first },
        dst_port: if is_spi { 0 } else { second },
        tos,
        flow_label,
        spi: if is_spi {
            u32::from(first) << 16 | u32::from(second)
        } else {
            0
        },
        fragment: Fragment::None,
        l4_offset: 0,
        total_len: 0,
        ttl: 0,
    }
}
