//! The response cache, and pending requests: what makes a retransmission harmless (TS 29.244 §6.4).
//!
//! A response is kept as long as the peer may retransmit, and is sent again octet for octet. A retransmission is
//! byte-identical by §6.4; so a request with the number of an earlier one and another content is a new request, of a
//! peer that has restarted and counts from the beginning again.
//!
//! The cache is bounded in octets, which peers (addresses) share. Per-peer eviction keeps one peer from evicting
//! others' responses: a peer over its share loses its own first. Of a peer's responses rejections go first, then those
//! of other requests, then those of deletions: a deleted session cannot be deleted again, so that only the cached
//! response has the result and the last usage. Within each kind the oldest goes first.

use flow::Nanos;
use pfcp::MessageType;
use session::{Keyed, Ticket, keyed};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// What distinguishes requests.
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
    /// A new request.
    New,
    /// A retransmission of a pending request.
    Pending,
    /// A retransmission of a request with this response.
    Responded(Arc<[u8]>),
}

/// Octets that an entry takes beside the answer, about.
const OVERHEAD: usize = 200;

/// The number of a [`Holder`] or of an [`Entry`].
type Number = u32;
const NONE: Number = Number::MAX;

/// A [`RequestKey`] in short, under the number of its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Key {
    holder: Number,
    port: u16,
    /// The number, and the message type in the bits above it.
    request: u32,
}

impl Key {
    fn message_type(self) -> MessageType {
        MessageType((self.request >> 24) as u8)
    }
}

/// Which of its holder's lists an entry is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pending,
    /// The first to go.
    Rejection,
    Response,
    Deletion,
}

impl Kind {
    const KEPT: [Kind; 3] = [Kind::Rejection, Kind::Response, Kind::Deletion];
}

#[derive(Debug)]
enum State {
    Pending(Ticket),
    /// Until when it is kept.
    Responded(Arc<[u8]>, Nanos),
}

#[derive(Debug)]
struct Entry {
    key: Key,
    digest: u64,
    /// Whether the process before has responded: `digest` is the SEID that the request named.
    is_restored: bool,
    state: State,
    kind: Kind,
    /// The neighbours in its list.
    older: Number,
    newer: Number,
    /// The neighbours among those of its port.
    beside: [Number; 2],
}

impl Entry {
    /// Whether a peer that starts anew is to be answered anew.
    fn is_of_a_life(&self) -> bool {
        self.key.message_type() != MessageType::ASSOCIATION_SETUP_REQUEST
    }

    fn octets(&self) -> usize {
        match &self.state {
            State::Pending(_) => 0,
            State::Responded(bytes, _) => bytes.len() + OVERHEAD,
        }
    }
}

/// Entries in the order of their coming.
#[derive(Clone, Copy, Debug)]
struct List {
    oldest: Number,
    newest: Number,
}

/// A peer's entries.
#[derive(Debug)]
struct Holder {
    address: IpAddr,
    entries: usize,
    octets: usize,
    lists: [List; 4],
}

/// Requests by key.
#[derive(Debug)]
pub(crate) struct ResponseCache {
    by_key: Keyed<Key, Number>,
    entries: Numbered<Entry>,
    /// One of the entries of each holder and port, but for set-ups.
    by_port: Keyed<(Number, u16), Number>,
    by_address: Keyed<IpAddr, Number>,
    holders: Numbered<Holder>,
    /// The holder whose old responses are looked at next.
    turn: Number,
    octets: usize,
    max_octets: usize,
    age: Duration,
    evicted: u64,
}

/// Things by numbers that are used again.
#[derive(Debug)]
struct Numbered<T> {
    things: Vec<Option<T>>,
    free: Vec<Number>,
}

impl<T> Numbered<T> {
    const fn new() -> Numbered<T> {
        Numbered {
            things: Vec::new(),
            free: Vec::new(),
        }
    }

    fn len(&self) -> usize {
        self.things.len() - self.free.len()
    }

