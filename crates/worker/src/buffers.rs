//! User packets that wait: because their FAR says BUFF (TS 29.244 §5.2.3.1), until Control says what becomes of them;
//! or because nobody knows yet where the next hop of their FAR is (RFC 1122 §2.3.2.2), until somebody does.
//!
//! There is a queue for each FAR, in the order in which its packets came. They have passed gates, but no
//! meter has seen them and nothing has counted them: once a change lets them go they take their way again from `parse`
//! on, before any packet that comes after the change, and are packets like any other under the rules of then. What a
//! change throws away (DROBU, the end of the session), and what has waited for too long, is dropped and counted.
//!
//! A FAR that forwards to a next hop without a link layer address has a queue that is *parked*: it goes on with any
//! change of its session and when the next hop is known. What is still without one then waits again, in the same order:
//! so packets that waited for an idle UE wait for its new gNB, too. Few packets wait for next hops that packets choose
//! themselves, each by its destination: strangers must not have what is there for idle UEs.
//!
//! Everything is bounded and made at the start: queues, packets and octets in all, packets of one queue, time. The last
//! sixteenth of all packets is for short queues, each with half as much as is still free: whoever fills the others, one
//! that has nothing yet finds room. Packets lie in their buffers, which are missing in the pool meanwhile. The worker
//! owns the state. Whether Control is to be told of a packet is not decided here.

use flow::{Nanos, SessionIndex};
use packet::{DropReason, PacketBuf};
use rules::model::{FarId, PdrId};
use std::time::Duration;
use transport::AdjacencyChange;

use crate::BufferLimits;
use crate::act::NextHop;
use crate::batch::{BURST, Batch};
use crate::held::{Chain, Held};
use crate::map::FixedMap;

/// Queues looked at in one poll for those whose time is up.
const SWEPT: usize = 8;
/// The longest that a packet waits for its next hop: as long as one is asked for in vain (RFC 4861 §10,
/// `MAX_MULTICAST_SOLICIT` times `RETRANS_TIMER`), and some more.
const NEXT_HOP_TIMEOUT: Duration = Duration::from_secs(4);
/// Packets of one FAR that wait for next hops which packets choose themselves.
const CHOSEN_BY_PACKETS: u16 = 16;
/// The part of all places that is for short queues.
const RESERVE: usize = 16;
/// The share of all places that such packets have together.
const SHARE_OF_PACKETS: usize = 4;

/// Whose queue it is.
pub(crate) type Owner = (SessionIndex, FarId);

/// The service data flow of a packet (TS 29.244 §5.28.1), and what its drop counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flow {
    pub session: SessionIndex,
    pub pdr: PdrId,
    /// Its octets from the inner IP header on.
    pub octets: u16,
    /// The URRs that it would count in: bit n is slot n of the session's block in this generation.
    pub urrs: u64,
    /// That generation.
    pub generation: u32,
}

impl Flow {
    const NONE: Self = Self {
        session: SessionIndex(0),
        pdr: PdrId(0),
        octets: 0,
        urrs: 0,
        generation: 0,
    };
}

/// An owner as a key.
fn key((session, far): Owner) -> [u32; 2] {
    [session.0, far.0]
}

