//! Sessions that outlive the process: a queue from control's thread, a thread that writes them to the store, and what
//! was in the store when the daemon started.
//!
//! Control never waits for the disk. The writer encodes what control gives it, has the store make it durable, one sync
//! for all that has come, and notifies control how far that is.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use disk::Directory;
use flow::Nanos;
use n4::{ImportError, Kept, StoredSession, StoredSessions};
use session::{
    Keyed, Random, RecordError, ResponseRecord, Seid, SessionHead, UrrProgress, WallClock, behind_record,
    encode_progress, keyed_with_room,
};
use store::{Key, Location, OpenError, Progress, ReadAt, Reader, Settings, Store, StoreDisk};
use tracing::{error, info, warn};

use config::{Config, StoreConfig};
use oam::values::{RestoredSessions, StoreState, StoreStatus};
use runtime::{Clock, Wakeup};
use upf::{Control, RecordFrame, Restored, SessionStore};

/// What the queue between control and the writer holds at most.
const QUEUED: usize = 65_536;
/// How long the writer sleeps when there is nothing to do and it is not woken.
const NAP: Duration = Duration::from_millis(100);
/// Damaged places that are logged one by one.
const MAX_LOGGED: usize = 10;
/// How long the writer tries to make the rest durable when the daemon ends.
const LAST_TRY: Duration = Duration::from_secs(10);

/// What both threads and the API know.
#[derive(Debug, Default)]
struct Shared {
    /// How many changes are durable.
    durable: AtomicU64,
    fails: AtomicBool,
    stop: AtomicBool,
    /// What the store has, and why it fails.
    writer: Mutex<(Progress, Option<String>)>,
    /// Sessions that are yet to come back, and what has come back.
    restored: Mutex<RestoredSessions>,
}

/// How the store stands, for the API and alarms.
#[derive(Clone)]
pub struct StoreView {
    shared: Arc<Shared>,
    directory: String,
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

    fn set_restored(&self, sessions: RestoredSessions) {
        *self
            .shared
            .restored
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = sessions;
    }
}

/// What control gives the writer.
enum Order {
    Keep(Kept, Arc<RecordFrame>),
    Progress(Seid, Vec<UrrProgress>, Arc<RecordFrame>),
    Commit(u64),
    AllRestored,
}

/// Control's end of the queue.
pub struct StoreFeed {
    queue: rtrb::Producer<Order>,
    shared: Arc<Shared>,
    writer: std::thread::Thread,
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

    fn put_progress(&mut self, seid: Seid, progress: Vec<UrrProgress>, frame: &Arc<RecordFrame>) {
        // A checkpoint that finds no room is made up for by the next one.
        if self.has_room() {
            self.push(Order::Progress(seid, progress, Arc::clone(frame)));
        }
    }

