//! The frames of the floors: made outside the measured time, read and written inside it.

use crate::slab::{OutOfMemory, Slab};
use crate::{Direction, KeyFields, LocalId, PackedForward, Scope, VrfId, prefetch};
use crate::{FlowKey4, Mark};

/// One buffer, as long as that of a packet pool.
#[derive(Clone, Copy, zerocopy::FromZeros)]
#[repr(C, align(64))]
pub(super) struct Frame([u8; 2048]);

/// Where a frame starts in its buffer; what is before it is for headers to come.
const HEADROOM: usize = 256;
const ETHERNET: usize = 14;
/// IPv4, UDP, GTP-U, and the extension header with the QFI.
const OUTER: usize = 20 + 8 + 8 + 8;
/// Octets of the inner IP packet.
pub(super) const INNER_LENGTH: u16 = 212;

/// The outer header of every tunnel, but for what [`Frame::encapsulate`] writes over it.
const OUTER_TEMPLATE: [u8; OUTER] = {
    let mut header = [0; OUTER];
    header[0] = 0x45;
    header[6] = 0x40;
    header[8] = 64;
    header[9] = 17;
    [header[22], header[23]] = 2152u16.to_be_bytes();
    [header[28], header[29]] = [0x34, 0xff];
    [header[39], header[40]] = [0x85, 1];
    header
};

/// The frames of one round.
pub(super) fn pool(count: usize) -> Result<Slab<Frame>, OutOfMemory> {
    Slab::new(count)
}

/// The key of flow `number`, in which a session has consecutive flows of both directions in turn.
pub(super) fn key(number: u32, session: u32) -> FlowKey4 {
    let ue = (0x0a00_0000 + session).to_be_bytes();
    let peer = (0x0808_0808 + number % 64 * 7).to_be_bytes();
    let ports = [(1024 + number / 2 % 60_000) as u16, 443];
    let (scope, teid, source, destination, ports) = match direction(number) {
        Direction::Uplink => (Scope::tunnel(LocalId(0)), session + 1, ue, peer, ports),
        Direction::Downlink => (Scope::plain(VrfId(0)), 0, peer, ue, [ports[1], ports[0]]),
    };
    let fields = KeyFields::TUPLE;
    FlowKey4 {
        scope,
        teid,
        source,
        destination,
        ports,
        protocol: 17,
        fields,
        tos: 0,
        qfi: 0,
    }
}

/// The direction of flow `number`.
pub(super) const fn direction(number: u32) -> Direction {
    if number.is_multiple_of(2) {
        Direction::Uplink
    } else {
        Direction::Downlink
    }
}

impl Frame {
    /// Where the inner IP packet of a frame of this direction starts.
    const fn inner(direction: Direction) -> usize {
        match direction {
            Direction::Uplink => HEADROOM + ETHERNET + OUTER,
            Direction::Downlink => HEADROOM + ETHERNET,
        }
    }

    /// Asks for the headers.
    #[inline(always)]
    pub(super) fn prefetch(&self) {
        prefetch::read(&self.0[HEADROOM]);
        prefetch::read(&self.0[HEADROOM + 64]);
    }

    /// Makes this a packet of a flow.
    pub(super) fn fill(&mut self, key: &FlowKey4, direction: Direction) {
        self.0[HEADROOM..HEADROOM + 128].fill(0);
        [self.0[HEADROOM + 12], self.0[HEADROOM + 13]] = [0x08, 0x00];
        if direction == Direction::Uplink {
            let outer = &mut self.0[HEADROOM + ETHERNET..][..OUTER];
            outer.copy_from_slice(&OUTER_TEMPLATE);
            outer[32..36].copy_from_slice(&key.teid.to_be_bytes());
        }
        let inner = &mut self.0[Self::inner(direction)..];
        [inner[0], inner[8], inner[9]] = [0x45, 64, key.protocol];
        inner[2..4].copy_from_slice(&INNER_LENGTH.to_be_bytes());
        inner[12..16].copy_from_slice(&key.source);
        inner[16..20].copy_from_slice(&key.destination);
        inner[20..22].copy_from_slice(&key.ports[0].to_be_bytes());
        inner[22..24].copy_from_slice(&key.ports[1].to_be_bytes());
    }

    /// The key of the packet; all zero for what is not a packet of the kind that `fill` makes.
    #[inline(always)]
    pub(super) fn parse(&self, direction: Direction) -> FlowKey4 {
        self.try_parse(direction).unwrap_or_default()
    }

    #[inline(always)]
    fn try_parse(&self, direction: Direction) -> Option<FlowKey4> {
        let frame: &[u8; 128] = self.0[HEADROOM..].first_chunk()?;
        if frame[12..14] != [0x08, 0x00] {
            return None;
        }
        let (scope, teid, inner) = match direction {
            Direction::Uplink => {
                let gtpu = ETHERNET + usize::from(frame[14] & 15) * 4 + 8;
                let header: &[u8; 8] = frame.get(gtpu..)?.first_chunk()?;
                let inner = gtpu + 8 + if header[0] & 7 == 0 { 0 } else { 8 };
                let teid = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
                (Scope::tunnel(LocalId(0)), teid, inner)
            }
            Direction::Downlink => (Scope::plain(VrfId(0)), 0, ETHERNET),
        };
        let inner: &[u8; 24] = frame.get(inner..)?.first_chunk()?;
        Some(FlowKey4 {
            scope,
            teid,
            source: [inner[12], inner[13], inner[14], inner[15]],
            destination: [inner[16], inner[17], inner[18], inner[19]],
            ports: [
                u16::from_be_bytes([inner[20], inner[21]]),
                u16::from_be_bytes([inner[22], inner[23]]),
            ],
            protocol: inner[9],
            fields: KeyFields::TUPLE,
            tos: 0,
            qfi: 0,
        })
    }

