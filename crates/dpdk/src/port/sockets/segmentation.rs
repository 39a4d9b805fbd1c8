//! UDP segmentation: consecutive GTP-U packets to one peer are handed to the kernel as one datagram with segments
//! (`VIRTIO_NET_HDR_GSO_UDP_L4`, kernel 6.2). The NIC cuts it into the packets, or the kernel does.
//!
//! Only packets whose outer header loses nothing are joined: IPv4 without options, not fragmentable, identification 0
//! (RFC 6864 §4: the field has no meaning then), no UDP checksum, no VLAN tag, to the port of GTP-U. Segments have
//! rising identifications and a UDP checksum.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use super::checksum::sum;
use super::interface::{Interface, last_errno, set, set_waiting, socket};
use crate::error::Errno;
use crate::mbuf::Mbuf;

/// Octets of the Ethernet, IPv4 and UDP headers that all packets of a run have in common.
const HEADERS: usize = ETHERNET + IPV4 + UDP;
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const UDP: usize = 8;
/// The greatest total length of an IPv4 packet.
const TOTAL_MAX: usize = 65_535;
/// The most parts of a run: the kernel takes 1,024 (`UIO_MAXIOV`), two of which are headers.
const PARTS_MAX: usize = 1_022;
/// The least packets of a run: of two, the second saves less than the joint costs.
pub(super) const RUN_MIN: usize = 3;
/// The kernel's header of a frame (`struct virtio_net_hdr`): the UDP checksum is to be filled in, and the frame cut up.
const NEEDS_CHECKSUM: u8 = 1;
const UDP_SEGMENTS: u8 = 5;
const CHECKSUM_AT: u16 = 6;

/// Sends runs.
#[derive(Debug)]
pub(super) struct Segmentation {
    socket: OwnedFd,
    /// The longest frame that the interface takes, octets.
    longest: usize,
}

impl Segmentation {
    /// Opens a socket of its own: each frame sent by it has the kernel's header.
    pub(super) fn open(interface: &Interface, waiting: libc::c_int, mtu: u16) -> Result<Segmentation, Errno> {
        let fd = socket()?;
        set_waiting(&fd, waiting)?;
        set(&fd, libc::SOL_PACKET, libc::PACKET_VNET_HDR, &(1 as libc::c_int))?;
        interface.bind(&fd, 0)?;
        Ok(Segmentation {
            socket: fd,
            longest: ETHERNET + usize::from(mtu),
        })
    }

    /// How many packets from the first on are one run; 1 where the first is none's. All are as long as the first, but
    /// the last, which may be shorter.
    pub(super) fn run(&self, packets: &[Mbuf]) -> usize {
        let Some((first, rest)) = packets.split_first() else {
            return 0;
        };
        let Some(headers) = joinable(first, self.longest) else {
            return 1;
        };
        let (mut count, mut length) = (1, first.len());
        let (mut total, mut parts) = (first.len() - ETHERNET, usize::from(first.segment_count()));
        for packet in rest {
            let is_same = |other: &&[u8; HEADERS]| have_same_endpoints(headers, other);
            if length < first.len()
                || packet.len() > length
                || joinable(packet, length).filter(is_same).is_none()
            {
                break;
            }
            length = packet.len();
            total += length - HEADERS;
            parts += usize::from(packet.segment_count());
            if total > TOTAL_MAX || parts > PARTS_MAX {
                break;
            }
            count += 1;
        }
        count
    }

    /// Sends a run; `parts` is empty, and is again afterwards.
    pub(super) fn send(&self, run: &[Mbuf], parts: &mut Vec<libc::iovec>) -> Result<(), Errno> {
        let Some(first) = run.first().and_then(|first| first.data().first_chunk()) else {
            return Err(Errno(libc::EINVAL));
        };
        let payload = run.iter().map(|packet| packet.len() - HEADERS).sum();
        let headers = joint(first, payload);
        let kernels = kernels_header((run[0].len() - HEADERS) as u16);
        let part = |octets: &[u8]| libc::iovec {
            iov_base: octets.as_ptr().cast_mut().cast(),
            iov_len: octets.len(),
        };
        parts.extend([part(&kernels), part(&headers)]);
        for packet in run {
            let mut skipped = HEADERS;
            for octets in packet.segments() {
                let start = skipped.min(octets.len());
                skipped -= start;
                parts.push(part(&octets[start..]));
            }
        }
        // SAFETY: the structure is of integers and pointers, for all of which zero is a value.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len() as _;
        // SAFETY: this many parts, of memory that is borrowed here; the kernel reads them.
        let sent = unsafe { libc::sendmsg(self.socket.as_raw_fd(), &raw const message, libc::MSG_DONTWAIT) };
        let result = if sent < 0 { Err(last_errno()) } else { Ok(()) };
        parts.clear();
        result
    }
}

/// The headers of a packet that can be part of a run, of at most `longest` octets.
fn joinable(packet: &Mbuf, longest: usize) -> Option<&[u8; HEADERS]> {
    let headers = packet.data().first_chunk()?;
    let is_whole = packet.len() > HEADERS && packet.len() <= longest;
    (is_whole && is_gtpu(headers, packet.len())).then_some(headers)
}

/// Whether a frame of this many octets is a GTP-U packet whose outer header has nothing to lose.
fn is_gtpu(headers: &[u8; HEADERS], octets: usize) -> bool {
    let word = |at: usize| usize::from(u16::from_be_bytes([headers[at], headers[at + 1]]));
    // Ethernet type and version, identification and fragment, protocol, destination port, UDP checksum.
    headers[12..15] == [0x08, 0x00, 0x45]
        && headers[18..22] == [0, 0, 0x40, 0]
        && headers[23] == 17
        && headers[36..38] == [0x08, 0x68]
        && headers[40..42] == [0, 0]
        && word(16) + ETHERNET == octets
        && word(38) + ETHERNET + IPV4 == octets
}

/// Whether two packets differ in lengths and the IP header's checksum alone.
fn have_same_endpoints(one: &[u8; HEADERS], other: &[u8; HEADERS]) -> bool {
    [0..16, 18..24, 26..38]
        .into_iter()
        .all(|range| one[range.clone()] == other[range])
}

/// The headers of a datagram with this many octets of payload.
fn joint(first: &[u8; HEADERS], payload: usize) -> [u8; HEADERS] {
    let mut headers = *first;
    let length = (UDP + payload) as u16;
    headers[16..18].copy_from_slice(&(IPV4 as u16 + length).to_be_bytes());
    headers[24..26].copy_from_slice(&[0, 0]);
    let checksum = !sum(&headers[ETHERNET..ETHERNET + IPV4]);
    headers[24..26].copy_from_slice(&checksum.to_ne_bytes());
    headers[38..40].copy_from_slice(&length.to_be_bytes());
    let mut pseudo = [0; 12];
    pseudo[..8].copy_from_slice(&headers[26..34]);
    pseudo[9] = headers[23];
    pseudo[10..].copy_from_slice(&length.to_be_bytes());
    headers[40..42].copy_from_slice(&sum(&pseudo).to_ne_bytes());
    headers
}

/// The kernel's header, in this machine's order of octets.
fn kernels_header(segment: u16) -> [u8; 10] {
    let mut header = [0; 10];
    (header[0], header[1]) = (NEEDS_CHECKSUM, UDP_SEGMENTS);
    let words = [HEADERS as u16, segment, (ETHERNET + IPV4) as u16, CHECKSUM_AT];
    for (place, word) in header[2..].chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    header
}
