//! Reassembly of the start of a stream from pieces with offsets, in blocks of a bounded pool.
//!
//! Pieces may come in any order, twice, and overlap. Where two pieces have the same octet, the first one stays; a later
//! one that differs makes the stream [`Refused::Ambiguous`], because its receiver may have taken either. What lies
//! behind the end of the block is cut off.
//!
//! The pool knows no owners: a caller that has to share it out counts with [`crate::shares::Shares`].

/// Octets of a stream that a block has room for.
pub const BLOCK_OCTETS: usize = 8192;
/// Separate pieces that a block keeps; adjacent ones become one.
pub const MOST_PIECES: usize = 32;

/// Why a piece is refused. The stream is of no more use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It has other octets where there are some.
    Ambiguous,
    /// It would be one of more than [`MOST_PIECES`] with gaps between them.
    TooManyPieces,
}

/// Where octets are, from `from` to before `to`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    from: u16,
    to: u16,
}

/// The pieces of a block: sorted, with gaps between them.
#[derive(Clone, Copy, Debug)]
struct Pieces {
    pieces: [Piece; MOST_PIECES],
    count: u8,
}

impl Pieces {
    const NONE: Pieces = Pieces {
        pieces: [Piece { from: 0, to: 0 }; MOST_PIECES],
        count: 0,
    };

    fn as_slice(&self) -> &[Piece] {
        self.pieces.get(..usize::from(self.count)).unwrap_or_default()
    }

    /// Adds `piece`, as one with those that it overlaps or touches.
    fn add(&mut self, piece: Piece) -> Result<(), Refused> {
        let old = self.as_slice();
        let len = old.len();
        let first = old.partition_point(|before| before.to < piece.from);
        let end = old.partition_point(|before| before.from <= piece.to);
        let joined = old.get(first..end).unwrap_or_default();
        if joined.is_empty() && len == MOST_PIECES {
            return Err(Refused::TooManyPieces);
        }
        let from = joined.first().map_or(piece.from, |one| one.from.min(piece.from));
        let to = joined.last().map_or(piece.to, |one| one.to.max(piece.to));
        self.pieces.copy_within(end..len, first + 1);
        self.pieces[first] = Piece { from, to };
        self.count = (len + 1 - (end - first)) as u8;
        Ok(())
    }

    /// Octets from the start of the stream without a gap.
    fn contiguous(&self) -> usize {
        match self.as_slice().first() {
            Some(Piece { from: 0, to }) => usize::from(*to),
            _ => 0,
        }
    }
}

/// A block that is taken. It is given back to the pool that it is of, once: it cannot be copied.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockIndex(u32);

impl BlockIndex {
    /// Which of the pool's blocks it is, from 0.
    pub fn place(&self) -> usize {
        self.0 as usize
    }
}

/// Blocks for the starts of streams, allocated once.
#[derive(Debug)]
pub struct BlockPool {
    octets: Box<[u8]>,
    pieces: Box<[Pieces]>,
    free: Vec<u32>,
}

impl BlockPool {
    /// A pool of `blocks` blocks of [`BLOCK_OCTETS`] octets and their pieces.
    pub fn new(blocks: u32) -> BlockPool {
        let count = blocks as usize;
        BlockPool {
            octets: vec![0; count * BLOCK_OCTETS].into(),
            pieces: vec![Pieces::NONE; count].into(),
            free: (0..blocks).rev().collect(),
        }
    }

    /// A block without octets, if one is free.
    pub fn take(&mut self) -> Option<BlockIndex> {
        let index = self.free.pop()?;
        if let Some(pieces) = self.pieces.get_mut(index as usize) {
            *pieces = Pieces::NONE;
        }
        Some(BlockIndex(index))
    }

    /// Gives a block back.
    pub fn give_back(&mut self, block: BlockIndex) {
        self.free.push(block.0);
    }

    /// Blocks that are free.
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Puts `piece` at `offset` of the stream in `block`; what lies beyond [`BLOCK_OCTETS`] is cut off.
    ///
    /// # Errors
    ///
    /// [`Refused`], and the block is as it was.
    pub fn insert(&mut self, block: &BlockIndex, offset: u64, piece: &[u8]) -> Result<(), Refused> {
        let from = usize::try_from(offset).unwrap_or(BLOCK_OCTETS).min(BLOCK_OCTETS);
        let to = from.saturating_add(piece.len()).min(BLOCK_OCTETS);
        let piece = piece.get(..to - from).unwrap_or_default();
        let Some((octets, pieces)) = self.block_mut(block) else {
            return Ok(());
        };
        if piece.is_empty() {
            return Ok(());
        }
        for there in pieces.as_slice() {
            let overlap = usize::from(there.from).max(from)..usize::from(there.to).min(to);
            let new = overlap.start.saturating_sub(from)..overlap.end.saturating_sub(from);
            if overlap.start < overlap.end && octets.get(overlap) != piece.get(new) {
                return Err(Refused::Ambiguous);
            }
        }
        pieces.add(Piece {
            from: from as u16,
            to: to as u16,
        })?;
        if let Some(octets) = octets.get_mut(from..to) {
            octets.copy_from_slice(piece);
        }
        Ok(())
    }

