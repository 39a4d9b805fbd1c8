//! The table: by what packets leave, and to whom they come.

use std::time::Duration;

use flow::slab::{OutOfMemory, Slab};
use flow::{Nanos, SessionIndex, TokenLevel};

use super::answer::{Inbound, MappingStats, Outbound, Refusal, Unsolicited};
use super::config::MappingsConfig;
use super::endpoint::{Inside, Protocol};
use super::held::HeldBlocks;
use super::index::Index;
use super::lifetime::{Life, Segment, Ticks, ticks};
use super::owner::{First, Session};
use super::record::{Expected, InsideHash, Keys, Mapping, PublicEnd, PublicHash, Senders};
use super::records::Records;
use super::remotes::Remotes;
use crate::pools::{BLOCK_BITS, BlockId, MOST_BLOCKS};

/// The whole table is looked at once in this time, for mappings that are dead.
pub const ROUND: Duration = Duration::from_secs(64);
/// Places for mappings that one call of [`Mappings::age`] looks at, at most.
pub(super) const MOST_LOOKS: u64 = 256;

/// Free ports that are tried for one that has room in its home line, at most.
pub(super) const MOST_TRIED: usize = 8;

/// What is to become a mapping.
pub(super) struct Plan {
    pub session: SessionIndex,
    pub inside: Inside,
    /// The number of the block that is held.
    pub held: u32,
    /// The port's place in it.
    pub offset: u16,
    pub life: Life,
    pub senders: Senders,
}

