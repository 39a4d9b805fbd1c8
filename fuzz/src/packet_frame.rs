//! Any frame from a port: parsed to the inner packet, or dropped with a reason. The packets in it are answered as a
//! list answers what it denies, with the checksum of TCP made right; a reset gets no answer.

use packet::answer::{self, LONGEST, Request};
use packet::checksum::Sum;
use packet::frame::{self, Frame};
use packet::tuple::proto;
use packet::{IpTuple, tcp};

const URL: &[u8] = b"http://portal.example/";

/// The answers to a packet of TCP: a reset and a redirection.
fn answers(packet: &[u8], tuple: &IpTuple) -> Vec<Vec<u8>> {
    let mut packet = packet.to_vec();
    let segment = usize::from(tuple.l4_offset)..usize::from(tuple.total_len);
    let Some(segment) = packet.get_mut(segment) else {
        return Vec::new();
    };
    let _ = tcp::fill_checksum(&tuple.addrs, segment);
    let sum = Sum::default().bytes(segment);
    let request = Request {
        headers: &packet,
        client: tuple,
        sum,
    };
    let mut out = [[0; LONGEST]; 2];
    let [reset, redirection] = &mut out;
    let lengths = [
        answer::reset(request, reset),
        answer::redirect(URL, request, redirection),
    ];
    let written = out.iter().zip(lengths);
    written
        .filter_map(|(out, length)| Some(out[..length.ok()?].to_vec()))
        .collect()
}

/// An answer is the other end's, and answers to answers end.
fn answer(packet: &[u8], tuple: &IpTuple, left: usize) {
    if tuple.proto == proto::TCP {
        for answer in answers(packet, tuple) {
            assert!(left > 0, "an answer too many");
            let again = IpTuple::parse(&answer, answer.len()).expect("an answer");
            assert_eq!(again.addrs, tuple.reversed().addrs);
            assert!(tcp::checksum_is_right(
                &again.addrs,
                &answer[usize::from(again.l4_offset)..]
            ));
            self::answer(&answer, &again, left - 1);
        }
    }
    let payload = &packet[..packet.len().min(1_000)];
    if let Ok(length) = answer::datagram(tuple, payload, &mut [0; LONGEST]) {
        assert!(length > payload.len());
    }
}

/// See the module.
pub fn run(bytes: &[u8]) {
    // The packet may be longer than the part that is contiguous.
    for length in [bytes.len(), bytes.len() + 1000] {
        for gtpu in [true, false] {
            match frame::parse(bytes, length, |_| gtpu) {
                Ok(Frame::Gtpu(tunnel)) => {
                    let _ = frame::parse_inner(bytes, &tunnel);
                    let _ = tunnel.message(bytes);
                    let _ = tunnel.optional_part(bytes);
                }
                Ok(Frame::Ip(ip)) => answer(&bytes[ip.ip_offset()..], &ip.tuple, 2),
                _ => {}
            }
        }
    }
}
