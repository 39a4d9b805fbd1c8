//! The cache lines of a block, as they are in memory.
//!
//! ```text
//! line 0        read line of uplink     generation, closed gates, inline forward, first marks
//! line 1        write line of uplink    meter of the first QER, counters of the first 2 URRs
//! line 2        read line of downlink   the same for the other direction
//! line 3        write line of downlink
//! counters      2 URRs a line      uplink and downlink packets and octets, from the third URR on
//! meters        2 or 1 a line      those of uplink, then those of downlink (see docs/adr/0004): from the second QER
//!                                  on where there are 2 a line, else all
//! forwards      1 a line
//! further marks 32 a line          only where the read lines do not hold all
//! bounds        1 URR a line       only where a URR of the block has watermarks or a limit
//! rare          4 URRs a line      what few packets write of them
//! ```
//!
//! In every kind of line but a live read line, bit 63 of the first word is clear; every generation has that bit. So a
//! reference to a read line that is gone cannot take the line that is there now for a read line.
//!
//! A block begins at a line of even number. So read line and write line of a direction are a pair of 128 octets, which
//! many processors fetch together: a packet with a meter and two counters needs no more than this pair of its block.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute, transmute_mut, transmute_ref};

use super::bounds::BoundsLine;
use super::forwards::{ForwardLine, PackedForward};
use super::group_totals::SessionGroupId;
use super::layout::{
    Counts, HEAD, INLINE_MARKS, INLINE_URRS, MARKS_PER_LINE, TALLIES_PER_LINE, below, tally_at,
};
use super::tally::{RARE_PER_LINE, Rare, Tallied, Tally};
use crate::meter::{Meter, Single};
use crate::{Direction, Forward, Mark, SessionIndex};

// `ReadLine::generation` is the upper half of the line's first word only then.
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
    pub(super) fn read_line(&self) -> &ReadLine {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn read_line_mut(&mut self) -> &mut ReadLine {
        transmute_mut!(&mut self.0)
    }

    #[inline(always)]
    pub(super) fn write_line(&self) -> &WriteLine {
        transmute_ref!(&self.0)
    }

    /// The counters in a line, of a write line from the third on.
    #[inline(always)]
    pub(super) fn tallies(&self) -> &[Tally; TALLIES_PER_LINE] {
        transmute_ref!(&self.0)
    }

    #[inline(always)]
    pub(super) fn tallies_mut(&mut self) -> &mut [Tally; TALLIES_PER_LINE] {
        transmute_mut!(&mut self.0)
    }

    #[inline(always)]
    pub(super) fn write_line_mut(&mut self) -> &mut WriteLine {
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
pub(super) struct ReadLine {
    /// The session's index, and on top of it the number of its group.
    pub(super) owner: u32,
    /// 0: dead.
    pub(super) generation: u32,
    pub(super) closed: u64,
    /// The URRs that stopped, because of their limit or by control's will, and all that count before QoS.
    pub(super) stopped: u64,
    pub(super) counts: Counts,
    /// The slot that `inline` is a copy of.
    pub(super) inline_slot: u8,
    /// The URR slots below this count after QoS, the others before.
    pub(super) after_qos: u8,
    /// The meter that sessions share, or 0.
    pub(super) shared: u16,
    pub(super) inline: PackedForward,
    pub(super) marks: [u16; INLINE_MARKS],
}

/// Bits of a session's index in a read line; those above have the number of its group.
const SESSION_BITS: u32 = 23;
const _: () = assert!(SessionGroupId::NUMBERS == 1 << (u32::BITS - SESSION_BITS));

impl ReadLine {
    /// Sessions with a block have a lower index.
    pub(super) const SESSIONS: u32 = 1 << SESSION_BITS;

    /// The same, of a session that is in a group.
    pub(super) fn of(self, session: SessionIndex, group: SessionGroupId) -> Self {
        let owner = (session.0 % Self::SESSIONS) | ((group.index() as u32) << SESSION_BITS);
        Self { owner, ..self }
    }

    #[inline(always)]
    pub(super) const fn session(&self) -> SessionIndex {
        SessionIndex(self.owner % Self::SESSIONS)
    }

    #[inline(always)]
    pub(super) const fn group(&self) -> SessionGroupId {
        SessionGroupId::of_bits(self.owner >> SESSION_BITS)
    }

    /// The slots that do not count after QoS: those that count before it, and all that are none.
    pub(super) const fn never_after_qos(&self) -> u64 {
        !below(self.after_qos)
    }

    /// The line of the forward in `slot`, among the lines of the block behind its head.
    pub(super) fn forward_line<'a>(&self, objects: &'a [Line], slot: u8) -> Option<&'a ForwardLine> {
        if slot >= self.counts.forwards {
            return None;
        }
        let line = self.counts.forwards_at() - HEAD + usize::from(slot);
        objects.get(line).map(Line::forward)
    }

    /// The mark of the QER in `slot`, from here or from the lines behind the block's head.
    #[inline(always)]
    pub(super) fn mark(&self, objects: &[Line], slot: u8) -> Mark {
        if slot >= self.counts.marks {
            return Mark::NONE;
        }
        let slot = usize::from(slot);
        match self.marks.get(slot) {
            Some(&bits) => Mark::from_bits(bits),
            None => further_mark(self.counts, objects, slot),
        }
    }
}

