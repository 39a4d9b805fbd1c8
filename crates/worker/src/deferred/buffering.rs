//! Buffering: user packets whose FAR has the action BUFF (TS 29.244 §5.2.3.1), as downlink packets during the paging of
//! their UE; and packets whose next hop is unresolved (RFC 1122 §2.3.2.2).
//!
//! Each FAR has a queue, in the order of arrival. A buffered packet has passed gates; no meter and no counter has seen
//! it. A change of its session releases it: it passes all stages again from `parse` on, before packets that arrive
//! after the change, under the rules of that time. Packets that a change discards (DROBU, the end of the session) and
//! packets whose time is over are dropped and counted.
//!
//! The queue of a FAR that forwards to an unresolved next hop is *parked*: it is released with any change of its
//! session and when the next hop is resolved. Packets whose next hop is still unresolved are buffered again, in the
//! same order, so packets that waited for an idle UE wait for its new gNB, too. Packets whose next hop depends on their
//! destination have a small part of the room, which leaves the rest to idle UEs.
//!
//! Queues, packets, octets and time are bounded: in all, by session and by queue. All memory is allocated at the start.
//! The last sixteenth of all packets, and of all octets, is for short queues, each with up to half of what is free: a
//! queue without packets finds room however full others are. Packets stay in their mbufs. The worker owns the state.
//! [`downlink_data_notification`](crate::deferred::downlink_data_notification) reports the packets to control.

use flow::{Nanos, SessionIndex, Verdict};
use packet::{DropReason, PacketBuf};
use rules::model::{FarId, PdrId};
use std::time::Duration;
use transport::AdjacencyChange;

use crate::BufferLimits;
use crate::burst::batch::{BURST, Batch};
use crate::burst::outcome::NextHop;
use crate::deferred::packet_store::{PacketList, PacketStore};
use crate::sessions::fixed_map::FixedMap;

/// Queues looked at in one poll for those whose time is up.
const SWEPT: usize = 8;
/// The longest that a packet waits for its next hop: as long as unanswered solicitations last (RFC 4861 §10,
/// `MAX_MULTICAST_SOLICIT` times `RETRANS_TIMER`), and some more.
const NEXT_HOP_TIMEOUT: Duration = Duration::from_secs(4);
/// Packets of one FAR that wait for next hops which packets choose themselves.
const CHOSEN_BY_PACKETS: u16 = 16;
/// The part of all slots that is for short queues.
const RESERVE: usize = 16;
/// The share of all slots that such packets have together.
const SHARE_OF_PACKETS: usize = 4;

/// The FAR that a queue is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueKey {
    pub session: SessionIndex,
    pub far: FarId,
}

/// The next hop that a packet waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnresolvedHop {
    pub next_hop: NextHop,
    /// The rules name it; else it follows from the packet's destination.
    pub is_named: bool,
}

/// The service data flow of a packet (TS 29.244 §5.28.1), and what its drop counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub session: SessionIndex,
    pub pdr: PdrId,
    /// Its octets from the inner IP header on, as far as they are charged.
    pub octets: u16,
    /// The URRs that it would count in: bit n is slot n of the session's block in this generation.
    pub urrs: u64,
    /// That generation.
    pub generation: u32,
}

impl Flow {
    /// The flow of a packet of this PDR.
    pub fn new(session: SessionIndex, pdr: PdrId, octets: u16, verdict: &Verdict) -> Self {
        Self {
            session,
            pdr,
            octets,
            urrs: verdict.urrs,
            generation: verdict.generation,
        }
    }

    const NONE: Self = Self {
        session: SessionIndex(0),
        pdr: PdrId(0),
        octets: 0,
        urrs: 0,
        generation: 0,
    };
}

/// The words of a key.
fn key(owner: QueueKey) -> [u32; 2] {
    [owner.session.0, owner.far.0]
}

/// The packets of one FAR. A queue lasts until its FAR changes, also when its packets are gone.
#[derive(Clone, Copy, Debug)]
struct Queue {
    chain: PacketList,
    /// The octets of its packets, whole frames.
    octets: usize,
    session: SessionIndex,
    /// When its packets have waited for too long.
    until: Nanos,
    /// The QoS flows whose data was reported: bit n is QFI n, bit 0 those without one.
    reported: u64,
    /// With `Some` it is parked.
    parked: Option<Parked>,
}

