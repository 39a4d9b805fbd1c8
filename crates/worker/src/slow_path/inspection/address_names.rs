//! The names for which resolvers have given sessions addresses, for a while.
//!
//! One answer is one *binding*: of a session, an address and a name. The name that was given last for an address is the
//! one that its flows are for which name none themselves. Bindings are as many as there is room for from the start, and
//! each session has its share: its further ones push out those that it was given longest ago. Where no room is left, a
//! session that has none pushes out one of a session that has many. Those that have ended, or whose session has, are
//! found by a hand that passes all of them once in [`ROUND`].

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use dpi::HostName;
use flow::{Nanos, SessionIndex};
use foldhash::quality::RandomState;

use super::host_pool::{HostPlace, HostPool};
use crate::sessions::fixed_map::FixedMap;

/// All bindings are looked at once in this time, for those that have ended.
const ROUND: Duration = Duration::from_secs(64);
/// Bindings that one step of that looks at, at most.
const MOST_LOOKED_AT: u64 = 1_024;
/// Bindings that are compared for one that gives way.
const COMPARED: usize = 16;
/// Bindings that give way for one at most: a name has up to five blocks.
const MOST_GIVE_WAY: usize = 5;
/// No place.
const NONE: u32 = u32::MAX;

/// A session, of which others may have had the index before.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    pub session: SessionIndex,
    pub seid: u64,
}

/// There is no room for a binding, or for its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NoRoom;

/// What is kept of each session: its bindings are a list, in the order in which they were given last.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    seid: u64,
    /// Bindings of another number are a session's that had the index before.
    epoch: u32,
    count: u32,
    first: u32,
    last: u32,
}

/// A binding; of a free one only `next` counts.
#[derive(Clone, Copy, Debug)]
struct Binding {
    /// The hash of session, address and name, and that of the first two.
    pair: Key,
    end: Key,
    session: u32,
    epoch: u32,
    host: HostPlace,
    /// The second in which it ends.
    until: u32,
    /// Its neighbours in the list of its session.
    before: u32,
    next: u32,
    is_used: bool,
}

type Key = [u32; 2];

fn seconds(now: Nanos) -> u32 {
    (now.0 / 1_000_000_000) as u32
}

/// The bindings of one worker's sessions.
pub(super) struct AddressNames {
    bindings: Box<[Binding]>,
    free: u32,
    /// Places by session, address and name.
    pairs: FixedMap<2>,
    /// Places of the last ones by session and address.
    ends: FixedMap<2>,
    held: Box<[Held]>,
    per_session: u32,
    hasher: RandomState,
    /// The place that is looked at next, and up to when they were looked at as often as they are to be.
    hand: usize,
    looked: Nanos,
    /// The place that is looked at next for one that gives way.
    crowd_hand: usize,
}

impl AddressNames {
    /// Room for `bindings`, and of those `per_session`, at least 1, of each; sessions are numbers below `sessions`.
    pub(super) fn new(bindings: u32, per_session: u32, sessions: usize) -> Self {
        let free = |place: u32| Binding {
            pair: [0; 2],
            end: [0; 2],
            session: 0,
            epoch: 0,
            host: HostPlace::NONE,
            until: 0,
            before: NONE,
            next: if place + 1 < bindings { place + 1 } else { NONE },
            is_used: false,
        };
        Self {
            bindings: (0..bindings).map(free).collect(),
            free: if bindings > 0 { 0 } else { NONE },
            pairs: FixedMap::new(bindings as usize),
            ends: FixedMap::new(bindings as usize),
            held: vec![Held::default(); if bindings > 0 { sessions } else { 0 }].into(),
            per_session: per_session.max(1),
            hasher: RandomState::default(),
            hand: 0,
            looked: Nanos::ZERO,
            crowd_hand: 0,
        }
    }

    /// How many there are. Some of them may have ended.
    pub(super) fn len(&self) -> usize {
        self.pairs.len()
    }

