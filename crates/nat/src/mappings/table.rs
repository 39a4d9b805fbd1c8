//! The table: by what packets leave, and to whom they come.

use std::time::Duration;

use flow::slab::{OutOfMemory, Slab};
use flow::{Nanos, SessionIndex, TokenLevel};

use super::answer::{Inbound, MappingStats, Outbound, Refusal, Unsolicited};
use super::config::MappingsConfig;
use super::endpoint::{Inside, Protocol};
use super::held::HeldBlocks;
use super::index::{Found, Index};
use super::lifetime::{Life, Segment, Ticks, ticks};
use super::owner::Session;
use super::pool::Pool;
use super::record::{InsideHash, Keys, Mapping, PublicHash};
use super::remotes::Remotes;
use crate::pools::{BLOCK_BITS, BlockId, Filtering, MOST_BLOCKS};

/// The whole table is looked at once in this time, for mappings that are dead.
pub const ROUND: Duration = Duration::from_secs(64);
/// Mappings that one call of [`Mappings::age`] looks at, at most.
pub(super) const MOST_LOOKS: u64 = 256;

/// What is to become a mapping.
pub(super) struct Plan {
    pub session: SessionIndex,
    pub inside: Inside,
    /// The number of the block that is held.
    pub held: u32,
    /// The port's place in it.
    pub offset: u16,
    pub life: Life,
    pub filters: bool,
    /// Whether it is of a port forward.
    pub is_forward: bool,
}

/// The mappings of one worker's sessions.
pub struct Mappings {
    pub(super) mappings: Pool<Mapping>,
    pub(super) by_inside: Index,
    pub(super) by_public: Index,
    pub(super) sessions: Slab<Session>,
    /// By session: how fast it may make mappings.
    pub(super) rates: Box<[TokenLevel]>,
    pub(super) held: HeldBlocks,
    pub(super) remotes: Remotes,
    pub(super) ticks: Ticks,
    pub(super) keys: Keys,
    /// Without what is in the table.
    pub(super) stats: MappingStats,
    /// The mapping that is looked at next, and up to when mappings were looked at as often as they are to be.
    pub(super) hand: u32,
    pub(super) looked: Nanos,
    /// The held block that is looked at next.
    pub(super) block_hand: u32,
    /// Room that is kept for mappings of port forwards.
    pub(super) kept: usize,
}

impl Mappings {
    /// An empty table. All its memory is taken now.
    ///
    /// # Errors
    /// When that cannot be had, or a size is above its bound.
    pub fn new(config: &MappingsConfig) -> Result<Self, OutOfMemory> {
        if config.blocks > MOST_BLOCKS || !BLOCK_BITS.contains(&config.block_bits) {
            return Err(OutOfMemory { octets: usize::MAX });
        }
        Ok(Self {
            mappings: Pool::new(config.mappings)?,
            by_inside: Index::new(config.mappings)?,
            by_public: Index::new(config.mappings)?,
            sessions: Slab::new(config.sessions)?,
            rates: vec![TokenLevel::default(); config.sessions].into(),
            held: HeldBlocks::new(config.blocks, config.held_blocks, config.block_bits)?,
            remotes: Remotes::new(config.mappings, config.remotes, config.seed)?,
            ticks: Ticks::new(&config.lifetimes),
            keys: Keys::new(config.seed),
            stats: MappingStats::default(),
            hand: 0,
            looked: Nanos::ZERO,
            block_hand: 0,
            kept: 0,
        })
    }

    /// How many octets the mappings and their indexes take, and how many all the rest.
    pub fn octets(&self) -> (usize, usize) {
        let mappings = self.mappings.octets() + self.by_inside.octets() + self.by_public.octets();
        let sessions = self.sessions.len() * (size_of::<Session>() + size_of::<TokenLevel>());
        (mappings, sessions + self.held.octets() + self.remotes.octets())
    }

