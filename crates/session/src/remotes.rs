//! Which sessions send to which tunnel endpoint of a peer.

use flow::SessionIndex;
use std::collections::BTreeSet;

use crate::hashed_indexes::{HashedIndexes, KeyHash};
use crate::ids::RemoteTunnel;

/// Sessions by the hashes of the peers' tunnel endpoints that they send to.
#[derive(Debug)]
pub(crate) struct Remotes {
    /// One session of each hash: most have no other.
    first: HashedIndexes<RemoteTunnel, SessionIndex>,
    others: BTreeSet<(KeyHash, SessionIndex)>,
}

impl Remotes {
    /// None. The seed is that of the hashes.
    pub(crate) fn new(seed: u64) -> Remotes {
        Remotes {
            first: HashedIndexes::new(seed),
            others: BTreeSet::new(),
        }
    }

    /// The sessions that send to `remote`, and maybe some that send to another endpoint with the same hash.
    pub(crate) fn candidates(&self, remote: RemoteTunnel) -> impl Iterator<Item = SessionIndex> + '_ {
        let hash = self.first.hash(&remote);
        let first = self.first.find(hash, |_| true);
        let others = self.others.range(all_of(hash)).map(|(_, index)| *index);
        first.into_iter().chain(others)
    }

    /// A session sends to `remote`.
    pub(crate) fn add(&mut self, remote: RemoteTunnel, index: SessionIndex) {
        let hash = self.first.hash(&remote);
        match self.first.find(hash, |_| true) {
            None => self.first.replace(hash, index, |_| true),
            Some(first) if first == index => {}
            Some(_) => {
                self.others.insert((hash, index));
            }
        }
    }

    /// A session sends to `remote` no more; others may.
    pub(crate) fn remove(&mut self, remote: RemoteTunnel, index: SessionIndex) {
        let hash = self.first.hash(&remote);
        if !self.first.remove(hash, index) {
            self.others.remove(&(hash, index));
            return;
        }
        let next = self.others.range(all_of(hash)).next().copied();
        if let Some(next) = next {
            self.others.remove(&next);
            self.first.replace(hash, next.1, |_| true);
        }
    }
}

fn all_of(hash: KeyHash) -> std::ops::RangeInclusive<(KeyHash, SessionIndex)> {
    (hash, SessionIndex(0))..=(hash, SessionIndex(u32::MAX))
}
