//! The counters under one packet, and what control does to them.

use super::bounds::{self, BoundsLine, Counted, LimitAction, Reached};
use super::lines::{Counts, Line, NEAR_URRS, tally_at};
use super::live::below;
use super::tally::{Added, Millisecond, PacketTimes, RARE_PER_LINE, Rare, Tallied, Tally};
use super::{BlockRef, Blocks, Bounds, LiveBlock};
use crate::{Direction, UrrCount};

impl LiveBlock<'_> {
    /// Counts one packet of `octets` octets (of the inner IP packet) in those of these URRs that count after QoS.
    #[inline(always)]
    pub fn count(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        self.count_in(urrs & below(self.face().after_qos), octets, millisecond)
    }

    /// The same for a packet that is not [halted](Self::is_halted): then all of its URRs count after QoS.
    #[inline(always)]
    pub fn count_unhalted(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        self.count_in(urrs, octets, millisecond)
    }

    /// The same in those that count before QoS.
    #[inline(always)]
    pub fn count_before_qos(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let face = self.face();
        let before = urrs & below(face.counts.urrs()) & !below(face.after_qos);
        self.count_in(before, octets, millisecond)
    }

    /// As [`count`](Self::count), where some of the counters may count one for each packet: for packets that pay for a
    /// look at each.
    #[cold]
    pub fn count_with_units(&mut self, all: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let urrs = all & below(self.face().after_qos);
        let direction = self.direction;
        let mut added = Added::default();
        for slot in slots(urrs) {
            let amount = self.amount(slot, all, octets);
            if let Some(tally) = self.tally_mut(slot, direction) {
                added = added.with(tally.add(amount, millisecond));
            }
        }
        if bounds::says_look(added.octets) {
            return self.reborrow().look((urrs, all), octets, millisecond);
        }
        if added.is_late != 0 {
            self.reborrow().note(urrs, millisecond);
        }
        Counted::PASSED
    }

    /// Whether one of these URRs counts before QoS, or a packet that counts in it is to be looked at for another reason.
    #[inline]
    pub fn has_before_qos(&self, urrs: u64) -> bool {
        self.face().never_after_qos() & urrs != 0
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction, or one of these URRs has stopped
    /// for them or does not count after QoS: packets of which that is not so, most of all, pay for one look.
    #[inline(always)]
    pub fn is_halted(&self, qers: u64, urrs: u64) -> bool {
        let face = self.face();
        face.closed & qers | face.stopped & urrs != 0
    }

    /// Whether one of these URRs has stopped for packets of this direction.
    #[inline]
    pub fn is_stopped(&self, urrs: u64) -> bool {
        self.stopped(urrs) != 0
    }

    /// Those of these URRs that have stopped for packets of this direction: bit n is slot n.
    #[inline]
    pub fn stopped(&self, urrs: u64) -> u64 {
        let face = self.face();
        face.stopped & urrs & below(face.after_qos)
    }

    /// What is to be done with packets that one of these URRs stops: `Trap` or `Drop`.
    #[cold]
    pub fn stop_action(&self, urrs: u64) -> LimitAction {
        let stopped = slots(self.stopped(urrs));
        let actions = stopped.filter_map(|slot| Some(self.bounds(slot)?.action()));
        let acting = actions.filter(|action| *action != LimitAction::Event);
        acting.max().unwrap_or(LimitAction::Drop)
    }

    /// Takes note of a packet that some of these URRs have stopped. Whether one of them is to tell of it, and has not.
    #[cold]
    pub fn knock(&mut self, urrs: u64) -> bool {
        let mut is_news = false;
        for slot in slots(self.stopped(urrs)) {
            is_news |= self.bounds_mut(slot).is_some_and(BoundsLine::knock);
        }
        is_news
    }

    #[inline(always)]
    fn count_in(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let mut added = Added::default();
        if urrs & 1 != 0 {
            added = self.purse_mut().tallies[0].add(octets, millisecond);
        } else if urrs == 0 {
            return Counted::PASSED;
        }
        if urrs > 1 {
            added = added.with(self.reborrow().count_further(urrs, octets, millisecond));
        }
        if bounds::says_look(added.octets) {
            return self.reborrow().look((urrs, urrs), octets, millisecond);
        }
        if added.is_late != 0 {
            let is_done = urrs == 1 && self.purse_mut().tallies[0].note_plainly(millisecond);
            if !is_done {
                self.reborrow().note(urrs, millisecond);
            }
        }
        Counted::PASSED
    }

    /// Counts in all but the first URR.
    #[inline(never)]
    fn count_further(mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Added {
        let mut added = Added::default();
        if urrs & 2 != 0 {
            added = self.purse_mut().tallies[1].add(octets, millisecond);
        }
        let direction = self.direction as usize;
        let tallies = Line::all_tallies_mut(self.objects);
        let mut left = urrs >> NEAR_URRS;
        while left != 0 {
            if let Some(tally) = tallies.get_mut(left.trailing_zeros() as usize * 2 + direction) {
                added = added.with(tally.add(octets, millisecond));
            }
            left &= left - 1;
        }
        added
    }

    /// Takes note of the millisecond in which a packet was counted.
    #[cold]
    #[inline(never)]
    fn note(mut self, urrs: u64, millisecond: Millisecond) {
        self.note_in(urrs, millisecond);
    }

    fn note_in(&mut self, urrs: u64, millisecond: Millisecond) {
        let direction = self.direction;
        for slot in slots(urrs) {
            let tally = self.tally_mut(slot, direction);
            let noted = tally.map_or((false, false), |tally| tally.note(millisecond));
            if noted != (false, false)
                && let Some(rare) = self.rare_mut(slot)
            {
                rare.note(direction as usize, millisecond, noted);
            }
        }
    }

    /// A counter may have reached something with the packet that was just counted in `urrs`, of `all` that it is of.
    #[cold]
    #[inline(never)]
    fn look(mut self, (urrs, all): (u64, u64), octets: u64, millisecond: Millisecond) -> Counted {
        let exceeded = self.exceeded(urrs);
        if exceeded != 0 {
            let action = self.stop_action(exceeded);
            for slot in slots(urrs) {
                let amount = self.amount(slot, all, octets);
                self.take_back(slot, amount);
                self.arm(slot);
            }
            return Counted {
                action: Some(action),
                watermarks: 0,
                limits: exceeded,
            };
        }
        self.note_in(urrs, millisecond);
        let mut counted = Counted::PASSED;
        for slot in slots(urrs) {
            let raw = self.raw(slot);
            let Some(bounds) = self.bounds_mut(slot) else {
                continue;
            };
            let sum = bounds.counted(raw);
            let [watermark, stops] = [
                bounds.raise_watermarks(sum).then_some([false; 2]),
                bounds.reach(sum),
            ];
            counted.watermarks |= u64::from(watermark.is_some()) << slot;
            counted.limits |= u64::from(stops.is_some()) << slot;
            self.stop(slot, stops.unwrap_or_default());
            self.arm(slot);
        }
        counted
    }

    /// The URRs whose limit does not allow what has just been counted; they are stopped.
    fn exceeded(&mut self, urrs: u64) -> u64 {
        let mut exceeded = 0;
        for slot in slots(urrs) {
            let (raw, direction) = (self.raw(slot), self.direction);
            let stops = self.bounds_mut(slot).and_then(|bounds| {
                let sum = bounds.counted(raw);
                bounds.exceed(sum, direction)
            });
            if let Some(stops) = stops {
                self.stop(slot, stops);
                exceeded |= 1 << slot;
            }
        }
        exceeded
    }

    fn stop(&mut self, slot: usize, stops: bounds::Stops) {
        for direction in Direction::BOTH {
            self.face_mut(direction).stopped |= u64::from(stops[direction as usize]) << slot;
        }
    }

    /// What a packet of so many octets is in a counter, if it is of all of these.
    fn amount(&self, slot: usize, all: u64, octets: u64) -> u64 {
        let Some(rare) = self.rare(slot) else {
            return octets;
        };
        if !rare.is_weighted() {
            return rare.amount(octets);
        }
        let before = all & below(self.face().counts.urrs()) & !below(self.face().after_qos);
        let times = slots(before).filter_map(|other| Some(self.rare(other)?.times(slot)));
        octets * times.sum::<u64>()
    }

    fn rare(&self, slot: usize) -> Option<&Rare> {
        let at = self.face().counts.rare_at() + slot / RARE_PER_LINE;
        self.line(at)?.rare().get(slot % RARE_PER_LINE)
    }

    /// Takes back one packet from the URR in `slot`, which has counted one as so much.
    fn take_back(&mut self, slot: usize, octets: u64) {
        let direction = self.direction;
        let tally = self.tally_mut(slot, direction);
        if tally.is_some_and(|tally| tally.take_back(octets))
            && let Some(rare) = self.rare_mut(slot)
        {
            rare.run_under(direction as usize);
        }
    }

    fn arm(&mut self, slot: usize) {
        let raw = self.raw(slot);
        let armed = self
            .bounds_mut(slot)
            .map(|bounds| bounds.arm(bounds.counted(raw)));
        let Some(armed) = armed else { return };
        for direction in Direction::BOTH {
            if let Some(tally) = self.tally_mut(slot, direction) {
                tally.set_octets(armed.octets(direction));
            }
        }
    }

    fn raw(&self, slot: usize) -> UrrCount {
        let tallied = Tallied::read(self.face().counts, slot, |at| self.line(at));
        tallied.unwrap_or_default().count()
    }

    fn tally_mut(&mut self, slot: usize, direction: Direction) -> Option<&mut Tally> {
        let (at, place) = tally_at(slot, direction);
        self.line_mut(at)?.tallies_mut().get_mut(place)
    }

    fn rare_mut(&mut self, slot: usize) -> Option<&mut Rare> {
        let at = self.face().counts.rare_at() + slot / RARE_PER_LINE;
        self.line_mut(at)?.rare_mut().get_mut(slot % RARE_PER_LINE)
    }

    fn bounds(&self, slot: usize) -> Option<&BoundsLine> {
        let counts = self.face().counts;
        let line = self.line(counts.bounds_at() + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds)
    }

    fn bounds_mut(&mut self, slot: usize) -> Option<&mut BoundsLine> {
        let counts = self.face().counts;
        let line = self.line_mut(counts.bounds_at() + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds_mut)
    }
}

impl Tallied {
    /// What the counters of the URR in `slot` say, out of a block's lines.
    pub(super) fn read<'a>(
        counts: Counts,
        slot: usize,
        line: impl Fn(usize) -> Option<&'a Line>,
    ) -> Option<Self> {
        let tally = |direction| {
            let (at, place) = tally_at(slot, direction);
            line(at)?.tallies().get(place).copied()
        };
        let [uplink, downlink] = Direction::BOTH.map(tally);
        let rare = line(counts.rare_at() + slot / RARE_PER_LINE)?.rare()[slot % RARE_PER_LINE];
        Some(Self {
            tallies: [uplink?, downlink?],
            rare,
        })
    }
}

