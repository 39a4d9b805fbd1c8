//! The blocks that a worker's sessions hold, and which of their ports are mapped.

use std::net::Ipv4Addr;

use flow::SessionIndex;
use flow::slab::{OutOfMemory, Slab};
use zerocopy::FromZeros;

use super::endpoint::Protocol;
use super::pool::{Item, Pool};
use super::record::PublicEnd;
use crate::pools::{BLOCK_BITS, BlockId, PortBlock};

/// Ports of a word of a bitmap.
const WORD: usize = u64::BITS as usize;

/// A block that a session holds.
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
pub(super) struct Held {
    id: u32,
    /// Whose it is.
    pub session: u32,
    pub address: [u8; 4],
    /// The first port.
    pub first: u16,
    /// How many ports there are, as a power of two; 0: it is free.
    bits: u8,
    _unused: u8,
    /// How many ports of each protocol are mapped.
    pub used: [u16; Protocol::COUNT],
    _unused_too: u16,
    /// The tick in which a port was given back last, or the block was granted.
    pub idle_since: u32,
    /// One more than the number of the block that the session was granted before it; 0: none.
    pub before: u32,
    /// As much of the one that it was granted next. Of a free one: the link.
    pub after: u32,
}

impl Held {
    pub fn id(&self) -> BlockId {
        BlockId(self.id)
    }

    pub fn session(&self) -> SessionIndex {
        SessionIndex(self.session)
    }

    pub fn ports(&self) -> u32 {
        1 << self.bits
    }

    pub fn block(&self) -> PortBlock {
        PortBlock {
            address: Ipv4Addr::from(self.address),
            first: self.first,
            bits: self.bits,
        }
    }

    /// Whether no port is mapped.
    pub fn is_idle(&self) -> bool {
        self.used == [0; Protocol::COUNT]
    }

    /// The public end of a port, by its place in the block.
    pub fn end(&self, offset: u16, protocol: Protocol) -> PublicEnd {
        PublicEnd {
            block: self.id(),
            port: self.first + offset,
            protocol,
        }
    }

    /// The place of a port in the block, if it is one of it.
    pub fn offset(&self, port: u16) -> Option<u16> {
        let offset = port.checked_sub(self.first)?;
        (u32::from(offset) < self.ports()).then_some(offset)
    }
}

impl Item for Held {
    fn free(link: u32) -> Self {
        Self {
            after: link,
            ..Self::new_zeroed()
        }
    }

    fn link(&self) -> u32 {
        self.after
    }

    fn is_in_use(&self) -> bool {
        self.bits > 0
    }
}

/// All of them, by number; and the numbers by block.
pub(super) struct HeldBlocks {
    pub pool: Pool<Held>,
    /// One more than the number of a block that is held.
    by_id: Slab<u32>,
    /// Of each held block and protocol, `words` of them: a bit for each port that is mapped or that there is none of.
    bitmaps: Slab<u64>,
    words: usize,
}

