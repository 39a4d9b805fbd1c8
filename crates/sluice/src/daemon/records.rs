//! Usage records on their way to the disk: a queue from Control's thread, and a thread that writes.
//!
//! Control never waits for the disk: what it puts is in the queue until the writer has room for it. A writer whose disk
//! takes nothing keeps its batch and takes no more, so that what is held in memory is bounded by the queue and one
//! batch. What finds the queue full is lost, counted, and stated by a record of its own when there is room again; the
//! numbers of the records show it as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use records::{Disk, Entry, LossCause, Lost, Progress, Spool};
use tracing::{error, info};

use config::WhenFull;
use oam::values::{RecordsState, RecordsStatus, UnreportedCounts};
use upf::RecordSink;

/// How long the writer sleeps when there is nothing to do.
const NAP: Duration = Duration::from_millis(5);
/// How long it tries to write what is left when the daemon ends.
const LAST_TRY: Duration = Duration::from_secs(5);

/// What both threads and the API know.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    queued: AtomicU64,
    lost: AtomicU64,
    /// Milliseconds since 1970, as control has it.
    time_ms: AtomicU64,
    is_full: AtomicBool,
    /// Usage reports that the SMF has refused, answered unreadably, or not answered.
    unreported: [AtomicU64; 3],
    /// A loss that control had no room to state before it ended: the first record, and how many.
    unstated: Mutex<Option<(u64, u64)>>,
    writer: Mutex<(Progress, Option<String>)>,
}

/// A record of records that found no room.
fn loss(time_ms: u64, first: u64, records: u64) -> Entry {
    Entry::Lost(Lost {
        time_ms,
        first,
        records,
        cause: LossCause::NoRoom,
    })
}

/// Control's end of the queue.
pub struct Feed {
    queue: rtrb::Producer<(u64, Entry)>,
    next: u64,
    /// Records that were lost and have no record of it yet: the first, and how many.
    lost: Option<(u64, u64)>,
    when_full: WhenFull,
    shared: Arc<Shared>,
}

impl Feed {
    /// Puts a record of what was lost, if there is room for that and for one more.
    fn state_loss(&mut self) {
        if let Some((first, records)) = self.lost
            && self.queue.slots() >= 2
        {
            self.lost = None;
            let time_ms = self.shared.time_ms.load(Ordering::Relaxed);
            self.push(loss(time_ms, first, records));
        }
    }

    /// Gives an entry the next number, whether or not there is room for it. Answers whether there was.
    fn push(&mut self, entry: Entry) -> bool {
        let seq = self.next;
        self.next += 1;
        let is_in = self.queue.push((seq, entry)).is_ok();
        if is_in {
            self.shared.queued.fetch_add(1, Ordering::Relaxed);
        }
        is_in
    }

    fn lose(&mut self, seq: u64) {
        let (_, records) = self.lost.get_or_insert((seq, 0));
        *records += 1;
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether memory is full: from when the queue is, until half of it is free again. Reports every change.
    fn note_fullness(&mut self) -> bool {
        let was_full = self.shared.is_full.load(Ordering::Relaxed);
        let (free, all) = (self.queue.slots(), self.queue.buffer().capacity());
        let is_full = free == 0 || self.lost.is_some() || (was_full && free < all / 2);
        if is_full != was_full {
            self.shared.is_full.store(is_full, Ordering::Relaxed);
            if is_full {
                let consequence = match self.when_full {
                    WhenFull::Refuse => "new sessions are refused, and further records are lost",
                    WhenFull::GoOn => "further records are lost",
                };
                error!(
                    "usage records: no more can be held in memory; {consequence} until the disk takes some"
                );
            } else {
                let lost = self.shared.lost.load(Ordering::Relaxed);
                info!(lost, "usage records: there is room in memory again");
            }
        }
        is_full
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        *self
            .shared
            .unstated
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = self.lost;
    }
}

impl RecordSink for Feed {
    fn put(&mut self, entry: Entry) {
        if let Entry::Unreported(report) = &entry {
            self.shared.unreported[report.outcome as usize].fetch_add(1, Ordering::Relaxed);
        }
        self.state_loss();
        let seq = self.next;
        // Behind a loss that is not stated yet nothing may come.
        if self.lost.is_some() {
            self.next += 1;
            self.lose(seq);
        } else if !self.push(entry) {
            self.lose(seq);
        }
    }

    fn set_time(&mut self, unix_ms: u64) {
        self.shared.time_ms.store(unix_ms, Ordering::Relaxed);
    }

