//! Sessions, one way each, in a fixed number of buckets: what is known of a bucket is known of all of its sessions.

use std::hash::BuildHasher;

use rules::classifier::Key;

/// Buckets; a power of two.
pub(super) const BUCKETS: usize = 1 << 16;

/// Which bucket the sessions of keys are in, by random numbers of this process.
#[derive(Default)]
pub(super) struct SessionBuckets(foldhash::quality::RandomState);

impl SessionBuckets {
    /// The bucket of the session, one way, that packets of a key are of: a whole key, or any that is cut from it.
    pub fn of(&self, key: &Key) -> usize {
        let hash = match key {
            Key::V4(key) if key.scope.is_tunnel() => self.0.hash_one((key.scope, key.teid)),
            Key::V4(key) => self.0.hash_one((key.scope, key.destination)),
            Key::V6(key) if key.scope.is_tunnel() => self.0.hash_one((key.scope, key.teid)),
            Key::V6(key) => self.0.hash_one((key.scope, key.destination.first_chunk::<8>())),
        };
        hash as usize % BUCKETS
    }
}
