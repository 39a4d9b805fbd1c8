//! A session block as control's queries read it.

use super::BlockRef;
use super::bounds::{BoundsLine, Raised, Reached};
use super::forwards::ForwardLine;
use super::group_totals::SessionGroupId;
use super::layout::{Counts, HEAD, MeterPlace, read_line_at};
use super::lines::{Line, ReadLine, tallied};
use super::tally::{PacketTimes, Tallied};
use crate::meter::{Meter, PacketState, SharedId, Tokens};
use crate::{Direction, FlowEntry, Forward, Mark, SessionIndex, UrrCount, Verdict};

/// A block to read.
#[derive(Clone, Copy)]
pub struct SessionBlock<'a> {
    /// Read lines and write lines.
    head: &'a [Line; HEAD],
    /// The lines after them.
    objects: &'a [Line],
}

impl<'a> SessionBlock<'a> {
    /// `None` unless a live block starts with `lines`.
    pub(super) fn new(lines: &'a [Line]) -> Option<Self> {
        let (head, objects) = lines.split_first_chunk()?;
        let block = Self { head, objects };
        let uplink = block.read_line(Direction::Uplink).generation;
        let downlink = block.read_line(Direction::Downlink).generation;
        (uplink != 0 && uplink == downlink && uplink >> 31 == 1).then_some(block)
    }

    fn read_line(&self, direction: Direction) -> &'a ReadLine {
        self.head[read_line_at(direction)].read_line()
    }

    /// The read line of uplink, for what both read lines say.
    fn any_read_line(&self) -> &'a ReadLine {
        self.read_line(Direction::Uplink)
    }

    /// A line by its number, counted from the block's start.
    pub(super) fn line(&self, at: usize) -> Option<&'a Line> {
        match at.checked_sub(HEAD) {
            Some(at) => self.objects.get(at),
            None => self.head.get(at),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.any_read_line().counts
    }

    /// The session.
    pub fn session(&self) -> SessionIndex {
        self.any_read_line().session()
    }

    /// In whose total its packets count.
    pub fn group(&self) -> SessionGroupId {
        self.any_read_line().group()
    }

    /// The generation that valid flow entries hold.
    pub fn generation(&self) -> u32 {
        self.any_read_line().generation
    }

    /// The closed gates of a direction: bit n is the QER in slot n.
    pub fn closed(&self, direction: Direction) -> u64 {
        self.read_line(direction).closed
    }

    /// The URRs that stopped in a direction: bit n is slot n.
    pub fn stopped(&self, direction: Direction) -> u64 {
        let read_line = self.read_line(direction);
        read_line.stopped & !read_line.never_after_qos()
    }

    /// The meter that the session shares with others.
    pub fn shared(&self) -> SharedId {
        SharedId(self.any_read_line().shared)
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
        let line = self.any_read_line().forward_line(self.objects, slot);
        line.map_or(Forward::DROP, ForwardLine::forward)
    }

    /// The mark of the QER in `slot`; [`Mark::NONE`] where there is none.
    pub fn mark(&self, slot: u8) -> Mark {
        self.any_read_line().mark(self.objects, slot)
    }

    /// What the URR in `slot` has counted since it was installed.
    pub fn urr(&self, slot: u8) -> Option<UrrCount> {
        Some(self.counted(slot, self.tallied(slot)?.count()))
    }

    /// When the packets of the URR in `slot` came that it has counted since that was last taken, if there were any.
    pub fn times(&self, slot: u8) -> Option<PacketTimes> {
        self.tallied(slot)?.times()
    }

    /// What the counters of a URR say, which may be ahead.
    pub(super) fn tallied(&self, slot: u8) -> Option<Tallied> {
        if slot >= self.urrs() {
            return None;
        }
        tallied(self.counts(), slot.into(), |at| self.line(at))
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

    /// The same, each bound by itself.
    pub fn raised(&self, slot: u8) -> Raised {
        self.bounds_line(slot).map(BoundsLine::raised).unwrap_or_default()
    }

    pub(super) fn bounds_line(&self, slot: u8) -> Option<&'a BoundsLine> {
        let counts = self.counts();
        let has_any = counts.is_bounded() && slot < counts.urrs();
        let line = self.line(counts.bounds_at() + usize::from(slot));
        line.filter(|_| has_any).map(Line::bounds)
    }

    /// The meter of the QER in `slot`; `None` where there is no limit.
    pub fn meter(&self, slot: u8, direction: Direction) -> Option<Meter> {
        self.any_meter(slot.into(), direction)
            .filter(|meter| !meter.is_unlimited())
    }

    /// What is left of the packet rate in `slot`; `None` where there is none.
    pub fn packets(&self, slot: u8, direction: Direction) -> Option<PacketState> {
        self.any_meter(slot.into(), direction)?.packets()
    }

    /// What the buckets of the bit rate in `slot` hold; `None` where there is none.
    pub fn tokens(&self, slot: u8, direction: Direction) -> Option<Tokens> {
        self.any_meter(slot.into(), direction)?.tokens()
    }

    pub(super) fn any_meter(&self, slot: usize, direction: Direction) -> Option<Meter> {
        let counts = self.counts();
        if slot >= usize::from(counts.meter_slots()) {
            return None;
        }
        match counts.meter_place(slot, direction) {
            MeterPlace::Whole(line) => self.line(line).map(|line| *line.meter()),
            MeterPlace::Half(line, half) => {
                self.line(line).map(|line| Meter::of_single(line.singles()[half]))
            }
        }
    }

    /// Which QERs have meters in a direction: bit n is slot n. A packet may offer itself to fewer than these.
    pub fn metered(&self, direction: Direction) -> u64 {
        let slots = 0..self.counts().meter_slots();
        let is_metered = |slot: &u8| self.meter(*slot, direction).is_some();
        slots.filter(is_metered).fold(0, |mask, slot| mask | 1 << slot)
    }

    /// What flow entries of these QERs and this direction hold in `meters`: the line of the first of them that is not
    /// in the line that all packets write, or else that line.
    pub fn meters_hint(&self, qers: u64, direction: Direction) -> u8 {
        self.counts().meters_hint(qers, direction)
    }

    /// Fills in what a flow entry of this block needs of it: block, generation, and the hint for its meters.
    pub fn fill_entry<K>(&self, block: BlockRef, entry: &mut FlowEntry<K>) {
        self.fill_verdict(block, &mut entry.verdict);
    }

    /// The same of an entry's verdict.
    pub fn fill_verdict(&self, block: BlockRef, verdict: &mut Verdict) {
        verdict.block = block;
        verdict.generation = self.generation();
        verdict.meters = self.meters_hint(verdict.qers, verdict.direction());
    }
}
