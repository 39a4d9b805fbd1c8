//! A store at work, and a model of what may be in it: of each key the value that was acknowledged last, or a later one.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use store::{Key, Lsn, Recovered, Settings, Store};

use crate::fake_disk::{Dice, FakeDisk};

/// Values go by numbers: their octets are made of them.
pub type Value = Option<u64>;

pub const MS: Duration = Duration::from_millis(1);

pub fn settings() -> Settings {
    Settings {
        segment_octets: 4_096,
        batch_octets: 8_000,
        garbage_percent: 100,
        slice_octets: 1_500,
        reserve_octets: 40_000,
        retry: 50 * MS,
    }
}

pub fn octets_of(number: u64) -> Vec<u8> {
    let mut dice = Dice::new(number);
    let octets = match dice.below(8) {
        0 => 0,
        1 => 1_900,
        _ => dice.below(300),
    };
    (0..octets).map(|_| dice.number() as u8).collect()
}

pub fn head_of(number: u64) -> Vec<u8> {
    let mut head = number.to_be_bytes().to_vec();
    head.resize(8 + (number % 30) as usize, 7);
    head
}

pub fn bucket_of(number: u64) -> u16 {
    (number % 512) as u16
}

pub fn key(number: usize) -> Key {
    match number {
        0 => Key::Node,
        1 => Key::Association(b"smf.example".to_vec()),
        2 => Key::Association(Vec::new()),
        3 => Key::Application(vec![9; 40]),
        number if number.is_multiple_of(2) => Key::Session(number as u64 / 2),
        number => Key::Usage(number as u64 / 2),
    }
}

/// What may be in the store.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// The values that a key may have if all that is not durable is lost.
    base: BTreeMap<Key, BTreeSet<Value>>,
    /// What was recovered, and up to which operation: the base once that is durable.
    recovered: Option<(Lsn, BTreeMap<Key, Value>)>,
    /// Operations that are not durable.
    waiting: Vec<(Lsn, Key, Value)>,
    /// The values as the store has them.
    pub now: BTreeMap<Key, u64>,
}

impl Model {
    fn note(&mut self, lsn: Lsn, key: Key, value: Value) {
        match value {
            Some(value) => self.now.insert(key.clone(), value),
            None => self.now.remove(&key),
        };
        self.waiting.push((lsn, key, value));
    }

    fn acknowledge(&mut self, durable: Lsn) {
        if let Some((_, found)) = self.recovered.take_if(|(last, _)| *last <= durable) {
            let keys: BTreeSet<Key> = self.base.keys().chain(found.keys()).cloned().collect();
            self.base = keys
                .into_iter()
                .map(|key| {
                    let value = found.get(&key).copied().flatten();
                    (key, BTreeSet::from([value]))
                })
                .collect();
        }
        let durable = self.waiting.extract_if(.., |(lsn, ..)| *lsn <= durable);
        for (_, key, value) in durable {
            self.base.insert(key, BTreeSet::from([value]));
        }
    }

    /// What was found after an end must be allowed; it counts from then on.
    fn find(&mut self, found: BTreeMap<Key, u64>, last: Lsn) {
        let mut allowed = self.base.clone();
        for (_, key, value) in &self.waiting {
            let values = allowed
                .entry(key.clone())
                .or_insert_with(|| BTreeSet::from([None]));
            values.insert(*value);
        }
        let keys: BTreeSet<Key> = allowed.keys().chain(found.keys()).cloned().collect();
        for key in keys {
            let value = found.get(&key).copied();
            let none = BTreeSet::from([None]);
            let values = allowed.get(&key).unwrap_or(&none);
            assert!(
                values.contains(&value),
                "{key:?} is {value:?}; allowed: {values:?}"
            );
        }
        // If that is lost again before it is durable, all that was allowed still is.
        self.base = allowed;
        self.waiting.clear();
        let values = found.iter().map(|(key, value)| (key.clone(), Some(*value)));
        self.recovered = Some((last, values.collect()));
        self.now = found;
    }
}

/// A store, the model, and what draws their operations.
pub struct World {
    pub store: Store<FakeDisk>,
    pub disk: FakeDisk,
    pub model: Model,
    pub dice: Dice,
    pub now: Duration,
    pub next_value: u64,
    pub keys: usize,
}

/// All that is said of what a store had.
fn outline(recovered: &Recovered) -> (Vec<String>, String) {
    let mut live: Vec<String> = recovered.iter().map(|live| format!("{live:?}")).collect();
    live.sort();
    let Recovered {
        last,
        segments,
        octets,
        records,
        torn_octets,
        damaged,
        ..
    } = recovered;
    (
        live,
        format!("{last:?} {segments} {octets} {records} {torn_octets} {damaged:?}"),
    )
}

