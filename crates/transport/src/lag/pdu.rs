//! LACPDUs (IEEE 802.1AX-2020 §6.4.2.3) and Marker PDUs (§6.5.3.3) in a frame.

use packet::MacAddr;
use packet::eth::ether_type;

/// The destination of slow protocols (IEEE 802.3 Annex 57A), which no switch forwards.
pub const SLOW_PROTOCOLS: MacAddr = MacAddr([0x01, 0x80, 0xc2, 0, 0, 2]);

const LACP: u8 = 1;
const MARKER: u8 = 2;
const VERSION: u8 = 1;
const ACTOR: u8 = 1;
const PARTNER: u8 = 2;
const COLLECTOR: u8 = 3;
const INFORMATION_LEN: u8 = 20;
const COLLECTOR_LEN: u8 = 16;
/// Octets of an LACPDU behind the EtherType.
const LEN: usize = 110;
const ETHERNET: usize = 14;

/// Actor_State (IEEE 802.1AX §6.4.2.3, m): one octet.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PortState(pub u8);

impl PortState {
    /// Active LACP: it sends LACPDUs whatever the partner does.
    pub const ACTIVITY: Self = Self(1);
    /// Short timeout: it wants an LACPDU every second, and its timeout is three seconds.
    pub const SHORT_TIMEOUT: Self = Self(1 << 1);
    /// The link may be one of several.
    pub const AGGREGATION: Self = Self(1 << 2);
    /// The link is in the right group.
    pub const SYNCHRONIZATION: Self = Self(1 << 3);
    /// Frames that come are taken.
    pub const COLLECTING: Self = Self(1 << 4);
    /// Frames are sent.
    pub const DISTRIBUTING: Self = Self(1 << 5);
    /// The partner is not known.
    pub const DEFAULTED: Self = Self(1 << 6);
    /// No LACPDU of the partner within the timeout.
    pub const EXPIRED: Self = Self(1 << 7);

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: Self) -> bool {
        self.0 & bits.0 == bits.0
    }

    /// The same with `bits` set, or clear.
    #[must_use]
    pub const fn with(self, bits: Self, on: bool) -> Self {
        Self(if on { self.0 | bits.0 } else { self.0 & !bits.0 })
    }

    /// The same bits, of those in `mask`.
    pub(super) const fn of(self, mask: Self) -> u8 {
        self.0 & mask.0
    }
}

impl std::fmt::Debug for PortState {
    /// As `tcpdump` spells it: a letter for each bit that is set.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letters = "ASGYCDXE".chars().enumerate();
        letters
            .filter(|(bit, _)| self.0 >> bit & 1 == 1)
            .try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

/// One end of a link as LACPDUs report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct End {
    /// The system's priority.
    pub system_priority: u16,
    /// The system.
    pub system: MacAddr,
    /// Links with one key may be in one group.
    pub key: u16,
    /// The port's priority.
    pub port_priority: u16,
    /// The port's number.
    pub port: u16,
    /// Its state.
    pub state: PortState,
}

impl End {
    /// Whether both are the same port of the same group, whatever its state.
    pub fn is_same_port(&self, other: &Self) -> bool {
        Self {
            state: other.state,
            ..*self
        } == *other
    }

    fn parse(tlv: &[u8]) -> Option<Self> {
        let number = |at: usize| Some(u16::from_be_bytes(*tlv.get(at..)?.first_chunk()?));
        Some(Self {
            system_priority: number(2)?,
            system: MacAddr(*tlv.get(4..)?.first_chunk()?),
            key: number(10)?,
            port_priority: number(12)?,
            port: number(14)?,
            state: PortState(*tlv.get(16)?),
        })
    }

    fn write(&self, kind: u8, out: &mut Vec<u8>) {
        out.extend([kind, INFORMATION_LEN]);
        out.extend(self.system_priority.to_be_bytes());
        out.extend(self.system.0);
        out.extend(self.key.to_be_bytes());
        out.extend(self.port_priority.to_be_bytes());
        out.extend(self.port.to_be_bytes());
        out.extend([self.state.0, 0, 0, 0]);
    }
}

/// An LACPDU: the sender's end, and what the sender knows of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lacpdu {
    /// The sender.
    pub actor: End,
    /// What the sender knows of its partner.
    pub partner: End,
}

/// What a frame to the slow protocols' address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    /// An LACPDU.
    Lacp(Lacpdu),
    /// A Marker PDU, which [`answer_marker`] replies to.
    Marker,
    /// A Marker Response PDU; Sluice sends no Marker PDU.
    MarkerResponse,
}

