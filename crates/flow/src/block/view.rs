//! A session block as control's queries read it.

use super::bounds::{BoundsLine, Reached};
use super::lines::{Counts, FACES, Face, ForwardLine, Line};
use super::live::{far_line, mark};
use super::tally::{PacketTimes, RARE_PER_LINE, Tallied};
use crate::meter::SharedId;
use crate::{Direction, Forward, Mark, SessionIndex, UrrCount};

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

    /// Some of the lines, counted from the block's start.
    pub(super) fn lines(&self, range: core::ops::Range<usize>) -> Option<&'a [Line]> {
        self.objects.get(range.start - FACES..range.end - FACES)
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

    /// The URRs that stopped in a direction: bit n is slot n.
    pub fn stopped(&self, direction: Direction) -> u64 {
        self.faces[direction as usize].stopped
    }

    /// The meter that the session shares with others.
    pub fn shared(&self) -> SharedId {
        SharedId(self.faces[0].shared)
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
        far_line(self.faces[0], self.objects, slot).map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    pub fn mark(&self, slot: u8) -> Mark {
        mark(self.faces[0], self.objects, slot)
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
        let place = (slot < self.urrs()).then_some(usize::from(slot))?;
        let rare = self.counts().rare_at() - FACES + place / RARE_PER_LINE;
        Some(Tallied {
            tallies: self.objects.get(place / 2)?.counters().0[place % 2],
            rare: self.objects.get(rare)?.rare()[place % RARE_PER_LINE],
        })
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
        let at = counts.bounds_at() + usize::from(slot);
        has_any
            .then(|| self.lines(at..at + 1))??
            .first()
            .map(Line::bounds)
    }
}