    /// A resolver has given a session this address for this name, for as many seconds. The later end counts where it
    /// has before.
    ///
    /// # Errors
    /// [`NoRoom`].
    pub(super) fn bind(
        &mut self,
        owner: Owner,
        (address, name): (IpAddr, &HostName),
        lifetime_s: u32,
        hosts: &mut HostPool,
        now: Nanos,
    ) -> Result<(), NoRoom> {
        self.claim(owner);
        let (pair, end) = (self.pair(owner, address, name), self.end(owner, address));
        let until = seconds(now).saturating_add(lifetime_s);
        let known = self.pairs.at(&pair).filter(|place| self.is_live(*place));
        let place = match known {
            Some(place) => place,
            None => self.make(owner, (pair, end), name, hosts)?,
        };
        self.leave(place);
        self.join(owner.session, place);
        if let Some(binding) = self.bindings.get_mut(place as usize) {
            binding.until = binding.until.max(until);
        }
        // There is room for as many as for bindings.
        let _ = self.ends.insert(end, place);
        Ok(())
    }

    /// The place of the name that this address has in a session.
    pub(super) fn name(&self, owner: Owner, address: IpAddr, now: Nanos) -> Option<HostPlace> {
        if self.pairs.is_empty() {
            return None;
        }
        let place = self.ends.at(&self.end(owner, address))?;
        let binding = self.bindings.get(place as usize)?;
        let counts = self.is_live(place) && seconds(now) < binding.until;
        counts.then_some(binding.host)
    }

    /// Whether this address has this very name in a session, among others.
    pub(super) fn has(&self, owner: Owner, (address, name): (IpAddr, &HostName), now: Nanos) -> bool {
        if self.pairs.is_empty() {
            return false;
        }
        let Some(place) = self.pairs.at(&self.pair(owner, address, name)) else {
            return false;
        };
        let binding = self.bindings.get(place as usize);
        self.is_live(place) && binding.is_some_and(|binding| seconds(now) < binding.until)
    }

    /// A session has ended here, with its bindings.
    pub(super) fn forget(&mut self, session: SessionIndex) {
        if let Some(held) = self.held.get_mut(session.index()) {
            *held = Held {
                epoch: held.epoch.wrapping_add(u32::from(held.count > 0)),
                ..Held::default()
            };
        }
    }

    /// Has the list of a session's index be this session's.
    fn claim(&mut self, owner: Owner) {
        let own = self.held.get(owner.session.index());
        if own.is_some_and(|held| held.seid != owner.seid) {
            self.forget(owner.session);
            if let Some(held) = self.held.get_mut(owner.session.index()) {
                held.seid = owner.seid;
            }
        }
    }

    /// A binding that is not in its session's list yet.
    fn make(
        &mut self,
        owner: Owner,
        (pair, end): (Key, Key),
        name: &HostName,
        hosts: &mut HostPool,
    ) -> Result<u32, NoRoom> {
        if let Some(other) = self.pairs.at(&pair) {
            // Of the session when it was here before.
            self.remove(other, hosts);
        }
        let held = self.held.get(owner.session.index()).copied().ok_or(NoRoom)?;
        let has_its_share = held.count >= self.per_session || (self.free == NONE && held.count > 0);
        if has_its_share {
            self.remove(held.first, hosts);
        } else if self.free == NONE {
            self.remove_crowded(hosts)?;
        }
        let host = self.take_host(name, hosts)?;
        let place = self.free;
        let Some(binding) = self.bindings.get_mut(place as usize) else {
            hosts.give_back(host);
            return Err(NoRoom);
        };
        self.free = binding.next;
        *binding = Binding {
            pair,
            end,
            session: owner.session.0,
            epoch: held.epoch,
            host,
            until: 0,
            before: NONE,
            next: NONE,
            is_used: true,
        };
        let _ = self.pairs.insert(pair, place);
        Ok(place)
    }

    /// The place of a name, for which others give way.
    fn take_host(&mut self, name: &HostName, hosts: &mut HostPool) -> Result<HostPlace, NoRoom> {
        for _ in 0..MOST_GIVE_WAY {
            if let Some(host) = hosts.take(name, None) {
                return Ok(host);
            }
            self.remove_crowded(hosts)?;
        }
        hosts.take(name, None).ok_or(NoRoom)
    }

