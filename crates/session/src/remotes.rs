//! Which sessions send to which tunnel endpoint of a peer.

use flow::SessionIndex;
use std::collections::BTreeSet;

use crate::ids::RemoteTunnel;
use crate::keyed_map::{Keyed, keyed};

/// Sessions by the peers' tunnel endpoints that they send to.
#[derive(Debug)]
pub(crate) struct Remotes {
    /// One session of each endpoint: most have no other.
    first: Keyed<RemoteTunnel, SessionIndex>,
    others: BTreeSet<(RemoteTunnel, SessionIndex)>,
}

impl Remotes {
    /// None. The seed is that of the hash table.
    pub(crate) fn new(seed: u64) -> Remotes {
        Remotes {
            first: keyed(seed),
            others: BTreeSet::new(),
        }
    }

    /// The sessions that send to `remote`.
    pub(crate) fn sessions(&self, remote: RemoteTunnel) -> impl Iterator<Item = SessionIndex> + '_ {
        let first = self.first.get(&remote).copied();
        let all = (remote, SessionIndex(0))..=(remote, SessionIndex(u32::MAX));
        let others = self.others.range(all).map(|(_, index)| *index);
        first.into_iter().chain(others)
    }

    /// A session sends to `remote`.
    pub(crate) fn add(&mut self, remote: RemoteTunnel, index: SessionIndex) {
        if *self.first.entry(remote).or_insert(index) != index {
            self.others.insert((remote, index));
        }
    }

    /// A session sends to `remote` no more; others may.
    pub(crate) fn remove(&mut self, remote: RemoteTunnel, index: SessionIndex) {
        if self.first.get(&remote) != Some(&index) {
            self.others.remove(&(remote, index));
            return;
        }
        let all = (remote, SessionIndex(0))..=(remote, SessionIndex(u32::MAX));
        match self.others.range(all).next().copied() {
            Some(next) => {
                self.others.remove(&next);
                self.first.insert(remote, next.1);
            }
            None => {
                self.first.remove(&remote);
            }
        }
    }
}
