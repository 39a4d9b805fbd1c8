//! The Internet checksum (RFC 1071), its pseudo headers, and its incremental update (RFC 1624).

use core::net::{Ipv4Addr, Ipv6Addr};

/// A ones' complement sum under way, over any number of pieces of any length.
///
/// ```
/// use packet::checksum::Sum;
///
/// // RFC 1071 §3, in two pieces of odd length
/// let sum = Sum::default().bytes(&[0x00, 0x01, 0xf2]).bytes(&[0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
/// assert_eq!(sum.checksum(), !0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[must_use]
pub struct Sum {
    /// Words in memory order, carries not yet folded in.
    total: u64,
    /// Whether an odd number of octets has been added.
    odd: bool,
}

impl Sum {
    /// The sum that 16 bits, given as a number, contribute at an even place.
    #[inline]
    pub fn word(self, word: u16) -> Self {
        self.plus(u64::from(word.to_be()))
    }

    /// Adds octets behind those already added.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Self {
        let sum = sum_words(bytes);
        let sum = if self.odd {
            u64::from(fold(sum).swap_bytes())
        } else {
            sum
        };
        Self {
            odd: self.odd == bytes.len().is_multiple_of(2),
            ..self.plus(sum)
        }
    }

    /// The sum over what `before` covers, followed by what this one covers.
    #[inline]
    pub fn after(self, before: Sum) -> Self {
        let sum = if before.odd {
            u64::from(fold(self.total).swap_bytes())
        } else {
            self.total
        };
        Self {
            odd: self.odd ^ before.odd,
            ..before.plus(fold(sum).into())
        }
    }

    /// Adds the IPv4 pseudo header (RFC 768, RFC 9293 §3.1); `len` is that of the transport header and payload.
    #[inline]
    pub fn pseudo_v4(self, src: [u8; 4], dst: [u8; 4], proto: u8, len: u16) -> Self {
        let addresses = u64::from(u32::from_ne_bytes(src)) + u64::from(u32::from_ne_bytes(dst));
        self.plus(addresses).word(u16::from(proto)).word(len)
    }

    /// Adds the IPv6 pseudo header (RFC 8200 §8.1); `len` is that of the transport header and payload.
    #[inline]
    pub fn pseudo_v6(self, src: [u8; 16], dst: [u8; 16], proto: u8, len: u16) -> Self {
        self.plus(sum_words(&src) + sum_words(&dst))
            .word(u16::from(proto))
            .word(len)
    }

    /// The sum, folded to 16 bits: 0xffff over data that carries its right checksum.
    #[inline]
    pub fn folded(self) -> u16 {
        u16::from_be(fold(self.total))
    }

    /// Whether data that carries its checksum sums up right.
    #[inline]
    pub const fn is_right(self) -> bool {
        is_all_ones(self.total)
    }

    /// The checksum: the complement of the sum.
    #[inline]
    pub fn checksum(self) -> u16 {
        !self.folded()
    }

    /// The checksum as UDP sends it, where 0 means "none" (RFC 768).
    #[inline]
    pub fn udp_checksum(self) -> u16 {
        match self.checksum() {
            0 => 0xffff,
            checksum => checksum,
        }
    }

    /// Adds what is at most a few times 2^36 and so cannot overflow within any packet.
    #[inline]
    fn plus(self, sum: u64) -> Self {
        Self {
            total: (self.total & 0xffff_ffff_ffff) + (self.total >> 48) + sum,
            ..self
        }
    }
}

/// The sum of 32-bit words in memory order, the last one filled up with zeros.
#[inline]
fn sum_words(bytes: &[u8]) -> u64 {
    let (words, tail) = bytes.as_chunks::<4>();
    let sum: u64 = words
        .iter()
        .map(|word| u64::from(u32::from_ne_bytes(*word)))
        .sum();
    let mut last = [0; 4];
    if let Some(start) = last.get_mut(..tail.len()) {
        start.copy_from_slice(tail);
    }
    sum + u64::from(u32::from_ne_bytes(last))
}

/// Folds all carries in.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// The checksum of `bytes` alone, as in an IPv4 header or ICMP for IPv4 (checksum field zero or not part of it).
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::default().bytes(bytes).checksum()
}

/// Whether `bytes`, which include their checksum, sum up right.
#[inline]
pub fn is_right(bytes: &[u8]) -> bool {
    Sum::default().bytes(bytes).is_right()
}

/// The same for the 20 octets of an IPv4 header without options.
#[inline(always)]
pub fn is_right_20(bytes: &[u8; 20]) -> bool {
    let (words, _) = bytes.as_chunks::<4>();
    is_all_ones(
        words
            .iter()
            .map(|word| u64::from(u32::from_ne_bytes(*word)))
            .sum(),
    )
}

/// Whether `sum` folds to 0xffff: a multiple of it, and not 0. One multiplication instead of four foldings.
#[inline(always)]
const fn is_all_ones(sum: u64) -> bool {
    sum != 0 && sum.is_multiple_of(0xffff)
}

