//! How many records a second one thread makes durable: `cargo run --release -p records --example rate -- DIRECTORY`.

#[path = "../tests/support/mod.rs"]
mod support;

use records::{Directory, Entry, Settings, Spool, Volumes};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const RECORDS: u64 = 2_000_000;

fn main() -> std::io::Result<()> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(|| PathBuf::from("spool"), PathBuf::from);
    let (mut spool, _) = Spool::open(Directory::open(&path)?, Settings::default(), Duration::ZERO, 0)?;
    let mut entry = support::usage(3);
    let start = Instant::now();
    for number in 0..RECORDS {
        if let Entry::Usage(usage) = &mut entry {
            usage.subject.seid = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            usage.volumes = Volumes::new([number * 1_000, number * 9_000], [number, number * 7]);
        }
        let seq = spool.next();
        spool.put(start.elapsed(), seq, &entry);
        if !spool.has_room() {
            spool.poll(start.elapsed());
        }
    }
    let is_written = spool.close(start.elapsed());
    let seconds = start.elapsed().as_secs_f64();
    let progress = spool.progress();
    println!(
        "{} records of {} octets in {seconds:.2} s: {:.0} records/s, {} fdatasync, {} files{}",
        progress.written,
        progress.octets / progress.written.max(1),
        progress.written as f64 / seconds,
        progress.syncs,
        progress.files,
        if is_written { "" } else { "; not all were written" }
    );
    Ok(())
}
