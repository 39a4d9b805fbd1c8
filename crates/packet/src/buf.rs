//! The buffer of a packet, as the stages see it.
//!
//! [`PacketBuf`] is what a worker needs of an mbuf: headers contiguous, room before them, a payload that may continue
//! in a chain. [`VecBuf`] is the same over a vector, for tests, the simulator and slow replies. Neither knows the port.

use core::ops::Range;

use crate::DropReason;
use crate::checksum::Sum;

/// A packet in a buffer whose headers are contiguous and whose payload may be chained.
pub trait PacketBuf {
    /// The first, contiguous part: at least all headers.
    fn data(&self) -> &[u8];

    /// The first part, to be written.
    fn data_mut(&mut self) -> &mut [u8];

    /// Octets of the whole packet, over the whole chain: `len() >= data().len()`.
    fn len(&self) -> usize;

    /// Whether the packet has no octets.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Puts `n` octets, whose content is not defined, before the packet and returns them. `None` (and no change)
    /// when [`headroom`](Self::headroom) is less: [`DropReason::NoHeadroom`].
    fn prepend(&mut self, n: usize) -> Option<&mut [u8]>;

    /// Takes `n` octets off the front. False (and no change) when the first part has fewer.
    fn trim_front(&mut self, n: usize) -> bool;

    /// Cuts the packet down to `len` octets. False (and no change) when it has fewer.
    fn truncate(&mut self, len: usize) -> bool;

    /// Puts `n` octets, whose content is not defined, behind the packet and returns them. `None` (and no change)
    /// when there is no room.
    fn append(&mut self, n: usize) -> Option<&mut [u8]>;

    /// Octets that [`prepend`](Self::prepend) can put before the packet.
    fn headroom(&self) -> usize;

    /// Octets that [`append`](Self::append) can put behind the packet.
    fn tailroom(&self) -> usize;

    /// Puts `tail` behind the packet: where buffers chain, without copying.
    ///
    /// # Errors
    /// `tail`, and no change, where the packet would be too long.
    fn link(&mut self, tail: Self) -> Result<(), Self>
    where
        Self: Sized;

    /// Makes the first `n` octets of a chained packet contiguous. False when the first part has no room for them, or
    /// the packet has fewer; the packet is the same in any case.
    fn gather(&mut self, n: usize) -> bool {
        n <= self.data().len()
    }

    /// Gives the parts of the packet in their order: one, unless it is chained.
    fn for_each_part(&self, visit: &mut dyn FnMut(&[u8])) {
        visit(self.data());
    }

    /// Copies octets from `offset` on, whatever parts they are in; false when the packet ends before `out` is full.
    fn copy_to(&self, offset: usize, out: &mut [u8]) -> bool {
        let (mut skip, mut done) = (offset, 0);
        self.for_each_part(&mut |part| {
            let from = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            let octets = from.len().min(out.len() - done);
            out[done..done + octets].copy_from_slice(&from[..octets]);
            done += octets;
        });
        done == out.len()
    }

    /// The sum over the octets from `offset` on, for checksums.
    fn sum_from(&self, offset: usize) -> Sum {
        self.sum_of(offset..self.len())
    }

    /// The sum over these octets, or over those of them that the packet has, whatever parts they are in.
    fn sum_of(&self, octets: Range<usize>) -> Sum {
        let (mut skip, mut left, mut sum) = (octets.start, octets.len(), Sum::default());
        self.for_each_part(&mut |part| {
            let from = part.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(part.len());
            let (of_range, _) = from.split_at(left.min(from.len()));
            left -= of_range.len();
            sum = sum.bytes(of_range);
        });
        sum
    }

    /// Whether the packet is in more than one part.
    fn is_chained(&self) -> bool {
        self.data().len() < self.len()
    }

