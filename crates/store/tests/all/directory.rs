//! A store in a directory of the file system.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use disk::Directory;
use store::{Key, Settings, Store};

/// A directory of this test alone, removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("store-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir(&path).expect("a directory");
        Scratch(path)
    }

    fn path(&self) -> PathBuf {
        self.0.join("store")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings() -> Settings {
    Settings {
        segment_octets: 64 << 10,
        reserve_octets: 256 << 10,
        ..Settings::default()
    }
}

#[test]
fn it_is_there_for_the_next_process_and_read_by_other_threads() {
    let scratch = Scratch::new("next");
    let now = Duration::ZERO;
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (mut store, _) = Store::open(directory, settings(), now).expect("a store");
    for number in 0..1_000_u64 {
        let key = Key::Session(number % 100);
        store
            .put(now, &key, 1, b"head", &number.to_be_bytes())
            .expect("not too long");
        if number % 10 == 9 {
            store.poll(now);
        }
    }
    assert!(store.close(now));
    assert!(store.fault().is_none(), "{:?}", store.fault());
    assert_eq!(
        fs::metadata(scratch.path().join("reserve"))
            .expect("a reserve")
            .len(),
        256 << 10
    );
    drop(store);
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (store, found) = Store::open(directory, settings(), now).expect("a store");
    assert_eq!((found.len(), found.damaged.len(), found.torn_octets), (100, 0, 0));
    let mut reader = store.reader().expect("a reader");
    std::thread::spawn(move || {
        for live in found.iter() {
            let Key::Session(seid) = live.key else { panic!() };
            assert_eq!(
                reader.read(&live.location).expect("a value"),
                (900 + seid).to_be_bytes()
            );
        }
    })
    .join()
    .expect("the reader's thread");
}

/// Else the room of a removed segment would not be free before the process ends.
#[test]
fn a_segment_that_compaction_removed_is_not_kept_open() {
    let scratch = Scratch::new("open");
    let mut now = Duration::ZERO;
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (mut store, _) = Store::open(directory, settings(), now).expect("a store");
    for number in 0..2_000_u64 {
        let key = Key::Session(if number < 20 { number } else { 20 });
        store.put(now, &key, 1, b"", &[7; 2_000]).expect("not too long");
        if number % 16 == 0 {
            now += Duration::from_millis(1);
            store.poll(now);
        }
    }
    assert!(store.progress().removed_segments > 5, "{:?}", store.progress());
    let open = fs::read_dir("/proc/self/fd")
        .expect("Linux")
        .filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    let ours: Vec<PathBuf> = open.filter(|path| path.starts_with(scratch.path())).collect();
    assert!(!ours.is_empty());
    let removed = ours
        .iter()
        .find(|path| path.to_string_lossy().ends_with("(deleted)"));
    assert_eq!(removed, None);
}

#[test]
fn a_second_process_is_refused() {
    let scratch = Scratch::new("second");
    let first = Directory::open(&scratch.path()).expect("a directory");
    let (_store, _) = Store::open(first, settings(), Duration::ZERO).expect("a store");
    let error = Directory::open(&scratch.path()).expect_err("it is locked");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_directory_and_files_that_others_may_write_are_refused() {
    let scratch = Scratch::new("mode");
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (mut store, _) = Store::open(directory, settings(), Duration::ZERO).expect("a store");
    store
        .put(Duration::ZERO, &Key::Node, 0, b"", b"x")
        .expect("not too long");
    assert!(store.close(Duration::ZERO));
    drop(store);
    let segment = scratch.path().join("store-00000000000000000001.log");
    fs::set_permissions(&segment, fs::Permissions::from_mode(0o666)).expect("our file");
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let error = Store::open(directory, settings(), Duration::ZERO)
        .map(drop)
        .expect_err("not ours alone");
    let error = error.to_string();
    assert!(
        error.starts_with("store-00000000000000000001.log: user"),
        "{error}"
    );
    assert!(error.contains("mode 0666; expected"), "{error}");
    fs::set_permissions(&segment, fs::Permissions::from_mode(0o640)).expect("our file");
    fs::set_permissions(scratch.path(), fs::Permissions::from_mode(0o770)).expect("our directory");
    let error = Directory::open(&scratch.path()).expect_err("not ours alone");
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.to_string().contains("mode 0770; expected"), "{error}");
}

/// As by `rm`: the store says so, and what comes then is durable.
#[test]
fn it_works_on_when_its_segment_is_removed() {
    let scratch = Scratch::new("removed");
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (mut store, _) = Store::open(directory, settings(), Duration::ZERO).expect("a store");
    let mut now = Duration::ZERO;
    for seid in 0..3 {
        store
            .put(now, &Key::Session(seid), 0, b"", b"x")
            .expect("not too long");
        store.poll(now);
        if seid == 0 {
            fs::remove_file(scratch.path().join("store-00000000000000000001.log")).expect("it is there");
        } else if seid == 1 {
            assert_eq!(store.fault().map(std::io::Error::kind), Some(ErrorKind::NotFound));
        }
        now += Duration::from_secs(2);
    }
    assert_eq!(store.durable(), store.last());
    drop(store);
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (_, found) = Store::open(directory, settings(), Duration::ZERO).expect("a store");
    assert_eq!(found.len(), 2);
}

/// The guide lets indexes be removed: what is written next does not fail for that.
#[test]
fn it_works_on_when_an_index_is_removed() {
    let scratch = Scratch::new("index");
    let now = Duration::ZERO;
    let directory = Directory::open(&scratch.path()).expect("a directory");
    let (mut store, _) = Store::open(directory, settings(), now).expect("a store");
    let mut removed = 0;
    for seid in 0..400_u64 {
        let put = store.put(now, &Key::Session(seid), 1, b"head", &[7; 1_000]);
        put.expect("not too long");
        store.poll(now);
        store.index_slice(now);
        assert!(store.fault().is_none(), "{:?}", store.fault());
        for file in fs::read_dir(scratch.path()).expect("files") {
            let path = file.expect("a file").path();
            if path.extension().is_some_and(|extension| extension == "index") {
                fs::remove_file(path).expect("removed");
                removed += 1;
            }
        }
    }
    assert!(removed > 3, "{removed}");
    assert_eq!(store.durable(), store.last());
}
