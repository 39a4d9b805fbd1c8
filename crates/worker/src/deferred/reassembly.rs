//! Fragments of GTP-U packets: kept until they are together.
//!
//! A gNB whose link is too narrow fragments its GTP-U packets. Those behind the first do not show the tunnel, so all
//! fragments of a datagram go to one worker, by a keyed hash of what they have in common; there they wait, and the
//! packet that they make goes its way from `parse` on, to the worker of its session. User packets that are fragments
//! themselves are another matter ([`fragments`](crate::deferred::fragments)).
//!
//! Everything is bounded and made at the start: datagrams (sets of four slots by a keyed hash), buffers and their
//! octets, fragments of one datagram, and the time. A source may have a quarter as much as is still free, so that one
//! that had none finds room. Fragments that overlap, or say different lengths, end their datagram, and what else comes
//! of it (RFC 5722); one that comes twice, with the same offset and length, is dropped alone. The worker owns the
//! state.

use std::hash::BuildHasher;

use flow::{Nanos, Seed, WorkerId};
use packet::ip_reassembly::{DatagramId, UdpFragment};
use packet::{Addrs, DropReason, PacketBuf};

use crate::ReassemblyLimits;
use crate::burst::batch::Batch;
use crate::deferred::packet_store::{PacketList, PacketStore, Rejected, SlotIndex};
use crate::ingress::parse::gather_headers;

/// Places in a set.
const WAYS: usize = 4;
/// Datagrams looked at in one poll for those whose time is up.
const SWEPT: usize = 8;
/// Counters of what sources have here: those with the same remainder share one.
const SHARES: usize = 256;
/// The most fragments of one datagram: 65,535 octets over a link of 1,280 are 52.
const MOST: usize = 64;

/// The octets of a fragment: where they start and end in the datagram.
#[derive(Clone, Copy, Debug, Default)]
struct Range {
    from: u16,
    to: u16,
}

/// The state of one datagram.
struct Slot {
    datagram: Option<DatagramId>,
    until: Nanos,
    /// What came before, in the order of `ranges`.
    chain: PacketList,
    ranges: [Range; MOST],
    /// The first fragment, when it has come.
    first: Option<UdpFragment>,
    /// How long the datagram is, when the last fragment has come.
    length: Option<u16>,
    /// It is given up: what comes of it is dropped.
    is_dead: bool,
    /// Whose share it takes although nothing of it is held.
    charged: Option<u16>,
}

impl Slot {
    const FREE: Self = Self {
        datagram: None,
        until: Nanos::ZERO,
        chain: PacketList::EMPTY,
        ranges: [Range { from: 0, to: 0 }; MOST],
        first: None,
        length: None,
        is_dead: false,
        charged: None,
    };

    fn ranges(&self) -> &[Range] {
        self.ranges
            .get(..usize::from(self.chain.len()))
            .unwrap_or_default()
    }

    /// What a fragment is among those that have come.
    fn judge(&self, part: &UdpFragment) -> Placement {
        let (from, to) = (part.offset, part.end());
        let ranges = self.ranges();
        if ranges
            .iter()
            .any(|range| range.from == from && usize::from(range.to) == to)
        {
            return Placement::Again;
        }
        let overlaps = |range: &Range| from < range.to && to > usize::from(range.from);
        let end = self.length.map_or(usize::from(u16::MAX), usize::from);
        let ends_before = |range: &Range| to < usize::from(range.to);
        let contradicts = if part.more {
            to > end
        } else {
            self.length.is_some() || ranges.iter().any(ends_before)
        };
        if self.is_dead || contradicts || ranges.iter().any(overlaps) {
            Placement::Contradiction
        } else if ranges.len() >= MOST {
            Placement::OneTooMany
        } else {
            Placement::New
        }
    }

    /// Whether all of it has come. Nothing overlaps, so it is enough to count.
    fn is_whole(&self) -> bool {
        let octets = |range: &Range| usize::from(range.to) - usize::from(range.from);
        let there: usize = self.ranges().iter().map(octets).sum();
        self.first.is_some() && self.length.is_some_and(|length| there == usize::from(length))
    }
}

/// What a fragment is among those that have come.
enum Placement {
    New,
    Again,
    Contradiction,
    OneTooMany,
}

/// The fragments of GTP-U packets that a worker holds.
pub(crate) struct Reassembly<B> {
    limits: ReassemblyLimits,
    slots: Box<[[Slot; WAYS]]>,
    hasher: foldhash::quality::FixedState,
    held: PacketStore<B, u16>,
    shares: [u16; SHARES],
    /// Datagrams that are together.
    ready: Batch<B>,
    /// Fragments of datagrams that were given up.
    dead: PacketList,
    /// Those of the datagram that is put together now, in the order in which they came.
    parts: Vec<Option<B>>,
    hand: usize,
    /// Places that have a datagram.
    in_use: usize,
    /// Datagrams put together so far, and fragments that have become part of others.
    pub made: u64,
    pub merged: u64,
}

