//! Fragmentation of packets that exceed an MTU (RFC 791 §3.2, RFC 8200 §4.5).
//!
//! Either the outermost IP packet is fragmented, or the user packet in a tunnel; then each fragment gets the tunnel's
//! headers. The frame's own buffer becomes the first fragment; the others are in new buffers. The caller decides
//! whether a packet may be fragmented.

use crate::buf::copy_behind;
use crate::build::fill_udp_checksum;
use crate::checksum;
use crate::{DropReason, PacketBuf, gtpu, ipv4, ipv6, udp};

/// Most fragments of one packet: 65,535 octets with an MTU of 1,280.
pub const MAX_FRAGMENTS: usize = 64;

/// Octets of IPv6's fragment header.
const FRAGMENT_HEADER: usize = 8;
/// The type of IPv6's fragment header.
const FRAGMENT: u8 = 44;
/// In the type of an IPv4 option: every fragment has it (RFC 791 §3.1).
const COPIED: u8 = 0x80;

/// Which packet of a frame is fragmented, and for which MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentSpec {
    /// Octets before its outermost IP header.
    pub l3: usize,
    /// Octets of the tunnel's headers, from there on; 0: it is the outermost packet that is fragmented.
    pub outer: usize,
    /// The longest IP packet that may leave, octets.
    pub mtu: usize,
    /// The identification that all fragments get. `None`: the packet's own, in IPv4.
    pub id: Option<u32>,
}

/// Fields of the packet that is fragmented.
#[derive(Clone, Copy)]
struct Shape {
    spec: FragmentSpec,
    is_v4: bool,
    /// Octets of the header that each fragment has.
    header: usize,
    /// Octets of its payload.
    payload: usize,
    /// Octets of payload that each fragment but the last has.
    room: usize,
    /// The packet's own offset, in units of 8 octets, and whether it is not the last.
    base: u16,
    more: bool,
}

/// Range of a fragment in the payload.
#[derive(Clone, Copy)]
struct Piece {
    from: usize,
    octets: usize,
}

/// Fragments `whole`: it becomes the first fragment, the others are put into `rest` in their order. `alloc` gives empty
/// buffers with headroom.
///
/// # Errors
/// [`DropReason::TooBig`] when the link has no room for 8 octets, or the fragments would be more than
/// [`MAX_FRAGMENTS`]; [`DropReason::NoBuffer`], [`DropReason::NoHeadroom`]; and [`DropReason::BadIpLength`] for a
/// fragment that ends behind the longest packet. The packet is of no use then, and `rest` is empty.
pub fn fragment<B: PacketBuf>(
    whole: &mut B,
    spec: FragmentSpec,
    rest: &mut Vec<B>,
    mut alloc: impl FnMut() -> Option<B>,
) -> Result<(), DropReason> {
    rest.clear();
    let done = cut(whole, spec, rest, &mut alloc);
    if done.is_err() {
        rest.clear();
    }
    done
}

fn cut<B: PacketBuf>(
    whole: &mut B,
    spec: FragmentSpec,
    rest: &mut Vec<B>,
    alloc: &mut dyn FnMut() -> Option<B>,
) -> Result<(), DropReason> {
    let shape = Shape::of(whole.data(), spec)?;
    let mut from = shape.room;
    while from < shape.payload {
        let octets = shape.room.min(shape.payload - from);
        let piece = Piece { from, octets };
        let mut fragment = shape.copy(whole, piece, alloc).ok_or(DropReason::NoBuffer)?;
        shape.write(&mut fragment, piece)?;
        rest.push(fragment);
        from += octets;
    }
    let octets = shape.room.min(shape.payload);
    shape.keep_first(whole, octets)?;
    shape.write(whole, Piece { from: 0, octets })
}

