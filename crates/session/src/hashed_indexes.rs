//! Sessions by a key that each of them has itself: of the key only a hash is kept.
//!
//! There are very many sessions, and a key of theirs, such as a peer's tunnel endpoint, takes several times the room of
//! a hash and an index. Whether a session with the hash has the key is the session's to say.
//!
//! What an index is, is the caller's: a [`SessionIndex`](flow::SessionIndex), or the place in a list.

use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;

use foldhash::fast::SeedableRandomState;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry as TableEntry;

use crate::bucket_order::in_bucket_order;
use crate::keyed_map::hidden_hasher;

/// A hash of a key, with a seed that peers do not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct KeyHash(u32);

impl KeyHash {
    /// For a table: it takes the place from the low bits and a tag from the high ones.
    fn spread(self) -> u64 {
        u64::from(self.0) << 32 | u64::from(self.0)
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry<I> {
    hash: KeyHash,
    index: I,
}

/// One session for each key.
#[derive(Debug)]
pub struct HashedIndexes<K, I> {
    entries: HashTable<Entry<I>>,
    hasher: SeedableRandomState,
    keys: PhantomData<fn(&K)>,
}

impl<K: Hash, I: Copy + PartialEq> HashedIndexes<K, I> {
    /// None. The seed is that of the hashes.
    pub fn new(seed: u64) -> Self {
        HashedIndexes {
            entries: HashTable::new(),
            hasher: hidden_hasher(seed),
            keys: PhantomData,
        }
    }

    /// The hash of a key.
    pub fn hash(&self, key: &K) -> KeyHash {
        KeyHash(self.hasher.hash_one(key) as u32)
    }

    /// The session with this hash that `has_key` is true of.
    pub fn find(&self, hash: KeyHash, has_key: impl Fn(I) -> bool) -> Option<I> {
        let is_it = |entry: &Entry<I>| entry.hash == hash && has_key(entry.index);
        self.entries.find(hash.spread(), is_it).map(|entry| entry.index)
    }

    /// Enters a session in the place of the one with this hash that `has_key` is true of.
    pub fn replace(&mut self, hash: KeyHash, index: I, has_key: impl Fn(I) -> bool) {
        let is_it = |entry: &Entry<I>| entry.hash == hash && has_key(entry.index);
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

    /// Enters very many sessions with a key each, in the place of the one before it that `has_key` is true of with the
    /// same key. In the order of their places in the table: it takes a tenth of the time that it takes one by one.
    pub fn replace_all<'k>(
        &mut self,
        sessions: impl Iterator<Item = (&'k K, I)>,
        has_key: impl Fn(I, &K) -> bool,
    ) where
        K: 'k,
    {
        let sessions: Vec<_> = sessions
            .map(|(key, index)| (self.hash(key), index, key))
            .collect();
        self.entries
            .reserve(sessions.len(), |entry: &Entry<I>| entry.hash.spread());
        let ordered = in_bucket_order(&sessions, self.entries.capacity(), |(hash, ..)| hash.spread());
        for (hash, index, key) in ordered {
            self.replace(hash, index, |before| has_key(before, key));
        }
    }

    /// Removes this session, if it is entered with this hash. Answers whether it was.
    pub fn remove(&mut self, hash: KeyHash, index: I) -> bool {
        let is_it = |entry: &Entry<I>| (entry.hash, entry.index) == (hash, index);
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
    use flow::SessionIndex;
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
        /// Sessions that are entered at once are found as those that are entered one by one.
        #[test]
        fn all_at_once_are_the_same(
            seed: u64,
            before in proptest::collection::vec(0..60_u16, 0..40),
            keys in proptest::collection::vec(0..400_u16, 0..900),
        ) {
            let all: Vec<u16> = before.iter().chain(&keys).copied().collect();
            let has_key = |index: usize, key: &u16| all[index] == *key;
            let (mut one_by_one, mut at_once) = (HashedIndexes::new(seed), HashedIndexes::new(seed));
            for (index, key) in all.iter().enumerate() {
                one_by_one.replace(one_by_one.hash(key), index, |other| has_key(other, key));
            }
            let entries: Vec<(&u16, usize)> = all.iter().zip(0..).collect();
            let (first, others) = entries.split_at(before.len());
            at_once.replace_all(first.iter().copied(), has_key);
            at_once.replace_all(others.iter().copied(), has_key);
            for key in 0..400 {
                let found = |indexes: &HashedIndexes<u16, usize>| {
                    indexes.find(indexes.hash(&key), |index| has_key(index, &key))
                };
                prop_assert_eq!(found(&at_once), found(&one_by_one));
            }
        }

        /// Every session says which key it has; keys of equal hashes are distinguished by that.
        #[test]
        fn it_is_a_map(seed: u64, edits in proptest::collection::vec(any_edit(), 0..300), alike: bool) {
            let mut indexes: HashedIndexes<u8, SessionIndex> = HashedIndexes::new(seed);
            let (mut model, mut keys) = (BTreeMap::new(), BTreeMap::new());
            let hash = |indexes: &HashedIndexes<u8, SessionIndex>, key: u8| indexes.hash(if alike { &0 } else { &key });
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
