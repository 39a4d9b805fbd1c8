//! Protocols over UDP that name no host: recognised by their form.

use crate::reader::Reader;

/// Packets that STUN is recognised by.
pub const STUN_PACKETS: u8 = 1;
/// Packets that WireGuard is recognised by.
pub const WIREGUARD_PACKETS: u8 = 1;
/// Packets that RTP is recognised by: of one sender and source, with consecutive sequence numbers.
pub const RTP_PACKETS: u8 = 4;

const STUN_HEADER: usize = 20;
const MAGIC_COOKIE: u32 = 0x2112_a442;

/// Whether a payload is a STUN message: two zero bits, the magic cookie, the length, and attributes that fill it (RFC
/// 8489 §5, §14).
pub fn is_stun(payload: &[u8]) -> bool {
    has_stun_header(payload).is_some_and(|attributes| has_whole_attributes(attributes).is_some())
}

/// The attributes behind a header that is one of STUN.
fn has_stun_header(payload: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(payload);
    let (kind, len, cookie) = (reader.u16()?, reader.u16()?, reader.u32()?);
    let attributes = payload.get(STUN_HEADER..)?;
    let is_stun =
        kind >> 14 == 0 && cookie == MAGIC_COOKIE && usize::from(len) == attributes.len() && len % 4 == 0;
    is_stun.then_some(attributes)
}

fn has_whole_attributes(attributes: &[u8]) -> Option<()> {
    let mut reader = Reader::new(attributes);
    while !reader.is_empty() {
        reader.u16()?;
        let len = usize::from(reader.u16()?);
        reader.take(len.next_multiple_of(4))?;
    }
    Some(())
}

/// Whether a payload is a message of WireGuard's handshake: initiation, response or cookie reply, each of one length
/// and with three octets of zero behind its type.
pub fn is_wireguard_handshake(payload: &[u8]) -> bool {
    matches!(
        (payload.first_chunk(), payload.len()),
        (Some([1, 0, 0, 0]), 148) | (Some([2, 0, 0, 0]), 92) | (Some([3, 0, 0, 0]), 64)
    )
}

/// What one sender's packets have had of RTP so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rtp {
    source: u32,
    next_number: u16,
    packets: u8,
}

impl Rtp {
    /// Looks at the next packet of the sender. Whether it and those before it are RTP: [`RTP_PACKETS`] of them with
    /// version 2, one SSRC and consecutive sequence numbers (RFC 3550 §5.1).
    pub fn recognises(&mut self, payload: &[u8]) -> bool {
        let Some((source, number)) = rtp_header(payload) else {
            self.packets = 0;
            return false;
        };
        let continues = self.packets > 0 && (self.source, self.next_number) == (source, number);
        *self = Rtp {
            source,
            next_number: number.wrapping_add(1),
            packets: if continues {
                self.packets.saturating_add(1)
            } else {
                1
            },
        };
        self.packets >= RTP_PACKETS
    }
}

/// Whether a payload has the form of RTP, so that the next ones are worth a look.
pub fn may_be_rtp(payload: &[u8]) -> bool {
    rtp_header(payload).is_some()
}

/// SSRC and sequence number of a packet whose header and padding fit (RFC 3550 §5.1, §5.3.1). Its type is none that
/// RTCP has at the same place (RFC 5761 §4).
fn rtp_header(payload: &[u8]) -> Option<(u32, u16)> {
    let mut reader = Reader::new(payload);
    let (first, kind, number) = (reader.u8()?, reader.u8()? & 0x7f, reader.u16()?);
    reader.u32()?;
    let source = reader.u32()?;
    if first >> 6 != 2 || (64..96).contains(&kind) {
        return None;
    }
    reader.take(4 * usize::from(first & 0x0f))?;
    if first & 0x10 != 0 {
        reader.u16()?;
        let words = usize::from(reader.u16()?);
        reader.take(4 * words)?;
    }
    if first & 0x20 != 0 {
        let padding = usize::from(*payload.last()?);
        if padding == 0 || padding > reader.rest().len() {
            return None;
        }
    }
    Some((source, number))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A binding request with one attribute, SOFTWARE, of three octets.
    fn stun() -> Vec<u8> {
        let header = [0, 1, 0, 8, 0x21, 0x12, 0xa4, 0x42];
        [&header[..], &[7; 12], &[0x80, 0x22, 0, 3, b'a', b'b', b'c', 0]].concat()
    }

    fn rtp(number: u16, source: u8) -> Vec<u8> {
        let number = number.to_be_bytes();
        [
            &[0x80, 0x60, number[0], number[1]][..],
            &[1; 4],
            &[source; 4],
            b"voice",
        ]
        .concat()
    }

    #[test]
    fn a_stun_message_is_recognised_by_one_packet() {
        assert!(is_stun(&stun()));
        for (at, octet) in [(0, 0x40), (3, 4), (3, 9), (4, 0), (23, 9)] {
            let mut other = stun();
            other[at] = octet;
            assert!(!is_stun(&other), "{at}");
        }
        assert!(!is_stun(&stun()[..20]));
    }

    #[test]
    fn wireguard_is_recognised_by_a_message_of_its_handshake() {
        for (kind, len) in [(1, 148), (2, 92), (3, 64)] {
            let mut message = vec![0; len];
            message[0] = kind;
            assert!(is_wireguard_handshake(&message));
            assert!(!is_wireguard_handshake(&message[1..]));
            message[2] = 1;
            assert!(!is_wireguard_handshake(&message));
        }
        // Data alone has too little form.
        assert!(!is_wireguard_handshake(&[4; 32]));
    }

    #[test]
    fn rtp_is_recognised_by_consecutive_packets_of_one_source() {
        let packets = |packets: &[Vec<u8>]| {
            let mut rtp = Rtp::default();
            packets
                .iter()
                .map(|packet| rtp.recognises(packet))
                .collect::<Vec<_>>()
        };
        let four: Vec<_> = [65_534, 65_535, 0, 1].map(|number| rtp(number, 9)).into();
        assert_eq!(packets(&four), [false, false, false, true]);
        let mut gap = four.clone();
        gap.remove(1);
        assert_eq!(packets(&gap), [false; 3]);
        let mut sources = four.clone();
        sources[2] = rtp(0, 8);
        assert_eq!(packets(&sources), [false; 4]);
        let mut rtcp = four;
        rtcp[0][1] = 200;
        assert!(!may_be_rtp(&rtcp[0]) && may_be_rtp(&rtcp[1]));
    }

    proptest! {
        #[test]
        fn any_payload_is_read(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (is_stun(&payload), is_wireguard_handshake(&payload), may_be_rtp(&payload));
        }
    }
}
