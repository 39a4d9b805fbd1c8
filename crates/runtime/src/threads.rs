//! A thread that polls one worker.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, Registration, pin_current_thread};
use flow::slab::OutOfMemory;
use flow::{ContentTotal, Nanos, SessionGroupTotal};
use worker::{
    AcceleratorView, AccessCount, EgressCounts, Holdings, Io, NatCounts, PollReport, Stats, Worker,
};

use super::idle::Idle;
use super::wakeup::Wakeup;
use crate::clock::Clock;

/// How often statistics are published.
const PUBLISH: Duration = Duration::from_millis(50);
/// How often, in these times, counts of access lists are: there may be very many.
const ACCESS_EVERY: u32 = 20;

/// Statistics that a worker's thread publishes every `PUBLISH` for views, without waiting for a lock.
#[derive(Clone, Debug)]
pub struct PublishedStats(Arc<Mutex<CountedStats>>);

#[derive(Debug)]
struct CountedStats {
    stats: Stats,
    /// How often there were new ones.
    times: u64,
}

impl CountedStats {
    fn publish(&mut self, stats: &Stats) {
        self.stats.clone_from(stats);
        self.times += 1;
    }
}

impl PublishedStats {
    /// The statistics of a worker that has not started.
    #[must_use]
    pub fn new(stats: &Stats) -> Self {
        let stats = stats.clone();
        Self(Arc::new(Mutex::new(CountedStats { stats, times: 0 })))
    }

    fn lock(&self) -> MutexGuard<'_, CountedStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy of the last published statistics.
    #[must_use]
    pub fn read(&self) -> Stats {
        self.lock().stats.clone()
    }

    /// How often statistics were published. While the thread polls its worker this grows several times a second.
    #[must_use]
    pub fn times(&self) -> u64 {
        self.lock().times
    }

    /// Publishes, unless a reader holds the lock.
    pub fn offer(&self, stats: &Stats) {
        if let Ok(mut published) = self.0.try_lock() {
            published.publish(stats);
        }
    }

    fn publish(&self, stats: &Stats) {
        self.lock().publish(stats);
    }
}

/// Something else of a worker that its thread publishes for views, without waiting for a lock.
#[derive(Clone, Debug, Default)]
pub struct Published<T>(Arc<Mutex<T>>);

impl<T: Clone> Published<T> {
    /// What was published last.
    #[must_use]
    pub fn read(&self) -> T {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes what `write` writes over what was published before, unless a reader holds the lock.
    pub(crate) fn offer(&self, write: impl FnOnce(&mut T)) {
        if let Ok(mut published) = self.0.try_lock() {
            write(&mut published);
        }
    }
}

/// What a worker holds.
pub type PublishedHoldings = Published<Holdings>;

/// What the rules of access lists have decided in a worker, by their numbers; published every second.
pub type PublishedAccessCounts = Published<Vec<AccessCount>>;

/// What a worker's sessions have counted of each content, by its number; 1,024 contents are published at a time.
pub type PublishedContentTotals = Published<Vec<ContentTotal>>;

/// What a worker has forwarded of each session group, by its number.
pub type PublishedGroupTotals = Published<Vec<SessionGroupTotal>>;

/// What CG-NAT has counted in a worker.
pub type PublishedNatCounts = Published<NatCounts>;

/// What a worker's queues hold, and what became of packets there.
pub type PublishedEgressCounts = Published<EgressCounts>;

/// A worker's accelerator; `None` where it has none.
pub type PublishedAccelerator = Published<Option<AcceleratorView>>;

/// Contents that are published at a time.
const CONTENTS_AT_ONCE: usize = 1_024;

/// Brings a part of what is published up to date, from `from` on: where the next part begins.
fn write_part(published: &mut Vec<ContentTotal>, totals: &[ContentTotal], from: usize) -> usize {
    published.resize(totals.len(), ContentTotal::default());
    let from = if from < totals.len() { from } else { 0 };
    let end = totals.len().min(from + CONTENTS_AT_ONCE);
    published[from..end].copy_from_slice(&totals[from..end]);
    end
}

/// Brings what is published up to date, as far as groups have numbers: control gives the lowest first.
fn write_groups(published: &mut Vec<SessionGroupTotal>, totals: &[SessionGroupTotal]) {
    let none = SessionGroupTotal::default();
    let used = totals
        .iter()
        .rposition(|total| *total != none)
        .map_or(0, |last| last + 1);
    published.clear();
    published.extend_from_slice(&totals[..used]);
}

/// How a worker's thread runs.
pub struct ThreadConfig {
    /// The core to pin the thread to.
    pub core: Option<u32>,
    /// How it waits when there is nothing to do.
    pub idle: Idle,
    /// The threads that it wakes.
    pub wakes: WakeTargets,
}

/// The threads that a worker's thread wakes, where they wait in the kernel.
#[derive(Clone, Debug, Default)]
pub struct WakeTargets {
    /// Control, when there are events for it.
    pub control: Option<Wakeup>,
    /// The other workers, when packets are handed over.
    pub peers: Vec<Wakeup>,
    /// The host's thread, when there are packets for it.
    pub host: Option<Wakeup>,
}

/// Items that a worker has put into the queues of other threads since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PushCounts {
    events: u64,
    handed_over: u64,
    to_host: u64,
}

