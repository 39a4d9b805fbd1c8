//! Packet buffers. An [`Mbuf`] owns a packet: one buffer, or a chain of them when it is longer than one.
//!
//! The fields are read in place by their offsets: no foreign call for length, data, flags or hash. Bounds are
//! checked here, as every length comes from a driver or a header. Buffers are never shared: nothing in this crate
//! makes a second reference, so an owned packet may be written.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use dpdk_sys as sys;

/// Octets before the packet in a fresh or received buffer.
pub const HEADROOM: usize = sys::MBUF_HEADROOM as usize;

/// Bits of [`Mbuf::ol_flags`]: what the port found out (`RX_*`), what it shall do (`TX_*`).
pub mod flags {
    use dpdk_sys as sys;

    /// The packet had a VLAN tag, which is in [`Mbuf::vlan_tci`](super::Mbuf::vlan_tci).
    pub const RX_VLAN: u64 = sys::SHIM_MBUF_F_RX_VLAN;
    /// The VLAN tag was taken out of the packet.
    pub const RX_VLAN_STRIPPED: u64 = sys::SHIM_MBUF_F_RX_VLAN_STRIPPED;
    /// [`Mbuf::rss_hash`](super::Mbuf::rss_hash) is there.
    pub const RX_RSS_HASH: u64 = sys::SHIM_MBUF_F_RX_RSS_HASH;
    /// Which bits are about the IPv4 header checksum; none set: not looked at.
    pub const RX_IP_CKSUM_MASK: u64 = sys::SHIM_MBUF_F_RX_IP_CKSUM_MASK;
    /// The IPv4 header checksum is wrong.
    pub const RX_IP_CKSUM_BAD: u64 = sys::SHIM_MBUF_F_RX_IP_CKSUM_BAD;
    /// The IPv4 header checksum is right.
    pub const RX_IP_CKSUM_GOOD: u64 = sys::SHIM_MBUF_F_RX_IP_CKSUM_GOOD;
    /// Which bits are about the TCP or UDP checksum; none set: not looked at.
    pub const RX_L4_CKSUM_MASK: u64 = sys::SHIM_MBUF_F_RX_L4_CKSUM_MASK;
    /// The TCP or UDP checksum is wrong.
    pub const RX_L4_CKSUM_BAD: u64 = sys::SHIM_MBUF_F_RX_L4_CKSUM_BAD;
    /// The TCP or UDP checksum is right.
    pub const RX_L4_CKSUM_GOOD: u64 = sys::SHIM_MBUF_F_RX_L4_CKSUM_GOOD;
    /// The packet is several TCP segments, or UDP datagrams, as one: see [`Mbuf::coalesced`](super::Mbuf::coalesced).
    pub const RX_LRO: u64 = sys::SHIM_MBUF_F_RX_LRO;
    /// Fill in the IPv4 header checksum (with [`TX_IPV4`]).
    pub const TX_IP_CKSUM: u64 = sys::SHIM_MBUF_F_TX_IP_CKSUM;
    /// The packet is IPv4.
    pub const TX_IPV4: u64 = sys::SHIM_MBUF_F_TX_IPV4;
    /// The packet is IPv6.
    pub const TX_IPV6: u64 = sys::SHIM_MBUF_F_TX_IPV6;
    /// Fill in the UDP checksum; the field holds the pseudo-header's sum.
    pub const TX_UDP_CKSUM: u64 = sys::SHIM_MBUF_F_TX_UDP_CKSUM;
    /// Fill in the TCP checksum; the field holds the pseudo-header's sum.
    pub const TX_TCP_CKSUM: u64 = sys::SHIM_MBUF_F_TX_TCP_CKSUM;
}

/// An owned packet. Dropping it gives its buffers back to their pool; many at once are better dropped as a
/// [`Burst`](crate::Burst).
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>);

