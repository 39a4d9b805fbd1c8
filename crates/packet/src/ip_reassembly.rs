//! Reassembly of UDP datagrams to own addresses (RFC 791 §3.2, RFC 5722, RFC 8200 §4.5).
//!
//! [`UdpFragment`] has a fragment's datagram and its range of octets. [`UdpFragment::begin`] and
//! [`UdpFragment::finish`] make the frame of the datagram from fragments that cover it. The caller keeps the fragments
//! until then.

use crate::eth::{L2, ether_type};
use crate::tuple::proto;
use crate::{Addrs, DropReason, PacketBuf, checksum, gtpu, ipv4, ipv6, udp};

/// Octets of IPv6's fragment header, and its type.
const FRAGMENT_HEADER: usize = 8;
const FRAGMENT: u8 = 44;
/// Least octets of a first fragment: a UDP and a GTP-U header. Every link's MTU has room for more.
const LEAST_FIRST: u16 = (udp::HEADER_LEN + gtpu::HEADER_LEN) as u16;

/// Identifies the UDP datagram of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatagramId {
    /// Addresses.
    pub addrs: Addrs,
    /// Identification.
    pub id: u32,
}

/// A fragment of a UDP datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFragment {
    /// The datagram that it is a fragment of.
    pub of: DatagramId,
    /// Octets before its IP header.
    pub l3: u16,
    /// Octets of its IP header, and of the fragment header.
    pub header: u16,
    /// Offset of its octets in the datagram.
    pub offset: u16,
    /// Number of its octets.
    pub octets: u16,
    /// More Fragments: it is not the last.
    pub more: bool,
}

impl UdpFragment {
    /// Reads the fragment in `frame`, an IP packet that is whole and of the right checksum.
    ///
    /// # Errors
    /// [`DropReason::Fragment`] for a fragment of anything but UDP, or in IPv6 behind other extension headers;
    /// [`DropReason::BadFragment`] for one that no sender makes: without octets, not in units of 8, behind the longest
    /// datagram, or a first one that ends before the end of a GTP-U header.
    pub fn read(frame: &[u8]) -> Result<Self, DropReason> {
        let l2 = L2::parse(frame)?;
        let packet = frame.get(usize::from(l2.len)..).unwrap_or_default();
        let part = match l2.ether_type {
            ether_type::IPV4 => Self::read_v4(packet, l2.len)?,
            _ => Self::read_v6(packet, l2.len)?,
        };
        let is_possible = part.octets > 0
            && (!part.more || part.octets.is_multiple_of(8))
            && (part.offset > 0 || part.octets >= LEAST_FIRST)
            && part.end() <= usize::from(u16::MAX) - part.header_of_whole();
        is_possible.then_some(part).ok_or(DropReason::BadFragment)
    }

    fn read_v4(packet: &[u8], l3: u16) -> Result<Self, DropReason> {
        let start = packet
            .first_chunk::<{ ipv4::HEADER_LEN }>()
            .ok_or(DropReason::TruncatedIpv4)?;
        if start[9] != proto::UDP {
            return Err(DropReason::Fragment);
        }
        let header = ipv4::header_len(start[0])? as u16;
        let total = u16::from_be_bytes([start[2], start[3]]);
        let field = u16::from_be_bytes([start[6], start[7]]);
        let [.., a, b, c, d, e, f, g, h] = *start;
        Ok(Self {
            of: DatagramId {
                addrs: Addrs::V4 {
                    src: [a, b, c, d],
                    dst: [e, f, g, h],
                },
                id: u16::from_be_bytes([start[4], start[5]]).into(),
            },
            l3,
            header,
            offset: (field & ipv4::FRAGMENT_OFFSET) * 8,
            octets: total.checked_sub(header).ok_or(DropReason::BadIpLength)?,
            more: field & ipv4::MORE_FRAGMENTS != 0,
        })
    }