    /// Frees the place of one of some bindings: one that counts no more, or whose session has the most.
    fn remove_crowded(&mut self, hosts: &mut HostPool) -> Result<(), NoRoom> {
        let compared = (0..COMPARED.min(self.bindings.len())).filter_map(|_| {
            let place = self.crowd_hand;
            self.crowd_hand = (place + 1) % self.bindings.len();
            let binding = self.bindings.get(place).filter(|binding| binding.is_used)?;
            let held = self.held.get(binding.session as usize);
            let own = held.filter(|held| held.epoch == binding.epoch);
            Some((place as u32, own.map_or(u32::MAX, |held| held.count)))
        });
        let (place, _) = compared.max_by_key(|(_, count)| *count).ok_or(NoRoom)?;
        self.remove(place, hosts);
        Ok(())
    }

    /// Whether a binding is of the session that has the index now.
    fn is_live(&self, place: u32) -> bool {
        let binding = self.bindings.get(place as usize);
        binding.filter(|binding| binding.is_used).is_some_and(|binding| {
            let held = self.held.get(binding.session as usize);
            held.is_some_and(|held| held.epoch == binding.epoch)
        })
    }

    /// Puts a binding at the end of its session's list.
    fn join(&mut self, session: SessionIndex, place: u32) {
        let Some(held) = self.held.get_mut(session.index()) else {
            return;
        };
        let last = if held.count > 0 { held.last } else { NONE };
        held.last = place;
        held.count += 1;
        match self.bindings.get_mut(last as usize) {
            Some(last) => last.next = place,
            None => held.first = place,
        }
        if let Some(binding) = self.bindings.get_mut(place as usize) {
            (binding.before, binding.next) = (last, NONE);
        }
    }

    /// Takes a live binding out of its session's list, if it is in it.
    fn leave(&mut self, place: u32) {
        let Some(Binding {
            before,
            next,
            session,
            ..
        }) = self.bindings.get(place as usize).copied()
        else {
            return;
        };
        let Some(held) = self.held.get_mut(session as usize) else {
            return;
        };
        let is_alone = before == NONE && next == NONE;
        if is_alone && (held.count == 0 || held.first != place) {
            return;
        }
        held.count -= 1;
        match self.bindings.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => held.first = next,
        }
        match self.bindings.get_mut(next as usize) {
            Some(next) => next.before = before,
            None => held.last = before,
        }
    }

    /// Frees the place of a binding.
    fn remove(&mut self, place: u32, hosts: &mut HostPool) {
        let Some(binding) = self.bindings.get(place as usize).copied() else {
            return;
        };
        if self.is_live(place) {
            self.leave(place);
        }
        self.pairs.remove(&binding.pair);
        if self.ends.at(&binding.end) == Some(place) {
            self.ends.remove(&binding.end);
        }
        hosts.give_back(binding.host);
        if let Some(binding) = self.bindings.get_mut(place as usize) {
            (binding.is_used, binding.next) = (false, self.free);
            self.free = place;
        }
    }

    /// Looks at as many of them as time has passed for, and forgets those that have ended.
    pub(super) fn age(&mut self, hosts: &mut HostPool, now: Nanos) {
        let all = self.bindings.len();
        let each = (ROUND.as_nanos() as u64 / (all as u64).max(1)).max(1);
        let due = now.since(self.looked).as_nanos() as u64 / each;
        self.looked = match due > MOST_LOOKED_AT {
            true => now,
            false => Nanos(self.looked.0 + due * each),
        };
        if self.pairs.is_empty() {
            return;
        }
        for _ in 0..due.min(MOST_LOOKED_AT) {
            let place = self.hand;
            self.hand = if place + 1 < all { place + 1 } else { 0 };
            let binding = self.bindings.get(place).filter(|binding| binding.is_used);
            let Some(binding) = binding else { continue };
            if seconds(now) >= binding.until || !self.is_live(place as u32) {
                self.remove(place as u32, hosts);
            }
        }
    }

    fn pair(&self, owner: Owner, address: IpAddr, name: &HostName) -> Key {
        let number = (owner.seid, address, name.as_bytes());
        halves(self.hasher.hash_one(number))
    }

    fn end(&self, owner: Owner, address: IpAddr) -> Key {
        let number = (owner.seid, address);
        halves(self.hasher.hash_one(number))
    }
}

