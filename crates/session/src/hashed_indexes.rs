//! Sessions by a key that each of them has itself: of the key only a hash is kept.
//!
//! There are very many sessions, and a key of theirs, such as a peer's tunnel endpoint, takes several times the room of
//! a hash and an index. Whether a session with the hash has the key is the session's to say.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use flow::SessionIndex;
use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::keyed_map::hidden_hasher;

/// A hash of a key, with a seed that peers do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KeyHash(u32);

impl KeyHash {
    /// For a table: it takes the place from the low bits and a tag from the high ones.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    hash: KeyHash,
    index: SessionIndex,
}

/// One session for each key.
#[derive(Debug)]
pub(crate) struct HashedIndexes<K> {
    entries: HashTable<Entry>,
    hasher: SeedableRandomState,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash> HashedIndexes<K> {
    /// None. The seed is that of the hashes.
    pub(crate) fn new(seed: u64) -> HashedIndexes<K> {
        HashedIndexes {
            entries: HashTable::new(),
            hasher: hidden_hasher(seed),
            keys: PhantomData,
        }
    }

    /// The hash of a key.
    pub(crate) fn hash(&self, key: &K) -> KeyHash {
        KeyHash(self.hasher.hash_one(key) as u32)
    }

    /// The session with this hash that `has_key` is true of.
    pub(crate) fn find(&self, hash: KeyHash, has_key: impl Fn(SessionIndex) -> bool) -> Option<SessionIndex> {
        let is_it = |entry: &Entry| entry.hash == hash && has_key(entry.index);
        self.entries.find(hash.spread(), is_it).map(|entry| entry.index)
    }

    /// Enters a session in the place of the one with this hash that `has_key` is true of.
    pub(crate) fn replace(
        &mut self,
        hash: KeyHash,
        index: SessionIndex,
        has_key: impl Fn(SessionIndex) -> bool,
    ) {
        let is_it = |entry: &Entry| entry.hash == hash && has_key(entry.index);
        match self
            .entries
            .entry(hash.spread(), is_it, |entry| entry.hash.spread())
        {
            TableEntry::Occupied(mut known) => known.get_mut().index = index,
            TableEntry::Vacant(place) => {
                place.insert(Entry { hash, index });
            }
        }
    }

    /// Removes this session, if it is entered with this hash. Answers whether it was.
    pub(crate) fn remove(&mut self, hash: KeyHash, index: SessionIndex) -> bool {
        let is_it = |entry: &Entry| (entry.hash, entry.index) == (hash, index);
        match self.entries.find_entry(hash.spread(), is_it) {
            Ok(known) => {
                known.remove();
                true
            }
            Err(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[derive(Clone, Copy, Debug)]
    enum Edit {
        Enter(u8, u32),
        Remove(u8, u32),
    }

    fn any_edit() -> impl Strategy<Value = Edit> {
        (any::<bool>(), 0..40_u8, 0..40_u32).prop_map(|(enters, key, index)| match enters {
            true => Edit::Enter(key, index),
            false => Edit::Remove(key, index),
        })
    }

    proptest! {
        /// Every session says which key it has; keys of equal hashes are distinguished by that.
        #[test]
        fn it_is_a_map(seed: u64, edits in proptest::collection::vec(any_edit(), 0..300), alike: bool) {
            let mut indexes: HashedIndexes<u8> = HashedIndexes::new(seed);
            let (mut model, mut keys) = (BTreeMap::new(), BTreeMap::new());
            let hash = |indexes: &HashedIndexes<u8>, key: u8| indexes.hash(if alike { &0 } else { &key });
            for edit in edits {
                match edit {
                    Edit::Enter(key, index) if !keys.contains_key(&index) => {
                        let of = hash(&indexes, key);
                        indexes.replace(of, SessionIndex(index), |one| keys.get(&one.0) == Some(&key));
                        if let Some(before) = model.insert(key, index) {
                            keys.remove(&before);
                        }
                        keys.insert(index, key);
                    }
                    Edit::Enter(..) => {}
                    Edit::Remove(key, index) => {
                        let was = model.get(&key) == Some(&index);
                        let of = hash(&indexes, key);
                        // With one hash for all it is the session's own key that counts.
                        if !alike || was {
                            prop_assert_eq!(indexes.remove(of, SessionIndex(index)), was);
                        }
                        if was {
                            model.remove(&key);
                            keys.remove(&index);
                        }
                    }
                }
            }
            for key in 0..40 {
                let found = indexes.find(hash(&indexes, key), |one| keys.get(&one.0) == Some(&key));
                prop_assert_eq!(found.map(|index| index.0), model.get(&key).copied());
            }
        }
    }
}
