//! The cache lines of a block, as they lie in memory.
//!
//! ```text
//! line 0        face of uplink     generation, closed gates, near forward, first marks
//! line 1        purse of uplink    meter of the first QER, counters of the first 2 URRs
//! line 2        face of downlink   the same for the other direction
//! line 3        purse of downlink
//! counters      2 URRs a line      uplink and downlink packets and octets, from the third URR on
//! meters        2 or 1 a line      those of uplink, then those of downlink (see docs/adr/0004): from the second QER
//!                                  on where there are 2 a line, else all
//! forwards      1 a line
//! further marks 32 a line          only where the faces do not hold all
//! bounds        1 URR a line       only where a URR of the block has watermarks or a limit
//! rare          4 URRs a line      what few packets write of them
//! ```
//!
//! In every kind of line but a live face, bit 63 of the first word is clear; every generation has that bit. So a
//! reference to a face that is gone cannot take what lies there now for a face.
//!
//! A block begins at a line of even number. So face and purse of a direction are a pair of 128 octets, which many
//! processors fetch together: a packet with a meter and two counters needs no more than this pair of its block.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute, transmute_mut, transmute_ref};

use super::BlockImage;
use super::bounds::{Bounds, BoundsLine};
use super::live::below;
use super::tally::{RARE_PER_LINE, Rare, Tally};
use crate::meter::{Meter, Single};
use crate::{
    AdjacencyId, Direction, Forward, ForwardFlags, ForwardKind, InstanceId, Mark, OuterAddresses, PortId,
    Template,
};

// `Face::generation` is the upper half of the line's first word only then.
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the layout of session blocks is little-endian"
);

/// One cache line.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C, align(64))]
pub(super) struct Line([u64; 8]);

impl Line {
    pub(super) const ZERO: Self = Self([0; 8]);

    #[inline(always)]
    pub(super) fn face(&self) -> &Face {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn face_mut(&mut self) -> &mut Face {
        transmute_mut!(&mut self.0)
    }

    /// The counters in a line, of a purse from the third on.
    #[inline(always)]
    pub(super) fn tallies(&self) -> &[Tally; TALLIES_PER_LINE] {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn tallies_mut(&mut self) -> &mut [Tally; TALLIES_PER_LINE] {
        transmute_mut!(&mut self.0)
    }

    #[inline(always)]
    pub(super) fn purse_mut(&mut self) -> &mut Purse {
        transmute_mut!(&mut self.0)
    }

    /// The counters in all these lines.
    #[inline(always)]
    pub(super) fn all_tallies_mut(lines: &mut [Self]) -> &mut [Tally] {
        transmute_mut!(lines)
    }

    /// What is rarely written of four URRs.
    pub(super) fn rare(&self) -> &[Rare; RARE_PER_LINE] {
        transmute_ref!(&self.0)
    }

    pub(super) fn rare_mut(&mut self) -> &mut [Rare; RARE_PER_LINE] {
        transmute_mut!(&mut self.0)
    }

    #[inline(always)]
    pub(super) fn forward(&self) -> &ForwardLine {
        transmute_ref!(&self.0)
    }

    pub(super) fn of_forward(forward: &Forward) -> Self {
        Self(transmute!(ForwardLine::of(forward)))
    }

    #[inline(always)]
    pub(super) fn marks(&self) -> &[u16; MARKS_PER_LINE] {
        transmute_ref!(&self.0)
    }

    /// Two meters with one bucket each.
    #[inline(always)]
    pub(super) fn singles(&self) -> &[Single; 2] {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn singles_mut(&mut self) -> &mut [Single; 2] {
        transmute_mut!(&mut self.0)
    }

    /// The meters in all these lines, if they have one bucket each.
    #[inline(always)]
    pub(super) fn all_singles_mut(lines: &mut [Self]) -> &mut [Single] {
        transmute_mut!(lines)
    }

    /// One meter of any kind.
    #[inline(always)]
    pub(super) fn meter(&self) -> &Meter {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn meter_mut(&mut self) -> &mut Meter {
        transmute_mut!(&mut self.0)
    }

    pub(super) fn bounds(&self) -> &BoundsLine {
        transmute_ref!(&self.0)
    }

    pub(super) fn bounds_mut(&mut self) -> &mut BoundsLine {
        transmute_mut!(&mut self.0)
    }

    pub(super) fn marks_mut(&mut self) -> &mut [u16; MARKS_PER_LINE] {
        transmute_mut!(&mut self.0)
    }

    pub(super) fn of_marks(marks: &[Mark]) -> Self {
        let mut bits = [0; MARKS_PER_LINE];
        bits.iter_mut()
            .zip(marks)
            .for_each(|(bits, mark)| *bits = mark.bits());
        Self(transmute!(bits))
    }
}

/// What every packet of one direction reads.
#[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Face {
    pub(super) session: u32,
    /// 0: dead.
    pub(super) generation: u32,
    pub(super) closed: u64,
    /// The URRs that stopped, because of their limit or by control's will, and all that count before QoS.
    pub(super) stopped: u64,
    pub(super) counts: Counts,
    /// The slot that `near` is a copy of.
    pub(super) near_slot: u8,
    /// The URR slots below this count after QoS, the others before.
    pub(super) after_qos: u8,
    /// The meter that sessions share, or 0.
    pub(super) shared: u16,
    pub(super) near: PackedForward,
    pub(super) marks: [u16; NEAR_MARKS],
}

/// How many of each object the block has: where its lines are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Counts {
    pub(super) forwards: u8,
    pub(super) marks: u8,
    /// With `FLAG`: there are bounds.
    urrs: u8,
    /// Of one direction. With `FLAG`: one a line.
    meters: u8,
}

impl Face {
    /// The slots that do not count after QoS: those that count before it, and all that are none.
    pub(super) const fn never_after_qos(&self) -> u64 {
        !below(self.after_qos)
    }
}

/// What usual packets of one direction write, where they have a meter or count.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct Purse {
    /// Of the QER in slot 0. Unused where meters have a line each.
    pub(super) meter: Single,
    /// Of the URRs in the first slots.
    pub(super) tallies: [Tally; NEAR_URRS],
}

const _: () = assert!(size_of::<Purse>() == 64 && core::mem::offset_of!(Purse, tallies) == 32);

impl Purse {
    /// No meter, and nothing counted.
    pub(super) const NEW: Self = Self {
        meter: Single::UNLIMITED,
        tallies: [Tally::NONE; NEAR_URRS],
    };
}

const FLAG: u8 = 0x80;

/// Marks that a face holds itself.
pub(super) const NEAR_MARKS: usize = 4;
/// Marks in one of the lines that hold all of them where the faces do not.
pub(super) const MARKS_PER_LINE: usize = 32;
/// Counters in a line.
pub(super) const TALLIES_PER_LINE: usize = 4;
/// URRs whose counters are in purses.
pub(super) const NEAR_URRS: usize = 2;
/// Lines of faces and purses.
pub(super) const HEAD: usize = 4;

/// The line of a direction's face, from the block's start.
#[inline(always)]
pub(super) const fn face_at(direction: Direction) -> usize {
    2 * direction as usize
}

/// The line of a direction's purse.
#[inline(always)]
pub(super) const fn purse_at(direction: Direction) -> usize {
    face_at(direction) + 1
}

impl Counts {
    /// `None` when the image breaks a bound.
    pub(super) fn of(image: &BlockImage) -> Option<Self> {
        if !image.is_within_bounds() {
            return None;
        }
        let has_any = |meters: &[Option<_>; 2]| meters.iter().any(Option::is_some);
        let meters = image.meters.iter().rposition(has_any).map_or(0, |last| last + 1);
        let is_wide = image
            .meters
            .iter()
            .flatten()
            .flatten()
            .any(|spec| !spec.is_single());
        let is_bounded = image.bounds.iter().any(|bounds| *bounds != Bounds::NONE);
        Some(Self {
            forwards: image.forwards.len() as u8,
            marks: image.marks.len() as u8,
            urrs: image.urrs | if is_bounded { FLAG } else { 0 },
            meters: meters as u8 | if is_wide { FLAG } else { 0 },
        })
    }