/// The packets of one FAR. A queue lasts until its FAR changes, also when its packets are gone.
#[derive(Clone, Copy, Debug)]
struct Queue {
    chain: Chain,
    /// When its packets have waited for too long.
    until: Nanos,
    /// The QoS flows that Control was told of: bit n is QFI n, bit 0 those without one.
    told: u64,
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

/// A packet of this burst that is to be stored.
#[derive(Clone, Copy)]
struct Expected {
    queue: u32,
    /// How many packets the queue may hold.
    most: u16,
    /// Why it is dropped if there is no room.
    otherwise: DropReason,
    flow: Flow,
}

impl Expected {
    const NOTHING: Self = Self {
        queue: u32::MAX,
        most: 0,
        otherwise: DropReason::FarBuffer,
        flow: Flow::NONE,
    };
}

/// What waits, and what has stopped waiting and is on its way.
pub(crate) struct Buffers<B> {
    limits: BufferLimits,
    held: Held<B, Flow>,
    queues: Box<[Option<Queue>]>,
    /// Places of `queues` that are free.
    free: Vec<u32>,
    /// The queue of each owner.
    places: FixedMap<2>,
    flushed: Chain,
    discarded: Chain,
    expired: Chain,
    hand: usize,
    /// Whose queues are parked.
    parked: Vec<Owner>,
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
            held: Held::new(packets),
            queues: vec![None; limits.queues].into_boxed_slice(),
            free: (0..limits.queues as u32).rev().collect(),
            places: FixedMap::new(limits.queues),
            flushed: Chain::EMPTY,
            discarded: Chain::EMPTY,
            expired: Chain::EMPTY,
            hand: 0,
            parked: Vec::with_capacity(packets.min(limits.queues)),
            parked_hand: 0,
            packets_parked: 0,
            burst: [Expected::NOTHING; BURST],
            refused: Batch::new(),
        }
    }

    /// How many packets there are, those on their way out included.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// How many packets wait for `owner`.
    pub fn waiting(&self, owner: Owner) -> u16 {
        let place = self.places.at(&key(owner)).map(|place| place as usize);
        let queue = place.and_then(|place| self.queues.get(place)?.as_ref());
        queue.map_or(0, |queue| queue.chain.len())
    }

    /// How many queues are open, whether or not packets wait in them.
    pub fn queues(&self) -> usize {
        self.places.len()
    }

    /// Whether there is room for the packet at `place` of the burst, which was expected, unless those before it take
    /// it.
    pub fn may_store(&self, place: usize) -> bool {
        let Expected { queue, most, .. } = self.burst[place % BURST];
        let queue = self.queues.get(queue as usize).and_then(Option::as_ref);
        let has_place = self.held.len() < self.limits.packets && self.held.octets() < self.limits.octets;
        has_place && queue.is_some_and(|queue| self.may_grow(queue.chain.len(), most))
    }

    /// Whether a queue of so many packets, of so many at most, may have one more.
    fn may_grow(&self, packets: u16, most: u16) -> bool {
        let free = self.limits.packets.saturating_sub(self.held.len());
        let is_plenty = free * RESERVE >= self.limits.packets;
        packets < most && (is_plenty || usize::from(packets) * 2 <= free)
    }

    /// The packet of `flow` at `place` of the burst is to wait for `owner`, whose queue may hold `most` packets if that
    /// is fewer than any may. Whether it is the first one of this QoS flow; false, too, where there is no room for one
    /// more queue.
    pub fn expect(
        &mut self,
        place: usize,
        (owner, flow): (Owner, Flow),
        most: Option<u16>,
        qfi: u8,
        now: Nanos,
    ) -> bool {
        let most = most.map_or(self.limits.per_queue, |most| most.min(self.limits.per_queue));
        let queue = self.places.at(&key(owner)).or_else(|| self.open(owner, now));
        self.burst[place % BURST] = Expected {
            queue: queue.unwrap_or(u32::MAX),
            most,
            otherwise: DropReason::FarBuffer,
            flow,
        };
        match queue.and_then(|queue| self.queue_mut(queue)) {
            Some(queue) => {
                let before = queue.told;
                queue.told |= 1 << (qfi & 63);
                queue.told != before
            }
            None => false,
        }
    }

    /// The packet at `place` of the burst is to wait for `owner`'s next hop, which the rules name or the packet itself.
    /// Whether there may be room for it.
    pub fn park(
        &mut self,
        place: usize,
        (owner, flow): (Owner, Flow),
        (hop, is_named): (NextHop, bool),
        now: Nanos,
    ) -> bool {
        let most = match is_named {
            true => self.limits.per_queue,
            false if self.packets_parked * SHARE_OF_PACKETS >= self.limits.packets => 0,
            false => self.limits.per_queue.min(CHOSEN_BY_PACKETS),
        };
        if most == 0 {
            return false;
        }
        let Some(queue) = self
            .places
            .at(&key(owner))
            .or_else(|| self.open_parked(owner, hop, now))
        else {
            return false;
        };
        self.burst[place % BURST] = Expected {
            queue,
            most,
            otherwise: DropReason::NoNeighbour,
            flow,
        };
        // One that waits for Control has nothing to wait for here: the next change settles it.
        let Some(parked) = self.queue_mut(queue).and_then(|queue| queue.parked.as_mut()) else {
            return false;
        };
        if *parked != Parked::For(hop) {
            *parked = Parked::Any;
        }
        true
    }

    fn open_parked(&mut self, owner: Owner, hop: NextHop, now: Nanos) -> Option<u32> {
        if self.parked.len() == self.parked.capacity() {
            return None;
        }
        let place = self.open(owner, now)?;
        self.parked.push(owner);
        let queue = self.queue_mut(place)?;
        (queue.parked, queue.until) = (Some(Parked::For(hop)), now + NEXT_HOP_TIMEOUT);
        Some(place)
    }

    /// Whether there are queues that wait for next hops.
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// Whether packets of `owner` wait for its next hop.
    pub fn is_parked(&mut self, owner: Owner) -> bool {
        self.queue_of(owner).is_some_and(|queue| queue.parked.is_some())
    }

    /// Lets parked queues go on for which a next hop has changed. How many.
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

    /// Why the packet at `place` of the burst was not stored.
    pub fn why_not(&self, place: usize) -> DropReason {
        self.burst[place % BURST].otherwise
    }

    /// Control could not be told of this QoS flow.
    pub fn untell(&mut self, owner: Owner, qfi: u8) {
        if let Some(queue) = self.queue_of(owner) {
            queue.told &= !(1 << (qfi & 63));
        }
    }

    /// Control is to be told of the next packet of `owner` as if it were the first.
    pub fn tell_again(&mut self, owner: Owner) {
        if let Some(queue) = self.queue_of(owner) {
            queue.told = 0;
        }
    }

    /// Keeps the packet at `place` of the burst, which was [expected](Self::expect).
    ///
    /// # Errors
    /// The packet, when there is no room for it.
    pub fn store(&mut self, place: usize, packet: B, now: Nanos) -> Result<(), B> {
        let Expected {
            queue,
            most,
            otherwise,
            flow,
        } = self.burst[place % BURST];
        let has_room = self.held.octets() + packet.len() <= self.limits.octets;
        let known = self.queues.get(queue as usize).and_then(Option::as_ref);
        let has_room = has_room && known.is_some_and(|queue| self.may_grow(queue.chain.len(), most));
        let queue = self.queues.get_mut(queue as usize).and_then(Option::as_mut);
        let Some(queue) = queue.filter(|_| has_room) else {
            self.refuse(otherwise, flow);
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
        let is_parked = queue.parked.is_some();
        match self.held.push(&mut queue.chain, packet, flow) {
            Ok(()) => {
                self.packets_parked += usize::from(is_parked);
                Ok(())
            }
            Err(packet) => {
                self.refuse(otherwise, flow);
                Err(packet)
            }
        }
    }

    /// A packet is dropped that was to wait for its FAR.
    fn refuse(&mut self, reason: DropReason, flow: Flow) {
        if reason == DropReason::FarBuffer {
            let _ = self.refused.push(flow);
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

    fn queue_of(&mut self, owner: Owner) -> Option<&mut Queue> {
        let place = self.places.at(&key(owner))?;
        self.queue_mut(place)
    }

    fn queue_mut(&mut self, place: u32) -> Option<&mut Queue> {
        self.queues.get_mut(place as usize)?.as_mut()
    }

    fn open(&mut self, owner: Owner, now: Nanos) -> Option<u32> {
        let place = self.free.pop()?;
        if self.places.insert(key(owner), place).is_err() {
            self.free.push(place);
            return None;
        }
        let until = now + self.limits.timeout;
        let queue = self.queues.get_mut(place as usize)?;
        *queue = Some(Queue {
            chain: Chain::EMPTY,
            until,
            told: 0,
            parked: None,
        });
        Some(place)
    }

    /// Takes a queue away; its packets.
    fn close(&mut self, owner: Owner) -> Chain {
        let Some(place) = self.places.remove(&key(owner)) else {
            return Chain::EMPTY;
        };
        self.free.push(place);
        let Some(queue) = self.queues.get_mut(place as usize).and_then(Option::take) else {
            return Chain::EMPTY;
        };
        if queue.parked.is_some() {
            self.parked.retain(|other| *other != owner);
            self.packets_parked -= usize::from(queue.chain.len());
        }
        queue.chain
    }

    /// Lets the packets of a queue go on, in order.
    pub fn flush(&mut self, owner: Owner) {
        let chain = self.close(owner);
        self.held.join(&mut self.flushed, chain);
    }

    /// Throws the packets of a queue away.
    pub fn discard(&mut self, owner: Owner) {
        let chain = self.close(owner);
        self.held.join(&mut self.discarded, chain);
    }

    /// Whether there are packets that go on.
    #[inline]
    pub fn has_flushed(&self) -> bool {
        !self.flushed.is_empty()
    }

    /// Takes packets that go on, as many as `out` has room for.
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
                let chain = std::mem::replace(&mut queue.chain, Chain::EMPTY);
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
mod tests {
    use std::collections::{BTreeMap, VecDeque};
    use std::net::Ipv4Addr;

    use flow::{AdjacencyId, InstanceId, PortId};
    use packet::{MacAddr, VecBuf};
    use proptest::prelude::*;
    use transport::{Adjacency, Interface};

    use super::*;

    const LIMITS: BufferLimits = BufferLimits {
        queues: 3,
        packets: 10,
        octets: 600,
        per_queue: 4,
        timeout: Duration::from_secs(1),
    };

    fn interface() -> Interface {
        Interface {
            instance: InstanceId(0),
            port: PortId(0),
            vlan: None,
            mac: MacAddr([2; 6]),
            ipv4: None,
            broadcast: None,
            ipv6: None,
            mtu: 1500,
            fragmentation: rules::network::Fragmentation::Inner,
            tunnels: false,
        }
    }

    const FLOW: Flow = Flow {
        session: SessionIndex(7),
        pdr: PdrId(2),
        octets: 100,
        urrs: 5,
        generation: 3,
    };

    fn ended(take: impl FnMut() -> Option<(VecBuf, Flow)>) -> Vec<u8> {
        let all = std::iter::from_fn(take);
        all.inspect(|(_, flow)| assert_eq!(*flow, FLOW))
            .map(|(packet, _)| packet.data()[0])
            .collect()
    }

    #[test]
    fn a_queue_that_has_nothing_finds_room_beside_any_number_of_long_ones() {
        let limits = BufferLimits {
            queues: 64,
            packets: 160,
            octets: 160 * 100,
            per_queue: 64,
            timeout: Duration::from_secs(60),
        };
        let mut buffers = Buffers::new(limits);
        let store = |buffers: &mut Buffers<VecBuf>, session: u32| {
            let owner = (SessionIndex(session), FarId(1));
            buffers.expect(0, (owner, FLOW), None, 0, Nanos(0));
            let may = buffers.may_store(0);
            let is_stored = buffers.store(0, VecBuf::new(&[0; 90]), Nanos(0)).is_ok();
            assert_eq!(may, is_stored);
            is_stored
        };
        let mut refused = 0;
        for session in (0..5).cycle().take(1_000) {
            refused += usize::from(!store(&mut buffers, session));
        }
        assert!(refused > 800 && buffers.len() >= 150);
        assert!((5..9).all(|session| store(&mut buffers, session)));
    }

    fn numbers(mut packets: Batch<VecBuf>) -> Vec<u8> {
        packets.drain().map(|packet| packet.data()[0]).collect()
    }

    #[derive(Clone, Debug)]
    enum Step {
        Store(u32, usize, Option<u16>),
        /// Of a FAR whose next hop is this one.
        Park(u32, usize, u32),
        Meet(u32),
        Flush(u32),
        Discard(u32),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        let far = 0..8u32;
        prop_oneof![
            6 => (0..5u32, 1..120usize, prop::option::of(0..6u16)).prop_map(|(far, octets, most)| Step::Store(far, octets, most)),
            2 => (5..8u32, 1..120usize, 0..2u32).prop_map(|(far, octets, hop)| Step::Park(far, octets, hop)),
            1 => (0..2u32).prop_map(Step::Meet),
            1 => far.clone().prop_map(Step::Flush),
            1 => far.prop_map(Step::Discard),
            1 => (0..900u64).prop_map(Step::Wait),
        ]
    }

    proptest! {
        /// Against queues that are lists: what was stored is what was flushed, discarded, expired and is held.
        #[test]
        fn every_packet_is_somewhere(steps in prop::collection::vec(step(), 1..80)) {
            let mut buffers = Buffers::new(LIMITS);
            let mut model: BTreeMap<u32, (VecDeque<(u8, usize)>, Nanos)> = BTreeMap::new();
            let mut hops: BTreeMap<u32, Option<NextHop>> = BTreeMap::new();
            let mut now = Nanos(0);
            for (number, step) in (0u8..).zip(steps) {
                let owner = |far| (SessionIndex(7), FarId(far));
                match step {
                    Step::Store(far, octets, most) => {
                        let waiting: Vec<usize> = model.values().flat_map(|(queue, _)| queue).map(|(_, octets)| *octets).collect();
                        let is_first = !model.contains_key(&far);
                        let has_queue = !is_first || model.len() < LIMITS.queues;
                        prop_assert_eq!(buffers.expect(3, (owner(far), FLOW), most, 9, now), is_first && has_queue);
                        if has_queue {
                            model.entry(far).or_insert((VecDeque::new(), now));
                        }
                        let own = model.get(&far).map_or(usize::MAX, |(queue, _)| queue.len());
                        let fits = waiting.iter().sum::<usize>() + octets <= LIMITS.octets
                            && waiting.len() < LIMITS.packets
                            && own < usize::from(most.unwrap_or(4).min(4));
                        let packet = VecBuf::new(&vec![number; octets]);
                        prop_assert_eq!(buffers.store(3, packet, now).is_ok(), fits);
                        if fits && let Some((queue, until)) = model.get_mut(&far) {
                            if queue.is_empty() {
                                *until = now + LIMITS.timeout;
                            }
                            queue.push_back((number, octets));
                        }
                    }
                    Step::Park(far, octets, hop) => {
                        let hop = NextHop::Slot(AdjacencyId(hop));
                        let octets_waiting = model.values().flat_map(|(queue, _)| queue).map(|(_, octets)| *octets);
                        let all = octets_waiting.clone().count();
                        let all_octets: usize = octets_waiting.sum();
                        let has_queue = model.contains_key(&far) || model.len() < LIMITS.queues;
                        prop_assert_eq!(buffers.park(4, (owner(far), FLOW), (hop, true), now), has_queue);
                        if has_queue {
                            model.entry(far).or_insert((VecDeque::new(), now + NEXT_HOP_TIMEOUT));
                            let awaited = hops.entry(far).or_insert(Some(hop));
                            *awaited = awaited.filter(|awaited| *awaited == hop);
                        }
                        let own = model.get(&far).map_or(usize::MAX, |(queue, _)| queue.len());
                        let fits = all_octets + octets <= LIMITS.octets && all < LIMITS.packets && own < 4;
                        let stored = !has_queue || buffers.store(4, VecBuf::new(&vec![number; octets]), now).is_ok();
                        prop_assert_eq!(stored, !has_queue || fits);
                        if fits && let Some((queue, until)) = model.get_mut(&far) {
                            if queue.is_empty() {
                                *until = now + LIMITS.timeout.min(NEXT_HOP_TIMEOUT);
                            }
                            queue.push_back((number, octets));
                        }
                        if has_queue {
                            prop_assert_eq!(buffers.why_not(4), DropReason::NoNeighbour);
                        }
                    }
                    Step::Meet(hop) => {
                        let is_met = |awaited: &Option<NextHop>| awaited.is_none_or(|awaited| awaited == NextHop::Slot(AdjacencyId(hop)));
                        let met: Vec<u32> = hops.iter().filter(|(_, awaited)| is_met(awaited)).map(|(far, _)| *far).collect();
                        let change = AdjacencyChange {
                            id: AdjacencyId(hop),
                            neighbour: Some((InstanceId(0), Ipv4Addr::LOCALHOST.into())),
                            adjacency: Some(Adjacency::resolved(&interface(), MacAddr([2; 6]))),
                        };
                        prop_assert_eq!(buffers.meet(&change), met.len());
                        let mut gone: Vec<u8> = Vec::new();
                        for far in met {
                            hops.remove(&far);
                            gone.extend(model.remove(&far).into_iter().flat_map(|(queue, _)| queue).map(|(number, _)| number));
                        }
                        let mut out = Batch::new();
                        buffers.take_flushed(&mut out);
                        let mut out = numbers(out);
                        out.sort_unstable();
                        gone.sort_unstable();
                        prop_assert_eq!(out, gone);
                    }
                    Step::Flush(far) | Step::Discard(far) => {
                        hops.remove(&far);
                        let gone = model.remove(&far).map(|(queue, _)| queue).unwrap_or_default();
                        let gone: Vec<u8> = gone.into_iter().map(|(number, _)| number).collect();
                        let out = if matches!(step, Step::Flush(_)) {
                            let mut out = Batch::new();
                            buffers.flush(owner(far));
                            buffers.take_flushed(&mut out);
                            numbers(out)
                        } else {
                            buffers.discard(owner(far));
                            ended(|| buffers.take_discarded())
                        };
                        prop_assert_eq!(out, gone);
                    }
                    Step::Wait(millis) => {
                        now = now + Duration::from_millis(millis);
                        buffers.sweep(now);
                        let late = model.values_mut().filter(|(_, until)| *until <= now);
                        let mut late: Vec<u8> = late.flat_map(|(queue, _)| queue.drain(..)).map(|(number, _)| number).collect();
                        // A parked queue ends with its packets.
                        hops.retain(|far, _| model.get(far).is_some_and(|(_, until)| *until > now));
                        model.retain(|far, _| *far < 5 || hops.contains_key(far));
                        let mut expired = ended(|| buffers.take_expired());
                        expired.sort_unstable();
                        late.sort_unstable();
                        prop_assert_eq!(expired, late);
                    }
                }
                prop_assert_eq!(buffers.len(), model.values().map(|(queue, _)| queue.len()).sum::<usize>());
                prop_assert_eq!(buffers.queues(), model.len());
                let parked = model.iter().filter(|(far, _)| **far >= 5).map(|(_, (queue, _))| queue.len());
                prop_assert_eq!((buffers.packets_parked, buffers.parked.len()), (parked.sum::<usize>(), hops.len()));
            }
        }
    }

    #[test]
    fn control_is_told_once_of_each_qos_flow_until_it_is_to_be_told_again() {
        let mut buffers: Buffers<VecBuf> = Buffers::new(LIMITS);
        let owner = (SessionIndex(1), FarId(1));
        let expect =
            |buffers: &mut Buffers<VecBuf>, qfi| buffers.expect(0, (owner, FLOW), None, qfi, Nanos(0));
        assert_eq!(
            [5, 5, 9, 5, 0].map(|qfi| expect(&mut buffers, qfi)),
            [true, false, true, false, true]
        );
        buffers.untell(owner, 9);
        assert_eq!([5, 9].map(|qfi| expect(&mut buffers, qfi)), [false, true]);
        buffers.tell_again(owner);
        assert_eq!(
            [5, 9, 9].map(|qfi| expect(&mut buffers, qfi)),
            [true, true, false]
        );
    }
}
