//! Payload of a simulated packet: sender, number, time, and octets that show damage.
//!
//! ```text
//!  0     2      4      8          16               24               32
//! +-------+------+------+----------+----------------+----------------+------------- - -+---------+---------+
//! | magic | size | flow | sequence | time stamp, ns | check of 0..24 | pattern         | closing | pattern |
//! +-------+------+------+----------+----------------+----------------+------------- - -+---------+---------+
//! ```
//!
//! All numbers are big-endian. The check covers the first 24 octets and belongs to one packet, so does the
//! closing (its complement, in the last 8 octets that start at a multiple of 4; absent below 40 octets):
//! a tail that belongs to another packet is found. The pattern depends on the position, and its words of four
//! octets sum up to zero in one's complement arithmetic: a UDP checksum does not need to look at them.
//!
//! Pure functions; no state.

use crate::sum::Sum;
use crate::{Direction, Nanos};

/// Octets of the measurement header: the shortest payload.
pub const MIN: usize = 32;
/// The longest payload, octets.
pub const MAX: usize = 9216;

const CLOSING: usize = 8;
const MAGIC: u16 = 0x5a1c;
const DOWNLINK: u32 = 1 << 31;

/// The measurement header of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Which way the packet travels.
    pub direction: Direction,
    /// Number of the flow, below 2^31.
    pub flow: u32,
    /// Number of the packet in its flow and direction, from 0.
    pub sequence: u64,
    /// When it was sent.
    pub sent: Nanos,
}

/// Why octets are not an intact payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Too short, or without the magic number: not one of ours.
    Foreign,
    /// It starts with the magic number, but its header does not agree with the check.
    DamagedHeader,
    /// The header is intact, octets behind it are not.
    DamagedBody(Stamp),
}

/// Writes the payload of `stamp` over all of `payload`; `None` if that is shorter than [`MIN`] or longer than [`MAX`].
pub fn write(stamp: &Stamp, payload: &mut [u8]) -> Option<()> {
    write_summed(stamp, payload).map(drop)
}

/// Writes, and returns, the one's complement sum of what was written.
#[inline]
pub(crate) fn write_summed(stamp: &Stamp, payload: &mut [u8]) -> Option<Sum> {
    let (header, body) = payload.split_first_chunk_mut::<MIN>()?;
    let length = body.len();
    let pattern = PATTERN.get(..length).filter(|_| length <= MAX - MIN)?;
    let words = words(stamp, MIN + length);
    for (place, word) in header.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_be_bytes();
    }
    body.copy_from_slice(pattern);
    let mut sum = words
        .iter()
        .fold(Sum::default(), |sum, word| sum.eight(*word))
        .plus(rest_sum(length));
    if let Some(at) = closing_at(length) {
        body[at..at + CLOSING].copy_from_slice(&(!words[3]).to_be_bytes());
        // The pattern there summed up to zero, as it does anywhere.
        sum = sum.eight(!words[3]);
    }
    Some(sum)
}

/// Reads a payload and checks each of its octets.
#[inline]
pub fn read(payload: &[u8]) -> Result<Stamp, Fault> {
    read_summed(payload).map(|(stamp, _)| stamp)
}

/// Reads, and returns, the one's complement sum of an intact payload.
#[inline]
pub(crate) fn read_summed(payload: &[u8]) -> Result<(Stamp, Sum), Fault> {
    let (header, body) = payload.split_first_chunk::<MIN>().ok_or(Fault::Foreign)?;
    let (octets, _) = header.as_chunks::<8>();
    let words = [0, 1, 2, 3].map(|at: usize| u64::from_be_bytes(octets[at]));
    if (words[0] >> 48) as u16 != MAGIC {
        return Err(Fault::Foreign);
    }
    if words[3] != check(words[0], words[1], words[2]) {
        return Err(Fault::DamagedHeader);
    }
    let (stamp, size) = (stamp(words), usize::from((words[0] >> 32) as u16));
    let sum = words.iter().fold(Sum::default(), |sum, word| sum.eight(*word));
    match body_sum(body, size, !words[3]) {
        Some(body) => Ok((stamp, sum.plus(body))),
        None => Err(Fault::DamagedBody(stamp)),
    }
}

/// The sum of an intact body; `None` if it is not intact.
#[inline]
fn body_sum(body: &[u8], size: usize, closing: u64) -> Option<Sum> {
    if size != MIN + body.len() {
        return None;
    }
    let expected = PATTERN.get(..body.len())?;
    let sum = rest_sum(body.len());
    let Some(at) = closing_at(body.len()) else {
        return (body == expected).then_some(sum);
    };
    let (pattern, rest) = body.split_at_checked(at)?;
    let (found, rest) = rest.split_first_chunk::<CLOSING>()?;
    let intact = pattern == &expected[..at]
        && u64::from_be_bytes(*found) == closing
        && rest == &expected[at + CLOSING..];
    intact.then(|| sum.eight(closing))
}

/// Where the closing starts in a body of `length` octets.
#[inline]
fn closing_at(length: usize) -> Option<usize> {
    (length >= CLOSING).then(|| (length & !3) - CLOSING)
}

/// The sum of a pattern of `length` octets: that of the octets behind the last whole word.
#[inline]
fn rest_sum(length: usize) -> Sum {
    let at = length & !3;
    let octet = |n: usize| u16::from(PATTERN[(at + n).min(MAX - 1)]);
    match length & 3 {
        0 => Sum::default(),
        1 => Sum::default().word(octet(0) << 8),
        2 => Sum::default().word(octet(0) << 8 | octet(1)),
        _ => Sum::default().word(octet(0) << 8 | octet(1)).word(octet(2) << 8),
    }
}