impl<B: PacketBuf> Reassembly<B> {
    /// The same `seed` at all workers: they have to agree which of them has a datagram.
    pub fn new(limits: ReassemblyLimits, seed: Seed) -> Self {
        let sets = limits.datagrams.div_ceil(WAYS);
        let held = if sets == 0 { 0 } else { limits.held };
        let hidden = seed.0[0].rotate_left(32) ^ seed.0[1];
        Self {
            limits,
            slots: (0..sets).map(|_| [Slot::FREE; WAYS]).collect(),
            hasher: foldhash::quality::FixedState::with_seed(hidden),
            held: PacketStore::new(held),
            shares: [0; SHARES],
            ready: Batch::new(),
            dead: PacketList::EMPTY,
            parts: Vec::with_capacity(MOST),
            hand: 0,
            in_use: 0,
            made: 0,
            merged: 0,
        }
    }

    /// Whether fragments are put together at all.
    pub fn is_on(&self) -> bool {
        !self.slots.is_empty()
    }

    /// Which of `workers` reassembles the datagram of a fragment. `None` for what is no fragment that waits.
    #[cold]
    pub fn owner(&self, packet: &B, workers: u16) -> Option<WorkerId> {
        let part = UdpFragment::read(packet.data()).ok()?;
        let hash = self.hasher.hash_one((part.of, "owner"));
        Some(WorkerId((hash % u64::from(workers.max(1))) as u16))
    }

    /// How many fragments wait.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether there are complete datagrams.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Moves the complete datagrams into `burst`, which is empty.
    pub fn take_ready(&mut self, burst: &mut Batch<B>) {
        std::mem::swap(&mut self.ready, burst);
    }

    /// A fragment of a datagram that was given up.
    pub fn pop_dead(&mut self) -> Option<B> {
        let (packet, share) = self.held.pop(&mut self.dead)?;
        self.shares[usize::from(share) % SHARES] -= 1;
        Some(packet)
    }

    /// Takes a fragment. It waits, or makes its datagram whole, which is [ready](Self::take_ready) then.
    ///
    /// # Errors
    /// The fragment, and why it is dropped. What [is dead](Self::pop_dead) then is dropped as
    /// [`DropReason::BadFragment`].
    pub fn add(&mut self, mut packet: B, now: Nanos) -> Result<(), Rejected<B>> {
        if !self.is_on() {
            return Err(Rejected::new(packet, DropReason::Fragment));
        }
        let part = match UdpFragment::read(packet.data()) {
            Ok(part) => part,
            Err(reason) => return Err(Rejected::new(packet, reason)),
        };
        let Some(SlotIndex { set, way }) = self.find_slot(&part.of) else {
            return Err(Rejected::new(packet, DropReason::FragmentsFull));
        };
        let share = self.share(part.of.addrs);
        let free = self.held.free(self.limits.held, self.limits.held_octets);
        let has_room = free > 0
            && self.held.octets() + packet.len() <= self.limits.held_octets
            && usize::from(self.shares[share]) * 4 <= free;
        let slot = &mut self.slots[set][way];
        let is_new = slot.datagram.is_none();
        if is_new && !has_room {
            return Err(Rejected::new(packet, DropReason::FragmentsFull));
        }
        if is_new {
            self.in_use += 1;
            *slot = Slot {
                datagram: Some(part.of),
                until: now + self.limits.timeout,
                ..Slot::FREE
            };
        }
        match slot.judge(&part) {
            Placement::New => {}
            Placement::Again => {
                return Err(Rejected::new(packet, DropReason::BadFragment));
            }
            Placement::OneTooMany => {
                return Err(Rejected::new(packet, DropReason::FragmentsFull));
            }
            Placement::Contradiction => {
                slot.is_dead = true;
                if slot.charged.is_none() {
                    // A sender of contradicting fragments keeps the slot occupied until its time is over.
                    slot.charged = Some(share as u16);
                    self.shares[share] += 1;
                }
                let chain = std::mem::replace(&mut slot.chain, PacketList::EMPTY);
                self.held.join(&mut self.dead, chain);
                return Err(Rejected::new(packet, DropReason::BadFragment));
            }
        }
        if !has_room {
            return Err(Rejected::new(packet, DropReason::FragmentsFull));
        }
        if let Err(reason) = part.begin(&mut packet) {
            return Err(Rejected::new(packet, reason));
        }
        let number = usize::from(slot.chain.len());
        if let Err(packet) = self.held.push(&mut slot.chain, packet, share as u16) {
            return Err(Rejected::new(packet, DropReason::FragmentsFull));
        }
        self.shares[share] += 1;
        if let Some(range) = slot.ranges.get_mut(number) {
            (range.from, range.to) = (part.offset, part.end() as u16);
        }
        if part.offset == 0 {
            slot.first = Some(part);
        }
        if !part.more {
            slot.length = Some(part.end() as u16);
        }
        match slot.is_whole() {
            true => self.put_together(SlotIndex { set, way }),
            false => Ok(()),
        }
    }

