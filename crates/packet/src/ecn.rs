//! Explicit Congestion Notification in the headers of user packets, also of those in a tunnel (RFC 3168).

use crate::DropReason;
use crate::checksum;
use crate::eth::{L2, ether_type};
use crate::tuple::proto;
use crate::{ipv4, ipv6};

/// Congestion experienced.
const CE: u8 = 0b11;

/// Where a UDP header has its checksum.
const UDP_CHECKSUM_AT: usize = 6;

/// The two bits of the user packet that begins at `user` of a frame (RFC 3168 §5); 0, not ECT, where there is none.
#[inline]
pub fn of(frame: &[u8], user: usize) -> u8 {
    let Some([first, second]) = frame.get(user..).and_then(<[u8]>::first_chunk::<2>) else {
        return 0;
    };
    match first >> 4 {
        4 => second & 0b11,
        6 => second >> 4 & 0b11,
        _ => 0,
    }
}

/// Marks the user packet that begins at `user` of a frame as having met congestion, and keeps all checksums right: its
/// own, and that of a tunnel over IPv6 around it, unless a port is to fill that in (`is_port_to_sum`).
///
/// # Errors
/// [`DropReason::TruncatedIpv4`], [`DropReason::TruncatedIpv6`].
pub fn mark(frame: &mut [u8], user: usize, is_port_to_sum: bool) -> Result<(), DropReason> {
    let packet = frame.get_mut(user..).unwrap_or_default();
    match packet.first().map(|first| first >> 4) {
        // What a TOS adds to a sum, its header's checksum takes away: a sum around both stays.
        Some(4) => ipv4::set_ecn(packet, CE),
        _ => {
            let start = |packet: &[u8]| {
                packet
                    .first_chunk::<2>()
                    .map(|octets| u16::from_be_bytes(*octets))
            };
            let old = start(packet);
            ipv6::set_ecn(packet, CE)?;
            if let (Some(old), Some(new), false) = (old, start(packet), is_port_to_sum) {
                update_outer(frame, user, old, new);
            }
            Ok(())
        }
    }
}

/// A word of what is in a tunnel has changed.
fn update_outer(frame: &mut [u8], user: usize, old: u16, new: u16) {
    let Ok(l2) = L2::parse(frame) else { return };
    let begin = usize::from(l2.len);
    let is_udp = |header: &[u8]| header.get(6) == Some(&proto::UDP);
    let is_tunnel = l2.ether_type == ether_type::IPV6 && user >= begin + ipv6::HEADER_LEN + 8;
    if !is_tunnel || !frame.get(begin..).is_some_and(is_udp) {
        return;
    }
    let at = begin + ipv6::HEADER_LEN + UDP_CHECKSUM_AT;
    if let Some(field) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<2>) {
        let sum = checksum::update_word(u16::from_be_bytes(*field), old, new);
        // 0 says that there is none (RFC 768).
        *field = if sum == 0 { u16::MAX } else { sum }.to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::Sum;

    #[test]
    fn the_two_bits_are_found_in_both_families() {
        assert_eq!(of(&[0xff, 0x45, 0xb9], 1), 0b01);
        assert_eq!(of(&[0x60, 0x20, 0], 0), 0b10);
        assert_eq!(of(&[0x45], 0), 0);
        assert_eq!(of(&[0x45, 3], 9), 0);
        assert_eq!(of(&[0x75, 3], 0), 0);
    }

    #[test]
    fn an_ipv4_packet_is_marked_and_its_checksum_stays_right() {
        let mut frame = vec![0; 14];
        let mut header = *b"\x45\x02\0\x14\0\0\0\0\x40\x11\0\0\x0a\0\0\x01\x0a\0\0\x02";
        let sum = checksum::of(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        frame.extend_from_slice(&header);
        assert_eq!(mark(&mut frame, 14, false), Ok(()));
        assert_eq!(of(&frame, 14), CE);
        assert!(checksum::is_right(&frame[14..]));
        assert_eq!(mark(&mut [0x45; 19], 0, false), Err(DropReason::TruncatedIpv4));
    }

    /// Ethernet, IPv6, UDP, eight octets of GTP-U, and an IPv6 header.
    fn tunnelled() -> (Vec<u8>, usize) {
        let mut frame = vec![2; 12];
        frame.extend_from_slice(&[0x86, 0xdd]);
        let inner: Vec<u8> = [0x60, 0x20, 0, 0, 0, 0, 59, 64]
            .into_iter()
            .chain([7; 32])
            .collect();
        let udp: Vec<u8> = [8, 0x68, 8, 0x68, 0, 56, 0, 0]
            .into_iter()
            .chain([0x30, 255, 0, 40, 0, 0, 0, 1])
            .chain(inner)
            .collect();
        frame.extend_from_slice(&[0x60, 0, 0, 0, 0, 56, 17, 64]);
        frame.extend_from_slice(&[9; 32]);
        frame.extend_from_slice(&udp);
        (frame, 14 + 40 + 16)
    }

    fn udp_sum(frame: &[u8]) -> Sum {
        let (source, destination) = ([9; 16], [9; 16]);
        Sum::default()
            .pseudo_v6(source, destination, 17, 56)
            .bytes(&frame[54..])
    }

    #[test]
    fn the_checksum_around_an_ipv6_packet_follows() {
        let (mut frame, user) = tunnelled();
        let sum = udp_sum(&frame).udp_checksum().to_be_bytes();
        frame[60..62].copy_from_slice(&sum);
        assert!(udp_sum(&frame).is_right());
        assert_eq!(mark(&mut frame, user, false), Ok(()));
        assert_eq!(of(&frame, user), CE);
        assert!(udp_sum(&frame).is_right());
        let (mut left, before) = (frame.clone(), frame[60..62].to_vec());
        left[user + 1] = 0x20;
        assert_eq!(mark(&mut left, user, true), Ok(()));
        assert_eq!(left[60..62], before[..], "the port fills it in");
    }
}
