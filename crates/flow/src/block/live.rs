//! A session block as its packets use it.

use super::lines::{
    Counts, Face, ForwardLine, HEAD, Line, MARKS_PER_LINE, NEAR_MARKS, PackedForward, Purse, face_at,
    purse_at,
};
use crate::{Direction, Forward, Mark, SessionIndex};

/// A block under one packet, whose flow entry was found valid.
pub struct LiveBlock<'a> {
    /// Faces and purses.
    pub(super) head: &'a mut [Line; HEAD],
    /// The lines after them, up to the slab's end.
    pub(super) objects: &'a mut [Line],
    pub(super) direction: Direction,
}

impl<'a> LiveBlock<'a> {
    /// `None` unless a block of this generation starts with `lines`.
    #[inline(always)]
    pub(super) fn new(lines: &'a mut [Line], generation: u32, direction: Direction) -> Option<Self> {
        let (head, objects) = lines.split_first_chunk_mut::<HEAD>()?;
        let live = Self {
            head,
            objects,
            direction,
        };
        (live.face().generation == generation && generation != 0).then_some(live)
    }

    /// The same, for what is called seldom: so the original need not lie in memory.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> LiveBlock<'_> {
        LiveBlock {
            head: self.head,
            objects: self.objects,
            direction: self.direction,
        }
    }

    #[inline(always)]
    pub(super) fn face(&self) -> &Face {
        self.head[face_at(self.direction)].face()
    }

    pub(super) fn face_mut(&mut self, direction: Direction) -> &mut Face {
        self.head[face_at(direction)].face_mut()
    }

    #[inline(always)]
    pub(super) fn purse_mut(&mut self) -> &mut Purse {
        self.head[purse_at(self.direction)].purse_mut()
    }

    /// A line by its number, counted from the block's start.
    pub(super) fn line(&self, at: usize) -> Option<&Line> {
        match at.checked_sub(HEAD) {
            Some(at) => self.objects.get(at),
            None => self.head.get(at),
        }
    }

    pub(super) fn line_mut(&mut self, at: usize) -> Option<&mut Line> {
        match at.checked_sub(HEAD) {
            Some(at) => self.objects.get_mut(at),
            None => self.head.get_mut(at),
        }
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
            far_forward(self.face(), self.objects, slot)
        }
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

/// A forward that is not near, from its own line.
#[cold]
fn far_forward(face: &Face, objects: &[Line], slot: u8) -> PackedForward {
    far_line(face, objects, slot).map_or_else(|| PackedForward::from(&Forward::DROP), ForwardLine::packed)
}

pub(super) fn far_line<'a>(face: &Face, objects: &'a [Line], slot: u8) -> Option<&'a ForwardLine> {
    if slot >= face.counts.forwards {
        return None;
    }
    let line = face.counts.forwards_at() - HEAD + usize::from(slot);
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
    let line = counts.marks_at() - HEAD + slot / MARKS_PER_LINE;
    objects.get(line).map_or(Mark::NONE, |line| {
        Mark::from_bits(line.marks()[slot % MARKS_PER_LINE])
    })
}

const _: () = assert!(size_of::<Face>() == 64 && NEAR_MARKS == 4);
