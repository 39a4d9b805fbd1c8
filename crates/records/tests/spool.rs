//! The spool over a disk that fails: what was durable is there, once; what is not is said.

mod support;

use proptest::prelude::*;
use records::*;
use std::io::ErrorKind;
use std::time::Duration;
use support::*;

const MS: Duration = Duration::from_millis(1);

fn settings() -> Settings {
    Settings {
        file_octets: 8_000,
        file_age: 1_000 * MS,
        batch_octets: 4_000,
        batch_age: 100 * MS,
        retry: 50 * MS,
    }
}

fn open(disk: FakeDisk) -> (Spool<FakeDisk>, Recovered) {
    Spool::open(disk, settings(), Duration::ZERO, 5).unwrap()
}

fn put(spool: &mut Spool<FakeDisk>, now: Duration, count: u64) {
    for _ in 0..count {
        let seq = spool.next();
        spool.put(now, seq, &usage(seq));
    }
}

fn numbers(disk: &FakeDisk) -> Vec<u64> {
    disk.records().iter().map(|(seq, _)| *seq).collect()
}

#[test]
fn a_batch_is_made_durable_when_it_is_old_or_full() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, MS, 2);
    spool.poll(MS);
    assert_eq!((spool.progress().held, spool.progress().syncs), (2, 0));
    assert_eq!(spool.poll_timeout(), Some(101 * MS));
    spool.poll(101 * MS);
    assert_eq!((spool.progress().held, spool.progress().written), (0, 2));
    while spool.has_room() {
        put(&mut spool, 102 * MS, 1);
    }
    spool.poll(102 * MS);
    assert_eq!((spool.progress().held, spool.progress().syncs), (0, 2));
}

#[test]
fn a_file_gets_its_final_name_when_it_is_large_or_old() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 1);
    spool.poll(200 * MS);
    assert_eq!(spool.disk().names(), ["usage-00000000000000000000.open"]);
    spool.poll(1_200 * MS);
    assert_eq!(spool.disk().names(), ["usage-00000000000000000000.jsonl"]);
    spool.poll(9_000 * MS);
    assert_eq!(spool.disk().names().len(), 1, "without a record there is no file");
    for _ in 0..3 {
        while spool.has_room() {
            put(&mut spool, 9_000 * MS, 1);
        }
        spool.poll(9_000 * MS);
    }
    assert_eq!(spool.progress().files, 2);
    assert!(spool.close(9_000 * MS));
    assert!(spool.disk().names().iter().all(|name| !is_open(name)));
    let all: Vec<u64> = (0..spool.next()).collect();
    assert_eq!((spool.disk().names().len(), numbers(spool.disk())), (3, all));
}

#[test]
fn on_a_full_disk_records_wait_and_are_written_when_there_is_room_again() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 2);
    spool.poll(100 * MS);
    spool.disk().room = 2_000;
    while spool.has_room() {
        put(&mut spool, 200 * MS, 1);
    }
    let held = spool.progress().held;
    spool.poll(200 * MS);
    assert_eq!(
        spool.fault().map(|error| error.kind()),
        Some(ErrorKind::StorageFull)
    );
    assert_eq!(spool.progress().held, held);
    spool.disk().room = usize::MAX;
    spool.poll(210 * MS);
    assert!(spool.fault().is_some(), "it is not tried all the time");
    spool.poll(250 * MS);
    assert!(spool.fault().is_none());
    assert_eq!(spool.progress().written, 2 + held);
    assert_eq!(numbers(spool.disk()), (0..2 + held).collect::<Vec<_>>());
}

#[test]
fn a_killed_process_loses_its_batch_and_the_next_one_says_so() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 3);
    spool.poll(100 * MS);
    spool.disk().room = 0;
    put(&mut spool, 100 * MS, 4);
    spool.poll(300 * MS);
    let (mut next, found) = open(spool.disk().after_kill());
    let lost = Some((3, 4));
    assert_eq!(
        (found.unfinished, found.records, found.last, found.lost),
        (1, 3, Some(2), lost)
    );
    put(&mut next, Duration::ZERO, 1);
    assert!(next.close(MS));
    let records = next.disk().records();
    let Some((7, Entry::Lost(stated))) = records.get(3) else {
        panic!("{records:?}");
    };
    assert_eq!(
        (stated.first, stated.records, stated.cause),
        (3, 4, LossCause::UncleanEnd)
    );
    assert_eq!(numbers(next.disk()), [0, 1, 2, 7, 8]);
    let (again, found) = open(next.disk().after_kill());
    assert_eq!(
        (found, again.next()),
        (
            Recovered {
                last: Some(8),
                ..found
            },
            9
        )
    );
    assert_eq!((found.unfinished, found.lost), (0, None));
}

#[test]
fn a_torn_tail_is_cut_off_and_a_damaged_line_stays() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 3);
    spool.poll(100 * MS);
    let mut disk = spool.disk().after_kill();
    let name = disk.names()[0].to_owned();
    disk.file_mut(&name)[5] ^= 1;
    disk.file_mut(&name).extend_from_slice(b"{\"crc\":\"0123");
    let (mut next, found) = open(disk);
    assert_eq!((found.torn_octets, found.damaged, found.records), (12, 1, 2));
    assert_eq!(numbers(next.disk()), [1, 2]);
    assert_eq!(next.next(), 3);
}

