//! What a store does in a directory of this machine: records made durable in a second by one thread, 64 a sync and in
//! full batches; recovery of 600,000 sessions; the index's octets.
//!
//! `cargo run --release -p store --example store_rate -- DIRECTORY`, which is new, or what this has left: that is
//! read only.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use disk::Directory;
use store::{Key, Settings, Store};

const SESSIONS: u64 = 600_000;
const VALUE: [u8; 1_000] = [0x5a; 1_000];
const HEAD: [u8; 100] = [0xa5; 100];

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: rate DIRECTORY")?;
    let path = Path::new(&path);
    if !path.exists() {
        write(path)?;
    }
    recover(path)
}

fn write(path: &Path) -> Result<(), Box<dyn Error>> {
    let begin = Instant::now();
    let (mut store, _) = Store::open(Directory::open(path)?, Settings::default(), Duration::ZERO)?;

    let (mut synced, rounds) = (0, 1_000);
    let start = Instant::now();
    while synced < rounds && start.elapsed() < Duration::from_secs(5) {
        for record in 0..64 {
            put(&mut store, begin, Key::Session(seid(synced * 64 + record)))?;
        }
        poll(&mut store, begin)?;
        synced += 1;
    }
    report("64 a sync", synced * 64, synced, start.elapsed());

    let (syncs, start) = (store.progress().syncs, Instant::now());
    for session in 0..SESSIONS {
        if !store.has_room() {
            poll(&mut store, begin)?;
        }
        put(&mut store, begin, Key::Session(seid(session)))?;
    }
    poll(&mut store, begin)?;
    report(
        "full batches",
        SESSIONS,
        store.progress().syncs - syncs,
        start.elapsed(),
    );
    while store.poll_timeout().is_some() {
        poll(&mut store, begin)?;
        store.index_slice(begin.elapsed());
    }
    let done = store.close(begin.elapsed());
    println!("closed: {done}; {:?}", store.progress());
    Ok(())
}

fn recover(path: &Path) -> Result<(), Box<dyn Error>> {
    for _ in 0..3 {
        let start = Instant::now();
        let (store, found) = Store::open(Directory::open(path)?, Settings::default(), Duration::ZERO)?;
        let took = start.elapsed();
        let heads: usize = found.iter().map(|live| live.head.len()).sum();
        println!(
            "recovery: {} of {} records in {} segments with {} octets, {heads} octets of heads: {took:.3?}",
            found.len(),
            found.records,
            found.segments,
            found.octets
        );
        let octets = store.progress().index_octets;
        println!(
            "index: {octets} octets, {:.1} a session",
            octets as f64 / SESSIONS as f64
        );
    }
    Ok(())
}

/// As drawn: SEIDs follow no order.
fn seid(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn put(store: &mut Store<Directory>, begin: Instant, key: Key) -> Result<(), Box<dyn Error>> {
    store.put(begin.elapsed(), &key, 1, &HEAD, &VALUE)?;
    Ok(())
}

fn poll(store: &mut Store<Directory>, begin: Instant) -> Result<(), Box<dyn Error>> {
    store.poll(begin.elapsed());
    match store.fault() {
        Some(error) => Err(error.to_string().into()),
        None => Ok(()),
    }
}

fn report(what: &str, records: u64, syncs: u64, took: Duration) {
    let rate = records as f64 / took.as_secs_f64();
    println!("{what}: {records} records, {syncs} syncs in {took:.2?}: {rate:.0} records/s");
}
