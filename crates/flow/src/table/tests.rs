//! The table against a `HashMap`, and under load.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::{FlowKey4, FlowKey6, Verdict};

/// A key of either kind from a small number, so that tests meet the same key again.
trait TestKey: FlowKey {
    fn numbered(number: u32) -> Self;
}

impl TestKey for FlowKey4 {
    fn numbered(number: u32) -> Self {
        Self {
            teid: number >> 4,
            ports: [number as u16 & 15, 53],
            ..Self::default()
        }
    }
}

impl TestKey for FlowKey6 {
    fn numbered(number: u32) -> Self {
        let mut key = Self {
            flow_label: number & 15,
            ..Self::default()
        };
        key.destination[12..].copy_from_slice(&(number >> 4).to_be_bytes());
        key
    }
}

fn entry<K: TestKey>(number: u32, pdr: u16, idle: u16) -> FlowEntry<K> {
    FlowEntry {
        key: K::numbered(number),
        verdict: Verdict {
            pdr,
            generation: 1,
            ..Verdict::NONE
        },
        idle,
        ..FlowEntry::default()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Insert { number: u32, pdr: u16, idle: u16 },
    Remove { number: u32 },
    Use { number: u32 },
    Age { ticks: u16, buckets: usize },
}

fn steps(numbers: u32) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..numbers, any::<u16>(), 1u16..100).prop_map(|(number, pdr, idle)| Step::Insert { number, pdr, idle }),
        2 => (0..numbers).prop_map(|number| Step::Remove { number }),
        3 => (0..numbers).prop_map(|number| Step::Use { number }),
        1 => (0u16..40, 0usize..40).prop_map(|(ticks, buckets)| Step::Age { ticks, buckets }),
    ];
    prop::collection::vec(step, 1..600)
}

/// A `HashMap` from a key's number to its entry's `pdr`, `idle` and the tick at which it expires.
type Model = HashMap<u32, (u16, u16, Tick)>;

struct Pair<K> {
    table: FlowTable<K>,
    model: Model,
    now: Tick,
}

impl<K: TestKey> Pair<K> {
    fn apply(&mut self, step: &Step) -> Result<(), TestCaseError> {
        match *step {
            Step::Insert { number, pdr, idle } => {
                let is_new = !self.model.contains_key(&number);
                match self.table.insert(entry(number, pdr, idle), self.now) {
                    Ok(_) => drop(self.model.insert(number, (pdr, idle, self.now.after(idle)))),
                    Err(Full::Entries) => prop_assert!(is_new && self.model.len() == self.table.capacity()),
                    Err(Full::Buckets) => prop_assert!(is_new),
                }
            }
            Step::Remove { number } => {
                let removed = self
                    .table
                    .remove(&K::numbered(number))
                    .map(|entry| entry.verdict.pdr);
                prop_assert_eq!(removed, self.model.remove(&number).map(|(pdr, ..)| pdr));
            }
            Step::Use { number } => {
                let hit = self.table.lookup(&K::numbered(number));
                self.table.touch(hit, self.now);
                if let Some((_, idle, expires)) = self.model.get_mut(&number) {
                    *expires = self.now.after(*idle);
                }
            }
            Step::Age { ticks, buckets } => self.age(ticks, buckets)?,
        }
        Ok(())
    }

    /// What ages must have expired; after a whole round nothing expired is left.
    fn age(&mut self, ticks: u16, buckets: usize) -> Result<(), TestCaseError> {
        self.now = self.now.after(ticks);
        let mut aged = Vec::new();
        let count = self.table.age(self.now, buckets, |entry| aged.push(entry.key));
        prop_assert_eq!(count, aged.len());
        let before = self.model.len();
        let now = self.now;
        self.model.retain(|&number, (_, _, expires)| {
            let gone = aged.contains(&K::numbered(number));
            assert!(!gone || expires.is_before(now), "{number} aged too early");
            assert!(
                gone || buckets < 40 || !expires.is_before(now),
                "{number} was left by a whole round"
            );
            !gone
        });
        prop_assert_eq!(before - self.model.len(), count);
        Ok(())
    }

