//! HTTP redirection (TS 29.244 §5.4.7): a web server that answers every request with 302, and keeps nothing.
//!
//! [`answer`] makes one segment of the server's from one of the client's, alone. The sequence number that the server
//! begins with is a keyed hash of addresses and ports, and a bit for what the client's segments may hold; so what a
//! client acknowledges shows how far the connection is: a SYN gets a SYN with ACK; data behind the handshake gets the
//! response, with FIN, in pieces to a client of small segments; a FIN gets its ACK; what fits nothing gets a reset. A
//! client that misses an answer repeats itself and gets the same again. There is one answer at most to a packet, and
//! one that is longer than what it answers goes only to a client that has acknowledged the number that the server began
//! with.
//!
//! A stateless server cannot distinguish an acknowledgement from a keep-alive probe: both get no answer. A piece that
//! is lost is not sent again, since only the client knows, and it has nothing to repeat.

use crate::answer::{LAST, Say, Segment, cut, response, write_segment};
use crate::{Addrs, DropReason, HeaderOption, IpTuple, tcp};

pub use crate::answer::{LONGEST, LONGEST_URL, Request, SEGMENT, is_url};

/// The port of HTTP.
pub const HTTP: u16 = 80;
/// Octets of the longest segment to a client that takes shorter ones than [`SEGMENT`]: what every host takes (RFC 9293
/// §3.7.1).
pub const SHORT_SEGMENT: u16 = 536;
/// In the number that the server begins with: the client takes no longer segments than [`SHORT_SEGMENT`].
pub const TAKES_SHORT: u32 = 1 << 31;

/// The option Maximum Segment Size, of 1,220 octets: what a client sends fits any link, too.
const MSS: [u8; 4] = [tcp::Options::MSS, 4, (SEGMENT >> 8) as u8, SEGMENT as u8];

/// What hashes the sequence numbers; to be drawn at random when the process starts, and the same for all workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

/// The number that the server's side of a client's connection begins with, without [`TAKES_SHORT`].
pub fn initial_sequence(secret: Secret, client: &IpTuple) -> u32 {
    let mut octets = [0; 36];
    let (addresses, ports) = octets.split_at_mut(32);
    match client.addrs {
        Addrs::V4 { src, dst } => {
            addresses[..4].copy_from_slice(&src);
            addresses[16..20].copy_from_slice(&dst);
        }
        Addrs::V6 { src, dst } => {
            addresses[..16].copy_from_slice(&src);
            addresses[16..].copy_from_slice(&dst);
        }
    }
    ports[..2].copy_from_slice(&client.src_port.to_be_bytes());
    ports[2..].copy_from_slice(&client.dst_port.to_be_bytes());
    sip_hash(secret.0, &octets) as u32 & !TAKES_SHORT
}

/// What the server says to one packet of a client, in IP, written to the start of `out`; its octets.
///
/// # Errors
/// [`NotRedirected`](DropReason::NotRedirected) for what gets no answer: other protocols than TCP, fragments, segments
/// with a wrong checksum, resets, and acknowledgements that need none. [`TruncatedTcp`](DropReason::TruncatedTcp) when
/// the TCP header is longer than the segment, or not contiguous. [`NoHeadroom`](DropReason::NoHeadroom) when `out` has
/// no room.
pub fn answer(secret: Secret, url: &[u8], request: Request<'_>, out: &mut [u8]) -> Result<usize, DropReason> {
    let client = request.client;
    let segment = Segment::read(request)?.ok_or(DropReason::NotRedirected)?;
    let seen = Seen {
        is_http: client.dst_port == HTTP,
        takes_short: takes_short(segment.options, client.addrs.is_v4()),
        segment,
    };
    let response = response(url);
    let response_len = response.iter().map(|part| part.len() as u32).sum();
    let start = initial_sequence(secret, client);
    let reply = seen.reply(start, response_len).ok_or(DropReason::NotRedirected)?;
    let options: &[u8] = if reply.say.flags & tcp::flags::SYN != 0 {
        &MSS
    } else {
        &[]
    };
    let body = cut(response, reply.from, reply.octets);
    write_segment(client, &reply.say, options, body, out).ok_or(DropReason::NoHeadroom)
}

