//! `Forward`: what becomes of the packets of a FAR, in the form that workers act on; and `Mark`, a QER's marking.

use core::fmt;

use crate::flags::flags;
use crate::{AdjacencyId, InstanceId, PortId};

/// What is done with a packet (Apply Action, TS 29.244 §8.2.26).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ForwardKind {
    /// DROP, or nothing that can be done with it.
    #[default]
    Drop = 0,
    /// BUFF: trapped to the slow path, which buffers it or notifies control.
    Buffer = 1,
    /// FORW into a GTP-U tunnel: [`Forward::template`] says which.
    Tunnel = 2,
    /// FORW as a plain IP packet.
    Plain = 3,
    /// FORW to the CP function, or anything else that control handles itself.
    Punt = 4,
    /// FORW of what is no user's but another node's message, as it is and to where it is addressed: an End Marker that
    /// the CP function made (TS 29.244 §5.3.2).
    Unchanged = 5,
    /// FORW with a redirect destination: answered here, and the answer comes in again by `egress` (TS 29.244 §5.4.7).
    Redirect = 6,
}

flags! {
    /// How a packet is forwarded.
    ForwardFlags(u8) {
        /// What the flow's marking gives is to be added: a PDU Session Container, of type DL, or a Service Class
        /// Indicator.
        NEEDS_MARKING = 1;
        /// With `NEEDS_MARKING`: the PDU Session Container is of type UL (towards Core on N9, TS 38.415 §5.5.2.2).
        UPLINK_CONTAINER = 1 << 1;
        /// From tunnel to tunnel: GTP-U extension headers other than the PDU Session Container are created again.
        KEEP_EXTENSIONS = 1 << 2;
        /// NOCP with BUFF: control is notified of the first packet. With DROP: a packet's PDR may ask for a report
        /// (DDPN), or its URRs (DROTH).
        NOTIFY = 1 << 3;
        /// With `Drop`: the FAR says FORW into a tunnel, and no SMF has said which one yet.
        NO_TUNNEL = 1 << 4;
        /// With `Drop`: the FAR asks for what this node does not do.
        UNSUPPORTED = 1 << 5;
        /// [`Forward::mirror`] is given. Blocks set it themselves, and take it out of what they give back.
        MIRROR = 1 << 6;
        /// With `Tunnel` and `Plain`: the DSCP follows from QFI and colour, by the egress instance's configuration.
        MARKS_DSCP = 1 << 7;
    }
}

impl ForwardFlags {
    /// With `Tunnel`: it ends at the CP function, which gets no PDU Session Container that came from Access (TS 29.244
    /// §5.3.1, scenario 1). The bit is that of `NO_TUNNEL`, which is of `Drop` alone.
    pub const TO_CP_FUNCTION: Self = Self::NO_TUNNEL;
    /// With `Drop`: the FAR says FORW, and no route leads there any more. The bit is that of `KEEP_EXTENSIONS`, which
    /// is of `Tunnel` alone.
    pub const NO_ROUTE: Self = Self::KEEP_EXTENSIONS;
}

/// The outer addresses of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OuterAddresses {
    /// GTP-U/UDP/IPv4.
    V4 {
        /// The own address.
        source: [u8; 4],
        /// The peer's.
        destination: [u8; 4],
    },
    /// GTP-U/UDP/IPv6.
    V6 {
        /// The own address.
        source: [u8; 16],
        /// The peer's.
        destination: [u8; 16],
    },
}

/// What one tunnel's outer header has of its own (Outer Header Creation, TS 29.244 §8.2.56): all the rest is the same
/// for every packet, so that this fits beside a session's header in one cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    /// The peer's TEID.
    pub teid: u32,
    /// Both addresses.
    pub addresses: OuterAddresses,
    /// UDP source port; the destination port is 2152.
    pub source_port: u16,
    /// The octet TOS or Traffic Class: DSCP in its upper 6 bits.
    pub tos: u8,
}

impl Template {
    /// A tunnel over IPv4 with source port 2152 and DSCP 0.
    pub const fn ipv4(teid: u32, source: [u8; 4], destination: [u8; 4]) -> Self {
        Self {
            teid,
            addresses: OuterAddresses::V4 { source, destination },
            source_port: 2152,
            tos: 0,
        }
    }

    /// A tunnel over IPv6 with source port 2152 and DSCP 0.
    pub const fn ipv6(teid: u32, source: [u8; 16], destination: [u8; 16]) -> Self {
        Self {
            teid,
            addresses: OuterAddresses::V6 { source, destination },
            source_port: 2152,
            tos: 0,
        }
    }
}

/// One FAR, compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Forward {
    /// What to do.
    pub kind: ForwardKind,
    /// How.
    pub flags: ForwardFlags,
    /// The network instance that the packet leaves by; without meaning for `Drop` and `Buffer`.
    pub egress: InstanceId,
    /// The next hop, or [`AdjacencyId::BY_DESTINATION`].
    pub adjacency: AdjacencyId,
    /// The tunnel: given if and only if `kind` is `Tunnel`.
    pub template: Option<Template>,
    /// With `Plain`: the DSCP that user packets get, `0..=63`. That of a tunnel is in its template.
    pub dscp: Option<u8>,
    /// The port that gets a copy of each user packet as it is sent.
    pub mirror: Option<PortId>,
}