impl Slow {
    /// Reads a frame from its Ethernet header on. Other versions than 1 are read as that one (IEEE 802.1AX §6.4.2.3,
    /// b). `None` of other protocols, and of what breaks the rules of these.
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let is_slow =
            frame.get(12..14)? == ether_type::SLOW.to_be_bytes() && frame.starts_with(&SLOW_PROTOCOLS.0);
        let pdu = frame.get(ETHERNET..ETHERNET + LEN).filter(|_| is_slow)?;
        match pdu {
            [LACP, 1..=255, ACTOR, INFORMATION_LEN, ..] if pdu[22..24] == [PARTNER, INFORMATION_LEN] => {
                let (actor, partner) = (End::parse(&pdu[2..22])?, End::parse(&pdu[22..42])?);
                Some(Self::Lacp(Lacpdu { actor, partner }))
            }
            [MARKER, 1..=255, 1, 16, ..] => Some(Self::Marker),
            [MARKER, 1..=255, 2, 16, ..] => Some(Self::MarkerResponse),
            _ => None,
        }
    }
}

/// Makes a Marker PDU the Marker Response PDU, sent from `mac`: all frames before it have been received (IEEE 802.1AX
/// §6.5.4).
pub fn answer_marker(frame: &mut [u8], mac: MacAddr) {
    if let Some(source) = frame.get_mut(6..12) {
        source.copy_from_slice(&mac.0);
    }
    if let Some(kind) = frame.get_mut(ETHERNET + 2) {
        *kind = 2;
    }
}

impl Lacpdu {
    /// The frame, sent from `mac`, 124 octets.
    pub fn frame(&self, mac: MacAddr) -> Vec<u8> {
        let mut out = Vec::with_capacity(ETHERNET + LEN);
        out.extend(SLOW_PROTOCOLS.0);
        out.extend(mac.0);
        out.extend(ether_type::SLOW.to_be_bytes());
        out.extend([LACP, VERSION]);
        self.actor.write(ACTOR, &mut out);
        self.partner.write(PARTNER, &mut out);
        // No frame is delayed: CollectorMaxDelay is 0.
        out.extend([COLLECTOR, COLLECTOR_LEN]);
        out.resize(ETHERNET + LEN, 0);
        out
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn end() -> impl Strategy<Value = End> {
        any::<(u16, [u8; 6], u16, u16, u16, u8)>().prop_map(
            |(system_priority, system, key, port_priority, port, state)| End {
                system_priority,
                system: MacAddr(system),
                key,
                port_priority,
                port,
                state: PortState(state),
            },
        )
    }

    #[test]
    fn a_frame_is_what_the_standard_draws() {
        let actor = End {
            system_priority: 0x8000,
            system: MacAddr([2, 0, 0, 0, 0, 1]),
            key: 17,
            port_priority: 0xff,
            port: 3,
            state: PortState(0x3d),
        };
        let frame = Lacpdu {
            actor,
            partner: End::default(),
        }
        .frame(MacAddr([2, 0, 0, 0, 0, 9]));
        assert_eq!(frame.len(), 124);
        assert_eq!(
            frame[..38],
            [
                1, 0x80, 0xc2, 0, 0, 2, 2, 0, 0, 0, 0, 9, 0x88, 9, 1, 1, 1, 20, 0x80, 0, 2, 0, 0, 0, 0, 1, 0,
                17, 0, 0xff, 0, 3, 0x3d, 0, 0, 0, 2, 20
            ]
        );
        assert_eq!(frame[56..60], [3, 16, 0, 0]);
        assert!(frame[60..].iter().all(|octet| *octet == 0));
        assert_eq!(format!("{:?}", actor.state), "AGYCD");
    }

    #[test]
    fn a_marker_becomes_its_answer() {
        let mut frame = [&SLOW_PROTOCOLS.0[..], &[9; 6], &[0x88, 9, 2, 1, 1, 16]].concat();
        frame.resize(124, 7);
        assert_eq!(Slow::parse(&frame), Some(Slow::Marker));
        let before = frame.clone();
        answer_marker(&mut frame, MacAddr([2; 6]));
        assert_eq!(Slow::parse(&frame), Some(Slow::MarkerResponse));
        assert_eq!((&frame[6..12], &frame[17..]), (&[2; 6][..], &before[17..]));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(actor in end(), partner in end()) {
            let pdu = Lacpdu { actor, partner };
            let mut frame = pdu.frame(MacAddr([2; 6]));
            prop_assert_eq!(Slow::parse(&frame), Some(Slow::Lacp(pdu)));
            // A later version, with more behind.
            frame[15] = 2;
            frame.extend([1, 2, 3]);
            prop_assert_eq!(Slow::parse(&frame), Some(Slow::Lacp(pdu)));
            for len in 0..124 {
                prop_assert_eq!(Slow::parse(&frame[..len]), None);
            }
        }

        #[test]
        fn anything_is_read_without_harm(octets in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut frame = [&SLOW_PROTOCOLS.0[..], &[9; 6], &[0x88, 9]].concat();
            frame.extend(octets);
            let _ = Slow::parse(&frame);
        }
    }
}
