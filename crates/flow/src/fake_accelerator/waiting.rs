//! The queues of the fake accelerator: lists of packets, token buckets that are filled step by step, and a look at all
//! queues for each packet that leaves.

use std::collections::{BTreeMap, VecDeque};

use crate::contract::{Departed, QueueClass, QueueTokens, Queues, Refusal, SharedNode, SharedNodeId};
use crate::meter::Rate;
use crate::{Direction, Nanos, SessionIndex, UrrCount};

/// Tokens of an octet.
const OCTET: i64 = 8_000_000;
/// How far time goes at once, nanoseconds.
const STEP: u64 = 20_000;
/// The longest packet that a burst is for.
const LARGEST: u64 = 1_518;

/// A packet that waits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    pub octets: u32,
    /// The counters that it has counted in.
    pub urrs: u64,
}

/// Whose queues these are.
type Owner = (SessionIndex, Direction);

/// A token bucket. Something may leave while its level is not below zero.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    level: i64,
    rate: Rate,
    full: i64,
}

impl Bucket {
    fn new(rate: Rate, burst: u64) -> Self {
        let full = burst.saturating_sub(LARGEST).min(1 << 40) as i64 * OCTET;
        Self {
            level: full,
            rate,
            full,
        }
    }

    fn of_millis(rate: Rate, millis: u16) -> Self {
        let octets = match rate {
            Rate::UNLIMITED => 0,
            rate => rate.kbit().saturating_mul(millis.into()) / 8,
        };
        Self::new(rate, octets)
    }

    fn earn(&mut self, nanos: u64) {
        if self.rate != Rate::UNLIMITED {
            let earned = nanos.saturating_mul(self.rate.kbit()).min(1 << 62) as i64;
            self.level = self.level.saturating_add(earned).min(self.full);
        }
    }

    const fn conforms(&self) -> bool {
        self.level >= 0
    }

    fn spend(&mut self, octets: u64) {
        if self.rate != Rate::UNLIMITED {
            self.level -= octets as i64 * OCTET;
        }
    }

    fn set_rate(&mut self, to: Self) {
        *self = Self {
            level: self.level.min(to.full),
            ..to
        };
    }
}

#[derive(Clone, Debug)]
struct OfSession {
    queues: Queues,
    shapers: Vec<Bucket>,
    /// Guaranteed and maximum rates.
    own: Vec<[Bucket; 2]>,
    waiting: Vec<VecDeque<Packet>>,
    /// Octets that have left.
    served: Vec<u64>,
}

impl OfSession {
    fn new(queues: &Queues) -> Self {
        let shaper = |of: &crate::contract::Shaper| Bucket::of_millis(of.maximum, of.burst_millis);
        let own = |of: &crate::contract::Queue| {
            [of.guaranteed, of.maximum].map(|rate| Bucket::of_millis(rate, of.burst_millis))
        };
        Self {
            shapers: queues.shapers.iter().map(shaper).collect(),
            own: queues.queues.iter().map(own).collect(),
            waiting: vec![VecDeque::new(); queues.queues.len()],
            served: vec![0; queues.queues.len()],
            queues: queues.clone(),
        }
    }

    fn buckets(&mut self) -> impl Iterator<Item = &mut Bucket> {
        self.shapers.iter_mut().chain(self.own.iter_mut().flatten())
    }

    fn tokens(&self, at: Nanos) -> QueueTokens {
        QueueTokens {
            at,
            shapers: self.shapers.iter().map(|bucket| bucket.level).collect(),
            queues: self
                .own
                .iter()
                .map(|pair| pair.map(|bucket| bucket.level))
                .collect(),
        }
    }

    fn set_tokens(&mut self, tokens: &QueueTokens, now: Nanos) {
        let levels = tokens.shapers.iter().chain(tokens.queues.iter().flatten());
        let levels: Vec<i64> = levels.copied().collect();
        for (bucket, level) in self.buckets().zip(levels) {
            bucket.level = level.min(bucket.full);
            bucket.earn(now.since(tokens.at).as_nanos() as u64);
        }
    }

    fn spend(&mut self, place: usize, octets: u32) {
        if let Some(shaper) = self.queues.queues[place].shaper {
            self.shapers[usize::from(shaper)].spend(octets.into());
        }
        let [guaranteed, maximum] = &mut self.own[place];
        if guaranteed.conforms() {
            guaranteed.spend(octets.into());
        }
        maximum.spend(octets.into());
        self.served[place] += u64::from(octets);
    }
}

/// All queues, and what has left them.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    classes: BTreeMap<u8, QueueClass>,
    nodes: BTreeMap<SharedNodeId, (SharedNode, Bucket)>,
    sessions: BTreeMap<Owner, OfSession>,
    left: Vec<Departed>,
    /// Whose packets have left since that was asked last.
    counted: Vec<SessionIndex>,
    at: Nanos,
}

