//! How many flow entries each session has: what becomes dead with its block. Which of them have aged. And how much of
//! the room each of the host's workers has.

use flow::contract::AnyKey;
use flow::{BlockRef, Blocks, SessionIndex, prefetch};
use rules::classifier::Key;

use crate::burst::descriptor::Family;
use crate::lookup::flow_tables::{Admission, FlowAccounts};
use crate::shares::Shares;

/// Flows that have aged and are not taken yet, at most. More are forgotten.
const AGED: usize = 256;

/// The flow entries of sessions; those that packets can use.
pub(super) struct FlowCounts {
    /// How many of IPv4 and of IPv6, by session index.
    entries: Box<[[u32; 2]]>,
    /// Whose the sessions are, of those that share the room.
    sharers: Box<[u8]>,
    /// The room for entries of IPv4 and of IPv6.
    room: [usize; 2],
    /// Who has how much of it; `None` where one has all.
    shares: Option<[Shares; 2]>,
    /// Those that have aged since that was asked last.
    aged: Vec<(AnyKey, SessionIndex)>,
}

impl FlowCounts {
    /// None yet, of sessions with an index below `sessions`, and with `room` for entries of IPv4 and of IPv6.
    pub fn new(sessions: usize, room: [usize; 2]) -> Self {
        Self {
            entries: vec![[0; 2]; sessions].into_boxed_slice(),
            sharers: vec![0; sessions].into_boxed_slice(),
            room,
            shares: None,
            aged: Vec::with_capacity(AGED),
        }
    }

    /// Asks for what is kept of a session, which is to change.
    pub fn prefetch(&self, session: SessionIndex) {
        prefetch::nth_to_write(&self.entries, session.index());
    }

    /// Adds the flows that have aged since that was asked last, as far as they are known, and whose they were.
    pub fn take_aged(&mut self, aged: &mut Vec<(AnyKey, SessionIndex)>) {
        aged.append(&mut self.aged);
    }

    /// A session's entries are of no use any more; how many these are. Those that have aged are not told: the next
    /// session of this index may be another's.
    pub fn take(&mut self, session: SessionIndex) -> usize {
        self.aged.retain(|(_, of)| *of != session);
        let taken = self.entries.get_mut(session.index()).map(std::mem::take);
        let taken = taken.unwrap_or_default().map(|entries| entries as usize);
        let sharer = self.sharer(session);
        for (shares, fewer) in self.shares.iter_mut().flatten().zip(taken) {
            shares.vacate(sharer, fewer);
        }
        taken.iter().sum()
    }

    /// This number of workers shares the room from now on.
    pub fn share_among(&mut self, sharers: usize) {
        let before = self.shares.as_ref().map_or(1, |[shares, _]| shares.sharers());
        if sharers == before {
            return;
        }
        let mut shares = self.room.map(|room| Shares::new(room, sharers));
        for (entries, sharer) in self.entries.iter().zip(&self.sharers) {
            for (shares, entries) in shares.iter_mut().zip(entries) {
                shares.add((*sharer).into(), *entries as usize);
            }
        }
        self.shares = (sharers > 1).then_some(shares);
    }

    /// A session is one's of those that share the room; its entries go with it.
    pub fn assign(&mut self, session: SessionIndex, sharer: usize) {
        let entries = self.entries.get(session.index()).copied().unwrap_or_default();
        let Some(before) = self.sharers.get_mut(session.index()) else {
            return;
        };
        let before = std::mem::replace(before, sharer as u8);
        for (shares, entries) in self.shares.iter_mut().flatten().zip(entries) {
            shares.vacate(before.into(), entries as usize);
            shares.add(sharer, entries as usize);
        }
    }

    fn sharer(&self, session: SessionIndex) -> usize {
        self.sharers
            .get(session.index())
            .copied()
            .unwrap_or_default()
            .into()
    }

    /// Whether a session has any.
    pub fn has(&self, session: SessionIndex) -> bool {
        self.entries
            .get(session.index())
            .is_some_and(|counts| *counts != [0; 2])
    }

    /// The same with the blocks that say whose an entry is.
    pub const fn with<'a>(&'a mut self, blocks: &'a Blocks) -> CountsOfBlocks<'a> {
        CountsOfBlocks { counts: self, blocks }
    }
}

/// A key of either family, as the contract has it.
pub(super) const fn any_key(key: Key) -> AnyKey {
    match key {
        Key::V4(key) => AnyKey::V4(key),
        Key::V6(key) => AnyKey::V6(key),
    }
}

/// The place of a family in what is counted for each.
const fn number_of(family: Family) -> usize {
    match family {
        Family::V6 => 1,
        _ => 0,
    }
}

/// The counts, while entries come and go. The host decides which those are: all may come
/// that there is room for.
pub(super) struct CountsOfBlocks<'a> {
    counts: &'a mut FlowCounts,
    blocks: &'a Blocks,
}

