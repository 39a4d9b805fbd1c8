//! Which session holds which tunnel: the TEIDs of every local GTP-U address.
//!
//! Owned by control. A TEID that the user plane picks is random in the 23 bits that its bucket leaves free, never 0,
//! unused at every address that it is to be answered with, and not one that was released lately: a peer may continue to
//! send to a released TEID for a while, and those packets must not meet another UE's session.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::time::Duration;

use flow::bucket::adjust_teid;
use flow::{Bucket, LocalId, Nanos, SessionIndex};
use packet::Teid;

use crate::bucket_order::in_bucket_order;
use crate::compact_list::Compact;
use crate::keyed_map::{Keyed, keyed};
use crate::random::Random;

/// A tunnel endpoint: a local address and a TEID at it.
pub type Tunnel = (LocalId, Teid);

impl Compact for Tunnel {
    type Short = Tunnel;

    fn shortened(&self) -> Option<Tunnel> {
        Some(*self)
    }

    fn of_short(short: Tunnel) -> Tunnel {
        short
    }
}

/// Tries before a draw gives up. A bucket has 2^23 TEIDs, so this fails only when nearly all are in use.
const DRAWS: usize = 64;

/// Released TEIDs remembered at most; beyond it the oldest is forgotten early.
const RESTING_MAX: usize = 1 << 20;

/// Who holds a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Session(SessionIndex),
    /// No session, but one did until lately: not drawn before the rest with this number is over. Numbers come again
    /// after 2^32 rests, of which 2^20 are remembered.
    Resting(u32),
}

const _: () = assert!(size_of::<Holder>() <= 8, "there are very many");

/// A rest of a released tunnel.
#[derive(Clone, Copy, Debug)]
struct Rest {
    until: Nanos,
    tunnel: Tunnel,
    number: u32,
}

/// The tunnels of all sessions.
#[derive(Debug)]
pub struct Tunnels {
    holders: Keyed<Tunnel, Holder>,
    resting: VecDeque<Rest>,
    last_rest: u32,
    held: usize,
    quarantine: Duration,
    random: Random,
}

/// No TEID in the wanted bucket is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTeid;

impl Tunnels {
    /// No tunnels. A released TEID is not drawn again for `quarantine`.
    pub fn new(quarantine: Duration, mut random: Random) -> Tunnels {
        let holders = keyed(random.next_u64());
        Tunnels {
            holders,
            resting: VecDeque::new(),
            last_rest: 0,
            held: 0,
            quarantine,
            random,
        }
    }

    /// Draws one TEID that is free at all of `locals`, in `bucket` if one is wanted, and gives it to `session`.
    ///
    /// # Errors
    /// [`NoTeid`] when none was found.
    pub fn draw(
        &mut self,
        locals: &[LocalId],
        bucket: Option<Bucket>,
        session: SessionIndex,
    ) -> Result<Teid, NoTeid> {
        for _ in 0..DRAWS {
            let random = self.random.next_u32();
            let teid = Teid(bucket.map_or(random, |bucket| adjust_teid(random, bucket)));
            if teid.0 != 0
                && locals
                    .iter()
                    .all(|local| !self.holders.contains_key(&(*local, teid)))
            {
                locals.iter().for_each(|local| self.give((*local, teid), session));
                return Ok(teid);
            }
        }
        Err(NoTeid)
    }

    /// Gives a tunnel to `session`, also if another holds it.
    pub fn give(&mut self, tunnel: Tunnel, session: SessionIndex) {
        let before = self.holders.insert(tunnel, Holder::Session(session));
        self.held += usize::from(!matches!(before, Some(Holder::Session(_))));
    }

    /// Gives those of these tunnels to `session` that no session holds.
    pub fn give_free(&mut self, tunnels: &[Tunnel], session: SessionIndex) {
        self.holders.reserve(tunnels.len());
        let hasher = self.holders.hasher();
        let ordered = in_bucket_order(tunnels, self.holders.capacity(), |tunnel| hasher.hash_one(tunnel));
        for tunnel in ordered {
            if self.holder(tunnel).is_none() {
                self.give(tunnel, session);
            }
        }
    }

    /// Takes a tunnel from `session`, if it is still the one that holds it; the tunnel rests from now on. Answers
    /// whether it was.
    pub fn release(&mut self, now: Nanos, tunnel: Tunnel, session: SessionIndex) -> bool {
        self.rest_over(now);
        let is_holder = self.holder(tunnel) == Some(session);
        if is_holder {
            let until = now + self.quarantine;
            self.last_rest = self.last_rest.wrapping_add(1);
            let number = self.last_rest;
            self.holders.insert(tunnel, Holder::Resting(number));
            self.resting.push_back(Rest {
                until,
                tunnel,
                number,
            });
            self.held -= 1;
        }
        is_holder
    }