    #[inline(always)]
    pub(super) const fn urrs(self) -> u8 {
        self.urrs & !FLAG
    }

    /// Whether there is a line of bounds for each URR.
    #[inline(always)]
    pub(super) const fn is_bounded(self) -> bool {
        self.urrs & FLAG != 0
    }

    /// The QER slots that have room for meters.
    #[inline(always)]
    pub(super) const fn meter_slots(self) -> u8 {
        self.meters & !FLAG
    }

    /// Whether only the QER in slot 0 has room for meters, in the purses.
    #[inline(always)]
    pub(super) const fn has_one_meter(self) -> bool {
        self.meters == 1
    }

    /// Whether meters have a line each.
    #[inline(always)]
    pub(super) const fn is_wide(self) -> bool {
        self.meters & FLAG != 0
    }

    /// Where the counters start that are not in purses, in lines from the block's start.
    pub(super) const COUNTERS_AT: usize = HEAD;

    /// Where the meters start that are not in purses.
    #[inline(always)]
    pub(super) const fn meters_at(self) -> usize {
        Self::COUNTERS_AT + (self.urrs() as usize).saturating_sub(NEAR_URRS).div_ceil(2)
    }

    /// Where the forwards start.
    #[inline(always)]
    pub(super) const fn forwards_at(self) -> usize {
        self.meters_at() + self.meter_lines()
    }

    /// Where the further marks start.
    #[inline(always)]
    pub(super) const fn marks_at(self) -> usize {
        self.forwards_at() + self.forwards as usize
    }

    /// Where the bounds start.
    pub(super) const fn bounds_at(self) -> usize {
        let marks = self.marks as usize;
        self.marks_at()
            + if marks > NEAR_MARKS {
                marks.div_ceil(MARKS_PER_LINE)
            } else {
                0
            }
    }

