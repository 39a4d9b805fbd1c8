//! What a log of port blocks does in a directory of this machine: records made durable in a second by one thread, the
//! octets of a record on disk, and how long a question takes behind that.
//!
//! `cargo run --release -p natlog --example log_rate -- HOW DIRECTORY [RECORDS [BATCH [HELD]]]`: a new directory,
//! 2,000,000 records, batches of 16,384 of them and 1,000,000 held blocks by default. A record is an assignment and its
//! end. It ends after ten minutes with what it has. A directory that this has left is only asked. HOW is
//!
//! - `day`: records spread over a day, of blocks that are drawn;
//! - `attach`: HELD sessions get a block in a burst, in batches, RECORDS being none;
//! - `fill`: block by block, which is the fastest way to many records, for questions.
//!
//! A cold question is one of a reader that is new, behind `sync` and what drops the cached pages of the files.

use std::error::Error;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use flow::VrfId;
use nat::pools::PortBlock;
use natlog::{Assignment, Event, Holder, NatLog, NatLogReader, Settings};

/// Blocks of 512 ports of 16,384 public addresses, from port 1,024 on.
const ADDRESSES: u32 = 16_384;
const BLOCKS: u32 = ADDRESSES * 126;
const QUERIES: usize = 10_000;
const COLD_QUERIES: usize = 200;
const LONGEST: Duration = Duration::from_mins(10);
const BEGIN: u64 = 1_764_201_600_000;
const DAY: u64 = 86_400_000;

/// Numbers that are drawn.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }
}

fn block(number: u32) -> PortBlock {
    PortBlock {
        address: (0xc612_0000 + number / 126).into(),
        first: (1_024 + number % 126 * 512) as u16,
        bits: 9,
    }
}

fn number(block: &PortBlock) -> u32 {
    (block.address.to_bits() - 0xc612_0000) * 126 + (u32::from(block.first) - 1_024) / 512
}

fn holder(seid: u64) -> Holder {
    Holder {
        inside: (0x0a00_0000 + (seid as u32 & 0xff_ffff)).into(),
        seid,
        subscriber: format!("imsi-{:015}", 1_010_000_000_000 + seid),
        dnn: "internet".into(),
        instance: "internet-n6".into(),
    }
}

/// Blocks that are held and that are free, and what happens to them.
struct Sessions {
    draw: Draw,
    held: Vec<Assignment>,
    free: Vec<u32>,
    seid: u64,
}

impl Sessions {
    fn new(held: usize) -> Self {
        let mut sessions = Self {
            draw: Draw(0x9e37_79b9_7f4a_7c15),
            held: Vec::new(),
            free: (0..BLOCKS).collect(),
            seid: 0,
        };
        for _ in 0..held {
            sessions.assign(BEGIN);
        }
        sessions
    }

    fn assign(&mut self, at: u64) -> Event {
        let place = self.draw.below(self.free.len() as u64) as usize;
        let number = self.free.swap_remove(place);
        self.seid += 1;
        let assignment = Assignment {
            since_ms: at,
            vrf: VrfId(0),
            block: block(number),
            holder: holder(self.seid),
        };
        self.held.push(assignment.clone());
        Event::Assigned(assignment)
    }

