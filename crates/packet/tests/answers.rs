//! Answers in the name of another end: read by the crate's parsers and by etherparse, their checksums computed here.

mod common;

use std::net::SocketAddr;

use etherparse::{SlicedPacket, TransportSlice};
use packet::answer::{self, LONGEST, LONGEST_URL, Request};
use packet::build::packet as make;
use packet::checksum::Sum;
use packet::tcp::flags::{ACK, FIN, PSH, RST, SYN, URG};
use packet::tuple::proto;
use packet::{DropReason, IpTuple, ipv4, tcp, udp};
use proptest::prelude::*;

const V4: [&str; 2] = ["10.45.0.2:40000", "192.0.2.1:80"];
const V6: [&str; 2] = ["[2001:db8:45::2]:40000", "[2001:db8:ffff::1]:80"];
const URL: &[u8] = b"https://portal.example/blocked?by=list";
const REQUEST: &[u8] = b"GET /a HTTP/1.1\r\nHost: www.example\r\n\r\n";
const SILENCE: Result<Vec<u8>, DropReason> = Err(DropReason::AccessList);

/// How a segment is answered.
#[derive(Clone, Copy, Debug)]
enum How {
    Reset,
    Redirect,
}

const BOTH: [How; 2] = [How::Reset, How::Redirect];

fn ends([from, to]: [&str; 2]) -> [SocketAddr; 2] {
    [from, to].map(|text| text.parse().unwrap())
}

/// A segment with these numbers, flags, options and data.
fn segment(ends: [SocketAddr; 2], numbers: [u32; 2], flags: u8, options: &[u8], data: &[u8]) -> Vec<u8> {
    let [from, to] = ends;
    let [sequence, acknowledges] = numbers;
    let mut packet = make::tcp(from, to, sequence, flags, &[options, data].concat()).unwrap();
    let tuple = IpTuple::parse(&packet, packet.len()).unwrap();
    let at = usize::from(tuple.l4_offset);
    packet[at + 8..at + 12].copy_from_slice(&acknowledges.to_be_bytes());
    packet[at + 12] = ((20 + options.len()) * 4) as u8;
    tcp::fill_checksum(&tuple.addrs, &mut packet[at..]).unwrap();
    packet
}

/// The answer to a packet in one buffer.
fn answer(how: How, packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    answer_with(how, URL, packet)
}

fn answer_with(how: How, url: &[u8], packet: &[u8]) -> Result<Vec<u8>, DropReason> {
    let client = IpTuple::parse(packet, packet.len())?;
    let segment = packet.get(client.l4_offset.into()..client.total_len.into());
    let request = Request {
        headers: packet,
        client: &client,
        sum: Sum::default().bytes(segment.unwrap_or_default()),
    };
    let mut out = [0xaa; LONGEST];
    let length = match how {
        How::Reset => answer::reset(request, &mut out),
        How::Redirect => answer::redirect(url, request, &mut out),
    }?;
    assert!(out[length..].iter().all(|octet| *octet == 0xaa));
    verify(&client, &out[..length]);
    Ok(out[..length].to_vec())
}

/// The sum of 16-bit words as RFC 1071 §1 has it, octet by octet.
fn rfc_1071(octets: &[u8]) -> u16 {
    let words = octets
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    words.fold(0, |sum, word| {
        let sum = u32::from(sum) + word;
        ((sum & 0xffff) + (sum >> 16)) as u16
    })
}