    /// Visits every flow and every key without one.
    fn check(&mut self, numbers: u32) -> Result<(), TestCaseError> {
        prop_assert_eq!(self.table.len(), self.model.len());
        let keys: Vec<K> = (0..numbers).map(K::numbered).collect();
        let mut hits = vec![Hit::MISS; keys.len()];
        let mut found = Vec::new();
        self.table.visit_bulk(&keys, &mut hits, self.now, |place, entry| {
            found.push((place, entry.verdict.pdr))
        });
        for (_, idle, expires) in self.model.values_mut() {
            *expires = self.now.after(*idle);
        }
        let mut expected: Vec<_> = self
            .model
            .iter()
            .map(|(&number, &(pdr, ..))| (number as usize, pdr))
            .collect();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        for (key, hit) in keys.iter().zip(&hits) {
            prop_assert_eq!(self.table.lookup(key), *hit);
            prop_assert_eq!(
                self.table.entry(*hit).map(|entry| entry.key == *key),
                hit.is_hit().then_some(true)
            );
        }
        for (keys, hits) in keys
            .chunks(FlowTable::<K>::BURST)
            .zip(hits.chunks(FlowTable::<K>::BURST))
        {
            let foretold: Vec<_> = keys.iter().map(|key| self.table.foretell(key)).collect();
            let held = self.table.may_hold(&foretold);
            for (place, hit) in hits.iter().enumerate() {
                prop_assert!(!hit.is_hit() || held >> place & 1 == 1);
            }
        }
        self.check_displaced()
    }

    /// The summary of each bucket has the number of its keys that are in their other one.
    fn check_displaced(&self) -> Result<(), TestCaseError> {
        let table = &self.table;
        let mut displaced = vec![0_u8; table.buckets()];
        for (bucket, line) in table.buckets.iter().enumerate() {
            for slot in (0..SLOTS)
                .map(|slot| line.slot(slot))
                .filter(|slot| slot.tag != 0)
            {
                let first = table.primary(&table.entries[slot.entry as usize].key).bucket;
                prop_assert_eq!(slot.is_displaced, first as usize != bucket);
                displaced[first as usize] += u8::from(slot.is_displaced);
            }
        }
        for (bucket, displaced) in displaced.into_iter().enumerate() {
            prop_assert_eq!(table.summaries.displaced(bucket as u32), displaced);
        }
        Ok(())
    }
}

fn agrees<K: TestKey>(
    flows: usize,
    buckets: usize,
    seed: [u64; 2],
    steps: &[Step],
) -> Result<(), TestCaseError> {
    const NUMBERS: u32 = 200;
    let table = FlowTable::<K>::with_buckets(flows, buckets, Seed(seed)).unwrap();
    let mut pair = Pair {
        table,
        model: Model::new(),
        now: Tick(0xffc0),
    };
    for step in steps {
        pair.apply(step)?;
    }
    pair.check(NUMBERS)
}

proptest! {
    #[test]
    fn ipv4_agrees_with_a_hash_map(flows in 1usize..150, buckets in 1usize..40, seed: [u64; 2], steps in steps(200)) {
        agrees::<FlowKey4>(flows, buckets, seed, &steps)?;
    }

    #[test]
    fn ipv6_agrees_with_a_hash_map(flows in 1usize..150, buckets in 1usize..40, seed: [u64; 2], steps in steps(200)) {
        agrees::<FlowKey6>(flows, buckets, seed, &steps)?;
    }
}

/// Of keys that are not in a table few look as if they were, also when many were there before.
#[test]
fn most_keys_that_are_not_held_are_told_from_those_that_are() {
    let mut table = FlowTable::<FlowKey4>::new(64_000, Seed([5, 6])).unwrap();
    let held = |table: &FlowTable<FlowKey4>, keys: &[FlowKey4]| {
        let foretold: Vec<_> = keys.iter().map(|key| table.foretell(key)).collect();
        let bursts = foretold.chunks(64);
        bursts
            .map(|burst| table.may_hold(burst).count_ones())
            .sum::<u32>()
    };
    for round in 0..4u32 {
        let numbers = round * 64_000..round * 64_000 + 32_000;
        for number in numbers.clone() {
            table.insert(entry(number, 0, 10), Tick(0)).unwrap();
        }
        let keys: Vec<_> = (numbers.end..numbers.end + 32_000)
            .map(FlowKey4::numbered)
            .collect();
        let taken_for_held = held(&table, &keys);
        assert!(taken_for_held < 32_000 / 25, "{taken_for_held} of 32000");
        for number in numbers {
            table.remove(&FlowKey4::numbered(number)).unwrap();
        }
        assert_eq!(held(&table, &keys), 0);
    }
    for number in 0..64_000 {
        table.insert(entry(number, 0, 10), Tick(0)).unwrap();
    }
    let keys: Vec<_> = (64_000..96_000).map(FlowKey4::numbered).collect();
    let taken_for_held = held(&table, &keys);
    assert!(
        taken_for_held < 32_000 / 8,
        "{taken_for_held} of 32000 in a full table"
    );
    assert!(held(&table, &[FlowKey4::numbered(5)]) == 1 && table.may_hold(&[Prepared::default()]) == 0);
}

