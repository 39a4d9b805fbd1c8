//! Mappings of port forwards: they are there before any packet, and live as long as their session holds the block.

use flow::{Nanos, SessionIndex};

use super::endpoint::Inside;
use super::lifetime::{Life, MappingState, ticks};
use super::record::{Mapping, Senders};
use super::table::{Mappings, Plan};
use crate::pools::BlockId;

impl Mappings {
    /// Keeps room for the mappings of as many port forwards as there are: of the table that is still empty.
    pub fn keep_room(&mut self, forwards: usize) {
        self.kept = forwards;
    }

    /// A port of a block that a session holds stands for this endpoint of it from now on, whatever had either. Anyone
    /// may send to it. Whether there is room, and the session holds the block.
    pub fn forward(
        &mut self,
        session: SessionIndex,
        inside: Inside,
        (block, port): (BlockId, u16),
        now: Nanos,
    ) -> bool {
        let tick = ticks(now);
        let held = self.held.number(block);
        let place = held.and_then(|number| Some((number, self.held.pool.get(number)?)));
        let Some((held, own)) = place.filter(|(_, own)| own.session() == session) else {
            return false;
        };
        let Some(offset) = own.offset(port) else {
            return false;
        };
        let others = [
            self.mapping_at(held, inside.protocol, offset),
            self.find_inside(session, &inside),
        ];
        for other in others.into_iter().flatten() {
            self.remove(other, tick);
        }
        let added = self.add(&Plan {
            session,
            inside,
            held,
            offset,
            life: Life {
                state: MappingState::Established,
                until: Mapping::NEVER,
            },
            senders: Senders::Forward,
        });
        self.kept = self.kept.saturating_sub(usize::from(added.is_some()));
        added.is_some()
    }
}
