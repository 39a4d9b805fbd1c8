//! The way of one UE address through the user plane, and the packets that go along it.
//!
//! A [`Path`] holds the prepared headers of its uplink and downlink packets, with the sums of the fields that do not
//! change: sending a packet copies them, writes the payload, and patches lengths and checksums. The same headers,
//! after one hop, have to arrive: they are compared octet for octet.
//!
//! Paths do not change once made; the shards of all threads share them.

use crate::Direction;
use crate::payload::{self, Fault, Stamp};
use crate::station::Family;
use crate::sum::Sum;
use packet::{Qfi, Teid};
use std::net::IpAddr;
use std::ops::Range;

/// UDP port of GTP-U (TS 29.281 §4.4.2.3).
pub const GTPU_PORT: u16 = 2152;
/// TTL or hop limit of packets when they are sent.
pub const TTL: u8 = 64;

const UDP: u8 = 17;
const UDP_LENGTH: usize = 8;
/// GTP-U header with sequence number, N-PDU and next extension, and a PDU Session Container of four octets.
const GTPU_PSC_LENGTH: usize = 16;
const GTPU_LENGTH: usize = 8;
/// IPv6, UDP, GTP-U with PDU Session Container.
const OUTER_MAX: usize = 40 + UDP_LENGTH + GTPU_PSC_LENGTH;
/// IPv6, UDP.
const INNER_MAX: usize = 40 + UDP_LENGTH;

/// One end of a GTP-U tunnel: the values of an F-TEID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TunnelEnd {
    /// The address.
    pub address: IpAddr,
    /// The TEID.
    pub teid: Teid,
}

/// Parameters of a [`Path`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathConfig {
    /// Number of the PDU session.
    pub session: u32,
    /// The UE's address.
    pub ue: IpAddr,
    /// The server's address, of the same family.
    pub server: IpAddr,
    /// The server's UDP port.
    pub server_port: u16,
    /// The first UDP port of the UE.
    pub ue_port: u16,
    /// How many ports the UE uses in turn, each another 5-tuple: a power of two (else the next lower is taken).
    pub ue_ports: u16,
    /// Where uplink packets go: the UPF's F-TEID.
    pub upf: TunnelEnd,
    /// Where downlink packets have to arrive: the gNB's F-TEID, of the same family as the UPF's.
    pub gnb: TunnelEnd,
    /// The QFI of uplink packets, and that downlink packets have to carry. `None`: no PDU Session Container.
    pub qfi: Option<Qfi>,
}

/// Why a path cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// UE and server addresses are not of one family.
    InnerFamilies,
    /// UPF and gNB addresses are not of one family.
    OuterFamilies,
    /// The UE's ports go above 65,535.
    Ports,
}

impl std::fmt::Display for PathError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            PathError::InnerFamilies => "the addresses of UE and server are not of one family",
            PathError::OuterFamilies => "the addresses of UPF and gNB are not of one family",
            PathError::Ports => "the UE's ports go above 65535",
        })
    }
}

impl std::error::Error for PathError {}

/// One's complement sums of the constant fields in an inner packet's headers, folded.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    /// Sum of the IP header, without length and checksum.
    ip: u16,
    /// Sum of the UDP pseudo header, without the length.
    pseudo: u16,
    /// Sum of the first ports.
    ports: u16,
    /// Which bits of a sequence number are added to the UE's port.
    step: u16,
}

/// Outer and inner headers of uplink packets, without lengths and checksums: two cache lines.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Uplink {
    head: [u8; OUTER_MAX + INNER_MAX],
    outer_length: u8,
    inner_length: u8,
    /// Sum of the outer IPv4 header, or of all fields that an outer UDP checksum over IPv6 covers.
    outer_sum: u16,
    sums: Sums,
}

/// Headers of downlink packets, without lengths and checksums: one cache line.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
struct Downlink {
    head: [u8; INNER_MAX],
    length: u8,
    sums: Sums,
}

const _: () = assert!(size_of::<Uplink>() == 128 && size_of::<Downlink>() == 64);

