//! An endpoint whose changes are kept, and that ends at any moment: what is durable then is the beginning of what was
//! given.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use n4::{AbsentSessions, Config, Endpoint, Kept, RecordFault, StoredSession, StoredSessions};
use rules::Predefined;
use rules::network::Network;
use session::{Frame, Random, ResponseRecord, Seid, SessionHead, UnacknowledgedUsage, WallClock};

use super::fleet::{EveryNextHop, network};
use super::wire::{Octets, message};
use super::{Reply, UPF_START, World};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    Node,
    Association(Vec<u8>),
    Session(u64),
    Response(u64),
    LastUsage(u64, u16),
}

/// A head and a record.
type Value = (Vec<u8>, Vec<u8>);

pub struct Keeping {
    pub world: World,
    pub durable: BTreeMap<Key, Value>,
    pub waiting: VecDeque<(Key, Option<Value>)>,
    processes: u64,
}

struct Records(Vec<Vec<u8>>);

impl StoredSessions for Records {
    fn read(&mut self, place: usize) -> Result<StoredSession, RecordFault> {
        let record = self.0.get(place).ok_or(RecordFault::Unreadable)?.clone();
        Ok(StoredSession {
            record,
            progress: None,
        })
    }
}

/// Requests are repeated whenever the peer likes.
pub fn config() -> Config {
    let mut config = World::config(2);
    config.response_cache_age = Duration::from_secs(3_600);
    config
}

fn wall() -> WallClock {
    WallClock::starting(UPF_START)
}

fn value_of(kept: Kept, network: &Network) -> Option<(Key, Option<Value>)> {
    let predefined = Predefined::default();
    let wall = wall();
    let frame = Frame {
        network,
        predefined: &predefined,
        wall: &wall,
    };
    let plain = |record| (Vec::new(), record);
    Some(match kept {
        Kept::Node(record) => (Key::Node, Some(plain(record.encode().unwrap()))),
        Kept::Association { node, record } => {
            let record = record.map(|record| plain(record.encode().unwrap()));
            (Key::Association(node), record)
        }
        Kept::Application { .. } => return None,
        Kept::Response { seid, record } => {
            let record = record.map(|record| plain(record.encode().unwrap()));
            (Key::Response(seid.0), record)
        }
        Kept::LastUsage { seid, part, record } => {
            let record = record.map(|record| plain(record.encode(&wall).unwrap()));
            (Key::LastUsage(seid.0, part), record)
        }
        Kept::Session { seid, session } => {
            let encode = |kept: Box<session::KeptSession>| {
                (
                    kept.encode_head(network).unwrap(),
                    kept.record.encode(frame).unwrap(),
                )
            };
            (Key::Session(seid.0), session.map(encode))
        }
    })
}

impl Keeping {
    pub fn new(mut world: World) -> Keeping {
        world.n4.begin_keeping();
        Keeping {
            world,
            durable: BTreeMap::new(),
            waiting: VecDeque::new(),
            processes: 100,
        }
    }

    /// Takes what is to be kept, which is not durable yet.
    pub fn gather(&mut self) {
        let network = network();
        let kept = std::iter::from_fn(|| self.world.n4.poll_kept());
        self.waiting
            .extend(kept.filter_map(|kept| value_of(kept, &network)));
    }

    /// Makes all durable, and gives what is sent then.
    pub fn sync(&mut self) -> Vec<Reply> {
        // What says nothing new.
        let mut sent = self.world.transmits();
        self.gather();
        self.write(self.waiting.len());
        let changes = self.world.n4.changes();
        self.world.n4.kept(changes);
        sent.extend(self.world.transmits());
        sent
    }

    /// The first `count` of what waits become durable.
    pub fn write(&mut self, count: usize) {
        for (key, value) in self.waiting.drain(..count) {
            match value {
                Some(value) => drop(self.durable.insert(key, value)),
                None => drop(self.durable.remove(&key)),
            }
        }
    }

    /// The process ends, and another begins with what is durable. Gives what it sends when that is durable, too.
    pub fn crash(&mut self) -> Vec<Reply> {
        self.waiting.clear();
        self.processes += 1;
        let mut world = World::with(config());
        world.now = self.world.now;
        let random = Random::from_number(self.processes);
        world.n4 = Endpoint::new(config(), network(), Box::new(EveryNextHop), random);
        self.world = world;
        self.restore();
        self.sync()
    }

    fn restore(&mut self) {
        let (now, n4) = (self.world.now, &mut self.world.n4);
        n4.resume_wall(wall());
        let of = |wanted: fn(&Key) -> bool| {
            let all = self.durable.iter().filter(move |(key, _)| wanted(key));
            all.map(|(_, (_, record))| record.as_slice())
        };
        for record in of(|key| *key == Key::Node).chain(of(|key| matches!(key, Key::Association(_)))) {
            n4.import(now, record).expect("a record");
        }
        n4.begin_keeping();
        let is_session = |key: &Key| matches!(key, Key::Session(_));
        let records: Vec<_> = of(is_session).map(<[u8]>::to_vec).collect();
        let sessions = self.durable.iter().filter(|(key, _)| is_session(key));
        let heads = sessions.map(|(_, (head, _))| SessionHead::decode(head).map(|head| (head, false)));
        let absent = AbsentSessions::list(&network(), heads, 8, Box::new(Records(records)), 1);
        n4.begin_restoring(absent.expect("heads"), 0);
        let responses = of(|key| matches!(key, Key::Response(_)));
        let responses = responses.map(|octets| ResponseRecord::decode(octets).expect("a response"));
        n4.restore_responses(now, responses.collect());
        let usage = of(|key| matches!(key, Key::LastUsage(..)));
        let usage = usage.map(|octets| UnacknowledgedUsage::decode(octets, &wall()).expect("usage"));
        n4.restore_last_usage(now, usage.collect());
        while let Some(restored) = n4.restore_next(now) {
            restored.expect("it has a place");
        }
        let early = self.world.run();
        assert!(early.is_empty(), "sent before it was kept: {early:?}");
    }

    /// Time goes by.
    pub fn pass(&mut self, time: Duration) -> Vec<Reply> {
        let mut sent = self.world.pass(time);
        sent.extend(self.sync());
        sent
    }

    pub fn send(&mut self, octets: &[u8]) -> Vec<Reply> {
        let mut sent = self.world.send(super::smf(), octets);
        sent.extend(self.sync());
        sent
    }

    /// The SMF asks, and gets the response when what it tells is durable.
    pub fn ask(&mut self, message_type: u8, seid: Option<u64>, ies: &[Octets]) -> Reply {
        let sequence = self.world.next_sequence();
        let sent = self.send(&message(message_type, seid, sequence, ies));
        let [response] = &sent[..] else { panic!("{sent:?}") };
        response.clone()
    }

    /// The parts of unacknowledged usage that are durable.
    pub fn last_usage(&self) -> Vec<(Seid, u16)> {
        let keys = self.durable.keys();
        let parts = keys.filter_map(|key| match key {
            Key::LastUsage(seid, part) => Some((Seid(*seid), *part)),
            _ => None,
        });
        parts.collect()
    }
}
