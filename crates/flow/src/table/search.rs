//! Making room: a breadth-first search for the shortest chain of moves that frees a slot in one of two buckets.

use super::bucket_line::BucketLine;
use super::cuckoo::CandidateBuckets;
use crate::lanes::TAGS as SLOTS;
use crate::prefetch;
use crate::slab::Slab;

/// Buckets that one insert looks at, at most.
pub(super) const MAX_SEARCHED: usize = 256;
/// Entries that one insert moves, at most: 2 + 16 + 128 buckets are within two moves, and a third reaches the rest.
pub(super) const MAX_MOVES: usize = 3;

/// A bucket that was reached by moving what is in `slot` of the bucket of node `parent`.
#[derive(Clone, Copy, Default)]
struct Node {
    bucket: u32,
    parent: u16,
    slot: u8,
    moves: u8,
}

/// The nodes reached so far, in the order of the number of moves. It is kept from search to search: nothing is left of
/// the last one but its memory.
pub(super) struct Search {
    nodes: [Node; MAX_SEARCHED],
    len: usize,
    /// The moves of the last chain that was carried out.
    moved: [Moved; MAX_MOVES],
    moved_len: usize,
}

/// A slot's content that was moved.
#[derive(Clone, Copy, Default)]
pub(super) struct Moved {
    pub from: u32,
    pub to: u32,
    /// It is in the other bucket of its key now; else in the first one again.
    pub is_displaced: bool,
}

/// A slot that was freed.
pub(super) struct FreedSlot {
    pub bucket: u32,
    pub slot: usize,
    /// Slots that were moved to free it.
    pub moves: usize,
}

/// Frees a slot in one of the buckets `first` by moving slots to their other buckets. `None` when the bounds of the
/// search are reached.
///
/// The other buckets of a bucket's slots are examined before the next bucket of the same number of moves is expanded:
/// most searches end there.
pub(super) fn make_room(
    search: &mut Search,
    buckets: &mut Slab<BucketLine>,
    candidates: CandidateBuckets,
    first: [u32; 2],
) -> Option<FreedSlot> {
    (search.len, search.moved_len) = (0, 0);
    for bucket in first {
        search.push(
            buckets,
            Node {
                bucket,
                ..Node::default()
            },
        );
    }
    let (mut at, mut looked_at) = (0, 0);
    loop {
        while looked_at < search.len {
            let line = buckets.get(search.nodes[looked_at].bucket as usize)?;
            if let Some(slot) = line.free_slot() {
                return search.carry_out(buckets, looked_at, slot);
            }
            looked_at += 1;
        }
        if at == search.len {
            return None;
        }
        if usize::from(search.nodes[at].moves) < MAX_MOVES {
            search.expand(buckets, candidates, at);
        }
        at += 1;
    }
}

/// Asks for the buckets that a search from `bucket` looks at first.
pub(super) fn prefetch(buckets: &Slab<BucketLine>, candidates: CandidateBuckets, bucket: u32) {
    let Some(line) = buckets.get(bucket as usize) else {
        return;
    };
    for slot in 0..SLOTS {
        prefetch::nth(buckets, candidates.other(bucket, line.slot(slot).tag) as usize);
    }
}

impl Search {
    pub(super) fn new() -> Self {
        Self {
            nodes: [Node::default(); MAX_SEARCHED],
            len: 0,
            moved: [Moved::default(); MAX_MOVES],
            moved_len: 0,
        }
    }

    /// What the last search has moved.
    pub(super) fn moved(&self) -> &[Moved] {
        self.moved.get(..self.moved_len).unwrap_or_default()
    }

    /// Adds the other buckets of everything in the bucket of node `at`.
    fn expand(&mut self, buckets: &Slab<BucketLine>, candidates: CandidateBuckets, at: usize) {
        let Node { bucket, moves, .. } = self.nodes[at];
        for slot in 0..SLOTS {
            let other = candidates.other(bucket, buckets[bucket as usize].slot(slot).tag);
            if !self.is_on_path(at, other) {
                self.push(
                    buckets,
                    Node {
                        bucket: other,
                        parent: at as u16,
                        slot: slot as u8,
                        moves: moves + 1,
                    },
                );
            }
        }
    }

    fn push(&mut self, buckets: &Slab<BucketLine>, node: Node) {
        if let Some(free) = self.nodes.get_mut(self.len) {
            if let Some(line) = buckets.get(node.bucket as usize) {
                prefetch::read(line);
            }
            *free = node;
            self.len += 1;
        }
    }

    /// Whether the chain of moves to node `at` passes `bucket`: each move must find what the search saw.
    fn is_on_path(&self, mut at: usize, bucket: u32) -> bool {
        loop {
            let node = self.nodes[at];
            if node.bucket == bucket {
                return true;
            }
            if node.moves == 0 {
                return false;
            }
            at = usize::from(node.parent);
        }
    }

    /// Moves from the end of the chain to its start, so that no entry is ever missing from the table.
    fn carry_out(
        &mut self,
        buckets: &mut Slab<BucketLine>,
        mut at: usize,
        mut free: usize,
    ) -> Option<FreedSlot> {
        let moves = usize::from(self.nodes[at].moves);
        while self.nodes[at].moves > 0 {
            let Node {
                bucket, parent, slot, ..
            } = self.nodes[at];
            let from = self.nodes[usize::from(parent)].bucket;
            let mut moved = buckets.get(from as usize)?.slot(slot.into());
            moved.is_displaced = !moved.is_displaced;
            buckets.get_mut(bucket as usize)?.set(free, moved);
            buckets.get_mut(from as usize)?.clear(slot.into());
            if let Some(noted) = self.moved.get_mut(self.moved_len) {
                *noted = Moved {
                    from,
                    to: bucket,
                    is_displaced: moved.is_displaced,
                };
                self.moved_len += 1;
            }
            (at, free) = (usize::from(parent), slot.into());
        }
        Some(FreedSlot {
            bucket: self.nodes[at].bucket,
            slot: free,
            moves,
        })
    }
}
