//! The maximum segment size that a TCP segment with SYN announces (RFC 9293 §3.7.1), lowered on its way: what then
//! comes fits the links that it did not know of.

use crate::checksum::update_word;
use crate::tcp::{HEADER_LEN, Header, Options, flags};

/// Offset of the checksum in the header.
const CHECKSUM_AT: usize = core::mem::offset_of!(Header, checksum);

/// Lowers the maximum segment size of a segment with SYN, which starts at `segment[0]` with its TCP header, to `most`
/// octets if it announces more, and updates its checksum (RFC 1624 §3): a wrong one stays wrong. A segment without the
/// option, and one whose options are not as RFC 9293 §3.2 has them or not all there, is left as it is. Whether it was
/// changed.
///
/// ```
/// use packet::{mss, tcp};
///
/// let mut segment = [0, 80, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0, 0x60, tcp::flags::SYN, 0, 0, 0, 0, 0, 0, 2, 4, 5, 0xb4];
/// assert!(mss::clamp(&mut segment, 1360));
/// assert_eq!(segment[20..], [2, 4, 5, 0x50]);
/// assert!(!mss::clamp(&mut segment, 1400));
/// ```
#[cold]
pub fn clamp(segment: &mut [u8], most: u16) -> bool {
    let Ok((header, header_len)) = Header::parse(segment, segment.len()) else {
        return false;
    };
    let is_opening = header.flags & flags::SYN != 0;
    let options = segment.get(HEADER_LEN..header_len).unwrap_or_default();
    if !is_opening || !are_whole(options) {
        return false;
    }
    let (mut at, mut changed) = (HEADER_LEN, false);
    while at < header_len {
        match segment.get(at..at + 2) {
            None | Some([Options::END, _]) => break,
            Some([Options::NOP, _]) => at += 1,
            Some(&[kind, len]) => {
                changed |= kind == Options::MSS && lower(segment, at + 2, most);
                at += usize::from(len.max(2));
            }
            Some(_) => break,
        }
    }
    changed
}

/// Whether all options are there, and sizes of their length.
fn are_whole(options: &[u8]) -> bool {
    Options::new(options).all(|option| match option {
        Ok(option) => option.kind != Options::MSS || option.data.len() == 2,
        Err(_) => false,
    })
}

