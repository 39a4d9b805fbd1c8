//! Associations that we set up (TS 29.244 §6.2.6.3): with peers that accept, refuse, are silent, ask at the same time,
//! restart and release, over good networks and bad ones.

use crate::support;

use std::collections::BTreeMap;
use std::time::Duration;

use flow::Nanos;
use n4::{Config, Smf};
use pfcp::MessageType;
use pfcp::ie::{CpFunctionFeatures, NodeId, UpFunctionFeatures};
use pfcp::message::Message;
use proptest::prelude::*;

use support::wire::*;
use support::*;

const SECOND: Duration = Duration::from_secs(1);
const SETUP: MessageType = MessageType::ASSOCIATION_SETUP_REQUEST;
const ACCEPTED: u8 = 1;
const REFUSED: u8 = 64;

fn asking() -> Config {
    Config {
        smfs: vec![Smf {
            address: SMF_ADDRESS.into(),
            local: upf(),
        }],
        setup_retry: SECOND * 10,
        setup_retry_most: SECOND * 60,
        ..World::config(2)
    }
}

fn cause(value: u8) -> Octets {
    ie(19, [value])
}

fn response(sequence: u32, cause_value: u8, started: u32) -> Octets {
    let ies = [
        node_v4(SMF_ADDRESS),
        cause(cause_value),
        recovery(started),
        cp_features(3),
    ];
    message(6, None, sequence, &ies)
}

impl World {
    /// Lets time pass and answers the one set-up request that goes out, to the SMF.
    #[track_caller]
    fn asks(&mut self, after: Duration) -> Reply {
        let mut sent = self.pass(after);
        assert_eq!(sent.len(), 1, "{sent:?}");
        let request = sent.remove(0);
        assert_eq!(request.header().message_type, SETUP);
        assert_eq!((request.0.from, request.0.to), (upf(), smf()));
        request
    }

    fn answers(&mut self, request: &Reply, cause_value: u8, started: u32) {
        let octets = response(request.header().sequence.get(), cause_value, started);
        assert_eq!(self.send(smf(), &octets), []);
    }

    /// With an association that we have set up.
    fn set_up_by_us(config: Config) -> World {
        let mut world = World::with(config);
        let request = world.asks(Duration::ZERO);
        world.answers(&request, ACCEPTED, 100);
        assert_eq!(world.n4.associations().count(), 1);
        world
    }
}

#[test]
fn a_configured_smf_is_asked_and_its_answer_is_the_association() {
    let mut world = World::with(asking());
    assert_eq!(world.n4.poll_timeout(), Some(Nanos::ZERO));
    let request = world.asks(Duration::ZERO);
    let Message::AssociationSetupRequest(setup) = request.message() else {
        panic!()
    };
    assert_eq!(setup.node_id, NodeId::Ipv4(UPF_ADDRESS));
    assert_eq!(setup.recovery_time_stamp.unix(), UPF_START);
    let features = setup.up_function_features.unwrap();
    assert!(features.contains(UpFunctionFeatures::FTUP | UpFunctionFeatures::BUNDL));
    assert_eq!(setup.cp_function_features, None);

    world.answers(&request, ACCEPTED, 100);
    let association = world.n4.associations().next().unwrap();
    assert_eq!((association.peer, association.local), (smf(), upf()));
    assert_eq!(association.recovery.0, 100);
    assert!(
        association
            .features
            .contains(CpFunctionFeatures::LOAD | CpFunctionFeatures::OVRL)
    );
    let seid = world.establish(1, UE);
    world.ask(54, Some(seid), &[]).assert_accepted();
    assert_eq!(world.pass(SECOND * 1000), [], "no other peer is to be asked");
}

#[test]
fn the_request_is_sent_again_the_same_and_after_its_end_anew_after_growing_pauses() {
    let mut world = World::with(asking());
    let mut request = world.asks(Duration::ZERO);
    for pause in [10, 20, 40, 60, 60] {
        for _ in 0..3 {
            assert_eq!(world.asks(SECOND), request, "T1, byte for byte");
        }
        assert_eq!(world.pass(SECOND), [], "given up");
        assert_eq!(world.pass(SECOND * pause - Duration::from_nanos(1)), []);
        let next = world.asks(Duration::from_nanos(1));
        assert_ne!(next.header().sequence, request.header().sequence);
        request = next;
    }
    world.answers(&request, ACCEPTED, 100);
    assert_eq!(world.n4.associations().count(), 1);
}

