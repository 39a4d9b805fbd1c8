//! The mappings in memory: a hash table by public port, so that the port alone names where its mapping is.
//!
//! A mapping takes 16 octets, four of them a line of 64. It is in its home line or, where that was full, behind it
//! ([`Passed`]); ports are chosen so that this is seldom. It stays where it is as long as it lives: its place is its
//! number.
//!
//! Where mappings keep the addresses that they have sent to, the latest of each is in a line behind every two lines of
//! mappings: in the same page of memory, so that it takes no other translation of an address.

use flow::prefetch;
use flow::slab::{OutOfMemory, Slab};
use zerocopy::FromZeros;

use super::lifetime::Life;
use super::passed::Passed;
use super::record::{Mapping, PublicEnd, PublicHash};
use super::remotes::Latest;

/// Mappings of a line.
const SLOTS: usize = 4;
/// Of [`OF_SLOTS`] slots as many are taken where the table has all its mappings.
const TAKEN: usize = 7;
const OF_SLOTS: usize = 8;

/// The mappings of a line, field by field.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Line {
    /// See [`Mapping::rest`]; 0: it is free.
    rest: [u32; SLOTS],
    /// The port inside, and below it the public one.
    ports: [u32; SLOTS],
    inside: [u32; SLOTS],
    until: [u32; SLOTS],
}

impl Line {
    /// The slot whose mapping has this public end.
    #[inline(always)]
    fn slot_of(&self, end: PublicEnd) -> Option<usize> {
        let rest = end.rest();
        let is_it = |slot: usize| {
            let differs =
                (self.rest[slot] ^ rest) & Mapping::END | (self.ports[slot] ^ u32::from(end.port)) & 0xffff;
            u32::from(differs == 0) << slot
        };
        let found = (0..SLOTS).fold(0, |found, slot| found | is_it(slot));
        (found != 0).then(|| found.trailing_zeros() as usize % SLOTS)
    }

    fn free_slot(&self) -> Option<usize> {
        self.rest.iter().position(|rest| *rest == 0)
    }
}

/// Lines of mappings, and behind them the latest address that each of the mappings has sent to.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
struct Pair {
    lines: [Line; 2],
    latest: [[Latest; SLOTS]; 2],
}

const _: () = assert!(size_of::<Pair>() == 3 * size_of::<Line>());

/// All lines, by number.
enum Lines {
    /// No addresses are kept.
    Alone(Slab<Line>),
    InPairs(Slab<Pair>),
}

impl Lines {
    fn octets(&self) -> usize {
        match self {
            Self::Alone(lines) => size_of_val(&**lines),
            Self::InPairs(pairs) => size_of_val(&**pairs),
        }
    }

    #[inline(always)]
    fn get(&self, line: usize) -> Option<&Line> {
        match self {
            Self::Alone(lines) => lines.get(line),
            Self::InPairs(pairs) => pairs.get(line / 2).map(|pair| &pair.lines[line % 2]),
        }
    }

    #[inline(always)]
    fn get_mut(&mut self, line: usize) -> Option<&mut Line> {
        match self {
            Self::Alone(lines) => lines.get_mut(line),
            Self::InPairs(pairs) => pairs.get_mut(line / 2).map(|pair| &mut pair.lines[line % 2]),
        }
    }

    /// Asks for a line, and for what is behind it.
    #[inline(always)]
    fn prefetch(&self, line: usize) {
        match self {
            Self::Alone(lines) => prefetch::nth_far(lines, line),
            Self::InPairs(pairs) => {
                if let Some(pair) = pairs.get(line / 2) {
                    prefetch::nth_far(&pair.lines, line % 2);
                    prefetch::nth_far(&pair.latest, line % 2);
                }
            }
        }
    }
}

/// Where a mapping is.
const fn place(number: u32) -> (usize, usize) {
    (number as usize / SLOTS, number as usize % SLOTS)
}

/// The mappings.
pub(super) struct Records {
    lines: Lines,
    /// How many lines there are.
    count: usize,
    passed: Passed,
    len: usize,
    capacity: usize,
}

