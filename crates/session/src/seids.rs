//! SEIDs: how one is drawn, and sessions by SEID, in the order of the SEIDs, so that views can go from one page to the
//! next.
//!
//! Owned by control. SEIDs are our own and random, so that their first bits spread them evenly: a table of short sorted
//! runs, each found by those bits, costs one step where a tree of 600,000 costs six. It doubles as sessions come.

use flow::SessionIndex;

use crate::ids::Seid;
use crate::random::Random;

/// Sessions in one run on average, when there are the most.
const MOST_PER_RUN: usize = 8;

type Run = Vec<(Seid, SessionIndex)>;

/// The sessions that peers can address.
#[derive(Debug)]
pub(crate) struct Seids {
    /// 2^`bits` of them.
    runs: Vec<Run>,
    bits: u32,
    len: usize,
}

impl Default for Seids {
    fn default() -> Seids {
        Seids {
            runs: vec![Run::new()],
            bits: 0,
            len: 0,
        }
    }
}

impl Seids {
    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A SEID that no session has: random, and never 0.
    pub(crate) fn draw(&self, random: &mut Random) -> Seid {
        loop {
            let seid = Seid(random.next_u64());
            if seid.0 != 0 && self.get(seid).is_none() {
                return seid;
            }
        }
    }

    /// The session with this SEID.
    pub(crate) fn get(&self, seid: Seid) -> Option<SessionIndex> {
        let run = self.runs.get(self.run_of(seid))?;
        run.iter()
            .find(|(known, _)| *known == seid)
            .map(|(_, index)| *index)
    }

    /// This SEID is that of the session from now on.
    pub(crate) fn insert(&mut self, seid: Seid, index: SessionIndex) {
        if self.len >= self.runs.len() * MOST_PER_RUN {
            self.double();
        }
        let place = self.run_of(seid);
        let Some(run) = self.runs.get_mut(place) else {
            return;
        };
        match run.binary_search_by_key(&seid, |(known, _)| *known) {
            Ok(known) => run.get_mut(known).into_iter().for_each(|entry| entry.1 = index),
            Err(place) => {
                run.insert(place, (seid, index));
                self.len += 1;
            }
        }
    }

    /// No session has this SEID any more.
    pub(crate) fn remove(&mut self, seid: Seid) {
        let place = self.run_of(seid);
        let Some(run) = self.runs.get_mut(place) else {
            return;
        };
        if let Ok(known) = run.binary_search_by_key(&seid, |(known, _)| *known) {
            run.remove(known);
            self.len -= 1;
        }
    }

    /// All sessions in the order of their SEIDs, from the first one behind `after` on.
    pub(crate) fn behind(&self, after: Option<Seid>) -> impl Iterator<Item = SessionIndex> + '_ {
        let from = after.map_or(0, |after| self.run_of(after));
        let runs = self.runs.get(from..).unwrap_or_default();
        let is_behind = move |(seid, _): &&(Seid, SessionIndex)| after.is_none_or(|after| *seid > after);
        // Only the first run has any that are not behind it.
        runs.iter().flatten().filter(is_behind).map(|(_, index)| *index)
    }

    fn run_of(&self, seid: Seid) -> usize {
        seid.0.checked_shr(u64::BITS - self.bits).unwrap_or(0) as usize
    }

    /// Cuts every run in two by one bit more.
    fn double(&mut self) {
        self.bits += 1;
        let before = std::mem::take(&mut self.runs);
        self.runs.reserve_exact(before.len() * 2);
        let second = 1 << (u64::BITS - self.bits);
        for mut run in before {
            let middle = run.partition_point(|(seid, _)| seid.0 & second == 0);
            let behind = run.split_off(middle);
            self.runs.extend([run, behind]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_map_in_order(
            edits in proptest::collection::vec((any::<bool>(), any::<u8>(), any::<u32>()), 0..400),
            after: u8,
        ) {
            // Spread over all bits, and some with all first bits alike.
            let spread = |number: u8| Seid(match number {
                0..200 => u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15),
                _ => u64::from(number),
            });
            let (mut seids, mut model) = (Seids::default(), BTreeMap::new());
            for (adds, number, index) in edits {
                let (seid, index) = (spread(number), SessionIndex(index));
                if adds {
                    seids.insert(seid, index);
                    model.insert(seid, index);
                } else {
                    seids.remove(seid);
                    model.remove(&seid);
                }
                prop_assert_eq!(seids.len(), model.len());
            }
            for number in 0..=u8::MAX {
                prop_assert_eq!(seids.get(spread(number)), model.get(&spread(number)).copied());
            }
            prop_assert_eq!(seids.behind(None).collect::<Vec<_>>(), model.values().copied().collect::<Vec<_>>());
            let after = spread(after);
            let behind = model.iter().filter(|(seid, _)| **seid > after).map(|(_, index)| *index);
            prop_assert_eq!(seids.behind(Some(after)).collect::<Vec<_>>(), behind.collect::<Vec<_>>());
        }
    }
}
