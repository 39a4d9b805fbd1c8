//! The form, by stored octets: a later version proves by them that it still reads this one.

use std::path::{Path, PathBuf};
use std::time::Duration;

use store::{Key, Live, Lsn, Settings, Store};

use crate::fake_disk::FakeDisk;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stored/v1")
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
    store.remove(now, &Key::Session(4 << 32 | 7));
    store.poll(now);
    // Not closed: what is last may be unconfirmed.
    disk
}

fn stored() -> FakeDisk {
    let disk = FakeDisk::new(1);
    for name in ["store-00000000000000000001.log", "store-00000000000000000002.log"] {
        disk.put_file(name, &std::fs::read(folder().join(name)).expect("stored octets"));
    }
    disk
}

/// Writes them where `SLUICE_STORED` asks for it, which is right for a new version only.
#[test]
fn what_is_written_are_the_stored_octets() {
    let disk = written();
    if std::env::var_os("SLUICE_STORED").is_some() {
        std::fs::create_dir_all(folder()).expect("a folder");
        for name in disk.segments() {
            std::fs::write(folder().join(&name), disk.octets_without_zeros(&name)).expect("written");
        }
    }
    assert_eq!(disk.segments().len(), 2);
    for name in disk.segments() {
        assert!(
            disk.octets_without_zeros(&name) == stored().octets(&name),
            "{name} differs"
        );
    }
}

#[test]
fn version_1_is_read() {
    let (store, found) = Store::open(stored(), settings(), Duration::ZERO).expect("version 1");
    assert_eq!((found.len(), found.torn_octets, found.damaged.len()), (23, 0, 0));
    assert_eq!((found.records, found.last), (25, Lsn(25)));
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

/// By hand, from the description of the form.
#[test]
fn the_first_octets_are_as_described() {
    let octets = written().octets("store-00000000000000000001.log");
    let mut header = b"SLUISTOR\0\x01\0\0\0\0\0\0".to_vec();
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
