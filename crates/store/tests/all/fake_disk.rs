//! A disk in memory that fails where the test wants it, and forgets as a power cut makes a disk forget.
//!
//! Files are pages of 512 octets. What was not confirmed survives a power cut page by page, or not, or in part. After a
//! sync that failed the pages that it did not write count as written: the next sync does not write them, and programs
//! still read them, until the power is cut. Names that were not confirmed are there, or are not, each for itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Cursor, ErrorKind, Read};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use disk::Disk;
use store::{ReadAt, StoreDisk};

const PAGE: usize = 512;

/// Draws what happens where anything may.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// SplitMix64.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, many: usize) -> bool {
        self.below(many) == 0
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    /// What programs read.
    now: Vec<u8>,
    /// What is on the disk.
    durable: Vec<u8>,
    /// Pages that the next sync writes.
    dirty: BTreeSet<usize>,
}

impl File {
    fn touch(&mut self, octets: Range<usize>) {
        self.dirty.extend(octets.start / PAGE..octets.end.div_ceil(PAGE));
    }

    /// Brings `octets` of a page to the disk.
    fn write_back(&mut self, page: usize, octets: usize) {
        let from = page * PAGE;
        let to = (from + octets).min(self.now.len());
        if from < to {
            if self.durable.len() < to {
                self.durable.resize(to, 0);
            }
            self.durable[from..to].copy_from_slice(&self.now[from..to]);
        }
    }

    fn sync(&mut self) {
        for page in std::mem::take(&mut self.dirty) {
            self.write_back(page, PAGE);
        }
        self.durable.resize(self.now.len(), 0);
    }

    fn fail_sync(&mut self, dice: &mut Dice) {
        for page in std::mem::take(&mut self.dirty) {
            if dice.one_in(2) {
                self.write_back(page, PAGE);
            }
        }
    }

    fn cut_power(&mut self, dice: &mut Dice) {
        if self.now.len() < self.durable.len() && dice.one_in(2) {
            self.durable.truncate(self.now.len());
        }
        let keeps = dice.below(4);
        for page in std::mem::take(&mut self.dirty) {
            match (keeps, dice.below(3)) {
                (0, _) | (1 | 2, 0) => {}
                (1, 1) => {
                    let octets = dice.below(PAGE);
                    self.write_back(page, octets);
                }
                _ => self.write_back(page, PAGE),
            }
        }
        if self.durable.len() < self.now.len() && dice.one_in(4) {
            let octets = self.durable.len() + dice.below(self.now.len() - self.durable.len() + 1);
            self.durable.resize(octets, 0);
        }
        self.now.clone_from(&self.durable);
    }
}

/// What fails, from an operation on, which is counted from the disk's first.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    pub from: u32,
    pub operations: u32,
    pub kind: ErrorKind,
}

#[derive(Clone, Debug)]
pub struct State {
    files: Vec<File>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pub dice: Dice,
    pub operations: u32,
    /// The operation at which the machine stops; it and everything behind fails.
    pub stops_at: Option<u32>,
    pub failure: Option<Failure>,
    /// One operation in this many fails; 0: none.
    pub fails_one_in: usize,
    /// One write in this many takes a part only; 0: none.
    pub shortens_one_in: usize,
    /// Octets that there is room for.
    pub room: u64,
    /// Octets of a file that cannot be read.
    pub bad: Option<(String, Range<u64>)>,
}

/// A disk in memory, which all clones share.
#[derive(Clone, Debug)]
pub struct FakeDisk(Arc<Mutex<State>>);

impl FakeDisk {
    pub fn new(seed: u64) -> FakeDisk {
        FakeDisk::of(State {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dice: Dice::new(seed),
            operations: 0,
            stops_at: None,
            failure: None,
            fails_one_in: 0,
            shortens_one_in: 0,
            room: u64::MAX,
            bad: None,
        })
    }