    fn refuses_sessions(&mut self) -> bool {
        self.state_loss();
        self.note_fullness() && self.when_full == WhenFull::Refuse
    }
}

/// What the API asks.
#[derive(Clone)]
pub struct RecordsView {
    shared: Arc<Shared>,
    directory: String,
    held_most: u64,
}

impl RecordsView {
    /// How the records stand.
    #[must_use]
    pub fn read(&self) -> RecordsStatus {
        let (progress, fault) = &*self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        let is_full = self.shared.is_full.load(Ordering::Relaxed);
        RecordsStatus {
            directory: self.directory.clone(),
            state: match fault {
                _ if is_full => RecordsState::Full,
                Some(_) => RecordsState::Failing,
                None => RecordsState::Writing,
            },
            error: fault.clone(),
            written: progress.written,
            octets: progress.octets,
            held: self.shared.queued.load(Ordering::Relaxed) + progress.held,
            held_most: self.held_most,
            lost: self.shared.lost.load(Ordering::Relaxed) + progress.too_long,
            files: progress.files,
            syncs: progress.syncs,
            failures: progress.failures,
            unreported: {
                let [refused, unreadable, unanswered] =
                    [0, 1, 2].map(|place: usize| self.shared.unreported[place].load(Ordering::Relaxed));
                UnreportedCounts {
                    refused,
                    unreadable,
                    unanswered,
                }
            },
        }
    }
}

/// The writer's thread.
pub struct RecordsThread {
    shared: Arc<Shared>,
    thread: JoinHandle<u64>,
}

impl RecordsThread {
    /// Starts the writer over `spool`, with a queue of a given number of records.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn start<D: Disk + Send + 'static>(
        spool: Spool<D>,
        directory: String,
        held: usize,
        when_full: WhenFull,
    ) -> std::io::Result<(RecordsThread, Feed, RecordsView)> {
        let (queue, taken) = rtrb::RingBuffer::new(held);
        let shared = Arc::new(Shared::default());
        let feed = Feed {
            queue,
            next: spool.next(),
            lost: None,
            when_full,
            shared: Arc::clone(&shared),
        };
        let view = RecordsView {
            shared: Arc::clone(&shared),
            directory,
            held_most: held as u64,
        };
        let mut writer = Writer {
            spool,
            queue: taken,
            shared: Arc::clone(&shared),
            start: Instant::now(),
            is_failing: false,
        };
        let thread = std::thread::Builder::new()
            .name("records".into())
            .spawn(move || writer.run())?;
        Ok((RecordsThread { shared, thread }, feed, view))
    }

    /// Has what is left written, as far as the disk lets it within five seconds. Answers how many records are lost.
    #[must_use]
    pub fn end(self) -> u64 {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

struct Writer<D> {
    spool: Spool<D>,
    queue: rtrb::Consumer<(u64, Entry)>,
    shared: Arc<Shared>,
    start: Instant,
    is_failing: bool,
}

impl<D: Disk> Writer<D> {
    fn run(&mut self) -> u64 {
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.turn();
            if self.queue.is_empty() || self.is_failing {
                std::thread::park_timeout(NAP);
            }
        }
        let deadline = Instant::now() + LAST_TRY;
        loop {
            self.turn();
            self.state_loss();
            if self.queue.is_empty() && self.spool.close(self.start.elapsed()) {
                self.publish();
                return 0;
            }
            if Instant::now() > deadline {
                self.publish();
                return self.queue.slots() as u64 + self.spool.progress().held;
            }
            if self.is_failing {
                std::thread::park_timeout(NAP);
            }
        }
    }

    /// Puts a record of what control had no room to state, behind all that it had put.
    fn state_loss(&mut self) {
        let mut unstated = self
            .shared
            .unstated
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some((first, records)) = *unstated
            && self.queue.is_empty()
            && self.spool.has_room()
        {
            *unstated = None;
            let time_ms = self.shared.time_ms.load(Ordering::Relaxed);
            let loss = loss(time_ms, first, records);
            self.spool.put(self.start.elapsed(), first + records, &loss);
        }
    }

    /// Takes what the batch has room for, and writes what is due.
    fn turn(&mut self) {
        let now = self.start.elapsed();
        let mut taken = 0;
        while self.spool.has_room()
            && let Ok((seq, entry)) = self.queue.pop()
        {
            self.spool.put(now, seq, &entry);
            taken += 1;
        }
        self.shared.queued.fetch_sub(taken, Ordering::Relaxed);
        self.spool.poll(now);
        self.publish();
    }

    fn publish(&mut self) {
        let fault = self.spool.fault().map(ToString::to_string);
        if fault.is_some() != self.is_failing {
            self.is_failing = fault.is_some();
            match &fault {
                Some(fault) => {
                    error!("usage records: the disk takes none: {fault}; they are held in memory");
                }
                None => info!("usage records: the disk takes them again"),
            }
        }
        let mut published = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        *published = (self.spool.progress(), fault);
    }
}

#[cfg(test)]
mod tests;
