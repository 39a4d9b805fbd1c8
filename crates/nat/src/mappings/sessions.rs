//! What sessions have of a table: their blocks, and how much of them they may use.

use std::time::Duration;

use flow::{Nanos, SessionIndex, TokenLevel};
use zerocopy::FromZeros;

use super::endpoint::Protocol;
use super::lifetime::{ticks, ticks_of};
use super::owner::{First, Session, SessionPolicy};
use super::table::Mappings;
use crate::pools::{BlockId, PortBlock};

/// The most blocks of a session.
pub const MOST_BLOCKS_OF_SESSION: u8 = u8::MAX;
/// Held blocks that one search for an idle one looks at, at most.
const MOST_LOOKS: u32 = 64;

/// What a session has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionUse {
    /// Blocks.
    pub blocks: u8,
    /// Mappings; some may be dead.
    pub mappings: u32,
    /// Free ports of its blocks, of each [`Protocol`] at its number.
    pub ports_free: [u32; Protocol::COUNT],
}

/// Why a block cannot be granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantError {
    /// The session is not known.
    UnknownSession,
    /// The number is not below the blocks that there are, or the block has more ports than any is to have.
    UnknownBlock,
    /// This session holds the block.
    Held(SessionIndex),
    /// The session holds a block with this number, of other ports.
    Differs,
    /// The session holds [`MOST_BLOCKS_OF_SESSION`].
    TooManyBlocks,
    /// The worker's sessions hold as many blocks as they can.
    TableFull,
}

