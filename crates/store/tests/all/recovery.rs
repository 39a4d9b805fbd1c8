//! What is said of a log that is damaged, and what is read of it.

use std::time::Duration;

use store::{Damage, Key, OpenError, Recovered, Settings, Store};

use crate::fake_disk::FakeDisk;
use crate::world::settings;

const FIRST: &str = "store-00000000000000000001.log";

fn open(disk: &FakeDisk) -> (Store<FakeDisk>, Recovered) {
    Store::open(disk.clone(), settings(), Duration::ZERO).expect("a disk that works")
}

/// Ten sessions, each a batch, in one segment; the store was closed, or was not.
fn ten(closes: bool) -> FakeDisk {
    let disk = FakeDisk::new(1);
    let settings = Settings {
        segment_octets: 1 << 20,
        ..settings()
    };
    let (mut store, _) = Store::open(disk.clone(), settings, Duration::ZERO).expect("a disk that works");
    for seid in 1..=10_u64 {
        let value = vec![seid as u8; 100];
        store
            .put(Duration::ZERO, &Key::Session(seid), 5, b"head", &value)
            .expect("not too long");
        store.poll(Duration::ZERO);
    }
    if closes {
        assert!(store.close(Duration::ZERO));
    }
    disk.after_kill()
}

/// A record of `ten`, with the mark before it.
const BATCH: usize = 32 + 32 + 8 + 4 + 100 + 4 - 4;

fn change(disk: &FakeDisk, change: impl FnOnce(&mut Vec<u8>)) {
    let mut octets = disk.octets_without_zeros(FIRST);
    change(&mut octets);
    disk.put_file(FIRST, &octets);
}

fn seids(recovered: &Recovered) -> Vec<u64> {
    let mut all: Vec<u64> = recovered
        .iter()
        .map(|live| match live.key {
            Key::Session(seid) => seid,
            other => panic!("{other:?}"),
        })
        .collect();
    all.sort_unstable();
    all
}

#[test]
fn a_torn_tail_is_cut_off() {
    let disk = ten(false);
    let whole = disk.octets_without_zeros(FIRST).len();
    change(&disk, |octets| octets.truncate(whole - 10));
    let (_, found) = open(&disk);
    assert_eq!(seids(&found), (1..10).collect::<Vec<_>>());
    assert_eq!(
        (found.torn_octets, found.damaged.len()),
        (BATCH as u64 - 32 - 10, 0)
    );
    assert_eq!(disk.octets(FIRST).len(), whole - (BATCH - 32));
    let (_, again) = open(&disk.after_kill());
    assert_eq!((again.torn_octets, again.len()), (0, 9));
}

/// What is written before something else is there with it, or not at all: of a batch that was not confirmed a disk may
/// have any part.
#[test]
fn nothing_behind_a_hole_in_the_last_batch_counts() {
    let disk = ten(false);
    let (mut store, _) = open(&disk);
    store.poll(Duration::ZERO);
    let before = store.put(Duration::ZERO, &Key::Response([1; 8]), 0, b"", &[7; 200]);
    before.expect("not too long");
    store.remove(Duration::ZERO, &Key::Session(3));
    store.poll(Duration::ZERO);
    let name = disk.segments().pop().expect("a segment");
    let whole = disk.octets(&name);
    let place = whole.windows(200).position(|octets| octets == [7; 200]);
    let place = place.expect("the response");
    // In the value, in the header of its record, and in the mark before that.
    for hole in [0, 40, 72] {
        let next = disk.after_kill();
        let mut octets = whole.clone();
        octets[place - hole] ^= 1;
        next.put_file(&name, &octets);
        let (_, found) = open(&next);
        assert_eq!(
            (found.len(), found.damaged),
            (10, vec![]),
            "a hole {hole} before the value"
        );
        assert!(found.torn_octets > 200);
    }
    assert_eq!(open(&disk.after_kill()).1.len(), 10);
}