/// The same if there were no indexes.
fn of_segments_alone(disk: &FakeDisk) -> (Vec<String>, String) {
    let disk = disk.after_kill();
    for name in disk.indexes() {
        disk.remove_file(&name);
    }
    let (_, recovered) = Store::open(disk, settings(), Duration::ZERO).expect("a disk that works");
    outline(&recovered)
}

/// What a store had, by the heads.
pub fn values(recovered: &Recovered) -> BTreeMap<Key, u64> {
    let all = recovered.iter().map(|live| {
        let number = u64::from_be_bytes(live.head[..8].try_into().expect("8 octets"));
        assert_eq!(
            (live.head, live.bucket),
            (&head_of(number)[..], bucket_of(number))
        );
        (live.key, number)
    });
    all.collect()
}

impl World {
    pub fn new(seed: u64) -> World {
        let disk = FakeDisk::new(seed);
        World::on(disk, Model::default(), Dice::new(seed ^ 0xabcd), 1).expect("a disk that works")
    }

    /// Opens the store and compares what is in it; none where the disk does not let it.
    pub fn on(disk: FakeDisk, mut model: Model, dice: Dice, next_value: u64) -> Option<World> {
        let of_segments = of_segments_alone(&disk);
        let (mut store, recovered) = Store::open(disk.clone(), settings(), Duration::ZERO).ok()?;
        assert!(
            of_segments == outline(&recovered),
            "indexes say something else than segments"
        );
        let mut reader = store.reader().expect("a reader");
        for live in recovered.iter() {
            let number = u64::from_be_bytes(live.head[..8].try_into().expect("8 octets"));
            match reader.read(&live.location) {
                Ok(value) => assert_eq!(value, octets_of(number)),
                Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::InvalidData),
            }
        }
        for damage in &recovered.damaged {
            assert!(damage.is_unconfirmed, "{damage:?}");
        }
        model.find(values(&recovered), recovered.last);
        model.acknowledge(store.durable());
        assert_eq!(store.last(), recovered.last);
        store.hold_compaction(false);
        Some(World {
            store,
            disk,
            model,
            dice,
            now: Duration::ZERO,
            next_value,
            keys: 40,
        })
    }

    pub fn put(&mut self, key: Key) {
        let number = self.next_value;
        self.next_value += 1;
        let (head, value) = (head_of(number), octets_of(number));
        let lsn = self
            .store
            .put(self.now, &key, bucket_of(number), &head, &value)
            .expect("not too long");
        self.model.note(lsn, key, Some(number));
    }

    pub fn remove(&mut self, key: Key) {
        let was = self.store.last();
        let lsn = self.store.remove(self.now, &key);
        if lsn > was {
            self.model.note(lsn, key, None);
        }
    }

    pub fn poll(&mut self) {
        self.store.poll(self.now);
        self.model.acknowledge(self.store.durable());
        self.store.index_slice(self.now);
    }

    /// Some operations and a poll.
    pub fn step(&mut self) {
        for _ in 0..self.dice.below(9) {
            let key = key(self.dice.below(self.keys));
            if self.dice.one_in(4) {
                self.remove(key);
            } else if self.store.has_room() {
                self.put(key);
            }
        }
        self.now += [MS, 20 * MS, 60 * MS][self.dice.below(3)];
        self.poll();
        assert_eq!(self.store.progress().records, self.model.now.len() as u64);
    }

    pub fn steps(&mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
        }
    }

    /// Polls until there is nothing left to do.
    pub fn settle(&mut self) {
        for _ in 0..10_000 {
            match self.store.poll_timeout() {
                Some(at) => self.now = self.now.max(at) + MS,
                None => return,
            }
            self.poll();
        }
        panic!("the store always has something to do: {:?}", self.store.fault());
    }

    /// The next process, or machine.
    pub fn after_end(self, is_power_cut: bool) -> Option<World> {
        let disk = if is_power_cut {
            self.disk.after_power_cut()
        } else {
            self.disk.after_kill()
        };
        World::on(disk, self.model, self.dice, self.next_value)
    }

    /// Everything is there, and nothing else.
    pub fn assert_exact(self) {
        let expected = self.model.now.clone();
        let (_, recovered) =
            Store::open(self.disk.after_power_cut(), settings(), Duration::ZERO).expect("a disk that works");
        assert_eq!(values(&recovered), expected);
        assert!(recovered.damaged.iter().all(|damage| damage.is_unconfirmed));
    }
}