impl Blocks {
    /// Takes a packet back from those of these URRs that count after QoS: it was lost later. A stop stays. Does
    /// nothing if the block is gone or not of this generation, or has counted no packet; tells whether it did.
    pub fn uncount(
        &mut self,
        block: BlockRef,
        generation: u32,
        urrs: u64,
        direction: Direction,
        octets: u64,
    ) -> bool {
        let Some(mut live) = self.live_at(block, generation, direction) else {
            return false;
        };
        let counted = urrs & below(live.face().after_qos);
        let mut any = false;
        for slot in slots(counted) {
            let raw = live.raw(slot);
            let sum = live.bounds(slot).map_or(raw, |bounds| bounds.counted(raw));
            let (packets, sum) = match direction {
                Direction::Uplink => (sum.ul_packets, sum.ul_octets),
                Direction::Downlink => (sum.dl_packets, sum.dl_octets),
            };
            if packets != 0 {
                let amount = live.amount(slot, urrs, octets);
                live.take_back(slot, amount.min(sum));
                any = true;
            }
        }
        any
    }

    /// Gives a URR other watermarks and another limit, compared with what it has counted in all; it goes on if it was
    /// stopped. Tells whether there is such a URR and room for bounds; else the block is to be
    /// [replaced](Self::replace).
    pub fn set_bounds(&mut self, block: BlockRef, slot: u8, bounds: &Bounds) -> bool {
        let Some(old) = self.get(block) else { return false };
        let (Some(count), Some(_)) = (old.urr(slot), old.bounds_line(slot)) else {
            return false;
        };
        self.write_bounds(block, slot, &BoundsLine::of(bounds), count);
        self.change_faces(block, |face, _| {
            face.stopped = face.stopped & !(1 << slot) | face.never_after_qos()
        })
    }

