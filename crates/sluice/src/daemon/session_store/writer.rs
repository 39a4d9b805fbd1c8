//! The thread that writes: it encodes what control gives it, has the store make it durable, one sync for all that has
//! come, and notifies control how far that is.

use std::io;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use disk::Directory;
use n4::Kept;
use runtime::Wakeup;
use session::Seid;
use store::{Key, Store};
use tracing::{error, info};
use upf::RecordFrame;

use super::boot::Boot;
use super::queue::{Order, QUEUED, Shared, StoreFeed, StoreView};

/// How long the writer sleeps when there is nothing to do and it is not woken.
const NAP: Duration = Duration::from_millis(100);
/// How often the writer looks into the queue while control gives it something: nothing has to wake it then.
const LOOKS_EVERY: Duration = Duration::from_micros(50);
/// How long it does so after the last change.
const STAYS_AWAKE: Duration = Duration::from_millis(2);
/// How long the writer tries to make the rest durable when the daemon ends.
const LAST_TRY: Duration = Duration::from_secs(10);

/// The writer's thread.
pub struct StoreThread {
    shared: Arc<Shared>,
    thread: JoinHandle<bool>,
}

impl StoreThread {
    /// Starts the writer, which wakes control by `wakeup` when something has become durable.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub(super) fn start(
        store: Store<Directory>,
        directory: String,
        deadline: Duration,
        wakeup: Wakeup,
        boot: Boot,
    ) -> io::Result<(StoreThread, StoreFeed, StoreView)> {
        let (queue, taken) = rtrb::RingBuffer::new(QUEUED);
        let shared = Arc::new(Shared::default());
        let mut writer = Writer {
            store,
            queue: taken,
            shared: Arc::clone(&shared),
            wakeup,
            begin: Instant::now(),
            commits: Vec::new(),
            deadline,
            is_failing: false,
            boot,
            frame: None,
            node: None,
        };
        let thread = std::thread::Builder::new()
            .name("session-store".into())
            .spawn(move || writer.run())?;
        let feed = StoreFeed {
            queue,
            shared: Arc::clone(&shared),
            writer: thread.thread().clone(),
        };
        let view = StoreView {
            shared: Arc::clone(&shared),
            directory,
        };
        Ok((StoreThread { shared, thread }, feed, view))
    }

    /// Has the rest made durable. Whether the disk took all of it.
    #[must_use]
    pub fn end(self) -> bool {
        self.shared.stop.store(true, Ordering::Relaxed);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_default()
    }
}

struct Writer {
    store: Store<Directory>,
    queue: rtrb::Consumer<Order>,
    shared: Arc<Shared>,
    wakeup: Wakeup,
    begin: Instant,
    /// Numbers of changes that are durable with an operation, and when they came.
    commits: Vec<(store::Lsn, u64, Duration)>,
    deadline: Duration,
    is_failing: bool,
    boot: Boot,
    /// What the last records were encoded with.
    frame: Option<Arc<RecordFrame>>,
    /// The record of the node, with its head: the dates of moments.
    node: Option<(Vec<u8>, Vec<u8>)>,
}

