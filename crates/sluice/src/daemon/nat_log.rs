//! The log of port blocks on its way: a queue from Control's thread, and a thread that writes files and sends messages
//! to a collector.
//!
//! Control never waits. Events that the disk does not take are kept and tried again; those that find the queue full are
//! lost, counted, and a gap in the files. When there is room again, all blocks that are held are reported, and it ends.
//! What a collector does not get over UDP is lost, as IPFIX has it (RFC 7011 §10.3); over TCP events wait for it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use natlog::ipfix::Collector;
use natlog::{Event, LogError, NatLog};
use tracing::{error, info, warn};

use config::NatLogConfig;
use upf::{PortBlockSink, Wanted};

/// How long the writer sleeps when there is nothing to do, and after a failure.
const NAP: Duration = Duration::from_millis(20);
const RETRY: Duration = Duration::from_secs(1);
/// Events that wait, and those that are written at once: the more, the less each of them writes.
const QUEUE: usize = 1 << 18;
const BATCH: usize = 1 << 15;
/// As many must have room in the queue before blocks are reported that are held: events come first.
const ROOM: usize = QUEUE / 2;
/// How often the log is marked as right up to now.
const MARK_EVERY: Duration = Duration::from_secs(5);
/// How long it tries to write what is left when the daemon ends.
const LAST_TRY: Duration = Duration::from_secs(5);

/// What both threads know.
#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    /// Events that found the queue full.
    lost: AtomicU64,
    /// How often the queue became full.
    losses: AtomicU64,
    /// Of the collector: events that wait for it, and that it will not get.
    unsent: AtomicU64,
    unsent_lost: AtomicU64,
    /// Milliseconds since 1970, as control has it.
    time_ms: AtomicU64,
    written: AtomicU64,
    fault: Mutex<Option<String>>,
}

/// What goes through the queue.
#[derive(Debug)]
enum Entry {
    Event(Event),
    /// Events from this time on are lost.
    Lost {
        from_ms: u64,
        events: u64,
    },
    /// All blocks that are held have been reported, behind as many losses since the start.
    AllHeld {
        unix_ms: u64,
        losses: u64,
    },
}

/// What Control's end knows of lost events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Loss {
    /// There is none that is not over.
    None,
    /// It is not yet in the queue.
    Unstated { from_ms: u64, events: u64 },
    /// It is in the queue. Blocks that are held are to be reported.
    Stated,
    /// They are being reported.
    Telling,
}

/// Control's end of the queue.
pub(super) struct Feed {
    queue: rtrb::Producer<Entry>,
    loss: Loss,
    shared: Arc<Shared>,
}

impl Feed {
    fn lose(&mut self, at_ms: u64) {
        self.shared.lost.fetch_add(1, Ordering::Relaxed);
        self.loss = match self.loss {
            Loss::Unstated { from_ms, events } => Loss::Unstated {
                from_ms: from_ms.min(at_ms),
                events: events + 1,
            },
            Loss::None | Loss::Stated | Loss::Telling => {
                self.shared.losses.fetch_add(1, Ordering::Relaxed);
                error!("log of port blocks: as many events wait as may; further ones are lost");
                Loss::Unstated {
                    from_ms: at_ms,
                    events: 1,
                }
            }
        };
    }

    /// States a loss once there is room for much.
    fn state_loss(&mut self) {
        if let Loss::Unstated { from_ms, events } = self.loss
            && self.queue.slots() >= ROOM
            && self.queue.push(Entry::Lost { from_ms, events }).is_ok()
        {
            self.loss = Loss::Stated;
        }
    }
}

impl PortBlockSink for Feed {
    fn put(&mut self, event: Event) {
        self.state_loss();
        let at_ms = event.at_ms();
        // Behind a loss that is not stated yet nothing may come.
        let is_unstated = matches!(self.loss, Loss::Unstated { .. });
        if is_unstated || self.queue.push(Entry::Event(event)).is_err() {
            self.lose(at_ms);
        }
    }

    fn set_time(&mut self, unix_ms: u64) {
        self.shared.time_ms.store(unix_ms, Ordering::Release);
    }

    fn wanted(&mut self) -> Wanted {
        self.state_loss();
        match self.loss {
            Loss::None | Loss::Unstated { .. } => Wanted::Nothing,
            Loss::Stated | Loss::Telling if self.queue.slots() < ROOM => Wanted::Nothing,
            Loss::Stated => {
                self.loss = Loss::Telling;
                Wanted::Anew
            }
            Loss::Telling => Wanted::Further,
        }
    }

