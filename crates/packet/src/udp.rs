//! UDP (RFC 768).

use zerocopy::byteorder::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum::Sum;
use crate::tuple::proto;
use crate::{Addrs, DropReason};

/// Octets of a UDP header.
pub const HEADER_LEN: usize = 8;

/// A UDP header in wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Header {
    /// Source port.
    pub src_port: U16,
    /// Destination port.
    pub dst_port: U16,
    /// Octets of header and payload.
    pub len: U16,
    /// Checksum over pseudo header, header and payload; 0 is none.
    pub checksum: U16,
}

impl Header {
    /// A header, without checksum, for `payload_len` octets; `None` when the sum is above 65,535.
    pub fn new(src_port: u16, dst_port: u16, payload_len: usize) -> Option<Self> {
        let len = u16::try_from(payload_len.checked_add(HEADER_LEN)?).ok()?;
        Some(Self {
            src_port: U16::new(src_port),
            dst_port: U16::new(dst_port),
            len: U16::new(len),
            checksum: U16::ZERO,
        })
    }
}

/// The length field of the datagram that starts at `bytes[0]` (header included), verified against the `available`
/// octets that the IP packet has for it.
///
/// # Errors
/// [`DropReason::TruncatedUdp`], [`DropReason::BadUdpLength`].
#[inline(always)]
pub fn announced_len(bytes: &[u8], available: usize) -> Result<usize, DropReason> {
    let header = bytes
        .first_chunk::<HEADER_LEN>()
        .ok_or(DropReason::TruncatedUdp)?;
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if len < HEADER_LEN || len > available {
        return Err(DropReason::BadUdpLength);
    }
    Ok(len)
}

/// Verifies the checksum of the datagram that starts at `datagram[0]`; octets behind its length are not looked at.
/// `rest` is the sum of the octets of the datagram that follow `datagram` in a chained buffer.
///
/// # Errors
/// [`DropReason::TruncatedUdp`]; [`DropReason::BadUdpChecksum`] when it is wrong, or zero over IPv6 without
/// `zero_over_ipv6` (RFC 8200 §8.1, RFC 6935).
pub fn verify_checksum(
    addrs: &Addrs,
    datagram: &[u8],
    rest: Sum,
    zero_over_ipv6: bool,
) -> Result<(), DropReason> {
    let (header, _) = Header::ref_from_prefix(datagram).map_err(|_| DropReason::TruncatedUdp)?;
    if header.checksum == U16::ZERO {
        let allowed = addrs.is_v4() || zero_over_ipv6;
        return if allowed {
            Ok(())
        } else {
            Err(DropReason::BadUdpChecksum)
        };
    }
    let len = header.len.get();
    let datagram = datagram.get(..usize::from(len)).unwrap_or(datagram);
    let sum = rest.after(pseudo_header(addrs, proto::UDP, len).bytes(datagram));
    if sum.is_right() {
        Ok(())
    } else {
        Err(DropReason::BadUdpChecksum)
    }
}

/// The sum of the pseudo header for `len` octets of `proto` (RFC 768, RFC 8200 §8.1).
#[inline]
pub fn pseudo_header(addrs: &Addrs, proto: u8, len: u16) -> Sum {
    match *addrs {
        Addrs::V4 { src, dst } => Sum::default().pseudo_v4(src, dst, proto, len),
        Addrs::V6 { src, dst } => Sum::default().pseudo_v6(src, dst, proto, len),
    }
}

/// Writes the sum of the pseudo header into the checksum field of the datagram that starts at `datagram[0]`: what a
/// port starts from that is asked to fill in the checksum. `None` when `datagram` is shorter than a header.
pub fn leave_checksum(addrs: &Addrs, datagram: &mut [u8]) -> Option<()> {
    let (header, _) = Header::mut_from_prefix(datagram).ok()?;
    header.checksum = U16::new(pseudo_header(addrs, proto::UDP, header.len.get()).folded());
    Some(())
}

/// Writes the checksum into the datagram that starts at `datagram[0]` and whose header is complete otherwise. `rest`
/// is the sum of the octets of the datagram behind `datagram`. `None` when `datagram` is shorter than a header.
pub fn fill_checksum(addrs: &Addrs, datagram: &mut [u8], rest: Sum) -> Option<()> {
    let (header, _) = Header::mut_from_prefix(datagram).ok()?;
    header.checksum = U16::ZERO;
    let len = header.len.get();
    let covered = datagram.get(..usize::from(len)).unwrap_or(datagram);
    let checksum = rest
        .after(pseudo_header(addrs, proto::UDP, len).bytes(covered))
        .udp_checksum();
    let (header, _) = Header::mut_from_prefix(datagram).ok()?;
    header.checksum = U16::new(checksum);
    Some(())
}