/// Whether a client that begins with these options takes no more than the least that there must be.
fn takes_short(options: &[u8], is_v4: bool) -> bool {
    let mut sizes = tcp::Options::new(options).filter_map(|option| match option {
        Ok(HeaderOption {
            kind: tcp::Options::MSS,
            data: &[high, low],
        }) => Some(u16::from_be_bytes([high, low])),
        _ => None,
    });
    let unsaid = if is_v4 { SHORT_SEGMENT } else { SEGMENT };
    sizes.next().unwrap_or(unsaid) < SEGMENT
}

const SYN_ACK: u8 = tcp::flags::SYN | tcp::flags::ACK;
const FIN_ACK: u8 = tcp::flags::FIN | tcp::flags::ACK;

/// A client's segment, and what else its answer depends on.
struct Seen<'a> {
    segment: Segment<'a>,
    is_http: bool,
    takes_short: bool,
}

/// A segment of the server's.
struct Reply {
    say: Say,
    /// The part of the response in it: behind how many octets, and how many.
    from: u32,
    octets: u32,
}

impl From<Say> for Reply {
    /// Without data.
    fn from(say: Say) -> Reply {
        Reply {
            say,
            from: 0,
            octets: 0,
        }
    }
}

impl Seen<'_> {
    /// The answer of a server that begins with `start` and has a response of a given length in octets.
    fn reply(&self, start: u32, response_len: u32) -> Option<Reply> {
        use tcp::flags::{ACK, FIN, RST, SYN};
        let segment = &self.segment;
        if segment.has(RST) {
            return None;
        }
        if !self.is_http || (segment.has(SYN) && segment.has(ACK)) {
            return Some(segment.reset().into());
        }
        if segment.has(SYN) {
            let start = if self.takes_short {
                start | TAKES_SHORT
            } else {
                start
            };
            // Data with it is not taken, and comes again.
            let say = Say {
                acknowledges: segment.sequence.wrapping_add(1),
                ..segment.say(SYN_ACK, start)
            };
            return Some(say.into());
        }
        if !segment.has(ACK) {
            return None;
        }
        let starts = [(start, SEGMENT), (start | TAKES_SHORT, SHORT_SEGMENT)];
        let begun = starts.into_iter().find_map(|(start, most)| {
            let first = start.wrapping_add(1);
            let had = segment.acknowledges.wrapping_sub(first);
            (had <= response_len + 1).then_some((first, had, u32::from(most)))
        });
        let Some((first, had, most)) = begun else {
            return Some(segment.reset().into());
        };
        let (asks, closes) = (segment.octets > 0, segment.has(FIN));
        match had {
            0 if !asks => closes.then(|| segment.say(FIN_ACK, first).into()),
            // Our FIN without a response.
            1 if !asks => closes.then(|| segment.say(ACK, segment.acknowledges).into()),
            _ if had > response_len => {
                (asks || closes).then(|| segment.say(ACK, segment.acknowledges).into())
            }
            _ => {
                let octets = most.min(response_len - had);
                let flags = if had + octets == response_len { LAST } else { ACK };
                Some(Reply {
                    say: segment.say(flags, segment.acknowledges),
                    from: had,
                    octets,
                })
            }
        }
    }
}

/// SipHash-2-4 of Aumasson and Bernstein.
fn sip_hash(key: [u64; 2], octets: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = octets.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    last[7] = octets.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        state[3] ^= word;
        (0..2).for_each(|_| sip_round(&mut state));
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    (0..4).for_each(|_| sip_round(&mut state));
    state[0] ^ state[1] ^ state[2] ^ state[3]
}