/// What a queue waits for that does not wait for Control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parked {
    /// A next hop.
    For(NextHop),
    /// Several of them.
    Any,
}

/// What waits in all queues of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Account {
    packets: usize,
    octets: usize,
}

/// The accounts of the sessions of which packets wait.
struct Accounts {
    /// The index in `all` of each session that has one.
    indices: FixedMap<1>,
    all: Box<[Account]>,
    /// Places of `all` that are free.
    free: Vec<u32>,
}

impl Accounts {
    fn new(most: usize) -> Self {
        Self {
            indices: FixedMap::new(most),
            all: vec![Account::default(); most].into(),
            free: (0..most as u32).rev().collect(),
        }
    }

    fn of(&self, session: SessionIndex) -> Account {
        let index = self.indices.at(&[session.0]);
        index
            .and_then(|index| self.all.get(index as usize).copied())
            .unwrap_or_default()
    }

    /// A packet waits. Each account has a packet at least, so there are accounts enough for all packets.
    fn add(&mut self, session: SessionIndex, octets: usize) {
        let known = self.indices.at(&[session.0]);
        let Some(index) = known.or_else(|| self.open(session)) else {
            return;
        };
        if let Some(account) = self.all.get_mut(index as usize) {
            account.packets += 1;
            account.octets += octets;
        }
    }

    fn open(&mut self, session: SessionIndex) -> Option<u32> {
        let index = self.free.pop()?;
        if self.indices.insert([session.0], index).is_err() {
            self.free.push(index);
            return None;
        }
        *self.all.get_mut(index as usize)? = Account::default();
        Some(index)
    }

    /// All packets of a queue wait no longer.
    fn take(&mut self, session: SessionIndex, queue: &Queue) {
        let Some(index) = self.indices.at(&[session.0]) else {
            return;
        };
        let Some(account) = self.all.get_mut(index as usize) else {
            return;
        };
        account.packets = account.packets.saturating_sub(queue.chain.len().into());
        account.octets = account.octets.saturating_sub(queue.octets);
        if account.packets == 0 {
            self.indices.remove(&[session.0]);
            self.free.push(index);
        }
    }
}

/// A packet of this burst that is to be stored.
#[derive(Clone, Copy)]
struct Expected {
    queue: u32,
    /// How many packets the queue may hold.
    most: u16,
    /// Why it is dropped if there is no room.
    otherwise: DropReason,
    /// Whether it is to wait for its FAR, and not for a next hop.
    for_far: bool,
    flow: Flow,
}

impl Expected {
    const NOTHING: Self = Self {
        queue: u32::MAX,
        most: 0,
        otherwise: DropReason::FarBuffer,
        for_far: true,
        flow: Flow::NONE,
    };
}

/// What waits, and what has stopped waiting and is on its way.
pub(crate) struct Buffers<B> {
    limits: BufferLimits,
    held: PacketStore<B, Flow>,
    queues: Box<[Option<Queue>]>,
    /// Places of `queues` that are free.
    free: Vec<u32>,
    /// The queue of each owner.
    indices: FixedMap<2>,
    accounts: Accounts,
    flushed: PacketList,
    discarded: PacketList,
    expired: PacketList,
    hand: usize,
    /// Whose queues are parked.
    parked: Vec<QueueKey>,
    parked_hand: usize,
    /// How many packets they have.
    packets_parked: usize,
    burst: [Expected; BURST],
    /// The flows of packets of this burst for which there was no room at their FAR.
    refused: Batch<Flow>,
}

impl<B: PacketBuf> Buffers<B> {
    /// No queues yet.
    pub fn new(limits: BufferLimits) -> Self {
        let packets = if limits.queues == 0 { 0 } else { limits.packets };
        Self {
            limits,
            held: PacketStore::new(packets),
            queues: vec![None; limits.queues].into_boxed_slice(),
            free: (0..limits.queues as u32).rev().collect(),
            indices: FixedMap::new(limits.queues),
            accounts: Accounts::new(packets.min(limits.queues)),
            flushed: PacketList::EMPTY,
            discarded: PacketList::EMPTY,
            expired: PacketList::EMPTY,
            hand: 0,
            parked: Vec::with_capacity(packets.min(limits.queues)),
            parked_hand: 0,
            packets_parked: 0,
            burst: [Expected::NOTHING; BURST],
            refused: Batch::new(),
        }
    }

