//! How many Echo Requests of GTP-U, and pings of our addresses, are answered: each costs a packet, and their sources
//! are not authenticated.
//!
//! A peer that sessions send to has a rate of its own, which no other source can use up: paths in use stay supervised
//! whatever else arrives. (It is identified by its address alone, which nodes on its network may forge.) All other
//! sources have a rate each, and one together. Everything is made at the start; the worker owns the state.

use std::hash::BuildHasher;
use std::net::IpAddr;

use flow::{KeyedTokenBuckets, Nanos, TokenLevel, TokenRate};

use crate::PacketRates;
use crate::egress::path_mtus::{Path, key};
use crate::sessions::fixed_map::FixedMap;

/// Paths in use that have a rate of their own; peers of more are as other sources.
const PATHS: usize = 16_384;

/// A rate for each source, and one for all of them together.
pub(crate) struct SourceRateLimit {
    buckets: KeyedTokenBuckets,
    hasher: foldhash::quality::RandomState,
}

impl SourceRateLimit {
    /// Sources whose hashes differ by a multiple of it share a bucket.
    const BUCKETS: usize = 4_096;

    /// Requests a second in all, at least 1, and of one source.
    pub fn new(PacketRates { all, each }: PacketRates) -> Self {
        Self {
            buckets: KeyedTokenBuckets::new(rate(all), rate(each), Self::BUCKETS),
            hasher: foldhash::quality::RandomState::default(),
        }
    }

    /// Takes one for `source` at `now`, if there is one. All of an IPv6 /64 is one source.
    pub fn take(&mut self, source: IpAddr, now: Nanos) -> bool {
        let name: u128 = match source {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits() >> 64,
        };
        self.buckets.take(self.hasher.hash_one(name) as usize, now)
    }
}

/// `rate` a second, 1 at least.
fn rate(rate: u32) -> TokenRate {
    TokenRate::per_second(rate.max(1))
}

/// The rates of GTP-U echo.
pub(crate) struct EchoRateLimit {
    each: TokenRate,
    /// The index in `levels` of each path in use.
    paths: FixedMap<8>,
    levels: Box<[TokenLevel]>,
    /// Places of `levels` that are free.
    free: Vec<u32>,
    others: SourceRateLimit,
}

impl EchoRateLimit {
    /// No path is in use yet. The rate a second of sources at the end of no path, and that of one source.
    pub fn new(PacketRates { all: others, each }: PacketRates) -> Self {
        Self {
            each: rate(each),
            paths: FixedMap::new(PATHS),
            levels: vec![TokenLevel::default(); PATHS].into(),
            free: (0..PATHS as u32).rev().collect(),
            others: SourceRateLimit::new(PacketRates { all: others, each }),
        }
    }

    /// A path came into use, or went out of use.
    pub fn set(&mut self, path: Path, is_used: bool) {
        let key = key(path);
        match (self.paths.at(&key), is_used) {
            (None, true) => {
                let Some(index) = self.free.pop() else { return };
                self.levels[index as usize] = TokenLevel::default();
                if self.paths.insert(key, index).is_err() {
                    self.free.push(index);
                }
            }
            (Some(index), false) => {
                self.paths.remove(&key);
                self.free.push(index);
            }
            _ => {}
        }
    }

    /// Takes an answer to a peer at `now`, if there is one.
    pub fn take(&mut self, path: Path, now: Nanos) -> bool {
        match self.paths.at(&key(path)) {
            Some(index) => self.levels[index as usize].take(self.each, now),
            None => self.others.take(path.peer, now),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn path(peer: u32) -> Path {
        Path {
            local: [10, 0, 3, 1].into(),
            peer: peer.to_be_bytes().into(),
        }
    }

    #[test]
    fn a_source_has_its_rate_and_all_of_them_have_one() {
        let mut echoes = EchoRateLimit::new(PacketRates::new(100, 10));
        let now = Nanos::from_secs(1);
        assert_eq!((0..1_000).filter(|_| echoes.take(path(1), now)).count(), 10);
        let others = (2..100_000).filter(|source| echoes.take(path(*source), now));
        assert_eq!(others.count(), 90);
        let later = now + Duration::from_secs(1);
        assert_eq!((0..1_000).filter(|_| echoes.take(path(1), later)).count(), 10);
    }

    #[test]
    fn no_flood_takes_the_turn_of_a_path_in_use() {
        let mut echoes = EchoRateLimit::new(PacketRates::new(100, 10));
        echoes.set(path(1), true);
        // Seven hours of 35,000 a second would do the same: each second begins with the flood.
        for second in 1..=10 {
            let now = Nanos::from_secs(second);
            let flood = (2..35_000).filter(|source| echoes.take(path(source * 16 + 3), now));
            assert_eq!(flood.count(), 100);
            assert!(echoes.take(path(1), now));
        }
        echoes.set(path(1), false);
        let now = Nanos::from_secs(11);
        (2..35_000).for_each(|source| _ = echoes.take(path(source), now));
        assert!(!echoes.take(path(1), now), "no session sends there any more");
    }

    #[test]
    fn paths_beyond_the_room_are_as_other_sources_and_places_come_back() {
        let mut echoes = EchoRateLimit::new(PacketRates::new(1, 1));
        let most = PATHS as u32;
        (0..=most).for_each(|peer| echoes.set(path(peer), true));
        let now = Nanos::from_secs(1);
        assert!((0..most).all(|peer| echoes.take(path(peer), now)));
        assert!(echoes.take(path(most), now) && !echoes.take(path(most + 1), now));
        (0..=most).for_each(|peer| echoes.set(path(peer), false));
        echoes.set(path(7), true);
        echoes.set(path(7), true);
        assert_eq!((echoes.paths.len(), echoes.free.len()), (1, PATHS - 1));
    }

    #[test]
    fn a_prefix_of_ipv6_is_one_source() {
        let mut pings = SourceRateLimit::new(PacketRates::new(1_000, 5));
        let source = |subnet: u128, host: u128| {
            IpAddr::from((0x2001_0db8_u128 << 96 | subnet << 64 | host).to_be_bytes())
        };
        let now = Nanos::from_secs(1);
        assert_eq!(
            (0..500).filter(|host| pings.take(source(1, *host), now)).count(),
            5
        );
        assert!(pings.take(source(2, 1), now));
    }
}
