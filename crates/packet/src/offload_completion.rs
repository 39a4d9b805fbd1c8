//! Completion of offloads that a sending kernel left to the interface: checksums and segmentation.
//!
//! A kernel that sends by an interface with these offloads (a veth, a TAP) leaves the sum of the pseudo header in the
//! checksum field of TCP and UDP, and passes TCP segments and UDP datagrams of up to 64 KiB as one packet (TSO, USO).
//! GRO coalesces received packets in the same way. A NIC completes such packets before they are on a wire; packets that
//! come directly from the kernel are completed here.

use core::ops::Range;

use crate::checksum::{self, Sum};
use crate::eth::{L2, ether_type};
use crate::tuple::proto;
use crate::{Fragment, ipv4, ipv6, tcp, udp};

/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM: usize = 16;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM: usize = 6;
/// Congestion Window Reduced (RFC 3168): set in the first segment only.
const CWR: u8 = 0x80;

/// Offsets of a TCP segment or UDP datagram in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layers {
    is_v4: bool,
    is_tcp: bool,
    /// Octets before the IP header.
    l3: usize,
    /// Octets before the TCP or UDP header.
    l4: usize,
    /// Octets up to the end of the IP packet.
    end: usize,
}

impl Layers {
    /// Of a frame of `total` octets that starts with `head`. `None` where it is neither, or a fragment.
    fn of(head: &[u8], total: usize) -> Option<Self> {
        let l2 = L2::parse(head).ok()?;
        let l3 = usize::from(l2.len);
        let packet = head.get(l3..)?;
        let (is_v4, l4, length, protocol) = match l2.ether_type {
            ether_type::IPV4 => {
                let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
                let field = u16::from_be_bytes([header[6], header[7]]);
                if field & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) != 0 {
                    return None;
                }
                let length = u16::from_be_bytes([header[2], header[3]]);
                (true, ipv4::header_len(header[0]).ok()?, length.into(), header[9])
            }
            ether_type::IPV6 => {
                let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
                let payload = u16::from_be_bytes([header[4], header[5]]);
                let length = ipv6::HEADER_LEN + usize::from(payload);
                let behind = match ipv6::is_extension(header[6]) {
                    false => ipv6::UpperLayer::behind_fixed_header(header[6]),
                    true => ipv6::upper_layer(packet, length).ok()?,
                };
                if behind.fragment != Fragment::None {
                    return None;
                }
                (false, behind.offset.into(), length, behind.proto)
            }
            _ => return None,
        };
        let layers = Self {
            is_v4,
            is_tcp: protocol == proto::TCP,
            l3,
            l4: l3 + l4,
            end: l3 + length,
        };
        let is_known = matches!(protocol, proto::TCP | proto::UDP);
        (is_known && layers.l4 < layers.end && layers.end <= total).then_some(layers)
    }

    const fn checksum_at(&self) -> usize {
        self.l4 + if self.is_tcp { TCP_CHECKSUM } else { UDP_CHECKSUM }
    }

    /// The sum of the pseudo header of a segment or datagram of `length` octets.
    fn pseudo(&self, frame: &[u8], length: u16) -> Option<Sum> {
        let packet = frame.get(self.l3..)?;
        let protocol = if self.is_tcp { proto::TCP } else { proto::UDP };
        Some(if self.is_v4 {
            let src = *packet.get(12..)?.first_chunk()?;
            let dst = *packet.get(16..)?.first_chunk()?;
            Sum::default().pseudo_v4(src, dst, protocol, length)
        } else {
            let src = *packet.get(8..)?.first_chunk()?;
            let dst = *packet.get(24..)?.first_chunk()?;
            Sum::default().pseudo_v6(src, dst, protocol, length)
        })
    }
}

/// Fills in the checksum of a TCP segment or UDP datagram whose checksum field has the sum of the pseudo header.
/// Returns whether it did.
///
/// One in 65,536 packets with a correct checksum has that sum there as well; the value that is filled in is the same
/// then. Fragments are left as they are: their checksum was computed before fragmentation.
#[inline]
pub fn fill_checksum(frame: &mut [u8]) -> bool {
    !has_no_checksum(frame) && fill_layer4(frame)
}

/// Whether a frame is UDP over IPv4 without tag, options and checksum, as most GTP-U packets are: no sum of a pseudo
/// header is 0.
#[inline(always)]
fn has_no_checksum(frame: &[u8]) -> bool {
    frame.first_chunk().is_some_and(|frame: &[u8; 42]| {
        frame[12..15] == [0x08, 0x00, 0x45] && frame[23] == proto::UDP && frame[40..42] == [0, 0]
    })
}

