//! Deficit round robin over sessions, without queues: the order in which packets get the budgets of the slow path.
//!
//! Each class of work has a *round*, and each session the number of the round that it is served in next. The packets of
//! a session that are in one burst ask for its next rounds, one each, none earlier than the worker's; the budget goes
//! to the earliest rounds asked for, in order of arrival. A session that was refused keeps its round, one that was
//! served advances: so of one burst the sessions with most packets get least, and from burst to burst those without a
//! decision yet come first. The worker's round advances to the last one served, so that an idle session saves nothing.
//! That is deficit round robin with a quantum of one decision, in which the queues are what the burst holds: over
//! budget a packet is dropped, not queued. Constant work per packet; the state is in the sessions' slots, so no session
//! can use up another's.
//!
//! A busy worker, whose slow path has no more than its [`budget`](crate::slow_path::budget) of the time, has none to
//! find the session of a packet that it then refuses. There a [`HashedRoundRobin`] comes first: the same rounds over
//! what a packet says of its UE (its tunnel, or where it goes) in place of sessions, and over the classes evenly. Two
//! UEs may have the same place in it; the hash is keyed, so that which ones is not known outside.

use flow::Seed;
use foldhash::quality::FixedState;
use rules::classifier::Side;
use std::hash::BuildHasher;
use std::net::IpAddr;

use crate::{BURST, Budgets};

/// A class of work with a budget of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// First packets that come in tunnels.
    NewUplink,
    /// First packets that come as plain IP.
    NewDownlink,
    /// Packets of flows whose rules changed.
    Stale,
}

const CLASSES: usize = 3;
/// The furthest round, from the worker's, that a burst can ask for: one session's packets alone.
const AHEAD: usize = BURST;

/// The round that a session is served in next, by class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundRobinState([u32; CLASSES]);

/// What one packet asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub class: Class,
    /// Rounds from the worker's.
    ahead: u8,
}

impl Turn {
    /// Of no packet.
    pub const NONE: Self = Self {
        class: Class::Stale,
        ahead: 0,
    };
}

/// One class's budget and round, and what the burst asks of them.
#[derive(Clone, Debug)]
struct Round {
    budget: u16,
    now: u32,
    asked: [u8; AHEAD + 1],
    total: u16,
    /// Rounds before this one are served in full.
    last: u8,
    /// Places left in that one.
    left: u16,
    /// The furthest round served in this burst.
    reached: u8,
}

/// The rounds of all classes.
pub(crate) struct DeficitRoundRobin([Round; CLASSES]);

impl DeficitRoundRobin {
    pub fn new(budgets: Budgets) -> Self {
        let Budgets {
            new_uplink,
            new_downlink,
            stale,
        } = budgets;
        Self([new_uplink, new_downlink, stale].map(|budget| Round {
            budget,
            now: 0,
            asked: [0; AHEAD + 1],
            total: 0,
            last: 0,
            left: 0,
            reached: 0,
        }))
    }

    /// A packet of the burst asks for its session's next round.
    #[inline]
    pub fn ask(&mut self, class: Class, state: &mut RoundRobinState) -> Turn {
        let (round, next) = (&mut self.0[class as usize], &mut state.0[class as usize]);
        let ahead = next.wrapping_sub(round.now);
        // Further ahead than a burst can get is long ago.
        let ahead = if ahead as usize > AHEAD { 0 } else { ahead };
        *next = round.now.wrapping_add(ahead).wrapping_add(1);
        round.asked[ahead as usize % (AHEAD + 1)] += 1;
        round.total += 1;
        Turn {
            class,
            ahead: ahead as u8,
        }
    }

    /// All packets of the burst have asked.
    pub fn close(&mut self) {
        self.0.iter_mut().for_each(Round::close);
    }

    /// Whether a packet gets a place. Asked once for each turn, in order of arrival; one that gets none gives its
    /// session's round back.
    #[inline]
    pub fn admits(&mut self, turn: Turn, state: &mut RoundRobinState) -> bool {
        let round = &mut self.0[turn.class as usize];
        let admitted = turn.ahead < round.last || turn.ahead == round.last && round.left > 0;
        if admitted {
            round.left -= u16::from(turn.ahead == round.last);
            round.reached = round.reached.max(turn.ahead);
        } else {
            let (next, refused) = (&mut state.0[turn.class as usize], turn.ahead.into());
            if next.wrapping_sub(round.now) > refused {
                *next = round.now.wrapping_add(refused);
            }
        }
        admitted
    }

