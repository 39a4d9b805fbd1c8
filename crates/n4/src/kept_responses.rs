//! Responses that outlive the process: those to modifications and deletions of sessions.
//!
//! A response that reports usage is the only place where that usage is, from the moment at which it is made until its
//! peer has it. If the process ends in between, its peer repeats the request (TS 29.244 §6.4), and must get the same
//! response again: with the same UR-SEQN the same octets, a rule that it makes is not there already, and a deleted
//! session is not unknown. A repeated establishment takes the place of its session. The last response of a live session
//! is part of its record, so that both become durable at once; that of a deleted session is a record of its own. The
//! latter counts only where its session is gone: a write may have ended between the two.

use std::collections::VecDeque;
use std::time::Duration;

use flow::Nanos;
use session::{Keyed, ResponseRecord, Seid, keyed};

/// Responses of either kind that are kept at most; more displace the oldest.
const MOST: usize = 65_536;

/// Responses that are kept, each for as long as its request may be repeated.
#[derive(Debug)]
pub(crate) struct KeptResponses {
    age: Duration,
    /// Of live sessions, and when each goes.
    live: Keyed<Seid, (Nanos, ResponseRecord)>,
    /// The same in order, with those that a later one has replaced.
    live_until: VecDeque<(Nanos, Seid)>,
    deleted_until: VecDeque<(Nanos, Seid)>,
}

impl KeptResponses {
    /// Keeps each for `age`.
    pub(crate) fn new(seed: u64, age: Duration) -> KeptResponses {
        KeptResponses {
            age,
            live: keyed(seed),
            live_until: VecDeque::new(),
            deleted_until: VecDeque::new(),
        }
    }

    /// How long one is kept.
    pub(crate) fn age(&self) -> Duration {
        self.age
    }

    /// The last response of a session that lives on.
    pub(crate) fn keep_live(&mut self, now: Nanos, seid: Seid, record: ResponseRecord) {
        self.forget_live(now);
        let until = now + self.age;
        self.live.insert(seid, (until, record));
        self.live_until.push_back((until, seid));
    }

    /// A session is gone, and its last response is kept. Those whose responses are to be kept no longer.
    pub(crate) fn keep_deleted(&mut self, now: Nanos, seid: Seid) -> Vec<Seid> {
        self.live.remove(&seid);
        self.deleted_until.push_back((now + self.age, seid));
        let mut over = Vec::new();
        while let Some((until, seid)) = self.deleted_until.front().copied() {
            if until > now && self.deleted_until.len() <= MOST {
                break;
            }
            self.deleted_until.pop_front();
            over.push(seid);
        }
        over
    }

    /// The last response of a live session.
    pub(crate) fn of(&self, seid: Seid) -> Option<&ResponseRecord> {
        self.live.get(&seid).map(|(_, record)| record)
    }

    fn forget_live(&mut self, now: Nanos) {
        while let Some((until, seid)) = self.live_until.front().copied()
            && (until <= now || self.live_until.len() >= MOST)
        {
            self.live_until.pop_front();
            if self.live.get(&seid).is_some_and(|(last, _)| *last <= until) {
                self.live.remove(&seid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    fn record(seid: u64) -> ResponseRecord {
        ResponseRecord {
            peer: ([127, 0, 0, 1], 8805).into(),
            sequence: 7,
            message_type: 52,
            seid,
            unix_ms: 0,
            octets: vec![1, 2, 3],
        }
    }

    #[test]
    fn each_goes_when_its_request_is_no_longer_repeated() {
        let mut kept = KeptResponses::new(1, AGE);
        kept.keep_live(Nanos::ZERO, Seid(1), record(1));
        kept.keep_live(Nanos::from_secs(5), Seid(1), record(2));
        kept.keep_live(Nanos::from_secs(11), Seid(2), record(3));
        assert_eq!(kept.of(Seid(1)), Some(&record(2)));
        kept.keep_live(Nanos::from_secs(15), Seid(3), record(4));
        assert_eq!((kept.of(Seid(1)), kept.of(Seid(2))), (None, Some(&record(3))));
        assert_eq!(kept.keep_deleted(Nanos::from_secs(15), Seid(2)), []);
        assert_eq!(kept.of(Seid(2)), None);
        assert_eq!(kept.keep_deleted(Nanos::from_secs(25), Seid(3)), [Seid(2)]);
    }

    #[test]
    fn both_kinds_are_bounded() {
        let mut kept = KeptResponses::new(1, AGE);
        for seid in 0..=MOST as u64 {
            kept.keep_live(Nanos::ZERO, Seid(seid), record(seid));
        }
        assert_eq!((kept.live.len(), kept.of(Seid(0))), (MOST, None));
        for seid in 0..MOST as u64 {
            assert_eq!(kept.keep_deleted(Nanos::ZERO, Seid(seid)), []);
        }
        assert_eq!(kept.keep_deleted(Nanos::ZERO, Seid(1 << 20)), [Seid(0)]);
    }
}
