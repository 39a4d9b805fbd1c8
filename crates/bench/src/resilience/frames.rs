//! What the gNBs and the data network send and look for: each payload says which session it is of, which way it goes,
//! and when it was sent.

use std::net::{Ipv4Addr, SocketAddrV4};

use super::super::model::qfi;
use super::super::pfcp::session;

/// Octets of a payload.
pub const PAYLOAD: usize = 72;
/// Octets of a user packet: what a URR counts of it.
pub const PACKET: usize = 28 + PAYLOAD;
/// The UEs' port.
pub const UE_PORT: u16 = 40_000;
const MARK: [u8; 4] = *b"SLUI";
/// Message types of GTP-U (TS 29.281 §6.1).
const ERROR_INDICATION: u8 = 26;
const G_PDU: u8 = 255;
/// Octets of a G-PDU before the user packet: header, and a PDU Session Container (TS 38.415).
const TUNNEL: usize = 16;

/// The way of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From a gNB to the data network.
    Up,
    /// From the data network to a gNB.
    Down,
}

/// What a payload says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the session.
    pub session: u32,
    /// Its way.
    pub way: Way,
    /// Nanoseconds since the start of the run.
    pub sent: u64,
}

impl Stamp {
    /// The payload.
    #[must_use]
    pub fn payload(&self) -> [u8; PAYLOAD] {
        let mut octets = [0; PAYLOAD];
        octets[..4].copy_from_slice(&MARK);
        octets[4..8].copy_from_slice(&self.session.to_be_bytes());
        octets[8..16].copy_from_slice(&self.sent.to_be_bytes());
        octets[16] = u8::from(self.way == Way::Down);
        octets
    }

    /// Reads a payload. `None`: it is none of this run.
    #[must_use]
    pub fn read(octets: &[u8]) -> Option<Self> {
        let octets: &[u8; PAYLOAD] = octets.try_into().ok()?;
        let marked = octets.strip_prefix(&MARK)?;
        let (session, rest) = marked.split_first_chunk()?;
        let (sent, rest) = rest.split_first_chunk()?;
        Some(Self {
            session: u32::from_be_bytes(*session),
            way: if *rest.first()? == 0 { Way::Up } else { Way::Down },
            sent: u64::from_be_bytes(*sent),
        })
    }
}