    /// Takes a tunnel from `session` that was drawn or given and never came to life: it need not rest.
    pub fn undo(&mut self, tunnel: Tunnel, session: SessionIndex) {
        if self.holder(tunnel) == Some(session) {
            self.holders.remove(&tunnel);
            self.held -= 1;
        }
    }

    /// The session that holds `tunnel`.
    pub fn holder(&self, tunnel: Tunnel) -> Option<SessionIndex> {
        match self.holders.get(&tunnel) {
            Some(Holder::Session(session)) => Some(*session),
            Some(Holder::Resting(_)) | None => None,
        }
    }

    /// How many tunnels sessions hold.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Ends the rest of tunnels whose time is over, and of the oldest when there are too many.
    fn rest_over(&mut self, now: Nanos) {
        while let Some(rest) = self.resting.front().copied() {
            if rest.until > now && self.resting.len() < RESTING_MAX {
                return;
            }
            self.resting.pop_front();
            if self.holders.get(&rest.tunnel) == Some(&Holder::Resting(rest.number)) {
                self.holders.remove(&rest.tunnel);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow::bucket::of_teid;
    use proptest::prelude::*;

    const N3: LocalId = LocalId(0);
    const N3_V6: LocalId = LocalId(1);
    const A: SessionIndex = SessionIndex(1);
    const B: SessionIndex = SessionIndex(2);

    fn tunnels() -> Tunnels {
        Tunnels::new(Duration::from_secs(10), Random::from_number(1))
    }

    #[test]
    fn a_teid_is_drawn_for_all_addresses_at_once() {
        let mut tunnels = tunnels();
        let teid = tunnels.draw(&[N3, N3_V6], None, A).unwrap();
        assert_eq!(tunnels.holder((N3, teid)), Some(A));
        assert_eq!(tunnels.holder((N3_V6, teid)), Some(A));
        assert_eq!(tunnels.held(), 2);
    }

    #[test]
    fn another_address_is_another_tunnel() {
        let mut tunnels = tunnels();
        let teid = tunnels.draw(&[N3], None, A).unwrap();
        tunnels.give((N3_V6, teid), B);
        assert_eq!(
            (tunnels.holder((N3, teid)), tunnels.holder((N3_V6, teid))),
            (Some(A), Some(B))
        );
        assert_eq!(tunnels.held(), 2);
    }

    #[test]
    fn a_released_teid_rests_before_it_is_drawn_again_yet_a_peer_may_choose_it() {
        let mut tunnels = tunnels();
        tunnels.give((N3, Teid(7)), A);
        tunnels.release(Nanos::from_secs(1), (N3, Teid(7)), A);
        assert_eq!((tunnels.holder((N3, Teid(7))), tunnels.held()), (None, 0));
        assert!(tunnels.holders.contains_key(&(N3, Teid(7))), "resting");
        tunnels.give((N3, Teid(7)), B);
        tunnels.release(Nanos::from_secs(5), (N3, Teid(7)), B);
        tunnels.release(Nanos::from_secs(12), (N3, Teid(7)), B);
        assert!(
            tunnels.holders.contains_key(&(N3, Teid(7))),
            "rests until 15, whatever the first rest was"
        );
        tunnels.release(Nanos::from_secs(15), (N3, Teid(8)), B);
        assert!(!tunnels.holders.contains_key(&(N3, Teid(7))));
        assert!(tunnels.resting.is_empty());
    }

    #[test]
    fn only_the_holder_releases() {
        let mut tunnels = tunnels();
        tunnels.give((N3, Teid(7)), A);
        tunnels.release(Nanos::ZERO, (N3, Teid(7)), B);
        tunnels.undo((N3, Teid(7)), B);
        assert_eq!(tunnels.holder((N3, Teid(7))), Some(A));
        tunnels.give((N3, Teid(7)), B);
        tunnels.undo((N3, Teid(7)), A);
        assert_eq!((tunnels.holder((N3, Teid(7))), tunnels.held()), (Some(B), 1));
        tunnels.undo((N3, Teid(7)), B);
        assert_eq!((tunnels.holders.len(), tunnels.held()), (0, 0));
    }

    proptest! {
        #[test]
        fn drawn_teids_are_in_the_bucket_distinct_and_never_zero(seed: u64, bucket in 0u16..512) {
            let bucket = Bucket::new(bucket).unwrap();
            let mut tunnels = Tunnels::new(Duration::ZERO, Random::from_number(seed));
            let mut seen = std::collections::BTreeSet::new();
            for _ in 0..64 {
                let teid = tunnels.draw(&[N3], Some(bucket), A).unwrap();
                prop_assert!(teid.0 != 0 && of_teid(teid.0) == bucket && seen.insert(teid));
            }
        }
    }
}
