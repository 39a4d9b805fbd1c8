//! What the builders write: octet by octet, against a slow twin, and read back by the parsers.

mod common;

use std::net::IpAddr;

use packet::build::{
    Envelope, GtpuEncap, GtpuTemplate, Marking, PerPacket, RelayedContainer, RelayedOptionalPart,
    TEMPLATE4_LEN, TEMPLATE6_LEN, echo_request, echo_response, end_marker, error_indication,
    fill_udp_checksum, packet as make, relay_optional_part, supported_extension_headers_notification,
};
use packet::checksum::Sum;
use packet::gtpu::{
    ErrorIndication, ExtensionHeader, ExtensionType, Ie, Message, MessageType, SUPPORTED_EXTENSIONS,
};
use packet::psc::PduType;
use packet::{Addrs, DropReason, Frame, GtpuFrame, Ppi, Qfi, Teid, frame, ipv4, udp};
use proptest::prelude::*;

use common::{addrs, frame_around, hex, marking};

const NODE: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];

fn qfi(value: u8) -> Qfi {
    Qfi::new(value).expect("0..=63")
}

fn tunnel() -> GtpuEncap {
    GtpuEncap::new(Addrs::V4 { src: NODE, dst: PEER }, Teid(0x2001))
}

/// The frame around an IP packet, read back.
fn read(ip: &[u8]) -> (Vec<u8>, GtpuFrame) {
    let frame = frame_around(None, ip);
    let gtpu = match frame::parse(&frame, frame.len(), |_| true) {
        Ok(Frame::Gtpu(gtpu)) => gtpu,
        // A response goes to whatever port the request came from.
        Ok(Frame::Ip(ip)) => GtpuFrame::parse(&frame, &ip).expect("GTP-U"),
        other => panic!("{other:?}"),
    };
    (frame, gtpu)
}

/// Writes into a buffer, reads back, verifies the UDP checksum, and tries every shorter buffer.
fn written(write: impl Fn(&mut [u8]) -> Option<usize>) -> (Vec<u8>, GtpuFrame) {
    let mut out = [0xee; 256];
    let len = write(&mut out).expect("there is room");
    for short in 0..len {
        assert_eq!(write(&mut out[..short]), None);
    }
    write(&mut out);
    let (frame, gtpu) = read(&out[..len]);
    assert_eq!(gtpu.verify_udp_checksum(&frame, Sum::default(), false), Ok(()));
    (frame, gtpu)
}