    /// Looks whether a URR has reached its bounds already, without a packet; a limit that acts stops it then. Gives
    /// what it has reached in all.
    pub fn look_at_bounds(&mut self, block: BlockRef, slot: u8) -> Reached {
        let Some((count, mut line)) = self.bounded(block, slot) else {
            return Reached::default();
        };
        line.raise_watermarks(count);
        let stops = line.reach(count).unwrap_or_default();
        self.write_bounds(block, slot, &line, count);
        self.change_faces(block, |face, direction| {
            face.stopped |= u64::from(stops[direction as usize]) << slot;
        });
        line.reached()
    }

    /// Leaves a URR half of what its limit still allows, if that acts.
    pub fn halve_limit(&mut self, block: BlockRef, slot: u8) {
        if let Some((count, mut line)) = self.bounded(block, slot) {
            line.halve(count);
            self.write_bounds(block, slot, &line, count);
        }
    }

    /// When the packets came that a URR has counted since this was last asked, if there were any.
    pub fn take_times(&mut self, block: BlockRef, slot: u8) -> Option<PacketTimes> {
        let mut tallied = self.get(block)?.tallied(slot)?;
        let times = tallied.times()?;
        tallied.forget_times();
        self.write_tallied(block, slot, &tallied);
        Some(times)
    }