fn halves(hash: u64) -> Key {
    [(hash >> 32) as u32, hash as u32]
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    const SESSIONS: usize = 3;

    fn owner(number: u64) -> Owner {
        // Two SEIDs to an index.
        Owner {
            session: SessionIndex((number % SESSIONS as u64) as u32),
            seid: 100 + number,
        }
    }

    fn address(number: u8) -> IpAddr {
        [192, 0, 2, number].into()
    }

    fn name(number: u8) -> HostName {
        HostName::parse(format!("host{number}.example").as_bytes()).expect("a name")
    }

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_name_that_was_given_last_counts_until_it_ends() {
        let (mut names, mut hosts) = (AddressNames::new(8, 4, SESSIONS), HostPool::new(8));
        let own = owner(1);
        let mut bind = |names: &mut AddressNames, host, lifetime, now| {
            names.bind(own, (address(1), &name(host)), lifetime, &mut hosts, at(now))
        };
        bind(&mut names, 1, 100, 0).expect("room");
        bind(&mut names, 2, 10, 0).expect("room");
        let found = |names: &AddressNames, now| names.name(own, address(1), at(now)).is_some();
        assert!(found(&names, 9) && !found(&names, 10));
        bind(&mut names, 1, 5, 20).expect("room");
        assert!(found(&names, 99) && !found(&names, 100), "the later end counts");
        assert!(names.name(owner(2), address(1), at(20)).is_none());
    }

    #[test]
    fn a_full_session_gives_up_what_it_was_given_longest_ago() {
        let (mut names, mut hosts) = (AddressNames::new(8, 2, SESSIONS), HostPool::new(16));
        let mut bind = |names: &mut AddressNames, owner, number| {
            names.bind(owner, (address(number), &name(number)), 60, &mut hosts, at(0))
        };
        for number in [1, 2, 1, 3] {
            bind(&mut names, owner(0), number).expect("room");
        }
        let has = |names: &AddressNames, number| names.name(owner(0), address(number), at(1)).is_some();
        assert_eq!([1, 2, 3].map(|number| has(&names, number)), [true, false, true]);
        assert_eq!(names.len(), 2);
    }

    #[test]
    fn what_an_ended_session_had_comes_back() {
        let (mut names, mut hosts) = (AddressNames::new(2, 2, SESSIONS), HostPool::new(8));
        for number in [1, 2] {
            let bound = names.bind(owner(0), (address(number), &name(1)), 3_600, &mut hosts, at(0));
            assert_eq!(bound, Ok(()));
        }
        names.forget(owner(0).session);
        assert!(names.name(owner(0), address(1), at(1)).is_none());
        (2..200).for_each(|second| names.age(&mut hosts, at(second)));
        assert_eq!(names.len(), 0);
        let other = (address(1), &name(1));
        assert_eq!(names.bind(owner(1), other, 60, &mut hosts, at(200)), Ok(()));
    }

    #[test]
    fn where_no_room_is_left_a_session_with_many_gives_way() {
        let (mut names, mut hosts) = (AddressNames::new(6, 4, SESSIONS), HostPool::new(6));
        let mut bind = |number, session| {
            let given = (address(number), &name(number));
            names.bind(owner(session), given, 60, &mut hosts, at(0))
        };
        for (number, session) in [(1, 0), (2, 0), (3, 0), (4, 0), (5, 1), (6, 1)] {
            assert_eq!(bind(number, session), Ok(()));
        }
        assert_eq!(bind(7, 2), Ok(()));
        let of = |session, number| names.name(owner(session), address(number), at(1)).is_some();
        assert_eq!((1..=4).filter(|number| of(0, *number)).count(), 3);
        assert!(of(1, 5) && of(1, 6) && of(2, 7));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Bind(u64, u8, u8, u32),
        Forget(u64),
        Wait(u64),
    }

    fn any_step() -> impl Strategy<Value = Step> {
        prop_oneof![
            6 => (0..6u64, 0..4u8, 0..3u8, 1..50u32).prop_map(|(own, end, name, s)| Step::Bind(own, end, name, s)),
            1 => (0..6u64).prop_map(Step::Forget),
            2 => (0..30u64).prop_map(Step::Wait),
        ]
    }

    /// A binding in the slow model: address, name, end.
    type Given = (u8, u8, u64);

    /// By index, the SEID of the session and its bindings in the order in which they were given last.
    #[derive(Default)]
    struct Model {
        sessions: HashMap<u32, (u64, Vec<Given>)>,
    }

    impl Model {
        fn bind(&mut self, owner: Owner, (end, name): (u8, u8), until: u64, per_session: usize) {
            let (seid, own) = self.sessions.entry(owner.session.0).or_default();
            if *seid != owner.seid {
                (*seid, *own) = (owner.seid, Vec::new());
            }
            let known = own.iter().position(|known| (known.0, known.1) == (end, name));
            let before = known.map_or(0, |known| own.remove(known).2);
            if own.len() == per_session {
                own.remove(0);
            }
            own.push((end, name, before.max(until)));
        }

        fn has(&self, owner: Owner, given: (u8, u8), now: u64) -> bool {
            self.sessions.get(&owner.session.0).is_some_and(|(seid, own)| {
                let mut own = own.iter();
                *seid == owner.seid && own.any(|known| (known.0, known.1) == given && now < known.2)
            })
        }

        fn name(&self, owner: Owner, end: u8, now: u64) -> Option<u8> {
            let (seid, own) = self.sessions.get(&owner.session.0)?;
            let last = own.iter().rev().find(|known| known.0 == end)?;
            (*seid == owner.seid && now < last.2).then_some(last.1)
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Without ageing, which takes away what no longer counts, and with it.
        #[test]
        fn they_are_what_a_slow_model_says(steps in prop::collection::vec(any_step(), 0..120)) {
            let (mut names, mut hosts) = (AddressNames::new(128, 4, SESSIONS), HostPool::new(64));
            let (mut model, mut now) = (Model::default(), 1);
            for step in steps {
                match step {
                    Step::Bind(own, end, host, lifetime) => {
                        let own = owner(own);
                        let given = (address(end), &name(host));
                        let bound = names.bind(own, given, lifetime, &mut hosts, at(now));
                        prop_assert_eq!(bound, Ok(()));
                        model.bind(own, (end, host), now + u64::from(lifetime), 4);
                    }
                    Step::Forget(own) => {
                        names.forget(owner(own).session);
                        model.sessions.remove(&owner(own).session.0);
                    }
                    Step::Wait(seconds) => now += seconds,
                }
                for (own, end) in (0..6).flat_map(|own| (0..4).map(move |end| (own, end))) {
                    let found = names.name(owner(own), address(end), at(now));
                    let found = found.and_then(|place| hosts.at(place)).map(|found| found.host);
                    let expected = model.name(owner(own), end, now).map(name);
                    // One that has ended may hide one of the same address that has not.
                    prop_assert_eq!(found, expected);
                    for host in 0..3 {
                        let has = names.has(owner(own), (address(end), &name(host)), at(now));
                        prop_assert_eq!(has, model.has(owner(own), (end, host), now));
                    }
                }
            }
            (0..SESSIONS as u32).for_each(|session| names.forget(SessionIndex(session)));
            (0..200).for_each(|second| names.age(&mut hosts, at(now + second)));
            prop_assert_eq!((names.len(), names.ends.len(), hosts.in_use()), (0, 0, 0));
        }

        /// With ageing no binding that counts goes.
        #[test]
        fn ageing_takes_only_what_has_ended(steps in prop::collection::vec((0..6u64, 0..4u8, 1..50u32, 0..9u64), 0..120)) {
            let (mut names, mut hosts) = (AddressNames::new(64, 16, SESSIONS), HostPool::new(64));
            let (mut model, mut now) = (Model::default(), 1);
            for (own, end, lifetime, wait) in steps {
                now += wait;
                names.age(&mut hosts, at(now));
                let own = owner(own);
                let given = (address(end), &name(0));
                if names.bind(own, given, lifetime, &mut hosts, at(now)).is_ok() {
                    model.bind(own, (end, 0), now + u64::from(lifetime), 16);
                }
                for (own, end) in (0..6).flat_map(|own| (0..4).map(move |end| (own, end))) {
                    let found = names.name(owner(own), address(end), at(now)).is_some();
                    prop_assert_eq!(found, model.name(owner(own), end, now).is_some());
                }
            }
        }
    }
}
