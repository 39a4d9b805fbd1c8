//! What control does to the counters of URRs and to their bounds.

use super::allocator::LEAST_RUN;
use super::bounds::{BoundsLine, LookEvery, Reached};
use super::layout::{INLINE_URRS, TallyPosition, read_line_at, tally_at, write_line_at};
use super::lines::Line;
use super::tally::{Millisecond, PacketTimes, RARE_PER_LINE, Tallied, Tally};
use super::{BlockRef, Blocks, Bounds};
use crate::{Direction, Nanos, SessionIndex, UrrCount, prefetch};

/// What a look at the counters of a block finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MarkedBlock {
    /// The session.
    pub session: SessionIndex,
    /// Where the block is: no other block has this number while it is there. Small numbers, without large gaps.
    pub place: usize,
    /// A number that is another as soon as a URR that counts after QoS has counted, and most often stays the same until
    /// then: other bounds may change it.
    pub mark: u64,
}

impl Blocks {
    /// Takes a packet back from those of these URRs that count after QoS: it was lost later. A stop stays. Does
    /// nothing if the block is gone or not of this generation, or has counted no packet; returns whether it did.
    pub fn uncount(
        &mut self,
        block: BlockRef,
        generation: u32,
        urrs: u64,
        direction: Direction,
        octets: u64,
    ) -> bool {
        let live = self.live_at(block, generation, direction);
        live.is_some_and(|mut live| live.uncount(urrs, octets))
    }

    /// Adds what was counted elsewhere for the session to a counter: the last of these packets was counted at `at`.
    /// What it reaches with them, [`look_at_bounds`](Self::look_at_bounds) finds. Returns whether there is such a
    /// counter.
    pub fn add_count(&mut self, block: BlockRef, slot: u8, count: &UrrCount, at: Nanos) -> bool {
        let Some(view) = self.get(block) else { return false };
        let (Some(tallied), Some(sum)) = (view.tallied(slot), view.urr(slot)) else {
            return false;
        };
        let bounds = view.bounds_line(slot).copied();
        let mut tallied = tallied.with_octets(sum);
        for (direction, packets) in Direction::BOTH
            .into_iter()
            .zip([count.ul_packets, count.dl_packets])
        {
            if packets != 0 || count.octets(direction) != 0 {
                tallied.add(direction, packets, count.octets(direction), Millisecond::of(at));
            }
        }
        self.write_tallied(block, slot, &tallied);
        if let Some(bounds) = bounds {
            self.write_bounds(block, slot, &bounds, tallied.count());
        }
        true
    }

    /// Gives a URR other watermarks and another limit, compared with what it has counted in all; it counts again if it
    /// was stopped. Returns whether there is such a URR and room for bounds; else the block is to be
    /// [replaced](Self::replace).
    pub fn set_bounds(&mut self, block: BlockRef, slot: u8, bounds: &Bounds) -> bool {
        let Some(old) = self.get(block) else { return false };
        let (Some(count), Some(_)) = (old.urr(slot), old.bounds_line(slot)) else {
            return false;
        };
        self.write_bounds(block, slot, &BoundsLine::of(bounds, self.every), count);
        self.change_read_lines(block, |read_line, _| {
            read_line.stopped = read_line.stopped & !(1 << slot) | read_line.never_after_qos()
        })
    }

