//! Logs that are written, broken and checked, on a disk in memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::rc::Rc;

use disk::Disk;
use proptest::prelude::*;

use super::*;

/// A disk that may be full.
#[derive(Clone, Debug, Default)]
struct Memory(Rc<RefCell<State>>);

#[derive(Debug, Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    /// Octets that it takes still; none: any number.
    room: Option<usize>,
}

impl Memory {
    fn names(&self) -> Vec<String> {
        self.0.borrow().files.keys().cloned().collect()
    }

    fn open(&self, name: &str) -> io::Result<io::Cursor<Vec<u8>>> {
        let state = self.0.borrow();
        let file = state.files.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(io::Cursor::new(file.clone()))
    }

    fn verify(&self, kept: Option<Head>) -> Verified {
        verify(self.names(), |name| self.open(name), kept).unwrap()
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.0.borrow_mut().files.get_mut(name).unwrap());
    }

    /// The lines of all files, in their order.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let take = |line: &Line, _: &[u8]| {
            lines.push(line.clone());
            true
        };
        read(self.names(), |name| self.open(name), take).unwrap();
        lines
    }
}

impl Disk for Memory {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.names())
    }
    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        Ok(Box::new(self.open(name)?))
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.0.borrow_mut().files.insert(name.to_owned(), Vec::new());
        Ok(())
    }
    /// A part at a time.
    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        let mut state = self.0.borrow_mut();
        let part = octets.len().min(100).min(state.room.unwrap_or(usize::MAX));
        if part == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.room = state.room.map(|room| room - part);
        let file = state.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.extend(&octets[..part]);
        Ok(part)
    }
    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        let mut state = self.0.borrow_mut();
        let file = state.files.get_mut(name).ok_or(io::ErrorKind::NotFound)?;
        file.truncate(octets as usize);
        Ok(())
    }
    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn remove(&mut self, _: &str) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().files.insert(name.to_owned(), octets.to_vec());
        Ok(())
    }
}

fn result(request: u64) -> Entry {
    Entry::Result { request, status: 200 }
}

fn open(disk: &Memory) -> (AuditLog<Memory>, Found) {
    AuditLog::open_on(disk.clone(), 1_000, "1.0", 5).unwrap()
}

/// A log of this number of lines in several files.
fn written(lines: u64) -> (Memory, Head) {
    let disk = Memory::default();
    let (mut log, found) = open(&disk);
    assert_eq!(found, Found::default());
    for seq in 2..=lines {
        assert_eq!(log.append(seq, &result(seq)).unwrap(), seq);
    }
    (disk, log.head())
}

fn file(disk: &Memory, place: usize) -> String {
    disk.names()
        .into_iter()
        .filter(|name| files::is_file(name))
        .nth(place)
        .unwrap()
}

#[test]
fn a_log_is_sound_and_continues_where_the_process_before_ended() {
    let (disk, before) = written(20);
    assert!(disk.names().len() > 3, "{:?}", disk.names());
    let (log, found) = open(&disk);
    assert_eq!((found, log.head().seq), (Found::default(), 21));
    let verified = disk.verify(Some(before));
    assert!(verified.is_sound(), "{verified:?}");
    assert_eq!(
        (verified.lines, verified.first, verified.last),
        (21, Some(1), Some(log.head()))
    );
    assert_eq!(before.to_string().parse(), Ok(before));
}

proptest! {
    /// Whatever octet of a line is another.
    #[test]
    fn a_change_is_found(place in 0_usize..100_000, to in any::<u8>()) {
        let (disk, _) = written(12);
        let names: Vec<_> = disk.names().into_iter().filter(|name| files::is_file(name)).collect();
        let sizes: Vec<usize> = names.iter().map(|name| disk.0.borrow().files[name].len()).collect();
        let mut place = place % sizes.iter().sum::<usize>();
        let mut number = 0;
        while place >= sizes[number] {
            place -= sizes[number];
            number += 1;
        }
        let mut is_same = false;
        disk.change(&names[number], |octets| {
            is_same = octets[place] == to;
            octets[place] = to;
        });
        let verified = disk.verify(None);
        prop_assert_eq!(verified.is_sound(), is_same, "{:?}", verified);
    }

    /// Whatever is in the files, nothing fails but what is said of them.
    #[test]
    fn anything_can_be_checked(octets in proptest::collection::vec(any::<u8>(), 0..2_000)) {
        let (disk, _) = written(3);
        disk.change(&file(&disk, 0), |file| file.extend(octets));
        let _ = disk.verify(None);
        let _ = disk.lines();
        let (log, _) = open(&disk);
        prop_assert!(log.head().seq > 3);
    }
}

