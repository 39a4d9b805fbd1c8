//! Nothing that is received can make a parser panic, and what a parser says about a packet holds.

mod common;

use packet::checksum::Sum;
use packet::eth::L2;
use packet::gtpu::{ErrorIndication, ExtensionType, Ies, Message, MessageType};
use packet::icmp::{self, Neighbour};
use packet::preview::{self, Previewed};
use packet::psc::{PduSessionContainer, Summary};
use packet::{
    Addrs, DropReason, Fragment, Frame, IpTuple, PacketBuf, VecBuf, arp, common_gtpu_form, frame, ipv4, ipv6,
    tcp, udp,
};
use proptest::prelude::*;

use common::{any_frame, damaged, g_pdu, good_frame, marking, user_packet};

/// Everything that a worker could do with the packet at `bytes[0]`, for panics.
fn do_everything_to_ip(bytes: &[u8], available: usize) {
    let _ = ipv4::verify_header(bytes);
    let _ = ipv6::upper_layer(bytes, available);
    ipv4::Options::new(bytes).for_each(drop);
    tcp::Options::new(bytes).for_each(drop);
    for change in [ipv4::decrement_ttl, ipv6::decrement_hop_limit] {
        let _ = change(&mut bytes.to_vec());
    }
    let Ok(tuple) = IpTuple::parse(bytes, available) else {
        return;
    };
    let l4 = bytes.get(usize::from(tuple.l4_offset)..).unwrap_or_default();
    let _ = udp::verify_checksum(&tuple.addrs, l4, Sum::default(), true);
    let _ = tcp::Header::parse(l4, tuple.l4_len());
    let _ = tcp::checksum_is_right(&tuple.addrs, l4);
    let _ = icmp::Header::parse(&tuple.addrs, l4);
    let _ = Neighbour::parse(bytes, &tuple);
    let mut copy = bytes.to_vec();
    let _ = icmp::echo_reply_in_place(&mut copy, &tuple);
    let _ = icmp::IcmpError::TTL_EXPIRED_V4.write(&mut [0; 600], [10, 0, 0, 1].into(), bytes, &tuple);
    let _ = icmp::IcmpError::HOP_LIMIT_EXPIRED_V6.write(&mut [0; 1400], [1; 16].into(), bytes, &tuple);
}

fn do_everything_to_gtpu(bytes: &[u8], available: usize) {
    let Ok(message) = Message::parse(bytes, available) else {
        return;
    };
    message.ies().for_each(drop);
    let _ = ErrorIndication::read(&message);
    for header in message.extensions {
        assert!(header.content.len() % 4 == 2);
        let _ = PduSessionContainer::parse(header.content);
    }
    assert!(message.payload_offset + message.payload_len <= available);
}

