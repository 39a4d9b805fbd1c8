//! The slots of neighbours: which address has which, their deadlines, and which entry is removed for a new one.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

use flow::{AdjacencyId, InstanceId, Nanos};
use rules::AdjacencyRef;

use super::entry::{Entry, State, WantedBy};

/// The most entries that are examined to find a spare one for a packet's neighbour: packets are frequent.
const MOST_EXAMINED: usize = 64;

/// The table has as many entries as its capacity, or as many of one kind as that kind's share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

/// All entries.
pub(super) struct Table {
    capacity: usize,
    /// By [`AdjacencyId`]; `None` is free.
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    index: HashMap<(InstanceId, IpAddr), AdjacencyId>,
    /// Entries by [`WantedBy`].
    counts: [usize; WantedBy::COUNT],
    /// Slots by deadline.
    deadlines: BTreeSet<(Nanos, u32)>,
    /// Slots of entries that do not reply.
    failed: BTreeSet<(WantedBy, u32)>,
    /// Where the next search for a spare entry begins, by [`WantedBy`].
    search: [u32; WantedBy::COUNT],
}

impl Table {
    /// An empty table of at most `capacity` entries.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            counts: [0; WantedBy::COUNT],
            deadlines: BTreeSet::new(),
            failed: BTreeSet::new(),
            search: [0; WantedBy::COUNT],
        }
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn find(&self, instance: InstanceId, address: IpAddr) -> Option<AdjacencyId> {
        self.index.get(&(instance, address)).copied()
    }

    pub fn get(&self, id: AdjacencyId) -> Option<&Entry> {
        self.entries.get(id.0 as usize)?.as_ref()
    }

    /// All slots, free ones included.
    pub fn slots(&self) -> impl Iterator<Item = AdjacencyId> + use<> {
        (0..self.entries.len() as u32).map(AdjacencyId)
    }

    /// The entry replied at `now`.
    pub fn set_answered(&mut self, id: AdjacencyId, now: Nanos) {
        if let Some(entry) = self.get_mut(id) {
            entry.answered = Some(now);
        }
    }

    pub fn set(&mut self, id: AdjacencyId, state: State) {
        let Some(entry) = self.get_mut(id) else { return };
        entry.state = state;
        let deadline = entry.deadline();
        let before = std::mem::replace(&mut entry.due, deadline);
        let failed = (entry.wanted, id.0);
        if let Some(at) = before {
            self.deadlines.remove(&(at, id.0));
        }
        if let Some(at) = deadline {
            self.deadlines.insert((at, id.0));
        }
        match state {
            State::Failed { .. } => self.failed.insert(failed),
            _ => self.failed.remove(&failed),
        };
    }

    /// One more thing wants an entry.
    pub fn want(&mut self, id: AdjacencyId, wanted: WantedBy) {
        let Some(entry) = self.get_mut(id) else { return };
        let before = entry.wanted;
        let after = before.max(wanted);
        entry.wanted = after;
        self.counts[before as usize] -= 1;
        self.counts[after as usize] += 1;
        if self.failed.remove(&(before, id.0)) {
            self.failed.insert((after, id.0));
        }
    }

    /// The configuration does not want an entry any more: it stays as if packets had wanted it, as they may.
    pub fn give_up(&mut self, id: AdjacencyId) {
        let Some(entry) = self.get_mut(id) else { return };
        if entry.wanted != WantedBy::Configuration {
            return;
        }
        entry.wanted = WantedBy::Traffic;
        self.counts[WantedBy::Configuration as usize] -= 1;
        self.counts[WantedBy::Traffic as usize] += 1;
        if self.failed.remove(&(WantedBy::Configuration, id.0)) {
            self.failed.insert((WantedBy::Traffic, id.0));
        }
    }

    /// How many entries are wanted by this.
    pub const fn count(&self, wanted: WantedBy) -> usize {
        self.counts[wanted as usize]
    }

    /// A new entry, for which there is [room](Self::entry_to_remove).
    pub fn insert(
        &mut self,
        instance: InstanceId,
        address: IpAddr,
        wanted: WantedBy,
        state: State,
    ) -> AdjacencyId {
        let slot = self.free.pop().unwrap_or(self.entries.len() as u32);
        let entry = Entry {
            instance,
            address,
            wanted,
            due: None,
            answered: None,
            hold: AdjacencyRef::default(),
            state,
        };
        match self.entries.get_mut(slot as usize) {
            Some(free) => *free = Some(entry),
            None => self.entries.push(Some(entry)),
        }
        self.counts[wanted as usize] += 1;
        self.index.insert((instance, address), AdjacencyId(slot));
        self.set(AdjacencyId(slot), state);
        AdjacencyId(slot)
    }

    pub fn remove(&mut self, id: AdjacencyId) -> Option<Entry> {
        let entry = self.entries.get_mut(id.0 as usize).and_then(Option::take)?;
        self.counts[entry.wanted as usize] -= 1;
        self.failed.remove(&(entry.wanted, id.0));
        if let Some(at) = entry.due {
            self.deadlines.remove(&(at, id.0));
        }
        self.index.remove(&(entry.instance, entry.address));
        self.free.push(id.0);
        Some(entry)
    }

    /// The earliest deadline.
    pub fn poll_timeout(&self) -> Option<Nanos> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// The slots whose deadline has come, in their order.
    pub fn due(&self, now: Nanos) -> Vec<AdjacencyId> {
        let due = self.deadlines.range(..=(now, u32::MAX));
        let mut due: Vec<AdjacencyId> = due.map(|(_, slot)| AdjacencyId(*slot)).collect();
        due.sort_unstable();
        due
    }

    /// Which entry has to be removed so that there is room for a new one; `None` if none has to.
    pub fn entry_to_remove(&mut self, wanted: WantedBy) -> Result<Option<AdjacencyId>, Full> {
        let share = match wanted {
            WantedBy::Rules => self.capacity / 4 * 3,
            WantedBy::Traffic => self.capacity / 2,
            WantedBy::Configuration => self.capacity,
        };
        let has_share = self.counts[wanted as usize] < share;
        if has_share && self.len() < self.capacity {
            return Ok(None);
        }
        let kinds = [WantedBy::Rules, WantedBy::Traffic];
        let mut kinds = kinds.into_iter().filter(|kind| has_share || *kind == wanted);
        let failed = kinds.find_map(|kind| self.failed_spare(kind));
        let found = failed.or_else(|| {
            self.rules_spare(wanted)
                .filter(|_| has_share || wanted == WantedBy::Rules)
        });
        found.map(Some).ok_or(Full)
    }

    /// An entry that does not reply and that nothing refers to.
    fn failed_spare(&mut self, kind: WantedBy) -> Option<AdjacencyId> {
        let from = self.search[kind as usize];
        let behind = self.failed.range((kind, from)..=(kind, u32::MAX));
        let before = self.failed.range((kind, 0)..(kind, from));
        let mut last = from;
        let found = behind.chain(before).take(MOST_EXAMINED).find(|(_, slot)| {
            last = *slot;
            self.get(AdjacencyId(*slot)).is_some_and(Entry::is_spare)
        });
        let found = found.map(|(_, slot)| AdjacencyId(*slot));
        self.search[kind as usize] = last.wrapping_add(1);
        found
    }

    /// An entry that rules no longer refer to. For a packet, only some are examined; the next search continues there.
    fn rules_spare(&mut self, wanted: WantedBy) -> Option<AdjacencyId> {
        if self.counts[WantedBy::Rules as usize] == 0 {
            return None;
        }
        let count = self.entries.len();
        let from = self.search[WantedBy::Configuration as usize] as usize;
        let examined = if wanted == WantedBy::Traffic {
            MOST_EXAMINED
        } else {
            count
        };
        let mut slots = (0..count.min(examined)).map(|step| (from + step) % count);
        let is_done = |entry: &Entry| entry.is_spare() && entry.wanted == WantedBy::Rules;
        let found = slots.find(|slot| self.entries[*slot].as_ref().is_some_and(is_done));
        let last = found.unwrap_or(from + examined);
        self.search[WantedBy::Configuration as usize] = ((last + 1) % count) as u32;
        found.map(|slot| AdjacencyId(slot as u32))
    }

    fn get_mut(&mut self, id: AdjacencyId) -> Option<&mut Entry> {
        self.entries.get_mut(id.0 as usize)?.as_mut()
    }
}
