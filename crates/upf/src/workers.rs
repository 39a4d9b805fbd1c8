//! The workers as Control sees them: a link to each, with the commands that it has no room for yet.

use std::collections::VecDeque;

use flow::WorkerId;
use worker::{Command, ControlEnd, Event};

/// Commands kept for one worker before effects wait in the endpoint.
const MAX_QUEUED: usize = 4_096;

/// One worker.
struct Peer {
    link: ControlEnd,
    /// Commands that the link had no room for, in order.
    queue: VecDeque<Command>,
    /// Commands that it took.
    sent: u64,
}

impl Peer {
    const fn new(link: ControlEnd) -> Self {
        Self {
            link,
            queue: VecDeque::new(),
            sent: 0,
        }
    }

    fn send(&mut self, command: Command) {
        self.queue.push_back(command);
        self.flush();
    }

    fn flush(&mut self) {
        while let Some(command) = self.queue.pop_front() {
            if let Err(rtrb::PushError::Full(command)) = self.link.commands.push(command) {
                self.queue.push_front(command);
                return;
            }
            self.sent += 1;
        }
    }
}

/// All workers, by their ids.
pub(super) struct Workers(Vec<Peer>);

impl Workers {
    /// The workers at the far ends of `links`, in the order of their ids.
    pub fn new(links: Vec<ControlEnd>) -> Self {
        Self(links.into_iter().map(Peer::new).collect())
    }

    pub const fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether no worker has as many commands queued that further effects have to wait.
    pub fn has_room(&self) -> bool {
        self.0.iter().all(|peer| peer.queue.len() < MAX_QUEUED)
    }

    /// How many commands each worker took, in the order of their ids.
    pub fn sent(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(|peer| peer.sent)
    }

    /// The next event of a worker.
    pub fn poll_event(&mut self, worker: usize) -> Option<Event> {
        self.0.get_mut(worker)?.link.events.pop().ok()
    }

    /// Sends one command to a worker, behind all that are queued.
    pub fn send(&mut self, to: WorkerId, command: Command) {
        if let Some(peer) = self.0.get_mut(to.index()) {
            peer.send(command);
        }
    }

    /// Sends a command to the first worker, which does what any of them could.
    pub fn send_first(&mut self, command: Command) {
        self.send(WorkerId(0), command);
    }

    /// Sends a command to each worker, made for each anew.
    pub fn send_all(&mut self, mut command: impl FnMut() -> Command) {
        self.0.iter_mut().for_each(|peer| peer.send(command()));
    }

    /// Moves queued commands to the links as far as these have room.
    pub fn flush(&mut self) {
        self.0.iter_mut().for_each(Peer::flush);
    }
}
