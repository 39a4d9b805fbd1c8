use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read};

use records::{Audit, Item, Reader, SessionEnd, Settings, Subject, Volumes};

use super::*;

type Files = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// Files in memory, and a switch that makes the disk full.
#[derive(Clone, Default)]
struct Memory {
    files: Files,
    is_full: Arc<AtomicBool>,
}

impl Memory {
    fn with<A>(&self, work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> A) -> A {
        work(&mut self.files.lock().unwrap())
    }

    fn records(&self) -> Vec<(u64, Entry)> {
        let named = |(name, octets): (&String, &Vec<u8>)| records::is_file(name).then(|| octets.clone());
        let files: Vec<_> = self.with(|files| files.iter().filter_map(named).collect());
        let items = files.iter().flat_map(|octets| Reader::new(octets.as_slice()));
        items
            .map(|item| match item.unwrap() {
                Item::Record(seq, entry) => (seq, entry),
                Item::Bad(..) => panic!("a bad line"),
            })
            .collect()
    }
}

impl Disk for Memory {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.with(|files| files.keys().cloned().collect()))
    }
    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        let octets = self.with(|files| files.get(name).cloned());
        Ok(Box::new(io::Cursor::new(octets.ok_or(ErrorKind::NotFound)?)))
    }
    fn create(&mut self, name: &str) -> io::Result<()> {
        self.with(|files| files.insert(name.into(), Vec::new()));
        Ok(())
    }
    fn append(&mut self, name: &str, octets: &[u8]) -> io::Result<usize> {
        if self.is_full.load(Ordering::Relaxed) {
            return Err(ErrorKind::StorageFull.into());
        }
        self.with(|files| files.get_mut(name).unwrap().extend_from_slice(octets));
        Ok(octets.len())
    }
    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }
    fn truncate(&mut self, name: &str, octets: u64) -> io::Result<()> {
        self.with(|files| files.get_mut(name).unwrap().truncate(octets as usize));
        Ok(())
    }
    fn rename(&mut self, from: &str, to: &str) -> io::Result<()> {
        self.with(|files| {
            let octets = files.remove(from).unwrap();
            files.insert(to.into(), octets);
        });
        Ok(())
    }
    fn remove(&mut self, name: &str) -> io::Result<()> {
        self.with(|files| files.remove(name));
        Ok(())
    }
    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn overwrite(&mut self, name: &str, octets: &[u8]) -> io::Result<()> {
        self.with(|files| files.insert(name.into(), octets.to_vec()));
        Ok(())
    }
}

fn entry(number: u64) -> Entry {
    Entry::SessionEnd(Box::new(SessionEnd {
        subject: Subject::default(),
        cause: records::EndCause::Deleted,
        start_ms: number,
        end_ms: 0,
        usage_records: 0,
        volumes: Volumes::default(),
    }))
}

const HELD: usize = 50;

fn start(disk: &Memory, when_full: WhenFull) -> (RecordsThread, Feed, RecordsView) {
    let settings = Settings {
        batch_octets: 2_000,
        batch_age: Duration::from_millis(1),
        retry: Duration::from_millis(1),
        ..Settings::default()
    };
    let (spool, _) = Spool::open(disk.clone(), settings, Duration::ZERO, 0).unwrap();
    RecordsThread::start(spool, "here".into(), HELD, when_full).unwrap()
}

