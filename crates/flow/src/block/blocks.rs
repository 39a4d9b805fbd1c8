//! `Blocks`: a worker's slab of session blocks.

use core::fmt;
use core::ops::Range;

use super::allocator::LineAllocator;
use super::bounds::LookEvery;
use super::content_counters::ContentCounters;
use super::forwards::PackedForward;
use super::group_totals::{SessionGroupId, SessionGroupTotals};
use super::layout::{Counts, HEAD, INLINE_URRS, read_line_at, write_line_at};
use super::lines::{Line, ReadLine};
use super::live::forward_of;
use super::write::{Identity, write_block};
use super::{BlockImage, BlockRef, LiveBlock, SessionBlock};
use crate::slab::{OutOfMemory, Slab};
use crate::{Direction, FlowEntry, Forward, SessionIndex, prefetch};

// `Blocks::prefetch` compares both with the same number.
const _: () = assert!(HEAD == 1 << INLINE_URRS);

/// The bit that every generation has, and no first word of a line that is not a live read line.
const ALIVE: u32 = 1 << 31;

/// A worker's session blocks. Nothing is allocated from the system after [`new`](Self::new).
///
/// Every installed block gets a *generation* that no other block of the slab had before; flow entries hold it, so that
/// an entry whose block is gone, or was decided anew, is recognised by one comparison. There are 2^31 - 1 of them;
/// then they start over. An entry could then be taken for valid only if it named the same line, got the same number
/// a whole cycle ago, and saw no packet since: aging removes it after 4.9 hours at most, in which a cycle would take
/// 120,000 installs a second.
pub struct Blocks {
    pub(super) lines: Slab<Line>,
    pub(super) allocator: LineAllocator,
    pub(super) contents: ContentCounters,
    pub(super) every: LookEvery,
    groups: SessionGroupTotals,
    generation: u32,
    cycles: u32,
    len: usize,
}

/// Where a block is, and the generation to put into the flow entries that name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installed {
    /// The block.
    pub block: BlockRef,
    /// Its generation.
    pub generation: u32,
}

/// Why a block is not installed or replaced. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockError {
    /// No room for a block of this many lines.
    Full {
        /// 64 octets each.
        lines: usize,
    },
    /// The image has more objects than a block may have, or the session has an index beyond 2^23.
    OutOfBounds,
    /// The block that is to be replaced does not exist.
    Dead,
}

impl fmt::Display for BlockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { lines } => write!(f, "no room for a session block of {lines} lines"),
            Self::OutOfBounds => f.write_str("a session block has at most 250 forwards, 64 QERs and 64 URRs"),
            Self::Dead => f.write_str("there is no such session block"),
        }
    }
}

impl core::error::Error for BlockError {}

/// What becomes of the flow entries of a block that is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flows {
    /// Packets are classified as before: entries stay valid, unless the block has to move to grow or shrink.
    Keep,
    /// All entries become invalid at the next packet.
    Revoke,
}

impl Blocks {
    /// Lines of a block with up to 4 FARs, 4 QERs of which 2 have meters, and 2 URRs with bounds.
    pub const TYPICAL_LINES: usize = 12;

    /// The same with one counter more: its line, and that of its bounds.
    pub const TYPICAL_LINES_WITH_COUNTER: usize = Self::TYPICAL_LINES + 2;

    /// Room for `sessions` blocks of `lines` lines each (64 octets a line), or as much of other lengths.
    ///
    /// # Errors
    ///
    /// When the memory cannot be had, or there would be more than 2^32 lines.
    pub fn new(sessions: usize, lines: usize) -> Result<Self, OutOfMemory> {
        let count = LineAllocator::lines_for(sessions, lines);
        if u32::try_from(count).is_err() {
            return Err(OutOfMemory {
                octets: count.saturating_mul(64),
            });
        }
        let allocator = LineAllocator::new(count);
        Ok(Self {
            lines: Slab::new(count)?,
            allocator,
            contents: ContentCounters::none()?,
            every: LookEvery::NEVER,
            groups: SessionGroupTotals::new(),
            generation: ALIVE,
            cycles: 0,
            len: 0,
        })
    }

    /// How many blocks there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no block.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How often the generations have started over.
    pub const fn generation_cycles(&self) -> u32 {
        self.cycles
    }

    /// Blocks that are there. Counts them, which is for views and not for a packet's way.
    pub fn in_use(&self) -> usize {
        self.allocator.in_use()
    }

    /// The addresses of the blocks and of the content counters.
    pub fn areas(&self) -> [Range<usize>; 2] {
        [self.lines.area(), self.contents.area()]
    }

