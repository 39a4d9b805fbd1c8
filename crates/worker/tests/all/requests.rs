//! Requests of HTTP/1 as a client may send them that wants them to count as something else: in one burst, by several
//! entries, in fragments, in pieces and out of order.

use std::net::{Ipv4Addr, Ipv6Addr};

use flow::{PortId, WorkerId};
use packet::tcp::flags::{ACK, SYN};
use packet::{Addrs, Teid, checksum, tcp};
use proptest::prelude::*;
use rules::model::{OuterHeaderCreation, PdiUpdate, PdrId, PdrUpdate, UeIpAddress};
use rules::testing::{GNB, N3_ADDRESS, UE, UE_V6, pdu_session, tunnelled};
use worker::InspectionLimits;
use worker::mem::MemBuf;

use crate::common::first_payloads::{get, segment};
use crate::common::one_session::TEID;
use crate::common::{World, frame};
use crate::inspection::{Case, SERVER, rules_with};

const REMOTE_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);

/// A segment of the client, with this TOS, flags and offset of a fragment, and the checksum for them.
fn sent(sequence: u32, payload: &[u8], tos: u8, fragment: [u8; 2]) -> Vec<u8> {
    let mut packet = segment((UE, 40_000), (SERVER, 443), (sequence, ACK), payload);
    packet[1] = tos;
    packet[6..8].copy_from_slice(&fragment);
    packet[10..12].fill(0);
    let sum = checksum::of(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// Has a worker receive packets of a UE together; how many leave.
fn send_at_once(case: &mut Case, packets: &[Vec<u8>]) -> usize {
    for packet in packets {
        let packet = tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], packet);
        let queue = case.world.wires.to(WorkerId(0), PortId(0));
        queue
            .push(MemBuf::new(&frame(0, &packet)))
            .expect("there is room");
    }
    case.world.poll();
    case.world.poll();
    case.world.take().len()
}

fn post_to(host: &str, octets: usize) -> Vec<u8> {
    format!("POST /api HTTP/1.1\r\nHost: {host}\r\nContent-Length: {octets}\r\n\r\n").into_bytes()
}

/// Their entries are those of before the burst.
#[test]
fn what_comes_with_a_request_counts_as_it() {
    for first in [None, Some(get("a.video.example", "/"))] {
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        first.iter().for_each(|first| case.up(ACK, first));
        let (head, before) = (post_to("shop.example", 2_000), case.octets());
        let body = case.next[0].wrapping_add(head.len() as u32);
        let packets = [
            sent(case.next[0], &head, 0, [0x40, 0]),
            sent(body, &[b'b'; 1_000], 0, [0x40, 0]),
            sent(body.wrapping_add(1_000), &[b'b'; 1_000], 0, [0x40, 0]),
        ];
        assert_eq!(send_at_once(&mut case, &packets), 3);
        assert_eq!(case.since(before), [0, 2_120 + head.len() as u64, 0]);
    }
}

/// Rules that read TOS make entries of it: what one of them says is not right for the next request.
#[test]
fn a_body_counts_as_its_request_whatever_its_tos() {
    let mut case = Case::reading_tos();
    case.open();
    let (video, head) = (get("a.video.example", "/"), post_to("shop.example", 100_000));
    let send = |case: &mut Case, payload: &[u8], tos| {
        let packet = sent(case.next[0], payload, tos, [0x40, 0]);
        case.next[0] = case.next[0].wrapping_add(payload.len() as u32);
        assert_eq!(send_at_once(case, &[packet]), 1);
    };
    send(&mut case, &video, 0);
    send(&mut case, &head, 0x28);
    let before = case.octets();
    for tos in [0, 0x28, 0, 0] {
        send(&mut case, &[b'b'; 960], tos);
    }
    assert_eq!(case.since(before), [0, 4_000, 0]);
}

/// It is not read, and may be a request for another host.
#[test]
fn behind_a_fragment_nothing_counts_as_the_host_before() {
    let mut case = Case::new(InspectionLimits::default());
    case.open();
    case.up(ACK, &get("a.video.example", "/"));
    let packet = sent(case.next[0], &get("shop.example", "/api"), 0, [0x20, 0]);
    assert_eq!(send_at_once(&mut case, &[packet]), 1);
    case.next[0] = case.next[0].wrapping_add(get("shop.example", "/api").len() as u32);
    let before = case.octets();
    case.down(ACK, &[b's'; 960]);
    case.up(ACK, &[]);
    assert_eq!(case.since(before), [0, 0, 1_040]);
    // The next request that is read counts again.
    case.up(ACK, &get("a.video.example", "/"));
    let before = case.octets();
    case.down(ACK, &[b'v'; 960]);
    assert_eq!(case.since(before), [1_000, 0, 0]);
}

