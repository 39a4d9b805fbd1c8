//! The counters under one packet.

use super::LiveBlock;
use super::bounds::{self, BoundsLine, Counted, LimitAction};
use super::layout::{INLINE_URRS, TallyPosition, below, slots, tally_at};
use super::lines::{Line, tallied};
use super::tally::{Added, Millisecond, Noted, RARE_PER_LINE, Rare, Tally};
use crate::{Direction, UrrCount};

impl LiveBlock<'_> {
    /// Counts one packet of `octets` octets (of the inner IP packet) in those of these URRs that count after QoS.
    #[inline(always)]
    pub fn count(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        self.count_in(urrs & below(self.read_line().after_qos), octets, millisecond)
    }

    /// The same for a packet that is not [halted](Self::is_halted): then all of its URRs count after QoS.
    #[inline(always)]
    pub fn count_unhalted(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        self.count_in(urrs, octets, millisecond)
    }

    /// The same in those that count before QoS.
    #[inline(always)]
    pub fn count_before_qos(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let read_line = self.read_line();
        let before = urrs & below(read_line.counts.urrs()) & !below(read_line.after_qos);
        self.count_in(before, octets, millisecond)
    }

    /// As [`count`](Self::count), where some of the counters may count one for each packet: for packets that pay for a
    /// look at each.
    #[cold]
    pub fn count_with_units(&mut self, all: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let urrs = all & below(self.read_line().after_qos);
        let direction = self.direction;
        let mut added = Added::default();
        for slot in slots(urrs) {
            let amount = self.amount(slot, all, octets);
            if let Some(tally) = self.tally_mut(slot, direction) {
                added = added.with(tally.add(amount, millisecond));
            }
        }
        if bounds::says_look(added.octets) {
            return self.reborrow().look(urrs, all, octets, millisecond);
        }
        if added.is_late != 0 {
            self.reborrow().note(urrs, millisecond);
        }
        Counted::PASSED
    }

    /// Whether one of these URRs counts before QoS, or a packet that counts in it is to be looked at for another
    /// reason.
    #[inline]
    pub fn has_before_qos(&self, urrs: u64) -> bool {
        self.read_line().never_after_qos() & urrs != 0
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction, or one of these URRs has stopped
    /// for them or does not count after QoS: packets of which that is not so, most of all, pay for one look.
    #[inline(always)]
    pub fn is_halted(&self, qers: u64, urrs: u64) -> bool {
        let read_line = self.read_line();
        read_line.closed & qers | read_line.stopped & urrs != 0
    }

    /// Whether one of these URRs has stopped for packets of this direction.
    #[inline]
    pub fn is_stopped(&self, urrs: u64) -> bool {
        self.stopped(urrs) != 0
    }

    /// Those of these URRs that have stopped for packets of this direction: bit n is slot n.
    #[inline]
    pub fn stopped(&self, urrs: u64) -> u64 {
        let read_line = self.read_line();
        read_line.stopped & urrs & below(read_line.after_qos)
    }

    /// What is to be done with packets that one of these URRs stops: `Trap` or `Drop`.
    #[cold]
    pub fn stop_action(&self, urrs: u64) -> LimitAction {
        let stopped = slots(self.stopped(urrs));
        let actions = stopped.filter_map(|slot| Some(self.bounds(slot)?.action()));
        let acting = actions.filter(|action| *action != LimitAction::Event);
        acting.max().unwrap_or(LimitAction::Drop)
    }

    /// Takes note of a packet that some of these URRs have stopped. Returns whether one of them is to report it, and
    /// has not.
    #[cold]
    pub fn trap(&mut self, urrs: u64) -> bool {
        let mut is_news = false;
        for slot in slots(self.stopped(urrs)) {
            is_news |= self.bounds_mut(slot).is_some_and(BoundsLine::trap);
        }
        is_news
    }

    #[inline(always)]
    fn count_in(&mut self, urrs: u64, octets: u64, millisecond: Millisecond) -> Counted {
        let mut added = Added::default();
        if urrs & 1 != 0 {
            added = self.write_line_mut().tallies[0].add(octets, millisecond);
        } else if urrs == 0 {
            return Counted::PASSED;
        }
        if urrs > 1 {
            added = added.with(self.reborrow().count_further(urrs, octets, millisecond));
        }
        if bounds::says_look(added.octets) {
            return self.reborrow().look(urrs, urrs, octets, millisecond);
        }
        if added.is_late != 0 {
            let is_done = urrs == 1 && self.write_line_mut().tallies[0].note_plainly(millisecond);
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
            added = self.write_line_mut().tallies[1].add(octets, millisecond);
        }
        let direction = self.direction as usize;
        let tallies = Line::all_tallies_mut(self.objects);
        let mut left = urrs >> INLINE_URRS;
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
            let noted = tally.map_or(Noted::default(), |tally| tally.note(millisecond));
            if noted != Noted::default()
                && let Some(rare) = self.rare_mut(slot)
            {
                rare.note(direction as usize, millisecond, noted);
            }
        }
    }

    /// A counter may have reached something with the packet that was just counted in `urrs`, of `all` that it is of.
    #[cold]
    #[inline(never)]
    fn look(mut self, urrs: u64, all: u64, octets: u64, millisecond: Millisecond) -> Counted {
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
                is_due: false,
            };
        }
        self.note_in(urrs, millisecond);
        let mut counted = Counted::PASSED;
        for slot in slots(urrs) {
            let (raw, direction) = (self.raw(slot), self.direction);
            let Some(bounds) = self.bounds_mut(slot) else {
                continue;
            };
            let sum = bounds.counted(raw);
            let [watermark, stops] = [
                bounds.raise_watermarks(sum).then_some([false; 2]),
                bounds.reach(sum, direction),
            ];
            counted.watermarks |= u64::from(watermark.is_some()) << slot;
            counted.limits |= u64::from(stops.is_some()) << slot;
            counted.is_due |= !bounds.every().is_never();
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
            self.read_line_mut(direction).stopped |= u64::from(stops[direction as usize]) << slot;
        }
    }

    /// What a packet of this many octets is in a counter, if it is of all of these.
    fn amount(&self, slot: usize, all: u64, octets: u64) -> u64 {
        let Some(rare) = self.rare(slot) else {
            return octets;
        };
        if !rare.is_weighted() {
            return rare.amount(octets);
        }
        let before = all & below(self.read_line().counts.urrs()) & !below(self.read_line().after_qos);
        let times = slots(before).filter_map(|other| Some(self.rare(other)?.times(slot)));
        octets * times.sum::<u64>()
    }

    fn rare(&self, slot: usize) -> Option<&Rare> {
        let at = self.read_line().counts.rare_at() + slot / RARE_PER_LINE;
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

    /// Takes a packet back from those of these URRs that count after QoS: it was lost later. A stop stays. Whether it
    /// was counted in any.
    pub(super) fn uncount(&mut self, urrs: u64, octets: u64) -> bool {
        let counted = urrs & below(self.read_line().after_qos);
        let mut any = false;
        for slot in slots(counted) {
            let raw = self.raw(slot);
            let sum = self.bounds(slot).map_or(raw, |bounds| bounds.counted(raw));
            let (packets, sum) = match self.direction {
                Direction::Uplink => (sum.ul_packets, sum.ul_octets),
                Direction::Downlink => (sum.dl_packets, sum.dl_octets),
            };
            if packets != 0 {
                let amount = self.amount(slot, urrs, octets);
                self.take_back(slot, amount.min(sum));
                any = true;
            }
        }
        any
    }

    fn raw(&self, slot: usize) -> UrrCount {
        let found = tallied(self.read_line().counts, slot, |at| self.line(at));
        found.unwrap_or_default().count()
    }

    fn tally_mut(&mut self, slot: usize, direction: Direction) -> Option<&mut Tally> {
        let TallyPosition { line, index } = tally_at(slot, direction);
        self.line_mut(line)?.tallies_mut().get_mut(index)
    }

    fn rare_mut(&mut self, slot: usize) -> Option<&mut Rare> {
        let at = self.read_line().counts.rare_at() + slot / RARE_PER_LINE;
        self.line_mut(at)?.rare_mut().get_mut(slot % RARE_PER_LINE)
    }

    fn bounds(&self, slot: usize) -> Option<&BoundsLine> {
        let counts = self.read_line().counts;
        let line = self.line(counts.bounds_at() + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds)
    }

    fn bounds_mut(&mut self, slot: usize) -> Option<&mut BoundsLine> {
        let counts = self.read_line().counts;
        let line = self.line_mut(counts.bounds_at() + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds_mut)
    }
}
