//! A thread that polls one worker.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, Registration, pin_current_thread};
use flow::Nanos;
use worker::{Io, Stats, Worker};

use super::idle::Idle;
use super::wakeup::Bell;
use crate::clock::Clock;

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
pub struct Pace {
    /// The core to pin the thread to.
    pub core: Option<u32>,
    /// What it does when there is nothing to do.
    pub idle: Idle,
    /// Whom it wakes.
    pub rings: Rings,
}

/// Whom a worker's thread wakes, as far as they wait in the kernel.
#[derive(Clone, Debug, Default)]
pub struct Rings {
    /// Control, when there are events for it.
    pub control: Option<Bell>,
    /// The other workers, when packets are handed over.
    pub peers: Vec<Bell>,
    /// The host's thread, when there are packets for it.
    pub host: Option<Bell>,
}

/// What a worker has put into the queues of other threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Put {
    events: u64,
    handed_over: u64,
    to_host: u64,
}

impl Put {
    fn of<I: Io>(worker: &Worker<I>) -> Self {
        let stats = worker.stats();
        Self {
            events: worker.told(),
            handed_over: stats.handed_over,
            to_host: stats.to_host,
        }
    }
}

impl Rings {
    /// Wakes those for whom something was put in since `before`.
    fn ring(&self, before: Put, now: Put) {
        if now.events != before.events {
            self.control.iter().for_each(Bell::ring);
        }
        if now.handed_over != before.handed_over {
            self.peers.iter().for_each(Bell::ring);
        }
        if now.to_host != before.to_host {
            self.host.iter().for_each(Bell::ring);
        }
    }
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
        mut pace: Pace,
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
            let (mut next, mut put) = (Nanos(0), Put::default());
            while !stop.load(Ordering::Relaxed) {
                let now = clock.now();
                let report = worker.poll(now);
                let fed = between(now);
                let before = std::mem::replace(&mut put, Put::of(&worker));
                if put != before {
                    pace.rings.ring(before, put);
                }
                pace.idle.after(!report.is_idle() || fed);
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