/// Another session may have the address since.
#[test]
fn what_comes_to_an_address_that_another_session_has_now_is_not_decided() {
    let mut world = World::with(rules::testing::network(), 1, |config| {
        config.inspection = InspectionLimits::default();
    });
    world.install(1, rules_with("*.video.example"));
    let inside = Ipv6Addr::from_bits(UE_V6.to_bits() | 5);
    let ends = [(inside, 40_000), (REMOTE_V6, 443)];
    let mut sequences = [1_000, 77];
    let mut send = |world: &mut World, from: usize, flags: u8, payload: &[u8]| {
        let packet = segment_v6(ends[from], ends[1 - from], (sequences[from], flags), payload);
        sequences[from] += payload.len() as u32 + u32::from(flags & SYN != 0);
        match from {
            0 => world.send(
                0,
                &tunnelled(N3_ADDRESS, TEID, 255, Some([0x10, 9]), &[], &packet),
            ),
            _ => world.send(1, &packet),
        }
    };
    for (from, flags, payload) in [
        (0, SYN, vec![]),
        (1, SYN | ACK, vec![]),
        (0, ACK, get("a.video.example", "/")),
        (1, ACK, b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    ] {
        assert_eq!(send(&mut world, from, flags, &payload).len(), 1);
    }
    let mut other = pdu_session(0x1002, OuterHeaderCreation::gtpu_ipv4(Teid(88), GNB));
    let ue_ip = UeIpAddress {
        ipv4: None,
        ipv6: Some((inside, 128)),
        is_destination: true,
    };
    let mut change = PdrUpdate::new(PdrId(2));
    change.pdi = Some(PdiUpdate {
        ue_ip: Some(vec![ue_ip]),
        ..PdiUpdate::default()
    });
    other.update_pdr(change).expect("it is there");
    world.install(2, other);
    send(&mut world, 0, ACK, &get("shop.example", "/api"));
    let out = send(&mut world, 1, ACK, b"for the other");
    assert_eq!(out[0].1[49], 88);
}

fn segment_v6(
    from: (Ipv6Addr, u16),
    to: (Ipv6Addr, u16),
    (sequence, flags): (u32, u8),
    payload: &[u8],
) -> Vec<u8> {
    let (v4, no) = (Ipv4Addr::UNSPECIFIED, [0; 4]);
    let above = segment((v4, from.1), (v4, to.1), (sequence, flags), payload)[20..].to_vec();
    let mut packet = [
        &[0x60][..],
        &no[..3],
        &(above.len() as u16).to_be_bytes(),
        &[6, 64],
    ]
    .concat();
    packet.extend(from.0.octets());
    packet.extend(to.0.octets());
    packet.extend(above);
    packet[56..58].fill(0);
    let addrs = Addrs::V6 {
        src: from.0.octets(),
        dst: to.0.octets(),
    };
    tcp::fill_checksum(&addrs, &mut packet[40..]).expect("a segment");
    packet
}

/// The client sends it first, so that it would be passed over.
#[test]
fn a_request_that_comes_before_the_one_in_front_of_it_is_not_hidden() {
    // Octets of the free request's body, and whether the other one comes first, or a part of that body.
    for (body, is_hidden) in [(0, true), (20_000, true), (100, false)] {
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        case.up(ACK, &get("shop.example", "/api"));
        let free = post_to("a.video.example", body);
        let (half, rest) = free.split_at(20);
        let start = case.next[0];
        case.up(ACK, half);
        // In the second case it lies behind all that is kept of a message in pieces.
        case.next[0] = start.wrapping_add(free.len() as u32);
        if is_hidden {
            case.next[0] = case.next[0].wrapping_add(body as u32);
            case.up(ACK, &get("www.example", "/large"));
        } else {
            case.up(ACK, &vec![b'b'; body]);
        }
        case.next[0] = start.wrapping_add(20);
        case.up(ACK, rest);
        let before = case.octets();
        case.down(ACK, &[b'l'; 960]);
        let expected = if is_hidden { [0, 0, 1_000] } else { [1_000, 0, 0] };
        assert_eq!(case.since(before), expected, "{body}");
    }
}

/// What a request is for: video, API, and the rest.
const PATHS: [(&str, &str); 3] = [
    ("a.video.example", "/"),
    ("shop.example", "/api"),
    ("www.example", "/"),
];

/// The stream of requests for these hosts, with bodies of as many octets like `body`; where the head of each ends, and
/// its host.
fn stream(requests: &[(usize, usize)], body: &[u8]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut octets, mut ends) = (Vec::new(), Vec::new());
    for (host, len) in requests {
        let (name, path) = PATHS[*host];
        let head = format!("POST {path} HTTP/1.1\r\nHost: {name}\r\nContent-Length: {len}\r\n\r\n");
        octets.extend(head.as_bytes());
        ends.push((octets.len(), *host));
        octets.extend(body.iter().cycle().take(*len));
    }
    (octets, ends)
}

