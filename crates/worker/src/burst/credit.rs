//! Credit back: counts of a packet that is lost after `act` counted it.

use flow::Blocks;

use crate::burst::descriptor::{Descriptor, Kind};

/// Subtracts what a packet has counted in URRs and contents, since it does not leave.
#[cold]
pub(crate) fn credit_back(blocks: &mut Blocks, descriptor: &Descriptor) {
    let verdict = &descriptor.verdict;
    if !verdict.is_some() || descriptor.kind == Kind::Relayed {
        return;
    }
    let (direction, octets) = (verdict.direction(), descriptor.octets.into());
    blocks.uncount(verdict.block, verdict.generation, verdict.urrs, direction, octets);
    if verdict.content != 0 {
        let of = (verdict.block, verdict.generation);
        blocks.uncount_content(of.0, of.1, verdict.content, direction, octets);
    }
}
