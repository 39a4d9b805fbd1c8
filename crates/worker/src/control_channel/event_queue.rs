//! The queue of events to control. Responses always have room; other events are pushed while enough room for responses
//! is left.
//!
//! Events that any sender can cause without bound (unresolved next hops, Error Indications) have less room than those
//! that control waits for (neighbours, echoes, paging). Requests for next hops have a token bucket by session and one
//! for the worker: a UE that sends to all addresses of a network does not delay the requests of other UEs.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use flow::{InstanceId, KeyedTokenBuckets, Nanos, SessionIndex, TokenBucket, TokenRate};
use packet::Teid;
use packet::too_big::TooBig;
use rtrb::Producer;

use crate::Event;
use crate::stats::Stats;

/// Next hops whose resolution is remembered as requested.
const RESOLUTIONS: usize = 64;
/// How long the resolution of a next hop is not requested again, and the time in which an empty bucket fills.
const INTERVAL: Duration = Duration::from_millis(100);
/// Resolutions in that time: of the sessions of one bucket, and of all.
const RESOLUTIONS_PER_CLASS: u32 = 8;
const RESOLUTIONS_IN_ALL: u32 = 128;
/// Error Indications that are pushed in that time. A peer sends one for every packet without a context, so one that is
/// not pushed is followed by another.
const ERRORS: u32 = 128;
/// Messages of routers that packets were too long which are pushed in that time.
const TOO_BIG: u32 = 16;
/// Buckets of sessions: those whose index differs by a multiple of it share one.
const BUCKETS: usize = 256;

/// Pushes events; unsolicited ones cannot fill the room that responses need.
pub(crate) struct EventQueue {
    events: Producer<Event>,
    /// Events that were put in.
    pushed: u64,
    /// Places that only answers to commands may use.
    reserve: usize,
    /// Places that unsolicited events may not use.
    high: usize,
    rates: EventRates,
    /// The next hops whose resolution was requested last, by hash.
    resolutions: [Option<RequestedHop>; RESOLUTIONS],
    hasher: foldhash::quality::RandomState,
    reached: Marks,
    /// Sessions that have counted so much that control is to know.
    due: Marks,
}

/// A next hop whose resolution was requested.
#[derive(Clone, Copy)]
struct RequestedHop {
    instance: InstanceId,
    address: IpAddr,
    /// Until then it is not requested again.
    until: Nanos,
}

/// The rates of events that user packets and GTP-U peers cause without bound.
struct EventRates {
    /// By session index.
    resolutions: KeyedTokenBuckets,
    error_indications: TokenBucket,
    too_big: TokenBucket,
}

impl EventRates {
    fn new() -> Self {
        let rate = |count| TokenRate::new(INTERVAL / count, count);
        let (all, each) = (rate(RESOLUTIONS_IN_ALL), rate(RESOLUTIONS_PER_CLASS));
        Self {
            resolutions: KeyedTokenBuckets::new(all, each, BUCKETS),
            error_indications: TokenBucket::with_rate(rate(ERRORS)),
            too_big: TokenBucket::with_rate(rate(TOO_BIG)),
        }
    }
}

/// Sessions of which something is to be pushed that is not yet: a bit each, so that none is ever forgotten.
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
        let index = session.index();
        if let Some(word) = self.words.get_mut(index / 64) {
            self.count += usize::from(*word >> (index % 64) & 1 == 0);
            *word |= 1 << (index % 64);
        }
    }

    /// Takes one away, in turn.
    fn take(&mut self) -> Option<SessionIndex> {
        if self.count == 0 {
            return None;
        }
        let (before, after) = self.words.split_at(self.at.min(self.words.len()));
        let is_set = |word: &u64| *word != 0;
        let found = after.iter().position(is_set).map(|index| index + before.len());
        let index = found.or_else(|| before.iter().position(is_set))?;
        let word = &mut self.words[index];
        let bit = word.trailing_zeros() as usize;
        *word &= *word - 1;
        (self.at, self.count) = (index, self.count - 1);
        Some(SessionIndex((index * 64 + bit) as u32))
    }
}