impl PushCounts {
    fn of<I: Io>(worker: &Worker<I>) -> Self {
        let stats = worker.stats();
        Self {
            events: worker.events_pushed(),
            handed_over: stats.handed_over + worker.passed_on(),
            to_host: stats.to_host,
        }
    }
}

impl WakeTargets {
    /// Wakes the threads into whose queues something was pushed since `before`.
    fn wake(&self, before: PushCounts, now: PushCounts) {
        if now.events != before.events {
            self.control.iter().for_each(Wakeup::wake);
        }
        if now.handed_over != before.handed_over {
            self.peers.iter().for_each(Wakeup::wake);
        }
        if now.to_host != before.to_host {
            self.host.iter().for_each(Wakeup::wake);
        }
    }
}

/// Why a worker's thread did not start.
#[derive(Debug)]
pub enum ThreadError {
    /// It cannot be pinned or registered.
    Dpdk(dpdk::Error),
    /// There is no memory for the worker's tables.
    Memory(OutOfMemory),
    /// It ended before its worker was made.
    Ended,
}

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dpdk(error) => error.fmt(f),
            Self::Memory(error) => error.fmt(f),
            Self::Ended => f.write_str("a worker's thread ended before its worker was made"),
        }
    }
}

impl std::error::Error for ThreadError {}

/// How a worker is polled: [`Worker::poll`], or [`worker::poll_over_dpdk`].
pub type PollWorker<I> = fn(&mut Worker<I>, Nanos) -> PollReport;

/// A running worker.
pub struct WorkerThread {
    thread: JoinHandle<()>,
    published: PublishedStats,
    holdings: PublishedHoldings,
    access_counts: PublishedAccessCounts,
    content_totals: PublishedContentTotals,
    group_totals: PublishedGroupTotals,
    nat_counts: PublishedNatCounts,
    egress_counts: PublishedEgressCounts,
    accelerator: PublishedAccelerator,
    made: Receiver<Result<Vec<Range<usize>>, ThreadError>>,
}

/// Registers and pins the calling thread, and makes its worker there: the memory of the worker's tables is taken from
/// the NUMA node of the thread's core.
fn make<I: Io>(
    eal: &'static Eal,
    core: Option<u32>,
    worker: impl FnOnce() -> Result<Worker<I>, OutOfMemory>,
) -> Result<(Registration, Worker<I>), ThreadError> {
    let registration = Registration::new(eal).map_err(ThreadError::Dpdk)?;
    core.map_or(Ok(()), pin_current_thread)
        .map_err(ThreadError::Dpdk)?;
    Ok((registration, worker().map_err(ThreadError::Memory)?))
}

