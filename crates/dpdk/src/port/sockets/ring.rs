//! A receive queue: a ring of slots that the kernel fills (`TPACKET_V2`), and a socket for what is longer than a slot.
//!
//! The kernel and the queue's thread have each slot in turn: its first word says which of them has it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::checksum::sum;
use super::counts::Counts;
use super::interface::{Interface, last_errno, set, socket};
use crate::burst::Burst;
use crate::error::{Errno, Error};
use crate::mbuf::{Coalesced, Mbuf};
use crate::mempool::Mempool;

/// Octets before a frame in its slot: the kernel's header, an address, and the state of checksums.
const BEFORE: usize = 80;
/// Octets of the header: the address of the sender of a frame is behind it.
const ADDRESS: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
/// Octets of an Ethernet header and two VLAN tags.
const LAYER2: usize = 14 + 2 * 4;
/// The shortest and the longest slot. What is longer comes by the socket.
const SLOTS: std::ops::RangeInclusive<usize> = 2_048..=16_384;
/// Octets that the kernel allocates at a time.
const BLOCK: usize = 65_536;
/// Octets of frames that wait at the socket, as the kernel counts them.
const WAITING: libc::c_int = 16 << 20;
/// The longest frame: an IPv6 packet behind two tags, and the kernel's header of it.
const LONGEST: usize = VnetHeader::OCTETS + LAYER2 + 40 + 65_535;
/// The most packets that are made of one frame: 64 KiB in segments of 32 octets, less than any TCP sends. Who writes
/// frames of its own could ask for one packet for each octet.
const PIECES: usize = 2_048;
/// Most errors that wait at the socket before a frame.
const ERRORS: usize = 4;
/// Octets of both link layer addresses: a VLAN tag is behind them.
const ADDRESSES: usize = 12;
/// The tag that the kernel means where it names none (IEEE 802.1Q).
const VLAN: u16 = 0x8100;

/// How long a ring is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Octets of a slot.
    slot: usize,
    slots: usize,
}

impl Shape {
    /// For frames of an MTU, as many as `wanted` or a few more.
    pub(super) fn of(mtu: u16, wanted: u16) -> Shape {
        let slot = (BEFORE + LAYER2 + usize::from(mtu)).next_power_of_two();
        let slot = slot.clamp(*SLOTS.start(), *SLOTS.end());
        Shape {
            slot,
            slots: usize::from(wanted).next_multiple_of(BLOCK / slot),
        }
    }

    fn octets(self) -> usize {
        self.slot * self.slots
    }

    fn request(self) -> libc::tpacket_req {
        libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: (self.octets() / BLOCK) as u32,
            tp_frame_size: self.slot as u32,
            tp_frame_nr: self.slots as u32,
        }
    }
}

/// A receive queue.
#[derive(Debug)]
pub(in crate::port) struct Ring {
    socket: Arc<OwnedFd>,
    /// The slots, one behind the other.
    memory: NonNull<u8>,
    shape: Shape,
    /// The slot that is filled next.
    next: usize,
    /// Where frames come that are longer than a slot.
    long: Box<[u8]>,
    pool: Mempool,
    counts: Arc<Counts>,
}

// SAFETY: the memory is this ring's alone and may be read and written by any one thread.
unsafe impl Send for Ring {}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is of this length, and nothing refers to it any more.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.shape.octets()) };
    }
}

impl Ring {
    /// Opens one, whose frames come into buffers of `pool` from now on.
    pub(super) fn open(interface: &Interface, shape: Shape, pool: Mempool) -> Result<Ring, Error> {
        let refused = interface.refused("open a receive queue");
        let made = Self::make(interface, shape, pool).map_err(refused)?;
        interface.add_rx(&made.counts, &made.socket);
        Ok(made)
    }