    fn end_held(&mut self, unix_ms: u64) {
        let losses = self.shared.losses.load(Ordering::Relaxed);
        let entry = Entry::AllHeld { unix_ms, losses };
        if self.loss == Loss::Telling && self.queue.push(entry).is_ok() {
            self.loss = Loss::None;
        }
    }
}

/// The writer's thread.
pub(super) struct NatLogThread {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

impl NatLogThread {
    /// Opens the log of this configuration at `now_ms`, and starts its writer. All blocks of the process before count
    /// as given back: sessions that come back from a store get theirs anew. If that process did not end in order, the
    /// time in between is a gap.
    ///
    /// # Errors
    /// What keeps the log from being opened, in words.
    pub fn start(config: &NatLogConfig, now_ms: u64) -> Result<(Self, Feed), String> {
        let log = config.directory.as_ref().map(|directory| {
            let path = &directory.value;
            let fault = |error: LogError| format!("log of port blocks in {}: {error}", path.display());
            NatLog::open(path, config.settings(), now_ms, &[]).map_err(fault)
        });
        let log = log.transpose()?.map(|(log, found)| {
            if found.closed > 0 {
                info!(
                    blocks = found.closed,
                    "log of port blocks: those of the process before have ended"
                );
            }
            if let Some(gap) = found.gap {
                warn!(
                    from_ms = gap.from_ms,
                    to_ms = gap.to_ms,
                    "log of port blocks: the process before did not end in order: not all is known of this time"
                );
            }
            log
        });
        let collector = config.ipfix.as_ref().map(open_collector);
        let (queue, taken) = rtrb::RingBuffer::new(QUEUE);
        let shared = Arc::new(Shared::default());
        shared.time_ms.store(now_ms, Ordering::Relaxed);
        let mut writer = Writer {
            log,
            collector,
            queue: taken,
            fed: 0,
            batch: Vec::with_capacity(BATCH),
            behind: None,
            losses: 0,
            shared: Arc::clone(&shared),
            marked: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("nat-log".into())
            .spawn(move || writer.run())
            .map_err(|error| format!("log of port blocks: {error}"))?;
        let feed = Feed {
            queue,
            loss: Loss::None,
            shared: Arc::clone(&shared),
        };
        Ok((Self { shared, thread }, feed))
    }

    /// Has what is left written, as far as the disk lets it. Whether nothing was lost.
    pub fn end(self) -> bool {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        let is_failing = self.thread.join().is_err()
            || self
                .shared
                .fault
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .is_some();
        !is_failing && self.shared.lost.load(Ordering::Relaxed) == 0
    }
}

fn open_collector(config: &config::IpfixConfig) -> Collector {
    Collector::open(config.to.value, config.settings())
}

struct Writer {
    log: Option<NatLog>,
    collector: Option<Collector>,
    queue: rtrb::Consumer<Entry>,
    /// As many entries of the queue, its first, have been given to the collector.
    fed: usize,
    /// What is to be written next, and what comes behind it.
    batch: Vec<Event>,
    behind: Option<Entry>,
    /// How many of the losses are over: all is known again in the files.
    losses: u64,
    shared: Arc<Shared>,
    marked: Instant,
}

impl Writer {
    fn run(&mut self) {
        while !self.shared.stop.load(Ordering::Relaxed) {
            let is_written = self.turn();
            if !is_written || self.queue.is_empty() {
                self.rest(if is_written { NAP } else { RETRY });
            }
        }
        let deadline = Instant::now() + LAST_TRY;
        while !(self.turn() && self.queue.is_empty() && self.is_sent()) && Instant::now() < deadline {
            std::thread::park_timeout(NAP);
        }
        self.end();
    }

    /// Sleeps, and sends in between.
    fn rest(&mut self, time: Duration) {
        let until = Instant::now() + time;
        loop {
            std::thread::park_timeout(NAP);
            if until <= Instant::now() || self.shared.stop.load(Ordering::Relaxed) {
                return;
            }
            self.feed(BATCH);
            self.send();
        }
    }

    /// Says that nothing follows, if nothing is missing.
    fn end(&mut self) {
        let is_whole = self.batch.is_empty() && self.behind.is_none() && self.queue.is_empty();
        if is_whole
            && self.losses == self.shared.losses.load(Ordering::Relaxed)
            && let Some(log) = self.log.take()
        {
            self.publish(log.end(self.shared.time_ms.load(Ordering::Acquire)).err());
        }
    }

