//! Sessions beyond the process: what changes in control goes to a store, and what was stored comes back after a start.
//!
//! The store is a thread's business, or a test's: control gives it what has changed, and asks how far that is durable.
//! It never waits for it; peers wait, for the messages that tell of a change ([`Endpoint::begin_keeping`]).

use std::sync::Arc;

use flow::Nanos;
use n4::{AbsentSessions, Endpoint, ImportError, Kept, SessionKey};
use rules::Predefined;
use rules::network::Network;
use session::{Frame, Record, Seid, SessionProgress, WallClock};
use worker::{Counted, SessionCount};

/// Sessions that come back in one poll without being asked for, at most.
const RESTORED_PER_POLL: usize = 32;

/// What the numbers in records mean, for a store that encodes them later.
#[derive(Clone, Debug)]
pub struct RecordFrame {
    /// The network instances.
    pub network: Arc<Network>,
    /// What is predefined.
    pub predefined: Arc<Predefined>,
    /// Which dates moments have.
    pub wall: WallClock,
}

impl RecordFrame {
    /// The same, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> Frame<'_> {
        Frame {
            network: &self.network,
            predefined: &self.predefined,
            wall: &self.wall,
        }
    }
}

/// Where sessions are kept beyond the process.
pub trait SessionStore: Send {
    /// Whether it takes anything at present. What it does not take waits.
    fn has_room(&self) -> bool;

    /// Takes what is to be kept from now on.
    fn put(&mut self, kept: Kept, frame: &Arc<RecordFrame>);

    /// Takes what a session has counted, which it may lose. Whether it had room.
    fn put_progress(&mut self, seid: Seid, progress: SessionProgress, frame: &Arc<RecordFrame>) -> bool;

    /// All of the first `changes` changes have been put.
    fn commit(&mut self, changes: u64);

    /// How many of the first changes are durable.
    fn durable(&self) -> u64;

    /// Whether nothing has become durable for longer than requests can wait.
    fn fails(&self) -> bool;

    /// All sessions that were stored before have come, or cannot.
    fn all_restored(&mut self);
}

/// Sessions that come back after a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Sessions that have come.
    pub sessions: u64,
    /// Those of them for which a packet or a request had come.
    pub on_demand: u64,
    /// Sessions that could not come.
    pub failed: u64,
}

/// Control's side of the store.
pub(super) struct SessionKeeper {
    store: Box<dyn SessionStore>,
    frame: Arc<RecordFrame>,
    committed: u64,
    is_restoring: bool,
    restored: Restored,
    failures: Vec<(Seid, ImportError)>,
}

/// Failures that are kept for the log.
const FAILURES_KEPT: usize = 64;

impl SessionKeeper {
    /// From now on all changes go to `store`.
    pub fn new(store: Box<dyn SessionStore>, endpoint: &mut Endpoint, network: &Arc<Network>) -> Self {
        endpoint.begin_keeping();
        let frame = Arc::new(frame(endpoint, network));
        Self {
            store,
            frame,
            committed: 0,
            is_restoring: false,
            restored: Restored::default(),
            failures: Vec::new(),
        }
    }

    /// Has stored sessions come back: these, and as many more as `unlisted`.
    pub fn begin_restoring(&mut self, endpoint: &mut Endpoint, first: AbsentSessions, unlisted: usize) {
        endpoint.begin_restoring(first, unlisted);
        self.is_restoring = true;
    }

    /// All others that are to come back.
    pub fn restore_rest(&mut self, now: Nanos, endpoint: &mut Endpoint, rest: AbsentSessions) {
        for key in endpoint.restore_rest(rest) {
            self.restore_for(now, endpoint, key);
        }
    }

    /// Whether the store takes anything at present.
    pub fn has_room(&self) -> bool {
        self.store.has_room()
    }

    /// Whether all changes are durable.
    pub fn is_settled(&self, endpoint: &Endpoint) -> bool {
        self.committed == endpoint.changes() && self.store.durable() >= self.committed
    }

    /// Whether sessions are yet to come back.
    pub fn is_restoring(&self) -> bool {
        self.is_restoring
    }

    /// What has come back.
    pub fn restored(&self) -> Restored {
        self.restored
    }

    /// A session that could not come back, for the log.
    pub fn poll_failure(&mut self) -> Option<(Seid, ImportError)> {
        self.failures.pop()
    }