    fn make(interface: &Interface, shape: Shape, pool: Mempool) -> Result<Ring, Errno> {
        let fd = socket()?;
        let packet = |option, value: libc::c_int| set(&fd, libc::SOL_PACKET, option, &value);
        packet(
            libc::PACKET_VERSION,
            libc::tpacket_versions::TPACKET_V2 as libc::c_int,
        )?;
        packet(libc::PACKET_VNET_HDR, 1)?;
        packet(libc::PACKET_COPY_THRESH, 1)?;
        // What the host itself sends by the interface is not for us. Kernels before 4.20 do not know.
        let _ = packet(libc::PACKET_IGNORE_OUTGOING, 1);
        // Without CAP_NET_ADMIN it is what the system allows.
        if set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &WAITING).is_err() {
            set(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &WAITING)?;
        }
        set(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &shape.request())?;
        let (access, octets) = (libc::PROT_READ | libc::PROT_WRITE, shape.octets());
        let raw = fd.as_raw_fd();
        // SAFETY: a new mapping, at an address of the kernel's choice, of the ring that was just made.
        let memory = unsafe { libc::mmap(ptr::null_mut(), octets, access, libc::MAP_SHARED, raw, 0) };
        let failed = memory == libc::MAP_FAILED;
        let memory = NonNull::new(memory.cast())
            .filter(|_| !failed)
            .ok_or_else(last_errno)?;
        let ring = Ring {
            socket: Arc::new(fd),
            memory,
            shape,
            next: 0,
            long: vec![0; LONGEST].into_boxed_slice(),
            pool,
            counts: Arc::default(),
        };
        interface.bind(&ring.socket, libc::ETH_P_ALL as u16)?;
        Ok(ring)
    }

    /// The socket, for what is set of it.
    pub(super) fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Gives back what has come in so far.
    pub(in crate::port) fn skip(&mut self) {
        for _ in 0..self.shape.slots {
            let Some((at, header)) = self.arrived() else {
                return;
            };
            if header.tp_status & libc::TP_STATUS_COPY != 0 {
                // The whole frame waits at the socket.
                self.receive_long();
            }
            self.release(at);
        }
    }

    /// What is readable while there is something to receive.
    pub(in crate::port) fn fd(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.socket.as_fd()
    }

    /// Adds what has come in to the burst, at most `limit`; looks at no more slots than that.
    pub(in crate::port) fn receive(&mut self, burst: &mut Burst, limit: usize) -> usize {
        let (mut packets, mut octets) = (0, 0);
        for _ in 0..limit.min(burst.room()) {
            let Some((at, header)) = self.arrived() else { break };
            if let Some(mbuf) = self.take(at, &header) {
                packets += 1;
                octets += mbuf.len() as u64;
                let _ = burst.push(mbuf);
            }
            self.release(at);
        }
        if packets > 0 {
            Counts::add(&self.counts.packets, packets);
            Counts::add(&self.counts.octets, octets);
        }
        packets as usize
    }

    /// Gives the next slot back to the kernel.
    #[inline]
    fn release(&mut self, at: NonNull<u8>) {
        // SAFETY: as in `arrived`; nothing refers to the slot any more, and the kernel may have it.
        unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next += 1;
        if self.next == self.shape.slots {
            self.next = 0;
        }
    }

    /// Whether the kernel has filled the next slot.
    #[inline]
    pub(in crate::port) fn has_packets(&self) -> bool {
        self.status().1 & libc::TP_STATUS_USER != 0
    }

    /// The next slot and its status.
    #[inline]
    fn status(&self) -> (NonNull<u8>, u32) {
        // SAFETY: `next` is the number of a slot, so that it begins inside the mapping.
        let at = unsafe { self.memory.add(self.next * self.shape.slot) };
        // SAFETY: a slot begins with this word, aligned as slots are; the kernel writes it, too.
        let status = unsafe { AtomicU32::from_ptr(at.as_ptr().cast()) }.load(Ordering::Acquire);
        (at, status)
    }

    /// The next slot, if the kernel has filled it, and what it says of it.
    #[inline]
    fn arrived(&self) -> Option<(NonNull<u8>, libc::tpacket2_hdr)> {
        let (at, status) = self.status();
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot begins with this header, aligned as slots are; it is ours until its status is written.
        let header = unsafe { at.cast::<libc::tpacket2_hdr>().read() };
        Some((at, header))
    }

    /// Copies a frame out of its slot, or from the socket. `None` where there is no buffer for it, it cannot be had as
    /// a whole, or it is one that the host sends.
    fn take(&mut self, at: NonNull<u8>, header: &libc::tpacket2_hdr) -> Option<Mbuf> {
        let (mac, kept) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        // SAFETY: an address is behind the header, aligned as slots are; the slot is ours until its status is written.
        let is_sent = unsafe { at.add(ADDRESS).cast::<libc::sockaddr_ll>().read() }.sll_pkttype
            == libc::PACKET_OUTGOING;
        let frame = if header.tp_status & libc::TP_STATUS_COPY != 0 {
            let octets = self.receive_long();
            self.long.get_mut(..octets.unwrap_or_default())
        } else {
            // SAFETY: the slot is within the mapping and is ours until its status is written, which is after the last
            // use.
            let slot = unsafe { std::slice::from_raw_parts_mut(at.as_ptr(), self.shape.slot) };
            let is_whole = header.tp_snaplen == header.tp_len;
            let start = mac.checked_sub(VnetHeader::OCTETS).filter(|_| is_whole);
            start.and_then(|start| slot.get_mut(start..mac + kept))
        };
        let split = frame.and_then(|frame| frame.split_first_chunk_mut());
        let Some((vnet, frame)) = split else {
            Counts::add(&self.counts.errors, 1);
            return None;
        };
        if is_sent {
            return None;
        }
        let vnet = VnetHeader::read(vnet);
        if vnet.is_alone() {
            vnet.fill_checksum(frame);
        }
        let Some(mut mbuf) = store(&self.pool, frame, tag(header)) else {
            Counts::add(&self.counts.no_buffer, 1);
            return None;
        };
        if !vnet.is_alone() {
            let added = mbuf.len() - frame.len();
            let layer4 = if vnet.start == 0 { 0 } else { vnet.start + added };
            let size = vnet.size;
            if !vnet.can_be_cut(frame.len()) || !mbuf.set_coalesced(Coalesced { layer4, size }) {
                Counts::add(&self.counts.errors, 1);
                return None;
            }
        }
        Some(mbuf)
    }

    /// Takes the next frame from the socket: its octets, behind the kernel's header of it. Frames there are in the
    /// order of their slots.
    #[cold]
    fn receive_long(&mut self) -> Option<usize> {
        let (to, room) = (self.long.as_mut_ptr().cast(), self.long.len());
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // An error may be one that waited at the socket, as of a link that was down: the frame is behind it.
        for _ in 0..ERRORS {
            // SAFETY: the buffer may be written and is as long as is said.
            let octets = unsafe { libc::recv(self.socket.as_raw_fd(), to, room, flags) };
            if let Ok(octets) = usize::try_from(octets) {
                return (octets <= room).then_some(octets);
            }
        }
        None
    }
}

