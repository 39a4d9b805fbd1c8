//! A disk in memory that fails where the test asks for it, and forgets as a power cut makes a disk forget.

#![allow(dead_code, reason = "each test uses a part")]

use records::*;
use rules::model::SNssai;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};

/// Decides what survives where anything may.
#[derive(Clone, Debug)]
pub struct Dice(pub u64);

impl Dice {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33) as usize % bound.max(1)
    }
}

/// Files as programs see them, and as the disk has them.
#[derive(Clone, Debug)]
pub struct FakeDisk {
    /// Each file by its number: what it has, and what of it is durable.
    files: Vec<(Vec<u8>, Vec<u8>)>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pub dice: Dice,
    /// The operation, counted from now, at which the machine stops; everything behind fails.
    pub crash_in: Option<u32>,
    /// One operation in this many fails; 0: none.
    pub fails_one_in: usize,
    /// Octets that there is room for.
    pub room: usize,
    pub operations: u32,
}

impl FakeDisk {
    pub fn new(seed: u64) -> FakeDisk {
        FakeDisk {
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            dice: Dice(seed | 1),
            crash_in: None,
            fails_one_in: 0,
            room: usize::MAX,
            operations: 0,
        }
    }

    /// What the next machine finds: of what was not made durable some, from the beginning on, perhaps damaged.
    pub fn after_power_cut(&self) -> FakeDisk {
        let mut next = self.clone();
        for name in self.names.keys().chain(self.durable_names.keys()) {
            let (now, then) = (self.names.get(name), self.durable_names.get(name));
            let survivor = if next.dice.below(2) == 0 { now } else { then };
            match survivor {
                Some(file) => next.names.insert(name.clone(), *file),
                None => next.names.remove(name),
            };
        }
        // A file that is renamed is never gone: it has the old name or the new one.
        for (name, file) in &self.durable_names {
            if !next.names.values().any(|other| other == file)
                && self.names.values().any(|other| other == file)
            {
                next.names.insert(name.clone(), *file);
            }
        }
        // Nor has it both.
        let all: Vec<(String, usize)> = next
            .names
            .iter()
            .map(|(name, file)| (name.clone(), *file))
            .collect();
        for (name, file) in all {
            if next.names.values().filter(|other| **other == file).count() > 1
                && self.durable_names.contains_key(&name)
            {
                next.names.remove(&name);
            }
        }
        for (now, durable) in &mut next.files {
            let common = now.iter().zip(durable.iter()).take_while(|(a, b)| a == b).count();
            if common == durable.len() && now.len() > common {
                let kept = common + next.dice.below(now.len() - common + 1);
                now.truncate(kept);
                if kept > common && next.dice.below(3) == 0 {
                    let at = common + next.dice.below(kept - common);
                    now[at..].fill(0);
                }
            } else if next.dice.below(2) == 0 {
                now.clone_from(durable);
            }
            durable.clone_from(now);
        }
        next.revived()
    }

    /// What the next process finds after a kill: all that this one had done.
    pub fn after_kill(&self) -> FakeDisk {
        self.clone().revived()
    }

    fn revived(mut self) -> FakeDisk {
        self.durable_names = self.names.clone();
        (self.crash_in, self.fails_one_in, self.room) = (None, 0, usize::MAX);
        self
    }

    pub fn file(&self, name: &str) -> Option<&[u8]> {
        Some(&self.files[*self.names.get(name)?].0)
    }

    pub fn file_mut(&mut self, name: &str) -> &mut Vec<u8> {
        let number = self.names[name];
        &mut self.files[number].0
    }

    pub fn names(&self) -> Vec<&str> {
        self.names
            .keys()
            .map(String::as_str)
            .filter(|name| is_file(name))
            .collect()
    }

