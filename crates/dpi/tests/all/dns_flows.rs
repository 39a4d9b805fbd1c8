//! Flows of DNS over UDP: a query is found in its packet, and in the form of other protocols.

use dpi::dns::Query;
use dpi::heuristics::{RTP_PACKETS, is_stun, is_wireguard_handshake, may_be_rtp};
use dpi::{Inspector, Layer4, Protocol, Reason, Sender, Settings, Transport, Verdict};

use crate::dns_queries::{octets, vectors};

fn small() -> Inspector {
    Inspector::new(Settings {
        flows: 4,
        blocks: 2,
        owners: 1,
        ..Settings::default()
    })
}

/// What an inspection says of payloads of one sender in one flow: the protocol and host, or why there is none.
fn inspected(sender: Sender, payloads: &[&[u8]]) -> Option<Result<(Protocol, Option<String>), Reason>> {
    let mut inspector = small();
    let flow = inspector.open(0, 0, Transport::Udp, 0).expect("a state");
    for payload in payloads {
        match inspector.inspect(flow, sender, &Layer4::Udp { payload }) {
            Verdict::Undecided => {}
            Verdict::Found(found) => {
                return Some(Ok((found.protocol, found.host.map(|host| host.to_string()))));
            }
            Verdict::Undetected(reason) => return Some(Err(reason)),
        }
    }
    None
}

#[test]
fn a_query_is_found_in_its_packet_whatever_its_number() {
    for vector in vectors("query ") {
        let mut query = octets(&vector[0]);
        let found = Some(Ok((Protocol::Dns, Some(vector[1].clone()))));
        for high in 0..=255 {
            query[0] = high;
            assert_eq!(inspected(Sender::Initiator, &[&query]), found, "{query:?}");
            assert_ne!(inspected(Sender::Responder, &[&query]), found);
        }
    }
}

/// A query of `len` octets with this number and without flags: no recursion is desired.
fn query_of(number: u16, len: usize) -> Vec<u8> {
    let mut left = len - 12 - 1 - 4;
    let mut query = [&number.to_be_bytes()[..], &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]].concat();
    while left > 0 {
        let label = (left - 1).min(50);
        query.push(label as u8);
        query.extend(vec![b'a'; label]);
        left -= label + 1;
    }
    query.extend([0, 0, 1, 0, 1]);
    assert_eq!(query.len(), len);
    query
}

#[test]
fn a_query_in_the_form_of_another_protocol_is_a_query() {
    for (number, len) in [(0x0100, 148), (0x0200, 92), (0x0300, 64)] {
        let query = query_of(number, len);
        assert!(is_wireguard_handshake(&query));
        let found = inspected(Sender::Initiator, &[&query]).expect("a verdict");
        assert_eq!(found.expect("found").0, Protocol::Dns);
    }
    let like_rtp = query_of(0x8000, 60);
    assert!(may_be_rtp(&like_rtp));
    let found = inspected(Sender::Initiator, &[&like_rtp]).expect("a verdict");
    assert_eq!(found.expect("found").0, Protocol::Dns);
}

#[test]
fn what_else_is_recognised_is_no_query() {
    let mut stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42][..], &[7; 12]].concat();
    assert!(is_stun(&stun));
    assert_eq!(Query::parse(&stun), None);
    let found = inspected(Sender::Initiator, &[&stun]).expect("a verdict");
    assert_eq!(found.expect("found").0, Protocol::Stun);
    stun[4] = 0;
    for (kind, len) in [(1, 148), (2, 92), (3, 64)] {
        let mut message = vec![0x5a; len];
        message[..4].copy_from_slice(&[kind, 0, 0, 0]);
        let found = inspected(Sender::Initiator, &[&message]).expect("a verdict");
        assert_eq!(found.expect("found").0, Protocol::WireGuard);
    }
    let packets: Vec<Vec<u8>> = (0..RTP_PACKETS)
        .map(|number| [&[0x80, 0, 0, number, 0, 1, 0, 0, 0, 0, 0, 1][..], &[9; 40]].concat())
        .collect();
    let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
    let found = inspected(Sender::Initiator, &packets).expect("a verdict");
    assert_eq!(found.expect("found").0, Protocol::Rtp);
}
