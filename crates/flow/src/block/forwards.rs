//! A forward as a block holds it: packed, in the read lines, and whole, on a line of its own.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{AdjacencyId, Forward, ForwardFlags, ForwardKind, InstanceId, OuterAddresses, PortId, Template};

/// What the two forms of a forward have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct ForwardHead {
    adjacency: u32,
    egress: u16,
    flags: ForwardFlags,
    /// On top of the first word: its top bit is never set. With `MIRROR` or `MARKS_DSCP` in `flags`, or a `PLAIN_DSCP`,
    /// `UNUSUAL` is set beside the kind.
    kind: u8,
    teid: u32,
    source_port: u16,
    /// Of the tunnel; without one and with `PLAIN_DSCP`, that of user packets.
    tos: u8,
    /// Of the outer IP header: 4, 6, or 0 without a tunnel.
    version: u8,
}

/// A forward as a block holds it, for the packets that it is applied to: what a [`Forward`] says, in three words. Of an
/// IPv6 tunnel the addresses are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct PackedForward {
    head: ForwardHead,
    source: [u8; 4],
    destination: [u8; 4],
}

/// A forward on its own line.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct ForwardLine {
    head: ForwardHead,
    source: [u8; 16],
    destination: [u8; 16],
    /// With `MIRROR`: the port that gets copies.
    mirror: u16,
    /// For a traffic manager's queue and a security association.
    reserved: [u8; 14],
}

impl ForwardHead {
    const UNUSUAL: u8 = 1 << 3;
    /// In `tos`, where ECN would be.
    const PLAIN_DSCP: u8 = 1;

    fn of(forward: &Forward) -> Self {
        let version = match forward.template.map(|template| template.addresses) {
            Some(OuterAddresses::V4 { .. }) => 4,
            Some(OuterAddresses::V6 { .. }) => 6,
            None => 0,
        };
        let plain_tos = forward.dscp.map_or(0, |dscp| dscp << 2 | Self::PLAIN_DSCP);
        let (teid, source_port, tos) = forward.template.map_or((0, 0, plain_tos), |template| {
            (template.teid, template.source_port, template.tos)
        });
        let flags = without_mirror(forward.flags).with_if(ForwardFlags::MIRROR, forward.mirror.is_some());
        let marks = version == 0 && forward.dscp.is_some();
        let is_unusual = marks || flags.intersects(ForwardFlags::MIRROR | ForwardFlags::MARKS_DSCP);
        Self {
            adjacency: forward.adjacency.0,
            egress: forward.egress.0,
            flags,
            kind: forward.kind as u8 | if is_unusual { Self::UNUSUAL } else { 0 },
            teid,
            source_port,
            tos,
            version,
        }
    }

    #[inline(always)]
    fn forward(&self, addresses: Option<OuterAddresses>, mirror: u16) -> Forward {
        Forward {
            kind: self.kind(),
            flags: without_mirror(self.flags),
            egress: InstanceId(self.egress),
            adjacency: AdjacencyId(self.adjacency),
            template: addresses.map(|addresses| Template {
                teid: self.teid,
                addresses,
                source_port: self.source_port,
                tos: self.tos,
            }),
            dscp: self.plain_dscp(),
            mirror: self
                .flags
                .contains(ForwardFlags::MIRROR)
                .then_some(PortId(mirror)),
        }
    }

    #[inline(always)]
    const fn kind(&self) -> ForwardKind {
        kind_of_number(self.kind & !Self::UNUSUAL)
    }

    const fn plain_dscp(&self) -> Option<u8> {
        if self.version == 0 && self.tos & Self::PLAIN_DSCP != 0 {
            Some(self.tos >> 2)
        } else {
            None
        }
    }
}

const fn without_mirror(flags: ForwardFlags) -> ForwardFlags {
    ForwardFlags::from_bits(flags.bits() & !ForwardFlags::MIRROR.bits())
}

/// `Drop` for a number that is no kind.
#[inline(always)]
const fn kind_of_number(number: u8) -> ForwardKind {
    match number {
        1 => ForwardKind::Buffer,
        2 => ForwardKind::Tunnel,
        3 => ForwardKind::Plain,
        4 => ForwardKind::Punt,
        5 => ForwardKind::Unchanged,
        6 => ForwardKind::Redirect,
        _ => ForwardKind::Drop,
    }
}

impl PackedForward {
    /// Drops every packet.
    pub const NONE: Self = Self {
        head: ForwardHead {
            adjacency: u32::MAX,
            egress: 0,
            flags: ForwardFlags::NONE,
            kind: 0,
            teid: 0,
            source_port: 0,
            tos: 0,
            version: 0,
        },
        source: [0; 4],
        destination: [0; 4],
    };

    /// What to do.
    #[inline(always)]
    pub const fn kind(&self) -> ForwardKind {
        self.head.kind()
    }

    /// The same, but `Drop` for a forward that has a mirror, marks by QoS flow or marks user packets: so the packets of
    /// all others need no look at that.
    #[inline(always)]
    pub const fn usual_kind(&self) -> ForwardKind {
        kind_of_number(self.head.kind)
    }

    /// How.
    #[inline(always)]
    pub const fn flags(&self) -> ForwardFlags {
        self.head.flags
    }

    /// The network instance that the packet leaves by.
    #[inline(always)]
    pub const fn egress(&self) -> InstanceId {
        InstanceId(self.head.egress)
    }

    /// The next hop, or [`AdjacencyId::BY_DESTINATION`].
    #[inline(always)]
    pub const fn adjacency(&self) -> AdjacencyId {
        AdjacencyId(self.head.adjacency)
    }