    /// What was forwarded of each session group.
    pub const fn groups(&self) -> &SessionGroupTotals {
        &self.groups
    }

    /// The same, to count in.
    #[inline(always)]
    pub const fn groups_mut(&mut self) -> &mut SessionGroupTotals {
        &mut self.groups
    }

    /// The group of the session whose block this is; `None` without one.
    pub fn group(&self, block: BlockRef) -> Option<SessionGroupId> {
        Some(self.get(block)?.group())
    }

    /// Adds the block of a session, with all counts zero and all meters full.
    ///
    /// # Errors
    ///
    /// [`BlockError::Full`], [`BlockError::OutOfBounds`].
    pub fn install(&mut self, session: SessionIndex, image: &BlockImage) -> Result<Installed, BlockError> {
        let counts = self.counts_of(image)?;
        if session.0 >= ReadLine::SESSIONS {
            return Err(BlockError::OutOfBounds);
        }
        let lines = counts.lines();
        let block = BlockRef(self.allocator.allocate(lines).ok_or(BlockError::Full { lines })?);
        let generation = self.next_generation();
        self.len += 1;
        let identity = Identity { session, generation };
        self.write(block, identity, counts, image);
        Ok(Installed { block, generation })
    }

    /// Makes the flow entries of a block invalid at the next packet, and changes nothing else.
    ///
    /// # Errors
    ///
    /// [`BlockError::Dead`].
    pub fn revoke(&mut self, block: BlockRef) -> Result<Installed, BlockError> {
        self.get(block).ok_or(BlockError::Dead)?;
        let generation = self.next_generation();
        self.change_read_lines(block, |read_line, _| read_line.generation = generation);
        Ok(Installed { block, generation })
    }

    /// Removes a block: its flow entries are stale from now on. Its final counts are to be read before. Returns whether
    /// there was such a block.
    pub fn remove(&mut self, block: BlockRef) -> bool {
        if self.get(block).is_none() {
            return false;
        }
        for direction in Direction::BOTH {
            if let Some(read_line) = self.read_line_mut(block, direction) {
                *read_line = ReadLine::default();
            }
        }
        self.allocator.free(block.0);
        self.len -= 1;
        true
    }

