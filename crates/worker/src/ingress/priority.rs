//! Which packets may not wait behind those of users: what keeps links, neighbours, paths and sessions alive, and what
//! the operator says.
//!
//! It is asked of packets that nothing has read yet, and reads no more than it needs. A user packet is none of them by
//! what is in it: its destination decides what is urgent, or the operator by its DSCP.

use packet::PacketBuf;
use packet::eth::{L2, ether_type};
use packet::gtpu::MessageType;
use packet::tuple::proto;

use crate::PacketMetadata;
use crate::ingress::l3_interfaces::{L3Interface, L3Interfaces};

pub(super) const GTPU_PORT: u16 = 2152;
pub(super) const BGP_PORT: u16 = 179;
/// BFD of one hop and its echo, of several hops, on LAGs (RFC 5881 §4, RFC 5883 §5, RFC 7130 §2.1); PFCP (TS 29.244
/// §6.1).
pub(super) const UDP_PORTS: [u16; 5] = [3784, 3785, 4784, 6784, 8805];
pub(super) const OSPF: u8 = 89;
pub(super) const VRRP: u8 = 112;
/// Network control (RFC 4594 §3.1): CS6 and what is above it.
pub(super) const CS6: u8 = 48;
/// GTP-U messages that belong to no tunnel.
pub(super) const PATH_MANAGEMENT: [MessageType; 4] = [
    MessageType::ECHO_REQUEST,
    MessageType::ECHO_RESPONSE,
    MessageType::ERROR_INDICATION,
    MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION,
];

/// Whether a frame that has come in may not wait behind user packets.
pub(crate) fn is_urgent<B: PacketBuf + PacketMetadata>(interfaces: &L3Interfaces, buf: &B) -> bool {
    let frame = buf.data();
    let Ok(l2) = L2::parse(frame) else { return false };
    if l2.ether_type == ether_type::SLOW {
        return true;
    }
    let Some(ingress) = interfaces.find(buf.ingress(), l2.vlan) else {
        return false;
    };
    let packet = frame.get(usize::from(l2.len)..).unwrap_or_default();
    match l2.ether_type {
        ether_type::ARP => true,
        ether_type::IPV4 => is_urgent_v4(ingress, packet),
        ether_type::IPV6 => is_urgent_v6(ingress, packet),
        _ => false,
    }
}

fn is_urgent_v4(ingress: &L3Interface, packet: &[u8]) -> bool {
    let Some(header) = packet.first_chunk::<20>() else {
        return false;
    };
    let dscp = header[1] >> 2;
    let destination = [header[16], header[17], header[18], header[19]];
    let is_ours = destination[..3] == [224, 0, 0] || ingress.local_v4(destination).is_some();
    let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
    let transport = packet.get(usize::from(header[0] & 0xf) * 4..).unwrap_or_default();
    let is_whole = is_ours && !is_fragment;
    match ingress.urgent_dscps >> dscp & 1 {
        0 => is_whole && is_control(header[9], transport, dscp),
        _ => !(is_whole && is_end_marker(header[9], transport)),
    }
}

fn is_urgent_v6(ingress: &L3Interface, packet: &[u8]) -> bool {
    let Some((header, transport)) = packet.split_first_chunk::<40>() else {
        return false;
    };
    let dscp = (header[0] & 0xf) << 2 | header[1] >> 6;
    let destination = header.last_chunk::<16>().copied().unwrap_or_default();
    let is_ours = destination[..2] == [0xff, 2] || ingress.local_v6(destination).is_some();
    match ingress.urgent_dscps >> dscp & 1 {
        0 => is_ours && is_control(header[6], transport, dscp),
        _ => !(is_ours && is_end_marker(header[6], transport)),
    }
}

/// Whether what is for ourselves may not wait.
fn is_control(protocol: u8, transport: &[u8], dscp: u8) -> bool {
    let ports = transport.first_chunk::<4>();
    let ports = ports.map(|&[s0, s1, d0, d1]| [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])]);
    match (protocol, ports) {
        (proto::UDP, Some([_, GTPU_PORT])) => is_path_management(transport),
        (proto::UDP, Some(ports)) => dscp >= CS6 || ports.iter().any(|port| UDP_PORTS.contains(port)),
        (proto::TCP, Some(ports)) => dscp >= CS6 || ports.contains(&BGP_PORT),
        (proto::ICMPV6, _) => transport.first().is_some_and(|kind| (133..=137).contains(kind)),
        (OSPF | VRRP, _) => true,
        _ => dscp >= CS6,
    }
}

/// Whether it is an End Marker: packets of its tunnel ahead of it must not be overtaken (TS 29.281 §7.3.2), whatever
/// its DSCP.
fn is_end_marker(protocol: u8, udp: &[u8]) -> bool {
    let is_gtpu = protocol == proto::UDP && udp.get(2..4) == Some(&GTPU_PORT.to_be_bytes());
    is_gtpu && udp.get(9) == Some(&MessageType::END_MARKER.0)
}

/// Whether a GTP-U message belongs to no tunnel.
fn is_path_management(udp: &[u8]) -> bool {
    let message_type = udp.get(9).copied().map(MessageType);
    message_type.is_some_and(|message_type| PATH_MANAGEMENT.contains(&message_type))
}