/// A record within one that is damaged is no record: peers choose octets of those that are kept for them.
#[test]
fn a_record_in_a_damaged_record_is_none() {
    let within = {
        let disk = ten(false);
        let (mut store, _) = open(&disk);
        store.remove(Duration::ZERO, &Key::Session(3));
        store.poll(Duration::ZERO);
        let name = disk.segments().pop().expect("a segment");
        disk.octets_without_zeros(&name)[64..].to_vec()
    };
    let disk = ten(true);
    let (mut store, _) = open(&disk);
    let value = [vec![0; 64 - 8], within].concat();
    let put = store.put(Duration::ZERO, &Key::Usage(1), 0, b"", &value);
    put.expect("not too long");
    store.poll(Duration::ZERO);
    let put = store.put(Duration::ZERO, &Key::Usage(2), 0, b"", b"");
    put.expect("not too long");
    store.poll(Duration::ZERO);
    let name = disk.segments().pop().expect("a segment");
    let mut octets = disk.octets(&name);
    let place = octets.windows(value.len()).position(|octets| octets == value);
    octets[place.expect("the value")] ^= 1;
    disk.put_file(&name, &octets);
    let (_, found) = open(&disk);
    // The ten sessions, and what is behind the damage.
    assert_eq!((found.len(), found.damaged.len()), (11, 1));
}

/// A batch takes the place of zeros that were written before it, and no more of the disk.
#[test]
fn zeros_are_written_ahead_and_nothing_is_torn_by_them() {
    let disk = ten(false);
    let (mut store, _) = open(&disk);
    let mut lengths = Vec::new();
    for seid in 0..10 {
        let put = store.put(Duration::ZERO, &Key::Session(seid), 0, b"", &[1; 300]);
        put.expect("not too long");
        store.poll(Duration::ZERO);
        let newest = disk.segments().pop().expect("a segment");
        lengths.push((newest.clone(), disk.octets(&newest).len()));
    }
    let full = settings().segment_octets as usize;
    assert!(
        lengths
            .iter()
            .all(|(name, length)| (name, *length) == (&lengths[0].0, full)),
        "{lengths:?}"
    );
    let (_, found) = open(&disk.after_kill());
    assert_eq!((found.torn_octets, found.damaged.len(), found.len()), (0, 0, 11));
}

#[test]
fn a_damaged_record_is_named_and_passed_over() {
    for closes in [false, true] {
        // The last one is followed by a mark where the store was closed.
        for at in if closes { &[2, 9][..] } else { &[2] } {
            let disk = ten(closes);
            let place = 64 + at * BATCH + 32;
            change(&disk, |octets| octets[place + 60] ^= 1);
            let (_, found) = open(&disk);
            let expected: Vec<u64> = (1..=10).filter(|seid| *seid != *at as u64 + 1).collect();
            assert_eq!(seids(&found), expected);
            let damage = Damage {
                file: FIRST.to_owned(),
                offset: place as u64,
                octets: BATCH as u64 - 32,
                is_unconfirmed: false,
            };
            assert_eq!((found.torn_octets, found.damaged), (0, vec![damage]));
        }
    }
}

#[test]
fn a_segment_whose_header_is_damaged_is_read_all_the_same() {
    let disk = ten(true);
    change(&disk, |octets| octets[0] ^= 1);
    let (_, found) = open(&disk);
    assert_eq!((found.len(), found.damaged.len()), (10, 1));
    assert_eq!((found.damaged[0].offset, found.damaged[0].octets), (0, 64));
}

#[test]
fn a_segment_that_has_not_even_a_header_goes() {
    let disk = ten(true);
    let name = "store-00000000000000000002.log";
    for (octets, torn) in [
        (&[][..], 0),
        (&[0; 700], 0),
        (b"SLUISTOR", 8),
        (b"SLUISTOR\0\0\0", 8),
    ] {
        disk.put_file(name, octets);
        let (_, found) = open(&disk);
        assert_eq!((found.len(), found.torn_octets), (10, torn));
        assert_eq!(disk.segments(), [FIRST]);
    }
}

#[test]
fn a_segment_that_was_taken_away_is_named() {
    let disk = ten(true);
    for _ in 0..2 {
        let (mut store, _) = open(&disk);
        let key = Key::Usage(1);
        store
            .put(Duration::ZERO, &key, 0, b"", b"")
            .expect("not too long");
        store.poll(Duration::ZERO);
    }
    disk.remove_file("store-00000000000000000002.log");
    let (_, found) = open(&disk);
    assert_eq!(found.damaged.len(), 1);
    assert_eq!(found.damaged[0].file, "store-00000000000000000002.log");
    assert_eq!(found.len(), 11);
}

