//! The counters under one packet, and what control does to them.

use super::bounds::{self, BoundsLine, Counted, LimitAction, Reached};
use super::lines::{FACES, Line};
use super::live::below;
use super::{BlockRef, Blocks, Bounds, LiveBlock};
use crate::{Direction, UrrCount};

impl LiveBlock<'_> {
    /// Counts one packet of `octets` octets (of the inner IP packet) in those of these URRs that count after QoS.
    #[inline(always)]
    pub fn count(&mut self, urrs: u64, octets: u64) -> Counted {
        self.count_in(urrs & below(self.face().after_qos), octets)
    }

    /// The same in those that count before QoS.
    #[inline(always)]
    pub fn count_before_qos(&mut self, urrs: u64, octets: u64) -> Counted {
        let face = self.face();
        let before = urrs & below(face.counts.urrs()) & !below(face.after_qos);
        self.count_in(before, octets)
    }

    /// Whether the gate of one of these QERs is closed for packets of this direction, or one of these URRs has stopped
    /// for them or counts before QoS: packets of which that is not so, most of all, pay for one look.
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
    fn count_in(&mut self, urrs: u64, octets: u64) -> Counted {
        let counts = Line::counts_mut(self.objects);
        let mut left = urrs;
        let mut all = 0;
        while left != 0 {
            let slot = left.trailing_zeros() as usize;
            if let Some(count) = counts.get_mut(slot * 2 + self.direction as usize) {
                all |= count.add(octets);
            }
            left &= left - 1;
        }
        if bounds::says_look(all) {
            return self.look(urrs, octets);
        }
        Counted::PASSED
    }

    /// A counter may have reached something with the packet that was just counted.
    #[cold]
    #[inline(never)]
    fn look(&mut self, urrs: u64, octets: u64) -> Counted {
        let exceeded = self.exceeded(urrs);
        if exceeded != 0 {
            let action = self.stop_action(exceeded);
            for slot in slots(urrs) {
                self.take_back(slot, octets);
                self.arm(slot);
            }
            return Counted {
                action: Some(action),
                watermarks: 0,
                limits: exceeded,
            };
        }
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
        let [here, there] =
            [self.direction, self.direction.reverse()].map(|direction| stops[direction as usize]);
        self.face.face_mut().stopped |= u64::from(here) << slot;
        self.other.face_mut().stopped |= u64::from(there) << slot;
    }

    /// Takes back one packet from the URR in `slot`.
    fn take_back(&mut self, slot: usize, octets: u64) {
        if let Some(count) = Line::counts_mut(self.objects).get_mut(slot * 2 + self.direction as usize) {
            count.take_back(octets);
        }
    }

    fn arm(&mut self, slot: usize) {
        let raw = self.raw(slot);
        let armed = self
            .bounds_mut(slot)
            .map(|bounds| bounds.arm(bounds.counted(raw)));
        if let (Some(armed), Some(line)) = (armed, self.objects.get_mut(slot / 2)) {
            line.counters_mut().set_urr(slot, armed);
        }
    }

    fn raw(&self, slot: usize) -> UrrCount {
        let line = self.objects.get(slot / 2);
        line.map_or(UrrCount::default(), |line| line.counters().urr(slot))
    }

    fn bounds(&self, slot: usize) -> Option<&BoundsLine> {
        let counts = self.face().counts;
        let line = self.objects.get(counts.bounds_at() - FACES + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds)
    }

    fn bounds_mut(&mut self, slot: usize) -> Option<&mut BoundsLine> {
        let counts = self.face().counts;
        let line = self.objects.get_mut(counts.bounds_at() - FACES + slot);
        line.filter(|_| counts.is_bounded()).map(Line::bounds_mut)
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
                live.take_back(slot, octets.min(sum));
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
            face.stopped = face.stopped & !(1 << slot) | face.before_qos()
        })
    }

    /// Looks whether a URR has reached its bounds already, without a packet; a limit that acts stops it then. Gives what
    /// it has reached in all.
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

    /// Has a URR count from zero, as it was told what it has counted. One that has neither watermark nor limit.
    pub fn forget_count(&mut self, block: BlockRef, slot: u8) {
        match self.get(block).and_then(|block| block.bounds_line(slot).copied()) {
            Some(bounds) => self.write_bounds(block, slot, &bounds, UrrCount::default()),
            None => self.write_count(block, slot, UrrCount::default()),
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
            face.stopped = [stopped_ul, stopped_dl][direction as usize] | face.before_qos();
        })
    }

    pub(super) fn stop(&mut self, block: BlockRef, slot: u8, direction: Direction) {
        self.change_faces(block, |face, of| {
            face.stopped |= u64::from(of == direction) << slot;
        });
    }

    /// Lets a URR of a block that was just written go on from `count`, and with the bounds that were reached if they
    /// are the same: tells whether they are.
    pub(super) fn go_on_counting(
        &mut self,
        block: BlockRef,
        slot: u8,
        count: UrrCount,
        old: Option<&BoundsLine>,
    ) -> bool {
        let Some(new) = self.get(block) else { return false };
        let Some(mut bounds) = new.bounds_line(slot).copied() else {
            self.write_count(block, slot, count);
            return old.is_none();
        };
        let are_same = old.is_some_and(|old| bounds.go_on(old));
        self.write_bounds(block, slot, &bounds, count);
        are_same
    }

    /// Writes a URR's bounds, and its counters as they are with these.
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
        self.write_count(block, slot, armed);
    }

    fn write_count(&mut self, block: BlockRef, slot: u8, count: UrrCount) {
        let place = usize::from(slot);
        let urrs = self.get(block).map_or(0, |block| block.urrs());
        let at = FACES + place / 2;
        if slot < urrs
            && let Some([line]) = self.lines_mut(block, at..at + 1)
        {
            line.counters_mut().set_urr(place, count);
        }
    }
}

/// The slots in a mask.
fn slots(mask: u64) -> impl Iterator<Item = usize> {
    (0..64).filter(move |slot| mask >> slot & 1 == 1)
}
