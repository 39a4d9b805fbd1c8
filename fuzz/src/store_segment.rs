//! Any octets as a segment of the store, with and without a right header, and as a record with right check sums: the
//! store opens; what it has is read back, and is there again for the next process. Any octets as the index of a segment
//! with right check sums: the store opens, and takes what comes.

use std::collections::BTreeMap;
use std::io::{self, Cursor, ErrorKind, Read};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use disk::Disk;
use store::{Key, OpenError, ReadAt, Settings, Store, StoreDisk};

/// A disk in memory.
#[derive(Clone, Default)]
struct Memory(Arc<Mutex<BTreeMap<String, Vec<u8>>>>);

impl Memory {
    fn with<T>(&self, name: &str, action: impl FnOnce(&mut Vec<u8>) -> T) -> io::Result<T> {
        let mut files = self.0.lock().expect("no thread panics with it");
        Ok(action(files.get_mut(name).ok_or(ErrorKind::NotFound)?))
    }

    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        self.0.lock().expect("no thread panics with it").clone()
    }
}

impl Disk for Memory {
    fn list(&mut self) -> io::Result<Vec<String>> {
        Ok(self.files().into_keys().collect())
    }

    fn read<'d>(&'d mut self, name: &str) -> io::Result<Box<dyn Read + 'd>> {
        self.with(name, |octets| -> Box<dyn Read> {
            Box::new(Cursor::new(octets.clone()))
        })
    }

    fn create(&mut self, name: &str) -> io::Result<()> {
        let mut files = self.0.lock().expect("no thread panics with it");
        files.insert(name.to_owned(), Vec::new());
        Ok(())
    }

    fn append(&mut self, name: &str, more: &[u8]) -> io::Result<usize> {
        self.with(name, |octets| octets.extend_from_slice(more))?;
        Ok(more.len())
    }

    fn sync(&mut self, _: &str) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&mut self, name: &str, to: u64) -> io::Result<()> {
        self.with(name, |octets| octets.truncate(to as usize))
    }

    fn rename(&mut self, _: &str, _: &str) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }

    fn remove(&mut self, name: &str) -> io::Result<()> {
        let mut files = self.0.lock().expect("no thread panics with it");
        files.remove(name).map(drop).ok_or(ErrorKind::NotFound.into())
    }

    fn sync_directory(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn overwrite(&mut self, _: &str, _: &[u8]) -> io::Result<()> {
        Err(ErrorKind::Unsupported.into())
    }
}

impl StoreDisk for Memory {
    type Reads = Memory;

    fn reads(&self) -> io::Result<Memory> {
        Ok(self.clone())
    }

    fn free_octets(&mut self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    fn write_at(&mut self, name: &str, offset: u64, octets: &[u8]) -> io::Result<usize> {
        self.with(name, |there| {
            let (from, end) = (offset as usize, offset as usize + octets.len());
            there.resize(there.len().max(end), 0);
            there[from..end].copy_from_slice(octets);
        })?;
        Ok(octets.len())
    }

    fn reserve(&mut self, _: &str, _: u64) -> io::Result<()> {
        Ok(())
    }
}

impl ReadAt for Memory {
    fn read_at(&mut self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.with(name, |octets| {
            let found = octets.get(offset as usize..).unwrap_or_default();
            let octets = found.len().min(into.len());
            into[..octets].copy_from_slice(&found[..octets]);
            octets
        })
    }