#[test]
fn a_refusal_is_no_association_and_is_not_insisted_on() {
    let mut world = World::with(asking());
    for (number, pause) in [(1, 10), (2, 20), (3, 40)] {
        let request = world.asks(Duration::ZERO);
        world.answers(&request, REFUSED, 100);
        assert_eq!(world.n4.associations().count(), 0);
        assert_eq!(world.n4.counters().setups_refused, number);
        assert_eq!(world.pass(SECOND * pause - Duration::from_nanos(1)), []);
        world.now = world.now + Duration::from_nanos(1);
    }
    let request = world.asks(Duration::ZERO);
    let unmatched = message(6, None, request.header().sequence.get(), &[cause(ACCEPTED)]);
    assert_eq!(world.send(smf(), &unmatched), []);
    assert_eq!(world.n4.associations().count(), 0, "it does not say who it is");
    assert_eq!(world.n4.counters().setups_refused, 4);
}

#[test]
fn sd_core_answers_with_the_number_one() {
    let mut world = World::with(asking());
    let request = world.asks(Duration::ZERO);
    assert!(request.header().sequence.get() > 2, "drawn by the seed");
    world.send(smf(), &response(2, ACCEPTED, 100));
    world.send("10.100.0.3:8805".parse().unwrap(), &response(1, ACCEPTED, 100));
    assert_eq!(world.n4.associations().count(), 0, "another number, another peer");
    world.send(smf(), &response(1, ACCEPTED, 100));
    assert_eq!(world.n4.associations().count(), 1);
    assert_eq!(world.n4.outstanding(), (0, 0));
    world.send(smf(), &response(1, REFUSED, 100));
    assert_eq!(world.n4.counters().unmatched_responses, 3);
}

#[test]
fn when_both_sides_ask_at_once_there_is_one_association() {
    let mut world = World::with(asking());
    let request = world.asks(Duration::ZERO);
    world.associate();
    let seid = world.establish(1, UE);
    world.answers(&request, ACCEPTED, 100);
    assert_eq!(world.n4.associations().count(), 1);
    assert_eq!(world.sessions(), 1);
    world.ask(54, Some(seid), &[]).assert_accepted();
    assert_eq!(world.pass(SECOND * 1000), []);

    let mut world = World::with(asking());
    let request = world.asks(Duration::ZERO);
    world.associate();
    world.answers(&request, REFUSED, 100);
    assert_eq!(world.n4.associations().count(), 1, "it has asked itself");
    assert_eq!(world.pass(SECOND * 1000), []);
}

#[test]
fn a_peer_with_an_association_is_not_probed() {
    let mut world = World::with(asking());
    world.associate();
    assert_eq!(world.pass(SECOND * 1000), []);
    assert_eq!(world.n4.counters().requests, 0);
}

#[test]
fn a_peer_that_has_released_its_association_is_left_alone_for_the_longest_pause() {
    let mut world = World::set_up_by_us(asking());
    world.ask(9, None, &[node_v4(SMF_ADDRESS)]).assert_accepted();
    assert_eq!(world.pass(SECOND * 60 - Duration::from_nanos(1)), []);
    let request = world.asks(Duration::from_nanos(1));
    world.answers(&request, ACCEPTED, 100);
    assert_eq!(world.n4.associations().count(), 1);
}

#[test]
fn a_peer_that_has_restarted_is_asked_at_once_and_its_sessions_are_gone() {
    let mut world = World::set_up_by_us(Config {
        heartbeat_interval: Some(SECOND * 7),
        ..asking()
    });
    world.establish(1, UE);
    let beat = world.pass(SECOND * 7).remove(0);
    world.send(
        smf(),
        &message(2, None, beat.header().sequence.get(), &[recovery(200)]),
    );
    assert_eq!(world.sessions(), 0);
    let request = world.asks(Duration::ZERO);
    world.answers(&request, ACCEPTED, 200);
    assert_eq!(world.n4.associations().next().unwrap().recovery.0, 200);
    assert_eq!(world.n4.counters().peer_restarts, 1);
}