    /// Has the port that sends the packet fill in its UDP checksum. The packet is UDP over IPv6 without extension
    /// headers behind `l2` octets of link layer, and the field holds the sum of the pseudo header
    /// ([`udp::leave_checksum`](crate::udp::leave_checksum)) by the time it is sent. False, and no change, where the
    /// buffer cannot say so.
    fn ask_udp_checksum(&mut self, l2: usize) -> bool {
        let _ = l2;
        false
    }

    /// The `l2` of [`ask_udp_checksum`](Self::ask_udp_checksum), if that was asked.
    fn asks_udp_checksum(&self) -> Option<usize> {
        None
    }

    /// Leaves `len` octets from `offset` on, and puts `head` octets before them, whose content is not defined. Gives
    /// the first part: these, and what follows them contiguously.
    ///
    /// # Errors
    /// [`BadIpLength`](DropReason::BadIpLength) when the packet has fewer octets,
    /// [`NoHeadroom`](DropReason::NoHeadroom). The packet is of no use then.
    #[inline]
    fn reframe(&mut self, offset: usize, len: usize, head: usize) -> Result<&mut [u8], DropReason> {
        if !(self.trim_front(offset) && self.truncate(len)) {
            return Err(DropReason::BadIpLength);
        }
        self.prepend(head).ok_or(DropReason::NoHeadroom)?;
        Ok(self.data_mut())
    }
}

/// Appends the octets `range` of `packet` to `to`, and what exceeds its tailroom in further buffers of `alloc`. `None`,
/// and `to` is of no use, where `alloc` has none or the packet is shorter.
pub fn copy_behind<B: PacketBuf>(
    to: &mut B,
    packet: &B,
    range: Range<usize>,
    alloc: &mut dyn FnMut() -> Option<B>,
) -> Option<()> {
    let first = range.len().min(to.tailroom());
    packet.copy_to(range.start, to.append(first)?).then_some(())?;
    let mut from = range.start + first;
    while from < range.end {
        let mut part = alloc()?;
        let more = (range.end - from).min(part.tailroom());
        packet.copy_to(from, part.append(more)?).then_some(())?;
        from += more;
        if more == 0 || to.link(part).is_err() {
            return None;
        }
    }
    Some(())
}

/// The number of parts of a packet.
pub fn parts<B: PacketBuf>(packet: &B) -> usize {
    let mut parts = 0;
    packet.for_each_part(&mut |_| parts += 1);
    parts
}

/// A copy of a packet in empty buffers: in one, whose headroom holds the first octets, if it came in a buffer like it.
pub fn copy_of<B: PacketBuf>(packet: &B, alloc: &mut dyn FnMut() -> Option<B>) -> Option<B> {
    let mut copy = alloc()?;
    let head = packet.len().min(copy.headroom());
    copy_behind(&mut copy, packet, head..packet.len(), alloc)?;
    packet.copy_to(0, copy.prepend(head)?).then_some(copy)
}

/// Linearizes a packet until it is in `most` parts at most: in its first buffer, or else in new ones. Returns whether
/// the packet is in new buffers now: what they know beside its octets is for the caller to set.
///
/// # Errors
/// [`DropReason::TooBig`] when that number of buffers does not hold it, [`DropReason::NoBuffer`].
#[cold]
pub fn bring_together<B: PacketBuf>(
    packet: &mut B,
    most: usize,
    alloc: &mut dyn FnMut() -> Option<B>,
) -> Result<bool, DropReason> {
    if parts(packet) <= most || packet.gather(packet.len()) {
        return Ok(false);
    }
    let copy = copy_of(packet, alloc).ok_or(DropReason::NoBuffer)?;
    if parts(&copy) > most {
        return Err(DropReason::TooBig);
    }
    *packet = copy;
    Ok(true)
}

/// A packet in a vector of its own, with headroom.
#[derive(Clone)]
pub struct VecBuf {
    bytes: Vec<u8>,
    start: usize,
}

impl VecBuf {
    /// Headroom that [`VecBuf::new`] leaves, the same as an mbuf's (`RTE_PKTMBUF_HEADROOM`).
    pub const HEADROOM: usize = 128;

