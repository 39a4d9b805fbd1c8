//! A slow table that does what [`Mappings`] is to do, by sets and lists.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::*;

/// Whose mapping, and of which endpoint.
pub(super) type Key = (u32, Inside);

/// A search for a port: what for, from which hash on, and which ports are preferred.
pub(super) type Search<'a> = (Key, usize, &'a dyn Fn((BlockId, u16, Protocol)) -> bool);

/// A mapping.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub block: BlockId,
    pub address: [u8; 4],
    pub port: u16,
    pub until: u64,
    is_opening: bool,
    is_answered: bool,
    is_finished: bool,
    is_reset: bool,
    /// In the order in which it sent to them. `None`: all are known.
    pub remotes: Option<Vec<[u8; 4]>>,
    /// Whether only those may send.
    filters: bool,
}

/// A session.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    policy: SessionPolicy,
    pub blocks: Vec<(BlockId, PortBlock)>,
    /// When each block was granted, or lost its last mapping, in ticks.
    idle_since: HashMap<BlockId, u64>,
    is_moving: bool,
    asked: Option<Nanos>,
    /// New mappings that count towards its burst, in nanoseconds of its rate, and when that was so.
    recent: (u64, Nanos),
}

/// The table.
pub(super) struct Model {
    config: MappingsConfig,
    pub owners: BTreeMap<u32, Owner>,
    pub entries: BTreeMap<Key, Entry>,
    expiry: BTreeSet<(u64, Key)>,
}

/// Whether only those may send that a session's mapping has sent to, or whether they are distinguished.
fn senders(policy: SessionPolicy) -> (bool, bool) {
    let filters = policy.filtering == Filtering::AddressDependent;
    (filters, policy.distinguishes_unsolicited && !filters)
}

fn tick(now: Nanos) -> u64 {
    now.0 / TICK.as_nanos() as u64
}

/// The first tick in which `duration` has passed for sure.
fn behind(now: Nanos, duration: Duration) -> u64 {
    tick(now) + duration.as_nanos().div_ceil(TICK.as_nanos()) as u64 + 1
}

impl Model {
    pub fn new(config: &MappingsConfig) -> Self {
        Self {
            config: config.clone(),
            owners: BTreeMap::new(),
            entries: BTreeMap::new(),
            expiry: BTreeSet::new(),
        }
    }

    pub fn set_session(&mut self, session: u32, policy: SessionPolicy) {
        let new = Owner {
            policy,
            blocks: Vec::new(),
            idle_since: HashMap::new(),
            is_moving: false,
            asked: None,
            recent: (0, Nanos::ZERO),
        };
        self.owners.entry(session).or_insert(new).policy = policy;
    }

    pub fn may_map(&mut self, session: u32, may: bool) {
        if let Some(owner) = self.owners.get_mut(&session) {
            owner.is_moving = !may;
        }
    }

    pub fn holder(&self, id: BlockId) -> Option<u32> {
        let mut owners = self.owners.iter();
        owners.find_map(|(session, owner)| owner.blocks.iter().any(|own| own.0 == id).then_some(*session))
    }

    pub fn grant(
        &mut self,
        session: u32,
        id: BlockId,
        block: PortBlock,
        now: Nanos,
    ) -> Result<(), GrantError> {
        let holder = self.holder(id);
        let owner = self.owners.get_mut(&session).ok_or(GrantError::UnknownSession)?;
        match holder {
            Some(other) if other != session => Err(GrantError::Held(SessionIndex(other))),
            Some(_) => Ok(()),
            None => {
                owner.blocks.push((id, block));
                owner.asked = None;
                owner.idle_since.insert(id, tick(now));
                Ok(())
            }
        }
    }

    pub fn forget(&mut self, session: u32) {
        self.entries.retain(|key, _| key.0 != session);
        self.expiry.retain(|(_, key)| key.0 != session);
        self.owners.remove(&session);
    }