    /// All records, in the order of the files.
    pub fn records(&self) -> Vec<(u64, Entry)> {
        let mut all = Vec::new();
        for name in self.names() {
            for item in Reader::new(self.file(name).unwrap()) {
                match item.unwrap() {
                    Item::Record(seq, entry) => all.push((seq, entry)),
                    Item::Bad(..) => {}
                }
            }
        }
        all
    }

    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        if let Some(left) = &mut self.crash_in {
            if *left == 0 {
                return Err(ErrorKind::BrokenPipe.into());
            }
            *left -= 1;
        }
        if self.fails_one_in > 0 && self.dice.below(self.fails_one_in) == 0 {
            return Err(ErrorKind::Other.into());
        }
        Ok(())
    }

    fn number(&self, name: &str) -> io::Result<usize> {
        self.names.get(name).copied().ok_or(ErrorKind::NotFound.into())
    }

    fn used(&self) -> usize {
        self.names
            .values()
            .map(|number| self.files[*number].0.len())
            .sum()
    }
}

impl Disk for FakeDisk {
    fn list(&mut self) -> io::Result<Vec<String>> {
        self.step()?;
        Ok(self.names.keys().cloned().collect())
    }

    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        self.step()?;
        let number = self.number(name)?;
        Ok(Box::new(self.files[number].0.as_slice()))
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        self.step()?;
        self.files.push(Default::default());
        self.names.insert(name.to_owned(), self.files.len() - 1);
        Ok(())
    }

    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        let number = self.number(name)?;
        let room = self.room.saturating_sub(self.used()).min(octets.len());
        let outcome = self.step();
        // What fails has done a part, or all, or nothing.
        let done = if outcome.is_ok() {
            room
        } else {
            self.dice.below(room + 1)
        };
        if self.crash_in == Some(0) && outcome.is_err() {
            return Err(ErrorKind::BrokenPipe.into());
        }
        self.files[number].0.extend_from_slice(&octets[..done]);
        outcome?;
        if done == 0 {
            return Err(ErrorKind::StorageFull.into());
        }
        Ok(done)
    }

    fn sync(&mut self, name: &str) -> io::Result<()> {
        let number = self.number(name)?;
        self.step()?;
        let (now, durable) = &mut self.files[number];
        durable.clone_from(now);
        Ok(())
    }

    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let number = self.number(name)?;
        self.step()?;
        self.files[number].0.truncate(octets as usize);
        Ok(())
    }

    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        let number = self.number(from)?;
        self.step()?;
        self.names.remove(from);
        self.names.insert(to.to_owned(), number);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.step()?;
        self.names
            .remove(name)
            .map(drop)
            .ok_or(ErrorKind::NotFound.into())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        self.step()?;
        self.durable_names = self.names.clone();
        Ok(())
    }

    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        self.step()?;
        if !self.names.contains_key(name) {
            self.files.push(Default::default());
            self.names.insert(name.to_owned(), self.files.len() - 1);
        }
        let file = self.file_mut(name);
        file.truncate(0);
        file.extend_from_slice(octets);
        Ok(())
    }
}

pub fn subject() -> Subject {
    Subject {
        node: "upf.example".into(),
        smf: Some("smf.example".into()),
        seid: 0x8f3c_21b0_9d4e_7a65,
        cp_seid: 7,
        cp_ipv4: Some([10, 100, 0, 2].into()),
        imsi: Some("001010123456789".into()),
        msisdn: Some("491700000001".into()),
        dnn: Some("internet".into()),
        s_nssai: Some(SNssai {
            sst: 1,
            sd: [0, 0, 10],
        }),
        ue: vec!["10.45.0.2".into(), "2001:db8:45::/64".into()],
        instances: vec!["access".into(), "internet".into()],
        ..Subject::default()
    }
}

pub fn usage(number: u64) -> Entry {
    Entry::Usage(Box::new(Usage {
        subject: subject(),
        urr: 1,
        ur_seqn: number as u32,
        triggers: vec!["IMMER".into()],
        volumes: Volumes::new([number * 100, 200], [number, 2]),
        start_ms: 1_700_000_000_000,
        end_ms: 1_700_000_010_500,
        duration_s: None,
        events: None,
        first_packet_ms: None,
        last_packet_ms: None,
    }))
}