    /// A block to read; `None` when there is none.
    pub fn get(&self, block: BlockRef) -> Option<SessionBlock<'_>> {
        SessionBlock::new(self.lines.get(block.0 as usize..)?)
    }

    /// The block that `entry` names, for a packet of the entry's direction; `None` when the entry is stale.
    #[inline(always)]
    pub fn live<K>(&mut self, entry: &FlowEntry<K>) -> Option<LiveBlock<'_>> {
        self.live_at(
            entry.verdict.block,
            entry.verdict.generation,
            entry.verdict.direction(),
        )
    }

    /// As [`live`](Self::live), for callers that keep of an entry only what names its block.
    #[inline(always)]
    pub fn live_at(
        &mut self,
        block: BlockRef,
        generation: u32,
        direction: Direction,
    ) -> Option<LiveBlock<'_>> {
        let lines = self.lines.get_mut(block.0 as usize..)?;
        LiveBlock::new(lines, generation, direction)
    }

    /// The session of a block, and its forward in `slot`, from the line that packets of the direction need anyway;
    /// `None` without a block.
    #[inline(always)]
    pub fn session_and_forward(
        &self,
        block: BlockRef,
        slot: u8,
        direction: Direction,
    ) -> Option<(SessionIndex, PackedForward)> {
        let (head, objects) = self.lines.get(block.0 as usize..)?.split_first_chunk::<HEAD>()?;
        let read_line = head[read_line_at(direction)].read_line();
        let is_live = read_line.generation & ALIVE != 0;
        is_live.then(|| (read_line.session(), forward_of(read_line, objects, slot)))
    }

    /// The session of a block, from the line that packets of the direction need anyway; `None` without a block.
    #[inline(always)]
    pub fn session_in(&self, block: BlockRef, direction: Direction) -> Option<SessionIndex> {
        let line = (block.0 as usize).wrapping_add(read_line_at(direction));
        let read_line = self.lines.get(line)?.read_line();
        (read_line.generation & ALIVE != 0).then(|| read_line.session())
    }

    /// The group of the session of a block, from the line that packets of the direction need anyway; `None` without a
    /// block.
    #[inline]
    pub fn group_in(&self, block: BlockRef, direction: Direction) -> Option<SessionGroupId> {
        let line = (block.0 as usize).wrapping_add(read_line_at(direction));
        let read_line = self.lines.get(line)?.read_line();
        (read_line.generation & ALIVE != 0).then(|| read_line.group())
    }

    /// Whether a flow entry that names this block and generation is valid.
    #[inline(always)]
    pub fn is_live(&self, block: BlockRef, generation: u32, direction: Direction) -> bool {
        let line = (block.0 as usize).wrapping_add(read_line_at(direction));
        let read_line = self.lines.get(line).map(Line::read_line);
        read_line.is_some_and(|read_line| read_line.generation == generation && generation != 0)
    }

    /// Asks for the lines that a packet of `entry` will need.
    #[inline(always)]
    pub fn prefetch<K>(&self, entry: &FlowEntry<K>) {
        let first = entry.verdict.block.0 as usize;
        let direction = entry.verdict.direction();
        prefetch::nth(&self.lines, first + read_line_at(direction));
        let written = entry.verdict.urrs | u64::from(entry.verdict.meters);
        if written != 0 {
            prefetch::nth_to_write(&self.lines, first + write_line_at(direction));
            // Slots of URRs and numbers of lines: what is in write lines is below.
            if written >= HEAD as u64 {
                self.prefetch_further(first, entry.verdict.urrs, entry.verdict.meters);
            }
        }
    }

    /// Asks for the lines of counters and meters that are not in write lines.
    #[inline(always)]
    fn prefetch_further(&self, first: usize, urrs: u64, meters: u8) {
        let further = urrs >> INLINE_URRS;
        if further != 0 {
            let line = Counts::COUNTERS_AT + further.trailing_zeros() as usize / 2;
            prefetch::nth_to_write(&self.lines, first + line);
        }
        if usize::from(meters) >= HEAD {
            prefetch::nth_to_write(&self.lines, first + usize::from(meters));
        }
    }

    /// As [`SessionBlock::meters_hint`], from the line that packets of the direction need anyway; 0 without a block.
    #[inline]
    pub fn meters_hint(&self, block: BlockRef, qers: u64, direction: Direction) -> u8 {
        let line = (block.0 as usize).wrapping_add(read_line_at(direction));
        let read_line = self.lines.get(line).map(Line::read_line);
        read_line.map_or(0, |read_line| read_line.counts.meters_hint(qers, direction))
    }

    /// Asks for the line of a block that packets of a direction begin with.
    #[inline]
    pub fn prefetch_read_line(&self, block: BlockRef, direction: Direction) {
        prefetch::nth(
            &self.lines,
            (block.0 as usize).wrapping_add(read_line_at(direction)),
        );
    }

    /// Asks for another line of the block that `entry` names.
    #[inline(always)]
    pub(crate) fn prefetch_line<K>(&self, entry: &FlowEntry<K>, line: usize) {
        prefetch::nth(&self.lines, entry.verdict.block.0 as usize + line);
    }

    /// Changes one forward. Returns whether there is such a block and slot.
    pub fn set_forward(&mut self, block: BlockRef, slot: u8, forward: &Forward) -> bool {
        let Some(counts) = self.get(block).map(|block| block.counts()) else {
            return false;
        };
        if slot >= counts.forwards {
            return false;
        }
        let line = block.0 as usize + counts.forwards_at() + usize::from(slot);
        self.lines[line] = Line::of_forward(forward);
        for direction in Direction::BOTH {
            match self.read_line_mut(block, direction) {
                Some(read_line) if read_line.inline_slot == slot => {
                    read_line.inline = PackedForward::from(forward)
                }
                _ => {}
            }
        }
        true
    }

    /// Opens and closes gates: bit n is the QER in slot n. Returns whether there is such a block.
    pub fn set_closed(&mut self, block: BlockRef, closed_ul: u64, closed_dl: u64) -> bool {
        self.change_read_lines(block, |read_line, direction| {
            read_line.closed = [closed_ul, closed_dl][direction as usize];
        })
    }

    /// Writes all lines of a block, counts zero and meters full.
    pub(super) fn write(&mut self, block: BlockRef, identity: Identity, counts: Counts, image: &BlockImage) {
        let every = self.every;
        if let Some(lines) = self.lines_mut(block, 0..counts.lines()) {
            write_block(lines, identity, counts, (image, every));
        }
    }

    /// How many of each object the block of an image has.
    pub(super) fn counts_of(&self, image: &BlockImage) -> Result<Counts, BlockError> {
        let counts = Counts::of(image).ok_or(BlockError::OutOfBounds)?;
        Ok(counts.bounded_if(!self.every.is_never()))
    }

    /// Some of the lines of a block that exists.
    pub(super) fn lines_mut(&mut self, block: BlockRef, range: Range<usize>) -> Option<&mut [Line]> {
        self.lines.get_mut(block.0 as usize..)?.get_mut(range)
    }

    /// Changes both read lines of a block; returns whether there is one.
    pub(super) fn change_read_lines(
        &mut self,
        block: BlockRef,
        mut change: impl FnMut(&mut ReadLine, Direction),
    ) -> bool {
        if self.get(block).is_none() {
            return false;
        }
        for direction in Direction::BOTH {
            if let Some(read_line) = self.read_line_mut(block, direction) {
                change(read_line, direction);
            }
        }
        true
    }

    fn read_line_mut(&mut self, block: BlockRef, direction: Direction) -> Option<&mut ReadLine> {
        self.lines
            .get_mut(block.0 as usize + read_line_at(direction))
            .map(Line::read_line_mut)
    }

    pub(super) fn next_generation(&mut self) -> u32 {
        let next = self.generation.wrapping_add(1) | ALIVE;
        if next == ALIVE {
            self.cycles = self.cycles.wrapping_add(1);
        }
        self.generation = next.max(ALIVE + 1);
        self.generation
    }
}

