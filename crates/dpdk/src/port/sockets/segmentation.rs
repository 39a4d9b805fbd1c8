//! UDP segmentation: consecutive GTP-U packets to one peer are handed to the kernel as one datagram with segments
//! (`VIRTIO_NET_HDR_GSO_UDP_L4`, kernel 6.2). The NIC cuts it into the packets, or the kernel does.
//!
//! Only packets whose outer header loses nothing are joined, to the port of GTP-U, with one VLAN tag at most: IPv4
//! without options, not fragmentable, identification 0 (RFC 6864 §4: the field has no meaning then), no UDP checksum;
//! IPv6 without extension headers, with a right UDP checksum. Segments have rising identifications, and a UDP checksum.

use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};

use super::checksum::sum;
use super::interface::{Interface, last_errno, set, set_waiting, socket};
use crate::error::Errno;
use crate::mbuf::Mbuf;

/// Octets of headers.
const ETHERNET: usize = 14;
const TAG: usize = 4;
const IPV4: usize = 20;
const IPV6: usize = 40;
const UDP: usize = 8;
/// The most octets of headers that all packets of a run have in common.
const HEADERS_MAX: usize = ETHERNET + TAG + IPV6 + UDP;
/// The greatest total length of an IPv4 packet, and length of what follows an IPv6 header.
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
    /// The longest packet that the interface takes, octets.
    mtu: usize,
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
            mtu: mtu.into(),
        })
    }

    /// How many packets from the first on are one run; 1 where the first is none's. All are as long as the first, but
    /// the last, which may be shorter.
    pub(super) fn run(&self, packets: &[Mbuf]) -> usize {
        let Some((first, rest)) = packets.split_first() else {
            return 0;
        };
        let Some(headers) = Headers::of(first).filter(|headers| headers.packet <= self.mtu) else {
            return 1;
        };
        let (mut count, mut length) = (1, first.len());
        let (mut total, mut parts) = (headers.packet, usize::from(first.segment_count()));
        for packet in rest {
            let is_same = |other: &Headers<'_>| headers.have_same_endpoints(other);
            if length < first.len() || packet.len() > length || Headers::of(packet).filter(is_same).is_none()
            {
                break;
            }
            length = packet.len();
            total += length - headers.octets.len();
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
        let Some(first) = run.first().and_then(Headers::of) else {
            return Err(Errno(libc::EINVAL));
        };
        let length = first.octets.len();
        let payload = run.iter().map(|packet| packet.len() - length).sum();
        let headers = first.joint(payload);
        let kernels = first.kernels((run[0].len() - length) as u16);
        let part = |octets: &[u8]| libc::iovec {
            iov_base: octets.as_ptr().cast_mut().cast(),
            iov_len: octets.len(),
        };
        parts.extend([part(&kernels), part(&headers[..length])]);
        for packet in run {
            let mut skipped = length;
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

/// The headers of a packet that can be part of a run.
#[derive(Clone, Copy)]
struct Headers<'a> {
    octets: &'a [u8],
    is_v4: bool,
    /// Where the IP header is, and the UDP header.
    ip: usize,
    udp: usize,
    /// Octets of the packet from its IP header on.
    packet: usize,
}

impl<'a> Headers<'a> {
    fn of(packet: &'a Mbuf) -> Option<Headers<'a>> {
        let data = packet.data();
        let word = |at: usize| {
            data.get(at..at + 2)
                .map(|word| u16::from_be_bytes([word[0], word[1]]))
        };
        let ip = match word(12)? {
            0x8100 => ETHERNET + TAG,
            _ => ETHERNET,
        };
        let is_v4 = match word(ip - 2)? {
            0x0800 => true,
            0x86dd => false,
            _ => return None,
        };
        let udp = ip + if is_v4 { IPV4 } else { IPV6 };
        let headers = Headers {
            octets: data.get(..udp + UDP)?,
            is_v4,
            ip,
            udp,
            packet: packet.len() - ip,
        };
        let is_whole = packet.len() > udp + UDP && usize::from(word(udp + 4)?) + udp == packet.len();
        let loses_nothing = is_whole && headers.are_of_gtpu() && (is_v4 || headers.is_summed_up(packet));
        loses_nothing.then_some(headers)
    }

    /// Whether the UDP checksum of an IPv6 packet in one buffer is right: a user's packet that is damaged stays so.
    fn is_summed_up(&self, packet: &Mbuf) -> bool {
        let (ip, udp) = (self.ip, self.udp);
        if packet.is_chained() || self.octets[udp + 6..] == [0, 0] {
            return false;
        }
        let data = packet.data();
        let pseudo = [0, 17, data[udp + 4], data[udp + 5]];
        let parts = [&data[ip + 8..udp], &pseudo, &data[udp..]];
        let total = parts.into_iter().map(|part| u32::from(sum(part))).sum::<u32>();
        total % 0xffff == 0
    }

    /// Whether they are those of GTP-U and have nothing to lose.
    fn are_of_gtpu(&self) -> bool {
        let (ip, udp) = (&self.octets[self.ip..self.udp], &self.octets[self.udp..]);
        let word = |at: usize| usize::from(u16::from_be_bytes([ip[at], ip[at + 1]]));
        let is_plain = match self.is_v4 {
            // Version, identification and fragment, protocol, no UDP checksum.
            true => {
                (ip[0], ip[9]) == (0x45, 17)
                    && ip[4..8] == [0, 0, 0x40, 0]
                    && word(2) == self.packet
                    && udp[6..8] == [0, 0]
            }
            false => (ip[0] >> 4, ip[6]) == (6, 17) && word(4) + IPV6 == self.packet,
        };
        is_plain && udp[2..4] == [0x08, 0x68]
    }

    /// Whether two packets differ in lengths and checksums alone.
    fn have_same_endpoints(&self, other: &Headers<'_>) -> bool {
        let (ip, udp) = (self.ip, self.udp);
        let same = match self.is_v4 {
            true => [0..ip + 2, ip + 4..ip + 10, ip + 12..udp + 4],
            false => [0..ip + 4, ip + 6..ip + 8, ip + 8..udp + 4],
        };
        let are_alike = self.octets.len() == other.octets.len();
        are_alike
            && same
                .into_iter()
                .all(|range| self.octets[range.clone()] == other.octets[range])
    }

    /// The headers of a datagram with this many octets of payload.
    fn joint(&self, payload: usize) -> [u8; HEADERS_MAX] {
        let mut headers = [0; HEADERS_MAX];
        headers[..self.octets.len()].copy_from_slice(self.octets);
        let length = (UDP + payload) as u16;
        let (ip, udp) = headers.split_at_mut(self.udp);
        let ip = &mut ip[self.ip..];
        // Both addresses, and what follows them in the pseudo header.
        let mut pseudo = [0; 2 * 16 + 4];
        let addresses = if self.is_v4 {
            ip[2..4].copy_from_slice(&(IPV4 as u16 + length).to_be_bytes());
            ip[10..12].copy_from_slice(&[0, 0]);
            let checksum = !sum(ip);
            ip[10..12].copy_from_slice(&checksum.to_ne_bytes());
            &ip[12..20]
        } else {
            ip[4..6].copy_from_slice(&length.to_be_bytes());
            &ip[8..40]
        };
        let end = addresses.len();
        pseudo[..end].copy_from_slice(addresses);
        pseudo[end + 1] = 17;
        pseudo[end + 2..end + 4].copy_from_slice(&length.to_be_bytes());
        udp[4..6].copy_from_slice(&length.to_be_bytes());
        udp[6..8].copy_from_slice(&sum(&pseudo).to_ne_bytes());
        headers
    }

    /// The kernel's header, in this machine's order of octets, of segments with this many octets of payload.
    fn kernels(&self, segment: u16) -> [u8; 10] {
        let mut header = [0; 10];
        (header[0], header[1]) = (NEEDS_CHECKSUM, UDP_SEGMENTS);
        let words = [self.octets.len() as u16, segment, self.udp as u16, CHECKSUM_AT];
        for (place, word) in header[2..].chunks_exact_mut(2).zip(words) {
            place.copy_from_slice(&word.to_ne_bytes());
        }
        header
    }
}