/// Fields in which a packet differs from its prepared headers.
#[derive(Debug, Clone, Copy)]
struct Patch {
    /// Octets of the IP packet.
    length: u16,
    /// Routers it has passed.
    hops: u8,
    /// Added to source and destination port; one of them is 0.
    steps: [u16; 2],
}

/// The ready made packets of one UE address.
#[derive(Debug, Clone)]
#[repr(C)]
pub struct Path {
    uplink: Uplink,
    downlink: Downlink,
    config: PathConfig,
}

/// An inner packet with an intact payload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrived<'a> {
    pub(crate) stamp: Stamp,
    /// From the IP header to the end of the datagram.
    pub(crate) packet: &'a [u8],
    /// Sum of the payload.
    sum: Sum,
}

impl<'a> Arrived<'a> {
    /// Reads an inner packet, with octets behind it or without.
    #[inline]
    pub(crate) fn read(packet: &'a [u8]) -> Result<Arrived<'a>, Wrong> {
        let (packet, datagram) = udp_datagram(packet).ok_or(Wrong::Foreign)?;
        match payload::read_summed(datagram.get(UDP_LENGTH..).ok_or(Wrong::Foreign)?) {
            Ok((stamp, sum)) => Ok(Arrived { stamp, packet, sum }),
            Err(Fault::Foreign) => Err(Wrong::Foreign),
            Err(Fault::DamagedHeader) => Err(Wrong::Corrupted(None)),
            Err(Fault::DamagedBody(stamp)) => Err(Wrong::Corrupted(Some(stamp.flow))),
        }
    }
}

/// An IP packet without what follows it, and its UDP datagram. `None` for any other packet, for fragments, and for
/// packets that are cut.
#[inline]
pub(crate) fn udp_datagram(packet: &[u8]) -> Option<(&[u8], &[u8])> {
    let word = |at: usize| Some(u16::from_be_bytes(*packet.get(at..)?.first_chunk()?));
    let (at, total) = match packet.first()? >> 4 {
        4 if *packet.get(9)? == UDP && word(6)? & 0x3fff == 0 => {
            (usize::from(packet[0] & 15) * 4, usize::from(word(2)?))
        }
        6 if *packet.get(6)? == UDP => (40, 40 + usize::from(word(4)?)),
        _ => return None,
    };
    let packet = packet.get(..total)?;
    Some((packet, packet.get(at..)?))
}

/// How closely a packet that arrived is looked at. The payload is looked at octet by octet in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Each octet of the headers, `hops` routers after it was sent.
    Exact { hops: u8 },
    /// Addresses and ports: an operating system made the headers.
    Addresses,
}

/// Fault of a packet that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// No flow of ours can have sent it.
    Foreign,
    /// Damaged, or with wrong headers. The flow, if it is known.
    Corrupted(Option<u32>),
    /// Whole, but with another address, TEID or QFI than that flow's.
    Misdirected(u32),
}

impl Path {
    /// Makes the headers.
    pub fn new(config: PathConfig) -> Result<Path, PathError> {
        if config.ue.is_ipv4() != config.server.is_ipv4() {
            return Err(PathError::InnerFamilies);
        }
        if config.upf.address.is_ipv4() != config.gnb.address.is_ipv4() {
            return Err(PathError::OuterFamilies);
        }
        let ue_ports = 1 << config.ue_ports.max(1).ilog2();
        if config.ue_port.checked_add(ue_ports - 1).is_none() {
            return Err(PathError::Ports);
        }
        let config = PathConfig { ue_ports, ..config };
        let (uplink, downlink) = (Uplink::new(&config), Downlink::new(&config));
        Ok(Path {
            uplink,
            downlink,
            config,
        })
    }

    /// Its parameters.
    pub fn config(&self) -> &PathConfig {
        &self.config
    }

    /// Octets of the shortest inner packet of this path that can carry a measurement.
    pub fn shortest(&self) -> usize {
        self.inner_headers() + payload::MIN
    }

    /// Octets of the inner IP and UDP headers.
    pub fn inner_headers(&self) -> usize {
        usize::from(self.downlink.length)
    }

