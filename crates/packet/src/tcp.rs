//! TCP (RFC 9293): the header, for inspection, [`mss`](crate::mss) and tests. The packet path reads ports only.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::header_option::{self, HeaderOption};
use crate::tuple::proto;
use crate::udp::pseudo_header;
use crate::{Addrs, DropReason};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;

/// Where the control bits are in the header.
pub const FLAGS_AT: usize = core::mem::offset_of!(Header, flags);

/// A TCP header without options, in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub src_port: U16,
    /// Destination port.
    pub dst_port: U16,
    /// Sequence number.
    pub sequence: U32,
    /// Acknowledgement number, of use with ACK.
    pub acknowledgement: U32,
    /// Data offset in units of 4 octets (4 bits), reserved (4 bits).
    pub data_offset: u8,
    /// Control bits.
    pub flags: u8,
    /// Receive window.
    pub window: U16,
    /// Checksum over pseudo header, header and payload.
    pub checksum: U16,
    /// Urgent pointer, of use with URG.
    pub urgent: U16,
}

/// Control bits (RFC 9293 §3.1).
pub mod flags {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number is meaningful.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer is meaningful.
    pub const URG: u8 = 0x20;
}

impl Header {
    /// Reads the header at the start of `bytes`, a segment of `len` octets, of which `bytes` holds at least the
    /// header. Gives the header and its octets, options included.
    ///
    /// # Errors
    /// [`DropReason::TruncatedTcp`].
    pub fn parse(bytes: &[u8], len: usize) -> Result<(&Self, usize), DropReason> {
        let (header, _) = Self::ref_from_prefix(bytes).map_err(|_| DropReason::TruncatedTcp)?;
        let header_len = usize::from(header.data_offset >> 4) * 4;
        if header_len < HEADER_LEN || header_len > len || header_len > bytes.len() {
            return Err(DropReason::TruncatedTcp);
        }
        Ok((header, header_len))
    }

    /// A header without options and checksum.
    pub fn new(src_port: u16, dst_port: u16, sequence: u32, flags: u8) -> Self {
        Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            sequence: U32::new(sequence),
            acknowledgement: U32::ZERO,
            data_offset: 0x50,
            flags,
            window: U16::MAX_VALUE,
            checksum: U16::ZERO,
            urgent: U16::ZERO,
        }
    }
}

/// The options of a header (RFC 9293 §3.1). Ends after an error.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// End of Option List.
    pub const END: u8 = header_option::END;
    /// No-Operation.
    pub const NOP: u8 = header_option::NOP;
    /// Maximum Segment Size, 2 octets of data.
    pub const MSS: u8 = 2;

    /// The options in `bytes`: what is between the fixed header and the payload.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<HeaderOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = header_option::take(&mut self.0)?;
        Some(option.map_err(|header_option::BadLength| DropReason::TruncatedTcp))
    }
}

/// Whether the checksum of a whole segment is right.
pub fn checksum_is_right(addrs: &Addrs, segment: &[u8]) -> bool {
    sum(addrs, segment).is_some_and(|sum| sum.is_right())
}

/// Writes the checksum into a whole segment. `None` when it is shorter than a header or longer than 65,535 octets.
pub fn fill_checksum(addrs: &Addrs, segment: &mut [u8]) -> Option<()> {
    let (header, _) = Header::mut_from_prefix(segment).ok()?;
    header.checksum = U16::ZERO;
    let checksum = sum(addrs, segment)?.checksum();
    let (header, _) = Header::mut_from_prefix(segment).ok()?;
    header.checksum = U16::new(checksum);
    Some(())
}

fn sum(addrs: &Addrs, segment: &[u8]) -> Option<Sum> {
    let len = u16::try_from(segment.len()).ok()?;
    Some(pseudo_header(addrs, proto::TCP, len).bytes(segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRS: Addrs = Addrs::V4 {
        src: [10, 0, 0, 1],
        dst: [10, 0, 0, 2],
    };

    #[test]
    fn fields_to_octets_to_fields() {
        let header = Header::new(0x1234, 443, 7, flags::SYN);
        let mut segment = header.as_bytes().to_vec();
        assert_eq!(
            segment,
            [
                0x12, 0x34, 1, 0xbb, 0, 0, 0, 7, 0, 0, 0, 0, 0x50, 2, 0xff, 0xff, 0, 0, 0, 0
            ]
        );
        assert_eq!(Header::parse(&segment, 20), Ok((&header, 20)));
        fill_checksum(&ADDRS, &mut segment).expect("a whole header");
        assert!(checksum_is_right(&ADDRS, &segment));
        segment[0] ^= 1;
        assert!(!checksum_is_right(&ADDRS, &segment));
        assert!(!checksum_is_right(&ADDRS, &[0; 65_536]));
        assert_eq!(fill_checksum(&ADDRS, &mut segment[..19]), None);
    }

    #[test]
    fn the_data_offset_is_verified() {
        let mut segment = Header::new(1, 2, 3, flags::ACK).as_bytes().to_vec();
        segment.extend([2, 4, 5, 0xb4]);
        assert_eq!(Header::parse(&segment[..19], 99), Err(DropReason::TruncatedTcp));
        for (offset, len, result) in [
            (0x40, 24, None),
            (0x60, 24, Some(24)),
            (0x60, 23, None),
            (0x70, 99, None),
        ] {
            segment[12] = offset;
            assert_eq!(Header::parse(&segment, len).ok().map(|(_, len)| len), result);
        }
    }

    #[test]
    fn options_are_walked_to_their_end() {
        let read: Vec<_> = Options::new(&[1, 2, 4, 5, 0xb4, 0, 9]).collect();
        let option = |kind, data| Ok(HeaderOption { kind, data });
        assert_eq!(read, [option(1, &[]), option(2, &[5, 0xb4])]);
        for bad in [&[2][..], &[2, 0], &[2, 1], &[2, 5, 0, 0]] {
            assert_eq!(
                Options::new(bad).collect::<Vec<_>>(),
                [Err(DropReason::TruncatedTcp)]
            );
        }
    }
}
