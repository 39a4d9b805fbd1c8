//! Octets to fields, written out by hand: whole frames, and one for each way in which a frame can be malformed.

mod common;

use std::net::IpAddr;

use packet::checksum::Sum;
use packet::eth::{Tci, Vlan};
use packet::gtpu::{ErrorIndication, Ie, MessageType, Unknown};
use packet::psc::Summary;
use packet::{Addrs, DropReason, Fragment, Frame, GtpuFrame, IpTuple, Ppi, Qfi, Teid, frame};

use common::hex;

const MACS: &str = "020000000001 020000000002";
/// 10.0.0.2 to 10.0.0.1, UDP 40000 to 2152; the lengths are for a payload of `n` octets.
fn outer_v4(n: usize) -> String {
    let (ip, udp) = (28 + n, 8 + n);
    let header = hex(&format!("45b8{ip:04x} 00004000 40110000 0a000002 0a000001"));
    let sum = packet::checksum::of(&header);
    format!("0800 45b8{ip:04x} 00004000 4011{sum:04x} 0a000002 0a000001 9c400868{udp:04x}0000")
}
/// 2001:db8::2 to 2001:db8::1, likewise.
fn outer_v6(n: usize) -> String {
    let udp = 8 + n;
    format!(
        "86dd 6b800000 {udp:04x}1140 20010db8000000000000000000000002 20010db8000000000000000000000001
         9c400868{udp:04x}0000"
    )
}
/// 10.45.0.2:1111 to 8.8.8.8:53, UDP without payload.
const INNER: &str = "4500001c 00010000 40116092 0a2d0002 08080808 0457003500080000";

fn parse(text: &str) -> Result<Frame, DropReason> {
    let bytes = hex(text);
    frame::parse(&bytes, bytes.len(), |_| true)
}

fn gtpu(text: &str) -> GtpuFrame {
    match parse(text) {
        Ok(Frame::Gtpu(gtpu)) => gtpu,
        other => panic!("{other:?}"),
    }
}

/// A frame with this GTP-U message (header included) over IPv4.
fn over_v4(message: &str) -> String {
    format!("{MACS} {} {message}", outer_v4(hex(message).len()))
}

fn inner_of(text: &str) -> Result<IpTuple, DropReason> {
    frame::parse_inner(&hex(text), &gtpu(text))
}

#[test]
fn an_uplink_g_pdu_with_a_qfi() {
    let text = over_v4(&format!("34ff0024 00002001 0000 00 85 01 10 09 00 {INNER}"));
    let bytes = hex(&text);
    let frame = gtpu(&text);
    assert_eq!(
        (frame.teid, frame.message_type),
        (Teid(0x2001), MessageType::G_PDU)
    );
    assert_eq!(
        (
            frame.l2_len,
            frame.gtpu_offset,
            frame.payload_offset,
            frame.payload_len
        ),
        (14, 42, 58, 28)
    );
    assert_eq!(
        frame.outer.addrs,
        Addrs::V4 {
            src: [10, 0, 0, 2],
            dst: [10, 0, 0, 1]
        }
    );
    assert_eq!((frame.outer.src_port, frame.outer.dst_port), (40000, 2152));
    assert_eq!((frame.outer.tos, frame.outer.ttl, frame.vlan), (0xb8, 64, None));
    assert_eq!(frame.qfi, Qfi::new(9));
    assert_eq!(frame.psc, Some(Summary::UPLINK_CONTAINER));
    assert_eq!(
        (frame.sequence, frame.has_other_extensions, frame.unknown),
        (None, false, Unknown::NONE)
    );
    assert_eq!(frame.optional_part(&bytes), hex("00000085 01100900"));
    assert_eq!(frame.verify_udp_checksum(&bytes, Sum::default(), false), Ok(()));
    let inner = frame::parse_inner(&bytes, &frame).expect("a whole packet");
    assert_eq!(
        inner.addrs,
        Addrs::V4 {
            src: [10, 45, 0, 2],
            dst: [8, 8, 8, 8]
        }
    );
    assert_eq!(
        (inner.proto, inner.src_port, inner.dst_port, inner.total_len),
        (17, 1111, 53, 28)
    );
    assert_eq!(inner.addrs.src(), IpAddr::from([10, 45, 0, 2]));
    assert_eq!(inner.addrs.dst(), IpAddr::from([8, 8, 8, 8]));
}

