//! One's complement sums as the Internet checksum uses them (RFC 1071), put together from parts.
//!
//! A frame of a template differs from the last one in a few words only: the sum of the rest is kept.

/// A one's complement sum that is not folded yet. Parts are added in any order; each part starts at an even
/// octet of what is summed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds a 16-bit word.
    #[inline]
    pub(crate) fn word(self, word: u16) -> Sum {
        Sum(self.0 + u64::from(word))
    }

    /// Adds eight octets given as a big-endian number.
    #[inline]
    pub(crate) fn eight(self, octets: u64) -> Sum {
        Sum(self.0 + (octets >> 32) + (octets & 0xffff_ffff))
    }

    /// Adds another sum.
    #[inline]
    pub(crate) fn plus(self, other: Sum) -> Sum {
        Sum(self.0 + other.0)
    }

    /// Adds `octets`; an odd last one is padded with zero.
    pub(crate) fn octets(self, octets: &[u8]) -> Sum {
        let (words, rest) = octets.as_chunks::<2>();
        let sum = words
            .iter()
            .fold(self, |sum, word| sum.word(u16::from_be_bytes(*word)));
        rest.iter()
            .fold(sum, |sum, octet| sum.word(u16::from(*octet) << 8))
    }

    /// The sum as 16 bits.
    #[inline]
    pub(crate) fn fold(self) -> u16 {
        let mut sum = (self.0 >> 32) + (self.0 & 0xffff_ffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum = (sum >> 16) + (sum & 0xffff);
        sum as u16
    }

    /// The checksum of an IPv4 header that sums up to this.
    #[inline]
    pub(crate) fn checksum(self) -> u16 {
        !self.fold()
    }

    /// The checksum of a UDP datagram that sums up to this: never zero (RFC 768).
    #[inline]
    pub(crate) fn udp_checksum(self) -> u16 {
        match !self.fold() {
            0 => 0xffff,
            sum => sum,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn example_of_rfc_1071() {
        let sum = Sum::default().octets(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
        assert_eq!(sum.fold(), 0xddf2);
        assert_eq!(sum.checksum(), 0x220d);
    }

    #[test]
    fn a_udp_checksum_is_never_zero() {
        assert_eq!(Sum::default().word(0xffff).udp_checksum(), 0xffff);
    }

    proptest! {
        #[test]
        fn parts_sum_like_the_whole(octets in prop::collection::vec(any::<u8>(), 16..64), tail in any::<u64>()) {
            let even = octets.len() & !1;
            let mut whole = octets[..even].to_vec();
            whole.extend_from_slice(&tail.to_be_bytes());
            let parts = Sum::default().octets(&octets[..even]).eight(tail);
            prop_assert_eq!(parts.fold(), Sum::default().octets(&whole).fold());
        }
    }
}