// SAFETY: the one owner may be on any thread: pools take buffers back from all of them. `Mbuf` is not `Sync`.
unsafe impl Send for Mbuf {}

/// A typed view of one field. The offsets are the compiler's own, for the DPDK built against.
macro_rules! field {
    ($name:ident, $set:ident, $type:ty, $offset:ident) => {
        #[inline]
        #[allow(dead_code, reason = "one macro for fields read and written")]
        fn $name(self) -> $type {
            // SAFETY: see `Raw`: the structure is alive, and the field is aligned and of this type.
            unsafe {
                self.0
                    .as_ptr()
                    .cast::<u8>()
                    .add(sys::$offset)
                    .cast::<$type>()
                    .read()
            }
        }

        #[inline]
        #[allow(dead_code, reason = "one macro for fields read and written")]
        fn $set(self, value: $type) {
            // SAFETY: as for reading; the caller of `Raw` holds the only owner by `&mut`.
            unsafe {
                self.0
                    .as_ptr()
                    .cast::<u8>()
                    .add(sys::$offset)
                    .cast::<$type>()
                    .write(value)
            }
        }
    };
}

/// One segment's structure, borrowed from an `Mbuf`: each is alive for as long as the `Mbuf` is, since the chain
/// belongs to it. Only this module makes one, writes through it only under `&mut Mbuf`.
#[derive(Clone, Copy)]
struct Raw(NonNull<sys::rte_mbuf>);

impl Raw {
    field!(buf_addr, set_buf_addr, *mut u8, MBUF_BUF_ADDR);
    field!(data_off, set_data_off, u16, MBUF_DATA_OFF);
    field!(refcnt, set_refcnt, u16, MBUF_REFCNT);
    field!(nb_segs, set_nb_segs, u16, MBUF_NB_SEGS);
    field!(port, set_port, u16, MBUF_PORT);
    field!(ol_flags, set_ol_flags, u64, MBUF_OL_FLAGS);
    field!(packet_type, set_packet_type, u32, MBUF_PACKET_TYPE);
    field!(pkt_len, set_pkt_len, u32, MBUF_PKT_LEN);
    field!(data_len, set_data_len, u16, MBUF_DATA_LEN);
    field!(vlan_tci, set_vlan_tci, u16, MBUF_VLAN_TCI);
    field!(hash_rss, set_hash_rss, u32, MBUF_HASH_RSS);
    field!(buf_len, set_buf_len, u16, MBUF_BUF_LEN);
    field!(next, set_next, *mut sys::rte_mbuf, MBUF_NEXT);
    field!(tx_offload, set_tx_offload, u64, MBUF_TX_OFFLOAD);

    #[inline]
    fn data_ptr(self) -> *mut u8 {
        self.buf_addr().wrapping_add(usize::from(self.data_off()))
    }

    #[inline]
    fn tailroom(self) -> usize {
        let used = usize::from(self.data_off()) + usize::from(self.data_len());
        usize::from(self.buf_len()).saturating_sub(used)
    }
}

impl Mbuf {
    /// Takes ownership.
    ///
    /// # Safety
    ///
    /// `mbuf` is the head of a well-formed chain that nothing else refers to, from a pool that lives on.
    #[inline]
    pub(crate) unsafe fn from_raw(mbuf: NonNull<sys::rte_mbuf>) -> Mbuf {
        Mbuf(mbuf)
    }

    /// Gives up ownership.
    #[inline]
    fn into_raw(self) -> NonNull<sys::rte_mbuf> {
        let raw = self.0;
        std::mem::forget(self);
        raw
    }

    #[inline]
    fn raw(&self) -> Raw {
        debug_assert_eq!(Raw(self.0).refcnt(), 1, "an owned buffer has one owner");
        Raw(self.0)
    }

    /// The last segment of the chain.
    fn last(&self) -> Raw {
        let mut segment = self.raw();
        if segment.nb_segs() == 1 {
            // Without a look at the second cache line, where `next` is.
            return segment;
        }
        while let Some(next) = NonNull::new(segment.next()) {
            segment = Raw(next);
        }
        segment
    }