    /// The stream in `block` up to its first gap, at most [`BLOCK_OCTETS`].
    pub fn contiguous(&self, block: &BlockIndex) -> &[u8] {
        let start = block.0 as usize * BLOCK_OCTETS;
        let len = self.pieces.get(block.0 as usize).map_or(0, Pieces::contiguous);
        self.octets.get(start..start + len).unwrap_or_default()
    }

    fn block_mut(&mut self, block: &BlockIndex) -> Option<(&mut [u8], &mut Pieces)> {
        let start = block.0 as usize * BLOCK_OCTETS;
        let octets = self.octets.get_mut(start..start + BLOCK_OCTETS)?;
        Some((octets, self.pieces.get_mut(block.0 as usize)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn with_block(pieces: &[(u64, &[u8])]) -> (BlockPool, BlockIndex, Result<(), Refused>) {
        let mut pool = BlockPool::new(1);
        let block = pool.take().expect("a free block");
        let result = pieces
            .iter()
            .try_for_each(|(offset, piece)| pool.insert(&block, *offset, piece));
        (pool, block, result)
    }

    #[test]
    fn pieces_come_in_any_order() {
        let (pool, block, result) = with_block(&[(6, b"world"), (0, b"hello"), (5, b" "), (3, b"lo wo")]);
        assert_eq!(result, Ok(()));
        assert_eq!(pool.contiguous(&block), b"hello world");
    }

    #[test]
    fn a_stream_ends_at_its_first_gap() {
        let (pool, block, _) = with_block(&[(0, b"he"), (3, b"lo")]);
        assert_eq!(pool.contiguous(&block), b"he");
        let (pool, block, _) = with_block(&[(1, b"ello")]);
        assert_eq!(pool.contiguous(&block), b"");
    }

    #[test]
    fn other_octets_at_the_same_place_are_ambiguous_and_the_first_ones_stay() {
        let (pool, block, result) = with_block(&[(0, b"hello"), (4, b"0 world")]);
        assert_eq!(result, Err(Refused::Ambiguous));
        assert_eq!(pool.contiguous(&block), b"hello");
    }

    #[test]
    fn what_lies_behind_the_block_is_cut_off() {
        let long = [7; BLOCK_OCTETS];
        let (pool, block, result) = with_block(&[(1, &long), (0, &[7]), (u64::MAX, b"x"), (8192, b"y")]);
        assert_eq!(result, Ok(()));
        assert_eq!(pool.contiguous(&block).len(), BLOCK_OCTETS);
    }

    #[test]
    fn gaps_are_bounded() {
        let (mut pool, block, result) = with_block(&[]);
        assert_eq!(result, Ok(()));
        for gap in 0..MOST_PIECES as u64 {
            assert_eq!(pool.insert(&block, 2 * gap, b"x"), Ok(()));
        }
        assert_eq!(pool.insert(&block, 100, b"x"), Err(Refused::TooManyPieces));
        assert_eq!(pool.insert(&block, 1, b"x"), Ok(()));
        assert_eq!(pool.insert(&block, 100, b"x"), Ok(()));
        assert_eq!(pool.contiguous(&block), b"xxx");
    }

    #[test]
    fn a_block_that_is_taken_again_is_empty() {
        let (mut pool, block, _) = with_block(&[(0, b"hello")]);
        assert_eq!((pool.free(), pool.take()), (0, None));
        pool.give_back(block);
        let block = pool.take().expect("a free block");
        assert_eq!(pool.contiguous(&block), b"");
    }

    proptest! {
        #[test]
        fn octets_are_those_of_a_plain_array(
            stream in prop::collection::vec(any::<u8>(), 1..200),
            cuts in prop::collection::vec((0usize..200, 1usize..40), 1..40),
        ) {
            let (mut pool, block, _) = with_block(&[]);
            let mut seen = vec![false; stream.len()];
            for (at, len) in cuts {
                let from = at % stream.len();
                let to = (from + len).min(stream.len());
                if pool.insert(&block, from as u64, &stream[from..to]).is_ok() {
                    seen[from..to].fill(true);
                }
                let expected = seen.iter().take_while(|seen| **seen).count();
                prop_assert_eq!(pool.contiguous(&block), &stream[..expected]);
            }
        }
    }
}