#[test]
fn a_downlink_g_pdu_with_rqi_over_ipv6_and_two_tags() {
    let message = format!("34ff0024 00002001 0000 00 85 01 00 49 00 {INNER}");
    let text = format!(
        "{MACS} 88a8 a005 8100 0064 {} {message}",
        outer_v6(hex(&message).len())
    );
    let frame = gtpu(&text);
    assert_eq!(
        frame.vlan,
        Some(Vlan {
            outer: Tci(0xa005),
            inner: Some(Tci(100))
        })
    );
    assert_eq!(
        (frame.l2_len, frame.gtpu_offset, frame.payload_offset),
        (22, 70, 86)
    );
    assert_eq!((frame.outer.tos, frame.outer.ttl), (0xb8, 64));
    assert_eq!(frame.psc, Some(Summary::downlink(true, None)));
    let bytes = hex(&text);
    assert_eq!(frame.verify_udp_checksum(&bytes, Sum::default(), true), Ok(()));
    let refused = frame.verify_udp_checksum(&bytes, Sum::default(), false);
    assert_eq!(refused, Err(DropReason::BadUdpChecksum));
}

#[test]
fn a_g_pdu_with_a_ppi_and_one_with_no_container() {
    let text = over_v4(&format!(
        "34ff0028 00002001 0000 00 85 02 00 c9 60 000000 00 {INNER}"
    ));
    let frame = gtpu(&text);
    assert_eq!(frame.psc, Some(Summary::downlink(true, Ppi::new(3))));
    assert_eq!(frame.payload_offset, 62);
    let frame = gtpu(&over_v4(&format!("30ff001c 00002001 {INNER}")));
    assert_eq!((frame.qfi, frame.psc, frame.payload_offset), (None, None, 50));
    let frame = gtpu(&over_v4(&format!("32ff0020 00002001 1234 00 85 {INNER}")));
    assert_eq!(
        (frame.sequence, frame.qfi, frame.payload_offset),
        (Some(0x1234), None, 54)
    );
}

#[test]
fn an_end_marker_with_a_container() {
    let frame = gtpu(&over_v4("34fe0008 00002001 0000 00 85 01 0009 00"));
    assert_eq!(
        (frame.message_type, frame.teid),
        (MessageType::END_MARKER, Teid(0x2001))
    );
    assert!(frame.message_type.is_of_a_tunnel());
    assert_eq!((frame.qfi, frame.payload_len), (Qfi::new(9), 0));
}

#[test]
fn an_echo_request() {
    let frame = gtpu(&over_v4("32010004 00000000 0007 00 00"));
    assert_eq!(
        (frame.message_type, frame.sequence),
        (MessageType::ECHO_REQUEST, Some(7))
    );
    assert_eq!(frame.payload_len, 0);
    assert_eq!(frame.message_type.name(), Some("Echo Request"));
    assert_eq!(
        format!("{:?} {:?}", frame.message_type, MessageType(77)),
        "Echo Request (1) MessageType(77)"
    );
}

#[test]
fn an_error_indication() {
    let text = over_v4("361a0014 00000000 0000 00 40 01 9c40 00 10 00002001 850004 0a000001");
    let frame = gtpu(&text);
    assert!(frame.has_other_extensions);
    let bytes = hex(&text);
    let message = frame.message(&bytes).expect("a whole message");
    let read = ErrorIndication {
        teid: Teid(0x2001),
        peer: [10, 0, 0, 1].into(),
        udp_port: Some(40000),
    };
    assert_eq!(ErrorIndication::read(&message), Ok(read));
    assert_eq!(
        message.ies().collect::<Vec<_>>(),
        [
            Ok(Ie::TeidDataI(Teid(0x2001))),
            Ok(Ie::PeerAddress([10, 0, 0, 1].into()))
        ]
    );
    for (ies, reason) in [
        ("10 00002001", DropReason::BadGtpuIe),
        ("850004 0a000001", DropReason::BadGtpuIe),
        ("10 0000", DropReason::BadGtpuIe),
    ] {
        let text = over_v4(&format!("321a{:04x} 00000000 00000000 {ies}", 4 + hex(ies).len()));
        let bytes = hex(&text);
        let message = gtpu(&text).message(&bytes).expect("a whole message");
        assert_eq!(ErrorIndication::read(&message), Err(reason));
    }
}

#[test]
fn unknown_extension_headers_say_which_nodes_reject_them() {
    let unknown = |kind: u8| {
        let text = over_v4(&format!(
            "34ff0028 00002001 000000 {kind:02x} 01 0000 85 01 1009 00 {INNER}"
        ));
        let frame = gtpu(&text);
        assert_eq!((frame.qfi, frame.has_other_extensions), (Qfi::new(9), true));
        (
            frame.unknown.any(),
            frame.unknown.refused_by_endpoint(),
            frame.unknown.refused_by_intermediate(),
        )
    };
    assert_eq!(unknown(0x05), (true, false, false));
    assert_eq!(unknown(0x45), (true, false, false));
    assert_eq!(unknown(0x8f), (true, true, false));
    assert_eq!(unknown(0xcf), (true, true, true));
    assert_eq!(unknown(0xc0), (false, false, false));
}

