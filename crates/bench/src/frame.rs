//! The received frames: a template for each direction, and the fields that differ from flow to flow.
//!
//! N3 frames are Ethernet, VLAN, IPv4, UDP, GTP-U with a PDU Session Container, IPv4, UDP; N6 frames the same without
//! the tunnel. Header checksums are right, UDP checksums are not used (RFC 768). The payload is never looked at.

use flow::Direction;
use serde::Serialize;

use super::model::{Flow, FrameSize, qfi};
use super::network::{N3_ADDRESS, ROUTER, Wire, gnb};
use super::rules::Identity;

/// Octets of the headers of the longer kind, of uplink frames.
pub const HEADERS: usize = LINK + OUTER + INNER;
/// Ethernet and VLAN tag.
pub const LINK: usize = 18;
/// IPv4, UDP, GTP-U with its optional fields, PDU Session Container.
const OUTER: usize = 20 + 8 + 12 + 4;
/// IPv4 and UDP.
const INNER: usize = 28;

/// The frames of a mix of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct MeanFrames {
    /// Mean octets of a received frame without FCS, uplink and downlink; 0 where none goes that way.
    pub octets: [f64; 2],
    /// Packets uplink of all, from 0 to 1.
    pub uplink_share: f64,
}

impl MeanFrames {
    /// Of numbers of packets and their octets, uplink and downlink.
    #[must_use]
    pub fn of(packets: [u64; 2], octets: [u64; 2]) -> Self {
        let mean = |side: usize| octets[side] as f64 / packets[side].max(1) as f64;
        Self {
            octets: [mean(0), mean(1)],
            uplink_share: packets[0] as f64 / (packets[0] + packets[1]).max(1) as f64,
        }
    }

    /// Mean octets of all frames.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.uplink_share * self.octets[0] + (1.0 - self.uplink_share) * self.octets[1]
    }
}

/// The frames of one direction.
#[derive(Clone, Debug)]
pub struct Template {
    direction: Direction,
    size: FrameSize,
    start: usize,
    headers: [u8; HEADERS],
    /// The sums of the IPv4 headers' words without the fields that differ: outer, inner.
    sums: [u32; 2],
}

impl Template {
    /// Frames of `size` octets, each on its VLAN; one too short for its headers is as long as these.
    #[must_use]
    pub fn new(direction: Direction, size: FrameSize) -> Self {
        Self::on(Wire::Tagged, direction, size)
    }

    /// Frames of `size` octets on another wire. Without a VLAN tag frames are 4 octets shorter and begin 4 octets
    /// later, with the same user packets.
    #[must_use]
    pub fn on(wire: Wire, direction: Direction, size: FrameSize) -> Self {
        let mut template = Self {
            direction,
            size: size.max(Self::header_length(direction) as FrameSize),
            start: 0,
            headers: [0; HEADERS],
            sums: [0; 2],
        };
        template.write_link(wire);
        let inner = Self::inner(direction);
        if direction == Direction::Uplink {
            template.write_outer();
        }
        let length = template.size - inner as u16;
        template.write_ipv4(inner, length, [0; 4], [0; 4]);
        template.headers[inner + 24..inner + 26].copy_from_slice(&(length - 20).to_be_bytes());
        template.sums = [LINK, inner].map(|at| sum(&template.headers[at..at + 20]));
        template
    }

    /// Where a frame begins in the room that [`write`](Self::write) gets.
    #[must_use]
    pub const fn start(&self) -> usize {
        self.start
    }

    /// Octets of a frame, from the beginning of that room on.
    #[must_use]
    pub const fn size(&self) -> FrameSize {
        self.size
    }

    /// Octets of the headers of this direction.
    #[must_use]
    pub const fn header_length(direction: Direction) -> usize {
        Self::inner(direction) + INNER
    }

    /// Where the user's packet starts.
    const fn inner(direction: Direction) -> usize {
        match direction {
            Direction::Uplink => LINK + OUTER,
            Direction::Downlink => LINK,
        }
    }

    fn write_link(&mut self, wire: Wire) {
        let side = self.direction as usize;
        let link = wire.link(side, [wire.mac(side), ROUTER]);
        self.start = LINK - link.len();
        self.headers[self.start..LINK].copy_from_slice(&link);
    }

    fn write_outer(&mut self) {
        let length = self.size - LINK as u16;
        self.write_ipv4(LINK, length, [0; 4], N3_ADDRESS.octets());
        let at = LINK + 20;
        self.headers[at..at + 4].copy_from_slice(&[0x08, 0x68, 0x08, 0x68]);
        self.headers[at + 4..at + 6].copy_from_slice(&(length - 20).to_be_bytes());
        self.headers[at + 8..at + 10].copy_from_slice(&[0x34, 0xff]);
        self.headers[at + 10..at + 12].copy_from_slice(&(length - 36).to_be_bytes());
        // No sequence number; one PDU Session Container of one unit, uplink.
        self.headers[at + 16..at + 24].copy_from_slice(&[0, 0, 0, 0x85, 1, 0x10, 0, 0]);
    }

