//! Stage `lookup`: what was decided about this flow?
//!
//! Staged over the whole burst: hash all and prefetch their buckets, probe all and prefetch their entries, compare
//! and prefetch the session block's lines; then each entry's generation is compared with its block's. Afterwards a
//! packet has a verdict that is valid, or none.

pub(crate) mod flow_tables;
pub(crate) mod validity;

use flow::{Blocks, Tick};

use crate::burst::batch::BURST;
use crate::burst::descriptor::{Descriptor, Family, Keys, PacketFlags, PacketKey};
use crate::lookup::flow_tables::{Flows, SoftHits};
use crate::stats::Stats;

/// Finds the verdicts of a burst.
pub(crate) fn lookup(
    flows: &mut Flows,
    blocks: &mut Blocks,
    stats: &mut Stats,
    descriptors: &mut [Descriptor],
    keys: &Keys,
    now: Tick,
) -> SoftHits {
    let soft = flows.lookup(descriptors, keys, blocks, now);
    let (mut hits, mut counting) = (0, 0u64);
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
                blocks.prefetch_content_place(verdict.block, verdict.direction());
                counting |= 1 << (index % BURST);
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
    if counting != 0 {
        prefetch_contents(blocks, descriptors, counting);
    }
    soft
}

/// Asks for the content counters of these packets of a burst: bit n is the one at index n.
fn prefetch_contents(blocks: &Blocks, descriptors: &[Descriptor], counting: u64) {
    for (index, Descriptor { verdict, .. }) in descriptors.iter().enumerate() {
        if counting >> (index % BURST) & 1 == 1 {
            blocks.prefetch_content(verdict.block, verdict.direction(), verdict.content);
        }
    }
}
