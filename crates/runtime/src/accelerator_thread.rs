//! A thread that polls the node of an accelerator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dpdk::{Eal, Registration, pin_current_thread};
use flow::Nanos;
use packet::MacAddr;
use worker::accelerator::{Node, NodeError, NodeStats, Reason, SettlingStats};
use worker::{Io, Stats};

use crate::clock::Clock;
use crate::idle::Idle;
use crate::threads::{Published, ThreadError};

/// How often it is published what the node counts.
const PUBLISH: Duration = Duration::from_millis(50);

/// A node as it is now, and what it has counted since its start.
#[derive(Clone, Debug, Default)]
pub struct NodeView {
    /// Its host, while there is contact.
    pub host: Option<MacAddr>,
    /// Contacts with a host.
    pub contacts: u64,
    /// Frames of the host's port that the channel has discarded.
    pub discarded: u64,
    /// What a worker counts, too; `None` before the first poll.
    pub path: Option<Stats>,
    /// Exceptions by [`Reason::index`].
    pub exceptions: [u64; Reason::COUNT],
    /// Exceptions that found no room.
    pub exceptions_lost: u64,
    /// Between node and host.
    pub node: NodeStats,
    /// Flows that settle, and have.
    pub settling: SettlingStats,
    /// Flow entries.
    pub flows: usize,
}

impl NodeView {
    fn of<I: Io>(node: &Node<I>) -> Self {
        let channel = node.agent().channel();
        let engine = node.engine().stats();
        Self {
            host: channel.peer_mac().filter(|_| node.is_served()),
            contacts: node.agent().stats().contacts,
            discarded: channel.stats().discards.iter().sum(),
            path: Some(engine.path.clone()),
            exceptions: *engine.exceptions,
            exceptions_lost: engine.exceptions_lost,
            node: *node.stats(),
            settling: engine.settling,
            flows: engine.flows,
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
    thread: JoinHandle<NodeView>,
    published: Published<NodeView>,
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
        let published = Published::<NodeView>::default();
        let shared = published.clone();
        let (outcome, made) = sync_channel(1);
        let body = move || {
            let (_registration, mut node) = match make(eal, core, node) {
                Ok(made) => made,
                Err(error) => {
                    let _ = outcome.send(Err(error));
                    return NodeView::default();
                }
            };
            let _ = outcome.send(Ok(()));
            let mut next = Nanos::ZERO;
            while !stop.load(Ordering::Relaxed) {
                let now = clock.now();
                let report = node.poll(now);
                idle.after(!report.is_idle() || node.deadline() <= now);
                if now >= next {
                    shared.offer(|view| *view = NodeView::of(&node));
                    next = now + PUBLISH;
                }
            }
            NodeView::of(&node)
        };
        let thread = thread::Builder::new()
            .name("accelerator".into())
            .spawn(body)
            .expect("a thread for an accelerator");
        wait_for(&made)?;
        Ok(Self { thread, published })
    }

    /// The node, as it is published.
    #[must_use]
    pub fn view(&self) -> NodeView {
        self.published.read()
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
    pub fn join(self) -> NodeView {
        self.thread.join().expect("the accelerator's thread panicked")
    }
}

fn wait_for(made: &Receiver<Result<(), NodeThreadError>>) -> Result<(), NodeThreadError> {
    made.recv()
        .unwrap_or(Err(NodeThreadError::Thread(ThreadError::Ended)))
}