    /// Those that are dead, and in the table.
    pub fn dead(&self, now: Nanos) -> Vec<Key> {
        let dead = self.expiry.iter().take_while(|(until, _)| *until <= tick(now));
        dead.map(|(_, key)| *key).collect()
    }

    pub fn remove(&mut self, key: Key, now: Nanos) {
        let entry = self.entries.remove(&key).unwrap();
        assert!(self.expiry.remove(&(entry.until, key)));
        if self.entries.values().all(|other| other.block != entry.block) {
            let owner = self.owners.get_mut(&key.0).unwrap();
            owner.idle_since.insert(entry.block, tick(now));
        }
    }

    fn set(&mut self, key: Key, entry: Entry) {
        if let Some(old) = self.entries.get(&key) {
            assert!(self.expiry.remove(&(old.until, key)));
        }
        self.expiry.insert((entry.until, key));
        self.entries.insert(key, entry);
    }

    pub fn is_live(&self, key: &Key, now: Nanos) -> bool {
        self.entries.get(key).is_some_and(|entry| tick(now) < entry.until)
    }

    /// The mapping that has a port, dead or alive.
    pub fn at(&self, block: BlockId, port: u16, protocol: Protocol) -> Option<Key> {
        let mut entries = self.entries.iter();
        let is_it =
            |key: &Key, entry: &Entry| (entry.block, entry.port, key.1.protocol) == (block, port, protocol);
        entries.find_map(|(key, entry)| is_it(key, entry).then_some(*key))
    }

    /// Addresses beside one of each mapping.
    fn remotes(&self, of: Option<u32>) -> usize {
        let entries = self
            .entries
            .iter()
            .filter(|(key, _)| of.is_none_or(|session| session == key.0));
        entries
            .map(|(_, entry)| {
                entry
                    .remotes
                    .as_ref()
                    .map_or(0, |remotes| remotes.len().saturating_sub(1))
            })
            .sum()
    }

    fn has_room_for_remote(&self, session: u32) -> bool {
        let left = self.config.remotes - self.remotes(None);
        left > 0 && self.remotes(Some(session)) < (left / 16).max(64)
    }

    pub fn takes_request(&mut self, session: u32, now: Nanos) -> bool {
        let Some(owner) = self.owners.get_mut(&session) else {
            return false;
        };
        let may_have = owner.blocks.len() < usize::from(owner.policy.limits.blocks) && !owner.is_moving;
        let is_soon = owner
            .asked
            .is_some_and(|asked| now.since(asked) < Duration::from_secs(1));
        let takes = may_have && !is_soon;
        if takes {
            owner.asked = Some(now);
        }
        takes
    }

    /// Ports of a session's blocks, and those of them that are free.
    pub fn ports(&self, session: u32, protocol: Protocol) -> (usize, usize) {
        let blocks = self.owners.get(&session).map(|owner| &owner.blocks);
        let ports = blocks
            .into_iter()
            .flatten()
            .map(|(_, block)| block.ports().count());
        let (ports, mut used) = (ports.sum(), self.entries.keys());
        let used = used
            .by_ref()
            .filter(|key| key.0 == session && key.1.protocol == protocol);
        (ports, ports - used.count())
    }

