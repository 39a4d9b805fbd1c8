//! The queue from control's thread to the writer, and what both threads and the API know.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, PoisonError};

use n4::Kept;
use oam::values::{RestoredSessions, StoreState, StoreStatus};
use session::{Seid, SessionProgress};
use store::Progress;
use tracing::error;
use upf::{RecordFrame, SessionStore};

/// What the queue between control and the writer holds at most.
pub(super) const QUEUED: usize = 65_536;

/// What both threads and the API know.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// How many changes are durable.
    pub(super) durable: AtomicU64,
    pub(super) fails: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Whether the writer is to be woken when there is something in the queue.
    pub(super) sleeps: AtomicBool,
    /// What the store has, and why it fails.
    pub(super) writer: Mutex<(Progress, Option<String>)>,
    /// Sessions that are yet to come back, and what has come back.
    restored: Mutex<RestoredSessions>,
}

/// How the store stands, for the API and alarms.
#[derive(Clone)]
pub struct StoreView {
    pub(super) shared: Arc<Shared>,
    pub(super) directory: String,
}

impl StoreView {
    /// As of now.
    #[must_use]
    pub fn read(&self) -> StoreStatus {
        let shared = &self.shared;
        let (progress, error) = shared
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let state = if shared.fails.load(Ordering::Relaxed) {
            StoreState::Failing
        } else {
            StoreState::Writing
        };
        StoreStatus {
            directory: self.directory.clone(),
            state,
            error,
            changes: shared.durable.load(Ordering::Relaxed),
            records: progress.records,
            live_octets: progress.live_octets,
            garbage_octets: progress.garbage_octets,
            segments: progress.segments,
            segment_index_octets: progress.segment_index_octets,
            index_octets: progress.index_octets,
            reserve_octets: progress.reserve_octets,
            held: progress.held,
            held_octets: progress.held_octets,
            written_octets: progress.written_octets,
            compacted_octets: progress.compacted_octets,
            syncs: progress.syncs,
            failures: progress.failures,
            unreadable: progress.unreadable,
            sessions: *shared.restored.lock().unwrap_or_else(PoisonError::into_inner),
        }
    }

    pub(super) fn set_restored(&self, sessions: RestoredSessions) {
        *self
            .shared
            .restored
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = sessions;
    }
}

/// What control gives the writer.
pub(super) enum Order {
    Keep(Kept, Arc<RecordFrame>),
    Progress(Seid, SessionProgress, Arc<RecordFrame>),
    Commit(u64),
    AllRestored,
}

/// Control's end of the queue.
pub struct StoreFeed {
    pub(super) queue: rtrb::Producer<Order>,
    pub(super) shared: Arc<Shared>,
    pub(super) writer: std::thread::Thread,
}

impl StoreFeed {
    fn push(&mut self, order: Order) {
        // There is room: control asks for it, and keeps some for what it does not ask for.
        if self.queue.push(order).is_err() {
            error!("session store: the queue to its writer is full");
        }
    }
}

impl SessionStore for StoreFeed {
    fn has_room(&self) -> bool {
        self.queue.slots() > QUEUED / 8
    }

    fn put(&mut self, kept: Kept, frame: &Arc<RecordFrame>) {
        self.push(Order::Keep(kept, Arc::clone(frame)));
    }

    fn put_progress(&mut self, seid: Seid, progress: SessionProgress, frame: &Arc<RecordFrame>) -> bool {
        let has_room = self.has_room();
        if has_room {
            self.push(Order::Progress(seid, progress, Arc::clone(frame)));
        }
        has_room
    }

    fn commit(&mut self, changes: u64) {
        self.push(Order::Commit(changes));
        // Either the writer sees the commit before it sleeps, or this sees that it is about to.
        fence(Ordering::SeqCst);
        if self.shared.sleeps.load(Ordering::Relaxed) {
            self.writer.unpark();
        }
    }

    fn durable(&self) -> u64 {
        self.shared.durable.load(Ordering::Acquire)
    }

    fn fails(&self) -> bool {
        self.shared.fails.load(Ordering::Relaxed)
    }

    fn all_restored(&mut self) {
        self.push(Order::AllRestored);
    }
}