impl Records {
    /// Room for as many mappings, at most 2^30, and for the latest address of each, where those are kept.
    ///
    /// # Errors
    /// When the memory cannot be had, or more are asked for.
    pub fn new(capacity: usize, keeps_latest: bool) -> Result<Self, OutOfMemory> {
        if capacity > 1 << 30 {
            let octets = capacity.saturating_mul(size_of::<Line>() / SLOTS);
            return Err(OutOfMemory { octets });
        }
        let count = (capacity * OF_SLOTS).div_ceil(TAKEN * SLOTS).max(1);
        let lines = match keeps_latest {
            false => Lines::Alone(Slab::new(count)?),
            true => Lines::InPairs(Slab::new(count.div_ceil(2))?),
        };
        Ok(Self {
            lines,
            count,
            passed: Passed::new(count)?,
            len: 0,
            capacity,
        })
    }

    pub fn octets(&self) -> usize {
        self.lines.octets() + self.passed.octets()
    }

    /// How many mappings there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// How many more there can be.
    pub fn room(&self) -> usize {
        self.capacity - self.len
    }

    /// Numbers are below this.
    pub fn slots(&self) -> u32 {
        (self.count * SLOTS) as u32
    }

    /// The line where a mapping is first looked for.
    #[inline]
    pub fn home(&self, hash: PublicHash) -> usize {
        ((u128::from(hash.0) * self.count as u128) >> 64) as usize
    }

    /// Asks for the line where this hash is looked for first, and for the latest addresses of its mappings.
    #[inline]
    pub fn prefetch_home(&self, hash: PublicHash) {
        self.lines.prefetch(self.home(hash));
    }

    /// The latest address that the mapping with this number has sent to, as far as that is kept.
    #[inline]
    pub fn latest(&self, number: u32) -> Latest {
        let (line, slot) = place(number);
        match &self.lines {
            Lines::Alone(_) => Latest::default(),
            Lines::InPairs(pairs) => pairs
                .get(line / 2)
                .map_or_else(Latest::default, |pair| pair.latest[line % 2][slot]),
        }
    }

    /// The same, to be changed; `None` where it is not kept.
    pub fn latest_mut(&mut self, number: u32) -> Option<&mut Latest> {
        let (line, slot) = place(number);
        match &mut self.lines {
            Lines::Alone(_) => None,
            Lines::InPairs(pairs) => {
                let pair = pairs.get_mut(line / 2)?;
                Some(&mut pair.latest[line % 2][slot])
            }
        }
    }

    /// The number of the mapping that has this public end, with its hash.
    #[inline]
    pub fn find(&self, hash: PublicHash, end: PublicEnd) -> Option<u32> {
        let line = self.home(hash);
        match self.lines.get(line)?.slot_of(end) {
            Some(slot) => Some((line * SLOTS + slot) as u32),
            None => self.find_further(line, end),
        }
    }

    /// The same where it is not in its home line.
    #[cold]
    fn find_further(&self, home: usize, end: PublicEnd) -> Option<u32> {
        let mut at = home;
        loop {
            at = self.passed.behind(at, home)?;
            if let Some(slot) = self.lines.get(at)?.slot_of(end) {
                return Some((at * SLOTS + slot) as u32);
            }
        }
    }

    /// Whether the home line of this hash has room.
    pub fn has_room_at(&self, hash: PublicHash) -> bool {
        self.lines
            .get(self.home(hash))
            .is_some_and(|line| line.free_slot().is_some())
    }

    /// Adds a mapping with this hash of its public end, which no other has, if there is room. Returns its number.
    pub fn put(&mut self, hash: PublicHash, mapping: &Mapping) -> Option<u32> {
        if self.room() == 0 {
            return None;
        }
        let mut at = self.home(hash);
        loop {
            if let Some(slot) = self.lines.get(at)?.free_slot() {
                self.set(at, slot, mapping);
                self.len += 1;
                return Some((at * SLOTS + slot) as u32);
            }
            self.passed.add(at);
            at = self.passed.next(at);
        }
    }

    /// Takes out a mapping that is there, with the hash of its public end.
    pub fn take(&mut self, hash: PublicHash, number: u32) {
        let (line, slot) = place(number);
        if let Some(rest) = self.lines.get_mut(line).map(|line| &mut line.rest[slot]) {
            *rest = 0;
            self.len -= 1;
            self.passed.forget(self.home(hash), line);
        }
    }

    fn set(&mut self, line: usize, slot: usize, mapping: &Mapping) {
        if let Some(line) = self.lines.get_mut(line) {
            line.rest[slot] = mapping.rest;
            line.ports[slot] = u32::from(mapping.inside_port) << 16 | u32::from(mapping.port);
            line.inside[slot] = mapping.inside;
            line.until[slot] = mapping.until;
        }
    }