/// The VLAN tag that the kernel has taken out of a frame.
fn tag(header: &libc::tpacket2_hdr) -> Option<[u8; 4]> {
    if header.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let is_told = header.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let [a, b] = if is_told { header.tp_vlan_tpid } else { VLAN }.to_be_bytes();
    let [c, d] = header.tp_vlan_tci.to_be_bytes();
    Some([a, b, c, d])
}

/// Copies a frame into buffers of the pool, as many as it takes, with its tag in its place again.
#[inline]
fn store(pool: &Mempool, frame: &[u8], tag: Option<[u8; 4]>) -> Option<Mbuf> {
    let mut mbuf = pool.alloc()?;
    match tag {
        None => append(pool, &mut mbuf, frame)?,
        Some(tag) => {
            let (addresses, rest) = frame.split_at_checked(ADDRESSES)?;
            append(pool, &mut mbuf, addresses)?;
            append(pool, &mut mbuf, &tag)?;
            append(pool, &mut mbuf, rest)?;
        }
    }
    Some(mbuf)
}

#[inline]
fn append(pool: &Mempool, mbuf: &mut Mbuf, octets: &[u8]) -> Option<()> {
    let mut left = octets;
    while !left.is_empty() {
        let room = mbuf.tailroom().min(left.len());
        let (now, later) = left.split_at(room);
        if room == 0 {
            mbuf.chain(pool.alloc()?).ok()?;
        }
        mbuf.append(room)?.copy_from_slice(now);
        left = later;
    }
    Some(())
}

/// The kernel's header of a frame (`struct virtio_net_hdr`, in this machine's order of octets).
#[derive(Clone, Copy, Debug)]
struct VnetHeader {
    needs_checksum: bool,
    /// 0: the frame is one packet.
    kind: u8,
    /// Octets of payload of each packet that it is made of.
    size: u16,
    /// Where what the checksum is over begins.
    start: usize,
    /// Where the checksum is, from there on.
    at: usize,
}

impl VnetHeader {
    const OCTETS: usize = 10;
    const NEEDS_CHECKSUM: u8 = 1;
    /// TCP over IPv4, over IPv6, UDP datagrams.
    const CUT: [u8; 3] = [1, 4, 5];
    /// Beside them: the TCP connection uses ECN.
    const ECN: u8 = 0x80;
    /// Where SCTP has its checksum, which is another (RFC 9260).
    const SCTP: usize = 8;