#[test]
fn a_peer_out_of_reach_is_asked_until_it_answers_and_keeps_its_sessions_if_it_has_not_restarted() {
    for (started, sessions) in [(100, 1), (200, 0)] {
        let mut world = World::set_up_by_us(Config {
            heartbeat_interval: Some(SECOND * 100),
            ..asking()
        });
        world.establish(1, UE);
        world.pass(SECOND * 100);
        for _ in 0..4 {
            world.pass(SECOND);
        }
        assert!(!world.n4.associations().next().unwrap().reachable);
        assert_eq!(world.pass(SECOND * 10 - Duration::from_nanos(1)), []);
        let request = world.asks(Duration::from_nanos(1));
        world.answers(&request, ACCEPTED, started);
        assert!(world.n4.associations().next().unwrap().reachable);
        assert_eq!(world.sessions(), sessions);
    }
}

/// A control plane function that restarts, is sometimes unwilling, and behind a network that loses and delays.
struct Peer {
    started: u32,
    is_willing: bool,
    seed: u64,
    flying: BTreeMap<(Nanos, u64), (bool, Octets)>,
    count: u64,
    loss: u8,
}

impl Peer {
    fn dice(&mut self) -> u64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    fn throw(&mut self, now: Nanos, to_upf: bool, octets: &[u8]) {
        for _ in 0..1 + self.dice() % 2 {
            if self.dice() % 100 >= u64::from(self.loss) {
                let delay = Duration::from_millis(1 + self.dice() % 300);
                self.count += 1;
                self.flying
                    .insert((now + delay, self.count), (to_upf, octets.to_vec()));
            }
        }
    }

    /// What it answers to a request of ours.
    fn reply(&self, request: &[u8]) -> Option<Octets> {
        let sequence = u32::from_be_bytes([0, request[4], request[5], request[6]]);
        let verdict = if self.is_willing { ACCEPTED } else { REFUSED };
        match request[1] {
            1 => Some(message(2, None, sequence, &[recovery(self.started)])),
            5 => Some(response(sequence, verdict, self.started)),
            _ => None,
        }
    }
}

fn play(world: &mut World, peer: &mut Peer, until: Nanos) {
    loop {
        let arrival = peer.flying.keys().next().map(|(at, _)| *at);
        let next = [arrival, world.n4.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(Nanos::MAX);
        if next > until {
            break;
        }
        world.now = world.now.max(next);
        while let Some(entry) = peer
            .flying
            .first_entry()
            .filter(|entry| entry.key().0 <= world.now)
        {
            let (to_upf, octets) = entry.remove();
            if to_upf {
                world.n4.handle_datagram(world.now, smf(), upf(), &octets);
            } else if let Some(reply) = peer.reply(&octets) {
                peer.throw(world.now, true, &reply);
            }
        }
        world.n4.handle_timeout(world.now);
        for sent in world.run() {
            peer.throw(world.now, false, &sent.0.bytes);
        }
    }
    world.now = until;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a peer does and a network loses: when the peer is willing and the network good again, there is one
    /// association, with the peer as it lives now.
    #[test]
    fn in_the_end_there_is_one_association_with_the_peer_that_lives(
        seed: u64,
        loss in 0u8..70,
        turns in prop::collection::vec((0u8..4, 1u64..200), 1..8),
    ) {
        let mut world = World::with(Config { heartbeat_interval: Some(SECOND * 5), ..asking() });
        let mut peer = Peer { started: 100, is_willing: true, seed, flying: BTreeMap::new(), count: 0, loss };
        for (turn, seconds) in turns {
            match turn {
                0 => peer.started += 1,
                1 => peer.is_willing = !peer.is_willing,
                2 => {
                    let sequence = world.next_sequence();
                    let ies = [node_v4(SMF_ADDRESS), recovery(peer.started)];
                    peer.throw(world.now, true, &message(5, None, sequence, &ies));
                }
                _ => {
                    let sequence = world.next_sequence();
                    peer.throw(world.now, true, &message(9, None, sequence, &[node_v4(SMF_ADDRESS)]));
                }
            }
            let until = world.now + SECOND * seconds as u32;
            play(&mut world, &mut peer, until);
        }
        (peer.is_willing, peer.loss) = (true, 0);
        let until = world.now + SECOND * 200;
        play(&mut world, &mut peer, until);
        let all: Vec<_> = world.n4.associations().collect();
        prop_assert_eq!(all.len(), 1);
        prop_assert!(all[0].reachable);
        prop_assert_eq!(all[0].recovery.0, peer.started);
    }
}