impl Writer {
    fn run(&mut self) -> bool {
        let mut idle = STAYS_AWAKE;
        while !self.shared.stop.load(Ordering::Relaxed) {
            idle = if self.turn() {
                Duration::ZERO
            } else {
                idle + LOOKS_EVERY
            };
            if self.queue.is_empty() {
                let due = self
                    .store
                    .poll_timeout()
                    .map(|at| at.saturating_sub(self.begin.elapsed()));
                match due {
                    Some(Duration::ZERO) => {}
                    due if idle < STAYS_AWAKE => std::thread::sleep(due.unwrap_or(NAP).min(LOOKS_EVERY)),
                    due => self.sleep(due.unwrap_or(NAP).min(NAP)),
                }
            }
        }
        let until = Instant::now() + LAST_TRY;
        loop {
            self.turn();
            if self.queue.is_empty() && self.store.close(self.begin.elapsed()) {
                return true;
            }
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sleeps until control wakes it, or for this time.
    fn sleep(&self, time: Duration) {
        self.shared.sleeps.store(true, Ordering::Relaxed);
        // Either this sees what control has put into the queue, or control sees that it is to wake the writer.
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            std::thread::park_timeout(time);
        }
        self.shared.sleeps.store(false, Ordering::Relaxed);
    }

    /// Whether control had given something.
    fn turn(&mut self) -> bool {
        let is_busy = !self.queue.is_empty();
        let now = self.begin.elapsed();
        while self.queue.peek().is_ok_and(|order| self.takes(order))
            && let Ok(order) = self.queue.pop()
        {
            self.take(now, order);
        }
        self.store.poll(now);
        for key in self.store.take_unreadable() {
            error!("session store: {key:?} cannot be read any more, and is lost at the next start");
        }
        self.publish();
        self.store.index_slice(now);
        is_busy
    }

    /// Whether it is the turn of this one. Removals are taken whether there is room or not, and on a full disk what was
    /// accepted before, too: removals may be behind it.
    fn takes(&self, order: &Order) -> bool {
        match order {
            Order::Keep(
                Kept::Session { session: None, .. }
                | Kept::Response { record: None, .. }
                | Kept::LastUsage { record: None, .. },
                _,
            )
            | Order::Commit(_)
            | Order::AllRestored => true,
            Order::Keep(..) | Order::Progress(..) => self.store.takes_more(),
        }
    }

    fn take(&mut self, now: Duration, order: Order) {
        if let Order::Keep(_, frame) | Order::Progress(_, _, frame) = &order {
            self.note_dates(now, frame);
        }
        match order {
            Order::Keep(kept, frame) => self.keep(now, kept, &frame),
            // On a full disk the room is for what waits for it.
            Order::Progress(..) if !self.store.has_room() => {}
            Order::Progress(seid, progress, frame) => {
                if let Ok(octets) = progress.encode(&frame.wall) {
                    self.put(now, &Key::Usage(seid.0), 0, &[], &octets);
                }
            }
            Order::Commit(changes) => self.commits.push((self.store.last(), changes, now)),
            Order::AllRestored => self.store.hold_compaction(false),
        }
    }

    fn keep(&mut self, now: Duration, kept: Kept, frame: &RecordFrame) {
        let (key, record) = match kept {
            Kept::Node(record) => match record.encode() {
                Ok(octets) => return self.keep_node(now, octets, self.boot.encode(&frame.wall)),
                error => (Key::Node, Some(error)),
            },
            Kept::Association { node, record } => {
                (Key::Association(node), record.map(|record| record.encode()))
            }
            Kept::Application { id, record } => (Key::Application(id), record.map(|record| record.encode())),
            Kept::Response { seid, record } => (
                Key::Response(seid.0.to_be_bytes()),
                record.map(|record| record.encode()),
            ),
            Kept::LastUsage { seid, part, record } => (
                Key::LastUsage(last_usage_key(seid, part)),
                record.map(|record| record.encode(&frame.wall)),
            ),
            Kept::Session { seid, session } => return self.keep_session(now, seid, session, frame),
        };
        match record {
            Some(Ok(octets)) => self.put(now, &key, 0, &[], &octets),
            Some(Err(error)) => error!("session store: {key:?}: {error}"),
            None => drop(self.store.remove(now, &key)),
        }
    }

    fn keep_node(&mut self, now: Duration, octets: Vec<u8>, dates: Vec<u8>) {
        self.put(now, &Key::Node, 0, &dates, &octets);
        self.node = Some((octets, dates));
    }

    /// The node's record says the dates of moments, before any record has them.
    fn note_dates(&mut self, now: Duration, frame: &Arc<RecordFrame>) {
        let last = self.frame.replace(Arc::clone(frame));
        if last.is_some_and(|last| Arc::ptr_eq(&last, frame)) {
            return;
        }
        let dates = self.boot.encode(&frame.wall);
        if let Some((octets, _)) = self.node.take_if(|(_, known)| *known != dates) {
            self.keep_node(now, octets, dates);
        }
    }

    fn keep_session(
        &mut self,
        now: Duration,
        seid: Seid,
        session: Option<Box<session::KeptSession>>,
        frame: &RecordFrame,
    ) {
        let Some(kept) = session else {
            self.store.remove(now, &Key::Usage(seid.0));
            self.store.remove(now, &Key::Session(seid.0));
            return;
        };
        let head = kept.encode_head(&frame.network);
        match head.and_then(|head| Ok((head, kept.record.encode(frame.borrowed())?))) {
            Ok((head, octets)) => {
                let bucket = kept.record.bucket.index() as u16;
                self.put(now, &Key::Session(seid.0), bucket, &head, &octets);
            }
            Err(error) => error!("session store: session {:#018x}: {error}", seid.0),
        }
    }

    fn put(&mut self, now: Duration, key: &Key, bucket: u16, head: &[u8], value: &[u8]) {
        if let Err(error) = self.store.put(now, key, bucket, head, value) {
            error!("session store: {key:?}: {error}");
        }
    }

    /// Notifies control of what has become durable.
    fn publish(&mut self) {
        let durable = self.store.durable();
        let done = self
            .commits
            .iter()
            .take_while(|(lsn, ..)| *lsn <= durable)
            .count();
        if let Some((_, changes, _)) = self.commits.drain(..done).next_back() {
            self.shared.durable.store(changes, Ordering::Release);
            self.wakeup.wake();
        }
        let now = self.begin.elapsed();
        let is_late = self
            .commits
            .first()
            .is_some_and(|(.., since)| now > *since + self.deadline);
        let fault = self.store.fault().map(ToString::to_string);
        let fails = is_late || fault.is_some();
        let error = fault
            .clone()
            .or_else(|| is_late.then(|| "the disk is late".to_owned()));
        *self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner) = (self.store.progress(), error);
        if fails != std::mem::replace(&mut self.is_failing, fails) {
            self.shared.fails.store(fails, Ordering::Relaxed);
            match &fault {
                _ if !fails => info!("session store: the disk takes sessions again"),
                Some(error) => error!("session store: {error}: new sessions and changes are rejected"),
                None => error!("session store: the disk is late: new sessions and changes are rejected"),
            }
        }
    }
}

fn last_usage_key(seid: Seid, part: u16) -> [u8; 10] {
    let mut key = [0; 10];
    let octets = seid.0.to_be_bytes().into_iter().chain(part.to_be_bytes());
    key.iter_mut().zip(octets).for_each(|(to, octet)| *to = octet);
    key
}
