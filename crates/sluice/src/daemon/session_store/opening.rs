//! The store is opened beside everything else that a start does: what was in it, and what leads to each of its
//! sessions.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Config;
use disk::Directory;
use n4::{AbsentSessions, RecordFault, StoredSession, StoredSessions};
use rules::network::Network;
use session::{Random, RecordError, ResponseRecord, SessionHead, behind_record};
use store::{Key, Location, OpenError, Reader, Recovered, Settings, Store, StoreDisk};
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

/// Where the records of sessions are, until the last one has come: of each its own, and what was counted since, in the
/// order in which they were listed.
struct StoredRecords {
    reader: DirectoryReader,
    places: Vec<(Location, Option<Location>)>,
    /// Records that could not be read, and were named.
    logged: usize,
}

impl StoredSessions for StoredRecords {
    fn read(&mut self, place: usize) -> Result<StoredSession, RecordFault> {
        let (record, progress) = *self.places.get(place).ok_or(RecordFault::Unreadable)?;
        Ok(StoredSession {
            record: self.read_record(record)?,
            progress: progress.and_then(|place| self.read_record(place).ok()),
        })
    }
}

impl StoredRecords {
    fn read_record(&mut self, place: Location) -> Result<Vec<u8>, RecordFault> {
        self.reader.read(&place).map_err(|error| {
            if self.logged < MAX_LOGGED {
                self.logged += 1;
                error!("session store: {error}");
            }
            match error.kind() {
                io::ErrorKind::InvalidData => RecordFault::Damaged,
                _ => RecordFault::Unreadable,
            }
        })
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
    /// Takes the store's directory, if there is one, and begins to read what leads to its sessions.
    ///
    /// # Errors
    /// The directory cannot be had, or another process has it; the system gives no thread.
    pub fn begin(config: &Config, network: &Arc<Network>) -> Result<Option<Self>, String> {
        let Some(store) = &config.store else {
            return Ok(None);
        };
        let path = store.directory.value.clone();
        let fault = move |words: String| format!("session store in {}: {words}", path.display());
        let directory = take_directory(&store.directory.value).map_err(&fault)?;
        let network = Arc::clone(network);
        let open = move || open_in(directory, &network).map_err(fault);
        let thread = std::thread::Builder::new().name("store-opening".into());
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

fn take_directory(path: &Path) -> Result<Directory, String> {
    Directory::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => "another process has it".to_owned(),
        _ => error.to_string(),
    })
}

fn open_in(directory: Directory, network: &Network) -> Result<OpenedStore, String> {
    let begin = Instant::now();
    let opened = Store::open(directory, Settings::default(), Duration::ZERO);
    let (mut store, recovered) = opened.map_err(|error: OpenError| error.to_string())?;
    store.hold_compaction(true);
    let mut reader = store.reader().map_err(|error| error.to_string())?;
    let stored = read_others(&recovered, &mut reader)?;
    let read_ms = begin.elapsed().as_millis() as u64;
    let absent = list_sessions(&recovered, reader, network)?;
    log_recovered(&recovered, absent.len(), read_ms, begin);
    Ok(OpenedStore {
        store,
        stored,
        absent,
    })
}

/// The records of all but sessions. Damaged ones are passed over.
fn read_others(recovered: &Recovered, reader: &mut DirectoryReader) -> Result<Stored, String> {
    let mut stored = Stored::default();
    let (mut others, mut responses) = (Vec::new(), Vec::new());
    for live in recovered.others() {
        if let Key::Response(_) = live.key {
            responses.push(live.location);
            continue;
        }
        if matches!(live.key, Key::Node) {
            stored.dates = live.head.to_vec();
        }
        others.push((live.key.table(), live.location));
    }
    // The node comes before all others, applications and associations before what names them.
    others.sort_by_key(|(table, _)| *table);
    for (_, location) in others {
        match reader.read(&location) {
            Ok(record) => {
                check_revision(&record)?;
                stored.records.extend(record);
            }
            Err(damaged) if damaged.kind() == io::ErrorKind::InvalidData => {
                error!("session store: passed over: {damaged}");
            }
            Err(error) => return Err(error.to_string()),
        }
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
fn list_sessions(
    recovered: &Recovered,
    mut reader: DirectoryReader,
    network: &Network,
) -> Result<AbsentSessions, String> {
    let seed = Random::system_seed().map_err(|error| error.to_string())?;
    let mut places = Vec::with_capacity(recovered.len());
    places.extend(recovered.sessions().map(|live| (live.location, live.usage)));
    // One says it for all: a build that reads another revision has never written here.
    if let Some((first, _)) = places.first()
        && let Ok(record) = reader.read(first)
    {
        check_revision(&record)?;
    }
    let heads = recovered.sessions().map(|live| {
        let head = SessionHead::decode(live.head);
        let head = head.map_err(|error| format!("the session {:#018x}: {error}", live.seid))?;
        Ok((head, live.usage.is_some()))
    });
    let most = places.len();
    let records = Box::new(StoredRecords {
        reader,
        places,
        logged: 0,
    });
    AbsentSessions::list(network, heads, most, records, Random::from_seed(seed).next_u64())
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