    /// Has a URR count from zero, as it was told what it has counted.
    pub fn forget_count(&mut self, block: BlockRef, slot: u8) {
        self.write_tallied(block, slot, &Tallied::default());
        if let Some(bounds) = self.get(block).and_then(|block| block.bounds_line(slot).copied()) {
            self.write_bounds(block, slot, &bounds, UrrCount::default());
        }
    }

    /// What a URR has counted, and its line of bounds.
    fn bounded(&self, block: BlockRef, slot: u8) -> Option<(UrrCount, BoundsLine)> {
        let view = self.get(block)?;
        Some((view.urr(slot)?, *view.bounds_line(slot)?))
    }

    /// Sets which URRs are stopped in each direction: bit n is slot n. Packets of theirs are dropped, or what their
    /// limit says. Tells whether there is such a block.
    pub fn set_stopped(&mut self, block: BlockRef, stopped_ul: u64, stopped_dl: u64) -> bool {
        self.change_faces(block, |face, direction| {
            face.stopped = [stopped_ul, stopped_dl][direction as usize] | face.never_after_qos();
        })
    }

    pub(super) fn stop(&mut self, block: BlockRef, slot: u8, direction: Direction) {
        self.change_faces(block, |face, of| {
            face.stopped |= u64::from(of == direction) << slot;
        });
    }

    /// Lets a URR of a block that was just written go on from what `tallied` says, whose octets are as they were
    /// counted, and with the bounds that were reached if they are the same: tells whether they are.
    pub(super) fn go_on_counting(
        &mut self,
        block: BlockRef,
        slot: u8,
        tallied: &Tallied,
        old: Option<&BoundsLine>,
    ) -> bool {
        let Some(new) = self.get(block) else { return false };
        let bounds = new.bounds_line(slot).copied();
        self.write_tallied(block, slot, tallied);
        let Some(mut bounds) = bounds else {
            return old.is_none();
        };
        let are_same = old.is_some_and(|old| bounds.go_on(old));
        self.write_bounds(block, slot, &bounds, tallied.count());
        are_same
    }

    /// Writes a URR's bounds, and its octets as they are with these.
    pub(super) fn write_bounds(&mut self, block: BlockRef, slot: u8, bounds: &BoundsLine, count: UrrCount) {
        let Some(counts) = self.get(block).map(|block| block.counts()) else {
            return;
        };
        let mut bounds = *bounds;
        let armed = bounds.arm(count);
        let at = counts.bounds_at() + usize::from(slot);
        if let Some([line]) = self.lines_mut(block, at..at + 1) {
            *line.bounds_mut() = bounds;
        }
        for direction in Direction::BOTH {
            if let Some(tally) = self.tally_mut(block, slot, direction) {
                tally.set_octets(armed.octets(direction));
            }
        }
    }

    fn write_tallied(&mut self, block: BlockRef, slot: u8, tallied: &Tallied) {
        let Some(counts) = self.get(block).map(|block| block.counts()) else {
            return;
        };
        if slot >= counts.urrs() {
            return;
        }
        for (direction, tally) in Direction::BOTH.into_iter().zip(tallied.tallies) {
            if let Some(place) = self.tally_mut(block, slot, direction) {
                *place = tally;
            }
        }
        let place = usize::from(slot);
        let at = counts.rare_at() + place / RARE_PER_LINE;
        if let Some([line]) = self.lines_mut(block, at..at + 1) {
            let rare = &mut line.rare_mut()[place % RARE_PER_LINE];
            *rare = tallied.rare.counting_like(rare);
        }
    }

    fn tally_mut(&mut self, block: BlockRef, slot: u8, direction: Direction) -> Option<&mut Tally> {
        let (at, place) = tally_at(slot.into(), direction);
        self.lines_mut(block, at..at + 1)?
            .first_mut()?
            .tallies_mut()
            .get_mut(place)
    }
}

/// The slots in a mask.
fn slots(mut mask: u64) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let slot = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (slot < u64::BITS).then_some(slot as usize)
    })
}
