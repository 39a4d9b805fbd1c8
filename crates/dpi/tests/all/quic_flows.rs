//! ClientHellos in Initial packets of QUIC, however they are cut, ordered, repeated and coalesced.

use dpi::quic::Version;
use dpi::{Inspector, Layer4, Protocol, Reason, Sender, Settings, Transport, Verdict};
use proptest::prelude::*;

use crate::messages::client_hello;
use crate::messages::quic::{crypto, initial};

const FIRST_ID: &[u8] = &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08];
const SERVERS_ID: &[u8] = &[0xf0, 0x67, 0xa5, 0x50, 0x2a, 0x42, 0x62, 0xb5];

fn inspected(datagrams: &[Vec<u8>]) -> Result<Option<String>, Option<Reason>> {
    let settings = Settings {
        flows: 1,
        blocks: 1,
        owners: 1,
        packets: u8::MAX,
        octets: u16::MAX,
        ..Settings::default()
    };
    let mut inspector = Inspector::new(settings);
    let flow = inspector.open(0, 0, Transport::Udp, 0).expect("a state");
    for datagram in datagrams {
        match inspector.inspect(flow, Sender::Initiator, &Layer4::Udp { payload: datagram }) {
            Verdict::Undecided => {}
            Verdict::Found(found) => {
                assert_eq!(found.protocol, Protocol::Quic);
                let host = found.host.map(|host| host.to_string());
                assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
                return Ok(host);
            }
            Verdict::Undetected(reason) => {
                assert_eq!((inspector.flows(), inspector.blocks()), (0, 0));
                return Err(Some(reason));
            }
        }
    }
    Err(None)
}

fn host() -> Result<Option<String>, Option<Reason>> {
    Ok(Some("www.example.com".to_string()))
}

#[test]
fn one_packet_has_the_host_in_both_versions() {
    let hello = client_hello("www.example.com", 200);
    for version in [Version::V1, Version::V2] {
        let packet = initial(version, FIRST_ID, FIRST_ID, 0, &crypto(&hello, 0, hello.len()));
        assert_eq!(inspected(&[packet]), host());
    }
}

#[test]
fn keys_stay_those_of_the_first_id_when_the_server_has_given_another() {
    let hello = client_hello("www.example.com", 200);
    let packets = [
        initial(Version::V1, FIRST_ID, FIRST_ID, 0, &crypto(&hello, 0, 90)),
        initial(
            Version::V1,
            FIRST_ID,
            SERVERS_ID,
            1,
            &crypto(&hello, 90, hello.len()),
        ),
    ];
    assert_eq!(inspected(&packets), host());
    // Version negotiation of RFC 9368: the second one in the server's version, with keys from the same ID.
    let packets = [
        packets[0].clone(),
        initial(
            Version::V2,
            FIRST_ID,
            SERVERS_ID,
            1,
            &crypto(&hello, 90, hello.len()),
        ),
    ];
    assert_eq!(inspected(&packets), host());
}

#[test]
fn after_a_retry_keys_are_of_the_id_that_it_gave() {
    let hello = client_hello("www.example.com", 200);
    let packets = [
        initial(
            Version::V1,
            FIRST_ID,
            FIRST_ID,
            0,
            &crypto(&hello, 90, hello.len()),
        ),
        initial(Version::V1, SERVERS_ID, SERVERS_ID, 1, &crypto(&hello, 0, 120)),
        initial(
            Version::V1,
            SERVERS_ID,
            SERVERS_ID,
            2,
            &crypto(&hello, 120, hello.len()),
        ),
    ];
    assert_eq!(inspected(&packets), host());
}

#[test]
fn packets_that_do_not_open_and_other_versions_are_passed_over() {
    let hello = client_hello("www.example.com", 200);
    let packet = initial(
        Version::V1,
        FIRST_ID,
        FIRST_ID,
        0,
        &crypto(&hello, 0, hello.len()),
    );
    let mut damaged = packet.clone();
    *damaged.last_mut().expect("a packet") ^= 1;
    let mut unknown = packet.clone();
    unknown[1..5].copy_from_slice(&[0x0a, 0x0a, 0x0a, 0x0a]);
    assert_eq!(inspected(&[unknown, damaged, packet]), host());
}

#[test]
fn a_stream_with_two_contents_is_ambiguous() {
    let (one, other) = (
        client_hello("www.example.com", 0),
        client_hello("www.example.org", 0),
    );
    let packets = [
        initial(Version::V1, FIRST_ID, FIRST_ID, 0, &crypto(&one, 9, one.len())),
        initial(
            Version::V1,
            FIRST_ID,
            FIRST_ID,
            1,
            &crypto(&other, 8, other.len()),
        ),
    ];
    assert_eq!(inspected(&packets), Err(Some(Reason::Ambiguous)));
}

#[test]
fn frames_that_an_initial_packet_may_not_have_are_malformed() {
    let stream_frame = [8, 0, 0, 0, 0, 0, 0, 0, 0];
    let packet = initial(Version::V1, FIRST_ID, FIRST_ID, 0, &stream_frame);
    assert_eq!(inspected(&[packet]), Err(Some(Reason::Malformed)));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn frames_in_any_order_give_the_host(
        cuts in prop::collection::vec(1usize..400, 1..12),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        frames_per_packet in 1usize..5, packets_per_datagram in 1usize..3, padding in 0usize..2_000, is_v2: bool,
    ) {
        let version = if is_v2 { Version::V2 } else { Version::V1 };
        let hello = client_hello("www.example.com", padding);
        let (mut frames, mut at) = (Vec::new(), 0);
        for len in cuts {
            let end = (at + len).min(hello.len());
            frames.push(crypto(&hello, at, end));
            at = end;
        }
        frames.push(crypto(&hello, at, hello.len()));
        for pair in order.chunks(2) {
            let (one, other) = (pair[0].index(frames.len()), pair[pair.len() - 1].index(frames.len()));
            frames.swap(one, other);
        }
        let again: Vec<_> = order.iter().take(3).map(|nth| frames[nth.index(frames.len())].clone()).collect();
        frames.extend(again);
        let packets: Vec<Vec<u8>> = frames.chunks(frames_per_packet).enumerate().map(|(number, frames)| {
            let payload = [&[0, 1][..], &frames.concat(), &[0; 9]].concat();
            initial(version, FIRST_ID, FIRST_ID, number as u8, &payload)
        }).collect();
        let datagrams: Vec<_> = packets.chunks(packets_per_datagram).map(|packets| packets.concat()).collect();
        prop_assert_eq!(inspected(&datagrams), host());
    }

    #[test]
    fn any_payload_and_any_damage_is_read(
        payload in prop::collection::vec(any::<u8>(), 30..300), at in 0usize..300, octet: u8, len in 0usize..400,
    ) {
        let mut packet = initial(Version::V1, FIRST_ID, FIRST_ID, 0, &payload);
        let _ = inspected(&[packet.clone()]);
        let at = at % packet.len();
        packet[at] = octet;
        packet.truncate(len);
        let _ = inspected(&[packet]);
    }
}