    fn read(octets: &[u8; VnetHeader::OCTETS]) -> VnetHeader {
        let word = |at: usize| u16::from_ne_bytes([octets[at], octets[at + 1]]);
        VnetHeader {
            needs_checksum: octets[0] & VnetHeader::NEEDS_CHECKSUM != 0,
            kind: octets[1] & !VnetHeader::ECN,
            size: word(4),
            start: usize::from(word(6)),
            at: usize::from(word(8)),
        }
    }

    fn is_alone(self) -> bool {
        self.kind == 0
    }

    /// Whether a frame of this many octets can be cut up, and into no more than [`PIECES`].
    fn can_be_cut(self, octets: usize) -> bool {
        let pieces = octets.checked_div(self.size.into());
        VnetHeader::CUT.contains(&self.kind) && pieces.is_some_and(|pieces| pieces < PIECES)
    }

    /// Fills in a checksum that the sender has left to the NIC: the sum of the pseudo header is in its place.
    fn fill_checksum(self, frame: &mut [u8]) {
        if !self.needs_checksum || self.at == VnetHeader::SCTP {
            return;
        }
        let Some(covered) = frame.get_mut(self.start..) else {
            return;
        };
        // 0 says that there is none, in UDP; it and 0xffff are the same number (RFC 1624 §3).
        let sum = match !sum(covered) {
            0 => 0xffff,
            sum => sum,
        };
        if let Some(place) = covered.get_mut(self.at..self.at + 2) {
            place.copy_from_slice(&sum.to_ne_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_as_long_as_frames_within_bounds() {
        let shape = |mtu, wanted| {
            let shape = Shape::of(mtu, wanted);
            (shape.slot, shape.slots)
        };
        assert_eq!(shape(1_500, 1_024), (2_048, 1_024));
        assert_eq!(shape(1_946, 64), (2_048, 64));
        assert_eq!(shape(1_947, 64), (4_096, 64));
        assert_eq!(shape(9_000, 1_000), (16_384, 1_000));
        assert_eq!(shape(65_535, 1), (16_384, 4));
        let request = Shape::of(1_500, 100).request();
        assert_eq!((request.tp_block_nr, request.tp_frame_nr), (4, 128));
    }

    #[test]
    fn no_frame_becomes_more_packets_than_a_sender_has_reason_for() {
        let header = |kind: u8, size: u16| {
            let mut octets = [0; VnetHeader::OCTETS];
            octets[1] = kind;
            octets[4..6].copy_from_slice(&size.to_ne_bytes());
            VnetHeader::read(&octets)
        };
        // 64 KiB of TCP in the least segments that Linux sends (48 octets with options), and of UDP in 64 datagrams.
        for (kind, octets, size) in [(1, 65_549, 36), (4 | VnetHeader::ECN, 65_549, 36), (5, 106, 1)] {
            assert!(header(kind, size).can_be_cut(octets), "{kind} {octets} {size}");
        }
        for (kind, octets, size) in [(1, 65_549, 1), (5, 65_549, 31), (4, 60, 0), (3, 3_000, 1_400)] {
            assert!(!header(kind, size).can_be_cut(octets), "{kind} {octets} {size}");
        }
    }

    #[test]
    fn a_checksum_is_filled_in_where_the_kernel_says() {
        // RFC 1071 §3: the words 0001, f203, f4f5, f6f7 sum up to ddf2.
        let frame = |checksum: [u8; 2]| {
            [
                9,
                9,
                0,
                1,
                0xf2,
                3,
                0xf4,
                0xf5,
                checksum[0],
                checksum[1],
                0xf6,
                0xf7,
            ]
        };
        let header = |needs: u8, at: u16| {
            let mut octets = [0; VnetHeader::OCTETS];
            octets[0] = needs;
            octets[6..8].copy_from_slice(&2_u16.to_ne_bytes());
            octets[8..10].copy_from_slice(&at.to_ne_bytes());
            VnetHeader::read(&octets)
        };
        let mut filled = frame([0, 0]);
        header(1, 6).fill_checksum(&mut filled);
        assert_eq!(filled, frame([0x22, 0x0d]));
        // What sums up to 0 is sent as 0xffff; an odd octet counts as a high one.
        let mut none = [9, 9, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0];
        header(1, 6).fill_checksum(&mut none);
        assert_eq!(none[8..10], [0xff, 0xff]);
        for left in [header(0, 6), header(1, 8), header(1, 9), header(1, 60_000)] {
            let mut untouched = frame([7, 7]);
            left.fill_checksum(&mut untouched);
            assert_eq!(untouched, frame([7, 7]), "{left:?}");
        }
    }
}