    /// Whether packets of a session wait.
    #[inline]
    pub fn holds(&self, session: SessionIndex) -> bool {
        self.held.len() > 0 && self.accounts.of(session).packets > 0
    }

    /// How many packets there are, those on their way out included.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// How many packets wait for `owner`.
    pub fn waiting(&self, owner: QueueKey) -> u16 {
        let index = self.indices.at(&key(owner)).map(|index| index as usize);
        let queue = index.and_then(|index| self.queues.get(index)?.as_ref());
        queue.map_or(0, |queue| queue.chain.len())
    }

    /// How many queues are open, whether or not packets wait in them.
    pub fn queues(&self) -> usize {
        self.indices.len()
    }

    /// Whether there is room for the packet at `index` of the burst, which was expected and has `octets`, unless
    /// those before it take it.
    pub fn may_store(&self, index: usize, octets: usize) -> bool {
        self.room(&self.burst[index % BURST], octets).is_ok()
    }

    /// Whether there is room for a packet of `octets`; why not.
    fn room(&self, expected: &Expected, octets: usize) -> Result<(), DropReason> {
        let queue = self.queues.get(expected.queue as usize).and_then(Option::as_ref);
        let queue = queue.ok_or(expected.otherwise)?;
        let has_place = self.held.len() < self.limits.packets
            && self.held.octets() + octets <= self.limits.octets
            && self.may_grow(queue, expected.most);
        if !has_place {
            return Err(expected.otherwise);
        }
        let account = self.accounts.of(queue.session);
        let may_more = account.packets < self.limits.per_session
            && account.octets + octets <= self.limits.per_session_octets;
        match may_more {
            true => Ok(()),
            false if expected.for_far => Err(DropReason::BufferLimit),
            false => Err(expected.otherwise),
        }
    }

    /// Whether a queue of at most `most` packets may have one more: any while there is plenty of room, then short ones.
    fn may_grow(&self, queue: &Queue, most: u16) -> bool {
        let packets = usize::from(queue.chain.len());
        let free = self.limits.packets.saturating_sub(self.held.len());
        let free_octets = self.limits.octets.saturating_sub(self.held.octets());
        let is_plenty = free * RESERVE >= self.limits.packets && free_octets * RESERVE >= self.limits.octets;
        packets < most.into() && (is_plenty || packets * 2 <= free && queue.octets * 2 <= free_octets)
    }

    /// The packet of `flow` at `index` of the burst is to wait for `owner`, whose queue may hold `most` packets if that
    /// is fewer than any may. Whether it is the first one of this QoS flow; false, too, where there is no room for one
    /// more queue.
    pub fn expect(
        &mut self,
        index: usize,
        owner: QueueKey,
        flow: Flow,
        most: Option<u16>,
        qfi: u8,
        now: Nanos,
    ) -> bool {
        let most = most.map_or(self.limits.per_queue, |most| most.min(self.limits.per_queue));
        let queue = self.indices.at(&key(owner)).or_else(|| self.open(owner, now));
        self.burst[index % BURST] = Expected {
            queue: queue.unwrap_or(u32::MAX),
            most,
            otherwise: DropReason::FarBuffer,
            for_far: true,
            flow,
        };
        match queue.and_then(|queue| self.queue_mut(queue)) {
            Some(queue) => {
                let before = queue.reported;
                queue.reported |= 1 << (qfi & 63);
                queue.reported != before
            }
            None => false,
        }
    }

    /// The packet at `index` of the burst is to wait for `owner`'s next hop, which the rules name or the packet itself.
    /// Whether there may be room for it.
    pub fn park(
        &mut self,
        index: usize,
        owner: QueueKey,
        flow: Flow,
        hop: UnresolvedHop,
        now: Nanos,
    ) -> bool {
        let most = match hop.is_named {
            true => self.limits.per_queue,
            false if self.packets_parked * SHARE_OF_PACKETS >= self.limits.packets => 0,
            false => self.limits.per_queue.min(CHOSEN_BY_PACKETS),
        };
        if most == 0 {
            return false;
        }
        let Some(queue) = self
            .indices
            .at(&key(owner))
            .or_else(|| self.open_parked(owner, hop.next_hop, now))
        else {
            return false;
        };
        self.burst[index % BURST] = Expected {
            queue,
            most,
            otherwise: DropReason::NoNeighbour,
            for_far: false,
            flow,
        };
        // One that waits for Control has nothing to wait for here: the next change settles it.
        let Some(parked) = self.queue_mut(queue).and_then(|queue| queue.parked.as_mut()) else {
            return false;
        };
        if *parked != Parked::For(hop.next_hop) {
            *parked = Parked::Any;
        }
        true
    }

