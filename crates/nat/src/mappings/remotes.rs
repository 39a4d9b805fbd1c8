//! The addresses that mappings have sent to, where only those may send (RFC 4787 §5, address-dependent filtering).
//!
//! Those of a mapping form a list, so that they go with it. As that takes time, a session has no more than
//! [`MOST_OF_SESSION`].

use std::hash::{BuildHasher, Hasher};

use flow::slab::{OutOfMemory, Slab};
use foldhash::quality::FixedState;
use zerocopy::FromZeros;

use super::index::Index;
use super::pool::{Item, Pool};

/// A session may have as many.
pub const MOST_OF_SESSION: u32 = 8_192;
/// A session may have as many, also where the worker has few left.
const LEAST_OF_SESSION: usize = 64;
/// A session may have one of so many that are left.
const SHARE: usize = 16;

/// An address that a mapping has sent to.
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

/// The addresses of all mappings.
pub(super) struct Remotes {
    pool: Pool<Remote>,
    index: Index,
    /// By mapping: one more than the number of the address that it sent to last. Without room for any, there are none.
    latest: Slab<u32>,
    hasher: FixedState,
}

impl Remotes {
    /// Room for `remotes` addresses of `mappings`.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn new(mappings: usize, remotes: usize, seed: u64) -> Result<Self, OutOfMemory> {
        Ok(Self {
            pool: Pool::new(remotes)?,
            index: Index::new(remotes, remotes)?,
            latest: Slab::new(if remotes == 0 { 0 } else { mappings })?,
            hasher: FixedState::with_seed(seed),
        })
    }

    pub fn octets(&self) -> usize {
        self.pool.octets() + self.index.octets() + self.latest.len() * size_of::<u32>()
    }

    pub fn len(&self) -> usize {
        self.pool.len()
    }

    /// Whether a session that has `held` of them may have one more.
    pub fn has_room(&self, held: u32) -> bool {
        let share = (self.pool.room() / SHARE).max(LEAST_OF_SESSION);
        self.pool.room() > 0 && held < MOST_OF_SESSION && (held as usize) < share
    }

    fn hash(hasher: &FixedState, mapping: u32, address: [u8; 4]) -> u64 {
        let mut hasher = hasher.build_hasher();
        hasher.write_u64(u64::from(mapping) << 32 | u64::from(u32::from_be_bytes(address)));
        hasher.finish()
    }

    /// Whether the mapping has sent to this address.
    #[inline]
    pub fn has(&self, mapping: u32, address: [u8; 4]) -> bool {
        let hash = Self::hash(&self.hasher, mapping, address);
        let is_meant = |number| {
            let remote = self.pool.get(number);
            remote.is_some_and(|remote| remote.mapping == mapping + 1 && remote.address == address)
        };
        self.index.find(hash, is_meant).is_some()
    }

    /// Adds an address that the mapping has not sent to. Returns whether there was room.
    pub fn put(&mut self, mapping: u32, address: [u8; 4]) -> bool {
        let Some(latest) = self.latest.get_mut(mapping as usize) else {
            return false;
        };
        let Some(number) = self.pool.put(Remote {
            mapping: mapping + 1,
            address,
            next: *latest,
        }) else {
            return false;
        };
        *latest = number + 1;
        self.index
            .insert(Self::hash(&self.hasher, mapping, address), number);
        true
    }

    /// The addresses of a mapping, the latest first.
    pub fn of(&self, mapping: u32) -> impl Iterator<Item = [u8; 4]> {
        let first = self.latest.get(mapping as usize).copied().unwrap_or(0);
        let remote = |link: u32| link.checked_sub(1).and_then(|number| self.pool.get(number));
        core::iter::successors(remote(first), move |last| remote(last.next)).map(|remote| remote.address)
    }

    /// Forgets all addresses of a mapping. Returns how many there were.
    pub fn forget(&mut self, mapping: u32) -> u32 {
        let Some(latest) = self.latest.get_mut(mapping as usize) else {
            return 0;
        };
        let (mut link, mut count) = (core::mem::take(latest), 0);
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
