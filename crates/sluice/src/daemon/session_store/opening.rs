//! The store is opened beside everything else that a start does: what was in it, and what leads to each of its
//! sessions. Those that have counted something of late are listed first, since packets come for them: the daemon begins
//! while the others are being listed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use config::Config;
use disk::Directory;
use n4::{AbsentSessions, RecordFault, StoredSession, StoredSessions};
use rules::network::Network;
use runtime::lower_thread_priority;
use session::{Random, RecordError, ResponseRecord, SessionHead, behind_record};
use store::{Key, LiveSession, Location, OpenError, Reader, Recovered, Settings, Store, StoreDisk};
use tracing::{debug, error, info, warn};

/// Damaged places that are logged one by one.
const MAX_LOGGED: usize = 10;
/// The most sessions that are listed first.
const MOST_FIRST: usize = 32_768;

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
    /// Records of usage of sessions that are gone.
    pub last_usage: Vec<(Key, Vec<u8>)>,
    /// Responses and usage that are damaged: they are of no more use.
    pub damaged: Vec<Key>,
}

impl Stored {
    /// A record that a start can do without; `None` where it cannot be read.
    fn read_or_pass_over(
        &mut self,
        reader: &mut DirectoryReader,
        key: &Key,
        location: &Location,
    ) -> Option<Vec<u8>> {
        let read = reader.read(location);
        if let Err(error) = &read {
            error!("session store: {key:?} passed over: {error}");
            if error.kind() == io::ErrorKind::InvalidData {
                self.damaged.push(key.clone());
            }
        }
        read.ok()
    }
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
    /// The first of its sessions.
    pub(super) first: AbsentSessions,
    /// How many others it has.
    pub(super) unlisted: usize,
    /// Lists the others.
    pub(super) rest: RestOfSessions,
}

/// The sessions of a store that are being listed.
pub struct RestOfSessions(JoinHandle<Result<AbsentSessions, String>>);

impl RestOfSessions {
    /// Whether [`end`](Self::end) need not wait.
    pub fn is_listed(&self) -> bool {
        self.0.is_finished()
    }

    /// Waits for them.
    ///
    /// # Errors
    /// What is wrong with the store, with its directory.
    pub fn end(self) -> Result<AbsentSessions, String> {
        self.0.join().map_err(|_| panicked()).flatten()
    }
}

fn panicked() -> String {
    "session store: the thread that opens it panicked".to_owned()
}

/// What [`OpenedStore`] has before the others are listed.
type First = (Store<Directory>, Stored, AbsentSessions, usize);

/// A store that is being opened, on a thread of its own: DPDK, ports and tables are made meanwhile.
pub struct Opening {
    first: Receiver<First>,
    rest: RestOfSessions,
}

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
        let (sender, first) = sync_channel(1);
        let open = move || open_in(directory, &network, sender).map_err(fault);
        let thread = std::thread::Builder::new().name("store-opening".into());
        let rest = RestOfSessions(thread.spawn(open).map_err(|error| error.to_string())?);
        Ok(Some(Self { first, rest }))
    }

    /// Waits for all but those that are not listed first.
    ///
    /// # Errors
    /// What is wrong with the store, with its directory.
    pub fn end(self) -> Result<OpenedStore, String> {
        let Self { first, rest } = self;
        let Ok((store, stored, first, unlisted)) = first.recv() else {
            // The thread is over, and says why.
            return Err(rest.end().err().unwrap_or_else(panicked));
        };
        Ok(OpenedStore {
            store,
            stored,
            first,
            unlisted,
            rest,
        })
    }
}

fn take_directory(path: &Path) -> Result<Directory, String> {
    Directory::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => "another process has it".to_owned(),
        _ => error.to_string(),
    })
}

/// Gives the first sessions to `opened`, and returns the others.
fn open_in(
    directory: Directory,
    network: &Network,
    opened: SyncSender<First>,
) -> Result<AbsentSessions, String> {
    let begin = Instant::now();
    let store = Store::open(directory, Settings::default(), Duration::ZERO);
    let (mut store, recovered) = store.map_err(|error: OpenError| error.to_string())?;
    store.hold_compaction(true);
    let mut reader = store.reader().map_err(|error| error.to_string())?;
    let stored = read_others(&recovered, &mut reader)?;
    let read_ms = begin.elapsed().as_millis() as u64;
    let Sorted { first, rest } = Sorted::of(&recovered);
    let unlisted = rest.clone().count();
    log_recovered(&recovered, (first.len(), unlisted), read_ms);
    let of_rest = store.reader().map_err(|error| error.to_string())?;
    // What keeps this build from reading them is found before the daemon begins, and before it writes.
    // One of each says it for all: a build that reads another revision has never written here.
    for live in first.iter().take(1).cloned().chain(rest.clone().take(1)) {
        check_session(&live, &mut reader)?;
    }
    let listed = list_sessions(first.iter().cloned(), reader, network)?;
    debug!(
        ms = begin.elapsed().as_millis() as u64,
        "sessions listed that come first"
    );
    // Where it is not waited for any more, the daemon has ended.
    let _ = opened.send((store, stored, listed, unlisted));
    lower_thread_priority();
    let listed = list_sessions(rest, of_rest, network)?;
    info!(
        ms = begin.elapsed().as_millis() as u64,
        "all sessions of the session store listed"
    );
    Ok(listed)
}

