//! Where the meters of a block lie: one for each QER slot up to the last that has any, two a line, the lines of one
//! direction together. If any of them has three colours, all of the block have a line each.

use super::lines::{Counts, Line};
use super::{BlockImage, BlockRef, Blocks, SessionBlock};
use crate::meter::{Meter, MeterSpec, MeterState, PacketState};
use crate::{Direction, FlowEntry, Nanos};

impl Counts {
    /// The lines of a direction's meters, counted from the block's start.
    #[inline(always)]
    pub(super) const fn meter_lines(self, direction: Direction) -> core::ops::Range<usize> {
        let start = self.meters_at() + direction as usize * self.meter_lines_each();
        start..start + self.meter_lines_each()
    }

    /// The line of the first meter of these QERs, from the block's start; 0: they have none.
    #[inline]
    pub(super) fn meters_hint(self, qers: u64, direction: Direction) -> u8 {
        let slot = qers.trailing_zeros() as usize;
        if slot >= usize::from(self.meter_slots()) {
            return 0;
        }
        let line = if self.is_wide() { slot } else { slot / 2 };
        (self.meter_lines(direction).start + line) as u8
    }
}

/// The meter in a slot of a direction's lines.
pub(super) fn load(lines: &[Line], is_wide: bool, slot: usize) -> Option<Meter> {
    if is_wide {
        return lines.get(slot).map(|line| *line.meter());
    }
    let pair = lines.get(slot / 2)?.singles();
    Some(Meter::of_single(pair[slot % 2]))
}

/// Writes the meter in a slot; tells whether it fits there.
pub(super) fn store(lines: &mut [Line], is_wide: bool, slot: usize, meter: &Meter) -> bool {
    let line = lines.get_mut(if is_wide { slot } else { slot / 2 });
    match (line, meter.as_single()) {
        (Some(line), _) if is_wide => *line.meter_mut() = *meter,
        (Some(line), Some(single)) => line.singles_mut()[slot % 2] = single,
        _ => return false,
    }
    true
}

/// Writes all meters of an image, full.
pub(super) fn write(lines: &mut [Line], counts: Counts, image: &BlockImage) {
    for direction in Direction::BOTH {
        let Some(lines) = lines.get_mut(counts.meter_lines(direction)) else {
            return;
        };
        let places = if counts.is_wide() {
            lines.len()
        } else {
            lines.len() * 2
        };
        for slot in 0..places {
            let spec = image.meters.get(slot).and_then(|specs| specs[direction as usize]);
            store(
                lines,
                counts.is_wide(),
                slot,
                &spec.map_or(Meter::UNLIMITED, Meter::new),
            );
        }
    }
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

    pub(super) fn any_meter(&self, slot: usize, direction: Direction) -> Option<Meter> {
        let lines = self.lines(self.counts().meter_lines(direction))?;
        load(lines, self.counts().is_wide(), slot)
    }

    /// Which QERs have meters in a direction: bit n is slot n. A packet may offer itself to fewer than these.
    pub fn metered(&self, direction: Direction) -> u64 {
        let slots = 0..self.counts().meter_slots();
        let is_metered = |slot: &u8| self.meter(*slot, direction).is_some();
        slots.filter(is_metered).fold(0, |mask, slot| mask | 1 << slot)
    }

    /// What flow entries of these QERs and this direction hold in `meters`: the line of the first of them.
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
        let Some(lines) = self.lines_mut(block, counts.meter_lines(direction)) else {
            return false;
        };
        let old = load(lines, counts.is_wide(), slot.into());
        old.is_some_and(|old| store(lines, counts.is_wide(), slot.into(), &change(&old)))
    }
}