impl HeldBlocks {
    /// Room for `held` blocks of the `blocks` that there are, of at most 2 to the power of `bits` ports.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(blocks: u32, held: usize, bits: u8) -> Result<Self, OutOfMemory> {
        let words = (1_usize << bits.min(15)).div_ceil(WORD);
        Ok(Self {
            pool: Pool::new(held)?,
            by_id: Slab::new(blocks as usize)?,
            bitmaps: Slab::new(held.saturating_mul(words * Protocol::COUNT))?,
            words,
        })
    }

    pub fn octets(&self) -> usize {
        self.pool.octets() + self.by_id.len() * size_of::<u32>() + self.bitmaps.len() * size_of::<u64>()
    }

    /// Whether blocks may have this number.
    pub fn has_number(&self, id: BlockId) -> bool {
        (id.0 as usize) < self.by_id.len()
    }

    /// Whether a block of this size has a place here.
    pub fn fits(&self, block: PortBlock) -> bool {
        let ports = 1_usize << block.bits.min(31);
        BLOCK_BITS.contains(&block.bits)
            && ports <= self.words * WORD
            && usize::from(block.first) + ports <= 1 << 16
    }

    /// The number of a block that is held.
    pub fn number(&self, id: BlockId) -> Option<u32> {
        self.by_id.get(id.0 as usize)?.checked_sub(1)
    }

    /// A block that is held, with its number.
    pub fn of_id(&self, id: BlockId) -> Option<(u32, &Held)> {
        let number = self.number(id)?;
        Some((number, self.pool.get(number)?))
    }

    /// Adds a block that is not held, behind the one with the number `before` less one. Returns its number.
    pub fn put(
        &mut self,
        session: SessionIndex,
        (id, block): (BlockId, PortBlock),
        before: u32,
        now: u32,
    ) -> Option<u32> {
        let number = self.pool.put(Held {
            id: id.0,
            session: session.0,
            address: block.address.octets(),
            first: block.first,
            bits: block.bits,
            idle_since: now,
            before,
            ..Held::new_zeroed()
        })?;
        for protocol in Protocol::ALL {
            let map = self.map_mut(number, protocol);
            map.fill(0);
            // Ports that a small block does not have in its only word.
            if let Some(word) = map.first_mut().filter(|_| usize::from(block.bits) < 6) {
                *word = u64::MAX << (1_u32 << block.bits);
            }
        }
        if let Some(place) = self.by_id.get_mut(id.0 as usize) {
            *place = number + 1;
        }
        if let Some(last) = before.checked_sub(1).and_then(|last| self.pool.get_mut(last)) {
            last.after = number + 1;
        }
        Some(number)
    }

    /// Takes a block out, and out of the list of its session.
    pub fn take(&mut self, number: u32) -> Option<Held> {
        let held = self.pool.take(number)?;
        if let Some(place) = self.by_id.get_mut(held.id as usize) {
            *place = 0;
        }
        if let Some(before) = held.before.checked_sub(1).and_then(|at| self.pool.get_mut(at)) {
            before.after = held.after;
        }
        if let Some(after) = held.after.checked_sub(1).and_then(|at| self.pool.get_mut(at)) {
            after.before = held.before;
        }
        Some(held)
    }

    /// The words of a block's bitmap that a protocol has.
    fn words_of(&self, number: u32, protocol: Protocol) -> (usize, usize) {
        let start = (number as usize * Protocol::COUNT + protocol as usize) * self.words;
        let ports = self.pool.get(number).map_or(0, Held::ports);
        (start, (ports as usize).div_ceil(WORD))
    }

    fn map(&self, number: u32, protocol: Protocol) -> &[u64] {
        let (start, words) = self.words_of(number, protocol);
        self.bitmaps.get(start..start + words).unwrap_or_default()
    }

    fn map_mut(&mut self, number: u32, protocol: Protocol) -> &mut [u64] {
        let (start, words) = self.words_of(number, protocol);
        self.bitmaps.get_mut(start..start + words).unwrap_or_default()
    }

    /// The ports that are not mapped, by their places in the block, from the place `start` on (any number: its low bits
    /// count) and around.
    pub fn free_ports(&self, number: u32, protocol: Protocol, start: usize) -> impl Iterator<Item = u16> {
        let held = self.pool.get(number);
        let held = held.filter(|held| u32::from(held.used[protocol as usize]) < held.ports());
        let map = held.map_or(&[][..], |_| self.map(number, protocol));
        let start = start & (held.map_or(1, Held::ports) as usize - 1);
        let (first, below) = (start / WORD, (1 << (start % WORD)) - 1);
        // The first word in two parts, the one before the start at last.
        let words = (first..map.len()).chain(0..=first).zip(0..=map.len());
        words.flat_map(move |(word, step)| {
            let others = match step {
                0 => below,
                _ if step == map.len() => !below,
                _ => 0,
            };
            let mut free = !(map.get(word).copied().unwrap_or(u64::MAX) | others);
            core::iter::from_fn(move || {
                let place = (free != 0).then(|| word * WORD + free.trailing_zeros() as usize)?;
                free &= free - 1;
                Some(place as u16)
            })
        })
    }

    /// Whether a port is mapped.
    #[cfg(test)]
    pub fn is_mapped(&self, number: u32, protocol: Protocol, offset: u16) -> bool {
        let word = self.map(number, protocol).get(usize::from(offset) / WORD);
        word.is_some_and(|word| word >> (usize::from(offset) % WORD) & 1 != 0)
    }

    /// A port is mapped from now on.
    pub fn map_port(&mut self, number: u32, protocol: Protocol, offset: u16) {
        let map = self.map_mut(number, protocol);
        if let Some(word) = map.get_mut(usize::from(offset) / WORD) {
            *word |= 1 << (usize::from(offset) % WORD);
        }
        if let Some(held) = self.pool.get_mut(number) {
            held.used[protocol as usize] += 1;
        }
    }

    /// A port is free from now on.
    pub fn free(&mut self, number: u32, protocol: Protocol, offset: u16, now: u32) {
        let map = self.map_mut(number, protocol);
        if let Some(word) = map.get_mut(usize::from(offset) / WORD) {
            *word &= !(1 << (usize::from(offset) % WORD));
        }
        if let Some(held) = self.pool.get_mut(number) {
            held.used[protocol as usize] = held.used[protocol as usize].saturating_sub(1);
            held.idle_since = now;
        }
    }

    /// The first port that is mapped, by its place in the block, from the place `from` on.
    pub fn next_mapped(&self, number: u32, protocol: Protocol, from: usize) -> Option<u16> {
        let ports = self.pool.get(number)?.ports() as usize;
        let map = self.map(number, protocol);
        let offset = (from / WORD..map.len()).find_map(|word| {
            let before = if word == from / WORD {
                (1 << (from % WORD)) - 1
            } else {
                0
            };
            let mapped = map[word] & !before;
            (mapped != 0).then(|| word * WORD + mapped.trailing_zeros() as usize)
        })?;
        // Those behind are none of the block.
        (offset < ports).then_some(offset as u16)
    }
}