    fn write_ipv4(&mut self, at: usize, length: u16, source: [u8; 4], destination: [u8; 4]) {
        let [high, low] = length.to_be_bytes();
        self.headers[at..at + 12].copy_from_slice(&[0x45, 0, high, low, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        self.headers[at + 12..at + 16].copy_from_slice(&source);
        self.headers[at + 16..at + 20].copy_from_slice(&destination);
    }

    /// Writes the headers of a packet of `flow` to the front of `room`; false when that is too short.
    #[inline]
    pub fn write(&self, room: &mut [u8], flow: &Flow, session: u32, identity: Identity) -> bool {
        let Some(frame) = room.first_chunk_mut::<HEADERS>() else {
            return false;
        };
        *frame = self.headers;
        let (ue, server) = (identity.ue.octets(), flow.server().octets());
        match self.direction {
            Direction::Uplink => {
                put_address(frame, LINK, gnb(session).octets(), self.sums[0]);
                frame[LINK + 32..LINK + 36].copy_from_slice(&identity.teid.to_be_bytes());
                frame[LINK + 42] = qfi(flow.bearer);
                let ports = [flow.ue_port(), flow.server_port()];
                put_user(frame, LINK + OUTER, [ue, server], ports, self.sums[1]);
            }
            Direction::Downlink => {
                let ports = [flow.server_port(), flow.ue_port()];
                put_user(frame, LINK, [server, ue], ports, self.sums[1]);
            }
        }
        true
    }
}

/// The link layer of a frame that comes in by N3.
#[must_use]
pub fn link_header() -> [u8; LINK] {
    let template = Template::new(Direction::Uplink, 0);
    std::array::from_fn(|at| template.headers[at])
}

/// Writes the source address and checksum of the IPv4 header at `at`.
#[inline(always)]
fn put_address(frame: &mut [u8; HEADERS], at: usize, source: [u8; 4], base: u32) {
    frame[at + 12..at + 16].copy_from_slice(&source);
    frame[at + 10..at + 12].copy_from_slice(&checksum(base + words(source)).to_be_bytes());
}

/// Writes addresses and ports of the flow into the user's packet at `at`.
#[inline(always)]
fn put_user(frame: &mut [u8; HEADERS], at: usize, ends: [[u8; 4]; 2], ports: [u16; 2], base: u32) {
    let [source, destination] = ends;
    frame[at + 16..at + 20].copy_from_slice(&destination);
    put_address(frame, at, source, base + words(destination));
    frame[at + 20..at + 22].copy_from_slice(&ports[0].to_be_bytes());
    frame[at + 22..at + 24].copy_from_slice(&ports[1].to_be_bytes());
}

#[inline(always)]
const fn words(octets: [u8; 4]) -> u32 {
    let both = u32::from_be_bytes(octets);
    (both >> 16) + (both & 0xffff)
}

#[inline(always)]
const fn checksum(sum: u32) -> u16 {
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

fn sum(octets: &[u8]) -> u32 {
    octets
        .chunks(2)
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;
    use packet::eth::L2;
    use packet::{Addrs, GtpuFrame, IpFrame};
    use std::net::Ipv4Addr;

    #[test]
    fn frames_are_what_the_parser_of_the_product_reads() {
        let model = Model::v(2, 1).unwrap();
        let identity = Identity {
            ue: Ipv4Addr::new(10, 64, 7, 9),
            teid: 0x1234_5678,
        };
        for number in [0, 1, 40, 41, 8_388_606, 8_388_607] {
            let flow = model.flow(number);
            let template = Template::new(flow.direction, 256);
            let mut frame = vec![0; 256];
            assert!(template.write(&mut frame, &flow, flow.session, identity));
            let l2 = L2::parse(&frame).unwrap();
            let ip = IpFrame::parse(&frame, frame.len(), &l2).unwrap();
            let (tuple, ends) = if flow.direction == Direction::Uplink {
                let gtpu = GtpuFrame::parse(&frame, &ip).unwrap();
                assert_eq!(gtpu.qfi.map(|qfi| qfi.get()), Some(flow.bearer + 1));
                let inner = packet::IpTuple::parse(&frame[LINK + OUTER..], 256 - LINK - OUTER).unwrap();
                (inner, [identity.ue, flow.server()])
            } else {
                (ip.tuple, [flow.server(), identity.ue])
            };
            let [src, dst] = ends.map(|end| end.octets());
            assert_eq!(tuple.addrs, Addrs::V4 { src, dst });
        }
    }
}