    fn open_parked(&mut self, owner: QueueKey, hop: NextHop, now: Nanos) -> Option<u32> {
        if self.parked.len() == self.parked.capacity() {
            return None;
        }
        let index = self.open(owner, now)?;
        self.parked.push(owner);
        let queue = self.queue_mut(index)?;
        (queue.parked, queue.until) = (Some(Parked::For(hop)), now + NEXT_HOP_TIMEOUT);
        Some(index)
    }

    /// Whether there are queues that wait for next hops.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Whether packets of `owner` wait for its next hop.
    pub fn is_parked(&mut self, owner: QueueKey) -> bool {
        self.queue_of(owner).is_some_and(|queue| queue.parked.is_some())
    }

    /// Releases parked queues whose next hop has changed. How many.
    pub fn meet(&mut self, change: &AdjacencyChange) -> usize {
        let Some(adjacency) = &change.adjacency else {
            return 0;
        };
        let mut met = 0;
        for number in (0..self.parked.len()).rev() {
            let owner = self.parked[number];
            let goes_on = match self.queue_of(owner).and_then(|queue| queue.parked) {
                Some(Parked::For(NextHop::Slot(id))) => id == change.id && adjacency.is_resolved(),
                Some(Parked::For(NextHop::Address(instance, address))) => {
                    change.neighbour == Some((instance, address))
                }
                Some(Parked::Any) | None => true,
            };
            if goes_on {
                self.flush(owner);
                met += 1;
            }
        }
        met
    }

    /// Releases all parked queues: their packets find their next hops anew.
    pub fn release_parked(&mut self) {
        for number in (0..self.parked.len()).rev() {
            self.flush(self.parked[number]);
        }
    }

    /// Why the packet at `index` of the burst was not stored.
    pub fn why_not(&self, index: usize) -> DropReason {
        self.burst[index % BURST].otherwise
    }

    /// The event queue had no room for the report of this QoS flow.
    pub fn clear_reported(&mut self, owner: QueueKey, qfi: u8) {
        if let Some(queue) = self.queue_of(owner) {
            queue.reported &= !(1 << (qfi & 63));
        }
    }

    /// The next packet of `owner` is reported as if it were the first.
    pub fn report_again(&mut self, owner: QueueKey) {
        if let Some(queue) = self.queue_of(owner) {
            queue.reported = 0;
        }
    }

    /// Keeps the packet at `index` of the burst, which was [expected](Self::expect).
    ///
    /// # Errors
    /// The packet, when there is no room for it.
    pub fn store(&mut self, index: usize, packet: B, now: Nanos) -> Result<(), B> {
        let expected = self.burst[index % BURST];
        let octets = packet.len();
        let room = self.room(&expected, octets);
        let queue = self
            .queues
            .get_mut(expected.queue as usize)
            .and_then(Option::as_mut);
        let (Some(queue), Ok(())) = (queue, room) else {
            self.refuse(index, room.err().unwrap_or(expected.otherwise));
            return Err(packet);
        };
        if queue.chain.is_empty() {
            let timeout = self.limits.timeout;
            queue.until = now
                + match queue.parked {
                    Some(_) => timeout.min(NEXT_HOP_TIMEOUT),
                    None => timeout,
                };
        }
        let (is_parked, session) = (queue.parked.is_some(), queue.session);
        match self.held.push(&mut queue.chain, packet, expected.flow) {
            Ok(()) => {
                queue.octets += octets;
                self.accounts.add(session, octets);
                self.packets_parked += usize::from(is_parked);
                Ok(())
            }
            Err(packet) => {
                self.refuse(index, expected.otherwise);
                Err(packet)
            }
        }
    }