impl EventQueue {
    /// Over this queue, of which half is kept for answers; for sessions with an index below `max_sessions`.
    pub fn new(events: Producer<Event>, max_sessions: usize) -> Self {
        let capacity = events.buffer().capacity();
        Self {
            events,
            pushed: 0,
            reserve: capacity / 2,
            high: capacity / 4 * 3,
            rates: EventRates::new(),
            resolutions: [None; RESOLUTIONS],
            hasher: Default::default(),
            reached: Marks::new(max_sessions),
            due: Marks::new(max_sessions),
        }
    }

    fn put(&mut self, event: Event) -> bool {
        let is_in = self.events.push(event).is_ok();
        self.pushed += u64::from(is_in);
        is_in
    }

    /// How many events were put in.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Whether an answer has room.
    pub fn has_room_for_response(&self) -> bool {
        self.events.slots() > 0
    }

    /// Answers a command; [`has_room_for_response`](Self::has_room_for_response) was checked before.
    pub fn push_response(&mut self, stats: &mut Stats, event: Event) {
        if !self.put(event) {
            stats.events_lost += 1;
        }
    }

    /// Counters of a session have reached something: it is pushed when there is room.
    pub fn mark_reached(&mut self, session: SessionIndex) {
        self.reached.mark(session);
    }

    /// The next session with counters that have reached a bound, if the queue has room for its events.
    #[inline]
    pub fn next_reached(&mut self) -> Option<SessionIndex> {
        if self.reached.count == 0 || !self.has_room() {
            return None;
        }
        self.reached.take()
    }

    /// A session has counted so much that its counts are to be pushed before their turn.
    pub fn mark_due(&mut self, session: SessionIndex) {
        self.due.mark(session);
    }

    /// Whether there is such a session.
    #[inline]
    pub fn has_due(&self) -> bool {
        self.due.count > 0
    }

    /// Takes such a session, in turn.
    pub fn next_due(&mut self) -> Option<SessionIndex> {
        self.due.take()
    }

    /// Whether there is room for an event that is no response.
    pub fn has_room(&self) -> bool {
        self.events.slots() > self.reserve
    }

    /// Pushes an event that a packet caused, if there is room beside that for responses. Returns whether there was.
    pub fn push(&mut self, stats: &mut Stats, event: Event) -> bool {
        let is_pushed = self.events.slots() > self.reserve && self.put(event);
        stats.events_lost += u64::from(!is_pushed);
        is_pushed
    }

    /// Pushes an event that any sender can cause, as long as the room for the others is hardly used.
    pub fn push_unsolicited(&mut self, stats: &mut Stats, event: Event) -> bool {
        let is_pushed = self.events.slots() > self.high && self.put(event);
        stats.events_lost += u64::from(!is_pushed);
        is_pushed
    }

    /// Pushes an Error Indication. The rate of these events is bounded, which leaves room for next hops.
    pub fn push_error_indication(&mut self, stats: &mut Stats, peer: IpAddr, teid: Teid, now: Nanos) {
        if self.rates.error_indications.take(now) {
            self.push_unsolicited(stats, Event::ErrorIndication { peer, teid });
        } else {
            stats.events_lost += 1;
        }
    }

    /// Pushes the report of a router that a packet of this node was too long. The rate of these events is bounded.
    pub fn push_too_big(&mut self, stats: &mut Stats, pushed: TooBig, now: Nanos) {
        if self.rates.too_big.take(now) {
            self.push_unsolicited(stats, Event::TooBig(pushed));
        } else {
            stats.events_lost += 1;
        }
    }