/// A G-PDU in the tunnel with this TEID, with a packet of the UE to `server`.
#[must_use]
pub fn g_pdu(teid: u32, ue: Ipv4Addr, server: SocketAddrV4, stamp: &Stamp) -> [u8; TUNNEL + PACKET] {
    let mut octets = [0; TUNNEL + PACKET];
    octets[..2].copy_from_slice(&[0x34, G_PDU]);
    octets[2..4].copy_from_slice(&((TUNNEL - 8 + PACKET) as u16).to_be_bytes());
    octets[4..8].copy_from_slice(&teid.to_be_bytes());
    octets[11..15].copy_from_slice(&[0x85, 1, 0x10, qfi(0)]);
    let packet = &mut octets[TUNNEL..];
    packet[..2].copy_from_slice(&[0x45, 0]);
    packet[2..4].copy_from_slice(&(PACKET as u16).to_be_bytes());
    packet[6..10].copy_from_slice(&[0x40, 0, 64, 17]);
    packet[12..16].copy_from_slice(&ue.octets());
    packet[16..20].copy_from_slice(&server.ip().octets());
    let sum = checksum(&packet[..20]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet[20..22].copy_from_slice(&UE_PORT.to_be_bytes());
    packet[22..24].copy_from_slice(&server.port().to_be_bytes());
    packet[24..26].copy_from_slice(&((8 + PAYLOAD) as u16).to_be_bytes());
    packet[28..].copy_from_slice(&stamp.payload());
    octets
}

fn checksum(octets: &[u8]) -> u16 {
    let words = octets
        .chunks_exact(2)
        .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

/// What a packet that arrived is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// A packet of a session, where it belongs.
    Right(Stamp),
    /// A packet of a session somewhere else.
    Wrong,
    /// An Error Indication.
    ErrorIndication,
    /// None of this run's.
    Other,
}

/// What a gNB has received.
#[must_use]
pub fn at_gnb(octets: &[u8]) -> Arrival {
    match octets {
        [_, ERROR_INDICATION, ..] => Arrival::ErrorIndication,
        [_, G_PDU, _, _, teid @ ..] => g_pdu_at_gnb(octets, teid).unwrap_or(Arrival::Wrong),
        _ => Arrival::Other,
    }
}

/// What becomes of a G-PDU, whose TEID `rest` begins with; `None`: it cannot be read.
fn g_pdu_at_gnb(octets: &[u8], rest: &[u8]) -> Option<Arrival> {
    let teid = u32::from_be_bytes(*rest.first_chunk()?);
    let mut at = 8;
    if octets[0] & 7 != 0 {
        let mut next = *octets.get(11)?;
        at = 12;
        while next != 0 {
            at += 4 * usize::from(*octets.get(at)?).max(1);
            next = *octets.get(at - 1)?;
        }
    }
    let packet = octets.get(at..)?;
    let stamp = Stamp::read(packet.get(28..)?)?;
    let expected = session(stamp.session);
    let is_right = stamp.way == Way::Down
        && expected.gnb_teid.0 == teid
        && packet.get(16..20)? == expected.ue.octets()
        && packet.get(22..24)? == UE_PORT.to_be_bytes();
    Some(if is_right {
        Arrival::Right(stamp)
    } else {
        Arrival::Wrong
    })
}

/// What the data network has received from this address.
#[must_use]
pub fn at_dn(octets: &[u8], source: SocketAddrV4) -> Arrival {
    match Stamp::read(octets) {
        None => Arrival::Other,
        Some(stamp) => {
            let ue = SocketAddrV4::new(session(stamp.session).ue, UE_PORT);
            if stamp.way == Way::Up && source == ue {
                Arrival::Right(stamp)
            } else {
                Arrival::Wrong
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 6, 254), 9_000);
    const STAMP: Stamp = Stamp {
        session: 7,
        way: Way::Down,
        sent: 0x1234_5678_9abc,
    };

    #[test]
    fn a_payload_says_what_was_written() {
        assert_eq!(Stamp::read(&STAMP.payload()), Some(STAMP));
        assert_eq!(Stamp::read(&[0; PAYLOAD]), None);
        assert_eq!(Stamp::read(&STAMP.payload()[1..]), None);
    }

    #[test]
    fn an_uplink_packet_has_the_lengths_and_the_sum_that_its_headers_say() {
        let octets = g_pdu(0x0102_0304, session(7).ue, SERVER, &STAMP);
        assert_eq!(octets[4..8], [1, 2, 3, 4]);
        assert_eq!(
            usize::from(u16::from_be_bytes([octets[2], octets[3]])),
            octets.len() - 8
        );
        assert_eq!(checksum(&octets[TUNNEL..TUNNEL + 20]), 0);
        assert_eq!(Stamp::read(&octets[TUNNEL + 28..]), Some(STAMP));
    }

    #[test]
    fn a_packet_of_another_tunnel_or_user_is_in_the_wrong_place() {
        // A downlink packet: the ends of the user's packet are the other way about.
        let downlink = |teid, ue: Ipv4Addr, stamp: &Stamp| {
            let mut octets = g_pdu(teid, *SERVER.ip(), SocketAddrV4::new(ue, UE_PORT), stamp);
            octets[TUNNEL + 20..TUNNEL + 22].copy_from_slice(&SERVER.port().to_be_bytes());
            octets
        };
        let of = session(7);
        assert_eq!(
            at_gnb(&downlink(of.gnb_teid.0, of.ue, &STAMP)),
            Arrival::Right(STAMP)
        );
        assert_eq!(at_gnb(&downlink(9, of.ue, &STAMP)), Arrival::Wrong);
        assert_eq!(
            at_gnb(&downlink(of.gnb_teid.0, session(8).ue, &STAMP)),
            Arrival::Wrong
        );
        let up = Stamp {
            way: Way::Up,
            ..STAMP
        };
        assert_eq!(at_gnb(&downlink(of.gnb_teid.0, of.ue, &up)), Arrival::Wrong);
        assert_eq!(at_gnb(&[0x32, 26, 0, 0]), Arrival::ErrorIndication);
        assert_eq!(at_gnb(&[0x32, 1, 0, 0]), Arrival::Other);
        assert_eq!(at_gnb(&[0x34, 255, 0]), Arrival::Other);
        assert_eq!(at_gnb(&[0x34, 255, 0, 8, 0, 0, 0, 8]), Arrival::Wrong);
        let from = |number| SocketAddrV4::new(session(number).ue, UE_PORT);
        assert_eq!(at_dn(&up.payload(), from(7)), Arrival::Right(up));
        assert_eq!(at_dn(&up.payload(), from(8)), Arrival::Wrong);
        assert_eq!(at_dn(&STAMP.payload(), from(7)), Arrival::Wrong);
    }
}