    /// A mapping by its number.
    #[inline]
    pub fn get(&self, number: u32) -> Option<Mapping> {
        let (line, slot) = place(number);
        let line = self.lines.get(line)?;
        let mapping = Mapping {
            rest: line.rest[slot],
            inside_port: (line.ports[slot] >> 16) as u16,
            port: line.ports[slot] as u16,
            inside: line.inside[slot],
            until: line.until[slot],
        };
        mapping.is_in_use().then_some(mapping)
    }

    /// Sets the life of a mapping, as it is now, unless it is of a port forward.
    #[inline]
    pub fn set_life(&mut self, number: u32, mapping: &Mapping, life: Life) {
        // Many packets change nothing, and so leave the line clean.
        if mapping.life() == life || mapping.is_forward() {
            return;
        }
        let (line, slot) = place(number);
        if let Some(line) = self.lines.get_mut(line) {
            line.rest[slot] = mapping.with_state(life.state);
            line.until[slot] = life.until;
        }
    }

    /// Whether a mapping is there and dead.
    #[inline]
    pub fn is_dead(&self, number: u32, tick: u32) -> bool {
        let (line, slot) = place(number);
        let line = self.lines.get(line);
        line.is_some_and(|line| line.until[slot] <= tick && line.rest[slot] != 0)
    }

    /// All that there are.
    #[cfg(test)]
    pub fn iter(&self) -> impl Iterator<Item = (u32, Mapping)> {
        (0..self.slots()).filter_map(|number| Some((number, self.get(number)?)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;
    use crate::mappings::Protocol;
    use crate::pools::BlockId;

    fn mapping(end: PublicEnd, until: u32) -> Mapping {
        Mapping {
            rest: end.rest(),
            inside_port: !end.port,
            port: end.port,
            inside: 0x0a00_0001,
            until,
        }
    }

    proptest! {
        #[test]
        fn it_does_what_a_hash_map_does(
            homes in prop::collection::vec(0u64..4, 50),
            steps in prop::collection::vec((0u8..5, 0u32..50), 0..400),
            keeps_latest in any::<bool>(),
        ) {
            // Few homes, so that buckets are full, and the last one, too: what it has no room for is in the first one.
            let hash = |number: u32| PublicHash(homes[number as usize] << 62);
            let end = |number: u32| PublicEnd {
                block: BlockId(number % 3),
                port: (number / 6) as u16,
                protocol: Protocol::ALL[(number % 6 / 2) as usize],
            };
            let ends: Vec<PublicEnd> = (0..50).map(end).collect();
            let is_first = |number: u32| ends.iter().position(|other| *other == end(number)) == Some(number as usize);
            let (mut records, mut model) = (Records::new(34, keeps_latest).unwrap(), HashMap::new());
            for (step, number) in steps {
                // Two numbers of one end have one hash.
                let first = ends.iter().position(|other| *other == end(number)).unwrap() as u32;
                let found = records.find(hash(first), end(number));
                prop_assert_eq!(found, model.get(&first).copied());
                match (step > 1, found) {
                    (true, None) => {
                        let put = records.put(hash(first), &mapping(end(first), number));
                        prop_assert_eq!(put.is_some(), model.len() < 34);
                        if let Some(put) = put {
                            model.insert(first, put);
                        }
                    }
                    (false, Some(found)) => {
                        records.take(hash(first), found);
                        model.remove(&first);
                    }
                    _ => {}
                }
                prop_assert_eq!((records.len(), records.iter().count()), (model.len(), model.len()));
            }
            for number in (0..50).filter(|number| is_first(*number)) {
                let found = records.find(hash(number), end(number));
                prop_assert_eq!(found, model.get(&number).copied());
                if let Some(found) = found {
                    prop_assert!(records.get(found).unwrap().end() == end(number));
                    records.take(hash(number), found);
                }
            }
            prop_assert_eq!((records.len(), records.passed.sum()), (0, 0));
        }
    }

    #[test]
    fn a_mapping_takes_less_than_19_octets() {
        let records = Records::new(1 << 20, false).unwrap();
        assert!((18.5..18.6).contains(&(records.octets() as f64 / f64::from(1 << 20))));
        assert!(Records::new((1 << 30) + 1, false).is_err());
    }
}
