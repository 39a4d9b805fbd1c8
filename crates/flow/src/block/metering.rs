//! The meters under one packet: all of them are asked, and charged if none says red.

use super::LiveBlock;
use super::lines::{FACES, Line};
use crate::meter::{Colour, Offer, SharedId, SharedMeters, cost_of};

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
    /// colour that any of them gave (green, if none of them has three colours). Time goes on in all of them, and all are charged, or none.
    ///
    /// # Errors
    ///
    /// Which meter says red.
    #[inline(always)]
    pub fn meter(&mut self, qers: u64, offer: &Offer, shared: &mut SharedMeters) -> Result<Colour, Red> {
        let counts = self.face().counts;
        let id = SharedId(self.face().shared);
        let cost = cost_of(offer.octets);
        let start = counts.meter_lines(self.direction).start - FACES;
        let lines = self.objects.get_mut(start..start + counts.meter_lines_each());
        let lines = lines.unwrap_or_default();
        if counts.is_wide() {
            return Wide::new(lines, qers, offer).pass(|| shared.take(id, self.direction, offer.now.0, cost));
        }
        // Charged at once, and put back if another meter says red: that is rare, and comes to the same.
        let mut red = 0;
        let mut left = qers;
        let meters = Line::all_singles_mut(lines);
        while let Some(meter) = meters.get_mut(left.trailing_zeros() as usize) {
            if !meter.take(offer.now.0, cost) {
                red |= left & left.wrapping_neg();
            }
            left &= left.wrapping_sub(1);
        }
        let all = shared.take(id, self.direction, offer.now.0, cost);
        if red == 0 && all.is_ok() {
            return Ok(Colour::Green);
        }
        if all.is_ok() {
            shared.give_back(id, self.direction, cost);
        }
        put_back(lines, qers & !red, cost);
        Err(first(red, all))
    }
}

/// Gives back what the meters in these slots took.
#[cold]
fn put_back(lines: &mut [Line], slots: u64, cost: u64) {
    let meters = Line::all_singles_mut(lines);
    let mut left = slots;
    while let Some(meter) = meters.get_mut(left.trailing_zeros() as usize) {
        meter.give_back(cost);
        left &= left.wrapping_sub(1);
    }
}

/// The meter that is told of.
fn first(red: u64, shared: Result<(), SharedId>) -> Red {
    match shared {
        Err(id) if red == 0 => Red::Shared(id),
        _ => Red::Qer(red.trailing_zeros() as u8),
    }
}

/// A packet under meters of a line each.
struct Wide<'a> {
    lines: &'a mut [Line],
    cost: u64,
    /// The slots that gave each colour.
    slots: [u64; 3],
}

impl<'a> Wide<'a> {
    #[inline(never)]
    fn new(lines: &'a mut [Line], qers: u64, offer: &Offer) -> Self {
        let cost = cost_of(offer.octets);
        let mut slots = [0; 3];
        let mut left = qers;
        while let Some(line) = lines.get_mut(left.trailing_zeros() as usize) {
            let colour = line.meter_mut().take(offer, cost);
            slots[colour as usize] |= left & left.wrapping_neg();
            left &= left.wrapping_sub(1);
        }
        Self { lines, cost, slots }
    }

    #[inline(never)]
    fn pass(self, shared: impl FnOnce() -> Result<(), SharedId>) -> Result<Colour, Red> {
        let [_, yellow, red] = self.slots;
        // A shared meter is asked last, and only if it can still matter: then it never has to put anything back.
        let all = if red == 0 { shared() } else { Ok(()) };
        if red == 0 && all.is_ok() {
            return Ok(if yellow == 0 {
                Colour::Green
            } else {
                Colour::Yellow
            });
        }
        self.put_back();
        Err(first(red, all))
    }

    #[cold]
    fn put_back(self) {
        for (colour, slots) in [Colour::Green, Colour::Yellow].into_iter().zip(self.slots) {
            let mut left = slots;
            while let Some(line) = self.lines.get_mut(left.trailing_zeros() as usize) {
                line.meter_mut().give_back(colour, self.cost);
                left &= left.wrapping_sub(1);
            }
        }
    }
}