/// The mappings of one worker's sessions.
pub struct Mappings {
    /// By public port.
    pub(super) records: Records,
    /// Their public ports.
    pub(super) by_inside: Index,
    pub(super) sessions: Slab<Session>,
    /// By session: its first block.
    pub(super) firsts: Slab<First>,
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
        let records = Records::new(config.mappings, config.remotes > 0)?;
        Ok(Self {
            by_inside: Index::new(config.mappings, 1 << 16)?,
            sessions: Slab::new(config.sessions)?,
            firsts: Slab::new(config.sessions)?,
            rates: vec![TokenLevel::default(); config.sessions].into(),
            held: HeldBlocks::new(config.blocks, config.held_blocks, config.block_bits)?,
            remotes: Remotes::new(config.remotes, config.seed)?,
            ticks: Ticks::new(&config.lifetimes),
            keys: Keys::new(config.seed),
            records,
            stats: MappingStats::default(),
            hand: 0,
            looked: Nanos::ZERO,
            block_hand: 0,
            kept: 0,
        })
    }

    /// How many octets the mappings take, with their index and the addresses that they have sent to, and how many all
    /// the rest.
    pub fn octets(&self) -> (usize, usize) {
        let mappings = self.records.octets() + self.by_inside.octets() + self.remotes.octets();
        let of_session = size_of::<Session>() + size_of::<First>() + size_of::<TokenLevel>();
        let sessions = self.sessions.len() * of_session;
        (mappings, sessions + self.held.octets())
    }

    /// What has been counted, and what is in the table.
    pub fn stats(&self) -> MappingStats {
        MappingStats {
            mappings: self.records.len(),
            remotes: self.remotes.len(),
            blocks: self.held.pool.len(),
            ..self.stats
        }
    }

    /// How many mappings there is room for.
    pub fn capacity(&self) -> usize {
        self.records.len() + self.records.room()
    }

    /// What is known of where the mapping of an endpoint of a session is before anything was read: the first of four
    /// steps before [`outbound_as_expected`](Self::outbound_as_expected), each of which is for all packets of a burst
    /// before the next one is.
    #[inline]
    pub fn seek(&self, session: SessionIndex, inside: &Inside) -> Expected {
        Expected {
            inside: self.keys.inside(session, inside),
            ..Expected::default()
        }
    }

    /// The second step: asks for what [`expect`](Self::expect) reads.
    #[inline]
    pub fn prefetch_index(&self, session: SessionIndex, expected: &Expected) {
        self.by_inside.prefetch(expected.inside.0);
        flow::prefetch::nth_far(&self.firsts, session.index());
    }

    /// The third step: finds where the mapping of an endpoint is, by the index, or may be made.
    #[inline]
    pub fn expect(&self, expected: &mut Expected, session: SessionIndex, inside: &Inside) {
        let Some(first) = self.firsts.get(session.index()) else {
            return;
        };
        let found = self
            .by_inside
            .find(expected.inside.0, |port| first.has(port as u16));
        let end = PublicEnd {
            block: BlockId(first.block),
            port: found.map_or_else(|| first.nth(self.keys.port(inside)), |port| port as u16),
            protocol: inside.protocol,
        };
        expected.public = self.keys.public(end);
        expected.is_found = found.is_some();
        expected.address = u32::from_be_bytes(first.address);
        expected.end = end;
    }

    /// The fourth step: asks for the mapping, or for what it takes to make it.
    #[inline]
    pub fn prefetch_outbound(&self, session: SessionIndex, expected: &Expected) {
        self.records.prefetch_home(expected.public);
        if !expected.is_found {
            flow::prefetch::nth_to_write(&self.sessions, session.index());
        }
    }

    /// The hash by which [`inbound_by`](Self::inbound_by) finds a mapping.
    #[inline]
    pub fn public_hash(&self, end: PublicEnd) -> PublicHash {
        self.keys.public(end)
    }

    /// Asks for the lines in which [`inbound_by`](Self::inbound_by) looks for a mapping first, with this hash.
    #[inline]
    pub fn prefetch_inbound(&self, hash: PublicHash) {
        self.records.prefetch_home(hash);
    }

    /// The number of the mapping of an endpoint of a session.
    pub(super) fn find_inside(&self, session: SessionIndex, inside: &Inside) -> Option<u32> {
        let (number, ..) = self.find_anywhere(self.keys.inside(session, inside), session, inside)?;
        Some(number)
    }

    /// The mapping that has a public end, with its number, if it is that of an endpoint.
    #[inline]
    fn find_at(&self, hash: PublicHash, end: PublicEnd, inside: &Inside) -> Option<(u32, Mapping)> {
        let number = self.records.find(hash, end)?;
        let mapping = self.records.get(number)?;
        mapping.is_of(inside).then_some((number, mapping))
    }

    /// The mapping of an endpoint of a session with its number, and its public address, in whichever of the session's
    /// blocks it is.
    #[cold]
    pub(super) fn find_anywhere(
        &self,
        hash: InsideHash,
        session: SessionIndex,
        inside: &Inside,
    ) -> Option<(u32, Mapping, [u8; 4])> {
        self.by_inside.find_map(hash.0, |port| {
            self.numbers(session).find_map(|held| {
                let held = self.held.pool.get(held)?;
                let end = held.end(held.offset(port as u16)?, inside.protocol);
                let (number, mapping) = self.find_at(self.keys.public(end), end, inside)?;
                Some((number, mapping, held.address))
            })
        })
    }

    #[inline]
    pub(super) fn find_public(&self, end: PublicEnd) -> Option<u32> {
        self.records.find(self.keys.public(end), end)
    }

    /// Whether a mapping has sent to an address, as far as that is kept.
    #[inline]
    pub(super) fn has_sent_to(&self, number: u32, remote: [u8; 4]) -> bool {
        self.remotes.has(number, self.records.latest(number), remote)
    }

    /// Whose a mapping is.
    pub(super) fn session_of(&self, mapping: &Mapping) -> Option<SessionIndex> {
        let held = self.held.pool.get(self.held.number(mapping.block())?)?;
        Some(held.session())
    }

    /// By what a packet of a session leaves: the mapping of its source, which is made if there is none, and lives from
    /// now on for its lifetime. `remote` is where the packet goes.
    ///
    /// # Errors
    /// The packet cannot leave; see [`Refusal`]. A mapping that there is stays as it was.
    #[cold]
    pub fn outbound(
        &mut self,
        session: SessionIndex,
        inside: Inside,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let tick = ticks(now);
        let hash = self.keys.inside(session, &inside);
        let found = self.find_anywhere(hash, session, &inside);
        let sent = match found {
            Some((number, mapping, public)) if mapping.is_live(tick) => {
                let sends = self.send((number, &mapping), (session, remote), segment, tick);
                let outbound = Outbound {
                    public,
                    port: mapping.port,
                    wants_block: false,
                };
                sends.then_some(outbound).ok_or(Refusal::TableFull)
            }
            dead => {
                dead.into_iter()
                    .for_each(|(number, ..)| self.expire(number, tick));
                self.begin((session, inside), remote, segment, now)
            }
        };
        sent.inspect_err(|refusal| self.stats.refused[*refusal as usize] += 1)
    }

    /// The public address, as a number, and the port by which a packet leaves as most do: by a live mapping that is
    /// where it is expected. `None`: see [`outbound`](Self::outbound). Behind the four steps that begin with
    /// [`seek`](Self::seek).
    #[inline(always)]
    pub fn outbound_as_expected(
        &mut self,
        expected: &Expected,
        (session, inside): (SessionIndex, &Inside),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Option<(u32, u16)> {
        if !expected.is_found {
            return None;
        }
        let tick = ticks(now);
        let (number, mapping) = self.find_at(expected.public, expected.end, inside)?;
        let sends = mapping.is_live(tick) && self.send((number, &mapping), (session, remote), segment, tick);
        sends.then_some((expected.address, mapping.port))
    }

    /// A session sends to an address by one of its mappings, which is live. Returns whether it may: where there is no
    /// room for the address, and others may not send, the mapping stays as it was.
    #[inline(always)]
    fn send(
        &mut self,
        (number, mapping): (u32, &Mapping),
        (session, remote): (SessionIndex, [u8; 4]),
        segment: Segment,
        tick: u32,
    ) -> bool {
        if mapping.keeps_remotes()
            && !self.has_sent_to(number, remote)
            && !self.add_remote(number, session, Senders::of(mapping.rest), remote)
        {
            return false;
        }
        let protocol = mapping.protocol();
        let life = self.ticks.sent(protocol, mapping.life(), segment, tick);
        self.records.set_life(number, mapping, life);
        true
    }

    /// Makes a mapping where there is none.
    fn begin(
        &mut self,
        (session, inside): (SessionIndex, Inside),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let tick = ticks(now);
        let owner = self.sessions.get(session.index()).ok_or(Refusal::NoBlock)?;
        let rate = owner.may_begin(inside.protocol)?;
        let level = self.rates.get_mut(session.index()).ok_or(Refusal::NoBlock)?;
        if !level.has_token(rate, now) {
            return Err(Refusal::TooFast);
        }
        let senders = self.senders_of(session);
        if self.records.room() <= self.kept || senders == Senders::SentTo && !self.remotes.are_kept() {
            return Err(Refusal::TableFull);
        }
        let (held, offset) = self.free_port(session, &inside).ok_or(Refusal::NoPort)?;
        let plan = Plan {
            session,
            inside,
            held,
            offset,
            life: self.ticks.begun(inside.protocol, segment, tick),
            senders,
        };
        let number = self.add(&plan).ok_or(Refusal::TableFull)?;
        self.stats.made += 1;
        if let Some(level) = self.rates.get_mut(session.index()) {
            level.spend(rate, now);
        }
        if matches!(senders, Senders::SentTo | Senders::Distinguished) {
            self.add_remote(number, session, senders, remote);
        }
        let block = self.held.pool.get(held).ok_or(Refusal::NoBlock)?;
        let (public, port) = (block.address, block.first + offset);
        let owner = self.sessions.get_mut(session.index());
        let wants_block =
            owner.is_some_and(|owner| owner.has_few(inside.protocol) && owner.takes_request(now));
        Ok(Outbound {
            public,
            port,
            wants_block,
        })
    }

    /// A port of a session's blocks that is free: the number of the block, and the port's place in it. Of the first
    /// ones, one is taken that has room in its home line.
    fn free_port(&self, session: SessionIndex, inside: &Inside) -> Option<(u32, u16)> {
        let (protocol, start) = (inside.protocol, self.keys.port(inside));
        self.numbers(session).find_map(|held| {
            let block = self.held.pool.get(held)?;
            let mut free = self.held.free_ports(held, protocol, start);
            let has_room = |offset: &u16| {
                let hash = self.keys.public(block.end(*offset, protocol));
                self.records.has_room_at(hash)
            };
            let first = free.next()?;
            let mut tried = core::iter::once(first).chain(free).take(MOST_TRIED);
            Some((held, tried.find(has_room).unwrap_or(first)))
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
        let end = self.held.pool.get(plan.held)?.end(plan.offset, protocol);
        let mapping = Mapping::new(end, &plan.inside, plan.life, plan.senders);
        let number = self.records.put(self.keys.public(end), &mapping)?;
        self.held.map_port(plan.held, protocol, plan.offset);
        let port = end.port.into();
        self.by_inside
            .insert(self.keys.inside(session, &plan.inside).0, port);
        if let Some(owner) = self.sessions.get_mut(session.index()) {
            owner.mappings += 1;
            owner.used[protocol as usize] += 1;
        }
        Some(number)
    }

    /// Who may send to the mappings that a session makes. Where no addresses are kept at all, none are
    /// distinguished.
    pub(super) fn senders_of(&self, session: SessionIndex) -> Senders {
        let owner = self.sessions.get(session.index());
        match owner.map_or(Senders::Anyone, Session::senders) {
            Senders::Distinguished if !self.remotes.are_kept() => Senders::Anyone,
            senders => senders,
        }
    }

    /// A mapping has sent to an address for the first time. Where there is no room for that, all addresses count as
    /// known from then on, unless others may not send. Returns whether it is known now.
    #[cold]
    pub(super) fn add_remote(
        &mut self,
        number: u32,
        session: SessionIndex,
        senders: Senders,
        remote: [u8; 4],
    ) -> bool {
        let Some(latest) = self.records.latest_mut(number) else {
            return false;
        };
        if self.remotes.put_first(latest, remote) {
            return true;
        }
        let Some(owner) = self.sessions.get_mut(session.index()) else {
            return false;
        };
        if self.remotes.has_room(owner.remotes) && self.remotes.put(number, latest, remote) {
            owner.remotes += 1;
            return true;
        }
        if senders == Senders::SentTo {
            return false;
        }
        owner.remotes = owner
            .remotes
            .saturating_sub(self.remotes.know_all(number, latest));
        true
    }

    /// Takes a dead mapping out.
    pub(super) fn expire(&mut self, number: u32, tick: u32) {
        if self.records.get(number).is_some() {
            self.remove(number, tick);
            self.stats.expired += 1;
        }
    }

    /// Takes a mapping out; its port is free from now on.
    pub(super) fn remove(&mut self, number: u32, tick: u32) {
        let Some(mapping) = self.records.get(number) else {
            return;
        };
        let protocol = mapping.protocol();
        let session = self.session_of(&mapping);
        if let Some(session) = session {
            let hash = self.keys.inside(session, &mapping.inside());
            self.by_inside.remove(hash.0, mapping.port.into());
        }
        self.records.take(self.keys.public(mapping.end()), number);
        if let Some((held, block)) = self.held.of_id(mapping.block()) {
            let offset = mapping.port.wrapping_sub(block.first);
            self.held.free(held, protocol, offset, tick);
        }
        let latest = self.records.latest_mut(number);
        let latest = latest.filter(|_| mapping.keeps_remotes());
        let remotes = latest.map_or(0, |latest| self.remotes.forget(number, latest));
        let owner = session.and_then(|session| self.sessions.get_mut(session.index()));
        if let Some(owner) = owner {
            owner.mappings = owner.mappings.saturating_sub(1);
            owner.remotes = owner.remotes.saturating_sub(remotes);
            owner.used[protocol as usize] = owner.used[protocol as usize].saturating_sub(1);
        }
        self.kept += usize::from(mapping.is_forward());
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
        let end = PublicEnd {
            block,
            port,
            protocol,
        };
        self.inbound_by(self.keys.public(end), end, remote, segment, now)
    }

    /// The same, by the hash that [`public_hash`](Self::public_hash) gave for the same port.
    ///
    /// # Errors
    /// As [`inbound`](Self::inbound).
    #[inline(always)]
    pub fn inbound_by(
        &mut self,
        hash: PublicHash,
        end: PublicEnd,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Inbound, Unsolicited> {
        let tick = ticks(now);
        let found = self.records.find(hash, end);
        let found = found.and_then(|number| Some((number, self.records.get(number)?)));
        let Some((number, mapping)) = found.filter(|(_, mapping)| mapping.is_live(tick)) else {
            self.stats.unsolicited += 1;
            return Err(Unsolicited::NoMapping);
        };
        let is_unsolicited = mapping.keeps_remotes() && !self.has_sent_to(number, remote);
        if is_unsolicited {
            self.note_unsolicited(&mapping)?;
        } else {
            let life = self.ticks.received(end.protocol, mapping.life(), segment, tick);
            self.records.set_life(number, &mapping, life);
        }
        Ok(Inbound {
            address: mapping.inside.to_be_bytes(),
            port: mapping.inside_port,
            is_unsolicited,
        })
    }

    /// Whether what comes from an address is as if the mapping had sent to it, by the hash as in
    /// [`inbound_by`](Self::inbound_by). So it is of all mappings that do not distinguish any.
    #[cold]
    pub fn counts_as_known(&self, (end, hash): (PublicEnd, PublicHash), remote: [u8; 4]) -> bool {
        let found = self.records.find(hash, end);
        let found = found.and_then(|number| Some((number, self.records.get(number)?)));
        found.is_none_or(|(number, mapping)| {
            !mapping.keeps_remotes() || mapping.filters() || self.has_sent_to(number, remote)
        })
    }

    /// Counts a packet from an address that a mapping has not sent to.
    ///
    /// # Errors
    /// The mapping does not let it through.
    #[cold]
    fn note_unsolicited(&mut self, mapping: &Mapping) -> Result<(), Unsolicited> {
        if mapping.filters() {
            self.stats.filtered += 1;
            return Err(Unsolicited::Filtered);
        }
        self.stats.unsolicited_admitted += 1;
        Ok(())
    }

    /// The public address and port of an endpoint, if it has a live mapping. Changes nothing.
    pub fn lookup_inside(
        &self,
        session: SessionIndex,
        inside: &Inside,
        now: Nanos,
    ) -> Option<([u8; 4], u16)> {
        let (_, mapping, public) = self.find_anywhere(self.keys.inside(session, inside), session, inside)?;
        mapping.is_live(ticks(now)).then_some((public, mapping.port))
    }

    /// The endpoint that has a port of a block, if it has a live mapping. Changes nothing, and nothing is filtered.
    pub fn lookup_public(
        &self,
        block: BlockId,
        port: u16,
        protocol: Protocol,
        now: Nanos,
    ) -> Option<(SessionIndex, Inside)> {
        let end = PublicEnd {
            block,
            port,
            protocol,
        };
        let mapping = self.records.get(self.find_public(end)?)?;
        let session = self.session_of(&mapping)?;
        mapping.is_live(ticks(now)).then(|| (session, mapping.inside()))
    }

    /// Looks at as many places for mappings as time has passed for, 256 at most, and takes out those that are dead. For
    /// all to be looked at every [`ROUND`], those of 2^23 mappings need 603 calls a second.
    pub fn age(&mut self, now: Nanos) {
        let slots = self.records.slots();
        if self.records.len() == 0 {
            self.looked = now;
            return;
        }
        self.looked = self.looked.max(now - ROUND);
        let each = (ROUND.as_nanos() as u64 / u64::from(slots)).max(1);
        let due = (now.since(self.looked).as_nanos() as u64 / each).min(MOST_LOOKS);
        self.looked = self.looked + Duration::from_nanos(due * each);
        let tick = ticks(now);
        for _ in 0..due {
            let number = if self.hand < slots { self.hand } else { 0 };
            if self.records.is_dead(number, tick) {
                self.expire(number, tick);
            }
            self.hand = number + 1;
        }
    }
}

impl core::fmt::Debug for Mappings {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Mappings")
            .field("mappings", &self.records.len())
            .finish_non_exhaustive()
    }
}