    /// The IP version of the tunnel, 4 or 6; 0 without a tunnel.
    #[inline(always)]
    pub const fn version(&self) -> u8 {
        self.head.version
    }

    /// The peer's TEID.
    #[inline(always)]
    pub const fn teid(&self) -> u32 {
        self.head.teid
    }

    /// UDP source port.
    #[inline(always)]
    pub const fn source_port(&self) -> u16 {
        self.head.source_port
    }

    /// TOS or Traffic Class of the outer header.
    #[inline(always)]
    pub const fn tos(&self) -> u8 {
        self.head.tos
    }

    /// The DSCP that plain user packets get, `0..=63`.
    pub const fn dscp(&self) -> Option<u8> {
        self.head.plain_dscp()
    }

    /// The same with another TOS.
    #[must_use]
    pub const fn with_tos(mut self, tos: u8) -> Self {
        self.head.tos = tos;
        self
    }

    /// The own address of an IPv4 tunnel.
    #[inline(always)]
    pub const fn source_v4(&self) -> [u8; 4] {
        self.source
    }

    /// The peer's address of an IPv4 tunnel.
    #[inline(always)]
    pub const fn destination_v4(&self) -> [u8; 4] {
        self.destination
    }
}

impl From<&Forward> for PackedForward {
    fn from(forward: &Forward) -> Self {
        ForwardLine::of(forward).packed()
    }
}

impl ForwardLine {
    #[inline(always)]
    pub(super) fn packed(&self) -> PackedForward {
        PackedForward {
            head: self.head,
            source: self.source_v4(),
            destination: self.destination_v4(),
        }
    }

    pub(super) fn of(forward: &Forward) -> Self {
        let mut line = Self {
            head: ForwardHead::of(forward),
            mirror: forward.mirror.map_or(0, |port| port.0),
            ..Self::default()
        };
        match forward.template.map(|template| template.addresses) {
            Some(OuterAddresses::V4 { source, destination }) => {
                line.source[..4].copy_from_slice(&source);
                line.destination[..4].copy_from_slice(&destination);
            }
            Some(OuterAddresses::V6 { source, destination }) => {
                [line.source, line.destination] = [source, destination];
            }
            None => {}
        }
        line
    }

    pub(super) fn forward(&self) -> Forward {
        let addresses = match self.head.version {
            0 => None,
            4 => Some(OuterAddresses::V4 {
                source: self.source_v4(),
                destination: self.destination_v4(),
            }),
            _ => Some(OuterAddresses::V6 {
                source: self.source,
                destination: self.destination,
            }),
        };
        self.head.forward(addresses, self.mirror)
    }

    fn source_v4(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.source;
        [a, b, c, d]
    }

    fn destination_v4(&self) -> [u8; 4] {
        let [a, b, c, d, ..] = self.destination;
        [a, b, c, d]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::lines::Line;

    #[test]
    fn a_forward_comes_back_from_both_its_places() {
        let mut forward = Forward {
            kind: ForwardKind::Tunnel,
            flags: ForwardFlags::NEEDS_MARKING,
            egress: InstanceId(2),
            adjacency: AdjacencyId(7),
            template: Some(Template {
                source_port: 9,
                tos: 0xb8,
                ..Template::ipv4(5, [10, 0, 0, 1], [10, 0, 0, 2])
            }),
            dscp: None,
            mirror: None,
        };
        assert_eq!(Line::of_forward(&forward).forward().forward(), forward);
        let mirrored = Forward {
            mirror: Some(PortId(3)),
            ..forward
        };
        assert_eq!(Line::of_forward(&mirrored).forward().forward(), mirrored);
        assert!(
            PackedForward::from(&mirrored)
                .flags()
                .contains(ForwardFlags::MIRROR)
        );
        assert_eq!(PackedForward::from(&forward).with_tos(4).tos(), 4);
        let marked = Forward {
            dscp: Some(63),
            kind: ForwardKind::Plain,
            template: None,
            ..forward
        };
        assert_eq!(Line::of_forward(&marked).forward().forward(), marked);
        let by_flow = Forward {
            flags: ForwardFlags::MARKS_DSCP,
            ..forward
        };
        for (forward, usual) in [
            (&forward, ForwardKind::Tunnel),
            (&mirrored, ForwardKind::Drop),
            (&marked, ForwardKind::Drop),
            (&by_flow, ForwardKind::Drop),
        ] {
            let packed = PackedForward::from(forward);
            assert_eq!((packed.kind(), packed.usual_kind()), (forward.kind, usual));
        }
        let packed = PackedForward::from(&forward);
        assert_eq!((packed.kind(), packed.flags()), (forward.kind, forward.flags));
        assert_eq!(
            (packed.egress(), packed.adjacency()),
            (forward.egress, forward.adjacency)
        );
        assert_eq!((packed.version(), packed.teid()), (4, 5));
        assert_eq!((packed.source_port(), packed.tos()), (9, 0xb8));
        assert_eq!(packed.source_v4(), [10, 0, 0, 1]);
        assert_eq!(packed.destination_v4(), [10, 0, 0, 2]);
        forward.template = Some(Template::ipv6(5, [1; 16], [2; 16]));
        assert_eq!(Line::of_forward(&forward).forward().forward(), forward);
        assert_eq!(PackedForward::from(&forward).version(), 6);
        let drop = PackedForward::from(&Forward::DROP);
        assert_eq!((drop.kind(), drop.version()), (ForwardKind::Drop, 0));
    }
}