    /// What has been counted, and what is in the table.
    pub fn stats(&self) -> MappingStats {
        MappingStats {
            mappings: self.mappings.len(),
            remotes: self.remotes.len(),
            blocks: self.held.pool.len(),
            ..self.stats
        }
    }

    /// How many mappings there is room for.
    pub fn capacity(&self) -> usize {
        self.mappings.len() + self.mappings.room()
    }

    /// Asks for the line of the index by which [`outbound_by`](Self::outbound_by) finds a mapping, with this hash.
    #[inline]
    pub fn prefetch_outbound(&self, session: SessionIndex, inside: &Inside) -> InsideHash {
        let hash = self.keys.inside(session, inside);
        self.by_inside.prefetch(hash.0);
        hash
    }

    /// Asks for the mapping itself, which [`prefetch_outbound`](Self::prefetch_outbound) has had time for; or for what
    /// it takes to make it.
    #[inline]
    pub fn prefetch_found_outbound(&self, session: SessionIndex, hash: InsideHash) {
        match self.by_inside.find(hash.0, |_| true) {
            Some(found) => self.mappings.prefetch(found.number),
            None => {
                self.mappings.prefetch_next();
                flow::prefetch::nth_to_write(&self.sessions, session.index());
            }
        }
    }

    /// Asks for the line of the index by which [`inbound_by`](Self::inbound_by) finds a mapping, with this hash.
    #[inline]
    pub fn prefetch_inbound(&self, block: BlockId, port: u16, protocol: Protocol) -> PublicHash {
        let hash = self.keys.public(block, port, protocol);
        self.by_public.prefetch(hash.0);
        hash
    }

    /// Asks for the mapping itself, which [`prefetch_inbound`](Self::prefetch_inbound) has had time for.
    #[inline]
    pub fn prefetch_found_inbound(&self, hash: PublicHash) {
        if let Some(found) = self.by_public.find(hash.0, |_| true) {
            self.mappings.prefetch(found.number);
        }
    }

    #[inline]
    pub(super) fn find_inside(&self, session: SessionIndex, inside: &Inside) -> Option<Found> {
        self.find_inside_by(self.keys.inside(session, inside), session, inside)
    }

    #[inline]
    fn find_inside_by(&self, hash: InsideHash, session: SessionIndex, inside: &Inside) -> Option<Found> {
        let is_meant = |number| {
            let mapping = self.mappings.get(number);
            mapping.is_some_and(|mapping| mapping.is_of(session, inside))
        };
        self.by_inside.find(hash.0, is_meant)
    }

    #[inline]
    pub(super) fn find_public(&self, block: BlockId, port: u16, protocol: Protocol) -> Option<Found> {
        self.find_public_by(self.keys.public(block, port, protocol), block, port, protocol)
    }

    #[inline]
    fn find_public_by(
        &self,
        hash: PublicHash,
        block: BlockId,
        port: u16,
        protocol: Protocol,
    ) -> Option<Found> {
        let is_meant = |number| {
            let mapping = self.mappings.get(number);
            mapping.is_some_and(|mapping| mapping.has(block, port, protocol))
        };
        self.by_public.find(hash.0, is_meant)
    }

    /// By what a packet of a session leaves: the mapping of its source, which is made if there is none, and lives from
    /// now on for its lifetime. `remote` is where the packet goes.
    ///
    /// # Errors
    /// The packet cannot leave; see [`Refusal`]. A mapping that there is stays as it was.
    #[inline]
    pub fn outbound(
        &mut self,
        session: SessionIndex,
        inside: Inside,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let hash = self.keys.inside(session, &inside);
        self.outbound_by(hash, (session, inside), remote, segment, now)
    }

