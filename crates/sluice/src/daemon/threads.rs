//! A thread that polls one worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, Registration, pin_current_thread};
use flow::Nanos;
use worker::{Io, PollReport, Stats, Worker};

use crate::clock::Clock;

/// Polls without a packet before a worker may sleep: about a millisecond.
const IDLE_POLLS: u32 = 10_000;
/// How often statistics are published.
const PUBLISH: Duration = Duration::from_millis(50);

/// Statistics that a worker's thread publishes now and then, for views. No packet waits for it.
#[derive(Clone, Debug)]
pub struct Published(Arc<Mutex<Stats>>);

impl Published {
    /// The statistics of a worker that has not started.
    #[must_use]
    pub fn new(stats: &Stats) -> Self {
        Self(Arc::new(Mutex::new(stats.clone())))
    }

    /// A copy of what was last published.
    #[must_use]
    pub fn read(&self) -> Stats {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Publishes, unless a reader holds the lock just now.
    pub fn offer(&self, stats: &Stats) {
        if let Ok(mut published) = self.0.try_lock() {
            published.clone_from(stats);
        }
    }

    fn publish(&self, stats: &Stats) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone_from(stats);
    }
}

/// How a worker's thread runs.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The core to pin the thread to.
    pub core: Option<u32>,
    /// How long an idle worker sleeps between polls; zero: it never sleeps.
    pub idle_sleep: Duration,
}

/// A running worker.
pub struct WorkerThread {
    thread: JoinHandle<Result<(), dpdk::Error>>,
    published: Published,
}

impl WorkerThread {
    /// Starts to poll `worker` until `stop` is set. `between` runs after every poll on the worker's own thread: the
    /// demo's simulator feeds the worker from there.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn start<I>(
        eal: &'static Eal,
        clock: Clock,
        pace: Pace,
        stop: Arc<AtomicBool>,
        mut worker: Worker<I>,
        mut between: impl FnMut(Nanos) -> bool + Send + 'static,
    ) -> Self
    where
        I: Io + 'static,
        Worker<I>: Send,
    {
        let published = Published::new(worker.stats());
        let shared = published.clone();
        let body = move || {
            let _registration = Registration::new(eal)?;
            if let Some(core) = pace.core {
                pin_current_thread(core)?;
            }
            let mut idle = Idle {
                polls: 0,
                sleep: pace.idle_sleep,
            };
            let mut next = Nanos(0);
            while !stop.load(Ordering::Relaxed) {
                let now = clock.now();
                let report = worker.poll(now);
                let fed = between(now);
                idle.rest(&report, fed);
                if now >= next {
                    shared.offer(worker.stats());
                    next = now + PUBLISH;
                }
            }
            shared.publish(worker.stats());
            Ok(())
        };
        let thread = thread::Builder::new()
            .name("worker".into())
            .spawn(body)
            .expect("a thread for a worker");
        Self { thread, published }
    }

    /// Where its statistics are read.
    #[must_use]
    pub fn published(&self) -> &Published {
        &self.published
    }

    /// Whether the thread has ended, which it does before `stop` only when it failed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread and gives its last statistics.
    ///
    /// # Errors
    /// What kept the thread from working.
    ///
    /// # Panics
    /// When the thread panicked.
    pub fn join(self) -> Result<Stats, dpdk::Error> {
        self.thread.join().expect("the worker's thread panicked")?;
        Ok(self.published.read())
    }
}

/// Lets a worker without packets leave its core to others.
struct Idle {
    polls: u32,
    sleep: Duration,
}

impl Idle {
    fn rest(&mut self, report: &PollReport, fed: bool) {
        if !report.is_idle() || fed {
            self.polls = 0;
            return;
        }
        self.polls += 1;
        if self.polls >= IDLE_POLLS && !self.sleep.is_zero() {
            self.polls = IDLE_POLLS;
            thread::sleep(self.sleep);
        }
    }
}