    /// The largest packet: what [`PacketBuf::append`] grows to.
    pub const MAX_LEN: usize = 65_535;

    /// A copy of `packet` with [`HEADROOM`](Self::HEADROOM) octets before it.
    pub fn new(packet: &[u8]) -> Self {
        Self::with_headroom(packet, Self::HEADROOM)
    }

    /// A copy of `packet` with `headroom` octets before it.
    pub fn with_headroom(packet: &[u8], headroom: usize) -> Self {
        let mut bytes = vec![0; headroom];
        bytes.extend_from_slice(packet);
        Self {
            bytes,
            start: headroom,
        }
    }
}

impl PacketBuf for VecBuf {
    fn data(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    fn data_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.start..).unwrap_or_default()
    }

    fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        self.start = self.start.checked_sub(n)?;
        self.bytes.get_mut(self.start..self.start + n)
    }

    fn trim_front(&mut self, n: usize) -> bool {
        let fits = n <= self.len();
        if fits {
            self.start += n;
        }
        fits
    }

    fn truncate(&mut self, len: usize) -> bool {
        let fits = len <= self.len();
        if fits {
            self.bytes.truncate(self.start + len);
        }
        fits
    }

    fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        if self.len().checked_add(n)? > Self::MAX_LEN {
            return None;
        }
        let end = self.bytes.len();
        self.bytes.resize(end + n, 0);
        self.bytes.get_mut(end..)
    }

    fn headroom(&self) -> usize {
        self.start
    }

    fn tailroom(&self) -> usize {
        Self::MAX_LEN.saturating_sub(self.len())
    }

    fn link(&mut self, tail: Self) -> Result<(), Self> {
        match self.append(tail.len()) {
            Some(room) => {
                room.copy_from_slice(tail.data());
                Ok(())
            }
            None => Err(tail),
        }
    }
}

impl From<&[u8]> for VecBuf {
    fn from(packet: &[u8]) -> Self {
        Self::new(packet)
    }
}

impl PartialEq for VecBuf {
    /// Buffers are equal when their packets are; headroom does not matter.
    fn eq(&self, other: &Self) -> bool {
        self.data() == other.data()
    }
}

impl Eq for VecBuf {}

impl core::fmt::Debug for VecBuf {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "VecBuf({} octets ", self.len())?;
        self.data()
            .iter()
            .try_for_each(|octet| write!(f, "{octet:02x}"))?;
        f.write_str(")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_off_and_go_on() {
        let mut buf = VecBuf::new(b"outerinner");
        assert_eq!((buf.len(), buf.headroom()), (10, 128));
        assert!(buf.trim_front(5));
        assert_eq!((buf.data(), buf.headroom()), (&b"inner"[..], 133));
        buf.prepend(3).expect("there is headroom").copy_from_slice(b"new");
        assert_eq!(buf.data(), b"newinner");
        assert!(buf.truncate(4));
        buf.append(2).expect("there is room").copy_from_slice(b"!!");
        assert_eq!(buf, VecBuf::with_headroom(b"newi!!", 0));
        assert!(!buf.is_empty());
    }

    #[test]
    fn the_sum_of_a_range_is_that_of_its_octets() {
        let buf = VecBuf::new(b"outerinner!");
        for range in [0..0, 0..11, 1..4, 5..11, 10..30, 20..30] {
            let octets = &b"outerinner!"[range.start.min(11)..range.end.min(11)];
            assert_eq!(buf.sum_of(range).folded(), Sum::default().bytes(octets).folded());
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let mut buf = VecBuf::with_headroom(b"abc", 2);
        assert!(buf.prepend(3).is_none());
        assert!(!buf.trim_front(4));
        assert!(!buf.truncate(4));
        assert!(buf.append(VecBuf::MAX_LEN).is_none());
        assert!(buf.append(usize::MAX).is_none());
        assert_eq!((buf.data(), buf.headroom()), (&b"abc"[..], 2));
    }
}