    /// Octets of the outer IP packet that carries an inner one of `inner` octets uplink.
    #[inline]
    pub fn uplink_length(&self, inner: usize) -> usize {
        usize::from(self.uplink.outer_length) + inner
    }

    pub(crate) fn outer_family(&self) -> Family {
        Family::of(self.config.upf.address)
    }

    pub(crate) fn inner_family(&self) -> Family {
        Family::of(self.config.ue)
    }

    /// Writes an uplink packet over all of `packet`, from its outer IP header on: GTP-U from the gNB to the UPF.
    /// `None` if `packet` is too short or too long for a measurement.
    #[inline]
    pub fn write_uplink(&self, stamp: &Stamp, packet: &mut [u8]) -> Option<()> {
        let up = &self.uplink;
        let (outer, inner) = (usize::from(up.outer_length), usize::from(up.inner_length));
        let (head, body) = packet.split_at_mut_checked(outer + inner)?;
        copy_head(head, &up.head);
        let patch = Patch::new(Direction::Uplink, stamp.sequence, &up.sums, inner + body.len(), 0);
        let sum = payload::write_summed(stamp, body)?;
        let (outer, inner) = head.split_at_mut_checked(outer)?;
        let sum = patch.apply(&up.sums, inner, sum);
        up.patch_outer(outer, patch.length, sum);
        Some(())
    }

    /// Writes a downlink packet over all of `packet`, from its IP header on: from the server to the UE. `None` if
    /// `packet` is too short or too long for a measurement.
    #[inline]
    pub fn write_downlink(&self, stamp: &Stamp, packet: &mut [u8]) -> Option<()> {
        let down = &self.downlink;
        let patch = Patch::new(Direction::Downlink, stamp.sequence, &down.sums, packet.len(), 0);
        let (head, body) = packet.split_at_mut_checked(usize::from(down.length))?;
        copy_head(head, &down.head);
        let sum = payload::write_summed(stamp, body)?;
        patch.apply(&down.sums, head, sum);
        Some(())
    }

    /// Writes an uplink packet as a gNB gives it to its UDP socket: from the GTP-U header on.
    pub fn write_gpdu(&self, stamp: &Stamp, datagram: &mut [u8]) -> Option<()> {
        let up = &self.uplink;
        let (gtpu, inner) = datagram.split_at_mut_checked(self.gtpu_length())?;
        let patch = Patch::new(Direction::Uplink, stamp.sequence, &up.sums, inner.len(), 0);
        let (head, body) = inner.split_at_mut_checked(usize::from(up.inner_length))?;
        let (at, end) = (up.gtpu_at(), usize::from(up.outer_length));
        gtpu.copy_from_slice(&up.head[at..end]);
        head.copy_from_slice(&up.head[end..end + head.len()]);
        let sum = payload::write_summed(stamp, body)?;
        patch.apply(&up.sums, head, sum);
        put(gtpu, 2, patch.length + (gtpu.len() - GTPU_LENGTH) as u16);
        Some(())
    }

    /// Octets of GTP-U headers before the inner packet.
    pub fn gtpu_length(&self) -> usize {
        usize::from(self.uplink.outer_length) - self.uplink.gtpu_at()
    }

    /// The ports of the UE and of the server that the packet of this number uses.
    #[inline]
    pub fn ports(&self, sequence: u64) -> (u16, u16) {
        (
            self.config.ue_port + (sequence as u16 & self.uplink.sums.step),
            self.config.server_port,
        )
    }