impl Mappings {
    /// A session is known from now on, and what it may have; or that is another from now on. A number of a session that
    /// there is none of is left out.
    pub fn set_session(&mut self, session: SessionIndex, policy: SessionPolicy) {
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            owner.set(&policy);
        }
    }

    /// Whether a session may make new mappings, as it may at first. It may not at the worker that it leaves while it
    /// moves: its mappings stay in use there, and its blocks stay its own.
    pub fn may_map(&mut self, session: SessionIndex, may: bool) {
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            owner.is_moving = u8::from(!may && owner.is_known != 0);
        }
    }

    /// A session holds a block from now on. If it does already, nothing changes.
    ///
    /// # Errors
    /// Nothing changes; see [`GrantError`].
    pub fn grant(
        &mut self,
        session: SessionIndex,
        id: BlockId,
        block: PortBlock,
        now: Nanos,
    ) -> Result<(), GrantError> {
        let owner = self.sessions.get_mut(session.index());
        let owner = owner.filter(|owner| owner.is_known != 0);
        let owner = owner.ok_or(GrantError::UnknownSession)?;
        if !self.held.has_number(id) || !self.held.fits(block) {
            return Err(GrantError::UnknownBlock);
        }
        if let Some(held) = self.held.number(id).and_then(|number| self.held.pool.get(number)) {
            return match (held.session() == session, held.block() == block) {
                (false, _) => Err(GrantError::Held(held.session())),
                (true, false) => Err(GrantError::Differs),
                (true, true) => Ok(()),
            };
        }
        if owner.blocks == MOST_BLOCKS_OF_SESSION {
            return Err(GrantError::TooManyBlocks);
        }
        let number = self.held.put(session, (id, block), owner.last, ticks(now));
        let number = number.ok_or(GrantError::TableFull)?;
        owner.last = number + 1;
        if owner.first == 0 {
            owner.first = number + 1;
            self.firsts[session.index()] = First::of(id, block);
        }
        owner.blocks += 1;
        owner.ports += 1 << block.bits;
        // What was asked for has come.
        owner.asks_at = 0;
        Ok(())
    }

    /// The blocks that a session holds, in the order in which they were granted.
    pub fn blocks(&self, session: SessionIndex) -> impl Iterator<Item = (BlockId, PortBlock)> {
        let held = self
            .numbers(session)
            .filter_map(|number| self.held.pool.get(number));
        held.map(|held| (held.id(), held.block()))
    }

    /// What a session has.
    pub fn use_of(&self, session: SessionIndex) -> SessionUse {
        let owner = self.sessions.get(session.index());
        owner.map_or_else(SessionUse::default, |owner| SessionUse {
            blocks: owner.blocks,
            mappings: owner.mappings,
            ports_free: Protocol::ALL.map(|protocol| owner.free(protocol)),
        })
    }

    /// Whether control should be asked for another block of a session that lacks ports: the session may have more, and
    /// control was not asked in the last second.
    pub fn takes_request(&mut self, session: SessionIndex, now: Nanos) -> bool {
        let owner = self.sessions.get_mut(session.index());
        owner.is_some_and(|owner| owner.takes_request(now))
    }

    /// A session has ended here: its mappings and blocks go, and it is no longer known. It takes time in proportion to
    /// them.
    pub fn forget(&mut self, session: SessionIndex) {
        loop {
            let first = self.numbers(session).next();
            let Some(number) = first else {
                break;
            };
            for protocol in Protocol::ALL {
                self.forget_mappings(number, protocol);
            }
            self.drop_block(number);
        }
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            *owner = Session::new_zeroed();
        }
        if let Some(level) = self.rates.get_mut(session.index()) {
            *level = TokenLevel::default();
        }
    }

    fn forget_mappings(&mut self, number: u32, protocol: Protocol) {
        let mut from = 0;
        while let Some(offset) = self.held.next_mapped(number, protocol, from) {
            if let Some(mapping) = self.mapping_at(number, protocol, offset) {
                self.remove(mapping, 0);
            }
            from = usize::from(offset) + 1;
        }
    }

    /// The mapping that has a port of a held block, by the port's place in it.
    pub(super) fn mapping_at(&self, number: u32, protocol: Protocol, offset: u16) -> Option<u32> {
        let held = self.held.pool.get(number)?;
        self.find_public(held.end(offset, protocol))
    }

    /// A session no longer holds a block, of which no port is mapped.
    fn drop_block(&mut self, number: u32) -> Option<(SessionIndex, BlockId)> {
        let held = self.held.take(number)?;
        let owner = self.sessions.get_mut(held.session().index())?;
        if owner.first == number + 1 {
            owner.first = held.after;
            let next = held
                .after
                .checked_sub(1)
                .and_then(|next| self.held.pool.get(next));
            let next = next.map_or_else(First::new_zeroed, |next| First::of(next.id(), next.block()));
            self.firsts[held.session().index()] = next;
        }
        if owner.last == number + 1 {
            owner.last = held.before;
        }
        owner.blocks = owner.blocks.saturating_sub(1);
        owner.ports = owner.ports.saturating_sub(held.ports());
        Some((held.session(), held.id()))
    }

    /// A block that is not the only one of its session, and of which no port has been mapped for `idle`. The session no
    /// longer holds it: it can be given back to control. A call looks at 64 blocks at most; blocks of a session that is
    /// moving stay.
    pub fn next_idle_block(&mut self, now: Nanos, idle: Duration) -> Option<(SessionIndex, BlockId)> {
        let (tick, idle) = (ticks(now), ticks_of(idle));
        let touched = self.held.pool.touched();
        for _ in 0..touched.min(MOST_LOOKS) {
            let number = if self.block_hand < touched {
                self.block_hand
            } else {
                0
            };
            self.block_hand = number + 1;
            if self.may_return(number, tick, idle) {
                return self.drop_block(number);
            }
        }
        None
    }

    fn may_return(&self, number: u32, tick: u32, idle: u32) -> bool {
        let held = self.held.pool.get(number);
        let held = held.filter(|held| held.is_idle() && tick.saturating_sub(held.idle_since) >= idle);
        let owner = held.and_then(|held| self.sessions.get(held.session as usize));
        owner.is_some_and(|owner| owner.blocks > 1 && owner.is_moving == 0)
    }
}