    /// Looks whether a URR has reached its bounds already, without a packet; a limit that acts stops it then. One of
    /// both directions together counts as reached by uplink. Gives what it has reached in all.
    pub fn look_at_bounds(&mut self, block: BlockRef, slot: u8) -> Reached {
        let Some((count, mut line)) = self.bounded(block, slot) else {
            return Reached::default();
        };
        line.raise_watermarks(count);
        let stops = line.reach(count, Direction::Uplink).unwrap_or_default();
        self.write_bounds(block, slot, &line, count);
        self.change_read_lines(block, |read_line, direction| {
            read_line.stopped |= u64::from(stops[direction as usize]) << slot;
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

    /// Has every counter be looked at when it has counted this number of octets since it was last, also where no bound
    /// is near ([`Counted::is_due`](super::Counted)): of both directions together, rounded down to a power of two.
    /// Until then packets pay nothing for it; each URR has a line of bounds. A worker does so once, before there is any
    /// session.
    pub fn look_every(&mut self, octets: u64) {
        self.every = LookEvery::of(octets);
    }

    /// A block with its mark; `None` when there is none. It reads no more lines than it must.
    #[inline]
    pub fn marked(&self, block: BlockRef) -> Option<MarkedBlock> {
        let lines = self.lines.get(block.0 as usize..)?;
        let line = |direction| lines.get(read_line_at(direction)).map(Line::read_line);
        let read_line = line(Direction::Uplink).filter(|read_line| read_line.generation != 0)?;
        let slots = usize::from(read_line.after_qos);
        let mut mark = 0;
        for direction in Direction::BOTH {
            let inline = lines.get(write_line_at(direction))?.write_line().tallies;
            mark = inline
                .iter()
                .take(slots)
                .fold(mark, |mark, tally| tally.mark(mark));
        }
        for slot in INLINE_URRS..slots {
            for direction in Direction::BOTH {
                let TallyPosition { line, index } = tally_at(slot, direction);
                mark = lines.get(line)?.tallies().get(index)?.mark(mark);
            }
        }
        Some(MarkedBlock {
            session: read_line.session(),
            place: block.0 as usize / LEAST_RUN,
            mark,
        })
    }

    /// The same with a mark that is another, too, as soon as a packet rate of the session has let a packet pass or
    /// was changed.
    pub fn marked_with_packet_rates(&self, marked: MarkedBlock) -> MarkedBlock {
        let block = self.get(BlockRef((marked.place * LEAST_RUN) as u32));
        let meters = block.into_iter().flat_map(|block| {
            let slots = 0..block.counts().meter_slots();
            slots.flat_map(move |slot| Direction::BOTH.map(|direction| block.packets(slot, direction)))
        });
        let mark = meters.flatten().fold(marked.mark, |mark, left| left.mark(mark));
        MarkedBlock { mark, ..marked }
    }

    /// The places of blocks are below this.
    pub fn places(&self) -> usize {
        self.lines.len().div_ceil(LEAST_RUN)
    }

    /// How many [parts](Self::part) all blocks have.
    pub fn parts(&self) -> usize {
        self.allocator.chunks()
    }

    /// The blocks of a part with their marks, in the order of their memory and their places, which costs less than any
    /// other: a few dozen, and none twice in all parts.
    pub fn part(&self, part: usize) -> impl Iterator<Item = MarkedBlock> + '_ {
        for first in self.allocator.runs(part) {
            prefetch::nth(&self.lines, first as usize + read_line_at(Direction::Uplink));
            for direction in Direction::BOTH {
                prefetch::nth(&self.lines, first as usize + write_line_at(direction));
            }
        }
        let runs = self.allocator.runs(part);
        runs.filter_map(|first| self.marked(BlockRef(first)))
    }

    /// When the packets came that a URR has counted since this was last asked, if there were any.
    pub fn take_times(&mut self, block: BlockRef, slot: u8) -> Option<PacketTimes> {
        let mut tallied = self.get(block)?.tallied(slot)?;
        let times = tallied.times()?;
        tallied.forget_times();
        self.write_tallied(block, slot, &tallied);
        Some(times)
    }

    /// Has a URR count from zero, as its count has been reported.
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
    /// limit says. Returns whether there is such a block.
    pub fn set_stopped(&mut self, block: BlockRef, stopped_ul: u64, stopped_dl: u64) -> bool {
        self.change_read_lines(block, |read_line, direction| {
            read_line.stopped = [stopped_ul, stopped_dl][direction as usize] | read_line.never_after_qos();
        })
    }

    pub(super) fn stop(&mut self, block: BlockRef, slot: u8, direction: Direction) {
        self.change_read_lines(block, |read_line, of| {
            read_line.stopped |= u64::from(of == direction) << slot;
        });
    }

    /// Lets a URR of a block that was just written continue from what `tallied` says, whose octets are as they were
    /// counted, and with the bounds that were reached if they are the same: returns whether they are.
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
        let TallyPosition { line, index } = tally_at(slot.into(), direction);
        self.lines_mut(block, line..line + 1)?
            .first_mut()?
            .tallies_mut()
            .get_mut(index)
    }
}