    /// Checks the headers of an inner packet that arrived: it was sent along this path, and with an exact check
    /// nothing was changed on its way but what a router has to change.
    #[inline]
    pub(crate) fn check(&self, arrived: &Arrived, check: Check) -> Result<(), Wrong> {
        let Arrived { stamp, packet, sum } = *arrived;
        let (up, down) = (&self.uplink, &self.downlink);
        let (head, sums) = match stamp.direction {
            Direction::Uplink => (&up.head[usize::from(up.outer_length)..], &up.sums),
            Direction::Downlink => (&down.head[..], &down.sums),
        };
        let hops = if let Check::Exact { hops } = check {
            hops
        } else {
            0
        };
        let patch = Patch::new(stamp.direction, stamp.sequence, sums, packet.len(), hops);
        let mut expected = [0; INNER_MAX];
        let expected = &mut expected[..usize::from(down.length)];
        copy_head(expected, head);
        patch.apply(sums, expected, sum);
        if packet.get(..expected.len()) == Some(expected) {
            return Ok(());
        }
        let (addresses, ports) = if expected.len() == 28 {
            (12..20, 20..24)
        } else {
            (8..40, 40..44)
        };
        let agree = |range: Range<usize>| packet.get(range.clone()) == expected.get(range);
        match (agree(addresses), agree(ports), check) {
            (true, true, Check::Addresses) => Ok(()),
            (true, _, _) => Err(Wrong::Corrupted(Some(stamp.flow))),
            (false, _, _) => Err(Wrong::Misdirected(stamp.flow)),
        }
    }

    /// Asks for the lines that sending in this direction reads.
    #[inline]
    pub(crate) fn prefetch(&self, direction: Direction) {
        match direction {
            Direction::Uplink => {
                flow::prefetch::read(&self.uplink);
                flow::prefetch::read(&self.uplink.sums);
            }
            Direction::Downlink => flow::prefetch::read(&self.downlink),
        }
    }
}

impl Uplink {
    fn new(config: &PathConfig) -> Uplink {
        let mut head = [0; OUTER_MAX + INNER_MAX];
        let (outer_length, outer_sum) = outer(config, &mut head);
        let (ue, server) = ((config.ue, config.ue_port), (config.server, config.server_port));
        let (inner_length, sums) = inner(ue, server, config.ue_ports, &mut head[outer_length..]);
        Uplink {
            head,
            outer_length: outer_length as u8,
            inner_length: inner_length as u8,
            outer_sum: outer_sum.fold(),
            sums,
        }
    }

    fn gtpu_at(&self) -> usize {
        if self.head[0] >> 4 == 4 {
            20 + UDP_LENGTH
        } else {
            40 + UDP_LENGTH
        }
    }

    /// Fills in the lengths and checksums of the outer headers before an inner packet of `inner` octets that sums
    /// up to `sum`.
    #[inline]
    fn patch_outer(&self, outer: &mut [u8], inner: u16, sum: Sum) {
        let udp_at = self.gtpu_at() - UDP_LENGTH;
        let udp = (outer.len() - udp_at) as u16 + inner;
        let gtpu = udp - (UDP_LENGTH + GTPU_LENGTH) as u16;
        put(outer, udp_at + 4, udp);
        put(outer, udp_at + UDP_LENGTH + 2, gtpu);
        let fixed = Sum::default().word(self.outer_sum);
        if udp_at == 20 {
            put(outer, 2, udp + 20);
            put(outer, 10, fixed.word(udp + 20).checksum());
        } else {
            put(outer, 4, udp);
            put(
                outer,
                udp_at + 6,
                fixed.plus(sum).word(udp).word(udp).word(gtpu).udp_checksum(),
            );
        }
    }
}

impl Downlink {
    fn new(config: &PathConfig) -> Downlink {
        let mut head = [0; INNER_MAX];
        let (ue, server) = ((config.ue, config.ue_port), (config.server, config.server_port));
        let (length, sums) = inner(server, ue, config.ue_ports, &mut head);
        Downlink {
            head,
            length: length as u8,
            sums,
        }
    }
}

impl Patch {
    #[inline]
    fn new(direction: Direction, sequence: u64, sums: &Sums, length: usize, hops: u8) -> Patch {
        let step = sequence as u16 & sums.step;
        let steps = match direction {
            Direction::Uplink => [step, 0],
            Direction::Downlink => [0, step],
        };
        // Payloads are bounded, and so are lengths wherever this is used for more than a comparison.
        Patch {
            length: length as u16,
            hops,
            steps,
        }
    }

