//! How large a table is, and how it decides.

use core::fmt;

use crate::pools::Lifetimes;
#[cfg(doc)]
use crate::pools::{BLOCK_BITS, MOST_BLOCKS};

/// How large a table is, and how it decides.
#[derive(Clone)]
pub struct MappingsConfig {
    /// Mappings at a time, at most 2^30.
    pub mappings: usize,
    /// Sessions are numbers below this.
    pub sessions: usize,
    /// Blocks are numbers below this, which is at most [`MOST_BLOCKS`].
    pub blocks: u32,
    /// Blocks that the worker's sessions hold at a time.
    pub held_blocks: usize,
    /// Blocks have at most 2 to the power of this ports, one of [`BLOCK_BITS`].
    pub block_bits: u8,
    /// Addresses that mappings have sent to at a time beside the latest of each, where only those may send or are
    /// distinguished from others; at most 2^30. Without room for any, none are distinguished, and no mappings are made
    /// to which only those may send.
    pub remotes: usize,
    /// How long mappings live.
    pub lifetimes: Lifetimes,
    /// The key of all hashes: drawn at random, kept secret, and the same again where ports are to stay what they were.
    pub seed: u64,
}

impl fmt::Debug for MappingsConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All but the key.
        f.debug_struct("MappingsConfig")
            .field("mappings", &self.mappings)
            .field("sessions", &self.sessions)
            .field("blocks", &self.blocks)
            .field("held_blocks", &self.held_blocks)
            .field("block_bits", &self.block_bits)
            .field("remotes", &self.remotes)
            .field("lifetimes", &self.lifetimes)
            .finish_non_exhaustive()
    }
}
