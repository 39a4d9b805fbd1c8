//! IPv4 (RFC 791): header, options, checksum and what a router changes.

use core::net::Ipv4Addr;

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::header_option::{self, HeaderOption};
use crate::{DropReason, checksum};

/// Octets of a header without options.
pub const HEADER_LEN: usize = 20;
/// The "don't fragment" bit of [`Header::fragment`].
pub const DONT_FRAGMENT: u16 = 0x4000;
/// The "more fragments" bit of [`Header::fragment`].
pub const MORE_FRAGMENTS: u16 = 0x2000;
/// The offset, in units of 8 octets, in [`Header::fragment`].
pub const FRAGMENT_OFFSET: u16 = 0x1fff;

/// An IPv4 header without options, in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Version (4) and header length in units of 4 octets.
    pub version_ihl: u8,
    /// DSCP (6 bits) and ECN (2 bits).
    pub tos: u8,
    /// Octets of the whole packet.
    pub total_len: U16,
    /// Identification, of use only to fragments (RFC 6864).
    pub id: U16,
    /// Flags and fragment offset.
    pub fragment: U16,
    /// Time to live.
    pub ttl: u8,
    /// Protocol of what follows.
    pub proto: u8,
    /// Header checksum.
    pub checksum: U16,
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
}

/// What a new header is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields {
    /// Source address.
    pub src: Ipv4Addr,
    /// Destination address.
    pub dst: Ipv4Addr,
    /// Protocol of the payload.
    pub proto: u8,
    /// Time to live.
    pub ttl: u8,
    /// DSCP and ECN.
    pub tos: u8,
    /// Identification; 0 is right for packets that must not be fragmented (RFC 6864 §4.1).
    pub id: u16,
    /// Whether routers may not fragment it.
    pub dont_fragment: bool,
}

impl Fields {
    /// The header, with its checksum, of a packet with `payload_len` octets behind it; `None` when the sum is above
    /// 65,535.
    pub fn header(&self, payload_len: usize) -> Option<Header> {
        let total_len = u16::try_from(payload_len.checked_add(HEADER_LEN)?).ok()?;
        let mut header = Header {
            version_ihl: 0x45,
            tos: self.tos,
            total_len: U16::new(total_len),
            id: U16::new(self.id),
            fragment: U16::new(if self.dont_fragment { DONT_FRAGMENT } else { 0 }),
            ttl: self.ttl,
            proto: self.proto,
            checksum: U16::ZERO,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        header.checksum = U16::new(checksum::of(header.as_bytes()));
        Some(header)
    }
}

/// Octets of the header at the start of `bytes`, options included, with everything about its form verified: version,
/// header length, presence in full, and the checksum (RFC 1812 §5.2.2).
///
/// # Errors
/// [`DropReason::TruncatedIpv4`], [`DropReason::BadIpv4Header`], [`DropReason::BadIpv4Checksum`].
#[inline(always)]
pub fn verify_header(bytes: &[u8]) -> Result<usize, DropReason> {
    let header = bytes
        .first_chunk::<HEADER_LEN>()
        .ok_or(DropReason::TruncatedIpv4)?;
    if header[0] != 0x45 {
        return verify_header_with_options(bytes, header[0]);
    }
    if checksum::is_right_20(header) {
        Ok(HEADER_LEN)
    } else {
        Err(DropReason::BadIpv4Checksum)
    }
}

#[inline(never)]
fn verify_header_with_options(bytes: &[u8], version_ihl: u8) -> Result<usize, DropReason> {
    let len = header_len(version_ihl)?;
    let header = bytes.get(..len).ok_or(DropReason::TruncatedIpv4)?;
    if !checksum::is_right(header) {
        return Err(DropReason::BadIpv4Checksum);
    }
    let options = Options(header.get(HEADER_LEN..).unwrap_or_default());
    match options.last() {
        Some(Err(reason)) => Err(reason),
        _ => Ok(len),
    }
}

/// Octets of a header whose first octet is `version_ihl`: 20 to 60.
///
/// # Errors
/// [`DropReason::BadIpv4Header`].
#[inline(always)]
pub const fn header_len(version_ihl: u8) -> Result<usize, DropReason> {
    match version_ihl {
        0x45..=0x4f => Ok((version_ihl & 0x0f) as usize * 4),
        _ => Err(DropReason::BadIpv4Header),
    }
}

/// The options of a header (RFC 791 §3.1). Ends after an error.
#[derive(Clone, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// End of Option List.
    pub const END: u8 = header_option::END;
    /// No Operation.
    pub const NOP: u8 = header_option::NOP;
    /// Loose Source and Record Route.
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    /// Strict Source and Record Route.
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// Router Alert (RFC 2113).
    pub const ROUTER_ALERT: u8 = 148;

    /// The options in `bytes`: what is between the fixed header and the payload.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<HeaderOption<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        let option = header_option::take(&mut self.0)?;
        Some(option.map_err(|header_option::BadLength| DropReason::BadIpv4Header))
    }
}