impl WorkerThread {
    /// Starts a thread that makes the worker and polls it until `stop` is set. `between` runs after every poll on the
    /// worker's own thread: the demo's simulator feeds the worker from there.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn start<I>(
        eal: &'static Eal,
        clock: Clock,
        mut config: ThreadConfig,
        stop: Arc<AtomicBool>,
        (worker, poll): (
            impl FnOnce() -> Result<Worker<I>, OutOfMemory> + Send + 'static,
            PollWorker<I>,
        ),
        mut between: impl FnMut(Nanos) -> bool + Send + 'static,
    ) -> Self
    where
        I: Io + 'static,
    {
        let published = PublishedStats::new(&Stats::new(0));
        let shared = published.clone();
        let holdings = PublishedHoldings::default();
        let held = holdings.clone();
        let access_counts = PublishedAccessCounts::default();
        let access = access_counts.clone();
        let content_totals = PublishedContentTotals::default();
        let contents = content_totals.clone();
        let mut contents_from = 0;
        let group_totals = PublishedGroupTotals::default();
        let groups = group_totals.clone();
        let nat_counts = PublishedNatCounts::default();
        let nat = nat_counts.clone();
        let egress_counts = PublishedEgressCounts::default();
        let egress = egress_counts.clone();
        let accelerator = PublishedAccelerator::default();
        let accelerated = accelerator.clone();
        let (outcome, made) = sync_channel(1);
        let body = move || {
            // Sending fails, and is ignored, where the starter does not wait for the outcome.
            let (_registration, mut worker) = match make(eal, config.core, worker) {
                Ok(made) => made,
                Err(error) => return drop(outcome.send(Err(error))),
            };
            shared.publish(worker.stats());
            let _ = outcome.send(Ok(worker.table_areas()));
            let mut times = 0;
            let (mut next, mut pushed) = (Nanos(0), PushCounts::default());
            while !stop.load(Ordering::Relaxed) {
                let now = clock.now();
                let report = poll(&mut worker, now);
                let fed = between(now);
                let before = std::mem::replace(&mut pushed, PushCounts::of(&worker));
                if pushed != before {
                    config.wakes.wake(before, pushed);
                }
                config.idle.after(!report.is_idle() || fed);
                if now >= next {
                    shared.offer(worker.stats());
                    held.offer(|held| *held = worker.holdings());
                    if times % ACCESS_EVERY == 0 {
                        access.offer(|counts| {
                            counts.clear();
                            counts.extend_from_slice(worker.access_counts());
                        });
                    }
                    contents.offer(|totals| {
                        contents_from = write_part(totals, worker.content_totals(), contents_from)
                    });
                    groups.offer(|totals| write_groups(totals, worker.group_totals()));
                    nat.offer(|counts| *counts = worker.nat_counts());
                    egress.offer(|counts| *counts = worker.egress_counts());
                    accelerated.offer(|view| *view = worker.accelerator_view());
                    times = times.wrapping_add(1);
                    next = now + PUBLISH;
                }
            }
            shared.publish(worker.stats());
        };
        let thread = thread::Builder::new()
            .name("worker".into())
            .spawn(body)
            .expect("a thread for a worker");
        Self {
            thread,
            published,
            holdings,
            access_counts,
            content_totals,
            group_totals,
            nat_counts,
            egress_counts,
            accelerator,
            made,
        }
    }

    /// Waits until the worker is made; the addresses of its tables. Once.
    ///
    /// # Errors
    /// Why it is not made.
    pub fn ready(&mut self) -> Result<Vec<Range<usize>>, ThreadError> {
        self.made.recv().unwrap_or(Err(ThreadError::Ended))
    }

    /// The statistics that it publishes.
    #[must_use]
    pub fn published(&self) -> &PublishedStats {
        &self.published
    }

    /// What it holds, as it publishes it.
    #[must_use]
    pub fn holdings(&self) -> &PublishedHoldings {
        &self.holdings
    }

    /// What the rules of access lists have decided, as it publishes it.
    #[must_use]
    pub fn access_counts(&self) -> &PublishedAccessCounts {
        &self.access_counts
    }

    /// What its sessions have counted of each content, as it publishes it.
    #[must_use]
    pub fn content_totals(&self) -> &PublishedContentTotals {
        &self.content_totals
    }

    /// What it has forwarded of each session group, as it publishes it.
    #[must_use]
    pub fn group_totals(&self) -> &PublishedGroupTotals {
        &self.group_totals
    }

    /// What its queues hold, as it publishes it.
    #[must_use]
    pub fn egress_counts(&self) -> &PublishedEgressCounts {
        &self.egress_counts
    }

    /// What CG-NAT has counted, as it publishes it.
    #[must_use]
    pub fn nat_counts(&self) -> &PublishedNatCounts {
        &self.nat_counts
    }

    /// Its accelerator, as it publishes it.
    #[must_use]
    pub fn accelerator(&self) -> &PublishedAccelerator {
        &self.accelerator
    }

    /// Whether the thread has ended, which it does before `stop` only when it failed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread and gives its last statistics.
    ///
    /// # Panics
    /// When the thread panicked.
    #[must_use]
    pub fn join(self) -> Stats {
        self.thread.join().expect("the worker's thread panicked");
        self.published.read()
    }
}