    fn get(&self, number: Number) -> Option<&T> {
        self.things.get(number as usize)?.as_ref()
    }

    fn get_mut(&mut self, number: Number) -> Option<&mut T> {
        self.things.get_mut(number as usize)?.as_mut()
    }

    fn add(&mut self, thing: T) -> Number {
        if let Some(number) = self.free.pop() {
            if let Some(place) = self.things.get_mut(number as usize) {
                *place = Some(thing);
            }
            return number;
        }
        self.things.push(Some(thing));
        (self.things.len() - 1) as Number
    }

    fn take(&mut self, number: Number) -> Option<T> {
        let thing = self.things.get_mut(number as usize)?.take();
        if thing.is_some() {
            self.free.push(number);
        }
        thing
    }

    fn iter(&self) -> impl Iterator<Item = (Number, &T)> {
        (0..)
            .zip(&self.things)
            .filter_map(|(number, thing)| Some((number, thing.as_ref()?)))
    }
}

/// How long a response to such a request is worth keeping.
fn kind_of(request: MessageType) -> Kind {
    match request {
        MessageType::SESSION_DELETION_REQUEST | MessageType::SESSION_SET_DELETION_REQUEST => Kind::Deletion,
        _ => Kind::Response,
    }
}

impl ResponseCache {
    /// Keeps responses for `age`, and no more than `max_octets` of them.
    pub(crate) fn new(seed: u64, max_octets: usize, age: Duration) -> ResponseCache {
        ResponseCache {
            by_key: keyed(seed),
            entries: Numbered::new(),
            by_port: keyed(seed.rotate_left(16)),
            by_address: keyed(seed.rotate_left(32)),
            holders: Numbered::new(),
            turn: 0,
            octets: 0,
            max_octets,
            age,
            evicted: 0,
        }
    }

    /// Whether this request, with a digest of its content and the SEID that it names, is a retransmission.
    pub(crate) fn look_up(&mut self, now: Nanos, key: &RequestKey, digest: u64, seid: u64) -> Known {
        self.expire(now);
        let Some(number) = self.find(key) else {
            return Known::New;
        };
        match self.entries.get(number) {
            Some(entry) if entry.digest == if entry.is_restored { seid } else { digest } => {
                match &entry.state {
                    State::Pending(_) => Known::Pending,
                    State::Responded(bytes, until) if *until > now => Known::Responded(Arc::clone(bytes)),
                    State::Responded(..) => {
                        self.drop_entry(number);
                        Known::New
                    }
                }
            }
            _ => Known::New,
        }
    }

    /// Notes that a request is in work.
    pub(crate) fn begin(&mut self, key: RequestKey, digest: u64, ticket: Ticket) {
        self.enter(&key, digest, State::Pending(ticket), Kind::Pending);
    }

    /// Notes the answer to the request that `ticket` began, unless another request has taken its number since.
    pub(crate) fn finish(&mut self, now: Nanos, key: RequestKey, ticket: Ticket, bytes: Arc<[u8]>) {
        let Some(number) = self.in_work(&key, ticket) else {
            return;
        };
        let kind = kind_of(MessageType(key.message_type));
        let until = now + self.age;
        self.unlist(number);
        if let Some(entry) = self.entries.get_mut(number) {
            (entry.state, entry.kind) = (State::Responded(bytes, until), kind);
        }
        self.list(number);
        self.make_room(key.peer.ip());
    }

    /// Notes that a request that began nothing was refused, so that it is not served when it comes again and things are
    /// otherwise.
    pub(crate) fn reject(&mut self, now: Nanos, key: RequestKey, digest: u64, bytes: Arc<[u8]>) {
        let until = now + self.age;
        self.enter(&key, digest, State::Responded(bytes, until), Kind::Rejection);
        self.make_room(key.peer.ip());
    }