#[test]
fn a_template_octet_by_octet() {
    let template = GtpuTemplate::new(&tunnel());
    let marking = Marking {
        rqi: true,
        ..Marking::downlink(qfi(9))
    };
    let mut out = vec![0xee; template.header_len(Some(marking))];
    assert_eq!(template.apply(&mut out, 28, Some(marking)), Ok(()));
    assert_eq!(
        out,
        hex("45000048 00004000 401126a3 0a000001 0a000002
             08680868 00340000 34ff0024 00002001 00000085 01004900")
    );
    let paging = Marking {
        ppi: Ppi::new(3),
        ..marking
    };
    let mut out = vec![0xee; template.header_len(Some(paging))];
    assert_eq!(template.apply(&mut out, 28, Some(paging)), Ok(()));
    assert_eq!(out[28..], hex("34ff0028 00002001 00000085 0200c960 00000000"));
    let mut out = vec![0xee; template.header_len(None)];
    assert_eq!(template.apply(&mut out, 28, None), Ok(()));
    assert_eq!(out[28..], hex("30ff001c 00002001"));
    let mut out = vec![0xee; template.header_len(Some(Marking::uplink(qfi(9))))];
    assert_eq!(
        template.apply(&mut out, 28, Some(Marking::uplink(qfi(9)))),
        Ok(())
    );
    assert_eq!(out[28..], hex("34ff0024 00002001 00000085 01100900"));
    assert_eq!(
        (template.needs_udp_checksum(), TEMPLATE4_LEN, TEMPLATE6_LEN),
        (false, 36, 56)
    );
}

#[test]
fn a_template_refuses_what_does_not_fit() {
    let template = GtpuTemplate::new(&tunnel());
    let marking = Some(Marking::downlink(qfi(1)));
    let mut out = [0; 64];
    for (len, marking, inner, result) in [
        (35, None, 0, Err(DropReason::NoHeadroom)),
        (43, marking, 0, Err(DropReason::NoHeadroom)),
        (45, marking, 0, Err(DropReason::NoHeadroom)),
        (36, marking, 0, Err(DropReason::NoHeadroom)),
        (36, None, 65_499, Ok(())),
        (36, None, 65_500, Err(DropReason::TooBig)),
        (44, marking, 65_492, Err(DropReason::TooBig)),
        (44, marking, usize::MAX, Err(DropReason::TooBig)),
    ] {
        assert_eq!(
            template.apply(&mut out[..len], inner, marking),
            result,
            "{len} {inner}"
        );
    }
    assert_eq!(
        fill_udp_checksum(&mut [0x45; 10], Sum::default()),
        Err(DropReason::BadIpv4Header)
    );
    assert_eq!(
        fill_udp_checksum(&mut [], Sum::default()),
        Err(DropReason::BadIpv4Header)
    );
    assert_eq!(
        udp::leave_checksum(&tunnel().addrs, &mut [0; 7]),
        None,
        "shorter than a header"
    );
}

proptest! {
    /// A port sums up the datagram with what the field holds, and knows nothing of addresses.
    #[test]
    fn a_checksum_that_is_left_to_a_port_comes_out_the_same(
        addrs in addrs(), teid: u32, payload in prop::collection::vec(any::<u8>(), 0..300)
    ) {
        let template = GtpuTemplate::new(&GtpuEncap::new(addrs, Teid(teid)));
        let mut ours = vec![0; template.header_len(None)];
        template.apply(&mut ours, payload.len(), None).expect("it fits");
        let mut left = ours.clone();
        fill_udp_checksum(&mut ours, Sum::default().bytes(&payload)).expect("headers");
        let at = if addrs.is_v4() { 20 } else { 40 };
        udp::leave_checksum(&addrs, &mut left[at..]).expect("headers");
        let summed = Sum::default().bytes(&left[at..]).bytes(&payload).udp_checksum();
        left[at + 6..at + 8].copy_from_slice(&summed.to_be_bytes());
        prop_assert_eq!(left, ours);
    }
}

#[test]
fn tunnels_are_between_addresses_of_one_family() {
    let (v4, v6) = (IpAddr::from(NODE), IpAddr::from([1; 16]));
    assert_eq!(GtpuEncap::between(v4, PEER.into(), Teid(0x2001)), Some(tunnel()));
    assert!(GtpuEncap::between(v6, v6, Teid(1)).is_some());
    assert_eq!(GtpuEncap::between(v4, v6, Teid(1)), None);
}

#[test]
fn echo_request_and_response() {
    let envelope = Envelope::between(Addrs::V4 { src: PEER, dst: NODE });
    let from_any_port = Envelope {
        src_port: 40_000,
        ..envelope
    };
    let (_, request) = written(|out| echo_request(out, &from_any_port, 7));
    assert_eq!(
        (request.message_type, request.sequence),
        (MessageType::ECHO_REQUEST, Some(7))
    );
    let back = Envelope::response_to(&request);
    assert_eq!(
        (back.src_port, back.dst_port, back.addrs),
        (2152, 40_000, Addrs::V4 { src: NODE, dst: PEER })
    );
    let (frame, response) = written(|out| echo_response(out, &back, 7));
    assert_eq!(frame[42..56], hex("32020006 00000000 00070000 0e00"));
    assert_eq!(
        (response.message_type, response.sequence),
        (MessageType::ECHO_RESPONSE, Some(7))
    );
    assert_eq!(response.teid, Teid::ZERO);
}

#[test]
fn error_indications() {
    for (addrs, len) in [
        (Addrs::V4 { src: NODE, dst: PEER }, 24),
        (
            Addrs::V6 {
                src: [1; 16],
                dst: [2; 16],
            },
            36,
        ),
    ] {
        let g_pdu = make::g_pdu(&GtpuEncap::new(addrs, Teid(0x2001)), None, &[0x45]).expect("short");
        let (_, g_pdu) = read(&g_pdu);
        let envelope = Envelope::notice_about(&g_pdu);
        let peer = g_pdu.outer.addrs.dst();
        for udp_port in [None, Some(40_000)] {
            let (frame, read) = written(|out| error_indication(out, &envelope, g_pdu.teid, peer, udp_port));
            let message = read.message(&frame).expect("a whole message");
            assert_eq!(
                ErrorIndication::read(&message),
                Ok(ErrorIndication {
                    teid: Teid(0x2001),
                    peer,
                    udp_port
                })
            );
            assert_eq!((read.teid, read.sequence), (Teid::ZERO, Some(0)));
            assert_eq!(read.outer.addrs.dst(), addrs.src());
            let headers = if udp_port.is_some() { 8 } else { 4 };
            assert_eq!(usize::from(read.payload_len) + headers, len - 12 + headers);
        }
    }
}

#[test]
fn end_markers_with_and_without_a_container() {
    let envelope = Envelope::between(tunnel().addrs);
    let (frame, read) = written(|out| end_marker(out, &envelope, Teid(0x2001), None));
    assert_eq!(frame[42..50], hex("30fe0000 00002001"));
    assert_eq!(read.qfi, None);
    let marking = Some(Marking::downlink(qfi(9)));
    let (frame, _) = written(|out| end_marker(out, &envelope, Teid(0x2001), marking));
    assert_eq!(frame[42..58], hex("34fe0008 00002001 0000 00 85 01 0009 00"));
    let paging = Some(Marking {
        ppi: Ppi::new(7),
        ..Marking::downlink(qfi(9))
    });
    let (_, read) = written(|out| end_marker(out, &envelope, Teid(0x2001), paging));
    assert_eq!(read.psc.and_then(|psc| psc.ppi()), Ppi::new(7));
    // The template's way makes the same message.
    let packet = PerPacket {
        message_type: MessageType::END_MARKER,
        ..PerPacket::default()
    };
    let (_, again) = self::read(&make::tunnelled(&tunnel(), paging, &packet, &[]).expect("short"));
    assert_eq!(
        (again.message_type, again.psc, again.payload_len),
        (read.message_type, read.psc, 0)
    );
}

#[test]
fn a_notification_lists_the_supported_types() {
    let envelope = Envelope::between(tunnel().addrs);
    let (frame, read) = written(|out| supported_extension_headers_notification(out, &envelope));
    assert_eq!(
        read.message_type,
        MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION
    );
    let message = read.message(&frame).expect("a whole message");
    let types = SUPPORTED_EXTENSIONS.map(|kind| kind.0);
    assert_eq!(
        message.ies().collect::<Vec<_>>(),
        [Ok(Ie::ExtensionHeaderTypeList(&types))]
    );
}

/// Relays `message` and gives its new flags and optional part.
fn relayed(message: &str, container: RelayedContainer) -> Result<(u8, Vec<u8>), DropReason> {
    let bytes = hex(message);
    let message = Message::parse(&bytes, bytes.len()).expect("a whole message");
    let mut out = [0xee; 64];
    let RelayedOptionalPart { flags, octets: len } =
        relay_optional_part(&message, container, None, &mut out)?;
    for short in 0..len {
        let again = relay_optional_part(&message, container, None, &mut out[..short].to_vec());
        assert_eq!(again, Err(DropReason::NoHeadroom));
    }
    Ok((flags, out[..len].to_vec()))
}

#[test]
fn a_header_that_is_added_takes_the_place_of_those_of_its_type() {
    let added = ExtensionHeader {
        kind: ExtensionType::SERVICE_CLASS_INDICATOR,
        content: &[7, 0],
    };
    let relay = |message: &str, container, octets: &str| {
        let bytes = hex(message);
        let message = Message::parse(&bytes, bytes.len()).expect("a whole message");
        let mut out = [0xee; 64];
        let RelayedOptionalPart { flags, octets: len } =
            relay_optional_part(&message, container, Some(added), &mut out).expect("room");
        assert_eq!((flags, &out[..len]), (4, &hex(octets)[..]));
    };
    relay("30ff0000 00000001", RelayedContainer::Keep, "00000020 01070000");
    // A container, another service class, an N-PDU number for PDCP.
    let all = "34ff0010 00000001 00000085 01100920 018500c0 01000700";
    relay(all, RelayedContainer::Keep, "00000085 01100920 010700c0 01000700");
    relay(all, RelayedContainer::Delete, "00000020 010700c0 01000700");
}

#[test]
fn a_relay_keeps_what_is_not_for_it() {
    let replace = RelayedContainer::Replace(Marking::uplink(qfi(5)));
    let relay = |message, container, flags, octets: &str| {
        assert_eq!(relayed(message, container), Ok((flags, hex(octets))), "{message}");
    };
    // Nothing optional.
    relay("30ff0000 00000001", RelayedContainer::Keep, 0, "");
    relay("30ff0000 00000001", replace, 4, "00000085 01100500");
    // A container alone.
    let container = "34ff0008 00000001 00000085 01100900";
    relay(container, RelayedContainer::Keep, 4, "00000085 01100900");
    relay(container, RelayedContainer::Delete, 0, "");
    relay(container, replace, 4, "00000085 01100500");
    // Sequence number, N-PDU number, NR RAN container before the container.
    let long = "37ff0010 00000001 12347785 01100984 02aabbcc ddeeff00";
    let rest = "02aabbcc ddeeff00";
    relay(
        long,
        RelayedContainer::Keep,
        7,
        &format!("12347785 01100984 {rest}"),
    );
    // Two containers, behind another header: the first of them, first.
    let two = "34ff0010 00000001 00000084 01aaaa85 01100985 01100a00";
    relay(two, RelayedContainer::Keep, 4, "00000085 01100984 01aaaa00");
    relay(long, RelayedContainer::Delete, 7, &format!("12347784 {rest}"));
    relay(long, replace, 7, &format!("12347785 01100584 {rest}"));
    // Unknown ones: forward, discard, endpoint.
    let unknown = "34ff0010 00000001 00000005 01aaaa45 01bbbb8f 01cccc00";
    relay(unknown, RelayedContainer::Delete, 4, "00000005 01aaaa8f 01cccc00");
    let refused = "34ff0008 00000001 000000cf 01aaaa00";
    assert_eq!(
        relayed(refused, RelayedContainer::Keep),
        Err(DropReason::UnknownGtpuExtension)
    );
}

#[test]
fn a_relayed_message_goes_behind_a_template() {
    let template = GtpuTemplate::new(&tunnel());
    let optional = hex("12340084 02aabbcc ddeeff00");
    let mut out = [vec![0xee; TEMPLATE4_LEN], optional.clone()].concat();
    let packet = PerPacket {
        message_type: MessageType::TUNNEL_STATUS,
        ..PerPacket::default()
    };
    assert_eq!(template.apply_optional(&mut out, 0, 6, &packet), Ok(()));
    let (frame, read) = read(&out);
    assert_eq!(
        (read.message_type, read.sequence),
        (MessageType::TUNNEL_STATUS, Some(0x1234))
    );
    assert_eq!(read.optional_part(&frame), optional);
    assert!(read.has_more_to_relay());
}

#[test]
fn whole_packets_refuse_what_cannot_be() {
    let (v4, v6) = ("10.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
    assert_eq!(make::udp(v4, v6, &[]), None);
    assert_eq!(make::udp(v4, v4, &[0; 65_536]), None);
    assert_eq!(make::tcp(v4, v4, 0, 0, &[0; 65_516]), None);
    assert!(make::g_pdu(&tunnel(), None, &[0; 65_500]).is_err());
}

proptest! {
    #![proptest_config(common::config(1000))]

    /// The template writes what a builder that knows nothing of templates writes.
    #[test]
    fn a_template_equals_its_slow_twin(
        addrs in addrs(), teid: u32, ports: (u16, u16), tos: u8, ttl: u8, dont_fragment: bool,
        marking in prop::option::of(marking()), inner in prop::collection::vec(any::<u8>(), 0..50),
        message_type: u8, src_port: Option<u16>, new_tos: Option<u8>, id: u16,
    ) {
        let (src, dst) = ports;
        let encap = GtpuEncap { addrs, teid: Teid(teid), src_port: src, dst_port: dst, tos, ttl, dont_fragment };
        let packet = PerPacket { message_type: MessageType(message_type), src_port, tos: new_tos, id };
        let fast = make::tunnelled(&encap, marking, &packet, &inner).expect("short");

        let optional = marking.map_or(vec![], |marking| slow_marking(&marking));
        let flags = if marking.is_some() { 0x34 } else { 0x30 };
        let length = ((optional.len() + inner.len()) as u16).to_be_bytes();
        let gtpu = [&[flags, message_type][..], &length, &teid.to_be_bytes(), &optional, &inner].concat();
        let udp = [src_port.unwrap_or(src), dst, gtpu.len() as u16 + 8, 0].map(u16::to_be_bytes).concat();
        let udp = [udp, gtpu].concat();
        let options = make::IpOptions { tos: new_tos.unwrap_or(tos), ttl, id, flow_label: 0 };
        let mut slow = make::ip(&addrs, 17, &options, &udp).expect("short");
        if addrs.is_v4() {
            slow[6] = if dont_fragment { 0x40 } else { 0 };
            slow[10..12].fill(0);
            let sum = packet::checksum::of(&slow[..20]);
            slow[10..12].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(ipv4::verify_header(&fast).is_ok());
        } else {
            udp::fill_checksum(&addrs, &mut slow[40..], Sum::default()).expect("a whole datagram");
        }
        prop_assert_eq!(fast, slow);
    }
}

fn slow_marking(marking: &Marking) -> Vec<u8> {
    use packet::psc::{Downlink, PduSessionContainer, Uplink};
    let Marking { qfi, rqi, ppi, .. } = *marking;
    let container = match marking.pdu_type {
        PduType::Downlink => PduSessionContainer::Downlink(Downlink {
            qfi,
            rqi,
            ppi,
            ..Downlink::default()
        }),
        PduType::Uplink => PduSessionContainer::Uplink(Uplink {
            qfi,
            ..Uplink::default()
        }),
    };
    let mut content = [0; 16];
    let len = container.write(&mut content).expect("there is room");
    [&[0, 0, 0, 0x85, ((len + 2) / 4) as u8][..], &content[..len], &[0]].concat()
}