impl fmt::Debug for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocks")
            .field("len", &self.len)
            .field("lines", &self.lines.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::super::layout::write_line_at;
    use super::*;
    use crate::meter::{MeterSpec, Offer, Rate, SharedMeters};
    use crate::{Counted, Millisecond, Nanos};

    /// The lines of a block, counted from its start, that a downlink packet of `qers` and `urrs` writes which is not
    /// the first of its millisecond.
    fn written(image: &BlockImage, qers: u64, urrs: u64) -> Vec<usize> {
        let mut blocks = Blocks::new(1, Blocks::TYPICAL_LINES).unwrap();
        let Installed { block, generation } = blocks.install(SessionIndex(0), image).unwrap();
        let mut shared = SharedMeters::new(0);
        let mut pass = |blocks: &mut Blocks, now| {
            let mut live = blocks.live_at(block, generation, Direction::Downlink).unwrap();
            assert!(live.meter(qers, &Offer::new(1000, now), &mut shared).is_ok());
            assert_eq!(live.count(urrs, 1000, Millisecond::of(now)), Counted::PASSED);
        };
        pass(&mut blocks, Nanos(5));
        let octets = |blocks: &Blocks| blocks.lines.iter().map(|line| line.as_bytes().to_vec()).collect();
        let before: Vec<_> = octets(&blocks);
        pass(&mut blocks, Nanos(6));
        let after: Vec<_> = octets(&blocks);
        let start = block.0 as usize;
        (start..before.len())
            .filter(|&line| before[line] != after[line])
            .map(|line| line - start)
            .collect()
    }

    #[test]
    fn a_packet_with_a_meter_and_two_counters_writes_the_line_beside_its_read_line() {
        let meter = MeterSpec::Single {
            rate: Rate::from_kbit(1000),
            burst: 1 << 20,
        };
        let write_line = write_line_at(Direction::Downlink);
        assert_eq!(write_line, read_line_at(Direction::Downlink) + 1);
        for (meters, urrs, [of_qers, of_urrs], want) in [
            (1, 1, [0b1, 0b1], vec![write_line]),
            (1, 2, [0b1, 0b11], vec![write_line]),
            (1, 0, [0b11, 0], vec![write_line]),
            (0, 2, [0b1, 0b10], vec![write_line]),
            (0, 2, [0b1, 0], vec![]),
            (2, 2, [0b11, 0b11], vec![write_line, 4]),
            (3, 3, [0b101, 0b101], vec![write_line, 4, 6]),
            (3, 3, [0b110, 0b110], vec![write_line, 4, 6]),
        ] {
            let image = BlockImage {
                meters: vec![[Some(meter); 2]; meters],
                urrs,
                ..BlockImage::default()
            };
            assert_eq!(
                written(&image, of_qers, of_urrs),
                want,
                "{meters} meters, {urrs} URRs"
            );
        }
    }

    #[test]
    fn generations_start_over_without_meeting_zero() {
        let mut blocks = Blocks::new(1, 3).unwrap();
        blocks.generation = u32::MAX - 1;
        let next: Vec<u32> = (0..3).map(|_| blocks.next_generation()).collect();
        assert_eq!(next, [u32::MAX, ALIVE + 1, ALIVE + 2]);
        assert_eq!(blocks.generation_cycles(), 1);
    }
}
