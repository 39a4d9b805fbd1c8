//! How many flow entries each session has: what becomes dead with its block.

use flow::{BlockRef, Blocks, SessionIndex};

use crate::lookup::flow_tables::{Admission, FlowAccounts};

/// The flow entries of sessions, by index; those that packets can use.
pub(super) struct FlowCounts(Box<[u32]>);

impl FlowCounts {
    /// None yet, of sessions with an index below `sessions`.
    pub fn new(sessions: usize) -> Self {
        Self(vec![0; sessions].into_boxed_slice())
    }

    /// A session's entries are of no use any more; how many these are.
    pub fn take(&mut self, session: SessionIndex) -> usize {
        self.0.get_mut(session.index()).map_or(0, std::mem::take) as usize
    }

    /// Whether a session has any.
    pub fn has(&self, session: SessionIndex) -> bool {
        self.0.get(session.index()).is_some_and(|count| *count > 0)
    }

    /// The same with the blocks that say whose an entry is.
    pub const fn with<'a>(&'a mut self, blocks: &'a Blocks) -> CountsOfBlocks<'a> {
        CountsOfBlocks { counts: self, blocks }
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
        if let Some(count) = self.counts.0.get_mut(live.session().index()) {
            *count = count.saturating_sub(1);
        }
        true
    }
}

impl Admission for CountsOfBlocks<'_> {
    fn may_add(&mut self, _: SessionIndex) -> bool {
        true
    }

    fn added(&mut self, session: SessionIndex) {
        if let Some(count) = self.counts.0.get_mut(session.index()) {
            *count += 1;
        }
    }

    fn refused(&mut self) {}
}
