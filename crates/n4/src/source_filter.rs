//! Which senders are served on N4, and which have shown that they receive what is sent to their address.
//!
//! Where the configuration has the prefixes of peers ([`Config::peers`](crate::Config::peers)), datagrams from
//! elsewhere are discarded, and peers count as verified. Where it has none, source addresses can be forged: a source
//! without an association is served at a rate ([`Config::unknown_rate`](crate::Config::unknown_rate)), and unverified
//! peers get sessions, addresses and associations only until a small part of all is in use
//! ([`Config::unverified_percent`](crate::Config::unverified_percent)). Beyond that a peer must have responded to a
//! heartbeat of ours, which shows that it receives what is sent to the address that it sends from (TS 29.244 §6.2.2:
//! every node responds to heartbeats). The heartbeat is sent when that matters, and the request is discarded: a live
//! peer retransmits it (§6.4).
//!
//! The sequence number of a heartbeat to a source without an association is a keyed hash of its address and of the
//! time, so that no state is kept.

use flow::{Nanos, TokenLevel, TokenRate};
use pfcp::Frames;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::BuildHasher;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::bundle::FOLLOW_ON;
use crate::config::Config;
use crate::event_log::DiscardReason;

/// Token buckets that sources share by a hash of their address.
const BUCKETS: usize = 256;
/// Addresses that are remembered to have answered.
const MOST_VERIFIED: usize = 1_024;
/// For how long they are.
const VERIFIED_FOR: Duration = Duration::from_secs(60);
/// For how long, at least, a question may be answered.
const ASKED_FOR: Duration = Duration::from_secs(16);
/// What unverified peers may have of anything, however small a part of it that is.
const LEAST_SHARE: usize = 8;

/// Of `most`, how many unverified peers may have.
pub(crate) fn share_of(most: usize, percent: u8) -> usize {
    let part = (most as u128 * u128::from(percent.min(100)) / 100) as usize;
    part.max(LEAST_SHARE).min(most)
}

/// Half of that, but for what unverified peers may have all of.
pub(crate) fn half_share_of(most: usize, percent: u8) -> usize {
    let share = share_of(most, percent);
    if share < most { share / 2 } else { most }
}

/// What is known of sources.
#[derive(Debug)]
pub(crate) struct SourceFilter {
    hasher: foldhash::quality::SeedableRandomState,
    levels: Box<[TokenLevel]>,
    /// Addresses without an association that answered a heartbeat, and until when that counts.
    verified: BTreeMap<IpAddr, Nanos>,
    /// The addresses that associations were set up from or have named.
    known: BTreeSet<IpAddr>,
}

