//! What control does to the meters of QERs.

use super::meter_lines::store;
use super::{BlockRef, Blocks};
use crate::meter::{Meter, MeterSpec, MeterState, PacketState, Tokens};
use crate::{Direction, Nanos};

impl Blocks {
    /// Changes the meter of the QER in `slot` and keeps what it holds, as far as it fits. Returns whether there is such
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

    /// Lets the meter of the QER in `slot` hold what a meter elsewhere held. Returns whether there is such a meter.
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
        slot: u8,
        direction: Direction,
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

    /// Takes half of what is left of the packet rate in `slot`, and returns what that is; `None` where there is none.
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