    /// `start` is the hash from which the search for a port begins, and `has_room` knows which ports are preferred.
    pub fn outbound(
        &mut self,
        (key, start, has_room): Search<'_>,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        if !self.is_live(&key, now) {
            if self.entries.contains_key(&key) {
                self.remove(key, now);
            }
            return self.begin((key, start, has_room), remote, segment, now);
        }
        let mut entry = self.entries[&key].clone();
        if entry
            .remotes
            .as_ref()
            .is_some_and(|remotes| !remotes.contains(&remote))
        {
            match (self.has_room_for_remote(key.0), entry.filters) {
                (true, _) => entry.remotes.as_mut().unwrap().push(remote),
                (false, true) => return Err(Refusal::TableFull),
                (false, false) => entry.remotes = None,
            }
        }
        self.keep(&mut entry, key.1.protocol, segment, now);
        let (public, port) = (entry.address, entry.port);
        self.set(key, entry);
        Ok(Outbound {
            public,
            port,
            wants_block: false,
        })
    }

    fn keep(&self, entry: &mut Entry, protocol: Protocol, segment: Segment, now: Nanos) {
        let lifetimes = self.config.lifetimes;
        let transitory = behind(now, lifetimes.tcp_transitory);
        match protocol {
            Protocol::Udp => entry.until = behind(now, lifetimes.udp),
            Protocol::Icmp => entry.until = behind(now, lifetimes.icmp),
            Protocol::Tcp => {
                let is_established = !(entry.is_opening || entry.is_finished || entry.is_reset);
                match segment {
                    Segment::Finishes | Segment::Resets => {
                        (entry.is_opening, entry.is_answered) = (false, false);
                        entry.is_finished = segment == Segment::Finishes;
                        entry.is_reset = segment == Segment::Resets;
                        entry.until = transitory;
                    }
                    Segment::Opens | Segment::Accepts if is_established => {
                        entry.until = entry.until.max(transitory);
                    }
                    Segment::Opens | Segment::Accepts => {
                        (entry.is_opening, entry.is_finished, entry.is_reset) = (true, false, false);
                        entry.is_answered |= segment == Segment::Accepts;
                        entry.until = transitory;
                    }
                    Segment::Within if entry.is_opening && !entry.is_answered => entry.until = transitory,
                    Segment::Within => {
                        let finished =
                            entry.until - behind(Nanos::ZERO, lifetimes.tcp_transitory).min(entry.until);
                        let rest = behind(Nanos::ZERO, Duration::from_secs(4));
                        if !(entry.is_finished && tick(now) < finished + rest) {
                            (entry.is_opening, entry.is_answered) = (false, false);
                            (entry.is_finished, entry.is_reset) = (false, false);
                            entry.until = behind(now, lifetimes.tcp_established);
                        }
                    }
                }
            }
        }
    }

    fn begin(
        &mut self,
        (key, start, has_room): Search<'_>,
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Outbound, Refusal> {
        let owner = self.owners.get(&key.0).ok_or(Refusal::NoBlock)?.clone();
        let limits = owner.policy.limits;
        let own = self.entries.keys().filter(|other| other.0 == key.0).count();
        let free = self.ports(key.0, key.1.protocol).1;
        let rate = u64::from(limits.mappings_per_second);
        let interval = if rate == 0 {
            0
        } else {
            1_000_000_000_u64.div_ceil(rate)
        };
        let passed = now.since(owner.recent.1).as_nanos() as u64;
        let recent = owner.recent.0.saturating_sub(passed);
        let (filters, tells) = senders(owner.policy);
        let refusals = [
            (owner.is_moving, Refusal::Moving),
            (owner.blocks.is_empty(), Refusal::NoBlock),
            (own >= limits.mappings as usize, Refusal::TooManyMappings),
            (free == 0, Refusal::NoPort),
            (rate > 0 && recent > interval * (rate - 1), Refusal::TooFast),
            (self.entries.len() >= self.config.mappings, Refusal::TableFull),
        ];
        if let Some((_, refusal)) = refusals.iter().find(|(is_so, _)| *is_so) {
            return Err(*refusal);
        }
        let place = owner.blocks.iter().find_map(|(id, block)| {
            let size = block.ports().count();
            let ports = (0..size).map(|step| block.first + ((start + step) % size) as u16);
            let is_free = |port: &u16| self.at(*id, *port, key.1.protocol).is_none();
            let free: Vec<u16> = ports.filter(is_free).take(MOST_TRIED).collect();
            let port = free.iter().find(|port| has_room((*id, **port, key.1.protocol)));
            Some((*id, block.address, *port.or_else(|| free.first())?))
        });
        let (block, address, port) = place.unwrap();
        let mut entry = Entry {
            block,
            address: address.octets(),
            port,
            until: 0,
            is_opening: segment == Segment::Opens && key.1.protocol == Protocol::Tcp,
            is_answered: false,
            is_finished: false,
            is_reset: false,
            remotes: (filters || tells).then(|| vec![remote]),
            filters,
        };
        if segment == Segment::Accepts {
            (entry.is_opening, entry.is_answered) = (true, true);
        }
        self.keep(&mut entry, key.1.protocol, segment, now);
        self.set(key, entry);
        let owner = self.owners.get_mut(&key.0).unwrap();
        owner.recent = (recent + interval, now);
        let (ports, free) = self.ports(key.0, key.1.protocol);
        Ok(Outbound {
            public: address.octets(),
            port,
            wants_block: free * 8 < ports && self.takes_request(key.0, now),
        })
    }

    pub fn inbound(
        &mut self,
        (block, port, protocol): (BlockId, u16, Protocol),
        remote: [u8; 4],
        segment: Segment,
        now: Nanos,
    ) -> Result<Inbound, Unsolicited> {
        let key = self
            .at(block, port, protocol)
            .filter(|key| self.is_live(key, now));
        let key = key.ok_or(Unsolicited::NoMapping)?;
        let mut entry = self.entries[&key].clone();
        let is_unsolicited = entry
            .remotes
            .as_ref()
            .is_some_and(|remotes| !remotes.contains(&remote));
        if is_unsolicited && entry.filters {
            return Err(Unsolicited::Filtered);
        }
        match segment {
            _ if protocol != Protocol::Tcp || is_unsolicited => {}
            Segment::Opens => {}
            Segment::Within | Segment::Accepts => entry.is_answered |= entry.is_opening,
            Segment::Finishes | Segment::Resets => {
                (entry.is_opening, entry.is_answered) = (false, false);
                entry.is_finished = segment == Segment::Finishes;
                entry.is_reset = segment == Segment::Resets;
                let soon = behind(now, self.config.lifetimes.tcp_transitory);
                entry.until = entry.until.min(soon);
            }
        }
        self.set(key, entry);
        Ok(Inbound {
            address: key.1.address,
            port: key.1.port,
            is_unsolicited,
        })
    }

    /// Blocks that may be returned.
    pub fn idle(&self, now: Nanos, idle: Duration) -> Vec<(SessionIndex, BlockId)> {
        let mut all = Vec::new();
        for (session, owner) in &self.owners {
            for (id, _) in &owner.blocks {
                let is_free = self.entries.values().all(|entry| entry.block != *id);
                let may = owner.blocks.len() > 1 && !owner.is_moving && is_free;
                let since = Nanos(owner.idle_since[id] * TICK.as_nanos() as u64);
                if may && tick(now) >= behind(since, idle) {
                    all.push((SessionIndex(*session), *id));
                }
            }
        }
        all
    }

    pub fn drop_block(&mut self, session: u32, id: BlockId) {
        let owner = self.owners.get_mut(&session).unwrap();
        owner.blocks.retain(|own| own.0 != id);
    }

    /// Takes over the live mappings of a session that another table has, in this order, as far as there is room.
    pub fn import(&mut self, other: &Self, keys: &[Key], now: Nanos) -> usize {
        let mut added = 0;
        for key in keys {
            assert!(other.is_live(key, now));
            if self.entries.len() < self.config.mappings {
                let mut entry = other.entries[key].clone();
                let (filters, tells) = senders(self.owners[&key.0].policy);
                let remotes = entry.remotes.take();
                entry.filters = filters && remotes.is_some();
                entry.remotes = remotes.as_ref().filter(|_| filters || tells).map(|_| Vec::new());
                self.set(*key, entry);
                for remote in remotes.into_iter().flatten() {
                    let known = self.entries[key].remotes.as_ref().map(Vec::is_empty);
                    let has_room = known == Some(true) || self.has_room_for_remote(key.0);
                    let entry = self.entries.get_mut(key).unwrap();
                    match (&mut entry.remotes, has_room) {
                        (Some(remotes), true) => remotes.push(remote),
                        (Some(_), false) if !filters => entry.remotes = None,
                        _ => {}
                    }
                }
                added += 1;
            }
        }
        added
    }
}