    /// The same, by the hash that [`prefetch_outbound`](Self::prefetch_outbound) gave for the same endpoint.
    ///
    /// # Errors
    /// As [`outbound`](Self::outbound).
    #[inline]
    pub fn outbound_by(
        &mut self,
        hash: InsideHash,
        (session, inside): (SessionIndex, Inside),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let tick = ticks(now);
        if let Some(found) = self.find_inside_by(hash, session, &inside)
            && let Some(mapping) = self.mappings.get_mut(found.number)
            && mapping.is_live(tick)
        {
            if !mapping.filters() || self.remotes.has(found.number, remote) {
                mapping.set_life(self.ticks.sent(inside.protocol, mapping.life(), segment, tick));
                return Ok(Outbound {
                    public: mapping.public,
                    port: mapping.port,
                    wants_block: false,
                });
            }
            return self.send_to(found.number, remote, segment, tick);
        }
        let made = self.begin((session, inside), remote, segment, now);
        made.inspect_err(|refusal| self.stats.refused[*refusal as usize] += 1)
    }

    /// The same where the mapping sends to an address for the first time, and only such may send.
    fn send_to(
        &mut self,
        number: u32,
        remote: [u8; 4],
        segment: Segment,
        tick: u32,
    ) -> Result<Outbound, Refusal> {
        let full = Refusal::TableFull;
        let mapping = self.mappings.get_mut(number).ok_or(full)?;
        let owner = self.sessions.get_mut(mapping.session as usize).ok_or(full)?;
        if !self.remotes.has_room(owner.remotes) || !self.remotes.put(number, remote) {
            self.stats.refused[full as usize] += 1;
            return Err(full);
        }
        owner.remotes += 1;
        mapping.set_life(self.ticks.sent(mapping.protocol(), mapping.life(), segment, tick));
        Ok(Outbound {
            public: mapping.public,
            port: mapping.port,
            wants_block: false,
        })
    }

    /// The same where there is no mapping, or a dead one.
    #[cold]
    fn begin(
        &mut self,
        (session, inside): (SessionIndex, Inside),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let tick = ticks(now);
        if let Some(found) = self.find_inside(session, &inside) {
            self.expire(found.number, tick);
        }
        let owner = self.sessions.get(session.index()).ok_or(Refusal::NoBlock)?;
        let rate = owner.may_begin(inside.protocol)?;
        let level = self.rates.get_mut(session.index()).ok_or(Refusal::NoBlock)?;
        if !level.has_token(rate, now) {
            return Err(Refusal::TooFast);
        }
        let filters = owner.filtering() == Filtering::AddressDependent;
        if self.mappings.room() <= self.kept || filters && !self.remotes.has_room(owner.remotes) {
            return Err(Refusal::TableFull);
        }
        let (held, offset) = self.free_port(session, &inside).ok_or(Refusal::NoPort)?;
        let plan = Plan {
            session,
            inside,
            held,
            offset,
            life: self.ticks.begun(inside.protocol, segment, tick),
            filters,
            is_forward: false,
        };
        let number = self.add(&plan).ok_or(Refusal::TableFull)?;
        self.stats.made += 1;
        if let Some(level) = self.rates.get_mut(session.index()) {
            level.spend(rate, now);
        }
        if filters {
            self.add_remote(number, session, remote);
        }
        let mapping = self.mappings.get(number).ok_or(Refusal::TableFull)?;
        let (public, port) = (mapping.public, mapping.port);
        let owner = self.sessions.get_mut(session.index());
        let wants_block =
            owner.is_some_and(|owner| owner.has_few(inside.protocol) && owner.takes_request(now));
        Ok(Outbound {
            public,
            port,
            wants_block,
        })
    }

    /// A port of a session's blocks that is free: the number of the block, and the port's place in it.
    fn free_port(&self, session: SessionIndex, inside: &Inside) -> Option<(u32, u16)> {
        let start = self.keys.port(inside);
        self.numbers(session).find_map(|held| {
            let offset = self.held.free_port(held, inside.protocol, start)?;
            Some((held, offset))
        })
    }