    /// The packet at `index` of the burst, which was to wait, is dropped.
    fn refuse(&mut self, index: usize, reason: DropReason) {
        let expected = &mut self.burst[index % BURST];
        expected.otherwise = reason;
        if expected.for_far {
            let _ = self.refused.push(expected.flow);
        }
    }

    /// Whether there was no room for some packet at its FAR.
    #[inline]
    pub fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Takes the flow of a packet for which there was no room at its FAR.
    pub fn take_refused(&mut self) -> Option<Flow> {
        self.refused.drain_front(1).next()
    }

    fn queue_of(&mut self, owner: QueueKey) -> Option<&mut Queue> {
        let index = self.indices.at(&key(owner))?;
        self.queue_mut(index)
    }

    fn queue_mut(&mut self, index: u32) -> Option<&mut Queue> {
        self.queues.get_mut(index as usize)?.as_mut()
    }

    fn open(&mut self, owner: QueueKey, now: Nanos) -> Option<u32> {
        let index = self.free.pop()?;
        if self.indices.insert(key(owner), index).is_err() {
            self.free.push(index);
            return None;
        }
        let until = now + self.limits.timeout;
        let queue = self.queues.get_mut(index as usize)?;
        *queue = Some(Queue {
            chain: PacketList::EMPTY,
            octets: 0,
            session: owner.session,
            until,
            reported: 0,
            parked: None,
        });
        Some(index)
    }

    /// Takes a queue away; its packets.
    fn close(&mut self, owner: QueueKey) -> PacketList {
        let Some(index) = self.indices.remove(&key(owner)) else {
            return PacketList::EMPTY;
        };
        self.free.push(index);
        let Some(queue) = self.queues.get_mut(index as usize).and_then(Option::take) else {
            return PacketList::EMPTY;
        };
        self.accounts.take(owner.session, &queue);
        if queue.parked.is_some() {
            self.parked.retain(|other| *other != owner);
            self.packets_parked -= usize::from(queue.chain.len());
        }
        queue.chain
    }

    /// Releases the packets of a queue, in order.
    pub fn flush(&mut self, owner: QueueKey) {
        let chain = self.close(owner);
        self.held.join(&mut self.flushed, chain);
    }

    /// Discards the packets of a queue.
    pub fn discard(&mut self, owner: QueueKey) {
        let chain = self.close(owner);
        self.held.join(&mut self.discarded, chain);
    }

    /// Whether there are released packets.
    #[inline]
    pub fn has_flushed(&self) -> bool {
        !self.flushed.is_empty()
    }

    /// Takes released packets, as many as `out` has room for.
    pub fn take_flushed(&mut self, out: &mut Batch<B>) {
        while !out.is_full() {
            let Some((packet, _)) = self.held.pop(&mut self.flushed) else {
                return;
            };
            let _ = out.push(packet);
        }
    }

    /// Takes a packet that was thrown away.
    pub fn take_discarded(&mut self) -> Option<(B, Flow)> {
        self.held.pop(&mut self.discarded)
    }

    /// Takes a packet that has waited for too long.
    pub fn take_expired(&mut self) -> Option<(B, Flow)> {
        self.held.pop(&mut self.expired)
    }

    /// Looks at a few queues and takes out what waits there for too long: all since the first packet, if that one does.
    pub fn sweep(&mut self, now: Nanos) {
        for _ in 0..SWEPT.min(self.queues.len()) {
            if let Some(Some(queue)) = self.queues.get_mut(self.hand)
                && queue.until <= now
                && queue.parked.is_none()
            {
                self.accounts.take(queue.session, queue);
                let chain = std::mem::replace(&mut queue.chain, PacketList::EMPTY);
                queue.octets = 0;
                self.held.join(&mut self.expired, chain);
            }
            self.hand = (self.hand + 1) % self.queues.len();
        }
        for _ in 0..SWEPT.min(self.parked.len()) {
            if self.parked_hand >= self.parked.len() {
                self.parked_hand = 0;
            }
            let Some(owner) = self.parked.get(self.parked_hand).copied() else {
                break;
            };
            if self.queue_of(owner).is_some_and(|queue| queue.until <= now) {
                let chain = self.close(owner);
                self.held.join(&mut self.expired, chain);
            } else {
                self.parked_hand += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