    /// Requests the resolution of a next hop that a packet of `session` lacks, unless it was requested just now, or the
    /// session's token bucket, or that of all sessions, is empty.
    pub fn request_resolution(
        &mut self,
        stats: &mut Stats,
        session: SessionIndex,
        instance: InstanceId,
        address: IpAddr,
        now: Nanos,
    ) {
        let index = self.hasher.hash_one((instance, address)) as usize % RESOLUTIONS;
        match self.resolutions[index] {
            Some(last) if (last.instance, last.address) == (instance, address) && now < last.until => {}
            // What could not be pushed was not requested, and costs the session nothing.
            _ if self.events.slots() <= self.high => stats.events_lost += 1,
            _ if !self.rates.resolutions.take(session.index(), now) => stats.events_lost += 1,
            _ => {
                self.resolutions[index] = Some(RequestedHop {
                    instance,
                    address,
                    until: now + INTERVAL,
                });
                self.push_unsolicited(stats, Event::Resolve { instance, address });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    /// A queue with 64 slots, and its receiving end.
    fn queue() -> (EventQueue, rtrb::Consumer<Event>, Stats) {
        let (events, pushed) = rtrb::RingBuffer::new(64);
        (EventQueue::new(events, 8), pushed, Stats::new(1))
    }

    fn scan(queue: &mut EventQueue, stats: &mut Stats, session: u32, now: Nanos) {
        for host in 0..1_000 {
            let address = Ipv4Addr::from_bits(0x0a00_0000 | session << 16 | host).into();
            queue.request_resolution(stats, SessionIndex(session), InstanceId(1), address, now);
        }
    }

    #[test]
    fn a_session_that_asks_for_all_addresses_leaves_others_their_turn() {
        let (mut queue, mut pushed, mut stats) = queue();
        scan(&mut queue, &mut stats, 1, Nanos::from_secs(1));
        assert_eq!(pushed.slots(), RESOLUTIONS_PER_CLASS as usize);
        assert_eq!(stats.events_lost, 1_000 - u64::from(RESOLUTIONS_PER_CLASS));
        let other = IpAddr::from([192, 0, 2, 1]);
        let hop = (InstanceId(1), other);
        queue.request_resolution(&mut stats, SessionIndex(2), hop.0, hop.1, Nanos::from_secs(1));
        assert_eq!(pushed.slots(), RESOLUTIONS_PER_CLASS as usize + 1);
        while pushed.pop().is_ok() {}
        scan(&mut queue, &mut stats, 1, Nanos::from_secs(2));
        assert_eq!(pushed.slots(), RESOLUTIONS_PER_CLASS as usize);
    }

    #[test]
    fn next_hops_leave_room_for_what_control_waits_for() {
        let (mut queue, pushed, mut stats) = queue();
        for session in 0..64 {
            scan(&mut queue, &mut stats, session, Nanos::from_secs(1));
        }
        assert_eq!(pushed.slots(), 16, "a quarter");
        let event = || Event::EchoResponse {
            peer: [192, 0, 2, 1].into(),
            local: flow::LocalId(0),
            sequence: 0,
        };
        let room = (0..64).filter(|_| queue.push(&mut stats, event())).count();
        assert_eq!(room, 16, "another quarter");
        assert!(queue.has_room_for_response());
    }

    #[test]
    fn error_indications_leave_room_for_next_hops() {
        let (events, mut pushed) = rtrb::RingBuffer::new(4096);
        let (mut queue, mut stats) = (EventQueue::new(events, 8), Stats::new(1));
        let flood = |queue: &mut EventQueue, stats: &mut Stats, now| {
            let peer = IpAddr::from([192, 0, 2, 1]);
            (0..10_000).for_each(|teid| queue.push_error_indication(stats, peer, Teid(teid), now));
        };
        let now = Nanos::from_secs(1);
        flood(&mut queue, &mut stats, now);
        assert_eq!(pushed.slots(), ERRORS as usize);
        assert_eq!(stats.events_lost, 10_000 - u64::from(ERRORS));
        let hop = (InstanceId(1), IpAddr::from([192, 0, 2, 9]));
        queue.request_resolution(&mut stats, SessionIndex(2), hop.0, hop.1, now);
        assert_eq!(pushed.slots(), ERRORS as usize + 1);
        while pushed.pop().is_ok() {}
        flood(&mut queue, &mut stats, now + INTERVAL);
        assert_eq!(pushed.slots(), ERRORS as usize);
    }

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
