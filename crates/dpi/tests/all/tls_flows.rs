//! ClientHellos over TCP, however they are cut, ordered and repeated.

use dpi::tls::{of_handshake, of_records};
use dpi::{Fault, Inspector, Layer4, Protocol, Reason, Sender, Settings, Transport, Verdict};
use proptest::prelude::*;

use crate::messages::{client_hello, client_hello_with, records, server_name};

/// What a flow of these segments is: offsets in the client's stream and octets. With SYN its first octet is known.
fn inspected(
    segments: &[(usize, &[u8])],
    initial_sequence: u32,
    with_syn: bool,
) -> Result<Option<String>, Option<Reason>> {
    let settings = Settings {
        flows: 1,
        blocks: 1,
        owners: 1,
        packets: u8::MAX,
        octets: u16::MAX,
        ..Settings::default()
    };
    let mut inspector = Inspector::new(settings);
    let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
    let first = initial_sequence.wrapping_add(1);
    let syn = with_syn.then_some((initial_sequence, true, &[][..]));
    let data = segments
        .iter()
        .map(|(offset, octets)| (first.wrapping_add(*offset as u32), false, *octets));
    for (sequence, has_syn, payload) in syn.into_iter().chain(data) {
        match inspector.inspect(
            flow,
            Sender::Initiator,
            &Layer4::Tcp {
                sequence,
                has_syn,
                payload,
            },
        ) {
            Verdict::Undecided => {}
            Verdict::Found(found) => {
                assert_eq!((found.protocol, found.path), (Protocol::Tls, None));
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
fn a_client_hello_says_host_protocols_and_ech() {
    let alpn = [&[0, 12][..], &[2], b"h2", &[8], b"http/1.1"].concat();
    let extensions = [
        (16, alpn),
        (0, server_name("WWW.Example.com")),
        (0xfe0d, vec![0; 40]),
    ];
    let hello = client_hello_with(&extensions, 0);
    let read = of_handshake(&hello, 8_192)
        .expect("a ClientHello")
        .expect("all of it");
    assert_eq!(
        read.server_name.map(|name| name.to_string()).as_deref(),
        Some("www.example.com")
    );
    assert_eq!(read.alpn.iter().collect::<Vec<_>>(), [&b"h2"[..], b"http/1.1"]);
    assert!(read.offers_ech && !read.alpn.is_cut());

    let read = of_handshake(&client_hello_with(&[], 0), 8_192)
        .expect("a ClientHello")
        .expect("all of it");
    assert_eq!(
        (read.server_name, read.alpn.iter().count(), read.offers_ech),
        (None, 0, false)
    );
}

#[test]
fn protocols_are_bounded() {
    let names: Vec<u8> = (0..20).flat_map(|nth| [9, nth, 1, 2, 3, 4, 5, 6, 7, 8]).collect();
    let alpn = [&(names.len() as u16).to_be_bytes()[..], &names].concat();
    let read = of_handshake(&client_hello_with(&[(16, alpn)], 0), 8_192)
        .expect("a ClientHello")
        .expect("all of it");
    assert_eq!(read.alpn.iter().count(), 6);
    assert!(read.alpn.is_cut());
}

#[test]
fn faults_have_their_names() {
    let fault = |extensions: &[(u16, Vec<u8>)]| {
        of_handshake(&client_hello_with(extensions, 0), 8_192).expect_err("a fault")
    };
    let name = server_name("www.example.com");
    assert_eq!(fault(&[(0, name.clone()), (0, name.clone())]), Fault::Ambiguous);
    assert_eq!(fault(&[(0, name[..10].to_vec())]), Fault::Malformed);
    assert_eq!(fault(&[(0, Vec::new())]), Fault::Malformed);
    assert_eq!(fault(&[(0, server_name("www example"))]), Fault::Malformed);
    assert_eq!(fault(&[(16, vec![0, 2, 0, 0])]), Fault::Malformed);
    // Two names in one list.
    let mut two = [&[0, 14, 0, 0, 4][..], b"a.ex", &[0, 0, 4], b"b.ex"].concat();
    assert_eq!(fault(&[(0, two.clone())]), Fault::Ambiguous);
    two[2] = 1;
    assert_eq!(fault(&[(0, two)]), Fault::Ambiguous);

    let hello = records(&client_hello("www.example.com", 0), 9_999);
    let mut scratch = [0; 8_192];
    for (at, octet) in [(0, 23), (1, 2), (5, 2)] {
        let mut other = hello.clone();
        other[at] = octet;
        assert_eq!(of_records(&other, &mut scratch), Err(Fault::Malformed), "{at}");
    }
    assert_eq!(
        of_records(&records(&client_hello("a.example", 9_000), 16_000), &mut scratch),
        Err(Fault::TooLong)
    );
    assert_eq!(of_records(&[22, 3, 1, 0, 0], &mut scratch), Err(Fault::Malformed));
}

#[test]
fn a_client_hello_may_be_in_many_records() {
    let hello = client_hello("www.example.com", 1_000);
    for fragment in [1, 3, 4, 5, 100, 999] {
        let stream = records(&hello, fragment);
        let mut scratch = [0; 8_192];
        let read = of_records(&stream, &mut scratch)
            .expect("a ClientHello")
            .expect("all of it");
        assert_eq!(
            read.server_name.map(|name| name.to_string()).as_deref(),
            Some("www.example.com")
        );
        for len in (0..stream.len()).step_by(7) {
            assert_eq!(
                of_records(&stream[..len], &mut scratch),
                Ok(None),
                "{fragment} {len}"
            );
        }
    }
}

#[test]
fn segments_that_differ_where_they_overlap_are_ambiguous() {
    let stream = records(&client_hello("www.example.com", 0), 9_999);
    let mut other = stream.clone();
    other[60] ^= 1;
    let segments = [(0, &stream[..80]), (50, &other[50..])];
    assert_eq!(inspected(&segments, 7, true), Err(Some(Reason::Ambiguous)));
    let again = [(0, &stream[..80]), (50, &stream[50..])];
    assert_eq!(inspected(&again, 7, true), host());
}

#[test]
fn a_keep_alive_before_the_stream_does_no_harm() {
    let stream = records(&client_hello("www.example.com", 0), 9_999);
    let segments = [
        (usize::MAX, &[0][..]),
        (usize::MAX, &[&[0][..], &stream[..9]].concat()),
        (9, &stream[9..]),
    ];
    assert_eq!(inspected(&segments, u32::MAX - 1, true), host());
}

#[test]
fn data_may_come_with_syn_and_a_second_syn_is_ambiguous() {
    let stream = records(&client_hello("www.example.com", 0), 9_999);
    let mut inspector = Inspector::new(Settings {
        flows: 1,
        blocks: 1,
        owners: 1,
        ..Settings::default()
    });
    let syn = |sequence, payload| Layer4::Tcp {
        sequence,
        has_syn: true,
        payload,
    };
    let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
    assert!(matches!(
        inspector.inspect(flow, Sender::Initiator, &syn(5, &stream)),
        Verdict::Found(_)
    ));

    let flow = inspector.open(0, 0, Transport::Tcp, 0).expect("a state");
    assert_eq!(
        inspector.inspect(flow, Sender::Initiator, &syn(5, &[])),
        Verdict::Undecided
    );
    assert_eq!(
        inspector.inspect(flow, Sender::Initiator, &syn(5, &[])),
        Verdict::Undecided
    );
    let ambiguous = Verdict::Undetected(Reason::Ambiguous);
    assert_eq!(
        inspector.inspect(flow, Sender::Initiator, &syn(6, &[])),
        ambiguous
    );
}

#[test]
fn one_that_is_longer_than_a_block_is_too_long() {
    let stream = records(&client_hello("www.example.com", 8_170), 600);
    let segments: Vec<_> = stream
        .chunks(1_400)
        .enumerate()
        .map(|(nth, octets)| (nth * 1_400, octets))
        .collect();
    assert_eq!(inspected(&segments, 7, true), Err(Some(Reason::TooLong)));
}

/// Cuts of a stream into segments, each with what it overlaps the next by, in an order, some of them twice.
fn cuts() -> impl Strategy<Value = (Vec<(usize, usize)>, Vec<prop::sample::Index>)> {
    let cuts = prop::collection::vec((1usize..400, 0usize..50), 1..14);
    (cuts, prop::collection::vec(any::<prop::sample::Index>(), 0..20))
}

proptest! {
    #[test]
    fn segments_in_any_order_give_the_host(
        (cuts, order) in cuts(), padding in 0usize..3_000, fragment in 4usize..2_000, initial_sequence: u32,
        with_syn: bool,
    ) {
        let stream = records(&client_hello("www.example.com", padding), fragment);
        let (mut segments, mut at) = (Vec::new(), 0);
        for (len, overlap) in cuts {
            let end = (at + len).min(stream.len());
            segments.push((at, &stream[at..(end + overlap).min(stream.len())]));
            at = end;
        }
        segments.push((at, &stream[at..]));
        segments.retain(|(_, octets)| !octets.is_empty());
        for pair in order.chunks(2) {
            let (one, other) = (pair[0].index(segments.len()), pair[pair.len() - 1].index(segments.len()));
            segments.swap(one, other);
        }
        let again: Vec<_> = order.iter().take(4).map(|nth| segments[nth.index(segments.len())]).collect();
        segments.extend(again);
        let result = inspected(&segments, initial_sequence, with_syn);
        match with_syn {
            true => prop_assert_eq!(result, host()),
            // Segments before the first of the stream are not known to be of it.
            false => prop_assert!(result == host() || result.is_err(), "{:?}", result),
        }
    }

    #[test]
    fn any_change_gives_the_host_another_or_none(at in 0usize..200, octet: u8, cut in 1usize..200) {
        let mut stream = records(&client_hello("www.example.com", 50), 64);
        let at = at % stream.len();
        stream[at] = octet;
        let cut = cut % stream.len();
        let _ = inspected(&[(0, &stream[..cut]), (cut, &stream[cut..])], 7, true);
    }
}
