//! Room in the table: which entry goes for a new one.

use flow::AdjacencyId;

use super::{Entry, MOST_LOOKS, NeighbourError, Neighbours, WantedBy};

impl Neighbours {
    /// Makes room for an entry: one that is spare goes, if need be.
    pub(super) fn make_room(&mut self, wanted: WantedBy) -> Result<(), NeighbourError> {
        let share = match wanted {
            WantedBy::Rules => self.config.capacity / 4 * 3,
            WantedBy::Traffic => self.config.capacity / 2,
            WantedBy::Configuration => self.config.capacity,
        };
        let has_share = self.counts[wanted as usize] < share;
        if has_share && self.len() < self.config.capacity {
            return Ok(());
        }
        let kinds = [WantedBy::Rules, WantedBy::Traffic];
        let kinds = kinds.into_iter().filter(|kind| has_share || *kind == wanted);
        let failed = kinds.clone().find_map(|kind| self.failed_spare(kind));
        let slot = failed.or_else(|| {
            self.rules_spare(wanted)
                .filter(|_| has_share || wanted == WantedBy::Rules)
        });
        self.remove(slot.ok_or(NeighbourError::Full)?);
        Ok(())
    }

    /// An entry that does not answer and that nobody refers to.
    fn failed_spare(&mut self, kind: WantedBy) -> Option<AdjacencyId> {
        let from = self.search[kind as usize];
        let behind = self.failed.range((kind, from)..=(kind, u32::MAX));
        let before = self.failed.range((kind, 0)..(kind, from));
        let mut last = from;
        let found = behind.chain(before).take(MOST_LOOKS).find(|(_, slot)| {
            last = *slot;
            self.entry(AdjacencyId(*slot)).is_some_and(Entry::is_spare)
        });
        let found = found.map(|(_, slot)| AdjacencyId(*slot));
        self.search[kind as usize] = last.wrapping_add(1);
        found
    }

    /// An entry that rules are done with. For a packet, only some are looked at: the next will look at others.
    fn rules_spare(&mut self, wanted: WantedBy) -> Option<AdjacencyId> {
        if self.counts[WantedBy::Rules as usize] == 0 {
            return None;
        }
        let (count, from) = (
            self.entries.len(),
            self.search[WantedBy::Configuration as usize] as usize,
        );
        let looks = if wanted == WantedBy::Traffic {
            MOST_LOOKS
        } else {
            count
        };
        let mut places = (0..count.min(looks)).map(|step| (from + step) % count);
        let is_done = |entry: &Entry| entry.is_spare() && entry.wanted == WantedBy::Rules;
        let found = places.find(|place| self.entries[*place].as_ref().is_some_and(is_done));
        let last = found.unwrap_or(from + looks);
        self.search[WantedBy::Configuration as usize] = ((last + 1) % count) as u32;
        found.map(|place| AdjacencyId(place as u32))
    }
}