fn sip_round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *b = b.rotate_left(13) ^ *a;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*d);
    *d = d.rotate_left(16) ^ *c;
    *a = a.wrapping_add(*d);
    *d = d.rotate_left(21) ^ *a;
    *c = c.wrapping_add(*b);
    *b = b.rotate_left(17) ^ *c;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::packet as build;
    use crate::checksum::Sum;
    use crate::ipv4;
    use crate::tcp::flags::{ACK, FIN, PSH, RST, SYN};
    use proptest::prelude::*;
    use std::net::SocketAddr;

    const SECRET: Secret = Secret([1, 2]);
    const URL: &[u8] = b"http://portal.example/?from=here";
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: www.example\r\n\r\n";

    const V4: [&str; 2] = ["10.45.0.2:40000", "192.0.2.1:80"];
    const V6: [&str; 2] = ["[2001:db8:45::2]:40000", "[2001:db8:ffff::1]:80"];

    /// A client's segment: numbers, flags and data.
    fn segment([from, to]: [&str; 2], sequence: u32, acknowledges: u32, flags: u8, data: &[u8]) -> Vec<u8> {
        let [from, to]: [SocketAddr; 2] = [from, to].map(|text| text.parse().unwrap());
        let mut packet = build::tcp(from, to, sequence, flags, data).unwrap();
        let tuple = IpTuple::parse(&packet, packet.len()).unwrap();
        let at = usize::from(tuple.l4_offset);
        packet[at + 8..at + 12].copy_from_slice(&acknowledges.to_be_bytes());
        tcp::fill_checksum(&tuple.addrs, &mut packet[at..]).unwrap();
        packet
    }

    /// A packet in one buffer.
    fn request<'a>(packet: &'a [u8], client: &'a IpTuple) -> Request<'a> {
        Request {
            headers: packet,
            client,
            sum: Sum::default().bytes(&packet[client.l4_offset.into()..client.total_len.into()]),
        }
    }

    /// The answer to a packet: sequence, acknowledgement, flags, data. Its headers are right.
    fn ask(packet: &[u8]) -> Option<(u32, u32, u8, Vec<u8>)> {
        ask_for(URL, packet)
    }

    fn ask_for(url: &[u8], packet: &[u8]) -> Option<(u32, u32, u8, Vec<u8>)> {
        let client = IpTuple::parse(packet, packet.len()).unwrap();
        let mut out = [0; LONGEST];
        let length = answer(SECRET, url, request(packet, &client), &mut out).ok()?;
        let out = &out[..length];
        let server = IpTuple::parse(out, length).unwrap();
        assert_eq!(usize::from(server.total_len), length);
        assert_eq!(
            (server.addrs.src(), server.src_port),
            (client.addrs.dst(), client.dst_port)
        );
        assert_eq!(
            (server.addrs.dst(), server.dst_port),
            (client.addrs.src(), client.src_port)
        );
        if server.addrs.is_v4() {
            ipv4::verify_header(out).unwrap();
        }
        let segment = &out[server.l4_offset.into()..];
        assert!(tcp::checksum_is_right(&server.addrs, segment));
        let (header, len) = tcp::Header::parse(segment, segment.len()).unwrap();
        Some((
            header.sequence.get(),
            header.acknowledgement.get(),
            header.flags,
            segment[len..].to_vec(),
        ))
    }

    #[test]
    fn a_request_gets_302_and_the_connection_ends() {
        for ends in [V4, V6] {
            let (start, acknowledges, flags, data) = ask(&segment(ends, 99, 0, SYN, &[])).unwrap();
            assert_eq!((acknowledges, flags, data.len()), (100, SYN | ACK, 0));
            let first = start.wrapping_add(1);
            assert_eq!(ask(&segment(ends, 100, first, ACK, &[])), None);
            let asked = segment(ends, 100, first, ACK | PSH, REQUEST);
            let (sequence, acknowledges, flags, data) = ask(&asked).unwrap();
            let behind = 100 + REQUEST.len() as u32;
            assert_eq!((sequence, acknowledges, flags), (first, behind, PSH | ACK | FIN));
            let text = String::from_utf8(data.clone()).unwrap();
            assert!(text.starts_with("HTTP/1.1 302 "), "{text}");
            assert!(text.contains("\r\nLocation: http://portal.example/?from=here\r\n"));
            assert!(text.ends_with("\r\n\r\n"));
            assert_eq!(ask(&asked).unwrap().3, data, "what is lost comes again");
            let end = first.wrapping_add(data.len() as u32 + 1);
            assert_eq!(ask(&segment(ends, behind, end, ACK, &[])), None);
            let closed = ask(&segment(ends, behind, end, ACK | FIN, &[])).unwrap();
            assert_eq!(closed, (end, behind + 1, ACK, vec![]));
        }
    }

    #[test]
    fn a_client_may_close_without_asking() {
        let start = ask(&segment(V4, 99, 0, SYN, &[])).unwrap().0;
        let first = start.wrapping_add(1);
        let (sequence, acknowledges, flags, _) = ask(&segment(V4, 100, first, ACK | FIN, &[])).unwrap();
        assert_eq!((sequence, acknowledges, flags), (first, 101, FIN | ACK));
        assert_eq!(ask(&segment(V4, 101, first.wrapping_add(1), ACK, &[])), None);
    }

    #[test]
    fn what_fits_no_connection_is_reset_once() {
        let strange = ask(&segment(V4, 5, 0x1234_5678, ACK, REQUEST)).unwrap();
        assert_eq!((strange.0, strange.2), (0x1234_5678, RST));
        let https = ["10.45.0.2:40000", "192.0.2.1:443"];
        let refused = ask(&segment(https, 5, 0, SYN, &[])).unwrap();
        assert_eq!((refused.0, refused.1, refused.2), (0, 6, RST | ACK));
        assert_eq!(ask(&segment(https, 5, 7, RST, &[])), None);
        assert_eq!(ask(&segment(V4, 5, 7, RST | ACK, &[])), None);
        assert_eq!(ask(&segment(V4, 5, 7, 0, &[])), None);
    }

    /// A segment with a maximum segment size.
    fn opening(ends: [&str; 2], size: u16) -> Vec<u8> {
        let [high, low] = size.to_be_bytes();
        let mut packet = segment(ends, 99, 0, SYN, &[tcp::Options::MSS, 4, high, low]);
        let tuple = IpTuple::parse(&packet, packet.len()).unwrap();
        let at = usize::from(tuple.l4_offset);
        packet[at + 12] = 0x60;
        tcp::fill_checksum(&tuple.addrs, &mut packet[at..]).unwrap();
        packet
    }

    #[test]
    fn a_client_of_small_segments_gets_the_response_in_pieces() {
        let url = [b'a'; LONGEST_URL];
        for (ends, size, most) in [
            (V4, Some(536), 536),
            (V4, None, 536),
            (V6, Some(1219), 536),
            (V6, None, 1220),
            (V4, Some(1460), 1220),
        ] {
            let open = size.map_or_else(|| segment(ends, 99, 0, SYN, &[]), |size| opening(ends, size));
            let first = ask_for(&url, &open).unwrap().0.wrapping_add(1);
            let mut got = Vec::new();
            let mut last = 0;
            while last & FIN == 0 {
                let data = if got.is_empty() { REQUEST } else { &[] };
                let sequence = if got.is_empty() {
                    100
                } else {
                    100 + REQUEST.len() as u32
                };
                let had = first.wrapping_add(got.len() as u32);
                let (at, acknowledges, flags, piece) =
                    ask_for(&url, &segment(ends, sequence, had, ACK, data)).unwrap();
                assert_eq!((at, acknowledges), (had, 100 + REQUEST.len() as u32));
                assert!((1..=most).contains(&piece.len()), "{} octets", piece.len());
                got.extend(piece);
                last = flags;
            }
            let text = String::from_utf8(got).unwrap();
            assert!(text.starts_with("HTTP/1.1 302 ") && text.ends_with("\r\n\r\n"));
            assert!(text.contains(&"a".repeat(LONGEST_URL)), "{text}");
        }
    }

    #[test]
    fn a_request_in_several_segments_gets_the_same_again() {
        let first = ask(&opening(V4, 1460)).unwrap().0.wrapping_add(1);
        let one = ask(&segment(V4, 100, first, ACK, &REQUEST[..10])).unwrap();
        let two = ask(&segment(V4, 110, first, ACK | PSH, &REQUEST[10..])).unwrap();
        assert_eq!((one.0, one.2, &one.3), (two.0, two.2, &two.3));
        assert_eq!((one.1, two.1), (110, 100 + REQUEST.len() as u32));
        // The rest of it comes when the client has the whole response.
        let end = first.wrapping_add(one.3.len() as u32 + 1);
        assert_eq!(
            ask(&segment(V4, 110, end, ACK, b"more")),
            Some((end, 114, ACK, vec![]))
        );
    }

    #[test]
    fn what_is_damaged_gets_nothing() {
        let mut damaged = segment(V4, 99, 0, SYN, &[]);
        damaged[25] ^= 1;
        assert_eq!(ask(&damaged), None);
    }

    #[test]
    fn other_protocols_and_fragments_get_nothing() {
        let [from, to]: [SocketAddr; 2] = V4.map(|text| text.parse().unwrap());
        assert_eq!(ask(&build::udp(from, to, b"?").unwrap()), None);
        let mut fragment = segment(V4, 5, 7, ACK, REQUEST);
        fragment[6] = 0x20;
        assert_eq!(ask(&fragment), None);
    }

    #[test]
    fn urls_are_visible_and_of_a_length_that_fits() {
        assert!(is_url(URL) && is_url(&[b'a'; LONGEST_URL]));
        for bad in [
            &b""[..],
            b"http://a b",
            b"http://a\r\nSet-Cookie: x",
            &[b'a'; LONGEST_URL + 1],
        ] {
            assert!(!is_url(bad));
        }
        let syn = segment(V6, 1, 0, SYN, &[]);
        let first = ask(&syn).unwrap().0.wrapping_add(1);
        let asked = segment(V6, 2, first, ACK, REQUEST);
        let client = IpTuple::parse(&asked, asked.len()).unwrap();
        let mut out = [0; LONGEST];
        let length = answer(SECRET, &[b'a'; LONGEST_URL], request(&asked, &client), &mut out).unwrap();
        assert!(length <= LONGEST && length > LONGEST_URL);
        let none = answer(SECRET, URL, request(&asked, &client), &mut out[..99]);
        assert_eq!(none, Err(DropReason::NoHeadroom));
    }

    #[test]
    fn numbers_follow_from_the_secret_and_the_ends() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        let octets: Vec<u8> = (0..15).collect();
        assert_eq!(
            sip_hash(key, &octets),
            0xa129_ca61_49be_45e5,
            "the vector of the paper"
        );
        let starts = |secret: Secret, ends| {
            let syn = segment(ends, 1, 0, SYN, &[]);
            initial_sequence(secret, &IpTuple::parse(&syn, syn.len()).unwrap())
        };
        let other = ["10.45.0.2:40001", "192.0.2.1:80"];
        assert_ne!(starts(SECRET, V4), starts(SECRET, other));
        assert_ne!(starts(SECRET, V4), starts(Secret([1, 3]), V4));
    }

    proptest! {
        #[test]
        fn nothing_panics_and_answers_to_answers_end(
            sequence: u32, acknowledges: u32, flags: u8, near in -3i64..200, data in 0..3usize, v6: bool, port in 79..82u16,
        ) {
            let ends = if v6 { V6 } else { V4 };
            let ends = [ends[0].to_owned(), ends[1].replace(":80", &format!(":{port}"))];
            let ends = [ends[0].as_str(), ends[1].as_str()];
            let syn = segment(ends, 1, 0, SYN, &[]);
            let start = initial_sequence(SECRET, &IpTuple::parse(&syn, syn.len()).unwrap());
            for acknowledges in [acknowledges, start.wrapping_add(near as u32)] {
                let packet = segment(ends, sequence, acknowledges, flags, &REQUEST[..data]);
                if let Some((.., flags, _)) = ask(&packet) {
                    prop_assert!(port == HTTP || flags & RST != 0);
                }
            }
        }
    }
}
