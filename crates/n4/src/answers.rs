//! Requests that have been answered, and requests in work: what makes a retransmission harmless (TS 29.244 §6.4).
//!
//! An answer is kept at least as long as the peer may retransmit, and is sent again byte for byte. A retransmission is
//! byte-identical by §6.4; so a request with the number of an earlier one and another content is a new request, of a
//! peer that has restarted and counts from the beginning again. Bounded in octets; the oldest answers go first.

use flow::Nanos;
use pfcp::MessageType;
use session::{Keyed, Ticket, keyed};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// What tells requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct RequestKey {
    pub(crate) peer: SocketAddr,
    /// 24 bits.
    pub(crate) sequence: u32,
    pub(crate) message_type: u8,
}

/// What a request turns out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// Never seen.
    New,
    /// In work: its answer will come.
    InWork,
    /// Answered so.
    Answered(Arc<[u8]>),
}

#[derive(Debug)]
enum State {
    InWork(Ticket),
    Answered { bytes: Arc<[u8]>, place: Place },
}

#[derive(Debug)]
struct Entry {
    digest: u64,
    state: State,
}

/// Until when an answer is kept, and its number.
type Place = (Nanos, u64);

/// Octets that an entry takes beside the answer, about.
const OVERHEAD: usize = 200;

/// Requests by key.
#[derive(Debug)]
pub(crate) struct Answers {
    entries: Keyed<RequestKey, Entry>,
    /// Exactly the answered entries, the oldest first.
    order: BTreeMap<Place, RequestKey>,
    last: u64,
    octets: usize,
    max_octets: usize,
    age: Duration,
    evicted: u64,
}

impl Answers {
    /// Keeps answers for `age`, and no more than `max_octets` of them.
    pub(crate) fn new(seed: u64, max_octets: usize, age: Duration) -> Answers {
        Answers {
            entries: keyed(seed),
            order: BTreeMap::new(),
            last: 0,
            octets: 0,
            max_octets,
            age,
            evicted: 0,
        }
    }

    /// Whether this request, with a digest of its content, is a retransmission.
    pub(crate) fn look_up(&mut self, now: Nanos, key: &RequestKey, digest: u64) -> Known {
        self.expire(now);
        match self.entries.get(key) {
            Some(Entry { digest: known, state }) if *known == digest => match state {
                State::InWork(_) => Known::InWork,
                State::Answered { bytes, .. } => Known::Answered(Arc::clone(bytes)),
            },
            _ => Known::New,
        }
    }

    /// Notes that a request is in work.
    pub(crate) fn begin(&mut self, key: RequestKey, digest: u64, ticket: Ticket) {
        self.forget(&key);
        self.entries.insert(
            key,
            Entry {
                digest,
                state: State::InWork(ticket),
            },
        );
    }

    /// Notes the answer to the request that `ticket` began, unless another request has taken its number since.
    pub(crate) fn finish(&mut self, now: Nanos, key: RequestKey, ticket: Ticket, bytes: Arc<[u8]>) {
        let Some(entry) = self.entries.get_mut(&key) else {
            return;
        };
        if !matches!(entry.state, State::InWork(known) if known == ticket) {
            return;
        }
        self.last += 1;
        let place = (now + self.age, self.last);
        self.octets += bytes.len() + OVERHEAD;
        entry.state = State::Answered { bytes, place };
        self.order.insert(place, key);
        while self.octets > self.max_octets && self.drop_oldest() {
            self.evicted += 1;
        }
    }

    /// Notes that the request that `ticket` began gets no answer: a retransmission is a new request.
    pub(crate) fn abandon(&mut self, key: &RequestKey, ticket: Ticket) {
        let in_work = |entry: &Entry| matches!(entry.state, State::InWork(known) if known == ticket);
        if self.entries.get(key).is_some_and(in_work) {
            self.entries.remove(key);
        }
    }

    /// Forgets the requests of a peer that has started anew: it counts from the beginning again, so what looks like a
    /// retransmission may be the same request in a new life, and the answer of then would say done what is not. Its
    /// set-ups stay known: an old one that comes late must not be served again.
    pub(crate) fn forget_life_of(&mut self, peer: SocketAddr) {
        let is_setup = |key: &RequestKey| key.message_type == MessageType::ASSOCIATION_SETUP_REQUEST.0;
        let keys = self.entries.keys().copied();
        let going: Vec<RequestKey> = keys.filter(|key| key.peer == peer && !is_setup(key)).collect();
        going.iter().for_each(|key| self.forget(key));
    }

