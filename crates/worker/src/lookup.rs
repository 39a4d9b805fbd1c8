//! Stage `lookup`: what was decided about this flow?
//!
//! Staged over the whole burst: hash all and prefetch their buckets, probe all and prefetch their entries, compare
//! and prefetch the session block's lines; then each entry's generation is compared with its block's. Afterwards a
//! packet has a verdict that is valid, or none.

use flow::{Blocks, Tick};

use crate::descriptor::Descriptor;
use crate::flows::Flows;
use crate::stats::Stats;

/// Finds the verdicts of a burst.
pub(crate) fn lookup(
    flows: &mut Flows,
    blocks: &mut Blocks,
    stats: &mut Stats,
    descriptors: &mut [Descriptor],
    now: Tick,
) {
    flows.lookup(descriptors, blocks, now);
    for descriptor in descriptors.iter_mut().filter(|descriptor| {
        descriptor.is_open() && descriptor.tuple.is_some() && descriptor.defect.is_none()
    }) {
        let Some(verdict) = &descriptor.verdict else {
            stats.misses += 1;
            continue;
        };
        if blocks
            .live_at(verdict.block, verdict.generation, verdict.direction())
            .is_some()
        {
            stats.hits += 1;
            continue;
        }
        stats.stale += 1;
        descriptor.verdict = None;
        // It would hide the narrower entry that may take its place.
        if let Some(view) = descriptor.view() {
            flows.remove(descriptor.shape, &view);
        }
    }
}