/// Makes the checksum of the IPv4 header without options right that starts there.
fn mend_checksum(bytes: &mut [u8], start: usize) {
    if let Some(header) = bytes.get_mut(start..start + 20) {
        header[10..12].fill(0);
        let sum = Sum::default().bytes(header).checksum();
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// What a look finds of a UDP datagram or TCP segment over IPv4.
fn previewed(tuple: &IpTuple) -> Option<Previewed> {
    let Addrs::V4 { src, dst } = tuple.addrs else {
        return None;
    };
    matches!(tuple.proto, 6 | 17).then_some(Previewed {
        source: src,
        destination: dst,
        ports: [tuple.src_port, tuple.dst_port],
        protocol: tuple.proto,
        tos: tuple.tos,
    })
}

proptest! {
    #![proptest_config(common::config(2000))]

    #[test]
    fn no_frame_makes_a_parser_panic(bytes in any_frame(), more in 0..100usize, start in 0..60usize) {
        let len = bytes.len() + more;
        let _ = frame::parse(&bytes, len, |_| true);
        let _ = frame::parse(&bytes, bytes.len(), |_| false);
        let _ = arp::Packet::parse(&bytes);
        let _ = PduSessionContainer::parse(&bytes);
        Ies::new(&bytes).for_each(drop);
        if let Some(rest) = bytes.get(start..) {
            do_everything_to_ip(rest, rest.len() + more);
            do_everything_to_gtpu(rest, rest.len() + more);
        }
    }

    /// `usual` recognises what it says, and reads it as `frame` does.
    #[test]
    fn the_usual_form_is_read_as_any_other(bytes in prop_oneof![g_pdu(), damaged(g_pdu())], more in 0..3usize) {
        let Some(usual) = common_gtpu_form::parse(&bytes, bytes.len() + more) else { return Ok(()) };
        let framed = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0], &bytes[..]].concat();
        let Ok(Frame::Gtpu(gtpu)) = frame::parse(&framed, framed.len() + more, |_| true) else {
            return Err(TestCaseError::fail("no GTP-U"));
        };
        prop_assert_eq!(gtpu.message_type, MessageType::G_PDU);
        prop_assert_eq!(gtpu.outer.addrs.dst(), std::net::IpAddr::from(usual.destination));
        prop_assert_eq!((gtpu.teid, gtpu.qfi), (usual.teid, usual.qfi));
        prop_assert_eq!(gtpu.payload_offset, usual.offset + 14);
        prop_assert!(!gtpu.unknown.any() && !gtpu.has_other_extensions && gtpu.sequence.is_none());
        prop_assert_eq!(frame::parse_inner(&framed, &gtpu), Ok(usual.tuple));
    }

    /// A look at headers finds what parsing reads where checksums are right.
    #[test]
    fn a_preview_is_what_is_parsed(bytes in prop_oneof![g_pdu(), damaged(g_pdu())], more in 0..3usize) {
        let mut bytes = bytes;
        for start in [0, if bytes.get(28) == Some(&0x34) { 44 } else { 36 }] {
            mend_checksum(&mut bytes, start);
        }
        let available = bytes.len() + more;
        let parsed = common_gtpu_form::parse(&bytes, available);
        let parsed = parsed.map(|found| (found.destination, found.teid, found.qfi, previewed(&found.tuple)));
        let found = preview::gpdu(&bytes, available);
        let found = found.map(|found| (found.destination, found.teid, found.qfi, Some(found.inner)));
        prop_assert_eq!(found, parsed);
    }

    #[test]
    fn a_preview_of_a_plain_packet_is_what_is_parsed(
        bytes in prop_oneof![user_packet(), damaged(user_packet())],
        more in 0..3usize,
    ) {
        let parsed = IpTuple::parse(&bytes, bytes.len() + more).ok();
        let is_common = bytes.first() == Some(&0x45) && bytes.len() >= 28;
        let parsed = parsed.filter(|tuple| is_common && tuple.fragment == Fragment::None);
        let found = preview::plain(&bytes, bytes.len() + more);
        prop_assert_eq!(found, parsed.and_then(|tuple| previewed(&tuple)));
    }

    #[test]
    fn no_packet_makes_a_parser_panic(bytes in damaged(user_packet()), more in 0..3usize) {
        do_everything_to_ip(&bytes, bytes.len() + more);
    }

    #[test]
    fn no_tunnelled_packet_makes_a_parser_panic(bytes in damaged(g_pdu()), more in 0..3usize) {
        do_everything_to_ip(&bytes, bytes.len() + more);
        for start in [28, 48] {
            let bytes = bytes.get(start..).unwrap_or_default();
            do_everything_to_gtpu(bytes, bytes.len() + more);
        }
    }

    /// All offsets of a frame lie within it, and the lengths add up.
    #[test]
    fn a_frame_is_within_its_octets(bytes in any_frame()) {
        match frame::parse(&bytes, bytes.len(), |_| true) {
            Ok(Frame::Gtpu(gtpu)) => {
                let end = usize::from(gtpu.payload_offset) + usize::from(gtpu.payload_len);
                prop_assert!(end <= bytes.len());
                prop_assert!(gtpu.gtpu_offset + 8 <= gtpu.payload_offset);
                prop_assert_eq!(gtpu.l2_len + gtpu.outer.l4_offset + 8, gtpu.gtpu_offset);
                if let Ok(inner) = frame::parse_inner(&bytes, &gtpu) {
                    prop_assert!(inner.l4_offset <= inner.total_len);
                    prop_assert!(inner.total_len <= gtpu.payload_len);
                }
            }
            Ok(Frame::Ip(ip)) => {
                prop_assert!(ip.ip_offset() + usize::from(ip.tuple.total_len) <= bytes.len());
                prop_assert!(ip.tuple.l4_offset <= ip.tuple.total_len);
            }
            Ok(Frame::Arp { l2_len, .. }) => prop_assert!(usize::from(l2_len) <= bytes.len()),
            Ok(Frame::Other(_)) | Err(_) => {}
        }
    }

    /// The shortcut of the packet path says what the general parser says.
    #[test]
    fn the_shortcut_equals_the_general_parser(bytes in any_frame()) {
        let Ok(Frame::Ip(ip)) = frame::parse(&bytes, bytes.len(), |_| false) else { return Ok(()) };
        if !ip.may_be_gtpu() {
            return Ok(());
        }
        let datagram = &bytes[ip.l4_offset()..];
        let fast = frame::GtpuFrame::parse(&bytes, &ip);
        let general = udp::announced_len(datagram, ip.tuple.l4_len())
            .and_then(|len| Message::parse(&datagram[8..], len - 8));
        match (fast, general) {
            (Ok(fast), Ok(message)) => {
                prop_assert_eq!(fast.teid, message.teid);
                prop_assert_eq!(fast.message_type, message.message_type);
                prop_assert_eq!(fast.sequence, message.sequence);
                prop_assert_eq!(usize::from(fast.payload_offset - fast.gtpu_offset), message.payload_offset);
                prop_assert_eq!(usize::from(fast.payload_len), message.payload_len);
                prop_assert_eq!(fast.unknown, message.extensions.unknown());
                let container = message.extensions.find(ExtensionType::PDU_SESSION_CONTAINER);
                let container = container.map(|content| PduSessionContainer::parse(content).unwrap());
                prop_assert_eq!(fast.qfi, container.map(|container| container.qfi()));
                prop_assert_eq!(fast.psc, container.map(|container| container.summary()));
                let others = message.extensions.iter().count() > usize::from(container.is_some());
                prop_assert_eq!(fast.has_other_extensions, others);
                let again = fast.message(&bytes).expect("it was parsed once");
                prop_assert_eq!(again.payload_offset, message.payload_offset);
            }
            (Err(DropReason::BadPduSessionContainer), Ok(message)) => {
                let container = message.extensions.find(ExtensionType::PDU_SESSION_CONTAINER);
                prop_assert!(container.is_some_and(|content| PduSessionContainer::parse(content).is_err()));
            }
            (fast, general) => prop_assert_eq!(fast.err(), general.err()),
        }
    }

    #[test]
    fn the_summary_equals_the_whole_container(
        content in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..60),
            (0..0x20u8, prop::collection::vec(any::<u8>(), 0..60))
                .prop_map(|(first, rest)| [&[first][..], &rest].concat()),
        ]
    ) {
        let whole = PduSessionContainer::parse(&content).map(|read| (read.qfi(), read.summary()));
        prop_assert_eq!(Summary::parse(&content), whole);
    }

    /// A container that was read is written with the same content, but for bits and fields of later releases.
    #[test]
    fn a_container_survives_a_round_trip(
        first in 0..0x20u8, rest in prop::collection::vec(any::<u8>(), 61..80)
    ) {
        let content = [&[first][..], &rest].concat();
        if let Ok(container) = PduSessionContainer::parse(&content) {
            let mut out = [0; 128];
            let len = container.write(&mut out).expect("there is room");
            prop_assert_eq!(PduSessionContainer::parse(&out[..len]), Ok(container));
        }
    }

    /// A chained buffer, whose first part ends behind the headers, parses as the whole packet does.
    #[test]
    fn a_packet_in_pieces_parses_the_same(bytes in good_frame()) {
        let whole = frame::parse(&bytes, bytes.len(), |_| true).expect("a good frame");
        let headers = match whole {
            Frame::Gtpu(gtpu) => usize::from(gtpu.payload_offset),
            Frame::Ip(ip) => (ip.l4_offset() + 8).min(bytes.len()),
            _ => bytes.len(),
        };
        prop_assert_eq!(frame::parse(&bytes[..headers], bytes.len(), |_| true), Ok(whole));
    }

    /// Taking the outer headers off leaves the user's packet.
    #[test]
    fn decapsulation_leaves_the_inner_packet(bytes in g_pdu(), mark in marking()) {
        let frame = common::frame_around(None, &bytes);
        let Ok(Frame::Gtpu(gtpu)) = frame::parse(&frame, frame.len(), |_| true) else {
            return Err(TestCaseError::fail("no GTP-U"));
        };
        let mut buf = VecBuf::new(&frame);
        prop_assert!(buf.trim_front(gtpu.payload_offset.into()) && buf.truncate(gtpu.payload_len.into()));
        let inner = buf.data().to_vec();
        prop_assert!(bytes.ends_with(&inner));
        let encap = packet::build::GtpuEncap::new(gtpu.outer.addrs, gtpu.teid);
        let again = packet::build::packet::g_pdu(&encap, Some(mark), &inner).expect("short");
        let frame = common::frame_around(None, &again);
        let Ok(Frame::Gtpu(gtpu)) = frame::parse(&frame, frame.len(), |_| true) else {
            return Err(TestCaseError::fail("no GTP-U"));
        };
        prop_assert_eq!(gtpu.qfi, Some(mark.qfi));
        prop_assert_eq!(frame::parse_inner(&frame, &gtpu), IpTuple::parse(&inner, inner.len()));
    }

    #[test]
    fn l2_lengths_are_14_18_or_22(bytes in any_frame()) {
        if let Ok(l2) = L2::parse(&bytes) {
            let tags = l2.vlan.map_or(0, |vlan| 1 + u16::from(vlan.inner.is_some()));
            prop_assert_eq!(l2.len, 14 + 4 * tags);
        }
    }
}