    /// A packet has come for a session that may be yet to come.
    pub fn restore_for(&mut self, now: Nanos, endpoint: &mut Endpoint, key: SessionKey) {
        match endpoint.restore_for(now, key) {
            Ok(true) => {
                self.restored.sessions += 1;
                self.restored.on_demand += 1;
            }
            Ok(false) => {}
            Err(failed) => self.fail(failed),
        }
    }

    fn fail(&mut self, failed: (Seid, ImportError)) {
        self.restored.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(failed);
        }
    }

    /// Has some more sessions come back. Whether there was one, or an end to it: the end is when workers have taken
    /// all, since until then a packet of one of them is not to be answered with an Error Indication.
    pub fn restore_some(&mut self, now: Nanos, endpoint: &mut Endpoint) -> bool {
        if !self.is_restoring {
            return false;
        }
        while let Some(failed) = endpoint.poll_failed_restoration() {
            self.fail(failed);
        }
        for restored in 0..RESTORED_PER_POLL {
            match endpoint.restore_next(now) {
                Some(Ok(_)) => self.restored.sessions += 1,
                Some(Err(failed)) => self.fail(failed),
                None if endpoint.is_listing() || endpoint.is_importing() => return restored > 0,
                None => {
                    self.is_restoring = false;
                    self.store.all_restored();
                    break;
                }
            }
        }
        true
    }

    /// Takes a session as it was exported: with all that its worker has counted, and what its meters hold.
    pub fn put_exported(&mut self, endpoint: &Endpoint, network: &Arc<Network>, seid: Seid, octets: &[u8]) {
        self.follow(endpoint, network);
        let kept = endpoint.sessions().to_keep(seid);
        let record = Record::decode(octets, self.frame.borrowed());
        if let (Some((_, mut kept)), Ok((Record::Session(record), _))) = (kept, record) {
            kept.record = *record;
            let session = Some(Box::new(kept));
            self.store.put(Kept::Session { seid, session }, &self.frame);
        }
    }

    /// Takes what a worker's sessions have counted, and leaves what cannot be taken at present.
    pub fn put_counts(&mut self, endpoint: &Endpoint, counts: &mut Vec<SessionCount>) {
        let mut left = Vec::new();
        for of_one in counts.chunk_by(|a, b| a.session == b.session) {
            if !self.put_counts_of_one(endpoint, of_one) {
                left.extend_from_slice(of_one);
            }
        }
        counts.clear();
        counts.extend(left);
    }

    fn put_counts_of_one(&mut self, endpoint: &Endpoint, counts: &[SessionCount]) -> bool {
        let Some(session) = counts.first().map(|first| first.session) else {
            return true;
        };
        let urrs = counts.iter().filter_map(|one| match one.counted {
            Counted::Urr(urr, count) => Some((urr, count)),
            Counted::Packets(_) => None,
        });
        let packets = counts.iter().filter_map(|one| match one.counted {
            Counted::Packets(left) => Some(left),
            Counted::Urr(..) => None,
        });
        match endpoint.progress(session, urrs, packets) {
            None => false,
            Some((_, progress)) if progress.is_empty() => true,
            Some((seid, progress)) => self.store.put_progress(seid, progress, &self.frame),
        }
    }

    /// Gives the store what has changed, and releases what waits for what it has made durable. Whether there was
    /// anything.
    pub fn poll(&mut self, endpoint: &mut Endpoint, network: &Arc<Network>) -> bool {
        endpoint.set_keeping_fails(self.store.fails());
        endpoint.kept(self.store.durable());
        if self.committed == endpoint.changes() {
            return false;
        }
        self.follow(endpoint, network);
        while self.store.has_room() {
            match endpoint.poll_kept() {
                Some(kept) => self.store.put(kept, &self.frame),
                None => {
                    self.committed = endpoint.changes();
                    self.store.commit(self.committed);
                    endpoint.kept(self.store.durable());
                    break;
                }
            }
        }
        true
    }

    /// What numbers mean may have changed.
    fn follow(&mut self, endpoint: &Endpoint, network: &Arc<Network>) {
        let sessions = endpoint.sessions();
        let is_same = Arc::ptr_eq(&self.frame.network, network)
            && std::ptr::eq(&*self.frame.predefined, sessions.predefined())
            && self.frame.wall.epoch_nanos() == sessions.wall().epoch_nanos();
        if !is_same {
            self.frame = Arc::new(frame(endpoint, network));
        }
    }
}

fn frame(endpoint: &Endpoint, network: &Arc<Network>) -> RecordFrame {
    RecordFrame {
        network: Arc::clone(network),
        predefined: Arc::clone(&endpoint.config().sessions.predefined),
        wall: endpoint.sessions().wall().clone(),
    }
}