    fn of(state: State) -> FakeDisk {
        FakeDisk(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with it")
    }

    /// What the next process finds after a kill.
    pub fn after_kill(&self) -> FakeDisk {
        FakeDisk::of(self.state().clone().revived())
    }

    /// What the next machine finds after a power cut.
    pub fn after_power_cut(&self) -> FakeDisk {
        let mut next = self.state().clone();
        let all: BTreeSet<String> = next
            .names
            .keys()
            .chain(next.durable_names.keys())
            .cloned()
            .collect();
        let mut names = BTreeMap::new();
        for name in all {
            let found = if next.dice.one_in(2) {
                &next.names
            } else {
                &next.durable_names
            };
            if let Some(file) = found.get(&name) {
                names.insert(name, *file);
            }
        }
        next.names = names;
        for file in &mut next.files {
            file.cut_power(&mut next.dice);
        }
        next.durable_names = next.names.clone();
        FakeDisk::of(next.revived())
    }

    /// The segments that there are.
    pub fn segments(&self) -> Vec<String> {
        let state = self.state();
        let names = state.names.keys().filter(|name| name.ends_with(".log"));
        names.cloned().collect()
    }

    /// The indexes of segments that there are.
    pub fn indexes(&self) -> Vec<String> {
        let state = self.state();
        let names = state.names.keys().filter(|name| name.ends_with(".index"));
        names.cloned().collect()
    }

    pub fn octets(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[state.names[name]].now.clone()
    }

    /// The octets of a segment without the zeros that were written ahead.
    pub fn octets_without_zeros(&self, name: &str) -> Vec<u8> {
        let mut octets = self.octets(name);
        let end = octets
            .iter()
            .rposition(|octet| *octet != 0)
            .map_or(0, |last| last + 1);
        octets.truncate(end.next_multiple_of(8));
        octets
    }

    /// Makes a file that is durable.
    pub fn put_file(&self, name: &str, octets: &[u8]) {
        let mut state = self.state();
        let file = File {
            now: octets.to_vec(),
            durable: octets.to_vec(),
            dirty: BTreeSet::new(),
        };
        state.files.push(file);
        let number = state.files.len() - 1;
        state.names.insert(name.to_owned(), number);
        state.durable_names.insert(name.to_owned(), number);
    }

    pub fn remove_file(&self, name: &str) {
        let mut state = self.state();
        state.names.remove(name);
        state.durable_names.remove(name);
    }
}

impl State {
    fn revived(mut self) -> State {
        (self.stops_at, self.failure) = (None, None);
        (self.fails_one_in, self.shortens_one_in) = (0, 0);
        self
    }

    fn has_stopped(&self) -> bool {
        self.stops_at.is_some_and(|at| self.operations > at)
    }

    /// An operation begins; whether it fails.
    fn step(&mut self) -> io::Result<()> {
        let number = self.operations;
        self.operations += 1;
        if self.stops_at.is_some_and(|at| number >= at) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        if let Some(failure) = self.failure
            && (failure.from..failure.from.saturating_add(failure.operations)).contains(&number)
        {
            return Err(failure.kind.into());
        }
        if self.fails_one_in > 0 && self.dice.one_in(self.fails_one_in) {
            let kinds = [ErrorKind::Other, ErrorKind::Interrupted, ErrorKind::StorageFull];
            return Err(kinds[self.dice.below(kinds.len())].into());
        }
        Ok(())
    }

    /// Whether what fails has been done all the same, or in part.
    fn happens_all_the_same(&mut self) -> bool {
        let has_stopped = self.stops_at.is_some_and(|at| self.operations > at + 1);
        !has_stopped && self.dice.one_in(2)
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or(ErrorKind::NotFound.into())
    }