    fn commit(&mut self, changes: u64) {
        self.push(Order::Commit(changes));
        self.writer.unpark();
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

/// What the store had.
#[derive(Default)]
pub struct Stored {
    /// The records of the node, its applications and associations, in this order, one behind the other.
    pub records: Vec<u8>,
    /// What leads to each session, and whether it has counted something of late.
    pub heads: Vec<(SessionHead, bool)>,
    /// The head of the node's record: the dates of its process ([`Boot`]).
    dates: Vec<u8>,
    /// Responses to deletions of sessions.
    pub responses: Vec<ResponseRecord>,
}

/// By what processes of this host know each other's moments, as long as it is not started anew.
struct Boot {
    /// Another one after each start of the host; empty where it is not known.
    id: Vec<u8>,
    /// What the host's monotonic clock said when this process's was 0.
    zero: i64,
}

impl Boot {
    fn of(clock: &Clock) -> Boot {
        let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        Boot {
            id: id.trim().as_bytes().to_vec(),
            zero: clock.monotonic_at_zero(),
        }
    }

    /// Dates for another process.
    fn encode(&self, wall: &WallClock) -> Vec<u8> {
        [&self.id[..], &wall.encode(self.zero)].concat()
    }

    /// The dates of another process, if the host has not been started anew since.
    fn decode(&self, octets: &[u8]) -> Option<WallClock> {
        let octets = octets
            .strip_prefix(&self.id[..])
            .filter(|_| !self.id.is_empty())?;
        WallClock::decode(octets, self.zero)
    }
}

/// Where a session's record is, and what has counted since, by SEID.
type Places = Keyed<u64, (Option<Location>, Option<Location>)>;

/// Where the records of sessions are, until the last one has come.
pub struct StoredRecords<R> {
    reader: Reader<R>,
    places: Places,
}

impl<R: ReadAt + Send> StoredSessions for StoredRecords<R> {
    fn read(&mut self, seid: Seid) -> Option<StoredSession> {
        let (record, progress) = self.places.remove(&seid.0)?;
        let record = self.reader.read(&record?).ok()?;
        let progress = progress.and_then(|place| self.reader.read(&place).ok());
        Some(StoredSession { record, progress })
    }
}

/// The store as it was opened.
pub struct OpenedStore {
    store: Store<Directory>,
    /// What it had.
    pub stored: Stored,
    /// Where the records of its sessions are.
    pub records: StoredRecords<<Directory as StoreDisk>::Reads>,
}

/// A store that is being opened, on a thread of its own: DPDK, ports and tables are made meanwhile.
pub struct Opening(JoinHandle<Result<OpenedStore, String>>);

impl Opening {
    /// Begins to open the store, if there is one, and to read what leads to its sessions.
    ///
    /// # Errors
    /// The system's, when it gives no thread.
    pub fn begin(config: Option<&StoreConfig>) -> io::Result<Option<Self>> {
        let Some(config) = config else { return Ok(None) };
        let path = config.directory.value.clone();
        let thread = std::thread::Builder::new().name("store-opening".into());
        let open = move || {
            let fault = |words: String| format!("session store in {}: {words}", path.display());
            open_at(&path).map_err(fault)
        };
        thread.spawn(open).map(Self).map(Some)
    }

    /// Waits for it.
    ///
    /// # Errors
    /// What is wrong with the store, with its directory.
    pub fn end(self) -> Result<OpenedStore, String> {
        let panicked = |_| "session store: the thread that opens it panicked".to_owned();
        self.0.join().map_err(panicked).flatten()
    }
}

fn open_at(path: &Path) -> Result<OpenedStore, String> {
    let begin = Instant::now();
    let directory = Directory::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => "another process has it".to_owned(),
        _ => error.to_string(),
    })?;
    let opened = Store::open(directory, Settings::default(), Duration::ZERO);
    let (mut store, recovered) = opened.map_err(|error: OpenError| error.to_string())?;
    store.hold_compaction(true);
    let mut reader = store.reader().map_err(|error| error.to_string())?;
    let mut stored = Stored::default();
    let seed = Random::system_seed().map_err(|error| error.to_string())?;
    let seed = Random::from_seed(seed).next_u64();
    // Of each session there are one or two records.
    let most = recovered.len();
    let mut places: Places = keyed_with_room(most, seed);
    let (mut others, mut responses) = (Vec::new(), Vec::new());
    let mut heads = Vec::with_capacity(most);
    for live in recovered.iter() {
        match live.key {
            Key::Session(seid) => {
                let head = SessionHead::decode(live.head);
                let head = head.map_err(|error| format!("the session {seid:#018x}: {error}"))?;
                places.entry(seid).or_default().0 = Some(live.location);
                // One says it for all: a build that reads another revision has never written here.
                if heads.is_empty()
                    && let Ok(record) = reader.read(&live.location)
                {
                    check_revision(&record)?;
                }
                heads.push(head);
            }
            Key::Response(_) => responses.push(live.location),
            Key::Usage(seid) => places.entry(seid).or_default().1 = Some(live.location),
            ref other => {
                if matches!(other, Key::Node) {
                    stored.dates = live.head.to_vec();
                }
                others.push((other.table(), live.location));
            }
        }
    }
    // The node comes before all others, applications and associations before what names them.
    others.sort_by_key(|(table, _)| *table);
    for (_, location) in others {
        let record = reader.read(&location).map_err(|error| error.to_string())?;
        check_revision(&record)?;
        stored.records.extend(record);
    }
    for location in responses {
        // Without one a repeated request is a new one, which does less harm than no start.
        match reader
            .read(&location)
            .map(|record| ResponseRecord::decode(&record))
        {
            Ok(Ok(response)) => stored.responses.push(response),
            Ok(Err(error)) => error!("session store: response passed over: {error}"),
            Err(error) => error!("session store: response passed over: {error}"),
        }
    }
    let is_active = |head: &SessionHead| places.get(&head.seid.0).is_some_and(|(_, usage)| usage.is_some());
    stored.heads = heads
        .into_iter()
        .map(|head| (is_active(&head), head))
        .map(|(active, head)| (head, active))
        .collect();
    log_recovered(&recovered, stored.heads.len(), begin);
    Ok(OpenedStore {
        records: StoredRecords { reader, places },
        store,
        stored,
    })
}