    fn read_v6(packet: &[u8], l3: u16) -> Result<Self, DropReason> {
        let start = packet
            .first_chunk::<{ ipv6::HEADER_LEN + FRAGMENT_HEADER }>()
            .ok_or(DropReason::TruncatedIpv6)?;
        let (fixed, fragment) = start.split_at(ipv6::HEADER_LEN);
        if (fixed[6], fragment[0]) != (FRAGMENT, proto::UDP) {
            return Err(DropReason::Fragment);
        }
        let payload = u16::from_be_bytes([fixed[4], fixed[5]]);
        let field = u16::from_be_bytes([fragment[2], fragment[3]]);
        let address = |at: usize| {
            let octets = fixed.get(at..at + 16).and_then(|octets| octets.first_chunk());
            octets.copied().unwrap_or_default()
        };
        let id = [fragment[4], fragment[5], fragment[6], fragment[7]];
        Ok(Self {
            of: DatagramId {
                addrs: Addrs::V6 {
                    src: address(8),
                    dst: address(24),
                },
                id: u32::from_be_bytes(id),
            },
            l3,
            header: start.len() as u16,
            offset: field & 0xfff8,
            octets: payload
                .checked_sub(FRAGMENT_HEADER as u16)
                .ok_or(DropReason::BadIpLength)?,
            more: field & 1 != 0,
        })
    }

    /// The octet of the datagram behind its last.
    pub const fn end(&self) -> usize {
        self.offset as usize + self.octets as usize
    }

    const fn is_v4(&self) -> bool {
        self.of.addrs.is_v4()
    }

    /// Octets that the IP length of the whole counts beside the datagram.
    const fn header_of_whole(&self) -> usize {
        if self.is_v4() { self.header as usize } else { 0 }
    }

    /// Octets of the frame before those of the datagram.
    const fn head(&self) -> usize {
        self.l3 as usize + self.header as usize
    }

    /// Takes off a fragment's frame what surrounds its octets: of the first one what is behind them alone.
    ///
    /// # Errors
    /// [`DropReason::BadIpLength`], and the frame is of no use, for one that is not as it was read.
    pub fn begin<B: PacketBuf>(&self, frame: &mut B) -> Result<(), DropReason> {
        let cut = frame.truncate(self.head() + usize::from(self.octets))
            && (self.offset == 0 || frame.trim_front(self.head()));
        if cut { Ok(()) } else { Err(DropReason::BadIpLength) }
    }

    /// Makes of `frame`, this first fragment with the octets of all others behind its own, the frame of the datagram,
    /// `octets` long. Its UDP checksum, if it has one, is verified: identifications are reused soon (RFC 4963).
    ///
    /// # Errors
    /// [`DropReason::BadUdpChecksum`], [`DropReason::BadIpLength`]; the frame is of no use then.
    pub fn finish<B: PacketBuf>(&self, frame: &mut B, octets: usize) -> Result<(), DropReason> {
        let l3 = usize::from(self.l3);
        let length = octets + self.header_of_whole();
        let length = u16::try_from(length).map_err(|_| DropReason::BadIpLength)?;
        let data = frame.data_mut();
        let l4 = if self.is_v4() {
            let header = data.get_mut(l3..self.head()).ok_or(DropReason::BadIpLength)?;
            put(header, 2, length);
            put(header, 6, 0);
            put(header, 10, 0);
            let sum = checksum::of(header);
            put(header, 10, sum);
            self.head()
        } else {
            let fixed = l3 + ipv6::HEADER_LEN;
            data.get(..self.head()).ok_or(DropReason::BadIpLength)?;
            data.copy_within(..fixed, FRAGMENT_HEADER);
            frame.trim_front(FRAGMENT_HEADER);
            let header = frame
                .data_mut()
                .get_mut(l3..fixed)
                .ok_or(DropReason::BadIpLength)?;
            put(header, 4, length);
            header[6] = proto::UDP;
            fixed
        };
        let data = frame.data();
        let datagram = data.get(l4..).ok_or(DropReason::BadIpLength)?;
        udp::verify_checksum(&self.of.addrs, datagram, frame.sum_from(data.len()), true)
    }
}

fn put(header: &mut [u8], at: usize, value: u16) {
    if let Some(field) = header.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
