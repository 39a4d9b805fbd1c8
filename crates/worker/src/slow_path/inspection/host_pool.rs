//! The hosts and paths that flows are for, each once for all flows that are for it.
//!
//! A host is its octets in a chain of blocks of 64: one block for most hosts. All blocks are there from the start.

use std::hash::BuildHasher;

use dpi::{HostName, PathStart};
use flow::slab::in_huge_pages;
use foldhash::quality::RandomState;

use crate::sessions::fixed_map::FixedMap;

/// The place of a host: that of its first block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HostPlace(u32);

impl HostPlace {
    /// That of no host.
    pub(super) const NONE: Self = Self(NONE);
}

/// Octets of a host in one block.
const OCTETS: usize = 52;
/// No block.
const NONE: u32 = u32::MAX;

/// A part of a host.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Block {
    /// Of a first block: flows that are for the host. 0: the block is free, or a later one of a host.
    flows: u32,
    /// The next block of the host; of a free one the next free one.
    next: u32,
    /// Of a first block: octets of the host, and of the path.
    host: u8,
    path: u8,
    has_path: bool,
    octets: [u8; OCTETS],
}

const _: () = assert!(size_of::<Block>() == 64);

/// Blocks for this number of octets.
const fn blocks_for(octets: usize) -> u32 {
    octets.div_ceil(OCTETS) as u32
}

/// A host, and of HTTP the start of a path there.
#[derive(Clone, Debug)]
pub(crate) struct HostAndPath {
    pub(crate) host: HostName,
    pub(crate) path: Option<PathStart>,
}

/// The octets of a host and of a path, as they lie in a chain of blocks: by the number of the block there, and where in
/// it they begin.
fn pieces<'a>(host: &'a [u8], path: &'a [u8]) -> impl Iterator<Item = (usize, usize, &'a [u8])> {
    let (last, at) = (host.len() / OCTETS, host.len() % OCTETS);
    let (beside, behind) = path.split_at(path.len().min(OCTETS - at));
    let of_host = host.chunks(OCTETS).enumerate();
    let of_path = behind.chunks(OCTETS).enumerate();
    of_host
        .map(|(number, octets)| (number, 0, octets))
        .chain([(last, at, beside)])
        .chain(of_path.map(move |(number, octets)| (last + 1 + number, 0, octets)))
        .filter(|(.., octets)| !octets.is_empty())
}

/// Hosts in a fixed number of blocks.
pub(super) struct HostPool {
    blocks: Box<[Block]>,
    free: u32,
    in_use: u32,
    /// By hash.
    places: FixedMap<2>,
    hasher: RandomState,
}

impl HostPool {
    pub(super) fn new(blocks: u32) -> Self {
        let block = |number: u32| Block {
            flows: 0,
            next: if number + 1 < blocks { number + 1 } else { NONE },
            host: 0,
            path: 0,
            has_path: false,
            octets: [0; OCTETS],
        };
        Self {
            blocks: in_huge_pages(blocks as usize, |number| block(number as u32)),
            free: if blocks > 0 { 0 } else { NONE },
            in_use: 0,
            places: FixedMap::new(blocks as usize),
            hasher: RandomState::default(),
        }
    }

    /// Counts one more flow that is for this; `None`: there is no room for another host.
    pub(super) fn take(&mut self, host: &HostName, path: Option<&PathStart>) -> Option<HostPlace> {
        let host = host.as_bytes();
        let path = path.map(PathStart::as_bytes);
        let key = self.key(host, path);
        if let Some(place) = self.places.at(&key) {
            if !self.holds(place, host, path) {
                return None;
            }
            self.blocks.get_mut(place as usize)?.flows += 1;
            return Some(HostPlace(place));
        }
        let place = self.store(host, path)?;
        // There is room for as many keys as for blocks.
        let _ = self.places.insert(key, place);
        Some(HostPlace(place))
    }

    /// How many blocks hosts have.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Whether the host at a place is this one.
    fn holds(&self, place: u32, host: &[u8], path: Option<&[u8]>) -> bool {
        let Some(first) = self.blocks.get(place as usize) else {
            return false;
        };
        let octets = path.unwrap_or_default();
        if [first.host, first.path].map(usize::from) != [host.len(), octets.len()]
            || first.has_path != path.is_some()
        {
            return false;
        }
        let (mut block, mut block_number) = (first, 0);
        pieces(host, octets).all(|(number, at, piece)| {
            if number != block_number {
                let Some(next) = self.blocks.get(block.next as usize) else {
                    return false;
                };
                (block, block_number) = (next, number);
            }
            block.octets.get(at..at + piece.len()) == Some(piece)
        })
    }

    /// Writes a host into free blocks; its first one.
    fn store(&mut self, host: &[u8], path: Option<&[u8]>) -> Option<u32> {
        let octets = path.unwrap_or_default();
        let wanted = blocks_for(host.len() + octets.len());
        if self.in_use + wanted > self.blocks.len() as u32 {
            return None;
        }
        let first = self.free;
        let (mut place, mut place_number) = (first, 0);
        for (number, at, piece) in pieces(host, octets) {
            if number != place_number {
                (place, place_number) = (self.blocks.get(place as usize)?.next, number);
            }
            let block = self.blocks.get_mut(place as usize)?;
            block.octets.get_mut(at..at + piece.len())?.copy_from_slice(piece);
            block.flows = 0;
        }
        let last = self.blocks.get_mut(place as usize)?;
        self.free = std::mem::replace(&mut last.next, NONE);
        let block = self.blocks.get_mut(first as usize)?;
        (block.host, block.path) = (host.len() as u8, octets.len() as u8);
        (block.has_path, block.flows) = (path.is_some(), 1);
        self.in_use += wanted;
        Some(first)
    }

