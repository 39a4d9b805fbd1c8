//! Indexes of segments: made of those that are full, read in their place, and relied on by nothing.

use std::time::Duration;

use proptest::prelude::*;
use store::{Key, Recovered, Settings, Store};

use crate::fake_disk::FakeDisk;
use crate::world::{World, settings, values};

const FIRST: &str = "store-00000000000000000001.index";

fn open(disk: &FakeDisk) -> (Store<FakeDisk>, Recovered) {
    Store::open(disk.clone(), settings(), Duration::ZERO).expect("a disk that works")
}

/// Polls until there is nothing left to do.
fn settle(store: &mut Store<FakeDisk>) {
    for _ in 0..10_000 {
        if store.poll_timeout().is_none() {
            return;
        }
        store.poll(Duration::ZERO);
        store.index_slice(Duration::ZERO);
    }
    panic!("the store always has something to do");
}

/// A store that has had this number of sessions, with heads, each in a batch of its own.
fn with_sessions(sessions: u64) -> FakeDisk {
    let disk = FakeDisk::new(7);
    let (mut store, _) = open(&disk);
    for seid in 1..=sessions {
        let head = seid.to_be_bytes();
        let put = store.put(Duration::ZERO, &Key::Session(seid), 3, &head, &[seid as u8; 200]);
        put.expect("not too long");
        store.poll(Duration::ZERO);
    }
    settle(&mut store);
    disk
}

#[test]
fn each_segment_but_the_newest_has_one() {
    let disk = with_sessions(60);
    let segments = disk.segments();
    assert!(segments.len() > 3, "{segments:?}");
    let expected: Vec<_> = segments
        .iter()
        .map(|name| name.replace(".log", ".index"))
        .collect();
    assert_eq!(disk.indexes(), expected[..expected.len() - 1]);
    let (store, _) = open(&disk.after_kill());
    let octets: usize = disk.indexes().iter().map(|name| disk.octets(name).len()).sum();
    assert_eq!(store.progress().segment_index_octets, octets as u64);
    // A value of 200 octets is not in it.
    assert!(octets < 60 * (24 + 8 + 8) + 60 * 24 + 64 * segments.len());
}

/// What is in a segment is not looked at, where its index is right: a damaged value is found when it is read.
#[test]
fn it_is_read_in_place_of_its_segment() {
    let disk = with_sessions(60);
    let mut octets = disk.octets(&disk.segments()[0]);
    let place = octets
        .windows(200)
        .position(|value| value == [3; 200])
        .expect("the third value");
    octets[place + 100] ^= 1;
    disk.put_file(&disk.segments()[0], &octets);
    let (store, found) = open(&disk.after_kill());
    assert_eq!((found.len(), found.damaged.len()), (60, 0));
    let mut reader = store.reader().expect("a reader");
    for live in found.iter() {
        let read = reader.read(&live.location);
        match live.key {
            Key::Session(3) => {
                let error = read.expect_err("it is damaged");
                assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
                assert!(error.to_string().starts_with(&disk.segments()[0]), "{error}");
            }
            Key::Session(seid) => assert_eq!(read.expect("it is whole"), [seid as u8; 200]),
            other => panic!("{other:?}"),
        }
    }
    disk.remove_file(FIRST);
    let (_, found) = open(&disk.after_kill());
    assert_eq!((found.len(), found.damaged.len()), (59, 1));
}

