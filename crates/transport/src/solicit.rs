//! Frames that request a neighbour's link layer address or announce an own address: ARP (RFC 826), Neighbour Discovery
//! (RFC 4861 §4.3, §4.4).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use flow::PortId;
use packet::MacAddr;
use packet::checksum::Sum;
use packet::tuple::proto;

use crate::Interface;

/// A frame for a port, from the Ethernet header on, without FCS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The port to send it by.
    pub port: PortId,
    /// The frame.
    pub bytes: Vec<u8>,
}

/// Frames are at least this long without their FCS (IEEE 802.3 §3.2.7).
const MIN_FRAME: usize = 60;

const ARP_REQUEST: u16 = 1;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
/// The override flag of an advertisement (RFC 4861 §4.4).
const OVERRIDE: u32 = 0x2000_0000;
/// Octets of a solicitation or advertisement up to its options.
const TARGET_END: usize = 24;

/// Requests the link layer address of `address` from the station `to`, or from all. `None` without an own address of
/// its family on the link.
pub(crate) fn request(interface: &Interface, address: IpAddr, to: Option<MacAddr>) -> Option<Transmit> {
    match address {
        IpAddr::V4(target) => Some(arp_request(interface, interface.ipv4?, target, to)),
        IpAddr::V6(target) => Some(solicitation(interface, interface.ipv6?, target, to)),
    }
}

/// An ARP request for our own address (RFC 5227 §3, an ARP announcement).
pub(crate) fn gratuitous_arp(interface: &Interface, ours: Ipv4Addr) -> Transmit {
    arp_request(interface, ours, ours, None)
}

/// An advertisement of our own address to all nodes (RFC 4861 §7.2.6).
pub(crate) fn unsolicited_advertisement(interface: &Interface, ours: Ipv6Addr) -> Transmit {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let message = discovery(
        NEIGHBOUR_ADVERTISEMENT,
        OVERRIDE,
        ours,
        TARGET_LINK_LAYER_ADDRESS,
        interface.mac,
    );
    over_ipv6(interface, multicast_mac(all_nodes), ours, all_nodes, message)
}

/// The Neighbour Solicitation of Duplicate Address Detection for `target` (RFC 4862 §5.4.2): from the unspecified
/// address, without a link layer address.
pub(crate) fn probe(interface: &Interface, target: Ipv6Addr) -> Transmit {
    let group = solicited_node(target);
    let mut message = [0; TARGET_END];
    message[0] = NEIGHBOUR_SOLICITATION;
    message[8..].copy_from_slice(&target.octets());
    over_ipv6(
        interface,
        multicast_mac(group),
        Ipv6Addr::UNSPECIFIED,
        group,
        message,
    )
}

fn arp_request(interface: &Interface, ours: Ipv4Addr, target: Ipv4Addr, to: Option<MacAddr>) -> Transmit {
    let mut bytes = ethernet(interface, to.unwrap_or(MacAddr::BROADCAST), 0x0806);
    bytes.extend([0, 1, 0x08, 0, 6, 4]);
    bytes.extend(ARP_REQUEST.to_be_bytes());
    bytes.extend(interface.mac.0);
    bytes.extend(ours.octets());
    bytes.extend(MacAddr::ZERO.0);
    bytes.extend(target.octets());
    finish(interface, bytes)
}

fn solicitation(interface: &Interface, ours: Ipv6Addr, target: Ipv6Addr, to: Option<MacAddr>) -> Transmit {
    let message = discovery(
        NEIGHBOUR_SOLICITATION,
        0,
        target,
        SOURCE_LINK_LAYER_ADDRESS,
        interface.mac,
    );
    match to {
        Some(mac) => over_ipv6(interface, mac, ours, target, message),
        None => {
            let group = solicited_node(target);
            over_ipv6(interface, multicast_mac(group), ours, group, message)
        }
    }
}

/// The ICMPv6 message with one link layer address option and a checksum still to be filled in.
fn discovery(kind: u8, flags: u32, target: Ipv6Addr, option: u8, mac: MacAddr) -> [u8; 32] {
    let mut message = [0; 32];
    message[0] = kind;
    message[4..8].copy_from_slice(&flags.to_be_bytes());
    message[8..24].copy_from_slice(&target.octets());
    message[24] = option;
    message[25] = 1;
    message[26..32].copy_from_slice(&mac.0);
    message
}

fn over_ipv6<const LEN: usize>(
    interface: &Interface,
    to: MacAddr,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    mut message: [u8; LEN],
) -> Transmit {
    let mut bytes = ethernet(interface, to, 0x86dd);
    let sum = checksum(source, destination, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    bytes.extend([0x60, 0, 0, 0]);
    bytes.extend((message.len() as u16).to_be_bytes());
    bytes.extend([58, 255]);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(message);
    finish(interface, bytes)
}

/// The ICMPv6 checksum of a message (RFC 4443 §2.3).
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = message.len() as u16;
    let sum = Sum::default().pseudo_v6(source.octets(), destination.octets(), proto::ICMPV6, length);
    sum.bytes(message).checksum()
}