/// An answer is one IP packet back, with TTL 64 and right checksums.
fn verify(client: &IpTuple, answer: &[u8]) {
    let server = IpTuple::parse(answer, answer.len()).unwrap();
    assert_eq!(usize::from(server.total_len), answer.len());
    let expected = IpTuple {
        tos: 0,
        flow_label: 0,
        l4_offset: server.l4_offset,
        total_len: server.total_len,
        ttl: 64,
        ..client.reversed()
    };
    assert_eq!(server, expected);
    let l4 = &answer[server.l4_offset.into()..];
    let addresses = match server.addrs.is_v4() {
        true => {
            ipv4::verify_header(answer).unwrap();
            assert_eq!(rfc_1071(&answer[..20]), 0xffff);
            &answer[12..20]
        }
        false => &answer[8..40],
    };
    let pseudo = [&[0, server.proto], &(l4.len() as u16).to_be_bytes()[..]].concat();
    assert_eq!(rfc_1071(&[addresses, &pseudo, l4].concat()), 0xffff);
    match server.proto {
        proto::TCP => assert!(tcp::checksum_is_right(&server.addrs, l4)),
        _ => udp::verify_checksum(&server.addrs, l4, Sum::default(), false).unwrap(),
    }
}

/// What etherparse reads in an answer: sequence, acknowledgement, flags, data.
fn read(answer: &[u8]) -> (u32, u32, u8, Vec<u8>) {
    let sliced = SlicedPacket::from_ip(answer).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("no TCP")
    };
    assert_eq!(tcp.header_slice().len(), 20);
    let flags = [
        (tcp.fin(), FIN),
        (tcp.syn(), SYN),
        (tcp.rst(), RST),
        (tcp.psh(), PSH),
        (tcp.ack(), ACK),
        (tcp.urg(), URG),
    ];
    let flags = flags.iter().filter(|(is_set, _)| *is_set);
    let flags = flags.fold(0, |flags, (_, flag)| flags | flag);
    (
        tcp.sequence_number(),
        tcp.acknowledgment_number(),
        flags,
        tcp.payload().to_vec(),
    )
}

#[test]
fn a_reset_is_one_of_rfc_9293() {
    for ends in [V4, V6].map(ends) {
        for (flags, data, expected) in [
            // With ACK: <SEQ=SEG.ACK><CTL=RST>.
            (ACK, &b""[..], (7, 0, RST)),
            (ACK | PSH, b"data", (7, 0, RST)),
            (ACK | SYN, b"", (7, 0, RST)),
            (ACK | FIN, b"", (7, 0, RST)),
            // Without: <SEQ=0><ACK=SEG.SEQ+SEG.LEN><CTL=RST,ACK>; SYN and FIN count one.
            (SYN, b"", (0, 1, RST | ACK)),
            (SYN, b"data", (0, 5, RST | ACK)),
            (FIN, b"", (0, 1, RST | ACK)),
            (SYN | FIN, b"data", (0, 6, RST | ACK)),
            (PSH, b"data", (0, 4, RST | ACK)),
            (0, b"", (0, 0, RST | ACK)),
        ] {
            for sequence in [99, u32::MAX] {
                let options = [1, 1, 1, 0];
                let packet = segment(ends, [sequence, 7], flags, &options, data);
                let (at, acknowledges, reset, none) = read(&answer(How::Reset, &packet).unwrap());
                let (expected_at, numbers, expected_flags) = expected;
                let expected_numbers = match flags & ACK {
                    0 => sequence.wrapping_add(numbers),
                    _ => 0,
                };
                assert_eq!(
                    (at, acknowledges, reset),
                    (expected_at, expected_numbers, expected_flags)
                );
                assert!(none.is_empty());
            }
        }
    }
}

