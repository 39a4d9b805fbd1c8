//! Enforcement of a block's QERs: one packet passes several meters, or is red. How a meter keeps its tokens:
//! [`meter`](crate::meter).
//!
//! All meters are charged. If one of them is red, which is rare, all get their tokens back.

use core::hint::cold_path;

use super::LiveBlock;
use super::layout::HEAD;
use super::lines::Line;
use crate::meter::{Colour, Offer, SharedId, SharedMeters, Single, cost_of};

/// Which meter a packet did not pass; the first of them, when there are several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Red {
    /// That of the QER in this slot.
    Qer(u8),
    /// One that sessions share.
    Shared(SharedId),
}

impl LiveBlock<'_> {
    /// Passes a packet through the meters of these QERs and the ones that the session shares: gives the worst
    /// colour that any of them gave (green, if none of them has three colours). Time advances in all of them, and all
    /// are charged, or none.
    ///
    /// # Errors
    ///
    /// Which meter says red.
    #[inline(always)]
    pub fn meter(&mut self, qers: u64, offer: &Offer, shared: &mut SharedMeters) -> Result<Colour, Red> {
        let read_line = self.read_line();
        if read_line.shared != 0 || !read_line.counts.has_one_meter() {
            return match read_line.shared == 0 && read_line.counts.meter_slots() == 0 {
                true => Ok(Colour::Green),
                false => self.reborrow().meter_several(qers, *offer, shared),
            };
        }
        if qers & 1 != 0 {
            let (meter, cost) = (&mut self.write_line_mut().meter, cost_of(offer.octets));
            if meter.charge(offer.now.0, cost) < 0 {
                cold_path();
                meter.put_back(cost);
                return Err(Red::Qer(0));
            }
        }
        Ok(Colour::Green)
    }

    /// As `meter`, for packets that may have to pass several meters.
    #[inline(never)]
    fn meter_several(mut self, qers: u64, offer: Offer, shared: &mut SharedMeters) -> Result<Colour, Red> {
        let (now, cost) = (offer.now.0, cost_of(offer.octets));
        let (counts, shared_id) = (self.read_line().counts, SharedId(self.read_line().shared));
        let mut all = shared.charge(shared_id, self.direction, now, cost);
        if counts.is_wide() {
            return self.meter_wide(qers, &offer, shared, all >= 0);
        }
        if qers & 1 != 0 && counts.meter_slots() != 0 {
            all |= self.write_line_mut().meter.charge(now, cost);
        }
        let meters = self.further_singles();
        let mut left = qers >> 1;
        while left != 0 {
            let Some(meter) = meters.get_mut(left.trailing_zeros() as usize) else {
                break;
            };
            all |= meter.charge(now, cost);
            left &= left - 1;
        }
        if all >= 0 {
            return Ok(Colour::Green);
        }
        Err(self.put_back(qers, cost, shared))
    }

    /// Gives back what a packet was charged that passed [`meter`](Self::meter) at this time and is not to be forwarded
    /// now. Meters of three colours take it as one that was yellow: their rates hold, and a later packet may be yellow
    /// for it.
    #[cold]
    pub fn unmeter(&mut self, qers: u64, octets: u32, shared: &mut SharedMeters) {
        let cost = cost_of(octets);
        if !self.read_line().counts.is_wide() {
            self.reborrow().put_back(qers, cost, shared);
            return;
        }
        let direction = self.direction;
        shared.put_back(SharedId(self.read_line().shared), direction, cost);
        let lines = self.wide_lines();
        let mut left = qers;
        while let Some(line) = lines.get_mut(left.trailing_zeros() as usize) {
            let meter = line.meter_mut();
            match meter.shared() {
                Some(id) => drop(shared.put_back(id, direction, cost)),
                None => meter.give_back(Colour::Yellow, cost),
            }
            left &= left - 1;
        }
    }

    /// This direction's meters that are not in its write line, of a block that has two a line: the first is of slot 1.
    #[inline(always)]
    fn further_singles(&mut self) -> &mut [Single] {
        let counts = self.read_line().counts;
        let (lines, meters) = (counts.meter_lines(), counts.further_meters());
        let first = self.direction as usize * meters;
        let start = counts.meters_at() - HEAD;
        let lines = self.objects.get_mut(start..start + lines).unwrap_or_default();
        Line::all_singles_mut(lines)
            .get_mut(first..first + meters)
            .unwrap_or_default()
    }

    /// The lines of this direction's meters, of a block where they have a line each.
    fn wide_lines(&mut self) -> &mut [Line] {
        let counts = self.read_line().counts;
        let meters = counts.further_meters();
        let start = counts.meters_at() - HEAD + self.direction as usize * meters;
        self.objects.get_mut(start..start + meters).unwrap_or_default()
    }

    /// Gives back what all meters of a packet were charged, and returns which had too little.
    #[cold]
    #[inline(never)]
    fn put_back(mut self, qers: u64, cost: u64, shared: &mut SharedMeters) -> Red {
        let shared_id = SharedId(self.read_line().shared);
        let short = shared.put_back(shared_id, self.direction, cost);
        let mut first = None;
        if qers & 1 != 0
            && self.read_line().counts.meter_slots() != 0
            && self.write_line_mut().meter.put_back(cost)
        {
            first = Some(Red::Qer(0));
        }
        let meters = self.further_singles();
        let mut left = qers >> 1;
        while let Some(meter) = meters.get_mut(left.trailing_zeros() as usize) {
            if meter.put_back(cost) {
                first = first.or(Some(Red::Qer(left.trailing_zeros() as u8 + 1)));
            }
            left &= left - 1;
        }
        first.or(short.map(Red::Shared)).unwrap_or(Red::Shared(shared_id))
    }

    /// As `meter`, where meters have a line each; the shared ones are charged already.
    #[inline(never)]
    fn meter_wide(
        mut self,
        qers: u64,
        offer: &Offer,
        shared: &mut SharedMeters,
        shared_pass: bool,
    ) -> Result<Colour, Red> {
        let (shared_id, direction) = (SharedId(self.read_line().shared), self.direction);
        let lines = self.wide_lines();
        let cost = cost_of(offer.octets);
        // The slots that gave each colour.
        let mut slots = [0; 3];
        let mut left = qers;
        while let Some(line) = lines.get_mut(left.trailing_zeros() as usize) {
            let meter = line.meter_mut();
            let colour = match meter.shared() {
                Some(id) => shared.take(id, direction, offer.now.0, cost),
                None => meter.take(offer, cost),
            };
            slots[colour as usize] |= left & left.wrapping_neg();
            left &= left - 1;
        }
        let [_, yellow, red] = slots;
        if red == 0 && shared_pass {
            return Ok(if yellow == 0 {
                Colour::Green
            } else {
                Colour::Yellow
            });
        }
        for (colour, slots) in [Colour::Green, Colour::Yellow].into_iter().zip(slots) {
            let mut left = slots;
            while let Some(line) = lines.get_mut(left.trailing_zeros() as usize) {
                let meter = line.meter_mut();
                match meter.shared() {
                    Some(id) => drop(shared.put_back(id, direction, cost)),
                    None => meter.give_back(colour, cost),
                }
                left &= left - 1;
            }
        }
        let short = shared.put_back(shared_id, direction, cost).map(Red::Shared);
        let first = (red != 0).then_some(Red::Qer(red.trailing_zeros() as u8));
        Err(first.or(short).unwrap_or(Red::Shared(shared_id)))
    }
}