    fn release(&mut self, at: u64) -> Event {
        let place = self.draw.below(self.held.len() as u64) as usize;
        let held = self.held.swap_remove(place);
        self.free.push(number(&held.block));
        Event::Released {
            at_ms: at,
            vrf: held.vrf,
            block: held.block,
            holder: held.holder,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: log_rate day|attach|fill DIRECTORY [RECORDS [BATCH [HELD]]]";
    let mut arguments = std::env::args().skip(1);
    let how = arguments.next().ok_or(usage)?;
    let path = arguments.next().ok_or(usage)?;
    let path = Path::new(&path);
    let mut number = |default: u64| arguments.next().map_or(Ok(default), |number| number.parse());
    let (records, batch, held) = (number(2_000_000)?, number(16_384)?, number(1_000_000)?);
    let last = match how.as_str() {
        _ if path.exists() => BEGIN + DAY - 1,
        "day" => write(path, records, batch, held as usize)?,
        "attach" => return attach(path, batch as usize, held as usize),
        "fill" => fill(path, records, batch)?,
        _ => return Err(usage.into()),
    };
    query(path, last)
}

/// Gives sessions blocks in a burst.
fn attach(path: &Path, batch: usize, held: usize) -> Result<(), Box<dyn Error>> {
    let mut sessions = Sessions::new(0);
    let (mut log, _) = NatLog::open(path, Settings::default(), BEGIN, &[])?;
    let events: Vec<Event> = (0..held as u64)
        .map(|number| sessions.assign(BEGIN + number / 25))
        .collect();
    let octets = octets_written();
    let (start, mut slowest) = (Instant::now(), Duration::ZERO);
    for events in events.chunks(batch) {
        let before = Instant::now();
        log.append(events)?;
        slowest = slowest.max(before.elapsed());
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{held} assignments in batches of {batch}: {seconds:.2} s, {:.0}/s; the slowest batch took {slowest:?}; {:.0} octets \
         written for each",
        held as f64 / seconds,
        (octets_written() - octets) / held as f64
    );
    Ok(())
}

/// Writes as many records, block by block; returns the last time.
fn fill(path: &Path, records: u64, batch: u64) -> Result<u64, Box<dyn Error>> {
    let (mut log, _) = NatLog::open(path, Settings::default(), BEGIN, &[])?;
    let each = records.div_ceil(BLOCKS.into());
    let (mut events, mut seid) = (Vec::new(), 0);
    let start = Instant::now();
    for number in 0..BLOCKS {
        // Blocks are not all used at the same times.
        let shift = u64::from(number) * 7_919 % (DAY / each);
        for record in 0..each {
            let at = BEGIN + record * (DAY / each) + shift;
            seid += 1;
            let (vrf, block, holder) = (VrfId(0), block(number), holder(seid));
            let assignment = Assignment {
                since_ms: at,
                vrf,
                block,
                holder: holder.clone(),
            };
            events.push(Event::Assigned(assignment));
            let at_ms = at.saturating_add(DAY / each / 2).min(BEGIN + DAY - 1);
            events.push(Event::Released {
                at_ms,
                vrf,
                block,
                holder,
            });
        }
        if events.len() as u64 >= 2 * batch || number + 1 == BLOCKS {
            // None is of the next day.
            events.retain(|event| event.at_ms() < BEGIN + DAY);
            log.append(&events)?;
            events.clear();
        }
    }
    let done = each * u64::from(BLOCKS);
    println!("{done} records: {:?}", start.elapsed());
    drop(log);
    print_files(path, done)?;
    Ok(BEGIN + DAY - 1)
}

/// Octets that this process has written so far.
fn octets_written() -> f64 {
    let text = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("wchar: "));
    line.and_then(|number| number.parse().ok()).unwrap_or(f64::NAN)
}

/// Writes as many records, spread over a day; returns the last time.
fn write(path: &Path, records: u64, batch: u64, held: usize) -> Result<u64, Box<dyn Error>> {
    let settings = Settings::default();
    let mut sessions = Sessions::new(held);
    let start = Instant::now();
    let (mut log, _) = NatLog::open(path, settings, BEGIN, &sessions.held)?;
    println!("a new log with {held} assignments: {:?}", start.elapsed());

    let (mut done, mut at, mut slowest) = (0, BEGIN, Duration::ZERO);
    let (start, mut lap) = (Instant::now(), Instant::now());
    let tenth = (records / 10).max(1);
    let octets = octets_written();
    while done < records && start.elapsed() < LONGEST {
        let mut events = Vec::with_capacity(2 * batch as usize);
        for record in done..done + batch {
            at = BEGIN + 1 + (u128::from(record) * u128::from(DAY - 2) / u128::from(records)) as u64;
            events.push(sessions.release(at));
            events.push(sessions.assign(at));
        }
        let before = Instant::now();
        log.append(&events)?;
        slowest = slowest.max(before.elapsed());
        if done / tenth != (done + batch) / tenth {
            let rate = tenth as f64 / lap.elapsed().as_secs_f64();
            println!("{:>11} records: {rate:.0}/s", done + batch);
            lap = Instant::now();
        }
        done += batch;
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{done} records in {seconds:.1} s: {:.0}/s; the slowest batch took {slowest:?}",
        done as f64 / seconds
    );
    let octets = (octets_written() - octets) / done as f64;
    println!("{octets:.0} octets written a record");
    let before = Instant::now();
    log.append(&[sessions.assign(BEGIN + DAY)])?;
    println!("the next day's file: {:?}", before.elapsed());
    drop(log);
    let start = Instant::now();
    let (log, reconciled) = NatLog::open(path, settings, BEGIN + DAY + 1, &sessions.held)?;
    println!("opened again: {:?}; {reconciled:?}", start.elapsed());
    drop(log);
    print_files(path, done)?;
    Ok(at)
}

fn print_files(path: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(path)? {
        let entry = entry?;
        let octets = entry.metadata()?.len();
        println!(
            "{}: {octets} octets, {:.0} a record",
            entry.file_name().display(),
            octets as f64 / records as f64
        );
    }
    Ok(())
}

/// Writes what is to be written, and has the system forget what it has of the files.
fn forget(path: &Path) -> Result<(), Box<dyn Error>> {
    for entry in std::fs::read_dir(path)? {
        let file = entry?.path();
        let words = [format!("of={}", file.display()), "oflag=nocache".into()];
        let words =
            words
                .iter()
                .map(String::as_str)
                .chain(["conv=notrunc,fdatasync", "count=0", "status=none"]);
        Command::new("dd").arg("if=/dev/null").args(words).status()?;
    }
    Ok(())
}

fn query(path: &Path, last: u64) -> Result<(), Box<dyn Error>> {
    let mut draw = Draw(7);
    let mut times = Vec::with_capacity(COLD_QUERIES);
    for _ in 0..COLD_QUERIES {
        forget(path)?;
        let before = Instant::now();
        ask(&mut NatLogReader::open(path)?, &mut draw, last)?;
        times.push(before.elapsed());
    }
    times.sort_unstable();
    println!(
        "{COLD_QUERIES} cold questions: p50 {:?}, p99 {:?}, longest {:?}",
        times[COLD_QUERIES / 2],
        times[COLD_QUERIES * 99 / 100],
        times[COLD_QUERIES - 1]
    );
    let mut reader = NatLogReader::open(path)?;
    let mut found = 0;
    let mut times = Vec::with_capacity(QUERIES);
    for _ in 0..QUERIES {
        let before = Instant::now();
        found += u32::from(ask(&mut reader, &mut draw, last)?);
        times.push(before.elapsed());
    }
    times.sort_unstable();
    println!(
        "{QUERIES} questions, {found} of held ports: p50 {:?}, p99 {:?}, longest {:?}",
        times[QUERIES / 2],
        times[QUERIES * 99 / 100],
        times[QUERIES - 1]
    );
    Ok(())
}

/// Whether a drawn port was held at a drawn time.
fn ask(reader: &mut NatLogReader, draw: &mut Draw, last: u64) -> Result<bool, Box<dyn Error>> {
    let block = block(draw.below(BLOCKS.into()) as u32);
    let at = BEGIN + draw.below(last - BEGIN);
    let port = block.first + draw.below(512) as u16;
    let answer = reader.at(at, VrfId(0), block.address, port)?;
    Ok(answer.is_some_and(|answer| answer.found.is_some()))
}
