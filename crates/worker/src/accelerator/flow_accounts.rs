//! How many flow entries each session has: what becomes dead with its block. And which of them have aged.

use flow::contract::AnyKey;
use flow::{BlockRef, Blocks, SessionIndex};
use rules::classifier::Key;

use crate::lookup::flow_tables::{Admission, FlowAccounts};

/// Flows that have aged and are not taken yet, at most. More are forgotten.
const AGED: usize = 256;

/// The flow entries of sessions; those that packets can use.
pub(super) struct FlowCounts {
    /// How many, by session index.
    entries: Box<[u32]>,
    /// Those that have aged since that was asked last.
    aged: Vec<(AnyKey, SessionIndex)>,
}

impl FlowCounts {
    /// None yet, of sessions with an index below `sessions`.
    pub fn new(sessions: usize) -> Self {
        Self {
            entries: vec![0; sessions].into_boxed_slice(),
            aged: Vec::with_capacity(AGED),
        }
    }

    /// Adds the flows that have aged since that was asked last, as far as they are known, and whose they were.
    pub fn take_aged(&mut self, aged: &mut Vec<(AnyKey, SessionIndex)>) {
        aged.append(&mut self.aged);
    }

    /// A session's entries are of no use any more; how many these are.
    pub fn take(&mut self, session: SessionIndex) -> usize {
        self.entries.get_mut(session.index()).map_or(0, std::mem::take) as usize
    }

    /// Whether a session has any.
    pub fn has(&self, session: SessionIndex) -> bool {
        self.entries.get(session.index()).is_some_and(|count| *count > 0)
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

/// The counts, while entries come and go. The host decides which those are: all may come.
pub(super) struct CountsOfBlocks<'a> {
    counts: &'a mut FlowCounts,
    blocks: &'a Blocks,
}

impl FlowAccounts for CountsOfBlocks<'_> {
    fn forget(&mut self, block: BlockRef, generation: u32) -> bool {
        let block = self.blocks.get(block);
        let Some(live) = block.filter(|block| block.generation() == generation) else {
            return false;
        };
        if let Some(count) = self.counts.entries.get_mut(live.session().index()) {
            *count = count.saturating_sub(1);
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
    fn may_add(&mut self, _: SessionIndex) -> bool {
        true
    }

    fn added(&mut self, session: SessionIndex) {
        if let Some(count) = self.counts.entries.get_mut(session.index()) {
            *count += 1;
        }
    }

    fn refused(&mut self) {}
}