    /// Fills in what differs from packet to packet, where the payload sums up to `payload`. Returns the sum of the
    /// whole packet.
    #[inline]
    fn apply(&self, sums: &Sums, head: &mut [u8], payload: Sum) -> Sum {
        if let Some(head) = head.first_chunk_mut::<48>() {
            return self.apply_ipv6(sums, head, payload);
        }
        match head.first_chunk_mut::<28>() {
            Some(head) => self.apply_ipv4(sums, head, payload),
            None => Sum::default(),
        }
    }

    #[inline]
    fn apply_ipv4(&self, sums: &Sums, head: &mut [u8; 28], payload: Sum) -> Sum {
        put(head, 2, self.length);
        head[8] = TTL - self.hops;
        // The TTL is the high octet of its word; to subtract is to add the complement.
        let ip = Sum::default()
            .word(sums.ip)
            .word(self.length)
            .word(!(u16::from(self.hops) << 8));
        put(head, 10, ip.checksum());
        let [.., udp] = head.as_chunks_mut::<4>().0 else {
            return Sum::default();
        };
        let length = self.length.wrapping_sub(20);
        let (sum, checksum) = self.udp(sums, length, payload);
        put(udp, 0, length);
        put(udp, 2, checksum);
        self.step_ports(&mut head[20..24]);
        // A header with its checksum sums up to zero.
        sum
    }

    #[inline]
    fn apply_ipv6(&self, sums: &Sums, head: &mut [u8; 48], payload: Sum) -> Sum {
        let length = self.length.wrapping_sub(40);
        put(head, 4, length);
        head[7] = TTL - self.hops;
        let (sum, checksum) = self.udp(sums, length, payload);
        put(head, 44, length);
        put(head, 46, checksum);
        self.step_ports(&mut head[40..44]);
        sum.word(sums.ip).word(length).word(!u16::from(self.hops))
    }

    /// The sum of the UDP datagram, and its checksum.
    #[inline]
    fn udp(&self, sums: &Sums, length: u16, payload: Sum) -> (Sum, u16) {
        let pseudo = Sum::default().word(sums.pseudo).word(length);
        let datagram = payload
            .word(sums.ports)
            .word(self.steps[0])
            .word(self.steps[1])
            .word(length);
        // A datagram with its checksum cancels its pseudo header out.
        (
            Sum::default().word(!pseudo.fold()),
            pseudo.plus(datagram).udp_checksum(),
        )
    }

    #[inline]
    fn step_ports(&self, ports: &mut [u8]) {
        if self.steps == [0, 0] {
            return;
        }
        for (port, step) in ports.as_chunks_mut::<2>().0.iter_mut().zip(self.steps) {
            *port = (u16::from_be_bytes(*port) + step).to_be_bytes();
        }
    }
}

/// Copies ready made headers to the front of a packet: in one piece where they have a usual length.
#[inline]
fn copy_head(to: &mut [u8], from: &[u8]) {
    fn fixed<const N: usize>(to: &mut [u8], from: &[u8]) {
        if let (Some(to), Some(from)) = (to.first_chunk_mut::<N>(), from.first_chunk::<N>()) {
            *to = *from;
        }
    }
    match to.len() {
        // IPv4 inside, and IPv4 over IPv4 with a PDU Session Container; the same for IPv6.
        28 => fixed::<28>(to, from),
        72 => fixed::<72>(to, from),
        48 => fixed::<48>(to, from),
        92 => fixed::<92>(to, from),
        length => to.copy_from_slice(&from[..length]),
    }
}

/// Writes inner headers without lengths and checksums to the front of `octets`; returns their length and sums.
fn inner(from: (IpAddr, u16), to: (IpAddr, u16), ue_ports: u16, octets: &mut [u8]) -> (usize, Sums) {
    let at = ip_header(from.0, to.0, octets);
    put(octets, at, from.1);
    put(octets, at + 2, to.1);
    let sums = Sums {
        ip: Sum::default().octets(&octets[..at]).fold(),
        pseudo: pseudo_header(from.0, to.0).fold(),
        ports: Sum::default().word(from.1).word(to.1).fold(),
        step: ue_ports - 1,
    };
    (at + UDP_LENGTH, sums)
}