#[test]
fn which_packets_are_gtpu() {
    let text = over_v4(&format!("30ff001c 00002001 {INNER}"));
    let bytes = hex(&text);
    let plain = frame::parse(&bytes, bytes.len(), |outer| {
        outer.addrs.dst() == IpAddr::from([10, 0, 0, 9])
    });
    let Ok(Frame::Ip(ip)) = plain else {
        panic!("{plain:?}")
    };
    assert_eq!(
        (ip.tuple.dst_port, ip.ip_offset(), ip.l4_offset()),
        (2152, 14, 34)
    );
    assert!(ip.may_be_gtpu());
}

#[test]
fn fragments_are_flagged_and_never_gtpu() {
    for (flags, fragment, port) in [("2000", Fragment::First, 2152), ("20b9", Fragment::Later, 0)] {
        let header = hex(&format!("45000024 0001{flags} 40110000 0a000002 0a000001"));
        let sum = packet::checksum::of(&header);
        let text = format!(
            "{MACS} 0800 45000024 0001{flags} 4011{sum:04x} 0a000002 0a000001 9c40086800100000 30ff0000 00002001"
        );
        let Ok(Frame::Ip(ip)) = parse(&text) else {
            panic!("{text}")
        };
        assert_eq!((ip.tuple.fragment, ip.tuple.dst_port), (fragment, port));
        assert!(!ip.may_be_gtpu());
    }
}

#[test]
fn arp_and_others() {
    assert_eq!(
        parse(&format!("{MACS} 8100 0007 0806")),
        Ok(Frame::Arp {
            l2_len: 18,
            vlan: Some(Vlan {
                outer: Tci(7),
                inner: None
            }),
        })
    );
    assert_eq!(parse(&format!("{MACS} 8809 01")), Ok(Frame::Other(0x8809)));
    assert_eq!(parse(&format!("{MACS} 0026 4242")), Ok(Frame::Other(0x26)));
}

#[test]
fn malformed_outer_headers() {
    let v4 = |rest: &str| parse(&format!("{MACS} 0800 {rest}"));
    let v6 = |rest: &str| parse(&format!("{MACS} 86dd {rest}"));
    let v6_addrs = "20010db8000000000000000000000002 20010db8000000000000000000000001";
    let udp = "9c400868";
    assert_eq!(parse("0200"), Err(DropReason::TruncatedEthernet));
    assert_eq!(
        parse(&format!("{MACS} 8100 00")),
        Err(DropReason::TruncatedEthernet)
    );
    assert_eq!(v4(""), Err(DropReason::TruncatedIpv4));
    assert_eq!(v4("45000014"), Err(DropReason::TruncatedIpv4));
    assert_eq!(
        v4("65000014 00000000 40110000 0a000002 0a000001"),
        Err(DropReason::BadIpv4Header)
    );
    assert_eq!(
        v4("44000014 00000000 40110000 0a000002 0a000001"),
        Err(DropReason::BadIpv4Header)
    );
    assert_eq!(
        v4("45000014 00000000 40110000 0a000002 0a000001"),
        Err(DropReason::BadIpv4Checksum)
    );
    // Total length 19, and 21 where 20 octets were received.
    assert_eq!(
        v4("45000013 00000000 401166d8 0a000002 0a000001"),
        Err(DropReason::BadIpLength)
    );
    assert_eq!(
        v4("45000015 00000000 401166d6 0a000002 0a000001"),
        Err(DropReason::BadIpLength)
    );
    assert_eq!(
        v4("45000018 00000000 401166d3 0a000002 0a000001 9c400868"),
        Err(DropReason::TruncatedUdp)
    );
    assert_eq!(
        v4("45000018 00000000 400666de 0a000002 0a000001 9c400868"),
        Err(DropReason::TruncatedTcp)
    );
    assert_eq!(
        v4("45000018 00000000 40846660 0a000002 0a000001 9c400868"),
        Err(DropReason::TruncatedTransport)
    );
    assert_eq!(v6(""), Err(DropReason::TruncatedIpv6));
    assert_eq!(v6("60000000"), Err(DropReason::TruncatedIpv6));
    assert_eq!(
        v6(&format!("40000000 00001140 {v6_addrs}")),
        Err(DropReason::BadIpv6Header)
    );
    assert_eq!(
        v6(&format!("60000000 00011140 {v6_addrs}")),
        Err(DropReason::BadIpLength)
    );
    assert_eq!(
        v6(&format!("60000000 ffff1140 {v6_addrs}")),
        Err(DropReason::BadIpLength)
    );
    assert_eq!(
        v6(&format!("60000000 00080040 {v6_addrs} 11010000 00000000")),
        Err(DropReason::Ipv6ExtensionChain)
    );
    assert_eq!(
        v6(&format!("60000000 00041140 {v6_addrs} {udp}")),
        Err(DropReason::TruncatedUdp)
    );
    assert_eq!(
        v6(&format!("60000000 00081140 {v6_addrs} {udp} 00070000")),
        Err(DropReason::BadUdpLength)
    );
    assert_eq!(
        v6(&format!("60000000 00081140 {v6_addrs} {udp} 00090000")),
        Err(DropReason::BadUdpLength)
    );
}

