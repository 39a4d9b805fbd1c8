//! Reading of fields in network order from octets that may end anywhere.

/// What is left to read. Each method takes a field off the front, or gives nothing where the octets end before it.
#[derive(Clone, Copy)]
pub(crate) struct Reader<'o> {
    rest: &'o [u8],
}

impl<'o> Reader<'o> {
    pub(crate) fn new(octets: &'o [u8]) -> Reader<'o> {
        Reader { rest: octets }
    }

    pub(crate) fn rest(&self) -> &'o [u8] {
        self.rest
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(crate) fn take(&mut self, octets: usize) -> Option<&'o [u8]> {
        let (taken, rest) = self.rest.split_at_checked(octets)?;
        self.rest = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self) -> Option<u32> {
        self.array()
            .map(|[high, middle, low]| u32::from_be_bytes([0, high, middle, low]))
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    /// A vector with its length in one octet before it (RFC 8446 §3.4).
    pub(crate) fn vector8(&mut self) -> Option<&'o [u8]> {
        let octets = self.u8()?;
        self.take(usize::from(octets))
    }

    /// A vector with its length in two octets before it.
    pub(crate) fn vector16(&mut self) -> Option<&'o [u8]> {
        let octets = self.u16()?;
        self.take(usize::from(octets))
    }

    /// A variable-length integer of QUIC (RFC 9000 §16), less than 2^62.
    pub(crate) fn varint(&mut self) -> Option<u64> {
        let first = self.u8()?;
        let more = (1 << (first >> 6)) - 1;
        let octets = self.take(more)?;
        let start = u64::from(first & 0x3f);
        Some(
            octets
                .iter()
                .fold(start, |value, octet| value << 8 | u64::from(*octet)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_the_rfc() {
        // RFC 9000 Appendix A.1.
        for (octets, value) in [
            (
                &[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c][..],
                151_288_809_941_952_652,
            ),
            (&[0x9d, 0x7f, 0x3e, 0x7d], 494_878_333),
            (&[0x7b, 0xbd], 15_293),
            (&[0x25], 37),
            (&[0x40, 0x25], 37),
        ] {
            let mut reader = Reader::new(octets);
            assert_eq!(reader.varint(), Some(value));
            assert!(reader.is_empty());
            for len in 0..octets.len() {
                assert_eq!(Reader::new(&octets[..len]).varint(), None);
            }
        }
    }
}
