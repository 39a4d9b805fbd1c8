use std::net::Ipv4Addr;
use std::path::PathBuf;

use flow::VrfId;
use natlog::{Assignment, Gap, Holder, NatLogReader};

use super::*;

const BEGIN: u64 = 1_764_201_600_000;

/// A directory that is taken away in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sluice-nat-log-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn assignment(since_ms: u64, number: u16, seid: u64) -> Assignment {
    Assignment {
        since_ms,
        vrf: VrfId(0),
        block: nat::pools::PortBlock {
            address: Ipv4Addr::new(192, 0, 2, 1),
            first: 1_024 + 64 * number,
            bits: 6,
        },
        holder: Holder {
            inside: Ipv4Addr::new(10, 45, 0, 1),
            seid,
            subscriber: String::new(),
            dnn: String::new(),
            instance: String::new(),
        },
    }
}

fn released(at_ms: u64, number: u16) -> Event {
    let Assignment {
        vrf, block, holder, ..
    } = assignment(0, number, 0);
    Event::Released {
        at_ms,
        vrf,
        block,
        holder,
    }
}

/// Both ends of the queue, without a thread.
fn ends(scratch: &Scratch, now_ms: u64) -> (Feed, Writer, Option<Gap>) {
    let settings = natlog::Settings::default();
    let (log, found) = NatLog::open(&scratch.0, settings, now_ms, &[]).unwrap();
    let (queue, taken) = rtrb::RingBuffer::new(QUEUE);
    let shared = Arc::new(Shared::default());
    shared.time_ms.store(now_ms, Ordering::Relaxed);
    let writer = Writer {
        log: Some(log),
        collector: None,
        queue: taken,
        fed: 0,
        batch: Vec::new(),
        behind: None,
        losses: 0,
        shared: Arc::clone(&shared),
        marked: Instant::now(),
    };
    let feed = Feed {
        queue,
        loss: Loss::None,
        shared,
    };
    (feed, writer, found.gap)
}

fn seid(reader: &mut NatLogReader, at: u64, number: u16) -> (Option<u64>, Option<Gap>) {
    let block = assignment(0, number, 0).block;
    let answer = reader.at(at, VrfId(0), block.address, block.first + 5);
    let answer = answer.unwrap().unwrap();
    (answer.found.map(|found| found.assignment.holder.seid), answer.gap)
}

#[test]
fn a_full_queue_is_a_gap_until_all_that_is_held_is_reported() {
    let scratch = Scratch::new("full");
    let (mut feed, mut writer, _) = ends(&scratch, BEGIN);
    feed.put(Event::Assigned(assignment(BEGIN + 1, 0, 1)));
    feed.put(Event::Assigned(assignment(BEGIN + 1, 1, 2)));
    // A block that comes and goes.
    for number in 0..(QUEUE as u64 - 2) / 2 {
        feed.put(Event::Assigned(assignment(BEGIN + 2, 9, number)));
        feed.put(released(BEGIN + 2, 9));
    }
    assert_eq!(feed.wanted(), Wanted::Nothing);
    // The one is released, and the other gets another session: both are lost.
    feed.put(released(BEGIN + 10, 0));
    feed.put(Event::Assigned(assignment(BEGIN + 11, 1, 3)));
    assert_eq!(feed.shared.lost.load(Ordering::Relaxed), 2);
    // It waits until there is room for much.
    assert!(writer.turn());
    assert_eq!(feed.wanted(), Wanted::Nothing);
    while feed.queue.slots() < ROOM {
        assert!(writer.turn());
    }
    feed.put(Event::Assigned(assignment(BEGIN + 20, 2, 4)));
    let mut reader = NatLogReader::open(&scratch.0).unwrap();
    while !writer.queue.is_empty() {
        assert!(writer.turn());
    }
    assert_eq!((feed.wanted(), feed.wanted()), (Wanted::Anew, Wanted::Further));
    let gap = |to_ms| {
        Some(Gap {
            from_ms: BEGIN + 10,
            to_ms,
            lost: 2,
        })
    };
    assert_eq!(seid(&mut reader, BEGIN + 9, 0), (Some(1), None));
    assert_eq!(seid(&mut reader, BEGIN + 25, 0), (Some(1), gap(None)));
    for (number, seid) in [(1, 3), (2, 4)] {
        feed.put(Event::Held(assignment(BEGIN + 30, number, seid)));
    }
    feed.end_held(BEGIN + 30);
    assert_eq!(feed.wanted(), Wanted::Nothing);
    while !writer.queue.is_empty() {
        assert!(writer.turn());
    }
    let gap = gap(Some(BEGIN + 30));
    assert_eq!(seid(&mut reader, BEGIN + 9, 1), (Some(2), None));
    assert_eq!(seid(&mut reader, BEGIN + 29, 1).1, gap);
    let later = [0, 1, 2].map(|number| seid(&mut reader, BEGIN + 30, number));
    assert_eq!(later, [(None, None), (Some(3), None), (Some(4), None)]);
    // An end in order leaves no gap.
    feed.set_time(BEGIN + 40);
    writer.end();
    drop(writer);
    let (_, writer, gap) = ends(&scratch, BEGIN + 60);
    assert_eq!(gap, None);
    assert_eq!(seid(&mut reader, BEGIN + 39, 1), (Some(3), None));
    assert_eq!(seid(&mut reader, BEGIN + 50, 1), (None, None));
    // Another one does.
    drop(writer);
    let (_, _, gap) = ends(&scratch, BEGIN + 90);
    assert_eq!(
        gap.map(|gap| (gap.from_ms, gap.to_ms)),
        Some((BEGIN + 60, Some(BEGIN + 90)))
    );
}

#[test]
fn a_loss_that_is_not_in_the_files_yet_is_no_end_in_order() {
    let scratch = Scratch::new("lost");
    let (mut feed, mut writer, _) = ends(&scratch, BEGIN);
    for number in 0..=QUEUE as u64 {
        feed.put(Event::Assigned(assignment(BEGIN + number, 0, number)));
    }
    while !writer.queue.is_empty() {
        assert!(writer.turn());
    }
    feed.set_time(BEGIN + QUEUE as u64 + 7);
    writer.end();
    drop(writer);
    let (_, _, gap) = ends(&scratch, BEGIN + 1_000_000);
    let last = BEGIN + QUEUE as u64 - 1;
    assert_eq!(gap.map(|gap| gap.from_ms), Some(last));
}

#[test]
fn a_disk_that_takes_nothing_does_not_silence_the_collector() {
    let scratch = Scratch::new("full-disk");
    let (mut feed, mut writer, _) = ends(&scratch, BEGIN);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let collector = Collector::open(socket.local_addr().unwrap(), natlog::ipfix::Settings::default());
    writer.collector = Some(collector);
    // The files cannot be made any more.
    std::fs::remove_dir_all(&scratch.0).unwrap();
    let tomorrow = BEGIN + 86_400_000;
    let mut octets = [0; 2_000];
    let timeout = Some(Duration::from_secs(10));
    socket.set_read_timeout(timeout).unwrap();
    for number in 0..3 {
        feed.put(Event::Assigned(assignment(tomorrow, number, 1)));
        assert!(!writer.turn());
        assert!(socket.recv(&mut octets).unwrap() > 0);
    }
    let lost = Entry::Lost {
        from_ms: tomorrow,
        events: 5,
    };
    feed.queue.push(lost).unwrap();
    assert!(!writer.turn());
    assert_eq!(feed.shared.unsent_lost.load(Ordering::Relaxed), 5);
}