impl SourceFilter {
    pub(crate) fn new(seed: u64) -> SourceFilter {
        SourceFilter {
            hasher: foldhash::quality::SeedableRandomState::with_seed(
                seed,
                foldhash::SharedSeed::global_fixed(),
            ),
            levels: vec![TokenLevel::default(); BUCKETS].into(),
            verified: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// The addresses of associations are these from now on.
    pub(crate) fn know(&mut self, addresses: BTreeSet<IpAddr>) {
        self.known = addresses;
    }

    /// Whether `messages` from `address` are within what a source may send, `rate` a second and two seconds' worth
    /// at once. A host has all of a prefix of 64 bits.
    fn takes(&mut self, now: Nanos, address: IpAddr, rate: u32, messages: usize) -> bool {
        let place = match address {
            IpAddr::V4(address) => self.hasher.hash_one(address),
            IpAddr::V6(address) => self.hasher.hash_one(address.to_bits() >> 64),
        };
        let rate = TokenRate::per_second_with_burst(rate.max(1), rate.saturating_mul(2));
        let level = self.levels.get_mut(place as usize % BUCKETS);
        level.is_none_or(|level| level.take_many(rate, now, messages))
    }

    /// The number of a Heartbeat Request that asks `address` in this period of time.
    fn cookie(&self, address: IpAddr, period: u64) -> u32 {
        (self.hasher.hash_one((address, period)) & 0x00ff_ffff) as u32
    }

    /// An answer to a heartbeat with this number has come that no association waits for.
    fn answered(&mut self, now: Nanos, address: IpAddr, sequence: u32) -> bool {
        let period = period(now);
        let periods = [Some(period), period.checked_sub(1)].into_iter().flatten();
        let is_ours = periods
            .into_iter()
            .any(|period| self.cookie(address, period) == sequence);
        if is_ours {
            self.verified.retain(|_, until| *until > now);
            if self.verified.len() >= MOST_VERIFIED {
                self.verified.pop_first();
            }
            self.verified.insert(address, now + VERIFIED_FOR);
        }
        is_ours
    }

    fn has_answered(&self, now: Nanos, address: IpAddr) -> bool {
        self.verified.get(&address).is_some_and(|until| *until > now)
    }

    /// Whether a datagram from `from` is taken. Each message of a bundle (TS 29.244 §6.5) counts against the rate of
    /// its source.
    ///
    /// # Errors
    /// Why it is discarded.
    pub(crate) fn check(
        &mut self,
        config: &Config,
        now: Nanos,
        from: SocketAddr,
        datagram: &[u8],
    ) -> Result<(), DiscardReason> {
        let address = from.ip().to_canonical();
        if !config.peers.is_empty() {
            let mut peers = config.peers.iter();
            let is_peer = peers.any(|peers| peers.prefix.contains(address));
            return is_peer.then_some(()).ok_or(DiscardReason::OutsidePeers);
        }
        let rate = config.unknown_rate;
        if rate == 0 || config.any_source || self.is_known(config, now, address) {
            return Ok(());
        }
        // The others of a bundle are counted only where there is room for its first.
        let takes = self.takes(now, address, rate, 1)
            && self.takes(now, address, rate, messages_behind_first(datagram));
        takes.then_some(()).ok_or(DiscardReason::UnknownSource)
    }

    /// Whether a source has an association, is one that we set up associations with, or answered a heartbeat.
    fn is_known(&self, config: &Config, now: Nanos, address: IpAddr) -> bool {
        let mut smfs = config.smfs.iter();
        self.known.contains(&address)
            || smfs.any(|smf| smf.address == address)
            || self.has_answered(now, address)
    }

    /// Whether an association that is set up from `address` begins verified: that of a peer which we ask for one does.
    pub(crate) fn begins_verified(&self, config: &Config, now: Nanos, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let mut smfs = config.smfs.iter();
        !wants_verification(config)
            || smfs.any(|smf| smf.address == address)
            || self.has_answered(now, address)
    }

    /// The sequence number of a Heartbeat Request to a source without an association.
    pub(crate) fn request_number(&self, now: Nanos, address: IpAddr) -> u32 {
        self.cookie(address.to_canonical(), period(now))
    }

    /// A Heartbeat Response has come that no request of an association waits for. Gives whether it was requested.
    pub(crate) fn verify(&mut self, config: &Config, now: Nanos, from: SocketAddr, sequence: u32) -> bool {
        wants_verification(config) && self.answered(now, from.ip().to_canonical(), sequence)
    }
}

/// How many messages a datagram has beside the first.
fn messages_behind_first(datagram: &[u8]) -> usize {
    let is_bundle = datagram.first().is_some_and(|flags| flags & FOLLOW_ON != 0);
    if is_bundle {
        Frames::new(datagram).skip(1).count()
    } else {
        0
    }
}

fn period(now: Nanos) -> u64 {
    now.0 / ASKED_FOR.as_nanos() as u64
}

/// Whether only the response to a heartbeat shows that a sender receives what is sent to its address.
pub(crate) fn wants_verification(config: &Config) -> bool {
    config.peers.is_empty()
        && !config.any_source
        && config.heartbeat_interval.is_some()
        && config.unverified_percent < 100
}

/// Whether a peer that wants more of what is scarce has shown that it receives what is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verification {
    /// It has, or need not.
    Done,
    /// It is being asked.
    Awaited,
    /// It does not answer.
    Missing,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_part_is_for_unknown_sources() {
        assert_eq!(share_of(10_000, 10), 1_000);
        assert_eq!(share_of(50, 10), LEAST_SHARE);
        assert_eq!(share_of(4, 10), 4);
        assert_eq!(share_of(usize::MAX, 100), usize::MAX);
    }

    #[test]
    fn a_source_sends_at_its_rate_and_does_not_take_others_theirs() {
        let mut sources = SourceFilter::new(7);
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let taken = (0..10_000).filter(|millisecond| {
            let now = Nanos::from_secs(5) + Duration::from_millis(*millisecond);
            sources.takes(now, address(1), 50, 1)
        });
        let taken = taken.count();
        assert!((595..=605).contains(&taken), "{taken} in ten seconds");
        let now = Nanos::from_secs(15);
        let others = (2..=100).filter(|last| sources.takes(now, address(*last), 50, 1));
        assert!(others.count() >= 98);
    }

    #[test]
    fn only_the_receiver_of_a_probe_can_answer_it_and_only_for_a_while() {
        let mut sources = SourceFilter::new(7);
        let (peer, other) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from([192, 0, 2, 2]));
        let now = Nanos::from_secs(100);
        let asked = sources.cookie(peer, period(now));
        assert!(!sources.answered(now, other, asked));
        assert!(!sources.answered(now, peer, asked ^ 1));
        assert!(sources.answered(now + Duration::from_secs(3), peer, asked));
        assert!(sources.has_answered(now + Duration::from_secs(60), peer));
        assert!(!sources.has_answered(now + Duration::from_secs(64), peer));
        assert!(!sources.answered(now + Duration::from_secs(60), peer, asked));
    }

    #[test]
    fn what_is_remembered_of_sources_is_bounded() {
        let mut sources = SourceFilter::new(7);
        for number in 0..3_000u32 {
            let address = IpAddr::from(number.to_be_bytes());
            let asked = sources.cookie(address, 0);
            assert!(sources.answered(Nanos::ZERO, address, asked));
        }
        assert_eq!(sources.verified.len(), MOST_VERIFIED);
    }
}