/// Whether this build reads records of this revision. Where it does not, it would give every session up.
fn check_revision(record: &[u8]) -> Result<(), String> {
    match behind_record(record) {
        Err(error @ (RecordError::Revision { .. } | RecordError::Newer { .. })) => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn log_recovered(recovered: &store::Recovered, sessions: usize, begin: Instant) {
    info!(
        sessions,
        segments = recovered.segments,
        octets = recovered.octets,
        ms = begin.elapsed().as_millis() as u64,
        "session store read"
    );
    if recovered.torn_octets > 0 {
        warn!(
            octets = recovered.torn_octets,
            "session store: cut off behind the last whole record; what was behind it was never confirmed to a peer"
        );
    }
    for damage in recovered.damaged.iter().take(MAX_LOGGED) {
        error!("session store: passed over: {damage:?}");
    }
}

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
    fn start(
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

impl OpenedStore {
    /// The store for its writer, and what it had.
    pub fn split(
        self,
    ) -> (
        Store<Directory>,
        Stored,
        StoredRecords<<Directory as StoreDisk>::Reads>,
    ) {
        (self.store, self.stored, self.records)
    }
}

/// Keeps sessions in the store, and has those come back that it had.
///
/// # Errors
/// The store is of another node, or the system gives no thread.
pub fn keep_sessions(
    config: &Config,
    control: &mut Control,
    clock: &Clock,
    wakeup: Wakeup,
    opened: OpenedStore,
) -> Result<(StoreThread, StoreView), String> {
    let (store, stored, records) = opened.split();
    let (now, boot) = (clock.now(), Boot::of(clock));
    if let Some(wall) = boot.decode(&stored.dates) {
        control.session_keeping(now).resume_wall(wall);
    }
    let mut other_node = None;
    let imported = control
        .session_transfer(now)
        .import_all(&stored.records, |why| match why {
            ImportError::OtherNode(_) => other_node = Some(why),
            why => error!(%why, "session store: record not imported"),
        });
    if let Some(why) = other_node {
        return Err(format!("session store: {why}"));
    }
    // Only now: the log of another node is left as it is.
    let settings = config.store.as_ref();
    let deadline = settings.map_or(Duration::from_secs(1), StoreConfig::deadline);
    let directory = settings.map(|store| store.directory.value.display().to_string());
    let started = StoreThread::start(store, directory.unwrap_or_default(), deadline, wakeup, boot);
    let (thread, feed, view) = started.map_err(|error| error.to_string())?;
    let sessions = stored.heads.len();
    if imported.associations > 0 {
        info!(
            sessions,
            associations = imported.associations,
            "sessions being restored"
        );
    }
    let mut random = Random::from_seed(Random::system_seed().map_err(|error| error.to_string())?);
    let mut keeping = control.session_keeping(now);
    keeping.begin(Box::new(feed));
    keeping.restore(Box::new(records), &stored.heads, random.next_u64());
    keeping.restore_responses(stored.responses);
    Ok((thread, view))
}

/// What is logged and shown of sessions that come back.
#[derive(Default)]
pub struct RestorationLog {
    view: Option<StoreView>,
    shown: RestoredSessions,
    is_over: bool,
}

impl RestorationLog {
    /// Shows it by `view`, too.
    #[must_use]
    pub fn new(view: Option<StoreView>) -> RestorationLog {
        RestorationLog {
            view,
            ..RestorationLog::default()
        }
    }

    /// Logs sessions that could not come back, and once that all have been restored.
    pub fn log(&mut self, now: Nanos, control: &mut Control) {
        let mut keeping = control.session_keeping(now);
        while let Some((seid, why)) = keeping.poll_failure() {
            error!(seid = upf::identifiers::seid(seid.0), %why, "session not restored");
        }
        let (absent, restored) = keeping.restored();
        let Restored {
            sessions,
            on_demand,
            failed,
        } = restored;
        let shown = RestoredSessions {
            restored: sessions,
            on_demand,
            absent: absent as u64,
            failed,
        };
        if let Some(view) = &self.view
            && shown != std::mem::replace(&mut self.shown, shown)
        {
            view.set_restored(shown);
        }
        let is_over = absent == 0 && sessions + failed > 0;
        if is_over && !std::mem::replace(&mut self.is_over, true) {
            info!(sessions, on_demand, failed, "sessions restored");
        }
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
        while !self.shared.stop.load(Ordering::Relaxed) {
            self.turn();
            if self.queue.is_empty() {
                let due = self
                    .store
                    .poll_timeout()
                    .map(|at| at.saturating_sub(self.begin.elapsed()));
                match due {
                    Some(Duration::ZERO) => {}
                    due => std::thread::park_timeout(due.unwrap_or(NAP).min(NAP)),
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

    fn turn(&mut self) {
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
    }

    /// Whether it is the turn of this one. Removals are taken whether there is room or not, and on a full disk what was
    /// accepted before, too: removals may be behind it.
    fn takes(&self, order: &Order) -> bool {
        match order {
            Order::Keep(Kept::Session { session: None, .. } | Kept::Response { record: None, .. }, _)
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
                if let Ok(octets) = encode_progress(&progress, &frame.wall) {
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

#[cfg(test)]
mod tests {
    use session::Moment;

    use super::*;

    #[test]
    fn dates_are_for_processes_of_the_same_start_of_the_host() {
        let boot = |id: &str, zero| Boot { id: id.into(), zero };
        let wall = WallClock::starting(1_700_000_000);
        let octets = boot("0b36", 50).encode(&wall);
        let next = boot("0b36", 70).decode(&octets).unwrap();
        // What was moment 20 is moment 0.
        assert_eq!(next.unix_nanos(Moment(0)), wall.unix_nanos(Moment(20)));
        assert_eq!(boot("0b37", 70).decode(&octets), None);
        assert_eq!(boot("", 70).decode(&boot("", 50).encode(&wall)), None);
        assert_eq!(boot("0b36", 70).decode(b""), None);
    }
}