    /// Divides `places` over all classes: evenly, and what one does not ask for to the others.
    /// Odd places go by `turn`, so that over six of them no class has more than another.
    fn deal(&mut self, mut places: u16, turn: u16) {
        let mut order = [0, 1, 2];
        order.sort_unstable_by_key(|&class: &usize| self.0[class].total);
        for (class, others) in order.into_iter().zip((0..CLASSES as u16).rev()) {
            let round = &mut self.0[class];
            let even = (places + turn % (others + 1)) / (others + 1);
            round.budget = even.min(round.total);
            places -= round.budget;
        }
    }

    /// The burst is through.
    pub fn finish(&mut self) {
        for round in &mut self.0 {
            if round.total > 0 {
                round.now = round.now.wrapping_add(round.reached.into());
                (round.asked, round.total, round.reached) = ([0; AHEAD + 1], 0, 0);
            }
        }
    }
}

/// The packets of a burst whose sessions are looked up, when the worker is busy: round robin over hashes of UEs.
pub(crate) struct HashedRoundRobin {
    rounds: DeficitRoundRobin,
    state: Box<[RoundRobinState; PLACES]>,
    hasher: FixedState,
    /// The class that gets the odd place: 0 to 5, in turn.
    turn: u16,
}

/// Places for UEs: few enough to stay in the nearest cache.
const PLACES: usize = 1024;

impl HashedRoundRobin {
    pub fn new(seed: Seed) -> Self {
        Self {
            rounds: DeficitRoundRobin::new(Budgets::all(0)),
            state: Box::new([RoundRobinState::default(); PLACES]),
            hasher: FixedState::with_seed(seed.0[0] ^ seed.0[1].rotate_left(32)),
            turn: 0,
        }
    }

    /// A packet of the burst asks; the answer is for [`admits`](Self::admits).
    #[inline]
    pub fn ask(&mut self, class: Class, side: Side, destination: Option<IpAddr>) -> (Turn, u16) {
        let hash = match side {
            Side::Tunnel { local, teid, .. } => self.hasher.hash_one((local.0, teid.0)),
            Side::Plain { vrf } => self.hasher.hash_one((vrf.0, ue_bits(destination))),
        };
        let place = hash as u16 % PLACES as u16;
        let turn = self.rounds.ask(class, &mut self.state[usize::from(place)]);
        (turn, place)
    }

    /// All packets have asked: `places` of them are admitted.
    pub fn close(&mut self, places: usize) {
        self.turn = (self.turn + 1) % 6;
        self.rounds.deal(places.min(BURST) as u16, self.turn);
        self.rounds.close();
    }

    /// Whether a packet gets in. All are to be asked about, in their order.
    #[inline]
    pub fn admits(&mut self, (turn, place): (Turn, u16)) -> bool {
        self.rounds
            .admits(turn, &mut self.state[usize::from(place) % PLACES])
    }

    /// The burst is through.
    pub fn finish(&mut self) {
        self.rounds.finish();
    }
}

/// An IPv4 address, or the half of an IPv6 one that identifies the UE.
#[inline]
fn ue_bits(address: Option<IpAddr>) -> u64 {
    match address {
        None => 0,
        Some(IpAddr::V4(address)) => address.to_bits().into(),
        Some(IpAddr::V6(address)) => (address.to_bits() >> 64) as u64,
    }
}

