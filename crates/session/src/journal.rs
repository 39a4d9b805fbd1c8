//! What has changed of sessions and is to be kept beyond the process.
//!
//! A mark says which session has changed, or has ended; what is kept is the session as it is when the mark is taken, so
//! that several changes may be one record. Marks are counted: who has taken all marks and made durable what they name
//! knows that all up to their number is. The sessions themselves wait for nothing: what peers receive waits, in
//! `n4`.

use std::collections::VecDeque;

use crate::ids::Seid;

/// The marks that have not been taken. Nothing is marked where nothing is kept.
#[derive(Debug, Default)]
pub(crate) struct Journal {
    is_kept: bool,
    changed: VecDeque<Seid>,
    marks: u64,
}

impl Journal {
    /// From now on changes are marked.
    pub(crate) fn begin(&mut self) {
        self.is_kept = true;
    }

    /// A session has changed, or has ended.
    pub(crate) fn mark(&mut self, seid: Seid) {
        if !self.is_kept {
            return;
        }
        self.marks += 1;
        // The changes of one request follow upon each other.
        if self.changed.back() != Some(&seid) {
            self.changed.push_back(seid);
        }
    }

    /// The next session that has changed, or has ended.
    pub(crate) fn poll(&mut self) -> Option<Seid> {
        self.changed.pop_front()
    }

    /// How many marks there have been.
    pub(crate) fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_marked_where_nothing_is_kept() {
        let mut journal = Journal::default();
        journal.mark(Seid(1));
        assert_eq!((journal.poll(), journal.marks()), (None, 0));
    }

    #[test]
    fn each_change_counts_and_changes_in_a_row_are_one() {
        let mut journal = Journal::default();
        journal.begin();
        for seid in [1, 1, 2, 1] {
            journal.mark(Seid(seid));
        }
        assert_eq!(journal.marks(), 4);
        let taken: Vec<u64> = std::iter::from_fn(|| journal.poll()).map(|seid| seid.0).collect();
        assert_eq!(taken, [1, 2, 1]);
    }
}
