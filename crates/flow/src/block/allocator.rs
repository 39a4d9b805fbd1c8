//! `LineAllocator`: runs of cache lines out of a slab, by size class, in constant time and without fragmentation
//! between classes.
//!
//! The slab is cut into chunks of 512 lines. A chunk serves runs of one class until all of them are free again; then
//! any class may take it. The allocator's state is outside the slab, so it touches none of its lines.

/// The fewest lines of a run.
pub(super) const LEAST_RUN: usize = CLASSES[0] as usize;

/// Lines in a chunk: the most that one run may have.
pub(super) const CHUNK: usize = 512;

/// The lines of the runs of each class. All are even, so that every run begins at a line of even number; and a run has
/// at most a quarter more than it needs, from 3 up.
const CLASSES: [u16; 24] = [
    4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 42, 46, 50, 56, 64, 72, 84, 102, 128, 170, 256, 512,
];

/// The class of each number of lines.
static CLASS_OF: [u8; CHUNK + 1] = {
    let mut table = [0; CHUNK + 1];
    let mut lines = 0;
    let mut class = 0;
    while lines <= CHUNK {
        if lines > CLASSES[class] as usize {
            class += 1;
        }
        table[lines] = class as u8;
        lines += 1;
    }
    table
};

/// No chunk, or no run.
const NONE: u32 = u32::MAX;
const NO_RUN: u16 = u16::MAX;

/// 512 lines and which blocks have them.
#[derive(Clone, Copy)]
struct Chunk {
    /// The chunks before and after in the list that this one is in: those with free runs of a class, or the empty.
    before: u32,
    after: u32,
    class: u8,
    /// Runs given out.
    used: u16,
    /// Runs that have been given out at least once since the class took the chunk.
    touched: u16,
    /// The first of the runs given back; `next_run` has the others.
    free: u16,
}

/// Gives out runs of lines. A line is named by its number in the slab.
pub(super) struct LineAllocator {
    chunks: Box<[Chunk]>,
    /// For the first line of each free run: the place of the next free run of its chunk.
    next_run: Box<[u16]>,
    /// The first chunk with a free run, by class.
    open: [u32; CLASSES.len()],
    /// The first chunk without a run.
    empty: u32,
}

impl LineAllocator {
    /// How many lines a slab needs, so that `runs` runs of `lines` fit whatever else there was before.
    pub(super) fn lines_for(runs: usize, lines: usize) -> usize {
        let per_chunk = CHUNK / usize::from(CLASSES[usize::from(CLASS_OF[lines.min(CHUNK)])]);
        (runs.div_ceil(per_chunk) + CLASSES.len()) * CHUNK
    }

    /// Over a slab of `lines` lines; what does not fill a chunk is left over.
    pub(super) fn new(lines: usize) -> Self {
        let count = lines / CHUNK;
        let chunk = |place: usize| Chunk {
            before: if place == 0 { NONE } else { place as u32 - 1 },
            after: if place + 1 == count {
                NONE
            } else {
                place as u32 + 1
            },
            class: 0,
            used: 0,
            touched: 0,
            free: NO_RUN,
        };
        Self {
            chunks: (0..count).map(chunk).collect(),
            next_run: vec![NO_RUN; count * CHUNK].into(),
            open: [NONE; CLASSES.len()],
            empty: if count == 0 { NONE } else { 0 },
        }
    }

    /// Runs that are given out.
    pub(super) fn in_use(&self) -> usize {
        self.chunks.iter().map(|chunk| usize::from(chunk.used)).sum()
    }

    /// How many chunks there are.
    pub(super) fn chunks(&self) -> usize {
        self.chunks.len()
    }

    /// The first lines of the runs of a chunk, in order, that may be given out: all that are, and some that were.
    pub(super) fn runs(&self, chunk: usize) -> impl Iterator<Item = u32> + use<> {
        let given = self.chunks.get(chunk).filter(|chunk| chunk.used > 0);
        let (runs, size) = given.map_or((0, 0), |chunk| {
            (chunk.touched, u32::from(CLASSES[usize::from(chunk.class)]))
        });
        (0..u32::from(runs)).map(move |run| (chunk * CHUNK) as u32 + run * size)
    }

    /// The lines that a run of `lines` lines really gets; `None` when no run is that long.
    pub(super) fn rounded(lines: usize) -> Option<usize> {
        CLASS_OF
            .get(lines)
            .map(|&class| usize::from(CLASSES[usize::from(class)]))
    }

    /// The first line of a run of at least `lines` lines; `None` when there is none free or none that long.
    pub(super) fn allocate(&mut self, lines: usize) -> Option<u32> {
        let class = *CLASS_OF.get(lines)?;
        let mut index = self.open[usize::from(class)];
        if index == NONE {
            index = self.take_empty(class)?;
        }
        let chunk = &mut self.chunks[index as usize];
        let size = CLASSES[usize::from(class)];
        let run = if chunk.free == NO_RUN {
            chunk.touched += 1;
            chunk.touched - 1
        } else {
            let run = chunk.free;
            chunk.free = self.next_run[index as usize * CHUNK + usize::from(run * size)];
            run
        };
        chunk.used += 1;
        if chunk.used == capacity(class) {
            self.unlink(index);
        }
        Some(index * CHUNK as u32 + u32::from(run * size))
    }

