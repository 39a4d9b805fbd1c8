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

/// The low six bits of the ports that make a packet urgent: what misses them is of another port.
const PORT_BITS: u64 = {
    let (mut bits, mut place) = (1 << (BGP_PORT & 63), 0);
    while place < UDP_PORTS.len() {
        bits |= 1 << (UDP_PORTS[place] & 63);
        place += 1;
    }
    bits
};

/// Whether constant fields alone rule out that a frame [is urgent](is_urgent), as they do for nearly all user packets:
/// without a look at instances and addresses. `urgent_dscps` are those of all instances together.
#[inline]
pub(crate) fn is_ordinary(frame: &[u8], urgent_dscps: u64) -> bool {
    let Some(l2) = frame.first_chunk::<18>() else {
        return false;
    };
    let (ether_type, len) = match u16::from_be_bytes([l2[12], l2[13]]) {
        ether_type::VLAN => (u16::from_be_bytes([l2[16], l2[17]]), 18),
        ether_type => (ether_type, 14),
    };
    let packet = frame.get(len..).unwrap_or_default();
    match ether_type {
        ether_type::IPV4 => packet.first_chunk().is_some_and(|packet: &[u8; 30]| {
            let (dscp, transport) = (packet[1] >> 2, [packet[20], packet[21], packet[22], packet[23]]);
            let is_usual = packet[0] == 0x45 && urgent_dscps >> dscp & 1 == 0;
            is_usual && is_ordinary_transport(packet[9], transport, packet[29], dscp)
        }),
        ether_type::IPV6 => packet.first_chunk().is_some_and(|packet: &[u8; 50]| {
            let dscp = (packet[0] & 0xf) << 2 | packet[1] >> 6;
            let transport = [packet[40], packet[41], packet[42], packet[43]];
            let is_usual = urgent_dscps >> dscp & 1 == 0;
            is_usual && is_ordinary_transport(packet[6], transport, packet[49], dscp)
        }),
        _ => false,
    }
}

/// The same of what an IP header without options is followed by: `message_type` is what GTP-U has there.
#[inline(always)]
fn is_ordinary_transport(protocol: u8, [s0, s1, d0, d1]: [u8; 4], message_type: u8, dscp: u8) -> bool {
    let ports = [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])];
    let is_of_users = |port: u16| PORT_BITS >> (port & 63) & 1 == 0 || !is_control_port(port);
    match protocol {
        proto::UDP if ports[1] == GTPU_PORT => message_type == MessageType::G_PDU.0,
        proto::UDP | proto::TCP => dscp < CS6 && is_of_users(ports[0]) && is_of_users(ports[1]),
        proto::ICMPV6 | OSPF | VRRP => false,
        _ => dscp < CS6,
    }
}

#[cold]
fn is_control_port(port: u16) -> bool {
    port == BGP_PORT || UDP_PORTS.contains(&port)
}

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
        0 => is_whole && is_control(ingress, header[9], transport, dscp),
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
        0 => is_ours && is_control(ingress, header[6], transport, dscp),
        _ => !(is_ours && is_end_marker(header[6], transport)),
    }
}