#[test]
fn another_version_is_refused_by_name() {
    let disk = ten(true);
    change(&disk, |octets| {
        octets[9] = 3;
        let sum = crc32c::crc32c(&octets[..60]);
        octets[60..64].copy_from_slice(&sum.to_be_bytes());
    });
    let Err(error) = Store::open(disk.clone(), settings(), Duration::ZERO) else {
        panic!("it is read");
    };
    assert!(matches!(
        error,
        OpenError::Version {
            version: 3,
            newest: 2,
            ..
        }
    ));
    assert_eq!(
        error.to_string(),
        format!("{FIRST}: is of version 3; this build reads versions 1 to 2: a newer Sluice wrote it")
    );
    // Nothing was changed.
    assert_eq!(disk.segments(), [FIRST]);
}

#[test]
fn files_of_other_names_are_left_alone() {
    let disk = ten(true);
    for name in ["store-1.log", "notes", "store-00000000000000000000.log"] {
        disk.put_file(name, b"dear");
    }
    let (_, found) = open(&disk);
    assert_eq!((found.segments, found.len()), (1, 10));
    assert_eq!(disk.octets("notes"), b"dear");
}

#[test]
fn numbers_of_operations_continue() {
    let disk = ten(false);
    let (mut store, found) = open(&disk);
    assert_eq!((found.last.0, store.last().0), (10, 10));
    // The last batch may not have been confirmed: it is written again first.
    assert_eq!(store.durable().0, 9);
    store.poll(Duration::ZERO);
    assert_eq!(store.durable().0, 10);
    let lsn = store
        .put(Duration::ZERO, &Key::Node, 0, b"", b"x")
        .expect("not too long");
    assert_eq!(lsn.0, 11);
}

/// A record that is damaged when it is to be compacted is said, and the segment does not stay for it.
#[test]
fn what_compaction_cannot_read_is_said() {
    let disk = ten(true);
    let (mut store, _) = open(&disk);
    change(&disk, |octets| octets[64 + 3 * BATCH + 32 + 50] ^= 1);
    let mut now = Duration::ZERO;
    let mut lost = Vec::new();
    for number in 0..4_000_u64 {
        store
            .put(now, &Key::Usage(number % 3), 0, b"", &[7; 200])
            .expect("not too long");
        now += Duration::from_millis(1);
        store.poll(now);
        lost.extend(store.take_unreadable());
    }
    assert_eq!(lost, [Key::Session(4)]);
    assert_eq!((store.progress().unreadable, store.progress().records), (1, 12));
    assert!(!disk.segments().contains(&FIRST.to_owned()));
    let (_, found) = open(&disk.after_kill());
    assert_eq!((found.len(), found.damaged), (12, vec![]));
}

/// A page that cannot be read costs the records on it, and no others; it is tried for a long time before.
#[test]
fn a_page_that_cannot_be_read_costs_its_records_alone() {
    let disk = FakeDisk::new(1);
    let (mut store, _) = open(&disk);
    let mut now = Duration::ZERO;
    for seid in 0..39 {
        store
            .put(now, &Key::Session(seid), 0, b"", &[seid as u8; 480])
            .expect("not too long");
    }
    store.poll(now);
    // Of the fourth page the first half, on which some of them are.
    disk.state().bad = Some((FIRST.to_owned(), 12_288..14_336));
    let (mut lost, mut failures) = (Vec::new(), 0);
    for _ in 0..400 {
        store
            .put(now, &Key::Node, 0, b"", &[7; 400])
            .expect("not too long");
        now += settings().retry;
        store.poll(now);
        assert_eq!(store.durable(), store.last(), "puts do not wait for compaction");
        lost.extend(store.take_unreadable());
        failures = store.progress().failures;
    }
    assert!(failures > 50, "{failures}");
    assert!(!disk.segments().contains(&FIRST.to_owned()));
    // Records of 520 octets behind the header and a mark.
    let on_page = (12_288 - 96) / 520..=(16_384 - 96) / 520;
    assert!(!lost.is_empty());
    for key in &lost {
        let Key::Session(seid) = key else {
            panic!("{key:?}")
        };
        assert!(on_page.contains(seid), "{lost:?}");
    }
    let (_, found) = open(&disk.after_kill());
    assert_eq!(found.len(), 40 - lost.len());
}