#[test]
fn a_request_gets_302_in_the_name_of_the_server() {
    for ends in [V4, V6].map(ends) {
        for (flags, options) in [
            (ACK, &[][..]),
            (ACK | PSH, &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        ] {
            let packet = segment(ends, [u32::MAX - 5, 0x1234_5678], flags, options, REQUEST);
            let (sequence, acknowledges, flags, data) = read(&answer(How::Redirect, &packet).unwrap());
            assert_eq!((sequence, flags), (0x1234_5678, PSH | ACK | FIN));
            assert_eq!(acknowledges, (u32::MAX - 5).wrapping_add(REQUEST.len() as u32));
            let text = String::from_utf8(data).unwrap();
            assert!(text.starts_with("HTTP/1.1 302 Found\r\n"), "{text}");
            assert!(text.contains("\r\nLocation: https://portal.example/blocked?by=list\r\n"));
            assert!(text.contains("\r\nContent-Length: 0\r\n") && text.ends_with("\r\n\r\n"));
        }
    }
}

#[test]
fn what_is_no_request_is_reset_or_gets_nothing() {
    for ends in [V4, V6].map(ends) {
        let ask = |flags, data| answer(How::Redirect, &segment(ends, [99, 7], flags, &[], data));
        assert_eq!(ask(ACK, b""), SILENCE);
        assert_eq!(ask(PSH, REQUEST), SILENCE);
        assert_eq!(ask(0, b""), SILENCE);
        for (flags, data) in [
            (SYN, &b""[..]),
            (SYN, REQUEST),
            (ACK | FIN, b""),
            (ACK | FIN, REQUEST),
        ] {
            let packet = segment(ends, [99, 7], flags, &[], data);
            assert_eq!(ask(flags, data), answer(How::Reset, &packet));
        }
    }
}

#[test]
fn the_longest_url_fits_and_a_longer_one_is_cut() {
    let packet = segment(ends(V6), [1, 2], ACK, &[], REQUEST);
    let longest = answer_with(How::Redirect, &[b'a'; LONGEST_URL], &packet).unwrap();
    assert!(read(&longest).3.ends_with(b"\r\n\r\n"));
    let cut = answer_with(How::Redirect, &[b'a'; 2 * LONGEST_URL], &packet).unwrap();
    assert_eq!(cut.len(), LONGEST);
}

#[test]
fn resets_get_nothing() {
    for ends in [V4, V6].map(ends) {
        for flags in (0..=0xff).filter(|flags| flags & RST != 0) {
            let packet = segment(ends, [99, 7], flags, &[], REQUEST);
            assert!(BOTH.iter().all(|how| answer(*how, &packet) == SILENCE), "{flags}");
        }
    }
}

#[test]
fn what_is_damaged_or_no_segment_gets_nothing() {
    for how in BOTH {
        let good = segment(ends(V4), [99, 7], ACK, &[], REQUEST);
        assert!(answer(how, &good).is_ok());
        let mut damaged = good.clone();
        damaged[45] ^= 1;
        assert_eq!(answer(how, &damaged), SILENCE);
        for (at, octet) in [(6, 0x20), (7, 1), (9, 17), (9, 132)] {
            let mut other = good.clone();
            other[at] = octet;
            assert_eq!(answer(how, &other), SILENCE, "{at}");
        }
        let mut long_header = good.clone();
        long_header[32] = 0xf0;
        long_header.truncate(44);
        long_header[3] = 44;
        assert_eq!(answer(how, &long_header), Err(DropReason::TruncatedTcp));
        for (from, to) in [
            ("10.45.0.2:1", "224.0.0.1:80"),
            ("10.45.0.2:1", "255.255.255.255:80"),
            ("127.0.0.1:1", "192.0.2.1:80"),
            ("[2001:db8::1]:1", "[ff02::1]:80"),
            ("[::]:1", "[2001:db8::1]:80"),
        ] {
            let packet = segment(ends([from, to]), [99, 7], ACK, &[], REQUEST);
            assert_eq!(answer(how, &packet), SILENCE, "{from} {to}");
        }
    }
    let client = IpTuple::parse(&segment(ends(V4), [9, 7], SYN, &[], &[]), 40).unwrap();
    assert_eq!(
        answer::datagram(&client, b"x", &mut [0; 99]),
        Err(DropReason::AccessList)
    );
}

#[test]
fn an_answer_without_room_is_none() {
    let packet = segment(ends(V4), [99, 7], SYN, &[], &[]);
    let client = IpTuple::parse(&packet, packet.len()).unwrap();
    let request = Request {
        headers: &packet,
        client: &client,
        sum: Sum::default().bytes(&packet[20..]),
    };
    assert_eq!(answer::reset(request, &mut [0; 39]), Err(DropReason::NoHeadroom));
    assert_eq!(answer::reset(request, &mut [0; 40]), Ok(40));
}

#[test]
fn a_datagram_has_its_answer() {
    for ends in [V4, V6].map(ends) {
        let query = make::udp(ends[0], ends[1], b"query").unwrap();
        let client = IpTuple::parse(&query, query.len()).unwrap();
        for payload in [&b""[..], b"response", &[7; 1_001]] {
            let mut out = [0; LONGEST];
            let length = answer::datagram(&client, payload, &mut out).unwrap();
            verify(&client, &out[..length]);
            let mut expected = make::udp(ends[1], ends[0], payload).unwrap();
            if client.addrs.is_v4() {
                // Identification 0 and "don't fragment".
                expected[4..8].copy_from_slice(&[0, 0, 0x40, 0]);
                expected[10..12].copy_from_slice(&out[10..12]);
            }
            assert_eq!(out[..length], expected);
            let short = answer::datagram(&client, payload, &mut out[..length - 1]);
            assert_eq!(short, Err(DropReason::NoHeadroom));
        }
        let huge = vec![0; 65_535];
        assert_eq!(
            answer::datagram(&client, &huge, &mut vec![0; 70_000]),
            Err(DropReason::NoHeadroom)
        );
    }
}

/// Where the packet may be read further, as a worker's tests of lists would have it, for answers to answers.
fn answers_end(packet: &[u8], how: How, left: usize) {
    if let Ok(answer) = answer(how, packet) {
        assert!(left > 0, "an answer too many");
        BOTH.iter().for_each(|how| answers_end(&answer, *how, left - 1));
    }
}

proptest! {
    #![proptest_config(common::config(1000))]

    #[test]
    fn any_segment_has_an_answer_that_ends(
        numbers: [u32; 2],
        flags: u8,
        v6: bool,
        options in prop::collection::vec(any::<u8>(), 0..=10),
        data in prop::collection::vec(any::<u8>(), 0..100),
    ) {
        let options: Vec<u8> = options.iter().flat_map(|octet| [*octet; 4]).collect();
        let packet = segment(ends(if v6 { V6 } else { V4 }), numbers, flags, &options, &data);
        for how in BOTH {
            let answered = answer(how, &packet);
            prop_assert!(flags & RST == 0 || answered == SILENCE);
            // A redirection, and the reset that its FIN gets.
            answers_end(&packet, how, 2);
            if let Ok(answer) = answered {
                let (sequence, _, says, said) = read(&answer);
                prop_assert!(said.is_empty() || (flags & ACK != 0 && !data.is_empty()));
                prop_assert!(said.is_empty() == (says & RST != 0));
                prop_assert_eq!(sequence, if flags & ACK == 0 { 0 } else { numbers[1] });
                prop_assert!(matches!(how, How::Redirect) || answer.len() <= packet.len());
            }
        }
    }

    #[test]
    fn any_packet_has_an_answer_or_a_reason(
        bytes in prop_oneof![common::user_packet(), common::damaged(common::user_packet())],
        cut in 0..100usize,
        is_right: bool,
    ) {
        let Ok(client) = IpTuple::parse(&bytes, bytes.len()) else { return Ok(()) };
        let mut bytes = bytes;
        let whole = bytes.get_mut(client.l4_offset.into()..client.total_len.into()).unwrap_or_default();
        if is_right && client.proto == proto::TCP {
            let _ = tcp::fill_checksum(&client.addrs, whole);
        }
        let sum = Sum::default().bytes(whole);
        for headers in [&bytes[..], bytes.get(..cut).unwrap_or(&bytes)] {
            let request = Request { headers, client: &client, sum };
            for answered in [
                answer::reset(request, &mut [0; LONGEST]),
                answer::redirect(URL, request, &mut [0; LONGEST]),
            ] {
                prop_assert!(client.proto == proto::TCP || answered.is_err());
            }
        }
        let mut out = [0; LONGEST];
        if let Ok(length) = answer::datagram(&client, &bytes[..bytes.len().min(900)], &mut out) {
            verify(&client, &out[..length]);
        }
    }
}