fn ethernet(interface: &Interface, to: MacAddr, ether_type: u16) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MIN_FRAME + 32);
    bytes.extend_from_slice(crate::Adjacency::resolved(interface, to).header());
    bytes.extend(ether_type.to_be_bytes());
    bytes
}

fn finish(interface: &Interface, mut bytes: Vec<u8>) -> Transmit {
    bytes.resize(bytes.len().max(MIN_FRAME), 0);
    Transmit {
        port: interface.port,
        bytes,
    }
}

/// The solicited-node multicast address of `address` (RFC 4291 §2.7.1).
pub(crate) fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., x, y, z] = address.octets();
    Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, x, y, z])
}

/// The Ethernet group of an IPv6 group (RFC 2464 §7).
pub(crate) fn multicast_mac(group: Ipv6Addr) -> MacAddr {
    let [.., a, b, c, d] = group.octets();
    MacAddr([0x33, 0x33, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use flow::InstanceId;
    use packet::VlanId;

    use super::*;

    fn interface() -> Interface {
        Interface {
            instance: InstanceId(0),
            port: PortId(1),
            vlan: VlanId::new(7).map(packet::VlanTags::from),
            mac: MacAddr([2, 0, 0, 0, 0, 1]),
            ipv4: Some(Ipv4Addr::new(192, 0, 2, 1)),
            broadcast: None,
            ipv6: Some("2001:db8::1".parse().expect("an address")),
            mtu: 1500,
            fragmentation: rules::network::Fragmentation::Inner,
            tunnels: false,
        }
    }

    #[test]
    fn an_arp_request_is_broadcast_or_for_one_station() {
        let frame =
            request(&interface(), IpAddr::from([192, 0, 2, 9]), None).expect("we have an IPv4 address");
        assert_eq!(frame.port, PortId(1));
        assert_eq!(frame.bytes.len(), 60);
        assert_eq!(
            frame.bytes[..46],
            [
                0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 8, 6, 0, 1, 8, 0, 6, 4,
                0, 1, 2, 0, 0, 0, 0, 1, 192, 0, 2, 1, 0, 0, 0, 0, 0, 0, 192, 0, 2, 9
            ]
        );
        let peer = MacAddr([2, 0, 0, 0, 0, 9]);
        let frame =
            request(&interface(), IpAddr::from([192, 0, 2, 9]), Some(peer)).expect("we have an address");
        assert_eq!(frame.bytes[..6], peer.0);
    }

    #[test]
    fn a_solicitation_goes_to_the_group_of_its_target() {
        let target: IpAddr = "2001:db8::abcd:ef01".parse().expect("an address");
        let frame = request(&interface(), target, None).expect("we have an IPv6 address");
        assert_eq!(frame.bytes[..6], [0x33, 0x33, 0xff, 0xcd, 0xef, 0x01]);
        let ip = &frame.bytes[18..];
        assert_eq!(ip[..8], [0x60, 0, 0, 0, 0, 32, 58, 255]);
        assert_eq!(ip[40], NEIGHBOUR_SOLICITATION);
        assert_eq!(ip[64..72], [1, 1, 2, 0, 0, 0, 0, 1]);
        let (source, group) = (
            interface().ipv6.expect("set above"),
            solicited_node("::abcd:ef01".parse().expect("ok")),
        );
        assert_eq!(checksum(source, group, &ip[40..72]), 0);
    }

    #[test]
    fn a_probe_is_from_no_address_and_names_no_station() {
        let ours = interface().ipv6.expect("set above");
        let frame = probe(&interface(), ours);
        assert_eq!(frame.port, PortId(1));
        assert_eq!(
            frame.bytes[..18],
            [
                0x33, 0x33, 0xff, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x81, 0, 0, 7, 0x86, 0xdd
            ]
        );
        let ip = &frame.bytes[18..];
        assert_eq!(ip.len(), 40 + 24, "no option");
        assert_eq!(ip[..8], [0x60, 0, 0, 0, 0, 24, 58, 255]);
        let group: Ipv6Addr = "ff02::1:ff00:1".parse().expect("an address");
        assert_eq!(ip[8..24], [0; 16]);
        assert_eq!(ip[24..40], group.octets());
        assert_eq!(ip[40..42], [NEIGHBOUR_SOLICITATION, 0]);
        assert_eq!(ip[44..48], [0; 4]);
        assert_eq!(ip[48..64], ours.octets());
        assert_eq!(checksum(Ipv6Addr::UNSPECIFIED, group, &ip[40..64]), 0);
    }

    #[test]
    fn without_an_address_of_the_family_nothing_is_asked() {
        let interface = Interface {
            ipv4: None,
            ..interface()
        };
        assert_eq!(request(&interface, IpAddr::from([192, 0, 2, 9]), None), None);
    }
}