/// Sends a part of the stream that begins with this sequence number.
fn send_part(case: &mut Case, start: u32, octets: &[u8], (from, to): (usize, usize)) {
    case.next[0] = start.wrapping_add(from as u32);
    case.up(ACK, &octets[from..to]);
}

/// What an answer counts as.
fn answered(case: &mut Case) -> [u64; 3] {
    let before = case.octets();
    case.down(ACK, &[b'a'; 960]);
    case.since(before)
}

fn counted_for(host: usize) -> [u64; 3] {
    let mut counted = [0; 3];
    counted[host] = 1_000;
    counted
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// However it is cut, and whatever comes again.
    #[test]
    fn an_answer_counts_as_the_last_request_of_the_last_segment_that_has_one(
        requests in prop::collection::vec((0..3usize, 0..400usize), 1..12),
        parts in prop::collection::vec((0..300usize, 20..400usize, any::<bool>()), 200),
    ) {
        let (octets, ends) = stream(&requests, &get("a.video.example", "/"));
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        let (start, mut sent, mut expected) = (case.next[0], 0, 2);
        for (back, len, comes_again) in parts {
            let back = if comes_again { back.min(sent) } else { 0 };
            let (from, to) = (sent - back, octets.len().min(sent + len));
            if sent == to {
                break;
            }
            send_part(&mut case, start, &octets, (from, to));
            let new: Vec<_> = ends.iter().filter(|(end, _)| sent < *end && *end <= to).collect();
            expected = match new[..] {
                [] => expected,
                [(_, first), ..] if new.iter().all(|(_, host)| host == first) => *first,
                _ => 2,
            };
            sent = to;
            prop_assert_eq!(answered(&mut case), counted_for(expected), "{} to {}", from, to);
        }
    }

    /// Or as none. Behind what is lost a body is not told from requests.
    #[test]
    fn whatever_the_order_no_answer_counts_as_an_earlier_request(
        requests in prop::collection::vec((0..3usize, 0..400usize), 1..12),
        parts in prop::collection::vec((20..400usize, 0..4usize), 200),
    ) {
        let (octets, ends) = stream(&requests, b"body ");
        let mut case = Case::new(InspectionLimits::default());
        case.open();
        let start = case.next[0];
        let mut all = Vec::new();
        for (len, delay) in parts {
            let from = all.last().map_or(0, |(_, _, to)| *to);
            let to = octets.len().min(from + len);
            if from < to {
                all.push((all.len() + delay, from, to));
            }
        }
        let mut sent = all.clone();
        sent.sort_by_key(|(place, ..)| *place);
        for (number, (_, from, to)) in sent.iter().enumerate() {
            send_part(&mut case, start, &octets, (*from, *to));
            let whole = sent[..=number].iter().map(|(_, from, to)| to - from).sum::<usize>();
            if sent[..=number].iter().any(|(.., to)| *to > whole) {
                continue;
            }
            let last = ends.iter().rfind(|(end, _)| *end <= whole).map_or(2, |(_, host)| *host);
            let counted = answered(&mut case);
            prop_assert!([counted_for(last), counted_for(2)].contains(&counted), "{:?} at {}", counted, whole);
        }
    }
}
