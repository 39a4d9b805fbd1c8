//! A control plane that retransmits by T1 and N1, and a network that loses, duplicates and reorders, both ways, from
//! one seed: the peer's view equals the state.

use crate::support;

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use flow::Nanos;
use n4::{Config, Transmit};
use proptest::prelude::*;

use support::wire::*;
use support::*;

const T1: Duration = Duration::from_millis(500);
const N1: u32 = 6;

/// What may happen to a datagram.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// Per cent that are lost.
    loss: u8,
    /// Per cent that come twice.
    duplication: u8,
    /// Delays, at most, in milliseconds; unequal ones reorder.
    delay: u64,
}

struct Network {
    trouble: Trouble,
    seed: u64,
    flying: BTreeMap<(Nanos, u64), (bool, Vec<u8>)>,
    count: u64,
}

impl Network {
    /// Numbers enough for dice (splitmix64).
    fn dice(&mut self) -> u64 {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn throw(&mut self, now: Nanos, to_upf: bool, octets: &[u8]) {
        let copies = if self.dice() % 100 < u64::from(self.trouble.duplication) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            if self.dice() % 100 >= u64::from(self.trouble.loss) {
                let delay = Duration::from_millis(1 + self.dice() % self.trouble.delay.max(1));
                self.count += 1;
                self.flying
                    .insert((now + delay, self.count), (to_upf, octets.to_vec()));
            }
        }
    }
}

/// A request until it is answered.
struct Outstanding {
    octets: Vec<u8>,
    next: Nanos,
    retries: u32,
}

struct Peer {
    outstanding: BTreeMap<u32, Outstanding>,
    responses: BTreeMap<u32, Vec<u8>>,
    failed: usize,
}

struct Play {
    world: World,
    network: Network,
    peer: Peer,
}

impl Play {
    fn new(trouble: Trouble, seed: u64) -> Play {
        let mut world = World::with(Config {
            t1: T1,
            n1: N1,
            ..World::config(2)
        });
        world.associate();
        let network = Network {
            trouble,
            seed,
            flying: BTreeMap::new(),
            count: 0,
        };
        let peer = Peer {
            outstanding: BTreeMap::new(),
            responses: BTreeMap::new(),
            failed: 0,
        };
        Play { world, network, peer }
    }

    fn request(&mut self, message_type: u8, seid: u64, ies: &[Octets]) -> u32 {
        let sequence = self.world.next_sequence();
        let octets = message(message_type, Some(seid), sequence, ies);
        let now = self.world.now;
        self.network.throw(now, true, &octets);
        self.peer.outstanding.insert(
            sequence,
            Outstanding {
                octets,
                next: now + T1,
                retries: 0,
            },
        );
        sequence
    }

    /// Plays until no request is outstanding.
    fn settle(&mut self) {
        while !self.peer.outstanding.is_empty() {
            let retransmission = self.peer.outstanding.values().map(|request| request.next).min();
            let arrival = self.network.flying.keys().next().map(|(at, _)| *at);
            let timeout = self.world.n4.poll_timeout();
            let next = [retransmission, arrival, timeout]
                .into_iter()
                .flatten()
                .min()
                .unwrap();
            self.world.now = next.max(self.world.now);
            self.world.n4.handle_timeout(self.world.now);
            self.arrive();
            self.retransmit();
            let sent: Vec<Transmit> = self.world.run().into_iter().map(|reply| reply.0).collect();
            sent.iter()
                .for_each(|transmit| self.network.throw(self.world.now, false, &transmit.bytes));
        }
    }

    fn arrive(&mut self) {
        while let Some(entry) = self
            .network
            .flying
            .first_entry()
            .filter(|entry| entry.key().0 <= self.world.now)
        {
            let (to_upf, octets) = entry.remove();
            if to_upf {
                self.world
                    .n4
                    .handle_datagram(self.world.now, smf(), upf(), &octets);
                continue;
            }
            let sequence = u32::from_be_bytes([0, octets[12], octets[13], octets[14]]);
            self.peer.outstanding.remove(&sequence);
            let first = self
                .peer
                .responses
                .entry(sequence)
                .or_insert_with(|| octets.clone());
            assert_eq!(*first, octets, "every answer to one request is the same");
        }
    }

    fn retransmit(&mut self) {
        let now = self.world.now;
        let Play { peer, network, .. } = self;
        peer.outstanding.retain(|_, request| {
            if request.next > now {
                return true;
            }
            request.retries += 1;
            request.next = now + T1;
            if request.retries > N1 {
                peer.failed += 1;
                return false;
            }
            network.throw(now, true, &request.octets);
            true
        });
    }

    fn response(&self, sequence: u32) -> Option<Reply> {
        let bytes = self.peer.responses.get(&sequence)?.clone().into();
        Some(Reply(Transmit {
            from: upf(),
            to: smf(),
            bytes,
        }))
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_peers_view_equals_the_state(
        loss in 0u8..40, duplication in 0u8..60, delay in 1u64..400, seed: u64,
    ) {
        let mut play = Play::new(Trouble { loss, duplication, delay }, seed);
        let establishing: Vec<u32> = (0..20u8)
            .map(|cp| play.request(50, 0, &plain_session(u64::from(cp), Ipv4Addr::new(10, 45, 2, cp))))
            .collect();
        play.settle();
        let seids: Vec<u64> =
            establishing.iter().filter_map(|sequence| Some(play.response(*sequence)?.up_seid())).collect();
        prop_assert_eq!(seids.len() + play.peer.failed, 20);
        prop_assert!(play.world.sessions() >= seids.len() && play.world.sessions() <= 20);

        let moved = |teid| update_far(&[far_id(2), update_forwarding(&[outer_header_creation(teid, GNB)])]);
        let modifying: Vec<u32> = seids.iter().map(|seid| play.request(52, *seid, &[moved(*seid as u32 | 1)])).collect();
        play.settle();
        for (seid, sequence) in seids.iter().zip(&modifying) {
            if let Some(reply) = play.response(*sequence) {
                reply.assert_accepted();
                let session = play.world.n4.sessions().session(session::Seid(*seid)).unwrap();
                let header = session.rules().far(rules::model::FarId(2)).unwrap().forwarding.unwrap();
                prop_assert_eq!(header.outer_header_creation.unwrap().teid.0, *seid as u32 | 1);
            }
        }

        let deleting: Vec<u32> = seids.iter().map(|seid| play.request(54, *seid, &[])).collect();
        play.settle();
        for (seid, sequence) in seids.iter().zip(&deleting) {
            if let Some(reply) = play.response(*sequence) {
                reply.assert_accepted();
                prop_assert!(play.world.n4.sessions().session(session::Seid(*seid)).is_none());
            }
        }
        play.world.associate();
        play.world.assert_clean();
    }
}
