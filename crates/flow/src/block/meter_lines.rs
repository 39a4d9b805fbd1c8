//! Where the meters of a block lie: one for each QER slot up to the last that has any; the first in the purse of its
//! direction, the others two a line, the lines of one direction together. If any of them has three colours, all of the
//! block have a line each.

use super::lines::{Counts, Line, purse_at};
use super::{BlockImage, BlockRef, Blocks, SessionBlock};
use crate::meter::{Meter, MeterSpec, MeterState, PacketState, Single, Tokens};
use crate::{Direction, FlowEntry, Nanos};

/// Where a meter is.
#[derive(Clone, Copy)]
enum Place {
    /// This line, from the block's start, has no other.
    Whole(usize),
    /// Half of the line: 0 is the lower one. That of a purse is the lower one, too.
    Half(usize, usize),
}

impl Place {
    const fn line(self) -> usize {
        match self {
            Self::Whole(line) | Self::Half(line, _) => line,
        }
    }
}

impl Counts {
    /// Meters of one direction that are not in its purse.
    #[inline(always)]
    pub(super) const fn further_meters(self) -> usize {
        let slots = self.meter_slots() as usize;
        if self.is_wide() {
            slots
        } else {
            slots.saturating_sub(1)
        }
    }

    /// The lines of those of both directions.
    #[inline(always)]
    pub(super) const fn meter_lines(self) -> usize {
        // Two meters a line, of two directions: as many as one direction has.
        self.further_meters() * if self.is_wide() { 2 } else { 1 }
    }

    /// Where the meter of the QER in `slot` lies, which is one of the slots that have room for them.
    const fn meter_place(self, slot: usize, direction: Direction) -> Place {
        let before = direction as usize * self.further_meters();
        match slot.checked_sub(1) {
            _ if self.is_wide() => Place::Whole(self.meters_at() + before + slot),
            None => Place::Half(purse_at(direction), 0),
            Some(further) => {
                let half = before + further;
                Place::Half(self.meters_at() + half / 2, half % 2)
            }
        }
    }

    /// The line of the first meter of these QERs that is not in a purse, from the block's start; that of the purse if
    /// there is no other; 0: they have none.
    #[inline]
    pub(super) fn meters_hint(self, qers: u64, direction: Direction) -> u8 {
        let first = qers.trailing_zeros() as usize;
        let further = (qers & !1).trailing_zeros() as usize;
        let slots = usize::from(self.meter_slots());
        let slot = if further < slots && !self.is_wide() {
            further
        } else {
            first
        };
        if slot >= slots {
            return 0;
        }
        self.meter_place(slot, direction).line() as u8
    }
}

/// Writes all meters of an image, full, and unlimited ones where it has none.
pub(super) fn write(lines: &mut [Line], counts: Counts, image: &BlockImage) {
    // A line may hold one more than there are slots for.
    let start = counts.meters_at();
    if !counts.is_wide()
        && let Some(lines) = lines.get_mut(start..start + counts.meter_lines())
    {
        Line::all_singles_mut(lines).fill(Single::UNLIMITED);
    }
    for direction in Direction::BOTH {
        for slot in 0..usize::from(counts.meter_slots()) {
            let spec = image.meters.get(slot).and_then(|specs| specs[direction as usize]);
            let meter = spec.map_or(Meter::UNLIMITED, Meter::new);
            store(lines, counts.meter_place(slot, direction), &meter);
        }
    }
}

/// Writes a meter into a block's lines; tells whether it fits there.
fn store(lines: &mut [Line], place: Place, meter: &Meter) -> bool {
    match (place, lines.get_mut(place.line()), meter.as_single()) {
        (Place::Whole(_), Some(line), _) => *line.meter_mut() = *meter,
        (Place::Half(_, half), Some(line), Some(single)) => line.singles_mut()[half] = single,
        _ => return false,
    }
    true
}

impl SessionBlock<'_> {
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
            Place::Whole(line) => self.line(line).map(|line| *line.meter()),
            Place::Half(line, half) => self.line(line).map(|line| Meter::of_single(line.singles()[half])),
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
        entry.block = block;
        entry.generation = self.generation();
        entry.meters = self.meters_hint(entry.qers, entry.direction());
    }
}

