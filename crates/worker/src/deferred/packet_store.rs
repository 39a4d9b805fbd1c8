//! The store under all queues of deferred packets: a fixed number of slots, linked into lists.

use flow::Nanos;
use packet::ip_fragmentation::FragmentSpec;
use packet::{DropReason, PacketBuf};

use crate::burst::batch::Batch;
use crate::burst::descriptor::Deferral;
use crate::stats::Stats;

/// A packet that a queue does not keep.
pub(crate) struct Rejected<B> {
    pub packet: B,
    pub reason: DropReason,
}

impl<B> Rejected<B> {
    pub const fn new(packet: B, reason: DropReason) -> Self {
        Self { packet, reason }
    }
}

/// Where stage `tx` puts packets that are deferred.
pub(crate) trait Deferrals<B> {
    /// Stores the packet at `index` of the burst.
    ///
    /// # Errors
    /// The packet and the drop reason, when there is no room for it.
    fn store(
        &mut self,
        deferral: Deferral,
        index: usize,
        packet: B,
        stats: &mut Stats,
        now: Nanos,
    ) -> Result<(), Rejected<B>>;

    /// Puts the packet at `index` of the burst into the queue before its port that was chosen.
    fn enqueue(&mut self, index: usize, packet: B, split: Option<FragmentSpec>, now: Nanos);

    /// Takes a packet that a queue has kept and gives up because of the one stored last.
    fn take_rejected(&mut self) -> Option<Rejected<B>>;
}

/// A slot of a table of sets, as a hash table of datagrams has them.
#[derive(Clone, Copy)]
pub(crate) struct SlotIndex {
    pub set: usize,
    /// Index in the set.
    pub way: usize,
}

/// No slot.
const NONE: u32 = u32::MAX;

/// Buffers in the order in which they came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketList {
    first: u32,
    last: u32,
    len: u16,
}

impl PacketList {
    pub const EMPTY: Self = Self {
        first: NONE,
        last: NONE,
        len: 0,
    };

    pub const fn is_empty(&self) -> bool {
        self.first == NONE
    }

    /// How many buffers there are.
    pub const fn len(&self) -> u16 {
        self.len
    }
}

/// A buffer and its owner, or neither.
struct Slot<B, T> {
    content: Option<(B, T)>,
    next: u32,
}

/// The slots.
pub(crate) struct PacketStore<B, T> {
    slots: Box<[Slot<B, T>]>,
    free: u32,
    len: usize,
    octets: usize,
}

impl<B: PacketBuf, T> PacketStore<B, T> {
    /// Room for `count` buffers.
    pub fn new(count: usize) -> Self {
        let next = |index: usize| {
            if index + 1 == count {
                NONE
            } else {
                index as u32 + 1
            }
        };
        let slots = (0..count).map(|index| Slot {
            content: None,
            next: next(index),
        });
        Self {
            slots: slots.collect(),
            free: if count == 0 { NONE } else { 0 },
            len: 0,
            octets: 0,
        }
    }

    /// How many buffers there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Octets of all packets.
    pub fn octets(&self) -> usize {
        self.octets
    }

    /// How many more buffers there may be, of `packets` and `octets` in all, if each of them has the average octets.
    pub fn free(&self, packets: usize, octets: usize) -> usize {
        let by_octets = octets.saturating_sub(self.octets()) as u128 * packets as u128;
        let by_octets = by_octets.checked_div(octets as u128).unwrap_or_default();
        packets.saturating_sub(self.len()).min(by_octets as usize)
    }

    /// Puts a buffer at the end of `chain`, or gives it back when there is no room.
    pub fn push(&mut self, chain: &mut PacketList, buf: B, owner: T) -> Result<(), B> {
        let at = self.free;
        let Some(slot) = self.slots.get_mut(at as usize) else {
            return Err(buf);
        };
        self.octets += buf.len();
        self.len += 1;
        self.free = slot.next;
        (slot.content, slot.next) = (Some((buf, owner)), NONE);
        self.join(
            chain,
            PacketList {
                first: at,
                last: at,
                len: 1,
            },
        );
        Ok(())
    }

    /// Puts `more` behind `chain`.
    pub fn join(&mut self, chain: &mut PacketList, more: PacketList) {
        match self.slots.get_mut(chain.last as usize) {
            Some(last) if !more.is_empty() => {
                last.next = more.first;
                (chain.last, chain.len) = (more.last, chain.len.saturating_add(more.len));
            }
            Some(_) => {}
            None => *chain = more,
        }
    }

    /// Takes the first buffer of `chain`.
    pub fn pop(&mut self, chain: &mut PacketList) -> Option<(B, T)> {
        let at = chain.first;
        let slot = self.slots.get_mut(at as usize)?;
        let (buf, owner) = slot.content.take()?;
        (chain.first, chain.len) = (slot.next, chain.len.saturating_sub(1));
        if chain.is_empty() {
            *chain = PacketList::EMPTY;
        }
        slot.next = self.free;
        self.free = at;
        self.len -= 1;
        self.octets -= buf.len();
        Some((buf, owner))
    }
}

impl<B: PacketBuf> PacketStore<B, ()> {
    /// Moves the first buffers of `chain` into `out`, as many as that has room for.
    pub fn take_into(&mut self, chain: &mut PacketList, out: &mut Batch<B>) {
        while !out.is_full() {
            let Some((buf, ())) = self.pop(chain) else {
                return;
            };
            let _ = out.push(buf);
        }
    }
}
