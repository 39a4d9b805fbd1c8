//! The ready made packets, read by the parsers of the user plane: headers written twice, independently.

use packet::frame::{self, Frame};
use packet::{IpTuple, Qfi, Teid, udp};
use proptest::prelude::*;
use sim::path::{Path, PathConfig, TunnelEnd};
use sim::payload::{self, Stamp};
use sim::{Direction, Nanos};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn address(ipv6: bool) -> BoxedStrategy<IpAddr> {
    if ipv6 {
        any::<u128>()
            .prop_map(|bits| Ipv6Addr::from_bits(bits >> 8 | 0x20 << 120).into())
            .boxed()
    } else {
        (1u32..0x7f00_0000)
            .prop_map(|bits| Ipv4Addr::from_bits(bits).into())
            .boxed()
    }
}

prop_compose! {
    fn a_path()(inner in any::<bool>(), outer in any::<bool>())(
        ue in address(inner), server in address(inner), upf in address(outer), gnb in address(outer),
        teids in any::<(u32, u32)>(), ports in (1u16..60_000, 1u16..60_000), ue_ports in 1u16..2000,
        qfi in prop::option::of(0u8..64),
    ) -> PathConfig {
        PathConfig {
            session: 0,
            ue,
            server,
            server_port: ports.0,
            ue_port: ports.1,
            ue_ports,
            upf: TunnelEnd { address: upf, teid: Teid(teids.0) },
            gnb: TunnelEnd { address: gnb, teid: Teid(teids.1) },
            qfi: qfi.and_then(Qfi::new),
        }
    }
}

fn link(packet: &[u8]) -> Vec<u8> {
    let ethertype = if packet[0] >> 4 == 4 {
        [0x08, 0x00]
    } else {
        [0x86, 0xdd]
    };
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &ethertype, packet].concat()
}

/// The UDP checksum holds, the addresses, ports and payload are those that were meant.
fn check_inner(tuple: &IpTuple, packet: &[u8], from: (IpAddr, u16), to: (IpAddr, u16), stamp: &Stamp) {
    assert_eq!((tuple.addrs.src(), tuple.src_port), from);
    assert_eq!((tuple.addrs.dst(), tuple.dst_port), to);
    let datagram = &packet[usize::from(tuple.l4_offset)..];
    let sum = udp::pseudo_header(&tuple.addrs, 17, datagram.len() as u16).bytes(datagram);
    assert_eq!(sum.folded(), 0xffff, "the UDP checksum holds");
    assert_ne!(datagram[6..8], [0, 0], "there is a UDP checksum");
    assert_eq!(payload::read(&datagram[8..]).unwrap(), *stamp);
}

proptest! {
    #[test]
    fn uplink_packets_are_read_as_they_were_meant(config in a_path(), more in 0usize..1500, sequence in any::<u64>()) {
        let path = Path::new(config).unwrap();
        let inner = path.shortest() + more;
        let stamp = Stamp { direction: Direction::Uplink, flow: 5, sequence, sent: Nanos(9) };
        let mut packet = vec![0xaa; path.uplink_length(inner)];
        path.write_uplink(&stamp, &mut packet).unwrap();
        let bytes = link(&packet);
        let Ok(Frame::Gtpu(gtpu)) = frame::parse(&bytes, bytes.len(), |_| true) else { panic!("it is GTP-U") };
        prop_assert_eq!((gtpu.outer.addrs.src(), gtpu.outer.addrs.dst()), (config.gnb.address, config.upf.address));
        prop_assert_eq!((gtpu.teid, gtpu.qfi, usize::from(gtpu.payload_len)), (config.upf.teid, config.qfi, inner));
        prop_assert_eq!(gtpu.psc.is_some(), config.qfi.is_some());
        let udp = &bytes[14 + usize::from(gtpu.outer.l4_offset)..];
        if config.upf.address.is_ipv6() {
            let sum = udp::pseudo_header(&gtpu.outer.addrs, 17, udp.len() as u16).bytes(udp);
            prop_assert_eq!(sum.folded(), 0xffff);
        } else {
            prop_assert_eq!(&udp[6..8], &[0, 0]);
        }
        let tuple = frame::parse_inner(&bytes, &gtpu).unwrap();
        let (ue_port, server_port) = path.ports(sequence);
        check_inner(&tuple, &packet[packet.len() - inner..], (config.ue, ue_port), (config.server, server_port), &stamp);

        // As a gNB gives it to a socket: the same octets behind the outer UDP header.
        let mut datagram = vec![0xbb; path.gtpu_length() + inner];
        path.write_gpdu(&stamp, &mut datagram).unwrap();
        prop_assert_eq!(&datagram[..], &udp[8..]);
    }

    #[test]
    fn downlink_packets_are_read_as_they_were_meant(config in a_path(), more in 0usize..1500, sequence in any::<u64>()) {
        let path = Path::new(config).unwrap();
        let stamp = Stamp { direction: Direction::Downlink, flow: 5, sequence, sent: Nanos(9) };
        let mut packet = vec![0xaa; path.shortest() + more];
        path.write_downlink(&stamp, &mut packet).unwrap();
        let bytes = link(&packet);
        let Ok(Frame::Ip(ip)) = frame::parse(&bytes, bytes.len(), |_| false) else { panic!("it is IP") };
        let (ue_port, server_port) = path.ports(sequence);
        check_inner(&ip.tuple, &packet, (config.server, server_port), (config.ue, ue_port), &stamp);
    }

    #[test]
    fn a_buffer_that_does_not_fit_is_refused(config in a_path(), length in 0usize..200) {
        let path = Path::new(config).unwrap();
        let stamp = Stamp { direction: Direction::Uplink, flow: 0, sequence: 0, sent: Nanos(0) };
        let mut packet = vec![0; length];
        let fits = length >= path.shortest();
        prop_assert_eq!(path.write_downlink(&stamp, &mut packet).is_some(), fits);
        let fits = length >= path.uplink_length(path.shortest());
        prop_assert_eq!(path.write_uplink(&stamp, &mut packet).is_some(), fits);
        let mut long = vec![0; 65_000];
        prop_assert!(path.write_uplink(&stamp, &mut long).is_none());
    }
}
