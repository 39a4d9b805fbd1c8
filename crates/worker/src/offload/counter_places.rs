//! Where the counters of a session are at an accelerator: those of its block, and one more for all that is forwarded,
//! which counts in the total of the session's group. It is the first behind those that count after QoS, so that the
//! order of an accelerator's counters is that of a block's.

use flow::BlockImage;

/// The places of one session's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CounterPlaces {
    /// Of the counter for all that is forwarded.
    all: u8,
}

/// A counter of an accelerator, at home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtHome {
    /// That of the block in this slot.
    Slot(u8),
    /// The total of the session's group.
    Group,
}

impl CounterPlaces {
    /// Those of a session whose block is made of this.
    pub(crate) const fn of(block: &BlockImage) -> Self {
        Self {
            all: block.urrs.saturating_sub(block.before_qos),
        }
    }

    /// How many counters a session has there.
    pub(super) const fn number(block: &BlockImage) -> u8 {
        block.urrs.saturating_add(1)
    }

    /// Of the counter for all that is forwarded.
    pub(super) const fn all(self) -> u8 {
        self.all
    }

    /// Of the counter of the block in `slot`.
    pub(super) const fn of_slot(self, slot: u8) -> u8 {
        if slot < self.all { slot } else { slot + 1 }
    }

    /// Of these counters of the block, and of the one for all that is forwarded.
    pub(crate) const fn of_flow(self, slots: u64) -> u64 {
        let one = 1 << (self.all & 63);
        let before = one - 1;
        (slots & before) | one | ((slots & !before) << 1)
    }

    /// What the counter at a place is at home.
    pub(super) const fn at_home(self, place: u8) -> AtHome {
        if place < self.all {
            AtHome::Slot(place)
        } else if place == self.all {
            AtHome::Group
        } else {
            AtHome::Slot(place - 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_of_a_block_has_a_place_and_so_has_the_total() {
        for (urrs, before_qos) in [(0, 0), (1, 0), (3, 1), (2, 2), (63, 0), (63, 20), (63, 63)] {
            let block = BlockImage {
                urrs,
                before_qos,
                ..BlockImage::default()
            };
            let places = CounterPlaces::of(&block);
            let mut found: Vec<u8> = (0..urrs).map(|slot| places.of_slot(slot)).collect();
            for (slot, place) in (0..).zip(&found) {
                assert_eq!(places.at_home(*place), AtHome::Slot(slot));
                assert_eq!(places.of_flow(1 << slot), (1 << place) | (1 << places.all()));
            }
            assert_eq!(places.at_home(places.all()), AtHome::Group);
            found.push(places.all());
            found.sort_unstable();
            assert_eq!(found, (0..CounterPlaces::number(&block)).collect::<Vec<_>>());
            assert_eq!(places.of_flow(0), 1 << places.all());
        }
    }
}