/// Lowers the size at `at`. Whether it announced more.
fn lower(segment: &mut [u8], at: usize, most: u16) -> bool {
    let Some(size) = segment.get_mut(at..).and_then(<[u8]>::first_chunk_mut) else {
        return false;
    };
    let announced = u16::from_be_bytes(*size);
    if announced <= most {
        return false;
    }
    *size = most.to_be_bytes();
    // At an odd place its octets count in two words of the sum, each in the other half.
    let (old, new) = match at % 2 {
        0 => (announced, most),
        _ => (announced.swap_bytes(), most.swap_bytes()),
    };
    if let Some(sum) = segment.get_mut(CHECKSUM_AT..).and_then(<[u8]>::first_chunk_mut) {
        *sum = update_word(u16::from_be_bytes(*sum), old, new).to_be_bytes();
    }
    true
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Addrs, tcp};
    use zerocopy::IntoBytes;

    const ADDRS: Addrs = Addrs::V4 {
        src: [10, 45, 0, 1],
        dst: [203, 0, 113, 5],
    };

    /// A segment with these options, filled up with zeros, and its checksum.
    fn segment(flags: u8, options: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut octets = Header::new(40_000, 443, 7, flags).as_bytes().to_vec();
        octets.extend(options);
        octets.resize(octets.len().next_multiple_of(4), 0);
        octets[12] = (octets.len() as u8 / 4) << 4;
        octets.extend(payload);
        tcp::fill_checksum(&ADDRS, &mut octets).expect("a whole segment");
        octets
    }

    fn clamped(options: &[u8], most: u16) -> Option<Vec<u8>> {
        let mut octets = segment(flags::SYN, options, &[]);
        let before = octets.clone();
        let changed = clamp(&mut octets, most);
        assert_eq!(changed, octets != before);
        assert!(tcp::checksum_is_right(&ADDRS, &octets));
        changed.then(|| octets[HEADER_LEN..HEADER_LEN + options.len()].to_vec())
    }

    #[test]
    fn a_size_is_lowered_wherever_it_is() {
        assert_eq!(clamped(&[2, 4, 0x05, 0xb4], 1360), Some(vec![2, 4, 0x05, 0x50]));
        // As Linux sends them; at an odd place; twice; behind what is not known.
        let linux = [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 1, 2, 3, 0, 0, 0, 0, 1, 3, 3, 7];
        assert_eq!(
            clamped(&linux, 536).map(|options| options[..4].to_vec()),
            Some(vec![2, 4, 2, 0x18])
        );
        assert_eq!(
            clamped(&[1, 2, 4, 0xff, 0xff, 0], 1220),
            Some(vec![1, 2, 4, 4, 0xc4, 0])
        );
        assert_eq!(
            clamped(&[2, 4, 9, 9, 2, 4, 8, 8], 1400),
            Some(vec![2, 4, 5, 0x78, 2, 4, 5, 0x78])
        );
        assert_eq!(
            clamped(&[254, 3, 9, 2, 4, 9, 9], 1400),
            Some(vec![254, 3, 9, 2, 4, 5, 0x78])
        );
    }

    #[test]
    fn a_size_that_is_not_larger_or_missing_is_left_alone() {
        for options in [
            &[2, 4, 0x05, 0x50][..],
            &[],
            &[1, 1, 1],
            &[4, 2],
            &[0, 0, 0, 2, 4, 0xff, 0xff],
        ] {
            assert_eq!(clamped(options, 1360), None, "{options:?}");
        }
        let mut established = segment(flags::ACK, &[2, 4, 0xff, 0xff], &[]);
        assert!(!clamp(&mut established, 536));
    }

    #[test]
    fn malformed_options_are_left_alone() {
        for options in [
            &[2, 3, 9, 1][..],
            &[2, 5, 9, 9, 9],
            &[2, 4, 9, 9, 3, 0, 0, 0],
            &[2, 4, 9, 9, 3, 1],
            &[2, 4, 9, 9, 3, 9, 0, 0],
            &[2, 4, 9, 9, 1, 1, 1, 3],
        ] {
            assert_eq!(clamped(options, 536), None, "{options:?}");
        }
        // The header ends before its options, or says so.
        let whole = segment(flags::SYN, &[2, 4, 9, 9], &[]);
        for len in 0..whole.len() {
            let mut cut = whole[..len].to_vec();
            assert!(!clamp(&mut cut, 536), "{len}");
            assert_eq!(cut, whole[..len]);
        }
        let mut short = whole;
        short[12] = 0x40;
        assert!(!clamp(&mut short, 536));
    }

    proptest! {
        #[test]
        fn the_checksum_stays_as_right_as_it_was(
            options in prop::collection::vec(prop_oneof![Just(1u8), Just(2), Just(4), any::<u8>()], 0..=40),
            payload in prop::collection::vec(any::<u8>(), 0..9), most in 536u16.., damage: u8
        ) {
            let mut octets = segment(flags::SYN | flags::ACK, &options, &payload);
            octets[17] ^= damage;
            let mut expected = octets.clone();
            let changed = clamp(&mut octets, most);
            prop_assert_eq!(tcp::checksum_is_right(&ADDRS, &octets), damage == 0);
            if !changed {
                prop_assert_eq!(&octets, &expected);
            }
            prop_assert_eq!(octets.len(), expected.len());
            octets[16..18].fill(0);
            expected[16..18].fill(0);
            let differing = octets.iter().zip(&expected).filter(|(one, other)| one != other).count();
            prop_assert!(differing <= 2 * octets.windows(2).filter(|two| *two == [2, 4]).count());
            let mut again = octets.clone();
            prop_assert!(!clamp(&mut again, most));
        }
    }
}