#[test]
fn files_that_were_read_and_taken_away_are_not_lost() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 3);
    assert!(spool.close(MS));
    let mut disk = spool.disk().after_kill();
    let name = disk.names()[0].to_owned();
    disk.remove(&name).unwrap();
    let (mut next, found) = open(disk);
    assert_eq!((found.last, found.lost, next.next()), (Some(2), None, 3));
    // What was taken behind them and not written is lost all the same.
    next.disk().room = 0;
    put(&mut next, Duration::ZERO, 2);
    next.poll(300 * MS);
    let (_, found) = open(next.disk().after_kill());
    assert_eq!(found.lost, Some((3, 2)));
}

#[test]
fn the_mark_of_an_earlier_version_is_read() {
    let (mut spool, _) = open(FakeDisk::new(1));
    put(&mut spool, Duration::ZERO, 3);
    assert!(spool.close(MS));
    let mut disk = spool.disk().after_kill();
    disk.file_mut("mark").clear();
    let number = format!("{:020}", 6);
    let text = format!("{number} {:08x}\n", crc32c::crc32c(number.as_bytes()));
    disk.file_mut("mark").extend_from_slice(text.as_bytes());
    let (_, found) = open(disk);
    assert_eq!(found.lost, Some((3, 4)));
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let directory = std::env::temp_dir().join(format!("records-unreadable-{}", std::process::id()));
    let name = "usage-00000000000000000000.jsonl";
    // A directory of that name cannot be read as a file, for any user.
    std::fs::create_dir_all(directory.join(name)).unwrap();
    let disk = Directory::open(&directory).unwrap();
    let error = Spool::open(disk, Settings::default(), Duration::ZERO, 0).unwrap_err();
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(error.to_string().starts_with(name), "{error}");
}