/// More entries than slots, so that the buckets are what fills up; for many seeds the first failure comes late, and
/// what was inserted before is still there after all the moves.
#[test]
fn at_least_95_percent_of_the_slots_fill_before_the_first_failure() {
    for seed in 0..10 {
        for buckets in [64, 1000, 5003] {
            let slots = buckets * SLOTS;
            let mut table =
                FlowTable::<FlowKey4>::with_buckets(slots + 1, buckets, Seed([seed, 77])).unwrap();
            let held = (0..)
                .take_while(|&n| table.insert(entry(n, n as u16, 10), Tick(0)).is_ok())
                .count();
            assert!(held * 100 >= slots * 95, "{held} of {slots}");
            assert_eq!(table.len(), held);
            assert!((0..held as u32).all(|number| {
                let hit = table.lookup(&FlowKey4::numbered(number));
                table
                    .entry(hit)
                    .is_some_and(|entry| entry.verdict.pdr == number as u16)
            }));
        }
    }
}

#[test]
fn a_table_of_any_size_holds_what_it_was_made_for() {
    for flows in [1, 2, 7, 8, 9, 100, 10_000] {
        let mut table = FlowTable::<FlowKey6>::new(flows, Seed([5, flows as u64])).unwrap();
        let held = (0..)
            .take_while(|&number| table.insert(entry(number, 0, 10), Tick(0)).is_ok())
            .count();
        // A table of two buckets is a matter of luck, but not by much.
        assert!(
            held == flows || flows < 20 && held + 1 >= flows,
            "{held} of {flows}"
        );
        assert!(held < flows || table.insert(entry(u32::MAX, 0, 10), Tick(0)) == Err(Full::Entries));
    }
}

#[test]
fn an_insert_in_two_halves_is_an_insert() {
    let mut table = FlowTable::<FlowKey4>::new(100, Seed([1, 2])).unwrap();
    let prepared: Vec<_> = (0..60).map(|n| table.prepare(&FlowKey4::numbered(n))).collect();
    for (number, prepared) in (0..60).zip(prepared) {
        let key = FlowKey4::numbered(number);
        let spot = table.spot(&key, prepared);
        assert!(!spot.hit().is_hit());
        let hit = table.put(entry(number, 1, 10), spot, Tick(0)).unwrap();
        let spot = table.spot(&key, prepared);
        assert_eq!(spot.hit(), hit);
        assert_eq!(table.put(entry(number, 2, 10), spot, Tick(0)), Ok(hit));
    }
    assert_eq!(table.len(), 60);
    assert!((0..60).all(|n| {
        table
            .entry(table.lookup(&FlowKey4::numbered(n)))
            .unwrap()
            .verdict
            .pdr
            == 2
    }));
}

#[test]
fn what_is_dead_is_reaped_and_nothing_else() {
    let mut table = FlowTable::<FlowKey4>::new(1000, Seed([1, 2])).unwrap();
    for number in 0..1000 {
        table
            .insert(entry(number, (number % 3) as u16, 10), Tick(0))
            .unwrap();
    }
    let (all, mut reaped) = (table.buckets(), 0);
    for _ in 0..all.div_ceil(7) {
        reaped += table.reap(7, |entry| entry.verdict.pdr == 1);
    }
    assert_eq!((reaped, table.len()), (333, 667));
    assert!((0..1000).all(|n| table.lookup(&FlowKey4::numbered(n)).is_hit() == (n % 3 != 1)));
}

#[test]
fn an_idle_time_that_is_cut_short_counts_from_now() {
    let mut table = FlowTable::<FlowKey4>::new(10, Seed([0, 0])).unwrap();
    let hit = table.insert(entry(1, 0, 1000), Tick(0)).unwrap();
    table.set_idle(hit, 5, Tick(100));
    let all = table.buckets();
    assert_eq!(table.age(Tick(105), all, |_| {}), 0);
    assert_eq!(table.age(Tick(106), all, |_| {}), 1);
    assert!(table.is_empty());
}
