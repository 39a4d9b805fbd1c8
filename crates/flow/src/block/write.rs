//! A whole block from its image: counts zero and meters full.

use super::bounds::{BoundsLine, LookEvery};
use super::forwards::PackedForward;
use super::layout::{
    Counts, INLINE_MARKS, MARKS_PER_LINE, TallyPosition, read_line_at, tally_at, write_line_at,
};
use super::lines::{Line, ReadLine, WriteLine};
use super::tally::{RARE_PER_LINE, Rare};
use super::{BlockImage, Bounds, meter_lines};
use crate::{Direction, Forward, Mark, SessionIndex, UrrCount};

/// Which block it is: what both read lines say.
#[derive(Clone, Copy)]
pub(super) struct Identity {
    pub(super) session: SessionIndex,
    pub(super) generation: u32,
}

/// Writes all lines of a block. `counts` are those of the image, and `lines` are as many.
pub(super) fn write_block(
    lines: &mut [Line],
    identity: Identity,
    counts: Counts,
    of: (&BlockImage, LookEvery),
) {
    let (image, every) = of;
    lines[..counts.meters_at()].fill(Line::ZERO);
    for direction in Direction::BOTH {
        *lines[write_line_at(direction)].write_line_mut() = WriteLine::NEW;
    }
    meter_lines::write(lines, counts, image);
    let (forwards, marks) = lines[counts.forwards_at()..].split_at_mut(usize::from(counts.forwards));
    for (line, forward) in forwards.iter_mut().zip(&image.forwards) {
        *line = Line::of_forward(forward);
    }
    for (line, chunk) in marks.iter_mut().zip(image.marks.chunks(MARKS_PER_LINE)) {
        *line = Line::of_marks(chunk);
    }
    for direction in Direction::BOTH {
        let read_line = lines[read_line_at(direction)].read_line_mut();
        let written = ReadLine {
            generation: identity.generation,
            counts,
            ..read_line_of(image, direction)
        };
        *read_line = written.of(identity.session, image.group);
        read_line.stopped = read_line.never_after_qos();
    }
    lines[counts.rare_at()..].fill(Line::ZERO);
    let mut rare = |slot: usize, change: &dyn Fn(&mut Rare)| {
        if let Some(line) = lines.get_mut(counts.rare_at() + slot / RARE_PER_LINE) {
            change(&mut line.rare_mut()[slot % RARE_PER_LINE]);
        }
    };
    for slot in (0..usize::from(counts.urrs())).filter(|slot| image.units >> slot & 1 == 1) {
        rare(slot, &Rare::count_units);
    }
    for weight in &image.weights {
        rare(weight.of.into(), &Rare::count_weights);
        rare(weight.slot.into(), &|rare| rare.weigh(weight.of, weight.times));
    }
    if counts.is_bounded() {
        write_bounds(lines, counts, (&image.bounds, every));
    }
}

/// Writes the bounds of all URRs, and the octets that counters start from with these.
fn write_bounds(lines: &mut [Line], counts: Counts, (all, every): (&[Bounds], LookEvery)) {
    for slot in 0..usize::from(counts.urrs()) {
        let mut bounds = BoundsLine::of(all.get(slot).unwrap_or(&Bounds::NONE), every);
        let armed = bounds.arm(UrrCount::default());
        *lines[counts.bounds_at() + slot].bounds_mut() = bounds;
        for direction in Direction::BOTH {
            let TallyPosition { line, index } = tally_at(slot, direction);
            lines[line].tallies_mut()[index].set_octets(armed.octets(direction));
        }
    }
}

/// A read line without identity.
fn read_line_of(image: &BlockImage, direction: Direction) -> ReadLine {
    let inline_slot = image.inline[direction as usize];
    let mut marks = [0; INLINE_MARKS];
    marks
        .iter_mut()
        .zip(&image.marks)
        .for_each(|(bits, mark): (_, &Mark)| *bits = mark.bits());
    ReadLine {
        closed: image.closed(direction),
        inline_slot,
        inline: PackedForward::from(
            image
                .forwards
                .get(usize::from(inline_slot))
                .unwrap_or(&Forward::DROP),
        ),
        marks,
        after_qos: image.urrs.saturating_sub(image.before_qos),
        shared: image.shared.0,
        ..ReadLine::default()
    }
}
