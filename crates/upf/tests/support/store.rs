//! A store in memory: what was put is durable when the test has it so, and a restart loses the rest.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use n4::{AbsentSessions, Kept, RecordFault, StoredSession, StoredSessions};
use rules::network::Network;
use session::{Record, ResponseRecord, Seid, SessionHead, SessionProgress, UnacknowledgedUsage, WallClock};
use upf::{RecordFrame, SessionStore};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node,
    Application(Vec<u8>),
    Association(Vec<u8>),
    Session(u64),
    Progress(u64),
    Response(u64),
    LastUsage(u64, u16),
}

#[derive(Debug)]
enum Operation {
    Put(Key, Vec<u8>, Vec<u8>),
    Remove(Key),
    Commit(u64),
}

#[derive(Debug, Default)]
pub struct State {
    durable: BTreeMap<Key, (Vec<u8>, Vec<u8>)>,
    waiting: VecDeque<Operation>,
    /// What the numbers in records mean.
    frame: Option<Arc<RecordFrame>>,
    commits: u64,
    pub is_stuck: bool,
    /// Whether control has said that all sessions have come back.
    pub has_restored_all: bool,
    pub fails: bool,
    /// How often sessions were put.
    pub sessions_put: u64,
    /// The dates of moments in the records that are durable, and in the others.
    dates: Vec<u8>,
    dates_waiting: Vec<u8>,
}

impl State {
    /// Makes everything durable that was put.
    pub fn sync(&mut self) {
        while let Some(operation) = self.waiting.pop_front() {
            match operation {
                Operation::Put(key, head, value) => drop(self.durable.insert(key, (head, value))),
                Operation::Remove(key) => drop(self.durable.remove(&key)),
                Operation::Commit(changes) => self.commits = changes,
            }
        }
        self.dates.clone_from(&self.dates_waiting);
    }
}

/// What a store had.
pub struct Copied(BTreeMap<Key, (Vec<u8>, Vec<u8>)>);

/// The disk, which outlives a world.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

impl MemoryStore {
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no panic before")
    }

    /// What is not durable is lost, and a new process begins.
    pub fn crash(&self) {
        let mut state = self.state();
        state.waiting.clear();
        state.dates_waiting = state.dates.clone();
        (state.commits, state.is_stuck, state.fails) = (0, false, false);
        state.has_restored_all = false;
    }

    /// The dates that moments had in the process before, whose clock went on.
    pub fn wall(&self) -> Option<WallClock> {
        WallClock::decode(&self.state().dates, 0)
    }

    /// The records of the node, its applications and associations, one behind the other.
    pub fn records(&self) -> Vec<u8> {
        let state = self.state();
        let few = state.durable.iter();
        let few = few.filter(|(key, _)| matches!(key, Key::Node | Key::Application(_) | Key::Association(_)));
        few.flat_map(|(_, (_, value))| value.clone()).collect()
    }

    /// The responses to deletions.
    pub fn responses(&self) -> Vec<ResponseRecord> {
        let state = self.state();
        let responses = state.durable.iter();
        let responses = responses.filter(|(key, _)| matches!(key, Key::Response(_)));
        let decode = |octets: &[u8]| ResponseRecord::decode(octets).expect("a response");
        responses.map(|(_, (_, octets))| decode(octets)).collect()
    }

    /// Usage of sessions that are gone.
    pub fn last_usage(&self) -> Vec<UnacknowledgedUsage> {
        let state = self.state();
        let wall = WallClock::decode(&state.dates, 0);
        let usage = state.durable.iter();
        let usage = usage.filter(|(key, _)| matches!(key, Key::LastUsage(..)));
        let decode = |octets: &[u8]| {
            let wall = wall.as_ref().expect("dates");
            UnacknowledgedUsage::decode(octets, wall).expect("usage")
        };
        usage.map(|(_, (_, octets))| decode(octets)).collect()
    }

    /// What it has.
    pub fn copy(&self) -> Copied {
        Copied(self.state().durable.clone())
    }

    /// It has all of this, beside what has come since: the ends of what was there came to no end.
    pub fn put_back(&self, copied: Copied) {
        self.state().durable.extend(copied.0);
    }

    /// How many sessions it has.
    pub fn sessions(&self) -> usize {
        let state = self.state();
        let sessions = state.durable.keys();
        sessions.filter(|key| matches!(key, Key::Session(_))).count()
    }

    /// The revisions of the sessions' records.
    pub fn revisions(&self) -> Vec<u8> {
        let state = self.state();
        let sessions = state.durable.iter();
        let sessions = sessions.filter(|(key, _)| matches!(key, Key::Session(_)));
        sessions.map(|(_, (_, record))| record[5]).collect()
    }

    /// Sessions are as the build before has written them: without a last response.
    pub fn downgrade(&self) {
        let mut state = self.state();
        let frame = state.frame.clone().expect("something was put");
        for (key, (_, record)) in &mut state.durable {
            if matches!(key, Key::Session(_)) {
                let (Record::Session(mut session), _) =
                    Record::decode(record, frame.borrowed()).expect("a record")
                else {
                    panic!("a session");
                };
                session.pending.response = None;
                *record = session.encode(frame.borrowed()).expect("a record");
                assert_eq!(record.pop(), Some(0), "no response");
                record[5] -= 1;
                let length = (record.len() - 15) as u32;
                record[7..11].copy_from_slice(&length.to_be_bytes());
                let sum = crc32c::crc32c_append(crc32c::crc32c(&record[..11]), &record[15..]);
                record[11..15].copy_from_slice(&sum.to_be_bytes());
            }
        }
    }

    /// Its sessions, which are to come back.
    pub fn absent(&self, network: &Network, seed: u64) -> AbsentSessions {
        self.absent_of(network, seed, |_| true)
    }

    /// Those of its sessions, by their places, that are to come back.
    pub fn absent_of(&self, network: &Network, seed: u64, is_one: impl Fn(usize) -> bool) -> AbsentSessions {
        let durable = self.state().durable.clone();
        let sessions = durable.iter().filter_map(|(key, (head, _))| match key {
            Key::Session(seid) => Some((*seid, head)),
            _ => None,
        });
        let sessions = sessions.enumerate().filter(|(place, _)| is_one(*place));
        let sessions = sessions.map(|(_, session)| session);
        let records = Records {
            store: self.clone(),
            seids: sessions.clone().map(|(seid, _)| seid).collect(),
        };
        let heads = sessions.map(|(_, head)| SessionHead::decode(head).map(|head| (head, false)));
        let listed = AbsentSessions::list(network, heads, 8, Box::new(records), seed);
        listed.expect("heads")
    }
}