/// Writes an IP header for UDP without length and checksum; returns its length. IPv4 packets are atomic: DF is set
/// and the identification is zero (RFC 6864 §4.1).
fn ip_header(from: IpAddr, to: IpAddr, octets: &mut [u8]) -> usize {
    match (from, to) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            octets[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 0, UDP, TTL]);
            octets[8..24].copy_from_slice(&from.octets());
            octets[24..40].copy_from_slice(&to.octets());
            40
        }
        (from, to) => {
            octets[..12].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, TTL, UDP, 0, 0]);
            octets[12..16].copy_from_slice(&ipv4_octets(from));
            octets[16..20].copy_from_slice(&ipv4_octets(to));
            20
        }
    }
}

/// An IP packet with a UDP datagram: for what is not sent at a rate. Addresses are of one family, `body` is short.
pub(crate) fn datagram(from: (IpAddr, u16), to: (IpAddr, u16), body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; INNER_MAX];
    let at = ip_header(from.0, to.0, &mut packet);
    packet.truncate(at + UDP_LENGTH);
    packet.extend_from_slice(body);
    let (total, length) = (packet.len() as u16, (body.len() + UDP_LENGTH) as u16);
    for (offset, word) in [from.1, to.1, length].into_iter().enumerate() {
        put(&mut packet, at + 2 * offset, word);
    }
    let sum = pseudo_header(from.0, to.0).word(length).octets(&packet[at..]);
    put(&mut packet, at + 6, sum.udp_checksum());
    if at == 20 {
        put(&mut packet, 2, total);
        let sum = Sum::default().octets(&packet[..at]);
        put(&mut packet, 10, sum.checksum());
    } else {
        put(&mut packet, 4, length);
    }
    packet
}

/// The sum of a UDP pseudo header (RFC 768, RFC 8200 §8.1) without its length.
fn pseudo_header(from: IpAddr, to: IpAddr) -> Sum {
    [from, to].into_iter().fold(
        Sum::default().word(u16::from(UDP)),
        |sum, address| match address {
            IpAddr::V4(address) => sum.octets(&address.octets()),
            IpAddr::V6(address) => sum.octets(&address.octets()),
        },
    )
}

/// The octets of an IPv4 address; of an IPv6 address, which the callers have excluded, zero.
fn ipv4_octets(address: IpAddr) -> [u8; 4] {
    match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    }
}

/// Writes the headers of a tunnel without lengths and checksums to the front of `octets`. Returns their length, and
/// their sum: of an IPv4 header; or of all that an outer UDP checksum over IPv6 covers.
fn outer(config: &PathConfig, octets: &mut [u8]) -> (usize, Sum) {
    let ip_length = ip_header(config.gnb.address, config.upf.address, octets);
    let udp = &mut octets[ip_length..];
    put(udp, 0, GTPU_PORT);
    put(udp, 2, GTPU_PORT);
    let gtpu = &mut udp[UDP_LENGTH..];
    // Version 1, GTP; G-PDU.
    gtpu[..2].copy_from_slice(&[0x30, 255]);
    gtpu[4..8].copy_from_slice(&config.upf.teid.0.to_be_bytes());
    let mut length = ip_length + UDP_LENGTH + GTPU_LENGTH;
    if let Some(qfi) = config.qfi {
        // E flag; next is a PDU Session Container of one word: UL PDU SESSION INFORMATION (TS 38.415 §5.5.2.2).
        gtpu[0] |= 0x04;
        gtpu[8..GTPU_PSC_LENGTH].copy_from_slice(&[0, 0, 0, 0x85, 1, 0x10, qfi.get(), 0]);
        length += GTPU_PSC_LENGTH - GTPU_LENGTH;
    }
    let sum = if config.upf.address.is_ipv4() {
        Sum::default().octets(&octets[..ip_length])
    } else {
        pseudo_header(config.gnb.address, config.upf.address).octets(&octets[ip_length..length])
    };
    (length, sum)
}

/// Writes a big-endian word at `at`, which the callers' fixed layouts contain.
#[inline]
fn put(octets: &mut [u8], at: usize, word: u16) {
    octets[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
