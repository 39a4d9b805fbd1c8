//! Which requests with usage of sessions that are gone are kept beyond the process, and those of the process before
//! that are to be sent again.
//!
//! When a session is gone, a request that is on its way is the only place where the usage is that it reports: a record
//! of its own ([`UnacknowledgedUsage`]), written before the end of the session. It counts only where its session is
//! gone, as a response does ([`kept_responses`](crate::kept_responses)).

use session::{Seid, UnacknowledgedUsage};
use std::collections::{BTreeSet, VecDeque};

/// Requests that are kept at most; more displace the oldest.
const MOST: usize = 16_384;
/// Requests of the process before that are on their way at a time.
const MOST_SENT_AGAIN: usize = 64;

/// A session, and which of the requests about it.
pub(crate) type UsagePart = (Seid, u16);

/// The request that was on its way when its session ended. Those that follow on the end have the next numbers.
pub(crate) const ON_ITS_WAY: u16 = 0;

/// What is kept.
#[derive(Debug, Default)]
pub(crate) struct KeptUsage {
    kept: BTreeSet<UsagePart>,
    /// The same in the order in which it came, with what is over.
    order: VecDeque<UsagePart>,
    /// Of the process before, to be sent again.
    waiting: VecDeque<UnacknowledgedUsage>,
    /// How many of these are on their way.
    sent_again: usize,
}

impl KeptUsage {
    /// Keeps one. Gives those that are to be kept no longer.
    pub(crate) fn keep(&mut self, part: UsagePart) -> Vec<UsagePart> {
        if self.kept.insert(part) {
            self.order.push_back(part);
        }
        let mut displaced = Vec::new();
        while self.kept.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            displaced.extend(Some(oldest).filter(|oldest| self.kept.remove(oldest)));
        }
        if self.order.len() > 2 * self.kept.len() + MOST_SENT_AGAIN {
            let kept = &self.kept;
            self.order.retain(|part| kept.contains(part));
        }
        displaced
    }

    /// Whether one is kept.
    pub(crate) fn has(&self, part: UsagePart) -> bool {
        self.kept.contains(&part)
    }

    /// One has come to its end. Whether it was kept.
    pub(crate) fn end(&mut self, part: UsagePart) -> bool {
        self.kept.remove(&part)
    }

    /// One of the process before is to be sent again.
    pub(crate) fn restore(&mut self, usage: UnacknowledgedUsage) {
        self.waiting.push_back(usage);
    }

    /// The next that is to be sent again now. It is on its way until [`came_to_end`](Self::came_to_end).
    pub(crate) fn next_again(&mut self) -> Option<UnacknowledgedUsage> {
        let has_room = self.sent_again < MOST_SENT_AGAIN;
        let next = has_room.then(|| self.waiting.pop_front()).flatten()?;
        self.sent_again += 1;
        Some(next)
    }

    /// One that was sent again is on its way no more.
    pub(crate) fn came_to_end(&mut self) {
        self.sent_again = self.sent_again.saturating_sub(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usage(seid: u64) -> UnacknowledgedUsage {
        UnacknowledgedUsage {
            association: Vec::new(),
            seid: Seid(seid),
            part: 1,
            cp: None,
            peer: ([127, 0, 0, 1], 8805).into(),
            request: Vec::new(),
            usage: Vec::new(),
        }
    }

    #[test]
    fn the_oldest_makes_room() {
        let mut kept = KeptUsage::default();
        for seid in 0..MOST as u64 {
            assert_eq!(kept.keep((Seid(seid), 1)), []);
        }
        assert!(kept.end((Seid(0), 1)) && !kept.end((Seid(0), 1)));
        assert_eq!(kept.keep((Seid(1 << 20), 1)), []);
        assert_eq!(kept.keep((Seid(1 << 20), 2)), [(Seid(1), 1)]);
        assert!(!kept.has((Seid(1), 1)) && kept.has((Seid(2), 1)));
    }

    #[test]
    fn what_is_over_takes_no_room() {
        let mut kept = KeptUsage::default();
        for seid in 0..100_000 {
            assert_eq!(kept.keep((Seid(seid), 1)), []);
            assert!(kept.end((Seid(seid), 1)));
        }
        assert!(kept.order.len() <= MOST_SENT_AGAIN + 3);
    }

    #[test]
    fn a_bounded_number_is_sent_again_at_a_time() {
        let mut kept = KeptUsage::default();
        let count = MOST_SENT_AGAIN as u64 + 2;
        (0..count).for_each(|seid| kept.restore(usage(seid)));
        let first: Vec<_> = std::iter::from_fn(|| kept.next_again()).collect();
        assert_eq!(first.len(), MOST_SENT_AGAIN);
        kept.came_to_end();
        assert_eq!(kept.next_again(), Some(usage(count - 2)));
        assert_eq!(kept.next_again(), None);
    }
}