impl SessionStore for MemoryStore {
    fn has_room(&self) -> bool {
        true
    }

    fn put(&mut self, kept: Kept, frame: &Arc<RecordFrame>) {
        let mut state = self.state();
        state.dates_waiting = frame.wall.encode(0);
        state.frame = Some(Arc::clone(frame));
        let (key, record) = match kept {
            Kept::Node(record) => (Key::Node, Some((Vec::new(), record.encode()))),
            Kept::Association { node, record } => {
                let record = record.map(|record| (Vec::new(), record.encode()));
                (Key::Association(node), record)
            }
            Kept::Application { id, record } => {
                let record = record.map(|record| (Vec::new(), record.encode()));
                (Key::Application(id), record)
            }
            Kept::Response { seid, record } => {
                let record = record.map(|record| (Vec::new(), record.encode()));
                (Key::Response(seid.0), record)
            }
            Kept::LastUsage { seid, part, record } => {
                let record = record.map(|record| (Vec::new(), record.encode(&frame.wall)));
                (Key::LastUsage(seid.0, part), record)
            }
            Kept::Session { seid, session } => {
                state.sessions_put += u64::from(session.is_some());
                if session.is_none() {
                    state.waiting.push_back(Operation::Remove(Key::Progress(seid.0)));
                }
                let record = session.map(|kept| {
                    let head = kept.encode_head(&frame.network).expect("a head");
                    (head, kept.record.encode(frame.borrowed()))
                });
                (Key::Session(seid.0), record)
            }
        };
        state.waiting.push_back(match record {
            Some((head, record)) => Operation::Put(key, head, record.expect("a record")),
            None => Operation::Remove(key),
        });
    }

    fn put_progress(&mut self, seid: Seid, progress: SessionProgress, frame: &Arc<RecordFrame>) -> bool {
        let octets = progress.encode(&frame.wall).expect("octets");
        let key = Key::Progress(seid.0);
        self.state()
            .waiting
            .push_back(Operation::Put(key, Vec::new(), octets));
        true
    }

    fn commit(&mut self, changes: u64) {
        let mut state = self.state();
        state.waiting.push_back(Operation::Commit(changes));
        if !state.is_stuck {
            state.sync();
        }
    }

    fn durable(&self) -> u64 {
        self.state().commits
    }

    fn fails(&self) -> bool {
        self.state().fails
    }

    fn all_restored(&mut self) {
        self.state().has_restored_all = true;
    }
}

/// The records of the sessions of a store.
struct Records {
    store: MemoryStore,
    seids: Vec<u64>,
}

impl StoredSessions for Records {
    fn read(&mut self, place: usize) -> Result<StoredSession, RecordFault> {
        let seid = *self.seids.get(place).ok_or(RecordFault::Unreadable)?;
        let state = self.store.state();
        let record = state.durable.get(&Key::Session(seid));
        let (_, record) = record.ok_or(RecordFault::Unreadable)?;
        let progress = state.durable.get(&Key::Progress(seid));
        Ok(StoredSession {
            record: record.clone(),
            progress: progress.map(|(_, octets)| octets.clone()),
        })
    }
}