fn words(stamp: &Stamp, size: usize) -> [u64; 4] {
    let direction = if stamp.direction == Direction::Downlink {
        DOWNLINK
    } else {
        0
    };
    let flow = u64::from((stamp.flow & !DOWNLINK) | direction);
    let first = u64::from(MAGIC) << 48 | (size as u64) << 32 | flow;
    [
        first,
        stamp.sequence,
        stamp.sent.0,
        check(first, stamp.sequence, stamp.sent.0),
    ]
}

fn stamp(words: [u64; 4]) -> Stamp {
    let flow = words[0] as u32;
    let direction = if flow & DOWNLINK == 0 {
        Direction::Uplink
    } else {
        Direction::Downlink
    };
    Stamp {
        direction,
        flow: flow & !DOWNLINK,
        sequence: words[1],
        sent: Nanos(words[2]),
    }
}

/// Mixes three words so that a change of any bit changes about half of the result.
#[inline]
fn check(first: u64, second: u64, third: u64) -> u64 {
    let stir = |word: u64, by: u64| {
        let word = word.wrapping_mul(by);
        word ^ (word >> 32)
    };
    let first = stir(first, 0x9e37_79b9_7f4a_7c15);
    let second = stir(first ^ second, 0xbf58_476d_1ce4_e5b9);
    stir(second ^ third, 0x94d0_49bb_1331_11eb)
}

static PATTERN: [u8; MAX] = pattern();

/// Words of four octets, each of which sums up to 0xffff: two octets that depend on the position, and their
/// complement.
const fn pattern() -> [u8; MAX] {
    let mut octets = [0; MAX];
    let mut at = 0;
    while at + 4 <= MAX {
        let word = ((at as u32 + 1).wrapping_mul(0x9e37_79b1) >> 13) as u16;
        [octets[at], octets[at + 1]] = word.to_be_bytes();
        [octets[at + 2], octets[at + 3]] = (!word).to_be_bytes();
        at += 4;
    }
    octets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn a_stamp() -> impl Strategy<Value = Stamp> {
        (any::<bool>(), 0..1u32 << 31, any::<u64>(), any::<u64>()).prop_map(|(down, flow, sequence, sent)| {
            let direction = if down {
                Direction::Downlink
            } else {
                Direction::Uplink
            };
            Stamp {
                direction,
                flow,
                sequence,
                sent: Nanos(sent),
            }
        })
    }

    #[test]
    fn layout() {
        let stamp = Stamp {
            direction: Direction::Downlink,
            flow: 3,
            sequence: 5,
            sent: Nanos(7),
        };
        let mut octets = [0; 48];
        write(&stamp, &mut octets).unwrap();
        assert_eq!(octets[..8], [0x5a, 0x1c, 0, 48, 0x80, 0, 0, 3]);
        assert_eq!(octets[8..24], [0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 7]);
        let complement: Vec<u8> = octets[24..32].iter().map(|octet| !octet).collect();
        assert_eq!(octets[40..48], complement);
    }

    #[test]
    fn too_short_or_not_ours_is_foreign() {
        let stamp = Stamp {
            direction: Direction::Uplink,
            flow: 0,
            sequence: 0,
            sent: Nanos(0),
        };
        assert_eq!(write(&stamp, &mut [0; MIN - 1]), None);
        assert_eq!(read(&[0; MIN - 1]), Err(Fault::Foreign));
        assert_eq!(read(&[0; 100]), Err(Fault::Foreign));
    }

    #[test]
    fn the_tail_of_another_packet_is_damage() {
        let stamp = Stamp {
            direction: Direction::Uplink,
            flow: 1,
            sequence: 1,
            sent: Nanos(1),
        };
        let (mut one, mut two) = ([0; 200], [0; 200]);
        write(&stamp, &mut one).unwrap();
        write(&Stamp { sequence: 2, ..stamp }, &mut two).unwrap();
        one[100..].copy_from_slice(&two[100..]);
        assert_eq!(read(&one), Err(Fault::DamagedBody(stamp)));
    }

    proptest! {
        #[test]
        fn reads_what_was_written(stamp in a_stamp(), length in MIN..2000) {
            let mut octets = vec![0; length];
            let sum = write_summed(&stamp, &mut octets).unwrap();
            prop_assert_eq!(sum.fold() % 0xffff, Sum::default().octets(&octets).fold() % 0xffff);
            let (found, read_sum) = read_summed(&octets).unwrap();
            prop_assert_eq!(found, stamp);
            prop_assert_eq!(read_sum.fold(), sum.fold());
        }

        #[test]
        fn each_damaged_bit_is_found(stamp in a_stamp(), length in MIN..300, at in any::<prop::sample::Index>(), bit in 0..8) {
            let mut octets = vec![0; length];
            write(&stamp, &mut octets).unwrap();
            octets[at.index(length)] ^= 1u8 << bit;
            prop_assert!(read(&octets).is_err());
        }

        #[test]
        fn each_cut_or_padding_is_found(stamp in a_stamp(), length in MIN..300usize, other in 0..400usize) {
            prop_assume!(other != length);
            let mut octets = vec![0; length];
            write(&stamp, &mut octets).unwrap();
            octets.resize(other, 0);
            prop_assert!(read(&octets).is_err());
        }

        #[test]
        fn foreign_octets_do_no_harm(octets in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(read(&octets).is_err());
        }
    }
}
