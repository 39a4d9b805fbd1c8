//! Hash maps whose keys come from peers.

use std::sync::OnceLock;

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// A map hashed with a seed that peers do not know, so that no peer can aim at one chain. Seeded from the program's own
/// random stream, not from the environment, so that a run replays; nothing may depend on the order of iteration.
pub type Keyed<K, V> = hashbrown::HashMap<K, V, SeedableRandomState>;

/// An empty map with this seed.
pub fn keyed<K, V>(seed: u64) -> Keyed<K, V> {
    Keyed::with_hasher(hidden_hasher(seed))
}

/// The same with room for as many entries.
pub fn keyed_with_room<K, V>(entries: usize, seed: u64) -> Keyed<K, V> {
    Keyed::with_capacity_and_hasher(entries, hidden_hasher(seed))
}

/// A hasher with this seed. The seed that all hashers share is hidden as well, the first one's: with a known one there
/// are keys of which the hash is the same whatever the other seed is.
pub(crate) fn hidden_hasher(seed: u64) -> SeedableRandomState {
    static SHARED: OnceLock<SharedSeed> = OnceLock::new();
    SeedableRandomState::with_seed(seed, SHARED.get_or_init(|| SharedSeed::from_u64(seed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::BuildHasher;

    #[test]
    fn no_known_key_cancels_the_seed() {
        // The half of a key that makes the product of the fixed shared seed 0, in either order of its octets.
        for half in [0xdd50_7cc9_b729_acc0_u64, 0x1709_47b5_b5d5_843f] {
            for half in [half, half.swap_bytes()] {
                let hashes = [1, 2, 3].map(|seed| hidden_hasher(seed).hash_one(u128::from(half)));
                assert!(hashes[0] != hashes[1] && hashes[1] != hashes[2], "{hashes:x?}");
                let hasher = hidden_hasher(1);
                let hash = |high: u64| hasher.hash_one(u128::from(high) << 64 | u128::from(half));
                assert_ne!(hash(1), hash(2), "{half:x}");
            }
        }
    }
}