    /// The numbers of the blocks that a session holds, in the order in which they were granted.
    pub(super) fn numbers(&self, session: SessionIndex) -> impl Iterator<Item = u32> {
        let first = self.sessions.get(session.index()).map_or(0, |owner| owner.first);
        let after = |number: &u32| self.held.pool.get(*number)?.after.checked_sub(1);
        core::iter::successors(first.checked_sub(1), after)
    }

    /// Adds a mapping where there is none of this endpoint and none with this port. `None`: there is no room.
    pub(super) fn add(&mut self, plan: &Plan) -> Option<u32> {
        let (session, protocol) = (plan.session, plan.inside.protocol);
        let held = self.held.pool.get(plan.held)?;
        let (block, port) = (held.id(), held.first + plan.offset);
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags =
            flag(plan.filters, Mapping::FILTERS) | flag(plan.is_forward, Mapping::FORWARD) | Mapping::IN_USE;
        let number = self.mappings.put(Mapping {
            session: session.0,
            inside: plan.inside.address,
            public: held.address,
            inside_port: plan.inside.port,
            port,
            until: plan.life.until,
            rest: block.0
                | (protocol as u32) << Mapping::PROTOCOL_SHIFT
                | (plan.life.state as u32) << Mapping::STATE_SHIFT
                | flags,
        })?;
        self.held.map_port(plan.held, protocol, plan.offset);
        self.by_inside
            .insert(self.keys.inside(session, &plan.inside).0, number);
        self.by_public
            .insert(self.keys.public(block, port, protocol).0, number);
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            owner.mappings += 1;
            owner.used[protocol as usize] += 1;
        }
        Some(number)
    }

    /// A mapping has sent to an address for the first time. Returns whether there is room for that.
    pub(super) fn add_remote(&mut self, number: u32, session: SessionIndex, remote: [u8; 4]) -> bool {
        let owner = self.sessions.get_mut(session.index());
        let owner = owner.filter(|owner| self.remotes.has_room(owner.remotes));
        let Some(owner) = owner.filter(|_| self.remotes.put(number, remote)) else {
            return false;
        };
        owner.remotes += 1;
        true
    }

    /// Takes a dead mapping out.
    pub(super) fn expire(&mut self, number: u32, tick: u32) {
        if self.mappings.get(number).is_some() {
            self.remove(number, tick);
            self.stats.expired += 1;
        }
    }

    /// Takes a mapping out; its port is free from now on.
    pub(super) fn remove(&mut self, number: u32, tick: u32) {
        let Some(mapping) = self.mappings.get(number).copied() else {
            return;
        };
        let (keys, mappings) = (&self.keys, &self.mappings);
        let (session, inside, protocol) = (
            SessionIndex(mapping.session),
            mapping.inside(),
            mapping.protocol(),
        );
        let is_it = |other| other == number;
        if let Some(found) = self.by_inside.find(keys.inside(session, &inside).0, is_it) {
            self.by_inside.remove(found, |other| {
                let other = mappings.get(other);
                other.map_or(0, |other| {
                    keys.inside(SessionIndex(other.session), &other.inside()).0
                })
            });
        }
        let public = keys.public(mapping.block(), mapping.port, protocol).0;
        if let Some(found) = self.by_public.find(public, is_it) {
            self.by_public.remove(found, |other| {
                let other = mappings.get(other);
                other.map_or(0, |other| {
                    keys.public(other.block(), other.port, other.protocol()).0
                })
            });
        }
        let held = self.held.number(mapping.block());
        if let Some((held, block)) = held.and_then(|held| Some((held, self.held.pool.get(held)?))) {
            self.held
                .free(held, protocol, mapping.port.wrapping_sub(block.first), tick);
        }
        let remotes = if mapping.filters() {
            self.remotes.forget(number)
        } else {
            0
        };
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            owner.mappings = owner.mappings.saturating_sub(1);
            owner.remotes = owner.remotes.saturating_sub(remotes);
            owner.used[protocol as usize] = owner.used[protocol as usize].saturating_sub(1);
        }
        self.kept += usize::from(mapping.is_forward());
        self.mappings.take(number);
    }

    /// To whom a packet from outside goes, which has come to a port of a block from the address `remote`. It neither
    /// makes a mapping nor keeps one (RFC 4787 REQ-6).
    ///
    /// # Errors
    /// It is not let through; see [`Unsolicited`].
    #[inline]
    pub fn inbound(
        &mut self,
        block: BlockId,
        port: u16,
        protocol: Protocol,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Inbound, Unsolicited> {
        let hash = self.keys.public(block, port, protocol);
        self.inbound_by(hash, (block, port, protocol), remote, segment, now)
    }

    /// The same, by the hash that [`prefetch_inbound`](Self::prefetch_inbound) gave for the same port.
    ///
    /// # Errors
    /// As [`inbound`](Self::inbound).
    #[inline]
    pub fn inbound_by(
        &mut self,
        hash: PublicHash,
        (block, port, protocol): (BlockId, u16, Protocol),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Inbound, Unsolicited> {
        let tick = ticks(now);
        let found = self.find_public_by(hash, block, port, protocol);
        let number = found.map_or(u32::MAX, |found| found.number);
        let Some(mapping) = self.mappings.get_mut(number).filter(|it| it.is_live(tick)) else {
            self.stats.unsolicited += 1;
            return Err(Unsolicited::NoMapping);
        };
        if mapping.filters() && !self.remotes.has(number, remote) {
            self.stats.filtered += 1;
            return Err(Unsolicited::Filtered);
        }
        mapping.set_life(self.ticks.received(protocol, mapping.life(), segment, tick));
        Ok(Inbound {
            session: SessionIndex(mapping.session),
            address: mapping.inside,
            port: mapping.inside_port,
        })
    }

    /// The public address and port of an endpoint, if it has a live mapping. Changes nothing.
    pub fn lookup_inside(
        &self,
        session: SessionIndex,
        inside: &Inside,
        now: Nanos,
    ) -> Option<([u8; 4], u16)> {
        let found = self.find_inside(session, inside)?;
        let mapping = self.mappings.get(found.number)?;
        mapping
            .is_live(ticks(now))
            .then_some((mapping.public, mapping.port))
    }

    /// The endpoint that has a port of a block, if it has a live mapping. Changes nothing, and nothing is filtered.
    pub fn lookup_public(
        &self,
        block: BlockId,
        port: u16,
        protocol: Protocol,
        now: Nanos,
    ) -> Option<(SessionIndex, Inside)> {
        let found = self.find_public(block, port, protocol)?;
        let mapping = self.mappings.get(found.number)?;
        mapping
            .is_live(ticks(now))
            .then(|| (SessionIndex(mapping.session), mapping.inside()))
    }

    /// Looks at as many mappings as time has passed for, 256 at most, and takes out those that are dead. For
    /// all to be looked at every [`ROUND`], 2^23 mappings need 512 calls a second.
    pub fn age(&mut self, now: Nanos) {
        let touched = u64::from(self.mappings.touched());
        if touched == 0 {
            self.looked = now;
            return;
        }
        self.looked = self.looked.max(now - ROUND);
        let each = (ROUND.as_nanos() as u64 / touched).max(1);
        let due = (now.since(self.looked).as_nanos() as u64 / each).min(MOST_LOOKS);
        self.looked = self.looked + Duration::from_nanos(due * each);
        let tick = ticks(now);
        for _ in 0..due {
            let number = if self.hand < self.mappings.touched() {
                self.hand
            } else {
                0
            };
            let is_dead = self.mappings.get(number).is_some_and(|it| !it.is_live(tick));
            if is_dead {
                self.expire(number, tick);
            }
            self.hand = number + 1;
        }
    }
}

impl core::fmt::Debug for Mappings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mappings")
            .field("mappings", &self.mappings.len())
            .finish_non_exhaustive()
    }
}