    /// Writes what waits, a batch at most. Whether the disk takes it.
    fn turn(&mut self) -> bool {
        // Before events are taken: those of later moments may still wait, and all of earlier ones are in the queue.
        let now_ms = self.shared.time_ms.load(Ordering::Acquire);
        self.feed(BATCH);
        if self.batch.is_empty() && self.behind.is_none() {
            self.take();
        }
        self.send();
        let written = self.write(now_ms);
        let is_written = written.is_ok();
        self.publish(written.err());
        is_written
    }

    /// Gives the collector as many further entries of the queue at most, where they stay: a disk that takes nothing
    /// does not keep them from it.
    fn feed(&mut self, most: usize) {
        let until = self.queue.slots().min(self.fed.saturating_add(most));
        if let Some(collector) = &mut self.collector
            && let Ok(waiting) = self.queue.read_chunk(until)
        {
            let (first, second) = waiting.as_slices();
            for entry in first.iter().chain(second).skip(self.fed) {
                match entry {
                    Entry::Event(event) => collector.push(event),
                    Entry::Lost { events, .. } => collector.lose(*events),
                    Entry::AllHeld { .. } => {}
                }
            }
        }
        self.fed = until;
    }

    /// Takes the next events from the queue that the collector has, up to what is none.
    fn take(&mut self) {
        while self.batch.len() < BATCH
            && self.fed > 0
            && let Ok(entry) = self.queue.pop()
        {
            self.fed -= 1;
            match entry {
                Entry::Event(event) => self.batch.push(event),
                other => {
                    self.behind = Some(other);
                    break;
                }
            }
        }
    }

    fn send(&mut self) {
        let now_ms = self.shared.time_ms.load(Ordering::Acquire);
        let Some(collector) = &mut self.collector else {
            return;
        };
        let before = collector.fault().map(str::to_owned);
        collector.turn(Instant::now(), now_ms);
        match (&before, collector.fault()) {
            (None, Some(fault)) => warn!("nat.log.ipfix: not sent: {fault}; it is tried again"),
            (Some(_), None) => info!("nat.log.ipfix: sent again"),
            _ => {}
        }
        let (waiting, lost) = (collector.waiting() as u64, collector.lost());
        self.shared.unsent.store(waiting, Ordering::Relaxed);
        if self.shared.unsent_lost.swap(lost, Ordering::Relaxed) == 0 && lost > 0 {
            error!("nat.log.ipfix: the collector does not get all events");
        }
    }

    fn is_sent(&self) -> bool {
        self.collector
            .as_ref()
            .is_none_or(|collector| collector.is_idle() || collector.fault().is_some())
    }

    fn write(&mut self, now_ms: u64) -> Result<(), LogError> {
        if let Some(log) = &mut self.log
            && !self.batch.is_empty()
        {
            log.append(&self.batch)?;
        }
        self.shared
            .written
            .fetch_add(self.batch.len() as u64, Ordering::Relaxed);
        self.batch.clear();
        match self.behind {
            Some(Entry::Lost { from_ms, events }) => {
                if let Some(log) = &mut self.log {
                    log.lose(from_ms, events)?;
                }
            }
            Some(Entry::AllHeld { unix_ms, losses }) => {
                if let Some(log) = &mut self.log {
                    log.end_gap(unix_ms)?;
                    info!("log of port blocks: all is known again");
                }
                self.losses = losses;
            }
            Some(Entry::Event(_)) | None => {}
        }
        self.behind = None;
        // What is lost or waits has happened before now.
        let is_whole = self.queue.is_empty() && self.losses == self.shared.losses.load(Ordering::Relaxed);
        if let Some(log) = &mut self.log
            && is_whole
            && self.marked.elapsed() >= MARK_EVERY
        {
            log.mark(now_ms)?;
            self.marked = Instant::now();
        }
        Ok(())
    }

    /// Logs when the disk takes no more, or takes it again.
    fn publish(&self, fault: Option<LogError>) {
        let mut before = self.shared.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*before, &fault) {
            (None, Some(fault)) => warn!("log of port blocks: not written: {fault}; it is tried again"),
            (Some(_), None) => info!("log of port blocks: written again"),
            _ => {}
        }
        *before = fault.map(|fault| fault.to_string());
    }
}

#[cfg(test)]
mod tests;
