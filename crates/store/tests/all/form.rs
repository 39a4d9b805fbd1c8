//! The form, by stored octets: a later version proves by them that it still reads this one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{Key, Live, Lsn, Recovered, Settings, Store, VERSION};

use crate::fake_disk::FakeDisk;

fn folder(version: u16) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/stored/v{version}"))
}

fn settings() -> Settings {
    Settings {
        segment_octets: 4_096,
        reserve_octets: 0,
        ..Settings::default()
    }
}

/// What wrote the stored octets. What it does stays as it is.
fn written() -> FakeDisk {
    let disk = FakeDisk::new(1);
    let now = Duration::ZERO;
    let (mut store, _) = Store::open(disk.clone(), settings(), now).expect("a disk that works");
    let mut put = |key: Key, bucket, head: &[u8], value: &[u8]| {
        store.put(now, &key, bucket, head, value).expect("not too long");
        store.poll(now);
    };
    put(Key::Node, 0, b"", b"the node");
    put(
        Key::Association(b"smf.example".to_vec()),
        0,
        b"",
        b"an association",
    );
    put(Key::Application(b"app".to_vec()), 0, b"pfd", b"");
    for seid in 1..=20_u64 {
        let value: Vec<u8> = (0..200 + seid).map(|octet| (octet * seid) as u8).collect();
        put(
            Key::Session(seid << 32 | 7),
            400 + seid as u16,
            &[seid as u8; 11],
            &value,
        );
    }
    put(Key::Usage(3 << 32 | 7), 403, b"", b"usage");
    put(Key::Response([0, 0, 0, 5, 0, 0, 0, 7]), 0, b"", b"a response");
    let last = Key::LastUsage([0, 0, 0, 5, 0, 0, 0, 7, 0, 2]);
    put(last, 0, b"", b"unacknowledged");
    store.remove(now, &Key::Session(4 << 32 | 7));
    store.poll(now);
    // Not closed: what is last may be unconfirmed.
    disk
}

fn stored(version: u16) -> FakeDisk {
    let disk = FakeDisk::new(1);
    for name in ["store-00000000000000000001.log", "store-00000000000000000002.log"] {
        let octets = std::fs::read(folder(version).join(name));
        disk.put_file(name, &octets.expect("stored octets"));
    }
    disk
}

/// Writes them where `SLUICE_STORED` asks for it, which is right for a new version only.
#[test]
fn what_is_written_are_the_stored_octets() {
    let disk = written();
    if std::env::var_os("SLUICE_STORED").is_some() {
        std::fs::create_dir_all(folder(VERSION)).expect("a folder");
        for name in disk.segments() {
            std::fs::write(folder(VERSION).join(&name), disk.octets_without_zeros(&name)).expect("written");
        }
    }
    assert_eq!(disk.segments().len(), 2);
    for name in disk.segments() {
        assert!(
            disk.octets_without_zeros(&name) == stored(VERSION).octets(&name),
            "{name} differs"
        );
    }
}

/// What both versions have in the stored octets.
fn check_common(store: &Store<FakeDisk>, found: &Recovered) {
    let of = |key: Key| found.iter().find(|live| live.key == key);
    let live: Live<'_> = of(Key::Session(9 << 32 | 7)).expect("it is there");
    assert_eq!((live.bucket, live.head, live.lsn), (409, &[9; 11][..], Lsn(12)));
    let mut reader = store.reader().expect("a reader");
    let expected: Vec<u8> = (0..209).map(|octet: u64| (octet * 9) as u8).collect();
    assert_eq!(reader.read(&live.location).expect("a value"), expected);
    assert_eq!(of(Key::Session(4 << 32 | 7)), None);
    assert_eq!(
        of(Key::Application(b"app".to_vec())).expect("it is there").head,
        b"pfd"
    );
    let usage = of(Key::Usage(3 << 32 | 7)).expect("it is there");
    assert_eq!(reader.read(&usage.location).expect("a value"), b"usage");
    let node = of(Key::Node).expect("it is there");
    assert_eq!(reader.read(&node.location).expect("a value"), b"the node");
}

#[test]
fn version_1_is_read() {
    let (store, found) = Store::open(stored(1), settings(), Duration::ZERO).expect("version 1");
    assert_eq!((found.len(), found.torn_octets, found.damaged.len()), (23, 0, 0));
    assert_eq!((found.records, found.last), (25, Lsn(25)));
    check_common(&store, &found);
}

#[test]
fn version_2_is_read() {
    let (store, found) = Store::open(stored(2), settings(), Duration::ZERO).expect("version 2");
    assert_eq!((found.len(), found.torn_octets, found.damaged.len()), (25, 0, 0));
    assert_eq!((found.records, found.last), (27, Lsn(27)));
    check_common(&store, &found);
    let mut reader = store.reader().expect("a reader");
    let key = Key::LastUsage([0, 0, 0, 5, 0, 0, 0, 7, 0, 2]);
    let live = found.iter().find(|live| live.key == key).expect("it is there");
    assert_eq!(reader.read(&live.location).expect("a value"), b"unacknowledged");
}

/// What is written behind version 1 is of the version that is written now, and both are read together.
#[test]
fn a_store_of_version_1_goes_on_as_version_2() {
    let disk = stored(1);
    let key = Key::LastUsage([7; 10]);
    {
        let opened = Store::open(disk.clone(), settings(), Duration::ZERO);
        let (mut store, _) = opened.expect("version 1");
        let put = store.put(Duration::ZERO, &key, 0, b"", b"unacknowledged");
        put.expect("not too long");
        store.poll(Duration::ZERO);
    }
    let newest = disk.segments().pop().expect("a segment");
    assert_eq!(disk.octets(&newest).get(8..10), Some(&[0, 2][..]));
    let (store, found) = Store::open(disk, settings(), Duration::ZERO).expect("both versions");
    check_common(&store, &found);
    assert!(found.iter().any(|live| live.key == key));
}

/// By hand, from the description of the form.
#[test]
fn the_first_octets_are_as_described() {
    let octets = written().octets("store-00000000000000000001.log");
    let mut header = b"SLUISTOR\0\x02\0\0\0\0\0\0".to_vec();
    header.extend_from_slice(&1_u64.to_be_bytes());
    header.resize(60, 0);
    header.extend_from_slice(&crc32c::crc32c(&header).to_be_bytes());
    let record = |kind: u8, table: u8, lsn: u8, value: &[u8]| {
        let mut record = b"SlRc".to_vec();
        record.extend_from_slice(&[kind, table, 0, 0]);
        record.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, lsn]);
        record.extend_from_slice(&[0, 0, 0, value.len() as u8, 0, 0, 0, 0]);
        record.extend_from_slice(&crc32c::crc32c(value).to_be_bytes());
        record.extend_from_slice(&crc32c::crc32c(&record).to_be_bytes());
        record.extend_from_slice(value);
        record.resize(record.len().next_multiple_of(8), 0);
        record
    };
    let expected = [header, record(3, 0, 0, b""), record(1, 1, 1, b"the node")].concat();
    assert_eq!(&octets[..expected.len()], expected);
}