/// Takes one from the TTL and updates the checksum (RFC 1812 §5.3.1, RFC 1624).
///
/// # Errors
/// [`DropReason::TtlExpired`] when nothing would be left (the packet is not changed),
/// [`DropReason::TruncatedIpv4`].
#[inline]
pub fn decrement_ttl(packet: &mut [u8]) -> Result<(), DropReason> {
    let header = packet
        .first_chunk_mut::<HEADER_LEN>()
        .ok_or(DropReason::TruncatedIpv4)?;
    let ttl = header[8];
    if ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    header[8] = ttl - 1;
    // One less in an upper octet is one more in the complement's: RFC 1624 §3, for this one change.
    let checksum = u16::from_be_bytes([header[10], header[11]]);
    let (sum, carry) = checksum.overflowing_add(0x0100);
    let sum = sum + u16::from(carry);
    let sum = if sum == 0xffff { 0 } else { sum };
    [header[10], header[11]] = sum.to_be_bytes();
    Ok(())
}

/// Replaces the DSCP (the upper six bits of the TOS; ECN stays) and updates the checksum.
///
/// # Errors
/// [`DropReason::TruncatedIpv4`].
#[inline]
pub fn set_dscp(packet: &mut [u8], dscp: u8) -> Result<(), DropReason> {
    let header = packet
        .first_chunk_mut::<HEADER_LEN>()
        .ok_or(DropReason::TruncatedIpv4)?;
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] = dscp << 2 | header[1] & 0x03;
    let new = u16::from_be_bytes([header[0], header[1]]);
    patch_checksum(header, old, new);
    Ok(())
}

/// Replaces the two bits of ECN (RFC 3168 §5) and updates the checksum.
///
/// # Errors
/// [`DropReason::TruncatedIpv4`].
pub fn set_ecn(packet: &mut [u8], ecn: u8) -> Result<(), DropReason> {
    let header = packet
        .first_chunk_mut::<HEADER_LEN>()
        .ok_or(DropReason::TruncatedIpv4)?;
    let old = u16::from_be_bytes([header[0], header[1]]);
    header[1] = header[1] & !0x03 | ecn & 0x03;
    let new = u16::from_be_bytes([header[0], header[1]]);
    patch_checksum(header, old, new);
    Ok(())
}

#[inline]
fn patch_checksum(header: &mut [u8; HEADER_LEN], old: u16, new: u16) {
    let before = u16::from_be_bytes([header[10], header[11]]);
    let after = checksum::update_word(before, old, new).to_be_bytes();
    header[10] = after[0];
    header[11] = after[1];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields() -> Fields {
        Fields {
            src: Ipv4Addr::new(192, 168, 0, 1),
            dst: Ipv4Addr::new(192, 168, 0, 199),
            proto: 17,
            ttl: 64,
            tos: 0,
            id: 0,
            dont_fragment: true,
        }
    }

    const OCTETS: [u8; 20] = [
        0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0xb8, 0x61, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7,
    ];

    #[test]
    fn fields_to_octets_to_fields() {
        let header = fields().header(0x73 - 20).expect("short enough");
        assert_eq!(header.as_bytes(), OCTETS);
        assert_eq!(Header::ref_from_bytes(&OCTETS), Ok(&header));
        assert_eq!(verify_header(&OCTETS), Ok(20));
        assert_eq!(fields().header(65_516), None);
        assert_eq!(fields().header(usize::MAX), None);
    }

    #[test]
    fn each_defect_has_its_reason() {
        assert_eq!(verify_header(&OCTETS[..19]), Err(DropReason::TruncatedIpv4));
        for (first, reason) in [
            (0x44, DropReason::BadIpv4Header),
            (0x65, DropReason::BadIpv4Header),
            (0x46, DropReason::TruncatedIpv4),
        ] {
            let mut bytes = OCTETS;
            bytes[0] = first;
            assert_eq!(verify_header(&bytes), Err(reason));
        }
        let mut bytes = OCTETS;
        bytes[8] ^= 1;
        assert_eq!(verify_header(&bytes), Err(DropReason::BadIpv4Checksum));
    }

    fn with_options(options: [u8; 8]) -> Vec<u8> {
        let mut bytes = [&OCTETS[..], &options].concat();
        bytes[0] = 0x47;
        bytes[10..12].fill(0);
        let sum = checksum::of(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    #[test]
    fn options_are_walked_to_their_end() {
        let alert = with_options([148, 4, 0, 0, 1, 0, 99, 99]);
        assert_eq!(verify_header(&alert), Ok(28));
        let read: Vec<_> = Options::new(&alert[20..]).collect();
        let option = |kind, data| Ok(HeaderOption { kind, data });
        assert_eq!(read, [option(148, &[0, 0]), option(1, &[])]);
        for overrun in [
            [7, 9, 0, 0, 0, 0, 0, 0],
            [7, 1, 0, 0, 0, 0, 0, 0],
            [1, 1, 1, 1, 1, 1, 1, 7],
        ] {
            assert_eq!(
                verify_header(&with_options(overrun)),
                Err(DropReason::BadIpv4Header)
            );
        }
    }

    #[test]
    fn a_router_keeps_the_checksum_right() {
        let mut bytes = OCTETS;
        assert_eq!(decrement_ttl(&mut bytes), Ok(()));
        assert_eq!((bytes[8], verify_header(&bytes)), (63, Ok(20)));
        assert_eq!(set_dscp(&mut bytes, 46), Ok(()));
        assert_eq!((bytes[1], verify_header(&bytes)), (0xb8, Ok(20)));
        bytes[8] = 1;
        let before = bytes;
        assert_eq!(decrement_ttl(&mut bytes), Err(DropReason::TtlExpired));
        assert_eq!(bytes, before);
        assert_eq!(decrement_ttl(&mut bytes[..19]), Err(DropReason::TruncatedIpv4));
    }
}