/// The sessions of a store.
struct Sorted<'r, R> {
    /// Those of which what they have counted was written last.
    first: Vec<LiveSession<'r>>,
    /// The others.
    rest: R,
}

impl<'r> Sorted<'r, ()> {
    fn of(recovered: &'r Recovered) -> Sorted<'r, impl Iterator<Item = LiveSession<'r>> + Clone> {
        let mut written: Vec<_> = recovered.sessions().filter_map(|live| live.usage).collect();
        let oldest = match written.len().checked_sub(MOST_FIRST) {
            Some(others) if others > 0 => *written.select_nth_unstable(others).1,
            _ => Location::default(),
        };
        let is_first = move |live: &LiveSession<'_>| live.usage.is_some_and(|usage| usage >= oldest);
        Sorted {
            first: recovered.sessions().filter(is_first).collect(),
            rest: recovered.sessions().filter(move |live| !is_first(live)),
        }
    }
}

/// The records of all but sessions. Damaged ones are passed over.
fn read_others(recovered: &Recovered, reader: &mut DirectoryReader) -> Result<Stored, String> {
    let mut stored = Stored::default();
    let (mut others, mut responses, mut last_usage) = (Vec::new(), Vec::new(), Vec::new());
    for live in recovered.others() {
        if let Key::Response(_) = live.key {
            responses.push((live.key, live.location));
            continue;
        }
        if let Key::LastUsage(_) = live.key {
            last_usage.push((live.key, live.location));
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
    for (key, location) in responses {
        // Without one a repeated request is a new one, which does less harm than no start.
        if let Some(record) = stored.read_or_pass_over(reader, &key, &location) {
            match ResponseRecord::decode(&record) {
                Ok(response) => stored.responses.push(response),
                Err(error) => {
                    error!("session store: response passed over: {error}");
                    stored.damaged.push(key);
                }
            }
        }
    }
    for (key, location) in last_usage {
        if let Some(record) = stored.read_or_pass_over(reader, &key, &location) {
            check_revision(&record)?;
            stored.last_usage.push((key, record));
        }
    }
    Ok(stored)
}

/// What leads to each of these sessions. Those come first that have counted something of late.
fn list_sessions<'r>(
    sessions: impl Iterator<Item = LiveSession<'r>> + Clone,
    reader: DirectoryReader,
    network: &Network,
) -> Result<AbsentSessions, String> {
    let seed = Random::system_seed().map_err(|error| error.to_string())?;
    let places = sessions.clone().map(|live| (live.location, live.usage));
    let places: Vec<_> = places.collect();
    let heads = sessions.map(|live| Ok((head_of(&live)?, live.usage.is_some())));
    let most = places.len();
    let records = Box::new(StoredRecords {
        reader,
        places,
        logged: 0,
    });
    AbsentSessions::list(network, heads, most, records, Random::from_seed(seed).next_u64())
}

/// Whether this build reads this session's record and head.
fn check_session(live: &LiveSession<'_>, reader: &mut DirectoryReader) -> Result<(), String> {
    head_of(live)?;
    match reader.read(&live.location) {
        Ok(record) => check_revision(&record),
        // It is found to be so when it is to come.
        Err(_) => Ok(()),
    }
}

fn head_of<'r>(live: &LiveSession<'r>) -> Result<SessionHead<'r>, String> {
    SessionHead::decode(live.head).map_err(|error| format!("the session {:#018x}: {error}", live.seid))
}

/// Whether this build reads records of this revision. Where it does not, it would give every session up.
fn check_revision(record: &[u8]) -> Result<(), String> {
    match behind_record(record) {
        Err(error @ (RecordError::Revision { .. } | RecordError::Newer { .. })) => Err(error.to_string()),
        _ => Ok(()),
    }
}

fn log_recovered(recovered: &Recovered, (first, rest): (usize, usize), ms: u64) {
    info!(
        sessions = first + rest,
        first,
        segments = recovered.segments,
        octets = recovered.octets,
        ms,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_start_can_do_without_is_passed_over_and_named() {
        let path = std::env::temp_dir().join(format!("sluice-opening-{}", std::process::id()));
        let open = || {
            let directory = Directory::open(&path).expect("it is free");
            Store::open(directory, Settings::default(), Duration::ZERO).expect("a store")
        };
        let (response, usage) = (Key::Response([1; 8]), Key::LastUsage([2; 10]));
        let (mut store, _) = open();
        for key in [&response, &usage] {
            store
                .put(Duration::ZERO, key, 0, &[], b"no record")
                .expect("room");
        }
        for ms in 0..1_000 {
            store.poll(Duration::from_millis(ms));
        }
        drop(store);
        let (store, recovered) = open();
        let stored = read_others(&recovered, &mut store.reader().expect("a reader")).expect("readable");
        drop(store);
        std::fs::remove_dir_all(&path).expect("it is there");
        // What usage says is read when the dates of moments are known.
        assert_eq!(stored.damaged, [response]);
        assert_eq!(stored.last_usage, [(usage, b"no record".to_vec())]);
        assert_eq!(stored.responses, []);
    }
}
