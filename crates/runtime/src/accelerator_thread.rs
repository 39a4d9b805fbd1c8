//! A thread that polls the node of an accelerator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, Registration, pin_current_thread};
use flow::Nanos;
use worker::Io;
use worker::accelerator::{Node, NodeError, NodeView};

use crate::clock::Clock;
use crate::idle::Idle;
use crate::threads::{Published, ThreadError};

/// How often it is published what the node counts.
const PUBLISH: Duration = Duration::from_millis(50);

/// A node, and its thread.
#[derive(Clone, Debug, Default)]
pub struct AcceleratorReport {
    /// The node.
    pub node: NodeView,
    /// How long the thread has run.
    pub running: Duration,
    /// How long polls took of that, those that found something to do.
    pub working: Duration,
    /// How often it has polled.
    pub polls: u64,
}

/// How long a thread has run and worked, and how often.
struct Time {
    begin: Nanos,
    working: Duration,
    polls: u64,
}

impl Time {
    fn report<I: Io>(&self, node: &Node<I>, now: Nanos) -> AcceleratorReport {
        AcceleratorReport {
            node: node.view(),
            running: now.since(self.begin),
            working: self.working,
            polls: self.polls,
        }
    }
}

/// Why the thread of a node did not start.
#[derive(Debug)]
pub enum NodeThreadError {
    /// As of a worker's thread.
    Thread(ThreadError),
    /// There is no node.
    Node(NodeError),
}

impl std::fmt::Display for NodeThreadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Thread(error) => error.fmt(f),
            Self::Node(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NodeThreadError {}

/// The running node of an accelerator.
pub struct AcceleratorThread {
    thread: JoinHandle<AcceleratorReport>,
    /// Ports of the network without a link, a bit each.
    links_down: Arc<AtomicU64>,
    published: Published<AcceleratorReport>,
}

/// Registers and pins the calling thread, and makes its node there.
fn make<I: Io>(
    eal: &'static Eal,
    core: Option<u32>,
    node: impl FnOnce() -> Result<Node<I>, NodeError>,
) -> Result<(Registration, Node<I>), NodeThreadError> {
    let of_dpdk = |error| NodeThreadError::Thread(ThreadError::Dpdk(error));
    let registration = Registration::new(eal).map_err(of_dpdk)?;
    core.map_or(Ok(()), pin_current_thread).map_err(of_dpdk)?;
    Ok((registration, node().map_err(NodeThreadError::Node)?))
}

impl AcceleratorThread {
    /// Starts a thread that makes the node and polls it until `stop` is set, and waits until the node is made.
    ///
    /// # Errors
    /// Why it is not made.
    ///
    /// # Panics
    /// When the system has no thread left.
    pub fn start<I: Io + 'static>(
        eal: &'static Eal,
        clock: Clock,
        (core, mut idle): (Option<u32>, Idle),
        stop: Arc<AtomicBool>,
        node: impl FnOnce() -> Result<Node<I>, NodeError> + Send + 'static,
    ) -> Result<Self, NodeThreadError> {
        let published = Published::<AcceleratorReport>::default();
        let shared = published.clone();
        let links_down = Arc::new(AtomicU64::new(0));
        let down = Arc::clone(&links_down);
        let (outcome, made) = sync_channel(1);
        let body = move || {
            let (_registration, mut node) = match make(eal, core, node) {
                Ok(made) => made,
                Err(error) => {
                    let _ = outcome.send(Err(error));
                    return AcceleratorReport::default();
                }
            };
            let _ = outcome.send(Ok(()));
            let mut next = Nanos::ZERO;
            let mut time = Time {
                begin: clock.now(),
                working: Duration::ZERO,
                polls: 0,
            };
            while !stop.load(Ordering::Relaxed) {
                let now = clock.now();
                node.set_links_down(down.load(Ordering::Relaxed));
                let has_worked = !node.poll(now).is_idle();
                time.polls += 1;
                if has_worked {
                    time.working += clock.now().since(now);
                }
                idle.after(has_worked || node.deadline() <= now);
                if now >= next {
                    shared.offer(|report| *report = time.report(&node, now));
                    next = now + PUBLISH;
                }
            }
            time.report(&node, clock.now())
        };
        let thread = thread::Builder::new()
            .name("accelerator".into())
            .spawn(body)
            .expect("a thread for an accelerator");
        wait_for(&made)?;
        Ok(Self {
            thread,
            links_down,
            published,
        })
    }

    /// Has the host told which ports of the network have no link, a bit each by their numbers.
    pub fn set_links_down(&self, down: u64) {
        self.links_down.store(down, Ordering::Relaxed);
    }

    /// Node and thread, as they are published.
    #[must_use]
    pub fn report(&self) -> AcceleratorReport {
        self.published.read()
    }

    /// Reads the same from any thread.
    pub fn reader(&self) -> impl Fn() -> AcceleratorReport + Send + Sync + use<> {
        let published = self.published.clone();
        move || published.read()
    }

    /// Whether the thread has ended, which it does before `stop` only when it failed.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.is_finished()
    }

    /// Waits for the thread, and gives what its node has counted.
    ///
    /// # Panics
    /// When the thread panicked.
    #[must_use]
    pub fn join(self) -> AcceleratorReport {
        self.thread.join().expect("the accelerator's thread panicked")
    }
}

fn wait_for(made: &Receiver<Result<(), NodeThreadError>>) -> Result<(), NodeThreadError> {
    made.recv()
        .unwrap_or(Err(NodeThreadError::Thread(ThreadError::Ended)))
}