impl Shape {
    fn of(frame: &[u8], spec: FragmentSpec) -> Result<Self, DropReason> {
        let packet = frame
            .get(spec.l3 + spec.outer..)
            .ok_or(DropReason::TruncatedIpv4)?;
        let (is_v4, header, total, field) = match packet.first_chunk::<{ ipv4::HEADER_LEN }>() {
            Some(start) if start[0] >> 4 == 4 => {
                let total = u16::from_be_bytes([start[2], start[3]]);
                let field = u16::from_be_bytes([start[6], start[7]]);
                (true, ipv4::header_len(start[0])?, usize::from(total), field)
            }
            Some(start) => {
                let payload = u16::from_be_bytes([start[4], start[5]]);
                (
                    false,
                    ipv6::HEADER_LEN,
                    ipv6::HEADER_LEN + usize::from(payload),
                    0,
                )
            }
            None => return Err(DropReason::TruncatedIpv4),
        };
        let extra = if is_v4 { 0 } else { FRAGMENT_HEADER };
        let room = spec.mtu.saturating_sub(spec.outer + header + extra) & !7;
        let payload = total.checked_sub(header).ok_or(DropReason::BadIpLength)?;
        let base = field & ipv4::FRAGMENT_OFFSET;
        if room == 0 || payload.div_ceil(room) > MAX_FRAGMENTS {
            return Err(DropReason::TooBig);
        }
        if usize::from(base) * 8 + payload > usize::from(u16::MAX) {
            return Err(DropReason::BadIpLength);
        }
        Ok(Self {
            spec,
            is_v4,
            header,
            payload,
            room,
            base,
            more: field & ipv4::MORE_FRAGMENTS != 0,
        })
    }

    /// Octets of a frame before the header that fragments have.
    const fn start(&self) -> usize {
        self.spec.l3 + self.spec.outer
    }

    /// Octets of a frame before the payload of the packet that is cut up.
    const fn head(&self) -> usize {
        self.start() + self.header
    }

    const fn extra(&self) -> usize {
        if self.is_v4 { 0 } else { FRAGMENT_HEADER }
    }

    /// A new packet: the headers of `whole`, room for IPv6's fragment header, and a piece of the payload.
    fn copy<B: PacketBuf>(&self, whole: &B, piece: Piece, alloc: &mut dyn FnMut() -> Option<B>) -> Option<B> {
        let mut fragment = alloc()?;
        let headers = whole.data().get(..self.head())?;
        let room = fragment.append(headers.len() + self.extra())?;
        room.get_mut(..headers.len())?.copy_from_slice(headers);
        let start = self.head() + piece.from;
        let range = start..start + piece.octets;
        copy_behind(&mut fragment, whole, range, alloc)?;
        Some(fragment)
    }

    /// Makes the whole packet the first fragment, but for its headers.
    fn keep_first<B: PacketBuf>(&self, whole: &mut B, octets: usize) -> Result<(), DropReason> {
        if !whole.truncate(self.head() + octets) {
            return Err(DropReason::BadIpLength);
        }
        if !self.is_v4 {
            whole.prepend(FRAGMENT_HEADER).ok_or(DropReason::NoHeadroom)?;
            let headers = FRAGMENT_HEADER..FRAGMENT_HEADER + self.head();
            whole.data_mut().copy_within(headers, 0);
        }
        Ok(())
    }

    /// Writes what the headers of a fragment say of it.
    fn write<B: PacketBuf>(&self, fragment: &mut B, piece: Piece) -> Result<(), DropReason> {
        let is_last = piece.from + piece.octets == self.payload;
        let units = self.base + (piece.from / 8) as u16;
        let place = Place {
            units,
            is_first: piece.from == 0,
            more: !is_last || self.more,
        };
        let start = self.start();
        let data = fragment.data_mut();
        let packet = data.get_mut(start..).ok_or(DropReason::BadIpLength)?;
        let octets = self.header + self.extra() + piece.octets;
        match self.is_v4 {
            true => {
                let header = packet.get_mut(..self.header).ok_or(DropReason::BadIpLength)?;
                write_v4(header, octets as u16, place, self.spec.id);
            }
            false => {
                let header = packet.first_chunk_mut().ok_or(DropReason::BadIpLength)?;
                let id = self.spec.id.ok_or(DropReason::TooBig)?;
                write_v6(header, (octets - ipv6::HEADER_LEN) as u16, place, id);
            }
        }
        match self.spec.outer {
            0 => Ok(()),
            _ => self.write_outer(fragment, octets).ok_or(DropReason::BadIpLength),
        }
    }