impl Round {
    fn close(&mut self) {
        if self.total <= self.budget {
            (self.last, self.left) = (u8::MAX, 0);
            return;
        }
        self.left = self.budget;
        for (ahead, &asked) in self.asked.iter().enumerate() {
            self.last = ahead as u8;
            match self.left.checked_sub(asked.into()) {
                Some(left) => self.left = left,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sessions of the packets that get a place.
    fn burst(
        rounds: &mut DeficitRoundRobin,
        sessions: &mut [RoundRobinState],
        packets: &[usize],
    ) -> Vec<usize> {
        let class = Class::NewUplink;
        let turns: Vec<_> = packets
            .iter()
            .map(|&who| rounds.ask(class, &mut sessions[who]))
            .collect();
        rounds.close();
        let both = packets.iter().zip(turns);
        let state = both
            .filter(|(who, turn)| rounds.admits(*turn, &mut sessions[**who]))
            .map(|(who, _)| *who)
            .collect();
        rounds.finish();
        state
    }

    #[test]
    fn the_largest_sender_gets_what_the_others_leave() {
        let mut rounds = DeficitRoundRobin::new(Budgets::all(8));
        let mut sessions = [RoundRobinState::default(); 4];
        for _ in 0..100 {
            let mut packets = vec![0; 59];
            packets.extend([1, 2, 2, 3, 3]);
            let state = burst(&mut rounds, &mut sessions, &packets);
            let of = |who: usize| state.iter().filter(|&&other| other == who).count();
            assert_eq!([of(0), of(1), of(2), of(3)], [3, 1, 2, 2]);
        }
        assert_eq!(burst(&mut rounds, &mut sessions, &[0; 64]).len(), 8);
    }

    #[test]
    fn with_more_sessions_than_places_all_have_their_turn() {
        let mut rounds = DeficitRoundRobin::new(Budgets::all(4));
        let mut sessions = [RoundRobinState::default(); 21];
        let packets: Vec<usize> = (0..20).chain([20; 44]).collect();
        let mut counts = [0; 21];
        for _ in 0..21 * 10 {
            burst(&mut rounds, &mut sessions, &packets)
                .into_iter()
                .for_each(|who| counts[who] += 1);
        }
        assert!(counts.iter().all(|count| (39..=41).contains(count)), "{counts:?}");
    }

    /// The UEs of the packets that the sieve lets in.
    fn sift(sieve: &mut HashedRoundRobin, packets: &[(Class, u32)], places: usize) -> Vec<(Class, u32)> {
        let side = |who: u32| Side::Tunnel {
            local: flow::LocalId(1),
            teid: packet::Teid(who),
            qfi: None,
        };
        let asked: Vec<_> = packets
            .iter()
            .map(|&(class, who)| sieve.ask(class, side(who), None))
            .collect();
        sieve.close(places);
        let both = packets.iter().zip(asked);
        let passed = both
            .filter(|(_, turn)| sieve.admits(*turn))
            .map(|(packet, _)| *packet)
            .collect();
        sieve.finish();
        passed
    }

    #[test]
    fn a_flood_of_one_ue_leaves_the_others_their_turns_in_the_sieve() {
        let mut sieve = HashedRoundRobin::new(Seed([7, 9]));
        let mut counts = [0; 21];
        for burst in 0..1000 {
            let mut packets = vec![(Class::NewUplink, 20); 60];
            packets.extend((0..4).map(|n| (Class::NewUplink, (burst * 4 + n) % 20)));
            let passed = sift(&mut sieve, &packets, 4);
            assert_eq!(passed.len(), 4);
            passed.into_iter().for_each(|(_, who)| counts[who as usize] += 1);
        }
        // 4,000 places for 21 who want more.
        assert!(
            counts.iter().all(|count| (180..=200).contains(count)),
            "{counts:?}"
        );
    }

    #[test]
    fn no_class_starves_another_in_the_sieve() {
        for places in [1, 2, 3, 8] {
            let mut sieve = HashedRoundRobin::new(Seed([7, 9]));
            let mut counts = [0; CLASSES];
            for burst in 0..3000 {
                let many = (0..40).map(|n| (Class::NewUplink, burst * 40 + n));
                let packets: Vec<_> = many
                    .chain((0..12).map(|n| (Class::NewDownlink, n)))
                    .chain((0..12).map(|n| (Class::Stale, n)))
                    .collect();
                let passed = sift(&mut sieve, &packets, places);
                assert_eq!(passed.len(), places);
                passed
                    .into_iter()
                    .for_each(|(class, _)| counts[class as usize] += 1);
            }
            assert!(
                counts.iter().all(|&count| count >= 990 * places),
                "{places}: {counts:?}"
            );
        }
    }

    proptest! {
        /// Within a burst no session has less than another and could have had more; the budget is used up.
        #[test]
        fn shares_of_a_burst_are_fair(
            budget in 0u16..70, rounds_before in 0u32..3, packets in prop::collection::vec(0usize..9, 1..=BURST),
        ) {
            let mut rounds = DeficitRoundRobin::new(Budgets::all(budget));
            let mut sessions = [RoundRobinState::default(); 9];
            for _ in 0..rounds_before {
                burst(&mut rounds, &mut sessions, &packets);
            }
            let state = burst(&mut rounds, &mut sessions, &packets);
            prop_assert_eq!(state.len(), packets.len().min(budget.into()));
            let of = |all: &[usize], who| all.iter().filter(|&&other| other == who).count();
            for a in 0..9 {
                for b in 0..9 {
                    let wanted_more = of(&packets, a) > of(&state, a);
                    prop_assert!(!wanted_more || of(&state, a) + 2 >= of(&state, b));
                }
            }
        }
    }
}