impl Blocks {
    /// Changes the meter of the QER in `slot` and keeps what it holds, as far as it fits. Tells whether there is such
    /// a block and room for such a meter in it; else the block is to be [replaced](Self::replace).
    pub fn set_meter(
        &mut self,
        block: BlockRef,
        slot: u8,
        direction: Direction,
        spec: Option<MeterSpec>,
    ) -> bool {
        let new = spec.map_or(Meter::UNLIMITED, Meter::new);
        self.change_meter(block, slot, direction, |old| {
            let mut meter = new;
            if !old.is_unlimited() {
                meter.go_on(old);
            }
            meter
        })
    }

    /// Lets the meter of the QER in `slot` hold what a meter elsewhere held. Tells whether there is such a meter.
    pub fn set_meter_state(
        &mut self,
        block: BlockRef,
        slot: u8,
        direction: Direction,
        state: MeterState,
    ) -> bool {
        self.change_meter(block, slot, direction, |old| {
            let mut meter = *old;
            meter.set_state(state);
            meter
        })
    }

    /// Lets the buckets of the bit rate in `slot` hold what those of another process held, and what they have earned
    /// since. Does nothing where there is none.
    pub fn set_tokens(
        &mut self,
        block: BlockRef,
        (slot, direction): (u8, Direction),
        tokens: Tokens,
        now: Nanos,
    ) {
        self.alter_meter(block, slot, direction, |meter| meter.set_tokens(tokens, now));
    }

    /// Lets this be what is left of the packet rate in `slot`. Does nothing where there is none.
    pub fn set_packets(&mut self, block: BlockRef, slot: u8, direction: Direction, state: PacketState) {
        self.alter_meter(block, slot, direction, |meter| meter.set_packets(state));
    }

    /// Adds to what is left of the packet rate in `slot` what was left elsewhere of the same unit of time.
    pub fn join_packets(&mut self, block: BlockRef, slot: u8, direction: Direction, state: PacketState) {
        self.alter_meter(block, slot, direction, |meter| meter.join_packets(state));
    }

    /// Takes half of what is left of the packet rate in `slot`, and tells what that is; `None` where there is none.
    pub fn halve_packets(&mut self, block: BlockRef, slot: u8, direction: Direction) -> Option<PacketState> {
        let mut given = None;
        self.alter_meter(block, slot, direction, |meter| given = meter.halve_packets());
        given
    }

    fn alter_meter(
        &mut self,
        block: BlockRef,
        slot: u8,
        direction: Direction,
        alter: impl FnOnce(&mut Meter),
    ) {
        self.change_meter(block, slot, direction, |old| {
            let mut meter = *old;
            alter(&mut meter);
            meter
        });
    }

    /// Lets the meters of a block earn what they are due at `now`. Before their rates change, so that no time is paid
    /// for at a rate that did not hold then.
    pub fn settle_meters(&mut self, block: BlockRef, now: Nanos) {
        self.change_meters(block, |meter| meter.refill(now.0));
    }

    /// Takes everything out of the meters of a block: they earn from `now` on.
    pub fn empty_meters(&mut self, block: BlockRef, now: Nanos) {
        self.change_meters(block, |meter| meter.empty(now.0));
    }

    fn change_meters(&mut self, block: BlockRef, change: impl Fn(&mut Meter)) {
        let slots = self.get(block).map_or(0, |block| block.counts().meter_slots());
        for slot in 0..slots {
            for direction in Direction::BOTH {
                self.change_meter(block, slot, direction, |old| {
                    let mut meter = *old;
                    if !meter.is_unlimited() {
                        change(&mut meter);
                    }
                    meter
                });
            }
        }
    }

    pub(super) fn change_meter(
        &mut self,
        block: BlockRef,
        slot: u8,
        direction: Direction,
        change: impl FnOnce(&Meter) -> Meter,
    ) -> bool {
        let Some(counts) = self.get(block).map(|block| block.counts()) else {
            return false;
        };
        if slot >= counts.meter_slots() {
            return false;
        }
        let old = self
            .get(block)
            .and_then(|block| block.any_meter(slot.into(), direction));
        let Some(lines) = self.lines_mut(block, 0..counts.forwards_at()) else {
            return false;
        };
        let place = counts.meter_place(slot.into(), direction);
        old.is_some_and(|old| store(lines, place, &change(&old)))
    }
}