    /// Writes the lengths and checksums of the tunnel's headers.
    fn write_outer<B: PacketBuf>(&self, fragment: &mut B, inner: usize) -> Option<()> {
        let FragmentSpec { l3, outer, .. } = self.spec;
        let payload = fragment.sum_from(l3 + outer);
        let headers = fragment.data_mut().get_mut(l3..l3 + outer)?;
        let total = (outer + inner) as u16;
        let datagram = if headers.first()? >> 4 == 4 {
            let header: &mut [u8; ipv4::HEADER_LEN] = headers.first_chunk_mut()?;
            put(header, 2, total);
            put(header, 10, 0);
            let sum = checksum::of(header);
            put(header, 10, sum);
            ipv4::HEADER_LEN
        } else {
            put(headers, 4, total - ipv6::HEADER_LEN as u16);
            ipv6::HEADER_LEN
        };
        let has_checksum = {
            let udp = headers.get_mut(datagram..)?;
            let length = total - datagram as u16;
            put(udp, 4, length);
            let message = length - (udp::HEADER_LEN + gtpu::HEADER_LEN) as u16;
            put(udp.get_mut(udp::HEADER_LEN..)?, 2, message);
            udp.get(6..8)? != [0, 0]
        };
        if has_checksum {
            put(headers.get_mut(datagram..)?, 6, 0);
            fill_udp_checksum(headers, payload).ok()?;
        }
        Some(())
    }
}

/// What a header says of a fragment's place.
#[derive(Clone, Copy)]
struct Place {
    /// Of 8 octets.
    units: u16,
    is_first: bool,
    more: bool,
}

fn write_v4(header: &mut [u8], total: u16, place: Place, id: Option<u32>) {
    put(header, 2, total);
    if let Some(id) = id {
        put(header, 4, id as u16);
    }
    let more = if place.more { ipv4::MORE_FRAGMENTS } else { 0 };
    put(header, 6, place.units | more);
    if !place.is_first {
        let options = header.get_mut(ipv4::HEADER_LEN..).unwrap_or_default();
        leave_copied_options(options);
    }
    put(header, 10, 0);
    let sum = checksum::of(header);
    put(header, 10, sum);
}

/// Of the options of a header, those that fragments behind the first have, too; No Operation takes the place of others.
fn leave_copied_options(options: &mut [u8]) {
    let mut at = 0;
    while let Some(&kind) = options.get(at) {
        let octets = match kind {
            ipv4::Options::END => return,
            ipv4::Options::NOP => 1,
            _ => usize::from(options.get(at + 1).copied().unwrap_or(0)),
        };
        let Some(option) = options.get_mut(at..at + octets).filter(|_| octets > 0) else {
            return;
        };
        if kind & COPIED == 0 {
            option.fill(ipv4::Options::NOP);
        }
        at += octets;
    }
}

fn write_v6(start: &mut [u8; ipv6::HEADER_LEN + FRAGMENT_HEADER], payload: u16, place: Place, id: u32) {
    let next = std::mem::replace(&mut start[6], FRAGMENT);
    put(start, 4, payload);
    let fragment = &mut start[ipv6::HEADER_LEN..];
    (fragment[0], fragment[1]) = (next, 0);
    put(fragment, 2, place.units << 3 | u16::from(place.more));
    fragment[4..].copy_from_slice(&id.to_be_bytes());
}

fn put(header: &mut [u8], at: usize, value: u16) {
    if let Some(field) = header.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}