    /// One flow less is for it.
    pub(super) fn give_back(&mut self, HostPlace(place): HostPlace) {
        let Some(first) = self.blocks.get_mut(place as usize) else {
            return;
        };
        first.flows = first.flows.saturating_sub(1);
        if first.flows > 0 {
            return;
        }
        if let Some(HostAndPath { host, path }) = self.at(HostPlace(place)) {
            let key = self.key(host.as_bytes(), path.as_ref().map(PathStart::as_bytes));
            self.places.remove(&key);
        }
        let mut next = place;
        while let Some(block) = self.blocks.get_mut(next as usize) {
            let following = std::mem::replace(&mut block.next, self.free);
            self.free = next;
            self.in_use -= 1;
            next = following;
        }
    }

    /// Blocks of the host at a place that is taken.
    pub(super) fn blocks_of(&self, HostPlace(place): HostPlace) -> u32 {
        let octets = |first: &Block| usize::from(first.host) + usize::from(first.path);
        let first = self.blocks.get(place as usize);
        first.map_or(0, |first| blocks_for(octets(first)))
    }

    /// The host and the path at a place that is taken.
    pub(super) fn at(&self, HostPlace(place): HostPlace) -> Option<HostAndPath> {
        let first = self.blocks.get(place as usize)?;
        let (host, path) = (usize::from(first.host), usize::from(first.path));
        if host + path <= OCTETS {
            return HostAndPath::read(first, &first.octets);
        }
        let mut octets = [0; 2 * u8::MAX as usize];
        let mut block = first;
        for to in octets.get_mut(..host + path)?.chunks_mut(OCTETS) {
            to.copy_from_slice(&block.octets[..to.len()]);
            block = self.blocks.get(block.next as usize).unwrap_or(first);
        }
        HostAndPath::read(first, &octets)
    }

    fn key(&self, host: &[u8], path: Option<&[u8]>) -> [u32; 2] {
        let hash = self.hasher.hash_one((host, path));
        [(hash >> 32) as u32, hash as u32]
    }
}

impl HostAndPath {
    /// That of a first block, of its `octets`.
    fn read(first: &Block, octets: &[u8]) -> Option<Self> {
        let (host, path) = (usize::from(first.host), usize::from(first.path));
        let path = first.has_path.then(|| octets.get(host..host + path)).flatten();
        Some(Self {
            host: HostName::of_octets(octets.get(..host)?)?,
            path: path.map(PathStart::of),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name(text: &str) -> HostName {
        HostName::parse(text.as_bytes()).expect("a name")
    }

    #[test]
    fn each_is_there_once_as_long_as_a_flow_is_for_it() {
        let mut hosts = HostPool::new(2);
        let one = hosts.take(&name("a.example"), None).expect("room");
        assert_eq!(hosts.take(&name("a.example"), None), Some(one));
        let other = hosts.take(&name("b.example"), None).expect("room");
        assert_ne!(one, other);
        assert_eq!(hosts.take(&name("c.example"), None), None);
        hosts.give_back(one);
        assert_eq!(hosts.at(one).map(|host| host.host), Some(name("a.example")));
        assert_eq!(hosts.take(&name("c.example"), None), None);
        hosts.give_back(one);
        assert_eq!(hosts.in_use, 1);
        assert!(hosts.take(&name("c.example"), None).is_some());
    }

    /// A host that could not be read again kept its key when its block was free.
    #[test]
    fn an_address_leaves_nothing_behind() {
        let mut hosts = HostPool::new(2);
        for host in ["[2001:db8::1]", "[::ffff:192.0.2.1]", "192.0.2.1"] {
            let place = hosts.take(&name(host), None).expect("room");
            assert_eq!(hosts.at(place).map(|own| own.host), Some(name(host)));
            hosts.give_back(place);
            assert_eq!((hosts.in_use, hosts.places.len()), (0, 0), "{host}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// A slow model: a list.
        #[test]
        fn they_come_back_as_they_were(
            steps in prop::collection::vec((any::<bool>(), 0..12usize, 0..4usize), 0..80),
        ) {
            let names: Vec<HostName> = (0..12).map(|number| name(&format!("{}host{number}.example", "a.".repeat(number * 8)))).collect();
            let paths = [None, Some(PathStart::of(b"/")), Some(PathStart::of(&[b'/'; 60])), Some(PathStart::of(&[b'x'; 255]))];
            let mut hosts = HostPool::new(24);
            let mut model: Vec<(usize, usize, HostPlace)> = Vec::new();
            for (takes, host, path) in steps {
                if takes {
                    let place = hosts.take(&names[host], paths[path].as_ref());
                    model.extend(place.map(|place| (host, path, place)));
                } else if !model.is_empty() {
                    let (.., place) = model.swap_remove(host % model.len());
                    hosts.give_back(place);
                }
                for (host, path, place) in &model {
                    let found = hosts.at(*place).expect("it is there");
                    prop_assert_eq!((found.host, found.path), (names[*host], paths[*path]));
                }
            }
            model.drain(..).for_each(|(.., place)| hosts.give_back(place));
            prop_assert_eq!((hosts.in_use, hosts.places.len()), (0, 0));
        }
    }
}
