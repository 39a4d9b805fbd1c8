//! The mappings of a session that moves to another worker.

use std::time::Duration;

use flow::{Nanos, SessionIndex};

use super::endpoint::{Inside, Protocol};
use super::lifetime::{Life, MappingState, TICK, ticks};
use super::record::{PublicEnd, Senders};
use super::table::{Mappings, Plan};
use crate::pools::BlockId;

/// A mapping, as one worker hands it to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovedMapping {
    /// The endpoint.
    pub inside: Inside,
    /// The block.
    pub block: BlockId,
    /// The public port, which is one of the block.
    pub port: u16,
    /// How long it still lives, in whole [`TICK`]s; [`Duration::MAX`]: as long as its session, by a port forward.
    pub remaining: Duration,
    /// What is known of its connections.
    pub state: MappingState,
    /// The addresses that it has sent to, if only those may send, or are distinguished from others; the latest
    /// first.
    pub remotes: Option<Vec<[u8; 4]>>,
}

impl Mappings {
    /// The live mappings of a session but for those of port forwards, which come with the block. They stay.
    pub fn export(&self, session: SessionIndex, now: Nanos) -> Vec<MovedMapping> {
        let live = self.live(session, now);
        live.filter(|mapping| mapping.remaining != Duration::MAX)
            .collect()
    }

    /// The live mappings of a session, one by one.
    pub fn live(&self, session: SessionIndex, now: Nanos) -> impl Iterator<Item = MovedMapping> {
        let of_block = move |held| {
            let protocols = Protocol::ALL.into_iter();
            protocols.flat_map(move |protocol| self.mapped(held, protocol))
        };
        let all = self.numbers(session).flat_map(of_block);
        all.filter_map(move |number| self.moved(number, ticks(now)))
    }

    /// The mapping of a session that has a port of a block, if there is a live one. Changes nothing.
    pub fn at_public(
        &self,
        session: SessionIndex,
        (block, port, protocol): (BlockId, u16, Protocol),
        now: Nanos,
    ) -> Option<MovedMapping> {
        let number = self.find_public(PublicEnd {
            block,
            port,
            protocol,
        })?;
        let is_own = self.session_of(&self.records.get(number)?) == Some(session);
        self.moved(number, ticks(now)).filter(|_| is_own)
    }

    /// The mappings of a held block, live or dead.
    fn mapped(&self, held: u32, protocol: Protocol) -> impl Iterator<Item = u32> {
        let mut from = 0;
        let offsets = core::iter::from_fn(move || {
            let offset = self.held.next_mapped(held, protocol, from)?;
            from = usize::from(offset) + 1;
            Some(offset)
        });
        offsets.filter_map(move |offset| self.mapping_at(held, protocol, offset))
    }

    fn moved(&self, number: u32, tick: u32) -> Option<MovedMapping> {
        let mapping = self.records.get(number).filter(|it| it.is_live(tick))?;
        let latest = self.records.latest(number);
        Some(MovedMapping {
            inside: mapping.inside(),
            block: mapping.block(),
            port: mapping.port,
            remaining: match mapping.is_forward() {
                true => Duration::MAX,
                false => TICK * (mapping.until - tick),
            },
            state: mapping.life().state,
            remotes: (mapping.keeps_remotes() && !latest.are_all_known())
                .then(|| self.remotes.of(latest).collect()),
        })
    }

    /// Adds mappings that a session had elsewhere, whatever it may have here. It holds their blocks. Returns how many
    /// were added: those whose block it does not hold, whose port or endpoint has a live mapping here, and those for
    /// which there is no room are left out. Who may send to them is as the session's policy here says, of those whose
    /// addresses come with them: these are left out where there is no room, if only they may send.
    pub fn import(&mut self, session: SessionIndex, moved: &[MovedMapping], now: Nanos) -> usize {
        let tick = ticks(now);
        let added = moved
            .iter()
            .filter(|mapping| self.add_moved(session, mapping, tick).is_some())
            .count();
        self.stats.imported += added as u64;
        added
    }

    fn add_moved(&mut self, session: SessionIndex, moved: &MovedMapping, tick: u32) -> Option<u32> {
        let remaining = u32::try_from(moved.remaining.as_nanos().div_ceil(TICK.as_nanos())).ok()?;
        let held = self.held.number(moved.block)?;
        let block = self.held.pool.get(held).filter(|it| it.session() == session)?;
        let (offset, protocol) = (block.offset(moved.port)?, moved.inside.protocol);
        let others = [
            self.mapping_at(held, protocol, offset),
            self.find_inside(session, &moved.inside),
        ];
        for other in others.into_iter().flatten() {
            if self.records.get(other).is_some_and(|it| it.is_live(tick)) {
                return None;
            }
            self.expire(other, tick);
        }
        if remaining == 0 || self.records.room() <= self.kept {
            return None;
        }
        let senders = match moved.remotes {
            Some(_) => self.senders_of(session),
            None => Senders::Anyone,
        };
        let number = self.add(&Plan {
            session,
            inside: moved.inside,
            held,
            offset,
            life: Life {
                state: moved.state,
                until: tick.saturating_add(remaining),
            },
            senders,
        })?;
        if matches!(senders, Senders::SentTo | Senders::Distinguished) {
            for remote in moved.remotes.iter().flatten().rev() {
                if !self.has_sent_to(number, *remote) {
                    self.add_remote(number, session, senders, *remote);
                }
            }
        }
        Some(number)
    }
}
