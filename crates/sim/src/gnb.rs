//! Downlink packets at a gNB, and the gNB's GTP-U signalling.
//!
//! Pure functions over shared paths; the shard that received a packet counts it.

use crate::Direction;
use crate::path::{Arrived, Check, GTPU_PORT, Path, Wrong, udp_datagram};
use crate::sum::Sum;
use packet::{Qfi, Teid};
use std::net::IpAddr;

const ECHO_REQUEST: u8 = 1;
const ECHO_RESPONSE: u8 = 2;
const ERROR_INDICATION: u8 = 26;
const END_MARKER: u8 = 254;
const G_PDU: u8 = 255;
/// Next Extension Header Type of a PDU Session Container (TS 29.281 §5.2.1).
const PDU_SESSION_CONTAINER: u8 = 0x85;
/// Most extension headers that are looked at.
const MAX_EXTENSIONS: usize = 8;

/// A GTP-U message (TS 29.281 §5.1) as it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) kind: Kind,
    pub(crate) teid: Teid,
    /// QFI of a G-PDU's DL PDU SESSION INFORMATION (TS 38.415 §5.5.2.1).
    pub(crate) qfi: Option<Qfi>,
    pub(crate) sequence: u16,
    pub(crate) body: &'a [u8],
}

/// Kind of a GTP-U message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    GPdu,
    EchoRequest,
    EchoResponse,
    ErrorIndication,
    EndMarker,
    Other,
}

/// A GTP-U message with the IP addresses it came with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received<'a> {
    pub(crate) from: IpAddr,
    pub(crate) from_port: u16,
    pub(crate) to: IpAddr,
    pub(crate) message: Message<'a>,
}

/// Reads a packet from its outer IP header on; `None` if it is not GTP-U, or malformed.
#[inline]
pub(crate) fn receive(packet: &[u8]) -> Option<Received<'_>> {
    let (packet, datagram) = udp_datagram(packet)?;
    let (udp, body) = datagram.split_first_chunk::<8>()?;
    let [from_port, to_port, length, checksum] =
        [0, 2, 4, 6].map(|at| u16::from_be_bytes([udp[at], udp[at + 1]]));
    if to_port != GTPU_PORT || usize::from(length) != datagram.len() {
        return None;
    }
    let (from, to) = outer_addresses(packet)?;
    if checksum != 0 && !checksum_holds(packet, datagram) {
        return None;
    }
    Some(Received {
        from,
        from_port,
        to,
        message: message(body)?,
    })
}

/// Source and destination of a packet; `None` if an IPv4 header's checksum does not hold.
#[inline]
fn outer_addresses(packet: &[u8]) -> Option<(IpAddr, IpAddr)> {
    if packet.first()? >> 4 == 4 {
        let header = packet.first_chunk::<20>()?;
        let [a, b, c, d, e, f, g, h] = *header.last_chunk()?;
        let sum = header
            .as_chunks::<8>()
            .0
            .iter()
            .fold(Sum::default(), |sum, octets| {
                sum.eight(u64::from_be_bytes(*octets))
            });
        let holds = header[0] != 0x45 || sum.octets(&header[16..]).checksum() == 0;
        return holds.then_some((IpAddr::from([a, b, c, d]), IpAddr::from([e, f, g, h])));
    }
    let addresses = packet.get(8..40)?;
    Some((
        IpAddr::from(*addresses.first_chunk::<16>()?),
        IpAddr::from(*addresses.last_chunk::<16>()?),
    ))
}

fn checksum_holds(packet: &[u8], datagram: &[u8]) -> bool {
    let addresses = if packet[0] >> 4 == 4 {
        packet.get(12..20)
    } else {
        packet.get(8..40)
    };
    let pseudo = Sum::default()
        .octets(addresses.unwrap_or_default())
        .word(17)
        .word(datagram.len() as u16);
    pseudo.octets(datagram).checksum() == 0
}

/// Reads a GTP-U message; `None` if it is malformed.
#[inline]
pub(crate) fn message(datagram: &[u8]) -> Option<Message<'_>> {
    let (header, rest) = datagram.split_first_chunk::<8>()?;
    let [flags, kind, length @ .., a, b, c, d] = *header;
    // Version 1, protocol type GTP.
    if flags & 0xf0 != 0x30 {
        return None;
    }
    let mut message = Message {
        kind: Kind::of(kind),
        teid: Teid(u32::from_be_bytes([a, b, c, d])),
        qfi: None,
        sequence: 0,
        body: rest.get(..usize::from(u16::from_be_bytes(length)))?,
    };
    if flags & 0x07 != 0 {
        let (options, body) = message.body.split_first_chunk::<4>()?;
        message.sequence = u16::from_be_bytes([options[0], options[1]]);
        message.body = body;
        if flags & 0x04 != 0 {
            message.take_extensions(options[3])?;
        }
    }
    Some(message)
}

impl Kind {
    #[inline]
    fn of(kind: u8) -> Kind {
        match kind {
            G_PDU => Kind::GPdu,
            ECHO_REQUEST => Kind::EchoRequest,
            ECHO_RESPONSE => Kind::EchoResponse,
            ERROR_INDICATION => Kind::ErrorIndication,
            END_MARKER => Kind::EndMarker,
            _ => Kind::Other,
        }
    }
}

impl Message<'_> {
    #[inline]
    fn take_extensions(&mut self, mut kind: u8) -> Option<()> {
        for _ in 0..MAX_EXTENSIONS {
            if kind == 0 {
                return Some(());
            }
            let length = usize::from(*self.body.first()?) * 4;
            let (extension, body) = self.body.split_at_checked(length)?;
            let [.., next] = extension else { return None };
            // DL PDU SESSION INFORMATION is PDU type 0.
            if kind == PDU_SESSION_CONTAINER && extension.get(1)? >> 4 == 0 {
                self.qfi = Some(Qfi::from_low_bits(*extension.get(2)?));
            }
            (kind, self.body) = (*next, body);
        }
        None
    }
}

/// Checks a G-PDU that came to a gNB: in its tunnel, with its QFI, and the inner packet as the server sent it.
#[inline]
pub(crate) fn see<'a>(
    paths: &[Path],
    gnb: IpAddr,
    message: &Message<'a>,
    check: Check,
) -> Result<Arrived<'a>, Wrong> {
    let arrived = Arrived::read(message.body)?;
    let path = paths.get(arrived.stamp.flow as usize).ok_or(Wrong::Foreign)?;
    let config = path.config();
    let in_its_tunnel =
        (gnb, message.teid) == (config.gnb.address, config.gnb.teid) && message.qfi == config.qfi;
    if arrived.stamp.direction != Direction::Downlink || !in_its_tunnel {
        return Err(Wrong::Misdirected(arrived.stamp.flow));
    }
    path.check(&arrived, check).map(|()| arrived)
}

/// The answer to an echo request (TS 29.281 §7.2.2): a GTP-U message with the Recovery information element.
pub(crate) fn echo_response(sequence: u16) -> [u8; 14] {
    let [high, low] = sequence.to_be_bytes();
    [0x32, ECHO_RESPONSE, 0, 6, 0, 0, 0, 0, high, low, 0, 0, 14, 0]
}