    /// Notes the answer of the process before to a request about the session `seid`.
    pub(crate) fn restore(&mut self, now: Nanos, key: RequestKey, seid: u64, bytes: Arc<[u8]>) {
        let until = now + self.age;
        let kind = kind_of(MessageType(key.message_type));
        let number = self.enter(&key, seid, State::Responded(bytes, until), kind);
        if let Some(entry) = self.entries.get_mut(number) {
            entry.is_restored = true;
        }
        self.make_room(key.peer.ip());
    }

    /// Notes that the request that `ticket` began gets no answer: a retransmission is a new request.
    pub(crate) fn abandon(&mut self, key: &RequestKey, ticket: Ticket) {
        if let Some(number) = self.in_work(key, ticket) {
            self.drop_entry(number);
        }
    }

    /// Forgets the requests of a peer that has started anew: it counts from the beginning again, so what looks like a
    /// retransmission may be the same request in a new life, and the answer of then would say done what is not. Its
    /// set-ups stay known: an old one that comes late must not be served again.
    pub(crate) fn forget_life_of(&mut self, peer: SocketAddr) {
        let Some(holder) = self.by_address.get(&peer.ip()).copied() else {
            return;
        };
        while let Some(one) = self.by_port.get(&(holder, peer.port())).copied() {
            self.drop_entry(one);
        }
    }

    /// Octets in use, about.
    pub(crate) fn octets(&self) -> usize {
        self.octets
    }