    /// Octets of the whole packet.
    #[inline]
    #[allow(
        clippy::len_without_is_empty,
        reason = "a packet of no octets is nothing to ask for"
    )]
    pub fn len(&self) -> usize {
        self.raw().pkt_len() as usize
    }

    /// The octets of the first segment: the whole packet, unless it [is chained](Mbuf::is_chained).
    #[inline]
    pub fn data(&self) -> &[u8] {
        let raw = self.raw();
        // SAFETY: data_off and data_len stay inside the buffer (DPDK's drivers and the methods here see to that),
        // whose octets were initialised when the pool was mapped; the borrow of `self` keeps writers away.
        unsafe { std::slice::from_raw_parts(raw.data_ptr(), usize::from(raw.data_len())) }
    }

    /// The octets of the first segment, to be written.
    #[inline]
    pub fn data_mut(&mut self) -> &mut [u8] {
        let raw = self.raw();
        // SAFETY: as in `data`; the exclusive borrow of the only owner makes this the only view.
        unsafe { std::slice::from_raw_parts_mut(raw.data_ptr(), usize::from(raw.data_len())) }
    }

    /// Whether the packet has more than one segment.
    #[inline]
    pub fn is_chained(&self) -> bool {
        self.raw().nb_segs() > 1
    }

    /// Number of segments, 1 or more.
    #[inline]
    pub fn segment_count(&self) -> u16 {
        self.raw().nb_segs()
    }

    /// The packet's octets, segment after segment.
    pub fn segments(&self) -> Segments<'_> {
        Segments {
            next: Some(self.raw()),
            _packet: PhantomData,
        }
    }

    /// Copies octets of the packet, from `offset` on, whatever segments they are in; false (and nothing of use in
    /// `out`) when the packet ends before `out` is full.
    pub fn copy_to(&self, offset: usize, out: &mut [u8]) -> bool {
        let (mut skip, mut done) = (offset, 0);
        for segment in self.segments() {
            let from = segment.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(segment.len());
            let n = from.len().min(out.len() - done);
            out[done..done + n].copy_from_slice(&from[..n]);
            done += n;
        }
        done == out.len()
    }

    /// Octets free before the packet.
    #[inline]
    pub fn headroom(&self) -> usize {
        usize::from(self.raw().data_off())
    }

    /// Octets free after the last segment.
    #[inline]
    pub fn tailroom(&self) -> usize {
        self.last().tailroom()
    }

    /// Makes room for `n` octets before the packet and returns them, not initialised to anything in particular;
    /// None, and no change, when the headroom is too small.
    #[inline]
    pub fn prepend(&mut self, n: usize) -> Option<&mut [u8]> {
        let raw = self.raw();
        let data_len = grown(raw.data_len(), n)?;
        let data_off = usize::from(raw.data_off()).checked_sub(n)? as u16;
        raw.set_data_off(data_off);
        raw.set_data_len(data_len);
        raw.set_pkt_len(raw.pkt_len() + n as u32);
        self.data_mut().get_mut(..n)
    }

    /// Takes `n` octets off the packet's start; false, and no change, when the first segment has fewer.
    #[inline]
    #[must_use]
    pub fn adj(&mut self, n: usize) -> bool {
        let raw = self.raw();
        if n > usize::from(raw.data_len()) {
            return false;
        }
        raw.set_data_off(raw.data_off() + n as u16);
        raw.set_data_len(raw.data_len() - n as u16);
        raw.set_pkt_len(raw.pkt_len() - n as u32);
        true
    }

    /// Makes room for `n` octets after the packet and returns them, not initialised to anything in particular;
    /// None, and no change, when the last segment's tailroom is too small.
    pub fn append(&mut self, n: usize) -> Option<&mut [u8]> {
        let (head, last) = (self.raw(), self.last());
        if n > last.tailroom() {
            return None;
        }
        let old = usize::from(last.data_len());
        last.set_data_len(grown(last.data_len(), n)?);
        head.set_pkt_len(head.pkt_len() + n as u32);
        // SAFETY: the `n` octets after the segment's old end are inside its buffer (the tailroom was checked), and
        // the exclusive borrow of the only owner makes this the only view.
        Some(unsafe { std::slice::from_raw_parts_mut(last.data_ptr().add(old), n) })
    }

    /// Takes `n` octets off the packet's end; false, and no change, when the last segment has fewer.
    #[must_use]
    pub fn trim(&mut self, n: usize) -> bool {
        let (head, last) = (self.raw(), self.last());
        if n > usize::from(last.data_len()) {
            return false;
        }
        last.set_data_len(last.data_len() - n as u16);
        head.set_pkt_len(head.pkt_len() - n as u32);
        true
    }

    /// Cuts the packet down to `len` octets; segments behind them go back to their pool. False, and no change, when it
    /// has fewer.
    #[must_use]
    pub fn truncate(&mut self, len: usize) -> bool {
        let head = self.raw();
        let Some(surplus) = self.len().checked_sub(len) else {
            return false;
        };
        if surplus <= usize::from(self.last().data_len()) && (surplus == 0 || !self.is_chained()) {
            return self.trim(surplus);
        }
        let (mut segment, mut left, mut count) = (head, len, 1);
        while left > usize::from(segment.data_len()) {
            left -= usize::from(segment.data_len());
            let Some(next) = NonNull::new(segment.next()) else {
                return false;
            };
            (segment, count) = (Raw(next), count + 1);
        }
        segment.set_data_len(left as u16);
        let behind = NonNull::new(segment.next());
        segment.set_next(ptr::null_mut());
        head.set_nb_segs(count);
        head.set_pkt_len(len as u32);
        if let Some(behind) = behind {
            // SAFETY: the segments behind belonged to this packet alone, and no longer do; their pool lives on.
            unsafe { sys::shim_mbuf_free(behind.as_ptr()) };
        }
        true
    }

    /// Moves octets from the segments behind into the first, until it has `n`; segments that are empty then go back to
    /// their pool. False, and no change, when the first has no room for them or the packet has fewer.
    pub fn pull_up(&mut self, n: usize) -> bool {
        let head = self.raw();
        let Some(mut missing) = n.checked_sub(usize::from(head.data_len())) else {
            return true;
        };
        if missing > head.tailroom() || n > self.len() {
            return false;
        }
        while missing > 0 {
            let Some(next) = NonNull::new(head.next()).map(Raw) else {
                return false;
            };
            let octets = missing.min(usize::from(next.data_len()));
            let end = head.data_ptr().wrapping_add(usize::from(head.data_len()));
            // SAFETY: `octets` are in the next segment and, as the tailroom was checked, behind the first one's end in
            // its buffer; two buffers do not overlap, and the exclusive borrow of the only owner keeps others away.
            unsafe { ptr::copy_nonoverlapping(next.data_ptr(), end, octets) };
            head.set_data_len(head.data_len() + octets as u16);
            next.set_data_off(next.data_off() + octets as u16);
            next.set_data_len(next.data_len() - octets as u16);
            missing -= octets;
            if next.data_len() == 0 {
                head.set_next(next.next());
                head.set_nb_segs(head.nb_segs() - 1);
                next.set_next(ptr::null_mut());
                // SAFETY: the empty segment belonged to this packet alone, and no longer does; its pool lives on.
                unsafe { sys::shim_mbuf_free(next.0.as_ptr()) };
            }
        }
        true
    }

    /// Puts `tail` behind this packet, without copying; gives it back when the chain would have more segments
    /// than DPDK counts.
    pub fn chain(&mut self, tail: Mbuf) -> Result<(), Mbuf> {
        let head = self.raw();
        let Some(count) = head.nb_segs().checked_add(tail.segment_count()) else {
            return Err(tail);
        };
        let Some(length) = head.pkt_len().checked_add(tail.raw().pkt_len()) else {
            return Err(tail);
        };
        self.last().set_next(tail.into_raw().as_ptr());
        head.set_nb_segs(count);
        head.set_pkt_len(length);
        Ok(())
    }

    /// The port that the packet came in on, by DPDK's number; 65535 when it did not.
    #[inline]
    pub fn port(&self) -> u16 {
        self.raw().port()
    }

    /// Notes the port that the packet counts as received on.
    #[inline]
    pub fn set_port(&mut self, port: u16) {
        self.raw().set_port(port);
    }

    /// The offload bits: see [`flags`].
    #[inline]
    pub fn ol_flags(&self) -> u64 {
        self.raw().ol_flags()
    }

    /// Sets bits of the offload bits: those that ask the port for something, of [`flags`]' `TX_*`, need the
    /// lengths of [`Mbuf::set_tx_lengths`].
    #[inline]
    pub fn add_ol_flags(&mut self, bits: u64) {
        self.raw().set_ol_flags(self.raw().ol_flags() | (bits & TX_FLAGS));
    }

    /// Forgets what the receiving port found out, and all requests to the sending one.
    #[inline]
    pub fn clear_ol_flags(&mut self) {
        let raw = self.raw();
        raw.set_ol_flags(0);
        raw.set_tx_offload(0);
    }

    /// The lengths in octets of the headers that the sending port fills checksums in: layer 2 (at most 127), and
    /// layer 3 (at most 511). False, and no change, when out of range.
    #[inline]
    #[must_use]
    pub fn set_tx_lengths(&mut self, l2: usize, l3: usize) -> bool {
        let fits = l2 < 1 << 7 && l3 < 1 << 9;
        if fits {
            self.raw().set_tx_offload((l2 | l3 << 7) as u64);
        }
        fits
    }

    /// The lengths of [`Mbuf::set_tx_lengths`]; valid where one of [`flags`]' `TX_*` is set.
    #[inline]
    pub fn tx_lengths(&self) -> TxLengths {
        let bits = self.raw().tx_offload();
        TxLengths {
            l2: (bits & 0x7f) as usize,
            l3: (bits >> 7 & 0x1ff) as usize,
        }
    }

    /// How the packet was coalesced of several, if it was: its layer 4 checksum is not valid then, and its lengths
    /// are those of the whole.
    #[inline]
    pub fn coalesced(&self) -> Option<Coalesced> {
        let is_one = self.ol_flags() & flags::RX_LRO != 0;
        is_one.then(|| {
            let bits = self.raw().tx_offload();
            Coalesced {
                layer4: (bits >> 7 & 0x1ff) as usize,
                size: (bits >> 24 & 0xffff) as u16,
            }
        })
    }

    /// Marks the packet as coalesced of several. False, and no change, where its layer 4 header begins after
    /// 511 octets.
    pub(crate) fn set_coalesced(&mut self, coalesced: Coalesced) -> bool {
        let fits = coalesced.layer4 < 1 << 9;
        if fits {
            let raw = self.raw();
            raw.set_tx_offload((coalesced.layer4 << 7) as u64 | u64::from(coalesced.size) << 24);
            raw.set_ol_flags(raw.ol_flags() | flags::RX_LRO);
        }
        fits
    }

    /// The hash that the port spread the packet by, where it gave one.
    #[inline]
    pub fn rss_hash(&self) -> Option<u32> {
        let raw = self.raw();
        (raw.ol_flags() & flags::RX_RSS_HASH != 0).then(|| self.tag())
    }

    /// A number that the owner of the packet keeps with it, in the place of the hash.
    #[inline]
    pub fn tag(&self) -> u32 {
        self.raw().hash_rss()
    }

    /// Sets that number; the hash is lost.
    #[inline]
    pub fn set_tag(&mut self, tag: u32) {
        self.raw().set_hash_rss(tag);
    }

    /// Sets the hash, as if the port had given it: for ports that do not.
    #[inline]
    pub fn set_rss_hash(&mut self, hash: u32) {
        self.set_tag(hash);
        let raw = self.raw();
        raw.set_ol_flags(raw.ol_flags() | flags::RX_RSS_HASH);
    }

    /// The VLAN tag (TCI) that the port took out of the packet.
    #[inline]
    pub fn vlan_tci(&self) -> Option<u16> {
        let raw = self.raw();
        (raw.ol_flags() & flags::RX_VLAN_STRIPPED != 0).then(|| raw.vlan_tci())
    }

    /// What the port recognised in the packet, in DPDK's `RTE_PTYPE_*` bits; 0 when nothing.
    #[inline]
    pub fn packet_type(&self) -> u32 {
        self.raw().packet_type()
    }

    /// Asks the CPU for the first 64 octets of the packet.
    #[inline]
    pub fn prefetch(&self) {
        prefetch(self.raw().data_ptr());
    }

    /// Asks the CPU for the first 128 octets of the packet: the headers of a packet in a tunnel.
    #[inline]
    pub fn prefetch_headers(&self) {
        self.prefetch();
        prefetch(self.raw().data_ptr().wrapping_add(64));
    }
}

