//! Stage `lookup`: what was decided about this flow?
//!
//! Staged over the whole burst: hash all and prefetch their buckets, probe all and prefetch their entries, compare
//! and prefetch the session block's lines; then each entry's generation is compared with its block's. Afterwards a
//! packet has a verdict that is valid, or none.

pub(crate) mod extensions;
pub(crate) mod flow_tables;

use flow::{Blocks, Tick};

use crate::burst::descriptor::{Descriptor, Family, Keys, PacketFlags, PacketKey};
use crate::lookup::flow_tables::Flows;
use crate::stats::Stats;

/// Finds the verdicts of a burst. Bit n of the answer: that of the packet at index n was made under an older snapshot
/// of the rules that all sessions share.
pub(crate) fn lookup(
    flows: &mut Flows,
    blocks: &mut Blocks,
    stats: &mut Stats,
    descriptors: &mut [Descriptor],
    keys: &Keys,
    now: Tick,
) -> u64 {
    let soft = flows.lookup(descriptors, keys, blocks, now);
    let mut hits = 0;
    for (index, descriptor) in descriptors.iter_mut().enumerate() {
        if !descriptor.is_open() || descriptor.family == Family::None {
            continue;
        }
        let verdict = &mut descriptor.verdict;
        if !verdict.is_some() {
            stats.misses += 1;
        } else if blocks.is_live(verdict.block, verdict.generation, verdict.direction()) {
            hits += 1;
            if verdict.content != 0 {
                blocks.prefetch_content(verdict.block, verdict.content);
            }
        } else {
            stats.stale += 1;
            verdict.generation = 0;
            descriptor.flags = descriptor.flags.and(PacketFlags::STALE);
            // It would hide the narrower entry that may take its place.
            flows.remove_dead(PacketKey { index, keys }, descriptor);
        }
    }
    stats.hits += hits;
    soft
}
