//! A session block as its packets use it.

use super::lines::{Counts, FACES, Face, ForwardLine, Line, MARKS_PER_LINE, NEAR_MARKS, PackedForward};
use crate::{Direction, Forward, Mark, SessionIndex};

/// A block under one packet, whose flow entry was found valid.
pub struct LiveBlock<'a> {
    /// That of `direction`, and the other one.
    pub(super) face: &'a mut Line,
    pub(super) other: &'a mut Line,
    /// The lines after both faces, up to the slab's end.
    pub(super) objects: &'a mut [Line],
    pub(super) direction: Direction,
}

impl<'a> LiveBlock<'a> {
    /// `None` unless a block of this generation starts with `lines`.
    #[inline(always)]
    pub(super) fn new(lines: &'a mut [Line], generation: u32, direction: Direction) -> Option<Self> {
        let (faces, objects) = lines.split_first_chunk_mut::<FACES>()?;
        let [uplink, downlink] = faces;
        let (face, other) = match direction {
            Direction::Uplink => (uplink, downlink),
            Direction::Downlink => (downlink, uplink),
        };
        let live = Self {
            face,
            other,
            objects,
            direction,
        };
        (live.face().generation == generation && generation != 0).then_some(live)
    }

    #[inline(always)]
    pub(super) fn face(&self) -> &Face {
        self.face.face()
    }

    /// Which way its packets go.
    #[inline]
    pub const fn direction(&self) -> Direction {
        self.direction
    }

    /// The session.
    #[inline(always)]
    pub fn session(&self) -> SessionIndex {
        SessionIndex(self.face().session)
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction.
    #[inline(always)]
    pub fn is_closed(&self, qers: u64) -> bool {
        self.face().closed & qers != 0
    }

    /// Whether there is any meter to pass, the session's own or one that it shares.
    #[inline(always)]
    pub fn is_metered(&self) -> bool {
        let face = self.face();
        face.counts.meter_slots() != 0 || face.shared != 0
    }

    /// The forward in `slot`; one that drops where there is none.
    #[inline(always)]
    pub fn forward(&self, slot: u8) -> PackedForward {
        if slot == self.face().near_slot {
            self.face().near
        } else {
            self.far_forward(slot)
        }
    }

    /// As `forward`, from the forward's own line.
    #[cold]
    fn far_forward(&self, slot: u8) -> PackedForward {
        far_line(self.face(), self.objects, slot)
            .map_or_else(|| PackedForward::from(&Forward::DROP), ForwardLine::packed)
    }

    /// The forward in `slot` with all that is to be known of it, from its own line; [`Forward::DROP`] where there is
    /// none.
    #[cold]
    pub fn whole_forward(&self, slot: u8) -> Forward {
        far_line(self.face(), self.objects, slot).map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    #[inline(always)]
    pub fn mark(&self, slot: u8) -> Mark {
        mark(self.face(), self.objects, slot)
    }
}

/// A mask of the `count` lowest bits.
#[inline(always)]
pub(super) const fn below(count: u8) -> u64 {
    match u64::MAX.checked_shr(64 - count as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

pub(super) fn far_line<'a>(face: &Face, objects: &'a [Line], slot: u8) -> Option<&'a ForwardLine> {
    if slot >= face.counts.forwards {
        return None;
    }
    let line = face.counts.forwards_at() - FACES + usize::from(slot);
    objects.get(line).map(Line::forward)
}

#[inline(always)]
pub(super) fn mark(face: &Face, objects: &[Line], slot: u8) -> Mark {
    if slot >= face.counts.marks {
        return Mark::NONE;
    }
    let slot = usize::from(slot);
    match face.marks.get(slot) {
        Some(&bits) => Mark::from_bits(bits),
        None => far_mark(face.counts, objects, slot),
    }
}

#[cold]
fn far_mark(counts: Counts, objects: &[Line], slot: usize) -> Mark {
    let line = counts.marks_at() - FACES + slot / MARKS_PER_LINE;
    objects.get(line).map_or(Mark::NONE, |line| {
        Mark::from_bits(line.marks()[slot % MARKS_PER_LINE])
    })
}

const _: () = assert!(size_of::<Face>() == 64 && NEAR_MARKS == 4);
