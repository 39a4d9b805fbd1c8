//! What the inspection of a packet uses besides the flow's state, and what it makes of a flow.

use super::flow::Flow;
use super::settings::Settings;
use crate::reassembly::{BLOCK_OCTETS, BlockPool, Refused};
use crate::shares::Shares;
use crate::verdict::{Found, Protocol, Reason};

/// What a packet makes of a flow.
pub(super) enum Outcome {
    Undecided,
    Found,
    Undetected(Reason),
}

/// What the inspection of a packet uses besides the flow's state.
#[derive(Debug)]
pub(super) struct Resources {
    pub(super) blocks: BlockPool,
    pub(super) block_shares: Shares,
    /// Messages in one piece: decrypted, or put together from records.
    pub(super) scratch: Box<[u8]>,
    pub(super) found: Found,
}

impl Resources {
    pub(super) fn new(settings: &Settings) -> Resources {
        Resources {
            blocks: BlockPool::new(settings.blocks),
            block_shares: Shares::new(settings.owners, settings.blocks_of_owner),
            scratch: vec![0; BLOCK_OCTETS].into(),
            found: Found::of(Protocol::Stun),
        }
    }

    /// Gives back what a flow has that is over.
    pub(super) fn give_back(&mut self, flow: Flow) {
        if let Some(block) = flow.block {
            self.block_shares.give_back(flow.owner);
            self.blocks.give_back(block);
        }
    }

    /// Puts a piece of a stream into the flow's block, which it gets if it has none.
    pub(super) fn insert(&mut self, flow: &mut Flow, offset: u64, piece: &[u8]) -> Result<(), Reason> {
        if flow.block.is_none() {
            if !self.block_shares.take(flow.owner) {
                return Err(Reason::OwnersShare);
            }
            flow.block = self.blocks.take();
        }
        let Some(block) = &flow.block else {
            self.block_shares.give_back(flow.owner);
            return Err(Reason::NoBlock);
        };
        self.blocks
            .insert(block, offset, piece)
            .map_err(|refused| match refused {
                Refused::Ambiguous => Reason::Ambiguous,
                Refused::TooManyPieces => Reason::Budget,
            })
    }

    /// Keeps what was found.
    pub(super) fn found(&mut self, found: Found) -> Outcome {
        self.found = found;
        Outcome::Found
    }
}