#[test]
fn malformed_gtpu() {
    let message = |text: &str| parse(&over_v4(text));
    assert_eq!(message("30ff0000 000020"), Err(DropReason::TruncatedGtpu));
    let padded = over_v4("30ff00") + &"00".repeat(15);
    assert_eq!(
        parse(&padded),
        Err(DropReason::TruncatedGtpu),
        "padding is no header"
    );
    assert_eq!(message("50ff0000 00002001"), Err(DropReason::BadGtpuVersion));
    assert_eq!(message("20ff0000 00002001"), Err(DropReason::BadGtpuVersion));
    assert_eq!(message("30ff0001 00002001"), Err(DropReason::BadGtpuLength));
    assert_eq!(
        message("34ff0003 00002001 000000"),
        Err(DropReason::BadGtpuLength)
    );
    assert_eq!(
        message("34ff0009 00002001 00000085 01100900"),
        Err(DropReason::BadGtpuLength)
    );
    assert_eq!(
        message("34ff0004 00002001 00000085"),
        Err(DropReason::BadGtpuExtension)
    );
    assert_eq!(
        message("34ff0008 00002001 00000085 00100900"),
        Err(DropReason::BadGtpuExtension)
    );
    assert_eq!(
        message("34ff0008 00002001 00000085 02100900"),
        Err(DropReason::BadGtpuExtension)
    );
    assert_eq!(
        message("34ff0008 00002001 00000085 01200900"),
        Err(DropReason::BadPduSessionContainer)
    );
    assert_eq!(
        message("34ff0008 00002001 00000085 01110900"),
        Err(DropReason::BadPduSessionContainer)
    );
    assert_eq!(
        message("34ff0008 00002001 00000085 01008900"),
        Err(DropReason::BadPduSessionContainer)
    );
}

#[test]
fn malformed_user_packets() {
    let g_pdu = |inner: &str| {
        inner_of(&over_v4(&format!(
            "30ff{:04x} 00002001 {inner}",
            hex(inner).len()
        )))
    };
    assert_eq!(g_pdu(""), Err(DropReason::EmptyTunnelPayload));
    assert_eq!(g_pdu("00"), Err(DropReason::UnknownInnerProtocol));
    assert_eq!(g_pdu("ffffffffffff"), Err(DropReason::UnknownInnerProtocol));
    assert_eq!(g_pdu("45"), Err(DropReason::TruncatedIpv4));
    assert_eq!(g_pdu("60"), Err(DropReason::TruncatedIpv6));
    assert_eq!(g_pdu("41"), Err(DropReason::TruncatedIpv4));
    assert_eq!(
        g_pdu("41000014 00010000 40ff0000 0a2d0002 08080808"),
        Err(DropReason::BadIpv4Header)
    );
    assert_eq!(
        g_pdu("45000014 00010000 40ff0000 0a2d0002 08080808"),
        Err(DropReason::BadIpv4Checksum)
    );
    assert!(g_pdu(INNER).is_ok());
}

#[test]
fn spi_and_flow_label_are_read() {
    let tuple = |text: &str| {
        let bytes = hex(text);
        IpTuple::parse(&bytes, bytes.len()).expect("a whole packet")
    };
    let esp = tuple("4500001c 00010000 40320000 0a2d0002 08080808 11223344 0a0b0c0d");
    assert_eq!((esp.proto, esp.spi, esp.src_port), (50, 0x1122_3344, 0));
    let ah = tuple(
        "6 12 abcde 00103340 20010db8000000000000000000000002 20010db8000000000000000000000001
         06020000 11223344 00000001 00000000",
    );
    assert_eq!(
        (ah.proto, ah.spi, ah.flow_label, ah.tos),
        (51, 0x1122_3344, 0xabcde, 0x12)
    );
    assert_eq!((ah.l4_offset, ah.l4_len()), (40, 16));
    let sctp = tuple("46000024 00010000 40840000 0a2d0002 08080808 01010101 0b590b5a 00000000 00000000");
    assert_eq!((sctp.src_port, sctp.dst_port, sctp.l4_offset), (2905, 2906, 24));
}
