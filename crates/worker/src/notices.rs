//! The way of events to Control: answers always have room, everything else is told as long as there is plenty.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use flow::{InstanceId, Nanos, SessionIndex};
use rtrb::Producer;

use crate::Event;
use crate::stats::Stats;

/// Next hops that are remembered as asked for.
const ASKED: usize = 64;
/// How long a next hop is not asked for again.
const AGAIN: Duration = Duration::from_millis(100);

/// Sends events; strangers cannot fill the queue that answers need.
pub(crate) struct Notices {
    events: Producer<Event>,
    /// Places that only answers to commands may use.
    reserve: usize,
    asked: [Option<(InstanceId, IpAddr, Nanos)>; ASKED],
    hasher: foldhash::quality::RandomState,
    reached: Marks,
}

/// Sessions whose counters have reached something that is not told yet: a bit each, so that none is ever forgotten.
struct Marks {
    words: Box<[u64]>,
    /// Bits that are set.
    count: usize,
    /// The word where the next search begins.
    at: usize,
}

impl Marks {
    fn new(sessions: usize) -> Self {
        Self {
            words: vec![0; sessions.div_ceil(64)].into_boxed_slice(),
            count: 0,
            at: 0,
        }
    }

    fn mark(&mut self, session: SessionIndex) {
        let place = session.index();
        if let Some(word) = self.words.get_mut(place / 64) {
            self.count += usize::from(*word >> (place % 64) & 1 == 0);
            *word |= 1 << (place % 64);
        }
    }

    /// Takes one away, in turn.
    fn take(&mut self) -> Option<SessionIndex> {
        if self.count == 0 {
            return None;
        }
        let (before, after) = self.words.split_at(self.at.min(self.words.len()));
        let is_set = |word: &u64| *word != 0;
        let found = after.iter().position(is_set).map(|place| place + before.len());
        let place = found.or_else(|| before.iter().position(is_set))?;
        let word = &mut self.words[place];
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        (self.at, self.count) = (place, self.count - 1);
        Some(SessionIndex((place * 64 + bit) as u32))
    }
}

impl Notices {
    /// Over this queue, of which half is kept for answers; for sessions with an index below `max_sessions`.
    pub fn new(events: Producer<Event>, max_sessions: usize) -> Self {
        let reserve = events.buffer().capacity() / 2;
        Self {
            events,
            reserve,
            asked: [None; ASKED],
            hasher: Default::default(),
            reached: Marks::new(max_sessions),
        }
    }

    /// Whether an answer has room.
    pub fn has_room(&self) -> bool {
        self.events.slots() > 0
    }

    /// Answers a command; [`has_room`](Self::has_room) was asked before.
    pub fn answer(&mut self, stats: &mut Stats, event: Event) {
        if self.events.push(event).is_err() {
            stats.events_lost += 1;
        }
    }

    /// Counters of a session have reached something: it is told when there is room.
    pub fn counters_reached(&mut self, session: SessionIndex) {
        self.reached.mark(session);
    }

    /// A session whose counters are to be told of, if there is plenty of room.
    #[inline]
    pub fn next_reached(&mut self) -> Option<SessionIndex> {
        if self.reached.count == 0 || !self.has_plenty() {
            return None;
        }
        self.reached.take()
    }

    /// Whether there is room for what no answer is.
    pub fn has_plenty(&self) -> bool {
        self.events.slots() > self.reserve
    }

    /// Tells what a packet brought, if there is plenty of room; whether there was.
    pub fn tell(&mut self, stats: &mut Stats, event: Event) -> bool {
        let is_told = self.events.slots() > self.reserve && self.events.push(event).is_ok();
        stats.events_lost += u64::from(!is_told);
        is_told
    }

    /// Asks for a next hop, unless that was done just now.
    pub fn ask(&mut self, stats: &mut Stats, instance: InstanceId, address: IpAddr, now: Nanos) {
        let place = self.hasher.hash_one((instance, address)) as usize % ASKED;
        match self.asked[place] {
            Some((i, a, until)) if (i, a) == (instance, address) && now < until => {}
            _ => {
                self.asked[place] = Some((instance, address, now + AGAIN));
                self.tell(stats, Event::Resolve { instance, address });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_marked_session_is_taken_once_and_all_have_their_turn() {
        let mut marks = Marks::new(200);
        for session in [3, 70, 199, 3, 5000] {
            marks.mark(SessionIndex(session));
        }
        let first = marks.take();
        marks.mark(SessionIndex(0));
        let rest: Vec<_> = std::iter::from_fn(|| marks.take()).collect();
        assert_eq!(first, Some(SessionIndex(3)));
        assert_eq!(rest, [SessionIndex(0), SessionIndex(70), SessionIndex(199)]);
        assert_eq!((marks.take(), marks.count), (None, 0));
    }
}
