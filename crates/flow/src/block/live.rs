//! A session block as its packets use it.

use super::forwards::{ForwardLine, PackedForward};
use super::group_totals::SessionGroupId;
use super::layout::{HEAD, read_line_at, write_line_at};
use super::lines::{Line, ReadLine, WriteLine};
use crate::{Direction, Forward, Mark, SessionIndex};

/// A block under one packet, whose flow entry was found valid.
pub struct LiveBlock<'a> {
    /// Read lines and write lines.
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
        (live.read_line().generation == generation && generation != 0).then_some(live)
    }

    /// The same, for what is called rarely: so the original need not be in memory.
    #[inline(always)]
    pub(super) fn reborrow(&mut self) -> LiveBlock<'_> {
        LiveBlock {
            head: self.head,
            objects: self.objects,
            direction: self.direction,
        }
    }

    #[inline(always)]
    pub(super) fn read_line(&self) -> &ReadLine {
        self.head[read_line_at(self.direction)].read_line()
    }

    pub(super) fn read_line_mut(&mut self, direction: Direction) -> &mut ReadLine {
        self.head[read_line_at(direction)].read_line_mut()
    }

    #[inline(always)]
    pub(super) fn write_line_mut(&mut self) -> &mut WriteLine {
        self.head[write_line_at(self.direction)].write_line_mut()
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
        self.read_line().session()
    }

    /// In whose total its packets count.
    #[inline(always)]
    pub fn group(&self) -> SessionGroupId {
        self.read_line().group()
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction.
    #[inline(always)]
    pub fn is_closed(&self, qers: u64) -> bool {
        self.read_line().closed & qers != 0
    }

    /// Whether there is any meter to pass, the session's own or one that it shares.
    #[inline(always)]
    pub fn is_metered(&self) -> bool {
        let read_line = self.read_line();
        read_line.counts.meter_slots() != 0 || read_line.shared != 0
    }

    /// The forward in `slot`; one that drops where there is none.
    #[inline(always)]
    pub fn forward(&self, slot: u8) -> PackedForward {
        forward_of(self.read_line(), self.objects, slot)
    }

    /// The forward in `slot` with all that is to be known of it, from its own line; [`Forward::DROP`] where there is
    /// none.
    #[cold]
    pub fn whole_forward(&self, slot: u8) -> Forward {
        let line = self.read_line().forward_line(self.objects, slot);
        line.map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    #[inline(always)]
    pub fn mark(&self, slot: u8) -> Mark {
        self.read_line().mark(self.objects, slot)
    }
}

/// The forward in `slot` of the block with this read line, and these lines behind its head.
#[inline(always)]
pub(super) fn forward_of(read_line: &ReadLine, objects: &[Line], slot: u8) -> PackedForward {
    if slot == read_line.inline_slot {
        read_line.inline
    } else {
        further_forward(read_line, objects, slot)
    }
}

/// A forward that is not in the read line, from its own line.
#[cold]
fn further_forward(read_line: &ReadLine, objects: &[Line], slot: u8) -> PackedForward {
    let line = read_line.forward_line(objects, slot);
    line.map_or_else(|| PackedForward::from(&Forward::DROP), ForwardLine::packed)
}