impl FlowAccounts for CountsOfBlocks<'_> {
    fn forget(&mut self, family: Family, block: BlockRef, generation: u32) -> bool {
        let block = self.blocks.get(block);
        let Some(live) = block.filter(|block| block.generation() == generation) else {
            return false;
        };
        let (session, family) = (live.session(), number_of(family));
        let counts = &mut *self.counts;
        if let Some(entries) = counts.entries.get_mut(session.index())
            && entries[family] > 0
        {
            entries[family] -= 1;
            let sharer = counts.sharer(session);
            if let Some(shares) = &mut counts.shares {
                shares[family].vacate(sharer, 1);
            }
        }
        true
    }

    fn note_aged(&mut self, key: Key, block: BlockRef) {
        if let Some(block) = self.blocks.get(block)
            && self.counts.aged.len() < AGED
        {
            self.counts.aged.push((any_key(key), block.session()));
        }
    }
}

impl Admission for CountsOfBlocks<'_> {
    fn may_add(&mut self, family: Family, session: SessionIndex) -> bool {
        let shares = self.counts.shares.as_ref();
        shares.is_none_or(|shares| shares[number_of(family)].has_room(self.counts.sharer(session)))
    }

    fn added(&mut self, family: Family, session: SessionIndex) {
        let (counts, family) = (&mut *self.counts, number_of(family));
        if let Some(entries) = counts.entries.get_mut(session.index()) {
            entries[family] += 1;
            let sharer = counts.sharer(session);
            if let Some(shares) = &mut counts.shares {
                shares[family].add(sharer, 1);
            }
        }
    }

    fn refused(&mut self) {}
}

#[cfg(test)]
mod tests {
    use flow::{BlockImage, FlowKey4, Installed};

    use super::*;

    const SESSIONS: [SessionIndex; 2] = [SessionIndex(0), SessionIndex(1)];

    fn blocks() -> (Blocks, [Installed; 2]) {
        let mut blocks = Blocks::new(2, Blocks::TYPICAL_LINES).expect("there is memory");
        let image = BlockImage::default();
        let installed = SESSIONS.map(|session| blocks.install(session, &image).expect("there is room"));
        (blocks, installed)
    }

    /// How many entries a session gets more.
    fn fill(counts: &mut FlowCounts, blocks: &Blocks, family: Family, session: SessionIndex) -> usize {
        let mut counts = counts.with(blocks);
        let mut got = 0;
        while got < 1_000 && counts.may_add(family, session) {
            counts.added(family, session);
            got += 1;
        }
        got
    }

    #[test]
    fn flows_that_have_aged_are_not_those_of_the_next_session_of_the_index() {
        let (mut blocks, installed) = blocks();
        let mut counts = FlowCounts::new(2, [64, 16]);
        let keys = [80, 81].map(|address| FlowKey4 {
            destination: [10, 0, 0, address],
            ..FlowKey4::default()
        });
        for (key, installed) in keys.into_iter().zip(installed) {
            counts.with(&blocks).note_aged(Key::V4(key), installed.block);
        }
        blocks.remove(installed[0].block);
        counts.take(SESSIONS[0]);
        let mut aged = Vec::new();
        counts.take_aged(&mut aged);
        assert_eq!(aged, [(AnyKey::V4(keys[1]), SESSIONS[1])]);
    }

    #[test]
    fn one_that_shares_the_room_leaves_the_others_their_part() {
        let (blocks, installed) = blocks();
        let mut counts = FlowCounts::new(2, [64, 16]);
        assert_eq!(
            fill(&mut counts, &blocks, Family::V4, SESSIONS[0]),
            1_000,
            "the table says when"
        );
        assert_eq!(counts.take(SESSIONS[0]), 1_000);
        counts.share_among(2);
        counts.assign(SESSIONS[1], 1);
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[0]), 48);
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[1]), 16);
        assert_eq!(
            fill(&mut counts, &blocks, Family::V6, SESSIONS[1]),
            12,
            "that is another table"
        );
        let Installed { block, generation } = installed[0];
        assert!(counts.with(&blocks).forget(Family::V4, block, generation));
        assert!(!counts.with(&blocks).forget(Family::V4, block, generation + 1));
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[1]), 1);
        assert_eq!((counts.take(SESSIONS[1]), counts.take(SESSIONS[1])), (29, 0));
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[0]), 1);
        // What there is counts when others come, and stays a session's that another one has.
        counts.share_among(4);
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[1]), 8);
        counts.assign(SESSIONS[0], 2);
        counts.assign(SESSIONS[1], 2);
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[1]), 0);
        counts.share_among(1);
        assert_eq!(fill(&mut counts, &blocks, Family::V4, SESSIONS[0]), 1_000);
    }
}
