//! The store is opened beside everything else that a start does: what was in it, and what leads to each of its sessions.

use std::io;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Config;
use disk::Directory;
use n4::{AbsentSessions, StoredSession, StoredSessions};
use rules::network::Network;
use session::{
    Keyed, Random, RecordError, ResponseRecord, Seid, SessionHead, behind_record, keyed_with_room,
};
use store::{Key, Location, OpenError, ReadAt, Reader, Recovered, Settings, Store, StoreDisk};
use tracing::{error, info, warn};

/// Damaged places that are logged one by one.
const MAX_LOGGED: usize = 10;

type DirectoryReader = Reader<<Directory as StoreDisk>::Reads>;

/// What the store had.
#[derive(Default)]
pub struct Stored {
    /// The records of the node, its applications and associations, in this order, one behind the other.
    pub records: Vec<u8>,
    /// The head of the node's record: the dates of its process ([`Boot`](super::boot::Boot)).
    pub dates: Vec<u8>,
    /// Responses to deletions of sessions.
    pub responses: Vec<ResponseRecord>,
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
    pub(super) store: Store<Directory>,
    /// What it had beside sessions.
    pub(super) stored: Stored,
    /// Its sessions.
    pub(super) absent: AbsentSessions,
}

/// A store that is being opened, on a thread of its own: DPDK, ports and tables are made meanwhile.
pub struct Opening(JoinHandle<Result<OpenedStore, String>>);

impl Opening {
    /// Begins to open the store, if there is one, and to read what leads to its sessions.
    ///
    /// # Errors
    /// The configured network is none, or the system gives no thread.
    pub fn begin(config: &Config) -> Result<Option<Self>, String> {
        let Some(store) = &config.store else {
            return Ok(None);
        };
        let path = store.directory.value.clone();
        let network = config.network().map_err(|error| error.to_string())?;
        let thread = std::thread::Builder::new().name("store-opening".into());
        let open = move || {
            let fault = |words: String| format!("session store in {}: {words}", path.display());
            open_at(&path, &network).map_err(fault)
        };
        let thread = thread.spawn(open).map_err(|error| error.to_string())?;
        Ok(Some(Self(thread)))
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

fn open_at(path: &Path, network: &Network) -> Result<OpenedStore, String> {
    let begin = Instant::now();
    let directory = Directory::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => "another process has it".to_owned(),
        _ => error.to_string(),
    })?;
    let opened = Store::open(directory, Settings::default(), Duration::ZERO);
    let (mut store, recovered) = opened.map_err(|error: OpenError| error.to_string())?;
    store.hold_compaction(true);
    let mut reader = store.reader().map_err(|error| error.to_string())?;
    let stored = read_others(&recovered, &mut reader)?;
    let read_ms = begin.elapsed().as_millis() as u64;
    let absent = enter_sessions(&recovered, reader, network)?;
    log_recovered(&recovered, absent.len(), read_ms, begin);
    Ok(OpenedStore {
        store,
        stored,
        absent,
    })
}

/// The records of all but sessions.
fn read_others(recovered: &Recovered, reader: &mut DirectoryReader) -> Result<Stored, String> {
    let mut stored = Stored::default();
    let (mut others, mut responses) = (Vec::new(), Vec::new());
    for live in recovered.iter() {
        match live.key {
            Key::Session(_) | Key::Usage(_) => {}
            Key::Response(_) => responses.push(live.location),
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
    Ok(stored)
}

/// What leads to each session. Those come first that have counted something of late.
fn enter_sessions(
    recovered: &Recovered,
    mut reader: DirectoryReader,
    network: &Network,
) -> Result<AbsentSessions, String> {
    let seed = Random::system_seed().map_err(|error| error.to_string())?;
    let mut random = Random::from_seed(seed);
    // Of each session there are one or two records.
    let most = recovered.len();
    let mut places: Places = keyed_with_room(most, random.next_u64());
    let mut first = None;
    for live in recovered.iter() {
        match live.key {
            Key::Session(seid) => {
                first.get_or_insert(live.location);
                places.entry(seid).or_default().0 = Some(live.location);
            }
            Key::Usage(seid) => places.entry(seid).or_default().1 = Some(live.location),
            _ => {}
        }
    }
    // One says it for all: a build that reads another revision has never written here.
    if let Some(record) = first.and_then(|first| reader.read(&first).ok()) {
        check_revision(&record)?;
    }
    let active: Vec<bool> = sessions(recovered)
        .map(|(seid, _)| places.get(&seid).is_some_and(|(_, usage)| usage.is_some()))
        .collect();
    let records = Box::new(StoredRecords { reader, places });
    let mut absent = AbsentSessions::with_room(active.len(), records, random.next_u64());
    for ((seid, head), is_active) in sessions(recovered).zip(active) {
        let head = SessionHead::decode(head);
        let head = head.map_err(|error| format!("the session {seid:#018x}: {error}"))?;
        absent.enter(network, &head, is_active);
    }
    Ok(absent)
}

/// The SEIDs and heads of all sessions.
fn sessions(recovered: &Recovered) -> impl Iterator<Item = (u64, &[u8])> {
    recovered.iter().filter_map(|live| match live.key {
        Key::Session(seid) => Some((seid, live.head)),
        _ => None,
    })
}

/// Whether this build reads records of this revision. Where it does not, it would give every session up.
fn check_revision(record: &[u8]) -> Result<(), String> {
    match behind_record(record) {
        Err(error @ (RecordError::Revision { .. } | RecordError::Newer { .. })) => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn log_recovered(recovered: &Recovered, sessions: usize, read_ms: u64, begin: Instant) {
    info!(
        sessions,
        segments = recovered.segments,
        octets = recovered.octets,
        read_ms,
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