    /// Where what is rare starts.
    pub(super) const fn rare_at(self) -> usize {
        self.bounds_at()
            + if self.is_bounded() {
                self.urrs() as usize
            } else {
                0
            }
    }

    /// All of the block's lines.
    pub(super) const fn lines(self) -> usize {
        self.rare_at() + (self.urrs() as usize).div_ceil(RARE_PER_LINE)
    }
}

/// The line of a URR's counter in one direction, from the block's start, and the place there.
pub(super) const fn tally_at(slot: usize, direction: Direction) -> (usize, usize) {
    match slot.checked_sub(NEAR_URRS) {
        None => (purse_at(direction), TALLIES_PER_LINE - NEAR_URRS + slot),
        Some(further) => {
            let place = further * 2 + direction as usize;
            (
                Counts::COUNTERS_AT + place / TALLIES_PER_LINE,
                place % TALLIES_PER_LINE,
            )
        }
    }
}

/// What the two forms of a forward have in common.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct ForwardHead {
    adjacency: u32,
    egress: u16,
    flags: ForwardFlags,
    /// On top of the first word: its top bit is never set. With `MIRROR` or `MARKS_DSCP` in `flags`, or a `PLAIN_DSCP`,
    /// `UNUSUAL` stands beside the kind.
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

    /// Our address and the peer's, of an IPv4 tunnel.
    #[inline(always)]
    pub const fn addresses_v4(&self) -> ([u8; 4], [u8; 4]) {
        (self.source, self.destination)
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

    fn of(forward: &Forward) -> Self {
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
    use crate::meter::{MeterSpec, Rate};
    use crate::{UrrCount, Volumes};

    #[test]
    fn no_line_but_a_live_face_has_the_top_bit_of_its_first_word() {
        let tunnel = Template::ipv6(u32::MAX, [0xff; 16], [0xff; 16]);
        let forward = Forward {
            kind: ForwardKind::Punt,
            flags: ForwardFlags::from_bits(0xff),
            egress: InstanceId(u16::MAX),
            adjacency: AdjacencyId::BY_DESTINATION,
            template: Some(tunnel),
            dscp: None,
            mirror: Some(PortId(u16::MAX)),
        };
        let mark = Mark::NONE.with_qfi(63).with_rqi(true).with_ppi(7);
        for line in [Line::of_forward(&forward), Line::of_marks(&[mark; 32])] {
            assert_eq!(line.0[0] >> 63, 0);
        }
    }

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
        assert_eq!(packed.addresses_v4(), ([10, 0, 0, 1], [10, 0, 0, 2]));
        forward.template = Some(Template::ipv6(5, [1; 16], [2; 16]));
        assert_eq!(Line::of_forward(&forward).forward().forward(), forward);
        assert_eq!(PackedForward::from(&forward).version(), 6);
        let drop = PackedForward::from(&Forward::DROP);
        assert_eq!((drop.kind(), drop.version()), (ForwardKind::Drop, 0));
    }

    #[test]
    fn lines_follow_each_other_without_overlap() {
        let counts = Counts {
            forwards: 3,
            marks: 5,
            urrs: 5,
            meters: 3,
        };
        let starts = |counts: Counts| {
            [
                counts.meters_at(),
                counts.forwards_at(),
                counts.marks_at(),
                counts.bounds_at(),
                counts.rare_at(),
                counts.lines(),
            ]
        };
        assert_eq!(starts(counts), [6, 8, 11, 12, 12, 14]);
        assert_eq!(Counts { marks: 4, ..counts }.lines(), 13);
        let near = Counts {
            urrs: 2,
            meters: 1,
            ..counts
        };
        assert_eq!(starts(near), [4, 4, 7, 8, 8, 9]);
        let bounded = Counts {
            urrs: 3 | FLAG,
            meters: 5 | FLAG,
            ..counts
        };
        assert_eq!(starts(bounded), [5, 15, 18, 19, 22, 23]);
        let most = Counts {
            forwards: 250,
            marks: 64,
            urrs: 64 | FLAG,
            meters: 64 | FLAG,
        };
        assert_eq!(most.lines(), 4 + 31 + 128 + 250 + 2 + 64 + 16);
    }

    #[test]
    fn meters_and_bounds_keep_the_top_bit_clear() {
        let deepest = MeterSpec::TrTcm {
            cir: Rate::UNLIMITED,
            cbs: u64::MAX,
            pir: Rate::MAX,
            pbs: u64::MAX,
            aware: true,
        };
        let mut line = Line::ZERO;
        *line.meter_mut() = Meter::new(deepest);
        assert_eq!(line.0[0] >> 63, 0);
        *line.purse_mut() = Purse::NEW;
        assert_eq!(line.0[0] >> 63, 0);
        for octets in [0, 1, u64::MAX] {
            let bounds = Bounds {
                watermarks: Volumes::of_total(octets),
                limit: None,
            };
            *line.bounds_mut() = BoundsLine::of(&bounds);
            line.bounds_mut().arm(UrrCount::default());
            assert_eq!(line.0[0] >> 63, 0, "{octets}");
        }
    }
}
