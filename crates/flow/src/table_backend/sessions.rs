//! The sessions of a backend, by their index, and the turns that they take in being reported.

use super::session::Session;
use crate::{SessionIndex, prefetch};

/// A session and its place among all that there are. What flows have to find of it is in its first two lines.
#[repr(C, align(64))]
struct Held {
    session: Session,
    place: usize,
}

/// Sessions by their index, of which there are few gaps.
#[derive(Default)]
pub(super) struct SessionTable {
    held: Vec<Option<Box<Held>>>,
    /// All that there are. Those before `next` have had their turn in this round.
    order: Vec<SessionIndex>,
    next: usize,
}

impl SessionTable {
    pub fn len(&self) -> usize {
        self.order.len()
    }

    pub fn get(&self, index: SessionIndex) -> Option<&Session> {
        Some(&self.held.get(index.index())?.as_ref()?.session)
    }

    pub fn get_mut(&mut self, index: SessionIndex) -> Option<&mut Session> {
        Some(&mut self.held.get_mut(index.index())?.as_mut()?.session)
    }

    /// Asks for where a session is.
    #[inline]
    pub fn prefetch_place(&self, index: SessionIndex) {
        prefetch::nth(&self.held, index.index());
    }

    /// Asks for what flows have to find of a session. That reads [where it is](Self::prefetch_place).
    #[inline]
    pub fn prefetch(&self, index: SessionIndex) {
        if let Some(Some(held)) = self.held.get(index.index()) {
            prefetch::read(&**held);
            prefetch::nth_second_line(core::slice::from_ref(&**held), 0);
        }
    }

    /// Adds one that is not there. Its turn is the last one of this round.
    pub fn insert(&mut self, index: SessionIndex, session: Session) {
        if index.index() >= self.held.len() {
            self.held.resize_with(index.index() + 1, || None);
        }
        let place = self.order.len();
        self.order.push(index);
        self.held[index.index()] = Some(Box::new(Held { session, place }));
    }

    /// Removes one. The turns of all others stay in this round or the next one.
    pub fn remove(&mut self, index: SessionIndex) {
        let Some(held) = self.held.get_mut(index.index()).and_then(Option::take) else {
            return;
        };
        let mut gap = held.place;
        if gap < self.next {
            self.next -= 1;
            self.place(self.next, gap);
            gap = self.next;
        }
        self.place(self.order.len() - 1, gap);
        self.order.pop();
    }

    /// Moves the index in one place of the order to another, whose own counts no more.
    fn place(&mut self, from: usize, to: usize) {
        if from == to {
            return;
        }
        let index = self.order[from];
        self.order[to] = index;
        if let Some(held) = &mut self.held[index.index()] {
            held.place = to;
        }
    }

    /// The session whose turn is next, in rounds.
    pub fn next_turn(&mut self) -> Option<SessionIndex> {
        if self.next >= self.order.len() {
            self.next = 0;
        }
        let index = self.order.get(self.next).copied()?;
        self.next += 1;
        Some(index)
    }

    /// Any session.
    pub fn any(&self) -> Option<SessionIndex> {
        self.order.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{BlockImage, BlockRef, Installed};

    fn session() -> Session {
        let installed = Installed {
            block: BlockRef(0),
            generation: 0,
        };
        Session::new(BlockImage::default(), installed)
    }

    #[derive(Clone, Debug)]
    enum Step {
        Insert(u32),
        Remove(u32),
        Turn,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..12_u32).prop_map(Step::Insert),
            (0..12_u32).prop_map(Step::Remove),
            Just(Step::Turn),
            Just(Step::Turn),
        ]
    }

    proptest! {
        /// Between two turns of a session each other one that is there all the time has exactly one.
        #[test]
        fn all_sessions_take_turns(steps in prop::collection::vec(step(), 1..200)) {
            let mut table = SessionTable::default();
            let mut there = BTreeSet::new();
            // Those that have had their turn in this round.
            let mut had = BTreeSet::new();
            for step in steps {
                match step {
                    Step::Insert(index) if there.insert(index) => table.insert(SessionIndex(index), session()),
                    Step::Remove(index) => {
                        table.remove(SessionIndex(index));
                        there.remove(&index);
                        had.remove(&index);
                    }
                    Step::Turn => {
                        if had.len() == there.len() {
                            had.clear();
                        }
                        let turn = table.next_turn();
                        prop_assert_eq!(turn.is_some(), !there.is_empty());
                        if let Some(SessionIndex(index)) = turn {
                            prop_assert!(there.contains(&index));
                            prop_assert!(had.insert(index), "{index} has its turn twice in a round");
                        }
                    }
                    Step::Insert(_) => {}
                }
                prop_assert_eq!(table.len(), there.len());
                for index in 0..12 {
                    prop_assert_eq!(table.get(SessionIndex(index)).is_some(), there.contains(&index));
                }
            }
        }
    }
}