    /// Octets in use, about.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// How many answers went before their time for want of room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn expire(&mut self, now: Nanos) {
        let is_over = |answers: &Answers| {
            let oldest = answers.order.first_key_value();
            oldest.is_some_and(|((until, _), _)| *until <= now)
        };
        while is_over(self) && self.drop_oldest() {}
    }

    fn drop_oldest(&mut self) -> bool {
        let oldest = self.order.first_key_value().map(|(_, key)| *key);
        oldest.inspect(|key| self.forget(key)).is_some()
    }

    fn forget(&mut self, key: &RequestKey) {
        if let Some(Entry {
            state: State::Answered { bytes, place },
            ..
        }) = self.entries.remove(key)
        {
            self.octets -= bytes.len() + OVERHEAD;
            self.order.remove(&place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(10);

    fn key(sequence: u32) -> RequestKey {
        RequestKey {
            peer: "192.0.2.1:8805".parse().unwrap(),
            sequence,
            message_type: 50,
        }
    }

    fn answer(octets: usize) -> Arc<[u8]> {
        vec![7; octets].into()
    }

    #[test]
    fn a_request_is_new_then_in_work_then_answered_then_new_again() {
        let mut answers = Answers::new(1, 10_000, AGE);
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 5), Known::New);
        answers.begin(key(1), 5, Ticket(1));
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 5), Known::InWork);
        answers.finish(Nanos::from_secs(1), key(1), Ticket(1), answer(3));
        assert_eq!(
            answers.look_up(Nanos::from_secs(10), &key(1), 5),
            Known::Answered(answer(3))
        );
        assert_eq!(answers.look_up(Nanos::from_secs(11), &key(1), 5), Known::New);
        assert_eq!((answers.entries.len(), answers.octets()), (0, 0));
    }

    #[test]
    fn another_content_under_the_same_number_is_another_request() {
        let mut answers = Answers::new(1, 10_000, AGE);
        answers.begin(key(1), 5, Ticket(1));
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 6), Known::New);
        answers.begin(key(1), 6, Ticket(2));
        answers.finish(Nanos::ZERO, key(1), Ticket(1), answer(3));
        assert_eq!(
            answers.look_up(Nanos::ZERO, &key(1), 6),
            Known::InWork,
            "the first one's answer is not the second's"
        );
        answers.finish(Nanos::ZERO, key(1), Ticket(2), answer(4));
        assert_eq!(
            answers.look_up(Nanos::ZERO, &key(1), 6),
            Known::Answered(answer(4))
        );
        assert_eq!(answers.look_up(Nanos::ZERO, &key(2), 6), Known::New);
    }

    #[test]
    fn the_cache_is_bounded_in_octets() {
        let mut answers = Answers::new(1, 1_200, AGE);
        for sequence in 0..100 {
            answers.begin(key(sequence), 5, Ticket(u64::from(sequence)));
            answers.finish(
                Nanos::ZERO,
                key(sequence),
                Ticket(u64::from(sequence)),
                answer(40),
            );
            assert!(answers.octets() <= 1_200);
        }
        assert_eq!(answers.evicted(), 95);
        assert_eq!(
            answers.look_up(Nanos::ZERO, &key(99), 5),
            Known::Answered(answer(40))
        );
        assert_eq!(answers.look_up(Nanos::ZERO, &key(94), 5), Known::New);
    }

    #[test]
    fn an_answer_under_a_reused_number_lives_its_own_life() {
        let mut answers = Answers::new(1, 10_000, AGE);
        answers.begin(key(1), 5, Ticket(1));
        answers.finish(Nanos::ZERO, key(1), Ticket(1), answer(3));
        answers.begin(key(1), 6, Ticket(2));
        answers.finish(Nanos::from_secs(5), key(1), Ticket(2), answer(4));
        assert_eq!(
            answers.look_up(Nanos::from_secs(12), &key(1), 6),
            Known::Answered(answer(4))
        );
        assert_eq!(answers.octets(), 4 + OVERHEAD);
    }
    #[test]
    fn a_number_that_is_used_over_and_over_takes_one_place() {
        let mut answers = Answers::new(1, 10_000, AGE);
        for digest in 0..1_000 {
            answers.begin(key(1), digest, Ticket(digest));
            answers.finish(Nanos::ZERO, key(1), Ticket(digest), answer(4));
        }
        assert_eq!((answers.entries.len(), answers.order.len()), (1, 1));
        assert_eq!((answers.octets(), answers.evicted()), (4 + OVERHEAD, 0));
    }

    #[test]
    fn a_peer_that_starts_anew_is_answered_anew_but_for_its_set_ups() {
        let mut answers = Answers::new(1, 10_000, AGE);
        let setup = RequestKey {
            message_type: 5,
            ..key(1)
        };
        for (key, ticket) in [(setup, 1), (key(1), 2), (key(2), 3)] {
            answers.begin(key, 5, Ticket(ticket));
            answers.finish(Nanos::ZERO, key, Ticket(ticket), answer(4));
        }
        answers.begin(key(3), 5, Ticket(4));
        answers.forget_life_of("192.0.2.2:8805".parse().unwrap());
        assert_eq!(answers.entries.len(), 4);
        answers.forget_life_of(key(1).peer);
        answers.finish(Nanos::ZERO, key(3), Ticket(4), answer(4));
        assert_eq!((answers.entries.len(), answers.octets()), (1, 4 + OVERHEAD));
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 5), Known::New);
        assert_eq!(
            answers.look_up(Nanos::ZERO, &setup, 5),
            Known::Answered(answer(4))
        );
    }

    #[test]
    fn a_request_without_answer_is_new_when_it_comes_again() {
        let mut answers = Answers::new(1, 10_000, AGE);
        answers.begin(key(1), 5, Ticket(1));
        answers.abandon(&key(1), Ticket(2));
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 5), Known::InWork);
        answers.abandon(&key(1), Ticket(1));
        assert_eq!(answers.look_up(Nanos::ZERO, &key(1), 5), Known::New);
        answers.begin(key(1), 5, Ticket(3));
        answers.finish(Nanos::ZERO, key(1), Ticket(3), answer(4));
        answers.abandon(&key(1), Ticket(3));
        assert_eq!(
            answers.look_up(Nanos::ZERO, &key(1), 5),
            Known::Answered(answer(4))
        );
    }
}
