//! A block that replaces another, and what it takes over: counts, bounds that were reached, what meters hold.

use super::allocator::LineAllocator;
use super::bounds::BoundsLine;
use super::tally::Tallied;
use super::write::Identity;
use super::{BlockError, BlockImage, BlockRef, Blocks, Flows, Installed, SessionBlock};
use crate::Direction;
use crate::meter::Meter;

/// Which URRs and QERs stay when a block is replaced: for each new slot the old slot whose counts, or whose meters'
/// tokens, it continues with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplaceMap {
    urrs: [Option<u8>; BlockImage::MAX_URRS],
    qers: [Option<u8>; BlockImage::MAX_QERS],
}

impl ReplaceMap {
    /// Nothing stays: counts start from zero and meters full.
    pub const NONE: Self = Self {
        urrs: [None; BlockImage::MAX_URRS],
        qers: [None; BlockImage::MAX_QERS],
    };

    /// Every slot stays what it is.
    pub const SAME: Self = {
        let mut map = Self::NONE;
        let mut slot = 0;
        while slot < 64 {
            map.urrs[slot] = Some(slot as u8);
            map.qers[slot] = Some(slot as u8);
            slot += 1;
        }
        map
    };

    /// The URRs that are in both lists stay, and no QER. A list gives each slot's URR; what is beyond the 64th slot
    /// is ignored.
    pub fn by_ids<T: PartialEq>(old: &[T], new: &[T]) -> Self {
        Self {
            urrs: places(old, new),
            ..Self::NONE
        }
    }

    /// The same, and the QERs that are in both lists stay too.
    #[must_use]
    pub fn with_qers<T: PartialEq>(self, old: &[T], new: &[T]) -> Self {
        Self {
            qers: places(old, new),
            ..self
        }
    }

    /// The same, but the URR in a new slot starts from zero.
    #[must_use]
    pub fn without_urr(mut self, slot: u8) -> Self {
        if let Some(place) = self.urrs.get_mut(usize::from(slot)) {
            *place = None;
        }
        self
    }

    /// Whether the counts of `old` continue in a new slot; else they are final when the block is replaced.
    pub fn keeps(&self, old: u8) -> bool {
        self.urrs.contains(&Some(old))
    }
}

/// For each new slot, which old slot has the same name.
fn places<T: PartialEq>(old: &[T], new: &[T]) -> [Option<u8>; 64] {
    let mut places = [None; 64];
    for (slot, id) in places.iter_mut().zip(new) {
        *slot = old
            .iter()
            .take(64)
            .position(|other| other == id)
            .map(|place| place as u8);
    }
    places
}

/// A URR that stays.
struct Urr {
    tallied: Tallied,
    bounds: Option<BoundsLine>,
    /// By direction.
    stopped: [bool; 2],
}

/// What is carried, each with its new slot.
struct Carried {
    urrs: Vec<(u8, Urr)>,
    meters: Vec<(u8, Direction, Meter)>,
}

impl Carried {
    /// Reads it from the block that is to be replaced.
    fn read(old: &SessionBlock<'_>, map: &ReplaceMap) -> Self {
        let urr = |slot: u8| {
            Some(Urr {
                tallied: old.tallied(slot)?.with_octets(old.urr(slot)?),
                bounds: old.bounds_line(slot).copied(),
                stopped: Direction::BOTH.map(|direction| old.stopped(direction) >> slot & 1 == 1),
            })
        };
        let urrs = (0..).zip(&map.urrs);
        let qers = (0..).zip(&map.qers);
        let meter = |(to, from): (u8, &Option<u8>)| {
            let from = *from;
            Direction::BOTH
                .into_iter()
                .filter_map(move |direction| Some((to, direction, old.meter(from?, direction)?)))
        };
        Self {
            urrs: urrs.filter_map(|(to, from)| Some((to, urr((*from)?)?))).collect(),
            meters: qers.flat_map(meter).collect(),
        }
    }

    /// Writes it to the block that replaces it.
    fn write(&self, blocks: &mut Blocks, block: BlockRef) {
        for (slot, urr) in &self.urrs {
            let bounds_stay = blocks.go_on_counting(block, *slot, &urr.tallied, urr.bounds.as_ref());
            for direction in Direction::BOTH {
                if bounds_stay && urr.stopped[direction as usize] {
                    blocks.stop(block, *slot, direction);
                }
            }
        }
        for (slot, direction, old) in &self.meters {
            blocks.change_meter(block, *slot, *direction, |new| {
                let mut meter = *new;
                if !meter.is_unlimited() {
                    meter.go_on(old);
                }
                meter
            });
        }
    }
}

impl Blocks {
    /// Changes a session's block: what `carry` names keeps its counts and tokens, all else starts anew. A URR that
    /// stays with the same bounds stays stopped, and reports nothing twice. The counts of those that do not stay are
    /// to be read before. The block may move.
    ///
    /// # Errors
    ///
    /// [`BlockError::Full`], [`BlockError::OutOfBounds`], [`BlockError::Dead`].
    pub fn replace(
        &mut self,
        block: BlockRef,
        image: &BlockImage,
        carry: &ReplaceMap,
        flows: Flows,
    ) -> Result<Installed, BlockError> {
        let old = self.get(block).ok_or(BlockError::Dead)?;
        let mut identity = Identity {
            session: old.session(),
            generation: old.generation(),
        };
        let old_lines = old.counts().lines();
        let counts = self.counts_of(image)?;
        let carried = Carried::read(&old, carry);
        let stays = LineAllocator::rounded(counts.lines()) == LineAllocator::rounded(old_lines);
        let installed = if !stays {
            let new = self.install(identity.session, image)?;
            self.remove(block);
            new
        } else {
            if flows == Flows::Revoke {
                identity.generation = self.next_generation();
            }
            self.write(block, identity, counts, image);
            Installed {
                block,
                generation: identity.generation,
            }
        };
        carried.write(self, installed.block);
        Ok(installed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_by_ids_keeps_what_is_in_both() {
        let map = ReplaceMap::by_ids(&[5, 6, 7], &[7, 9, 5]).with_qers(&[1], &[2, 1]);
        assert_eq!(map.urrs[..4], [Some(2), None, Some(0), None]);
        assert_eq!(map.qers[..3], [None, Some(0), None]);
        assert_eq!([0, 1, 2, 3].map(|old| map.keeps(old)), [true, false, true, false]);
        assert!(!map.without_urr(0).keeps(2));
    }
}