/// What was durable in it is gone with it, which a reader sees by the numbers; nothing that waits is.
#[test]
fn records_continue_when_the_file_is_taken_away() {
    let directory = std::env::temp_dir().join(format!("records-taken-away-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&directory);
    let disk = Directory::open(&directory).unwrap();
    let (mut spool, _) = Spool::open(disk, Settings::default(), Duration::ZERO, 0).unwrap();
    let second = Duration::from_secs(1);
    spool.put(Duration::ZERO, 0, &usage(0));
    spool.poll(second);
    assert_eq!(spool.progress().written, 1);
    std::fs::remove_file(directory.join("usage-00000000000000000000.open")).unwrap();
    spool.put(second, 1, &usage(1));
    for seconds in 2..5 {
        spool.poll(second * seconds);
    }
    assert!(spool.fault().is_none(), "{:?}", spool.fault());
    assert!(spool.close(second * 5));
    let left = std::fs::read_to_string(directory.join("usage-00000000000000000001.jsonl")).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    assert_eq!((left.lines().count(), spool.progress().written), (1, 2));
}

#[test]
fn a_file_without_a_record_goes() {
    let mut disk = FakeDisk::new(1);
    disk.create("usage-00000000000000000000.open").unwrap();
    disk.append("usage-00000000000000000000.open", b"\0\0\0").unwrap();
    disk.create("foreign.open").unwrap();
    let (mut spool, found) = open(disk);
    assert_eq!((found.torn_octets, found.last), (3, None));
    assert!(spool.disk().names().is_empty());
    assert!(spool.disk().list().unwrap().contains(&"foreign.open".to_owned()));
}

/// What the caller knows to be durable.
#[derive(Default)]
struct Known {
    durable: Vec<u64>,
    waiting: Vec<u64>,
}

/// Lets a spool work for some steps, with time that passes. Numbers that are taken away by `skips` are never given.
fn work(spool: &mut Spool<FakeDisk>, known: &mut Known, steps: &[(u8, u16)], from: Duration) -> Duration {
    let mut now = from;
    for (count, wait) in steps {
        for _ in 0..*count {
            if !spool.has_room() {
                break;
            }
            let seq = spool.next();
            spool.put(now, seq, &usage(seq));
            known.waiting.push(seq);
        }
        now += u32::from(*wait) * MS;
        spool.poll(now);
        if spool.progress().held == 0 {
            known.durable.append(&mut known.waiting);
        }
    }
    now
}

fn assert_sound(disk: &FakeDisk, known: &Known) -> Result<(), TestCaseError> {
    let records = disk.records();
    let mut audit = Audit::default();
    for (seq, entry) in &records {
        audit.take(*seq, entry);
    }
    prop_assert_eq!(audit.repeated, 0);
    for seq in &known.durable {
        let there: Vec<_> = records.iter().filter(|(other, _)| other == seq).collect();
        prop_assert_eq!(there.len(), 1, "record {}", seq);
        prop_assert_eq!(&there[0].1, &usage(*seq));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// The machine, or the process, stops at any operation, several times over.
    #[test]
    fn what_was_durable_survives_any_end_and_nothing_is_there_twice(
        seed: u64,
        lives in prop::collection::vec((prop::collection::vec((0..12u8, 0..300u16), 1..12), 0..60u32, any::<bool>()), 1..5),
    ) {
        let mut disk = FakeDisk::new(seed);
        let mut known = Known::default();
        for (steps, crash_in, is_power_cut) in lives {
            disk.crash_in = Some(crash_in);
            let mut spool = match Spool::open(disk.clone(), settings(), Duration::ZERO, 5) {
                Ok((spool, _)) => spool,
                Err(_) => {
                    // It stopped while it put things right. The operations until then have been done.
                    disk = stopped_in_recovery(disk, is_power_cut);
                    assert_sound(&disk, &known)?;
                    continue;
                }
            };
            work(&mut spool, &mut known, &steps, Duration::ZERO);
            let left = spool.disk();
            disk = if is_power_cut { left.after_power_cut() } else { left.after_kill() };
            known.waiting.clear();
            assert_sound(&disk, &known)?;
        }
        let (mut spool, _) = open(disk);
        work(&mut spool, &mut known, &[(5, 200)], Duration::ZERO);
        prop_assert!(spool.close(Duration::from_secs(60)));
        known.durable.append(&mut known.waiting);
        assert_sound(spool.disk(), &known)?;
        prop_assert!(spool.disk().names().iter().all(|name| !is_open(name)));
    }

    /// After a kill the process's own mark is there: every gap is stated.
    #[test]
    fn after_a_kill_every_gap_is_stated(
        seed: u64,
        lives in prop::collection::vec((prop::collection::vec((0..12u8, 0..300u16), 1..12), any::<bool>()), 1..5),
    ) {
        let mut disk = FakeDisk::new(seed);
        for (steps, is_full) in lives {
            let (mut spool, _) = open(disk);
            let mut known = Known::default();
            let half = steps.len() / 2;
            let now = work(&mut spool, &mut known, &steps[..half], Duration::ZERO);
            if is_full {
                spool.disk().room = 0;
            }
            work(&mut spool, &mut known, &steps[half..], now);
            disk = spool.disk().after_kill();
        }
        let (mut spool, _) = open(disk);
        spool.close(Duration::from_secs(60));
        let mut audit = Audit::default();
        for (seq, entry) in spool.disk().records() {
            audit.take(seq, &entry);
        }
        prop_assert!(audit.is_sound(), "{:?}", audit);
    }

    /// Operations fail now and then, having done a part or all of it; at last everything is there, once, in order.
    #[test]
    fn what_fails_is_done_again_until_all_is_there_once(
        seed: u64,
        fails_one_in in 2..20usize,
        steps in prop::collection::vec((0..12u8, 0..300u16), 1..40),
    ) {
        let (mut spool, _) = open(FakeDisk::new(seed));
        spool.disk().fails_one_in = fails_one_in;
        let mut known = Known::default();
        let now = work(&mut spool, &mut known, &steps, Duration::ZERO);
        spool.disk().fails_one_in = 0;
        prop_assert!(spool.close(now + Duration::from_secs(60)));
        let all: Vec<u64> = (0..spool.next()).collect();
        prop_assert_eq!(numbers(spool.disk()), all);
        prop_assert_eq!(spool.progress().written, spool.next());
    }
}

/// A disk on which recovery was cut short: the same operations, up to the end.
fn stopped_in_recovery(mut disk: FakeDisk, is_power_cut: bool) -> FakeDisk {
    let _ = Spool::open(Shared(&mut disk), settings(), Duration::ZERO, 5).map(drop);
    if is_power_cut {
        disk.after_power_cut()
    } else {
        disk.after_kill()
    }
}

/// A disk of another user.
struct Shared<'d>(&'d mut FakeDisk);

impl Disk for Shared<'_> {
    fn list(&mut self) -> std::io::Result<Vec<String>> {
        self.0.list()
    }
    fn read<'d>(&'d mut self, name: &str) -> std::io::Result<Box<dyn std::io::Read + 'd>> {
        self.0.read(name)
    }
    fn create(&mut self, name: &str) -> std::io::Result<()> {
        self.0.create(name)
    }
    fn append(&mut self, name: &str, octets: &[u8]) -> std::io::Result<usize> {
        self.0.append(name, octets)
    }
    fn sync(&mut self, name: &str) -> std::io::Result<()> {
        self.0.sync(name)
    }
    fn truncate(&mut self, name: &str, octets: u64) -> std::io::Result<()> {
        self.0.truncate(name, octets)
    }
    fn rename(&mut self, from: &str, to: &str) -> std::io::Result<()> {
        self.0.rename(from, to)
    }
    fn remove(&mut self, name: &str) -> std::io::Result<()> {
        self.0.remove(name)
    }
    fn sync_directory(&mut self) -> std::io::Result<()> {
        self.0.sync_directory()
    }
    fn overwrite(&mut self, name: &str, octets: &[u8]) -> std::io::Result<()> {
        self.0.overwrite(name, octets)
    }
}