impl Forward {
    /// As a [`mirror`](Self::mirror): no port, but the copies that the session's image defines.
    pub const COPIES: PortId = PortId(u16::MAX);

    /// Drops every packet.
    pub const DROP: Self = Self {
        kind: ForwardKind::Drop,
        flags: ForwardFlags::NONE,
        egress: InstanceId(0),
        adjacency: AdjacencyId::BY_DESTINATION,
        template: None,
        dscp: None,
        mirror: None,
    };
}

impl Default for Forward {
    fn default() -> Self {
        Self::DROP
    }
}

/// What a QER marks packets with: QFI, RQI and Paging Policy Indicator (TS 29.244 §8.2.89, §8.2.88, §8.2.116), each
/// of which may be absent.
///
/// Or with a Service Class Indicator (TS 29.244 §8.2.66), of the time before there were QoS flows, and nothing else.
///
/// Two octets: bits 0-5 QFI, bit 6 QFI given, bit 7 RQI, bits 8-10 PPI, bit 11 PPI given. With a Service Class
/// Indicator: bit 12, its low bits in 0-5 and its high bits in 8-9.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Mark(u16);

impl Mark {
    /// Marks nothing.
    pub const NONE: Self = Self(0);
    const HAS_QFI: u16 = 1 << 6;
    const RQI: u16 = 1 << 7;
    const HAS_PPI: u16 = 1 << 11;
    const HAS_SCI: u16 = 1 << 12;

    /// A mark with this QFI (of which the low 6 bits count) and nothing else.
    pub const fn qfi_only(qfi: u8) -> Self {
        Self::NONE.with_qfi(qfi)
    }

    /// The same with a QFI, of which the low 6 bits count.
    #[must_use]
    pub const fn with_qfi(self, qfi: u8) -> Self {
        Self(self.0 & !0x3f | Self::HAS_QFI | (qfi & 0x3f) as u16)
    }

    /// The same with the RQI set or clear.
    #[must_use]
    pub const fn with_rqi(self, rqi: bool) -> Self {
        Self(self.0 & !Self::RQI | (rqi as u16) << 7)
    }

    /// The same with a Paging Policy Indicator, of which the low 3 bits count.
    #[must_use]
    pub const fn with_ppi(self, ppi: u8) -> Self {
        Self(self.0 & !0x700 | Self::HAS_PPI | ((ppi & 7) as u16) << 8)
    }

    /// A mark with this Service Class Indicator and nothing else.
    pub const fn with_sci_only(sci: u8) -> Self {
        let (low, high) = (sci as u16 & 0x3f, sci as u16 >> 6);
        Self(Self::HAS_SCI | low | high << 8)
    }

    /// The Service Class Indicator.
    #[inline]
    pub const fn sci(self) -> Option<u8> {
        if self.0 & Self::HAS_SCI != 0 {
            Some((self.0 & 0x3f | self.0 >> 2 & 0xc0) as u8)
        } else {
            None
        }
    }

    /// The QFI, `0..=63`.
    #[inline]
    pub const fn qfi(self) -> Option<u8> {
        if self.0 & Self::HAS_QFI != 0 {
            Some((self.0 & 0x3f) as u8)
        } else {
            None
        }
    }

    /// Whether the Reflective QoS Indicator is to be set.
    #[inline]
    pub const fn rqi(self) -> bool {
        self.0 & Self::RQI != 0
    }

    /// The Paging Policy Indicator, `0..=7`.
    #[inline]
    pub const fn ppi(self) -> Option<u8> {
        if self.0 & Self::HAS_PPI != 0 {
            Some((self.0 >> 8 & 7) as u8)
        } else {
            None
        }
    }

    /// The two octets as a number.
    #[inline]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The mark that [`bits`](Self::bits) gave.
    #[inline]
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mark")
            .field("qfi", &self.qfi())
            .field("rqi", &self.rqi())
            .field("ppi", &self.ppi())
            .field("sci", &self.sci())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_flag_set_prints_its_names() {
        let flags = ForwardFlags::NEEDS_MARKING | ForwardFlags::NOTIFY;
        assert_eq!(format!("{flags:?}"), "{\"NEEDS_MARKING\", \"NOTIFY\"}");
        assert!(!flags.contains(ForwardFlags::KEEP_EXTENSIONS));
        assert_eq!(
            ForwardFlags::NONE.with_if(ForwardFlags::NOTIFY, false),
            ForwardFlags::NONE
        );
    }

    proptest! {
        #[test]
        fn a_mark_gives_back_what_was_put_in(qfi in proptest::option::of(0u8..64), rqi: bool, ppi in proptest::option::of(0u8..8)) {
            let mut mark = Mark::NONE.with_rqi(rqi);
            mark = qfi.map_or(mark, |qfi| mark.with_qfi(qfi));
            mark = ppi.map_or(mark, |ppi| mark.with_ppi(ppi));
            prop_assert_eq!((mark.qfi(), mark.rqi(), mark.ppi()), (qfi, rqi, ppi));
            prop_assert_eq!(mark.sci(), None);
            prop_assert_eq!(Mark::from_bits(mark.bits()), mark);
        }

        #[test]
        fn a_service_class_is_alone(sci: u8) {
            let mark = Mark::with_sci_only(sci);
            prop_assert_eq!(mark.sci(), Some(sci));
            prop_assert_eq!((mark.qfi(), mark.rqi(), mark.ppi()), (None, false, None));
        }
    }
}
