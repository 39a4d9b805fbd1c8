//! The addresses that mappings have sent to, where only those may send (RFC 4787 §5, address-dependent filtering), or
//! where they are distinguished from others.
//!
//! The latest address of each mapping is beside the mappings ([`latest`](super::records::Records::latest)): most
//! packets read no more. Those before it form a list, so that they go with the mapping, and are found by an index. As
//! that takes time, a session has no more than [`MOST_OF_SESSION`] of them.

use std::hash::{BuildHasher, Hasher};

use flow::slab::OutOfMemory;
use foldhash::quality::FixedState;
use zerocopy::FromZeros;

use super::index::Index;
use super::pool::{Item, Pool};

/// A session may have as many beside the latest of each mapping.
pub const MOST_OF_SESSION: u32 = 8_192;
/// A session may have as many, also where the worker has few left.
const LEAST_OF_SESSION: usize = 64;
/// A session may have one of so many that are left.
const SHARE: usize = 16;

/// The address that a mapping has sent to last, for the first time.
#[derive(Clone, Copy, Default, FromZeros)]
#[repr(C)]
pub(super) struct Latest {
    address: [u8; 4],
    /// [`NONE`](Self::NONE), [`ONLY`](Self::ONLY), [`ALL`](Self::ALL), or from [`FIRST`](Self::FIRST) on the number of
    /// the one before.
    before: u32,
}

impl Latest {
    /// There is no address.
    const NONE: u32 = 0;
    /// There is no other.
    const ONLY: u32 = 1;
    const FIRST: u32 = 2;
    /// All addresses there are count as known.
    const ALL: u32 = u32::MAX;

    /// Whether all addresses count as known.
    pub fn are_all_known(self) -> bool {
        self.before == Self::ALL
    }

    /// One more than the number of the one before; 0: there is none.
    fn link(self) -> u32 {
        match self.before {
            Self::ALL => 0,
            before => before.saturating_sub(Self::ONLY),
        }
    }
}

/// An address that a mapping has sent to before its latest one.
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
struct Remote {
    /// One more than the number of the mapping; 0: it is free.
    mapping: u32,
    address: [u8; 4],
    /// One more than the number of the one that the mapping had before; of a free one: the link.
    next: u32,
}

impl Item for Remote {
    fn free(link: u32) -> Self {
        Self {
            next: link,
            ..Self::new_zeroed()
        }
    }

    fn link(&self) -> u32 {
        self.next
    }

    fn is_in_use(&self) -> bool {
        self.mapping != 0
    }
}

/// The addresses of all mappings but for the latest of each.
pub(super) struct Remotes {
    /// Whether the latest are kept.
    are_kept: bool,
    /// How many mappings have a latest one.
    with_latest: usize,
    pool: Pool<Remote>,
    index: Index,
    hasher: FixedState,
}

impl Remotes {
    /// Room for `remotes` addresses beside the latest of each mapping; without room for any, those are not kept either.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(remotes: usize, seed: u64) -> Result<Self, OutOfMemory> {
        Ok(Self {
            are_kept: remotes > 0,
            with_latest: 0,
            pool: Pool::new(remotes)?,
            index: Index::new(remotes, remotes)?,
            hasher: FixedState::with_seed(seed),
        })
    }

    pub fn octets(&self) -> usize {
        self.pool.octets() + self.index.octets()
    }

    pub fn len(&self) -> usize {
        self.with_latest + self.pool.len()
    }

    /// Whether any are kept.
    pub fn are_kept(&self) -> bool {
        self.are_kept
    }

    /// Whether a session that has `held` of them beside the latest of each mapping may have one more.
    pub fn has_room(&self, held: u32) -> bool {
        let share = (self.pool.room() / SHARE).max(LEAST_OF_SESSION);
        self.pool.room() > 0 && held < MOST_OF_SESSION && (held as usize) < share
    }

    fn hash(hasher: &FixedState, mapping: u32, address: [u8; 4]) -> u64 {
        let mut hasher = hasher.build_hasher();
        hasher.write_u64(u64::from(mapping) << 32 | u64::from(u32::from_be_bytes(address)));
        hasher.finish()
    }

    /// Whether the mapping whose latest address this is has sent to another one.
    #[inline]
    pub fn has(&self, mapping: u32, latest: Latest, address: [u8; 4]) -> bool {
        latest.address == address && latest.before != Latest::NONE
            || self.has_before(mapping, latest, address)
    }

    /// Whether it is one before the latest.
    fn has_before(&self, mapping: u32, latest: Latest, address: [u8; 4]) -> bool {
        match latest.before {
            Latest::NONE | Latest::ONLY => return false,
            Latest::ALL => return true,
            _ => {}
        }
        let hash = Self::hash(&self.hasher, mapping, address);
        let is_meant = |number| {
            let remote = self.pool.get(number);
            remote.is_some_and(|remote| remote.mapping == mapping + 1 && remote.address == address)
        };
        self.index.find(hash, is_meant).is_some()
    }

    /// Adds the first address that a mapping has sent to. There is always room for it. Returns whether it is the first.
    pub fn put_first(&mut self, latest: &mut Latest, address: [u8; 4]) -> bool {
        if latest.before != Latest::NONE {
            return false;
        }
        *latest = Latest {
            address,
            before: Latest::ONLY,
        };
        self.with_latest += 1;
        true
    }

    /// Adds an address that the mapping has not sent to, behind the first. Returns whether there was room.
    pub fn put(&mut self, mapping: u32, latest: &mut Latest, address: [u8; 4]) -> bool {
        let Some(number) = self.pool.put(Remote {
            mapping: mapping + 1,
            address: latest.address,
            next: latest.link(),
        }) else {
            return false;
        };
        let hash = Self::hash(&self.hasher, mapping, latest.address);
        *latest = Latest {
            address,
            before: number + Latest::FIRST,
        };
        self.index.insert(hash, number);
        true
    }

    /// From now on all addresses count as known to a mapping. Returns how many are forgotten beside the latest.
    pub fn know_all(&mut self, mapping: u32, latest: &mut Latest) -> u32 {
        let forgotten = self.forget(mapping, latest);
        latest.before = Latest::ALL;
        forgotten
    }

    /// The addresses of a mapping, the latest, which is given, first.
    pub fn of(&self, latest: Latest) -> impl Iterator<Item = [u8; 4]> {
        let latest = Some(latest).filter(|latest| !matches!(latest.before, Latest::NONE | Latest::ALL));
        let remote = |link: u32| link.checked_sub(1).and_then(|number| self.pool.get(number));
        let first = remote(latest.map_or(0, Latest::link));
        let before = core::iter::successors(first, move |last| remote(last.next));
        latest
            .map(|latest| latest.address)
            .into_iter()
            .chain(before.map(|remote| remote.address))
    }

    /// Forgets all addresses of a mapping. Returns how many there were beside the latest.
    pub fn forget(&mut self, mapping: u32, latest: &mut Latest) -> u32 {
        let latest = core::mem::take(latest);
        self.with_latest -= usize::from(!matches!(latest.before, Latest::NONE | Latest::ALL));
        let (mut link, mut count) = (latest.link(), 0);
        while let Some(number) = link.checked_sub(1) {
            let Some(remote) = self.pool.get(number).copied() else {
                break;
            };
            let hash = Self::hash(&self.hasher, mapping, remote.address);
            self.index.remove(hash, number);
            self.pool.take(number);
            (link, count) = (remote.next, count + 1);
        }
        count
    }
}