#[test]
fn lines_that_are_removed_or_moved_are_missed() {
    let (disk, _) = written(12);
    let name = file(&disk, 1);
    let lines = |disk: &Memory| -> Vec<Vec<u8>> {
        let file = disk.0.borrow().files[&name].clone();
        file.split_inclusive(|octet| *octet == b'\n')
            .map(<[u8]>::to_vec)
            .collect()
    };
    let with = |order: &[usize]| {
        let (disk, _) = written(12);
        let all = lines(&disk);
        disk.change(&name, |file| {
            *file = order.iter().flat_map(|place| all[*place].clone()).collect()
        });
        disk.verify(None)
    };
    let count = lines(&disk).len();
    let all: Vec<usize> = (0..count).collect();
    assert!(with(&all).is_sound());
    let mut swapped = all.clone();
    swapped.swap(0, 1);
    assert!(!with(&swapped).is_sound());
    assert!(!with(&all[1..]).is_sound());
    assert!(!with(&[&all[..], &[0]].concat()).is_sound());
}

#[test]
fn a_tail_that_is_cut_off_is_missed_by_its_head() {
    let (disk, kept) = written(12);
    let last = disk
        .names()
        .into_iter()
        .rfind(|name| files::is_file(name))
        .unwrap();
    disk.change(&last, Vec::clear);
    let cut = disk.verify(None);
    assert!(matches!(cut.findings[..], [Finding::Cut(_)]), "{cut:?}");
    // The next process says so, and numbers are not given twice.
    let (log, found) = open(&disk);
    assert!(found.missing > 0);
    assert_eq!(log.head().seq, 13);
    let verified = disk.verify(None);
    let said = Finding::Missing {
        seq: 13,
        lines: found.missing,
    };
    assert_eq!(verified.findings, [said]);
    // Nor does it help to write `head`, too, where one is kept elsewhere.
    let (disk, _) = written(12);
    disk.change(&last, Vec::clear);
    let end = disk.verify(None).last.unwrap();
    disk.change("head", |head| *head = format!("{end}\n").into_bytes());
    assert!(disk.verify(None).is_sound());
    assert_eq!(disk.verify(Some(kept)).findings, [Finding::Absent(12)]);
}

#[test]
fn a_log_that_was_written_anew_differs_from_a_head_that_was_kept() {
    let (_, kept) = written(12);
    let disk = Memory::default();
    let (mut log, _) = open(&disk);
    for seq in 2..=12 {
        log.append(seq, &result(seq + 1)).unwrap();
    }
    assert!(disk.verify(None).is_sound());
    assert_eq!(disk.verify(Some(kept)).findings, [Finding::Replaced(12)]);
}

#[test]
fn a_torn_line_is_removed_and_said() {
    let (disk, _) = written(3);
    disk.change(&file(&disk, 0), |file| file.extend(b"{\"prev\":\"00"));
    assert!(!disk.verify(None).is_sound());
    let (_, found) = open(&disk);
    assert_eq!((found.torn_octets, found.missing), (11, 0));
    assert!(disk.verify(None).is_sound());
}

#[test]
fn a_full_disk_is_an_error_and_said_when_there_is_room() {
    let (disk, _) = written(3);
    let (mut log, _) = open(&disk);
    disk.0.borrow_mut().room = Some(130);
    for _ in 0..3 {
        let error = log.append(9, &result(1)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
    assert_eq!(log.missed(), 3);
    disk.0.borrow_mut().room = None;
    assert_eq!(log.append(10, &result(2)).unwrap(), 6);
    let verified = disk.verify(None);
    assert!(verified.is_sound(), "{verified:?}");
    let lines = disk.lines();
    assert_eq!(lines[4].entry, Entry::Missed { count: 3 });
    assert_eq!((lines[5].seq, &lines[5].entry), (6, &result(2)));
}

#[test]
fn a_line_that_is_too_long_is_refused() {
    let (disk, _) = written(2);
    let (mut log, _) = open(&disk);
    let long = Entry::Refused {
        from: "x".repeat(40_000),
        what: "role".into(),
        count: 1,
    };
    assert_eq!(
        log.append(9, &long).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
    assert_eq!(log.append(9, &result(1)).unwrap(), 5);
    assert!(disk.verify(None).is_sound());
}