#[test]
fn locations_stay_good_while_compaction_is_on_hold() {
    let disk = ten(true);
    let (mut store, found) = open(&disk);
    store.hold_compaction(true);
    let mut reader = store.reader().expect("a reader");
    let mut now = Duration::ZERO;
    for number in 0..2_000_u64 {
        store
            .put(now, &Key::Usage(number % 3), 0, b"", &[7; 200])
            .expect("not too long");
        now += Duration::from_millis(1);
        store.poll(now);
    }
    for live in found.iter() {
        let Key::Session(seid) = live.key else { panic!() };
        assert_eq!(
            reader.read(&live.location).expect("it is there"),
            vec![seid as u8; 100]
        );
    }
    let location = store.location(&Key::Usage(1)).expect("it is durable");
    assert_eq!(reader.read(&location).expect("it is there"), [7; 200]);
    store.hold_compaction(false);
    while store.poll_timeout().is_some() {
        now += Duration::from_millis(1);
        store.poll(now);
        store.index_slice(now);
    }
    let gone = found.iter().next().expect("one").location;
    let error = reader.read(&gone).expect_err("its segment is gone");
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
    let progress = store.progress();
    assert!(progress.octets < 4 * 4_096, "{progress:?}");
}

/// A batch that is longer than all that there may be is compacted without another one.
#[test]
fn a_batch_longer_than_its_segment_does_not_stop_puts() {
    let disk = FakeDisk::new(1);
    let settings = Settings {
        batch_octets: 1 << 20,
        ..settings()
    };
    let (mut store, _) = Store::open(disk, settings, Duration::ZERO).expect("a disk that works");
    for _ in 0..100 {
        store
            .put(Duration::ZERO, &Key::Node, 0, b"", &[0; 2_000])
            .expect("not too long");
    }
    store.poll(Duration::ZERO);
    while store.poll_timeout().is_some() {
        store.poll(Duration::ZERO);
        store.index_slice(Duration::ZERO);
    }
    assert!(store.has_room(), "{:?}", store.progress());
}

#[test]
fn what_is_too_long_is_refused() {
    let (mut store, _) = open(&FakeDisk::new(1));
    let long = vec![0; store::LONGEST_VALUE + 1];
    let error = store
        .put(Duration::ZERO, &Key::Node, 0, b"", &long)
        .expect_err("too long");
    assert_eq!(
        error.to_string(),
        "the value has 2097153 octets; at most 2097152 can be stored"
    );
    let key = Key::Application(vec![0; store::LONGEST_ID + 1]);
    assert_eq!(
        store
            .put(Duration::ZERO, &key, 0, b"", b"")
            .expect_err("too long")
            .what,
        "identifier"
    );
    let head = vec![0; store::LONGEST_HEAD + 1];
    assert_eq!(
        store
            .put(Duration::ZERO, &Key::Node, 0, &head, b"")
            .expect_err("too long")
            .what,
        "head"
    );
    assert_eq!((store.last().0, store.poll_timeout()), (0, None));
}

#[test]
fn a_value_of_the_greatest_length_is_kept_and_compacted() {
    let disk = FakeDisk::new(1);
    let (mut store, _) = open(&disk);
    let (key, head) = (
        Key::Application(vec![1; store::LONGEST_ID]),
        vec![2; store::LONGEST_HEAD],
    );
    let value = vec![3; store::LONGEST_VALUE];
    store
        .put(Duration::ZERO, &key, 511, &head, &value)
        .expect("not too long");
    let mut now = Duration::ZERO;
    for _ in 0..3_000 {
        store
            .put(now, &Key::Node, 0, b"", &[0; 2_000])
            .expect("not too long");
        now += Duration::from_millis(1);
        store.poll(now);
    }
    assert!(!disk.segments().contains(&FIRST.to_owned()), "it was compacted");
    let (store, found) = open(&disk.after_kill());
    let live = found.iter().find(|live| live.key == key).expect("it is there");
    assert_eq!((live.bucket, live.head), (511, &head[..]));
    let read = store.reader().expect("a reader").read(&live.location);
    assert_eq!(read.expect("it is there"), value);
}
