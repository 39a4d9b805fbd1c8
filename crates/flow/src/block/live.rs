//! Two views of a session block: as its packets use it, and as control's queries read it.

use super::lines::{Counts, FACES, Face, ForwardLine, Line, MARKS_PER_LINE, NEAR_MARKS, PackedForward};
use crate::{Direction, Forward, Mark, SessionIndex, UrrCount};

/// A block under one packet, whose flow entry was found valid.
pub struct LiveBlock<'a> {
    face: &'a Face,
    /// The lines after both faces, up to the slab's end.
    objects: &'a mut [Line],
    direction: Direction,
}

impl<'a> LiveBlock<'a> {
    /// `None` unless a block of this generation starts with `lines`.
    #[inline(always)]
    pub(super) fn new(lines: &'a mut [Line], generation: u32, direction: Direction) -> Option<Self> {
        let (faces, objects) = lines.split_at_mut_checked(FACES)?;
        let face = faces[direction as usize].face();
        (face.generation == generation && generation != 0).then_some(Self {
            face,
            objects,
            direction,
        })
    }

    /// The session.
    #[inline(always)]
    pub const fn session(&self) -> SessionIndex {
        SessionIndex(self.face.session)
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction.
    #[inline(always)]
    pub const fn is_closed(&self, qers: u64) -> bool {
        self.face.closed & qers != 0
    }

    /// The forward in `slot`; one that drops where there is none.
    #[inline(always)]
    pub fn forward(&self, slot: u8) -> PackedForward {
        if slot == self.face.near_slot {
            self.face.near
        } else {
            self.far_forward(slot)
        }
    }

    /// As `forward`, from the forward's own line.
    #[cold]
    fn far_forward(&self, slot: u8) -> PackedForward {
        far_line(self.face, self.objects, slot)
            .map_or_else(|| PackedForward::from(&Forward::DROP), ForwardLine::packed)
    }

    /// The forward in `slot` with all that is to be known of it, from its own line; [`Forward::DROP`] where there is
    /// none.
    #[cold]
    pub fn whole_forward(&self, slot: u8) -> Forward {
        far_line(self.face, self.objects, slot).map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    #[inline(always)]
    pub fn mark(&self, slot: u8) -> Mark {
        mark(self.face, self.objects, slot)
    }

    /// The line of the block's first meters of this direction, as plain words.
    #[inline(always)]
    pub(crate) fn meter_words(&mut self) -> Option<&mut [u64; 8]> {
        let line = self.face.counts.meters_at() - FACES + self.direction as usize;
        self.objects.get_mut(line).map(Line::words_mut)
    }

    /// Counts one packet of `octets` octets (of the inner IP packet) in these URRs.
    #[inline(always)]
    pub fn count(&mut self, urrs: u64, octets: u64) {
        let counts = Line::counts_mut(self.objects);
        let mut left = urrs & below(self.face.counts.urrs);
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            if let Some(count) = counts.get_mut(slot * 2 + self.direction as usize) {
                count.add(octets);
            }
            left &= left - 1;
        }
    }

    /// Takes one packet back that was [counted](Self::count) with the same arguments, and then lost.
    #[cold]
    pub fn uncount(&mut self, urrs: u64, octets: u64) {
        let direction = self.direction as usize;
        let counts = Line::counts_mut(self.objects).chunks_mut(Direction::BOTH.len());
        let urrs = urrs & below(self.face.counts.urrs);
        for (slot, count) in counts.enumerate().take(u64::BITS as usize) {
            if urrs >> slot & 1 != 0
                && let Some(count) = count.get_mut(direction)
            {
                count.take_back(octets);
            }
        }
    }
}

/// A block to read.
#[derive(Clone, Copy)]
pub struct SessionBlock<'a> {
    faces: [&'a Face; FACES],
    objects: &'a [Line],
}

impl<'a> SessionBlock<'a> {
    /// `None` unless a live block starts with `lines`.
    pub(super) fn new(lines: &'a [Line]) -> Option<Self> {
        let ([uplink, downlink], objects) = lines.split_first_chunk()?;
        let faces = [uplink.face(), downlink.face()];
        let is_live = faces[0].generation != 0
            && faces[0].generation == faces[1].generation
            && faces[0].generation >> 31 == 1;
        is_live.then_some(Self { faces, objects })
    }

    pub(super) fn counts(&self) -> Counts {
        self.faces[0].counts
    }

    /// The session.
    pub fn session(&self) -> SessionIndex {
        SessionIndex(self.faces[0].session)
    }

    /// The generation that valid flow entries hold.
    pub fn generation(&self) -> u32 {
        self.faces[0].generation
    }

    /// The closed gates of a direction: bit n is the QER in slot n.
    pub fn closed(&self, direction: Direction) -> u64 {
        self.faces[direction as usize].closed
    }

    /// How many forwards there are.
    pub fn forwards(&self) -> u8 {
        self.counts().forwards
    }

    /// How many URRs count here.
    pub fn urrs(&self) -> u8 {
        self.counts().urrs
    }

    /// The forward in `slot`, which may be any number; [`Forward::DROP`] where there is none.
    pub fn forward(&self, slot: u8) -> Forward {
        far_line(self.faces[0], self.objects, slot).map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    pub fn mark(&self, slot: u8) -> Mark {
        mark(self.faces[0], self.objects, slot)
    }

    /// What the URR in `slot` has counted since it was installed.
    pub fn urr(&self, slot: u8) -> Option<UrrCount> {
        let slot = (slot < self.urrs()).then_some(usize::from(slot))?;
        self.objects.get(slot / 2).map(|line| line.counters().urr(slot))
    }
}

/// A mask of the `count` lowest bits.
#[inline(always)]
const fn below(count: u8) -> u64 {
    match u64::MAX.checked_shr(64 - count as u32) {
        Some(mask) => mask,
        None => 0,
    }
}

fn far_line<'a>(face: &Face, objects: &'a [Line], slot: u8) -> Option<&'a ForwardLine> {
    if slot >= face.counts.forwards {
        return None;
    }
    let line = face.counts.forwards_at() - FACES + usize::from(slot);
    objects.get(line).map(Line::forward)
}

#[inline(always)]
fn mark(face: &Face, objects: &[Line], slot: u8) -> Mark {
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
