//! The frames: those of the models' flows, with the public end of a mapping as destination where there is one.

use std::net::Ipv4Addr;
use std::sync::Arc;

use flow::{Direction, PortId};

use super::super::feed::Buf;
use super::super::frame::{HEADERS, LINK, Template};
use super::super::model::{Flow, Model};
use super::super::network::Wire;
use super::super::rules::Identity;

/// How the benchmark is wired: frames without VLANs.
pub const WIRE: Wire = Wire::Plain;

/// An IPv4 address and port: of a UE, or of the public side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct End(u64);

impl End {
    /// These.
    #[inline]
    pub const fn new(address: Ipv4Addr, port: u16) -> Self {
        Self((address.to_bits() as u64) << 16 | port as u64)
    }

    /// The address.
    #[inline]
    pub const fn address(self) -> Ipv4Addr {
        Ipv4Addr::from_bits((self.0 >> 16) as u32)
    }

    /// The port.
    #[inline]
    pub const fn port(self) -> u16 {
        self.0 as u16
    }

    /// Both as a number.
    #[inline]
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Makes frames of sessions with these identities.
pub struct Frames {
    identities: Arc<[Identity]>,
    templates: [Template; 2],
    /// Octets of the user packets, by direction.
    octets: [usize; 2],
}

impl Frames {
    /// Frames of the model's sizes.
    pub fn new(model: &Model, identities: Arc<[Identity]>) -> Self {
        let templates = Direction::BOTH.map(|side| Template::on(WIRE, side, model.size(side)));
        let octets =
            Direction::BOTH.map(|side| usize::from(model.size(side)) + 28 - Template::header_length(side));
        Self {
            identities,
            templates,
            octets,
        }
    }

    /// What a session's UE sends from by its port number `place`.
    #[inline]
    pub fn inside(&self, session: u32, place: u16) -> Option<End> {
        let identity = self.identities.get(session as usize)?;
        let port = flow(session, place, Direction::Uplink).ue_port();
        Some(End::new(identity.ue, port))
    }

    /// Makes `buf` the frame of a session's packet, by port number `place` of its UE. One of a data network is for
    /// `public`.
    #[inline]
    pub fn make(&self, buf: &mut Buf, session: u32, place: u16, direction: Direction, public: End) {
        let side = direction as usize;
        let Some(identity) = self.identities.get(session as usize) else {
            return;
        };
        let (template, flow) = (&self.templates[side], flow(session, place, direction));
        let mut frame = [0; HEADERS];
        match direction {
            Direction::Uplink => template.write(&mut frame, &flow, session, *identity),
            Direction::Downlink => {
                let of_public = Identity {
                    ue: public.address(),
                    ..*identity
                };
                let is_written = template.write(&mut frame, &flow, session, of_public);
                frame[LINK + 22..LINK + 24].copy_from_slice(&public.port().to_be_bytes());
                is_written
            }
        };
        let start = template.start();
        let octets = usize::from(template.size()) - start;
        buf.fill(PortId(side as u16), &frame[start..], octets);
    }

    /// The UE's end, or the public one for it, of a frame that a worker has sent: the source of what left for a data
    /// network, the destination of what left for a UE.
    #[inline]
    pub fn end(&self, frame: &[u8], direction: Direction) -> Option<End> {
        let (address, port) = match direction {
            Direction::Uplink => (12, 20),
            Direction::Downlink => (16, 22),
        };
        let packet = self.user_packet(frame, direction)?;
        let &[a, b, c, d] = packet.get(address..address + 4)? else {
            return None;
        };
        let &[high, low] = packet.get(port..port + 2)? else {
            return None;
        };
        Some(End::new(
            Ipv4Addr::new(a, b, c, d),
            u16::from_be_bytes([high, low]),
        ))
    }

    /// The user packet of a frame.
    #[inline]
    pub fn user_packet<'a>(&self, frame: &'a [u8], direction: Direction) -> Option<&'a [u8]> {
        let at = frame.len().checked_sub(self.octets[direction as usize])?;
        frame.get(at..)
    }
}

#[inline]
const fn flow(session: u32, place: u16, direction: Direction) -> Flow {
    Flow {
        session,
        bearer: 0,
        pair: place,
        direction,
    }
}
