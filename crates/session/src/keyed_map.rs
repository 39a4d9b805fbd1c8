//! Hash maps whose keys come from peers.

use foldhash::SharedSeed;
use foldhash::fast::SeedableRandomState;

/// A map hashed with a seed that peers do not know, so that no peer can aim at one chain. Seeded from the program's own
/// random stream, not from the environment, so that a run replays; nothing may depend on the order of iteration.
pub type Keyed<K, V> = hashbrown::HashMap<K, V, SeedableRandomState>;

/// An empty map with this seed.
pub fn keyed<K, V>(seed: u64) -> Keyed<K, V> {
    Keyed::with_hasher(SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()))
}