/// `checksum` after a 16-bit field went from `old` to `new` (RFC 1624 §3, equation 3).
#[inline]
pub const fn update_word(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// What a 16-bit field that goes from `old` to `new` adds to a ones' complement sum that covers it.
#[inline]
pub const fn word_adds(old: u16, new: u16) -> u16 {
    fold(!old as u64 + new as u64)
}

/// What a 32-bit field at an even place that goes from `old` to `new` adds to such a sum.
#[inline]
pub const fn u32_adds(old: u32, new: u32) -> u16 {
    fold(!old as u64 + new as u64)
}

/// Both together, of two changes under one sum.
#[inline]
pub const fn both_add(one: u16, other: u16) -> u16 {
    fold(one as u64 + other as u64)
}

/// `checksum` after a change that adds `sum` to what it covers (RFC 1624 §3, equation 3).
#[inline]
pub const fn update_by(checksum: u16, sum: u16) -> u16 {
    !fold(!checksum as u64 + sum as u64)
}

/// `checksum` after a 32-bit field at an even place went from `old` to `new`, such as an IPv4 address.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    !fold(!checksum as u64 + !old as u64 + new as u64)
}

/// `checksum` after an IPv4 address that it covers was replaced.
#[inline]
pub const fn update_ipv4(checksum: u16, old: Ipv4Addr, new: Ipv4Addr) -> u16 {
    update_u32(checksum, old.to_bits(), new.to_bits())
}

/// `checksum` after an IPv6 address that it covers was replaced.
#[inline]
pub fn update_ipv6(checksum: u16, old: Ipv6Addr, new: Ipv6Addr) -> u16 {
    let words = old.segments().into_iter().zip(new.segments());
    words.fold(checksum, |sum, (old, new)| update_word(sum, old, new))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// RFC 1071 §1, literally.
    fn slow_sum(bytes: &[u8]) -> u16 {
        let mut sum: u32 = 0;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    #[test]
    fn an_ipv4_header_sums_up() {
        let header = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
        ];
        assert!(is_right(&header));
        let mut blank = header;
        blank[10..12].fill(0);
        assert_eq!(of(&blank), 0xb861);
    }

    #[test]
    fn udp_never_sends_zero() {
        assert_eq!(Sum::default().word(0xffff).udp_checksum(), 0xffff);
        assert_eq!(Sum::default().word(0xfffe).udp_checksum(), 1);
    }

    #[test]
    fn the_example_of_rfc_1624_section_4() {
        assert_eq!(update_word(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn equals_the_slow_sum_in_any_pieces(
            bytes in prop::collection::vec(any::<u8>(), 0..200), cuts in prop::collection::vec(0..200usize, 0..4)
        ) {
            let mut cuts: Vec<_> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let sum = cuts.windows(2).fold(Sum::default(), |sum, pair| sum.bytes(&bytes[pair[0]..pair[1]]));
            prop_assert_eq!(sum.folded(), slow_sum(&bytes));
            prop_assert_eq!(sum.is_right(), slow_sum(&bytes) == 0xffff);
        }

        #[test]
        fn a_header_of_20_octets_is_right_when_it_sums_up(mut bytes: [u8; 20], damage: u8) {
            bytes[10..12].fill(0);
            let sum = of(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            prop_assert!(is_right_20(&bytes));
            bytes[3] ^= damage;
            prop_assert_eq!(is_right_20(&bytes), slow_sum(&bytes) == 0xffff);
            prop_assert!(!is_right_20(&[0; 20]));
        }

        #[test]
        fn pseudo_headers_equal_their_octets(src: [u8; 16], dst: [u8; 16], proto: u8, len: u16) {
            let octets = [&src[..], &dst, &[0, 0], &len.to_be_bytes(), &[0, 0, 0, proto]].concat();
            prop_assert_eq!(Sum::default().pseudo_v6(src, dst, proto, len).folded(), slow_sum(&octets));
            let (src, dst) = (src.first_chunk::<4>().unwrap(), dst.first_chunk::<4>().unwrap());
            let octets = [&src[..], dst, &[0, proto], &len.to_be_bytes()].concat();
            prop_assert_eq!(Sum::default().pseudo_v4(*src, *dst, proto, len).folded(), slow_sum(&octets));
        }

        #[test]
        fn an_update_equals_a_new_sum(
            mut bytes in prop::collection::vec(1u8.., 40..80), old: [u8; 16], new: [u8; 16]
        ) {
            bytes[8..24].copy_from_slice(&old);
            let before = of(&bytes);
            bytes[8..24].copy_from_slice(&new);
            prop_assert_eq!(update_ipv6(before, old.into(), new.into()), of(&bytes));
            bytes[8..12].copy_from_slice(&old[..4]);
            let back = update_ipv4(of(&bytes), Ipv4Addr::from_octets(*old.first_chunk().unwrap()),
                Ipv4Addr::from_octets(*new.first_chunk().unwrap()));
            bytes[8..12].copy_from_slice(&new[..4]);
            prop_assert_eq!(back, of(&bytes));
        }
    }
}
