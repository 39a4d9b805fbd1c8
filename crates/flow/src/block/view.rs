//! A session block as control's queries read it.

use super::bounds::{BoundsLine, Reached};
use super::lines::{Counts, Face, ForwardLine, HEAD, Line, face_at};
use super::live::{far_line, mark};
use super::tally::{PacketTimes, Tallied};
use crate::meter::SharedId;
use crate::{Direction, Forward, Mark, SessionIndex, UrrCount};

/// A block to read.
#[derive(Clone, Copy)]
pub struct SessionBlock<'a> {
    /// Faces and purses.
    head: &'a [Line; HEAD],
    /// The lines after them.
    objects: &'a [Line],
}

impl<'a> SessionBlock<'a> {
    /// `None` unless a live block starts with `lines`.
    pub(super) fn new(lines: &'a [Line]) -> Option<Self> {
        let (head, objects) = lines.split_first_chunk()?;
        let block = Self { head, objects };
        let [uplink, downlink] = Direction::BOTH.map(|direction| block.face(direction).generation);
        (uplink != 0 && uplink == downlink && uplink >> 31 == 1).then_some(block)
    }

    fn face(&self, direction: Direction) -> &'a Face {
        self.head[face_at(direction)].face()
    }

    /// The face of uplink, for what both faces say.
    fn any_face(&self) -> &'a Face {
        self.face(Direction::Uplink)
    }

    /// A line by its number, counted from the block's start.
    pub(super) fn line(&self, at: usize) -> Option<&'a Line> {
        match at.checked_sub(HEAD) {
            Some(at) => self.objects.get(at),
            None => self.head.get(at),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.any_face().counts
    }

    /// The session.
    pub fn session(&self) -> SessionIndex {
        SessionIndex(self.any_face().session)
    }

    /// The generation that valid flow entries hold.
    pub fn generation(&self) -> u32 {
        self.any_face().generation
    }

    /// The closed gates of a direction: bit n is the QER in slot n.
    pub fn closed(&self, direction: Direction) -> u64 {
        self.face(direction).closed
    }

    /// The URRs that stopped in a direction: bit n is slot n.
    pub fn stopped(&self, direction: Direction) -> u64 {
        let face = self.face(direction);
        face.stopped & !face.never_after_qos()
    }

    /// The meter that the session shares with others.
    pub fn shared(&self) -> SharedId {
        SharedId(self.any_face().shared)
    }

    /// How many forwards there are.
    pub fn forwards(&self) -> u8 {
        self.counts().forwards
    }

    /// How many URRs count here.
    pub fn urrs(&self) -> u8 {
        self.counts().urrs()
    }

    /// The forward in `slot`, which may be any number; [`Forward::DROP`] where there is none.
    pub fn forward(&self, slot: u8) -> Forward {
        far_line(self.any_face(), self.objects, slot).map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    pub fn mark(&self, slot: u8) -> Mark {
        mark(self.any_face(), self.objects, slot)
    }

    /// What the URR in `slot` has counted since it was installed.
    pub fn urr(&self, slot: u8) -> Option<UrrCount> {
        Some(self.counted(slot, self.tallied(slot)?.count()))
    }

    /// When the packets of the URR in `slot` came that it has counted since that was last taken, if there were any.
    pub fn times(&self, slot: u8) -> Option<PacketTimes> {
        self.tallied(slot)?.times()
    }

    /// What the counters of a URR say, who may be ahead.
    pub(super) fn tallied(&self, slot: u8) -> Option<Tallied> {
        if slot >= self.urrs() {
            return None;
        }
        Tallied::read(self.counts(), slot.into(), |at| self.line(at))
    }

    fn counted(&self, slot: u8, raw: UrrCount) -> UrrCount {
        self.bounds_line(slot).map_or(raw, |bounds| bounds.counted(raw))
    }

    /// What the URR in `slot` has reached, of its watermarks and limits.
    pub fn reached(&self, slot: u8) -> Reached {
        self.bounds_line(slot)
            .map(BoundsLine::reached)
            .unwrap_or_default()
    }

    pub(super) fn bounds_line(&self, slot: u8) -> Option<&'a BoundsLine> {
        let counts = self.counts();
        let has_any = counts.is_bounded() && slot < counts.urrs();
        let line = self.line(counts.bounds_at() + usize::from(slot));
        line.filter(|_| has_any).map(Line::bounds)
    }
}