/// Waits for what comes sooner or later.
fn until(mut is_so: impl FnMut() -> bool) {
    for _ in 0..20_000 {
        if is_so() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("it has not come in twenty seconds");
}

#[test]
fn a_full_disk_costs_nothing_until_memory_is_full_and_then_what_is_lost_is_counted() {
    let disk = Memory::default();
    let (thread, mut feed, view) = start(&disk, WhenFull::Refuse);
    feed.put(entry(0));
    until(|| view.read().written == 1);
    disk.is_full.store(true, Ordering::Relaxed);
    let mut put = 1;
    // Until the queue is full although the writer has looked at it again: its batch is, too.
    let failures = || view.read().failures;
    loop {
        while feed.queue.slots() > 0 {
            feed.put(entry(put));
            put += 1;
        }
        let before = failures();
        until(|| failures() >= before + 2);
        if feed.queue.slots() == 0 {
            break;
        }
    }
    assert!(feed.refuses_sessions());
    for _ in 0..11 {
        feed.put(entry(put));
        put += 1;
    }
    let status = view.read();
    assert_eq!((status.state, status.written), (RecordsState::Full, 1));
    assert!(status.error.is_some() && status.held >= HELD as u64, "{status:?}");
    let lost = status.lost;
    assert_eq!(lost, 11);
    disk.is_full.store(false, Ordering::Relaxed);
    until(|| !feed.refuses_sessions());
    feed.put(entry(put));
    put += 1;
    assert_eq!(thread.end(), 0);
    assert_eq!(view.read().state, RecordsState::Writing);

    let records = disk.records();
    let mut audit = Audit::default();
    let breaks: Vec<_> = records
        .iter()
        .filter_map(|(seq, entry)| audit.take(*seq, entry))
        .collect();
    assert!(
        audit.is_sound() && audit.lost == lost && breaks.len() == 1,
        "{audit:?}"
    );
    assert_eq!(audit.records + lost, put);
    assert_eq!(
        records.last().map(|(seq, _)| *seq),
        Some(put),
        "one number is that of the loss"
    );
}

#[test]
fn a_loss_that_could_not_be_stated_before_the_end_is_stated_at_it() {
    let disk = Memory::default();
    disk.is_full.store(true, Ordering::Relaxed);
    let (thread, mut feed, view) = start(&disk, WhenFull::GoOn);
    let mut put = 0;
    while feed.lost.is_none() {
        feed.put(entry(put));
        put += 1;
    }
    let lost = view.read().lost;
    drop(feed);
    disk.is_full.store(false, Ordering::Relaxed);
    assert_eq!(thread.end(), 0);
    let mut audit = Audit::default();
    disk.records().iter().for_each(|(seq, entry)| {
        audit.take(*seq, entry);
    });
    assert!(audit.is_sound(), "{audit:?}");
    assert_eq!((audit.lost, audit.records + audit.lost), (lost, put));
}

#[test]
fn with_continue_sessions_are_not_refused() {
    let disk = Memory::default();
    disk.is_full.store(true, Ordering::Relaxed);
    let (thread, mut feed, view) = start(&disk, WhenFull::GoOn);
    while feed.lost.is_none() {
        feed.put(entry(0));
    }
    assert!(!feed.refuses_sessions());
    assert_eq!(view.read().state, RecordsState::Full);
    disk.is_full.store(false, Ordering::Relaxed);
    assert_eq!(thread.end(), 0);
    assert!(disk.records().len() >= HELD);
}

#[test]
fn what_a_broken_disk_did_not_take_by_the_end_is_counted() {
    let disk = Memory::default();
    disk.is_full.store(true, Ordering::Relaxed);
    let (thread, mut feed, _) = start(&disk, WhenFull::GoOn);
    feed.put(entry(0));
    feed.put(entry(1));
    assert_eq!(thread.end(), 2);
}

#[test]
fn reports_that_no_smf_has_taken_are_counted_by_what_became_of_them() {
    let (thread, mut feed, view) = start(&Memory::default(), WhenFull::GoOn);
    let put = |feed: &mut Feed, outcome| {
        feed.put(Entry::Unreported(Box::new(records::Unreported {
            subject: Subject::default(),
            urr: 1,
            ur_seqn: 0,
            triggers: Vec::new(),
            volumes: Volumes::default(),
            start_ms: 0,
            end_ms: 0,
            time_ms: 0,
            outcome,
            cause: None,
        })));
    };
    put(&mut feed, records::Outcome::Unanswered);
    put(&mut feed, records::Outcome::Refused);
    put(&mut feed, records::Outcome::Unanswered);
    put(&mut feed, records::Outcome::Unreadable);
    feed.put(entry(1));
    let told = view.read();
    let counts = told.unreported;
    assert_eq!((counts.refused, counts.unreadable, counts.unanswered), (1, 1, 2));
    let line = "not taken 1 refused, 1 answered unreadably, 2 not answered\n";
    assert!(told.text().ends_with(line), "{}", told.text());
    drop(feed);
    assert_eq!(thread.end(), 0);
}