    /// Reassembles a datagram whose fragments have all arrived.
    fn put_together(&mut self, SlotIndex { set, way }: SlotIndex) -> Result<(), Rejected<B>> {
        let mut slot = std::mem::replace(&mut self.slots[set][way], Slot::FREE);
        self.in_use -= 1;
        let count = usize::from(slot.chain.len());
        self.parts.clear();
        while let Some((packet, share)) = self.held.pop(&mut slot.chain) {
            self.shares[usize::from(share) % SHARES] -= 1;
            self.parts.push(Some(packet));
        }
        let mut order: [u8; MOST] = std::array::from_fn(|number| number as u8);
        let order = &mut order[..count.min(MOST)];
        order.sort_unstable_by_key(|number| slot.ranges[usize::from(*number) % MOST].from);
        let mut in_order = order
            .iter()
            .filter_map(|number| self.parts.get_mut(usize::from(*number))?.take());
        let (Some(mut whole), Some(first), Some(length)) = (in_order.next(), slot.first, slot.length) else {
            return Ok(());
        };
        self.merged += count as u64 - 1;
        let joined = in_order.try_for_each(|part| join(&mut whole, part));
        let done = joined.and_then(|()| {
            // In one piece where it fits: not every port sends chains.
            if !whole.gather(whole.len()) {
                gather_headers(&mut whole);
            }
            first.finish(&mut whole, length.into())
        });
        match done {
            Ok(()) => {
                let pushed = self.ready.push(whole);
                pushed.map_err(|packet| Rejected::new(packet, DropReason::FragmentsFull))?;
                self.made += 1;
                Ok(())
            }
            Err(reason) => Err(Rejected::new(whole, reason)),
        }
    }

    /// The slot of a datagram, or one that is free.
    fn find_slot(&self, datagram: &DatagramId) -> Option<SlotIndex> {
        let number = self.hasher.hash_one(datagram) as usize % self.slots.len().max(1);
        let set = self.slots.get(number)?;
        let find = |wanted: Option<&DatagramId>| set.iter().position(|slot| slot.datagram.as_ref() == wanted);
        let way = find(Some(datagram)).or_else(|| find(None))?;
        Some(SlotIndex { set: number, way })
    }

    /// Sources are numbered by a keyed hash, by prefixes of 64 bits in IPv6.
    fn share(&self, addrs: Addrs) -> usize {
        let source = match addrs {
            Addrs::V4 { src, .. } => u64::from(u32::from_be_bytes(src)),
            Addrs::V6 { src, .. } => (u128::from_be_bytes(src) >> 64) as u64,
        };
        self.hasher.hash_one((addrs.is_v4(), source)) as usize % SHARES
    }

    /// Looks at a few datagrams. The fragments of those that waited too long, as many as `out` has room for.
    pub fn sweep(&mut self, out: &mut Batch<B>, now: Nanos) {
        for _ in 0..SWEPT.min(self.slots.len() * WAYS) {
            let (set, way) = (self.hand / WAYS, self.hand % WAYS);
            let slot = &mut self.slots[set][way];
            if slot.datagram.is_some() && slot.until <= now {
                while !out.is_full() {
                    let Some((packet, share)) = self.held.pop(&mut slot.chain) else {
                        break;
                    };
                    self.shares[usize::from(share) % SHARES] -= 1;
                    let _ = out.push(packet);
                }
                if !slot.chain.is_empty() {
                    return;
                }
                if let Some(share) = slot.charged {
                    self.shares[usize::from(share) % SHARES] -= 1;
                }
                *slot = Slot::FREE;
                self.in_use -= 1;
            }
            self.hand = (self.hand + 1) % (self.slots.len() * WAYS);
        }
    }

    /// Whether any datagram is known, waiting or given up.
    pub fn has_any(&self) -> bool {
        self.in_use > 0
    }
}

/// Puts the octets of `part` behind those of `whole`.
fn join<B: PacketBuf>(whole: &mut B, part: B) -> Result<(), DropReason> {
    let is_short = !part.is_chained() && part.len() <= whole.tailroom();
    match is_short {
        true => {
            let room = whole.append(part.len()).ok_or(DropReason::BadIpLength)?;
            room.copy_from_slice(part.data());
            Ok(())
        }
        false => whole.link(part).map_err(|_| DropReason::BadIpLength),
    }
}