    fn forget(&mut self, _: &str) {}
}

const SETTINGS: Settings = Settings {
    segment_octets: 4_096,
    batch_octets: 8 << 20,
    garbage_percent: 100,
    slice_octets: 512,
    reserve_octets: 64 << 20,
    retry: Duration::from_secs(1),
};

/// What a store has: of each key the bucket, head and value.
type Values = BTreeMap<Key, (u16, Vec<u8>, Vec<u8>)>;

fn open(disk: &Memory) -> Option<(Store<Memory>, Values)> {
    let (store, found) = match Store::open(disk.clone(), SETTINGS, Duration::ZERO) {
        Ok(opened) => opened,
        Err(OpenError::Version { .. }) => return None,
        Err(OpenError::Disk { error, .. }) => panic!("{error}"),
    };
    let mut reader = store.reader().expect("a reader");
    let values: Values = found
        .iter()
        .map(|live| {
            let value = reader.read(&live.location).expect("it was found there");
            (live.key, (live.bucket, live.head.to_vec(), value))
        })
        .collect();
    assert_eq!(values.len(), found.len());
    Some((store, values))
}

fn read(files: &[&[u8]]) {
    let disk = Memory::default();
    for (octets, number) in files.iter().zip(1..) {
        let name = format!("store-{number:020}.log");
        disk.0
            .lock()
            .expect("no thread panics with it")
            .insert(name, octets.to_vec());
    }
    let Some((mut store, mut values)) = open(&disk) else {
        return;
    };
    let mut now = Duration::ZERO;
    // Enough for some compaction.
    for number in 0..24 {
        let value = vec![number; 300];
        store.put(now, &Key::Node, 0, b"", &value).expect("not too long");
        now += Duration::from_secs(1);
        store.poll(now);
        store.index_slice(now);
        assert!(store.fault().is_none(), "{:?}", store.fault());
    }
    while store.poll_timeout().is_some() {
        now += Duration::from_secs(1);
        store.poll(now);
        store.index_slice(now);
    }
    assert_eq!(store.take_unreadable(), []);
    values.insert(Key::Node, (0, Vec::new(), vec![23; 300]));
    let (_, again) = open(&disk).expect("what was written");
    assert!(again == values, "{again:?} is not {values:?}");
}

/// The header of a segment, with one before it that has this many octets.
fn header(number: u64, before: Option<u64>) -> Vec<u8> {
    let fields = before.map(|octets| [number - 1, octets, octets]);
    let list: Vec<u8> = fields.into_iter().flatten().flat_map(u64::to_be_bytes).collect();
    let mut header = b"SLUISTOR\0\x01\0\0\0\0\0\0".to_vec();
    header.extend_from_slice(&number.to_be_bytes());
    header.extend_from_slice(&u32::from(before.is_some()).to_be_bytes());
    header.extend_from_slice(&crc32c::crc32c(&list).to_be_bytes());
    header.resize(60, 0);
    header.extend_from_slice(&crc32c::crc32c(&header).to_be_bytes());
    [header, list].concat()
}

/// See the module.
pub fn run(data: &[u8]) {
    // One of them, by what matters to none of them.
    match data.len() % 4 {
        0 => read(&[data]),
        1 => with_headers(data),
        2 => with_sums(data),
        _ => as_index(data),
    }
}

/// An index that says of its segment what the segment does not have.
fn as_index(data: &[u8]) {
    let disk = Memory::default();
    let first = [header(1, None), vec![0; 8 << 10]].concat();
    let octets = first.len() as u64;
    let mut index = b"SLUISIDX\0\x01\0\0\0\0\0\0".to_vec();
    for number in [1, octets, data.len() as u64, 0, 0] {
        index.extend_from_slice(&number.to_be_bytes());
    }
    index.extend_from_slice(&crc32c::crc32c(data).to_be_bytes());
    let sum = crc32c::crc32c(&index);
    index.extend_from_slice(&sum.to_be_bytes());
    index.extend_from_slice(data);
    let files = [
        ("store-00000000000000000001.log", first),
        ("store-00000000000000000001.index", index),
        ("store-00000000000000000002.log", header(2, Some(octets))),
    ];
    let files = files.map(|(name, octets)| (name.to_owned(), octets));
    disk.0.lock().expect("no thread panics with it").extend(files);
    let opened = Store::open(disk, SETTINGS, Duration::ZERO);
    let (mut store, found) = opened.expect("a disk that works");
    let mut reader = store.reader().expect("a reader");
    for live in found.iter() {
        let error = reader.read(&live.location).expect_err("there is none");
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }
    for seconds in 0..200 {
        let now = Duration::from_secs(seconds);
        store
            .put(now, &Key::Node, 0, b"", &[0; 300])
            .expect("not too long");
        store.poll(now);
        store.index_slice(now);
    }
}

fn with_headers(data: &[u8]) {
    let first = [&header(1, None), data].concat();
    let second = [&header(2, Some(first.len() as u64)), data].concat();
    read(&[&first, &second]);
}

/// A record as the octets say, so that the check sums do not keep it out.
fn with_sums(data: &[u8]) {
    if let Some((said, content)) = data.split_at_checked(20) {
        let mut record = [b"SlRc", said].concat();
        record.extend_from_slice(&crc32c::crc32c(content).to_be_bytes());
        record.extend_from_slice(&crc32c::crc32c(&record).to_be_bytes());
        read(&[&[&header(1, None), &record[..], content].concat()]);
    }
}