fn fill_layer4(frame: &mut [u8]) -> bool {
    let Some(layers) = Layers::of(frame, frame.len()) else {
        return false;
    };
    let length = (layers.end - layers.l4) as u16;
    let at = layers.checksum_at();
    let (Some(pseudo), Some(there)) = (layers.pseudo(frame, length), frame.get(at..at + 2)) else {
        return false;
    };
    if there != pseudo.folded().to_be_bytes() || at + 2 > layers.end {
        return false;
    }
    let sum = Sum::default().bytes(&frame[layers.l4..layers.end]);
    frame[at..at + 2].copy_from_slice(&sum.udp_checksum().to_be_bytes());
    true
}

/// Segmentation of a frame that holds several TCP segments or UDP datagrams. Each segment gets a copy of the headers
/// and its own part of the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    layers: Layers,
    /// Octets of the headers that each piece has.
    header: usize,
    /// Octets of payload of each piece but the last.
    size: usize,
}

impl Segmentation {
    /// Of a frame of `total` octets that starts with `head`, whose pieces have a payload of `size` octets. `layer4`:
    /// octets before its TCP or UDP header, as the port knows them; 0: it does not. `None` where it is no such frame,
    /// as of TCP in a tunnel.
    #[must_use]
    pub fn of(head: &[u8], total: usize, layer4: usize, size: u16) -> Option<Self> {
        let layers = Layers::of(head, total)?;
        let rest = head.get(layers.l4..)?;
        let length = if layers.is_tcp {
            tcp::Header::parse(rest, layers.end - layers.l4).ok()?.1
        } else {
            udp::HEADER_LEN
        };
        let header = layers.l4 + length;
        let is_told = layer4 == 0 || layer4 == layers.l4;
        (is_told && size > 0 && header <= layers.end && header <= head.len()).then_some(Self {
            layers,
            header,
            size: size.into(),
        })
    }

    /// Octets of the headers that each piece has: those that the frame begins with.
    #[must_use]
    pub const fn header(&self) -> usize {
        self.header
    }

    /// How many pieces there are, 1 or more.
    #[must_use]
    pub const fn pieces(&self) -> usize {
        let pieces = (self.layers.end - self.header).div_ceil(self.size);
        if pieces == 0 { 1 } else { pieces }
    }

    /// Where the payload of a piece is in the frame, by its place from 0.
    #[must_use]
    pub fn payload(&self, place: usize) -> Range<usize> {
        let from = self.header + place * self.size;
        from.min(self.layers.end)..(from + self.size).min(self.layers.end)
    }

    /// Makes a piece whole that has the frame's headers and its own payload: lengths, identification, sequence number,
    /// flags, checksums. False, and the piece of no use, where it is not as long as it has to be.
    pub fn finish(&self, place: usize, piece: &mut [u8]) -> bool {
        let layers = &self.layers;
        if piece.len() != self.header + self.payload(place).len() {
            return false;
        }
        let (l3, l4) = (layers.l3, layers.l4);
        if layers.is_v4 {
            let length = (piece.len() - l3) as u16;
            let id = u16::from_be_bytes([piece[l3 + 4], piece[l3 + 5]]).wrapping_add(place as u16);
            piece[l3 + 2..l3 + 4].copy_from_slice(&length.to_be_bytes());
            piece[l3 + 4..l3 + 6].copy_from_slice(&id.to_be_bytes());
            piece[l3 + 10..l3 + 12].fill(0);
            let sum = checksum::of(&piece[l3..l4]);
            piece[l3 + 10..l3 + 12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let payload = (piece.len() - l3 - ipv6::HEADER_LEN) as u16;
            piece[l3 + 4..l3 + 6].copy_from_slice(&payload.to_be_bytes());
        }
        let length = (piece.len() - l4) as u16;
        if layers.is_tcp {
            self.finish_tcp(place, &mut piece[l4..]);
        } else {
            piece[l4 + 4..l4 + 6].copy_from_slice(&length.to_be_bytes());
        }
        let at = layers.checksum_at();
        piece[at..at + 2].fill(0);
        let Some(pseudo) = layers.pseudo(piece, length) else {
            return false;
        };
        let sum = pseudo.bytes(&piece[l4..]);
        let sum = if layers.is_tcp {
            sum.checksum()
        } else {
            sum.udp_checksum()
        };
        piece[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        true
    }

    /// The sequence number of the first octet; what ends the data is said by the last, what begins it by the first
    /// segment (RFC 9293 §3.1, RFC 3168 §6.1.2).
    fn finish_tcp(&self, place: usize, segment: &mut [u8]) {
        let Some(sequence) = segment.get_mut(4..).and_then(|rest| rest.first_chunk_mut::<4>()) else {
            return;
        };
        let first = u32::from_be_bytes(*sequence);
        *sequence = first.wrapping_add((place * self.size) as u32).to_be_bytes();
        let Some(flags) = segment.get_mut(tcp::FLAGS_AT) else {
            return;
        };
        if place > 0 {
            *flags &= !CWR;
        }
        if place + 1 < self.pieces() {
            *flags &= !(tcp::flags::FIN | tcp::flags::PSH);
        }
    }
}