/// Whether what is for ourselves may not wait: what has a receiver here, so that forged packets without one wait.
fn is_control(ingress: &L3Interface, protocol: u8, transport: &[u8], dscp: u8) -> bool {
    let ports = transport.first_chunk::<4>();
    let ports = ports.map(|&[s0, s1, d0, d1]| [u16::from_be_bytes([s0, s1]), u16::from_be_bytes([d0, d1])]);
    match (protocol, ports) {
        (proto::UDP, Some([_, GTPU_PORT])) => ingress.takes_gtpu() && is_path_management(transport),
        (proto::ICMPV6, _) => transport.first().is_some_and(|kind| (133..=137).contains(kind)),
        _ if !ingress.host => false,
        (proto::UDP, Some(ports)) => dscp >= CS6 || ports.iter().any(|port| UDP_PORTS.contains(port)),
        (proto::TCP, Some(ports)) => dscp >= CS6 || ports.contains(&BGP_PORT),
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

#[cfg(test)]
pub(crate) mod tests {
    use flow::PortId;
    use packet::MacAddr;
    use proptest::prelude::*;
    use rules::testing::{self, GNB, N3_ADDRESS, UE, UserPacket, tunnelled};

    use super::*;
    use crate::HostRates;
    use crate::mem::MemBuf;

    /// Expedited forwarding, at N3 alone.
    const URGENT: u64 = 1 << 46;

    fn interfaces() -> L3Interfaces {
        let macs = [MacAddr([2, 0, 0, 0, 0, 1]); 4];
        let host = Some(HostRates {
            urgent: 1_000,
            usual: 1_000,
        });
        L3Interfaces::new(&testing::network(), &macs).with_host(&[host], &[URGENT])
    }

    /// An IPv4 or IPv6 packet to an address of ours, by its protocol and what follows the header.
    fn to_ourselves(is_v6: bool, protocol: u8, dscp: u8, transport: &[u8]) -> Vec<u8> {
        let mut packet = if is_v6 {
            let mut header = vec![0; 40];
            (header[0], header[1], header[6]) = (0x60 | dscp >> 2, dscp << 6, protocol);
            let own = "2001:db8:3::1".parse::<std::net::Ipv6Addr>().expect("an address");
            header[24..].copy_from_slice(&own.octets());
            header
        } else {
            let mut header = vec![0; 20];
            (header[0], header[1], header[9]) = (0x45, dscp << 2, protocol);
            header[16..].copy_from_slice(&N3_ADDRESS.octets());
            header
        };
        packet.extend_from_slice(transport);
        packet.resize(packet.len().max(60), 0);
        packet
    }

    /// Packets of each kind that is urgent, and of users.
    pub(crate) fn any_packet() -> impl Strategy<Value = (u16, Vec<u8>)> {
        let port = prop_oneof![
            Just(2152_u16),
            Just(BGP_PORT),
            prop::sample::select(UDP_PORTS.to_vec()),
            any::<u16>()
        ];
        let protocol = prop_oneof![
            prop::sample::select(vec![
                proto::UDP,
                proto::TCP,
                proto::ICMP,
                proto::ICMPV6,
                OSPF,
                VRRP
            ]),
            any::<u8>()
        ];
        let kind = prop::sample::select(vec![1, 2, 26, 31, 133, 135, 137, 254, 255_u8]);
        let ours = (
            any::<bool>(),
            protocol,
            0..64_u8,
            (port.clone(), port),
            kind,
            any::<bool>(),
        )
            .prop_map(|(is_v6, protocol, dscp, (source, destination), kind, is_first)| {
                let [s, d] = [source, destination].map(u16::to_be_bytes);
                let first = if is_first { [kind, 0] } else { s };
                let transport = [&first[..], &d, &[0, 20, 0, 0, 0x30, kind, 0, 4, 0, 0, 0, 0]].concat();
                let ether_type = if is_v6 { ether_type::IPV6 } else { ether_type::IPV4 };
                (ether_type, to_ourselves(is_v6, protocol, dscp, &transport))
            });
        let others = prop::sample::select(vec![ether_type::ARP, ether_type::SLOW, 0x88cc])
            .prop_map(|ether_type| (ether_type, vec![0; 46]));
        prop_oneof![4 => ours, 1 => others]
    }

    /// The frame of a packet with `tags` VLAN tags.
    pub(crate) fn frame(tags: usize, ether_type: u16, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9];
        (0..tags).for_each(|_| frame.extend_from_slice(&[0x81, 0, 0, 0]));
        frame.extend_from_slice(&ether_type.to_be_bytes());
        frame.extend_from_slice(packet);
        frame
    }

    fn check(bytes: &[u8]) -> (bool, bool) {
        let interfaces = interfaces();
        let mut buf = MemBuf::new(bytes);
        buf.set_ingress(PortId(0));
        let is_ordinary = is_ordinary(bytes, interfaces.urgent_dscps);
        (is_ordinary, is_urgent(&interfaces, &buf))
    }

    #[test]
    fn packets_of_users_are_ordinary_at_the_first_look() {
        let inner = UserPacket::udp(UE, GNB, 3_784, 3_784).bytes();
        let uplink = tunnelled(N3_ADDRESS, 7, 255, Some([0x10, 9]), &[], &inner);
        let downlink = UserPacket::udp(GNB, UE, 443, 50_000).bytes();
        for tags in [0, 1] {
            for packet in [&uplink, &downlink] {
                let padded = [packet.as_slice(), &[0; 60]].concat();
                assert_eq!(check(&frame(tags, ether_type::IPV4, &padded)), (true, false));
            }
        }
    }

    #[test]
    fn control_packets_without_a_receiver_wait() {
        let bfd = to_ourselves(false, proto::UDP, CS6, &[0x0e, 0xc8, 0x0e, 0xc8, 0, 32, 0, 0]);
        let bytes = frame(0, ether_type::IPV4, &bfd);
        assert_eq!(check(&bytes), (false, true));
        let macs = [MacAddr([2, 0, 0, 0, 0, 1]); 4];
        let without_host = L3Interfaces::new(&testing::network(), &macs);
        let mut buf = MemBuf::new(&bytes);
        buf.set_ingress(PortId(0));
        assert!(!is_urgent(&without_host, &buf));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        /// The first look takes no urgent packet for an ordinary one: whole, changed by any octets, cut off anywhere.
        #[test]
        fn no_urgent_packet_is_ordinary(
            (ether_type, packet) in any_packet(),
            tags in 0..3_usize,
            changes in prop::collection::vec((0..90_usize, any::<u8>()), 0..4),
            cut in prop_oneof![3 => Just(usize::MAX), 1 => 0..100_usize],
        ) {
            let mut bytes = frame(tags, ether_type, &packet);
            for (at, octet) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = octet;
                }
            }
            bytes.truncate(cut);
            let (is_ordinary, is_urgent) = check(&bytes);
            prop_assert!(!(is_ordinary && is_urgent));
        }

        #[test]
        fn no_random_frame_is_both(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let (is_ordinary, is_urgent) = check(&bytes);
            prop_assert!(!(is_ordinary && is_urgent));
        }

        /// Nearly all of what is urgent here is a packet of [`any_packet`]: the property is not empty.
        #[test]
        fn many_packets_are_urgent(packets in prop::collection::vec(any_packet(), 200)) {
            let urgent = packets.iter().filter(|(ether_type, packet)| check(&frame(0, *ether_type, packet)).1);
            prop_assert!(urgent.count() > 20);
        }
    }
}