/// All sessions depend on a few records: of those a segment may have an older one.
#[test]
fn a_damaged_association_is_looked_for_in_the_segment() {
    let disk = FakeDisk::new(3);
    let (mut store, _) = open(&disk);
    let key = Key::Association(b"smf".to_vec());
    let values = [[5; 40], [6; 40]];
    for value in &values {
        let put = store.put(Duration::ZERO, &key, 0, b"", value);
        put.expect("not too long");
        store.poll(Duration::ZERO);
    }
    for seid in 1..=40_u64 {
        let put = store.put(Duration::ZERO, &Key::Session(seid), 0, b"head", &[1; 200]);
        put.expect("not too long");
        store.poll(Duration::ZERO);
    }
    settle(&mut store);
    let first = disk.segments()[0].clone();
    let mut octets = disk.octets(&first);
    let place = octets.windows(40).position(|value| value == [6; 40]);
    octets[place.expect("the second value")] ^= 1;
    disk.put_file(&first, &octets);
    let (store, found) = open(&disk.after_kill());
    let association = found.others().find(|live| live.key == key);
    let location = association.expect("the first value").location;
    let mut reader = store.reader().expect("a reader");
    assert_eq!(reader.read(&location).expect("it is whole"), [5; 40]);
    assert_eq!((found.len(), found.damaged.len()), (41, 1));
}

#[test]
fn one_without_its_segment_goes() {
    let disk = with_sessions(60);
    let stray = "store-00000000000000000999.index";
    disk.put_file(stray, b"SLUISIDX");
    disk.remove_file(&disk.segments()[0]);
    let next = disk.after_kill();
    let _ = open(&next);
    assert!(!next.indexes().iter().any(|name| name == stray || name == FIRST));
    assert!(!next.indexes().is_empty());
}

/// A process of before has left none.
#[test]
fn one_that_is_missing_is_made_by_the_next_process() {
    let disk = with_sessions(60);
    let there = disk.indexes();
    for name in &there {
        disk.remove_file(name);
    }
    let next = disk.after_kill();
    let (mut store, _) = open(&next);
    settle(&mut store);
    for name in there {
        assert!(next.octets(&name) == disk_with_all(&name), "{name} differs");
    }
}

/// The index as the process that wrote the segment has made it.
fn disk_with_all(name: &str) -> Vec<u8> {
    with_sessions(60).octets(name)
}

#[test]
fn none_is_made_of_a_segment_that_is_damaged() {
    let disk = with_sessions(60);
    let mut octets = disk.octets(&disk.segments()[0]);
    octets[700] ^= 1;
    disk.put_file(&disk.segments()[0], &octets);
    disk.remove_file(FIRST);
    let next = disk.after_kill();
    let (mut store, _) = open(&next);
    settle(&mut store);
    assert!(!next.indexes().contains(&FIRST.to_owned()));
}

/// A segment that is read a slice at a time, with a record that is longer than a slice.
#[test]
fn slices_end_within_records() {
    let disk = FakeDisk::new(1);
    let small = Settings {
        slice_octets: 100,
        ..settings()
    };
    let (mut store, _) = Store::open(disk.clone(), small, Duration::ZERO).expect("a disk that works");
    for seid in 1..=40_u64 {
        let value = vec![1; (seid as usize * 37) % 900];
        let put = store.put(Duration::ZERO, &Key::Session(seid), 0, b"head", &value);
        put.expect("not too long");
        store.poll(Duration::ZERO);
    }
    settle(&mut store);
    assert!(disk.indexes().len() > 2);
    let whole = open(&disk.after_kill()).1;
    assert_eq!(whole.len(), 40);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever becomes of the octets of an index: all is there, and as it was.
    #[test]
    fn what_is_no_index_any_more_is_not_used(
        seed: u64,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cuts in any::<prop::sample::Index>(),
        is_cut: bool,
    ) {
        let mut world = World::new(seed);
        world.keys = 120;
        world.steps(80);
        world.settle();
        let expected = world.model.now.clone();
        let disk = world.disk.after_kill();
        let names = disk.indexes();
        prop_assume!(!names.is_empty());
        for (which, place, octet) in damage {
            let name = which.get(&names);
            let mut octets = disk.octets(name);
            if octets.is_empty() {
                continue;
            }
            let place = place.index(octets.len());
            octets[place] ^= octet;
            if is_cut {
                octets.truncate(cuts.index(octets.len()));
            }
            disk.put_file(name, &octets);
        }
        let (_, recovered) = Store::open(disk, settings(), Duration::ZERO).expect("a disk that works");
        prop_assert_eq!(values(&recovered), expected);
        prop_assert!(recovered.damaged.is_empty());
    }
}
