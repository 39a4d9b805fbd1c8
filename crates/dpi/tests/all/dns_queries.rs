//! Queries of DNS and the responses of a sinkhole: those that scapy makes are read and written in the same way, and
//! any others neither panic nor get more than they ask with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;

use dpi::dns::{MOST_ADDED, Query, Response, Sinkhole, answer};
use dpi::heuristics::is_stun;
use dpi::quic;
use proptest::prelude::*;

pub fn octets(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16).expect("an octet"))
        .collect()
}

/// The vectors whose lines begin with `word`, without it.
pub fn vectors(word: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/dns_vectors.txt");
    let file = std::fs::read_to_string(path).expect("a file of the repository");
    let lines = file.lines().filter_map(|line| line.strip_prefix(word));
    let found: Vec<_> = lines
        .map(|line| line.split_whitespace().map(str::to_string).collect())
        .collect();
    assert!(found.len() > 10, "{word}");
    found
}

fn queries() -> Vec<Vec<u8>> {
    let vectors = vectors("query ");
    vectors.iter().map(|vector| octets(&vector[0])).collect()
}

fn sinkhole(ipv4: &str, ipv6: &str, ttl_s: &str) -> Sinkhole {
    Sinkhole {
        ipv4: ipv4.parse::<Ipv4Addr>().ok().map(|address| address.octets()),
        ipv6: ipv6.parse::<Ipv6Addr>().ok().map(|address| address.octets()),
        ttl_s: ttl_s.parse().expect("a number"),
    }
}

#[test]
fn the_queries_of_scapy_are_read() {
    for vector in vectors("query ") {
        let query = Query::parse(&octets(&vector[0])).expect(&vector[0]);
        let kind = query.kind().to_string();
        assert_eq!([query.name().as_str(), &kind], vector[1..]);
    }
}

#[test]
fn what_is_no_query_of_scapy_gets_no_answer() {
    for vector in vectors("none ") {
        let message = octets(&vector[0]);
        assert_eq!(Query::parse(&message), None, "{vector:?}");
        assert_eq!(answer(&message, &Sinkhole::default(), &mut [0; 999]), None);
    }
}

#[test]
fn the_responses_are_those_of_scapy() {
    for vector in vectors("answer ") {
        let [query, ipv4, ipv6, ttl, expected] = &vector[..] else {
            panic!("{vector:?}")
        };
        let (query, sinkhole, mut out) = (octets(query), sinkhole(ipv4, ipv6, ttl), [0; 512]);
        let len = answer(&query, &sinkhole, &mut out).expect("a response");
        assert_eq!(out[..len], octets(expected), "{vector:?}");
        assert_eq!(answer(&query, &sinkhole, &mut out[..len - 1]), None);
        assert!(len <= query.len() + MOST_ADDED);
    }
}

#[test]
fn no_part_of_a_query_is_one() {
    for query in queries() {
        for len in 0..query.len() {
            assert_eq!(Query::parse(&query[..len]), None, "{len} {query:?}");
        }
    }
}

#[test]
fn the_ttl_has_its_highest_bit_clear() {
    let sinkhole = Sinkhole {
        ipv4: Some([192, 0, 2, 7]),
        ttl_s: u32::MAX,
        ..Sinkhole::default()
    };
    let mut out = [0; 512];
    let len = answer(&queries()[0], &sinkhole, &mut out).expect("a response");
    let response = Response::parse(&out[..len]).expect("a response");
    let answers: Vec<_> = response.answers().map(|answer| answer.ttl_s).collect();
    assert_eq!(answers, [u32::MAX >> 1]);
}

#[test]
fn octets_that_no_host_name_has_are_underscores() {
    for (name, read) in [
        (&b"\x03a.b\x07example\0"[..], "a_b.example"),
        (b"\x04\xff\0* \x07Example\0", "____.example"),
        (b"\x07example\0", "example"),
    ] {
        let message = [b"\0\x07\x01\0\0\x01\0\0\0\0\0\0", name, &[0, 1, 0, 1]].concat();
        let query = Query::parse(&message).expect("a query");
        assert_eq!(query.name().as_str(), read);
    }
}

/// A message near to a query.
fn near_a_query() -> impl Strategy<Value = Vec<u8>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4);
    let behind = prop::collection::vec(any::<u8>(), 0..3);
    (prop::sample::select(queries()), changes, behind).prop_map(|(mut query, changes, behind)| {
        for (at, octet) in changes {
            let at = at.index(query.len());
            query[at] = octet;
        }
        query.extend(behind);
        query
    })
}

fn any_sinkhole() -> impl Strategy<Value = Sinkhole> {
    let parts = (any::<Option<[u8; 4]>>(), any::<Option<[u8; 16]>>(), any::<u32>());
    parts.prop_map(|(ipv4, ipv6, ttl_s)| Sinkhole { ipv4, ipv6, ttl_s })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2_000) })]

    #[test]
    fn any_message_has_an_answer_or_none(
        message in prop_oneof![near_a_query(), prop::collection::vec(any::<u8>(), 0..400)],
        sinkhole in any_sinkhole(),
    ) {
        let query = Query::parse(&message);
        let mut out = [0; 512];
        let len = answer(&message, &sinkhole, &mut out);
        prop_assert_eq!(query.is_some(), len.is_some());
        let (Some(query), Some(len)) = (query, len) else { return Ok(()) };
        let out = &out[..len];
        prop_assert!(len <= message.len() + MOST_ADDED && len <= 316);
        prop_assert!(Query::parse(out).is_none(), "an answer is no query");
        prop_assert!(quic::packets(&message).next().is_none() && !is_stun(&message));
        prop_assert_eq!(&out[..2], &message[..2]);
        let end = 12 + message[12..].iter().position(|octet| *octet == 0).unwrap_or(0);
        prop_assert_eq!(out.get(12..end), message.get(12..end));
        // The crate's own reader reads the same name, where it is a host's, and the address.
        if let Some(response) = Response::parse(out)
            && response.name() == query.name()
        {
            let addresses: Vec<IpAddr> = response.answers().map(|answer| answer.address).collect();
            let expected: Vec<IpAddr> = match query.kind() {
                1 => sinkhole.ipv4.map(IpAddr::from).into_iter().collect(),
                28 => sinkhole.ipv6.map(IpAddr::from).into_iter().collect(),
                _ => Vec::new(),
            };
            let has_answers = out[7] > 0;
            prop_assert_eq!(addresses, if has_answers { expected } else { Vec::new() });
        }
    }
}