    /// Takes back a run that [`allocate`](Self::allocate) gave out, by its first line.
    pub(super) fn free(&mut self, line: u32) {
        let index = line / CHUNK as u32;
        let Chunk {
            class, used, free, ..
        } = self.chunks[index as usize];
        let run = (line as usize % CHUNK / usize::from(CLASSES[usize::from(class)])) as u16;
        self.next_run[line as usize] = free;
        if used == capacity(class) {
            self.link(index, Some(class));
        }
        let chunk = &mut self.chunks[index as usize];
        chunk.free = run;
        chunk.used -= 1;
        if chunk.used == 0 {
            self.unlink(index);
            self.link(index, None);
        }
    }

    /// Gives the first empty chunk to a class.
    fn take_empty(&mut self, class: u8) -> Option<u32> {
        let index = self.empty;
        let chunk = self.chunks.get(index as usize)?;
        self.empty = chunk.after;
        if let Some(next) = self.chunks.get_mut(self.empty as usize) {
            next.before = NONE;
        }
        let chunk = &mut self.chunks[index as usize];
        (chunk.class, chunk.touched, chunk.free) = (class, 0, NO_RUN);
        self.link(index, Some(class));
        Some(index)
    }

    /// Puts a chunk first in the list of a class, or of the empty ones.
    fn link(&mut self, index: u32, class: Option<u8>) {
        let head = match class {
            Some(class) => &mut self.open[usize::from(class)],
            None => &mut self.empty,
        };
        let after = core::mem::replace(head, index);
        let chunk = &mut self.chunks[index as usize];
        (chunk.before, chunk.after) = (NONE, after);
        if let Some(after) = self.chunks.get_mut(after as usize) {
            after.before = index;
        }
    }

    /// Takes a chunk out of the list of its class.
    fn unlink(&mut self, index: u32) {
        let Chunk {
            before, after, class, ..
        } = self.chunks[index as usize];
        match self.chunks.get_mut(before as usize) {
            Some(before) => before.after = after,
            None => self.open[usize::from(class)] = after,
        }
        if let Some(after) = self.chunks.get_mut(after as usize) {
            after.before = before;
        }
    }
}

/// How many runs of a class a chunk has.
fn capacity(class: u8) -> u16 {
    CHUNK as u16 / CLASSES[usize::from(class)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_length_has_a_class_that_wastes_at_most_a_quarter_of_what_it_gives() {
        for lines in 1..=170 {
            let rounded = LineAllocator::rounded(lines).unwrap();
            assert!(rounded >= lines);
            assert!(
                rounded <= 4 || (rounded - lines) * 4 <= rounded,
                "{lines} -> {rounded}"
            );
        }
        assert_eq!(LineAllocator::rounded(512), Some(512));
        assert_eq!(LineAllocator::rounded(513), None);
    }

    #[test]
    fn the_promised_number_of_runs_fits_after_every_class_was_used() {
        let mut allocator = LineAllocator::new(LineAllocator::lines_for(1000, 7));
        let strays: Vec<u32> = CLASSES
            .iter()
            .filter_map(|&lines| allocator.allocate(lines.into()))
            .collect();
        assert_eq!(strays.len(), CLASSES.len());
        assert!((0..1000).all(|_| allocator.allocate(7).is_some()));
    }

    #[test]
    fn what_is_given_back_serves_another_class() {
        let mut allocator = LineAllocator::new(2 * CHUNK);
        let small: Vec<u32> = core::iter::from_fn(|| allocator.allocate(5)).collect();
        assert_eq!((small.len(), allocator.allocate(512)), (170, None));
        small.into_iter().for_each(|line| allocator.free(line));
        assert_eq!(
            [
                allocator.allocate(512).is_some(),
                allocator.allocate(300).is_some()
            ],
            [true; 2]
        );
        assert_eq!(allocator.allocate(1), None);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(usize),
        Free(prop::sample::Index),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (1usize..24).prop_map(Step::Allocate),
            1 => (1usize..=513).prop_map(Step::Allocate),
            3 => any::<prop::sample::Index>().prop_map(Step::Free),
        ]
    }

    proptest! {
        /// No two runs that are out at the same time overlap, and all lines can be had again at the end.
        #[test]
        fn runs_never_overlap(chunks in 1usize..6, steps in prop::collection::vec(step(), 1..400)) {
            let mut allocator = LineAllocator::new(chunks * CHUNK + 17);
            let mut out = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Allocate(lines) => {
                        let Some(line) = allocator.allocate(lines) else { continue };
                        prop_assert!(line as usize + lines <= chunks * CHUNK);
                        prop_assert_eq!(line % 2, 0, "read_lines and write_lines are pairs");
                        if let Some((&start, &len)) = out.range(..=line).next_back() {
                            prop_assert!(start as usize + len <= line as usize);
                        }
                        if let Some((&start, _)) = out.range(line..).next() {
                            prop_assert!(line as usize + lines <= start as usize);
                        }
                        out.insert(line, lines);
                    }
                    Step::Free(index) if !out.is_empty() => {
                        let line = *out.keys().nth(index.index(out.len())).unwrap();
                        out.remove(&line);
                        allocator.free(line);
                    }
                    Step::Free(_) => {}
                }
            }
            out.into_keys().for_each(|line| allocator.free(line));
            prop_assert!((0..chunks).all(|_| allocator.allocate(512).is_some()));
        }
    }
}