    /// The octets that are counted.
    #[inline(always)]
    pub(super) fn length(&self, direction: Direction) -> u64 {
        let at = Self::inner(direction) + 2;
        u64::from(u16::from_be_bytes([self.0[at], self.0[at + 1]]))
    }

    /// Writes what a router writes: hop count, checksum, and the link header before the inner packet.
    #[inline(always)]
    pub(super) fn route(&mut self, direction: Direction, link: &[u8; ETHERNET]) {
        let at = Self::inner(direction);
        self.age_by_a_hop(at);
        self.0[at - ETHERNET..at].copy_from_slice(link);
    }

    /// Puts the packet into a tunnel.
    #[inline(always)]
    pub(super) fn encapsulate(
        &mut self,
        direction: Direction,
        forward: &PackedForward,
        mark: Mark,
        link: &[u8; ETHERNET],
    ) {
        let (source, destination) = (forward.source_v4(), forward.destination_v4());
        let at = Self::inner(direction);
        self.age_by_a_hop(at);
        let length = self.length(direction) as u16;
        let frame: &mut [u8] = &mut self.0[at - OUTER - ETHERNET..at];
        let Some((ethernet, outer)) = frame.split_first_chunk_mut::<ETHERNET>() else {
            return;
        };
        let Some(outer) = outer.first_chunk_mut::<OUTER>() else {
            return;
        };
        *ethernet = *link;
        *outer = OUTER_TEMPLATE;
        outer[1] = forward.tos();
        outer[2..4].copy_from_slice(&(length + OUTER as u16).to_be_bytes());
        outer[12..16].copy_from_slice(&source);
        outer[16..20].copy_from_slice(&destination);
        outer[20..22].copy_from_slice(&forward.source_port().to_be_bytes());
        outer[24..26].copy_from_slice(&(length + OUTER as u16 - 20).to_be_bytes());
        outer[30..32].copy_from_slice(&(length + 8).to_be_bytes());
        outer[32..36].copy_from_slice(&forward.teid().to_be_bytes());
        outer[42] = mark.qfi().unwrap_or(0);
        let checksum = template_checksum(forward.tos(), length + OUTER as u16, source, destination);
        outer[10..12].copy_from_slice(&checksum.to_be_bytes());
    }

    #[inline(always)]
    fn age_by_a_hop(&mut self, at: usize) {
        self.0[at + 8] = self.0[at + 8].wrapping_sub(1);
        // One less in the upper octet of a word is one more in its complement's (RFC 1624 §3, the carry left out).
        self.0[at + 10] = self.0[at + 10].wrapping_add(1);
    }
}

/// The checksum of the IPv4 header in `OUTER_TEMPLATE` with these fields.
#[inline(always)]
const fn template_checksum(tos: u8, length: u16, source: [u8; 4], destination: [u8; 4]) -> u16 {
    const FIXED: u32 = 0x4500 + 0x4000 + 0x4011;
    let [source, destination] = [u32::from_be_bytes(source), u32::from_be_bytes(destination)];
    let addresses = (source >> 16) + (source & 0xffff) + (destination >> 16) + (destination & 0xffff);
    let sum = FIXED + tos as u32 + length as u32 + addresses;
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Forward, ForwardKind, Template};

    #[test]
    fn a_frame_gives_its_flows_key_back() {
        let mut frames = pool(1).unwrap();
        for number in [0, 1, 77, 1_000_000] {
            let key = key(number, number / 32);
            frames[0].fill(&key, direction(number));
            assert_eq!(frames[0].parse(direction(number)), key);
            assert_eq!(frames[0].length(direction(number)), u64::from(INNER_LENGTH));
        }
    }

    #[test]
    fn an_encapsulated_packet_parses_as_one_of_its_tunnel() {
        let mut frames = pool(1).unwrap();
        let key = key(1, 9);
        frames[0].fill(&key, Direction::Downlink);
        let template = Template::ipv4(0xabcd, [10, 0, 0, 1], [10, 0, 0, 2]);
        let forward = Forward {
            kind: ForwardKind::Tunnel,
            template: Some(template),
            dscp: None,
            mirror: None,
            ..Forward::DROP
        };
        frames[0].encapsulate(
            Direction::Downlink,
            &PackedForward::from(&forward),
            Mark::qfi_only(9),
            &[0x08; ETHERNET],
        );
        let start = HEADROOM - OUTER;
        let outer: &[u8; OUTER] = frames[0].0[start + ETHERNET..].first_chunk().unwrap();
        assert_eq!((outer[32..36].to_vec(), outer[42]), (vec![0, 0, 0xab, 0xcd], 9));
        let words = outer[..20]
            .chunks(2)
            .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
        assert_eq!(
            words.sum::<u32>() % 0xffff,
            0,
            "the words of a header with its checksum sum up to zero"
        );
    }
}