impl Waiting {
    /// A class comes or changes.
    pub fn put_class(&mut self, id: u8, class: QueueClass) -> Result<(), Refusal> {
        let is_same = self.classes.get(&id) == Some(&class);
        if !is_same && !self.sessions.is_empty() {
            return Err(Refusal::InUse);
        }
        self.classes.insert(id, class);
        Ok(())
    }

    pub fn remove_class(&mut self, id: u8) -> Result<(), Refusal> {
        if !self.sessions.is_empty() {
            return Err(Refusal::InUse);
        }
        self.classes.remove(&id);
        Ok(())
    }

    /// A shared node comes, or changes its rate.
    pub fn put_node(&mut self, id: SharedNodeId, node: SharedNode) -> Result<(), Refusal> {
        let bucket = Bucket::new(node.rate, node.burst.into());
        if let Some((old, held)) = self.nodes.get_mut(&id) {
            if !old.differs_in_rate_alone(&node) {
                return Err(Refusal::Unsupported);
            }
            *old = node;
            held.set_rate(bucket);
            return Ok(());
        }
        if let Some(parent) = node.parent {
            if !self.nodes.contains_key(&parent) {
                return Err(Refusal::Missing);
            }
            if self.above(parent).len() >= SharedNode::MOST_LEVELS {
                return Err(Refusal::Unsupported);
            }
        }
        self.nodes.insert(id, (node, bucket));
        Ok(())
    }

    pub fn remove_node(&mut self, id: SharedNodeId) -> Result<(), Refusal> {
        let is_parent = self.nodes.values().any(|(node, _)| node.parent == Some(id));
        let has_sessions = self.sessions.values().any(|of| of.queues.node == id);
        if is_parent || has_sessions {
            return Err(Refusal::InUse);
        }
        self.nodes.remove(&id);
        Ok(())
    }

    /// A node and those above it.
    fn above(&self, id: SharedNodeId) -> Vec<SharedNodeId> {
        let parent = |id: &SharedNodeId| self.nodes.get(id)?.0.parent;
        std::iter::successors(Some(id), parent).collect()
    }

    pub fn has(&self, session: SessionIndex, way: Direction) -> bool {
        self.sessions.contains_key(&(session, way))
    }

    /// Queues of all sessions.
    fn number(&self) -> usize {
        self.sessions.values().map(|of| of.queues.queues.len()).sum()
    }

    pub fn put(
        &mut self,
        owner: Owner,
        queues: &Queues,
        tokens: Option<&QueueTokens>,
        most: u32,
        now: Nanos,
    ) -> Result<(), Refusal> {
        self.advance(now);
        let is_there = |class: u8| self.classes.contains_key(&class);
        if !self.nodes.contains_key(&queues.node) || !queues.queues.iter().all(|queue| is_there(queue.class))
        {
            return Err(Refusal::Missing);
        }
        let old = self.sessions.get(&owner);
        let held = old.map_or(0, |of| of.queues.queues.len());
        if self.number() - held + queues.queues.len() > most as usize {
            return Err(Refusal::Full);
        }
        let mut new = OfSession::new(queues);
        match self.sessions.get_mut(&owner) {
            Some(old) if old.queues.are_same(queues) => {
                std::mem::swap(&mut new.waiting, &mut old.waiting);
                let levels: Vec<i64> = old.buckets().map(|bucket| bucket.level).collect();
                for (bucket, level) in new.buckets().zip(levels) {
                    bucket.level = level.min(bucket.full);
                }
            }
            Some(_) => self.empty(owner, now),
            None => {}
        }
        tokens.into_iter().for_each(|tokens| new.set_tokens(tokens, now));
        self.sessions.insert(owner, new);
        Ok(())
    }

    /// Lets all packets of a queue leave at once.
    pub fn empty(&mut self, owner: Owner, now: Nanos) {
        self.advance(now);
        let Some(of) = self.sessions.get_mut(&owner) else {
            return;
        };
        for place in 0..of.waiting.len() {
            while let Some(packet) = of.waiting[place].pop_front() {
                of.spend(place, packet.octets);
                self.left.push(Departed {
                    octets: packet.octets,
                    is_marked: false,
                });
                self.counted.push(owner.0);
            }
        }
    }

    pub fn tokens(&self, owner: Owner, now: Nanos) -> QueueTokens {
        self.sessions
            .get(&owner)
            .map(|of| of.tokens(now))
            .unwrap_or_default()
    }

    pub fn remove(&mut self, owner: Owner, now: Nanos) -> QueueTokens {
        self.empty(owner, now);
        let tokens = self.tokens(owner, now);
        self.sessions.remove(&owner);
        tokens
    }