    /// How many responses were evicted before their time.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn key(holder: Number, key: &RequestKey) -> Key {
        Key {
            holder,
            port: key.peer.port(),
            request: u32::from(key.message_type) << 24 | key.sequence & 0x00ff_ffff,
        }
    }

    fn find(&self, key: &RequestKey) -> Option<Number> {
        let holder = *self.by_address.get(&key.peer.ip())?;
        self.by_key.get(&Self::key(holder, key)).copied()
    }

    /// The entry of the request that `ticket` began.
    fn in_work(&self, key: &RequestKey, ticket: Ticket) -> Option<Number> {
        let number = self.find(key)?;
        let state = &self.entries.get(number)?.state;
        matches!(state, State::Pending(known) if *known == ticket).then_some(number)
    }

    /// Enters a request in the place of any with its number.
    fn enter(&mut self, key: &RequestKey, digest: u64, state: State, kind: Kind) -> Number {
        if let Some(known) = self.find(key) {
            self.drop_entry(known);
        }
        let holder = self.holder_of(key.peer.ip());
        let key = Self::key(holder, key);
        let number = self.entries.add(Entry {
            key,
            digest,
            is_restored: false,
            state,
            kind,
            older: NONE,
            newer: NONE,
            beside: [NONE; 2],
        });
        self.by_key.insert(key, number);
        self.join_port(number);
        if let Some(holder) = self.holders.get_mut(holder) {
            holder.entries += 1;
        }
        self.list(number);
        number
    }

    fn holder_of(&mut self, address: IpAddr) -> Number {
        let holders = &mut self.holders;
        let entry = self.by_address.entry(address);
        *entry.or_insert_with(|| {
            let empty = List {
                oldest: NONE,
                newest: NONE,
            };
            holders.add(Holder {
                address,
                entries: 0,
                octets: 0,
                lists: [empty; 4],
            })
        })
    }

    /// Puts an entry at the end of its list.
    fn list(&mut self, number: Number) {
        let Some(entry) = self.entries.get_mut(number) else {
            return;
        };
        let Some(holder) = self.holders.get_mut(entry.key.holder) else {
            return;
        };
        let list = &mut holder.lists[entry.kind as usize];
        (entry.older, entry.newer) = (list.newest, NONE);
        let before = std::mem::replace(&mut list.newest, number);
        if before == NONE {
            list.oldest = number;
        }
        holder.octets += entry.octets();
        self.octets += entry.octets();
        if let Some(before) = self.entries.get_mut(before) {
            before.newer = number;
        }
    }

    /// Takes an entry out of its list.
    fn unlist(&mut self, number: Number) {
        let Some(entry) = self.entries.get(number) else {
            return;
        };
        let (older, newer, octets) = (entry.older, entry.newer, entry.octets());
        let Some(holder) = self.holders.get_mut(entry.key.holder) else {
            return;
        };
        let list = &mut holder.lists[entry.kind as usize];
        if list.oldest == number {
            list.oldest = newer;
        }
        if list.newest == number {
            list.newest = older;
        }
        holder.octets -= octets;
        self.octets -= octets;
        if let Some(older) = self.entries.get_mut(older) {
            older.newer = newer;
        }
        if let Some(newer) = self.entries.get_mut(newer) {
            newer.older = older;
        }
    }

    /// Puts an entry before the others of its port.
    fn join_port(&mut self, number: Number) {
        let Some(entry) = self.entries.get_mut(number).filter(|entry| entry.is_of_a_life()) else {
            return;
        };
        let port = (entry.key.holder, entry.key.port);
        let next = self.by_port.insert(port, number).unwrap_or(NONE);
        entry.beside = [NONE, next];
        if let Some(next) = self.entries.get_mut(next) {
            next.beside[0] = number;
        }
    }

    /// Takes an entry out of those of its port.
    fn leave_port(&mut self, number: Number) {
        let Some(entry) = self.entries.get(number).filter(|entry| entry.is_of_a_life()) else {
            return;
        };
        let port = (entry.key.holder, entry.key.port);
        let [before, next] = entry.beside;
        if let Some(next) = self.entries.get_mut(next) {
            next.beside[0] = before;
        }
        match self.entries.get_mut(before) {
            Some(before) => before.beside[1] = next,
            None if next == NONE => drop(self.by_port.remove(&port)),
            None => drop(self.by_port.insert(port, next)),
        }
    }

    fn drop_entry(&mut self, number: Number) {
        self.unlist(number);
        self.leave_port(number);
        let Some(entry) = self.entries.take(number) else {
            return;
        };
        self.by_key.remove(&entry.key);
        let Some(holder) = self.holders.get_mut(entry.key.holder) else {
            return;
        };
        holder.entries -= 1;
        if holder.entries == 0 {
            self.by_address.remove(&holder.address);
            self.holders.take(entry.key.holder);
        }
    }

    /// Removes expired responses, of one peer at each call.
    fn expire(&mut self, now: Nanos) {
        let holder = self.turn;
        self.turn = if holder as usize + 1 < self.holders.things.len() {
            holder + 1
        } else {
            0
        };
        for kind in Kind::KEPT {
            let is_over = |entry: &Entry| matches!(entry.state, State::Responded(_, until) if until <= now);
            while let Some(oldest) = self.oldest(holder, kind)
                && self.entries.get(oldest).is_some_and(is_over)
            {
                self.drop_entry(oldest);
            }
        }
    }

    fn oldest(&self, holder: Number, kind: Kind) -> Option<Number> {
        let oldest = self.holders.get(holder)?.lists[kind as usize].oldest;
        (oldest != NONE).then_some(oldest)
    }

    /// Evicts responses until there is room for those of `address`: its own if it has more than its share, else those
    /// of the peer that has most.
    fn make_room(&mut self, address: IpAddr) {
        while self.octets > self.max_octets {
            let share = self.max_octets / self.holders.len().max(1);
            let own = self.by_address.get(&address).copied();
            let is_greedy = |number: &Number| self.holders.get(*number).is_some_and(|own| own.octets > share);
            let greediest = || {
                self.holders
                    .iter()
                    .max_by_key(|(_, one)| one.octets)
                    .map(|(number, _)| number)
            };
            let Some(holder) = own.filter(is_greedy).or_else(greediest) else {
                return;
            };
            let Some(oldest) = Kind::KEPT.into_iter().find_map(|kind| self.oldest(holder, kind)) else {
                return;
            };
            self.drop_entry(oldest);
            self.evicted += 1;
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

    /// At 25,000 requests a second until the last of three requests, each a second after the other, is answered
    /// (`n4.response_cache_bytes` of the configuration).
    #[test]
    fn answers_of_as_many_requests_as_may_come_again_are_kept() {
        const IN_ALL: u32 = 75_000;
        let mut cache = ResponseCache::new(1, 38_400_000, Duration::from_secs(40));
        let bytes = answer(512 - OVERHEAD);
        for number in 0..IN_ALL {
            let now = Nanos(u64::from(number) * 40_000);
            let ticket = Ticket(u64::from(number));
            cache.begin(key(number), 7, ticket);
            cache.finish(now, key(number), ticket, Arc::clone(&bytes));
        }
        assert_eq!(cache.evicted(), 0);
        let now = Nanos::from_secs(3);
        let is_known = |number: &u32| matches!(cache.look_up(now, &key(*number), 7, 0), Known::Responded(_));
        assert_eq!((0..IN_ALL).filter(is_known).count(), IN_ALL as usize);
    }

    #[test]
    fn a_request_is_new_then_in_work_then_answered_then_new_again() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 5, 0), Known::New);
        cache.begin(key(1), 5, Ticket(1));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 5, 0), Known::Pending);
        cache.finish(Nanos::from_secs(1), key(1), Ticket(1), answer(3));
        assert_eq!(
            cache.look_up(Nanos::from_secs(10), &key(1), 5, 0),
            Known::Responded(answer(3))
        );
        assert_eq!(cache.look_up(Nanos::from_secs(11), &key(1), 5, 0), Known::New);
        assert_eq!((cache.entries.len(), cache.octets()), (0, 0));
    }

    #[test]
    fn another_content_under_the_same_number_is_another_request() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        cache.begin(key(1), 5, Ticket(1));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 6, 0), Known::New);
        cache.begin(key(1), 6, Ticket(2));
        cache.finish(Nanos::ZERO, key(1), Ticket(1), answer(3));
        assert_eq!(
            cache.look_up(Nanos::ZERO, &key(1), 6, 0),
            Known::Pending,
            "the first one's answer is not the second's"
        );
        cache.finish(Nanos::ZERO, key(1), Ticket(2), answer(4));
        assert_eq!(
            cache.look_up(Nanos::ZERO, &key(1), 6, 0),
            Known::Responded(answer(4))
        );
        assert_eq!(cache.look_up(Nanos::ZERO, &key(2), 6, 0), Known::New);
    }

    #[test]
    fn the_cache_is_bounded_in_octets() {
        let mut cache = ResponseCache::new(1, 1_200, AGE);
        for sequence in 0..100 {
            cache.begin(key(sequence), 5, Ticket(u64::from(sequence)));
            cache.finish(
                Nanos::ZERO,
                key(sequence),
                Ticket(u64::from(sequence)),
                answer(40),
            );
            assert!(cache.octets() <= 1_200);
        }
        assert_eq!(cache.evicted(), 95);
        assert_eq!(
            cache.look_up(Nanos::ZERO, &key(99), 5, 0),
            Known::Responded(answer(40))
        );
        assert_eq!(cache.look_up(Nanos::ZERO, &key(94), 5, 0), Known::New);
    }

    #[test]
    fn an_answer_under_a_reused_number_lives_its_own_life() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        cache.begin(key(1), 5, Ticket(1));
        cache.finish(Nanos::ZERO, key(1), Ticket(1), answer(3));
        cache.begin(key(1), 6, Ticket(2));
        cache.finish(Nanos::from_secs(5), key(1), Ticket(2), answer(4));
        assert_eq!(
            cache.look_up(Nanos::from_secs(12), &key(1), 6, 0),
            Known::Responded(answer(4))
        );
        assert_eq!(cache.octets(), 4 + OVERHEAD);
    }
    #[test]
    fn a_number_that_is_used_over_and_over_takes_one_place() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        for digest in 0..1_000 {
            cache.begin(key(1), digest, Ticket(digest));
            cache.finish(Nanos::ZERO, key(1), Ticket(digest), answer(4));
        }
        assert_eq!(
            (cache.entries.len(), cache.by_key.len(), cache.holders.len()),
            (1, 1, 1)
        );
        assert_eq!((cache.octets(), cache.evicted()), (4 + OVERHEAD, 0));
    }

    #[test]
    fn a_peer_that_starts_anew_is_answered_anew_but_for_its_set_ups() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        let setup = RequestKey {
            message_type: 5,
            ..key(1)
        };
        for (key, ticket) in [(setup, 1), (key(1), 2), (key(2), 3)] {
            cache.begin(key, 5, Ticket(ticket));
            cache.finish(Nanos::ZERO, key, Ticket(ticket), answer(4));
        }
        cache.begin(key(3), 5, Ticket(4));
        cache.forget_life_of("192.0.2.2:8805".parse().unwrap());
        assert_eq!(cache.entries.len(), 4);
        cache.forget_life_of(key(1).peer);
        cache.finish(Nanos::ZERO, key(3), Ticket(4), answer(4));
        assert_eq!((cache.entries.len(), cache.octets()), (1, 4 + OVERHEAD));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 5, 0), Known::New);
        assert_eq!(
            cache.look_up(Nanos::ZERO, &setup, 5, 0),
            Known::Responded(answer(4))
        );
    }

    #[test]
    fn a_request_without_answer_is_new_when_it_comes_again() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        cache.begin(key(1), 5, Ticket(1));
        cache.abandon(&key(1), Ticket(2));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 5, 0), Known::Pending);
        cache.abandon(&key(1), Ticket(1));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 5, 0), Known::New);
        cache.begin(key(1), 5, Ticket(3));
        cache.finish(Nanos::ZERO, key(1), Ticket(3), answer(4));
        cache.abandon(&key(1), Ticket(3));
        assert_eq!(
            cache.look_up(Nanos::ZERO, &key(1), 5, 0),
            Known::Responded(answer(4))
        );
    }

    fn of(peer: &str, sequence: u32, message_type: u8) -> RequestKey {
        RequestKey {
            peer: peer.parse().unwrap(),
            sequence,
            message_type,
        }
    }

    fn answered(cache: &mut ResponseCache, key: RequestKey) {
        let ticket = Ticket(u64::from(key.sequence));
        cache.begin(key, 5, ticket);
        cache.finish(Nanos::ZERO, key, ticket, answer(40));
    }

    fn is_known(cache: &mut ResponseCache, key: RequestKey) -> bool {
        cache.look_up(Nanos::ZERO, &key, 5, 0) != Known::New
    }

    #[test]
    fn a_busy_peer_takes_nothing_of_what_a_quiet_one_has() {
        // Six responses fit: three are a share.
        let mut cache = ResponseCache::new(1, 1_440, AGE);
        let quiet = |sequence| of("192.0.2.1:8805", sequence, 50);
        answered(&mut cache, quiet(1));
        answered(&mut cache, quiet(2));
        for sequence in 0..100 {
            answered(&mut cache, of("192.0.2.2:8805", sequence, 50));
            answered(&mut cache, of("192.0.2.2:9", sequence, 50));
        }
        assert!(is_known(&mut cache, quiet(1)) && is_known(&mut cache, quiet(2)));
        answered(&mut cache, quiet(3));
        assert!(is_known(&mut cache, quiet(1)), "the busy one makes room");
        assert!((1..=3).all(|sequence| is_known(&mut cache, quiet(sequence))));
        assert!(cache.octets() <= 1_440);
    }

    #[test]
    fn answers_to_deletions_stay_longest_and_refusals_go_first() {
        let mut cache = ResponseCache::new(1, 1_200, AGE);
        let deletion = of("192.0.2.1:8805", 1, 54);
        let refused = of("192.0.2.1:8805", 2, 50);
        answered(&mut cache, deletion);
        let establishment = |sequence| of("192.0.2.1:8805", sequence, 50);
        answered(&mut cache, establishment(3));
        cache.reject(Nanos::ZERO, refused, 5, answer(40));
        assert_eq!(
            cache.look_up(Nanos::ZERO, &refused, 5, 0),
            Known::Responded(answer(40))
        );
        for sequence in 4..7 {
            answered(&mut cache, establishment(sequence));
        }
        assert!(!is_known(&mut cache, refused) && is_known(&mut cache, establishment(3)));
        for sequence in 7..100 {
            answered(&mut cache, establishment(sequence));
        }
        assert!(is_known(&mut cache, deletion) && !is_known(&mut cache, establishment(3)));
    }

    #[test]
    fn a_refusal_is_not_for_ever_and_takes_the_place_of_nothing_else() {
        let mut cache = ResponseCache::new(1, 10_000, AGE);
        cache.reject(Nanos::ZERO, key(1), 5, answer(3));
        assert_eq!(cache.look_up(Nanos::ZERO, &key(1), 6, 0), Known::New);
        assert_eq!(cache.look_up(Nanos::from_secs(10), &key(1), 5, 0), Known::New);
        assert_eq!((cache.entries.len(), cache.octets()), (0, 0));
    }

    proptest::proptest! {
        /// Against a plain list of what was entered, with room for everything.
        #[test]
        fn it_knows_what_it_received(
            steps in proptest::collection::vec((0u8..5, 0u16..3, 0u32..6, 0u64..3), 0..200),
        ) {
            let mut cache = ResponseCache::new(7, 1 << 20, AGE);
            let mut model: Vec<(RequestKey, u64, Option<Ticket>)> = Vec::new();
            for (step, (what, port, sequence, digest)) in (0..).zip(steps) {
                let key = of(&format!("192.0.2.{}:{port}", port % 2), sequence, 50);
                let known = model.iter().position(|(own, ..)| *own == key);
                match what {
                    0 => {
                        known.map(|place| model.remove(place));
                        cache.begin(key, digest, Ticket(step));
                        model.push((key, digest, Some(Ticket(step))));
                    }
                    1 => {
                        known.map(|place| model.remove(place));
                        cache.reject(Nanos::ZERO, key, digest, answer(1));
                        model.push((key, digest, None));
                    }
                    2 => {
                        let ticket = known.and_then(|place| model[place].2.take());
                        cache.finish(Nanos::ZERO, key, ticket.unwrap_or(Ticket(u64::MAX)), answer(1));
                    }
                    3 => {
                        let ticket = known.and_then(|place| model[place].2);
                        cache.abandon(&key, ticket.unwrap_or(Ticket(u64::MAX)));
                        model.retain(|(own, _, ticket)| *own != key || ticket.is_none());
                    }
                    _ if step % 5 == 0 => {
                        cache.forget_life_of(key.peer);
                        model.retain(|(own, ..)| own.peer != key.peer);
                    }
                    _ => {}
                }
                let expected = model.iter().find(|(own, of, _)| (*own, *of) == (key, digest));
                let expected = expected.map_or(Known::New, |(.., ticket)| match ticket {
                    Some(_) => Known::Pending,
                    None => Known::Responded(answer(1)),
                });
                proptest::prop_assert_eq!(cache.look_up(Nanos::ZERO, &key, digest, 0), expected);
                let kept = model.iter().filter(|(.., ticket)| ticket.is_none()).count();
                proptest::prop_assert_eq!(cache.octets(), kept * (1 + OVERHEAD));
                proptest::prop_assert_eq!((cache.entries.len(), cache.by_key.len()), (model.len(), model.len()));
                let mut peers: Vec<_> = model.iter().map(|(own, ..)| own.peer).collect();
                peers.sort();
                peers.dedup();
                proptest::prop_assert_eq!(cache.by_port.len(), peers.len());
            }
        }
    }
}
