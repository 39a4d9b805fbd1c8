//! Where the meters of a block are: one for each QER slot up to the last that has any; the first in the write line of
//! its direction, the others two a line, the lines of one direction together. If any of them has three colours, all of
//! the block have a line each.

use super::BlockImage;
use super::layout::{Counts, MeterPlace};
use super::lines::Line;
use crate::Direction;
use crate::meter::{Meter, Single};

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

/// Writes a meter into a block's lines; returns whether it fits there.
pub(super) fn store(lines: &mut [Line], place: MeterPlace, meter: &Meter) -> bool {
    match (place, lines.get_mut(place.line()), meter.as_single()) {
        (MeterPlace::Whole(_), Some(line), _) => *line.meter_mut() = *meter,
        (MeterPlace::Half(_, half), Some(line), Some(single)) => line.singles_mut()[half] = single,
        _ => return false,
    }
    true
}