/// Lengths of headers for a port that fills in checksums, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLengths {
    /// Of layer 2, at most 127.
    pub l2: usize,
    /// Of layer 3, at most 511.
    pub l3: usize,
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        // SAFETY: the chain is owned and no longer used; its pool lives on (see `Mbuf::from_raw`).
        unsafe { sys::shim_mbuf_free(self.0.as_ptr()) };
    }
}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mbuf")
            .field("len", &self.len())
            .field("segments", &self.segment_count())
            .finish()
    }
}

/// How a packet was coalesced of several: by a NIC (LRO), by the kernel (GRO), or by a sender that leaves it to the NIC
/// to cut it up (TSO).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalesced {
    /// Octets before its layer 4 header.
    pub layer4: usize,
    /// Octets of payload of each packet but the last.
    pub size: u16,
}

/// The flags that a sender may set: those whose wrong use can at worst spoil the packet itself.
const TX_FLAGS: u64 =
    flags::TX_IP_CKSUM | flags::TX_IPV4 | flags::TX_IPV6 | flags::TX_UDP_CKSUM | flags::TX_TCP_CKSUM;

/// `length + n`, where a segment can be that long.
#[inline]
fn grown(length: u16, n: usize) -> Option<u16> {
    u16::try_from(usize::from(length).checked_add(n)?).ok()
}

/// The octets of a packet, segment by segment.
pub struct Segments<'a> {
    next: Option<Raw>,
    _packet: PhantomData<&'a Mbuf>,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let segment = self.next?;
        self.next = NonNull::new(segment.next()).map(Raw);
        // SAFETY: as in `Mbuf::data`, for each segment; the packet is borrowed for 'a.
        Some(unsafe { std::slice::from_raw_parts(segment.data_ptr(), usize::from(segment.data_len())) })
    }
}

#[inline]
fn prefetch(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Frees `mbufs` with one foreign call.
///
/// # Safety
///
/// Each of them is owned by the caller, which does not use them afterwards.
pub(crate) unsafe fn free_bulk(mbufs: &mut [std::mem::MaybeUninit<Mbuf>]) {
    if mbufs.is_empty() {
        return;
    }
    let first = ptr::from_mut(mbufs).cast::<*mut sys::rte_mbuf>();
    // SAFETY: `Mbuf` is a transparent non-null pointer, so this is an array of `len` owned chains.
    unsafe { sys::shim_mbuf_free_bulk(first, mbufs.len() as u32) };
}