    pub fn used(&self) -> u64 {
        let octets = self.names.values().map(|number| self.files[*number].now.len());
        octets.sum::<usize>() as u64
    }
}

impl Disk for FakeDisk {
    fn list(&mut self) -> io::Result<Vec<String>> {
        let mut state = self.state();
        state.step()?;
        Ok(state.names.keys().cloned().collect())
    }

    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        let mut state = self.state();
        state.step()?;
        let number = state.number(name)?;
        Ok(Box::new(Cursor::new(state.files[number].now.clone())))
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let outcome = state.step();
        if outcome.is_ok() || state.happens_all_the_same() {
            state.files.push(File::default());
            let number = state.files.len() - 1;
            state.names.insert(name.to_owned(), number);
        }
        outcome
    }

    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        let end = {
            let state = self.state();
            state.files[state.number(name)?].now.len()
        };
        self.write_at(name, end as u64, octets)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let number = state.number(name)?;
        let outcome = state.step();
        let state = &mut *state;
        if outcome.is_ok() {
            state.files[number].sync();
        } else if !state.has_stopped() {
            state.files[number].fail_sync(&mut state.dice);
        }
        outcome
    }

    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let mut state = self.state();
        let number = state.number(name)?;
        let outcome = state.step();
        if outcome.is_ok() || state.happens_all_the_same() {
            let file = &mut state.files[number];
            let octets = octets as usize;
            file.now.truncate(octets);
            file.dirty = file
                .dirty
                .iter()
                .copied()
                .filter(|page| page * PAGE < octets)
                .collect();
            if !octets.is_multiple_of(PAGE) {
                file.dirty.insert(octets / PAGE);
            }
        }
        outcome
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        unreachable!("the store renames nothing")
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        state.number(name)?;
        let outcome = state.step();
        if outcome.is_ok() || state.happens_all_the_same() {
            state.names.remove(name);
        }
        outcome
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        let mut state = self.state();
        state.step()?;
        state.durable_names = state.names.clone();
        Ok(())
    }

    fn overwrite(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        unreachable!("the store writes over nothing")
    }
}

impl StoreDisk for FakeDisk {
    type Reads = FakeDisk;

    fn reads(&self) -> io::Result<FakeDisk> {
        Ok(self.clone())
    }

    fn free_octets(&mut self) -> io::Result<u64> {
        let mut state = self.state();
        state.step()?;
        Ok(state.room.saturating_sub(state.used()))
    }

    fn write_at(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<usize> {
        let mut state = self.state();
        let number = state.number(name)?;
        let room = state.room.saturating_sub(state.used());
        let from = offset as usize;
        let there = state.files[number].now.len();
        assert!(from <= there, "{name}: a hole at {there}");
        let room = usize::try_from(room)
            .unwrap_or(usize::MAX)
            .saturating_add(there - from);
        let mut most = octets.len().min(room);
        let outcome = state.step();
        if let Err(error) = &outcome {
            // An interrupted write has written nothing.
            let is_partial = error.kind() != ErrorKind::Interrupted && state.happens_all_the_same();
            most = if is_partial { state.dice.below(most + 1) } else { 0 };
        } else if state.shortens_one_in > 0 && most > 1 {
            let one_in = state.shortens_one_in;
            if state.dice.one_in(one_in) {
                most = 1 + state.dice.below(most - 1);
            }
        }
        let file = &mut state.files[number];
        file.now.resize(there.max(from + most), 0);
        file.now[from..from + most].copy_from_slice(&octets[..most]);
        file.touch(from..from + most);
        outcome?;
        if most == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(most)
    }

    fn reserve(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let mut state = self.state();
        let outcome = state.step();
        if !state.names.contains_key(name) {
            state.files.push(File::default());
            let number = state.files.len() - 1;
            state.names.insert(name.to_owned(), number);
        }
        outcome?;
        let number = state.number(name)?;
        let more = octets.saturating_sub(state.files[number].now.len() as u64);
        if state.used() + more > state.room {
            return Err(ErrorKind::StorageFull.into());
        }
        state.files[number].now.resize(octets as usize, 0);
        state.files[number].durable.resize(octets as usize, 0);
        Ok(())
    }
}

impl ReadAt for FakeDisk {
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state();
        state.step()?;
        let number = state.number(name)?;
        if let Some((file, bad)) = &state.bad
            && file == name
            && offset < bad.end
            && offset + into.len() as u64 > bad.start
        {
            return Err(ErrorKind::Other.into());
        }
        let found = state.files[number].now.get(offset as usize..).unwrap_or_default();
        let octets = found.len().min(into.len());
        into[..octets].copy_from_slice(&found[..octets]);
        Ok(octets)
    }

    fn forget(&mut self, _: &str) {}
}