    /// Puts a packet behind the others of its queue, if there is room.
    pub fn push(
        &mut self,
        owner: Owner,
        (marking, qers): (Option<u8>, u64),
        packet: Packet,
        most: u32,
        now: Nanos,
    ) -> bool {
        self.advance(now);
        let all = self.sessions.values().flat_map(|of| &of.waiting);
        let is_full = all.map(VecDeque::len).sum::<usize>() >= most as usize;
        let Some(of) = self.sessions.get_mut(&owner).filter(|_| !is_full) else {
            return false;
        };
        let place = of.queues.of(marking, qers);
        let class = self.classes.get(&of.queues.queues[place].class);
        let held: u32 = of.waiting[place].iter().map(|packet| packet.octets).sum();
        let has_room = class.is_some_and(|class| held + packet.octets <= class.octets);
        if has_room {
            of.waiting[place].push_back(packet);
        }
        has_room
    }

    /// What waits of a session has counted in a counter.
    pub fn waiting(&self, session: SessionIndex, counter: u8) -> UrrCount {
        let mut sum = UrrCount::default();
        for way in Direction::BOTH {
            let of = self.sessions.get(&(session, way));
            let packets = of.into_iter().flat_map(|of| of.waiting.iter().flatten());
            let counted: Vec<&Packet> = packets.filter(|packet| packet.urrs >> counter & 1 == 1).collect();
            let (packets, octets) = match way {
                Direction::Uplink => (&mut sum.ul_packets, &mut sum.ul_octets),
                Direction::Downlink => (&mut sum.dl_packets, &mut sum.dl_octets),
            };
            *packets += counted.len() as u64;
            *octets += counted.iter().map(|packet| u64::from(packet.octets)).sum::<u64>();
        }
        sum
    }

    /// What has left until now.
    pub fn take_left(&mut self, now: Nanos) -> Vec<Departed> {
        self.advance(now);
        std::mem::take(&mut self.left)
    }

    /// Whose packets have left since this was asked last.
    pub fn take_counted(&mut self) -> Vec<SessionIndex> {
        std::mem::take(&mut self.counted)
    }

    fn advance(&mut self, now: Nanos) {
        if self.sessions.is_empty() {
            self.at = now;
            return;
        }
        while self.at < now {
            let step = STEP.min(now.0 - self.at.0);
            self.at.0 += step;
            self.nodes.values_mut().for_each(|(_, bucket)| bucket.earn(step));
            for of in self.sessions.values_mut() {
                of.buckets().for_each(|bucket| bucket.earn(step));
            }
            while self.leave_one() {}
        }
    }

    /// Lets the packet leave whose turn it is.
    fn leave_one(&mut self) -> bool {
        let last = self
            .classes
            .values()
            .next_back()
            .map_or(0, |class| class.priority);
        let mut best: Option<((u8, u64), Owner, usize)> = None;
        for (owner, of) in &self.sessions {
            let above = self.above(of.queues.node);
            let conforms = |id: &SharedNodeId| self.nodes.get(id).is_none_or(|(_, bucket)| bucket.conforms());
            if !above.iter().all(conforms) {
                continue;
            }
            for (place, queue) in of.queues.queues.iter().enumerate() {
                let shares = queue
                    .shaper
                    .is_none_or(|shaper| of.shapers[usize::from(shaper)].conforms());
                let [guaranteed, maximum] = of.own[place];
                if of.waiting[place].is_empty() || !shares || !maximum.conforms() {
                    continue;
                }
                let own = self.classes.get(&queue.class).map_or(0, |class| class.priority);
                let is_excess = queue.guaranteed != Rate::ZERO && !guaranteed.conforms();
                let priority = if is_excess { own.max(last) } else { own };
                let order = (priority, of.served[place]);
                if best.is_none_or(|(best, ..)| order < best) {
                    best = Some((order, *owner, place));
                }
            }
        }
        let Some((_, owner, place)) = best else {
            return false;
        };
        let Some(of) = self.sessions.get_mut(&owner) else {
            return false;
        };
        let Some(packet) = of.waiting[place].pop_front() else {
            return false;
        };
        of.spend(place, packet.octets);
        for id in self.above(self.sessions[&owner].queues.node) {
            if let Some((node, bucket)) = self.nodes.get_mut(&id) {
                bucket.spend(u64::from(packet.octets) + u64::from(node.overhead));
            }
        }
        self.left.push(Departed {
            octets: packet.octets,
            is_marked: false,
        });
        self.counted.push(owner.0);
        true
    }
}

/// What of a count is left without another.
pub(super) const fn without(all: &UrrCount, some: &UrrCount) -> UrrCount {
    UrrCount {
        ul_packets: all.ul_packets - some.ul_packets,
        ul_octets: all.ul_octets - some.ul_octets,
        dl_packets: all.dl_packets - some.dl_packets,
        dl_octets: all.dl_octets - some.dl_octets,
        ..*all
    }
}