#[cold]
fn further_mark(counts: Counts, objects: &[Line], slot: usize) -> Mark {
    let line = counts.marks_at() - HEAD + slot / MARKS_PER_LINE;
    objects.get(line).map_or(Mark::NONE, |line| {
        Mark::from_bits(line.marks()[slot % MARKS_PER_LINE])
    })
}

const _: () = assert!(size_of::<ReadLine>() == 64 && INLINE_MARKS == 4);

/// What usual packets of one direction write, where they have a meter or count.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct WriteLine {
    /// Of the QER in slot 0. Unused where meters have a line each.
    pub(super) meter: Single,
    /// Of the URRs in the first slots.
    pub(super) tallies: [Tally; INLINE_URRS],
}

const _: () = assert!(size_of::<WriteLine>() == 64 && core::mem::offset_of!(WriteLine, tallies) == 32);

impl WriteLine {
    /// No meter, and nothing counted.
    pub(super) const NEW: Self = Self {
        meter: Single::UNLIMITED,
        tallies: [Tally::NONE; INLINE_URRS],
    };
}

/// What the counters of the URR in `slot` say, out of a block's lines by their numbers.
pub(super) fn tallied<'a>(
    counts: Counts,
    slot: usize,
    line: impl Fn(usize) -> Option<&'a Line>,
) -> Option<Tallied> {
    let tally = |direction| {
        let position = tally_at(slot, direction);
        line(position.line)?.tallies().get(position.index).copied()
    };
    let [uplink, downlink] = Direction::BOTH.map(tally);
    let rare = line(counts.rare_at() + slot / RARE_PER_LINE)?.rare()[slot % RARE_PER_LINE];
    Some(Tallied {
        tallies: [uplink?, downlink?],
        rare,
    })
}

#[cfg(test)]
mod tests {
    use super::super::bounds::{Bounds, LookEvery};
    use super::*;
    use crate::meter::{MeterSpec, Rate};
    use crate::{AdjacencyId, ForwardFlags, ForwardKind, InstanceId, PortId, Template, UrrCount, Volumes};

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
        *line.write_line_mut() = WriteLine::NEW;
        assert_eq!(line.0[0] >> 63, 0);
        for octets in [0, 1, u64::MAX] {
            let bounds = Bounds {
                watermarks: Volumes::of_total(octets),
                limit: None,
            };
            *line.bounds_mut() = BoundsLine::of(&bounds, LookEvery::of(u64::MAX));
            line.bounds_mut().arm(UrrCount::default());
            assert_eq!(line.0[0] >> 63, 0, "{octets}");
        }
    }
}
